#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 1500
# test-transport: plain (the container makes a key of its own)
"""scripts/container: the entry point runs the program that the cluster manager's variables ask for; and the image is built on a fresh
Debian, and two containers of it are the secure cluster of the README. The image is skipped where it cannot be built."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from cluster import SANITIZED, main, path

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
ENTRY = os.path.join(ROOT, "scripts/container/entrypoint")
TOOLS = ("mmdebstrap", "buildah", "dpkg-buildpackage", "dh", "lintian", "unshare")
TF = {"cluster": {"ps": ["a:1"], "worker": ["b:1"]}, "task": {"type": "worker", "index": 0}}
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "PSD_CLUSTER": "kubernetes", "PSD_CLUSTER_FLAGS":
       "--ps_pods ps.psd --ps_tasks 2 --worker_pods w.psd --worker_tasks 2", "PSD_FLAGS": "--exit_when_done --drain 3s"}
MPI = {"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_LOCAL_RANK": "0", "PSD_CLUSTER_FLAGS": "--ps_tasks 1 --rendezvous h:1"}


class Entry(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name in ("psd", "pstrain", "psd-exporter"):
            file = os.path.join(self.folder, name)
            with open(file, "w", encoding="utf-8") as text:
                text.write('#!/bin/sh\necho "${0##*/}" "$@"\n')
            os.chmod(file, 0o755)
        os.symlink(path("bin/psctl"), os.path.join(self.folder, "psctl"))

    def enter(self, env, *args):
        done = subprocess.run([ENTRY, *args], env={"PATH": self.folder + ":/usr/bin:/bin", **env}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=600, check=False)
        return done.returncode, done.stdout.strip(), done.stderr

    def test_roles(self):
        def tf(job):
            return {"TF_CONFIG": json.dumps(dict(TF, task={"type": job, "index": 0}))}
        pods = "--cluster kubernetes " + POD["PSD_CLUSTER_FLAGS"]
        for env, args, runs in (
                ({}, (), "psd"),
                ({"PSD_FLAGS": "--listen 0.0.0.0:1"}, (), "psd --listen 0.0.0.0:1"),
                ({"PSD_FLAGS": "--drain 3s"}, ("--local", "ps=1,workers=1"), "pstrain --local ps=1,workers=1"),
                ({}, ("psd-exporter", "--port", "1"), "psd-exporter --port 1"),
                (tf("ps"), ("psd", "--version"), "psd --version"),
                (tf("ps"), ("--steps", "9"), "psd --cluster auto"),
                (tf("worker"), ("--steps", "9"), "pstrain --cluster auto --steps 9"),
                (tf("evaluator"), (), "pstrain --cluster auto"),
                (dict(POD, JOB_COMPLETION_INDEX="1", PSD_CLUSTER_FLAGS=POD["PSD_CLUSTER_FLAGS"] + " --job_name ps"), (),
                 "psd " + pods + " --job_name ps --exit_when_done --drain 3s"),
                (dict(POD, JOB_COMPLETION_INDEX="1", PSD_CLUSTER_FLAGS=POD["PSD_CLUSTER_FLAGS"] + " --job_name worker"), ("--steps", "9"),
                 "pstrain " + pods + " --job_name worker --steps 9"),
                (dict(MPI, OMPI_COMM_WORLD_RANK="0"), (), "psd --cluster auto --ps_tasks 1 --rendezvous h:1"),
                (dict(MPI, OMPI_COMM_WORLD_RANK="2"), ("--steps", "9"), "pstrain --cluster auto --ps_tasks 1 --rendezvous h:1 --steps 9")):
            with self.subTest(env=env, args=args):
                code, out, err = self.enter(env, *args)
                self.assertEqual(code, 0, err)
                self.assertEqual(out, runs)

    def test_what_is_refused(self):
        for env, why in (({"PSD_CLUSTER": "slurm"}, "psctl: SLURM_NTASKS is not set"),
                         (dict(MPI, OMPI_COMM_WORLD_RANK="3"), "psctl: OMPI_COMM_WORLD_RANK='3'"),
                         ({"PSD_CLUSTER": "ps=a:1;worker=b:1"}, "psd-entrypoint: PSD_CLUSTER='ps=a:1;worker=b:1' does not say which task"),
                         ({"PSD_CLUSTER_FLAGS": "--ps_task 1"}, "psctl: flag '--ps_task' is unknown")):
            with self.subTest(env):
                code, out, err = self.enter(env)
                self.assertEqual((code, out), (2, ""), err)
                self.assertIn(why, err)

    def test_help(self):
        code, out, _ = self.enter({}, "--help")
        self.assertEqual(code, 0)
        self.assertIn("PSD_CLUSTER_FLAGS", out)


@unittest.skipIf(SANITIZED, "the image has the packages, which are built without a sanitizer")
class Image(unittest.TestCase):
    def test_two_containers_are_a_secure_cluster(self):
        missing = [tool for tool in TOOLS if not shutil.which(tool)]
        if missing:
            self.skipTest("not installed, scripts/deps --deb does it: " + " ".join(missing))
        if os.geteuid() != 0:
            self.skipTest("needs root")
        with tempfile.TemporaryDirectory(prefix="psd-image-") as folder:
            done = subprocess.run([os.path.join(ROOT, "tests/system/container_here.sh"), folder], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=1400, check=False)
        if done.returncode == 77:
            self.skipTest(done.stdout.strip().split("\n")[-1])
        self.assertEqual(done.returncode, 0, done.stdout[-4000:])
        self.assertIn("container_here: the chief has trained", done.stdout)


if __name__ == "__main__":
    sys.exit(main())
