#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of the protocol between directory and owners (docs/PROTOCOL.md sections 4 to 6): names, readiness, reset,
restarts, and two processes that say that they are the same task.
usage: directory_model.py [all | base | fixes | mutants | twin | run SCENARIO [-FLAG ...]] [states=N] [seconds=N]

The model of the directory that was explored before the protocol was written in C; here it has a twin as well: a second process of
one task, with its own life and variables, that dials the directory. Its scenarios begin with twin.
A message's request leg is modelled only where a delay can matter (directory->owner, owner->directory,
client->owner mutations); a read, and an answer to a client, happens when the receiver acts on it.
Every event that is not a fault can always happen again (redial, delivery), so "a get-or-create can
complete" is checked backwards over the non-fault edges from every state that completes one.

What is promised of two processes of one task: the one that has the place (it is connected, its list is answered, and it has
dropped what it was told to) serves nothing that another process has had since, nothing from before an acknowledged reset, and
everything else that was acknowledged; and a process that had the place does not take it from one that is connected. What a client
does at a process that has lost the place is not looked at: it trains a copy of its own, and the log says so."""
import gc, sys, time
from array import array
from multiprocessing import Pool

# The protocol of psd: every flag True.  Clearing one = a weaker rule that looks right, or a mutant.
FLAGS = {
  # rules that are easy to leave out
  'record_first':   'the directory records name->task before it sends CREATE, keeps it when the owner drops out',
  'drop_every':     'a task drops the older directory connection at EVERY new one, not only at a new life',
  'seal':           'a variable counts as live once a chief has finished ready, not only at version > 0',
  'chief_term':     'INIT carries the number of the chief lease; an owner refuses one lower than it has seen',
  'fence':          'a task of another job drops its variables after a lease without the directory, which waits for that',
  'reset_durable':  'reset/delete are recorded beside the checkpoint before the answer, at every level',
  'restored_fresh': 'ready treats "restored at version 0" like uninitialised',
  'same_job_drop':  'list answer: names placed elsewhere are dropped by a task of ANY job',
  'delete_keeps':   'a name is not forgotten when its DELETE is answered while a later CREATE of it is under way',
  'var_inc':        'an unsent push is repeated only to the same variable creation, not just same incarnation',
  # two processes of one task
  'no_return':      'a process that is not new does not displace one that is connected',
  'stale_names':    'a returning process drops what another one has confirmed since',
  'stale_gone':     'a returning process drops what was forgotten meanwhile (the reset that it missed is owed to it)',
  'relist':         'a task that was told to drop names is asked for nothing until a list of its own has none of them',
  'past_kept':      'what a returning process must drop it must drop on its next connection as well',
  'late':           'a process of an earlier directory that comes after another one has listed is a returning one',
  'displaced_drop': 'a process that was refused as displaced drops all before it lists at another life of the directory',
  'told_kept':      'it remembers that until a list of its own has been answered',
  'listed_since':   'what a process comes back with is stale only where another one has listed since it was the task',
  'asked_too':      'who was asked for a name last may come back with it also where another one had it before',
  'told_listed':    'a refused process counts as displaced only where the other one has listed',
  # a task empties a container in slices
  'emptying':       'nothing is created in a container while what a RESET has taken out of it is freed',
  # mutants: plain mistakes
  'answer_last':    'the directory answers after the owner',
  'refuse_old':     'a task refuses directory lives it has left',
  'list_every':     'a task lists its names on every connection, not once per directory life',
  'reset_waits':    'reset is answered after all tasks',
  'version_check':  'ready checks for half a model',
  'init_cond':      'INIT assigns only if uninitialised',
  'life_check':     'a client compares the life before it uses a handle on a new connection',
  'wait_lists':     'a starting directory waits for the lists of its own job',
  'block_create':   'no creation while a reset is pending',
}
GAPS = list(FLAGS)[:10]
TWINS = list(FLAGS)[10:21]
MUTANTS = list(FLAGS)[21:]
NAMES = 2
WARM = ('task 1 dials', 'directory reads', 'task 1 reads', 'chief A: get', 'task 1 reads', 'directory reads',
        'chief A: opens a at task 1')
# scenario: tasks, clients (chief A, worker, chief B), requested task per client and name, fault budgets
SCENARIOS = {
  'create':  dict(tasks=2, clients=2, req=[(1, 0), (0, 1)], faults=dict(r0=1, r1=1, cut1=1), total=3),
  'reset':   dict(tasks=2, clients=2, req=[(1, 0), (1, 1)], faults=dict(r0=1, r1=1, cut1=1, reset=1, again=1), total=2),
  'reset2':  dict(tasks=2, clients=1, req=[(1, 1)], faults=dict(cut1=2, reset=1, again=2, r0=1), total=4, train=True),
  'chiefs':  dict(tasks=2, clients=3, req=[(0, 1), (0, 1), (0, 1)], faults=dict(r1=1, die=1), total=2),
  'frozen':  dict(tasks=2, clients=3, req=[(0, 1), (0, 1), (0, 1)], faults=dict(r1=1), total=1, frozen=1),
  'loss':    dict(tasks=2, clients=2, req=[(0, 1), (0, 1)], faults=dict(r0=1, r1=1, again=2), total=2),
  'other':   dict(tasks=3, clients=2, req=[(2, 0), (1, 0)], faults=dict(r0=1, cut2=1, reset=1), total=2),
  'ckpt':    dict(tasks=2, clients=1, req=[(0, 1)], faults=dict(ckpt1=1, r1=1, k1=1, again=2, reset=1), total=4, train=True),
  'ckpt2':   dict(tasks=2, clients=2, req=[(1, 0), (0, 0)], faults=dict(ckpt1=1, k1=1, again=2, reset=1), total=4, train=True),
  'journal': dict(tasks=2, clients=2, req=[(1, 1), (1, 1)], faults=dict(j1=1, delete=1, again=1), total=3),
  'delete':  dict(tasks=2, clients=2, req=[(1, 1), (0, 0)], total=2, open=True,
                  faults=dict(cut1=1, delete=1, again=2)),
  # twin: the task that has two processes; the second one is number `tasks`, and starts whenever it likes
  'twin':    dict(tasks=2, twin=1, clients=1, open=True, req=[(1, 1)], total=3,
                  faults=dict(cut1=1, cut2=1, reset=1, again=1)),
  'twin_l':  dict(tasks=2, twin=1, clients=1, open=True, req=[(1, 1)], total=3, names=1,
                  faults=dict(r0=1, cut2=1, reset=1)),
  'twin_1':  dict(tasks=2, twin=1, clients=1, open=True, req=[(1, 1)], total=3, names=1,
                  faults=dict(cut1=1, cut2=1, reset=1, again=1)),
  # the same two, from where task 1 has the name and its twin has not come yet
  'twin_lw': dict(tasks=2, twin=1, clients=1, open=True, req=[(1, 1)], total=3, names=1, warm=WARM,
                  faults=dict(r0=1, cut2=1, reset=1)),
  'twin_1w': dict(tasks=2, twin=1, clients=1, open=True, req=[(1, 1)], total=3, names=1, warm=WARM,
                  faults=dict(cut1=1, cut2=1, reset=1, again=1)),
  # the same, and the name is found and used although its creation was never answered
  'twin_f':  dict(tasks=2, twin=1, clients=1, open=True, req=[(1, 1)], total=3, names=1, warm=WARM, find=True,
                  faults=dict(r1=1, cut1=1, cut2=1, again=1)),
  'twin_fr': dict(tasks=2, twin=1, clients=1, open=True, req=[(1, 1)], total=4, names=1, warm=WARM, find=True,
                  faults=dict(r0=1, r1=1, cut1=1, cut2=1, reset=1, again=1)),
  'twin_d':  dict(tasks=2, twin=1, clients=1, open=True, req=[(1, 1)], total=3,
                  faults=dict(cut1=1, cut2=1, delete=1, again=1)),
  'twin_r':  dict(tasks=2, twin=1, clients=1, open=True, req=[(1, 1)], total=3,
                  faults=dict(r0=1, r1=1, cut2=1, reset=1, again=1)),
  'twin_0':  dict(tasks=2, twin=1, clients=1, open=True, req=[(1, 0)], total=4,
                  faults=dict(r0=2, cut1=1, cut2=1, again=1)),
  'twin_t':  dict(tasks=2, twin=1, clients=1, req=[(1, 1)], total=2, train=True,
                  faults=dict(cut1=1, cut2=1, reset=1, again=1)),
  'twin_o':  dict(tasks=3, twin=2, clients=1, open=True, req=[(2, 2)], total=3,
                  faults=dict(r0=1, cut2=1, cut3=1, reset=1, again=1)),
}
KINDS = ['r0', 'r1', 'r2', 'k1', 'j1', 'cut1', 'cut2', 'cut3', 'reset', 'delete', 'die', 'again', 'ckpt1']
TWIN_FIRST = sorted(SCENARIOS, key=lambda s: not s.startswith('twin'))
OFF, GET, WAIT, OPEN, CHECK, INIT, INITW, SEAL, PUSH, PUSHW, DONE, TOLD = range(12)
STEP = 'off get wait open check init initwait seal push pushwait done told'.split()
# variable: n = handle number, ver -1 uninit / 0 / 1 trained, hyp = chief whose INIT is in force, sealed, rest(ored);
# ghosts: epoch = resets begun before it was made, taint 1 = made fresh beside trained ones, 2 = trained state lost,
# known 0: this directory has not confirmed it, 1: it has, 2: it has confirmed another process's since, or its deletion,
# 3: as 0, but a client has found it there and uses it, and no other process was asked for it since
VAR = N_, VER, HYP, SEALED, REST, EPOCH, TAINT, KNOWN = range(8)

class World:
    """One state, thawed.  task: [life, inc, next handle, vars, dlife, linked, fenced, checkpoint, listed life, displaced, away, emptying]
    client: [session, step, i, asked, owners, handles, seen]
    tasks, dt, old, td, ct go by process, which is the task's number, or one more for the twin; the others by task.
    at: which process is the task; listed: which one has listed last, -2 one that is dead; settled: that one had nothing to drop;
    past: what the one that is the task will list may be stale; by: which process confirmed a name last; asked: which one was asked for it last, and not confirmed by another
    since.  emptying: what a RESET took out of the container is not freed yet; the answers that wait for that.
    displaced: it was refused as that.  ghost away: 1 another process has had the place (it has listed), 2 the same, and a
    new directory came before it was told so, 3 the same, and it has been told"""
    F = ('tasks', 'clients', 'dt', 'old', 'td', 'ct', 'owner', 'sure', 'heard', 'conn', 'reset', 'epoch', 'acked',
         'cur', 'made', 'lost', 'left', 'at', 'past', 'by', 'asked', 'listed', 'settled')
    def __init__(self, key):
        for f, v in zip(self.F, key): setattr(self, f, list(v) if type(v) is tuple else v)
        self.tasks = [list(t) for t in self.tasks]; self.clients = [list(c) for c in self.clients]
        self.bad = None
    def key(self):
        self.tasks = [tuple(t) for t in self.tasks]; self.clients = [tuple(c) for c in self.clients]
        return tuple(tuple(v) if type(v) is list else v for v in (getattr(self, f) for f in self.F))
    def fail(self, why):
        if self.bad is None: self.bad = why

LIFE, INC, NEXT, VARS, DLIFE, LINKED, FENCED, CKPT, LISTED, DISPLACED, AWAY, EMPTYING = range(12)
SESS, ST, I, ASKED, OWN, H, SEEN = range(7)

def put(t, i, v): return t[:i] + (v,) + t[i + 1:]

class Model:
    def __init__(self, scenario, off=()):
        self.sc = SCENARIOS[scenario]
        self.on = {f: f not in off for f in FLAGS}
        self.nt, self.nc = self.sc['tasks'], self.sc['clients']
        self.twin, self.names = self.sc.get('twin', 0), self.sc.get('names', NAMES)
        self.np = self.nt + (self.twin > 0)                 # processes
        self.task = list(range(self.nt)) + [self.twin]      # of a process
        self.own_job = range(1, min(self.nt, 2))           # ps:1; task 2 is a task of another job
    def start(self):
        key = self.cold()
        for begin in self.sc.get('warm', ()):
            key = next(w.key() for label, _, w in self.next(key) if label.startswith(begin))
        return key
    def cold(self):
        none = (None,) * NAMES
        tasks = tuple((1, 1, 0, none, 0, False, False, None, 0, False, 0, None) for _ in range(self.np))
        clients = tuple((0, GET if c < 2 else OFF, 0, -1, (-1,) * NAMES, none, none) for c in range(self.nc))
        e = ((),) * self.np
        left = tuple(self.sc['faults'].get(k, 0) for k in KINDS) + (self.sc['total'],)
        return (tasks, clients, e, e, e, ((),) * (self.nc * self.np), (-1,) * NAMES, (False,) * NAMES,
                (False,) * self.nt, (False,) * self.nt, None, 0, 0, none, 0, 0, left,
                (-1,) * self.nt, (False,) * self.nt, (-1,) * NAMES, (-1,) * NAMES, (-1,) * self.nt, (False,) * self.nt)
    def twins(self, p): return self.twin and self.task[p] == self.twin
    def of(self, t): return (t, self.nt) if t and t == self.twin else (t,)      # its processes
    # ---- a task's own actions ----
    def create_at(self, w, t, name):
        """False: refused, because the container is being emptied"""
        k = w.tasks[t]
        if k[EMPTYING] is not None and self.on['emptying']: return False
        if k[VARS][name] is None:
            k[VARS] = put(k[VARS], name, (k[NEXT], -1, 0, False, False, w.epoch, 0, 0))
            if not self.twins(t): w.cur[name] = (t, k[LIFE], k[NEXT], w.epoch)
            k[NEXT] += 1
        w.made |= 1 << (t * NAMES + name)
        return True
    def reset_at(self, w, t, epoch):
        k = w.tasks[t]
        for name, v in enumerate(k[VARS]):
            if v and v[EPOCH] >= epoch and w.acked >= epoch and v[VER] > 0 and not k[AWAY]:
                w.fail('late RESET of a finished reset wipes an acknowledged update')
        if any(k[VARS]): k[EMPTYING] = k[EMPTYING] or ()    # nobody finds it any more; it is freed in slices
        k[VARS] = (None,) * NAMES; k[INC] += 1
        if self.on['reset_durable']: k[CKPT] = None
    def emptied(self, w, t):
        """all that a RESET took out of the container is freed"""
        k = w.tasks[t]
        if not self.on['emptying']:
            if any(v and v[VER] > 0 for v in k[VARS]) and not k[AWAY]:
                w.fail('the slices of a RESET free what was made and trained since')
            k[VARS] = (None,) * NAMES
        answers, k[EMPTYING] = k[EMPTYING], None
        if t: w.td[t] += answers
        elif w.reset and not w.reset[1]: self.reset_done(w)
    def list_of(self, k, fenced=False): return ('L', sum(1 << i for i, v in enumerate(k[VARS]) if v), fenced)
    def task_reads(self, w, t, m, answer):
        k = w.tasks[t]
        said = 'ok'
        if m[0] == 'C': said = 'ok' if self.create_at(w, t, m[3]) else 'no'
        elif m[0] == 'R': self.reset_at(w, t, m[1])
        elif m[0] == 'D': k[VARS] = put(k[VARS], m[3], None)
        elif m[0] == 'K':                                   # the directory's answer to a list
            k[VARS] = tuple(None if m[1] >> i & 1 else v for i, v in enumerate(k[VARS])); k[FENCED] = False
            if m[1]: k[INC] += 1
            k[DISPLACED] = False
            if answer and m[1] and self.on['relist']: w.td[t] += (self.list_of(k),)
            elif answer: k[AWAY] = 0                        # it has the place
            elif k[AWAY] == 3: k[AWAY] = 1 if k[DLIFE] == w.tasks[0][LIFE] else 2   # it believes so
        if answer and m[0] == 'R' and k[EMPTYING] is not None: k[EMPTYING] += (('ok',) + m,)
        elif answer and m[0] in 'CRD': w.td[t] += ((said,) + m,)
    # ---- the directory ----
    def answer(self, w, c, sess, name, t):
        cl = w.clients[c]
        if cl[SESS] == sess and cl[ST] == WAIT and cl[I] == name and cl[ASKED] == t:
            cl[ST], cl[ASKED] = OPEN, -1
            cl[OWN] = put(cl[OWN], name, t)
    def directory_create(self, w, c, name):
        """False = UNAVAILABLE, nothing done; the library repeats"""
        cl = w.clients[c]
        if w.reset and self.on['block_create']: return False
        t = w.owner[name]
        if t < 0:
            for o in range(1, self.nt):
                if o in self.own_job and self.on['wait_lists'] and not w.heard[o]: return False
                if o not in self.own_job and self.on['fence'] and not (w.heard[o] or self.fenced(w, o)): return False
            t = self.sc['req'][c][name]
        if t and not w.conn[t]: return False
        if self.twins(t) and (not w.sure[name] or self.on['asked_too']): w.asked[name] = w.at[t]
        self.used_by(w, w.at[t], name)
        w.owner[name] = t
        cl[ST], cl[ASKED] = WAIT, t
        if t == 0:
            if not self.create_at(w, 0, name): cl[ST], cl[ASKED] = GET, -1; return False
            w.sure[name] = True
        else: w.dt[w.at[t]] += (('C', c, cl[SESS], name),)
        if t == 0 or not self.on['answer_last']: self.answer(w, c, cl[SESS], name, t)
        return True
    def reset_done(self, w):
        w.acked, w.reset = w.reset[0], None
        w.owner = [-1] * NAMES; w.sure = [False] * NAMES; w.by = [-1] * NAMES; w.asked = [-1] * NAMES
        for p in range(1, self.np):
            if self.twins(p) and w.at[self.task[p]] != p: self.outdated(w, p, range(NAMES))
    def outdated(self, w, p, names):
        """ghosts: what process p has of these is stale"""
        k = w.tasks[p]
        k[VARS] = tuple(put(v, KNOWN, 2) if v and i in names else v for i, v in enumerate(k[VARS]))
    def confirm(self, w, p, i):
        """process p has name i; ghosts: what other processes of that task have of it is stale"""
        w.sure[i], w.by[i], w.asked[i] = True, p, -1
        k = w.tasks[p]
        if k[VARS][i]: k[VARS] = put(k[VARS], i, put(k[VARS][i], KNOWN, 1))
        for o in self.of(self.task[p]):
            if o != p: self.outdated(w, o, (i,))
    def used_by(self, w, p, i):
        """ghosts: process p was asked for name i, so what others made unconfirmed need not be the one any more"""
        for o in self.of(self.task[p]):
            v = w.tasks[o][VARS][i]
            if o != p and v and v[KNOWN] == 3: w.tasks[o][VARS] = put(w.tasks[o][VARS], i, put(v, KNOWN, 0))
    def came_back(self, w, p):
        """process p is the task now: may what it is about to list be stale?"""
        t, k = self.task[p], w.tasks[p]
        if not w.heard[t] or not k[DLIFE] or k[DLIFE] != w.tasks[0][LIFE] and not self.on['late']: return False
        if not self.on['listed_since']: return w.at[t] != p or w.past[t] and self.on['past_kept']
        return w.listed[t] != p or not w.settled[t] and self.on['past_kept']
    def stale(self, w, p, i):
        """name i in the list of a process that was not the task all the time"""
        if not w.past[self.task[p]]: return False
        return self.on['stale_gone'] if w.owner[i] < 0 else self.on['stale_names'] and p not in (w.by[i], w.asked[i])
    def directory_reads(self, w, p, m):
        t = self.task[p]
        if m[0] == 'L':
            _, names, fenced = m
            first = not w.heard[t]
            w.heard[t], drop = True, 0
            if w.reset and t not in w.reset[1]: w.reset = (w.reset[0], w.reset[1] + (t,))   # it joins a pending reset
            if w.reset: w.dt[p] += (('R', w.reset[0]),)      # ... which comes before the list's answer
            for i in range(NAMES):
                if not names >> i & 1: continue
                v = w.tasks[p][VARS][i]
                if w.owner[i] in (-1, t) and self.stale(w, p, i):
                    if not w.reset: drop |= 1 << i
                    if v and v[KNOWN] in (1, 3) and not w.reset:
                        w.fail('a name that was acknowledged, and that nobody has touched since, is dropped')
                    continue
                if first and v and w.tasks[p][AWAY] == 2:   # cannot be known here: another process may have had it since
                    w.tasks[p][VARS] = put(w.tasks[p][VARS], i, put(put(v, KNOWN, 1), EPOCH, w.epoch))
                if w.owner[i] < 0 and not (fenced and self.on['fence']): w.owner[i] = t
                if w.owner[i] == t: self.confirm(w, p, i)
                elif t not in self.own_job or self.on['same_job_drop']: drop |= 1 << i
            if t not in self.own_job or drop or fenced or self.twins(p): w.dt[p] += (('K', drop),)
            w.conn[t] = not drop or not self.on['relist']
            w.listed[t], w.settled[t] = p, not drop
            for o in self.of(t):
                if o != p and not w.tasks[o][AWAY]: w.tasks[o][AWAY] = 1
            return
        if m[0] == 'no':                                    # UNAVAILABLE: the library repeats
            cl = w.clients[m[2]]
            if cl[SESS] == m[3] and cl[ST] == WAIT and cl[I] == m[4] and cl[ASKED] == t: cl[ST], cl[ASKED] = GET, -1
            return
        if m[1] == 'C':
            if w.owner[m[4]] == t: self.confirm(w, p, m[4])
            self.answer(w, m[2], m[3], m[4], t)
        elif m[1] == 'D':
            asked = [a[3] for a in w.dt[p] if a[0] == 'C'] + [a[4] for a in w.td[p] if a[:2] == ('ok', 'C')]
            w.sure[m[4]] = False
            if not (m[4] in asked and self.on['delete_keeps']): w.owner[m[4]] = w.by[m[4]] = w.asked[m[4]] = -1
            else: w.by[m[4]] = -1
            for o in self.of(t):
                if o != p: self.outdated(w, o, (m[4],))
        elif m[1] == 'R' and w.reset and w.reset[0] == m[2]:
            w.reset = (w.reset[0], tuple(x for x in w.reset[1] if x != t))
            if not w.reset[1] and w.tasks[0][EMPTYING] is None: self.reset_done(w)
    def hello(self, w, p):
        """process p dials: is it the task now?"""
        t, k, life = self.task[p], w.tasks[p], w.tasks[0][LIFE]
        if w.at[t] == p:                                    # the same one, on a new connection
            w.past[t] = self.came_back(w, p)
            return True
        other = next((o for o in self.of(t) if w.tasks[o][LINKED]), -1)
        was_here, older = k[DLIFE] == life, k[DLIFE] not in (0, life)
        if other >= 0 and (was_here or older and w.heard[t] and self.on['late']) and self.on['no_return']:
            k[DISPLACED] = k[DISPLACED] or self.came_back(w, p) or not self.on['told_listed']
            k[AWAY] = 3 if k[AWAY] == 1 else k[AWAY]
            return False
        if other >= 0:
            if was_here: w.fail('a process that had the place takes it from one that is connected: they will go on so')
            self.unlink(w, other)
        w.past[t] = self.came_back(w, p)
        w.at[t], w.conn[t] = p, False
        k[AWAY] = k[AWAY] or (1 if w.heard[t] and w.listed[t] != p else 0)
        return True
    def unlink(self, w, p):
        """connection process p - directory ends; what the process has not read stays in its buffer"""
        k, t = w.tasks[p], self.task[p]
        if k[LINKED]: w.old[p], w.dt[p], w.td[p] = w.dt[p], (), ()
        k[EMPTYING] = k[EMPTYING] and ()                    # it goes on, and nobody hears the answers
        if not k[LINKED] and self.twins(p): return          # the other process may be connected
        k[LINKED] = False; w.conn[t] = False
        for cl in w.clients:
            if cl[ST] == WAIT and cl[ASKED] == t: cl[ST], cl[ASKED] = GET, -1
        if not self.on['record_first']:
            for i in range(NAMES):
                if w.owner[i] == t and not w.sure[i]: w.owner[i] = -1
    # ---- faults ----
    def restart(self, w, t, kind):
        k = w.tasks[t]
        before = k[VARS]
        if kind == 'r': after = (None,) * NAMES
        elif kind == 'k': after = tuple(v and v[:REST] + (True,) + v[EPOCH:] for v in k[CKPT] or (None,) * NAMES)
        else: after = before
        for i, (b, a) in enumerate(zip(before, after)):      # ghosts: what was lost, what is mixed
            others = [v for x, kk in enumerate(w.tasks) for v in kk[VARS] if x != t and v and v[VER] >= 0 and not kk[AWAY]]
            if b and b[VER] > 0 and not (a and a[VER] > 0) and others: w.lost |= 1 << i
            if a and a[VER] == 0 and kind == 'k' and (w.lost >> i & 1 or any(v[VER] > 0 for v in others)):
                after = put(after, i, put(a, TAINT, 1))
        k[LIFE] += 1; k[DLIFE] = 0; k[NEXT] = 0; k[LISTED] = 0; k[FENCED] = k[DISPLACED] = False
        k[EMPTYING] = None
        if kind != 'j': k[INC] += 1
        if self.twins(t):
            k[AWAY] = 0
            w.by = [-2 if b == t else b for b in w.by]
            w.asked = [-2 if b == t else b for b in w.asked]
            if w.at[self.twin] == t: w.at[self.twin], w.past[self.twin] = -1, False
            if w.listed[self.twin] == t: w.listed[self.twin] = -2
        for i, v in enumerate(after):
            if v is None:
                if w.cur[i] and w.cur[i][0] == t: w.cur[i] = None
                continue
            if w.cur[i] is None or w.cur[i][0] == t: w.cur[i] = (t, k[LIFE], k[NEXT], w.epoch if kind != 'j' else w.cur[i][3])
            after = put(after, i, put(v, N_, k[NEXT])); k[NEXT] += 1
        k[VARS] = after
        for c in range(self.nc): w.ct[c * self.np + t] = ()
        if t: self.unlink(w, t); w.old[t] = ()
        else:                                               # the directory forgets everything
            w.owner = [0 if v else -1 for v in after]; w.sure = [v is not None for v in after]
            w.heard = [False] * self.nt; w.reset = None
            w.at, w.past, w.by, w.asked = [-1] * self.nt, [False] * self.nt, [0 if v else -1 for v in after], [-1] * NAMES
            w.listed, w.settled = [-1] * self.nt, [False] * self.nt
            for o in range(1, self.np):
                self.unlink(w, o)
                k = w.tasks[o]
                k[VARS] = tuple(put(v, KNOWN, 0) if v and v[KNOWN] in (1, 3) else v for v in k[VARS])
                if k[AWAY] == 1: k[AWAY] = 2
            for cl in w.clients:
                if cl[ST] == WAIT: cl[ST], cl[ASKED] = GET, -1
        if not any(v and v[VER] >= 0 for kk in w.tasks for v in kk[VARS]): w.lost = 0
    # ---- clients ----
    def told(self, w, c): w.clients[c][ST] = TOLD
    def look(self, w, c, name):
        """the variable behind a client's handle now, or None (ABORTED); 'wait' while its task does not serve"""
        t, life, n, _ = w.clients[c][H][name]
        k = w.tasks[t]
        if k[FENCED]: return 'wait'
        if k[LIFE] != life and self.on['life_check']: return None
        v = next((v for v in k[VARS] if v and v[N_] == n), None)
        return v
    def is_cur(self, w, t, name):
        k = w.tasks[t]; v = k[VARS][name]
        if self.twins(t): return k[AWAY] or v[KNOWN] < 2    # inspect() looks at all that it has
        return w.cur[name] is not None and w.cur[name][:3] == (t, k[LIFE], v[N_])
    def decide(self, w, c):
        cl = w.clients[c]; chief = c != 1
        lacks = [s[0] < 0 or (self.on['restored_fresh'] and s[3] and s[0] == 0) for s in cl[SEEN]]
        live = [s[0] > 0 or (self.on['seal'] and s[2]) for s in cl[SEEN]]
        if self.on['version_check'] and any(lacks) and any(l and not x for l, x in zip(live, lacks)): return self.told(w, c)
        if chief: cl[ST], cl[I] = INIT, 0
        elif all(s[0] >= 0 and (s[2] or not self.on['seal']) for s in cl[SEEN]): self.ready(w, c)
        else: cl[ST], cl[I], cl[SEEN] = CHECK, 0, (None,) * NAMES
    def ready(self, w, c):
        cl = w.clients[c]
        cl[ST], cl[I] = (PUSH, self.sc.get('frozen', 0)) if c == 1 or self.sc.get('train') else (DONE, 0)
        vs = [w.tasks[h[0]][VARS][i] for i, h in enumerate(cl[H])]
        if any(v is None for v in vs) or any(w.tasks[h[0]][LIFE] != h[1] for h in cl[H]): return   # learns at its next call
        if any(w.tasks[h[0]][AWAY] for h in cl[H]): return
        if any(v[TAINT] == 1 for v in vs) and any(v[VER] > 0 and not v[TAINT] for v in vs):
            w.fail('client %d is ready on a mix of trained and fresh, no DATA_LOSS' % c)
        if any(v[TAINT] == 2 for v in vs):
            w.fail('client %d is ready: trained values silently re-initialised while others survived' % c)
    def owner_reads(self, w, c, t):
        m, *rest = w.ct[c * self.np + t]; w.ct[c * self.np + t] = tuple(rest)
        kind, sess, name, n, hyp, ident = m
        cl, k = w.clients[c], w.tasks[t]
        mine = cl[SESS] == sess and cl[ST] in (INITW, PUSHW)
        hit = next((i for i, v in enumerate(k[VARS]) if v and v[N_] == n), None)
        if k[FENCED]: return False
        if hit is None: return self.told(w, c) if mine else None
        v = k[VARS][hit]
        born = v[EPOCH] if self.twins(t) else w.cur[hit] and w.cur[hit][3]
        if (hit, born) != (name, ident):
            w.fail('%s through an old handle lands in another incarnation' % ('PUSH' if kind == 'P' else 'INIT'))
        elif not self.is_cur(w, t, hit): w.fail('acknowledged to a stale copy')
        if kind == 'P':
            if v[VER] < 0: return self.told(w, c) if mine else None
            v = put(v, VER, 1)
        else:
            if v[VER] < 0 or not self.on['init_cond']:
                if v[VER] > 0: w.fail('INIT overwrites a trained value')
                mix = any(o and o[VER] > 0 and not kk[AWAY] for kk in w.tasks for i, o in enumerate(kk[VARS]) if i != hit)
                v = put(put(v, VER, 0), TAINT, 1 if mix else 2 if w.lost >> hit & 1 else 0)
            if v[HYP] > self.chief(c, sess):
                if self.on['chief_term']: return self.told(w, c) if mine else None
                w.fail('late INIT puts an older chief\'s hyperparameters in force')
            v = put(v, HYP, self.chief(c, sess))
        k[VARS] = put(k[VARS], hit, v)
        if mine:
            if kind == 'P': cl[ST], cl[I] = (PUSH, cl[I] | 1 << name)
            elif name + 1 < NAMES: cl[ST], cl[I] = INIT, name + 1
            elif self.on['seal']: cl[ST], cl[I] = SEAL, 0
            else: self.ready(w, c)
            if cl[ST] == PUSH and cl[I] == (1 << NAMES) - 1: cl[ST] = DONE
    def chief(self, c, sess): return sess * 4 + c + 1
    def reopen(self, w, c):
        """journal restart: new life, same incarnation; an unsent or 'not received' push goes to the re-opened name"""
        cl = w.clients[c]
        for i, h in enumerate(cl[H]):
            if not h: continue
            k = w.tasks[h[0]]; v = k[VARS][i]
            if k[LIFE] == h[1]: continue
            same = self.sc['faults'].get('j1') and v and (not self.on['var_inc'] or w.cur[i][3:] == h[3:])
            if not same: return self.told(w, c)
            cl[H] = put(cl[H], i, (h[0], k[LIFE], v[N_], h[3]))
        if cl[ST] in (PUSHW, INITW): cl[ST] = PUSH if cl[ST] == PUSHW else INIT
    # ---- every next state ----
    def next(self, key):
        s = World(key)
        def go(label, act, fault=None):
            w = World(key)
            if fault is not None:
                w.left[KINDS.index(fault)] -= 1
                if fault not in ('again', 'die', 'ckpt1'): w.left[-1] -= 1
            if act(w) is not False: out.append((label, fault is not None, w))
        out = []
        for t in range(1, self.np):
            if not s.tasks[t][LINKED]:
                def redial(w, t=t):
                    k, life = w.tasks[t], w.tasks[0][LIFE]
                    if self.on['refuse_old'] and (self.on['drop_every'] or k[DLIFE] != life): w.old[t] = ()
                    if not self.hello(w, t): return
                    w.dt[t] = w.td[t] = (); k[LINKED] = True
                    fenced = k[FENCED]
                    if k[DISPLACED] and k[DLIFE] != life and self.on['displaced_drop']: self.fence(w, t)
                    if not self.on['told_kept']: k[DISPLACED] = False
                    if self.on['list_every'] or k[LISTED] != life:
                        w.td[t] = (self.list_of(k, fenced),)
                    elif w.heard[t]: w.conn[t] = True
                    k[DLIFE] = k[LISTED] = life
                lists = [i for i, v in enumerate(s.tasks[t][VARS]) if v]
                go('%s dials the directory, has %s' % (self.who(t), lists), redial)
                if self.task[t] not in self.own_job and (s.old[t] or not s.tasks[t][FENCED]) and self.on['fence']:
                    go('%s: a lease without the directory, drops its variables' % self.who(t), lambda w, t=t: self.fence(w, t))
            for q, name in ((s.dt, 'dt'), (s.old, 'old')):
                if q[t]:
                    def read(w, t=t, name=name):
                        q = getattr(w, name); m = q[t][0]; q[t] = q[t][1:]
                        self.task_reads(w, t, m, name == 'dt')
                    which = ' from the OLD connection' if name == 'old' else ''
                    go('%s reads %s%s' % (self.who(t), q[t][0], which), read)
            if s.td[t]:
                def dread(w, t=t):
                    m, w.td[t] = w.td[t][0], w.td[t][1:]
                    self.directory_reads(w, t, m)
                go('directory reads %s from %s' % (s.td[t][0], self.who(t)), dread)
            cut = 'cut%d' % t
            if s.tasks[t][LINKED] and self.may(s, cut):
                go('CUT %s - directory' % self.who(t), lambda w, t=t: self.unlink(w, t), cut)
        for t in range(self.np):
            if s.tasks[t][EMPTYING] is not None:
                go('%s has freed what a RESET took out' % self.who(t), lambda w, t=t: self.emptied(w, t))
            for kind in 'rkj':
                f = kind + str(t)
                if f in KINDS and self.may(s, f) and (kind != 'k' or s.tasks[t][CKPT]):
                    how = dict(r='empty', k='checkpoint', j='journal')[kind]
                    go('RESTART %s (%s)' % (self.who(t), how), lambda w, t=t, kind=kind: self.restart(w, t, kind), f)
            if t == 1 and self.may(s, 'ckpt1') and any(v and v[VER] >= 0 for v in s.tasks[t][VARS]):
                go('checkpoint of task 1', lambda w: w.tasks[1].__setitem__(CKPT, w.tasks[1][VARS]), 'ckpt1')
        for i in range(self.names if self.sc.get('find') else 0):   # the directory tells where a name is without asking there
            for p in self.of(s.owner[i]) if s.owner[i] > 0 else ():
                v = s.tasks[p][VARS][i]
                if v and not v[KNOWN] and not s.tasks[p][AWAY]:
                    go('somebody finds %s at %s and uses it' % ('ab'[i], self.who(p)), lambda w, p=p, v=v:
                       w.tasks[p].__setitem__(VARS, put(w.tasks[p][VARS], i, put(v, KNOWN, 3))))
        absent = [o for o in range(1, self.nt) if not s.conn[o]]
        may_hold = [o for o in absent if o in self.own_job or (self.on['fence'] and not self.fenced(s, o))]
        if self.may(s, 'reset') and not s.reset and not may_hold:
            def reset(w):
                w.epoch += 1; w.lost = 0
                w.reset = (w.epoch, tuple(o for o in range(1, self.nt) if w.conn[o]))
                for o in w.reset[1]: w.dt[w.at[o]] += (('R', w.epoch),)
                self.reset_at(w, 0, w.epoch)
                if w.tasks[0][EMPTYING] is None and not w.reset[1] or not self.on['reset_waits']: self.reset_done(w)
            go('RESET asked', reset, 'reset')
        if self.may(s, 'delete') and s.conn[1] and s.owner[0] == 1 and s.sure[0]:
            def delete(w): w.dt[w.at[1]] += (('D', 0, 0, 0),); w.epoch += 1
            go('DELETE a asked', delete, 'delete')
        for c in range(self.nc):
            cl = s.clients[c]; st, i = cl[ST], cl[I]
            who = ('chief A', 'worker', 'chief B')[c]
            if st == GET:
                go('%s: get-or-create %s, wants task %d' % (who, 'ab'[i], self.sc['req'][c][i]),
                   lambda w: self.directory_create(w, c, i))
            elif st == OPEN:
                for p in self.of(cl[OWN][i]):               # wherever its address leads
                    go('%s: opens %s at %s' % (who, 'ab'[i], self.who(p)), lambda w, p=p: self.opening(w, c, i, p))
            elif st in (CHECK, SEAL):
                def check(w):
                    cl = w.clients[c]; v = self.look(w, c, i)
                    if v == 'wait': return False
                    if v is None: return self.told(w, c)
                    if st == CHECK: cl[SEEN] = put(cl[SEEN], i, (v[VER], v[HYP], v[SEALED], v[REST]))
                    else:
                        k = w.tasks[cl[H][i][0]]; k[VARS] = put(k[VARS], i, put(v, SEALED, True))
                    cl[I] = i + 1
                    if i + 1 == NAMES: self.decide(w, c) if st == CHECK else self.ready(w, c)
                go('%s: %s %s' % (who, 'reads status of' if st == CHECK else 'seals', 'ab'[i]), check)
            elif st in (INIT, PUSH):
                for name in [i] if st == INIT else [x for x in range(NAMES) if not i >> x & 1]:
                    def send(w, name=name):
                        cl = w.clients[c]; t, life, n, born = cl[H][name]
                        if w.tasks[t][LIFE] != life and self.on['life_check']: return self.reopen(w, c)
                        w.ct[c * self.np + t] += ((('I', 'P')[st == PUSH], cl[SESS], name, n, cl[SEEN][name][1], born),)
                        cl[ST] = INITW if st == INIT else PUSHW
                    go('%s: sends %s %s' % (who, 'INIT' if st == INIT else 'PUSH', 'ab'[name]), send)
            elif st in (INITW, PUSHW) and not any(m[1] == cl[SESS] for t in range(self.np) for m in s.ct[c * self.np + t]):
                go('%s: connection lost, reconnects' % who, lambda w: self.reopen(w, c))
            elif st == TOLD and self.may(s, 'again'):
                go('%s: told ABORTED or DATA_LOSS; starts again' % who, lambda w: self.again(w, c), 'again')
            if c == 2 and st == OFF and s.clients[0][ST] > OPEN:
                go('chief B starts (A paused or dead)', lambda w: w.clients[2].__setitem__(ST, GET))
            if c == 0 and st not in (OFF, TOLD) and self.may(s, 'die'):
                go('chief A dies', lambda w: w.clients[0].__setitem__(ST, OFF), 'die')
            for t in range(self.np):
                q = s.ct[c * self.np + t]
                if q:
                    what = ('INIT ', 'PUSH ')[q[0][0] == 'P'] + 'ab'[q[0][2]]
                    go('%s reads %s of %s' % (self.who(t), what, who), lambda w, t=t: self.owner_reads(w, c, t))
        return out
    def who(self, p): return 'task %d' % p if p < self.nt else 'the twin of task %d' % self.twin
    def fenced(self, w, t):
        """no process of a task of another job that is away has anything"""
        return all(w.tasks[p][FENCED] and not w.old[p] for p in self.of(t) if w.tasks[p][DLIFE])
    def opening(self, w, c, i, t):
        cl = w.clients[c]; k = w.tasks[t]; v = k[VARS][i]
        if k[FENCED]: return False
        if v is None:                                       # NOT_FOUND: ask the directory again
            if not any(w.made >> (p * NAMES + i) & 1 for p in self.of(self.task[t])):
                w.fail('get-or-create answered OK, but the owner never made it')
            cl[ST] = GET; return
        if not self.is_cur(w, t, i): w.fail('OPEN answered by a stale copy')
        cl[H] = put(cl[H], i, (t, k[LIFE], v[N_], v[EPOCH] if self.twins(t) else w.cur[i] and w.cur[i][3]))
        cl[ST], cl[I] = (GET, i + 1) if i + 1 < self.names else (TOLD if self.sc.get('open') else CHECK, 0)
    def fence(self, w, t):
        k = w.tasks[t]
        if self.twins(t) and t in self.own_job and any(k[VARS]) and not k[AWAY]:
            w.fail('a process drops all that it has, and no other one has had the place')
        if any(k[VARS]): k[EMPTYING] = k[EMPTYING] or ()
        k[FENCED], k[VARS], w.old[t] = True, (None,) * NAMES, (); k[INC] += 1      # drops its variables: new incarnation
    def may(self, s, f): return s.left[KINDS.index(f)] > 0 and (s.left[-1] > 0 or f in ('again', 'die', 'ckpt1'))
    def again(self, w, c):
        cl = w.clients[c]
        cl[:] = [cl[SESS] + 1, GET, 0, -1, (-1,) * NAMES, (None,) * NAMES, (None,) * NAMES]
    def inspect(self, w):
        for i in range(NAMES):
            at = [t for t in range(self.np) if w.tasks[t][VARS][i] and not w.tasks[t][FENCED] and not w.tasks[t][AWAY]]
            if len(at) > 1: w.fail('%s both serve %s' % (' and '.join(map(self.who, at)), 'ab'[i]))
            if any(w.tasks[t][VARS][i][EPOCH] < w.acked for t in at):
                w.fail('a value from before an acknowledged reset is reachable')
            if any(w.tasks[t][VARS][i][KNOWN] == 2 for t in at if self.twins(t)):
                w.fail('%s serves %s, which another process has had since' % (self.who(at[0]), 'ab'[i]))

