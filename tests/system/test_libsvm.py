#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sparse text as data: labels and indices of a model go with it to other files, workers, checkpoints and exports; what does not fit
is refused by name."""
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

from cluster import Cluster, free_port, main, path, run
from sparse_files import LIBSVM, Files
from test_files import read_safetensors, write_safetensors

PSCTL = path("bin/psctl")
PSTRAIN = path("bin/pstrain")


def rows(labels, first, count, seed=1, features=6):
    """Lines of examples: the label is named by the one feature of label_index that is high; indices begin at first."""
    rng = random.Random(seed)
    lines = []
    for i in range(count):
        k = i % len(labels)
        values = {f: rng.uniform(0, 0.2) for f in range(features) if rng.random() < 0.5}
        values[features - 1 - k] = 1 + rng.random()
        lines.append("%s %s\n" % (labels[k], " ".join("%d:%.4f" % (f + first, v) for f, v in sorted(values.items()))))
    return "".join(lines)


class Sparse(Files):
    def good(self, *args):
        code, out, err = run(PSTRAIN, *args)
        self.assertEqual(code, 0, out + err)
        return out

    def refused(self, *args, says=(), code=1):
        got, out, err = run(PSTRAIN, *args)
        self.assertEqual(got, code, out + err)
        for words in says:
            self.assertIn(words, err)

    def local(self, *args, ps=1, workers=1):
        return self.good("--local", "ps=%d,workers=%d" % (ps, workers), "--model", "softmax", *args)

    def accuracy(self, out):
        return float(out.split("test accuracy ")[1].split()[0])


class Alone(Sparse):
    def test_small(self):
        """Two classes that a line divides; plain text, no test file."""
        name = self.file("points", "".join("%+d 1:%.2f 3:%.2f\n" % (1 if i % 20 > i // 20 else -1, i % 20 / 20, i // 20 / 20)
                                           for i in range(400)))
        report_name = os.path.join(self.folder, "r.json")
        out = self.local("--data", "libsvm:" + name, "--epochs", "40", "--learning_rate", "0.5", "--report", report_name)
        self.assertIn("labels -1, 1 are classes 0, 1; 3 features, indices from 1 (0 does not occur)", out)
        with open(report_name, encoding="utf-8") as file:
            report = json.load(file)
        self.assertGreater(report["test_accuracy"], 0.85)
        self.assertGreater(report["test_auc"], 0.95)
        self.assertRegex(out, r"test auc (0\.9|1\.0)")
        self.assertEqual(report["values"], 3 * 2 + 2)
        with open(name, "a", encoding="utf-8") as file:
            file.write("+1 3:1 2:1 3:2\n")
        self.refused("--local", "ps=1,workers=1", "--data", "libsvm:" + name,
                     says=[name + ":401: index 3 is there twice: --libsvm_duplicates last"])
        self.local("--data", "libsvm:" + name, "--epochs", "1", "--libsvm_duplicates", "sum")

    def test_adult(self):
        if not os.path.exists(os.path.join(LIBSVM, "a9a.gz")):
            self.skipTest("no a9a.gz in " + os.path.normpath(LIBSVM))
        name = os.path.join(self.folder, "r.json")
        self.local("--data", "libsvm:%s/a9a.gz,%s/a9a.t.gz" % (LIBSVM, LIBSVM), "--optimizer", "adagrad", "--learning_rate", "0.1",
                   "--batch_size", "128", "--epochs", "5", "--report", name, ps=2, workers=2)
        with open(name, encoding="utf-8") as file:
            report = json.load(file)
        self.assertGreaterEqual(report["test_accuracy"], 0.847)
        self.assertGreaterEqual(report["test_auc"], 0.900)

    def test_rounds(self):
        """Rounds of sparse rows have the bits of one process that computes them; gzip and a layer of hidden units."""
        name = os.path.join(self.folder, "train.gz")
        with gzip.open(name, "wt") as file:
            file.write(rows(["2", "4", "9"], 0, 300))
        sums = []
        for how in (["--local", "ps=2,workers=2", "--sync"], ["--serial", "2"]):
            report = os.path.join(self.folder, "r.json")
            out = self.good(*how, "--data", "libsvm:" + name, "--model", "mlp:8", "--epochs", "3", "--batch_size", "16", "--report", report)
            self.assertIn("labels 2, 4, 9 are classes 0 to 2; 6 features, indices from 0 (0 occurs)", out)
            with open(report, encoding="utf-8") as file:
                sums.append(json.load(file)["params_sha256"])
        self.assertEqual(sums[0], sums[1])

    def test_dense_elsewhere(self):
        """A device without sparse products gets dense batches, and refuses those that are too large."""
        name = self.file("train", rows(["1", "2"], 1, 200))
        plugins = path("tests/kernels")
        flags = ["--data", "libsvm:" + name, "--model", "softmax", "--epochs", "10", "--learning_rate", "0.5", "--seed", "3"]
        sparse = self.good("--local", "ps=1,workers=1", *flags)
        env = dict(os.environ, PS_PLUGIN_DIR=plugins)
        if not os.path.exists(os.path.join(plugins, "libpsworker_fake.so")):
            self.skipTest("no fake device in " + plugins)
        cpu = os.path.join(self.folder, "plugins")
        os.mkdir(cpu)
        os.symlink(os.path.join(plugins, "libpsworker_fake.so"), os.path.join(cpu, "libpsworker_fake.so"))
        os.symlink(path("lib/libpsworker_cpu.so"), os.path.join(cpu, "libpsworker_cpu.so"))
        env["PS_PLUGIN_DIR"] = cpu
        code, out, err = run(PSTRAIN, "--local", "ps=1,workers=1", "--device", "fake:0", *flags, env=env)
        self.assertEqual(code, 0, err)
        self.assertEqual(self.accuracy(out), self.accuracy(sparse))
        wide = self.file("wide", "1 20000000:1\n2 1:1\n" * 40)
        code, out, err = run(PSTRAIN, "--local", "ps=1,workers=1", "--device", "fake:0", "--data", "libsvm:" + wide, "--model", "softmax",
                             env=env)
        self.assertEqual(code, 1)
        self.assertIn("2560000000 bytes on a device that has no sparse products, the most is 1073741824 (1 GiB): --device cpu", err)

    def test_regression(self):
        """Labels are numbers: R2 in the report; the model tells such labels from classes."""
        r, text = random.Random(3), []
        for _ in range(600):
            x = {i: round(r.uniform(-1, 1), 3) for i in r.sample(range(1, 9), 3)}
            text.append("%.4f %s\n" % (2 + 3 * x.get(1, 0) - 2 * x.get(4, 0), " ".join("%d:%g" % item for item in sorted(x.items()))))
        name, report = self.file("numbers", "".join(text)), os.path.join(self.folder, "report.json")
        data = ["--data", "libsvm:" + name, "--task", "regression", "--model", "linear"]
        with Cluster(1) as ps:
            train = ["--job_name", "worker", "--task_index", "0", "--worker_hosts", "127.0.0.1:%d" % free_port(), "--ps_hosts", ps.hosts]
            out = self.good(*train, *data, "--epochs", "60", "--learning_rate", "0.2", "--optimizer", "sgd", "--report", report)
            self.assertIn("labels are numbers; 8 features, indices from 1", out)
            with open(report, encoding="utf-8") as f:
                self.assertGreater(json.load(f)["test_r2"], 0.999)
            classes = self.file("classes", "0 1:1\n1 2:1\n" * 40)
            code, _, err = run(PSTRAIN, *train, "--data", "libsvm:" + classes, "--model", "softmax")
            self.assertEqual(code, 1)
            self.assertIn("the model was made with --task regression", err)
        self.refused("--serial", "1", *data[:1], "libsvm:" + self.file("far", "1e300 1:1\n" * 9), *data[2:],
                     says=[":1: '1e300': expected a label within the range of float32"])

    def test_too_large(self):
        """Weights above 1 GiB are refused in bytes, before a ps task is asked; so is what cannot be a model."""
        name = self.file("wide", "1 134217729:1\n2 1:1\n" * 20)
        self.refused("--serial", "1", "--data", "libsvm:" + name, "--model", "softmax",
                     says=["softmax/weights would be 134217729 x 2 float32, 1073741832 bytes; the most is 1073741824 (1 GiB)"])
        self.refused("--serial", "1", "--data", "libsvm:" + name, "--model", "mlp:64", says=["layer1/weights", "34359738624 bytes"])
        one = self.file("one", "7 1:1\n" * 100)
        self.refused("--serial", "1", "--data", "libsvm:" + one, says=["all labels are 7: there is nothing to tell apart"])
        self.refused("--serial", "1", "--data", "libsvm:" + self.file("ages", "".join("%d.5 1:1\n" % i for i in range(200))),
                     says=[":21: 20.5 is the label number 21", "for numbers to be predicted give --task regression"])
        self.refused("--serial", "1", "--data", "digits", "--libsvm_base", "0", says=["--libsvm_base is of sparse text"], code=2)

    def test_checkpoint(self):
        """A checkpoint has the labels: a run that goes on with another file takes them."""
        first = self.file("first", rows(["-1", "0", "5"], 0, 300))
        saved = os.path.join(self.folder, "saved")
        self.local("--data", "libsvm:" + first, "--epochs", "20", "--learning_rate", "0.5", "--checkpoint_dir", saved, ps=2)
        less = self.file("less", rows(["0", "5"], 0, 100, seed=2, features=5))  # alone they would be classes 0 and 1
        out = self.local("--data", "libsvm:" + less, "--epochs", "1", "--checkpoint_dir", saved, ps=2)
        self.assertIn("labels -1, 0, 5 are classes 0 to 2; 6 features, indices from 0 (0 occurs)", out)
        self.assertIn("continuing", out)
        self.assertGreater(self.accuracy(out), 0.9)


class Short(Cluster):
    """Another worker is chief soon after the one that is gone, and stays it where a busy machine lets it stand still for a second."""

    def start(self, i, *flags):
        super().start(i, "--lease", "3s", "--beat", "200ms", *flags)


class Together(Sparse):
    """A model on ps tasks that run, and workers and tests with files of their own."""

    def setUp(self):
        super().setUp()
        self.cluster = Cluster(2)
        self.cluster.__enter__()
        self.addCleanup(self.cluster.__exit__, None, None, None)
        self.first = self.file("first", rows(["2", "4"], 0, 300))

    def worker(self, index, count, *args):
        if index == 0:
            self.hosts = ",".join("127.0.0.1:%d" % free_port() for _ in range(count))
        return [PSTRAIN, "--ps_hosts", self.cluster.hosts, "--worker_hosts", self.hosts, "--job_name", "worker", "--task_index", str(index),
                "--model", "softmax", "--learning_rate", "0.5", *args]

    def train(self, *args):
        code, out, err = run(*self.worker(0, 1, *args))
        self.assertEqual(code, 0, out + err)
        return out

    def eval(self, name, *args):
        return self.good("--eval", "--ps_hosts", self.cluster.hosts, "--model", "softmax", "--data", "libsvm:%s,%s" % (name, name), *args)

    def test_another_file(self):
        out = self.train("--data", "libsvm:" + self.first, "--epochs", "20")
        self.assertIn("labels 2, 4 are classes 0, 1; 6 features, indices from 0 (0 occurs)", out)
        self.assertGreater(self.accuracy(out), 0.95)
        # only label 4, no index 0, another highest index: alone it would be class 0, and its columns one too low
        fours = self.file("fours", "".join("4 1:0.1 4:1.5\n" for _ in range(20)))
        out = self.eval(fours)
        self.assertIn("labels 2, 4 are classes 0, 1; 6 features, indices from 0 (as the model's)", out)
        self.assertEqual(self.accuracy(out), 1.0)
        twos = self.file("twos", "".join("2 1:0.1 5:1.5\n" for _ in range(20)))
        self.assertEqual(self.accuracy(self.eval(twos)), 1.0)
        for name, text, says in (("label", "3 1:1\n4 1:1\n", "label 3 is none of the model's, whose labels 2, 4 are classes 0, 1"),
                                 ("index", "2 6:1\n4 1:1\n", "index 6 occurs, and the model has 6 features")):
            bad = self.file(name, text * 10)
            self.refused("--eval", "--ps_hosts", self.cluster.hosts, "--model", "softmax", "--data", "libsvm:" + bad, says=[says])
            code, _, err = run(*self.worker(0, 1, "--data", "libsvm:" + bad))
            self.assertEqual(code, 1)
            self.assertIn(says, err)
        self.refused("--eval", "--ps_hosts", self.cluster.hosts, "--model", "softmax", "--data", "libsvm:" + fours, "--libsvm_base", "1",
                     says=["--libsvm_base 1: the indices of the model begin at 0"])
        out = self.train("--data", "libsvm:" + twos, "--epochs", "1")  # goes on with what it finds
        self.assertIn("continuing", out)
        out = self.train("--data", "libsvm:" + fours.replace("fours", "label"), "--epochs", "1", "--fresh")  # and --fresh forgets it
        self.assertIn("labels 3, 4 are classes 0, 1; 1 features, indices from 1", out)

    def test_evaluator(self):
        """An evaluator takes labels, base and features of the model that trainers make meanwhile."""
        fours = self.file("fours", "".join("4 1:0.1 4:1.5\n" for _ in range(20)))
        worker = "127.0.0.1:%d" % free_port()
        flags = ["--ps_hosts", self.cluster.hosts, "--worker_hosts", worker, "--model", "softmax", "--learning_rate", "0.5"]
        evaluator = subprocess.Popen([PSTRAIN, *flags, "--job_name", "evaluator", "--task_index", "0", "--data",
                                      "libsvm:%s,%s" % (fours, fours), "--eval_every", "1"], stdout=subprocess.PIPE, encoding="utf-8")
        try:
            code, out, err = run(PSTRAIN, *flags, "--job_name", "worker", "--task_index", "0", "--data", "libsvm:" + self.first,
                                 "--epochs", "20")
            self.assertEqual(code, 0, out + err)
            out = ""
            for line in evaluator.stdout:
                out += line
                if " global_step 160" in line:
                    break
            evaluator.terminate()
            evaluator.communicate()
        finally:
            evaluator.kill()
            evaluator.wait()
        self.assertIn("labels 2, 4 are classes 0, 1; 6 features, indices from 0 (as the model's)", out)
        self.assertEqual(self.accuracy(out[out.rindex("test accuracy"):]), 1.0)

    def test_lost(self):
        """All of the model is lost with its ps task: the chief makes it anew and writes the labels again."""
        with Cluster(1) as alone:
            worker = subprocess.Popen([PSTRAIN, "--ps_hosts", alone.hosts, "--worker_hosts", "127.0.0.1:%d" % free_port(), "--job_name",
                                       "worker", "--task_index", "0", "--model", "softmax", "--learning_rate", "0.5", "--data",
                                       "libsvm:" + self.first, "--epochs", "1000000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      encoding="utf-8")
            try:
                for line in worker.stdout:
                    if "variables created" in line:
                        break
                while run(PSCTL, "-t", alone.addresses[0], "get", "data/labels")[0] != 0:  # what is to be lost is there
                    self.assertIsNone(worker.poll())
                alone.kill(0)
                alone.start(0)
                for line in worker.stderr:
                    if "ev=recovered" in line:
                        break
                names = ""
                while "data/index_base" not in names:  # it comes with the next step
                    self.assertIsNone(worker.poll())
                    names = run(PSCTL, "-t", alone.addresses[0], "vars")[1]
                code, out, err = run(PSCTL, "-t", alone.addresses[0], "get", "data/labels")
                self.assertEqual(code, 0, out + err)
                self.assertRegex(out, r"\b2\b.*\b4\b")
            finally:
                worker.kill()
                worker.communicate()

    def test_another_chief(self):
        """The first worker never comes: who is chief in its place keeps the labels of its own file with the model."""
        with Short(1) as alone:
            hosts = ",".join("127.0.0.1:%d" % free_port() for _ in range(2))
            code, out, err = run(PSTRAIN, "--ps_hosts", alone.hosts, "--worker_hosts", hosts, "--job_name", "worker", "--task_index", "1",
                                 "--model", "softmax", "--data", "libsvm:" + self.first, "--steps", "5")
            self.assertEqual((code, "keeps no labels" in err), (0, False), out + err)
            code, out, err = run(PSCTL, "-t", alone.addresses[0], "get", "data/labels")
            self.assertEqual(code, 0, out + err)
            self.assertRegex(out, r"\b2\b.*\b4\b")

    def test_different_files(self):
        """Two workers that begin at once: whose variables come first is chance. The other one takes their width, or its error names
        the flag that makes one width of both."""
        narrow = self.file("narrow", rows(["2", "4"], 1, 300, features=3))
        commands = [self.worker(i, 2, "--data", "libsvm:" + name, "--epochs", "2") for i, name in enumerate((self.first, narrow))]
        both = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8") for c in commands]
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            if ended.si_status != 0:
                for w in both:
                    w.kill()
            out = str([w.communicate() for w in both])
        finally:
            for w in both:
                w.kill()
                w.wait()
        self.assertNotIn("SHAPE_MISMATCH", out)
        self.assertTrue([w.returncode for w in both] == [0, 0] or "is made with --libsvm_features" in out, out)

    def test_different_labels(self):
        """The variables of a worker whose file has one more label are there: the chief is told what to do."""
        more = self.file("more", rows(["2", "4", "5"], 0, 300))
        chief = self.worker(0, 2, "--data", "libsvm:" + self.first)
        second = subprocess.Popen(self.worker(1, 2, "--data", "libsvm:" + more), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            while "weights" not in run(PSCTL, "-t", self.cluster.addresses[0], "vars")[1]:
                self.assertIsNone(second.poll())
            code, out, err = run(*chief)
        finally:
            second.kill()
            second.communicate()
        self.assertEqual(code, 1, out + err)
        self.assertIn("the labels of this file are 2 classes; where the files of the trainers have different labels, start the chief first",
                      err)

    def test_no_labels(self):
        """A model of a program that keeps no labels is tested with those of the file, which is said."""
        self.train("--data", "libsvm:" + self.first, "--epochs", "20")
        code, out, err = run(PSTRAIN, "--eval", "--ps_hosts", self.cluster.hosts, "--model", "softmax", "--data", "libsvm:" + self.first)
        self.assertEqual((code, "keeps no labels" in err), (0, False), out + err)
        with tempfile.TemporaryDirectory() as folder:
            exported = os.path.join(folder, "m.safetensors")
            code, _, err = run(PSCTL, "-t", self.cluster.addresses[0], "export", exported)
            self.assertEqual(code, 0, err)
            metadata, tensors = read_safetensors(exported)
            write_safetensors(exported, {n: t for n, t in tensors.items() if not n.startswith("data/")},
                              {"format": metadata["format"]})
            with Cluster(1) as other:
                code, _, err = run(PSCTL, "-t", other.addresses[0], "import", exported)
                self.assertEqual(code, 0, err)
                code, out, err = run(PSTRAIN, "--eval", "--ps_hosts", other.hosts, "--model", "softmax", "--data", "libsvm:" + self.first)
                self.assertEqual(code, 0, out + err)
                self.assertIn("the model keeps no labels (data/labels, data/index_base): classes and indices are those of this file", err)

    def test_two_workers(self):
        """The second worker's file has one of the labels and fewer features."""
        less = self.file("less", "".join("4 2:0.1 4:1.5\n" for _ in range(300)))
        flags = ["--epochs", "10", "--libsvm_features", "8"]
        chief = subprocess.Popen(self.worker(0, 2, "--data", "libsvm:" + self.first, *flags), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 encoding="utf-8")
        try:
            first = ""
            for line in chief.stdout:
                first += line
                if "variables created" in line:
                    break
            code, out, err = run(*self.worker(1, 2, "--data", "libsvm:" + less, *flags))
            self.assertEqual(code, 0, out + err)
            rest, errors = chief.communicate(timeout=600)
            self.assertEqual(chief.returncode, 0, first + rest + errors)
        finally:
            chief.kill()
            chief.wait()
        self.assertIn("8 features", first)
        self.assertEqual(self.accuracy(self.eval(less)), 1.0)

    def test_export(self):
        """An export has them too: a cluster that gets it tells classes apart as the one before."""
        exported = os.path.join(self.folder, "model.safetensors")
        self.train("--data", "libsvm:" + self.first, "--epochs", "20", "--export", exported)
        fours = self.file("fours", "".join("4 1:0.1 4:1.5\n" for _ in range(20)))
        with Cluster(1) as other:
            code, _, err = run(PSCTL, "-t", other.addresses[0], "import", exported)
            self.assertEqual(code, 0, err)
            out = self.good("--eval", "--ps_hosts", other.hosts, "--model", "softmax", "--data", "libsvm:%s,%s" % (fours, fours))
            self.assertEqual(self.accuracy(out), 1.0)
        # --restore: the chief makes the model as its own file says, and what is in the export counts from then on
        no_zero = self.file("no_zero", "2 1:0.1 5:1.5\n4 1:0.1 4:1.5\n" * 50)
        other = self.file("other", "2 1:0.1 5:1.5\n9 1:0.1 4:1.5\n" * 50)
        for name, status, says in ((no_zero, 0, "labels 2, 4 are classes 0, 1; 6 features, indices from 0 (as the model's)"),
                                   (other, 1, "label 9 is none of the model's, whose labels 2, 4 are classes 0, 1")):
            with Cluster(1) as empty:
                code, out, err = run(PSTRAIN, "--ps_hosts", empty.hosts, "--worker_hosts", "127.0.0.1:%d" % free_port(), "--job_name", "worker",
                                     "--task_index", "0", "--model", "softmax", "--restore", exported, "--data", "libsvm:" + name,
                                     "--libsvm_features", "6", "--epochs", "1")
                self.assertEqual(code, status, out + err)
                self.assertIn(says, out + err)


if __name__ == "__main__":
    sys.exit(main(unittest))
