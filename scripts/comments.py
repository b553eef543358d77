# SPDX-License-Identifier: Apache-2.0
"""The comments of C sources: where each one stands, and its words. scripts/sample-comments and scripts/lint/words read them."""
import re

TOKEN = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
MARK = re.compile(r"\A(?:remembered|derived|volatile)(?: \(\w+\))?:\s*")  # of a field of state, as scripts/lint/fields reads it


def comments(text):
    """(first line, last line, words in one line) of each block comment, top to bottom; lines count from 1."""
    line, end = 1, 0
    for match in TOKEN.finditer(text):
        if not match.group().startswith("/*"):
            continue
        line += text.count("\n", end, match.start())
        end = match.start()
        words = " ".join(re.sub(r"^\s*\*", "", part).strip() for part in match.group()[2:-2].lstrip("*").split("\n")).strip()
        yield line, line + match.group().count("\n"), MARK.sub("", words, count=1)
