#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 240
"""The power of machines fails while their ps tasks save: what was reported saved is there afterwards, whole, with the values that
it had, and the disk takes further checkpoints. PS_TEST_RUNS cuts, 20 without it; PS_TEST_SEED: of what is drawn."""
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import SANITIZED, Cluster, die_with_parent, main, path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import power_cut  # noqa: E402

PSCTL = path("bin/psctl")
SHIM = path("tests/lib/shim/disk.so")
RUNS = int(os.environ.get("PS_TEST_RUNS", "20"))
SEED = int(os.environ.get("PS_TEST_SEED", str(random.randrange(1 << 32))))
SHAPES = {"a": 3, "b": 1000, "c": 20000, "d": 40000}  # more than a block of 64 KiB
TASKS = 2
WAIT_S = 600


def safetensors(values):
    """{name: bytes of floats} as a file's bytes."""
    header, data = {}, b""
    for name, v in values.items():
        header[name] = {"dtype": "F32", "shape": [len(v) // 4], "data_offsets": [len(data), len(data) + len(v)]}
        data += v
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensors(name):
    with open(name, "rb") as f:
        data = f.read()
    size, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {k: data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]] for k, t in header.items()}


class Machine(Cluster):
    """Two ps tasks, each with a disk of its own that can lose its power."""

    def __init__(self, folder):
        super().__init__(TASKS)
        self.folder, self.disks, self.boots = folder, [None] * TASKS, 0
        for i in range(TASKS):
            os.mkdir(self.disk(i))
            self.ask(i, "")

    def at(self, name):
        return os.path.join(self.folder, name)

    def disk(self, i):
        return self.at("disk%d" % i)

    def log(self, i):
        return self.at("log%d" % i)

    def ask(self, i, text):
        with open(self.at("new"), "w", encoding="utf-8") as f:
            f.write(text)
        os.rename(self.at("new"), self.at("ask%d" % i))

    def boot(self, i):
        """False: its power went before it was ready."""
        self.disks[i] = power_cut.Disk(self.disk(i))
        if os.path.exists(self.log(i)):
            os.unlink(self.log(i))
        more = {"LD_PRELOAD": SHIM, "DISK_SHIM_DIR": self.disk(i), "DISK_SHIM_LOG": self.log(i), "DISK_SHIM_ASK": self.at("ask%d" % i)}
        os.environ.update(more)
        try:
            self.start(i, "--checkpoint_dir", self.disk(i), "--checkpoint_seconds", "0", "--max_to_keep", "2")
        except RuntimeError:
            self.kill(i)
            return False
        finally:
            for name in more:
                del os.environ[name]
        return True

    def boot_all(self):
        return all([self.boot(i) for i in range(TASKS)])

    def up(self):
        return all(t is not None and t.poll() is None for t in self.tasks)

    def cut(self, rng):
        for i in range(TASKS):
            if self.tasks[i] is not None:
                self.kill(i)
            if os.path.exists(self.log(i)):
                self.disks[i].run(self.log(i))
            self.disks[i].cut(rng)
            self.ask(i, "")

    def psctl(self, *args):
        """(exit status, its output). Where the power of one fails meanwhile that of all does."""
        with subprocess.Popen([PSCTL, "-t", self.addresses[0], "--timeout", "60s", "--json", *args], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=die_with_parent) as p:
            while p.poll() is None:
                if not self.up():
                    for i in range(TASKS):
                        self.tasks[i].kill()
                    p.kill()
                try:
                    p.wait(0.01)
                except subprocess.TimeoutExpired:
                    continue
            return p.returncode, p.stdout.read()


