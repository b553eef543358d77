#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of a CALL whose input and output take two frames each (docs/PROTOCOL.md, `CALL`): explored before it was
written in C.
usage: call_model.py                       all scenarios, then all weaker rules and mistakes
       call_model.py SCENARIO [RULE ...]   one run, prints the way to what is wrong

The client sends CALL with the first part of the input, and PUT_PART with the second one. When all of the input has come, the task
runs the call. The answer has the first part of the output; the client asks for the second one by GET_PART, and says ACK when it has
both. A connection is a FIFO in each direction. What the client sent on a connection that it gave up may still be read by the task,
until the HELLO of the next one. A HELLO forgets a call of which not all has come. After a reconnect the client sends a call again
under its number, or, once it has the answer, asks again for the part that is missing. A fault is a lost connection, a caller that
gives up, a deadline at the task, and a task that is started again without a record of the session.

Promised: the call runs at most once, whatever happens, and on the whole input, each part of it once; one that ended OK has run, and
both parts of its output are of that run; one that ended as not done has not run and will not. From every state there is a way without
a further fault to one where the call has ended and the task holds nothing for it."""
import sys

from explore import Violation, main

CUT, GIVE_UP, DEADLINE, RESTART = range(4)
SCENARIOS = {
    'cut':      dict(faults=(3, 0, 0, 0)),
    'give_up':  dict(faults=(2, 1, 0, 0)),
    'deadline': dict(faults=(2, 0, 1, 0)),
    'restart':  dict(faults=(1, 0, 0, 2)),
    'all':      dict(faults=(2, 1, 1, 1)),
}
MUTANTS = {
    'collecting': ('cut', "what has come in part stays at HELLO, and is added to"),
    'early':      ('cut', "the call runs when its first part is there"),
    'ack_early':  ('cut', "the client says ACK when it has the first part of the output"),
    'ack_lost':   ('cut', "an ACK that was lost with its connection is not said again"),
    'again':      ('restart', "a call is sent again to a task that has lost its record of the session"),
    'got_again':  ('cut', "after a reconnect the part of the output that is missing is not asked for again"),
    'run_again':  ('cut', "a call that comes again under its number begins again"),
}

# client: '-' not called, 'w' sent or to be sent, 'f' fetches the output, 'o' OK, 'u' ended as unknown, 'n' ended as not done
# up: 'd' not connected, 'h' HELLO is said, 'u' its answer is here; acked: it has said ACK, or is to say it; first: the run of which it has the first part of the output
# to, back: the connection's messages; old: messages of the connection before, until HELLO
# record: name of the task's record of the session, 0: it has none; known: the one that the client has heard of, 0: of none; wait: None, or (stage, parts of the input), stage 'c' not all has come,
#   'r' runs, 'd' done: run number, or -1: its error; runs: how often it has run, a ghost
FIELDS = ('client', 'tried', 'up', 'acked', 'first', 'to', 'back', 'old', 'record', 'known', 'wait', 'runs')


class Model:
    def __init__(self, scenario, off=()):
        self.faults, self.off = SCENARIOS[scenario]['faults'], frozenset(off)

    def start(self):
        return ('-', False, 'd', False, 0, (), (), (), 0, 0, None, 0, self.faults)

    def quiet(self, key):
        client, _, up, _, _, to, back, _, _, _, wait, _, _ = key
        return client in 'oun' and up == 'u' and wait is None and not to and not back

    def steps(self, key):
        out = []
        s = dict(zip(FIELDS, key))
        left = key[-1]

        def go(label, fault=None, **new):
            spent = left if fault is None else left[:fault] + (left[fault] - 1,) + left[fault + 1:]
            state = dict(s)
            state.update(new)
            if state['runs'] > 1:
                raise Violation('the call runs twice', label)
            if state['client'] == 'n' and state['runs']:
                raise Violation('a call that was not done, by its end, has run', label)
            out.append((label, fault is not None, tuple(state[f] for f in FIELDS) + (spent,)))

        if s['client'] == '-':
            up = s['up'] == 'u'
            go('the program calls', client='w', tried=up, to=s['to'] + (('call', 'put') if up else ()))
        if s['up'] == 'd':
            go('the client connects', up='h', to=('hello',))
        if s['to']:
            self.task_reads(s, go, s['to'][0], dict(to=s['to'][1:]))
        if s['old']:
            self.task_reads(s, go, s['old'][0], dict(old=s['old'][1:]), lost=True)
        if s['back']:
            self.client_reads(s, go, s['back'][0], dict(back=s['back'][1:]))
        if s['wait'] is not None and s['wait'][0] == 'r':
            go('the run ends', **self.answered(s, ('d', s['runs']), {}))
        if left[CUT] and s['up'] != 'd':
            go('the connection is lost', CUT, up='d', to=(), back=(), old=tuple(m for m in s['to'] if m != 'hello'))
        if left[GIVE_UP] and s['client'] in 'wf':
            go('the caller gives up', GIVE_UP, client='u', acked=True, **(dict(to=s['to'] + ('ack',)) if s['up'] == 'u' else {}))
        if left[DEADLINE] and s['wait'] is not None and s['wait'][0] == 'r':
            go('the deadline', DEADLINE, **self.answered(s, ('d', -1), {}))
        if left[RESTART]:
            go('the task is started again', RESTART, up='d', to=(), back=(), old=(), record=0, wait=None)
        return out

    def answered(self, s, wait, new):
        """The answer goes out where the session is connected, as the task sees it."""
        if s['up'] != 'd' and 'hello' not in new.get('to', s['to']):
            new = dict(new, back=new.get('back', s['back']) + (('answer', wait[1]),))
        return dict(new, wait=wait)

    def whole(self, s, parts, new):
        if parts != (0, 1) and 'early' not in self.off:
            raise Violation('the input of the run is %r' % (parts,))
        if parts[-1:] != (1,) and 'early' in self.off:
            raise Violation('the run has a part of its input')
        return dict(new, wait=('r', 0), runs=s['runs'] + 1)

    def task_reads(self, s, go, message, new, lost=False):
        wait = s['wait']
        reply = (lambda m, n: n) if lost else (lambda m, n: dict(n, back=n.get('back', s['back']) + (m,)))
        if message == 'hello':
            if wait is not None and wait[0] == 'c' and 'collecting' not in self.off:
                wait = None
            name = s['record'] or s['known'] + 1
            go('HELLO', **reply(('hi', name), dict(new, old=(), wait=wait, record=name)))
        elif message == 'call':
            if wait is not None and wait[0] != 'c' and 'run_again' not in self.off:
                go('CALL joins', **(reply(('answer', wait[1]), new) if wait[0] == 'd' else new))
                return
            parts = (wait[1] if wait is not None and wait[0] == 'c' else ()) + (0,)
            if 'early' in self.off or len(parts) == 2:
                go('CALL', **self.whole(s, parts, new))
            else:
                go('CALL', **dict(new, wait=('c', parts)))
        elif message == 'put':
            if wait is None:
                go('PUT_PART of nothing', **reply(('put', False), new))
            elif wait[0] == 'c':
                go('PUT_PART', **reply(('put', True), self.whole(s, wait[1] + (1,), new)))
            else:
                go('PUT_PART of what has come', **reply(('put', True), new))
        elif message == 'get':
            if wait is None or wait[0] != 'd' or wait[1] < 0:
                go('GET_PART of nothing', **reply(('part', -1), new))
            else:
                go('GET_PART', **reply(('part', wait[1]), new))
        else:
            go('ACK', **dict(new, wait=None))

    def client_reads(self, s, go, message, new):
        what, value = message
        if what == 'hi':
            new.update(known=value, up='u')
            sends = ('ack',) if s['acked'] and 'ack_lost' not in self.off else ()
            if s['client'] in 'wf' and s['tried'] and value != s['known'] and 'again' not in self.off:
                go('the client hears that its record is gone', **dict(new, client='u'))
                return
            if s['client'] == 'w':
                sends += ('call', 'put')
            if s['client'] == 'f' and 'got_again' not in self.off:
                sends += ('get',)
            go('the client is up', **dict(new, to=s['to'] + sends, tried=s['tried'] or s['client'] == 'w'))
        elif what == 'put':
            if not value and s['client'] == 'w':
                raise Violation('a part of a call that waits is a part of nothing')
            go('the client hears of its part', **new)
        elif s['client'] not in 'wf':
            go('the client has ended it', **new)
        elif what == 'answer' and s['client'] == 'w':
            if value < 0:
                go('the client hears the error', **dict(new, client='u', acked=True, to=s['to'] + ('ack',)))
            elif value == 0 or value > s['runs']:
                raise Violation('an answer of no run')
            else:
                early = ('ack',) if 'ack_early' in self.off else ()
                go('the client has the first part', **dict(new, client='f', first=value, to=s['to'] + early + ('get',)))
        elif what == 'part' and s['client'] == 'f':
            if value != s['first']:
                raise Violation('the second part of the output is of run %d, the first one of run %d' % (value, s['first']))
            go('the client has it all', **dict(new, client='o', acked=True, to=s['to'] + ('ack',)))
        else:
            go('the client has had that', **new)


if __name__ == '__main__':
    sys.exit(main(Model, SCENARIOS, MUTANTS))
