#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-transport: plain (no other needed: what the optimizers keep is the same)
"""Optimizers with more than two slots, with powers in float64 and with a moving average, from the command line to files: pstrain, psctl
vars, a checkpoint, its export with slots, and their import."""
import json
import os
import re
import sys
import tempfile
import unittest

import test_files
from cluster import Cluster, free_port, main, path, run

# the learning rate at which each learns the digits
RATES = {"rowwise_adagrad": "0.05", "rowwise_adam": "0.005",
         "sgd": "0.5", "momentum": "0.1", "nesterov": "0.1", "adagrad": "0.2", "adam": "0.005", "adagrad_v2": "0.2", "adagrad_da": "0.5",
         "adadelta": "5", "rmsprop": "0.005", "rmsprop_centered": "0.005", "adamw": "0.005", "adamw_tf": "0.005", "amsgrad": "0.005",
         "adamax": "0.01", "nadam": "0.005", "ftrl": "0.5", "proximal_gd": "1", "proximal_adagrad": "0.5", "addsign": "0.1", "powersign": "0.1",
         "lazy_adam": "0.005", "lion": "0.001", "torch_adam": "0.005", "torch_adagrad": "0.05", "torch_rmsprop": "0.005", "torch_rmsprop_centered": "0.005",
         "lamb": "0.005", "lars": "2"}
PSCTL, PSTRAIN = path("bin/psctl"), path("bin/pstrain")


