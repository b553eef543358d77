#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 120
"""Signals to programs that serve (psd, pstrain as a ps): which of several end them and how, and what SIGHUP changes."""
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

from cluster import die_with_parent, halt, main, path, plain, run
from daemon import PSD, WAIT_S, Psd

PSTRAIN = path("bin/pstrain")
INHERIT = 'exec 3<&"$0" 4<&"$1"; shift; export LISTEN_FDS=2 LISTEN_PID=$$; exec "$@"'
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


class Ending(unittest.TestCase):
    """SIGTERM and SIGINT: those that come within a second of the first are one with it; a later one ends the task at once."""
    PROGRAMS = ((PSD, ("--drain", "10min", "--lease", "10min")), (PSTRAIN, ()))

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "large.safetensors")
        with open(self.file, "wb") as f:
            header = json.dumps({"large": {"dtype": "U8", "shape": [HELD_BYTES], "data_offsets": [0, HELD_BYTES]}}).encode()
            f.write(struct.pack("<Q", len(header)) + header)
            f.truncate(8 + len(header) + HELD_BYTES)

    def task(self, address, listener, *command, under=(), **kwargs):
        """A ps task whose clients are told that it is at `address`."""
        self.addCleanup(listener.close)
        script = 'exec 3<&%d; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$0" "$@"' % listener.fileno()
        program, *args = [*under, "/bin/bash", "-c", script, *command, "--ps_hosts", address, "--job_name", "ps"]
        task = Psd(*args, program=program, pass_fds=[listener.fileno()], **kwargs)
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

    def test_two_at_once_are_one(self):
        for program, flags in self.PROGRAMS:
            with self.subTest(program=program):
                task, door = self.start(program, *flags)
                halt(task.process.pid)  # so that it finds both
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
        # timeout sends SIGCONT too; a search for leaks at the end, which stops the process by SIGSTOP, would wait for ever where the
        # one meets the other. The other tests have that search
        env = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
        for program, flags in self.PROGRAMS:
            with self.subTest(program=program):
                listener = socket.create_server(("127.0.0.1", 0))
                task = self.task("127.0.0.1:1", listener, program, *flags, under=("timeout", "--preserve-status", "600"), env=env)
                self.assertEqual(task.stop(), 0, task.log)

    def test_pstrain_as_a_ps_ends_by_sighup_unless_it_is_ignored(self):
        for number, at_start in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGTERM, signal.SIG_IGN)):
            def preexec(how=at_start):
                die_with_parent()
                signal.signal(signal.SIGHUP, how)
            listener = socket.create_server(("127.0.0.1", 0))
            task = self.task("127.0.0.1:1", listener, PSTRAIN, preexec=preexec)
            if at_start == signal.SIG_IGN:
                task.process.send_signal(signal.SIGHUP)
                code, _, err = run(path("bin/psctl"), "-t", "%s:%d" % listener.getsockname(), "ping")
                self.assertEqual(code, 0, err)
            self.assertEqual(task.stop(number), 0)
            self.assertTrue(self.drained(task), task.log)


