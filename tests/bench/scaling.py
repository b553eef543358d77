#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figures of docs/SCALING.md: constants of psd's CPU time, what they predict for 1 to 64 workers of this machine beside what was
measured, and simulated clusters of up to 10,000 workers or 1,000 ps tasks (tests/bench/scaling.c). CPU time is that of the processes, so a
busy machine changes it less than seconds. Results go to build/bench/scaling.json."""
import argparse
import json
import os
import subprocess
import sys
import time

from bench import commit, machine
from exporter import cpu_s, private_mib
from servers import Failed, Servers, environment, program

MIB = 1 << 20
WORKERS = (1, 2, 4, 8, 16, 32, 64)
STEP_VARIABLES, STEP_BYTES = 4, 256 << 10  # of a worker's step, the bytes of all of them
SHAPES = ((64, 4), (1024, 4), (4096, 4), (10000, 4), (64, 64), (64, 256), (64, 1000))
DEPTH = 16  # requests that come together
PAGE = "docs/SCALING.md"
TRANSPORTS = ("tcp", "tls")
ROW_COLUMNS, ROWS = 64, 1024  # of a push or a gather of rows
SESSIONS = 200  # at a time, whose memory is measured


class Psd:
    def __init__(self, servers, transport):
        self.servers = servers
        self.child, target, _ = servers.start_psd(transport)
        self.env = environment(PSD_TARGET=target, **({"PSD_KEY_FILE": servers.key_file()} if transport == "tls" else {}))

    def loads(self, count, words):
        """Of so many loads at once: (psd's CPU seconds, the loads' operations)."""
        before = cpu_s(self.child.pid)
        all_of = [self.servers.popen([program("load"), *words], stdout=subprocess.PIPE, env=self.env) for _ in range(count)]
        ops = 0
        for child in all_of:
            out = child.communicate(timeout=600)[0]
            if child.returncode != 0:
                raise Failed("load %s: status %d: %s" % (" ".join(words), child.returncode, out))
            ops += json.loads(out.splitlines()[-1])["ops"]
            self.servers.end(child)
        return cpu_s(self.child.pid) - before, ops

    def per_op(self, count, seconds, *words):
        """psd's CPU seconds of one operation: the difference of two runs, in which set-up and checks cancel out."""
        (cpu1, ops1), (cpu2, ops2) = (self.loads(count, [w.replace("SECONDS", "%g" % s) for w in words]) for s in (0.2 * seconds, seconds))
        return (cpu2 - cpu1) / max(ops2 - ops1, 1)

    def memory_kib(self, sessions):
        """The most private memory of psd while so many sessions pull."""
        most = 0
        child = self.servers.popen([program("load"), "small", "pull", "256", "1", str(sessions), "2", "caller"], stdout=subprocess.PIPE, env=self.env)
        while child.poll() is None:
            most = max(most, 1024 * private_mib(self.child.pid))
            time.sleep(0.05)  # sleep: between two looks
        if child.returncode != 0:
            raise Failed("load of %d sessions: status %d" % (sessions, child.returncode))
        self.servers.end(child)
        return most


def constants(psd, seconds):
    """An operation costs its own time and a share of a turn of the loop, which requests that come together share."""
    found = {}
    for op in ("pull", "push"):
        alone, among = (1e6 * psd.per_op(1, seconds, "small", op, "256", str(depth), "1", "SECONDS", "thread") for depth in (1, DEPTH))
        found[op + "_us"] = (DEPTH * among - alone) / (DEPTH - 1)
        found[op + "_turn_us"] = alone - found[op + "_us"]
    for op, words in (("pull", "pull"), ("push", "sgd")):
        per_op = psd.per_op(1, seconds, "dense", words, str(16 * MIB), "SECONDS")
        found[op + "_s_per_gb"] = 1e9 * (per_op - 1e-6 * found[op + "_us"]) / (16 * MIB)
    for op, turn in (("gather", "pull"), ("push", "push")):
        per_op = 1e6 * psd.per_op(1, seconds, "rows", op, str(ROW_COLUMNS), str(ROWS), "SECONDS")
        found["row_%s_us" % op] = (per_op - found[turn + "_turn_us"] - found[turn + "_us"]) / ROWS
    few, many = psd.memory_kib(8), psd.memory_kib(SESSIONS)
    found["connection_kib"] = (many - few) / (SESSIONS - 8)
    return found


def predicted_us(c):
    """All pulls of a step come together, and so do its pushes."""
    by_op = c["pull_us"] + c["push_us"]
    by_byte = 1e-3 * (c["pull_s_per_gb"] + c["push_s_per_gb"])
    return c["pull_turn_us"] + c["push_turn_us"] + STEP_VARIABLES * by_op + STEP_BYTES * by_byte


def measure(seconds, workers):
    servers = Servers(redis=False, tensorflow=False, pytorch=False)
    found = {}
    try:
        for transport in TRANSPORTS:
            if transport == "tls" and not servers.has_tls():
                continue
            psd = Psd(servers, transport)
            found[transport] = {"constants": constants(psd, seconds), "step_us": {}}
            if transport == "tls":
                done = subprocess.run([program("tls"), "handshakes", "8", "%g" % seconds], stdout=subprocess.PIPE, text=True, check=True)
                found[transport]["constants"]["handshake_us"] = 1e6 * json.loads(done.stdout)["tls_cpu_s"]
            for n in workers:
                us = 1e6 * psd.per_op(n, seconds, "null", str(STEP_VARIABLES), str(STEP_BYTES), "SECONDS", "thread")
                found[transport]["step_us"][str(n)] = us
                print("%s %d workers: %.0f us of psd a step, predicted %.0f" % (transport, n, us, predicted_us(found[transport]["constants"])),
                      flush=True)
            servers.end(psd.child)
    finally:
        servers.close()
    return found


