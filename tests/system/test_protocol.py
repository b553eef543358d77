#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-transport: plain (it speaks the protocol itself)
# test-timeout: 120
"""docs/PROTOCOL.md alone is enough: a client that knows the page's tables and nothing else (tests/lib/pyclient.py) opens a session,
trains, is cut in the middle of a push, goes on where it stood, and is told why when it does what the page forbids."""
import os
import socket
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from pyclient import PAGE, Client, Closed, Conn, Refused, encode, frame_bytes, pack_floats, times_of, unpack_floats

from cluster import Cluster, main

SEGMENT = PAGE.limits["SEGMENT_BYTES"] // 4  # float32
N = 3 * SEGMENT + 5
SGD = {"kind": PAGE.kind("Optimizer", "SGD"), "learning_rate": 1.0}
SEALED = 2


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(2).__enter__()
        host, port = cls.cluster.addresses[0].rsplit(":", 1)
        cls.address = (host, int(port))
        host, port = cls.cluster.addresses[1].rsplit(":", 1)
        cls.other = (host, int(port))
        c = Client(cls.address)
        c.hello()
        c.ask("WAIT_CLUSTER", {"timeout_ms": 60000}, [{"job": "ps", "task": 0}, {"job": "ps", "task": 1}])
        c.goodbye()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__()

    def client(self, address=None, **more):
        c = Client(address or self.address, **more)
        self.addCleanup(c.close)
        c.hello()
        return c

    def variable(self, c, name, dtype="F32", count=N, kind="ZEROS", optimizer=None, **more):
        optimizer = optimizer if dtype != "F32" else optimizer or SGD
        c.create(name, dtype, [count], optimizer=optimizer, **more)
        v = c.open(name)
        self.assertEqual(v["status"], "OK")
        self.assertEqual(c.init(v, kind).status, "OK")
        return c.open(name)


class Training(Case):
    def test_hello_tells_the_cluster(self):
        c = self.client()
        self.assertEqual([t["address"].decode() for t in c.tasks], self.cluster.addresses)
        self.assertEqual((c.answer["job"], c.answer["task"], c.answer["directory_task"]), (b"ps", 0, 0))
        self.assertEqual(c.answer["window"], PAGE.limits["WINDOW"])
        self.assertGreater(c.answer["beat_ms"], 0)
        c.goodbye()

    def test_from_nothing_to_a_trained_variable(self):
        chief, waiting = self.client(), self.client()
        chief.create("train/w", "F32", [SEGMENT + 3], optimizer=SGD)
        v = chief.open("train/w")
        self.assertFalse(v["initialised"])
        self.assertIn("UNINITIALIZED", chief.push(v, [1.0] * (SEGMENT + 3)).text)
        waiting.create("train/w", "F32", [SEGMENT + 3], optimizer=SGD)
        w = waiting.open("train/w")
        handles = [{"handle": w["handle"], "creation": w["creation"]}]
        number = waiting.start("WAIT", {"condition": SEALED, "timeout_ms": 60000}, handles)
        lease = chief.ask("CHIEF").items[0]["number"]
        reply = chief.init(v, "ONES", chief=lease, optimizer=SGD)
        self.assertEqual((reply.status, reply.version), ("OK", 0))
        chief.ask("SEAL", {"chief_number": lease}, [{"handle": v["handle"], "creation": v["creation"]}])
        self.assertEqual(waiting.reply("WAIT", number).status, "OK")
        waiting.acknowledge(number)
        self.assertTrue(waiting.open("train/w")["sealed"])
        self.assertEqual(waiting.push(w, [0.25] * (SEGMENT + 3)).version, 1)
        self.assertEqual(chief.push(v, [1.0] * (SEGMENT + 3), scale=0.5).version, 2)
        values, version, exact = chief.pull(v, 0, SEGMENT + 3)
        self.assertEqual((unpack_floats(values, SEGMENT + 3), version, exact), ([0.25] * (SEGMENT + 3), 2, True))
        self.assertEqual(chief.init(v, "ONES", chief=lease, force=True, optimizer=SGD).version, 3)
        self.assertEqual(chief.floats(v, 3), [1.0] * 3)

    def test_the_initializer_of_the_page(self):
        c = self.client()
        c.create("init/u", "F32", [6], optimizer=SGD)
        v = c.open("init/u")
        c.init(v, "UNIFORM", a=-1.0, b=3.0, seed=7 << 40 | 9)
        got = c.floats(v, 6)
        self.assertEqual(got, [uniform(-1.0, 3.0, 7 << 40 | 9, b"init/u", i) for i in range(6)])

    def test_momentum_as_the_page_says(self):
        c = self.client()
        rule = {"kind": PAGE.kind("Optimizer", "MOMENTUM"), "learning_rate": 0.5, "momentum": 0.25, "nesterov": True}
        v = self.variable(c, "arithmetic/m", count=1, optimizer=rule)
        value = accumulator = 0.0
        for gradient in (1.0, -2.0, 0.5):  # exact in float32
            c.push(v, [gradient])
            accumulator = accumulator * 0.25 + gradient
            value -= gradient * 0.5 + accumulator * 0.25 * 0.5
            self.assertEqual(c.floats(v, 1), [value])

    def test_push_pull_brings_the_values(self):
        c = self.client()
        v = self.variable(c, "train/pp")
        reply = c.push(v, [-2.0] * N, op="PUSHPULL", most=PAGE.limits["SEGMENT_BYTES"])
        self.assertEqual(reply.version, 1)
        self.assertEqual([f.offset for f in c.values], [0, SEGMENT, 2 * SEGMENT, 3 * SEGMENT])
        self.assertEqual(unpack_floats(b"".join(f.payload for f in c.values), N), [2.0] * N)

    def test_narrow_dtypes(self):
        c = self.client()
        v = self.variable(c, "train/bf16", count=4)
        halves = b"".join(pack_floats([x])[2:] for x in (1.0, -0.5, 2.0, 0.0))  # the upper half of each
        self.assertEqual(c.mutate("PUSH", v, halves, 4, dtype=PAGE.dtypes["BF16"][0]).status, "OK")
        self.assertEqual(c.floats(v, 4), [-1.0, 0.5, -2.0, 0.0])
        self.assertEqual(c.pull(v, 0, 2, dtype=PAGE.dtypes["BF16"][0])[0][:4], pack_floats([-1.0])[2:] + pack_floats([0.5])[2:])


