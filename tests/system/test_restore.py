#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 300
"""What tasks of live clusters begin with: kill -9 of all of them, of one of two, of the directory; under trainers that go on."""
import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import Cluster, free_port, halt, main, path, run
from test_checkpoint_files import read_safetensors
from test_files import write_safetensors

PSCTL = path("bin/psctl")
PSTRAIN = path("bin/pstrain")
SOFTMAX = path("examples/softmax")
WAIT_S = 600


def psctl(cluster, *args, code=0, timeout=600):
    got, out, err = run(PSCTL, "-t", cluster.addresses[0], "--timeout", "30s", *args, timeout=timeout)
    if got != code:
        raise AssertionError("%s gave %d: %s%s" % (args, got, out, err))
    return json.loads(out) if "--json" in args and got == 0 else out + err


def until(what, why=""):
    """What it gives, as soon as that is something; while the cluster is not there it may fail."""
    end = time.monotonic() + WAIT_S
    while True:
        try:
            last = what()
        except AssertionError as e:
            last, why = None, str(e)
        if last:
            return last
        if time.monotonic() > end:
            raise AssertionError(why)
        time.sleep(0.1)


class Restoring(unittest.TestCase):
    """Clusters that are killed and come back, and what they have then."""

    def cluster(self, *flags, more_jobs="", count=2):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = place.name
        self.flags = ("--checkpoint_dir", place.name, *flags)
        return self.cluster_of(count, more_jobs)

    def cluster_of(self, count, more_jobs):
        c = Cluster(count, more_jobs)
        self.addCleanup(c.__exit__)
        for task in range(count):
            c.start(task, *self.flags)
        return c

    def train(self, c, steps, seed="7"):
        code, out, err = run(SOFTMAX, "--ps_hosts", c.hosts, "--steps", str(steps), "--seed", seed)
        self.assertEqual(code, 0, out + err)

    def save(self, c):
        return until(lambda: psctl(c, "checkpoint", "save", "--json"))["number"]

    def values(self, c):
        """Of all variables of the default container, bit by bit."""
        found = {}
        for v in psctl(c, "vars", "--container", "localhost", "--json")["variables"]:
            with tempfile.NamedTemporaryFile(suffix=".npy") as npy:
                psctl(c, "get", v["name"], "--npy", npy.name)
                with open(npy.name, "rb") as f:
                    found[v["name"]] = hashlib.sha256(f.read()).hexdigest()
        return found

    def flags_of(self, task):
        """Its directory is on a host of its own."""
        place = os.path.join(self.place, "host-%d" % task)
        os.makedirs(place, exist_ok=True)
        return ("--checkpoint_dir", place, "--checkpoint_seconds", "0")

    def restart(self, c, *tasks, flags=None):
        for task in tasks:
            c.kill(task)
        for task in tasks:
            c.start(task, *(self.flags if flags is None else flags))

    def restart_spoilt(self, c, number, *more):
        """A byte of what task 1 has of it is another one."""
        for task in (0, 1):
            c.kill(task)
        with open(os.path.join(self.place, "ps-1", "%020d" % number, "state"), "r+b") as f:
            f.seek(100)
            byte = f.read(1)
            f.seek(100)
            f.write(bytes([byte[0] ^ 4]))
        for task in (0, 1):
            c.start(task, *self.flags, *more)

    def all_there(self, c, names):
        return until(lambda: self.values(c).keys() == names and self.values(c), "not all variables came back")

    def tensors(self, c):
        """Of a new checkpoint: values, slots, powers, the global step."""
        self.save(c)
        with tempfile.TemporaryDirectory() as place:
            psctl(c, "checkpoint", "export", "latest", os.path.join(place, "all.safetensors"), "--slots")
            return read_safetensors(os.path.join(place, "all.safetensors"))[1]

    def make(self, c, sizes):
        """Variables, in this order."""
        with tempfile.NamedTemporaryFile() as f:
            write_safetensors(f.name, {name: ("F32", [n], bytes(4 * n)) for name, n in sizes.items()})
            psctl(c, "import", f.name)

    def exported(self, c, *how):
        """Names, in the order of the header."""
        with tempfile.TemporaryDirectory() as place:
            file = os.path.join(place, "all.safetensors")
            psctl(c, *(how or ("export",)), file)
            return list(read_safetensors(file)[1])

    def owners(self, c):
        return {v["task"] for v in psctl(c, "vars", "--json")["variables"] if v["container"] == "localhost"}

    def trains(self, sync, optimizer="adam"):
        """Another job, and a function that has its only worker train up to a step: its batches follow from seed and step."""
        worker = "127.0.0.1:%d" % free_port()

        def train(c, steps, refused=False):
            code, out, err = run(PSTRAIN, "--ps_hosts", c.hosts, "--worker_hosts", worker, "--job_name", "worker", "--task_index", "0",
                                 *(("--sync",) if sync else ()), "--optimizer", optimizer, "--seed", "7", "--steps", str(steps))
            self.assertEqual(code == 0, not refused, out + err)
            return err
        return ";worker=" + worker, train

    def onto(self, counts, sync):
        """What comes back on each of these numbers of tasks is what was saved, and the next steps are those of a run that went on."""
        job, train = self.trains(sync)
        c = self.cluster("--checkpoint_seconds", "0", more_jobs=job, count=counts[0])
        train(c, 20)
        for i, count in enumerate(counts[1:]):
            saved = self.tensors(c)
            train(c, 30 + 10 * i)
            went_on = self.tensors(c)
            self.assertTrue(any(name.endswith("Adam_1") for name in saved) and saved.keys() == went_on.keys(), saved.keys())
            self.assertNotEqual(saved, went_on)
            c.__exit__()
            newest = max(n for n in os.listdir(os.path.join(self.place, "ps-0")) if n.isdigit())
            for task in os.listdir(self.place):
                shutil.rmtree(os.path.join(self.place, task, newest), ignore_errors=True)
            c = self.cluster_of(count, job)
            self.assertEqual(self.tensors(c), saved)
            train(c, 30 + 10 * i)
            self.assertEqual(self.tensors(c), went_on)
            self.restart(c, *range(count))
            self.assertEqual(self.tensors(c), went_on)


