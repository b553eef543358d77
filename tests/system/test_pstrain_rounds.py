#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 180
# test-sanitizers: asan (threads of pstrain: test_pstrain, _monitored; of a client in rounds: test_rounds_api, test_rounds_kill)
"""Training in rounds by pstrain: --sync is what --serial computes, bit for bit, also over connections that are cut; late and lost
workers; bounded staleness. PS_TEST_WHOLE=1: the whole matrix, some minutes."""
import hashlib
import json
import os
import random
import re
import select
import signal
import socket
import struct
import sys
import threading
import time
import unittest

import cluster
from test_pstrain import ENDLESS, GOOD, SLOW, Case, child, psctl, psctl_of, step_of, tasks_of, wait_until

DIGITS = 1437  # training examples
WHOLE = os.environ.get("PS_TEST_WHOLE", "") != ""
SCHEDULE = ("--lr_schedule", "cosine_decay:decay_steps=30,warmup_steps=5")
MATRIX = [(ps, workers, "--optimizer", rule, "--seed", seed) for workers in (1, 2, 4) for ps in (1, 2)
          for rule in ("sgd", "momentum", "adam") for seed in ("0", "7")]


def tensors(path):
    """{name: bytes} of a safetensors file."""
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    return {name: data[slice(*t["data_offsets"])] for name, t in head.items() if name != "__metadata__"}


