#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of a limit on the norm of a round's whole average (docs/PROTOCOL.md, BUILD): explored before it was written
in C. Who is in a round is in rounds_model.py; here an attempt takes one of two lists of members.
usage: clip_model.py                       all scenarios, then all weaker rules
       clip_model.py SCENARIO [RULE ...]   one run, prints the way to what is wrong

PREPARE has each owner answer with the sums of squares of its variables. The directory makes the factor of all sums, and BUILD tells it
to all owners, which build with it. COMMIT says the factor again. An attempt may come to nothing; an owner may lose what it has built,
and keeps the contributions; the directory may die at any moment, and the next one knows what the owners list: which round they have
flipped, with which members and which factor.

Promised: all owners flip a round with the same members and the same factor, and that is the factor of the sums of these members."""
import sys

from explore import Violation, main

VOID, FORGET, DIRECTORY = range(3)
SCENARIOS = {
    'two':    dict(owners=2, rounds=2, faults=(1, 1, 1)),
    'three':  dict(owners=3, rounds=1, faults=(1, 0, 1)),
    'twice':  dict(owners=2, rounds=2, faults=(0, 1, 2)),
    'voids':  dict(owners=2, rounds=1, faults=(2, 1, 0)),
}
MUTANTS = {
    'own_norm':         ('two', "an owner limits by the norm of its own variables"),
    'ready_at_prepare': ('two', "the answer of PREPARE counts as READY"),
    'some_sums':        ('two', "BUILD goes out at the first sums"),
    'old_sums':         ('voids', "sums of an attempt before count"),
    'old_ready':        ('voids', "READY of an attempt before counts"),
    'old_factor':       ('voids', "a new attempt begins with the factor of the one before"),
    'built_kept':       ('voids', "PREPARE and BUILD keep what was built for an attempt before"),
    'not_in_commit':    ('two', "a COMMIT does not say the factor"),
    'not_in_flip':      ('two', "an owner does not remember the factor of its flip"),
    'of_anyone':        ('two', "a restarted directory takes the factor of an owner that has not flipped"),
}
LISTS = (1, 2)
NO_FACTOR = None

# owner: orders unread, what its rounds were flipped with: (list, factor), what it has: None, ('s', list): summed, ('b', list, factor)
# directory: phase ('c' collects, 'p' prepares, 'k' commits, 'r' waits for lists), list, attempt, factor, told PREPARE, sums (of an owner:
# the round and list that they are of), told BUILD, ready, flipped
# a factor is named by the sums that it was made of


class Model:
    def __init__(self, scenario, off=()):
        sc = SCENARIOS[scenario]
        self.n, self.most, self.faults, self.off = sc['owners'], sc['rounds'], sc['faults'], frozenset(off)
        self.none = (False,) * self.n

    def collecting(self, att=0):
        return ('c', 0, att, NO_FACTOR, self.none, (None,) * self.n, self.none, self.none, self.none)

    def start(self):
        return (((), (), None),) * self.n, self.collecting(), self.faults

    @staticmethod
    def factor_of(sums):
        return sums[0] if len(set(sums)) == 1 else sums

    def steps(self, key):
        out = []
        owners, d, left = key
        phase, taken, att, factor, told, sums, built, ready, flipped = d

        def go(label, fault, new_owners, new_d, new_left=left):
            out.append((label, fault, (new_owners, new_d, new_left)))

        def put(at, i, v):
            return at[:i] + (v,) + at[i + 1:]

        def sent(i, *order):
            chan, hist, has = owners[i]
            return put(owners, i, (chan + (order,), hist, has))

        def spend(i):
            return put(left, i, left[i] - 1)
        done = min(len(hist) for _, hist, _ in owners)
        if phase == 'c' and done < self.most:
            for members in LISTS:
                first = factor if 'old_factor' in self.off else NO_FACTOR
                go('an attempt with list %d begins' % members, False, owners,
                   ('p', members, att + 1, first, self.none, (None,) * self.n, self.none, self.none, self.none))
        if phase == 'p':
            for i in range(self.n):
                if not told[i]:
                    go('owner %d is sent PREPARE' % i, False, sent(i, 'P', att, taken),
                       (phase, taken, att, factor, put(told, i, True), sums, built, ready, flipped))
                elif factor is not NO_FACTOR and not built[i]:
                    go('owner %d is sent BUILD' % i, False, sent(i, 'B', att, taken, factor),
                       (phase, taken, att, factor, told, sums, put(built, i, True), ready, flipped))
            enough = any if 'some_sums' in self.off else all
            if factor is NO_FACTOR and enough(s is not None for s in sums):
                go('the factor is made', False, owners,
                   (phase, taken, att, self.factor_of(sums), told, sums, built, ready, flipped))
            if all(ready):
                says = NO_FACTOR if 'not_in_commit' in self.off else factor
                go('it is decided', False, tuple((chan + (('K', att, taken, says),), h, has) for chan, h, has in owners),
                   ('k', taken, att, factor, told, sums, built, ready, self.none))
            if left[VOID]:
                kept = self.collecting(att)
                kept = kept[:3] + (factor,) + kept[4:] if 'old_factor' in self.off else kept
                go('the attempt comes to nothing', True, owners if 'built_kept' in self.off else
                   tuple((chan + (('V', att),), h, has) for chan, h, has in owners), kept, spend(VOID))
        if phase == 'k' and all(flipped):
            go('the round is over', False, owners, self.collecting(att))
        for i, (chan, hist, has) in enumerate(owners):
            if chan:
                self.reads(key, i, put, go)
            if has is not None and left[FORGET]:
                go('owner %d loses what it has built' % i, True, put(owners, i, (chan, hist, None)), self.lost(d, i), spend(FORGET))
        if phase == 'r':
            go('all have listed', False, *self.recovers(owners))
        if left[DIRECTORY] and phase != 'r':
            go('the directory dies', True, tuple(((), h, has) for _, h, has in owners),
               ('r',) + self.collecting()[1:], spend(DIRECTORY))
        return out

    def lost(self, d, i):
        """Its READY may have been counted: a COMMIT builds anew. Before that its next answer would say so, and the attempt ends."""
        return d if d[0] != 'p' or not d[7][i] or all(d[7]) else self.collecting(d[2])

    def recovers(self, owners):
        top = max(len(h) for _, h, _ in owners)
        behind = [len(h) < top for _, h, _ in owners]
        if not any(behind) or top == 0:
            return tuple((chan + (('V', 0),), h, has) for chan, h, has in owners), self.collecting()
        who = next(h for (_, h, _), late in zip(owners, behind) if late == ('of_anyone' in self.off))
        members = next(h for (_, h, _), late in zip(owners, behind) if not late)[-1][0]
        factor = who[-1][1] if who and 'not_in_flip' not in self.off and 'not_in_commit' not in self.off else NO_FACTOR
        new = tuple((chan + (('K', 0, members, factor),) if late else chan, h, has) for (chan, h, has), late in zip(owners, behind))
        return new, ('k', members, 0, factor, self.none, (None,) * self.n, self.none, self.none, tuple(not late for late in behind))

    def reads(self, key, i, put, go):
        owners, d, _ = key
        phase, taken, att, factor, told, sums, built, ready, flipped = d
        chan, hist, has = owners[i]
        (kind, of, *what), chan = chan[0], chan[1:]
        this = (len(hist) + 1,)
        if kind == 'P':
            of_list = what[0]
            if 'own_norm' in self.off:
                has = ('b', of_list, this + (of_list, 'of %d' % i))
            elif has is None or has[0] == 's' or 'built_kept' not in self.off:
                has = ('s', of_list)
            if phase == 'p' and (of == att or 'old_sums' in self.off):
                sums = put(sums, i, this + (of_list,))
                ready = put(ready, i, True) if self.off & {'ready_at_prepare', 'own_norm'} else ready
        elif kind == 'B':
            has = has if has is not None and has[0] == 'b' and 'built_kept' in self.off else ('b', what[0], what[1])
            if phase == 'p' and (of == att or 'old_ready' in self.off):
                ready = put(ready, i, True)
        elif kind == 'V':
            has = None
        else:
            members, says = what
            hist += (has[1:] if has is not None and has[0] == 'b' else (members, says),)
            has = None
            flipped = put(flipped, i, True)
            self.check(owners, put(owners, i, (chan, hist, has)), members, i)
        go('owner %d reads %s' % (i, kind), False, put(owners, i, (chan, hist, has)),
           (phase, taken, att, factor, told, sums, built, ready, flipped))

    def check(self, before, after, decided, i):
        hist = after[i][1]
        r = len(hist)
        if hist[-1] != (decided, (r, decided)):
            raise Violation('round %d of list %d is flipped with %r' % (r, decided, hist[-1]), 'owner %d flips' % i)
        for _, other, _ in after:
            if len(other) >= r and other[r - 1] != hist[-1]:
                raise Violation('round %d is flipped with two factors' % r, 'owner %d flips' % i)

    def quiet(self, key):
        owners, d, _ = key
        return min(len(h) for _, h, _ in owners) == self.most and d[0] == 'c' and not any(chan for chan, _, _ in owners)


if __name__ == '__main__':
    sys.exit(main(Model, SCENARIOS, MUTANTS))
