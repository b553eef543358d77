# SPDX-License-Identifier: Apache-2.0
"""Shapes, dtypes, initializers and optimizers."""

from __future__ import annotations

import ctypes as C
from functools import cache
from typing import TYPE_CHECKING, Any, Sequence, Union

from ._abi import Dtype, Fan, Layout, OptKind, Status, ps_initializer, ps_optimizer, ps_shape, ps_variable_spec
from ._library import lib
from .errors import check, fail

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

Shape = Union[int, Sequence[int]]
RANK_MAX = 8
_NAMES = {
    "float32": Dtype.F32,
    "float64": Dtype.F64,
    "int32": Dtype.I32,
    "int64": Dtype.I64,
    "bool": Dtype.BOOL,
    "float16": Dtype.F16,
    "bfloat16": Dtype.BF16,
    "int8": Dtype.I8,
    "uint8": Dtype.U8,
    "string": Dtype.STRING,
}
_DTYPES = {number: name for name, number in _NAMES.items()}


def shape_of(shape: Shape) -> ps_shape:
    """The C shape of a Python one."""
    dims = (shape,) if isinstance(shape, int) else tuple(shape)
    if len(dims) > RANK_MAX:
        fail(f"the shape {dims} has {len(dims)} dimensions, at most {RANK_MAX} are possible")
    out = ps_shape(rank=len(dims))
    out.dims[: len(dims)] = [int(d) for d in dims]
    return out


def dims_of(shape: ps_shape) -> tuple[int, ...]:
    return tuple(shape.dims[: shape.rank])


def dtype_of(dtype: Any) -> Dtype:
    """The number of a dtype: a name, a NumPy dtype or type. bfloat16 is a name; NumPy has no such dtype, its arrays are uint16."""
    if isinstance(dtype, Dtype):
        return dtype
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", getattr(dtype, "__name__", str(dtype)))
    name = {"float": "float64", "int": "int64", "str": "string", "bytes": "string", "bool_": "bool"}.get(name, name)
    if name not in _NAMES:
        fail(f"psd has no dtype {name}; it has {', '.join(_NAMES)}")
    return _NAMES[name]


def name_of(dtype: int) -> str:
    """Name of a dtype: "float32"."""
    return _DTYPES.get(Dtype(dtype), "none")


@cache
def numpy_dtype(dtype: int) -> Any:
    """NumPy's dtype for arrays of this one."""
    import numpy as np

    if dtype == Dtype.STRING:
        return np.dtype(object)
    return np.dtype("uint16" if dtype == Dtype.BF16 else name_of(dtype))


def empty(dtype: int, shape: tuple[int, ...]) -> Array:
    import numpy as np

    return np.empty(shape, numpy_dtype(dtype))


def sent(value: Any, dtype: int, shape: tuple[int, ...] | None, what: str) -> Array:
    """An array of this dtype and shape, row-major, to be read by the library. Numbers and lists are converted, arrays of another dtype or
    shape refused; arrays that are not contiguous or have another byte order are copied."""
    import numpy as np

    want = numpy_dtype(dtype)
    if type(value) is np.ndarray and value.dtype == want and value.shape == shape and value.flags.c_contiguous:
        return value
    array = np.asarray(value, None if hasattr(value, "dtype") else want)
    if array.dtype.newbyteorder("=") != want or (shape is not None and array.shape != shape):
        wanted = want.name if shape is None else f"{want.name} {list(shape)}"
        fail(f"{what} is {array.dtype.name} {list(array.shape)}, and must be {wanted}")
    return np.ascontiguousarray(array, want).reshape(array.shape)


def indices_of(indices: Any, what: str) -> Array:
    """Indices of rows, an int64 array of any shape: of integers of any dtype and layout, lists, or one integer."""
    import numpy as np

    array = np.asarray(indices)
    if array.size == 0 and not hasattr(indices, "dtype"):
        array = array.astype(np.int64)  # an empty list has made a float64 array
    if array.dtype.kind not in "iu":
        fail(f"the indices for {what} are {array.dtype.name} {list(array.shape)}, and must be integers")
    if array.dtype == np.uint64 and array.size > 0 and array.max() > np.iinfo(np.int64).max:
        fail(f"the indices for {what} have {array.max()}, which is outside the variable", Status.OUT_OF_RANGE)
    return np.ascontiguousarray(array, np.int64).reshape(array.shape)


