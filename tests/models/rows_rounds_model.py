#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of rows in rounds at one owner (docs/PROTOCOL.md "Rounds"): explored before it was written in C.
usage: rows_rounds_model.py                       all scenarios, then all weaker rules
       rows_rounds_model.py SCENARIO [RULE ...]   one run, prints the way to what is wrong

A variable has two rows. Two members contribute some rows of it, or none, to each round. A PREPARE builds new rows from the rows at
home into an overlay, whose memory is that of the members that are taken: row 0 lies with the first of them, row 1 with the second,
or with the first where nobody else is. The flip puts the overlay in force. Slices move its rows home. The other member may leave.
A reader asks for one row, or for all of them, and gets a row of the overlay where it is not home. A reader of all that asked before the
rounds began may bring them home instead. A cut has an instant,
reaches the variable later, and copies its rows one by one after that; who changes a row at home copies it for the cut before. A
program may assign the variable.

Promised: a reader sees what the flips and assigns have made; a cut has the rows of its instant; and all that is in the overlay
comes home."""
import sys

from explore import Violation, main

LEAVE, CUT, ASSIGN = range(3)
SCENARIOS = {
    'cut':    dict(rounds=2, faults=(0, 1, 0)),
    'cuts':   dict(rounds=1, faults=(0, 2, 0)),
    'leave':  dict(rounds=2, faults=(1, 1, 0)),
    'assign': dict(rounds=1, faults=(0, 1, 1)),
    'all':    dict(rounds=2, faults=(1, 1, 1)),
}
MUTANTS = {
    'cut_forgets':   ('cut', "a cut keeps the rows at home while an overlay is in force"),
    'home_uncopied': ('cut', "a row comes home before the cut has copied the older one"),
    'flip_unkept':   ('cut', "a flip does not tell a cut that has not reached the variable"),
    'early_build':   ('cut', "the next round is built while rows are not home"),
    'reads_home':    ('cut', "a reader of one row looks at home alone"),
    'sends_home':    ('cut', "a reader of all rows gets what lies at home"),
    'leave_frees':   ('leave', "the memory of a member that leaves goes with its rows"),
    'leave_built':   ('leave', "what was built with a member that left is flipped"),
    'assign_early':  ('assign', "an assign comes while rows are not home"),
    'one_missing':   ('cut', "the rows of the second member are not added"),
    'row_twice':     ('cut', "a row of two members is built once for each"),
}
ROWS = ((), (0,), (1,), (0, 1))

# home, truth: the value of each row: what has changed it, in order
# given: of each member, the rows of its contribution; None: none yet. alive: member 1 has not left
# new: the overlay being built or READY: its rows built so far, or None; built: how far. force: the overlay in force, or None; moved: rows
# of it that are home, in order
# cut: None, or (instant, reached, what is copied of each row)


class Model:
    def __init__(self, scenario, off=()):
        self.sc, self.off = SCENARIOS[scenario], frozenset(off)

    def start(self):
        empty = ((), ())
        return (empty, empty, (None, None), True, None, 0, None, 0, None, 0, self.sc['faults'])

    def quiet(self, key):
        _, _, given, _, new, _, force, _, cut, done, _ = key
        return force is None and cut is None and new is None and (done == self.sc['rounds'] or None in given)

    def steps(self, key):
        out = []
        home, truth, given, alive, new, built, force, moved, cut, done, left = key
        names = ('home', 'truth', 'given', 'alive', 'new', 'built', 'force', 'moved', 'cut', 'done')

        def go(label, fault=None, **change):
            spent = left if fault is None else left[:fault] + (left[fault] - 1,) + left[fault + 1:]
            state = dict(zip(names, key))
            state.update(change)
            out.append((label, fault is not None, tuple(state.values()) + (spent,)))

        def put(t, i, v):
            return t[:i] + (v,) + t[i + 1:]

        def copied(of, at_home, rows):
            """the cut once these rows, as they lie at home, are copied"""
            if of is None or not of[1]:
                return of
            have = of[2]
            for i in rows:
                have = put(have, i, at_home[i] if have[i] is None else have[i])
            return self.looked_at((of[0], of[1], have))

        def settled(at_home, of, rows=(0, 1)):
            """home and the cut once these rows of the overlay in force are home"""
            for i in rows:
                if force is not None and force[i] is not None:
                    of = of if 'home_uncopied' in self.off else copied(of, at_home, (i,))
                    at_home = put(at_home, i, force[i])
            return at_home, of

        takes = [m for m in (0, 1) if m == 0 or alive]
        r = done + 1
        if r <= self.sc['rounds'] and new is None:
            for m in takes:
                if given[m] is None:
                    for rows in ROWS:
                        go('member %d contributes %r to round %d' % (m, rows, r), given=put(given, m, rows))
            if all(given[m] is not None for m in takes) and (force is None or 'early_build' in self.off):
                go('PREPARE', new=(None, None), built=0)
        if new is not None and built < 2 and (force is None or 'early_build' in self.off):
            who = tuple(m for m in takes if given[m] is not None and built in given[m])
            if 'one_missing' in self.off and 0 in who:
                who = (0,)
            value = (home[built] + ((r, who),)) if who else None
            if 'row_twice' in self.off and len(who) == 2:
                value = home[built] + ((r, (0,)), (r, (1,)))
            go('row %d is built' % built, new=put(new, built, value), built=built + 1)
        if new is not None and built == 2 and force is None:
            after = truth
            for i in (0, 1):
                who = tuple(m for m in takes if given[m] is not None and i in given[m])
                after = put(after, i, truth[i] + ((r, who),)) if who else after
            reached = cut
            if cut is not None and not cut[1] and 'flip_unkept' not in self.off:
                reached = (cut[0], True, cut[2])
            go('flip of round %d' % r, truth=after, force=new, moved=0, new=None, built=0, given=(None, None), done=r, cut=reached)
        if force is not None:
            at_home, of = settled(home, cut, (moved,))
            go('row %d is home' % moved, home=at_home, cut=of, moved=(moved + 1) % 2, force=force if moved == 0 else None)
        for i in (0, 1):
            seen = force[i] if force is not None and force[i] is not None and 'reads_home' not in self.off else home[i]
            if seen != truth[i]:
                raise Violation('a reader of row %d sees %r, and it is %r' % (i, seen, truth[i]))
        at_home, of = (home, cut) if 'sends_home' in self.off else settled(home, cut)
        if at_home != truth:
            raise Violation('a reader of all rows gets %r, and they are %r' % (at_home, truth))
        if (at_home, of) != (home, cut):
            go('an older reader brings all rows home', home=at_home, cut=of)
        if left[LEAVE] and alive:
            at_home, of = (home, cut) if 'leave_frees' in self.off else settled(home, cut)
            gone = force
            if force is not None and 'leave_frees' in self.off:
                gone = put(force, 1, None)
            keeps = 'leave_built' in self.off
            go('member 1 leaves', LEAVE, alive=False, given=put(given, 1, None), home=at_home, cut=of, force=gone,
               new=new if keeps else None, built=built if keeps else 0)
        if left[CUT] and cut is None:
            go('a cut begins', CUT, cut=(truth, False, (None, None)))
        if cut is not None and not cut[1]:
            at_home, of = (home, cut) if 'cut_forgets' in self.off else settled(home, cut)
            go('the cut reaches the variable', home=at_home, cut=(of[0], True, of[2]))
        if cut is not None and cut[1]:
            for i in (0, 1):
                if cut[2][i] is None:
                    go('the cut copies row %d' % i, cut=copied(cut, home, (i,)))
        if left[ASSIGN] and new is None and (force is None or 'assign_early' in self.off):
            reached = cut
            if cut is not None and not cut[1]:
                reached = (cut[0], True, cut[2])
            reached = copied(reached, home, (0, 1))
            go('an assign', ASSIGN, home=(('a',), ('a',)), truth=(('a',), ('a',)), cut=reached)
        return out

    def looked_at(self, cut):
        """None once all is copied"""
        if None in cut[2]:
            return cut
        if cut[2] != cut[0]:
            raise Violation('the cut has %r, and at its instant the rows were %r' % (cut[2], cut[0]))
        return None


if __name__ == '__main__':
    sys.exit(main(Model, SCENARIOS, MUTANTS))
