#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 300
"""psctl: every verb against a live cluster, a half-dead one and a dead one."""
import array
import ast
import fcntl
import json
import os
import re
import pty
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest

from cluster import SECURE, Cluster, die_with_parent, free_port, halt, main, path, run

PSCTL = path("bin/psctl")
PSTRAIN = path("bin/pstrain")
VERBS = re.findall(r"^ {2}([a-z-]+)", run(PSCTL, "--help")[1].split("\n\n")[1], re.M)
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
        got, out, err = run(PSCTL, "-t", self.cluster.addresses[-1], *args, env=env)
        self.assertEqual(got, code, out + err)
        return out

    def refused(self, *args, code=1, says):
        got, out, err = run(PSCTL, "-t", self.cluster.addresses[-1], *args)
        self.assertEqual((got, out), (code, ""), err)
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, err)

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
        self.assertEqual({n: v["bytes"] for n, v in variables.items()}, {"w": 2560, "b": 40, "global_step": 8})
        self.assertEqual(variables["w"]["task"], "/job:ps/task:0")
        self.assertEqual(variables["b"]["task"], "/job:ps/task:1")
        self.assertTrue(variables["b"]["sealed"])
        self.assertEqual({v["container"] for v in variables.values()}, {"localhost"})
        for glob, names in (("*", ["b", "global_step", "w"]), ("global*", ["global_step"]), ("[bw]", ["b", "w"]), ("b", ["b"])):
            self.assertEqual(sorted(v["name"] for v in json.loads(self.psctl("vars", glob, "--json"))["variables"]), names)
        self.assertIn("\n1 variable\n", self.psctl("vars", "w"))
        self.assertIn("3 variables", self.psctl("vars", "--container", "localhost"))
        text = self.psctl("vars")
        self.assertIn("adagrad(learning_rate=0.1, initial_accumulator=0.1)", text)
        self.assertIn("3 variables", text)

    def test_variable_defs(self):
        def text(name):
            return 'variable_name: "%s:0"\ninitializer_name: "%s/Assign"\nsnapshot_name: "%s/read:0"\n' % (name, name, name)
        self.assertEqual(self.psctl("vars", "w", "--def"), text("w"))
        self.assertEqual(self.psctl("vars", "--def").count("\n\n"), 2)
        self.assertEqual(sorted((self.psctl("vars", "--def") + "\n").split("\n\n")[:3]),
                         [text(name)[:-1] for name in ("b", "global_step", "w")])
        rows = json.loads(self.psctl("vars", "[bw]", "--def", "--json"))["variables"]
        self.assertEqual(sorted((v["name"], v["container"], v["task"], v["def"]) for v in rows),
                         [("b", "localhost", "/job:ps/task:1", text("b")), ("w", "localhost", "/job:ps/task:0", text("w"))])
        code, out, err = run(PSCTL, "-t", self.cluster.addresses[0], "vars", "nope", "--def")
        self.assertEqual((code, out, err), (1, "", "psctl: no variable matches 'nope'\n"))

    def test_set_lr(self):
        def seen():
            rows = json.loads(self.psctl("vars", "--json"))["variables"]
            return {v["name"]: (v["optimizer"].get("learning_rate"), v["set_lr"]) for v in rows}
        self.assertEqual(seen(), {"w": (0.1, None), "b": (0.1, None), "global_step": (None, None)})
        self.assertEqual(self.psctl("set-lr", "w", "0.025"), "w on /job:ps/task:0/device:CPU:0: learning rate 0.025\n")
        self.assertEqual(seen()["w"], (0.1, 0.025))
        self.assertIn("adagrad(learning_rate=0.1, initial_accumulator=0.1), set-lr 0.025\n", self.psctl("vars", "w"))
        self.assertEqual(json.loads(self.psctl("set-lr", "--all", "1e-3", "--json")),
                         {"container": "localhost", "variables": 2, "rate": 0.001})
        self.assertEqual(seen(), {"w": (0.1, 0.001), "b": (0.1, 0.001), "global_step": (None, None)})
        train(self.cluster, 60)  # its chief brings hyperparameters
        self.assertEqual(seen()["b"], (0.1, 0.001))
        self.assertEqual(json.loads(self.psctl("set-lr", "b", "--clear", "--json")),
                         {"name": "b", "container": "localhost", "device": "/job:ps/task:1/device:CPU:0", "rate": None})
        self.assertEqual(seen(), {"w": (0.1, 0.001), "b": (0.1, None), "global_step": (None, None)})
        self.assertEqual(self.psctl("set-lr", "--all", "--clear"),
                         "container 'localhost': the optimizer's own learning rate for 2 variables\n")
        self.assertEqual(seen()["w"], (0.1, None))
        for rate in ("nan", "inf", "-1", "0", "1e-60"):
            self.refused("set-lr", "w", rate, says="must be finite and > 0")
            self.refused("set-lr", "--all", rate, says="must be finite and > 0")
        self.refused("set-lr", "w", "fast", says="'fast' is no learning rate")
        self.refused("set-lr", "w", "", says="'' is no learning rate")
        self.refused("set-lr", "global_step", "1", says="has no optimizer")
        self.refused("set-lr", "global_stepp", "1", says="did you mean global_step?")
        self.refused("set-lr", "w", "1", "--container", "other", says="--container localhost has one")
        self.refused("set-lr", "--all", "1", "--container", "other", says="container 'other' has no variable with an optimizer")
        for args in ([], ["w"], ["--all"], ["--clear"], ["w", "1", "--clear"], ["--all", "w", "1"], ["--all", "--clear", "1"]):
            self.refused("set-lr", *args, code=2, says="NAME or --all, and a RATE or --clear")
        self.assertEqual(seen()["w"], (0.1, None))

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
        for verb in (["get"], ["set", "1"], ["delete", "--yes"]):
            self.refused(verb[0], "global_stp", *verb[1:], says=["'global_stp'", "(did you mean global_step?)"])
            self.refused(verb[0], "w", *verb[1:], "--container", "other", says="(--container localhost has one)")
        self.psctl("get", "w", "--npy", "/nonexistent/w.npy", code=1)
        self.psctl("get", code=2)

    def test_what_is_not_there(self):
        for args, says in ((["--container", "nope"], "there is no container 'nope'"),
                           (["--container", "localhots"], "there is no container 'localhots' (did you mean localhost?)"),
                           (["global_stp"], "no variable matches 'global_stp' (did you mean global_step?)"),
                           (["x*"], "no variable matches 'x*'"),
                           (["x*", "--container", "localhost"], "no variable of container 'localhost' matches 'x*'")):
            code, out, err = run(PSCTL, "-t", self.cluster.addresses[0], "vars", *args)
            self.assertEqual((code, err), (1, "psctl: %s\n" % says))
            self.assertIn("0 variables", out)
            code, out, err = run(PSCTL, "-t", self.cluster.addresses[0], "vars", *args, "--json")
            self.assertEqual((code, json.loads(out)["error"]), (1, {"status": "NOT_FOUND", "reason": "NOT_FOUND", "message": says}))
            self.assertEqual(json.loads(out)["variables"], [])
        for name, near in (("nope", ""), ("localhots", " (did you mean localhost?)")):
            self.refused("reset", "localhost", name, "--yes",
                         says="there is no container '%s'%s; nothing was reset" % (name, near))
            code, out, _ = run(PSCTL, "-t", self.cluster.addresses[0], "reset", name, "--yes", "--json")
            self.assertEqual((code, json.loads(out)["error"]["status"]), (1, "NOT_FOUND"))
        self.assertIn("3 variables", self.psctl("vars"))
        self.assertEqual(run(PSCTL, "-t", self.cluster.addresses[0], "status", "ps:7")[0], 2)

    def test_status_of_one_task(self):
        lines = self.psctl("status", "ps:1").splitlines()
        self.assertEqual(len(lines), 2)
        self.assertIn("/job:ps/task:1", lines[1])
        status = json.loads(self.psctl("status", "/job:ps/task:1", "--json"))
        self.assertEqual([t["name"] for t in status["tasks"]], ["/job:ps/task:1"])
        self.assertEqual((status["total"]["tasks"], status["total"]["variables"]), (1, 1))

    def test_help_of_a_verb(self):
        self.assertEqual(run(PSCTL, "help"), run(PSCTL, "--help"))
        for verb in VERBS:
            self.assertEqual(run(PSCTL, "help", verb), run(PSCTL, verb, "--help"))
        code, out, err = run(PSCTL, "help", "statsu")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("did you mean status?", err)

    def test_ping(self):
        self.assertEqual(len(self.psctl("ping").splitlines()), 3)
        for task in json.loads(self.psctl("ping", "--json"))["tasks"]:
            self.assertTrue(task["up"])
            self.assertTrue(0 < task["time_us"] < 600e6, task)

    def test_config(self):
        tasks = json.loads(self.psctl("config", "--json"))["tasks"]
        self.assertEqual(len(tasks), 2)
        rows = {r["name"]: r for r in tasks[1]["settings"]}
        self.assertEqual(rows["log_level"]["value"], "warn")
        self.assertEqual(rows["log_level"]["default"], "info")
        one = json.loads(self.psctl("config", "/job:ps/task:1", "--json"))["tasks"]
        self.assertEqual([t["name"] for t in one], ["/job:ps/task:1"])
        self.psctl("config", "/job:ps/task:9", code=2)
        got = json.loads(self.psctl("config", "get", "log_level", "--task", "ps:0", "--json"))["tasks"]
        self.assertEqual([(t["name"], [s["name"] for s in t["settings"]]) for t in got], [("/job:ps/task:0", ["log_level"])])
        self.assertEqual(len(json.loads(self.psctl("config", "get", "--json"))["tasks"][0]["settings"]), len(rows))
        lines = self.psctl("config", "get", "beat").splitlines()
        self.assertEqual([line.split()[:4] for line in lines],
                         [["TASK", "SETTING", "VALUE", "DEFAULT"]] + [["/job:ps/task:%d" % i, "beat", "2.5s", "2.5s"] for i in (0, 1)])
        self.refused("config", "get", "log_lvel", says="did you mean log_level?")
        self.psctl("config", "get", "log_level", "--task", "ps:9", code=2)
        self.psctl("config", "get", "a", "b", code=2)
        self.psctl("config", "log_level", code=2)
        self.psctl("config", "ps:0", "--task", "ps:0", code=2)

    def test_queues(self):
        address = self.cluster.addresses[0]
        queue = path("examples/queue")
        self.assertEqual(self.psctl("queues").splitlines()[1:], ["none"])
        self.assertEqual(run(queue, address, "put", "5", "-6", "7"), (0, "", ""))
        head, row = self.psctl("queues").splitlines()
        self.assertEqual(head.split()[:8], ["NAME", "CONTAINER", "TASK", "KIND", "ELEMENTS", "SIZE", "CAPACITY", "TAKEN"])
        self.assertEqual(row.split(), ["numbers", "localhost", "/job:ps/task:0", "FIFO", "int64", "()", "3", "10", "0", "24", "B",
                                       "0", "0", "open"])
        one = json.loads(self.psctl("queues", "--json"))["queues"]
        self.assertEqual([(q["name"], q["size"], q["capacity"], q["closed"], q["elements"]) for q in one],
                         [("numbers", 3, 10, False, [{"dtype": "int64", "shape": []}])])
        self.assertEqual(self.psctl("queues", "--task", "ps:1").splitlines()[1:], ["none"])
        self.assertEqual(self.psctl("queue", "numbers", "take", "2"), "5\n-6\n")
        self.psctl("queue", "numbers", "put", "8")
        self.assertEqual(json.loads(self.psctl("queue", "numbers", "take", "2", "--json")),
                         {"name": "numbers", "elements": [[[7]], [[8]]]})
        self.refused("queue", "numbers", "put", "x", says="queue 'numbers'")
        self.psctl("queue", "numbers", "put", "1", "2", code=2)
        self.psctl("queue", "numbers", "take", "0", code=2)
        self.psctl("queue", "numbers", "shut", code=2)
        self.refused("queue", "nombers", "take", says="'nombers'")
        self.refused("--timeout", "4", "queue", "numbers", "take", says="too few elements in time")
        self.psctl("queue", "numbers", "close")
        self.refused("queue", "numbers", "close", says="already closed")
        self.refused("queue", "numbers", "put", "1", says="closed")
        self.assertEqual(self.psctl("queues").splitlines()[1].split()[-1], "closed")
        self.assertEqual(self.psctl("delete", "numbers", "--yes"), "numbers on /job:ps/task:0/device:CPU:0 is deleted\n")
        self.assertEqual(self.psctl("queues").splitlines()[1:], ["none"])
        self.refused("delete", "numbers", "--yes", says="'numbers'")

    def test_accumulators(self):
        with Cluster(1) as one:
            flags = ("--ps_hosts", one.hosts, "--worker_hosts", "192.0.2.1:1", "--job_name", "worker", "--task_index", "0", "--rounds", "3")
            code, out, err = run(path("examples/accumulator"), *flags)
            self.assertEqual((code, out), (0, "step 3: w = 0.875000 -1.750000 3.500000\n"), err)
            rows = run(PSCTL, "-t", one.addresses[0], "queues")[1].splitlines()[1:]
            self.assertEqual([row.split() for row in rows][0], ["b/grad_accum", "localhost", "/job:ps/task:0", "ACCUMULATOR", "float32", "(3,)",
                                                                "1", "unbounded", "0", "16", "B", "0", "0", "step", "3"])
            queues = json.loads(run(PSCTL, "-t", one.addresses[0], "queues", "--json")[1])["queues"]
            self.assertEqual([(q["name"], q.get("step"), q.get("reduction"), q.get("dropped"), q.get("came_back")) for q in queues],
                             [("b/grad_accum", 3, "MEAN", 0, 0), ("sync_token_q", None, None, None, None),
                              ("w/grad_accum", 3, "MEAN", 0, 0)])
            code, _, err = run(PSCTL, "-t", one.addresses[0], "queue", "w/grad_accum", "take")
            self.assertEqual(code, 1)
            self.assertIn("is an accumulator", err)

    def test_a_reset_tells_of_queues(self):
        with Cluster(1) as cluster:
            address = cluster.addresses[0]
            self.assertEqual(run(path("examples/queue"), address, "put", "5"), (0, "", ""))
            row, = json.loads(run(PSCTL, "-t", address, "containers", "--json")[1])["containers"]
            self.assertEqual((row["variables"], row["queues"], row["bytes"]), (0, 1, 8))
            self.assertEqual(run(PSCTL, "-t", address, "reset", "--yes"),
                             (0, "container 'localhost': 0 variables, 1 queue, 8 B gone\n", ""))

    def test_work(self):
        self.assertEqual(self.psctl("work").splitlines()[1:], ["none"])
        self.assertEqual(run(path("examples/work"), self.cluster.addresses[0], "2", "a", "b")[0], 0)
        work = json.loads(self.psctl("work", "--json"))["work"]
        self.assertEqual([(w["name"], w["epoch"], w["epochs"], w["items"], w["held"], w["left"]) for w in work],
                         [("work", 3, 2, 2, 0, 0)])
        self.assertIn("all done  2 of 2", self.psctl("work"))
        self.refused("queue", "work", "take", says="'work' is a work queue")

    def test_usage(self):
        self.assertEqual(run(PSCTL)[0], 2)
        self.assertEqual(run(PSCTL, "frobnicate")[0], 2)
        self.assertEqual(run(PSCTL, "status", "--frobnicate")[0], 2)
        self.assertEqual(run(PSCTL, "ping", "w")[0], 2)
        self.assertEqual(run(PSCTL, "status", "--all")[0], 2)
        self.assertEqual(run(PSCTL, "--timeout", "never", "status")[0], 2)
        self.assertEqual(run(PSCTL, "--timeout")[0], 2)
        self.assertEqual(run(PSCTL, "shutdown", "--all", "/job:ps/task:0")[0], 2)
        self.assertEqual(run(PSCTL, "reset", "--all", "a")[0], 2)
        self.assertEqual(run(PSCTL, "set", "x")[0], 2)
        self.assertEqual(run(PSCTL, "set", "x", "1", "--npy", "f")[0], 2)
        self.assertEqual(run(PSCTL, "set", "x", "--fill", "--npy", "f")[0], 2)
        self.assertEqual(run(PSCTL, "completion", "tcsh")[0], 2)
        for line in (["statsu"], ["status", "--frobnicate"], ["status", "w", "x"], ["status", "--all"], ["--timeout", "never", "status"],
                     ["get"], ["set", "x"], ["config", "log_level"], ["reset", "--all", "a"], ["shutdown"],
                     ["shutdown", "--all", "ps:0"], ["completion", "tcsh"], [], ["-t", "x:y:z", "status"]):
            plain = run(PSCTL, *line)
            code, out, err = run(PSCTL, *line, "--json")
            self.assertEqual((plain[0], code), (2, 2), line)
            error = json.loads(out)["error"]
            self.assertEqual(error["status"], "INVALID_ARGUMENT", line)
            self.assertEqual(err, "psctl: %s\n" % error["message"])
        self.assertEqual(run(PSCTL, "statsu", "--", "--json")[1], "")
        self.assertIn("did you mean status?", run(PSCTL, "statsu")[2])
        self.assertIn("did you mean --timeout?", run(PSCTL, "--time-out", "5", "status")[2])
        self.assertIn("takes no --all", run(PSCTL, "status", "--all")[2])
        for verb in VERBS:
            code, out, err = run(PSCTL, verb, "--help")
            self.assertEqual((code, err), (0, ""))
            self.assertIn("usage: psctl", out)
            self.assertIn(verb, out)
        code, out, _ = run(PSCTL, "--help")
        self.assertEqual(code, 0)
        self.assertIn("PSD_TARGET", out)

    def test_full_output_is_a_failure(self):
        for args in (["status"], ["status", "--watch", "60"], ["vars", "--json"], ["completion", "bash"], ["--help"]):
            with open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([PSCTL, "-t", self.cluster.addresses[0], *args], stdout=full, stderr=subprocess.PIPE,
                                      check=False, timeout=600)
            self.assertEqual(done.returncode, 1, args)
            self.assertIn(b"cannot write to standard output", done.stderr)

    def test_closed_output_is_a_failure(self):
        for args in (["status"], ["status", "--watch", "60"], ["get", "w", "--npy", "-"]):
            code, _, err = run("/bin/sh", "-c", '"$0" "$@" >&-', PSCTL, "-t", self.cluster.addresses[0], *args)
            self.assertEqual(code, 1, args)
            self.assertIn("cannot write to standard output", err)

    def test_containers(self):
        rows = json.loads(self.psctl("containers", "--json"))["containers"]
        self.assertEqual([(r["name"], r["task"], r["variables"], r["initialised"]) for r in rows],
                         [("localhost", "/job:ps/task:0", 2, 2), ("localhost", "/job:ps/task:1", 1, 1)])
        # values and the slot of adagrad, float32; global_step has none
        self.assertEqual([r["bytes"] for r in rows], [640 * 4 * 2 + 8, 10 * 4 * 2])
        self.assertEqual(len(self.psctl("containers").splitlines()), 3)
        # the chief that made it is known to both, only the directory knows what is left of its lease
        self.assertEqual(*(r["chief_number"] for r in rows))
        self.assertTrue(rows[1]["chief"] != "" and "chief_left_ms" not in rows[1], rows)


    def test_devices(self):
        devices = json.loads(self.psctl("devices", "--json"))["devices"]
        self.assertEqual([(d["name"], d["type"], d["index"]) for d in devices],
                         [("/job:ps/task:0/device:CPU:0", "CPU", 0), ("/job:ps/task:1/device:CPU:0", "CPU", 0)])
        budgets = [t["budget_bytes"] for t in json.loads(self.psctl("status", "--json"))["tasks"]]
        self.assertEqual([d["memory_bytes"] for d in devices], budgets)
        self.assertEqual(len(self.psctl("devices").splitlines()), 3)

    def test_nothing_is_in_rounds(self):
        text = self.psctl("rounds")
        self.assertTrue(text.startswith("no container is trained in rounds, or with bounded staleness\nage of gradients"), text)
        self.assertEqual(json.loads(self.psctl("rounds", "--json"))["rounds"], [])

    def test_nothing_waits(self):
        self.assertEqual(json.loads(self.psctl("waits", "--json")), {"waits": [], "down": []})
        self.assertEqual(self.psctl("waits").splitlines()[-1], "nothing waits")