def address(array: Array) -> int:
    """Address of an array's memory; three times as fast as array.ctypes.data."""
    at: int = array.__array_interface__["data"][0]
    return at


def into(out: Any, dtype: int, shape: tuple[int, ...], what: str) -> Array:
    """Check and return `out`, to whose memory the library will write. None: a new array."""
    if out is None:
        return empty(dtype, shape)
    want = numpy_dtype(dtype)
    if not hasattr(out, "__array_interface__"):
        fail(f"{what} is {out!r}, and must be an array of NumPy, {want.name} {list(shape)}")
    if out.dtype != want or out.shape != shape or not out.flags.c_contiguous or not out.flags.writeable:
        state = "" if out.flags.c_contiguous else ", not contiguous"
        state += "" if out.flags.writeable else ", read-only"
        fail(f"{what} is {out.dtype} {list(out.shape)}{state}, and must be {want.name} {list(shape)}, contiguous and writable")
    return out  # type: ignore[no-any-return]


class Initializer:
    """How a variable gets its first values. The functions zeros(), ones(), constant(), uniform(), normal(), truncated_normal(), glorot(),
    he_normal() and he_uniform() make it. Element i depends on (seed, name, i) only, whichever task computes it."""

    def __init__(self, text: str, made: int) -> None:
        self._text = text
        self.struct = ps_initializer.from_buffer_copy(C.string_at(made, C.sizeof(ps_initializer)))

    def __repr__(self) -> str:
        return "psd." + self._text


def zeros() -> Initializer:
    """All elements 0."""
    return Initializer("zeros()", lib.ps_zeros())


def ones() -> Initializer:
    """All elements 1."""
    return Initializer("ones()", lib.ps_ones())


def constant(value: float) -> Initializer:
    """All elements `value`."""
    return Initializer(f"constant({value!r})", lib.ps_constant(value))


def uniform(low: float, high: float) -> Initializer:
    """Uniform in [low, high)."""
    return Initializer(f"uniform({low!r}, {high!r})", lib.ps_uniform(low, high))


def normal(mean: float = 0.0, stddev: float = 1.0) -> Initializer:
    """Normal distribution."""
    return Initializer(f"normal({mean!r}, {stddev!r})", lib.ps_normal(mean, stddev))


def truncated_normal(mean: float = 0.0, stddev: float = 1.0) -> Initializer:
    """Normal distribution; values beyond 2 stddev are drawn again."""
    return Initializer(f"truncated_normal({mean!r}, {stddev!r})", lib.ps_truncated_normal(mean, stddev))


def _fan(fan: str) -> Fan:
    if fan not in ("in_out", "out_in"):
        fail(f"fan is {fan!r}, and must be 'in_out' (TensorFlow's shapes) or 'out_in' (PyTorch's)")
    return Fan.IN_OUT if fan == "in_out" else Fan.OUT_IN


def glorot(fan: str = "in_out") -> Initializer:
    """Uniform in ±sqrt(6 / (fan_in + fan_out)). fan: "in_out" for shapes (in, out), "out_in" for PyTorch's (out, in)."""
    return Initializer(f"glorot({fan!r})", lib.ps_glorot(_fan(fan)))


def he_normal(fan: str = "in_out") -> Initializer:
    """Truncated normal of variance 2 / fan_in. fan: as of glorot()."""
    return Initializer(f"he_normal({fan!r})", lib.ps_he_normal(_fan(fan)))


def he_uniform(fan: str = "in_out") -> Initializer:
    """Uniform in ±sqrt(6 / fan_in). fan: as of glorot()."""
    return Initializer(f"he_uniform({fan!r})", lib.ps_he_uniform(_fan(fan)))


