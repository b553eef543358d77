# SPDX-License-Identifier: Apache-2.0
"""Processes of a benchmark: psd, redis-server, TensorFlow's ps and worker, and the programs that load them. None outlives it."""
import contextlib
import ctypes
import itertools
import json
import mmap
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from ports import free_port

BUILD = os.environ.get("PSD_BUILD", "build/release")
VENV = os.path.join("build", "bench", "venv")
TENSORFLOW = "tensorflow-cpu==2.21.*"
READY_S = 60


class Failed(Exception):
    """A row could not be measured, or its values are wrong."""


def figures(what, out):
    """The last line that a load prints."""
    try:
        return json.loads(out.splitlines()[-1])
    except (ValueError, IndexError):
        raise Failed("%s: no figures: %s" % (what, out)) from None


def program(name):
    for folder in ("bin", "tests/bench"):
        path = os.path.join(BUILD, folder, name)
        if os.path.exists(path):
            return path
    raise Failed("%s is not built: make bench-programs" % name)


def environment(**more):
    clean = {k: v for k, v in os.environ.items() if k not in ("TF_CONFIG", "LISTEN_FDS", "LISTEN_PID", "PSD_TARGET", "PSD_KEY_FILE")}
    clean.update(more)
    return clean


def prepare(cpu, fifo, stamp):
    """What a child does before it becomes its program: it ends with us, has its CPU, and (fifo) is never made to wait for it. The
    last thing is the time, into stamp, and whether the user may not do that."""
    def run():
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if cpu is not None and cpu < os.cpu_count():
            os.sched_setaffinity(0, {cpu})
        refused = False
        if fifo:
            try:
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
            except PermissionError:
                refused = True
        struct.pack_into("d?", stamp, 0, time.monotonic(), refused)
    return run


