# SPDX-License-Identifier: Apache-2.0
"""Softmax regression on handwritten digits with NumPy: python -m psd.launch --ps 2 --workers 3 softmax.py digits.csv.gz"""

import sys

import numpy as np

import psd

rows = np.loadtxt(sys.argv[1], dtype="f4", delimiter=",")
x, labels, test = rows[:, :64] / 16, rows[:, 64].astype(int), np.arange(len(rows)) % 5 == 0
with psd.Session() as s:
    w = s.param("w", (64, 10), psd.glorot(), psd.Adagrad(0.1))
    b = s.param("b", 10, psd.zeros(), psd.Adagrad(0.1))
    s.ready()  # the chief initialises, the others wait
    s.set_steps(2000)  # of all workers together
    random = np.random.default_rng(s.task_index)
    while not s.should_stop():
        batch = random.choice(np.flatnonzero(~test), 32)
        s.pull()  # all parameters, into their arrays
        e = np.exp(x[batch] @ w.value + b.value)
        e = (e / e.sum(1, keepdims=True) - np.eye(10)[labels[batch]]).astype("f4") / 32
        w.push(x[batch].T @ e)  # returns at once; the ps tasks apply Adagrad
        b.push(e.sum(0))
        s.step_done()  # global step + 1 when both are acknowledged
    s.pull()
    print(f"test accuracy {np.mean((x[test] @ w.value + b.value).argmax(1) == labels[test]):.3f}")
