#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 180
"""pstrain --checkpoint_dir: ps tasks that --local starts, and --job_name ps, save the model while it is trained; what they have
saved is whole."""
import json
import os
import re
import signal
import sys
import time
import unittest

import cluster
from test_pstrain import ENDLESS, GOOD, PSCTL, Case, alive, children, tasks_of, wait_until


def psctl(address, *args):
    code, out, err = cluster.run(PSCTL, "-t", address, "--timeout", "30s", "--json", "checkpoint", *args)
    return json.loads(out) if code == 0 else (code, out + err)


def saved(address):
    """Numbers of the checkpoints that are whole."""
    rows = psctl(address, "list")
    return [r["number"] for r in rows["checkpoints"] if r["state"] == "saved"] if isinstance(rows, dict) else []


class Saves(Case):
    def check(self, address, trainer, keeps):
        """Some are made, the oldest ones go, the newest one is whole, and training has gone on all the time."""
        wait_until("further checkpoints than are kept", lambda: (saved(address) or [0])[-1] > keeps)
        rows = psctl(address, "list")["checkpoints"]
        self.assertLessEqual(len(rows), keeps + 1, rows)  # one may be on its way
        self.assertGreater([r.get("step", 0) for r in rows if r["state"] == "saved"][-1], 0, rows)
        found = []

        def verified():  # one that goes meanwhile is no answer
            found[:] = [psctl(address, "verify")]
            return isinstance(found[0], dict) or "NOT_FOUND" not in found[0][1]
        wait_until("the newest one is read", verified)
        self.assertEqual(found[0]["bad"], [])
        self.assertTrue(alive(trainer))

    def test_local(self):
        p = self.start("--local", "ps=2,workers=2", *GOOD, "--epochs", ENDLESS, "--checkpoint_dir", self.path("saved"),
                       "--checkpoint_seconds", "0", "--checkpoint_steps", "50", "--max_to_keep", "3")
        lines = tasks_of(p, 4)
        hosts = re.search(r"--ps_hosts=(\S+)", next(iter(lines))).group(1).split(",")
        for line in lines:
            self.assertIn("--checkpoint_dir=" + self.path("saved"), line)  # workers ask for checkpoints
            self.assertEqual("checkpoint_steps" in line, "--job_name=ps" in line, lines)
        worker = next(pid for line, pid in lines.items() if "--job_name=worker --task_index=0" in line)
        self.check(hosts[0], worker, 3)
        p.end(signal.SIGTERM)
        for task in range(2):
            self.assertTrue(any(os.path.exists(self.path("saved/ps-%d/%s/manifest" % (task, name)))
                                for name in os.listdir(self.path("saved/ps-%d" % task))))

    def test_tasks_of_a_cluster(self):
        hosts = ["127.0.0.1:%d" % cluster.free_port() for _ in range(2)]
        flags = ("--ps_hosts", hosts[0], "--worker_hosts", hosts[1], "--checkpoint_dir", self.path("saved"), "--checkpoint_seconds",
                 "1", "--max_to_keep", "2")
        self.start(*flags, "--job_name", "ps").wait_line("^ready: ")
        os.mkdir(self.path("w"))  # a worker names no path to the ps tasks
        p = self.start(*flags[:5], self.path("w"), "--job_name", "worker", *GOOD, "--epochs", ENDLESS)
        self.check(hosts[0], p.pid, 2)
        self.assertEqual(os.listdir(self.path("w")), [])

    def test_a_trainer_asks(self):
        """Training that asks for checkpoints is saved at its start and at its end, where the ps tasks live on; no other one is."""
        hosts = ["127.0.0.1:%d" % cluster.free_port() for _ in range(2)]
        run = ("--ps_hosts", hosts[0], "--worker_hosts", hosts[1])
        self.start(*run, "--job_name", "ps", "--checkpoint_dir", self.path("saved"), "--checkpoint_seconds", "0").wait_line("^ready: ")
        trainer = (*run, "--job_name", "worker", "--steps")
        self.assertEqual(self.start(*trainer, "20").end(), 0)
        self.assertEqual(saved(hosts[0]), [])
        p = self.start(*trainer, "50", "--checkpoint_dir", "/no/such/place")
        self.assertEqual(p.end(), 0, p.lines)
        rows = psctl(hosts[0], "list")["checkpoints"]
        self.assertEqual([(r["state"], r["step"]) for r in rows], [("saved", 20), ("saved", 50)])
        self.assertRegex(p.text("err"), "ev=checkpoint_dir task=/job:ps/task:0 dir=%s asked=/no/such/place" % self.path("saved"))

    def test_a_trainer_asks_in_vain(self):
        """A warning, and training goes on."""
        hosts = ["127.0.0.1:%d" % cluster.free_port() for _ in range(2)]
        run = ("--ps_hosts", hosts[0], "--worker_hosts", hosts[1])
        self.start(*run, "--job_name", "ps").wait_line("^ready: ")
        p = self.start(*run, "--job_name", "worker", "--steps", "50", "--checkpoint_dir", self.path("mine"))
        self.assertEqual(p.end(), 0, p.lines)
        self.assertIn("ev=checkpoint_dir_none task=/job:ps/task:0 asked=%s" % self.path("mine"), p.text("err"))
        self.assertFalse(os.path.exists(self.path("mine")))

    def test_a_short_training(self):
        """It ends before the first beat of a worker, and is saved at its end with its last step; the next one goes on from there."""
        run = ("--local", "ps=2,workers=2", "--epochs", "2", "--checkpoint_dir", self.path("saved"))
        first = self.start(*run)
        self.assertEqual(first.end(), 0, first.lines)
        again = self.start(*run)
        self.assertEqual(again.end(), 0, again.lines)
        begins = re.search(r"(?m)^4 variables, global_step (\d+): continuing$", again.text())
        self.assertGreaterEqual(int(begins.group(1)), 92)  # the other worker may be faster
        self.assertRegex(again.text(), r"(?m)^test accuracy .* global_step 184$")

    def test_fresh(self):
        """What was saved is gone for good: after a kill the next run begins with what this one saved, or with nothing."""
        run = ("--local", "ps=2,workers=2", "--epochs", "2", "--checkpoint_dir", self.path("saved"))
        self.assertEqual(self.start(*run).end(), 0)
        p = self.start("--local", "ps=2,workers=2", *GOOD, "--epochs", ENDLESS, "--fresh", *run[4:], "--checkpoint_seconds", "0")
        p.wait_line("^4 variables created")
        for pid in [p.popen.pid, *tasks_of(p, 4).values()]:
            os.kill(pid, signal.SIGKILL)
        p.end()
        again = self.start(*run, *GOOD)  # the first run's model would be refused: it has another optimizer
        self.assertEqual(again.end(), 0, again.lines)
        begins = re.search(r"(?m)^4 variables(?: created|, global_step (\d+): continuing)$", again.text())
        self.assertRegex(again.text(), r"(?m)^test accuracy .* global_step %d$" % (int(begins.group(1) or 0) + 92))

    def test_fresh_with_a_slow_ps(self):
        """One that is slow to begin is waited for, up to --timeout."""
        p = self.start("--local", "ps=2,workers=1", "--epochs", "20", "--fresh", "--checkpoint_dir", self.path("saved"))
        slow = []
        while not slow:  # at once: before it answers
            slow = [pid for line, pid in children(p.pid).items() if "--job_name=ps --task_index=0 " in line]
            self.assertIsNone(p.popen.poll(), p.lines)
        cluster.halt(slow[0])
        time.sleep(0.5)  # sleep: longer than one look of --local at its ps tasks
        os.kill(slow[0], signal.SIGCONT)
        self.assertEqual(p.end(), 0, p.lines)
        self.assertRegex(p.text(), "(?m)^4 variables created")

    def local(self, *more):
        """A run that saves, and the address of its first ps task."""
        p = self.start("--local", "ps=2,workers=1", *GOOD, "--checkpoint_dir", self.path("saved"), *more)
        return p, re.search(r"--ps_hosts=([^, ]+)", next(iter(tasks_of(p, 3)))).group(1)

    def test_settings_of_the_ps_tasks(self):
        """They have what pstrain was told, also what they begin with."""
        p, address = self.local("--epochs", ENDLESS, "--checkpoint_seconds", "0", "--keep_checkpoint_every_hours", "6",
                                "--checkpoint_memory", "2MiB", "--recover", "cut", "--spread")
        p.wait_line("^4 variables created")
        code, out, err = cluster.run(PSCTL, "-t", address, "--json", "config")
        self.assertEqual(code, 0, err)
        for task in json.loads(out)["tasks"]:
            got = {row["name"]: row["value"] for row in task["settings"]}
            names = ("keep_checkpoint_every_hours", "checkpoint_memory", "recover", "restore", "spread")
            self.assertEqual([got[name] for name in names], ["6", "2MiB", "cut", "auto", "true"])
        first = psctl(address, "save")["number"]
        psctl(address, "save")
        p.end(signal.SIGTERM)
        for which, begins in (("none", "^4 variables created"), (str(first), r"^4 variables, global_step \d+: continuing")):
            p, address = self.local("--epochs", "1", "--checkpoint_seconds", "0", "--restore_checkpoint", which)
            p.wait_line(begins)
            self.assertEqual(p.end(), 0, p.lines)

    def test_flags_that_make_no_sense(self):
        for args, word in ((("--checkpoint_steps", "5"), "give --checkpoint_dir too"),
                           (("--checkpoint_dir", ""), "name a directory"),
                           (("--max_to_keep", "-1", "--checkpoint_dir", "x"), "allowed: 0 to"),
                           (("--serial", "2", "--checkpoint_dir", "x"), "drop one of them")):
            p = self.start(*(args if "--serial" in args else ("--local", "ps=1,workers=1", *args)))
            self.assertEqual(p.end(), 2, p.lines)
            self.assertIn(word, p.text("err"))
        self.assertFalse(os.path.exists("x"))


if __name__ == "__main__":
    sys.exit(cluster.main(unittest))
