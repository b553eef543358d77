#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of a start onto fewer tasks, and back onto more (docs/DURABILITY.md §8), and of a checkpoint that is dealt anew
over all tasks (§9), or of which an older one is taken (§7.8): who loads which part of a checkpoint,
what of it stays away, that nothing is there twice, and all is of one history; to be explored before it is written in C. How a checkpoint becomes whole, and
how tasks that load place it together, is in checkpoint_model.py: here a checkpoint is one step.
usage: parts_model.py                       all scenarios, then all weaker rules and mistakes
       parts_model.py SCENARIO [RULE ...]   one run, prints the way to what is wrong

Each task has a directory: parts of checkpoints, bars of variables and of resets; that of task 0 has the manifests, too. A task reads
other tasks' directories, as they are on its host: on one host all, else those that somebody has copied there while nobody ran: such a copy goes before its task is started again. Somebody
ends all tasks and starts another number of them; one may be killed at any time, and comes back empty.

When all have listed and one has nothing, all load the newest checkpoint that is decided: each part by its writer, where that is a task
and has it, otherwise by one of those that can read it. A part that nobody has: they do not begin. When all have loaded, they place it,
but for what was deleted or reset since: as a task's own disk has it, the directories beside it, and other tasks' lists, which the
directory passes on.

Where a task loads a part of another one that lives, all load, and each knows until the next checkpoint is decided that what it has lies
elsewhere in this one: the other one may get its part back.

A checkpoint is dealt anew while all live: all load the newest one, each its own of all parts, and place it; from then on each knows up
to which number checkpoints have elsewhere what it has, and says so. While none behind that is decided, and somebody comes back, or does
not know of it while another does, all load, as the parts are. So it is when all have gone back to an older one than the newest, by a
start or while they live: the newest one is of another history than what lives. A checkpoint has that number with it: who loads it knows
it again, for a part may be damaged, and an older one is loaded then. Otherwise in these scenarios only who comes back loads
its part; who has nothing on its disk begins with nothing.

