#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 180
"""--timeout bounds the start: a ps task that was never connected, because its host name has a slip in it, nobody listens on its port,
or it is not there, is no loss that mends itself. Plain and monitored programs, pstrain and its evaluator; one task of two."""
import os
import subprocess
import sys
import unittest

from cluster import Cluster, die_with_parent, free_port, main, path

WAIT_S = 400  # for an end that must come; without a bound it takes ten minutes
SLIP = "no-such-host.invalid:2222"
PROGRAMS = ("examples/softmax", "examples/monitored", "bin/pstrain")


class StartTimeout(unittest.TestCase):
    def run_worker(self, program, ps_hosts, *flags, status=None):
        """Its output."""
        done = subprocess.run([path(program), "--ps_hosts", ps_hosts, "--worker_hosts", "127.0.0.1:1", "--job_name", "worker", "--task_index",
                               "0", "--timeout", "2", *flags], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_S,
                              preexec_fn=die_with_parent, check=False)
        out = done.stdout + done.stderr
        if status is None:
            self.assertNotEqual(done.returncode, 0, out)
        else:
            self.assertEqual(done.returncode, status, out)
        return out

    def test_no_such_host(self):
        for program in PROGRAMS:
            with self.subTest(program=program):
                out = self.run_worker(program, SLIP)
                self.assertRegex(out, r"UNAVAILABLE.*no connection within \d+ ms: host name 'no-such-host.invalid' does not resolve")
                self.assertNotIn("ev=not_recovered", out)

    def test_nobody_listens(self):
        for program in PROGRAMS:
            with self.subTest(program=program):
                out = self.run_worker(program, "127.0.0.1:%d" % free_port())
                self.assertRegex(out, r"UNAVAILABLE.*no connection within \d+ ms: Connection refused")

    def test_an_evaluator(self):
        done = subprocess.run([path("bin/pstrain"), "--eval", "--ps_hosts", SLIP, "--timeout", "2"], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=WAIT_S, preexec_fn=die_with_parent, check=False)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("host name 'no-such-host.invalid' does not resolve", done.stderr)

    def test_one_of_two_is_written_otherwise_than_at_the_tasks(self):
        """They know each other; this worker's list has a slip in it."""
        with Cluster(2) as cluster:
            for program in PROGRAMS:
                with self.subTest(program=program):
                    out = self.run_worker(program, "%s,%s" % (cluster.addresses[0], SLIP))
                    self.assertRegex(out, r"/job:ps/task:1 \(no-such-host.invalid:2222.*host name 'no-such-host.invalid' does not resolve")
                    self.assertNotIn("ev=not_recovered", out)

    def test_one_of_two_is_not_there(self):
        cluster = Cluster(2)
        self.addCleanup(cluster.__exit__)
        cluster.sockets[1].close()
        cluster.start(0)
        for program in PROGRAMS:
            with self.subTest(program=program):
                self.assertIn("/job:ps/task:1", self.run_worker(program, cluster.hosts))


if __name__ == "__main__":
    os.environ.setdefault("PS_DATA_DIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data"))
    sys.exit(main(unittest))
