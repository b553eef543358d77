#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-transport: plain (it speaks the protocol itself, and is about tasks without keys)
# test-timeout: 120
"""The daemon as its operator and its enemies see it: start, settings, addresses, sockets, signals, hostile bytes.

Real processes on free ports of 127.0.0.1; PSD_BUILD names the build directory.
"""
import fcntl
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from ports import free_port
from pyclient import Client, Closed

import keys
from cluster import SANITIZED, die_with_parent, path
from daemon import PREFIX, PSD, VARIANT, WAIT_S, Psd, environment


def run(*args, env=None):
    """A psd that is expected to end by itself: (status, stdout, stderr)."""
    done = subprocess.run(PREFIX + [PSD, *args], capture_output=True, text=True, env=environment(env), timeout=WAIT_S, check=False)
    return done.returncode, done.stdout, done.stderr


def read_to_end(connection):
    """Bytes until the peer's end; fails when it does not come."""
    connection.settimeout(WAIT_S)
    received = b""
    while True:
        try:
            more = connection.recv(65536)
        except ConnectionResetError:
            return received
        if not more:
            return received
        received += more


def serves(connection):
    """Its HELLO is answered (False: it is closed instead); once for a connection. Waiting for nothing to happen would prove nothing."""
    connection.settimeout(WAIT_S)
    try:
        Client(connection).hello()
    except (Closed, ConnectionError):
        return False
    return True


def listening(address="127.0.0.1", family=socket.AF_INET):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.bind((address, 0) if family != socket.AF_UNIX else address)
    s.listen(16)
    return s


