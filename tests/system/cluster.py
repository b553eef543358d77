# SPDX-License-Identifier: Apache-2.0
"""Real psd processes for the Python system tests: a cluster on free ports of 127.0.0.1, each task with an inherited socket."""
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from ports import free_port, free_ports  # pylint: disable=unused-import

BUILD = os.environ.get("PSD_BUILD", "build/release")
READY_S = 60
SECURE = "PSD_KEY_FILE" in os.environ  # make check TRANSPORT=tls: all programs hold keys
AS_WORKER = {"PSD_KEY_FILE": os.environ["PSD_KEY_FILE"] + ".worker"} if SECURE else {}  # environment of a program with a worker's rights
SANITIZED = any(word in BUILD for word in ("asan", "tsan"))
CREEP_CPU_S = 0.01


def path(name):
    return os.path.abspath(os.path.join(BUILD, name))


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def pass_on(stream, lines, shows):
    with stream:
        for line in stream:
            lines.append(line)
            if shows(line):
                sys.stderr.write(line)


class Cluster:
    """ps tasks, and worker tasks that serve; `with Cluster(2) as c:` starts all and kills what is left. Tasks from count on are
    the workers."""

    def __init__(self, count, more_jobs="", workers=0):
        self.sockets = []
        for _ in range(count + workers):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", 0))
            s.listen(64)
            self.sockets.append(s)
        addresses = ["127.0.0.1:%d" % s.getsockname()[1] for s in self.sockets]
        self.addresses, self.worker_addresses = addresses[:count], addresses[count:]
        self.hosts = ",".join(self.addresses)
        self.spec = "ps=" + self.hosts + (";worker=" + ",".join(self.worker_addresses) if workers else "") + more_jobs
        self.tasks = [None] * (count + workers)
        self.readers = list(self.tasks)
        self.said = list(self.tasks)  # by each: lines on stderr, which go to ours as well where shows() says so

    def command(self, i):
        """Program and flags of task i of all."""
        job, index = ("ps", i) if i < len(self.addresses) else ("worker", i - len(self.addresses))
        return [path("bin/psd"), "--log_level", "warn", "--job_name", job, "--task_index", str(index)]

    def shows(self, line):  # pylint: disable=unused-argument
        """Does this line of a task go to our standard error?"""
        return True

    def start(self, i, *flags):
        fd = self.sockets[i].fileno()
        script = 'exec 3<&%d; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$0" "$@"' % fd
        self.tasks[i] = subprocess.Popen(
            ["/bin/bash", "-c", script, *self.command(i), "--cluster", self.spec, *flags],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[fd], text=True, errors="replace", preexec_fn=die_with_parent)
        self.said[i] = []
        self.readers[i] = threading.Thread(target=pass_on, args=(self.tasks[i].stderr, self.said[i], self.shows),
                                           daemon=True)
        self.readers[i].start()
        line = self.tasks[i].stdout.readline()
        if not line.startswith("ready:"):
            code = self.tasks[i].wait(READY_S)
            self.readers[i].join()
            raise RuntimeError("psd task %d is not ready: %r, exit status %d: %s" % (i, line, code, "".join(self.said[i])))

    def kill(self, i, how=signal.SIGKILL):
        """Signal `how`, and wait for the end; the exit status. how 0: it was told before. A second SIGTERM that comes more than a
        second behind the first one ends a task at once."""
        self.tasks[i].send_signal(how)
        self.tasks[i].stdout.close()
        code = self.tasks[i].wait()
        self.readers[i].join()
        self.tasks[i] = None
        return code

    def refuse(self, i):
        """Close the port of a task that does not run: connections are refused."""
        self.sockets[i].close()

    def __enter__(self):
        for i in range(len(self.tasks)):
            self.start(i)
        return self

    def __exit__(self, *_):
        for i, task in enumerate(self.tasks):
            if task is not None:
                self.kill(i)
        for s in self.sockets:
            s.close()


def plain(reason):
    """Of a case or a class that has no meaning where tasks and clients hold keys."""
    return unittest.skipIf(SECURE, "without keys only: " + reason)


def run(*argv, env=None, timeout=600, stdin=subprocess.DEVNULL):
    """(exit status, standard output, standard error)"""
    full = {k: v for k, v in os.environ.items() if k not in ("PSD_TARGET", "TF_CONFIG")}
    full.update(env or {})
    done = subprocess.run(argv, env=full, stdin=stdin, capture_output=True, text=True, timeout=timeout, check=False,
                          preexec_fn=die_with_parent)
    return done.returncode, done.stdout, done.stderr


def halt(pid):
    """Stops a process until SIGCONT. All its threads stand when this returns: SIGSTOP alone returns before they do."""
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + 600
    while any(state_of(pid, thread) not in "TtZX" for thread in os.listdir("/proc/%d/task" % pid)):
        assert time.monotonic() < end, "process %d does not stop" % pid
        time.sleep(0.001)  # sleep: between two looks


def state_of(pid, thread):
    try:
        with open("/proc/%d/task/%s/stat" % (pid, thread), encoding="utf-8") as f:
            return f.read().rpartition(")")[2].split()[0]
    except FileNotFoundError:  # it has ended
        return "X"


def cpu_seconds(pid):
    """Of all threads of a process; None once it has ended."""
    clock = ctypes.c_int()
    if ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock)) != 0:
        return None
    try:
        return time.clock_gettime(clock.value)
    except OSError:
        return None


def run_for_a_moment(pids):
    """They run until one of them has had CREEP_CPU_S of CPU time or has ended, and no longer than 0.1 s: all may wait for others."""
    go_on(*pids)
    before, end = {pid: cpu_seconds(pid) for pid in pids}, time.monotonic() + 0.1
    while time.monotonic() < end:
        now = {pid: cpu_seconds(pid) for pid in pids}
        if any(now[pid] is None or before[pid] is None or now[pid] - before[pid] > CREEP_CPU_S for pid in pids):
            return
        time.sleep(0.002)  # sleep: between two looks


def creep(there, *pids, who=None):
    """Processes run for moments (all, or those that who() says) and stand still in between, until there() is true: then they stand
    still, for go_on(). However fast they are, and however late the test is, they are no further than that. A moment is one of CPU
    time: on a busy machine it takes longer, and they get as far."""
    end = time.monotonic() + 600
    while True:
        for pid in pids:
            halt(pid)
        if there():
            return
        assert time.monotonic() < end, "they do not get there"
        run_for_a_moment(who() if who else pids)


def go_on(*pids):
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def main(_=None):
    """Run the cases, or those that are named on the command line; the last line is what the test runner counts."""
    main_module, load = sys.modules["__main__"], unittest.defaultTestLoader
    cases = load.loadTestsFromNames(sys.argv[1:], main_module) if len(sys.argv) > 1 else load.loadTestsFromModule(main_module)
    result = unittest.TextTestRunner(verbosity=2).run(cases)
    failed = len(result.failures) + len(result.errors)
    print("%d passed, %d failed, %d skipped" % (result.testsRun - failed - len(result.skipped), failed, len(result.skipped)),
          flush=True)
    return 1 if failed else 0
