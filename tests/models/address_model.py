#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of addresses that are not known before a task starts (docs/PROTOCOL.md, ADDRESSES): explored before it was
written in C.
usage: address_model.py                       all scenarios, then all weaker rules
       address_model.py SCENARIO [RULE ...]   one run, prints the way to what is wrong

A task listens at whatever port is free. It says its address in HELLO to the directory, which keeps address and life of each task and
numbers each change. A client dials the task at the address that it last heard. The system may have given the port to another process:
to another task of the cluster, or to a task of another cluster with the same name and number. The client sends its request only
after the answer to its HELLO. It learns addresses from the directory alone: by a HELLO of its own, and by asking for what is newer than
the version that it knows, after a dial that failed and when the answer to a beat has another version. An answer may be on its way while
the address changes again; frames of a connection stay in order and are lost with it.

Promised: a request reaches only the process that the client meant, a process that is the task at the time. When nothing fails any
more, the client reaches the task."""
import sys

from explore import Violation, main

TASK, DIRECTORY, LINK = range(3)
SCENARIOS = {
    'moves':     dict(faults=(2, 0, 0), foreign='task'),
    'cluster':   dict(faults=(2, 0, 0), foreign='cluster'),
    'directory': dict(faults=(1, 2, 0), foreign='cluster'),
    'links':     dict(faults=(2, 0, 2), foreign='task'),
    'all':       dict(faults=(1, 1, 1), foreign='cluster'),
}
MUTANTS = {
    'no_task':    ('moves', "the client does not look which task answers its HELLO"),
    'no_life':    ('cluster', "the client does not look which life answers its HELLO"),
    'early':      ('cluster', "the client sends its request with HELLO"),
    'final':      ('moves', "another task that answers at the address is final, as with an address of the spec"),
    'once':       ('moves', "a dial that failed does not ask again, and beats say no version"),
    'no_version': ('links', "the client takes what it knows for complete after a part of an answer"),
    'kept':       ('directory', "the client keeps the version of an earlier life of the directory"),
    'forgets':    ('directory', "an address that a directory does not know takes the place of one that is known, and is final"),
}

# task: its life 1..3; each life is at a port of its own, (life - 1) % 2, so that ports come again; listed: the directory has this life
# other: the port of the foreign process, None: there is none
# directory: its life; has: (life of the task, version) or None
# client: knows (life, port) or None; at: (directory life, version); dial: None, or (port, life meant); ask: answers on their way, each
#   (directory life, life of the task or 0, version), of which the last has come whole; sent: the request was answered
F = ('life', 'listed', 'other', 'directory', 'has', 'knows', 'at', 'dial', 'ask', 'sent')


class Model:
    def __init__(self, scenario, off=()):
        one = SCENARIOS[scenario]
        self.faults, self.foreign, self.off = one['faults'], one['foreign'], frozenset(off)

    def start(self):
        return (1, False, None, 1, None, None, (0, 0), None, None, False, self.faults)

    def quiet(self, key):
        return key[F.index('sent')]

    @staticmethod
    def port(life):
        return (life - 1) % 2

    def steps(self, key):
        out = []
        life, listed, other, directory, has, knows, at, dial, ask, sent, left = key

        def go(label, fault=None, **new):
            spent = left if fault is None else left[:fault] + (left[fault] - 1,) + left[fault + 1:]
            state = dict(zip(F, key))
            state.update(new)
            out.append((label, fault is not None, tuple(state[f] for f in F) + (spent,)))

        version = has[1] if has else 0
        if not listed:
            go('the task says HELLO at the directory', listed=True, has=(life, version + 1))
        if sent or knows == 'never':
            return out

        def answer():
            since = at[1] if at[0] == directory or 'kept' in self.off else 0
            newer = has is not None and has[1] > since
            return directory, has[0] if newer else 0, version

        if ask is None and at[0] != directory:
            go('HELLO at the directory is answered', ask=answer())
        elif ask is None and 'once' not in self.off and version > at[1]:
            go('a beat says another version, which is asked for', ask=answer())
        if ask is not None:
            said, told, number = ask
            new = dict(ask=None, at=(said, number))
            if told:
                new.update(knows=(told, self.port(told)))
            elif 'forgets' in self.off and number == 0 and knows is not None:
                new.update(knows='never')
            go('the answer comes', **new)
            if left[LINK]:
                lost = dict(at=(said, number)) if 'no_version' in self.off else {}
                go('the connection breaks before the whole answer has come', LINK, ask=None, **lost)
        if knows is not None and dial is None:
            go('the client dials', dial=(knows[1], knows[0]))
        if dial is not None:
            self.reach(go, dial, life, other, answer, ask, at)
        if left[TASK]:
            new = life + 1
            for there in {None, self.port(life)}:
                held = there if there != self.port(new) else None
                go('the task comes back at port %d, port %s is %s' % (self.port(new), there, self.foreign if held is not None else 'free'),
                   TASK, life=new, listed=False, other=held)
        if left[DIRECTORY]:
            go('the directory is started again', DIRECTORY, directory=directory + 1, has=None, listed=False, ask=None)
        return out

    def reach(self, go, dial, life, other, answer, ask, at):
        """What a dial meets: the task, the foreign process, or nothing."""
        port, meant = dial
        again = dict(dial=None) if 'once' in self.off or ask is not None else dict(dial=None, ask=answer())
        if port == self.port(life):
            if meant != life and 'no_life' not in self.off:
                go('another life of the task answers: asks again', **again)
            else:
                go('the task answers HELLO, and gets the request', dial=None, sent=True)
        elif port == other:
            looks = 'no_task' not in self.off if self.foreign == 'task' else 'no_life' not in self.off
            if not looks or 'early' in self.off:
                raise Violation('a request reaches a process that is not the task')
            if 'final' in self.off:
                go('another process answers: for good', dial=None, knows='never')
            else:
                go('another process answers: asks again', **again)
        else:
            go('nobody listens: asks again', **again)


if __name__ == '__main__':
    sys.exit(main(Model, SCENARIOS, MUTANTS))
