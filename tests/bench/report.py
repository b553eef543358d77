# SPDX-License-Identifier: Apache-2.0
"""Results of `make bench` as files, as Markdown tables, as the verdict on each goal, and in the documents.

A document holds a table between `<!-- bench:NAME -->` and `<!-- /bench -->`; what is around it is written by hand.
"""
import json
import os
import re
import sys

import rows
import training

MARKS = re.compile(r"(<!-- bench:(\w+) -->\n).*?(<!-- /bench -->)", re.S)
BENCH_TABLES = (("Goals", "goals"), ("Dense", "dense"), ("Small operations", "small"), ("Null steps", "nullstep"),
                ("Cost over clients and variables", "scale"), ("Fairness and start", "rest"), ("Queues", "queue"), ("All rows", "all"))
DOCUMENTS = ("docs/BENCHMARKS.md", "README.md")


class Results:
    """rows as in results.json, run as in run.json."""

    def __init__(self, measured, run):
        self.rows, self.run = measured, run
        self.by_name = {r["name"]: r for r in measured}

    def value(self, name):
        return self.by_name.get(name, {}).get("value")

    def text(self, name, spread=False):
        """As people read it; "–" where nothing was measured."""
        row = self.by_name.get(name)
        if row is None or row["value"] is None:
            return "–"
        if spread:
            return "%s (%s to %s)" % tuple(figure(row[k]) for k in ("value", "min", "max"))
        return figure(row["value"])


def figure(x):
    """Three figures that count; thousands as k."""
    if x >= 10000:
        return "%.0f k" % (x / 1000)
    for least, form in ((100, "%.0f"), (10, "%.1f"), (0.1, "%.2f")):
        if x >= least:
            return form % x
    return "%.3g" % x


def minutes(seconds):
    return "%d:%02d" % divmod(int(seconds), 60)


def read(folder):
    try:
        with open(os.path.join(folder, "results.json"), encoding="utf-8") as f, open(os.path.join(folder, "run.json"), encoding="utf-8") as g:
            return Results(json.load(f), json.load(g))
    except FileNotFoundError as e:
        sys.exit("bench: %s: run make bench first" % e)


def write(results, folder):
    os.makedirs(folder, exist_ok=True)
    for name, what in (("results.json", results.rows), ("run.json", results.run)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            json.dump(what, f, indent=1)
    with open(os.path.join(folder, "results.md"), "w", encoding="utf-8") as f:
        f.write("# psd: benchmark\n\n%s\n" % head(results))
        tables = (("Goals", "goals"), ("All rows", "all")) if results.run.get("train") else BENCH_TABLES
        for title, name in tables:
            f.write("\n## %s\n%s\n" % (title, TABLES[name](results)))


# ---- goals

def verdicts(results):
    """(name, more is better, must, goal, verdict) of each goal; where only a part was run, of those that it measured."""
    for names, more, must, goal in (training if results.run.get("train") else rows).GOALS:
        for name in names:
            value = results.value(name)
            if not results.run["whole"] and value is None:
                continue
            if value is None:
                verdict = "not measured"
            else:
                verdict = "goal" if (value >= goal if more else value <= goal) else "must" if (value >= must if more else value <= must) else "MISSED"
            yield name, more, must, goal, verdict


def musts_hold(results):
    return all(verdict in ("goal", "must") for *_, verdict in verdicts(results))


def goals_rows(results):
    for name, more, must, goal, verdict in verdicts(results):
        sign = "" if more else "≤ "
        yield [name, "%s%g" % (sign, must), "%s%g" % (sign, goal), results.text(name, True), verdict]


def goals(results):
    return table(GOALS_HEAD, goals_rows(results))


GOALS_HEAD = ["row", "must", "goal", "measured", "reaches"]


def goals_text(results):
    """For a terminal."""
    lines = [GOALS_HEAD, *goals_rows(results)]
    wide = [max(len(line[i]) for line in lines) for i in range(len(GOALS_HEAD))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, wide)).rstrip() for line in lines)


# ---- tables

def table(titles, lines):
    lines = list(lines)
    return "\n".join("| %s |" % " | ".join(cells) for cells in [titles, ["---"] * len(titles), *lines])


def head(results):
    run = results.run
    text = "%s. psd %s, %s, `%s`, median of %d rounds, %s in all." % (
        run["machine"], run["commit"], run["date"], run["command"], run["rounds"], minutes(run["seconds"]))
    for peer, why in run["missing"].items():
        text += " Without %s: %s." % (peer, why)
    text += "".join(" %s." % remark for remark in run.get("remarks", []))
    return text + (" **A smoke test: the figures mean nothing.**" if run["smoke"] else "")


