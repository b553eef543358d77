# SPDX-License-Identifier: Apache-2.0
"""psd.torch: steps that are interrupted, gradients that change, models that are compiled. Left out where PyTorch is not installed."""

import copy
import gc
import itertools
import os
import pickle
import signal
import threading
import time
import unittest
import unittest.mock
import weakref

import numpy as np

import psd

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None

from test_torch import backward, batch, net, together


class Steps(unittest.TestCase):
    def setUp(self):
        self.cluster = psd.local_cluster(ps=2, workers=1)
        self.addCleanup(self.cluster.stop)

    def session(self, *container):
        name = "".join(c for c in str(container) if c.isalnum())
        return psd.Session(cluster=self.cluster.spec, job="worker", ready_timeout=30, timeout=20, container=name)

    def assert_close(self, a, b):
        for x, y in zip(a.parameters(), b.parameters()):
            torch.testing.assert_close(x, y, rtol=1e-6, atol=1e-6)

    def test_large_and_small_gradients(self):
        """Large gradients are copied while others travel: each step has all of its own."""
        send, seen = psd.torch._Tensors._send, []

        def sends(tensors, function, handle, i, gradient):
            if not tensors.session._lent:
                seen.append(i)
                self.assertTrue(torch.equal(torch.from_numpy(tensors.params[i].grad), gradient), "it is sent before it is copied")
            send(tensors, function, handle, i, gradient)

        patch = unittest.mock.patch.object(psd.torch._Tensors, "_send", sends)
        patch.start()
        self.addCleanup(patch.stop)
        for overlap in (False, True):
            with self.subTest(overlap=overlap), self.session(f"large{overlap}") as s:
                torch.manual_seed(1)
                model = torch.nn.Sequential(torch.nn.Linear(8, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 16), torch.nn.Linear(16, 4))
                other = copy.deepcopy(model)
                self.assertGreater(model[2].weight.numel(), psd.torch._SMALL)
                o, p = psd.torch.Optimizer(model, s, psd.SGD(0.1), overlap=overlap), torch.optim.SGD(other.parameters(), 0.1)
                for step in range(5):
                    for m, optimizer in ((model, o), (other, p)):
                        optimizer.zero_grad()
                        backward(m, *batch(step))
                        optimizer.step()
                    self.assert_close(model, other)
        self.assertEqual(len(seen), 5 * 6)

    def interrupted(self, session, name, behind):
        """The next call of a method is interrupted, before it does anything or when it has ended."""
        made = getattr(session, name)

        def call():
            if behind:
                made()
            raise KeyboardInterrupt

        return unittest.mock.patch.object(session, name, call)

    def test_a_step_that_was_interrupted_goes_on(self):
        """Its gradients are applied once, and it counts once, whether step() is called again or the batch is computed again."""
        for kind in ("plain", "overlap", "rounds", "rounds and overlap"):
            for place in (("step_done", False), ("step_done", True), ("pull", False), ("pull", True)):
                for computed in (False, True):
                    with self.subTest(kind=kind, place=place, computed=computed), self.session(f"{kind}{place}{computed}") as s:
                        model = net()
                        other = copy.deepcopy(model)
                        o = psd.torch.Optimizer(model, s, psd.SGD(0.1), sync="rounds" in kind, overlap="overlap" in kind)
                        p = torch.optim.SGD(other.parameters(), 0.1)
                        for step in range(3):
                            o.zero_grad()
                            backward(model, *batch(step))
                            if step == 1:
                                with self.interrupted(s, *place), self.assertRaises(KeyboardInterrupt):
                                    o.step()
                                if computed:
                                    o.zero_grad()
                                    backward(model, *batch(step))
                            o.step()
                            p.zero_grad()
                            backward(other, *batch(step))
                            p.step()
                            if computed and step == 1 and ("rounds" not in kind or place != ("step_done", False)):
                                break  # the second gradient is another one, and is pushed too
                            self.assert_close(model, other)
                            self.assertEqual(s.global_step, step + 1)
                        backward(model, *batch(9))
                        o.step()

    def test_a_step_of_a_table_that_was_interrupted_goes_on(self):
        """As above, with rows of psd.torch.Embedding: beside a layer, and alone."""
        x, y = torch.tensor([3, 1, 3]), torch.tensor([0, 1, 2])
        for sync, alone, computed in itertools.product((False, True), repeat=3):
            for place in (("step_done", False), ("step_done", True), ("pull", False), ("pull", True)):
                with self.subTest(sync=sync, alone=alone, computed=computed, place=place), self.session("rows", sync, alone, computed, place) as s:
                    torch.manual_seed(1)
                    table, head = psd.torch.Embedding(s, "table", 10, 4, psd.SGD(0.1), sync=sync), torch.nn.Linear(4, 4)
                    model = torch.nn.Sequential(table, *([] if alone else [head]))
                    o = psd.torch.Optimizer(model, s, psd.SGD(0.1), sync=sync, rows_per_step=4 if sync else 0)
                    whole = torch.nn.Embedding.from_pretrained(table(torch.arange(10)).detach().clone(), freeze=False)
                    other = torch.nn.Sequential(whole, *copy.deepcopy(model[1:]))
                    p = torch.optim.SGD(other.parameters(), 0.1)
                    for step in range(3):
                        o.zero_grad()
                        backward(model, x + step, y)
                        if step == 1:
                            with self.interrupted(s, *place), self.assertRaises(KeyboardInterrupt):
                                o.step()
                            if computed:
                                o.zero_grad()
                                backward(model, x + step, y)
                        o.step()
                        p.zero_grad()
                        backward(other, x + step, y)
                        p.step()
                        if computed and step == 1 and (not sync or place != ("step_done", False)):
                            break  # the second gradient is another one, and is pushed too
                        self.assert_close(model, other[1:])
                        torch.testing.assert_close(table(torch.arange(10)).detach(), whole.weight.detach(), rtol=1e-6, atol=1e-6)
                        self.assertEqual(s.global_step, step + 1)
                    o.zero_grad()
                    backward(model, x, y)
                    o.step()
                    self.assertIsNone(s.error)

    def test_a_step_without_rows_that_was_interrupted(self):
        """The round has no rows of it, so rows of a batch that is computed again are left out, as its other gradients."""

        def loss_of(m, mine, at):
            return m["head"](torch.ones(4) + sum(m["table"](at[i]) + mine(at[i]) for i in range(len(at)))).sum()

        def session(i, cluster):
            return psd.Session(cluster=cluster.spec, job="worker", task=i, ready_timeout=30, timeout=20)

        with psd.local_cluster(ps=1, workers=2) as cluster, session(0, cluster) as chief, session(1, cluster) as s:
            made = {}

            def make(i, s):
                torch.manual_seed(1)
                m = torch.nn.ModuleDict({"table": torch.nn.Embedding(10, 4, sparse=True), "head": torch.nn.Linear(4, 4)})
                mine = psd.torch.Embedding(s, "mine", 10, 4, psd.SGD(0.1), sync=True)
                made[i] = m, mine, psd.torch.Optimizer(m, s, psd.SGD(0.1), sync=True, sparse=["table.weight"], rows_per_step=4)

            def step(i, *at):
                m, mine, o = made[i]
                o.zero_grad()
                loss_of(m, mine, torch.tensor(at, dtype=torch.int64)).backward()
                o.step()

            def values():
                return torch.cat([made[1][0]["table"].weight.detach().clone(), made[1][1](torch.arange(10)).detach()])

            together(lambda: make(0, chief), lambda: make(1, s))
            before = values()

            def interrupt():
                for _ in range(1000):
                    if psd.admin.waits(chief, 0):  # it waits for the chief's
                        break
                    time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGINT)

            thread = threading.Thread(target=interrupt)
            thread.start()
            with self.assertRaises(KeyboardInterrupt):
                step(1)
            thread.join()
            for count, at in ((1, ()), (2, (1, 2))):
                together(lambda at=at: step(0, *at), lambda: step(1, 1, 2))
                self.assertEqual((s.error, s.global_step), (None, count))
                changed = (values() != before).any(1).nonzero().flatten().tolist()
                self.assertEqual(changed, [] if count == 1 else [1, 2, 11, 12])

    def test_ctrl_c_between_two_pushes(self):
        """What was sent is not sent again."""
        for sync in (False, True):
            with self.subTest(sync=sync), self.session(f"between{sync}") as s:
                model = net()
                other = copy.deepcopy(model)
                o, p = psd.torch.Optimizer(model, s, psd.SGD(0.1), sync=sync), torch.optim.SGD(other.parameters(), 0.1)
                for m in (model, other):
                    backward(m, *batch(1))
                send, calls = psd.torch._Tensors._send, []

                def interrupted(*args, send=send, calls=calls):
                    calls.append(args)
                    if len(calls) == 3:
                        raise KeyboardInterrupt
                    send(*args)

                with unittest.mock.patch.object(psd.torch._Tensors, "_send", interrupted), self.assertRaises(KeyboardInterrupt):
                    o.step()
                self.assertTrue(s._lent)
                for t in s._lent:  # pushes may read them, so the program has copies
                    self.assertNotIn(t.data_ptr(), [q.grad.data_ptr() for q in model.parameters()])
                o.step()
                p.step()
                self.assert_close(model, other)
                self.assertEqual((s.global_step, s._lent), (1, []))

    def test_ctrl_c_before_rows_are_sent(self):
        """In rounds a gradient of rows is sent when they were read: a read that is interrupted is made again."""
        for mine in (False, True):
            with self.subTest(mine=mine), self.session("rows", mine) as s:
                torch.manual_seed(1)
                head, x, y = torch.nn.Linear(4, 4), torch.tensor([3, 1, 3]), torch.tensor([0, 1, 2])
                table = psd.torch.Embedding(s, "table", 10, 4, psd.SGD(0.1), sync=True) if mine else torch.nn.Embedding(10, 4, sparse=True)
                model = torch.nn.Sequential(table, head)
                sparse = [] if mine else ["0.weight"]
                o = psd.torch.Optimizer(model, s, psd.SGD(0.1), sync=True, sparse=sparse, rows_per_step=4)
                whole = torch.nn.Embedding.from_pretrained(table(torch.arange(10)).detach().clone(), freeze=False)
                other = torch.nn.Sequential(whole, copy.deepcopy(head))
                p = torch.optim.SGD(other.parameters(), 0.1)
                for m in (model, other):
                    backward(m, x, y)
                with unittest.mock.patch.object(psd.Embedding, "pull", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
                    o.step()
                o.step()
                p.step()
                self.assert_close(head, other[1])
                torch.testing.assert_close(table(torch.arange(10)).detach(), whole.weight.detach(), rtol=1e-6, atol=1e-6)
                self.assertEqual(s.global_step, 1)

    def test_a_closed_session(self):
        s = self.session("closed")
        model = net()
        o = psd.torch.Optimizer(model, s, psd.SGD(0.1))
        backward(model, *batch(1))
        s.close()
        with self.assertRaisesRegex(psd.FailedPrecondition, "the session is closed"):
            o.step()

    def test_memory_that_is_not_lent(self):
        """Its error is raised before anything is sent: the gradient buffer has no gradient."""
        with self.session("lend") as s:
            model = net()
            o = psd.torch.Optimizer(model, s, psd.SGD(0.1))
            backward(model, *batch(1))
            s.fail("enough", psd.Status.UNKNOWN)
            with unittest.mock.patch.object(psd.torch._Tensors, "_send") as send, self.assertRaisesRegex(psd.Error, "enough"):
                o.step()
            send.assert_not_called()

    def test_gradients_of_any_layout(self):
        """What cannot be lent as it is, is copied: other dtypes, strides, subclasses."""

        class Mine(torch.Tensor):
            pass

        with self.session("layouts") as s:
            given = torch.arange(12.0).view(3, 4)
            gradients = {
                "plain": given.clone(),
                "transposed": given.T.contiguous().T,
                "double": given.double(),
                "half": given.half(),
                "expanded": torch.ones(1, 1).expand(3, 4),
                "strided": torch.stack([given, given], 2)[:, :, 0],
                "subclass": given.clone().as_subclass(Mine),
            }
            tensors = {name: torch.nn.Parameter(torch.zeros(3, 4, dtype=g.dtype)) for name, g in gradients.items()}
            o = psd.torch.Optimizer(tensors, s, psd.SGD(1))
            for step in range(2):
                for name, g in gradients.items():
                    tensors[name].grad = g
                o.step()
                for name, g in gradients.items():
                    torch.testing.assert_close(tensors[name].detach(), -(step + 1) * torch.Tensor(g.float()), rtol=0, atol=0, check_dtype=False)

    def test_an_optimizer_is_made_again(self):
        """Ctrl-C in what the first one does with the cluster: the second one has the same parameters."""

        def diloco(model, s):
            return psd.torch.DiLoCo(model, torch.optim.SGD(model.parameters(), 0.1), s, every=1, outer=psd.SGD(1))

        for kind in ("plain", "rounds", "diloco"):
            for place in (("ready", False), ("ready", True), ("pull", False), ("pull", True)):
                with self.subTest(kind=kind, place=place), self.session("again", kind, place) as s:
                    make = diloco if kind == "diloco" else lambda m, s, sync=kind == "rounds": psd.torch.Optimizer(m, s, psd.SGD(0.1), sync=sync)
                    model = net()
                    other = copy.deepcopy(model)
                    with self.interrupted(s, *place), self.assertRaises(KeyboardInterrupt):
                        make(model, s)
                    o, p = make(model, s), torch.optim.SGD(other.parameters(), 0.1)
                    for m, optimizer in ((model, o), (other, p)):
                        backward(m, *batch(1))
                        optimizer.step()
                    self.assert_close(model, other)
                    self.assertEqual(s.global_step, 1)
                    with self.assertRaisesRegex(psd.InvalidArgument, "the session has an Optimizer"):
                        make(net(), s)

    def test_an_optimizer_is_made_again_after_a_signal(self):
        """A signal while a worker waits for the chief: the library has begun to make the session ready."""
        for sync in (False, True):
            with self.subTest(sync=sync), psd.local_cluster(ps=1, workers=2) as cluster:
                models = [net(1), net(2)]

                def session(i, spec=cluster.spec):
                    return psd.Session(cluster=spec, job="worker", task=i, ready_timeout=30, timeout=20)

                def train(i, s, sync=sync, models=models):
                    o = psd.torch.Optimizer(models[i], s, psd.SGD(0.1), sync=sync)
                    backward(models[i], *batch(1))
                    o.step()
                    return o

                with session(0) as chief, session(1) as s:
                    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
                    timer.start()
                    with self.assertRaises(KeyboardInterrupt):
                        psd.torch.Optimizer(models[1], s, psd.SGD(0.1), sync=sync)
                    timer.join()
                    together(lambda: train(0, chief), lambda: train(1, s))
                    self.assertIsNone(s.error)
                    if sync:
                        self.assert_close(*models)
                        self.assertEqual((chief.global_step, s.global_step), (1, 1))

    def test_rates_of_an_optimizer_that_is_made_again(self):
        """The session's hook is of the first Optimizer. It clears the rates that the second one has sent."""
        model = net()
        with self.session("cleared") as s:
            with self.interrupted(s, "ready", True), self.assertRaises(KeyboardInterrupt):
                psd.torch.Optimizer(model, s, psd.SGD(0.1))
            o = psd.torch.Optimizer(model, s, psd.SGD(0.1))
            o.param_groups[0]["lr"] = 0.5
            backward(model, *batch(1))
            o.step()
        with self.session("cleared") as s:
            variable = s.find("0.bias")
            before = variable.read()
            variable.push(np.ones(before.shape, np.float32))
            np.testing.assert_allclose(before - variable.read(), 0.1, rtol=1e-5)

    def test_a_meeting_that_was_interrupted_goes_on(self):
        for place in (("step_done", False), ("step_done", True), ("pull", False), ("pull", True)):
            with self.subTest(place=place), self.session(f"diloco{place}") as s:
                model, serial = net(), net()
                inner, plain = (torch.optim.SGD(m.parameters(), 0.1) for m in (model, serial))
                diloco = psd.torch.DiLoCo(model, inner, s, every=2, outer=psd.SGD(1))
                for step in range(6):
                    for m, optimizer in ((model, inner), (serial, plain)):
                        optimizer.zero_grad()
                        backward(m, *batch(step))
                    if step == 3:
                        with self.interrupted(s, *place), self.assertRaises(KeyboardInterrupt):
                            diloco.step()
                    else:
                        diloco.step()
                    plain.step()
                self.assert_close(model, serial)
                self.assertEqual((diloco.meetings, s.global_step), (3, 3))

    def test_overlap_refuses_another_gradient(self):
        """One that has replaced the gradient, as one that was changed in place."""
        with self.session("replaced") as s:
            model = net()
            o = psd.torch.Optimizer(model, s, psd.SGD(0.1), overlap=True)
            backward(model, *batch(1))
            model[0].weight.grad = model[0].weight.grad * 0.5
            with self.assertRaisesRegex(psd.InvalidArgument, "'0.weight' was changed after it was sent"):
                o.step()
        with self.session("scaled") as s:
            model = net()
            o = psd.torch.Optimizer(model, s, psd.SGD(0.1), overlap=True)
            scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
            scaler.scale(torch.nn.functional.cross_entropy(model(batch(1)[0]), batch(1)[1])).backward()
            with self.assertRaisesRegex(psd.InvalidArgument, "overlap: .*GradScaler"):
                scaler.step(o)

    def test_overlap_says_that_a_batch_was_left_out(self):
        """A backward() without step(), as after Ctrl-C, is told once; then training goes on."""
        for sync in (False, True):
            with self.subTest(sync=sync), self.session(f"left{sync}") as s:
                model = net()
                other = copy.deepcopy(model)
                o, p = psd.torch.Optimizer(model, s, psd.SGD(0.1), overlap=True, sync=sync), torch.optim.SGD(other.parameters(), 0.1)
                backward(model, *batch(1))
                with self.assertRaisesRegex(psd.FailedPrecondition, "zero_grad.. before step.*" + ("round has" if sync else "are applied")):
                    o.zero_grad()
                o.zero_grad()
                backward(model, *batch(1))
                o.step()
                backward(other, *batch(1))
                p.step()
                if not sync:
                    p.step()
                self.assert_close(model, other)
                self.assertEqual(s.global_step, 1)
                o.zero_grad()
                backward(model, *batch(2))
                o.step()
                self.assertEqual(s.global_step, 2)

    def test_sessions_are_collected(self):
        """With an Optimizer and an Embedding, and when an Optimizer was not made."""

        def one(interrupts):
            s = self.session("collected", interrupts)
            table, head = psd.torch.Embedding(s, "table", 4, 2, psd.SGD(1)), torch.nn.Linear(2, 4)
            if interrupts:
                with self.interrupted(s, "ready", False), self.assertRaises(KeyboardInterrupt):
                    psd.torch.Optimizer(head, s, psd.SGD(1))
            else:
                o = psd.torch.Optimizer(head, s, psd.SGD(1))
                backward(torch.nn.Sequential(table, head), torch.tensor([1, 2]), torch.tensor([1, 2]))
                o.step()
            return weakref.ref(s)

        for interrupts in (False, True):
            gone = one(interrupts)
            gc.collect()
            self.assertIsNone(gone())

    def test_an_optimizer_is_not_copied(self):
        """torch's own __getstate__ would leave the session out."""
        with self.session("copies") as s:
            o = psd.torch.Optimizer(net(), s, psd.SGD(0.1))
            for copied in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, "state_dict"):
                    copied(o)
            self.assertEqual(o.state_dict()["param_groups"][0]["lr"], 0.1)

    def test_a_compiled_model_has_the_same_names(self):
        with self.session("compiled") as s:
            model = net()
            compiled = torch.compile(model, backend="eager")
            o = psd.torch.Optimizer(compiled.named_parameters(), s, psd.SGD(0.1))
            self.assertEqual(o._tensors.names, [name for name, _ in model.named_parameters()])
            backward(compiled, *batch(1))
            o.step()
            for other in (net(3), torch.compile(net(4), backend="eager")):
                psd.torch.load(other, s)
                self.assert_close(model, other)

    def test_values_that_the_program_changes(self):
        """load_state_dict() and the like: the ps tasks have the values, and the program is told."""
        with self.session("changed") as s:
            model = net()
            o = psd.torch.Optimizer(model, s, psd.SGD(0.1))
            backward(model, *batch(1))
            with self.assertNoLogs("psd", "WARNING"):
                o.step()
            model.load_state_dict(net(5).state_dict())
            with self.assertLogs("psd", "WARNING") as logged:
                o.step()
                self.assertIn("changed values of '0.weight'", logged.output[0])
            model.load_state_dict(net(6).state_dict())
            with self.assertNoLogs("psd", "WARNING"):
                o.step()


if __name__ == "__main__":
    unittest.main()
