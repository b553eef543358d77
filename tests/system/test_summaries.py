#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 120
"""Summaries: what steps say, in event files that are read back by a reader of our own and by TensorBoard's; who writes; a directory
that cannot be written, a disk that is full. The library is called by ctypes."""
import ctypes as c
import os
import resource
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from events import NO_TENSORBOARD, events, files, scalars, tensorboard, tensorboard_scalars

from cluster import SANITIZED, Cluster, main, path

RATE = 0.5
INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, DATA_LOSS = 3, 5, 8, 15
STALENESS = 2


class Shape(c.Structure):
    _fields_ = [("rank", c.c_uint32), ("reserved", c.c_uint32), ("dims", c.c_int64 * 8)]


class Sync(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("mode", c.c_int), ("workers", c.c_uint32), ("replicas", c.c_uint32),
                ("on_worker_loss", c.c_int), ("staleness", c.c_uint32), ("reserved", c.c_uint32)]


def load():
    lib = c.CDLL(path("lib/libpsworker.so"))
    pointer = c.c_void_p
    for name, result, arguments in (
            ("ps_session_open_args", pointer, [c.POINTER(c.c_int), c.POINTER(c.c_char_p), c.c_char_p]),
            ("ps_monitored_open_args", pointer, [c.POINTER(c.c_int), c.POINTER(c.c_char_p), c.c_char_p, pointer]),
            ("ps_session_sync", c.c_int, [pointer, c.POINTER(Sync)]),
            ("ps_sync_options_init", None, [c.POINTER(Sync)]),
            ("ps_add_summary_hook", c.c_int, [pointer, c.c_char_p, c.c_int64]),
            ("ps_sgd", pointer, [c.c_double]),
            ("ps_param_get", pointer, [pointer, c.c_char_p, Shape, pointer, pointer]),
            ("ps_session_ready", c.c_int, [pointer]),
            ("ps_should_stop", c.c_bool, [pointer]),
            ("ps_pull", c.c_int, [pointer]),
            ("ps_param_grad", c.POINTER(c.c_float), [pointer]),
            ("ps_push", c.c_int, [pointer, pointer]),
            ("ps_step_done", c.c_int, [pointer]),
            ("ps_step_value", c.c_int, [pointer, c.c_char_p, c.c_double]),
            ("ps_set_rates", c.c_int, [pointer, c.c_char_p, c.POINTER(c.c_double), c.c_int64, pointer]),
            ("ps_session_fail", c.c_int, [pointer, c.c_int, c.c_char_p]),
            ("ps_session_error", c.c_char_p, [pointer]),
            ("ps_session_close", c.c_int, [pointer])):
        getattr(lib, name).restype = result
        getattr(lib, name).argtypes = arguments
    return lib


class Worker:
    """A session with one parameter."""

    def __init__(self, lib, folder, *flags, every=3, staleness=None, monitored=False):
        argv = [b"summaries", b"--timeout=20s", b"--log_level=warn", *(f.encode() for f in flags)]
        self.lib = lib
        given = (c.byref(c.c_int(len(argv))), (c.c_char_p * (len(argv) + 1))(*argv), None)
        self.s = lib.ps_monitored_open_args(*given, None) if monitored else lib.ps_session_open_args(*given)
        if staleness is not None:
            sync = Sync()
            lib.ps_sync_options_init(c.byref(sync))
            sync.mode, sync.workers, sync.staleness = STALENESS, 1, staleness
            lib.ps_session_sync(self.s, c.byref(sync))
        self.added = lib.ps_add_summary_hook(self.s, folder.encode(), every)
        shape = Shape(rank=1)
        shape.dims[0] = 2
        self.w = lib.ps_param_get(self.s, b"w", shape, None, lib.ps_sgd(RATE))
        self.ready = lib.ps_session_ready(self.s)

    def say(self, **values):
        for name, value in values.items():
            self.lib.ps_step_value(self.s, name.encode(), value)

    def step(self, **values):
        if self.lib.ps_should_stop(self.s):
            return 1
        self.lib.ps_pull(self.s)
        self.say(**values)
        gradient = self.lib.ps_param_grad(self.w)
        gradient[0] = gradient[1] = 1
        self.lib.ps_push(self.s, self.w)
        return self.lib.ps_step_done(self.s)

    def error(self):
        return self.lib.ps_session_error(self.s).decode()

    def close(self):
        return self.lib.ps_session_close(self.s)


