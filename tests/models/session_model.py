#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of one psd session against one task (docs/PROTOCOL.md section 2), as it was explored before the protocol
was written in C, with resets of the variable that the operations are for. Containers with a journal are not there yet in psd.

One client session runs OPS (frames, container, returns a value): a push or an addition has any number of frames, and only an
addition of one frame returns a value.  The network keeps a FIFO in each
direction per connection; a connection that the client gave up may stay readable at the task (its bytes
are buffered there) until the task notices, and a connection whose HELLO was not read yet survives a
restart of the task (it sits in the backlog).  'Parsed but not yet applied' needs no state of its own:
it is the head of c2s, because both are dropped together; the mutant `held` makes the difference.
Every log entry and every application takes one position.  Breadth first over all interleavings; every
fault kind has a budget.  A reset empties the memory container: the variable in it has a new creation then, an operation
that was called for the one before may not land in it.  A thief has
another identity and the session's id: it says HELLO with it, lists all numbers as abandoned and names the record.  It must be
told nothing and change nothing; where the task has no record of the session, the thief gets one of its own, and the client is
refused from then on.  Then a backward search over the fault-free edges: every reachable state must
be able to reach an end state without a further fault (no stuck window).

  session_model.py            all scenarios, then all mutants and weaker rules
  session_model.py SCENARIO [RULE,...]     one run, prints the counterexample
