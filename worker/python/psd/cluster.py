# SPDX-License-Identifier: Apache-2.0
"""The ClusterSpec, device strings, the placer, and clusters within this process."""

from __future__ import annotations

import ctypes as C
import json
import os
import weakref
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple

from ._abi import ps_resolved, ps_resolver_options
from ._library import lib, server_library
from .errors import check, error_of, fail
from .values import encoded, milliseconds, text

if TYPE_CHECKING:
    from .session import ReplicaDeviceSetter

_DEVICE_BYTES = 160


class Device(NamedTuple):
    """A device of a task: name "/job:ps/task:0/device:CPU:0", type "CPU", number among its type, memory in bytes."""

    name: str
    type: str
    number: int
    memory: int


class ClusterSpec:
    """Jobs with their tasks and addresses: TensorFlow's tf.train.ClusterSpec.

    spec  {"ps": ["a:2222"], "worker": {1: "c:2222"}}; a spec string "ps=a:2222;worker=c:2222"; JSON; "@FILE"; another ClusterSpec; None:
          an empty one.
    """

    def __init__(self, spec: Mapping[str, Any] | str | ClusterSpec | None = None) -> None:
        if isinstance(spec, Mapping):
            spec = json.dumps({job: tasks if isinstance(tasks, Mapping) else list(tasks) for job, tasks in spec.items()})
        out = C.c_void_p()
        check(lib.ps_cluster_spec_new(None if spec is None else str(spec).encode(), C.byref(out)))
        self._own(out)

    def _own(self, out: C.c_void_p) -> None:
        self._pointer = out.value
        weakref.finalize(self, lib.ps_cluster_spec_free, out.value).atexit = False

    @classmethod
    def from_tf_config(cls, text_of_tf_config: str) -> tuple[ClusterSpec, str, int | None]:
        """Parse the text of TF_CONFIG. Returns spec, job and task of this process; "" and None if it names none."""
        self, out = cls.__new__(cls), C.c_void_p()
        job, task = C.create_string_buffer(64), C.c_int()
        check(lib.ps_cluster_spec_from_tf_config(text_of_tf_config.encode(), C.byref(out), job, len(job), C.byref(task)))
        self._own(out)
        return self, text(job.value), None if task.value < 0 else task.value

    def add_job(self, job: str, hosts: str) -> None:
        """Add a job with a comma-separated list of addresses."""
        check(lib.ps_cluster_spec_add_job(self._pointer, job.encode(), hosts.encode()))

    def add_task(self, job: str, task: int, address: str) -> None:
        """Add one task."""
        check(lib.ps_cluster_spec_add_task(self._pointer, job.encode(), task, address.encode()))

    @property
    def jobs(self) -> list[str]:
        """Names of the jobs, sorted."""
        return [text(lib.ps_cluster_spec_job(self._pointer, i)) for i in range(lib.ps_cluster_spec_job_count(self._pointer))]

    def num_tasks(self, job: str) -> int:
        """Number of tasks of a job."""
        count = int(lib.ps_cluster_spec_num_tasks(self._pointer, job.encode()))
        if count < 0:
            fail(f"the cluster has no job {job!r}; it has {', '.join(self.jobs) or 'none'}")
        return count

    def task_indices(self, job: str) -> list[int]:
        """Indices of a job's tasks."""
        out = (C.c_int * self.num_tasks(job))()
        lib.ps_cluster_spec_task_indices(self._pointer, job.encode(), out, len(out))
        return list(out)

    def task_address(self, job: str, task: int) -> str:
        """Address of one task."""
        address = lib.ps_cluster_spec_task_address(self._pointer, job.encode(), task)
        if address is None:
            fail(f"job {job!r} has no task {task}")
        return text(address)

    def job_tasks(self, job: str) -> list[str | None]:
        """Addresses by task index; None for an index that is missing."""
        count = max(self.task_indices(job), default=-1) + 1
        out = (C.c_char_p * count)()
        lib.ps_cluster_spec_job_tasks(self._pointer, job.encode(), out, count)
        return [None if a is None else a.decode() for a in out]

    def as_dict(self) -> dict[str, Any]:
        """{"ps": ["a:2222"], "worker": {"1": "c:2222"}}"""
        made: dict[str, Any] = json.loads(text(lib.ps_cluster_spec_as_dict(self._pointer)))
        return made

    def __str__(self) -> str:
        return text(lib.ps_cluster_spec_text(self._pointer))

    def __repr__(self) -> str:
        return f"psd.ClusterSpec({self.as_dict()!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterSpec) and bool(lib.ps_cluster_spec_equal(self._pointer, other._pointer))

    def __hash__(self) -> int:
        return hash(str(self))


class Place(NamedTuple):
    """What a cluster manager says of this process: for psd.Session(cluster=place.cluster, job=place.job, task=place.task).

    manager  "slurm", "mpi", "kubernetes", "torchrun", "env"; "none": no variable of a manager is set
    cluster  None: the process is alone
    job      None: not known
    listen   where a ps task listens; "": at its address in the cluster
    why      the variables that decided
    """

    manager: str
    cluster: ClusterSpec | None
    job: str | None
    task: int
    listen: str
    why: str


