#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 240
# test-sanitizers: asan (threads of pstrain and of a psd with disks: test_pstrain, _monitored, _saves, test_restore)
"""Training goes on from checkpoints: kill -9 of all of pstrain --local, of one ps of two, of the directory, at random moments.
How long it takes from the start of the new process until all trainers have recovered and a step is made is printed, not asserted.
PS_TEST_RUNS: so many kills; PS_TEST_SEED: of the moments."""
import json
import os
import re
import signal
import sys
import time
import unittest

import cluster
import test_pstrain_monitored
from test_files import read_safetensors
from test_pstrain import ENDLESS, GOOD, PSCTL, PSD, SLOW, tasks_of, wait_until
from test_pstrain_monitored import LEASE, RUNS, SEED


def saved_step(address):
    """Of the newest checkpoint that is reported as saved; -1: none, or nobody answers. One that was made before the model has no step."""
    code, out, _ = cluster.run(PSCTL, "-t", address, "--timeout", "1s", "--json", "checkpoint", "list")
    return max((r.get("step", -1) for r in json.loads(out)["checkpoints"] if r["state"] == "saved"), default=-1) if code == 0 else -1


class Restored(test_pstrain_monitored.Monitored):
    def test_all_are_killed(self):
        """Each start goes on from the newest checkpoint that was reported, or a newer one."""
        for mode in ((), ("--sync",)):
            saves = ("--checkpoint_dir", self.path("saved" + "".join(mode)), "--checkpoint_seconds", "1")
            before = -1
            for run in range(RUNS or (3 if SLOW == 1 else 1)):
                with self.subTest(run=run, seed=SEED, mode=mode):
                    p = self.start("--local", "ps=2,workers=2", *mode, *GOOD, "--epochs", ENDLESS, *saves)
                    line = p.wait_line("^4 variables")
                    begins = re.search(r"global_step (\d+)", line)
                    self.assertGreaterEqual(int(begins.group(1)) if begins else 0, before, p.lines)
                    of = tasks_of(p, 4)
                    address = re.search(r"--ps_hosts=([^, ]+)", next(iter(of))).group(1)
                    wait_until("a checkpoint", lambda: saved_step(address) > before)
                    self.some(1.5)
                    before = max(before, saved_step(address))
                    for pid in [p.popen.pid, *of.values()]:
                        os.kill(pid, signal.SIGKILL)
                    p.end()
            last = self.start("--local", "ps=2,workers=2", *mode, *GOOD, "--epochs", "4", *saves)
            self.assertEqual(last.end(), 0, last.lines)
            self.assertRegex(last.text(), r"(?m)^test accuracy 0\.[89]")

    def kills_of_one(self, *mode):
        more = (*LEASE, "--checkpoint_dir", self.path("saved"), "--checkpoint_seconds", "1")
        for i in range(2):
            self.start_ps(i, PSD, more=more)
        trainers = self.trainers(*GOOD, *mode, "--epochs", ENDLESS, "--max_recoveries", "50")
        address = self.ps.addresses[0]
        kills = RUNS or (4 if SLOW == 1 else 2)
        took = {"the directory": [], "the other ps": []}
        for kill in range(kills):
            with self.subTest(kill=kill, seed=SEED):
                wait_until("a checkpoint", lambda: saved_step(address) >= 0)
                self.some(1.5)
                before = [w.text("err").count("ev=recovered") for w in trainers]
                saved = saved_step(address)
                self.daemons[kill % 2].end(signal.SIGKILL)
                start = time.monotonic()
                self.start_ps(kill % 2, PSD, more=more)
                for w, count in zip(trainers, before):
                    self.wait_for_recovery(w, count, saved)
                self.wait_for_step(self.step() + 1)
                took["the other ps" if kill % 2 else "the directory"].append(time.monotonic() - start)
                self.wait_for_step(self.step() + 20)
        for who, seconds in took.items():
            print("%s: training goes on %s s after its start" % (who, ", ".join("%.1f" % s for s in seconds)), file=sys.stderr)
        for w in trainers:
            self.assertEqual(w.text("err").count("ev=recovered "), w.text("err").count("ev=session_lost "), w.lines)
        self.psctl("stop")
        self.finish(trainers)
        self.assertTrue(self.reports())  # of the chief, and of who hears of the end after it has gone
        for report in self.reports():
            self.assertGreater(report["recoveries"], 0)
            self.assertGreater(report["test_accuracy"], 0.8)

    def wait_for_recovery(self, w, count, saved):
        """One more that says what came out of a checkpoint; no step that was saved is lost."""
        def recovered():
            self.assertIsNone(w.popen.poll(), w.lines)
            found = re.findall("ev=recovered .*", w.text("err"))[count:]
            return [line for line in found if not re.search(" checkpoint=0( |$)", line)]
        wait_until("a recovery", recovered)
        for line in recovered():
            model, before, lost = (re.search(" %s=(\\S+)" % key, line).group(1) for key in ("model", "step_before", "lost_steps"))
            self.assertIn(model, ("restored", "partly_restored"), line)
            self.assertLessEqual(int(lost), max(0, int(before) - saved), line)

    def step(self):
        return int(re.search(r"\d+$", self.psctl("get", "global_step").strip()).group())

    def wait_for_step(self, step):
        wait_until("step %d" % step, lambda: self.step() >= step)

    def test_one_of_two(self):
        self.kills_of_one()

    def test_one_of_two_in_rounds(self):
        self.kills_of_one("--sync")

    def test_rounds_are_made_again_as_they_were(self):
        """Wherever in its step each worker hears of it: what is trained on what came back has the same values, bit by bit."""
        values = []
        for restores in (0, RUNS or 8):
            for i in range(2):
                self.start_ps(i, PSD, more=(*LEASE, "--checkpoint_dir", self.path("saved%d" % restores)))
            model = self.path("model%d.safetensors" % restores)
            trainers = self.trainers(*GOOD, "--sync", "--steps", "4000", "--export", model, "--max_recoveries", "50")
            for restore in range(restores):
                self.psctl("checkpoint", "save")
                self.some(0.1)
                self.psctl("checkpoint", "restore", "--yes", "--no_save")
                for w in trainers:
                    wait_until("a recovery", lambda: w.text("err").count("ev=recovered ") > restore or w.popen.poll() is not None)
            self.finish(trainers)
            self.stop_ps()
            values.append(read_safetensors(model)[1])
        self.assertEqual(len(values[0]), 5)
        self.assertTrue(values[0] == values[1], "seed %d" % SEED)

    def test_the_chief_hears_of_it_last(self):
        """A restore ends the rounds. Who finds the model without them, as the chief has not begun again, tries again until it has."""
        for i in range(2):
            self.start_ps(i, PSD, more=("--lease", "60s", "--checkpoint_dir", self.path("saved"), "--checkpoint_seconds", "0"))
        chief, *others = self.trainers(*GOOD, "--sync", "--epochs", ENDLESS)
        self.wait_for_step(10)
        self.psctl("checkpoint", "save")
        cluster.halt(chief.popen.pid)
        self.psctl("checkpoint", "restore", "--yes", "--no_save")
        for w in others:
            w.wait_line("ev=not_recovered .*the chief has asked for no rounds", "err")
        cluster.go_on(chief.popen.pid)
        for w in (chief, *others):
            w.wait_line("ev=recovered ", "err")
        self.wait_for_step(self.step() + 10)
        self.psctl("stop")
        self.finish([chief, *others])


if __name__ == "__main__":
    sys.exit(cluster.main(unittest))
