#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-sanitizers: none (it compiles headers and runs nothing)
"""The public structs are as tests/golden/abi says, in C11 and in C++17; declarations and reference of the Python package are as made."""
import os
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Abi(unittest.TestCase):
    def test_structs(self):
        done = subprocess.run([os.path.join(ROOT, "scripts/abi"), "check"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              encoding="utf-8")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_reference_of_the_python_package(self):
        done = subprocess.run([os.path.join(ROOT, "scripts/python_docs"), "check"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              encoding="utf-8")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_shape_of_too_many_dimensions_does_not_compile(self):
        for n in (1, 8, 9, 16, 17):
            for words in (("gcc", "-std=c11", "-xc"), ("g++", "-std=c++17", "-xc++")):
                text = "#include <ps.h>\nps_shape shape(void);\nps_shape shape(void) { return PS_SHAPE(%s); }\n" % ", ".join(map(str, range(1, n + 1)))
                done = subprocess.run([*words, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", os.path.join(ROOT, "worker"),
                                       "-I", os.path.join(ROOT, "common"), "-"], input=text, capture_output=True, check=False, encoding="utf-8")
                self.assertEqual(done.returncode == 0, n <= 8, (n, words, done.stderr))


if __name__ == "__main__":
    unittest.main()