@unittest.skipIf(SANITIZED, "the shim comes before the sanitizer's own calls")
class PowerCut(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="psd-power-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.rng = random.Random(SEED)
        self.m = Machine(self.folder)
        self.addCleanup(self.m.__exit__)
        self.saved = {}  # what was reported: number -> {name: bytes}
        self.tried = []  # what may have been saved as well: the power failed before it was reported

    def done(self, *args):
        """When all tasks are connected, unless the power fails."""
        end = time.monotonic() + WAIT_S
        while True:
            code, out = self.m.psctl(*args)
            if code == 0 or not self.m.up():
                return code == 0, out
            self.assertTrue("UNAVAILABLE" in out and time.monotonic() < end, "%s: %s" % (args, out))
            time.sleep(0.05)

    def change(self):
        values = {name: self.rng.randbytes(4 * n - 4) + bytes(4) for name, n in SHAPES.items()}
        values = {name: bytes(b & 0xBF if i % 4 == 3 else b for i, b in enumerate(v)) for name, v in values.items()}  # finite
        with open(self.m.at("values.safetensors"), "wb") as f:
            f.write(safetensors(values))
        return values, self.done("import", self.m.at("values.safetensors"), "--yes")[0]

    def save(self):
        """What is now, or nothing: the power is gone."""
        values, good = self.change()
        self.tried.append(values)
        good, out = self.done("checkpoint", "save") if good else (False, "")
        if good:
            self.saved[json.loads(out)["number"]] = self.tried.pop()
        return good

    def check(self):
        """What the directory calls saved is whole; among it the newest that was reported or one that is newer, with its values."""
        reported, whole = max(self.saved), []
        end = time.monotonic() + WAIT_S
        while max(whole, default=0) < reported:  # until the tasks have told each other
            self.assertLess(time.monotonic(), end, whole)
            good, out = self.done("checkpoint", "list")
            self.assertTrue(good, out)
            whole = [row["number"] for row in json.loads(out)["checkpoints"] if row["state"] == "saved"]
        for number in whole:
            code, out = self.m.psctl("checkpoint", "verify", str(number))
            self.assertEqual(code, 0, out)
        newest = max(whole)
        code, out = self.m.psctl("checkpoint", "export", str(newest), self.m.at("export"))
        self.assertEqual(code, 0, out)
        # without the differences of what is long
        self.assertTrue(tensors(self.m.at("export")) in ([self.saved[newest]] if newest in self.saved else self.tried), newest)
        good, out = self.done("export", self.m.at("live"))  # what was loaded; one may be whole that the list has not as saved yet
        self.assertTrue(good, out)
        self.assertTrue(tensors(self.m.at("live")) in [self.saved[reported], *self.tried], reported)

    def test_the_record_is_what_was_done(self):
        """The shim and power_cut.py miss nothing of what psd does; synced as it is, all is there after a cut."""
        self.assertTrue(self.m.boot_all())
        for _ in range(3):  # the first one goes
            self.assertTrue(self.save())
        for i in range(TASKS):
            self.m.tasks[i].terminate()  # not in the middle of a call
        for i in range(TASKS):
            self.m.kill(i, 0)
            self.assertGreater(self.m.disks[i].run(self.m.log(i)), 50)
            self.assertEqual(self.m.disks[i].tree(), power_cut.tree_of(self.m.disk(i)))

    def test_power_cuts(self):
        self.assertTrue(self.m.boot_all())
        self.assertTrue(self.save())
        starts = reported = 0
        print("seed", SEED, flush=True)
        for _ in range(RUNS):
            if self.rng.random() < 0.8:
                self.m.ask(self.rng.randrange(TASKS), "cut * %d" % self.rng.randint(1, 100))
                while self.save():
                    reported += 1
            self.m.cut(self.rng)
            if self.rng.random() < 0.3:  # and again while it cleans up
                self.m.ask(self.rng.randrange(TASKS), "cut * %d" % self.rng.randint(1, 8))
                starts += 0 if self.m.boot_all() else 1
                self.m.cut(self.rng)
            self.assertTrue(self.m.boot_all())
            self.check()
        print("%d cuts, %d more at a start; %d saved between them" % (RUNS, starts, reported), flush=True)


if __name__ == "__main__":
    sys.exit(main(unittest))