"""
import gc
import multiprocessing
import sys
import time
from array import array

WINDOW = 2
LIMIT = 'limit reached'
MEM, JRN = 'm', 'j'                       # container levels
# fault budgets: disconnects, restarts, records dropped, deadlines, refusals for load, resets, HELLOs of a thief
DISC, RESTART, DROP, DEADLINE, REFUSE, RESET, STEAL = range(7)
OWN, THIEF, NOBODY = 'c', 't', '?'           # whose a record is

# scenario: ops = (frames, container, returns a value), budgets
SCENARIOS = {
    'mem':    (((2, MEM, 0), (1, MEM, 0), (1, MEM, 1)), (2, 0, 1, 1, 1)),
    'mem-r':  (((2, MEM, 0), (1, MEM, 0), (1, MEM, 1)), (1, 1, 1, 1, 1)),
    'jrn':    (((2, JRN, 0), (1, JRN, 0), (1, JRN, 1)), (1, 1, 0, 1, 1)),
    'jrn-k':  (((2, JRN, 0), (1, JRN, 1)), (2, 1, 1, 1, 0)),
    'jrn-2r': (((2, JRN, 0), (1, JRN, 1)), (1, 2, 0, 1, 1)),
    'mix':    (((2, JRN, 0), (1, MEM, 0), (1, JRN, 1)), (1, 1, 0, 1, 1)),
    'mix-m':  (((2, MEM, 0), (1, JRN, 1), (1, MEM, 0)), (1, 1, 0, 1, 1)),
    'plain':  (((2, MEM, 0), (1, MEM, 0), (1, MEM, 1)), (2, 0, 1, 0, 0)),
    'jrn-p':  (((2, JRN, 0), (1, JRN, 1)), (2, 1, 0, 0, 0)),
    'late-p': (((2, MEM, 0), (1, MEM, 1)), (3, 0, 1, 0, 0)),
    'late':   (((2, MEM, 0), (1, MEM, 1)), (3, 0, 1, 1, 1)),
    'reset':  (((1, MEM, 0), (1, MEM, 0)), (1, 0, 0, 1, 2, 1)),
    'reset-d': (((1, MEM, 0), (1, MEM, 0)), (2, 0, 1, 0, 1, 1)),
    'reset-2': (((2, MEM, 0), (1, MEM, 0)), (1, 0, 0, 0, 1, 2)),
    'thief':  (((2, MEM, 0), (1, MEM, 1)), (1, 1, 1, 0, 0, 0, 2)),
    'thief-j': (((2, JRN, 0), (1, JRN, 1)), (1, 1, 1, 0, 0, 0, 1)),
}

# Rules: the first group are weaker rules that look right, the second plain mistakes.
LITERAL = {
    'hello_completes': ('jrn', "HELLO says applied: client completes without waiting for durable"),
    'fresh_record':    ('plain', "a record made by a HELLO says *not received* for older numbers"),
    'floor_only':      ('late-p', "a new record remembers HELLO's next, HELLO does not name the record"),
    'leave_torn':      ('jrn', "an in-progress number that HELLO does not list stays in progress"),
    'end_any':         ('jrn-p', "as designed, but also for numbers >= the HELLO's own next (late HELLO)"),
    'old_position':    ('jrn-2r', "client compares a position of an older life with the watermark"),
    'silent_durable':  ('jrn', "the watermark travels in replies only"),
    'log_memory':      ('mix-m', "outcomes on memory containers are in the log too, without incarnation"),
    'reply_early':     ('jrn-p', "HELLO's reply does not wait until the session is in the log"),
}
MUTANTS = {
    'no_record':       ('plain', "task keeps no outcomes"),
    'offset_ignored':  ('plain', "resume starts at 0 and the task takes it"),
    'offset_client':   ('plain', "resume starts at 0, the task checks (GAP for ever)"),
    'late_refusal':    ('mem', "refused for load at a later frame, then repeated"),
    'resend_unknown':  ('plain', "client sends an unknown number again"),
    'held':            ('plain', "a held-back segment of the older connection is applied after HELLO"),
    'old_conn':        ('plain', "HELLO does not close the older connection"),
    'lower_accepted':  ('late-p', "a HELLO with a lower connection number is accepted"),
    'durable_applied': ('jrn', "the durable watermark is reported from applied"),
    'ack_applied':     ('jrn', "client completes a durable push when applied"),
    'early_leave':     ('mem', "the number leaves the window at the deadline"),
    'resend_new_inc':  ('mix-m', "*not received* is sent again into a new incarnation"),
    'refusal_lost':    ('mem', "refusals are not recorded"),
    'unlogged_record': ('jrn', "records are not in the log"),
    'repeat_any':      ('reset', "refused for load, then repeated to whatever creation the variable has by then"),
    'creation_ignored': ('reset', "the task takes a frame for a creation that is gone"),
    'resume_any':      ('reset-d', "*not received* is sent again to another creation"),
    'no_owner':        ('thief', "a session is whose who has its id"),
    'owner_late':      ('thief', "a HELLO closes the older connection before its identity is compared"),
    'owner_later':     ('thief', "a HELLO ends what is abandoned before its identity is compared"),
    'owner_unlogged':  ('thief-j', "whose a record is is not in the log, and who comes first has it"),
}


SAFE = {   # shown to be unnecessary: these must hold
    'no_floor':        ('late', "HELLO names the record, the record needs no floor"),
    'load_first':      ('reset', "the task looks at the load before the handle"),
}


class Violation(Exception):
    pass


class Model:
    """States are nested tuples: (client, conns, task, budgets).
    client = (ops, next, window, cid, phase, record id, life, variable)
       ops[i]: 'i' to be called, 'r0' refused, to be repeated, called for creation 0, 'w' in the window, or what the callback
               said: ('OK', value, creation), 'N' nothing applied, 'D' deadline: may be applied in part or in full,
               'U' ABORTED, outcome unknown
       window: (number, op, sent frames or -1, abandoned, (position, value) or None, creation it is sent to,
               creation it was called for), rising
       variable: (creation, used), creation None: lost before it was used, to be got again; False: lost for good
       phase:  'd' down, 'h' HELLO sent, 'u' up, 'x' the session is over: refused as another identity's
    conns = ((cid, at the task: 'b' HELLO unread, 'p' reply waits for the log, 'o' open, 'g' gone, c2s, s2c) ...)
    task = (life, record, counts, value, position, durable, log not yet durable, record ids given, held, creation)
       record: None or (cid, id, floor, ((number, state, op, offset, position, value) ...), owner), state A applied, R refused for
               load, G refused because its creation is gone, P in progress, X abandoned
       counts: how often each frame of each op was applied;  durable: (record, counts, value, position)"""

    def __init__(self, scenario, rules=()):
        self.ops, budgets = SCENARIOS[scenario]
        self.budgets = budgets + (0,) * (STEAL + 1 - len(budgets))
        self.rules = frozenset(rules)
        self.first, n = [], 0
        for frames, _, _ in self.ops:                  # index of each op's first frame in counts
            self.first.append(n)
            n += frames
        self.nframes = n
        self.logged = any(c == JRN for _, c, _ in self.ops)

    def start(self):
        zero = (0,) * self.nframes
        client = (('i',) * len(self.ops), 1, (), 0, 'd', 0, None, (0, False))
        task = (0, None, zero, 0, 0, (None, zero, 0, 0), (), 0, None, 0)
        return (client, (), task, self.budgets)

    # ---- the task ------------------------------------------------------------------------------
    def put(self, record, entry):
        """record with entry; the last WINDOW numbers are kept"""
        cid, rid, floor, ents, owner = record
        ents = tuple(e for e in ents if e[0] != entry[0]) + (entry,)
        top = max(e[0] for e in ents)
        for e in ents:
            if e[0] <= top - WINDOW and e[1] == 'P':
                raise Violation('task forgets number %d in progress' % e[0])
        return (cid, rid, floor, tuple(sorted(e for e in ents if e[0] > top - WINDOW)), owner)

    def replay(self, durable, entry):
        record, counts, value, _ = durable
        pos, kind = entry[:2]
        if kind == 'S':
            record = (0, entry[2], entry[3], (), NOBODY if 'owner_unlogged' in self.rules else entry[4])
        elif kind == 'F':
            _, _, ent, frame = entry
            op = ent[2]
            if 'unlogged_record' not in self.rules:
                record = self.put(record or (0, 0, 0, (), OWN), ent)
            if self.ops[op][1] == JRN:
                i = self.first[op] + frame
                counts = counts[:i] + (counts[i] + 1,) + counts[i + 1:]
                value = ent[5] or value
        elif kind == 'X' and 'unlogged_record' not in self.rules:
            record = self.put(record or (0, 0, 0, ()), entry[2])
        return (record, counts, value, pos)

    def watermark(self, task):
        return task[4] if 'durable_applied' in self.rules else task[5][3]

    def hello_reply(self, task, listed, named):
        record, states = task[1], []
        known = {e[0]: e for e in record[3]}
        for num in listed:
            e = known.get(num)
            if 'no_record' in self.rules:
                states.append((num, '-', 0, 0, 0))
            elif named != record[1] and not self.rules & {'fresh_record', 'floor_only'}:
                states.append((num, '?', 0, 0, 0))
            elif e:
                states.append((num, e[1], e[3], e[4], e[5]))
            elif num < record[2] and not self.rules & {'fresh_record', 'no_floor'}:
                states.append((num, '?', 0, 0, 0))
            else:
                states.append((num, '-', 0, 0, 0))
        if self.fresh:                                  # no record of this session when HELLO came
            states = [(n, '?', 0, 0, 0) for n, *_ in states]
        return ('h', record[1], task[0], tuple(states), self.watermark(task))

    def end_torn(self, task, num, entry):
        """number becomes abandoned at its offset; logged where its container is"""
        life, record, counts, value, pos, durable, log, rids, held, creation = task
        ent = (num, 'X', entry[2], entry[3], 0, 0) if entry else (num, 'X', None, 0, 0, 0)
        record = self.put(record, ent)
        if entry and self.ops[entry[2]][1] == JRN:
            pos += 1
            log += ((pos, 'X', ent),)
        return (life, record, counts, value, pos, durable, log, rids, held, creation)

    def hello(self, conns, task, conn):
        _, nxt, listed, abandoned, named = conn[2][0]
        life, record, counts, value, pos, durable, log, rids, held, creation = task
        cid = conn[0]
        if record and record[4] == THIEF:
            refused = (cid, 'g', (), (('I', self.watermark(task)),))
            return tuple(refused if c[0] == cid else c for c in conns), task
        if record and cid < record[0] and 'lower_accepted' not in self.rules:
            return tuple(c for c in conns if c[0] != cid), task
        kept = []
        for c in conns:                                 # close the older connection, drop its bytes
            if c[0] != cid and c[1] in 'op' and 'old_conn' not in self.rules:
                if 'held' in self.rules and c[2] and c[2][0][0] == 'F':
                    held = c[2][0]
                continue
            kept.append(c)
        fresh = record is None
        if fresh:
            rids += 1
            record = (cid, rids, nxt, (), OWN)
            if self.logged:
                pos += 1
                log += ((pos, 'S', rids, nxt, OWN),)
        else:
            record = (cid,) + record[1:4] + (OWN,)
        task = (life, record, counts, value, pos, durable, log, rids, held, creation)
        for e in record[3]:
            over = e[0] not in listed and (e[0] < nxt or 'end_any' in self.rules) and 'leave_torn' not in self.rules
            if e[1] == 'P' and (e[0] in abandoned or over):
                task = self.end_torn(task, e[0], e)
        have = {e[0] for e in record[3]}
        for num in abandoned:
            if num not in have and (num >= record[2] or 'no_floor' in self.rules):
                task = self.end_torn(task, num, None)
        self.fresh = fresh and 'fresh_record' in self.rules
        return self.answer(tuple(kept), task, cid, listed, named)

    def steal(self, conns, task, client):
        """HELLO of another identity with the session's id: all numbers of the window listed as abandoned"""
        life, record, counts, value, pos, durable, log, rids, held, creation = task
        if record is None:                              # nobody has it: the thief has a session of its own
            rids += 1
            record = (0, rids, client[1], (), THIEF)
            if self.logged:
                pos += 1
                log += ((pos, 'S', rids, client[1], THIEF),)
            return conns, (life, record, counts, value, pos, durable, log, rids, held, creation)
        if record[4] == THIEF:
            return conns, task
        if 'no_owner' in self.rules or record[4] == NOBODY:
            raise Violation('another identity is told what became of the session\'s numbers')
        if 'owner_late' in self.rules:
            conns = tuple(c if c[1] == 'b' else (c[0], 'g', (), c[3]) for c in conns)
        if 'owner_later' in self.rules:
            for e in record[3]:
                if e[1] == 'P':
                    task = self.end_torn(task, e[0], e)
        return conns, task

    def answer(self, conns, task, cid, listed, named):
        durable = task[5]
        waits = (self.logged and (not durable[0] or durable[0][1] != task[1][1])
                 and not self.rules & {'reply_early', 'unlogged_record'})
        out = []
        for c in conns:
            if c[0] == cid:
                c = (cid, 'p', (listed, named, self.fresh), ()) if waits else \
                    (cid, 'o', (), c[3] + (self.hello_reply(task, listed, named),))
            out.append(c)
        return tuple(out), task

    def frame(self, client, task, msg, refuse):
        """one frame reaches the head of its connection; returns task, reply or None, or None for GAP"""
        _, num, op, frame, meant = msg
        life, record, counts, value, pos, durable, log, rids, held, creation = task
        frames, level, valued = self.ops[op]
        e = next((e for e in record[3] if e[0] == num), None)
        if e and 'no_record' in self.rules and frame == 0:
            e = None
        if e and e[1] in 'RXG':
            return task, None                           # read and discarded
        if e is None and frame != 0 or e and 'offset_ignored' not in self.rules and (e[1] != 'P' or e[3] != frame):
            return None
        gone = level == MEM and meant != creation and 'creation_ignored' not in self.rules
        if gone and not (refuse and 'load_first' in self.rules):
            task = (life, self.put(record, (num, 'G', op, 0, 0, 0))) + task[2:]
            return task, ('R', num, 'G', 0, 0, self.watermark(task))
        if refuse:
            if 'refusal_lost' not in self.rules:
                record = self.put(record, (num, 'R', op, 0, 0, 0))
            task = (life, record) + task[2:]
            return task, ('R', num, 'R', 0, 0, self.watermark(task))
        # application: this is where exactly once is checked
        w = next((w for w in client[2] if w[0] == num and w[1] == op), None)
        if w is None:
            raise Violation('number %d applied after it left the window' % num)
        if level == MEM and client[6] != life:
            raise Violation('op %d applied to a new incarnation before the client was told' % op)
        if level == MEM and w[6] != creation:
            raise Violation('op %d, called for creation %d, lands in creation %d' % (op, w[6], creation))
        i = self.first[op] + frame
        counts = counts[:i] + (counts[i] + 1,) + counts[i + 1:]
        if counts[i] > 1:
            raise Violation('frame %d of op %d applied twice' % (frame, op))
        pos += 1
        last = frame + 1 == frames
        result = life * 100 + pos if valued else 0
        value = result or value
        ent = (num, 'A' if last else 'P', op, frame + 1, pos, result)
        record = self.put(record, ent)
        if level == JRN or 'log_memory' in self.rules and self.logged:
            log += ((pos, 'F', ent, frame),)
        task = (life, record, counts, value, pos, durable, log, rids, held, creation)
        return task, ('R', num, 'A', pos, result, self.watermark(task)) if last else None

    def restart(self, conns, task):
        life, record, counts, value, pos, durable, log, rids, held, creation = task
        conns = tuple(c if c[1] == 'b' else (c[0], 'g', (), c[3]) for c in conns)
        return conns, (life + 1, durable[0], durable[1], durable[2], durable[3], durable, (), rids, None, creation)

    def reset(self, conns, task):
        """the memory container is emptied: what is in progress there ends, and its client is told"""
        life, record, counts, value, pos, durable, log, rids, held, creation = task
        counts = tuple(n if self.ops[i][1] == JRN else 0 for i in range(len(self.ops))
                       for n in counts[self.first[i]:self.first[i] + self.ops[i][0]])
        out = ()
        for e in record[3] if record else ():
            if e[1] == 'P' and self.ops[e[2]][1] == MEM:
                record = self.put(record, (e[0], 'X', e[2], e[3], 0, 0))
                out += (('R', e[0], 'X', 0, 0, self.watermark(task)),)
        conns = tuple((c[0], 'o', c[2], c[3] + out) if c[1] == 'o' else c for c in conns)
        return conns, (life, record, counts, value, pos, durable, log, rids, held, creation + 1)

    # ---- the client ----------------------------------------------------------------------------
    def lose(self, ops, var, gone):
        """the client learns that this creation is gone: only what is in the window goes on"""
        if var[0] != gone:
            return ops, var
        over = ('i', 'r') if var[1] else ('r',)
        ops = tuple('N' if s[0] in over and self.ops[i][1] == MEM else s for i, s in enumerate(ops))
        return ops, (False if var[1] else None, var[1])

    def refused(self, ops, win, w, var):
        if w[5] == var[0] or self.ops[w[1]][1] == JRN or 'repeat_any' in self.rules:
            return self.finish(ops, win, w, 'r%d' % w[6])
        return self.finish(ops, win, w, 'N')             # ABORTED, nothing applied

    def finish(self, ops, win, w, outcome):
        """w leaves the window with a final outcome; an abandoned one has had its callback"""
        win = tuple(x for x in win if x[0] != w[0])
        if not w[3]:
            ops = ops[:w[1]] + (outcome,) + ops[w[1] + 1:]
        return ops, win

    def applied(self, ops, win, w, pos, value, durable):
        if w[3] or self.ops[w[1]][1] == MEM or pos <= durable or 'ack_applied' in self.rules:
            return self.finish(ops, win, w, ('OK', value, w[6]))
        return ops, tuple((x[0], x[1], x[2], x[3], (pos, value)) + x[5:] if x[0] == w[0] else x for x in win)

    def receive(self, client, msg):
        """returns client, messages to send"""
        ops, nxt, win, cid, phase, rid, life, var = client
        out = ()
        if msg[0] == 'h':
            _, rid, newlife, states, durable = msg
            lost = life is not None and life != newlife
            if lost:                                     # a typed error for the memory container
                ops = tuple('N' if s[0] in 'ir' and self.ops[i][1] == MEM else s for i, s in enumerate(ops))
            life = life if life is not None else newlife
            known = {s[0]: s for s in states}
            for w in win:
                _, st, off, pos, value = known.get(w[0], (w[0], '-', 0, 0, 0))
                if 'old_position' in self.rules and w[4] and w[4][0] <= durable:
                    ops, win = self.finish(ops, win, w, ('OK', w[4][1], w[6]))
                    continue
                if lost and self.ops[w[1]][1] == MEM and not self.rules & {'resend_new_inc', 'log_memory'}:
                    ops, win = self.finish(ops, win, w, 'U')
                elif st == 'A':
                    ops, win = self.applied(ops, win, (w[0], w[1], w[2], w[3], None) + w[5:], pos, value,
                                            10 ** 6 if 'hello_completes' in self.rules else durable)
                    var = (var[0], var[1] or w[5] == var[0])
                elif st == 'R':
                    ops, win = self.refused(ops, win, w, var)
                elif st == 'G':
                    ops, win = self.finish(ops, win, w, 'N')
                    ops, var = self.lose(ops, var, w[5])
                elif st == 'X' or st == '?' and 'resend_unknown' not in self.rules:
                    ops, win = self.finish(ops, win, w, 'U')
                elif st == 'P':
                    off = 0 if self.rules & {'offset_ignored', 'offset_client'} else off
                    win = tuple((x[0], x[1], off, x[3], None) + x[5:] if x[0] == w[0] else x for x in win)
                    out += (('A', w[0]),) if w[3] else ()
                elif w[3]:                               # not received, and nobody waits for it any more
                    ops, win = self.finish(ops, win, w, 'U')
                elif self.ops[w[1]][1] == MEM and w[5] != var[0] and 'resume_any' not in self.rules:
                    ops, win = self.finish(ops, win, w, 'N')
                elif lost and self.ops[w[1]][1] == MEM and 'log_memory' in self.rules:
                    ops, win = self.finish(ops, win, w, 'U')
                else:
                    win = tuple((x[0], x[1], 0, x[3], x[4] if 'old_position' in self.rules else None,
                                 x[5] if type(var[0]) is not int or 'resume_any' not in self.rules else var[0], x[6])
                                if x[0] == w[0] else x for x in win)
            # entries that are applied and wait for durable have nothing left to send
            win = tuple((x[0], x[1], self.ops[x[1]][0] if x[4] and x[2] < 0 else x[2], x[3], x[4]) + x[5:]
                        for x in win)
            phase = 'u'
        elif msg[0] == 'I':                              # refused as another identity's: the session is over
            for w in win:
                ops, win = self.finish(ops, win, w, 'U')
            ops = tuple('N' if s[0] in 'ir' else s for s in ops)
            return (ops, nxt, win, cid, 'x', rid, life, var), ()
        elif msg[0] == 'R':
            _, num, st, pos, value, durable = msg
            w = next((w for w in win if w[0] == num), None)
            if w and st == 'A':
                ops, win = self.applied(ops, win, w, pos, value, durable)
                var = (var[0], var[1] or w[5] == var[0])
            elif w and st == 'R':
                ops, win = self.refused(ops, win, w, var)
            elif w:
                ops, win = self.finish(ops, win, w, 'N' if st == 'G' else 'U')
                ops, var = self.lose(ops, var, w[5]) if st == 'G' else (ops, var)
        durable = msg[-1]
        for w in win:
            if w[4] and w[4][0] <= durable and phase == 'u':
                ops, win = self.finish(ops, win, w, ('OK', w[4][1], w[6]))
        return (ops, nxt, win, cid, phase, rid, life, var), out

    def down(self, client):
        ops, nxt, win, cid, _, rid, life, var = client
        keep = 'old_position' in self.rules
        return (ops, nxt, tuple((w[0], w[1], -1, w[3], w[4] if keep else None) + w[5:] for w in win), cid, 'd', rid, life, var)

    # ---- all steps from a state: (label, is a fault, state) ---------------------------------------
    def steps(self, state):
        client, conns, task, budgets = state
        ops, nxt, win, cid, phase, rid, life, var = client
        record = task[1]

        def spend(kind):
            return budgets[:kind] + (budgets[kind] - 1,) + budgets[kind + 1:]

        def with_conn(c):
            return tuple(c if x[0] == c[0] else x for x in conns)

        mine = next((c for c in conns if c[0] == cid), None)
        # client: connect, lose the connection, receive
        if phase == 'd':
            listed = tuple(w[0] for w in win)
            abandoned = tuple(w[0] for w in win if w[3])
            h = ('H', nxt, listed, abandoned, rid)
            yield 'client connects, HELLO%r as %d' % (h[1:], cid + 1), 0, (
                (ops, nxt, win, cid + 1, 'h', rid, life, var), conns + ((cid + 1, 'b', (h,), ()),), task, budgets)
        elif phase != 'x':
            gone = mine is None or mine[1] == 'g' and not (mine[3] and mine[3][0][0] == 'I')   # a refusal comes before the end
            if gone or budgets[DISC]:
                rest = tuple(c for c in conns if c[0] != cid) if gone else with_conn((cid, mine[1], mine[2], ()))
                yield 'client loses connection %d' % cid, not gone, (
                    self.down(client), rest, task, budgets if gone else spend(DISC))
            if mine and mine[3]:
                c2, out = self.receive(client, mine[3][0])
                c2s = mine[2] + out if mine[1] != 'g' else ()
                yield 'client receives %r' % (mine[3][0],), 0, (
                    c2, with_conn((cid, mine[1], c2s, mine[3][1:])), task, budgets)
        # client: its variable
        if phase == 'u' and mine and mine[1] == 'o' and type(var[0]) is int and var[0] != task[9]:
            o2, v2 = self.lose(ops, var, var[0])
            yield 'a read says that creation %d is gone' % var[0], 0, ((o2,) + client[1:7] + (v2,), conns, task, budgets)
        if phase == 'u' and mine and mine[1] == 'o' and var[0] is None:
            yield 'client gets the variable again', 0, (client[:7] + ((task[9], False),), conns, task, budgets)
        # client: send
        if phase == 'u':
            can_write = mine is not None and mine[1] == 'o'

            def sent(c2, msg, label):
                rest = with_conn((cid, 'o', mine[2] + (msg,), mine[3])) if can_write else conns
                return label, 0, (c2, rest, task, budgets)
            unsent = [w for w in win if w[2] == 0 and not w[3]]
            for w in win:
                if 0 <= w[2] < self.ops[w[1]][0] and not w[3] and (w[2] > 0 or w is unsent[0]):
                    c2 = (ops, nxt, tuple((x[0], x[1], x[2] + 1, x[3], x[4]) + x[5:] if x is w else x for x in win),
                          cid, phase, rid, life, var)
                    yield sent(c2, ('F', w[0], w[1], w[2], w[5]), 'client sends number %d op %d frame %d' % w[:3])
            first = win[0][0] if win else nxt
            if not unsent and nxt < first + WINDOW and type(var[0]) is int:
                todo = [i for i, s in enumerate(ops) if s == 'i'][:1] + [i for i, s in enumerate(ops) if s[0] == 'r']
                for i in todo:
                    c2 = (ops[:i] + ('w',) + ops[i + 1:], nxt + 1, win + ((nxt, i, 1, 0, None, var[0], int(ops[i][1:] or var[0])),),
                          cid, phase, rid, life, var)
                    yield sent(c2, ('F', nxt, i, 0, var[0]), 'client sends number %d op %d frame 0 (new)' % (nxt, i))
        # client: deadline
        if budgets[DEADLINE]:
            for i, s in enumerate(ops):
                if s[0] == 'r':
                    yield 'deadline of op %d: nothing applied' % i, 1, (
                        (ops[:i] + ('N',) + ops[i + 1:],) + client[1:], conns, task, spend(DEADLINE))
            for w in win:
                if w[3]:
                    continue
                never = phase == 'u' and w[2] == 0       # not received, and not sent again yet
                o2 = ops[:w[1]] + ('N' if never else 'D',) + ops[w[1] + 1:]
                w2 = tuple(x if x is not w else (x[0], x[1], x[2], 1, None) + x[5:] for x in win
                           if not (x is w and (never or 'early_leave' in self.rules)))
                tell = phase == 'u' and not never and mine and mine[1] == 'o'
                rest = with_conn((cid, 'o', mine[2] + (('A', w[0]),), mine[3])) if tell else conns
                yield 'deadline of op %d, number %d' % (w[1], w[0]), 1, (
                    (o2, nxt, w2) + client[3:], rest, task, spend(DEADLINE))
        # task: read, notice a close
        for c in conns:
            if c[0] != cid or phase in 'dx':             # given up by the client
                yield 'task sees connection %d closed' % c[0], 0, (
                    client, tuple(x for x in conns if x is not c), task, budgets)
            elif c[1] != 'g' and budgets[DISC]:
                yield 'connection %d breaks at the task' % c[0], 1, (
                    client, with_conn((c[0], 'g', (), c[3])), task, spend(DISC))
            alive = c[0] == cid and phase != 'd'
            if c[1] == 'b':
                n2, t2 = self.hello(conns, task, c)
                yield 'task reads HELLO of %d' % c[0], 0, (client, self.prune(n2, cid, phase), t2, budgets)
            elif c[1] == 'o' and c[2] and record is not None:
                msg, rest = c[2][0], c[2][1:]
                if msg[0] == 'A':
                    e = next((e for e in record[3] if e[0] == msg[1]), None)
                    t2 = task if e and e[1] != 'P' else self.end_torn(task, msg[1], e)
                    st = e[1] if e and e[1] != 'P' else 'X'
                    r = ('R', msg[1], st, e[4] if e else 0, e[5] if e else 0, self.watermark(t2))
                    yield 'task reads ABANDON(%d): %s' % (msg[1], st), 0, (
                        client, with_conn((c[0], 'o', rest, c[3] + (r,) if alive else ())), t2, budgets)
                    continue
                late = 'late_refusal' in self.rules
                for refuse in (0, 1):
                    if refuse and (not budgets[REFUSE] or (msg[3] == 0) == late):
                        continue
                    got = self.frame(client, task, msg, refuse)
                    label = 'task %s number %d op %d frame %d' % ((('takes', 'refuses')[refuse],) + msg[1:4])
                    if got is None:
                        yield label + ': GAP, closes', 0, (client, with_conn((c[0], 'g', (), c[3])), task, budgets)
                    else:
                        s2c = c[3] + ((got[1],) if got[1] and alive else ())
                        yield label, refuse, (client, with_conn((c[0], 'o', rest, s2c)), got[0],
                                              spend(REFUSE) if refuse else budgets)
        if task[8]:                                      # only the mutant `held`
            got = self.frame(client, task, task[8], 0) if record else None
            t2 = got[0] if got else task
            yield 'task applies the held-back segment', 0, (client, conns, t2[:8] + (None,) + t2[9:], budgets)
        # task: disk, record dropped, restart
        durable = task[5]
        for k in range(len(task[6])):
            durable = self.replay(durable, task[6][k])
            t2 = task[:5] + (durable, task[6][k + 1:]) + task[7:]
            n2 = conns
            for c in conns:
                if c[1] == 'p':
                    self.fresh = c[2][2]
                    n2, _ = self.answer(n2, t2, c[0], c[2][0], c[2][1])
                elif c[1] == 'o' and c[0] == cid and phase != 'd' and 'silent_durable' not in self.rules:
                    n2 = tuple((x[0], 'o', x[2], x[3] + (('W', durable[3]),)) if x[0] == c[0] else x for x in n2)
            yield 'log durable to %d' % durable[3], 0, (client, n2, t2, budgets)
        if record and budgets[DROP] and not any(c[1] in 'op' for c in conns):
            yield 'session_keep over: record dropped', 1, (
                client, conns, task[:1] + (None,) + task[2:], spend(DROP))
        if budgets[STEAL]:
            n2, t2 = self.steal(conns, task, client)
            yield 'a thief says HELLO', 1, (client, self.prune(n2, cid, phase), t2, spend(STEAL))
        if budgets[RESET]:
            n2, t2 = self.reset(conns, task)
            yield 'reset: creation %d' % t2[9], 1, (client, n2, t2, spend(RESET))
        if budgets[RESTART]:
            n2, t2 = self.restart(conns, task)
            yield 'task restarts', 1, (client, self.prune(n2, cid, phase), t2, spend(RESTART))

    def prune(self, conns, cid, phase):
        return tuple(c for c in conns if c[1] != 'g' or c[0] == cid and phase != 'd')

    # ---- invariants --------------------------------------------------------------------------------
    def check(self, state):
        client, conns, task, budgets = state
        ops, counts = client[0], task[2]
        for i, s in enumerate(ops):
            mine = counts[self.first[i]:self.first[i] + self.ops[i][0]]
            if max(mine) > 1:
                raise Violation('op %d applied twice: %r' % (i, mine))
            if self.ops[i][1] == MEM and client[6] != task[0]:
                continue                                 # the incarnation changed; use of it is checked in frame()
            if s[0] == 'OK' and self.ops[i][1] == MEM and s[2] != task[9]:
                continue                                 # it went with its creation
            if s[0] == 'OK' and min(mine) < 1:
                raise Violation('op %d was told OK, surviving state has %r' % (i, mine))
            if s[0] == 'OK' and self.ops[i][2] and s[1] != task[3]:
                raise Violation('op %d was told value %d, surviving state has %d' % (i, s[1], task[3]))
            if s == 'U' and budgets[DROP] == self.budgets[DROP] and budgets[RESET] == self.budgets[RESET] and (
                    self.ops[i][1] == JRN or budgets[RESTART] == self.budgets[RESTART]):
                raise Violation('op %d ended ABORTED without need' % i)
            if s[0] in 'Nr' and max(mine) > 0:
                raise Violation('op %d was told nothing applied, surviving state has %r' % (i, mine))
        if client[3] > 1 + sum(self.budgets[:2]) - sum(budgets[:2]):
            raise Violation('a connection was closed without a fault (%d connections)' % client[3])
        quiet = client[4] == 'u' and not client[2] and all(not c[2] and not c[3] for c in conns) and conns
        if quiet and conns[0][1] == 'o' and task[1] and any(e[1] == 'P' for e in task[1][3]):
            raise Violation('a push that nobody will go on with stays in progress')

    def done(self, state):
        client = state[0]
        return not client[2] and all(s[0] not in 'irw' for s in client[0])

    # ---- search ------------------------------------------------------------------------------------
    def explore(self, limit=4_000_000):
        first = self.start()
        index, states, parent, label = {first: 0}, [first], array('l', [-1]), ['start']
        src, dst = array('l'), array('l')
        self.fresh = False

        def trace(i, more=()):
            lines = list(more)
            while i > 0:
                lines.insert(0, label[i])
                i = parent[i]
            return lines
        at = 0
        while at < len(states):
            state = states[at]
            states[at] = None if not self.done(state) else True
            found = None                                 # the state that check() looks at
            try:
                for step, fault, new in self.steps(state):
                    found = None
                    i = index.get(new)
                    if i is None:
                        i = len(states)
                        index[new] = i
                        states.append(new)
                        parent.append(at)
                        label.append(step)
                        found = i
                        self.check(new)
                    if not fault:
                        src.append(at)
                        dst.append(i)
                    found = None
            except Violation as v:
                return len(states), str(v), trace(found) if found else trace(at, ('the next step would be it',))
            at += 1
            if at > limit:
                return len(states), LIMIT, []
        n = len(states)
        ok = bytearray(1 if s else 0 for s in states)
        changed = True
        while changed:                                   # edges are nearly in topological order
            changed = False
            for e in range(len(src) - 1, -1, -1):
                if ok[dst[e]] and not ok[src[e]]:
                    ok[src[e]] = 1
                    changed = True
        if ok.find(0) >= 0:
            moves = bytearray(n)
            for e in src:
                moves[e] = 1
            dead = next((i for i in range(n) if not ok[i] and not moves[i]), None)
            return (n, 'stuck: no end state without a further fault (%s)' % ('livelock' if dead is None else 'dead end'),
                    trace(ok.find(0) if dead is None else dead))
        return n, None, []


