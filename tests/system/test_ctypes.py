#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libpsworker called from Python with nothing but its standard library (ctypes), as from any second language. A session with real
psd processes; variables of every dtype, strings, pushes, atomic variables, narrow wires, compared with what Python computes."""
import array
import ctypes as c
import os
import struct
import sys
import unittest

from cluster import SANITIZED, Cluster, main, path

F32, F64, I32, I64, BOOL, F16, BF16, I8, U8, STRING = range(1, 11)
NAMES = ["none", "float32", "float64", "int32", "int64", "bool", "float16", "bfloat16", "int8", "uint8", "string"]
FORMATS = {F32: "f", F64: "d", I32: "i", I64: "q", BOOL: "?", F16: "e", BF16: "H", I8: "b", U8: "B"}
OK, INVALID_ARGUMENT, FAILED_PRECONDITION, OUT_OF_RANGE = 0, 3, 9, 11
NOT_FINITE = 49
TEXT_MAX = 1 << 20

LOG = c.CFUNCTYPE(None, c.c_void_p, c.c_int, c.c_char_p)


class Shape(c.Structure):
    _fields_ = [("rank", c.c_uint32), ("reserved", c.c_uint32), ("dims", c.c_int64 * 8)]


class Options(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("target", c.c_char_p), ("cluster_spec", c.c_char_p), ("cluster_name", c.c_char_p),
                ("job", c.c_char_p), ("task_index", c.c_uint32), ("spin_us", c.c_uint32), ("operation_timeout_ms", c.c_int64),
                ("ready_timeout_ms", c.c_int64), ("progress", c.c_int), ("log_level", c.c_int), ("log", LOG),
                ("log_ctx", c.c_void_p), ("program", c.c_char_p), ("seed", c.c_uint64), ("container", c.c_char_p),
                ("allow_soft_placement", c.c_bool), ("log_device_placement", c.c_bool), ("fail_fast", c.c_bool), ("prefetch", c.c_bool),
                ("wire_dtype", c.c_int), ("placement_log", LOG), ("placement_log_ctx", c.c_void_p), ("compute_device", c.c_char_p),
                ("compute_threads", c.c_uint32), ("start_timeout_ms", c.c_uint32), ("key_file", c.c_char_p), ("tls_cert", c.c_char_p),
                ("tls_key", c.c_char_p), ("tls_ca", c.c_char_p)]


class Spec(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("name", c.c_char_p), ("dtype", c.c_int), ("partitions", c.c_uint32),
                ("shape", Shape), ("init", c.c_void_p), ("optimizer", c.c_void_p), ("device", c.c_char_p), ("type", c.c_char_p),
                ("atomic", c.c_bool), ("unique", c.c_bool), ("reserved", c.c_uint8 * 2), ("wire_dtype", c.c_int)]


class Component(c.Structure):
    _fields_ = [("dtype", c.c_int), ("shaped", c.c_bool), ("reserved", c.c_uint8 * 3), ("shape", Shape)]


class Memory(c.Structure):
    _fields_ = [("data", c.c_void_p), ("bytes", c.c_size_t)]


def memory(*values):
    """ps_from or ps_into for each component of an element."""
    return (Memory * len(values))(*(Memory(c.addressof(v), c.sizeof(v)) for v in values))


class QueueSpec(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("name", c.c_char_p), ("kind", c.c_int), ("component_count", c.c_uint32),
                ("capacity", c.c_int64), ("min_after_dequeue", c.c_uint64), ("seed", c.c_uint64), ("device", c.c_char_p),
                ("components", Component * 16)]


def load():
    lib = c.CDLL(path("lib/libpsworker.so"))
    pointer = c.c_void_p
    for name, result, arguments in (
            ("ps_version", c.c_char_p, []),
            ("ps_last_error", c.c_char_p, []),
            ("ps_last_applied", c.c_int, []),
            ("ps_last_reason", c.c_int, []),
            ("ps_dtype_name", c.c_char_p, [c.c_int]),
            ("ps_dtype_bytes", c.c_size_t, [c.c_int]),
            ("ps_session_options_init", None, [c.POINTER(Options)]),
            ("ps_session_open", c.c_int, [c.POINTER(Options), c.POINTER(pointer), c.c_char_p, c.c_size_t]),
            ("ps_session_close", c.c_int, [pointer]),
            ("ps_variable_spec_init", None, [c.POINTER(Spec)]),
            ("ps_variable_get", c.c_int, [pointer, c.POINTER(Spec), c.POINTER(pointer)]),
            ("ps_variable_find", c.c_int, [pointer, c.c_char_p, c.POINTER(pointer)]),
            ("ps_variable_dtype", c.c_int, [pointer]),
            ("ps_variable_bytes", c.c_size_t, [pointer]),
            ("ps_variable_version", c.c_uint64, [pointer, c.POINTER(c.c_bool)]),
            ("ps_variable_init", c.c_int, [pointer, c.c_bool]),
            ("ps_variable_read", c.c_int, [pointer, pointer, c.c_size_t]),
            ("ps_variable_assign", c.c_int, [pointer, pointer, c.c_size_t]),
            ("ps_variable_assign_add", c.c_int, [pointer, pointer, c.c_size_t, pointer, c.c_size_t]),
            ("ps_variable_push", c.c_int, [pointer, pointer, c.c_size_t, c.c_float]),
            ("ps_variable_push_pull", c.c_int, [pointer, pointer, c.c_size_t, pointer, c.c_size_t, c.c_float]),
            ("ps_variable_assign_strings", c.c_int, [pointer, c.POINTER(c.c_char_p), c.POINTER(c.c_size_t), c.c_size_t]),
            ("ps_variable_read_strings", c.c_int,
             [pointer, c.c_char_p, c.c_size_t, c.POINTER(c.c_size_t), c.c_size_t, c.POINTER(c.c_size_t)]),
            ("ps_queue_spec_init", None, [c.POINTER(QueueSpec), c.c_char_p, c.c_int, Shape]),
            ("ps_queue_get", c.c_int, [pointer, c.POINTER(QueueSpec), c.POINTER(pointer)]),
            ("ps_queue_size", c.c_int, [pointer, c.POINTER(c.c_uint64)]),
            ("ps_enqueue", c.c_int, [pointer, c.POINTER(Memory), c.c_size_t, c.c_int64]),
            ("ps_dequeue", c.c_int, [pointer, c.POINTER(Memory), c.c_size_t, c.c_int64]),
            ("ps_accumulator_get", c.c_int, [pointer, c.c_char_p, c.c_int, Shape, c.c_int, c.c_char_p, c.POINTER(pointer)]),
            ("ps_accumulator_apply_grad", c.c_int, [pointer, pointer, c.c_size_t, c.c_int64, c.c_int64, c.POINTER(c.c_bool)]),
            ("ps_accumulator_take_grad", c.c_int, [pointer, c.c_int64, pointer, c.c_size_t, c.c_int64, c.POINTER(c.c_uint64)]),
            ("ps_accumulator_set_global_step", c.c_int, [pointer, c.c_int64, c.POINTER(c.c_int64)]),
            ("ps_accumulator_num_accumulated", c.c_int, [pointer, c.POINTER(c.c_uint64)]),
            ("ps_sgd", pointer, [c.c_double]),
            ("ps_constant", pointer, [c.c_double]),
            ("ps_truncated_normal", pointer, [c.c_double, c.c_double]),
            ("ps_he_normal", pointer, [c.c_int])):
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = arguments
    return lib


def bf16_round(x):
    """To the nearest bfloat16, ties to even: the float32 bits, half a unit added, cut."""
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return struct.unpack("<f", struct.pack("<I", (bits + 0x7fff + (bits >> 16 & 1)) >> 16 << 16))[0]


@unittest.skipIf(SANITIZED, "Python is not built with the sanitizer")
class Ctypes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lib = load()
        cls.cluster = Cluster(2)
        cls.cluster.__enter__()
        cls.quiet = LOG(lambda ctx, level, line: None)
        cls.session = cls.open()

    @classmethod
    def tearDownClass(cls):
        code = cls.lib.ps_session_close(cls.session)
        cls.cluster.__exit__()
        if code != 0:
            raise AssertionError("ps_session_close gave %d" % code)

    @classmethod
    def open(cls, **changes):
        options = Options()
        cls.lib.ps_session_options_init(c.byref(options))
        if options.struct_bytes != c.sizeof(Options):
            raise AssertionError("ps_session_options has %d bytes" % options.struct_bytes)
        options.target = cls.cluster.addresses[0].encode()
        options.log = cls.quiet
        for name, value in changes.items():
            setattr(options, name, value)
        session = c.c_void_p()
        error = c.create_string_buffer(512)
        status = cls.lib.ps_session_open(c.byref(options), c.byref(session), error, len(error))
        if status != OK:
            raise AssertionError(error.value.decode())
        return session

    def check(self, status, wanted=OK):
        self.assertEqual(status, wanted, self.lib.ps_last_error().decode())

    def get(self, name, dtype, dims, session=None, wanted=OK, **changes):
        spec = Spec()
        self.lib.ps_variable_spec_init(c.byref(spec))
        self.assertEqual(spec.struct_bytes, c.sizeof(Spec))
        spec.name, spec.dtype = name.encode(), dtype
        spec.shape.rank = len(dims)
        spec.shape.dims[:len(dims)] = dims
        for key, value in changes.items():
            setattr(spec, key, value)
        variable = c.c_void_p()
        self.check(self.lib.ps_variable_get(session or self.session, c.byref(spec), c.byref(variable)), wanted)
        return variable

    def read(self, variable, form, count):
        size = struct.calcsize("<%d%s" % (count, form))
        buffer = c.create_string_buffer(size)
        self.check(self.lib.ps_variable_read(variable, buffer, size))
        return list(struct.unpack("<%d%s" % (count, form), buffer.raw))

    def assign(self, variable, form, values):
        data = struct.pack("<%d%s" % (len(values), form), *values)
        self.check(self.lib.ps_variable_assign(variable, data, len(data)))

    def test_names(self):
        self.assertEqual([self.lib.ps_dtype_name(i).decode() for i in range(11)], NAMES)
        self.assertEqual([self.lib.ps_dtype_bytes(i) for i in range(1, 11)], [4, 8, 4, 8, 1, 2, 2, 1, 1, 0])
        self.assertEqual(self.lib.ps_dtype_name(11), b"invalid")
        self.assertRegex(self.lib.ps_version().decode(), r"^\d+\.\d+\.\d+$")

    def test_every_dtype(self):
        values = {F32: [0.5, -1.25, 3e38], F64: [0.1, -1e300, 2.0], I32: [-2**31, 2**31 - 1, 7], I64: [-2**63, 2**63 - 1, 7],
                  BOOL: [True, False, True], F16: [0.5, -65504.0, 2.0**-24], BF16: [0x3f80, 0xc000, 1], I8: [-128, 127, 0],
                  U8: [0, 255, 128]}
        for dtype, form in FORMATS.items():
            with self.subTest(NAMES[dtype]):
                v = self.get("every/" + NAMES[dtype], dtype, [1, 3])
                self.assertEqual(self.lib.ps_variable_dtype(v), dtype)
                self.assertEqual(self.lib.ps_variable_bytes(v), struct.calcsize("<3" + form))
                self.check(self.lib.ps_variable_init(v, False))
                self.assertEqual(self.read(v, form, 3), [struct.unpack("<" + form, bytes(struct.calcsize(form)))[0]] * 3)
                self.assign(v, form, values[dtype])
                expected = values[dtype]
                if dtype == F32:
                    expected = [struct.unpack("<f", struct.pack("<f", x))[0] for x in expected]
                self.assertEqual(self.read(v, form, 3), expected)
                found = c.c_void_p()
                self.check(self.lib.ps_variable_find(self.session, b"every/" + NAMES[dtype].encode(), c.byref(found)))
                self.assertEqual(self.read(found, form, 3), expected)

    def test_constants_round_as_python_rounds(self):
        for dtype, value in ((F16, 0.1), (F16, 65504.0), (F32, 1 / 3), (I8, -128), (U8, 255)):
            v = self.get("constant/%s/%d" % (NAMES[dtype], int(value * 10) % 1000), dtype, [2], init=self.lib.ps_constant(value))
            self.check(self.lib.ps_variable_init(v, False))
            expected = struct.unpack("<" + FORMATS[dtype], struct.pack("<" + FORMATS[dtype], value))[0]
            self.assertEqual(self.read(v, FORMATS[dtype], 2), [expected] * 2)
        for dtype, value in ((I8, 128), (U8, -1), (F16, 65536.0), (I32, 0.5), (BF16, 1e39)):
            self.get("constant/bad", dtype, [2], wanted=INVALID_ARGUMENT, init=self.lib.ps_constant(value))
            self.assertIn(NAMES[dtype], self.lib.ps_last_error().decode())

    def test_add(self):
        for dtype, start, delta, total in ((I8, 127, 1, -128), (U8, 250, 10, 4), (F16, 2048.0, 1.0, 2048.0),
                                           (F16, 0.5, 0.25, 0.75), (I64, 5, 7, 12), (F64, 0.5, 0.25, 0.75)):
            form = FORMATS[dtype]
            v = self.get("add/%s/%d" % (NAMES[dtype], start), dtype, [])
            self.assign(v, form, [start])
            data = struct.pack("<" + form, delta)
            out = c.create_string_buffer(len(data))
            self.check(self.lib.ps_variable_assign_add(v, data, len(data), out, len(data)))
            self.assertEqual(struct.unpack("<" + form, out.raw)[0], total)

    def test_push_and_pull(self):
        count = 70000
        v = self.get("push/v", F32, [count], optimizer=self.lib.ps_sgd(0.5))
        self.check(self.lib.ps_variable_init(v, False))
        gradient = array.array("f", (i % 100 for i in range(count)))
        out = array.array("f", bytes(4 * count))
        address = lambda a: a.buffer_info()[0]
        self.check(self.lib.ps_variable_push(v, address(gradient), 4 * count, 1.0))
        self.check(self.lib.ps_variable_push_pull(v, address(gradient), 4 * count, address(out), 4 * count, 2.0))
        self.assertEqual(list(out), [-1.5 * x for x in gradient])
        exact = c.c_bool()
        self.check(self.lib.ps_variable_read(v, address(out), 4 * count))
        self.assertEqual(self.lib.ps_variable_version(v, c.byref(exact)), 2)
        self.assertTrue(exact.value)
        gradient[9] = float("nan")
        self.check(self.lib.ps_variable_push(v, address(gradient), 4 * count, 1.0), INVALID_ARGUMENT)
        self.assertIn("element 9 ", self.lib.ps_last_error().decode())

    def test_narrow_wire(self):
        count = 40000
        wide = [i / 7 for i in range(count)]
        v = self.get("wire/v", F32, [count], optimizer=self.lib.ps_sgd(1.0), wire_dtype=BF16)
        self.assign(v, "f", wide)
        as_float = [struct.unpack("<f", struct.pack("<f", x))[0] for x in wide]
        self.assertEqual(self.read(v, "f", count), [bf16_round(x) for x in as_float])
        found = c.c_void_p()
        self.check(self.lib.ps_variable_find(self.session, b"wire/v", c.byref(found)))
        self.assertEqual(self.read(found, "f", count), as_float)
        self.assign(v, "f", [0] * count)
        gradient = array.array("f", wide)
        self.check(self.lib.ps_variable_push(v, gradient.buffer_info()[0], 4 * count, 1.0))
        self.assertEqual(self.read(found, "f", count), [-bf16_round(x) for x in as_float])
        narrow = self.open(wire_dtype=F16)
        v = self.get("wire/v", F32, [count], session=narrow, optimizer=self.lib.ps_sgd(1.0))
        self.assign(v, "f", [x / 8 for x in wide])
        rounded = struct.unpack("<%de" % count, struct.pack("<%de" % count, *(x / 8 for x in wide)))
        self.assertEqual(self.read(v, "f", count), list(rounded))
        self.assertEqual(self.lib.ps_session_close(narrow), 0)
        self.get("wire/other", F64, [2], wanted=INVALID_ARGUMENT, wire_dtype=BF16)
        self.assertIn("allowed are bfloat16 and float16", self.lib.ps_last_error().decode())

    def strings(self, variable, count):
        text = c.create_string_buffer(TEXT_MAX + 1)
        offsets = (c.c_size_t * (count + 1))()
        self.check(self.lib.ps_variable_read_strings(variable, text, len(text), offsets, count, None))
        return [text.raw[offsets[i]:offsets[i + 1]] for i in range(count)]

    def test_strings(self):
        v = self.get("strings/v", STRING, [2, 3])
        self.check(self.lib.ps_variable_init(v, False))
        self.assertEqual(self.strings(v, 6), [b""] * 6)
        values = ["plain".encode(), "".encode(), "späť".encode(), b"a\0b", bytes(range(256)), b"x" * 70000]
        pointers = (c.c_char_p * 6)()
        self.keep = [c.create_string_buffer(x, len(x) + 1) for x in values]
        for i, kept in enumerate(self.keep):
            pointers[i] = c.cast(kept, c.c_char_p)
        lengths = (c.c_size_t * 6)(*map(len, values))
        self.check(self.lib.ps_variable_assign_strings(v, pointers, lengths, 6))
        self.assertEqual(self.strings(v, 6), values)
        found = c.c_void_p()
        self.check(self.lib.ps_variable_find(self.session, b"strings/v", c.byref(found)))
        self.assertEqual(self.strings(found, 6), values)
        small = c.create_string_buffer(10)
        need = c.c_size_t()
        offsets = (c.c_size_t * 7)()
        self.check(self.lib.ps_variable_read_strings(v, small, 10, offsets, 6, c.byref(need)), OUT_OF_RANGE)
        self.assertEqual(need.value, sum(map(len, values)) + 1)
        self.check(self.lib.ps_variable_read(v, small, 10), INVALID_ARGUMENT)
        self.assertIn("ps_variable_read_strings", self.lib.ps_last_error().decode())
        lengths[5] = TEXT_MAX + 1
        self.check(self.lib.ps_variable_assign_strings(v, pointers, lengths, 6), INVALID_ARGUMENT)
        self.assertEqual(self.strings(v, 6), values)

    def test_atomic(self):
        count = 1 << 20
        v = self.get("atomic/v", F32, [count], optimizer=self.lib.ps_sgd(1.0), atomic=True)
        self.check(self.lib.ps_variable_init(v, False))
        gradient = array.array("f", [1.0]) * count
        gradient[count - 1] = float("inf")
        self.check(self.lib.ps_variable_push(v, gradient.buffer_info()[0], 4 * count, 1.0), INVALID_ARGUMENT)
        self.assertEqual(self.lib.ps_last_applied(), 0)
        self.assertEqual(self.lib.ps_last_reason(), NOT_FINITE)
        out = array.array("f", bytes(4 * count))
        self.check(self.lib.ps_variable_read(v, out.buffer_info()[0], 4 * count))
        self.assertEqual(set(out), {0.0})
        self.get("atomic/v", F32, [count], wanted=INVALID_ARGUMENT, session=self.session, optimizer=self.lib.ps_sgd(1.0))
        self.assertIn("atomic float32", self.lib.ps_last_error().decode())
        self.get("atomic/large", F32, [count + 1], wanted=INVALID_ARGUMENT, atomic=True)

    def test_queue(self):
        spec, queue, size = QueueSpec(), c.c_void_p(), c.c_uint64()
        self.lib.ps_queue_spec_init(c.byref(spec), b"python/queue", F64, Shape(1, 0, (c.c_int64 * 8)(3)))
        self.assertEqual(spec.struct_bytes, c.sizeof(QueueSpec))
        spec.component_count = 2
        spec.components[1] = Component(I32, True, shape=Shape(0))
        self.check(self.lib.ps_queue_get(self.session, c.byref(spec), c.byref(queue)))
        for i in range(3):
            doubles, number = (c.c_double * 3)(i, 0.1, -1e300), c.c_int32(-i)
            self.check(self.lib.ps_enqueue(queue, memory(doubles, number), 2, 0))
        self.check(self.lib.ps_queue_size(queue, c.byref(size)))
        self.assertEqual(size.value, 3)
        for i in range(3):
            doubles, number = (c.c_double * 3)(), c.c_int32()
            self.check(self.lib.ps_dequeue(queue, memory(doubles, number), 2, 0))
            self.assertEqual((list(doubles), number.value), ([i, 0.1, -1e300], -i))

    def test_accumulator(self):
        sums, accepted, count, before = c.c_void_p(), c.c_bool(), c.c_uint64(), c.c_int64()
        self.check(self.lib.ps_accumulator_get(self.session, b"python/sums", F64, Shape(1, 0, (c.c_int64 * 8)(3)), 1, None, c.byref(sums)))
        self.check(self.lib.ps_accumulator_set_global_step(sums, 5, c.byref(before)))
        self.assertEqual(before.value, 0)
        for i, local_step in enumerate((5, 4, 6)):
            doubles = (c.c_double * 3)(i, 1, -1e300)
            self.check(self.lib.ps_accumulator_apply_grad(sums, c.addressof(doubles), c.sizeof(doubles), local_step, 0, c.byref(accepted)))
            self.assertEqual(accepted.value, local_step >= 5)
        self.check(self.lib.ps_accumulator_num_accumulated(sums, c.byref(count)))
        self.assertEqual(count.value, 2)
        doubles = (c.c_double * 3)()
        self.check(self.lib.ps_accumulator_take_grad(sums, 1, c.addressof(doubles), c.sizeof(doubles), 0, c.byref(count)))
        self.assertEqual((list(doubles), count.value), ([1, 1, -1e300], 2))
        self.assertEqual(self.lib.ps_accumulator_take_grad(sums, 0, c.addressof(doubles), c.sizeof(doubles), 0, None), INVALID_ARGUMENT)

    def test_initializers(self):
        for name, init, bound in (("he", self.lib.ps_he_normal(0), 2 * (2 / 100) ** 0.5 / 0.87962566103423978),
                                  ("truncated", self.lib.ps_truncated_normal(0.0, 0.1), 0.2)):
            v = self.get("init/" + name, F64, [100, 50], init=init)
            self.check(self.lib.ps_variable_init(v, False))
            values = self.read(v, "d", 5000)
            self.assertLessEqual(max(map(abs, values)), bound)
            self.assertGreater(max(map(abs, values)), 0.98 * bound)
            self.assertLess(abs(sum(values) / 5000), 0.01)


if __name__ == "__main__":
    os.environ.pop("PSD_TARGET", None)
    sys.exit(main(unittest))