class Reload(unittest.TestCase):
    """SIGHUP to psd: its file is read again."""
    BEFORE = "drain = 20s\nsessions_max = 100\nsession_keep = 3min\nlease = 10s\nrefuse_nonfinite = no\n"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.conf = os.path.join(folder.name, "psd.conf")

    def write(self, text):
        with open(self.conf, "w", encoding="utf-8") as f:
            f.write(text)

    def start(self, *flags):
        psd = Psd(*flags)
        self.addCleanup(psd.__exit__)
        return psd

    def hang_up(self, psd, result="ev=config_read "):
        """The lines that a SIGHUP makes of settings; the last one has `result`."""
        before = len(psd.log)
        psd.process.send_signal(signal.SIGHUP)
        psd.wait_log(result, before)
        return [line for line in psd.log[before:] if "ev=config_" in line]

    def values(self, psd):
        """Of each task, {name: value}."""
        code, out, err = run(path("bin/psctl"), "-t", "%s:%d" % psd.address(), "--json", "config")
        self.assertEqual(code, 0, err)
        return [{row["name"]: row["value"] for row in task["settings"]} for task in json.loads(out)["tasks"]]

    def check(self, psd, tasks, **expected):
        found = [{name: values[name] for name in expected} for values in self.values(psd)]
        self.assertEqual(found, [expected] * tasks)

    def test_live_rows_change_at_all_tasks_flags_win_and_restarts_are_named(self):
        self.write(self.BEFORE)
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        for s in sockets:
            self.addCleanup(s.close)
        spec = "ps=" + ",".join("127.0.0.1:%d" % s.getsockname()[1] for s in sockets)
        psd = Psd("-c", INHERIT, *(str(s.fileno()) for s in sockets), PSD, "--config", self.conf, "--session_keep", "2min", "-c", spec,
                  "--task_index", "0-1", lines=2, program="/bin/bash", pass_fds=[s.fileno() for s in sockets])
        self.addCleanup(psd.__exit__)
        self.check(psd, 2, drain="20s", sessions_max="100", session_keep="2min", lease="10s", refuse_nonfinite="false")
        self.write("drain = 30s\nsessions_max = 50\nsession_keep = 4min\nlease = 12s\n")
        lines = "\n".join(self.hang_up(psd))
        self.check(psd, 2, drain="30s", sessions_max="50", session_keep="2min", lease="10s", refuse_nonfinite="true")
        for task in ("/job:ps/task:0", "/job:ps/task:1"):
            for row in ("name=drain old=20s new=30s", "name=sessions_max old=100 new=50", "name=refuse_nonfinite old=false new=true"):
                self.assertIn(f"ev=config_set task={task} file={self.conf} {row}\n", lines)
        self.assertRegex(lines, r"ev=config_kept file=\S+ name=session_keep in_file=4min msg=.*flag")
        self.assertRegex(lines, r"ev=config_restart file=\S+ name=lease old=10s new=12s msg=.*restart")
        self.assertEqual(lines.count("ev=config_"), 6 + 1 + 1 + 1)
        self.assertIn("ev=config_read file=%s set=3 kept=1 restart=1" % self.conf, lines)
        lines = self.hang_up(psd)  # as long as it is not in force, that is said
        self.assertRegex(lines[0], "ev=config_restart .*name=lease ")
        self.assertIn("set=0 kept=0 restart=1", lines[1])

    def test_one_bad_row_changes_nothing(self):
        self.write(self.BEFORE)
        psd = self.start("--config", self.conf, "--listen", "127.0.0.1:0")
        before = self.values(psd)
        for text, words in (("drain = 30s\nsessions_max = many\n", (":2: sessions_max", "many", "1 to 4096")),
                            ("drain = 30s\nno_such_row = 1\n", (":2: ", "no_such_row")),
                            ("drain = 30s\nlease = 2s\n", ("beat", "lease")),  # not each by itself
                            ("drain = 30s\ndrain = 31s\n", (":2: ", "drain", "line 1"))):
            self.write(text)
            lines = self.hang_up(psd, "ev=config_not_read ")
            self.assertEqual(len(lines), 1, lines)
            for word in words:
                self.assertIn(word, lines[0])
            self.assertEqual(self.values(psd), before)
        os.unlink(self.conf)
        self.assertIn("No such file", self.hang_up(psd, "ev=config_not_read ")[0])
        self.assertEqual(self.values(psd), before)
        self.write(self.BEFORE.replace("20s", "40s"))
        self.assertIn("set=1 kept=0 restart=0", self.hang_up(psd)[-1])
        self.check(psd, 1, drain="40s")

    def test_what_psctl_has_set_stays_until_the_file_says_otherwise(self):
        self.write(self.BEFORE)
        psd = self.start("--config", self.conf, "--listen", "127.0.0.1:0")
        for name, value in (("drain", "50s"), ("log_level", "debug")):
            code, _, err = run(path("bin/psctl"), "-t", "%s:%d" % psd.address(), "config", "set", name, value)
            self.assertEqual(code, 0, err)
        self.hang_up(psd)
        self.check(psd, 1, drain="50s", log_level="debug")
        self.write(self.BEFORE.replace("20s", "25s"))
        self.assertIn("name=drain old=50s new=25s", self.hang_up(psd)[0])
        self.check(psd, 1, drain="25s", log_level="debug")

    def test_the_log_level_may_change(self):
        self.write("log_level = warn\n")
        psd = self.start("--config", self.conf, "--listen", "127.0.0.1:0")
        self.write("log_level = info\n")
        self.assertIn("name=log_level old=warn new=info", self.hang_up(psd)[0])
        self.write("log_level = error\n")
        self.assertIn("name=log_level old=info new=error", self.hang_up(psd)[0])  # the last one that it wants to hear
        self.check(psd, 1, log_level="error")

    @plain("with keys SIGHUP needs no settings file")
    def test_no_file_and_a_pipe(self):
        psd = self.start("--listen", "127.0.0.1:0")
        self.assertIn("without --config", self.hang_up(psd, "ev=config_not_read ")[0])
        psd.connect().close()
        self.assertEqual(psd.stop(), 0)
        reader, writer = os.pipe()
        os.write(writer, b"drain = 20s\n")
        os.close(writer)
        psd = Psd("--config", "/dev/fd/%d" % reader, "--listen", "127.0.0.1:0", pass_fds=[reader])
        self.addCleanup(psd.__exit__)
        os.close(reader)
        self.assertIn("read once", self.hang_up(psd, "ev=config_not_read ")[0])  # it is empty now: that means nothing
        self.check(psd, 1, drain="20s")


if __name__ == "__main__":
    sys.exit(main(unittest))
