#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 300
"""What README.md and docs/OPERATIONS.md tell people to type, typed: the lines are read from the page, and only ports, places and host
names are other ones."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from cluster import BUILD, Cluster, die_with_parent, free_port, main, path, run

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PSCTL = path("bin/psctl")
PSTRAIN = path("bin/pstrain")


def page(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as text:
        return text.read()


def block(text, behind):
    """The first shell block behind these words."""
    return re.search(r"```sh\n(.*?)```", text[text.index(behind):], re.S).group(1)


class Place(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="psd-docs-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def shell(self, script, cwd, timeout=300, **env):
        """A person's shell: it ends at the first line that fails, and all that it has started ends with it."""
        full = {k: v for k, v in os.environ.items() if k not in ("PSD_TARGET", "TF_CONFIG", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH")}
        full.update(HOME=self.folder, TMPDIR=self.folder, **env)
        with subprocess.Popen(["bash", "-euo", "pipefail", "-c", script], cwd=cwd, env=full, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent, start_new_session=True) as bash:
            try:
                out, err = bash.communicate(timeout=timeout)
            finally:
                try:
                    os.killpg(bash.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.assertEqual(bash.returncode, 0, out + err)
        return out


class Readme(Place):
    @unittest.skipIf(not BUILD.rstrip("/").endswith("release"), "make install is of the release")
    def test_outside_of_the_tree(self):
        """The lines below softmax.c, one after the other in one shell that begins in the tree and leaves it."""
        lines = block(page("README.md"), "the same text outside of the tree")
        self.assertEqual(lines.count("make "), 1)
        for port in ("2222", "2223", "2224"):
            self.assertIn(":" + port, lines)
            lines = lines.replace(":" + port, ":%d" % free_port())
        out = self.shell(lines, ROOT)
        self.assertRegex(out, r"(?m)^test accuracy 0\.9[0-9]*$")
        self.assertEqual(len(re.findall("is shutting down", out)), 2)

    def test_placement(self):
        """The sizes that it says of the demo's two ps tasks, with and without --placement balanced."""
        said = re.search(r"ps 0 has ([0-9.]+) KiB of values and slots, ps 1 has ([0-9.]+) KiB.*?balanced`.*?: ([0-9.]+) KiB and ([0-9.]+) KiB", page("README.md"), re.S)
        got = []
        for flags in ((), ("--placement", "balanced")):
            with Cluster(2) as c:
                code, out, err = run(PSTRAIN, "--ps_hosts", c.hosts, "--worker_hosts", "127.0.0.1:%d" % free_port(), "--job_name", "worker",
                                     "--task_index", "0", "--optimizer", "adam", "--steps", "2", *flags)
                self.assertEqual(code, 0, out + err)
                variables = json.loads(run(PSCTL, "-t", c.addresses[0], "vars", "--json")[1])["variables"]
                for task in (0, 1):  # value, and two slots of Adam
                    got.append(sum(3 * v["bytes"] for v in variables if v["task"] == "/job:ps/task:%d" % task and v["dtype"] == "float32") / 1024)
        self.assertEqual(["%.1f" % g for g in got], ["%.1f" % float(s) for s in said.groups()])


ROOT_OF_ITS_OWN = run("unshare", "-r", "true")[0] == 0


class Install(Place):
    @unittest.skipUnless(ROOT_OF_ITS_OWN, "ldconfig of another root needs a user namespace, and none can be made")
    def test_ldconfig(self):
        """Behind the install: the loader's cache has the libraries then, by the name that programs are linked with."""
        lines = block(page("docs/OPERATIONS.md"), "## Install").splitlines()
        self.assertRegex(lines[0], r"^sudo make install\b")
        self.assertRegex(lines[1], r"^sudo ldconfig\b")
        root = os.path.join(self.folder, "root")
        os.makedirs(os.path.join(root, "etc"))
        subprocess.run(["cp", "-R", path("stage") + "/.", root], check=True)
        with open(os.path.join(root, "etc/ld.so.conf"), "w", encoding="utf-8") as file:
            file.write("/usr/local/lib\n")
        ldconfig = ["unshare", "-r", "/sbin/ldconfig", "-r", root]
        listed = subprocess.run([*ldconfig, "-p"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
        self.assertNotIn("libpsworker.so.0", listed)
        subprocess.run(ldconfig, check=True)
        listed = subprocess.run([*ldconfig, "-p"], stdout=subprocess.PIPE, text=True, check=True).stdout
        for name in ("libpsd.so.0", "libpsworker.so.0"):
            self.assertRegex(listed, r"%s .* => /usr/local/lib/%s" % (re.escape(name), re.escape(name)))


if __name__ == "__main__":
    sys.exit(main(unittest))
