#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""A reader of psd's frames, from docs/PROTOCOL.md alone: numbers, layouts and messages out of its tables (tests/lib/pyclient.py), only
the standard library. Reads tests/golden/frames/*.hex, checks that each means what it should, and with -v prints what it says.

  read_frames.py [-v] DIRECTORY
"""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from pyclient import PAGE, crc32c

SEGMENT = PAGE.limits["SEGMENT_BYTES"]
HEADER = PAGE.size("ps_frame_header")
TRAILER = PAGE.size("ps_pull_trailer")
OPS = PAGE.op_names
HOT = [number for number, name in OPS.items() if PAGE.ops[name]["body"] in ("values", "rows") or PAGE.ops[name]["good reply"] == "values"]


class Bad(Exception):
    pass


def check(condition, what):
    if not condition:
        raise Bad(what)


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


def message(name, data):
    """The fields of the page's message of that name that stand in data."""
    fields = PAGE.messages[name]
    out = {}
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag == 0:  # padding of a meta
            check(not any(data[at:]) and len(data) - at < 8, "bytes after a message's end")
            break
        name, kind = fields.get(tag >> 3, (None, None))
        check(name is not None, f"field {tag >> 3} is not on the page")
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
        nested, repeated = kind[-1] in PAGE.messages, kind[0] == "repeated"
        want = 1 if kind[-1] == "double" else 2 if kind[-1] == "bytes" or nested else 0
        check(wire == want or (repeated and wire == 2), f"{name}: wire type {wire}")
        if nested:
            value = message(kind[-1], value)
        if repeated:
            values = [value]
            if nested:
                out.setdefault(name, []).append(value)
                continue
            if kind[-1] == "double":
                out.setdefault(name, []).extend(struct.unpack(f"<{len(value) // 8}d", value) if wire == 2 else values)
                continue
            if wire == 2:
                values, inner = [], 0
                while inner < len(value):
                    one, inner = varint(value, inner)
                    values.append(one)
            out.setdefault(name, []).extend(v - 2**64 if v >= 2**63 else v for v in values)
        else:
            out[name] = value if kind[-1] != "sint64" else value >> 1 ^ -(value & 1)
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
        check(len(data) >= HEADER, "shorter than a header")
        h = PAGE.unpack("ps_frame_header", data)
        self.op, self.dtype, self.id, self.handle, self.offset = (h[name] for name in ("op", "dtype", "id", "handle", "offset"))
        flags, meta_bytes, body_bytes = h["flags"], h["meta_bytes"], h["body_bytes"]
        check(h["magic"] == PAGE.limits["FRAME_MAGIC"] and h["version"] == PAGE.limits["FRAME_VERSION"], "magic or version")
        check(h["reserved0"] == h["reserved1"] == flags >> len(PAGE.flags) == 0, "reserved fields")
        check(meta_bytes <= PAGE.limits["META_BYTES_MAX"] and meta_bytes % 8 == 0 and body_bytes % 8 == 0, "lengths")
        self.flags = {name for name, bit in PAGE.flags.items() if flags & bit}
        self.bytes = HEADER + meta_bytes + body_bytes
        check(len(data) >= self.bytes, "shorter than it says")
        self.meta = data[HEADER:HEADER + meta_bytes]
        check(h["crc"] == crc32c(data[:HEADER - 4] + self.meta), "CRC of header and meta")
        body = data[HEADER + meta_bytes:self.bytes]
        self.trailer = None
        if "VALUE" in self.flags or (OPS.get(self.op) in ("PULL", "GATHER") and "REPLY" in self.flags and self.offset == 0):
            check(len(body) >= TRAILER, "no trailer")
            body, tail = body[:-TRAILER], body[-TRAILER:]
            self.trailer = PAGE.unpack("ps_pull_trailer", tail)
            check(self.trailer.pop("crc") == (crc32c(tail[:-4]) if "CRC" in self.flags else 0), "CRC of the trailer")
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
        most = PAGE.limits["FRAME_BODY_MAX" if self.op in HOT else "CONTROL_BODY_MAX"]
        check(len(self.payload) <= most, "too much payload")

    def fixed(self, name):
        """The structure at the start of the meta; what is reserved in it is 0."""
        values = PAGE.unpack(name, self.meta)
        check(not any(any(v) if isinstance(v, bytes) else v for n, v in values.items() if n.startswith("reserved")), "reserved of a meta")
        return values

    def push_meta(self):
        m = self.fixed("ps_push_meta")
        return {"total": m["total_elements"], "scale": m["scale"], "assign": m["assign_flags"], "version": m["version"]}

    def pull_reply_meta(self):
        return self.fixed("ps_pull_reply_meta")

    def reply_meta(self):
        m = self.fixed("ps_reply_meta")
        at = PAGE.size("ps_reply_meta")
        result = self.meta[at:at + m["result_bytes"]]
        at += (len(result) + 7) // 8 * 8
        text = self.meta[at:at + m["text_bytes"]].decode()
        at += (m["text_bytes"] + 7) // 8 * 8
        check(at + (PAGE.size("ps_times") if "TIMES" in self.flags else 0) == len(self.meta), "lengths in a reply's meta")
        return {**m, "status": self.offset, "result": result, "text": text}

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


def hello(f, **more):
    is_frame(f, "HELLO", "CRC", id=0)
    same(message("Hello", f.meta), **more, protocol=1, features=1, session=bytes(range(16)), connection=7, next_number=300, record=0x1122334455667788,
         believed_job=b"ps", believed_task=1, job=b"worker", task=2, host=b"host.example", pid=4711, program=b"pstrain",
         cluster_hash=fnv1a64(b"psd" + b"\0" + struct.pack("<I", 2)))
    check(items(f.payload, "UnresolvedItem") == [{"number": 297}, {"number": 299, "abandoned": 1}], "unresolved numbers")


def hello_kept_out(f):
    hello(f, kept_out_ms=1500)


def hello_container(f):
    hello(f, kept_out_ms=1500, container=b"models/one")


OWN, KEY = b"session/0123456789abcdef", bytes(range(0xa0, 0xb0))


def hello_session_container(f):
    is_frame(f, "HELLO", "CRC", id=0)
    same(message("Hello", f.meta), protocol=1, session=bytes(16), connection=1, next_number=1, session_container=OWN, key=KEY)


def open_key(f):
    is_frame(f, "OPEN", "CRC", id=13)
    check(items(f.payload, "NameItem") == [{"container": OWN, "name": b"part", "key": KEY}], "a name with its key")


def create_key(f):
    is_frame(f, "CREATE", "CRC", id=14)
    check(items(f.payload, "CreateItem") == [{"container": OWN, "name": b"part", "job": b"worker", "dtype": 3, "pinned": 1, "key": KEY}], "a key")


def list_key(f):
    is_frame(f, "LIST", "CRC", id=15)
    check(items(f.payload, "ListItem") == [{"container": OWN, "name": b"part", "dtype": 3, "key": KEY}], "a key")


def hello_answer(f):
    is_frame(f, "HELLO", "CRC REPLY", id=0)
    same(f.reply_meta(), status=0, text="")
    answer, *rest = items(f.payload, "HelloAnswer", "TaskItem", "TaskItem", "NumberItem")
    same(answer, protocol=1, job=b"ps", task=1, life=0xFEDCBA9876543210, record=0x1122334455667788, durable=41, window=256,
         task_count=2, number_count=2, directory_job=b"ps", cluster_name=b"psd", version=b"0.1.0", lease_ms=10000, beat_ms=2500, features=1)
    same(rest[0], job=b"ps", address=b"127.0.0.1:2222")
    same(rest[1], job=b"ps", task=1, address=b"127.0.0.1:2223")
    same(rest[2], number=297, state=3, offset=32768, incarnation=99)
    same(rest[3], number=299, state=2, status=3, applied=1, reason=49, text=b"gradient of 'w': element 7 is NaN or infinite")


def hello_address(f):
    is_frame(f, "HELLO", "CRC", id=0)
    same(message("Hello", f.meta), protocol=1, role=1, features=1024, needs=1024, life=77, job=b"ps", task=1, believed_job=b"ps", address=b"n1:40123")


def addresses(f):
    is_frame(f, "ADDRESSES", "CRC", id=21, payload=b"")
    same(message("Addresses", f.meta), since=4)


def addresses_answer(f):
    is_frame(f, "ADDRESSES", "CRC REPLY", id=21)
    check(items(f.payload, "TaskItem") == [{"job": b"ps", "task": 1, "address": b"n1:40123", "life": 77, "version": 5}], "the new address")


def beat_answer_addresses(f):
    is_frame(f, "BEAT", "CRC REPLY", id=22)
    check(items(f.payload, "BeatAnswer") == [{"flags": 2, "addresses": 5}], "a version")


def open_(f):
    is_frame(f, "OPEN", "CRC", id=12)
    check(items(f.payload, "NameItem") == [{"name": b"layer_1/w"}, {"container": b"localhost", "name": b"b"}], "names")


def open_answer(f):
    is_frame(f, "OPEN", "CRC REPLY", id=12)
    first, second = items(f.payload, "OpenAnswer")
    same(first, index=1, handle=5, incarnation=99, creation=2**63 + 1, dtype=1, dims=[64, 10], version=1876, initialised=1, sealed=1,
         seed=42, init_kind=6, chief_number=3, giver=b"\x01giver!\xff", optimizer={"kind": 3, "learning_rate": 0.05, "initial_accumulator": 0.1})
    same(second, index=2, status=5, text=b"/job:ps/task:0 has no variable 'b'")


def open_answer_restored(f):
    is_frame(f, "OPEN", "CRC REPLY", id=12)
    (answer,) = items(f.payload, "OpenAnswer")
    same(answer, index=1, version=1876, initialised=1, sealed=1, restored=1, checkpoint=12, checkpoint_version=1800)


def create_more(f):
    is_frame(f, "CREATE", "CRC MORE", id=13)
    (item,) = items(f.payload, "CreateItem")
    same(item, name=b"layer_1/w", dtype=1, dims=[64, 10], job=b"ps", task=1, pinned=1,
         optimizer={"kind": 4, "learning_rate": 0.002, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8})


def create_answer(f):
    is_frame(f, "CREATE", "CRC REPLY")
    same(f.reply_meta(), status=0)
    (answer,) = items(f.payload, "CreateAnswer")
    same(answer, index=1, status=3, reason=43)
    check(b"'w'" in answer["text"] and b"float64" in answer["text"] and b"float32" in answer["text"], "text of a conflict")


def init(f):
    is_frame(f, "INIT", "CRC SEQ FIRST LAST", id=14, handle=5, payload=b"")
    same(message("Init", f.meta), kind=4, a=-0.5, b=0.5, seed=42, chief_number=3,
         optimizer={"kind": 2, "nesterov": 1, "learning_rate": 0.01, "momentum": 0.9})


def init_schedule(f):
    is_frame(f, "INIT", "CRC SEQ FIRST LAST", id=14, handle=5, payload=b"")
    same(message("Init", f.meta), kind=4, a=-0.5, b=0.5, seed=42, chief_number=3,
         optimizer={"kind": 1, "learning_rate": 0.5, "schedule": {"kind": 7, "warmup_steps": 50, "numbers": [1000, 1, 0.5]}})


def beat(f):
    is_frame(f, "BEAT", "CRC", id=15)
    same(message("Beat", f.meta), global_step=1876)


def beat_answer(f):
    is_frame(f, "BEAT", "CRC REPLY", id=15)
    check(items(f.payload, "BeatAnswer") == [{"flags": 3, "chief_number": 3}], "answer")


def push_two_segments(f):
    is_frame(f, "PUSH", "CRC SEQ FIRST LAST", id=16, handle=5, dtype=1, offset=0)
    same(f.push_meta(), total=16388, scale=0.25, assign=0, version=41)
    check([len(s) for s in f.segments] == [65536, 16], "segments")
    check(f.floats(16388) == [1.0] * 16388, "values")


def push_step(f):
    is_frame(f, "PUSH", "CRC SEQ FIRST LAST", id=16, handle=5, dtype=1, offset=0)
    same(f.push_meta(), total=2, scale=0.25, assign=0, version=41)
    at = PAGE.size("ps_push_meta")
    check(len(f.meta) == at + PAGE.size("ps_push_step") and PAGE.unpack("ps_push_step", f.meta[at:])["step"] == 1001, "global step of a push")
    check(f.floats(2) == [1.0, -1.0], "values")


def push_reply(f):
    is_frame(f, "PUSH", "SEQ REPLY", id=3)
    same(f.reply_meta(), status=0, position=10, version=1, applied=0, result=b"", text="")


def push_times(f):
    is_frame(f, "PUSH", "CRC SEQ FIRST LAST TIMES", id=3, dtype=1, offset=0)
    same(f.push_meta(), total=3, scale=1.0)


def times_of(f):
    return PAGE.unpack("ps_times", f.meta[-PAGE.size("ps_times"):])


def push_times_replies(applied, refused):
    is_frame(applied, "PUSH", "SEQ REPLY TIMES", id=3)
    same(applied.reply_meta(), status=0, version=1, text="")
    same(times_of(applied), wait_ns=0, kernel_ns=0)
    check(times_of(applied)["apply_ns"] > 0, "time of a push")
    is_frame(refused, "PUSH", "SEQ REPLY TIMES", id=4)
    check("scale" in refused.reply_meta()["text"] and times_of(refused)["apply_ns"] > 0, "a refusal with times")


def times_answers(listed, values):
    is_frame(listed, "BEAT", "CRC REPLY TIMES")
    check(listed.reply_meta()["status"] == 0 and times_of(listed)["apply_ns"] > 0, "a list with times")
    is_frame(values, "PULL", "CRC REPLY TIMES", dtype=1, offset=0)
    same(values.pull_reply_meta(), version=0, in_progress=0)
    check(values.floats(3) == [0.0, 0.0, 0.0] and len(values.meta) == 24 + 32 and times_of(values)["queue_ns"] > 0, "values with times")


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
    same(last.reply_meta(), status=0, position=10, version=1)


def assign_plain(f):
    is_frame(f, "ASSIGN", "SEQ FIRST LAST", id=17, handle=6, dtype=1)
    same(f.push_meta(), total=3, scale=1.0, assign=1)
    check(f.floats(3) == [1.0, -2.0, 0.5] and f.payload[12:] == bytes(4), "values and padding")


def assign_slot(f):
    is_frame(f, "ASSIGN", "CRC SEQ FIRST LAST", id=17, handle=6, dtype=1)
    same(f.push_meta(), total=3, scale=1.0, assign=2, version=struct.unpack("<Q", struct.pack("<d", 0.75))[0])


def add_reply(f):
    is_frame(f, "ADD", "SEQ REPLY", id=3)
    same(f.reply_meta(), status=0, position=10, version=1, result=struct.pack("<q", 42))


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
    same(f.reply_meta(), status=10, reason=33)
    check("77" in f.reply_meta()["text"], "text of a refusal")


def abandon_reply(f):
    is_frame(f, "ABANDON", "SEQ REPLY", id=200)
    same(f.reply_meta(), status=0, result=bytes([4]))


def sessions_answer(f, **more):
    is_frame(f, "SESSIONS", "CRC REPLY", id=21)
    same(f.reply_meta(), status=0)
    psctl, worker = items(f.payload, "SessionAnswer")
    check(psctl == {"session": bytes(range(8)), "host": b"host.example", "pid": 4711, "program": b"psctl", "connected": 1,
                    "age_ms": 5000}, "a session without a task that has said no step")
    check(worker == {"session": bytes(range(8)), "job": b"worker", "task": 2, "host": b"host.example", "pid": 4711,
                     "program": b"pstrain", "heard_ms": 1200, "age_ms": 5000, "global_step": 1876, "steps_per_second": 12.5,
                     "waits": 1, "in_progress": 2, "stopping": 1, "held_bytes": 65536, **more}, "a worker at step 1875")


def sessions_answer_rival(f):
    sessions_answer(f, rival=b"process 4712 on host2.example")


def sessions_answer_said(f):
    sessions_answer(f, said=b"loss=0.25 accuracy=0.9")


def sessions_answer_who(f):
    sessions_answer(f, who=b"key:w2", key_id=b"00c0ffee")


def whoami_answer(f):
    is_frame(f, "WHOAMI", "CRC REPLY", id=108)
    check(items(f.payload, "WhoamiAnswer") == [{"who": b"key:w2", "role": b"worker", "key_id": b"00c0ffee", "rights": 51},
                                               {"row": b"role:worker *,@cluster train"}], "who it is")


def info_waiting(f):
    is_frame(f, "INFO", "CRC REPLY", id=110)
    check(items(f.payload, "InfoAnswer") == [{"job": b"ps", "waiting_for": b"what /job:ps/task:1 will begin with: no disk", "waiting": 4}],
          "why tasks do not begin")


def info_denied(f):
    is_frame(f, "INFO", "CRC REPLY", id=109)
    check(items(f.payload, "InfoAnswer") == [{"job": b"ps", "denied": 7}], "denials")


def events(f):
    is_frame(f, "EVENTS", "CRC", id=111, payload=b"")
    same(message("Events", f.meta), life=0xfedcba9876543210, next=13, wait_ms=20000)


def events_answer(f):
    is_frame(f, "EVENTS", "CRC REPLY", id=111)
    check(items(f.payload, "EventAnswer") == [
        {"number": 15, "life": 0xfedcba9876543210, "age_ms": 1200, "level": 2, "event": b"task_lost", "text": b"peer=/job:ps/task:1"},
        {"number": 16, "life": 0xfedcba9876543210, "level": 1, "event": b"task_connected", "text": b"peer=/job:ps/task:1"}], "events")


def waits_answer(f):
    is_frame(f, "WAITS", "CRC REPLY", id=22)
    (wait,) = items(f.payload, "WaitAnswer")
    check(wait == {"session": bytes(range(8)), "job": b"worker", "task": 2, "host": b"host.example", "pid": 4711,
                   "program": b"pstrain", "op": 35, "what": b"sealed: w, b", "since_ms": 12000, "left_ms": 588000,
                   "release": b"the chief seals w, b; no chief is connected"}, "wait")


def containers_answer(f):
    is_frame(f, "CONTAINERS", "CRC REPLY", id=23)
    check(items(f.payload, "ContainerAnswer") == [
        {"container": b"empty", "incarnation": 98},
        {"container": b"localhost", "incarnation": 99, "variables": 3, "initialised": 2, "bytes": 2**33}], "containers")


def tasks_answer(f):
    is_frame(f, "TASKS", "CRC REPLY", id=24)
    check(items(f.payload, "TaskAnswer") == [
        {"job": b"ps", "address": b"127.0.0.1:2222", "connected": 1, "heard": 1, "life": 0xFEDCBA9876543210, "host": b"host.example",
         "pid": 4711},
        {"job": b"ps", "task": 1, "address": b"127.0.0.1:2223", "missing_ms": 3000, "conflict": b"pid 4712 at host.example",
         "restarts": 3, "lost": 2, "lost_names": b"b, w"}], "tasks")


def stop_answer(f):
    is_frame(f, "STOP", "CRC REPLY", id=25)
    check(items(f.payload, "StopAnswer") == [{"sessions": 4}], "sessions told")


def alone(op, number):
    """A frame that says nothing but its operation."""
    def check_it(f):
        is_frame(f, op, "CRC", id=number)
        check(f.meta == b"" and f.payload == b"", "nothing more")
    return check_it


def config_set(f):
    is_frame(f, "CONFIG_SET", "CRC", id=26)
    check(items(f.payload, "ConfigItem") == [{"name": b"session_keep", "value": b"1h"}], "setting")


def may(f):
    is_frame(f, "MAY", "CRC", id=110)
    check(items(f.payload, "MayItem") == [{"who": b"key:w2", "role": b"worker", "container": b"model", "rights": 1}], "what somebody may")


def set_rate(f):
    is_frame(f, "SET_RATE", "CRC", id=27)
    same(message("SetRate", f.meta), name=b"w", rate=0.125)
    check(items(f.payload, "ContainerItem") == [{"container": b"localhost"}], "container of the rate")


def barrier(f):
    is_frame(f, "BARRIER", "CRC", id=16)
    same(message("Barrier", f.meta), timeout_ms=54750, count=3)
    check(items(f.payload, "NameItem") == [{"container": b"localhost", "name": b"epoch"}], "barrier")


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
    (item,) = items(f.payload, "CreateItem")
    same(item, name=b"table", dtype=1, dims=[1000], job=b"ps", atomic=1, optimizer={"kind": 1, "learning_rate": 0.5})


QUEUE = {"kind": 2, "capacity": -1, "min_after_dequeue": 100, "seed": 42,
         "components": [{"dtype": 1, "shaped": 1, "dims": [3]}, {"dtype": 10}]}
ELEMENT = struct.pack("<3f4xQQqq8s", 1, 2, 3, 0, 18, 0, 2, b"ab")


def create_queue(f):
    is_frame(f, "CREATE", "CRC", id=40)
    check(items(f.payload, "CreateItem") == [{"name": b"batches", "job": b"ps", "queue": QUEUE}], "a queue")


def queues_answer(f):
    is_frame(f, "QUEUES", "CRC REPLY", id=41)
    check(items(f.payload, "QueueAnswer") == [
        {"container": b"localhost", "name": b"batches", "queue": QUEUE, "size": 7, "taken": 2, "enqueuers": 1, "dequeuers": 3, "closed": 1,
         "bytes": 4096, "epoch": 2, "items": 12, "done": 5}], "queues")


def enqueue(f):
    is_frame(f, "ENQUEUE", "CRC", id=42, handle=9, payload=struct.pack("<Q", len(ELEMENT)) + ELEMENT)
    check(message("Enqueue", f.meta) == {"timeout_ms": 60000, "count": 1, "bytes": len(f.payload), "many": 1}, "ENQUEUE")


def put_part(f):
    is_frame(f, "PUT_PART", "CRC", id=43, handle=0, payload=ELEMENT)
    check(message("Part", f.meta) == {"of": 42, "offset": 196608, "bytes": len(ELEMENT)}, "PUT_PART")


def dequeue(f):
    is_frame(f, "DEQUEUE", "CRC", id=44, handle=9, payload=b"")
    check(message("Dequeue", f.meta) == {"timeout_ms": 250, "count": 8, "many": 1, "up_to": 1}, "DEQUEUE")


def dequeue_reply(f):
    is_frame(f, "DEQUEUE", "CRC REPLY", id=44, payload=ELEMENT)
    result = PAGE.unpack("ps_dequeue_result", f.meta[PAGE.size("ps_reply_meta"):])
    check(result == {"count": 1, "bytes": len(ELEMENT), "serial": 17, "epoch": 2, "deliveries": 1}, f"result {result}")


def get_part(f):
    is_frame(f, "GET_PART", "CRC", id=45, payload=b"")
    check(message("Part", f.meta) == {"of": 44, "offset": 262144, "bytes": 65536}, "GET_PART")


def queue_close(f):
    is_frame(f, "QUEUE_CLOSE", "CRC", id=46, handle=9)
    check(message("QueueClose", f.meta) == {"timeout_ms": 1000, "cancel": 1}, "QUEUE_CLOSE")


def work_end(f):
    is_frame(f, "WORK_END", "CRC SEQ FIRST LAST", id=300, handle=9)
    check(message("WorkEnd", f.meta) == {"serial": 17, "epoch": 2, "give_back": 1}, "WORK_END")


SUMS = {"kind": 4, "capacity": -1}


def create_accumulator(f):
    is_frame(f, "CREATE", "CRC", id=47)
    queue = dict(SUMS, reduction=2, components=[{"dtype": 1, "shaped": 1, "dims": [3]}])
    check(items(f.payload, "CreateItem") == [{"name": b"w/grad_accum", "job": b"ps", "queue": queue}], "an accumulator")


def create_sparse_accumulator(f):
    is_frame(f, "CREATE", "CRC", id=50)
    queue = dict(SUMS, kind=5, reduction=3, components=[{"dtype": 1, "shaped": 1, "dims": [5, 3]}])
    check(items(f.payload, "CreateItem") == [{"name": b"e/grad_accum", "job": b"ps", "queue": queue}], "a sparse accumulator")


def apply_rows(f):
    lists = struct.pack("<4q", 1, 2, 1, 4) + struct.pack("<4q", 1, 2, 1, 1)
    is_frame(f, "ENQUEUE", "CRC", id=51, handle=9, payload=lists + struct.pack("<3q6f", 2, 2, 3, 1, 2, 3, 4, 5, 6))
    check(message("Enqueue", f.meta) == {"timeout_ms": 60000, "count": 1, "bytes": 112, "apply": 1, "local_step": 12}, "a gradient of rows")


def apply_grad(f):
    is_frame(f, "ENQUEUE", "CRC", id=48, handle=9, payload=struct.pack("<4f", 1, 2, 3, 0))
    check(message("Enqueue", f.meta) == {"timeout_ms": 60000, "count": 1, "bytes": 16, "apply": 1, "local_step": 12}, "a gradient")


def set_step(f):
    is_frame(f, "SET_STEP", "CRC SEQ FIRST LAST", id=301, handle=9)
    check(message("SetStep", f.meta) == {"step": 12}, "SET_STEP")


def accumulators_answer(f):
    is_frame(f, "QUEUES", "CRC REPLY", id=49)
    check(items(f.payload, "QueueAnswer") == [
        {"container": b"localhost", "name": b"w/grad_accum", "queue": dict(SUMS, reduction=1, components=[{"dtype": 2, "shaped": 1}]),
         "size": 3, "dequeuers": 1, "bytes": 16, "items": 1, "step": 12, "dropped": 5}], "accumulators")


def ack_given_up(f):
    is_frame(f, "ACK", "CRC", id=44, offset=1, meta=b"", payload=b"")


MEMBER, GENERATION, TRAINING = 0x8877665544332211, 0x0102030405060708, 0x1122334455667788
SYNC = {"mode": 1, "workers": 3, "replicas": 2, "on_loss": 1, "staleness": 4}
GOLDEN_MEMBER = {"member": MEMBER, "job": b"worker", "task": 2, "session": bytes(range(8)) + bytes([9]) * 8}


def contribute(f):
    is_frame(f, "CONTRIBUTE", "CRC SEQ FIRST LAST", id=50, handle=5, dtype=1, offset=0)
    same(f.fixed("ps_contribute_meta"), total_elements=3, scale=0.5, member=MEMBER, round=7)
    check(f.floats(3) == [1.0, -2.0, 0.5], "values")


def contribute_rows(f):
    is_frame(f, "CONTRIBUTE_ROWS", "CRC SEQ FIRST LAST", id=53, handle=5, dtype=1, offset=0)
    same(f.fixed("ps_contribute_rows_meta"), rows=2, highest=2, scale=0.5, member=MEMBER, round=7)
    check(rows_of(f, 2) == ([1, 2], [0.5, -2.0]), "rows")


def rows_of(f, count):
    """Indices and rows of one number each, of the last segment."""
    values = struct.unpack(f"<{count}Q{count}f", f.payload[:12 * count])
    return list(values[:count]), list(values[count:])


def push_rows(f):
    is_frame(f, "PUSH_ROWS", "CRC SEQ FIRST LAST", id=60, handle=5, dtype=1, offset=0)
    same(f.fixed("ps_rows_meta"), rows=2, highest=2, version=0, scale=0.5, how=0)
    check(rows_of(f, 2) == ([1, 2], [0.5, -2.0]), "rows")


def push_pull_rows(f):
    is_frame(f, "PUSHPULL_ROWS", "CRC SEQ FIRST LAST", id=65, handle=5, dtype=1, offset=0)
    same(f.fixed("ps_rows_meta"), rows=2, highest=2, version=0, scale=0.5, how=0)
    check(rows_of(f, 2) == ([1, 2], [0.5, -2.0]), "rows")


def push_pull_rows_reply(value, last):
    is_frame(value, "PUSHPULL_ROWS", "CRC SEQ REPLY VALUE", id=3, dtype=1, offset=0)
    same(value.pull_reply_meta(), version=1, in_progress=0)
    same(value.trailer, version=1, in_progress=0)
    check(value.floats(2) == [-0.25, 1.0], "rows")
    is_frame(last, "PUSHPULL_ROWS", "SEQ REPLY", id=3, trailer=None)
    same(last.reply_meta(), status=0, position=10, version=1)


def push_rows_step(f):
    is_frame(f, "PUSH_ROWS", "CRC SEQ FIRST LAST", id=60, handle=5, dtype=1, offset=0)
    at = PAGE.size("ps_rows_meta")
    check(len(f.meta) == at + PAGE.size("ps_push_step") and PAGE.unpack("ps_push_step", f.meta[at:])["step"] == 1001, "global step of a push")
    check(rows_of(f, 2) == ([1, 2], [0.5, -2.0]), "rows")


def push_rows_more(f):
    is_frame(f, "PUSH_ROWS", "CRC SEQ LAST", id=61, handle=5, dtype=1, offset=SEGMENT // 12)
    check(rows_of(f, 2) == ([10 * (SEGMENT // 12), 10 * (SEGMENT // 12) + 10], [0.25, 0.25]), "rows")


def push_no_rows(f):
    is_frame(f, "PUSH_ROWS", "CRC SEQ FIRST LAST", id=62, handle=5, dtype=1, offset=0)
    same(f.fixed("ps_rows_meta"), rows=0, highest=0, version=0, scale=0.5, how=0)
    check(f.payload == b"", "no rows")


def scatter_update(f):
    is_frame(f, "SCATTER", "CRC SEQ FIRST LAST", id=63, handle=5, dtype=1, offset=0)
    same(f.fixed("ps_rows_meta"), rows=2, highest=2, version=0, scale=1.0, how=3)
    check(rows_of(f, 2) == ([1, 2], [0.5, -2.0]), "rows")


def gather(f):
    is_frame(f, "GATHER", "CRC", id=64, handle=5, dtype=1)
    same(f.fixed("ps_gather_meta"), rows=2, slot=0)
    check(struct.unpack("<2Q", f.payload) == (1, 2), "indices")


def rows_replies(values, refused):
    is_frame(values, "GATHER", "CRC REPLY", dtype=1, offset=0)
    same(values.pull_reply_meta(), version=1, in_progress=0)
    check(values.floats(2) == [0.5, -2.0], "rows")
    check(refused.reply_meta()["text"].startswith("gather of 'w': index 1 of row 1 does not rise"), "text")


def sync(f):
    is_frame(f, "SYNC", "CRC", id=51)
    check(message("Sync", f.meta) == {"timeout_ms": 60000, "options": SYNC, "chief_number": 3}, "SYNC")
    check(items(f.payload, "NameItem") == [{"name": b"global_step"}, {"name": b"w"}], "names")


def sync_rows(f):
    is_frame(f, "SYNC", "CRC", id=54)
    options = SYNC | {"rows_per_step": 4096, "rows_mean": 1}
    check(message("Sync", f.meta) == {"timeout_ms": 60000, "options": options, "chief_number": 3}, "SYNC")
    check(items(f.payload, "NameItem") == [{"name": b"global_step"}, {"name": b"table", "rows": 1}], "names")


def sync_more(f):
    is_frame(f, "SYNC", "CRC MORE", id=51)
    check(message("Sync", f.meta) == {"timeout_ms": 60000, "options": SYNC, "chief_number": 3}, "SYNC")
    check(items(f.payload, "NameItem") == [{"name": b"global_step"}], "names")


def sync_again(f):
    is_frame(f, "SYNC", "CRC", id=57)
    check(message("Sync", f.meta) == {"options": SYNC, "finished": 1, "training": TRAINING}, "SYNC")
    check(items(f.payload, "NameItem") == [{"name": b"global_step"}], "names")


def of_member(op, id_, kind, **want):
    def read(f):
        is_frame(f, op, "CRC", id=id_)
        check(message(kind, f.meta) == want, op)
        check(items(f.payload, "ContainerItem") == [{"container": b"localhost"}], "the container")
    return read


def join_answer(f):
    is_frame(f, "JOIN", "CRC REPLY", id=52)
    check(items(f.payload, "JoinAnswer") == [
        {"member": MEMBER, "round": 7, "step": 106, "options": SYNC, "generation": GENERATION, "steps": 9}], "JOIN's answer")


def join_answer_again(f):
    is_frame(f, "JOIN", "CRC REPLY", id=52)
    check(items(f.payload, "JoinAnswer") == [
        {"member": MEMBER, "round": 1, "generation": GENERATION, "training": TRAINING}], "JOIN's answer")


def step_reply(f):
    is_frame(f, "STEP", "REPLY", id=53, payload=b"")
    result = PAGE.unpack("ps_step_result", f.meta[PAGE.size("ps_reply_meta"):])
    check(result == {"round": 8, "step": 107, "taken": 1, "flags": 1}, f"result {result}")


def rounds_answer(f):
    is_frame(f, "ROUNDS", "CRC REPLY", id=55)
    check(items(f.payload, "RoundAnswer", "MemberAnswer") == [
        {"container": b"localhost", "generation": GENERATION, "options": SYNC, "round": 7, "phase": 2, "step": 106, "workers": 3,
         "replicas": 2, "text": b"1 of 2 members is complete", "owners": b"/job:ps/task:1", "dropped": 5,
         "leads": [11] + [0] * 15 + [1], "member_count": 1},
        {"member": MEMBER, "job": b"worker", "task": 2, "session": bytes(range(8)), "host": b"host.example", "pid": 4711, "state": 2,
         "since_ms": 1500, "steps": 12}], "rounds")


def rounds_unknown(f):
    is_frame(f, "ROUNDS", "CRC REPLY", id=55)
    check(items(f.payload, "RoundAnswer", "MemberAnswer") == [
        {"container": b"localhost", "member_count": 1},
        {"member": MEMBER, "job": b"worker", "state": 1, "unheard": 1, "steps_unknown": 1}], "rounds")


def member_beat(f):
    is_frame(f, "BEAT", "CRC", id=101)
    same(message("Beat", f.meta), global_step=107, member=MEMBER, member_steps=12)


def ages_answer(f):
    is_frame(f, "AGES", "CRC REPLY", id=56)
    check(items(f.payload, "AgeAnswer") == [{"container": b"localhost", "ages": [300, 0, 1] + [0] * 14}], "ages")


def task_rounds(f):
    is_frame(f, "TASK_ROUNDS", "CRC", id=60)
    check(items(f.payload, "RoundsItem", "TaskItem", "NameItem") == [
        {"container": b"localhost", "generation": GENERATION, "options": SYNC, "owner_count": 1, "step": 1}, {"job": b"ps"},
        {"name": b"global_step"}], "TASK_ROUNDS")


def task_rounds_more(f):
    is_frame(f, "TASK_ROUNDS", "CRC MORE", id=60)
    check(items(f.payload, "NameItem") == [{"name": b"w"}], "names")


def task_join(f):
    is_frame(f, "TASK_JOIN", "CRC", id=61)
    check(items(f.payload, "RoundsItem", "MemberItem") == [
        {"container": b"localhost", "generation": GENERATION, "round": 1, "life": 0x99, "awaited": 3}, GOLDEN_MEMBER], "TASK_JOIN")


def task_leave(f):
    is_frame(f, "TASK_LEAVE", "CRC", id=63)
    check(items(f.payload, "RoundsItem", "MemberItem") == [
        {"container": b"localhost", "generation": GENERATION, "round": 7, "life": 0x99, "over": 1}, GOLDEN_MEMBER], "TASK_LEAVE")


def prepare(f):
    is_frame(f, "PREPARE", "CRC", id=61)
    check(items(f.payload, "RoundsItem", "MemberItem") == [
        {"container": b"localhost", "generation": GENERATION, "round": 7, "life": 0x99, "attempt": 3}, GOLDEN_MEMBER], "PREPARE")


def prepare_rate(f):
    is_frame(f, "PREPARE", "CRC", id=61)
    check(items(f.payload, "RoundsItem", "MemberItem") == [
        {"container": b"localhost", "generation": GENERATION, "round": 7, "life": 0x99, "attempt": 3, "set_rate": 1, "rate": 0.125},
        GOLDEN_MEMBER], "PREPARE")


def prepare_step(f):
    is_frame(f, "PREPARE", "CRC", id=61)
    check(items(f.payload, "RoundsItem", "MemberItem") == [
        {"container": b"localhost", "generation": GENERATION, "round": 7, "life": 0x99, "attempt": 3, "round_step": 1876},
        GOLDEN_MEMBER], "PREPARE with a global step")


def prepare_sums(f):
    is_frame(f, "PREPARE", "CRC REPLY", id=61)
    check(items(f.payload, "PrepareAnswer") == [{"order": 3, "squares": 2.5}, {"order": 5, "squares": 1e-300}], "sums of squares")


def with_factor(op):
    def read(f):
        is_frame(f, op, "CRC", id=61)
        check(items(f.payload, "RoundsItem", "MemberItem") == [
            {"container": b"localhost", "generation": GENERATION, "round": 7, "life": 0x99, "attempt": 3, "round_step": 1876, "factor": 0.25},
            GOLDEN_MEMBER], op + " with a factor")
    return read


def list_factor(f):
    is_frame(f, "LIST", "CRC", id=62)
    check(items(f.payload, "ListItem") == [
        {"container": b"localhost", "group": {"generation": GENERATION, "options": {"mode": 1, "workers": 3, "max_norm": 1.5}, "round": 6,
                                              "factor": 0.25}}], "a group with a factor")


def join_limit(f):
    is_frame(f, "JOIN", "CRC", id=52)
    same(message("Join", f.meta), timeout_ms=60000, options={**SYNC, "max_norm": 1.5, "max_norm_each": 1})


def set_rate_in_rounds(f):
    is_frame(f, "SET_RATE", "CRC", id=28)
    same(message("SetRate", f.meta), rate=0.125, token=0x1122334455667788)
    check(items(f.payload, "ContainerItem") == [{"container": b"localhost"}], "container of the rate")


def prepare_missing(f):
    is_frame(f, "PREPARE", "CRC REPLY", id=61)
    check(items(f.payload, "PrepareAnswer") == [{"member": MEMBER, "name": b"w", "count": 2}], "what is missing")


def list_group(f):
    is_frame(f, "LIST", "CRC", id=62)
    check(items(f.payload, "ListItem") == [
        {"container": b"localhost", "group": {"generation": GENERATION, "options": SYNC, "round": 6, "life": 0x99, "attempt": 3}},
        {"container": b"localhost", "owner": {"job": b"ps"}},
        {"container": b"localhost", "member": {**GOLDEN_MEMBER, "round": 7, "complete": 1, "taken": 1}}], "a group")


CHIEF = b"/job:worker/task:0@here:4000"


def of_chief(op, id_, **answer):
    def meaning(f):
        is_frame(f, op, "CRC REPLY", id=id_)
        check(items(f.payload, op.capitalize() + "Answer") == [answer], "answer")
    return meaning


def chief_beat(f):
    is_frame(f, "BEAT", "CRC", id=72)
    same(message("Beat", f.meta), global_step=1876, container=b"localhost")


def chief_beat_ready(f):
    is_frame(f, "BEAT", "CRC", id=76)
    same(message("Beat", f.meta), container=b"localhost", ready=301)


def challenge_beat(f):
    is_frame(f, "BEAT", "CRC", id=78)
    same(message("Beat", f.meta), challenge=9001)


def seal_fence(f):
    is_frame(f, "SEAL", "CRC", id=73)
    same(message("Seal", f.meta), chief_number=301, fence=1)
    check(items(f.payload, "HandleItem") == [{"handle": 5, "creation": 78}], "handle")


def list_chief(f):
    is_frame(f, "LIST", "CRC", id=75)
    check(items(f.payload, "ListItem") == [{"container": b"localhost", "chief_number": 301}], "a chief")


SAVED = {"number": 12, "time_ms": 1700000000000, "step": 1201, "milliseconds": 250, "task_count": 2, "bytes": 66336}
FILES = [{"task": 1, "kind": 2, "bytes": 65536, "sum": 0xe3069283},
         {"task": 1, "kind": 1, "index": 3, "container": b"localhost", "bytes": 800, "sum": 0x01020304}]


def without(item, *names):
    return {k: v for k, v in item.items() if k not in names}


def checkpoints_answer(f):
    is_frame(f, "CHECKPOINTS", "CRC REPLY", id=81)
    check(items(f.payload, "CheckpointAnswer") == [{**SAVED, "state": 1, "done": 2}, {
        "number": 13, "state": 2, "milliseconds": 40, "task_count": 2, "done": 1}], "checkpoints")


def of_number(op, id_):
    def meaning(f):
        is_frame(f, op, "CRC", id=id_)
        check(items(f.payload, "SaveItem") == [{"number": 12}], op)
    return meaning


def task_cut_answer(f):
    is_frame(f, "TASK_CUT", "CRC REPLY", id=82)
    check(items(f.payload, "FileItem") == [without(file, "task") for file in FILES], "files")


def task_manifest(f):
    is_frame(f, "TASK_MANIFEST", "CRC", id=83)
    check(items(f.payload, "SaveItem", "FileItem") == [
        {**SAVED, "cluster_name": b"psd", "file_count": 2}] + [{"job": b"ps", **file} for file in FILES], "a manifest")


def task_manifest_notes(f):
    is_frame(f, "TASK_MANIFEST", "CRC", id=102)
    check(items(f.payload, "SaveItem", "FileItem") == [
        {**SAVED, "cluster_name": b"psd", "file_count": 2}, FILES[0], {**FILES[1], "notes": 9, "step": 1201}], "a manifest")


def task_cut_same(f):
    is_frame(f, "TASK_CUT", "CRC REPLY", id=105)
    check(items(f.payload, "FileItem") == [{**FILES[0], "same": 11}], "a part that is the same")


def saved_beat(f):
    is_frame(f, "BEAT", "CRC", id=102, payload=b"")
    same(message("Beat", f.meta), saved=12)


def step_beat(f):
    is_frame(f, "BEAT", "CRC", id=103, payload=b"")
    same(message("Beat", f.meta), global_step=1876, step_of=b"localhost")


def said_beat(f):
    is_frame(f, "BEAT", "CRC", id=111, payload=b"")
    same(message("Beat", f.meta), global_step=1876, said=b"loss=0.25 accuracy=0.9")


def checkpoints_failed(f):
    is_frame(f, "CHECKPOINTS", "CRC REPLY", id=106)
    check(items(f.payload, "CheckpointAnswer") == [{"number": 14, "state": 4, "failed": 1, "text": (
        b"failed: checkpoint 14, RESOURCE_EXHAUSTED: full")}], "an attempt")


def info_saves(f):
    is_frame(f, "INFO", "CRC REPLY", id=107)
    check(items(f.payload, "InfoAnswer") == [{"job": b"ps", "directory": 1, "checkpoints": b"12 is saved", "saves": {
        "number": 12, "whole": 1, "step": 1206, "age_ms": 5001, "took_ms": 40, "bytes": 4096,
        "containers": [{"container": b"localhost", "step": 1206}, {"container": b"tables"}], "more_containers": 1,
        "makes": 14, "make_tasks": 2, "make_done": 1, "make_share": 750000, "make_ms": 300,
        "failed_attempts": 1, "failed_number": 13, "failed_age_ms": 1001, "failed_status": 8, "failed_reason": 59,
        "failed": b"full", "every_seconds": 600}}], "how far checkpoints are")


def list_saved(f):
    is_frame(f, "LIST", "CRC", id=85)
    check(items(f.payload, "ListItem") == [{"saved": {"number": 12, "state": 1}}, {"saved": {"number": 11, "state": 3}}], "saved")


def checkpoint_read(f):
    is_frame(f, "CHECKPOINT_READ", "CRC", id=86, payload=b"")
    same(message("CheckpointRead", f.meta), number=12, kind=1, index=3, offset=262144, bytes=65536)


def checkpoint_delete(f):
    is_frame(f, "CHECKPOINT_DELETE", "CRC", id=87)
    same(message("Wait", f.meta), timeout_ms=60000)
    check(items(f.payload, "SavedNameItem") == [{"number": 12, "force": 1}], "which one")


def task_cut_note(f):
    is_frame(f, "TASK_CUT", "CRC REPLY", id=90)
    check(items(f.payload, "FileItem") == [without(FILES[0], "task"), {
        "kind": 4, "container": b"localhost", "notes": 5, "step": 1201}], "a note")


def list_order(f):
    is_frame(f, "LIST", "CRC", id=85)
    check(items(f.payload, "ListItem") == [{"order": 42}], "the next place")


def task_create_order(f):
    is_frame(f, "TASK_CREATE", "CRC", id=86)
    check(items(f.payload, "CreateItem") == [{"container": b"localhost", "name": b"layer_1/w", "dtype": 1, "order": 42}], "a place")


def list_bar(f):
    is_frame(f, "LIST", "CRC", id=91)
    check(items(f.payload, "ListItem") == [{"container": b"localhost", "saved": {"number": 12, "state": 4}}], "a bar")


def task_reset_bar(f):
    is_frame(f, "TASK_RESET", "CRC", id=92)
    check(items(f.payload, "ContainerItem") == [{"container": b"localhost", "bar": 12}], "a reset")


def task_reset_by(f):
    is_frame(f, "TASK_RESET", "CRC", id=93)
    check(items(f.payload, "ContainerItem") == [{"container": b"localhost", "bar": 12, "by": b"psctl@testhost:4711"}], "who asked")


def checkpoint_restore(f):
    is_frame(f, "CHECKPOINT_RESTORE", "CRC", id=89)
    same(message("Wait", f.meta), timeout_ms=60000)
    check(items(f.payload, "SavedNameItem") == [{"number": 12}], "which one")


def checkpoint_restore_some(f):
    is_frame(f, "CHECKPOINT_RESTORE", "CRC", id=89)
    check(items(f.payload, "SavedNameItem", "ContainerItem") == [{"number": 12}, {"container": b"localhost"}, {"container": b"b"}],
          "which one, and what of it")


def checkpoint_keeps(f):
    is_frame(f, "CHECKPOINT", "CRC", id=90)
    same(message("Wait", f.meta), timeout_ms=60000, keeps=12)


START = 0x1122334455667788


def task_load(f):
    is_frame(f, "TASK_LOAD", "CRC", id=86)
    check(items(f.payload, "StartItem") == [{"number": 12, "start": START, "state_bytes": 65536}], "a load")


def task_load_sized(f):
    is_frame(f, "TASK_LOAD", "CRC", id=98)
    check(items(f.payload, "StartItem") == [{"number": 12, "start": START, "state_bytes": 65536, "all_bytes": 66336}], "a load")


def task_load_asked(f):
    is_frame(f, "TASK_LOAD", "CRC", id=101)
    check(items(f.payload, "StartItem") == [{"number": 12, "start": START, "state_bytes": 65536, "asked": True}], "a load")


def share_beat(f):
    is_frame(f, "BEAT", "CRC", id=99)
    same(message("Beat", f.meta), share=430000)


def changed_beat(f):
    is_frame(f, "BEAT", "CRC", id=100)
    same(message("Beat", f.meta), share=430000, changed=True)


def checkpoints_shares(f):
    is_frame(f, "CHECKPOINTS", "CRC REPLY", id=81)
    check(items(f.payload, "CheckpointAnswer") == [{"number": 13, "state": 2, "task_count": 2, "share": 750001}], "a share")


def task_load_others(f):
    is_frame(f, "TASK_LOAD", "CRC", id=93)
    check(items(f.payload, "StartItem") == [{"number": 12, "start": START, "state_bytes": 65536, "state_sum": 0x0badf00d}, {
        "state_bytes": 131072, "writer": 3, "state_sum": 7}], "a load of two parts")


def list_part(f):
    is_frame(f, "LIST", "CRC", id=94)
    check(items(f.payload, "ListItem") == [{"start": {"number": 12, "waits": 1, "writer": 3}}], "another task's part")


def task_place_gone(f):
    is_frame(f, "TASK_PLACE", "CRC", id=95)
    check(items(f.payload, "StartItem") == [{"number": 12, "start": START}, {"start": START, "container": b"localhost"}, {
        "number": 14, "start": START, "container": b"localhost", "name": b"w"}], "a place without a variable")


def list_gone(f):
    is_frame(f, "LIST", "CRC", id=96)
    check(items(f.payload, "ListItem") == [{"container": b"localhost", "name": b"w", "start": {"number": 14, "waits": 1}}], "what was deleted")


def task_load_answer(f):
    is_frame(f, "TASK_LOAD", "CRC REPLY", id=86)
    check(items(f.payload, "StartItem") == [{"container": b"localhost"}], "what is loaded")


def task_place(f):
    is_frame(f, "TASK_PLACE", "CRC", id=87)
    check(items(f.payload, "StartItem") == [{"number": 12, "start": START}, {"start": START, "container": b"localhost"}], "a place")


def task_place_trained(f):
    is_frame(f, "TASK_PLACE", "CRC", id=103)
    check(items(f.payload, "StartItem") == [{"number": 12, "start": START}, {"start": START, "container": b"localhost", "trained": True}], "a place")


def list_start(f):
    is_frame(f, "LIST", "CRC", id=88)
    check(items(f.payload, "ListItem") == [{"start": {"waits": 1}}, {
        "start": {"start": START, "next": 5, "container": b"localhost"}}], "what a task began with")


def checkpoint(f):
    is_frame(f, "CHECKPOINT", "CRC", id=80, payload=b"")
    same(message("Wait", f.meta), timeout_ms=60000)


MEANINGS = {"checkpoint_read": checkpoint_read, "checkpoint_delete": checkpoint_delete, "checkpoint": checkpoint, "checkpoints_answer": checkpoints_answer,
            "task_cut_note": task_cut_note, "list_bar": list_bar, "list_order": list_order, "task_create_order": task_create_order, "task_reset_bar": task_reset_bar,
            "task_reset_by": task_reset_by,
            "task_cut": of_number("TASK_CUT", 82), "task_cut_answer": task_cut_answer, "task_manifest": task_manifest,
            "task_manifest_notes": task_manifest_notes,
            "task_drop": of_number("TASK_DROP", 84), "list_saved": list_saved,
            "checkpoint_restore": checkpoint_restore, "checkpoint_restore_some": checkpoint_restore_some, "checkpoint_keeps": checkpoint_keeps,
            "task_load": task_load, "task_load_others": task_load_others, "task_load_sized": task_load_sized,
            "task_load_asked": task_load_asked,
            "share_beat": share_beat, "changed_beat": changed_beat, "saved_beat": saved_beat, "step_beat": step_beat, "said_beat": said_beat, "task_saved": of_number("TASK_SAVED", 104), "task_cut_same": task_cut_same, "checkpoints_failed": checkpoints_failed, "info_saves": info_saves, "checkpoints_shares": checkpoints_shares, "list_part": list_part, "list_gone": list_gone, "task_place_gone": task_place_gone,
            "task_load_answer": task_load_answer, "task_place": task_place, "task_place_trained": task_place_trained, "list_start": list_start,
            "hello": hello, "hello_kept_out": hello_kept_out, "hello_container": hello_container, "hello_session_container": hello_session_container, "open_key": open_key, "create_key": create_key, "list_key": list_key,
            "hello_answer": hello_answer, "open": open_, "open_answer": open_answer, "open_answer_restored": open_answer_restored, "create_more": create_more,
            "create_answer": create_answer, "init": init, "barrier": barrier, "beat": beat, "beat_answer": beat_answer,
            "push_two_segments": push_two_segments, "push_reply": push_reply, "push_times": push_times, "push_times_replies": push_times_replies,
            "times_answers": times_answers, "push_refused": push_refused,
            "pushpull_reply": pushpull_reply, "assign_plain": assign_plain, "assign_slot": assign_slot, "add_reply": add_reply, "pull": pull,
            "pull_reply": pull_reply, "pull_refused": pull_refused, "abandon_reply": abandon_reply,
            "sessions_answer": sessions_answer, "sessions_answer_rival": sessions_answer_rival, "sessions_answer_said": sessions_answer_said,
            "sessions_answer_who": sessions_answer_who, "whoami_answer": whoami_answer, "hello_address": hello_address, "addresses": addresses, "addresses_answer": addresses_answer, "beat_answer_addresses": beat_answer_addresses, "info_denied": info_denied, "info_waiting": info_waiting,
            "events": events, "events_answer": events_answer, "waits_answer": waits_answer, "containers_answer": containers_answer,
            "tasks_answer": tasks_answer, "stop_answer": stop_answer, "job_done": alone("JOB_DONE", 28), "task_done": alone("TASK_DONE", 64), "config_set": config_set, "may": may, "set_rate": set_rate, "push_bf16": push_bf16,
            "pull_narrow_reply": pull_narrow_reply, "strings_assign": strings_assign, "strings_pull": strings_pull,
            "strings_pull_reply": strings_pull_reply, "create_atomic": create_atomic,
            "create_queue": create_queue, "queues_answer": queues_answer, "enqueue": enqueue, "put_part": put_part, "dequeue": dequeue,
            "dequeue_reply": dequeue_reply, "get_part": get_part, "queue_close": queue_close, "work_end": work_end,
            "create_accumulator": create_accumulator, "create_sparse_accumulator": create_sparse_accumulator, "apply_rows": apply_rows, "apply_grad": apply_grad, "set_step": set_step,
            "accumulators_answer": accumulators_answer,
            "ack_given_up": ack_given_up, "contribute": contribute, "contribute_rows": contribute_rows, "sync_rows": sync_rows, "push_rows": push_rows, "push_pull_rows": push_pull_rows, "push_pull_rows_reply": push_pull_rows_reply, "push_rows_step": push_rows_step, "push_rows_more": push_rows_more, "push_no_rows": push_no_rows,
            "scatter_update": scatter_update, "gather": gather, "rows_replies": rows_replies, "sync": sync, "sync_more": sync_more, "sync_again": sync_again,
            "join": of_member("JOIN", 52, "Join", timeout_ms=60000, options=SYNC),
            "join_again": of_member("JOIN", 52, "Join", timeout_ms=60000, options=SYNC, training=0x1122334455667788), "join_answer": join_answer, "join_answer_again": join_answer_again,
            "step": of_member("STEP", 53, "Step", timeout_ms=60000, member=MEMBER, round=7, steps=12), "step_reply": step_reply,
            "step_first": of_member("STEP", 78, "Step", timeout_ms=600000, member=MEMBER, round=1, open_timeout_ms=60000),
            "leave": of_member("LEAVE", 54, "Leave", member=MEMBER, finished=1), "rounds_answer": rounds_answer,
            "ages_answer": ages_answer, "rounds_unknown": rounds_unknown, "member_beat": member_beat, "task_rounds": task_rounds, "task_rounds_more": task_rounds_more, "task_join": task_join, "task_leave": task_leave, "prepare": prepare,
            "prepare_rate": prepare_rate, "prepare_step": prepare_step, "init_schedule": init_schedule, "push_step": push_step, "set_rate_in_rounds": set_rate_in_rounds,
            "prepare_missing": prepare_missing, "prepare_sums": prepare_sums, "build": with_factor("BUILD"), "commit_factor": with_factor("COMMIT"),
            "list_factor": list_factor, "join_limit": join_limit,
            "list_group": list_group, "chief_claim": of_member("CHIEF", 70, "Chief", claim=1, number=300, preferred=1, renew=1),
            "chief_answer": of_chief("CHIEF", 70, left_ms=7500, holder=CHIEF),
            "chief_granted": of_chief("CHIEF", 71, number=301, granted=1), "chief_beat": chief_beat,
            "chief_beat_ready": chief_beat_ready,
            "chief_ready_answer": of_chief("BEAT", 77, flags=3, chief_number=301, chief_left_ms=7500, chief=CHIEF, chief_ready=301),
            "chief_beat_answer": of_chief("BEAT", 72, flags=3, chief_number=301, chief_left_ms=7500, chief=CHIEF),
            "challenge_beat": challenge_beat, "challenge_answer": of_chief("BEAT", 78, flags=2, challenge=9001),
            "seal_fence": seal_fence, "chief_reset": of_member("RESET", 74, "Wait", timeout_ms=60000, chief_number=301),
            "list_chief": list_chief}


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