def explore(scenario, off=(), limit=3_000_000, deadline=150.0):
    gc.disable() # no state is in a circle
    m = Model(scenario, off); t0 = time.process_time() # of this process: load cuts nothing off
    def result(bad, path=()):
        return dict(sc=scenario, off=off, bad=bad, trace=list(path), states=len(keys), edges=edges, s=time.process_time() - t0)
    keys = [m.start()]; index = {keys[0]: 0}; parent = array('i', [-1]); labels = ['start']
    back_from, back_to, good, edges, at = array('i'), array('i'), set(), 0, 0
    def trace(i):
        path = []
        while i > 0: path.append(labels[i]); i = parent[i]
        return path[::-1]
    while at < len(keys):
        key = keys[at]
        for label, fault, w in m.next(key):
            edges += 1
            m.inspect(w)
            if w.bad: return result(w.bad, trace(at) + [label])
            k = w.key(); j = index.get(k)
            if j is None:
                j = index[k] = len(keys); keys.append(k); parent.append(at); labels.append(label)
            if not fault:
                back_from.append(j); back_to.append(at)
                for c in range(m.nc):
                    if key[1][c][ST] in (GET, WAIT) and k[1][c][ST] == OPEN: good.add((at, c))
        at += 1
        if len(keys) > limit or time.process_time() - t0 > deadline:
            return result('CUT OFF')
    order = sorted(range(len(back_from)), key=back_from.__getitem__)      # no permanent wait
    first = array('i', [0] * (len(keys) + 1))
    for e in back_from: first[e + 1] += 1
    for i in range(len(keys)): first[i + 1] += first[i]
    for c in range(m.nc):
        done = bytearray(len(keys)); todo = [i for i, cc in good if cc == c]
        for i in todo: done[i] = 1
        while todo:
            i = todo.pop()
            for p in range(first[i], first[i + 1]):
                b = back_to[order[p]]
                if not done[b]: done[b] = 1; todo.append(b)
        stuck = next((i for i in range(len(keys)) if keys[i][1][c][ST] in (GET, WAIT) and not done[i]), None)
        if stuck is not None:
            return result('client %d waits for ever in get-or-create' % c, trace(stuck))
    return result(None)

