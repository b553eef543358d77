#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A host that shares no network with any other: `unshare -rn alone.py FOLDER SERVED FORWARDED COMMAND ...`. Its 127.0.0.1 is its own. What
stands in the place of ssh: connections to FORWARDED ports (a,b or -) of its 127.0.0.1 come out at the same port of the host that has
it among its SERVED ones, through a Unix socket in FOLDER for each port."""
import fcntl
import os
import socket
import struct
import subprocess
import sys
import threading

from cluster import die_with_parent

SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))


def copy(source, to):
    try:
        while data := source.recv(65536):
            to.sendall(data)
        to.shutdown(socket.SHUT_WR)
    except OSError:
        source.close()
        to.close()


def carry(listener, family, address):
    while True:
        here = listener.accept()[0]
        there = socket.socket(family)
        try:
            there.connect(address)
        except OSError:  # nobody listens there yet: as ssh, which closes the channel
            here.close()
            there.close()
            continue
        for pair in ((here, there), (there, here)):
            threading.Thread(target=copy, args=pair, daemon=True).start()


def listen(family, address):
    s = socket.socket(family)
    s.bind(address)
    s.listen(64)
    return s


def main():
    folder, served, forwarded, command = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    loopback_up()
    for ports, mine in ((served, True), (forwarded, False)):
        for port in [] if ports == "-" else ports.split(","):
            tcp, unix = (socket.AF_INET, ("127.0.0.1", int(port))), (socket.AF_UNIX, os.path.join(folder, port))
            at, to = (unix, tcp) if mine else (tcp, unix)
            threading.Thread(target=carry, args=(listen(*at), *to), daemon=True).start()
    return subprocess.run(command, check=False, preexec_fn=die_with_parent).returncode


if __name__ == "__main__":
    sys.exit(main())
