# SPDX-License-Identifier: Apache-2.0
"""A second client of psd, in Python's standard library alone, written from docs/PROTOCOL.md: operations, flags, layouts, message
fields, kinds and limits are read out of the page's tables when it starts, none of them stands here (lint). For tests: each step is a
call of its own, frames can be made wrong on purpose, and nothing is repeated by itself.

    c = Client(("127.0.0.1", port)); c.hello()
    c.create("w", "F32", [10], optimizer={"kind": PAGE.kind("Optimizer", "SGD"), "learning_rate": 0.1})
"""
import os
import re
import socket
import struct
import subprocess
from collections import namedtuple

HERE = os.path.dirname(os.path.abspath(__file__))


class Page:
    """The tables of docs/PROTOCOL.md, by the heading above each."""

    def __init__(self, name=os.path.join(HERE, "..", "..", "docs", "PROTOCOL.md")):
        with open(name, encoding="utf-8") as text:
            self.text = text.read()
        self.tables = {}
        heading = None
        for line in self.text.split("\n"):
            if line.startswith("#"):
                heading = line.lstrip("# ").split(":")[0].strip("`")
            elif line.startswith("|") and heading:
                self.tables.setdefault(heading, []).append([cell.strip() for cell in line.strip("|").split("|")])
        self.ops = {row["op"]: row for row in self.rows("Operations")}
        for row in self.ops.values():
            row["number"] = int(row["number"])
        self.op_names = {row["number"]: name for name, row in self.ops.items()}
        self.flags = self.numbers("Flags")
        self.features = self.numbers("Features")
        self.reason_names = {number: name for name, number in self.numbers("Reasons").items()}
        self.status_names = {number: name for name, number in self.numbers("Status codes").items()}
        self.states = {number: name for name, number in self.numbers("Number states").items()}
        self.limits = self.numbers("Limits")
        self.dtypes = {row["name"]: (int(row["number"]), int(row["bytes"])) for row in self.rows("Dtypes")}
        self.structs = {}
        self.messages = {}
        for heading, table in self.tables.items():
            heads = table[0]
            if heads[:2] == ["offset", "type"]:
                self.structs[heading] = self.layout(heading)
            elif heads[:2] == ["number", "type"]:
                self.messages[heading] = {int(r["number"]): (r["field"], r["type"].split()) for r in self.rows(heading)}
        polynomial = int(re.search(r"reflected \((0x[0-9A-F]+)\)", self.text)[1], 0)
        self.crc_table = []
        for n in range(1 << 8):
            for _ in range(8):
                n = n >> 1 ^ (polynomial if n & 1 else 0)
            self.crc_table.append(n)

    def rows(self, heading):
        table = self.tables[heading]
        return [dict(zip(table[0], row)) for row in table[2:]]

    def numbers(self, heading):
        return {row["name"]: int(row["number"]) for row in self.rows(heading)}

    def reason(self, number, status):
        """Its name: that of the status where it says no more, or is none that the page has."""
        return self.reason_names.get(number, self.status_names[status]) if status else "NONE"

    def kind(self, what, name):
        return self.numbers(what + " kinds")[name]

    def layout(self, heading):
        letters = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "f32": "f"}
        form, names, at = "<", [], 0
        for row in self.rows(heading):
            *count, kind = row["type"].split(" × ")
            if int(row["offset"]) != at:
                raise ValueError(f"{heading}.{row['field']} is not at {at}")
            # several of a kind as bytes: none of them is read
            form += count[0] + "s" if count else letters[kind]
            names.append(row["field"])
            at = struct.calcsize(form)
        return struct.Struct(form), names

    def pack(self, name, **values):
        layout, names = self.structs[name]
        blank = [b"" if code == "s" else 0 for code in re.findall(r"[a-zA-Z]", layout.format)]
        unknown = set(values) - set(names)
        if unknown:
            raise KeyError(f"{name} has no {unknown}")
        return layout.pack(*(values.get(n, b) for n, b in zip(names, blank)))

    def unpack(self, name, data):
        layout, names = self.structs[name]
        return dict(zip(names, layout.unpack(data[:layout.size])))

    def size(self, name):
        return self.structs[name][0].size

    def flag_bits(self, names):
        return sum(self.flags[name] for name in set(names))


