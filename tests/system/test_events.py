#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""psctl events: what has happened at the tasks, once and as it happens; a slow follower, and a task that dies."""
import json
import os
import subprocess
import signal
import sys
import threading
import unittest

from cluster import Cluster, die_with_parent, halt, main, path, run

PSCTL = path("bin/psctl")


class Follower:
    """psctl events --follow --json; wait_for() returns the first object that has these members."""

    def __init__(self, target, *flags, env=None):
        self.process = subprocess.Popen([PSCTL, "-t", target, "events", "--follow", "--json", *flags], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent,
                                        env={**os.environ, **(env or {})})
        self.came = []
        self.changed = threading.Condition()
        self.ended = False
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.came.append(json.loads(line))
                self.changed.notify()
        with self.changed:
            self.ended = True
            self.changed.notify()

    def wait_for(self, good=lambda e: True, **members):
        def found():
            return [e for e in self.came if members.items() <= e.items() and good(e)]
        with self.changed:
            self.changed.wait_for(lambda: found() or self.ended, timeout=600)
            assert found(), "%r did not come: %r" % (members, self.came)
            return found()[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def events(target, *flags):
    code, out, err = run(PSCTL, "-t", target, "events", "--json", *flags)
    assert code == 0, out + err
    return json.loads(out)["events"]


def connected(target):
    """Wait until the directory has task 1: a task is ready before that."""
    with Follower(target) as follower:
        return follower.wait_for(at="/job:ps/task:0", event="task_connected")["number"]


class Events(unittest.TestCase):
    def test_once(self):
        with Cluster(2) as cluster:
            target = cluster.addresses[0]
            connected(target)
            here = events(target, "--task", "ps:1")
            self.assertEqual([e["number"] for e in here], list(range(1, len(here) + 1)))
            self.assertEqual(({e["at"] for e in here}, here[0]["event"], here[0]["level"]), ({"/job:ps/task:1"}, "started", "info"))
            self.assertEqual(len({e["life"] for e in here}), 1)
            every = events(target)
            self.assertEqual([e["time"] for e in every], sorted(e["time"] for e in every))
            self.assertEqual({e["at"] for e in every}, {"/job:ps/task:0", "/job:ps/task:1"})
            code, out, _ = run(PSCTL, "-t", target, "events")
            self.assertEqual((code, out.split()[:5]), (0, ["TIME", "AT", "LEVEL", "EVENT", "WHAT"]))
            self.assertIn("task_connected", out)
            cluster.kill(1)
            code, out, err = run(PSCTL, "-t", target, "events", "--json")
            self.assertEqual((code, [d["task"] for d in json.loads(out)["down"]]), (1, ["/job:ps/task:1"]))
            self.assertIn("/job:ps/task:1", err)

    def test_follow(self):
        with Cluster(2) as cluster:
            target = cluster.addresses[0]
            first = connected(target)
            with Follower(target) as follower:
                follower.wait_for(at="/job:ps/task:1", event="started")
                code, out, err = run(PSCTL, "-t", target, "config", "set", "spin_us", "40")
                self.assertEqual(code, 0, out + err)
                self.assertIn("new=40", follower.wait_for(at="/job:ps/task:1", event="config_set")["text"])
                before = follower.wait_for(at="/job:ps/task:1", event="started")["life"]
                cluster.kill(1)
                self.assertEqual(follower.wait_for(event="task_lost")["level"], "warn")
                cluster.start(1)
                second = follower.wait_for(lambda e: e["number"] > first, at="/job:ps/task:0", event="task_connected")
                self.assertIn("/job:ps/task:1", second["text"])
                again = follower.wait_for(lambda e: e["life"] != before, at="/job:ps/task:1", event="started")  # within a second
                self.assertEqual(again["number"], 1)

    def test_a_worker(self):
        with Cluster(1) as cluster, Follower(cluster.addresses[0]) as follower:
            follower.wait_for(event="started")
            code, out, err = run(path("examples/softmax"), "--ps_hosts", cluster.hosts, "--steps", "5")
            self.assertEqual(code, 0, out + err)
            follower.wait_for(event="chief")

    def test_too_slow(self):
        with Cluster(1) as cluster:
            target = cluster.addresses[0]
            run(PSCTL, "-t", target, "config", "set", "events_max", "4")
            with Follower(target) as follower:
                follower.wait_for(event="config_set")
                halt(follower.process.pid)
                for i in range(12):
                    code, _, err = run(PSCTL, "-t", target, "config", "set", "spin_us", str(100 + i))
                    self.assertEqual(code, 0, err)
                os.kill(follower.process.pid, signal.SIGCONT)
                follower.wait_for(event="config_set", text=[e for e in events(target)][-1]["text"])
                numbers = [e["number"] for e in follower.came if "number" in e]
                missed = sum(e["missed"] for e in follower.came if "missed" in e)
                self.assertGreater(missed, 0)
                self.assertEqual(len(numbers) + missed, numbers[-1] - numbers[0] + 1, follower.came)


if __name__ == "__main__":
    sys.exit(main(unittest))
