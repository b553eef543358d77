#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of a FIFO queue at one task and of its clients (docs/PROTOCOL.md), explored before the protocol was
written in C.
usage: queue_model.py                       all scenarios, then all weaker rules and mistakes
       queue_model.py SCENARIO [RULE ...]   one run, prints the way to what is wrong

Each client runs its list of operations as waiting requests under numbers that are kept: sent again after a reconnect they join
the request that waits, or get the kept answer, until an ACK. A connection is a FIFO in each direction; one that the client gave
up stays readable at the task until the task notices, one that the task closed stays readable at the client. A fault is a lost
connection, the end of a lease of a client that lives, the end of its record, a caller that gives up, a deadline at the task, a
death, a reset, a restart; each scenario has a number of each. Whoever is dead loses lease and record without a fault.

Promised, at every step:
  - an element that was enqueued with OK is in the queue, or taken by one request, or a client that did not give it back by the
    end of its lease has it; at most one such client;
  - one that was not enqueued, by the answer, is nowhere; one of a queue that was reset is not in the queue that came after;
  - whoever waits waits for what is not there; with one reader, elements come in the order in which they went in.
And from every state there is a way without a further fault to one where every operation of a living client has ended, or waits
for what can come only from others, and where nothing is held for an operation that has ended."""
import operator
import sys

from explore import State, Violation, main

CUT, LEASE, KEEP, GIVE_UP, DEADLINE, DIE, RESET, RESTART = range(8)
FAULTS = ('cut', 'lease', 'keep', 'give_up', 'deadline', 'die', 'reset', 'restart')


def put(*elements):
    """An operation: enqueue, or enqueue_many."""
    return ('E', elements)


def take(n):
    return ('D', n)


LARGE, PARTS, CLOSE = ('P', ('a',)), ('G', 1), ('C', 0)  # an enqueue and a dequeue in two frames; close, pending enqueues may end
# scenario: the operations of each client, how many it has under way, capacity, what is in the queue, faults
SCENARIOS = {
    'hand':     dict(clients=((put('a'), put('b')), (take(1), take(1))), faults=dict(cut=1)),
    'hand_2':   dict(clients=((put('a'), put('b')), (take(1), take(1))), faults=dict(cut=2)),
    'lease':    dict(clients=((put('a'),), (take(1), take(1))), faults=dict(cut=1, lease=1)),
    'lease_2':  dict(clients=((put('a'),), (take(1), take(1))), faults=dict(cut=2, lease=1)),
    'two':      dict(clients=((take(1),), (take(1),)), first='ab', faults=dict(cut=1, lease=1)),
    'two_2':    dict(clients=((take(1),), (take(1),)), first='ab', faults=dict(cut=2, lease=2, keep=1)),
    'death':    dict(clients=((take(1),), (take(1),)), first='a', faults=dict(cut=1, die=1)),
    'death_2':  dict(clients=((take(1), take(1)), (take(1), take(1))), first='ab', faults=dict(cut=1, die=1)),
    'give_up':  dict(clients=((take(1),), (take(1),)), first='a', faults=dict(cut=1, give_up=1, deadline=1)),
    'many':     dict(clients=((put('a', 'b', 'c'),), (take(2), take(1))), capacity=1, faults=dict(cut=1, lease=1), reader=True),
    'part':     dict(clients=((take(2),), (put('a'), take(1))), faults=dict(cut=1, give_up=1, deadline=1, lease=1)),
    'order':    dict(clients=((put('a'), put('b')), (take(1), take(1))), window=2, faults=dict(cut=1, lease=1), reader=True),
    'large':    dict(clients=((LARGE,), (PARTS,)), faults=dict(cut=1, give_up=1)),
    'large_2':  dict(clients=((LARGE,), (PARTS, take(1))), faults=dict(cut=2, give_up=1)),
    'parts':    dict(clients=((PARTS,), (PARTS,)), first='a', faults=dict(cut=1, lease=2, reset=1)),
    'close':    dict(clients=((put('a'), put('b'), CLOSE), (take(2), take(1))), capacity=1, faults=dict(cut=1, lease=1)),
    'reset':    dict(clients=((put('a'), take(1)), (take(1),)), faults=dict(cut=1, lease=1, reset=1)),
    'keep':     dict(clients=((put('a'),), (take(1),)), faults=dict(cut=1, keep=1)),
    'keep_2':   dict(clients=((put('a'),), (take(1), take(1))), faults=dict(cut=2, keep=1, lease=1)),
    'restart':  dict(clients=((put('a'), put('b')), (take(1),)), faults=dict(restart=1)),
    'three_2':  dict(clients=((put('a'),), (take(1),), (take(1),)), faults=dict(cut=1, die=1)),
}
# rule that is left out, or mistake: (where it shows first, what it is)
MUTANTS = {
    'give_up_frees':   ('give_up', "a client that gives up says the same ACK as one that has its elements"),
    'give_up_lost':    ('give_up', "an ACK of a request that was given up is not said again after its connection"),
    'ack_lost':        ('hand', "an ACK that was lost with its connection is not said again"),
    'ack_open':        ('part', "what a request has taken in part goes with it when it is given up"),
    'death_loses':     ('death', "what was taken goes with the lease of who took it"),
    'keep_loses':      ('two_2', "what was taken goes with the record of who took it"),
    'deadline_loses':  ('part', "what was taken in part goes at the deadline"),
    'lease_connected': ('two', "a lease ends although its client has come back"),
    'hello_returns':   ('hand', "HELLO gives back what has no ACK, and the request's answer stays"),
    'lease_keeps_ok':  ('two', "after the lease's end the kept answer is still OK"),
    'lease_open':      ('lease', "after the lease's end its requests still wait: what they take waits for a dead one"),
    'twice_back':      ('two_2', "what a lease's end gave back an ACK that gives up, or the record's end, gives back again"),
    'wrong_end':       ('order', "what is given back goes to the back"),
    'wrong_order':     ('many', "several elements that are given back stand the other way round"),
    'oldest_first':    ('order', "what several requests of one session have taken goes back by the oldest request first"),
    'no_flush':        ('death', "nobody looks at the queue after elements were given back"),
    'no_flush_take':   ('many', "nobody looks at the enqueues after an element was taken"),
    'resend_unknown':  ('keep', "an enqueue whose record is gone is sent again"),
    'begin_again':     ('hand', "an enqueue that comes again under its number begins again"),
    'old_connection':  ('two', "HELLO leaves the older connection open"),
    'collecting':      ('large', "what has come in part of an enqueue stays at HELLO, and is added to"),
    'reset_keeps':     ('reset', "what was taken before a reset comes back to the new queue"),
    'creation':        ('reset', "the task takes an enqueue for a queue that is gone"),
    'reset_waits':     ('reset', "a reset leaves those who wait"),
    'restart_nothing': ('restart', "after a restart an enqueue that was sent ends with *nothing applied*"),
}
COLLECTING, OPEN, DONE = 'cod'
ENDED = -1


class World(State):
    """One state, thawed.
    client: [alive, results, next number, asks, connection, 'd' down 'h' HELLO sent 'u' up, record name, life, ACKs (number, kept)]
       result: None not called, 'w', 'wait' ..., (word, elements in); ask: (number, operation, tried, sent, creation, has parts)
    conn: [client, connection, at the client, at the task: 'b' HELLO unread, 'o', 'g' gone, to the task, to the client]
    task: life, creation, queue, closed, enqueuers and dequeuers (client, number), records, next record name
    record: [name, connection (0: none, -1: and its lease has ended), its highest connection, waits]; wait: [number, operation, stage, taken, put, left, answer, back]
    ghosts: got: (element, client, number) that a program has; back: (client, number) that its lease's end has given back;
    void: elements of a queue that is gone"""
    F = ('clients', 'conns', 'life', 'creation', 'queue', 'closed', 'enq', 'deq', 'records', 'names', 'left', 'got', 'back', 'void')
    TASK, GHOSTS = operator.attrgetter(*F[2:8]), operator.attrgetter(*F[11:])

    def __init__(self, key):
        self.__dict__.update(zip(self.F, key))
        self.clients = [list(c) for c in self.clients]
        self.conns = [list(c) for c in self.conns]
        self.records = [r and [r[0], r[1], r[2], [list(w) for w in r[3]]] for r in self.records]
        self.left = list(self.left)

    def key(self):
        records = tuple([r and (r[0], r[1], r[2], (*map(tuple, r[3]),)) for r in self.records])
        return ((*map(tuple, self.clients),), (*map(tuple, self.conns),), *self.TASK(self), records, self.names, (*self.left,),
                *self.GHOSTS(self))


ALIVE, RESULT, NEXT, ASKS, CID, PHASE, REC, LIFE, ACKS = range(9)
WHO, CONN, HERE, THERE, C2S, S2C = range(6)
NAME, RCONN, HIGHEST, WAITS = range(4)
NUM, OP, STAGE, TAKEN, IN, LEFT, ANSWER = range(7)


def swap(t, i, v):
    return t[:i] + (v,) + t[i + 1:]


class Model:
    def __init__(self, scenario, off=()):
        self.sc = SCENARIOS[scenario]
        self.off = frozenset(off)
        self.ops = self.sc['clients']
        self.window = self.sc.get('window', 1)
        capacity = self.sc.get('capacity', 0)
        self.capacity = capacity if capacity else 99
        self.puts = {e: (c, i, k) for c, ops in enumerate(self.ops) for i, op in enumerate(ops) if op[0] in 'EP'
                     for k, e in enumerate(op[1])}

    def start(self):
        clients = tuple((True, (None,) * len(ops), 1, (), 0, 'd', 0, 0, ()) for ops in self.ops)
        left = tuple(self.sc['faults'].get(f, 0) for f in FAULTS)
        return (clients, (), 1, 0, tuple(self.sc.get('first', ())), False, (), (), (None,) * len(self.ops), 0, left, (), (), ())

    # ---- the task --------------------------------------------------------------------------------
    def wait(self, w, c, num):
        r = w.records[c]
        return next((x for x in r[WAITS] if x[NUM] == num), None) if r else None

    def reply(self, w, c, msg):
        r = w.records[c]
        for k in w.conns:
            if k[WHO] == c and k[THERE] == 'o' and k[CONN] == r[RCONN] and k[HERE]:
                k[S2C] += (msg,)

    def answer(self, w, c, x):
        if x[ANSWER][0] == 'OK' and self.ops[c][x[OP]][0] in 'DG' and not x[TAKEN]:
            raise Violation('client %d is answered OK without the elements' % c)
        self.reply(w, c, ('r', x[NUM], x[ANSWER], x[TAKEN]))

    def done(self, w, c, x, word):
        x[STAGE] = DONE
        x[ANSWER] = (word, x[IN])
        w.enq = tuple(a for a in w.enq if a != (c, x[NUM]))
        w.deq = tuple(a for a in w.deq if a != (c, x[NUM]))
        self.answer(w, c, x)

    def give_back(self, w, x):
        e = x[TAKEN][::-1] if 'wrong_order' in self.off else x[TAKEN]
        e = tuple(y for y in e if y not in w.void or 'reset_keeps' in self.off)
        w.queue = w.queue + e if 'wrong_end' in self.off else e + w.queue
        if 'twice_back' not in self.off:
            x[TAKEN] = ()

    def flush(self, w):
        """TF 1.15: the head of the enqueues, then that of the dequeues, until nothing moves"""
        moved = True
        while moved:
            moved = False
            if w.enq:
                c, num = w.enq[0]
                x = self.wait(w, c, num)
                if self.ops[c][x[OP]][0] == 'C':
                    moved = True
                    if w.closed:
                        self.done(w, c, x, 'X')
                    else:
                        w.closed = True
                        self.done(w, c, x, 'OK')
                elif w.closed:
                    moved = True
                    self.done(w, c, x, 'X')
                elif len(w.queue) < self.capacity:
                    moved = True
                    w.queue += x[LEFT][:1]
                    x[LEFT] = x[LEFT][1:]
                    x[IN] += 1
                    if not x[LEFT]:
                        self.done(w, c, x, 'OK')
            if w.deq:
                c, num = w.deq[0]
                x = self.wait(w, c, num)
                need = self.ops[c][x[OP]][1]
                if w.queue:
                    moved = True
                    x[TAKEN] += w.queue[:1]
                    w.queue = w.queue[1:]
                    if len(x[TAKEN]) == need:
                        self.done(w, c, x, 'OK')
                    if 'no_flush_take' in self.off:
                        return
                elif w.closed:
                    moved = True
                    self.give_back(w, x)
                    self.done(w, c, x, 'X')

    def end(self, w, c, x, word, lease=False, loses=False):
        """A request ends before its time; what it has taken goes back"""
        taken = x[TAKEN]
        if loses:
            x[TAKEN] = ()
        elif taken:
            self.give_back(w, x)
            if lease:
                w.back = tuple(sorted(set(w.back) | {(c, x[NUM])}))
        if x[STAGE] != DONE:
            self.done(w, c, x, word)
        elif taken and not (lease and 'lease_keeps_ok' in self.off):
            x[ANSWER] = (word, 0)

    def after(self, w):
        if 'no_flush' not in self.off:
            self.flush(w)

    def newest_first(self, r):
        return r[WAITS] if 'oldest_first' in self.off else r[WAITS][::-1]

    def lease_end(self, w, c):
        r = w.records[c]
        for x in self.newest_first(r):
            if x[STAGE] == DONE or 'lease_open' not in self.off:
                self.end(w, c, x, 'A', r[RCONN] <= 0, 'death_loses' in self.off)
        r[RCONN] = r[RCONN] or ENDED
        self.after(w)

    def record_end(self, w, c):
        for x in self.newest_first(w.records[c]):
            self.end(w, c, x, 'A', True, 'keep_loses' in self.off)
        w.records[c] = None
        self.after(w)

    def gone(self, w):
        """of the queue: who waits, and what is in it; an answer that has what was taken may be on its way"""
        for c, r in enumerate(w.records):
            for x in r[WAITS] if r else ():
                if x[STAGE] == OPEN and 'reset_waits' not in self.off:
                    x[TAKEN] = ()
                    self.done(w, c, x, 'X')
        inside = set(w.queue) | {e for e, *_ in w.got}
        for e, (c, i, k) in self.puts.items():
            if w.clients[c][RESULT][i] is not None:
                inside.add(e)
        w.void = tuple(sorted(inside | set(self.sc.get('first', ())) | set(w.void)))
        w.queue, w.closed = (), False
        w.creation += 1

    def hello(self, w, k, named):
        c, cid = k[:2]
        r = w.records[c]
        if r and cid <= r[HIGHEST]:
            k[THERE], k[C2S] = 'g', ()
            return
        for old in w.conns:
            if old is not k and old[WHO] == c and old[THERE] == 'o' and 'old_connection' not in self.off:
                old[THERE], old[C2S] = 'g', ()
        if not r:
            w.names += 1
            r = w.records[c] = [w.names, 0, 0, []]
        r[RCONN] = r[HIGHEST] = cid
        k[THERE] = 'o'
        if 'collecting' not in self.off:
            r[WAITS] = [x for x in r[WAITS] if x[STAGE] != COLLECTING]
        if 'hello_returns' in self.off:
            for x in r[WAITS]:
                if x[STAGE] == DONE:
                    w.queue = x[TAKEN] + w.queue
            self.flush(w)
        self.reply(w, c, ('h', r[NAME], w.life))

    def request(self, w, c, msg):
        """the first frame of one"""
        _, num, i, creation = msg
        kind, what = self.ops[c][i]
        x = self.wait(w, c, num)
        if x and 'begin_again' in self.off and kind == 'E' and x[STAGE] == DONE:
            w.records[c][WAITS].remove(x)
            x = None
        if x is None:
            x = [num, i, COLLECTING, (), 0, what if kind in 'EP' else (), None]
            w.records[c][WAITS].append(x)
            w.records[c][WAITS].sort()
        elif x[STAGE] != COLLECTING:
            if x[STAGE] == DONE:
                self.answer(w, c, x)
            return
        if creation != w.creation and 'creation' not in self.off:
            self.done(w, c, x, 'N')
        elif kind == 'P':
            x[IN] += 1                                  # parts, as long as it is collected
        else:
            self.open(w, c, x, kind)

    def open(self, w, c, x, kind):
        x[STAGE] = OPEN
        if kind in 'EPC':
            w.enq += ((c, x[NUM]),)
        else:
            w.deq += ((c, x[NUM]),)
        self.flush(w)

    def task_reads(self, w, k):
        c, msg = k[WHO], k[C2S][0]
        k[C2S] = k[C2S][1:]
        if msg[0] == 'H':
            self.hello(w, k, msg[1])
            return
        if w.records[c] is None:
            return
        x = self.wait(w, c, msg[1])
        if msg[0] == 'R':
            self.request(w, c, msg)
        elif msg[0] == 'P' and x and x[STAGE] == COLLECTING:
            x[IN] += 1
            if x[IN] != 2:
                raise Violation('an element is made of the parts of two tries')
            x[IN] = 0
            self.open(w, c, x, 'P')
        elif msg[0] == 'G':
            if x and x[TAKEN]:
                self.reply(w, c, ('g', msg[1], True, x[TAKEN]))
            else:
                self.reply(w, c, ('g', msg[1], False, ()))
        elif msg[0] == 'K' and x:
            had = msg[2] or 'give_up_frees' in self.off
            if x[STAGE] == OPEN:
                w.enq = tuple(a for a in w.enq if a != (c, x[NUM]))
                w.deq = tuple(a for a in w.deq if a != (c, x[NUM]))
                had = 'ack_open' in self.off
            if not had:
                self.give_back(w, x)
            w.records[c][WAITS].remove(x)
            self.after(w)

    # ---- clients ---------------------------------------------------------------------------------
    def conn(self, w, c):
        cl = w.clients[c]
        return next((k for k in w.conns if k[WHO] == c and k[CONN] == cl[CID] and k[HERE]), None) if cl[PHASE] != 'd' else None

    def send(self, w, c, *msgs):
        k = self.conn(w, c)
        if k and k[THERE] != 'g':
            k[C2S] += msgs

    def ended(self, w, c, ask, word, count, acks=True, had=True):
        cl = w.clients[c]
        cl[RESULT] = swap(cl[RESULT], ask[1], (word, count))
        cl[ASKS] = tuple(a for a in cl[ASKS] if a != ask)
        if acks and ask[2]:
            lost = ('ack_lost' if had else 'give_up_lost') in self.off
            if not lost:
                cl[ACKS] += ((ask[0], had),)
            if cl[PHASE] == 'u':
                self.send(w, c, ('K', ask[0], had))

    def has(self, w, c, ask, elements):
        for e in elements:
            w.got += ((e, c, ask[0]),)
        w.got = tuple(sorted(w.got))

    def send_asks(self, w, c):
        cl = w.clients[c]
        for n, (num, i, _, sent, creation, part) in enumerate(cl[ASKS]):
            if not sent:
                kind = self.ops[c][i][0]
                self.send(w, c, ('R', num, i, creation), *((('P', num),) if kind == 'P' else ()))
                cl[ASKS] = swap(cl[ASKS], n, (num, i, True, True, creation, part))

    def down(self, w, c):
        cl = w.clients[c]
        k = self.conn(w, c)
        if k:
            k[HERE], k[S2C] = False, ()
        cl[PHASE] = 'd'
        cl[ASKS] = tuple((num, i, tried, False, creation, ()) for num, i, tried, _, creation, _ in cl[ASKS])

    def client_reads(self, w, c):
        cl, k = w.clients[c], self.conn(w, c)
        msg, k[S2C] = k[S2C][0], k[S2C][1:]
        if msg[0] == 'h':
            _, name, life = msg
            for ask in cl[ASKS]:
                if cl[LIFE] not in (0, life):
                    tried = ask[2] and 'restart_nothing' not in self.off
                    self.ended(w, c, ask, 'U' if tried else 'N', 0, False)
                elif cl[REC] not in (0, name) and ask[2] and 'resend_unknown' not in self.off:
                    self.ended(w, c, ask, 'U', 0, False)
            if cl[REC] not in (0, name):
                cl[ACKS] = ()
            cl[REC], cl[LIFE], cl[PHASE] = name, life, 'u'
            self.send(w, c, *(('K',) + a for a in cl[ACKS]))
            self.send_asks(w, c)
            return
        ask = next((a for a in cl[ASKS] if a[0] == msg[1] and a[3]), None)
        if ask is None:
            return
        if msg[0] == 'g':
            if msg[2] and msg[3] != ask[5]:
                raise Violation('client %d reads parts of something else' % c)
            if msg[2]:
                self.has(w, c, ask, ask[5])
            self.ended(w, c, ask, 'OK' if msg[2] else 'A', 0)
            return
        _, num, (word, count), elements = msg
        kind = self.ops[c][ask[1]][0]
        if kind == 'G' and word == 'OK':
            n = cl[ASKS].index(ask)
            cl[ASKS] = swap(cl[ASKS], n, ask[:5] + (elements,))
            self.send(w, c, ('G', num))
            return
        if kind == 'D' and word == 'OK':
            self.has(w, c, ask, elements)
        self.ended(w, c, ask, word, count)

    def call(self, w, c, i):
        cl = w.clients[c]
        cl[RESULT] = swap(cl[RESULT], i, ('w', 0))
        cl[ASKS] += ((cl[NEXT], i, False, False, w.creation, ()),)
        cl[NEXT] += 1
        if cl[PHASE] == 'u':
            self.send_asks(w, c)

    def dial(self, w, c):
        cl = w.clients[c]
        cl[CID] += 1
        cl[PHASE] = 'h'
        w.conns.append([c, cl[CID], True, 'b', (('H', cl[REC]),), ()])

    def die(self, w, c):
        self.down(w, c)
        w.clients[c][ALIVE] = False
        w.clients[c][ACKS] = ()
        w.clients[c][ASKS] = ()

    def restart(self, w):
        for c in range(len(w.records)):
            w.records[c] = None
        w.enq = w.deq = ()
        w.conns = [k for k in w.conns if k[HERE]]
        for k in w.conns:
            k[THERE], k[C2S], k[S2C] = 'g', (), ()
        self.gone(w)
        w.life += 1

    # ---- all that can happen ---------------------------------------------------------------------
    def steps(self, key):
        out = []

        def go(label, fault, act, *args):
            w = World(key)
            if fault is not None:
                w.left[fault] -= 1
            try:
                act(w, *args)
                self.check(w)
            except Violation as v:
                raise Violation(str(v), label) from None
            w.conns = [k for k in w.conns if k[HERE] or k[THERE] != 'g']
            out.append((label, fault is not None, w.key()))
        s = World.look(key)
        for c, cl in enumerate(s.clients):
            name, k = 'client %d' % c, self.conn(s, c)
            if not cl[ALIVE]:
                continue
            todo = next((i for i, r in enumerate(cl[RESULT]) if r is None), None)
            if todo is not None and len(cl[ASKS]) < self.window:
                go('%s calls %r' % (name, self.ops[c][todo]), None, self.call, c, todo)
            if cl[PHASE] == 'd':
                if cl[ASKS] or cl[ACKS] or todo is not None:
                    go('%s dials' % name, None, self.dial, c)
            elif k[THERE] == 'g' and not k[S2C]:
                go('%s sees its connection closed' % name, None, self.down, c)
            elif s.left[CUT]:
                go('%s loses its connection' % name, CUT, self.down, c)
            if k and k[S2C]:
                go('%s reads %r' % (name, k[S2C][0]), None, self.client_reads, c)
            for ask in cl[ASKS] if s.left[GIVE_UP] else ():
                go('%s gives up number %d' % (name, ask[0]), GIVE_UP, self.ended, c, ask, 'D', 0, True, False)
            if s.left[DIE]:
                go('%s dies' % name, DIE, self.die, c)
        for n, k in enumerate(s.conns):
            c = k[WHO]
            if k[THERE] != 'g' and k[C2S]:
                go('the task reads %r of client %d, connection %d' % (k[C2S][0], c, k[CONN]), None,
                   lambda w, n=n: self.task_reads(w, w.conns[n]))
            if k[THERE] != 'g' and not k[HERE]:
                go('the task sees connection %d of client %d closed' % (k[CONN], c), None, self.left_by, n)
            elif k[THERE] == 'o' and s.left[CUT]:
                go('connection %d of client %d breaks at the task' % (k[CONN], c), CUT, self.left_by, n)
        for c, r in enumerate(s.records):
            if r is None:
                continue
            alive, away = s.clients[c][ALIVE], r[RCONN] <= 0
            waits = any(x[TAKEN] or x[STAGE] == OPEN for x in r[WAITS])
            if (r[RCONN] == 0 or 'lease_connected' in self.off) and waits and (not alive or s.left[LEASE]):
                go('the lease of client %d ends' % c, LEASE if alive else None, self.lease_end, c)
            if away and (not alive or s.left[KEEP]):
                go('the record of client %d ends' % c, KEEP if alive else None, self.record_end, c)
            for n, x in enumerate(r[WAITS]):
                if x[STAGE] == OPEN and s.left[DEADLINE]:
                    go('deadline of number %d of client %d at the task' % (x[NUM], c), DEADLINE, self.deadline, c, n)
        if s.left[RESET]:
            go('reset', RESET, self.gone)
        if s.left[RESTART]:
            go('the task restarts', RESTART, self.restart)
        return out

    def left_by(self, w, n):
        k = w.conns[n]
        r = w.records[k[WHO]]
        if r and k[THERE] == 'o' and r[RCONN] == k[CONN]:
            r[RCONN] = 0
        k[THERE], k[C2S] = 'g', ()

    def deadline(self, w, c, n):
        self.end(w, c, w.records[c][WAITS][n], 'T', loses='deadline_loses' in self.off)
        self.after(w)

    # ---- what is promised ------------------------------------------------------------------------
    def check(self, w):
        held = [e for r in w.records if r for x in r[WAITS] for e in x[TAKEN]]
        inside = list(w.queue) + held
        if len(set(inside)) < len(inside) or len(set(w.queue)) < len(w.queue):
            raise Violation('an element is there twice: %r' % (inside,))
        for e in w.queue:
            if e in w.void:
                raise Violation('%s was in the queue that was reset, and is in the new one' % e)
        if self.sc.get('reader') and list(w.queue) != sorted(w.queue):
            raise Violation('the queue is out of order: %r' % (w.queue,))
        has = {}
        for e, c, num in w.got:
            if (c, num) not in w.back:
                has.setdefault(e, []).append((c, num))
        for e, who in has.items():
            if len(who) > 1:
                raise Violation('%s came to clients %r, and no lease has ended' % (e, [c for c, _ in who]))
            if e in inside and self.wait(w, *who[0]) is not None and e in w.queue:
                raise Violation('%s is in the queue, and client %d has it' % (e, who[0][0]))
        for e in self.sc.get('first', ()):
            if e not in inside and e not in has and e not in w.void:
                raise Violation('%s is lost' % e)
        for e, (c, i, k) in self.puts.items():
            r = w.clients[c][RESULT][i]
            if r is None or r[0] in 'wUD' or e in w.void:
                if r is not None and r[0] == 'N' and (e in inside or e in has):
                    raise Violation('%s is there, although its enqueue was told that nothing was applied' % e)
                continue
            if r[0] != 'OK' and k >= r[1]:
                if e in inside or e in has:
                    raise Violation('%s is there, although its enqueue was told that it is not' % e)
            elif e not in inside and e not in has:
                raise Violation('%s is lost' % e)
        for c, r in enumerate(w.records):
            if r and r[RCONN] == ENDED and any(x[TAKEN] or x[STAGE] == OPEN for x in r[WAITS]):
                raise Violation('something is held for client %d, whose lease has ended' % c)
            for num, _, _, _, creation, _ in w.clients[c][ASKS] if r else ():
                if creation != w.creation and self.stage(w, c, num) == OPEN:
                    raise Violation('client %d waits at a queue that is gone' % c)
        if w.deq and (w.queue or w.closed):
            raise Violation('client %d waits, and the queue has %r%s' % (w.deq[0][0], w.queue, w.closed and ', is closed' or ''))
        if w.enq and (len(w.queue) < self.capacity or w.closed):
            raise Violation('client %d waits to enqueue, and there is room' % w.enq[0][0])

    def quiet(self, key):
        """All has ended that can end."""
        w = World.look(key)
        if any(k[C2S] or k[S2C] or not k[HERE] for k in w.conns):
            return False
        for c, cl in enumerate(w.clients):
            r = w.records[c]
            if not cl[ALIVE]:
                if r:
                    return False
                continue
            if None in cl[RESULT] and len(cl[ASKS]) < self.window:
                return False
            if cl[ASKS] and (cl[PHASE] != 'u' or not all(self.stage(w, c, a[0]) == OPEN for a in cl[ASKS])):
                return False
            for x in r[WAITS] if r else ():
                if x[NUM] not in [a[0] for a in cl[ASKS]]:
                    return False                        # held for nobody
        return True

    def stage(self, w, c, num):
        x = self.wait(w, c, num)
        return x[STAGE] if x else None


if __name__ == '__main__':
    sys.exit(main(Model, SCENARIOS, MUTANTS))