class ExactlyOnce(Case):
    def test_a_push_is_gone_on_with_where_it_was_cut(self):
        for crc in (True, False):
            c, second = self.client(crc=crc), self.client()
            v = self.variable(c, f"once/{crc}")
            number = c.number()
            payload = pack_floats([-1.0] * N)
            frames = list(c.frames("PUSH", number, v, payload, N, most=PAGE.limits["SEGMENT_BYTES"]))
            self.assertEqual(len(frames), 4)
            c.conn.sock.sendall(frames[0] + frames[1] + frames[2][:1000])
            c.conn.sock.shutdown(socket.SHUT_WR)  # what was sent is read, then the end
            self.assertEqual(c.conn.end(), (None, ""))
            state = c.hello([number])[number]
            self.assertEqual((state["state"], state["offset"]), ("IN_PROGRESS", 2 * SEGMENT))
            self.assertEqual(second.floats(second.open(f"once/{crc}"), SEGMENT)[0], 1.0)
            self.assertEqual(c.mutate("PUSH", v, payload, N, number=number, first=2 * SEGMENT).version, 1)
            got, version, exact = second.pull(second.open(f"once/{crc}"), 0, N)
            self.assertEqual((unpack_floats(got, N), version, exact), ([1.0] * N, 1, True))
            # HELLO says that it was applied; sent again it is answered again, and not applied again
            again = c.hello([number])[number]
            self.assertEqual((again["state"], again["version"]), ("APPLIED", 1))
            replay = c.mutate("PUSH", v, payload, N, number=number)
            self.assertEqual((replay.status, replay.version), ("OK", 1))
            self.assertEqual(second.floats(second.open(f"once/{crc}"), 1), [1.0])

    def test_how_long_it_took(self):
        c = self.client()
        v = self.variable(c, "times/w")
        for frame in c.frames("PUSH", number := c.number(), v, pack_floats([1.0] * N), N, most=1 << 16, times=True):
            c.conn.sock.sendall(frame)
        pushed = times_of(c.reply("PUSH", number, True).frame)
        self.assertGreater(pushed["apply_ns"], 0)
        self.assertEqual((pushed["wait_ns"], pushed["kernel_ns"]), (0, 0))
        self.assertIsNone(times_of(c.push(v, [1.0] * N).frame))
        c.send("PULL", 900, flags={"TIMES"}, handle=v["handle"], dtype=v["dtype"], meta=PAGE.pack("ps_pull_meta", elements=4))
        frame = c.reply("PULL", 900).frame
        self.assertIsNotNone(times_of(frame))
        self.assertEqual(unpack_floats(frame.payload, 4), [-2.0] * 4)

    def test_assign_add_abandon(self):
        c, second = self.client(), self.client()
        v = self.variable(c, "once/a", count=8)
        seen = second.open("once/a")
        self.assertEqual(c.mutate("ASSIGN", v, pack_floats(range(8)), 8).version, 1)
        self.assertEqual(second.floats(seen, 8), list(range(8)))
        kept = c.mutate("ASSIGN", v, pack_floats([9] * 8), 8, assign_flags=PAGE.numbers("assign_flags")["ASSIGN_INIT_ONLY"])
        self.assertEqual((kept.status, kept.version), ("OK", 1))
        bad = c.mutate("ASSIGN", v, pack_floats([9] * 8), 8, scale=0.0)
        self.assertEqual((bad.status, bad.applied), ("INVALID_ARGUMENT", 0))
        added = c.mutate("ADD", v, pack_floats([1] * 8), 8, scale=-1.0)
        self.assertEqual(unpack_floats(added.result, 8), [x - 1 for x in range(8)])
        big = self.variable(c, "once/torn")
        number = c.number()
        payload = pack_floats([-1.0] * N)
        c.conn.sock.sendall(next(c.frames("PUSH", number, big, payload, N, most=PAGE.limits["SEGMENT_BYTES"])))
        self.assertEqual(c.abandon(number), "ABANDONED")
        self.assertEqual(c.abandon(c.number()), "ABANDONED")  # never sent
        got, version, _ = second.pull(second.open("once/torn"), 0, N)
        self.assertEqual((unpack_floats(got, N), version), ([1.0] * SEGMENT + [0.0] * (N - SEGMENT), 1))
        staged = c.number()
        c.conn.sock.sendall(next(c.frames("ASSIGN", staged, big, payload, N, most=PAGE.limits["SEGMENT_BYTES"])))
        c.hello(abandoned=[staged])
        self.assertEqual(c.numbers[staged]["state"], "ABANDONED")
        self.assertEqual(second.pull(second.open("once/torn"), 0, 1)[1], 1)

    def test_a_waiting_request_is_joined(self):
        c, other = self.client(), self.client()
        v = self.variable(c, "once/wait", count=1)
        handles = [{"handle": v["handle"], "creation": v["creation"]}]
        number = c.start("WAIT", {"condition": SEALED}, handles)
        c.hello()
        self.assertEqual(c.start("WAIT", {"condition": SEALED}, handles, number=number), number)
        while not [w for w in other.ask("WAITS").items if w["session"] == c.session[:8]]:
            pass
        other.ask("SEAL", {}, handles)
        self.assertEqual(c.reply("WAIT", number).status, "OK")
        c.hello()  # the result is kept until ACK
        c.start("WAIT", {"condition": SEALED}, handles, number=number)
        self.assertEqual(c.reply("WAIT", number).status, "OK")
        c.acknowledge(number)