class Workers(unittest.TestCase):
    psctl = Live.psctl
    refused = Live.refused

    def worker(self, task):
        child = subprocess.Popen([SOFTMAX, "--ps_hosts", self.cluster.hosts, "--worker_hosts", "a:1,b:2", "--job_name", "worker",
                                  "--task_index", str(task), "--steps", "1000000000"], stdout=subprocess.DEVNULL,
                                 preexec_fn=die_with_parent)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def until(self, verb, ready):
        """What `psctl VERB --json` says, once it is so; each look takes some milliseconds."""
        end = time.monotonic() + 600
        got = json.loads(self.psctl(*verb, "--json"))
        while not ready(got):
            self.assertLess(time.monotonic(), end, got)
            got = json.loads(self.psctl(*verb, "--json"))
        return got

    def test_waits_workers_stop(self):
        with Cluster(2) as self.cluster:
            late = self.worker(1)
            waits = self.until(["waits"], lambda got: {w["at"] for w in got["waits"]} == {"/job:ps/task:0", "/job:ps/task:1"})["waits"]
            at = {w["at"]: w for w in waits}
            self.assertEqual(at["/job:ps/task:0"]["task"], "/job:worker/task:1")
            self.assertEqual((at["/job:ps/task:0"]["pid"], at["/job:ps/task:0"]["program"]), (late.pid, "softmax"))
            self.assertIn("b", at["/job:ps/task:1"]["what"])
            self.assertIn("chief", at["/job:ps/task:0"]["release"])
            self.assertLessEqual(at["/job:ps/task:0"]["left_ms"], 600000)
            only = json.loads(self.psctl("waits", "--task", "ps:1", "--json"))["waits"]
            self.assertEqual({w["at"] for w in only}, {"/job:ps/task:1"})
            text = self.psctl("waits")
            self.assertIn("/job:worker/task:1, pid %d" % late.pid, text)
            self.assertIn("WHAT ENDS IT", text)
            chief = self.worker(0)
            self.until(["waits"], lambda got: got["waits"] == [])
            stepped = self.until(["workers"], lambda got: [s.get("global_step", 0) > 10 for s in got["sessions"]] == [True, True])
            self.assertEqual(stepped["asked"], ["/job:ps/task:0"])
            self.assertEqual([(s["task"], s["pid"], s["program"], s["connected"]) for s in stepped["sessions"]],
                             [("/job:worker/task:0", chief.pid, "softmax", True), ("/job:worker/task:1", late.pid, "softmax", True)])
            for s in stepped["sessions"]:  # which have just begun: no rate yet, or one
                self.assertTrue(s.get("steps_per_second", 1) > 0 or s["age_ms"] >= 10000, s)
            text = self.psctl("workers").splitlines()
            self.assertEqual(text[0].split(), "TASK HOST PID PROGRAM STEP STEPS/S LAST-HEARD HOLDS STATE".split() + ["IDENTITY"] * SECURE)
            self.assertIn("connected", text[1])
            self.assertIn("psctl", self.psctl("workers", "--help"))
            self.assertEqual(json.loads(self.psctl("workers", "--task", "ps:1", "--json"))["asked"], ["/job:ps/task:1"])
            self.psctl("workers", "--task", "ps:7", code=2)
            code, _, err = answer(self.cluster, b"n\n", "stop")
            self.assertEqual(code, 1)
            self.assertIn("Tell every worker", err)
            self.assertIsNone(chief.poll())
            self.assertEqual(json.loads(self.psctl("stop", "--yes", "--json")), {"sessions": 2})
            self.assertEqual((chief.wait(600), late.wait(600)), (0, 0))
            self.assertEqual(self.psctl("stop", "--yes"), "0 sessions were told to stop\n")

    def test_a_session_without_task(self):
        with Cluster(1) as self.cluster:
            child = subprocess.Popen([SOFTMAX, "--ps_hosts", self.cluster.hosts, "--steps", "1000000000"],
                                     stdout=subprocess.DEVNULL, preexec_fn=die_with_parent)
            self.addCleanup(child.wait)
            self.addCleanup(child.kill)
            seen = self.until(["workers"], lambda got: len(got["sessions"]) == 1)["sessions"][0]
            self.assertEqual((seen["task"], seen["pid"]), ("", child.pid))
            self.assertEqual(self.psctl("workers").splitlines()[1].split()[0], "-")
            child.kill()
            gone = self.until(["workers"], lambda got: [s["connected"] for s in got["sessions"]] == [False])
            self.assertEqual([(s["state"], s["pid"]) for s in gone["sessions"]], [("gone", child.pid)])
            self.assertEqual(gone["gone_left_out"], 0)
            self.assertIn("gone", self.psctl("workers"))
            self.assertIn("gone", self.psctl("workers", "--all"))

    def test_the_directory_is_down(self):
        with Cluster(2) as self.cluster:
            chief = self.worker(0)
            late = self.worker(1)
            self.until(["workers"], lambda got: [s.get("global_step", 0) > 0 for s in got["sessions"]] == [True, True])
            self.cluster.kill(0)
            self.cluster.refuse(0)
            code, out, err = run(PSCTL, "-t", self.cluster.addresses[1], "--timeout", "3600", "workers", "--json")
            self.assertEqual(code, 1)
            self.assertIn("the directory does not answer: these are the sessions that the other tasks know", err)
            got = json.loads(out)
            self.assertEqual(got["asked"], ["/job:ps/task:1"])
            self.assertEqual([(s["task"], s["pid"]) for s in got["sessions"]],
                             [("/job:worker/task:0", chief.pid), ("/job:worker/task:1", late.pid)])
            self.assertEqual([d["task"] for d in got["down"]], ["/job:ps/task:0"])
            self.assertEqual(len(json.loads(self.psctl("--timeout", "3600", "workers", "--task", "ps:1", "--json"))["sessions"]), 2)
            code, out, err = run(PSCTL, "-t", self.cluster.addresses[1], "--timeout", "3600", "stop", "--yes")
            self.assertEqual((code, out), (1, "2 sessions were told to stop\n"))
            self.assertIn("/job:ps/task:0 (%s) is down" % self.cluster.addresses[0], err)
            self.assertIn("the directory does not answer: the other tasks have told those that they know", err)
            self.until(["workers", "--task", "ps:1"], lambda got: [s["stopping"] for s in got["sessions"]] == [True, True])


