"""Which convention a model family uses: what its config.json leaves to the code that reads it.

Layout, bases and the order of axes were read in the modelling code of transformers 5.24, one file a family,
``models/<family>/``; Kimi K2 runs DeepSeek-V3's. What ships its own code was read in vLLM,
``model_executor/models/<family>.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Layer:
    """A layer type with frequencies of its own: how configs that do not nest it spell its base."""

    base: float
    base_key: str = "rope_theta"
    scaled: bool = True     # whether an old config's one rope_scaling is meant for it
    rope: dict[str, object] = field(default_factory=dict)       # its parameters where a config has none
    head_dim: int | None = None     # its width, where it has one of its own that no global_head_dim names


@dataclass(frozen=True)
class Family:
    """One convention.

    head: "plain", a head_dim, or hidden_size over heads; "tail", the same, but the last coordinates turn;
    "mla", qk_nope_head_dim coordinates copied, then qk_rope_head_dim turned. mrope: how three axes share one
    spectrum, see `huggingface.axes_of`. share: the softmax scale takes YaRN's mscale_all_dim. inverse: the
    model turns by -p w. tempered: it also multiplies queries, by 1 + beta ln(1 + floor(p / L0)).
    """

    layout: str
    base: float = 10000.0
    part: float = 1.0
    head: str = "plain"
    mrope: str = ""
    sections: tuple[int, ...] = ()
    share: bool = False
    inverse: bool = False
    tempered: bool = False
    layers: dict[str, Layer] = field(default_factory=dict)


@dataclass(frozen=True)
class Vision:
    """A vision tower: the preset, its base, and the keys of the width and of what divides it."""

    preset: str
    width: str = "hidden_size"
    over: tuple[str, ...] = ("num_attention_heads",)
    base: float = 10000.0


def _rows(families: str, *form, **keywords) -> dict[str, Family]:
    return dict.fromkeys(families.split(), Family(*form, **keywords))


_GEMMA3 = {"full_attention": Layer(1e6),
           "sliding_attention": Layer(1e4, "rope_local_base_freq", scaled=False)}
_GEMMA4 = {"full_attention": Layer(1e6, head_dim=512, rope={"rope_type": "proportional",
                                                            "partial_rotary_factor": 0.25}),
           "sliding_attention": Layer(1e4, scaled=False)}
_MODERNBERT = {"full_attention": Layer(160000.0, "global_rope_theta"),
               "sliding_attention": Layer(1e4, "local_rope_theta")}
_OLMO3 = {"full_attention": Layer(5e5), "sliding_attention": Layer(5e5, scaled=False)}
_MIMO2 = {"full_attention": Layer(5e6), "sliding_attention": Layer(1e4, "swa_rope_theta")}
_DEEPSEEK4 = {"main": Layer(1e4, scaled=False),
              "compress": Layer(160000.0, "compress_rope_theta", rope={"attention_factor": 1.0})}

FAMILIES = {
    **_rows("llama mistral qwen2 qwen2_moe qwen3 qwen3_moe gemma gemma2 starcoder2 olmo olmo2 olmoe granite "
            "granitemoe granitemoeshared falcon falcon_h1 exaone4 arcee seed_oss dots1 diffllama doge phi3 "
            "hunyuan_v1_dense hunyuan_v1_moe afmoe aria_text chameleon dbrx eurobert exaone_moe granite_swa "
            "granitemoe_swa granitemoehybrid hrm_text hyperclovax idefics jais2 ministral moshi olmo_hybrid "
            "phi4_multimodal vaultgemma jetmoe esmc timesfm2_5 t5_gemma_module deepseek_ocr2_text "
            "unlimited_ocr_text granite4_vision_text granite_docling_text molmo2_text dia_encoder mimi "
            "dia_decoder kyutai_speech_to_text higgs_audio_v2 lasr_encoder voxtral_realtime_encoder "
            "voxtral_realtime_text xcodec2", "half"),
    **_rows("ministral3", "half", tempered=True),
    **_rows("internlm2 minicpm", "half"),                # these ship their own code
    **_rows("mixtral phimoe cwm lfm2 lfm2_moe minimax solar_open emu3_text_model",
            "half", 1e6),
    **_rows("bitnet csm csm_depth_decoder_model flex_olmo mllama_text_model evolla", "half", 5e5),
    **_rows("apertus apertus1p5_text", "half", 12e6), **_rows("hy_v3", "half", 11158840.0),
    **_rows("smollm3", "half", 2e6), **_rows("gpt_oss", "half", 150000.0),
    **_rows("minimax_m2", "half", 5e6), **_rows("nomic_bert", "half", 1000.0),
    **_rows("gte", "half", 160000.0), **_rows("jina_embeddings_v3", "half", 20000.0),
    **_rows("nanochat", "half", inverse=True),
    **_rows("gpt_neox stablelm qwen3_next", "half", part=0.25), **_rows("gpt_neox_japanese", "half"),
    **_rows("phi persimmon nemotron glm4_moe bamba recurrent_gemma glmasr_encoder", "half", part=0.5),
    **_rows("gemma3_text gemma3 gemma3n_text gemma3n t5gemma2_text t5gemma2_decoder", "half",
            layers=_GEMMA3),
    **_rows("mimo_v2_flash", "half", part=0.334, layers=_MIMO2),
    **_rows("gemma4_text gemma4", "half", layers=_GEMMA4),
    **_rows("modernbert modernbert-decoder", "half", layers=_MODERNBERT),
    **_rows("olmo3", "half", layers=_OLMO3),
    **_rows("gptj codegen cohere2 cohere2_moe blt_patcher", "interleaved"),
    **_rows("cohere llama4_text llama4 ernie4_5 ernie4_5_moe blt_global_transformer blt_local_encoder "
            "blt_local_decoder", "interleaved", 5e5),
    **_rows("openai_privacy_filter", "interleaved", 150000.0),
    **_rows("pe_audio_encoder pe_video_encoder pe_audio_video_encoder", "interleaved", 20000.0),
    **_rows("glm glm4", "interleaved", part=0.5), **_rows("helium", "interleaved", 1e5),
    **_rows("deepseek_v2 deepseek_v3 deepseek_v32 kimi_k2 youtu axk1 glm4_moe_lite glm_moe_dsa",
            "interleaved", head="mla", share=True),
    **_rows("mistral4", "interleaved", head="mla", share=True, tempered=True),
    **_rows("bailing_hybrid", "interleaved", 6e6, head="mla", share=True),
    **_rows("longcat_flash", "interleaved", 1e7, head="mla", share=True),
    **_rows("minicpm3", "half", head="mla", share=True),
    **_rows("deepseek_v4", "interleaved", part=64 / 512, head="tail", layers=_DEEPSEEK4),
    **_rows("qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text qwen2_5_omni_text qwen2_5_omni_talker", "half",
            1e6, mrope="chunked", sections=(16, 24, 24)),
    **_rows("paddleocr_vl_text paddleocr_vl", "half", 5e5, mrope="chunked", sections=(16, 24, 24)),
    **_rows("glm4v_text glm4v glm_ocr_text glm_ocr", "interleaved", mrope="chunked", sections=(8, 12, 12)),
    **_rows("glm4v_moe_text glm4v_moe", "half", part=0.5, mrope="chunked", sections=(8, 12, 12)),
    **_rows("qwen3_vl_text qwen3_vl qwen3_vl_moe_text qwen3_vl_moe", "half", 5e5, mrope="interleaved",
            sections=(24, 20, 20)),
    **_rows("cosmos3_edge_text cosmos3_edge", "half", 1e8, mrope="interleaved", sections=(24, 20, 20)),
    **_rows("qwen3_5_text qwen3_5 qwen3_5_moe_text qwen3_5_moe", "half", part=0.25, mrope="interleaved",
            sections=(11, 11, 10)),
    **_rows("ernie4_5_vl_moe_text ernie4_5_vl_moe", "interleaved", 5e5, mrope="alternating",
            sections=(22, 22, 20)),
}

# Models whose layers of full attention turn nothing, if others have a window.
STILL = frozenset("cohere2 afmoe exaone4 exaone_moe".split())
# Models whose layer_rope_theta overrides rope_theta, which stands for layers without a base of their own.
LISTED = frozenset(("granite_swa", "granitemoe_swa"))

VISION = {
    "pixtral": Vision("pixtral"),
    "llama4_vision_model": Vision("llama4_vision"),
    "dinov3_vit": Vision("dinov3", base=100.0),
    "sam3_vit_model": Vision("sam2"),
    "sam2_video": Vision("sam2", "memory_attention_hidden_size",
                         ("memory_attention_downsample_rate", "memory_attention_num_attention_heads")),
    "qwen2_vl_vision": Vision("qwen2_vl_vision", "embed_dim", ("num_heads",)),
    "qwen2_5_vl_vision": Vision("qwen2_vl_vision", over=("num_heads",)),
    "qwen3_vl_vision": Vision("qwen2_vl_vision", over=("num_heads",)),
    **dict.fromkeys(("qwen3_vl_moe_vision", "qwen3_5_vision", "qwen3_5_moe_vision",
                     "qwen2_5_omni_vision_encoder", "qwen3_omni_moe_vision_encoder"),
                    Vision("qwen2_vl_vision", over=("num_heads",))),
}
