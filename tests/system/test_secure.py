#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-transport: plain (it has keys of its own)
# test-timeout: 300
"""A cluster whose tasks and clients hold keys: who is let in, who is not and what both sides are told, rotation and revocation, a man
in the middle, and no secret in anything that is printed."""
import contextlib
import json
import os
import re
import select
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from pyclient import (PAGE, Client, Closed, Conn, Refused as Denied, Secure as Socket, decode, encode_list, frame_bytes)

import keys
from cluster import SANITIZED, Cluster, die_with_parent, free_port, main, path, run
from daemon import Psd, WAIT_S
from keys import Key

PSCTL, PSTRAIN = path("bin/psctl"), path("bin/pstrain")
TRAIN = ("--model", "softmax", "--steps", "20", "--batch_size", "64")


class Secure(Cluster):
    """Cluster whose ps tasks have a key file; what they say is kept, not shown."""

    def __init__(self, count, key_file, workers=0, flags=()):
        super().__init__(count, workers=workers)
        self.key_file, self.flags = key_file, list(flags)

    def command(self, i):
        return [*super().command(i), "--log_level", "info", "--key_file", self.key_file, *self.flags]

    def shows(self, line):
        return "ERROR: " in line

    def log(self):
        return "".join(line for said in self.said if said for line in said)

    def wait_log(self, *words):
        end = time.monotonic() + WAIT_S
        while not all(word in self.log() for word in words):
            assert time.monotonic() < end, f"no {words} in {self.log()}"
            time.sleep(0.05)  # sleep: between two looks at what a thread reads

    def reload(self):
        for task in self.tasks:
            task.send_signal(signal.SIGHUP)


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir)
        self.ps, self.w0, self.w1 = Key("ps", "ps"), Key("w0", "worker"), Key("w1", "worker")
        self.admin, self.watch = Key("ann", "admin"), Key("watch", "monitor")
        self.server = self.file("psd.keys", self.ps, self.w0, self.w1, self.admin, self.watch)
        self.said = []

    def file(self, name, *lines):
        return keys.write(os.path.join(self.dir, name), *lines)

    def own(self, key, **change):
        """A client's file: a comment, and its own line, which is line 2."""
        return self.file(f"{key.name}.key", "# of one host\n", key.line(**change))

    def psctl(self, cluster, key_file, *verb, env=None):
        flags = ["--key_file", key_file] if key_file is not None else []
        address = cluster if isinstance(cluster, str) else cluster.addresses[0]
        done = run(PSCTL, "-t", address, *flags, *verb, env={"HOME": self.dir, **(env or {})})
        self.said += done[1:]
        return done

    def good(self, *args, **kwargs):
        code, out, err = self.psctl(*args, **kwargs)
        self.assertEqual(code, 0, out + err)
        return out

    def refused(self, cluster, key_file, *words, verb=("status",)):
        code, out, err = self.psctl(cluster, key_file, *verb)
        self.assertEqual(code, 1, out + err)
        for word in words:
            self.assertIn(word, err)
        return err

    def train(self, cluster, i, key, *flags):
        return subprocess.Popen(
            [PSTRAIN, "--ps_hosts", cluster.hosts, "--worker_hosts", "h:1,h:2", "--job_name", "worker", "--task_index", str(i),
             "--key_file", self.own(key), *TRAIN, *flags],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=die_with_parent)

    def ended(self, process, code=0):
        out = process.communicate(timeout=600)[0]
        self.said.append(out)
        self.assertEqual(process.returncode, code, " | ".join(reversed(out.splitlines())))  # a summary keeps one line, and its head
        return out

    def say(self, cluster, key, job, task, **more):
        """HELLO of a session as this task: the client, or how the refusal begins. For a key of role worker or monitor."""
        host, port = cluster.addresses[0].split(":")
        sock = Socket((host, int(port)), keys.write(os.path.join(self.dir, "said.key"), key))
        self.addCleanup(sock.close)
        client = Client(sock, crc=False)
        try:
            client.hello(job=job, task=task, **more)
        except Denied as error:
            return error.reply
        return client

    def posing(self, cluster):
        """A program with the key of w1 tells the directory that it is ps 1, and listens at an address of its own."""
        reply = self.say(cluster, self.w1, "ps", 1, role=1, life=7, address="127.0.0.1:9")
        self.assertEqual((reply.status, reply.reason), ("PERMISSION_DENIED", "IDENTITY"))
        for word in ("key:w1", "/job:ps/task:1", "needs a key of role ps"):
            self.assertIn(word, reply.text)

    def silent(self, cluster, *more):
        """Nothing that was said has a secret."""
        data = "".join(self.said + [cluster.log()]).encode(errors="surrogateescape")
        for key in (self.ps, self.w0, self.w1, self.admin, self.watch, *more):
            self.assertFalse(keys.found(key, data), key.name)


