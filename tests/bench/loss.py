# SPDX-License-Identifier: Apache-2.0
"""The loss over the steps of a worker: torch.optim alone, and two workers with psd, asynchronous, in rounds, and with DiLoCo. make bench-loss, which
needs PyTorch and matplotlib, writes docs/python-loss.svg.

The model is mnist_torch.py's, on the digits of data/. Values are the loss of the first worker's model over all training digits."""
import os
import sys
import threading

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from torch.nn.functional import cross_entropy

import psd

matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "psd", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3,
                            "axes.spines.top": False, "axes.spines.right": False})
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STEPS, EVERY, RATE, BATCH = 300, 10, 0.02, 32
rows = torch.from_numpy(np.loadtxt(os.path.join(ROOT, "data/digits/digits.csv.gz"), dtype="f4", delimiter=","))
rows = rows[torch.arange(len(rows)) % 5 != 0]
x, labels = rows[:, :64] / 16, rows[:, 64].long()
torch.set_num_threads(1)


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))


def train(model, optimizer, seed):
    """The losses of all digits, before every EVERY-th step."""
    random, losses = torch.Generator().manual_seed(seed), []
    for step in range(STEPS + 1):
        if step % EVERY == 0:
            with torch.no_grad():
                losses.append(cross_entropy(model(x), labels).item())
        batch = torch.randint(len(x), (BATCH,), generator=random)
        optimizer.zero_grad()
        cross_entropy(model(x[batch]), labels[batch]).backward()
        optimizer.step()
    return losses


def alone():
    model = net()
    return train(model, torch.optim.Adagrad(model.parameters(), RATE, initial_accumulator_value=0.1, eps=0), 0)


def together(make):
    """Losses of the first of two workers. make(model, session): its optimizer."""
    found, models = {}, [net(), net()]

    def work(cluster, i):
        with psd.Session(cluster=cluster.spec, job="worker", task=i) as s:
            found[i] = train(models[i], make(models[i], s), i)

    with psd.local_cluster(ps=2, workers=2) as cluster:
        threads = [threading.Thread(target=work, args=(cluster, i)) for i in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    return found[0]


def main():
    def diloco(model, session):
        inner = torch.optim.Adagrad(model.parameters(), RATE, initial_accumulator_value=0.1, eps=0)
        return psd.torch.DiLoCo(model, inner, session, every=20)

    curves = {
        "torch.optim alone": alone(),
        "psd, 2 workers": together(lambda model, s: psd.torch.Optimizer(model, s, psd.Adagrad(RATE))),
        "psd, 2 workers in rounds": together(lambda model, s: psd.torch.Optimizer(model, s, psd.Adagrad(RATE), sync=True)),
        "DiLoCo, 2 workers that meet every 20 steps": together(diloco),
    }
    figure, axes = plt.subplots(figsize=(6, 3.4))
    for (label, losses), style in zip(curves.items(), ("k--", "C0-", "C1-", "C2-")):
        axes.plot(range(0, STEPS + 1, EVERY), losses, style, label=label, linewidth=1.4)
        print(f"{label:45} {losses[0]:.3f} {losses[len(losses) // 2]:.3f} {losses[-1]:.3f}", flush=True)
    axes.set(xlabel="steps of each worker", ylabel="loss of all training digits", ylim=(0, None))
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(os.path.join(ROOT, "docs/python-loss.svg"), metadata={"Date": None, "Creator": None})


sys.exit(main())
