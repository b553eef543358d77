#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 120
"""psd under systemd, as far as it goes without one: a manager of our own hears READY, STATUS, RELOADING, WATCHDOG and STOPPING; the unit is
what systemd understands; psd.conf, manual pages and completions are what the programs say. And under a real one, where one can be
started."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from cluster import BUILD, die_with_parent, main, path, plain, run

PSD = path("bin/psd")
STAGE = path("stage")
PREFIX = os.path.join(STAGE, "usr/local")
CONF = os.path.join(PREFIX, "etc/psd/psd.conf")
WAIT_S = 600
NO_SETTING = ("config", "print_config", "version", "help",  # flags that psd.conf has not
              "ps_tasks", "ps_per_node", "worker_tasks", "base_port", "directory_port", "ps_pods", "worker_pods", "rendezvous", "address_suffix")


class Manager:
    """The socket that NOTIFY_SOCKET names."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(name)
        self.socket.settimeout(WAIT_S)
        bound = self.socket.getsockname()
        self.name = "@" + bound[1:].decode() if isinstance(bound, bytes) else bound

    def next(self):
        return self.socket.recv(4096).decode().split("\n")

    def next_but_status(self):
        """Each 5 s psd says what has changed: on a slow machine that may be at any time."""
        message = self.next()
        while message[0].startswith("STATUS="):
            message = self.next()
        return message

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


class Daemon(subprocess.Popen):
    """Killed at the end of its block, where a failed test leaves it running."""

    def __exit__(self, *exc):
        if self.poll() is None:
            self.kill()
        super().__exit__(*exc)


def system_calls(word):
    """Those that a word of SystemCallFilter stands for."""
    if not word.startswith("@"):
        return {word}
    lines = [line.strip() for line in run("systemd-analyze", "syscall-filter", word)[1].split("\n")[1:]]
    return set().union(*(system_calls(line) for line in lines if line and not line.startswith("#")))


