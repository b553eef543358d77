#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 120
"""Signals to programs that serve (psd, pstrain as a ps): which of several end them and how."""
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from cluster import die_with_parent, main, path
from daemon import PSD, WAIT_S, Psd

PSTRAIN = path("bin/pstrain")
HELD_BYTES = 64 << 20  # of an import
PASSED_BYTES = 32 << 20  # far more than the kernel keeps of it: the task has read some


class Door:
    """A port whose connections go on to a task; after PASSED_BYTES of one of them nothing more of it passes. What the task has
    read by then is half a value, and it drains as long as the connection lives."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.upstream = None
        self.full = threading.Event()
        self.sockets = [self.listener]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
                server = socket.create_connection(self.upstream, WAIT_S)
            except OSError:
                return
            server.settimeout(None)
            self.sockets += [client, server]
            for source, sink, limit in ((client, server, PASSED_BYTES), (server, client, None)):
                threading.Thread(target=self.forward, args=(source, sink, limit), daemon=True).start()

    def forward(self, source, sink, limit):
        passed = 0
        try:
            while limit is None or passed < limit:
                data = source.recv(1 << 20)
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(data)
                passed += len(data)
        except OSError:
            return
        self.full.set()

    def close(self):
        for s in self.sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)  # also where a thread is in the middle of it
            except OSError:
                pass
            s.close()


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "large.safetensors")
        with open(self.file, "wb") as f:
            header = json.dumps({"large": {"dtype": "U8", "shape": [HELD_BYTES], "data_offsets": [0, HELD_BYTES]}}).encode()
            f.write(struct.pack("<Q", len(header)) + header)
            f.truncate(8 + len(header) + HELD_BYTES)

    def task(self, address, listener, *command, under=()):
        """A ps task whose clients are told that it is at `address`."""
        self.addCleanup(listener.close)
        script = 'exec 3<&%d; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$0" "$@"' % listener.fileno()
        program, *args = [*under, "/bin/bash", "-c", script, *command, "--ps_hosts", address, "--job_name", "ps"]
        task = Psd(*args, program=program, pass_fds=[listener.fileno()])
        self.addCleanup(task.__exit__)
        return task

    def start(self, program, *flags):
        """A task that is in the middle of taking a value, whose rest does not come; its log says ev=draining once it is to end."""
        door = Door()
        self.addCleanup(door.close)
        own = socket.create_server(("127.0.0.1", 0))
        door.upstream = own.getsockname()
        task = self.task(door.address, own, program, *flags)
        client = subprocess.Popen([path("bin/psctl"), "-t", door.address, "--timeout", "600", "import", "--yes", self.file],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=die_with_parent)
        self.addCleanup(client.wait)
        self.addCleanup(client.kill)
        while not door.full.wait(0.1):
            self.assertIsNone(client.poll(), "psctl import has ended")
        return task, door

    def drained(self, task):
        line, = [line for line in task.log if "ev=ended" in line]
        return "drained=true" in line


class Ending(Case):
    """SIGTERM and SIGINT: those that come within a second of the first are one with it; a later one ends the task at once."""
    PROGRAMS = ((PSD, ("--drain", "10min", "--lease", "10min")), (PSTRAIN, ()))

    def test_two_at_once_are_one(self):
        for program, flags in self.PROGRAMS:
            with self.subTest(program=program):
                task, door = self.start(program, *flags)
                task.process.send_signal(signal.SIGSTOP)  # so that it finds both
                task.process.send_signal(signal.SIGTERM)
                task.process.send_signal(signal.SIGINT)
                task.process.send_signal(signal.SIGCONT)
                task.wait_log("ev=draining")
                door.close()  # what is in progress ends: so does the task
                self.assertEqual(task.end(), 0)
                self.assertTrue(self.drained(task), task.log)

    def test_a_later_one_ends_it_at_once(self):
        for program, flags in self.PROGRAMS:
            with self.subTest(program=program):
                task, _ = self.start(program, *flags)
                started = time.monotonic()
                while task.process.poll() is None:  # it is the one after the second that ends it
                    task.process.send_signal(signal.SIGTERM)
                    try:
                        task.process.wait(0.05)
                    except subprocess.TimeoutExpired:
                        self.assertLess(time.monotonic() - started, WAIT_S)
                self.assertGreaterEqual(time.monotonic() - started, 1.0)
                self.assertEqual(task.end(), 3)
                self.assertFalse(self.drained(task), task.log)

    def test_timeout_sends_two(self):
        for program, flags in self.PROGRAMS:
            with self.subTest(program=program):
                listener = socket.create_server(("127.0.0.1", 0))
                task = self.task("127.0.0.1:1", listener, program, *flags, under=("timeout", "--preserve-status", "600"))
                self.assertEqual(task.stop(), 0, task.log)


if __name__ == "__main__":
    sys.exit(main(unittest))
