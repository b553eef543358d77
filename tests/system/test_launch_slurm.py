#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 600
# test-transport: plain (the jobs make keys of their own)
"""--cluster slurm and scripts/slurm/psd.sbatch in a real Slurm: munged, slurmctld and four slurmd in a network namespace
(slurm_here.sh). The file runs itself inside of it. Skipped where Slurm is not installed or may not be set up."""
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import SANITIZED, main, path

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
NEEDS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "salloc", "scontrol", "sinfo", "ip", "unshare", "setpriv")
PSCTL = path("bin/psctl")
SHOW = 'echo "$SLURMD_NODENAME $(%s cluster --show --json --cluster slurm "$@")"' % PSCTL
WAIT_S = 120
NOT_SET_UP = 77  # exit status of slurm_here.sh
# the held task stands still before it is pstrain, until it is killed; the next one in its place goes on
HELD = """#!/bin/bash
if [ "$SLURM_PROCID" = "$HOLD" ] && mkdir "$HELD" 2>/dev/null; then
    echo $$ >"$HELD/pid.new" && mv "$HELD/pid.new" "$HELD/pid"
    kill -STOP $$
fi
exec %s "$@"
""" % path("bin/pstrain")


def run(*argv, env=None):
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_S, check=False)
    return done.returncode, done.stdout, done.stderr


def said(file):
    try:
        with open(file, encoding="utf-8", errors="replace") as text:
            return text.read()
    except FileNotFoundError:
        return ""


