#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example softmax, which knows nothing of rounds, with --sync and --staleness: 1 and 2 ps, 1 to 3 workers, workers that are
late, slow, killed and started again, each policy, both sides of a disagreement, and what psctl shows of it."""
import json
import re
import signal
import subprocess
import sys
import time
import unittest

from cluster import Cluster, die_with_parent, free_port, halt, main, path, run

SOFTMAX = path("examples/softmax")
FOR_EVER = ("--steps", "100000000")  # until somebody stops it
DEADLINE_EXCEEDED, FAILED_PRECONDITION, ABORTED = 4, 9, 10


class Team:
    """Workers of one cluster; `with Team(...)` starts no worker and kills what is left. A killed worker is lost when its lease ends; one
    that a busy machine lets stand still for a second or two is not."""
    LEASE = ("--lease", "4s", "--beat", "200ms")

    def __init__(self, ps, workers, *flags):
        self.cluster = Cluster(ps)
        self.hosts = ",".join("127.0.0.1:%d" % free_port() for _ in range(workers))
        self.flags = flags
        self.children = {}

    def __enter__(self):
        for i in range(len(self.cluster.addresses)):
            self.cluster.start(i, *self.LEASE)
        return self

    def __exit__(self, *error):
        for child in self.children.values():
            if child.poll() is None:
                child.kill()
            child.communicate()
        self.cluster.__exit__(*error)

    def start(self, worker, *flags):
        self.children[worker] = subprocess.Popen(
            [SOFTMAX, "--ps_hosts", self.cluster.hosts, "--worker_hosts", self.hosts, "--job_name", "worker", "--task_index",
             str(worker), *self.flags, *flags],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, preexec_fn=die_with_parent)

    def start_all(self, *flags):
        for worker in range(self.hosts.count(",") + 1):
            self.start(worker, *flags)

    def end(self, worker):
        """(exit status, output)"""
        child = self.children.pop(worker)
        out = child.communicate(timeout=600)[0]
        return child.returncode, out

    def psctl(self, *args):
        code, out, err = run(path("bin/psctl"), "-t", self.cluster.addresses[0], *args)
        if code != 0:
            raise RuntimeError(out + err)
        return out

    def step(self):
        code, out, _ = run(path("bin/psctl"), "-t", self.cluster.addresses[0], "get", "global_step", "--json")
        return json.loads(out)["values"][0] if code == 0 else -1

    def past(self, step):
        """Wait until the global step is more than this, and return it."""
        return until(lambda: self.step() > step and self.step())

    def rounds(self):
        return json.loads(self.psctl("rounds", "--json"))


def until(condition):
    end = time.monotonic() + 600
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise RuntimeError("it did not come")


class Rounds(unittest.TestCase):
    def ended(self, team, worker, code):
        got, out = team.end(worker)
        self.assertEqual(got, code, out)
        return out

    def learned(self, team, worker, least=0.90):
        out = self.ended(team, worker, 0)
        found = re.search(r"^test accuracy (0\.\d+)$", out, re.M)
        self.assertIsNotNone(found, out)
        self.assertGreaterEqual(float(found.group(1)), least)
        return out

    def test_softmax(self):
        for ps, workers in ((1, 1), (1, 2), (2, 2), (2, 3)):
            with self.subTest(ps=ps, workers=workers), Team(ps, workers, "--sync", "--steps", "500") as team:
                team.start_all()
                for worker in range(workers):
                    self.learned(team, worker)
                self.assertEqual(team.step(), 500)  # one for all of them
                found = {v["name"]: v["version"] for v in json.loads(team.psctl("vars", "--json"))["variables"]}
                self.assertEqual((found["w"], found["b"]), (500, 500))
                left = team.rounds()
                self.assertEqual((left["rounds"][0]["round"], left["rounds"][0]["step"], left["members"]), (501, 500, []))

    def test_the_last_one_is_waited_for(self):
        with Team(2, 3, "--sync", *FOR_EVER) as team:
            team.start(0)
            team.start(1)
            until(lambda: team.step() == 0 and [m["state"] for m in team.rounds()["members"]].count("complete") == 2)
            seen = team.rounds()
            one = seen["rounds"][0]
            self.assertEqual((one["mode"], one["round"], one["phase"], one["complete"], one["workers"]),
                             ("rounds", 1, "opening", 2, 3))
            self.assertIn("COMPLETE", team.psctl("rounds"))
            self.assertEqual(team.step(), 0)
            team.start(2)
            team.past(20)
            team.psctl("stop")
            for worker in range(3):
                self.ended(team, worker, 0)

    def killed(self, team, worker=1):
        """One of them dies in the middle of it; the global step then."""
        if not team.children:
            team.start_all()
        team.past(20)
        team.children[worker].kill()
        team.end(worker)
        return team.step()

    def states(self, team):
        return [m["state"] for m in team.rounds()["members"]]

    def test_shrink(self):
        with Team(2, 3, "--sync", "--on_worker_loss", "shrink", *FOR_EVER) as team:
            team.past(self.killed(team) + 20)
            team.start(1)  # it is welcome again
            until(lambda: len(team.rounds()["members"]) == 3)
            team.past(team.step() + 5)
            team.psctl("stop")
            for worker in range(3):
                self.ended(team, worker, 0)

    def test_fail(self):
        with Team(2, 3, "--sync", "--on_worker_loss", "fail", *FOR_EVER) as team:
            self.killed(team)
            for worker in (0, 2):
                self.assertIn("/job:worker/task:1", self.ended(team, worker, ABORTED))

    def test_wait(self):
        with Team(1, 2, "--sync", *FOR_EVER) as team:
            for worker in (1, 0):  # and the chief
                at = self.killed(team, worker)
                until(lambda: any(m["task"] == "/job:worker/task:%d" % worker and m["state"] in ("lost", "missing")
                                  for m in team.rounds()["members"]))
                team.start(worker)  # its place has waited for it
                team.past(at + 20)
            team.psctl("stop")
            for worker in range(2):
                self.ended(team, worker, 0)

    def test_wait_ends(self):
        with Team(1, 2, "--sync", "--timeout", "15s", *FOR_EVER) as team:
            self.killed(team)
            self.assertIn("/job:worker/task:1", self.ended(team, 0, DEADLINE_EXCEEDED))

    def test_backup_worker(self):
        with Team(2, 3, "--sync", "--replicas_to_aggregate", "2", *FOR_EVER) as team:
            team.start_all()
            team.past(20)
            halt(team.children[2].pid)
            at = team.past(team.step() + 20)
            until(lambda: any(m["state"] == "lost" for m in team.rounds()["members"]))
            team.children[2].send_signal(signal.SIGCONT)
            team.past(at + 20)
            until(lambda: team.rounds()["rounds"][0]["dropped"] > 0)
            team.psctl("stop")
            for worker in range(3):
                out = self.ended(team, worker, 0)
            self.assertRegex(out, r"ev=(place_lost|step_dropped) ")

    def test_both_sides_must_agree(self):
        with Team(2, 2, *FOR_EVER) as team:
            team.start(0, "--sync", "--sync_workers", "1")
            team.past(5)
            team.start(1)
            out = self.ended(team, 1, FAILED_PRECONDITION)
            self.assertIn("the chief has asked for rounds", out)
            team.start(1, "--sync", "--sync_workers", "2")
            self.assertIn("2", self.ended(team, 1, 3))
            team.psctl("stop")
            self.ended(team, 0, 0)
            team.start(0)  # nobody is in rounds any more: they end
            team.past(team.step() + 5)
            team.start(1, "--sync")
            self.assertIn("this program asks for rounds", self.ended(team, 1, FAILED_PRECONDITION))
            team.psctl("stop")
            self.ended(team, 0, 0)

    def ended_all(self, team):
        for worker in sorted(team.children):
            self.ended(team, worker, 0)

    def test_workers_before_their_chief(self):
        """What an earlier training has left is not what the chief of this one asks for."""
        with Team(2, 3) as team:
            for flags in (("--sync",), (), ("--staleness", "3"), ("--sync", "--on_worker_loss", "shrink"), ()):
                team.start_all("--steps", str(team.step() + 30), *(() if flags else ("--sync",)))
                self.ended_all(team)
                goal = team.step() + 30
                for worker in (1, 2):
                    team.start(worker, "--steps", str(goal), *flags)
                # they are here, and wait; or one of them stands in for the chief, who is late, and they are done
                until(lambda: any(child.poll() is not None for child in team.children.values())
                      or team.psctl("workers").count("/job:worker/task:") == 2)
                team.start(0, "--steps", str(goal), *flags)
                self.ended_all(team)
                self.assertGreaterEqual(team.step(), goal)

    def test_all_again_after_a_failure(self):
        with Team(2, 3, "--sync", "--on_worker_loss", "fail") as team:
            team.start_all(*FOR_EVER)
            self.killed(team, 2)
            for worker in (0, 1):
                self.assertIn("/job:worker/task:2", self.ended(team, worker, ABORTED))
            for worker in (1, 2, 0):
                team.start(worker, "--steps", str(team.step() + 30))
            self.ended_all(team)

    def test_staleness(self):
        with Team(2, 3, "--staleness", "2", *FOR_EVER) as team:
            team.start_all()
            team.past(100)
            halt(team.children[0].pid)
            # the first one may have been stopped in a wait, until the others have come to its step
            until(lambda: self.states(team) in (["works", "waits", "waits"], ["lost", "waits", "waits"]))
            waits_for = team.rounds()["rounds"][0]["waits_for"]
            self.assertIn("/job:worker/task:0 (", waits_for)
            self.assertNotIn("/job:worker/task:1", waits_for)
            waits = [w for w in json.loads(team.psctl("waits", "--json"))["waits"] if w["request"] == "STEP"]
            self.assertEqual(len(waits), 2)
            self.assertRegex(waits[0]["what"], r"^step \d+ of 'localhost', at most 2 ahead of the slowest, at \d+$")
            team.children[0].send_signal(signal.SIGCONT)
            team.past(team.step() + 300)
            leads = team.rounds()["rounds"][0]["leads"]
            self.assertGreater(sum(leads), 100)
            self.assertEqual(leads[3:], [0] * 14)
            self.assertIn("lead of localhost:", team.psctl("rounds"))
            team.psctl("stop")
            for worker in range(3):
                self.ended(team, worker, 0)


if __name__ == "__main__":
    sys.exit(main(unittest))
