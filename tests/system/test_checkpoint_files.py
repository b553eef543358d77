#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of checkpoints of live clusters: psctl checkpoint verify, export, import and delete, and what other programs read."""
import importlib.util
import json
import os
import re
import shutil
import signal
import struct
import sys
import tempfile
import time
import unittest

import test_files
from cluster import Cluster, halt, main, path, run
from changes import change  # cluster knows where
from pyclient import crc32c, decode, list_parts, varint

PSCTL = path("bin/psctl")
SOFTMAX = path("examples/softmax")
WAIT_S = 600


def psctl(cluster, *args, code=0):
    got, out, err = run(PSCTL, "-t", cluster.addresses[0], "--timeout", "30s", *args)
    if got != code:
        raise AssertionError("%s gave %d: %s%s" % (args, got, out, err))
    return json.loads(out) if "--json" in args and got == 0 else out + err


def eventually(cluster, *args):
    """When all tasks are connected to the directory."""
    end = time.monotonic() + WAIT_S
    while True:
        code, out, err = run(PSCTL, "-t", cluster.addresses[0], "--timeout", "30s", *args, "--json")
        if code == 0:
            return json.loads(out)
        if "UNAVAILABLE" not in out or time.monotonic() > end:
            raise AssertionError(out + err)
        time.sleep(0.1)


def saved_anew(cluster):
    """The number of a checkpoint that differs from the one before."""
    change(cluster.addresses[0])
    return eventually(cluster, "checkpoint", "save")["number"]


def two_tasks(test):
    """Of a test, not started yet: the cluster, the directory of its checkpoints, the flags of each task."""
    place = tempfile.TemporaryDirectory()
    test.addCleanup(place.cleanup)
    c = Cluster(2)
    test.addCleanup(c.__exit__)
    return c, place.name, ("--checkpoint_dir", place.name, "--checkpoint_seconds", "0")


def heard_all(cluster):
    """When the directory knows what all tasks have."""
    end = time.monotonic() + WAIT_S
    while True:
        code, out, err = run(PSCTL, "-t", cluster.addresses[0], "--timeout", "30s", "status", "--json")
        if code == 0 and not json.loads(out)["tasks"][0].get("waiting_for"):
            return
        if time.monotonic() > end:
            raise AssertionError(out + err)
        time.sleep(0.1)


def read_safetensors(name):
    """(metadata, {tensor: bytes})"""
    with open(name, "rb") as file:
        data = file.read()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__")
    return metadata, {k: data[8 + length:][slice(*t["data_offsets"])] for k, t in header.items()}


def npy(name):
    with open(name, "rb") as file:
        data = file.read()
    return data[10 + struct.unpack_from("<H", data, 8)[0]:]


