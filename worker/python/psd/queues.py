# SPDX-License-Identifier: Apache-2.0
"""Queues, work and accumulators: data that programs which train together give to each other."""

from __future__ import annotations

import ctypes as C
import weakref
from typing import TYPE_CHECKING, Any, Callable, Iterator, Sequence

from ._abi import Dtype, QueueKind, Reduction, ps_from, ps_into, ps_queue_spec, ps_shape, ps_summed_rows
from ._library import lib
from .errors import OutOfRange, check, fail
from .values import Shape, address, dims_of, dtype_of, empty, encoded, indices_of, milliseconds, name_of, sent, shape_of, text

if TYPE_CHECKING:
    from .session import Session
    from .values import Array

_COMPONENTS_MAX = 16


class _Tuple:
    """A buffer for elements with strings, or with shapes of their own."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.pointer = queue.session._held(lambda _: lib.ps_tuple_new(queue._pointer))
        if not self.pointer:
            check(8)
        weakref.finalize(self, lib.ps_tuple_free, self.pointer).atexit = False

    def put(self, values: Sequence[Any]) -> None:
        for i, (value, (dtype, shape)) in enumerate(zip(values, self.queue._components)):
            array = sent(value, dtype, shape, f"component {i} of an element for {self.queue.name!r}")
            struct = shape_of(array.shape)
            if dtype == Dtype.STRING:
                items = [v if isinstance(v, bytes) else str(v).encode() for v in array.reshape(-1)]
                texts, sizes = (C.c_char_p * len(items))(*items), (C.c_size_t * len(items))(*map(len, items))
                check(lib.ps_tuple_put_strings(self.pointer, C.byref(struct), texts, sizes, len(items)))
            else:
                check(lib.ps_tuple_put(self.pointer, C.byref(struct), address(array), array.nbytes))

    def get(self, element: int, component: int) -> Any:
        shape = ps_shape()
        dtype = self.queue._components[component][0]
        data, size = C.c_void_p(), C.c_size_t()
        if dtype != Dtype.STRING:
            check(lib.ps_tuple_get(self.pointer, element, component, C.byref(data), C.byref(size), C.byref(shape)))
            array = empty(dtype, dims_of(shape))
            C.memmove(address(array), data, size.value)
            return array
        words: list[bytes] = []
        while lib.ps_tuple_get_string(self.pointer, element, component, len(words), C.byref(data), C.byref(size), C.byref(shape)) == 0:
            words.append(C.string_at(data, size.value) if size.value else b"")
        array = empty(dtype, dims_of(shape))
        array.reshape(-1)[:] = words
        return array if array.shape else words[0]


class Queue:
    """A queue at one task. Session.queue() and Session.find_queue() give it.

    An element is an array for each component; a queue with one component takes and gives the array alone.

    name, device   "mailbox", "/job:ps/task:0/device:CPU:0"
    """

    def __init__(self, session: Session, pointer: int) -> None:
        self.session, self._pointer = session, pointer
        session._held(self._read, pointer)

    def _read(self, handle: int, pointer: int) -> None:
        self.name = text(lib.ps_queue_name(pointer))
        self.device = text(lib.ps_queue_device(pointer))
        spec = ps_queue_spec.from_address(lib.ps_queue_spec_of(pointer))
        self.kind = QueueKind(spec.kind).name.lower()
        self.capacity: int | None = spec.capacity if spec.capacity >= 0 else None
        self._components = [(Dtype(c.dtype), dims_of(c.shape) if c.shaped else None) for c in spec.components[: spec.component_count]]
        self._fixed = all(shape is not None and dtype != Dtype.STRING for dtype, shape in self._components)

    def __repr__(self) -> str:
        of = ", ".join(f"{name_of(d)} {'?' if s is None else list(s)}" for d, s in self._components)
        return f"<psd.Queue {self.name!r} ({of}) on {self.device}>"

    @classmethod
    def get(
        cls,
        session: Session,
        name: str,
        components: Any = "float32",
        shape: Shape | None = (),
        *,
        capacity: int | None = None,
        shuffle: int | None = None,
        seed: int = 0,
        device: str | None = None,
    ) -> Queue:
        """Get or create a queue.

        components  a dtype with `shape`, or a list of (dtype, shape), at most 16; shape None: each element has its own
        capacity    elements; None: unbounded
        shuffle     not None: gives out any element; while the queue is open at least so many stay
        device      "/job:ps/task:1"; None: the directory's task
        """
        parts = components if isinstance(components, list) else [(components, shape)]
        if not 0 < len(parts) <= _COMPONENTS_MAX:
            fail(f"queue {name!r} has {len(parts)} components, and must have 1 to {_COMPONENTS_MAX}")
        spec, out = ps_queue_spec(), C.c_void_p()
        lib.ps_queue_spec_init(C.byref(spec), None, Dtype.F32, shape_of(()))
        spec.name = name.encode()
        spec.component_count, spec.device, spec.seed = len(parts), encoded(device), seed
        spec.capacity = -1 if capacity is None else capacity
        spec.kind = QueueKind.FIFO if shuffle is None else QueueKind.RANDOM_SHUFFLE
        spec.min_after_dequeue = shuffle or 0
        for c, (dtype, dims) in zip(spec.components, parts):
            c.dtype, c.shaped, c.shape = dtype_of(dtype), dims is not None, shape_of(() if dims is None else dims)
        session._check(lib.ps_queue_get, session._live(), C.byref(spec), C.byref(out))
        return cls(session, int(out.value or 0))

    @classmethod
    def find(cls, session: Session, name: str) -> Queue:
        """Find an existing queue."""
        out = C.c_void_p()
        session._check(lib.ps_queue_find, session._live(), name.encode(), C.byref(out))
        return cls(session, int(out.value or 0))

    def _call(self, function: Callable[..., int], *args: Any) -> None:
        self.session._check(function, self._pointer, *args)

    def _values(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(values) != len(self._components):
            fail(f"an element of {self.name!r} has {len(self._components)} components, {len(values)} are given")
        return values

    def put(self, *values: Any, timeout: float | None = None) -> None:
        """Put one element in. Waits while the queue is full. Raises Cancelled if it is closed, DeadlineExceeded if it stays full."""
        self.session._live()
        values = self._values(values)
        if not self._fixed:
            t = _Tuple(self)
            t.put(values)
            self._call(lib.ps_enqueue_tuple, t.pointer, milliseconds(timeout), None)
            return
        arrays = [sent(v, d, s, f"component {i} of an element for {self.name!r}") for i, (v, (d, s)) in enumerate(zip(values, self._components))]
        self._call(lib.ps_enqueue, self._from(arrays), len(arrays), milliseconds(timeout))

    @staticmethod
    def _from(arrays: Sequence[Array]) -> Any:
        return (ps_from * len(arrays))(*(ps_from(address(a), a.nbytes) for a in arrays))

    @staticmethod
    def _into(arrays: Sequence[Array]) -> Any:
        return (ps_into * len(arrays))(*(ps_into(address(a), a.nbytes) for a in arrays))

    def put_many(self, *values: Any, timeout: float | None = None) -> int:
        """Put several elements in: each value has one more dimension in front, the number of elements. Returns how many are in the queue."""
        self.session._live()
        values, inserted = self._values(values), C.c_uint32()
        count = len(values[0])
        if self._fixed:
            arrays = [
                sent(v, d, (count, *(s or ())), f"component {i} of {count} elements for {self.name!r}")
                for i, (v, (d, s)) in enumerate(zip(values, self._components))
            ]
            self._call(lib.ps_enqueue_many, self._from(arrays), len(arrays), count, milliseconds(timeout), C.byref(inserted))
        else:
            t = _Tuple(self)
            for element in zip(*values):
                t.put(element)
            self._call(lib.ps_enqueue_tuple, t.pointer, milliseconds(timeout), C.byref(inserted))
        return inserted.value

    def take(self, timeout: float | None = None) -> Any:
        """Take one element out: its array, or a tuple of arrays. Waits while there is none. Raises OutOfRange if the queue is closed and
        empty, DeadlineExceeded if no element came."""
        self.session._live()
        if not self._fixed:
            t = _Tuple(self)
            self._call(lib.ps_dequeue_tuple, t.pointer, 1, False, milliseconds(timeout))
            return self._given([t.get(0, i) for i in range(len(self._components))])
        arrays = [empty(d, s or ()) for d, s in self._components]
        self._call(lib.ps_dequeue, self._into(arrays), len(arrays), milliseconds(timeout))
        return self._given(arrays)

    def _given(self, arrays: list[Array]) -> Any:
        return arrays[0] if len(arrays) == 1 else tuple(arrays)

    def take_many(self, count: int, *, up_to: bool = False, timeout: float | None = None) -> Any:
        """Take `count` elements out, each component with one more dimension in front. up_to: fewer, at least one, if the queue is closed with
        fewer. Elements with strings or shapes of their own: a list of elements."""
        self.session._live()
        if not self._fixed:
            t = _Tuple(self)
            self._call(lib.ps_dequeue_tuple, t.pointer, count, up_to, milliseconds(timeout))
            return [self._given([t.get(e, i) for i in range(len(self._components))]) for e in range(lib.ps_tuple_count(t.pointer))]
        arrays, taken = [empty(d, (count, *(s or ()))) for d, s in self._components], C.c_uint32(count)
        if up_to:
            self._call(lib.ps_dequeue_up_to, self._into(arrays), len(arrays), count, milliseconds(timeout), C.byref(taken))
        else:
            self._call(lib.ps_dequeue_many, self._into(arrays), len(arrays), count, milliseconds(timeout))
        return self._given([a[: taken.value] for a in arrays])

    def __iter__(self) -> Iterator[Any]:
        """Take elements until the queue is closed and empty."""
        while True:
            try:
                element = self.take()
            except OutOfRange:
                return
            yield element

    async def put_async(self, *values: Any) -> None:
        """put() on a thread, for asyncio."""
        await self.session._thread(self.put, *values)

    async def take_async(self) -> Any:
        """take() on a thread."""
        return await self.session._thread(self.take)

    def __len__(self) -> int:
        """Number of elements in it; asks its task."""
        out = C.c_uint64()
        self.session._live()
        self._call(lib.ps_queue_size, C.byref(out))
        return out.value

    def __bool__(self) -> bool:
        return True

    @property
    def closed(self) -> bool:
        """Whether it is closed; asks its task."""
        out = C.c_bool()
        self.session._live()
        self._call(lib.ps_queue_is_closed, C.byref(out))
        return out.value

    def close(self, cancel_pending: bool = False, timeout: float | None = None) -> None:
        """Close it for all: what is in it can still be taken. cancel_pending: puts that wait end with Cancelled."""
        self._call(lib.ps_queue_close, cancel_pending, milliseconds(timeout))


class WorkItem:
    """An item of work that this session has.

    data   bytes; str() decodes them
    epoch  from 1 on
    again  how often it was handed out in this epoch and came back undone
    done_before  set by done(): another session had done it
    """

    def __init__(self, work: Work, struct: Any) -> None:
        self._work, self._struct, self._open = work, struct, True
        self.data = C.string_at(struct.data, struct.bytes) if struct.bytes else b""
        self.epoch: int = struct.epoch
        self.again: int = struct.again
        self.done_before = False

    def __str__(self) -> str:
        return self.data.decode()

    def __repr__(self) -> str:
        return f"<psd.WorkItem {self.data!r} epoch {self.epoch}>"

    def _end(self, function: Callable[..., int]) -> None:
        if not self._open:
            fail(f"work item {self.data!r} was reported already")
        self._work.session._live()
        self._open = False
        self._work._call(function, C.byref(self._struct))

    def done(self) -> None:
        """Report that it is done."""
        self._end(lib.ps_work_done)
        self.done_before = bool(self._struct.done_before)

    def give_back(self) -> None:
        """Return it undone: it is handed out again."""
        self._end(lib.ps_work_return)


class Work:
    """Items that the sessions of a cluster share: each is handed out once per epoch, and again if the session that has it ends.

        for item in session.work("files", names):
            train(str(item))

    The loop reports an item as done when it asks for the next one. An item whose turn ends with an exception, or `break`, is returned undone.
    """

    def __init__(self, session: Session, name: str, items: Sequence[str | bytes], epochs: int, seed: int) -> None:
        self.session, self.name = session, name
        raw = [i if isinstance(i, bytes) else str(i).encode() for i in items]
        out = C.c_void_p()
        texts, sizes = (C.c_char_p * len(raw))(*raw), (C.c_size_t * len(raw))(*map(len, raw))
        session._check(lib.ps_work_get, session._live(), name.encode(), texts, sizes, len(raw), epochs, seed, C.byref(out))
        self._pointer = int(out.value or 0)

    def __repr__(self) -> str:
        return f"<psd.Work {self.name!r}>"

    def _call(self, function: Callable[..., int], *args: Any) -> None:
        self.session._check(function, self._pointer, *args)

    def next(self, timeout: float | None = None) -> WorkItem:
        """Get the next item. Waits while other sessions have all that are left. Raises OutOfRange when all epochs are done."""
        from ._abi import ps_work_item

        struct = ps_work_item()
        self.session._live()
        self._call(lib.ps_work_next, C.byref(struct), milliseconds(timeout))
        return self.session._held(lambda _: WorkItem(self, struct))

    def __iter__(self) -> Iterator[WorkItem]:
        while True:
            try:
                item = self.next()
            except OutOfRange:
                return
            try:
                yield item
            except BaseException:
                if item._open and not self.session._closed:
                    item.give_back()
                raise
            if item._open:
                item.done()


class Accumulator:
    """Adds up gradients of several workers at a task until somebody takes them. Session.accumulator() gives it."""

    @staticmethod
    def _getter() -> Any:
        return lib.ps_accumulator_get

    def __init__(self, session: Session, name: str, shape: Shape, dtype: Dtype, reduction: Reduction, device: str | None) -> None:
        self.session, self.name, self._dtype = session, name, dtype
        struct, out = shape_of(shape), C.c_void_p()
        self.shape = dims_of(struct)
        args = (session._live(), name.encode(), dtype, struct, reduction, encoded(device), C.byref(out))
        session._check(self._getter(), *args)
        self._pointer = int(out.value or 0)

    def __repr__(self) -> str:
        return f"<psd.{type(self).__name__} {self.name!r} {name_of(self._dtype)} {list(self.shape)}>"

    def _call(self, function: Callable[..., int], *args: Any) -> None:
        self.session._check(function, self._pointer, *args)

    def apply(self, gradient: Any, local_step: int = 0, timeout: float | None = None) -> bool:
        """Add a gradient. False: it is dropped, because local_step is below the accumulator's global step."""
        array, out = sent(gradient, self._dtype, self.shape, f"the gradient for {self.name!r}"), C.c_bool()
        self.session._live()
        self._call(lib.ps_accumulator_apply_grad, address(array), array.nbytes, local_step, milliseconds(timeout), C.byref(out))
        return out.value

    def take(self, count: int, timeout: float | None = None) -> tuple[Array, int]:
        """Wait until `count` gradients are added, and take their mean or sum. Returns it and the number of gradients in it."""
        array, out = empty(self._dtype, self.shape), C.c_uint64()
        self.session._live()
        self._call(lib.ps_accumulator_take_grad, count, address(array), array.nbytes, milliseconds(timeout), C.byref(out))
        return array, out.value

    def set_global_step(self, step: int) -> int:
        """Set its global step. Returns the one before."""
        out = C.c_int64()
        self.session._live()
        self._call(lib.ps_accumulator_set_global_step, step, C.byref(out))
        return out.value

    @property
    def accumulated(self) -> int:
        """Number of gradients since the last take; asks its task."""
        out = C.c_uint64()
        self.session._live()
        self._call(lib.ps_accumulator_num_accumulated, C.byref(out))
        return out.value


