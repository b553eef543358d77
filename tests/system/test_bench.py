#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-sanitizers: none (it is about the harness of make bench, which is Python)
# test-timeout: 240
"""The harness of `make bench`, on tiny sizes and without redis and TensorFlow: its rows, its verdicts, its ends. Not how fast psd is."""
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from cluster import main, path
from daemon import PREFIX, WAIT_S, Psd, environment

sys.path.insert(0, os.path.abspath("tests/bench"))
import report
import servers

BENCH = [sys.executable, "-B", "tests/bench/bench.py"]
MEASURED = {"dense.pull.16MiB.tcp.vs_bare", "dense.push_sgd.16MiB.tcp.vs_bare", "dense.push_adagrad.100MiB.tcp.vs_bare",
            "dense.push_adagrad.100MiB.bf16.vs_bare", "dense.pull.16MiB.2ps.vs_bare2", "cpu.push_sgd.server.vs_bare",
            "scale.clients64.cost_per_op.vs_1", "scale.vars100k.cost_per_op.vs_1", "start.ready_ms", "idle.rss_mib",
            "fairness.pull.4KiB.p99.vs_idle", "queue.pair.4KiB.vs_push_pull", "queue.pair.4KiB.caller.vs_push_pull", "queue.wake.p50_us",
            "queue.pair.4KiB.others1k.vs_alone", "queue.element16.bytes", "round.2workers.1MiB.vs_async", "round.2workers.100MiB.vs_async",
            "round.commit.round_trips", "round.wake.p50_us", "plan.identity.4KiB.vs_push_pull", "plan.matmul.512.vs_process", "plan.mlp.vs_client",
            "tls.pull.16MiB.vs_plain", "tls.push_sgd.16MiB.vs_plain", "tls.pull.4KiB.p64.vs_plain", "tls.handshakes", "tls.handshakes.turn_p99_us",
            *(f"optim.{name}.100MiB.vs_bare" for name in report.rows.OPTIMIZERS), "optim.lamb.100MiB.vs_adam",
            "optim.adam.clip.100MiB.vs_plain", "optim.adam.ema.100MiB.vs_plain",
            *(f"rows.{name}.4096x16{awake}.vs_loop" for name in ("gather", "adagrad", "push_pull") for awake in ("", ".awake"))}
EXPORTER = {"exporter.idle.cpu", "exporter.idle.private_mib", "exporter.idle.tls.private_mib", "exporter.scrape.1k_ms",
            "exporter.scrape.1k.server_cpu"}
HAS_EXPORTER = os.path.exists(path("bin/psd-exporter"))
PEERS = {"small.pull.4KiB.p64.vs_redis_get", "small.push.4KiB.p64.vs_redis_set", "small.pull.4KiB.c50p64.vs_redis_get",
         "small.push.4KiB.c50p64.vs_redis_set", "nullstep.scalar.vs_tensorflow", "nullstep.scalar16.vs_tensorflow",
         "nullstep.dense100MB.tcp.vs_tensorflow", "push_adagrad.100MB.tcp.vs_tensorflow"}


def bench(*args):
    done = subprocess.run([*BENCH, *args], capture_output=True, text=True, timeout=WAIT_S * 6, env=environment(), check=False)
    return done.returncode, done.stdout, done.stderr


def results_of(values, folder, **run):
    """A results folder with these rows."""
    run = {"machine": "m", "commit": "c", "date": "d", "command": "b", "rounds": 5, "seconds": 61, "missing": {}, "smoke": False, "whole": True, **run}
    rows = [{"name": n, "value": v, "unit": "", "min": v, "max": v, "runs": 5} for n, v in values.items()]
    report.write(report.Results(rows, run), folder)


def goals(reached):
    """Rows that reach just this, "goal" or "must"."""
    return {name: goal if reached == "goal" else must for names, _, must, goal in report.rows.GOALS for name in names}


