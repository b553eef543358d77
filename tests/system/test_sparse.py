#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cluster with holes in its indices, real processes: psd, the trainer and psctl take it from a file, a literal and HELLO."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

from cluster import die_with_parent, free_port, main, path, run


class SparseCluster(unittest.TestCase):
    """ps tasks 1 and 4, worker 0 (the chief) and the worker 2 that never comes."""

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        ports = [free_port() for _ in range(4)]
        self.ps = {1: f"127.0.0.1:{ports[0]}", 4: f"127.0.0.1:{ports[1]}"}
        self.literal = "{'ps': %r,\n 'worker': {0: '127.0.0.1:%d', 2: '127.0.0.1:%d'},}" % (self.ps, ports[2], ports[3])
        self.file = os.path.join(self.directory.name, "cluster")
        with open(self.file, "w", encoding="utf-8") as f:
            f.write("# written by a test\n" + self.literal + "\n")

    def start(self, task):
        psd = subprocess.Popen([path("bin/psd"), "--cluster", "@" + self.file, "--task_index", str(task), "--log_level", "warn"],
                               stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        self.addCleanup(psd.wait)
        self.addCleanup(psd.kill)
        self.addCleanup(psd.stdout.close)
        self.assertEqual(psd.stdout.readline(), f"ready: psd://{self.ps[task]}\n")
        return psd

    def test_trains_and_lists(self):
        tasks = [self.start(1), self.start(4)]
        softmax = path("examples/softmax")
        code, out, err = run(softmax, "--cluster", self.literal, "--job_name", "worker", "--task_index", "0", "--steps", "20")
        self.assertEqual(code, 0, out + err)
        code, out, err = run(path("bin/psctl"), "--json", "-t", self.ps[4], "vars")  # any task tells the cluster
        self.assertEqual((code, err), (0, ""))
        found = {v["name"]: v["task"] for v in json.loads(out)["variables"]}
        self.assertEqual({name: found[name] for name in ("w", "b")}, {"w": "/job:ps/task:1", "b": "/job:ps/task:4"})
        for psd in tasks:
            psd.send_signal(signal.SIGTERM)
            self.assertEqual(psd.wait(timeout=600), 0)

    def test_who_is_not_there(self):
        for args, words in ((["--task_index", "2"], ["task_index 2", "tasks 1, 4"]),
                            (["--task_index", "1", "--job_name", "local"], ["'local'", "ps, worker"])):
            with self.subTest(args=args):
                code, out, err = run(path("bin/psd"), "--cluster", "@" + self.file, *args)
                self.assertNotEqual(code, 0)
                for word in words:
                    self.assertIn(word, err)
        code, out, err = run(path("bin/psd"), "--cluster", self.literal + "x")
        self.assertNotEqual(code, 0)
        self.assertIn("--cluster: cluster spec: line 2, column", err)
        code, out, err = run(path("bin/psd"), "--cluster", self.literal, "--task_index", "4", "--print_config")
        self.assertEqual((code, err), (0, ""))
        self.assertIn(f"\ncluster = ps=1@{self.ps[1]},4@{self.ps[4]};worker=", out)
        code, out, err = run(path("bin/psd"), "--cluster", "@" + self.file + "x")
        self.assertNotEqual(code, 0)
        self.assertIn(f"cluster file {self.file}x: No such file", err)
        code, out, err = run(path("bin/pstrain"), "--cluster", "@" + self.file, "--job_name", "worker", "--task_index", "1")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("--task_index 1: job worker has 2 tasks, 0, 2", err)
        self.assertNotIn("Traceback", err)


if __name__ == "__main__":
    sys.exit(main(unittest))