class Restored(Restoring):
    def test_all_are_killed(self):
        c = self.cluster("--checkpoint_seconds", "0")
        self.train(c, 20)
        self.save(c)
        saved = self.values(c)
        self.train(c, 25)
        self.assertNotEqual(self.values(c), saved)
        for first in (0, 1):
            self.restart(c, first, 1 - first)
            self.assertEqual(self.all_there(c, saved.keys()), saved)
        self.train(c, 30)  # and it goes on
        self.assertNotEqual(self.values(c), saved)
        newer = self.values(c)
        self.save(c)
        self.restart(c, 0, 1)
        self.assertEqual(self.all_there(c, saved.keys()), newer)

    def test_asked_before_it_goes(self):
        """It says what goes, saves that, and only then restores; some containers, or all."""
        c = self.cluster("--checkpoint_seconds", "0", "--max_to_keep", "2")
        self.train(c, 20)
        with tempfile.TemporaryDirectory() as d:
            file = os.path.join(d, "x.safetensors")
            write_safetensors(file, {"x": ("F32", [1], struct.pack("<f", 1))})
            psctl(c, "import", file, "--container", "other")

        def x():
            return psctl(c, "get", "x", "--container", "other", "--json")["values"][0]

        first = self.save(c)
        saved = self.values(c)
        self.train(c, 25)
        psctl(c, "set", "x", "2", "--container", "other")
        self.save(c)  # max_to_keep: one more pushes the first one out
        psctl(c, "set", "x", "3", "--container", "other")
        now = self.values(c)
        said = psctl(c, "checkpoint", "restore", str(first), code=2)
        self.assertIn("--yes goes ahead without asking, and saves what is there first", said)
        self.assertEqual((self.values(c), x()), (now, 3))
        said = psctl(c, "checkpoint", "restore", str(first), "--container", "other", "--yes")
        self.assertIn("checkpoint %d, step 20, comes in the place of what these have now, which is saved first" % first, said)
        self.assertRegex(said, "container 'other' goes back: now at no global_step, 1 variable, 4 B")
        self.assertNotIn("container 'localhost' goes back", said)
        self.assertEqual((self.values(c), x()), (now, 1))
        before = int(re.search(r"what is there now is saved as checkpoint (\d+)", said).group(1))
        said = psctl(c, "checkpoint", "restore", str(before), "--container", "localhost", "--container", "other", "--no_save", "--yes")
        self.assertIn("which is not saved (--no_save)", said)
        self.assertRegex(said, "container 'localhost' goes back: now at step 25, ")
        self.assertEqual((self.values(c), x()), (now, 3))
        self.assertIn("no container 'nowhere'", psctl(c, "checkpoint", "restore", "latest", "--container", "nowhere", "--yes",
                                                     "--no_save", code=1))
        self.assertIn("takes no --container", psctl(c, "checkpoint", "restore", "--spread", "--container", "other", "--yes", code=2))
        self.assertEqual((self.values(c), x()), (now, 3))
        self.assertNotEqual(now, saved)

    def test_what_is_left_out_is_said(self):
        """The containers of the checkpoint are listed, and no others; of one that was reset since it is said that it stays."""
        c = self.cluster("--checkpoint_seconds", "0")
        file = os.path.join(self.place, "x.safetensors")
        write_safetensors(file, {"x": ("F32", [1], struct.pack("<f", 1))})
        for container in ("gone", "anew", "stays"):
            psctl(c, "import", file, "--container", container)
        first = self.save(c)
        psctl(c, "import", file, "--container", "younger")
        psctl(c, "reset", "gone", "--yes")
        psctl(c, "reset", "anew", "--yes")
        psctl(c, "import", file, "--container", "anew")
        said = psctl(c, "checkpoint", "restore", str(first), "--yes")
        self.assertIn("container 'stays' goes back: now at", said)
        self.assertNotIn("younger", said)
        self.assertIn("container 'gone' has nothing now, and comes back unless it was reset since", said)
        for container in ("gone", "anew"):
            self.assertIn("container '%s' was left out: it was reset since, and stays as it is" % container, said)
        self.assertNotIn("container 'stays' was left out", said)
        self.assertIn("checkpoint %d is restored without 2 of its 3 containers, and saved so as checkpoint" % first, said)
        out = psctl(c, "checkpoint", "restore", str(first), "--yes", "--json")
        self.assertEqual(out["left_out"], ["anew", "gone"])
        out = psctl(c, "checkpoint", "restore", str(first), "--yes", "--container", "stays", "--json")
        self.assertEqual(out["left_out"], [])

    def test_a_name_is_refused_before_the_save(self):
        c = self.cluster("--checkpoint_seconds", "0")
        self.train(c, 10)
        first = self.save(c)
        self.train(c, 20)
        now = self.values(c)
        before = psctl(c, "checkpoint", "list", "--json")
        said = psctl(c, "checkpoint", "restore", str(first), "--container", "localhots", "--yes", code=1)
        self.assertIn("checkpoint %d has no container 'localhots' (did you mean localhost?); nothing was saved or restored" % first, said)
        self.assertEqual(psctl(c, "checkpoint", "list", "--json"), before)
        self.assertEqual(self.values(c), now)

    def test_not_restored_where_the_save_fails(self):
        c = self.cluster("--checkpoint_seconds", "0")
        self.train(c, 20)
        first = self.save(c)
        saved = self.values(c)
        self.train(c, 25)
        now = self.values(c)
        place = os.path.join(self.place, "ps-1")
        os.chmod(place, 0o500)
        os.rename(place, place + ".aside")  # root writes anywhere
        said = psctl(c, "checkpoint", "restore", str(first), "--yes", code=1)
        self.assertIn("nothing is restored, for what is there now could not be saved first (--no_save restores without that)", said)
        self.assertEqual(self.values(c), now)
        os.rename(place + ".aside", place)
        os.chmod(place, 0o700)
        psctl(c, "checkpoint", "restore", str(first), "--yes", "--no_save")
        self.assertEqual(self.values(c), saved)

    def test_restored_while_all_live(self):
        c = self.cluster("--checkpoint_seconds", "0")
        self.train(c, 20)
        first = self.save(c)
        saved = self.values(c)
        self.train(c, 25)
        second = self.save(c)
        newer = self.values(c)
        self.assertNotEqual(newer, saved)
        psctl(c, "checkpoint", "restore", str(first), "--yes")
        self.assertEqual(self.values(c), saved)
        psctl(c, "checkpoint", "restore", str(second), "--yes", "--no-save")
        self.assertEqual(self.values(c), newer)
        self.train(c, 30)
        self.assertIn("there is no checkpoint 99", psctl(c, "checkpoint", "restore", "99", "--yes", code=1))
        self.restart(c, 0, 1, flags=[*self.flags, "--restore", str(first)])
        self.assertEqual(self.all_there(c, saved.keys()), saved)

    def test_one_is_lost_behind_an_older_one(self):
        c = self.cluster("--checkpoint_seconds", "0")
        self.train(c, 20)
        older = [*self.flags, "--restore", str(self.save(c))]
        saved = self.values(c)
        self.train(c, 25)
        self.save(c)
        newer = self.values(c)
        for lost, flags, there, why in ((0, self.flags, newer, "the newest one: no other one is named any more"), (1, older, saved, "the one that is named")):
            self.restart(c, 0, 1, flags=older)
            until(lambda: self.values(c) == saved, "not all have the older one")
            self.train(c, 30)
            self.restart(c, lost, flags=flags)
            until(lambda there=there: self.values(c) == there, "not all went back to " + why)

    def test_a_spoilt_one_is_left_alone(self):
        c = self.cluster("--checkpoint_seconds", "0")
        self.train(c, 20)
        self.save(c)
        saved = self.values(c)
        self.train(c, 25)
        newest = self.save(c)
        self.restart_spoilt(c, newest)
        self.assertEqual(self.all_there(c, saved.keys()), saved)

    def test_a_trainer_is_told_what_helps(self):
        """The newest one is spoilt, and no other one is to be loaded: neither other flags nor --fresh would help."""
        job, train = self.trains(sync=False)
        c = self.cluster("--checkpoint_seconds", "0", more_jobs=job)
        for steps in (20, 30):
            train(c, steps)
            newest = self.save(c)
        self.restart_spoilt(c, newest, "--restore", "latest")
        said = [line for line in train(c, 40, refused=True).splitlines() if not line.startswith("ts=")][-1]  # a log line may be the last
        self.assertRegex(said, "does not begin: checkpoint %d cannot be used: .*; psctl config set restore auto at the first ps" % newest)
        self.assertNotRegex(said, "--fresh|flags of the run")
        psctl(c, "config", "set", "restore", "auto")
        until(lambda: [1 for row in psctl(c, "vars", "--json")["variables"] if row["name"] == "global_step"])
        train(c, 40)

    def test_of_one_that_is_not_there(self):
        """What asks is told why nothing begins, and what helps; set-lr --all said that there is no variable."""
        c = self.cluster("--checkpoint_seconds", "0")
        self.train(c, 2)
        self.save(c)
        self.restart(c, 0, 1, flags=(*self.flags, "--restore", "7"))
        for args in (["get", "w"], ["set-lr", "--all", "0.1"]):
            self.assertRegex(psctl(c, *args, code=1), "do not begin: checkpoint 7, which restore names, is not there on all tasks: .*"
                                                      "checkpoint list.*restore = auto")
        psctl(c, "config", "set", "restore", "auto", "--task", "ps:0")
        self.assertIn("learning rate 0.1 for 2 variables", until(lambda: psctl(c, "set-lr", "--all", "0.1")))

    def test_one_of_two(self):
        for task in (0, 1):
            c = self.cluster("--checkpoint_seconds", "0")
            self.train(c, 20)
            self.save(c)
            saved = self.values(c)
            self.train(c, 25)
            self.assertTrue(all(v != saved[name] for name, v in self.values(c).items()))
            self.restart(c, task)
            now = self.all_there(c, saved.keys())
            back = {name for name in saved if now[name] == saved[name]}
            self.assertTrue(back and back != saved.keys(), back)  # the others have what they had
            self.train(c, 40)

    def test_onto_more_tasks(self):
        self.onto((2, 3), sync=True)

    def test_through_a_file(self):
        """Export with slots, a new cluster of another size, import: all tasks have a part of it, and the next ten steps are those of
        the run that went on."""
        for optimizer, sync, count in (("adam", False, 3), ("adam", True, 3), ("adam", True, 1), ("adagrad", False, 3),
                                       ("momentum", True, 3), ("sgd", False, 1)):
            with self.subTest(optimizer=optimizer, sync=sync, count=count):
                job, train = self.trains(sync, optimizer)
                c = self.cluster("--checkpoint_seconds", "0", more_jobs=job)
                train(c, 20)
                saved = self.tensors(c)
                file = os.path.join(self.place, "all.safetensors")
                psctl(c, "checkpoint", "export", "latest", file, "--slots")
                train(c, 30)
                went_on = self.tensors(c)
                self.assertEqual(saved.keys(), went_on.keys())
                self.assertTrue(all(went_on[name] != values for name, values in saved.items()))
                c.__exit__()
                self.flags = ("--checkpoint_dir", tempfile.mkdtemp(dir=self.place), "--checkpoint_seconds", "0")
                other = self.cluster_of(count, job)
                until(lambda other=other, file=file: psctl(other, "checkpoint", "import", file, "--yes"))
                self.assertEqual(self.owners(other), {"/job:ps/task:%d" % task for task in range(count)})
                self.assertEqual(self.tensors(other), saved)
                train(other, 30)
                self.assertEqual(self.tensors(other), went_on)

    def test_spread_anew(self):
        """A third task has nothing of what two had saved, until it is exported, reset and imported; then it has its part, and the next
        ten steps are those of the run that went on, also after kill -9 of all."""
        for sync in (False, True):
            with self.subTest(sync=sync):
                job, train = self.trains(sync)
                c = self.cluster("--checkpoint_seconds", "0", more_jobs=job)
                train(c, 20)
                saved = self.tensors(c)
                file = os.path.join(self.place, "spread.safetensors")
                psctl(c, "checkpoint", "export", "latest", file, "--slots")
                train(c, 30)
                went_on = self.tensors(c)
                psctl(c, "checkpoint", "restore", "1", "--yes", "--no-save")
                self.assertEqual(self.tensors(c), saved)
                c.__exit__()
                c = self.cluster_of(3, job)
                self.assertEqual(self.tensors(c), saved)
                self.assertEqual(self.owners(c), {"/job:ps/task:0", "/job:ps/task:1"})
                psctl(c, "reset", "--yes")
                psctl(c, "checkpoint", "import", file, "--yes")
                self.assertEqual(self.owners(c), {"/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:2"})
                self.assertEqual(self.tensors(c), saved)
                self.restart(c, 0, 1, 2)
                self.assertEqual(self.tensors(c), saved)
                train(c, 30)
                self.assertEqual(self.tensors(c), went_on)

    def test_spread(self):
        """Two tasks' model onto three, and onto one less by the same act, each with a checkpoint_dir that no other sees: every value, slot,
        power and the global step are what they were, and the next ten steps those of the run that went on, also after kill -9 of all."""
        for sync in (False, True):
            with self.subTest(sync=sync):
                job, train = self.trains(sync)
                self.cluster(more_jobs=job, count=0)

                def begin(count, job=job):
                    c = Cluster(count, job)
                    self.addCleanup(c.__exit__)
                    for task in range(count):
                        c.start(task, *self.flags_of(task))
                    return c
                c = begin(2)
                train(c, 20)
                saved = self.tensors(c)
                train(c, 30)
                went_on = self.tensors(c)
                psctl(c, "checkpoint", "restore", "1", "--yes", "--no-save")
                self.assertEqual(self.tensors(c), saved)
                c.__exit__()
                c = begin(3)
                self.assertEqual(self.tensors(c), saved)
                self.assertEqual(self.owners(c), {"/job:ps/task:0", "/job:ps/task:1"})
                said = psctl(c, "checkpoint", "restore", "latest", "--spread", "--yes", "--no-save", "--json")
                self.assertEqual(said["saved"], said["number"] + 1)
                newest = psctl(c, "checkpoint", "list", "--json")["checkpoints"][-1]
                self.assertEqual((newest["number"], newest["state"]), (said["saved"], "saved"))  # it alone, and it is whole
                self.assertEqual(self.owners(c), {"/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:2"})
                self.assertEqual(self.tensors(c), saved)
                for task in (0, 1, 2):
                    c.kill(task)
                for task in (0, 1, 2):
                    c.start(task, *self.flags_of(task))
                self.assertEqual(self.tensors(c), saved)
                self.assertEqual(self.owners(c), {"/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:2"})
                train(c, 30)
                self.assertEqual(self.tensors(c), went_on)

    def test_order_of_creation(self):
        """An export has it whatever was restored, and onto how many tasks: what is made from it is placed alike."""
        c = self.cluster("--checkpoint_seconds", "0")
        sizes = {"w": 40, "b": 9, "z": 70, "a": 3, "m": 200, "c": 1, "x": 33, "d": 5}
        made = list(sizes)
        self.make(c, sizes)
        self.assertEqual(self.exported(c), made)
        self.save(c)
        psctl(c, "checkpoint", "restore", "latest", "--yes", "--no-save")  # live
        self.assertEqual(self.exported(c), made)
        self.make(c, {"k": 2, "e": 6})
        made += ["k", "e"]
        for i, tasks in enumerate((2, 1, 3, 2, 3)):  # cold, onto fewer, onto more, where it is dealt by size
            self.save(c)
            c.__exit__()
            c = self.cluster_of(tasks, "")
            until(lambda c=c, made=made: len(psctl(c, "vars", "--json")["variables"]) == len(made))
            self.assertEqual(self.exported(c), made)
            if tasks == 3:
                psctl(c, "checkpoint", "restore", "latest", "--spread", "--yes", "--no-save")
                self.assertEqual(len(self.owners(c)), 3)
                self.assertEqual(self.exported(c), made)
            self.make(c, {"y%d" % (9 - i): 4, "f%d" % i: 30})
            made += ["y%d" % (9 - i), "f%d" % i]
            self.assertEqual(self.exported(c), made)
        self.save(c)
        self.assertEqual(self.exported(c, "checkpoint", "export", "latest"), made)

    def test_what_was_reset_never_comes_back(self):
        c = self.cluster("--checkpoint_seconds", "0")
        self.train(c, 20)
        self.save(c)
        names = self.values(c).keys()
        for tasks in ((0,), (1,), (0, 1)):
            psctl(c, "reset")
            self.restart(c, *tasks)
            self.train(c, 5)
            self.assertEqual(psctl(c, "get", "global_step", "--json")["values"], [5])  # not 20
        self.save(c)
        saved = self.values(c)
        self.restart(c, 0, 1)
        self.assertEqual(self.all_there(c, names), saved)

    def test_what_was_deleted_never_comes_back(self):
        c = self.cluster("--checkpoint_seconds", "0")
        self.train(c, 20)
        self.save(c)
        saved = self.values(c)
        gone = sorted(saved)[0]
        psctl(c, "delete", gone)
        self.restart(c, 0, 1)
        del saved[gone]
        self.assertEqual(self.all_there(c, saved.keys()), saved)


