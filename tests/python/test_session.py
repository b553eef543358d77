# SPDX-License-Identifier: Apache-2.0
"""Sessions, parameters, variables, rounds, hooks, errors, against servers within the process and processes that are killed."""

import gc
import json
import logging
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
import weakref

import numpy as np

import psd
from psd import _waits
from psd._library import lib


class Sessions(unittest.TestCase):
    def setUp(self):
        self.cluster = psd.local_cluster(ps=2)
        self.addCleanup(self.cluster.stop)
        self.session = psd.Session(self.cluster.target, timeout=20)
        self.addCleanup(self.session.close)

    def test_training(self):
        s = self.session
        w = s.param("w", (4, 3), psd.ones(), psd.SGD(0.5))
        b = s.param("b", 3, psd.zeros(), psd.Momentum(0.1, 0.5))
        s.ready()
        self.assertEqual(s.found, (0, 0))
        want_w, want_b, slot = np.ones((4, 3), "f4"), np.zeros(3, "f4"), np.zeros(3, "f4")
        for step in range(5):
            s.pull()
            np.testing.assert_array_equal(w.value, want_w)
            np.testing.assert_allclose(b.value, want_b, rtol=1e-6)
            w.grad[...] = step
            w.push()
            b.push(np.full(3, 2, "f4"))
            s.step_done()
            want_w -= np.float32(0.5) * step
            slot = slot * np.float32(0.5) + 2
            want_b -= np.float32(0.1) * slot
        self.assertEqual(s.global_step, 5)
        self.assertEqual(w.version, (4, True))

    def test_what_is_no_initializer_no_optimizer_and_no_array(self):
        s = self.session
        for make in (s.param, s.variable, s.make, s.embedding):
            with self.assertRaisesRegex(psd.InvalidArgument, r"init is array\(\[0., 0.\]\), and must be .*psd.zeros\(\)"):
                make("v", 2, init=np.zeros(2))
            with self.assertRaisesRegex(psd.InvalidArgument, r"optimizer is 0.1, and must be .*psd.Adagrad\(0.1\)"):
                make("v", 2, optimizer=0.1)
        with self.assertRaisesRegex(psd.InvalidArgument, r"out for 'v' is \[0, 0\], and must be an array of NumPy, float32 \[2\]"):
            s.make("v", 2).read([0, 0])

    def test_feeds_keep_their_dtype(self):
        """TensorFlow's tutorial feeds float64 into an int32 placeholder; what does not fit is refused by its value."""
        p = psd.Plan(self.session)
        x = p.placeholder("int32", (-1,), "x")
        total = p.row("reduce_sum", x)
        self.assertEqual(int(p.run(total, {x: np.ones(1000)})), 1000)
        self.assertEqual(int(p.run(total, {"x": [1, 2]})), 3)
        self.assertEqual(int(p.run(total, {x: np.arange(4, dtype=">i8")})), 6)
        for wrong in (1.5, np.nan, 2.0**40):
            with self.assertRaisesRegex(psd.InvalidArgument, "int32, which cannot hold"):
                p.run(total, {x: np.array([wrong])})

    def test_arrays_are_the_librarys_memory(self):
        s = self.session
        w = s.param("w", (2, 2), psd.ones(), psd.SGD(0.5))
        s.ready()
        before = w.value
        part = before[1:]
        w.push(np.ones((2, 2), "f4"))
        s.step_done()
        s.pull()
        self.assertIs(w.value, before)
        np.testing.assert_array_equal(part, [[0.5, 0.5]])
        self.assertEqual(before.ctypes.data, lib.ps_param_value(w._pointer))

    def test_arrays_outlive_session_and_parameter(self):
        with psd.Session(self.cluster.target) as s:
            w = s.param("w", (1000,), psd.constant(3), psd.SGD(1))
            s.ready()
            s.pull()
            view = w.value[10:20]
        again = w.value
        memory = weakref.ref(w._memory)
        del w, s, again
        gc.collect()
        self.assertIsNotNone(memory())
        np.testing.assert_array_equal(view, np.full(10, 3, "f4"))
        view[:] = 4
        del view
        gc.collect()
        self.assertIsNone(memory())

    def test_variables(self):
        s = self.session
        for dtype in ("float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool"):
            v = s.variable("v_" + dtype, (2, 3), dtype, device="/job:ps/task:1")
            self.assertFalse(v.is_initialized)
            want = np.arange(6).reshape(2, 3).astype(dtype)
            v.assign(want)
            np.testing.assert_array_equal(v.read(), want)
            self.assertEqual((v.dtype, v.shape, v.nbytes, v.task), (dtype, (2, 3), want.nbytes, 1))
            if dtype != "bool":
                np.testing.assert_array_equal(v.assign_add(want), want + want)
                np.testing.assert_array_equal(v.assign_sub(want), want)
            out = np.empty((2, 3), dtype)
            self.assertIs(v.read(out), out)
        v = s.variable("s", 2, "string")
        v.assign(["a", b"\0b"])
        self.assertEqual(list(v.read()), [b"a", b"\0b"])
        scalar = s.variable("scalar", (), "int64")
        scalar.assign(7)
        self.assertEqual(scalar.assign_add(1), 8)
        found = s.find("s")
        self.assertEqual((found.name, found.dtype), ("s", "string"))
        pair = s.variables([{"name": "p0", "shape": 2}, {"name": "p1", "dtype": "float64", "optimizer": psd.SGD(1)}])
        self.assertEqual([p.name for p in pair], ["p0", "p1"])
        w = s.make("w", 2, psd.ones(), psd.Adagrad(0.1))
        np.testing.assert_allclose(w.push_pull([1, 1]), 1 - 0.1 / np.sqrt(1.1), rtol=1e-6)
        np.testing.assert_allclose(w.read_slot(), [1.1, 1.1], rtol=1e-6)
        w.set_rate(0.5)
        lion = psd.optimizer("lion:beta1=0.5", 0.25)
        self.assertEqual(repr(lion), "psd.optimizer('lion:beta1=0.5', 0.25)")
        falls = psd.SGD(1.0, schedule="piecewise_constant:boundaries=10,values=0.5/0.25")
        self.assertEqual(falls.hyper["learning_rate"], 0.5)
        self.assertEqual(repr(falls), "psd.SGD(learning_rate=0.5, schedule='piecewise_constant:boundaries=10,values=0.5/0.25')")
        with self.assertRaisesRegex(psd.InvalidArgument, "boundaries are out of order: 5 behind 10"):
            psd.Adam(schedule="piecewise_constant:boundaries=10/5,values=3/2/1")
        np.testing.assert_array_equal(s.make("lion", 2, psd.ones(), lion).push_pull([3, -3]), [0.75, 1.25])
        self.assertIn("lion", [repr(i.optimizer) for t in (0, 1) for i in psd.admin.variables(s, t) if i.name == "lion"][0])
        s.make("wide", 2, psd.ones(), psd.optimizer("sgd:l2=0.25,ema=0.5,clip_value=4", 0.5))
        wide = [i.optimizer for t in (0, 1) for i in psd.admin.variables(s, t) if i.name == "wide"][0]
        self.assertEqual((wide.struct.l2, wide.struct.ema, wide.struct.clip_value, repr(wide)), (0.25, 0.5, 4.0, "<psd.Optimizer sgd>"))
        with self.assertRaisesRegex(psd.InvalidArgument, "beta7"):
            psd.optimizer("adam:beta7=1")
        s.delete("w")
        with self.assertRaises(psd.NotFound):
            s.find("w")

    def test_scopes(self):
        s = self.session
        with s.variable_scope("layer"), s.device("/job:ps/task:1"), s.container("other"):
            v = s.variable("w", 1)
        self.assertEqual((v.name, v.container, v.device), ("layer/w", "other", "/job:ps/task:1/device:CPU:0"))
        with s.device(psd.ReplicaDeviceSetter(2)):
            self.assertEqual([s.variable(f"v{i}", 1).task for i in range(4)], [0, 1, 0, 1])

    def test_input_is_named(self):
        s = self.session
        w = s.param("w", (4, 3), optimizer=psd.SGD(1))
        v = s.variable("v", 3)
        for wrong in (np.zeros((3, 4), "f4"), np.zeros((4, 3)), np.zeros((4, 3), "i4")):
            with self.assertRaises(ValueError) as e:
                w.push(wrong)
            self.assertIn(f"'w' is {wrong.dtype} {list(wrong.shape)}, and must be float32 [4, 3]", str(e.exception))
        for out in (np.zeros(2, "f4"), np.zeros(3), np.zeros(6, "f4")[::2], np.frombuffer(bytes(12), "f4")):
            with self.assertRaisesRegex(psd.InvalidArgument, "contiguous and writable"):
                v.read(out)
        v.assign(np.arange(6, dtype="f4")[::2])
        np.testing.assert_array_equal(v.read(), [0, 2, 4])
        v.assign(np.arange(3, dtype=">f4"))
        np.testing.assert_array_equal(v.read(), [0, 1, 2])
        with self.assertRaisesRegex(psd.InvalidArgument, "float12"):
            s.variable("x", 1, "float12")
        with self.assertRaisesRegex(psd.InvalidArgument, "9 dimensions"):
            s.variable("x", (1,) * 9)

    def test_errors(self):
        s = self.session
        s.variable("x", 2)
        with self.assertRaises(psd.InvalidArgument) as e:
            s.variable("x", 3)
        self.assertEqual((e.exception.status, e.exception.reason), (psd.Status.INVALID_ARGUMENT, psd.Reason.SHAPE_MISMATCH))
        self.assertEqual(e.exception.task, "/job:ps/task:0")
        copy = pickle.loads(pickle.dumps(e.exception))
        self.assertEqual((str(copy), copy.reason, copy.task), (str(e.exception), e.exception.reason, e.exception.task))
        for kind, builtin in ((psd.DeadlineExceeded, TimeoutError), (psd.Unavailable, ConnectionError), (psd.NotFound, LookupError)):
            self.assertTrue(issubclass(kind, builtin) and issubclass(kind, psd.Error))
        unknown = psd.errors.error_of(14, "x", 0, 2)
        self.assertIn("outcome unknown", str(unknown))
        with self.assertRaises(psd.DeadlineExceeded):
            s.barrier("b", 2, timeout=0.2)
        self.assertIsNone(s.error)  # not sticky

    def logged(self, log, word):
        """Wait for a line of the log, which comes from a thread."""
        for _ in range(3000):
            if any(word in line for line in log.output):
                break
            threading.Event().wait(0.02)
        return [line for line in log.output if word in line]

    def test_an_exception_is_a_loss(self):
        with self.assertLogs("psd", "ERROR") as log:
            with self.assertRaisesRegex(ZeroDivisionError, "x"), psd.Session(self.cluster.target):
                raise ZeroDivisionError("x")
            self.assertTrue(self.logged(log, "ZeroDivisionError: x"))

    def test_a_closed_session(self):
        v = self.session.variable("x", 2)
        self.session.close()
        for call in (self.session.pull, v.read, lambda: v.assign([1, 2]), lambda: self.session.queue("q"), lambda: self.session.device("")):
            with self.assertRaisesRegex(psd.FailedPrecondition, "the session is closed"):
                call()
        self.assertIn("closed", repr(self.session))
        self.session.close()

    def test_a_session_is_not_pickled(self):
        with self.assertRaisesRegex(TypeError, "open a session there"):
            pickle.dumps(self.session)

    def assert_alone(self):
        """The task has no session but the test's; the end of another one may still be on its way."""
        for _ in range(3000):
            connected = [i.connected for i in psd.admin.sessions(self.session, 0)].count(True)
            if connected == 1:
                break
            threading.Event().wait(0.02)
        self.assertEqual(connected, 1)

    def test_a_session_that_is_collected_is_left(self):
        s = psd.Session(self.cluster.target)
        s.variable("x", 2)
        gone = weakref.ref(s)
        del s
        gc.collect()
        self.assertIsNone(gone())
        self.assert_alone()

    def test_memory_that_is_lent_at_exit(self):
        """A session that is not closed goes on sending, so the memory stays; a collected one is closed."""
        for exits in (False, True):
            s = psd.Session(self.cluster.target)
            memory = np.ones(4, np.float32)
            s._lent.append(memory)
            handle, stays = s._handle, weakref.ref(memory)
            with unittest.mock.patch.object(sys, "is_finalizing", lambda exits=exits: exits):
                del s, memory
                gc.collect()
            self.assertEqual(stays() is not None, exits)
            if exits:
                lib.ps_session_close(handle)

    def test_a_session_with_a_call_inside_is_collected_behind_it(self):
        """Its last reference but the call's goes while the call waits: the call ends as ever, and the session behind it."""
        self.session.queue("q")
        s = psd.Session(self.cluster.target)
        q, gone, taken = s.find_queue("q"), weakref.ref(s), []

        def take(queue):
            taken.append(float(queue.take()))

        thread = threading.Thread(target=take, args=(q,))
        thread.start()
        while not any(psd.admin.waits(self.session, task) for task in range(2)):
            self.assertTrue(thread.is_alive())
        del s, q
        gc.collect()
        self.assertIsNotNone(gone())
        self.session.find_queue("q").put(7)
        thread.join(60)
        self.assertEqual(taken, [7])
        del thread
        gc.collect()
        self.assertIsNone(gone())
        self.assert_alone()

    def test_log_lines(self):
        with self.assertLogs("psd", "INFO") as log:
            self.session.param("w", 2, optimizer=psd.SGD(1))
            self.session.ready()
            lines = self.logged(log, "ev=ready")
        self.assertTrue(lines and lines[0].startswith("INFO:psd:"), log.output)

    def test_prefetch_has_two_arrays(self):
        with psd.Session(self.cluster.target, prefetch=True) as s:
            w = s.param("w", 4, psd.ones(), psd.SGD(1))
            s.ready()
            seen = set()
            for _ in range(4):
                s.pull()
                seen.add(w.value.ctypes.data)
                w.push(np.zeros(4, "f4"))
                s.step_done()
            self.assertEqual(len(seen), 2)
            np.testing.assert_array_equal(w.value, np.ones(4))


