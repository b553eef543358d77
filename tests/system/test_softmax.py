#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example softmax: two ps and two workers by flags and by TF_CONFIG, and its command line's errors."""
import json
import os
import re
import subprocess
import sys
import unittest

from cluster import Cluster, creep, die_with_parent, free_port, go_on, main, path, run

SOFTMAX = path("examples/softmax")


def workers(count, flags_of, env_of):
    """Start one process per worker; (exit status, output) of each."""
    children = [subprocess.Popen([SOFTMAX, *flags_of(i)], env=env_of(i), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 stdin=subprocess.DEVNULL, text=True, preexec_fn=die_with_parent) for i in range(count)]
    outputs = [child.communicate(timeout=600)[0] for child in children]
    return [(child.returncode, out) for child, out in zip(children, outputs)]


class Softmax(unittest.TestCase):
    def learned(self, results):
        for code, out in results:
            self.assertEqual(code, 0, out)
            found = re.search(r"^test accuracy (0\.\d+)$", out, re.M)
            self.assertIsNotNone(found, out)
            self.assertGreaterEqual(float(found.group(1)), 0.90)

    def steps(self, cluster):
        code, out, err = run(path("bin/psctl"), "-t", cluster.addresses[0], "get", "global_step", "--json")
        self.assertEqual(code, 0, out + err)
        return json.loads(out)["values"][0]

    def test_flags(self):
        with Cluster(2) as cluster:
            hosts = "127.0.0.1:%d,127.0.0.1:%d" % (free_port(), free_port())
            forms = (["--ps_hosts", cluster.hosts, "--worker_hosts", hosts, "--job_name", "worker", "--task_index", "0"],
                     ["--ps-hosts=" + cluster.hosts, "--worker-hosts=" + hosts, "--job-name=worker", "--task-index=1"])
            self.learned(workers(2, lambda i: forms[i], lambda i: None))
            self.assertIn(self.steps(cluster), (2000, 2001))

    def test_tf_config(self):
        with Cluster(2) as cluster:
            spec = {"ps": cluster.addresses, "worker": ["127.0.0.1:%d" % free_port(), "127.0.0.1:%d" % free_port()]}
            self.learned(workers(2, lambda i: ["--steps", "1500"], lambda i: {
                **os.environ, "PS_DATA_DIR": "data",
                "TF_CONFIG": json.dumps({"cluster": spec, "task": {"type": "worker", "index": str(i)}})}))
            self.assertIn(self.steps(cluster), (1500, 1501))

    def test_what_is_wrong_is_said(self):
        with Cluster(1) as cluster:
            target = {"PSD_TARGET": cluster.addresses[0], "PS_DATA_DIR": "data"}
            for args in (["--bogus"], ["--data"], ["--data", "/nonexistent"], ["--data", "a", "--bogus"]):
                code, out, err = run(SOFTMAX, *args, env=target)
                self.assertEqual((code, out), (5, ""))
                self.assertIn("cannot read the digits; --data FILE", err)
            pstrain = [path("bin/pstrain"), "--ps_hosts", cluster.hosts, "--worker_hosts", "a:1", "--job_name", "worker"]
            self.assertEqual(run(*pstrain, "--epochs", "1")[0], 0)
            code, out, err = run(SOFTMAX, env=target)  # its own global_step is there already, with another model
            self.assertEqual((code, out), (15, ""))
            self.assertIn("the rest is trained, as 'global_step' is", err)
            self.assertIn("if this is another model, give it a container of its own", err)
            self.learned([run(SOFTMAX, "--container", "mine", env=target)[:2]])

    def test_alone_by_target(self):
        with Cluster(1) as cluster:
            self.learned([(code, out) for code, out, _ in [run(SOFTMAX, env={"PSD_TARGET": cluster.addresses[0]})]])

    def test_prefetched(self):
        with Cluster(1) as cluster:
            self.learned([run(SOFTMAX, "--prefetch", env={"PSD_TARGET": cluster.addresses[0]})[:2]])

    def test_monitored(self):
        """The same loop goes on when its ps are killed and started again in the middle of it."""
        with Cluster(2) as cluster:
            child = subprocess.Popen([path("examples/monitored"), "--target", cluster.addresses[0]], stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, preexec_fn=die_with_parent)
            psctl = [path("bin/psctl"), "-t", cluster.addresses[0], "get", "global_step", "--json"]

            def trains():
                code, out, _ = run(*psctl)
                return code == 0 and json.loads(out)["values"][0] >= 50
            creep(trains, child.pid)
            for i in (0, 1):
                cluster.kill(i)
            for i in (0, 1):
                cluster.start(i)
            go_on(child.pid)
            out, err = child.communicate(timeout=600)
            self.assertEqual(child.returncode, 0, err)
            self.assertEqual(err.count("ev=recovered"), 1, err)
            self.assertEqual(self.steps(cluster), 2000)
            found = re.fullmatch(r"loss 0\.\d+, test accuracy (0\.\d+)\n", out)
            self.assertIsNotNone(found, out)
            self.assertGreaterEqual(float(found.group(1)), 0.90)
            code, out, err = run(path("examples/monitored"), env={"PSD_TARGET": cluster.addresses[1], "PS_DATA_DIR": "/nonexistent"})
            self.assertEqual((code, out), (5, ""))
            self.assertIn("cannot read the digits: PS_DATA_DIR", err)

    def test_two_containers(self):
        with Cluster(2) as cluster:
            lines = ["w: (Variable): /job:ps/task:0/device:CPU:0", "b: (Variable): /job:ps/task:1/device:CPU:0",
                     "global_step: (Variable): /job:ps/task:0/device:CPU:0"]
            for flags in (["--container", "problem_1", "--steps", "300"], ["--container", "problem/2", "--steps", "200"]):
                code, out, err = run(SOFTMAX, "--target", cluster.addresses[0], "--log_device_placement", *flags)
                self.assertEqual(code, 0, out + err)
                self.assertEqual([line for line in err.splitlines() if not line.startswith("ts=")], lines)
            code, out, err = run(path("bin/psctl"), "-t", cluster.addresses[0], "vars", "--json")
            self.assertEqual(code, 0, out + err)
            found = json.loads(out)["variables"]
            self.assertEqual(sorted((v["container"], v["name"]) for v in found),
                             [(c, n) for c in ("problem/2", "problem_1") for n in ("b", "global_step", "w")])
            self.assertEqual({v["container"]: v["version"] for v in found if v["name"] == "global_step"},
                             {"problem_1": 300, "problem/2": 200})
            again = ["--target", cluster.addresses[0], "--container", "problem/2", "--steps"]
            code, out, err = run(SOFTMAX, *again, "200")  # what is there is there already: nothing is trained, and why is said
            self.assertEqual(code, 0, out + err)
            self.assertRegex(err, "ev=goal_reached .*global_step=200 steps=200 .*--fresh")
            code, out, err = run(SOFTMAX, *again, "210")
            self.assertEqual(code, 0, out + err)
            self.assertNotIn("goal_reached", err)

    def test_command_line(self):
        ps = "127.0.0.1:%d" % free_port()
        both = ["--ps_hosts", ps, "--worker_hosts", "127.0.0.1:%d" % free_port()]
        for args, words in (
                (both, ["--job_name is missing", "ps, worker"]),
                ([*both, "--job_name", ""], ["--job_name is empty", "ps, worker"]),
                ([*both, "--job_name", "wrker"], ["wrker", "ps, worker"]),
                ([*both, "--job_name", "ps"], ["psd", "worker"]),
                ([*both, "--job_name", "worker", "--task_index", "1"], ["task_index"]),
                (["--worker_hosts", ps], ["--ps_hosts"]),
                (["--ps_hosts", "a b:c"], ["--ps_hosts"]),
                (["--steps", "-1"], ["--steps"]),
                (["--target"], ["--target needs a value"]),
                (["--target", ps, "--data", "/nonexistent"], ["--data"]),
                (["--ps_hosts", ps, "--timeout", "300ms"], [ps, "/job:ps/task:0"])):
            code, out, err = run(SOFTMAX, *args)
            self.assertNotEqual(code, 0, (args, out, err))
            self.assertEqual(out, "")
            for word in words:
                self.assertIn(word, err, args)
        code, out, err = run(SOFTMAX, "--help")
        self.assertEqual((code, err), (0, ""))
        for word in ("--ps_hosts", "--task_index", "Softmax"):
            self.assertIn(word, out)

    def test_bad_tf_config(self):
        code, out, err = run(SOFTMAX, env={"TF_CONFIG": "{broken"})
        self.assertNotEqual(code, 0)
        self.assertEqual(out, "")
        self.assertIn("TF_CONFIG", err)


if __name__ == "__main__":
    sys.exit(main(unittest))
