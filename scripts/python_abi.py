# SPDX-License-Identifier: Apache-2.0
"""The public headers as Python: worker/python/psd/_abi.py, which scripts/abi writes. The compiler's preprocessor expands the headers; this
file reads the enums, structs and functions that are left. Sizes and offsets come from the ABI list (tests/golden/abi)."""
import os
import re
import subprocess
import tempfile

OUT = "worker/python/psd/_abi.py"
RECORDS = "worker/python/psd/_records.py"
CTYPES = {"void": "None", "bool": "C.c_bool", "_Bool": "C.c_bool", "char": "C.c_char", "int": "C.c_int", "float": "C.c_float", "double": "C.c_double",
          "size_t": "C.c_size_t", "uint8_t": "C.c_uint8", "int32_t": "C.c_int32", "uint32_t": "C.c_uint32", "int64_t": "C.c_int64",
          "uint64_t": "C.c_uint64", "pid_t": "C.c_int"}
CODES = {"None": "v", "C.c_bool": "b", "C.c_int": "i", "C.c_int32": "i", "C.c_uint32": "I", "C.c_int64": "q", "C.c_uint64": "Q", "C.c_size_t": "z",
         "C.c_float": "f", "C.c_double": "d", "C.c_void_p": "p", "C.c_char_p": "s"}
ANNOTATIONS = {"C.c_bool": "bool", "C.c_float": "float", "C.c_double": "float", "C.c_void_p": "Any", "C.c_char_p": "bytes | None"}
HEAD = '''# SPDX-License-Identifier: Apache-2.0
# Written by scripts/abi (make generated) from the public headers and tests/golden/abi.
"""Constants, structs and functions of libpsworker and libpsd, for ctypes."""
from __future__ import annotations

import ctypes as C
from enum import IntEnum
from typing import TYPE_CHECKING, Any

VERSION = "{version}"
SOVERSION = {soversion}

'''


RECORDS_HEAD = '''# SPDX-License-Identifier: Apache-2.0
# Written by scripts/abi (make generated) from the public headers.
"""What psd.admin returns: the structs of the administration calls as dataclasses. worker/ps.h and worker/ps_queue.h tell what the fields mean."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _abi as A
'''


def preprocessed(headers, compiler):
    """The text of our headers alone, expanded, without comments."""
    with tempfile.NamedTemporaryFile("w", suffix=".c") as source:
        source.write("".join(f'#include "{os.path.abspath(h)}"\n' for h in headers))
        source.flush()
        text = subprocess.run([*compiler, "-E", *(f"-I{os.path.dirname(h)}" for h in headers), source.name], check=True,
                              stdout=subprocess.PIPE, encoding="utf-8").stdout
    ours, kept = False, []
    names = {os.path.basename(h) for h in headers}
    for line in text.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            ours = os.path.basename(marker[1]) in names
        elif ours:
            kept.append(line)
    return re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", " ", " ".join(kept))


def statements(text):
    """The declarations at the outermost level, each without its semicolon."""
    depth, start = 0, 0
    for at, c in enumerate(text):
        depth += (c in "{(") - (c in "})")
        if c == ";" and depth == 0:
            yield " ".join(text[start:at].split())
            start = at + 1


def commas(text):
    depth, part = 0, ""
    for c in text:
        depth += (c in "{([") - (c in "})]")
        if c == "," and depth == 0:
            yield part.strip()
            part = ""
        else:
            part += c
    if part.strip():
        yield part.strip()


