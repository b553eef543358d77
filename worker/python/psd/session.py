# SPDX-License-Identifier: Apache-2.0
"""Sessions with a psd cluster."""

from __future__ import annotations

import ctypes as C
import os
import sys
import threading
import weakref
from contextlib import contextmanager, suppress
from time import sleep
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, NoReturn, Sequence, TypeVar

from . import _logs, _waits
from ._abi import (
    Dtype,
    LogLevel,
    NanAction,
    NormOf,
    PlacementStrategy,
    Reason,
    Reduction,
    Reuse,
    RowsMean,
    Status,
    SyncMode,
    WorkerLoss,
    ps_device_info,
    ps_monitored_options,
    ps_recovery,
    ps_session_options,
    ps_setter_options,
    ps_sync_options,
    ps_variable_spec,
)
from ._library import lib
from .cluster import ClusterSpec, Device
from .errors import Error, FailedPrecondition, check, error_of, fail, last_error
from .files import Files
from .hooks import Hook, attach
from .values import Initializer, NoOptimizer, Optimizer, Partitioner, Shape, dtype_of, encoded, glorot, milliseconds, shape_of, text, zeros
from .variables import Embedding, Parameter, Variable

if TYPE_CHECKING:
    from .plans import Plan
    from .queues import Accumulator, Queue, SparseAccumulator, Work

_T = TypeVar("_T")
_FORKED = (
    "a session belongs to the process that opened it (pid {}). This is a child made by fork: open a session here, "
    "or start the child with multiprocessing's `spawn`"
)
_CANCELLED = int(Status.CANCELLED)
_RESTORE = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p)
_open: weakref.WeakSet[Session] = weakref.WeakSet()


class Recovery:
    """What the last recovery of a monitored session found: fields as of ps_recovery in ps_monitored.h; str() is one line."""

    def __init__(self, r: ps_recovery) -> None:
        self.count: int = r.count
        self.replacements: int = r.replacements
        self.status = Status(r.status)
        self.reason: int = r.reason
        self.restored: bool = r.restored
        self.initialised: bool = r.initialised
        self.replaced: bool = r.replaced
        self.step_before: int = r.step_before
        self.step: int = r.step
        self.model_step: int = r.model_step
        self.lost_steps: int = r.lost_steps
        self.lost_steps_total: int = r.lost_steps_total
        self.took: float = r.took_ms / 1000
        self.checkpoint: int = r.checkpoint
        self.partly: bool = r.partly
        self.text = text(r.text)

    def __repr__(self) -> str:
        return f"<psd.Recovery {self.text!r}>"


def _abandon(handle: int, forks: int, lent: list[Any]) -> None:
    """Called for a session that nobody closed, when it is collected or at exit. Tasks learn at once that it is gone; it counts as lost. At exit it is
    not closed, and the memory that its pushes may read is never freed."""
    if forks == _waits.forks:
        _waits.forget(handle)
        lib.ps_session_leave(handle)
        if not sys.is_finalizing() and threading.main_thread().is_alive():
            lib.ps_session_close(handle)
        else:
            C.pythonapi.Py_IncRef(C.py_object(lent))


