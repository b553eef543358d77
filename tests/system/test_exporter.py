#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 300
"""psd-exporter: what /metrics, /api/status and the page say equals psctl --json; who is let in; garbage and floods."""
import base64
import concurrent.futures
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import browser
import keys
from cluster import SANITIZED, SECURE, Cluster, die_with_parent, free_port, main, path, plain, run

EXPORTER = path("bin/psd-exporter")
PSCTL = path("bin/psctl")
TOKEN = "a-token-of-the-test-0123"
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)$')
there = unittest.skipUnless(os.path.exists(EXPORTER), "psd-exporter is not built: libmicrohttpd-dev is missing")


class Exporter:
    def __init__(self, target, *flags, listen="127.0.0.1:0", env=None):
        self.process = subprocess.Popen([EXPORTER, "-t", target, "--listen", listen, "--every", "0", *flags], stdout=subprocess.PIPE,
                                        text=True, preexec_fn=die_with_parent, env={**os.environ, **(env or {})})
        self.url = self.process.stdout.readline().split()[-1]
        self.host, self.port = re.fullmatch(r"http://(.*):(\d+)/", self.url).groups()

    def ask(self, where, method="GET", **headers):
        c = http.client.HTTPConnection(self.host.strip("[]"), int(self.port), timeout=600)
        c.request(method, where, headers={k.replace("_", "-"): v for k, v in headers.items()})
        answer = c.getresponse()
        body = answer.read().decode()
        c.close()
        return answer.status, answer.headers, body

    def get(self, where, **headers):
        status, _, body = self.ask(where, **headers)
        assert status == 200, (status, body)
        return body

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.code = self.process.wait(600)
        self.process.stdout.close()


def samples(text):
    """{(name, labels): value}; no sample twice, all of a family together, with HELP and TYPE before them."""
    found, families = {}, []
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split()[2]
            assert name not in families, name + " comes twice"
            families.append(name)
        elif line.startswith("# TYPE "):
            assert line.split()[2] == families[-1], line
        else:
            name, labels, value = SAMPLE.match(line).groups()
            assert name == families[-1] or re.fullmatch(re.escape(families[-1]) + "_(bucket|sum|count)", name), line
            key = (name, labels or "")
            assert key not in found, line
            found[key] = float(value)
    return found


def of(task):
    return 'task="/job:ps/task:%d"' % task


def psctl(target, *verb):
    code, out, err = run(PSCTL, "-t", target, *verb, "--json")
    assert code == 0, out + err
    return json.loads(out)


def train(cluster, steps):
    code, out, err = run(path("examples/softmax"), "--ps_hosts", cluster.hosts, "--steps", str(steps), "--seed", "7")
    assert code == 0, out + err


