"""Calls that Python refuses: keywords of other libraries, arguments by place, arguments left out.

Each text says what pe calls the same thing, or how the call is written.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

_NOTHING = "pe has no such thing"


def _table(*rows):
    """{peer's keyword: advice} from rows of (advice, keywords)."""
    return {keyword: advice for advice, keywords in rows for keyword in keywords.split()}


_TURN = _table(
    ("pe takes freqs=", "inv_freq"),
    ("pe takes base=", "theta rope_theta rotary_base max_wavelength freq_base base_frequency"),
    ('pe takes layout="interleaved" (pairs 2l, 2l+1) or layout="half" (pairs l, l+L)',
     "interleaved interleave rotary_interleaved traditional is_neox_style is_neox rotate_half"),
    ("pe takes inverse=True", "conjugate"),
    ("pe takes out=x", "inplace"),
)
_ROPE = _TURN | _table(
    ("pe takes positions=, one for each row", "position_ids pos input_pos cache_position"),
    ("pe takes positions=np.arange(offset, offset + T)",
     "offset offsets start_pos start_index start_positions seqlen_offset seqlen_offsets"),
    ("pe takes rotary_dim=, a count of coordinates",
     "dims n_dims rope_dim rotary_embedding_dim partial_rotary_factor rope_proportion rotary_pct"),
    ("pe takes rope=pe.Rope(D, base, scaling=...)",
     "scaling_factor rope_scale rope_scaling rope_type freq_scale ext_factor attn_factor"),
    ("pe takes x as (..., T, D): x.swapaxes(-3, -2) if heads stand behind rows",
     "sequence_axis feature_axis seq_dim tensor_format"),
    ("pe takes cos and sin, the two halves of it", "cos_sin_cache"),
    ("pe takes cos and sin, here freqs_cis.real and freqs_cis.imag", "freqs_cis"),
    ("pe takes cos and sin", "cos_cache sin_cache cos_cached sin_cached"),
    ("pe takes tables with the axes of x, cos[:, None]", "unsqueeze_dim"),
)
_DESCRIPTION = _TURN | _table(
    ("pe takes dim=, the width of a head", "head_dim d_head width hidden_size"),
    ("pe takes rotary_dim=, a count of coordinates",
     "dims rope_dim rotary_embedding_dim partial_rotary_factor rotary_pct"),
    ("pe takes scaling=, one of pe.scaling, and pe.Rope.from_hf(config) reads a whole config",
     "rope_scaling scaling_factor rope_type rope_parameters scale factor"),
    ("pe takes rotary_offset=, where the part that turns begins", "qk_nope_head_dim start_index n_offs"),
    ("pe takes amplitude=", "attention_factor attention_scaling attn_factor mscale"),
    (f"{_NOTHING}, as no table is kept: any position will do",
     "max_position_embeddings max_seq_len max_seq_length seq_len max_len"),
    (f"{_NOTHING}: angles are float64, and a result has the dtype of x", "dtype device"),
) | _table((f"{_NOTHING} here; rope.apply(x, positions, inverse=True) turns back", "conjugate inverse"),
           (f"{_NOTHING} here; rope.apply(x, positions, out=x) works in place", "inplace out"))
_ROPE_2D = _TURN | _table(
    ("pe takes pos_x and pos_y, one for each row", "positions position_ids pos offset cos sin freqs_cis"),
    ("pe takes pos_x and pos_y, from pe.grid_positions(height, width)", "grid"),
    ("all D coordinates turn; slice x to turn fewer", "rotary_dim dims rope_dim rotary_embedding_dim"),
)
_ROPE_ND = _TURN | _table(
    ("pe takes positions, (..., n_axes): one row of coordinates for each row of x", "position_ids pos grid"),
    ("pe takes positions, np.stack([pos_x, pos_y], axis=-1)", "pos_x pos_y"),
    ("pe takes freqs (n_axes, L), such as rope.freqs",
     "rope base theta rope_theta rotary_base max_wavelength freq_base base_frequency"),
    ("pe takes freqs, whose L planes turn the first 2L coordinates", "rotary_dim dims rope_dim"),
    ("pe takes freqs with a row for each axis, zeros where an axis does not turn a plane",
     "mrope_section sections"),
    ("pe takes rate=, a fall for each plane and axis", "decay gamma decay_rate"),
    ("pe takes rate=, +rate for queries and -rate for keys", "scale xpos_scale scale_base use_xpos"),
    ("use apply_rope, which takes tables", "cos sin"),
)
_BIAS = _table(
    ("pe takes q_positions and k_positions", "position_ids positions"),
    ("pe takes q_positions=np.arange(offset, offset + M) and k_positions=np.arange(N)", "offset"),
    ("pe takes ints or arrays as q_positions and k_positions", "n_q n_k seq_len seqlen max_seq_len"),
    ("pe takes causal=", "is_causal"),
    ("pe takes causal=False", "bidirectional symmetric"),
)
_DECAY = _BIAS | _table(
    ("pe takes rate= (fall of a logit a position) or multiplier= (e^-rate, RetNet's gamma)", "gamma decay"),
    ("pe takes rate=", "decay_rate"),
    ("pe takes rate=-log_decay", "log_decay"),
    ("pe takes clock=, learned time such as -np.cumsum(log_gates)", "g gates log_gates log_f"),
    ("pe takes rate=, or alibi_bias(..., slopes=)", "slopes"),
)
_ALIBI = _BIAS | _table(
    ("pe takes slopes=", "alibi_slopes slope m rate"),
    ("pe takes slopes=pe.alibi_slopes(H, max_bias=8.0)", "n_heads num_heads max_bias alibi_bias_max"),
)
_ATTENTION = _table(
    ("pe takes q, k and v", "query key value queries keys values"),
    ("pe takes causal=", "is_causal use_causal_mask"),
    ("pe takes mask= (bool, True = may attend) or bias= (added to the scores)", "attn_mask attention_mask"),
    ("pe takes mask=~key_padding_mask[:, None, None], as True = may attend here", "key_padding_mask"),
    ("pe takes bias=", "attn_bias"),
    ("pe takes scale=", "sm_scale softmax_scale scaling"),
    ("pe takes alibi_slopes=", "slopes"),
    ("pe takes alibi_slopes=pe.alibi_slopes(H)", "alibi use_alibi"),
    ("pe takes decay_rate=", "rate"),
    ("pe takes decay_rate=, which is -ln of a factor a position", "gamma decay log_decay"),
    ("pe takes q_positions= and k_positions=", "position_ids positions cache_position"),
    ("pe takes q_positions=np.arange(offset, offset + M)", "offset q_offset start_pos"),
    ("K key heads serve H query heads by their shapes, if K divides H", "enable_gqa num_kv_heads num_heads"),
    ("pe takes return_lse=", "return_residual return_softmax_lse return_logsumexp return_aux"),
    ("pe takes rope=pe.Rope(D, base, layout=...), or apply_rope on q and k before",
     "cos sin base layout freqs inv_freq rope_theta interleaved rotary_interleaved"),
    ("pe takes window=w with causal=True, w counting the query's own key",
     "sliding_window sliding_window_size"),
    ("pe takes window=(left, right), with None in place of -1",
     "window_size local_window_size left_window_size right_window_size"),
    ("pe takes softcap=, with None in place of 0",
     "logit_softcapping attn_logit_softcapping logits_soft_cap logit_cap logit_softcap soft_cap"),
    ("pe takes sinks=, a logit a query head",
     "s_aux learnable_sink head_sink sink attn_sink attention_sinks"),
    ("pe takes sinks=0.0", "smooth_softmax softmax_off_by_one add_zero_attn"),
    ("pe takes segments=, a number a row that queries and keys of one text share",
     "segment_ids q_segment_ids kv_segment_ids seq_idx sequence_ids document_ids block_mask"),
    ("pe takes segments=(t // c, s // c), positions cut into chunks of c",
     "attention_chunk attention_chunk_size"),
    ("pe takes segments=np.repeat(np.arange(len(cu) - 1), np.diff(cu)) for texts packed into one row",
     "cu_seqlens cu_seqlens_q cu_seqlens_k cu_seq_lens_q cu_seq_lens_k"),
    ("pe takes kv_lengths=, the keys in use of each batch row",
     "cache_seqlens seqlens_k seqused_k nonpad_kv_seqlen key_value_seq_lengths seq_lens lengths"),
    ("pe takes clock=, learned time such as -np.cumsum(log_gates), with causal=True",
     "g log_f log_forget forget_gate fgate_logits log_gates"),
    ("pe takes softcap=, bias=, alibi_slopes= and decay_rate=, in this order", "score_mod"),
    ("pe takes k and v, old rows and new ones in one array",
     "past_key past_value past_key_values kv_cache k_cache v_cache"),
    (f"{_NOTHING} as dropout", "dropout dropout_p dropout_rate"),
    ("the weights are never formed; pe.attention_weights shows them, return_lse=True their normaliser",
     "need_weights return_weights return_attn_probs output_attentions"),
)
_MERGE = _table(
    ("pe takes outs, a list of arrays or parts stacked along the first axis",
     "out_partial xs o output outputs"),
    ("pe takes lses, natural logarithms, one for each row of outs", "lse_partial lse softmax_lse lse_list"),
    ("give the sinks to one of the parts, attention(..., sinks=)", "sinks sink"),
)
_WEIGHTS = {peer: advice for peer, advice in _ATTENTION.items() if advice != "pe takes return_lse="} | _table(
    ("the result is the weights alone; pe.attention has these", "v value return_lse out num_threads"),
    ('pe takes stage="scores", "softcapped", "biased" or "weights"',
     "qk_matmul_output_mode output need_weights"),
)
_RETENTION = _table(
    ("pe takes q, k and v", "query key value queries keys values"),
    ("pe takes rate=, the negative logarithm of a factor a position", "g gk log_decay log_gamma decay"),
    ("pe takes rate=", "slope_rate slopes decay_rate alibi_slopes"),
    ("pe takes rate=np.log(2) / half_life", "half_life"),
    ("pe takes multiplier=, e^-rate", "gamma"),
    ("pe takes clock=pe.clock(log_gates)", "gates log_gates"),
    ("pe takes state=pe.RetentionState(S)", "initial_state past_state past_key_value recurrent_state"),
    ("pe takes return_state=True", "output_final_state use_cache return_final_state"),
    ("pe takes scale=", "sm_scale softmax_scale scaling"),
    ("pe takes positions=, one for each row", "q_positions k_positions position_ids offset cache_position"),
    ("pe takes rope=pe.Rope(D, base, layout=...), or apply_rope on q and k before",
     "cos sin base layout freqs inv_freq rope_theta sincos"),
    (f"{_NOTHING}: a row sees itself and the rows before it, always",
     "causal is_causal mask attn_mask window"),
    (f"{_NOTHING}: chunks are chosen inside and change nothing but rounding",
     "chunk_size block_size chunkwise_recurrent mode"),
    ("pe takes q, k and v with heads before rows, (..., H, T, D): q.swapaxes(-3, -2)", "head_first"),
    ("pe takes rate=, which is the gated rule, or rate=0, the linear one", "update_rule"),
)
_CONVERT = _table(
    ("pe takes head_dim=, the width of a head: key matrices have fewer heads",
     "n_heads num_heads n_head num_kv_heads"),
    ("pe takes axis=", "dim"),
    ("pe takes rotary_dim=, a count of coordinates", "dims rope_dim rotary_pct partial_rotary_factor"),
)
_SIZES = (("pe takes base=", "theta rope_theta"), (f"{_NOTHING}: tables are float64", "dtype device"))
_CACHE = _table(
    *_SIZES,
    ("pe takes seq_len=", "max_seq_len max_position_embeddings max_len end length"),
    ("pe takes head_dim=", "dim d_head width"),
    (f"{_NOTHING} here; use pe.Rope(dim, freqs=freqs).cache(positions)",
     "freqs inv_freq positions position_ids offset"),
    ("the tables have one column for each plane; pe.apply_rope(x, cos, sin, layout=...) pairs them",
     "layout interleaved"),
)
_SINUSOIDAL = _table(
    *_SIZES,
    ("pe takes positions=, np.arange(T)", "max_len max_seq_len seq_len length num_embeddings position_ids"),
    ("pe takes positions=np.arange(offset, offset + T)", "offset start_pos"),
    ("pe takes dim=", "d_model embedding_dim hidden_size width"),
)
_SLOPES = _table(
    ("pe takes n_heads=", "num_heads num_attention_heads n_head H heads"),
    ("pe takes max_bias=", "alibi_bias_max"),
)
_GRID = _table(
    ("pe takes height and width", "h w H W rows cols grid_size size"),
    ("pe takes further axes by place, grid_positions(frames, height, width)", "frames depth time more t"),
    ("pe takes prefix=, a count of tokens in front", "num_prefix_tokens cls_token offset"),
)
_FROM_MASK = _table(
    ("pe takes mask=, bool: attention_mask.astype(bool)", "attention_mask attn_mask padding_mask"),
    ("pe takes mask=~key_padding_mask, as True is a token here", "key_padding_mask"),
    (f"{_NOTHING} here; use pe.positions_from_lengths for packed rows", "lengths cu_seqlens seqlens"),
    ("add the offset to the result; pe takes mask= alone", "offset past_key_values_length start_pos"),
)
_FROM_LENGTHS = _table(
    ("pe takes lengths=np.diff(cu_seqlens)", "cu_seqlens cu_seqlens_q cu_seqlens_k offsets"),
    ("pe takes lengths=", "seqlens seq_lens sequence_lengths"),
    (f"{_NOTHING} here; use pe.positions_from_mask for padded batches", "mask attention_mask"),
)
_CLOCK = _table(
    ("pe takes log_gates=", "g log_f log_forget"),
    ("pe takes log_gates=np.log(gates)", "gates forget_gate gamma decay"),
    ("pe takes axis=", "dim time_axis"),
)
_POSITIONS = _table(
    ("pe takes positions=", "position_ids pos input_pos cache_position seq_len max_seq_len"),
    ("pe takes positions=np.arange(offset, offset + T)", "offset start_pos"),
    (f"{_NOTHING} here; it is set in Rope(dim, base, layout=...)",
     "base theta rope_theta layout interleaved freqs inv_freq"),
)
_APPLY = _POSITIONS | _table(("pe takes out=x", "inplace"))
_SHIFT = _table(
    ("pe takes k=, which apply returned", "x key keys"),
    ("pe takes delta=, how far to move", "offset shift positions position_ids amount"),
    ("pe takes delta=-delta to move back", "inverse"),
)
_MATRIX = _table(("pe takes position=", "positions position_ids pos offset p"))
_FROM_HF = _table(
    ("pe takes config=, the dict that json.load makes of a config.json",
     "path hf_config rope_scaling rope_parameters pretrained_model_name_or_path"),
    ("pe takes layer_type=, such as \"full_attention\"", "layer layer_idx attention_type is_sliding"),
    ('pe takes layout="interleaved" (pairs 2l, 2l+1) or layout="half" (pairs l, l+L)',
     "interleaved traditional is_neox_style is_neox"),
    ("pe takes seq_len=, the length to serve",
     "max_seq_len max_model_len max_position max_len seq_length context max_position_embeddings"),
    ("pe reads it in config; change it there, {**config, ...}",
     "model_type head_dim dim base theta rope_theta partial_rotary_factor rotary_dim rope_type"),
    (f"{_NOTHING}: frequencies are float64", "dtype device"),
)
_EXPLAIN = _table(("pe takes context=, a count of positions",
                   "context_length seq_len max_seq_len max_position_embeddings max_len length n_ctx"))
_BOUND = _table(
    ("pe takes position=", "positions position_ids pos p offset max_position seq_len"),
    ("pe takes dtype=", "precision torch_dtype"),
)
_CHECK = _table(
    ("pe takes fn=, the function itself", "f func function rope_fn apply_fn"),
    ("pe takes head_dim=", "dim d_head width D"),
    ('pe takes axes=, such as "BTHD"', "tensor_format qkv_format format unsqueeze_dim"),
    ("pe takes expect=pe.Rope(head_dim, base, layout=...), and finds out what it is not told",
     "layout base theta rope_theta interleaved rotary_dim rope reference expected"),
    ("pe takes tolerance=", "tol atol rtol"),
    ("pe takes max_position=", "max_pos max_seq_len max_position_embeddings seq_len positions"),
    ("pe takes dtypes=, a list of names", "dtype"),
    ('pe takes arrays="torch" for tensors', "backend framework torch device"),
)
_EXTENSION = _table(
    ("pe takes factor=", "scaling_factor scale s rope_scale"),
    (f"{_NOTHING} here; it is set in Rope(dim, base, layout=..., scaling=...)",
     "base theta rope_theta dim head_dim rotary_dim layout"),
    (f"{_NOTHING} here; pe.Rope.from_hf(config) reads a whole config", "rope_type type config finetuned"),
)
_TRAINED = _EXTENSION | _table(
    ("pe takes original_max_position_embeddings=, the context of training",
     "max_position_embeddings old_context_len original original_max_position original_context n_ctx_orig"),
)
_AMPLITUDE = _table(("pe takes attention_factor=", "attn_factor attention_scaling amplitude"))
_CHOSEN = _table(("pe takes seq_len=, the length to serve", "max_seq_len max_model_len length"))
_YARN = _TRAINED | _AMPLITUDE | _table(
    ("pe takes beta_fast= (32) and beta_slow= (1)", "alpha beta low_freq_factor high_freq_factor"),
    (f"{_NOTHING}: planes are extrapolated in full, factor 1", "extrapolation_factor ext_factor"),
)
_LONGROPE = _TRAINED | _AMPLITUDE | _CHOSEN | _table(
    ("pe takes short_factor= and long_factor=", "rescale_factors scaling_factors ext_factors"),
)
del _LONGROPE["max_position_embeddings"]
_DYNAMIC = _EXTENSION | _CHOSEN | _table(
    ("pe takes max_position_embeddings=, up to which nothing is scaled",
     "original_max_position_embeddings max_position max_pos"),
    (f"{_NOTHING} here; a fixed alpha is the factor= of pe.scaling.ntk", "alpha"),
)
_PRESET = _table(
    ("pe takes dim=, the width of a head", "head_dim d_head width embed_dim hidden_size"),
    ("pe takes base=", "theta rope_theta"),
    (f"{_NOTHING} here: a preset has its model's layout; pe.convert_layout moves weights",
     "layout interleaved"),
    (f"{_NOTHING} here; positions go into apply_rope(x, positions=..., rope=...)",
     "height grid grid_size end_x end_y positions"),
)
PEERS = {"Rope": _DESCRIPTION, "apply_rope": _ROPE, "apply_rope_2d": _ROPE_2D, "apply_rope_nd": _ROPE_ND,
         "decay_bias": _DECAY, "alibi_bias": _ALIBI, "attention": _ATTENTION, "merge_attention": _MERGE,
         "attention_weights": _WEIGHTS, "retention": _RETENTION, "build_rope_cache": _CACHE,
         "convert_layout": _CONVERT,
         "sinusoidal": _SINUSOIDAL, "alibi_slopes": _SLOPES, "grid_positions": _GRID,
         "positions_from_mask": _FROM_MASK, "positions_from_lengths": _FROM_LENGTHS, "clock": _CLOCK,
         "Rope.cache": _POSITIONS, "Rope.apply": _APPLY, "Rope.shift": _SHIFT, "Rope.matrix": _MATRIX,
         "Rope.from_hf": _FROM_HF, "Rope.explain": _EXPLAIN, "Rope.error_bound": _BOUND,
         "check_rope": _CHECK, "scaling.linear": _EXTENSION, "scaling.dynamic_ntk": _DYNAMIC,
         "scaling.ntk": _EXTENSION | _table(("pe takes factor=", "alpha")),
         "scaling.proportional": _EXTENSION | _table(
             ("pe takes partial_rotary_factor=", "rope_proportion proportion rotary_pct part")),
         "scaling.yarn": _YARN, "scaling.llama3": _TRAINED, "scaling.longrope": _LONGROPE,
         **dict.fromkeys(("presets.dinov3", "presets.llama4_vision", "presets.pixtral",
                          "presets.qwen2_vl_vision", "presets.rope_vit_axial", "presets.sam2"), _PRESET),
         "presets.qwen2_vl": _PRESET | _table(("pe takes sections=", "mrope_section"))}
CALLS = {
    "Rope": 'Rope(64, layout="half")',
    "apply_rope": "apply_rope(x, positions=np.arange(T)), with one call for queries and one for keys",
    "apply_rope_2d": 'apply_rope_2d(x, pos_x, pos_y, layout="half")',
    "apply_rope_nd": 'apply_rope_nd(x, positions, freqs, layout="half")',
    "decay_bias": "decay_bias(M, N, rate=0.1)",
    "alibi_bias": "alibi_bias(M, N, slopes=pe.alibi_slopes(H))",
    "attention": "attention(q, k, v, mask=mask, causal=True)",
    "attention_weights": "attention_weights(q, k, causal=True), as weights need no v",
    "merge_attention": "merge_attention([out1, out2], [lse1, lse2])",
    "retention": "retention(q, k, v, multiplier=0.9)",
    "build_rope_cache": "build_rope_cache(T, 64)",
    "convert_layout": 'convert_layout(weight, "interleaved", "half", axis=0, head_dim=64)',
    "sinusoidal": "sinusoidal(np.arange(T), 64)",
    "alibi_slopes": "alibi_slopes(H)",
    "grid_positions": "grid_positions(4, 6)",
    "positions_from_mask": "positions_from_mask(mask)",
    "positions_from_lengths": "positions_from_lengths([3, 2])",
    "clock": "clock(np.log(gates))",
    "Rope.cache": "Rope(64).cache(np.arange(T))",
    "Rope.apply": "Rope(x.shape[-1]).apply(x, np.arange(T))",
    "Rope.shift": "Rope(x.shape[-1]).shift(x, -10), with x that apply returned",
    "Rope.matrix": "Rope(64).matrix(3)",
    "Rope.from_hf": "Rope.from_hf(config), with config a dict that json.load makes of a config.json",
    "Rope.explain": "Rope(64).explain(4096)",
    "Rope.error_bound": 'Rope(64).error_bound(131071, "float32")',
    "check_rope": "check_rope(fn), with fn a function of x (B, H, T, D) and positions (T,)",
    "scaling.linear": "scaling.linear(4.0)",
    "scaling.ntk": "scaling.ntk(4.0)",
    "scaling.dynamic_ntk": "scaling.dynamic_ntk(4.0, 4096), with the context up to which nothing is scaled",
    "scaling.proportional": "scaling.proportional(0.25)",
    "scaling.yarn": "scaling.yarn(4.0, 32768), with the factor and the context of training",
    "scaling.llama3": "scaling.llama3(8.0)",
    "scaling.longrope": "scaling.longrope([1.0] * 32, [4.0] * 32, 4096, 32.0), with a divisor for each plane",
    "presets.dinov3": "presets.dinov3(64)",
    "presets.llama4_vision": "presets.llama4_vision(88)",
    "presets.pixtral": "presets.pixtral(64)",
    "presets.qwen2_vl": "presets.qwen2_vl(128)",
    "presets.qwen2_vl_vision": "presets.qwen2_vl_vision(80)",
    "presets.rope_vit_axial": "presets.rope_vit_axial(64)",
    "presets.sam2": "presets.sam2(64)",
}
_HOMES = {"scaling", "presets"}                             # modules whose names users write before a call

_Op = TypeVar("_Op", bound=Callable[..., Any])


def explain_keywords(op: _Op) -> _Op:
    """Decorate an op, or a method, so that a TypeError about its arguments says what to type instead.

    The signature stays the true one, and a good call pays for one more function call.
    """
    name, home = op.__qualname__.removesuffix(".__init__"), op.__module__.split(".")[1]
    name = f"{home}.{name}" if home in _HOMES else name
    parameters = inspect.signature(op).parameters
    own = {key: each for key, each in parameters.items() if key not in ("self", "cls")}
    hidden = len(parameters) - len(own)
    endless = bool([own.pop(key) for key, each in [*own.items()] if each.kind is each.VAR_POSITIONAL])
    places = [key for key, each in own.items() if each.kind is each.POSITIONAL_OR_KEYWORD]
    needed = [key for key, each in own.items() if each.default is each.empty]

    @functools.wraps(op)
    def call(*args, **keywords):
        try:
            return op(*args, **keywords)
        except TypeError:
            text = _explanation(name, args[hidden:], keywords, own, places, needed, endless)
            if text is None:
                raise
            raise TypeError(text) from None

    return cast(_Op, call)


def unknown_name(module: str, name: str, names: Iterable[str]) -> AttributeError:
    """Return the error of a module that has no such name, with the nearest that it has."""
    import difflib  # as below

    own = [each for each in names if not each.startswith("_")]
    part = [each for each in own if each in name or name in each]
    near = [] if name.startswith("_") else difflib.get_close_matches(name, own, n=1) or part[:1]
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}")


def _explanation(op, args, keywords, own, places, needed, endless):
    """Return what is wrong with the arguments as such, or None if Python takes them."""
    for keyword in keywords:
        if keyword not in own:
            return _unknown(op, keyword, own)
    if len(args) > len(places) and not endless:
        rest = f"; everything after {places[-1]} is by keyword" if len(own) > len(places) else ""
        return f"{op}() takes {', '.join(places)} by place, and got {len(args)}{rest}; call {CALLS[op]}"
    missing = [name for name in needed if name not in keywords and name not in places[:len(args)]]
    return f"{op}() is missing {', '.join(missing)}; call {CALLS[op]}" if missing else None


def _unknown(op, keyword, own):
    text = f"{op}() has no keyword {keyword}="
    if keyword in PEERS[op]:
        return f"{text}; {PEERS[op][keyword]}"
    import difflib  # here, as a good import of pe should not wait for it

    near = difflib.get_close_matches(keyword, own, n=1)
    return f"{text}; did you mean {near[0]}=?" if near else f"{text}; it takes {', '.join(own)}"