class LetIn(Case):
    def test_training(self):
        with Secure(2, self.server) as cluster:
            workers = [self.train(cluster, i, key, "--status_at_end") for i, key in enumerate((self.w0, self.w1))]
            self.assertIn("2 of 2 up", "".join([self.ended(worker) for worker in workers]))
            self.assertIn("2 of 2 up", self.good(cluster, self.own(self.admin), "status"))
            self.assertIn("softmax/biases", self.good(cluster, self.own(self.watch), "vars"))
            code, _, err = self.psctl(cluster, self.own(self.watch), "delete", "softmax/biases", "--yes")
            self.assertEqual(code, 1)
            self.assertIn("key:watch", err)
            self.good(cluster, self.own(self.admin), "reset", "--all", "--yes")
            self.silent(cluster)

    def test_where_a_key_is_found(self):
        own = self.own(self.admin)
        with Secure(1, self.server) as cluster:
            self.good(cluster, None, "status", env={"PSD_KEY_FILE": own})
            os.makedirs(os.path.join(self.dir, ".config", "psd"))
            shutil.copy(own, os.path.join(self.dir, ".config", "psd", "key"))
            self.good(cluster, None, "status")
            self.refused(cluster, "", "TLS")

    def test_a_cluster_of_its_own(self):
        """pstrain --local beside the key of another cluster, as a worker's host has it; with keys that it is given; and with a worker's."""
        own = os.path.join(self.dir, ".config", "psd")
        os.makedirs(own)
        shutil.copy(self.own(self.w0), os.path.join(own, "key"))
        local = (PSTRAIN, "--local", "ps=2,workers=1", *TRAIN, "--status_at_end")
        for flags in ((), ("--key_file", self.server)):
            code, out, err = run(*local, *flags, env={"HOME": self.dir})
            self.assertEqual(code, 0, out + err)
            self.assertIn("2 of 2 up", out)
        code, _, err = run(*local, env={"HOME": self.dir, "PSD_KEY_FILE": self.own(self.w0)})
        self.assertEqual(code, 1, err)
        self.assertIn("w0.key: no line of role ps says 'use'", err)

    def test_the_configuration_of_openssl_changes_nothing(self):
        """A file for all programs of the machine, with other versions and suites, or with nonsense."""
        for text in ("openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nMaxProtocol = TLSv1.2\n"
                     "Ciphersuites = TLS_AES_256_GCM_SHA384\nGroups = P-521\n", "openssl_conf = a\n[a\nproviders = none = b\n"):
            env = {"OPENSSL_CONF": self.file("openssl.cnf", text)}
            with Psd("--listen", "127.0.0.1:0", "--key_file", self.server, env=env) as psd:
                self.good("%s:%d" % psd.address(), self.own(self.admin), "status", env=env)
                psd.stop()

    def test_who_is_not_a_worker_is_none(self):
        """A monitor is no worker, and keeps none out; nor is a worker whose row lacks `member`; nobody is a ps task by HELLO."""
        rows = ("--allow", "role:ps *,@cluster train member", "--allow", "role:admin *,@cluster all", "--allow", "role:monitor *,@cluster look",
                "--allow", "key:w0 *,@cluster train member", "--allow", "key:w1 other*,@cluster train")
        with Secure(1, self.server, workers=0, flags=("--exit_when_done", *rows)) as cluster:
            for key, job, task in ((self.watch, "worker", 0), (self.w1, "worker", 0), (self.w1, "worker", 1), (self.w0, "ps", 0),
                                   (self.watch, "other", 9)):
                refused = self.say(cluster, key, job, task)
                self.assertEqual((refused.status, refused.reason), ("PERMISSION_DENIED", "IDENTITY"), (key.name, job, task))
            self.assertNotIn("key:watch", self.good(cluster, self.own(self.admin), "workers"))
            plain = self.say(cluster, self.w1, "", 0)
            for op, meta in (("JOB_DONE", None), ("BARRIER", {"count": 2})):
                reply = plain.ask(op, meta, [{"container": "", "name": "b"}] if meta else None, good=False)
                self.assertEqual(reply.status, "PERMISSION_DENIED", op)
                self.assertIn("allow key:w1 @cluster member", reply.text)
            self.ended(self.train(cluster, 0, self.w0, "--steps", "3", "--worker_hosts", "h:1"))
            self.assertEqual(len(re.findall(r"ev=audit.* what=refused .*may not be", cluster.log())), 5)

    def test_a_unix_socket_needs_no_key(self):
        at = os.path.join(self.dir, "s")
        with Psd("--listen", "127.0.0.1:0,unix:" + at, "--key_file", self.server) as psd:
            self.good("unix:" + at, "", "status")
            psd.stop()

    def test_in_one_process(self):
        for key in (self.w0, self.admin):
            done = run(path("examples/hello_local"), env={"PSD_KEY_FILE": self.own(key), "HOME": self.dir})
            self.assertEqual(done[0], 0, done)

    def test_a_program_that_is_a_ps(self):
        """Its session shows the key of role ps, whichever comes first in its file; who has a worker's alone is none."""
        hosts = ["127.0.0.1:%d" % free_port() for _ in range(2)]
        for keys_there, code in (((self.w0, self.admin, self.ps), 0), ((self.w0,), 1)):
            env = {"PSD_KEY_FILE": self.file("mixed.keys", *keys_there), "HOME": self.dir}
            done = run(path("examples/shared_queue"), f"worker={hosts[0]};ps={hosts[1]}", "1", "0", env=env)
            self.assertEqual(done[0], code, done)
        self.assertIn("key:w0 may not be /job:ps/task:0", done[2])

    def test_tasks_of_other_jobs_serve(self):
        with Secure(1, self.server, workers=1) as cluster:
            self.good(cluster.worker_addresses[0], self.own(self.admin), "status")
            cluster.kill(1, signal.SIGTERM)
            refused = [line for line in cluster.log().splitlines() if "refused" in line]
            self.assertEqual([line for line in refused if "reason=ended" not in line], [])  # its end may meet a handshake


class WorkersOfOneLine(Secure):
    """Each worker's file has its own line only, as the README's cluster has it."""

    def __init__(self, case, count, lines):
        super().__init__(count, case.server, workers=len(lines))
        self.own = [case.own(line) for line in lines]

    def command(self, i):
        command = super().command(i)
        if i >= len(self.tasks) - len(self.own):
            command[command.index("--key_file") + 1] = self.own[i - (len(self.tasks) - len(self.own))]
        return command


class RefusedByATask(Case):
    def test_status(self):
        """A worker whose file has no line of who asks is up, and not `down`."""
        with WorkersOfOneLine(self, 1, [self.w0]) as cluster:
            cluster.wait_log("ev=task_connected task=/job:ps/task:0 peer=/job:worker/task:0")
            code, out, err = self.psctl(cluster, self.own(self.admin), "status")
            self.assertEqual(code, 0, out + err)
            self.assertIn("1 of 2 up, 1 refused", out)
            self.assertRegex(out, r"(?m)^/job:worker/task:0 +\S+ +refused ")
            self.assertRegex(err, r"/job:worker/task:0 \(\S+\) does not let this program in: .*ann\.key:2: key ann was refused by")
            self.assertNotIn("down", out + err)
            answer = json.loads(self.good(cluster, self.own(self.admin), "--json", "status"))
            self.assertEqual([(t["up"], t.get("refused")) for t in answer["tasks"]], [(True, None), (False, True)])
            self.assertEqual((answer["total"]["up"], answer["total"]["refused"]), (1, 1))
            self.refused(cluster, self.own(self.admin), "does not let this program in", verb=("status", "/job:worker/task:0"))
            self.silent(cluster)

    def test_without_a_right(self):
        self.server = self.file("psd.keys", self.ps, self.watch)
        with Secure(1, self.server, flags=["--allow", "key:watch * look"]) as cluster:
            for verb in ("status", "vars"):
                code, out, err = self.psctl(cluster, self.own(self.watch), verb)
                self.assertEqual(code, 1, out)
                self.assertIn("does not let this program in: PERMISSION_DENIED", err)
                self.assertNotIn("down", out + err)
            cluster.wait_log("ev=no_administrator")

    def test_a_server_with_certificates_only(self):
        folder = os.path.join(self.dir, "home")
        os.makedirs(folder)
        for args in (("init", "--cluster", "psd"), ("add", "--task", "ps:0")):
            self.assertEqual(run(PSCTL, "tls", *args, "--dir", folder)[0], 0)
        with Psd("--listen", "127.0.0.1:0", "--tls_cert", folder + "/ps-0.pem", "--tls_key", folder + "/ps-0.key", "--tls_ca",
                 folder + "/ca.pem") as psd:
            own = self.own(self.admin)
            self.refused("%s:%d" % psd.address(), own, "answered with a certificate instead of the key", own + ":2: key ann", "its log")
            psd.stop()

    def test_a_client_without_our_suites(self):
        if shutil.which("openssl") is None:
            self.skipTest("openssl is not installed")
        with Secure(1, self.server) as cluster:
            subprocess.run(["openssl", "s_client", "-connect", cluster.addresses[0], "-tls1_3", "-ciphersuites", "TLS_AES_256_GCM_SHA384"],
                           stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=WAIT_S)
            cluster.wait_log("reason=other_service", "it offers no suite that is spoken here")

    def test_the_table_of_reasons(self):
        """docs/SECURITY.md has each reason of common/net/tls/tls.h."""
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
        with open(os.path.join(root, "common/net/tls/tls.h"), encoding="utf-8") as text:
            names = set(re.findall(r'(?m)^    X\(\w+, "(\w+)"\)', text.read())) - {"none"}
        with open(os.path.join(root, "docs/SECURITY.md"), encoding="utf-8") as text:
            table = text.read().split("| `reason=` |")[1].split("\n\n")[0]
        self.assertGreater(len(names), 20)
        self.assertEqual(names - set(re.findall(r"`(\w+)`", table)), set())

    def test_a_uid_of_another_namespace(self):
        """All users that a user namespace does not map look like one: that one is nobody."""
        if os.geteuid() != 0 or run("unshare", "--user", "--map-root-user", "true")[0] != 0:
            self.skipTest("only root can ask as another user, and a user namespace is needed")
        os.chmod(self.dir, 0o755)
        at = os.path.join(self.dir, "s")
        command = ["unshare", "--user", "--map-root-user", path("bin/psd"), "--listen", "unix:" + at, "--unix_mode", "0666",
                   "--allow", "uid:65534 *,@cluster all", "--log_level", "info"]
        with subprocess.Popen(command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              preexec_fn=die_with_parent) as psd:
            try:
                self.assertIn("ready", psd.stdout.readline())
                for uid in (1234, 65534):
                    done = subprocess.run([PSCTL, "-t", "unix:" + at, "status"], user=uid, group=uid, extra_groups=[], text=True,
                                          capture_output=True, check=False, stdin=subprocess.DEVNULL, env={"HOME": "/"}, timeout=WAIT_S)
                    self.assertEqual(done.returncode, 1, done.stdout)
                    self.assertIn("its uid is not mapped in the task's user namespace", done.stderr)
                self.good("unix:" + at, "", "status")
            finally:
                psd.terminate()