class Trained(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """A trained model in checkpoint 1, and what psctl get says of it; checkpoint 2 is the same."""
        cls.folder = tempfile.TemporaryDirectory()
        cls.c = Cluster(2)
        cls.flags = ("--checkpoint_dir", cls.folder.name, "--checkpoint_seconds", "0")
        for i in range(2):
            cls.c.start(i, *cls.flags)
        code, out, err = run(SOFTMAX, "--ps_hosts", cls.c.hosts, "--steps", "30", "--seed", "7")
        if code != 0:
            raise AssertionError(out + err)
        cls.live = {}
        cls.optimizers = {}
        for v in psctl(cls.c, "vars", "--json")["variables"]:
            psctl(cls.c, "get", v["name"], "--npy", cls.at("live.npy"))
            cls.live[v["name"]] = npy(cls.at("live.npy"))
            cls.optimizers[v["name"]] = v["optimizer"]["kind"]
        first = eventually(cls.c, "checkpoint", "save")["number"]
        if (first, eventually(cls.c, "checkpoint", "restore", "1", "--yes")["saved"]) != (1, 2):  # two that are the same
            raise AssertionError("numbers")

    @classmethod
    def tearDownClass(cls):
        cls.c.__exit__()
        cls.folder.cleanup()

    @classmethod
    def at(cls, name):
        return os.path.join(cls.folder.name, name)

    def fresh(self, count, *flags):
        c = Cluster(count)
        self.addCleanup(c.__exit__)
        for i in range(count):
            c.start(i, *flags)
        return c


class Files(Trained):
    def file_of(self, task, number, name):
        return self.at("ps-%d/%020d/%s" % (task, number, name))

    def changed(self, name, at):
        """That byte, for the time of the test."""
        shutil.copy(name, self.at("kept"))
        self.addCleanup(shutil.move, self.at("kept"), name)
        with open(name, "r+b") as file:
            file.seek(at, os.SEEK_SET if at >= 0 else os.SEEK_END)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 64]))

    def test_verify(self):
        for which in ((), ("latest",), ("2",)):
            self.assertIn("checkpoint 2: ", psctl(self.c, "checkpoint", "verify", *which))
        done = psctl(self.c, "checkpoint", "verify", "1", "--json")
        self.assertEqual((done["number"], done["bad"]), (1, []))
        self.assertEqual(done["bytes"], psctl(self.c, "checkpoint", "list", "--json")["checkpoints"][0]["bytes"])
        self.assertIn("no task has a manifest of checkpoint 9", psctl(self.c, "checkpoint", "verify", "9", code=1))
        for number in ("1x", "0", "18446744073709551616"):
            self.assertIn("'%s' is no checkpoint" % number, psctl(self.c, "checkpoint", "verify", number, code=2))

    def test_verify_names_what_is_bad(self):
        self.changed(self.file_of(1, 2, "model-00000.safetensors"), -1)
        out = psctl(self.c, "checkpoint", "verify", "2", code=1)
        self.assertRegex(out, r"/job:ps/task:1 model-00000.safetensors: '.*': block \d+ is not as it was written")
        self.assertIn("1 of its files is bad", out)
        bad = re.search(r"safetensors: '([^':]*):", out).group(1)  # in a slot of it
        others = [a for n in self.live if ":" not in n and n != bad for a in ("--only", n)]
        for args, good in (((), True), (("--slots", *others), True), (("--slots",), False), (("--slots", "--only", bad), False)):
            file = self.at("%d.safetensors" % good)
            out = psctl(self.c, "checkpoint", "export", "2", file, *args, code=0 if good else 1)
            if good:  # what is not exported is not read
                tensors = read_safetensors(file)[1]
                self.assertEqual({n: v for n, v in tensors.items() if n in self.live}, {n: v for n, v in self.live.items() if n in tensors})
            else:
                self.assertIn("is not as it was written", out)
                self.assertFalse(os.path.exists(file))
        psctl(self.c, "checkpoint", "verify", "1")

    def test_verify_with_a_bad_manifest_and_state(self):
        self.changed(self.file_of(0, 2, "manifest"), 20)
        out = psctl(self.c, "checkpoint", "verify", "2", code=1)
        self.assertIn("/job:ps/task:0 manifest: ", out)
        self.assertIn("1 of its files is bad", out)
        self.doCleanups()
        self.changed(self.file_of(0, 2, "state"), 65535)
        out = psctl(self.c, "checkpoint", "verify", "2", code=1)
        self.assertIn("/job:ps/task:0 state: block 0 is not as it was written", out)
        self.assertIn("cannot be verified", out)

    def test_export_is_what_get_says(self):
        done = psctl(self.c, "checkpoint", "export", "latest", self.at("one.safetensors"), "--json")
        self.assertEqual(done["variables"], len(self.live))
        metadata, tensors = read_safetensors(self.at("one.safetensors"))
        self.assertEqual(tensors, self.live)
        self.assertEqual(done["bytes"], sum(map(len, tensors.values())))  # of values in the file, not of what was read
        some = psctl(self.c, "checkpoint", "export", "1", self.at("some.safetensors"), "--slots", "--only", min(n for n in self.live if ":" not in n), "--json")
        self.assertEqual(some["bytes"], sum(map(len, read_safetensors(self.at("some.safetensors"))[1].values())))
        self.assertEqual((metadata["format"], metadata["psd_container"]), ("psd", "localhost"))
        psctl(self.c, "export", self.at("live.safetensors"))
        said = read_safetensors(self.at("live.safetensors"))
        self.assertEqual(tensors, said[1])
        self.assertEqual(json.loads(metadata["psd_variables"]), json.loads(said[0]["psd_variables"]))
        self.assertIn("has no variable with a value", psctl(
            self.c, "checkpoint", "export", "1", self.at("none.safetensors"), "--container", "other", code=1))

    def test_slots_have_the_names_of_tensorflow(self):
        psctl(self.c, "checkpoint", "export", "1", self.at("slots.safetensors"), "--slots")
        _, tensors = read_safetensors(self.at("slots.safetensors"))
        saved = {}
        for task in range(2):
            for name in os.listdir(self.file_of(task, 1, "")):
                if name.startswith("model-"):
                    saved.update(read_safetensors(self.file_of(task, 1, name))[1])
        own = {"accumulator": "Adagrad", "momentum": "Momentum", "m": "Adam", "v": "Adam_1"}
        want = {k if ":" not in k else "%s/%s" % (k.split(":")[0], own[k.split(":")[1]]): v for k, v in saved.items()}
        powers = {k: tensors.pop(k) for k in ("beta1_power", "beta2_power") if k in tensors}
        self.assertEqual(tensors, want)
        self.assertGreater(len(want), len(self.live))
        self.assertEqual(len(powers), 2 if "adam" in self.optimizers.values() else 0)

    def assert_live(self, c):
        self.assertEqual({v["name"]: v["optimizer"]["kind"] for v in psctl(c, "vars", "--json")["variables"]}, self.optimizers)
        for name, values in self.live.items():
            psctl(c, "get", name, "--npy", self.at("back.npy"))
            self.assertEqual(npy(self.at("back.npy")), values, name)

    def test_import_on_three(self):
        """By checkpoint import slots come, too, and by import they are passed over; all has its values and its optimizer."""
        name = self.at("import.safetensors")
        psctl(self.c, "checkpoint", "export", "1", name, "--slots")
        metadata, tensors = read_safetensors(name)
        described = json.loads(metadata["psd_variables"])
        slots = sorted(slot for v in described.values() for slot in v.get("slots", ()))
        self.assertTrue(slots)
        for verb, there in ((("import",), False), (("checkpoint", "import"), True)):
            c = self.fresh(3, *self.flags[:1], tempfile.mkdtemp(dir=self.folder.name), *self.flags[2:])
            done = psctl(c, *verb, name, "--yes", "--json")
            self.assertEqual((done["variables"], done["bytes"] > sum(map(len, self.live.values()))), (len(self.live), there))
            self.assert_live(c)
            eventually(c, "checkpoint", "save")
            psctl(c, "checkpoint", "export", "latest", self.at("again.safetensors"), "--slots")
            again = read_safetensors(self.at("again.safetensors"))[1]
            self.assertEqual(again.keys(), tensors.keys())
            for tensor, values in again.items():
                self.assertEqual(values == tensors[tensor], there or tensor not in slots, tensor)

    def test_slots_that_do_not_fit(self):
        """A clear error, and nothing has changed."""
        name, bad = self.at("slots_fit.safetensors"), self.at("slots_bad.safetensors")
        psctl(self.c, "checkpoint", "export", "1", name, "--slots")
        metadata, tensors = test_files.read_safetensors(name)
        described = json.loads(metadata["psd_variables"])
        w = next(n for n, v in described.items() if v.get("slots"))
        slot = described[w]["slots"][0]
        kind = described[w]["optimizer"]["kind"]
        self.assertEqual(slot, w + "/Adagrad")
        dtype, shape, values = tensors[slot]
        adam = {"kind": "adam", "learning_rate": 0.1, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
        momentum = {"kind": "momentum", "learning_rate": 0.1, "momentum": 0.9}

        def without(*names):
            return {n: t for n, t in tensors.items() if n not in names}

        def said(**change):
            return {**metadata, "psd_variables": json.dumps({**described, w: {**described[w], **change}})}
        there = self.fresh(1)
        psctl(there, "import", name, "--yes")
        before = psctl(there, "vars", "--json")
        for c, these, meta, says in (
                (self.fresh(1), without(w), metadata, "tensor '%s' is a slot of '%s', which the file does not have" % (slot, w)),
                (self.fresh(1), tensors, said(optimizer=adam), "tensor '%s' is no slot of adam" % slot),
                (self.fresh(1), {**tensors, slot: (dtype, [1, *shape], values)}, metadata, "the dtype of its variable"),
                (self.fresh(1), {**without(slot), w + "/Adam": tensors[slot]}, said(optimizer=adam, slots=[w + "/Adam"]),
                 "lacks '%s/Adam_1'" % w),
                (self.fresh(1), {**without(slot), w + "/Adam": tensors[slot], w + "/Adam_1": tensors[slot]},
                 said(optimizer=adam, slots=[w + "/Adam", w + "/Adam_1"]), "lacks beta1_power"),
                (there, {**without(slot), w + "/Momentum": tensors[slot]}, said(optimizer=momentum, slots=[w + "/Momentum"]),
                 "the file has slots of momentum for '%s'; the variable on /job:ps/task:0 has %s" % (w, kind))):
            with self.subTest(says=says):
                test_files.write_safetensors(bad, these, meta)
                self.assertIn(says, psctl(c, "checkpoint", "import", bad, "--yes", code=1))
                left = psctl(c, "vars", "--json")
                self.assertEqual(left if c is there else left["variables"], before if c is there else [])

    def test_slots_that_only_their_names_tell(self):
        """A file without psd_variables: no slot becomes a variable, by neither import."""
        name, bare, bad = self.at("told.safetensors"), self.at("bare.safetensors"), self.at("bare_bad.safetensors")
        psctl(self.c, "checkpoint", "export", "1", name, "--slots")
        metadata, tensors = test_files.read_safetensors(name)
        slots = sorted(n for n in tensors if n.endswith("/Adagrad"))
        w = slots[0][:-len("/Adagrad")]
        test_files.write_safetensors(bare, tensors, {})
        c = self.fresh(1)
        self.assertIn("/Adagrad' is a slot by its name, and neither the file nor the cluster says the optimizer of '",
                      psctl(c, "checkpoint", "import", bare, "--yes", code=1))
        self.assertEqual(psctl(c, "vars", "--json")["variables"], [])
        self.assertEqual(psctl(c, "import", bare, "--yes", "--json")["variables"], len(self.live))
        self.assertEqual({v["name"] for v in psctl(c, "vars", "--json")["variables"]}, set(self.live))
        c = self.fresh(1, *self.flags[:1], tempfile.mkdtemp(dir=self.folder.name), *self.flags[2:])
        psctl(c, "import", name, "--yes")  # its optimizers, and fresh slots
        for these, says in (({slots[0]: tensors[slots[0]], "x": tensors[w]}, "which the file does not have"),
                            ({w: tensors[w], w + "/Adam": tensors[w]}, "the optimizer of '%s' is adagrad" % w)):
            test_files.write_safetensors(bad, these, {})
            self.assertIn(says, psctl(c, "checkpoint", "import", bad, "--yes", code=1))
        psctl(c, "checkpoint", "import", bare, "--yes")
        self.assert_live(c)
        eventually(c, "checkpoint", "save")
        psctl(c, "checkpoint", "export", "latest", self.at("again.safetensors"), "--slots")
        self.assertEqual(test_files.read_safetensors(self.at("again.safetensors"))[1], tensors)

    def test_powers_of_slots(self):
        """Those that all variables of an optimizer have are in a file once, others with their variable; both ways."""
        name = self.at("powers.safetensors")
        adam = {"kind": "adam", "learning_rate": 0.1, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}

        def number(dtype, value):
            return dtype, [], struct.pack("<f" if dtype == "F32" else "<d", value)

        def of(variable, dtype, *powers):
            values = {variable + ending: (dtype, [1], number(dtype, value)[2])
                      for ending, value in (("", 3), ("/Adam", 0.5), ("/Adam_1", 0.25))}
            return {**values, **{f"{variable}/beta{i + 1}_power": number(dtype, p) for i, p in enumerate(powers)}}
        for u, w, shared in ((of("u", "F32"), of("w", "F32"), (0.75, 0.875)), (of("u", "F32", 0.5, 0.75), of("w", "F32", 0.5, 0.625), ()),
                             (of("u", "F32", 0.5, 0.75), of("w", "F64", 0.5, 0.75), ())):
            tensors = {**u, **w, **{f"beta{i + 1}_power": number("F32", p) for i, p in enumerate(shared)}}
            described = {v: {"optimizer": adam, "slots": sorted(t for t in tensors if t.startswith(v + "/"))} for v in "uw"}
            described["w"]["slots"] += [f"beta{i + 1}_power" for i in range(len(shared))]
            test_files.write_safetensors(name, tensors, {"format": "psd", "psd_variables": json.dumps(described)})
            with self.subTest(tensors=sorted(tensors)):
                c = self.fresh(1, *self.flags[:1], tempfile.mkdtemp(dir=self.folder.name), *self.flags[2:])
                psctl(c, "checkpoint", "import", name, "--yes")
                eventually(c, "checkpoint", "save")
                psctl(c, "checkpoint", "export", "latest", self.at("again.safetensors"), "--slots")
                metadata, again = test_files.read_safetensors(self.at("again.safetensors"))
                self.assertEqual(again, tensors)
                self.assertEqual({v: sorted(d["slots"]) for v, d in json.loads(metadata["psd_variables"]).items()},
                                 {v: sorted(d["slots"]) for v, d in described.items()})

    def test_shards_and_their_index(self):
        os.mkdir(self.at("shards"))
        out = self.at("shards/model.safetensors")
        self.assertIn(": %s.index.json\n" % out, psctl(self.c, "checkpoint", "export", "1", out, "--shard", "1024"))
        names = sorted(os.listdir(self.at("shards")))
        with open(self.at("shards/model.safetensors.index.json"), encoding="utf-8") as file:
            index = json.load(file)
        parts = sorted(set(index["weight_map"].values()))
        self.assertGreater(len(parts), 1)
        self.assertEqual(names, sorted(parts + ["model.safetensors.index.json"]))
        self.assertEqual(parts[0], "model-00001-of-%05d.safetensors" % len(parts))
        found = {}
        for part in parts:
            tensors = read_safetensors(self.at("shards/" + part))[1]
            self.assertEqual({index["weight_map"][name] for name in tensors}, {part})
            self.assertTrue(len(tensors) == 1 or sum(map(len, tensors.values())) <= 1024)
            found.update(tensors)
        self.assertEqual(found, self.live)
        self.assertEqual(index["metadata"]["total_size"], sum(map(len, found.values())))
        c = self.fresh(1)
        done = psctl(c, "import", out + ".index.json", "--yes", "--json")
        self.assertEqual((done["variables"], done["bytes"]), (len(self.live), index["metadata"]["total_size"]))
        self.assert_live(c)
        os.remove(self.at("shards/" + parts[-1]))
        psctl(self.fresh(1), "import", out + ".index.json", "--yes", code=1)

    def test_npy_of_a_variable(self):
        c = self.fresh(1)
        psctl(self.c, "checkpoint", "export", "1", self.at("for_npy.safetensors"))
        psctl(c, "import", self.at("for_npy.safetensors"), "--yes")
        psctl(c, "get", "global_step", "--npy", self.at("global_step.npy"))
        psctl(c, "set", "global_step", "12345")
        psctl(c, "checkpoint", "import", self.at("global_step.npy"), "--yes")
        psctl(c, "get", "global_step", "--npy", self.at("again.npy"))
        self.assertEqual(npy(self.at("again.npy")), self.live["global_step"])
        shutil.copy(self.at("global_step.npy"), self.at("no_such.npy"))
        self.assertIn("no_such", psctl(c, "import", self.at("no_such.npy"), "--yes", code=1))
        psctl(c, "set", "global_step", "12345")
        for verb in (("checkpoint", "import"), ("import",)):
            psctl(c, *verb, "global_step=" + self.at("no_such.npy"), "--yes")
            psctl(c, "get", "global_step", "--npy", self.at("again.npy"))
            self.assertEqual(npy(self.at("again.npy")), self.live["global_step"])
        self.assertIn("a/b", psctl(c, "import", "a/b=" + self.at("no_such.npy"), "--yes", code=1))
        self.assertIn("NAME=FILE.npy", psctl(c, "import", self.at("no_such.npy"), "--prefix", "no_such=a/b", code=2))

    def test_no_export_to_standard_output(self):
        for verb in (("export",), ("checkpoint", "export", "1")):
            self.assertIn("cannot go to standard output", psctl(self.c, *verb, "-", code=2))
        self.assertFalse(os.path.exists("-"))

    def test_safetensors_package_reads_a_shard(self):
        if importlib.util.find_spec("safetensors") is None or importlib.util.find_spec("numpy") is None:
            self.skipTest("the safetensors package is not installed")
        from safetensors import safe_open  # pylint: disable=import-error,import-outside-toplevel
        found = set()
        for task in range(2):
            with safe_open(self.file_of(task, 1, "model-00000.safetensors"), framework="np") as file:
                for name in set(file.keys()) & set(self.live):
                    self.assertEqual(file.get_tensor(name).tobytes(), self.live[name])
                    found.add(name)
        self.assertEqual(found, set(self.live))

    def test_a_task_that_is_down(self):
        c, _, flags = two_tasks(self)
        for i in range(2):
            c.start(i, *flags)
        eventually(c, "checkpoint", "save")
        halt(c.tasks[1].pid)
        self.not_asked(c)
        c.tasks[1].send_signal(signal.SIGCONT)
        self.assertIn("all files are as they were written", psctl(c, "checkpoint", "verify", "1"))
        c.kill(1)
        self.not_asked(c)

    def not_asked(self, c):
        """Task 1 is away: nothing is bad."""
        out = psctl(c, "--timeout", "5s", "checkpoint", "verify", "1", code=1)
        self.assertIn("/job:ps/task:1 could not be asked: ", out)
        self.assertIn("no bad file was found; 1 of its tasks could not be asked", out)
        self.assertNotIn("task:0", out)
        _, out, _ = run(PSCTL, "-t", c.addresses[0], "--timeout", "5s", "checkpoint", "verify", "1", "--json")
        said = json.loads(out)
        self.assertEqual((said["bad"], [t["task"] for t in said["not_asked"]]), ([], ["/job:ps/task:1"]))

    def latest(self, c, status, *says, by=(("verify", "latest"),)):
        """What those who take the latest one say where there is none."""
        for args in by:
            out = psctl(c, "--timeout", "8s", "checkpoint", *args, "--json", code=1)
            error = json.loads(out.splitlines()[0])["error"]
            self.assertEqual((error["status"], error["reason"]), (status, status), args)
            for text in says:
                self.assertIn(text, error["message"], args)

    def test_latest_with_a_task_away(self):
        """The directory began anew, and has not heard what the other one has: that passes, and is not said to be nothing."""
        c, place, flags = two_tasks(self)
        c.start(0, *flags)
        self.latest(c, "NOT_FOUND", "there is no checkpoint that is whole")  # none at all
        c.start(1, *flags)
        heard_all(c)
        self.latest(c, "NOT_FOUND", "there is no checkpoint that is whole")
        self.assertEqual([saved_anew(c) for _ in range(3)], [1, 2, 3])

        def in_part():
            c.kill(0)
            c.kill(1)
            c.start(0, *flags)
            end = time.monotonic() + WAIT_S
            while [(r["number"], r["state"]) for r in self.rows(c)] != [(n, "in part") for n in (1, 2, 3)]:
                self.assertLess(time.monotonic(), end)
                time.sleep(0.1)

        name = self.at("latest.safetensors")
        in_part()
        self.latest(c, "UNAVAILABLE", "checkpoint 3 is there in part, 1 of 2 tasks", "waits for /job:ps/task:1", "name a number",
                    by=(("restore", "--yes"), ("verify",), ("export", "latest", name), ("delete", "latest", "--force")))
        self.assertFalse(os.path.exists(name))
        c.start(1, *flags)
        self.assertEqual(eventually(c, "checkpoint", "verify", "latest")["number"], 3)
        in_part()
        for number in (1, 2, 3):
            shutil.rmtree("%s/ps-1/%020d" % (place, number))
        c.start(1, *flags)
        waiting = "tasks"
        end = time.monotonic() + WAIT_S
        while waiting == "tasks":
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
            waiting = json.loads(run(PSCTL, "-t", c.addresses[0], "status", "--json")[1])["tasks"][0]["waiting"]
        self.latest(c, "NOT_FOUND", "there is no checkpoint that is whole")  # it has lost its parts

    @staticmethod
    def rows(c):
        return json.loads(run(PSCTL, "-t", c.addresses[0], "--timeout", "2s", "checkpoint", "list", "--json")[1])["checkpoints"]

    def test_a_list_of_nothing_says_why(self):
        """The directory's disk is empty, and another task has parts: none begins."""
        c, place, flags = two_tasks(self)
        c.start(0, *flags)
        c.start(1, *flags)
        psctl(self.c, "export", self.at("for_list.safetensors"))
        psctl(c, "import", self.at("for_list.safetensors"), "--yes")
        eventually(c, "checkpoint", "save")
        c.kill(0)
        c.kill(1)
        shutil.rmtree(place + "/ps-0")
        c.start(0, *flags)
        c.start(1, *flags)
        end = time.monotonic() + WAIT_S
        out = ""
        while "begin with" not in out:  # when it is decided
            self.assertLess(time.monotonic(), end, out)
            time.sleep(0.1)
            out = run(PSCTL, "-t", c.addresses[0], "checkpoint", "list")
            out = "%d: %s%s" % out
        self.assertRegex(out, r"^1: NUMBER .*\nno checkpoint is known\npsctl: /job:ps/task:0 waits for what /job:ps/task:1 will begin with: ")
        whole = psctl(c, "status", "--json")["tasks"][0]["waiting_for"]
        said = next(line for line in psctl(c, "status").splitlines() if " waits for what " in line).split(" waits for ")[1]
        self.assertEqual(said, whole if len(whole) < 254 else whole.rpartition(" ")[0] + " ...")
        psctl(c, "checkpoint", "delete", "1")  # it was: they begin
        eventually(c, "checkpoint", "save")
        self.assertEqual(psctl(c, "containers", "--json")["containers"], [])


class Deleted(unittest.TestCase):
    def saved(self, count):
        """Two tasks, and so many checkpoints of them; the flags of each task."""
        c, self.place, flags = two_tasks(self)
        for i in range(2):
            c.start(i, *flags)
        numbers = list(range(1, count + 1))
        self.assertEqual([saved_anew(c) for _ in numbers], numbers)
        return c, flags

    def left(self, task):
        return sorted(int(name) for name in os.listdir(os.path.join(self.place, "ps-%d" % task)) if name.isdigit())

    def wait_for(self, task, want):
        end = time.monotonic() + WAIT_S
        while self.left(task) != want:
            self.assertLess(time.monotonic(), end, self.left(task))
            time.sleep(0.05)

    def not_asked(self, c, number):
        """Task 1 does not answer: that is no success."""
        code, out, err = run(PSCTL, "-t", c.addresses[0], "--timeout", "5s", "checkpoint", "delete", number, "--json")
        self.assertEqual((code, json.loads(out)), (1, {"number": int(number), "not_asked": ["/job:ps/task:1"]}), err)

    def test_delete(self):
        c, flags = self.saved(3)
        left, wait_for = self.left, self.wait_for
        self.assertEqual(psctl(c, "checkpoint", "delete", "2", "--json"), {"number": 2, "not_asked": []})
        self.assertEqual(left(0), [1, 3])
        wait_for(1, [1, 3])
        self.assertIn("there is no checkpoint 2", psctl(c, "checkpoint", "delete", "2", code=1))
        self.assertIn("--force", psctl(c, "checkpoint", "delete", "latest", code=1))
        self.assertEqual(left(0), [1, 3])
        psctl(c, "checkpoint", "delete", "3", "--force")
        wait_for(1, [1])
        self.assertEqual([r["number"] for r in psctl(c, "checkpoint", "list", "--json")["checkpoints"]], [1])
        c.kill(1)  # and keeps its part
        out = psctl(c, "checkpoint", "delete", "1", "--force", code=1)
        self.assertIn("checkpoint 1 is deleted", out)
        self.assertIn("/job:ps/task:1 does not answer, and keeps its part", out)
        self.assertEqual((left(0), left(1)), ([], [1]))
        c.start(1, *flags)
        eventually(c, "vars")
        self.assertEqual(psctl(c, "checkpoint", "delete", "1", "--json"), {"number": 1, "not_asked": []})
        wait_for(1, [])
        c.kill(0)  # it does not come back
        c.start(0, *flags)
        number = eventually(c, "checkpoint", "save")["number"]
        self.assertEqual((left(0), left(1)), ([number], [number]))
        self.assertIn("takes no --force", psctl(c, "checkpoint", "list", "--force", code=2))
        for args in (("save",), ("list",), ("verify",), ("delete", "1")):
            self.assertIn("takes no --container", psctl(c, "checkpoint", *args, "--container", "x", code=2))
        self.assertIn("takes NUMBER", psctl(c, "checkpoint", "delete", code=2))

    def test_of_a_task_that_is_down(self):
        """Its part goes when it is back, by itself where the others are newer; else it is deleted again."""
        c, flags = self.saved(4)
        halt(c.tasks[1].pid)
        self.not_asked(c, "1")
        self.assertEqual((self.left(0), self.left(1)), ([2, 3, 4], [1, 2, 3, 4]))
        c.tasks[1].send_signal(signal.SIGCONT)
        self.wait_for(1, [2, 3, 4])
        c.kill(1)
        self.not_asked(c, "3")  # 2 stays, which is older
        self.not_asked(c, "2")
        self.assertEqual((self.left(0), self.left(1)), ([4], [2, 3, 4]))
        c.start(1, *flags)
        self.wait_for(1, [4])
        for number in ("1", "2", "3"):
            self.assertIn("there is no checkpoint " + number, psctl(c, "checkpoint", "delete", number, code=1))
        self.assertEqual([saved_anew(c) for _ in range(2)], [5, 6])
        c.kill(1)
        self.not_asked(c, "5")  # 4 is older
        out = psctl(c, "checkpoint", "delete", "5", code=1)
        self.assertIn("there is no checkpoint 5", out)
        self.assertIn("waits for /job:ps/task:1, and has not heard what is there of it", out)
        c.start(1, *flags)
        heard_all(c)
        self.assertEqual(self.left(1), [4, 5, 6])
        self.assertEqual(psctl(c, "checkpoint", "delete", "5", "--json"), {"number": 5, "not_asked": []})
        self.wait_for(1, [4, 6])
        self.assertIn("there is no checkpoint 5", psctl(c, "checkpoint", "delete", "5", code=1))

    def newest_is_damaged(self, *more):
        """Of three; all have begun with the one before it."""
        c, flags = self.saved(3)
        for task in (1, 0):
            c.kill(task)
        state = os.path.join(self.place, "ps-1/%020d/state" % 3)
        os.truncate(state, os.path.getsize(state) - 8)
        for task in range(2):
            c.start(task, *flags, *more)
        eventually(c, "vars")
        self.assertEqual(self.states(c), {1: "saved", 2: "saved", 3: "unusable"})
        return c

    @staticmethod
    def states(c):
        return {r["number"]: r["state"] for r in psctl(c, "checkpoint", "list", "--json")["checkpoints"]}

    def test_newest_is_damaged(self):
        """The newest whole one is the one before it: that one goes with --force only, and status says it."""
        c = self.newest_is_damaged()
        self.assertRegex(psctl(c, "status"), "checkpoints: 2 is saved")
        for number in ("2", "latest"):
            self.assertIn("checkpoint 2 is the newest one that is whole", psctl(c, "checkpoint", "delete", number, code=1))
        psctl(c, "checkpoint", "delete", "3")
        self.assertEqual(self.states(c), {1: "saved", 2: "saved"})

    def test_what_is_damaged_stays_known(self):
        """Also when another one was deleted: older ones do not go for it."""
        c = self.newest_is_damaged("--max_to_keep", "2")
        psctl(c, "checkpoint", "delete", "1")
        self.assertEqual(self.states(c), {2: "saved", 3: "unusable"})
        self.assertEqual(eventually(c, "checkpoint", "save"), {"number": 2, "new": False})
        self.assertEqual(saved_anew(c), 4)
        self.assertEqual(self.states(c), {2: "saved", 3: "unusable", 4: "saved"})

    def test_of_another_cluster(self):
        """It is listed with the reason, and deleted with --force only; one that is damaged, without."""
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        theirs, c = Cluster(1), Cluster(1)
        self.addCleanup(theirs.__exit__)
        self.addCleanup(c.__exit__)
        theirs.start(0, "--checkpoint_dir", place.name, "--cluster_name", "theirs")
        eventually(theirs, "checkpoint", "save")
        saved_anew(theirs)
        theirs.kill(0)
        os.truncate(os.path.join(place.name, "ps-0/%020d/manifest" % 2), 20)
        c.start(0, "--checkpoint_dir", place.name, "--restore", "none")
        eventually(c, "containers")
        first, second = psctl(c, "checkpoint", "list", "--json")["checkpoints"]
        self.assertEqual((first["number"], first["state"]), (1, "unusable"))
        self.assertRegex(first["why"], "its manifest at /job:ps/task:0: .*'theirs'")
        self.assertEqual((second["number"], second["state"]), (2, "unusable"))
        table = psctl(c, "checkpoint", "list")
        self.assertRegex(table, r"(?m)^ *1 +unusable +- +- +- +-$")
        self.assertIn("checkpoint 1 cannot be used: " + first["why"], table)
        self.assertIn("--force", psctl(c, "checkpoint", "delete", "1", code=1))
        psctl(c, "checkpoint", "delete", "2")
        psctl(c, "checkpoint", "delete", "1", "--force")
        self.assertEqual(psctl(c, "checkpoint", "list", "--json")["checkpoints"], [])


class Parts(unittest.TestCase):
    """Files of which each is good, and which are not of one cluster."""

    def saved(self, kind, width, optimizer):
        """The cluster and the directory of checkpoint 1: one variable of 4 rows, in two parts."""
        c, place, flags = two_tasks(self)
        for i in range(2):
            c.start(i, *flags)
        file = os.path.join(place, "w.safetensors")
        of = {"optimizer": {"kind": optimizer, "learning_rate": 0.5}, "parts": {"count": 2, "axis": 0, "layout": "div"}}
        of["optimizer"].update({"initial_accumulator": 0.1} if optimizer == "adagrad" else {})
        test_files.write_safetensors(file, {"w": (kind, [4, width], bytes(4 * width * (8 if kind == "F64" else 4)))}, {
            "format": "psd", "psd_variables": json.dumps({"w": of})})
        psctl(c, "import", file)
        self.assertEqual(eventually(c, "checkpoint", "save")["number"], 1)
        return c, os.path.join(place, "ps-%d", "%020d" % 1)

    @staticmethod
    def items(manifest):
        with open(manifest, "rb") as file:
            data = file.read()
        return data[:8], list_parts(data[8:-4] + b"\0")

    def test_parts_of_two_checkpoints(self):
        """Each part is cut alike, and its arrays are others."""
        for other in (("F64", 2, "sgd"), ("F32", 3, "sgd"), ("F32", 2, "adagrad"), ("F32", 2, "sgd")):
            ours, theirs = self.saved("F32", 2, "sgd"), self.saved(*other)
            head, mine = self.items(os.path.join(ours[1] % 0, "manifest"))
            yours = self.items(os.path.join(theirs[1] % 0, "manifest"))[1]
            files = [part for all_of, task in ((mine, 0), (yours, 1)) for part in all_of[1:] if decode("FileItem", part)["task"] == task]
            data = head + b"".join(varint(len(part)) + part for part in [mine[0], *files])
            shutil.rmtree(ours[1] % 1)
            shutil.copytree(theirs[1] % 1, ours[1] % 1)
            for task in range(2):
                with open(os.path.join(ours[1] % task, "manifest"), "wb") as file:
                    file.write(data + struct.pack("<I", crc32c(data)))
            psctl(ours[0], "checkpoint", "verify", "1")
            for flags in ((), ("--slots",)):
                file = os.path.join(os.path.dirname(os.path.dirname(ours[1])), "out.safetensors")
                good = other == ("F32", 2, "sgd")
                said = psctl(ours[0], "checkpoint", "export", "1", file, *flags, code=0 if good else 1)
                self.assertIn("exported 1 variable" if good else "variable 'w' of the checkpoint: its parts differ", said)
                self.assertEqual(os.path.exists(file), good)
            self.doCleanups()


if __name__ == "__main__":
    sys.exit(main(unittest))
