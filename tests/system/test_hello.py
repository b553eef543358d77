#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example hello_local: a text goes to an in-process server and comes back, whole."""
import subprocess
import sys
import unittest

from cluster import main, path, run

HELLO = path("examples/hello_local")


def whole(text):
    """(exit status, standard output, standard error) as bytes."""
    done = subprocess.run([HELLO, text], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


class Hello(unittest.TestCase):
    def test_default(self):
        self.assertEqual(run(HELLO), (0, "Hello, distributed TensorFlow!\n", ""))

    def test_other_texts(self):
        # an argument is at most 128 KiB on Linux; the value itself may be 1 MiB (test_local_server.c)
        for text in ("", "x", "Grüße, 世界 \U0001f30d", "line 1\nline 2\t\\", "y" * 100000):
            self.assertEqual(whole(text), (0, text.encode() + b"\n", b""))

    def test_usage(self):
        code, out, err = run(HELLO, "a", "b")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("usage: hello_local [TEXT]", err)

    def test_help_of_all_examples(self):
        for name in ("hello_local", "cluster", "placement", "simple_client", "softmax", "accumulator"):
            code, out, err = run(path("examples/" + name), "--help")
            self.assertEqual((code, err), (0, ""))
            self.assertTrue(out.startswith("usage: " + name), out)


if __name__ == "__main__":
    sys.exit(main(unittest))