class Refused(Case):
    def test_the_audit_has_it_at_every_level(self):
        stranger = Key("eve", "worker")
        with Secure(1, self.server, flags=("--log_level", "error")) as cluster:
            self.refused(cluster, self.own(stranger), "eve")
            cluster.wait_log("ev=audit", "what=refused", "reason=unknown_key", "address=127.0.0.1:")
            self.assertNotIn("ev=tls_refused", cluster.log())
            self.assertEqual(self.say(cluster, self.watch, "worker", 0).status, "PERMISSION_DENIED")
            cluster.wait_log("who=key:watch", "may not be /job:worker/task:0")
            self.good(cluster, self.own(self.admin), "config", "set", "log_level", "warn")
            cluster.wait_log("what=CONFIG_SET", "who=key:ann", 'of="log_level = warn"')
            self.silent(cluster, stranger)

    def test_without_a_key_and_with_a_wrong_one(self):
        stranger, other = Key("eve", "worker"), Key("w0", "worker")
        other.key_id = self.w0.key_id
        with Secure(1, self.server) as cluster:
            self.refused(cluster, "", "TLS", "key")
            cluster.wait_log("ev=tls_refused", "reason=plain_text")
            unknown = self.own(stranger)
            err = self.refused(cluster, unknown, unknown + ":2", "eve", "log")
            self.assertNotIn("is a psd running", err)
            cluster.wait_log("reason=unknown_key", "eve")
            wrong = self.file("wrong.key", other)
            self.refused(cluster, wrong, wrong + ":1", "w0", "log")
            cluster.wait_log("reason=wrong_key")
            posing = self.file("role.key", self.w0.line(role="admin"))
            self.refused(cluster, posing, posing + ":1", "log")
            cluster.wait_log("reason=other_role")
            elsewhere = self.file("cluster.key", self.w0.line(cluster="elsewhere"))
            self.refused(cluster, elsewhere, elsewhere + ":1", "log")
            cluster.wait_log("reason=other_cluster")
            self.silent(cluster, stranger, other)

    def test_expired(self):
        self.file("psd.keys", self.ps, self.w0.line(until="2020-01-31"), self.admin)
        with Secure(1, self.server) as cluster:
            own = self.own(self.w0)
            self.refused(cluster, own, own + ":2", "log")
            cluster.wait_log("reason=expired_key")
            late = self.file("late.key", self.w0.line(until="2020-01-31"))
            code, out, err = self.psctl(cluster, late, "status")
            self.assertNotEqual(code, 0, out)
            self.assertIn(late + ": no line says 'use' and is still good: line 1, key w0, was good until 2020-01-31", err)
        over = self.file("over.keys", *(Key(f"w{i}", "worker").line(until=f"2020-01-0{i + 1}") for i in range(5)), self.w0.line(use="accept"))
        code, _, err = run(path("bin/psd"), "--listen", "127.0.0.1:0", "--key_file", over)
        self.assertIn(code, (1, 2), err)
        for words in ("line 1, key w0, was good until 2020-01-01; line 2, key w1, was good until 2020-01-02; line 3, key w2,", "; and 2 more"):
            self.assertIn(words, err)

    def test_plain_server(self):
        with Psd("--listen", "127.0.0.1:0") as psd:
            address = "%s:%d" % psd.address()
            own = self.own(self.admin)
            self.refused(address, own, "TLS")
            psd.wait_log("reason=tls_on_plain")
            psd.stop()

    def open_file(self):
        rights = self.file("rights", "role:admin *,@cluster all\n")
        os.chmod(rights, 0o666)
        return rights

    def test_what_psd_refuses_at_its_start(self):
        for args, words in ((["--listen", "0.0.0.0:0"], ["psctl key new", "key_file = "]),
                            (["--key_file", os.path.join(self.dir, "none")], ["none", "No such file"]),
                            (["--key_file", self.file("bad.keys", "w0 zz\n")], ["bad.keys:1"]),
                            (["--tls_cert", "/dev/null"], ["tls"]),
                            (["--allow", "role:worker * trian"], ["trian", "train"]),
                            (["--key_file", self.server, "--rights_file", self.open_file()], ["rights", "0666", "chmod go-w"])):
            with self.subTest(args=args):
                code, _, err = run(path("bin/psd"), *args)
                self.assertIn(code, (1, 2), err)
                for word in words:
                    self.assertIn(word, err)
        os.chmod(self.server, 0o644)
        code, _, err = run(path("bin/psd"), "--listen", "127.0.0.1:0", "--key_file", self.server)
        self.assertEqual(code, 2, err)
        self.assertIn("chmod", err)

    def test_a_credential_of_systemd(self):
        """LoadCredential hands over a file of the unit's user, 0400, or one of root that an access list lets the user read: 0440."""
        if os.geteuid() != 0:
            self.skipTest("only root can start psd as another user")
        nobody = 65534
        folder = os.path.join(self.dir, "credentials")
        os.mkdir(folder)
        handed = shutil.copy(self.server, os.path.join(folder, "psd.keys"))
        os.chmod(self.dir, 0o755)
        env = {**os.environ, "CREDENTIALS_DIRECTORY": folder, "PSD_KEY_FILE": handed}
        command = [path("bin/psd"), "--listen", "127.0.0.1:0", "--log_level", "off"]
        for owner, mode, lets_in in ((nobody, 0o400, True), (0, 0o440, True), (0, 0o444, False), (nobody, 0o440, False), (1, 0o440, False)):
            with self.subTest(owner=owner, mode=oct(mode)):
                os.chown(handed, owner, nobody)
                os.chmod(handed, mode)
                psd = subprocess.Popen(command, user=nobody, group=nobody, extra_groups=[], env=env, text=True, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=die_with_parent)
                self.addCleanup(psd.stderr.close)
                self.addCleanup(psd.stdout.close)
                ready = psd.stdout.readline()
                if lets_in:
                    self.assertIn("ready: psd://127.0.0.1:", ready)
                    self.good(ready.split("psd://")[1].strip(), self.own(self.admin), "status")
                    psd.terminate()
                self.assertEqual(psd.wait(WAIT_S), 0 if lets_in else 2)
                self.assertEqual(ready == "" and handed in psd.stderr.read(), not lets_in)

    def test_every_address_with_a_key(self):
        with Psd("--listen", "0.0.0.0:0", "--key_file", self.server) as psd:
            address = "127.0.0.1:%d" % psd.address()[1]
            self.assertNotIn("insecure", self.good(address, self.own(self.admin), "status"))
            self.refused(address, self.own(Key("stranger", "worker")), "its log says why")
            text = self.good(address, self.own(self.admin), "status")
            self.assertIn("did not let anybody in, 0 are under way", text)
            task, = json.loads(self.good(address, self.own(self.admin), "status", "--json"))["tasks"]
            self.assertEqual(task["handshakes_under_way"], 0)
            self.assertGreaterEqual(task["handshakes_done"], 3)
            self.assertGreaterEqual(task["handshakes_refused"], 1)
            psd.stop()
        with Psd("--listen", "0.0.0.0:0", "--insecure_any_peer") as psd:
            psd.wait_log("ev=insecure_any_peer")
            address = "127.0.0.1:%d" % psd.address()[1]
            self.assertIn("insecure_any_peer", self.good(address, "", "status"))
            psd.stop()


