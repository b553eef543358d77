#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 180
"""pstrain goes on: chiefs and ps tasks that are killed at random moments, the end of a job, the evaluator, the step to stop at.
PS_TEST_RUNS: so many runs of what is random; PS_TEST_SEED: of the moments."""
import json
import os
import random
import re
import signal
import struct
import sys
import time
import unittest

import cluster
import test_pstrain
from test_pstrain import ENDLESS, GOOD, PSD, PSTRAIN, SLOW, wait_until

RUNS = int(os.environ.get("PS_TEST_RUNS", "0"))
SEED = int(os.environ.get("PS_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30)
LEASE = ("--lease", "4s", "--beat", "200ms")  # it ends soon, but not where a busy machine stands still for a second or two


class Monitored(test_pstrain.Tasks):
    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.worker_hosts = "192.0.2.1:1,192.0.2.1:2,192.0.2.1:3"  # workers do not listen
        self.hosts = ("--ps_hosts", self.ps.hosts, "--worker_hosts", self.worker_hosts)

    def start_psd(self, lease=LEASE):
        for i in range(2):
            self.start_ps(i, PSD, more=lease)

    def some(self, most_s):
        """A random moment."""
        time.sleep(self.random.uniform(0, most_s))  # sleep: the moment is the test's input

    def trainers(self, *args, held=False):
        """Each would report as the chief, which is the first one. held: each stands still once it has begun; a lease is longer."""
        all_of = []
        for i in range(3):
            all_of.append(self.worker(i, *args, "--report", self.path("report%d.json" % i)))
            if held:
                cluster.creep(lambda: "4 variables" in all_of[-1].text(), all_of[-1].pid)
            else:
                all_of[-1].wait_line("^4 variables")
        return all_of

    def pids(self, trainers):
        return [w.pid for w in trainers]

    def step(self):
        return test_pstrain.step_of(self.psctl("get", "global_step"))

    def reports(self):
        return [self.report("report%d.json" % i) for i in range(3) if os.path.exists(self.path("report%d.json" % i))]

    def forget_reports(self):
        for i in range(3):
            if os.path.exists(self.path("report%d.json" % i)):
                os.remove(self.path("report%d.json" % i))

    def status_says(self, pattern):
        wait_until("psctl status: " + pattern, lambda: re.search(pattern, self.psctl("status")))


for name in [n for n in dir(test_pstrain.Tasks) if n.startswith("test_")]:
    setattr(Monitored, name, None)  # they run in test_pstrain.py


class Chief(Monitored):
    def test_another_takes_over(self):
        """kill -9 of the chief at a random moment of the training: one of the others is chief, tests, reports; the model is trained."""
        for run in range(RUNS or 2):
            with self.subTest(run=run, seed=SEED):
                self.start_psd()
                trainers = self.trainers(*GOOD, "--epochs", ENDLESS)
                self.some(1)
                trainers[0].popen.send_signal(signal.SIGKILL)
                killed = time.monotonic()
                self.assertEqual(trainers[0].end(), -signal.SIGKILL)
                wait_until("another chief", lambda: any("chief from now on" in w.text("err") for w in trainers[1:]))
                print("run %d: chief %.1f s after the kill" % (run, time.monotonic() - killed), file=sys.stderr)
                step = self.step()
                wait_until("that they train on", lambda: self.step() > step + 1000)
                self.psctl("stop")
                self.finish(trainers[1:])
                tested = [w for w in trainers[1:] if re.search(r"^test accuracy 0\.[89]", w.text(), re.M)]
                self.assertEqual(len(tested), 1, [w.lines for w in trainers])
                self.assertEqual(len(self.reports()), 1)
                self.assertGreater(self.reports()[0]["global_step"], step + 1000)
                self.forget_reports()
                self.stop_ps()

    def test_one_that_comes_back_is_a_worker(self):
        """The process of worker 0 is started again while another is chief: it trains on what is there."""
        self.start_psd()
        trainers = self.trainers(*GOOD, "--epochs", ENDLESS)
        trainers[0].popen.send_signal(signal.SIGKILL)
        trainers[0].end()
        wait_until("another chief", lambda: any("chief from now on" in w.text("err") for w in trainers[1:]))
        again = self.worker(0, *GOOD, "--epochs", "1")
        self.assertRegex(again.first_line(), r"^4 variables, global_step [1-9]\d*: continuing$")
        self.assertEqual(again.end(), 0, again.lines)
        self.assertNotIn("test accuracy", again.text())
        self.assertTrue(all(w.popen.poll() is None for w in trainers[1:]))

    def test_one_that_slept_is_a_worker(self):
        """SIGSTOP for more than a lease: another is chief; woken up, it trains on, and only the other one tests."""
        self.start_psd()
        trainers = self.trainers(*GOOD, "--epochs", ENDLESS)
        cluster.halt(trainers[0].popen.pid)
        wait_until("another chief", lambda: any("chief from now on" in w.text("err") for w in trainers[1:]))
        trainers[0].popen.send_signal(signal.SIGCONT)
        wait_until("that it knows", lambda: "ev=chief_lost" in trainers[0].text("err"))
        self.psctl("stop")
        self.finish(trainers)
        tested = [w for w in trainers if "test accuracy" in w.text()]
        self.assertEqual(len(tested), 1, [w.lines for w in trainers])
        self.assertIsNot(tested[0], trainers[0])


class Ps(Monitored):
    def test_a_model_that_is_lost_is_restored(self):
        """kill -9 of either ps task, which comes back empty: no trainer ends; each recovery is a line; the report counts them."""
        kills = RUNS or 3
        self.start_psd()
        model = self.path("model.safetensors")
        first = self.trainers(*GOOD, "--steps", "400", "--export", model)
        self.finish(first)
        self.forget_reports()
        trainers = self.trainers(*GOOD, "--epochs", ENDLESS, "--restore", model, "--max_recoveries", "50", "--timeout", "30")
        for kill in range(kills):
            i = kill % 2
            self.some(0.5)
            self.daemons[i].end(signal.SIGKILL)
            self.start_ps(i, PSD, more=LEASE)
            for w in trainers:
                self.wait_for_recoveries(w, kill + 1)
        self.psctl("stop")
        self.finish(trainers)
        self.assertTrue(self.reports())  # of the chief, and of who hears of the end after it has gone
        for report in self.reports():
            self.assertGreaterEqual(report["recoveries"], kills)
            self.assertGreater(report["test_accuracy"], 0.8)
        self.assertTrue(any("--restore: 5 variables" in w.text("err") for w in trainers), [w.lines for w in trainers])

    def test_a_file_that_restores_nothing(self):
        """It is looked at before training begins, not when the model is lost."""
        self.start_psd()
        bad = self.path("bad.safetensors")
        with open(bad, "w", encoding="utf-8") as out:
            out.write("no tensors")
        for file, why in ((self.path("none"), "NOT_FOUND|No such file"), (bad, "header"), (self.path(""), "no regular file")):
            w = self.worker(0, *GOOD, "--steps", "10", "--restore", file)
            self.assertEqual(w.end(), 1, w.lines)
            self.assertRegex(w.text("err"), "--restore: .*%s.*(%s)" % (re.escape(file.rstrip("/")), why))
            self.assertNotIn("variables", w.text())

    def wait_for_recoveries(self, w, count):
        def recovered():
            self.assertIsNone(w.popen.poll(), w.lines)
            return w.text("err").count("ev=recovered") >= count
        wait_until("recovery %d" % count, recovered)

    def test_it_starts_over_where_it_may(self):
        self.start_psd()
        trainers = self.trainers(*GOOD, "--epochs", ENDLESS, "--start_over")
        self.daemons[1].end(signal.SIGKILL)
        self.start_ps(1, PSD, more=LEASE)
        for w in trainers:
            self.wait_for_recoveries(w, 1)
        self.psctl("stop")
        self.finish(trainers)

    def wait_for_step(self, step):
        wait_until("step %d" % step, lambda: self.step() >= step)

    def test_lost_epochs_are_trained_again(self):
        """The model is lost, and a worker that stands still meanwhile hears of it when the others are further than it had been: at
        the end the model has the steps of all epochs of all workers nevertheless."""
        epochs, each = 300 // SLOW, 3 * 15
        lease = ("--lease", "60s")  # it is not taken for gone
        self.start_psd(lease)
        trainers = self.trainers("--model", "mlp:%d" % (512 // SLOW), "--epochs", str(epochs), "--start_over", held=True)
        for w in trainers:  # steps of its own of each
            goal = self.step() + 100
            cluster.creep(lambda: self.step() >= goal, w.pid)
        lost = self.step()
        self.daemons[1].end(signal.SIGKILL)
        self.start_ps(1, PSD, more=lease)
        for w in trainers[:2]:
            w.popen.send_signal(signal.SIGCONT)
            self.wait_for_recoveries(w, 1)
        self.wait_for_step(lost + 100)
        trainers[2].popen.send_signal(signal.SIGCONT)
        self.finish(trainers)
        report, = self.reports()
        self.assertGreater(report["lost_steps"], 0, [w.text("err") for w in trainers])
        self.assertEqual(report["epochs"], epochs)
        self.assertGreaterEqual(report["global_step"], epochs * each)
        for w in trainers:
            self.assertIn("it makes them again", w.text("err"))

    def shards_are_lost(self, victim):
        """The queue of shards goes with the model, and is there again with it: all epochs of it are trained, of the new model."""
        epochs, each = 200 // SLOW, 45
        lease = ("--lease", "10s")
        self.start_psd(lease)
        trainers = self.trainers("--epochs", str(epochs), "--work", "shards", "--start_over", held=True)
        cluster.creep(lambda: self.step() >= 500, *self.pids(trainers))
        self.daemons[victim].end(signal.SIGKILL)
        self.start_ps(victim, PSD, more=lease)
        cluster.go_on(*self.pids(trainers))
        self.finish(trainers)
        self.assertTrue(self.reports(), [w.text("err") for w in trainers])  # of the chief, and of who comes back when it has ended
        for report in self.reports():
            self.assertGreater(report["recoveries"], 0, [w.text("err") for w in trainers])
            self.assertGreaterEqual(report["global_step"], epochs * each)
        self.assertTrue(any("the queue of shards was lost with a ps task: it begins again" in w.text("err") for w in trainers),
                        [w.lines for w in trainers])

    def test_shards_are_lost_with_the_directory(self):
        self.shards_are_lost(0)

    def test_shards_are_lost_with_another_task(self):
        self.shards_are_lost(1)

    def test_no_recovery_is_wanted(self):
        self.start_psd()
        trainers = self.trainers(*GOOD, "--epochs", ENDLESS, "--max_recoveries", "0", "--start_over")
        self.daemons[1].end(signal.SIGKILL)
        self.start_ps(1, PSD, more=LEASE)
        for w in trainers:
            self.assertEqual(w.end(), 1)
            self.assertRegex(w.text("err"), r"stopped at global_step \d+: ABORTED: .*/job:ps/task:1")


class End(Monitored):
    def test_all_end_by_themselves(self):
        """ps tasks with --exit_when_done, three trainers, an evaluator that is no member: every status is 0."""
        for i in range(2):
            self.start_ps(i, PSTRAIN, more=("--exit_when_done",))
        evaluator = self.start(*self.hosts, "--job_name", "evaluator", *GOOD, "--eval_every", "20", "--report", self.path("eval.json"))
        trainers = self.trainers(*GOOD, "--steps", "3000", held=True)
        wait_until("a first test", lambda: "test accuracy" in evaluator.text())  # it is there before they end
        cluster.go_on(*self.pids(trainers))
        self.finish([*trainers, evaluator, *self.daemons])
        steps = [int(n) for n in re.findall(r"^test accuracy 0\.\d+ .* global_step (\d+)$", evaluator.text(), re.M)]
        self.assertEqual(steps, sorted(set(steps)))
        self.assertEqual(steps[-1], self.report("report0.json")["global_step"])  # the last one is of the end
        for key in ("params_sha256", "test_accuracy", "global_step"):
            self.assertEqual(self.report("eval.json")[key], self.report("report0.json")[key])
        self.assertNotIn("peer=/job:evaluator", "".join(d.text("err") for d in self.daemons))

    def test_they_wait_for_who_is_not_done(self):
        """One of three has not said it: psctl status names it, and nothing ends; told to stop, it is not done either."""
        for i in range(2):
            self.start_ps(i, PSTRAIN, more=("--exit_when_done",))
        late = self.worker(2, *GOOD, "--epochs", ENDLESS)
        late.wait_line("^4 variables")
        one = self.worker(1, *GOOD, "--epochs", "1")
        self.assertEqual(one.end(), 0, one.lines)
        self.status_says(r"job done, say 1 of 3 trainers; not yet: /job:worker/task:0, /job:worker/task:2")
        self.psctl("stop")
        self.assertEqual(late.end(), 0, late.lines)
        self.assertTrue(all(d.popen.poll() is None for d in self.daemons))
        self.status_says(r"job done, say 1 of 3 trainers")
        self.stop_ps()

    def test_a_worker_by_shards_that_comes_when_the_chief_has_ended(self):
        """One that was killed and is started again, and one that is late: their run is over, and they end as all others do. By epochs
        they cannot know that no other run is to begin: they wait for its chief, for --timeout. A chief that died is none that has
        ended."""
        self.start_psd()
        by_steps = (*GOOD, "--work", "shards", "--steps", "300", "--timeout", "10")
        by_epochs = (*GOOD, "--work", "shards", "--epochs", "5", "--timeout", "5")
        killed, chief = self.worker(1, *by_steps), self.worker(0, *by_steps)
        killed.wait_line("^4 variables")
        killed.end(signal.SIGKILL)
        self.finish([chief])
        for i in (1, 2):
            again = self.worker(i, *by_steps)
            self.assertEqual(again.end(), 0, again.lines)
            self.assertIn("the goal of --steps 300 is already reached", again.text())
        self.status_says("the job is done")
        self.finish([self.worker(0, *by_epochs)])
        step = self.step()
        again = self.worker(1, *by_epochs)
        self.assertEqual(again.end(), 0, again.lines)
        self.assertIn("all shards of the last run are done, and no chief has begun another one within 5 s", again.text("err"))
        self.status_says("the job is done")
        self.assertEqual(self.step(), step)
        chief = self.worker(0, *GOOD, "--work", "shards", "--epochs", ENDLESS)
        chief.wait_line("^4 variables")
        chief.end(signal.SIGKILL)
        again = self.worker(1, *by_epochs)
        self.assertEqual(again.end(), 1, again.lines)
        self.assertIn("no chief has started within 5 s", again.text("err"))

    def test_a_job_that_is_listed_before_ps(self):
        """What only the directory knows is asked of the directory, wherever it stands among the tasks: that a run is over, and by how
        many steps workers were ahead. The report is of job ps."""
        *ps, gateway = self.ps.addresses

        def place(job, index):
            jobs = {"ps": ps, "gateway": [gateway], "worker": self.worker_hosts.split(",")[:2]}
            return {"TF_CONFIG": json.dumps({"cluster": jobs, "task": {"type": job, "index": index}})}
        self.start_ps(0, PSD, env=place("ps", 0))
        self.start_ps(1, PSD, env=place("gateway", 0))
        shards = (*GOOD, "--work", "shards", "--epochs", "2", "--timeout", "5")
        self.finish([self.worker(0, *shards, env=place("worker", 0))])
        late = self.worker(1, *shards, env=place("worker", 1))
        self.assertEqual(late.end(), 0, late.lines)
        self.assertIn("all shards of the last run are done", late.text("err"))
        both = [self.worker(i, *GOOD, "--fresh", "--epochs", "2", "--staleness", "2", "--report", self.path("report.json"),
                            env=place("worker", i)) for i in range(2)]
        self.finish(both)
        self.assertEqual(list(self.report()["pushes_applied"]), ["/job:ps/task:0"])
        self.assertRegex(both[0].text(), r"steps by how many the worker was ahead of the slowest: 0: [1-9]")

    def test_an_evaluator_without_a_cluster_or_a_model(self):
        p = self.start("--job_name", "evaluator", "--worker_hosts", "192.0.2.1:1")
        self.assertEqual(p.end(), 2)
        self.assertIn("--ps_hosts is not given, there are no ps tasks: where are they?", p.text("err"))
        self.start_psd()
        p = self.start(*self.hosts, "--job_name", "evaluator")
        self.status_says(r"2 of 2 up")
        wait_until("a word that it waits", lambda: "there is no model yet" in p.text("err"))  # nobody makes a model: that is said
        self.assertEqual(p.end(signal.SIGTERM), 128 + signal.SIGTERM)
        self.finish(self.trainers(*GOOD, "--steps", "3"))
        p = self.start(*self.hosts, "--job_name", "evaluator", *GOOD, "--model", "mlp:128,10")  # there is a model, but not this one
        self.assertEqual(p.end(), 1, p.lines)
        self.assertIn("this model is not there; the workers make it, with the same --model: NOT_FOUND: ", p.text("err"))

    def test_an_evaluator_waits_for_a_model_that_is_lost(self):
        """It begins when a ps task has come back empty: trainers make the model anew. Another model is no such one, and is said."""
        self.start_psd()
        self.finish(self.trainers(*GOOD, "--steps", "3"))
        self.daemons[1].end(signal.SIGKILL)
        self.start_ps(1, PSD, more=LEASE)
        p = self.start(*self.hosts, "--job_name", "evaluator", *GOOD)
        wait_until("a word that it waits", lambda: "part of the model is lost with a ps task" in p.text("err"))
        other = self.start(*self.hosts, "--job_name", "evaluator", *GOOD, "--model", "mlp:128,10")
        self.assertEqual(other.end(), 1, other.lines)
        self.assertIn("this model is not there; the workers make it, with the same --model: NOT_FOUND: ", other.text("err"))
        self.assertIn("layer2", other.text("err"))
        self.finish([*self.trainers(*GOOD, "--steps", "3", "--start_over"), p])
        self.assertRegex(p.text(), r"test accuracy .* global_step [3-5]$")

    def lost_before_the_last_test(self, number, *keeps):
        """An evaluator that tests at the end, and stands still until a trainer's end is over and a ps task has been restarted."""
        lease = ("--lease", "60s", *keeps)
        self.start_psd(lease)
        trainers = self.trainers(*GOOD, "--steps", "300", held=True)
        p = self.start(*self.hosts, "--job_name", "evaluator", *GOOD, "--eval_every", "1000000", "--timeout", "5",
                       "--report", self.path("eval.json"))
        p.wait_line("^test accuracy")
        cluster.halt(p.popen.pid)
        cluster.go_on(*self.pids(trainers))
        self.finish(trainers)
        self.daemons[1].end(number)
        self.start_ps(1, PSD, more=lease)
        p.popen.send_signal(signal.SIGCONT)
        status = p.end()
        self.assertLess(p.text("err").index("ev=job_done"), p.text("err").index("ev=session_lost"))
        return p, status

    def test_an_evaluator_after_the_job_s_end(self):
        """A ps task is restarted before the last test: its session is made anew, and it tests what the job has left."""
        p, status = self.lost_before_the_last_test(signal.SIGTERM, "--checkpoint_dir", self.path("checkpoints"))
        self.assertEqual(status, 0, p.lines)
        for key in ("params_sha256", "test_accuracy", "global_step"):
            self.assertEqual(self.report("eval.json")[key], self.report("report0.json")[key])

    def test_an_evaluator_whose_model_is_lost_for_good(self):
        """Likewise, and it comes back empty: when its time is over it says what is to be done with an evaluator."""
        p, status = self.lost_before_the_last_test(signal.SIGKILL)
        self.assertEqual(status, 1, p.lines)
        self.assertRegex(p.text("err"), r"the evaluator stopped: .* not made anew within \d+ ms.*; start the evaluator again")
        self.assertNotIn("start this trainer again", p.text("err"))


class Summaries(Monitored):
    def test_the_chief_writes_them(self):
        """What the file says is what the report says; TensorBoard's own reader is in test_summaries.py."""
        self.start_psd(("--lease", "60s"))  # the first one is the chief
        directory = self.path("events")
        trainers = self.trainers(*GOOD, "--steps", "300", "--summaries", directory, held=True)
        cluster.go_on(*self.pids(trainers))
        self.finish(trainers)
        files = os.listdir(directory)
        self.assertEqual(len(files), 1, files)
        with open(os.path.join(directory, files[0]), "rb") as f:
            data = f.read()
        report = self.report("report0.json")
        for tag in (b"loss", b"accuracy", b"learning_rate", b"test_accuracy", b"test_loss"):
            self.assertIn(b"\n" + bytes([len(tag)]) + tag, data)
        at = data.rindex(b"\x0dtest_accuracy\x15") + 15  # field 2 of its Value: a float
        self.assertAlmostEqual(struct.unpack("<f", data[at:at + 4])[0], report["test_accuracy"], places=6)

    def test_a_directory_that_cannot_be_written(self):
        self.start_psd()
        w = self.worker(0, *GOOD, "--epochs", "1", "--summaries", "/proc/none")
        self.assertEqual(w.end(), 1)
        self.assertRegex(w.text("err"), "NOT_FOUND: hook 'summary'.*: /proc/none")


class StopAtStep(Monitored):
    def test_no_worker_goes_further(self):
        """Four workers at their own pace stop at most 3 steps after the goal, in rounds at it."""
        for run in range(RUNS or 2):
            for mode, most in ((("--sync",), 0), ((), 3)):
                with self.subTest(run=run, mode=mode):
                    goal = 40 + self.random.randrange(60)
                    p = self.start("--local", "ps=1,workers=4", *mode, "--steps", str(goal), "--report", self.path("report.json"))
                    self.assertEqual(p.end(), 0, p.lines)
                    self.assertGreaterEqual(self.report()["global_step"], goal)
                    self.assertLessEqual(self.report()["global_step"], goal + most)


if __name__ == "__main__":
    sys.exit(cluster.main(unittest))
