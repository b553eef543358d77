# SPDX-License-Identifier: Apache-2.0
"""Variables, parameters and embeddings."""

from __future__ import annotations

import ctypes as C
import weakref
from typing import TYPE_CHECKING, Any, Callable, Sequence

from ._abi import Dtype, ps_shape
from ._library import lib
from .errors import check, fail
from .values import address, dims_of, empty, indices_of, into, name_of, sent, text

if TYPE_CHECKING:
    from .session import Session
    from .values import Array

_STRING_BYTES_MAX = 1 << 20


class Variable:
    """A variable on a ps task. Session.variable(), Session.find() and others give it; it belongs to the session.

    name, container, device   where it is: "layer/w", "localhost", "/job:ps/task:0/device:CPU:0"
    requested_device          the device that the scopes asked for; ""
    task                      index of its task in its job
    dtype, shape, nbytes      "float32", (784, 10), 31360; of dtype "string" nbytes is 0

    device, task and version of a partitioned variable are those of its first part; `parts` has all.
    """

    def __init__(self, session: Session, pointer: int) -> None:
        self.session = session
        self._pointer = pointer
        session._held(self._take, pointer)

    def _take(self, handle: int, pointer: int) -> None:
        self._dtype = Dtype(lib.ps_variable_dtype(pointer))
        self.shape = dims_of(ps_shape.from_address(lib.ps_variable_shape(pointer)))
        self.name = text(lib.ps_variable_name(pointer))
        self.dtype = name_of(self._dtype)
        self.container = text(lib.ps_variable_container(pointer))
        self.device = text(lib.ps_variable_device(pointer))
        self.requested_device = text(lib.ps_variable_requested_device(pointer))
        self.task = int(lib.ps_variable_task(pointer))
        self.nbytes = int(lib.ps_variable_bytes(pointer))
        self._parts = int(lib.ps_variable_partitions(pointer))

    def __repr__(self) -> str:
        parts = f" in {self._parts} parts, the first" if self._parts > 0 else ""
        return f"<psd.Variable {self.name!r} {self.dtype} {list(self.shape)}{parts} on {self.device}>"

    def _call(self, function: Callable[..., int], *args: Any) -> None:
        self.session._check(function, self._pointer, *args)

    def _sent(self, value: Any, what: str) -> Array:
        return sent(value, self._dtype, self.shape, f"{what} for {self.name!r}")

    def _into(self, out: Any, shape: tuple[int, ...] | None = None) -> Array:
        return into(out, self._dtype, self.shape if shape is None else shape, f"out for {self.name!r}")

    def _slot_shape(self, slot: int) -> tuple[int, ...]:
        has = self.session._held(lambda _: int(lib.ps_variable_slot_bytes(self._pointer, slot)))
        whole = self.session._held(lambda _: int(lib.ps_variable_bytes(self._pointer)))
        return self.shape if has in (0, whole) else (self.shape[0], 1)

    @property
    def version(self) -> tuple[int, bool]:
        """Version after the last read or assign by any thread, and whether all elements are of that version."""
        exact = C.c_bool()
        return self.session._held(lambda _: int(lib.ps_variable_version(self._pointer, C.byref(exact)))), exact.value

    @property
    def parts(self) -> list[Variable]:
        """The parts of a partitioned variable: where each is, and its version. Empty: the variable is whole."""
        return self.session._held(lambda _: [Variable(self.session, int(lib.ps_variable_partition(self._pointer, i))) for i in range(self._parts)])

    @property
    def variable_def(self) -> str:
        """TensorFlow's VariableDef in the text form of protocol buffers."""
        out = C.create_string_buffer(1024)
        check(self.session._held(lambda _: lib.ps_variable_def(self._pointer, out, len(out))))
        return out.value.decode()

    def read(self, out: Array | None = None) -> Array:
        """Read the value: an array of the variable's dtype and shape; of strings an array of bytes objects.

        out  gets the value: a contiguous, writable array of the variable's dtype and shape. After an error it may be torn.
        """
        if self._dtype == Dtype.STRING:
            return self._read_strings()
        array = self._into(out)
        self._call(lib.ps_variable_read, address(array), array.nbytes)
        return array

    def read_versioned(self, out: Array | None = None) -> tuple[Array, int, bool]:
        """read(), with the version of the oldest element, and whether all elements are of that version."""
        if self._dtype == Dtype.STRING:
            strings = self._read_strings()
            return strings, *self.version
        array = self._into(out)
        version, exact = C.c_uint64(), C.c_bool()
        self._call(lib.ps_variable_read_versioned, address(array), array.nbytes, C.byref(version), C.byref(exact))
        return array, version.value, exact.value

    def _read_strings(self) -> Array:
        array = empty(self._dtype, self.shape)
        raw = C.create_string_buffer(_STRING_BYTES_MAX + 1)
        offsets = (C.c_size_t * (array.size + 1))()
        self._call(lib.ps_variable_read_strings, raw, len(raw), offsets, array.size, None)
        array.reshape(-1)[:] = [raw.raw[offsets[i] : offsets[i + 1]] for i in range(array.size)]
        return array

    def read_slot(self, slot: int = 0, out: Array | None = None) -> Array:
        """Read a slot of its optimizer: momentum and nesterov "momentum", adagrad "accumulator", adam "m" (0) and "v" (1).

        The array has the variable's shape. The slots of rowwise_adagrad, "accumulator", and of rowwise_adam, "v" (1), have one element for
        each row: shape (rows, 1).
        """
        return self.read_slot_versioned(slot, out)[0]

    def read_slot_versioned(self, slot: int = 0, out: Array | None = None) -> tuple[Array, int, bool]:
        """read_slot(), with version and exactness as of read_versioned()."""
        array = self._into(out, self._slot_shape(slot))
        version, exact = C.c_uint64(), C.c_bool()
        self._call(lib.ps_variable_read_slot_versioned, slot, address(array), array.nbytes, C.byref(version), C.byref(exact))
        return array, version.value, exact.value

    def _strings(self, value: Any) -> tuple[Any, Any, int]:
        items = [v if isinstance(v, bytes) else str(v).encode() for v in _flat(value)]
        return (C.c_char_p * len(items))(*items), (C.c_size_t * len(items))(*map(len, items)), len(items)

    def assign(self, value: Any) -> None:
        """Replace the value, exactly once and at one moment; slots are kept. Strings: bytes or str, as many as the shape has elements."""
        if self._dtype == Dtype.STRING:
            self._call(lib.ps_variable_assign_strings, *self._strings(value))
        else:
            array = self._sent(value, "the value")
            self._call(lib.ps_variable_assign, address(array), array.nbytes)

    def init_from(self, value: Any) -> None:
        """assign(), only if the variable has no value when the request comes to its task."""
        if self._dtype == Dtype.STRING:
            self._call(lib.ps_variable_init_strings, *self._strings(value))
        else:
            array = self._sent(value, "the value")
            self._call(lib.ps_variable_init_from, address(array), array.nbytes)

    def initialize(self, force: bool = False) -> None:
        """Run its initializer. force: also if it has a value; slots are reset then."""
        self._call(lib.ps_variable_init, force)

    @property
    def is_initialized(self) -> bool:
        """Whether it has a value; asks its task."""
        out = C.c_bool()
        self._call(lib.ps_variable_is_initialized, C.byref(out))
        return out.value

    def _add(self, function: Callable[..., int], delta: Any) -> Array | None:
        array = self._sent(delta, "delta")
        out = empty(self._dtype, self.shape) if 0 < array.nbytes <= 64 else None
        self._call(function, address(array), array.nbytes, None if out is None else address(out), 0 if out is None else out.nbytes)
        return out

    def assign_add(self, delta: Any) -> Array | None:
        """v += delta, exactly once. Returns the value right after it if that has at most 64 bytes, else None."""
        return self._add(lib.ps_variable_assign_add, delta)

    def assign_sub(self, delta: Any) -> Array | None:
        """v -= delta, as assign_add()."""
        return self._add(lib.ps_variable_assign_sub, delta)

    def push(self, gradient: Any, scale: float = 1.0) -> None:
        """Apply a gradient with the variable's optimizer, exactly once. scale multiplies it before: 1 / replicas when averaging."""
        array = self._sent(gradient, "the gradient")
        self._call(lib.ps_variable_push, address(array), array.nbytes, scale)

    def push_pull(self, gradient: Any, out: Array | None = None, scale: float = 1.0) -> Array:
        """push(), and receive the value after it, in one round trip."""
        return self.push_pull_versioned(gradient, out, scale)[0]

    def push_pull_versioned(self, gradient: Any, out: Array | None = None, scale: float = 1.0) -> tuple[Array, int, bool]:
        """push_pull(), with version and exactness as of read_versioned()."""
        array, result = self._sent(gradient, "the gradient"), self._into(out)
        version, exact = C.c_uint64(), C.c_bool()
        self._call(
            lib.ps_variable_push_pull_versioned,
            *(address(array), array.nbytes, address(result), result.nbytes, scale, C.byref(version), C.byref(exact)),
        )
        return result, version.value, exact.value

    def _rows(self, function: Callable[..., int], indices: Any, rows: Any, what: str, *more: float) -> None:
        at = indices_of(indices, repr(self.name))
        array = sent(rows, self._dtype, at.shape + self._row(), f"{what} for {self.name!r}")
        self._call(function, address(at), at.size, address(array), array.nbytes, *more)

    def _row(self) -> tuple[int, ...]:
        if self._dtype == Dtype.STRING or not self.shape:
            fail(f"variable {self.name!r} is {self.dtype} {list(self.shape)}, and has no rows: neither scalars nor strings have")
        return self.shape[1:]

    def gather(self, indices: Any, out: Array | None = None) -> Array:
        """Read rows: numpy.take(v, indices, axis=0), of which only the rows travel. An array of shape indices.shape + v.shape[1:].

        indices  integers of any dtype and shape, in any order and more than once, each at least 0 and less than v.shape[0]
        out      gets the rows: a contiguous, writable array of that shape and the variable's dtype. After an error it may be torn.

        Each row is whole: it has all of a push or none of it.

        Raises OutOfRange, which is an IndexError, for an index outside: the text says which, and where it stands. A negative index does not
        count from the end. FailedPrecondition: the variable has no value yet.
        """
        at = indices_of(indices, repr(self.name))
        array = into(out, self._dtype, at.shape + self._row(), f"out for {self.name!r}")
        self._call(lib.ps_gather, address(at), at.size, address(array), array.nbytes)
        return array

    def push_rows(self, indices: Any, rows: Any, scale: float = 1.0) -> None:
        """Apply gradients of some rows with the variable's optimizer, exactly once. Only these rows and their slots change.

        indices  as of gather(). Gradients for a row that is named several times are added first, in their order.
        rows     gradients, of shape indices.shape + v.shape[1:] and the variable's dtype
        scale    multiplies the sums before the update; finite, more than 0

        Raises OutOfRange for an index outside; nothing is applied. FailedPrecondition: no optimizer, or the variable is in rounds.
        Unimplemented: adam, adamw_tf, amsgrad and nadam, whose sparse form moves all rows, for values of more than 16 MiB;
        psd.optimizer("lazy_adam") moves those of the gradient.
        """
        self._rows(lib.ps_push_rows, indices, rows, "the gradient", scale)

    def push_pull_rows(self, indices: Any, rows: Any, out: Array | None = None, scale: float = 1.0) -> Array:
        """push_rows(), and the new values of these rows in the same exchange: an array of shape indices.shape + v.shape[1:].

        indices, rows, scale  as of push_rows()
        out                   gets the new values, as of gather(); it may be the array `rows`

        All values contain this push. Raises as push_rows().
        """
        at = indices_of(indices, repr(self.name))
        shape = at.shape + self._row()
        array = sent(rows, self._dtype, shape, f"the gradient for {self.name!r}")
        new = into(out, self._dtype, shape, f"out for {self.name!r}")
        self._call(lib.ps_push_pull_rows, address(at), at.size, address(array), array.nbytes, address(new), new.nbytes, scale)
        return new

    def scatter_add(self, indices: Any, rows: Any) -> None:
        """Add rows, exactly once, without the optimizer: numpy.add.at(v, indices, rows). Arguments and errors as of push_rows(). Integers wrap."""
        self._rows(lib.ps_scatter_add, indices, rows, "the rows")

    def scatter_sub(self, indices: Any, rows: Any) -> None:
        """Subtract rows, as scatter_add()."""
        self._rows(lib.ps_scatter_sub, indices, rows, "the rows")

    def scatter_update(self, indices: Any, rows: Any) -> None:
        """Replace rows, exactly once, as v[indices] = rows. Of several rows for one index the last counts. Otherwise as scatter_add()."""
        self._rows(lib.ps_scatter_update, indices, rows, "the rows")

    def set_rate(self, rate: float | None) -> None:
        """Set a learning rate in place of its optimizer's, for pushes of all sessions; None: the optimizer's again."""
        self._call(lib.ps_variable_set_rate, None if rate is None else C.byref(C.c_double(rate)))

    async def pull_async(self, out: Array | None = None) -> Array:
        """read() on a thread, for asyncio. Cancelling the task does not end the request."""
        return await self.session._thread(self.read, out)

    async def push_async(self, gradient: Any, scale: float = 1.0) -> None:
        """push() on a thread. The gradient must not change until it has ended."""
        await self.session._thread(self.push, gradient, scale)

    async def push_pull_async(self, gradient: Any, out: Array | None = None, scale: float = 1.0) -> Array:
        """push_pull() on a thread."""
        return await self.session._thread(self.push_pull, gradient, out, scale)

    async def gather_async(self, indices: Any, out: Array | None = None) -> Array:
        """gather() on a thread."""
        return await self.session._thread(self.gather, indices, out)

    async def push_rows_async(self, indices: Any, rows: Any, scale: float = 1.0) -> None:
        """push_rows() on a thread. Indices and rows must not change until it has ended."""
        await self.session._thread(self.push_rows, indices, rows, scale)

    async def push_pull_rows_async(self, indices: Any, rows: Any, out: Array | None = None, scale: float = 1.0) -> Array:
        """push_pull_rows() on a thread. Indices and rows must not change until it has ended."""
        return await self.session._thread(self.push_pull_rows, indices, rows, out, scale)

    async def assign_async(self, value: Any) -> None:
        """assign() on a thread."""
        await self.session._thread(self.assign, value)

    async def assign_add_async(self, delta: Any) -> Array | None:
        """assign_add() on a thread."""
        return await self.session._thread(self.assign_add, delta)


