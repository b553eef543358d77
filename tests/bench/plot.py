# SPDX-License-Identifier: Apache-2.0
"""Figures of a benchmark, from results.json: throughput over size, latency over load, cost over workers; SVG in docs/.

usage: plot.py [RESULTS_DIR [OUT_DIR]]      (defaults: build/bench, docs; smoke tests and parts of a run are refused)
"""
import os
import sys

try:
    import matplotlib
except ImportError:
    sys.exit("bench-plot: no matplotlib: make bench installs it in build/bench/venv; or apt-get install python3-matplotlib")
matplotlib.use("svg")
import matplotlib.pyplot as plt

import report
import rows

matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "psd", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3,
                            "axes.spines.top": False, "axes.spines.right": False})


def line(axes, results, points, style, label):
    """points: (x, name of the row); the spread of the rounds as a band."""
    known = [(x, results.by_name[n]) for x, n in points if results.value(n) is not None]
    if known:
        xs = [x for x, _ in known]
        drawn, = axes.plot(xs, [r["value"] for _, r in known], style, label=label, markersize=4, linewidth=1.4)
        axes.fill_between(xs, [r["min"] for _, r in known], [r["max"] for _, r in known], color=drawn.get_color(), alpha=0.15, linewidth=0)


def throughput(results):
    figure, panes = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True)
    for axes, operation in zip(panes, ("pull", "push_sgd", "push_adagrad")):
        for variant, style in (("tcp", "o-"), ("bf16", "s-"), ("unix", "^-"), ("2ps", "d-")):
            line(axes, results, [(size, "dense.%s.%s.%s" % (operation, label, variant)) for label, size in rows.SIZES.items()], style, "psd " + variant)
        line(axes, results, [(size, "bare.%s.%s.tcp" % (operation, label)) for label, size in rows.SIZES.items()], "k--", "bare loop tcp")
        axes.set(xscale="log", title=operation.replace("_", " + "), xlabel="bytes of float32")
        axes.set_xticks(list(rows.SIZES.values()), list(rows.SIZES), rotation=45, minor=False)
        axes.minorticks_off()
    panes[0].set(ylabel="GB/s", ylim=(0, None))
    panes[0].legend(frameon=False)
    return figure


def latency(results):
    """Median latency over throughput, one point per depth; p99 dotted."""
    figure, panes = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True)
    for axes, operation, command in zip(panes, ("pull", "push"), ("get", "set")):
        for prefix, label, color in (("small.%s.4KiB" % operation, "psd", "C0"), ("redis.%s.4KiB" % command, "redis " + command.upper(), "C3")):
            for of, style in (("p50_us", "-"), ("p99_us", ":")):
                points = [(results.value("%s.p%d" % (prefix, d)), results.value("%s.p%d.%s" % (prefix, d, of)), d) for d in (1, 32, 64)]
                points = [p for p in points if None not in p]
                if not points:
                    continue
                axes.plot([x / 1e3 for x, _, _ in points], [y for _, y, _ in points], "o" + style, color=color, markersize=4,
                          label="%s %s" % (label, of[:3]))
                for x, y, d in points if of == "p50_us" else ():
                    axes.annotate(str(d), (x / 1e3, y), textcoords="offset points", xytext=(4, -9))
        axes.set(title="%s of 4 KiB, 1, 32 and 64 in flight" % operation, xlabel="thousand op/s", yscale="log", xlim=(0, None))
        axes.legend(frameon=False)
    panes[0].set_ylabel("us")
    return figure


def cost(results):
    figure, axes = plt.subplots(figsize=(5, 3.4))
    line(axes, results, [(n, "scale.clients%d.cost_per_op" % n) for n in rows.CLIENTS], "o-", "psd: push of 4 KiB, 16 in flight each")
    axes.set(xscale="log", xlabel="workers", ylabel="CPU of psd, us per operation", ylim=(0, None))
    axes.set_xticks(rows.CLIENTS, [str(n) for n in rows.CLIENTS], minor=False)
    axes.minorticks_off()
    axes.legend(frameon=False)
    return figure


def main():
    folder, out = (sys.argv[1:] + ["build/bench", "docs"][len(sys.argv) - 1:])[:2]
    results = report.read(folder)
    if out == "docs" and (results.run["smoke"] or not results.run["whole"]):
        sys.exit("bench-plot: the figures in docs take a whole run: make bench")
    for name, draw in (("throughput", throughput), ("latency", latency), ("cost", cost)):
        figure = draw(results)
        figure.tight_layout()
        path = os.path.join(out, "bench-%s.svg" % name)
        figure.savefig(path, metadata={"Date": None})
        print(path)


if __name__ == "__main__":
    main()
