"""An op is called straight in C when the call is plain, and is a function to all who look at it."""

import copy
import functools
import gc
import inspect
import pickle
import pydoc
import sys
import threading
import traceback
import types
import weakref

import numpy as np
import pytest

import pe
from pe import _core, ops

OPS = {name: getattr(pe, name) for name in ops.__all__} | {"Rope.apply": pe.Rope.apply}
ROPE, STATE = pe.Rope(8), pe.RetentionState(np.zeros((2, 8, 8), np.float32))
X = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)
COS, SIN = pe.build_rope_cache(5, 8)
P, POINTS, FREQS = np.arange(5.0), np.ones((5, 2)), np.ones((2, 4))
AXES = pe.Rope(8, freqs=FREQS)
IDS, OUT, EACH = np.array([0, 0, 1, 1, 1]), np.empty_like(X), np.stack([P, P])
# Whatever a program calls in its inner loop: none of these may wait for Python.
PLAIN = {
    "apply_rope": [lambda f: f(X, COS, SIN), lambda f: f(X, cos=COS, sin=SIN, layout="half", inverse=True),
                   lambda f: f(X, COS, SIN, layout="neox", out=OUT, num_threads=1),
                   lambda f: f(X, positions=P), lambda f: f(X, positions=[0, 1, 2, 3, 4], base=500.0),
                   lambda f: f(X, positions=P, base=100, layout="half"),
                   lambda f: f(X, positions=P, rope=ROPE), lambda f: f(X, positions=P, rotary_dim=4),
                   lambda f: f(X, positions=POINTS, rope=AXES), lambda f: f(X, positions=P, freqs=FREQS[0]),
                   lambda f: f(X, positions=P, freqs=[1.0, 0.5], layout="rotate_half")],
    "Rope.apply": [lambda f: f(ROPE, X, P), lambda f: f(ROPE, X, P, inverse=True, out=OUT),
                   lambda f: f(AXES, X, POINTS)],
    "apply_rope_2d": [lambda f: f(X, P, P), lambda f: f(X, P, EACH, layout="split"),
                      lambda f: f(X, list(range(5)), P, base=100.0, layout="half", out=OUT)],
    "apply_rope_nd": [lambda f: f(X, POINTS, FREQS), lambda f: f(X, POINTS, FREQS, rate=0.1 * FREQS),
                      lambda f: f(X, positions=POINTS, freqs=FREQS, layout="neox", inverse=True)],
    "alibi_bias": [lambda f: f(5, slopes=0.5), lambda f: f(P, P, slopes=P, causal=False, dtype=np.float32)],
    "decay_bias": [lambda f: f(5, rate=0.5), lambda f: f(P, rate=[0.5, 1.0]), lambda f: f(5, clock=P)],
    "attention": [lambda f: f(X, X, X), lambda f: f(q=X, k=X, v=X, causal=True, out=OUT),
                  lambda f: f(X, X, X, window=2, causal=True), lambda f: f(X, X, X, window=(None, 1)),
                  lambda f: f(X, X, X, decay_rate=0.5), lambda f: f(X, X, X, clock=P, decay_rate=0.5),
                  lambda f: f(X, X, X, clock=(P, P), alibi_slopes=0.5), lambda f: f(X, X, X, segments=IDS),
                  lambda f: f(X, X, X, segments=(IDS, IDS), return_lse=True), lambda f: f(X, X, X, rope=ROPE),
                  lambda f: f(X, X, X, rope=AXES, q_positions=POINTS, k_positions=POINTS)],
    "attention_weights": [lambda f: f(X, X), lambda f: f(X, X, rope=ROPE, window=2, stage="biased")],
    "merge_attention": [lambda f: f([X, X], [X[..., 0].copy()] * 2)],
    "retention": [lambda f: f(X, X, X, rate=0.5), lambda f: f(X, X, X, clock=P),
                  lambda f: f(X, X, X, rate=P[:2]), lambda f: f(X, X, X, rate=0.5, rope=ROPE),
                  lambda f: f(X, X, X, rate=0.5, state=STATE),
                  lambda f: f(X, X, X, rate=0.5, rope=ROPE, positions=P)],
}


def parts(result):
    return [np.asarray(part) for part in (result if isinstance(result, tuple) else (result,))]


