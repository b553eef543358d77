#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example simple_client: state that sessions share through any server, and containers that keep two programs apart."""
import sys
import unittest

from cluster import Cluster, free_port, main, path, run

CLIENT = path("examples/simple_client")


class SimpleClient(unittest.TestCase):
    def prints(self, what, *args):
        self.assertEqual(run(CLIENT, *args), (0, what, ""))

    def fails(self, words, *args):
        code, out, err = run(CLIENT, *args)
        self.assertEqual((code, out), (1, ""), err)
        for word in words:
            self.assertIn(word, err)

    def test_as_the_seed(self):
        with Cluster(2, workers=1) as cluster:
            a, b = cluster.addresses
            worker = cluster.worker_addresses[0]
            self.fails(["FAILED_PRECONDITION", "'x'"], a)  # never initialised
            self.prints("1.0\n", a, "init")
            self.prints("2.0\n", b)
            self.prints("3.0\n", "psd://" + worker)
            self.prints("4.0\n", "grpc://" + a)
            self.prints("1.0\n", b, "init")
            self.prints("2.0\n", a)

    def test_scopes_are_names(self):
        with Cluster(2) as cluster:
            a, b = cluster.addresses
            self.prints("1.0\n", a, "init", "--scope", "my_problem_1")
            self.fails(["FAILED_PRECONDITION", "'x'"], b)  # the x without a scope is another one
            self.prints("1.0\n", b, "init", "--scope", "my_problem_2")
            self.prints("2.0\n", b, "--scope", "my_problem_1")
            self.prints("2.0\n", a, "--scope", "my_problem_2")
            self.fails(["'my_problem_1/x'"], a, "--scope", "my_problem_1", "--container", "other")
            code, out, err = run(path("bin/psctl"), "-t", b, "get", "my_problem_1/x")
            self.assertEqual((code, err), (0, ""))
            self.assertIn("2", out)
            self.prints("", b, "--reset", "--scope", "my_problem_1")  # the container with both of them
            self.fails(["FAILED_PRECONDITION", "'my_problem_2/x'"], a, "--scope", "my_problem_2")

    def test_containers(self):
        with Cluster(2) as cluster:
            a, b = cluster.addresses
            one, two = ["--container", "my_problem_1"], ["--container", "problem/2"]
            self.prints("1.0\n", a, "init", *one)
            self.prints("2.0\n", b, *one)
            self.fails(["FAILED_PRECONDITION", "'x'"], a, *two)  # its x is another one
            self.fails(["FAILED_PRECONDITION", "'x'"], a)
            self.prints("1.0\n", b, "init", *two)
            self.prints("1.0\n", b, "init")
            self.prints("3.0\n", a, *one)
            self.prints("2.0\n", a, *two)
            self.prints("", b, "--reset", *one)
            self.fails(["FAILED_PRECONDITION", "'x'"], a, *one)
            self.prints("3.0\n", a, *two)
            self.prints("2.0\n", a)
            self.prints("", b, "--reset")  # localhost, no other
            self.prints("4.0\n", a, *two)
            self.fails(["FAILED_PRECONDITION"], a)
            self.prints("1.0\n", a, "init", "--reset", *two)

    def test_a_reset_names_who_is_missing(self):
        with Cluster(2) as cluster:
            self.prints("1.0\n", cluster.addresses[0], "init")
            cluster.kill(1)
            code, out, err = run(CLIENT, cluster.addresses[0], "--reset", "--timeout", "6")
            self.assertEqual((code, out), (1, ""), err)
            self.assertIn("UNAVAILABLE", err)
            self.assertIn("/job:ps/task:1", err)
            self.prints("2.0\n", cluster.addresses[0])  # nothing was done: x is at task 0

    def test_command_line(self):
        target = "127.0.0.1:%d" % free_port()
        for args in ([], [target, "--what"], [target, "init", "init"], [target, "--container"], [target, target],
                     [target, "--timeout", "0"], [target, "--scope"]):
            code, out, err = run(CLIENT, *args)
            self.assertEqual((code, out), (2, ""), args)
            self.assertIn("usage: simple_client", err)
        self.fails(["INVALID_ARGUMENT", "container name 'a b'", "allowed are"], target, "--container", "a b")
        self.fails(["INVALID_ARGUMENT", "'../x'"], target, "--container", "../x")
        self.fails(["INVALID_ARGUMENT", "'a b'"], target, "--scope", "a b")


if __name__ == "__main__":
    sys.exit(main(unittest))
