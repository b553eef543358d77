#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 360
"""The trainer as its users run it: --local, the four-command cluster by flags and by TF_CONFIG, runs on live ps tasks, --fresh, and
what happens when processes are killed, stopped or told to end.

Real processes on free ports of 127.0.0.1: ps tasks inherit their listening sockets, so no port is lost. PSD_BUILD names the build.
"""
import array
import collections
import fcntl
import glob
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest

import cluster

PSTRAIN = cluster.path("bin/pstrain")
PSCTL = cluster.path("bin/psctl")
PSD = cluster.path("bin/psd")
VARIANT = os.path.basename(os.path.normpath(cluster.BUILD))
PREFIX = ["setarch", "-R"] if VARIANT == "tsan" else []
WAIT_S = 600  # for an event that must come; never a measure
SLOW = 1 if VARIANT == "release" else 3
ENDLESS = "1000000"  # epochs: until something ends it
GOOD = ("--optimizer", "adam", "--learning_rate", "0.002")


def environment(extra=None):
    clean = {k: v for k, v in os.environ.items() if k not in ("TF_CONFIG", "LISTEN_FDS", "LISTEN_PID", "PSD_TARGET", "PSTRAIN_LOCAL")}
    clean.update(extra or {})
    return clean


class Process:
    """A running program; threads collect its lines."""

    def __init__(self, *argv, env=None, **kwargs):
        self.popen = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                      env=environment(env), preexec_fn=cluster.die_with_parent, **kwargs)
        self.pid = self.popen.pid
        self.lines = {"out": [], "err": []}
        self.news = threading.Condition()
        self.readers = [threading.Thread(target=self.collect, args=(f, name), daemon=True)
                        for f, name in ((self.popen.stdout, "out"), (self.popen.stderr, "err"))]
        for reader in self.readers:
            reader.start()

    def collect(self, stream, name):
        for line in stream:
            with self.news:
                self.lines[name].append(line.rstrip("\n"))
                self.news.notify_all()
        with self.news:
            self.lines[name].append(None)
            self.news.notify_all()

    def wait_line(self, pattern, stream="out"):
        """The first line that has the pattern; fails at the end of the stream."""
        def find():
            found = [line for line in self.lines[stream] if line is not None and re.search(pattern, line)]
            return found or None in self.lines[stream]
        with self.news:
            self.news.wait_for(find, WAIT_S)
            found = [line for line in self.lines[stream] if line is not None and re.search(pattern, line)]
        if not found:
            raise AssertionError("no line with %r: %r" % (pattern, self.lines))
        return found[0]

    def unread(self, stream):
        """Bytes that it has written and that nobody has read."""
        size = array.array("i", [0])
        fcntl.ioctl(self.popen.stdout if stream == "out" else self.popen.stderr, termios.FIONREAD, size)
        return size[0]

    def first_line(self):
        return self.wait_line("")

    def text(self, stream="out"):
        return "\n".join(line for line in self.lines[stream] if line is not None)

    def end(self, number=None):
        """Wait for its end, after signal number if one is given."""
        if number is not None:
            self.popen.send_signal(number)
        status = self.popen.wait(WAIT_S)
        for reader in self.readers:
            reader.join(WAIT_S)
        self.popen.stdout.close()
        self.popen.stderr.close()
        return status

    def kill(self):
        if self.popen.poll() is None:
            self.popen.kill()
        if not self.popen.stdout.closed:
            self.end()