class Slurm(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="psd-job-", dir=os.environ["PSD_SLURM_DIR"])
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def until(self, there, what):
        end = time.monotonic() + WAIT_S
        while not there():
            self.assertLess(time.monotonic(), end, what + "\n" + said(os.path.join(self.folder, "out")) + run("scontrol", "show", "job")[1])
            time.sleep(0.05)  # sleep: no event of Slurm's reaches us

    # ---- who each task is ----
    def ranks(self, *command, flags=("--ps_tasks", "2")):
        """[(node, what psctl said)] of each rank."""
        code, out, err = run(*command, "bash", "-c", SHOW, "show", *flags)
        self.assertEqual(code, 0, out + err)
        return [(line.split(" ", 1)[0], json.loads(line.split(" ", 1)[1])) for line in out.splitlines()]

    def agree(self, ranks, ps, workers):
        """All ranks say one cluster, in which each is one task, on the node where it runs."""
        clusters = [said["cluster"] for _, said in ranks]
        self.assertEqual(clusters, [clusters[0]] * len(ranks))
        self.assertEqual({job: len(tasks) for job, tasks in clusters[0].items()}, {"ps": ps, "worker": workers})
        self.assertEqual(sorted((said["job"], said["index"]) for _, said in ranks),
                         [("ps", i) for i in range(ps)] + [("worker", i) for i in range(workers)])
        for node, said in ranks:
            address = clusters[0][said["job"]][said["index"]]
            self.assertEqual(address.split(":")[0], node, said)

    def test_layouts(self):
        for how in ("block", "cyclic", "plane=2", "block:cyclic"):
            with self.subTest(how):
                self.agree(self.ranks("srun", "-N4", "-n7", "-m", how), 2, 5)
        self.agree(self.ranks("srun", "-N4", "-n6"), 2, 4)
        self.agree(self.ranks("srun", "-N4", "-n7", flags=("--ps_per_node", "1")), 4, 3)
        self.agree(self.ranks("srun", "-N3", "-n6", flags=("--ps_per_node", "1", "--ps_tasks", "2", "--base_port", "3000")), 2, 4)

    def test_a_step_on_some_nodes(self):
        ranks = self.ranks("salloc", "-Q", "-N4", "-n4", "srun", "-N2", "-n2", "-r1", flags=("--ps_tasks", "1"))
        self.agree(ranks, 1, 1)
        self.assertEqual(sorted(node for node, _ in ranks), ["n01", "n02"])

    def test_heterogeneous(self):
        self.agree(self.ranks("salloc", "-Q", "-N1", "-n2", ":", "-N2", "-n3", "srun", "--het-group=0,1"), 2, 3)
        code, out, _ = run("salloc", "-Q", "-N1", "-n2", ":", "-N2", "-n3", "srun", "--het-group=0", PSCTL, "cluster", "--show", "--ps_tasks", "2",
                           "--job_name", "ps", ":", "--het-group=1", PSCTL, "cluster", "--show", "--ps_tasks", "2", "--job_name", "worker")
        self.assertEqual(code, 0, out)
        self.assertEqual(sorted(line.split()[1] for line in out.splitlines() if line.startswith("task ")),
                         ["/job:ps/task:%d" % i for i in range(2)] + ["/job:worker/task:%d" % i for i in range(3)])

    def test_what_is_refused(self):
        code, _, err = run("srun", "-N4", "-n4", PSCTL, "cluster", "--show", "--ps_tasks", "5")
        self.assertEqual(code, 2)
        self.assertIn("psctl: SLURM_STEP_NUM_TASKS='4': --ps_tasks 5 is more", err)
        code, _, err = run("salloc", "-Q", "-N2", "-n2", PSCTL, "cluster", "--show", "--cluster", "slurm", "--ps_tasks", "1")
        self.assertEqual(code, 2)
        self.assertIn("psctl: SLURM_STEP_NODELIST is not set: SLURM_JOB_NODELIST has the nodes of the job", err)

    def test_lists_as_scontrol_expands_them(self):
        for text in ("n[00-03]", "gpu8,n00", "n[08-10,3]", "n[001-003,7]", "r[0-1]n[08-11]", "a[1-3,5,08-10]b[1-2]", "h[3,1]", "n[3,1-2,10,08]",
                     "a-b-[1-2]", "a-b-[1-2]-ib", "a", "n[9-11],m[98-101]"):
            with self.subTest(text):
                code, names, _ = run("scontrol", "show", "hostnames", text)
                names = names.split()
                count = str(len(names) or 1)
                env = dict(os.environ, SLURM_PROCID="0", SLURM_STEP_NODELIST=text, SLURM_STEP_NUM_TASKS=count,
                           SLURM_STEP_TASKS_PER_NODE="1(x%s)" % count)
                ours, out, err = run(PSCTL, "cluster", "--show", "--json", "--cluster", "slurm", "--ps_tasks", count, "--base_port", "2000", env=env)
                self.assertEqual(ours == 0, code == 0 and bool(names), err)
                if ours == 0:
                    self.assertEqual([address.split(":")[0] for address in json.loads(out)["cluster"]["ps"]], names)

    # ---- scripts/slurm/psd.sbatch ----
    def submit(self, *flags, hold=-1, sbatch=(), **variables):
        """Start a job in whose first run task `hold` stands still. Returns its number."""
        programs = os.path.join(self.folder, "bin")
        os.mkdir(programs)
        os.symlink(PSCTL, os.path.join(programs, "psctl"))
        with open(os.path.join(programs, "pstrain"), "w", encoding="utf-8") as text:
            text.write(HELD)
        os.chmod(os.path.join(programs, "pstrain"), 0o755)
        self.held = os.path.join(self.folder, "held")
        env = dict(os.environ, PATH=programs + ":" + os.environ["PATH"], HOLD=str(hold), HELD=self.held, PS_DATA_DIR=os.path.join(ROOT, "data"),
                   PSD_JOB_DIR=os.path.join(self.folder, "job"), **variables)
        code, out, err = run("sbatch", "--parsable", *sbatch, "-o", os.path.join(self.folder, "out"), os.path.join(ROOT, "scripts/slurm/psd.sbatch"),
                             "--model", "softmax", *flags, env=env)
        self.assertEqual(code, 0, err)
        return out.strip()

    def held_pid(self):
        self.until(lambda: os.path.exists(self.held + "/pid"), "the held task does not start")
        return int(said(self.held + "/pid"))

    def saved(self):
        """Has ps task 0 a whole checkpoint?"""
        folder = os.path.join(self.folder, "job/checkpoints/ps-0")
        return os.path.isdir(folder) and any(os.path.exists(os.path.join(folder, name, "manifest")) for name in os.listdir(folder))

    def starts_at_once(self, job):
        """Slurm lets a job that it has put back into its queue wait for two minutes; not here. Has it started?"""
        shown = run("scontrol", "show", "job", job)[1]
        if "Reason=BeginTime" in shown:
            run("scontrol", "update", "JobId=" + job, "StartTime=now")
        return "JobState=RUNNING" in shown or "JobState=COMPLETED" in shown

    def completes(self, job):
        def state():
            return [word[9:] for word in run("scontrol", "show", "job", job)[1].split() if word.startswith("JobState=")]
        self.until(lambda: state() and state()[0] not in ("RUNNING", "PENDING", "COMPLETING", "REQUEUED"), "the job does not end")
        out = said(os.path.join(self.folder, "out"))
        self.assertEqual(set(state()), {"COMPLETED"}, out)  # of each component
        self.assertRegex(out, "accuracy")
        return out

    def test_a_job_trains(self):
        out = self.completes(self.submit("--steps", "100"))
        self.assertNotIn("start again", out)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.join(self.folder, "job/key")).st_mode), 0o600)
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder, "job/checkpoints"))), ["ps-0", "ps-1"])

    def test_a_job_with_one_known_port(self):
        """ps task 1 listens at any port, and the trainers find it."""
        self.assertNotIn("start again", self.completes(self.submit("--steps", "100", PSD_PORT="12345")))

    def test_a_heterogeneous_job_trains(self):
        """Its first component has the ps tasks."""
        self.completes(self.submit("--steps", "100", sbatch=("-N1", "-n2", ":", "-N2", "-n3")))
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder, "job/checkpoints"))), ["ps-0", "ps-1"])

    def test_help(self):
        code, out, _ = run(os.path.join(ROOT, "scripts/slurm/psd.sbatch"), "--help")
        self.assertEqual((code, out.split()[:2]), (0, ["usage:", "sbatch"]))
        code, _, err = run(os.path.join(ROOT, "scripts/slurm/psd.sbatch"), env={k: v for k, v in os.environ.items() if k != "SLURM_JOB_ID"})
        self.assertEqual(code, 2)
        self.assertIn("SLURM_JOB_ID is not set", err)

    def test_a_lost_task_comes_back(self):
        job = self.submit("--steps", "100", hold=5)
        pid = self.held_pid()
        self.until(self.saved, "no checkpoint is saved")
        os.kill(pid, signal.SIGKILL)
        out = self.completes(job)
        self.assertIn("psd.sbatch: the tasks ended with status 137; they start again, 1 of 3", out)
        self.assertIn("ev=checkpoint_restored", out)

    def test_a_lost_node_comes_back(self):
        job = self.submit("--steps", "100", hold=5)
        held = self.held_pid()
        self.until(self.saved, "no checkpoint is saved")
        node = next(v for v in said("/proc/%d/environ" % held).split("\0") if v.startswith("SLURMD_NODENAME=")).partition("=")[2]
        step = int(said("/proc/%d/stat" % held).rpartition(")")[2].split()[1])  # slurmstepd
        daemon = int(said(os.path.join(os.environ["PSD_SLURM_DIR"], "slurmd-%s.pid" % node)))
        for pid in (daemon, step, held):
            os.kill(pid, signal.SIGKILL)
        self.until(lambda: "Restarts=1" in run("scontrol", "show", "job", job)[1], "the job is not put back into the queue")
        self.assertEqual(run("slurmd", "-f", os.environ["SLURM_CONF"], "-N", node)[0], 0)
        self.until(lambda: self.starts_at_once(job), "the job does not start again")
        self.assertIn("ev=checkpoint_restored", self.completes(job))


def inside():
    """Run the cases in a Slurm of their own; the exit status."""
    why = "under a sanitizer it shows nothing that test_launch does not" if SANITIZED else "not root" if os.geteuid() != 0 else None
    missing = [name for name in NEEDS if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
    if missing or why:
        print("skipped: %s" % (why or "not installed, scripts/deps --launch does it: " + " ".join(missing)))
        print("0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory(prefix="psd-slurm-", dir="/tmp") as folder:
        env = dict(os.environ, PSD_SLURM_DIR=folder, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin")
        for name in ("PSD_KEY_FILE", "PSD_TARGET", "TF_CONFIG"):
            env.pop(name, None)
        code = subprocess.run([os.path.join(ROOT, "tests/system/slurm_here.sh"), folder, sys.executable, "-B", __file__], env=env, check=False).returncode
    if code == NOT_SET_UP:
        print("skipped: a Slurm cannot be set up here")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    return code


if __name__ == "__main__":
    sys.exit(main() if "PSD_SLURM_DIR" in os.environ else inside())
