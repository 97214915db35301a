"""Configs without a rotary encoding: refused, with what marks the positions there."""

import pytest

from pe import Rope

LLAMA = {"model_type": "llama", "hidden_size": 256, "num_attention_heads": 4, "max_position_embeddings": 8192}


@pytest.mark.parametrize("config, words", [
    ({"model_type": "bert"}, "'bert' has no rotary encoding: .*learned vector for each position"),
    ({"model_type": "xglm"}, "'xglm' has no rotary encoding: .*pe.sinusoidal"),
    ({"model_type": "t5"}, "'t5' has no rotary encoding: .*bucket of gaps.*bias="),
    ({"model_type": "mamba"}, "'mamba' has no rotary encoding: .*one row after the other"),
    ({"model_type": "bloom"}, r"'bloom' has no rot.* slides: pe.attention\(..., .*pe.alibi_slopes\(4\)\)$"),
    ({"model_type": "mpt", "num_attention_heads": None}, r"'mpt' .*pe.alibi_slopes\(n_heads\)\)$"),
    ({"model_type": "falcon", "alibi": True}, r"pe.alibi_slopes\(4\) / head_dim\*\*0.5\)"),
    ({"model_type": "bert", "position_embedding_type": "alibi"}, '"alibi", so this model .* slides'),
    ({"use_alibi": True}, '"use_alibi", so this model .* slides'),
    ({"model_type": "granitemoehybrid", "position_embedding_type": "nope"}, '"nope", so this model turns'),
    ({"model_type": "granitemoehybrid"}, "'granitemoehybrid' turns nothing unless .* is 'rope'; got None"),
    ({"model_type": "brand_new", "position_embedding_type": "absolute"}, "'absolute', .* expected 'rope' or"),
    ({"model_type": "chatglm", "rope_ratio": 500}, "rope_ratio 500, .*write rope_theta"),
])
def test_models_that_do_not_turn_or_not_so(config, words):
    for layout in (None, "half"):
        with pytest.raises(ValueError, match=words):
            Rope.from_hf({**LLAMA, **config}, layout=layout)
    assert Rope.from_hf({**LLAMA, "use_alibi": False}) == Rope.from_hf(LLAMA)
    assert Rope.from_hf({**LLAMA, "rope_ratio": 1, "position_embedding_type": "rope"}) == Rope.from_hf(LLAMA)
    for model, kind in (("granitemoehybrid", "rope"), ("brand_new", "rotary"), ("modernbert", "absolute")):
        layer_type = "sliding_attention" if model == "modernbert" else None     # whose code does not read it
        assert Rope.from_hf({**LLAMA, "model_type": model, "position_embedding_type": kind},
                            layout="half", layer_type=layer_type) == Rope.from_hf(LLAMA)


@pytest.mark.parametrize("model", ["cohere2", "afmoe", "exaone4", "exaone_moe"])
def test_layers_that_turn_nothing(model):
    config = {"model_type": model, "head_dim": 64, "layer_types": ["sliding_attention", "full_attention"]}
    assert Rope.from_hf(config, layer_type="sliding_attention") == Rope.from_hf(config)
    with pytest.raises(ValueError, match="'full_attention', and these layers of .* turn nothing"):
        Rope.from_hf(config, layer_type="full_attention")
    config["sliding_window"] = None                             # then all layers are alike
    assert Rope.from_hf(config, layer_type="full_attention").dim == 64
