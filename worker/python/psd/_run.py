# SPDX-License-Identifier: Apache-2.0
"""The programs psd, psctl and pstrain: entry points that become the binaries of the package."""

from __future__ import annotations

import os
import shutil
import sys
from typing import NoReturn


def program(name: str) -> str:
    """Path of a program: in the package, beside the libraries of PSD_LIBRARY_DIR, or on PATH."""
    named = os.environ.get("PSD_LIBRARY_DIR")
    places = [os.path.join(named, "..", "bin", name)] if named else []
    places.append(os.path.join(os.path.dirname(__file__), "_bin", name))
    for path in places:
        if os.path.exists(path):
            return path
    return shutil.which(name) or name


def _become(name: str) -> NoReturn:
    path = program(name)
    os.execv(path, [path, *sys.argv[1:]])


def psd() -> NoReturn:
    _become("psd")


def psctl() -> NoReturn:
    _become("psctl")


def pstrain() -> NoReturn:
    _become("pstrain")
