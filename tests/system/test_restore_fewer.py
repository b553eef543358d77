#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 300
"""What was saved comes back onto fewer ps tasks, with what tasks have written that are gone (docs/DURABILITY.md, section 8)."""
import os
import shutil
import sys
import unittest

from cluster import main
from test_restore import Restoring, psctl, until


class Fewer(Restoring):
    def test_onto_fewer_tasks(self):
        for sync in (False, True):
            for counts in ((2, 1), (3, 1), (3, 2), (2, 3, 1)):
                with self.subTest(counts=counts, sync=sync):
                    self.onto(counts, sync)

    def test_a_part_that_nobody_has(self):
        """It is named, with the task that wrote it, and neither an older one nor an empty model takes its place."""
        job, train = self.trains(sync=False)
        c = self.cluster("--checkpoint_seconds", "0", more_jobs=job, count=3)
        train(c, 20)
        self.save(c)
        train(c, 25)
        saved = self.tensors(c)
        newest = int(psctl(c, "checkpoint", "list", "--json")["checkpoints"][-1]["number"])
        c.__exit__()
        os.rename(os.path.join(self.place, "ps-2"), os.path.join(self.place, "aside"))
        fewer = self.cluster_of(2, job)
        told = train(fewer, 30, refused=True)
        self.assertIn("checkpoint %d has a part of /job:ps/task:2, which no task has" % newest, told)
        self.assertIn("copy its directory ps-2 beside ps-0", told)
        for verb in (("vars",), ("queues",), ("containers",), ("rounds",), ("get", "w"), ("export", os.path.join(self.place, "file"))):
            # an empty answer would be taken for one; psctl asks again until its time is over
            self.assertIn("which no task has", psctl(fewer, "--timeout", "6s", *verb, code=1), verb)
        self.assertRegex(psctl(fewer, "status"), r"waits for what /job:ps/task:0\b.* will begin with: checkpoint %d " % newest)
        shutil.copytree(os.path.join(self.place, "aside"), os.path.join(self.place, "ps-2"))
        os.chmod(os.path.join(self.place, "ps-2"), 0o770)  # others may write to it: psd reads nothing there
        self.restart(fewer, 0, 1)
        self.assertIn("which no task has", train(fewer, 30, refused=True))
        os.chmod(os.path.join(self.place, "ps-2"), 0o700)
        self.restart(fewer, 0, 1)
        until(lambda: any(r["number"] > newest and r["state"] == "saved" for r in psctl(fewer, "checkpoint", "list", "--json")["checkpoints"]))
        shutil.rmtree(os.path.join(self.place, "ps-2"))  # a checkpoint was made of it
        self.restart(fewer, 0, 1)
        self.assertEqual(self.tensors(fewer), saved)

    def test_what_does_not_come_back_on_fewer_tasks(self):
        """A task that is gone had noted that it was deleted, or reset."""
        for command in ("delete", "reset"):
            c = self.cluster("--checkpoint_seconds", "0")
            self.train(c, 20)
            self.save(c)
            saved = self.values(c)
            gone = sorted(v["name"] for v in psctl(c, "vars", "--json")["variables"] if v["task"].endswith(":1"))
            psctl(c, command, *(gone[:1] if command == "delete" else ()))
            c.__exit__()
            if command == "reset":
                os.remove(os.path.join(self.place, "ps-0", "bars"))
            fewer = self.cluster_of(1, "")
            if command == "delete":
                del saved[gone[0]]
                self.assertEqual(self.all_there(fewer, saved.keys()), saved)
            else:
                self.train(fewer, 5)
                self.assertEqual(psctl(fewer, "get", "global_step", "--json")["values"], [5])  # not 20


if __name__ == "__main__":
    sys.exit(main(unittest))
