#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Warm start: psctl import and psctl checkpoint import of a part of a file and under other names, and exports of a part. What does
not fit is said before anything has changed."""
import json
import os
import struct
import sys
import unittest

from cluster import main
from test_checkpoint_files import Trained, eventually, psctl
from test_files import read_safetensors, write_safetensors


class WarmStart(Trained):
    """Of checkpoint 1 of a trained model, with slots of Adagrad."""

    def setUp(self):
        self.file = self.at("slots.safetensors")
        psctl(self.c, "checkpoint", "export", "1", self.file, "--slots")
        self.metadata, self.tensors = read_safetensors(self.file)
        self.slots = {n: v["slots"] for n, v in json.loads(self.metadata["psd_variables"]).items() if v.get("slots")}
        self.assertEqual(sorted(self.live), ["b", "global_step", "w"])
        self.assertEqual(self.slots, {"b": ["b/Adagrad"], "w": ["w/Adagrad"]})

    def saving(self, count):
        place = self.at("saved-%d-%s" % (count, self.id()))
        os.mkdir(place)
        return self.fresh(count, "--checkpoint_dir", place, "--checkpoint_seconds", "0")

    def model(self, c, prefix="", names=("w", "b")):
        """Of other values, all zero, with slots of their own."""
        name = self.at("model.safetensors")
        said = {prefix + n: v for n, v in json.loads(self.metadata["psd_variables"]).items() if n in names}
        for v in said.values():
            v.pop("slots", None)
        zeros = {prefix + n: (d, s, bytes(len(x))) for n, (d, s, x) in self.tensors.items() if n in names}
        write_safetensors(name, zeros, {**self.metadata, "psd_variables": json.dumps(said)})
        psctl(c, "import", name, "--yes")

    def now(self, c):
        """{tensor: bytes}, with slots: of a new checkpoint."""
        eventually(c, "checkpoint", "save")
        psctl(c, "checkpoint", "export", "latest", self.at("now.safetensors"), "--slots")
        return {n: t[2] for n, t in read_safetensors(self.at("now.safetensors"))[1].items()}

    def test_a_part(self):
        """Values alone by import; with the slots by checkpoint import; what else there is keeps its values."""
        for verb, with_slots in ((("import",), False), (("checkpoint", "import"), True)):
            c = self.fresh(2, "--checkpoint_dir", self.at("part-%d" % with_slots), "--checkpoint_seconds", "0")
            self.model(c)
            before = self.now(c)
            done = psctl(c, *verb, self.file, "--only", "w*", "--yes", "--json")
            self.assertEqual((done["variables"], done["taken"]), (1, [{"tensor": "w", "variable": "w"}]))
            self.assertEqual((done["left_out"], sorted(done["left_out_tensors"]), done["kept"]), (2, ["b", "global_step"], ["b"]))
            after = self.now(c)
            self.assertNotEqual(before["w"], after["w"])
            want = {**before, "w": self.live["w"], **({"w/Adagrad": self.tensors["w/Adagrad"][2]} if with_slots else {})}
            self.assertEqual(after, want)
            self.assertNotEqual(before["w/Adagrad"], self.tensors["w/Adagrad"][2])

    def test_under_other_names(self):
        c = self.saving(2)
        self.model(c, "net/new/")
        out = psctl(c, "checkpoint", "import", self.file, "--only", "[bw]", "--prefix", "=net/", "--prefix", "w=net/new/w",
                    "--prefix", "b=net/new/b", "--yes")
        self.assertRegex(out, r"(?m)^imported 2 variables, ")
        self.assertRegex(out, r"(?m)^saved as checkpoint [0-9]+$")
        self.assertEqual(sorted(out.splitlines()[2:]), ["left out: global_step", "taken:    b as net/new/b", "taken:    w as net/new/w"])
        after = self.now(c)
        self.assertEqual(after, {"net/new/" + n: self.tensors[n][2] for n in ("w", "b", "w/Adagrad", "b/Adagrad")})
        back = self.saving(1)  # and taken off again, into a model that is made by it
        psctl(c, "export", self.at("renamed.safetensors"))
        psctl(back, "import", self.at("renamed.safetensors"), "--prefix", "net/new/=", "--create", "--yes")
        self.assertEqual({n: self.now(back)[n] for n in ("w", "b")}, {n: self.live[n] for n in ("w", "b")})
        self.assertEqual({v["name"]: v["optimizer"]["kind"] for v in psctl(back, "vars", "--json")["variables"]},
                         {"w": "adagrad", "b": "adagrad"})

    def test_what_does_not_fit(self):
        """It is named, and nothing has changed: no value, no version, no new variable."""
        c = self.fresh(2)
        self.model(c, "a/")
        self.model(c, "other/", names=("b",))
        before = psctl(c, "vars", "--json")["variables"]
        shape = r"tensor 'b' is float32 \(10,\), the variable 'a/w' on /job:ps/task:[01] is float32 \(64, 10\)"
        for says, *flags in (
                ("the pattern 'nothing/\\*' fits no variable of the file", "--only", "w", "--only", "nothing/*"),
                ("the pattern 'w/Adagrad' fits no variable of the file", "--only", "w/Adagrad", "--prefix", "=a/"),
                ("the prefix 'x/=' fits no variable of the file that is meant", "--only", "w", "--prefix", "x/="),
                ("tensors '[bw]' and '[bw]' would both be variable 'a/w'", "--prefix", "b=a/w", "--prefix", "w=a/w"),
                ("container 'localhost' has no variable 'w', which is to have the values of tensor 'w'", "--only", "w"),
                ("has no variable 'b/[bw]', .*; it is not the only one", "--only", "[bw]", "--prefix", "=b/"),
                ("variable 'w' under the prefix 'w=': variable name ''", "--only", "w", "--prefix", "w="),
                (shape, "--only", "[bg]*", "--prefix", "b=a/w"),
                (r"tensor 'w' is float32 \(64, 10\), the variable 'other/b' ", "--only", "w", "--prefix", "w=other/b"),
                ("prefix 'a': is not of the form OLD=NEW", "--prefix", "a"),
                ("prefix 'w=b': another one begins with the same OLD", "--prefix", "w=a", "--prefix", "w=b")):
            for verb in (("import",), ("checkpoint", "import")):
                with self.subTest(flags=flags, verb=verb):
                    self.assertRegex(psctl(c, *verb, self.file, *flags, "--yes", code=1), says)
        for says, *args in (("--only and no --prefix|no --only and no --prefix", "import", "w.npy", "--only", "w"),
                            ("--create is for", "import", self.file, "--create"),
                            ("checkpoint verify takes no --prefix", "checkpoint", "verify", "1", "--prefix", "a=b"),
                            ("checkpoint list takes no --only", "checkpoint", "list", "--only", "w"),
                            ("--only: '' is not allowed", "import", self.file, "--only", ""),
                            ("--only: may be given 64 times", "import", self.file, *["--only", "w"] * 65)):
            with self.subTest(args=args[:4]):
                self.assertRegex(psctl(c, *args, "--yes" if args[0] != "export" else "--json", code=2), says)
        self.assertEqual(psctl(c, "vars", "--json")["variables"], before)

    def test_exports_of_a_part(self):
        name = self.at("some.safetensors")
        psctl(self.c, "checkpoint", "export", "1", name, "--slots", "--only", "w", "--only", "glob*")
        self.assertEqual({n: t[2] for n, t in read_safetensors(name)[1].items()},
                         {n: self.tensors[n][2] for n in ("w", "w/Adagrad", "global_step")})
        psctl(self.c, "export", name, "--only", "[bw]")
        self.assertEqual({n: t[2] for n, t in read_safetensors(name)[1].items()}, {n: self.live[n] for n in ("w", "b")})
        os.remove(name)
        self.assertIn("the pattern 'x*' fits no variable of the checkpoint",
                      psctl(self.c, "checkpoint", "export", "1", name, "--only", "w", "--only", "x*", code=1))
        self.assertIn("the pattern 'x*' fits no variable of the container", psctl(self.c, "export", name, "--only", "x*", code=1))
        self.assertFalse(os.path.exists(name))

    def test_exports_under_other_names(self):
        """The file has the new names, of slots and in its metadata too, and what is imported of it is the same under these."""
        name = self.at("others.safetensors")
        flags = ("--prefix", "w=net/w", "--prefix", "global_=", "--prefix", "=old/")
        want = {"net/w": "w", "old/b": "b", "step": "global_step"}
        for with_slots, *verb in ((False, "export", name), (True, "checkpoint", "export", "1", name, "--slots"),
                                  (True, "checkpoint", "export", "1", name, "--slots", "--shard", "50")):
            with self.subTest(verb=verb):
                psctl(self.c, *verb, *flags)
                parts = [name]
                if "--shard" in verb:
                    with open(name + ".index.json", encoding="utf-8") as file:
                        parts = [self.at(p) for p in set(json.load(file)["weight_map"].values())]
                metadata, tensors = {}, {}
                for part in parts:
                    said, some = read_safetensors(part)
                    tensors.update(some)
                    metadata.update(json.loads(said["psd_variables"]))
                self.assertEqual(sorted(metadata), sorted(want))
                slots = {"net/w/Adagrad": "w/Adagrad", "old/b/Adagrad": "b/Adagrad"} if with_slots else {}
                self.assertEqual({n: t[2] for n, t in tensors.items()}, {n: self.tensors[of][2] for n, of in {**want, **slots}.items()})
                self.assertEqual([metadata[n].get("slots") for n in sorted(want)], [["net/w/Adagrad"], ["old/b/Adagrad"], None] if with_slots else [None] * 3)
                c = self.fresh(1, "--checkpoint_dir", self.at("others-%d" % len(verb)), "--checkpoint_seconds", "0")
                index = name + ".index.json" if "--shard" in verb else name
                psctl(c, *(("checkpoint", "import") if with_slots else ("import",)), index, "--prefix", "net/w=w", "--prefix", "old/=", "--create", "--yes")
                now = self.now(c)
                self.assertEqual({n: now[n] for n in ("w", "b")}, {n: self.live[n] for n in ("w", "b")})
                if with_slots:
                    self.assertEqual(now["w/Adagrad"], self.tensors["w/Adagrad"][2])
                os.remove(parts[0])

    def test_exports_that_would_meet(self):
        """Nothing is written, and a file that is there stays."""
        name = self.at("met.safetensors")
        with open(name, "wb") as file:
            file.write(b"as it was")
        for verb in (("export", name), ("checkpoint", "export", "1", name), ("checkpoint", "export", "1", name, "--slots", "--shard", "50")):
            for says, *flags in (("variables '[bw]' and '[bw]' would both be tensor 'x'", "--prefix", "b=x", "--prefix", "w=x"),
                                 ("variables '[bw]' and '[bw]' would both be tensor 'w'", "--prefix", "b=w", "--only", "[bw]"),
                                 ("the prefix 'v=x' fits no variable of the c[a-z]+", "--prefix", "v=x"),
                                 ("the prefix 'w=x' fits no variable of the c.* that is meant", "--prefix", "w=x", "--only", "b"),
                                 ("variable 'w' under the prefix 'w=': variable name ''", "--prefix", "w="),
                                 ("prefix 'w': is not of the form OLD=NEW", "--prefix", "w"),
                                 ("variable '[bw]' under the prefix '=" + "n" * 200, "--prefix", "=" + "n" * 255)):
                with self.subTest(verb=verb[:2], flags=[f[:9] for f in flags]):
                    self.assertRegex(psctl(self.c, *verb, *flags, code=1), says)
        slot = psctl(self.c, "checkpoint", "export", "1", name, "--slots", "--prefix", "b=w/Adagrad", code=1)
        self.assertIn("tensor 'w/Adagrad': the name comes twice", slot)
        with open(name, "rb") as file:
            self.assertEqual(file.read(), b"as it was")
        self.assertEqual([n for n in os.listdir(os.path.dirname(name)) if n.startswith(("met.", "met-", ".psd"))], ["met.safetensors"])

    def test_an_index(self):
        """Its files are one: patterns fit in any of them, and what is wrong in the last one is found before the first is given."""
        index = self.at("parts.safetensors.index.json")
        psctl(self.c, "checkpoint", "export", "1", self.at("parts.safetensors"), "--slots", "--shard", "50")
        with open(index, encoding="utf-8") as file:
            of = json.load(file)["weight_map"]
        parts = sorted(set(of.values()))
        self.assertEqual(len(parts), 3)
        c = self.saving(2)
        self.model(c, "a/")
        first, last = sorted(("w", "b"), key=lambda n: of[n])
        before = psctl(c, "vars", "--json")["variables"]
        self.assertIn("'a/a/%s'" % last, psctl(c, "import", index, "--only", "[bw]", "--prefix", "=a/", "--prefix", last + "=a/a/" + last,
                                               "--yes", code=1))
        self.assertEqual(psctl(c, "vars", "--json")["variables"], before)
        psctl(c, "checkpoint", "import", index, "--only", "w", "--only", "b", "--prefix", "=a/", "--yes")
        self.assertEqual(self.now(c), {"a/" + n: self.tensors[n][2] for n in ("w", "b", "w/Adagrad", "b/Adagrad")})
        before = psctl(c, "vars", "--json")["variables"]
        kept = {}
        for part in parts:
            with open(self.at(part), "rb") as file:
                kept[part] = file.read()

        def says(want, change, part, *only):
            change(self.at(part))
            for flags in ((*only, "--prefix", "=a/"), ()):
                self.assertRegex(psctl(c, "import", index, *flags, "--yes", code=1), want)
            with open(self.at(part), "wb") as file:
                file.write(kept[part])
        of_last = read_safetensors(self.at(of[last]))
        both = {**of_last[1], first: self.tensors[first]}
        says("%s: tensor '%s' is in two of its files" % (of[last], first), lambda p: write_safetensors(p, both, of_last[0]), of[last],
             "--only", "[bw]")
        less = {n: t for n, t in of_last[1].items() if n == last}
        said = {"format": "psd"}
        says("it names 5 tensors, and its files have 4", lambda p: write_safetensors(p, less, said), of[last])
        says("%s: .*No such file" % of[last], os.remove, of[last], "--only", "[bw]")
        says("%s: " % of[last], lambda p: os.truncate(p, len(kept[of[last]]) - 1), of[last])
        for text, want in (("{", "parts.safetensors.index.json: "), ('{"weight_map": {}}', "its weight_map names no tensor"), ("{}", "it has no weight_map"),
                           ('{"weight_map": {"w": "../x"}}', "is no name of a file beside it"),
                           ('{"weight_map": {"w": 1}}', "is no name of a file beside it"),
                           ('{"weight_map": 1}', "weight_map: line 1, column 1: '{' is expected")):
            with open(index, "w", encoding="utf-8") as file:
                file.write(text)
            self.assertIn(want, psctl(c, "import", index, "--yes", code=1))
        self.assertEqual(psctl(c, "vars", "--json")["variables"], before)

    def test_strings(self):
        """Both tensors of a variable of strings follow its name."""
        name = self.at("strings.safetensors")
        words = b"onethree"
        write_safetensors(name, {"old/s:offsets": ("I64", [3], struct.pack("<3q", 0, 3, 8)), "old/s:bytes": ("U8", [8], words),
                                 "old/x": ("F32", [1], struct.pack("<f", 1))})
        c = self.fresh(1)
        psctl(c, "import", name, "--only", "old/s", "--prefix", "old/=new/", "--create", "--yes")
        self.assertEqual(psctl(c, "get", "new/s", "--json")["values"], ["one", "three"])
        self.assertEqual([v["name"] for v in psctl(c, "vars", "--json")["variables"]], ["new/s"])


if __name__ == "__main__":
    sys.exit(main(unittest))