def _flat(value: Any) -> Sequence[Any]:
    if isinstance(value, (str, bytes)):
        return [value]
    import numpy as np

    return list(np.asarray(value, object).reshape(-1))


class _Memory:
    """Memory of the library, held as long as an array over it lives: also after Session.close()."""

    def __init__(self, param: int) -> None:
        self.held = lib.ps_param_hold(param)
        if not self.held:
            fail("there is no memory for the parameter")
        weakref.finalize(self, lib.ps_param_release, self.held).atexit = False


class _View:
    """What NumPy asks for the address of an array's memory."""

    def __init__(self, memory: _Memory, address: int, shape: tuple[int, ...]) -> None:
        self.memory = memory
        self.__array_interface__ = {"shape": shape, "typestr": "<f4", "data": (address, False), "version": 3}


class Parameter:
    """A trainable float32 variable with a value array and a gradient array. Session.param() gives it.

    The arrays lie in the library's memory: nothing is copied. They live as long as somebody has one of them or a view of it, also after the
    session is closed.
    """

    def __init__(self, session: Session, pointer: int, shape: tuple[int, ...]) -> None:
        self.session = session
        self._pointer = pointer
        self.shape = shape
        self.name = session._held(lambda _: text(lib.ps_param_name(pointer)))
        self._memory = session._held(lambda _: _Memory(pointer))
        self._arrays: dict[int, Array] = {}
        self._last: dict[str, Array] = {}
        self.value  # noqa: B018 - makes the array now: it stays usable after the session has closed
        self.grad  # noqa: B018

    def __repr__(self) -> str:
        return f"<psd.Parameter {self.name!r} float32 {list(self.shape)}>"

    def _array(self, which: str, address: int) -> Array:
        array = self._arrays.get(address)
        if array is None:
            import numpy as np

            array = self._arrays[address] = np.asarray(_View(self._memory, address, self.shape))
        self._last[which] = array
        return array

    @property
    def value(self) -> Array:
        """The values of the last Session.pull(). Ask again after each pull: with push_pull() and prefetch there are two arrays that take
        turns. After Session.close(): the last array."""
        at = self.session._look(lambda _: lib.ps_param_value(self._pointer), None)
        return self._last["value"] if at is None else self._array("value", at)

    @property
    def grad(self) -> Array:
        """The gradient array. Waits until the last push of it is acknowledged. Nobody sets it to zero: write all of it."""
        if self.session._closed:
            return self._last["grad"]
        return self._array("grad", self.session._once(lib.ps_param_grad, self._pointer))

    @grad.setter
    def grad(self, gradient: Any) -> None:
        array = sent(gradient, Dtype.F32, self.shape, f"the gradient for {self.name!r}")
        self.grad[...] = array

    @property
    def version(self) -> tuple[int, bool]:
        """Version of the values of the last pull, and whether all elements are of that version."""
        exact = C.c_bool()
        return self.session._held(lambda _: int(lib.ps_param_version(self._pointer, C.byref(exact)))), exact.value

    def pull(self) -> Array:
        """Pull this parameter alone."""
        self.session._check(lib.ps_pull_param, self._pointer, again=True)
        return self.value

    def push(self, gradient: Any = None) -> None:
        """Send the gradient array, after copying `gradient` into it if that is given. Returns at once; in rounds it is this worker's
        contribution, which Session.step_done() completes."""
        self._push(lib.ps_push, gradient)

    def push_pull(self, gradient: Any = None) -> None:
        """push(), and receive the values after it for the next Session.pull(), while the program computes."""
        self._push(lib.ps_push_pull, gradient)

    def _push(self, function: Callable[..., int], gradient: Any) -> None:
        if gradient is not None:
            self.grad = gradient
        self.session._check(function, self.session._live(), self._pointer)

    def accumulate(self, gradient: Any = None, share: float = 1.0) -> None:
        """Add share times the gradient array, into which `gradient` is copied if given, to the parameter's sum: gradients of micro-batches. The
        next push() or push_pull() sends the sum in place of the gradient array, even if that push is given a gradient; then a new sum begins.

        gradient  float32, of the parameter's shape
        share     1 to add, 1 / micro-batches to average; finite

        The sum is float32, in the order of the calls. A step that is left out (guard_nan "skip") and a recovery drop it. Errors are sticky.
        """
        if gradient is not None:
            self.grad = gradient
        self.session._check(lib.ps_accumulate, self._pointer, share)

    def clip_norm(self, max_norm: float) -> float:
        """Limit the Euclidean norm of what the next push sends, the sum of accumulate() if there is one: the ps multiplies it by max_norm / norm
        if norm is larger than max_norm. The arrays stay as they are. Returns the norm before.

        max_norm  finite, more than 0

        Errors are sticky. Unimplemented: in rounds; Session.sync_clip_norm() limits the averages.
        """
        norm = C.c_double()
        self.session._check(lib.ps_clip_norm, self._pointer, max_norm, C.byref(norm))
        return norm.value