class Headers:
    def __init__(self, text, listing):
        self.sizes = layouts(listing)
        self.enums, self.structs, self.functions, self.types = {}, {}, {}, dict(CTYPES)
        self.enum_of = {}  # (struct, field): its enum
        for statement in statements(text):
            self.statement(statement)

    def statement(self, s):
        enum = re.match(r"(?:typedef )?enum (\w*) ?\{(.*)\} ?(\w*)$", s)
        struct = re.match(r"(?:typedef )?struct (\w+) \{(.*)\} ?(\w*)$", s)
        callback = re.match(r"typedef (.*)\(\*(\w+)\)\((.*)\)$", s)
        function = re.match(r"(?:extern )?([\w ]+?[ *]+)(\w+)\(([^()]*)\)$", s)
        if enum:
            name = enum[3] or enum[1]
            values, next_value = {}, 0
            for item in commas(enum[2]):
                key, _, value = item.partition("=")
                next_value = eval(value.strip(), {}, {**{k: v for e in self.enums.values() for k, v in e.items()}, **values}) if value else next_value
                values[key.strip()] = next_value
                next_value += 1
            self.enums[name or "_"] = {**self.enums.get(name or "_", {}), **values}
            self.types[name] = "C.c_int"
        elif struct:
            name = struct[3] or struct[1]
            self.types[name] = self.types["struct " + struct[1]] = name
            self.structs[name] = list(self.fields(name, struct[2]))
        elif callback:
            self.types[callback[2]] = "C.c_void_p"
        elif s.startswith("typedef struct"):
            words = s.split()
            self.types.setdefault(words[-1], "struct")
        elif function and function[1].strip() not in ("return", "typedef"):
            arguments = [] if function[3].strip() == "void" else list(commas(function[3]))
            self.functions[function[2]] = (self.kind(function[1]), [self.kind(a, named=True) for a in arguments])
        elif s and not s.startswith(("extern", "static", "_Static_assert")):
            raise SystemExit(f"scripts/abi: cannot read: {s[:200]}")

    def kind(self, text, named=False):
        """The ctypes type of a C type; of a declaration with its name."""
        text = re.sub(r"\b(const|extern|restrict|unsigned)\b", " ", text)
        if "(*" in text or "[" in text:
            return "C.c_void_p"
        stars = text.count("*")
        words = text.replace("*", " ").split()
        words = words[:-1] if named and len(words) > 1 and words[-1] not in self.types else words
        base = " ".join(words)
        if base == "char" and stars == 1:
            return "C.c_char_p"
        return "C.c_void_p" if stars else self.types[base]

    def fields(self, struct, body):
        for declaration in statements(body + ";"):
            if not declaration:
                continue
            nested = re.match(r"(?:union|struct) \{.*\} (\w+)$", declaration)
            if nested:
                yield nested[1], None, []
                continue
            pointer = re.search(r"\(\*(\w+)\)\s*\(", declaration)
            if pointer:
                yield pointer[1], "C.c_void_p", []
                continue
            first = re.match(r"((?:const |struct )*\w+)\s+(.*)$", declaration)
            for part in commas(first[2]):
                name = re.match(r"([\s*]*(?:const)?[\s*]*)(\w+)((?:\[[^\]]*\])*)$", part.strip())
                known = {k: v for e in self.enums.values() for k, v in e.items()}
                counts = [eval(re.sub(r"sizeof\((\w+)\)", lambda m: str(self.sizes[m[1]][0]), n), {}, known) for n in re.findall(r"\[([^\]]*)\]", name[3])]
                base = self.kind(f"{first[1]} {name[1]}")
                if first[1] in self.enums:
                    self.enum_of[struct, name[2]] = first[1]
                yield name[2], base, counts


def layouts(listing):
    """{struct: (bytes, {field: (offset, bytes)})} of the ABI list."""
    found, now = {}, None
    for line in listing.splitlines():
        words = line.split()
        if line.startswith(" "):
            found[now][1][words[2]] = (int(words[0]), int(words[1]))
        else:
            now = words[-2]
            found[now] = (int(words[-1]), {})
    return found


class_of = {"ps_shape": "tuple[int, ...]", "ps_optimizer": "Any"}
WORDS = {"C.c_bool": "bool", "C.c_double": "float", "C.c_float": "float", "C.c_char_p": "str"}


def camel(name):
    return "".join(w.capitalize() for w in re.sub(r"^psd?_", "", name).split("_"))


