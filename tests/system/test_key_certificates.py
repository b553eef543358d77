#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-transport: plain (it has keys of its own)
"""psctl tls: an authority and certificates that Python's own TLS takes, never over another file; and psctl where OpenSSL is missing."""
import glob
import json
import os
import ssl
import stat
import subprocess
import tempfile
import time
import unittest

from cluster import SANITIZED, main, path, run

PSCTL = path("bin/psctl")
DAY = 24 * 3600


def handshake(server, client):
    """Both contexts with each other, in memory: what each has seen of the other one."""
    ends = []
    for context, is_server in ((server, True), (client, False)):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends.append((context.wrap_bio(incoming, outgoing, server_side=is_server), incoming, outgoing))
    for _ in range(10):
        done = 0
        for (end, _, outgoing), (_, other, _) in zip(ends, reversed(ends)):
            try:
                end.do_handshake()
                done += 1
            except ssl.SSLWantReadError:
                pass
            other.write(outgoing.read())
        if done == 2:
            return [end.getpeercert()["subjectAltName"] for end, _, _ in ends]
    raise AssertionError("the handshake does not end")


class Certificates(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="psd-tls-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

        code, _, err = run(PSCTL, "tls", "init", "--cluster", "x", "--dir", os.path.join(self.folder, "none"))
        if code != 0 and "this build makes no certificates" in err:
            self.skipTest("built without TLS")

    def at(self, name):
        return os.path.join(self.folder, name)

    def psctl(self, *args, dir_too=True):
        code, out, err = run(PSCTL, "tls", *args, *(("--dir", self.folder) if dir_too else ()))
        self.assertEqual((code, err), (0, ""), out)
        return out

    def refused(self, *args, says, code=1, dir_too=True):
        before = {name: os.stat(self.at(name)).st_mtime_ns for name in os.listdir(self.folder)}
        got, out, err = run(PSCTL, "tls", *args, *(("--dir", self.folder) if dir_too else ()))
        self.assertEqual((got, out), (code, ""), err)
        self.assertIn(says, err)
        self.assertEqual(before, {name: os.stat(self.at(name)).st_mtime_ns for name in os.listdir(self.folder)})

    def shown(self, name):
        return json.loads(self.psctl("show", self.at(name), "--json", dir_too=False))

    def context(self, kind, name, ca="ca.pem"):
        context = ssl.SSLContext(kind)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(ca if os.path.isabs(ca) else self.at(ca))
        context.load_cert_chain(self.at(name + ".pem"), self.at(name + ".key"))
        return context

    def test_bundles(self):
        """Each end sees the other one's only name; a certificate serves and dials."""
        self.assertIn("ca.key makes certificates: keep it where nobody else is", self.psctl("init", "--cluster", "demo"))
        out = self.psctl("add", "--task", "/job:ps/task:0")
        self.assertIn("--tls_cert %s --tls_key %s --tls_ca %s" % tuple(self.at(name) for name in ("ps-0.pem", "ps-0.key", "ca.pem")), out)
        self.psctl("add", "--task", "worker:12")
        self.psctl("add", "--user", "ada")
        self.assertEqual(sorted(os.listdir(self.folder)), ["ca.key", "ca.pem", "ps-0.key", "ps-0.pem", "user-ada.key", "user-ada.pem",
                                                           "worker-12.key", "worker-12.pem"])
        for name in os.listdir(self.folder):
            self.assertEqual(stat.S_IMODE(os.stat(self.at(name)).st_mode), 0o600 if name.endswith(".key") else 0o644)
        server, client = ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT
        ps, worker, ada = ((("URI", "psd://demo/" + name),) for name in ("ps/0", "worker/12", "user/ada"))
        self.assertEqual(handshake(self.context(server, "ps-0"), self.context(client, "user-ada")), [ada, ps])
        self.assertEqual(handshake(self.context(server, "worker-12"), self.context(client, "ps-0")), [ps, worker])
        # another authority of the same name
        with tempfile.TemporaryDirectory(prefix="psd-tls-") as other:
            self.assertEqual(run(PSCTL, "tls", "init", "--cluster", "demo", "--dir", other)[0], 0)
            with self.assertRaises(ssl.SSLCertVerificationError):
                handshake(self.context(server, "ps-0"), self.context(client, "user-ada", os.path.join(other, "ca.pem")))

    def test_dates(self):
        self.psctl("init", "--cluster", "demo", "--days", "100")
        self.psctl("add", "--user", "short", "--days", "7")
        self.psctl("add", "--user", "long")  # a year, and no longer than its authority
        now = time.time()
        ends = {name: time.mktime(time.strptime(self.shown(name)["until"], "%Y-%m-%d %H:%M UTC")) - time.timezone
                for name in ("ca.pem", "user-short.pem", "user-long.pem")}
        for name, days in (("ca.pem", 100), ("user-short.pem", 7), ("user-long.pem", 100)):
            self.assertLess(abs(ends[name] - now - days * DAY), 3 * 3600, name)
        self.assertEqual(ends["ca.pem"], ends["user-long.pem"])

    def test_show(self):
        self.psctl("init", "--cluster", "my.cluster")
        self.psctl("add", "--task", "ps:7")
        ca, task = self.shown("ca.pem"), self.shown("ps-7.pem")
        self.assertEqual((ca["authority"], ca["cluster"], ca["uri"]), (True, "my.cluster", ""))
        self.assertEqual((task["authority"], task["uri"], task["issuer"]), (False, "psd://my.cluster/ps/7", "/O=psd authority/CN=my.cluster"))
        self.assertRegex(task["serial"], "^[1-9a-f][0-9a-f]{30,31}$")
        self.assertNotEqual(task["serial"], ca["serial"])
        text = self.psctl("show", self.at("ps-7.pem"), dir_too=False)
        for says in ("URI      psd://my.cluster/ps/7", "serial   " + task["serial"], "until    " + task["until"]):
            self.assertIn(says, text)
        self.refused("show", self.at("ps-7.key"), says="ps-7.key: there is no certificate in it", dir_too=False)
        self.refused("show", self.at("none"), says="No such file", dir_too=False)

    def test_refused(self):
        self.refused("add", "--user", "ada", says="there is no authority (psctl tls init makes one, --dir says where it is)")
        self.refused("init", code=2, says="tls init needs --cluster NAME")
        self.refused("init", "--cluster", "a/b", code=2, says="cluster name 'a/b'")
        self.psctl("init", "--cluster", "demo")
        self.refused("init", "--cluster", "demo", says="ca.pem: there is such a file, and it is not overwritten")
        self.psctl("add", "--user", "ada")
        for args, says, code in ((("add",), "needs --task /job:ps/task:0 or --user NAME, one of them", 2),
                                 (("add", "--user", "a", "--task", "ps:0"), "one of them", 2),
                                 (("add", "--user", "a/b"), "key name 'a/b'", 2),
                                 (("add", "--task", "ps"), "is no task", 2),
                                 (("add", "--task", "ps:1024"), "is no task", 2),
                                 (("add", "--task", "user:1"), "no job called user", 2),
                                 (("add", "--task", "/job:ps/task:x"), "is no task", 2),
                                 (("add", "--user", "a", "--cluster", "x"), "tls add takes no --cluster", 2),
                                 (("add", "--user", "ada"), "user-ada.pem: there is such a file", 1)):
            self.refused(*args, says=says, code=code)
        os.unlink(self.at("user-ada.pem"))
        self.refused("add", "--user", "ada", says="user-ada.key: there is such a file")
        os.chmod(self.at("ca.key"), 0o640)
        if os.getuid() != 0:  # root's own may be read by a group
            self.refused("add", "--user", "b", says="chmod 600")
        os.chmod(self.at("ca.key"), 0o644)
        self.refused("add", "--user", "b", says="mode 0644 lets others read it, and it holds secrets: chmod 600")
        # the key of another authority
        os.chmod(self.at("ca.key"), 0o600)
        os.rename(self.at("user-ada.key"), self.at("ca.key"))
        self.refused("add", "--user", "b", says="ca.key: the authority's key is not that of its certificate")
        for name, says in (("ca.key", "ca.key: the authority's key is no private key, or has a password"),
                           ("ca.pem", "ca.pem: there is no certificate in it")):
            with open(self.at(name), "w", encoding="ascii"):
                pass
            self.refused("add", "--user", "b", says=says)

    @unittest.skipIf(SANITIZED, "a sanitizer's own start needs what is hidden here")
    def test_without_openssl(self):
        """Everything but certificates works where there is no libcrypto, and the package is named."""
        libraries = glob.glob("/usr/lib/*/libcrypto.so.3") + glob.glob("/lib/*/libcrypto.so.3")
        if os.getuid() != 0 or not libraries:
            self.skipTest("needs root, and a libcrypto to hide")
        hide = "; ".join("mount --bind /dev/null " + name for name in {os.path.realpath(name) for name in libraries})
        self.psctl("init", "--cluster", "demo")

        def hidden(*args):
            return subprocess.run(["unshare", "--mount", "sh", "-c", hide + ' && exec "$0" "$@"', PSCTL, *args], capture_output=True,
                                  text=True, check=False)
        probe = hidden("--version")
        if probe.returncode != 0 and "psctl" not in probe.stdout:
            self.skipTest("no mount namespace: " + probe.stderr)
        self.assertEqual(hidden("key", "new", "w", "--role", "worker", "--file", self.at("k")).returncode, 0)
        done = hidden("tls", "add", "--user", "ada", "--dir", self.folder)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("certificates need OpenSSL 3, which is not installed here", done.stderr)
        self.assertIn("Install the package libssl3", done.stderr)


if __name__ == "__main__":
    raise SystemExit(main(unittest))
