# SPDX-License-Identifier: Apache-2.0
"""Worker 0 puts tensors into a queue, the others take them: python -m psd.launch --workers 3 queue_of_tensors.py"""

import numpy as np

import psd

with psd.Session() as s:
    jobs = s.queue("jobs", [("int64", ()), ("float32", (2, 2))], capacity=4)
    results = s.queue("results", [("int64", ()), ("float32", ())])
    if s.task_index == 0:
        for i in range(10):
            jobs.put(i, np.full((2, 2), i, "f4"))  # waits while the queue is full
        jobs.close()
        total = sum(float(results.take()[1]) for _ in range(10))
        print(f"total {total:.0f}")
    else:
        for number, matrix in jobs:  # until the queue is closed and empty
            results.put(number, matrix.sum())
    s.barrier("end", s.task_count)
