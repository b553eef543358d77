#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example shared_queue: the seed's lines of each process in their order, with its numbers and with others."""
import sys
import unittest

import listings
from cluster import free_port, main, path, run

EXAMPLE = path("examples/shared_queue")


def some_spec(workers):
    return "worker=%s;ps=127.0.0.1:%d" % (",".join("127.0.0.1:%d" % free_port() for _ in range(workers)), free_port())


class SharedQueue(unittest.TestCase):
    def prints(self, workers, steps):
        """Its output, which is as it should be."""
        for _ in range(5):  # a port that was free may be taken meanwhile
            code, out, err = run(EXAMPLE, some_spec(workers), str(steps), "0")
            if "in use" not in err:
                break
        strange = [x for x in err.splitlines() if "ev=disconnected" not in x]  # who looks for a task that has not begun to listen
        self.assertEqual((code, strange, listings.shared_queue(out, workers, steps)), (0, [], ""), out)
        return out

    def test_the_seeds_numbers(self):
        self.prints(2, 5)

    def test_other_numbers(self):
        for workers, steps in ((1, 1), (3, 7), (2, 40)):
            with self.subTest(workers=workers, steps=steps):
                self.prints(workers, steps)

    def test_a_process_that_fails_ends_the_others(self):
        bad, good = "256.0.0.1:1", "127.0.0.1:%d" % free_port()
        for ps, worker, who in ((good, bad, "Worker 0"), (bad, good, "Parameter server")):
            code, out, err = run(EXAMPLE, f"worker={worker};ps={ps}", "1", "0")
            self.assertEqual(code, 1)
            self.assertNotIn("done", out)
            self.assertIn(who + ": UNAVAILABLE: host name '256.0.0.1' does not resolve", err)
        self.assertEqual(run(EXAMPLE, "worker"), (1, "", "shared_queue: INVALID_ARGUMENT: cluster spec: line 1, column 1: 'worker' "
                                                         "is not of the form JOB=HOST:PORT,HOST:PORT\n"))

    def test_the_comparison_sees_what_is_wrong(self):
        good = self.prints(1, 2)
        for old, new in (("All done.\n", ""), ("ps: r 2.0", "ps: r 1.0"), ("ps q.size():  2", "ps q.size():  3"),
                         ("Worker 0: ended...\n", ""), ("Worker 0: incrementing var 1.0\n", ""), ("ended...\nps q", "x\nps q"),
                         ("Worker 0: cluster ready!\n", ""), ("variables initialized\n", "variables initialized\n"
                          "Parameter server: var has value 2.0\n")):
            self.assertIn(old, good)
            self.assertNotEqual(listings.shared_queue(good.replace(old, new), 1, 2), "", old)


if __name__ == "__main__":
    sys.exit(main(unittest))
