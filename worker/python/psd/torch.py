# SPDX-License-Identifier: Apache-2.0
"""PyTorch: an optimizer whose updates the ps tasks make, buffers, and DiLoCo.

    with psd.Session() as s:
        optimizer = psd.torch.Optimizer(model.named_parameters(), s, psd.Adagrad(0.1))
        for x, y in batches:
            optimizer.zero_grad()
            loss_of(model(x), y).backward()
            optimizer.step()

The variables are named as the parameters. The chief gives them its values, unless the cluster has values: then all go on with those. Values on the ps
are float32, whatever dtype a parameter has. A parameter that a model uses twice (tied weights) is one variable. A table that no worker can hold is an
Embedding.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import time
import weakref
from typing import Any, Callable, Iterable, Iterator, Mapping, NoReturn

import torch

from ._abi import Status
from ._library import lib
from ._waits import interrupted
from .errors import Aborted, Cancelled, DataLoss, DeadlineExceeded, Error, Unavailable, fail, last_error
from .hooks import Hook
from .session import MonitoredSession, Session
from .values import Initializer, Momentum, Nesterov, NoOptimizer, uniform, zeros
from .values import Optimizer as Update
from .variables import Embedding as Table
from .variables import Parameter, Variable

_logger = logging.getLogger("psd")
Named = Iterable[tuple[str, torch.Tensor]]
_SMALL = 16384  # elements; gradients of at most so many are copied by one call for all


class _Pinned:
    """Copies between tensors of a CUDA device and pinned memory of the host, which go on while the program works. Gradients travel on a stream of
    their own, with an event for each; values on the model's stream, with one event for all."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.gradients = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.down: dict[int, torch.Tensor] = {}
        self.up: dict[int, torch.Tensor] = {}
        self.uploaded: Any = None  # event: the values of `up` are on the device

    def host(self, held: dict[int, torch.Tensor], i: int, like: torch.Tensor) -> torch.Tensor:
        if i not in held or held[i].shape != like.shape:
            held[i] = self.empty(like.shape)
        return held[i]

    def empty(self, shape: torch.Size) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.float32, pin_memory=True)

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        target.copy_(source, non_blocking=True)

    def keep(self, gradient: torch.Tensor) -> None:
        """Keep the memory of a gradient, which the program may drop, from being used again before the copy has ended."""
        gradient.record_stream(self.gradients)

    def model_stream(self) -> Any:
        return torch.cuda.current_stream(self.device)

    def on(self, stream: Any) -> Any:
        return torch.cuda.stream(stream)

    def event(self, stream: Any) -> Any:
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(stream)
        return event

    def download(self, i: int, gradient: torch.Tensor) -> Callable[[], torch.Tensor]:
        """Begin to copy a gradient; the result waits for it."""
        host = self.host(self.down, i, gradient)
        self.gradients.wait_stream(self.model_stream())
        with self.on(self.gradients):
            self.copy(host, gradient.to(torch.float32))
            self.keep(gradient)
            event = self.event(self.gradients)

        def arrived() -> torch.Tensor:
            event.synchronize()
            return host

        return arrived

    def upload(self, indices: list[int], targets: list[torch.Tensor], sources: list[torch.Tensor]) -> None:
        """Begin to copy values. Work that the model's stream gets later sees them."""
        if self.uploaded is not None:
            self.uploaded.synchronize()  # the pinned memory is free again
        for i, target, source in zip(indices, targets, sources):
            host = self.host(self.up, i, source)
            host.copy_(source)
            self.copy(target, host)
        self.uploaded = self.event(self.model_stream())


