# SPDX-License-Identifier: Apache-2.0
"""Values in files, and checkpoints."""

from __future__ import annotations

import ctypes as C
import os
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from ._abi import CheckpointState, Status, ps_checkpoint_fault, ps_checkpoint_info, ps_checkpoint_options, ps_file_options
from ._library import lib
from .errors import check
from .values import encoded, milliseconds, text

_COPIED = C.CFUNCTYPE(None, C.c_void_p, C.c_char_p, C.c_uint64, C.c_uint64)
_TAKEN = C.CFUNCTYPE(None, C.c_void_p, C.c_char_p, C.c_char_p)
_NAME = C.CFUNCTYPE(None, C.c_void_p, C.c_char_p)
_FAULT = C.CFUNCTYPE(None, C.c_void_p, C.POINTER(ps_checkpoint_fault))
_INFO = C.CFUNCTYPE(None, C.c_void_p, C.POINTER(ps_checkpoint_info))
Copied = Callable[[str, int, int], None]


class Checkpoint(NamedTuple):
    """A checkpoint as its directory sees it.

    state  "whole", "writing", "in_part", "unusable" or "failed"; step: highest global step in it, None: none; time: Unix seconds; share:
    part that is written or loaded, 0 to 1, None: neither is going on; text: why it cannot be used
    """

    number: int
    state: str
    time: float
    step: int | None
    bytes: int
    seconds: float
    tasks: int
    done: int
    share: float | None
    text: str


class Fault(NamedTuple):
    """A bad file of a checkpoint: whose it is, and what is wrong."""

    job: str
    task: int
    status: Status
    file: str
    text: str