class ConfigSet(unittest.TestCase):
    psctl = Live.psctl
    refused = Live.refused

    def levels(self):
        tasks = json.loads(self.psctl("config", "get", "log_level", "--json"))["tasks"]
        return [t["settings"][0]["value"] for t in tasks]

    def test_config_set(self):
        with Cluster(2) as self.cluster:
            self.assertEqual(self.psctl("config", "set", "log_level", "error"),
                             "/job:ps/task:0: log_level warn -> error\n/job:ps/task:1: log_level warn -> error\n")
            self.assertEqual(self.levels(), ["error", "error"])
            done = json.loads(self.psctl("config", "set", "log_level", "off", "--task", "ps:1", "--json"))
            self.assertEqual(done, {"changed": [{"name": "/job:ps/task:1", "setting": "log_level", "old": "error", "new": "off"}]})
            self.assertEqual(self.levels(), ["error", "off"])
            self.assertEqual(self.psctl("config", "set", "drain", "5", "--task", "ps:0"), "/job:ps/task:0: drain 10s -> 5s\n")
            self.refused("config", "set", "log_level", "loud", says=["'loud'", "warn", "nothing was changed"])
            self.refused("config", "set", "logevel", "warn", says="did you mean log_level?")
            self.refused("config", "set", "job_name", "x", says=["job_name", "cannot change while it runs"])
            self.assertEqual(self.levels(), ["error", "off"])
            self.psctl("config", "set", "log_level", code=2)
            self.psctl("config", "set", code=2)
            self.cluster.kill(1)
            self.cluster.refuse(1)
            code, out, err = run(PSCTL, "-t", self.cluster.addresses[0], "--timeout", "3600", "config", "set", "log_level", "warn")
            self.assertEqual((code, out), (1, ""))
            self.assertIn("nothing was changed", err)
            code, out, _ = run(PSCTL, "-t", self.cluster.addresses[0], "config", "set", "log_level", "warn", "--task", "ps:0")
            self.assertEqual((code, out), (0, "/job:ps/task:0: log_level error -> warn\n"))


    def test_a_task_of_pstrain(self):
        with socket.create_server(("127.0.0.1", 0)) as ear:
            target = "127.0.0.1:%d" % ear.getsockname()[1]
            script = 'exec 3<&%d; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$0" "$@"' % ear.fileno()
            with subprocess.Popen(["/bin/bash", "-c", script, PSTRAIN, "--ps_hosts", target, "--job_name", "ps"],
                                  pass_fds=[ear.fileno()], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  preexec_fn=die_with_parent) as task:
                self.assertIn(b"ready:", task.stdout.readline())
                self.assertEqual(run(PSCTL, "-t", target, "config", "set", "log_level", "debug"),
                                 (0, "/job:ps/task:0: log_level info -> debug\n", ""))
                self.assertEqual(run(PSCTL, "-t", target, "ping")[0], 0)
                task.terminate()
                self.assertIn(b"ev=session_up", task.communicate(timeout=600)[1])