def job(args):
    scenario, rules = args
    gc.disable()                                    # no state is in a circle
    t = time.time()
    n, bad, lines = Model(scenario, rules).explore()
    return scenario, rules, n, bad, lines, time.time() - t


def main():
    if len(sys.argv) > 1:
        rules = sys.argv[2].split(',') if len(sys.argv) > 2 else ()
        _, _, n, bad, lines, secs = job((sys.argv[1], rules))
        print('\n'.join('%3d %s' % (k + 1, s) for k, s in enumerate(lines)))
        print('%s: %d states, %.1f s: %s' % (sys.argv[1], n, secs, bad or 'holds'))
        return 1 if bad else 0
    jobs = [(s, ()) for s in SCENARIOS]
    jobs += [(s, (r,)) for group in (SAFE, LITERAL, MUTANTS) for r, (s, _) in group.items()]
    wrong = total = 0
    with multiprocessing.Pool(2, maxtasksperchild=1) as pool:
        for scenario, rules, n, bad, lines, secs in pool.imap(job, jobs):
            total += n
            wrong += bool(bad) != (bool(rules) and rules[0] not in SAFE)
            print('%-8s %-16s %8d states %5.1f s  %s' % (scenario, ','.join(rules) or '(as designed)', n, secs,
                  ('%s [%d steps]' % (bad, len(lines))) if bad else 'holds'), flush=True)
    print('%d states, %d surprises' % (total, wrong))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
