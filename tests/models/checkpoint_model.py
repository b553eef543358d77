#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of checkpoints: how the directory and the tasks save one container so that a checkpoint is whole on all tasks or
on none, what a start loads, and what a reset bars; to be explored before it is written in C.
usage: checkpoint_model.py                       all scenarios, then all weaker rules and mistakes
       checkpoint_model.py SCENARIO [RULE ...]   one run, prints the way to what is wrong

The directory is the process of task 0, too. Between it and each other task is a connection with a FIFO either way; when it is cut
both sides drop what is unread, the task what it has read beside what lives, and it lists again what it has: whether its part of the model lives, its shards, which of
them have a manifest, up to which number checkpoints are barred. A write to a disk is one step, durable or not done: how a file
becomes so (temporary file, fdatasync, rename, fsync of the directory) is the simulated disk's matter. A disk may spoil one shard,
which only loading it shows. Numbers of checkpoints are never used again.

In rounds the directory says FLIP when a round is over, on the same connections, so that a cut falls between two rounds everywhere.

Saving: CUT(n) to all -> each takes its part of one instant, writes its shard, says PREPARED(n) -> the directory writes its manifest,
which decides -> MANIFEST(n) to the others, who write theirs and say DONE(n) -> n is reported as saved, older ones may go. A task that is
lost before the decision ends the attempt: DROP(n). HURRY(n), when some task is to end, goes to those that have not said PREPARED, or
whose word is on its way: who has its shard leaves it as it is. A shard without a manifest is settled when its task lists.
Starting: when all tasks have listed and a part of the model is lost, LOAD(n) of the newest that is decided and not barred: to all
tasks where nothing lives, and in rounds; otherwise to the tasks that lost their parts. Each reads its shard, beside what lives, and
says LOADED(n) or BAD(n) -> when all have, PLACE(n), and it is what lives. BAD: the next older one. None left: a new model where
nothing lives, otherwise a reset. First values, to which nothing had been done at the cut, are half a model beside what was trained
since: PLACE says whether any part had been trained at the cut, which the manifest has of all of them; where none had, such a part counts
as lost, and whoever trains gives the model up. Somebody may say (`restore` none) that a start where nothing lives begins a new model though some are
there: before any of it lives the directory's disk notes up to which number, and none of those is loaded beside what lives.
Somebody asks for a checkpoint of what lives, or that all tasks go back to one and that a checkpoint is made of that (`restore`). Such a
request is answered when a checkpoint is saved whose cut was taken behind it, while what it is about lived on in all parts; an attempt
that ends leaves it for the next one. When a start takes from some part what lived there, and when the directory dies, it ends as a
failure: nobody asks for it again in its place.
Of two containers one may be restored alone (scenarios with `some`). The other one stays as it is where it lives. What was restored from
an older checkpoint than the newest is of another history than that one (MOVED). A task that is lost before it is saved so makes the
restored container go back to the newest one on all tasks; of the other container the lost task alone gets its part.
A checkpoint that is asked for, or that time makes due (scenarios with `looks`): LOOK(n) of the newest one goes to all tasks first. Each
says HAS(n) where all that lives there is in n, or NEWS(n). When all have it n is the answer, and no other one is made; after a task's
NEWS all get CUT. A forced one, as behind a restore, gets CUT at once, and each says with PREPARED of which checkpoint its part is the
same: where all name the same one the manifest notes that n is a duplicate. Two are kept that differ; duplicates go first. A disk that is
full (FULL) ends the attempt, and one older than the newest whole one goes, a duplicate first; then it is tried again.
A reset writes to the directory's disk that all numbers up to the last one given out are barred and that it is open, then goes to all
tasks, which write the bar and begin a new model; when all have, the directory's disk says that it is over, and it is answered. One that
is open when a directory starts is begun again.

Promised, at every step:
  - what was reported as saved can be loaded: each task has its shard of it, as it was at the cut, and the decision is on a disk;
  - a checkpoint that is the answer to who asked has, of each task, what lived there when it was asked, or something newer;
  - when one goes for a newer one as many that differ are left as there were, but two at most, and a duplicate takes no room from them;
  - the shards of a checkpoint in rounds are of one round;
  - a start where nothing lived loads the newest that was reported, or a newer one, but for shards that a disk has spoilt;
  - after a start where nothing lived all parts are of one checkpoint; in rounds they are always of one round, when nothing is on its way;
  - no model is given up of which a checkpoint that had been trained has what was lost; and first values never pass for trained ones;
  - a request for a checkpoint that is answered well names one that has what lived when it was asked for, or what was restored by it;
  - a restore of one container, and what follows on a loss before it is saved, takes from no task that lives what it has of the other
    one, and from no task what was saved of that; the parts of the restored one are of one history, when nothing is on its way;
  - after a reset was answered nothing from before it lives, ever; when nothing is on its way all parts are of one model.