class Optimizer:
    """How the ps tasks apply a gradient to a variable: NoOptimizer, SGD, Momentum, Nesterov, Adagrad, Adam, with TensorFlow 1.15's
    formulas. optimizer() makes one of any kind. schedule: how the learning rate follows the global step, as in
    "cosine_decay:decay_steps=1000"; README.md lists names and parameters."""

    def __init__(self, made: int, schedule: str | None = None, **hyper: float) -> None:
        self.struct = ps_optimizer.from_buffer_copy(C.string_at(made, C.sizeof(ps_optimizer)))
        self.hyper = hyper
        said: dict[str, Any] = dict(hyper)
        if schedule is not None:
            check(lib.ps_optimizer_schedule(schedule.encode(), C.byref(self.struct), C.sizeof(self.struct)))
            hyper["learning_rate"] = said["learning_rate"] = self.struct.learning_rate
            said["schedule"] = schedule
        self.text = f"psd.{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in said.items())})"

    def __repr__(self) -> str:
        return self.text


class NoOptimizer(Optimizer):
    """The variable cannot be pushed to."""

    def __init__(self) -> None:
        super().__init__(lib.ps_no_optimizer())


class SGD(Optimizer):
    """v -= learning_rate g"""

    def __init__(self, learning_rate: float, schedule: str | None = None) -> None:
        super().__init__(lib.ps_sgd(learning_rate), schedule, learning_rate=learning_rate)


class Momentum(Optimizer):
    """a = momentum a + g; v -= learning_rate a"""

    def __init__(self, learning_rate: float, momentum: float = 0.9, schedule: str | None = None) -> None:
        super().__init__(lib.ps_momentum(learning_rate, momentum), schedule, learning_rate=learning_rate, momentum=momentum)


class Nesterov(Optimizer):
    """a = momentum a + g; v -= learning_rate (g + momentum a): PyTorch's SGD(nesterov=True)"""

    def __init__(self, learning_rate: float, momentum: float = 0.9, schedule: str | None = None) -> None:
        super().__init__(lib.ps_nesterov(learning_rate, momentum), schedule, learning_rate=learning_rate, momentum=momentum)


class Adagrad(Optimizer):
    """a += g g; v -= learning_rate g / sqrt(a)"""

    def __init__(self, learning_rate: float, initial_accumulator: float = 0.1, schedule: str | None = None) -> None:
        made = lib.ps_adagrad_from(learning_rate, initial_accumulator)
        super().__init__(made, schedule, learning_rate=learning_rate, initial_accumulator=initial_accumulator)


class Adam(Optimizer):
    """TensorFlow's Adam: epsilon stands before the correction of the bias ("epsilon hat")."""

    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
                 schedule: str | None = None) -> None:
        made = lib.ps_adam_with(learning_rate, beta1, beta2, epsilon)
        super().__init__(made, schedule, learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon)


def optimizer(text_of: str, learning_rate: float = 0.01, schedule: str | None = None) -> Optimizer:
    """Any optimizer, of a text: optimizer("adamw:weight_decay=0.02,l2=1e-4", 0.001). README.md lists names, hyperparameters and their standard
    values. learning_rate: if the text has none. schedule: as of Optimizer."""
    made = Optimizer(lib.ps_sgd(1.0))
    check(lib.ps_optimizer_parse(text_of.encode(), learning_rate, C.byref(made.struct), C.sizeof(made.struct)))
    if schedule is not None:
        check(lib.ps_optimizer_schedule(schedule.encode(), C.byref(made.struct), C.sizeof(made.struct)))
    made.hyper["learning_rate"] = made.struct.learning_rate
    made.text = f"psd.optimizer({text_of!r}, {made.struct.learning_rate!r}{'' if schedule is None else f', {schedule!r}'})"
    return made


def optimizer_of(o: ps_optimizer) -> Optimizer:
    """The Optimizer of a C struct, as a task reports it."""
    makes: dict[int, Any] = {
        OptKind.SGD: lambda: SGD(o.learning_rate),
        OptKind.MOMENTUM: lambda: (Nesterov if o.nesterov else Momentum)(o.learning_rate, o.momentum),
        OptKind.ADAGRAD: lambda: Adagrad(o.learning_rate, o.initial_accumulator),
        OptKind.ADAM: lambda: Adam(o.learning_rate, o.beta1, o.beta2, o.epsilon),
    }
    made: Optimizer = makes.get(o.kind, NoOptimizer)()
    if o.kind != OptKind.NONE and bytes(made.struct) != bytes(o):  # `made` lacks something: an unknown kind, l2, clip_value, ema or a schedule
        made.struct = ps_optimizer.from_buffer_copy(o)
        made.text = f"<psd.Optimizer {OptKind(o.kind).name.lower() if o.kind in OptKind._value2member_map_ else o.kind}>"
    return made


