# SPDX-License-Identifier: Apache-2.0
"""A network of PyTorch on handwritten digits: python -m psd.launch --ps 2 --workers 2 mnist_torch.py DATA [--sync]

DATA is digits.csv.gz, or a folder with the four files of MNIST (train-images-idx3-ubyte.gz, ...). With psd.launch --checkpoint_dir DIR the ps tasks
may be killed: training goes on from their last checkpoint (--checkpoint_steps 500)."""

import gzip
import os
import sys

import numpy as np
import torch
from torch.nn.functional import cross_entropy

import psd
import psd.torch


def idx(name: str, head: int) -> torch.Tensor:
    """A file of MNIST: a head of 4 bytes and 4 for each dimension, then bytes."""
    with gzip.open(os.path.join(sys.argv[1], name)) as f:
        return torch.frombuffer(bytearray(f.read()[head:]), dtype=torch.uint8)


if os.path.isdir(sys.argv[1]):
    x = torch.cat([idx(f"{part}-images-idx3-ubyte.gz", 16) for part in ("train", "t10k")]).view(-1, 784).float() / 255
    labels = torch.cat([idx(f"{part}-labels-idx1-ubyte.gz", 8) for part in ("train", "t10k")]).long()
    test, steps = torch.arange(len(x)) >= 60000, 6000
else:
    rows = torch.from_numpy(np.loadtxt(sys.argv[1], dtype="f4", delimiter=","))
    x, labels, test, steps = rows[:, :64] / 16, rows[:, 64].long(), torch.arange(len(rows)) % 5 == 0, 1500
train = torch.nonzero(~test).flatten()
model = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
torch.set_num_threads(1)
with psd.MonitoredSession() as s:
    optimizer = psd.torch.Optimizer(model.named_parameters(), s, psd.Adam(0.002), sync="--sync" in sys.argv)
    random = torch.Generator().manual_seed(s.task_index)
    s.set_steps(steps)
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
