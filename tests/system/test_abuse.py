#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-transport: plain (it speaks the protocol itself)
# test-timeout: 120
"""What goes wrong in real life around the programs: bad peers in numbers, closed descriptors, odd output files, wrong clusters."""
import datetime
import json
import os
import re
import resource
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import unittest

from cluster import Cluster, die_with_parent, free_port, main, path, run

PSD = path("bin/psd")
PSCTL = path("bin/psctl")
PSTRAIN = path("bin/pstrain")
ENDLESS = "1000000000"  # steps: until something ends it


def trainer(*args):
    return run(PSTRAIN, "--job_name", "worker", "--worker_hosts", f"127.0.0.1:{free_port()}", "--epochs", "1", *args)


class BadPeers(unittest.TestCase):
    def test_they_do_not_fill_the_log(self):
        with subprocess.Popen([PSD, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              preexec_fn=die_with_parent) as psd:
            log = []
            reader = threading.Thread(target=lambda: log.extend(psd.stderr), daemon=True)
            reader.start()
            port = int(psd.stdout.readline().rsplit(":", 1)[1])
            rounds = 0
            while rounds < 300 or sum("ev=frame_rejected" in line for line in log) < 2:  # into another second of the limit
                with socket.create_connection(("127.0.0.1", port), 30) as c:
                    c.sendall(b"GET / HTTP/1.1\r\nHost: psd\r\n\r\n" * 2)
                    try:
                        while c.recv(4096):
                            pass
                    except ConnectionResetError:
                        pass
                rounds += 1
            psd.terminate()
            self.assertEqual(psd.wait(600), 0)
            reader.join(600)
            lines = [line for line in log if "ev=frame_rejected" in line]
            stamps = [datetime.datetime.strptime(line.split()[0], "ts=%Y-%m-%dT%H:%M:%S.%fZ") for line in lines]
            self.assertLessEqual(len(lines), (stamps[-1] - stamps[0]).total_seconds() + 2)  # one a second
            left_out = sum(int(n) for line in lines for n in re.findall(r"left_out_before=(\d+)", line))
            self.assertGreater(left_out, 0)
            self.assertLessEqual(left_out + len(lines), rounds)

    def test_a_peer_that_accepts_and_says_nothing(self):
        with socket.create_server(("127.0.0.1", 0)) as mute:
            address = f"127.0.0.1:{mute.getsockname()[1]}"
            code, _, err = run(PSCTL, "-t", address, "--timeout", "3", "status")
            self.assertEqual(code, 1)
            self.assertIn(address, err)
            self.assertIn("it has not answered", err)


class Flood(unittest.TestCase):
    """Thousands of connections that say nothing, as many as this process may have."""

    def flood(self, port, count):
        sockets = []
        for _ in range(count):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex(("127.0.0.1", port))  # most are not even accepted
            sockets.append(s)
        return sockets

    def test_it_holds_nobody_up(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        count = 10000 if hard == resource.RLIM_INFINITY else min(10000, hard - 200)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 200), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        log = []
        with subprocess.Popen([PSD, "--listen", "127.0.0.1:0", "--sessions_max", "200"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent) as psd:
            try:
                reader = threading.Thread(target=lambda: log.extend(psd.stderr), daemon=True)
                reader.start()
                port = int(psd.stdout.readline().rsplit(":", 1)[1])
                address = f"127.0.0.1:{port}"
                with subprocess.Popen([path("examples/softmax"), "--target", address, "--steps", ENDLESS], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                                      preexec_fn=die_with_parent) as worker:
                    try:
                        self.step(address, 1)
                        sockets = self.flood(port, count)
                        before = self.step(address, 1)  # psctl comes through: the silent ones are closed one after the other
                        self.step(address, before + 1)  # and the worker goes on all the time
                        code, out, err = run(PSCTL, "-t", address, "--timeout", "40", "stop")
                        self.assertEqual(code, 0, out + err)
                        out, err = worker.communicate(timeout=600)
                        self.assertEqual(worker.returncode, 0, out + err)
                        self.assertNotIn("ev=disconnected", err)
                    finally:
                        if worker.poll() is None:
                            worker.kill()
                for s in sockets:
                    s.close()
                code, out, err = run(PSCTL, "-t", address, "ping")
                self.assertEqual(code, 0, out + err)
                psd.terminate()
                self.assertEqual(psd.wait(600), 0)
                reader.join(600)
            finally:
                if psd.poll() is None:
                    psd.kill()
        self.assertTrue(any("ev=connections_full" in line for line in log), log[-5:])
        self.assertLess(len(log), 200)

    def step(self, address, least):
        """global_step when it is at least so much."""
        for _ in range(200):
            code, out, err = run(PSCTL, "-t", address, "--timeout", "40", "--json", "get", "global_step")
            if code == 0 and json.loads(out)["values"][0] >= least:
                return json.loads(out)["values"][0]
        self.fail(f"global_step does not reach {least}: {out}{err}")
        return None


class Descriptors(unittest.TestCase):
    @staticmethod
    def close_stdio():
        die_with_parent()
        os.closerange(0, 3)

    def start(self, *args):
        # Popen itself needs none of the three: it must not redirect what the child closes
        return subprocess.Popen(list(args), preexec_fn=self.close_stdio)

    def test_programs_run_without_stdio(self):
        address = f"127.0.0.1:{free_port()}"
        psd = self.start(PSD, "--cluster", "ps=" + address)
        try:
            code = 1
            for _ in range(100):
                code, _, err = run(PSCTL, "-t", address, "--timeout", "1", "ping")
                if code == 0:
                    break
            self.assertEqual(code, 0, err)
            # what cannot be printed is a failure; nothing of it goes to a socket that got descriptor 1
            self.assertEqual(self.start(PSCTL, "-t", address, "status").wait(600), 1)
            with tempfile.TemporaryDirectory() as folder:
                report = os.path.join(folder, "r.json")
                local = self.start(PSTRAIN, "--local", "ps=1,workers=1", "--epochs", "1", "--report", report)
                self.assertEqual(local.wait(600), 0)
                self.assertTrue(os.path.exists(report))
        finally:
            psd.terminate()
        self.assertEqual(psd.wait(600), 0)


class Files(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(1).__enter__()
        cls.folder = tempfile.TemporaryDirectory()
        code, out, err = trainer("--ps_hosts", cls.cluster.hosts)
        if code != 0:
            raise RuntimeError(out + err)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()
        cls.cluster.__exit__()

    def name(self, name):
        return os.path.join(self.folder.name, name)

    def fifo(self, name):
        """A named pipe and what comes out of it; renaming a file over it would leave the reader alone."""
        pipe = self.name(name)
        os.mkfifo(pipe)
        got = []

        def read():
            with open(pipe, "rb") as f:
                got.append(f.read())

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        return pipe, reader, got

    def test_npy_into_what_is_no_file(self):
        pipe, reader, got = self.fifo("npy")
        code, out, err = run(PSCTL, "-t", self.cluster.addresses[0], "get", "global_step", "--npy", pipe)
        self.assertEqual(code, 0, out + err)
        reader.join(600)
        self.assertTrue(got and got[0].startswith(b"\x93NUMPY"))
        self.assertTrue(stat.S_ISFIFO(os.lstat(pipe).st_mode))
        os.symlink("aim.npy", self.name("link.npy"))
        code, out, err = run(PSCTL, "-t", self.cluster.addresses[0], "get", "global_step", "--npy", self.name("link.npy"))
        self.assertEqual(code, 0, out + err)
        self.assertTrue(os.path.islink(self.name("link.npy")))
        self.assertTrue(os.path.getsize(self.name("aim.npy")) > 0)

    def test_report_into_what_is_no_file(self):
        pipe, reader, got = self.fifo("report")
        code, out, err = trainer("--ps_hosts", self.cluster.hosts, "--report", pipe)
        self.assertEqual(code, 0, out + err)
        reader.join(600)
        self.assertTrue(got and b'"test_accuracy"' in got[0])
        self.assertTrue(stat.S_ISFIFO(os.lstat(pipe).st_mode))

    def test_report_is_checked_before_training(self):
        for report in (self.folder.name, "/nonexistent/r.json"):
            code, out, err = trainer("--ps_hosts", self.cluster.hosts, "--report", report)
            self.assertEqual(code, 1)
            self.assertIn(report, err)
            self.assertNotIn("epoch", out)

    def test_a_neighbour_called_tmp_survives(self):
        with open(self.name("r.json.tmp"), "w", encoding="utf-8") as f:
            f.write("mine")
        code, out, err = trainer("--ps_hosts", self.cluster.hosts, "--report", self.name("r.json"))
        self.assertEqual(code, 0, out + err)
        with open(self.name("r.json.tmp"), encoding="utf-8") as f:
            self.assertEqual(f.read(), "mine")
        self.assertEqual([n for n in os.listdir(self.folder.name) if ".part." in n], [])


class WrongCluster(unittest.TestCase):
    def test_both_sides_are_named(self):
        with Cluster(2) as cluster:
            hosts = cluster.hosts.split(",")
            code, _, err = trainer("--ps_hosts", hosts[0])
            self.assertEqual(code, 1)
            self.assertIn("cluster 'psd' with 2 ps tasks", err)  # theirs
            self.assertIn("cluster 'psd' with 1 ps tasks", err)  # ours
            self.assertIn("--ps_hosts must be the same list", err)
            self.assertNotIn("--fresh", err)
            code, _, err = trainer("--ps_hosts", ",".join(reversed(hosts)))
            self.assertEqual(code, 1)
            self.assertIn("/job:ps/task:0", err)
            self.assertIn("/job:ps/task:1", err)
            self.assertIn("--ps_hosts must be the same list", err)


if __name__ == "__main__":
    sys.exit(main(unittest))