And from every state there is a way without a further fault to one where all parts live and no shard is without a manifest."""
import operator
import sys

from explore import State, Violation, main

# tasks, cuts, updates of each part (or rounds), rounds?, resets, starts with none, hurries, asks: requests for a checkpoint, restores,
# bare: the directory has no part of the model;
# some: a restore is of one container of two, and of the oldest checkpoint; of so many updates of each part of the other one
# looks: cuts are asked for, and so many more are forced; faults: so many of each
SCENARIOS = {
    'cuts':      dict(tasks=2, cuts=2, faults=dict(kill=1, link=1)),
    'hurried':   dict(tasks=2, cuts=2, hurries=1, faults=dict(link=1)),
    'directory': dict(tasks=2, cuts=2, updates=0, faults=dict(directory=2)),
    'all':       dict(tasks=2, cuts=2, updates=0, faults=dict(directory=1, kill=1, link=1)),
    'bare':      dict(tasks=2, cuts=2, bare=True, faults=dict(directory=1, kill=1, link=1)),
    'asked':     dict(tasks=2, cuts=2, updates=0, asks=1, faults=dict(kill=1, link=1, directory=1)),
    'restored':  dict(tasks=2, cuts=2, updates=0, restores=1, faults=dict(kill=1, link=1, directory=1)),
    'some':      dict(tasks=2, cuts=2, updates=0, restores=1, some=1, faults=dict(kill=1)),
    'some_dir':  dict(tasks=2, cuts=2, updates=0, restores=1, some=1, faults=dict(directory=1)),
    'some_2':    dict(tasks=2, cuts=2, updates=0, restores=1, some=1, faults=dict(kill=1, link=1, directory=1)),
    'rounds':    dict(tasks=2, cuts=1, updates=2, rounds=True, faults=dict(kill=1, directory=1, link=1)),
    'barely':    dict(tasks=3, cuts=1, updates=1, rounds=True, bare=True, faults=dict(kill=1, directory=1, link=1)),
    'spoilt':    dict(tasks=2, cuts=2, updates=1, faults=dict(spoil=1, directory=1, kill=1)),
    'reset':     dict(tasks=2, cuts=1, updates=0, resets=1, faults=dict(kill=1, directory=1)),
    'resetbare': dict(tasks=3, cuts=1, updates=0, resets=1, bare=True, faults=dict(link=1, directory=1)),
    'resetlink': dict(tasks=2, cuts=2, updates=0, resets=1, faults=dict(link=1, directory=1)),
    'anew':      dict(tasks=2, cuts=2, updates=0, nones=1, faults=dict(kill=1, directory=2)),
    'three':     dict(tasks=3, cuts=1, updates=0, faults=dict(kill=1, directory=1)),
    'three_2':   dict(tasks=3, cuts=2, updates=0, faults=dict(kill=1, link=1, directory=1)),
    'looks':     dict(tasks=2, cuts=3, updates=1, looks=0, faults=dict(link=1)),
    'same':      dict(tasks=2, cuts=2, updates=1, looks=2, faults=dict(kill=1)),
    'same_2':    dict(tasks=2, cuts=2, updates=1, looks=1, faults=dict(directory=1)),
    'full':      dict(tasks=2, cuts=3, updates=1, looks=1, faults=dict(full=2)),
    'rounds_2':  dict(tasks=3, cuts=2, updates=2, rounds=True, faults=dict(kill=1, directory=1)),
}
# rule that is left out, or mistake: (where it shows first, what it is)
MUTANTS = {
    'manifest_first':    ('cuts', "the directory writes its manifest before all shards are written"),
    'attempt_lives':     ('cuts', "an attempt goes on when a task was lost before the decision"),
    'cut_again':         ('hurried', "a task that is told to hurry and has its shard makes another one under the same number"),
    'number_again':      ('bare', "a restarted directory counts on from its own disk alone"),
    'asks_nobody':       ('cuts', "who has a shard without a manifest drops it without asking"),
    'drops_early':       ('cuts', "older checkpoints go when the next cut begins"),
    'loads_early':       ('spoilt', "a restarted directory loads before all tasks have listed"),
    'places_at_once':    ('spoilt', "a task lets live what it has loaded before all have"),
    'load_forgotten':    ('barely', "a restarted directory does not look whether all parts live by the same start"),
    'beside_kept':       ('barely', "what was read beside what lives is kept when the connection is lost"),
    'first_of_each':     ('cuts', "a task that places first values looks at its own part alone, to know whether the model was trained"),
    'first_forgotten':   ('cuts', "first values that are placed beside a trained model count as trained"),
    'asked_again':       ('asked', "a request for a checkpoint that the directory took with it is sent anew to the next one"),
    'asked_stays':       ('asked', "a request for a checkpoint waits on when a start has taken from a task what lived there"),
    'number_promised':   ('restored', "a restore is answered when all have placed it, with the number of the checkpoint that is to follow"),
    'some_is_all':       ('some', "a restore of one container takes the other one back with it"),
    'others_go_back':    ('some', "a container that a restore left alone goes back when a task is lost before that is saved"),
    'moved_forgotten':   ('some', "who is lost before a restore is saved gets its part of the newest one, the others keep what was restored"),
    'some_promised':     ('some', "a restore of one container is answered with the number that is to follow, whatever is lost before"),
    'newest_of_each':    ('rounds', "in rounds a task that comes back loads, the others keep what they have"),
    'cut_of_each':       ('rounds', "the cut of a task is when its disk has time, not when CUT comes"),
    'flip_forgotten':    ('rounds', "who was away for the end of a round is not told of it before the next cut"),
    'reset_not_noted':   ('reset', "a reset is on no disk"),
    'reset_not_started': ('resetlink', "a reset bars what is saved, and lets the attempt go on that is under way"),
    'anew_not_noted':    ('anew', "that all began without what is saved is known only as long as the directory lives"),
    'anew_noted_late':   ('anew', "that all begin without what is saved is noted when they have"),
    'looks_at_own':      ('looks', "the directory answers with the newest one when its own task has nothing new"),
    'has_after_cut':     ('looks', "who has the manifest says that it has nothing new, whatever came behind the cut"),
    'same_when_written': ('same', "of which checkpoint a part is the same is said as of when it is written, not as of its cut"),
    'same_forgotten':    ('same', "a duplicate counts as one that differs"),
    'room_newest':       ('full', "for a disk that is full the newest one goes"),
    'reset_not_again':   ('resetbare', "a restarted directory does not begin a reset again that is open"),
}

# task: runs, its part that lives, cut to be written (n, part), read beside (n, part, start), shards (n, part), manifests, barred up to,
# the directory's: a reset is open, up to which number what lives is not of what is saved, (n, what n is a duplicate of) of manifests;
# of all: the checkpoint that has what lives, that has it once it is whole (0: none); with `some` the version of the other container,
# None: it lacks that one, and the highest number when what lives was restored from an older one than the newest, 0: it was not
RUNS, LIVE, CUT, BESIDE, SHARDS, MANIFESTS, BAR, OPEN, ANEW, SAME, HAS, OTHER, MOVED = range(13)
# a part: model, version or round; one that lives: the checkpoint that it came from (0: none), the start that placed it
MODEL, VERSION, ORIGIN, START = range(4)
# directory: runs, who has listed, what it does, with which number, who has done it, next number, those found spoilt, who loads, in
# rounds the newest start and round that it knows of; ANEW as it is to be; while it cuts, of which ones its parts are the same;
# it loads because somebody asks for a restore
UP, LISTED, PHASE, N, SET, NEXT, BAD, WHO, ROUND, BEGAN, OF, ASK = range(12)
IDLE, LOOKING, CUTTING, TELLING, LOADING, PLACING, RESETTING = 'idle', 'looks', 'cuts', 'tells', 'loads', 'places', 'resets'
SPOILT = (0, 0)
# never forgotten: cuts (n, parts), reported, models up to it are dead, models, starts, shards spoilt, nothing lived, what
# lived when a look began
GHOSTS = ('cuts', 'saved', 'dead', 'model', 'starts', 'spoilt', 'total', 'sought')
# a request: the starts that placed the parts that it is about, number of the checkpoint that serves it (0: the next one), the starts
# that had placed what was cut. None: there is none. wanted: the number of what is to be restored, as somebody asks; 0: nothing is
ABOUT, SERVED, CUT_OF = range(3)


def put(t, i, v):
    return t[:i] + (v,) + t[i + 1:]


class World(State):
    F = ('tasks', 'down', 'up', 'd', 'left', 'todo', 'asked', 'wanted') + GHOSTS
    REST = operator.attrgetter(*F[4:])

    def __init__(self, key):
        self.__dict__.update(zip(self.F, key))
        self.tasks = [list(t) for t in self.tasks]
        self.d = list(self.d)

    def key(self):
        return ((*map(tuple, self.tasks),), self.down, self.up, (*self.d,), *self.REST(self))


class Model:
    def __init__(self, scenario, off=()):
        sc = SCENARIOS[scenario]
        self.off = frozenset(off)
        self.n = sc['tasks']
        self.all = frozenset(range(self.n))
        self.parts = self.all - {0} if sc.get('bare') else self.all
        self.rounds, self.updates = sc.get('rounds', False), sc.get('updates', 1)
        self.looks = 'looks' in sc
        self.some = sc.get('some', 0)
        self.todo = (sc['cuts'], sc.get('resets', 0), sc.get('nones', 0), sc.get('hurries', 0), sc.get('asks', 0), sc.get('restores', 0),
                     sc.get('looks', 0))
        self.left = tuple(sorted(sc['faults'].items()))

    def start(self):
        tasks = tuple((True, (1, 0, 0, 0) if i in self.parts else None, None, None, (), (), 0, False, 0, (), (0, 0),
                       0 if self.some and i in self.parts else None, 0)
                      for i in range(self.n))
        d = (True, self.all, IDLE, 0, frozenset(), 1, frozenset(), frozenset(), (0, 0), 0, frozenset(), False)
        return (tasks, ((),) * self.n, ((),) * self.n, d, self.left, self.todo, None, 0, (), 0, 0, 1, 0, False, False, ())

    # ---- what is said ----
    def say(self, w, i, *m):
        """The directory to a task; to its own at once."""
        if i == 0:
            self.task(w, 0, m)
        elif i in w.d[LISTED]:
            w.down = put(w.down, i, w.down[i] + (m,))

    def say_all(self, w, who, *m):
        for i in sorted(who, reverse=True):         # its own last: that may end the phase
            self.say(w, i, *m)

    def tell(self, w, i, *m):
        if i == 0:
            self.directory(w, 0, m)
        elif w.d[UP] and (i in w.d[LISTED] or m[0] == 'LIST'):
            w.up = put(w.up, i, w.up[i] + (m,))

    # ---- a task ----
    @staticmethod
    def keep(t, n):
        """Checkpoints from n on."""
        t[SHARDS] = tuple(s for s in t[SHARDS] if s[0] >= n)
        t[MANIFESTS] = tuple(m for m in t[MANIFESTS] if m >= n)

    @staticmethod
    def forget(t, n):
        t[SHARDS] = tuple(s for s in t[SHARDS] if s[0] != n)
        t[MANIFESTS] = tuple(m for m in t[MANIFESTS] if m != n)
        t[HAS] = tuple(0 if m == n else m for m in t[HAS])

    def part(self, t):
        """What a checkpoint has of it."""
        return t[LIVE][:2] + ((t[OTHER],) if self.some else ())

    def note(self, w, i, n, part):
        cuts = dict(w.cuts)
        cuts[n] = put(cuts.get(n, (None,) * self.n), i, part)
        w.cuts = tuple(sorted(cuts.items()))
        if self.rounds and len({p[VERSION] for p in cuts[n] if p}) > 1:
            raise Violation('checkpoint %d has parts of several rounds' % n)

    def task(self, w, i, m):
        t = w.tasks[i]
        what, n = m[:2]
        if what == 'CUT':
            if i not in self.parts:
                self.tell(w, i, 'PREPARED', n)
                return
            t[CUT] = (n, self.part(t))
            if w.asked and w.asked[SERVED] == n:
                w.asked = put(w.asked, CUT_OF, put(w.asked[CUT_OF], i, t[LIVE][START]))
            if self.looks:                                      # of which one its part is the same is a matter of the instant
                t[CUT] += (0 if 'same_when_written' in self.off else t[HAS][0],)
                t[HAS] = (t[HAS][0], n)
            if 'cut_of_each' not in self.off:
                self.note(w, i, n, self.part(t))
            if 'drops_early' in self.off:
                self.keep(t, n)
        elif what == 'HURRY':                                   # who writes goes on
            if 'cut_again' in self.off and not t[CUT]:
                t[CUT] = (n, t[LIVE][:2])
        elif what == 'DROP':
            t[CUT] = t[CUT] if t[CUT] and t[CUT][0] != n else None
            t[SHARDS] = tuple(s for s in t[SHARDS] if s[0] != n)
        elif what == 'LOOK':
            self.tell(w, i, 'HAS' if i not in self.parts or t[HAS][0] == n else 'NEWS', n)
        elif what == 'MANIFEST':
            if self.looks and (t[HAS][1] == n or 'has_after_cut' in self.off):
                t[HAS] = (n, n)
            t[MANIFESTS] = tuple(sorted({*t[MANIFESTS], n}))
            self.tell(w, i, 'DONE', n)
        elif what == 'OLD':
            self.keep(t, n)
        elif what == 'GONE':
            self.forget(t, n)
        elif what == 'LOAD':
            part = (w.model, 0) if n == 0 else dict(t[SHARDS]).get(n, SPOILT)
            if m[3:]:                                           # of another history from now on
                part = m[3:] + part[1:]
            t[BESIDE] = None if part == SPOILT else part[:2] + (n, m[2]) + part[2:]
            if t[BESIDE] and 'places_at_once' in self.off:
                t[LIVE] = t[BESIDE]
            self.tell(w, i, 'LOADED' if t[BESIDE] else 'BAD', n)
        elif what == 'PLACE':
            if self.some:
                self.place_other(w, i, n, *m[4:])
            t[LIVE], t[BESIDE], t[CUT] = t[BESIDE][:4] if t[BESIDE] else None, None, None
            self.place_beside(w, i, n, *m[2:4])
            t[HAS] = (n if self.looks else 0, 0)
            self.tell(w, i, 'PLACED', n)
        elif what == 'RESET':
            t[BAR] = t[BAR] if 'reset_not_noted' in self.off else max(t[BAR], n)
            t[CUT] = t[CUT] if 'reset_not_started' in self.off else None
            t[BESIDE] = None
            t[HAS] = (0, 0)
            t[LIVE] = m[2] if i in self.parts else None
            t[OTHER], t[MOVED] = 0 if self.some and i in self.parts else None, 0
            self.tell(w, i, 'WIPED', n)
        elif what == 'FLIP' and t[LIVE] and t[LIVE][VERSION] == n:
            t[LIVE] = put(t[LIVE], VERSION, n + 1)
            t[HAS] = (0, 0)

    def place_other(self, w, i, n, moved, asked):
        """The one container is placed, the other one where it is lacked."""
        t, other = w.tasks[i], (w.tasks[i][BESIDE] + (0,))[4]
        t[MOVED] = moved
        back = ('some_is_all' if asked else 'others_go_back') in self.off
        if t[OTHER] is not None and back and other < t[OTHER]:
            raise Violation('task %d, which lived, loses what it had of the other container' % i)
        if t[OTHER] is None or back:
            t[OTHER] = other
        saved = dict(w.cuts).get(w.saved)
        if saved and max(k[BAR] for k in w.tasks) < w.saved and t[OTHER] < saved[i][2]:
            raise Violation('task %d loses what was saved of the other container' % i)

    @staticmethod
    def trained(w, n):
        """As the manifest has it, of all parts."""
        return any(p and p[VERSION] > 0 for p in dict(w.cuts).get(n, ()))

    def place_beside(self, w, i, n, beside, trained):
        """First values beside what lives: are they lost?"""
        if not beside or w.tasks[i][LIVE][VERSION] > 0:
            return
        lost = 'first_forgotten' not in self.off and (not trained or 'first_of_each' in self.off)
        if lost and self.trained(w, n):
            raise Violation('a model is given up, and checkpoint %d, which was trained, has what was lost' % n)
        if not lost and not self.trained(w, n) and any(t[LIVE] and t[LIVE][VERSION] > 0 for t in w.tasks):
            raise Violation('first values of checkpoint %d pass for trained ones' % n)

    # ---- the directory ----
    @staticmethod
    def idle(w):
        w.d[PHASE], w.d[SET], w.d[WHO] = IDLE, frozenset(), frozenset()

    def give_up(self, w):
        n = w.d[N]
        if w.asked and not self.promised():
            w.asked = put(w.asked, SERVED, 0)                   # the next one serves it
        self.idle(w)
        w.sought = ()
        self.say_all(w, self.all, 'DROP', n)

    def directory(self, w, i, m):
        d, (what, n) = w.d, m[:2]
        wants = {'HAS': LOOKING, 'NEWS': LOOKING, 'FULL': CUTTING, 'PREPARED': CUTTING, 'DONE': TELLING, 'LOADED': LOADING, 'BAD': LOADING, 'PLACED': PLACING, 'WIPED': RESETTING}
        if what == 'LIST':
            self.listed(w, i)
            return
        if d[PHASE] != wants[what] or n != d[N]:
            return
        d[SET] |= {i}
        d[BAD] |= {n} if what == 'BAD' else frozenset()
        if what == 'NEWS':
            self.cut(w, 0)
        elif what == 'HAS' and d[SET] == self.all:
            self.idle(w)
            self.answered(w, n)
        elif what == 'PREPARED' and self.looks:
            d[OF] |= {m[2]}
        elif what == 'FULL':
            self.give_up(w)
            self.make_room(w)
        if what == 'DONE' and d[SET] == self.all:
            before, w.saved = w.saved, n
            self.idle(w)
            self.answers(w, n)
            self.promise(w)
            if self.looks:
                self.answered(w, n)
                self.retire(w)
            else:
                self.say_all(w, self.all, 'OLD', before)        # two are kept
        elif what in ('LOADED', 'BAD') and d[SET] == d[WHO]:
            if n in d[BAD]:
                self.idle(w)                                    # the next older one
            else:
                d[PHASE], d[SET] = PLACING, frozenset()
                self.taken(w)
                older = self.some and d[ASK] and n < max(w.tasks[0][MANIFESTS])
                self.say_all(w, d[WHO], 'PLACE', n, d[WHO] != self.parts, self.trained(w, n), d[NEXT] - 1 if older else 0, d[ASK])
        elif what == 'PLACED' and d[SET] == d[WHO]:
            if 'anew_noted_late' in self.off:
                w.tasks[0][ANEW] = d[BEGAN]
            self.idle(w)
            if d[ASK]:                                          # it is restored, and is to be saved
                w.wanted = 0
                self.asks(w, d[NEXT] if self.promised() else 0)
        elif what == 'WIPED' and d[SET] == self.all:
            w.tasks[0][OPEN] = False
            w.dead = w.model - 1
            self.idle(w)

    def asks(self, w, number):
        w.asked = (tuple(t[LIVE][START] if t[LIVE] else None for t in w.tasks), number, (None,) * self.n)

    def answers(self, w, n):
        if w.asked and w.asked[SERVED] == n:
            if w.asked[CUT_OF] != w.asked[ABOUT]:
                raise Violation('a request is answered with checkpoint %d, which has not what was asked for' % n)
            w.asked = None

    def promised(self):
        return bool({'number_promised', 'some_promised'} & self.off)

    def taken(self, w):
        """A start, or a reset, takes from some part what lived there."""
        on_its_way = w.asked and w.asked[SERVED] < 0             # to the next directory
        if not {'asked_stays', 'number_promised', 'some_promised'} & self.off and not on_its_way:
            w.asked = None

    def listed(self, w, i):
        d, t = w.d, w.tasks[i]
        d[LISTED] |= {i}
        cut = [t[CUT][0]] if t[CUT] else []
        if 'number_again' not in self.off:
            d[NEXT] = max([d[NEXT], t[BAR] + 1] + [n + 1 for n, _ in t[SHARDS]] + [n + 1 for n in cut])
        if d[PHASE] == RESETTING:
            self.say(w, i, 'RESET', d[N], (w.model, 0, 0, w.starts))
        elif self.rounds and t[LIVE] and 'flip_forgotten' not in self.off:
            d[ROUND] = max(d[ROUND], (t[LIVE][START], t[LIVE][VERSION]))
            for k in self.parts & d[LISTED]:
                live = w.tasks[k][LIVE]
                if live and live[START] == d[ROUND][0] and live[VERSION] < d[ROUND][1] and ('FLIP', live[VERSION]) not in w.down[k]:
                    self.say(w, k, 'FLIP', live[VERSION])
        for n in sorted({s[0] for s in t[SHARDS] if s[0] not in t[MANIFESTS]} | set(cut)):
            if n in w.tasks[0][MANIFESTS]:
                self.say(w, i, 'MANIFEST', n)
            elif not ('attempt_lives' in self.off and d[PHASE] == CUTTING and n == d[N]):
                self.say(w, i, 'DROP', n)
        if d[PHASE] == TELLING and d[N] in t[MANIFESTS]:
            self.directory(w, i, ('DONE', d[N]))

    def lost(self, w, i):
        """The connection with task i."""
        d = w.d
        w.down, w.up = put(w.down, i, ()), put(w.up, i, ())
        d[LISTED] -= {i}
        if d[PHASE] == LOOKING:
            self.idle(w)                                        # it is asked again
            w.sought = ()
            w.todo = put(w.todo, 0, w.todo[0] + 1)
        elif d[PHASE] == CUTTING and 'attempt_lives' not in self.off:
            self.give_up(w)
        elif d[PHASE] in (LOADING, PLACING):
            self.idle(w)                                        # looked at again when it has listed
        elif d[PHASE] == RESETTING:
            d[SET] -= {i}

    # ---- is there something new, and which ones go ----
    def ask(self, w):
        """A checkpoint is asked for."""
        d = w.d
        w.todo = put(w.todo, 0, w.todo[0] - 1)
        w.sought = tuple(t[LIVE][:2] if t[LIVE] else None for t in w.tasks)
        newest = max(w.tasks[0][MANIFESTS], default=0)
        if newest == 0:
            self.cut(w, 0)
            return
        d[PHASE], d[N], d[SET] = LOOKING, newest, frozenset()
        if 'looks_at_own' in self.off:
            self.say(w, 0, 'LOOK', newest)
            if d[PHASE] == LOOKING:
                self.idle(w)
                self.answered(w, newest)
            return
        for i in sorted(self.all, reverse=True):
            if d[PHASE] == LOOKING:                             # its own last
                self.say(w, i, 'LOOK', newest)

    def answered(self, w, n):
        """Who asked is told that n has it."""
        asked, w.sought = w.sought, ()
        for i, was in enumerate(asked):
            if was and i in self.parts and dict(w.cuts)[n][i] < was:
                raise Violation('%d is the answer, and has not what task %d had' % (n, i))

    def force(self, w):
        w.todo = put(w.todo, 6, w.todo[6] - 1)
        self.cut(w, 0)

    def duplicates(self, w):
        """Those with a newer one that is the same."""
        if 'same_forgotten' in self.off:
            return set()
        of = {n: n for n in w.tasks[0][MANIFESTS]}
        of.update((n, m) for n, m in w.tasks[0][SAME] if n in of)
        return {n for n in of if any(m > n and of[m] == of[n] for m in of)}

    def go(self, w, n):
        differ = len({dict(w.cuts)[m] for m in w.tasks[0][MANIFESTS]})
        self.say_all(w, self.all, 'GONE', n)
        left = len({dict(w.cuts)[m] for m in w.tasks[0][MANIFESTS]})
        if left < min(differ, 2):
            raise Violation('%d goes, and fewer that differ are left' % n)

    def retire(self, w):
        """Two that differ are kept."""
        all_, twice = w.tasks[0][MANIFESTS], self.duplicates(w)
        differ = [n for n in all_ if n not in twice]
        spare = max(0, 2 - len(differ))
        for n in sorted(set(all_) - set(differ[-2:]) - set(sorted(twice)[len(twice) - spare:])):
            self.go(w, n)

    def make_room(self, w):
        """Of those before the newest whole one a duplicate goes, or the oldest."""
        older = [n for n in w.tasks[0][MANIFESTS] if n < w.saved]
        twice = sorted(self.duplicates(w) & set(older))
        if 'room_newest' in self.off and w.saved:
            self.say_all(w, self.all, 'GONE', w.saved)
        elif twice:
            self.go(w, twice[0])
        elif older:
            self.say_all(w, self.all, 'GONE', older[0])
        self.promise(w)

    def cut(self, w, cost):
        d = w.d
        n = d[NEXT]
        d[OF] = frozenset()
        w.todo = put(w.todo, 0, w.todo[0] - cost)
        if w.asked and w.asked[SERVED] in (-1, 0, n):
            w.asked = put(put(w.asked, SERVED, n), CUT_OF, (None,) * self.n)
        w.cuts = tuple(c for c in w.cuts if c[0] != n)
        d[PHASE], d[N], d[SET], d[NEXT] = CUTTING, n, frozenset(), n + 1
        self.say_all(w, self.all, 'CUT', n)

    def hurry(self, w):
        w.todo = put(w.todo, 3, w.todo[3] - 1)
        self.say_all(w, w.d[LISTED] - w.d[SET], 'HURRY', w.d[N])

    def decide(self, w):
        if self.looks and len(w.d[OF]) == 1 and 0 not in w.d[OF]:
            of, = w.d[OF]
            same = dict(w.tasks[0][SAME])
            w.tasks[0][SAME] = tuple(sorted({**same, w.d[N]: same.get(of, of)}.items()))
        w.d[PHASE], w.d[SET] = TELLING, frozenset()
        self.say_all(w, self.all, 'MANIFEST', w.d[N])

    def who_lacks(self, w):
        """Who is to load, of those that have listed."""
        here = self.parts & w.d[LISTED]
        lives = {i: w.tasks[i][LIVE] for i in here if w.tasks[i][LIVE]}
        lacks = here - set(lives)
        if self.strayed(w):
            return here
        if self.rounds and 'newest_of_each' not in self.off:
            several = len({p[START] for p in lives.values()}) > 1 and 'load_forgotten' not in self.off
            return here if lacks or several else frozenset()
        return lacks

    def strayed(self, w):
        """Some task lacks what was restored from an older one than the newest, and is not saved so."""
        moved = {w.tasks[i][MOVED] for i in self.parts}
        return len(moved) > 1 and max(moved) >= max(w.tasks[0][MANIFESTS], default=0) and 'moved_forgotten' not in self.off

    def none_lives(self, w):
        return not any(w.tasks[i][LIVE] for i in self.parts & w.d[LISTED])

    def begin_anew(self, w):
        """A start that loads nothing, whatever is there."""
        d = w.d
        w.todo = put(w.todo, 2, w.todo[2] - 1)
        w.model += 1
        w.starts += 1
        d[ASK] = False
        d[BEGAN] = d[NEXT] - 1
        if 'anew_noted_late' not in self.off:
            w.tasks[0][ANEW] = d[BEGAN]
        d[PHASE], d[N], d[SET], d[WHO] = LOADING, 0, frozenset(), self.parts
        self.say_all(w, self.parts, 'LOAD', 0, w.starts)

    def load(self, w):
        """A start: the next one to try, or what somebody wants."""
        d, who = w.d, self.who_lacks(w)
        d[ASK] = bool(w.wanted) and not (self.some and who)     # of one container: a start that is due comes first
        if d[ASK]:
            w.starts += 1
            d[PHASE], d[N], d[SET], d[WHO] = LOADING, w.wanted, frozenset(), self.parts
            history = ()
            if self.some and w.wanted < max(w.tasks[0][MANIFESTS]):
                w.model += 1                                    # the restored container's
                history = (w.model,)
            self.say_all(w, self.parts, 'LOAD', w.wanted, w.starts, *history)
            return
        bar = max(t[BAR] for t in w.tasks)
        none_lives = self.none_lives(w)
        have = [n for n in w.tasks[0][MANIFESTS] if n > bar and n not in d[BAD] and (none_lives or n > d[BEGAN])]
        have = [n for n in have if all(n in dict(w.tasks[i][SHARDS]) for i in who)]
        if not have and not none_lives:
            self.reset(w)
            return
        n = max(have, default=0)
        if none_lives:
            w.tasks[0][ANEW] = d[BEGAN] = 0                     # before any of it lives
        if none_lives and d[LISTED] == self.all and n < w.saved and w.saved > bar and not w.spoilt:
            raise Violation('a start loads %d, and %d was reported as saved' % (n, w.saved))
        w.starts += 1
        d[PHASE], d[N], d[SET], d[WHO] = LOADING, n, frozenset(), who
        self.say_all(w, who, 'LOAD', n, w.starts)

    def reset(self, w):
        d = w.d
        n = d[NEXT] - 1
        if 'reset_not_started' in self.off:
            n = max(w.tasks[0][MANIFESTS], default=0)
        elif d[PHASE] == CUTTING:
            self.give_up(w)
        if 'reset_not_started' in self.off and d[PHASE] == CUTTING:
            w.model += 1
            for i in self.parts:
                w.tasks[i][LIVE] = (w.model, 0, 0, w.starts)
            w.dead = w.model - 1
        else:
            self.wipe(w, n)

    def wipe(self, w, n):
        self.taken(w)
        w.model += 1
        w.starts += 1
        w.d[PHASE], w.d[N], w.d[SET] = RESETTING, n, frozenset()
        w.tasks[0][OPEN] = 'reset_not_noted' not in self.off
        self.say_all(w, self.all, 'RESET', n, (w.model, 0, 0, w.starts))

    # ---- what is promised ----
    def promise(self, w):
        """What was reported as saved can be loaded."""
        n = w.saved
        if n == 0 or w.spoilt or max(t[BAR] for t in w.tasks) >= n:
            return
        for i in self.parts:
            if dict(w.tasks[i][SHARDS]).get(n) != dict(w.cuts)[n][i]:
                raise Violation('%d was reported as saved, and task %d has not its shard of that cut' % (n, i))
        if n not in w.tasks[0][MANIFESTS]:
            raise Violation('%d was reported as saved, and the directory has no manifest' % n)

    def check(self, w):
        lives = [w.tasks[i][LIVE] for i in sorted(self.parts)]
        whole = all(lives)
        if any(p and p[MODEL] <= w.dead for p in lives):
            raise Violation('a task lives on a model from before a reset that was answered')
        self.promise(w)
        w.total = not whole and (w.total or not any(lives))
        still = not any(w.down) and not any(w.up) and w.d[LISTED] == self.all and w.d[PHASE] == IDLE and not self.who_lacks(w)
        if whole and still and len({p[MODEL] for p in lives}) > 1:
            raise Violation('the parts are of several models')
        if self.rounds and whole and still and len({p[:2] for p in lives}) > 1:
            raise Violation('the parts are of several rounds')

    # ---- steps ----
    def steps(self, key):
        out, left = [], dict(key[World.F.index('left')])

        def add(label, act, *args, fault=None):
            if fault is not None and not left.get(fault):
                return
            w = World(key)
            if fault is not None:
                w.left = tuple(sorted({**left, fault: left[fault] - 1}.items()))
            total = w.total
            try:
                act(w, *args)
                self.check(w)
                lives = [w.tasks[i][LIVE] for i in self.parts]
                if total and all(lives) and len({p[ORIGIN] for p in lives}) > 1:
                    raise Violation('after a start where nothing lived the parts are of several checkpoints')
            except Violation as v:
                raise Violation(v.args[0], label)
            out.append((label, fault is not None, w.key()))
        w = World.look(key)
        d = w.d
        parts = [w.tasks[i][LIVE] for i in sorted(self.parts)]
        whole = all(parts)
        for i, t in enumerate(w.tasks):
            if not t[RUNS]:
                add('task %d starts' % i, self.starts, i)
                continue
            if t[CUT]:
                add('task %d writes its shard of %d' % (i, t[CUT][0]), self.writes, i)
                add('the disk of task %d is full' % i, self.is_full, i, fault='full')
            if i and w.down[i]:
                add('task %d reads %s %s' % (i, w.down[i][0][0], w.down[i][0][1]), self.reads, i)
            if i and w.up[i]:
                add('the directory reads %s %s of task %d' % (w.up[i][0][:2] + (i,)), self.hears, i)
            if i and d[UP] and i not in d[LISTED] and not w.up[i]:
                add('task %d lists' % i, self.lists, i)
            if not self.rounds and whole and i in self.parts and t[LIVE][VERSION] < self.updates:
                add('task %d is pushed to' % i, self.push, i)
            if self.some and whole and i in self.parts and t[OTHER] < self.some:
                add('task %d is pushed to in the other container' % i, self.push_other, i)
            if i:
                add('task %d is killed' % i, self.kill, i, fault='kill')
                if i in d[LISTED]:
                    add('the connection of task %d is cut' % i, self.lost, i, fault='link')
            for n, part in t[SHARDS]:
                if part != SPOILT and n in t[MANIFESTS]:
                    add('the disk of task %d spoils %d' % (i, n), self.spoil, i, n, fault='spoil')
        if not d[UP]:
            return out
        here = d[LISTED] == self.all
        add('the directory is killed', self.kill_directory, fault='directory')
        if d[PHASE] == CUTTING and (d[SET] == self.all or ('manifest_first' in self.off and d[SET])):
            add('the manifest of %d is written' % d[N], self.decide)
        if d[PHASE] == CUTTING and w.todo[3]:
            add('%d hurries' % d[N], self.hurry)
        if d[PHASE] == IDLE and here and whole and not self.who_lacks(w) and not w.wanted:
            if w.todo[0]:
                add('cut %d' % d[NEXT], *((self.ask,) if self.looks else (self.cut, 1)))
            if w.todo[6]:
                add('cut %d is forced' % d[NEXT], self.force)
            if w.todo[4] and not w.asked:
                add('a checkpoint is asked for', self.asked_for)
            if w.todo[5] and not w.asked and w.tasks[0][MANIFESTS]:
                add('a restore of %d is asked for' % w.tasks[0][MANIFESTS][0 if self.some else -1], self.wants)
            if w.asked and (w.asked[SERVED] <= 0 or w.asked[SERVED] == d[NEXT]):
                add('cut %d, as asked for' % d[NEXT], self.cut, 0)
        if d[PHASE] == IDLE and (here or 'loads_early' in self.off) and (self.who_lacks(w) or (here and w.wanted)):
            add('a start is decided', self.load)
            if here and w.todo[2] and self.none_lives(w):
                add('a start with none is decided', self.begin_anew)
        if d[PHASE] in (IDLE, CUTTING) and here and w.todo[1]:
            add('a reset', self.asked_reset)
        flying = any(m[0] == 'FLIP' for c in w.down for m in c)
        if self.rounds and d[PHASE] in (IDLE, CUTTING, TELLING) and here and whole and not flying and not self.who_lacks(w) and \
                len({p[:2] for p in parts}) == 1 and parts[0][VERSION] < self.updates:
            add('a round is over', self.flip, parts[0][VERSION])
        return out

    def lists(self, w, i):
        if 'beside_kept' not in self.off:
            w.tasks[i][BESIDE] = None                           # the directory decides anew
        self.tell(w, i, 'LIST', 0)

    def flip(self, w, version):
        w.d[ROUND] = (w.tasks[max(self.parts)][LIVE][START], version + 1)
        self.say_all(w, self.parts, 'FLIP', version)

    def asked_for(self, w):
        w.todo = put(w.todo, 4, w.todo[4] - 1)
        self.asks(w, 0)

    def wants(self, w):
        w.todo = put(w.todo, 5, w.todo[5] - 1)
        w.wanted = w.tasks[0][MANIFESTS][0 if self.some else -1]

    def asked_reset(self, w):
        w.todo = put(w.todo, 1, w.todo[1] - 1)
        self.reset(w)

    @staticmethod
    def push(w, i):
        w.tasks[i][LIVE] = put(w.tasks[i][LIVE], VERSION, w.tasks[i][LIVE][VERSION] + 1)
        w.tasks[i][HAS] = (0, 0)

    @staticmethod
    def push_other(w, i):
        w.tasks[i][OTHER] += 1

    def is_full(self, w, i):
        n = w.tasks[i][CUT][0]
        w.tasks[i][CUT] = None
        self.tell(w, i, 'FULL', n)

    def writes(self, w, i):
        t = w.tasks[i]
        n, part, *same = t[CUT]
        if 'cut_of_each' in self.off:
            part = t[LIVE][:2]
            self.note(w, i, n, part)
        t[CUT] = None
        t[SHARDS] = tuple(sorted({**dict(t[SHARDS]), n: part}.items()))
        same = (t[HAS][0],) if 'same_when_written' in self.off and self.looks else same
        self.tell(w, i, 'PREPARED', n, *same)

    def reads(self, w, i):
        m = w.down[i][0]
        w.down = put(w.down, i, w.down[i][1:])
        self.task(w, i, m)

    def hears(self, w, i):
        m = w.up[i][0]
        w.up = put(w.up, i, w.up[i][1:])
        self.directory(w, i, m)

    def dies(self, w, i):
        w.tasks[i][RUNS:SHARDS] = [False, None, None, None]
        w.tasks[i][HAS] = (0, 0)
        w.tasks[i][OTHER], w.tasks[i][MOVED] = None, 0

    def kill(self, w, i):
        self.dies(w, i)
        if w.d[UP]:
            self.lost(w, i)

    def kill_directory(self, w):
        self.dies(w, 0)
        w.down = w.up = ((),) * self.n
        w.wanted = 0                                            # who asked hears that the outcome is unknown, as of a checkpoint
        if w.asked:
            w.asked = put(w.asked, SERVED, -1) if 'asked_again' in self.off else w.asked if self.promised() else None
        w.sought = ()
        w.d = [False, frozenset(), IDLE, 0, frozenset(), 0, frozenset(), frozenset(), (0, 0), 0, frozenset(), False]

    def starts(self, w, i):
        t = w.tasks[i]
        t[RUNS] = True
        if 'asks_nobody' in self.off:
            t[SHARDS] = tuple(s for s in t[SHARDS] if s[0] in t[MANIFESTS])
        if i == 0:
            w.d[UP] = True
            w.d[BEGAN] = t[ANEW] if 'anew_not_noted' not in self.off else 0
            w.d[NEXT] = max([0, t[BAR]] + [n for n, _ in t[SHARDS]] + list(t[MANIFESTS])) + 1
            if t[OPEN] and 'reset_not_again' not in self.off:
                self.wipe(w, t[BAR])                            # begun by an earlier life
            self.listed(w, 0)

    @staticmethod
    def spoil(w, i, n):
        w.tasks[i][SHARDS] = tuple((k, SPOILT if k == n else p) for k, p in w.tasks[i][SHARDS])
        w.spoilt = True

    def quiet(self, key):
        w = World.look(key)
        return w.d[UP] and w.d[LISTED] == self.all and w.d[PHASE] == IDLE and not any(w.down) and not any(w.up) and not self.who_lacks(w) and all(
            not w.asked and not w.wanted and t[RUNS] and not t[CUT] and not t[BESIDE] and (i not in self.parts or t[LIVE]) and
            all(n in t[MANIFESTS] for n, _ in t[SHARDS]) for i, t in enumerate(w.tasks))


if __name__ == "__main__":
    sys.exit(main(Model, SCENARIOS, MUTANTS))
