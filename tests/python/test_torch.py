# SPDX-License-Identifier: Apache-2.0
"""psd.torch against torch.optim and against serial programs. Left out where PyTorch is not installed."""

import contextlib
import copy
import os
import signal
import subprocess
import sys
import textwrap
import threading
import unittest
import unittest.mock

import psd

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None

torch.set_num_threads(1)


def net(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


def batch(seed, rows=32):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 8, generator=g), torch.randint(4, (rows,), generator=g)


def backward(model, x, y):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    return loss


def together(*functions):
    """Run functions on threads of their own; raise the first error."""
    raised = []

    def run(f):
        try:
            f()
        except BaseException as e:
            raised.append(e)

    threads = [threading.Thread(target=run, args=(f,)) for f in functions]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if raised:
        raise raised[0]


class Device:
    """A device of which copies of gradients are made when somebody waits for their event, and the memory of values is busy until then."""

    def __init__(self, case):
        self.case, self.made = case, 0

    def pinned(self):
        device = self

        class Stream:
            def __init__(self):
                self.copies = []

            def wait_stream(self, other):
                self.waited = other

        class Event:
            def __init__(self, stream):
                self.stream, self.count = stream, len(stream.copies)

            def synchronize(self):
                for target, source in self.stream.copies[: self.count]:
                    target.copy_(source)
                    device.made += 1
                del self.stream.copies[: self.count]
                self.count = 0

        class Pinned(psd.torch._Pinned):
            def __init__(self):
                self.gradients, self.values, self.current = Stream(), Stream(), None
                self.down, self.up, self.uploaded = {}, {}, None

            def empty(self, shape):
                return torch.full(shape, float("nan"))

            def copy(self, target, source):
                if self.current is self.gradients:
                    device.case.assertIs(self.gradients.waited, self.values)
                    self.gradients.copies.append((target, source))
                    return
                device.case.assertFalse(any(source is s for _, s in self.values.copies), "the memory is still read")
                target.copy_(source)  # what the model does later comes after it
                self.values.copies.append((torch.empty_like(source), source))

            def keep(self, gradient):
                device.case.assertIs(gradient, self.gradients.copies[-1][1])

            def model_stream(self):
                return self.values

            @contextlib.contextmanager
            def on(self, stream):
                self.current = stream
                yield
                self.current = None

            def event(self, stream):
                return Event(stream)

        return Pinned()