PAGE = Page()


def crc32c(data, crc=0):
    crc ^= ~(~0 << 32)
    for byte in data:
        crc = PAGE.crc_table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ ~(~0 << 32)


def pad(data):
    return bytes(data) + bytes(-len(data) % 8)


# ---- Protocol Buffers: varints, doubles, bytes and messages ----

def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def read_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
        shift += 7


def encode(message, values):
    """values: {field: value}; what is not there, or 0, False or empty, is left out."""
    out = b""
    left = dict(values)
    for number, (field, kind) in PAGE.messages[message].items():
        value = left.pop(field, None)
        for one in value if kind[0] == "repeated" and value else [value]:
            if not one and not (kind[0] == "repeated" and value):
                continue
            if kind[-1] == "double":
                out += varint(number << 3 | 1) + struct.pack("<d", one)
            elif kind[-1] == "bytes" or kind[-1] in PAGE.messages:
                one = encode(kind[-1], one) if kind[-1] in PAGE.messages else one.encode() if isinstance(one, str) else one
                out += varint(number << 3 | 2) + varint(len(one)) + one
            else:
                out += varint(number << 3) + varint(int(one))
    if left:
        raise KeyError(f"{message} has no {sorted(left)}")
    return out


def signed(value, kind):
    return value - (1 << 64) if kind == "int64" and value >> 63 else value