class Changes(Case):
    def client(self, cluster, key_file):
        """psctl that looks again and again, over one connection."""
        child = subprocess.Popen([PSCTL, "-t", cluster.addresses[0], "--key_file", key_file, "--watch", "0.2", "vars"],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 preexec_fn=die_with_parent)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        self.assertTrue(child.stdout.readline())
        return child

    def sessions(self, cluster):
        out = self.good(cluster, self.own(self.admin), "--json", "workers")
        return {s["pid"]: s for s in json.loads(out)["sessions"]}

    def test_a_line_goes(self):
        with Secure(1, self.server) as cluster:
            client = self.client(cluster, self.own(self.watch))
            raw = self.say(cluster, self.watch, "", 0)
            self.file("psd.keys", self.ps, self.admin)
            cluster.reload()
            cluster.wait_log("reason=revoked", "watch")
            status, text = raw.conn.end()
            self.assertEqual(status, "PERMISSION_DENIED")
            self.assertRegex(text, "REVOKED: the line of key watch with id [0-9a-f]+ is gone")
            own = self.own(self.watch)
            self.refused(cluster, own, own + ":2", "log")
            self.silent(cluster)
            del client

    def test_a_file_that_is_wrong_changes_nothing(self):
        with Secure(2, self.server) as cluster:
            for lines, why in (((self.ps, self.w0, "w1 nonsense\n"), "psd.keys:3"), ((self.w0, self.w1), "no line of role ps")):
                self.file("psd.keys", *lines)
                cluster.reload()
                cluster.wait_log("ev=keys_not_read", why)
                self.assertIn("2 of 2 up", self.good(cluster, self.own(self.admin), "status"))

    def test_rights_that_change(self):
        conf = os.path.join(self.dir, "psd.conf")

        def configure(*rows):
            with open(conf, "w", encoding="utf-8") as f:
                f.write(f"key_file = {self.server}\nlisten = 127.0.0.1:0\n" + "".join(f"allow = {row}\n" for row in rows))
        configure("role:admin *,@cluster all")
        with Psd("--config", conf) as psd:
            address = "%s:%d" % psd.address()
            self.refused(address, self.own(self.watch), "key:watch", "allow")
            configure("role:admin *,@cluster all", "key:watch *,@cluster look")
            psd.process.send_signal(signal.SIGHUP)
            psd.wait_log("ev=keys_read")
            self.good(address, self.own(self.watch), "status")
            configure("role:admin *,@cluster all", "key:watch *,@cluster lok")
            psd.process.send_signal(signal.SIGHUP)
            psd.wait_log("psd.conf:4")
            self.good(address, self.own(self.watch), "status")
            self.good(address, self.own(self.admin), "config", "set", "allow", "role:admin *,@cluster all")
            self.refused(address, self.own(self.watch), "key:watch")
            # who has locked everybody out is told, and SIGHUP takes the rows of the file again
            _, _, err = self.psctl(address, self.own(self.admin), "config", "set", "allow", "")
            self.assertIn("does not let this program in any more", err)
            self.refused(address, self.own(self.admin), "key:ann")
            psd.wait_log("ev=no_administrator")
            configure("role:admin *,@cluster all", "key:watch *,@cluster look")
            psd.process.send_signal(signal.SIGHUP)
            end = time.monotonic() + WAIT_S
            while self.psctl(address, self.own(self.admin), "status")[0] != 0:
                self.assertLess(time.monotonic(), end)
            self.good(address, self.own(self.watch), "status")
            psd.stop()

    def test_a_rotation(self):
        """Training goes on while the worker's line is replaced: its session is the name's."""
        new = Key("w0", "worker")
        with Secure(1, self.server) as cluster:
            worker = self.train(cluster, 0, self.w0, "--steps", "1000000")
            pid = worker.pid
            try:
                deadline = time.monotonic() + WAIT_S
                while pid not in self.sessions(cluster):
                    self.assertIsNone(worker.poll())
                    self.assertLess(time.monotonic(), deadline)
                self.file("psd.keys", self.ps, self.w0, new, self.admin)
                cluster.reload()
                cluster.wait_log("ev=keys_read")
                self.own(self.w0)
                self.file("w0.key", new)
                self.file("psd.keys", self.ps, new, self.admin)
                cluster.reload()
                cluster.wait_log("reason=revoked")
                deadline = time.monotonic() + WAIT_S
                step = self.step(cluster)
                while self.step(cluster) <= step:
                    self.assertIsNone(worker.poll())
                    self.assertLess(time.monotonic(), deadline, cluster.log())
                if not SANITIZED:
                    self.forgets(pid, (self.w0,), (new,))
            finally:
                worker.kill()
                self.said.append(worker.communicate()[0])
            self.silent(cluster, new)

    def forgets(self, pid, gone, here):
        """A process has the secrets of `here`, no secret of `gone`, and of none of them what a handshake makes of it first (the early
        secret of RFC 8446, 7.1), which is as good as the key."""
        end = time.monotonic() + WAIT_S
        try:
            while held := [key.name for key in (*gone, *here) if key.early() in (data := memory_of(pid)) or key in gone and keys.found(key, data)]:
                self.assertLess(time.monotonic(), end, held)  # a connection that ends takes a turn or two
        except PermissionError as error:
            self.skipTest(f"the memory of a child cannot be read: {error}")
        for key in here:
            self.assertTrue(keys.found(key, data), key.name)

    def lines(self, cluster):
        """`psctl workers --by_key`: sessions of each line."""
        out = self.good(cluster, self.own(self.admin), "--json", "workers", "--by_key")
        return {(line["identity"], line["key_id"]): line["sessions"] for line in json.loads(out)["keys"]}

    def wait_lines(self, cluster, *gone, **there):
        """Until sessions with these key ids are there, and no session has the others."""
        end = time.monotonic() + WAIT_S
        while True:
            seen = {key_id: (who, count) for (who, key_id), count in self.lines(cluster).items()}
            if all(seen.get(key_id) == has for key_id, has in there.items()) and not any(key_id in seen for key_id in gone):
                return
            self.assertLess(time.monotonic(), end, seen)

    def test_when_an_old_line_is_unused(self):
        """Two lines of one name, one program on each, then both on the new one."""
        old, new = self.w0, Key("w0", "worker")
        self.file("psd.keys", self.ps, old, new, self.admin)
        with Secure(1, self.server) as cluster:
            first = self.train(cluster, 0, old, "--steps", "1000000")
            self.addCleanup(first.communicate)
            self.addCleanup(first.kill)
            self.wait_lines(cluster, **{old.key_id: ("key:w0", 1)})
            second = self.train(cluster, 1, new, "--steps", "1000000")  # w0.key has the new line from now on
            self.addCleanup(second.communicate)
            self.addCleanup(second.kill)
            self.wait_lines(cluster, **{old.key_id: ("key:w0", 1), new.key_id: ("key:w0", 1)})
            table = self.good(cluster, self.own(self.admin), "workers", "--by_key")
            self.assertRegex(table, r"(?m)^IDENTITY +KEY-ID +SESSIONS$")
            self.assertRegex(table, rf"(?m)^key:w0 +{old.key_id} +1$")
            self.file("w0.key", new)
            self.file("psd.keys", self.ps, new, self.admin)
            cluster.reload()
            cluster.wait_log("reason=revoked", old.key_id)
            self.wait_lines(cluster, old.key_id, **{new.key_id: ("key:w0", 2)})
            self.assertIsNone(first.poll())
            self.assertIsNone(second.poll())

    @unittest.skipIf(SANITIZED, "a sanitizer maps terabytes of shadow memory")
    def test_a_core_lacks_a_key_that_was_revoked(self):
        """All memory of the task, of which a core has a part: the key is there until its line goes, beside a connection that stays."""
        with Secure(1, self.server) as cluster:
            self.client(cluster, self.own(self.admin))
            self.client(cluster, self.own(self.watch))
            pid = cluster.tasks[0].pid
            try:
                self.assertTrue(keys.found(self.watch, memory_of(pid)))
            except PermissionError as error:
                self.skipTest(f"the memory of a child cannot be read: {error}")
            self.file("psd.keys", self.ps, self.admin)
            cluster.reload()
            cluster.wait_log("reason=revoked", "watch")
            cluster.wait_log("ev=audit", "what=RELOAD")
            self.forgets(pid, (self.watch, self.w0, self.w1), (self.admin,))

    def test_a_line_that_ends(self):
        """The line that the task shows to others: said at the start, and again when another file has another date."""
        def date(days):
            return time.strftime("%Y-%m-%d", time.gmtime(time.time() + days * 24 * 3600))
        self.file("psd.keys", self.ps.line(until=date(20)), self.admin)
        with Secure(1, self.server) as cluster:
            cluster.wait_log("ev=key_ends", "psd.keys:1: key ps")
            self.assertRegex(cluster.log(), r"lvl=warn ev=key_ends .* days=20 ")
            self.file("psd.keys", self.ps.line(until=date(400)), self.admin)
            cluster.reload()
            cluster.wait_log("ev=keys_read")
            self.file("psd.keys", self.ps.line(until=date(0)), self.admin)
            cluster.reload()
            cluster.wait_log("days=0 ")
            self.assertEqual(len(re.findall("ev=key_ends", cluster.log())), 2)

    def test_the_audit(self):
        """At every log level, by identity; a refusal is no part of it."""
        with Secure(1, self.server, flags=["--log_level", "error"]) as cluster:
            own = self.own(self.admin)
            self.good(cluster, own, "reset", "localhost", "--yes")
            self.good(cluster, own, "config", "set", "log_level", "error")
            self.refused(cluster, self.own(self.watch), "key:watch", verb=("config", "set", "log_level", "info"))
            cluster.reload()
            cluster.wait_log("what=RELOAD")
            self.assertEqual(re.findall(r"ev=(\w+) .*?what=(\w+)(?: who=(\S+))?", cluster.log()),
                             [("audit", "RESET", "key:ann"), ("audit", "CONFIG_SET", "key:ann"), ("audit", "RELOAD", "")])

    def step(self, cluster):
        out = self.good(cluster, self.own(self.admin), "--json", "vars")
        return max([v["version"] for v in json.loads(out)["variables"]], default=0)


