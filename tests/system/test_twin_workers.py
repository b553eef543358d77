#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 180
"""Two processes that are the same worker: the second one is refused and says beside whom, the first one trains on; a worker that was
killed is started again at once; workers of programs with different containers do not meet."""
import json
import subprocess
import unittest

from test_pstrain import ENDLESS, GOOD, PREFIX, PSCTL, Tasks, environment


class Twins(Tasks):
    def refused(self, first, second):
        """The second one ends; returns what it says."""
        self.assertEqual(second.end(), 1, second.lines)
        said = second.text("err")
        self.assertIn("/job:worker/task:0", said)
        self.assertRegex(said, r"process %d on \S+ is /job:worker/task:0, since [\d.]+ s" % first.popen.pid)
        self.assertIn("end one of the two", said)
        self.assertIsNone(first.popen.poll())
        return said

    def workers_answer(self):
        return subprocess.run([*PREFIX, PSCTL, "-t", self.ps.addresses[0], "workers"], env=environment(), check=True, capture_output=True, text=True)

    def test_asynchronous(self):
        for i in range(2):
            self.start_ps(i)
        first = self.worker(0, *GOOD, "--epochs", ENDLESS)
        first.wait_line("variables created")
        second = self.worker(0, *GOOD, "--epochs", ENDLESS)
        self.refused(first, second)
        self.assertRegex(self.workers_answer().stderr, r"/job:worker/task:0 is process %d .*process %d on .*was refused" % (first.popen.pid, second.popen.pid))
        answer = subprocess.run([*PREFIX, PSCTL, "-t", self.ps.addresses[0], "workers", "--json"], env=environment(), check=True,
                                capture_output=True, text=True)
        rivals = [s["rival"] for s in json.loads(answer.stdout)["sessions"]]
        self.assertEqual(len(rivals), 1)
        self.assertTrue(rivals[0].startswith("process %d on " % second.popen.pid), rivals)
        self.daemons[0].wait_line(r"ev=worker_refused .*process %d" % second.popen.pid, "err")
        first.kill()
        third = self.worker(0, *GOOD, "--epochs", ENDLESS)  # at once, within the lease of the one before
        third.wait_line("continuing")

    def test_two_containers(self):
        """Two programs on one cluster, each with its worker 0."""
        for i in range(2):
            self.start_ps(i)
        first = self.worker(0, *GOOD, "--container", "one", "--epochs", ENDLESS)
        first.wait_line("variables created")
        second = self.worker(0, *GOOD, "--container", "two", "--epochs", ENDLESS)
        second.wait_line("variables created")
        self.refused(first, self.worker(0, *GOOD, "--container", "one", "--epochs", ENDLESS))
        self.assertRegex(self.workers_answer().stderr, r"is process %d .*was refused" % first.popen.pid)
        first.kill()
        third = self.worker(0, *GOOD, "--container", "one", "--epochs", ENDLESS)
        third.wait_line("continuing")  # the directory has seen the end of the first one
        self.assertNotIn("was refused", self.workers_answer().stderr)
        self.assertIsNone(second.popen.poll())

    def test_in_rounds(self):
        for i in range(2):
            self.start_ps(i)
        first = self.worker(0, *GOOD, "--sync", "--epochs", "2")
        first.wait_line(r"/job:worker/task:1 .not joined", "err")
        second = self.worker(0, *GOOD, "--sync", "--epochs", "2")
        self.refused(first, second)
        self.finish([first, self.worker(1, *GOOD, "--sync", "--epochs", "2")][::-1])


def load_tests(*_):
    """Not those of the class that it comes from."""
    return unittest.TestSuite(Twins(name) for name in ("test_asynchronous", "test_two_containers", "test_in_rounds"))


if __name__ == "__main__":
    unittest.main()
