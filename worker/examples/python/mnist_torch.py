# SPDX-License-Identifier: Apache-2.0
"""A network of PyTorch on handwritten digits: python -m psd.launch --ps 2 --workers 2 mnist_torch.py digits.csv.gz [--sync]

With psd.launch --checkpoint_dir DIR the ps tasks may be killed: training goes on."""

import sys

import numpy as np
import torch
from torch.nn.functional import cross_entropy

import psd
import psd.torch

rows = torch.from_numpy(np.loadtxt(sys.argv[1], dtype="f4", delimiter=","))
x, labels, test = rows[:, :64] / 16, rows[:, 64].long(), torch.arange(len(rows)) % 5 == 0
train = torch.nonzero(~test).flatten()
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
torch.set_num_threads(1)
with psd.MonitoredSession() as s:
    optimizer = psd.torch.Optimizer(model.named_parameters(), s, psd.Adam(0.002), sync="--sync" in sys.argv)
    random = torch.Generator().manual_seed(s.task_index)
    s.set_steps(1500)
    while not s.should_stop():
        batch = train[torch.randint(len(train), (64,), generator=random)]
        optimizer.zero_grad()
        loss = cross_entropy(model(x[batch]), labels[batch])
        loss.backward()
        try:
            optimizer.step()
        except (psd.Aborted, psd.Unavailable):
            continue  # a ps was lost: should_stop() recovers the session, and the step is made again
    s.pull()
    with torch.no_grad():
        print(f"test accuracy {(model(x[test]).argmax(1) == labels[test]).float().mean():.3f}")
