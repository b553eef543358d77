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
from typing import Any, Callable, Iterable, Mapping

import torch

from ._library import lib
from ._waits import interrupted
from .errors import Aborted, DataLoss, DeadlineExceeded, Error, Unavailable, fail, last_error
from .hooks import Hook
from .session import MonitoredSession, Session
from .values import Initializer, Momentum, Nesterov, NoOptimizer, uniform, zeros
from .values import Optimizer as Update
from .variables import Parameter, Variable

_logger = logging.getLogger("psd")
Named = Iterable[tuple[str, torch.Tensor]]


class _Pinned:
    """Copies between tensors of a CUDA device and the host, which go on while the program works: through pinned memory, in which only the device's
    copies wait for each other. Gradients travel on a stream of their own, with an event each; values on the model's stream, with one event."""

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
        """The memory of a gradient that the program drops is not used again before its copy."""
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
        """Begin to copy values. What the model's stream does later sees them."""
        if self.uploaded is not None:
            self.uploaded.synchronize()  # the pinned memory is free again
        for i, target, source in zip(indices, targets, sources):
            host = self.host(self.up, i, source)
            host.copy_(source)
            self.copy(target, host)
        self.uploaded = self.event(self.model_stream())


class _Tensors:
    """Parameters of a session with the tensors of a model: values and gradients are copied by one call for all."""

    def __init__(self, session: Session, named: Named, update: Update, before_ready: Callable[[], None], rows: bool) -> None:
        self.session = session
        self.names: list[str] = []
        self.tensors: list[torch.Tensor] = []
        self.params: list[Parameter] = []
        for name, tensor in _named(named):
            trained = update if tensor.requires_grad else NoOptimizer()
            if any(tensor is t for t in self.tensors):
                continue  # tied weights
            if not tensor.is_floating_point():
                fail(f"parameter {name!r} is {tensor.dtype}, and must be of a floating-point dtype")
            self.params.append(session.param(name, tuple(tensor.shape), zeros(), trained))
            self.names.append(name)
            self.tensors.append(tensor)
        if not self.tensors and not _embeddings.get(session):
            fail("there are no parameters")
        before_ready()
        if session.is_chief:
            for name, tensor in zip(self.names, self.tensors):
                session.find(name).init_from(tensor.detach().to("cpu", torch.float32).numpy())
        session.ready()
        # for sparse gradients, and after a recovery; found here, where the caller's scopes are open
        self.monitored = session if isinstance(session, MonitoredSession) else None
        self.recoveries = 0
        asked = [i for i, t in enumerate(self.tensors) if rows and (t.requires_grad or self.monitored)]
        self.variables = {i: session.find(self.names[i]) for i in asked}
        self._views: dict[int, torch.Tensor] = {}
        self.pinned = {t.device: _Pinned(t.device) for t in self.tensors if t.is_cuda}
        self.pull()

    def view(self, array: Any) -> torch.Tensor:
        """The tensor over an array of the library."""
        address = id(array)
        if address not in self._views:
            self._views[address] = torch.from_numpy(array)  # keeps the array, so that the id stays its own
        return self._views[address]

    def give_again(self) -> None:
        """After a recovery that found ps tasks without values: the chief's initializer has made zeros, and gives what this model has instead."""
        last = self.monitored.last_recovery if self.monitored is not None else None
        if last is None or last.count == self.recoveries:
            return
        self.recoveries = last.count
        if last.initialised:
            _logger.warning("psd.torch: the ps tasks had lost the model: they get the values that this worker has")
            for i, variable in self.variables.items():
                variable.assign(self.tensors[i].detach().to("cpu", torch.float32).contiguous().numpy())

    @torch.no_grad()
    def pull(self) -> None:
        """Pull, and copy the values into the model."""
        self.session.pull()
        values = [self.view(p.value) for p in self.params]
        self._copy([t.detach() for t in self.tensors], values)

    def _copy(self, targets: list[torch.Tensor], sources: list[torch.Tensor]) -> None:
        for name, target, source in zip(self.names, targets, sources):
            if target.shape != source.shape:
                fail(f"parameter {name!r} is {list(target.shape)} now, and was {list(source.shape)} when it was attached")
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
    def push(self, indices: list[int], gradients: list[torch.Tensor], pulls: bool) -> None:
        """Send gradients of some parameters: whole ones, which travel while the program computes, then rows of sparse ones."""
        rows = [self._rows(i, g) for i, g in zip(indices, gradients) if g.layout != torch.strided]
        whole = [(i, g) for i, g in zip(indices, gradients) if g.layout == torch.strided]
        if whole:
            self.session._once(self._push, [i for i, _ in whole], [g for _, g in whole], pulls)
        for variable, at, values in rows:
            _push_rows(variable, at, values)

    def _rows(self, i: int, gradient: torch.Tensor) -> tuple[Variable, Any, Any]:
        """Of a sparse gradient: its variable, indices of rows and their values, which may name a row several times."""
        name = self.names[i]
        if gradient.layout != torch.sparse_coo or gradient.sparse_dim() != 1:
            fail(f"the gradient of {name!r} is {gradient.layout}, and must be dense, or torch.sparse_coo of whole rows (nn.Embedding)")
        if i not in self.variables:
            fail(f"sync: the gradient of {name!r} is sparse, and rounds take dense gradients: use sparse=False, or train without sync")
        if gradient.shape != self.params[i].shape:
            fail(f"the gradient of {name!r} is {list(gradient.shape)}, and must be {list(self.params[i].shape)}")
        values = gradient._values().to("cpu", torch.float32)
        return self.variables[i], gradient._indices()[0].cpu().numpy(), values.numpy()

    def _push(self, indices: list[int], gradients: list[torch.Tensor], pulls: bool) -> None:
        targets: list[torch.Tensor] = []
        sources: list[torch.Tensor] = []
        later: dict[int, tuple[torch.Tensor, Callable[[], torch.Tensor]]] = {}
        for i, gradient in zip(indices, gradients):
            p = self.params[i]
            target = self.view(p._array("grad", lib.ps_param_grad(p._pointer)))
            if target.shape != gradient.shape:
                fail(f"the gradient of {self.names[i]!r} is {list(gradient.shape)}, and must be {list(target.shape)}")
            pinned = self.pinned.get(gradient.device)
            if pinned is None:
                targets.append(target)
                sources.append(gradient)
            else:
                later[i] = target, pinned.download(i, gradient)
        if targets:
            torch._foreach_copy_(targets, sources)
        function, handle = lib.ps_push_pull if pulls else lib.ps_push, self.session._live()
        for i in indices:
            if i in later:
                target, arrived = later[i]
                target.copy_(arrived())
            status = function(handle, self.params[i]._pointer)
            while status == 1 and interrupted():  # a handler that raised nothing; nothing was sent
                status = function(handle, self.params[i]._pointer)
            if status != 0:
                self.session._failed(last_error(status))


