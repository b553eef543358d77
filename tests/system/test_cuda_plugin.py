#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libpsworker_cuda.so as it is built: what it exports and needs, and what is said where there is no driver; training by its sources
on the emulated GPU (tests/kernels/emulated), and the program of `make check-gpu` and `make bench-gpu` there."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

from cluster import SANITIZED, main, path

PLUGIN = path("lib/libpsworker_cuda.so")
PSTRAIN = path("bin/pstrain")
RUN = ("--local", "ps=1,workers=1", "--epochs", "2", "--optimizer", "sgd")
NO_DRIVER = """
import ctypes, sys
nn = ctypes.CDLL(sys.argv[1])
nn.ps_nn_error.restype = ctypes.c_char_p
print(nn.ps_nn_open(b"gpu:0"), nn.ps_nn_error().decode())
"""
NOT_FOUND = 5
NO_DEVICE = 3  # exit status of gpu.py


def output(*command, env=None):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, env=env).stdout


def has_driver():
    return os.path.exists("/proc/driver/nvidia") or "libcuda.so.1" in output("/sbin/ldconfig", "-p")


@unittest.skipUnless(os.path.exists(PLUGIN), "cuda no: the plugin is not built")
@unittest.skipIf(SANITIZED, "Python is not built with the sanitizer, which is an export and a need")
class Plugin(unittest.TestCase):
    def test_it_exports_one_symbol(self):
        names = [line.split()[-1] for line in output("nm", "-D", "--defined-only", PLUGIN).splitlines()]
        self.assertEqual(names, ["psk_open"])

    def test_what_it_needs(self):
        """cuBLAS; the runtime is in it, and the driver is looked for when it is used."""
        needed = re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", PLUGIN))
        self.assertTrue(any(name.startswith("libcublas.so.") for name in needed), needed)
        usual = r"lib(cublas|c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so|ld-linux"
        self.assertFalse([name for name in needed if not re.match(usual, name)])

    def test_no_driver(self):
        """It opens, and says why there is no device; training ends with that text."""
        if has_driver():
            self.skipTest("this machine has a driver")
        env = {**os.environ, "PS_PLUGIN_DIR": path("lib")}
        said = output(sys.executable, "-c", NO_DRIVER, path("lib/libpsworker.so"), env=env)
        self.assertRegex(said, rf"^{NOT_FOUND} ps_nn_open: there is no gpu:0: no driver: .* \(35\)")
        done = subprocess.run([PSTRAIN, *RUN, "--device", "gpu:0"], env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                              check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"there is no gpu:0: no driver: .* \(35\)")


@unittest.skipIf(SANITIZED, "Python is not built with the sanitizer, and blocks of threads are slow with it")
class Program(unittest.TestCase):
    def run_gpu(self, what, device, out):
        return subprocess.run([sys.executable, "-B", "tests/bench/gpu.py", what, "--device", device, "--out", out, "--tests", "act"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)

    def test_no_card(self):
        """It says so, writes nothing, and has a status of its own."""
        with tempfile.TemporaryDirectory() as out:
            for what in ("check", "bench"):
                done = self.run_gpu(what, "gpu:99", out)
                self.assertEqual(done.returncode, NO_DEVICE, done.stdout)
                self.assertRegex(done.stdout, rf"^{what}-gpu: nothing was run: .*(no kernels for cuda|there is no gpu:99)")
            self.assertEqual(os.listdir(out), [])

    def test_all_of_it(self):
        with tempfile.TemporaryDirectory() as out:
            done = self.run_gpu("bench", "emulated:0", out)
            self.assertEqual(done.returncode, 0, done.stdout)
            with open(os.path.join(out, "gpu-emulated-2-processors.json"), encoding="utf-8") as text:
                result = json.load(text)
        self.assertGreater(result["check"]["passed"], 3)
        self.assertEqual(result["check"]["failed"] + result["check"]["skipped"], 0)
        self.assertTrue({"card", "driver", "commit", "date", "driver_cuda", "runtime_cuda"} <= set(result))
        names = [row["name"] for row in result["rows"]]
        for name in ("copy within the device", "softmax_xent", "dropout", "activation tanh", "layer", "network: step through 4 ps"):
            self.assertIn(name, names)
        for row in result["rows"]:
            self.assertGreater(row["value"], 0, row)


@unittest.skipIf(SANITIZED, "Python is not built with the sanitizer, and blocks of threads are slow with it")
class Emulated(unittest.TestCase):
    def test_training(self):
        """The same run on the CPU and on the emulated GPU learns the same, up to rounding."""
        reports = []
        with tempfile.TemporaryDirectory() as scratch:
            for device in ("cpu", "emulated:0"):
                report = os.path.join(scratch, "report.json")
                env = {**os.environ, "PS_PLUGIN_DIR": path("tests/kernels")}
                output(PSTRAIN, *RUN, "--device", device, "--report", report, env=env)
                with open(report, encoding="utf-8") as text:
                    reports.append(json.load(text))
        self.assertAlmostEqual(reports[0]["test_loss"], reports[1]["test_loss"], delta=1e-3)
        self.assertAlmostEqual(reports[0]["train_loss"], reports[1]["train_loss"], delta=1e-3)


if __name__ == "__main__":
    sys.exit(main(unittest))
