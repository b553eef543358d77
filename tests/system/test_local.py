#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example local: a cluster of processes of one job, a role from TF_CONFIG, and its end by a client."""
import json
import os
import subprocess
import sys
import unittest

from cluster import die_with_parent, free_port, main, path, run

LOCAL = path("examples/local")


class Tasks:
    """Processes of the example, killed at the end; said: the line of each when it serves."""

    def __init__(self, *commands):
        self.processes, self.said = [], []
        for arguments, tf_config in commands:
            env = {k: v for k, v in os.environ.items() if k != "TF_CONFIG"}
            if tf_config:
                env["TF_CONFIG"] = json.dumps(tf_config)
            self.processes.append(subprocess.Popen([LOCAL, *arguments], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                                   text=True, preexec_fn=die_with_parent))

    def __enter__(self):
        self.said = [process.stdout.readline() for process in self.processes]
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdout.close()


def addresses(count):
    return ["127.0.0.1:%d" % free_port() for _ in range(count)]


class Local(unittest.TestCase):
    def shares_x(self, first, second):
        client = path("examples/simple_client")
        self.assertEqual(run(client, "grpc://" + first, "init"), (0, "1.0\n", ""))
        self.assertEqual(run(client, "grpc://" + second), (0, "2.0\n", ""))

    def test_two_processes_of_one_job(self):
        two = addresses(2)
        spec = "local=" + ",".join(two)
        with Tasks((("0", spec), None), (("1", spec), None)) as tasks:
            self.assertEqual(tasks.said, ["/job:local/task:%d serves at psd://%s\n" % (i, two[i]) for i in range(2)])
            self.shares_x(*two)
            self.assertEqual(run(path("bin/psctl"), "-t", two[1], "shutdown", "--all", "--yes")[0], 0)
            self.assertEqual([process.wait(600) for process in tasks.processes], [0, 0])

    def test_roles_from_tf_config(self):
        ps, worker = addresses(1), addresses(2)
        config = {"cluster": {"ps": ps, "worker": worker}}
        roles = [{"type": "ps", "index": 0}, {"type": "worker", "index": 1}]
        with Tasks(*(((), dict(config, task=role)) for role in roles)) as tasks:
            self.assertEqual(tasks.said, ["/job:ps/task:0 serves at psd://%s\n" % ps[0],
                                          "/job:worker/task:1 serves at psd://%s\n" % worker[1]])
            self.shares_x(worker[1], ps[0])

    def test_what_it_refuses(self):
        spec = "local=" + addresses(1)[0]
        for arguments, word in ((("1", spec), "task_index 1 is not in the cluster"), (("0", "local"), "'local' is not of the form")):
            code, out, err = run(LOCAL, *arguments)
            self.assertEqual((code, out), (1, ""))
            self.assertIn(word, err)
        code, out, err = run(LOCAL, env={"TF_CONFIG": '{"cluster": {"local": ["127.0.0.1:1"]}, "task": {"type": "ps"}}'})
        self.assertEqual((code, out), (1, ""))
        self.assertIn("INVALID_ARGUMENT", err)
        for arguments in ((), ("--what",), ("0", spec, "x")):
            code, out, err = run(LOCAL, *arguments)
            self.assertEqual((code, out), (2, ""))
            self.assertIn("usage: local TASK [CLUSTER]", err)


if __name__ == "__main__":
    sys.exit(main(unittest))