def _push_rows(variable: Variable, at: Any, values: Any) -> None:
    try:
        variable.push_rows(at, values)
    except (Aborted, DataLoss, DeadlineExceeded, Unavailable):
        # a push of rows is no call of training: the pull lets the session see the loss, so that a monitored one recovers
        with contextlib.suppress(Error):
            variable.session.pull()
        raise


_embeddings: weakref.WeakKeyDictionary[Session, list[Embedding]] = weakref.WeakKeyDictionary()


class Embedding(torch.nn.Module):
    """A table of vectors that stays on the ps tasks: as nn.Embedding, for tables that no worker can hold. Only the rows of a batch travel.

        table = psd.torch.Embedding(session, "words", 100_000_000, 64, psd.Adagrad(0.1))
        optimizer = psd.torch.Optimizer(model.named_parameters(), session, psd.Adagrad(0.1))

    Make it before the Optimizer of its session. The Optimizer's step() pushes the gradients of its rows, each row once: the sum of all backward()
    since the last step. Without an Optimizer call push(). It has no parameters: named_parameters(), state_dict() and clip_grad_norm_ do not see the
    table. A GradScaler and sync=True are refused.

    optimizer    with a sparse form: psd.SGD, psd.Adagrad, psd.optimizer("lazy_adam"), ...
    init         psd.uniform(-0.05, 0.05)
    padding_idx  this row is zeros in the result, and gets no gradient
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
        **more: Any,
    ) -> None:
        super().__init__()
        if not isinstance(optimizer, Update):
            fail(f"optimizer is {optimizer!r}, and must be one of psd, such as psd.Adagrad(0.1)")
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            fail(f"padding_idx is {padding_idx}, and the table has {num_embeddings} rows")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx if padding_idx is None or padding_idx >= 0 else padding_idx + num_embeddings
        self.variable = session.variable(name, (num_embeddings, embedding_dim), "float32", init or uniform(-0.05, 0.05), optimizer, **more)
        self._backward: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # ids and rows that have a gradient
        _embeddings.setdefault(session, []).append(self)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, name={self.variable.name!r}"

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Read the rows of these ids."""
        if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
            fail(f"ids are {ids.dtype}, and must be integers")
        unique, inverse = torch.unique(ids.detach(), return_inverse=True)
        rows = torch.from_numpy(self.variable.gather(unique.cpu().numpy())).to(ids.device)
        if self.padding_idx is not None:
            rows[unique == self.padding_idx] = 0
        if torch.is_grad_enabled():
            rows.requires_grad_()
            rows.register_post_accumulate_grad_hook(functools.partial(self._accumulated, unique))  # type: ignore[no-untyped-call]
        return torch.nn.functional.embedding(inverse, rows)

    def _accumulated(self, unique: torch.Tensor, rows: torch.Tensor) -> None:
        self._backward[id(rows)] = unique, rows

    @torch.no_grad()
    def push(self) -> None:
        """Push the gradients of all backward() since the last push: rows that several batches have are added."""
        backward, self._backward = list(self._backward.values()), {}
        ids = [unique for unique, _ in backward]
        gradients = [rows.grad for _, rows in backward if rows.grad is not None]
        if not gradients:
            return
        at, values = torch.cat(ids), torch.cat(gradients)
        if self.padding_idx is not None:
            kept = at != self.padding_idx
            at, values = at[kept], values[kept]
        if len(at) > 0:
            _push_rows(self.variable, at.cpu().numpy(), values.cpu().numpy())

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients since the last push; Optimizer.zero_grad() does it."""
        self._backward.clear()


def _named(named: Any) -> Named:
    if isinstance(named, torch.nn.Module):
        return list(named.named_parameters())
    items = list(named.items() if isinstance(named, Mapping) else named)
    for item in items:
        if not (isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], torch.Tensor)):
            fail("the parameters have no names: give model.named_parameters(), not model.parameters()")
    return items


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
    sync       train in rounds: a step of all workers is one update with their average gradient. Each parameter must have a gradient in each
               step, and a GradScaler, which skips steps, is refused
    overlap    send each gradient while backward() goes on. Refuses what looks at gradients before step(): a second backward(), clipping, closures

    step() sends `.grad` of all parameters and pulls, so clip_grad_norm_, accumulation and GradScaler work as with any optimizer. A parameter
    without a gradient is left out. LR schedulers: the chief's `lr` is sent when it changes, for all variables of the container, and cleared when
    the session closes without an error; other workers' is ignored. state_dict() has the param_groups; slots are on the ps, in their checkpoints.

    Of a sparse gradient, as of nn.Embedding(sparse=True), only the rows travel, once each: Variable.push_rows(). Values are pulled whole. psd.Adam
    moves all rows then, and is refused for more than 16 MiB: psd.optimizer("lazy_adam"). Sparse gradients are refused with sync.
    """

    def __init__(self, named_parameters: Any, session: Session, optimizer: Update, *, sync: bool = False, overlap: bool = False) -> None:
        if not isinstance(optimizer, Update):
            fail(f"optimizer is {optimizer!r}, and must be one of psd, such as psd.Adagrad(0.1)")
        self.session, self._sync, self._overlap, self._built = session, sync, overlap, False
        self._rates = _Rates()
        self._noted = False
        self._tables = _embeddings.get(session, [])
        if sync and self._tables:
            fail(f"sync: {self._tables[0].variable.name!r} is an Embedding, and rounds take no rows: train without sync")
        named = list(_named(named_parameters))
        self._rate = optimizer.hyper.get("learning_rate", 0.0)
        super().__init__([{"params": [t for _, t in _unique(named)]}], {"lr": self._rate})
        self._step_supports_amp_scaling = sync or bool(self._tables)  # a GradScaler then hands itself to step(), which refuses it
        self._tensors = _Tensors(session, named, optimizer, self._before_ready, rows=not sync)
        self._chief = session.is_chief
        self._sent: dict[int, int] = {}  # overlap: index: version of the gradient that was sent
        if overlap:
            for i, tensor in enumerate(self._tensors.tensors):
                if tensor.requires_grad:
                    tensor.register_post_accumulate_grad_hook(functools.partial(self._accumulated, i))  # type: ignore[no-untyped-call]
        self._built = True

    def _before_ready(self) -> None:
        self.session.add_hook(self._rates)
        if self._sync:
            self.session.sync()

    def __repr__(self) -> str:
        return f"<psd.torch.Optimizer of {len(self._tensors.params)} parameters>"

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of all parameters, and of the session's Embeddings."""
        super().zero_grad(set_to_none)
        for table in self._tables:
            table.zero_grad()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused after the construction: the model is on the ps tasks then."""
        if getattr(self, "_built", False):
            fail("parameters cannot be added to a model that is ready: make the optimizer with all of them")
        super().add_param_group(param_group)

    def _accumulated(self, i: int, tensor: torch.Tensor) -> None:
        if i in self._sent:
            fail(f"overlap: backward() has computed a second gradient of {self._tensors.names[i]!r} before step(): it was sent already")
        assert tensor.grad is not None
        if not self._sent:
            self._send_rate()
        self._tensors.push([i], [tensor.grad], not self._sync)
        self._sent[i] = tensor.grad._version

    def _send_rate(self) -> None:
        rate = self.param_groups[0]["lr"]
        if rate == self._rate:
            return
        self._rate = rate
        if self._chief:
            self.session.set_rates(float(rate))
            self._rates.sent = True
        elif not self._noted:
            self._noted = True
            _logger.info("psd.torch: the learning rate of this worker is not sent: the chief's holds for all")

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None, *, grad_scaler: Any = None) -> Any:
        """Send the gradients, end the step, and pull. Returns closure()."""
        if grad_scaler is not None and self._tables:
            fail("a GradScaler does not see the gradients of an Embedding: train in bfloat16 without a scaler")
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
        t.give_again()
        indices, gradients = [], []
        for i, tensor in enumerate(t.tensors):
            gradient = tensor.grad
            if i in self._sent:
                if gradient is None or gradient._version != self._sent[i]:
                    fail(f"overlap: the gradient of {t.names[i]!r} was changed after it was sent: clip and scale without overlap")
            elif gradient is not None and tensor.requires_grad:
                indices.append(i)
                gradients.append(gradient)
            elif self._sync and tensor.requires_grad:
                fail(f"sync: parameter {t.names[i]!r} got no gradient in this step; in rounds each must have one")
        t.push(indices, gradients, not self._sync)
        for table in self._tables:
            table.push()
        self._sent.clear()
        self.session.step_done()
        t.pull()
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
        for name, tensor in model.named_parameters():
            tensor.copy_(torch.from_numpy(session.find(name).read()))


class Buffers:
    """Buffers of a model (running means of batch norm), which no optimizer trains: attach() gives it.

    sync() makes them the same for all workers: of the chief ("chief") or their average ("averaged"; integers are the chief's). With "averaged" every
    worker must call it.
    """

    def __init__(self, model: torch.nn.Module, session: Session, policy: str) -> None:
        self.session, self.policy = session, policy
        self.buffers = dict(model.named_buffers()) if policy != "local" else {}
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

    Inner states stay local. A meeting has 10 times as long as the slowest one so far, with the inner steps before it, and at least 600 s.
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
                session.sync(workers=workers, replicas_to_aggregate=replicas, on_worker_loss=on_worker_loss)

        trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        self._tensors = _Tensors(session, trained, outer, before_ready, rows=False)
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
        """An inner step; after every `every` of them a meeting. Returns the inner optimizer's result."""
        loss = self.inner.step(closure)
        self.steps += 1
        if self.steps % self.every == 0:
            self.meet()
        return loss

    @torch.no_grad()
    def meet(self) -> None:
        """Send what this worker moved since the last meeting, wait for the others, and take the new values."""
        t = self._tensors
        moved = [t.view(p.value) - tensor.detach().to("cpu", torch.float32) for p, tensor in zip(t.params, t.tensors)]
        self._slowest = max(self._slowest, time.monotonic() - self._met)
        self.session.set_deadline(max(600.0, 10 * self._slowest))
        try:
            t.push(list(range(len(moved))), moved, not self.sync)
            self.session.step_done()
            t.pull()
        finally:
            if not self.session._closed:
                self.session.set_deadline(None)
        self._slowest = max(self._slowest, time.monotonic() - self._met)
        self._met = time.monotonic()
        self.meetings += 1