class Torch(unittest.TestCase):
    def setUp(self):
        self.cluster = psd.local_cluster(ps=2, workers=2)
        self.addCleanup(self.cluster.stop)

    def assert_close(self, a, b, relative=1e-6):
        for x, y in zip(a.parameters(), b.parameters()):
            torch.testing.assert_close(x, y, rtol=relative, atol=relative)

    def test_equal_to_torch(self):
        for mine, theirs in (
            (psd.SGD(0.1), lambda p: torch.optim.SGD(p, 0.1)),
            (psd.Momentum(0.1, 0.9), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
            (psd.Nesterov(0.1, 0.9), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True)),
            (psd.Adagrad(0.1, 0.5), lambda p: torch.optim.Adagrad(p, 0.1, initial_accumulator_value=0.5, eps=0)),
        ):
            for overlap in (False, True):
                with (
                    self.subTest(mine=mine, overlap=overlap),
                    psd.Session(self.cluster.target, container=f"c{mine.struct.kind}{overlap}{mine.struct.nesterov}") as s,
                ):
                    model = net()
                    other = copy.deepcopy(model)
                    a = psd.torch.Optimizer(model.named_parameters(), s, mine, overlap=overlap)
                    b = theirs(other.parameters())
                    schedules = [torch.optim.lr_scheduler.StepLR(o, 5, 0.5) for o in (a, b)]
                    for step in range(15):
                        x, y = batch(step)
                        for m, o in ((model, a), (other, b)):
                            o.zero_grad()
                            backward(m, x, y)
                            if not overlap:
                                torch.nn.utils.clip_grad_norm_(m.parameters(), 0.5)
                            o.step()
                            self.assertEqual(s.global_step, step + 1)
                        self.assert_close(model, other)
                        for schedule in schedules:
                            schedule.step()

    def test_a_device_that_copies_later(self):
        """_Pinned on a device whose copies are made when an event is waited for. A push before that sends the gradient of the step before."""
        device = Device(self)
        before = psd.torch._Tensors.pull
        for overlap in (False, True):
            with self.subTest(overlap=overlap), psd.Session(self.cluster.target, container=f"pinned{overlap}") as s:
                model = net()
                other = copy.deepcopy(model)

                def pull(tensors):
                    tensors.pinned = tensors.pinned or {torch.device("cpu"): device.pinned()}
                    before(tensors)

                with unittest.mock.patch.object(psd.torch._Tensors, "pull", pull):
                    o = psd.torch.Optimizer(model.named_parameters(), s, psd.SGD(0.1), overlap=overlap)
                    p = torch.optim.SGD(other.parameters(), 0.1)
                    for step in range(5):
                        o.zero_grad()
                        backward(model, *batch(step))
                        o.step()
                        p.zero_grad()
                        backward(other, *batch(step))
                        p.step()
                        self.assert_close(model, other)
        self.assertGreater(device.made, 2 * 5 * 4)

    def test_bfloat16_on_the_wire(self):
        """Values and gradients travel with 8 bits of significand; the ps keeps float32, so small steps are not lost."""
        with psd.Session(self.cluster.target, wire_dtype="bfloat16") as s:
            model = net()
            other = copy.deepcopy(model)
            o = psd.torch.Optimizer(model.named_parameters(), s, psd.SGD(1e-4))
            p = torch.optim.SGD(other.parameters(), 1e-4)
            for step in range(20):
                for m, optimizer in ((model, o), (other, p)):
                    optimizer.zero_grad()
                    backward(m, *batch(step))
                    optimizer.step()
            self.assert_close(model, other, 2**-8)
            for narrow, wide in zip(model.parameters(), other.parameters()):
                torch.testing.assert_close(narrow.detach().bfloat16().float(), narrow.detach(), rtol=0, atol=0)  # it travelled so
                self.assertFalse(torch.equal(narrow, wide))
            kept = torch.from_numpy(s.find("0.bias").read())
            torch.testing.assert_close(kept, other[0].bias.detach(), rtol=2**-8, atol=2**-8)

    @unittest.skipUnless(torch.cuda.is_available(), "there is no CUDA device")
    def test_on_a_cuda_device(self):
        for overlap in (False, True):
            with self.subTest(overlap=overlap), psd.Session(self.cluster.target, container=f"cuda{overlap}") as s:
                model = net().cuda()
                other = copy.deepcopy(model)
                o = psd.torch.Optimizer(model.named_parameters(), s, psd.SGD(0.1), overlap=overlap)
                p = torch.optim.SGD(other.parameters(), 0.1)
                for step in range(5):
                    x, y = (t.cuda() for t in batch(step))
                    for m, optimizer in ((model, o), (other, p)):
                        optimizer.zero_grad()
                        backward(m, x, y)
                        optimizer.step()
                    self.assert_close(model, other, 1e-5)

    def test_accumulation_and_closure(self):
        with psd.Session(self.cluster.target) as s:
            model = net()
            other = copy.deepcopy(model)
            a, b = psd.torch.Optimizer(model, s, psd.SGD(0.1)), torch.optim.SGD(other.parameters(), 0.1)
            for m, o in ((model, a), (other, b)):
                for seed in (1, 2):
                    backward(m, *batch(seed))
                o.step()
                o.zero_grad()
                loss = o.step(lambda m=m: backward(m, *batch(3)))
                self.assertGreater(loss.item(), 0)
            self.assert_close(model, other)

    def test_rounds_of_two(self):
        models = [net(), net(5)]  # the second one takes the chief's values
        serial = net()
        optimizer = torch.optim.SGD(serial.parameters(), 0.1)
        for step in range(10):
            optimizer.zero_grad()
            for i in range(2):
                (torch.nn.functional.cross_entropy(serial(batch(2 * step + i)[0]), batch(2 * step + i)[1]) / 2).backward()
            optimizer.step()

        def work(i):
            with psd.Session(cluster=self.cluster.spec, job="worker", ready_timeout=30, timeout=20, task=i) as s:
                o = psd.torch.Optimizer(models[i].named_parameters(), s, psd.SGD(0.1), sync=True)
                for step in range(10):
                    o.zero_grad()
                    backward(models[i], *batch(2 * step + i))
                    o.step()

        together(lambda: work(0), lambda: work(1))
        for model in models:
            self.assert_close(model, serial, 1e-5)

    def test_what_is_refused(self):
        model = net()
        with psd.Session(self.cluster.target, container="a") as s:
            with self.assertRaisesRegex(psd.InvalidArgument, "named_parameters"):
                psd.torch.Optimizer(model.parameters(), s, psd.SGD(1))
            with self.assertRaisesRegex(psd.InvalidArgument, "psd.Adagrad"):
                psd.torch.Optimizer(model.named_parameters(), s, 0.1)
            o = psd.torch.Optimizer(model.named_parameters(), s, psd.SGD(0.1))
            with self.assertRaisesRegex(psd.InvalidArgument, "cannot be added"):
                o.add_param_group({"params": [torch.nn.Parameter(torch.zeros(1))]})
            backward(model, *batch(1))
            model[0].weight.data = torch.zeros(16, 9)
            model[0].weight.grad = torch.zeros(16, 9)
            with self.assertRaisesRegex(psd.InvalidArgument, r"'0.weight' is \[16, 9\], and must be \[16, 8\]"):
                o.step()
        with psd.Session(self.cluster.target, container="b") as s:
            o = psd.torch.Optimizer(net(), s, psd.SGD(0.1), overlap=True)
            m = o._tensors
            x, y = batch(1)
            holder = torch.nn.ParameterList(m.tensors)
            loss = ((x @ holder[0].T).relu() @ holder[2].T + holder[3]).sum()
            loss.backward(retain_graph=True)
            with self.assertRaisesRegex(psd.InvalidArgument, "second gradient"):
                loss.backward()
            with self.assertRaisesRegex(psd.InvalidArgument, "no closure"):
                o.step(lambda: 0)
            holder[0].grad.mul_(0.5)
            with self.assertRaisesRegex(psd.InvalidArgument, "changed after it was sent"):
                o.step()
        with psd.Session(cluster=self.cluster.spec, job="worker", ready_timeout=30, timeout=20, container="c") as s:
            model = net()
            s2 = psd.Session(cluster=self.cluster.spec, job="worker", task=1, ready_timeout=30, timeout=20, container="c")
            with s2:
                other = net()
                together(
                    lambda: setattr(self, "o", psd.torch.Optimizer(model, s, psd.SGD(1), sync=True)),
                    lambda: psd.torch.Optimizer(other, s2, psd.SGD(1), sync=True),
                )
                with self.assertRaisesRegex(psd.InvalidArgument, "'0.weight' got no gradient"):
                    self.o.step()
                backward(model, *batch(1))
                scaler = torch.amp.GradScaler("cpu")
                scaler.scale(torch.zeros(1))
                with self.assertRaisesRegex(psd.InvalidArgument, "GradScaler"):
                    self.o.step(grad_scaler=scaler)
        with psd.Session(self.cluster.target, container="d") as s, self.assertRaisesRegex(psd.InvalidArgument, "allow_stale_momentum"):
            psd.torch.DiLoCo(net(), torch.optim.SGD(net().parameters(), 0.1), s, sync=False)

    def test_rows_of_embeddings(self):
        """Sparse gradients, with rows that a batch has twice and one that accumulates over two batches, against torch.optim."""
        for mine, theirs in (
            (psd.SGD(0.1), lambda p: torch.optim.SGD(p, 0.1)),
            (psd.Adagrad(0.1, 0.5), lambda p: torch.optim.Adagrad(p, 0.1, initial_accumulator_value=0.5, eps=0)),
        ):
            for overlap in (False, True):
                with self.subTest(mine=mine, overlap=overlap), psd.Session(self.cluster.target, container=f"r{mine.struct.kind}{overlap}") as s:
                    torch.manual_seed(1)
                    model = torch.nn.Sequential(torch.nn.EmbeddingBag(50, 8, mode="sum", sparse=True), torch.nn.Linear(8, 4))
                    other = copy.deepcopy(model)
                    with s.variable_scope("scope"):
                        o = psd.torch.Optimizer(model.named_parameters(), s, mine)
                    p = theirs(other.parameters())
                    for step in range(4):
                        o.zero_grad()
                        p.zero_grad()
                        for half in range(1 if overlap else 2):
                            g = torch.Generator().manual_seed(10 * step + half)
                            x, y = torch.randint(50, (6, 3), generator=g), torch.randint(4, (6,), generator=g)
                            x[0, :] = 7
                            backward(model, x, y)
                            backward(other, x, y)
                        o.step()
                        p.step()
                        self.assert_close(model, other, 1e-5)

    def test_only_rows_of_the_gradient_move(self):
        with psd.Session(self.cluster.target, container="lazy") as s:
            table = torch.nn.Embedding(10, 3, sparse=True)
            o = psd.torch.Optimizer(table, s, psd.optimizer("lazy_adam", 0.1))
            for row in (1, 2):
                o.zero_grad()
                before = table.weight.detach().clone()
                table(torch.tensor([row, row])).sum().backward()
                o.step()
                moved = (table.weight.detach() != before).any(1)
                self.assertEqual(moved.nonzero().flatten().tolist(), [row])
            self.assertEqual(s.find("weight").read_versioned()[1], 2)
            table.weight.grad = torch.sparse_coo_tensor([[0], [0]], [1.0], (10, 3), check_invariants=True)
            with self.assertRaisesRegex(psd.InvalidArgument, "'weight'.* of whole rows"):
                o.step()
        with psd.Session(self.cluster.target, container="dense-form") as s:
            table = torch.nn.Embedding(10, 3, sparse=True)
            o = psd.torch.Optimizer(table, s, psd.Adam(0.1))
            for rows in ([1], [2]):  # a row that had a gradient once moves with each step, as with a dense gradient
                o.zero_grad()
                before = table.weight.detach().clone()
                table(torch.tensor(rows)).sum().backward()
                o.step()
            moved = (table.weight.detach() != before).any(1)
            self.assertEqual(moved.nonzero().flatten().tolist(), [1, 2])

    def test_a_monitored_session_recovers_when_rows_are_lost(self):
        with psd.MonitoredSession(self.cluster.target, container="lost", timeout=20) as s:
            table = torch.nn.Embedding(10, 3, sparse=True)
            o = psd.torch.Optimizer(table, s, psd.SGD(1))
            table(torch.tensor([1])).sum().backward()
            first = table.weight.detach().clone()
            o.step()
            with psd.Session(self.cluster.target, container="lost") as other:
                other.reset()
            with self.assertLogs("psd", "WARNING") as logged:
                with self.assertRaises(psd.Aborted):
                    o.step()
                self.assertFalse(s.should_stop())
            self.assertTrue(any("values that this worker has" in line for line in logged.output))
            o.step()
            self.assertEqual(s.last_recovery.count, 1)
            first[1] -= 2
            torch.testing.assert_close(table.weight.detach(), first)  # goes on with what it had, not with zeros

    def test_a_model_that_all_ps_lost_comes_from_the_chief(self):
        """With its global step, and before anybody trains: no step is made on zeros."""
        for kind, steps in (("alone", 6), ("rounds", 6), ("diloco", 2)):
            with (
                self.subTest(kind=kind),
                psd.local_cluster(ps=2, workers=1) as cluster,
                psd.MonitoredSession(cluster=cluster.spec, job="worker", timeout=20) as s,
            ):
                model, serial = net(), net()
                inner, plain = (torch.optim.SGD(m.parameters(), 0.1) for m in (model, serial))
                mine = (
                    psd.torch.DiLoCo(model, inner, s, every=2, outer=psd.SGD(1))
                    if kind == "diloco"
                    else psd.torch.Optimizer(model, s, psd.SGD(0.1), sync=kind == "rounds")
                )
                step = losses = 0
                while step < 6:
                    if step == 3 and losses == 0:
                        with psd.Session(cluster.target) as other:
                            other.reset()
                    mine.zero_grad()
                    backward(model, *batch(step))
                    try:
                        mine.step()
                    except psd.Aborted:
                        losses += 1
                        with self.assertLogs("psd", "WARNING") as logged:
                            self.assertFalse(s.should_stop())
                        self.assertTrue(any("values that this worker has" in line for line in logged.output))
                        if kind != "diloco":
                            continue  # the step was not made; an inner step was
                    plain.zero_grad()
                    backward(serial, *batch(step))
                    plain.step()
                    step += 1
                self.assertEqual((losses, s.last_recovery.count, s.global_step), (1, 1, steps))
                for a, b in zip(model.parameters(), serial.parameters()):
                    torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)

    def test_a_table_that_stays_on_the_ps(self):
        """psd.torch.Embedding against nn.Embedding: rows that a batch has twice, two batches a step, a padding row."""
        for mine, theirs in (
            (psd.SGD(0.1), lambda p: torch.optim.SGD(p, 0.1)),
            (psd.Adagrad(0.1, 0.5), lambda p: torch.optim.Adagrad(p, 0.1, initial_accumulator_value=0.5, eps=0)),
        ):
            with self.subTest(mine=mine), psd.Session(self.cluster.target, container=f"table{mine.struct.kind}") as s:
                torch.manual_seed(1)
                table = psd.torch.Embedding(s, "table", 50, 8, mine, padding_idx=-50)
                head = torch.nn.Linear(8, 4)
                o = psd.torch.Optimizer(head, s, mine)
                whole = torch.nn.Embedding.from_pretrained(torch.from_numpy(table.variable.read()), freeze=False, padding_idx=0)
                with torch.no_grad():
                    whole.weight[0] = 0
                other = torch.nn.Sequential(whole, copy.deepcopy(head))
                p = theirs(other.parameters())
                for step in range(4):
                    o.zero_grad()
                    p.zero_grad()
                    for half in range(2):
                        g = torch.Generator().manual_seed(10 * step + half)
                        x, y = torch.randint(50, (6,), generator=g), torch.randint(4, (6,), generator=g)
                        x[:3], x[3] = 7, 0
                        backward(torch.nn.Sequential(table, head), x, y)
                        backward(other, x, y)
                    o.step()
                    p.step()
                    torch.testing.assert_close(torch.from_numpy(table.variable.read())[1:], whole.weight[1:].detach(), rtol=1e-6, atol=1e-6)
                    self.assert_close(head, other[1], 1e-5)
                self.assertEqual(table.variable.read_versioned()[1], 4)
                table(torch.tensor([[1, 2]])).sum().backward()
                o.zero_grad()
                with torch.no_grad():
                    self.assertEqual(table(torch.tensor([[1, 2], [0, 2]])).shape, (2, 2, 8))
                    self.assertEqual(table(torch.tensor([], dtype=torch.int32)).shape, (0, 8))
                table.push()
                self.assertEqual(table.variable.read_versioned()[1], 4)
                self.assertEqual(list(table.parameters()), [])

    def test_what_a_table_refuses(self):
        with psd.Session(self.cluster.target, container="refused") as s:
            with self.assertRaisesRegex(psd.InvalidArgument, "padding_idx is 4, and the table has 4 rows"):
                psd.torch.Embedding(s, "table", 4, 2, psd.SGD(1), padding_idx=4)
            with self.assertRaisesRegex(psd.InvalidArgument, "psd.Adagrad"):
                psd.torch.Embedding(s, "table", 4, 2, 0.1)
            table = psd.torch.Embedding(s, "table", 4, 2, psd.SGD(1))
            with self.assertRaisesRegex(psd.InvalidArgument, "'table' has sync=False, and the Optimizer sync=True"):
                psd.torch.Optimizer([], s, psd.SGD(1), sync=True, rows_per_step=2)
            o = psd.torch.Optimizer([], s, psd.SGD(1))
            with self.assertRaisesRegex(IndexError, "4"):
                table(torch.tensor([1, 4]))
            with self.assertRaisesRegex(psd.InvalidArgument, "ids are torch.float32"):
                table(torch.ones(1))
            before = table.variable.read()
            table(torch.tensor([1, 1])).sum().backward()
            with self.assertRaisesRegex(psd.InvalidArgument, "GradScaler does not see"):
                o.step(grad_scaler=torch.amp.GradScaler("cpu"))
            o.step()
            self.assertEqual((before - table.variable.read()).round(6).tolist(), [[0, 0], [2, 2], [0, 0], [0, 0]])

    def test_rows_in_rounds(self):
        """Two workers whose sparse gradients, and rows of a table that stays on the ps, are averaged, against a serial program. In one step a
        worker has no rows."""
        steps = 6

        def model():
            torch.manual_seed(1)
            table = torch.nn.EmbeddingBag(50, 8, mode="sum", sparse=True)
            return torch.nn.ModuleDict({"table": table, "head": torch.nn.Linear(16, 4)})

        def rows_of(i, step):
            g = torch.Generator().manual_seed(10 * step + i)
            x, y = torch.randint(50, (6, 3), generator=g), torch.randint(4, (6,), generator=g)
            x[0, :] = 7
            return x, y

        def loss_of(m, table, i, step):
            x, y = rows_of(i, step)
            bag = m["table"](x)
            bag = bag.detach() if (i, step) == (1, 3) else bag
            return torch.nn.functional.cross_entropy(m["head"](torch.cat([bag, table(x % 40).sum(1)], 1)), y)

        for mine, theirs in (
            (psd.SGD(0.1), lambda p: torch.optim.SGD(p, 0.1)),
            (psd.Adagrad(0.1, 0.5), lambda p: torch.optim.Adagrad(p, 0.1, initial_accumulator_value=0.5, eps=0)),
        ):
            with self.subTest(mine=mine):
                serial, models, tables, container = model(), [model(), model()], {}, f"rounds{mine.struct.kind}"

                def work(i, mine=mine, models=models, tables=tables, container=container):
                    with psd.Session(
                        cluster=self.cluster.spec, job="worker", ready_timeout=30, timeout=20, task=i, container=container
                    ) as s:
                        other = psd.torch.Embedding(s, "other", 40, 8, mine, sync=True, partition=psd.partition(2))
                        m = models[i]
                        o = psd.torch.Optimizer(m, s, mine, sync=True, sparse=["table.weight"], rows_per_step=18, overlap=i == 1)
                        tables[i, 0] = other(torch.arange(40)).detach()
                        for step in range(steps):
                            o.zero_grad()
                            loss_of(m, other, i, step).backward()
                            o.step()
                        self.assertEqual(s.global_step, steps)
                        s.barrier("end", 2)
                        tables[i, 1] = other(torch.arange(40)).detach()

                together(lambda: work(0), lambda: work(1))
                whole = torch.nn.Embedding.from_pretrained(tables[0, 0], freeze=False, sparse=True)
                p = theirs([*serial.parameters(), whole.weight])
                for step in range(steps):
                    p.zero_grad()
                    for i in range(2):
                        (loss_of(serial, whole, i, step) / 2).backward()
                    p.step()
                for i in range(2):
                    self.assert_close(models[i], serial)
                    torch.testing.assert_close(tables[i, 1], whole.weight.detach(), rtol=1e-6, atol=1e-6)

    def test_rows_in_rounds_survive_a_loss(self):
        """All ps tasks come back empty: the chief gives them its table too, and the next steps are those of a serial program."""

        def backward_rows(m, step):
            m["head"](m["table"](torch.tensor([step, 1, 1]))).sum().backward()

        with psd.local_cluster(ps=2, workers=1) as cluster, psd.MonitoredSession(cluster=cluster.spec, job="worker", timeout=20) as s:
            model = torch.nn.ModuleDict({"table": torch.nn.Embedding(10, 3, sparse=True), "head": torch.nn.Linear(3, 1)})
            serial = copy.deepcopy(model)
            plain = torch.optim.SGD(serial.parameters(), 0.1)
            o = psd.torch.Optimizer(model, s, psd.SGD(0.1), sync=True, sparse=["table.weight"], rows_per_step=2)
            step = losses = 0
            while step < 6:
                if step == 3 and losses == 0:
                    with psd.Session(cluster.target) as other:
                        other.reset()
                o.zero_grad()
                backward_rows(model, step)
                try:
                    o.step()
                except psd.Aborted:
                    losses += 1
                    with self.assertLogs("psd", "WARNING"):
                        self.assertFalse(s.should_stop())
                    continue
                plain.zero_grad()
                backward_rows(serial, step)
                plain.step()
                step += 1
            self.assertEqual((losses, s.last_recovery.count, s.global_step), (1, 1, 6))
            self.assert_close(model, serial)

    def test_what_rows_in_rounds_refuse(self):
        def optimizer(s, more, *named):
            return psd.torch.Optimizer(list(named), s, psd.SGD(1), **{"sync": True, **more})

        def table():
            t = torch.nn.Embedding(10, 3, sparse=True)
            t(torch.tensor([1, 1, 2])).sum().backward()
            return "t", t.weight

        for more, said in (
            ({"sparse": ["u"], "rows_per_step": 1}, "'u', which is none"),
            ({"sparse": "t"}, "rows_per_step is 0, and 't' needs it"),
            ({"rows_per_step": 5}, "rows_per_step is for"),
            ({"sparse": "t", "rows_per_step": 1, "sync": False}, "sparse is for sync=True"),
        ):
            with psd.Session(self.cluster.target, container="r1") as s, self.assertRaisesRegex(psd.InvalidArgument, said):
                optimizer(s, more, table())
        options = {"cluster": self.cluster.spec, "job": "worker", "ready_timeout": 30, "timeout": 20}
        with psd.Session(**options, container="r2") as s:
            o = optimizer(s, {}, table())
            with self.assertRaisesRegex(psd.InvalidArgument, r"sync: the gradient of 't' is sparse.*sparse=\['t'\] and rows_per_step"):
                o.step()
        with psd.Session(**options, container="r3") as s:
            t = table()
            o = optimizer(s, {"sparse": "t", "rows_per_step": 2}, t)
            t[1].grad = t[1].grad.to_dense()
            with self.assertRaisesRegex(psd.InvalidArgument, "the gradient of 't' is dense, and `sparse` names it"):
                o.step()
        with self.assertRaisesRegex(psd.ResourceExhausted, "memory for 1"), psd.Session(**options, container="r4") as s:
            optimizer(s, {"sparse": "t", "rows_per_step": 1}, table()).step()

    def test_a_rate_of_zero(self):
        """Warm-up begins with it, and CosineAnnealingLR ends with it: values stay, slots move, as in torch.optim."""
        with psd.Session(self.cluster.target, container="zero") as s:
            model = net()
            other = copy.deepcopy(model)
            a, b = psd.torch.Optimizer(model, s, psd.Momentum(0.1, 0.9)), torch.optim.SGD(other.parameters(), 0.1, momentum=0.9)
            schedules = [torch.optim.lr_scheduler.LambdaLR(o, lambda step: step % 2) for o in (a, b)]
            for step in range(4):
                before = model[0].weight.detach().clone()
                for m, o, schedule in zip((model, other), (a, b), schedules):
                    o.zero_grad()
                    backward(m, *batch(step))
                    o.step()
                    schedule.step()
                self.assertEqual(torch.equal(before, model[0].weight.detach()), step % 2 == 0)
                self.assert_close(model, other)
            a.param_groups[0]["lr"] = -1.0
            with self.assertRaisesRegex(psd.InvalidArgument, "-1"):
                a.step()

    def test_one_optimizer_a_session(self):
        with psd.Session(self.cluster.target, container="one") as s:
            psd.torch.Optimizer(net(), s, psd.SGD(1))
            with self.assertRaisesRegex(psd.InvalidArgument, "the session has an Optimizer"):
                psd.torch.Optimizer({"other": torch.nn.Parameter(torch.ones(1))}, s, psd.SGD(1))

    def test_a_grad_scaler_works_without_rounds(self):
        with psd.Session(self.cluster.target) as s:
            model = net()
            o = psd.torch.Optimizer(model, s, psd.SGD(0.1))
            scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
            before = model[0].weight.detach().clone()
            scaler.scale(torch.nn.functional.cross_entropy(model(batch(1)[0]), batch(1)[1])).backward()
            model[0].weight.grad[0, 0] = float("inf")
            scaler.step(o)
            scaler.update()
            torch.testing.assert_close(model[0].weight.detach(), before)
            o.zero_grad()
            scaler.scale(torch.nn.functional.cross_entropy(model(batch(1)[0]), batch(1)[1])).backward()
            scaler.step(o)
            self.assertEqual(s.global_step, 1)
            self.assertFalse(torch.equal(model[0].weight.detach(), before))

    def test_tied_frozen_half_and_missing(self):
        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a = torch.nn.Linear(4, 4, bias=False)
                self.b = torch.nn.Linear(4, 4, bias=False)
                self.b.weight = self.a.weight
                self.frozen = torch.nn.Parameter(torch.ones(3), requires_grad=False)
                self.unused = torch.nn.Parameter(torch.ones(2))
                self.narrow = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))

        with psd.Session(self.cluster.target) as s:
            model = Tied()
            o = psd.torch.Optimizer(model.named_parameters(remove_duplicate=False), s, psd.SGD(0.5))
            self.assertEqual(sorted(o._tensors.names), ["a.weight", "frozen", "narrow", "unused"])
            (model.b(model.a(torch.ones(1, 4))) * model.narrow).sum().backward()
            o.step()
            torch.testing.assert_close(model.unused.detach(), torch.ones(2))
            self.assertEqual(model.narrow.dtype, torch.bfloat16)
            self.assertFalse(torch.equal(model.narrow.detach(), torch.ones(4, dtype=torch.bfloat16)))

    def test_continue_and_evaluate(self):
        with psd.Session(self.cluster.target) as s:
            trained = net()
            o = psd.torch.Optimizer(trained, s, psd.SGD(0.1))
            backward(trained, *batch(1))
            o.step()
        with psd.Session(self.cluster.target) as s:
            again = net(7)
            psd.torch.Optimizer(again, s, psd.SGD(0.1))
            self.assert_close(trained, again)
        with psd.Session(self.cluster.target) as s:
            other = net(8)
            psd.torch.load(other, s)
            self.assert_close(trained, other)

    def test_buffers(self):
        for policy in ("chief", "averaged", "local"):
            norms = [torch.nn.BatchNorm1d(3) for _ in range(2)]
            norms[1].running_mean.fill_(5)

            def work(i, norms=norms, policy=policy):
                with psd.Session(cluster=self.cluster.spec, job="worker", ready_timeout=30, timeout=20, task=i, container=policy) as s:
                    psd.torch.Optimizer(norms[i], s, psd.SGD(0.1))
                    with s.container(policy):
                        buffers = psd.torch.attach(norms[i], s, policy)
                    self.assertEqual(norms[i].running_mean[0].item(), 0 if policy != "local" else 5 * i)
                    norms[i].running_mean.fill_(i + 1)
                    buffers.sync()
                    s.barrier("end", 2)
                    buffers._read()

            together(lambda: work(0), lambda: work(1))
            want = {"chief": [1, 1], "averaged": [1.5, 1.5], "local": [1, 2]}[policy]
            self.assertEqual([n.running_mean[0].item() for n in norms], want)
            with psd.Session(self.cluster.target) as s:
                s.reset(["torch-buffers"])


