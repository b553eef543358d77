# SPDX-License-Identifier: Apache-2.0
"""What the lint checks share: the list of files, the compiler's flags for each, and a parallel map."""
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
GIVEN = ("tests/bench/bare.c",)  # not ours to change
TREES = ("common", "proto", "psd", "worker", "tests")
JOBS = 2
os.chdir(ROOT)


def build_dir():
    """build/<variant>, the scripts' only argument."""
    if len(sys.argv) != 2 or not os.path.isfile(os.path.join(sys.argv[1], "compile_commands.json")):
        sys.exit(f"usage: {sys.argv[0]} BUILD (with its compile_commands.json; `make lint` makes it)")
    return os.path.normpath(sys.argv[1])


def files(*endings, trees=TREES):
    """Our files with these endings, sorted."""
    found = []
    for tree in trees:
        for top, dirs, names in os.walk(tree):
            dirs[:] = [d for d in dirs if d not in ("__pycache__", "corpus")]
            found += [os.path.join(top, name) for name in names if name.endswith(endings)]
    return sorted(set(found) - set(GIVEN))


class Flags:
    """The compiler and its flags for a source as make compiles it; for a header as the sources beside it are compiled."""

    def __init__(self, build):
        self.by_file = {}
        with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as text:
            for entry in json.load(text):
                words = shlex.split(entry["command"])
                self.by_file[entry["file"]] = words[1:-2]  # without the compiler and "-c FILE"
        self.by_dir = {}
        for name, words in self.by_file.items():
            self.by_dir.setdefault(os.path.dirname(name), words)
        library = next((w for n, w in self.by_file.items() if n.startswith("common/")), [])
        self.fallback = {"tests": next((w for n, w in self.by_file.items() if n.startswith("tests/")), library)}
        self.library = library

    def of(self, name):
        if name in self.by_file:
            return self.by_file[name]
        where = os.path.dirname(name)
        if where in self.by_dir:
            return self.by_dir[where]
        extra = ["-iquote", where.split("/")[0]]
        return self.fallback.get(where.split("/")[0], self.library) + extra

    def sources(self):
        return sorted(self.by_file)


def preprocessor(words):
    """Only what decides which headers are read: -I -iquote -idirafter -D -U -std."""
    kept = []
    take = False
    for word in words:
        if take:
            kept.append(word)
            take = False
        elif word in ("-I", "-iquote", "-idirafter"):
            kept.append(word)
            take = True
        elif word.startswith(("-I", "-D", "-U", "-std")):
            kept.append(word)
    return kept


def output_of(command, stdin=None):
    """(exit status, stdout, stderr) as text."""
    done = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          encoding="utf-8", errors="replace")
    return done.returncode, done.stdout, done.stderr


def parallel(function, items):
    """[function(item) ...] in order, JOBS at a time."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=JOBS) as pool:
        return list(pool.map(function, items))


def finish(problems):
    """Prints the problems and ends: 1 when there are any."""
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)
