# SPDX-License-Identifier: Apache-2.0
"""python -m psd.launch, with real processes."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOON_S = 300
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job that a shell runs in the background ignores SIGINT
STEPS = """
import os, signal, sys, psd
with psd.MonitoredSession() as s:
    w = s.param("w", 2, psd.ones(), psd.SGD(1))
    s.ready()
    s.set_steps(40)
    while not s.should_stop():
        try:
            s.pull()
            w.push([1, 1])
            s.step_done()
        except (psd.Aborted, psd.Unavailable):
            continue
        if s.global_step == 20 and s.last_recovery is None:
            s.save_checkpoint()
            victim = [i.pid for i in psd.admin.tasks(s) if i.task == 0]
            os.kill(victim[0], signal.SIGKILL)
    # one write: print() has several, between which a line of the log may come
    sys.stdout.write(f"step {s.global_step} recoveries {s.last_recovery.count}\\n")
"""


class Launch(unittest.TestCase):
    def start(self, script, *flags, arguments=()):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "train.py")
        with open(path, "w", encoding="utf-8") as out:
            out.write(script)
        words = [sys.executable, "-m", "psd.launch", *flags, path, *arguments]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")

    def example(self, name, *flags, arguments=()):
        path = os.path.join(ROOT, "worker/examples/python", name)
        words = [sys.executable, "-m", "psd.launch", *flags, path, *arguments]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_examples(self):
        data = os.path.join(ROOT, "data/digits/digits.csv.gz")
        text = self.example("softmax.py", "--ps", "2", "--workers", "2", arguments=[data])
        accuracies = re.findall(r"^\[worker \d\] test accuracy ([\d.]+)$", text, re.M)
        self.assertEqual(len(accuracies), 2, text)
        self.assertGreater(float(accuracies[0]), 0.9)
        self.assertIn("total 180", self.example("queue_of_tensors.py", "--workers", "3"))
        self.assertIn("done 24", self.example("work_files.py", "--workers", "3"))
        text = self.example("embedding.py", "--ps", "2", "--workers", "2")
        near = re.search(r"nearest word of the same topic: ([\d.]+)$", text, re.M)
        self.assertGreater(float(near[1]), 0.95, text)  # 1.000, seen; 0.1 is chance
        self.assertIn("best arm 3", self.example("rl_actors.py", "--workers", "4"))

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_examples_of_torch(self):
        data = os.path.join(ROOT, "data/digits/digits.csv.gz")
        text = self.example("mnist_torch.py", "--ps", "2", "--workers", "2", arguments=[data])
        for accuracy in re.findall(r"test accuracy ([\d.]+)$", text, re.M):
            self.assertGreaterEqual(float(accuracy), 0.96)  # 0.978 and more, seen; the order of the pushes is free
        self.assertIn("meeting 6: loss", self.example("diloco.py", "--workers", "4", arguments=["6"]))

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_torch_goes_on_when_a_ps_is_killed(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+", encoding="utf-8") as out:
            example = os.path.join(ROOT, "worker/examples/python/mnist_torch.py")
            flags = ["--ps", "2", "--workers", "2", "--checkpoint_dir", folder, "--checkpoint_steps", "200"]
            words = [sys.executable, "-m", "psd.launch", *flags, example, os.path.join(ROOT, "data/digits/digits.csv.gz")]
            process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT)
            try:
                self.kill_after_a_checkpoint(process, os.path.join(folder, "ps-1"))
                process.wait(timeout=600)
            finally:
                process.terminate()
                process.wait()
            out.seek(0)
            text = out.read()
            self.assertEqual(process.returncode, 0, text)
            self.assertIn("ps 1 has ended with status -9: it is started again", text)
            accuracies = re.findall(r"test accuracy ([\d.]+)$", text, re.M)
            self.assertEqual(len(accuracies), 2, text)
            for accuracy in accuracies:
                self.assertGreaterEqual(float(accuracy), 0.96, text)

    def kill_after_a_checkpoint(self, launcher, folder):
        """Kill ps 1 when it has saved for the second time: the first one is of the beginning."""
        for _ in range(6000):
            names = os.listdir(folder) if os.path.isdir(folder) else []
            if launcher.poll() is not None or sum(map(str.isdigit, names)) >= 2:
                break
            time.sleep(0.01)
        self.assertIsNone(launcher.poll(), names)
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8") as stat, open(f"/proc/{pid}/cmdline", encoding="utf-8") as cmdline:
                    parent, words = stat.read().rpartition(")")[2].split()[1], cmdline.read().split("\0")
            except OSError:
                continue
            if int(parent) == launcher.pid and ("--task_index", "1") in zip(words, words[1:]):
                os.kill(int(pid), signal.SIGKILL)
                return
        self.fail("ps 1 is not found")

    def test_the_listing_of_the_readme(self):
        with open(os.path.join(ROOT, "worker/examples/python/softmax.py"), encoding="utf-8") as source:
            program = source.read()
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as text:
            self.assertIn(program, text.read())

    def test_the_first_failure_ends_all(self):
        script = "import sys, time, psd\nwith psd.Session() as s:\n    s.task_index == 1 and sys.exit(7)\n    time.sleep(600)\n"
        process = self.start(script, "--workers", "3")
        text, _ = process.communicate(timeout=SOON_S)
        self.assertEqual(process.returncode, 7, text)

    def test_it_ends_with_its_processes(self):
        script = "import time\nprint('here', flush=True)\ntime.sleep(600)\n"
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            process = self.start(script, "--workers", "1")
            line = ""
            while "here" not in line:
                line = process.stdout.readline()
            process.send_signal(number)
            process.communicate(timeout=SOON_S)  # ends when nobody holds the pipe any more
            self.assertEqual(process.returncode, -9 if number == signal.SIGKILL else 130)

    def test_a_ps_that_is_killed_is_started_again(self):
        with tempfile.TemporaryDirectory() as folder:
            process = self.start(STEPS, "--ps", "2", "--checkpoint_dir", folder)
            text, _ = process.communicate(timeout=600)
            self.assertEqual(process.returncode, 0, text)
            self.assertIn("step 40 recoveries 1", text)
            self.assertIn("ps 0 has ended with status -9: it is started again", text)


if __name__ == "__main__":
    unittest.main()