def fill_disk(target, folder, room):
    """A process whose files may not grow beyond `room` bytes once its file of events is there; room 0: from the start."""
    if room == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    worker = Worker(load(), folder, "--target", target, every=1)
    print(worker.ready, worker.error(), flush=True)
    if room > 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    print([worker.step(loss=i) for i in range(20)], worker.close(), flush=True)


@unittest.skipIf(SANITIZED, "Python is not built with the sanitizer")
class Summaries(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = os.path.join(temporary.name, "a", "run 1")
        cluster = Cluster(2)
        cluster.__enter__()
        self.addCleanup(cluster.__exit__)
        self.cluster = cluster
        self.target = cluster.addresses[0]
        self.spec = cluster.spec + ";worker=127.0.0.1:1,127.0.0.1:2"

    def train(self):
        """Ten steps; a rate that changes, a value now and then, and one behind the last step."""
        lib = load()
        worker = Worker(lib, self.folder, "--target", self.target)
        self.assertEqual((worker.added, worker.ready), (0, 0))
        for i in range(1, 11):
            values = {"loss": 10 - i, "layer_1/norm": i / 8}
            if i == 5:
                values["accuracy"] = 0.5
                self.assertEqual(lib.ps_set_rates(worker.s, None, c.byref(c.c_double(0.25)), 0, None), 0)
            self.assertEqual(worker.step(**values), 0)
        worker.say(test_accuracy=0.75)
        self.assertEqual(worker.close(), 0)
        return {"loss": [[1, 9], [4, 6], [7, 3], [10, 0]], "layer_1/norm": [[1, 0.125], [4, 0.5], [7, 0.875], [10, 1.25]],
                "accuracy": [[5, 0.5]], "test_accuracy": [[10, 0.75]],
                "learning_rate": [[1, 0.5], [4, 0.5], [7, 0.25], [10, 0.25]], "age": [[1, 0], [4, 0], [7, 0], [10, 0]]}

    def check(self, found, want):
        rates = found.pop("global_step/sec")
        self.assertEqual([step for step, _ in rates], [4, 7, 10])
        self.assertTrue(all(rate > 0 for _, rate in rates))
        self.assertEqual(found, want)

    def test_own_reader(self):
        want = self.train()
        self.assertEqual(len(files(self.folder)), 1)
        read = events(files(self.folder)[0])
        self.assertEqual((read[0]["version"], read[1]["start"], read[1]["step"]), ("brain.Event:2", True, 1))
        times = [e["wall_time"] for e in read]
        self.assertTrue(all(time > 1.6e9 for time in times))
        self.check(scalars(self.folder), want)

    def test_tensorboard(self):
        python = tensorboard()
        if python is None:
            self.skipTest(NO_TENSORBOARD)
        want = self.train()
        self.check(tensorboard_scalars(python, self.folder), want)
        worker = Worker(load(), self.folder, "--target", self.target)  # it goes on, in a file of its own
        self.assertEqual(worker.step(loss=5), 0)
        self.assertEqual(worker.close(), 0)
        self.assertEqual(len(files(self.folder)), 2)
        self.assertEqual(tensorboard_scalars(python, self.folder)["loss"], want["loss"] + [[11, 5]])

    def test_lost_steps(self):
        """All ps are killed behind step 5: training goes on from step 0, which the file says, and what was lost is not shown."""
        worker = Worker(load(), self.folder, "--target", self.target, every=1, monitored=True)
        for i in range(1, 6):
            self.assertEqual(worker.step(loss=i), 0)
        for i in (0, 1):
            self.cluster.kill(i)
        for i in (0, 1):
            self.cluster.start(i)
        for i in range(1, 4):  # the first ps_pull() puts it right
            self.assertEqual(worker.step(loss=10 * i), 0, worker.error())
        self.assertEqual(worker.close(), 0)
        self.assertEqual(len(files(self.folder)), 1)
        self.assertEqual([e["step"] for e in events(files(self.folder)[0]) if "start" in e], [1, 1])
        self.assertEqual(scalars(self.folder)["loss"], [[1, 1], [2, 2], [3, 3], [4, 4], [5, 5], [1, 10], [2, 20], [3, 30]])
        python = tensorboard()
        if python is not None:
            self.assertEqual(tensorboard_scalars(python, self.folder)["loss"], [[1, 10], [2, 20], [3, 30]])

    def test_lead(self):
        flags = ("--cluster", self.spec, "--job_name", "worker", "--task_index", "0")
        worker = Worker(load(), self.folder, *flags, every=2, staleness=3)
        for i in range(3):
            self.assertEqual(worker.step(age=7), 0, worker.error())  # the program's own
        self.assertEqual(worker.close(), 0)
        found = scalars(self.folder)
        self.assertEqual((found["lead"], found["age"]), ([[1, 0], [3, 0]], [[1, 7], [3, 7]]))

    def test_many_names(self):
        worker = Worker(load(), self.folder, "--target", self.target, every=1000)
        for i in range(5):
            self.assertEqual(worker.step(**{"v%d" % (40 * i + k): k for k in range(40)}), 0)
        self.assertEqual(worker.close(), 0)
        found = scalars(self.folder)
        self.assertEqual({"v%d" % i: [[1 + i // 40, i % 40]] for i in range(200)}, {n: v for n, v in found.items() if n[0] == "v"})

    def test_chief_writes(self):
        lib = load()
        flags = ["--cluster", self.spec, "--job_name", "worker", "--task_index"]
        workers = [Worker(lib, self.folder + str(i), *flags, str(i), every=1) for i in range(2)]
        for i in range(4):
            self.assertEqual(workers[i % 2].step(loss=i), 0)
        self.assertEqual([w.close() for w in workers], [0, 0])
        self.assertEqual(scalars(self.folder + "0")["loss"], [[1, 0], [3, 2]])
        self.assertFalse(os.path.exists(self.folder + "1"))

    def test_after_an_error(self):
        worker = Worker(load(), self.folder, "--target", self.target, every=100)
        for i in range(3):
            self.assertEqual(worker.step(loss=i), 0)
        worker.lib.ps_session_fail(worker.s, DATA_LOSS, b"enough")
        self.assertEqual(worker.close(), DATA_LOSS)
        self.assertEqual(scalars(self.folder)["loss"], [[1, 0], [3, 2]])

    def test_bad_directory(self):
        os.makedirs(os.path.dirname(self.folder))
        with open(self.folder, "w", encoding="utf-8"):
            pass
        for folder, status, words in ((self.folder, INVALID_ARGUMENT, "hook 'summary', after_create_session: "),
                                      (self.folder + "/below", INVALID_ARGUMENT, "mkdir"),
                                      ("/proc/nowhere", NOT_FOUND, "/proc/nowhere: mkdir"),
                                      ("", INVALID_ARGUMENT, "ps_add_summary_hook: dir: the name is missing"),
                                      ("x" * 3801, INVALID_ARGUMENT, "longer than 3800 bytes")):
            worker = Worker(load(), folder, "--target", self.target)
            self.assertEqual(worker.ready, status, worker.error())
            self.assertIn(words, worker.error())
            self.assertEqual(worker.step(loss=1), 1)
            self.assertEqual(worker.close(), status)
        worker = Worker(load(), self.folder, "--target", self.target, every=0)
        self.assertEqual(worker.close(), INVALID_ARGUMENT)

    def child(self, room):
        return subprocess.run([sys.executable, os.path.abspath(__file__), "--child", self.target, self.folder, str(room)],
                              capture_output=True, text=True, timeout=600, check=False)

    def test_full_disk(self):
        done = self.child(0)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("%d hook 'summary', after_create_session: " % RESOURCE_EXHAUSTED, done.stdout)
        self.assertIn("a limit on the size of files", done.stdout)
        done = self.child(300)
        self.assertEqual(done.stdout, "0 \n%s 0\n" % ([0] * 20), done.stderr)  # it trains on
        self.assertEqual(done.stderr.count("ev=summaries_lost"), 1, done.stderr)
        self.assertIn("st=RESOURCE_EXHAUSTED", done.stderr)
        written = [name for name in files(self.folder) if os.path.getsize(name) > 0]
        self.assertEqual(len(written), 1)
        self.assertLess(os.path.getsize(written[0]), 300)
        self.assertEqual(scalars(self.folder)["loss"][:2], [[1, 0], [2, 1]])  # whole records


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        fill_disk(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        sys.exit(main(unittest))