class DiLoCo(unittest.TestCase):
    def test_equal_to_a_serial_program(self):
        every, meetings, workers = 5, 20, 2
        serial = net()
        outer = torch.optim.SGD(serial.parameters(), 0.7, momentum=0.9, nesterov=True)
        replicas = [copy.deepcopy(serial) for _ in range(workers)]
        inners = [torch.optim.AdamW(r.parameters(), 1e-2) for r in replicas]
        for meeting in range(meetings):
            for i, (replica, inner) in enumerate(zip(replicas, inners)):
                with torch.no_grad():
                    for p, q in zip(replica.parameters(), serial.parameters()):
                        p.copy_(q)
                for step in range(every):
                    inner.zero_grad()
                    backward(replica, *batch(1000 * i + meeting * every + step))
                    inner.step()
            with torch.no_grad():
                for k, p in enumerate(serial.parameters()):
                    p.grad = sum(p - list(r.parameters())[k] for r in replicas) / workers
            outer.step()
        results = [net(i) for i in range(workers)]

        def work(i, cluster):
            with psd.Session(cluster=cluster.spec, job="worker", ready_timeout=30, timeout=20, task=i) as s:
                inner = torch.optim.AdamW(results[i].parameters(), 1e-2)
                diloco = psd.torch.DiLoCo(results[i], inner, s, every=every)
                for step in range(every * meetings):
                    diloco.zero_grad()
                    backward(results[i], *batch(1000 * i + step))
                    diloco.step()
                self.assertEqual(diloco.meetings, meetings)
                self.assertLess(diloco.bytes_per_step * 4, diloco.bytes_per_step_data_parallel)

        with psd.local_cluster(ps=2, workers=workers) as cluster:
            together(*(lambda i=i: work(i, cluster) for i in range(workers)))
        for model in results:
            for a, b in zip(model.parameters(), serial.parameters()):
                torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)

    def test_a_worker_is_killed_and_another_comes(self):
        code = """
            import sys, torch, psd, psd.torch
            torch.set_num_threads(1); torch.manual_seed(0)
            task, meetings = int(sys.argv[2]), int(sys.argv[3])
            teacher = torch.nn.Linear(8, 1)
            model = torch.nn.Linear(8, 1)
            with psd.Session(cluster=sys.argv[1], job="worker", task=task) as s:
                d = psd.torch.DiLoCo(model, torch.optim.SGD(model.parameters(), 0.05), s, every=5, workers=2)
                print("ready", flush=True)
                g = torch.Generator().manual_seed(task)
                while d.meetings < meetings:
                    x = torch.randn(64, 8, generator=g)
                    d.zero_grad()
                    loss = (model(x) - teacher(x).detach()).square().mean()
                    loss.backward()
                    d.step()
                print("loss", loss.item(), flush=True)
        """

        def start(task, meetings):
            words = [sys.executable, "-c", textwrap.dedent(code), spec, str(task), str(meetings)]
            return subprocess.Popen(words, stdout=subprocess.PIPE, encoding="utf-8")

        with psd.local_cluster(ps=2, workers=3, lease_ms=2000, beat_ms=500) as cluster:
            spec = str(cluster.spec)
            victim, survivor = start(0, 10**9), start(1, 60)
            self.assertEqual(victim.stdout.readline(), "ready\n")
            self.assertEqual(survivor.stdout.readline(), "ready\n")
            late = start(2, 10)
            self.assertEqual(late.stdout.readline(), "ready\n")
            os.kill(victim.pid, signal.SIGKILL)
            victim.communicate()
            for process in (survivor, late):
                text, _ = process.communicate(timeout=600)
                self.assertEqual(process.returncode, 0)
                self.assertLess(float(text.split()[-1]), 0.05)


if __name__ == "__main__":
    unittest.main()