def start(*args, env=None, program=PSD, before=(), **kwargs):
    full = {k: v for k, v in os.environ.items() if k not in ("TF_CONFIG", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")}
    full.update(env or {})
    kwargs.setdefault("stderr", subprocess.DEVNULL)
    return Daemon([program, *before, *args], stdout=subprocess.PIPE, text=True, env=full, preexec_fn=die_with_parent, **kwargs)


def uncommented(text):
    return re.sub(r"^#(?=[a-z])", "", text, flags=re.M)


class Notify(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_ready_status_stopping(self):
        for name in (os.path.join(self.folder.name, "notify"), ""):  # a path; an abstract name that the system chooses
            with Manager(name) as manager, start("--listen", "127.0.0.1:0", env={"NOTIFY_SOCKET": manager.name}) as psd:
                address = psd.stdout.readline().strip().removeprefix("ready: psd://")
                self.assertEqual(manager.next(), ["READY=1", f"STATUS=serving /job:ps/task:0 at {address}, 0 variables, 0 sessions"])
                code, out, err = run(path("examples/softmax"), "--target", address, "--steps", "5")
                self.assertEqual(code, 0, out + err)
                message = manager.next()
                while ", 3 variables, " not in message[0]:  # it may be said while there are fewer
                    self.assertRegex(message[0], rf"^STATUS=serving /job:ps/task:0 at {address}, [012] variables?, \d+ session")
                    message = manager.next()
                self.assertRegex("\n".join(message), rf"^STATUS=serving /job:ps/task:0 at {address}, 3 variables, \d+ session")
                psd.send_signal(signal.SIGTERM)
                self.assertEqual(manager.next_but_status(), ["STOPPING=1", "EXTEND_TIMEOUT_USEC=11000000", "STATUS=draining for at most 11.000 s"])
                self.assertEqual(psd.wait(WAIT_S), 0)
                manager.socket.settimeout(0)
                self.assertRaises(BlockingIOError, manager.next)

    def test_reload(self):
        conf = os.path.join(self.folder.name, "psd.conf")
        with open(conf, "w", encoding="utf-8") as text:
            text.write("drain = 1s\n")
        with Manager("") as manager, start("--listen", "127.0.0.1:0", "--config", conf, env={"NOTIFY_SOCKET": manager.name}) as psd:
            self.assertEqual(manager.next()[0], "READY=1")
            before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            psd.send_signal(signal.SIGHUP)
            message = manager.next_but_status()
            self.assertEqual(message[0], "RELOADING=1")
            self.assertGreaterEqual(int(message[1].removeprefix("MONOTONIC_USEC=")), before)
            self.assertEqual(manager.next_but_status(), ["READY=1"])
            psd.send_signal(signal.SIGTERM)
            self.assertEqual(manager.next_but_status()[0], "STOPPING=1")
            self.assertEqual(psd.wait(WAIT_S), 0)

    def test_several_tasks_are_ready_together_and_shut_down_by_a_client(self):
        with Manager("") as manager, start("-c", "ps=127.0.0.1:1,127.0.0.1:2", "--task_index", "0-1", "--listen",
                                           "127.0.0.1:0,127.0.0.1:0", env={"NOTIFY_SOCKET": manager.name}) as psd:
            ready = [psd.stdout.readline().strip().removeprefix("ready: psd://") for _ in range(2)]
            self.assertEqual(manager.next(), ["READY=1", "STATUS=serving 2 of 2 tasks, /job:ps/task:0 to /job:ps/task:1, "
                                              "0 variables, 0 sessions"])
            psd.send_signal(signal.SIGINT)
            self.assertEqual(manager.next_but_status()[0], "STOPPING=1", ready)
            self.assertEqual(psd.wait(WAIT_S), 0)
        with Manager("") as manager, start("--listen", "127.0.0.1:0", env={"NOTIFY_SOCKET": manager.name}) as psd:
            address = psd.stdout.readline().strip().removeprefix("ready: psd://")
            manager.next()
            code, out, err = run(path("bin/psctl"), "-t", address, "shutdown", "--all", "--yes")
            self.assertEqual(code, 0, out + err)
            self.assertEqual(manager.next_but_status()[0], "STOPPING=1")
            self.assertEqual(psd.wait(WAIT_S), 0)

    def test_watchdog(self):
        with Manager("") as manager:
            env = {"NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "400000"}
            with start("--listen", "127.0.0.1:0", env=env) as psd:
                psd.stdout.readline()
                self.assertEqual(manager.next()[0], "READY=1")
                for _ in range(3):
                    # on a machine that stands still a task does not turn, and the status says so
                    self.assertEqual(manager.next_but_status(), ["WATCHDOG=1"])
                psd.send_signal(signal.SIGTERM)
                self.assertEqual(psd.wait(WAIT_S), 0)

    def test_a_manager_that_is_not_there_or_does_not_listen(self):
        with Manager("") as manager:
            for name in ("/nonexistent/notify", "@nobody-is-there", "nonsense", manager.name):
                env = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "2000"}
                with start("--listen", "127.0.0.1:0", env=env) as psd:
                    address = psd.stdout.readline().strip().removeprefix("ready: psd://")
                    code, out, err = run(path("bin/psctl"), "-t", address, "ping")
                    self.assertEqual(code, 0, out + err)
                    psd.send_signal(signal.SIGTERM)
                    self.assertEqual(psd.wait(WAIT_S), 0)

    def test_a_start_that_fails_says_nothing(self):
        with Manager("") as manager, start("--lease", "never", env={"NOTIFY_SOCKET": manager.name}) as psd:
            self.assertEqual(psd.wait(WAIT_S), 2)
            manager.socket.settimeout(0)
            self.assertRaises(BlockingIOError, manager.next)

    def test_lines_for_the_journal_have_a_priority(self):
        for as_journal in (True, False):
            reader, writer = os.pipe()
            of = os.fstat(writer)
            env = {"JOURNAL_STREAM": f"{of.st_dev}:{of.st_ino if as_journal else 1}"}
            with start("--listen", "127.0.0.1:0", env=env, stderr=writer) as psd:
                os.close(writer)
                psd.stdout.readline()
                psd.send_signal(signal.SIGTERM)
                self.assertEqual(psd.wait(WAIT_S), 0)
            with open(reader, encoding="utf-8") as text:
                lines = text.read().splitlines()
            self.assertTrue(lines)
            for line in lines:
                self.assertTrue(line.startswith("<6>ts=" if as_journal else "ts="), line)


class Installed(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def make(self, *args):
        variant = os.path.basename(os.path.normpath(BUILD))
        done = subprocess.run(["make", "--no-print-directory", f"VARIANT={variant}", *args], capture_output=True, text=True,
                              timeout=600, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def verify(self, text):
        unit = os.path.join(self.folder.name, "psd@.service")
        with open(unit, "w", encoding="utf-8") as out:
            out.write(text)
        return "".join(run("systemd-analyze", "verify", "--man=no", unit.replace("@.", "@0."))[1:])

    def test_unit(self):
        with open(os.path.join(PREFIX, "lib/systemd/system/psd@.service"), encoding="utf-8") as text:
            unit = text.read()
        self.assertNotIn("@BINDIR@", unit)
        self.assertIn("ExecStart=/usr/local/bin/psd --config /usr/local/etc/psd/psd.conf --task_index %i $PSD_FLAGS\n", unit)
        for line in re.findall(r"(?m)^Exec\w+=.*$", unit):  # systemd before 239 takes no other ones, and looks in no PATH
            self.assertRegex(line, r"^Exec\w+=/")
        self.assertIn("EnvironmentFile=-/usr/local/etc/default/psd\n", unit)
        self.assertNotRegex(unit, r"@[A-Z]+@")
        if shutil.which("systemd-analyze") is None:
            self.skipTest("systemd-analyze is not installed: the unit is not verified")
        real = unit.replace("/usr/local/bin/psd", PSD)
        self.assertEqual(self.verify(real), "")
        self.assertIn("LimitNOFILES", self.verify(real.replace("LimitNOFILE=", "LimitNOFILES=")))  # the check can fail
        self.assertEqual(self.exposed(real), 0)
        self.assertNotEqual(self.exposed(real.replace("RestrictNamespaces=", "#")), 0)  # so can this one
        handed = re.sub(r"(?m)^# (LoadCredential=|Environment=PSD_KEY_FILE=)", r"\1", real)  # keys as docs/SECURITY.md has them
        self.assertIn("\nLoadCredential=psd.keys:/usr/local/etc/psd/psd.keys\nEnvironment=PSD_KEY_FILE=%d/psd.keys\n", handed)
        self.assertEqual(self.verify(handed), "")
        self.assertEqual(self.exposed(handed), 0)

    def exposed(self, text):
        """systemd's own measure of what a broken psd could do, 0 (nothing) to 10: is it over 1.2?"""
        unit = os.path.join(self.folder.name, "psd@0.service")
        with open(unit, "w", encoding="utf-8") as out:
            out.write(text)
        return run("systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold=12", unit)[0]

    def test_psd_does_nothing_that_its_unit_forbids(self):
        for tool in ("strace", "systemd-analyze"):
            if shutil.which(tool) is None:
                self.skipTest(f"{tool} is not installed")
        if os.path.basename(os.path.normpath(BUILD)) not in ("release", "debug"):
            self.skipTest("an instrumented psd calls what its runtime library wants")
        with open(os.path.join(PREFIX, "lib/systemd/system/psd@.service"), encoding="utf-8") as text:
            unit = re.findall(r"(?m)^(\w+)=(.*)$", text.read())
        allowed = set()
        for value in [value for name, value in unit if name == "SystemCallFilter"]:
            calls = set().union(*(system_calls(word) for word in value.removeprefix("~").split()))
            allowed = allowed - calls if value.startswith("~") else allowed | calls
        families, = [value.split() for name, value in unit if name == "RestrictAddressFamilies"]
        trace = os.path.join(self.folder.name, "trace")
        conf = os.path.join(self.folder.name, "psd.conf")
        with open(conf, "w", encoding="utf-8") as text:
            text.write(f"drain = 1s\ncheckpoint_dir = {self.folder.name}/checkpoints\n")
        with Manager("") as manager, \
                start("--listen", f"localhost:0,unix:{self.folder.name}/socket", "--config", conf, program="strace", env={
                    "NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "400000"}, before=("-f", "-qq", "-o", trace, PSD)) as strace:
            address = strace.stdout.readline().strip().removeprefix("ready: psd://")
            for target in (address, f"unix:{self.folder.name}/socket"):
                code, out, err = run(path("examples/softmax"), "--target", target, "--steps", "5")
                self.assertEqual(code, 0, out + err)
            with open(f"/proc/{strace.pid}/task/{strace.pid}/children", encoding="utf-8") as text:
                psd = int(text.read().split()[0])
            os.kill(psd, signal.SIGHUP)
            while manager.next() != ["READY=1"]:
                pass
            os.kill(psd, signal.SIGTERM)
            self.assertEqual(strace.wait(WAIT_S), 0)
        with open(trace, encoding="utf-8", errors="replace") as text:
            lines = text.read()
        called = set(re.findall(r"(?m)^\d+ +(\w+)\(", lines))
        self.assertGreaterEqual(called, {"epoll_wait", "socket", "sendto", "signalfd4", "flock"})
        self.assertEqual(called - allowed - {"execve"}, set())
        self.assertEqual(set(re.findall(r"socket\((AF_\w+)", lines)) - set(families), set())
        self.assertEqual(re.findall(r".*PROT_WRITE\|PROT_EXEC.*|.*mprotect\(.*PROT_EXEC.*", lines), [])

    def test_an_edited_psd_conf_survives(self):
        destination = os.path.join(self.folder.name, "dest")
        where = (f"DESTDIR={destination}", "SYSCONFDIR=/etc")  # another PREFIX would compile anew
        self.make("install", *where)
        with open(os.path.join(destination, "usr/local/lib/systemd/system/psd@.service"), encoding="utf-8") as text:
            unit = text.read()
        self.assertIn("ExecStart=/usr/local/bin/psd --config /etc/psd/psd.conf ", unit)
        self.assertIn("\nStartLimitIntervalSec=0\n", unit.split("[Service]")[0])
        with open(os.path.join(destination, "usr/local/share/man/man8/psd.8"), encoding="utf-8") as text:
            self.assertIn("/etc/psd/psd.conf", text.read())
        conf = os.path.join(destination, "etc/psd/psd.conf")
        with open(conf, "a", encoding="utf-8") as text:
            text.write("lease = 12s\n")
        self.make("install", *where)
        with open(conf, encoding="utf-8") as text:
            self.assertTrue(text.read().endswith("lease = 12s\n"))
        self.make("uninstall", *where)
        left = [os.path.join(d, f) for d, _, files in os.walk(destination) for f in files]
        self.assertEqual(left, [conf])

    def settings(self, *args):
        code, out, err = run(PSD, *args, "--print_config")
        self.assertEqual((code, err), (0, ""))
        return out

    @plain("it is about psd without any setting")
    def test_psd_conf(self):
        with open(CONF, encoding="utf-8") as text:
            conf = text.read()
        self.assertEqual(conf, self.settings())
        self.assertEqual(conf, self.settings("--config", CONF))
        everything = os.path.join(self.folder.name, "psd.conf")
        with open(everything, "w", encoding="utf-8") as text:
            text.write(uncommented(conf))
        said = self.settings("--config", everything)
        self.assertNotRegex(said, r"(?m)^#[a-z]")
        a_line_each = re.sub(r"^allow = .*$", lambda rows: rows.group().replace("; ", "\n    "), uncommented(conf), flags=re.M)
        self.assertEqual(said, a_line_each)  # the default is one line, because a line that goes on is no comment
        with open(everything, "w", encoding="utf-8") as text:  # rows without a key are in force, and give nobody on TCP a right
            text.write(re.sub(r"^allow = .*\n", "", uncommented(conf), flags=re.M))
        for flags in ((), ("--config", everything)):  # it starts, and has the same settings as without a file
            with start("--listen", "127.0.0.1:0", *flags) as psd:
                address = psd.stdout.readline().strip().removeprefix("ready: psd://")
                code, out, err = run(path("bin/psctl"), "-t", address, "--json", "config")
                self.assertEqual(code, 0, out + err)
                psd.send_signal(signal.SIGTERM)
                self.assertEqual(psd.wait(WAIT_S), 0)
            if flags:
                self.assertEqual(out, without)
            else:
                without = out

    def test_printed_settings_are_those_in_force(self):
        hosts = ",".join(f"host{i}.example:2222" for i in range(300))  # much longer than a line
        text = self.settings("--ps_hosts", hosts, "--lease", "20s", "--no-refuse_nonfinite", "--task_index", "3")
        self.assertLess(max(map(len, text.split("\n"))), 140)
        for line in ("lease = 20s", "refuse_nonfinite = false", "task_index = 3", "#beat = 2.5s"):
            self.assertIn("\n" + line + "\n", text)
        conf = os.path.join(self.folder.name, "psd.conf")
        with open(conf, "w", encoding="utf-8") as out:
            out.write(text)
        self.assertEqual(self.settings("--config", conf), text)

    def test_settings_files_that_are_none(self):
        code, out, err = run(PSD, "--config", "/dev/zero")
        self.assertEqual((code, out, err), (2, "", "psd: configuration file /dev/zero: has more than 1048576 bytes\n"))

    def test_manual_pages(self):
        pages = [os.path.join(d, f) for d, _, files in os.walk(os.path.join(PREFIX, "share/man")) for f in files]
        names = {os.path.basename(p) for p in pages}
        self.assertLessEqual({"psd.8", "pstrain.1", "psd.conf.5"}, names)
        for page in pages:
            with open(page, encoding="utf-8") as text:
                body = text.read()
            self.assertNotRegex(body, r"@[A-Z]+@")
            program = os.path.basename(page).split(".")[0]
            is_file = page.endswith(".5")
            _, out, _ = run(path(f"bin/{program}"), "--help")
            said = body.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "")
            for flag in re.findall(r"^ {2,6}(?:-\w, )?--(?:\[no-\])?([a-z0-9_]+)", out, re.M):
                if is_file and flag not in NO_SETTING:
                    self.assertRegex(said, rf"(?m)^{flag} = ")
                elif not is_file:
                    self.assertRegex(said, rf"(--(\[no-\])?|\bFl -){flag}\b", page)
            if program == "pstrain":  # hyperparameters, as --help has them
                self.assertIn("beta2=0.999", out)
                self.assertTrue(all(value in said for value in re.findall(r"(?m)^      (\w+=\S+)", out)))
        if shutil.which("groff") is None:
            self.skipTest("groff is not installed: the pages are not formatted")
        for page in pages:
            self.assertEqual(run("groff", "-mandoc", "-ww", "-z", "-Tutf8", page), (0, "", ""))

    def test_completions_of_zsh_and_fish(self):
        for program in ("psd", "psctl", "pstrain"):
            help_text = run(path("bin/" + program), "--help")[1]
            names = subprocess.run(["scripts/options", "names"], input=help_text, capture_output=True, text=True, check=True).stdout
            zsh = os.path.join(PREFIX, "share/zsh/site-functions/_" + program)
            fish = os.path.join(PREFIX, f"share/fish/vendor_completions.d/{program}.fish")
            words = {"psd": ("debug info warn error off",), "psctl": ("shutdown",),
                     "pstrain": ("ps worker", "sgd momentum nesterov adagrad adam")}[program]
            with open(zsh, encoding="utf-8") as text:
                body = text.read()
            for some in words:
                self.assertIn(some, body)
            self.assertTrue(body.startswith(f"#compdef {program}\n"))
            self.assertEqual(set(re.findall(r"'--(?!no-)(\w+)", body)), set(names.split()))
            with open(fish, encoding="utf-8") as text:
                body = text.read()
            for some in words:
                self.assertIn(some, body)
            self.assertEqual(set(re.findall(rf"(?m)^complete -c {program} .*-l (?!no-)(\w+)", body)), set(names.split()))
            for shell, name in (("zsh", zsh), ("fish", fish)):
                if shutil.which(shell) is not None:
                    self.assertEqual(run(shell, "-n", name), (0, "", ""))
        missing = [shell for shell in ("zsh", "fish") if shutil.which(shell) is None]
        if missing:
            self.skipTest(f"not installed: {', '.join(missing)}: its completions are not parsed by it")

    def test_completion(self):
        for program, word, before, expected in (("psd", "--lea", "", "--lease"), ("psd", "--refu", "", "--refuse_nonfinite"),
                                                ("psd", "de", "--log_level", "debug"), ("pstrain", "--learn", "", "--learning_rate"),
                                                ("pstrain", "adam", "--optimizer", "adam adamw adamw_tf adamax")):
            script = ('. "$1"; COMP_WORDS=("$2" ${4:+"$4"} "$3"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); "_${2##*/}" "$2"; '
                      'echo "${COMPREPLY[*]}"')
            done = run("bash", "-c", script, "bash", os.path.join(PREFIX, "share/bash-completion/completions", program),
                       path("bin/" + program), word, before)
            self.assertEqual(done, (0, expected + "\n", ""))


class Boot(unittest.TestCase):
    """systemd itself as the first process of a container over a copy of the running system."""

    def test_unit_under_systemd(self):
        if os.getuid() != 0:
            self.skipTest("needs root")
        for tool in ("systemd-nspawn", "systemctl"):
            if shutil.which(tool) is None:
                self.skipTest(f"{tool} is not installed")
        if os.path.basename(os.path.normpath(BUILD)) not in ("release", "debug"):
            self.skipTest("an instrumented psd finds no runtime library in the container")
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "systemd_boot.sh")
        with tempfile.TemporaryDirectory() as folder:
            code, out, err = run("unshare", "-m", "bash", script, STAGE, folder, timeout=600)
        if code == 77:
            self.skipTest(out.strip().split("\n")[-1])
        self.assertEqual(code, 0, out + err)


if __name__ == "__main__":
    sys.exit(main(unittest))
