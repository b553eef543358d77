#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans by the public ABI alone (ctypes), at real `pstrain --serve` processes: a value of a struct that is passed by value, a
worker that is killed while it runs rows, and what a session leaves behind."""
import ctypes as c
import sys
import threading
import time
import unittest

from cluster import SANITIZED, main, path, run
from executors import Executors

OK, ABORTED, OUTCOME_UNKNOWN = 0, 10, 2
F32, I64 = 1, 4


class Shape(c.Structure):
    _fields_ = [("rank", c.c_uint32), ("reserved", c.c_uint32), ("dims", c.c_int64 * 8)]


class Value(c.Structure):
    _fields_ = [("plan", c.c_void_p), ("row", c.c_uint32), ("output", c.c_uint32)]


def shape(*dims):
    return Shape(len(dims), 0, (c.c_int64 * 8)(*dims))


def load():
    lib = c.CDLL(path("lib/libpsworker.so"))
    for name, result, arguments in (
            ("ps_session_open_args", c.c_void_p, (c.POINTER(c.c_int), c.POINTER(c.c_char_p), c.c_char_p)),
            ("ps_session_close", c.c_int, (c.c_void_p,)),
            ("ps_session_status", c.c_int, (c.c_void_p,)),
            ("ps_device_push", c.c_int, (c.c_void_p, c.c_char_p)),
            ("ps_device_pop", c.c_int, (c.c_void_p,)),
            ("ps_last_error", c.c_char_p, ()),
            ("ps_last_applied", c.c_int, ()),
            ("ps_plan_new", c.c_void_p, (c.c_void_p,)),
            ("ps_plan_error", c.c_char_p, (c.c_void_p,)),
            ("ps_plan_const", Value, (c.c_void_p, c.c_int, Shape, c.c_void_p, c.c_size_t)),
            ("ps_plan_scalar", Value, (c.c_void_p, c.c_int, c.c_double)),
            ("ps_plan_add", Value, (c.c_void_p, Value, Value)),
            ("ps_plan_matmul", Value, (c.c_void_p, Value, Value)),
            ("ps_plan_reduce_sum", Value, (c.c_void_p, Value)),
            ("ps_plan_print", Value, (c.c_void_p, Value, c.POINTER(Value), c.c_size_t, c.c_char_p)),
            ("ps_plan_eval", c.c_int, (Value, c.c_void_p, c.c_size_t)),
            ("ps_value_name", c.c_char_p, (Value,)),
            ("ps_value_device", c.c_char_p, (Value,))):
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = arguments
    return lib


class Client:
    """A session and a plan."""

    def __init__(self, lib, target):
        self.lib = lib
        argv = (c.c_char_p * 6)(b"plans", b"--target", target.encode(), b"--timeout=60s", b"--log_level=error", None)
        self.session = lib.ps_session_open_args(c.byref(c.c_int(5)), argv, None)
        self.plan = lib.ps_plan_new(self.session)

    def at(self, device, make):
        assert self.lib.ps_device_push(self.session, device) == OK, self.lib.ps_last_error()
        value = make()
        assert self.lib.ps_device_pop(self.session) == OK
        assert value.plan, self.lib.ps_plan_error(self.plan)
        return value

    def eval(self, value, kind):
        """(status, applied, text, value); all on this thread."""
        out = kind()
        status = self.lib.ps_plan_eval(value, c.byref(out), c.sizeof(out))
        return status, self.lib.ps_last_applied(), self.lib.ps_last_error().decode(), out.value

    def close(self):
        return self.lib.ps_session_close(self.session)


@unittest.skipIf(SANITIZED, "Python is not built with the sanitizer")
class Plans(unittest.TestCase):
    def long_sum(self, client):
        """Rows on worker 0 that print, and then multiply for seconds."""
        lib, plan, n = client.lib, client.plan, 1200

        def make():
            zeros = (c.c_int64 * n)()
            x = lib.ps_plan_add(plan, lib.ps_plan_const(plan, I64, shape(n, 1), zeros, c.sizeof(zeros)),
                                lib.ps_plan_const(plan, I64, shape(1, n), zeros, c.sizeof(zeros)))
            x = lib.ps_plan_print(plan, x, None, 0, b"it runs")
            for _ in range(20):
                x = lib.ps_plan_matmul(plan, x, x)
            return lib.ps_plan_reduce_sum(plan, x)
        return client.at(b"/job:worker/task:0", make)

    def test_values_between_workers(self):
        with Executors(1, workers=2) as cluster:
            client = Client(load(), cluster.addresses[0])
            lib, plan = client.lib, client.plan
            a = client.at(b"/job:worker/task:0", lambda: lib.ps_plan_add(plan, lib.ps_plan_scalar(plan, F32, 1), lib.ps_plan_scalar(plan, F32, 2)))
            b = client.at(b"/job:worker/task:1", lambda: lib.ps_plan_add(plan, a, a))
            self.assertEqual(client.eval(b, c.c_float)[::3], (OK, 6.0))
            self.assertEqual((lib.ps_value_name(b), lib.ps_value_device(b)), (b"add_1", b"/job:worker/task:1/device:CPU:0"))
            code, out, err = run(path("bin/psctl"), "vars", "-t", cluster.worker_addresses[0])
            self.assertEqual((code, err), (0, ""))
            self.assertIn("session/", out)  # the value between the two
            self.assertEqual(client.close(), OK)

    def test_a_worker_that_is_killed(self):
        with Executors(1, workers=1) as cluster:
            client = Client(load(), cluster.addresses[0])
            value = self.long_sum(client)
            ended = []
            thread = threading.Thread(target=lambda: ended.append(client.eval(value, c.c_int64)))
            thread.start()
            limit = time.monotonic() + 600
            while not any("it runs" in line for line in cluster.said[1]):
                self.assertLess(time.monotonic(), limit)
                self.assertEqual(ended, [])
                time.sleep(0.01)  # sleep: between two looks at what the worker has said
            cluster.kill(1)
            cluster.start(1)
            thread.join(600)
            status, applied, text, _ = ended[0]
            self.assertEqual((status, applied), (ABORTED, OUTCOME_UNKNOWN), text)
            self.assertIn("rows 'add', 'Print', 'MatMul', 'MatMul_1' and 19 more at /job:worker/task:0", text)
            self.assertEqual(client.lib.ps_session_status(client.session), OK)
            again = client.at(b"/job:worker/task:0", lambda: client.lib.ps_plan_add(
                client.plan, client.lib.ps_plan_scalar(client.plan, F32, 1), client.lib.ps_plan_scalar(client.plan, F32, 2)))
            self.assertEqual(client.eval(again, c.c_float)[::3], (OK, 3.0))
            self.assertEqual(client.close(), OK)


if __name__ == "__main__":
    sys.exit(main(unittest))