def decode(message, data):
    """Every field that the page has, with its default where it does not stand in data; unknown fields are skipped."""
    fields = PAGE.messages[message]
    out = {}
    for field, kind in fields.values():
        scalar = b"" if kind[-1] == "bytes" else None if kind[-1] in PAGE.messages else 0.0 if kind[-1] == "double" else 0
        out[field] = [] if kind[0] == "repeated" else scalar
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        if tag == 0:
            break  # padding of a meta
        wire, number = tag & 7, tag >> 3
        if wire == 0:
            value, at = read_varint(data, at)
        elif wire == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif wire == 2:
            length, at = read_varint(data, at)
            value, at = data[at:at + length], at + length
        else:
            raise ValueError(f"{message}: wire type {wire}")
        if number not in fields:
            continue
        field, kind = fields[number]
        if kind[-1] in PAGE.messages:
            out[field] = decode(kind[-1], value)
        elif kind[0] != "repeated":
            out[field] = bytes(value) if kind[-1] == "bytes" else signed(value, kind[-1]) if wire == 0 else value
        elif wire == 2 and kind[-1] == "double":  # packed
            out[field] += struct.unpack("<%dd" % (len(value) // 8), value)
        elif wire == 2:  # packed
            inner = 0
            while inner < len(value):
                one, inner = read_varint(value, inner)
                out[field].append(signed(one, kind[-1]))
        else:
            out[field].append(signed(value, kind[-1]))
    return out


def encode_list(message, items):
    out = b""
    for item in items:
        one = encode(message, item)
        out += varint(len(one)) + one
    return out


def list_parts(data):
    """The encoded messages of one frame's part of a list, and where it ends."""
    at, parts = 0, []
    while at < len(data) and data[at] != 0:
        length, at = read_varint(data, at)
        parts.append(data[at:at + length])
        at += length
    return parts


# ---- frames ----

Frame = namedtuple("Frame", "op flags id handle dtype offset meta payload trailer")
Reply = namedtuple("Reply", "op status reason applied position version durable retry_after_ms result text items frame")


class Closed(Exception):
    """The task has closed the connection; status, reason and text of its CLOSE, None and "" without one."""

    def __init__(self, status=None, reason=None, text=""):
        super().__init__(f"{status}: {text}" if status else "closed without a word")
        self.status, self.reason, self.text = status, reason, text


class Refused(Exception):
    def __init__(self, reply):
        super().__init__(f"{reply.op}: {reply.status}: {reply.text}")
        self.reply = reply


def body_of(payload, crc):
    step, out = PAGE.limits["SEGMENT_BYTES"], b""
    for at in range(0, len(payload), step):
        segment = pad(payload[at:at + step])
        out += segment + (struct.pack("<Q", crc32c(segment)) if crc else b"")
    return out


def frame_bytes(op, number, flags=(), meta=b"", payload=b"", **header):
    """One frame; header: other fields of ps_frame_header, wrong ones too (op may be a number)."""
    flags = set(flags)
    meta = pad(meta)
    body = body_of(payload, "CRC" in flags)
    fields = {"magic": PAGE.limits["FRAME_MAGIC"], "version": PAGE.limits["FRAME_VERSION"], "id": number,
              "op": PAGE.ops[op]["number"] if op in PAGE.ops else op, "flags": PAGE.flag_bits(flags), "meta_bytes": len(meta),
              "body_bytes": len(body)}
    fields.update(header)
    head = PAGE.pack("ps_frame_header", **fields)[:-4]
    return head + struct.pack("<I", header.get("crc", crc32c(head + meta))) + meta + body


class Conn:
    """One connection: frames out, frames in."""

    def __init__(self, address, timeout=30):
        """address: (host, port), the path of a Unix socket, or a connected socket."""
        if isinstance(address, (socket.socket, Secure)):
            self.sock = address
        elif isinstance(address, tuple):
            self.sock = socket.create_connection(address, timeout)
        else:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(timeout)
            self.sock.connect(address)
        self.buffer = b""
        self.ended = False

    def close(self):
        self.sock.close()

    def send(self, op, number, **rest):
        self.sock.sendall(frame_bytes(op, number, **rest))

    def exactly(self, count):
        while len(self.buffer) < count:
            try:
                part = self.sock.recv(1 << 16)
            except ConnectionError:
                part = b""
            if not part:
                self.ended = True
                raise Closed()
            self.buffer += part
        out, self.buffer = self.buffer[:count], self.buffer[count:]
        return out

    def receive(self):
        head = self.exactly(PAGE.size("ps_frame_header"))
        h = PAGE.unpack("ps_frame_header", head)
        meta = self.exactly(h["meta_bytes"])
        body = self.exactly(h["body_bytes"])
        if h["magic"] != PAGE.limits["FRAME_MAGIC"] or crc32c(head[:-4] + meta) != h["crc"]:
            raise ValueError("no frame of psd")
        if h["reserved0"] or h["reserved1"] or h["flags"] >> len(PAGE.flags):
            raise ValueError("a reserved field is set")
        flags = {name for name, bit in PAGE.flags.items() if h["flags"] & bit}
        op = PAGE.op_names.get(h["op"], h["op"])
        trailer = None
        if "VALUE" in flags or (PAGE.ops.get(op, {}).get("good reply") == "values" and "REPLY" in flags and h["offset"] == 0):
            cut = len(body) - PAGE.size("ps_pull_trailer")
            trailer, body = PAGE.unpack("ps_pull_trailer", body[cut:]), body[:cut]
            if trailer["crc"] != (crc32c(self.tail_of(trailer)) if "CRC" in flags else 0):
                raise ValueError("CRC of a trailer")
        payload, crc_bytes, whole = b"", 8 if "CRC" in flags else 0, PAGE.limits["SEGMENT_BYTES"]
        while body:
            segment, body = body[:whole + crc_bytes], body[whole + crc_bytes:]
            values = segment[:len(segment) - crc_bytes]
            if crc_bytes and segment[len(values):] != struct.pack("<Q", crc32c(values)):
                raise ValueError("CRC of a segment")
            payload += values
        return Frame(op, flags, h["id"], h["handle"], h["dtype"], h["offset"], meta, payload, trailer)

    @staticmethod
    def tail_of(trailer):
        return PAGE.pack("ps_pull_trailer", **trailer)[:-4]

    def end(self):
        """Everything up to the end of the stream: the last CLOSE as (status, text), or (None, "")."""
        said = Closed()
        try:
            while True:
                frame = self.receive()
                if frame.op == "CLOSE":
                    reply = read_reply(frame)
                    said = Closed(reply.status, reply.reason, reply.text)
        except Closed:
            return said.status, said.text


def answers(op):
    """What stands in the body of a good reply; op may be one that the page does not have."""
    return PAGE.ops.get(op, {"good reply": ""})["good reply"].replace(" MORE", "").split(", ")


def read_reply(frame):
    if frame.trailer is not None:
        m = PAGE.unpack("ps_pull_reply_meta", frame.meta)
        return Reply(frame.op, PAGE.status_names[0], "NONE", 0, 0, m["version"], m["durable"], 0, frame.payload, "", [], frame)
    at = PAGE.size("ps_reply_meta")
    m = PAGE.unpack("ps_reply_meta", frame.meta)
    result = frame.meta[at:at + m["result_bytes"]]
    at += len(pad(result))
    text = frame.meta[at:at + m["text_bytes"]].decode()
    return Reply(frame.op, PAGE.status_names[frame.offset], PAGE.reason(m["reason"], frame.offset), m["applied"], m["position"],
                 m["version"], m["durable"], m["retry_after_ms"], result, text, [], frame)


def times_of(frame):
    """How long the task had the request, where its reply says so; None: it does not."""
    return PAGE.unpack("ps_times", frame.meta[-PAGE.size("ps_times"):]) if "TIMES" in frame.flags else None


class Secure:
    """As a socket: TLS with the first key of a key file, by the program openssl, because Python's own TLS knows certificates alone.
    Python 3.13 knows keys."""

    def __init__(self, address, key_file):
        with open(key_file, encoding="ascii") as file:
            name, key_id, role, secret = file.readline().split()[:4]
        mine, other = socket.socketpair()
        with other:
            self.process = subprocess.Popen(
                ["openssl", "s_client", "-quiet", "-connect", "%s:%d" % address, "-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256",
                 "-alpn", "psd/1", "-psk", secret, "-psk_identity", f"psd1::{role}:{name}:{key_id}"],
                stdin=other, stdout=other, stderr=subprocess.DEVNULL)
        self.recv, self.sendall, self.sock = mine.recv, mine.sendall, mine

    def close(self):
        self.sock.close()
        self.process.kill()
        self.process.wait()


def connected(address, timeout=30):
    """(socket, does it check its bytes itself): TLS where PSD_KEY_FILE names a key (make check TRANSPORT=tls)."""
    key_file = os.environ.get("PSD_KEY_FILE")
    return (Secure(address, key_file), True) if key_file else (socket.create_connection(address, timeout), False)


# ---- a session at one task ----

class Client:
    """One session at one task, with its record there."""

    def __init__(self, address, crc=True, session=None):
        self.address = address
        self.flags = {"CRC"} if crc else set()
        self.session = session or os.urandom(PAGE.size("ps_frame_header"))[:self.bound("Hello", "session")]
        self.connection = self.record = self.life = 0
        self.next_number = self.next_id = 1
        self.conn = None
        self.tasks, self.numbers, self.answer = [], {}, None
        self.replies = {}  # that came while another one was waited for: (op, SEQ, id) -> [Frame]
        self.values = []  # VALUE frames

    @staticmethod
    def bound(message, field):
        return next(int(row["at most"]) for row in PAGE.rows(message) if row["field"] == field)

    def cut(self):
        if self.conn is not None:
            self.conn.close()
        self.conn = None

    def close(self):
        self.cut()

    # -- frames of requests

    def send(self, op, number, flags=(), **rest):
        self.conn.send(op, number, flags=set(flags) | self.flags, **rest)

    def take(self, op, number, seq=False):
        """The next reply frame of (op, number)."""
        key = (op, seq, number)
        while not self.replies.get(key):
            frame = self.conn.receive()
            if frame.op == "CLOSE":
                reply = read_reply(frame)
                raise Closed(reply.status, reply.reason, reply.text)
            if "VALUE" in frame.flags:
                self.values.append(frame)
            else:
                self.replies.setdefault((frame.op, "SEQ" in frame.flags, frame.id), []).append(frame)
        return self.replies[key].pop(0)

    def reply(self, op, number, seq=False):
        """The whole reply, its list gathered over frames with MORE; items decoded as the operation's row says."""
        parts, frame = [], None
        while frame is None or "MORE" in frame.flags:
            frame = self.take(op, number, seq)
            parts += list_parts(frame.payload) if frame.trailer is None and op != "CALL" else []
        kinds = answers(op)
        reply = read_reply(frame)
        if kinds[0] in PAGE.messages and len(kinds) == 1:
            parts = [decode(kinds[0], part) for part in parts]
        return reply._replace(items=parts)

    def ask(self, op, meta=None, items=None, number=None, frames=None, good=True):
        """A request: meta and items are dicts of the messages that its row names. `frames`: items a frame, with MORE."""
        number = self.start(op, meta, items, number, frames)
        reply = self.reply(op, number)
        if good and reply.status != "OK":
            raise Refused(reply)
        return reply

    def start(self, op, meta=None, items=None, number=None, frames=None):
        row = PAGE.ops[op]
        if number is None:
            number, self.next_id = self.next_id, self.next_id + 1
        encoded = encode(row["meta"], meta) if meta is not None else b""
        items = items or []
        step = frames or max(len(items), 1)
        for at in range(0, max(len(items), 1), step):
            more = {"MORE"} if at + step < len(items) else set()
            self.send(op, number, flags=more, meta=encoded, payload=encode_list(row["body"], items[at:at + step]) if items else b"")
        return number

    def acknowledge(self, number):
        self.send("ACK", number)

    # -- HELLO

    def hello(self, unresolved=(), abandoned=(), job="", task=0, **more):
        """A new connection; returns the states of the unresolved numbers: {number: NumberItem}."""
        self.cut()
        self.replies, self.values = {}, []
        self.conn = Conn(self.address)
        self.connection += 1
        meta = {"protocol": PAGE.limits["FRAME_VERSION"], "features": sum(PAGE.features.values()), "session": self.session, "connection": self.connection,
                "next_number": self.next_number, "record": self.record, "job": job, "task": task, "program": "pyclient"}
        meta.update(more)
        items = [{"number": n, "abandoned": n in abandoned} for n in sorted(set(unresolved) | set(abandoned))]
        reply = self.ask("HELLO", meta, items, number=0)
        kinds = answers("HELLO")
        answer = decode(kinds[0], reply.items[0])
        if answer["needs"] & ~sum(PAGE.features.values()):
            raise ValueError(f"the task needs features {answer['needs']:x}")
        rest = reply.items[1:]
        self.tasks = [decode(kinds[1], part) for part in rest[:answer["task_count"]]]
        self.numbers = {n["number"]: n for n in (decode(kinds[2], part) for part in rest[answer["task_count"]:])}
        for item in self.numbers.values():
            item["state"] = PAGE.states[item["state"]]
        self.answer, self.record, self.life = answer, answer["record"], answer["life"]
        return self.numbers

    def goodbye(self):
        reply = self.ask("GOODBYE")
        self.cut()
        return reply

    # -- variables

    def create(self, name, dtype, dims, optimizer=None, container="", job="ps", task=0, **more):
        item = {"container": container, "name": name, "dtype": PAGE.dtypes[dtype][0], "dims": dims, "job": job, "task": task,
                "optimizer": optimizer, **more}
        number = self.start("CREATE", items=[item])
        reply = self.reply("CREATE", number)
        self.acknowledge(number)
        if reply.status != "OK" or PAGE.status_names[reply.items[0]["status"]] != "OK":
            bad = reply.items[0] if reply.items else None
            raise Refused(reply if bad is None else reply._replace(
                status=PAGE.status_names[bad["status"]], reason=PAGE.reason(bad["reason"], bad["status"]), text=bad["text"].decode()))
        return reply.items[0]

    def open(self, name, container=""):
        item = self.ask("OPEN", items=[{"container": container, "name": name}]).items[0]
        item["reason"] = PAGE.reason(item["reason"], item["status"])
        item["status"] = PAGE.status_names[item["status"]]
        return item

    def number(self):
        number, self.next_number = self.next_number, self.next_number + 1
        return number

    def init(self, v, kind="ZEROS", chief=0, force=False, optimizer=None, **more):
        number = self.number()
        meta = {"kind": PAGE.kind("Initializer", kind), "chief_number": chief, "force": force,
                "optimizer": optimizer or v["optimizer"], **more}
        self.send("INIT", number, flags=PAGE.ops["INIT"]["flags"].split(), handle=v["handle"], meta=encode("Init", meta))
        return self.reply("INIT", number, True)

    def frames(self, op, number, v, payload, total, first=0, dtype=None, scale=1.0, assign_flags=0, most=None,
               version=0, member=0, round_=0, times=False):
        """The frames of an operation from element `first` on, as bytes; payload holds all of it."""
        code = dtype or v["dtype"]
        unit = next(size for number_, size in PAGE.dtypes.values() if number_ == code) or 1
        step = (most or PAGE.limits["FRAME_BODY_MAX"]) // PAGE.limits["SEGMENT_BYTES"] * PAGE.limits["SEGMENT_BYTES"]
        at = first * unit
        while at < len(payload) or at == 0:
            flags = {"SEQ"} | self.flags | ({"FIRST"} if at == 0 else set()) | ({"TIMES"} if times and at == 0 else set()) | ({"LAST"} if at + step >= len(payload) else set())
            meta = (b"" if at > 0 else
                    PAGE.pack("ps_contribute_meta", total_elements=total, scale=scale, member=member, round=round_) if op == "CONTRIBUTE" else
                    PAGE.pack("ps_push_meta", total_elements=total, scale=scale, assign_flags=assign_flags, version=version))
            yield frame_bytes(op, number, flags=flags, meta=meta, payload=payload[at:at + step], handle=v["handle"], dtype=code,
                              offset=at // unit)
            at += step

    def mutate(self, op, v, payload, total, number=None, first=0, **more):
        """The whole operation, and its reply."""
        number = self.number() if number is None else number
        for frame in self.frames(op, number, v, payload, total, first, **more):
            self.conn.sock.sendall(frame)
        return self.reply(op, number, True)

    def push(self, v, values, op="PUSH", **more):
        return self.mutate(op, v, pack_floats(values), len(values), **more)

    def pull(self, v, first, count, dtype=None):
        """(values as bytes, version, exact)"""
        number, self.next_id = self.next_id, self.next_id + 1
        self.send("PULL", number, handle=v["handle"], dtype=dtype or v["dtype"], offset=first,
                  meta=PAGE.pack("ps_pull_meta", elements=count))
        reply = self.reply("PULL", number)
        if reply.status != "OK":
            raise Refused(reply)
        m, t = PAGE.unpack("ps_pull_reply_meta", reply.frame.meta), reply.frame.trailer
        exact = m["version"] == t["version"] and m["in_progress"] == t["in_progress"] == 0
        return reply.result, m["version"], exact

    def floats(self, v, count):
        return unpack_floats(self.pull(v, 0, count)[0], count)

    def abandon(self, number):
        self.send("ABANDON", number, flags={"SEQ"})
        reply = self.reply("ABANDON", number, True)
        return PAGE.states[reply.result[0]]


def pack_floats(values):
    return struct.pack(f"<{len(values)}f", *values)


def unpack_floats(data, count):
    return list(struct.unpack_from(f"<{count}f", data))
