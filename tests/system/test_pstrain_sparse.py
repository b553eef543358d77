#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 300
"""Weights by rows: --rows, --partition and the models fm and wide_deep. Whole weights, weights by rows and weights in parts have the
same bits; factorization machines find interactions that a linear model cannot."""
import json
import os
import random
import re
import subprocess
import tempfile
import time
import unittest

from cluster import Cluster, die_with_parent, main, path, run

PSTRAIN = path("bin/pstrain")
PSCTL = path("bin/psctl")
LIBSVM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared", "data", "libsvm")


def planted(count, seed, features=8):
    """Examples with one of `features` left ones, one of as many right ones and one of no meaning. A table of signs says which left
    feature goes with which right one; each row and column of it has every sign as often as the other, so no feature alone says
    anything. A tenth of the labels is wrong."""
    rng = random.Random(seed)
    lines = []
    for _ in range(count):
        left, right, other = (rng.randrange(features) for _ in range(3))
        label = ((left ^ right) & 1 == 0) != (rng.random() < 0.1)
        lines.append("%d %d:1 %d:1 %d:1\n" % (label, left + 1, features + right + 1, 2 * features + other + 1))
    return "".join(lines)


class Rows(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="psd-rows-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name, text):
        name = os.path.join(self.folder, name)
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)
        return name

    def local(self, *args, ps=2, workers=1):
        name = os.path.join(self.folder, "r.json")
        code, out, err = run(PSTRAIN, "--local", "ps=%d,workers=%d" % (ps, workers), "--report", name, *args)
        self.assertEqual(code, 0, out + err)
        with open(name, encoding="utf-8") as file:
            return json.load(file)

    def test_same_bits(self):
        """With one worker weights by rows have the bits of whole ones, and parts those of whole tables."""
        data = "libsvm:" + self.file("train", planted(400, 1))
        for optimizer in ("adagrad", "sgd"):
            for model in ("logistic", "mlp:8"):
                sums = {self.local("--data", data, "--model", model, "--epochs", "2", "--optimizer", optimizer, *how)["params_sha256"]
                        for how in ([], ["--rows"], ["--partition", "3"], ["--partition", "16"])}
                self.assertEqual(len(sums), 1, (optimizer, model))
        for model in ("fm:4", "wide_deep:dim=4,hidden=8-4"):
            reports = [self.local("--data", data, "--model", model, "--epochs", "2", *how) for how in ([], ["--partition", "5"])]
            self.assertEqual(reports[0]["params_sha256"], reports[1]["params_sha256"], model)
            self.assertEqual(reports[0]["values"], 24 * 2 + 2 + 24 * 4 if model == "fm:4" else 24 * 4 + 4 + 32 + 8 + 32 + 4 + 8 + 2 + 24 * 2)

    def test_interactions(self):
        data = "libsvm:%s,%s" % (self.file("train", planted(4000, 2)), self.file("test", planted(2000, 3)))
        auc = {model: self.local("--data", data, "--model", model, "--epochs", "10", "--learning_rate", "0.2", *how)["test_auc"]
               for model, how in (("logistic", ["--rows"]), ("fm:8", ["--partition", "2"]), ("wide_deep:dim=8,hidden=16-8", []))}
        self.assertGreater(auc["fm:8"], auc["logistic"] + 0.05)
        self.assertGreater(auc["fm:8"], 0.8)
        self.assertGreater(auc["wide_deep:dim=8,hidden=16-8"], auc["logistic"] + 0.05)
        self.assertLess(auc["logistic"], 0.6)

    def test_adult(self):
        if not os.path.exists(os.path.join(LIBSVM, "a9a.gz")):
            self.skipTest("no a9a.gz in " + os.path.normpath(LIBSVM))
        data = ["--data", "libsvm:%s/a9a.gz,%s/a9a.t.gz" % (LIBSVM, LIBSVM), "--learning_rate", "0.1"]
        report = self.local(*data, "--model", "logistic", "--rows", "--epochs", "3")
        self.assertGreaterEqual(report["test_accuracy"], 0.849)
        self.assertGreaterEqual(report["test_auc"], 0.902)
        report = self.local(*data, "--model", "fm:8", "--partition", "2", "--epochs", "5", workers=2)
        self.assertGreaterEqual(report["test_auc"], 0.902)

    def test_fields(self):
        """LIBFFM's text is LIBSVM's with fields, whatever these are."""
        text = planted(300, 6)
        fields = "\n".join(" ".join(word if i == 0 else "%d:%s" % (7 * i, word) for i, word in enumerate(line.split()))
                           for line in text.splitlines())
        sums = {self.local("--data", data, "--model", "fm:4", "--epochs", "2")["params_sha256"]
                for data in ("libsvm:" + self.file("svm", text), "libffm:" + self.file("ffm", fields))}
        self.assertEqual(len(sums), 1)
        for bad, says in (("1 2:3", "2:3"), ("1 a:2:3", "a:2:3"), ("1 2:3:4:5", "3:4:5"), ("1 -1:2:3", "-1:2:3")):
            code, out, err = run(PSTRAIN, "--local", "ps=1,workers=1", "--data", "libffm:" + self.file("bad", bad + "\n"), "--model", "fm:4")
            self.assertEqual(code, 1, out + err)
            self.assertIn("bad:1: '%s': expected " % says, err)

    def test_cluster(self):
        """A model in parts on tasks that stay: trained, trained on, tested by another program; psctl shows its parts."""
        data = "libsvm:" + self.file("train", planted(400, 4))
        steps = 10  # 320 training examples in batches of 32
        with Cluster(2) as cluster:
            common = ["--ps_hosts", ",".join(cluster.addresses), "--data", data, "--model", "fm:4", "--partition", "3"]
            code, out, err = run(PSTRAIN, *common, "--worker_hosts", "127.0.0.1:1", "--job_name", "worker", "--epochs", "1")
            self.assertEqual(code, 0, out + err)
            self.assertIn("7 variables created", out)
            code, out, err = run(PSTRAIN, *common, "--worker_hosts", "127.0.0.1:1", "--job_name", "worker", "--epochs", "1")
            self.assertEqual(code, 0, out + err)
            self.assertIn("7 variables, global_step %d: continuing" % steps, out)
            code, out, err = run(PSTRAIN, "--eval", *common)
            self.assertEqual(code, 0, out + err)
            self.assertIn("global_step %d" % (2 * steps), out)
            code, out, err = run(PSCTL, "-t", cluster.addresses[0], "vars", "--json")
            self.assertEqual(code, 0, err)
            for part in range(3):
                self.assertIn("fm/factors/part_%d" % part, out)

    def wait(self, what, holds, seconds=120):
        end = time.monotonic() + seconds
        while not holds():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.05)  # sleep: until the state is there

    def step(self, cluster):
        code, out, _ = run(PSCTL, "-t", cluster.addresses[0], "get", "global_step")
        return int(re.search(r"(\d+)\s*$", out).group(1)) if code == 0 else -1

    def test_recovery(self):
        """kill -9 of a task that has a part of each table, and comes back empty: the trainer begins anew, and is not lost."""
        log, report = os.path.join(self.folder, "log"), os.path.join(self.folder, "r.json")
        with Cluster(2) as cluster, open(log, "w", encoding="utf-8") as file:
            command = [PSTRAIN, "--ps_hosts", cluster.hosts, "--worker_hosts", "127.0.0.1:1", "--job_name", "worker", "--data",
                       "libsvm:" + self.file("train", planted(400, 7)), "--model", "fm:4", "--partition", "2", "--epochs", "1000000",
                       "--start_over", "--report", report]
            trainer = subprocess.Popen(command, stdout=file, stderr=file, preexec_fn=die_with_parent)
            self.wait("steps", lambda: self.step(cluster) >= 20)
            cluster.tasks[1].kill()
            cluster.tasks[1].wait()
            cluster.start(1)
            with open(log, encoding="utf-8") as said:
                text = [""]

                def recovered():
                    text[0] += said.read()
                    return "ev=recovered" in text[0]
                self.wait("a recovery", recovered)
            self.wait("steps after it", lambda: self.step(cluster) >= 20)
            self.assertEqual(run(PSCTL, "-t", cluster.addresses[0], "stop")[0], 0)
            self.assertEqual(trainer.wait(timeout=120), 0)
        with open(report, encoding="utf-8") as file:
            self.assertGreaterEqual(json.load(file)["recoveries"], 1)

    def test_refused(self):
        data = ["--data", "libsvm:" + self.file("train", planted(40, 5))]
        three = self.file("three", "".join("%d %d:1\n" % (i % 3, i % 5 + 1) for i in range(30)))
        for args, code, says in (
            (data + ["--rows", "--sync"], 2, "--rows and --sync: by rows each worker trains at its own pace"),
            (data + ["--partition", "2", "--patience", "1"], 2, "--partition and --patience: by rows"),
            (["--data", "digits", "--rows"], 2, "--rows is of sparse text"),
            (["--data", "digits", "--model", "fm:4"], 2, "--model fm:4 is of sparse text"),
            (data + ["--rows", "--device", "gpu:0"], 2, "--rows and --device gpu:0: products of sparse rows are the CPU's"),
            (data + ["--model", "fm:0"], 2, "fm:K or wide_deep:dim=D,hidden=N-N"),
            (data + ["--model", "wide_deep:dim=4"], 2, "--model 'wide_deep:dim=4'"),
            (data + ["--partition", "25", "--model", "softmax"], 1, "--partition 25: the data have 24 features"),
            (["--data", "libsvm:" + three, "--model", "fm:4"], 1, "--model fm:4 is for two classes"),
            (data + ["--rows", "--optimizer", "lars"], 1, "norms of the whole"),
        ):
            got, out, err = run(PSTRAIN, "--local", "ps=1,workers=1", *args)
            self.assertEqual(got, code, out + err)
            self.assertIn(says, err)


if __name__ == "__main__":
    main()