class Serial(Case):
    def serial(self, workers, *args):
        p = self.start("--serial", str(workers), "--epochs", "2", "--report", self.path("report.json"), *args)
        self.assertEqual(p.end(), 0, p.lines)
        return self.report()

    def test_the_same_run_has_the_same_bits_and_no_other_has(self):
        """Twice; another number of workers, seed, optimizer: every report and every digest is as it must be."""
        digests = {}
        for name, workers, args in (("2", 2, ()), ("again", 2, ()), ("3", 3, ()), ("seed 5", 2, ("--seed", "5")),
                                    ("adam", 2, ("--optimizer", "adam"))):
            r = self.serial(workers, *args)
            self.check_report(r, 1, workers)
            self.assertEqual(r["global_step"], 2 * (DIGITS // workers // 32))
            self.assertEqual(r["pushes_applied_total"], 4 * r["global_step"])  # one averaged push a variable
            digests[name] = r["params_sha256"]
        self.assertEqual(digests["again"], digests.pop("2"))
        self.assertEqual(len(set(digests.values())), len(digests), digests)

    def test_one_worker_and_whole_batches_is_plain_training(self):
        """The average of one is that one, and a limit on its norm is the limit on that of the gradients of a step."""
        digests = set()
        for limit in ((), ("--clip_norm", "0.1")):
            args = ("--seed", "3", "--batch_size", "479", *limit)  # 3 x 479 = 1437
            r = self.serial(1, *args)
            p = self.start("--local", "ps=2,workers=1", "--epochs", "2", *args, "--report", self.path("local.json"))
            self.assertEqual(p.end(), 0, p.lines)
            self.assertEqual(self.report("local.json")["params_sha256"], r["params_sha256"])
            digests.add(r["params_sha256"])
        self.assertEqual(len(digests), 2)

    def test_the_digest_is_of_names_and_values(self):
        """SGD keeps no slots, so that the export has all that the digest is of."""
        r = self.serial(2, "--optimizer", "sgd", "--export", self.path("model.safetensors"))
        have = tensors(self.path("model.safetensors"))
        names = ["%s/%s" % (layer, part) for layer in ("layer1", "softmax") for part in ("weights", "biases")]
        digest = hashlib.sha256(b"".join(name.encode() + b"\0" + have[name] for name in names))
        self.assertEqual(r["params_sha256"], digest.hexdigest())

    def test_it_goes_on_where_it_was(self):
        """Two runs of an epoch each, on a ps task that stays, end where one run of two does: slots, order of the examples and all."""
        whole = self.serial(2, "--optimizer", "momentum")
        with cluster.Cluster(2) as ps:
            for _ in range(2):
                p = self.start("--serial", "2", "--epochs", "1", "--optimizer", "momentum", "--ps_hosts", ps.hosts, "--report",
                               self.path("half.json"))
                self.assertEqual(p.end(), 0, p.lines)
        self.assertIn("global_step 22: continuing", p.text())
        self.check_report(self.report("half.json"), 2, 2)
        self.assertEqual(self.report("half.json")["params_sha256"], whole["params_sha256"])

    def test_what_contradicts_it(self):
        for args, words in ((("--serial", "2", "--local", "ps=1,workers=2"), ["--serial and --local"]),
                            (("--serial", "2", "--job_name", "worker"), ["--serial and --job_name"]),
                            (("--serial", "2", "--work", "shards"), ["--serial and --work"]),
                            (("--serial", "2", "--prefetch"), ["--serial and --prefetch"]),
                            (("--serial", "2", "--eval"), ["--eval and --serial"]),
                            (("--serial", "0"), ["--serial: '0'", "1 to 1024"])):
            p = self.start(*args)
            self.assertEqual(p.end(), 2, p.lines)
            for word in words:
                self.assertIn(word, p.text("err"))
        p = self.start("--serial", "2", "--batch_size", "719")
        self.assertEqual(p.end(), 1, p.lines)
        self.assertIn("--batch_size 719: the smallest of 2 shares of 1437 examples has not one such batch", p.text("err"))


class Sync(Case):
    """Workers in rounds: what --serial computes, bit for bit."""
    serial = {}  # arguments -> digest: one run for all that are compared with it

    def reference(self, workers, *args):
        key = (workers, *args)
        if key not in self.serial:
            p = self.start("--serial", str(workers), *args, "--report", self.path("serial.json"))
            self.assertEqual(p.end(), 0, p.lines)
            self.serial[key] = self.report("serial.json")["params_sha256"]
        return self.serial[key]

    def compare(self, ps, workers, *args):
        args = ("--epochs", "2", *args)
        p = self.start("--local", "ps=%d,workers=%d" % (ps, workers), "--sync", *args, "--report", self.path("sync.json"))
        self.assertEqual(p.end(), 0, p.lines)
        r = self.report("sync.json")
        rounds = 2 * (DIGITS // workers // 32)
        self.assertEqual((r["mode"], r["rounds"], r["global_step"], r["dropped"], r["workers"]), ("rounds", rounds, rounds, 0, workers))
        self.assertEqual(r["params_sha256"], self.reference(workers, *args), (ps, workers, args))

    def test_rounds_are_what_serial_computes(self):
        """Some of the matrix; all of it with PS_TEST_WHOLE set."""
        some = [(1, 1, "--optimizer", "adam", "--seed", "7"), (2, 2, "--optimizer", "momentum", "--seed", "0"),
                (1, 4, "--optimizer", "sgd", "--seed", "0"), (2, 4, "--optimizer", "adam", "--seed", "7"),
                (2, 2, "--optimizer", "adam", *SCHEDULE), (1, 2, "--model", "mlp:512,512", "--threads", "3")]  # the second layer is a sum of what three make
        for case in MATRIX if WHOLE else some:
            with self.subTest(case=case):
                self.compare(*case)

    def test_limits_on_norms(self):
        """The norm is of all averages, wherever they are, and the limit is in force."""
        for ps, workers, *args in ((1, 2), (3, 2), (2, 4, "--optimizer", "adam"), (2, 2, "--optimizer", "lamb", "--learning_rate", "0.01")):
            with self.subTest(ps=ps, workers=workers, args=args):
                self.compare(ps, workers, "--clip_norm", "0.5", *args)
        self.assertNotEqual(self.reference(2, "--epochs", "2", "--clip_norm", "0.5"), self.reference(2, "--epochs", "2"))

    def test_psctl_shows_the_limit(self):
        for limit, cell in (("0.25", "0.25"), (None, "-")):
            p = self.start("--local", "ps=1,workers=1", "--sync", "--epochs", ENDLESS, *(("--clip_norm", limit) if limit else ()))
            p.wait_line("global_step")
            tasks = tasks_of(p, 2)
            seen = json.loads(psctl_of(tasks, "rounds", "--json"))["rounds"][0]
            self.assertEqual((seen.get("max_norm"), seen.get("max_norm_each")), (0.25, False) if limit else (None, None))
            head, row = psctl_of(tasks, "rounds").split("\n")[:2]
            self.assertEqual(row[head.index("MAX NORM"):].split()[0], cell, row)
            self.assertEqual(p.end(signal.SIGTERM), 128 + signal.SIGTERM)

    def test_each_optimizer(self):
        """Of every kind: limited gradients, l2, a moving average and a schedule do not change that."""
        help_text = cluster.run(cluster.path("bin/pstrain"), "--help")[1]
        kinds = re.findall(r"^  (\w+)(?: \(.*\))?$", help_text.split("\nOptimizers")[1].split("  each of these")[0], re.M)
        self.assertGreater(len(kinds), 24)
        for kind in kinds:
            with self.subTest(kind=kind):
                args = ("--epochs", "1", "--model", "softmax", "--batch_size", "64", "--optimizer", kind + ":clip_value=0.01,l2=1e-3,ema=0.9,ema_updates=10",
                        "--learning_rate", "0.01", "--lr_schedule", "exponential_decay:decay_steps=3,decay_rate=0.5", "--clip_norm", "0.3")
                p = self.start("--local", "ps=1,workers=2", "--sync", *args, "--report", self.path("sync.json"))
                self.assertEqual(p.end(), 0, p.lines)
                self.assertEqual(self.report("sync.json")["params_sha256"], self.reference(2, *args), kind)

    @cluster.plain("the proxy reads frames on their way")
    def test_connections_that_are_cut(self):
        """One of ten frames between anybody and anybody breaks off in its middle, and its connection with it."""
        for ps, workers, *args in MATRIX if WHOLE else ((2, 2, "--optimizer", "adam", *SCHEDULE), (2, 2, "--clip_norm", "0.5")):
            with self.subTest(ps=ps, workers=workers, args=args):
                self.cut(ps, workers, "--epochs", "1", "--batch_size", "64", *args)

    def cut(self, ps, workers, *args):
        with Cutting(ps) as tasks:
            hosts = ("--ps_hosts", tasks.hosts, "--worker_hosts", ",".join("192.0.2.1:%d" % (i + 1) for i in range(workers)))
            report = ("--report", self.path("cut.json"))
            all_of = [self.start(*hosts, "--job_name", "worker", "--task_index", str(i), "--sync", *args, *(report if i == 0 else ()))
                      for i in range(workers)]
            for worker in all_of:
                self.assertEqual(worker.end(), 0, worker.lines)
            self.assertGreater(tasks.cuts, 10)
        self.assertEqual(self.report("cut.json")["dropped"], 0)
        self.assertEqual(self.report("cut.json")["params_sha256"], self.reference(workers, *args))

    @cluster.plain("the proxy reads frames on their way")
    def test_a_task_is_away_when_its_counts_are_asked_for(self):
        """A training that has ended is not lost for want of a second: whoever writes its report asks again."""
        with Away(1) as tasks:
            p = self.start("--ps_hosts", tasks.hosts, "--worker_hosts", "192.0.2.1:1", "--job_name", "worker", "--task_index", "0",
                           "--epochs", "1", "--report", self.path("report.json"))
            self.assertEqual(p.end(), 0, p.lines)
            self.assertGreater(tasks.cuts, 1, "it was asked once")
        self.assertEqual(self.report()["pushes_applied_total"], 4 * self.report()["global_step"])

    def test_a_late_worker_of_three(self):
        """Rounds of two: one that stood still for 5 s has missed its rounds, which is counted and said, and goes on with the others."""
        p = self.start("--local", "ps=1,workers=3", "--sync", "--replicas_to_aggregate", "2", *GOOD, "--steps", str(6000 // SLOW),
                       "--report", self.path("report.json"))
        tasks = tasks_of(p, 4)
        workers = [child(tasks, "worker", i) for i in range(3)]
        cluster.creep(lambda: "worker/task:2] 4 variables" in p.text("err") and
                      step_of(psctl_of(tasks, "get", "global_step")) > 10, *workers)
        pid = workers.pop()
        cluster.go_on(*workers)
        select.select([], [], [], 5)  # less than a lease; the others may have finished meanwhile
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(p.end(), 0, p.lines)
        r = self.report()
        self.assertEqual(r["global_step"], 6000 // SLOW)
        self.assertGreaterEqual(r["test_accuracy"], 0.95)
        self.assertGreater(r["dropped"], 0)
        self.assertIn("rounds %d  dropped %d" % (r["rounds"], r["dropped"]), p.text())
        self.assertRegex(p.text("err"), r"/job:worker/task:2: [1-9]\d* of its \d+ steps were dropped: they came when their rounds were over")

    def test_bounded_staleness(self):
        """Nobody gets more than two steps ahead of the slowest, which stands still again and again."""
        p = self.start("--local", "ps=2,workers=3", "--staleness", "2", *GOOD, "--epochs", ENDLESS, "--report",
                       self.path("report.json"))
        p.wait_line(r"worker/task:2\] 4 variables", "err")
        tasks = tasks_of(p, 5)
        pid = child(tasks, "worker", 2)
        for _ in range(10):
            cluster.halt(pid)
            select.select([], [], [], 0.05)
            os.kill(pid, signal.SIGCONT)
            select.select([], [], [], 0.05)
        wait_until("enough steps", lambda: step_of(psctl_of(tasks, "get", "global_step")) > 60 // SLOW * 45)
        psctl_of(tasks, "stop")
        self.assertEqual(p.end(), 0, p.lines)
        r = self.report()
        self.assertEqual(r["mode"], "staleness")
        self.assertEqual(sum(r["leads"]), r["global_step"])
        self.assertEqual(r["leads"][3:], [0] * 14)
        self.assertGreater(r["leads"][2], 0)
        self.assertIn("steps by how many the worker was ahead of the slowest: 0: %d" % r["leads"][0], p.text())
        self.assertGreaterEqual(r["test_accuracy"], 0.9)

    def test_a_worker_that_dies(self):
        """wait and fail: it ends everything, since nobody starts it again; shrink: the others finish."""
        for policy, words in (("wait", "the others need it, stopping everything"), ("fail", "the others need it, stopping everything"),
                              ("shrink", "the other workers go on")):
            p = self.start("--local", "ps=1,workers=3", "--sync", "--on_worker_loss", policy, "--epochs", ENDLESS)
            p.wait_line(r"worker/task:1\] 4 variables", "err")
            p.wait_line(r"worker/task:2\] 4 variables", "err")
            os.kill(child(tasks_of(p, 4), "worker", 1), signal.SIGKILL)
            self.assertIn(words, p.wait_line(r"/job:worker/task:1 .* was killed by signal 9", "err"))
            if policy == "shrink":
                step = int(re.search(r"global_step (\d+)", p.wait_line("global_step")).group(1))
                p.wait_line(r"global_step (?!%d )\d" % step)
                self.assertEqual(p.end(signal.SIGTERM), 128 + signal.SIGTERM)
            else:
                self.assertEqual(p.end(), 1)

    def test_a_worker_that_comes_back(self):
        """One of two separate processes is told to end and started again: its place has waited, and the run ends where serial does."""
        args = ("--sync", "--epochs", "80", "--optimizer", "momentum")
        for who in (1, 0):
            with self.subTest(who=who), cluster.Cluster(2) as ps:
                hosts = ("--ps_hosts", ps.hosts, "--worker_hosts", "192.0.2.1:1,192.0.2.1:2")

                def worker(i):
                    more = ("--report", self.path("report.json")) if i == 0 else ()
                    return self.start(*hosts, "--job_name", "worker", "--task_index", str(i), *args, *more)

                workers = [worker(0), worker(1)]
                pids = [w.pid for w in workers]
                cluster.creep(lambda: all("4 variables" in w.text() for w in workers) and
                              step_of(psctl(ps.addresses[0], "get", "global_step")) > 2, *pids)
                os.kill(pids[who], signal.SIGTERM)
                cluster.go_on(*pids)
                self.assertEqual(workers[who].end(), 128 + signal.SIGTERM)
                workers[who] = worker(who)
                self.assertEqual([w.end() for w in workers], [0, 0], [w.lines for w in workers])
                r = self.report()
                self.assertEqual(r["global_step"], 80 * (DIGITS // 2 // 32))
                self.assertEqual(r["params_sha256"], self.reference(2, *args[1:]))

    @cluster.plain("the proxy reads frames on their way")
    def test_a_worker_that_comes_back_with_a_ps(self):
        """Both are killed, as with their host, and nothing says that the others are in the middle of a run. Worker 1: the chief, which
        is slow, has yet to sign where it ends. Worker 0: it is the chief, and signs an end of its own. Each ends with the others."""
        args = ("--sync", "--epochs", "80", "--optimizer", "momentum")
        for who in (1, 0):
            with self.subTest(who=who), Slow(1) as ps:
                disk = ("--checkpoint_dir", self.path("saved%d" % who))
                os.mkdir(self.path("saved%d" % who))
                ps.tasks.kill(0)
                ps.tasks.start(0, *disk)
                address = ps.upstream[0]

                def worker(i):
                    return self.start("--ps_hosts", address if i == who else ps.hosts, "--worker_hosts", "192.0.2.1:1,192.0.2.1:2",
                                      "--job_name", "worker", "--task_index", str(i), *args,
                                      "--report", self.path("report%d.json" % i))

                workers = [worker(0), worker(1)]
                pids = [w.pid for w in workers]
                cluster.creep(lambda: all("4 variables" in w.text() for w in workers) and
                              step_of(psctl(address, "get", "global_step")) > 2, *pids)
                psctl(address, "checkpoint", "save")
                os.kill(pids[who], signal.SIGKILL)
                self.assertEqual(workers[who].end(), -signal.SIGKILL)
                ps.tasks.kill(0)
                ps.slow = True
                ps.tasks.start(0, *disk)
                workers[who] = worker(who)
                cluster.go_on(pids[1 - who])
                workers[who].wait_line("4 variables")
                ps.slow = False
                self.assertEqual([w.end() for w in workers], [0, 0], [w.lines for w in workers])
                self.assertEqual(step_of(psctl(address, "get", "global_step")), 80 * (DIGITS // 2 // 32))
                self.assertEqual(self.report("report0.json")["params_sha256"], self.reference(2, *args[1:]))

    def test_what_contradicts_it(self):
        for args, words in ((("--sync", "--staleness", "1"), ["--sync and --staleness"]),
                            (("--sync", "--work", "shards"), ["--sync and --work shards"]),
                            (("--staleness", "1", "--work", "shards"), ["--staleness and --work shards"]),
                            (("--sync", "--prefetch"), ["--sync and --prefetch"]),
                            (("--replicas_to_aggregate", "1"), ["--replicas_to_aggregate", "--sync"]),
                            (("--on_worker_loss", "fail"), ["--on_worker_loss", "--sync or --staleness"]),
                            (("--sync_workers", "1"), ["--sync_workers", "--sync or --staleness"]),
                            (("--sync", "--on_worker_loss", "cry"), ["cry", "wait, shrink or fail"]),
                            (("--sync", "--replicas_to_aggregate", "3"), ["--replicas_to_aggregate 3 of 2 workers"]),
                            (("--sync", "--sync_workers", "3"), ["--sync_workers 3 of 2 workers"]),
                            (("--sync", "--serial", "2"), ["--serial and --local"])):
            p = self.start("--local", "ps=1,workers=2", *args)
            self.assertEqual(p.end(), 2, p.lines)
            for word in words:
                self.assertIn(word, p.text("err"))


class Cutting:
    """ps tasks behind a proxy that cuts a connection in one of ten frames, whichever they are (the seed says), of both directions; half
    of the frame is forwarded. ACKs are not counted: a connection begins with all those that may have been lost."""
    EVERY, HEADER, ACK = 10, struct.Struct("<HBBBBHQIIQHHI"), 5

    def __init__(self, count):
        self.tasks = cluster.Cluster(count)
        self.doors = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        self.upstream = self.tasks.addresses
        self.hosts = ",".join("127.0.0.1:%d" % d.getsockname()[1] for d in self.doors)
        self.tasks.spec = "ps=" + self.hosts
        self.lock = threading.Lock()
        self.random = random.Random(13)
        self.cuts = 0
        self.ended = {}

    def __enter__(self):
        for door, address in zip(self.doors, self.upstream):
            threading.Thread(target=self.accept, args=(door, address), daemon=True).start()
        self.tasks.__enter__()
        return self

    def __exit__(self, *args):
        for door in self.doors:
            door.close()
        self.tasks.__exit__(*args)

    def accept(self, door, address):
        host, port = address.split(":")
        while True:
            try:
                here = door.accept()[0]
                there = socket.create_connection((host, int(port)))
            except OSError:
                return
            for s in (here, there):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for pair in ((here, there), (there, here)):
                threading.Thread(target=self.forward, args=pair, daemon=True).start()

    def cut(self, op):
        return op != self.ACK and self.random.randrange(self.EVERY) == 0

    def forward(self, source, sink):
        try:
            with source.makefile("rb") as stream:
                while True:
                    head = stream.read(self.HEADER.size)
                    fields = self.HEADER.unpack(head)
                    frame = head + stream.read(fields[8] + fields[10])
                    with self.lock:
                        cut = self.cut(fields[2])
                        self.cuts += cut
                    sink.sendall(frame[:len(frame) // 2] if cut else frame)
                    if cut:
                        break
        except (OSError, struct.error, ValueError):
            pass
        for s in (source, sink):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        with self.lock:
            self.ended.setdefault(frozenset((source, sink)), []).append(source)
            if len(self.ended[frozenset((source, sink))]) == 2:  # both directions
                source.close()
                sink.close()


class Away(Cutting):
    """The task is away for a second from the first INFO on, and for one that asks again: no frame gets through."""
    INFO, since = 64, None

    def cut(self, op):
        if self.since is None and op == self.INFO:
            self.since = time.monotonic()
        return self.since is not None and (self.cuts < 2 or time.monotonic() < self.since + 1)


class Slow(Cutting):
    """While `slow` is set each frame takes its time."""
    slow = False

    def cut(self, op):
        if self.slow:
            time.sleep(0.05)  # sleep: it is the way that is slow
        return False


class Trace(Case):
    """--trace: what system/test_trace shows of the library, by the trainer."""

    def spans(self, path):
        with open(path, encoding="utf-8") as f:
            events = json.load(f)["traceEvents"]
        self.tasks = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        return [e for e in events if e["ph"] == "X"]

    def traced(self, path, *args):
        """The spans of a step, that of the whole step, those of its thread, and the share of the step that these cover."""
        p = self.start("--local", *args, "--steps", "12", "--trace", path, "--trace_step", "3")
        self.assertEqual(p.end(), 0, p.lines)
        self.assertTrue(any("step 3 of /job:worker/task:0 is in" in line for line in p.lines["err"][:-1]), p.lines)
        spans = self.spans(path)
        os.unlink(path)
        root = next(e for e in spans if e["cat"] == "step")
        mine = [e for e in spans if e["pid"] == root["pid"] and e["tid"] == root["tid"] and e is not root]
        leaves = [e for e in mine if not any(o is not e and o["ts"] >= e["ts"] and o["ts"] + o["dur"] <= e["ts"] + e["dur"] for o in mine)]
        return spans, root, mine, sum(e["dur"] for e in leaves) / root["dur"]

    def test_a_step_of_the_chief(self):
        path = self.path("step.json")
        for cluster_, more in (("ps=2,workers=2", ("--sync",)), ("ps=2,workers=1", ())):
            for _ in range(10):  # a thread that does not run for a moment between two spans: of another step that is seldom so
                spans, root, mine, covered = self.traced(path, cluster_, *more)
                if covered >= 0.95:
                    break
            self.assertGreaterEqual(covered, 0.95)
            self.assertTrue({"dense", "dense_dw", "softmax_xent", "ps_step_done"} <= {e["name"] for e in mine})
            self.assertEqual({self.tasks[e["pid"]].split()[0] for e in spans if e["cat"] == "request"}, {"/job:ps/task:0", "/job:ps/task:1"})
            self.assertTrue(any(e["cat"] == "server" and e["name"] == "apply" for e in spans))
            self.assertEqual(any(e["name"] == "STEP" for e in spans), bool(more))

    def test_what_goes_wrong_ends_no_training(self):
        p = self.start("--local", "ps=1,workers=1", "--steps", "3", "--trace", self.path("t.json"), "--trace_step", "4")
        self.assertEqual(p.end(), 0, p.lines)
        self.assertTrue(any("--trace_step 4 was not reached" in line and "made 3 steps" in line for line in p.lines["err"][:-1]), p.lines)
        self.assertFalse(os.path.exists(self.path("t.json")))
        missing = self.path("none/t.json")
        p = self.start("--local", "ps=1,workers=1", "--steps", "3", "--trace", missing, "--trace_step", "2")
        self.assertEqual(p.end(), 0, p.lines)
        self.assertTrue(any(missing in line and "No such file" in line for line in p.lines["err"][:-1]), p.lines)


if __name__ == "__main__":
    sys.exit(cluster.main(unittest))
