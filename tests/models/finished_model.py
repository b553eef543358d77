#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of who is waited for when the model of rounds was lost (docs/PROTOCOL.md, SYNC): explored before it was
written in C. What a round is, and how it closes, is in rounds_model.py; here a group only opens.
usage: finished_model.py                       all scenarios, then all weaker rules
       finished_model.py SCENARIO [RULE ...]   one run, prints the way to what is wrong

Processes, one a place, join a group, train, and finish; one of them is the chief at a time, any of those that are not dead, and
makes the group with SYNC. The model may be lost, and all of the group with it: who had not finished wants to join again. The
directory knows the number of the training and who has finished it; it may be started again. A process may die, and another one be
started in its place; and somebody may kill them all, and begin afresh.

Promised: a group opens with all that have not finished this training, unless the directory was started since, and with all where
nobody has finished one: a fresh training never opens with too few. And nobody waits for ever for one that has finished, unless the directory, or the chief, was started since."""
import sys

from explore import Violation, main

LOSS, DIRECTORY, DIE, AFRESH = range(4)
SCENARIOS = {
    'losses':    dict(places=3, faults=(2, 0, 0, 0)),
    'directory': dict(places=3, faults=(2, 1, 0, 0)),
    'die':       dict(places=3, faults=(2, 0, 1, 0)),
    'afresh':    dict(places=3, faults=(2, 0, 0, 1)),
    'two':       dict(places=2, faults=(3, 1, 1, 1)),
}
MUTANTS = {
    'any_process':   ('afresh', "SYNC of a process that was no member takes those who have finished for gone"),
    'again_counted': ('die', "who has joined again still counts as finished"),
    'still_gone':    ('two', "... and the group that was made before does not wait for one more"),
    'not_over':      ('die', "when all have finished, the next training is the same one"),
    'chief_unsaid':  ('two', "it is not noted that the chief who begins a training has finished"),
    'not_kept':      ('losses', "a reset forgets who has finished"),
}

# place: phase, the training of which the process was a member. '-' not started, 'O' wants to join, 'T' trains, 'F' has finished, 'X' dead
# group: how many it does not wait for (None: it is open), members; None: there is none
# directory: training (0: none known), who has finished; number: the last one given
# ghosts: who has finished this training in truth; nobody knows better: the chief or the directory was started; some have finished
# one since all began afresh


class Model:
    def __init__(self, scenario, off=()):
        sc = SCENARIOS[scenario]
        self.n, self.faults, self.off = sc['places'], sc['faults'], frozenset(off)
        self.all = frozenset(range(self.n))

    def start(self):
        return ((('-', 0),) * self.n, None, (0, frozenset()), 0, self.faults, frozenset(), False, False)

    def opens(self, group, truth, excused):
        gone, members = group
        if gone is None or len(members) < max(self.n - gone, 1):
            return group
        if members | truth != self.all and not excused:
            raise Violation('opens with %s, %s have finished' % (sorted(members), sorted(truth)))
        return (None, members)

    def over(self, members, d, number):
        """all have left, or not"""
        if members or 'not_over' in self.off:
            return d, number
        return (number + 1, frozenset()), number + 1

    def steps(self, key):
        out = []
        places, group, d, number, left, truth, blind, some = key

        def put(i, *place):
            return places[:i] + (place,) + places[i + 1:]

        def go(label, act, fault=None):
            try:
                new = act()
            except Violation as v:
                raise Violation(str(v), label) from None
            spent = left if fault is None else left[:fault] + (left[fault] - 1,) + left[fault + 1:]
            new = list(new)
            new.insert(4, spent)
            out.append((label, fault is not None, tuple(new)))

        for i, (phase, was) in enumerate(places):
            name = 'process %d' % i
            if phase in '-X':
                go(name + ' starts', lambda i=i: (put(i, 'O', 0), group, d, number, truth, blind, some))
            if phase in 'OF' and group is None and any(p[0] == 'O' for p in places):
                go(name + ' is chief', lambda i=i: self.sync(key, i))
            if phase == 'O' and group is not None:
                go(name + ' joins', lambda i=i: self.joins(key, i, put))
            if phase == 'T' and group is not None and group[0] is None:
                go(name + ' finishes', lambda i=i: self.finishes(key, i, put))
            if phase in 'OTF' and left[DIE]:
                members = group and (group[0], group[1] - {i})
                go(name + ' dies', lambda i=i, m=members: (put(i, 'X', 0), m, d, number, truth, blind or phase != 'F', some), DIE)
        if group is not None and left[LOSS]:
            lost = tuple(('O', was) if phase == 'T' else (phase, was) for phase, was in places)
            kept = (d[0], frozenset()) if 'not_kept' in self.off else d
            go('the model is lost', lambda: (lost, None, kept, number, truth, blind, some), LOSS)
        if left[DIRECTORY]:
            go('the directory starts again', lambda: (places, group, (0, frozenset()), number, truth, True, some), DIRECTORY)
        if left[AFRESH]:
            go('all are killed, and another training begins',
               lambda: ((('-', 0),) * self.n, None, d, number, frozenset(), False, False), AFRESH)
        return out

    def sync(self, key, i):
        places, _, (training, finished), number, _, truth, blind, some = key
        phase, was = places[i]
        same = training != 0 and (was == training or 'any_process' in self.off)
        if not same:
            number += 1
            training, finished = number, frozenset()
            blind = blind or bool(truth)
        gone = len(finished | {i}) if phase == 'F' else len(finished - {i})
        if phase == 'F':    # perhaps an earlier one: all the others were lost then, so that it was over
            truth, finished = truth | {i}, finished if 'chief_unsaid' in self.off else finished | {i}
        return places, (gone, frozenset()), (training, finished), number, truth, blind, some

    def joins(self, key, i, put):
        _, (gone, members), (training, finished), number, _, truth, blind, some = key
        truth = truth - {i}
        if training == 0:
            number += 1
            training = number
        if i in finished and gone and 'still_gone' not in self.off:
            gone -= 1
        if 'again_counted' not in self.off:
            finished = finished - {i}
        group = self.opens((gone, members | {i}), truth, blind and some)
        return put(i, 'T', training), group, (training, finished), number, truth, blind, some

    def finishes(self, key, i, put):
        places, (_, members), (training, finished), number, _, truth, blind, _ = key
        members = members - {i}
        d = (training, finished | {i}) if training else (0, finished)
        truth = truth | {i}
        if not members:
            truth, blind = frozenset(), False
        d, number = self.over(members, d, number)
        return put(i, 'F', places[i][1]), (None if members else 0, members), d, number, truth, blind, True

    def quiet(self, key):
        places, group, _, _, _, truth, blind, _ = key
        phases = [p[0] for p in places]
        if group is None:
            return 'O' not in phases
        waits_for = [i for i in range(self.n) if phases[i] == 'X' or (phases[i] == 'F' and i not in truth)]
        return blind or all(p in 'FX' for p in phases) or (group[0] is not None and len(waits_for) > 0)


if __name__ == '__main__':
    sys.exit(main(Model, SCENARIOS, MUTANTS))
