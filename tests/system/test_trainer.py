#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 180
"""The example trainer: ps tasks and workers of one program, at their own pace and in step, with a ps that is killed meanwhile."""
import json
import math
import os
import re
import shutil
import signal
import sys
import tempfile
import unittest

from cluster import free_port, main, path, run
from test_pstrain import Process, wait_until

TRAINER = path("examples/trainer")
PSCTL = path("bin/psctl")


class Trainer(unittest.TestCase):
    tf_config = False

    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)
        self.ps_hosts = ["127.0.0.1:%d" % free_port() for _ in range(2)]
        self.worker_hosts = ["127.0.0.1:%d" % free_port() for _ in range(2)]

    def start(self, job, task, *more):
        """As the document starts it; or with its role in TF_CONFIG."""
        if self.tf_config:
            config = {"cluster": {"ps": self.ps_hosts, "worker": self.worker_hosts}, "task": {"type": job, "index": task}}
            process = Process(TRAINER, "--checkpoint_dir=" + self.directory, *more, env={"TF_CONFIG": json.dumps(config)})
            self.addCleanup(process.kill)
            return process
        process = Process(TRAINER, "--ps_hosts=" + ",".join(self.ps_hosts), "--worker_hosts=" + ",".join(self.worker_hosts),
                          "--job_name=" + job, "--task_index=%d" % task, "--checkpoint_dir=" + self.directory, *more)
        self.addCleanup(process.kill)
        return process

    def psctl(self, *args):
        code, out, err = run(PSCTL, "-t", ",".join(self.ps_hosts), "--timeout", "60", *args)
        self.assertEqual(code, 0, err)
        return out

    def step(self):
        return int(re.search(r"\d+", self.psctl("get", "global_step").splitlines()[-1]).group())

    def ended(self, workers):
        """The global step that each said, which ended well; the loss is below that of a guess."""
        steps = []
        for i, worker in enumerate(workers):
            self.assertEqual(worker.end(), 0, worker.text("err"))
            said = re.fullmatch(r"worker %d: global step (\d+), loss (\d\.\d{3})" % i, worker.text())
            self.assertTrue(said, worker.text())
            self.assertLess(float(said.group(2)), math.log(3) - 0.01)
            steps.append(int(said.group(1)))
        return steps

    def trains(self, *mode):
        self.servers = [self.start("ps", i) for i in range(2)]
        return [self.start("worker", i, *mode) for i in range(2)]

    def test_at_their_own_pace(self):
        last, more = sorted(self.ended(self.trains("--steps", "300")))
        self.assertEqual(last, 300)
        self.assertIn(more, (300, 301))
        saved = self.psctl("checkpoint", "list")
        self.assertRegex(saved, r"(?m)^ +1 +saved +0 ")
        self.assertRegex(saved, r"(?m)^ +2 +saved +30[01] ")
        self.assertEqual(sorted(os.listdir(self.directory)), ["ps-0", "ps-1"])

    def test_roles_from_tf_config(self):
        self.tf_config = True
        last, more = sorted(self.ended(self.trains("--steps", "120")))
        self.assertEqual(last, 120)
        self.assertIn(more, (120, 121))
        self.assertEqual(sorted(os.listdir(self.directory)), ["ps-0", "ps-1"])

    def test_cluster_of_another_name(self):
        """The ps tasks are called what the workers call them, so that both meet."""
        self.servers = [self.start("ps", i, "--cluster_name", "theirs") for i in range(2)]
        self.assertEqual(self.ended([self.start("worker", 0, "--cluster_name", "theirs", "--steps", "50")]), [50])

    def test_in_step(self):
        self.assertEqual(self.ended(self.trains("--steps", "250", "--sync")), [250, 250])
        self.assertRegex(self.psctl("vars", "w"), r" 250 +250 ")  # one update a step

    def goes_on(self, *mode):
        workers = self.trains(*mode)
        workers[0].wait_line("ev=saver_saved checkpoint=1", "err")
        wait_until("steps", lambda: self.step() >= 20)
        self.servers[1].end(signal.SIGKILL)
        self.servers[1] = self.start("ps", 1)
        for worker in workers:
            worker.wait_line("ev=recovered .* model=restored .* checkpoint=1", "err")
        again = self.step()
        wait_until("more steps", lambda: self.step() >= again + 200)
        self.psctl("stop")
        self.assertGreaterEqual(min(self.ended(workers)), again + 200)

    def test_a_ps_is_killed(self):
        self.goes_on()

    def test_a_ps_is_killed_in_step(self):
        self.goes_on("--sync")

    def test_goes_on_from_the_last_checkpoint(self):
        self.ended(self.trains("--steps", "100"))
        for server in self.servers:
            server.end(signal.SIGKILL)
        first, second = self.trains("--steps", "150")
        found = first.wait_line("ev=ready ", "err")
        self.assertIn("variables=2 found=2", found)
        self.assertGreaterEqual(min(self.ended((first, second))), 150)

    def test_command_line(self):
        code, out, err = run(TRAINER, "--help")
        self.assertEqual((code, err), (0, ""))
        self.assertTrue(out.startswith("usage: trainer"), out)
        code, out, err = run(TRAINER, "--job_name=ps", "--ps_hosts=" + self.ps_hosts[0], "--task_index=1")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("task_index 1 is not in the cluster", err)


if __name__ == "__main__":
    sys.exit(main(unittest))
