#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 180
"""Training in rounds by pstrain: what --serial computes."""
import hashlib
import json
import struct
import unittest

import cluster
from test_pstrain import Case

DIGITS = 1437  # training examples


def tensors(path):
    """{name: bytes} of a safetensors file."""
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    return {name: data[slice(*t["data_offsets"])] for name, t in head.items() if name != "__metadata__"}


class Serial(Case):
    def serial(self, workers, *args):
        p = self.start("--serial", str(workers), "--epochs", "2", "--report", self.path("report.json"), *args)
        self.assertEqual(p.end(), 0, p.lines)
        return self.report()

    def test_the_same_run_has_the_same_bits_and_no_other_has(self):
        """Twice; another number of workers, seed, optimizer: every report and every digest is as it must be."""
        digests = {}
        for name, workers, args in (("2", 2, ()), ("again", 2, ()), ("3", 3, ()), ("seed 5", 2, ("--seed", "5")),
                                    ("adam", 2, ("--optimizer", "adam"))):
            r = self.serial(workers, *args)
            self.check_report(r, 1, workers)
            self.assertEqual(r["global_step"], 2 * (DIGITS // workers // 32))
            self.assertEqual(r["pushes_applied_total"], 4 * r["global_step"])  # one averaged push a variable
            digests[name] = r["params_sha256"]
        self.assertEqual(digests["again"], digests.pop("2"))
        self.assertEqual(len(set(digests.values())), len(digests), digests)

    def test_one_worker_and_whole_batches_is_plain_training(self):
        """The average of one is that one."""
        r = self.serial(1, "--seed", "3", "--batch_size", "479")  # 3 x 479 = 1437
        p = self.start("--local", "ps=2,workers=1", "--epochs", "2", "--seed", "3", "--batch_size", "479", "--report", self.path("local.json"))
        self.assertEqual(p.end(), 0, p.lines)
        self.assertEqual(self.report("local.json")["params_sha256"], r["params_sha256"])

    def test_the_digest_is_of_names_and_values(self):
        """SGD keeps no slots, so that the export has all that the digest is of."""
        r = self.serial(2, "--optimizer", "sgd", "--export", self.path("model.safetensors"))
        have = tensors(self.path("model.safetensors"))
        names = ["%s/%s" % (layer, part) for layer in ("layer1", "softmax") for part in ("weights", "biases")]
        digest = hashlib.sha256(b"".join(name.encode() + b"\0" + have[name] for name in names))
        self.assertEqual(r["params_sha256"], digest.hexdigest())

    def test_it_goes_on_where_it_was(self):
        """Two runs of an epoch each, on a ps task that stays, end where one run of two does: slots, order of the examples and all."""
        whole = self.serial(2, "--optimizer", "momentum")
        with cluster.Cluster(2) as ps:
            for _ in range(2):
                p = self.start("--serial", "2", "--epochs", "1", "--optimizer", "momentum", "--ps_hosts", ps.hosts, "--report",
                               self.path("half.json"))
                self.assertEqual(p.end(), 0, p.lines)
        self.assertIn("global_step 22: continuing", p.text())
        self.check_report(self.report("half.json"), 2, 2)
        self.assertEqual(self.report("half.json")["params_sha256"], whole["params_sha256"])

    def test_what_contradicts_it(self):
        for args, words in ((("--serial", "2", "--local", "ps=1,workers=2"), ["--serial and --local"]),
                            (("--serial", "2", "--job_name", "worker"), ["--serial and --job_name"]),
                            (("--serial", "2", "--work", "shards"), ["--serial and --work"]),
                            (("--serial", "2", "--prefetch"), ["--serial and --prefetch"]),
                            (("--serial", "2", "--eval"), ["--eval and --serial"]),
                            (("--serial", "2", "--threads", "2"), ["--serial and --threads 2", "one thread"]),
                            (("--serial", "0"), ["--serial: '0'", "1 to 1024"])):
            p = self.start(*args)
            self.assertEqual(p.end(), 2, p.lines)
            for word in words:
                self.assertIn(word, p.text("err"))
        p = self.start("--serial", "2", "--batch_size", "719")
        self.assertEqual(p.end(), 1, p.lines)
        self.assertIn("--batch_size 719: the smallest of 2 shares of 1437 examples has not one such batch", p.text("err"))


if __name__ == "__main__":
    unittest.main()
