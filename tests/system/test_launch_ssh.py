#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 240
"""pstrain launch: a cluster over ssh, against a local sshd; what ends what; bad files of hosts."""
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import die_with_parent, free_port, main, path, run

PSTRAIN = path("bin/pstrain")
SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin")
ME = pwd.getpwuid(os.getuid()).pw_name


def alive(word):
    return subprocess.run(["pgrep", "-f", word], capture_output=True, check=False).returncode == 0


class Files(unittest.TestCase):
    def refused(self, text, says, code=2, flags=()):
        with tempfile.NamedTemporaryFile("w") as f:
            f.write(text)
            f.flush()
            got, out, err = run(PSTRAIN, "launch", "--hosts", f.name, "--ssh", "/bin/false", *flags, "--", "true")
            self.assertEqual((got, out), (code, ""), err)
            self.assertIn(says, err)

    def test_bad_files(self):
        for text, says in (("a ps=1\nb\na worker=1\n", ":3: host 'a' is in it twice"), ("a\n", "no host has ps=N"), ("", "no host has ps=N"),
                           ("a ps=x\n", ":1: 'ps=x'"), ("a ps=-1\n", "'ps=-1'"), ("a ps=1 gpu=2\n", "'gpu=2'"), ("a ps=99999\n", "'ps=99999'"),
                           ("-oProxyCommand=x ps=1\n", "is no host"), ("a$(x) ps=1\n", "is no host"), ("a ps=1 address=;x\n", "'address=;x'"),
                           ("a ps=1000\nb ps=1000\n", ":2: /job:ps/task:1024: a cluster has at most 1024 tasks"),
                           ("a ps=1 ps=2\n", ":1: 'ps=2': a line is"), ("a ps=1 address=b address=c\n", ":1: 'address=c': a line is"),
                           ("a ps=1\nb\0 worker=1\n", ":2: the line has a NUL byte")):
            self.refused(text, says)

    def test_addresses(self):
        """What psd would refuse at each host is refused before a host is asked."""
        for text, says in (("a ps=1\nroot@a worker=1\n", ":2: address 'a:2222' is given twice: /job:ps/task:0 and /job:worker/task:0"),
                           ("a ps=1\nA worker=1\n", ":2: address 'A:2222' is given twice"),
                           ("a ps=1 address=x\nb address=x\n", ":2: address 'x:2222' is given twice"),
                           ("a:22 ps=1\n", ":1: /job:ps/task:0: address '[a:22]:2222': not an IPv6 address"),
                           ("a@ ps=1\n", ":1: /job:ps/task:0: address ':2222'"), ("a ps=1 address=.x\n", ":1: /job:ps/task:0: address '.x:2222'")):
            self.refused(text, says)
        self.refused("a ps=1 worker=2\n", ":1: /job:worker/task:1: address 'a:65536'", flags=("--base_port", "65534"))
        self.refused("a ps=1\n", "--directory_port 3000 and --base_port 4000 are both given", flags=("--directory_port", "3000", "--base_port", "4000"))
        # with port 0 two names of one host are no two addresses; an IPv6 address needs no brackets
        self.refused("a ps=1\nroot@a worker=1\n", "ended with status 1", code=1, flags=("--directory_port", "3000"))
        self.refused("::1 ps=1\n[::1] worker=1\n", ":2: address '[::1]:2222' is given twice")

    def test_command_line(self):
        for args, says in ((("--", "true"), "needs --hosts"), (("--hosts", "f"), "missing behind --"), (("--hosts", "f", "true"), "behind --"),
                           (("--hots", "f", "--", "true"), "--hosts")):
            code, out, err = run(PSTRAIN, "launch", *args)
            self.assertEqual((code, out), (2, ""), err)
            self.assertIn(says, err)
        for file, says in (("/nowhere", "--hosts /nowhere: No such file"), ("/tmp", "--hosts /tmp: it cannot be read")):
            code, out, err = run(PSTRAIN, "launch", "--hosts", file, "--", "true")
            self.assertEqual((code, out), (1, ""), err)
            self.assertIn(says, err)
        code, out, _ = run(PSTRAIN, "launch", "--help")
        self.assertEqual(code, 0)
        self.assertIn("--base_port", out)

    def test_no_ssh(self):
        self.refused("a ps=1\n", "ended with status 1", code=1)