class _Tensors:
    """Parameters of a session with the tensors of a model: values and gradients are copied by one call for all."""

    def __init__(
        self, session: Session, named: Named, update: Update, before_ready: Callable[[], None], rounds: bool, sparse: Iterable[str] = ()
    ) -> None:
        self.session = session
        self.names: list[str] = []
        self.tensors: list[torch.Tensor] = []
        self.params: dict[int, Parameter] = {}  # by index of the tensor
        self.tables: dict[int, Table] = {}  # those whose gradients are rows, in rounds; by index of the tensor
        if session in _trained:
            fail("the session has an Optimizer or DiLoCo: make one with all parameters, or open another session")
        made = session._begun
        for name, tensor in _named(named):
            trained = update if tensor.requires_grad else NoOptimizer()
            if any(tensor is t for t in self.tensors):
                continue  # tied weights: this tensor is in the list already, by another name
            if not tensor.is_floating_point():
                fail(f"parameter {name!r} is {tensor.dtype}, and must be of a floating-point dtype")
            by_rows = name in sparse and tensor.requires_grad
            key = name, tuple(tensor.shape), by_rows, repr(trained)
            if key not in made:
                made[key] = (session.embedding if by_rows else session.param)(name, tuple(tensor.shape), zeros(), trained)
            (self.tables if by_rows else self.params)[len(self.names)] = made[key]
            self.names.append(name)
            self.tensors.append(tensor)
        if not self.tensors and not session._tables:
            fail("there are no parameters")
        before_ready()
        self.known = self.tensors  # what a chief gives ps tasks that have lost the model
        self._step: tuple[Variable, int] | None = None  # the global step's variable, and its value at the last pull; None: not ready yet
        if isinstance(session, MonitoredSession) and not session._restores:
            session._give = weakref.WeakMethod(self.give)
        elif session.is_chief:
            for name, tensor in zip(self.names, self.tensors):
                if (name,) not in made:  # once: ps tasks refuse it when the session has joined the rounds
                    session.find(name).init_from(_values(tensor))
                    made[name,] = True
        session.ready()
        self._found = [session.find(name) for name in self.names]  # now, while the caller's scopes are open, which complete the names
        self.rounds = rounds
        self._views: dict[int, torch.Tensor] = {}
        self._of_values: dict[tuple[int, int], torch.Tensor] = {}  # by parameter and address
        self._whole: dict[int, Any] = {}  # values of tables
        # gradients of the step that is not over, with their versions; None: no gradient, -1 - k: rows of the session's k-th Embedding
        self.sent: dict[int, tuple[torch.Tensor | None, int]] = {}
        self._begun = 0, 0  # global step and number of recoveries before the first push of this step
        self._versions: list[int] = []  # of the tensors, with the values of the last pull
        self.pinned = {t.device: _Pinned(t.device) for t in self.tensors if t.is_cuda}
        self.pull()
        _trained.add(session)
        made.clear()

    def view(self, array: Any) -> torch.Tensor:
        """The tensor over an array of the library."""
        address = id(array)
        if address not in self._views:
            self._views[address] = torch.from_numpy(array)  # keeps the array, so that the id stays its own
        return self._views[address]

    def give(self, session: Session) -> None:
        """Restore function of a monitored session: the chief gives the model to ps tasks that have none, at the start or because they lost it."""
        if self._step is not None:
            _logger.warning("psd.torch: the ps tasks had lost the model: they get the values that this worker has")
        variables = self._found if self._step else [session.find(name) for name in self.names]
        for variable, tensor in zip(variables, self.known):
            variable.assign(_values(tensor))
        variable, step = self._step or (session.global_step_variable(), 0)
        variable.assign(step)

    @torch.no_grad()
    def pull(self) -> None:
        """Pull, and copy the values into the model."""
        self.session.pull()
        for i in self.tables:
            self._whole[i] = self._found[i].read(self._whole.get(i))
        values = [self.view(self._whole[i]) if i in self.tables else self._value(i) for i in range(len(self.tensors))]
        self._copy(self.tensors, values)
        self._versions = [t._version for t in self.tensors]
        variable = self._step[0] if self._step else self.session.global_step_variable()
        self._step = variable, self.session.global_step

    def _value(self, i: int) -> torch.Tensor:
        """The tensor over a parameter's value array, of which there are two."""
        p = self.params[i]
        key = i, self.session._held(lambda _: lib.ps_param_value(p._pointer))
        if key not in self._of_values:
            self._of_values[key] = torch.from_numpy(p.value)
        return self._of_values[key]

    def changed(self) -> str | None:
        """Name of a tensor that was written to since the last pull."""
        return next((name for name, t, v in zip(self.names, self.tensors, self._versions) if t._version != v), None)

    def _copy(self, targets: list[torch.Tensor], sources: list[torch.Tensor]) -> None:
        for name, target, source in zip(self.names, targets, sources):
            if target.shape != source.shape:
                fail(f"parameter {name!r} is {list(target.shape)} now, and was {list(source.shape)} when it was attached")
        if not self.pinned and targets:
            torch._foreach_copy_(targets, sources)
            return
        places: dict[Any, list[int]] = {}
        for i, target in enumerate(targets):
            places.setdefault(self.pinned.get(target.device), []).append(i)
        for pinned, at in places.items():
            to, values = [targets[i] for i in at], [sources[i] for i in at]
            if pinned is None:
                torch._foreach_copy_(to, values)
            else:
                pinned.upload(at, to, values)

    @torch.no_grad()
    def push(self, indices: list[int], gradients: list[torch.Tensor], pulls: bool, lends: bool = False) -> None:
        """Send gradients of some parameters: whole ones, which travel while the program computes, then rows of sparse ones. lends: their memory
        stays as it is until end_step(), so it need not be copied."""
        rows = [(i, g, *self._rows(i, g)) for i, g in zip(indices, gradients) if g.layout != torch.strided]
        whole = [(i, g) for i, g in zip(indices, gradients) if g.layout == torch.strided]
        if whole:
            self.session._once(self._push, [i for i, _ in whole], [g for _, g in whole], pulls, lends)
        for i, gradient, at, values in rows:
            sends = functools.partial(self.note, i, gradient)
            if self.rounds:
                _push_in_round(self.tables[i], at, values, sends)
            else:
                sends()
                _push_rows(self._found[i], at, values)

    def _rows(self, i: int, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Of a sparse gradient: indices of rows and their values, which may name a row several times."""
        name = self.names[i]
        if gradient.layout != torch.sparse_coo or gradient.sparse_dim() != 1:
            fail(f"the gradient of {name!r} is {gradient.layout}, and must be dense, or torch.sparse_coo of whole rows (nn.Embedding)")
        if self.rounds and i not in self.tables:
            fail(f"sync: the gradient of {name!r} is sparse: give the Optimizer sparse=[{name!r}] and rows_per_step, or use sparse=False")
        if gradient.shape != self.tensors[i].shape:
            fail(f"the gradient of {name!r} is {list(gradient.shape)}, and must be {list(self.tensors[i].shape)}")
        return gradient._indices()[0].cpu(), gradient._values().to("cpu", torch.float32)

    def _push(self, indices: list[int], gradients: list[torch.Tensor], pulls: bool, lends: bool) -> None:
        """Send whole gradients. Those that cannot be lent are copied: small ones by one call, a large one while those before it travel."""
        lent: list[tuple[int, torch.Tensor]] = []
        small: list[tuple[int, torch.Tensor, torch.Tensor]] = []
        large: list[tuple[int, torch.Tensor, torch.Tensor, Callable[[], torch.Tensor]]] = []
        for i, gradient in zip(indices, gradients):
            if i in self.tables:
                fail(f"sync: the gradient of {self.names[i]!r} is dense, and `sparse` names it")
            p = self.params[i]
            if gradient.shape != p.shape:
                fail(f"the gradient of {self.names[i]!r} is {list(gradient.shape)}, and must be {list(p.shape)}")
            pinned = self.pinned.get(gradient.device) if self.pinned else None
            if lends and pinned is None and _is_plain(gradient):
                lent.append((i, gradient))
                continue
            target = self.view(p._array("grad", lib.ps_param_grad(p._pointer)))
            if pinned is not None:
                large.append((i, target, gradient, pinned.download(i, gradient)))
            elif target.numel() > _SMALL:
                large.append((i, target, gradient, lambda g=gradient: g))  # type: ignore[misc]
            else:
                small.append((i, target, gradient))
        function, handle = lib.ps_push_pull if pulls else lib.ps_push, self.session._live()
        for i, gradient in lent:
            self.session._lent.append(gradient)
            status = lib.ps_param_lend(self.params[i]._pointer, gradient.data_ptr())
            if status != 0:
                self.session._failed(last_error(status))
            self._send(function, handle, i, gradient)
        if small:
            torch._foreach_copy_([t for _, t, _ in small], [g for _, _, g in small])
        for i, _, gradient in small:
            self._send(function, handle, i, gradient)
        for i, target, gradient, arrived in sorted(large, key=lambda entry: entry[1].numel()):
            target.copy_(arrived())
            self._send(function, handle, i, gradient)

    def _send(self, function: Callable[[int, int], int], handle: int, i: int, gradient: torch.Tensor) -> None:
        self.note(i, gradient)
        status = function(handle, self.params[i]._pointer)
        while status == 1 and interrupted():  # a signal's handler has raised nothing, and nothing was sent: call again
            status = function(handle, self.params[i]._pointer)
        if status != 0:
            del self.sent[i]
            self.session._failed(last_error(status))

    def note(self, i: int, gradient: torch.Tensor | None) -> None:
        """Called before a gradient is sent: Ctrl-C may come between the call and the next line."""
        if not self.sent:
            self._begun = self.session.global_step, self._recoveries()
        self.sent[i] = gradient, 0 if gradient is None else gradient._version

    def is_sent(self, i: int, gradient: torch.Tensor | None) -> bool:
        """Whether exactly this gradient was sent in this step."""
        return i in self.sent and gradient is self.sent[i][0] and (gradient is None or gradient._version == self.sent[i][1])

    @property
    def counted(self) -> bool:
        """Whether the step was interrupted behind step_done(), so that only its pull is missing."""
        return bool(self.sent) and self.session.global_step != self._begun[0]

    def forget_lost(self) -> None:
        """Gradients that were sent before a recovery are lost with their model."""
        if self.sent and self._recoveries() != self._begun[1]:
            self.sent.clear()

    def _recoveries(self) -> int:
        last = self.session.last_recovery if isinstance(self.session, MonitoredSession) else None
        return last.count if last is not None else 0

    @contextlib.contextmanager
    def one_step(self) -> Iterator[None]:
        """A context for the pushes and end_step() of one step. If it is interrupted, `sent` has what was sent, and the next step goes on with it."""
        try:
            yield
        except BaseException as e:
            self._part()
            if isinstance(e, Error) and not isinstance(e, Cancelled):
                self.sent.clear()
            raise
        self.sent.clear()

    def _part(self) -> None:
        """The program goes on with copies of its gradients: pushes may still read those that it has lent."""
        lent = {id(g) for g in self.session._lent}
        for p in self.params.values():  # nothing that was lent is left to a later push
            self.session._look(lambda _, p=p: lib.ps_param_lend(p._pointer, None), 0)  # type: ignore[misc]
        for i, tensor in enumerate(self.tensors):
            if id(tensor.grad) in lent and tensor.grad is not None:
                tensor.grad = tensor.grad.clone()
                if i in self.sent:
                    self.sent[i] = tensor.grad, tensor.grad._version

    def end_step(self) -> None:
        """Make step_done() and pull(), or the part of them that an interrupted step has left."""
        if not self.counted:
            self.session.step_done()
        self.session._lent.clear()
        self.pull()


def _is_plain(gradient: torch.Tensor) -> bool:
    """Whether the memory of a gradient is what the library takes."""
    return (
        type(gradient) is torch.Tensor
        and gradient.dtype is torch.float32
        and gradient.device.type == "cpu"
        and gradient.is_contiguous()
        and not gradient.is_neg()
    )


def _values(tensor: torch.Tensor) -> Any:
    return tensor.detach().to("cpu", torch.float32).contiguous().numpy()


def _push_rows(variable: Variable, at: torch.Tensor, values: torch.Tensor) -> None:
    try:
        variable.push_rows(at.numpy(), values.numpy())
    except (Aborted, DataLoss, DeadlineExceeded, Unavailable):
        # a push of rows is no call of training: the pull lets the session see the loss, so that a monitored one recovers
        with contextlib.suppress(Error):
            variable.session.pull()
        raise


def _push_in_round(table: Table, at: torch.Tensor, values: torch.Tensor, sends: Callable[[], None]) -> None:
    """Push each row once, with the sum of its values. The rows are read first, because the library takes gradients of rows that it has read. sends:
    called before the gradients are sent, and not if the read is interrupted."""
    different, places = torch.unique(at, return_inverse=True)
    if len(different) > 0:
        table.pull(different.numpy())
    sends()
    if len(different) > 0:
        table.push(values.new_zeros((len(different), *values.shape[1:])).index_add_(0, places, values).numpy())


def _begin(session: Session, call: Callable[..., None], **options: Any) -> None:
    """Make a call for the rounds, unless it has set these options before a ready() that was interrupted: a session that has joined refuses it."""
    begun = session._begun
    if begun.get(call.__name__) != options:
        call(**options)
        begun[call.__name__] = options


_trained: weakref.WeakSet[Session] = weakref.WeakSet()  # sessions with an Optimizer or DiLoCo


class Embedding(torch.nn.Module):
    """A table of vectors that stays on the ps tasks: as nn.Embedding, for tables that no worker can hold. Only the rows of a batch travel.

        table = psd.torch.Embedding(session, "words", 100_000_000, 64, psd.Adagrad(0.1))
        optimizer = psd.torch.Optimizer(model.named_parameters(), session, psd.Adagrad(0.1))

    Make it before the Optimizer of its session. The Optimizer's step() pushes the gradients of its rows, each row once: the sum of all backward()
    since the last step. Without an Optimizer call push(). It has no parameters: named_parameters(), state_dict() and clip_grad_norm_ do not see the
    table. A GradScaler is refused.

    optimizer    with a sparse form: psd.SGD, psd.Adagrad, psd.optimizer("lazy_adam"), ...
    init         psd.uniform(-0.05, 0.05)
    padding_idx  this row is zeros in the result, and gets no gradient
    sync         for an Optimizer with sync=True, whose rows_per_step holds for the table as well
    more         of Session.variable(): device, partition, wire_dtype

    Calling it with integer ids of any shape returns a float32 tensor of shape ids.shape + [embedding_dim], on the device of the ids. Raises
    OutOfRange, an IndexError, for an id that the table does not have.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        num_embeddings: int,
        embedding_dim: int,
        optimizer: Update,
        *,
        init: Initializer | None = None,
        padding_idx: int | None = None,
        sync: bool = False,
        **more: Any,
    ) -> None:
        super().__init__()
        if not isinstance(optimizer, Update):
            fail(f"optimizer is {optimizer!r}, and must be one of psd, such as psd.Adagrad(0.1)")
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            fail(f"padding_idx is {padding_idx}, and the table has {num_embeddings} rows")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx if padding_idx is None or padding_idx >= 0 else padding_idx + num_embeddings
        shape, init = (num_embeddings, embedding_dim), init or uniform(-0.05, 0.05)
        self.variable: Variable | None = None if sync else session.variable(name, shape, "float32", init, optimizer, **more)
        self._table: Table | None = session.embedding(name, shape, init, optimizer, **more) if sync else None
        made = self.variable or self._table
        assert made is not None
        self.name = made.name
        self._backward: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # ids and rows that have a gradient
        session._tables.append(self)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, name={self.name!r}"

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Read the rows of these ids."""
        if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
            fail(f"ids are {ids.dtype}, and must be integers")
        unique, inverse = torch.unique(ids.detach(), return_inverse=True)
        at = unique.cpu().numpy()
        rows = torch.from_numpy(self.variable.gather(at) if self.variable is not None else self._read(at)).to(ids.device)
        if self.padding_idx is not None:
            rows[unique == self.padding_idx] = 0
        if torch.is_grad_enabled():
            rows.requires_grad_()
            rows.register_post_accumulate_grad_hook(functools.partial(self._accumulated, unique))  # type: ignore[no-untyped-call]
        return torch.nn.functional.embedding(inverse, rows)

    def _read(self, at: Any) -> Any:
        assert self._table is not None
        return self._table.pull(at)[0]

    def _accumulated(self, unique: torch.Tensor, rows: torch.Tensor) -> None:
        self._backward[id(rows)] = unique, rows

    @torch.no_grad()
    def push(self) -> None:
        """Push the gradients of all backward() since the last push: rows that several batches have are added."""
        self._push(lambda: None)

    @torch.no_grad()
    def _push(self, noted: Callable[[], None]) -> None:
        """push(). noted: called before anything is sent."""

        def sends() -> None:
            self._backward = {}
            noted()

        ids = [unique for unique, _ in self._backward.values()]
        gradients = [rows.grad for _, rows in self._backward.values() if rows.grad is not None]
        if not gradients:
            sends()
            return
        at, values = torch.cat(ids), torch.cat(gradients)
        if self.padding_idx is not None:
            kept = at != self.padding_idx
            at, values = at[kept], values[kept]
        if self._table is not None:
            _push_in_round(self._table, at.cpu(), values.cpu(), sends)
            return
        sends()
        if self.variable is not None and len(at) > 0:
            _push_rows(self.variable, at.cpu(), values.cpu())

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients since the last push; Optimizer.zero_grad() does it."""
        self._backward.clear()


