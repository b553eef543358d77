#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-sanitizers: none (what it checks are files; test_exporter.py has the program)
"""scripts/monitoring: what the dashboard and the alert rules ask for is what /metrics has, with the right kind of question; promtool's tests."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from cluster import Cluster, main, path
from test_exporter import Exporter, there

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/monitoring")
with open(os.path.join(FOLDER, "psd-dashboard.json"), encoding="utf-8") as dashboard:
    DASHBOARD = json.load(dashboard)
with open(os.path.join(FOLDER, "psd-alerts.yml"), encoding="utf-8") as rules:
    RULES = rules.read()
with open(os.path.join(FOLDER, "psd-alerts-test.yml"), encoding="utf-8") as tests:
    TESTS = tests.read()
EXPRESSIONS = {"panel '%s' %s" % (p["title"], t["refId"]): t["expr"] for p in DASHBOARD["panels"] for t in p["targets"]}
EXPRESSIONS |= {"alert " + name: expr for name, expr in re.findall(r"- alert: (\w+)\n +expr: (.*)", RULES)}
with_promtool = unittest.skipUnless(shutil.which("promtool"), "promtool is missing: apt-get install prometheus")


def promtool(*args):
    done = subprocess.run(["promtool", *args], cwd=FOLDER, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


class Files(unittest.TestCase):
    def test_dashboard(self):
        self.assertNotIn("id", DASHBOARD)  # it would meet another dashboard's when it is imported
        panels = DASHBOARD["panels"]
        self.assertEqual(len({p["id"] for p in panels}), len(panels))
        taken = set()
        for p in panels:
            g = p["gridPos"]
            cells = {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
            self.assertLessEqual(g["x"] + g["w"], 24, p["title"])
            self.assertFalse(cells & taken, p["title"])
            taken |= cells
            self.assertEqual(p["datasource"], {"type": "prometheus", "uid": "${DS}"})
            self.assertTrue(p["fieldConfig"]["defaults"]["unit"])
        self.assertEqual([(v["name"], v["type"]) for v in DASHBOARD["templating"]["list"]], [("DS", "datasource")])

    def test_every_alert_has_a_case(self):
        alerts = re.findall(r"- alert: (\w+)", RULES)
        fires = re.findall(r"alertname: (\w+)\n +exp_alerts:\n", TESTS)
        self.assertGreaterEqual(len(alerts), 6)
        self.assertEqual(set(alerts) - set(fires), set())

    @with_promtool
    def test_promtool(self):
        for args in (("check", "rules", "psd-alerts.yml"), ("test", "rules", "psd-alerts-test.yml"), ("check", "config", "prometheus.yml")):
            code, out = promtool(*args)
            self.assertEqual(code, 0, out)

    @with_promtool
    def test_expressions_of_the_dashboard(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as f:
            f.write(json.dumps({"groups": [{"name": "d", "rules": [
                {"record": "d:%d" % i, "expr": e.replace("$__rate_interval", "5m")} for i, e in enumerate(EXPRESSIONS.values())]}]}))
            f.flush()
            code, out = promtool("check", "rules", f.name)
            self.assertEqual(code, 0, out)

    @there
    def test_names(self):
        with Cluster(1) as cluster, Exporter(cluster.addresses[0]) as exporter:
            types = dict(re.findall(r"^# TYPE (\w+) (\w+)$", exporter.get("/metrics"), re.M))
        asked = set()
        for where, e in EXPRESSIONS.items():
            for name in re.findall(r"\bpsd_\w+", e):
                base = re.sub("_bucket$", "", name)
                self.assertIn(base, types, where)
                asked.add(base)
                rated = re.search(r"(rate|increase)\(" + name + r"\b", e) is not None
                self.assertEqual(rated, types[base] != "gauge" or name == "psd_round", where + ": " + e)
                self.assertEqual(name != base, types[base] == "histogram", where)
        self.assertGreater(len(asked), 25)
        with open(os.path.join(FOLDER, "../../docs/OPERATIONS.md"), encoding="utf-8") as page:
            text = page.read()
        section = text[text.index("## Metrics and the page"):text.index("## The trace of a step")]
        told = set(re.findall(r"`(psd_\w+)", section)) | {"psd_checkpoint" + n for n in re.findall(r"`(_\w+)`", section)}
        self.assertEqual({t for t in types if t.startswith("psd_")} - told, set())


if __name__ == "__main__":
    sys.exit(main(unittest))
