#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 300
"""--cluster MANAGER in the environments of managers: whole trainings whose processes get nothing else, the meeting of MPI ranks, what
psctl cluster --show says, and what each program refuses."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

from cluster import die_with_parent, free_ports, main, path

MANAGED = ("TF_CONFIG", "SLURM_", "OMPI_", "PMI", "RANK", "WORLD_SIZE", "MASTER_", "TORCHELASTIC_", "KUBERNETES_", "JOB_COMPLETION", "PSD_TARGET")
PSTRAIN, PSCTL, PSD = path("bin/pstrain"), path("bin/psctl"), path("bin/psd")
TRAINING = ("--model", "softmax", "--steps", "60", "--exit_when_done")
WAIT_S = 600


def environment(**variables):
    return {**{k: v for k, v in os.environ.items() if not k.startswith(MANAGED)}, **variables}


def step(rank, ranks, node="localhost"):
    """A task of a step on one node."""
    return environment(SLURM_STEP_NODELIST=node, SLURM_STEP_NUM_TASKS=str(ranks), SLURM_STEP_TASKS_PER_NODE=str(ranks),
                       SLURM_PROCID=str(rank), SLURM_NODEID="0", SLURM_LOCALID=str(rank), SLURM_GTIDS=",".join(map(str, range(ranks))))


def mpich(rank, ranks):
    return environment(PMI_RANK=str(rank), PMI_SIZE=str(ranks), MPI_LOCALRANKID=str(rank), MPIR_CVAR_CH3_INTERFACE_HOSTNAME="127.0.0.1")


def run(env, *argv):
    """(exit status, standard output, standard error)"""
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_S, check=False,
                          preexec_fn=die_with_parent)
    return done.returncode, done.stdout, done.stderr


def show(env, *flags):
    """What psctl cluster --show says, as JSON."""
    code, out, _ = run(env, PSCTL, "cluster", "--show", "--json", *flags)
    return code, json.loads(out)


class Launch(unittest.TestCase):
    def together(self, environments, *flags):
        """Run pstrain in each environment at the same time; what each has said. All end with 0."""
        tasks = [subprocess.Popen([PSTRAIN, *flags, *TRAINING], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, preexec_fn=die_with_parent) for env in environments]
        try:
            said = [task.communicate(timeout=WAIT_S)[0] for task in tasks]
        finally:
            for task in tasks:
                task.kill()
                task.wait()
        self.assertEqual([task.returncode for task in tasks], [0] * len(tasks), said)
        return said

    def test_a_step_trains(self):
        port = free_ports(4)
        said = self.together([step(rank, 4) for rank in range(4)], "--cluster", "slurm", "--ps_tasks", "2", "--base_port", str(port))
        self.assertIn("accuracy", said[2])

    def test_ranks_meet_and_train(self):
        port = free_ports(3)
        with tempfile.TemporaryDirectory(prefix="psd-meet-") as folder:
            meet = os.path.join(folder, "meet")
            flags = ("--cluster", "mpi", "--ps_tasks", "1", "--base_port", str(port), "--rendezvous", meet)
            self.together([mpich(rank, 3) for rank in range(3)], *flags)
            left = {name: open(os.path.join(folder, name), encoding="utf-8").read() for name in os.listdir(folder)}  # pylint: disable=consider-using-with
            self.assertEqual(left, {"meet.%d" % i: "127.0.0.1:%d -" % (port + i) for i in range(3)})
            code, said = show(mpich(1, 3), *flags[:4], "--base_port", str(port), "--rendezvous", meet)
            self.assertEqual((code, said["job"], said["index"]), (0, "worker", 0))
            self.assertEqual(said["cluster"], {"ps": ["127.0.0.1:%d" % port], "worker": ["127.0.0.1:%d" % (port + i) for i in (1, 2)]})
            # what an earlier job has left
            code, _, err = run(mpich(0, 3), PSTRAIN, *flags[:4], "--base_port", str(port + 1), "--rendezvous", meet)
            self.assertEqual(code, 2)
            self.assertIn("meet.0 is there, with 127.0.0.1:%d -; remove what an earlier job has left" % port, err)
            os.remove(meet + ".2")
            code, said = show(mpich(1, 3), *flags[:4], "--base_port", str(port), "--rendezvous", meet)
            self.assertEqual((code, said["error"]["status"]), (1, "UNAVAILABLE"))
            self.assertIn("rank 2 of 3 has left no address", said["error"]["message"])
            self.assertEqual(sorted(os.listdir(folder)), ["meet.0", "meet.1"])  # --show leaves nothing there

    def test_ranks_meet_at_free_ports(self):
        """Without any port: ps task 0 leaves a free one at the rendezvous, the others tell it theirs. Two such jobs share a host."""
        with tempfile.TemporaryDirectory(prefix="psd-meet-") as folder:
            ports = set()
            for job in "ab":
                meet = os.path.join(folder, job)
                flags = ("--cluster", "mpi", "--ps_tasks", "2", "--rendezvous", meet)
                said = self.together([mpich(rank, 4) for rank in range(4)], *flags)
                self.assertIn("accuracy", said[2])
                port = re.fullmatch(r"127\.0\.0\.1:(\d+) -", open(meet + ".0", encoding="utf-8").read()).group(1)  # pylint: disable=consider-using-with
                self.assertNotEqual(port, "0")
                ports.add(port)
                code, shown = show(mpich(1, 4), *flags)
                self.assertEqual((code, shown["cluster"]["ps"]), (0, ["127.0.0.1:" + port, "127.0.0.1:0"]))
                code, _, err = run(mpich(0, 4), PSTRAIN, *flags)
                self.assertEqual(code, 2)
                self.assertIn(job + ".0 is there, with 127.0.0.1:%s -; remove what an earlier job has left" % port, err)
            self.assertEqual(len(ports), 2)

    def test_a_ps_task_of_psd(self):
        port = free_ports(2)
        flags = ["--cluster", "auto", "--ps_tasks", "1", "--base_port", str(port)]
        with subprocess.Popen([PSD, *flags], env=step(0, 2), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              preexec_fn=die_with_parent) as psd:
            try:
                self.assertRegex(psd.stdout.readline(), "^ready: psd://.*:%d\n$" % port)
                code, out, _ = run(environment(), PSCTL, "-t", "localhost:%d" % port, "--json", "config", "get", "cluster")
                self.assertEqual(code, 0)
                self.assertEqual(json.loads(out)["tasks"][0]["settings"][0]["value"], "ps=localhost:%d;worker=localhost:%d" % (port, port + 1))
            finally:
                psd.terminate()
                log = psd.communicate(timeout=WAIT_S)[1]
        self.assertRegex(log, r"ev=cluster_found manager=slurm job=ps index=0 from=\"SLURM_STEP_NODELIST='localhost', ")

    def test_alone(self):
        code, out, err = run(environment(), PSTRAIN, "--cluster", "auto", "--model", "softmax", "--steps", "20")
        self.assertEqual(code, 0, err)
        self.assertIn("accuracy", out)
        self.assertEqual(show(environment()), (0, {"manager": "none", "cluster": {}, "from": "no variable of a manager is set"}))

    def test_show(self):
        code, said = show(step(2, 3, "n7"), "--ps_tasks", "2", "--base_port", "3000")
        self.assertEqual(code, 0)
        self.assertIn("SLURM_PROCID='2'", said.pop("from"))
        self.assertEqual(said, {"manager": "slurm", "job": "worker", "index": 0, "cluster": {"ps": ["n7:3000", "n7:3001"], "worker": ["n7:3002"]}})
        code, out, err = run(step(2, 3, "n7"), PSCTL, "cluster", "--show", "--ps_tasks", "2", "--base_port", "3000")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("task     /job:worker/task:0\naddress  n7:3002\nlisten   n7:3002\ncluster  ps=n7:3000,n7:3001;worker=n7:3002\n", out)
        self.assertEqual(run(environment(), PSCTL, "cluster", "--show", "--cluster", "ps=a:1")[0], 0)
        self.assertEqual(run(environment(), PSCTL, "cluster")[0], 2)

    def test_all_programs_refuse(self):
        for name, before, flags in (("psd", "psd: ", ()), ("pstrain", "", ()), ("psctl", "psctl: ", ("cluster", "--show"))):
            with self.subTest(name):
                code, out, err = run(step(0, 2), path("bin/" + name), *flags, "--cluster", "slurm", "--ps_tasks", "3", "--base_port", "3000")
                self.assertEqual((code, out), (2, ""))
                self.assertIn(before + "SLURM_STEP_NUM_TASKS='2': --ps_tasks 3 is more\n", err)
        for name in ("psd", "pstrain"):
            code, _, err = run(step(0, 2), path("bin/" + name), "--cluster", "slurm", "--ps_hosts", "a:1")
            self.assertEqual(code, 2)
            self.assertIn("the cluster is given twice", err)

    def test_a_program_of_the_library(self):
        port = free_ports(3)
        flags = ["--cluster", "slurm", "--ps_tasks", "1", "--base_port", str(port)]
        code, _, err = run(step(0, 2), path("examples/softmax"), *flags)
        self.assertNotEqual(code, 0)
        self.assertIn("--cluster: job ps: this program is a worker", err)
        with subprocess.Popen([PSD, *flags, "--log_level", "warn"], env=step(0, 2), stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent) as psd:
            try:
                psd.stdout.readline()
                code, out, err = run(step(1, 2), path("examples/softmax"), *flags, "--steps", "30")
                self.assertEqual(code, 0, out + err)
            finally:
                psd.terminate()


if __name__ == "__main__":
    sys.exit(main())
