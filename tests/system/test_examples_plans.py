#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples that compute on other tasks, with the seeds' numbers and with others: pinned, reduce_sum, pinned_mlp, in_graph."""
import json
import math
import os
import re
import sys
import tempfile
import unittest

from cluster import Cluster, main, path, run
from executors import Executors


def log_free(err):
    """Lines of standard error that are no log lines."""
    return [line for line in err.splitlines() if not line.startswith("ts=")]


def ones_of_numpy(count):
    """str(numpy.ones([count], int)), count <= 1,000: lines of at most 74 columns, which is 37 ones."""
    return "[" + "\n ".join(" ".join(["1"] * min(37, count - i)) for i in range(0, count, 37)) + "]"


class Plans(unittest.TestCase):
    def prints(self, name, address, *args):
        code, out, err = run(path("examples/" + name), "--target", address, *args, timeout=600)
        self.assertEqual(code, 0, err)
        return out

    def fails(self, name, address, *args):
        code, out, err = run(path("examples/" + name), "--target", address, *args)
        self.assertNotEqual(code, 0, out)
        return err

    def test_pinned(self):
        with Executors(1, workers=2) as cluster:
            target = "grpc://" + cluster.addresses[0]
            self.assertEqual(self.prints("pinned", target), "4.0\n")
            self.assertEqual(self.prints("pinned", target, "2.5", "4"), "9.0\n")
            self.assertEqual(self.prints("pinned", cluster.worker_addresses[1], "-1", "0.5"), "-1.5\n")
            _, _, err = run(path("examples/pinned"), "--target", target, "--log_device_placement")
            self.assertEqual(log_free(err), ["a: (Variable): /job:ps/task:0/device:CPU:0",
                                             "add: (Add): /job:worker/task:0/device:CPU:0",
                                             "add_1: (Add): /job:worker/task:1/device:CPU:0"])

    def test_who_cannot_execute(self):
        """Stock psd tasks as workers, and a worker that the cluster does not have."""
        with Cluster(1, workers=2) as cluster:
            err = self.fails("pinned", cluster.addresses[0])
            for word in ("UNIMPLEMENTED", "'add'", "/job:worker/task:0", "pstrain --serve"):
                self.assertIn(word, err)
        with Executors(1, workers=1) as cluster:
            err = self.fails("pinned", cluster.addresses[0])
            for word in ("INVALID_ARGUMENT", "'add_1'", "/job:worker/task:1"):
                self.assertIn(word, err)

    def traced(self, path, workers):
        """The trace of a run on so many workers: each is a process with the span of its call, and within it what it has reported."""
        with open(path, encoding="utf-8") as f:
            events = json.load(f)["traceEvents"]
        names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        spans = {}
        for event in events:
            if event["ph"] == "X":
                spans.setdefault(event["pid"], []).append(event)
        self.assertEqual([s["name"] for s in spans[1] if s["cat"] == "plan"], ["plan"])
        for k in range(workers):
            pid, = (p for p, name in names.items() if name.split()[0] == "/job:worker/task:%d" % k)
            calls = [s for s in spans[pid] if s["cat"] == "request"]
            self.assertTrue(calls and all(s["name"].startswith("CALL '") and s["args"]["status"] == "OK" for s in calls), calls)
            parts = [s for s in spans[pid] if s["cat"] == "server"]
            self.assertLessEqual({"queue", "inputs", "rows"}, {s["name"] for s in parts})
            for s in parts:
                self.assertTrue(any(c["tid"] == s["tid"] and c["ts"] <= s["ts"] + 0.002 and
                                    s["ts"] + s["dur"] <= c["ts"] + c["dur"] + 0.002 for c in calls), s)  # three decimals are written

    def reduce_sum(self, count, workers):
        with Executors(1, workers=workers) as cluster, tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "trace.json")
            out = self.prints("reduce_sum", cluster.worker_addresses[-1], str(count), str(workers), trace)
            self.traced(trace, workers)
            devices = "".join("/job:worker/task:%d\n" % k for k in range(workers))
            self.assertEqual(out, f"{devices}{count}\n''\n{ones_of_numpy(count // workers)}\n")
            for k in range(workers):
                said = cluster.said_by_worker(k)
                self.assertEqual(said, ["portion is[%d]" % (count // workers)] * (2 if k == workers - 1 else 1))

    def test_reduce_sum(self):
        self.assertEqual([len(line.split()) for line in ones_of_numpy(500).splitlines()], [37] * 13 + [19])  # as in the seed
        self.reduce_sum(1000, 2)

    def test_reduce_sum_of_others(self):
        for count, workers in ((36, 1), (37, 1), (222, 3), (2000, 2)):
            with self.subTest(count=count, workers=workers):
                self.reduce_sum(count, workers)

    def test_reduce_sum_that_does_not_divide(self):
        with Executors(1, workers=3) as cluster:
            err = self.fails("reduce_sum", cluster.worker_addresses[0], "100", "3")
            for word in ("INVALID_ARGUMENT", "'split'", "100"):
                self.assertIn(word, err)
            for args in (("0", "1"), ("10001", "1"), ("100", "0"), ("100", "65"), ("100", "-1"), ("5000", "127")):
                self.assertIn("COUNT: 1 to 10000; WORKERS: 1 to 64", self.fails("reduce_sum", cluster.worker_addresses[0], *args))

    def pinned_mlp(self, cluster, target, runs, *worker):
        out = self.prints("pinned_mlp", target, str(runs), *worker)
        device = worker[0] if worker else "/job:worker/task:7"
        found = re.fullmatch(re.escape(device) + r"/device:CPU:0: %d runs, loss (\d\.\d{3})\n" % runs, out)
        self.assertTrue(found, out)
        return float(found.group(1)), self.pushes_of(cluster)

    def test_pinned_mlp(self):
        with Executors(2, indices=[0, 7]) as cluster:
            loss, pushes = self.pinned_mlp(cluster, cluster.worker_addresses[1], 300)
            self.assertLess(loss, math.log(3) - 0.1)
            self.assertEqual(pushes, dict.fromkeys(("weights_1", "biases_1", "weights_2", "biases_2"), 300))
            again, pushes = self.pinned_mlp(cluster, cluster.addresses[1], 300, "/job:worker/task:0")  # as it begins, the same bits
            self.assertEqual(again, loss)
            self.assertEqual(set(pushes.values()), {600})

    def in_graph(self, target, replicas, steps, *mode):
        out = self.prints("in_graph", target, str(replicas), str(steps), *mode)
        found = re.fullmatch(r"%d replicas, %d steps, loss (\d\.\d{3})\n" % (replicas, steps), out)
        self.assertTrue(found, out)
        self.assertLess(float(found.group(1)), math.log(3) - 0.1)
        return float(found.group(1))

    def pushes_of(self, cluster):
        out = run(path("bin/psctl"), "-t", cluster.addresses[0], "--json", "vars")[1]
        return {v["name"]: v["pushes"] for v in json.loads(out)["variables"]}

    def test_in_graph_averaged(self):
        """The average over any number of workers is the gradient of the whole batch; it is pushed once a step."""
        with Executors(2, workers=3) as cluster:
            losses = [self.in_graph(cluster.addresses[1], replicas, 70) for replicas in (1, 2, 3)]
            self.assertLess(max(losses) - min(losses), 0.0025)  # three decimals are printed, float32 sums differ
            self.assertEqual(self.pushes_of(cluster), {"w": 210, "b": 210})

    def test_in_graph_asynchronous(self):
        with Executors(1, workers=3) as cluster:
            self.in_graph("grpc://" + cluster.worker_addresses[2], 3, 50, "asynchronous")
            self.assertEqual(self.pushes_of(cluster), {"w": 150, "b": 150})

    def test_in_graph_refuses(self):
        with Executors(1, workers=2) as cluster:
            for replicas, words in ((0, ["0 replicas"]), (1025, ["1025 replicas"]), (3, ["/job:worker/task:2"])):
                err = self.fails("in_graph", cluster.addresses[0], str(replicas), "1")
                for word in ["INVALID_ARGUMENT", *words]:
                    self.assertIn(word, err)


if __name__ == "__main__":
    sys.exit(main(unittest))