class Directory(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="psd-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.dir, name)

    def file(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        return self.path(name)

    def refused(self, *args, words=(), status=2, **kwargs):
        code, out, err = run(*args, **kwargs)
        self.assertEqual(code, status, err)
        self.assertEqual(out, "")
        for word in words:
            self.assertIn(word, err)
        self.assertTrue(err.startswith("psd: "), err)
        self.assertEqual(err.count("\n"), 1, err)


class Start(Directory):
    def test_ready_line_has_the_real_port_and_the_port_serves(self):
        with Psd("--listen", "127.0.0.1:0") as psd:
            host, port = psd.address()
            self.assertEqual(host, "127.0.0.1")
            self.assertGreater(port, 0)
            with psd.connect() as c:
                self.assertTrue(serves(c))
            self.assertEqual(psd.stop(), 0)

    def test_without_flags_it_is_at_port_2222(self):
        try:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", 2222))
        except OSError:
            self.skipTest("port 2222 is in use on this machine")
        with Psd() as psd:
            self.assertEqual(psd.ready, ["ready: psd://127.0.0.1:2222"])

    def test_help_and_version(self):
        code, out, err = run("--help")
        self.assertEqual((code, err), (0, ""))
        for name in ("cluster", "ps_hosts", "worker_hosts", "job_name", "task_index", "listen", "unix_mode", "insecure_any_peer",
                     "memory_budget", "lease", "beat", "hello_deadline", "drain", "sessions_max", "session_keep", "log_level",
                     "cluster_name", "refuse_nonfinite", "config", "version", "help"):
            self.assertRegex(out, rf"--(\[no-\])?{name}\b")
        code, out, err = run("--version")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"^psd \d+\.\d+\.\d+\n$")

    def test_ipv6(self):
        try:
            listening("::1", socket.AF_INET6).close()
        except OSError:
            self.skipTest("no IPv6 loopback here")
        with Psd("--listen", "[::1]:0") as psd:
            self.assertTrue(psd.ready[0].startswith("ready: psd://[::1]:"))
            with psd.connect() as c:
                self.assertTrue(serves(c))

    def test_several_tasks_in_one_process(self):
        ports = [free_port() for _ in range(3)]
        spec = "ps=" + ",".join(f"127.0.0.1:{p}" for p in ports)
        with Psd("--cluster", spec, "--task_index", "0-2", lines=3) as psd:
            self.assertEqual(psd.ready, [f"ready: psd://127.0.0.1:{p}" for p in ports])
            for i in range(3):
                with psd.connect(i) as c:
                    self.assertTrue(serves(c))
            self.assertEqual(psd.stop(), 0)
        with Psd("--cluster", spec, "--task_index", "0,2", "--listen", "127.0.0.1:0,127.0.0.1:0", lines=2) as psd:
            self.assertEqual(len(set(psd.ready)), 2)
            self.assertEqual(psd.stop(), 0)

    @unittest.skipUnless(VARIANT == "release", "memory is measured in the release build")
    def test_idle_memory(self):
        with Psd("--listen", "127.0.0.1:0") as psd:
            with open(f"/proc/{psd.process.pid}/status", encoding="utf-8") as status:
                rss_kib = int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1))
            self.assertLessEqual(rss_kib, 3.5 * 1024)

    @unittest.skipIf(SANITIZED, "a sanitizer loads what its runtime library wants")
    def test_libraries(self):
        """What is not needed is not loaded: OpenSSL without keys, libm without an optimizer that computes powers."""
        with tempfile.TemporaryDirectory() as folder:
            file = keys.write(os.path.join(folder, "psd.keys"), keys.Key("ps", "ps"))
            for flags, loaded in (((), set()), (("--key_file", file), {"libssl", "libcrypto"})):
                with Psd("--listen", "127.0.0.1:0", *flags) as psd:
                    with open(f"/proc/{psd.process.pid}/maps", encoding="utf-8") as maps:
                        libraries = set(re.findall(r"/(lib\w+)[-.0-9]*\.so", maps.read()))
                    self.assertIn("libuv", libraries)
                    self.assertEqual(libraries & {"libssl", "libcrypto", "libm"}, loaded)

    def test_tf_config(self):
        port, other = free_port(), free_port()
        config = json.dumps({"cluster": {"ps": [f"127.0.0.1:{other}", f"127.0.0.1:{port}"], "worker": ["127.0.0.1:1"]},
                             "task": {"type": "ps", "index": 1}})
        with Psd(env={"TF_CONFIG": config}) as psd:
            self.assertEqual(psd.ready, [f"ready: psd://127.0.0.1:{port}"])
        with Psd("--task_index", "0", env={"TF_CONFIG": config}) as psd:  # a flag counts more
            self.assertEqual(psd.ready, [f"ready: psd://127.0.0.1:{other}"])

    def test_jobs_without_tasks(self):
        """In each form of a cluster; a ps job without tasks has no task that this could be."""
        at = f"127.0.0.1:{free_port()}"
        for args in (["--cluster", json.dumps({"ps": [at], "worker": []})], ["--cluster", f"worker=;ps={at}"],
                     ["--cluster", str({"ps": {0: at}, "worker": {}})], ["--ps_hosts", at, "--worker_hosts", ""]):
            with self.subTest(args=args), Psd(*args, "--job_name", "ps") as psd:
                self.assertEqual(psd.ready, [f"ready: psd://{at}"])
        config = {"cluster": {"ps": [at], "worker": []}, "task": {"type": "ps", "index": 0}}
        with Psd(env={"TF_CONFIG": json.dumps(config)}) as psd:
            self.assertEqual(psd.ready, [f"ready: psd://{at}"])
        self.refused("--cluster", f"ps=;worker={at}", "--job_name", "ps", words=["job 'ps' has no tasks"])
        self.refused("--cluster", "ps=;worker=", words=["it has no tasks"])

    def test_configuration_file_and_precedence(self):
        conf = self.file("psd.conf", "# a comment\nlisten = 127.0.0.1:1\nhello-deadline = 250ms\n")
        with Psd("--config", conf, "--listen", "127.0.0.1:0") as psd:
            self.assertNotEqual(psd.address()[1], 1)
            with psd.connect() as c:  # the file's hello_deadline is in force
                self.assertIn(b"no HELLO in time", read_to_end(c))
        config = json.dumps({"cluster": {"ps": ["127.0.0.1:1"]}})
        flag_port = free_port()
        with Psd("--ps_hosts", f"127.0.0.1:{flag_port}", env={"TF_CONFIG": config}) as psd:
            self.assertEqual(psd.address()[1], flag_port)

    def test_nothing_is_linked_that_computes(self):
        """BLAS and CUDA come with plugins, opened by who trains; neither psd nor psctl nor the library itself links them."""
        build = os.path.dirname(os.path.dirname(PSD))
        for name in ("bin/psd", "bin/psctl", "bin/pstrain", "lib/libpsworker.so"):
            done = subprocess.run(["readelf", "-d", os.path.join(build, name)], stdout=subprocess.PIPE, check=True, text=True)
            needed = re.findall(r"NEEDED.*\[(.*)\]", done.stdout)
            self.assertIn("libc.so.6", needed)
            self.assertFalse([n for n in needed if re.search("blas|cuda|cublas|gomp|gfortran", n)], name)


