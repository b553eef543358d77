#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 180
"""Disks that fail or hang beneath live ps tasks: the checkpoint fails with a typed error, which psctl status and the log say, the one
before stays whole, training goes on, and the next attempt is made."""
import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import SANITIZED, die_with_parent, main, path, run
from changes import change  # cluster knows where
from test_power_cut import Machine, TASKS, WAIT_S

SOFTMAX = path("examples/softmax")
PSCTL = path("bin/psctl")


@unittest.skipIf(SANITIZED, "the shim comes before the sanitizer's own calls")
class Disks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.m = Machine(folder.name)
        self.addCleanup(self.m.__exit__)
        self.assertTrue(self.m.boot_all())
        self.steps = 0
        self.train()
        self.first = self.save()

    def train(self):
        """Pushes and pulls of all variables."""
        self.steps += 20
        code, out, err = run(SOFTMAX, "--ps_hosts", self.m.hosts, "--steps", str(self.steps), "--seed", "7")
        self.assertEqual(code, 0, out + err)

    def change(self):
        """Without one the newest checkpoint is the answer, and no other one is made."""
        change(self.m.hosts.split(",")[0])

    def save(self):
        self.change()
        end = time.monotonic() + WAIT_S
        while True:
            code, out = self.m.psctl("checkpoint", "save")
            if code == 0:
                return json.loads(out)["number"]
            self.assertIn("UNAVAILABLE", out)  # not connected yet; or it still removes what has failed
            self.assertLess(time.monotonic(), end, out)

    def status(self):
        code, out = self.m.psctl("status")
        self.assertEqual(code, 0, out)
        return json.loads(out)["tasks"][0]["checkpoints"]

    def until(self, true):
        """Of what status() says."""
        end = time.monotonic() + WAIT_S
        while not true(self.status()):
            self.assertLess(time.monotonic(), end, self.status())

    def whole(self, number):
        code, out = self.m.psctl("checkpoint", "verify", str(number))
        self.assertEqual(code, 0, out)

    def fails(self, task, kinds, why, want):
        """All calls of these kinds fail so."""
        with self.subTest(task=task, kinds=kinds, why=errno.errorcode[why]):
            newest = self.save()
            self.change()
            self.m.ask(task, "fail %s %d" % (kinds, why))
            code, out = self.m.psctl("checkpoint", "save")  # at once, not after its timeout
            self.assertEqual(code, 1, out)
            self.assertNotIn("refused for", out)
            for word in (want, "/job:ps/task:%d" % task, os.strerror(why)):
                self.assertIn(word, out)
            self.assertRegex(self.status(), r"^%d is saved, .* s ago failed: checkpoint \d+, %s: .*%s" % (newest, want, os.strerror(why)))
            self.train()
            self.m.ask(task, "")
            self.whole(newest)
            self.assertNotIn("failed", self.status() if self.save() else "")

    def test_what_a_disk_says(self):
        for task, kinds, why, want in ((1, "W", errno.ENOSPC, "RESOURCE_EXHAUSTED"), (0, "W", errno.ENOSPC, "RESOURCE_EXHAUSTED"),
                                       (1, "CM", errno.ENOSPC, "RESOURCE_EXHAUSTED"),  # no inode
                                       (0, "W", errno.EDQUOT, "RESOURCE_EXHAUSTED"), (1, "S", errno.EIO, "DATA_LOSS"),
                                       (0, "S", errno.EIO, "DATA_LOSS"), (1, "W", errno.EIO, "DATA_LOSS"), (0, "R", errno.EIO, "DATA_LOSS"),
                                       (1, "CMUR", errno.EROFS, "PERMISSION_DENIED")):
            self.fails(task, kinds, why, want)
        self.assertEqual(self.m.kill(0, signal.SIGTERM), 0)  # so that all that it has said has come
        log = "".join(self.m.said[0])
        for want in ("RESOURCE_EXHAUSTED", "DATA_LOSS", "PERMISSION_DENIED"):
            self.assertRegex(log, r"ev=checkpoint_failed .*st=%s msg=" % want)

    def test_a_disk_that_gets_further(self):
        """psctl waits for longer than --timeout while it does, and says how far it is where it does not."""
        self.change()
        self.m.ask(1, "slow W 900")
        began = time.monotonic()
        code, out = self.m.psctl("--timeout", "2s", "checkpoint", "save")
        self.assertEqual(code, 0, out)
        self.assertGreater(time.monotonic() - began, 2)
        self.whole(json.loads(out)["number"])
        code, out = self.m.psctl("--timeout", "2s", "checkpoint", "restore", "latest", "--spread", "--yes", "--no-save")
        self.assertEqual(code, 0, out)
        said = json.loads(out.splitlines()[-1])  # behind what goes
        self.assertEqual(said["saved"], said["number"] + 1)  # the directory's own, which was waited for
        self.whole(said["saved"])

    def test_a_disk_that_syncs(self):
        """What is written is in no share while it is synced: psctl waits for longer than --timeout, says for what, and not for ever."""
        self.change()
        self.m.ask(1, "slow S 1500")  # nine of them
        began = time.monotonic()
        code, out = self.m.psctl("--timeout", "1s", "checkpoint", "save")
        self.assertEqual(code, 0, out)
        self.assertGreater(time.monotonic() - began, 1.5)
        self.whole(json.loads(out)["number"])
        self.change()
        code, _, err = run(PSCTL, "-t", self.m.hosts.split(",")[0], "--timeout", "1s", "checkpoint", "save")
        self.assertEqual(code, 0, err)
        self.assertRegex(err, r"checkpoint \d+ waits for disks, \d+ % is written, 1 of 2 tasks are done")
        self.change()
        self.m.ask(1, "slow S 60000")
        code, out = self.m.psctl("--timeout", "400ms", "checkpoint", "save")
        self.assertEqual(code, 1, out)
        self.assertRegex(out, r"DEADLINE_EXCEEDED.* is not saved yet, and goes on: \d+ %, 1 of 2 tasks, and no further for ([89]|[1-9]\d)")

    def interrupted(self, *words, stderr=subprocess.PIPE):
        """What psctl writes to stderr where a signal comes while a checkpoint is written."""
        self.change()
        self.m.ask(1, "slow S 2000")
        child = subprocess.Popen([PSCTL, "-t", self.m.hosts.split(",")[0], "checkpoint", *words], stderr=stderr, text=True,
                                 preexec_fn=die_with_parent)
        self.until(lambda status: "is written" in status)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=WAIT_S)
        self.m.ask(1, "")
        self.assertEqual(child.returncode, 128 + signal.SIGINT, err)
        return err

    def test_an_interrupt(self):
        """Of psctl: what it has begun goes on, and it says so and nothing else."""
        for words in (("save",), ("restore", "latest", "--yes", "--no-save")):  # which saves what it has restored
            before = self.save()
            self.assertRegex(self.interrupted(*words),
                             "^(psctl: (checkpoint|container) [^\n]*\n)*psctl: a %s that has begun goes on[^\n]*\n$" %
                             ("checkpoint" if words == ("save",) else "restore"))
            self.until(lambda status, want="%d is saved" % (before + 1): status.startswith(want))
            self.whole(before + 1)

    def test_an_interrupt_that_nobody_reads(self):
        """It ends all the same, with the same exit status."""
        for full in (True, False):
            self.save()
            reader, writer = os.pipe()
            if full:
                os.set_blocking(writer, False)
                with self.assertRaises(BlockingIOError):
                    while True:
                        os.write(writer, bytes(4096))
                os.set_blocking(writer, True)
            else:
                os.close(reader)
            self.interrupted("save", stderr=writer)
            os.close(writer)
            if full:
                os.close(reader)

    def test_a_slow_disk(self):
        """Each fsync takes 10 s: who waits for the checkpoint is told that it goes on, and training does."""
        self.change()
        self.m.ask(1, "slow S 10000")
        code, out = self.m.psctl("--timeout", "400ms", "checkpoint", "save")
        self.assertEqual(code, 1, out)
        self.assertIn("DEADLINE_EXCEEDED", out)
        self.assertRegex(self.status(), r"^%d is saved, .*; %d is written for \d+ ms, 1 of %d tasks, \d+ %%; on demand$"
                         % (self.first, self.first + 1, TASKS))
        self.train()
        self.m.ask(1, "")  # from the next one on
        self.assertGreater(self.save(), self.first)
        code, out = self.m.psctl("checkpoint", "list")
        for row in json.loads(out)["checkpoints"]:
            self.assertEqual(row["state"], "saved")
            self.whole(row["number"])


if __name__ == "__main__":
    sys.exit(main(unittest))