def frames_of(call, op):
    """Names of the Python functions that run in call(op), but for itself."""
    names = []

    def note(frame, event, argument):
        if event == "call":
            names.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        call(op)
    finally:
        sys.setprofile(None)
    return names[1:]


def test_every_op_has_an_entry_and_plain_calls():
    assert PLAIN.keys() == OPS.keys()
    assert {type(op) for op in OPS.values()} == {_core.Op}


@pytest.mark.parametrize("name", OPS)
def test_a_plain_call_runs_no_python(name):
    op = OPS[name]
    for call in PLAIN[name]:
        call(op)                                                # plans are made once
        assert frames_of(call, op) == []
        for got, want in zip(parts(call(op)), parts(call(op.__wrapped__)), strict=True):
            np.testing.assert_array_equal(got, want)
        assert frames_of(call, op.__wrapped__) != []


@pytest.mark.parametrize("name", ["apply_rope", "Rope.apply", "retention"])
def test_a_rope_of_another_class_or_width_is_read_by_python(name):
    class Other(pe.Rope):
        pass

    call = {"apply_rope": lambda rope: pe.apply_rope(X, positions=P, rope=rope),
            "Rope.apply": lambda rope: rope.apply(X, P),
            "retention": lambda rope: pe.retention(X, X, X, rate=0.5, rope=rope)}[name]
    np.testing.assert_array_equal(call(Other(8)), call(ROPE))
    with pytest.raises(ValueError, match="rope is for D = 6; the values have D = 8"):
        call(pe.Rope(6))


def test_multipliers_and_states_are_the_same_either_way():
    for keywords in ({"multiplier": 0.9}, {"multiplier": np.array([0.9, 0.5])}, {"half_life": 2.0}):
        np.testing.assert_array_equal(pe.decay_bias(4, **keywords), pe.decay_bias.__wrapped__(4, **keywords))
    state = None
    for _ in range(3):
        given = {"multiplier": 0.9, "rope": ROPE, "state": state, "return_state": True}
        out, after = pe.retention(X, X, X, **given)
        want, checked = pe.retention.__wrapped__(X, X, X, **given)
        np.testing.assert_array_equal(out, want)
        np.testing.assert_array_equal(after.S, checked.S)
        assert type(after) is pe.RetentionState and after[1:] == checked[1:]
        state = after
    assert state.position == 14 and type(state.position) is int


def test_a_state_of_another_length_is_read_by_python():
    with pytest.raises(ValueError, match="state.S has shape"):
        pe.retention(X, X, X, rate=0.5, state=tuple.__new__(pe.RetentionState, (1,)))


def test_the_softmax_scale_of_a_rope_is_the_default():
    rope = pe.Rope(8, softmax_scale=2.0)
    for keywords in ({}, {"scale": 0.25}):
        np.testing.assert_array_equal(pe.attention(X, X, X, rope=rope, **keywords),
                                      pe.attention.__wrapped__(X, X, X, rope=rope, **keywords))


# Arguments


NOTHING = (None, None, {}, None, None, None, None)


def of_merge(function, names=("outs", "lses"), defaults=(..., ...), places=2, python=NOTHING):
    """An Op with the entry of merge_attention, which takes nothing here, and another function behind it."""
    function.__qualname__ = "merge_attention"
    return _core.Op(function, names, defaults, places, python)


def test_what_is_not_plain_arrives_as_it_came():
    seen = []
    op = of_merge(lambda *args, **keywords: seen.append((args, keywords)))
    a, b = object(), object()
    calls = [((a, b), {}), ((a,), {"lses": b}), ((), {"lses": a, "outs": b}), ((), {}), ((a, b, a), {}),
             ((a,), {"outs": b}), ((a, b), {"other": a})]
    for args, keywords in calls:
        assert op(*args, **keywords) is None
        assert seen.pop() == (args, keywords)
    outs, lses = [X], [X[..., 0].copy()]
    assert isinstance(op(outs, lses), tuple) and not seen       # taken by the entry


def test_the_call_of_the_type_is_the_same():
    call = type(pe.apply_rope).__call__
    np.testing.assert_array_equal(call(pe.apply_rope, X, COS, sin=SIN), pe.apply_rope(X, COS, SIN))
    with pytest.raises(TypeError, match="has no keyword theta="):
        call(pe.apply_rope, X, theta=1.0)


