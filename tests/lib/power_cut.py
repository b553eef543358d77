# SPDX-License-Identifier: Apache-2.0
"""What a disk has after a power cut, of a process that ran with tests/lib/shim/disk.c: of what was not synced any 512 bytes may be
old or new, any file as long as it was or is, any name in a directory as it was or is."""
import os
import shutil

SECTOR = 512


class File:
    def __init__(self, data=b""):
        self.durable, self.now, self.dirty = bytes(data), bytearray(data), []

    def write(self, offset, data):
        self.now.extend(bytes(max(0, offset - len(self.now))))
        self.now[offset:offset + len(data)] = data
        self.dirty.append((offset, len(data)))

    def truncate(self, size):
        self.dirty.append((min(size, len(self.now)), abs(size - len(self.now))))
        self.now = self.now[:size] + bytes(max(0, size - len(self.now)))

    def sync(self):
        self.durable, self.dirty = bytes(self.now), []

    def cut(self, rng):
        size = len(self.now) if rng.random() < 0.5 else len(self.durable)
        out = bytearray(self.durable[:size].ljust(size, b"\0"))
        keep = rng.random()  # nearly all of it, nearly nothing, or some
        for offset, count in self.dirty:
            for at in range(offset - offset % SECTOR, min(offset + count, size), SECTOR):
                if rng.random() < keep:
                    end = min(at + SECTOR, size)
                    out[at:end] = self.now[at:end].ljust(end - at, b"\0")
        return bytes(out)


class Directory:
    def __init__(self):
        self.durable, self.now = {}, {}

    def sync(self):
        self.durable = dict(self.now)

    def cut(self, rng):
        keep = rng.random()
        names = {}
        for name in sorted(self.durable.keys() | self.now.keys()):
            entry = (self.now if rng.random() < keep else self.durable).get(name)
            if entry is not None:
                names[name] = entry
        return names


class Disk:
    """The directory `top`; what lies there now is durable."""

    def __init__(self, top):
        self.top, self.nodes = top, {}
        self.root = self.read(top)

    def read(self, path):
        inode = os.stat(path).st_ino
        if os.path.isdir(path):
            node = Directory()
            node.now = {name: self.read(os.path.join(path, name)) for name in os.listdir(path)}
            node.sync()
        else:
            with open(path, "rb") as f:
                node = File(f.read())
        self.nodes[inode] = node
        return node

    def run(self, log):
        """What the record says was done."""
        with open(log, "rb") as f:
            data = f.read()
        at, calls = 0, 0
        while at < len(data):
            end = data.find(b"\n", at)
            if end < 0:
                break  # the process was killed while it was written, before anybody heard of the call
            word, *rest = data[at:end].decode().split(" ")
            at = end + 1
            node = self.nodes.get(int(rest[0]))
            if word == "W":
                n = int(rest[2])
                if at + n > len(data):
                    break
                node.write(int(rest[1]), data[at:at + n])
                at += n
            elif word == "T":
                node.truncate(int(rest[1]))
            elif word == "S":
                node.sync()
            elif word in "CM":
                node.now[rest[1]] = self.nodes[int(rest[2])] = File() if word == "C" else Directory()
            elif word == "U":
                node.now.pop(rest[1])
            elif word == "R":
                node.now[rest[2]] = node.now.pop(rest[1])
            else:
                raise ValueError(data[at:end])
            calls += 1
        return calls

    def tree(self, node=None, rng=None):
        """{path: bytes of a file, or None of a directory}, as it is, or with rng as a power cut leaves it."""
        found = {}
        todo = [("", node or self.root)]
        while todo:
            path, one = todo.pop()
            if isinstance(one, File):
                found[path] = bytes(one.now) if rng is None else one.cut(rng)
                continue
            if path:
                found[path] = None
            names = one.now if rng is None else one.cut(rng)
            todo += [(os.path.join(path, name), names[name]) for name in sorted(names)]
        return found

    def cut(self, rng):
        """The power is gone: write what is left."""
        left = self.tree(rng=rng)
        for name in os.listdir(self.top):
            shutil.rmtree(os.path.join(self.top, name))
        for path in sorted(left):
            if left[path] is None:
                os.mkdir(os.path.join(self.top, path), 0o700)
            else:
                with open(os.path.join(self.top, path), "wb") as f:
                    f.write(left[path])


def tree_of(top):
    """As Disk.tree(), of what lies there."""
    return Disk(top).tree()
