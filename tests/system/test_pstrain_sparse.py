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
import time

from cluster import Cluster, die_with_parent, main, path, run
from sparse_files import LIBSVM, Files
from test_checkpoint_files import read_safetensors

PSTRAIN = path("bin/pstrain")
PSCTL = path("bin/psctl")


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


class Rows(Files):
    def local(self, *args, ps=2, workers=1):
        name = os.path.join(self.folder, "r.json")
        code, out, err = run(PSTRAIN, "--local", "ps=%d,workers=%d" % (ps, workers), "--report", name, *args)
        self.assertEqual(code, 0, out + err)
        with open(name, encoding="utf-8") as file:
            return json.load(file)

    def serial(self, workers, *args):
        name = os.path.join(self.folder, "s.json")
        code, out, err = run(PSTRAIN, "--serial", str(workers), "--report", name, *args)
        self.assertEqual(code, 0, out + err)
        with open(name, encoding="utf-8") as file:
            return json.load(file)

    def test_same_bits(self):
        """With one worker weights by rows have the bits of whole ones, and parts those of whole tables."""
        data = "libsvm:" + self.file("train", planted(400, 1))
        for optimizer in ("adagrad", "sgd"):
            for model in ("mlp:8", "logistic"):
                sums = {self.local("--data", data, "--model", model, "--epochs", "2", "--optimizer", optimizer, *how)["params_sha256"]
                        for how in ([], ["--rows"], ["--partition", "3"], ["--partition", "16"])}
                self.assertEqual(len(sums), 1, (optimizer, model))
            whole, rows, parts = (self.local("--data", data, "--model", "logistic", "--epochs", "2", "--clip_norm", "0.05", *how)["params_sha256"]
                                  for how in ([], ["--rows"], ["--partition", "3"]))
            self.assertEqual([rows, parts], [whole, whole], optimizer)
            self.assertNotIn(whole, sums)
        for model in ("fm:4", "wide_deep:dim=4,hidden=8-4"):
            reports = [self.local("--data", data, "--model", model, "--epochs", "2", *how) for how in ([], ["--partition", "5"])]
            self.assertEqual(reports[0]["params_sha256"], reports[1]["params_sha256"], model)
            self.assertEqual(reports[0]["values"], 24 * 2 + 2 + 24 * 4 if model == "fm:4" else 24 * 4 + 4 + 32 + 8 + 32 + 4 + 8 + 2 + 24 * 2)

    def test_rounds(self):
        """Rounds by rows have the bits of their rounds computed one after the other, and those of whole weights."""
        data = ["--data", "libsvm:" + self.file("train", planted(400, 8)), "--epochs", "2"]
        for model, how, optimizer, workers in (("logistic", ["--rows"], "adagrad", 3), ("mlp:8", ["--partition", "3"], "sgd", 2),
                                               ("fm:4", ["--partition", "2"], "adam", 2),
                                               ("wide_deep:dim=4,hidden=8-4", [], "momentum", 3)):
            of = [*data, "--model", model, "--optimizer", optimizer]
            report = self.local(*of, *how, "--sync", workers=workers)
            self.assertEqual((report["mode"], report["dropped"]), ("rounds", 0))
            self.assertEqual(report["params_sha256"], self.serial(workers, *of, *how)["params_sha256"], (model, optimizer))
            if optimizer in ("adagrad", "sgd") and how:
                self.assertEqual(report["params_sha256"], self.serial(workers, *of)["params_sha256"], (model, optimizer))
            clip = ["--clip_norm", "0.02"]
            clipped = self.local(*of, *how, *clip, "--sync", workers=workers)["params_sha256"]
            self.assertEqual(clipped, self.serial(workers, *of, *how, *clip)["params_sha256"], (model, optimizer))
            self.assertNotEqual(clipped, report["params_sha256"], (model, optimizer))

    def test_warm_start(self):
        """A file of a model in parts begins one in other parts, asynchronous or in rounds; a part's name is not in the file."""
        data = ["--data", "libsvm:" + self.file("train", planted(100, 10)), "--model", "fm:4", "--epochs", "1"]
        learnt, begun = os.path.join(self.folder, "learnt"), os.path.join(self.folder, "begun")
        self.local(*data, "--partition", "3", "--export", learnt)
        of = [*data, "--optimizer", "sgd", "--learning_rate", "1e-30", "--warm_start", learnt, "--export", begun]
        want = read_safetensors(learnt)[1]
        for how in (["--partition", "5"], ["--partition", "2", "--sync"], []):
            self.local(*of, *how)
            now = read_safetensors(begun)[1]
            self.assertEqual([name for name in want if now[name] != want[name] and name != "global_step"], [], how)
        code, out, err = run(PSTRAIN, "--local", "ps=2,workers=1", *of, "--warm_start_only", "fm/factors/part_0")
        self.assertEqual(code, 1, out + err)
        self.assertIn("the pattern 'fm/factors/part_0' fits no variable of the file", err)

    def test_patience(self):
        """A run by rows ends early as one of whole weights does, with the same best values."""
        data = ["--data", "libsvm:" + self.file("train", planted(200, 9)), "--model", "logistic", "--epochs", "200", "--patience", "3"]
        whole, rows, parts = (self.local(*data, "--sync", *how, workers=2) for how in ([], ["--rows"], ["--partition", "3"]))
        self.assertLess(whole["epochs"], 100)
        for report in (rows, parts):
            self.assertEqual([report[key] for key in ("params_sha256", "global_step", "test_loss")],
                             [whole[key] for key in ("params_sha256", "global_step", "test_loss")])
        report = self.local("--data", data[1], "--model", "fm:4", "--epochs", "2", "--patience", "1", "--sync", workers=2)
        self.assertLessEqual(report["epochs"], 2)

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
            self.assertEqual(trainer.wait(timeout=600), 0)
        with open(report, encoding="utf-8") as file:
            self.assertGreaterEqual(json.load(file)["recoveries"], 1)

    def test_refused(self):
        data = ["--data", "libsvm:" + self.file("train", planted(40, 5))]
        three = self.file("three", "".join("%d %d:1\n" % (i % 3, i % 5 + 1) for i in range(30)))
        for args, code, says in (
            (data + ["--rows", "--clip_norm", "0"], 2, "--clip_norm 0: must be above 0"),
            (data + ["--rows", "--sync", "--rows_per_step", "1"], 1, "this member has reserved memory for 1 (ps_session_sync_rows())"),
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
