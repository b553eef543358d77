#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""A reader of psd's frames, written from docs/PROTOCOL.md and proto/control.proto alone: its own CRC32C, varints and segments, only
the standard library. Reads tests/golden/frames/*.hex, checks that each means what it should, and with -v prints what it says.

  read_frames.py [-v] DIRECTORY
"""
import os
import struct
import sys

SEGMENT = 65536
FLAGS = {1: "CRC", 2: "FIRST", 4: "LAST", 8: "SEQ", 16: "REPLY", 32: "MORE", 64: "VALUE"}
OPS = {1: "HELLO", 2: "GOODBYE", 3: "BEAT", 4: "ABANDON", 16: "PUSH", 17: "PULL", 18: "PUSHPULL", 19: "ASSIGN", 20: "ADD",
       32: "OPEN", 33: "INIT", 48: "CREATE", 68: "SESSIONS", 69: "WAITS", 70: "CONTAINERS",
       71: "CONFIG_SET", 72: "STOP", 73: "TASKS"}
HOT = range(16, 21)
# message: field number -> (name, type); u varint, i varint as int64, b bytes, d double, m message, * repeated (packed or not)
OPTIMIZER = {1: ("kind", "u"), 2: ("nesterov", "u"), 3: ("learning_rate", "d"), 4: ("momentum", "d"), 5: ("initial_accumulator", "d"),
             6: ("beta1", "d"), 7: ("beta2", "d"), 8: ("epsilon", "d")}
HELLO = {1: ("protocol", "u"), 2: ("role", "u"), 3: ("session", "b"), 4: ("connection", "u"), 5: ("next_number", "u"),
         6: ("record", "u"), 7: ("believed_job", "b"), 8: ("believed_task", "u"), 9: ("cluster_hash", "u"), 10: ("job", "b"),
         11: ("task", "u"), 12: ("host", "b"), 13: ("pid", "u"), 14: ("life", "u"), 15: ("chief_number", "u"),
         16: ("fenced", "u"), 17: ("program", "b")}
UNRESOLVED = {1: ("number", "u"), 2: ("abandoned", "u")}
HELLO_ANSWER = {1: ("protocol", "u"), 2: ("job", "b"), 3: ("task", "u"), 4: ("life", "u"), 5: ("record", "u"), 6: ("durable", "u"),
                7: ("window", "u"), 8: ("task_count", "u"), 9: ("number_count", "u"), 10: ("directory_job", "b"),
                11: ("directory_task", "u"), 12: ("cluster_name", "b"), 13: ("version", "b"), 14: ("lease_ms", "u"),
                15: ("beat_ms", "u")}
TASK = {1: ("job", "b"), 2: ("task", "u"), 3: ("address", "b")}
NUMBER = {1: ("number", "u"), 2: ("state", "u"), 3: ("offset", "u"), 4: ("position", "u"), 5: ("version", "u"), 6: ("result", "b"),
          7: ("status", "u"), 8: ("applied", "u"), 9: ("text", "b"), 10: ("incarnation", "u")}
CREATE = {1: ("container", "b"), 2: ("name", "b"), 3: ("dtype", "u"), 4: ("dims", "*"), 5: ("optimizer", "m"), 6: ("job", "b"),
          7: ("task", "u"), 8: ("pinned", "u"), 9: ("atomic", "u")}
CREATE_ANSWER = {1: ("index", "u"), 2: ("status", "u"), 3: ("text", "b"), 4: ("job", "b"), 5: ("task", "u"), 6: ("created", "u"),
                 7: ("retry_after_ms", "u")}
NAME = {1: ("container", "b"), 2: ("name", "b")}
OPEN_ANSWER = {1: ("index", "u"), 2: ("status", "u"), 3: ("text", "b"), 4: ("handle", "u"), 5: ("incarnation", "u"),
               6: ("creation", "u"), 7: ("dtype", "u"), 8: ("dims", "*"), 9: ("optimizer", "m"), 10: ("version", "u"),
               11: ("initialised", "u"), 12: ("sealed", "u"), 13: ("restored", "u"), 14: ("seed", "u"), 15: ("init_kind", "u"),
               16: ("init_a", "d"), 17: ("init_b", "d"), 18: ("chief_number", "u"), 19: ("atomic", "u"), 20: ("giver", "b")}
INIT = {1: ("kind", "u"), 2: ("a", "d"), 3: ("b", "d"), 4: ("seed", "u"), 5: ("chief_number", "u"), 6: ("force", "u"),
        7: ("optimizer", "m")}
BEAT = {1: ("global_step", "u")}
BEAT_ANSWER = {1: ("flags", "u"), 2: ("chief_number", "u")}

SESSION_ANSWER = {1: ("session", "b"), 2: ("job", "b"), 3: ("task", "u"), 4: ("host", "b"), 5: ("pid", "u"), 6: ("program", "b"),
                  7: ("connected", "u"), 8: ("heard_ms", "u"), 9: ("age_ms", "u"), 10: ("global_step", "u"),
                  11: ("steps_per_second", "d"), 12: ("waits", "u"), 13: ("in_progress", "u"), 14: ("stopping", "u"),
                  15: ("held_bytes", "u")}
WAIT_ANSWER = {1: ("session", "b"), 2: ("job", "b"), 3: ("task", "u"), 4: ("host", "b"), 5: ("pid", "u"), 6: ("program", "b"),
               7: ("op", "u"), 8: ("what", "b"), 9: ("since_ms", "u"), 10: ("left_ms", "u"), 11: ("release", "b")}
CONTAINER_ANSWER = {1: ("container", "b"), 2: ("incarnation", "u"), 3: ("variables", "u"), 4: ("initialised", "u"), 5: ("bytes", "u"),
                    6: ("names", "u")}
TASK_ANSWER = {1: ("job", "b"), 2: ("task", "u"), 3: ("address", "b"), 4: ("connected", "u"), 5: ("heard", "u"),
               6: ("missing_ms", "u"), 7: ("life", "u"), 8: ("host", "b"), 9: ("pid", "u"), 10: ("conflict", "b"),
               11: ("restarts", "u"), 12: ("lost", "u"), 13: ("lost_names", "b")}
STOP_ANSWER = {1: ("sessions", "u")}
CONFIG_ITEM = {1: ("name", "b"), 2: ("value", "b")}


class Bad(Exception):
    pass


def check(condition, what):
    if not condition:
        raise Bad(what)


def crc32c_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


TABLE = crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def fnv1a64(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return h


# ---- protobuf ----

def varint(data, at):
    value = shift = 0
    while True:
        check(at < len(data) and shift < 70, "varint without an end")
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value % 2**64, at
        shift += 7


def message(fields, data):
    out = {}
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag == 0:  # padding of a meta
            check(not any(data[at:]) and len(data) - at < 8, "bytes after a message's end")
            break
        name, kind = fields.get(tag >> 3, (None, None))
        check(name is not None, f"field {tag >> 3} is not in control.proto")
        wire = tag & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 1:
            check(at + 8 <= len(data), "a field past the end")
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        else:
            check(wire == 2, f"wire type {wire}")
            length, at = varint(data, at)
            check(at + length <= len(data), "a field past the end")
            value, at = data[at:at + length], at + length
        check(wire == {"u": 0, "d": 1, "b": 2, "m": 2}.get(kind, wire), f"{name}: wire type {wire}")
        if kind == "m":
            value = message(OPTIMIZER, value)
        if kind == "*":
            values = [value]
            if wire == 2:
                values, inner = [], 0
                while inner < len(value):
                    one, inner = varint(value, inner)
                    values.append(one)
            out.setdefault(name, []).extend(v - 2**64 if v >= 2**63 else v for v in values)
        else:
            out[name] = value
    return out


def items(payload, *kinds):
    """The messages of a control list: the n-th is of kinds[n], all further ones of the last kind."""
    out = []
    at = 0
    while at < len(payload):
        length, at = varint(payload, at)
        if length == 0:
            check(not any(payload[at:]) and len(payload) - at < 8, "bytes after a list's end")
            break
        check(at + length <= len(payload), "an item past the end of its list")
        out.append(message(kinds[min(len(out), len(kinds) - 1)], payload[at:at + length]))
        at += length
    return out


# ---- frames ----

class Frame:
    """One frame at the start of data."""

    def __init__(self, data):
        check(len(data) >= 40, "shorter than a header")
        (magic, version, self.op, self.dtype, reserved0, flags, self.id, self.handle, body_bytes, self.offset, meta_bytes, reserved1,
         crc) = struct.unpack_from("<HBBBBHQIIQHHI", data)
        check(magic == 0x7350 and version == 1, "magic or version")
        check(reserved0 == 0 and reserved1 == 0 and flags < 128, "reserved fields")
        check(meta_bytes <= 1024 and meta_bytes % 8 == 0 and body_bytes % 8 == 0, "lengths")
        self.flags = {name for bit, name in FLAGS.items() if flags & bit}
        self.bytes = 40 + meta_bytes + body_bytes
        check(len(data) >= self.bytes, "shorter than it says")
        self.meta = data[40:40 + meta_bytes]
        check(crc == crc32c(data[:36] + self.meta), "CRC of header and meta")
        body = data[40 + meta_bytes:self.bytes]
        self.trailer = None
        if "VALUE" in self.flags or (self.op == 17 and "REPLY" in self.flags and self.offset == 0):
            check(len(body) >= 16, "no trailer")
            version, in_progress, crc = struct.unpack("<QII", body[-16:])
            check(crc == (crc32c(body[-16:-4]) if "CRC" in self.flags else 0), "CRC of the trailer")
            self.trailer = {"version": version, "in_progress": in_progress}
            body = body[:-16]
        self.segments = []
        tail = 8 if "CRC" in self.flags else 0
        while body:
            piece, body = body[:SEGMENT + tail], body[SEGMENT + tail:]
            if tail:
                check(len(piece) > 8, "an empty segment")
                crc, zero = struct.unpack("<II", piece[-8:])
                piece = piece[:-8]
                check(zero == 0 and crc == crc32c(piece), "CRC of a segment")
            self.segments.append(piece)
        self.payload = b"".join(self.segments)
        most = 4 << 20 if self.op in HOT else 256 << 10
        check(len(self.payload) <= most, "too much payload")

    def push_meta(self):
        total, scale, assign = struct.unpack("<QfI", self.meta)
        return {"total": total, "scale": scale, "assign": assign}

    def pull_reply_meta(self):
        version, durable, in_progress, reserved = struct.unpack("<QQII", self.meta)
        check(reserved == 0, "reserved field of a pull reply")
        return {"version": version, "durable": durable, "in_progress": in_progress}

    def reply_meta(self):
        position, durable, version, result_bytes, text_bytes, applied = struct.unpack_from("<QQQHHB", self.meta)
        retry = struct.unpack_from("<I", self.meta, 32)[0]
        at = 40
        result = self.meta[at:at + result_bytes]
        at += (result_bytes + 7) // 8 * 8
        text = self.meta[at:at + text_bytes].decode()
        check(at + (text_bytes + 7) // 8 * 8 == len(self.meta), "lengths in a reply's meta")
        return {"status": self.offset, "position": position, "durable": durable, "version": version, "result": result, "text": text,
                "applied": applied, "retry_after_ms": retry}

    def floats(self, count):
        return list(struct.unpack_from(f"<{count}f", self.payload))

    def __str__(self):
        return (f"{OPS.get(self.op, self.op)} {'|'.join(sorted(self.flags)) or '-'} id={self.id} handle={self.handle} "
                f"offset={self.offset} meta={len(self.meta)} payload={len(self.payload)} segments={len(self.segments)}")


def read_hex(path):
    data = bytearray()
    with open(path, encoding="ascii") as text:
        for line in text:
            for word in line.partition("#")[0].split():
                digits, _, count = word.partition("*")
                data += bytes.fromhex(digits) * int(count or 1)
    return bytes(data)


def frames_of(data):
    out = []
    while data:
        out.append(Frame(data))
        data = data[out[-1].bytes:]
    return out


# ---- what each file means ----

def same(have, **want):
    for name, value in want.items():
        check(have.get(name) == value, f"{name} is {have.get(name)!r}, not {value!r}")


def is_frame(frame, op, flags, **want):
    check(OPS[frame.op] == op and frame.flags == set(flags.split()), f"is {frame}")
    for name, value in want.items():
        check(getattr(frame, name) == value, f"{name} is {getattr(frame, name)!r}, not {value!r}")


def hello(f):
    is_frame(f, "HELLO", "CRC", id=0)
    same(message(HELLO, f.meta), protocol=1, session=bytes(range(16)), connection=7, next_number=300, record=0x1122334455667788,
         believed_job=b"ps", believed_task=1, job=b"worker", task=2, host=b"host.example", pid=4711, program=b"pstrain",
         cluster_hash=fnv1a64(b"psd" + b"\0" + struct.pack("<I", 2)))
    check(items(f.payload, UNRESOLVED) == [{"number": 297}, {"number": 299, "abandoned": 1}], "unresolved numbers")


def hello_answer(f):
    is_frame(f, "HELLO", "CRC REPLY", id=0)
    same(f.reply_meta(), status=0, text="")
    answer, *rest = items(f.payload, HELLO_ANSWER, TASK, TASK, NUMBER)
    same(answer, protocol=1, job=b"ps", task=1, life=0xFEDCBA9876543210, record=0x1122334455667788, durable=41, window=256,
         task_count=2, number_count=2, directory_job=b"ps", cluster_name=b"psd", version=b"0.1.0", lease_ms=10000, beat_ms=2500)
    same(rest[0], job=b"ps", address=b"127.0.0.1:2222")
    same(rest[1], job=b"ps", task=1, address=b"127.0.0.1:2223")
    same(rest[2], number=297, state=3, offset=32768, incarnation=99)
    same(rest[3], number=299, state=2, status=3, applied=1, text=b"gradient of 'w': element 7 is NaN or infinite")


def open_(f):
    is_frame(f, "OPEN", "CRC", id=12)
    check(items(f.payload, NAME) == [{"name": b"layer_1/w"}, {"container": b"localhost", "name": b"b"}], "names")


def open_answer(f):
    is_frame(f, "OPEN", "CRC REPLY", id=12)
    first, second = items(f.payload, OPEN_ANSWER)
    same(first, index=1, handle=5, incarnation=99, creation=2**63 + 1, dtype=1, dims=[64, 10], version=1876, initialised=1, sealed=1,
         seed=42, init_kind=6, chief_number=3, giver=b"\x01giver!\xff", optimizer={"kind": 3, "learning_rate": 0.05, "initial_accumulator": 0.1})
    same(second, index=2, status=5, text=b"/job:ps/task:0 has no variable 'b'")


def create_more(f):
    is_frame(f, "CREATE", "CRC MORE", id=13)
    (item,) = items(f.payload, CREATE)
    same(item, name=b"layer_1/w", dtype=1, dims=[64, 10], job=b"ps", task=1, pinned=1,
         optimizer={"kind": 4, "learning_rate": 0.002, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8})


def create_answer(f):
    is_frame(f, "CREATE", "CRC REPLY")
    same(f.reply_meta(), status=0)
    (answer,) = items(f.payload, CREATE_ANSWER)
    same(answer, index=1, status=3)
    check(b"'w'" in answer["text"] and b"float64" in answer["text"] and b"float32" in answer["text"], "text of a conflict")


def init(f):
    is_frame(f, "INIT", "CRC SEQ FIRST LAST", id=14, handle=5, payload=b"")
    same(message(INIT, f.meta), kind=4, a=-0.5, b=0.5, seed=42, chief_number=3,
         optimizer={"kind": 2, "nesterov": 1, "learning_rate": 0.01, "momentum": 0.9})


def beat(f):
    is_frame(f, "BEAT", "CRC", id=15)
    same(message(BEAT, f.meta), global_step=1876)


def beat_answer(f):
    is_frame(f, "BEAT", "CRC REPLY", id=15)
    check(items(f.payload, BEAT_ANSWER) == [{"flags": 3, "chief_number": 3}], "answer")


def push_two_segments(f):
    is_frame(f, "PUSH", "CRC SEQ FIRST LAST", id=16, handle=5, dtype=1, offset=0)
    same(f.push_meta(), total=16388, scale=0.25, assign=0)
    check([len(s) for s in f.segments] == [65536, 16], "segments")
    check(f.floats(16388) == [1.0] * 16388, "values")


def push_reply(f):
    is_frame(f, "PUSH", "SEQ REPLY", id=3)
    same(f.reply_meta(), status=0, position=3, version=1, applied=0, result=b"", text="")


def push_refused(f):
    is_frame(f, "PUSH", "SEQ REPLY", id=3)
    same(f.reply_meta(), status=3, position=0, version=0, applied=0)
    check("'w'" in f.reply_meta()["text"] and "scale" in f.reply_meta()["text"], "text of a refusal")


def pushpull_reply(value, last):
    is_frame(value, "PUSHPULL", "CRC SEQ REPLY VALUE", id=3, dtype=1, offset=0)
    same(value.pull_reply_meta(), version=1, in_progress=0)
    same(value.trailer, version=1, in_progress=0)
    check(value.floats(3) == [-1.0, -2.0, -3.0], "values")
    is_frame(last, "PUSHPULL", "SEQ REPLY", id=3, trailer=None)
    same(last.reply_meta(), status=0, position=3, version=1)


def assign_plain(f):
    is_frame(f, "ASSIGN", "SEQ FIRST LAST", id=17, handle=6, dtype=1)
    same(f.push_meta(), total=3, scale=1.0, assign=1)
    check(f.floats(3) == [1.0, -2.0, 0.5] and f.payload[12:] == bytes(4), "values and padding")


def add_reply(f):
    is_frame(f, "ADD", "SEQ REPLY", id=3)
    same(f.reply_meta(), status=0, position=3, version=1, result=struct.pack("<q", 42))


def pull(f):
    is_frame(f, "PULL", "CRC", id=18, handle=5, dtype=1, offset=32768, payload=b"")
    check(struct.unpack("<II", f.meta) == (16384, 0), "elements")


def pull_reply(with_crc, plain):
    is_frame(with_crc, "PULL", "CRC REPLY", dtype=4, offset=0)
    same(with_crc.pull_reply_meta(), version=0, in_progress=0)
    check(with_crc.payload == struct.pack("<q", 41), "value")
    same(with_crc.trailer, version=0, in_progress=0)
    is_frame(plain, "PULL", "REPLY", dtype=1, offset=0)
    check(plain.floats(3) == [0.0, 0.0, 0.0] and len(plain.payload) == 16, "values and padding")


def pull_refused(f):
    is_frame(f, "PULL", "REPLY", trailer=None)
    same(f.reply_meta(), status=10)
    check("77" in f.reply_meta()["text"], "text of a refusal")


def abandon_reply(f):
    is_frame(f, "ABANDON", "SEQ REPLY", id=200)
    same(f.reply_meta(), status=0, result=bytes([4]))


def sessions_answer(f):
    is_frame(f, "SESSIONS", "CRC REPLY", id=21)
    same(f.reply_meta(), status=0)
    psctl, worker = items(f.payload, SESSION_ANSWER)
    check(psctl == {"session": bytes(range(8)), "host": b"host.example", "pid": 4711, "program": b"psctl", "connected": 1,
                    "age_ms": 5000}, "a session without a task that has said no step")
    check(worker == {"session": bytes(range(8)), "job": b"worker", "task": 2, "host": b"host.example", "pid": 4711,
                     "program": b"pstrain", "heard_ms": 1200, "age_ms": 5000, "global_step": 1876, "steps_per_second": 12.5,
                     "waits": 1, "in_progress": 2, "stopping": 1, "held_bytes": 65536}, "a worker at step 1875")


def waits_answer(f):
    is_frame(f, "WAITS", "CRC REPLY", id=22)
    (wait,) = items(f.payload, WAIT_ANSWER)
    check(wait == {"session": bytes(range(8)), "job": b"worker", "task": 2, "host": b"host.example", "pid": 4711,
                   "program": b"pstrain", "op": 35, "what": b"sealed: w, b", "since_ms": 12000, "left_ms": 588000,
                   "release": b"the chief seals w, b; no chief is connected"}, "wait")


def containers_answer(f):
    is_frame(f, "CONTAINERS", "CRC REPLY", id=23)
    check(items(f.payload, CONTAINER_ANSWER) == [
        {"container": b"empty", "incarnation": 98},
        {"container": b"localhost", "incarnation": 99, "variables": 3, "initialised": 2, "bytes": 2**33}], "containers")


def tasks_answer(f):
    is_frame(f, "TASKS", "CRC REPLY", id=24)
    check(items(f.payload, TASK_ANSWER) == [
        {"job": b"ps", "address": b"127.0.0.1:2222", "connected": 1, "heard": 1, "life": 0xFEDCBA9876543210, "host": b"host.example",
         "pid": 4711},
        {"job": b"ps", "task": 1, "address": b"127.0.0.1:2223", "missing_ms": 3000, "conflict": b"pid 4712 at host.example",
         "restarts": 3, "lost": 2, "lost_names": b"b, w"}], "tasks")


def stop_answer(f):
    is_frame(f, "STOP", "CRC REPLY", id=25)
    check(items(f.payload, STOP_ANSWER) == [{"sessions": 4}], "sessions told")


def config_set(f):
    is_frame(f, "CONFIG_SET", "CRC", id=26)
    check(items(f.payload, CONFIG_ITEM) == [{"name": b"session_keep", "value": b"1h"}], "setting")


def bfloat16(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def strings_of(payload, count):
    """The blob of a string variable: i64 offsets, then bytes; every offset is looked at before it is used."""
    offsets = struct.unpack_from(f"<{count + 1}q", payload)
    check(offsets[0] == 0 and list(offsets) == sorted(offsets), "offsets of strings")
    end = 8 * (count + 1) + offsets[-1]
    check(end <= len(payload) < end + 8 and not any(payload[end:]), "bytes behind the strings")
    text = payload[8 * (count + 1):end]
    return [text[a:b] for a, b in zip(offsets, offsets[1:])]


def push_bf16(f):
    is_frame(f, "PUSH", "CRC SEQ FIRST LAST", id=31, handle=5, dtype=7, offset=0)
    same(f.push_meta(), total=4, scale=1.0, assign=0)
    check([bfloat16(bits) for bits in struct.unpack("<4H", f.payload)] == [1.0, -2.0, 0.5, 1.0], "values")


def pull_narrow_reply(bf16, f16):
    is_frame(bf16, "PULL", "CRC REPLY", dtype=7, offset=0)
    check([bfloat16(bits) for bits in struct.unpack("<3H", bf16.payload[:6])] == [0.333984375, -1000.0, 0.0], "values")
    check(bf16.payload[6:] == bytes(2), "padding")
    same(bf16.trailer, version=1, in_progress=0)
    is_frame(f16, "PULL", "REPLY", dtype=6, offset=0)
    check(struct.unpack("<3e", f16.payload[:6]) == (0.333251953125, -1000.5, 0.0) and f16.payload[6:] == bytes(2), "values")
    same(f16.trailer, version=1, in_progress=0)


STRINGS = [b"alpha", b"", b"x\0y"]


def strings_assign(f):
    is_frame(f, "ASSIGN", "CRC SEQ FIRST LAST", id=32, handle=6, dtype=10, offset=0)
    same(f.push_meta(), total=40, scale=1.0, assign=0)
    check(strings_of(f.payload, 3) == STRINGS, "strings")


def strings_pull(f):
    is_frame(f, "PULL", "CRC", id=33, handle=6, dtype=10, offset=0, payload=b"")
    check(struct.unpack("<II", f.meta) == (0, 0), "elements")


def strings_pull_reply(f):
    is_frame(f, "PULL", "CRC REPLY", dtype=10, offset=0)
    check(strings_of(f.payload, 3) == STRINGS, "strings")
    same(f.trailer, version=0, in_progress=0)


def create_atomic(f):
    is_frame(f, "CREATE", "CRC", id=34)
    (item,) = items(f.payload, CREATE)
    same(item, name=b"table", dtype=1, dims=[1000], job=b"ps", atomic=1, optimizer={"kind": 1, "learning_rate": 0.5})


MEANINGS = {"hello": hello, "hello_answer": hello_answer, "open": open_, "open_answer": open_answer, "create_more": create_more,
            "create_answer": create_answer, "init": init, "beat": beat, "beat_answer": beat_answer,
            "push_two_segments": push_two_segments, "push_reply": push_reply, "push_refused": push_refused,
            "pushpull_reply": pushpull_reply, "assign_plain": assign_plain, "add_reply": add_reply, "pull": pull,
            "pull_reply": pull_reply, "pull_refused": pull_refused, "abandon_reply": abandon_reply,
            "sessions_answer": sessions_answer, "waits_answer": waits_answer, "containers_answer": containers_answer,
            "tasks_answer": tasks_answer, "stop_answer": stop_answer, "config_set": config_set, "push_bf16": push_bf16,
            "pull_narrow_reply": pull_narrow_reply, "strings_assign": strings_assign, "strings_pull": strings_pull,
            "strings_pull_reply": strings_pull_reply, "create_atomic": create_atomic}


def main():
    verbose = "-v" in sys.argv[1:]
    directory = [a for a in sys.argv[1:] if a != "-v"][0]
    check(crc32c(b"123456789") == 0xE3069283, "our own CRC32C")
    names = sorted(name[:-4] for name in os.listdir(directory) if name.endswith(".hex"))
    problems = [f"{name}: nobody knows what it means" for name in names if name not in MEANINGS]
    problems += [f"{name}: no such file" for name in MEANINGS if name not in names]
    for name in names:
        data = read_hex(os.path.join(directory, name + ".hex"))
        try:
            frames = frames_of(data)
            if verbose:
                print(name + ":", *frames, sep="\n  ")
            MEANINGS.get(name, lambda *_: None)(*frames)
        except (Bad, struct.error, UnicodeDecodeError) as error:
            problems.append(f"{name}: {error}")
        for at in (0, 36, len(data) - 1 if name != "assign_plain" else 8):  # the reader does notice
            broken = bytearray(data)
            broken[at] ^= 1
            try:
                MEANINGS.get(name, lambda *_: None)(*frames_of(bytes(broken)))
                problems.append(f"{name}: byte {at} is changed, and nothing is wrong")
            except (Bad, struct.error, UnicodeDecodeError):
                pass
    for problem in problems:
        print(problem)
    print(f"{len(names)} files of frames, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