def _plain(name: str) -> str:
    """A model has the same names with and without torch.compile()."""
    return name.replace("_orig_mod.", "")


def _named(named: Any) -> Named:
    if isinstance(named, torch.nn.Module):
        named = named.named_parameters()
    items = list(named.items() if isinstance(named, Mapping) else named)
    for item in items:
        if not (isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], torch.Tensor)):
            fail("the parameters have no names: give model.named_parameters(), not model.parameters()")
    return [(_plain(name), tensor) for name, tensor in items]


class _Rates(Hook):
    """Clears the chief's learning rates at the end."""

    def __init__(self) -> None:
        self.sent = False

    def end(self, session: Session) -> None:
        if self.sent:
            session.set_rates(None)


class Optimizer(torch.optim.Optimizer):
    """A torch.optim.Optimizer whose updates are made on the ps tasks. Makes the session ready, and pulls.

    named_parameters  model.named_parameters(), or pairs of name and tensor. Frozen ones are pulled only
    session    not yet ready
    optimizer  psd.SGD(0.1), psd.Adagrad(0.1), ...
    sync       train in rounds: a step of all workers is one update with their average gradient. Each parameter that is not sparse must have a
               gradient in each step, and a GradScaler, which skips steps, is refused
    sparse     with sync: names of the parameters that have sparse gradients, the same on all workers
    rows_per_step   with sync: different rows of one of these, or of an Embedding, that a worker may push in a step
    overlap    send each gradient while backward() goes on. Refuses what looks at gradients before step(): a second backward(), clipping, closures

    step() sends `.grad` of all parameters and pulls, so clip_grad_norm_, accumulation and GradScaler work as with any optimizer. A parameter
    without a gradient is left out. LR schedulers: the chief's `lr` is sent when it changes, for all variables of the container, and cleared when
    the session closes without an error; other workers' is ignored. state_dict() has the param_groups; slots are on the ps, in their checkpoints.

    Of a sparse gradient, as of nn.Embedding(sparse=True), only the rows travel, once each: Variable.push_rows(). Values are pulled whole. psd.Adam
    moves all rows then, and is refused for more than 16 MiB: psd.optimizer("lazy_adam"). With sync the ps tasks must know these parameters before:

        psd.torch.Optimizer(model, s, psd.SGD(1), sync=True, sparse=["words.weight"], rows_per_step=10_000)

    A row's average is over all workers of the round, also those whose batches did not have it.
    """

    def __init__(
        self,
        named_parameters: Any,
        session: Session,
        optimizer: Update,
        *,
        sync: bool = False,
        overlap: bool = False,
        sparse: Iterable[str] = (),
        rows_per_step: int = 0,
    ) -> None:
        if not isinstance(optimizer, Update):
            fail(f"optimizer is {optimizer!r}, and must be one of psd, such as psd.Adagrad(0.1)")
        self.session, self._sync, self._overlap, self._built = session, sync, overlap, False
        self._rates = _Rates()
        self._noted = self._warned = False
        self._interrupted = False  # the last step was interrupted after it had sent gradients: it goes on with another backward()
        self._tables: list[Embedding] = session._tables
        named = list(_named(named_parameters))
        sparse = [sparse] if isinstance(sparse, str) else list(sparse)
        for table in self._tables:
            if (table.variable is None) != sync:
                fail(f"the Embedding {table.name!r} has sync={not sync}, and the Optimizer sync={sync}")
        for name in sparse:
            if name not in dict(named):
                fail(f"sparse has {name!r}, which is none of the parameters")
        by_rows = sparse + [table.name for table in self._tables]
        if sparse and not sync:
            fail("sparse is for sync=True: without rounds gradients may be sparse or dense at any time")
        if sync and (rows_per_step > 0) != bool(by_rows):
            fail(f"rows_per_step is {rows_per_step}, and {by_rows[0]!r} needs it" if by_rows else "rows_per_step is for `sparse` and Embeddings")
        self._rows_per_step = rows_per_step
        self._rate = optimizer.hyper.get("learning_rate", 0.0)
        super().__init__([{"params": [t for _, t in _unique(named)]}], {"lr": self._rate})
        # True: a GradScaler passes itself to step(), which refuses it
        self._step_supports_amp_scaling = sync or overlap or bool(self._tables)
        self._tensors = _Tensors(session, named, optimizer, self._before_ready, sync, sparse)
        self._chief = session.is_chief
        if overlap:
            for i, tensor in enumerate(self._tensors.tensors):
                if tensor.requires_grad:
                    tensor.register_post_accumulate_grad_hook(functools.partial(self._accumulated, i))  # type: ignore[no-untyped-call]
        self._built = True

    def _before_ready(self) -> None:
        begun = self.session._begun
        if _Rates not in begun:
            self.session.add_hook(self._rates)
            begun[_Rates] = self._rates
        self._rates = begun[_Rates]
        if self._sync:
            _begin(self.session, self.session.sync)
        if self._sync and self._rows_per_step > 0:
            _begin(self.session, self.session.sync_rows, rows_per_step=self._rows_per_step)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a psd.torch.Optimizer is neither pickled nor copied: keep its state_dict(), and make another one for another session")

    def __repr__(self) -> str:
        return f"<psd.torch.Optimizer of {len(self._tensors.tensors)} parameters>"

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of all parameters, and of the session's Embeddings. With overlap it raises FailedPrecondition, once, if gradients were
        sent and no step() came."""
        if self._overlap and self._tensors.sent and not self._tensors.counted:
            told, self._interrupted = self._interrupted, self._sync
            if not self._sync:
                self._tensors.sent.clear()
            if not told:
                kept = "the round has them" if self._sync else "they are applied"
                fail(f"overlap: zero_grad() before step(): gradients are sent, and {kept}; call it again to go on", Status.FAILED_PRECONDITION)
        super().zero_grad(set_to_none)
        for table in self._tables:
            table.zero_grad()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused after the construction: the model is on the ps tasks then."""
        if getattr(self, "_built", False):
            fail("parameters cannot be added to a model that is ready: make the optimizer with all of them")
        super().add_param_group(param_group)

    def _accumulated(self, i: int, tensor: torch.Tensor) -> None:
        t = self._tensors
        assert tensor.grad is not None
        if i in t.sent and t.counted:
            t.sent.clear()  # of a step that is over, but for its pull
        if i in t.sent and not self._interrupted:
            fail(f"overlap: backward() has computed a second gradient of {t.names[i]!r} before step(): it was sent already")
        if i in t.sent and self._sync:
            t.sent[i] = tensor.grad, tensor.grad._version  # a round takes one gradient: the one that was sent before the interrupt
            return
        if not t.sent:
            self._send_rate()
        try:
            t.push([i], [tensor.grad], not self._sync)
        except Cancelled:
            raise
        except Error:
            t.sent.clear()
            raise

    def _send_rate(self) -> None:
        rate = self.param_groups[0]["lr"]
        if rate == self._rate:
            return
        self._rate = rate
        if self._chief:
            self.session.set_rates(max(float(rate), torch.finfo(torch.float32).tiny) if rate >= 0 else float(rate))  # the ps tasks take no 0
            self._rates.sent = True
        elif not self._noted:
            self._noted = True
            _logger.info("psd.torch: the learning rate of this worker is not sent: the chief's holds for all")

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None, *, grad_scaler: Any = None) -> Any:
        """Send the gradients, end the step, and pull. Returns closure()."""
        if grad_scaler is not None and self._tables:
            fail("a GradScaler does not see the gradients of an Embedding: train in bfloat16 without a scaler")
        if grad_scaler is not None and not self._sync:
            fail("overlap: gradients are sent before a GradScaler sees them: train without overlap")
        if grad_scaler is not None:
            fail("a GradScaler skips steps, which would hold a round: train without sync, or in bfloat16 without a scaler")
        if closure is not None and self._overlap:
            fail("overlap: gradients are sent while backward() goes on, so step() takes no closure")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._send_rate()
        t = self._tensors
        if not self._warned and (name := t.changed()) is not None:
            self._warned = True
            _logger.warning("psd.torch: the program has changed values of %r, which the pull replaces: psd.Variable.assign() gives new ones", name)
        t.forget_lost()
        if t.counted:  # and interrupted in its pull
            t.pull()
            same = all(t.is_sent(i, t.tensors[i].grad) if i >= 0 else not self._tables[-1 - i]._backward for i in t.sent)
            t.sent.clear()
            if same:
                return loss
        indices, gradients = [], []
        for i, tensor in enumerate(t.tensors):
            gradient = tensor.grad
            if i in t.sent and (t.is_sent(i, gradient) or (self._sync and self._interrupted)):
                continue
            if i in t.sent and self._overlap and not self._interrupted:
                fail(f"overlap: the gradient of {t.names[i]!r} was changed after it was sent: clip and scale without overlap")
            if gradient is not None and tensor.requires_grad:
                indices.append(i)
                gradients.append(gradient)
            elif self._sync and tensor.requires_grad and i not in t.tables:
                fail(f"sync: parameter {t.names[i]!r} got no gradient in this step; in rounds each must have one")
        try:
            with t.one_step():
                t.push(indices, gradients, not self._sync, lends=not self._overlap)
                for k, table in enumerate(self._tables):
                    if not self._sync or -1 - k not in t.sent:
                        table._push(functools.partial(t.note, -1 - k, None))
                for i in t.tables.keys() - t.sent.keys():
                    t.note(i, None)  # step_done() gives the round no rows of it
                t.end_step()
        finally:
            self._interrupted = bool(t.sent)
        return loss


