#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-transport: plain (no other needed: one process trains)
# test-sanitizers: none (it is about how well a model learns)
# test-timeout: 1200
"""AdamW with a cosine schedule on MNIST: 8 epochs of a network of two layers reach an accuracy of 0.982, the median of three seeds. Needs
PSD_MNIST, the directory with MNIST's four files, and takes minutes; without it the case is skipped."""
import json
import os
import statistics
import sys
import tempfile
import unittest

from cluster import main, path, run

EPOCHS, BATCH, EXAMPLES = 8, 128, 60000
STEPS = EPOCHS * EXAMPLES // BATCH


class Mnist(unittest.TestCase):
    @unittest.skipUnless(os.environ.get("PSD_MNIST"), "PSD_MNIST is not set: the directory with MNIST's files")
    def test_adamw_and_a_cosine_schedule(self):
        with tempfile.TemporaryDirectory() as folder:
            report, reached = os.path.join(folder, "report.json"), []
            for seed in (1, 2, 3):
                code, out, err = run(path("bin/pstrain"), "--serial", "1", "--data", "mnist:" + os.environ["PSD_MNIST"], "--model", "mlp:512,512",
                                     "--optimizer", "adamw", "--learning_rate", "0.001", "--lr_schedule", f"cosine_decay:decay_steps={STEPS}",
                                     "--batch_size", str(BATCH), "--epochs", str(EPOCHS), "--seed", str(seed), "--report", report, timeout=900)
                self.assertEqual(code, 0, out + err)
                with open(report, encoding="utf-8") as file:
                    reached.append(json.load(file)["test_accuracy"])
            self.assertGreaterEqual(statistics.median(reached), 0.982, reached)


if __name__ == "__main__":
    sys.exit(main(unittest))
