#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example hello_local: a text is evaluated by an in-process server and comes back, whole."""
import ast
import os
import subprocess
import sys
import unittest

from cluster import main, path, run

HELLO = path("examples/hello_local")


def whole(text):
    """(exit status, standard output, standard error) as bytes."""
    done = subprocess.run([HELLO, text], stdin=subprocess.DEVNULL, capture_output=True, timeout=600, check=False)
    return done.returncode, done.stdout, done.stderr


def strange(err):
    """Lines of standard error that nobody expects. At the end the executor's session may still be there, which it says."""
    return [line for line in err.splitlines() if "ev=disconnected" not in line]


class Hello(unittest.TestCase):
    def test_default(self):
        code, out, err = run(HELLO)
        self.assertEqual((code, out, strange(err)), (0, "b'Hello distributed TensorFlow!'\n", []))

    def test_other_texts(self):
        for text in ("", "x", "Grüße, 世界 \U0001f30d", "line 1\x0bline 2\x7f \\ '", "y" * 100000):
            code, out, err = whole(text)
            self.assertEqual((code, strange(err.decode())), (0, []))
            self.assertTrue(out.startswith(b"b'") and out.endswith(b"'\n"))
            self.assertEqual(ast.literal_eval(out.decode()), text.encode())

    def test_usage(self):
        code, out, err = run(HELLO, "a", "b")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("usage: hello_local [TEXT]", err)

    def test_help_of_all_examples(self):
        for name in sorted(os.listdir(path("examples"))):
            code, out, err = run(path("examples/" + name), "--help")
            self.assertEqual((code, err), (0, ""))
            self.assertTrue(out.startswith("usage: " + name), out)
            self.assertTrue("[FLAGS]" not in out or out.endswith("print this\n"), out)  # nothing follows


if __name__ == "__main__":
    sys.exit(main(unittest))
