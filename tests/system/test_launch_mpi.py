#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 600
"""--cluster mpi under the mpirun of Open MPI and that of MPICH: a training whose ranks meet at files, one whose ps task has a known
address, and scripts/mpi/psd-mpirun. Each is skipped where it is not installed."""
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import die_with_parent, free_ports, main, path

OPEN_MPI = ("mpirun.openmpi", "--oversubscribe", "--mca", "oob_tcp_if_include", "lo", "--mca", "btl_tcp_if_include", "lo")
MPICH = ("mpirun.mpich", "-hosts", "127.0.0.1", "-iface", "lo")
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
WAIT_S = 90
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/mpi/psd-mpirun")
# until there is a file $LOST/killed the ranks train without end, and the last one says its process
ENDLESS = """#!/bin/bash
steps=60
if [ -d "$LOST" ] && [ ! -e "$LOST/killed" ]; then
    steps=1000000000
    if [ "${OMPI_COMM_WORLD_RANK-$PMI_RANK}" = 3 ]; then
        echo $$ >"$LOST/pid.new" && mv "$LOST/pid.new" "$LOST/pid"
    fi
fi
exec %s "$@" --steps "$steps"
""" % path("bin/pstrain")


class Mpi(unittest.TestCase):
    def mpirun(self, launcher, ranks, *command):
        """(exit status, what all ranks have said)"""
        if not shutil.which(launcher[0]):
            self.skipTest("not installed, scripts/deps --launch does it: " + launcher[0])
        with subprocess.Popen([*launcher, "-n", str(ranks), *command], env=dict(os.environ, **AS_ROOT), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=die_with_parent) as mpirun:
            try:
                said = mpirun.communicate(timeout=WAIT_S)[0]
            except subprocess.TimeoutExpired:
                mpirun.terminate()
                raise
        return mpirun.returncode, said

    def trains(self, launcher, ranks, *flags):
        code, said = self.mpirun(launcher, ranks, path("bin/pstrain"), "--cluster", "auto", *flags, "--model", "softmax", "--steps", "60",
                                 "--exit_when_done", "--insecure_any_peer")
        self.assertEqual(code, 0, said)
        self.assertIn("test accuracy", said)

    def meets(self, launcher):
        with tempfile.TemporaryDirectory(prefix="psd-mpi-") as folder:
            self.trains(launcher, 4, "--ps_tasks", "2", "--base_port", str(free_ports(4)), "--rendezvous", os.path.join(folder, "met"))
            self.trains(launcher, 4, "--ps_tasks", "2", "--rendezvous", os.path.join(folder, "free"))
            self.assertEqual(sorted(os.listdir(folder)), [name + ".%d" % i for name in ("free", "met") for i in range(4)])

    def knows(self, launcher):
        self.trains(launcher, 3, "--ps_tasks", "1", "--rendezvous", "127.0.0.1:%d" % free_ports(1))
        self.trains(launcher, 4, "--ps_tasks", "2", "--rendezvous", "127.0.0.1:%d" % free_ports(1))  # ps task 1 is at any port

    def refuses(self, launcher, variable):
        code, said = self.mpirun(launcher, 2, path("bin/psctl"), "cluster", "--show", "--ps_tasks", "1")
        self.assertNotEqual(code, 0)
        self.assertRegex(said, "psctl: %s='[01]': no variable names the hosts of other ranks; give --rendezvous" % variable)

    # ---- scripts/mpi/psd-mpirun ----
    def job(self, launcher, loses):
        """Train by the script. With `loses` a rank is killed meanwhile. Returns (exit status, what was said, folder of the job)."""
        if not shutil.which(launcher[0]):
            self.skipTest("not installed, scripts/deps --launch does it: " + launcher[0])
        folder = tempfile.TemporaryDirectory(prefix="psd-mpi-")
        self.addCleanup(folder.cleanup)
        programs = os.path.join(folder.name, "bin")
        job = os.path.join(folder.name, "job")
        lost = os.path.join(folder.name, "lost")
        pid_file = os.path.join(lost, "pid")
        os.mkdir(programs)
        os.symlink(path("bin/psctl"), os.path.join(programs, "psctl"))
        with open(os.path.join(programs, "pstrain"), "w", encoding="utf-8") as text:
            text.write(ENDLESS)
        os.chmod(os.path.join(programs, "pstrain"), 0o755)
        if loses:
            os.mkdir(lost)
        env = dict(os.environ, PATH=programs + ":" + os.environ["PATH"], LOST=lost, PSD_MPIRUN=launcher[0], PSD_JOB_DIR=job,
                   **AS_ROOT)
        with subprocess.Popen([SCRIPT, *launcher[1:], "-n", "4", "--", "--model", "softmax", "--checkpoint_steps", "20"], env=env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=die_with_parent) as script:
            try:
                if loses:
                    end = time.monotonic() + WAIT_S
                    while not (os.path.exists(pid_file) and self.saved(job)):
                        self.assertLess(time.monotonic(), end, "no checkpoint is saved")
                        time.sleep(0.05)  # sleep: no event of mpirun's reaches us
                    with open(os.path.join(lost, "killed"), "w", encoding="ascii"):
                        pass
                    with open(pid_file, encoding="ascii") as text:
                        os.kill(int(text.read()), signal.SIGKILL)
                said = script.communicate(timeout=2 * WAIT_S)[0]
            finally:
                script.terminate()
        return script.returncode, said, job

    @staticmethod
    def saved(job):
        folder = os.path.join(job, "checkpoints/ps-0")
        return os.path.isdir(folder) and any(os.path.exists(os.path.join(folder, name, "manifest")) for name in os.listdir(folder))

    def script(self, launcher, loses):
        code, said, job = self.job(launcher, loses)
        self.assertEqual(code, 0, said)
        self.assertIn("test accuracy", said)
        self.assertEqual("they start again, 1 of 3" in said, loses, said)
        self.assertEqual("ev=checkpoint_restored" in said, loses, said)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.join(job, "key")).st_mode), 0o600)
        self.assertEqual(sorted(os.listdir(job)), ["checkpoints", "key"])

    def test_script_open_mpi(self):
        self.script(OPEN_MPI, False)

    def test_script_open_mpi_loses_a_rank(self):
        self.script(OPEN_MPI, True)

    def test_script_mpich(self):
        self.script(MPICH, False)

    def test_script_mpich_loses_a_rank(self):
        self.script(MPICH, True)

    def test_script_wrong(self):
        def script(*args, **env):
            done = subprocess.run([SCRIPT, *args], env=dict(os.environ, **env), capture_output=True, text=True, timeout=WAIT_S, check=False)
            return done.returncode, done.stdout, done.stderr
        self.assertEqual(script("--help")[0], 0)
        self.assertIn("PSD_PS_TASKS", script("--help")[1])
        code, _, said = script("-n", "2", PSD_MPIRUN="/nonexistent/mpirun")
        self.assertEqual((code, said), (2, "psd-mpirun: /nonexistent/mpirun is not found\n"))

    def test_open_mpi_meets(self):
        self.meets(OPEN_MPI)

    def test_open_mpi_knows(self):
        self.knows(OPEN_MPI)

    def test_open_mpi_refuses(self):
        self.refuses(OPEN_MPI, "OMPI_COMM_WORLD_RANK")

    def test_mpich_meets(self):
        self.meets(MPICH)

    def test_mpich_knows(self):
        self.knows(MPICH)

    def test_mpich_refuses(self):
        self.refuses(MPICH, "PMI_RANK")


if __name__ == "__main__":
    sys.exit(main())