@unittest.skipUnless(SSHD and shutil.which("ssh"), "sshd is missing: apt-get install openssh-server openssh-client")
class Ssh(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        at = cls.folder.name
        cls.port = free_port()
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", at + "/" + name], check=True)
        shutil.copy(at + "/user.pub", at + "/authorized")
        with open(at + "/sshd_config", "w", encoding="ascii") as f:
            f.write("ListenAddress 127.0.0.1:%d\nHostKey %s/host\nAuthorizedKeysFile %s/authorized\nStrictModes no\nPidFile none\n"
                    "UsePAM no\nPasswordAuthentication no\nMaxStartups 100\nPermitRootLogin prohibit-password\n" % (cls.port, at, at))
        if os.getuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)
        cls.sshd = subprocess.Popen([SSHD, "-D", "-e", "-f", at + "/sshd_config"], stderr=subprocess.PIPE, text=True,
                                    preexec_fn=die_with_parent)
        while "listening" not in (line := cls.sshd.stderr.readline()):
            assert line, "sshd does not start"
        cls.errors = open(os.devnull, "w", encoding="ascii")
        with open(at + "/config", "w", encoding="ascii") as f:
            f.write("Host h0 h1 h2\n HostName 127.0.0.1\n Port %d\n User %s\n IdentityFile %s/user\n IdentitiesOnly yes\n"
                    " UserKnownHostsFile /dev/null\n StrictHostKeyChecking no\n LogLevel ERROR\n" % (cls.port, ME, at))
        with open(at + "/ssh", "w", encoding="ascii") as f:  # the user's configuration
            f.write('#!/bin/sh\nexec ssh -F %s/config "$@"\n' % at)
        os.chmod(at + "/ssh", 0o755)

    @classmethod
    def tearDownClass(cls):
        cls.sshd.kill()
        cls.sshd.wait()
        cls.sshd.stderr.close()
        cls.errors.close()
        cls.folder.cleanup()

    def command(self, hosts, *program, port=None):
        file = os.path.join(self.folder.name, "hosts")
        with open(file, "w", encoding="ascii") as f:
            f.write(hosts)
        return [PSTRAIN, "launch", "--hosts", file, "--ssh", self.folder.name + "/ssh", "--base_port", str(port or free_port()), "--", *program]

    def test_train(self):
        base = next(p for p in range(free_port(), 60000, 7) if self.is_free(p) and self.is_free(p + 1))
        hosts = "h0 address=127.0.0.1 ps=1\n# a comment\nh1 address=127.0.0.2 ps=1 worker=0\nh2 address=127.0.0.3 worker=2\n"
        code, out, err = run(*self.command(hosts, PSTRAIN, "--epochs", "1", "--exit_when_done", port=base), timeout=600)
        self.assertEqual(code, 0, out + err)
        self.assertIn("[worker/0] ", out)
        self.assertRegex(out, r"\[worker/0\] .*accuracy")

    @staticmethod
    def is_free(port):
        try:
            with socket.create_server(("127.0.0.1", port)), socket.create_server(("127.0.0.2", port)), socket.create_server(("127.0.0.3", port)):
                return True
        except OSError:
            return False

    def test_what_a_program_gets(self):
        script = ('echo "$TF_CONFIG"; stat -c %a "$PSD_KEY_FILE" "$(dirname "$PSD_KEY_FILE")"; grep -c "^[^#]" "$PSD_KEY_FILE"; pwd; '
                  'echo "$0" "$1"; dirname "$PSD_KEY_FILE" >&2')
        code, out, err = run(*self.command("h0 address=127.0.0.1 ps=1\nh1 address=127.0.0.2\n", "sh", "-c", script, "it's", 'a "b" $c', port=2300))
        self.assertEqual(code, 0, err)
        lines = out.splitlines()
        config = {name: json.loads(line) for name, _, line in (line.partition(" ") for line in lines) if line.startswith("{")}
        cluster = {"ps": ["127.0.0.1:2300"], "worker": ["127.0.0.2:2300"]}
        self.assertEqual(config, {"[%s/0]" % job: {"cluster": cluster, "task": {"type": job, "index": 0}} for job in cluster})
        for name in ("ps/0", "worker/0"):
            for said in ("600", "700", "1", os.getcwd(), "it's a \"b\" $c"):
                self.assertIn("[%s] %s" % (name, said), lines)
        for line in err.splitlines():
            self.assertFalse(os.path.exists(line.split()[-1]), line)  # the key's directory is gone with its program

    def test_the_first_failure_ends_all(self):
        mark = "launch-test-%d-a" % os.getpid()
        script = 'case "$TF_CONFIG" in *worker\\",\\"index\\":1*) exit 7;; esac; exec -a %s sleep 1000' % mark
        began = time.monotonic()
        code, _, err = run(*self.command("h0 ps=1\nh1 worker=2\n", "bash", "-c", script), timeout=600)
        self.assertEqual(code, 7, err)
        self.assertIn("worker/1 at h1 ended with status 7", err)
        self.assertLess(time.monotonic() - began, 60)
        self.assertFalse(alive(mark))

    def test_ends_with_its_children(self):
        for how, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)):
            mark = "launch-test-%d-%d" % (os.getpid(), how)
            folder = os.path.join(self.folder.name, mark)
            os.mkdir(folder)
            script = "(exec -a %s sleep 1000) & trap 'kill $!; touch %s/$$; exit 0' TERM; echo runs; wait" % (mark, folder)
            process = subprocess.Popen(self.command("h0 ps=1\nh1 worker=2\n", "bash", "-c", script),
                                       stdout=subprocess.PIPE, stderr=self.errors, text=True, preexec_fn=die_with_parent)
            for _ in range(3):
                self.assertIn("runs", process.stdout.readline())
            process.send_signal(how)
            process.stdout.close()
            self.assertEqual(process.wait(600), code)
            end = time.monotonic() + 600
            while alive(mark):
                self.assertLess(time.monotonic(), end, how)
                time.sleep(0.05)  # sleep: sshd tells nobody when its session has ended
            self.assertEqual(len(os.listdir(folder)), 3, "SIGTERM comes first")

    def test_a_host_that_is_not_there(self):
        code, _, err = run(*self.command("h0 ps=1\nnowhere.invalid worker=1\n", "sleep", "1000"), timeout=600)
        self.assertEqual(code, 255, err)
        self.assertIn("worker/0 at nowhere.invalid", err)


if __name__ == "__main__":
    sys.exit(main(unittest))
