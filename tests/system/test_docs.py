#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-transport: plain (it has keys of its own, and pages about tasks without)
# test-timeout: 300
"""What README.md and docs/OPERATIONS.md tell people to type, typed: the lines are read from the page, and only ports, places and host
names are other ones."""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from cluster import SANITIZED, Cluster, die_with_parent, free_port, main, path, run

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PSCTL = path("bin/psctl")
PSTRAIN = path("bin/pstrain")


def page(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as text:
        return text.read()


def block(text, behind):
    """The first shell block behind these words."""
    return re.search(r"```sh\n(.*?)```", text[text.index(behind):], re.S).group(1)


class Place(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="psd-docs-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def shell(self, script, cwd, timeout=300, **env):
        """A person's shell: it ends at the first line that fails, and all that it has started ends with it."""
        full = {k: v for k, v in os.environ.items() if k not in ("PSD_TARGET", "TF_CONFIG", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH")}
        full.update(HOME=self.folder, TMPDIR=self.folder, **env)
        with subprocess.Popen(["bash", "-euo", "pipefail", "-c", script], cwd=cwd, env=full, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent, start_new_session=True) as bash:
            try:
                out, err = bash.communicate(timeout=timeout)
            finally:
                try:
                    os.killpg(bash.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.assertEqual(bash.returncode, 0, out + err)
        return out


class Readme(Place):
    def install(self):
        """What `make install PREFIX=$HOME/psd` puts down. Not by make: another PREFIX links the programs anew that other tests run."""
        prefix = os.path.join(self.folder, "psd")
        subprocess.run(["cp", "-R", path("stage/usr/local"), prefix], check=True)
        for name in ("psd", "psworker"):
            at = os.path.join(prefix, "lib/pkgconfig", name + ".pc")
            with open(at, encoding="utf-8") as file:
                text = file.read()
            self.assertIn("/usr/local", text)
            with open(at, "w", encoding="utf-8") as file:
                file.write(text.replace("/usr/local", prefix))

    @unittest.skipIf(SANITIZED, "a program that is not built with a sanitizer cannot use a library that is")
    def test_outside_of_the_tree(self):
        """The lines below softmax.c, one after the other in one shell, in a directory that has nothing."""
        first, lines = block(page("README.md"), "the same text outside of the tree").split("\n", 1)
        self.assertEqual(first, "make install PREFIX=$HOME/psd")
        self.install()
        for port in ("2232", "2233", "2234"):  # not those of the cluster in four terminals, which may still be there
            self.assertIn(":" + port, lines)
            self.assertEqual(page("README.md").count(":" + port), lines.count(":" + port))
            lines = lines.replace(":" + port, ":%d" % free_port())
        out = self.shell(lines, self.folder)
        self.assertRegex(out, r"(?m)^test accuracy 0\.9[0-9]*$")
        self.assertEqual(len(re.findall("is shutting down", out)), 2)

    def test_placement(self):
        """The sizes that it says of the demo's two ps tasks, with and without --placement balanced."""
        said = re.search(r"ps 0 has ([0-9.]+) KiB of values and slots, ps 1 has ([0-9.]+) KiB.*?balanced`.*?: ([0-9.]+) KiB and ([0-9.]+) KiB", page("README.md"), re.S)
        got = []
        for flags in ((), ("--placement", "balanced")):
            with Cluster(2) as c:
                code, out, err = run(PSTRAIN, "--ps_hosts", c.hosts, "--worker_hosts", "127.0.0.1:%d" % free_port(), "--job_name", "worker",
                                     "--task_index", "0", "--optimizer", "adam", "--steps", "2", *flags)
                self.assertEqual(code, 0, out + err)
                variables = json.loads(run(PSCTL, "-t", c.addresses[0], "vars", "--json")[1])["variables"]
                for task in (0, 1):  # value, and two slots of Adam
                    got.append(sum(3 * v["bytes"] for v in variables if v["task"] == "/job:ps/task:%d" % task and v["dtype"] == "float32") / 1024)
        self.assertEqual(["%.1f" % g for g in got], ["%.1f" % float(s) for s in said.groups()])


NETWORK_OF_ITS_OWN = run("unshare", "-rn", "true")[0] == 0
ROOT_OF_ITS_OWN = run("unshare", "-r", "true")[0] == 0


class Install(Place):
    @unittest.skipUnless(ROOT_OF_ITS_OWN, "ldconfig of another root needs a user namespace, and none can be made")
    def test_ldconfig(self):
        """Behind the install: the loader's cache has the libraries then, by the name that programs are linked with."""
        lines = block(page("docs/OPERATIONS.md"), "## Install").splitlines()
        self.assertRegex(lines[0], r"^sudo make install\b")
        self.assertRegex(lines[1], r"^sudo ldconfig\b")
        root = os.path.join(self.folder, "root")
        os.makedirs(os.path.join(root, "etc"))
        subprocess.run(["cp", "-R", path("stage") + "/.", root], check=True)
        with open(os.path.join(root, "etc/ld.so.conf"), "w", encoding="utf-8") as file:
            file.write("/usr/local/lib\n")
        ldconfig = ["unshare", "-r", "/sbin/ldconfig", "-r", root]
        listed = subprocess.run([*ldconfig, "-p"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
        self.assertNotIn("libpsworker.so.", listed)
        subprocess.run(ldconfig, check=True)
        listed = subprocess.run([*ldconfig, "-p"], stdout=subprocess.PIPE, text=True, check=True).stdout
        for name in ("libpsd", "libpsworker"):
            self.assertRegex(listed, r"%s\.so\.([0-9]+) .* => /usr/local/lib/%s\.so\.\1\n" % (name, name))


@contextlib.contextmanager
def saving(folder, *flags):
    """Two ps tasks with checkpoints beneath this folder."""
    c = Cluster(2)
    try:
        for task in (0, 1):
            c.start(task, "--checkpoint_dir", folder, *flags)
        yield c
    finally:
        c.__exit__()


class Backup(Place):
    """The recipe below "A backup while psd runs"."""

    def setUp(self):
        super().setUp()
        text = page("docs/OPERATIONS.md")
        text = text[text.index("### A backup while psd runs"):]
        self.save, self.recipe = block(text, ""), block(text, "On the host of each ps task")
        self.assertIn("psctl -t ps0.example:2222 checkpoint save", self.save)

    def copy(self, number, source, to, **env):
        line = re.search(r"(?m)^N=12 FROM=\S+ TO=\S+$", self.recipe).group(0)
        lines = self.recipe.replace(line, "N=%d FROM=%s TO=%s" % (number, source, to))
        return run("bash", "-e", "-c", lines, env=env)

    def test_while_it_trains(self):
        live, backup = os.path.join(self.folder, "live"), os.path.join(self.folder, "backup")
        os.mkdir(live)
        with saving(live, "--checkpoint_seconds", "0", "--checkpoint_steps", "50", "--max_to_keep", "3") as c:
            flags = ("--ps_hosts", c.hosts, "--worker_hosts", "127.0.0.1:%d" % free_port(), "--job_name", "worker", "--task_index", "0")
            with subprocess.Popen([PSTRAIN, *flags, "--steps", "1000000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  preexec_fn=die_with_parent) as trainer:
                while run(PSCTL, "-t", c.addresses[0], "get", "global_step")[0] != 0:
                    self.assertIsNone(trainer.poll())
                number, copied = 0, False
                while number < 6 or not copied:  # others have gone by then. A newer number, as the text says, where training was so fast that it is gone already
                    code, out, err = run("bash", "-c", self.save.replace("ps0.example:2222", c.addresses[0]), env={"PATH": path("bin") + ":" + os.environ["PATH"]})
                    self.assertEqual(code, 0, err)
                    number = int(re.search(r"checkpoint ([0-9]+)", out).group(1))
                    listed = json.loads(run(PSCTL, "-t", c.addresses[0], "checkpoint", "list", "--json")[1])["checkpoints"]
                    copied = [self.copy(number, os.path.join(live, "ps-%d" % i), os.path.join(backup, "ps-%d" % i))[0] for i in (0, 1)] == [0, 0]
                    step = [i["step"] for i in listed if i["number"] == number]
                    copied = copied and number >= 6 and step != []
                    if not copied:
                        subprocess.run(["rm", "-rf", backup], check=True)
                trainer.kill()
        for task in ("ps-0", "ps-1"):
            os.chmod(os.path.join(backup, task), 0o700)
            self.assertEqual(os.listdir(os.path.join(backup, task)), ["%020d" % number])
        with saving(backup, "--checkpoint_seconds", "0") as c:
            self.assertEqual(json.loads(run(PSCTL, "-t", c.addresses[0], "get", "global_step", "--json")[1])["values"], step)
            status = json.loads(run(PSCTL, "-t", c.addresses[0], "checkpoint", "list", "--json")[1])["checkpoints"]
            self.assertEqual([(i["number"], i["state"], i["step"]) for i in status], [(number, "saved", step[0])])
            code, out, err = run(PSCTL, "-t", c.addresses[0], "checkpoint", "verify", str(number))
            self.assertEqual(code, 0, out + err)
            self.assertEqual(run(PSTRAIN, "--ps_hosts", c.hosts, "--eval")[0], 0)

    def test_what_is_removed_meanwhile(self):
        """The copy fails, however much of it is there."""
        source, to, tools = (os.path.join(self.folder, n) for n in ("ps-0", "copy", "tools"))
        place = os.path.join(source, "%020d" % 7)
        os.makedirs(place)
        os.mkdir(tools)
        with open(os.path.join(place, "manifest"), "w", encoding="utf-8") as file:
            file.write("x")
        self.assertEqual(self.copy(7, source, to)[0], 0)
        self.assertNotEqual(self.copy(8, source, to)[0], 0)
        with open(os.path.join(tools, "cp"), "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\n/bin/cp "$@" && mv "%s" "%s.tmp"\n' % (place, place))
        os.chmod(os.path.join(tools, "cp"), 0o700)
        self.assertNotEqual(self.copy(7, source, to, PATH=tools + ":" + os.environ["PATH"])[0], 0)


class TwoHosts(Place):
    """The lines below "A secure cluster on two hosts", on two hosts that share a network of their own."""
    NETWORKS = """
mount -t tmpfs none /run && ip netns add b && ip link add va type veth peer name vb netns b
ip addr add 10.0.0.1/24 dev va && ip link set va up && ip link set lo up
ip -n b addr add 10.0.0.2/24 dev vb && ip -n b link set vb up && ip -n b link set lo up"""

    def test_they_train(self):
        lines = block(page("README.md"), "## A secure cluster on two hosts").splitlines()
        self.assertLessEqual(len(lines), 6)
        b = [line for line in lines if "# on host b" in line]
        a = [line for line in lines if line not in b]
        self.assertEqual((len(a), len(b)), (5, 1))
        serve = a.pop()
        os.mkdir(os.path.join(self.folder, "b"))
        script = f"""set -e
export PATH={os.path.dirname(PSCTL)}:$PATH HOME={self.folder} PS_DATA_DIR={os.path.join(ROOT, "data")}
scp() {{ cp "$1" b/; }}
{chr(10).join(a)}
{serve} 2>psd.log >psd.out &
until grep -q ^serving: psd.out; do kill -0 $!; sleep 0.05; done
psctl key export ps0 --file psd.keys --out ps0.key
cd b
ip netns exec b {b[0].split("#")[0]} --steps 50
! ip netns exec b psctl -t 10.0.0.1:2222 --key_file '' status || exit 9
ip netns exec b psctl -t 10.0.0.1:2222 --key_file w0.key status
kill %1 && wait %1
"""
        if run("unshare", "-rnm", "bash", "-c", "set -e\n" + self.NETWORKS)[0] != 0:
            self.skipTest("no namespaces for two networks can be made")
        code, out, err = run("unshare", "-rnm", "bash", "-c", f"cd {self.folder}\nset -e\n{self.NETWORKS}\n{script}", timeout=600)
        self.assertEqual(code, 0, out + err)
        self.assertRegex(out, r"(?m)^/job:ps/task:0 .* up ")
        self.assertIn("the server uses TLS, and no key file", err)
        with open(os.path.join(self.folder, "psd.log"), encoding="utf-8") as log:
            self.assertIn("reason=plain_text", log.read())


class Ssh(Place):
    """The lines below "Over ssh"."""

    def setUp(self):
        super().setUp()
        text = page("docs/OPERATIONS.md")
        self.text = text[text.index("## Over ssh"):text.index("## systemd")]
        on, self.forwards = "", []  # (port here, port there, whose, on which host)
        for line in block(self.text, "").splitlines()[1:]:
            here, there, whose, where = re.fullmatch(r"\$TUNNEL -L 127\.0\.0\.1:(\d+):127\.0\.0\.1:(\d+) (\S+)\.example(?: +# on (.*))?", line).groups()
            on = where or on
            self.forwards.append((here, there, whose, on))

    def test_ssh_understands_them(self):
        if run("ssh", "-V")[0] != 0:
            self.skipTest("ssh is not installed")
        lines = block(self.text, "")
        self.assertEqual(lines.count("$TUNNEL -L"), len(self.forwards))
        out = self.shell(lines.replace("ssh -N", "ssh -G -F none -N"), self.folder)
        for here, there, _, _ in self.forwards:
            self.assertIn("localforward [127.0.0.1]:%s [127.0.0.1]:%s\n" % (here, there), out)
        self.assertIn("exitonforwardfailure yes", out)

    @unittest.skipUnless(NETWORK_OF_ITS_OWN, "no namespace for a network can be made")
    def test_three_hosts(self):
        """ps0, ps1 and one that trains and asks: each with the ports that the page gives it, and no other way to the others."""
        conf = os.path.join(self.folder, "psd.conf")
        lines = re.search(r"```\n(.*?)```", self.text, re.S).group(1)
        with open(conf, "w", encoding="utf-8") as file:
            file.write(re.sub(r"(?m)^ +", "", lines))
        ports = {whose: there for _, there, whose, _ in self.forwards}
        hosts = re.search(r"ps_hosts = (\S+)", lines).group(1)
        self.assertEqual(hosts, "127.0.0.1:%s,127.0.0.1:%s" % (ports["ps0"], ports["ps1"]))
        alone = [sys.executable, "-B", os.path.join(ROOT, "tests/system/alone.py"), self.folder]

        def host(name, served, *command):
            forwarded = ",".join(here for here, _, _, on in self.forwards if re.match(name + r"\b", on))
            return ["unshare", "-rn", *alone, served, forwarded, *command]
        tasks = []
        try:
            for i, name in enumerate(("ps0", "ps1")):
                tasks.append(subprocess.Popen(host(name, ports[name], path("bin/psd"), "--config", conf, "--task_index", str(i), "--log_level", "warn"),
                                              stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent))
            for task in tasks:
                self.assertTrue(task.stdout.readline().startswith("ready:"))
            workers = re.search(r"worker_hosts = (\S+),", lines).group(1)
            train = "%s --ps_hosts %s --worker_hosts %s --job_name worker --task_index 0 --steps 50 && exec %s -t 127.0.0.1:%s status" % (
                PSTRAIN, hosts, workers, PSCTL, ports["ps0"])
            code, out, err = run(*host("each host of a worker", "-", "bash", "-c", train))
            self.assertEqual(code, 0, out + err)
            self.assertEqual(len(re.findall(r"(?m)^/job:ps/task:[01] .* up ", out)), 2, out)
            # without its second line the host reaches one of them
            code, out, err = run("unshare", "-rn", *alone, "-", ports["ps0"], PSCTL, "-t", "127.0.0.1:" + ports["ps0"], "--timeout", "8s", "status")
            self.assertEqual(code, 1, out + err)
            self.assertEqual(len(re.findall(r"(?m)^/job:ps/task:[01] .* up ", out)), 1, out)
        finally:
            for task in tasks:
                task.kill()
                task.communicate()


class Restarts(Place):
    """The table below "What is to be started again"."""

    def setUp(self):
        super().setUp()
        text = page("docs/OPERATIONS.md")
        text = text[text.index("### What is to be started again"):text.index("### The unit")]
        self.text = text
        self.again = {int(status): again.split(":")[0].split(",")[0].strip() == "yes"
                      for status, again in re.findall(r"(?m)^\| ([0-9]) \|.*\| ([^|]+) \|$", text)}

    def test_the_unit_does_it(self):
        with open(os.path.join(ROOT, "scripts/systemd/psd@.service"), encoding="utf-8") as file:
            unit = file.read()
        self.assertIn("\nRestart=on-failure\n", unit)
        never = [int(n) for n in re.search(r"(?m)^RestartPreventExitStatus=(.*)$", unit).group(1).split()]
        self.assertEqual(self.again, {status: status != 0 and status not in never for status in range(5)})
        self.assertIn("`exitcodes=%s`" % ",".join(str(s) for s in sorted(s for s in self.again if not self.again[s])), self.text)

    def test_statuses(self):
        """Those that a test can have at will: 3 and 4 are in test_signals.py and test_checkpoint.py."""
        self.assertEqual(run(path("bin/psd"), "--lease", "x")[0], 2)
        self.assertEqual(run(PSTRAIN, "--no_such_flag")[0], 2)
        self.assertEqual(run(path("bin/psd"), "--ps_hosts", "127.0.0.1:%d" % free_port(), "--checkpoint_dir", os.path.join(self.folder, "not", "there"))[0], 1)
        with Cluster(1) as c:
            flags = ("--ps_hosts", c.hosts, "--worker_hosts", "127.0.0.1:%d" % free_port(), "--job_name", "worker", "--task_index", "0")
            self.assertEqual(run(PSTRAIN, *flags, "--steps", "1")[0], 0)
            self.assertEqual(run(PSTRAIN, *flags, "--steps", "5", "--warm_start", "/not/there")[0], 1)
            self.assertEqual(run(PSCTL, "-t", c.addresses[0], "shutdown", "--all", "--yes")[0], 0)
            self.assertEqual(c.tasks[0].wait(600), 0)


class InAnIncident(unittest.TestCase):
    def test_lines_fit(self):
        """What is read in an incident fits a terminal of 160 columns."""
        for name, begin, end in (("docs/OPERATIONS.md", "## Checkpoints", "## More of export"), ("docs/DURABILITY.md", "7.2. ", "7.3. "),
                                 ("docs/OPERATIONS.md", "## Upgrade", "## Settings")):
            text = page(name)
            part = text[text.index("\n" + begin):text.index("\n" + end)]
            self.assertGreater(part.count("\n|"), 15)
            self.assertEqual([line for line in part.split("\n") if len(line) > 160], [])


if __name__ == "__main__":
    sys.exit(main(unittest))
