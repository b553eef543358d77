# SPDX-License-Identifier: Apache-2.0
"""Plans: rows of operations, each on the task that its device names."""

from __future__ import annotations

import ctypes as C
import os
import weakref
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence

from ._abi import Activation, Dtype, TraceLevel, ps_feed, ps_fetched, ps_replica, ps_replicate_options, ps_row_options, ps_run_options, ps_value
from ._library import lib
from .errors import Error, error_of, fail, last_error
from .values import Shape, dims_of, dtype_of, empty, encoded, milliseconds, name_of, sent, shape_of, text

if TYPE_CHECKING:
    from .session import Session
    from .values import Array
    from .variables import Variable

_REPLICA = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p, C.POINTER(ps_replica), C.POINTER(ps_value))
_OPTIONS = {"name", "device", "dtype", "axis", "keep_dims", "transpose_a", "transpose_b", "outputs", "activation", "keep", "seed", "message"} | {
    "first_n",
    "summarize",
}


class Value:
    """An output of a row of a plan. Arithmetic operators make rows: `a + b`, `a @ w`.

    name, dtype, shape  "add_1", "float32", (128, 10); -1: a dimension that a feed decides
    """

    def __init__(self, plan: Plan, struct: ps_value) -> None:
        self.plan, self._struct = plan, struct
        plan.session._held(self._read, struct)

    def _read(self, handle: int, struct: ps_value) -> None:
        self.plan._ok()
        self.name = text(lib.ps_value_name(struct))
        self._dtype = Dtype(lib.ps_value_dtype(struct))
        self.dtype = name_of(self._dtype)
        self.shape = dims_of(lib.ps_value_shape(struct))

    @property
    def device(self) -> str:
        """Device that computes it; "client"; "" while its row has not run and the scopes name no task."""
        return self.plan.session._held(lambda _: text(lib.ps_value_device(self._struct)))

    @property
    def requested_device(self) -> str:
        """Device that the scopes asked for."""
        return self.plan.session._held(lambda _: text(lib.ps_value_requested_device(self._struct)))

    def __repr__(self) -> str:
        return f"<psd.Value {self.name!r} {self.dtype} {list(self.shape)}>"

    def eval(self) -> Any:
        """Run for this value, which needs no feeds."""
        return self.plan.run(self)

    def __add__(self, other: Any) -> Value:
        return self.plan.row("add", self, other)

    def __sub__(self, other: Any) -> Value:
        return self.plan.row("sub", self, other)

    def __mul__(self, other: Any) -> Value:
        return self.plan.row("mul", self, other)

    def __truediv__(self, other: Any) -> Value:
        return self.plan.row("div", self, other)

    def __matmul__(self, other: Any) -> Value:
        return self.plan.row("matmul", self, other)

    def __radd__(self, other: Any) -> Value:
        return self.plan.row("add", self.plan.constant(other, self._dtype), self)

    def __rmul__(self, other: Any) -> Value:
        return self.plan.row("mul", self.plan.constant(other, self._dtype), self)


