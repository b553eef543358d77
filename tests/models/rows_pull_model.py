#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of a push of rows whose new values come back (docs/PROTOCOL.md, PUSHPULL_ROWS): explored before it was written in C.
usage: rows_pull_model.py                       all scenarios, then all weaker rules
       rows_pull_model.py SCENARIO [RULE ...]   one run, prints the way to what is wrong

One session pushes `segments` segments of rows, each in a frame of its own. The task applies a segment and sends a VALUE frame with the new values of
its rows; of a variable whose pushes are staged, all values behind the last segment. The task may be without memory for a VALUE frame, and sends
none. The reply to LAST follows. A connection may break at any moment, and both directions lose what is on its way; HELLO says where the push
stands. Another session pushes to the same rows at any moment. Values that have not come when the push has its outcome are gathered.

Promised: the push is applied to each row once. When the request ends, the session has a value of each row, each with the push in it."""
import sys

from explore import Violation, main

SCENARIOS = {
    'three':  dict(segments=3, cuts=2, dry=0, others=1, staged=False),
    'dry':    dict(segments=3, cuts=1, dry=2, others=1, staged=False),
    'staged': dict(segments=2, cuts=2, dry=1, others=1, staged=True),
}
MUTANTS = {
    'gap_jumped':       ('dry', "values behind a gap count as all values up to them"),
    'nothing_gathered': ('three', "the request ends with the reply, whatever values have come"),
    'gathered_early':   ('three', "missing values are gathered after a reconnect, before the push has gone on"),
    'value_first':      ('three', "a VALUE frame is copied before its segment is applied"),
    'value_is_outcome': ('three', "the last VALUE frame ends the request, and a reconnect begins the push anew"),
    'resumed_at_value': ('three', "a push goes on behind the last value that came, not where the task stands"),
    'applied_again':    ('three', "a push goes on behind the last value that came, and the task applies what comes twice, to send its values"),
    'staged_early':     ('staged', "values of a staged segment are sent when it comes"),
}
PUSHES, GATHERS, ENDED = 'pge'

# key: client: (phase, next segment, first segment without value, values), task: (segments taken, applied to each, of others to each),
# on its way to the task, to the client; budgets: cuts, VALUE frames without memory, pushes of others
# a value: (how often the push is in it, how often the other)


class Model:
    def __init__(self, scenario, off=()):
        self.__dict__.update(SCENARIOS[scenario])
        self.off = frozenset(off)

    def start(self):
        none = (0,) * self.segments
        return (PUSHES, 0, 0, (None,) * self.segments), (0, none, none), (), (), (self.cuts, self.dry, self.others)

    @staticmethod
    def put(at, i, v):
        return at[:i] + (v,) + at[i + 1:]

    def took(self, task, up, down, budget):
        """The task takes the oldest frame: (label, a fault, task, down, budget) of each way in which it may."""
        done, mine, other = task
        kind, i = up[0]
        if kind == 'G':
            return [('the task answers a gather from segment %d on' % i, False, task,
                     down + (('V', i, tuple(zip(mine[i:], other[i:])), True),), budget)]
        if i != done and not ('applied_again' in self.off and i < done):
            return [('the task closes the connection: segment %d comes, it stands at %d' % (i, done), False, None, (), budget)]
        last = i == self.segments - 1
        before = mine
        if not self.staged:
            mine = self.put(mine, i, mine[i] + 1)
        elif last:
            mine = tuple(n + 1 for n in mine)
        done = max(done, i + 1)
        shown = before if 'value_first' in self.off else mine
        ranges = [i] if not self.staged or 'staged_early' in self.off else list(range(self.segments)) if last else []
        frames = tuple(('V', k, ((shown[k], other[k]),), False) for k in ranges)
        reply = (('R',),) if last else ()
        ways = [('the task takes segment %d' % i, False, (done, mine, other), down + frames + reply, budget)]
        if ranges and budget[1] > 0:
            ways.append(('the task takes segment %d, and has no memory for its values' % i, True, (done, mine, other),
                         down + frames[1:] + reply, self.put(budget, 1, budget[1] - 1)))
        return ways

    def outcome(self, client):
        """The push is applied; -> (client, frames that it sends)."""
        _, sent, came, values = client
        if came == self.segments or 'nothing_gathered' in self.off:
            return (ENDED, sent, came, values), ()
        return (GATHERS, sent, came, values), (('G', came),)

    def heard(self, client, frame):
        phase, sent, came, values = client
        if frame[0] == 'R':
            return self.outcome(client) if phase == PUSHES else (client, ())
        _, first, got, gathered = frame
        values = values[:first] + got + values[first + len(got):]
        if first == came or ('gap_jumped' in self.off and first > came):
            came = first + len(got)
        ends = gathered and phase == GATHERS or ('value_is_outcome' in self.off and came == self.segments)
        return ((ENDED if ends else phase), sent, came, values), ()

    def reconnected(self, client, task):
        phase, sent, came, values = client
        if phase == GATHERS:
            return client, (('G', came),)
        if phase == ENDED:
            return client, ()
        if task[0] == self.segments and 'value_is_outcome' not in self.off:
            return self.outcome(client)
        if 'gathered_early' in self.off and task[0] < self.segments:
            return (phase, task[0], came, values), (('G', came),)
        at = came if self.off & {'resumed_at_value', 'applied_again'} else task[0]
        return (phase, 0 if at == self.segments else at, came, values), ()

    def steps(self, key):
        client, task, up, down, budget = key
        phase, sent, came, values = client
        out = []
        if phase == PUSHES and sent < self.segments:
            out.append(('segment %d is sent' % sent, False, ((phase, sent + 1, came, values), task, up + (('S', sent),), down, budget)))
        if up:
            for label, fault, new_task, new_down, left in self.took(task, up, down, budget):
                if new_task is None:
                    again, asks = self.reconnected(client, task)
                    out.append((label, fault, (again, task, asks, (), left)))
                else:
                    out.append((label, fault, (client, new_task, up[1:], new_down, left)))
        if down:
            new, asks = self.heard(client, down[0])
            out.append(('the session reads %s' % str(down[0][:2]), False, (new, task, up + asks, down[1:], budget)))
        if budget[0] > 0:
            again, asks = self.reconnected(client, task)
            out.append(('the connection breaks', True, (again, task, asks, (), self.put(budget, 0, budget[0] - 1))))
        if budget[2] > 0:
            for i in range(self.segments):
                other = self.put(task[2], i, task[2][i] + 1)
                out.append(('another session pushes to segment %d' % i, True,
                            (client, (task[0], task[1], other), up, down, self.put(budget, 2, budget[2] - 1))))
        for label, _, new in out:
            self.check(label, new)
        return out

    def check(self, label, key):
        client, task, _, _, _ = key
        if max(task[1]) > 1:
            raise Violation('a row has the push twice: %s' % str(task[1]), label)
        if client[0] == ENDED:
            if any(v is None for v in client[3]):
                raise Violation('the request has ended without values of all rows: %s' % str(client[3]), label)
            if any(v[0] != 1 for v in client[3]):
                raise Violation('a value is without the push: %s' % str(client[3]), label)

    def quiet(self, key):
        return key[0][0] == ENDED and not key[2] and not key[3]


if __name__ == "__main__":
    sys.exit(main(Model, SCENARIOS, MUTANTS))
