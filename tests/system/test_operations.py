#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each operation of worker/ops against NumPy: random shapes and dtypes, sizes 0 and 1, broadcasting, values at the edges of their
dtypes. The bounds are those of the table (tests/ops/run --rows), which docs/TF_MAP.md shows. PS_TEST_SEED=n: other cases.
test-timeout: 300"""
import math
import os
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
except ImportError:  # NumPy is a package of Debian's Python (scripts/deps), which may not be the first one in PATH
    np = None
    if sys.executable != "/usr/bin/python3" and os.path.exists("/usr/bin/python3"):
        os.execv("/usr/bin/python3", ["/usr/bin/python3"] + sys.orig_argv[1:])

from cluster import SANITIZED, main, path

FLOATS, INTEGERS = ("float32", "float64"), ("int32", "int64")
TSAN = os.path.basename(path("")) == "tsan"
PREFIX = ["setarch", "-R"] if TSAN else []  # as scripts/test-runner starts programs of that variant
SIZES = (0, 1, 1, 2, 3, 5, 8, 17)
ELEMENTS_MAX = 4000
RANK_MAX = 6
LINEAR, RELU, SIGMOID, TANH = range(4)


class Run:
    """tests/ops/run: one process that runs a case after the other."""

    def __init__(self, device, plugins):
        env = dict(os.environ, PS_PLUGIN_DIR=path(plugins))
        self.stderr = tempfile.TemporaryFile()  # no pipe: what print writes would fill it while nobody reads
        self.child = subprocess.Popen(PREFIX + [path("tests/ops/run")] + device, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr, env=env)

    def complaint(self):
        with self.stderr:
            self.stderr.seek(0)
            text = self.stderr.read().decode()
        return re.sub(r"==\d+==WARNING: ASan doesn't fully support makecontext/swapcontext .*\n", "", text)  # the emulated GPU's threads

    def close(self):
        self.child.stdin.close()
        self.child.stdout.close()
        return self.child.wait(), self.complaint()

    def __call__(self, name, inputs, **attrs):
        """The outputs, or the text of the error."""
        words = [name] + [f"{key}={value}" for key, value in attrs.items()]
        words += [f"in={x.dtype}:{','.join(map(str, x.shape))}" for x in inputs]
        self.child.stdin.write(" ".join(words).encode() + b"\n" + b"".join(np.ascontiguousarray(x).tobytes() for x in inputs))
        self.child.stdin.flush()
        line = self.child.stdout.readline().decode().split()
        if not line:
            raise AssertionError(f"{words}: the program has ended")
        if line[0] == "error":
            return " ".join(line[1:])
        outputs = []
        for word in line[1:]:
            dtype, _, dims = word.partition(":")
            shape = tuple(int(d) for d in dims.split(",") if d)
            data = self.child.stdout.read(math.prod(shape) * np.dtype(dtype).itemsize)
            outputs.append(np.frombuffer(data, dtype).reshape(shape))
        return outputs


class Random:
    def __init__(self, seed):
        self.r = np.random.default_rng(seed)

    def size(self):
        return int(self.r.choice(SIZES))

    def shape(self, rank=None, least=0):
        rank = int(self.r.integers(least, RANK_MAX + 1)) if rank is None else rank
        while True:
            shape = tuple(self.size() for _ in range(rank))
            if math.prod(shape) <= ELEMENTS_MAX:
                return shape

    def broadcast(self):
        """Two shapes that fit each other, by NumPy's rules."""
        whole = self.shape()
        sides = []
        for _ in range(2):
            side = tuple(1 if self.r.random() < 0.3 else d for d in whole)
            sides.append(side[int(self.r.integers(0, len(side) + 1)):] if self.r.random() < 0.3 else side)
        self.r.shuffle(sides)
        return [tuple(int(d) for d in side) for side in sides]

    def values(self, dtype, shape, special=True, scale=None):
        """Floats of many sizes, with NaN, infinities, -0.0 and the largest among them; integers up to the edges."""
        dtype = np.dtype(dtype)
        if dtype.kind == "f":
            scale = scale if scale is not None else 10.0 ** self.r.integers(-3, 4)
            x = np.asarray(self.r.standard_normal(shape) * scale, dtype)
            if special and x.size and self.r.random() < 0.3:
                few = self.r.random(shape) < 0.1
                x[few] = self.r.choice(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, np.finfo(dtype).max, np.finfo(dtype).tiny], dtype), few.sum())
            return x
        limits = np.iinfo(dtype)
        if special and self.r.random() < 0.5:
            return np.asarray(self.r.integers(limits.min, limits.max, shape, dtype, endpoint=True))
        return np.asarray(self.r.integers(-9, 10, shape), dtype)

    def axis(self, rank):
        return int(self.r.integers(-rank, rank))

    def chance(self, p=0.5):
        return bool(self.r.random() < p)