class Servers:
    """Starts what a step asks for, at most one of each kind; end_round() ends the psd, end_family() everything."""

    PYTORCH_VENV = os.path.join("build", "bench", "torch")

    def __init__(self, redis=True, tensorflow=True, pytorch=True):
        ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER, for reap()
        self.folder = tempfile.mkdtemp(prefix="psd-bench-")
        self.stamp = mmap.mmap(-1, 16)  # when the last child became its program, and whether it has no SCHED_FIFO that it should have
        self.remarks = []  # for run.json and what is made of it
        self.number = itertools.count()
        self.psds = {}
        self.keys = os.path.join(self.folder, "psd.keys")
        self.secure = set()  # addresses that need a key
        self.peers = {}
        self.children = []
        self.said = {}  # by pid: what came after the last line()
        self.missing = {}  # peer: why it is not here
        if not redis or shutil.which("redis-server") is None:
            self.missing["redis"] = "redis-server is not installed: scripts/deps --bench" if redis else "not asked for"
        if not tensorflow:
            self.missing["tensorflow"] = "not asked for"
        if not pytorch:
            self.missing["pytorch"] = "not asked for"

    def popen(self, args, cpu=None, fifo=False, **more):
        child = subprocess.Popen(args, preexec_fn=prepare(cpu, fifo, self.stamp), text=True, **more)
        self.children.append(child)
        if struct.unpack_from("d?", self.stamp)[1]:
            self.remark("SCHED_FIFO is not permitted: the probe of fairness waits for its CPU, too")
        return child

    def remark(self, text):
        if text not in self.remarks:
            print("\nbench: %s" % text, file=sys.stderr)
            self.remarks.append(text)

    def end(self, child, patience=15):
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(patience)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        for stream in (child.stdin, child.stdout):
            with contextlib.suppress(BrokenPipeError):  # what is still to be written to who has gone
                if stream is not None:
                    stream.close()
        self.said.pop(child.pid, None)
        self.children.remove(child)

    def line(self, child, what):
        """The next line that it prints."""
        said = self.said.setdefault(child.pid, bytearray())
        while b"\n" not in said:
            if not select.select([child.stdout], [], [], READY_S)[0]:
                raise Failed("%s says nothing for %d s" % (what, READY_S))
            more = os.read(child.stdout.fileno(), 65536)
            if not more:
                raise Failed("%s: status %s" % (what, child.wait()))
            said += more
        text, _, said[:] = said.partition(b"\n")
        return text.decode().strip()

    # ---- psd

    def has_tls(self):
        if "tls" not in self.missing and not self.run([program("tls"), "has"])["has"]:
            self.missing["tls"] = "no OpenSSL 3 here"
        return "tls" not in self.missing

    def key_file(self):
        """A key of a worker, with which clients dial, and one of the ps."""
        for name, role in () if os.path.exists(self.keys) else (("w0", "worker"), ("ps", "ps")):
            child = self.popen([program("psctl"), "key", "new", name, "--role", role, "--file", self.keys], stdout=subprocess.DEVNULL, env=environment())
            if child.wait(30) != 0:
                raise Failed("psctl key new: %d" % child.returncode)
            self.end(child)
        return self.keys

    def start_psd(self, transport="tcp", tasks=1, cpu=0, workers=0):
        """(process, target, seconds to the last ready line) of a psd that serves all ps tasks of a cluster; its workers do not listen."""
        if transport == "unix":
            addresses = ["unix:%s/%d" % (self.folder, next(self.number)) for _ in range(tasks)]
        else:
            addresses = ["127.0.0.1:%d" % free_port() for _ in range(tasks)]
        spec = "ps=" + ",".join(addresses) + "".join((",", ";worker=")[i == 0] + "127.0.0.1:%d" % (i + 1) for i in range(workers))
        child = self.popen([program("psd"), "--cluster", spec, "--task_index", "0-%d" % (tasks - 1) if tasks > 1 else "0",
                            *(("--log_level", "off", "--key_file", self.key_file()) if transport == "tls" else ("--log_level", "error"))], cpu=cpu, stdout=subprocess.PIPE, env=environment())
        for _ in range(tasks):
            self.line(child, "psd")
        return child, addresses[0], time.monotonic() - self.started()

    def started(self):
        return struct.unpack_from("d", self.stamp)[0]

    def psd(self, transport="tcp", tasks=1, cpu=0):
        """Address of task 0 of a cluster that lasts until the round ends; its CPU (None: any), of several tasks none is pinned."""
        key = (transport, tasks, cpu)
        if key not in self.psds:
            self.psds[key] = self.start_psd(transport, tasks, cpu if tasks == 1 else None)
            if transport == "tls":
                self.secure.add(self.psds[key][1])
        return self.psds[key][1]

    def container(self):
        """A name that no other step has."""
        return "bench-%d-%d" % (os.getpid(), next(self.number))

    def load(self, target, *words, cpu=1, fifo=False):
        """One run of tests/bench/load.c."""
        key = {"PSD_KEY_FILE": self.key_file()} if target in self.secure else {}
        return self.run([program("load"), *map(str, words)], cpu, fifo, PSD_TARGET=target, **key)

    def queues(self, target, *words):
        """One run of tests/bench/queues.c."""
        return self.run([program("queues"), *map(str, words)], PSD_TARGET=target)

    def rounds(self, target, *words):
        """One run of tests/bench/rounds.c."""
        return self.run([program("rounds"), *map(str, words)], PSD_TARGET=target)

    def steps(self, target, *words):
        """Not pinned: as users run it."""
        return self.run([program("steps"), *map(str, words)], PSD_TARGET=target)

    def run(self, args, cpu=None, fifo=False, **env):
        child = self.popen(args, cpu=cpu, fifo=fifo, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment(**env))
        try:
            out = child.communicate(timeout=120)[0]
        except subprocess.TimeoutExpired:
            raise Failed("%s: not done after 120 s" % " ".join(args)) from None
        finally:
            self.end(child)
        if child.returncode != 0:
            raise Failed("%s: status %d: %s" % (" ".join(args), child.returncode, out))
        return figures(" ".join(args), out)

    def psctl_status(self, target):
        """Seconds that `psctl status` takes."""
        child = self.popen([program("psctl"), "-t", target, "status"], stdout=subprocess.DEVNULL, env=environment())
        if child.wait(30) != 0:
            raise Failed("psctl status: %d" % child.returncode)
        seconds = time.monotonic() - self.started()
        self.end(child)
        return seconds

    def stream(self, target, *words, cpu=1):
        """A load in the background, when it has begun; end_stream() gives its figures."""
        child = self.popen([program("load"), *map(str, words)], cpu=cpu, stdout=subprocess.PIPE, env=environment(PSD_TARGET=target))
        self.line(child, "load")
        return child

    def end_stream(self, child):
        if child.poll() is not None:
            raise Failed("the load in the background ended too early: status %d" % child.returncode)
        child.terminate()
        out = child.communicate(timeout=60)[0]
        self.end(child)
        if child.returncode != 0:
            raise Failed("the load in the background: status %d: %s" % (child.returncode, out))
        return figures("the load in the background", out)

    # ---- peers; None: missing says why

    def redis(self, *words):
        """One run of tests/bench/redis_load.c against a redis-server without persistence; nothing is pinned."""
        if "redis" in self.missing:
            return None
        if "redis" not in self.peers:
            port = free_port()
            child = self.popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir",
                                self.folder], stdout=subprocess.DEVNULL)
            self.peers["redis"] = (child, port)
            for _ in range(READY_S * 10):
                with socket.socket() as s:
                    if s.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)  # sleep: redis tells nobody when it listens
        child, port = self.peers["redis"]
        return self.run([program("redis_load"), str(port), str(child.pid), *map(str, words)])

    def install_tensorflow(self):
        self.install("tensorflow", VENV, TENSORFLOW, "matplotlib")

    def install_pytorch(self, package):
        self.install("pytorch", self.PYTORCH_VENV, package, "numpy")

    def install(self, peer, folder, *packages):
        """An environment of its own under build/; says what it does, since the first time takes a minute."""
        if peer in self.missing or os.path.exists(os.path.join(folder, "ready")):
            return
        print("bench: installing %s in %s (once)" % (" and ".join(packages), folder), file=sys.stderr, flush=True)
        for args in (["/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable, "-m", "venv", "--clear", folder],
                     [folder + "/bin/pip", "install", "-q", "--disable-pip-version-check", *packages]):
            done = subprocess.run(args, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                said = (done.stdout + done.stderr).strip().splitlines() or [""]
                self.missing[peer] = "%s: status %d: %s (python3-venv: scripts/deps --bench)" % (
                    " ".join(args[:3]), done.returncode, said[-1])
                return
        with open(os.path.join(folder, "ready"), "w", encoding="utf-8"):
            pass

    def tensorflow(self, *words):
        """One command for tests/bench/tf_load.py; its ps and its worker use all CPUs. It has been seen to abort a step by itself
        ("The same RunGraph (Worker) request was received twice"): once it is started again, then it counts as missing."""
        for last in (False, True):
            if "tensorflow" in self.missing:
                break
            try:
                return self.ask_tensorflow(words)
            except (Failed, BrokenPipeError) as e:
                print("\nbench: %s%s" % (e, "" if last else ": started again"), file=sys.stderr)
                for child in self.peers.pop("tensorflow", ()):
                    self.end(child, 2)
                if last:
                    self.missing["tensorflow"] = "it failed twice: %s" % e
        return None

    def ask_tensorflow(self, words):
        if "tensorflow" not in self.peers:
            python, script = os.path.join(VENV, "bin", "python"), os.path.join(HERE, "tf_load.py")
            ports = [str(free_port()), str(free_port())]
            tasks = [self.popen([python, script, job, *ports], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                env=environment(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")) for job in ("ps", "worker")]
            self.peers["tensorflow"] = tasks
            for child in tasks:
                self.line(child, "TensorFlow")
        worker = self.peers["tensorflow"][1]
        worker.stdin.write(" ".join(map(str, words)) + "\n")
        worker.stdin.flush()
        return json.loads(self.line(worker, "TensorFlow"))

    # ---- ends

    def end_round(self):
        for child, _, _ in self.psds.values():
            self.end(child)
        self.psds.clear()

    def end_family(self):
        self.end_round()
        self.peers.clear()
        for child in list(self.children):
            self.end(child, 2)

    def reap(self):
        """What children of ours had started (the bare loop's server) is ours now and ends with its peer."""
        patience = time.monotonic() + 5
        while time.monotonic() < patience:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    time.sleep(0.01)  # sleep: waitpid() has no deadline of its own
            except ChildProcessError:
                return

    def close(self):
        for child in self.children:
            child.kill()
        self.end_family()
        self.reap()
        shutil.rmtree(self.folder, ignore_errors=True)