def simulate(shapes):
    rows = []
    for workers, ps in shapes:
        print("%d workers, %d ps" % (workers, ps), flush=True)
        done = subprocess.run([program("scaling"), str(workers), str(ps)], stdout=subprocess.PIPE, text=True, check=True)
        rows += [json.loads(line) for line in done.stdout.splitlines()]
    return rows


def number(x):
    return "%.3g" % x if x < 100 else "{:,.0f}".format(x)


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def constants_table(found):
    names = (("pull_us", "a pull of 256 bytes, us"), ("push_us", "a push of 256 bytes, us"), ("pull_turn_us", "a turn of the loop, pulls, us"),
             ("push_turn_us", "a turn of the loop, pushes, us"), ("pull_s_per_gb", "pulled, CPU s/GB"), ("push_s_per_gb", "pushed, SGD, CPU s/GB"),
             ("row_gather_us", "a row of %d values that is gathered, us" % ROW_COLUMNS),
             ("row_push_us", "a row of %d values that is pushed, SGD, us" % ROW_COLUMNS),
             ("handshake_us", "a handshake, us"), ("connection_kib", "memory of a connection with its session, KiB"))
    rows = [[text] + [number(found[t]["constants"][name]) if name in found[t]["constants"] else "" for t in found] for name, text in names]
    cores = ["cores for 12.5 GB/s each way"]
    for t in found:
        c = found[t]["constants"]
        cores.append(number(12.5 * (c["pull_s_per_gb"] + c["push_s_per_gb"])))
    return table(["of psd"] + list(found), rows + [cores])


def local_table(found):
    head = ["workers"] + [word % t for t in found for word in ("%s: predicted, us", "%s: measured, us", "%s: ratio")]
    rows = []
    for n in found["tcp"]["step_us"]:
        row = [n]
        for t in found:
            want, got = predicted_us(found[t]["constants"]), found[t]["step_us"][n]
            row += [number(want), number(got), "%.2f" % (got / want)]
        rows.append(row)
    return table(head, rows)


def simulated_table(rows, shapes):
    of = {(r["workers"], r["ps"], r["phase"]): r for r in rows}
    phases = list(dict.fromkeys(r["phase"] for r in rows))
    out = []
    for phase in phases:
        row, side = [phase], "directory"
        if all(of[(*s, phase)]["directory_ms"] == 0 for s in shapes):
            side = "others"
        row.append("directory" if side == "directory" else "a ps task")
        for s in shapes:
            r = of[(*s, phase)]
            row.append("%s ms, %s" % (number(r[side + "_ms"]), number(r[side + "_longest_ms"])))
        out.append(row)
    return table(["phase", "at"] + ["{:,} × {:,}".format(*s) for s in shapes], out)


def write(results):
    with open(PAGE, encoding="utf-8") as text:
        page = text.read()
    simulated = [tuple(s) for s in results["shapes"]]
    texts = {"machine": results["machine"] + ", psd " + results["commit"] + ".", "constants": constants_table(results["measured"]),
             "local": local_table(results["measured"]), "workers": simulated_table(results["simulated"], [s for s in simulated if s[1] == 4]),
             "ps": simulated_table(results["simulated"], [s for s in simulated if s[0] == 64])}
    for name, text in texts.items():
        begin, end = "<!-- scaling:%s -->\n" % name, "<!-- /scaling -->"
        if begin not in page:
            raise Failed("%s has no place for %s" % (PAGE, name))
        before, _, rest = page.partition(begin)
        page = before + begin + text + "\n" + end + rest.partition(end)[2]
    with open(PAGE, "w", encoding="utf-8") as text:
        text.write(page)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3, help="of each load (3)")
    parser.add_argument("--smoke", action="store_true", help="small shapes and short loads, to see that it works")
    parser.add_argument("--only", choices=("measured", "simulated"), help="this part; the other one stays as the file of the results has it")
    parser.add_argument("--write", action="store_true", help="write the tables of %s" % PAGE)
    parser.add_argument("--out", default="build/bench/scaling.json", help="the file of the results (build/bench/scaling.json)")
    args = parser.parse_args()
    shapes = ((8, 4), (64, 8)) if args.smoke else SHAPES
    try:
        results = {}
        if args.only:
            try:
                with open(args.out, encoding="utf-8") as text:
                    results = json.load(text)
            except (OSError, ValueError) as e:
                raise Failed("%s: no results whose other part could stay (%s): run it without --only first" % (args.out, e)) from None
        results.update(machine=machine(), commit=commit())
        if args.only != "measured":
            results.update(shapes=shapes, simulated=simulate(shapes))
        if args.only != "simulated":
            results.update(seconds=args.seconds, measured=measure(args.seconds, (1, 2) if args.smoke else WORKERS))
        os.makedirs(os.path.dirname(os.path.abspath(args.out)), exist_ok=True)
        with open(args.out, "w", encoding="utf-8") as text:
            json.dump(results, text, indent=1)
        if args.write:
            write(results)
    except Failed as e:
        print("scaling: %s" % e, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