def wide(x):
    """Of floats what is exact enough to be compared with; integers stay."""
    return x.astype(np.longdouble) if x.dtype.kind == "f" else x


def activation(which, z):
    z = np.asarray(z, np.longdouble)
    return (z, np.where(z <= 0, 0, z), 1 / (1 + np.exp(-z)), np.tanh(z))[which]


def slope(which, y):
    return (np.ones_like(y), np.where(y <= 0, 0, 1), y * (1 - y), 1 - y * y)[which]


def kept(seed, step, keep, count):
    """The mask of dropout: worker/nn/kernels/mask.h."""
    def mix64(v):
        v = (v + 0x9e3779b97f4a7c15) % 2 ** 64
        v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9 % 2 ** 64
        v = (v ^ (v >> 27)) * 0x94d049bb133111eb % 2 ** 64
        return v ^ (v >> 31)

    def mix32(v):
        v = v ^ (v >> np.uint32(16))
        v = v * np.uint32(0x7feb352d)
        v = v ^ (v >> np.uint32(15))
        v = v * np.uint32(0x846ca68b)
        return v ^ (v >> np.uint32(16))
    assert count <= 2 ** 20
    key = mix64((mix64(mix64(seed) ^ step) + 0) % 2 ** 64)
    i = np.arange(count, dtype=np.uint32)
    return mix32(mix32(i ^ np.uint32(key % 2 ** 32)) ^ np.uint32(key >> 32)) <= np.uint32(int(float(np.float32(keep)) * 2.0 ** 32) - 1)


def element(x):
    """As TensorFlow's StrAppend writes a number."""
    if x.dtype.kind != "f":
        return str(int(x))
    if np.isnan(x):
        return "nan"
    digits = 6 if x.dtype == np.float32 else 15
    short = f"{float(x):.{digits}g}"
    return short if x.dtype.type(short) == x else f"{float(x):.{digits + 2}g}"


def summary(x, limit):
    """TensorFlow 1.15's Tensor::SummarizeValue, by its own recursion (core/framework/tensor.cc, PrintOneDim)."""
    flat, done, text = x.ravel(), 0, []
    limit = x.size if limit < 0 else min(limit, x.size)

    def one_dimension(depth):
        nonlocal done
        if done >= limit:
            return
        if depth == x.ndim - 1:
            for i in range(x.shape[depth]):
                if done >= limit:
                    text.append("..." if depth != 0 else "")
                    return
                text.append((" " if i > 0 else "") + element(flat[done]))
                done += 1
            return
        for _ in range(x.shape[depth]):
            opened = done < limit
            text.append("[" if opened else "")
            one_dimension(depth + 1)
            text.append("]" if opened or done < limit else "")
    if x.ndim > 0:
        one_dimension(0)
    elif limit > 0:
        text.append(element(flat[0]))
    return "".join(text) + ("..." if limit < x.size else "")