class Scaling(unittest.TestCase):
    def test_simulated(self):
        """All phases of a small cluster, and the page with its tables."""
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "scaling.json")
            done = subprocess.run([sys.executable, "-B", "tests/bench/scaling.py", "--smoke", "--seconds", "0.2", "--out", file], capture_output=True, text=True,
                                  timeout=WAIT_S * 6, env=environment(), check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(file, encoding="utf-8") as text:
                results = json.load(text)
            phases = [[r["phase"] for r in results["simulated"] if (r["workers"], r["ps"]) == shape] for shape in ((8, 4), (64, 8))]
            self.assertEqual(phases[0], phases[1])
            self.assertIn("a lost directory: workers come back", phases[0])
            self.assertEqual(list(results["measured"]["tcp"]["step_us"]), ["1", "2"])
            self.assertIn("constants", results["measured"]["tcp"])
            done = subprocess.run([sys.executable, "-B", "tests/bench/scaling.py", "--only", "measured", "--out", file + ".none"],
                                  capture_output=True, text=True, timeout=WAIT_S, env=environment(), check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("without --only first", done.stderr)


class Smoke(unittest.TestCase):
    def test_all_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            status, out, err = bench("--smoke", "--rounds", "1", "--out", folder)
            self.assertEqual(status, 0, out + err)
            for peer in ("redis", "tensorflow"):
                self.assertIn("no rows of %s: " % peer, err)
            with open(folder + "/results.json", encoding="utf-8") as f:
                rows = json.load(f)
            self.assertEqual({frozenset(r) for r in rows}, {frozenset(("name", "value", "unit", "min", "max", "runs"))})
            got = {r["name"]: r for r in rows}
            self.assertEqual(len(got), len(rows))
            self.assertEqual(MEASURED | EXPORTER | PEERS, set(goals("goal")))
            for name in MEASURED | (EXPORTER if HAS_EXPORTER else set()):
                self.assertEqual(got[name]["runs"], 1, name)
                self.assertTrue(got[name]["min"] <= got[name]["value"] <= got[name]["max"], got[name])
                # a difference, which may be anything of so few steps; CPU time of a rest that is too short for any
                if name not in ("round.commit.round_trips", "exporter.idle.cpu"):
                    self.assertGreater(got[name]["min"], 0, name)
                self.assertIn(name, out)
            for name, row in got.items():
                peer = name in PEERS or name.startswith(("redis.", "tensorflow.")) or "vs_redis" in name or "vs_tensorflow" in name
                peer = peer or (name.startswith("exporter.") and not HAS_EXPORTER)
                self.assertEqual(row["runs"], 0 if peer else 1, name)
                self.assertEqual(row["value"] is None, peer, name)
            with open(folder + "/results.md", encoding="utf-8") as f:
                page = f.read()
            self.assertIn("the figures mean nothing", page)
            for name in got:
                self.assertIn("| %s | " % name, page)
            status, _, err = bench("--docs", "--out", folder)
            self.assertNotEqual(status, 0)
            self.assertIn("a whole run", err)

    def test_training(self):
        with tempfile.TemporaryDirectory() as folder:
            status, out, err = bench("--train", "--smoke", "--rounds", "1", "--out", folder)
            self.assertEqual(status, 0, out + err)
            self.assertIn("no rows of pytorch: ", err)
            rows = report.read(folder).by_name
            for names, *_ in report.training.GOALS:
                for name in names:
                    self.assertIn(name, out)
                    self.assertEqual(rows[name]["runs"], 0 if "pytorch" in name else 1, name)
            for name, row in rows.items():
                self.assertEqual(row["value"] is None, "pytorch" in name, name)
            status, _, err = bench("--docs", "--out", folder)
            self.assertNotEqual(status, 0)

    def test_only(self):
        with tempfile.TemporaryDirectory() as folder:
            status, out, err = bench("--smoke", "--rounds", "3", "--only", "idle.rss*", "--out", folder)
            self.assertEqual(status, 0, out + err)
            rows = report.read(folder).by_name
            self.assertEqual(set(rows), {"start.ready_ms", "idle.rss_mib", "psctl.status_ms"})
            self.assertEqual({r["runs"] for r in rows.values()}, {3})
        status, _, err = bench("--only", "no.such.row")
        self.assertEqual(status, 1)
        self.assertIn("no row is named like no.such.row", err)

    def test_interrupt_ends_all(self):
        with tempfile.TemporaryDirectory() as folder:
            child = subprocess.Popen([*BENCH, "--smoke", "--rounds", "1000", "--only", "dense.", "--out", folder], stderr=subprocess.PIPE,
                                     stdout=subprocess.DEVNULL, text=True, env=environment(), start_new_session=True,
                                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
            while "dense round" not in child.stderr.readline():
                self.assertIsNone(child.poll())
            os.killpg(child.pid, signal.SIGINT)
            rest = child.communicate(timeout=WAIT_S)[1]
            self.assertEqual(child.returncode, 130, rest)
            self.assertIn("interrupted", rest)
            self.assertEqual(os.listdir(folder), [])
            with self.assertRaises(ProcessLookupError):  # nobody of its group is left
                os.killpg(child.pid, 0)


class Values(unittest.TestCase):
    def test_wrong_values_are_found(self):
        """The variable that a load would make is there already, with other values: what it pulls is not what it put there."""
        header = json.dumps({"dense0": {"dtype": "F32", "shape": [1024], "data_offsets": [0, 4096]}}).encode()
        header += b" " * (-len(header) % 8)
        load, psctl = path("tests/bench/load"), path("bin/psctl")
        with tempfile.TemporaryDirectory() as folder, Psd("--listen", "127.0.0.1:0", "--log_level", "off") as psd:
            target = "%s:%d" % psd.address()
            for value, want in ((7.0, 1), (None, 0)):
                setup = ""
                if value is not None:
                    with open(folder + "/model", "wb") as f:
                        f.write(struct.pack("<Q", len(header)) + header + struct.pack("<f", value) * 1024)
                    setup = '"$1" -t %s --container bench-$$ import "$2" --yes >&2 && ' % target
                done = subprocess.run([*PREFIX, "/bin/bash", "-c", setup + 'exec "$0" dense pull 4096 0.01', load, psctl, folder + "/model"],
                                      capture_output=True, text=True, timeout=WAIT_S, env=environment({"PSD_TARGET": target}), check=False)
                self.assertEqual(done.returncode, want, done.stderr)
                self.assertEqual(json.loads(done.stdout)["values"], "right" if want == 0 else "WRONG")


class Remarks(unittest.TestCase):
    def test_a_probe_without_its_priority(self):
        s = servers.Servers(redis=False, tensorflow=False)
        try:
            for refused, remarks in ((False, []), (True, ["SCHED_FIFO is not permitted: the probe of fairness waits for its CPU, too"])):
                with unittest.mock.patch("os.sched_setscheduler", side_effect=PermissionError() if refused else None):
                    for _ in range(2):
                        s.end(s.popen(["true"], fifo=True))
                s.end(s.popen(["true"]))
                self.assertEqual(s.remarks, remarks)
        finally:
            s.close()
        with tempfile.TemporaryDirectory() as folder:
            results_of({}, folder, remarks=s.remarks)
            self.assertIn(s.remarks[0], report.head(report.read(folder)))


class Verdicts(unittest.TestCase):
    def verdict(self, values, **run):
        """(status, words of the last column by row) of --goals."""
        with tempfile.TemporaryDirectory() as folder:
            results_of(values, folder, **run)
            status, out, _ = bench("--goals", "--out", folder)
            return status, {line.split()[0]: line.split("  ")[-1].strip() for line in out.splitlines()[1:]}

    def test_goals_and_musts(self):
        for reached in ("goal", "must"):
            status, words = self.verdict(goals(reached))
            self.assertEqual(status, 0)
            self.assertEqual(set(words), MEASURED | EXPORTER | PEERS)
            same = {"fairness.pull.4KiB.p99.vs_idle"}  # its goal is its must
            self.assertEqual({w for n, w in words.items() if n not in same}, {reached})

    def test_each_must_counts(self):
        for names, more, must, _ in report.rows.GOALS:
            for name in names:
                results = report.Results([{"name": n, "value": v, "min": v, "max": v} for n, v in goals("goal").items()], {"whole": True})
                self.assertTrue(report.musts_hold(results))
                results.by_name[name]["value"] = must * (0.99 if more else 1.01)
                self.assertFalse(report.musts_hold(results), name)
                results.by_name[name]["value"] = None
                self.assertFalse(report.musts_hold(results), name)

    def test_status(self):
        values = goals("goal")
        values["start.ready_ms"] = 10.1
        values["nullstep.scalar.vs_tensorflow"] = None
        status, words = self.verdict(values)
        self.assertEqual(status, 1)
        self.assertEqual(words["start.ready_ms"], "MISSED")
        self.assertEqual(words["nullstep.scalar.vs_tensorflow"], "not measured")
        # a part of a run is judged by what it is about
        status, words = self.verdict({"idle.rss_mib": 5}, whole=False)
        self.assertEqual((status, words), (0, {"idle.rss_mib": "must"}))

    def test_documents(self):
        results = report.Results([{"name": "idle.rss_mib", "value": 2.25, "unit": "MiB", "min": 2.2, "max": 2.3, "runs": 5}],
                                 {"machine": "m", "commit": "c", "date": "d", "command": "b", "rounds": 5, "seconds": 61, "missing": {}, "smoke": False,
                                  "whole": False})
        page = "by hand\n<!-- bench:goals -->\nold\n<!-- /bench -->\nby hand\n<!-- bench:head -->\n<!-- /bench -->\n"
        filled = report.filled(page, results)
        self.assertEqual(filled.count("by hand\n"), 2)
        self.assertNotIn("old", filled)
        self.assertIn("| idle.rss_mib | ≤ 5 | ≤ 2.5 | 2.25 (2.20 to 2.30) | goal |\n<!-- /bench -->", filled)
        self.assertIn("m. psd c, d, `b`, median of 5 rounds, 1:01 in all.\n<!-- /bench -->", filled)
        self.assertEqual(report.filled(filled, results), filled)


if __name__ == "__main__":
    sys.exit(main(unittest))
