#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-transport: plain (it has keys of its own)
"""psctl key: what key files have after each action, who may read them, and that no answer has a secret."""
import glob
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import unittest

from cluster import SANITIZED, main, path, run

PSCTL = path("bin/psctl")
LINE = re.compile(r"([\w.-]+) ([0-9a-f]{8}) (\w+) ([0-9a-f]{64}) (use|accept)((?: until=[0-9-]{10})?(?: cluster=[\w.-]+)?)")


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="psd-keys-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file = os.path.join(folder.name, "psd.keys")
        self.said = []  # all that psctl has printed
        self.secrets = set()
        self.addCleanup(self.no_secret_was_said)

    def no_secret_was_said(self):
        text = "\n".join(self.said)
        for secret in self.secrets:
            for at in range(0, 64, 8):
                self.assertNotIn(secret[at:at + 8], text)

    def run_psctl(self, *args, **env):
        code, out, err = run(PSCTL, *args, env={"HOME": self.folder, "PSD_KEY_FILE": "", **env})
        self.said += [out, err]
        if os.path.exists(self.file):
            self.secrets |= {found[3] for found in self.lines()}
        return code, out, err

    def psctl(self, *args, **env):
        code, out, err = self.run_psctl(*args, **env)
        self.assertEqual((code, err), (0, ""), out)
        return out

    def refused(self, *args, says, code=1, **env):
        before = self.text() if os.path.exists(self.file) else None
        got, out, err = self.run_psctl(*args, **env)
        self.assertEqual((got, out), (code, ""), err)
        self.assertIn(says, err)
        self.assertEqual(before, self.text() if os.path.exists(self.file) else None)

    def key(self, action, *args, **env):
        return self.psctl("key", action, *args, "--file", self.file, **env)

    def text(self, name=None):
        with open(name or self.file, encoding="ascii") as file:
            return file.read()

    def lines(self, name=None):
        """(name, key id, role, secret, state, options) of each line."""
        found = [LINE.fullmatch(line) for line in self.text(name).splitlines()]
        self.assertTrue(all(found), self.text(name))
        return [match.groups() for match in found]

    def seen(self, name=None):
        return [(line[0], line[2], line[4], line[5]) for line in self.lines(name)]

    def mode(self, name):
        return stat.S_IMODE(os.stat(name).st_mode)


