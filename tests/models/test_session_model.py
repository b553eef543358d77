#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The model of the session within bounds that take about 10 seconds of CPU; test-timeout: 300.

Every state of these scenarios is looked at; then each weaker rule and each plain mistake must be seen where it shows first. The
other scenarios, by hand: tests/models/session_model.py.
"""
import multiprocessing
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import session_model as model  # noqa: E402

SCENARIOS = ("plain", "late-p", "reset", "reset-d", "reset-2", "thief", "thief-j")
LARGE = ("old_position", "silent_durable", "leave_torn")  # of journals, which psd does not have yet


def main():
    jobs = [(s, ()) for s in SCENARIOS]
    jobs += [(s, (rule,)) for rule, (s, _) in model.SAFE.items() if s in SCENARIOS]
    jobs += [(s, (rule,)) for group in (model.LITERAL, model.MUTANTS) for rule, (s, _) in group.items() if rule not in LARGE]
    failed = 0
    with multiprocessing.Pool(2) as pool:
        for scenario, rules, states, bad, lines, seconds in pool.imap_unordered(model.job, jobs):
            holds = not rules or rules[0] in model.SAFE
            good = (bad is None) == holds and bad != model.LIMIT
            print("%-8s %-17s %7d states %5.1f s  %s" % (scenario, ",".join(rules) or "(as designed)", states, seconds,
                                                         bad or "holds"), flush=True)
            if not good:
                print("\n".join("%5d %s" % (k + 1, line) for k, line in enumerate(lines)))
            failed += not good
    print("%d passed, %d failed, 0 skipped" % (len(jobs) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