def resolve(
    manager: str = "auto",
    *,
    job: str | None = None,
    task: int | None = None,
    rendezvous: str | None = None,
    address_suffix: str | None = None,
    ps_pods: str | None = None,
    worker_pods: str | None = None,
    host_name: str | None = None,
    ps_tasks: int = 0,
    ps_per_node: int = 0,
    worker_tasks: int = 0,
    base_port: int = 0,
    directory_port: int = 0,
    wait: float = 60.0,
) -> Place:
    """Find cluster and task of this process in the variables of torchrun, Slurm, mpirun, Kubernetes, or in TF_CONFIG (docs/LAUNCH.md).

    manager  "torchrun", "slurm", "mpi", "kubernetes", "env" (TF_CONFIG), or "auto": who has started this process
    job, task  of this process; None: the variables say it
    rendezvous, address_suffix, ps_pods, worker_pods, host_name, ps_tasks, ps_per_node, worker_tasks, base_port,
    directory_port   as the flags of a trainer
    wait     seconds for other ranks at the rendezvous file

    Raises InvalidArgument that names the variable or argument and its value. Unavailable: ranks that did not come to the rendezvous.
    """
    o, found, out = ps_resolver_options(), ps_resolved(), C.c_void_p()
    lib.ps_resolver_options_init(C.byref(o))
    o.cluster, o.job_name, o.task_index = encoded(manager), encoded(job), None if task is None else str(task).encode()
    o.rendezvous, o.address_suffix, o.ps_pods, o.worker_pods, o.host_name = map(
        encoded, (rendezvous, address_suffix, ps_pods, worker_pods, host_name)
    )
    o.ps_tasks, o.ps_per_node, o.worker_tasks, o.base_port, o.wait_ms = ps_tasks, ps_per_node, worker_tasks, base_port, milliseconds(wait)
    o.directory_port = directory_port
    variables = [name + b"=" + value for name, value in os.environb.items()]
    environment = (C.c_char_p * (len(variables) + 1))(*variables, None)
    check(lib.ps_cluster_resolve(C.byref(o), environment, C.byref(out), C.byref(found)))
    spec = ClusterSpec.__new__(ClusterSpec)
    spec._own(out)
    named = text(found.job)
    return Place(text(found.manager), spec if spec.jobs else None, named or None, max(found.task, 0), text(found.listen), text(found.why))


def canonical_device(device: str) -> str:
    """Canonical form of a device string: "/job:J/replica:R/task:T/device:TYPE:INDEX"."""
    out = C.create_string_buffer(_DEVICE_BYTES)
    check(lib.ps_device_canonical(device.encode(), out, len(out)))
    return text(out.value)


def merge_devices(outer: str, inner: str) -> str:
    """tf.device(outer) around tf.device(inner): each field of inner replaces that of outer."""
    out = C.create_string_buffer(_DEVICE_BYTES)
    check(lib.ps_device_merge(outer.encode(), inner.encode(), out, len(out)))
    return text(out.value)


class Placer:
    """A stack of device scopes, as tf.device keeps it; contacts nobody."""

    def __init__(self) -> None:
        self._pointer = lib.ps_placer_new()
        weakref.finalize(self, lib.ps_placer_free, self._pointer).atexit = False

    def push(self, device: str | ReplicaDeviceSetter | None) -> None:
        """Open a scope: a device, a setter, or None, which hides all outer scopes."""
        if device is None or isinstance(device, str):
            check(lib.ps_placer_push(self._pointer, encoded(device)))
        else:
            check(lib.ps_placer_push_setter(self._pointer, C.byref(device.struct)))

    def pop(self) -> None:
        """Close the innermost scope."""
        check(lib.ps_placer_pop(self._pointer))

    def place(self, type: str = "Variable", nbytes: int = 0) -> tuple[str, bool]:
        """Device that the next object asks for, and whether a scope other than a setter's strategy has fixed it."""
        out, pinned = C.create_string_buffer(_DEVICE_BYTES), C.c_bool()
        check(lib.ps_placer_place(self._pointer, type.encode(), nbytes, out, len(out), C.byref(pinned)))
        return text(out.value), pinned.value


