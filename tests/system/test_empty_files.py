#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Variables without elements, as users meet them: psctl of all kinds, .npy, files, checkpoints and a restart."""
import array
import json
import os
import sys
import unittest

from cluster import main, run
from test_checkpoint_files import PSCTL, eventually, psctl, read_safetensors, two_tasks
from test_files import write_safetensors


class Empty(unittest.TestCase):
    def setUp(self):
        self.c, self.place, self.flags = two_tasks(self)
        for i in range(2):
            self.c.start(i, *self.flags)
        said = {"optimizer": {"kind": "adam", "learning_rate": 0.5, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}}
        self.tensors = {"none": ("F32", [2, 0, 3], b""), "one": ("F32", [1], array.array("f", [7]).tobytes()), "off": ("BOOL", [0], b""),
                        "text:offsets": ("I64", [1], bytes(8)), "text:bytes": ("U8", [0], b"")}
        write_safetensors(self.at("first.safetensors"), self.tensors, {"format": "psd", "psd_variables": json.dumps({"none": said, "one": said})})
        psctl(self.c, "import", self.at("first.safetensors"), "--yes")

    def at(self, name):
        return os.path.join(self.place, name)

    def vars(self):
        return {v["name"]: v for v in psctl(self.c, "vars", "--json")["variables"]}

    def test_looked_at(self):
        there = self.vars()
        self.assertEqual((there["none"]["shape"], there["none"]["bytes"], there["none"]["initialised"]), ([2, 0, 3], 0, True))
        self.assertEqual((there["text"]["shape"], there["text"]["dtype"]), ([0], "string"))
        self.assertRegex(psctl(self.c, "vars"), r"(?m)^none +.*\(2, 0, 3\)")
        for name in there:
            self.assertEqual(psctl(self.c, "get", name, "--json")["values"], [7] if name == "one" else [])
        self.assertRegex(psctl(self.c, "get", "none"), r"\Anone float32 \(2, 0, 3\) on .*, version 0\n\Z")

    def test_set(self):
        """As a list of the shape, a flat one, one value for all, and out of a .npy file."""
        psctl(self.c, "get", "none", "--npy", self.at("none.npy"))
        with open(self.at("none.npy"), "rb") as file:
            self.assertIn(b"'shape': (2, 0, 3), ", file.read())
        for n, args in enumerate((["[[], []]"], ["[]"], ["5", "--fill"], ["--npy", self.at("none.npy")])):
            self.assertEqual(psctl(self.c, "set", "none", *args, "--json")["new_version"], n + 1)
        self.assertEqual(psctl(self.c, "set", "text", "[]", "--json")["new_version"], 1)
        code, out, err = run(PSCTL, "-t", self.c.addresses[0], "set", "none", "[1]")
        self.assertEqual(code, 1, out)
        self.assertIn("one too many: the shape has 0", err)

    def test_export(self):
        psctl(self.c, "export", self.at("all.safetensors"))
        self.assertEqual(read_safetensors(self.at("all.safetensors"))[1], {n: t[2] for n, t in self.tensors.items()})
        psctl(self.c, "import", self.at("all.safetensors"), "--yes")
        self.assertEqual({v["version"] for v in self.vars().values()}, {1})

    def test_checkpoint(self):
        """Saved, verified, exported with slots, restored, and there after a restart of both tasks."""
        number = eventually(self.c, "checkpoint", "save")["number"]
        psctl(self.c, "checkpoint", "verify", str(number))
        psctl(self.c, "checkpoint", "export", str(number), self.at("slots.safetensors"), "--slots")
        slots = read_safetensors(self.at("slots.safetensors"))[1]
        self.assertEqual({n for n in slots if n.startswith("none")}, {"none", "none/Adam", "none/Adam_1"})
        psctl(self.c, "checkpoint", "import", self.at("slots.safetensors"), "--yes")
        before = {n: v["shape"] for n, v in self.vars().items()}
        eventually(self.c, "checkpoint", "restore", str(number), "--yes")
        for i in range(2):
            self.c.kill(i)
        for i in range(2):
            self.c.start(i, *self.flags)
        eventually(self.c, "checkpoint", "save")
        self.assertEqual({n: v["shape"] for n, v in self.vars().items()}, before)
        self.assertEqual(psctl(self.c, "get", "one", "--json")["values"], [7])
        psctl(self.c, "set", "none", "[]")


if __name__ == "__main__":
    sys.exit(main(unittest))