def dense(results):
    """GB/s, and the ratio to the bare loop, of each operation and variant; a column per size."""
    variants = [rows.variant(t, n, w) for n in (1, 2) for t in ("tcp", "unix") for w in ("float32", "bfloat16")]

    def lines():
        for operation in rows.OPERATIONS:
            for variant in variants:
                cells = []
                for label in rows.SIZES:
                    name = "dense.%s.%s.%s" % (operation, label, variant)
                    ratio = results.text(name + (".vs_bare2" if "2ps" in variant else ".vs_bare"))
                    cells.append(results.text(name) + (" (%s)" % ratio if ratio != "–" else ""))
                yield ["%s %s" % (operation, variant), *cells]

    return table(["GB/s (of the bare loop)", *rows.SIZES], lines())


def cost(results):
    """CPU seconds per GB of both sides at 16 MiB."""
    def lines():
        for operation in rows.OPERATIONS:
            for variant in ("tcp", "bf16", "unix", "2ps"):
                name = "dense.%s.16MiB.%s" % (operation, variant)
                bare = "bare.%s.16MiB.%s.server_cpu" % (operation, "tcp" if variant == "bf16" else variant)
                yield ["%s %s" % (operation, variant), results.text(name + ".server_cpu"), results.text(name + ".client_cpu"), results.text(bare)]
    return table(["CPU s/GB, 16 MiB", "psd", "its client", "bare loop's server"], lines())


def small(results):
    def lines():
        for sessions in (1, 50):
            for depth in (1, 32, 64):
                for operation, command in (("pull", "get"), ("push", "set")):
                    shape = "p%d" % depth if sessions == 1 else "c%dp%d" % (sessions, depth)
                    peer = "redis.%s.4KiB.%s" % (command, shape)
                    for way in ("", ".caller")[: 2 if sessions == 1 else 1]:
                        name = "small.%s.4KiB.%s%s" % (operation, shape, way)
                        yield ["%s %s%s" % (operation, shape, way), results.text(name), results.text(peer), results.text(name + ".vs_redis_" + command, True),
                               "%s / %s" % (results.text(name + ".p50_us"), results.text(name + ".p99_us")),
                               "%s / %s" % (results.text(peer + ".p50_us"), results.text(peer + ".p99_us")),
                               "%s / %s" % (results.text(name + ".server_cpu"), results.text(name + ".client_cpu")),
                               "%s / %s" % (results.text(peer + ".server_cpu"), results.text(peer + ".client_cpu"))]
    return table(["4 KiB", "psd op/s", "redis op/s", "ratio", "psd p50 / p99 us", "redis p50 / p99 us", "CPU us/op: psd / client", "redis / client"],
                 lines())


def nullstep(results):
    def lines():
        for name in ("nullstep.scalar", "nullstep.scalar16", "nullstep.4KiB", "nullstep.dense100MB.1var.tcp", "nullstep.dense100MB.25var.tcp",
                     "nullstep.dense100MB.tcp", "push_adagrad.100MB.tcp"):
            yield [name, results.text(name), results.text(name + ".caller"), results.text("tensorflow." + name),
                   results.text(name + ".vs_tensorflow", True), results.text(name + ".caller.vs_tensorflow")]
    return table(["ms", "psd, I/O thread", "psd, caller-driven", "TensorFlow", "ratio", "ratio, caller-driven"], lines())


def scale(results):
    def lines(name, labels):
        for label in labels:
            full = "%s%s" % (name, label)
            yield [full, results.text(full), results.text(full + ".cost_per_op"), results.text(full + ".cost_per_op.vs_1", True)]
    return table(["", "op/s", "CPU of psd, us/op", "against 1"],
                 [*lines("scale.clients", rows.CLIENTS), *lines("scale.vars", rows.VARIABLES)])


def of_steps(results, steps):
    names = [n for s in steps for n in s.rows]
    return table(["row", "median (min to max)", "unit"], ([n, results.text(n, True), results.by_name.get(n, {}).get("unit", "")] for n in names))


def rest(results):
    return of_steps(results, (rows.fairness_step(rows.Scale()), rows.start_step()))


def queue(results):
    return of_steps(results, rows.queue_steps(rows.Scale()))


def rounds(results):
    return of_steps(results, rows.round_steps(rows.Scale()))


TABLES = {
    "head": head,
    "readme": lambda results: head(results) + "\n\n" + goals(results),
    "goals": goals,
    "dense": dense,
    "cost": cost,
    "small": small,
    "nullstep": nullstep,
    "scale": scale,
    "rest": rest,
    "queue": queue,
    "round": rounds,
    "all": lambda results: table(["row", "median (min to max)", "unit", "runs"],
                                 ([r["name"], results.text(r["name"], True), r["unit"], str(r["runs"])] for r in results.rows)),
}


# ---- documents

def filled(text, results):
    """The document with today's tables."""
    return MARKS.sub(lambda m: m[1] + TABLES[m[2]](results) + "\n" + m[3], text)


def write_docs(results):
    if results.run["smoke"] or not results.run["whole"] or results.run.get("train"):
        sys.exit("bench: the documents take a whole run: make bench")
    for name in DOCUMENTS:
        with open(name, encoding="utf-8") as f:
            before = f.read()
        after = filled(before, results)
        with open(name, "w", encoding="utf-8") as f:
            f.write(after)
        print("%s: %d tables" % (name, len(MARKS.findall(after))))