def _unique(named: Named) -> Named:
    seen: list[torch.Tensor] = []
    for name, tensor in named:
        if not any(tensor is t for t in seen):
            seen.append(tensor)
            yield name, tensor


def load(model: torch.nn.Module, session: Session) -> None:
    """Read the values of a model that others train into this one: for an evaluator. Raises NotFound for a parameter that the cluster lacks."""
    with torch.no_grad():
        for name, tensor in _named(model):
            tensor.copy_(torch.from_numpy(session.find(name).read()))


class Buffers:
    """Buffers of a model (running means of batch norm), which no optimizer trains: attach() gives it.

    sync() makes them the same for all workers: the chief's ("chief"), or the average of all workers' ("averaged"; integers are the chief's). With
    "averaged" every worker must call it.
    """

    def __init__(self, model: torch.nn.Module, session: Session, policy: str) -> None:
        self.session, self.policy = session, policy
        self.buffers = {_plain(name): b for name, b in model.named_buffers()} if policy != "local" else {}
        self.chief = session.is_chief
        self.variables: dict[str, Variable] = {}
        with session.container("torch-buffers"):
            for name, buffer in self.buffers.items():
                dtype = str(buffer.dtype).partition(".")[2]
                self.variables[name] = session.variable(name, tuple(buffer.shape), dtype)
                if self.chief:
                    self.variables[name].init_from(_numpy(buffer))
        self.count = 0
        if policy != "local" and session.task_count > 1:
            session.barrier("torch-buffers", session.task_count)
        self._read()

    def _read(self) -> None:
        for name, buffer in self.buffers.items():
            with torch.no_grad():
                buffer.copy_(torch.as_tensor(self.variables[name].read()))

    def sync(self) -> None:
        """Make the buffers the same for all workers."""
        self.count += 1
        workers = self.session.task_count
        for name, buffer in self.buffers.items():
            if self.policy == "averaged" and buffer.dtype in (torch.float32, torch.float64):
                mean = self.session.accumulator(f"torch-buffers/{name}", tuple(buffer.shape), str(buffer.dtype).partition(".")[2])
                mean.apply(_numpy(buffer), self.count - 1)
                if self.chief:
                    self.variables[name].assign(mean.take(workers)[0])
            elif self.chief:
                self.variables[name].assign(_numpy(buffer))
        if self.policy == "averaged" and workers > 1:
            self.session.barrier("torch-buffers", workers)
        self._read()


