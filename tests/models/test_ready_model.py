#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of readiness (docs/PROTOCOL.md section 7): is part of a model taken for the whole of it?
usage: test_ready_model.py [SCENARIO [RULE ...]]

Two variables, each at a task of its own that may come back empty. Sessions, in any interleaving: an import gives the variables
their values, one after the other, and never asks for ready; a user initialises and trains them without it; a chief may give some of them itself (INIT_FROM), then looks at each,
decides, INITs and SEALs each; a worker waits for the seals. Any of them may die between two steps, later ones may still come.

In the scenarios of rates the model is there, trained and ready, since an earlier training with another rate. A chief and a worker
come in any order; the worker looks, and where the rate in force is not its own it waits for the word of a chief that the model is
ready, which the directory passes on as long as that chief is there, and looks again.

Promised: when a session is told that all is ready, no variable was initialised by a chief although another one, which is still
there, was live when that chief's READY began; and in scenarios without a restart or an import nobody is told DATA_LOSS. An import
that runs while a chief initialises is not looked at: neither can know. A worker that is told of other rates was told those of a
chief that came to it, not those of an earlier training; one that is told that all is ready has its own rates in force; and no
worker waits while a chief that stays has made the model ready."""
import sys

from explore import Violation, main

# scenario: sessions (kind, what it gives, does it train, its rate: 0 where it is not said), restarts, deaths
SCENARIOS = {
    'start':      ((('chief', (), True), ('worker', (), False)), 0, 0),
    'start_died': ((('chief', (0,), False), ('worker', (), False)), 0, 1),
    'dies':       ((('chief', (), False), ('chief', (), False), ('worker', (), False)), 0, 2),
    'own':        ((('chief', (0,), True), ('worker', (), True)), 0, 0),
    'loss':       ((('chief', (), True), ('chief', (), False), ('worker', (), False)), 1, 1),
    'user':       ((('user', (0, 1), False), ('chief', (), False), ('worker', (), False)), 1, 1),
    'import':     ((('import', (0, 1), False), ('chief', (), False), ('worker', (), False)), 2, 1),
    'import_2':   ((('import', (0, 1), False), ('chief', (), False), ('chief', (), False)), 1, 2),
    'import_own': ((('import', (0, 1), False), ('chief', (0,), False), ('worker', (), False)), 1, 1),
    'rates':      ((('chief', (), True, 1), ('worker', (), True, 1)), 0, 1),
    'rates_2':    ((('chief', (), False, 1), ('chief', (), False, 1), ('worker', (), True, 1)), 0, 1),
    'rates_stay': ((('chief', (), False, 1), ('worker', (), True, 2)), 0, 1),
}
STAYS = ('rates_stay',)  # a chief that has made the model ready does not end
CAUSELESS = ('start', 'start_died', 'dies', 'own')  # nothing is lost there
# rule: (where it shows when it is left out, what it is)
MUTANTS = {
    'given':       ('import', "what another session gave (ASSIGN, INIT_FROM) is live, at version 0 and unsealed too"),
    'lasting':     ('import_2', "... until the variable is lost: an INIT of a chief that found the value does not clear it"),
    'first':       ('import_own', "... and who gave it first counts, not who would have given it later"),
    'own':         ('own', "... but what this session gave itself is no sign that something is lost"),
    'others_wait': ('own', "a session that is not the chief waits where that is the only sign: a chief may be in between"),
    'seal':        ('loss', "a sealed variable is live"),
    'version':     ('user', "a variable above version 0 is live"),
    'waits':       ('rates', "who finds another rate in force than its own waits for a chief's word"),
    'looks_again': ('rates', "... and judges by what it looks at after that word"),
    'told':        ('rates', "... or after a chief has come or gone meanwhile"),
    'chief_stays': ('rates_stay', "... and ends where the chief that is there has put another one in force"),
    'compares':    ('rates', "who finds another rate in force is not ready"),
    'second_look': ('start', "who sees half a model looks again: the answers may be of different moments"),
}

GIVE, LOOK, INIT, SEAL, WAIT, HEAR, OK, TOLD, DEAD, DONE = 'give look init seal wait hear ok told dead done'.split()
EMPTY = (-1, False, None, None, None, None)  # version, sealed, who gave it first, ghosts: INITed beside (variable, creation), true
#                                              giver; the rate in force
EARLIER = (1, True, None, None, None, 0)     # what an earlier training has left
NOBODY = (0, (), None, None, None)           # of a session that does not look


def put(t, i, v):
    return t[:i] + (v,) + t[i + 1:]


class Model:
    """state = (variables, sessions, restarts left, deaths left)
    variable = (creation, version, sealed, giver, half, truth, rate); session = (step, index, seen, live before, ghost: live when it began, heard)
    heard: what heard() said when its look began"""

    def __init__(self, scenario, off=()):
        kinds, self.restarts, self.deaths = SCENARIOS[scenario]
        self.kinds = tuple(k[:3] for k in kinds)
        self.rates = tuple(k[3] if len(k) > 3 else 0 for k in kinds)
        self.stays = scenario in STAYS
        self.causeless = scenario in CAUSELESS
        self.on = {rule: rule not in off for rule in MUTANTS}

    def start(self):
        sessions = tuple((GIVE if gives else LOOK,) + NOBODY for _, gives, _ in self.kinds)
        return ((0,) + (EARLIER if any(self.rates) else EMPTY),) * 2, sessions, self.restarts, self.deaths

    def heard(self, sessions):
        """(the chief that is there and has made the model ready, (chiefs that have come, is one there))"""
        chiefs = [sessions[k][0] for k, kind in enumerate(self.kinds) if kind[0] == 'chief']
        ready = [k for k, step in enumerate(chiefs) if step == OK]
        come = [step for step in chiefs if step not in (GIVE, LOOK)]
        return ready[-1] if ready else None, (len(come), any(step not in (DEAD, DONE, TOLD) for step in come))

    def judge(self, k, sessions, seen, heard):
        """A worker that finds all ready."""
        mine = all(v[4] == self.rates[k] for v in seen)
        if mine or not self.on['compares']:
            if not mine:
                raise Violation('session %d is ready, and its rate is not in force' % k)
            return OK, 0, seen, None, None, None
        if self.on['waits'] and (heard[0] is None or heard[0] != self.heard(sessions)[0] or not self.on['chief_stays']):
            return HEAR, 0, seen, None, None, heard
        if self.rates[k] in [r for r, kind in zip(self.rates, self.kinds) if kind[0] == 'chief']:
            raise Violation('session %d is told of the rate of an earlier training' % k)
        return (TOLD,) + NOBODY

    def lives(self, v, me):
        """(by version or seal, because somebody else gave it)"""
        return (self.on['version'] and v[1] > 0) or (self.on['seal'] and v[2]), (
            self.on['given'] and v[1] >= 0 and v[3] is not None and not (self.on['own'] and v[3] == me))

    def give(self, v, me):
        creation, version, sealed, giver, half, truth, rate = v
        kind = self.kinds[me][0]
        if kind == 'user':                               # INIT, and a push
            return creation, 1, sealed, giver, half, truth, rate
        if version < 0:
            return creation, 0, sealed, me, None, me, rate
        if kind == 'chief':                              # INIT_FROM finds a value
            return v if self.on['first'] else (creation, version, sealed, me, half, truth, rate)
        return creation, 1, sealed, giver if giver is not None and self.on['first'] else me, half, truth, rate

    def decide(self, variables, sessions, k, s):
        """all has been looked at"""
        seen = s[2]
        live = [i for i in (0, 1) if any(seen[i][2])]
        proved = any(seen[i][2][0] for i in live)
        chief = self.kinds[k][0] == 'chief'
        if live and any(v[1] < 0 for v in seen) and (chief or proved or not self.on['others_wait']):
            if self.on['second_look'] and not any(seen[i][0] == s[3] and i == s[3][0] for i in live if s[3]):
                return LOOK, 0, (), seen[live[0]][0], s[4], None
            if self.causeless:
                raise Violation('session %d is told DATA_LOSS, and nothing was lost' % k)
            return (TOLD,) + NOBODY
        if chief:
            return INIT, 0, seen, None, s[4], None
        return self.judge(k, sessions, seen, s[5]) if all(v[3] for v in seen) else (WAIT, 0, (), None, s[4], None)

    def ready(self, variables, k):
        for v in variables:
            if v[4] is not None and variables[v[4][0]][0] == v[4][1]:
                raise Violation('session %d is ready on half a model' % k)

    def steps(self, state):
        return [(label, new[2:] != state[2:], new) for label, new in self.moves(state)]

    def quiet(self, state):
        ended = (DONE, DEAD, TOLD, WAIT, OK) if self.stays else (DONE, DEAD, TOLD, WAIT)
        stays = self.stays and self.heard(state[1])[0] is not None
        return all(s[0] in ended or (s[0] == HEAR and not stays and any(v[6] != self.rates[k] for v in state[0]))
                   for k, s in enumerate(state[1]))

    def moves(self, state):
        variables, sessions, restarts, deaths = state
        for i in (0, 1):
            if restarts and variables[i][1] >= 0:
                yield 'task %d comes back empty' % i, (put(variables, i, (variables[i][0] + 1,) + EMPTY), sessions, restarts - 1, deaths)
        for k, s in enumerate(sessions):
            kind, gives, trains = self.kinds[k]
            step, i = s[:2]
            name = '%s %d' % (kind, k)
            if deaths and step not in (OK, TOLD, DEAD, DONE):
                yield name + ' dies', (variables, put(sessions, k, (DEAD,) + NOBODY), restarts, deaths - 1)
            if step == GIVE:
                v2 = put(variables, gives[i], self.give(variables[gives[i]], k))
                last = i + 1 == len(gives)
                s2 = (GIVE, i + 1, (), None, None, None) if not last else (LOOK if kind == 'chief' else DONE,) + NOBODY
                yield '%s gives %d' % (name, gives[i]), (v2, put(sessions, k, s2), restarts, deaths)
            elif step == LOOK:
                v = variables[i]
                base = s[4]
                if base is None:
                    base = tuple(x[0] if x[1] > 0 or x[2] or x[5] not in (None, k) else None for x in variables)
                seen = s[2] + (((i, v[0]), v[1], self.lives(v, k), v[2], v[6]),)
                heard = s[5]
                if i == 0 and kind == 'worker' and heard is None:
                    heard = (None, self.heard(sessions)[1])
                s2 = (LOOK, 1, seen, s[3], base, heard)
                if i == 1:
                    s2 = self.decide(variables, sessions, k, s2)
                    if s2[0] == OK:
                        self.ready(variables, k)
                yield '%s looks at %d' % (name, i), (variables, put(sessions, k, s2), restarts, deaths)
            elif step in (INIT, SEAL):
                v = variables[i]
                if v[0] != s[2][i][0][1]:
                    yield '%s is told that %d is gone' % (name, i), (variables, put(sessions, k, (LOOK, 0, (), None, s[4], None)), restarts,
                                                                    deaths)
                    continue
                if step == INIT and v[1] < 0:
                    other = 1 - i
                    half = (other, variables[other][0]) if s[4][other] == variables[other][0] else None
                    v = (v[0], 0, False, None, half, None, self.rates[k])
                elif step == INIT:
                    v = v[:3] + (v[3] if self.on['lasting'] else None,) + v[4:6] + (self.rates[k],)
                elif step == SEAL:
                    v = v[:2] + (True,) + v[3:]
                v2 = put(variables, i, v)
                s2 = (step, 1) + s[2:] if i == 0 else (SEAL if step == INIT else OK, 0) + s[2:]
                if s2[0] == OK:
                    self.ready(v2, k)
                yield '%s %ss %d' % (name, step, i), (v2, put(sessions, k, s2), restarts, deaths)
            elif step == WAIT and all(v[2] for v in variables):
                yield name + ' hears that all is sealed', (variables, put(sessions, k, (LOOK, 0, (), None, s[4], None)), restarts, deaths)
            elif step == HEAR:
                word, told = self.heard(sessions)
                if word is not None and not self.on['looks_again']:
                    yield name + ' hears of a chief', (variables, put(sessions, k, self.judge(k, sessions, s[2], (word, told))), restarts,
                                                       deaths)
                elif word is not None or (self.on['told'] and told != s[5][1]):
                    yield name + ' hears of a chief', (variables, put(sessions, k, (LOOK, 0, (), None, s[4], (word, told))), restarts,
                                                       deaths)
            elif step == OK and not (self.stays and kind == 'chief'):
                v2 = tuple((v[0], 1) + v[2:] if trains and v[1] >= 0 and v[0] == x[0][1] else v for v, x in zip(variables, s[2]))
                yield name + ' works and ends', (v2, put(sessions, k, (DONE,) + NOBODY), restarts, deaths)


if __name__ == '__main__':
    sys.exit(main(Model, SCENARIOS, MUTANTS))
