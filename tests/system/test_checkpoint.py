#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of live clusters: psctl checkpoint save and list, what lies on the disks, tasks that are killed, a disk without room."""
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import Cluster, main, path, run
from changes import change  # cluster knows where

PSCTL = path("bin/psctl")
SOFTMAX = path("examples/softmax")
WAIT_S = 600


def psctl(cluster, *args, code=0):
    got, out, err = run(PSCTL, "-t", cluster.addresses[0], *args)
    if got != code:
        raise AssertionError("%s gave %d: %s%s" % (args, got, out, err))
    return json.loads(out) if "--json" in args and got == 0 else out + err


def listed(cluster):
    return psctl(cluster, "checkpoint", "list", "--json")["checkpoints"]


def save(cluster):
    """When all tasks are connected."""
    end = time.monotonic() + WAIT_S
    while True:
        code, out, err = run(PSCTL, "-t", cluster.addresses[0], "--timeout", "30s", "checkpoint", "save", "--json")
        if code == 0:
            return json.loads(out)["number"]
        if "UNAVAILABLE" not in out or time.monotonic() > end:
            raise AssertionError(out + err)
        time.sleep(0.1)


class Saved(unittest.TestCase):
    def cluster(self, *flags, flags1=None):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = place.name
        c = Cluster(2)
        self.addCleanup(c.__exit__)
        self.flags = ("--checkpoint_dir", place.name, *flags)
        c.start(0, *self.flags)
        c.start(1, *(self.flags if flags1 is None else flags1))
        return c

    def train(self, c, steps):
        code, out, err = run(SOFTMAX, "--ps_hosts", c.hosts, "--steps", str(steps), "--seed", "7")
        self.assertEqual(code, 0, out + err)

    def files(self, task, number):
        where = os.path.join(self.place, "ps-%d" % task, "%020d" % number)
        return set(os.listdir(where)) if os.path.isdir(where) else None

    def test_saved_files_are_what_the_tasks_have(self):
        c = self.cluster("--checkpoint_seconds", "0")
        self.train(c, 30)
        self.assertEqual(listed(c), [])
        number = save(c)
        [row] = listed(c)
        self.assertEqual((row["number"], row["state"], row["tasks"]), (number, "saved", 2))
        found = {}
        for task in range(2):
            names = self.files(task, number)
            self.assertTrue({"state", "manifest"} <= names, names)
            for name in names - {"state", "manifest"}:
                with open(os.path.join(self.place, "ps-%d" % task, "%020d" % number, name), "rb") as f:
                    data = f.read()
                size, = struct.unpack_from("<Q", data)
                for key, tensor in json.loads(data[8:8 + size]).items():
                    if key != "__metadata__":
                        begin, end = tensor["data_offsets"]
                        found[key] = data[8 + size + begin:8 + size + end]
        for v in psctl(c, "vars", "--json")["variables"]:
            with tempfile.NamedTemporaryFile(suffix=".npy") as npy:
                psctl(c, "get", v["name"], "--npy", npy.name)
                with open(npy.name, "rb") as f:
                    data = f.read()
                self.assertEqual(data[10 + struct.unpack_from("<H", data, 8)[0]:], found[v["name"]], v["name"])

    def test_kill_and_restart_of_each_task(self):
        c = self.cluster("--checkpoint_seconds", "0")
        first = save(c)
        for task in (1, 0):
            c.kill(task)
            if task == 1:
                self.assertIn("/job:ps/task:1", psctl(c, "checkpoint", "save", "--timeout", "6s", code=1))
            c.start(task, *self.flags)
        self.assertEqual(save(c), first)  # nothing has changed
        self.assertRegex(psctl(c, "checkpoint", "save"), "^nothing has changed since checkpoint %d, which has it all" % first)
        change(c.addresses[0])
        second = save(c)
        self.assertGreater(second, first)
        self.assertEqual([r["number"] for r in listed(c)], [first, second])
        for number in (first, second):
            for task in range(2):
                self.assertIn("manifest", self.files(task, number))

    def test_by_itself_and_older_ones_go(self):
        c = self.cluster("--checkpoint_seconds", "1", "--max_to_keep", "2")
        self.train(c, 30)  # its steps are said while it runs
        with subprocess.Popen([SOFTMAX, "--ps_hosts", c.hosts, "--steps", "1000000000", "--seed", "7"],
                              stdout=subprocess.DEVNULL) as trainer:
            try:
                end = time.monotonic() + WAIT_S
                rows, saved = [], []
                while not (rows and rows[-1]["number"] >= 4 and len(saved) == 2):
                    self.assertLess(time.monotonic(), end, rows)
                    time.sleep(0.2)
                    rows = listed(c)
                    saved = [r for r in rows if r["state"] == "saved"]
                self.assertGreater(saved[-1]["step"], 0)  # the last row may be one under way, which has none yet
            finally:
                trainer.kill()
        self.assertIsNone(self.files(0, 1))
        while self.files(1, 1) is not None:  # task 1 hears of it behind the directory
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def test_by_itself_without_a_global_step(self):
        """Neither a step nor a chief: what was changed is saved by time, once, and at the end, and is there again."""
        c = self.cluster("--checkpoint_seconds", "1")
        model = os.path.join(self.place, "model.safetensors")
        header = json.dumps({n: {"dtype": "F32", "shape": [4], "data_offsets": [16 * i, 16 * i + 16]} for i, n in enumerate("vw")})
        header += " " * (-len(header) % 8)
        with open(model, "wb") as f:
            f.write(struct.pack("<Q", len(header)) + header.encode() + struct.pack("<8f", *range(8)))
        psctl(c, "import", model)  # one for each task
        end = time.monotonic() + WAIT_S
        rows = listed(c)
        while [r["state"] for r in rows][-1:] != ["saved"]:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
            rows = listed(c)
        before = rows[-1]["number"]  # of the same list: one that is being written may have what is set now
        psctl(c, "set", "w", "5", "--fill")
        for task in (1, 0):
            c.tasks[task].send_signal(signal.SIGTERM)
        self.assertEqual([c.kill(task, 0) for task in (1, 0)], [0, 0], c.said)
        for task in (0, 1):
            c.start(task, *self.flags)
        self.assertGreater(max(r["number"] for r in listed(c)), before, c.said)
        self.assertEqual(psctl(c, "get", "w", "--timeout", "30s").split()[-4:], ["5"] * 4)

    def test_a_save_by_hand_that_failed(self):
        """No checkpoint is made by itself. The only save that was asked for has failed: the directory ends with a status of its own."""
        c = self.cluster("--checkpoint_seconds", "0")
        change(c.addresses[0])
        resource.prlimit(c.tasks[1].pid, resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
        self.assertIn("File too large", psctl(c, "checkpoint", "save", code=1))
        lines = c.said[0]
        self.assertEqual(c.kill(0, signal.SIGTERM), 4)
        self.assertRegex("".join(lines), "lvl=error ev=last_checkpoint_lost .*File too large")
        self.assertEqual(c.kill(1, signal.SIGTERM), 0)

    def test_a_last_one_that_is_lost(self):
        """A disk that takes nothing: the list says so, tasks end with a status of their own, and what was saved is there again."""
        c = self.cluster("--checkpoint_seconds", "3600")
        change(c.addresses[0])
        self.assertEqual(save(c), 1)
        change(c.addresses[0])
        before = resource.prlimit(c.tasks[1].pid, resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
        self.assertIn("File too large", psctl(c, "checkpoint", "save", code=1))
        said = psctl(c, "checkpoint", "list", code=1)
        self.assertRegex(said, "(?m)^ *2 +failed ")
        self.assertRegex(said, "the last attempt is no checkpoint: failed: checkpoint 2, RESOURCE_EXHAUSTED: /job:ps/task:1")
        lines = c.said[0]
        self.assertEqual(c.kill(0, signal.SIGTERM), 4)
        self.assertRegex("".join(lines), "lvl=error ev=last_checkpoint_lost .*File too large")
        self.assertEqual(c.kill(1, signal.SIGTERM), 0)  # which has nothing that is not saved
        for task in (0, 1):
            c.start(task, *self.flags)
        self.assertEqual(save(c), 1)
        change(c.addresses[0])
        resource.prlimit(c.tasks[1].pid, resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
        psctl(c, "checkpoint", "save", code=1)
        resource.prlimit(c.tasks[1].pid, resource.RLIMIT_FSIZE, before)  # there is room again
        self.assertGreater(save(c), 1)
        psctl(c, "checkpoint", "list")
        for task in (0, 1):
            c.tasks[task].send_signal(signal.SIGTERM)
        self.assertEqual([c.kill(task, 0) for task in (0, 1)], [0, 0])

    def test_a_task_without_a_directory_for_it(self):
        c = self.cluster(flags1=())
        end = time.monotonic() + WAIT_S
        text = ""
        while "FAILED_PRECONDITION" not in text:
            self.assertLess(time.monotonic(), end, text)
            text = psctl(c, "checkpoint", "save", "--json", code=1)
        self.assertIn("/job:ps/task:1", text)
        [row] = json.loads(run(PSCTL, "-t", c.addresses[0], "checkpoint", "list", "--json")[1])["checkpoints"]
        self.assertEqual((row["state"], "number" in row), ("failed", False))
        self.assertIn("/job:ps/task:1", row["why"])
        self.assertRegex(psctl(c, "checkpoint", "list", code=1), "the last attempt is no checkpoint: refused: FAILED_PRECONDITION: ")
        for said in (psctl(c, "status"), psctl(c, "status", "--json")["tasks"][0]["checkpoints"]):
            self.assertRegex(said, "none is saved; [0-9]+ s ago refused: FAILED_PRECONDITION: .* has /job:ps/task:1")
        state = psctl(c, "status", "--json")["tasks"][0]["checkpoint"]
        self.assertEqual((state["failed"]["status"], state["failed_attempts"], "number" in state["failed"], "number" in state),
                         ("FAILED_PRECONDITION", 0, False, False))
        self.assertIn("/job:ps/task:1", state["failed"]["message"])

    def test_state_as_fields(self):
        """What psctl status says in words its JSON says in fields."""
        c = self.cluster("--checkpoint_seconds", "0")
        self.train(c, 30)
        number = save(c)
        tasks = psctl(c, "status", "--json")["tasks"]
        state = tasks[0]["checkpoint"]
        self.assertEqual((state["number"], state["whole"], state["step"], state["failed_attempts"]), (number, True, 30, 0))
        self.assertEqual(state["containers"], [{"container": "localhost", "step": 30}])
        self.assertTrue(state["bytes"] > 0 and state["milliseconds"] >= 0 and 0 <= state["age_ms"] < 600000, state)
        self.assertFalse(state["awaits_reset"] or "failed" in state or "making" in state or "loading" in state, state)
        self.assertEqual((state["every_seconds"], state["every_steps"]), (0, 0))
        self.assertNotIn("checkpoint", tasks[1])  # which is not the directory
        before = resource.prlimit(c.tasks[1].pid, resource.RLIMIT_FSIZE)
        for failed in (1, 2):
            change(c.addresses[0])
            resource.prlimit(c.tasks[1].pid, resource.RLIMIT_FSIZE, (100, before[1]))
            psctl(c, "checkpoint", "save", code=1)
            resource.prlimit(c.tasks[1].pid, resource.RLIMIT_FSIZE, before)
            state = psctl(c, "status", "--json")["tasks"][0]["checkpoint"]
            self.assertEqual((state["number"], state["failed_attempts"]), (number, failed))
            self.assertEqual(state["failed"]["number"], number + failed)
            self.assertIn("File too large", state["failed"]["message"])
            self.assertTrue(state["failed"]["status"] and 0 <= state["failed"]["age_ms"] < 600000, state)
        self.assertRegex(psctl(c, "status"), "%d is saved, step 30, .*; [0-9]+ s ago failed: checkpoint %d, .*File too large.*; "
                         "2 attempts have failed since the last one that is saved; on demand" % (number, number + 2))


if __name__ == "__main__":
    sys.exit(main(unittest))
