#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""psd against its peers on this machine, interleaved in one run: the bare loop (tests/bench/bare.c), redis, TensorFlow's own ps; with
--train a step of training against its matrix products and PyTorch.

Writes results.json (a list of name, value, unit, min, max, runs: the median of the rounds; value null: that peer is missing),
run.json (machine, command, date) and results.md, and prints the goals. What is measured and how: docs/BENCHMARKS.md.
"""
import argparse
import datetime
import fnmatch
import json
import os
import statistics
import subprocess
import sys
import time

import report
import rows
import training
from servers import Failed, Servers


def machine():
    """What the numbers belong to."""
    with open("/proc/cpuinfo", encoding="utf-8") as text:
        cpu = next((line.split(":")[1].strip() for line in text if line.startswith("model name")), "unknown CPU")
    with open("/proc/meminfo", encoding="utf-8") as text:
        memory = int(text.readline().split()[1]) / (1 << 20)
    system = next((line.split("=")[1].strip().strip('"') for line in open("/etc/os-release", encoding="utf-8")
                   if line.startswith("PRETTY_NAME")), "Linux") if os.path.exists("/etc/os-release") else "Linux"
    return "%s, %d CPUs, %.0f GiB, %s, Linux %s" % (cpu, os.cpu_count(), memory, system, os.uname().release.split("-")[0])


def commit():
    done = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


class Progress:
    """One line with the time that is left: of steps that have run their last time, of the others what they say."""

    def __init__(self, steps, rounds):
        self.steps, self.rounds = steps, rounds
        self.took = {}
        self.left = {id(s): rounds for s in steps}
        self.begin = time.monotonic()

    def show(self, step, number):
        left = sum(n * self.took.get(i, s.seconds) for s in self.steps for i, n in ((id(s), self.left[id(s)]),))
        text = "%s round %d/%d  %s  %s gone, about %s left" % (
            step.family, number + 1, self.rounds, step.name, report.minutes(time.monotonic() - self.begin), report.minutes(left))
        if sys.stderr.isatty():
            print("\r\033[K" + text, end="", file=sys.stderr, flush=True)
        elif all(s.family != step.family or self.left[id(s)] == self.rounds - number for s in self.steps):
            print(text, file=sys.stderr, flush=True)

    def did(self, step, seconds):
        self.took[id(step)] = seconds
        self.left[id(step)] -= 1

    def end(self):
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def measure(steps, rounds, servers):
    """{name: values of the rounds}, {family: seconds and CPU seconds}; families one after the other, the steps of a family in turn,
    round after round."""
    values = {name: [] for s in steps for name in s.rows}
    took = {}
    progress = Progress(steps, rounds)
    for family in dict.fromkeys(s.family for s in steps):
        before = os.times()
        for number in range(rounds):
            for step in (s for s in steps if s.family == family):
                progress.show(step, number)
                begin = time.monotonic()
                try:
                    for name, value in step.run(servers).items():
                        values[name].append(value)
                except Failed as e:
                    raise Failed("%s: %s" % (step.name, e)) from None
                progress.did(step, time.monotonic() - begin)
            servers.end_round()
        servers.end_family()
        after = os.times()
        took[family] = [round(after.elapsed - before.elapsed, 1), round(sum(after[2:4]) - sum(before[2:4]), 1)]
    progress.end()
    return values, took


def as_rows(steps, values):
    units = {name: unit for s in steps for name, unit in s.rows.items()}
    out = []
    for name, v in values.items():
        out.append({"name": name, "value": statistics.median(v) if v else None, "unit": units[name], "min": min(v, default=None),
                    "max": max(v, default=None), "runs": len(v)})
    return out


def chosen(args):
    """The steps of this run."""
    steps = list((training if args.train else rows).all_steps(rows.Scale(args.smoke, args.quick)))
    if args.quick:
        steps = [s for s in steps if s.family == "calls" or (any(n in rows.GOAL_NAMES for n in s.rows) and s.family != "nullstep")]
    if args.only:
        steps = [s for s in steps if any(fnmatch.fnmatch(n, args.only) or args.only in n for n in s.rows)]
        if not steps:
            sys.exit("bench: no row is named like %s; --list shows them" % args.only)
    return steps


def options():
    parser = argparse.ArgumentParser(prog="bench.py", description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="PATTERN", help="only steps with a row whose name has PATTERN in it or matches it (*, ?)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="interleaved rounds (default 5)")
    parser.add_argument("--quick", action="store_true", help="only steps that a goal is about, and the calls of training, without TensorFlow")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, no redis, no TensorFlow: a test of this program, not of psd")
    parser.add_argument("--no-redis", action="store_true", help="leave redis' rows out")
    parser.add_argument("--no-tensorflow", action="store_true", help="leave TensorFlow's rows out")
    parser.add_argument("--train", action="store_true", help="the rows of training instead; with --smoke without PyTorch")
    parser.add_argument("--strict", action="store_true", help="exit 1 also when a `must` of the goals does not hold or was not measured")
    parser.add_argument("--out", default=os.path.join("build", "bench"), metavar="DIR", help="folder of the results (default build/bench)")
    parser.add_argument("--list", action="store_true", help="print the names of the rows, measure nothing")
    parser.add_argument("--goals", action="store_true", help="print the goals' table of the results in DIR; exit 1 unless every must holds")
    parser.add_argument("--docs", action="store_true", help="write the results in DIR into docs/BENCHMARKS.md and README.md")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error("--rounds: at least 1")
    return args


def main():
    args = options()
    if args.goals or args.docs:
        results = report.read(args.out)
        if args.docs:
            report.write_docs(results)
            return 0
        print(report.goals_text(results))
        return 0 if report.musts_hold(results) else 1
    steps = chosen(args)
    if args.list:
        print("\n".join(name for s in steps for name in s.rows))
        return 0
    if args.train:
        servers = Servers(redis=False, tensorflow=False, pytorch=not args.smoke)
        servers.missing = {peer: why for peer, why in servers.missing.items() if peer == "pytorch"}
    else:
        servers = Servers(redis=not (args.no_redis or args.smoke), tensorflow=not (args.no_tensorflow or args.smoke or args.quick))
    status = 0
    try:
        if any(s.family == "nullstep" for s in steps):
            servers.install_tensorflow()
        if args.train:
            servers.install_pytorch(training.PYTORCH)
        for peer, why in servers.missing.items():
            print("bench: no rows of %s: %s" % (peer, why), file=sys.stderr)
        begin = time.monotonic()
        values, took = measure(steps, args.rounds, servers)
        run = {"machine": machine(), "commit": commit(), "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
               "command": " ".join(["tests/bench/bench.py", *sys.argv[1:]]), "rounds": args.rounds, "seconds": round(time.monotonic() - begin),
               "took": took, "missing": servers.missing, "remarks": servers.remarks, "smoke": args.smoke, "whole": not (args.only or args.quick),
               "train": args.train}
        results = report.Results(as_rows(steps, values), run)
        report.write(results, args.out)
        print(report.goals_text(results))
        status = 1 if args.strict and not report.musts_hold(results) else 0
    except KeyboardInterrupt:
        print("\nbench: interrupted; nothing written", file=sys.stderr)
        status = 130
    except Failed as e:
        print("\nbench: %s" % e, file=sys.stderr)
        status = 1
    finally:
        servers.close()
    return status


if __name__ == "__main__":
    sys.exit(main())
