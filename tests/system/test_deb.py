#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 1500
# test-transport: plain (the tasks are those of the packages)
"""`make dist` gives the same bytes each time. `make deb`: lintian is content, and the packages are installed, upgraded with a running
task, removed and purged in a copy of the running system (deb_here.sh). Skipped where the tools are not installed or no such copy can be
made."""
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

from cluster import SANITIZED, main

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
DEBS = os.path.join(ROOT, "build/deb")
TOOLS = ("dpkg-buildpackage", "dh", "lintian")
NOT_SET_UP = 77  # exit status of deb_here.sh


def run(*argv, cwd=ROOT, env=None, timeout=1200, umask=-1):
    done = subprocess.run(argv, cwd=cwd, env=dict(os.environ, **env or {}), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=timeout, umask=umask, check=False)
    return done.returncode, done.stdout


def in_git():
    return run("git", "rev-parse", "HEAD")[0] == 0


class Dist(unittest.TestCase):
    @unittest.skipUnless(in_git(), "this is no checkout of git")
    def test_the_same_bytes_each_time(self):
        with tempfile.TemporaryDirectory(prefix="psd-dist-") as folder:
            other = os.path.join(folder, "clone")
            self.assertEqual(run("git", "clone", "-q", "--no-hardlinks", ROOT, other)[0], 0)
            self.assertEqual(run("git", "-C", other, "config", "tar.umask", "0077")[0], 0)
            with open(os.path.join(other, "not-committed"), "w", encoding="utf-8") as text:
                text.write("not in the package\n")
            head = run("git", "rev-parse", "HEAD")[1].strip()
            made = [os.path.join(folder, name) for name in ("a.tar.gz", "b.tar.gz", "c.tar.gz")]
            for where, file, env, umask in ((ROOT, made[0], {}, 0o022), (ROOT, made[1], {"TZ": "Pacific/Auckland", "LC_ALL": "C"}, 0o077),
                                            (other, made[2], {"TZ": "UTC"}, 0o002)):
                code, said = run(os.path.join(where, "scripts/dist"), head, file, cwd=folder, env=env, umask=umask)
                self.assertEqual(code, 0, said)
            sums = []
            for file in made:
                with open(file, "rb") as data:
                    sums.append(hashlib.sha256(data.read()).hexdigest())
            self.assertEqual(sums, [sums[0]] * 3)
            with tarfile.open(made[0]) as tar:
                names = tar.getnames()
            top, = {name.partition("/")[0] for name in names}
            self.assertRegex(top, r"^psd-\d+\.\d+\.\d+$")
            committed = run("git", "ls-tree", "-r", "--name-only", "HEAD")[1].split("\n")[:-1]
            self.assertLessEqual({f"{top}/{name}" for name in committed}, set(names))
            self.assertNotIn(f"{top}/not-committed", names)


@unittest.skipIf(SANITIZED, "the packages are built without a sanitizer")
class Deb(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        missing = [tool for tool in TOOLS if not shutil.which(tool)]
        if missing:
            raise unittest.SkipTest("not installed, scripts/deps --deb does it: " + " ".join(missing))
        if not in_git():
            raise unittest.SkipTest("this is no checkout of git")
        cls.code, cls.said = run("scripts/deb")

    def test_lintian_is_content(self):
        self.assertEqual(self.code, 0, self.said)
        names = {file.partition("_")[0] for file in os.listdir(DEBS) if file.endswith(".deb") and "-dbgsym_" not in file}
        self.assertEqual(names, {"psd", "psd-tools", "psd-doc", "libpsd1", "libpsworker1", "libpsworker-kernels", "libpsd-dev"})

    def live(self, mode):
        self.assertEqual(self.code, 0, self.said)
        if os.geteuid() != 0:
            self.skipTest("needs root")
        with tempfile.TemporaryDirectory(prefix="psd-deb-") as folder:
            code, said = run(os.path.join(ROOT, "tests/system/deb_here.sh"), mode, DEBS, folder)
        if code == NOT_SET_UP:
            self.skipTest(said.strip().split("\n")[-1])
        self.assertEqual(code, 0, said)
        self.assertIn(f"deb_here: all of {mode}", said)

    def test_install_upgrade_remove_purge(self):
        self.live("files")

    def test_a_task_runs_through_an_upgrade(self):
        if not shutil.which("systemd-nspawn"):
            self.skipTest("systemd-nspawn is not installed")
        self.live("tasks")


if __name__ == "__main__":
    sys.exit(main())