def test_keywords_are_names_not_objects():
    made = {"".join(["la", "yout"]): "half", "".join(["cos", ""]): COS, "".join(["s", "in"]): SIN}
    want = pe.apply_rope(X, COS, SIN, layout="half")
    assert frames_of(lambda op: op(X, **made), pe.apply_rope) == []
    np.testing.assert_array_equal(pe.apply_rope(X, **made), want)


@pytest.mark.parametrize("arguments", [
    (print, ("outs", "lses"), (..., ...), 2, NOTHING), (len, (), (), 0, NOTHING), (3, (), (), 0, NOTHING),
    ()])
def test_what_has_no_entry_is_no_op(arguments):
    with pytest.raises((TypeError, ValueError, AttributeError)):
        _core.Op(*arguments)


@pytest.mark.parametrize("change", [
    {"names": ("outs",)}, {"defaults": (...,)}, {"places": 3}, {"places": -1}, {"python": ()},
    {"names": "ab"}, {"names": (1, 2)}, {"python": (None,) * 7}])
def test_a_signature_other_than_the_entry_has_is_refused(change):
    with pytest.raises((TypeError, ValueError)):
        of_merge(lambda: None, **change)


@pytest.mark.parametrize("name", OPS)
def test_wrong_calls_say_what_python_says(name):
    op, called = OPS[name], 0
    needed = [each.name for each in inspect.signature(op).parameters.values() if each.default is each.empty]
    for args, keywords in (((), {}), ((X,) * 30, {}), ((X,) * len(needed), {"foo": 1}),
                           ((X,) * len(needed), {needed[0]: 1}), ((), {needed[-1]: None})):
        with pytest.raises(TypeError) as said:
            op(*args, **keywords)
        with pytest.raises(TypeError) as wanted:
            op.__wrapped__(*args, **keywords)
        assert str(said.value) == str(wanted.value) and "\n" not in str(said.value)
        last = traceback.format_exception(said.value)[-1]
        assert last.startswith(f"TypeError: {str(said.value)[:20]}") and said.value.__suppress_context__ | (
            said.value.__context__ is None)
        called += 1
    assert called == 5


# What others see


@pytest.mark.parametrize("name", OPS)
def test_an_op_looks_like_its_function(name):
    op, function = OPS[name], inspect.unwrap(OPS[name])
    assert inspect.isfunction(function) and function is op.__wrapped__.__wrapped__
    for attribute in ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__"):
        assert getattr(op, attribute) == getattr(function, attribute)
    assert inspect.signature(op) == inspect.signature(function)
    assert callable(op) and inspect.isroutine(op) and inspect.getdoc(op) == inspect.getdoc(function)
    source = inspect.getsource(op).lstrip()
    assert source.startswith("@plain_first\n") or name == "Rope.apply"
    assert f"def {function.__name__}(" in source
    text = pydoc.plain(pydoc.render_doc(op))
    assert f"in module {function.__module__}" in text.splitlines()[0]
    first = next(iter(inspect.signature(op).parameters))
    assert "".join(text.split("\n\n")[1].split()).startswith(f"{function.__name__}({first}")
    assert repr(op) == repr(op.__wrapped__) and repr(op).startswith(f"<function {name} at")


@pytest.mark.parametrize("name", OPS)
def test_pickles_and_copies_are_the_op_itself(name):
    op = OPS[name]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        if protocol > 3 or "." not in name:
            assert pickle.loads(pickle.dumps(op, protocol)) is op
    assert copy.copy(op) is op and copy.deepcopy(op) is op and copy.deepcopy({op: [op]})[op] == [op]
    assert weakref.ref(op)() is op and {op: 1}[op] == 1


