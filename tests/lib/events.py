# SPDX-License-Identifier: Apache-2.0
"""Event files of TensorBoard, read with nothing but Python's standard library: records, their checksums, and the few fields of Event
that matter. And where TensorBoard's own reader is, if this machine has it."""
import json
import os
import struct
import subprocess
import sys


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xa282ead8) & 0xffffffff


def records(path):
    """The data of each record; the file ends with a whole one."""
    with open(path, "rb") as file:
        text = file.read()
    found, at = [], 0
    while at < len(text):
        length, crc = struct.unpack_from("<QI", text, at)
        assert crc == masked(text[at:at + 8]), "%s: the length at byte %d" % (path, at)
        data = text[at + 12:at + 12 + length]
        assert struct.unpack_from("<I", text, at + 12 + length)[0] == masked(data), "%s: the record at byte %d" % (path, at)
        found.append(data)
        at += 16 + length
    return found


def fields(data):
    """[(number, value)] of a message: whole numbers, 4 or 8 bytes, or bytes."""
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    found, at = [], 0
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            length = {1: 8, 5: 4}.get(key & 7) or varint()
            value = data[at:at + length]
            assert len(value) == length
            at += length
        found.append((key >> 3, value))
    return found


def events(path):
    """Each as {"wall_time", "step"} and one of "version", "start", "values" ({tag: value})."""
    found = []
    for data in records(path):
        event = {"step": 0}
        for number, value in fields(data):
            if number == 1:
                event["wall_time"] = struct.unpack("<d", value)[0]
            elif number == 2:
                event["step"] = value
            elif number == 3:
                event["version"] = value.decode()
            elif number == 7:
                event["start"] = dict(fields(value)) == {1: 1}
            elif number == 5:
                event["values"] = {}
                for _, one in fields(value):
                    of = dict(fields(one))
                    event["values"][of[1].decode()] = struct.unpack("<f", of[2])[0]
        found.append(event)
    return found


def files(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.startswith("events.out.tfevents."))


def scalars(folder):
    """{tag: [[step, value], ...]} of all its files, by this reader."""
    found = {}
    for path in files(folder):
        for event in events(path):
            for tag, value in event.get("values", {}).items():
                found.setdefault(tag, []).append([event["step"], value])
    return found


READ = """
import json, logging, sys
from tensorboard.backend.event_processing import event_accumulator
a = event_accumulator.EventAccumulator(sys.argv[1], size_guidance={event_accumulator.SCALARS: 0, event_accumulator.TENSORS: 0})
a.Reload()
found = {tag: [[e.step, e.value] for e in a.Scalars(tag)] for tag in a.Tags()["scalars"]}
json.dump(found, sys.stdout)
"""
TENSORBOARDS = (os.environ.get("TENSORBOARD_PYTHON"), sys.executable, "build/tensorboard/bin/python", "build/bench/venv/bin/python")
NO_TENSORBOARD = ("no TensorBoard: python3 -m venv build/tensorboard && build/tensorboard/bin/pip install tensorboard setuptools, or "
                  "TENSORBOARD_PYTHON=a python that has it")


def tensorboard():
    """A python that has TensorBoard, or None."""
    look = "import tensorboard.backend.event_processing.event_accumulator"
    for python in TENSORBOARDS:
        if python and os.access(python, os.X_OK) and \
                subprocess.run([python, "-c", look], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return python
    return None


def tensorboard_scalars(python, folder):
    """As scalars(), by TensorBoard's own reader."""
    done = subprocess.run([python, "-c", READ, folder], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return json.loads(done.stdout)