@unittest.skipIf(np is None, "NumPy is not installed (scripts/deps installs it)")
class Operations(unittest.TestCase):
    CASES = 12 if SANITIZED else 60  # of a row and dtype
    DEVICE, PLUGINS = [], "lib"  # none is named: the CPU

    @classmethod
    def setUpClass(cls):
        cls.seed = int(os.environ.get("PS_TEST_SEED", "1"))
        print("seed", cls.seed, file=sys.stderr)
        listed = subprocess.run(PREFIX + [path("tests/ops/run"), "--rows"], stdout=subprocess.PIPE, check=True, encoding="ascii").stdout
        cls.rows = {}
        for line in listed.splitlines():
            name, dtypes, bound, factor, _ = line.split()
            cls.rows[name] = (dtypes.split(","), bound, float(factor))

    def setUp(self):
        self.run_op = Run(self.DEVICE, self.PLUGINS)
        self.random = Random([self.seed, sum(self.id().encode())])
        self.old = np.seterr(all="ignore")
        self.printed = ""  # what the program is to have written to stderr

    def tearDown(self):
        np.seterr(**self.old)
        status, complaint = self.run_op.close()
        self.assertEqual((status, complaint), (0, self.printed))

    # ---- comparing ----

    def compare(self, name, got, wanted, eps_of, terms=None, count=1, what=""):
        """got is within the row's bound of wanted. terms: the sum of absolute values of what was added up to it, `count` of them."""
        _, bound, factor = self.rows[name]
        self.assertEqual(got.shape, wanted.shape, what)
        if got.dtype.kind != "f" or bound == "exact":
            same = (got == wanted) | ((got != got) & (wanted != wanted))
            self.assertTrue(same.all(), f"{what}: {got} instead of {wanted}")
            return
        got = got.astype(np.longdouble)
        finite = np.isfinite(wanted) & np.isfinite(wanted.astype(eps_of))
        with np.errstate(all="ignore"):
            same = (got == wanted.astype(eps_of)) | ((got != got) & (wanted != wanted))
        self.assertTrue(same[~finite].all(), f"{what}: {got} instead of {wanted}, where that is not finite")
        eps = np.finfo(eps_of).eps
        room = {"result": np.abs(wanted), "terms": terms, "product": None if terms is None else terms * math.sqrt(max(count, 1))}[bound]
        room = factor * eps * room + 2 * np.finfo(eps_of).tiny
        off = np.abs(got - wanted)
        self.assertTrue((off <= room)[finite].all(), f"{what}: off by {(off / room)[finite].max() if finite.any() else 0} of what is allowed")

    def outputs(self, name, inputs, **attrs):
        got = self.run_op(name, inputs, **attrs)
        self.assertIsInstance(got, list, f"{name} {[(x.dtype, x.shape) for x in inputs]} {attrs}: {got}")
        return got

    def refused(self, name, got, what=""):
        self.assertIsInstance(got, str, f"{name} {what}: {got}")
        self.assertTrue(got.startswith(f"INVALID_ARGUMENT {name}: "), got)

    def cases(self, name):
        for dtype in self.rows[name][0]:
            if dtype not in ("bool", "string"):
                for _ in range(self.CASES):
                    yield dtype

    # ---- rows ----

    def test_every_row_is_compared(self):
        tested = {"const", "placeholder"}  # they compute nothing: tests/unit/worker/test_ops.c
        for method in dir(self):
            if method.startswith("test_row_"):
                tested.update(getattr(self, method).__doc__.split())
        self.assertEqual(tested, set(self.rows))

    def test_row_identity(self):
        """identity"""
        for dtype in self.cases("identity"):
            x = self.random.values(dtype, self.random.shape())
            self.compare("identity", self.outputs("identity", [x])[0], x, dtype)
        for shape in ((), (0,), (3, 2)):
            x = np.asarray(self.random.r.integers(0, 2, shape), bool)
            self.compare("identity", self.outputs("identity", [x])[0], x, bool)

    def test_row_print(self):
        """print"""
        for dtype in self.cases("print"):
            shapes = [self.random.shape() for _ in range(int(self.random.r.integers(0, 4)))]
            x, data = self.random.values(dtype, self.random.shape()), [self.random.values(self.random.r.choice(FLOATS + INTEGERS), s) for s in shapes]
            limit = int(self.random.r.integers(-1, 8))
            self.printed += "portion" + "".join(f"[{summary(d, limit or 3)}]" for d in data) + "\n"
            got = self.outputs("print", [x] + data, message="portion", summarize=limit)
            self.assertEqual(len(got), 1)
            self.compare("print", got[0], x, dtype)

    def test_row_cast(self):
        """cast"""
        for dtype in self.cases("cast"):
            for to in FLOATS + INTEGERS:
                x = self.random.values(dtype, self.random.shape())
                if to in INTEGERS:
                    least, most = np.iinfo(to).min, np.iinfo(to).max
                    if not (np.isfinite(x) & (np.trunc(wide(x)) >= least) & (np.trunc(wide(x)) <= most)).all():
                        self.refused("cast", self.run_op("cast", [x], dtype=to), f"{x} to {to}")
                        continue
                got = self.outputs("cast", [x], dtype=to)[0]
                self.assertEqual(got.dtype, to)
                self.compare("cast", got, x.astype(to), to, what=f"{dtype} to {to}")

    def test_row_arithmetic(self):
        """add sub mul div"""
        functions = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
        for name in ("add", "sub", "mul", "div"):
            for dtype in self.cases(name):
                a, b = (self.random.values(dtype, shape) for shape in self.random.broadcast())
                if name == "div" and dtype in INTEGERS:
                    b = np.where(b == 0, b.dtype.type(7), b)
                    wanted = np.floor_divide(a, b)
                else:
                    wanted = functions.get(name, np.true_divide)(a, b)
                got = self.outputs(name, [a, b])[0]
                self.assertEqual(got.dtype, dtype)
                self.compare(name, got, wanted.astype(dtype), dtype, what=f"{name} {dtype} {a.shape} {b.shape}")

    def test_row_matmul(self):
        """matmul"""
        for dtype in self.cases("matmul"):
            m, k, n = (self.random.size() for _ in range(3))
            self.matmul(dtype, m, k, n, self.random.chance(), self.random.chance())

    def matmul(self, dtype, m, k, n, transpose_a, transpose_b):
        a, b = self.random.values(dtype, (m, k), special=dtype in INTEGERS), self.random.values(dtype, (k, n), special=dtype in INTEGERS)
        got = self.outputs("matmul", [a.T if transpose_a else a, b.T if transpose_b else b], transpose_a=int(transpose_a),
                           transpose_b=int(transpose_b))[0]
        self.assertEqual(got.dtype, dtype)
        terms = np.abs(wide(a)) @ np.abs(wide(b)) if dtype in FLOATS else None
        self.compare("matmul", got, wide(a) @ wide(b), dtype, terms, k, f"{dtype} {m} {k} {n} {transpose_a} {transpose_b}")

    def test_row_activations(self):
        """relu sigmoid tanh"""
        for which, name in enumerate(("relu", "sigmoid", "tanh"), 1):
            for dtype in self.cases(name):
                x = self.random.values(dtype, self.random.shape())
                wanted = np.maximum(x, 0) if which == RELU else activation(which, x)
                self.compare(name, self.outputs(name, [x])[0], wanted, dtype, what=f"{name} {dtype} {x}")

    def test_row_activations_backward(self):
        """relu_backward sigmoid_backward tanh_backward"""
        for which, name in enumerate(("relu_backward", "sigmoid_backward", "tanh_backward"), 1):
            for dtype in self.cases(name):
                shape = self.random.shape()
                y = activation(which, self.random.values(dtype, shape, special=False, scale=1)).astype(dtype)
                dy = self.random.values(dtype, shape, special=False)
                wanted = np.where(y <= 0, 0, dy) if which == RELU else wide(dy) * slope(which, wide(y))
                self.compare(name, self.outputs(name, [y, dy])[0], wanted, dtype, what=name)

    def test_row_softmax(self):
        """softmax"""
        for dtype in self.cases("softmax"):
            x = self.random.values(dtype, self.random.shape(least=1), scale=3)
            shifted = x - x.max(-1, keepdims=True, initial=-np.inf)
            e = np.exp(shifted.astype(np.longdouble) if dtype == "float64" else wide(x) - wide(x).max(-1, keepdims=True, initial=-np.inf))
            self.compare("softmax", self.outputs("softmax", [x])[0], e / e.sum(-1, keepdims=True), dtype, what=f"{dtype} {x}")

    def test_row_reductions(self):
        """reduce_sum reduce_mean"""
        for name in ("reduce_sum", "reduce_mean"):
            for dtype in self.cases(name):
                self.reduction(name, self.random.values(dtype, self.random.shape()))

    def reduction(self, name, x):
        dtype, attrs, axis = str(x.dtype), {}, None
        if dtype == "float64":  # whether a sum of the largest ones overflows on the way depends on its order
            x = np.where(np.abs(x) == np.finfo(dtype).max, 1.0, x)
        if x.ndim > 0 and self.random.chance(0.7):
            axis = attrs["axis"] = self.random.axis(x.ndim)
        keep = self.random.chance()
        attrs["keep_dims"] = int(keep)
        count = x.size if axis is None else x.shape[axis]
        what = f"{name} {dtype} {x.shape} {attrs}"
        if name == "reduce_mean" and dtype in INTEGERS:
            exact = x.astype(object).sum(axis, keepdims=keep)
            if count == 0:
                got = self.run_op(name, [x], **attrs)
                if np.size(exact) > 0:
                    self.refused(name, got, what)
                else:
                    self.assertIsInstance(got, list, what)
                return
            wanted = np.array([abs(int(v)) // count * (1 if v >= 0 else -1) for v in np.ravel(exact)], dtype).reshape(np.shape(exact))
        elif name == "reduce_mean":
            wanted = np.asarray(wide(x).sum(axis, keepdims=keep) / np.longdouble(count))
        else:
            wanted = np.asarray(wide(x).sum(axis, dtype=wide(x).dtype, keepdims=keep))
        terms = np.asarray(np.abs(wide(x)).sum(axis, keepdims=keep)) / (max(count, 1) if name == "reduce_mean" else 1)
        got = self.outputs(name, [x], **attrs)[0]
        self.assertEqual(got.dtype, dtype)
        self.compare(name, got, wanted, dtype, terms, what=what)

    def test_row_argmax(self):
        """argmax"""
        for dtype in self.cases("argmax"):
            x = self.random.values(dtype, self.random.shape(least=1))
            axis = self.random.axis(x.ndim)
            got = self.run_op("argmax", [x], axis=axis)
            if x.shape[axis] == 0:
                self.refused("argmax", got)
                continue
            self.assertEqual(got[0].dtype, "int64")
            self.compare("argmax", got[0], x.argmax(axis), dtype, what=f"{dtype} {x} {axis}")

    def test_row_split(self):
        """split"""
        for dtype in self.cases("split"):
            x = self.random.values(dtype, self.random.shape(least=1))
            axis, parts = self.random.axis(x.ndim), int(self.random.r.integers(1, 6))
            got = self.run_op("split", [x], axis=axis, outputs=parts)
            if x.shape[axis] % parts != 0:
                self.refused("split", got)
                continue
            for one, wanted in zip(got, np.split(x, parts, axis), strict=True):
                self.compare("split", one, wanted, dtype)

    def test_row_joins(self):
        """concat stack"""
        for name in ("concat", "stack"):
            for dtype in self.cases(name):
                shape, count = self.random.shape(least=1), int(self.random.r.integers(1, 6))
                axis = self.random.axis(len(shape) + (name == "stack"))
                shapes = [list(shape) for _ in range(count)]
                for one in shapes if name == "concat" else ():
                    one[axis] = self.random.size()
                inputs = [self.random.values(dtype, tuple(one)) for one in shapes]
                wanted = np.concatenate(inputs, axis) if name == "concat" else np.stack(inputs, axis)
                self.compare(name, self.outputs(name, inputs, axis=axis)[0], wanted, dtype, what=f"{name} {shapes} {axis}")

    def test_row_dense(self):
        """dense dense_act"""
        for name in ("dense", "dense_act"):
            for dtype in self.cases(name):
                rows, inner, columns = (self.random.size() for _ in range(3))
                act = int(self.random.r.integers(0, 4)) if name == "dense_act" else LINEAR
                x, w, b = (self.random.values(dtype, s, special=False, scale=1) for s in ((rows, inner), (inner, columns), (columns,)))
                inputs = [x, w, b] if self.random.chance() else [x, w]
                z = wide(x) @ wide(w) + (wide(b) if len(inputs) == 3 else 0)
                terms = np.abs(wide(x)) @ np.abs(wide(w)) + np.abs(wide(b)) + (act in (SIGMOID, TANH))
                got = self.outputs(name, inputs, **({"activation": act} if name == "dense_act" else {}))[0]
                self.compare(name, got, activation(act, z), dtype, terms, inner + 1, f"{name} {rows} {inner} {columns} {act}")

    def test_row_dense_backward(self):
        """dense_backward dense_act_backward"""
        for name in ("dense_backward", "dense_act_backward"):
            for dtype in self.cases(name):
                rows, inner, columns = (self.random.size() for _ in range(3))
                act = int(self.random.r.integers(0, 4)) if name == "dense_act_backward" else LINEAR
                x = activation(act, self.random.values(dtype, (rows, inner), special=False, scale=1)).astype(dtype)
                w, dy = (self.random.values(dtype, s, special=False, scale=1) for s in ((inner, columns), (rows, columns)))
                outputs = int(self.random.r.integers(0, 4))
                attrs = {"outputs": outputs, **({"activation": act} if name == "dense_act_backward" else {})}
                got = self.outputs(name, [x, w, dy], **attrs)
                self.assertEqual(len(got), outputs or 3)
                x, w, dy = wide(x), wide(w), wide(dy)
                of_x = slope(act, x)
                wanted = [(x.T @ dy, np.abs(x.T) @ np.abs(dy), rows), (dy.sum(0), np.abs(dy).sum(0), rows),
                          (dy @ w.T * of_x, np.abs(dy) @ np.abs(w.T) * np.maximum(np.abs(of_x), 1), columns)]
                for one, (exact, terms, count) in zip(got, wanted):
                    self.compare(name, one, exact, dtype, terms, count + 1, f"{name} {rows} {inner} {columns} {attrs}")

    def test_row_softmax_xent(self):
        """softmax_xent"""
        for dtype in self.cases("softmax_xent"):
            rows, classes = self.random.size(), max(self.random.size(), 1)
            logits = self.random.values(dtype, (rows, classes), special=False, scale=2)
            labels = self.random.r.integers(0, classes, rows).astype("int32")
            got = self.outputs("softmax_xent", [logits, labels])
            e = np.exp(wide(logits) - wide(logits).max(-1, keepdims=True, initial=-np.inf))
            p = e / e.sum(-1, keepdims=True)
            each = -np.log(p[np.arange(rows), labels])
            onehot = np.eye(classes, dtype=np.longdouble)[labels]
            self.assertEqual(got[0].dtype, "float64")
            self.compare("softmax_xent", got[0], np.asarray(each.mean() if rows else np.longdouble(0)), dtype,
                         np.abs(wide(logits)).sum() / max(rows, 1) + 1)
            self.compare("softmax_xent", got[1], (p - onehot) / max(rows, 1), dtype, (p + onehot) / max(rows, 1))
            self.assertEqual(len(self.outputs("softmax_xent", [logits, labels], outputs=1)), 1)

    def test_row_losses(self):
        """mean_squared_error mean_absolute_error sigmoid_xent"""
        rules = {"mean_squared_error": (lambda x, t: ((x - t) ** 2, 2 * (x - t))),
                 "mean_absolute_error": (lambda x, t: (np.abs(x - t), np.sign(x - t))),
                 "sigmoid_xent": (lambda x, t: (np.maximum(x, 0) - x * t + np.log1p(np.exp(-np.abs(x))), 1 / (1 + np.exp(-x)) - t))}
        for name, rule in rules.items():
            for dtype in self.cases(name):
                shape = self.random.shape()
                x, t = (self.random.values(dtype, shape, special=False, scale=2) for _ in range(2))
                each, slope_of_each = rule(wide(x), wide(t))
                got = self.outputs(name, [x, t])
                terms = (np.abs(wide(x)) + np.abs(wide(t)) + 1) ** 2
                self.assertEqual(got[0].dtype, "float64")
                self.compare(name, got[0], np.asarray(each.mean() if x.size else np.longdouble(0)), dtype, terms.sum() / max(x.size, 1))
                self.compare(name, got[1], slope_of_each / max(x.size, 1), dtype, terms / max(x.size, 1))
                self.assertEqual(len(self.outputs(name, [x, t], outputs=1)), 1)

    def test_row_gelu(self):
        """gelu gelu_backward"""
        erf = np.vectorize(math.erf, otypes=[np.float64])
        for dtype in self.cases("gelu"):
            shape = self.random.shape()
            x, dy = (self.random.values(dtype, shape, special=False, scale=2) for _ in range(2))
            part = (1 + erf(x.astype("float64") / math.sqrt(2))) / 2
            self.compare("gelu", self.outputs("gelu", [x])[0], wide(x) * part, dtype, np.abs(wide(x)))
            wanted = wide(dy) * (part + wide(x) * np.exp(-wide(x) ** 2 / 2) / math.sqrt(2 * math.pi))
            self.compare("gelu_backward", self.outputs("gelu_backward", [x, dy])[0], wanted, dtype, 2 * np.abs(wide(dy)))

    def test_row_dropout(self):
        """dropout"""
        for dtype in self.cases("dropout"):
            x = self.random.values(dtype, self.random.shape(), special=False)
            seed, step, keep = (int(self.random.r.integers(0, 2 ** 40)) for _ in range(2)), 0, 0
            seed, step = seed
            keep = float(np.float32(self.random.r.choice([0.25, 0.5, 0.9, 1.0])))
            mask = kept(seed, step, keep, x.size).reshape(x.shape)
            got = self.outputs("dropout", [x], seed=seed, step=step, keep=repr(keep))[0]
            self.compare("dropout", got, np.where(mask, x * (np.float32(1) / np.float32(keep)), np.float32(0)), dtype)

    # ---- larger than a slice between two looks at whether the run is cancelled ----

    def test_large(self):
        n = 70_001 if SANITIZED else 600_001
        for dtype in FLOATS + INTEGERS:
            x, y = (self.random.values(dtype, (n,), special=dtype in INTEGERS) for _ in range(2))
            self.compare("add", self.outputs("add", [x, y])[0], x + y, dtype)
            self.compare("sub", self.outputs("sub", [x.reshape(1, n), y[:3].reshape(3, 1)])[0], x.reshape(1, n) - y[:3].reshape(3, 1), dtype)
            for name in ("reduce_sum", "reduce_mean"):
                self.reduction(name, x)
                self.reduction(name, x[:600 * 100].reshape(600, 100))
                self.reduction(name, x[:3 * 20000].reshape(3, 20000))
            self.compare("argmax", self.outputs("argmax", [x])[0], np.asarray(x.argmax()), dtype)
            halves = self.outputs("split", [x[:60000].reshape(300, 200)], axis=1, outputs=2)
            self.compare("concat", self.outputs("concat", halves, axis=1)[0], x[:60000].reshape(300, 200), dtype)
            for transposed in range(4):
                self.matmul(dtype, 130, 300, 270, transposed & 1, transposed >> 1)
            self.matmul(dtype, 3, 1000, 2, False, False)


class OnAnotherDevice(Operations):
    """Rows of the kernels where the device has memory of its own: the CUDA plugin, emulated on the host."""
    DEVICE, PLUGINS = ["emulated"], "tests/kernels"
    CASES = 3 if TSAN else Operations.CASES  # each thread of a block is a fiber there
    HERE = ("identity", "print", "cast", "arithmetic", "softmax", "reductions", "argmax", "split", "joins")  # rows that no kernel computes


for row in OnAnotherDevice.HERE:
    setattr(OnAnotherDevice, f"test_row_{row}", None)
OnAnotherDevice.test_large = OnAnotherDevice.test_every_row_is_compared = None


if __name__ == "__main__":
    sys.exit(main(unittest))
