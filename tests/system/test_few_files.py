#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 120
"""Programs that may open very few files: they work, or end with a line that says how many it takes. None is aborted by libuv."""
import re
import resource
import subprocess
import sys
import unittest

from cluster import die_with_parent, main, path, run
from daemon import PREFIX, PSD, WAIT_S, Psd, environment

PSCTL, PSTRAIN = path("bin/psctl"), path("bin/pstrain")
LEAST = 4  # with fewer the dynamic linker cannot open a library
MOST = 64


def limited(files):
    def preexec():
        die_with_parent()
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    return preexec


class FewFiles(unittest.TestCase):
    def needed(self, err, files):
        """The number in the line that a program ended with."""
        self.assertEqual(err.count("\n"), 1, err)
        said = re.search(rf"{files} files may be open and (\d+) are needed.*ulimit -n", err)
        self.assertTrue(said, err)
        return int(said.group(1))

    def smallest(self, attempt):
        """The number of files from which on attempt(files) gives no error; every error before names it."""
        said = set()
        for files in range(LEAST, MOST):
            err = attempt(files)
            if err is None:
                break
            said.add(self.needed(err, files))
        self.assertEqual(said, {files})

    def start(self, files, *flags, lines=1):
        psd = Psd(*flags, lines=lines, preexec=limited(files))
        self.addCleanup(psd.__exit__)
        if not psd.ready[0]:
            self.assertEqual(psd.end(), 1, psd.log)
            return "\n".join(psd.log) + "\n"
        if lines == 1:
            code, _, err = run(PSCTL, "-t", "%s:%d" % psd.address(), "ping")
            self.assertEqual((code, err), (0, ""))
        self.assertEqual(psd.stop(), 0)
        return None

    def test_psd(self):
        self.smallest(lambda files: self.start(files, "--listen", "127.0.0.1:0"))
        self.smallest(lambda files: self.start(files, "--listen", "127.0.0.1:0,127.0.0.1:0"))
        self.smallest(lambda files: self.start(files, "-c", "ps=127.0.0.1:1,127.0.0.1:2", "--task_index", "0-1", "--listen",
                                               "127.0.0.1:0,127.0.0.1:0", lines=2))

    def test_psctl(self):
        def attempt(files):
            done = subprocess.run([*PREFIX, PSCTL, "-t", "%s:%d" % psd.address(), "ping"], capture_output=True, text=True,
                                  env=environment(), timeout=WAIT_S, check=False, preexec_fn=limited(files))
            self.assertEqual(done.returncode, 0 if done.stderr == "" else 1, done.stderr)
            return done.stderr or None
        with Psd("--listen", "127.0.0.1:0") as psd:
            self.smallest(attempt)

    def test_pstrain(self):
        for flags in (("--job_name", "ps"), ("--job_name", "worker", "--timeout", "1"), ("--local", "ps=1,workers=1")):
            cluster = () if flags[0] == "--local" else ("--ps_hosts", "127.0.0.1:1", "--worker_hosts", "127.0.0.1:2")
            for files in range(LEAST, 10):
                done = subprocess.run([*PREFIX, PSTRAIN, *cluster, *flags], capture_output=True, text=True, env=environment(),
                                      timeout=WAIT_S, check=False, preexec_fn=limited(files))
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("pstrain: ", done.stderr)


if __name__ == "__main__":
    sys.exit(main(unittest))