class Lists(Case):
    def test_lists_over_several_frames(self):
        c = self.client()
        items = [{"name": f"many/{i:05}{'x' * 200}", "dtype": PAGE.dtypes["I8"][0], "dims": [1], "job": "ps"} for i in range(1500)]
        number = c.start("CREATE", items=items, frames=700)
        reply = c.reply("CREATE", number)
        c.acknowledge(number)
        self.assertEqual((reply.status, len(reply.items)), ("OK", 1500))
        self.assertEqual(sorted(item["index"] for item in reply.items), list(range(1, 1501)))
        names = [v["name"] for v in c.ask("VARS").items if v["name"].startswith(b"many/")]
        self.assertEqual(len(names), 1500)
        self.assertEqual(names, sorted(names))
        self.assertGreater(len(c.ask("VARS").frame.payload), 0)

    def test_administration(self):
        c = self.client()
        self.assertEqual(c.ask("INFO").items[0]["job"], b"ps")
        self.assertIn(b"memory_budget", [row["name"] for row in c.ask("CONFIG").items])
        self.assertIn(c.session[:8], [row["session"] for row in c.ask("SESSIONS").items])
        self.assertEqual(len(c.ask("TASKS").items), 2)
        self.variable(c, "admin/w", count=1)
        self.assertIn(b"localhost", [row["container"] for row in c.ask("CONTAINERS").items])
        found = c.ask("FIND", items=[{"name": "admin/w"}, {"name": "admin/none"}]).items
        self.assertEqual([PAGE.status_names[item["status"]] for item in found], ["OK", "NOT_FOUND"])
        c.ask("DELETE", items=[{"name": "admin/w"}])
        self.assertEqual(c.open("admin/w")["status"], "NOT_FOUND")
        c.ask("RESET", items=[{"container": "other"}])
        with self.assertRaises(Refused) as refused:
            self.client(self.other).ask("CHIEF")
        self.assertIn("/job:ps/task:0", refused.exception.reply.text)
        self.assertEqual(refused.exception.reply.reason, "NOT_DIRECTORY")