def records(h):
    """Dataclasses of the structs that end in _info, and of those within them."""
    wanted = [n for n in h.structs if n.endswith("_info") and n != "ps_device_info"]
    inner = [k for n in wanted for _, k, _ in h.structs[n] if k in h.structs and k not in class_of and k not in wanted]
    lines, pairs = [RECORDS_HEAD], []
    for name in [n for n in h.structs if n in wanted or n in inner]:
        lines += ["", "@dataclass(frozen=True)", f"class {camel(name)}:", f'    """{name}"""', ""]
        for field, kind, counts in h.structs[name]:
            if field.startswith("reserved") or field == "struct_bytes":
                continue
            base = "str" if kind == "C.c_char" else WORDS.get(kind) or class_of.get(kind) or (camel(kind) if kind in h.structs else f"A.{camel(h.enum_of[name, field])}" if (name, field) in h.enum_of else "int")
            many = bool(counts) and kind != "C.c_char"
            lines.append(f"    {field}: {f'tuple[{base}, ...]' if many else base}")
        lines.append("")
        pairs.append(f"    A.{name}: {camel(name)},")
    return "\n".join([*lines, "", "RECORDS: dict[Any, Any] = {", *pairs, "}", ""])


def python(h, version, soversion):
    lines = [HEAD.format(version=version, soversion=soversion)]
    loose = {k: v for k, v in h.enums.pop("_", {}).items()}
    lines += [f"{k} = {v}" for k, v in loose.items()] + [""]
    for name, values in h.enums.items():
        prefix = os.path.commonprefix(list(values)).rpartition("_")[0] + "_" if len(values) > 1 else "PS_"
        prefix = "PS_" if name in ("ps_status", "ps_dtype", "ps_applied") else prefix
        members = [(re.sub(r"^(?=\d)", "_", k[len(prefix):] if k.startswith(prefix) else re.sub("^PSD?_", "", k)), v) for k, v in values.items()]
        lines += ["", f"class {camel(name)}(IntEnum):", f'    """{name}"""', ""] + [f"    {k} = {v}" for k, v in members] + [""]
    sizes = h.sizes
    for name, fields in h.structs.items():
        bytes_, offsets = sizes[name]
        entries, hints = [], []
        for field, kind, counts in fields:
            if kind is None:
                kind, counts = "C.c_uint64", [offsets[field][1] // 8]
            spelled = kind + "".join(f" * {n}" for n in reversed(counts))
            entries.append(f'("{field}", {spelled})')
            hint = ANNOTATIONS.get(kind, "int" if kind.startswith("C.") else kind)
            hints.append(f"        {field}: {'Any' if counts else hint}")
        lines += ["", f"class {name}(C.Structure):", f'    """{name}: {bytes_} bytes"""', ""]
        lines += ["    if TYPE_CHECKING:"] + hints + [""]
        lines += ["    _fields_ = ["] + [f"        {e}," for e in entries] + ["    ]", ""]
    lines += ["", "# struct: its bytes, and the offset of each field, as the C compiler has them", "LAYOUTS: dict[type[C.Structure], tuple[int, str]] = {"]
    # a field that a macro declares is not in the list; "-" stands for its offset
    lines += [f'    {n}: ({sizes[n][0]}, "{" ".join(str(sizes[n][1].get(f, "-")[0]) for f, _, _ in fields)}"),' for n, fields in h.structs.items()]
    by_value = {}
    signatures = []
    for name, (result, arguments) in sorted(h.functions.items()):
        code = ""
        for kind in (result, *arguments):
            if kind not in CODES:
                by_value.setdefault(kind, "ABCDEFGH"[len(by_value)])
            code += CODES.get(kind) or by_value[kind]
        signatures.append(f'    "{name}": "{code}",')
    lines += ["}", "", "# a letter for each type: first the result, then the arguments", "CODES: dict[str, Any] = {"]
    lines += [f'    "{v}": {k},' for k, v in {**CODES, **{k: v for k, v in by_value.items()}}.items() if k != "C.c_int32"]
    lines += ["}", "FUNCTIONS = {"] + signatures + ["}", ""]
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines))
