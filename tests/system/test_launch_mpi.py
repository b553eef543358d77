#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 300
"""--cluster mpi under the mpirun of Open MPI and that of MPICH: a training whose ranks meet at files, and one whose ps task has a known
address. Each is skipped where it is not installed."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from cluster import die_with_parent, free_ports, main, path

OPEN_MPI = ("mpirun.openmpi", "--oversubscribe", "--mca", "oob_tcp_if_include", "lo", "--mca", "btl_tcp_if_include", "lo")
MPICH = ("mpirun.mpich", "-hosts", "127.0.0.1", "-iface", "lo")
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
WAIT_S = 90


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
            self.assertEqual(sorted(os.listdir(folder)), ["met.%d" % i for i in range(4)])

    def knows(self, launcher):
        self.trains(launcher, 3, "--ps_tasks", "1", "--rendezvous", "127.0.0.1:%d" % free_ports(1))

    def refuses(self, launcher, variable):
        code, said = self.mpirun(launcher, 2, path("bin/psctl"), "cluster", "--show", "--ps_tasks", "1")
        self.assertNotEqual(code, 0)
        self.assertRegex(said, "psctl: %s='[01]': no variable names the hosts of other ranks; give --rendezvous" % variable)

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