class Forbidden(Case):
    """What a row of the page's table of operations does not have closes the connection, and CLOSE says which operation it was."""

    def closed(self, c, op, **wrong):
        c.hello()
        good = {"flags": set(PAGE.ops[op]["flags"].split()), "number": 0 if PAGE.ops[op]["id"] == "0" else 1}
        good.update(wrong)
        c.conn.send(op, good.pop("number"), **good)
        status, text = c.conn.end()
        self.assertEqual(status, "INVALID_ARGUMENT", f"{op} {wrong}")
        self.assertIn(op, text)
        return text

    def test_every_operation(self):
        c = Client(self.address)
        self.addCleanup(c.close)
        for op, row in PAGE.ops.items():
            if not row["way"].startswith("client") or op == "HELLO":
                continue
            have = set(row["flags"].split())
            asks = row["good reply"] != "none" and "FIRST" not in row["may have"]  # of parts only the first one may ask for times
            for flag in set(PAGE.flags) - have - set(row["may have"].split()) - {"CRC", "REPLY", "VALUE"} - ({"TIMES"} if asks else set()):
                self.assertIn(flag, self.closed(c, op, flags=have | {flag}))
            for flag in have:
                self.assertIn(flag, self.closed(c, op, flags=have - {flag}))
            for field in {"handle", "dtype", "offset"} - set(row["fields"].split()):
                self.closed(c, op, **{field: 1})
            if not row["meta"]:
                self.closed(c, op, meta=bytes(8))
            if not row["body"]:
                self.closed(c, op, payload=bytes(8))
            if "SEQ" not in have:
                self.closed(c, op, number=0)

    def test_reserved_bits(self):
        c = self.client()
        for flags in (32, 3, 5, 6, 12, 24):  # one that there is not; those that exclude each other
            self.assertIn("assign flags", self.closed(c, "ASSIGN", flags={"SEQ", "FIRST", "LAST"},
                                                      meta=PAGE.pack("ps_push_meta", total_elements=1, scale=1.0, assign_flags=flags)))
        self.assertIn("continuation", self.closed(c, "PUSH", flags={"SEQ"}, meta=PAGE.pack("ps_push_meta", scale=1.0)))

    def refuses(self, text, reason="INVALID_ARGUMENT", **hello):
        c = Client(self.address)
        self.addCleanup(c.close)
        with self.assertRaises(Refused) as refused:
            c.hello(**hello)
        self.assertEqual(refused.exception.reply.status, "INVALID_ARGUMENT")
        self.assertEqual(refused.exception.reply.reason, reason)
        self.assertIn(text, refused.exception.reply.text)

    def test_features(self):
        c = Client(self.address)
        self.addCleanup(c.close)
        known = sum(PAGE.features.values())
        for offered, needed in ((known, known), (0, 0), (1 << 63 | known, 0), (1 << 63, known)):
            c.hello(features=offered, needs=needed)
            self.assertEqual(c.answer["features"], offered & known)  # what both have; bits of a newer version are ignored
            self.assertEqual(c.answer["needs"], 0)
        with self.assertRaises(Refused) as refused:
            c.hello(features=1 << 63 | known, needs=1 << 63)
        self.assertEqual((refused.exception.reply.status, refused.exception.reply.reason), ("UNIMPLEMENTED", "FEATURE"))

    def test_hello_is_refused_by_name(self):
        self.refuses("VERSION", reason="VERSION", protocol=2)
        self.refuses("role 2", role=2)
        self.refuses("zero bytes", session=bytes(Client.bound("Hello", "session")))

    def test_gap_and_frame(self):
        c = self.client()
        v = self.variable(c, "bad/w", count=4)
        *_, last = c.frames("PUSH", 9, v, pack_floats([1.0] * 4), 4)
        c.conn.sock.sendall(last)
        self.assertEqual(c.reply("PUSH", 9, True).status, "OK")
        c.conn.send("PUSH", 10, flags={"SEQ", "LAST"}, handle=v["handle"], dtype=v["dtype"], payload=bytes(16))
        status, text = c.conn.end()
        self.assertEqual((status, text.split(":")[0]), ("FAILED_PRECONDITION", "GAP"))
        for bad in (dict(reserved0=1), dict(body_bytes=1 << 30), dict(meta_bytes=4), dict(crc=1)):
            c.hello()
            c.conn.send("BEAT", 1, **bad)
            self.assertEqual(c.conn.end()[0], "INVALID_ARGUMENT")
        c.hello()
        c.conn.send("BEAT", 1, magic=1)
        self.assertEqual(c.conn.end(), (None, ""))  # bytes of ours would mean nothing there
        with self.assertRaises(Closed):
            c.conn.receive()

    def test_what_still_comes_is_read(self):
        """CLOSE arrives although the peer goes on sending: no reset behind it."""
        c = self.client()
        c.conn.sock.sendall(frame_bytes("INFO", 1, flags={"FIRST"}) + bytes(4 << 20))
        self.assertEqual(c.conn.end()[0], "INVALID_ARGUMENT")

    def test_before_hello(self):
        conn = Conn(self.address)
        self.addCleanup(conn.close)
        conn.send("INFO", 1)
        self.assertIn("before HELLO", conn.end()[1])

    def test_unknown_operation(self):
        c = self.client()
        unknown = max(PAGE.op_names) + 1
        c.conn.send(unknown, 5, payload=b"x" * 100)
        self.assertEqual(c.reply(unknown, 5).status, "UNIMPLEMENTED")
        self.assertEqual(c.ask("BEAT").status, "OK")  # in step

    def test_messages_that_are_none(self):
        c = self.client()
        c.send("BEAT", 77, meta=b"\x08" + b"\xff" * 11)
        self.assertEqual(c.reply("BEAT", 77).status, "INVALID_ARGUMENT")
        long = encode("Wait", {"timeout_ms": 1})
        c.send("WAIT", 78, meta=long, payload=b"\x0d\x08" + b"\xff" * 14)
        self.assertEqual(c.reply("WAIT", 78).status, "INVALID_ARGUMENT")


def uniform(low, high, seed, name, element):
    """UNIFORM in float32 as §3 says; low, high and their difference are exact there."""
    h = 0xCBF29CE484222325
    for byte in name:
        h = (h ^ byte) * 0x100000001B3 % 2**64
    mask = 2**32 - 1
    c = [element & mask, element >> 32, h & mask, h >> 32]
    key = [seed & mask, seed >> 32]
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [b >> 32 ^ c[1] ^ key[0], b & mask, a >> 32 ^ c[3] ^ key[1], a & mask]
        key = [(key[0] + 0x9E3779B9) & mask, (key[1] + 0xBB67AE85) & mask]
    fraction = (c[1] << 32 | c[0]) >> 40
    return unpack_floats(pack_floats([low + (high - low) * fraction / 2**24]), 1)[0]


if __name__ == "__main__":
    sys.exit(main(unittest))