class New(Files):
    def test_a_cluster(self):
        """A key of each role; the rows of rights are lines of psd.conf, and the one of the role is marked."""
        os.umask(0)
        rows = ["allow = role:ps *,@cluster train member", "allow = role:worker *,@cluster train member", "allow = role:admin *,@cluster all"]
        for role, mine in (("ps", rows[0]), ("worker", rows[1]), ("admin", rows[2]),
                           ("monitor", "allow = role:monitor *,@cluster look")):
            out = self.key("new", "a-" + role, "--role", role)
            for row in rows:
                self.assertIn("\n" + row + "\n", out)
            self.assertEqual(re.findall(r"(?m)^# the role of this key:\n(.*)$", out), [mine])
            self.assertEqual(out.count("role:monitor"), 1 if role == "monitor" else 0)
            self.assertEqual("This line belongs to one host: who holds a line that several hosts share can play a ps" in out, role != "ps")
        self.assertEqual(self.seen(), [("a-" + role, role, "use", "") for role in ("ps", "worker", "admin", "monitor")])
        self.assertEqual(self.mode(self.file), 0o600)
        self.assertEqual(os.listdir(self.folder), ["psd.keys"])
        ids, secrets = zip(*((line[1], line[3]) for line in self.lines()))
        self.assertEqual((len(set(ids)), len(set(secrets))), (4, 4))

    def test_hosts(self):
        out = self.key("new", "w", "--role", "worker", "--hosts", "node1,node-2.example,3", "--until", "2099-12-31", "--cluster", "demo")
        names = ["w-node1", "w-node-2.example", "w-3"]
        self.assertEqual(self.seen(), [(name, "worker", "use", " until=2099-12-31 cluster=demo") for name in names])
        self.assertNotIn("belongs to one host", out)
        for hosts, says in (("a,a", "names 'a' twice"), ("a,,b", "a host is missing"), ("a,", "a host is missing"), (",a", "a host is missing"),
                            ("a b", "key name 'x-a b'"), ("a:1", "key name 'x-a:1'"), ("h" * 60, "key name of ")):
            self.refused("key", "new", "x", "--role", "worker", "--file", self.file, "--hosts", hosts, code=2, says=says)
        # one that is there refuses all of them
        self.refused("key", "new", "w", "--role", "worker", "--file", self.file, "--hosts", "new,3",
                     says="psd.keys:3: key 'w-3' is there: psctl key rotate w-3 adds a second one")

    def test_json(self):
        answer = json.loads(self.key("new", "w", "--role", "worker", "--hosts", "a,b", "--until", "2099-01-31", "--json"))
        self.assertEqual([key["name"] for key in answer["keys"]], ["w-a", "w-b"])
        self.assertEqual([key["key_id"] for key in answer["keys"]], [line[1] for line in self.lines()])
        self.assertEqual(answer["rows"], ["role:ps *,@cluster train member", "role:worker *,@cluster train member", "role:admin *,@cluster all"])
        listed = json.loads(self.key("list", "--json"))
        self.assertEqual((listed["file"], len(listed["keys"])), (self.file, 2))
        self.assertEqual(set(listed["keys"][0]), {"name", "key_id", "role", "state", "until", "expired", "line"})

    def test_refused(self):
        self.key("new", "w", "--role", "worker")
        self.key("new", "trainer", "--role", "worker")
        file = ("--file", self.file)
        for args, says, code in (
                (("new", "w", *file), "key new needs --role", 2),
                (("new", "w", "--role", "worker"), "and --file FILE", 2),
                (("new", "w", "--role", "worker", *file), "key 'w' is there: psctl key rotate w", 1),
                (("new", "a/b", "--role", "worker", *file), "key name 'a/b'", 2),
                (("new", "v" * 41, "--role", "worker", *file), "key name of 41 bytes: the most is 40", 2),
                (("new", "v", "--role", "workers", *file), "did you mean worker?", 2),
                (("new", "v", "--role", "worker", "--until", "tomorrow", *file), "is no day", 2),
                (("new", "v", "--role", "worker", "--until", "2020-01-01", *file), "is over", 2),
                (("new", "v", "--role", "worker", "--cluster", "a/b", *file), "cluster name 'a/b'", 2),
                (("new", "v", "--role", "worker", "--out", "x", *file), "key new takes no --out", 2),
                (("new", *file), "key new takes NAME", 2),
                (("list", "x", *file), "key list takes no argument", 2),
                (("list", "--role", "ps", *file), "key list takes no --role", 2),
                (("make", "x", *file), "key 'make': new, export, list, rotate, use or revoke", 2),
                (("export", "x", *file), "there is no key 'x'", 1),
                (("rotate", "trainers", *file), "there is no key 'trainers' (did you mean trainer?)", 1),
                (("use", "w/0", *file), "a key id has 8 digits", 2),
                (("revoke", "w/00000000", *file), "there is no key 'w/00000000'", 1),
                (("list",), "which key file: --file FILE", 2)):
            self.refused("key", *args, code=code, says=says)
        # a change finds no file by itself, least of all the caller's own one
        os.makedirs(os.path.join(self.folder, ".config/psd"))
        own = shutil.copy(self.file, os.path.join(self.folder, ".config/psd/key"))
        for action in ("rotate w", "use w", "revoke w --yes"):
            self.refused("key", *action.split(), code=2, says="changes a key file: --file FILE says which")
        self.assertEqual(self.text(), self.text(own))
        shutil.rmtree(os.path.join(self.folder, ".config"))
        os.chmod(self.file, 0o644)
        for action in ("list", "export w", "rotate w", "use w", "revoke w", "new x --role ps"):
            self.refused("key", *action.split(), *file, says="mode 0644 lets others read it, and it holds secrets: chmod 600")

    def test_at_once(self):
        """Processes that add to one file wait for each other."""
        running = [subprocess.Popen([PSCTL, "key", "new", "w%d" % i, "--role", "worker", "--file", self.file], stdout=subprocess.DEVNULL)
                   for i in range(12)]
        self.assertEqual([process.wait(timeout=600) for process in running], [0] * 12)
        self.assertEqual({line[0] for line in self.lines()}, {"w%d" % i for i in range(12)})
        self.assertEqual(os.listdir(self.folder), ["psd.keys"])