def _numpy(tensor: torch.Tensor) -> Any:
    return tensor.detach().cpu().numpy()


def attach(model: torch.nn.Module, session: Session, buffers: str = "chief") -> Buffers:
    """Give the buffers of a model the chief's first values, on every worker, after Optimizer() or DiLoCo(). buffers: "chief", "averaged" or "local":
    what Buffers.sync() does later."""
    if buffers not in ("chief", "averaged", "local"):
        fail(f"buffers is {buffers!r}, and must be 'chief', 'averaged' or 'local'")
    return Buffers(model, session, buffers)


class DiLoCo:
    """Workers train alone, each with an inner optimizer, and meet every `every` steps: the ps tasks apply the average of what they moved (old minus
    new) with the outer optimizer (Douillard et al., arXiv 2311.08105).

        diloco = psd.torch.DiLoCo(model, torch.optim.AdamW(model.parameters()), session, every=500)
        ... loss.backward(); diloco.step(); diloco.zero_grad()

    outer           psd.Nesterov(0.7, 0.9); psd.SGD(1) is FedAvg
    workers         that must join before the first meeting; 0: those of the cluster spec
    replicas        meetings end when so many have come, and later ones are dropped; 0: all
    on_worker_loss  "shrink": the others go on without a worker that is lost, a lease after it; one that comes later joins the next meeting
    sync            False: each worker meets the ps tasks alone. Momentum of stale movements does harm: allow_stale_momentum=True insists

    Inner states stay local. The timeout of a meeting is 10 times the longest time so far from one meeting to the end of the next, at least 600 s.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        inner: torch.optim.Optimizer,
        session: Session,
        *,
        every: int = 500,
        outer: Update | None = None,
        workers: int = 0,
        replicas: int = 0,
        on_worker_loss: str = "shrink",
        sync: bool = True,
        allow_stale_momentum: bool = False,
    ) -> None:
        outer = outer or Nesterov(0.7, 0.9)
        if every < 1:
            fail(f"every is {every}, and must be at least 1")
        if not sync and isinstance(outer, (Momentum, Nesterov)) and not allow_stale_momentum:
            fail("without sync the outer optimizer's momentum is of stale movements, which does harm: psd.SGD(1), or allow_stale_momentum=True")
        self.session, self.inner, self.every, self.sync = session, inner, every, sync
        self.steps = 0
        self.meetings = 0
        self._slowest = 0.0

        def before_ready() -> None:
            if sync:
                _begin(session, session.sync, workers=workers, replicas_to_aggregate=replicas, on_worker_loss=on_worker_loss)

        trained = [(n, p) for n, p in _named(model) if p.requires_grad]
        self._tensors = _Tensors(session, trained, outer, before_ready, sync)
        self._hold()
        self._met = time.monotonic()
        elements = sum(t.numel() for t in self._tensors.tensors)
        self.bytes_per_step = 8 * elements / every
        self.bytes_per_step_data_parallel = 8 * elements

    def __repr__(self) -> str:
        return (
            f"<psd.torch.DiLoCo every {self.every} steps, meeting {self.meetings}: {self.bytes_per_step:.0f} bytes per step, "
            f"{self.bytes_per_step_data_parallel:.0f} in data-parallel training>"
        )

    def zero_grad(self, set_to_none: bool = True) -> None:
        """inner.zero_grad()"""
        self.inner.zero_grad(set_to_none)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """An inner step; after every `every` of them a meeting. Returns the inner optimizer's result. A meeting that was interrupted is ended
        first."""
        self._tensors.forget_lost()
        if self._tensors.sent:
            self.meet()
        loss = self.inner.step(closure)
        self.steps += 1
        if self.steps % self.every == 0:
            self.meet()
        return loss

    def _hold(self) -> None:
        """Remember the values of this meeting: what this worker moves is measured from them, and ps tasks that lose the model get them."""
        self._tensors.known = [t.detach().to("cpu", torch.float32, copy=True) for t in self._tensors.tensors]

    @torch.no_grad()
    def meet(self) -> None:
        """Send what this worker moved since the last meeting, wait for the others, and take the new values."""
        t = self._tensors
        moved = [known - tensor.detach().to("cpu", torch.float32) for known, tensor in zip(t.known, t.tensors)]
        self._slowest = max(self._slowest, time.monotonic() - self._met)
        self.session.set_deadline(max(600.0, 10 * self._slowest))
        try:
            with t.one_step():
                left = [] if t.counted else [i for i in range(len(moved)) if i not in t.sent]
                t.push(left, [moved[i] for i in left], not self.sync, lends=True)
                t.end_step()
                self._hold()
        finally:
            self.session._look(lambda h: lib.ps_session_set_deadline(h, 0), None)
        self._slowest = max(self._slowest, time.monotonic() - self._met)
        self._met = time.monotonic()
        self.meetings += 1
