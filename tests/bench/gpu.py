#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Everything that needs a GPU, into one file: docs/results/gpu-CARD.json.

usage: gpu.py check|bench [--device gpu:0] [--out DIR] [--tests WORD]

check: the kernel tests (programs of PSD_BUILD/tests/kernels; --tests: those with that word) on the device. bench: the same, then
tests/bench/gpu/gpu.c. On emulated:0 the figures mean nothing; it shows that all of this works.
Exit status 0: all of it went well; 1: something failed; 3: there is no such device here, and why.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time

BUILD = os.path.abspath(os.environ.get("PSD_BUILD", "build/release"))
PROGRAMS = ("activation", "dense", "dropout", "softmax_xent", "ops", "nn_tensor", "cuda")
NO_DEVICE = 3
PROBE = """
import ctypes, sys
nn = ctypes.CDLL(sys.argv[1])
nn.ps_nn_error.restype = nn.ps_nn_backend.restype = ctypes.c_char_p
if nn.ps_nn_open(sys.argv[2].encode()) != 0:
    sys.exit(nn.ps_nn_error().decode())
print(nn.ps_nn_backend().decode())
"""


def environment(device):
    """The plugin is looked for where it is built."""
    return dict(os.environ, PSD_BUILD=BUILD, PS_PLUGIN_DIR=os.path.join(BUILD, "tests/kernels" if device.startswith("emulated") else "lib"))


def say(text):
    print(text, flush=True)


def probe(device):
    """(card, None), or (None, why there is none)"""
    done = subprocess.run([sys.executable, "-c", PROBE, os.path.join(BUILD, "lib/libpsworker.so"), device], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False, env=environment(device))
    found = re.search(r"\((.*)\)\s*$", done.stdout)
    return (found.group(1), None) if done.returncode == 0 and found else (None, done.stderr.strip() or done.stdout.strip())


def check(device, word):
    """Counts of the kernel tests there."""
    programs = [os.path.relpath(os.path.join(BUILD, "tests/kernels/test_" + name)) for name in PROGRAMS if word in name]
    done = subprocess.run([sys.executable, "scripts/test-runner", "--build", os.path.relpath(BUILD), "--jobs", "1", *programs],
                          env=dict(environment("cpu"), PS_TEST_DEVICE=device), stdout=subprocess.PIPE, text=True, check=False)
    sys.stdout.write(done.stdout)
    counts = re.search(r"(\d+) passed, (\d+) failed, (\d+) skipped\s*$", done.stdout)
    passed, failed, skipped = (int(n) for n in counts.groups()) if counts else (0, 1, 0)
    return {"passed": passed, "failed": failed if done.returncode == 0 else max(failed, 1), "skipped": skipped}


def bench(device):
    """Rows of the program, the first of which is the card; None: it failed."""
    program = os.path.join(BUILD, "tests/bench/gpu/gpu" + ("_emulated" if device.startswith("emulated") else ""))
    command = [program, device, *(["tiny"] if device.startswith("emulated") else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environment(device))
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    for row in rows[1:]:
        say(f"{row['name']:40} {row['value']:10.4g} {row['unit']:5} {row['ratio']:6.3f} of {row['of']}")
    return rows if done.returncode == 0 else None


def driver():
    """The driver's own version, where it says it."""
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as text:
            return text.readline().strip()
    except OSError:
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("check", "bench"))
    parser.add_argument("--device", default="gpu:0")
    parser.add_argument("--out", default="docs/results")
    parser.add_argument("--tests", default="")
    args = parser.parse_args()
    card, why = probe(args.device)
    if card is None:
        say(f"{args.what}-gpu: nothing was run: {why}")
        return NO_DEVICE
    say(f"{args.what}-gpu: {card}")
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    result = {"card": card, "driver": driver(), "commit": commit, "date": time.strftime("%Y-%m-%d"), "check": check(args.device, args.tests)}
    good = result["check"]["failed"] == 0
    if args.what == "bench":
        rows = bench(args.device)
        good = good and rows is not None
        if rows:
            result.update(rows[0])
            result["rows"] = rows[1:]
    os.makedirs(args.out, exist_ok=True)
    path = os.path.join(args.out, "gpu-" + re.sub(r"[^a-z0-9]+", "-", card.lower()).strip("-") + ".json")
    with open(path, "w", encoding="utf-8") as out:
        json.dump(result, out, indent=1)
        out.write("\n")
    say(f"{path}: {'all of it went well' if good else 'something failed'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