class SparseAccumulator(Accumulator):
    """Adds up gradients of some rows, row by row, until somebody takes them. Session.sparse_accumulator() gives it.

    apply() and take() are those of a dense one, and raise InvalidArgument here.
    """

    @staticmethod
    def _getter() -> Any:
        return lib.ps_sparse_accumulator_get

    def apply_rows(self, indices: Any, rows: Any, local_step: int = 0, timeout: float | None = None) -> bool:
        """Add a gradient. False: it is dropped, because local_step is below the accumulator's global step.

        indices  as of Variable.gather(). Gradients for a row that is named several times are added first, and count once.
        rows     of shape indices.shape + shape[1:] and the accumulator's dtype

        Raises OutOfRange for an index outside.
        """
        at = indices_of(indices, repr(self.name))
        array, out = sent(rows, self._dtype, at.shape + self.shape[1:], f"the gradient for {self.name!r}"), C.c_bool()
        self.session._live()
        args = (address(at), at.size, address(array), array.nbytes, local_step, milliseconds(timeout), C.byref(out))
        self._call(lib.ps_accumulator_apply_rows, *args)
        return out.value

    def take_rows(self, count: int, timeout: float | None = None) -> tuple[Array, Array, Array, int]:
        """Wait until `count` gradients are added, and take their mean or sum: (indices, rows, counts, gradients).

        Indices rise; counts says for each row how many gradients have it; gradients is the number of all.
        """
        out = ps_summed_rows()
        self.session._live()
        self._call(lib.ps_accumulator_take_rows, count, milliseconds(timeout), C.byref(out))
        try:
            lists = empty(Dtype.I64, (out.count,)), empty(self._dtype, (out.count,) + self.shape[1:]), empty(Dtype.I64, (out.count,))
            for array, data in zip(lists, (out.indices, out.rows, out.counts)):
                C.memmove(address(array), data, array.nbytes)
            return lists[0], lists[1], lists[2], out.gradients
        finally:
            lib.ps_summed_rows_free(C.byref(out))