class Set(unittest.TestCase):
    """Values that go in; each test has variables of its own kind of change, the cluster is shared."""
    setUpClass = Live.__dict__["setUpClass"]
    tearDownClass = Live.__dict__["tearDownClass"]
    psctl = Live.psctl
    refused = Live.refused

    def values(self, name):
        return json.loads(self.psctl("get", name, "--json"))["values"]

    def version(self, name):
        return json.loads(self.psctl("get", name, "--json"))["version"]

    def test_scalar(self):
        before = self.version("global_step")
        old = self.values("global_step")[0]
        out = self.psctl("set", "global_step", "-7")
        self.assertIn("%d, version %d -> -7, version %d" % (old, before, before + 1), out)
        self.assertEqual(self.values("global_step"), [-7])
        done = json.loads(self.psctl("set", "global_step", str(2**63 - 1), "--json"))
        self.assertEqual((done["old_version"], done["new_version"], done["was_initialised"]), (before + 1, before + 2, True))
        self.assertEqual(self.values("global_step"), [2**63 - 1])
        for value in ("1.5", "nan", "1e3", str(2**63), "[1]", "true", ""):
            self.refused("set", "global_step", value, says="variable 'global_step'")
        self.assertEqual(self.version("global_step"), before + 2)

    def test_lists(self):
        before = self.version("b")
        self.refused("set", "b", "1", says=["shape is (10,)", "--fill"])
        self.psctl("set", "b", "0.25", "--fill")
        self.assertEqual(self.values("b"), [0.25] * 10)
        self.psctl("set", "b", "[0, 1, 2, 3, 4, 5, 6, 7, 8, -9e-1]")
        self.assertAlmostEqual(self.values("b")[9], -0.9, places=6)
        self.psctl("set", "b", "-inf", "--fill")
        self.assertIn("-inf", self.psctl("get", "b"))
        self.assertEqual(self.values("b"), [None] * 10)
        self.refused("set", "b", "[1, 2]", says="element [2]: the list ends here; the shape wants 10")
        self.refused("set", "b", "[1, 2, 3, 4, 5, 6, 7, 8, 9, 1e39]", says="element [9]: '1e39' is too large for float32")
        self.assertEqual(self.version("b"), before + 3)
        nested = json.dumps([[row + column / 16 for column in range(10)] for row in range(64)])
        self.psctl("set", "w", nested)
        self.assertEqual(self.values("w")[-1], 63 + 9 / 16)
        self.psctl("set", "w", json.dumps(self.values("w")))  # what get --json prints is taken
        self.refused("set", "nothing", "1", says="nothing")

    def test_npy(self):
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "w.npy")
            self.psctl("set", "w", "1.5", "--fill")
            self.psctl("get", "w", "--npy", name)
            self.psctl("set", "w", "2.5", "--fill")
            self.psctl("set", "w", "--npy", name)
            self.psctl("import", "x" * 5000 + "=w.npy", code=2)  # longer than any path
            self.assertEqual(self.values("w"), [1.5] * 640)
            with open(name, "rb") as file:
                done = subprocess.run([PSCTL, "-t", self.cluster.addresses[0], "set", "w", "--npy", "-"], stdin=file, check=False,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600)
            self.assertEqual(done.returncode, 0, done.stderr)
            before = self.version("w")
            self.refused("set", "b", "--npy", name, says=["(64, 10)", "(10,)", "'b'", name])
            self.refused("set", "global_step", "--npy", name, says=["<f4", "float32", "int64", "<i8"])
            with open(name, "rb") as file:
                whole = file.read()
            for wrong, says in ((whole[:-1], "it ends after 2559 of the 2560 bytes"), (whole + b"x", "more than the 2560 bytes"),
                                (whole.replace(b"False", b"True "), "column-major"), (whole.replace(b"<f4", b">f4"), "big-endian"),
                                (whole.replace(b"'<f4'", b"'|O' "), "Python objects"), (b"", "it ends after 0"),
                                (b"PK" + whole[2:], ".npz")):
                with open(name, "wb") as file:
                    file.write(wrong)
                self.refused("set", "w", "--npy", name, says=[says, name])
            self.refused("set", "w", "--npy", os.path.join(folder, "absent"), says="No such file")
            self.refused("set", "w", "--npy", folder, says=folder)
            self.assertEqual(self.version("w"), before)


