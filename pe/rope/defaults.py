"""What the configuration class of a model fills in where its config.json has nothing: sizes, and whole ropes.

A config that is saved as the differences from its class has no more than these differences. Read in the
configuration classes of transformers 5.24; which keys stand in a config at all is for `huggingface` to judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WIDTHS = ("hidden_size", "n_embd", "d_model")
HEADS = ("num_attention_heads", "n_head", "n_heads")
OWN = ("head_dim", "attention_head_dim", "kv_channels")
CONTEXTS = ("max_position_embeddings", "n_positions")


def _rows(names: str, width: int, heads: int, context: int | None) -> dict[str, tuple[int, int, int | None]]:
    return dict.fromkeys(names.split(), (width, heads, context))


# The width of the model, the count of its heads, its context.
SIZES = {
    **_rows("llama olmo olmo2 granite granitemoe granitemoeshared exaone4 hunyuan_v1_dense "
            "hunyuan_v1_moe aria_text exaone_moe granitemoe_swa granitemoehybrid hyperclovax "
            "idefics deepseek_ocr2_text granite4_vision_text olmo3 deepseek_v2", 4096, 32, 2048),
    **_rows("mistral ministral voxtral_realtime_text mixtral phimoe minimax mllama_text_model "
            "glm glm4", 4096, 32, 131072),
    **_rows("mimi", 512, 8, 8000), **_rows("lasr_encoder", 512, 8, 10000),
    **_rows("openai_privacy_filter", 640, 14, 131072), **_rows("nanochat", 768, 6, 2048),
    **_rows("nomic_bert", 768, 12, 2048),
    **_rows("eurobert gte modernbert modernbert-decoder blt_patcher", 768, 12, 8192),
    **_rows("csm_depth_decoder_model", 1024, 8, 33), **_rows("doge", 1024, 8, 2048),
    **_rows("dia_encoder", 1024, 16, 1024), **_rows("xcodec2", 1024, 16, 4096),
    **_rows("jina_embeddings_v3", 1024, 16, 8194),
    **_rows("blt_local_encoder blt_local_decoder", 1024, 16, 24576),
    **_rows("granite_docling_text", 1024, 16, 32768),
    **_rows("ernie4_5 paddleocr_vl_text paddleocr_vl glm_ocr_text glm_ocr", 1024, 16, 131072),
    **_rows("unlimited_ocr_text", 1280, 10, 32768), **_rows("timesfm2_5", 1280, 16, 16384),
    **_rows("glmasr_encoder", 1280, 20, 1500), **_rows("voxtral_realtime_encoder", 1280, 32, 1500),
    **_rows("hrm_text", 1536, 12, 2048),
    **_rows("pe_audio_encoder pe_video_encoder pe_audio_video_encoder", 1792, 14, 10000),
    **_rows("gemma3n_text gemma3n", 2048, 8, 32768), **_rows("dbrx", 2048, 16, None),
    **_rows("dia_decoder", 2048, 16, 3072), **_rows("olmoe blt_global_transformer", 2048, 16, 4096),
    **_rows("afmoe", 2048, 16, 16384),
    **_rows("qwen2_moe smollm3 qwen3_next qwen3_5_moe_text qwen3_5_moe", 2048, 16, 32768),
    **_rows("qwen3_vl_moe_text qwen3_vl_moe", 2048, 16, 128000),
    **_rows("youtu cosmos3_edge_text cosmos3_edge", 2048, 16, 131072),
    **_rows("glm4_moe_lite", 2048, 20, 202752), **_rows("kyutai_speech_to_text", 2048, 32, 750),
    **_rows("diffllama csm phi", 2048, 32, 2048), **_rows("jetmoe", 2048, 32, 4096),
    **_rows("qwen3_moe", 2048, 32, 32768), **_rows("lfm2_moe", 2048, 32, 128000),
    **_rows("gemma2 vaultgemma t5_gemma_module", 2304, 8, 8192),
    **_rows("gemma3_text gemma3 t5gemma2_text t5gemma2_decoder gemma4_text gemma4", 2304, 8, 131072),
    **_rows("recurrent_gemma", 2560, 10, None), **_rows("bitnet", 2560, 20, 2048),
    **_rows("helium", 2560, 20, 4096), **_rows("granite_swa", 2560, 20, 8192),
    **_rows("ernie4_5_moe ernie4_5_vl_moe_text ernie4_5_vl_moe", 2560, 20, 131072),
    **_rows("bailing_hybrid", 2560, 32, None), **_rows("gpt_neox_japanese", 2560, 32, 2048),
    **_rows("arcee stablelm", 2560, 32, 4096), **_rows("lfm2", 2560, 32, 128000),
    **_rows("esmc", 2560, 40, 2048), **_rows("minicpm3", 2560, 40, 32768),
    **_rows("gpt_oss", 2880, 64, 131072), **_rows("gemma", 3072, 16, 8192),
    **_rows("higgs_audio_v2", 3072, 24, 2048), **_rows("starcoder2", 3072, 24, 4096),
    **_rows("phi3", 3072, 32, 4096), **_rows("phi4_multimodal", 3072, 32, 131072),
    **_rows("minimax_m2", 3072, 48, 196608), **_rows("jais2", 3328, 26, 8192),
    **_rows("qwen2_5_omni_text qwen2_5_omni_talker", 3584, 28, 32768),
    **_rows("olmo_hybrid", 3840, 30, 65536), **_rows("gptj codegen", 4096, 16, 2048),
    **_rows("qwen3_5_text qwen3_5", 4096, 16, 32768), **_rows("moshi", 4096, 32, 3000),
    **_rows("chameleon flex_olmo", 4096, 32, 4096), **_rows("falcon_h1 evolla", 4096, 32, 8192),
    **_rows("emu3_text_model", 4096, 32, 9216), **_rows("qwen2 qwen3 glm4v_text glm4v", 4096, 32, 32768),
    **_rows("molmo2_text", 4096, 32, 36864), **_rows("apertus apertus1p5_text", 4096, 32, 65536),
    **_rows("qwen3_vl_text qwen3_vl", 4096, 32, 128000), **_rows("ministral3 bamba", 4096, 32, 262144),
    **_rows("mistral4", 4096, 32, 1048576), **_rows("persimmon", 4096, 64, 16384),
    **_rows("solar_open hy_v3 mimo_v2_flash", 4096, 64, 131072), **_rows("deepseek_v4", 4096, 64, 1048576),
    **_rows("seed_oss", 4096, 80, 524288), **_rows("glm4v_moe_text glm4v_moe", 4096, 96, 65536),
    **_rows("glm4_moe", 4096, 96, 131072), **_rows("falcon", 4544, 71, 2048),
    **_rows("dots1", 4608, 32, 2048), **_rows("llama4_text llama4", 5120, 40, 131072),
    **_rows("nemotron", 6144, 48, 4096), **_rows("cwm", 6144, 48, 131072),
    **_rows("gpt_neox", 6144, 64, 2048), **_rows("longcat_flash", 6144, 64, 131072),
    **_rows("glm_moe_dsa", 6144, 64, 202752), **_rows("axk1", 7168, 64, 32768),
    **_rows("deepseek_v3", 7168, 128, 4096), **_rows("deepseek_v32", 7168, 128, 163840),
    **_rows("cohere2 cohere2_moe cohere", 8192, 64, 8192),
    **_rows("qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text", 8192, 64, 32768),
}

# Widths of heads that are no hidden_size over heads.
HEAD_DIMS = {
    **dict.fromkeys(
        "qwen3 seed_oss afmoe hrm_text molmo2_text dia_encoder dia_decoder higgs_audio_v2 "
        "ministral3 cwm solar_open hy_v3 minimax_m2 cohere2_moe llama4_text llama4 ernie4_5 "
        "pe_audio_encoder pe_video_encoder pe_audio_video_encoder glm glm4 helium "
        "qwen2_5_omni_talker paddleocr_vl_text paddleocr_vl qwen3_vl_text qwen3_vl "
        "cosmos3_edge_text cosmos3_edge".split(), 128),
    **dict.fromkeys(
        "gemma gemma2 vaultgemma t5_gemma_module qwen3_next gemma3_text gemma3 gemma3n_text "
        "gemma3n t5gemma2_text t5gemma2_decoder gemma4_text gemma4 qwen3_5_text qwen3_5 "
        "qwen3_5_moe_text qwen3_5_moe".split(), 256),
    **dict.fromkeys("voxtral_realtime_encoder xcodec2 gpt_oss openai_privacy_filter".split(), 64),
    "timesfm2_5": 80, "mimo_v2_flash": 192, "deepseek_v4": 512, "jetmoe": 128,
}

# Coordinates of a head that are copied, and that turn, where a model counts them apart.
LATENT = {
    **dict.fromkeys("deepseek_v2 deepseek_v3 deepseek_v32 youtu axk1 bailing_hybrid longcat_flash".split(),
                    (128, 64)),
    **dict.fromkeys(("glm4_moe_lite", "glm_moe_dsa"), (192, 64)), "mistral4": (64, 64), "minicpm3": (64, 32),
}

_LLAMA3 = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 8192}
_GPT_OSS = {"rope_type": "yarn", "factor": 32.0, "truncate": False, "original_max_position_embeddings": 4096}
_MISTRAL = {"rope_type": "yarn", "mscale": 1.0, "mscale_all_dim": 1.0}

# Ropes that are not of the default type.
ROPES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("apertus", "apertus1p5_text"), {**_LLAMA3, "factor": 8.0}),
    "cwm": {**_LLAMA3, "factor": 16.0},
    "higgs_audio_v2": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 0.125,
                       "high_freq_factor": 0.5, "original_max_position_embeddings": 1024, "rope_theta": 5e5},
    **dict.fromkeys(("gpt_oss", "openai_privacy_filter"), _GPT_OSS),
    "ministral3": {**_MISTRAL, "factor": 16.0, "original_max_position_embeddings": 16384, "rope_theta": 1e6},
    "mistral4": {**_MISTRAL, "factor": 128.0, "original_max_position_embeddings": 8192},
}

_TOWER = {"hidden_size": 1024, "num_attention_heads": 16}
TOWERS: dict[str, dict[str, Any]] = {
    "pixtral": _TOWER, "sam3_vit_model": _TOWER,
    "llama4_vision_model": {"hidden_size": 768, "num_attention_heads": 16},
    "dinov3_vit": {"hidden_size": 384, "num_attention_heads": 6},
    "sam2_video": {"memory_attention_hidden_size": 256, "memory_attention_downsample_rate": 1,
                   "memory_attention_num_attention_heads": 1},
    "qwen2_vl_vision": {"embed_dim": 1280, "num_heads": 16},
    **dict.fromkeys(("qwen2_5_vl_vision", "qwen2_5_omni_vision_encoder"),
                    {"hidden_size": 3584, "num_heads": 16}),
    **dict.fromkeys(("qwen3_vl_vision", "qwen3_vl_moe_vision", "qwen3_5_vision", "qwen3_5_moe_vision",
                     "qwen3_omni_moe_vision_encoder"), {"hidden_size": 1152, "num_heads": 16}),
}


def defaults_of(model: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys, with their values, that the model's class adds to a config.

    A size that stands in the config under any of its names is not added, also where it is null.
    """
    if model in TOWERS:
        return {key: value for key, value in TOWERS[model].items() if key not in config}
    width, heads, context = SIZES.get(model, (None, None, None))
    nope, turned = LATENT.get(model, (None, None))
    trained = 4096 if model in ("phi3", "phi4_multimodal") and not _names_training(config) else None
    offers = ((WIDTHS, width), (HEADS, heads), (OWN, HEAD_DIMS.get(model)), (CONTEXTS, context),
              (("qk_nope_head_dim",), nope), (("qk_rope_head_dim",), turned),
              (("rotary_dim",), 64 if model in ("gptj", "codegen") else None),
              (("original_max_position_embeddings",), trained))
    added: dict[str, Any] = {
        names[0]: value for names, value in offers
        if value is not None and not any(name in config for name in names)}
    if model in ROPES and not config.get("rope_scaling") and config.get("rope_parameters") is None:
        beside = config.get("rope_theta")
        added["rope_parameters"] = ROPES[model] if beside is None else {**ROPES[model], "rope_theta": beside}
    return added


def _names_training(config: Mapping[str, Any]) -> bool:
    ropes = (config.get(name) for name in ("rope_scaling", "rope_parameters"))
    return any(isinstance(rope, Mapping) and "original_max_position_embeddings" in rope for rope in ropes)
