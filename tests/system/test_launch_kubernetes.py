#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-sanitizers: none (what it checks are files)
"""scripts/kubernetes: the manifests are what Kubernetes' schemas allow, no field more; the numbers in them agree; and each pod, by its own
name, index and flags, finds the task that it is."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from cluster import main, path, run

try:
    import yaml
except ImportError:
    yaml = None
try:
    import kubernetes_validate
except ImportError:
    kubernetes_validate = None

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/kubernetes")
PSCTL = path("bin/psctl")
with_yaml = unittest.skipUnless(yaml, "PyYAML is missing: pip install pyyaml")
UTS = ["unshare", "--uts"] if os.getuid() == 0 else ["unshare", "--map-root-user", "--uts"]


def may_name_hosts():
    try:
        return subprocess.run([*UTS, "hostname", "x"], check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def rendered(base):
    """The objects of a base: by kubectl where it is, else those of its files."""
    with tempfile.TemporaryDirectory() as folder:
        here = shutil.copytree(os.path.join(FOLDER, base), os.path.join(folder, base))
        for secret in ("psd.keys", "token"):
            with open(os.path.join(here, secret), "w", encoding="ascii") as f:
                f.write("of the test\n")
        if shutil.which("kubectl"):
            code, out, err = run("kubectl", "kustomize", here)
            assert code == 0, err
            return [o for o in yaml.safe_load_all(out) if o]
        with open(os.path.join(here, "kustomization.yaml"), encoding="utf-8") as f:
            names = yaml.safe_load(f)["resources"]
        found = []
        for name in names:
            with open(os.path.join(here, name), encoding="utf-8") as f:
                found += [o for o in yaml.safe_load_all(f) if o]
        return found


def pods(objects):
    """(kind and name, spec, number of pods, container) of each program of psd."""
    for o in objects:
        template = o.get("spec", {}).get("template")
        if template:
            for container in template["spec"]["containers"]:
                count = o["spec"].get("completions", o["spec"].get("replicas"))
                yield o["kind"] + " " + o["metadata"]["name"], template["spec"], count, container


def flags(container):
    return dict(f[2:].split("=", 1) if "=" in f else (f[2:], "") for f in container["command"][1:])


@with_yaml
class Manifests(unittest.TestCase):
    def test_schemas(self):
        if kubernetes_validate is None:
            self.skipTest("kubernetes-validate is missing: pip install kubernetes-validate")
        count = 0
        for base in ("job", "service"):
            for o in rendered(base):
                if o["kind"] == "ServiceMonitor":  # of the Prometheus operator: its schema is not there
                    self.assertEqual(set(o["spec"]), {"selector", "endpoints"})
                    continue
                kubernetes_validate.validate(o, "1.37", strict=True)
                count += 1
        self.assertGreaterEqual(count, 14 if shutil.which("kubectl") else 10)

    def test_they_agree(self):
        for base in ("job", "service"):
            objects = rendered(base)
            counts = {what: count for what, _, count, _ in pods(objects)}
            for what, spec, _, container in pods(objects):
                f = flags(container)
                self.assertFalse(spec["enableServiceLinks"], what)  # PSD_PORT and others would come from a Service
                self.assertTrue(spec["securityContext"]["runAsNonRoot"], what)
                mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
                volumes = {v["name"] for v in spec.get("volumes", [])} | ({"checkpoints"} if what.startswith("StatefulSet") else set())
                self.assertEqual(set(mounts), volumes, what)
                self.assertEqual(container["env"], [{"name": "PSD_KEY_FILE", "value": mounts["keys"] + "/psd.keys"}], what)
                if container["command"][0] == "psd-exporter":
                    targets = f["target"].split(",")
                    self.assertEqual(targets, ["psd-ps-%d.psd:2222" % i for i in range(counts["StatefulSet psd-ps"])])
                    self.assertEqual(f["token_file"], mounts["token"] + "/token")
                    continue
                ps = counts.get("Job psd-ps", counts.get("StatefulSet psd-ps"))
                self.assertEqual((int(f["ps_tasks"]), int(f["worker_tasks"])), (ps, counts["Job psd-worker"]), what)
                if "checkpoint_dir" in f:
                    self.assertEqual(f["checkpoint_dir"], mounts["checkpoints"], what)
            services = [o for o in objects if o["kind"] == "Service" and o["spec"].get("clusterIP") == "None"]
            self.assertEqual([s["metadata"]["name"] for s in services], ["psd"])
            self.assertTrue(services[0]["spec"]["publishNotReadyAddresses"])
            for o in objects:
                if o["kind"] == "StatefulSet":
                    self.assertEqual(o["spec"]["podManagementPolicy"], "Parallel")
                    self.assertEqual(o["spec"]["serviceName"], "psd")
                if o["kind"] == "Job":
                    self.assertEqual((o["spec"]["completionMode"], o["spec"]["completions"]), ("Indexed", o["spec"]["parallelism"]))
                    self.assertEqual(o["spec"]["template"]["spec"]["subdomain"], "psd")
            job_ps = [c for what, _, _, c in pods(objects) if what == "Job psd-ps"]
            self.assertEqual([("exit_when_done" in flags(c)) for c in job_ps], [True] if base == "job" else [])

    @unittest.skipUnless(may_name_hosts(), "unshare --uts is not allowed here")
    def test_each_pod_finds_its_task(self):
        for base in ("job", "service"):
            seen = []
            for what, _, count, container in pods(rendered(base)):
                if container["command"][0] == "psd-exporter":
                    continue
                f = {k: v for k, v in flags(container).items() if k in ("cluster", "ps_pods", "ps_tasks", "worker_pods", "worker_tasks")}
                kind, name = what.split()
                for i in range(count):
                    env = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", **({"JOB_COMPLETION_INDEX": str(i)} if kind == "Job" else {})}
                    code, out, err = run(*UTS, "sh", "-c", 'hostname "$0" && exec "$@"', "%s-%d" % (name, i), PSCTL, "cluster", "--show",
                                         "--json", *("--%s=%s" % pair for pair in f.items()), env=env)
                    self.assertEqual(code, 0, err)
                    got = json.loads(out)
                    self.assertEqual((got["job"], got["index"], got.get("listen")),
                                     (name.removeprefix("psd-"), i, "0.0.0.0:2222" if name == "psd-ps" else None))
                    seen.append(json.dumps(got["cluster"], sort_keys=True))
            self.assertEqual(len(set(seen)), 1)
            self.assertEqual(json.loads(seen[0])["ps"], ["psd-ps-0.psd:2222", "psd-ps-1.psd:2222"])

    def test_programs_know_their_flags(self):
        for base in ("job", "service"):
            for what, _, _, container in pods(rendered(base)):
                program = container["command"][0]
                if not os.path.exists(path("bin/" + program)):
                    continue
                _, known, _ = run(path("bin/" + program), "--help")
                for name in flags(container):
                    self.assertIn("--" + name, known.replace("[no-]", ""), what)
                probe = container.get("readinessProbe", {}).get("exec")
                if probe:
                    code, _, err = run(path("bin/" + probe["command"][0]), *probe["command"][1:], env={"PSD_KEY_FILE": ""})
                    self.assertIn(code, (0, 1), err)  # 2: a wrong command line


if __name__ == "__main__":
    sys.exit(main(unittest))