def safetensors(name, tensors):
    """A file of {name: (dtype, shape, bytes)}."""
    header, at = {}, 0
    for tensor, (dtype, shape, data) in tensors.items():
        header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(name, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


class Dtypes(unittest.TestCase):
    """get and set of every dtype; psctl import makes the variables."""
    psctl = Live.psctl
    refused = Live.refused
    values = Set.values

    def test_numbers(self):
        rows = {  # name: dtype of the file, bytes of four zeros, a list, what it reads as, a value that is too large, .npy type
            "f16": ("F16", 8, "[1.5, -2, 65504, 0.1]", [1.5, -2, 65504, 0.1], "65520", "<f2"),
            "bf16": ("BF16", 8, "[1.5, -2, 3e38, 0.1]", [1.5, -2, 3e38, 0.1], "3.4e38", "<V2"),
            "i8": ("I8", 4, "[1, -128, 127, 0]", [1, -128, 127, 0], "128", "|i1"),
            "u8": ("U8", 4, "[1, 0, 255, 7]", [1, 0, 255, 7], "-1", "|u1"),
            "bool": ("BOOL", 4, "[true, False, 1, off]", [True, False, True, False], "2", "|b1"),
            "i32": ("I32", 16, "[1, 2, 3, -4]", [1, 2, 3, -4], "2147483648", "<i4"),
            "i64": ("I64", 32, "[1, 2, 3, -9223372036854775808]", [1, 2, 3, -2**63], "9223372036854775808", "<i8"),
            "f64": ("F64", 32, "[0.1, 1e300, -0.0, 5e-324]", [0.1, 1e300, -0.0, 5e-324], "1e309", "<f8"),
        }
        with Cluster(2) as self.cluster, tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "all.safetensors")
            safetensors(name, {v: (r[0], [2, 2], bytes(r[1])) for v, r in rows.items()})
            self.psctl("import", name, "--yes")
            for variable, (_, _, text, reads, large, npy) in rows.items():
                self.assertEqual(self.values(variable), [0] * 4)
                self.assertIn("version 0 -> version 1", self.psctl("set", variable, text))
                self.assertEqual(self.values(variable), reads)
                self.refused("set", variable, large, "--fill", says="'%s'" % large)
                file = os.path.join(folder, variable + ".npy")
                self.psctl("get", variable, "--npy", file)
                with open(file, "rb") as written:
                    self.assertIn(npy.encode(), written.read(128))
                self.psctl("set", variable, "1", "--fill")
                self.psctl("set", variable, "--npy", file)
                self.assertEqual(self.values(variable), reads)


def rounds(cluster, *args, verb="status", **more):
    return subprocess.Popen([PSCTL, "-t", cluster.addresses[0], verb, *args], text=True, preexec_fn=die_with_parent,
                            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more})


class Watch(unittest.TestCase):
    def end(self, child, how=signal.SIGINT):
        child.send_signal(how)
        _, err = child.communicate(timeout=600)
        self.assertEqual((child.returncode, err), (0, ""))

    def test_rounds_and_signals(self):
        with Cluster(2) as cluster:
            for how in (signal.SIGINT, signal.SIGTERM):
                child = rounds(cluster, "--watch", "0.05", "--json")
                seen = [json.loads(child.stdout.readline()) for _ in range(10)]
                while seen[-1]["total"]["up"] != 2:  # one that stands still for a moment is not up in that round
                    seen.append(json.loads(child.stdout.readline()))
                self.assertRegex(seen[0]["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}$")
                self.assertLessEqual(seen[-1]["tasks"][0]["connections"], 3)  # one session for all rounds
                self.end(child, how)
            # between rounds that are an hour apart
            child = rounds(cluster, "--watch", "3600")
            self.assertRegex(child.stdout.readline(), r"^\d{4}-")
            self.assertIn("TASK", child.stdout.readline())
            self.end(child)

    def test_verbs(self):
        with Cluster(2) as cluster:
            train(cluster, 2)
            for verb, key in (("vars", "variables"), ("workers", "sessions"), ("waits", "waits"), ("status", "tasks")):
                child = rounds(cluster, "--watch", "0.05", "--json", verb=verb)
                for _ in range(3):
                    seen = json.loads(child.stdout.readline())
                    self.assertEqual(set(seen) & {"time", key}, {"time", key})
                self.end(child)
                child = rounds(cluster, "--watch", "0.05", verb=verb)
                first = [child.stdout.readline() for _ in range(2)]
                self.assertRegex(first[0], r"^\d{4}-")
                lines = [child.stdout.readline().split() for _ in range(20)]
                self.assertIn(first[1].split(), lines)  # the next round has the same headings, as wide as its values want
                self.end(child)
            child = rounds(cluster, "global*", "--watch", "0.05", "--json", verb="vars")
            while not (seen := json.loads(child.stdout.readline())["variables"]):  # its task stood still for a moment
                pass
            self.assertEqual([v["name"] for v in seen], ["global_step"])
            self.end(child)

    def test_few_rows(self):
        """What has no room on the terminal is counted."""
        with Cluster(2) as cluster:
            train(cluster, 2)
            outer, inner = pty.openpty()
            fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 7, 200, 0, 0))
            child = rounds(cluster, "--watch", "0.05", verb="vars", stdout=inner)
            os.close(inner)
            seen = b""
            shown = []
            while not shown:  # a task that stands still for a moment is not up in that round, which takes a line
                seen += os.read(outer, 4096)
                shown = [text for text in seen.split(b"\x1b[H\x1b[J")[1:-1] if b"3 variables" in text and b"down" not in text]
            self.assertEqual(shown[0].count(b"\n"), 6)
            self.assertIn(b"1 more have no room here", shown[0])
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.wait(600), 0)
            child.stderr.close()
            os.close(outer)

    def test_a_dead_task(self):
        with Cluster(2) as cluster:
            child = rounds(cluster, "--watch", "0.1", "--json", "--timeout", "600")

            def until(up):
                seen = json.loads(child.stdout.readline())
                while [t["up"] for t in seen["tasks"]] != up:
                    seen = json.loads(child.stdout.readline())
                return seen

            until([True, True])
            halt(cluster.tasks[1].pid)  # accepts, says nothing
            until([True, False])
            until([True, False])
            cluster.tasks[1].send_signal(signal.SIGCONT)
            until([True, True])
            cluster.kill(1)
            dead = until([True, False])["tasks"][1]
            while dead["reason"] != "NOT_CONNECTED":  # rounds of before, where it stood still for a moment, or of its end
                dead = until([True, False])["tasks"][1]
            self.assertNotEqual(dead["error"], "")
            cluster.start(1)
            until([True, True])
            self.end(child)

    def test_terminal(self):
        with Cluster(2) as cluster:
            outer, inner = pty.openpty()
            child = rounds(cluster, "--watch", "0.05", stdout=inner)
            os.close(inner)
            seen = b""
            while seen.count(b"2 of 2 up") < 2:
                seen += os.read(outer, 4096)
            self.assertTrue(seen.startswith(b"\x1b[H\x1b[J"))
            self.assertGreaterEqual(seen.count(b"\x1b[H\x1b[J"), 2)
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.wait(600), 0)
            child.stderr.close()
            os.close(outer)


