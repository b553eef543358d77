#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What --only leaves out of a file, or of the files of an index, cannot refuse its import: no dtype, shape, name, entry or value of
it, and no file that is damaged or missing. An import of all refuses whole: it names what cannot be a variable, and --only."""
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import unittest

from cluster import Cluster, free_port, main, path, run
from test_files import psctl, write_raw, write_safetensors

PSTRAIN = path("bin/pstrain")
ONLY = ("--only", "w", "--only", "net/*", "--create", "--yes")
W = struct.pack("<3f", 1, 2, 3)
B = struct.pack("<2f", 4, 5)


def entry(dtype, shape, begin, end):
    return json.dumps({"dtype": dtype, "shape": shape, "data_offsets": [begin, end]})


# (what it is, JSON of names and entries, bytes of their values, which begin at byte 20: how the error of an import of all begins)
ODD = (
    ("no dtype of a variable", '"odd": ' + entry("U32", [1], 20, 24), b"abcd", "tensor 'odd' is U32, which no variable can be"),
    ("no element, and no dtype", '"odd": ' + entry("U32", [0, 7], 20, 20), b"", "tensor 'odd' is U32, which no variable can be"),
    ("unknown", '"odd": ' + entry("F8_E4M3", [4], 20, 24), b"abcd", "tensor 'odd': dtype F8_E4M3 is not known"),
    ("bits", '"odd": ' + entry("F4", [8], 20, 24), b"abcd", "tensor 'odd': dtype F4 is not known"),
    ("no text", '"odd": {"dtype": 7, "shape": [4], "data_offsets": [20, 24]}', b"abcd", "tensor 'odd': dtype"),
    ("rank 9", '"odd": ' + entry("U8", [1] * 9, 20, 21), b"a", "tensor 'odd': shape has 9 dimensions"),
    ("rank 300,000", '"odd": ' + entry("U8", [1] * 300000, 20, 21), b"a", "tensor 'odd': shape has 300000 dimensions"),
    ("rank 600,000", '"odd": ' + entry("U8", [1] * 600000, 20, 21), b"a", "tensor 'odd': more than 524288 commas"),
    ("too large", '"odd": ' + entry("U8", [1 << 64], 20, 21), b"a", "tensor 'odd': too big"),
    ("negative", '"odd": ' + entry("U8", [-1], 20, 21), b"a", "tensor 'odd': dimension 0"),
    ("other bytes", '"odd": ' + entry("F32", [2], 20, 24), b"abcd", "tensor 'odd': F32 (2,) does not take"),
    ("behind the end", '"odd": ' + entry("U8", [99], 20, 119), b"abcd", "tensor 'odd': its values end at byte 119"),
    ("in front of its begin", '"odd": ' + entry("U8", [4], 24, 20), b"abcd", "tensor 'odd': data_offsets is not"),
    ("over the others", '"odd": ' + entry("U8", [20], 0, 20), b"", "tensor '[a-z/]+': its values begin at byte [0-9]+"),
    ("behind a hole", '"odd": ' + entry("U8", [1], 23, 24), b"abcd", "tensor 'odd': its values begin at byte 23"),
    ("twice", '"odd": %s, "odd": %s' % (entry("U8", [4], 20, 24), entry("U8", [0], 24, 24)), b"abcd", "tensor 'odd': duplicate"),
    ("a field twice", '"odd": {"dtype": "U8", "dtype": "U8", "shape": [4], "data_offsets": [20, 24]}', b"abcd", "tensor 'odd': duplicate"),
    ("a field more", '"odd": {"dtype": "U8", "shape": [4], "data_offsets": [20, 24], "x": 1}', b"abcd", "tensor 'odd': it has fields"),
    ("no object", '"odd": []', b"", "tensor 'odd': its entry is not an object"),
    ("no JSON", '"odd": {"dtype" "U8"]', b"", "tensor 'odd': "),
    ("a bad value", '"odd": ' + entry("BOOL", [2], 20, 22), b"\1\2", "tensor 'odd' is BOOL, but element 1 is 2"),
    ("half of strings", '"odd:bytes": ' + entry("U8", [4], 20, 24), b"abcd", "tensor 'odd:bytes': strings are two tensors"),
    ("strings in disorder", '"odd:offsets": %s, "odd:bytes": %s' % (entry("I64", [3], 20, 44), entry("U8", [4], 44, 48)),
     struct.pack("<3q", 0, 9, 4) + b"abcd", "tensor 'odd:offsets'"),
    ("strings and a tensor", '"odd:bytes": %s, "odd": %s' % (entry("U8", [4], 20, 24), entry("U8", [4], 24, 28)), b"abcdabcd",
     "tensor 'odd' and one of its name"),
)
NAMES = ("", "/w", "w/", "../w", "a//b", "a b", "ü", "x" * 256, "x" * 70000, "a:b", "a\nb\x1b[31m", "a\0b", ":bytes", "\U0001f600", "w ", "a\\b")


class LeftOut(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="psd-left-out-")
        cls.c = Cluster(2).__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.c.__exit__()
        cls.folder.cleanup()

    def setUp(self):
        psctl(self.c, "reset", "--all", "--yes")
        self.file = self.at("m.safetensors")

    def at(self, name):
        return os.path.join(self.folder.name, name)

    def raw(self, name, odd, blob, first=False):
        """w and net/b, and what is odd behind them, or in front of them in the header."""
        good = '"w": %s, "net/b": %s' % (entry("F32", [3], 0, 12), entry("F32", [2], 12, 20))
        write_raw(self.at(name), ("{%s, %s}" % ((odd, good) if first else (good, odd))).encode(), W + B + blob)

    def taken(self, file):
        """w and net/b were imported, and nothing else."""
        done = json.loads(psctl(self.c, "import", file, *ONLY, "--json"))
        self.assertEqual(done["taken"], [{"tensor": n, "variable": n} for n in ("w", "net/b")])
        there = {v["name"]: v for v in json.loads(psctl(self.c, "vars", "--json"))["variables"]}
        self.assertEqual(sorted(there), ["net/b", "w"])
        self.assertTrue(all(v["initialised"] for v in there.values()), there)
        self.assertEqual(json.loads(psctl(self.c, "get", "w", "--json"))["values"], [1, 2, 3])
        self.assertEqual(json.loads(psctl(self.c, "get", "net/b", "--json"))["values"], [4, 5])
        psctl(self.c, "reset", "--all", "--yes")
        return done

    def refused(self, file, says, *flags):
        err = psctl(self.c, "import", file, "--yes", *flags, code=1)
        self.assertRegex(err, says)
        self.assertEqual(json.loads(psctl(self.c, "vars", "--json"))["variables"], [])
        return err

    def test_odd_entries(self):
        for what, odd, blob, says in ODD:
            for first in (False, True):
                with self.subTest(what=what, first=first):
                    self.raw("m.safetensors", odd, blob, first)
                    done = self.taken(self.file)
                    self.assertEqual(done["left_out_tensors"], ["odd"])
                    err = self.refused(self.file, says.replace("(2,)", r"\(2,\)"))
                    if "duplicate" not in says and "begin at byte" not in says:
                        self.assertIn("--only", err)

    def test_odd_names(self):
        for name in NAMES:
            with self.subTest(name=name[:300]):
                self.raw("m.safetensors", "%s: %s" % (json.dumps(name), entry("U8", [4], 20, 24)), b"abcd")
                done = self.taken(self.file)
                self.assertEqual(len(done["left_out_tensors"]), 1)
                self.assertIn("--only", self.refused(self.file, "tensor"))
                out = psctl(self.c, "import", self.file, *ONLY)
                self.assertNotIn("\x1b", out)
                self.assertEqual(len(out.splitlines()), 4, out)
                psctl(self.c, "reset", "--all", "--yes")

    def test_all_that_are_wrong_are_named(self):
        odd = ", ".join('"odd%d": %s' % (i, entry("U32", [1], 20 + 4 * i, 24 + 4 * i)) for i in range(3))
        odd += ', "odd 3": %s, "odd4": %s' % (entry("U8", [1], 32, 33), entry("BOOL", [1], 33, 34))
        self.raw("m.safetensors", odd, b"\7" * 14)
        self.refused(self.file, r"'odd 3'.*; 4 others are refused: 'odd0', 'odd1', 'odd2', 'odd4'; `only` takes the rest \(psctl import --only")
        many = ", ".join('"odd%d": %s' % (i, entry("U32", [1], 20 + 4 * i, 24 + 4 * i)) for i in range(1000))
        self.raw("m.safetensors", many, bytes(4000))
        self.refused(self.file, r"tensor 'odd0' is U32.*; 999 others are refused: 'odd1', .*, \.\.\.; `only` takes")

    def test_a_cut_file(self):
        """The values of what is left out are not there; those of what is taken are needed."""
        self.raw("m.safetensors", '"odd": ' + entry("F32", [100], 20, 420), bytes(400))
        size = os.path.getsize(self.file)
        for cut in (1, 200, 400):
            os.truncate(self.file, size - cut)
            self.taken(self.file)
            self.refused(self.file, "tensor 'odd': its values end at byte 420")
        os.truncate(self.file, size - 401)
        self.refused(self.file, "tensor 'net/b': its values end at byte 20", *ONLY[:-1])

    def test_what_is_taken_is_looked_at(self):
        """By a pattern that fits it, the odd one refuses as ever; so do two that overlap."""
        for what, odd, blob, says in ODD:
            if what not in ("over the others", "behind a hole"):
                with self.subTest(what=what):
                    self.raw("m.safetensors", odd, blob)
                    self.refused(self.file, says.replace("(2,)", r"\(2,\)"), "--only", "w", "--only", "odd", "--create")
        self.raw("m.safetensors", '"odd": %s, "x": %s' % (entry("U8", [20], 0, 20), entry("U32", [1], 20, 24)), b"abcd")
        self.refused(self.file, "overlapping values", "--only", "w", "--only", "odd", "--create")
        self.refused(self.file, "the pattern 'nothing' fits no variable of the file", "--only", "w", "--only", "nothing", "--create")

    def test_said_of_it(self):
        """__metadata__ of psd says something odd of what is left out, and of what it says is a slot."""
        said = {"w": {"optimizer": {"kind": "sgd", "learning_rate": 0.5}}, "odd": {"optimizer": {"kind": "?"}}, "gone": 7,
                "net/b": {"optimizer": {"kind": "none"}}}
        write_safetensors(self.file, {"w": ("F32", [3], W), "net/b": ("F32", [2], B), "odd": ("F32", [1], bytes(4))},
                          {"format": "psd", "psd_variables": json.dumps(said)})
        self.taken(self.file)
        self.refused(self.file, "variable 'odd': its optimizer is of the kind '\\?', which this release does not know: import with a newer one, "
                                r"or leave the variable out \(`only`, psctl import --only\)")

    def index(self, of):
        with open(self.at("m.safetensors.index.json"), "w", encoding="utf-8") as file:
            json.dump({"metadata": {"total_size": 1}, "weight_map": of}, file)
        return self.at("m.safetensors.index.json")

    def test_an_index(self):
        """A file of an index that nothing is taken of may be missing, damaged, or no file at all."""
        write_safetensors(self.at("1.safetensors"), {"w": ("F32", [3], W), "odd1": ("U32", [1], b"abcd")})
        write_safetensors(self.at("2.safetensors"), {"odd2": ("F8_E5M2", [4], b"abcd"), "net/b": ("F32", [2], B)})
        third = self.at("3.safetensors")
        of = {"w": "1.safetensors", "odd1": "1.safetensors", "odd2": "2.safetensors", "net/b": "2.safetensors", "odd3": "3.safetensors"}
        left_out = ["odd1", "odd2", "odd3"]
        index = self.index(of)
        self.assertEqual(sorted(self.taken(index)["left_out_tensors"]), left_out)  # it is missing
        self.refused(index, "3.safetensors: .*No such file")
        for damage in (b"", b"short", b"\xff" * 100, struct.pack("<Q", 4) + b'{"a"'):
            with open(third, "wb") as file:
                file.write(damage)
            self.assertEqual(sorted(self.taken(index)["left_out_tensors"]), left_out)
            self.refused(index, "3.safetensors: ")
        os.remove(third)
        for no_file in ("../x", "", 7, None, {"a": ["}"]}):
            self.assertEqual(sorted(self.taken(self.index({**of, "odd3": no_file}))["left_out_tensors"]), left_out)
            self.refused(index, "the file of tensor 'odd3' is no name of a file beside it")
        # in two of its files, and not where the map says
        write_safetensors(third, {"odd1": ("U8", [1], b"a"), "odd2": ("U8", [1], b"a")})
        self.assertEqual(sorted(self.taken(self.index(of))["left_out_tensors"]), left_out)
        write_safetensors(third, {"odd3": ("U8", [1], b"a")})
        err = self.refused(index, "1.safetensors: tensor 'odd1' is U32, .*; 1 other is refused: 'odd2'; `only` takes the rest")
        self.assertNotIn("odd3", err)
        # what is taken is missing
        write_safetensors(self.at("2.safetensors"), {"odd2": ("U8", [4], b"abcd")})
        self.refused(index, "it names 2 tensors, and its files have 1", *ONLY[:-1])

    def test_an_index_of_many_files(self):
        """As many as there are: how many are open does not grow with it."""
        names = ["%04d" % i for i in range(1200)]
        for name in names:
            write_safetensors(self.at(name), {"v" + name: ("F32", [1], struct.pack("<f", int(name)))})
        out = subprocess.run([path("bin/psctl"), "-t", self.c.addresses[0], "import", self.index({"v" + n: n for n in names}), "--yes", "--json"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertEqual(json.loads(out.stdout)["variables"], 1200)
        self.assertEqual(json.loads(psctl(self.c, "get", "v1199", "--json"))["values"], [1199])

    def test_slots(self):
        """checkpoint import: slots follow their variable; those of what is left out are left out."""
        slot = ("F32", [3], struct.pack("<3f", 7, 8, 9))
        said = {"w": {"optimizer": {"kind": "adagrad", "learning_rate": 0.5, "initial_accumulator": 0.1}, "slots": ["w/Adagrad"]},
                "net/b": {"optimizer": {"kind": "none"}}, "odd": {"optimizer": {"kind": "adam"}, "slots": ["odd/Adam", "beta1_power"]}}
        tensors = {"w": ("F32", [3], W), "net/b": ("F32", [2], B), "w/Adagrad": slot, "odd": ("U16", [1], b"ab"),
                   "odd/Adam": ("U32", [1], b"abcd"), "odd/Adam_1": ("F6", [1], b"abcd"), "beta1_power": ("F32", [2], bytes(8))}
        metadata = {"format": "psd", "psd_variables": json.dumps(said)}
        write_safetensors(self.file, tensors, metadata)
        done = json.loads(psctl(self.c, "checkpoint", "import", self.file, *ONLY, "--json"))
        self.assertEqual([t["tensor"] for t in done["taken"]], ["w", "net/b"])
        self.assertEqual(done["left_out_tensors"], ["odd"])
        psctl(self.c, "reset", "--all", "--yes")
        write_safetensors(self.file, {**tensors, "w/Adagrad": ("F32", [2], bytes(8))}, metadata)
        err = psctl(self.c, "checkpoint", "import", self.file, *ONLY, code=1)
        self.assertIn("tensor 'w/Adagrad': a slot has the dtype of its variable", err)

    def test_pstrain(self):
        """--warm_start_only: before the training, and when the model is there."""
        tensors = {"softmax/biases": ("F32", [10], bytes(40)), "odd": ("U32", [1], b"abcd"), "a b": ("F8_E4M3", [4], b"abcd")}
        write_safetensors(self.file, tensors)
        worker = "127.0.0.1:%d" % free_port()
        train = (PSTRAIN, "--ps_hosts", self.c.hosts, "--worker_hosts", worker, "--job_name", "worker", "--task_index", "0", "--steps", "3",
                 "--model", "softmax", "--warm_start", self.file)
        code, out, err = run(*train)
        self.assertNotEqual(code, 0)
        self.assertRegex(err, r"variable name 'a b': .*; 1 other is refused: 'odd'; `only` takes the rest \(psctl import --only, pstrain --warm_start_only\)")
        code, out, err = run(*train, "--warm_start_only", "softmax/*")
        self.assertEqual(code, 0, out + err)
        self.assertIn("--warm_start: 1 variable of " + self.file, out + err)


if __name__ == "__main__":
    sys.exit(main(unittest))