class ReadyAndServing(Directory):
    """`ready:` is what a task knows alone, `serving:` what it waits for."""

    def start(self, spec, task, *flags):
        psd = Psd("--cluster", spec, "--job_name", "ps", "--task_index", str(task), *flags)
        self.addCleanup(psd.__exit__)
        return psd

    def next_line(self, psd):
        return psd.process.stdout.readline().strip()

    def test_alone(self):
        port = free_port()
        psd = self.start("ps=127.0.0.1:%d" % port, 0)
        self.assertEqual(psd.ready, ["ready: psd://127.0.0.1:%d" % port])
        self.assertEqual(self.next_line(psd), "serving: psd://127.0.0.1:%d" % port)

    def test_alone_and_it_does_not_begin(self):
        """It knows so before it says that it is ready."""
        psd = self.start("ps=127.0.0.1:%d" % free_port(), 0, "--checkpoint_dir", self.dir, "--restore", "latest")
        self.assertEqual(psd.ready, [""])
        self.assertEqual(psd.process.wait(600), 1)
        psd.reader.join(600)
        self.assertIn("ev=start_refused", "\n".join(psd.log))
        self.assertIn("psd: a task ended before it was ready: its log line start_refused says why it does not begin", psd.log)
        self.assertNotIn("last checkpoint", "\n".join(psd.log))
        self.assertNotIn("last_checkpoint_lost", "\n".join(psd.log))

    def test_ready_waits_for_nobody_and_serving_does(self):
        ports = [free_port(), free_port()]
        spec = "ps=127.0.0.1:%d,127.0.0.1:%d" % tuple(ports)
        one = self.start(spec, 1)
        self.assertEqual(one.ready, ["ready: psd://127.0.0.1:%d" % ports[1]])
        one.wait_log("ev=directory_unreachable")
        self.assertEqual(select.select([one.process.stdout], [], [], 0)[0], [])
        zero = self.start(spec, 0)
        self.assertEqual(zero.ready, ["ready: psd://127.0.0.1:%d" % ports[0]])
        for psd, port in zip((zero, one), ports):
            self.assertEqual(self.next_line(psd), "serving: psd://127.0.0.1:%d" % port)

    def test_several_do_not_begin_until_they_are_told_to(self):
        ports = [free_port(), free_port()]
        spec = "ps=127.0.0.1:%d,127.0.0.1:%d" % tuple(ports)
        tasks = [self.start(spec, i, "--checkpoint_dir", self.dir, "--restore", "latest") for i in range(2)]
        tasks[0].wait_log("ev=start_refused")
        for psd, port in zip(tasks, ports):
            self.assertEqual(psd.ready, ["ready: psd://127.0.0.1:%d" % port])
        tasks[1].wait_log("ev=directory_connected")
        subprocess.run([path("bin/psctl"), "-t", "127.0.0.1:%d" % ports[1], "vars"], check=False, capture_output=True, timeout=600)
        self.assertEqual(select.select([psd.process.stdout for psd in tasks], [], [], 0)[0], [])
        subprocess.run([path("bin/psctl"), "-t", "127.0.0.1:%d" % ports[0], "config", "set", "restore", "auto"], check=True, timeout=600)
        for psd, port in zip(tasks, ports):
            self.assertEqual(self.next_line(psd), "serving: psd://127.0.0.1:%d" % port)

    def test_tasks_that_do_not_begin_lose_nothing(self):
        """There is no last checkpoint of them."""
        for restore in ("latest", "99999"):
            spec = "ps=127.0.0.1:%d,127.0.0.1:%d" % (free_port(), free_port())
            tasks = [self.start(spec, i, "--checkpoint_dir", self.path(restore), "--restore", restore) for i in range(2)]
            tasks[0].wait_log("ev=start_refused")
            tasks[1].wait_log("ev=directory_connected")
            for psd in tasks:
                psd.process.send_signal(signal.SIGTERM)
            for psd in tasks:
                self.assertEqual(psd.end(), 0, psd.log)
                self.assertNotIn("last_checkpoint_lost", "\n".join(psd.log))


