#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of the chief's lease and of how a model gets its values (docs/PROTOCOL.md, CHIEF), explored before the
protocol was written in C.
usage: chief_model.py                       all scenarios, then all weaker rules and mistakes
       chief_model.py SCENARIO [RULE ...]   one run, prints the way to what is wrong

One container with a variable at each of two owners, a directory, and two candidates that want the model to be ready. A candidate
claims the lease, looks at both owners behind a fence, and goes on by what it finds: nothing declared ready: it gives both their
values (a restore by ASSIGN, looks again; then INIT) and seals them; something sealed: it seals the rest; sealed beside one without
a value: it resets the container and looks again. A pause is a candidate that takes no step, while its requests travel; its
answers may wait as long. A request of a candidate that is gone may still arrive. Each scenario has a number of each fault: the
lease of a candidate that lives ends, a candidate is gone and comes back as a new process, or dies, or opens its session anew with
its number, a task restarts empty.

Where tasks have disks (disk), a reset that the directory has accepted waits until the directory's disk says that it is open.
From its acceptance on nobody is shown the model. When the disk has noted it, the owners empty the model; if there is a newer chief
by then, the reset is taken back. The disk notes that too, and nobody is shown the model before: a directory that restarts carries
out what its disk says is open. A note that has failed may be on the disk all the same. An operator (reset) resets without a number.

Promised, at every step:
  - nobody is given the lease of another one that runs, as far as any task's memory can know of it;
  - no chief finds a loss where no task was restarted or emptied;
  - a chief that says that the model is ready has its own hyperparameters in force;
  - a value that is declared ready is not replaced, nor its hyperparameters by those of an older chief; a reset wipes no model
    that is whole;
  - nobody is shown a model that a reset which was accepted before then empties, and none is emptied for a chief that is an older one
    by then;
  - two variables are never both declared ready with values of two restores, or of a restore and an initialiser.