class Changes(unittest.TestCase):
    """What empties: nothing else is touched, and a terminal is asked."""
    psctl = Live.psctl
    refused = Live.refused

    def names(self):
        return sorted(v["name"] for v in json.loads(self.psctl("vars", "--json"))["variables"])

    def test_delete_and_reset(self):
        with Cluster(2) as self.cluster:
            train(self.cluster, 2)
            self.assertIn("b on /job:ps/task:1", self.psctl("delete", "b", "--yes"))
            self.assertEqual(self.names(), ["global_step", "w"])
            self.refused("delete", "b", "--yes", says="'b'")
            self.refused("delete", "w", "--yes", "--container", "elsewhere", says=["'w'", "'elsewhere'"])
            self.refused("get", "w", "--container", "elsewhere", says="'elsewhere'")
            self.refused("set", "w", "1", "--fill", "--container", "elsewhere", says="'elsewhere'")
            self.refused("reset", "elsewhere", "--yes", says="no container 'elsewhere'")
            self.assertEqual(self.names(), ["global_step", "w"])
            self.refused("reset", "not a name", "--yes", says="'not a name'")
            self.assertIn("container 'localhost': 2 variables, 5.0 KiB gone", self.psctl("reset", "--yes"))
            self.assertEqual(self.psctl("reset", "--yes"), "container 'localhost' was empty\n")
            self.assertEqual(self.names(), [])
            train(self.cluster, 2)
            self.assertEqual(json.loads(self.psctl("reset", "--all", "--yes", "--json")),
                             {"emptied": [{"name": "localhost", "variables": 3, "queues": 0, "bytes": 640 * 8 + 10 * 8 + 8}]})
            self.assertEqual(self.names(), [])
            train(self.cluster, 2)
            self.cluster.kill(0)
            self.cluster.refuse(0)
            code, _, err = run(PSCTL, "-t", self.cluster.addresses[1], "--timeout", "3600", "reset", "--yes")
            self.assertEqual(code, 1)
            self.assertIn("/job:ps/task:0", err)
            self.assertIn("nothing was reset", err)

    def test_asks_on_a_terminal(self):
        with Cluster(1) as self.cluster:
            train(self.cluster, 2)
            for args, says in ((["delete", "b"], "Delete b, float32 (10,) in container 'localhost'"),
                               (["reset"], "Empty 'localhost': 3 variables"), (["reset", "--all"], "Empty all containers")):
                code, _, err = answer(self.cluster, b"n\n", *args)
                self.assertEqual(code, 1)
                self.assertIn(says, err)
                self.assertIn("nothing was done", err)
                self.assertEqual(self.names(), ["b", "global_step", "w"])
            self.assertEqual(answer(self.cluster, b"", "delete", "b", "--yes")[0], 0)
            self.assertEqual(answer(self.cluster, b"y\n", "reset")[0], 0)
            self.assertEqual(self.names(), [])


    def test_what_may_have_been_done_is_said(self):
        """The directory has the request, and does not answer."""
        with Cluster(2) as cluster:
            train(cluster, 2)
            for args, look in ((["delete", "w"], "vars"), (["reset"], "containers"), (["shutdown", "ps:0"], "status")):
                outer, inner = pty.openpty()
                child = subprocess.Popen([PSCTL, "-t", cluster.addresses[1], "--timeout", "6", *args], stdin=inner, text=True,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=die_with_parent)
                self.assertNotEqual(child.stderr.read(1), "")  # it asks
                halt(cluster.tasks[0].pid)
                os.waitid(os.P_PID, cluster.tasks[0].pid, os.WSTOPPED)
                os.write(outer, b"y\n")
                _, err = child.communicate(timeout=600)
                self.assertEqual(child.returncode, 1, err)
                self.assertIn("it may have been carried out: look with psctl " + look, err)
                os.close(inner)
                os.close(outer)
                cluster.tasks[0].send_signal(signal.SIGCONT)
            self.assertEqual(cluster.tasks[0].wait(600), 0)

    def test_config_set_of_one_task_that_is_down(self):
        with Cluster(2) as cluster:
            cluster.kill(0)
            cluster.refuse(0)
            for task, end in (([], "nothing was changed; --task changes one task\n"),
                              (["--task", "ps:0"], "nothing was changed\n")):
                code, _, err = run(PSCTL, "-t", cluster.addresses[1], "config", "set", "log_level", "info", *task)
                self.assertEqual((code, err.endswith(end)), (1, True), err)


