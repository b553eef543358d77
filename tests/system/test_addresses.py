#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 240
"""ps tasks that listen at any port: the cluster has port 0 for all but the directory, tasks are killed and come back at other ports, and
each at the port that another one had. A trainer goes on, and psctl finds all from any of them."""
import json
import os
import re
import signal
import socket
import unittest

import cluster
from cluster import free_port
from test_pstrain import ENDLESS, GOOD, PREFIX, PSCTL, PSD, Case, Process, psctl, wait_until

ANY = "127.0.0.1:0"


def listening(port=0):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", port))
    s.listen(64)
    return s


def address_of(sock):
    return "127.0.0.1:%d" % sock.getsockname()[1]


class Addresses(Case):
    def setUp(self):
        super().setUp()
        self.directory = listening()
        self.at = address_of(self.directory)
        self.hosts = ",".join((self.at, ANY, ANY))
        self.ps = [None] * 3
        self.places = [self.at, None, None]

    def start_ps(self, i, sock=None, *more):
        """Task i at a port of the system's choice, or at the socket; its address."""
        argv = [*PREFIX, PSD, "--ps_hosts", self.hosts, "--job_name", "ps", "--task_index", str(i), "--checkpoint_dir", self.path("saved"),
                "--lease", "4s", "--beat", "200ms", *more]
        if i == 0:
            sock = self.directory
        if sock is None:
            self.ps[i] = Process(*argv)
        else:
            script = 'exec 3<&%d; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$0" "$@"' % sock.fileno()
            self.ps[i] = Process("/bin/bash", "-c", script, *argv, pass_fds=[sock.fileno()])
        self.started.append(self.ps[i])
        self.places[i] = re.search(r"^ready: psd://(\S+)$", self.ps[i].wait_line("^ready: psd://")).group(1)
        return self.places[i]

    def start_all(self, *more):
        for i in range(3):
            self.start_ps(i, None, *more)
        self.addCleanup(self.directory.close)

    def told(self, target):
        """The addresses of the tasks that psctl reaches from there."""
        code, out, _ = cluster.run(PSCTL, "-t", target, "--timeout", "10s", "--json", "status")
        return [t["address"] for t in json.loads(out)["tasks"]] if code == 0 else None

    def step(self):
        return int(re.search(r"\d+$", psctl(self.at, "get", "global_step").strip()).group())

    def saved(self):
        code, out, _ = cluster.run(PSCTL, "-t", self.at, "--timeout", "5s", "--json", "checkpoint", "list")
        return code == 0 and any(c["state"] == "saved" and c.get("step", 0) > 0 for c in json.loads(out)["checkpoints"])  # of all variables

    def test_all_are_found_from_any(self):
        self.start_all()
        self.assertEqual(len(set(self.places)), 3)
        for target in self.places:
            wait_until("three addresses", lambda t=target: self.told(t) == self.places)

    def test_training_goes_on_at_other_ports(self):
        """Both tasks are killed. Each comes back at the port that the other one had, then at new ones. No trainer ends."""
        self.start_all("--checkpoint_seconds", "1")
        trainer = self.start("--ps_hosts", self.hosts, "--worker_hosts", "192.0.2.1:1", "--job_name", "worker", "--task_index", "0", *GOOD,
                             "--epochs", ENDLESS, "--max_recoveries", "50")
        trainer.wait_line("^4 variables")
        for turn in range(2):
            wait_until("a checkpoint", self.saved)
            before = list(self.places)
            for i in (1, 2):
                self.ps[i].end(signal.SIGKILL)
            if turn == 0:
                for i in (1, 2):
                    with listening(int(before[3 - i].rpartition(":")[2])) as sock:
                        self.assertEqual(self.start_ps(i, sock), before[3 - i])
            else:
                for i in (1, 2):
                    self.start_ps(i)
            wait_until("their addresses", lambda: self.told(self.at) == self.places)
            wait_until("a recovery", lambda t=turn: trainer.text("err").count("ev=recovered ") > t)
            step = self.step()
            wait_until("steps", lambda s=step: self.step() > s + 20)
            self.assertIsNone(trainer.popen.poll(), trainer.lines)
        wait_until("enough steps to have learnt", lambda: self.step() >= 400)
        psctl(self.at, "stop")
        self.assertEqual(trainer.end(), 0, trainer.lines)
        self.assertRegex(trainer.text(), r"(?m)^test accuracy 0\.[89]")

    def test_a_directory_that_comes_back_hears_them_again(self):
        self.start_all()
        places = list(self.places)
        self.ps[0].end(signal.SIGKILL)
        self.start_ps(0)
        wait_until("their addresses", lambda: self.told(self.at) == places)
        self.ps[0].wait_line("ev=task_address", "err")

    def test_two_jobs_on_the_same_hosts(self):
        """A process of another cluster with the same name and number takes the port of a task that is gone: nobody takes it for that."""
        self.start_all()
        wait_until("three addresses", lambda: self.told(self.at) == self.places)
        old = int(self.places[1].rpartition(":")[2])
        other = Addresses("test_all_are_found_from_any")
        other.setUp()
        self.addCleanup(other.doCleanups)
        other.start_ps(0)
        self.ps[1].end(signal.SIGKILL)
        with listening(old) as sock:
            other.start_ps(1, sock)
        other.start_ps(2)
        wait_until("the addresses of the others", lambda: other.told(other.at) == other.places)
        code, out, err = cluster.run(PSCTL, "-t", self.at, "--timeout", "10s", "status")
        self.assertEqual(code, 1, out)
        self.assertIn("another process listens at its last address", out + err)
        self.start_ps(1)
        wait_until("its new address", lambda: self.told(self.at) == self.places)

    def test_the_directory_needs_a_port(self):
        for hosts in (ANY, "%s,127.0.0.1:%d" % (ANY, free_port())):
            code, _, err = cluster.run(PSD, "--ps_hosts", hosts, "--job_name", "ps", "--task_index", "0")
            self.assertEqual(code, 2)
            self.assertIn("/job:ps/task:0 at '127.0.0.1:0' is the directory, where the others find the addresses of tasks with port 0", err)
        code, _, err = cluster.run(PSCTL, "-t", "127.0.0.1:0", "ping")
        self.assertEqual(code, 2)
        self.assertIn("port 0", err)


if __name__ == "__main__":
    os.umask(0o077)
    raise SystemExit(cluster.main(unittest))
