#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`psctl export` against `dd conv=fdatasync` of as many bytes to the same place, interleaved, median of the rounds.

The promise is at least half of dd's speed. Both end when the bytes are on disk. One psd, variables of 64 MiB.
usage: export.py [--mib 1024] [--rounds 5] [--dir DIRECTORY] [--json FILE]
"""
import argparse
import json
import os
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("PSD_BUILD", "build/release")
MIB = 1 << 20
VARIABLE_MIB = 64
PROMISE = 0.5


def program(name):
    return os.path.abspath(os.path.join(BUILD, "bin", name))


def start_psd():
    psd = subprocess.Popen([program("psd"), "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if not select.select([psd.stdout], [], [], 10)[0]:
        psd.kill()
        sys.exit("psd is not ready after 10 s")
    return psd, psd.stdout.readline().decode().split("ready: ")[1].strip()


def psctl(target, *args):
    out = subprocess.run([program("psctl"), "-t", target, "--timeout", "300", "--json", *args], capture_output=True, text=True, check=False)
    if out.returncode != 0:
        sys.exit("psctl %s: %s" % (args[0], out.stderr))
    return json.loads(out.stdout)


def write_model(name, mib):
    """A safetensors file of mib MiB that is no zeros."""
    header, at = {}, 0
    while at < mib * MIB:
        size = min(VARIABLE_MIB * MIB, mib * MIB - at)
        header["layer%03d/weights" % len(header)] = {"dtype": "F32", "shape": [size // 4], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    block = bytes(i * 7 % 251 for i in range(MIB))
    with open(name, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _ in range(mib):
            file.write(block)


def timed(name, command):
    """Seconds; the file is new, and nothing else of ours waits for the disk."""
    if os.path.exists(name):
        os.unlink(name)
    os.sync()
    begin = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit("%s: %s" % (" ".join(command), done.stderr))
    return time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", help="where both write (default: the folder for temporary files)")
    parser.add_argument("--json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="psd-bench-", dir=args.dir) as folder:
        model, ours, theirs = (os.path.join(folder, name) for name in ("model", "export", "dd"))
        write_model(model, args.mib)
        psd, target = start_psd()
        try:
            done = psctl(target, "import", model, "--yes")
            print("import: %d variables, %.0f MB/s" % (done["variables"], done["bytes_per_second"] / 1e6))
            os.unlink(model)
            export, dd = [], []
            for i in range(args.rounds):
                export.append(timed(ours, [program("psctl"), "-t", target, "--timeout", "300", "export", ours]))
                dd.append(timed(theirs, ["dd", "if=/dev/zero", "of=" + theirs, "bs=1M", "count=%d" % args.mib, "conv=fdatasync"]))
                print("round %d: export %.3f s, dd %.3f s" % (i + 1, export[-1], dd[-1]), flush=True)
        finally:
            psd.terminate()
            psd.wait(15)
    rate = {name: args.mib * MIB / statistics.median(times) / 1e6 for name, times in (("export", export), ("dd", dd))}
    ratio = rate["export"] / rate["dd"]
    print("%d MiB: export %.0f MB/s, dd %.0f MB/s, ratio %.2f (promised %.1f)" % (args.mib, rate["export"], rate["dd"], ratio, PROMISE))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"mib": args.mib, "export_s": export, "dd_s": dd, "ratio": ratio}, file)
    return 0 if ratio >= PROMISE else 1


if __name__ == "__main__":
    sys.exit(main())