def job(a): return explore(*a)

def first_hit(a):
    for j in a[1]:
        r = explore(*j)
        if r['bad'] and r['bad'] != 'CUT OFF': return a[0], [r]
    return a[0], []

def show(r, full=True):
    rules = ' '.join('-' + f for f in r['off']) or 'as designed'
    print('%-8s %-28s %8d states %9d edges %6.1f s  %s' % (r['sc'], rules, r['states'], r['edges'], r['s'], r['bad'] or 'holds'),
          flush=True)
    if full:
        for i, l in enumerate(r['trace']): print('      %2d %s' % (i + 1, l))

def main(argv):
    bounds = dict(a.split('=') for a in argv if '=' in a)
    argv = [a for a in argv if '=' not in a]
    what = argv[0] if argv else 'all'
    limit, deadline = int(bounds.get('states', 3_000_000)), float(bounds.get('seconds', 150))
    if what == 'run': return show(explore(argv[1], tuple(a[1:] for a in argv[2:]), limit, deadline))
    names = [s for s in SCENARIOS if what != 'twin' or s.startswith('twin')]
    jobs = [(s, (), limit, deadline) for s in names] if what in ('all', 'base', 'twin') else []
    wanted = [f for f in FLAGS if what == 'all' or f in dict(fixes=GAPS, mutants=MUTANTS, twin=TWINS).get(what, ())]
    with Pool() as pool:
        for r in pool.imap_unordered(job, jobs): show(r)
        tries = [(f, [(s, (f,), 150_000, 12) for s in (TWIN_FIRST if f in TWINS else SCENARIOS)]) for f in wanted]
        for f, rs in pool.imap(first_hit, tries):
            print('--', f, ':', FLAGS[f], '-> caught' if rs else '-> NOT caught')
            for r in rs: show(r)

if __name__ == '__main__': main(sys.argv[1:])