def children(pid):
    """{command line: pid} of the living children of a process."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8") as f:
                fields = f.read().rpartition(")")[2].split()
            if int(fields[1]) == pid and fields[0] not in "ZX":
                with open(path[:-4] + "cmdline", encoding="utf-8") as f:
                    found[f.read().replace("\0", " ")] = int(path.split("/")[2])
        except OSError:
            continue
    return found


def tasks_of(p, count):
    """{command line: pid} of the tasks that --local has started, when they are all there."""
    found = {}

    def all_there():
        found.clear()
        found.update((line, pid) for line, pid in children(p.pid).items() if "--job_name=" in line)
        return len(found) == count
    wait_until("its tasks", all_there)
    return found


def is_child(line, job, task):
    return "--job_name=%s --task_index=%d " % (job, task) in line


def child(pids, job, task):
    return next(pid for line, pid in pids.items() if is_child(line, job, task))


def psctl(address, *args):
    return subprocess.run([*PREFIX, PSCTL, "-t", address, *args], env=environment(), check=True, timeout=WAIT_S,
                          capture_output=True, text=True).stdout


def psctl_of(tasks, *args):
    """psctl to the cluster of tasks_of()."""
    return psctl(re.search(r"--ps_hosts=([^, ]+)", next(iter(tasks))).group(1), *args)


def step_of(text):
    """What psctl get global_step says."""
    return int(re.search(r"\d+$", text.strip()).group())


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def is_stopped(pid):
    with open("/proc/%d/stat" % pid, encoding="utf-8") as f:
        return f.read().rpartition(")")[2].split()[0] == "T"


def wait_until(what, condition):
    end = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("not within %d s: %s" % (WAIT_S, what))
        select.select([], [], [], 0.02)


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="pstrain-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.started = []
        self.addCleanup(self.clean)

    def clean(self):
        for process in self.started:
            process.kill()

    def path(self, name):
        return os.path.join(self.dir, name)

    def start(self, *args, env=None, **kwargs):
        self.started.append(Process(*PREFIX, PSTRAIN, *args, env={**cluster.AS_WORKER, **(env or {})}, **kwargs))
        return self.started[-1]

    def report(self, name="report.json"):
        with open(self.path(name), encoding="utf-8") as f:
            return json.load(f)

    def check_report(self, r, ps, workers, variables=4):
        self.assertEqual(set(r), {"test_accuracy", "test_auc", "test_loss", "train_loss", "global_step", "epochs", "samples_per_second", "seconds", "ps", "recoveries",
                                  "lost_steps", "test_r2", "test_rmse", "confusion",
                                  "mode", "rounds", "dropped", "leads", "workers", "variables", "values", "params_sha256", "pushes_applied",
                                  "pushes_applied_total"})
        self.assertEqual((r["ps"], r["workers"], r["variables"]), (ps, workers, variables))
        self.assertEqual((r["test_r2"], r["test_rmse"]), (None, None))  # of numbers that are predicted
        if r["confusion"] is not None:
            hits, tested = sum(row[i] for i, row in enumerate(r["confusion"])), sum(map(sum, r["confusion"]))
            self.assertAlmostEqual(hits / tested, r["test_accuracy"], places=6)
        self.assertEqual(sorted(r["pushes_applied"]), ["/job:ps/task:%d" % i for i in range(ps)])
        self.assertGreater(min(r["pushes_applied"].values()), 0)
        self.assertEqual(sum(r["pushes_applied"].values()), r["pushes_applied_total"])
        self.assertGreater(r["samples_per_second"], 0)
        self.assertGreater(r["seconds"], 0)


class CommandLine(Case):
    def refused(self, *args, words, env=None):
        p = self.start(*args, env=env)
        self.assertEqual(p.end(), 2, p.lines)
        self.assertEqual(p.text(), "")
        self.assertRegex(p.text("err"), r"^pstrain: [^\n]*$")
        for word in words:
            self.assertIn(word, p.text("err"))

    def test_no_ps_tasks_to_test(self):
        """What --eval and --serial look for: the flag, TF_CONFIG or PSD_TARGET is named."""
        config = json.dumps({"cluster": {"ps": [], "chief": ["127.0.0.1:1"]}, "task": {"type": "chief", "index": 0}})
        for args, env, words in ((["--eval", "--ps_hosts="], {}, "--ps_hosts is empty, there are no ps tasks"),
                                 (["--eval", "--cluster=ps=;worker=127.0.0.1:1"], {}, "--cluster has no ps tasks"),
                                 (["--eval"], {"TF_CONFIG": config}, "TF_CONFIG: its cluster has no ps tasks"),
                                 (["--eval"], {"PSD_TARGET": "h:1,h:2"}, "PSD_TARGET: 'h:1,h:2' is several; pstrain takes one, any task"),
                                 (["--serial", "1", "--ps_hosts="], {}, "--ps_hosts is empty, there are no ps tasks")):
            with self.subTest(args=args):
                done = subprocess.run([PSTRAIN, *args], env=dict(os.environ, **env), capture_output=True, text=True, timeout=600, check=False)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(words, done.stderr)

    def test_bad_command_lines(self):
        hosts = ("--ps_hosts", "127.0.0.1:1", "--worker_hosts", "127.0.0.1:2,127.0.0.1:3")
        for args, words in (
                ([], ["--job_name", "ps, worker", "--local"]),
                (["--job_name", ""], ["--job_name is empty", "ps, worker"]),
                (["--job_name=boss", *hosts], ["boss", "ps, worker"]),
                (["--job_name=chief", *hosts], ["chief", "ps, worker"]),
                (["--job_name=worker"], ["--ps_hosts is not given"]),
                (["--job_name=worker", "--ps_hosts=127.0.0.1:1"], ["--worker_hosts is not given"]),
                (["--job_name=worker", "--task_index=2", *hosts], ["--task_index 2", "2 tasks, 0 to 1"]),
                (["--job_name=worker", "--ps_hosts=a:1,,b:2", "--worker_hosts=c:1"], ["--ps_hosts", "/job:ps/task:1: address ''"]),
                (["--job_name=worker", "--task_index=-1", *hosts], ["--task_index: '-1'", "0 to 1023"]),
                (["--job_name=worker", "--task_index"], ["--task_index needs a value"]),
                (["--no-such-flag"], ["--no-such-flag", "--help"]),
                (["--taskindex", "0"], ["--taskindex", "--task_index"]),
                (["extra"], ["extra", "--help"]),
                (["--local", "ps=2"], ["ps=2", "ps=P,workers=W"]),
                (["--local", "ps=0,workers=1"], ["ps=0", "1 to 64"]),
                (["--local", "ps=1,workers=65"], ["workers=65", "1 to 64"]),
                (["--local", "ps=1,ps=1"], ["ps=1,ps=1"]),
                (["--local", "ps=1,workers=1", "--job_name", "ps"], ["--local", "--job_name"]),
                (["--local", "ps=1,workers=1", "--epochs", "0"], ["--epochs: '0'", "1 to"]),
                (["--local", "ps=1,workers=1", "--epochs", "1", "--steps", "5"], ["--epochs", "--steps"]),
                (["--local", "ps=1,workers=1", "--steps", "99999999999999999999"], ["--steps: '9999", "from 1 on"]),
                (["--local", "ps=1,workers=1", "--batch_size", "many"], ["--batch_size: 'many'"]),
                (["--local", "ps=1,workers=1", "--learning_rate", "0"], ["--learning_rate", "above 0"]),
                (["--local", "ps=1,workers=1", "--learning_rate", "fast"], ["--learning_rate: 'fast'", "number"]),
                (["--local", "ps=1,workers=1", "--optimizer", "adamm"], ["adamm", "adagrad"]),
                (["--local", "ps=1,workers=1", "--model", "mlp:"], ["mlp:", "mlp:512,512"]),
                (["--local", "ps=1,workers=1", "--model", "cnn"], ["cnn", "softmax"]),
                (["--local", "ps=1,workers=1", "--data", "cifar"], ["cifar", "digits"]),
                (["--local", "ps=1,workers=1", "--fresh=maybe"], ["maybe", "true or false"])):
            with self.subTest(args=args):
                self.refused(*args, words=words)

    def test_bad_tf_config(self):
        good = {"ps": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"]}
        for config, words in (
                ("{", ["TF_CONFIG", "line 1"]),
                ('{"cluster": []}', ["TF_CONFIG", "cluster"]),
                (json.dumps({"cluster": {"ps": "127.0.0.1:1"}}), ["TF_CONFIG", "cluster", "'ps'", "list"]),
                (json.dumps({"cluster": {"ps": [7]}}), ["/job:ps/task:0", "string"]),
                (json.dumps({"cluster": good, "task": {"type": "worker"}}), ["task.index"]),
                (json.dumps({"cluster": good, "task": {"type": "boss", "index": 0}}), ["boss", "ps, worker"]),
                (json.dumps({"cluster": good, "task": {"type": "worker", "index": 1}}), ["task.index is 1", "'worker' has tasks 0"]),
                (json.dumps({"cluster": good}), ["--job_name", "ps, worker"])):
            with self.subTest(config=config):
                self.refused(words=words, env={"TF_CONFIG": config})

    def test_errors_that_come_before_training(self):
        for args, words in ((["--data", "mnist:/nowhere"], ["/nowhere"]), (["--report", "/nowhere/r.json"], ["/nowhere/r.json"])):
            p = self.start("--local", "ps=1,workers=2", *args)
            self.assertEqual(p.end(), 1)
            self.assertEqual(p.text(), "")
            self.assertEqual(len([line for line in p.lines["err"] if line]), 1, p.lines)
            for word in words:
                self.assertIn(word, p.text("err"))

    def test_help_has_every_flag_with_the_seed_s_words(self):
        p = self.start("--help")
        self.assertEqual(p.end(), 0)
        help_text = re.sub(r"\s+", " ", p.text())
        for name in ("ps_hosts", "worker_hosts", "job_name", "task_index", "local", "data", "model", "optimizer", "learning_rate",
                     "batch_size", "epochs", "steps", "seed", "fresh", "report", "status_at_end", "help", "version"):
            self.assertIn("--%s " % name, help_text)
        for words in ('--ps_hosts HOST:PORT,... Comma-separated list of hostname:port pairs (default none)',
                      '--worker_hosts HOST:PORT,... Comma-separated list of hostname:port pairs (default none)',
                      "--job_name JOB One of 'ps', 'worker', 'chief', 'master', 'evaluator' (default none)",
                      "Index of task within the job (0 to 1023, default 0)",
                      "(default adagrad)", "(default 0.05)", "Examples in a step of one worker (1 to 1048576, default 32)",
                      "(1 to 1000000, default 10)"):
            self.assertIn(words, help_text)
        self.assertLessEqual(max(len(line) for line in p.text().split("\n")), 130)


class Local(Case):
    def children_are_gone(self, pids):
        wait_until("children end", lambda: not any(alive(pid) for pid in pids))

    def test_a_whole_run(self):
        p = self.start("--local", "ps=2,workers=3", *GOOD, "--epochs", "8", "--status_at_end", "--report", self.path("report.json"))
        self.assertEqual(p.end(), 0, p.lines)
        out = p.text().split("\n")
        self.assertEqual(out[0], "4 variables created")
        self.assertTrue(any(re.match(r"epoch 8/8  global_step \d+  loss 0\.\d+ ", line) for line in out), out)
        accuracy = float(re.search(r"^test accuracy (0\.\d+)", p.text(), re.M).group(1))
        self.assertGreater(accuracy, 0.9)
        self.assertRegex(p.text(), r"\n/job:ps/task:1 +127\.0\.0\.1:\d+ +up ")
        self.assertRegex(p.text(), r"\ntotal +2 of 2 up ")
        self.assertIn("[/job:worker/task:2] 4 variables", p.text("err"))
        self.assertNotIn("continuing", p.text() + p.text("err"))  # also by a worker that comes when the chief trains already
        r = self.report()
        self.check_report(r, 2, 3)
        self.assertEqual(r["global_step"], 8 * 15 * 3)  # 1,437 examples: 479 for each worker, 15 batches
        self.assertEqual(r["pushes_applied_total"], r["global_step"] * r["variables"])
        self.assertEqual(r["epochs"], 8)
        self.assertAlmostEqual(r["test_accuracy"], accuracy, 3)
        self.assertLess(r["train_loss"], 1)
        self.assertLess(r["test_loss"], 1)
        self.assertEqual(os.listdir(self.dir), ["report.json"])

    def test_a_device_that_is_not_there(self):
        """A clear error; with soft placement the CPU computes, and that is said."""
        run = ("--local", "ps=1,workers=1", "--epochs", "2", "--device", "gpu:99")
        p = self.start(*run)
        self.assertEqual(p.end(), 1, p.lines)
        why = r"(no kernels for cuda: |there is no gpu:99: )"
        self.assertRegex(p.text("err"), "cannot open a session: compute_device: " + why)
        p = self.start(*run, "--allow_soft_placement")
        self.assertEqual(p.end(), 0, p.lines)
        self.assertRegex(p.text("err"), r"compute: \(Session\): /job:worker/task:0/device:CPU:0 in place of gpu:99: " + why)
        self.assertRegex(p.text(), r"\ntest accuracy 0\.[89]")

    def test_another_device(self):
        """The same run on the CPU and on the fake device, which computes later and elsewhere; one that fails ends it with a reason."""
        env = {"PS_PLUGIN_DIR": cluster.path("tests/kernels"), "PSK_FAKE_DELAY_US": "20"}
        run = ("--local", "ps=1,workers=1", "--epochs", "2", "--optimizer", "sgd", "--report", self.path("report.json"))
        losses = []
        for device in ("cpu", "fake:0"):
            p = self.start(*run, "--device", device, "--log_device_placement", env=env)
            self.assertEqual(p.end(), 0, p.lines)
            losses.append((self.report()["test_loss"], self.report()["train_loss"]))
        self.assertEqual(losses[0], losses[1])  # the fake device has the CPU's operations
        self.assertIn("compute: (Session): /job:worker/task:0/device:FAKE:0", p.text("err"))
        p = self.start(*run, "--device", "fake:0", env={**env, "PSK_FAKE_FAIL_AT": "100"})
        self.assertEqual(p.end(), 1, p.lines)
        self.assertRegex(p.text("err"), r"INTERNAL: .*fake:0: (dense|softmax_xent|argmax_count)\w*: the device failed")

    def test_softmax_to_a_global_step_with_each_optimizer(self):
        for optimizer, rate in (("sgd", "0.5"), ("momentum", "0.05"), ("nesterov", "0.05"), ("adagrad", "0.1"), ("adam", "0.01")):
            p = self.start("--local", "workers=2,ps=1", "--model", "softmax", "--optimizer", optimizer, "--learning_rate", rate, "--steps",
                           "600", "--report", self.path("report.json"))
            self.assertEqual(p.end(), 0, p.lines)
            self.assertEqual(p.text().split("\n")[0], "2 variables created")
            r = self.report()
            self.check_report(r, 1, 2, variables=2)
            self.assertIn(r["global_step"], (600, 601))  # the other worker may be in its last step
            self.assertGreater(r["test_accuracy"], 0.88, optimizer)

    def test_progress_is_a_bar_on_a_terminal(self):
        ours, theirs = pty.openpty()
        p = subprocess.Popen([*PREFIX, PSTRAIN, "--local", "ps=1,workers=1", "--epochs", ENDLESS], stdin=subprocess.DEVNULL,
                             stdout=theirs, stderr=theirs, env=environment(), preexec_fn=cluster.die_with_parent)
        os.close(theirs)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        shown, told = b"", False
        try:
            while True:
                more = os.read(ours, 65536)
                if not more:
                    break
                shown += more
                if not told and re.search(rb"\r\[=* *\] +\d+%  epoch \d+/\d+  global_step \d+ ", shown):
                    psctl_of(tasks_of(p, 2), "stop")
                    told = True
        except OSError:  # the end of a terminal
            pass
        os.close(ours)
        self.assertTrue(told, shown)
        self.assertEqual(p.wait(WAIT_S), 0, shown)
        self.assertIn(b"test accuracy 0.", shown)

    def running(self, *args):
        p = self.start("--local", "ps=2,workers=3", "--epochs", ENDLESS, *args)
        p.wait_line(r"worker/task:2\] 4 variables", "err")
        p.wait_line(r"worker/task:1\] 4 variables", "err")
        p.wait_line("4 variables")
        pids = children(p.pid)
        self.assertEqual(len(pids), 5)
        return p, pids

    def test_a_killed_worker_is_reported_and_the_others_finish(self):
        p = self.start("--local", "ps=2,workers=3", *GOOD, "--steps", str(12000 // SLOW), "--report", self.path("report.json"))
        tasks = tasks_of(p, 5)
        workers = [child(tasks, "worker", i) for i in range(3)]
        cluster.creep(lambda: "worker/task:1] 4 variables" in p.text("err"), *workers)
        pid = workers.pop(1)
        os.kill(pid, signal.SIGKILL)
        cluster.go_on(*workers)
        self.assertEqual(p.end(), 1)
        self.assertIn("/job:worker/task:1 (pid %d) was killed by signal 9" % pid, p.text("err"))
        self.assertIn("test accuracy 0.9", p.text())
        self.assertGreaterEqual(self.report()["global_step"], 12000 // SLOW)

    def test_a_killed_ps_ends_everything(self):
        p, pids = self.running()
        pid = child(pids, "ps", 1)
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(p.end(), 1)
        self.assertRegex(p.text("err"), r"/job:ps/task:1 \(pid %d, 127\.0\.0\.1:\d+\) was killed by signal 9" % pid)
        self.assertNotIn("test accuracy", p.text())
        self.children_are_gone(pids.values())

    def test_a_chief_that_dies_before_the_model_is_ready_ends_everything(self):
        for _ in range(5):  # the model takes a while to initialise: most often the first attempt meets that time
            p = self.start("--local", "ps=1,workers=2", "--epochs", ENDLESS, "--model", "mlp:3000,3000")
            pids = {}
            wait_until("the chief", lambda: pids.update(children(p.pid)) or any(is_child(c, "worker", 0) for c in pids))
            os.kill(child(pids, "worker", 0), signal.SIGKILL)
            line = p.wait_line("/job:worker/task:0 .* was killed by signal 9", "err")
            if "the other workers go on" not in line:
                break
            self.assertEqual(p.end(signal.SIGTERM), 128 + signal.SIGTERM)
        self.assertIn("the chief ended before the model was ready, stopping everything", line)
        self.assertEqual(p.end(), 1)
        self.children_are_gone(pids.values())

    def test_signals_end_everything(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            p, pids = self.running()
            self.assertEqual(p.end(number), 128 + number)
            self.assertIn("stopped by signal %d" % number, p.text("err"))
            self.children_are_gone(pids.values())

    def test_nothing_outlives_a_parent_that_is_killed(self):
        p, pids = self.running()
        p.end(signal.SIGKILL)
        self.children_are_gone(pids.values())


class Tasks(Case):
    """A cluster of separate processes, as in four shells."""

    def setUp(self):
        super().setUp()
        self.ps = cluster.Cluster(2)
        self.addCleanup(lambda: [s.close() for s in self.ps.sockets])
        self.worker_hosts = "192.0.2.1:1,192.0.2.1:2"  # of no machine (RFC 5737): workers do not listen
        self.hosts = ("--ps_hosts", self.ps.hosts, "--worker_hosts", self.worker_hosts)
        self.daemons = [None, None]

    def tf_config(self, job, index):
        return {"TF_CONFIG": json.dumps({"cluster": {"ps": self.ps.addresses, "worker": self.worker_hosts.split(",")},
                                         "task": {"type": job, "index": index}})}

    def start_ps(self, i, program=None, env=None, more=()):
        """A ps task: pstrain by its flags, or by TF_CONFIG when env is given, or another program."""
        fd = self.ps.sockets[i].fileno()
        script = 'exec 3<&%d; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$0" "$@"' % fd
        flags = [] if env else [*self.hosts, "--job_name", "ps", "--task_index", str(i), *more]
        self.daemons[i] = Process("/bin/bash", "-c", script, *PREFIX, program or PSTRAIN, *flags, env=env, pass_fds=[fd])
        self.started.append(self.daemons[i])
        self.daemons[i].wait_line("^ready: psd://%s$" % self.ps.addresses[i])

    def start_all_ps(self, program=None):
        for i in range(2):
            self.start_ps(i, program)

    def worker(self, i, *args, env=None):
        place = [] if env else [*self.hosts, "--job_name", "worker", "--task_index", str(i)]
        return self.start(*place, *args, env=env)

    def workers(self, *args, chief_args=()):
        return [self.worker(0, *args, *chief_args), self.worker(1, *args)]

    def finish(self, workers, status=0):
        for w in workers:
            self.assertEqual(w.end(), status, w.lines)

    def stop_ps(self):
        for daemon in self.daemons:
            self.assertEqual(daemon.end(signal.SIGTERM), 0, daemon.lines)

    def test_four_commands_by_flags_and_runs_on_live_tasks(self):
        report = ("--report", self.path("report.json"), "--status_at_end")
        workers = self.workers(*GOOD, "--epochs", "4", chief_args=report)  # first: any order is good
        self.start_all_ps()
        self.finish(workers)
        self.assertEqual(workers[0].first_line(), "4 variables created")
        self.assertRegex(workers[0].text(), r"\ntest accuracy 0\.[89]")
        self.assertRegex(workers[0].text(), r"\ntotal +2 of 2 up ")
        self.assertNotIn("test accuracy", workers[1].text())
        r = self.report()
        self.check_report(r, 2, 2)
        self.assertEqual(r["global_step"], 4 * 23 * 2)  # 719 and 718 examples
        self.assertEqual(r["pushes_applied_total"], r["global_step"] * 4)

        workers = self.workers(*GOOD, "--epochs", "2", chief_args=report)
        self.finish(workers)
        self.assertRegex(workers[0].first_line(), r"^4 variables, global_step (18[4-9]|19\d|2\d\d): continuing$")
        self.assertRegex(workers[1].first_line(), r"^4 variables, global_step \d{3}: continuing$")
        self.assertEqual(self.report()["global_step"], 6 * 23 * 2)

        workers = self.workers(*GOOD, "--steps", "200", chief_args=report)
        self.finish(workers)
        for w in workers:
            self.assertEqual(w.first_line(), "4 variables, global_step 276: the goal of --steps 200 is already reached; --fresh starts over")
        self.assertEqual(self.report()["global_step"], 276)

        workers = self.workers(*GOOD, "--steps", "200", "--fresh", chief_args=report)
        self.finish(workers)
        self.assertEqual(workers[0].first_line(), "4 variables created: starting over")
        self.assertIn(self.report()["global_step"], (200, 201))
        self.stop_ps()

    def test_other_flags_than_the_model_s_are_refused_with_a_remedy(self):
        self.start_all_ps()
        one = ("--worker_hosts", "192.0.2.1:1")
        self.assertEqual(self.worker(0, *one, "--epochs", "1").end(), 0)
        for args, words in ((("--optimizer", "adam"), ["layer1/weights", "adam", "adagrad", "--fresh"]),
                            (("--model", "mlp:64"), ["layer1/weights", "(64, 128)", "(64, 64)", "--fresh"])):
            w = self.worker(0, *one, "--epochs", "1", *args)
            self.assertEqual(w.end(), 1)
            for word in words:
                self.assertIn(word, w.text("err"))

    def test_by_tf_config_and_psctl_shutdown(self):
        for i in range(2):
            self.start_ps(i, env=self.tf_config("ps", i))
        workers = [self.worker(0, *GOOD, "--epochs", "4", "--report", self.path("report.json"), env=self.tf_config("worker", 0)),
                   self.worker(1, *GOOD, "--epochs", "4", env=self.tf_config("worker", 1))]
        self.finish(workers)
        self.check_report(self.report(), 2, 2)
        self.assertGreater(self.report()["test_accuracy"], 0.85)
        code, _, err = cluster.run(PSCTL, "-t", self.ps.addresses[0], "shutdown", "--all", "--yes")
        self.assertEqual(code, 0, err)
        for daemon in self.daemons:
            self.assertEqual(daemon.end(), 0, daemon.lines)

    def test_a_job_chief_or_master_and_an_evaluator(self):
        self.start_all_ps()
        for chief in ("chief", "master"):
            config = {"cluster": {"ps": self.ps.addresses, chief: ["127.0.0.1:3"], "worker": ["127.0.0.1:1"]}}

            def start(job, *args):
                return self.start(*args, env={"TF_CONFIG": json.dumps(dict(config, task={"type": job, "index": "0"}))})

            run = ("--epochs", "2", "--fresh", "--report", self.path("report.json"))
            trainers = [start("worker", *run), start(chief, *run)]
            self.finish(trainers)
            self.assertEqual(trainers[1].first_line(), "4 variables created: starting over")
            self.check_report(self.report(), 2, 2)
            self.assertEqual(self.report()["global_step"], 2 * 23 * 2)
            evaluator = start("evaluator")
            evaluator.wait_line(r"^test accuracy 0\.\d+ .* global_step 92$")  # it has pushed nothing
            self.assertEqual(evaluator.end(signal.SIGTERM), 128 + signal.SIGTERM, evaluator.lines)  # the ps tasks list one more

    @unittest.skipIf("PSD_KEY_FILE" in os.environ, "a key of another cluster is refused before HELLO: test_secure.py")
    def test_a_cluster_name(self):
        def psd(i):
            fd = self.ps.sockets[i].fileno()
            script = 'exec 3<&%d; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$0" "$@"' % fd
            self.daemons[i] = Process("/bin/bash", "-c", script, *PREFIX, PSTRAIN, *self.hosts, "--job_name", "ps", "--task_index", str(i),
                                      "--cluster_name", "foo", pass_fds=[fd])
            self.started.append(self.daemons[i])
            self.daemons[i].wait_line("^ready: ")

        psd(0)
        psd(1)
        one = ("--worker_hosts", "192.0.2.1:1", "--epochs", "1")
        w = self.worker(0, *one)
        self.assertEqual(w.end(), 1)
        self.assertIn("--cluster_name", w.text("err"))
        w = self.worker(0, *one, "--cluster_name", "foo")
        self.assertEqual(w.end(), 0, w.lines)

    def test_placement(self):
        self.start_all_ps()
        one = ("--worker_hosts", "192.0.2.1:1", "--epochs", "1", "--model", "mlp:512", "--log_device_placement")
        w = self.worker(0, *one)
        self.assertEqual(w.end(), 0, w.lines)
        self.assertRegex(w.text("err"), "ev=placement_uneven task=/job:ps/task:0 holds_percent=9[0-9] .*--placement balanced")
        w = self.worker(0, *one, "--placement", "balanced", "--fresh")
        self.assertEqual(w.end(), 0, w.lines)
        self.assertNotIn("placement_uneven", w.text("err"))
        self.assertIn("softmax/weights: (Variable): /job:ps/task:1/", w.text("err"))
        for line in w.text().split("\n"):
            self.assertNotIn(" 0 samples/s", line)

    def test_values_come_with_the_pushes_or_are_prefetched(self):
        """Each step's values: by the push-pulls, without a pull; with --prefetch by pulls, one step older, and it learns as well."""
        self.start_all_ps()
        status = (PSCTL, "-t", self.ps.addresses[0], "status", "--json")
        pulls = []
        for flags in ((), ("--prefetch",)):
            w = self.worker(0, "--worker_hosts", "192.0.2.1:1", *GOOD, "--epochs", "8", "--fresh", "--report", self.path("report.json"), *flags)
            self.assertEqual(w.end(), 0, w.lines)
            self.check_report(self.report(), 2, 1)
            self.assertEqual(self.report()["global_step"], 8 * 45)  # 1,437 examples, the last batch of an epoch has 29
            self.assertGreater(self.report()["test_accuracy"], 0.9)
            pulls.append(json.loads(subprocess.run(status, stdout=subprocess.PIPE, check=True).stdout)["total"]["pulls"] - sum(pulls))
        self.assertLess(pulls[0], 50)
        self.assertGreater(pulls[1], 8 * 45 * 4)

    def test_workers_before_a_chief_with_other_hyperparameters(self):
        """What an earlier run has put in force is no word of this run's chief, who comes last. Each run asks for something else than
        the one before in its container; without workers that wait the goal is not reached, and --sync does not even begin."""
        self.worker_hosts += ",192.0.2.1:3"
        self.hosts = ("--ps_hosts", self.ps.hosts, "--worker_hosts", self.worker_hosts)
        self.start_all_ps()
        goals = {}
        for rule, *flags in (("momentum",), ("momentum", "--learning_rate", "0.01"), ("momentum", "--momentum", "0.5", "--sync"),
                             ("momentum", "--learning_rate", "0.02", "--sync"), ("adam",), ("adam", "--learning_rate", "0.001"),
                             ("adam", "--learning_rate", "0.002", "--staleness", "3"), ("adam", "--learning_rate", "0.003")):
            before = goals.get(rule, 0)
            goals[rule] = before + 30
            args = ("--optimizer", rule, "--container", rule, "--steps", str(goals[rule]), *flags)
            early = [self.worker(i, *args) for i in ((1, 2) if before else ())]
            # they wait for the chief, or one of them stands in for it and they are done: that takes less than a second
            wait_until("they are here", lambda: before == 0 or any(w.popen.poll() is not None for w in early)
                       or psctl(self.ps.addresses[0], "workers").count("/job:worker/task:") == 2)
            with self.subTest(rule=rule, flags=flags):
                self.finish([self.worker(0, *args), *early, *([] if before else [self.worker(i, *args) for i in (1, 2)])])
                self.assertGreaterEqual(step_of(psctl(self.ps.addresses[0], "get", "global_step", "--container", rule)), goals[rule])

    def test_a_set_lr_that_was_forgotten(self):
        self.start_all_ps()
        hosts = ("--worker_hosts", "192.0.2.1:1")
        first = self.worker(0, *hosts, "--steps", "5", "--learning_rate", "0.1")
        self.finish([first])
        self.assertIn("\nlearning rate 0.1\n", first.text())
        self.assertNotIn("rate_overridden", first.text("err"))
        psctl(self.ps.addresses[0], "set-lr", "--all", "0.01")
        second = self.worker(0, *hosts, "--steps", "10", "--learning_rate", "0.2")
        self.finish([second])
        self.assertIn("\nlearning rate 0.01 in force, by psctl set-lr; --learning_rate is 0.2\n", second.text())
        lines = [line for line in second.text("err").split("\n") if "ev=rate_overridden" in line]
        self.assertEqual(len(lines), 1, second.lines)
        self.assertRegex(lines[0], r" var=\S+ task=/job:ps/task:\d rate=0\.01 definition=0\.2 .*psctl set-lr --all --clear ")
        psctl(self.ps.addresses[0], "set-lr", "--all", "--clear")
        third = self.worker(0, *hosts, "--steps", "15", "--learning_rate", "0.2")
        self.finish([third])
        self.assertIn("\nlearning rate 0.2\n", third.text())
        self.assertNotIn("rate_overridden", third.text("err"))

    def test_a_fresh_worker_without_a_chief_ends(self):
        self.start_all_ps()
        w = self.worker(1, "--epochs", "1", "--fresh", "--timeout", "6")
        self.assertEqual(w.end(), 1)
        self.assertIn("no chief has started over within 6 s", w.text("err"))

    def test_a_fresh_run_catches_the_workers_of_the_old_one(self):
        self.start_all_ps()
        old = self.workers("--epochs", ENDLESS)
        for w in old:
            w.wait_line("^4 variables")
        fresh = (*GOOD, "--worker_hosts", "192.0.2.1:1", "--epochs", "2", "--fresh")
        twin = self.worker(0, *fresh)  # of the old chief, which trains
        self.assertEqual(twin.end(), 1)
        self.assertIn("process %d on " % old[0].popen.pid, twin.text("err"))
        self.assertNotIn("--fresh on all", twin.text("err"))
        old[0].end(signal.SIGKILL)
        new = self.worker(0, *fresh)
        self.assertEqual(old[1].end(), 1)
        self.assertRegex(old[1].text("err"), r"pstrain: /job:worker/task:1 stopped at global_step \d+: "
                         r"(ABORTED: .*reset|INVALID_ARGUMENT: .*OPTIMIZER_MISMATCH)")
        self.finish([new])
        self.assertEqual(new.first_line(), "4 variables created: starting over")

    def test_a_fresh_worker_waits_for_a_chief_that_lives(self):
        self.start_all_ps()
        self.finish(self.workers("--epochs", "1"))
        early = self.worker(1, "--epochs", "2", "--fresh")
        early.wait_line("waiting for the chief to start over; the model on the ps tasks was left by a chief that is gone", "err")
        self.assertEqual(early.text(), "")
        chief = self.worker(0, "--epochs", "2", "--fresh", "--report", self.path("report.json"))
        self.finish([early, chief])
        self.assertEqual(chief.first_line(), "4 variables created: starting over")
        self.assertRegex(early.first_line(), "^4 variables")
        self.assertEqual(self.report()["global_step"], 2 * 23 * 2)

    def test_a_signal_ends_a_worker_and_the_chief_goes_on(self):
        self.start_all_ps()
        chief, other = self.worker(0, "--epochs", str(400 // SLOW)), self.worker(1, "--epochs", ENDLESS)
        other.wait_line("^4 variables")
        self.assertEqual(other.end(signal.SIGINT), 130, other.lines)
        self.assertRegex(other.text("err"), r"/job:worker/task:1: stopped by signal 2 after \d+ steps")
        self.assertEqual(chief.end(), 0, chief.lines)
        self.assertIn("test accuracy 0.9", chief.text())

    def psctl(self, *args):
        return psctl(self.ps.addresses[0], *args)

    def stop_within_shards(self, *workers):
        """They stand still, and each has a shard: its last line says so, and the queue of shards says the same of all. What one had
        said or sent before it stood still is read by then. Whoever has one stands still until the others have begun, too: it could
        do the whole run meanwhile."""
        def stands_still(w):
            self.assertIsNone(w.popen.poll(), w.lines)
            return is_stopped(w.pid) and w.unread("err") == 0

        def has_one(w):
            return w.text("err").endswith("begun")

        def within():
            wait_until("they stand still and are read", lambda: all(stands_still(w) for w in workers))
            if not all(has_one(w) for w in workers):
                return False
            taken = sum(q["taken"] for q in json.loads(self.psctl("queues", "--json"))["queues"])
            return taken == len(workers) and all(has_one(w) for w in workers)

        looks = collections.Counter()  # by those that had none

        def who():
            """Those that have none. When an epoch has no shard left they wait until all of its shards are done: then all run."""
            lacking = tuple(w.pid for w in workers if not has_one(w))
            looks[lacking] += 1
            return lacking if lacking and looks[lacking] % 10 != 0 else [w.pid for w in workers]
        cluster.creep(within, *(w.pid for w in workers), who=who)

    def test_shards(self):
        """Three workers by --work shards, one more comes late and is in no list; two are killed in the midst of a shard. Counters of all
        rows: each row of each epoch is done once, and what the killed ones had is begun again, which is said."""
        for i in range(2):
            # The leases of the killed ones end. That of a worker that stands still until all have a shard may end, too.
            self.start_ps(i, PSD, more=("--lease", "15s", "--beat", "500ms"))
        epochs, rows = 40 // SLOW, 1437
        # The report comes from whoever is chief at the end: after a machine that stood still for a lease that may be the late one.
        run = ("--work", "shards", "--log_shards", "--model", "mlp:256", "--epochs", str(epochs), "--report", self.path("report.json"))
        others = [self.worker(i, *run) for i in (1, 2)]
        workers = [self.worker(0, *run), *others]
        self.stop_within_shards(*workers)
        late = self.start("--ps_hosts", self.ps.hosts, "--job_name", "worker", "--task_index", "7", *run)
        self.stop_within_shards(*workers, late)
        killed = workers[1:]
        for w in killed:
            self.assertEqual(w.end(signal.SIGKILL), -signal.SIGKILL)
        cluster.go_on(workers[0].pid, late.pid)
        self.finish([workers[0], late])
        begun, done, again = collections.Counter(), collections.Counter(), collections.Counter()
        had = set()  # by the killed ones at their end
        for w in (*workers, late):
            shards = [(tuple(int(x) for x in m.groups()[:3]), m.group(4))
                      for m in re.finditer(r"rows (\d+) to (\d+) of epoch (\d+) (begun|done|come again)", w.text("err"))]
            for shard, what in shards:
                {"begun": begun, "done": done, "come again": again}[what][shard] += 1
            if w in killed:
                self.assertEqual(shards[-1][1], "begun")
                had.add(shards[-1][0])
        self.assertEqual(len(had), len(killed))
        self.assertLessEqual(had, again.keys())
        # A machine that stands still for a lease takes shards away from workers that live, too: these come again in the same way.
        self.assertEqual(begun, collections.Counter(done.keys()) + again)
        counters = collections.Counter()
        for (first, last, epoch), times in done.items():
            counters.update({(epoch, row): times for row in range(first, last + 1)})
        self.assertEqual(counters, {(epoch, row): 1 for epoch in range(1, epochs + 1) for row in range(rows)})
        report = self.report()
        self.assertGreaterEqual(report["global_step"], epochs * 45)
        self.assertLessEqual(report["global_step"], epochs * 45 + sum(again.values()) * 4)
        self.assertGreater(report["test_accuracy"], 0.85)

    def test_a_shard_that_another_did_meanwhile(self):
        """A worker that is stopped for longer than its lease: another one does its shard, and it says so itself when it goes on."""
        for i in range(2):
            self.start_ps(i, PSD, more=("--lease", "5s", "--beat", "500ms"))
        run = ("--work", "shards", "--log_shards", "--model", "mlp:256", "--epochs", str(20 // SLOW))
        late, chief = self.worker(1, *run), self.worker(0, *run)
        self.stop_within_shards(chief, late)
        cluster.go_on(chief.pid)
        shard = re.search(r"rows \d+ to \d+ of epoch \d+", late.text("err").split("\n")[-1]).group()
        self.finish([chief])
        self.assertIn(shard + " done", chief.text("err"))
        late.popen.send_signal(signal.SIGCONT)
        self.finish([late])
        late.wait_line("its shard, %s, had been handed out again, and another worker has done it$" % shard, "err")
        self.assertNotIn(shard + " done", late.text("err"))

    def test_shards_that_are_over_do_not_come_back(self):
        """A worker that sleeps in a shard until the next run has begun, and has deleted the shards of this one: it ends, and does not
        make them anew and train them all."""
        for i in range(2):
            self.start_ps(i, PSD, more=("--lease", "5s", "--beat", "500ms"))
        run = ("--work", "shards", "--log_shards", "--model", "mlp:256", "--epochs", str(20 // SLOW))
        late, chief = self.worker(1, *run), self.worker(0, *run)
        self.stop_within_shards(chief, late)
        cluster.go_on(chief.pid)
        self.finish([chief])
        self.finish([self.worker(0, *run)])
        self.assertEqual(self.psctl("queues").count("pstrain/work/"), 1)
        late.popen.send_signal(signal.SIGCONT)
        self.assertEqual(late.end(), 1, late.lines)
        self.assertIn("all shards of the run are done, and another run has begun", late.text("err"))

    def test_shards_of_another_run_are_not_taken(self):
        """A second run on live ps tasks has shards of its own; a chief without them is found out."""
        self.start_all_ps()
        run = ("--work", "shards", "--epochs", "20")
        for _ in range(2):
            other = self.worker(1, *run)  # it waits for the chief of this run, however short that is
            wait_until("its session is listed", lambda: "worker/task:1" in self.psctl("workers"))
            self.finish([self.worker(0, *run, "--report", self.path("report.json")), other])
        self.assertEqual(self.report()["global_step"], 2 * 20 * 45)
        self.assertEqual(self.psctl("queues").count("pstrain/work/"), 1)  # that of the first run has gone
        chief = self.worker(0, "--epochs", ENDLESS)
        chief.wait_line("^4 variables")
        other = self.worker(1, *run)
        self.assertEqual(other.end(), 1)
        self.assertIn("the chief hands out none: start it with --work shards too", other.text("err"))

    def test_sigterm_to_a_ps_under_load(self):
        self.start_all_ps()
        workers = self.workers("--epochs", ENDLESS, "--timeout", "6")
        for w in workers:
            w.wait_line("^4 variables")
        self.stop_ps()
        for w in workers:
            self.assertEqual(w.end(), 1)
            self.assertRegex(w.text("err"), r"stopped at global_step \d+: [A-Z_]+: .*/job:ps/task:\d \(127\.0\.0\.1:\d+\)")

    def test_a_ps_that_is_killed_and_comes_back_empty(self):
        self.start_all_ps(cluster.path("bin/psd"))
        workers = self.workers("--epochs", ENDLESS, "--timeout", "60")
        for w in workers:
            w.wait_line("^4 variables")
        self.daemons[1].end(signal.SIGKILL)
        self.start_ps(1, cluster.path("bin/psd"))
        for w in workers:
            self.assertEqual(w.end(), 1)
            self.assertIn("/job:ps/task:1", w.text("err"))
            self.assertRegex(w.text("err"), r"stopped at global_step \d+: DATA_LOSS: .*/job:ps/task:1 .*--fresh")
        workers = self.workers("--epochs", "1")
        for w in workers:
            self.assertEqual(w.end(), 1)
            self.assertRegex(w.text("err"), r"DATA_LOSS: .*'layer1/biases' at /job:ps/task:1 \(%s\).*--fresh" % self.ps.addresses[1])
            self.assertEqual(w.text(), "")
        workers = self.workers(*GOOD, "--epochs", "3", "--fresh", chief_args=("--report", self.path("report.json")))
        self.finish(workers)
        self.assertEqual(workers[0].first_line(), "4 variables created: starting over")
        self.assertEqual(self.report()["global_step"], 3 * 23 * 2)

    def test_a_stopped_ps_is_waited_for(self):
        self.start_all_ps()
        epochs = 300 // SLOW
        workers = self.workers(*GOOD, "--epochs", str(epochs), chief_args=("--report", self.path("report.json")))
        cluster.creep(lambda: all("4 variables" in w.text() for w in workers), *(w.pid for w in workers))
        cluster.halt(self.daemons[1].pid)
        cluster.go_on(*(w.pid for w in workers))
        try:
            for w in workers:
                w.wait_line("ev=waiting .*/job:ps/task:1 ", "err")  # the library says so after 5 s
                self.assertIsNone(w.popen.poll())
        finally:
            os.kill(self.daemons[1].pid, signal.SIGCONT)
        self.finish(workers)
        r = self.report()
        self.assertEqual(r["global_step"], epochs * 23 * 2)
        self.assertEqual(r["pushes_applied_total"], r["global_step"] * 4)  # nothing lost, nothing doubled


if __name__ == "__main__":
    sys.exit(cluster.main(unittest))
