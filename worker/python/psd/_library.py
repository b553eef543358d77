# SPDX-License-Identifier: Apache-2.0
"""Finds and loads libpsworker and libpsd, and checks them against the declarations of this package."""

from __future__ import annotations

import ctypes as C
import os
from typing import Any

from . import _abi
from ._abi import CODES, FUNCTIONS, LAYOUTS, SOVERSION, VERSION

ADVICE = (
    f"install the wheel of psd {VERSION}, which has the libraries in it, or `make install` of the same release; "
    "PSD_LIBRARY_DIR names a directory with other ones"
)
# functions that fill a struct with defaults, its size in the library first
INITS = (
    "session_options sync_options variable_spec file_options checkpoint_options monitored_options hook setter_options row_options run_options "
    "resolver_options"
)


class Library:
    """A shared library. Each function gets its types at first use."""

    def __init__(self, name: str) -> None:
        file = f"lib{name}.so.{SOVERSION}"
        named = os.environ.get("PSD_LIBRARY_DIR")
        inside = os.path.join(os.path.dirname(__file__), "_lib", file)
        self.path = os.path.join(named, file) if named else inside if os.path.exists(inside) else file
        try:
            self._dll = C.CDLL(self.path)
        except OSError as e:
            raise ImportError(f"psd: cannot load {self.path}: {e}; {ADVICE}") from None

    def __getattr__(self, name: str) -> Any:
        code = FUNCTIONS.get(name)
        if code is None:
            raise AttributeError(name)
        function = getattr(self._dll, name)
        function.restype = CODES[code[0]]
        function.argtypes = [CODES[c] for c in code[1:]]
        setattr(self, name, function)
        return function


def _check_layouts() -> None:
    for struct, (size, offsets) in LAYOUTS.items():
        if C.sizeof(struct) != size or any(
            known != "-" and getattr(struct, field[0]).offset != int(known) for field, known in zip(struct._fields_, offsets.split(" "))
        ):
            raise ImportError(f"psd: {struct.__name__} is laid out otherwise by this Python than by the C compiler; {ADVICE}")


def _check_library(lib: Library) -> None:
    found = lib.ps_version().decode()
    if found != VERSION:
        raise ImportError(f"psd {VERSION}: {lib.path} has version {found}; {ADVICE}")
    for name in INITS.split():
        room = C.create_string_buffer(4096)
        getattr(lib, f"ps_{name}_init")(room)
        size = C.c_size_t.from_buffer(room).value
        if size != C.sizeof(getattr(_abi, "ps_" + name)):
            raise ImportError(f"psd {VERSION}: in {lib.path} ps_{name} has {size} bytes, another build's; {ADVICE}")


_check_layouts()
lib = Library("psworker")
_check_library(lib)
_server: Library | None = None


def server_library() -> Library:
    """libpsd, which is loaded at first use."""
    global _server
    if _server is None:
        loaded = Library("psd")
        found = loaded.psd_server_version().decode()
        if found != VERSION:
            raise ImportError(f"psd {VERSION}: {loaded.path} has version {found}; {ADVICE}")
        _server = loaded
    return _server