class Refusals(Directory):
    def test_bad_flags(self):
        spec = "ps=127.0.0.1:1,127.0.0.1:2;worker=127.0.0.1:3"
        for args, words in (
                (["--no-such-flag"], ["no-such-flag"]),
                (["--taskindex", "0"], ["taskindex", "task_index"]),
                (["extra"], ["extra"]),
                (["--lease"], ["lease"]),
                (["--lease", "soon"], ["lease", "soon"]),
                (["--lease", "1ms"], ["lease", "100ms"]),
                (["--beat", "20s"], ["beat", "lease"]),
                (["--drain", "-1"], ["drain"]),
                (["--sessions_max", "0"], ["sessions_max", "1"]),
                (["--sessions_max", "4097"], ["sessions_max", "4096"]),
                (["--memory_budget", "lots"], ["memory_budget", "lots"]),
                (["--log_level", "loud"], ["log_level", "loud", "debug"]),
                (["--unix_mode", "0999"], ["unix_mode", "0999", "octal"]),
                (["--task_index", "1"], ["task_index 1", "cluster"]),
                (["--task_index", "x"], ["task_index", "'x'", "0-3"]),
                (["--task_index", "3-1"], ["task_index", "3-1"]),
                (["--task_index", "0,0", "-c", spec], ["task 0 is there twice"]),
                (["--task_index", "99999"], ["task_index", "99999"]),
                (["-c", spec, "--task_index", "2"], ["task_index 2", "'ps'", "0 to 1"]),
                (["-c", spec, "--job_name", "chief"], ["'chief'", "ps, worker"]),
                (["-c", spec, "--ps_hosts", "127.0.0.1:1"], ["twice", "--cluster", "--ps_hosts"]),
                (["-c", "ps"], ["ps"]),
                (["-c", ""], ["--cluster is empty", "leave it out"]),
                (["--ps_hosts", "", "--worker_hosts", ""], ["--ps_hosts is empty", "leave it out"]),
                (["-c", "ps=127.0.0.1:0"], ["127.0.0.1:0"]),
                (["-c", "ps=127.0.0.1:1,127.0.0.1:1"], ["127.0.0.1:1"]),
                (["-c", "ps=127.0.0.1:70000"], ["70000"]),
                (["--cluster_name", ""], ["cluster_name"]),
                (["--listen", "127.0.0.1:x"], ["127.0.0.1:x"]),
                (["--listen", "[::1:0"], ["[::1:0"]),
                (["--listen", "127.0.0.1:0,,127.0.0.1:0"], ["''"]),
                (["--listen", "127.0.0.1:0", "-c", spec, "--task_index", "0-1"], ["--listen", "2 tasks"]),
                (["--listen", "192.0.2.1:0", "--insecure_any_peer"], ["192.0.2.1:0", "not an address of this machine"]),
                (["--config", "/no/such/psd.conf"], ["/no/such/psd.conf", "No such file"]),
                (["--config", "/"], ["configuration file /"]),
        ):
            with self.subTest(args=args):
                self.refused(*args, words=words)

    def test_bad_configuration_files(self):
        for text, words in (
                ("no_such_key = 1\n", [":1", "no_such_key"]),
                ("lease = 10s\nlease = 11s\n", [":2", "lease"]),
                ("\nlease = never\n", [":2", "lease", "never"]),
                ("config = other.conf\n", [":1", "config"]),
                ("[server]\nlease = 10s\n", [":1"]),
                ("lease\n", [":1"]),
                ("ps_hosts = " + "x" * 300000 + "\n", [":1"]),
        ):
            with self.subTest(text=text[:40]):
                self.refused("--config", self.file("psd.conf", text), words=["psd.conf", *words])

    def test_bad_tf_config(self):
        for text, words in (("{", []), ('{"cluster": 7}', ["cluster"]), ('{"task": {"type": "ps", "index": 0}}', ["cluster"]),
                            ('{"cluster": {"ps": ["127.0.0.1:1"]}, "task": {"type": "ps", "index": 4}}', ["4"])):
            with self.subTest(text=text):
                self.refused(env={"TF_CONFIG": text}, words=["TF_CONFIG", *words])

    def test_addresses_that_other_machines_reach(self):
        for args in (["--listen", "0.0.0.0:0"], ["--listen", "[::]:0"], ["--listen", "192.0.2.1:0"], ["-c", "ps=192.0.2.1:2222"]):
            with self.subTest(args=args):
                self.refused(*args, words=["TLS", "--insecure_any_peer", "127.0.0.1"])
        with Psd("--listen", "0.0.0.0:0", "--insecure_any_peer") as psd:
            self.assertTrue(psd.ready[0].startswith("ready: psd://0.0.0.0:"))
            self.assertEqual(psd.stop(), 0)

    def test_host_name_that_does_not_resolve(self):
        self.refused("--listen", "no-such-host.invalid:2222", words=["no-such-host.invalid", "resolve"], status=1)

    def test_port_in_use(self):
        with listening() as s:
            address = f"127.0.0.1:{s.getsockname()[1]}"
            self.refused("--listen", address, words=[address, f"in use by another program: process {os.getpid()} (", "listens there"], status=1)
            # the second of two tasks: the first, which serves already, is ended again
            spec = f"ps=127.0.0.1:{free_port()},{address}"
            code, _, err = run("-c", spec, "--task_index", "0-1", "--log_level", "off")
            self.assertEqual(code, 1)
            self.assertIn(address, err)


    def test_checkpoint_dir_of_another(self):
        """The process that has it is named; a killed one leaves no lock."""
        flags = ("--listen", "127.0.0.1:0", "--checkpoint_dir", self.path("saved"))
        with Psd(*flags) as psd:
            self.assertEqual(os.stat(self.path("saved/ps-0")).st_mode & 0o777, 0o700)
            self.refused(*flags, status=1, words=["checkpoint_dir", "saved/ps-0 is in use by process",
                                                  f"{psd.process.pid} (/job:ps/task:0 of cluster psd)", "another checkpoint_dir"])
            psd.process.kill()
            psd.process.wait()
        with Psd(*flags) as psd:
            self.assertEqual(psd.stop(), 0)
        with open(self.path("saved/ps-0/lock"), "w") as dying:  # as one that was killed, and that the system is not done with
            fcntl.flock(dying, fcntl.LOCK_EX)
            gone = threading.Timer(0.5, fcntl.flock, (dying, fcntl.LOCK_UN))
            gone.start()
            with Psd(*flags) as psd:
                gone.join()
                self.assertEqual(psd.stop(), 0, psd.log)
        with open(self.path("saved/ps-0/lock"), "w") as dying, listening() as s:  # it has its address still, and a little longer
            fcntl.flock(dying, fcntl.LOCK_EX)
            unlocks = threading.Timer(0.5, fcntl.flock, (dying, fcntl.LOCK_UN))
            unlocks.start()
            with Psd("--listen", f"127.0.0.1:{s.getsockname()[1]}", *flags[2:], lines=0) as psd:
                unlocks.join()
                psd.wait_log("ev=address_in_use")
                s.close()
                self.assertRegex(psd.process.stdout.readline(), "^ready: ")
                self.assertEqual(psd.stop(), 0, psd.log)
        with listening() as s:  # somebody who stays
            code, out, err = run("--listen", f"127.0.0.1:{s.getsockname()[1]}", *flags[2:])
            self.assertEqual((code, out), (1, ""))
            self.assertRegex(err.splitlines()[-1], f"^psd: 127.0.0.1:{s.getsockname()[1]} is in use by another program")
        self.refused("--listen", "127.0.0.1:0", "--checkpoint_dir", self.path("no/saved"), status=1, words=["checkpoint_dir", "no/saved", "No such"])