def test_tools_take_an_op_for_a_function():
    want = pe.apply_rope(X, COS, SIN, layout="half")
    np.testing.assert_array_equal(functools.partial(pe.apply_rope, layout="half")(X, COS, SIN), want)
    np.testing.assert_array_equal(functools.partial(pe.apply_rope, X, COS)(SIN, layout="half"), want)
    each = np.vectorize(pe.apply_rope, signature="(t,d),(t,l),(t,l)->(t,d)")
    np.testing.assert_array_equal(each(X, COS, SIN), pe.apply_rope(X, COS, SIN))
    assert functools.wraps(pe.apply_rope)(lambda: None).__doc__ == pe.apply_rope.__doc__
    assert [row.shape for row in map(pe.apply_rope, X, [COS] * 2, [SIN] * 2)] == [(5, 8)] * 2


def test_an_op_in_a_class_is_a_method():
    class Holder(list):
        merge = pe.merge_attention
        attend = staticmethod(pe.attention)

    assert Holder.merge is pe.merge_attention
    bound = Holder([X, X]).merge
    assert isinstance(bound, types.MethodType) and bound.__func__ is pe.merge_attention
    with pytest.raises(TypeError, match="parts|sequence|dtype|type"):
        bound(3.0)
    np.testing.assert_array_equal(Holder().attend(X, X, X), pe.attention(X, X, X))
    assert [*inspect.signature(ROPE.apply).parameters] == ["x", "positions", "inverse", "out", "num_threads"]
    assert ROPE.apply.__self__ is ROPE and inspect.ismethod(ROPE.apply)
    assert frames_of(lambda rope: rope.apply(X, P), ROPE) == []
    np.testing.assert_array_equal(pe.Rope.apply(ROPE, X, P), ROPE.apply(x=X, positions=P))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(ROPE.apply))(X, P), ROPE.apply(X, P))


# Exceptions on the way, references, threads


@pytest.mark.parametrize(("error", "passed"), [(KeyboardInterrupt, True), (MemoryError, True),
                                               (ValueError, False), (TypeError, False)])
def test_only_errors_about_arguments_are_left_to_python(error, passed):
    def plan(*_):
        raise error("from the plan")

    def function(*_args, **_keywords):
        return "explained"

    function.__qualname__ = "apply_rope"
    parameters = inspect.signature(pe.apply_rope).parameters.values()
    op = _core.Op(function, tuple(each.name for each in parameters),
                  tuple(... if each.default is each.empty else each.default for each in parameters), 3,
                  (pe.Rope, None, {}, plan, plan, plan, pe.RetentionState))
    if passed:
        with pytest.raises(error, match="from the plan"):
            op(X, positions=P)
    else:
        assert op(X, positions=P) == "explained"


def test_calls_keep_and_lose_no_reference():
    calls = [(OPS[name], call) for name in OPS for call in PLAIN[name]]

    def refused(op):
        with pytest.raises(TypeError):
            op(X, foo=X)

    calls += [(op, refused) for op in OPS.values()]
    held = [X, COS, SIN, P, POINTS, FREQS, ROPE, AXES, ROPE._plan, AXES._plan, STATE, STATE.S, IDS, OUT,
            *OPS.values()]

    def run(times):
        for _ in range(times):
            for op, call in calls:
                call(op)

    run(2)
    gc.collect()
    objects, before = len(gc.get_objects()), [sys.getrefcount(each) for each in held]
    run(30)
    gc.collect()
    assert [sys.getrefcount(each) for each in held] == before
    assert abs(len(gc.get_objects()) - objects) < 30


def test_an_op_that_nobody_holds_is_collected():
    def function(*_):
        return op

    op = of_merge(function)
    op.itself = op
    function, op = weakref.ref(function), weakref.ref(op)
    gc.collect()
    assert function() is None and op() is None


def test_threads_call_one_op_at_once():
    calls = [(OPS[name], PLAIN[name][0]) for name in OPS]
    want = [parts(call(op)) for op, call in calls]
    wrong = []

    def work():
        for _ in range(50):
            for (op, call), whole in zip(calls, want, strict=True):
                got = parts(call(op))
                wrong.extend(op for a, b in zip(got, whole, strict=True) if not np.array_equal(a, b))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("x", [X, X.tolist()])
def test_apply_without_a_rope_is_no_default_rope(x):
    with pytest.raises(TypeError, match="Rope.apply is called on None; call it on a rope"):
        pe.Rope.apply(None, x, P)
    with pytest.raises(TypeError, match="rope has type int; expected a pe.Rope"):
        pe.Rope.apply(3, x, P)