And from every state there is a way without a further fault to one where both are ready and somebody is the chief."""
import operator
import sys

from explore import State, Violation, main

LEASE, CRASH, DIE, REMADE, RESTART_D, RESTART_A, RESTART_B, DISK, RESET = range(9)
FAULTS = ('lease', 'crash', 'die', 'remade', 'directory', 'owner a', 'owner b', 'disk', 'reset')
# scenario: what each candidate gives (r restores, i initialises; s initialises and claims nothing: it takes a number when it needs
# one, whoever holds the lease, and where it is refused, or finds a loss, its process ends and another one begins), faults; ready: the
# model is, at the start, under number 4; forgot: the directory has begun anew and does not know of candidate 1, which has a number
# and looks (lost: while a reset is on its way, by a chief before it)
SCENARIOS = {
    'start':     dict(give='ri', faults=dict(lease=1)),
    'start_i':   dict(give='ir', faults=dict(lease=1)),
    'hyper':     dict(give='ii', faults=dict(lease=2)),
    'same':      dict(give='rr', faults=dict(remade=1)),
    'crash':     dict(give='ri', faults=dict(crash=1)),
    'crash_2':   dict(give='ri', faults=dict(crash=1, lease=1)),
    'crash_i_2': dict(give='ir', faults=dict(crash=1, lease=1)),
    'forgot':    dict(give='ri', forgot='new', faults=dict(lease=1)),
    'forgot_lost': dict(give='ri', forgot='lost', faults={}),
    'twice_2':   dict(give='ri', faults=dict(lease=2)),
    'die':       dict(give='ri', faults=dict(die=1, lease=1)),
    'directory': dict(give='ri', faults={'directory': 1}),
    'directory_2': dict(give='ri', faults={'lease': 1, 'directory': 1}),
    'static':    dict(give='rs', faults=dict(lease=1)),
    'static_i':  dict(give='is', faults=dict(crash=1)),
    'static_lost': dict(give='rs', ready=True, faults={'owner b': 1}),
    'static_d_2': dict(give='rs', faults={'directory': 1}),
    'static_2':  dict(give='rs', faults={'lease': 1, 'owner b': 1, 'crash': 1}),
    'owner':     dict(give='ri', faults={'lease': 1, 'owner b': 1}),
    'owner_2':   dict(give='rr', faults={'lease': 2, 'owner b': 1}),
    'ready':     dict(give='rr', ready=True, faults={'crash': 1, 'directory': 1, 'lease': 1}),
    'lost':      dict(give='ri', ready=True, faults={'lease': 1, 'owner b': 1}),
    'lost_d_2':   dict(give='ri', ready=True, faults={'lease': 1, 'owner b': 1, 'directory': 1}),
    'lost_2':    dict(give='ri', ready=True, faults={'lease': 2, 'owner b': 1, 'crash': 1}),
    'disk':      dict(give='rr', ready=True, disk=True, faults={'reset': 1, 'directory': 1}),
    'disk_lost': dict(give='ri', ready=True, disk=True, faults={'lease': 1, 'owner b': 1}),
    'disk_fails_2': dict(give='rr', ready=True, disk=True, faults={'reset': 1, 'disk': 1, 'crash': 1, 'directory': 1}),
    'disk_back_2': dict(give='ri', ready=True, disk=True, faults={'lease': 1, 'owner b': 1, 'directory': 1}),
    'all_2':     dict(give='ri', faults={'lease': 1, 'directory': 1, 'owner a': 1, 'owner b': 1}),
    'all_3_2':   dict(give='ri', faults={'lease': 2, 'directory': 1, 'owner a': 1, 'owner b': 1}),
}
# rule that is left out, or mistake: (where it shows first, what it is)
MUTANTS = {
    'old_init':      ('hyper', "an owner takes the INIT of an older chief"),
    'old_assign':    ('start', "an owner takes the ASSIGN of an older chief"),
    'swap':          ('start', "the number of an ASSIGN is asked at its beginning only"),
    'swap_sealed':   ('same', "whether it is sealed is asked at the beginning of an ASSIGN only"),
    'old_seal':      ('start', "an owner takes the SEAL of an older chief"),
    'fence':         ('start', "a chief's look at an owner is no fence"),
    'reset_plain':   ('lost', "the directory resets for an older chief"),
    'opening_shown': ('disk', "the model is shown while a reset waits for the directory's disk"),
    'opened_late':   ('disk_lost', "a reset that the disk has noted is carried out, whoever is chief by then"),
    'back_shown':    ('disk_back_2', "the model is shown before the disk has noted that its reset was taken back"),
    'unsure_shown':  ('disk_fails_2', "the model is shown although the note of its reset, which failed, may be on the disk"),
    'kept':          ('start', "an INIT leaves what an older chief gave by ASSIGN"),
    'init_first':    ('start', "a chief that finds something sealed runs INIT before it seals the rest"),
    'lost_sealed':   ('lost', "a chief that finds one without a value beside a sealed one gives it one"),
    'rolls_back':    ('ready', "a chief that comes back restores what it restored before"),
    'early':         ('start', "a claim is granted while another one's lease runs"),
    'number_first':  ('ready', "a claim with a number above the holder's takes its lease"),
    'before_lists':  ('ready', "the directory grants before all tasks have listed"),
    'unlisted':      ('ready', "a task does not list the number that it has seen"),
    'young':         ('ready', "a directory that has begun anew grants at once"),
    'alien':         ('owner', "a chief seals what another one than the first sealer has given beside it"),
    'not_taken':     ('hyper', "an INIT that leaves what an older chief's gave does not make it its own"),
    'one_look':      ('owner', "a chief finds a loss in answers of two moments"),
    'twice_given':   ('forgot', "a directory that begins anew may give a number that its life before gave"),
    'lower_again':   ('forgot_lost', "a directory that begins anew gives numbers below those that its life before gave"),
    'sealed_only':   ('hyper', "a chief that finds something sealed seals the rest, and is ready"),
    'static_fence':  ('static', "a chief without a lease does not look again, behind a fence, when it has its number"),
    'no_renew':      ('ready', "the holder of a number that an owner does not follow gets no other"),
}
WAITS, LOOKS, GIVES, LOOKS_AGAIN, INITS, SEALS, RESETS, READY, NUMBERS, SEALS_REST = 'WLGAISRTNE'
NAMES = {'L': 'look', 'O': 'look without a fence', 'A': 'ASSIGN', 'I': 'INIT', 'S': 'SEAL'}


class World(State):
    """One state, thawed.
    owners: [creation, number, value, sealed, provisional, who gave hyperparameters]; value: None, ('r', number of who restored it), ('i', 0);
      sealed: under which number, 0 not; provisional: as long as it is not sealed, the number under which it was given
    cands: [alive, number, phase, slot for each owner, creation known of each, looked: it has, at this process]
      slot: None, ('q', kind, number, creation, begun) on its way, or ('a', word, ...) that is answered
    directory: young, heard, later (not the first), had (the numbers that owners followed when it
      began), counter, number, holder (-1 none), reset (None, or which owners have it to do)
    disk: opening (None, or a reset that waits for the disk, with its number, -1 one that is taken back), file (the disk says that one
      is open), shown (the model was, since then)
    orphans: (owner, request) of candidates that are gone; lease: whose lease runs by the clock, and its number, (-1, 0) none"""
    F = ('owners', 'cands', 'young', 'heard', 'later', 'had', 'counter', 'number', 'holder', 'reset', 'orphans', 'lease', 'used', 'left',
         'opening', 'file', 'shown')
    REST = operator.attrgetter(*F[2:])

    def __init__(self, key):
        self.__dict__.update(zip(self.F, key))
        self.owners = [list(o) for o in self.owners]
        self.cands = [list(c) for c in self.cands]

    def key(self):
        return ((*map(tuple, self.owners),), (*map(tuple, self.cands),), *self.REST(self))


CREATION, NUMBER, VALUE, SEALED, PROVISIONAL, HYPER = range(6)
ALIVE, MINE, PHASE, SLOT, KNOWN = range(5)


def put(t, i, v):
    return t[:i] + (v,) + t[i + 1:]


class Model:
    def __init__(self, scenario, off=()):
        sc = SCENARIOS[scenario]
        self.off = frozenset(off)
        self.give = sc['give']
        self.ready, self.forgot = sc.get('ready', False), sc.get('forgot')
        self.disk = sc.get('disk', False)
        self.left = tuple(sc['faults'].get(f, 0) for f in FAULTS)

    def start(self):
        n = 4 if self.ready else 0
        if self.forgot:
            return self.forgotten(8 if self.forgot == 'lost' else 4)
        owner = (0, n, ('r', 4) if n else None, n, 0, 0)
        first = (True, n, READY if n else WAITS, (None, None), (0, 0))
        cands = (first, (True, 0, WAITS, (None, None), (None, None)))
        lease = (0, n) if n else (-1, 0)
        return ((owner, owner), cands, False, (True, True), False, (0, 0), n, n, lease[0], None, (), lease, (n,), self.left,
                None, False, False)

    def forgotten(self, mine):
        known = mine - 4
        a = (0, known, ('r', known) if known else None, known, 0, 0)
        look = ('q', 'L', mine, None, False)
        cands = ((True, 0, WAITS, (None, None), (None, None)), (True, mine, LOOKS, (look, look), (None, None)))
        return ((a, (int(known > 0), known, None, 0, 0, 0)), cands, False, (True, True), True, (known, known), known, known, -1,
                (True, True) if known else None, (), (-1, 0), tuple(range(4, mine + 1, 4)), self.left, None, False, False)

    def quiet(self, key):
        w = World.look(key)
        chief = w.holder >= 0 and w.cands[w.holder][ALIVE] and w.cands[w.holder][MINE] == w.number
        return chief and all(o[SEALED] for o in w.owners) and all(not c[ALIVE] or c[PHASE] in (WAITS, READY) for c in w.cands)

    # ---- the directory ----
    def fresh(self, w, floor):
        known = max(w.counter, w.number, floor)
        if 'twice_given' in self.off:
            n = known + 4
        elif w.later and 'lower_again' in self.off:     # another one at least
            n = next(n for n in range(known + 1, known + 9) if n not in w.used)
        else:                                           # the time
            n = (max(known, *w.used, 0) // 4 + 1) * 4
        w.used = tuple(sorted({*w.used, n}))
        return n

    def grant(self, w, c, n):
        whose, number = w.lease
        if whose not in (-1, c) and number <= max(w.number, *w.had):
            raise Violation('candidate %d is given the lease of candidate %d, which runs' % (c, whose))
        w.counter, w.number, w.holder, w.lease = max(w.counter, n), max(w.number, n), c, (c, n)
        w.cands[c][MINE] = n

    def claims(self, w, c):
        """One that was not chief. None: not now."""
        if not all(w.heard) and 'before_lists' not in self.off:
            return False
        if w.holder not in (-1, c) and 'early' not in self.off:
            return False
        first = w.number == 0 and c == 0                # the preferred one, where there was none, need not wait
        if w.holder == -1 and w.young and not first and 'young' not in self.off:
            return False
        self.grant(w, c, self.fresh(w, 0))
        return True

    def claims_again(self, w, c, seen=0):
        """With the number that it has; seen: a higher one that an owner follows."""
        mine = w.cands[c][MINE]
        other = w.holder not in (-1, c)
        w.counter = max(w.counter, mine, seen)
        if (other and not ('number_first' in self.off and mine > w.number)) or (mine < w.number and not (seen and w.holder == c)):
            self.leave(w, c)
            w.cands[c][MINE], w.cands[c][PHASE] = 0, WAITS
            return
        if seen and 'no_renew' not in self.off:
            mine = self.fresh(w, max(seen, mine))
        self.grant(w, c, mine)

    # ---- an owner ----
    def arrives(self, w, i, q):
        """The answer, or what is still on its way of it."""
        o = w.owners[i]
        _, kind, n, creation, begun = q
        if kind in 'LO':
            if w.reset and not w.reset[i]:
                return None                             # it makes no variable there before the reset is done
            if self.hidden(w) or (self.disk and kind == 'L' and w.number < n):
                return None                             # what was emptied is made at the directory, behind the claim with that number
            w.shown = w.shown or w.opening is not None or (w.file and not w.reset)
            if kind == 'L' and n < o[NUMBER]:
                return ('a', 'newer', o[NUMBER])
            if kind == 'L' and 'fence' not in self.off:
                o[NUMBER] = n
            return ('a', 'ok', o[CREATION], o[VALUE], o[SEALED], o[PROVISIONAL])
        if creation != o[CREATION]:
            return ('a', 'gone')
        unasked = {'A': 'old_assign', 'I': 'old_init', 'S': 'old_seal'}[kind] in self.off or (begun and 'swap' in self.off)
        if n < o[NUMBER] and not unasked:
            return ('a', 'newer', o[NUMBER])
        o[NUMBER] = max(n, o[NUMBER])
        if kind == 'S':
            if o[VALUE] is None:
                return ('a', 'gone')
            o[SEALED], o[PROVISIONAL] = o[SEALED] or n, 0
        elif kind == 'I':
            if n < o[HYPER]:
                raise Violation("an older chief's hyperparameters come into force")
            o[HYPER] = n
            if o[VALUE] is None or (o[VALUE][0] == 'r' and 0 < o[PROVISIONAL] < n and 'kept' not in self.off):
                o[VALUE], o[PROVISIONAL] = ('i', 0), n
            elif o[PROVISIONAL] and 'not_taken' not in self.off:
                o[PROVISIONAL] = max(o[PROVISIONAL], n)     # this chief declares it ready
        elif o[SEALED] and not (begun and 'swap_sealed' in self.off):
            return ('a', 'sealed')
        elif not begun:
            return ('q', kind, n, creation, True)
        else:
            if o[SEALED]:
                raise Violation('a value that is declared ready is replaced')
            o[VALUE], o[PROVISIONAL] = ('r', n), n
        return ('a', 'ok')

    # ---- a candidate ----
    def leave(self, w, c):
        """What it has asked for is nobody's."""
        cand = w.cands[c]
        lost = [(i, s) for i, s in enumerate(cand[SLOT]) if s and s[0] == 'q' and s[1] not in 'LO']
        w.orphans = tuple(sorted({*w.orphans, *lost}))
        cand[SLOT] = (None, None)

    def asks(self, w, c, phase, kind, who=(0, 1)):
        cand = w.cands[c]
        cand[PHASE] = phase
        cand[SLOT] = tuple(('q', kind, cand[MINE], None if kind in 'LO' else cand[KNOWN][i], False) if i in who else ('a', 'ok')
                           for i in (0, 1))

    def looks(self, w, c, phase=LOOKS):
        self.asks(w, c, phase, 'L')

    def goes_on(self, w, c):
        """Both owners have answered."""
        cand = w.cands[c]
        phase, slots = cand[PHASE], cand[SLOT]
        cand[SLOT] = (None, None)
        newer = max([s[2] for s in slots if s[1] == 'newer'], default=0)
        if self.give[c] == 's':
            return self.static_goes_on(w, c, phase, slots)
        if newer and not all(w.heard):
            return False                                # the directory waits for lists
        if newer:
            self.claims_again(w, c, newer)
            if w.cands[c][MINE]:
                self.looks(w, c)
        elif any(s[1] in ('gone', 'sealed') for s in slots):
            self.looks(w, c)
        elif phase in (LOOKS, LOOKS_AGAIN):
            self.decides(w, c, phase, slots)
        elif phase == GIVES:
            self.looks(w, c, LOOKS_AGAIN)
        elif phase == INITS:
            self.asks(w, c, SEALS, 'S')
        elif phase == SEALS_REST and 'sealed_only' not in self.off:
            self.looks(w, c)
        else:
            self.is_ready(w, c)
        return True

    @staticmethod
    def is_ready(w, c):
        cand = w.cands[c]
        cand[PHASE] = READY
        if any(o[NUMBER] == cand[MINE] != o[HYPER] and o[CREATION] == cand[KNOWN][i] for i, o in enumerate(w.owners)):
            raise Violation("a chief is ready, and another one's hyperparameters are in force")

    def static_ends(self, w, c):
        """Its process, which says goodbye; another one begins."""
        self.lease_ends(w, c)
        self.crashes(w, c)

    def static_goes_on(self, w, c, phase, slots):
        cand = w.cands[c]
        if any(s[1] in ('newer', 'gone') for s in slots):
            self.static_ends(w, c)
        elif phase in (LOOKS, LOOKS_AGAIN, NUMBERS, GIVES): # the last two: behind its fence
            self.static_decides(w, c, phase, slots)
        elif phase == INITS:
            self.asks(w, c, SEALS, 'S')
        elif phase == SEALS_REST:
            self.asks(w, c, NUMBERS, 'L')
        else:
            self.is_ready(w, c)

    def static_decides(self, w, c, phase, slots):
        cand = w.cands[c]
        same = phase in (LOOKS_AGAIN, GIVES) and cand[KNOWN] == tuple(s[2] for s in slots)
        fenced = phase in (NUMBERS, GIVES) or (cand[MINE] and 'static_fence' in self.off)
        cand[KNOWN] = tuple(s[2] for s in slots)
        first = min([s[4] for s in slots if s[4]], default=0)
        alien = first and any(not s[4] and s[5] != first for s in slots)
        if first and (not all(s[3] for s in slots) or alien):
            if not same:
                self.asks(w, c, GIVES if fenced else LOOKS_AGAIN, 'L' if fenced else 'O')
            elif not any(o[CREATION] for o in w.owners):
                raise Violation('a loss is found where nothing was lost')
            else:
                self.static_ends(w, c)
        elif not fenced:
            cand[PHASE] = NUMBERS
            if all(s[4] for s in slots):                # nothing is to be given
                cand[SLOT] = (False, False)
            else:                                       # without the fence: to go by later
                cand[SLOT] = tuple(('a', 'ok') if first and s[5] else None for s in slots)
        elif first and not all(s[4] for s in slots):
            self.asks(w, c, SEALS_REST, 'S', [i for i in (0, 1) if not slots[i][4]])
        else:
            self.asks(w, c, INITS, 'I')

    def numbers(self, w, c):
        """It is chief from now on, whoever was."""
        cand = w.cands[c]
        n = self.fresh(w, 0)
        w.counter, w.number, w.holder, w.lease = n, max(w.number, n), c, (c, n)
        cand[MINE] = n
        if 'static_fence' in self.off or cand[SLOT] == (False, False):
            cand[SLOT] = tuple(s or None for s in cand[SLOT])
            self.asks(w, c, INITS, 'I', [i for i in (0, 1) if cand[SLOT][i] is None])
        else:
            self.asks(w, c, NUMBERS, 'L')

    def decides(self, w, c, phase, slots):
        cand = w.cands[c]
        values, sealed = [s[3] for s in slots], [s[4] for s in slots]
        same = phase == LOOKS_AGAIN and cand[KNOWN] == tuple(s[2] for s in slots)
        again = same and all(s[5] == cand[MINE] for s in slots)  # what it has given itself
        cand[KNOWN] = tuple(s[2] for s in slots)
        first = min([n for n in sealed if n], default=0)    # who sealed first had given all values itself
        alien = first and any(not s[4] and s[5] != first for s in slots) and 'alien' not in self.off
        lost = any(sealed) and (not all(values) or alien) and 'lost_sealed' not in self.off
        if lost and not same and 'one_look' not in self.off:
            self.looks(w, c, LOOKS_AGAIN)               # those answers were of two moments
        elif lost and not any(o[CREATION] for o in w.owners):
            raise Violation('a loss is found where nothing was lost')
        elif lost or (all(sealed) and 'rolls_back' in self.off):
            cand[PHASE] = RESETS
            cand[SLOT] = (('q', 'R', cand[MINE], None, False), ('a', 'ok'))
        elif any(sealed) and all(values) and 'init_first' not in self.off:
            if all(sealed):
                self.asks(w, c, INITS, 'I')
            else:
                self.asks(w, c, SEALS_REST, 'S', [i for i in (0, 1) if not sealed[i]])
        elif any(sealed) and all(values) and self.give[c] == 'r':
            self.asks(w, c, SEALS_REST, 'S', [i for i in (0, 1) if not sealed[i]])
        elif again:                                     # INIT leaves its values, and takes its hyperparameters
            self.asks(w, c, INITS, 'I')
        elif self.give[c] == 'r':
            self.asks(w, c, GIVES, 'A', [i for i in (0, 1) if not sealed[i]])
        else:
            self.asks(w, c, INITS, 'I')

    def hidden(self, w):
        """From the acceptance of a reset until it is carried out, or the disk has noted that it is taken back."""
        if w.opening is None:
            return False
        return ('back_shown' if w.opening < 0 else 'opening_shown') not in self.off

    def resets(self, w, q):
        """At the directory; None: not now."""
        if w.reset or w.opening is not None or not all(w.heard):
            return None
        if q[2] < w.number and 'reset_plain' not in self.off:
            return ('a', 'newer', w.number)
        if all(o[SEALED] for o in w.owners):
            raise Violation('a reset wipes a model that is whole')
        w.counter, w.number = max(w.counter, q[2]), max(w.number, q[2])
        if self.disk:
            w.opening = q[2]
        else:
            w.reset = (True, True)
        return 'begun'

    def operator_resets(self, w):
        if w.reset or w.opening is not None or not all(w.heard):
            return False
        w.opening = 0
        return True

    def opened(self, w):
        """The owners have it to do from now on."""
        if w.shown:
            raise Violation('a model is emptied that somebody was shown after the reset of it was accepted')
        if w.opening is not None and 0 < w.opening < w.number:
            raise Violation('a model is emptied for a chief, and there is a newer one')
        w.opening, w.reset = None, (True, True)

    def noted(self, w):
        """The directory hears that its disk says so."""
        if 0 < w.opening < w.number and 'opened_late' not in self.off:
            w.opening = -1
        else:
            self.opened(w)

    def taken_back(self, w):
        w.opening, w.file, w.shown = None, False, False
        self.untold(w)

    def note_fails(self, w):
        """It may be there all the same, or not."""
        if w.opening is None or w.opening < 0:
            return False
        w.file = True
        w.opening = None if 'unsure_shown' in self.off else -1
        self.untold(w)
        return True

    @staticmethod
    def untold(w):
        for cand in w.cands:                            # who waited for the reset looks again
            cand[SLOT] = tuple(('a', 'gone') if s == ('w',) else s for s in cand[SLOT])

    # ---- all that can happen ----
    def check(self, w):
        a, b = w.owners
        if a[SEALED] and b[SEALED] and a[VALUE] != b[VALUE]:
            raise Violation('declared ready: %s beside %s' % (a[VALUE], b[VALUE]))

    def steps(self, key):
        out, left = [], key[World.F.index('left')]

        def go(label, act, fault=None):
            if fault is not None and left[fault] == 0:
                return
            w = World(key)
            if fault is not None:
                w.left = put(left, fault, left[fault] - 1)
            try:
                if act(w) is False:
                    return
                self.check(w)
            except Violation as v:
                raise Violation(v.args[0], label) from None
            new = w.key()
            if new != key:
                out.append((label, fault is not None, new))
        w = World.look(key)
        for c, cand in enumerate(w.cands):
            if cand[ALIVE]:
                self.candidate(w, c, cand, go)
            elif w.holder == c or w.lease[0] == c:
                go('the lease of candidate %d ends' % c, lambda w, c=c: self.lease_ends(w, c))
        for orphan in w.orphans:
            go('%s of one that is gone arrives' % (orphan[1],), lambda w, x=orphan: self.orphan(w, x))
            go('%s of one that is gone is lost' % (orphan[1],), lambda w, x=orphan: self.forget(w, x))
        for i in (0, 1):
            go('owner %s restarts' % 'ab'[i], lambda w, i=i: self.owner_restarts(w, i), RESTART_A + i)
            if not w.heard[i]:
                go('owner %s lists' % 'ab'[i], lambda w, i=i: self.lists(w, i))
            if w.reset and w.reset[i]:
                go('owner %s is emptied' % 'ab'[i], lambda w, i=i: self.emptied(w, i))
        if w.opening is not None and w.opening >= 0:
            if w.file:
                go('the directory hears that its disk has the reset', self.noted)
            else:
                go("the directory's disk has the reset", self.on_disk)
        if w.opening == -1:
            go('the disk has it that the reset is taken back', self.taken_back)
        if self.disk:
            go('the disk fails to note a reset', self.note_fails, DISK)
            go('an operator resets', self.operator_resets, RESET)
        go('the directory restarts', self.directory_restarts, RESTART_D)
        if w.young:
            go('a lease since the directory began', self.grown)
        return out

    def candidate(self, w, c, cand, go):
        who = 'candidate %d' % c
        static = self.give[c] == 's'
        if static:
            if cand[PHASE] == WAITS:
                go(who + ' looks', lambda w: self.asks(w, c, LOOKS, 'O'))
            if cand[PHASE] == NUMBERS and not cand[MINE]:
                go(who + ' takes a number', lambda w: self.numbers(w, c))
        elif cand[MINE] == 0:
            go(who + ' claims', lambda w: self.claims(w, c) and self.looks(w, c))
        elif w.holder != c or w.number > cand[MINE]:
            if all(w.heard):
                go(who + ' says its number again', lambda w: self.claims_again(w, c))
        for i, s in enumerate(cand[SLOT]):
            if s and s[0] == 'q':
                what = "%s's %s" % (who, 'RESET' if s[1] == 'R' else '%s at %s' % (NAMES[s[1]], 'ab'[i]))
                go(what + (' is swapped in' if s[4] else ''), lambda w, i=i, s=s: self.takes(w, c, i, s))
        if cand[PHASE] not in (WAITS, READY) and all(s and s[0] == 'a' for s in cand[SLOT]):
            go(who + ' goes on', lambda w: self.goes_on(w, c))
        if cand[PHASE] == READY and any(not o[SEALED] for o in w.owners):
            go(who + ' sees that something is lost', lambda w: self.static_ends(w, c) if static else self.looks(w, c))
        go(who + ' is not heard for a lease', lambda w: self.lease_ends(w, c), LEASE)
        if cand[MINE] and not static:
            go(who + ' opens its session anew', lambda w: self.remade(w, c), REMADE)
        go(who + ' ends, and comes back', lambda w: self.crashes(w, c), CRASH)
        go(who + ' dies', lambda w: self.dies(w, c), DIE)

    def takes(self, w, c, i, s):
        answer = self.resets(w, s) if s[1] == 'R' else self.arrives(w, i, s)
        if answer is None:
            return False
        if answer == 'begun':                           # answered when the owners are done
            answer = ('w',)
        w.cands[c][SLOT] = put(w.cands[c][SLOT], i, answer)
        return True

    def orphan(self, w, x):
        w.orphans = tuple(y for y in w.orphans if y != x)
        answer = self.resets(w, x[1]) if x[1][1] == 'R' else self.arrives(w, x[0], x[1])
        if answer is None:
            return False
        if answer[0] == 'q':
            w.orphans = tuple(sorted({*w.orphans, (x[0], answer)}))
        return True

    @staticmethod
    def forget(w, x):
        w.orphans = tuple(y for y in w.orphans if y != x)

    @staticmethod
    def lease_ends(w, c):
        if w.holder != c and w.lease[0] != c:
            return False
        w.holder = -1 if w.holder == c else w.holder
        w.lease = (-1, 0) if w.lease[0] == c else w.lease
        return True

    def crashes(self, w, c):
        self.leave(w, c)
        w.cands[c] = [True, 0, WAITS, (None, None), (None, None)]

    def remade(self, w, c):
        self.leave(w, c)
        self.looks(w, c)

    def dies(self, w, c):
        if sum(x[ALIVE] for x in w.cands) < 2:
            return False
        self.crashes(w, c)
        w.cands[c][ALIVE] = False
        return True

    @staticmethod
    def on_disk(w):
        w.file = True

    def reset_over(self, w):
        if not any(w.reset):
            w.reset, w.file = None, False
            self.untold(w)

    def owner_restarts(self, w, i):
        o = w.owners[i]
        w.owners[i] = [o[CREATION] + 1, 0, None, 0, 0, 0]
        w.had = put(w.had, i, 0)
        if w.reset:
            w.reset = put(w.reset, i, False)
            self.reset_over(w)

    def emptied(self, w, i):
        o = w.owners[i]
        w.owners[i] = [o[CREATION] + 1, o[NUMBER], None, 0, 0, 0]
        w.reset = put(w.reset, i, False)
        self.reset_over(w)

    def lists(self, w, i):
        w.heard = put(w.heard, i, True)
        n = w.owners[i][NUMBER]
        if 'unlisted' not in self.off:
            w.number = max(w.number, n)
        w.counter = max(w.counter, n)                   # HELLO says it

    def directory_restarts(self, w):
        w.young, w.heard, w.later = True, (False, False), True
        w.had = tuple(o[NUMBER] for o in w.owners)
        w.counter = w.number = 0
        w.holder = -1
        w.reset = w.opening = None
        if w.file:
            self.opened(w)
        self.untold(w)                                  # nobody knows what became of it

    @staticmethod
    def grown(w):
        w.young = False
        if w.holder == -1:                              # who had it has not been heard for a lease
            w.lease = (-1, 0)


if __name__ == '__main__':
    sys.exit(main(Model, SCENARIOS, MUTANTS))
