"""Keys beside the rope of a config: misspelt ones, those at odds with the rope, harmless ones."""

import pytest

from pe import Rope

LLAMA = {"model_type": "llama", "hidden_size": 256, "num_attention_heads": 4, "max_position_embeddings": 8192}


@pytest.mark.parametrize("keys, words", [
    ({"rope_tehta": 5e5}, "unknown key 'rope_tehta'; did you mean 'rope_theta'"),
    ({"rope_base": 5e5}, "'rope_base'; did you mean 'rope_theta'"),
    ({"rope_scalling": {"type": "linear", "factor": 2.0}}, "'rope_scalling'; did you mean 'rope_scaling'"),
    ({"rpoe_theta": 5e5}, "'rpoe_theta'; did you mean 'rope_theta'"),
    ({"partial_rotry_factor": 0.5}, "'partial_rotry_factor'; did you mean 'partial_rotary_factor'"),
    ({"my_rotary_trick": 3}, "unknown key 'my_rotary_trick'; leave it out"),
    ({"rope_type": "yarn"}, "'rope_type' beside its rope; it belongs inside rope_parameters"),
    ({"rotary": False}, "rotary False, which pe does not read; expected True"),
    ({"rope_theta": 5e5, "rope_parameters": {"rope_theta": 1e4}},
     "rope_theta 500000.0, and rope_parameters has rope_theta 10000.0"),
    ({"rotary_emb_base": 5e5, "rope_parameters": {"rope_theta": 1e4}}, "rotary_emb_base 500000.0, and rope_"),
    ({"layer_rope_theta": [1e4, 5e5]}, r"several bases, \[10000.0, 500000.0\]"),
    ({"layer_rope_theta": [1e4, 0], "rope_theta": 5e5},
     "layer_rope_theta 10000.0, and it also has rope_theta 500000.0; keep"),
    ({"layer_rope_theta": [1e4, 0], "rope_parameters": {"rope_theta": 5e5}},
     "layer_rope_theta 10000.0, and rope_parameters has rope_theta 500000.0; keep"),
])
def test_keys_beside_the_rope(keys, words):
    with pytest.raises(ValueError, match=words):
        Rope.from_hf({**LLAMA, **keys})


def test_keys_of_published_configs_beside_the_rope():
    harmless = {"rotary": True, "rope_tehta": None, "no_rope_layers": [1, 0], "use_mrope": False}
    assert Rope.from_hf({**LLAMA, **harmless}) == Rope.from_hf(LLAMA)
    same = {**LLAMA, "rope_theta": 5e5, "rope_parameters": {"rope_theta": 500000}}
    assert Rope.from_hf(same) == Rope.from_hf({**LLAMA, "layer_rope_theta": [0, 5e5, 5e5]})
    assert Rope.from_hf(same).base == 5e5
    for model in ("granite_swa", "granitemoe_swa"):             # whose code lets the list override the other
        assert Rope.from_hf({**LLAMA, "model_type": model, "rope_theta": 1e4, "layer_rope_theta": [5e5, 0]}
                            ).base == 5e5
    with pytest.raises(TypeError, match="layer_rope_theta must be a list"):
        Rope.from_hf({**LLAMA, "layer_rope_theta": 5e5})