class _Callbacks:
    """Callbacks that C calls on this thread. The first exception is raised after the call."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def made(self, kind: Any, function: Callable[..., None] | None) -> Any:
        if function is None:
            return None

        def called(ctx: Any, *args: Any) -> None:
            if self.error is None:
                try:
                    function(*args)
                except BaseException as e:
                    self.error = e

        return kind(called)

    def check(self) -> None:
        if self.error is not None:
            raise self.error


def _list(items: Sequence[str] | None) -> Any:
    """An array of texts that ends with NULL; None: NULL."""
    return None if items is None else (C.c_char_p * (len(items) + 1))(*(i.encode() for i in items), None)


def _prefixes(prefixes: Mapping[str, str] | None) -> list[str] | None:
    return None if prefixes is None else [f"{old}={new}" for old, new in prefixes.items()]


def _copied(function: Copied | None) -> Callable[..., None] | None:
    return None if function is None else lambda name, done, total: function(text(name), done, total)


def _file_options(callbacks: _Callbacks, kept: list[Any], container: str | None, only: Any, prefixes: Any, copied: Copied | None) -> ps_file_options:
    o = ps_file_options()
    lib.ps_file_options_init(C.byref(o))
    o.container = encoded(container)
    arrays = _list(only), _list(_prefixes(prefixes))
    function = callbacks.made(_COPIED, _copied(copied))
    kept += [*arrays, function]
    o.only, o.prefixes = (None if a is None else C.addressof(a) for a in arrays)
    o.copied = None if function is None else C.cast(function, C.c_void_p)
    return o


def check_file(
    path: str | os.PathLike[str], only: Sequence[str] | None = None, prefixes: Mapping[str, str] | None = None, slots: bool = False
) -> int:
    """Check whether Session.import_file() would take this file, as far as no cluster is needed. Returns the number of tensors."""
    kept: list[Any] = []
    o, out = _file_options(_Callbacks(), kept, None, only, prefixes, None), C.c_int()
    o.slots = slots
    check(lib.ps_file_check(os.fsencode(path), C.byref(o), C.byref(out)))
    return out.value


class Files:
    """The part of Session that has to do with files."""

    _live: Callable[[], int]
    _check: Callable[..., None]

    def export_file(
        self,
        path: str | os.PathLike[str],
        *,
        container: str | None = None,
        only: Sequence[str] | None = None,
        prefixes: Mapping[str, str] | None = None,
        copied: Copied | None = None,
    ) -> int:
        """Write the values of all initialised variables of a container into one safetensors file. Returns their number.

        only      patterns for names: ["layer*/w"]
        prefixes  {"old/": "new/"}: how names begin in the file
        copied    copied(name, done_bytes, total_bytes), from time to time
        """
        callbacks, kept, out = _Callbacks(), [], C.c_int()  # type: ignore[var-annotated]
        o = _file_options(callbacks, kept, container, only, prefixes, copied)
        self._check(lib.ps_export, self._live(), os.fsencode(path), C.byref(o), C.byref(out))
        callbacks.check()
        return out.value

    def import_file(
        self,
        path: str | os.PathLike[str],
        *,
        container: str | None = None,
        only: Sequence[str] | None = None,
        prefixes: Mapping[str, str] | None = None,
        slots: bool = False,
        existing: bool = False,
        copied: Copied | None = None,
        taken: Callable[[str | None, str | None], None] | None = None,
    ) -> int:
        """Give variables of a container the values of a safetensors file. Returns their number.

        slots     also the optimizers' slots in the file
        existing  every variable must exist
        taken     taken(tensor, variable): variable None: the tensor was left out; tensor None: the variable got no value
        Others as of export_file().
        """
        callbacks, kept, out = _Callbacks(), [], C.c_int()  # type: ignore[var-annotated]
        o = _file_options(callbacks, kept, container, only, prefixes, copied)
        o.slots, o.existing = slots, existing
        pair = None if taken is None else lambda tensor, variable: taken(tensor and text(tensor), variable and text(variable))
        function = callbacks.made(_TAKEN, pair)
        o.taken = None if function is None else C.cast(function, C.c_void_p)
        self._check(lib.ps_import, self._live(), os.fsencode(path), C.byref(o), C.byref(out))
        callbacks.check()
        return out.value

    def checkpoints(self, timeout: float | None = None) -> list[Checkpoint]:
        """The checkpoints that the directory knows, by number."""
        found: list[Checkpoint] = []

        def each(pointer: Any) -> None:
            i = pointer.contents
            share = None if i.share < 0 else i.share / 1e6
            state = CheckpointState(i.state).name.lower()
            step = None if i.step < 0 else i.step
            found.append(Checkpoint(i.number, state, i.time_ms / 1000, step, i.bytes, i.milliseconds / 1000, i.tasks, i.done, share, text(i.text)))

        callbacks = _Callbacks()
        self._check(lib.ps_checkpoints, self._live(), milliseconds(timeout), callbacks.made(_INFO, each), None)
        callbacks.check()
        return found

    def save_checkpoint(self, timeout: float | None = None, keep: int = 0) -> int:
        """Save the state of all ps tasks. Returns the number of the checkpoint, when it is on the disks of all. keep: number of a checkpoint
        that no save removes until a restore is asked for, or for 10 minutes."""
        out = C.c_uint64()
        if keep:
            self._check(lib.ps_checkpoint_save_before, self._live(), keep, milliseconds(timeout), C.byref(out))
        else:
            self._check(lib.ps_checkpoint_save, self._live(), milliseconds(timeout), C.byref(out))
        return out.value

    def verify_checkpoint(self, number: int) -> list[Fault]:
        """Read every file of every task of a checkpoint. Returns the bad ones; raises other errors than DataLoss."""
        from .errors import DataLoss

        faults: list[Fault] = []

        def each(pointer: Any) -> None:
            f = pointer.contents
            faults.append(Fault(text(f.job), f.task, Status(f.status), text(f.file), text(f.text)))

        o, callbacks = ps_checkpoint_options(), _Callbacks()
        lib.ps_checkpoint_options_init(C.byref(o))
        function = callbacks.made(_FAULT, each)
        o.fault = C.cast(function, C.c_void_p)
        try:
            self._check(lib.ps_checkpoint_verify, self._live(), number, C.byref(o), None)
        except DataLoss:
            if not faults:
                raise
        callbacks.check()
        return faults

    def export_checkpoint(
        self,
        number: int,
        path: str | os.PathLike[str],
        *,
        container: str | None = None,
        shard_bytes: int = 0,
        slots: bool = False,
        only: Sequence[str] | None = None,
        prefixes: Mapping[str, str] | None = None,
    ) -> int:
        """Write the variables of a container, as a checkpoint has them, into a safetensors file, or several of shard_bytes. slots: also
        the optimizers'. Returns the number of variables."""
        o, out = ps_checkpoint_options(), C.c_int()
        lib.ps_checkpoint_options_init(C.byref(o))
        arrays = _list(only), _list(_prefixes(prefixes))
        o.container, o.shard_bytes, o.slots = encoded(container), shard_bytes, slots
        o.only, o.prefixes = (None if a is None else C.addressof(a) for a in arrays)
        self._check(lib.ps_checkpoint_export, self._live(), number, os.fsencode(path), C.byref(o), C.byref(out))
        return out.value

    def checkpoint_containers(self, number: int) -> list[str]:
        """The containers of a checkpoint."""
        found: list[str] = []
        callbacks = _Callbacks()
        function = callbacks.made(_NAME, lambda name: found.append(text(name)))
        self._check(lib.ps_checkpoint_containers, self._live(), number, function, None)
        callbacks.check()
        return found

    def delete_checkpoint(self, number: int, force: bool = False, timeout: float | None = None) -> None:
        """Delete a checkpoint. force: also the newest whole one."""
        self._check(lib.ps_checkpoint_delete, self._live(), number, force, milliseconds(timeout))

    def restore_checkpoint(self, number: int, containers: Sequence[str] = (), spread: bool = False, timeout: float | None = None) -> int:
        """Restore a checkpoint while the tasks run. containers: only these. spread: distribute the variables anew over all ps tasks. Returns
        the number of the new checkpoint that has the restored state."""
        out, ms = C.c_uint64(), milliseconds(timeout)
        if spread:
            self._check(lib.ps_checkpoint_spread, self._live(), number, ms, C.byref(out))
        elif containers:
            names = (C.c_char_p * len(containers))(*(c.encode() for c in containers))
            self._check(lib.ps_checkpoint_restore_containers, self._live(), number, names, len(containers), ms, C.byref(out))
        else:
            self._check(lib.ps_checkpoint_restore, self._live(), number, ms, C.byref(out))
        return out.value
