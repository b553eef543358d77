#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example placement: the seeds' numbers and others, five servers in one process and as five processes, whole outputs."""
import sys
import unittest

from cluster import Cluster, free_port, main, path, run

PLACEMENT = path("examples/placement")


def expected(ps, variables, first):
    """What it prints: where each object is, in order of creation, then the values."""
    lines = ["v%d: (Variable): /job:ps/task:%d/device:CPU:0" % (i + 1, i % ps) for i in range(variables)]
    lines.append("s: (Add): /job:worker/task:0/device:CPU:0")
    lines += ["%s: (Mul): /job:worker/task:1/device:CPU:0" % p for p in ("p1", "p2")]
    values = [first + i for i in range(variables)]
    s = values[0] + values[1]
    lines += ["v%d = %g" % (i + 1, v) for i, v in enumerate(values)]
    lines += ["s = %g" % s, "p1 = %g" % (2 * s), "p2 = %g" % (3 * s)]
    return "\n".join(lines) + "\n"


def some_spec(ps, workers):
    def hosts(n):
        return ",".join("127.0.0.1:%d" % free_port() for _ in range(n))
    return "ps=%s;worker=%s" % (hosts(ps), hosts(workers))


class Placement(unittest.TestCase):
    def prints(self, what, *args):
        for _ in range(5):  # a port that was free may be taken meanwhile
            code, out, err = run(PLACEMENT, *args)
            if "in use" not in err:
                break
        self.assertEqual((code, out, err), (0, what, ""))

    def test_the_seeds_numbers_in_one_process(self):
        self.prints("v1: (Variable): /job:ps/task:0/device:CPU:0\n"
                    "v2: (Variable): /job:ps/task:1/device:CPU:0\n"
                    "v3: (Variable): /job:ps/task:0/device:CPU:0\n"
                    "v4: (Variable): /job:ps/task:1/device:CPU:0\n"
                    "v5: (Variable): /job:ps/task:0/device:CPU:0\n"
                    "s: (Add): /job:worker/task:0/device:CPU:0\n"
                    "p1: (Mul): /job:worker/task:1/device:CPU:0\n"
                    "p2: (Mul): /job:worker/task:1/device:CPU:0\n"
                    "v1 = 1\nv2 = 2\nv3 = 3\nv4 = 4\nv5 = 5\ns = 3\np1 = 6\np2 = 9\n", "--cluster", some_spec(2, 3))

    def test_other_numbers_in_one_process(self):
        self.prints(expected(3, 7, 10.5), "--cluster", some_spec(3, 2), "--variables", "7", "--first", "10.5")

    def test_five_processes_print_the_same(self):
        with Cluster(2, workers=3) as cluster:
            for other in (cluster.addresses[1], cluster.worker_addresses[2]):
                targets = "%s,%s" % (cluster.worker_addresses[0], other)
                self.prints(expected(2, 5, 1), "--target", targets)  # the second time they are found
            code, out, err = run(path("bin/psctl"), "-t", cluster.worker_addresses[1], "get", "p2")
            self.assertEqual(code, 0, out + err)
            self.assertIn("9", out)

    def test_other_numbers_in_processes(self):
        with Cluster(3, workers=2) as cluster:
            self.prints(expected(3, 7, -2.25), "--target", cluster.hosts.split(",")[0] + "," + cluster.worker_addresses[1],
                        "--variables", "7", "--first", "-2.25")

    def test_no_such_worker(self):
        with Cluster(1, workers=1) as cluster:
            code, out, err = run(PLACEMENT, "--target", "%s,%s" % (cluster.addresses[0], cluster.worker_addresses[0]))
            self.assertEqual(code, 1)
            self.assertIn("s: (Add): /job:worker/task:0/device:CPU:0\n", out)
            self.assertNotIn("=", out)
            for word in ("'p1'", "/job:worker/task:1", "worker (task 0)"):
                self.assertIn(word, err)

    def test_command_line(self):
        for args in (["--variables", "1"], ["--variables", "x"], ["--first", "1x"], ["--target", "127.0.0.1:1"], ["--what", "1"],
                     ["--variables"], ["--cluster", ""]):
            code, out, err = run(PLACEMENT, *args)
            self.assertEqual((code, out), (2, ""), args)
            self.assertIn("usage: placement", err)
        code, out, err = run(PLACEMENT, "--cluster", "ps=127.0.0.1:1;;x")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("--cluster", err)


if __name__ == "__main__":
    sys.exit(main(unittest))
