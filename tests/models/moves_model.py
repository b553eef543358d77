#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explicit-state model of a push that moves its variable in slices, after its last byte (LAMB, LARS; docs/PROTOCOL.md, Optimizers).
Explored before it was written in C.
usage: moves_model.py                       all scenarios, then all weaker rules
       moves_model.py SCENARIO [RULE ...]   one run, prints the way to what is wrong

The segments of such a push change slots, and measure norms of the whole variable (LAMB), or are only gathered (LARS). Behind the last
segment of a gathered push slices measure the norms, and change nothing. Then slices change the value, by the norms and by the slots or the
gathered gradient; other events come between two slices. Meanwhile the push's own connection is not read, and a connection on which a
mutation of the same variable comes is not read either. A cut that is full makes segments and slices that change something wait, until its
disk has written. A connection may break at any moment: slices go on; HELLO makes those that are left, and says what has become of the
numbers.

Promised: between the last segment of a push and its last slice nothing else changes the variable. Each push is applied once, in all
segments and slices. A client that is told that its push is applied sees it whole, and a pull that is called exact shows no half of one.
Nobody waits for ever."""
import sys

from explore import Violation, main

LINK, CUT, GONE = range(3)
DOWN, UP, DEAF, DEAD = range(4)
SCENARIOS = {
    'pushes': dict(work=(('push', 'pull'), ('push',)), faults=(1, 1, 1)),
    'assign': dict(work=(('push', 'pull'), ('assign', 'pull')), faults=(1, 1, 0)),
    'again':  dict(work=(('push', 'push', 'pull'),), faults=(3, 1, 0)),
    'three':  dict(work=(('push',), ('push',), ('pull',)), faults=(1, 0, 1)),
    'gathered': dict(work=(('push', 'pull'), ('push',)), faults=(1, 1, 1), gathers=True),
    'gathered_assign': dict(work=(('push', 'pull'), ('assign', 'pull')), faults=(2, 1, 0), gathers=True),
}
MUTANTS = {
    'others_go_on':  ('pushes', "segments of another push are taken between slices"),
    'assign_goes_on': ('assign', "an assign is carried out between slices"),
    'own_goes_on':   ('pushes', "the push's own connection is read between slices"),
    'early_reply':   ('pushes', "the push is answered when its last segment has come"),
    'not_counted':   ('assign', "a push in its slices is none in progress"),
    'torn':          ('again', "a connection that breaks ends the slices"),
    'from_the_start': ('again', "HELLO lets the client send the last segment again"),
    'all_has_come':  ('again', "HELLO says that all has come, and the end of the slices is told to the connection before"),
    'needs_its_link': ('pushes', "slices are made while the push has a connection"),
    'measures_alone': ('gathered', "a push that measures does not make the last segments of others wait"),
    'assigns_while_measured': ('gathered_assign', "an assign is carried out while a push measures"),
    'gathered_not_counted': ('gathered_assign', "a push that was gathered is none in progress when its slices change the value"),
    'gathered_torn': ('gathered', "what is gathered is dropped when the connection breaks between slices"),
}
SEGMENTS = SLICES = MEASURES = 2

# variable: slots, value: for each segment, slice: the pushes and assigns that it has, in order
# moving: None or (client, slices made, below 0 while they measure, slots and value when the last segment had come)
# client: operations that are done at the server, segments taken of the next one, number of operations whose end is told, its link:
# DEAF: up, and the end of the slices is not told; DEAD: the client never comes back
# cut: is it full


class Model:
    def __init__(self, scenario, off=()):
        sc = SCENARIOS[scenario]
        self.work, self.faults, self.gathers, self.off = sc['work'], sc['faults'], sc.get('gathers', False), frozenset(off)

    def start(self):
        return (((),) * SEGMENTS, ((),) * SLICES, None, ((0, 0, 0, UP),) * len(self.work), False, self.faults)

    def steps(self, key):
        slots, value, moving, clients, full, left = key
        out = []
        for i, (done, at, told, link) in enumerate(clients):
            up = link in (UP, DEAF)
            if up and done < len(self.work[i]) and not self.waits(key, i):
                out.append(self.reads(key, i))
            if up and left[LINK]:
                torn = moving if moving is None or moving[0] != i or not self.off & {'torn', 'gathered_torn'} else None
                lost = (done + 1, 0, told, DOWN) if torn is not moving else (done, at, told, DOWN)
                out.append(('the link of %d breaks' % i, True,
                            (slots, value, torn, put(clients, i, lost), full, put(left, LINK, left[LINK] - 1))))
            if up and left[GONE]:
                out.append(('%d dies' % i, True, (slots, value, moving, put(clients, i, (done, at, told, DEAD)), full,
                                                  put(left, GONE, left[GONE] - 1))))
            if link == DOWN:
                out.append(self.hello(key, i))
        if moving is not None and (not full or moving[1] < 0) and not ('needs_its_link' in self.off and clients[moving[0]][3] != UP):
            out.append(('a slice', False, self.slice(key)))
        if left[CUT] and not full:
            out.append(('a cut is full', True, (slots, value, moving, clients, True, put(left, CUT, left[CUT] - 1))))
        if full:
            out.append(('its disk has written', False, (slots, value, moving, clients, False, left)))
        return out

    def waits(self, key, i):
        slots, value, moving, clients, full, left = key
        op = self.work[i][clients[i][0]]
        if full and (op == 'assign' or op == 'push' and not self.gathers):
            return True
        if moving is None:
            return False
        if moving[1] < 0 and moving[0] != i and (op == 'push' and 'measures_alone' in self.off or
                                                 op == 'assign' and 'assigns_while_measured' in self.off):
            return False
        if moving[0] == i and 'early_reply' not in self.off:
            return 'own_goes_on' not in self.off or clients[i][0] + 1 == len(self.work[i])
        return op == 'push' and 'others_go_on' not in self.off or op == 'assign' and 'assign_goes_on' not in self.off

    def reads(self, key, i):
        slots, value, moving, clients, full, left = key
        done, at, told, link = clients[i]
        # a push that moves the value is still the number before the one that comes behind it
        ahead = 1 if moving is not None and moving[0] == i and 'early_reply' not in self.off else 0
        op = self.work[i][done + ahead]
        name = (i, done + ahead)
        if op == 'pull':
            self.pulls(key, i, done + ahead)
            return ('%d pulls' % i, False, (slots, value, moving, put(clients, i, ended(clients[i])), full, left))
        if op == 'assign':
            value = tuple(had + (name,) for had in value)
            self.same(moving, slots, value)
            return ('%d assigns' % i, False, (slots, value, moving, put(clients, i, ended(clients[i])), full, left))
        if not self.gathers:
            slots = put(slots, at, slots[at] + (name,))
            self.same(moving, slots, value)
        client = (done, at + 1, told, link)
        if at + 1 == SEGMENTS:
            if self.gathers and moving is not None:
                raise Violation('two pushes move the variable')
            moving = (i, -MEASURES if self.gathers else 0, slots, value)
            client = (done + 1, 0, told + 1, link) if 'early_reply' in self.off else client
        return ('segment %d of %r' % (at, name), False, (slots, value, moving, put(clients, i, client), full, left))

    def same(self, moving, slots, value):
        if moving is not None and (slots != moving[2] or any(v != w for v, w in list(zip(value, moving[3]))[max(moving[1], 0):])):
            raise Violation('something else changes the variable between two slices')

    def slice(self, key):
        slots, value, (i, made, *before), clients, full, left = key
        done, at, told, link = clients[i]
        name = (i, done - ('early_reply' in self.off))
        if made < 0:
            return (slots, value, (i, made + 1, *before), clients, full, left)
        value = put(value, made, value[made] + (name,))
        moving = (i, made + 1, *before)
        if made + 1 == SLICES:
            moving = None
            if 'early_reply' not in self.off:
                clients = put(clients, i, (done + 1, 0, told + (link == UP), link))
            self.once(slots, value, name)
        return (slots, value, moving, clients, full, left)

    def once(self, slots, value, name):
        if any(had.count(name) != 1 for had in (value if self.gathers else slots + value)):
            raise Violation('%r is in %r and %r' % (name, slots, value))

    def hello(self, key, i):
        slots, value, moving, clients, full, left = key
        if moving is not None and moving[0] == i:
            if 'from_the_start' in self.off:
                done, at, told, link = clients[i]
                return ('HELLO of %d' % i, False, (slots, value, None, put(clients, i, (done, at - 1, told, UP)), full, left))
            if 'all_has_come' in self.off:
                return ('HELLO of %d' % i, False, (slots, value, moving, put(clients, i, clients[i][:3] + (DEAF,)), full, left))
            while key[2] is not None:
                key = self.slice(key)
            slots, value, moving, clients, full, left = key
        done, at, told, link = clients[i]
        for n in range(done):
            if self.work[i][n] == 'push':
                self.once(slots, value, (i, n))
        return ('HELLO of %d' % i, False, (slots, value, moving, put(clients, i, (done, at, done, UP)), full, left))

    def pulls(self, key, i, behind):
        slots, value, moving, clients, full, left = key
        for n in range(behind):
            if self.work[i][n] == 'push' and any((i, n) not in had for had in value):
                raise Violation('%d pulls, and does not see its own push' % i)
        exact = moving is None if self.gathers else not any(at > 0 for done, at, told, link in clients)
        exact = exact or (self.off & {'not_counted', 'gathered_not_counted'} and moving is not None)
        if exact and any(had != value[0] for had in value):
            raise Violation('a pull that is called exact shows half a push')

    def quiet(self, key):
        slots, value, moving, clients, full, left = key
        return moving is None and not full and all(link == DEAD or link != DOWN and told == len(of)
                                                   for (done, at, told, link), of in zip(clients, self.work))


def put(at, i, v):
    return at[:i] + (v,) + at[i + 1:]


def ended(client):
    return (client[0] + 1, 0, client[2] + 1, client[3])


if __name__ == '__main__':
    sys.exit(main(Model, SCENARIOS, MUTANTS))
