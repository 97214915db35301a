"""The rotary classes of transformers behind one call, for tests where transformers is installed."""

import importlib
import inspect

import torch
from transformers import CONFIG_MAPPING

OTHER_PARTS = ("Vision", "Audio", "DiT")            # of models that also have a rotary class for their text


def config_of(model_type, **changes):
    """The configuration of a model type with these changes."""
    return CONFIG_MAPPING[model_type](**changes)


def layer_types(config):
    """The names under which a configuration nests its rotary parameters; (None,) where it has one set."""
    rope = getattr(config, "rope_parameters", None) or {}
    return tuple(name for name, value in rope.items() if isinstance(value, dict)) or (None,)


def modelling_code(config):
    """The module that holds the classes for a configuration."""
    return importlib.import_module(type(config).__module__.replace(".configuration_", ".modeling_"))


def rotary_classes(module):
    """The classes of a module that make tables of cos and sin."""
    return [value for name, value in vars(module).items()
            if inspect.isclass(value) and name.endswith(("RotaryEmbedding", "RopePositionEmbedding"))
            and value.__module__ == module.__name__]


def made_for(cls):
    """The configuration that a rotary class says it takes."""
    parameter = inspect.signature(cls.__init__).parameters.get("config")
    return parameter and parameter.annotation


class Peer:
    """The rotary class that transformers builds for a text model, and how the model applies its tables.

    Parameters
    ----------
    config : transformers configuration
    layer_type : str, optional
        Which of its nested rotary parameters.

    Raises
    ------
    LookupError
        The model's module has no rotary class of its own for this configuration.
    """

    def __init__(self, config, layer_type=None):
        self.module, self.config = modelling_code(config), config
        self.rotary = self._rotary_class()(config)
        takes_type = "layer_type" in inspect.signature(self.rotary.forward).parameters
        self.arguments = {"layer_type": layer_type} if takes_type else {}
        self.prefix = f"{layer_type}_" if takes_type else ""
        self.attention_scaling = getattr(self.rotary, self.prefix + "attention_scaling", 1.0)

    @property
    def inv_freq(self):
        """The frequencies in use, which may change with a call; None where the model keeps tables only."""
        return getattr(self.rotary, self.prefix + "inv_freq", None)

    def turn(self, x, positions):
        """Turn x (B, H, T, width) to positions, (B, T) or (3, B, T), with the model's own two functions.

        The result is in the order of x, also where the model leaves pairs in the order of halves.
        """
        with torch.no_grad():
            x = torch.from_numpy(x)
            return self._apply(x, self.rotary(x, torch.from_numpy(positions), **self.arguments)).numpy()

    def width(self, positions):
        """How many coordinates of a head turn, by the tables themselves."""
        tables = self.rotary(torch.zeros(1), torch.from_numpy(positions), **self.arguments)
        if torch.is_tensor(tables):                             # complex, one entry for each plane
            return 2 * tables.shape[-1]
        planes = self.config.rotary_dim // 2 if self.inv_freq is None else self.inv_freq.shape[-1]
        return 2 * planes if tables[0].shape[-1] == planes else tables[0].shape[-1]

    def _apply(self, x, tables):
        functions = vars(self.module)
        if "apply_rotary_pos_emb_interleave" in functions and getattr(self.config, "rope_interleave", True):
            first, second = functions["apply_rotary_pos_emb_interleave"](x, x, *tables)[0].chunk(2, dim=-1)
            return torch.stack((first, second), dim=-1).flatten(-2)
        if "apply_rotary_emb" in functions:
            apply = functions["apply_rotary_emb"]
            if "[:, :, None, :]" in inspect.getsource(apply):   # rows before heads
                return apply(x.transpose(1, 2), x.transpose(1, 2), tables)[0].transpose(1, 2)
            return apply(x, x, tables)[0]
        apply = functions["apply_rotary_pos_emb"]
        second = list(inspect.signature(apply).parameters)[1]
        if second == "sin":                                     # sine first, rows before heads
            return apply(x.transpose(1, 2), *tables).transpose(1, 2)
        return apply(x, *tables) if second == "cos" else apply(x, x, *tables)[0]

    def _rotary_class(self):
        own = rotary_classes(self.module)
        fitting = [cls for cls in own if made_for(cls) is type(self.config)]
        fitting = fitting or [cls for cls in own if not any(part in cls.__name__ for part in OTHER_PARTS)]
        if len(fitting) != 1:
            raise LookupError(f"{type(self.config).__name__} has {len(fitting)} rotary classes")
        return fitting[0]
