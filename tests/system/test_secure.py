#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-transport: plain (it has keys of its own)
# test-timeout: 300
"""A cluster whose tasks and clients hold keys: who is let in, who is not and what both sides are told, rotation and revocation, a man
in the middle, and no secret in anything that is printed."""
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
from pyclient import PAGE, Client

import keys
from cluster import SANITIZED, Cluster, die_with_parent, main, path, run
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
        out = process.communicate(timeout=120)[0]
        self.said.append(out)
        self.assertEqual(process.returncode, code, out)
        return out

    def silent(self, cluster, *more):
        """Nothing that was said has a secret."""
        data = "".join(self.said + [cluster.log()]).encode(errors="surrogateescape")
        for key in (self.ps, self.w0, self.w1, self.admin, self.watch, *more):
            self.assertFalse(keys.found(key, data), key.name)


class LetIn(Case):
    def test_training(self):
        with Secure(2, self.server) as cluster:
            workers = [self.train(cluster, 0, self.w0), self.train(cluster, 1, self.w1)]
            for worker in workers:
                self.ended(worker)
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

    def test_the_configuration_of_openssl_changes_nothing(self):
        """A file for all programs of the machine, with other versions and suites, or with nonsense."""
        for text in ("openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nMaxProtocol = TLSv1.2\n"
                     "Ciphersuites = TLS_AES_256_GCM_SHA384\nGroups = P-521\n", "openssl_conf = a\n[a\nproviders = none = b\n"):
            env = {"OPENSSL_CONF": self.file("openssl.cnf", text)}
            with Psd("--listen", "127.0.0.1:0", "--key_file", self.server, env=env) as psd:
                self.good("%s:%d" % psd.address(), self.own(self.admin), "status", env=env)
                psd.stop()

    def test_a_unix_socket_needs_no_key(self):
        at = os.path.join(self.dir, "s")
        with Psd("--listen", "127.0.0.1:0,unix:" + at, "--key_file", self.server) as psd:
            self.good("unix:" + at, "", "status")
            psd.stop()

    def test_in_one_process(self):
        for key in (self.w0, self.admin):
            done = run(path("examples/hello_local"), env={"PSD_KEY_FILE": self.own(key), "HOME": self.dir})
            self.assertEqual(done[0], 0, done)

    def test_tasks_of_other_jobs_serve(self):
        with Secure(1, self.server, workers=1) as cluster:
            self.good(cluster.worker_addresses[0], self.own(self.admin), "status")
            cluster.kill(1, signal.SIGTERM)
            refused = [line for line in cluster.log().splitlines() if "refused" in line]
            self.assertEqual([line for line in refused if "reason=ended" not in line], [])  # its end may meet a handshake


class Refused(Case):
    def test_without_a_key_and_with_a_wrong_one(self):
        stranger, other = Key("eve", "worker"), Key("w0", "worker")
        other.key_id = self.w0.key_id
        with Secure(1, self.server) as cluster:
            self.refused(cluster, "", "TLS", "key")
            cluster.wait_log("ev=tls_refused", "reason=plain_text")
            unknown = self.own(stranger)
            self.refused(cluster, unknown, unknown + ":2", "eve", "log")
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

    def test_what_psd_refuses_at_its_start(self):
        for args, words in ((["--listen", "0.0.0.0:0"], ["psctl key new", "key_file = "]),
                            (["--key_file", os.path.join(self.dir, "none")], ["none", "No such file"]),
                            (["--key_file", self.file("bad.keys", "w0 zz\n")], ["bad.keys:1"]),
                            (["--tls_cert", "/dev/null"], ["tls"]),
                            (["--allow", "role:worker * trian"], ["trian", "train"])):
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
            self.file("psd.keys", self.ps, self.admin)
            cluster.reload()
            cluster.wait_log("reason=revoked", "watch")
            own = self.own(self.watch)
            self.refused(cluster, own, own + ":2", "log")
            self.silent(cluster)
            del client

    def test_a_file_that_is_wrong_changes_nothing(self):
        with Secure(1, self.server) as cluster:
            self.file("psd.keys", self.ps, self.w0, "w1 nonsense\n")
            cluster.reload()
            cluster.wait_log("ev=keys_not_read", "psd.keys:3")
            self.good(cluster, self.own(self.admin), "status")

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
        with Secure(1, self.server) as cluster:
            hello = self.hello(own)
            for _ in range(5):
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
                if len(held) >= 48:  # else their 5 s were over before: a slow machine
                    return
            self.fail("it got in when the strangers were gone")

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
            cluster.start(1)
            cluster.wait_log("key:w1")
            self.assertIn("/job:ps/task:0 waits for /job:ps/task:1", self.psctl(cluster, self.own(self.admin), "status")[1])


class Certificates(Case):
    ROWS = ("--allow", "cert:psd://psd/ps/* @cluster member", "--allow", "cert:psd://psd/user/ann *,@cluster all",
            "--allow", "cert:psd://psd/worker/* *,@cluster train member")

    def setUp(self):
        super().setUp()
        self.home = self.authority("home", "ps:0", "ps:1", "worker:0", "worker:1")
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

        class Certified(Secure):
            def command(self, i):
                return [*Cluster.command(self, i), "--log_level", "info", *case.flags(names[i]), *case.ROWS]
        return Certified(len(names) - workers, None, workers=workers)

    def status(self, cluster, name, **where):
        done = run(PSCTL, "-t", cluster.addresses[0], *self.flags(name, **where), "status", env={"HOME": self.dir})
        self.said += done[1:]
        return done

    def test_training(self):
        with self.cluster("ps-0", "ps-1") as cluster:
            workers = [subprocess.Popen(
                [PSTRAIN, "--ps_hosts", cluster.hosts, "--worker_hosts", "h:1,h:2", "--job_name", "worker", "--task_index", str(i),
                 *self.flags(f"worker-{i}"), *TRAIN], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, preexec_fn=die_with_parent) for i in range(2)]
            for worker in workers:
                self.ended(worker)
            code, out, err = self.status(cluster, "user-ann")
            self.assertEqual(code, 0, out + err)
            self.assertIn("2 of 2 up", out)

    def test_another_client(self):
        """The client that knows docs/PROTOCOL.md alone, over Python's TLS."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.set_alpn_protocols(["psd/1"])
        context.load_verify_locations(f"{self.home}/ca.pem")
        context.load_cert_chain(f"{self.home}/user-ann.pem", f"{self.home}/user-ann.key")
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

    def test_a_worker_that_plays_a_ps(self):
        """A certificate is of one task: a worker's is no ps, and the one of ps 1 is not ps 0, whoever names the target."""
        for name in ("worker-0", "ps-1"):
            with self.subTest(name=name), self.cluster(name) as cluster:
                code, out, err = self.status(cluster, "user-ann")
                self.assertEqual(code, 1, out + err)
                self.assertIn("psd://psd/" + name.replace("-", "/"), err)
                done = run(PSTRAIN, "--ps_hosts", cluster.hosts, *self.flags("worker-0"), "--eval", "--timeout", "2")
                self.assertNotEqual(done[0], 0, done)
                self.assertIn("psd://psd/" + name.replace("-", "/"), done[2])


if __name__ == "__main__":
    sys.exit(main(unittest))
