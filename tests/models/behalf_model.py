#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of what a task does for a client (docs/PROTOCOL.md section 3, MAY): runs of plans that read or change a
variable of another task.

Two clients send runs to an executor.  A run's rows touch a variable of another task, the owner; the executor's session carries
that out, and the session may everything.  The owner's table of rights says which client may, and is replaced at any time; the
executor's own table may be older or newer.  The executor asks the owner for each run, in the name of the identity that its task
knows the client's connection by, and transfers only after a yes.  A run of a client ends before its next one begins.

What must hold: a transfer is carried out only where the client had the right at some moment since its run began; an answer goes
to nobody but members; whoever has the right all the time is not refused."""
from explore import Violation

CLIENTS = 2
# runs of each client, replacements of the owner's table, of the executor's, clients that ask themselves
SCENARIOS = {
    'reload': ((2, 1), 2, 0, 0),
    'tables': ((1, 1), 1, 2, 0),
    'nosy':   ((1, 1), 1, 0, 1),
}
MUTANTS = {
    'no_ask':      ('reload', 'the executor does not ask'),
    'claimed':     ('reload', 'the client says who it is'),
    'kept':        ('reload', 'an answer is kept for the next run of the client'),
    'shared':      ('reload', 'an answer is kept for the variable'),
    'late':        ('reload', 'the executor asks when the transfer is over'),
    'own_table':   ('tables', 'the executor looks into the table of its own task'),
    'anybody':     ('nosy', 'whoever asks is answered'),
    'denies':      ('reload', 'the answer is about the executor, which has a row of its own only'),
}
IDLE, CALLED, ASKED, YES, SENT = 'icays'


class Model:
    """States are tuples: (owner's table, executor's table, budgets, runs, kept answers).
    a table: the clients that have the right;  kept: the clients for which a yes is kept, None of all
    runs: of each client (runs left, stage, had the right at some moment since it began, all the time since it began)"""

    def __init__(self, scenario, rules=()):
        self.runs, self.reloads, self.own, self.nosy = SCENARIOS[scenario]
        self.rules = frozenset(rules)

    def start(self):
        return (frozenset({0}), frozenset({0}), (self.reloads, self.own, self.nosy),
                tuple((n, IDLE, False, False) for n in self.runs), frozenset())

    def quiet(self, state):
        return all(left == 0 and stage == IDLE for left, stage, _, _ in state[3])

    def carried(self, run, who):
        if not run[2]:
            raise Violation('a transfer for client %d, which had no right since its run began' % who)

    def ended(self, run, who, refused):
        if refused and run[3]:
            raise Violation('client %d is refused, and has the right all the time' % who)
        return (run[0], IDLE, False, False)

    def steps(self, state):
        table, own, (reloads, owns, nosy), runs, kept = state
        found = []

        def now(who, run, more_kept=kept):
            rest = tuple(run if i == who else r for i, r in enumerate(runs))
            return (table, own, (reloads, owns, nosy), rest, more_kept)
        for who, run in enumerate(runs):
            left, stage, ever, always = run
            has = who in table
            if stage == IDLE and left > 0:
                found.append(('client %d calls' % who, 0, now(who, (left - 1, CALLED, has, has))))
            elif stage == CALLED:
                known = ('no_ask' in self.rules or 'late' in self.rules or who in kept and 'kept' in self.rules or
                         None in kept and 'shared' in self.rules)
                if 'own_table' in self.rules:
                    new = (left, SENT, ever, always) if who in own else self.ended(run, who, True)
                    found.append(('the executor looks for client %d' % who, 0, now(who, new)))
                else:
                    found.append(('the executor asks for client %d' % who, 0,
                                  now(who, (left, SENT if known else ASKED, ever, always))))
            elif stage == ASKED:
                asked = 0 if 'claimed' in self.rules else who
                yes = asked in table and 'denies' not in self.rules
                if yes:
                    found.append(('yes for client %d' % who, 0, now(who, (left, YES, ever, always), kept | {who, None} if
                                                                   self.rules & {'kept', 'shared'} else kept)))
                else:
                    found.append(('no for client %d' % who, 0, now(who, self.ended(run, who, True))))
            elif stage == YES:
                found.append(('the executor transfers for client %d' % who, 0, now(who, (left, SENT, ever, always))))
            elif stage == SENT:
                self.carried(run, who)
                found.append(('the owner carries it out for client %d' % who, 0, now(who, self.ended(run, who, False))))
        if reloads:
            for who in range(CLIENTS):
                new = table ^ {who}
                later = tuple((l, s, e or i in new, a and i in new) if s != IDLE else (l, s, e, a)
                              for i, (l, s, e, a) in enumerate(runs))
                found.append(('the owner has another table: %r' % sorted(new), 1, (new, own, (reloads - 1, owns, nosy), later, kept)))
        if owns:
            for who in range(CLIENTS):
                found.append(('the executor has another table', 1, (table, own ^ {who}, (reloads, owns - 1, nosy), runs, kept)))
        if nosy:
            if 'anybody' in self.rules:
                raise Violation('client 1, which is no member, hears what client 0 may')
            found.append(('client 1 asks what client 0 may, and is refused', 1, (table, own, (reloads, owns, nosy - 1), runs, kept)))
        return found
