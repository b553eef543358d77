#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""psctl and pstrain that are told to end while they wait: the tasks forget their sessions at once, not ten minutes later."""
import json
import signal
import subprocess
import sys
import time
import unittest

from cluster import Cluster, die_with_parent, halt, main, path, run

PSCTL = path("bin/psctl")


class Goodbye(unittest.TestCase):
    def sessions(self, cluster):
        code, out, err = run(PSCTL, "-t", cluster.addresses[0], "--json", "workers", "--task", "ps:0")
        self.assertEqual(code, 0, out + err)
        return [s["pid"] for s in json.loads(out)["sessions"]]

    def ends(self, cluster, number, *argv):
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              preexec_fn=die_with_parent) as child:
            try:
                while child.pid not in self.sessions(cluster):
                    self.assertIsNone(child.poll())
                child.send_signal(number)
                self.assertEqual(child.wait(600), 128 + number)
            finally:
                if child.poll() is None:
                    child.kill()
            end = time.monotonic() + 120
            while child.pid in self.sessions(cluster):  # its last words may still be on their way
                self.assertLess(time.monotonic(), end)

    def test_psctl(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with Cluster(2) as cluster:
                halt(cluster.tasks[1].pid)  # a reset waits for it
                self.ends(cluster, number, PSCTL, "-t", cluster.addresses[0], "--timeout", "60", "reset", "--all", "--yes")

    def test_pstrain_that_waits_for_a_chief(self):
        with Cluster(1) as cluster:
            for number in (signal.SIGINT, signal.SIGTERM):
                self.ends(cluster, number, path("bin/pstrain"), "--ps_hosts", cluster.hosts, "--worker_hosts", "h:1,h:2",
                          "--job_name", "worker", "--task_index", "1", "--epochs", "1")


if __name__ == "__main__":
    sys.exit(main(unittest))