def memory_of(pid):
    """What a core of this process could have: all that it can read."""
    data = []
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            begin, end = (int(word, 16) for word in line.split()[0].split("-"))
            if line.split()[1].startswith("r") and "[v" not in line:
                memory.seek(begin)
                data.append(memory.read(end - begin))
    return b"".join(data)


class Middle:
    """Passes bytes on between clients and one address, and does `harm` to what comes from a client."""

    def __init__(self, address, harm):
        self.door = socket.create_server(("127.0.0.1", 0))
        self.address, self.harm, self.seen = address, harm, bytearray()
        threading.Thread(target=self.accept, daemon=True).start()

    def target(self):
        return "127.0.0.1:%d" % self.door.getsockname()[1]

    def accept(self):
        while True:
            try:
                client = self.door.accept()[0]
                task = socket.create_connection(self.address)
            except OSError:
                return
            threading.Thread(target=self.forward, args=(client, task, self.harm), daemon=True).start()
            threading.Thread(target=self.forward, args=(task, client, lambda data, at: data), daemon=True).start()

    def forward(self, source, sink, harm):
        at = 0
        with source, sink:
            try:
                while data := source.recv(65536):
                    self.seen += data
                    sink.sendall(harm(data, at))
                    at += len(data)
                sink.shutdown(socket.SHUT_WR)
                source.recv(1)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.door.close()


