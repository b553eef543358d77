#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example placement: the seeds' numbers and others, whole outputs, and where each row runs."""
import sys
import unittest

from cluster import main, path, run
from executors import Executors

PLACEMENT = path("examples/placement")


def expected(ps, variables, first):
    """What it prints, and the lines of its placement log."""
    where = [("v%d" % (i + 1), "Variable", "ps", i % ps, first + i) for i in range(variables)]
    s = where[0][4] + where[1][4]
    where += [("add", "Add", "worker", 0, s), ("mul", "Mul", "worker", 1, 2 * s), ("mul_1", "Mul", "worker", 1, 3 * s)]
    out = "".join("%s at /job:%s/task:%d/device:CPU:0 = %g\n" % (name, job, task, value) for name, _, job, task, value in where)
    return out, ["%s: (%s): /job:%s/task:%d/device:CPU:0" % (name, what, job, task) for name, what, job, task, _ in where]


class Placement(unittest.TestCase):
    def prints(self, what, target, *args):
        out, log = what
        code, said, err = run(PLACEMENT, "--target", target, "--log_device_placement", *args)
        self.assertEqual((code, said), (0, out), err)
        self.assertEqual([line for line in err.splitlines() if not line.startswith("ts=")], log)

    def test_the_seeds_numbers(self):
        with Executors(2, workers=3) as cluster:
            for target in ("grpc://" + cluster.addresses[0], cluster.worker_addresses[2]):
                self.prints(expected(2, 3, 1), target)  # the second time the variables are found
            code, out, _ = run(PLACEMENT, "--target", cluster.addresses[1], "5")
            self.assertEqual((code, out), (0, expected(2, 5, 1)[0]))

    def test_other_numbers(self):
        with Executors(3, workers=2) as cluster:
            self.prints(expected(3, 7, -2.25), cluster.worker_addresses[1], "7", "-2.25")
            self.prints(expected(3, 100, 10.5), cluster.addresses[2], "100", "10.5")

    def test_no_such_worker(self):
        with Executors(1, workers=1) as cluster:
            code, out, err = run(PLACEMENT, "--target", cluster.addresses[0])
            self.assertNotEqual(code, 0)
            self.assertEqual(out, "")
            for word in ("'mul'", "/job:worker/task:1"):
                self.assertIn(word, err)

    def test_command_line(self):
        with Executors(1, workers=2) as cluster:
            for variables in ("1", "x", "101"):
                code, out, err = run(PLACEMENT, "--target", cluster.addresses[0], variables)
                self.assertNotEqual(code, 0)
                self.assertEqual(out, "")
                self.assertIn("VARIABLES: 2 to 100", err)


if __name__ == "__main__":
    sys.exit(main(unittest))