def answer(cluster, text, *args):
    """psctl with a terminal as its standard input, on which somebody types."""
    outer, inner = pty.openpty()
    child = subprocess.Popen([PSCTL, "-t", cluster.addresses[0], *args], stdin=inner, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
    os.write(outer, text)
    out, err = child.communicate(timeout=600)
    os.close(inner)
    os.close(outer)
    return child.returncode, out, err


class Lost(unittest.TestCase):
    """A task that came back empty looks like any other but for what it had."""

    def test_it_is_told_until_it_is_mended(self):
        with Cluster(2) as cluster, tempfile.TemporaryDirectory() as folder:
            def psctl(*args, code=0):
                got, out, err = run(PSCTL, "-t", cluster.addresses[0], *args)
                self.assertEqual(got, code, out + err)
                return out if code == 0 else (out, err)

            def until_up(restarts):
                end = time.monotonic() + 600
                while True:
                    tasks = json.loads(run(PSCTL, "-t", cluster.addresses[0], "status", "--json")[1])["tasks"]
                    if [t.get("restarts") for t in tasks] == restarts and not tasks[0]["waiting_for"]:
                        return tasks
                    self.assertLess(time.monotonic(), end, tasks)

            train(cluster, 2)
            model = os.path.join(folder, "model.safetensors")
            psctl("export", model)
            self.assertEqual(json.loads(psctl("status", "--json"))["total"]["lost"], 0)
            self.assertEqual(psctl("status").splitlines()[0].split()[5:7], ["RESTARTS", "LOST"])
            self.assertEqual(json.loads(psctl("vars", "--json"))["lost"], [])
            cluster.kill(1)
            cluster.start(1)
            tasks = until_up([0, 1])
            self.assertEqual([(t["lost"], t["lost_names"]) for t in tasks], [(0, ""), (1, "b")])
            says = "psctl: /job:ps/task:1 (%s) came back without 1 variable that it had: b;" % cluster.addresses[1]
            for verb in (["status"], ["status", "ps:1"], ["vars"]):
                out, err = psctl(*verb, code=1)
                self.assertIn(says, err)
                self.assertEqual(len(err.splitlines()), 1)
            self.assertRegex(psctl("status", code=1)[0], r"/job:ps/task:1 .* up .* 1 +1 ")
            psctl("status", "ps:0")
            self.assertEqual(json.loads(psctl("vars", "--json", code=1)[0])["lost"],
                             [{"task": "/job:ps/task:1", "variables": 1, "names": "b"}])
            self.assertIn("a task has lost some", psctl("containers", code=1)[1])
            out, err = psctl("export", model + ".2", code=1)
            self.assertEqual((out, err.count("lost")), ("", 1))
            psctl("import", model, "--yes")
            self.assertEqual(json.loads(psctl("status", "--json"))["total"]["lost"], 0)
            psctl("vars")
            psctl("containers")
            # the directory: it has it from the others that it was there before
            cluster.kill(0)
            cluster.start(0)
            until_up([1, 0])


class Terminal(unittest.TestCase):
    """On a terminal the widest columns give way; a pipe gets all."""

    def on_terminal(self, columns, *args):
        outer, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        child = subprocess.Popen([PSCTL, *args], stdin=subprocess.DEVNULL, stdout=inner, stderr=subprocess.PIPE,
                                 preexec_fn=die_with_parent)
        os.close(inner)
        seen = b""
        try:
            while more := os.read(outer, 65536):
                seen += more
        except OSError:  # the other end is closed
            pass
        os.close(outer)
        err = child.communicate(timeout=600)[1]
        self.assertEqual((child.returncode, err), (0, b""))
        return seen.decode().replace("\r\n", "\n").splitlines()

    def test_width(self):
        with Cluster(2) as cluster:
            train(cluster, 2)
            for verb in (["vars"], ["config", "ps:0"], ["config", "get", "lease"], ["status"]):
                args = ["-t", cluster.addresses[0], *verb]
                whole = run(PSCTL, *args)[1].splitlines()
                widest = max(len(line) for line in whole)
                if verb[0] != "status":  # whose numbers move
                    self.assertEqual(self.on_terminal(widest, *args), whole)
                lines = self.on_terminal(widest - 10, *args)
                self.assertEqual(max(len(line) for line in lines), widest - 10, lines)
                self.assertEqual(len(lines), len(whole))
                self.assertTrue(any("..." in line for line in lines))
                self.assertEqual(lines[0].split()[0], whole[0].split()[0])  # headings stay
            # numbers are never cut, however narrow it is
            for line in self.on_terminal(20, "-t", cluster.addresses[0], "vars")[1:4]:
                self.assertRegex(line, r" \d+\.?\d*( KiB| B) +2 +[02] ")


class Conflict(unittest.TestCase):
    def test_two_processes_are_one_task(self):
        with Cluster(2) as cluster:
            more = socket.create_server(("127.0.0.1", 0))
            script = 'exec 3<&%d; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$0" "$@"' % more.fileno()
            second = subprocess.Popen(["/bin/bash", "-c", script, path("bin/psd"), "--cluster", cluster.spec, "--job_name", "ps",
                                       "--task_index", "1", "--log_level", "off"], pass_fds=[more.fileno()],
                                      stdout=subprocess.DEVNULL, preexec_fn=die_with_parent)
            end = time.monotonic() + 600
            code, out, err = run(PSCTL, "-t", cluster.addresses[0], "status", "--json")
            while json.loads(out)["tasks"][1]["conflict"] == "":
                self.assertLess(time.monotonic(), end)
                code, out, err = run(PSCTL, "-t", cluster.addresses[0], "status", "--json")
            second.kill()
            second.wait()
            more.close()
            self.assertEqual(code, 1)
            self.assertIn("psctl: /job:ps/task:1: process", err)
            self.assertEqual(json.loads(out)["tasks"][0]["conflict"], "")
            self.assertEqual(json.loads(out)["total"]["up"], 2)


class HalfDead(unittest.TestCase):
    def test_the_rest_is_still_answered(self):
        for refuse in (True, False):
            with Cluster(3) as cluster:
                cluster.kill(1)
                if refuse:
                    cluster.refuse(1)  # else: accepted by nobody, the worse case
                verbs = ("ping", "vars", "config", "containers", "waits", "devices")
                # all at once, since each takes the whole timeout, which is long: the others are to answer within it
                children = [subprocess.Popen([PSCTL, "-t", address, "--timeout", "20", *args], stdin=subprocess.DEVNULL,
                                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
                            for address, args in [(cluster.addresses[0], ("--json", "status")), (cluster.addresses[2], ("status",)),
                                                  *((cluster.addresses[0], args) for v in verbs for args in ((v,), (v, "--json")))]]
                said = [(*child.communicate(timeout=600), child.returncode) for child in children]
                out, err, code = said.pop(0)
                self.assertEqual(code, 1, out + err)
                tasks = json.loads(out)["tasks"]
                self.assertEqual([t["up"] for t in tasks], [True, False, True])
                self.assertNotEqual(tasks[1]["error"], "")
                self.assertIn("/job:ps/task:1", err)
                self.assertIn(cluster.addresses[1], err)
                self.assertIn("down", said.pop(0)[0])
                for verb in verbs:
                    out, err, code = said.pop(0)
                    self.assertEqual(code, 1, verb + out + err)
                    self.assertEqual(err.count("/job:ps/task:1 (%s) is down: " % cluster.addresses[1]), 1)
                    self.assertEqual(len(err.splitlines()), 1)
                    if verb in ("devices", "ping", "config"):
                        self.assertIn("/job:ps/task:0", out)
                        self.assertIn("/job:ps/task:2", out)
                    out, _, code = said.pop(0)
                    self.assertEqual(code, 1)
                    if verb != "ping":
                        self.assertEqual([(d["task"], d["address"], d["error"] != "") for d in json.loads(out)["down"]],
                                         [("/job:ps/task:1", cluster.addresses[1], True)])

    def test_refused_connections_do_not_take_the_whole_timeout(self):
        with Cluster(2) as cluster:
            cluster.kill(1)
            cluster.refuse(1)
            for verb in ("status", "ping", "vars", "config"):  # run() ends the test long before the hour
                code, _, err = run(PSCTL, "-t", cluster.addresses[0], "--timeout", "3600", verb)
                self.assertEqual(code, 1)
                self.assertIn("refused", err)

    def test_the_directory_refuses_connections(self):
        """What needs it is told so at once, with its name and address; run() ends the test long before the hour."""
        with Cluster(2) as cluster, tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model.safetensors")
            train(cluster, 2)
            self.assertEqual(run(PSCTL, "-t", cluster.addresses[0], "export", model)[0], 0)
            cluster.kill(0)
            cluster.refuse(0)
            for verb in (["get", "w"], ["set", "b", "1", "--fill"], ["delete", "b", "--yes"], ["export", model],
                         ["import", model, "--yes"], ["reset", "--yes"], ["reset", "--all", "--yes"]):
                code, out, err = run(PSCTL, "-t", cluster.addresses[1], "--timeout", "3600", *verb)
                self.assertEqual((code, out), (1, ""), verb)
                self.assertIn("/job:ps/task:0 (%s)" % cluster.addresses[0], err, verb)
                self.assertIn("refused", err, verb)
                self.assertIn("all tasks must take part" if verb[0] == "reset" else "the directory, ", err)

    def test_another_protocol(self):
        """A web server, and one that speaks first, are recognised at their first bytes."""
        def serve(ear, greeting):
            while True:
                try:
                    conn, _ = ear.accept()
                except OSError:
                    return
                with conn:
                    if greeting or conn.recv(100):
                        conn.sendall(greeting or b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    conn.recv(1)
        for greeting in (b"", b"SSH-2.0-OpenSSH_9.2p1\r\n"):
            with socket.create_server(("127.0.0.1", 0)) as ear:
                served = threading.Thread(target=serve, args=(ear, greeting), daemon=True)
                served.start()
                target = "127.0.0.1:%d" % ear.getsockname()[1]
                code, out, err = run(PSCTL, "-t", target, "--timeout", "3600", "status")
                self.assertEqual((code, out), (1, ""))
                self.assertRegex(err, "%s.*%s.*is a psd running there" % (target, "answers in plain text" if SECURE else "not a psd frame"))
                ear.shutdown(socket.SHUT_RDWR)
                served.join(600)

    def test_nobody_there(self):
        target = "127.0.0.1:%d" % free_port()
        for verb in (["status"], ["get", "x"], ["stop", "--yes"], ["export", "/nonexistent/x"]):  # run() ends the test long before the hour
            code, out, err = run(PSCTL, "-t", target, "--timeout", "3600", *verb)
            self.assertEqual((code, out), (1, ""))
            self.assertRegex(err, r"psctl: cluster at target \(%s\): no connection: .*refused; is a psd running there\?" % target)
        code, out, err = run(PSCTL, "-t", "bad address:x", "status")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("bad address:x", err)
        self.assertEqual(run(PSCTL, "status", env={"PSD_TARGET": "x:y:z"})[0], 2)

    def test_a_stopped_directory_does_not_take_more_than_the_timeout(self):
        """However many requests a verb makes one after the other: delete made four of them, each for the whole time."""
        with Cluster(2, more_jobs=";worker=127.0.0.1:1") as cluster:
            halt(cluster.tasks[0].pid)
            for verb in (["delete", "w", "--yes"], ["stop", "--yes"], ["set-lr", "--all", "1"]):
                began = time.monotonic()
                code, _, err = run(PSCTL, "-t", cluster.addresses[1], "--timeout", "8", *verb)
                self.assertEqual(code, 1)
                self.assertIn("at the directory, /job:ps/task:0", err)
                self.assertLess(time.monotonic() - began, 30)  # four times 8 are more
                self.assertRegex(err, r"no connection within \d+ ms: .* \(psctl has asked for \d+\.\d s in all\)")

    def test_stopped_task(self):
        with Cluster(2) as cluster:
            halt(cluster.tasks[1].pid)
            code, out, _ = run(PSCTL, "-t", cluster.addresses[0], "--timeout", "10", "--json", "status")
            self.assertEqual(code, 1)
            self.assertEqual([t["up"] for t in json.loads(out)["tasks"]], [True, False])
            cluster.tasks[1].send_signal(signal.SIGCONT)
            self.assertEqual(run(PSCTL, "-t", cluster.addresses[0], "status")[0], 0)


class Targets(unittest.TestCase):
    """-t a,b: the first that answers."""

    def test_the_first_that_answers(self):
        with Cluster(2) as cluster:
            dead = "127.0.0.1:%d" % free_port()
            for targets in (dead + "," + cluster.addresses[1], "psd://%s,%s" % (cluster.addresses[0], dead)):
                code, out, err = run(PSCTL, "-t", targets, "--timeout", "3600", "status")  # run() ends the test long before
                self.assertEqual((code, err), (0, ""), out)
                self.assertIn("2 of 2 up", out)
            code, out, err = run(PSCTL, "--timeout", "3600", "ping", env={"PSD_TARGET": dead + "," + cluster.addresses[0]})
            self.assertEqual((code, err), (0, ""), out)

    def test_one_that_says_nothing(self):
        """It is given a part of the time only; the verb still has the rest."""
        with Cluster(1) as cluster, socket.create_server(("127.0.0.1", 0)) as silent:
            target = "127.0.0.1:%d" % silent.getsockname()[1]
            for verb in (["status"], ["ping"], ["vars", "--json"]):
                code, out, err = run(PSCTL, "-t", ",".join([target, target, cluster.addresses[0]]), "--timeout", "15", *verb)
                self.assertEqual((code, err), (0, ""), out)

    def test_nobody_answers(self):
        dead = ["127.0.0.1:%d" % free_port() for _ in range(3)]
        code, out, err = run(PSCTL, "-t", ",".join(dead), "--timeout", "3600", "status", "--json")
        self.assertEqual(code, 1)
        for target in dead:
            self.assertRegex(err, "target \\(%s\\): no connection: [^;]*refused; " % target)
        self.assertIn("is a psd running there?", err)
        self.assertEqual(len(err.splitlines()), 1)
        self.assertEqual(json.loads(out)["error"]["status"], "UNAVAILABLE")
        many = ["127.0.0.1:%d" % free_port() for _ in range(30)]
        err = run(PSCTL, "-t", ",".join(many), "--timeout", "3600", "status")[2]
        for target in many:
            self.assertIn(target, err)

    def test_what_is_no_list(self):
        with Cluster(1) as cluster:
            for targets, why in ((cluster.addresses[0] + ",", "empty"), (",", "empty"), ("bad address," + cluster.addresses[0], "bad address"),
                                 ("127.0.0.1:%d,bad address" % free_port(), "refused; target: address 'bad address'"),
                                 ("a,,b", "empty"), (",".join(["a"] * 65), "64")):
                code, out, err = run(PSCTL, "-t", targets, "status")
                self.assertEqual((code, out), (2, ""), targets)
                self.assertIn(why, err)
            code, _, err = run(PSCTL, "status", env={"PSD_TARGET": "x:y,z"})
            self.assertEqual(code, 2)
            self.assertIn("PSD_TARGET", err)


class NobodyToAsk(unittest.TestCase):
    """What takes all away and cannot ask does nothing; what is named goes ahead."""

    def test_nothing_is_done_without_yes(self):
        with Cluster(2) as cluster, tempfile.TemporaryDirectory() as folder:
            train(cluster, 2)
            model = os.path.join(folder, "model.safetensors")
            self.assertEqual(run(PSCTL, "-t", cluster.addresses[0], "export", model)[0], 0)
            before = run(PSCTL, "-t", cluster.addresses[0], "vars", "--json")[1]
            for verb in (["shutdown", "--all"], ["reset", "--all"]):
                code, out, err = run(PSCTL, "-t", cluster.addresses[0], *verb)
                self.assertEqual((code, out), (2, ""), verb)
                self.assertIn("psctl: %s --all asks first, and nobody can be asked" % verb[0], err)
                self.assertIn("--yes", err)
            for verb in (["shutdown"], ["shutdown", "--yes"]):
                code, out, err = run(PSCTL, "-t", cluster.addresses[0], *verb)
                self.assertEqual((code, out), (2, ""), verb)
                self.assertIn("say which task, such as ps:1, or --all", err)
            self.assertEqual([task.poll() for task in cluster.tasks], [None, None])
            self.assertEqual(run(PSCTL, "-t", cluster.addresses[0], "vars", "--json")[1], before)
            for verb in (["stop"], ["import", model], ["delete", "w"], ["reset"], ["shutdown", "ps:1"]):  # it is named
                code, _, err = run(PSCTL, "-t", cluster.addresses[0], *verb)
                self.assertEqual(code, 0, err)
            self.assertEqual(cluster.tasks[1].wait(600), 0)


class Shutdown(unittest.TestCase):
    def test_one_and_all(self):
        with Cluster(3) as cluster:
            code, out, err = run(PSCTL, "-t", cluster.addresses[0], "shutdown", "/job:ps/task:2", "--yes")
            self.assertEqual(code, 0, out + err)
            self.assertEqual(cluster.tasks[2].wait(600), 0)
            cluster.refuse(2)
            self.assertEqual(run(PSCTL, "-t", cluster.addresses[0], "shutdown", "/job:ps/task:7", "--yes")[0], 2)
            code, out, err = run(PSCTL, "-t", cluster.addresses[0], "--timeout", "60", "--json", "shutdown", "--all", "--yes")
            self.assertEqual(code, 1, out + err)  # one was down already
            done = {t["name"]: t["ok"] for t in json.loads(out)["tasks"]}
            self.assertEqual(done, {"/job:ps/task:0": True, "/job:ps/task:1": True, "/job:ps/task:2": False})
            self.assertEqual(cluster.tasks[0].wait(600), 0)
            self.assertEqual(cluster.tasks[1].wait(600), 0)

    def test_asks_on_a_terminal(self):
        with Cluster(1) as cluster:
            for text, ends in ((b"n\n", False), (b"y\n", True)):
                code, _, err = answer(cluster, text, "shutdown", "ps:0")
                self.assertIn("Shut down /job:ps/task:0", err)
                self.assertEqual(code, 0 if ends else 1)
                self.assertEqual(cluster.tasks[0].poll() is None or ends, True)
            self.assertEqual(cluster.tasks[0].wait(600), 0)


if __name__ == "__main__":
    sys.exit(main(unittest))
