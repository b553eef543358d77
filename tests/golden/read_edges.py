#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""What the frames of tests/golden/edges mean, by the reader of read_frames.py, which is written from docs/PROTOCOL.md
alone; and that it refuses the bad_* frames for the right reason.

  read_edges.py DIRECTORY
"""
import os
import struct
import sys

from read_frames import PAGE, SEGMENT, Bad, Frame, check, crc32c, items, message, read_hex, same

F32, I64 = 1, 4
CONTROL_BODY_MAX = PAGE.limits["CONTROL_BODY_MAX"]
ADAM = {"kind": 4, "learning_rate": 0.002, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}


def is_frame(frame, op, flags, number, **want):
    check(frame.op == op and frame.flags == set(flags.split()) and frame.id == number, f"is {frame}")
    for name, value in want.items():
        check(getattr(frame, name) == value, f"{name} is {getattr(frame, name)!r}, not {value!r}")


def seal(f):
    is_frame(f, 34, "CRC", 12)
    same(message("Seal", f.meta), chief_number=6)
    check(items(f.payload, "HandleItem") == [{"handle": 17, "creation": 78}], "handles")


def wait(f):
    is_frame(f, 35, "CRC", 13)
    same(message("Wait", f.meta), timeout_ms=30000, condition=2)
    check(items(f.payload, "HandleItem") == [{"handle": 17, "creation": 78}], "handles")


def call(f):
    is_frame(f, 36, "CRC", 15, payload=b"hello\0\0\0")
    same(message("Call", f.meta), name=b"psd.echo", timeout_ms=5000, in_bytes=5)


def call_large(f):
    is_frame(f, 36, "CRC", 16, payload=b"its head")
    same(message("Call", f.meta), name=b"psd.echo", timeout_ms=5000, in_bytes=200003, out_bytes=300000)


def called(f):
    is_frame(f, 36, "CRC REPLY", 15, payload=b"hello\0\0\0")
    same(f.reply_meta(), status=0, applied=0, result=struct.pack("<Q", 5))


def push_single(f):
    is_frame(f, 16, "SEQ FIRST LAST", 2, handle=17, dtype=F32, offset=0, trailer=None)
    same(f.push_meta(), total=5, scale=0.5, assign=0)
    check(f.floats(5) == [0.25, 0.5, 0.75, 1.0, 1.25] and f.payload[20:] == bytes(4), "values and padding")


def push_first(f):
    is_frame(f, 16, "CRC SEQ FIRST", 4, handle=17, dtype=F32, offset=0)
    same(f.push_meta(), total=SEGMENT // 4 + 3, scale=1.0, assign=0)
    check(f.payload == struct.pack("<f", 1.0) * (SEGMENT // 4), "a whole segment of ones")


def push_continuation(f):
    is_frame(f, 16, "CRC SEQ LAST", 4, handle=17, dtype=F32, offset=SEGMENT // 4, meta=b"")
    check(f.floats(3) == [-2.0] * 3 and len(f.payload) == 16, "what is left of the operation, padded")


def subtract_first(f):
    is_frame(f, 20, "CRC SEQ FIRST", 9, handle=17, dtype=F32, offset=0)
    same(f.push_meta(), total=SEGMENT // 4 + 3, scale=-1.0, assign=0)
    check(f.payload == struct.pack("<f", 1.0) * (SEGMENT // 4), "a whole segment of ones")


def subtract_continuation(f):
    is_frame(f, 20, "CRC SEQ LAST", 9, handle=17, dtype=F32, offset=SEGMENT // 4, meta=b"")
    check(f.floats(3) == [-2.0] * 3 and len(f.payload) == 16, "what is left of the operation, padded")


def push_partly(f):
    is_frame(f, 16, "SEQ REPLY", 4, handle=17, payload=b"")
    same(f.reply_meta(), status=3, applied=1, reason=49, position=0, version=14, retry_after_ms=0, result=b"",
         text="gradient of 'layer1/w': element 16385 is NaN or infinite")


def push_busy(f):
    is_frame(f, 16, "SEQ REPLY", 9, handle=17, payload=b"")
    same(f.reply_meta(), status=8, applied=0, reason=35, retry_after_ms=20, text="/job:ps/task:1: 9 pushes in progress, 8 of this session")


def pull_ragged(f):
    is_frame(f, 17, "CRC", 14, handle=17, dtype=F32, offset=20, payload=b"", trailer=None)
    check(struct.unpack("<II", f.meta) == (5, 0), "elements")


def pull_moved(f):
    is_frame(f, 17, "CRC REPLY", 14, handle=17, dtype=F32, offset=0)
    same(f.pull_reply_meta(), version=12, durable=0, in_progress=0)
    same(f.trailer, version=13, in_progress=2)
    check(f.floats(5) == [0.25] * 5, "values")


def pushpull_value(f):
    is_frame(f, 18, "CRC SEQ REPLY VALUE", 6, handle=17, dtype=F32, offset=SEGMENT // 4)
    same(f.pull_reply_meta(), version=13, in_progress=1)
    same(f.trailer, version=13, in_progress=1)
    check(f.floats(3) == [0.75] * 3 and len(f.payload) == 16, "values")


def add(f):
    is_frame(f, 20, "CRC SEQ FIRST LAST", 8, handle=18, dtype=I64, offset=0)
    same(f.push_meta(), total=1, scale=1.0, assign=0)
    check(f.payload == struct.pack("<q", 1), "delta")


def abandon(f):
    is_frame(f, 4, "SEQ", 7, meta=b"", payload=b"")


def ping(f):
    is_frame(f, 3, "", 40, meta=b"", payload=b"")


def durable(f):
    is_frame(f, 6, "", 0, offset=1000, meta=b"", payload=b"")


def close(f):
    is_frame(f, 7, "REPLY", 0, payload=b"")
    same(f.reply_meta(), status=3, applied=0, result=b"", text="PUSH: flag MORE has no place there")


def list_(f):
    is_frame(f, 80, "CRC MORE", 1)
    check(items(f.payload, "ListItem") == [{"container": b"localhost", "name": b"layer1/w", "dtype": 1, "dims": [64, 10],
                                      "optimizer_kind": 4}], "names")


def task_create(f):
    is_frame(f, 82, "CRC", 2)
    (item,) = items(f.payload, "CreateItem")
    same(item, container=b"localhost", name=b"layer1/w", dtype=F32, dims=[64, 10], job=b"ps", task=1, pinned=1, optimizer=ADAM)


def task_created(f):
    is_frame(f, 82, "REPLY", 2, payload=b"")
    same(f.reply_meta(), status=0, result=bytes([1]))


def task_displaced(f):
    is_frame(f, 1, "REPLY", 0, payload=b"")
    same(f.reply_meta(), status=9, applied=0, reason=47, result=b"", retry_after_ms=1000,
         text="/job:ps/task:1 is process 22 on right now, which came after this one")


MEANINGS = {"seal": seal, "wait": wait, "call": call, "call_large": call_large, "called": called, "task_displaced": task_displaced,
            "push_single": push_single, "push_first": push_first, "push_continuation": push_continuation, "push_partly": push_partly, "push_busy": push_busy, "pull_ragged": pull_ragged, "pull_moved": pull_moved,
            "pushpull_value": pushpull_value, "add": add, "subtract_first": subtract_first, "subtract_continuation": subtract_continuation, "abandon": abandon, "ping": ping, "durable": durable, "close": close, "list": list_,
            "task_create": task_create, "task_created": task_created}
# bad frame: what the reader says; None: it is refused by its header alone, of which nothing but the named thing is wrong
BAD = {"bad_magic": "magic or version", "bad_header_crc": "CRC of header and meta", "bad_meta": "CRC of header and meta",
       "bad_segment_crc": "CRC of a segment", "bad_flag": "reserved fields", "bad_reserved": "reserved fields",
       "bad_ragged_meta": "lengths", "bad_body": None}


def refused(name, data):
    if BAD[name] is None:
        body_bytes, = struct.unpack_from("<I", data, 20)
        check(crc32c(data[:36]) == struct.unpack_from("<I", data, 36)[0] and len(data) == 40, "its header is not what it should be")
        check(body_bytes == CONTROL_BODY_MAX + 8, f"a body of {body_bytes} bytes")
        return
    try:
        Frame(data)
    except Bad as error:
        check(str(error) == BAD[name], f"refused for '{error}'")
        return
    raise Bad("is taken for a good frame")


def problem_of(name, data):
    if name in BAD:
        refused(name, data)
        return
    frame = Frame(data)
    check(frame.bytes == len(data), "bytes after the frame")
    MEANINGS[name](frame)
    # all bytes are under a CRC, but without the flag those of a body are not
    covered = range(len(data) if "CRC" in frame.flags else 40 + len(frame.meta))
    for at in covered if len(data) < 4096 else [*covered[:64], *covered[-32:]]:
        broken = bytearray(data)
        broken[at] ^= 1 << at % 8
        try:
            Frame(bytes(broken))
        except Bad:
            continue
        raise Bad(f"byte {at} is changed, and nothing is wrong")


def main():
    names = sorted(name[:-4] for name in os.listdir(sys.argv[1]) if name.endswith(".hex"))
    known = {**MEANINGS, **BAD}
    problems = [f"{name}: nobody knows what it means" for name in names if name not in known]
    problems += [f"{name}: no such file" for name in known if name not in names]
    for name in names:
        try:
            problem_of(name, read_hex(os.path.join(sys.argv[1], name + ".hex")))
        except (Bad, KeyError, struct.error, UnicodeDecodeError) as error:
            problems.append(f"{name}: {error}")
    for problem in problems:
        print(problem)
    print(f"{len(names)} files of frames, {len(problems)} problems")
    return 1 if problems or not names else 0


if __name__ == "__main__":
    sys.exit(main())
