# SPDX-License-Identifier: Apache-2.0
"""Changes of a live model that make the next checkpoint another one than the last: without one no checkpoint is made."""
import itertools
import os
import time

from pyclient import Client, Refused, connected

WAIT_S = 600
_counts = itertools.count()


def change(address):
    """One variable more, with a value, at the first ps task, which has this address; in a container of its own."""
    host, port = address.rsplit(":", 1)
    way, checks = connected((host, int(port)))
    c = Client(way, crc=not checks)
    c.hello()
    name = "change-%d-%d" % (os.getpid(), next(_counts))
    end = time.monotonic() + WAIT_S
    while True:
        try:
            c.create(name, "F32", [1], container="changes")
            break
        except Refused as refused:  # the directory waits for other tasks
            if refused.reply.status != "UNAVAILABLE" or time.monotonic() > end:
                raise
            time.sleep(0.1)  # sleep: the directory tells nobody when all tasks have listed
    c.init(c.open(name, container="changes"))
    c.goodbye()
