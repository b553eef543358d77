#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-sanitizers: none (a wheel is of the release build)
# test-transport: plain (its task has no key)
"""The wheel of the Python package: what its name promises, what it brings, and that it runs where it is unpacked."""
import base64
import glob
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

from cluster import path

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# what a system has; libssl is the system's too, and is loaded by name when a key is used
SYSTEM = re.compile(r"(ld-linux-x86-64|lib(c|m|pthread|dl|rt|gcc_s|z))\.so")
PROGRAM = """
import psd, sys
with psd.local_cluster() as cluster, psd.Session(cluster.target) as s:
    v = s.variable("v", (), "int64")
    v.assign(3)
    print(int(v.assign_add(4)), psd._library.lib.path)
"""


def output(*words, **more):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, encoding="utf-8", **more).stdout


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        output(os.path.join(ROOT, "scripts/wheel"), path("wheel"), cls.folder.name)
        (cls.wheel,) = glob.glob(cls.folder.name + "/psd-*.whl")
        cls.site = os.path.join(cls.folder.name, "site")
        cls.files = zipfile.ZipFile(cls.wheel)
        cls.addClassCleanup(cls.files.close)
        for entry in cls.files.infolist():  # as pip: any x bit makes a program
            cls.files.extract(entry, cls.site)
            if entry.external_attr >> 16 & 0o111:
                os.chmod(os.path.join(cls.site, entry.filename), 0o755)
        cls.elf = [n for n in cls.files.namelist() if cls.files.read(n)[:4] == b"\x7fELF"]

    def test_no_symbol_is_newer_than_the_name_says(self):
        major, minor = map(int, re.search(r"manylinux_(\d+)_(\d+)_x86_64", self.wheel).groups())
        self.assertGreater(len(self.elf), 6)
        for name in self.elf:
            versions = re.findall(r"\bGLIBC_(\d+)\.(\d+)\b", output("readelf", "-W", "--version-info", os.path.join(self.site, name)))
            self.assertLessEqual(max((int(a), int(b)) for a, b in versions), (major, minor), name)

    def test_all_that_a_file_needs_is_there(self):
        brought = {os.path.basename(n) for n in self.elf}
        for name in self.elf:
            dynamic = output("readelf", "-W", "-d", os.path.join(self.site, name))
            for needed in re.findall(r"NEEDED.*\[(.*)\]", dynamic):
                self.assertTrue(SYSTEM.match(needed) or needed in brought, f"{name} needs {needed}")
        self.assertFalse([n for n in brought if re.match(r"lib(crypto|ssl|python|uv|openblas)", n)])

    def test_the_list_of_files(self):
        (record,) = [n for n in self.files.namelist() if n.endswith(".dist-info/RECORD")]
        rows = [line.split(",") for line in self.files.read(record).decode().splitlines()]
        self.assertEqual(sorted(r[0] for r in rows), sorted(self.files.namelist()))
        for name, digest, size in rows:
            if name != record:
                content = self.files.read(name)
                made = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                self.assertEqual((digest, size), (f"sha256={made}", str(len(content))), name)
        for needed in ("psd/__init__.py", "psd/py.typed", "psd/torch.py", "psd/_bin/psd", "psd/_bin/psctl", "psd/_bin/pstrain"):
            self.assertIn(needed, self.files.namelist())

    def test_it_runs_where_it_is_unpacked(self):
        env = {k: v for k, v in os.environ.items() if k not in ("PSD_LIBRARY_DIR", "LD_LIBRARY_PATH")}
        env["PYTHONPATH"] = self.site
        for name in ("psd", "psctl", "pstrain"):
            code = f"import sys; sys.argv = ['{name}', '--version']; from psd._run import {name}; {name}()"
            self.assertRegex(output(sys.executable, "-c", code, env=env), rf"^{name} \d+\.\d+")
        python = next((p for p in (sys.executable, "/usr/bin/python3") if subprocess.run(
            [p, "-c", "import numpy"], stderr=subprocess.DEVNULL, check=False).returncode == 0), None)
        if python is None:
            self.skipTest("no Python here has NumPy")
        value, library = output(python, "-c", PROGRAM, env=env).split()
        self.assertEqual(value, "7")
        self.assertTrue(library.startswith(self.site), library)


if __name__ == "__main__":
    unittest.main()