@unittest.skipIf(SANITIZED, "the shim comes before the sanitizer's own calls")
class Killed(Files):
    """psctl is killed before it syncs the new text, and before it syncs the directory that has it (tests/lib/shim/disk.c)."""

    def rotate(self, call):
        """psctl key rotate w, killed before this one of its syncs: what is there then, or None where there are not so many."""
        ask = os.path.join(self.folder, "ask")
        with open(ask, "w", encoding="ascii") as file:
            file.write("cut S %d" % call)
        shim = {"LD_PRELOAD": path("tests/lib/shim/disk.so"), "DISK_SHIM_DIR": os.path.join(self.folder, "keys"),
                "DISK_SHIM_LOG": os.path.join(self.folder, "log"), "DISK_SHIM_ASK": ask}
        code = self.run_psctl("key", "rotate", "w", "--file", self.file, **shim)[0]
        self.assertIn(code, (0, -signal.SIGKILL))
        return None if code == 0 else os.listdir(os.path.dirname(self.file))

    def test_nothing_is_lost_and_nothing_stays(self):
        os.mkdir(os.path.join(self.folder, "keys"))
        self.file = os.path.join(self.folder, "keys", "psd.keys")
        self.key("new", "w", "--role", "worker")
        self.key("new", "v", "--role", "worker")
        before, seen = self.text(), set()
        for call in range(1, 20):
            left = self.rotate(call)
            if left is None:
                break
            seen |= set(left)
            self.assertEqual({self.mode(os.path.join(self.folder, "keys", name)) for name in left}, {0o600})
            if self.text() != before:  # killed behind the new name
                self.assertEqual(self.seen()[2], ("w", "worker", "accept", ""))
                self.key("revoke", "w/" + self.lines()[2][1])
            self.assertEqual(self.text(), before)
        self.assertEqual((call, seen), (3, {"psd.keys", "psd.keys.psctl-new"}))
        self.assertEqual(self.seen()[2], ("w", "worker", "accept", ""))
        self.assertEqual(os.listdir(os.path.join(self.folder, "keys")), ["psd.keys"])