class Session(Files):
    """A session with a cluster. It is a context manager: an exception inside ends the session as a loss, not as a finish.

    Without target and cluster the environment tells: TF_CONFIG, else PSD_TARGET, else 127.0.0.1:2222. Session.from_args() reads the
    command line as well. Opening contacts nobody: connections are made at first use.

    target    "host:port", "psd://host:port" or "unix:PATH" of any task
    cluster   a ClusterSpec, or what it takes: {"ps": ["a:2222"], "worker": ["b:2222"]}, a spec string, "@FILE"
    job, task  of this process: "worker", 0
    key_file  the key of this process (docs/SECURITY.md); "": none; None: PSD_KEY_FILE, ~/.config/psd/key, /etc/psd/psd.keys
    tls_cert, tls_key, tls_ca   PEM files instead of a key
    container  of its variables; programs with different ones never meet
    timeout, ready_timeout, start_timeout   seconds: of an operation (60), of ready() (600), of a wait for a task that was never connected
    seed      of initializers
    wire_dtype  "float32", "bfloat16" or "float16": how float32 values and gradients travel
    log_level  "debug", "info", "warn" or "error": of the lines for the `logging` logger "psd"

    Raises psd.InvalidArgument that names the option. Methods raise psd.Error; errors that the C header calls sticky end the session: each
    later call raises that error.
    """

    _monitored = False

    def __init__(
        self,
        target: str | None = None,
        *,
        cluster: ClusterSpec | Mapping[str, Any] | str | None = None,
        cluster_name: str = "psd",
        job: str | None = None,
        task: int = 0,
        key_file: str | os.PathLike[str] | None = None,
        tls_cert: str | None = None,
        tls_key: str | None = None,
        tls_ca: str | None = None,
        container: str | None = None,
        timeout: float = 60.0,
        ready_timeout: float = 600.0,
        start_timeout: float | None = None,
        seed: int = 0,
        wire_dtype: str | None = None,
        prefetch: bool = False,
        allow_soft_placement: bool = False,
        log_device_placement: bool = False,
        log_level: str = "info",
        program: str | None = None,
        spin_us: int = 50,
        fail_fast: bool = False,
    ) -> None:
        o = ps_session_options()
        lib.ps_session_options_init(C.byref(o))
        spec = None if cluster is None else str(cluster if isinstance(cluster, ClusterSpec) else ClusterSpec(cluster))
        if target is None and spec is None:
            role = Role()
            spec, job = role.cluster, job if job is not None else role.job
            task = task or role.task
            target = None if spec else os.environ.get("PSD_TARGET") or "127.0.0.1:2222"
        o.target, o.cluster_spec, o.cluster_name, o.job = map(encoded, (target, spec, cluster_name, job))
        o.key_file = None if key_file is None else os.fspath(key_file).encode()
        o.tls_cert, o.tls_key, o.tls_ca, o.container = map(encoded, (tls_cert, tls_key, tls_ca, container))
        if log_level not in ("debug", "info", "warn", "error"):
            fail(f"log_level is {log_level!r}, and must be debug, info, warn or error")
        o.log_level = LogLevel[log_level.upper()]
        o.task_index, o.spin_us, o.seed = task, spin_us, seed
        o.operation_timeout_ms, o.ready_timeout_ms = milliseconds(timeout), milliseconds(ready_timeout)
        o.start_timeout_ms = milliseconds(start_timeout)
        o.wire_dtype = Dtype.DTYPE_NONE if wire_dtype is None else dtype_of(wire_dtype)
        o.prefetch, o.allow_soft_placement, o.log_device_placement, o.fail_fast = prefetch, allow_soft_placement, log_device_placement, fail_fast
        o.program = encoded(program or os.path.basename(sys.argv[0]) or "python")
        _logs.start()
        error, out = C.create_string_buffer(1024), C.c_void_p()
        status = self._open(o, out, error)
        if status != 0:
            raise error_of(status, text(error.value))
        self._begin(int(out.value or 0), max(timeout, ready_timeout))

    def _open(self, o: ps_session_options, out: C.c_void_p, error: C.Array[C.c_char]) -> int:
        return int(lib.ps_session_open(C.byref(o), C.byref(out), error, len(error)))

    def _open_args(self, argc: C.c_int, argv: Any, about: bytes) -> int:
        return int(lib.ps_session_open_args(C.byref(argc), argv, about))

    def _begin(self, handle: int, limit: float) -> None:
        self._handle = handle
        self._forks = _waits.forks
        self._pid = os.getpid()
        self._closed = False
        self._closer: int | None = None  # the thread in close(), whose hooks may use the session
        self._inside: dict[int, None] = {}  # threads in _held(): close() waits for the others, because it frees the session
        self._limit = limit
        self._asked = 0  # interrupts that the program asked for
        self._told = False  # the session's error was raised
        self._raised: BaseException | None = None  # exception that a hook has raised
        self._kept: list[Any] = []  # callbacks that C may call
        self._lent: list[Any] = []  # memory that pushes may read
        self._begun: dict[Any, Any] = {}  # calls made for a psd.torch.Optimizer whose construction was interrupted: the next one skips them
        self._tables: list[Any] = []  # psd.torch.Embedding
        self.args: list[str] = []
        self._finalizer = weakref.finalize(self, _abandon, handle, self._forks, self._lent)
        _open.add(self)

    @classmethod
    def from_args(cls: type[_T], argv: Sequence[str] | None = None, about: str = "", **monitored: Any) -> _T:
        """Open a session with the flags of a trainer (--ps_hosts, --job_name, --steps, --sync, ...; --help lists them), TF_CONFIG and
        PSD_TARGET. Other arguments are left in `session.args`.

        argv       sys.argv if None; argv[0] is the program.
        monitored  of a MonitoredSession: its options.

        Raises SystemExit after --help.
        """
        words = [os.fsencode(w) for w in (sys.argv if argv is None else argv)] or [b"python"]
        count, pointers = C.c_int(len(words)), (C.c_char_p * (len(words) + 1))(*words, None)
        self = cls.__new__(cls)
        assert isinstance(self, Session)
        _logs.start()
        self._set_monitored(**monitored)
        handle = self._open_args(count, pointers, about.encode())
        self._begin(handle, 660.0)
        self.args = [os.fsdecode(pointers[i] or b"") for i in range(count.value)]
        error = self._first_error()
        if error is not None:
            self.close()
            raise error
        if {"--help", "-h"} & set(map(os.fsdecode, words)) - set(self.args):
            self.close()
            raise SystemExit(0)
        return self

    def _set_monitored(self) -> None:
        pass

    def __repr__(self) -> str:
        return self._look(lambda h: f"<psd.{type(self).__name__} task {lib.ps_task_index(h)} step {lib.ps_global_step(h)}>", "<psd.Session closed>")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a psd.Session cannot be pickled: give the other process the target, and open a session there")

    # ---- calls ----

    def _live(self) -> int:
        """The C session; raises if it is closed, or belongs to another process."""
        if self._closed and self._closer != threading.get_ident():
            fail("the session is closed", Status.FAILED_PRECONDITION)
        if self._forks != _waits.forks:
            fail(_FORKED.format(self._pid), Status.FAILED_PRECONDITION)
        return self._handle

    def _held(self, call: Callable[..., _T], *args: Any) -> _T:
        """Return call(the C session, *args): close() on another thread frees neither the session nor what belongs to it while it runs."""
        me, inside = _waits._get_ident(), self._inside
        outer = me in inside  # a hook makes calls within a call
        try:  # a signal may come behind each line
            inside[me] = None
            return call(self._live(), *args)
        finally:
            if not outer:
                inside.pop(me, None)

    def _look(self, read: Callable[[int], _T], closed: _T) -> _T:
        """Return read(the C session), which must not wait, or `closed` if the session is closed."""
        try:
            return self._held(read)
        except FailedPrecondition:
            return closed

    def _interrupts(self) -> int:
        return self._asked

    def _once(self, function: Callable[..., _T], *args: Any) -> _T:
        """Make a call that returns no status, and that a signal may end."""
        return self._held(_waits.once, function, args)  # type: ignore[no-any-return]

    def _check(self, function: Callable[..., int], *args: Any, again: bool = False) -> None:
        """Make a call that waits, and raise its error. again: after a signal the call may be repeated, because it continues where it was."""
        status = self._held(self._status, function, args, again)
        if status != 0:
            self._failed(last_error(status))

    def _status(self, handle: int, function: Callable[..., int], args: tuple[Any, ...], again: bool) -> int:
        asked = self._asked
        status: int = _waits.once(handle, function, args)
        if status == _CANCELLED and asked == self._asked:
            status = _waits.again(handle, self._interrupts, self._limit, again, function, args)
        return status

    def _failed(self, error: Error) -> NoReturn:
        if self._closed and error.reason == Reason.INTERRUPTED:  # by close()
            error = error_of(_CANCELLED, "ended beside the end of the session", Reason.CLOSING, error.applied)
        self._told = self._told or self._look(lib.ps_session_status, 0) != 0
        raised, self._raised = self._raised, None
        if raised is not None and not isinstance(raised, Exception):
            raise raised
        raise error from raised

    def _sticky(self) -> None:
        """Raise the session's first error after a call that returns no status."""
        self._live()
        error = self._first_error()
        if error is not None:
            self._failed(error)

    def _first_error(self) -> Error | None:
        def read(h: int) -> Error | None:
            status = lib.ps_session_status(h)
            return error_of(status, text(lib.ps_session_error(h)), lib.ps_session_reason(h), lib.ps_session_error_applied(h)) if status != 0 else None

        return self._look(read, None)

    async def _thread(self, function: Callable[..., _T], *args: Any) -> _T:
        import asyncio

        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()

        def end(setter: Callable[[Any], None], value: Any) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(lambda: None if future.done() else setter(value))

        def run() -> None:
            try:
                result = function(*args)
            except BaseException as e:
                end(future.set_exception, e)
            else:
                end(future.set_result, result)

        _waits.pool.submit(run)
        return await future

    # ---- life ----

    def __enter__(self: _T) -> _T:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            self.close()
            return
        if self._closed or self._forks != _waits.forks:
            return
        if not isinstance(error, Exception):
            self.leave()
        elif not self._told:
            self.fail(*((error.text, error.status) if isinstance(error, Error) else (f"{kind.__name__}: {error}", Status.UNKNOWN)))
        self._told = True
        self.close()

    def close(self) -> None:
        """Wait for requests under way, say goodbye, and free the session. Arrays of parameters stay valid. A member of rounds without an
        error has finished. Raises the session's first error if no call has raised it. Closing again does nothing."""
        if self._closed:
            return
        self._closed = True
        _open.discard(self)
        self._finalizer.detach()
        if self._forks != _waits.forks:
            return  # the parent's session; this process has no thread of it
        _waits.forget(self._handle)
        self._closer = me = threading.get_ident()
        self._asked += 1
        try:
            error = self._first_error()
            while any(thread != me for thread in list(self._inside)):  # each leaves at once: no other call begins
                lib.ps_interrupt(self._handle)
                sleep(_waits.INTERVAL_S / 20)
            status = lib.ps_session_close(self._handle)
        finally:
            self._closer = None
        raised, self._raised = self._raised, None
        self._kept.clear()
        self._lent.clear()
        if status != 0 and not self._told:
            why = "" if raised is None else f": {type(raised).__name__}: {raised}"
            raise error or error_of(status, f"the session failed while it was closed{why}") from raised

    def leave(self) -> None:
        """Say goodbye now, so that tasks forget the session at once; it counts as lost. close() is still needed."""
        self._asked += 1
        self._held(lib.ps_session_leave)

    def interrupt(self) -> None:
        """Interrupt the calls that threads are in at this moment: each raises psd.Cancelled. The session goes on. Any thread."""
        self._asked += 1
        self._held(lib.ps_interrupt)

    def fail(self, message: str, status: Status = Status.UNKNOWN) -> None:
        """Set the session's first error, for a failure of the program itself: others learn that it is a loss."""
        self._held(lib.ps_session_fail, status, message.encode())
        self._told = True

    def set_deadline(self, seconds: float | None) -> None:
        """Set a deadline, `seconds` from now, for calls without a timeout of their own; None: each has the operation timeout again."""
        self._held(lib.ps_session_set_deadline, milliseconds(seconds))

    @property
    def error(self) -> Error | None:
        """The session's first error; None: it has none."""
        self._live()
        return self._first_error()

    # ---- the cluster ----

    @property
    def task_index(self) -> int:
        """Index of this task in its job; 0 without a job."""
        return int(self._held(lib.ps_task_index))

    @property
    def task_count(self) -> int:
        """Number of tasks of this job; 1 without a job."""
        return int(self._once(lib.ps_task_count, self._live()))

    @property
    def is_chief(self) -> bool:
        """Whether this session initialises variables."""
        return bool(self._once(lib.ps_is_chief, self._live()))

    @property
    def ps_count(self) -> int:
        """Number of ps tasks."""
        count = int(self._once(lib.ps_ps_count, self._live()))
        self._sticky()
        return count

    @property
    def seed(self) -> int:
        """The seed from the options or --seed."""
        return int(self._held(lib.ps_seed))

    def devices(self) -> list[Device]:
        """Devices of all tasks that serve."""
        room = 64
        while True:
            infos = (ps_device_info * room)()
            count = self._once(lib.ps_session_devices, self._live(), infos, C.sizeof(ps_device_info), room)
            if count < 0:
                self._failed(last_error(self._last_status()))
            if count <= room:
                return [Device(text(d.name), text(d.type), d.index, d.memory_bytes) for d in infos[:count]]
            room = count

    def _last_status(self) -> int:
        """The status for a call that has returned -1: the session's, or UNAVAILABLE if it has no error."""
        return int(self._look(lib.ps_session_status, 0)) or int(Status.UNAVAILABLE)

    def wait_cluster(self, jobs: str = "ps", timeout: float | None = None) -> None:
        """Wait until all tasks that the cluster lists for these jobs ("ps,worker") are up at one time."""
        self._check(lib.ps_session_wait_cluster, self._live(), jobs.encode(), milliseconds(timeout))

    def barrier(self, name: str, count: int = 0, timeout: float | None = None) -> None:
        """Wait until `count` callers, with this one, have come to the barrier; 0: all workers that hold a lease."""
        self._check(lib.ps_barrier_within, self._live(), name.encode(), count, milliseconds(timeout))

    def reset(self, containers: Sequence[str] | None = None) -> None:
        """Empty these containers on all tasks; None: the session's."""
        names = [c.encode() for c in containers or ()]
        if containers is None:
            self._check(lib.ps_reset, self._live())
        else:
            self._check(lib.ps_reset_containers, self._live(), (C.c_char_p * len(names))(*names), len(names))

    def reset_all(self) -> None:
        """Empty every container of the cluster."""
        self._check(lib.ps_reset_all, self._live())

    def call(self, name: str, data: bytes = b"", *, device: str = "", room: int = 64 << 10, timeout: float | None = None) -> bytes:
        """Call a function of a task's call table (psd_call_table). room: bytes for its result."""
        out, size = C.create_string_buffer(room), C.c_size_t()
        self._check(lib.ps_call, self._live(), device.encode(), name.encode(), data, len(data), out, room, C.byref(size), milliseconds(timeout))
        return out.raw[: size.value]

    async def call_async(self, name: str, data: bytes = b"", *, device: str = "", room: int = 64 << 10, timeout: float | None = None) -> bytes:
        """call() on a thread, for asyncio."""
        return await self._thread(lambda: self.call(name, data, device=device, room=room, timeout=timeout))

    # ---- scopes ----

    @contextmanager
    def _scope(self, status: int, pop: Callable[[int], int]) -> Iterator[None]:
        if status != 0:
            self._sticky()
        try:
            yield
        finally:
            self._look(pop, None)

    def variable_scope(self, name: str = "", reuse: bool | None = None) -> Any:
        """A context in which names get the prefix "name/". reuse True: variables must exist; False: the session must not have got them before;
        None: either."""
        how = Reuse.AUTO if reuse is None else Reuse.ALWAYS if reuse else Reuse.NEVER
        return self._scope(self._held(lib.ps_variable_scope_push, name.encode(), how), lib.ps_variable_scope_pop)

    def container(self, name: str) -> Any:
        """A context in which variables and queues are in this container."""
        return self._scope(self._held(lib.ps_container_push, name.encode()), lib.ps_container_pop)

    def device(self, device: str | ReplicaDeviceSetter | None) -> Any:
        """A context in which objects are placed on this device ("/job:ps/task:1"), or by a setter. None hides all outer device scopes."""
        if isinstance(device, ReplicaDeviceSetter):
            status = self._held(lib.ps_device_push_setter, C.byref(device.struct))
        else:
            status = self._held(lib.ps_device_push, encoded(device))
        return self._scope(status, lib.ps_device_pop)

    # ---- parameters and steps ----

    def param(self, name: str, shape: Shape, init: Initializer | None = None, optimizer: Optimizer | None = None, **more: Any) -> Parameter:
        """Get or create a trainable float32 variable with a value array and a gradient array. Contacts nobody until ready(), unless it is in
        parts.

        init       glorot() if None.
        optimizer  None: values can only be pulled.
        more       of variable(): device, wire_dtype, partition, atomic, type. The arrays have the whole of a variable in parts.
        """
        spec = self._spec(name, shape, "float32", glorot() if init is None else init, optimizer, **more)
        pointer = self._once(lib.ps_param_get_spec, self._live(), C.byref(spec))
        self._sticky()
        return Parameter(self, pointer, tuple(spec.shape.dims[: spec.shape.rank]))

    def embedding(self, name: str, shape: Shape, init: Initializer | None = None, optimizer: Optimizer | None = None, **more: Any) -> Embedding:
        """Get or create a trainable float32 table, of which this process holds only the rows of a batch: for rounds, see Embedding. Arguments
        as of param(). pull() leaves it out."""
        spec = self._spec(name, shape, "float32", glorot() if init is None else init, optimizer, **more)
        pointer = self._once(lib.ps_embedding_get, self._live(), C.byref(spec))
        self._sticky()
        return Embedding(self, pointer, tuple(spec.shape.dims[: spec.shape.rank]))

    def ready(self) -> None:
        """Make every variable ready: the chief initialises, the others wait for it. In rounds the session joins them."""
        self._check(lib.ps_session_ready, self._live(), again=True)

    @property
    def found(self) -> tuple[int, int]:
        """After ready(): number of variables that were initialised before it, and the global step then."""
        step = C.c_int64()
        return int(self._held(lib.ps_session_found, C.byref(step))), step.value

    def pull(self) -> None:
        """Pull all parameters into their value arrays."""
        self._check(lib.ps_pull, self._live(), again=True)

    def push(self, *params: Parameter) -> None:
        """Send the gradient arrays of these parameters. Returns at once."""
        for p in params:
            p.push()

    def step_done(self) -> None:
        """End the step: wait until every push is acknowledged, then add one to the global step, exactly once. In rounds it waits for the end
        of the round."""
        self._check(lib.ps_step_done, self._live(), again=True)

    async def pull_async(self) -> None:
        """pull() on a thread, for asyncio."""
        await self._thread(self.pull)

    async def step_done_async(self) -> None:
        """step_done() on a thread."""
        await self._thread(self.step_done)

    @property
    def global_step(self) -> int:
        """Global step after the last step_done() or ready()."""
        return int(self._held(lib.ps_global_step))

    def should_stop(self) -> bool:
        """Whether training ends: the goal is reached, or the cluster has asked to stop. A monitored session recovers in this call. Raises
        the session's error."""
        stop = bool(self._once(lib.ps_should_stop, self._live()))
        if stop:
            self._sticky()
        return stop

    def would_stop(self) -> bool:
        """What should_stop() would return, without its effects: for other threads."""
        return bool(self._held(lib.ps_would_stop))

    def set_steps(self, steps: int) -> None:
        """Global step to stop at; 0: no limit. --steps takes precedence."""
        self._held(lib.ps_set_steps, steps)

    def stop(self, timeout: float | None = None) -> int:
        """Ask every session that the cluster knows now to stop. Returns their number."""
        out = C.c_uint32()
        self._check(lib.ps_stop, self._live(), milliseconds(timeout), C.byref(out))
        return out.value

    def request_stop(self) -> None:
        """Make should_stop() true in this session."""
        self._check(lib.ps_request_stop, self._live())

    def job_done(self) -> None:
        """Report that this trainer is done. When all are, should_stop() becomes true everywhere, and tasks with exit_when_done end."""
        self._check(lib.ps_session_job_done, self._live())

    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until a chief has sealed all variables of the session."""
        self._check(lib.ps_wait_ready, self._live(), milliseconds(timeout))

    def wait_step(self, step: int, timeout: float | None = None) -> None:
        """Wait until the global step is at least `step`: for an evaluator."""
        self._check(lib.ps_wait_step, self._live(), step, milliseconds(timeout))

    def report_uninitialized(self) -> list[str]:
        """Names of the session's variables without a value."""
        room = 4096
        names = (C.c_char_p * room)()
        count = self._once(lib.ps_report_uninitialized, self._live(), names, room)
        if count < 0:
            self._failed(last_error(self._last_status()))
        return [text(n) for n in names[: min(count, room)]]

    def trace_next_step(self, file: str | os.PathLike[str]) -> None:
        """Trace the rest of this step into a file that https://ui.perfetto.dev opens."""
        self._check(lib.ps_trace_next_step, self._live(), os.fsencode(file))

    @property
    def trace_status(self) -> Status:
        """How the last trace ended: OK, UNAVAILABLE (its step is not over), NOT_FOUND (there was none), else why it was not written."""
        return Status(self._held(lib.ps_trace_status))

    # ---- in step with others ----

    def sync(self, *, workers: int = 0, replicas_to_aggregate: int = 0, on_worker_loss: str = "wait", staleness: int | None = None) -> None:
        """Train in rounds, from the next ready() on: a step of all workers is one update, with the average of their gradients.

        workers                number of workers that must join before the first round; 0: those of the cluster spec
        replicas_to_aggregate  number of workers that complete a round; later contributions are dropped; 0: all
        on_worker_loss         what the other workers do: "wait", "shrink" or "fail"
        staleness              not None: no rounds; each worker trains at its own pace, at most so many steps ahead of the slowest
        """
        o = ps_sync_options()
        lib.ps_sync_options_init(C.byref(o))
        losses = {"wait": WorkerLoss.WAIT, "shrink": WorkerLoss.SHRINK, "fail": WorkerLoss.FAIL}
        if on_worker_loss not in losses:
            fail(f"on_worker_loss is {on_worker_loss!r}, and must be one of {', '.join(losses)}")
        o.mode = SyncMode.ROUNDS if staleness is None else SyncMode.STALENESS
        o.workers, o.replicas_to_aggregate, o.staleness = workers, replicas_to_aggregate, staleness or 0
        o.on_worker_loss = losses[on_worker_loss]
        self._check(lib.ps_session_sync, self._live(), C.byref(o))

    def sync_clip_norm(self, max_norm: float, *, each: bool = False) -> None:
        """Limit the norm of the averages of rounds, from the next ready() on.

        max_norm  above 0; 0: no limit
        each      True: limit each parameter's average by itself; False: all averages together
        """
        self._check(lib.ps_session_clip_norm, self._live(), max_norm, NormOf.EACH if each else NormOf.ALL)

    def sync_rows(self, rows_per_step: int, *, mean: str = "all") -> None:
        """Train embeddings in rounds, from the next ready() on. All workers must give the same arguments.

        rows_per_step  different rows of an embedding that a worker may push in a step; the tasks reserve memory for so many
        mean           of a row: over "all" workers of the round, or over "those" that pushed it
        """
        if mean not in ("all", "those"):
            fail(f"mean is {mean!r}, and must be 'all' or 'those'")
        if not 0 < rows_per_step < 1 << 32:
            fail(f"rows_per_step is {rows_per_step}, and must be from 1 to {(1 << 32) - 1}")
        self._check(lib.ps_session_sync_rows, self._live(), rows_per_step, RowsMean[mean.upper()])

    def sync_off(self) -> None:
        """Undo sync(), before ready()."""
        o = ps_sync_options()
        lib.ps_sync_options_init(C.byref(o))
        o.mode = SyncMode.NONE
        self._check(lib.ps_session_sync, self._live(), C.byref(o))

    def sync_finish(self) -> None:
        """This member has made its last step: the others no longer wait for it."""
        self._check(lib.ps_sync_finish, self._live())

    @property
    def dropped(self) -> int:
        """Number of this session's steps that were dropped in rounds."""
        return int(self._held(lib.ps_dropped))

    @property
    def skipped(self) -> int:
        """Number of this session's steps that a NaN guard skipped."""
        return int(self._held(lib.ps_skipped))

    # ---- variables ----

    def _spec(
        self,
        name: str = "",
        shape: Shape = (),
        dtype: Any = "float32",
        init: Initializer | None = None,
        optimizer: Optimizer | None = None,
        *,
        device: str | None = None,
        type: str | None = None,
        atomic: bool = False,
        unique: bool = False,
        wire_dtype: Any = None,
        partition: Partitioner | None = None,
    ) -> ps_variable_spec:
        spec = ps_variable_spec()
        lib.ps_variable_spec_init(C.byref(spec))
        init, optimizer = _checked(init, optimizer)
        spec.name, spec.device, spec.type = encoded(name), encoded(device), encoded(type)
        spec.dtype, spec.shape, spec.atomic, spec.unique = dtype_of(dtype), shape_of(shape), atomic, unique
        spec.init, spec.optimizer = C.addressof(init.struct), C.addressof(optimizer.struct)
        spec.wire_dtype = Dtype.DTYPE_NONE if wire_dtype is None else dtype_of(wire_dtype)
        if partition is not None:
            if not isinstance(partition, Partitioner):
                fail(f"partition is {partition!r}, and must be a partitioner, such as psd.partition(4)")
            partition.apply(spec)
        spec.kept = (init, optimizer)  # keeps the structs, whose addresses spec has, until the call
        return spec

    def variable(
        self,
        name: str = "",
        shape: Shape = (),
        dtype: Any = "float32",
        init: Initializer | None = None,
        optimizer: Optimizer | None = None,
        **more: Any,
    ) -> Variable:
        """Get or create a variable.

        name   "": `Variable`, `Variable_1`, ...
        dtype  "float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool", "string", or NumPy's
        init   zeros() if None.
        more   device: "/job:ps/task:1". atomic: reads are always of one moment, at most 4 MiB. unique: NAME_1 where NAME was got already.
               type: shown in the placement log. wire_dtype: how a float32 variable travels. partition: parts on several tasks, as
               psd.partition(4) or psd.fixed_size_partitioner(4) say; at the tasks they are NAME/part_0, NAME/part_1, ...

        Raises InvalidArgument if it exists with another definition, or the shape has no such parts; the text names both.
        """
        spec, out = self._spec(name, shape, dtype, init, optimizer, **more), C.c_void_p()
        self._check(lib.ps_variable_get, self._live(), C.byref(spec), C.byref(out))
        return Variable(self, int(out.value or 0))

    def variables(self, specs: Sequence[Mapping[str, Any]]) -> list[Variable]:
        """Get or create several variables for the round trips of one; each mapping has the arguments of variable()."""
        made = [self._spec(**s) for s in specs]
        array = (ps_variable_spec * len(made))(*made)
        out = (C.c_void_p * len(made))()
        self._check(lib.ps_variables_get, self._live(), array, len(made), out)
        return [Variable(self, int(p or 0)) for p in out]

    def make(self, name: str, shape: Shape, init: Initializer | None = None, optimizer: Optimizer | None = None) -> Variable:
        """Get or create a float32 variable and give it its initial value, also if it has a value."""
        init, optimizer = _checked(init, optimizer)
        args = (self._live(), name.encode(), shape_of(shape), C.byref(init.struct), C.byref(optimizer.struct))
        pointer = self._once(lib.ps_variable_make, *args)
        self._sticky()
        return Variable(self, int(pointer or 0))

    def find(self, name: str) -> Variable:
        """Find an existing variable by its name in the scopes and container that hold now. Raises NotFound."""
        out = C.c_void_p()
        self._check(lib.ps_variable_find, self._live(), name.encode(), C.byref(out))
        return Variable(self, int(out.value or 0))

    def delete(self, name: str) -> None:
        """Delete a variable."""
        self._check(lib.ps_variable_delete, self._live(), name.encode())

    def global_step_variable(self) -> Variable:
        """Get or create the int64 scalar `global_step`."""
        out = C.c_void_p()
        self._check(lib.ps_global_step_get, self._live(), C.byref(out))
        return Variable(self, int(out.value or 0))

    def set_rates(self, rate: float | None, container: str | None = None, timeout: float | None = None) -> int:
        """Set the learning rate of every variable of a container that has an optimizer; None: their own again. Returns their number."""
        out = C.c_uint64()
        value = None if rate is None else C.byref(C.c_double(rate))
        self._check(lib.ps_set_rates, self._live(), encoded(container), value, milliseconds(timeout), C.byref(out))
        return out.value

    # ---- queues, work, accumulators, plans ----

    def queue(self, name: str, components: Any = "float32", shape: Shape | None = (), **options: Any) -> Queue:
        """Get or create a queue: see Queue.get()."""
        from .queues import Queue

        return Queue.get(self, name, components, shape, **options)

    def find_queue(self, name: str) -> Queue:
        """Find an existing queue. Raises NotFound."""
        from .queues import Queue

        return Queue.find(self, name)

    def work(self, name: str, items: Sequence[str | bytes] = (), *, epochs: int = 1, seed: int = 0) -> Work:
        """Items that the sessions of a cluster share: `for item in session.work("files", names):` see Work."""
        from .queues import Work

        return Work(self, name, items, epochs, seed)

    def accumulator(self, name: str, shape: Shape, dtype: Any = "float32", reduction: str = "mean", device: str | None = None) -> Accumulator:
        """Get or create an accumulator: it adds up gradients of several workers until somebody takes their "mean" or "sum"."""
        from .queues import Accumulator

        if reduction not in ("mean", "sum"):
            fail(f"reduction is {reduction!r}, and must be 'mean' or 'sum'")
        return Accumulator(self, name, shape, dtype_of(dtype), Reduction[reduction.upper()], device)

    def sparse_accumulator(
        self, name: str, shape: Shape, dtype: Any = "float32", reduction: str = "mean", device: str | None = None
    ) -> SparseAccumulator:
        """Get or create an accumulator of gradients of rows; shape is that of the whole variable.

        reduction  "mean": each row is divided by the number of gradients that have it, as in TensorFlow; "sum"; "mean_of_all": each row is
                   divided by the number of all gradients
        """
        from .queues import SparseAccumulator

        if reduction not in ("mean", "sum", "mean_of_all"):
            fail(f"reduction is {reduction!r}, and must be 'mean', 'sum' or 'mean_of_all'")
        return SparseAccumulator(self, name, shape, dtype_of(dtype), Reduction[reduction.upper()], device)

    def plan(self) -> Plan:
        """Make an empty plan: rows of operations, each on the task that its device names."""
        from .plans import Plan

        return Plan(self)

    # ---- hooks ----

    def add_hook(self, hook: Hook) -> None:
        """Add a hook, before ready()."""
        attach(self, hook)

    def step_value(self, name: str, value: float) -> None:
        """Report a value that this step measured, before its first push."""
        self._check(lib.ps_step_value, self._live(), name.encode(), value)

    def stop_at_step(self, last_step: int = 0, num_steps: int = 0) -> None:
        """Stop at this global step, or num_steps after the one at which the session became ready."""
        self._check(lib.ps_add_stop_at_step_hook, self._live(), last_step, num_steps)

    def log_steps(self, every_steps: int = 100, every_seconds: float = 0.0) -> None:
        """Log the steps per second."""
        self._check(lib.ps_add_step_counter_hook, self._live(), every_steps, every_seconds)

    def log_values(self, names: Sequence[str] = (), every_steps: int = 100, every_seconds: float = 0.0) -> None:
        """Log the last reported values of these names; without names, of all."""
        array = (C.c_char_p * len(names))(*(n.encode() for n in names))
        self._check(lib.ps_add_logging_hook, self._live(), array, len(names), every_steps, every_seconds)

    def guard_nan(self, name: str | None = None, action: str = "stop") -> None:
        """Guard against steps whose reported value is NaN or infinity: "stop" fails, "skip" leaves the step out, "end" ends training."""
        if action not in ("stop", "skip", "end"):
            fail(f"action is {action!r}, and must be 'stop', 'skip' or 'end'")
        self._check(lib.ps_add_nan_hook, self._live(), encoded(name), NanAction[action.upper()])

    def summaries(self, directory: str | os.PathLike[str], every_steps: int = 100) -> None:
        """Write event files for TensorBoard."""
        self._check(lib.ps_add_summary_hook, self._live(), os.fsencode(directory), every_steps)

    def save_checkpoints(self, every_steps: int = 0, every_seconds: float = 600.0, wait: float | None = None) -> None:
        """Ask the ps tasks for checkpoints while training, and at its end."""
        self._check(lib.ps_add_checkpoint_saver_hook, self._live(), every_steps, every_seconds, milliseconds(wait))


