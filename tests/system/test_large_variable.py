#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 600
"""A variable of more than 4 GiB is given, saved, restored by a task that was killed, and read back: where PS_TEST_LARGE=1 asks for it,
because it takes a minute of processor time, and memory is not short. Otherwise it is skipped, and says why."""
import os
import shutil
import struct
import sys
import tempfile
import unittest

import cluster
from test_files import write_raw
from test_restore import psctl, until

GIB = 1 << 30
ELEMENTS = GIB + 40000  # F32: a bit more than 4 GiB, and no whole number of blocks
PLACE = "/dev/shm"
NEEDS = {"memory": 14 * GIB, PLACE: 10 * GIB}  # the task, what it has saved and what is read back; the last two there
MARK_EVERY = 1 << 20


def available():
    with open("/proc/meminfo", encoding="ascii") as info:
        return next(int(line.split()[1]) << 10 for line in info if line.startswith("MemAvailable:"))


def short():
    """Why it cannot be done here; empty: it can."""
    if os.environ.get("PS_TEST_LARGE", "0") in ("", "0"):
        return "PS_TEST_LARGE=1 runs it"
    if cluster.SANITIZED:
        return "a sanitizer's build takes too long and too much memory"
    have = {"memory": available(), PLACE: shutil.disk_usage(PLACE).free if os.path.isdir(PLACE) else 0}
    return ", ".join("too little of %s: %.1f GiB of %.1f" % (what, have[what] / GIB, need / GIB) for what, need in NEEDS.items() if have[what] < need)


class Large(unittest.TestCase):
    def setUp(self):
        if short():
            self.skipTest(short())
        place = tempfile.TemporaryDirectory(dir=PLACE)
        self.addCleanup(place.cleanup)
        self.place = place.name

    def at(self, name):
        return os.path.join(self.place, name)

    def make(self, name):
        """Zeros, with marks that say where they are, all along and on both sides of 4 GiB; where the values begin."""
        header = b'{"w":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}' % (ELEMENTS, 4 * ELEMENTS)
        header += b" " * (-len(header) % 8)
        write_raw(name, header, b"")
        first = 8 + len(header)
        with open(name, "r+b") as file:
            file.truncate(first + 4 * ELEMENTS)
            for at in [*range(0, 4 * ELEMENTS, MARK_EVERY), *range(4 * GIB - (1 << 17), 4 * ELEMENTS, 8)]:
                file.seek(first + at)
                file.write(struct.pack("<Q", at + 1))
        return first

    def assert_same(self, ours, ours_at, theirs, theirs_at):
        with open(ours, "rb") as a, open(theirs, "rb") as b:
            a.seek(ours_at)
            b.seek(theirs_at)
            for at in range(0, 4 * ELEMENTS, 64 << 20):
                n = min(64 << 20, 4 * ELEMENTS - at)
                self.assertTrue(a.read(n) == b.read(n), "within 64 MiB from byte %d on" % at)
            self.assertEqual((a.read(), b.read()), (b"", b""))

    def test_saved_and_restored(self):
        first = self.make(self.at("given.safetensors"))
        flags = ("--checkpoint_dir", self.place, "--checkpoint_seconds", "0")
        c = cluster.Cluster(1)
        self.addCleanup(c.__exit__)
        c.start(0, *flags)
        psctl(c, "import", self.at("given.safetensors"), "--yes", "--timeout", "300s", timeout=400)
        self.assertEqual(psctl(c, "checkpoint", "save", "--timeout", "300s", "--json", timeout=400)["number"], 1)
        psctl(c, "checkpoint", "verify", "1", "--timeout", "300s", timeout=400)
        c.kill(0)
        c.start(0, *flags)
        until(lambda: psctl(c, "vars", "--timeout", "60s", "--json", timeout=100)["variables"])
        psctl(c, "export", self.at("back.safetensors"), "--timeout", "300s", timeout=400)
        with open(self.at("back.safetensors"), "rb") as file:
            length, = struct.unpack("<Q", file.read(8))
        self.assert_same(self.at("given.safetensors"), first, self.at("back.safetensors"), 8 + length)


if __name__ == "__main__":
    sys.exit(cluster.main(unittest))