class Attacks(Case):
    def task(self, cluster):
        host, port = cluster.addresses[0].split(":")
        return host, int(port)

    def test_a_man_in_the_middle(self):
        def flip(data, at):
            late = max(0, 420 - at)  # behind the handshake, in HELLO
            return data if late >= len(data) else data[:late] + bytes([data[late] ^ 1]) + data[late + 1:]
        with Secure(1, self.server) as cluster:
            own = self.own(self.admin)
            with Middle(self.task(cluster), lambda data, at: data) as middle:
                # what the cluster says leads past the middle: it sees a session's beginning, and nothing of it in clear
                self.good(middle.target(), own, "status")
                self.assertNotIn(b"psctl", bytes(middle.seen))
                self.assertNotIn(b"/job:", bytes(middle.seen))
                self.assertFalse(keys.found(self.admin, bytes(middle.seen)))
            with Middle(self.task(cluster), flip) as middle:
                self.refused(middle.target(), own)
            with Middle(self.task(cluster), lambda data, at: data.replace(self.admin.key_id.encode(), b"00000000")) as middle:
                self.refused(middle.target(), own)

    def hello(self, own):
        """The first bytes of a client that has the key: whoever sees them on the network can repeat them."""
        with socket.create_server(("127.0.0.1", 0)) as door:
            client = subprocess.Popen([PSCTL, "-t", "127.0.0.1:%d" % door.getsockname()[1], "--key_file", own, "status"],
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                      preexec_fn=die_with_parent)
            with door.accept()[0] as conn:
                first = conn.recv(4096)
            client.kill()
            client.wait()
            return first

    def flood(self, cluster, hello):
        """Half-open handshakes from other addresses; those that have a slot are answered."""
        strangers = []
        for host in range(2, 6):
            for _ in range(30):
                s = socket.create_connection(self.task(cluster), source_address=("127.0.0.%d" % host, 0))
                s.sendall(hello)
                strangers.append(s)
        return strangers

    def test_a_flood_of_strangers(self):
        """While strangers hold all handshakes that they may, and more of them wait, a task's address gets in."""
        own = self.own(self.admin)
        hello = self.hello(own)
        for deadline in ("5s", "5s", "20s", "60s"):
            with Secure(1, self.server, flags=("--hello_deadline", deadline)) as cluster:
                strangers = self.flood(cluster, hello)
                answered = []
                end = time.monotonic() + WAIT_S
                while len(answered) < 48 and time.monotonic() < end:
                    answered = select.select(strangers, [], [], 0.1)[0]
                self.good(cluster, own, "--timeout", "60", "status")
                held = [s for s in answered if s.recv(65536) != b"" and not select.select([s], [], [], 0)[0]]
                cluster.wait_log("tls_refused", "reason=too_")  # slow, or many
                for s in strangers:
                    s.close()
                if len(held) >= 48:  # else their time was over before: a slow machine
                    return
        self.fail("it got in when the strangers were gone")

    def test_a_handshake_byte_by_byte(self):
        """A byte now and then gives nobody more time: neither one of a ClientHello, nor one of what comes behind it, for which the task
        keeps a slot and OpenSSL's memory."""
        with Secure(1, self.server, flags=("--hello_deadline", "3s")) as cluster:  # psctl has it, too
            hello = self.hello(self.own(self.admin))
            for i, (at_once, slowly) in enumerate(((b"", hello), (hello, b"\x17\x03\x03\x40\x00" + bytes(0x4000)))):
                sent = 0
                with socket.create_connection(self.task(cluster)) as peer, contextlib.suppress(ConnectionError):
                    peer.sendall(at_once)
                    while sent < len(slowly) and (not select.select([peer], [], [], 0.05)[0] or peer.recv(4096) != b""):
                        peer.sendall(slowly[sent:sent + 1])
                        sent += 1
                self.assertLess(sent, len(slowly))
                cluster.wait_log("reason=too_slow")
                task, = json.loads(self.good(cluster, self.own(self.admin), "status", "--json"))["tasks"]
                self.assertEqual((task["handshakes_refused"], task["handshakes_under_way"]), (i + 1, 0))

    def test_strangers_do_not_fill_the_audit(self):
        """At most 10 lines a second; the lines and what they say was left out before them are all who were refused."""
        with Secure(1, self.server) as cluster:
            hello, begun, came = self.hello(self.own(Key("eve", "worker"))), time.monotonic(), 0
            lines, left_out = [], 0
            while left_out == 0 or len(lines) + left_out < came:
                with socket.create_connection(self.task(cluster)) as stranger, contextlib.suppress(ConnectionError):
                    stranger.sendall(hello)
                    while stranger.recv(4096) != b"":
                        pass
                came += 1
                if came > 200:  # a flood, and then one now and then, whose lines are all written
                    time.sleep(0.2)  # sleep: fewer than 10 a second
                    lines = [line for line in cluster.log().splitlines() if "ev=audit" in line and "reason=unknown_key" in line]
                    left_out = sum(int(n) for line in lines for n in re.findall(r"left_out_before=(\d+)", line))
                    self.assertLess(time.monotonic() - begun, WAIT_S, (came, left_out, lines))
            self.assertEqual(len(lines) + left_out, came)
            self.assertLessEqual(len(lines), 10 * (time.monotonic() - begun + 1))
            task, = json.loads(self.good(cluster, self.own(self.admin), "status", "--json"))["tasks"]
            self.assertEqual(task["handshakes_refused"], came)

    def test_a_server_without_the_key(self):
        """Somebody answers in the task's place: with another secret, or in plain text."""
        own = self.own(self.w0)
        posing = Key("w0", "worker")
        posing.key_id = self.w0.key_id
        with Secure(1, self.file("posing.keys", Key("ps", "ps"), posing)) as cluster:
            self.refused(cluster, own, own + ":2")
        with Psd("--listen", "127.0.0.1:0") as psd:
            self.refused("%s:%d" % psd.address(), own, "TLS")

    def test_a_worker_that_plays_a_ps(self):
        """With its own line it is no ps to another worker; with a line that both hold it is one, which certificates prevent."""
        with Secure(1, self.file("w1.keys", self.w1)) as posing:
            own = self.own(self.w0)
            self.refused(posing, own, own + ":2")
        shared = Key("all", "worker")
        with Secure(1, self.file("shared.keys", shared)) as posing:
            code, out, err = self.psctl(posing, self.own(shared), "status")
            self.assertNotIn("refused by", out + err)
            self.assertIn(code, (0, 1))

    def test_a_worker_is_no_task_of_the_ps_job(self):
        with Secure(2, self.server) as cluster:
            cluster.kill(1)
            cluster.key_file = self.file("w1.keys", self.w1, self.admin)
            with self.assertRaisesRegex(RuntimeError, "w1.keys: no line of role ps says 'use' .* the other tasks of job ps"):
                cluster.start(1)
            cluster.kill(1)
            self.posing(cluster)
            self.assertIn("/job:ps/task:0 waits for /job:ps/task:1", self.psctl(cluster, self.own(self.admin), "status")[1])


class Certified(Case):
    ROWS = ("--allow", "cert:psd://psd/ps/* @cluster member", "--allow", "cert:psd://psd/user/ann *,@cluster all",
            "--allow", "cert:psd://psd/worker/* *,@cluster train member")

    def setUp(self):
        super().setUp()
        self.home = self.authority("home", "ps:0", "ps:1", "ps:2", "worker:0", "worker:1")
        self.tls("add", "--user", "ann", "--dir", self.home)

    def tls(self, *args):
        code, out, err = run(PSCTL, "tls", *args)
        self.assertEqual(code, 0, out + err)

    def authority(self, name, *tasks, cluster="psd"):
        folder = os.path.join(self.dir, name)
        os.makedirs(folder, exist_ok=True)
        self.tls("init", "--cluster", cluster, "--dir", folder)
        for task in tasks:
            self.tls("add", "--task", task, "--dir", folder)
        return folder

    def flags(self, name, of=None, ca=None):
        """Of a program that has the certificate `name` of the authority `of` and trusts `ca`."""
        of = of or self.home
        return ["--tls_cert", f"{of}/{name}.pem", "--tls_key", f"{of}/{name}.key", "--tls_ca", f"{ca or self.home}/ca.pem"]

    def cluster(self, *names, workers=0):
        case = self

        class WithCertificates(Secure):
            shown = list(names)  # by each task: the name of its certificate

            def command(self, i):
                return [*Cluster.command(self, i), "--log_level", "info", *case.flags(self.shown[i]), *case.ROWS]
        return WithCertificates(len(names) - workers, None, workers=workers)

    def context(self, name, protocol):
        """Python's TLS with the certificate `name`, as docs/PROTOCOL.md has it."""
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.set_alpn_protocols(["psd/1"])
        context.load_verify_locations(f"{self.home}/ca.pem")
        context.load_cert_chain(f"{self.home}/{name}.pem", f"{self.home}/{name}.key")
        return context

    def status(self, cluster, name, **where):
        done = run(PSCTL, "-t", cluster.addresses[0], *self.flags(name, **where), "status", env={"HOME": self.dir})
        self.said += done[1:]
        return done


class Poser:
    """A program that is no psd, and answers every HELLO as a task of a cluster of its address alone, with a certificate of its own."""

    def __init__(self, context, job, task):
        self.door = socket.create_server(("127.0.0.1", 0))
        self.context, self.job, self.task = context, job, task
        self.address = "127.0.0.1:%d" % self.door.getsockname()[1]
        self.hellos, self.asked = [], []  # what clients told it: HELLOs, and the operations behind them
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        while True:
            try:
                plain = self.door.accept()[0]
            except OSError:
                return
            with plain:
                try:
                    with self.context.wrap_socket(plain, server_side=True) as sock:
                        self.serve(Conn(sock))
                except (OSError, Closed):
                    pass  # the client does not believe it, or has gone

    def serve(self, conn):
        hello = conn.receive()
        self.hellos.append(decode("Hello", hello.meta))
        answer = {"protocol": PAGE.limits["FRAME_VERSION"], "job": self.job, "task": self.task, "life": 1, "record": 1, "window": 16,
                  "task_count": 1, "directory_job": "ps", "cluster_name": "psd", "version": "0", "lease_ms": 15000, "beat_ms": 5000,
                  "features": self.hellos[-1]["features"]}
        body = encode_list("HelloAnswer", [answer]) + encode_list("TaskItem", [{"job": "ps", "address": self.address}])
        conn.sock.sendall(frame_bytes("HELLO", hello.id, flags=hello.flags | {"REPLY"}, meta=PAGE.pack("ps_reply_meta"), payload=body))
        while True:
            self.asked.append(conn.receive().op)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.door.shutdown(socket.SHUT_RDWR)
        self.thread.join(WAIT_S)
        self.door.close()


