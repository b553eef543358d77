#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of a learning rate that all owners of rounds take together (docs/PROTOCOL.md, SET_RATE): explored before it
was written in C. What a round takes, and who is in it, is in rounds_model.py; here a round is its rate.
usage: rate_model.py                       all scenarios, then all weaker rules
       rate_model.py SCENARIO [RULE ...]   one run, prints the way to what is wrong

A client asks the directory for another rate, again and again until it is told that all have it. The directory takes it along with
the next attempt: PREPARE and COMMIT say it, an owner builds with it, and has it from the flip on. An attempt may come to nothing;
the directory may die at any moment, and the next one knows what the owners list: the rounds that they have flipped.

Promised: each round was built with the same rate by all owners; and when the client is told so, all owners have it."""
import sys

from explore import Violation, main

VOID, DIRECTORY = range(2)
SCENARIOS = {
    'two':   dict(owners=2, rounds=3, faults=(1, 1)),
    'three': dict(owners=3, rounds=2, faults=(1, 1)),
    'twice': dict(owners=2, rounds=2, faults=(0, 2)),
}
MUTANTS = {
    'each_alone':   ('two', "the client tells each owner itself"),
    'at_prepare':   ('two', "an owner has the rate from PREPARE on"),
    'built_kept':   ('two', "a PREPARE without the rate keeps what was built with it"),
    'decided_anew': ('two', "a COMMIT of a directory that does not know the rate builds again, with the one in force"),
    'told_early':   ('two', "the client is told when the rate is noted"),
    'any_attempt':  ('two', "READY of an attempt before the rate was asked for counts"),
    'in_the_middle': ('two', "PREPARE says the rate that was asked for since the attempt began"),
}
OLD, NEW = 0, 1

# owner: orders unread, rates of the rounds that it has flipped, rate in force, what it has built: (rate, it is to be set) or None
# directory: phase ('c' collects, 'p' prepares, 'k' commits, 'r' waits for the lists), asked, taken, attempt, told in PREPARE, ready,
# flipped, the client may be told
# client: 'A' asks, 'D' is told; owners that it has told itself


class Model:
    def __init__(self, scenario, off=()):
        sc = SCENARIOS[scenario]
        self.n, self.most, self.faults, self.off = sc['owners'], sc['rounds'], sc['faults'], frozenset(off)
        self.none = (False,) * self.n

    def start(self):
        owner = ((), (), OLD, None)
        return ((owner,) * self.n, ('c', False, False, 0, self.none, self.none, self.none, False), ('A', self.none), self.faults)

    def steps(self, key):
        out = []
        owners, (phase, asked, taken, att, told, ready, flipped, done), (client, alone), left = key

        def go(label, fault, new_owners, d, new_client=(client, alone), new_left=left):
            out.append((label, fault, (new_owners, d, new_client, new_left)))

        def put(at, i, v):
            return at[:i] + (v,) + at[i + 1:]

        def spend(i):
            return put(left, i, left[i] - 1)
        round_of = min(len(o[1]) for o in owners)
        if client == 'A' and phase != 'r':
            if 'each_alone' in self.off:
                for i, (chan, hist, rate, built) in enumerate(owners):
                    if not alone[i]:
                        go('the client tells owner %d' % i, False, put(owners, i, (chan, hist, NEW, built)),
                           (phase, asked, taken, att, told, ready, flipped, done), (client, put(alone, i, True)))
            elif done or 'told_early' in self.off and asked:
                if any(o[2] != NEW for o in owners):
                    raise Violation('the client is told, and the owners have %r' % [o[2] for o in owners], 'the client asks')
                go('the client is told', False, owners, (phase, asked, taken, att, told, ready, flipped, done), ('D', alone))
            elif not asked:
                go('the client asks', False, owners, (phase, True, taken, att, told, ready, flipped, done))
        if phase == 'c' and round_of < self.most:
            go('an attempt begins', False, owners, ('p', asked, asked, att + 1, self.none, self.none, self.none, done))
        if phase == 'p':
            for i, (chan, hist, rate, built) in enumerate(owners):
                if not told[i]:
                    sets = asked if 'in_the_middle' in self.off else taken
                    go('owner %d is sent PREPARE' % i, False, put(owners, i, (chan + (('P', sets, att),), hist, rate, built)),
                       ('p', asked, taken, att, put(told, i, True), ready, flipped, done))
            if all(ready):
                go('it is decided', False, tuple((chan + (('K', taken, att),), h, r, b) for chan, h, r, b in owners),
                   ('k', asked, taken, att, told, ready, self.none, done))
            if left[VOID]:
                go('the attempt comes to nothing', True, tuple((chan + (('V', False, att),), h, r, b) for chan, h, r, b in owners),
                   ('c', asked, False, att, self.none, self.none, self.none, done), new_left=spend(VOID))
        if phase == 'k' and all(flipped):
            go('the round is over', False, owners,
               ('c', asked and not taken, False, att, self.none, self.none, self.none, done or taken))
        for i, (chan, hist, rate, built) in enumerate(owners):
            if chan:
                self.reads(key, i, put, go)
        if phase == 'r':
            go('all have listed', False, *self.recovers(owners, done))
        if left[DIRECTORY] and phase != 'r':
            go('the directory dies', True, tuple(((), h, r, b) for _, h, r, b in owners),
               ('r', False, False, 0, self.none, self.none, self.none, False), new_left=spend(DIRECTORY))
        return out

    def recovers(self, owners, done):
        top = max(len(o[1]) for o in owners)
        behind = [len(o[1]) < top for o in owners]
        new = tuple((chan + (('K', False, 0),) if late else chan, h, r, b) for (chan, h, r, b), late in zip(owners, behind))
        flipped = tuple(not late for late in behind)
        return new, ('k' if any(behind) else 'c', False, False, 0, self.none, self.none, flipped if any(behind) else self.none, done)

    def reads(self, key, i, put, go):
        owners, (phase, asked, taken, att, told, ready, flipped, done), _, _ = key
        chan, hist, rate, built = owners[i]
        (kind, sets, of), chan = chan[0], chan[1:]
        d = (phase, asked, taken, att, told, ready, flipped, done)
        with_rate = (NEW, True) if sets else (rate, False)
        if kind == 'P':
            built = built if built is not None and 'built_kept' in self.off else with_rate
            rate = built[0] if 'at_prepare' in self.off else rate
            counts = phase == 'p' and (of == att or 'any_attempt' in self.off)
            d = (phase, asked, taken, att, told, put(ready, i, True) if counts else ready, flipped, done)
        elif kind == 'V':
            built = None
        else:
            if built is None or 'decided_anew' in self.off:
                built = with_rate
            hist += (built[0],)
            rate = built[0] if built[1] else rate
            built = None
            for other in owners:
                if other[1][:len(hist)] and len(other[1]) >= len(hist) and other[1][len(hist) - 1] != hist[-1]:
                    raise Violation('round %d is built with two rates' % len(hist), 'owner %d flips' % i)
            d = (phase, asked, taken, att, told, ready, put(flipped, i, True), done)
        go('owner %d reads %s' % (i, kind), False, put(owners, i, (chan, hist, rate, built)), d)

    def quiet(self, key):
        owners, d, (client, alone), _ = key
        ended = min(len(o[1]) for o in owners) == self.most and d[0] == 'c' and not any(o[0] for o in owners)
        return client == 'D' or all(alone) or ended


if __name__ == '__main__':
    sys.exit(main(Model, SCENARIOS, MUTANTS))
