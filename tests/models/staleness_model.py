#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of bounded staleness (docs/PROTOCOL.md) over restarts of the directory: explored before it was written in C.
usage: staleness_model.py                       all scenarios, then all weaker rules
       staleness_model.py SCENARIO [RULE ...]   one run, prints the way to what is wrong

A worker makes a step, says STEP with the number of its steps, and waits for the answer: that no member has made fewer by more than
the bound. Nobody knows how long a step takes: that one is made counts as a fault here, so that no promise leans on it. The
directory knows the counts that it was told; one that is started again knows the members, by their owners, and no count. A
worker's beats say how many of its steps were answered. A worker may die: its lease ends, and it is waited for no more (`shrink`).

Promised: nobody is answered who is ahead of a member by more than the bound. And whoever is not ahead of anybody by more than the
bound is answered, however long a step of the others takes, and however often the directory was started."""
import sys

from explore import Violation, main

DIRECTORY, DIE = range(2)
SCENARIOS = {
    'restart': dict(workers=2, bound=1, steps=4, faults=(2, 0)),
    'lock':    dict(workers=2, bound=0, steps=3, faults=(2, 0)),
    'three':   dict(workers=3, bound=1, steps=3, faults=(1, 0)),
    'die':     dict(workers=3, bound=1, steps=2, faults=(1, 1)),
}
MUTANTS = {
    'zero':       ('restart', "a count that is not known is 0, and a beat changes nothing of it"),
    'not_asked':  ('restart', "a beat does not say the count"),
    'left_out':   ('restart', "who has not said its count is not looked at"),
    'beat_ahead': ('lock', "a beat says the step that is under way as made"),
    'beat_lowers': ('restart', "a beat takes back what a STEP has said"),
}
UNKNOWN, GONE = -1, -2

# worker: phase, steps that were answered. 'W' makes a step, 'S' has made it and has STEP to send, 'w' waits, 'X' dead
# directory: the count of each as it knows it


class Model:
    def __init__(self, scenario, off=()):
        sc = SCENARIOS[scenario]
        self.n, self.bound, self.most, self.faults = sc['workers'], sc['bound'], sc['steps'], sc['faults']
        self.off = frozenset(off)

    def start(self):
        return ((('W', 0),) * self.n, (0,) * self.n, self.faults)

    def made(self, workers):
        """by each that is a member, in truth"""
        return [count + (phase in 'Sw') for phase, count in workers]

    def steps(self, key):
        out = []
        workers, known, left = key

        def go(label, fault, *new):
            out.append((label, fault, new))

        def put(at, i, value):
            return at[:i] + (value,) + at[i + 1:]
        for i, (phase, count) in enumerate(workers):
            name = 'worker %d' % i
            if phase == 'W' and count < self.most:
                go(name + ' makes a step', True, put(workers, i, ('S', count)), known, left)
            if phase == 'S':
                said = max(known[i], count + 1)
                go(name + ' says STEP', False, put(workers, i, ('w', count)), put(known, i, said), left)
            if phase == 'w':
                self.answers(key, i, put, go)
            if phase != 'X' and known[i] != GONE:
                beat = count + (phase == 'W' and 'beat_ahead' in self.off)
                said = beat if known[i] == UNKNOWN or 'beat_lowers' in self.off else known[i]
                if said != known[i] and 'not_asked' not in self.off:
                    go(name + ' beats', False, workers, put(known, i, said), left)
                if left[DIE]:
                    go(name + ' dies', True, put(workers, i, ('X', count)), known, put(left, DIE, left[DIE] - 1))
            if phase == 'X' and known[i] != GONE:
                go('the lease of %s ends' % name, False, workers, put(known, i, GONE), left)
        if left[DIRECTORY]:
            first = 0 if 'zero' in self.off else UNKNOWN
            again = tuple(('S', count) if phase == 'w' else (phase, count) for phase, count in workers)
            go('the directory starts again', True, again, tuple(k if k == GONE else first for k in known),
               put(left, DIRECTORY, left[DIRECTORY] - 1))
        return out

    def answers(self, key, i, put, go):
        workers, known, left = key
        members = [k for k in known if k != GONE and not (k == UNKNOWN and 'left_out' in self.off)]
        if UNKNOWN in members or known[i] - min(members) > self.bound:
            return
        count = workers[i][1] + 1
        for j, made in enumerate(self.made(workers)):
            if known[j] != GONE and workers[j][0] != 'X' and count - made > self.bound:
                raise Violation('worker %d has made %d steps, worker %d has made %d' % (i, count, j, made),
                                'worker %d is answered' % i)
        go('worker %d is answered' % i, False, put(workers, i, ('W', count)), known, left)

    def quiet(self, key):
        workers, known, _ = key
        made = self.made(workers)
        for i, (phase, count) in enumerate(workers):
            if phase == 'X' and known[i] != GONE:
                return False
            least = min(m for m, k in zip(made, known) if k != GONE)
            if phase in 'Sw' and count + 1 - least <= self.bound:
                return False
        return True


if __name__ == '__main__':
    sys.exit(main(Model, SCENARIOS, MUTANTS))
