#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NULL wherever a public function takes a pointer: an error with a text or a harmless value, never a crash. The functions come
from the headers, so that none is forgotten; each is called with no object at all, and with an object and nothing else."""
import ctypes as c
import os
import re
import subprocess
import sys
import unittest

from cluster import SANITIZED, Cluster, main, path

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

HEADERS = ("common/ps_types.h", "common/ps_calls.h", "worker/ps_cluster.h", "worker/ps.h", "worker/ps_hooks.h", "worker/ps_plan.h", "worker/ps_queue.h", "worker/ps_monitored.h", "worker/ps_nn.h", "worker/ps_ops.h", "psd/psd.h")
OBJECTS = ("ps_session", "ps_variable", "ps_param", "ps_placer", "ps_cluster_spec", "ps_tensor", "ps_plan", "psd_server")
ENDS = ("ps_session_close", "ps_task_shutdown", "ps_placer_free", "ps_cluster_spec_free", "ps_tensor_free", "ps_plan_free", "psd_server_free",
        "psd_server_join", "psd_server_wait")  # of their object, or they wait for its end
INVALID_ARGUMENT = 3
STATUS_LAST = 16


class Shape(c.Structure):
    _fields_ = [("rank", c.c_uint32), ("reserved", c.c_uint32), ("dims", c.c_int64 * 8)]


class Value(c.Structure):
    _fields_ = [("plan", c.c_void_p), ("row", c.c_uint32), ("output", c.c_uint32)]


class Feed(c.Structure):
    _fields_ = [("placeholder", Value), ("dtype", c.c_int), ("reserved", c.c_uint32), ("shape", Shape), ("data", c.c_void_p),
                ("bytes", c.c_size_t), ("offsets", c.c_void_p)]


NUMBERS = {"size_t": c.c_size_t, "int": c.c_int, "bool": c.c_bool, "float": c.c_float, "double": c.c_double,
           "int32_t": c.c_int32, "uint32_t": c.c_uint32, "int64_t": c.c_int64, "uint64_t": c.c_uint64, "ps_status": c.c_int,
           "ps_dtype": c.c_int, "ps_reuse": c.c_int, "ps_applied": c.c_int, "ps_reason": c.c_int, "ps_activation": c.c_int,
           "ps_reduction": c.c_int, "ps_nan_action": c.c_int, "ps_fan": c.c_int, "ps_opt_kind": c.c_int, "ps_combiner": c.c_int, "ps_norm_of": c.c_int, "ps_schedule_kind": c.c_int, "ps_rows_mean": c.c_int,
           "ps_shape": Shape, "ps_value": Value, "ps_feed": Feed}


def kind(text):
    """The ctypes type of a declaration, and the object that it points to, if it is one of ours."""
    if "*" in text or text.split()[0].endswith("_fn"):
        words = text.replace("*", " ").replace("const", " ").split()
        return c.c_void_p, words[0] if words[0] in OBJECTS and text.count("*") == 1 else None
    word = text.split()[0]
    return (None if word == "void" else NUMBERS[word]), None


def functions():
    """(name, result, [argument types], object of the first argument) of every PS_API function."""
    found = []
    for header in HEADERS:
        with open(os.path.join(ROOT, header), encoding="utf-8") as text:
            source = re.sub(r"/\*.*?\*/", " ", text.read(), flags=re.S)
        for declaration in re.findall(r"^PS_API\s+([^;]*);", source, re.M):
            before, _, arguments = declaration.partition("(")
            words = " ".join(before.split())
            name = re.search(r"(\w+)$", words).group(1)
            given = [a.strip() for a in " ".join(arguments.rstrip(") \n").split()).split(",")]
            given = [] if given == ["void"] else given
            kinds = [kind(a) for a in given]
            result = words[:-len(name)].strip()
            found.append((name, c.c_char_p if result == "const char *" else kind(result)[0], words.startswith("ps_status "), [k for k, _ in kinds],
                          kinds[0][1] if kinds else None))
    return found


def call(lib, function, first, number):
    name, result, is_status, kinds, _ = function
    entry = getattr(lib, name)
    entry.restype = result
    entry.argtypes = kinds
    values = [None if k is c.c_void_p else k() if issubclass(k, c.Structure) else k(number) for k in kinds]
    if first is not None:
        values[0] = first
    print(name, number, "object" if first is not None else "NULL", flush=True)
    status = entry(*values)
    if result is c.c_void_p and first is None and status:
        c.string_at(status, 1)  # it points to something
    if is_status and not 0 <= status <= STATUS_LAST:
        sys.exit(f"{name} gave {status}")
    if is_status and first is None and function[4] is not None and status != INVALID_ARGUMENT:
        sys.exit(f"{name} without its {function[4]} gave {status}")


class Objects:
    """A new one for each call: what went wrong before sticks to none."""

    def __init__(self, lib, server_lib):
        self.lib = lib
        self.server_lib = server_lib
        self.count = 0
        for name in ("ps_param_get", "ps_tensor_new", "ps_placer_new", "ps_sgd", "ps_session_open_args"):
            getattr(lib, name).restype = c.c_void_p

    def make(self, what):
        pointer = c.c_void_p()
        if what == "ps_placer":
            return self.lib.ps_placer_new()
        if what == "ps_tensor":
            return self.lib.ps_tensor_new(c.c_int64(2), c.c_int64(2))
        if what == "ps_cluster_spec":
            self.lib.ps_cluster_spec_new(b"ps=a:1", c.byref(pointer))
            return pointer.value
        if what == "psd_server":
            self.server_lib.psd_server_create_local(c.byref(pointer), None, c.c_size_t(0))
            return pointer.value
        argv = (c.c_char_p * 4)(b"null", b"--timeout=2s", b"--log_level=error", None)
        self.lib.ps_session_open_args.argtypes = [c.POINTER(c.c_int), c.POINTER(c.c_char_p), c.c_char_p]
        self.lib.ps_session_status.argtypes = self.lib.ps_session_close.argtypes = [c.c_void_p]
        for _ in range(20):  # 2 s may be too short on a busy machine
            session = self.lib.ps_session_open_args(c.byref(c.c_int(3)), argv, None)
            if self.lib.ps_session_status(session) == 0:
                break
            self.lib.ps_session_close(session)
        if what == "ps_session":
            return session
        if what == "ps_plan":
            self.lib.ps_plan_new.restype = c.c_void_p
            self.lib.ps_plan_new.argtypes = [c.c_void_p]
            return self.lib.ps_plan_new(session)
        self.count += 1
        name = b"v%d" % self.count
        shape = Shape(rank=1)
        shape.dims[0] = 2
        self.lib.ps_param_get.argtypes = [c.c_void_p, c.c_char_p, Shape, c.c_void_p, c.c_void_p]
        self.lib.ps_sgd.argtypes = [c.c_double]
        param = self.lib.ps_param_get(session, name, shape, None, self.lib.ps_sgd(0.5))
        if what == "ps_param":
            return param
        self.lib.ps_variable_find.argtypes = [c.c_void_p, c.c_char_p, c.c_void_p]
        if self.lib.ps_variable_find(session, name, c.byref(pointer)) != 0:
            sys.exit("no variable")
        return pointer.value


def child():
    libs = {"ps": c.CDLL(path("lib/libpsworker.so")), "psd": c.CDLL(path("lib/libpsd.so"))}
    objects = Objects(libs["ps"], libs["psd"])
    for function in functions():
        lib = libs[function[0].partition("_")[0]]
        for number in (0, 4):
            call(lib, function, None, number)
            if function[4] is not None and function[0] not in ENDS:
                call(lib, function, objects.make(function[4]), number)
    print("all")


@unittest.skipIf(SANITIZED, "Python is not built with the sanitizer")
class Null(unittest.TestCase):
    def test_all_exported(self):
        """What the headers are read for is what the libraries export."""
        exported = set()
        for library in ("libpsworker", "libpsd"):
            out = subprocess.run(["nm", "-D", "--defined-only", path(f"lib/{library}.so")], stdout=subprocess.PIPE, check=True)
            exported |= {line.split()[-1].split("@")[0] for line in out.stdout.decode().splitlines()
                         if re.search(r" T psd?_", line)}
        self.assertEqual(exported, {f[0] for f in functions()})

    def test_null(self):
        with Cluster(1) as cluster:
            done = subprocess.run([sys.executable, os.path.abspath(__file__), "--child"], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, check=False, timeout=600,
                                  env={**os.environ, "PSD_TARGET": cluster.addresses[0]})
            lines = done.stdout.decode(errors="replace").splitlines()
            self.assertEqual((done.returncode, lines[-1]), (0, "all"), "\n".join(lines[-4:]))


if __name__ == "__main__":
    if sys.argv[1:] == ["--child"]:
        child()
    else:
        sys.exit(main(unittest))