class MonitoredSession(Session):
    """A session that recovers when a ps is restarted (ps_monitored.h). The step that was broken off is made again.

    Takes the arguments of Session, and:
    restore          called with the session, in the chief, when the model has no values: gives variables their values
    max_recoveries   most recoveries in a row, without a step between them (10)
    max_recovery     seconds of one recovery (600)
    start_over       if a part of the model is lost, give up the rest and restore or initialise all
    restore_part     variables that restore gives no value are initialised
    checkpoint_dir   ask the ps tasks for checkpoints, at the start and the end; None: PSD_CHECKPOINT_DIR, which psd.launch sets
    """

    _monitored = True

    def __init__(
        self,
        target: str | None = None,
        *,
        restore: Callable[[Session], None] | None = None,
        max_recoveries: int = 10,
        max_recovery: float = 600.0,
        start_over: bool = False,
        restore_part: bool = False,
        checkpoint_dir: str | None = None,
        **options: Any,
    ) -> None:
        self._set_monitored(restore, max_recoveries, max_recovery, start_over, restore_part, checkpoint_dir)
        super().__init__(target, **options)

    def _set_monitored(
        self,
        restore: Callable[[Session], None] | None = None,
        max_recoveries: int = 10,
        max_recovery: float = 600.0,
        start_over: bool = False,
        restore_part: bool = False,
        checkpoint_dir: str | None = None,
    ) -> None:
        self._m = o = ps_monitored_options()
        lib.ps_monitored_options_init(C.byref(o))
        this = weakref.ref(self)

        self._give: Callable[[], Callable[[Session], None] | None] | None = None

        def restored(ctx: int, handle: int) -> int:
            from .hooks import guarded

            session = this()
            if session is None:
                return 0
            given = restore or (session._give() if session._give is not None else None)
            return guarded(session, "restore", lambda: given(session)) if given is not None else 0

        self._restored = _RESTORE(restored)
        o.restore = C.cast(self._restored, C.c_void_p)
        self._restores = restore is not None  # False: psd.torch gives its model's values, and initializers the rest
        restore_part = restore_part or restore is None
        o.max_recoveries, o.max_recovery_ms = max_recoveries, milliseconds(max_recovery)
        o.start_over, o.restore_part = start_over, restore_part
        o.checkpoint_dir = encoded(checkpoint_dir if checkpoint_dir is not None else os.environ.get("PSD_CHECKPOINT_DIR"))

    def _open(self, o: ps_session_options, out: C.c_void_p, error: C.Array[C.c_char]) -> int:
        return int(lib.ps_monitored_open(C.byref(o), C.byref(self._m), C.byref(out), error, len(error)))

    def _open_args(self, argc: C.c_int, argv: Any, about: bytes) -> int:
        return int(lib.ps_monitored_open_args(C.byref(argc), argv, about, C.byref(self._m)))

    @property
    def last_recovery(self) -> Recovery | None:
        """The last recovery that has ended; None: none yet."""
        r = ps_recovery(struct_bytes=C.sizeof(ps_recovery))
        status = self._held(lib.ps_monitored_last_recovery, C.byref(r))
        if status == Status.NOT_FOUND:
            return None
        check(status)
        return Recovery(r)


