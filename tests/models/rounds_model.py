#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of rounds (docs/PROTOCOL.md): the two-phase commit of the directory's engine and the owners, and the members
that come, contribute, are lost and come back; explored before it was written in C.
usage: rounds_model.py                       all scenarios, then all weaker rules and mistakes
       rounds_model.py SCENARIO [RULE ...]   one run, prints the way to what is wrong

Workers contribute to each owner, say STEP to the directory and wait; a contribution travels by itself, also that of a worker which
has died since. The directory's orders to an owner are a FIFO; a link that one side has given up stays readable at the owner until it
notices, and what the owner answers then is lost. A worker's request arrives or its connection is cut; then it is sent again, and
an answer meanwhile is lost. A restarted directory knows what the owners list. A fault is a cut of either kind, the end of a lease
of a worker that lives (it stood still), a death of a worker, of an owner (which comes back empty), of the directory; each scenario
has a number of each. The lease of a dead worker ends without a fault. Nobody has a deadline.

Promised, at every step:
  - what living owners have flipped is the same, round by round: the same members, none twice, each with its contribution of that
    round; they differ by at most one round, and have every round of which a STEP or JOIN was answered;
  - a flip was decided: every owner was ready for it; an owner can carry out every COMMIT;
  - who is told *taken* was taken everywhere, who is told that he was not, nowhere;
  - with on_loss `wait` and all replicas no round is decided without a member that has joined and not left;
  - when all have left, or are lost where the others have left, the next round waits for as many as the first one did, also with
    another directory; not where the last one's session is only made anew by its process, within a lease;
  - where a group has lost an owner, those that are left end with the same round.
