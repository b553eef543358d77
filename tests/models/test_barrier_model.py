#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of the barrier (psd/rpc/barrier.c): who counts, and what a release reaches.
usage: test_barrier_model.py [SCENARIO [RULE ...]]

Processes, one at each place, come to one barrier round after round. In any interleaving connections are cut and made again, processes
are killed and others take their places, leases end, the directory is restarted and has forgotten everything. A worker of another
program (another default container), with the number of one of theirs, opens a session and never comes to the barrier.

Promised: for a count, as many as there are places, nobody leaves before each place has come, and who is counted holds a lease. For all
workers, nobody leaves before each of the program that is connected has come. Nobody waits for another program. Whose round was released hears of it, or is told that it cannot be known;
it does not wait for those who have gone on. (That the others of a killed one wait until their deadline is no failure.)"""
import sys

from explore import Violation, main

# scenario: places, count (0: all), rounds; how many cuts, kills, ends of leases of living ones, restarts, workers of another program
SCENARIOS = {
    'two':      (2, 2, 2, 2, 1, 1, 0, 0),
    'three':    (3, 3, 1, 1, 2, 1, 0, 0),
    'all':      (2, 0, 2, 2, 1, 1, 0, 0),
    'all_3':    (3, 0, 1, 1, 1, 1, 0, 0),
    'forgets':  (2, 2, 1, 1, 0, 0, 1, 0),
    'beside':   (2, 2, 1, 1, 1, 1, 0, 1),
    'all_of':   (2, 0, 1, 1, 1, 1, 0, 1),
}
# rule: (where it shows when it is left out, what it is)
MUTANTS = {
    'lease':    ('two', "an arrival ends with the lease of its session"),
    'replaced': ('three', "one without a connection does not count beside a later session of its place"),
    'settled':  ('all', "leases are looked at when an event is over: a HELLO ends one for a moment"),
    'kept':     ('two', "a release that finds its client away is kept for it"),
    'apart':    ('beside', "only a session of the same program replaces one"),
    'own':      ('all_of', "all workers are those of the program that waits"),
    'once':     ('forgets', "who had come before the directory forgot everything does not come again by himself"),
}

WORK, WAITS, DONE, TOLD, DEAD, OTHER = 'work waits done told dead other'.split()  # OTHER: of another program
OPEN, OK, ABORTED = 'open ok aborted'.split()
PLACE, CLIENT, CONN, LEASE, KNOWN, WAIT, ROUND, OWED = range(8)  # of a session; KNOWN: the directory has its record


def change(sessions, i, **fields):
    s = list(sessions[i])
    for name, value in fields.items():
        s[globals()[name.upper()]] = value
    return sessions[:i] + (tuple(s),) + sessions[i + 1:]


class Model:
    """state = (sessions, cuts left, kills left, leases left, restarts left, workers of another program to come)"""

    def __init__(self, scenario, off=()):
        self.places, self.count, self.rounds, *self.budget = SCENARIOS[scenario]
        self.off = off

    def start(self):
        return tuple((p, WORK, True, True, True, None, 0, False) for p in range(self.places)), *self.budget

    def replaced(self, sessions, i):
        later = any(o[PLACE] == sessions[i][PLACE] and o[LEASE] and (o[CLIENT] != OTHER or 'apart' in self.off) for o in sessions[i + 1:])
        return 'replaced' not in self.off and not sessions[i][CONN] and later

    def is_left_waiting(self, sessions):
        """All that the barrier is to wait for have come."""
        own = [s for s in sessions if s[CLIENT] != OTHER and s[LEASE]]
        if self.count > 0:
            came = [i for i, s in enumerate(sessions) if s[WAIT] == OPEN and s[LEASE]]
            newer = [i for i in came if any(o[CLIENT] != OTHER and o[PLACE] == sessions[i][PLACE] for o in sessions[i + 1:])]
            return len(came) - len(newer) >= self.count
        return bool(own) and all(s[WAIT] == OPEN for s in own)

    def look(self, sessions):
        """The sessions after a release, if there is one."""
        waits = [i for i, s in enumerate(sessions) if s[WAIT] == OPEN]
        if self.count > 0:
            counted = [i for i in waits if not self.replaced(sessions, i)]
            if len(counted) < self.count:
                if self.is_left_waiting(sessions):
                    raise Violation('all have come, and they wait')
                return sessions
            if {sessions[i][PLACE] for i in counted} != set(range(self.places)):
                raise Violation('released, and not each place has come')
            if not all(sessions[i][LEASE] for i in counted):
                raise Violation('one without a lease is counted')
        else:
            if not waits or any(s[LEASE] and s[WAIT] != OPEN and (s[CLIENT] != OTHER or 'own' in self.off) for s in sessions):
                if self.is_left_waiting(sessions):
                    raise Violation('all have come, and they wait')
                return sessions
            if any(s[CONN] and s[WAIT] != OPEN and s[CLIENT] != OTHER for s in sessions):
                raise Violation('released, and one that is connected has not come')
        for i in waits:
            kept = sessions[i][CONN] or 'kept' not in self.off
            sessions = change(sessions, i, wait=OK if kept else None, owed=True)
        return sessions

    def hello(self, sessions, i):
        s = sessions[i]
        if 'settled' in self.off and s[LEASE]:
            sessions = self.look(change(sessions, i, conn=True, lease=False))
        known, sessions = s[KNOWN], change(sessions, i, conn=True, lease=True, known=True)
        if s[CLIENT] == WAITS and not known and 'once' not in self.off:
            sessions = change(sessions, i, client=TOLD, owed=False)
        elif sessions[i][CLIENT] == WAITS and sessions[i][WAIT] is None:
            sessions = change(sessions, i, wait=OPEN)
        return self.look(sessions)

    def steps(self, state):
        return [(label, new[1:] != state[1:], new) for label, new in self.moves(state)]

    def quiet(self, state):
        return not any(s[CLIENT] == WAITS and s[OWED] for s in state[0])

    def moves(self, state):
        sessions, cuts, kills, leases, restarts, others = state
        rest = (cuts, kills, leases, restarts, others)
        for i, s in enumerate(sessions):
            name = 'session %d of place %d' % (i, s[PLACE])
            if s[CONN]:
                if s[CLIENT] == WORK:
                    yield name + ' comes', (self.look(change(sessions, i, client=WAITS, wait=OPEN)), *rest)
                elif s[CLIENT] == WAITS and s[WAIT] == OK:
                    ended = s[ROUND] + 1 == self.rounds
                    yield name + ' leaves', (change(sessions, i, client=DONE if ended else WORK, wait=None, round=s[ROUND] + 1,
                                                    owed=False), *rest)
                elif s[CLIENT] == WAITS and s[WAIT] == ABORTED:
                    yield name + ' is told', (change(sessions, i, client=TOLD, wait=None, owed=False), *rest)
                elif s[CLIENT] in (DONE, TOLD):
                    yield name + ' says GOODBYE', (self.look(change(sessions, i, conn=False, lease=False, wait=None)), *rest)
                if cuts > 0 and s[CLIENT] != OTHER:
                    yield name + ' is cut', (change(sessions, i, conn=False), cuts - 1, *rest[1:])
            elif s[CLIENT] in (WORK, WAITS):
                yield name + ' says HELLO', (self.hello(sessions, i), *rest)
            if not s[CONN] and s[LEASE] and (s[CLIENT] == DEAD or leases > 0):
                wait = ABORTED if s[WAIT] == OPEN and 'lease' not in self.off else s[WAIT]
                left = leases - (s[CLIENT] != DEAD)
                yield 'the lease of %s ends' % name, (self.look(change(sessions, i, lease=False, wait=wait)), cuts, kills, left, *rest[3:])
            if s[CLIENT] in (WORK, WAITS) and kills > 0:
                dead = change(sessions, i, client=DEAD, conn=False, owed=False)
                yield name + ' is killed', (dead, cuts, kills - 1, *rest[2:])
                new = dead + ((s[PLACE], WORK, True, True, True, None, s[ROUND], False),)
                yield name + ' is killed and started again', (self.look(new), cuts, kills - 1, *rest[2:])
        if restarts > 0:
            empty = sessions
            for i in range(len(sessions)):
                empty = change(empty, i, conn=False, lease=False, known=False, wait=None)
            yield 'the directory is restarted', (empty, *rest[:3], restarts - 1, others)
        if others > 0:
            came = sessions + ((0, OTHER, True, True, True, None, 0, False),)
            yield 'a worker of another program comes', (self.look(came), *rest[:4], others - 1)


if __name__ == '__main__':
    sys.exit(main(Model, SCENARIOS, MUTANTS))