def connections_of(port):
    """How many lines of the system's list have the port here."""
    with open("/proc/net/tcp", encoding="utf-8") as f:
        return sum(line.split()[1].endswith(":%04X" % port) for line in f.readlines()[1:])


class PortOfAConnection(Directory):
    """The system has given the port to a client for its end of a connection. psd says so, and waits some seconds for its end."""

    def setUp(self):
        super().setUp()
        server = listening()
        self.addCleanup(server.close)
        self.client = socket.create_connection(server.getsockname(), WAIT_S)
        while connections_of(self.client.getsockname()[1]) != 1:  # the system gives a port to several connections, also ended ones
            self.client.close()
            server.accept()[0].close()
            self.client = socket.create_connection(server.getsockname(), WAIT_S)
        self.addCleanup(self.client.close)
        self.far = "127.0.0.1:%d" % server.getsockname()[1]
        self.address = "127.0.0.1:%d" % self.client.getsockname()[1]
        self.accepted = server.accept()[0]
        self.addCleanup(self.accepted.close)

    def test_that_ends(self):
        with Psd("--listen", self.address, lines=0) as psd:
            psd.wait_log("ev=address_in_use")
            self.assertIn(f"{self.address} is in use: it is an end of a connection with {self.far} (ESTABLISHED) of process {os.getpid()} (",
                          psd.log[0])
            self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # the system forgets it at once
            self.client.close()
            self.assertEqual(psd.process.stdout.readline(), f"ready: psd://{self.address}\n")
            self.assertEqual(psd.stop(), 0)

    def test_that_no_list_shows(self):
        """A port that is bound stands in no list of the system, like one whose holder has ended since bind() failed."""
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            address = "127.0.0.1:%d" % holder.getsockname()[1]
            with Psd("--listen", address, lines=0) as psd:
                psd.wait_log("ev=address_in_use")
                holder.close()
                self.assertEqual(psd.process.stdout.readline(), f"ready: psd://{address}\n")
                self.assertEqual(psd.stop(), 0)

    def test_that_is_remembered(self):
        self.client.close()
        self.accepted.recv(1)
        self.accepted.close()
        code, out, err = run("--listen", self.address)
        self.assertEqual((code, out), (1, ""))
        self.assertRegex(err.splitlines()[-1], f"^psd: {self.address} is in use: a connection with {self.far} has ended there, .*TIME_WAIT")

    def test_of_our_client(self):
        """It keeps nobody from the port."""
        with Psd("--listen", "127.0.0.1:0") as psd:
            ports = set()
            while not ports:
                client = subprocess.Popen([path("bin/psctl"), "-t", "%s:%d" % psd.address(), "status", "--watch", "1h"],
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=die_with_parent, env=environment())
                self.addCleanup(lambda client=client: (client.kill(), client.communicate()))
                client.stdout.readline()
                with open("/proc/net/tcp", encoding="utf-8") as f:
                    rows = [line.split() for line in f.readlines()[1:]]
                here = [int(row[1].split(":")[1], 16) for row in rows]
                ours = [port for port, row in zip(here, rows) if row[3] == "01" and row[2].endswith(":%04X" % psd.address()[1])]
                self.assertGreater(len(ours), 0)
                ports = {port for port in ours if here.count(port) == 1}  # the system gives a port to connections of others as well
            for port in ports:
                with Psd("--listen", "127.0.0.1:%d" % port) as second:
                    self.assertEqual(second.stop(), 0, second.log)


