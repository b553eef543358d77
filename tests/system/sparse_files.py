# SPDX-License-Identifier: Apache-2.0
"""What the tests of sparse text share: a folder for each case, and files in it."""
import os
import tempfile
import unittest

LIBSVM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared", "data", "libsvm")


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="psd-sparse-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name, text):
        name = os.path.join(self.folder, name)
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)
        return name
