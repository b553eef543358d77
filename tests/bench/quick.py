#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rows of `make bench-quick`: psd against the bare loop, interleaved, median of the rounds, as ratios of the same run.

Also psd's start to READY, idle memory and the time of `psctl status`. Figures of a noisy machine: compare ratios, not GB/s.
usage: quick.py [--rounds 7] [--json FILE]
"""
import argparse
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import time

BUILD = os.environ.get("PSD_BUILD", "build/release")
MIB = 1 << 20
# row, bare mode, wire mode and how values travel, bytes of float32, repetitions a round, ratio that the project promises. The
# bare loop always moves float32.
ROWS = [
    ("push 100 MiB + Adagrad", "adagrad", "adagrad", 100 * MIB, 20, 0.7),
    ("same as bfloat16", "adagrad", "adagrad bfloat16", 100 * MIB, 20, None),
    ("push 16 MiB + SGD", "sgd", "sgd", 16 * MIB, 60, None),
    ("pull 16 MiB", "pull", "pull", 16 * MIB, 60, 0.7),
    ("same as bfloat16", "pull", "pull bfloat16", 16 * MIB, 60, None),
    ("pull 100 MiB", "pull", "pull", 100 * MIB, 20, None),
    ("push 4 KiB + Adagrad", "adagrad", "adagrad", 4096, 3000, None),
    ("pull 4 KiB", "pull", "pull", 4096, 3000, None),
]


def program(name):
    for folder in ("bin", "bench", "tests/bench"):
        path = os.path.join(BUILD, folder, name)
        if os.path.exists(path):
            return path
    sys.exit("%s is not built: run make bench-quick" % name)


def start_psd():
    """psd on CPU 0, on a free port; returns (process, target, seconds to ready)."""
    begin = time.monotonic()
    psd = subprocess.Popen(
        [program("psd"), "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, {0}),
    )
    if not select.select([psd.stdout], [], [], 10)[0]:
        psd.kill()
        sys.exit("psd is not ready after 10 s")
    line = psd.stdout.readline().decode()
    return psd, line.split("ready: ")[1].strip(), time.monotonic() - begin


def stop(psd):
    psd.send_signal(signal.SIGTERM)
    psd.wait(15)


def run_json(args, env=None):
    out = subprocess.run(args, env=env, capture_output=True, text=True, timeout=300)
    if out.returncode != 0:
        sys.exit("%s: status %d\n%s%s" % (" ".join(args), out.returncode, out.stdout, out.stderr))
    return json.loads(out.stdout)


def rss_kib(pid):
    with open("/proc/%d/status" % pid) as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def transport_rows(rounds):
    rows = []
    for name, bare_mode, mode, size, reps, promise in ROWS:
        ratios, ours, bares = [], [], []
        for _ in range(rounds):
            bare = run_json([program("bare"), bare_mode, str(size), str(reps)])
            psd, target, _ = start_psd()
            try:
                words = mode.split()
                wire = run_json([program("wire"), words[0], str(size), str(reps)] + words[1:], dict(os.environ, PSD_TARGET=target))
            finally:
                stop(psd)
            bares.append(bare["gb_per_s"])
            ours.append(wire["gb_per_s"])
            ratios.append(wire["gb_per_s"] / bare["gb_per_s"])
        row = {
            "row": name,
            "psd_gb_per_s": statistics.median(ours),
            "bare_gb_per_s": statistics.median(bares),
            "vs_bare": statistics.median(ratios),
            "vs_bare_min": min(ratios),
            "vs_bare_max": max(ratios),
            "promise": promise,
        }
        rows.append(row)
        verdict = "" if promise is None else ("  >= %.2f: %s" % (promise, "yes" if row["vs_bare"] >= promise else "NO"))
        print(
            "%-24s psd %7.3f GB/s   bare %7.3f GB/s   ratio %.2f (%.2f to %.2f)%s"
            % (name, row["psd_gb_per_s"], row["bare_gb_per_s"], row["vs_bare"], min(ratios), max(ratios), verdict),
            flush=True,
        )
    return rows


def small_rows(rounds):
    ready, rss, status = [], [], []
    for _ in range(rounds):
        psd, target, seconds = start_psd()
        try:
            ready.append(seconds * 1e3)
            rss.append(rss_kib(psd.pid) / 1024)
            begin = time.monotonic()
            subprocess.run([program("psctl"), "-t", target, "status"], stdout=subprocess.DEVNULL, check=True, timeout=30)
            status.append((time.monotonic() - begin) * 1e3)
        finally:
            stop(psd)
    rows = []
    for name, values, most, unit in (
        ("psd start to ready", ready, 50, "ms"),
        ("psd idle RSS", rss, 10, "MiB"),
        ("psctl status", status, 20, "ms"),
    ):
        value = statistics.median(values)
        rows.append({"row": name, "median": value, "unit": unit, "promise": most})
        print("%-24s %.1f %s (%.1f to %.1f)  <= %d: %s"
              % (name, value, unit, min(values), max(values), most, "yes" if value <= most else "NO"), flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds a row, at least 5 (default 7)")
    parser.add_argument("--json", help="write the rows to this file")
    args = parser.parse_args()
    if args.rounds < 5:
        parser.error("--rounds: at least 5")
    rows = transport_rows(args.rounds) + small_rows(args.rounds)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(rows, f, indent=1)
    kept = all(r["vs_bare"] >= r["promise"] for r in rows if r.get("promise") and "vs_bare" in r)
    kept = kept and all(r["median"] <= r["promise"] for r in rows if "median" in r)
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()
