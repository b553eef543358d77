# SPDX-License-Identifier: Apache-2.0
"""Explores every state of a model: breadth first, so that what is wrong is shown by a shortest way to it.

A model has start() -> state; steps(state) -> (label, is it a fault, next state) of all that can happen, or Violation; quiet(state):
has all ended that can end? From every state there must be a way without a further fault to a quiet one."""
import gc
import multiprocessing
import sys
import time
from array import array

LIMIT = 'limit reached'


class Violation(Exception):
    """What is wrong, and perhaps the step that did it."""


class State:
    """F: the names of what a key has."""
    F = ()

    @classmethod
    def look(cls, key):
        """To read only: not thawed."""
        w = cls.__new__(cls)
        w.__dict__.update(zip(cls.F, key))
        return w


def explore(model, limit=3_000_000):
    """(states, what is wrong or None, the steps to it)"""
    first = model.start()
    index, keys, parent, labels = {first: 0}, [first], array('l', [-1]), ['start']
    src, dst = array('l'), array('l')

    def trace(i, *more):
        lines = list(more)
        while i > 0:
            lines.insert(0, labels[i])
            i = parent[i]
        return lines
    good = bytearray()
    at = 0
    while at < len(keys):
        key = keys[at]
        try:
            steps = list(model.steps(key))
            good.append(model.quiet(key))
        except Violation as v:
            return len(keys), v.args[0], trace(at, *v.args[1:])
        for label, fault, new in steps:
            i = index.setdefault(new, len(keys))        # once: a tuple does not remember its hash
            if i == len(keys):
                keys.append(new)
                parent.append(at)
                labels.append(label)
            if not fault:
                src.append(at)
                dst.append(i)
        at += 1
        if at > limit:
            return len(keys), LIMIT, []
    changed = True
    while changed:                                  # edges are nearly in topological order
        changed = False
        for e in range(len(src) - 1, -1, -1):
            if good[dst[e]] and not good[src[e]]:
                good[src[e]] = changed = True
    stuck = good.find(0)
    return (len(keys), None, []) if stuck < 0 else (len(keys), 'somebody waits, or something is held, for ever', trace(stuck))


def job(args):
    model, scenario, rules = args
    gc.disable()                                    # no state is in a circle: what there is to collect is found by its count
    t = time.time()
    states, bad, lines = explore(model(scenario, rules))
    return scenario, rules, states, bad, lines, time.time() - t


def run(model, jobs):
    """jobs: (scenario, rules). 0 when all hold as designed, and none with a rule left out"""
    failed = total = 0
    with multiprocessing.Pool(2, maxtasksperchild=1) as pool:
        for scenario, rules, states, bad, lines, seconds in pool.imap_unordered(job, [(model,) + j for j in jobs]):
            good = (bad is None) == (not rules) and bad != LIMIT
            total += states
            failed += not good
            print('%-8s %-16s %8d states %5.1f s  %s' % (scenario, ','.join(rules) or '(as designed)', states, seconds,
                                                         ('%s [%d steps]' % (bad, len(lines))) if bad else 'holds'), flush=True)
            if not good:
                print('\n'.join('%5d %s' % (n + 1, line) for n, line in enumerate(lines)))
    print('%d states' % total)
    print('%d passed, %d failed, 0 skipped' % (len(jobs) - failed, failed))
    return 1 if failed else 0


def main(model, scenarios, mutants):
    """SCENARIO [RULE ...]: one run, and the way to what is wrong; without: all scenarios, then all of mutants {rule: (scenario, what)}"""
    if len(sys.argv) > 1:
        _, _, states, bad, lines, seconds = job((model, sys.argv[1], tuple(sys.argv[2:])))
        print('\n'.join('%3d %s' % (n + 1, line) for n, line in enumerate(lines)))
        print('%s: %d states, %.1f s: %s' % (sys.argv[1], states, seconds, bad or 'holds'))
        return bad is not None
    return run(model, [(s, ()) for s in scenarios] + [(s, (rule,)) for rule, (s, _) in mutants.items()])