class Optimizers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, name):
        c = Cluster(1)
        self.addCleanup(c.__exit__)
        c.start(0, "--checkpoint_dir", os.path.join(self.folder, name), "--checkpoint_seconds", "0")
        return c

    def good(self, *args):
        code, out, err = run(*args)
        self.assertEqual(code, 0, out + err)
        return out

    def export(self, c, name):
        self.good(PSCTL, "-t", c.addresses[0], "checkpoint", "save")
        self.good(PSCTL, "-t", c.addresses[0], "checkpoint", "export", "latest", os.path.join(self.folder, name), "--slots")
        return test_files.read_safetensors(os.path.join(self.folder, name))

    def from_the_command_line_to_files(self, text, shown, slots, powers, by_row=()):
        c, report = self.start("first"), os.path.join(self.folder, "report.json")
        self.good(PSTRAIN, "--ps_hosts", c.hosts, "--worker_hosts", f"127.0.0.1:{free_port()}", "--job_name", "worker", "--task_index", "0",
                  "--model", "softmax", "--steps", "300", "--optimizer", text, "--learning_rate", "0.01", "--report", report)
        with open(report, encoding="utf-8") as file:
            self.assertGreater(json.load(file)["test_accuracy"], 0.9)
        self.assertIn(shown, self.good(PSCTL, "-t", c.addresses[0], "vars"))
        metadata, tensors = self.export(c, "first.safetensors")
        described = json.loads(metadata["psd_variables"])
        kind = text.split(":")[0]
        trained = sorted(v for v, d in described.items() if d["optimizer"]["kind"] == kind)
        self.assertTrue(trained)
        for v in trained:
            self.assertEqual(described[v]["optimizer"]["ema"], 0.9)
            self.assertNotIn("clip_value", described[v]["optimizer"])  # as every optimizer is, unless somebody says so
            for slot in slots:
                dtype, shape = tensors[v][:2]
                self.assertEqual(tensors[f"{v}/{slot}"][:2], (dtype, [shape[0], 1] if slot in by_row else shape))
            self.assertNotEqual(tensors[f"{v}/{slots[-1]}"][2], tensors[v][2])  # the average is behind
        self.assertEqual(sorted(name for name in tensors if name.endswith("_power")), powers)
        for name in powers:
            self.assertEqual(tensors[name][0], "F64")
        there = self.start("second")
        self.good(PSCTL, "-t", there.addresses[0], "checkpoint", "import", os.path.join(self.folder, "first.safetensors"), "--yes")
        self.assertEqual(self.export(there, "second.safetensors")[1], tensors)

    def test_three_slots_and_an_average(self):
        self.from_the_command_line_to_files(
            "rmsprop_centered:decay=0.95,epsilon=1e-3,ema=0.9",
            "rmsprop_centered(learning_rate=0.01, decay=0.95, momentum=0, epsilon=0.001, ema=0.9)",
            ["RMSProp", "RMSProp_1", "RMSProp_2", "ExponentialMovingAverage"], [])

    def test_wide_powers(self):
        self.from_the_command_line_to_files(
            "adamw:l2=1e-4,ema=0.9",
            "adamw(learning_rate=0.01, beta1=0.9, beta2=0.999, epsilon=1e-08, weight_decay=0.01, l2=0.0001, ema=0.9)",
            ["exp_avg", "exp_avg_sq", "ExponentialMovingAverage"], ["beta1_power", "beta2_power"])

    def test_one_number_a_row(self):
        self.from_the_command_line_to_files(
            "rowwise_adam:ema=0.9", "rowwise_adam(learning_rate=0.01, beta1=0.9, beta2=0.999, epsilon=1e-08, ema=0.9)",
            ["RowwiseAdam", "RowwiseAdam_1", "ExponentialMovingAverage"], ["beta1_power", "beta2_power"], ["RowwiseAdam_1"])

    def test_averages_are_tested(self):
        """An average that hardly moves is what the model began with, which knows nothing; a model without averages is refused."""
        c = self.start("first")
        train = ["--ps_hosts", c.hosts, "--worker_hosts", f"127.0.0.1:{free_port()}", "--job_name", "worker", "--task_index", "0", "--model", "softmax",
                 "--steps", "20", "--learning_rate", "0.1"]
        test = [PSTRAIN, "--eval", "--ps_hosts", c.hosts, "--model", "softmax"]
        self.good(PSTRAIN, *train, "--optimizer", "momentum:ema=0.9999999")
        self.assertLess(float(re.search(r"test accuracy (\S+)", self.good(*test, "--ema"))[1]), 0.3)
        self.assertGreater(float(re.search(r"test accuracy (\S+)", self.good(*test))[1]), 0.6)
        self.good(PSTRAIN, *train, "--optimizer", "sgd", "--container", "other")
        code, _, err = run(*test, "--ema", "--container", "other")
        self.assertEqual(code, 1, err)
        self.assertIn("has no moving average", err)
        self.assertIn("--ema is of --eval", run(PSTRAIN, "--ema", "--local", "ps=1,workers=1")[2])

    def test_a_schedule(self):
        """The ps follows the global step; psctl shows it; a checkpoint and a file have it; set-lr replaces it; the event file has what was in force."""
        c, report, text = self.start("first"), os.path.join(self.folder, "report.json"), "piecewise_constant:boundaries=100/200,values=0.5/0.25/0.125"
        args = ["--ps_hosts", c.hosts, "--worker_hosts", f"127.0.0.1:{free_port()}", "--job_name", "worker", "--task_index", "0", "--model", "softmax",
                "--optimizer", "sgd", "--lr_schedule", text, "--report", report]
        self.assertIn(f"learning rate 0.5 at step 0, by {text}", self.good(PSTRAIN, *args, "--steps", "150"))
        shown = self.good(PSCTL, "-t", c.addresses[0], "vars")
        self.assertIn(f"sgd(learning_rate=0.5, schedule={text}), at step 149 0.25", shown)
        metadata, _ = self.export(c, "first.safetensors")
        of = {k: v["optimizer"].get("schedule") for k, v in json.loads(metadata["psd_variables"]).items()}
        self.assertEqual({of["softmax/weights"], of["softmax/biases"]}, {text})
        there = self.start("second")
        self.good(PSCTL, "-t", there.addresses[0], "checkpoint", "import", os.path.join(self.folder, "first.safetensors"), "--yes")
        self.assertIn(f"schedule={text}), at step 0 0.5", self.good(PSCTL, "-t", there.addresses[0], "vars"))
        c.kill(0)
        c.start(0, "--checkpoint_dir", os.path.join(self.folder, "first"), "--checkpoint_seconds", "0")
        rows = {v["name"]: v for v in json.loads(self.good(PSCTL, "-t", c.addresses[0], "--json", "vars"))["variables"]}
        self.assertEqual({k: rows["softmax/weights"][k] for k in ("learning_rate", "step", "set_lr")}, {"learning_rate": 0.25, "step": 149, "set_lr": None})
        self.assertEqual(rows["softmax/weights"]["optimizer"]["schedule"], text)
        self.good(PSCTL, "-t", c.addresses[0], "set-lr", "--all", "0.0625")
        self.assertIn("0.0625 in force, by psctl set-lr", self.good(PSTRAIN, *args, "--steps", "250"))
        rows = {v["name"]: v for v in json.loads(self.good(PSCTL, "-t", c.addresses[0], "--json", "vars"))["variables"]}
        self.assertEqual({k: rows["softmax/weights"][k] for k in ("learning_rate", "step", "set_lr")},
                         {"learning_rate": 0.0625, "step": 249, "set_lr": 0.0625})
        self.good(PSCTL, "-t", c.addresses[0], "set-lr", "--all", "--clear")
        self.assertIn("at step 249 0.125", self.good(PSCTL, "-t", c.addresses[0], "vars"))

    def test_each_learns_the_digits(self):
        """Each at a rate of its own: RATES has a row for each that pstrain knows. FTRL and the proximal ones by softmax, 10 epochs all."""
        known = re.findall(r"^  (\w+)(?: \(.*\))?$", run(PSTRAIN, "--help")[1].split("\nOptimizers")[1].split("  each of these")[0], re.M)
        self.assertEqual(sorted(known), sorted(RATES))
        report = os.path.join(self.folder, "report.json")
        for name, rate in RATES.items():
            with self.subTest(optimizer=name):
                plain = name.startswith(("ftrl", "proximal"))
                self.good(PSTRAIN, "--serial", "1", "--optimizer", name, "--learning_rate", rate, "--report", report,
                          *(("--model", "softmax") if plain else ()))
                with open(report, encoding="utf-8") as file:
                    self.assertGreaterEqual(json.load(file)["test_accuracy"], 0.94)

    def test_a_large_value_in_slices(self):
        """A push of LAMB or LARS moves a large value in slices, between which the worker's next requests wait: the ps ends with the values of
        --serial."""
        report = os.path.join(self.folder, "report.json")
        for optimizer, rate in (("lamb:weight_decay=0.01,ema=0.9", "0.005"), ("lars:ema=0.9,clip_value=0.1,l2=0.001", "2")):
            sums = []
            for where in (("--local", "ps=1,workers=1"), ("--serial", "1")):
                self.good(PSTRAIN, *where, "--optimizer", optimizer, "--learning_rate", rate, "--model", "mlp:3000,250", "--steps", "8",
                          "--report", report)
                with open(report, encoding="utf-8") as file:
                    sums.append(json.load(file)["params_sha256"])
            self.assertEqual(sums[0], sums[1], optimizer)

    def test_what_is_refused_of_a_schedule(self):
        for text, says in (("cosine", "allowed are none, constant, exponential_decay"),
                           ("cosine_decay", "give it decay_steps"),
                           ("piecewise_constant:boundaries=200/100,values=1/2/3", "boundaries are out of order: 100 behind 200"),
                           ("exponential_decay:decay_steps=10,decay_rate=0.5,staircase=2", "staircase is 2, it must be 0 or 1; its standard value is 0"),
                           ("polynomial_decay:decay_steps=10,power=-1", "power is -1, it must be finite and > 0; its standard value is 1"),
                           ("cosine_decay:decay_steps=-5", "decay_steps is -5, it must be finite and > 0\n")):
            code, _, err = run(PSTRAIN, "--local", "ps=1,workers=1", "--lr_schedule", text)
            self.assertEqual(code, 2, err)
            self.assertIn(f"--lr_schedule {text}: schedule", err)
            self.assertIn(says, err)
        code, _, err = run(PSTRAIN, "--local", "ps=1,workers=1", "--optimizer", "ftrl", "--lr_schedule", "cosine_decay:decay_steps=10")
        self.assertEqual(code, 2, err)
        self.assertIn("ftrl divides by the learning rate", err)
        self.assertIn("first_decay_steps", run(PSTRAIN, "--help")[1])

    def test_what_is_refused(self):
        for text, says in (("adamw:weight_decay=-1", "weight_decay is -1, it must be finite and >= 0 in float32; its standard value is 0.01"),
                           ("ftrl:power=0.5", "power is 0.5, it must be finite and <= 0"),
                           ("sgd:ema=1", "ema is 1, it must be >= 0 and < 1"),
                           ("sgd:ema_updates=10", "ema_updates is of a moving average: give ema, its decay, too"), ("sgd:clip=1", "hyperparameters are written")):
            code, _, err = run(PSTRAIN, "--local", "ps=1,workers=1", "--optimizer", text)
            self.assertEqual(code, 2, err)
            self.assertIn(says, err)
        self.assertIn("weight_decay=0.01", run(PSTRAIN, "--help")[1])


if __name__ == "__main__":
    sys.exit(main(unittest))
