#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The model of the directory within bounds that take about half a minute; test-timeout: 300.

It explores what the scenarios allow, the nearest states first, as many as fit, and looks for a rule whose promise is broken; then
it clears one rule of the twin at a time, which must be seen. All of it, by hand: tests/models/directory_model.py all, or
twin states=3000000 seconds=600.
"""
import multiprocessing
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import directory_model as model  # noqa: E402

STATES = {"twin_lw": 50000, "twin_1w": 100000, "twin_f": 20000, "delete": 30000, "twin_t": 12000, "twin_o": 12000}
OTHERS = 5000
WHOLE = ("twin_lw", "twin_1w", "delete")  # no state may be left out
# where a cleared rule shows first, and how many states that takes at most
MUTANTS = {
    "no_return": ("twin_lw", 1000),
    "stale_names": ("twin_1w", 20000),
    "stale_gone": ("twin_1w", 20000),
    "relist": ("twin_1w", 40000),
    "past_kept": ("twin_1w", 20000),
    "late": ("twin_lw", 20000),
    "displaced_drop": ("twin_lw", 20000),
    "told_kept": ("twin_lw", 20000),
    "listed_since": ("twin_lw", 1000),
    "asked_too": ("twin_f", 20000),
    "told_listed": ("twin_lw", 1000),
    "delete_keeps": ("delete", 20000),
    "emptying": ("reset2", 40000),
    # some of those that the model had before
    "answer_last": ("create", 1000),
    "list_every": ("reset2", 40000),
    "refuse_old": ("create", 40000),
    "wait_lists": ("create", 40000),
    "block_create": ("reset", 40000),
}
SECONDS = 250.0


def explore(job):
    scenario, off, states = job
    return model.explore(scenario, off, states, SECONDS)


def main():
    jobs = [(s, (), STATES.get(s, OTHERS)) for s in model.SCENARIOS]
    jobs += [(scenario, (flag,), states) for flag, (scenario, states) in MUTANTS.items()]
    failed = 0
    with multiprocessing.Pool(2) as pool:
        for r in pool.imap_unordered(explore, jobs):
            if r["off"]:
                good = r["bad"] not in (None, "CUT OFF")
            else:
                good = r["bad"] is None or (r["bad"] == "CUT OFF" and r["sc"] not in WHOLE)
            good = good and r["s"] < SECONDS
            model.show(r, full=not good)
            failed += not good
    missing = [flag for flag in model.TWINS + ["delete_keeps", "emptying"] if flag not in MUTANTS]
    if missing:
        print("no scenario shows what happens without", missing)
    failed += len(missing)
    print("%d passed, %d failed, 0 skipped" % (len(jobs) + len(missing) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