class UnixSockets(Directory):
    def connect(self, path):
        c = socket.socket(socket.AF_UNIX)
        c.settimeout(WAIT_S)
        c.connect(path)
        return c

    def test_serves_with_the_mode_asked_for_and_removes_its_file(self):
        path = self.path("s")
        for flags, mode in (([], 0o600), (["--unix_mode", "0666"], 0o666)):
            with Psd("--listen", f"127.0.0.1:0,unix:{path}", *flags) as psd:
                info = os.stat(path)
                self.assertTrue(stat.S_ISSOCK(info.st_mode))
                self.assertEqual(stat.S_IMODE(info.st_mode), mode)
                with self.connect(path) as c:
                    self.assertTrue(serves(c))
                with psd.connect() as c:
                    self.assertTrue(serves(c))
                self.assertEqual(psd.stop(), 0)
            self.assertFalse(os.path.exists(path))

    def test_only_a_unix_socket(self):
        path = self.path("s")
        with Psd("-c", f"ps=unix:{path}") as psd:
            self.assertEqual(psd.ready, [f"ready: unix:{path}"])
            with self.connect(path) as c:
                self.assertTrue(serves(c))

    def test_stale_file_is_replaced_living_one_is_not(self):
        path = self.path("s")
        s = listening(path, socket.AF_UNIX)
        self.refused("-c", f"ps=unix:{path}", words=[path, "in use"], status=1)
        s.close()  # the file stays: stale
        self.assertTrue(os.path.exists(path))
        with Psd("-c", f"ps=unix:{path}") as psd:
            with self.connect(path) as c:
                self.assertTrue(serves(c))
            self.assertEqual(psd.stop(), 0)

    def test_killed_psd_leaves_a_stale_file_and_the_next_one_starts(self):
        path = self.path("s")
        with Psd("-c", f"ps=unix:{path}") as psd:
            psd.stop(signal.SIGKILL)
        self.assertTrue(os.path.exists(path))
        with Psd("-c", f"ps=unix:{path}") as psd:
            self.assertEqual(psd.stop(), 0)

    def test_other_files_are_left_alone(self):
        path = self.file("s", "precious")
        self.refused("-c", f"ps=unix:{path}", words=[path], status=1)
        with open(path, encoding="utf-8") as f:
            self.assertEqual(f.read(), "precious")
        self.refused("-c", f"ps=unix:{self.path('no/such/dir/s')}", words=["directory does not exist"])

    def test_path_length(self):
        longest = self.path("s" * (107 - len(self.dir) - 1))
        self.assertEqual(len(longest), 107)
        with Psd("-c", f"ps=unix:{longest}") as psd:
            with self.connect(longest) as c:
                self.assertTrue(serves(c))
        self.refused("--listen", f"unix:{longest}s", words=["107"])