class Role:
    """Job and task of this process, from flags and TF_CONFIG: for a program that serves a task if it is told to, and trains otherwise.

    job, task       "ps", 0; job None: no job is named
    cluster         the spec string; None: not given
    cluster_name    "psd"
    checkpoint_dir, key_file   ""
    """

    def __init__(self, argv: Sequence[str] = ()) -> None:
        words = [os.fsencode(w) for w in argv]
        role = lib.ps_role_from_args(len(words), (C.c_char_p * (len(words) + 1))(*words, None))
        self.job = text(lib.ps_role_job(role)) or None
        self.task = int(lib.ps_role_task(role))
        self.cluster = text(lib.ps_role_cluster_spec(role)) or None
        self.cluster_name = text(lib.ps_role_cluster_name(role))
        self.checkpoint_dir = text(lib.ps_role_checkpoint_dir(role))
        self.key_file = text(lib.ps_role_key_file(role))
        lib.ps_role_free(role)

    def __repr__(self) -> str:
        return f"<psd.Role {self.job}:{self.task} of {self.cluster}>"


class ReplicaDeviceSetter:
    """Arguments of tf.train.replica_device_setter, for Session.device().

    ps_tasks  number of ps tasks; not needed with cluster
    strategy  "round_robin", or "greedy_bytes": each variable goes where the fewest bytes are
    """

    def __init__(
        self,
        ps_tasks: int = 0,
        *,
        cluster: ClusterSpec | None = None,
        ps_device: str = "/job:ps",
        worker_device: str = "/job:worker",
        merge_devices: bool = True,
        strategy: str = "round_robin",
    ) -> None:
        if strategy not in ("round_robin", "greedy_bytes"):
            fail(f"strategy is {strategy!r}, and must be 'round_robin' or 'greedy_bytes'")
        self.struct = o = ps_setter_options()
        lib.ps_setter_options_init(C.byref(o))
        self._kept = cluster
        o.ps_tasks, o.merge_devices = ps_tasks, merge_devices
        o.cluster = None if cluster is None else cluster._pointer
        o.ps_device, o.worker_device = ps_device.encode(), worker_device.encode()
        o.strategy = PlacementStrategy.ROUND_ROBIN if strategy == "round_robin" else PlacementStrategy.GREEDY_BYTES


def _checked(init: Any, optimizer: Any) -> tuple[Initializer, Optimizer]:
    init, optimizer = zeros() if init is None else init, NoOptimizer() if optimizer is None else optimizer
    if not isinstance(init, Initializer):
        fail(f"init is {init!r}, and must be one of psd, such as psd.zeros(); Variable.init_from() takes values")
    if not isinstance(optimizer, Optimizer):
        fail(f"optimizer is {optimizer!r}, and must be one of psd, such as psd.Adagrad(0.1)")
    return init, optimizer


def _after_fork() -> None:
    """In a child: sessions of the parent are of no use. Their finalizers see the count of forks."""
    for session in list(_open):
        session._kept.clear()


os.register_at_fork(after_in_child=_after_fork)
