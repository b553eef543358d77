# SPDX-License-Identifier: Apache-2.0
"""A scratch copy of the tree, with what is built in it, for changes that are tried and thrown away (tests/mutants, tests/exercises)."""
import os
import shutil
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def tree_files():
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True,
                         stdout=subprocess.PIPE).stdout
    return [name for name in out.decode().split("\0") if name and os.path.isfile(os.path.join(ROOT, name))]


def copy_tree(to, variant, tests=True):
    """tests: with the programs of the tests, which are most of the bytes"""
    for name in tree_files():
        target = os.path.join(to, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(os.path.join(ROOT, name), target)
    for name in (os.path.join("build", part) for part in ("found.mk", "cuda", variant)):
        source = os.path.join(ROOT, name)
        if os.path.isdir(source):
            shutil.copytree(source, os.path.join(to, name), symlinks=True, dirs_exist_ok=True,
                            ignore=lambda top, _, source=source: [] if tests or top != source else ["tests"])
        elif os.path.isfile(source):
            os.makedirs(os.path.join(to, "build"), exist_ok=True)
            shutil.copy2(source, os.path.join(to, name))


def make(tree, variant, targets):
    """(whether it was built, what make said)"""
    command = ["make", "-s", "-j2", "VARIANT=" + variant] + targets
    done = subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode == 0, done.stdout.decode(errors="replace")