And from every state there is a way without a further fault to one where nothing is under way, no owner holds what is prepared or
the areas of members that are gone, and only those wait whose round needs a place that is open."""
import functools
import operator
import sys

from explore import Violation, main

CUT, LINK, LEASE, DIE, OWNER, DIRECTORY = range(6)
FAULTS = ('cut', 'link', 'lease', 'die', 'owner', 'directory')
# scenario: the index of each session (a later one of an index may start at any time), owners, R (0: all), policy, faults; rounds: 2;
# each: rounds of each session; again: session: the one of which its process makes it anew; at_most 1: one fault of all of these; opens: they have not joined yet; forgets: (session, owner) that
# lacks its contribution of round 1
SCENARIOS = {
    'link':      dict(workers=(0, 1), faults=dict(link=1, cut=1)),
    'directory': dict(workers=(0, 1), faults=dict(directory=1, cut=1)),
    'owner':     dict(workers=(0, 1), faults=dict(owner=1, directory=1)),
    'death':     dict(workers=(0, 1, 1), faults=dict(die=1, directory=1), rounds=1),
    'shrink':    dict(workers=(0, 1), on_loss='shrink', faults=dict(die=1, directory=1)),
    'lost':      dict(workers=(0, 1), on_loss='shrink', faults=dict(die=1, directory=1, link=1), rounds=1),
    'stops':     dict(workers=(0, 1), on_loss='shrink', faults=dict(lease=1, link=1)),
    'stop':      dict(workers=(0, 1), on_loss='shrink', faults=dict(lease=2)),
    'fail':      dict(workers=(0, 1), on_loss='fail', faults=dict(die=1, link=1)),
    'backup':    dict(workers=(0, 1, 2), replicas=2, faults=dict(directory=1), rounds=2),
    'forgets':   dict(workers=(0, 1, 2), replicas=1, forgets=(1, 1), on_loss='shrink', faults=dict(link=1), rounds=1),
    'missing':   dict(workers=(0, 1), forgets=(1, 1), faults=dict(directory=1), rounds=1),
    'leaves':    dict(workers=(0, 1), each=(1, 2), faults=dict(directory=1, cut=1)),
    'three':     dict(workers=(0, 1, 2), at_most=1, faults=dict(cut=1, link=1, lease=1, die=1, owner=1, directory=1)),
    'three_2':   dict(workers=(0, 1, 2), faults=dict(link=1, die=1, directory=1)),
    'owners_2':  dict(workers=(0, 1), owners=3, faults=dict(link=1, directory=1)),
    'backup_2':  dict(workers=(0, 1, 2), replicas=2, on_loss='shrink', faults=dict(die=1, directory=1)),
    'late':      dict(workers=(0, 1), on_loss='shrink', faults=dict(lease=1, cut=1)),
    'opens':     dict(workers=(0, 1), opens=True, faults=dict(cut=1, directory=1), rounds=1),
    'twice':     dict(workers=(0, 1, 1), replicas=1, faults=dict(lease=1), rounds=1),
    'anew':      dict(workers=(0, 1, 0, 1), each=(1, 1, 2, 2), faults=dict()),
    'anew_lost': dict(workers=(0, 1, 1, 0), each=(1, 2, 2, 2), owners=1, replicas=1, faults=dict(die=1)),
    'anew_lost_d': dict(workers=(0, 1, 1), each=(1, 2, 1), owners=1, replicas=1, faults=dict(die=1, directory=1)),
    'again':     dict(workers=(0, 1, 1), each=(1, 2, 2), again={2: 1}, replicas=1, faults=dict(link=1)),
    'again_s':   dict(workers=(0, 1, 1), each=(1, 2, 2), again={2: 1}, on_loss='shrink', faults=dict()),
    'anew_2':    dict(workers=(0, 1, 0, 1), each=(1, 1, 2, 2), faults=dict(directory=1)),
    'apart':     dict(workers=(0,), owners=3, faults=dict(owner=1, link=1), rounds=1),
    'apart_d':   dict(workers=(0,), owners=3, faults=dict(owner=1, directory=1), rounds=1),
    'apart_2':   dict(workers=(0,), owners=3, faults=dict(owner=1, directory=1, link=1), rounds=1),
}
# rule that is left out, or mistake: (where it shows first, what it is)
MUTANTS = {
    'commit_early':      ('missing', "COMMIT at the first READY"),
    'attempt_forgotten': ('forgets', "READY of an older attempt counts"),
    'ready_kept':        ('forgets', "who was ready for an older attempt counts for the new one"),
    'number_only':       ('backup', "an owner takes an attempt of a new directory for that of the older one"),
    'all_counted':       ('backup', "a late contribution is counted: an owner sums all that it has"),
    'late_next':         ('backup', "a contribution to a round that is over is one to the next"),
    'any_member':        ('death', "an owner takes the contribution of a member that was replaced as its successor's"),
    'decides_itself':    ('link', "an owner in doubt flips without COMMIT"),
    'early_answer':      ('link', "STEP is answered at COMMIT, before all have flipped"),
    'acts_early':        ('directory', "a restarted directory acts before all owners have listed"),
    'no_catch_up':       ('directory', "a restarted directory does not send the last COMMIT to the owners that lack it"),
    'old_bytes':         ('directory', "an owner reads on what an older connection brought, after it has listed on a new one"),
    'commit_last':       ('lost', "after a restart members are put right before the last COMMIT is carried out"),
    'lost_complete':     ('shrink', "what a lost member has contributed is dropped although its STEP was taken"),
    'replaces_complete': ('twice', "a member whose STEP was taken is replaced before the flip"),
    'wait_leaves':       ('death', "the areas of a lost member are freed under `wait`: a restarted directory does not know of its place"),
    'leave_early':       ('leaves', "LEAVE is answered before all owners have carried it out"),
    'last_only':         ('backup', "a restarted directory knows only who was in the last round"),
    'lost_last_only':    ('late', "whose place is gone is told of no round before the last one that it was taken"),
    'no_void':           ('missing', "an attempt that is given up is not ended at the owners"),
    'fail_at_once':      ('fail', "a group fails while a COMMIT is on its way"),
    'opened_forgotten':  ('shrink', "a restarted directory takes a group that was open for one that waits for its first members"),
    'stays_open':        ('anew', "who comes when all have left begins alone"),
    'alone':             ('anew_lost', "who takes the place of one that was lost while the others finished goes on alone"),
    'over_forgotten':    ('anew_lost_d', "a restarted directory does not know that somebody has finished in the round under way"),
    'anew_waits':        ('again', "the last one's session is made anew, and taken for lost at once"),
    'broken_at_once':    ('apart', "a group that has lost an owner ends while a COMMIT is on its way"),
    'broken_unasked':    ('apart_d', "a restarted directory ends a group that has lost an owner where the last COMMIT is missing"),
    'next_only':         ('stop', "who joins while nobody is a member waits for a round that does not end"),
}

# session: phase, member, round, on the way to each owner
PHASE, MID, ROUND, FLIGHT = range(4)
#   '-' not started, 'J' 'S' 'L' has a request to send, 'j' 's' 'l' it is at the directory, 'C' contributes; ended: 'D' well, 'F', 'X' dead
# owner: lives, life of the directory that it is connected to, orders unread, group: 'g' has it, 'e' was told to end it, '-' lost;
# committed, what each flip took, member of each index (member, session, contribution: (round, session), last taken), prepared, opened,
# the round in which somebody has left
ALIVE, CONN, CHAN, GROUP, DONE, HIST, MEM, PREP, OPEN, OVER = range(10)
# prepared: life, attempt, list, built, what of
# directory: life (0: down), connected owners, phase, round, attempt, list, ready, flipped, places, waits, leaves, last list, opened, failing: True, or 'b';
# the round in which somebody has left last, with `finished`; last list: of each member, also of one that is gone, the last round that took it
LIFE, UP, STATE, NOW, ATT, LIST, READY, FLIPPED, PLACES, WAITS, LEAVES, LAST, OPENED, FAILING, LEFT = range(15)
# place: member (0: nobody), session, lost, first round, complete, owners that know it, answered, last taken
P_MID, P_WHO, P_LOST, P_FIRST, P_COMPLETE, P_OKS, P_ANSWERED, P_TAKEN = range(8)
GHOSTS = ('mids', 'lives', 'answered', 'decided', 'over', 'before', 'fresh', 'seats')


NOTHING = (0, 0)
DROPPED = (-1, False)   # seat of one that was lost when all began anew
KEPT = -1   # last taken, of one that is to take a place that was kept for it
SAME = -2   # ... and whose process had the session before it


def index_of(mid):
    return mid >> 4


def swap(t, i, v):
    return t[:i] + (v,) + t[i + 1:]


GHOSTS_OF = operator.attrgetter(*GHOSTS)


class World:
    def __init__(self, key):
        sess, own, d, left, *ghosts = key
        self.sess = [*map(list, sess)]
        self.own = [*map(list, own)]
        self.d = [*d]
        self.d[PLACES] = [p and [*p] for p in d[PLACES]]
        self.left = [*left]
        self.__dict__.update(zip(GHOSTS, ghosts))

    def key(self):
        d = self.d[:]
        d[PLACES] = tuple([p and (*p,) for p in d[PLACES]])
        return ((*map(tuple, self.sess),), (*map(tuple, self.own),), (*d,), (*self.left,), *GHOSTS_OF(self))

    def key_of_any_order(self):
        """The same for states that differ but in which owner is which: the owners in an order by what concerns each."""
        d = self.d
        order = [*map(hash, map(tuple, self.own))]
        if len({*order}) < len(order):
            order = [*map(hash, zip(order, d[UP], d[READY], d[FLIPPED], *[s[FLIGHT] for s in self.sess if s[FLIGHT]],
                                    *[p[P_OKS] for p in d[PLACES] if p], *[x[2] for x in d[LEAVES] if x]))]
        if order != sorted(order):
            pick = operator.itemgetter(*sorted(range(len(order)), key=order.__getitem__))
            self.own = pick(self.own)
            d[UP], d[READY], d[FLIPPED] = pick(d[UP]), pick(d[READY]), pick(d[FLIPPED])
            for s in self.sess:
                s[FLIGHT] = s[FLIGHT] and pick(s[FLIGHT])
            for p in d[PLACES]:
                if p:
                    p[P_OKS] = pick(p[P_OKS])
            d[LEAVES] = tuple([x and (*x[:2], pick(x[2])) for x in d[LEAVES]])
        return self.key()


class Model:
    """alike: states that differ but in which owner is which are one."""

    def __init__(self, scenario, off=(), alike=True):
        sc = SCENARIOS[scenario]
        self.off = frozenset(off)
        self.index = sc['workers']
        self.places = max(self.index) + 1
        self.owners = sc.get('owners', 2)
        self.replicas, self.policy = sc.get('replicas', 0), sc.get('on_loss', 'wait')
        self.faults, self.budget = sc['faults'], sc.get('at_most', 99)
        self.rounds = sc.get('each', (sc.get('rounds', 2),) * len(self.index))
        self.again = sc.get('again', {})
        self.opens, self.forgets = sc.get('opens', False), sc.get('forgets')
        # one owner may lack something; one run by hand tells the owners apart, so that its steps can be read
        self.freeze = World.key_of_any_order if alike and self.owners > 1 and not self.forgets else World.key
        self.all = (True,) * self.owners
        self.none = (False,) * self.owners

    def start(self):
        joined = not self.opens
        mids = [i * 16 + 1 for i in range(self.places)]
        first = [self.index.index(i) for i in range(self.places)]
        sess = tuple(('-', 0, 0, ()) if k not in first else ('J', 0, 0, ()) if self.opens else
                     ('C', mids[i], 1, self.flights(k, 1)) for k, i in enumerate(self.index))
        mem = tuple((mids[i], first[i], NOTHING, 0) if joined else None for i in range(self.places))
        own = ((True, 1, (), 'g', 0, (), mem, None, False, 0),) * self.owners
        places = tuple((mids[i], first[i], False, 1, False, self.all, True, 0) if joined else None for i in range(self.places))
        d = (1, self.all, 'c', 1, 0, (), self.none, self.none, places, (None,) * len(self.index), (None,) * self.places, (), joined,
             False, 0)
        left = tuple(min(self.faults.get(f, 0), self.budget) for f in FAULTS)
        seats = tuple((first[i], True) if joined else None for i in range(self.places))
        return (sess, own, d, left, (2 if joined else 1,) * self.places, 1, 0, (0, ()), 0, 0, False, seats)

    def flights(self, k, r):
        return tuple(2 if self.forgets == (k, o) and r == 1 else 1 for o in range(self.owners))

    # ---- the owner -------------------------------------------------------------------------------
    def contribution(self, w, k, o):
        s, own = w.sess[k], w.own[o]
        s[FLIGHT] = swap(s[FLIGHT], o, 2)
        if own[GROUP] != 'g':
            s[PHASE] = 'F' if s[PHASE] == 'C' else s[PHASE]
            return
        i = self.index[k]
        m = own[MEM][i]
        known = m is not None and (m[0] == s[MID] or 'any_member' in self.off)
        late = s[ROUND] <= own[DONE]
        if known and not late and s[ROUND] > own[DONE] + 1:
            raise Violation('session %d contributes to a round that is not open' % k)
        if known and (m[2] == NOTHING if 'late_next' in self.off else not late):
            own[MEM] = swap(own[MEM], i, (m[0], m[1], (s[ROUND], k), m[3]))
        if s[PHASE] == 'C' and all(f == 2 for f in s[FLIGHT]):
            s[PHASE] = 'S'

    def lacks(self, own, mids, r):
        out = []
        for mid in mids:
            m = own[MEM][index_of(mid)]
            if m is None or m[0] != mid or (m[2][0] != r and ('late_next' not in self.off or m[2] == NOTHING)):
                out.append(mid)
        return tuple(out)

    def parts(self, own, mids):
        if 'all_counted' in self.off:
            mids = tuple(m[0] for m in own[MEM] if m and m[2][0] == own[DONE] + 1)
        return tuple((mid,) + own[MEM][index_of(mid)][1:3] for mid in mids)

    def reads(self, w, o):
        own = w.own[o]
        msg, own[CHAN] = own[CHAN][0], own[CHAN][1:]
        kind = msg[0]
        if own[GROUP] != 'g':
            return
        if kind == 'P':
            _, life, att, r, mids = msg
            if r != own[DONE] + 1:
                raise Violation('owner %d is to prepare round %d, and has committed %d' % (o, r, own[DONE]))
            p = own[PREP]
            if p and (p[:2] == (life, att) or ('number_only' in self.off and p[1] == att)):
                if p[3]:
                    self.ready(w, o, life, att)
                return
            missing = self.lacks(own, mids, r)
            own[PREP] = None if missing else (life, att, mids, False, self.parts(own, mids))
            if missing:
                self.missing(w, o, life, att, missing)
        elif kind == 'V':
            own[PREP] = None
        elif kind == 'K':
            _, r, mids = msg
            if r > own[DONE]:
                self.flip(w, o, r, mids)
            self.flipped(w, o, r)
        elif kind == 'J':
            _, i, mid, k, own[OPEN] = msg
            if own[MEM][i] is None or own[MEM][i][0] != mid:
                self.drops(w, o, i)
                own[MEM] = swap(own[MEM], i, (mid, k, NOTHING, 0))
            self.joined(w, o, i, mid)
        elif kind == 'X':
            _, i, mid, own[OPEN], own[OVER] = msg
            if own[MEM][i] is not None and own[MEM][i][0] == mid:
                self.drops(w, o, i)
                own[MEM] = swap(own[MEM], i, None)
            self.has_left(w, o, i, mid)
        elif kind == 'E':
            own[GROUP], own[MEM], own[PREP] = 'e', (None,) * self.places, None

    def drops(self, w, o, i):
        """the contribution of its member of index i"""
        own = w.own[o]
        if own[MEM][i] and own[PREP] and own[MEM][i][0] in own[PREP][2]:
            life, att = own[PREP][:2]
            own[PREP] = None
            self.missing(w, o, life, att, own[MEM][i][:1])

    def builds(self, w, o):
        own = w.own[o]
        life, att = own[PREP][:2]
        own[PREP] = swap(own[PREP], 3, True)
        self.ready(w, o, life, att)

    def flip(self, w, o, r, mids):
        own = w.own[o]
        if r != own[DONE] + 1:
            raise Violation('owner %d is to commit round %d, and has committed %d' % (o, r, own[DONE]))
        p = own[PREP]
        if p and p[3] and (p[2] == mids or 'number_only' in self.off):
            mids, parts = p[2], p[4]
        else:
            if self.lacks(own, mids, r):
                raise Violation('owner %d cannot carry out the COMMIT of round %d: it has nothing of %r' % (
                    o, r, self.lacks(own, mids, r)))
            parts = self.parts(own, mids)
        if (r, tuple(mid for mid, _, _ in parts)) != w.decided:
            raise Violation('owner %d flips round %d with %r, which was not decided' % (o, r, parts))
        own[HIST] += (parts,)
        own[DONE] = r
        own[MEM] = tuple(m and (m[0], m[1], NOTHING, r if m[0] in mids else m[3]) for m in own[MEM])
        own[PREP] = None

    # ---- the directory ---------------------------------------------------------------------------
    def hears(self, w, o):
        return w.d[LIFE] and w.d[UP][o] and w.own[o][CONN] == w.d[LIFE] and w.d[STATE] != 'r'

    def order(self, w, o, *msg):
        own = w.own[o]
        if w.d[UP][o] and own[CONN] == w.d[LIFE]:
            own[CHAN] += (msg,)

    def orders(self, w, *msg):
        for o in range(self.owners):
            self.order(w, o, *msg)

    def try_close(self, w):
        d = w.d
        if d[STATE] != 'c' or not d[OPENED]:
            return
        here = [p for p in d[PLACES] if p and p[P_FIRST] <= d[NOW]]
        mids = tuple(p[P_MID] for p in here if p[P_COMPLETE])
        need = min(self.replicas, len(here)) if self.replicas else len(here)
        if not mids or len(mids) < need:
            return
        d[STATE], d[LIST] = 'p', mids
        d[ATT] += 1
        d[READY] = self.none if 'ready_kept' not in self.off else d[READY]
        for p in here:
            if not p[P_ANSWERED]:
                p[P_FIRST] = d[NOW] + 1
        self.orders(w, 'P', d[LIFE], d[ATT], d[NOW], mids)

    def ready(self, w, o, life, att):
        d = w.d
        if not self.hears(w, o) or d[STATE] != 'p' or ((life, att) != (d[LIFE], d[ATT]) and 'attempt_forgotten' not in self.off):
            return
        d[READY] = swap(d[READY], o, True)
        if all(d[READY]) or 'commit_early' in self.off:
            self.decide(w)

    def decide(self, w):
        d = w.d
        if self.policy == 'wait' and not self.replicas:
            for i, seat in enumerate(w.seats):
                if seat and seat[1] and i not in [index_of(m) for m in d[LIST]]:
                    raise Violation('round %d is decided without the member of index %d, which has not left' % (d[NOW], i))
        for o, own in enumerate(w.own):
            if own[GROUP] == 'g' and (own[PREP] is None or own[PREP][2:4] != (d[LIST], True)) and 'commit_early' not in self.off:
                raise Violation('round %d is decided with %r, and owner %d has prepared %r' % (d[NOW], d[LIST], o, own[PREP]))
        if w.fresh:
            raise Violation('all have left, and round %d takes but %r' % (d[NOW], d[LIST]))
        w.decided = (d[NOW], d[LIST])
        d[STATE], d[FLIPPED] = 'm', self.none
        if 'early_answer' in self.off:
            self.answer_round(w, d[NOW])
        self.orders(w, 'K', d[NOW], d[LIST])

    def missing(self, w, o, life, att, mids):
        d = w.d
        if not self.hears(w, o) or d[STATE] != 'p' or (life, att) != (d[LIFE], d[ATT]):
            return
        for mid in mids:
            p = d[PLACES][index_of(mid)]
            if p and p[P_MID] == mid:
                p[P_COMPLETE] = False
            for k, x in enumerate(d[WAITS]):
                if x and x[:2] == ('S', mid):
                    self.answer(w, k, 'F')
        d[STATE] = 'c'
        self.try_close(w)
        if d[STATE] == 'c' and 'no_void' not in self.off:
            self.orders(w, 'V')

    def flipped(self, w, o, r):
        d = w.d
        if not self.hears(w, o) or d[STATE] != 'm' or r != d[NOW]:
            return
        d[FLIPPED] = swap(d[FLIPPED], o, True)
        self.look_flipped(w)

    def look_flipped(self, w):
        if all(w.d[FLIPPED]):
            self.end_round(w)

    def answer_round(self, w, r):
        for k, x in enumerate(w.d[WAITS]):
            if x and x[0] == 'S' and x[2] == r:
                self.answer(w, k, 'S', r + 1, x[1] in w.d[LIST])

    def end_round(self, w):
        d = w.d
        r, d[STATE] = d[NOW], 'c'
        d[LAST] = tuple(sorted({**dict(d[LAST]), **dict.fromkeys(d[LIST], r)}.items()))
        d[NOW] += 1
        for i, p in enumerate(d[PLACES]):
            if p and p[P_FIRST] <= r:
                p[P_TAKEN] = r if p[P_MID] in d[LIST] else p[P_TAKEN]
                p[P_COMPLETE] = False
        self.answer_round(w, r)
        d[LIST] = ()
        if d[FAILING]:
            (self.broken if d[FAILING] == 'b' else self.fail)(w)
            return
        for i, p in enumerate(d[PLACES]):
            if p and p[P_LOST] and self.policy == 'shrink':
                self.remove(w, i)
        for k, x in enumerate(d[WAITS]):
            if x and x[0] == 'J':
                self.join(w, k)
        self.settle_joins(w)
        self.try_close(w)

    def answer(self, w, k, word, r=0, taken=False):
        """of what session k waits for; lost if it is not connected"""
        d, s = w.d, w.sess[k]
        x, d[WAITS] = d[WAITS][k], swap(d[WAITS], k, None)
        if word in 'SJ':
            w.answered = max(w.answered, r - 1)
        elif word == 'L' and w.seats[self.index[k]] and w.seats[self.index[k]][0] == k:
            w.seats = swap(w.seats, self.index[k], None)
        if not s[PHASE].islower():
            return
        if word == 'F':
            s[PHASE] = 'F'
        elif word == 'lost':
            s[PHASE] = 'J'
            if taken or x[2] > w.before:     # a directory does not know whom no owner lists any more when it is started
                self.check_taken(w, x[1], x[2], taken)
        elif word == 'L':
            s[PHASE], s[MID] = 'D', 0
        else:
            if word == 'S':
                self.check_taken(w, x[1], x[2], taken)
            else:
                s[MID] = taken
                w.seats = swap(w.seats, self.index[k], (k, True))
            s[ROUND] = r
            if r > self.rounds[k]:
                s[PHASE] = 'L'
            else:
                s[PHASE], s[FLIGHT] = 'C', self.flights(k, r)

    def check_taken(self, w, mid, r, taken):
        for o, own in enumerate(w.own):
            if own[GROUP] != '-' and len(own[HIST]) >= r and taken != (mid in [m for m, _, _ in own[HIST][r - 1]]):
                raise Violation('member %d is told %staken in round %d, and owner %d took %r' % (
                    mid, '' if taken else 'not ', r, o, own[HIST][r - 1]))

    def remove(self, w, i, left=False):
        """for good; its areas go"""
        d = w.d
        mid, d[PLACES][i] = d[PLACES][i][P_MID], None
        if left:
            d[LEFT] = w.over = d[NOW]
        self.look_over(w)
        self.orders(w, 'X', i, mid, d[OPENED], d[LEFT])
        self.settle_joins(w)

    def lacks_some(self):
        """the others may have finished without one that is lost"""
        return self.replicas or self.policy == 'shrink'

    def is_last(self, w, i):
        """the others have finished, and the member of index i alone is at work"""
        d = w.d
        works = [k for k, p in enumerate(d[PLACES]) if p and p[P_ANSWERED] and p[P_FIRST] <= d[NOW] and not p[P_LOST]]
        return works == [i] and d[LEFT] == d[NOW] and self.lacks_some() and 'anew_waits' not in self.off

    def made_anew(self, w, k, j, closed):
        """the process of session k makes j in its place; closed: it says that k is gone"""
        fresh = w.fresh
        w.sess[k][PHASE], w.sess[j][PHASE] = 'X', 'J'
        if closed and w.d[LIFE] and w.d[STATE] != 'r' and not self.is_last(w, self.index[k]):
            self.lease_ends(w, k)
        if w.fresh and not fresh:
            raise Violation('all begin anew because session %d is made anew' % k)

    def look_over(self, w):
        """the last one has left, and who is lost has closed no round since: all begin anew"""
        d = w.d
        new = [p is not None and (not p[P_ANSWERED] or (p[P_FIRST] > d[NOW] and not p[P_LOST])) for p in d[PLACES]]
        lacks = self.lacks_some()
        if d[STATE] != 'c' or any(p and (p[P_TAKEN] == SAME or (p[P_TAKEN] == KEPT and not lacks) if n else
                                         not (p[P_LOST] and lacks)) for p, n in zip(d[PLACES], new)):
            return
        w.fresh = w.fresh or w.over == d[NOW]
        if d[LEFT] != d[NOW]:
            return
        w.fresh = True
        come = any(new)
        if come and 'alone' in self.off:
            return
        d[OPENED] = d[OPENED] and 'stays_open' in self.off
        for i, p in enumerate(d[PLACES]):
            if new[i]:
                p[P_FIRST] = d[NOW]
            elif p:
                d[PLACES][i] = None
                w.seats = swap(w.seats, i, DROPPED)
                for o, own in enumerate(w.own):     # of a place that is kept since a restart each may have another member
                    has = own[MEM][i]
                    mid = p[P_MID] or (has[0] if has else 0)
                    if mid:
                        self.order(w, o, 'X', i, mid, d[OPENED], d[LEFT])
        d[LEFT] = w.over = 0 if come else d[LEFT]

    def lease_ends(self, w, k):
        d, s, i = w.d, w.sess[k], self.index[k]
        if s[PHASE].islower():
            s[PHASE] = s[PHASE].upper()
        if d[WAITS][k]:
            d[WAITS] = swap(d[WAITS], k, None)
        p = d[PLACES][i]
        if p is None or p[P_WHO] != k:
            return
        if self.policy == 'fail':
            if d[STATE] == 'm' and 'fail_at_once' not in self.off:
                p[P_LOST] = d[FAILING] = True
            else:
                self.fail(w)
        elif self.policy == 'shrink' and (not p[P_COMPLETE] or 'lost_complete' in self.off):
            self.remove(w, i)
            self.try_close(w)
        elif 'wait_leaves' in self.off and not p[P_COMPLETE]:
            p[P_LOST] = True
            self.orders(w, 'X', i, p[P_MID], d[OPENED], d[LEFT])
        else:
            p[P_LOST] = True
            self.look_over(w)

    def fail(self, w):
        d = w.d
        if d[STATE] == 'p':
            self.orders(w, 'V')
        d[STATE] = 'f'
        for k, x in enumerate(d[WAITS]):
            if x:
                self.answer(w, k, 'L' if x[0] == 'L' else 'F')

    def lacks_part(self, w, o):
        """it has listed, and has lost its part"""
        d = w.d
        if d[STATE] == 'm' and 'broken_at_once' not in self.off:
            d[FAILING], d[FLIPPED] = 'b', swap(d[FLIPPED], o, True)
            self.look_flipped(w)
        else:
            self.broken(w)

    def broken(self, w):
        self.fail(w)
        w.d[STATE] = 'b'
        self.orders(w, 'E')

    def join(self, w, k):
        d, i = w.d, self.index[k]
        p = d[PLACES][i]
        if p and p[P_WHO] == k and not p[P_ANSWERED]:
            p[P_LOST] = False                           # sent again, it waits already
            return
        if p and p[P_WHO] > k and not p[P_LOST]:
            self.answer(w, k, 'F')                      # a newer session has the place
            return
        for j, x in enumerate(d[WAITS]):
            if x and j < k and self.index[j] == i and x[0] == 'J':
                self.answer(w, j, 'F')
        if p and p[P_COMPLETE] and 'replaces_complete' not in self.off:
            return                                      # until the flip
        at_once = not d[OPENED] or (p and p[P_FIRST] <= d[NOW])
        mid = i * 16 + w.mids[i]
        w.mids = swap(w.mids, i, w.mids[i] + 1)
        for j, x in enumerate(d[WAITS]):
            if x and p and x[0] == 'S' and x[1] == p[P_MID]:
                self.answer(w, j, 'F')
        w.seats = swap(w.seats, i, (k, bool(w.seats[i] and w.seats[i][1])))
        d[PLACES][i] = [mid, k, False, d[NOW] if at_once else d[NOW] + 1, False, self.none, False,
                          0 if not p else SAME if p[P_WHO] in (k, self.again.get(k)) and 'anew_waits' not in self.off else KEPT]
        self.look_over(w)
        self.orders(w, 'J', i, mid, k, d[OPENED])

    def joined(self, w, o, i, mid):
        p = w.d[PLACES][i]
        if self.hears(w, o) and p and p[P_MID] == mid:
            p[P_OKS] = swap(p[P_OKS], o, True)
            self.settle_joins(w)

    def settle_joins(self, w):
        d = w.d
        if d[STATE] != 'c':
            return
        if not d[OPENED] and all(p and all(p[P_OKS]) for p in d[PLACES]):
            d[OPENED], w.fresh = True, False
            self.try_close(w)
            if d[STATE] != 'c':
                return
        for p in d[PLACES] if 'next_only' not in self.off and not any(p and p[P_FIRST] <= d[NOW] for p in d[PLACES]) else ():
            if p:
                p[P_FIRST] = d[NOW]
        for p in d[PLACES]:
            if p and not p[P_ANSWERED] and all(p[P_OKS]) and p[P_FIRST] <= d[NOW]:
                p[P_ANSWERED] = True
                if not d[OPENED]:
                    d[LEFT] = w.over = 0
                x = d[WAITS][p[P_WHO]]
                if x and x[0] == 'J':
                    self.answer(w, p[P_WHO], 'J', d[NOW], p[P_MID])

    def step(self, w, k, mid, r):
        d, i = w.d, self.index[k]
        p = d[PLACES][i]
        if p is None or p[P_MID] != mid or (p[P_LOST] and not p[P_COMPLETE] and r == d[NOW]):
            if p and p[P_MID] != mid and p[P_WHO] > k and not p[P_LOST]:
                self.answer(w, k, 'F')                  # a newer session has the place
            else:
                known = 'lost_last_only' not in self.off or r == d[NOW] - 1
                self.answer(w, k, 'lost', 0, known and dict(d[LAST]).get(mid) == r)
        elif r < d[NOW]:
            p[P_LOST] = False
            taken = p[P_TAKEN] == r if 'last_only' not in self.off else dict(d[LAST]).get(mid) == d[NOW] - 1
            self.answer(w, k, 'S', d[NOW], taken)
        else:
            p[P_COMPLETE], p[P_LOST] = True, False
            self.try_close(w)

    def leave(self, w, k, mid):
        d, i = w.d, self.index[k]
        p = d[PLACES][i]
        if w.seats[i] and w.seats[i][0] == k:
            w.seats = swap(w.seats, i, (k, False))
        if p and p[P_MID] == mid:
            self.remove(w, i, True)
            d[LEAVES] = swap(d[LEAVES], i, (mid, k, self.none))
            if 'leave_early' in self.off:
                self.answer(w, k, 'L')
            self.try_close(w)
        elif not d[LEAVES][i] or d[LEAVES][i][0] != mid:
            self.answer(w, k, 'L')

    def has_left(self, w, o, i, mid):
        d = w.d
        x = d[LEAVES][i]
        if self.hears(w, o) and x and x[0] == mid:
            x = (mid, x[1], swap(x[2], o, True))
            d[LEAVES] = swap(d[LEAVES], i, None if all(x[2]) else x)
            if all(x[2]) and d[WAITS][x[1]]:
                self.answer(w, x[1], 'L')

    def sends(self, w, k):
        d, s = w.d, w.sess[k]
        kind, s[PHASE] = s[PHASE], s[PHASE].lower()
        d[WAITS] = swap(d[WAITS], k, (kind, s[MID], s[ROUND]))
        if d[STATE] in 'bf' or d[FAILING]:
            self.answer(w, k, 'L' if kind == 'L' else 'F')
        elif kind == 'J':
            self.join(w, k)
        elif kind == 'S':
            self.step(w, k, s[MID], s[ROUND])
        else:
            self.leave(w, k, s[MID])

    # ---- an owner lists --------------------------------------------------------------------------
    def lists(self, w, o):
        own, d = w.own[o], w.d
        own[CONN], own[CHAN] = d[LIFE], own[CHAN] if 'old_bytes' in self.off else ()
        d[UP] = swap(d[UP], o, True)
        if d[STATE] == 'r':
            if all(d[UP]) or 'acts_early' in self.off:
                self.recovers(w)
        elif d[STATE] == 'b' or own[GROUP] != 'g':
            if d[STATE] != 'b':
                self.lacks_part(w, o)
            elif own[GROUP] == 'g':
                self.order(w, o, 'E')
        else:
            self.corrects(w, o)

    def recovers(self, w):
        d = w.d
        up = [own for o, own in enumerate(w.own) if d[UP][o] and own[GROUP] == 'g']
        lost = any(own[GROUP] != 'g' for o, own in enumerate(w.own) if d[UP][o])
        if lost and ('broken_unasked' in self.off or len({own[DONE] for own in up}) < 2):
            d[STATE] = 'c'
            self.broken(w)
            return
        top = max(up, key=lambda own: own[DONE])
        d[LAST] = tuple(sorted({m[0]: m[3] for own in sorted(up, key=lambda own: own[DONE]) for m in own[MEM] if m and m[3] > 0}.items()))
        last = tuple(mid for mid, _, _ in top[HIST][-1]) if top[HIST] else ()
        behind = any(own[DONE] < top[DONE] for own in up) and 'no_catch_up' not in self.off
        d[STATE], d[NOW], d[LIST] = ('m', top[DONE], last) if behind else ('c', top[DONE] + 1, ())
        d[READY], d[FAILING] = self.none, 'b' if lost else False
        d[FLIPPED] = tuple(own[GROUP] != 'g' for own in w.own)
        for i in range(self.places):
            told = [own[MEM][i] for own in up]
            whole = len({m and m[0] for m in told}) == 1
            if None in told:
                d[PLACES][i] = None
            elif whole:
                mid, who, _, _ = told[0]
                d[PLACES][i] = [mid, who, False, 1, False, self.none, True, max(m[3] for m in told)]
                # a JOIN that was not answered is forgotten; who was dropped as lost, and no owner has heard of it, is there again
                w.seats = swap(w.seats, i, (who, True) if w.seats[i] == DROPPED else w.seats[i] and (who, w.seats[i][1]))
            else:
                d[PLACES][i] = [0, -1, True, 1, False, self.all, True, 0] if self.policy == 'wait' else None
        told = [own[OPEN] for own in up]
        d[OPENED] = all(d[PLACES]) or (any if any(d[PLACES]) else all)(told) and 'opened_forgotten' not in self.off
        w.fresh = w.fresh and not (d[OPENED] and any(d[PLACES]))
        left = max(own[OVER] for own in up) if 'over_forgotten' not in self.off else 0
        d[LEFT] = left if left == d[NOW] and not behind and (d[OPENED] or not any(d[PLACES])) else 0
        for o in range(self.owners):
            if d[UP][o]:
                self.corrects(w, o)

    def corrects(self, w, o):
        """what an owner lacks, in this order: a COMMIT, members, a PREPARE"""
        d, own = w.d, w.own[o]
        commit = d[STATE] == 'm' and own[DONE] < d[NOW]
        if commit and 'commit_last' not in self.off:
            self.order(w, o, 'K', d[NOW], d[LIST])
        for i, p in enumerate(d[PLACES]):
            has = own[MEM][i]
            if has and (not p or (p[P_MID] and p[P_MID] != has[0])):
                self.order(w, o, 'X', i, has[0], d[OPENED], d[LEFT])
            if p and p[P_MID] and (not has or has[0] != p[P_MID]):
                self.order(w, o, 'J', i, p[P_MID], p[P_WHO], d[OPENED])
            elif p and p[P_MID]:
                self.joined(w, o, i, p[P_MID])
            if d[LEAVES][i] and (not has or has[0] != d[LEAVES][i][0]):
                self.has_left(w, o, i, d[LEAVES][i][0])
        if commit and 'commit_last' in self.off:
            self.order(w, o, 'K', d[NOW], d[LIST])
        if d[STATE] == 'p':
            self.order(w, o, 'P', d[LIFE], d[ATT], d[NOW], d[LIST])
        elif d[STATE] != 'm' and own[PREP] and not self.off & {'no_void', 'number_only'}:
            self.order(w, o, 'V')
        if d[STATE] == 'm' and own[DONE] == d[NOW]:
            self.flipped(w, o, d[NOW])

    # ---- faults ----------------------------------------------------------------------------------
    def directory_dies(self, w):
        n, k = self.places, len(self.index)
        w.d = [0, self.none, 'r', 0, 0, (), self.none, self.none, [None] * n, (None,) * k, (None,) * n, (), False, False, 0]
        for s in w.sess:
            s[PHASE] = s[PHASE].upper()
        w.over = max(own[OVER] for own in w.own)    # what nobody has heard of was not answered

    def owner_dies(self, w, o):
        w.own[o] = [False, 0, (), '-', 0, (), (None,) * self.places, None, False, 0]
        w.d[UP] = swap(w.d[UP], o, False)

    def starts(self, w):
        w.lives += 1
        w.d[LIFE], w.before = w.lives, w.decided[0]

    def set_up(self, w, o, up):
        w.d[UP] = swap(w.d[UP], o, up)

    def close(self, w, o):
        own = w.own[o]
        own[CONN], own[CHAN] = 0, own[CHAN] if 'old_bytes' in self.off else ()
        if 'decides_itself' in self.off and own[PREP] and own[PREP][3]:
            self.flip(w, o, own[DONE] + 1, own[PREP][2])

    def phase(self, w, k, phase):
        w.sess[k][PHASE] = phase

    def revive(self, w, o):
        w.own[o][ALIVE] = True

    # ---- all that can happen ---------------------------------------------------------------------
    def steps(self, key):
        out = []

        def go(label, fault, act, *args):
            w = World(key)
            if fault is not None:
                w.left[fault] -= 1
                if self.budget == 1:
                    w.left = [0] * len(FAULTS)
            try:
                act(w, *args)
            except Violation as v:
                raise Violation(str(v), label) from None
            out.append((label, fault is not None, self.freeze(w)))
        sess, own, d, left, _, _, answered = key[:4 + GHOSTS.index('answered') + 1]
        self.check(own, answered)
        life = d[LIFE]
        for k, s in enumerate(sess):
            name, ph = 'session %d' % k, s[PHASE]
            for o, f in enumerate(s[FLIGHT]):
                if f == 1 and own[o][ALIVE]:
                    go('owner %d gets the contribution of %s' % (o, name), None, self.contribution, k, o)
            if ph == '-' and k not in self.again:
                go('%s starts' % name, None, self.phase, k, 'J')
            elif ph in 'JSL' and life and d[STATE] != 'r':
                go('%s sends %s' % (name, ph), None, self.sends, k)
            elif ph in 'jsl' and left[CUT]:
                go('%s loses its connection' % name, CUT, self.phase, k, ph.upper())
            if ph in 'JSLjslC' and left[DIE]:
                go('%s dies' % name, DIE, self.phase, k, 'X')
            for j, before in self.again.items():
                if before == k and ph in 'JSLjslC' and sess[j][PHASE] == '-':
                    go('%s is made anew' % name, None, self.made_anew, k, j, True)
                    go('%s is made anew without a word' % name, None, self.made_anew, k, j, False)
            place = d[PLACES][self.index[k]]
            if life and place and place[P_WHO] == k and not place[P_LOST] and (ph in 'XFD' or left[LEASE]):
                go('the lease of %s ends' % name, None if ph in 'XFD' else LEASE, self.lease_ends, k)
        for o, x in enumerate(own):
            name = 'owner %d' % o
            if not x[ALIVE]:
                go('%s comes back empty' % name, None, self.revive, o)
                continue
            if x[CHAN]:
                go('%s reads %r' % (name, x[CHAN][0]), None, self.reads, o)
            if x[PREP] and not x[PREP][3]:
                go('%s has built' % name, None, self.builds, o)
            if x[CONN] and (x[CONN] != life or not d[UP][o]):
                go('%s sees its link closed' % name, None, self.close, o)
            elif x[CONN] and left[LINK]:
                go('the directory loses its link to %s' % name, LINK, self.set_up, o, False)
                go('%s loses its link' % name, LINK, self.close, o)
            elif not x[CONN] and life:
                go('%s lists' % name, None, self.lists, o)
            if left[OWNER]:
                go('%s dies' % name, OWNER, self.owner_dies, o)
        if not life:
            go('the directory starts', None, self.starts)
        elif left[DIRECTORY]:
            go('the directory dies', DIRECTORY, self.directory_dies)
        return out

    # ---- what is promised ------------------------------------------------------------------------
    def check(self, owners, answered):
        alive = [(o, own) for o, own in enumerate(owners) if own[GROUP] != '-']
        if not alive:
            return
        most = max((own[HIST] for _, own in alive), key=len)
        for r, taken in enumerate(most):
            if len({index_of(m) for m, _, _ in taken}) < len(taken) or any(c != (r + 1, who) for _, who, c in taken):
                raise Violation('round %d took %r' % (r + 1, taken))
        for o, own in alive:
            n = len(own[HIST])
            if own[HIST] != most[:n]:
                raise Violation('owner %d has flipped %r, another one %r' % (o, own[HIST], most))
            if n + 1 < len(most):
                raise Violation('owner %d has flipped %d rounds, another one %d' % (o, n, len(most)))
            if n < answered:
                raise Violation('round %d was answered, and owner %d has not flipped it' % (answered, o))

    def quiet(self, key):
        sess, own, d, fresh, seats = *key[:3], *key[-2:]
        if not d[LIFE] or d[STATE] not in 'cbf':
            return False
        for o in own:
            if o[CHAN] or o[CONN] != d[LIFE] or o[PREP] or (d[STATE] == 'b' and o[GROUP] == 'g'):
                return False
        if not all(d[UP]) or (d[STATE] in 'bf' and len({o[DONE] for o in own if o[GROUP] != '-'}) > 1):
            return False
        here = [p for p in d[PLACES] if p and p[P_FIRST] <= d[NOW]]
        need = self.replicas if self.replicas else len(here)
        opened = any(p and p[P_LOST] and p[P_FIRST] <= d[NOW] and seat for p, seat in zip(d[PLACES], seats))
        needs_open = self.policy == 'wait' and opened and sum(p[P_COMPLETE] for p in here) < need
        needs_open = needs_open or (fresh and not d[OPENED] and not all(p and p[P_ANSWERED] for p in d[PLACES]))
        for k, s in enumerate(sess):
            if s[PHASE] in '-DFX' or (s[PHASE] in 'sj' and needs_open):
                continue
            return False
        for i, p in enumerate(d[PLACES]) if d[STATE] == 'c' else ():
            if p and p[P_WHO] >= 0 and not p[P_LOST] and sess[p[P_WHO]][PHASE] in 'DFX':
                return False
            if any((o[MEM][i] and o[MEM][i][0]) != (p and p[P_MID]) for o in own) and not (p and p[P_WHO] < 0):
                return False
        return True


if __name__ == '__main__':
    sys.exit(main(Model if len(sys.argv) == 1 else functools.partial(Model, alike=False), SCENARIOS, MUTANTS))
