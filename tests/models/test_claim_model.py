#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of two processes that are one trainer (psd/session/claim.c): which of them the directory lets in.
usage: test_claim_model.py [SCENARIO [RULE ...]]

Processes say HELLO for one and the same place: job, task and default container. Processes of different places do not see each other.
Whoever is let in sends a beat in every tick. The beat of a process that lives arrives by the next tick. The last beat of a process that
has died, or stands still, arrives at any time later, or never. The directory makes a number for each session that it keeps out. The
answers to the holder's beats carry the newest number, and the holder's next beats bring it back. A number that is brought back proves
that the holder lived after all the numbers up to it were made. So a pair (holder, rival) is all that the model knows of a number: made,
told to the holder, on its way back in a beat, proved.

In any interleaving processes are killed (the directory sees the end of the connection, sooner or later), are killed and started again
with the same name, are lost with their machine (the directory never sees the end), stand still and go on, lose their connection and
come back; the directory stands still, or does not read one of them for want of memory, and reads what came meanwhile when it goes on, or
is restarted and has forgotten everything. An older client never brings a number back.

Promised: no two of them are connected. Who beats is not displaced. A session is refused for good only where another process lived when
that session first asked, or later, however late the network delivers. And nobody asks for ever: a process that lives comes in, unless
another one is in. Only beside an older client, which proves nothing, does the other one ask until its own deadline."""
import sys

from explore import Violation, main

LEASE, PAUSE, LONG = 3, 2, 9  # ticks
# scenario: processes; how many kills, losses of a machine, cuts, stops, pauses and restarts of the directory, connections that it stops
# reading, processes that are started again with the same name
SCENARIOS = {
    'two':     (2, 1, 1, 1, 1, 0, 0, 0, 0),
    'pause':   (2, 1, 1, 0, 0, 1, 0, 0, 0),
    'forgets': (2, 1, 0, 1, 0, 0, 1, 0, 0),
    'three':   (3, 1, 0, 0, 0, 0, 0, 0, 0),
    'unread':  (2, 1, 1, 1, 0, 0, 0, 1, 0),
    'again':   (2, 1, 1, 0, 0, 0, 0, 0, 1),
    'older':   (2, 1, 1, 1, 1, 0, 0, 0, 0),
}
# rule: (where it shows when it is left out, what it is)
MUTANTS = {
    'asks':    ('two', "one that is kept out is not refused for good before the holder has proved that it lives"),
    'number':  ('two', "only a beat that brings the number back proves it: another one may have been sent before"),
    'anew':    ('three', "each session that is kept out has a number of its own, made when it first asked"),
    'session': ('again', "a number belongs to a session: a process of the same name that is started again has another one"),
    'over':    ('two', "when a session is let in its number is forgotten"),
    'given':   ('unread', "who is not read is not displaced for its silence"),
    'silent':  ('two', "only who was silent for a lease is displaced"),
    'lease':   ('two', "who was silent for a lease is displaced"),
    'closed':  ('two', "the connection of one that is displaced is closed"),
    'back':    ('two', "one that was in, and comes back, is kept out as any other"),
}
NEW, ALIVE, STOPPED, DEAD, REFUSED = 'new alive stopped dead refused'.split()
NONE, OPEN, HALF, LOST = 'none open half lost'.split()  # at the directory; HALF: it will see the end; LOST: it will not
LIFE, CONN, HEARD, FLIGHT, WAS_IN, STOOD, UNREAD, MADE, TOLD, PROVED, ASKED = range(11)
# HEARD: ticks since then, as the directory counts. FLIGHT: a beat on its way, as the set of rivals whose numbers it brings back.
# STOOD: it has stood still since it was heard. UNREAD: the directory does not read it. MADE, TOLD, PROVED, of a holder: sets of rivals.
# ASKED: who was dead when this session first asked; None: it has not been kept out.
NOBODY = frozenset()
AWAY = {'conn': NONE, 'heard': 0, 'flight': None, 'unread': False, 'told': NOBODY}


def change(processes, i, **fields):
    p = list(processes[i])
    for name, value in fields.items():
        p[globals()[name.upper()]] = value
    return processes[:i] + (tuple(p),) + processes[i + 1:]


class Model:
    """state = (processes, faults left of each kind)"""

    def __init__(self, scenario, off=()):
        self.count, *self.budget = SCENARIOS[scenario]
        self.older = (0,) if scenario == 'older' else ()
        self.off = off

    def start(self):
        return ((NEW, NONE, 0, None, False, False, False, NOBODY, NOBODY, NOBODY, None),) * self.count, tuple(self.budget)

    def quiet(self, state):
        processes = state[0]
        beside = any(processes[k][LIFE] == ALIVE and processes[k][CONN] == OPEN for k in self.older)
        wants = [p for p in processes if p[LIFE] in (ALIVE, STOPPED) and p[CONN] != OPEN]
        return not any(p[LIFE] == NEW for p in processes) and (not wants or beside)

    def hello(self, processes, i):
        for k, p in enumerate(processes):
            if k == i or p[CONN] == NONE or ('back' in self.off and processes[i][WAS_IN]):
                continue
            unread = p[UNREAD] and 'given' not in self.off
            if (p[HEARD] < LEASE or unread) and 'silent' not in self.off or 'lease' in self.off:
                return self.keep_out(processes, i, k)
            if p[LIFE] == ALIVE and p[CONN] == OPEN and not p[STOOD]:
                raise Violation('displaced, and it beats')
            if 'closed' not in self.off:
                processes = change(processes, k, **AWAY)
        if 'over' not in self.off:
            processes = self.forget(processes, i)
        processes = change(processes, i, conn=OPEN, heard=0, flight=None, was_in=True, stood=False, unread=False, asked=None)
        if sum(p[CONN] != NONE for p in processes) > 1:
            raise Violation('two are connected')
        return processes

    def keep_out(self, processes, i, k):
        if processes[i][ASKED] is None:
            processes = change(processes, i, asked=frozenset(j for j, p in enumerate(processes) if p[LIFE] == DEAD))
        holder = processes[k]
        proved = i in holder[PROVED] or 'anew' in self.off and holder[PROVED]
        if proved or 'asks' in self.off:
            if k in processes[i][ASKED]:
                raise Violation('refused for good, and the holder had died before')
            return change(processes, i, life=REFUSED, conn=NONE)
        return change(processes, k, made=holder[MADE] | {i})

    def arrive(self, processes, k):
        p = processes[k]
        brought = p[MADE] if 'number' in self.off else p[FLIGHT]
        return change(processes, k, flight=None, heard=0, stood=p[LIFE] == STOPPED, proved=p[PROVED] | brought)

    def forget(self, processes, i):
        """The numbers that were made for the session of i mean nothing any more."""
        for k, p in enumerate(processes):
            flight = None if p[FLIGHT] is None else p[FLIGHT] - {i}
            processes = change(processes, k, made=p[MADE] - {i}, told=p[TOLD] - {i}, proved=p[PROVED] - {i}, flight=flight)
        return processes

    def pass_time(self, processes, ticks, silent):
        """silent: the directory stands still, and counts no silence."""
        for i, p in enumerate(processes):
            beats = p[LIFE] == ALIVE and p[CONN] == OPEN
            if not silent and p[CONN] != NONE:
                if p[FLIGHT] is not None and not p[UNREAD] and beats:
                    processes = self.arrive(processes, i)
                heard = processes[i][HEARD] + ticks
                processes = change(processes, i, heard=min(heard, LONG if p[UNREAD] else LEASE))
            if beats and processes[i][FLIGHT] is None:
                processes = change(processes, i, flight=processes[i][TOLD])
        return processes

    def steps(self, state):
        return [(label, new[1] != state[1], new) for label, new in self.moves(state)]

    def moves(self, state):
        processes, left = state
        kills, machines, cuts, stops, pauses, restarts, unreads, agains = left

        def spent(kind):
            return left[:kind] + (left[kind] - 1,) + left[kind + 1:]
        yield 'a tick', (self.pass_time(processes, 1, False), left)
        for i, p in enumerate(processes):
            name = 'process %d' % i
            if p[LIFE] == NEW or p[LIFE] == ALIVE and p[CONN] == NONE:
                yield name + ' says HELLO', (self.hello(change(processes, i, life=ALIVE), i), left)
            if p[FLIGHT] is not None and p[CONN] != NONE and not p[UNREAD]:
                yield 'a beat of %s arrives' % name, (self.arrive(processes, i), left)
            if p[LIFE] == ALIVE and p[CONN] == OPEN and p[TOLD] != p[MADE] and i not in self.older:
                yield name + ' is told the newest number', (change(processes, i, told=p[MADE]), left)
            if p[UNREAD]:
                yield name + ' is read again', (change(processes, i, unread=False, heard=0), left)
            elif p[CONN] != NONE and unreads:
                yield name + ' is not read', (change(processes, i, unread=True, heard=0), spent(6))
            if p[CONN] == HALF and not p[UNREAD]:
                yield 'the end of the connection of %s is seen' % name, (change(processes, i, **AWAY), left)
            if p[LIFE] == STOPPED:
                yield name + ' goes on', (change(processes, i, life=ALIVE, conn=OPEN if p[CONN] != NONE else NONE), left)
            if p[LIFE] in (ALIVE, STOPPED) and kills:
                conn = HALF if p[CONN] != NONE else NONE
                yield name + ' is killed', (change(processes, i, life=DEAD, conn=conn), spent(0))
            if p[LIFE] in (ALIVE, STOPPED) and machines:
                conn = LOST if p[CONN] != NONE else NONE
                yield 'the machine of %s is lost' % name, (change(processes, i, life=DEAD, conn=conn), spent(1))
            if p[LIFE] == ALIVE and p[CONN] == NONE and p[ASKED] is not None and agains:
                again = processes if 'session' in self.off else self.forget(processes, i)
                again = change(again, i, life=NEW, asked=None, was_in=False, made=NOBODY, told=NOBODY, proved=NOBODY)
                yield name + ' is killed and started again', (again, spent(7))
            if p[LIFE] == ALIVE and p[CONN] == OPEN and cuts:
                yield name + ' is cut', (change(processes, i, **AWAY), spent(2))
            if p[LIFE] == ALIVE and p[CONN] == OPEN and stops:
                yield name + ' stands still', (change(processes, i, life=STOPPED, stood=True), spent(3))
        if pauses:
            yield 'the directory stands still', (self.pass_time(processes, PAUSE, True), spent(4))
        if restarts:
            empty = processes
            for i in range(self.count):
                empty = change(empty, i, **AWAY, made=NOBODY, proved=NOBODY)
            yield 'the directory is restarted', (empty, spent(5))


if __name__ == '__main__':
    sys.exit(main(Model, SCENARIOS, MUTANTS))
