#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of who is waited for when the model of rounds was lost (docs/PROTOCOL.md, SYNC): explored before it was
written in C. What a round is, and how it closes, is in rounds_model.py; here a group only opens.
usage: finished_model.py                       all scenarios, then all weaker rules
       finished_model.py SCENARIO [RULE ...]   one run, prints the way to what is wrong

Processes, one a place, join a group, train, and finish; one of them is the chief at a time, any of those that are not dead, and
makes the group with SYNC. The model may be lost, and all of the group with it: who had not finished wants to join again. The
directory knows the number of the training and who has finished it; it may be started again. A process may die, and another one be
started in its place; and somebody may kill them all, and begin afresh. One that stands still for a lease loses its place, as with
on_loss `shrink`; when it wakes up it joins again, and says of which training it was: it is told when that one is over.

Promised: a group opens with all that have not finished this training, unless the directory was started since, and with all where
nobody has finished one: a fresh training never opens with too few. And nobody waits for ever for one that has finished, unless the
directory, or the chief, was started since: also not in the next training, for those who have finished the one that it was lost in."""
import sys

from explore import Violation, main

LOSS, DIRECTORY, DIE, AFRESH, LEASE = range(5)
SCENARIOS = {
    'losses':    dict(places=3, faults=(2, 0, 0, 0, 0)),
    'directory': dict(places=3, faults=(2, 1, 0, 0, 0)),
    'die':       dict(places=3, faults=(2, 0, 1, 0, 0)),
    'afresh':    dict(places=3, faults=(2, 0, 0, 1, 0)),
    'two':       dict(places=2, faults=(3, 1, 1, 1, 0)),
    'silent':    dict(places=2, faults=(1, 1, 1, 1, 2)),
    'silent_3':  dict(places=3, faults=(1, 0, 0, 0, 2)),
}
MUTANTS = {
    'any_process':   ('afresh', "SYNC of a process that was no member takes those who have finished for gone"),
    'again_counted': ('die', "who has joined again still counts as finished"),
    'still_gone':    ('two', "... and the group that was made before does not wait for one more"),
    'not_over':      ('die', "when all have finished, the next training is the same one"),
    'chief_unsaid':  ('two', "it is not noted that the chief who begins a training has finished"),
    'not_kept':      ('losses', "a reset forgets who has finished"),
    'joins_next':    ('silent', "who was lost while the others finished joins the next training"),
    'any_over':      ('silent', "who was of a training that a chief has begun anew is told that it is over"),
}

# place: phase, the training of which the process was a member. '-' not started, 'O' wants to join, 'T' trains, 'S' has lost its
# place and does not know it, 'F' has finished, 'E' was told that its training is over, 'X' dead
# group: how many it does not wait for (None: it is open), members; None: there is none
# directory: training (0: none known), who has finished, the training before where it is over (0: none); number: the last one given
# ghosts: who has finished this training in truth; nobody knows better: the chief or the directory was started; some have finished
# one since all began afresh; the training that was over last, unless the directory was started since


class Model:
    def __init__(self, scenario, off=()):
        sc = SCENARIOS[scenario]
        self.n, self.faults, self.off = sc['places'], sc['faults'], frozenset(off)
        self.all = frozenset(range(self.n))

    def start(self):
        return ((('-', 0),) * self.n, None, (0, frozenset(), 0), 0, self.faults, frozenset(), False, False, 0)

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
        return (number + 1, frozenset(), d[0]), number + 1

    def steps(self, key):
        out = []
        places, group, d, number, left, truth, blind, some, last = key

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
            if phase in '-XE':
                go(name + ' starts', lambda i=i: (put(i, 'O', 0), group, d, number, truth, blind, some, last))
            if phase in 'OF' and group is None and any(p[0] == 'O' for p in places):
                go(name + ' is chief', lambda i=i: self.sync(key, i))
            if phase == 'O' and group is not None:
                go(name + ' joins', lambda i=i: self.joins(key, i, put))
            if phase == 'T' and group is not None and group[0] is None:
                go(name + ' finishes', lambda i=i: self.finishes(key, i, put))
                if left[LEASE]:
                    go(name + ' stands still', lambda i=i: self.stands_still(key, i, put), LEASE)
            if phase == 'S':
                go(name + ' wakes up', lambda i=i, was=was: (put(i, 'O', was), group, d, number, truth, blind, some, last))
            if phase in 'OTSF' and left[DIE]:
                members = group and (group[0], group[1] - {i})
                go(name + ' dies', lambda i=i, m=members: (put(i, 'X', 0), m, d, number, truth, blind or phase != 'F', some, last),
                   DIE)
        if group is not None and left[LOSS]:
            lost = tuple(('O', was) if phase == 'T' else (phase, was) for phase, was in places)
            kept = (d[0], frozenset(), d[2]) if 'not_kept' in self.off else d
            go('the model is lost', lambda: (lost, None, kept, number, truth, blind, some, last), LOSS)
        if left[DIRECTORY]:
            go('the directory starts again', lambda: (places, group, (0, frozenset(), 0), number, truth, True, some, 0), DIRECTORY)
        if left[AFRESH]:
            go('all are killed, and another training begins',
               lambda: ((('-', 0),) * self.n, None, d, number, frozenset(), False, False, last), AFRESH)
        return out

    def sync(self, key, i):
        places, _, (training, finished, before), number, _, truth, blind, some, last = key
        phase, was = places[i]
        same = training != 0 and (was == training or 'any_process' in self.off)
        if not same:
            before = training if 'any_over' in self.off else before
            number += 1
            training, finished = number, frozenset()
            blind = blind or bool(truth)
        gone = len(finished | {i}) if phase == 'F' else len(finished - {i})
        if phase == 'F':    # perhaps an earlier one: all the others were lost then, so that it was over
            truth, finished = truth | {i}, finished if 'chief_unsaid' in self.off else finished | {i}
        return places, (gone, frozenset()), (training, finished, before), number, truth, blind, some, last

    def joins(self, key, i, put):
        places, group, (training, finished, before), number, _, truth, blind, some, last = key
        was = places[i][1]
        told = was != 0 and was == before and 'joins_next' not in self.off
        if was != 0 and told != (was == last):
            raise Violation('process %d, of training %d, is %stold that it is over' % (i, was, '' if told else 'not '))
        if told:
            return put(i, 'E', was), group, (training, finished, before), number, truth, blind, some, last
        gone, members = group
        truth = truth - {i}
        if training == 0:
            number += 1
            training = number
        if i in finished and gone and 'still_gone' not in self.off:
            gone -= 1
        if 'again_counted' not in self.off:
            finished = finished - {i}
        group = self.opens((gone, members | {i}), truth, blind and some)
        return put(i, 'T', training), group, (training, finished, before), number, truth, blind, some, last

    def finishes(self, key, i, put):
        places, (_, members), (training, finished, before), number, _, truth, blind, _, last = key
        members = members - {i}
        d = (training, finished | {i} if training else finished, before)
        truth = truth | {i}
        over = not members
        if over:
            last = training
            truth, blind = frozenset(), False
        d, number = self.over(members, d, number)
        return put(i, 'F', places[i][1]), (0 if over else None, members), d, number, truth, blind, True, last

    def stands_still(self, key, i, put):
        """for a lease; where the others have finished the training is over"""
        places, (_, members), d, number, _, truth, blind, some, last = key
        members = members - {i}
        over = bool(truth) and not members
        if over:
            last = d[0]
            truth, blind = frozenset(), False
            d, number = self.over(members, d, number)
        return put(i, 'S', places[i][1]), (0 if over else None, members), d, number, truth, blind, some, last

    def quiet(self, key):
        places, group, _, _, _, truth, blind, _, _ = key
        phases = [p[0] for p in places]
        if group is None:
            return 'O' not in phases
        waits_for = [i for i in range(self.n) if phases[i] in 'XE' or (phases[i] == 'F' and i not in truth)]
        return blind or all(p in 'FXE' for p in phases) or (group[0] is not None and len(waits_for) > 0)


if __name__ == '__main__':
    sys.exit(main(Model, SCENARIOS, MUTANTS))
