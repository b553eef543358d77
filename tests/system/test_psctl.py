#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""psctl: every verb against a live cluster, a half-dead one and a dead one."""
import array
import ast
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import Cluster, die_with_parent, free_port, main, path, run

PSCTL = path("bin/psctl")
SOFTMAX = path("examples/softmax")


def train(cluster, steps):
    code, out, err = run(SOFTMAX, "--ps_hosts", cluster.hosts, "--steps", str(steps), "--seed", "7")
    if code != 0:
        raise RuntimeError(out + err)


class Live(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(2).__enter__()
        train(cls.cluster, 30)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__()

    def psctl(self, *args, code=0, env=None):
        got, out, err = run(PSCTL, "-t", self.cluster.addresses[1], *args, env=env)
        self.assertEqual(got, code, out + err)
        return out

    def test_status(self):
        out = self.psctl("status")
        lines = out.splitlines()
        self.assertIn("/job:ps/task:0", lines[1])
        self.assertIn(self.cluster.addresses[1], lines[2])
        self.assertIn("2 of 2 up", lines[3])
        status = json.loads(self.psctl("--json", "status"))
        self.assertEqual([t["name"] for t in status["tasks"]], ["/job:ps/task:0", "/job:ps/task:1"])
        self.assertTrue(all(t["up"] for t in status["tasks"]))
        self.assertEqual(status["total"]["up"], 2)
        # w on task 0, b on task 1, global_step on task 0: one push of each and one add per step
        self.assertEqual(status["total"]["variables"], 3)
        self.assertGreaterEqual(status["total"]["pushes_applied"], 60)
        self.assertEqual(status["tasks"][0]["pid"], self.cluster.tasks[0].pid)

    def test_target_from_environment_and_form(self):
        for target in (self.cluster.addresses[0], "psd://" + self.cluster.addresses[0]):
            code, out, _ = run(PSCTL, "status", "--json", env={"PSD_TARGET": target})
            self.assertEqual(code, 0)
            self.assertEqual(json.loads(out)["total"]["up"], 2)
        self.assertEqual(run(PSCTL, "--target=" + self.cluster.addresses[0], "ping")[0], 0)

    def test_vars(self):
        variables = {v["name"]: v for v in json.loads(self.psctl("vars", "--json"))["variables"]}
        self.assertEqual(sorted(variables), ["b", "global_step", "w"])
        self.assertEqual(variables["w"]["shape"], [64, 10])
        self.assertEqual(variables["w"]["optimizer"], {"kind": "adagrad", "learning_rate": 0.1, "initial_accumulator": 0.1})
        self.assertEqual(variables["w"]["task"], "/job:ps/task:0")
        self.assertEqual(variables["b"]["task"], "/job:ps/task:1")
        self.assertTrue(variables["b"]["sealed"])
        text = self.psctl("vars")
        self.assertIn("adagrad(learning_rate=0.1, initial_accumulator=0.1)", text)
        self.assertIn("3 variables", text)

    def test_get(self):
        got = json.loads(self.psctl("get", "global_step", "--json"))
        self.assertEqual(got["values"], [30])
        self.assertEqual(got["dtype"], "int64")
        text = self.psctl("get", "b")
        self.assertIn("float32 (10,)", text.splitlines()[0])
        self.assertEqual(len(text.splitlines()[1].split()), 10)
        values = json.loads(self.psctl("get", "w", "--json"))["values"]
        self.assertEqual(len(values), 640)
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "w.npy")
            self.psctl("get", "w", "--npy", name)
            with open(name, "rb") as file:
                data = file.read()
            self.assertEqual(os.listdir(folder), ["w.npy"])
        self.assertEqual(data[:8], b"\x93NUMPY\x01\x00")
        length = struct.unpack("<H", data[8:10])[0]
        self.assertEqual((10 + length) % 64, 0)
        self.assertEqual(data[9 + length:10 + length], b"\n")
        header = ast.literal_eval(data[10:10 + length].decode())
        self.assertEqual(header, {"descr": "<f4", "fortran_order": False, "shape": (64, 10)})
        floats = array.array("f", data[10 + length:])
        self.assertEqual(len(floats), 640)
        self.assertEqual(floats, array.array("f", values))

    def test_get_fails(self):
        code, out, err = run(PSCTL, "-t", self.cluster.addresses[0], "get", "nothing/here", "--json")
        self.assertEqual(code, 1)
        self.assertEqual(json.loads(out)["error"]["status"], "NOT_FOUND")
        self.assertIn("nothing/here", err)
        self.psctl("get", "w", "--npy", "/nonexistent/w.npy", code=1)
        self.psctl("get", code=2)

    def test_ping(self):
        self.assertEqual(len(self.psctl("ping").splitlines()), 3)
        for task in json.loads(self.psctl("ping", "--json"))["tasks"]:
            self.assertTrue(task["up"])
            self.assertLess(task["time_us"], 5e6)

    def test_config(self):
        tasks = json.loads(self.psctl("config", "--json"))["tasks"]
        self.assertEqual(len(tasks), 2)
        rows = {r["name"]: r for r in tasks[1]["settings"]}
        self.assertEqual(rows["log_level"]["value"], "warn")
        self.assertEqual(rows["log_level"]["default"], "info")
        one = json.loads(self.psctl("config", "/job:ps/task:1", "--json"))["tasks"]
        self.assertEqual([t["name"] for t in one], ["/job:ps/task:1"])
        self.psctl("config", "/job:ps/task:9", code=2)

    def test_usage(self):
        self.assertEqual(run(PSCTL)[0], 2)
        self.assertEqual(run(PSCTL, "frobnicate")[0], 2)
        self.assertEqual(run(PSCTL, "status", "--frobnicate")[0], 2)
        self.assertEqual(run(PSCTL, "status", "w")[0], 2)
        self.assertEqual(run(PSCTL, "status", "--all")[0], 2)
        self.assertEqual(run(PSCTL, "--timeout", "never", "status")[0], 2)
        self.assertEqual(run(PSCTL, "--timeout")[0], 2)
        self.assertEqual(run(PSCTL, "shutdown", "--all", "/job:ps/task:0")[0], 2)
        for verb in ("status", "vars", "get", "ping", "config", "shutdown"):
            code, out, err = run(PSCTL, verb, "--help")
            self.assertEqual((code, err), (0, ""))
            self.assertIn("usage: psctl", out)
            self.assertIn(verb, out)
        code, out, _ = run(PSCTL, "--help")
        self.assertEqual(code, 0)
        self.assertIn("PSD_TARGET", out)

    def test_full_output_is_a_failure(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([PSCTL, "-t", self.cluster.addresses[0], "status"], stdout=full, stderr=subprocess.DEVNULL,
                                  check=False)
        self.assertEqual(done.returncode, 1)


class HalfDead(unittest.TestCase):
    def test_the_rest_is_still_answered(self):
        for refuse in (True, False):
            with Cluster(3) as cluster:
                cluster.kill(1)
                if refuse:
                    cluster.refuse(1)  # else: accepted by nobody, the worse case
                started = time.monotonic()
                code, out, err = run(PSCTL, "-t", cluster.addresses[0], "--timeout", "0.7", "--json", "status")
                self.assertLess(time.monotonic() - started, 10)
                self.assertEqual(code, 1, out + err)
                tasks = json.loads(out)["tasks"]
                self.assertEqual([t["up"] for t in tasks], [True, False, True])
                self.assertNotEqual(tasks[1]["error"], "")
                self.assertIn("/job:ps/task:1", err)
                self.assertIn(cluster.addresses[1], err)
                for verb in ("ping", "vars", "config"):
                    code, out, err = run(PSCTL, "-t", cluster.addresses[0], "--timeout", "0.5", verb)
                    self.assertEqual(code, 1, verb + out + err)
                    self.assertIn("/job:ps/task:1", err)
                self.assertIn("down", run(PSCTL, "-t", cluster.addresses[2], "--timeout", "0.5", "status")[1])

    def test_nobody_there(self):
        target = "127.0.0.1:%d" % free_port()
        code, out, err = run(PSCTL, "-t", target, "--timeout", "0.5", "status")
        self.assertEqual((code, out), (1, ""))
        self.assertIn(target, err)
        self.assertEqual(run(PSCTL, "-t", "bad address:x", "status")[0], 1)

    def test_stopped_task(self):
        with Cluster(2) as cluster:
            cluster.tasks[1].send_signal(signal.SIGSTOP)
            code, out, _ = run(PSCTL, "-t", cluster.addresses[0], "--timeout", "1", "--json", "status")
            self.assertEqual(code, 1)
            self.assertEqual([t["up"] for t in json.loads(out)["tasks"]], [True, False])
            cluster.tasks[1].send_signal(signal.SIGCONT)
            self.assertEqual(run(PSCTL, "-t", cluster.addresses[0], "status")[0], 0)


class Shutdown(unittest.TestCase):
    def test_one_and_all(self):
        with Cluster(3) as cluster:
            code, out, err = run(PSCTL, "-t", cluster.addresses[0], "shutdown", "/job:ps/task:2", "--yes")
            self.assertEqual(code, 0, out + err)
            self.assertEqual(cluster.tasks[2].wait(15), 0)
            cluster.refuse(2)
            self.assertEqual(run(PSCTL, "-t", cluster.addresses[0], "shutdown", "/job:ps/task:7")[0], 2)
            code, out, err = run(PSCTL, "-t", cluster.addresses[0], "--timeout", "1", "--json", "shutdown", "--all")
            self.assertEqual(code, 1, out + err)  # one was down already
            done = {t["name"]: t["ok"] for t in json.loads(out)["tasks"]}
            self.assertEqual(done, {"/job:ps/task:0": True, "/job:ps/task:1": True, "/job:ps/task:2": False})
            self.assertEqual(cluster.tasks[0].wait(15), 0)
            self.assertEqual(cluster.tasks[1].wait(15), 0)

    def test_asks_on_a_terminal(self):
        with Cluster(1) as cluster:
            for answer, ends in ((b"n\n", False), (b"y\n", True)):
                outer, inner = pty.openpty()
                child = subprocess.Popen([PSCTL, "-t", cluster.addresses[0], "shutdown"], stdin=inner, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
                os.write(outer, answer)
                _, err = child.communicate(timeout=30)
                os.close(inner)
                os.close(outer)
                self.assertIn("Shut down /job:ps/task:0", err)
                self.assertEqual(child.returncode, 0 if ends else 1)
                self.assertEqual(cluster.tasks[0].poll() is None or ends, True)
            self.assertEqual(cluster.tasks[0].wait(15), 0)


if __name__ == "__main__":
    sys.exit(main(unittest))
