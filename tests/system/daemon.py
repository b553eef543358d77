# SPDX-License-Identifier: Apache-2.0
"""One real psd process, or another program that serves, for the Python system tests: its ready lines, its log, its end."""
import os
import re
import signal
import socket
import subprocess
import threading

from cluster import BUILD, die_with_parent, path

PSD = path("bin/psd")
VARIANT = os.path.basename(os.path.normpath(BUILD))
WAIT_S = 600  # for an event that must come; never a measure
PREFIX = ["setarch", "-R"] if VARIANT == "tsan" else []


def environment(extra=None):
    clean = {k: v for k, v in os.environ.items() if k not in ("TF_CONFIG", "LISTEN_FDS", "LISTEN_PID", "PSD_TARGET")}
    clean.update(extra or {})
    return clean


class Psd:
    """A running psd; its standard error is collected by a thread."""

    def __init__(self, *args, program=PSD, env=None, lines=1, preexec=None, **kwargs):
        self.process = subprocess.Popen(PREFIX + [program, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=environment(env), preexec_fn=preexec or die_with_parent, **kwargs)
        self.log = []
        self.news = threading.Condition()
        self.reader = threading.Thread(target=self.collect, daemon=True)
        self.reader.start()
        self.ready = [self.process.stdout.readline().strip() for _ in range(lines)]

    def collect(self):
        for line in self.process.stderr:
            with self.news:
                self.log.append(line.rstrip("\n"))
                self.news.notify_all()

    def wait_log(self, word, start=0):
        """A line from line `start` on has this word."""
        with self.news:
            good = self.news.wait_for(lambda: any(word in line for line in self.log[start:]), WAIT_S)
        assert good, f"no log line with {word!r} in {self.log}"

    def address(self, i=0):
        host, port = re.fullmatch(r"ready: psd://(.*):(\d+)", self.ready[i]).groups()
        return host.strip("[]"), int(port)

    def connect(self, i=0):
        return socket.create_connection(self.address(i), WAIT_S)

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.end()

    def end(self):
        status = self.process.wait(WAIT_S)
        self.reader.join(WAIT_S)
        self.process.stdout.close()
        self.process.stderr.close()
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.end()