class InheritedSockets(Directory):
    def start(self, sockets, *args, pid="$$"):
        """psd with the sockets as descriptors 3, 4, ..."""
        script = f'LISTEN_FDS={len(sockets)} LISTEN_PID={pid} exec "$@"'
        numbers = [s.fileno() for s in sockets]
        self.assertTrue(all(n > 2 for n in numbers))

        def preexec():
            for i, fd in enumerate(numbers):
                os.dup2(fd, 200 + i)
            for i in range(len(numbers)):
                os.dup2(200 + i, 3 + i)

        return subprocess.Popen(["sh", "-c", script, "sh", *PREFIX, PSD, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, preexec_fn=preexec, close_fds=False)

    def end(self, process, number=signal.SIGTERM):
        process.send_signal(number)
        _, err = process.communicate(timeout=WAIT_S)
        return process.returncode, err

    def test_one_task_takes_all_of_them(self):
        with listening() as a, listening() as b:
            process = self.start([a, b])
            self.assertEqual(process.stdout.readline().strip(), f"ready: psd://127.0.0.1:{a.getsockname()[1]}")
            for s in (a, b):
                with socket.create_connection(s.getsockname(), WAIT_S) as c:
                    self.assertTrue(serves(c))
            self.assertEqual(self.end(process)[0], 0)

    def test_several_tasks_take_one_each_in_order(self):
        with listening() as a, listening() as b:
            ports = [s.getsockname()[1] for s in (a, b)]
            spec = "ps=" + ",".join(f"127.0.0.1:{p}" for p in ports)
            process = self.start([a, b], "-c", spec, "--task_index", "0-1")
            lines = [process.stdout.readline().strip() for _ in range(2)]
            self.assertEqual(lines, [f"ready: psd://127.0.0.1:{p}" for p in ports])
            self.assertEqual(self.end(process)[0], 0)

    def test_variables_for_another_process_do_not_count(self):
        with listening() as a:
            process = self.start([a], "--listen", "127.0.0.1:0", pid="1")
            line = process.stdout.readline().strip()
            self.assertNotEqual(line, f"ready: psd://127.0.0.1:{a.getsockname()[1]}")
            self.assertEqual(self.end(process)[0], 0)

    def failure(self, process, *words):
        out, err = process.communicate(timeout=WAIT_S)
        self.assertEqual((process.returncode, out), (2, ""), err)
        for word in words:
            self.assertIn(word, err)

    def test_refusals(self):
        with listening("0.0.0.0") as wide:
            self.failure(self.start([wide]), "TLS", "--insecure_any_peer")
        with socket.socket() as idle:
            self.failure(self.start([idle]), "descriptor 3", "listening")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            self.failure(self.start([datagrams]), "descriptor 3")
        with listening() as a:
            self.failure(self.start([a], "--listen", "127.0.0.1:0"), "LISTEN_FDS", "--listen")
            self.failure(self.start([a], "-c", "ps=127.0.0.1:1,127.0.0.1:2", "--task_index", "0-1"), "LISTEN_FDS", "2 tasks")
            self.failure(self.start([a], pid="nonsense"), "LISTEN_PID", "nonsense")


class Signals(Directory):
    def test_sigterm_and_sigint_end_with_0_and_tell_the_peers(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with Psd("--listen", "127.0.0.1:0") as psd:
                with psd.connect() as c:
                    self.assertTrue(serves(c))
                    psd.process.send_signal(number)
                    self.assertEqual(read_to_end(c), b"")
                self.assertEqual(psd.end(), 0)
                self.assertTrue(any("ev=ended" in line and "drained=true" in line for line in psd.log), psd.log)

    def test_a_peer_that_does_not_leave_cannot_hold_it(self):
        with Psd("--listen", "127.0.0.1:0", "--drain", "10min") as psd:
            with psd.connect() as c:
                self.assertTrue(serves(c))
                self.assertEqual(psd.stop(), 0)  # c stays open all the time

    def test_sigpipe_and_sigxfsz_do_not_end_it(self):
        with Psd("--listen", "127.0.0.1:0") as psd:
            psd.process.send_signal(signal.SIGPIPE)
            psd.process.send_signal(signal.SIGXFSZ)
            with psd.connect() as c:
                self.assertTrue(serves(c))
            self.assertEqual(psd.stop(), 0)

    def test_it_serves_on_when_nobody_reads_its_output(self):
        reader, writer = os.pipe()
        process = subprocess.Popen(PREFIX + [PSD, "--listen", "127.0.0.1:0", "--hello_deadline", "50ms"], stdout=subprocess.PIPE,
                                   stderr=writer, text=True)
        os.close(writer)
        port = int(process.stdout.readline().rpartition(":")[2])
        process.stdout.close()
        os.close(reader)
        for _ in range(3):  # each makes a log line
            with socket.create_connection(("127.0.0.1", port), WAIT_S) as c:
                read_to_end(c)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(WAIT_S), 0)


class HostileBytes(Directory):
    HELLO_START = b"\x50\x73\x01\x01" + bytes(36)

    def survives(self, psd):
        with psd.connect() as c:
            self.assertTrue(serves(c))
        self.assertIsNone(psd.process.poll())

    def test_other_protocols_are_closed_at_once(self):
        with Psd("--listen", "127.0.0.1:0", "--hello_deadline", "10min") as psd:
            for request in (b"GET / HTTP/1.1\r\nHost: psd\r\nUser-Agent: x\r\n\r\n",
                            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64), b"\x00" * 64, b"\xff" * 4096,
                            os.urandom(65536)):
                with psd.connect() as c:
                    try:
                        c.sendall(request)
                    except (BrokenPipeError, ConnectionResetError):
                        pass
                    self.assertLess(len(read_to_end(c)), 4096)
            self.survives(psd)

    def test_headers_cut_anywhere(self):
        with Psd("--listen", "127.0.0.1:0") as psd:
            for cut in range(len(self.HELLO_START)):
                with psd.connect() as c:
                    c.sendall(self.HELLO_START[:cut])
            self.survives(psd)

    def test_a_hello_that_never_ends_meets_the_deadline(self):
        with Psd("--listen", "127.0.0.1:0", "--hello_deadline", "300ms") as psd:
            with psd.connect() as c:
                c.settimeout(0.2)
                sent = 0
                closed = False
                while not closed and sent < len(self.HELLO_START):
                    try:
                        closed = c.recv(4096) == b""
                    except TimeoutError:  # one byte every 200 ms: never silent for 300 ms, and done after 8 s only
                        c.sendall(self.HELLO_START[sent:sent + 1])
                        sent += 1
                    except ConnectionResetError:
                        closed = True
                self.assertTrue(closed)
                self.assertLess(sent, len(self.HELLO_START))
            psd.wait_log("ev=hello_deadline")
            with psd.connect() as c:  # and one that says nothing at all
                self.assertIn(b"no HELLO in time", read_to_end(c))

    def test_out_of_descriptors(self):
        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
        with Psd("--listen", "127.0.0.1:0", "--hello_deadline", "10min", preexec=few) as psd:
            connections = [psd.connect() for _ in range(60)]
            psd.wait_log("ev=accept_failed")
            self.assertTrue(serves(connections[0]))
            self.assertEqual(read_to_end(connections[-1]), b"")  # told, not left hanging
            with open(f"/proc/{psd.process.pid}/stat", encoding="utf-8") as f:
                ticks = sum(map(int, f.read().rpartition(")")[2].split()[11:13]))
            started = time.monotonic()
            self.assertEqual(select.select([connections[1]], [], [], 0.5)[0], [])  # that it does nothing is no event
            with open(f"/proc/{psd.process.pid}/stat", encoding="utf-8") as f:
                more = sum(map(int, f.read().rpartition(")")[2].split()[11:13]))
            spent_s = (more - ticks) / os.sysconf("SC_CLK_TCK")
            self.assertLess(spent_s, 0.8 * (time.monotonic() - started), "it spins")
            self.assertTrue(serves(connections[1]))
            for c in connections:
                c.close()
            psd_is_back = False
            for _ in range(100):
                with psd.connect() as c:
                    psd_is_back = serves(c)
                if psd_is_back:
                    break
            self.assertTrue(psd_is_back)
            self.assertEqual(psd.stop(), 0)

    def test_more_connections_than_it_takes_wait_their_turn(self):
        with Psd("--listen", "127.0.0.1:0", "--hello_deadline", "10min", "--sessions_max", "1") as psd:
            connections = [psd.connect() for _ in range(65 + 5)]
            psd.wait_log("ev=connections_full task=/job:ps/task:0 connections=65 ")
            last = connections.pop()
            last.sendall(b"GET / HTTP/1.1\r\nHost: psd\r\nUser-Agent: x\r\n\r\n")
            for c in connections:
                c.close()
            read_to_end(last)
            last.close()
            self.survives(psd)
            self.assertEqual(psd.stop(), 0)


if __name__ == "__main__":
    outcome = unittest.main(exit=False, verbosity=1).result
    bad = min(len(outcome.failures) + len(outcome.errors), outcome.testsRun)  # a case may have several
    for test, reason in outcome.skipped:
        print(f"skipped: {test}: {reason}")
    print(f"{outcome.testsRun - bad - len(outcome.skipped)} passed, {bad} failed, {len(outcome.skipped)} skipped", flush=True)
    sys.exit(1 if bad else 0)