class Server:
    """A task of a cluster within this process (libpsd). A context manager; stop() ends it.

    options  fields of psd_server_options (psd.h): cluster_spec, job, task_index, listen, checkpoint_dir, key_file, memory, ...
    """

    def __init__(self, **options: Any) -> None:
        from . import _waits
        from ._abi import psd_server_options

        self._lib = server_library()
        o, self._start = psd_server_options(), _waits.forks
        self._lib.psd_server_options_init(C.byref(o))
        for name, value in options.items():
            if name not in {f[0] for f in o._fields_} or name in ("struct_bytes", "ctx", "log", "calls"):
                fail(f"psd_server_options has no {name} that Python can set")
            setattr(o, name, value.encode() if isinstance(value, str) else value)
        error, out = C.create_string_buffer(1024), C.c_void_p()
        local = "cluster_spec" not in options and "ps_hosts" not in options
        start = self._lib.psd_server_create_local_with if local else self._lib.psd_server_start
        status = start(C.byref(o), C.byref(out), error, len(error))
        if status != 0:
            raise error_of(status, text(error.value))
        self._pointer = int(out.value or 0)
        self.address = text(self._lib.psd_server_address(self._pointer))
        self.target = text(self._lib.psd_server_target(self._pointer))
        self.name = text(self._lib.psd_server_name(self._pointer))
        self._finalizer = weakref.finalize(self, _free_server, self._lib, self._pointer, self._start)

    def __repr__(self) -> str:
        return f"<psd.Server {self.name} at {self.address}>"

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def set(self, name: str, value: str | float) -> None:
        """Change a setting of the running task, by its name; the value as the flag of psd takes it: "64MiB", "2.5s"."""
        error = C.create_string_buffer(1024)
        if isinstance(value, str):
            status = self._lib.psd_server_set_text(self._pointer, name.encode(), value.encode(), error, len(error))
        else:
            status = self._lib.psd_server_set(self._pointer, name.encode(), int(value), error, len(error))
        if status != 0:
            raise error_of(status, text(error.value))

    def reload(self, rights: str | None = None) -> None:
        """Read the key file, the certificates and the rights again."""
        error = C.create_string_buffer(1024)
        status = self._lib.psd_server_reload(self._pointer, encoded(rights), error, len(error))
        if status != 0:
            raise error_of(status, text(error.value))

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, by stop() or a client's request."""
        return bool(self._lib.psd_server_has_ended(self._pointer))

    @property
    def has_lost(self) -> bool:
        """Whether it has ended and its last checkpoint could not be saved."""
        return bool(self._lib.psd_server_has_lost(self._pointer))

    def counts(self) -> dict[str, int]:
        """Counts of the task: turns, connections, sessions, variables."""
        from ._abi import psd_server_counts

        out = psd_server_counts()
        self._lib.psd_server_get_counts(self._pointer, C.byref(out), C.sizeof(out))
        return {name: getattr(out, name) for name in ("turns", "connections", "sessions", "variables")}

    def join(self) -> None:
        """Wait until it has ended; Ctrl-C ends the wait."""
        from time import sleep

        while not self.has_ended:
            sleep(0.05)

    def stop(self, drain: float = 0.0) -> None:
        """Let it finish what is in progress, at most `drain` seconds, and end it. What it holds is gone, unless it has a checkpoint_dir."""
        if self._finalizer.alive:
            self._lib.psd_server_stop(self._pointer, round(drain * 1000))
            self._lib.psd_server_wait(self._pointer)


def _free_server(library: Any, pointer: int, forks: int) -> None:
    from . import _waits

    if forks == _waits.forks:
        library.psd_server_free(pointer)


def _remove_folder(folder: str, forks: int) -> None:
    from shutil import rmtree

    from . import _waits

    if forks == _waits.forks:  # in a forked child: the sockets are the parent's, and stay
        rmtree(folder, ignore_errors=True)


class LocalCluster:
    """ps tasks within this process, for notebooks and tests, on Unix sockets that only this user reaches: local_cluster() makes it. A context
    manager.

    target  for psd.Session(); spec: its ClusterSpec; servers: the tasks
    """

    def __init__(self, ps: int, workers: int, options: Mapping[str, Any]) -> None:
        import tempfile

        from . import _waits
        from .session import Role

        folder = tempfile.mkdtemp(prefix="psd-", dir="/tmp" if len(tempfile.gettempdir()) > 80 else None)  # a socket's path has 107 bytes
        self._remove = weakref.finalize(self, _remove_folder, folder, _waits.forks)
        hosts = [f"unix:{folder}/ps{i}" for i in range(ps)]
        jobs: dict[str, Any] = {"ps": hosts}
        if workers:
            jobs["worker"] = [f"unix:{folder}/worker{i}" for i in range(workers)]  # only a place for the workers in the spec: nobody listens there
        self.spec = ClusterSpec(jobs)
        self.servers: list[Server] = []
        options = {"key_file": Role().key_file, **options}  # the key that a session of this process uses by default
        try:
            for i in range(ps):
                self.servers.append(Server(**{**options, "cluster_spec": str(self.spec), "job": "ps", "task_index": i}))
        except BaseException:
            self.stop()
            raise
        self.target = hosts[0]

    def __repr__(self) -> str:
        return f"<psd.LocalCluster {self.spec}>"

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the tasks."""
        for server in self.servers:
            server.stop()
        self._remove()


def local_cluster(ps: int = 1, *, workers: int = 0, **options: Any) -> LocalCluster:
    """Start `ps` tasks within this process.

        with psd.local_cluster(ps=2) as cluster, psd.Session(cluster.target) as s: ...

    workers  number of workers that the cluster lists, for rounds and barriers
    options  of psd.Server
    """
    if ps < 1:
        fail(f"ps is {ps}, and must be at least 1")
    return LocalCluster(ps, workers, options)