Promised, at every step: no variable is on two tasks, and none that was deleted, or reset, and answered, is there; what lives is of one
history; when all have placed it, all that was saved is there and not deleted; a start loads what was reported as saved last, or nothing; and they refuse to begin only
where a part is nowhere. From every state there is a way without a further fault to one where they live, or refuse."""
import sys

from explore import Violation, main

# writers: tasks of the first job; sizes of later ones; host: they are all on one; so many saves, deletes, resets, starts, copies, kills
SCENARIOS = {
    'host':     dict(writers=3, sizes=(1, 2), host=True, todo=dict(save=2, delete=1, start=2, kill=1)),
    'resets':   dict(writers=2, sizes=(1, 2), host=True, todo=dict(save=2, reset=1, start=2, kill=1)),
    'back':     dict(writers=2, sizes=(1, 2), host=True, todo=dict(save=1, delete=1, start=3, kill=1)),
    'hosts':    dict(writers=3, sizes=(1, 2), host=False, todo=dict(save=1, delete=1, start=2, copy=2, kill=1)),
    'return':   dict(writers=2, sizes=(1, 2), host=False, todo=dict(save=1, delete=2, start=2, copy=1, kill=1)),
    'spread':   dict(writers=3, sizes=(3,), host=False, spread=True, todo=dict(spread=2, save=1, delete=1, start=1, kill=2)),
    'spreads':  dict(writers=3, sizes=(3,), host=False, spread=True, todo=dict(spread=2, save=1, reset=1, kill=3)),
    'older':    dict(writers=3, sizes=(3,), host=False, spread=True, todo=dict(save=2, older=2, start=1, kill=2)),
    'damaged':  dict(writers=3, sizes=(3,), host=False, spread=True, todo=dict(spread=1, start=1, damage=1, kill=2)),
    'damages':  dict(writers=3, sizes=(3,), host=False, spread=True, todo=dict(save=2, older=1, start=1, damage=1, kill=1)),
    'lends':    dict(writers=3, sizes=(3,), host=False, spread=True, stays=True, todo=dict(save=1, start=1, copy=1, take=1, back=1, kill=2)),
    'olders':   dict(writers=3, sizes=(3,), host=False, spread=True, todo=dict(spread=1, save=1, older=1, delete=1, kill=2)),
}
# rule that is left out, or mistake: (where it shows first, what it is)
MUTANTS = {
    'one_missing':   ('hosts', "a part that nobody has is left out, and the others are loaded"),
    'bars_ignored':  ('back', "bars in the directory of a task that is gone do not count"),
    'by_two':        ('host', "whoever can read a part of a task that is gone loads it"),
    'names_untold':  ('return', "what was deleted is known to the task that noted it, and to who reads its directory, only"),
    'older_instead': ('hosts', "an older checkpoint is loaded in place of one of which a part is nowhere"),
    'own_whole':     ('spread', "who reads its own of a checkpoint that is dealt takes all of its own part"),
    'moved_unknown': ('spread', "nobody knows that what lives is not where its parts are"),
    'moved_unsaid':  ('spread', "the directory alone knows it"),
    'moved_of_who_waits': ('spread', "who has nothing on its disk, and lost what was dealt to it, is not missed"),
    'older_alone':   ('older', "who comes back loads its part of the newest one beside what is of an older one"),
    'lent_unsaid':   ('lends', "who has its own part back loads it, and another task keeps what it has placed of it"),
    'moved_unsaved': ('damaged', "a checkpoint does not have with it up to which number others have elsewhere what it has"),
    'not_own':       ('host', "what a task has loaded for another one is not in its own part of the next checkpoint"),
}

# a directory: parts (n, variables), numbers up to which variables are barred (variable, n), up to which a reset bars
PARTS, GONE, BAR = range(3)
# a task: what lives (None: it has come back), what is beside, whether it has loaded, up to which number it is elsewhere, of which history
# it is (a ghost)
LIVE, BESIDE, LOADED, MOVED, OF = range(5)
DOWN, STARTS, PLACES, RUNS, REFUSES = 'down', 'starts', 'places', 'runs', 'refuses'


def put(t, i, v):
    return t[:i] + (v,) + t[i + 1:]


class World:
    # dirs by task; copies by host (task, directory); manifests of task 0 (n, (writer, variables)); tasks; phase; checkpoint that is loaded
    # the checkpoint is dealt; who loads; up to which number others have elsewhere what a checkpoint has (n, number); damaged parts (task, n)
    # ghosts: reported as saved; variables that are dead; what lived then; generation of variables, next number; history of what is loaded,
    # and of each checkpoint (n, history); parts that were taken off a task's disk, and lie elsewhere (task, parts)
    F = ('dirs', 'copies', 'manifests', 'tasks', 'phase', 'n', 'deal', 'who', 'adopts', 'todo', 'saved', 'dead', 'all', 'generation', 'next',
         'history', 'histories', 'marks', 'damaged', 'away')

    def __init__(self, key):
        for f, v in zip(self.F, key):
            setattr(self, f, v)

    def key(self):
        return tuple(getattr(self, f) for f in self.F)


class Model:
    def __init__(self, scenario, off=()):
        sc = SCENARIOS[scenario]
        self.w, self.sizes, self.host, self.spread = sc['writers'], sc['sizes'], sc['host'], sc.get('spread', False)
        self.stays = sc.get('stays', False)
        self.todo = tuple(sorted(sc['todo'].items()))
        self.off = frozenset(off)

    def start(self):
        live = tuple((frozenset({(i, 0)}), None, False, 0, 0) for i in range(self.w))
        every = frozenset((i, 0) for i in range(self.w))
        dirs, manifests, n = (((), (), 0),) * self.w, (), 0
        if self.spread:             # the last one came behind checkpoint 1 of the others, who have two variables each
            every = frozenset((v, 0) for v in range(2 * self.w - 2))
            parts = tuple((i, frozenset({(2 * i, 0), (2 * i + 1, 0)})) for i in range(self.w - 1))
            dirs = tuple((((1, vs),), (), 0) for _, vs in parts) + (((), (), 0),)
            live = tuple((vs, None, False, 0, 0) for _, vs in parts) + ((frozenset(), None, False, 0, 0),)
            manifests, n = ((1, parts),), 1
        return (dirs, ((),) * self.w, manifests, live, RUNS, 0, False, frozenset(), False, self.todo, n, frozenset(), every, 0, n + 1, 0,
                ((1, 0),) * n, (), (), ())

    # ---- what a task can read ----
    def beside(self, w, i):
        """Directories of other tasks."""
        return {k: w.dirs[k] for k in range(self.w) if k != i} if self.host else dict(w.copies[i])

    def readers(self, w, k, n):
        return [i for i in range(len(w.tasks)) if i != k and n in dict(self.beside(w, i).get(k, ((),))[PARTS])]

    def loaders(self, w, k, n):
        if k < len(w.tasks) and n in dict(w.dirs[k][PARTS]):
            return [k]
        who = self.readers(w, k, n)
        return who if 'by_two' in self.off or not who else [who[k % len(who)]]

    def barred(self, w, i):
        """What task i leaves out: {variable: n}, and up to which number all are."""
        seen = {k: [w.dirs[k]] + ([] if 'bars_ignored' in self.off else list(self.beside(w, k).values())) for k in range(len(w.tasks))}
        gone = {}
        for k, found in seen.items():
            for d in found if k == i or 'names_untold' not in self.off else ():
                for v, n in d[GONE]:
                    gone[v] = max(n, gone.get(v, 0))
        return gone, max(d[BAR] for found in seen.values() for d in found)

    # ---- a start ----
    def moved(self, w):
        """Up to which number checkpoints have elsewhere what lives; whether somebody has lost that."""
        says = [0 if 'moved_unknown' in self.off or ('moved_unsaid' in self.off and w.tasks[0][MOVED] == 0) else t[MOVED] for t in w.tasks]
        if 'moved_of_who_waits' in self.off:
            says = [s for s, t in zip(says, w.tasks) if t[LIVE] != frozenset()] or [0]
        return max(says), len(set(says)) > 1

    def decide(self, w, one=None):
        """one: no newer one."""
        total = all(not t[LIVE] if self.spread else t[LIVE] is None for t in w.tasks)
        _, bar = self.barred(w, 0)
        torn = w.phase == PLACES
        if self.spread:             # nothing on its disk: it begins with nothing
            w.tasks = tuple((t[LIVE] if t[LIVE] is not None or w.dirs[i][PARTS] else frozenset(),) + t[1:] for i, t in enumerate(w.tasks))
        w.tasks = tuple((t[LIVE], None, False, t[MOVED], t[OF]) for t in w.tasks)
        newest = max([n for n, _ in w.manifests if n > bar], default=0)
        moved, lost = self.moved(w)
        waits = frozenset(i for i, t in enumerate(w.tasks) if t[LIVE] is None)
        w.who = frozenset(range(len(w.tasks)))
        if self.spread and not total and not torn and moved < newest:
            w.who = waits
        if self.spread and not (total or torn or waits or (lost and newest <= moved)):
            w.phase = RUNS
            return
        w.phase, w.n, w.adopts, w.deal, w.history = STARTS, 0, False, False, 0
        for n, parts in reversed(w.manifests):
            if n <= bar:
                break
            lent = any(k >= len(w.tasks) or (k in w.who and self.loaders(w, k, n) != [k]) for k, _ in parts)
            all_load = self.spread and (moved >= n or lent)
            who = frozenset(range(len(w.tasks))) if all_load else w.who
            if (one is not None and n > one) or any((i, n) in w.damaged for i in who):
                continue
            w.who = who
            missing = [k for k, _ in parts if not self.loaders(w, k, n)]
            if missing and 'older_instead' in self.off:
                continue
            if missing and 'one_missing' not in self.off:
                w.phase = REFUSES
                if any(n in dict(d[PARTS]) for i in range(len(w.tasks)) for k, d in self.beside(w, i).items() if k in missing):
                    raise Violation('they refuse to begin, and a part of %d can be read' % n)
                return
            self.takes(w, n)
            w.adopts = lent or moved >= n
            break
        if total and w.n < w.saved and w.saved > bar and one is None and self.is_whole(w, w.saved):
            raise Violation('a start loads %d, and %d was reported as saved' % (w.n, w.saved))
        if w.n == 0 and w.damaged and any(n > bar for n, _ in w.manifests):
            w.phase = REFUSES
            return
        if w.n == 0 and total:                                  # a new model
            w.generation += 1
            w.all = frozenset((i, w.generation) for i in range(self.w))
        if w.n == 0 and not total:                              # after a reset: what was made since, where it is lost, is made anew
            w.tasks = tuple((t[LIVE] or frozenset(), None, False, t[MOVED], t[OF]) for t in w.tasks)
            w.phase, w.all = RUNS, frozenset().union(*(t[LIVE] for t in w.tasks))

    @staticmethod
    def takes(w, n):
        """It is loaded. What all make of an older one than the newest is another history than that one's."""
        w.n = n
        w.history = w.next if Model.is_older(w) else dict(w.histories)[n]

    @staticmethod
    def is_older(w):
        return 0 < w.n < w.manifests[-1][0] and len(w.who) == len(w.tasks)

    def deals(self, w):
        w.phase, w.deal, w.who = STARTS, True, frozenset(range(len(w.tasks)))
        self.takes(w, w.manifests[-1][0])

    def goes_back(self, w, n):
        w.phase, w.deal, w.who = STARTS, False, frozenset(range(len(w.tasks)))
        self.takes(w, n)

    def loads(self, w, i):
        beside = frozenset()
        if w.n == 0:
            beside = frozenset(v for v in w.all if v[0] % len(w.tasks) == i)
        for k, vs in dict(w.manifests).get(w.n, ()):
            if w.deal:
                beside |= frozenset(v for v in vs if v[0] % len(w.tasks) == i or ('own_whole' in self.off and k == i))
            elif i in self.loaders(w, k, w.n) and (k == i or w.adopts):
                beside |= dict((w.dirs[k] if k == i else self.beside(w, i)[k])[PARTS])[w.n]
        w.tasks = put(w.tasks, i, (w.tasks[i][LIVE], beside, True) + w.tasks[i][MOVED:])
        if all(w.tasks[k][LOADED] for k in w.who):
            w.phase = PLACES

    def places(self, w, i):
        gone, bar = self.barred(w, i)
        beside = frozenset(v for v in w.tasks[i][BESIDE] if w.n == 0 or (gone.get(v, 0) < w.n and bar < w.n))
        older = self.is_older(w)
        lent = any(self.loaders(w, k, w.n) != [k] for k, _ in dict(w.manifests).get(w.n, ()))
        moved = w.deal or (older and 'older_alone' not in self.off) or (w.adopts and lent and 'lent_unsaid' not in self.off)
        mark = w.next - 1 if moved else dict(w.marks).get(w.n, 0)
        w.tasks = put(w.tasks, i, (beside, None, False, mark, w.history))
        if not any(t[LOADED] for t in w.tasks):
            w.phase, w.adopts = RUNS, w.adopts or w.deal or older
            here = frozenset().union(*(t[LIVE] for t in w.tasks))
            if w.n == w.saved and not w.all - w.dead <= here:
                raise Violation('%s is not there any more' % sorted(w.all - w.dead - here))
            w.all = here

    # ---- what else happens ----
    def save(self, w):
        n, w.next = w.next, w.next + 1
        first = {v for t in w.manifests[-1:] for k, vs in t[1] for v in vs if k >= len(w.tasks)} if 'not_own' in self.off else set()
        parts = tuple((i, t[LIVE] - first) for i, t in enumerate(w.tasks))
        for i, vs in parts:
            w.dirs = put(w.dirs, i, put(w.dirs[i], PARTS, w.dirs[i][PARTS] + ((n, vs),)))
        w.manifests += ((n, parts),)
        w.histories += ((n, next((t[OF] for t in w.tasks if t[LIVE]), 0)),)
        if self.moved(w)[0] and 'moved_unsaved' not in self.off:
            w.marks += ((n, self.moved(w)[0]),)
        w.saved, w.adopts = n, False
        w.all = frozenset().union(*(t[LIVE] for t in w.tasks))

    def delete(self, w, i, v):
        gone = dict(w.dirs[i][GONE])
        gone[v] = w.next - 1
        w.dirs = put(w.dirs, i, put(w.dirs[i], GONE, tuple(sorted(gone.items()))))
        w.tasks = put(w.tasks, i, put(w.tasks[i], LIVE, w.tasks[i][LIVE] - {v}))
        w.dead |= {v}

    @staticmethod
    def is_whole(w, n):
        return not any(k == n for _, k in w.damaged)

    @staticmethod
    def damage(w, i, n):
        w.damaged += ((i, n),)

    def reset(self, w):
        w.dead |= {(i, g) for g in range(w.generation + 1) for i in range(self.w)}
        w.generation += 1
        for i in range(len(w.tasks)):
            w.dirs = put(w.dirs, i, put(w.dirs[i], BAR, w.next - 1))
            w.tasks = put(w.tasks, i, (frozenset({(i, w.generation)}), None, False, w.tasks[i][MOVED], 0))
        w.all = frozenset((i, w.generation) for i in range(len(w.tasks)))

    @staticmethod
    def end(w):
        w.tasks, w.phase = (), DOWN

    def begin(self, w, size, one=None):
        if not self.stays:                                                                  # as the runbook has it
            w.copies = tuple(tuple(c for c in found if c[0] >= size) for found in w.copies)
        w.tasks = ((None, None, False, 0, 0),) * size
        self.decide(w, one)

    def copy(self, w, k, host):
        w.copies = put(w.copies, host, tuple(sorted({**dict(w.copies[host]), k: w.dirs[k]}.items())))

    @staticmethod
    def take(w, k):
        w.away += ((k, w.dirs[k][PARTS]),)
        w.dirs = put(w.dirs, k, put(w.dirs[k], PARTS, ()))

    @staticmethod
    def back(w):
        (k, parts), w.away = w.away[0], ()
        w.dirs = put(w.dirs, k, put(w.dirs[k], PARTS, tuple(sorted({**dict(parts), **dict(w.dirs[k][PARTS])}.items()))))

    def kill(self, w, i):
        w.tasks = put(w.tasks, i, (None, None, False, 0, 0))
        self.decide(w)

    @staticmethod
    def check(w):
        lives = [v for t in w.tasks for v in t[LIVE] or ()]
        if w.phase == RUNS and len(lives) != len(set(lives)):
            raise Violation('a variable is on two tasks')
        if w.phase == RUNS and w.dead.intersection(lives):
            raise Violation('%s was deleted, or reset, and is there' % sorted(w.dead.intersection(lives)))
        if w.phase == RUNS and len({t[OF] for t in w.tasks if t[LIVE]}) > 1:
            raise Violation('what lives is of several histories')

    def steps(self, key):
        out = []
        left = dict(World(key).todo)

        def add(label, act, *args, cost=None, fault=False):
            if cost is not None and not left.get(cost):
                return
            w = World(key)
            if cost is not None:
                w.todo = tuple(sorted({**left, cost: left[cost] - 1}.items()))
            try:
                act(w, *args)
                self.check(w)
            except Violation as v:
                raise Violation(v.args[0], label)
            out.append((label, fault, w.key()))
        w = World(key)
        older = [n for n, _ in w.manifests[:-1] if n > max(d[BAR] for d in w.dirs) and self.is_whole(w, n)]
        if w.phase == DOWN:
            for size in self.sizes:
                add('%d tasks are started' % size, self.begin, size)
                for n in older:
                    add('%d tasks are started with %d' % (size, n), self.begin, size, n, cost='older', fault=True)
            for k in range(1, self.w):
                add('the parts of task %d are taken off its disk' % k, self.take, k, cost='take', fault=True)
            for k in range(self.w):
                for host in range(self.w):
                    if not self.host and k != host:
                        add('directory %d is copied to host %d' % (k, host), self.copy, k, host, cost='copy', fault=True)
            return out
        if w.phase == RUNS and w.away:
            add('task %d gets its parts back' % w.away[0][0], self.back, cost='back', fault=True)
        add('all are ended', self.end, cost='start', fault=True)
        for i, t in enumerate(w.tasks):
            if w.phase == STARTS and i in w.who and not t[LOADED]:
                add('task %d loads %d' % (i, w.n), self.loads, i)
            if w.phase == PLACES and t[LOADED]:
                add('task %d places %d' % (i, w.n), self.places, i)
            if w.phase != REFUSES:
                add('task %d is killed' % i, self.kill, i, cost='kill', fault=True)
            for n, _ in w.dirs[i][PARTS] if w.phase in (RUNS, PLACES) else ():
                add('the part of task %d of %d is damaged' % (i, n), self.damage, i, n, cost='damage', fault=True)
            if w.phase == RUNS:
                for v in sorted(t[LIVE]):
                    add('%s is deleted on task %d' % (v, i), self.delete, i, v, cost='delete', fault=True)
        if w.phase == RUNS:
            if w.adopts:
                add('%d is saved, of what was adopted' % w.next, self.save)
            add('%d is saved' % w.next, self.save, cost='save', fault=True)
            add('a reset', self.reset, cost='reset', fault=True)
            if self.spread and w.manifests and self.is_whole(w, w.manifests[-1][0]) and w.manifests[-1][0] > self.barred(w, 0)[1]:
                add('%d is dealt anew' % w.manifests[-1][0], self.deals, cost='spread', fault=True)
            for n in older:
                add('all go back to %d' % n, self.goes_back, n, cost='older', fault=True)
        return out

    @staticmethod
    def quiet(key):
        w = World(key)
        return w.phase == REFUSES or (w.phase == RUNS and not w.adopts)


if __name__ == "__main__":
    sys.exit(main(Model, SCENARIOS, MUTANTS))
