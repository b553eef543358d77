#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""worker/examples/embedding.c: alone, with a second worker, with one ps task, and what it says without any."""
import re
import subprocess
import unittest

from cluster import Cluster, die_with_parent, free_port, main, path, run

EMBEDDING = path("examples/embedding")


class Embedding(unittest.TestCase):
    def error(self, out):
        found = re.fullmatch(r"rmse of the test (\d\.\d+)\n", out)
        self.assertIsNotNone(found, out)
        return float(found.group(1))

    def flags(self, cluster, workers):
        hosts = ",".join("127.0.0.1:%d" % free_port() for _ in range(workers))
        return [EMBEDDING, "--ps_hosts", cluster.hosts, "--worker_hosts", hosts, "--job_name", "worker"]

    def test_more_steps(self):
        """A model that is there is trained on; the first steps are worse than no guess at all."""
        with Cluster(1) as cluster:
            errors = []
            for steps in ("20", "1500"):
                code, out, err = run(*self.flags(cluster, 1), "--steps", steps)
                self.assertEqual(code, 0, err)
                errors.append(self.error(out))
        self.assertGreater(errors[0], 0.4)
        self.assertLess(errors[1], 0.05)

    def test_two_workers(self):
        with Cluster(3) as cluster:
            flags = self.flags(cluster, 2)
            workers = [subprocess.Popen([*flags, "--task_index", str(i), "--steps", "1500"], stdout=subprocess.PIPE, text=True,
                                        preexec_fn=die_with_parent) for i in range(2)]
            for worker in workers:
                out = worker.communicate(timeout=600)[0]
                self.assertEqual(worker.returncode, 0)
                self.assertLess(self.error(out), 0.1)

    def test_no_task(self):
        code, out, err = run(EMBEDDING, "--ps_hosts", "127.0.0.1:%d" % free_port(), "--timeout", "1")
        self.assertNotEqual(code, 0)
        self.assertEqual(out, "")
        self.assertIn("ps_embedding_get: variable 'users' in 2 parts", err)


if __name__ == "__main__":
    main()
