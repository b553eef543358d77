# SPDX-License-Identifier: Apache-2.0
"""psd: train models against a parameter server.

    import psd

    with psd.local_cluster(ps=2) as cluster, psd.Session(cluster.target) as s:
        w = s.param("w", (784, 10), optimizer=psd.Adagrad(0.1))
        s.ready()
        while s.global_step < 1000:
            s.pull()
            w.push(gradient(w.value))
            s.step_done()

Times are in seconds; a timeout of None is the session's. Errors are psd.Error and its subclasses. Log lines go to the `logging` logger "psd".
psd.admin looks at clusters and steers them; psd.torch has an optimizer for PyTorch; `python -m psd.launch` starts a cluster on this machine.
"""

from __future__ import annotations

from ._abi import VERSION as __version__
from ._abi import Applied, Reason, Status
from .cluster import ClusterSpec, Device, LocalCluster, Place, Placer, Server, canonical_device, local_cluster, merge_devices, resolve
from .errors import (
    Aborted,
    AlreadyExists,
    Cancelled,
    DataLoss,
    DeadlineExceeded,
    Error,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NotFound,
    OutOfRange,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)
from .files import Checkpoint, Fault, check_file
from .hooks import Hook
from .session import MonitoredSession, Recovery, ReplicaDeviceSetter, Role, Session
from .values import (
    SGD,
    Adagrad,
    Adam,
    Initializer,
    Momentum,
    Nesterov,
    NoOptimizer,
    Optimizer,
    Partitioner,
    constant,
    fixed_size_partitioner,
    glorot,
    he_normal,
    he_uniform,
    min_max_variable_partitioner,
    normal,
    ones,
    optimizer,
    partition,
    truncated_normal,
    uniform,
    variable_axis_size_partitioner,
    zeros,
)
from .variables import Embedding, Parameter, Variable, clip_global_norm

_LATE = {
    **dict.fromkeys(("Queue", "Work", "WorkItem", "Accumulator", "SparseAccumulator"), "queues"),
    **dict.fromkeys(("Plan", "Value"), "plans"),
}


def __getattr__(name: str) -> object:
    """Queues and plans are imported at first use."""
    from importlib import import_module

    if name in _LATE:
        return getattr(import_module(f"psd.{_LATE[name]}"), name)
    if name in ("admin", "torch"):
        return import_module(f"psd.{name}")
    raise AttributeError(f"module 'psd' has no attribute {name!r}")


__all__ = [
    "Aborted",
    "Adagrad",
    "Adam",
    "AlreadyExists",
    "Applied",
    "Cancelled",
    "Checkpoint",
    "ClusterSpec",
    "DataLoss",
    "DeadlineExceeded",
    "Device",
    "Embedding",
    "Error",
    "FailedPrecondition",
    "Fault",
    "Hook",
    "Initializer",
    "Internal",
    "InvalidArgument",
    "LocalCluster",
    "Momentum",
    "MonitoredSession",
    "Nesterov",
    "NoOptimizer",
    "NotFound",
    "Optimizer",
    "OutOfRange",
    "Parameter",
    "Partitioner",
    "PermissionDenied",
    "Place",
    "Placer",
    "Reason",
    "Recovery",
    "ReplicaDeviceSetter",
    "ResourceExhausted",
    "Role",
    "SGD",
    "Server",
    "Session",
    "Status",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Variable",
    "__version__",
    "canonical_device",
    "check_file",
    "clip_global_norm",
    "constant",
    "fixed_size_partitioner",
    "glorot",
    "he_normal",
    "he_uniform",
    "local_cluster",
    "merge_devices",
    "min_max_variable_partitioner",
    "normal",
    "ones",
    "optimizer",
    "partition",
    "resolve",
    "truncated_normal",
    "uniform",
    "variable_axis_size_partitioner",
    "zeros",
]
