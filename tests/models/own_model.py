#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of the container of a session (docs/PROTOCOL.md, `session/`): explored before it was written in C.
usage: own_model.py                       all scenarios, then all weaker rules
       own_model.py SCENARIO [RULE ...]   one run, prints the way to what is wrong

A session says HELLO to the directory, which claims its container, and creates a variable on a task. It ends: by GOODBYE, or it dies
and its lease passes. A last CREATE of it may still be on its way. The directory resets the container of a session that has ended on
the tasks that are connected, and waits for no other. The link between directory and task may break, the task and the directory may
be started again; a directory that was started knows of no session before each has said HELLO again, which one that lives does
within a lease and a grace. (That a CREATE of a session that has ended is refused is for its text: taken, it would be reset as well.)

Promised: nothing of a session that lives is reset, and when a session has ended nothing of it stays, wherever it was."""
import sys

from explore import Violation, main

LINK, TASK, DIRECTORY = range(3)
SCENARIOS = {
    'link':      dict(faults=(2, 0, 0)),
    'task':      dict(faults=(1, 2, 0)),
    'directory': dict(faults=(1, 0, 2)),
    'all':       dict(faults=(1, 1, 1)),
}
MUTANTS = {
    'no_grace':   ('directory', "a directory that was started resets at once what no session has claimed yet"),
    'unclaimed':  ('directory', "what a task lists after a start of the directory stays when no session claims it"),
    'once':       ('link', "a task that was away at the reset keeps what it lists later"),
    'waits':      ('task', "a reset waits for a task that dropped out as well, and forgets its names only then"),
}

# session: 'L' lives, 'E' has ended; sent: a CREATE that has not arrived; acked: the session knows of its variable
# directory: claim: 'N' not claimed since the directory was started, 'C' claimed, 'G' over; names: 0 none, 1 asked for, 2 known;
#   reset: it is pending; done: the container has been reset since the session ended
# task: has the variable; up: connected, and has listed; orders: on their way to it


class Model:
    def __init__(self, scenario, off=()):
        self.faults, self.off = SCENARIOS[scenario]['faults'], frozenset(off)

    def start(self):
        return ('L', 'N', 0, False, False, False, True, (), False, 1, self.faults)

    def quiet(self, key):
        session, claim, names, reset, _, has, up, orders, _, sent, _ = key
        if session == 'E':
            return not (names or reset or has or orders or sent)
        return claim == 'C' and up and not orders

    def steps(self, key):
        out = []
        session, claim, names, reset, done, has, up, orders, acked, sent, left = key

        def go(label, fault=None, **new):
            spent = left if fault is None else left[:fault] + (left[fault] - 1,) + left[fault + 1:]
            state = dict(zip(('session', 'claim', 'names', 'reset', 'done', 'has', 'up', 'orders', 'acked', 'sent'), key))
            state.update(new)
            out.append((label, fault is not None, tuple(state.values()) + (spent,)))

        if session == 'L' and claim == 'N':
            go('HELLO', claim='C')
        if session == 'L' and claim == 'C':
            go('the session ends', session='E')
        if session == 'E' and claim == 'C':
            go('GOODBYE, or its lease is over', claim='G')
        if claim == 'N' and (session == 'E' or 'no_grace' in self.off) and 'unclaimed' not in self.off:
            go('lease and grace are over', claim='G')
        if sent and claim == 'C' and up and not reset:
            go('CREATE', names=names or 1, orders=orders + ('create',), sent=0)
        elif sent and session == 'E':
            go('CREATE is refused', sent=0)
        if not sent and session == 'L' and not names:
            go('the session creates again', sent=1, acked=False)
        if claim == 'G' and names and not reset and not ('once' in self.off and done):
            if session == 'L' and acked:
                raise Violation('the variable of a session that lives is reset')
            if up:
                go('reset', reset=True, orders=orders + ('reset',))
            elif 'waits' in self.off:
                go('reset', reset=True)
            else:
                go('reset, nobody is connected', names=0, done=True)
        if up and orders:
            rest = orders[1:]
            if orders[0] == 'create':
                go('the task creates', has=True, names=2 if names else 0, orders=rest, acked=session == 'L')
            else:
                go('the task has reset', has=False, names=0, reset=False, orders=rest, done=True)
        if not up:
            known = 2 if has else 0 if names == 2 else names
            known = names if 'waits' in self.off and reset else known
            go('the task lists', up=True, names=known)
        if left[LINK] and up:
            go('the link breaks', LINK, up=False, orders=(), **self.dropped(names, reset, done))
        if left[TASK]:
            go('the task is started again', TASK, up=False, orders=(), has=False, acked=False, **self.dropped(names, reset, done))
        if left[DIRECTORY]:
            go('the directory is started again', DIRECTORY, claim='N', names=0, reset=False, up=False, orders=())
        return out

    def dropped(self, names, reset, done):
        if not reset or 'waits' in self.off:
            return {}
        return dict(names=0, reset=False, done=True)


if __name__ == '__main__':
    sys.exit(main(Model, SCENARIOS, MUTANTS))