class Handed(Files):
    def test_export(self):
        """A client's file has its own lines, is its owner's, and is never written over."""
        self.key("new", "ps", "--role", "ps")
        self.key("new", "w", "--role", "worker", "--hosts", "a,b")
        to = os.path.join(self.folder, "key")
        self.assertIn("1 line of w-a, role worker: " + to, self.key("export", "w-a", "--out", to))
        self.assertEqual(self.lines(to), [self.lines()[1]])
        self.assertEqual(self.mode(to), 0o600)
        self.refused("key", "export", "w-b", "--file", self.file, "--out", to, says="there is such a file, and it is not overwritten")
        self.assertEqual(self.lines(to), [self.lines()[1]])
        code, out, err = self.run_psctl("key", "export", "ps", "--file", self.file, "--out", to + "2")
        self.assertEqual(code, 0, out)
        self.assertIn("a ps task needs the whole file", err)
        # what clients find by themselves
        self.assertIn("w-a", self.psctl("key", "list", PSD_KEY_FILE=to))
        os.makedirs(os.path.join(self.folder, ".config/psd"))
        os.rename(to, os.path.join(self.folder, ".config/psd/key"))
        self.assertIn("w-a", self.psctl("key", "list"))
        # NAME.key, here
        done = subprocess.run([PSCTL, "key", "export", "w-b", "--file", self.file], cwd=self.folder, capture_output=True, check=True)
        self.said.append(done.stdout.decode())
        self.assertEqual(self.lines(os.path.join(self.folder, "w-b.key")), [self.lines()[2]])

    def test_rotation(self):
        """Accepted first, then used, then alone: as docs/SECURITY.md tells it."""
        self.key("new", "w", "--role", "worker", "--cluster", "demo", "--until", "2099-12-31")
        self.key("new", "v", "--role", "worker")
        (_, old, *_), _ = self.lines()
        out = self.key("rotate", "w")
        new = self.lines()[2][1]
        self.assertIn("psctl key use w/" + new, out)
        self.assertIn("psctl key revoke w/" + old, out)
        self.assertEqual(self.seen()[2], ("w", "worker", "accept", " cluster=demo"))
        self.refused("key", "rotate", "w", "--file", self.file, says="has a second line already: end that rotation first")
        to = os.path.join(self.folder, "key")
        self.key("export", "w", "--out", to)
        self.assertEqual(self.lines(to), [self.lines()[0], self.lines()[2]])
        self.key("use", "w")
        self.assertEqual([(line[1], line[4]) for line in self.lines() if line[0] == "w"], [(old, "accept"), (new, "use")])
        before = self.text()
        self.assertIn("already", self.key("use", "w/" + new))
        self.assertEqual(self.text(), before)
        self.key("use", "w/" + old)  # back
        self.assertEqual([(line[1], line[4]) for line in self.lines() if line[0] == "w"], [(old, "use"), (new, "accept")])
        self.key("use", "w/" + new)
        self.assertIn("removed 1 line of w", self.key("revoke", "w/" + old))
        self.assertEqual(self.seen(), [("v", "worker", "use", ""), ("w", "worker", "use", " cluster=demo")])

    def test_the_runbook(self):
        """The commands of docs/SECURITY.md, "Replace a key", as they are printed there."""
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/SECURITY.md"), encoding="utf-8") as text:
            page = text.read().split("### Replace a key")[1].split("###")[0]
        commands = [line for line in re.findall(r"`([^`]+)`", page) if line.startswith("psctl key ")]
        self.assertEqual([line.split()[2] for line in commands], ["rotate", "use", "export", "revoke"])
        self.key("new", "w0", "--role", "worker")
        self.key("export", "w0", "--out", os.path.join(self.folder, "w0.key"))  # it is there when the key was handed out
        old = self.lines()[0][1]
        for line in commands:
            new = self.lines()[-1][1]
            line = re.sub(r"\bKEYID", new, line).replace("OLDKEYID", old)
            done = subprocess.run([PSCTL, *line.split()[1:]], cwd=self.folder, capture_output=True, text=True, check=False,
                                  stdin=subprocess.DEVNULL, env={**os.environ, "HOME": self.folder})
            self.said += [done.stdout, done.stderr]
            self.assertEqual(done.returncode, 0, line + done.stderr)
        self.assertEqual(self.seen(), [("w0", "worker", "use", "")])
        self.assertNotEqual(self.lines()[0][1], old)
        handed, = glob.glob(os.path.join(self.folder, "w0*new*.key"))
        self.assertEqual([line[4] for line in self.lines(handed)], ["accept", "use"])

    def test_revoke(self):
        self.key("new", "w", "--role", "worker", "--hosts", "a,b")
        self.key("rotate", "w-a")
        (_, old, *_), *_ = self.lines()
        code, out, err = self.run_psctl("key", "revoke", "w-a/" + old, "--file", self.file)
        self.assertEqual(code, 0, out)
        self.assertIn("says accept: nobody can dial with it before psctl key use w-a", err)
        self.refused("key", "export", "w-a", "--file", self.file, says="no line of 'w-a' says use and is good today")
        self.key("rotate", "w-b")
        self.assertIn("removed 2 lines of w-b", self.key("revoke", "w-b", "--yes"))
        self.key("revoke", "w-a")
        self.assertEqual(self.text(), "")
        code, out, err = self.run_psctl("key", "list", "--file", self.file)
        self.assertEqual((code, err), (0, "psctl: %s has no key\n" % self.file))

    def test_expired(self):
        with open(self.file, "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write("w 00000001 worker %s use until=2020-02-29\n" % ("5a" * 32))
        self.assertRegex(self.key("list"), r"(?m)^w +00000001 +worker +use +2020-02-29 \(over\) +-$")
        self.refused("key", "export", "w", "--file", self.file, says="says use and is good today")
        self.key("rotate", "w")  # an expired line is not in the way
        self.assertEqual(self.seen()[1], ("w", "worker", "accept", ""))


if __name__ == "__main__":
    raise SystemExit(main(unittest))