class Plan:
    """An ordered list of rows. Session.plan() gives it. Building contacts nobody; run() runs the rows that its fetches need.

    p = session.plan()
    with session.device("/job:worker/task:1"):
        y = p.placeholder("float32", (-1, 784)) @ p.variable(w) + p.variable(b)
    p.run(y, {"Placeholder": images})
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._pointer = session._held(lib.ps_plan_new)
        if not self._pointer:
            raise last_error(8)
        self._placeholders: dict[str, Value] = {}
        # must run before the session is closed, because that frees its plans: the finalizer keeps the session alive
        self._free = weakref.finalize(self, _free_plan, session, self._pointer)
        self._free.atexit = False

    def close(self) -> None:
        """Free the plan."""
        self._free()

    def _error(self, status: int) -> Error | None:
        return error_of(status, text(lib.ps_plan_error(self._pointer))) if status != 0 else None

    def _ok(self) -> None:
        error = self._error(lib.ps_plan_status(self._pointer))
        if error is not None:
            raise error

    def _value(self, function: Callable[..., ps_value], *args: Any) -> Value:
        """The value that a function of C makes. The plan's memory is freed with the session."""
        return self.session._held(lambda _: Value(self, function(self._pointer, *args)))

    def placeholder(self, dtype: Any, shape: Shape, name: str | None = None) -> Value:
        """A value that each run must be fed. shape: -1 for a dimension of any size."""
        made = self._value(lib.ps_plan_placeholder, encoded(name), dtype_of(dtype), shape_of(shape))
        self._placeholders[made.name] = made
        return made

    def constant(self, value: Any, dtype: Any = None) -> Value:
        """A constant: a number (dtype float32 if None), a str or bytes, or an array."""
        if isinstance(value, str):
            return self._value(lib.ps_plan_text, value.encode())
        if isinstance(value, (int, float)):
            return self._value(lib.ps_plan_scalar, dtype_of(dtype or "float32"), value)
        if isinstance(value, bytes):
            return self._value(lib.ps_plan_const, Dtype.STRING, shape_of(()), value, len(value))
        kind = dtype_of(dtype if dtype is not None else value.dtype)
        array = sent(value, kind, None, "the constant")
        return self._value(lib.ps_plan_const, kind, shape_of(array.shape), array.ctypes.data, array.nbytes)

    def variable(self, v: Variable) -> Value:
        """The value that a variable of the same session has when the row that uses it runs."""
        return self._value(lib.ps_plan_variable, v._pointer)

    def row(self, operation: str, *inputs: Any, **options: Any) -> Value:
        """Make a row by the name of its operation (docs/TF_MAP.md lists them): identity cast add sub mul div matmul relu sigmoid tanh
        softmax reduce_sum reduce_mean argmax split concat stack print relu_backward sigmoid_backward tanh_backward dense dense_backward
        dense_act dense_act_backward softmax_xent dropout.

        inputs   values; numbers and arrays become constants.
        options  name device dtype axis keep_dims transpose_a transpose_b activation keep seed message first_n summarize

        Returns output 0; rows() returns more.
        """
        return self.rows(operation, 1, *inputs, **options)[0]

    def rows(self, operation: str, outputs: int, *inputs: Any, **options: Any) -> list[Value]:
        """Make a row as row() does, and return its first outputs: the parts of a split; dw, db, dx of dense_backward; the loss and its
        gradient of softmax_xent."""
        wrong = set(options) - _OPTIONS
        if wrong:
            fail(f"row {operation!r}: there is no option {min(wrong)!r}")
        first = next((v for v in inputs if isinstance(v, Value)), None)
        values = [v if isinstance(v, Value) else self.constant(v, first._dtype if first and isinstance(v, (int, float)) else None) for v in inputs]
        o = ps_row_options()
        lib.ps_row_options_init(C.byref(o))
        for key, value in options.items():
            if key == "dtype":
                value = dtype_of(value)
            elif key == "activation" and isinstance(value, str):
                value = Activation[value.upper()]
            setattr(o, key, value.encode() if isinstance(value, str) else value)
        o.has_axis = options.get("axis") is not None
        o.outputs = outputs if operation in ("split", "dense_backward", "dense_act_backward", "softmax_xent") else 0
        array = (ps_value * len(values))(*(v._struct for v in values))
        outs = (ps_value * outputs)()
        args = operation.encode(), array, len(values), C.byref(o), outs, len(outs)
        self.session._held(lambda _: (lib.ps_plan_row(self._pointer, *args), self._ok()))
        return [Value(self, ps_value.from_buffer_copy(out)) for out in outs]

    # ---- rows that change variables ----

    def assign(self, v: Variable, value: Value) -> Value:
        """Assign the value; the result is the value."""
        return self._value(lib.ps_plan_assign, v._pointer, value._struct)

    def assign_add(self, v: Variable, value: Value) -> Value:
        """v += value."""
        return self._value(lib.ps_plan_assign_add, v._pointer, value._struct)

    def push(self, v: Variable, gradient: Value, scale: float = 1.0) -> Value:
        """Apply the value times scale as a gradient with v's optimizer."""
        return self._value(lib.ps_plan_push, v._pointer, gradient._struct, scale)

    def group(self, *values: Value) -> Value:
        """A row without a result; a fetch of it runs the rows of all these values."""
        array = (ps_value * len(values))(*(v._struct for v in values))
        return self._value(lib.ps_plan_group, array, len(values))

    # ---- running ----

    def run(
        self,
        fetches: Value | Sequence[Value],
        feeds: Mapping[Value | str, Any] | None = None,
        *,
        timeout: float | None = None,
        trace_file: str | os.PathLike[str] | None = None,
    ) -> Any:
        """Run the rows that the fetches need. Returns the array of a value, or a list of arrays; None for a row without a result.

        feeds       {placeholder or its name: array}; float64 1.0 fits an int32 placeholder, 1.5 does not
        trace_file  Chrome trace of the run
        """
        wanted = [fetches] if isinstance(fetches, Value) else list(fetches)
        items = [(self._named(k), v) for k, v in (feeds or {}).items()]
        # numbers and lists become the placeholder's dtype, arrays keep theirs: the run checks whether each value fits
        dtypes = [dtype_of(v.dtype) if getattr(v, "dtype", None) is not None and p._dtype != Dtype.BF16 else p._dtype for p, v in items]
        kept = [sent(v, d, None, f"the feed of {p.name!r}") for (p, v), d in zip(items, dtypes)]
        structs = (ps_feed * len(items))(
            *(lib.ps_feed_of(p._struct, d, shape_of(a.shape), a.ctypes.data, a.nbytes) for (p, _), d, a in zip(items, dtypes, kept))
        )
        values = (ps_value * len(wanted))(*(v._struct for v in wanted))
        outs, o = (ps_fetched * len(wanted))(), ps_run_options()
        lib.ps_run_options_init(C.byref(o))
        o.timeout_ms = milliseconds(timeout)
        if trace_file is not None:
            o.trace_level, o.trace_file = TraceLevel.FULL_TRACE, os.fsencode(trace_file)
        self.session._check(lib.ps_plan_run, self._pointer, structs, len(items), values, len(wanted), outs, C.byref(o))
        results = self.session._held(lambda _: [_fetched(out) for out in outs])
        return results[0] if isinstance(fetches, Value) else results

    def _named(self, placeholder: Value | str) -> Value:
        if isinstance(placeholder, Value):
            return placeholder
        found = self._placeholders.get(placeholder)
        return found if found is not None else fail(f"the plan has no placeholder {placeholder!r}")

    async def run_async(self, fetches: Value | Sequence[Value], feeds: Mapping[Value | str, Any] | None = None) -> Any:
        """run() on a thread, for asyncio."""
        return await self.session._thread(self.run, fetches, feeds)

    def replicate(
        self,
        replicas: int,
        build: Callable[[int, str, list[Value]], Sequence[Value]],
        variables: Sequence[Variable],
        batches: Sequence[Value] = (),
        *,
        devices: Sequence[str] | None = None,
        asynchronous: bool = False,
    ) -> list[Value]:
        """In-graph replication: make the same rows on several tasks, each with its part of the batches.

        build    build(index, device, parts) makes the rows of one replica and returns a gradient for each variable
        devices  None: "/job:worker/task:0" and so on

        Returns the steps to fetch: one, or of each replica if asynchronous.
        """
        raised: list[BaseException] = []

        def built(ctx: Any, plan: Any, replica: Any, gradients: Any) -> int:
            try:
                r = replica.contents
                inputs = C.cast(r.inputs, C.POINTER(ps_value))
                parts = [Value(self, ps_value.from_buffer_copy(inputs[i])) for i in range(r.input_count)]
                made = list(build(r.index, text(r.device), parts))
                if len(made) != len(variables):
                    fail(f"build has returned {len(made)} gradients for {len(variables)} variables")
                for i, gradient in enumerate(made):
                    gradients[i] = gradient._struct
                return 0
            except BaseException as e:
                raised.append(e)
                return 3

        function, o = _REPLICA(built), ps_replicate_options()
        lib.ps_replicate_options_init(C.byref(o))
        names = None if devices is None else (C.c_char_p * len(devices))(*(d.encode() for d in devices))
        parts = (ps_value * len(batches))(*(b._struct for b in batches))
        pointers = (C.c_void_p * len(variables))(*(v._pointer for v in variables))
        o.devices = None if names is None else C.addressof(names)
        o.batches, o.batch_count = C.addressof(parts), len(parts)
        o.variables, o.variable_count = C.addressof(pointers), len(variables)
        o.asynchronous, o.build = asynchronous, C.cast(function, C.c_void_p)
        outs = (ps_value * (replicas if asynchronous else 1))()
        error = self.session._held(lambda _: self._error(lib.ps_replicate(self._pointer, replicas, C.byref(o), outs)))
        if error is not None:
            raise error from (raised[0] if raised else None)
        return [Value(self, ps_value.from_buffer_copy(out)) for out in outs]


def _free_plan(session: Session, pointer: int) -> None:
    if not session._closed:  # in close() a finalizer may come behind the end of the session
        session._look(lambda _: lib.ps_plan_free(pointer), None)


def _fetched(out: ps_fetched) -> Any:
    if out.dtype == Dtype.DTYPE_NONE:
        return None
    array: Array = empty(out.dtype, dims_of(out.shape))
    if out.dtype != Dtype.STRING:
        C.memmove(array.ctypes.data, out.data, out.bytes)
        return array
    raw = C.string_at(out.data, out.bytes)
    offsets = C.cast(out.offsets, C.POINTER(C.c_size_t))
    array.reshape(-1)[:] = [raw[offsets[i] : offsets[i + 1]] for i in range(array.size)]
    return array if array.shape else array[()]