class Rounds(unittest.TestCase):
    def test_rounds_equal_a_serial_program(self):
        workers, steps, rng = 3, 20, np.random.default_rng(1)
        gradients = rng.standard_normal((steps, workers, 50, 7)).astype("f4")
        results = {}

        def work(cluster, task):
            with psd.Session(cluster=cluster.spec, job="worker", task=task, timeout=30) as s:
                w = s.param("w", (50, 7), psd.ones(), psd.SGD(0.25))
                s.sync()
                s.ready()
                for step in range(steps):
                    s.pull()
                    w.push(gradients[step, task])
                    s.step_done()
                s.pull()
                results[task] = w.value

        with psd.local_cluster(ps=2, workers=workers) as cluster:
            threads = [threading.Thread(target=work, args=(cluster, i)) for i in range(workers)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        want = np.ones((50, 7), "f4")
        for step in range(steps):
            total = gradients[step, 0].copy()
            for i in range(1, workers):
                total += gradients[step, i]
            want -= np.float32(0.25) * (total / np.float32(workers))
        self.assertEqual(len(results), workers)
        for value in results.values():
            np.testing.assert_array_equal(value, want)


    def test_limits_on_norms(self):
        """The parameters are at two tasks. The factor of both is 1/2; where each has its own limit, the factors are 1 and 1/4."""
        for each, limit, gradients, want in ((False, 125**0.5 / 2, (3, 4), (-1.5, -2)), (True, 20**0.5, (2, 8), (-2, -2))):
            with (
                self.subTest(each=each),
                psd.local_cluster(ps=2, workers=1) as cluster,
                psd.Session(cluster=cluster.spec, job="worker", task=0, timeout=30) as s,
            ):
                params = [s.param(name, (5,), psd.zeros(), psd.SGD(1), device=f"/job:ps/task:{i}") for i, name in enumerate("wb")]
                s.sync()
                s.sync_clip_norm(limit, each=each)
                s.ready()
                info = psd.admin.rounds(s)[0].info
                self.assertEqual((info.max_norm, info.max_norm_each), (limit, int(each)))
                for p, value in zip(params, gradients):
                    p.push(np.full(5, value, "f4"))
                s.step_done()
                s.pull()
                for p, value in zip(params, want):
                    np.testing.assert_array_equal(p.value, np.full(5, value, "f4"))


class Hooks(unittest.TestCase):
    def setUp(self):
        self.cluster = psd.local_cluster()
        self.addCleanup(self.cluster.stop)

    def run_steps(self, hook, steps=3):
        with psd.Session(self.cluster.target) as s:
            s.add_hook(hook)
            w = s.param("w", 2, psd.ones(), psd.SGD(1))
            s.ready()
            for _ in range(steps):
                if s.should_stop():
                    break
                s.pull()
                s.step_value("loss", 0.5)
                w.push(np.zeros(2, "f4"))
                s.step_done()

    def test_moments(self):
        seen = []

        class All(psd.Hook):
            def begin(self, session):
                seen.append("begin")

            def after_create_session(self, session):
                seen.append("created")

            def before_run(self, session):
                seen.append("before")

            def after_run(self, session, values):
                seen.append((session.global_step, dict(values)))

            def end(self, session):
                seen.append("end")

        self.run_steps(All(), 2)
        self.assertEqual(seen, ["begin", "created", "before", (1, {"loss": 0.5}), "before", (2, {"loss": 0.5}), "end"])

    def test_an_exception_ends_the_session(self):
        class Bad(psd.Hook):
            def after_run(self, session, values):
                raise KeyError("which")

        with self.assertRaisesRegex(psd.Internal, "Bad.after_run: KeyError: 'which'") as e:
            self.run_steps(Bad())
        self.assertIsInstance(e.exception.__cause__, KeyError)

        class BadEnd(psd.Hook):
            def end(self, session):
                raise KeyError("which")

        with self.assertRaisesRegex(psd.Internal, "while it was closed: KeyError: 'which'"), psd.Session(self.cluster.target, container="end") as s:
            s.add_hook(BadEnd())
            s.ready()

    def test_the_end_of_the_input(self):
        class End(psd.Hook):
            def before_run(self, session):
                if session.global_step == 1:
                    raise psd.OutOfRange("no more")

        self.run_steps(End(), 5)
        with psd.Session(self.cluster.target) as s:
            self.assertEqual(int(s.global_step_variable().read()), 1)


class Processes(unittest.TestCase):
    def test_sockets_of_a_local_cluster(self):
        """Only this user reaches them; the end of a child leaves them, and stop() takes them away."""
        cluster = psd.local_cluster(ps=2)
        folder = os.path.dirname(cluster.target.removeprefix("unix:"))
        self.assertEqual((os.stat(folder).st_mode & 0o777, sorted(os.listdir(folder))), (0o700, ["ps0", "ps1"]))
        pid = os.fork()
        if pid == 0:
            cluster._remove()  # as at the interpreter's exit
            os._exit(0)
        os.waitpid(pid, 0)
        with psd.Session(cluster.target, timeout=20) as s:
            self.assertEqual(s.ps_count, 2)
        cluster.stop()
        self.assertFalse(os.path.exists(folder))
        with (
            tempfile.TemporaryDirectory(suffix="x" * 99) as long,
            unittest.mock.patch.object(tempfile, "tempdir", long),
            psd.local_cluster() as cluster,
            psd.Session(cluster.target, timeout=20) as s,
        ):
            self.assertEqual(s.ps_count, 1)

    def test_a_monitored_session_survives_kill(self):
        lib_dir = os.path.dirname(psd._library.lib.path)
        daemon = os.environ.get("PSD_PROGRAM") or os.path.join(lib_dir, "..", "bin", "psd")
        if not os.path.exists(daemon):
            daemon = os.path.join(os.path.dirname(psd.__file__), "_bin", "psd")
        with tempfile.TemporaryDirectory() as folder:
            spec = f"ps=unix:{folder}/0"

            def start():
                args = [daemon, "--cluster", spec, "--task_index", "0", "--checkpoint_dir", folder, "--log_level", "error"]
                return subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

            process = start()
            try:
                with psd.MonitoredSession(f"unix:{folder}/0", timeout=30) as s:
                    w = s.param("w", 2, psd.ones(), psd.SGD(1))
                    s.ready()
                    for step in range(6):
                        if step == 3:
                            s.save_checkpoint()
                            process.kill()
                            process.wait()
                            process = start()
                        while not s.should_stop():
                            try:
                                s.pull()
                                w.push(np.full(2, 1, "f4"))
                                s.step_done()
                                break
                            except (psd.Aborted, psd.Unavailable):
                                continue
                    self.assertEqual(s.global_step, 6)
                    self.assertEqual(s.last_recovery.count, 1)
                    s.pull()
                    np.testing.assert_array_equal(w.value, [-5, -5])
            finally:
                process.kill()
                process.wait()

    def test_flags(self):
        with psd.local_cluster() as cluster:
            s = psd.Session.from_args(["train.py", "--target", cluster.target, "--steps", "7", "--mine", "--seed", "9"])
            with s:
                self.assertEqual(s.args, ["train.py", "--mine"])
                self.assertEqual(s.seed, 9)
            with self.assertRaisesRegex(psd.InvalidArgument, "--steps"):
                psd.Session.from_args(["train.py", "--steps", "x"])
            with psd.MonitoredSession.from_args(["train.py", "--target", cluster.target]) as m:
                self.assertIsNone(m.last_recovery)
        done = subprocess.run(
            [sys.executable, "-c", "import psd; psd.Session.from_args(['t', '--help'], about='About this')"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("About this", done.stdout)
        self.assertIn("--ps_hosts", done.stdout)

    def test_the_environment(self):
        with psd.local_cluster() as cluster:
            address = cluster.target
            code = "import psd\nwith psd.Session() as s: print(s.task_index, s.ps_count)"
            config = {"cluster": {"ps": [address], "worker": ["x:1", "y:2"]}, "task": {"type": "worker", "index": 1}}
            for more in ({"PSD_TARGET": address}, {"TF_CONFIG": json.dumps(config)}):
                env = {**os.environ, **more}
                out = subprocess.run([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout
                self.assertEqual(out.split(), ["0" if "PSD_TARGET" in more else "1", "1"])

    def test_what_a_manager_says(self):
        torchrun = {"RANK": "2", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3", "LOCAL_RANK": "2", "GROUP_RANK": "0"}
        torchrun.update({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"})
        with unittest.mock.patch.dict(os.environ, torchrun):
            place = psd.resolve("torchrun", ps_tasks=1, base_port=3333)
            self.assertEqual((place.manager, place.job, place.task), ("torchrun", "worker", 1))
            self.assertEqual(place.cluster.task_address("ps", 0), "127.0.0.1:3333")
            self.assertIn("RANK='2'", place.why)
            with psd.Session(cluster=place.cluster, job=place.job, task=place.task) as s:
                self.assertEqual((s.task_index, s.task_count), (1, 2))
            with self.assertRaisesRegex(psd.InvalidArgument, "ps_tasks"):
                psd.resolve("torchrun", ps_tasks=9, base_port=3333)
            os.environ["RANK"] = "x"
            with self.assertRaisesRegex(psd.InvalidArgument, "RANK"):
                psd.resolve("torchrun", ps_tasks=1, base_port=3333)
        with self.assertRaisesRegex(psd.InvalidArgument, "pbs"):
            psd.resolve("pbs")
        alone = psd.resolve()
        self.assertEqual((alone.manager, alone.cluster, alone.job, alone.task), ("none", None, None, 0))

    def test_another_library(self):
        with tempfile.TemporaryDirectory() as folder:
            for source, says in (("", "cannot load"), ('const char *ps_version(void) { return "0.0.9"; }', "has version 0.0.9")):
                if source:
                    subprocess.run(
                        ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", f"{folder}/libpsworker.so.{psd._abi.SOVERSION}"],
                        input=source,
                        encoding="utf-8",
                        check=True,
                    )
                done = subprocess.run(
                    [sys.executable, "-c", "import psd"],
                    env={**os.environ, "PSD_LIBRARY_DIR": folder},
                    stderr=subprocess.PIPE,
                    encoding="utf-8",
                    check=False,
                )
                self.assertIn(says, done.stderr)
                self.assertIn("install the wheel", done.stderr)
                self.assertIn("ImportError", done.stderr)


class Layouts(unittest.TestCase):
    def test_a_wrong_layout_is_found(self):
        layouts = psd._library.LAYOUTS
        struct = psd._abi.ps_session_options
        good = layouts[struct]
        try:
            layouts[struct] = (good[0] + 8, good[1])
            with self.assertRaisesRegex(ImportError, "ps_session_options"):
                psd._library._check_layouts()
            layouts[struct] = (good[0], good[1].replace(" 16 ", " 17 "))
            with self.assertRaisesRegex(ImportError, "ps_session_options"):
                psd._library._check_layouts()
        finally:
            layouts[struct] = good
        self.assertEqual(_waits.forks, 0)


logging.getLogger("psd").addHandler(logging.NullHandler())
if __name__ == "__main__":
    unittest.main()
