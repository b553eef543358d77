#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# test-sanitizers: none (it compares two texts)
"""docs/TF_MAP.md says of every public TensorFlow name that occurs in the five documents which psd began with what stands for it.
The names are in tests/tf_names.txt, whose head says how they were found. Where the documents are (../shared/seeds), the list is
compared with them; elsewhere that part is skipped."""
import glob
import os
import re
import sys
import unittest

from cluster import main

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
LIST = os.path.join(ROOT, "tests", "tf_names.txt")
MAP = os.path.join(ROOT, "docs", "TF_MAP.md")
SEEDS = os.environ.get("PSD_SEEDS", os.path.join(ROOT, "..", "shared", "seeds"))

# What is cut out of the documents before names are looked for: addresses, host names, names of files.
NO_NAMES = re.compile(r"https?://\S+|\]\([^)]*\)|(?:\w+\.)+(?:com|io|md|py|org)\b(?::\d+)?|/usr/\S+|tensorflow[./]python\S+")
TF = r"\btf(?:\.[A-Za-z_]\w*)+"
# How names are found in the rest: the form of a name in the list, and a rule whose group is the name.
RULES = (
    ("%s", r"\b(tensorflow::\w+)"),                              # tensorflow::Session
    (".%s", r"(?<=[\w\])])\.([A-Za-z_]\w*)"),                    # .eval, of whatever object
    ("%s=", r"[(,]\s*([a-z_]+)\s*=(?!=)"),                       # feed_dict=, of a call
    ("%s", r"(--[a-z_]+)\b"),                                    # --ps_hosts
    ("%s", r"\b((?:[A-Z][a-z]+){2,}[A-Za-z]*|[A-Z]{2,}[a-z]+[A-Za-z]*)\b"),  # AbortedError, VariableDef: in prose too
    ("%s:", r"\bstring ([a-z_]+) = \d"),                         # variable_name: of a message
    ("%s", r"(\bgrpc://)"),                                      # scheme of a target
    ("%s", r"(/(?:job|task|cpu|gpu):)"),                         # parts of a device
    ("%s", r"\b(\w+\.proto)\b"),                                # worker_service.proto
)
# What the rules find and TensorFlow has not: Python, NumPy, matplotlib, multiprocessing, words of the text, the program's own.
OTHERS = set("""
    .ArgumentParser .add_argument .append .argv .e .g .job_name .labelsize .literal_eval .lower .ones .parse_known_args .proto
    .ps_hosts .pyplot .random .rcParams .register .seed .split .start .task_index .terminate .The .WARNING .worker_hosts
    args= daemon= default= help= labels= seed= type= unparsed= ArgumentParser DeprecationWarning GitHub MatplotLib OSDarwin
    SoftwareVersion TensorFlow""".split())


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def found(text):
    """All names in a text. What is part of a name that begins with tf. is none by itself."""
    text = NO_NAMES.sub(" ", text)
    names = set(re.findall(TF, text))
    parts = {part for name in names for part in name.split(".")}
    rest = re.sub(TF, "tf", text)
    names |= {form % name for form, rule in RULES for name in re.findall(rule, rest) if form != "%s" or name not in parts}
    return names - OTHERS


def listed():
    lines = [line.strip() for line in read(LIST).splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def rows():
    """The cells of each row of a table of the page."""
    lines = [line for line in read(MAP).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def pattern(name):
    """What stands as code in the first cell of a row that is about this name."""
    if name.startswith("tf."):
        return re.escape(name) + r"(?![\w.])"
    if name.startswith(".") or "/" in name or name.startswith("--") or "::" in name:
        return re.escape(name) + r"(?!\w)"
    return r"\b" + re.escape(name.rstrip("=:")) + r"\b"


def covers(cell, name):
    cell = " ".join(re.findall(r"`([^`]*)`", cell))
    return re.search(pattern(name), cell if name.startswith("tf.") else re.sub(TF, "tf", cell)) is not None


class TfMap(unittest.TestCase):
    def test_every_name_has_a_row(self):
        table = [row for row in rows() if len(row) >= 2]
        self.assertGreater(len(table), 50)
        missing = [name for name in listed() if not any(covers(row[0], name) and row[1] not in ("", "---") for row in table)]
        self.assertEqual(missing, [])

    def test_what_stands_for_them_is_there(self):
        """Each function that the page names is declared in a public header."""
        headers = [path for folder in ("worker", "psd", "common") for path in glob.glob(os.path.join(ROOT, folder, "ps*.h"))]
        declared = set(re.findall(r"\b(psd?_\w+)\(", "".join(read(path) for path in headers)))
        self.assertIn("ps_session_open", declared)
        self.assertEqual(sorted(set(re.findall(r"`(psd?_\w+)\(", read(MAP))) - declared), [])

    def test_the_list_is_in_order(self):
        self.assertEqual(listed(), sorted(set(listed())))
        self.assertGreater(len(listed()), 90)

    def test_what_a_row_covers(self):
        """A word in another one, and a part of a longer name, are none."""
        for cell, name, yes in (("`tf.device(d)`", "tf.device", True), ("`tf.device(d)`", ".device", False),
                                ("`v.device`", ".device", True), ("`v.devices`", ".device", False),
                                ("`tf.train.Server(c)`", "tf.train.Server", True),
                                ("`tf.train.Server.create_local_server()`", "tf.train.Server", False),
                                ("`config=`", "config=", True), ("a config", "config=", False), ("`reconfig=`", "config=", False),
                                ("`--ps_hosts`", "--ps_hosts", True), ("`VariableDef`", "VariableDef", True)):
            self.assertEqual(covers(cell, name), yes, (cell, name))

    def test_the_documents_have_these_names(self):
        documents = sorted(glob.glob(os.path.join(SEEDS, "*.txt")))
        if not documents:
            self.skipTest("the five documents are not here: ../shared/seeds, or PSD_SEEDS")
        self.assertEqual(len(documents), 5)
        names = set().union(*(found(read(path)) for path in documents))
        self.assertEqual(sorted(names), listed())
        self.assertEqual(OTHERS - {form % name for form, rule in RULES for path in documents
                                   for name in re.findall(rule, re.sub(TF, "tf", NO_NAMES.sub(" ", read(path))))}, set())


if __name__ == "__main__":
    sys.exit(main(unittest))