class Partitioner:
    """How a variable is divided into parts, each of which is placed like a variable of its own: Session.variable(partition=...). partition(),
    fixed_size_partitioner(), variable_axis_size_partitioner() and min_max_variable_partitioner() make it.

    axis    of the shape, along which the parts lie
    layout  "div": rows beside each other are in one part. "mod": row i is in part i mod parts, which spreads rows that are used much
    """

    def __init__(self, text: str, function: Any, numbers: tuple[int, ...], axis: int, layout: str) -> None:
        if layout not in ("div", "mod"):
            fail(f"layout is {layout!r}, and must be 'div' or 'mod'")
        if not 0 <= axis < RANK_MAX:
            fail(f"axis is {axis}, and must be at least 0 and less than {RANK_MAX}")
        for number, kind in zip(numbers, function.argtypes[1:]):
            if not 0 <= number < 1 << 8 * C.sizeof(kind):
                fail(f"psd.{text}: {number} must be at least 0 and less than 2**{8 * C.sizeof(kind)}")
        self._text, self._function, self._numbers, self._axis, self._layout = text, function, numbers, axis, layout

    def __repr__(self) -> str:
        return f"psd.{self._text}"

    def apply(self, spec: ps_variable_spec) -> None:
        """Set the number of parts of a spec that has its shape and dtype."""
        spec.partition_axis, spec.partition_layout = self._axis, Layout.DIV if self._layout == "div" else Layout.MOD
        check(self._function(C.byref(spec), *self._numbers))


def _partitioner(name: str, function: Any, axis: int, layout: str, **numbers: int) -> Partitioner:
    said = {**numbers, "axis": axis, "layout": layout}
    return Partitioner(f"{name}({', '.join(f'{k}={v!r}' for k, v in said.items())})", function, tuple(numbers.values()), axis, layout)


def partition(parts: int, axis: int = 0, layout: str = "div") -> Partitioner:
    """Exactly `parts` parts. axis, layout: as of Partitioner. More parts than rows, or than 256, are InvalidArgument at Session.variable()."""
    return _partitioner("partition", lib.ps_partition, axis, layout, parts=parts)


def fixed_size_partitioner(num_shards: int, axis: int = 0, layout: str = "div") -> Partitioner:
    """tf.fixed_size_partitioner: num_shards parts, at most one a row."""
    return _partitioner("fixed_size_partitioner", lib.ps_partition_fixed_size, axis, layout, num_shards=num_shards)


def variable_axis_size_partitioner(max_shard_bytes: int, axis: int = 0, max_shards: int = 0, layout: str = "div") -> Partitioner:
    """tf.variable_axis_size_partitioner: parts of at most max_shard_bytes, or of one row; at most max_shards of them, 0: any number."""
    return _partitioner(
        "variable_axis_size_partitioner", lib.ps_partition_axis_size, axis, layout, max_shard_bytes=max_shard_bytes, max_shards=max_shards
    )


def min_max_variable_partitioner(
    max_partitions: int = 1, axis: int = 0, min_slice_size: int = 256 << 10, layout: str = "div"
) -> Partitioner:
    """tf.min_max_variable_partitioner: at most max_partitions parts, of min_slice_size bytes or more."""
    return _partitioner(
        "min_max_variable_partitioner", lib.ps_partition_min_max, axis, layout, max_partitions=max_partitions, min_slice_size=min_slice_size
    )


def milliseconds(timeout: float | None) -> int:
    """A time in seconds as milliseconds; None: 0, the default of the call."""
    return 0 if timeout is None else max(1, round(timeout * 1000))


def text(raw: bytes | None) -> str:
    return "" if raw is None else raw.decode(errors="replace")


def encoded(value: str | None) -> bytes | None:
    return None if value is None else str(value).encode()