class Certificates(Certified):
    def test_training(self):
        with self.cluster("ps-0", "ps-1") as cluster:
            workers = [subprocess.Popen(
                [PSTRAIN, "--ps_hosts", cluster.hosts, "--worker_hosts", "h:1,h:2", "--job_name", "worker", "--task_index", str(i),
                 *self.flags(f"worker-{i}"), *TRAIN, "--status_at_end"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, preexec_fn=die_with_parent) for i in range(2)]
            self.assertIn("2 of 2 up", "".join([self.ended(worker) for worker in workers]))
            code, out, err = self.status(cluster, "user-ann")
            self.assertEqual(code, 0, out + err)
            self.assertIn("2 of 2 up", out)

    def test_another_client(self):
        """The client that knows docs/PROTOCOL.md alone, over Python's TLS."""
        context = self.context("user-ann", ssl.PROTOCOL_TLS_CLIENT)
        with self.cluster("ps-0") as cluster:
            host, port = cluster.addresses[0].split(":")
            plain = socket.create_connection((host, int(port)), WAIT_S)
            with context.wrap_socket(plain) as sock:
                self.assertIn(("URI", "psd://psd/ps/0"), sock.getpeercert()["subjectAltName"])
                client = Client(sock, crc=False)
                client.hello()
                client.create("v", "F32", [3], optimizer={"kind": PAGE.kind("Optimizer", "SGD"), "learning_rate": 1.0})
                client.open("v")
                self.assertEqual(client.init(client.open("v"), "ZEROS").status, "OK")
                client.goodbye()
            context.maximum_version = context.minimum_version = ssl.TLSVersion.TLSv1_2
            with socket.create_connection((host, int(port)), WAIT_S) as plain, self.assertRaises(OSError):
                context.wrap_socket(plain)
            cluster.wait_log("reason=tls_version")

    def test_who_is_refused(self):
        other = self.authority("other", "ps:0", "worker:0")
        elsewhere = self.authority("elsewhere", "worker:0", cluster="elsewhere")
        with self.cluster("ps-0") as cluster:
            for flags, reason in ((self.flags("worker-0", of=other), "other_authority"),
                                  (self.flags("worker-0", of=elsewhere), "other_authority"),
                                  (["--key_file", ""], "plain_text"),
                                  (["--key_file", self.own(self.w0)], "reason=")):
                code, out, err = run(PSCTL, "-t", cluster.addresses[0], *flags, "status", env={"HOME": self.dir})
                self.assertEqual(code, 1, out + err)
                cluster.wait_log("ev=tls_refused", reason)
            # the other way round: the client does not trust the authority of the task
            code, out, err = self.status(cluster, "user-ann", ca=other)
            self.assertEqual(code, 1, out + err)

    def test_files_that_others_can_write(self):
        """Who writes the authority, or the list of refused ones, says who is let in, and which ps a client believes."""
        folder = os.path.join(self.dir, "open")
        os.makedirs(folder)
        shutil.copy(f"{self.home}/ca.pem", f"{folder}/ca.pem")
        gone = self.file("refused", "psd://psd/user/eve\n")
        psd = (path("bin/psd"), "--listen", "127.0.0.1:0")
        for at, mode, program in ((f"{folder}/ca.pem", 0o666, psd), (f"{folder}/ca.pem", 0o664, (PSCTL, "status")), (gone, 0o602, psd)):
            os.chmod(at, mode)
            code, _, err = run(*program, *self.flags("ps-0", ca=folder), "--tls_refused" if at == gone else "--tls_ca", at)
            self.assertIn(code, (1, 2), err)
            for word in (at, "0%o" % mode, "chmod go-w"):
                self.assertIn(word, err)
            os.chmod(at, 0o644)

    def test_a_serial_that_is_refused(self):
        gone = os.path.join(self.dir, "refused")
        with open(gone, "w", encoding="ascii") as f:
            f.write("# nobody\n")
        self.ROWS = (*self.ROWS, "--tls_refused", gone)
        with self.cluster("ps-0") as cluster:
            self.assertEqual(self.status(cluster, "user-ann")[0], 0)
            with open(gone, "w", encoding="ascii") as f:
                f.write("psd://psd/user/ann\n")
            cluster.reload()
            cluster.wait_log("ev=keys_read")
            self.assertEqual(self.status(cluster, "user-ann")[0], 1)
            cluster.wait_log("reason=cert_refused")

    def test_its_own_certificate(self):
        """One of another task, one that has ended, and one with another key: psd does not start, and SIGHUP keeps all that was there."""
        folder = os.path.join(self.dir, "own")
        os.makedirs(folder)
        shutil.copy(f"{self.home}/ca.pem", f"{folder}/ca.pem")

        def take(cert, key=None):
            for source, at in ((f"{cert}.pem", "own.pem"), (f"{key or cert}.key", "own.key")):
                shutil.copy(f"{self.home}/{source}", f"{folder}/{at}.new")
                os.rename(f"{folder}/{at}.new", f"{folder}/{at}")
        bad = {(name, None): (folder + "/own.pem", "it is for psd://psd/" + name.replace("-", "/"), "/job:ps/task:0")
               for name in ("worker-0", "ps-1", "user-ann")}
        bad["ps-0", "ps-1"] = (folder + "/own.key", "key values mismatch")
        if self.make_one_that_has_ended("old", "ps-0"):
            bad["old", None] = (folder + "/own.pem", "it ended on ")
        own = self.flags("own", of=folder, ca=folder)
        for pair, words in bad.items():
            take(*pair)
            code, _, err = run(path("bin/psd"), "--listen", "127.0.0.1:0", *own)
            self.assertIn(code, (1, 2), err)
            for word in words:
                self.assertIn(word, err)
        take("ps-0")
        with Psd("--listen", "127.0.0.1:0", *own, *self.ROWS) as psd:
            for pair, words in bad.items():
                take(*pair)
                lines = len(psd.log)
                psd.process.send_signal(signal.SIGHUP)
                psd.wait_log("ev=keys_not_read", lines)
                for word in words:
                    psd.wait_log(word, lines)
                done = run(PSCTL, "-t", "%s:%d" % psd.address(), *self.flags("user-ann"), "status", env={"HOME": self.dir})
                self.assertEqual(done[0], 0, done)
            psd.stop()

    def make_one_that_has_ended(self, name, of):
        """A certificate like that of `of`, whose last day is over. False: the program openssl is not there."""
        if shutil.which("openssl") is None:
            return False
        with open(f"{self.dir}/extensions", "w", encoding="ascii") as f:
            f.write(f"subjectAltName=URI:psd://psd/{of.replace('-', '/')}\nextendedKeyUsage=serverAuth,clientAuth\n")
        for command in (f"req -new -subj /CN=old -key {self.home}/{of}.key -out {self.dir}/request",
                        f"x509 -req -in {self.dir}/request -CA {self.home}/ca.pem -CAkey {self.home}/ca.key -days -1 "
                        f"-extfile {self.dir}/extensions -out {self.home}/{name}.pem"):
            subprocess.run(["openssl", *command.split()], capture_output=True, check=True)
        shutil.copy(f"{self.home}/{of}.key", f"{self.home}/{name}.key")
        return True

    def test_a_worker_that_plays_a_ps(self):
        """A certificate is of one task: a worker's is no ps, and the one of ps 1 is not ps 0. Each is that task, at the address of ps 0,
        by psd, or by a program that says that it is ps 0."""
        for name in ("worker-0", "ps-1"):
            job, index = name.split("-")
            at = "127.0.0.1:%d" % free_port()
            task = ["--ps_hosts", at + ",127.0.0.1:2", "--worker_hosts", "127.0.0.1:3", "--job_name", job, "--task_index", index]
            with self.subTest(name=name), Psd("--listen", at, *task, *self.flags(name), *self.ROWS) as psd:
                self.assertEqual("%s:%d" % psd.address(), at)
                done = run(PSTRAIN, "--ps_hosts", at, *self.flags("worker-0"), "--eval", "--timeout", "6")
                self.assertNotEqual(done[0], 0, done)
                self.assertIn("psd://psd/" + name.replace("-", "/"), done[2])
        trains = ["--job_name", "worker", "--task_index", "0", "--worker_hosts", "h:1", "--timeout", "6", *TRAIN]
        for name in ("worker-0", "ps-1", "user-ann", "ps-0"):
            uri = "psd://psd/" + name.replace("-", "/")
            with self.subTest(poser=name), Poser(self.context(name, ssl.PROTOCOL_TLS_SERVER), "ps", 0) as poser:
                worker = run(PSTRAIN, "--ps_hosts", poser.address, *trains, *self.flags("worker-0"))
                from_worker = poser.hellos[:]
                status = run(PSCTL, "-t", poser.address, "--timeout", "6", *self.flags("user-ann"), "status")
                self.assertNotIn(0, (worker[0], status[0]), (worker, status))
                if name == "ps-0":  # the same program with the certificate of the task that it says to be is believed
                    self.assertTrue(from_worker and len(poser.hellos) > len(from_worker) and poser.asked)
                    continue
                self.assertEqual((from_worker, poser.asked), ([], []))  # a worker tells it nothing, and nobody believes it
                self.assertIn(f"its certificate is {uri}, expected was psd://psd/ps/0", worker[2])
                if name == "user-ann":
                    self.assertIn(f"its certificate is {uri}, expected was a task's", status[2])
                else:  # psctl goes to any task, and compares what that one says to be
                    self.assertIn(f"/job:ps/task:0 answers at {poser.address} with the certificate {uri}", status[2])


class AnyPort(Certified):
    """ps tasks with port 0 in the cluster: only the process that is the task can say at the directory where it listens."""

    def at_any_port(self, cluster):
        cluster.hosts = ",".join([cluster.addresses[0]] + ["127.0.0.1:0"] * (len(cluster.addresses) - 1))
        cluster.spec = "ps=" + cluster.hosts
        return cluster

    def move(self, cluster, i):
        """The next process of task i listens at another port."""
        before = cluster.sockets[i]
        cluster.sockets[i] = socket.create_server(("127.0.0.1", 0), backlog=64)
        before.close()
        cluster.addresses[i] = "127.0.0.1:%d" % cluster.sockets[i].getsockname()[1]

    def told(self, cluster, *flags, time_="2s"):
        """The addresses that the directory tells; None: not all tasks are reached within time_."""
        out, err = run(PSCTL, "-t", cluster.addresses[0], *flags, "--timeout", time_, "--json", "status", env={"HOME": self.dir})[1:]
        self.said += [out, err]
        tasks = json.loads(out).get("tasks", [])
        return [task["address"] for task in tasks] if tasks and all(task["up"] for task in tasks) else None

    def wait_told(self, cluster, *flags):
        end = time.monotonic() + WAIT_S
        while self.told(cluster, *flags, time_="20s") != cluster.addresses:
            self.assertLess(time.monotonic(), end, cluster.log())

    def test_certificates(self):
        flags = self.flags("user-ann")
        with self.at_any_port(self.cluster("ps-0", "ps-1", "ps-2")) as cluster:
            self.wait_told(cluster, *flags)
            self.ended(subprocess.Popen(
                [PSTRAIN, "--ps_hosts", cluster.hosts, "--worker_hosts", "h:1", "--job_name", "worker", "--task_index", "0",
                 *self.flags("worker-0"), *TRAIN], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                preexec_fn=die_with_parent))
            for moves in (False, True):  # a process with the certificate of ps 2, at the last port of ps 1 and at another one
                cluster.kill(1)
                if moves:
                    self.move(cluster, 1)
                cluster.shown[1] = "ps-2"
                with self.assertRaisesRegex(RuntimeError, "it is for psd://psd/ps/2, and this is /job:ps/task:1"):
                    cluster.start(1)
                self.assertIsNone(self.told(cluster, *flags))
                at_last_port = self.status(cluster, "user-ann")[1:]
                self.assertNotIn(cluster.addresses[1] if moves else "3 of 3 up", "".join(at_last_port))
                cluster.kill(1)
                for name in ("ps-2", "worker-0", "user-ann"):  # and a program that is no psd
                    with self.assertRaises(Denied) as denied:
                        self.say_where(cluster, name)
                    reply = denied.exception.reply
                    self.assertEqual((reply.status, reply.reason), ("PERMISSION_DENIED", "IDENTITY"))
                    for word in ("psd://psd/" + name.replace("-", "/"), "/job:ps/task:1"):
                        self.assertIn(word, reply.text)
                self.assertIsNone(self.told(cluster, *flags))
                cluster.shown[1] = "ps-1"
                cluster.start(1)
                self.wait_told(cluster, *flags)
            cluster.kill(1)
            self.say_where(cluster, "ps-1")  # whose certificate it is may say so

    def say_where(self, cluster, name):
        """A program with this certificate tells the directory that it is ps 1, and listens at an address of its own."""
        host, port = cluster.addresses[0].split(":")
        plain = socket.create_connection((host, int(port)), WAIT_S)
        with self.context(name, ssl.PROTOCOL_TLS_CLIENT).wrap_socket(plain) as sock:
            Client(sock, crc=False).hello(role=1, job="ps", task=1, life=7, address="127.0.0.1:9")

    def test_keys(self):
        """A key shows no task but its role: a worker's is no ps, and another cluster's is nobody. A training goes on behind them."""
        flags = ("--key_file", self.own(self.admin))
        other = self.file("other.keys", Key("ps", "ps"), Key("w0", "worker"))
        saves = ("--checkpoint_dir", os.path.join(self.dir, "saved"), "--checkpoint_seconds", "1", "--lease", "4s", "--beat", "200ms")
        with self.at_any_port(Secure(2, self.server, flags=saves)) as cluster:
            self.wait_told(cluster, *flags)
            trainer = self.train(cluster, 0, self.w0, "--steps", "1000000000", "--max_recoveries", "50")
            try:
                for posing in (None, other):
                    self.wait_saved(cluster, *flags)
                    cluster.kill(1)
                    if posing is None:
                        self.posing(cluster)
                    else:
                        cluster.key_file = posing
                        cluster.start(1)
                        cluster.wait_log("ev=tls_refused")
                    self.assertIsNone(self.told(cluster, *flags))
                    if posing is not None:
                        cluster.kill(1)
                    self.move(cluster, 1)
                    cluster.key_file = self.server
                    cluster.start(1)
                    self.wait_told(cluster, *flags)
                    step = self.wait_saved(cluster, *flags)
                    while self.wait_saved(cluster, *flags) == step:  # a stop beside a recovery would end the trainer with its error
                        self.assertIsNone(trainer.poll(), cluster.log())
                self.good(cluster, flags[1], "stop")
                self.ended(trainer)
            finally:
                trainer.kill()
            self.silent(cluster)

    def wait_saved(self, cluster, *flags):
        """The step of the first checkpoint that is saved from now on. Checkpoints of step 0 do not count: they may lack variables."""
        def newest():
            status, out, err = run(PSCTL, "-t", cluster.addresses[0], *flags, "--timeout", "30s", "--json", "checkpoint", "list", env={"HOME": self.dir})
            self.assertTrue(out, (status, err))
            return max(((c["number"], c["step"]) for c in json.loads(out)["checkpoints"] if c["state"] == "saved" and c.get("step", 0) > 0),
                       default=(0, 0))
        before, end = newest(), time.monotonic() + WAIT_S
        while (now := newest())[0] <= before[0]:
            self.assertLess(time.monotonic(), end, cluster.log())
        return now[1]


if __name__ == "__main__":
    sys.exit(main(unittest))