@there
class Values(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(2).__enter__()
        train(cls.cluster, 20)
        cls.target = cls.cluster.addresses[0]
        cls.exporter = Exporter(cls.target).__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.exporter.__exit__()
        cls.cluster.__exit__()
        assert cls.exporter.code == 0

    def test_metrics(self):
        status, headers, text = self.exporter.ask("/metrics")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
        got, expected = samples(text), psctl(self.target, "status")["tasks"]
        for t in expected:
            for name, field in (("psd_up", "up"), ("psd_variables", "variables"), ("psd_pushes_total", "pushes_applied"),
                                ("psd_pulls_total", "pulls"), ("psd_memory_budget_bytes", "budget_bytes"),
                                ("psd_value_bytes", "variable_bytes"), ("psd_restarts_total", "restarts")):
                self.assertEqual(got[name, of(t["task"])], t[field], name)
            self.assertEqual(got["psd_build_info", of(t["task"]) + ',version="%s"' % t["version"]], 1)
            self.assertAlmostEqual(got["psd_uptime_seconds", of(t["task"])], t["uptime_ms"] / 1000, delta=60)
        with open("/proc/%d/stat" % self.exporter.process.pid, encoding="ascii") as stat, open("/proc/uptime", encoding="ascii") as up:
            began = time.time() - float(up.read().split()[0]) + int(stat.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        self.assertAlmostEqual(got["process_start_time_seconds", ""], began, delta=2)
        with open("/proc/%d/statm" % self.exporter.process.pid, encoding="ascii") as statm:
            resident = int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")
        self.assertAlmostEqual(got["process_resident_memory_bytes", ""] / resident, 1, delta=0.5)
        for v in psctl(self.target, "vars")["variables"]:
            labels = 'task="%s",container="%s",variable="%s"' % (v["task"], v["container"], v["name"])
            self.assertEqual(got["psd_variable_bytes", labels], v["bytes"])
            self.assertEqual(got["psd_variable_pushes_total", labels], v["pushes"])
        for a in psctl(self.target, "rounds")["ages"]:
            labels = 'task="%s",container="%s"' % (a["task"], a["container"])
            self.assertEqual(got["psd_staleness_count", labels], sum(a["ages"]))
            self.assertEqual(got["psd_staleness_bucket", labels + ',le="+Inf"'], sum(a["ages"]))
            self.assertEqual(got["psd_staleness_bucket", labels + ',le="3"'], sum(a["ages"][:4]))

    @unittest.skipUnless(shutil.which("promtool"), "promtool is missing: apt-get install prometheus")
    def test_promtool(self):
        done = subprocess.run(["promtool", "check", "metrics"], input=self.exporter.get("/metrics"), text=True, capture_output=True,
                              check=False)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_status(self):
        moves = ("time", "uptime_ms", "heard_ms", "age_ms", "sessions", "connections", "bytes_in", "bytes_out", "records_bytes",
                 "memory_bytes", "bytes_per_second", "pushes_per_second", "sessions_connected", "copies_bytes", "staged_bytes", "handshakes_done", "handshakes_under_way")

        def still(value):
            if isinstance(value, dict):
                return {k: still(v) for k, v in value.items() if k not in moves}
            return [still(v) for v in value] if isinstance(value, list) else value

        def asked():
            """What the page has, and what psctl says a moment later."""
            got = json.loads(self.exporter.get("/api/status"))
            told = {verb: psctl(self.target, verb) for verb in ("status", "vars", "rounds", "waits", "queues", "work")}
            events = [(e["at"], e["number"], e["event"], e["text"]) for e in psctl(self.target, "events")["events"]]
            return ({verb: still(got[verb]) for verb in told}, sorted((e["at"], e["number"], e["event"], e["text"]) for e in got["events"])), \
                   ({verb: still(value) for verb, value in told.items()}, sorted(events))
        for _ in range(20):  # the cluster is at rest, but for what the last sessions leave to be done, as their ends
            got, told = asked()
            if got == told:
                break
        self.assertEqual(got, told)
        self.assertIn("chief", {e[2] for e in got[1]})

    def test_health(self):
        self.assertEqual(self.exporter.get("/healthz"), "ok\n")
        self.assertEqual(self.exporter.get("/readyz"), "ready\n")
        status, headers, body = self.exporter.ask("/metrics", "HEAD")
        self.assertEqual((status, body), (200, ""))
        self.assertGreater(int(headers["Content-Length"]), 1000)

    def test_refused(self):
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            status, headers, _ = self.exporter.ask("/api/status", method)
            self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD"), method)
        self.assertEqual(self.exporter.ask("/../etc/passwd")[0], 404)
        self.assertEqual(self.exporter.ask("/metrics/")[0], 404)
        for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[::1", "127.0.0.1:", "127.0.0.1:x", "localhost:1:2",
                     "x" * 600):
            self.assertIn(self.exporter.ask("/metrics", Host=host)[0], (400, 403), host)
        for host in ("localhost", "LocalHost:99", "127.0.0.1", "10.1.2.3:1", "[::1]:9391", "[::1]"):
            self.assertEqual(self.exporter.ask("/metrics", Host=host)[0], 200, host)
        for name, value in self.exporter.ask("/")[1].items():
            self.assertFalse(name.lower().startswith("access-control"), (name, value))

    @unittest.skipUnless(browser.PROGRAM, "Chromium is missing: apt-get install chromium")
    @unittest.skipIf(SANITIZED, "the browser takes longer than anything that a sanitizer sees")
    def test_page(self):
        with browser.Browser() as b:
            b.size(1200, 1500)
            b.open(self.exporter.url)
            polled = "new Promise(r => { const f = () => document.body.dataset.polls >= %d ? r() : setTimeout(f, 50); f(); })"
            b.value(polled % 2)
            expected = psctl(self.target, "status")["tasks"]
            rows = b.value("[...document.querySelectorAll('#tasks tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
            self.assertEqual([(r[0], r[1], r[2], r[7], r[11]) for r in rows],
                             [(t["name"], t["address"], "up", str(t["variables"]), str(t["restarts"])) for t in expected])
            rows = b.value("[...document.querySelectorAll('#variables tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
            self.assertEqual(sorted((r[0], r[1], r[2], r[6]) for r in rows),
                             sorted((v["name"], v["container"], v["task"], str(v["pushes"])) for v in psctl(self.target, "vars")["variables"]))
            self.assertEqual(b.value("document.getElementById('health').textContent"), "all 2 tasks are up")
            self.assertIn("started", b.value("document.getElementById('events').textContent"))
            self.assertEqual({r.split("?")[0] for r in b.requests}, {self.exporter.url, self.exporter.url + "api/status"})
            self.assertEqual(b.value("document.querySelectorAll('form, button, input, a').length"), 0)
            for scheme, back in (("dark", "rgb(18, 22, 28)"), ("light", "rgb(246, 247, 249)")):
                b.scheme(scheme)
                self.assertEqual(b.value("getComputedStyle(document.body).backgroundColor"), back)
            b.size(390, 844, True)  # a phone: nothing is wider than the screen but what scrolls in itself
            self.assertLessEqual(b.value("document.documentElement.scrollWidth"), 390)
            # 1,440 polls, as fast as they go: the heap does not grow with them. The page stands still while its heap is measured:
            # the answer of a poll under way is as large as what may be added.
            b.value("""window.setTimeout = (orig => f => {
                         window.on = () => orig(f, 0);
                         if (document.body.dataset.polls < window.until) window.on();
                       })(window.setTimeout);
                       window.on = () => {};""")
            heaps = []
            for polls in (100, 1440):
                b.value("window.until = %d; window.on();" % polls)
                b.value("new Promise(r => { const f = () => document.body.dataset.polls >= window.until ? r() : requestAnimationFrame(f); f(); })")
                heaps.append(b.heap())
            self.assertLessEqual(heaps[1], 1.2 * heaps[0], heaps)


@there
class Away(unittest.TestCase):
    def test_no_cluster(self):
        port = free_port()
        with Exporter("127.0.0.1:%d" % port) as exporter:
            self.assertEqual(samples(exporter.get("/metrics"))["psd_up", 'task=""'], 0)
            self.assertEqual(exporter.get("/healthz"), "ok\n")
            status, _, body = exporter.ask("/readyz")
            self.assertEqual((status, body), (503, "not ready: the directory of the cluster does not answer\n"))
            error = json.loads(exporter.get("/api/status"))["error"]
            self.assertIn(str(port), error["message"])
        self.assertEqual(exporter.code, 0)

    def test_a_task_goes_and_comes(self):
        with Cluster(2) as cluster, Exporter(cluster.addresses[0], "--timeout", "5s") as exporter:
            end = time.monotonic() + 600

            def until(up):
                """What /metrics says when these tasks are up. One that stands still for 5 s is not up for once."""
                got = samples(exporter.get("/metrics"))
                while [got.get(("psd_up", of(i))) for i in (0, 1)] != up:
                    self.assertLess(time.monotonic(), end)
                    got = samples(exporter.get("/metrics"))
                return got
            until([1, 1])
            cluster.kill(1)
            got = until([1, 0])
            self.assertNotIn(("psd_variables", of(1)), got)
            status = json.loads(exporter.get("/api/status"))
            self.assertEqual([d["task"] for d in status["waits"]["down"]], ["/job:ps/task:1"])
            self.assertIn("task_lost", [e["event"] for e in status["events"]])
            cluster.start(1)
            until([1, 1])
            # the whole cluster is another one: a session of before is not asked for ever
            for i in (0, 1):
                cluster.kill(i)
            self.assertEqual(samples(exporter.get("/metrics"))["psd_up", of(0)], 0)
            for i in (0, 1):
                cluster.start(i)
            until([1, 1])

    @unittest.skipUnless(browser.PROGRAM, "Chromium is missing: apt-get install chromium")
    @unittest.skipIf(SANITIZED, "the browser takes longer than anything that a sanitizer sees")
    def test_what_steps_say(self):
        with Cluster(1) as cluster, browser.Browser() as b:
            with Exporter(cluster.addresses[0]) as exporter:
                trainer = subprocess.Popen([path("bin/pstrain"), "--ps_hosts", cluster.hosts, "--worker_hosts", "127.0.0.1:%d" % free_port(), "--job_name",
                                            "worker", "--model", "softmax", "--epochs", "1000000"], stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)
                try:
                    b.open(exporter.url)
                    curves = "[...document.querySelectorAll('#curves span')].map(e => e.textContent.split(':')[0])"
                    end = time.monotonic() + 600
                    while "loss" not in b.value(curves):
                        self.assertLess(time.monotonic(), end, b.value(curves))
                        time.sleep(0.05)  # sleep: beats tell nobody
                    self.assertEqual(b.value(curves), ["pushes/s", "bytes/s", "steps/s", "global step", "loss", "accuracy"])
                    values, = [s["values"] for s in psctl(cluster.addresses[0], "workers")["sessions"] if s["task"]]
                    self.assertEqual(set(values), {"loss", "accuracy"})
                    self.assertTrue(0 <= values["loss"] < 10 and 0 <= values["accuracy"] <= 1, values)
                    self.assertRegex(b.value("document.querySelector('#workers tbody').textContent"), "loss [0-9.e-]+, accuracy [0-9.]+")
                finally:
                    trainer.kill()
                    trainer.wait()
                # of several workers the mean, of what is no number nothing, and no more curves than there is room for
                sessions = [{"task": "w%d" % i, "connected": True, "values": {"loss": 2.0 + i, "nan": None, "__proto__": 1}} for i in range(3)]
                after = "series.clear(); show(JSON.parse(%s)); [...series].map(([name, points]) => name + ' ' + points)"
                self.assertEqual(b.value(after % json.dumps(json.dumps({"workers": {"sessions": sessions}}))),
                                 ["pushes/s 0", "bytes/s 0", "steps/s 0", "said: loss 3", "said: __proto__ 1"])
                sessions[0]["values"] = {"n%d" % i: i for i in range(64)}
                self.assertEqual(len(b.value(after % json.dumps(json.dumps({"workers": {"sessions": sessions}})))), 12)
            # what was seen last stays, and is seen to be old; a page that has never seen anything shows why, and no empty boxes
            boxes = "[...document.querySelectorAll('main > section')].filter(e => e.offsetHeight > 0).map(e => getComputedStyle(e).opacity)"
            b.value("new Promise(r => { const f = () => document.getElementById('problem').hidden ? setTimeout(f, 50) : r(); f(); })")
            self.assertEqual(b.value(boxes), ["1"] + 11 * ["0.5"])
            b.value("document.querySelector('main').className = 'unknown'")
            self.assertEqual(b.value(boxes), ["1"])

    def made(self, cluster, lines):
        """Run lines of Python with a session `s`."""
        script = "import psd\nwith psd.Session(%r) as s:\n    %s\n" % (cluster.addresses[0], "\n    ".join(lines))
        code, out, err = run(sys.executable, "-c", script, env={
            "PYTHONPATH": os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../worker/python"), "PSD_LIBRARY_DIR": path("lib")})
        if code != 0:
            self.skipTest("the Python package does not run here: " + (out + err)[-300:])

    def test_more_variables_than_are_shown(self):
        with Cluster(1) as cluster, Exporter(cluster.addresses[0]) as exporter:
            self.made(cluster, ["vs = [s.variable('v%03d' % i, [i + 1]) for i in range(130)]", "s.ready()"])
            got = samples(exporter.get("/metrics"))
            shown = {k: v for k, v in got.items() if k[0] == "psd_variable_bytes"}
            self.assertEqual(len(shown), 101)
            self.assertEqual(sum(shown.values()), sum(v["bytes"] for v in psctl(cluster.addresses[0], "vars")["variables"]))

    def test_more_queues_than_are_shown(self):
        """The fullest, wherever they are in the tasks' lists."""
        with Cluster(1) as cluster, Exporter(cluster.addresses[0]) as exporter:
            self.made(cluster, ["qs = [s.queue('q%03d' % i) for i in range(130)]"])
            for name in ("q129", "q005", "q129"):
                self.assertEqual(run(PSCTL, "-t", cluster.addresses[0], "queue", name, "put", "1")[0], 0)
            shown = {re.search('queue="(.*)"', k[1])[1]: v for k, v in samples(exporter.get("/metrics")).items() if k[0] == "psd_queue_elements"}
            self.assertEqual(len(shown), 101)
            self.assertEqual((shown["q129"], shown["q005"], sum(shown.values())), (2, 1, 3))


@there
class LetIn(unittest.TestCase):
    def test_token(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "token")
            with open(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as f:
                f.write(TOKEN + "\n")
            with Exporter("127.0.0.1:1", "--token_file", file, "--host", "watch.example", listen="0.0.0.0:0") as exporter:
                exporter.host = "127.0.0.1"

                def basic(pair):
                    return "Basic " + base64.b64encode(pair.encode()).decode()
                for where in ("/", "/metrics", "/api/status", "/nothing"):
                    for shown in (None, "", "Bearer", "Bearer ", "Bearer " + TOKEN[:-1], "Bearer " + TOKEN + "x", "Bearer x" + TOKEN[1:],
                                  basic("me:wrong"), basic(TOKEN), "Basic !!!", "Digest " + TOKEN, "Bearer " + "x" * 5000):
                        status, headers, body = exporter.ask(where, **({} if shown is None else {"Authorization": shown}))
                        self.assertEqual(status, 401, (where, shown))
                        self.assertIn("Basic", headers["WWW-Authenticate"])
                        self.assertNotIn(TOKEN, body)
                for shown in ("Bearer " + TOKEN, "bearer " + TOKEN, basic("prometheus:" + TOKEN), basic(":" + TOKEN)):
                    self.assertEqual(exporter.ask("/metrics", Authorization=shown)[0], 200, shown)
                self.assertEqual(exporter.ask("/healthz")[0], 200)
                self.assertEqual(exporter.ask("/healthz", Host="watch.example:9391")[0], 200)
                self.assertEqual(exporter.ask("/healthz", Host="other.example")[0], 403)
            os.chmod(file, 0o644)
            self.assertEqual(run(EXPORTER, "--token_file", file, "--listen", "127.0.0.1:0")[0], 1)
            os.chmod(file, 0o600)
            with open(file, "w", encoding="ascii") as f:
                f.write("short")
            code, _, err = run(EXPORTER, "--token_file", file, "--listen", "127.0.0.1:0")
            self.assertEqual(code, 1)
            self.assertIn("16 to 255", err)

    def test_command_line(self):
        for flags, says in ((("--listen", "0.0.0.0:0"), "needs --token_file"), (("--listen", "[::]:0"), "needs --token_file"),
                            (("--listen", "localhost:1"), "IP address"), (("--listen", "127.0.0.1"), "IP address"),
                            (("--listen", "[::1:9"), "IP address"), (("--nothing",), "--nothing"), (("word",), "word")):
            code, out, err = run(EXPORTER, *flags)
            self.assertEqual((code, out), (2, ""), err)
            self.assertIn(says, err)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            code, _, err = run(EXPORTER, "--listen", "127.0.0.1:%d" % taken.getsockname()[1])
            self.assertEqual(code, 1)
            self.assertIn("in use", err)
        self.assertEqual(run(EXPORTER, "--version")[1], run(PSCTL, "--version")[1].replace("psctl", "psd-exporter"))

    @plain("the key files of the test would be used")
    def test_without_rights(self):
        with tempfile.TemporaryDirectory() as folder:
            server, mine = keys.Key("ps", "ps"), keys.Key("m", "monitor")
            both = keys.write(os.path.join(folder, "psd.keys"), server, mine)
            alone = keys.write(os.path.join(folder, "m.key"), mine)
            with Cluster(1) as cluster:
                cluster.kill(0)
                cluster.start(0, "--key_file", both)
                with Exporter(cluster.addresses[0], "--key_file", alone) as exporter:
                    self.assertEqual(samples(exporter.get("/metrics"))["psd_up", of(0)], 1)
                cluster.kill(0)
                cluster.start(0, "--key_file", both, "--allow", "role:monitor * look")
                with Exporter(cluster.addresses[0], "--key_file", alone) as exporter:
                    self.assertIn("@cluster", exporter.get("/api/status"))
                    self.assertEqual(exporter.ask("/metrics")[0], 200)
                    got = samples(exporter.get("/metrics"))
                    self.assertEqual((got["psd_up", of(0)], got["psd_refused", of(0)]), (0, 1))

    @plain("the key files of the test would be used")
    def test_a_worker_with_its_own_line(self):
        """It is not down: it lets nobody in but its own host."""
        with tempfile.TemporaryDirectory() as folder:
            server, mine, worker = keys.Key("ps", "ps"), keys.Key("m", "monitor"), keys.Key("w0", "worker")
            files = [keys.write(os.path.join(folder, name), *lines) for name, lines in (
                ("psd.keys", (server, mine, worker)), ("w0.key", (worker,)), ("m.key", (mine,)))]
            with Cluster(1, workers=1) as cluster:
                for i in range(2):
                    cluster.kill(i)
                for i in range(2):
                    cluster.start(i, "--key_file", files[i])
                worker = 'task="/job:worker/task:0"'
                end, err = time.monotonic() + 600, ""
                while "does not let this program in" not in err:  # from when the directory knows the worker
                    self.assertLess(time.monotonic(), end, err)
                    code, _, err = run(PSCTL, "-t", cluster.addresses[0], "--key_file", files[2], "status")
                    self.assertEqual(code, 0, err)
                with Exporter(cluster.addresses[0], "--key_file", files[2]) as exporter:
                    got = samples(exporter.get("/metrics"))
                    self.assertEqual((got["psd_up", of(0)], got["psd_refused", of(0)]), (1, 0))
                    self.assertEqual((got.get(("psd_up", worker)), got["psd_refused", worker]), (None, 1))


@there
class Hostile(unittest.TestCase):
    @staticmethod
    def goes_on(s):
        """Does the exporter answer the request that has begun there?"""
        try:
            s.sendall(b"b\r\n\r\n")
            return s.recv(1 << 12).startswith(b"HTTP/1.1 200 ")
        except OSError:
            return False

    def test_a_flood_asks_the_tasks_once_in_every(self):
        with Cluster(1) as cluster, Exporter(cluster.addresses[0], "--every", "1000s") as exporter:
            first = {where: exporter.get(where) for where in ("/metrics", "/api/status")}
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                answers = list(pool.map(lambda i: (i % 2, exporter.get(("/metrics", "/api/status")[i % 2])), range(600)))
            self.assertEqual(set(answers), {(0, first["/metrics"]), (1, first["/api/status"])})

    @staticmethod
    def get_after_ends(exporter):
        """/healthz. Other connections from this address have ended: until the exporter has seen that, it may refuse another one."""
        for _ in range(6000):
            try:
                return exporter.get("/healthz")
            except ConnectionError:
                time.sleep(0.1)
        return None

    def test_garbage_and_floods(self):
        with Cluster(1) as cluster, Exporter(cluster.addresses[0]) as exporter:
            port = int(exporter.port)
            for bad in (b"\0" * 100, b"GET", b"GET /metrics\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 500,
                        b"GET / HTTP/9.9\r\n\r\n", b"GET " + b"/" * 60000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20000 + b"\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n",
                        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
                        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
                        b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
                        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 100000):
                with socket.create_connection(("127.0.0.1", port), timeout=600) as s:
                    try:
                        s.sendall(bad)
                        s.shutdown(socket.SHUT_WR)
                        answer = s.recv(1 << 16)
                    except OSError:
                        answer = b""
                    self.assertRegex(answer, rb"^$|^HTTP/1\.[01] [245]", bad[:60])
                    self.assertNotRegex(answer, rb"^HTTP/1.1 5(?!05|01)", bad[:60])
                self.assertEqual(exporter.get("/healthz"), "ok\n")
            # more connections than one address may have, which say nothing, or a header without end: another address is served meanwhile
            held = [socket.create_connection(("127.0.0.1", port), timeout=600, source_address=("127.0.0.2", 0)) for _ in range(200)]
            for s in held[::2]:
                s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: ")
            self.assertEqual(exporter.get("/healthz"), "ok\n")
            served = [s for s in held[::2] if self.goes_on(s)]
            self.assertLessEqual(len(served), 32)
            for s in held:
                s.close()
            held = [socket.create_connection(("127.0.0.1", port), timeout=600) for _ in range(200)]
            for s in held:
                s.close()
            self.assertEqual(self.get_after_ends(exporter), "ok\n")
            rss = int(re.search(r"VmRSS:\s+(\d+)", open("/proc/%d/status" % exporter.process.pid, encoding="ascii").read()).group(1))
            if not SANITIZED:
                self.assertLess(rss, 64 << 10)


if __name__ == "__main__":
    sys.exit(main(unittest))
