#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-transport: plain (it starts no task)
"""scripts/lint/words refuses each kind of comment that needs another comment to be understood, and no other comment;
scripts/sample-comments draws what it says; each term of docs/GLOSSARY.md is used in the tree."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from cluster import main, run

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
TERMS_MAX = 60

# kind: comments that are refused for it
BAD = {
    "continues": ("... and the element it began at", "what has no manifest ...", "and these no more", "or it is freed"),
    "likewise": ("likewise", "Under the lock, likewise."),
    "that one": ("It is put aside before that one.", "Only that one is asked for."),
    "the same": ("The same.", "Remove a peer: the same with a lock.", "The answer is the same", "Both mean the same, in names."),
    "as above": ("as above", "Errors as above, and LOST."),
    "pronoun": ("They are freed.", "Their memory belongs to the core.", "He waits."),
    "that of it": ("The size is that of it.", "those of them that are left", "The memory goes with it.", "A is over; so is B."),
}
GOOD = (
    "The owner writes a, b, ...",
    "Andorra begins like a joint, and is none.",
    "The task is asked so that one thread answers.",
    "That one task of many counts.",
    "The same task has the same `handle` in both lives.",
    "What lies above the limit is refused.",
    "The memory goes with the call; so does its budget.",
    "The theory has its noun, and that of the task.",
    "remembered: until the session ends",
)


class Words(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="psd-words-")
        self.addCleanup(folder.cleanup)
        self.tree = folder.name
        for name in ("scripts/lint/words", "scripts/lint/tree.py", "scripts/comments.py", "scripts/sample-comments"):
            os.makedirs(os.path.join(self.tree, os.path.dirname(name)), exist_ok=True)
            shutil.copy(os.path.join(ROOT, name), os.path.join(self.tree, name))
        for name in ("common", "proto", "psd/store", "worker"):
            os.makedirs(os.path.join(self.tree, name))

    def write(self, name, text):
        with open(os.path.join(self.tree, name), "w", encoding="utf-8") as out:
            out.write(text)

    def lint(self):
        """(exit status, what the check said) over the tree."""
        done = subprocess.run([os.path.join(self.tree, "scripts/lint/words"), "build/release"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, encoding="utf-8", timeout=600)
        return done.returncode, done.stdout

    def test_each_kind_is_refused(self):
        text, expected = "", []
        for kind, comments in BAD.items():
            for comment in comments:
                for form in ("/* %s */", "int x; /* %s */", "/**\n * %s\n */", "#define X 1 /* %s */"):
                    text += "/* A good line. */\n"
                    expected.append((text.count("\n") + 1, kind))
                    text += form % comment + "\n"
        self.write("psd/store/one.c", text)
        status, said = self.lint()
        self.assertEqual(status, 1)
        found = re.findall(r"(?m)^psd/store/one\.c:(\d+): (.*?): ", said)
        self.assertEqual([(int(line), kind) for line, kind in found], expected)

    def test_a_pronoun_on_the_next_line_is_refused(self):
        self.write("worker/two.h", "/* The bytes are the\n * same. */\n")
        self.assertEqual(self.lint(), (1, "worker/two.h:1: the same: The bytes are the same.\n"))

    def test_each_room_is_read(self):
        for name in ("common/a.c", "proto/a.h", "psd/store/a.c", "worker/a.cu"):
            self.write(name, "/* likewise */\n")
        status, said = self.lint()
        self.assertEqual((status, said.count("likewise: likewise")), (1, 4), said)

    def test_other_comments_pass(self):
        self.write("common/good.c", "".join(f"/* {comment} */\n" for comment in GOOD))
        self.write("common/text.c", 'static const char *x = "/* likewise */"; /* a text, and no comment */\n')
        self.assertEqual(self.lint(), (0, ""))

    def sample(self, *words):
        """What it prints, or its error."""
        status, out, err = run(os.path.join(self.tree, "scripts/sample-comments"), *words)
        self.assertEqual(status != 0, err != "")
        return out if status == 0 else err

    def test_a_sample_is_drawn_by_its_seed(self):
        comment = "/* SPDX-License-Identifier: Apache-2.0 one two three */\n/* of five words, no more */\n"
        for i in range(40):
            comment += f"int before_{i};\n/* Comment {i} has more than\n * six words in it. */\nint behind_{i};\n"
        self.write("psd/store/many.c", comment)
        once, again, other = self.sample("7", "10"), self.sample("7", "10"), self.sample("8", "10")
        self.assertEqual(once, again)
        self.assertNotEqual(once, other)
        drawn = re.findall(r"(?m)^--- \d+/10 psd/store/many\.c:(\d+)$", once)
        self.assertEqual(len(set(drawn)), 10)
        lines = comment.split("\n")
        for first in map(int, drawn):
            self.assertRegex(lines[first - 1], "Comment [0-9]+ has")
            self.assertIn(f"{first:5}> {lines[first - 1]}\n{first + 1:5}> {lines[first]}\n", once)
            self.assertIn(f"{first + 2:5}  {lines[first + 1]}\n", once)
        self.assertEqual(self.sample("1", "40").count("--- "), 40)
        self.assertIn("40 comments in all", self.sample("1", "41"))

    def test_a_sample_of_given_paths(self):
        self.write("common/a.c", "/* This comment of common has six words. */\n")
        self.write("worker/a.c", "/* This comment of worker has six words. */\n")
        self.assertIn("worker/a.c:1", self.sample("1", "1", "worker"))
        self.assertIn("common/a.c:1", self.sample("1", "1", "common/a.c"))
        self.assertIn("no such", self.sample("1", "1", "such"))


class Glossary(unittest.TestCase):
    def test_each_term_is_used(self):
        with open(os.path.join(ROOT, "docs", "GLOSSARY.md"), encoding="utf-8") as page:
            terms = re.findall(r"(?m)^- \*\*(.+?)\*\*: \S.*\.$", page.read())
        self.assertTrue(40 <= len(terms) <= TERMS_MAX, len(terms))
        tree = ""
        for top in ("common", "proto", "psd", "worker"):
            for folder, _, names in os.walk(os.path.join(ROOT, top)):
                for name in names:
                    if name.endswith((".c", ".h", ".proto")):
                        with open(os.path.join(folder, name), encoding="utf-8") as source:
                            tree += source.read().lower()
        self.assertEqual([term for term in terms if not re.search(rf"\b{re.escape(term.lower())}(?:s|es)?\b", tree)], [])


if __name__ == "__main__":
    sys.exit(main())