class Answered(Restoring):
    """What was answered well is on the disks."""

    def trained_twice(self, *flags):
        """Checkpoints 1 and 2, and a file of the first one."""
        c = self.cluster("--checkpoint_seconds", "0", *flags)
        self.train(c, 10)
        self.assertEqual(self.save(c), 1)
        file = os.path.join(self.place, "first.safetensors")
        psctl(c, "checkpoint", "export", "1", file, "--slots")
        first = self.values(c)
        self.train(c, 20)
        self.assertEqual(self.save(c), 2)
        self.assertNotEqual(self.values(c), first)
        return c, file, first

    def test_a_ps_is_lost_behind_an_import(self):
        """Killed as soon as the import is done, it comes back with what was imported, not with what was saved before."""
        for verb in (("import",), ("checkpoint", "import")):
            for lost in ((0,), (1,), (0, 1)):
                with self.subTest(verb=verb, lost=lost):
                    c, file, first = self.trained_twice()
                    out = psctl(c, *verb, file, "--yes", "--json")
                    self.assertEqual(out["saved"], 3)
                    self.restart(c, *lost)
                    self.assertEqual(self.all_there(c, first.keys()), first)

    def test_an_import_where_nothing_is_saved(self):
        with Cluster(2) as c, tempfile.TemporaryDirectory() as place:
            file = os.path.join(place, "all.safetensors")
            write_safetensors(file, {"w": ("F32", [4], bytes(16))})
            self.assertNotIn("saved", psctl(c, "import", file, "--json"))

    def test_one_variable_is_imported(self):
        """It is saved as a file of many is."""
        c, _, _ = self.trained_twice()
        file = os.path.join(self.place, "values.npy")
        name = sorted(self.values(c))[0]
        psctl(c, "get", name, "--npy", file)
        self.train(c, 30)
        out = psctl(c, "import", name + "=" + file, "--yes", "--json")
        self.assertEqual(out["saved"], 3)
        saved = self.values(c)
        self.restart(c, 0, 1)
        self.assertEqual(self.all_there(c, saved.keys()), saved)
        self.train(c, 40)
        self.assertIn("saved as checkpoint 4", psctl(c, "import", name + "=" + file, "--yes"))

    def test_an_import_across_a_kill(self):
        """The value is in, and the checkpoint waits for a ps that stands still, which is killed then."""
        for lost in ((1,), (0, 1)):
            with self.subTest(lost=lost):
                c, _, _ = self.trained_twice("--lease", "120s")
                owned = sorted(v["name"] for v in psctl(c, "vars", "--json")["variables"] if v["task"].endswith(":0"))[0]
                file = os.path.join(self.place, "values.npy")
                psctl(c, "get", owned, "--npy", file)
                self.train(c, 30)
                halt(c.tasks[1].pid)
                asked = subprocess.Popen([PSCTL, "-t", c.addresses[0], "--timeout", "20s", "import", owned + "=" + file, "--yes"],
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                self.addCleanup(asked.kill)
                until(lambda: "writing" in run(PSCTL, "-t", c.addresses[0], "--timeout", "1s", "checkpoint", "list")[1],
                      "no checkpoint was begun")
                self.restart(c, *lost)
                out = asked.communicate(timeout=WAIT_S)[0]
                self.assertEqual(asked.returncode, 1, out)
                self.assertIn("some of the imported values may be gone: ", out)
                self.assertIn("; import again", out)
                self.assertNotIn("(null)", out)
                self.assertNotIn("the values are imported, and not saved", out)

    def test_a_save_across_a_kill(self):
        """It waits for a ps that stands still, which is killed then, alone or with the directory: another one is not made in its
        place, and what is said is what holds now."""
        for lost, why in (((1,), "tasks have gone back to checkpoint 2"), ((0, 1), "outcome unknown")):
            with self.subTest(lost=lost):
                c, _, _ = self.trained_twice("--lease", "120s")
                self.train(c, 30)
                halt(c.tasks[1].pid)
                asked = subprocess.Popen([PSCTL, "-t", c.addresses[0], "--timeout", "20s", "checkpoint", "save"],
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                self.addCleanup(asked.kill)
                until(lambda: "writing" in run(PSCTL, "-t", c.addresses[0], "--timeout", "1s", "checkpoint", "list")[1],
                      "no checkpoint was begun")
                self.restart(c, *lost)
                out = asked.communicate(timeout=WAIT_S)[0]
                self.assertEqual(asked.returncode, 1, out)
                self.assertIn(why, out)
                # a directory that has just come back may know less
                self.assertRegex(out, "newest checkpoint that is whole now is 2, of step [0-9]+|[12] is there in part|does not answer|no checkpoint is")


if __name__ == "__main__":
    sys.exit(main(unittest))
