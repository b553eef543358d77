#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""psctl's help, man page and completion say the same: each verb and each flag is in all three, with its verb."""
import os
import re
import shutil
import subprocess
import sys
import unittest

from cluster import Cluster, main, path, run

PSCTL = path("bin/psctl")
MAN = "docs/man/psctl.1"
COMPLETION = "scripts/completions/psctl.bash"


def help_of(*verb):
    code, out, err = run(PSCTL, *verb, "--help")
    if code != 0:
        raise RuntimeError(out + err)
    return out


def flags_of(text):
    return set(re.findall(r"^ {2}(?:-\w, | {4})--([a-z0-9_]+)", text, re.M))


def read(name):
    with open(name, encoding="utf-8") as text:
        return text.read()


VERBS = re.findall(r"^ {2}([a-z-]+)", help_of().split("\n\n")[1], re.M)
COMMON = flags_of(help_of().split("Flags of all verbs:")[1].split("Flags of some")[0])
FLAGS = {verb: flags_of(help_of(verb)) - COMMON for verb in VERBS}


class Docs(unittest.TestCase):
    def test_there_is_something_to_compare(self):
        self.assertIn("status", VERBS)
        self.assertEqual(COMMON, {"target", "key_file", "tls_cert", "tls_key", "tls_ca", "timeout", "json", "help", "version"})
        self.assertIn("npy", FLAGS["get"])
        self.assertEqual(flags_of(help_of()), COMMON.union(*FLAGS.values()))

    def test_man_page(self):
        page = read(MAN)
        common = page.split(".Ss Flags of all verbs")[1].split(".Ss Verbs that look")[0]
        some = page.split(".Ss Flags of some verbs")[1].split(".Sh ENVIRONMENT")[0]
        items = {}  # verb -> its .It lines
        for line in page.split(".Ss Verbs that look")[1].split(".Ss Flags of some verbs")[0].splitlines():
            if line.startswith(".It Cm "):
                items.setdefault(line.split()[2], []).append(line)
        self.assertEqual(sorted(items), sorted(VERBS))
        for verb in VERBS:
            self.assertEqual(set(re.findall(r"Fl \\-(\w\w+)", " ".join(items[verb]))), FLAGS[verb], verb)
        self.assertEqual(set(re.findall(r"^\.It Fl .*?\\-(\w\w+)", common, re.M)), COMMON)
        self.assertEqual(set(re.findall(r"^\.It Fl .*?\\-(\w\w+)", some, re.M)), set().union(*FLAGS.values()))
        self.assertIn(".Li grpc://", page)
        self.assertIn("grpc://HOST:PORT", help_of())
        for text in (".Sh EXIT STATUS", ".Sh ENVIRONMENT", ".Sh EXAMPLES", "PSD_TARGET"):
            self.assertIn(text, page)

    def test_man_page_renders(self):
        if shutil.which("groff") is None:
            self.skipTest("no groff")
        done = subprocess.run(["groff", "-mdoc", "-Tutf8", "-ww", "-z", MAN], capture_output=True, text=True, check=False, timeout=600)
        if "can't open" in done.stderr or "doc.tmac" in done.stderr:
            self.skipTest("groff without the mdoc macros")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_completion_file_is_what_psctl_prints(self):
        self.assertEqual(read(COMPLETION), run(PSCTL, "completion", "bash")[1], "make it anew: psctl completion bash >" + COMPLETION)


class Completion(unittest.TestCase):
    """The script, asked as bash asks it: the line up to the cursor, broken at blanks and colons."""

    def complete(self, line):
        script = ('source "$1"; COMP_LINE=$2; COMP_POINT=${#2}; COMP_WORDBREAKS=$\' \\t\\n:=\'; _psctl; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        env = dict(os.environ, PATH=os.path.dirname(PSCTL) + ":" + os.environ["PATH"])
        env.pop("PSD_TARGET", None)
        done = subprocess.run(["bash", "-u", "-c", script, "bash", COMPLETION, line], capture_output=True, text=True, check=False,
                              env=env, timeout=600)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return sorted(done.stdout.split())

    def told(self, line, *names):
        """Names of the cluster, which has a second to tell them. On a busy machine that is too short, for some or for all."""
        for _ in range(20):
            found = self.complete(line)
            if not set(found) < set(names):
                break
        self.assertEqual(found, list(names))

    def test_verbs_and_flags(self):
        self.assertEqual(self.complete("psctl "), sorted(VERBS))
        self.assertEqual(self.complete("psctl -t a:1 --json sta"), ["status"])
        self.assertEqual(self.complete("psctl --ti"), ["--timeout"])
        for verb in VERBS:
            self.assertEqual(self.complete("psctl %s --" % verb), sorted("--" + f for f in FLAGS[verb] | COMMON), verb)
        self.assertEqual(self.complete("psctl completion "), ["bash"])
        self.assertEqual(self.complete("psctl help "), sorted(VERBS))
        self.assertEqual(self.complete("psctl -t 127.0.0.1:1 config "), ["get", "set"])
        self.assertEqual(self.complete("psctl config set log_level "), ["debug", "error", "info", "off", "warn"])
        self.assertEqual(self.complete("psctl config set drain "), [])
        self.assertEqual(self.complete("psctl get --npy "), [])  # bash's own: files
        self.assertEqual(self.complete("psctl --timeout "), [])

    def test_names_come_from_the_cluster(self):
        with Cluster(2) as cluster:
            self.assertEqual(run(path("examples/softmax"), "--ps_hosts", cluster.hosts, "--steps", "2")[0], 0)
            line = "psctl -t %s " % cluster.addresses[0]
            self.told(line + "get ", "b", "global_step", "w")
            self.told(line + "set gl", "global_step")
            self.assertEqual(run(path("examples/queue"), cluster.addresses[0], "put", "1")[0], 0)
            self.told(line + "queue nu", "numbers")
            self.told(line + "reset ", "localhost")
            self.told(line + "vars --container lo", "localhost")
            self.told(line + "config set log_", "log_level")
            self.told(line + "config get dr", "drain")
            self.told(line + "shutdown ", "/job:ps/task:0", "/job:ps/task:1")
            self.told(line + "shutdown /job:ps/ta", "ps/task:0", "ps/task:1")  # behind the colon
            self.told("psctl --target=%s waits --task /job:ps/task:" % cluster.addresses[1], "0", "1")

    def test_nobody_there(self):
        self.assertEqual(self.complete("psctl -t 127.0.0.1:1 get "), [])


if __name__ == "__main__":
    sys.exit(main(unittest))
