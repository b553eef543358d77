# SPDX-License-Identifier: Apache-2.0
"""Sessions that are opened and closed leave nothing: descriptors, threads, memory."""

import json
import os
import subprocess
import sys
import textwrap
import unittest

import psd

SESSIONS = """
    import gc, json, os, sys, threading
    import numpy as np
    import psd

    def one(i):
        s = psd.Session(sys.argv[1], container=f"c{i % 7}", log_level="error")
        s.variable("v", 1000).assign(np.ones(1000, "f4"))
        w = s.param("w", (100, 10), psd.ones(), psd.SGD(0.1))
        s.ready()
        s.pull()
        w.push(np.ones((100, 10), "f4"))
        s.step_done()
        s.queue("q").put(1)
        s.find_queue("q").take()
        kept = w.value
        if i % 10 == 0:
            return  # collected, not closed
        if i % 10 == 1:
            try:
                with s:
                    raise ValueError
            except ValueError:
                pass
        s.close()
        assert kept.shape == (100, 10)

    def numbers():
        gc.collect()
        with open("/proc/self/statm") as statm:
            pages = int(statm.read().split()[1])
        return {"descriptors": len(os.listdir("/proc/self/fd")), "threads": len(os.listdir("/proc/self/task")),
                "rss": pages * os.sysconf("SC_PAGE_SIZE"), "objects": len(gc.get_objects())}

    count = int(sys.argv[2])
    for i in range(count // 5):
        one(i)
    before = numbers()
    for i in range(count):
        one(i)
    print(json.dumps([before, numbers()]))
"""


class Leaks(unittest.TestCase):
    def test_sessions(self):
        count = int(os.environ.get("PSD_TEST_SESSIONS", "1000"))
        with psd.local_cluster() as cluster:
            words = [sys.executable, "-c", textwrap.dedent(SESSIONS), cluster.target, str(count)]
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", check=True)
        before, after = json.loads(done.stdout)
        self.assertEqual(after["descriptors"], before["descriptors"])
        self.assertEqual(after["threads"], before["threads"])
        self.assertLess(after["objects"], before["objects"] + count // 10)
        if "asan" not in os.environ.get("PSD_BUILD", ""):  # it keeps freed memory for a while
            self.assertLess(after["rss"], before["rss"] + (4 << 20), (before, after))


if __name__ == "__main__":
    unittest.main()
