# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of `make bench-train`: the same network, batch and SGD, in eager mode.

usage: torch_load.py THREADS BATCH SECONDS      one line of JSON: the median step
"""
import json
import statistics
import sys
import time

import torch

WARM_UP = 10
RATE = 0.01


def main():
    threads, batch, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    linear = torch.nn.Linear
    model = torch.nn.Sequential(linear(784, 512), torch.nn.ReLU(), linear(512, 512), torch.nn.ReLU(), linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    loss_of = torch.nn.CrossEntropyLoss()
    x, y = torch.rand(batch, 784), torch.randint(0, 10, (batch,))
    took, losses = [], []
    end = None
    while end is None or time.monotonic() < end or len(took) < WARM_UP:
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        took.append(time.perf_counter() - begin)
        losses.append(loss.detach())
        if end is None and len(took) == WARM_UP:
            took.clear()
            end = time.monotonic() + seconds
    right = float(losses[-1]) < float(losses[0])
    print(json.dumps({"step_us": 1e6 * statistics.median(took), "values": "right" if right else "WRONG"}))


main()
