# SPDX-License-Identifier: Apache-2.0
"""Workers share out items; those of a worker that ends come back: python -m psd.launch --workers 3 work_files.py"""

import psd

with psd.Session() as s:
    done = s.variable("done", (), "int64", psd.zeros())
    if s.is_chief:
        done.init_from(0)
    s.barrier("begin", s.task_count)
    for item in s.work("files", [f"part-{i}" for i in range(12)], epochs=2, seed=1):
        print(f"epoch {item.epoch}: {item}", flush=True)  # the item is done when the loop asks for the next one
        done.assign_add(1)
    s.barrier("end", s.task_count)
    if s.is_chief:
        print(f"done {int(done.read())}")
