#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pstrain --warm_start: a new model begins with a part of what another one has learnt, and the rest is initialised."""
import os
import sys
import tempfile
import unittest

from cluster import Cluster, free_port, main, path, run
from test_checkpoint_files import read_safetensors
from test_restore import psctl

PSTRAIN = path("bin/pstrain")
STILL = ("--optimizer", "sgd", "--learning_rate", "1e-30")  # weights are what they began with


class Warm(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = place.name
        c, train = self.cluster("--checkpoint_dir", self.place, "--checkpoint_seconds", "0")
        train("--model", "mlp:64,64", "--steps", "20")
        psctl(c, "checkpoint", "save")
        self.file = os.path.join(self.place, "model.safetensors")
        psctl(c, "checkpoint", "export", "latest", self.file, "--shard", "20000", "--slots")
        self.index = self.file + ".index.json"
        psctl(c, "export", self.file)
        self.learnt = read_safetensors(self.file)[1]
        c.__exit__()

    def cluster(self, *flags):
        """And a function that has its only worker train."""
        worker = "127.0.0.1:%d" % free_port()
        c = Cluster(2, ";worker=" + worker)
        self.addCleanup(c.__exit__)
        for task in range(2):
            c.start(task, *flags)

        def train(*args, ok=True):
            code, out, err = run(PSTRAIN, "--ps_hosts", c.hosts, "--worker_hosts", worker, "--job_name", "worker", "--task_index",
                                 "0", "--seed", "7", *args)
            self.assertEqual(code == 0, ok, out + err)
            return out + err
        return c, train

    def tensors(self, c):
        psctl(c, "export", os.path.join(self.place, "now"))
        return read_safetensors(os.path.join(self.place, "now"))[1]

    def test_a_part_under_other_names(self):
        """Of an index; beside it a model that nobody has warmed begins as it always does."""
        warm = ("--model", "mlp:64", "--warm_start", self.index, "--warm_start_only", "layer2/weights,*2/b*", "--warm_start_prefix",
                "layer2/=layer1/", *STILL)
        c, train = self.cluster()
        said = train(*warm, "--steps", "3")
        self.assertIn("--warm_start: 2 variables of " + self.index, said)
        self.assertIn("4 variables created, 2 of them with values of " + self.index, said)
        now = self.tensors(c)
        cold, train_cold = self.cluster()
        train_cold("--model", "mlp:64", *STILL, "--steps", "3")
        self.assertEqual(now["layer1/weights"], self.learnt["layer2/weights"])
        self.assertEqual(now["softmax/weights"], self.tensors(cold)["softmax/weights"])
        self.assertEqual(int.from_bytes(now["global_step"], "little"), 3)
        said = train(*warm, "--steps", "5")  # it lives
        self.assertIn("--warm_start: nothing is taken of %s: the model is there already" % self.index, said)
        self.assertIn("4 variables, global_step 3: continuing", said)

    def test_all_of_it(self):
        """In rounds, where it is given to all workers; the step is not another model's."""
        c, train = self.cluster()
        train("--model", "mlp:64,64", "--warm_start", self.file, "--sync", *STILL, "--steps", "2")
        now = self.tensors(c)
        for name in ("layer1/weights", "layer2/weights", "softmax/weights"):
            self.assertEqual(now[name], self.learnt[name])
        self.assertEqual(int.from_bytes(now["global_step"], "little"), 2)

    def test_what_does_not_fit(self):
        """Another shape, a name that the model has not, a pattern that fits nothing: nothing is trained, and then it is without."""
        c, train = self.cluster()
        for flags, why in ((("--warm_start_only", "layer1/*", "--warm_start_prefix", "layer1/=softmax/"), "softmax/weights"),
                           ((), "has no variable 'layer2/"), (("--warm_start_only", "conv*"), "conv"), (("--warm_start_prefix", "layer1"), "OLD=NEW")):
            said = train("--model", "mlp:64", "--warm_start", self.file, *flags, "--steps", "2", ok=False)
            self.assertIn(why, said)
        train("--model", "mlp:64", "--steps", "2")
        self.assertEqual(int.from_bytes(self.tensors(c)["global_step"], "little"), 2)


if __name__ == "__main__":
    sys.exit(main(unittest))
