# SPDX-License-Identifier: Apache-2.0
"""Free ports of 127.0.0.1, for servers that tests start and for addresses where nobody is to answer."""
import random
import socket

FIRST, END = 16384, 32768  # below those that Linux gives by itself, to port 0 and to whoever connects: none of these takes one
given = {}  # port: what keeps it from other tests until this process ends


def keep(port):
    """A name that one process of a network has at a time: other tests that are given ports leave this one alone, also while nobody
    listens there. False: another test has it."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind("\0psd-test-port-%d" % port)
    except OSError:
        name.close()
        return False
    given[port] = name
    return True


def is_free(port):
    with socket.socket() as s:
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port():
    """A port that nobody has; none is given twice, nor to another test that runs meanwhile."""
    while True:
        port = random.randrange(FIRST, END)
        if port not in given and is_free(port) and keep(port):
            return port


def free_ports(count):
    """The first of so many free ports in a row; none of them is returned again."""
    while True:
        first = free_port()
        row = range(first + 1, first + count)
        if first + count <= END and all(port not in given and is_free(port) and keep(port) for port in row):
            return first
