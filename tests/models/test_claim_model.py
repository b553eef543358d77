#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of two processes that are one trainer (psd/rpc/claim.c): which of them the directory lets in.
usage: test_claim_model.py [SCENARIO [RULE ...]]

Processes say HELLO for one and the same place: job, task and default container. Processes of different places do not see each other. Whoever is let in sends a beat in every tick; a beat arrives within two ticks, also one
of a process that has died since. In any interleaving processes are killed (the directory sees the end of the connection, sooner or
later), are lost with their machine (it never does), stand still and go on, lose their connection and come back; the directory stands
still, or does not read one of them for want of memory, and reads what came meanwhile when it goes on, or is restarted and has forgotten
everything.

Promised: no two of them are connected. Who beats is not displaced. A process is refused for good only where another one lived when it
first asked, or later. And nobody asks for ever: a process that lives comes in, unless another one is in."""
import sys

from explore import Violation, main

BEAT, LEASE, PAUSE, ASKED_MAX, DEAD_MAX = 2, 3, 2, 9, 10  # ticks; BEAT: the longest way of one
# scenario: processes; how many kills, losses of a machine, cuts, stops, pauses and restarts of the directory, connections that it stops reading
SCENARIOS = {
    'two':     (2, 1, 1, 1, 1, 0, 0, 0),
    'pause':   (2, 1, 1, 0, 0, 1, 0, 0),
    'forgets': (2, 1, 0, 1, 0, 0, 1, 0),
    'three':   (3, 1, 0, 0, 0, 0, 0, 0),
    'unread':  (2, 1, 1, 1, 0, 0, 0, 1),
}
# rule: (where it shows when it is left out, what it is)
MUTANTS = {
    'asks':   ('two', "one that is kept out is not refused for good before the holder was heard after it first asked"),
    'margin': ('two', "what was heard less than a beat after that may have been sent before"),
    'stood':  ('pause', "what the directory reads when it goes on shows nothing of the time when it stood still"),
    'read':   ('unread', "what it reads late of one connection shows nothing of the time when it did not read that"),
    'given':  ('unread', "who is not read is not displaced for its silence"),
    'silent': ('two', "only who was silent for a lease is displaced"),
    'lease':  ('two', "who was silent for a lease is displaced"),
    'closed': ('two', "the connection of one that is displaced is closed"),
    'back':   ('two', "one that was in, and comes back, is kept out as any other"),
}
NEW, ALIVE, STOPPED, DEAD, REFUSED = 'new alive stopped dead refused'.split()
NONE, OPEN, HALF, LOST = 'none open half lost'.split()  # at the directory; HALF: it will see the end; LOST: it will not
LIFE, CONN, HEARD, FLIGHT, ASKED, DIED, WAS_IN, STOOD, UNREAD, TURNED = range(10)
# HEARD: ticks since then, as the directory counts. FLIGHT: age of a beat on its way. ASKED: since the first CONFLICT. DIED: since then.
# STOOD: it has stood still since it was heard. UNREAD: the directory does not read it; TURNED: ticks since that began, or ended.


def change(processes, i, **fields):
    p = list(processes[i])
    for name, value in fields.items():
        p[globals()[name.upper()]] = value
    return processes[:i] + (tuple(p),) + processes[i + 1:]


class Model:
    """state = (processes, ticks since the directory went on, faults left of each kind)"""

    def __init__(self, scenario, off=()):
        self.count, *self.budget = SCENARIOS[scenario]
        self.off = off

    def start(self):
        return ((NEW, NONE, 0, None, None, None, False, False, False, ASKED_MAX),) * self.count, ASKED_MAX, tuple(self.budget)

    def quiet(self, state):
        wants = [p for p in state[0] if p[LIFE] in (ALIVE, STOPPED) and p[CONN] != OPEN]
        return not any(p[LIFE] == NEW for p in state[0]) and not wants

    def hello(self, processes, woke, i):
        me = processes[i]
        for k, p in enumerate(processes):
            if k == i or p[CONN] == NONE or ('back' in self.off and me[WAS_IN]):
                continue
            unread = p[UNREAD] and 'given' not in self.off
            if (p[HEARD] < LEASE or unread) and 'silent' not in self.off or 'lease' in self.off:
                asked = me[ASKED] if me[ASKED] is not None else 0
                seen = asked if 'stood' in self.off else min(asked, woke)
                seen = seen if 'read' in self.off else min(seen, p[TURNED])
                margin = 0 if 'margin' in self.off else BEAT
                if 'asks' in self.off or seen - margin > p[HEARD]:
                    if p[DIED] is not None and p[DIED] > asked:
                        raise Violation('refused for good, and the holder had died before')
                    return change(processes, i, life=REFUSED, conn=NONE)
                return change(processes, i, asked=asked)
            if p[LIFE] == ALIVE and p[CONN] == OPEN and not p[STOOD]:
                raise Violation('displaced, and it beats')
            if 'closed' not in self.off:
                processes = change(processes, k, conn=NONE, flight=None, unread=False, turned=ASKED_MAX)
        processes = change(processes, i, conn=OPEN, heard=0, flight=None, asked=None, was_in=True, stood=False, unread=False, turned=ASKED_MAX)
        if sum(p[CONN] != NONE for p in processes) > 1:
            raise Violation('two are connected')
        return processes

    def pass_time(self, processes, ticks, silent):
        """silent: the directory stands still, and counts no silence."""
        out = []
        for p in processes:
            p = list(p)
            p[ASKED] = None if p[ASKED] is None else min(p[ASKED] + ticks, ASKED_MAX)
            p[DIED] = None if p[DIED] is None else min(p[DIED] + ticks, DEAD_MAX)
            beats = p[LIFE] == ALIVE and p[CONN] == OPEN
            if not silent and p[CONN] != NONE:
                if p[FLIGHT] is not None and not p[UNREAD] and (beats or p[FLIGHT] + ticks > BEAT):
                    p[HEARD], p[FLIGHT], p[STOOD] = 0, None, p[LIFE] == STOPPED
                p[HEARD] = min(p[HEARD] + ticks, ASKED_MAX if p[UNREAD] else LEASE)
                p[TURNED] = min(p[TURNED] + ticks, ASKED_MAX)
                p[FLIGHT] = None if p[FLIGHT] is None else min(p[FLIGHT] + ticks, BEAT + 1)
            p[FLIGHT] = 0 if beats else p[FLIGHT]
            out.append(tuple(p))
        return tuple(out)

    def steps(self, state):
        return [(label, new[2] != state[2], new) for label, new in self.moves(state)]

    def moves(self, state):
        processes, woke, left = state
        kills, machines, cuts, stops, pauses, restarts, unreads = left

        def spent(kind):
            return left[:kind] + (left[kind] - 1,) + left[kind + 1:]
        yield 'a tick', (self.pass_time(processes, 1, False), min(woke + 1, ASKED_MAX), left)
        for i, p in enumerate(processes):
            name = 'process %d' % i
            if p[LIFE] == NEW or p[LIFE] == ALIVE and p[CONN] == NONE:
                yield name + ' says HELLO', (self.hello(change(processes, i, life=ALIVE), woke, i), woke, left)
            if p[FLIGHT] is not None and p[CONN] != NONE and not p[UNREAD]:
                yield 'a beat of %s arrives' % name, (change(processes, i, flight=None, heard=0, stood=p[LIFE] == STOPPED), woke, left)
            if p[UNREAD]:
                yield name + ' is read again', (change(processes, i, unread=False, turned=0, heard=0), woke, left)
            elif p[CONN] != NONE and unreads:
                yield name + ' is not read', (change(processes, i, unread=True, turned=0, heard=0), woke, spent(6))
            if p[CONN] == HALF and not p[UNREAD]:
                yield 'the end of the connection of %s is seen' % name, (change(processes, i, conn=NONE, flight=None), woke, left)
            if p[LIFE] == STOPPED:
                yield name + ' goes on', (change(processes, i, life=ALIVE, conn=OPEN if p[CONN] != NONE else NONE), woke, left)
            if p[LIFE] in (ALIVE, STOPPED) and kills:
                conn = HALF if p[CONN] != NONE else NONE
                yield name + ' is killed', (change(processes, i, life=DEAD, conn=conn, died=0, asked=None), woke, spent(0))
            if p[LIFE] in (ALIVE, STOPPED) and machines:
                conn = LOST if p[CONN] != NONE else NONE
                yield 'the machine of %s is lost' % name, (change(processes, i, life=DEAD, conn=conn, died=0, asked=None), woke, spent(1))
            if p[LIFE] == ALIVE and p[CONN] == OPEN and cuts:
                yield name + ' is cut', (change(processes, i, conn=NONE, flight=None, unread=False, turned=ASKED_MAX), woke, spent(2))
            if p[LIFE] == ALIVE and p[CONN] == OPEN and stops:
                yield name + ' stands still', (change(processes, i, life=STOPPED, stood=True), woke, spent(3))
        if pauses:
            yield 'the directory stands still', (self.pass_time(processes, PAUSE, True), 0, spent(4))
        if restarts:
            empty = processes
            for i, p in enumerate(processes):
                empty = change(empty, i, conn=NONE, heard=0, flight=None, unread=False, turned=ASKED_MAX)
            yield 'the directory is restarted', (empty, woke, spent(5))


if __name__ == '__main__':
    sys.exit(main(Model, SCENARIOS, MUTANTS))