class Embedding:
    """A trainable float32 table, of which this process holds only the rows of a batch. Session.embedding() gives it. It is for rounds
    (Session.sync_rows()); without rounds Variable.gather() and Variable.push_rows() do the same.

    shape   of the whole table
    """

    def __init__(self, session: Session, pointer: int, shape: tuple[int, ...]) -> None:
        self.session = session
        self._pointer = pointer
        self.shape = shape
        self.name = session._held(lambda _: text(lib.ps_param_name(pointer)))
        self._count = 0  # rows of the last pull()

    def __repr__(self) -> str:
        return f"<psd.Embedding {self.name!r} float32 {list(self.shape)}>"

    def pull(self, ids: Any) -> tuple[Array, Array]:
        """Read the rows of a batch. Returns the different rows, in the order of rising ids, and for each id its place among them.

        ids  integers of any dtype and shape, in any order and more than once, each at least 0 and less than shape[0]

        Errors are sticky. Raises OutOfRange, an IndexError, for an id outside.
        """
        at = indices_of(ids, repr(self.name))
        places = empty(Dtype.I64, at.shape)
        self.session._check(lib.ps_embedding_pull, self._pointer, address(at), at.size, address(places), again=True)
        self._count = int(places.max()) + 1 if at.size > 0 else 0
        rows = empty(Dtype.F32, (self._count, *self.shape[1:]))
        self.session._held(lambda _: C.memmove(address(rows), lib.ps_param_value(self._pointer), rows.nbytes))
        return rows, places

    def push(self, gradient: Any) -> None:
        """Send the gradient of the rows that the last pull() returned, once in a step; Session.step_done() completes it. A step without it
        pushes no rows.

        gradient  float32, of the shape of these rows

        Errors are sticky. ResourceExhausted: in rounds, more rows than Session.sync_rows() has reserved.
        """
        array = sent(gradient, Dtype.F32, (self._count, *self.shape[1:]), f"the gradient for {self.name!r}")
        self.session._once(lambda: C.memmove(lib.ps_param_grad(self._pointer), address(array), array.nbytes))
        self.session._check(lib.ps_push, self.session._live(), self._pointer)


def clip_global_norm(params: Sequence[Parameter], max_norm: float) -> float:
    """Limit the norm of the gradients of several parameters of one session together, as Parameter.clip_norm(): each is multiplied by the same
    factor. Returns the norm before; 0 without parameters.

    params    those that this step pushes, each once
    """
    if not params:
        return 0.0
    for p in params:
        if p.session is not params[0].session:
            fail(f"parameter {p.name!r} is of another session than {params[0].name!r}")
    pointers, norm = (C.c_void_p * len(params))(*(p._pointer for p in params)), C.c_double()
    params[0].session._check(lib.ps_clip_global_norm, pointers, len(params), max_norm, C.byref(norm))
    return norm.value
