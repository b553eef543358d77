#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make tests/parity/rowwise_vectors.h: what the optimizers by row do to a few small variables, step by step.

    python3 tests/parity/rowwise_vectors.py > tests/parity/rowwise_vectors.h

The numbers are computed by the formulas of FBGEMM (fbgemm_gpu/codegen/genscript/optimizers.py, rowwise_adagrad and
partial_rowwise_adam) with 50 digits, and rounded to float64, then to float32. Each step begins with the state after the step before.
"""
import decimal
import random
import struct
import sys
import textwrap

SEED = 20261129
STEPS = 4
SHAPES = ((1, 1), (3, 7), (2, 33))
FORMATS = {"F32": ("<f", "<I", 8, 10), "F64": ("<d", "<Q", 16, 6)}
D = decimal.Decimal
decimal.getcontext().prec = 50


def mean(row):
    return sum(g * g for g in row) / len(row)


def adagrad(h, t, g, v, a):
    a = [[s + mean(row)] for (s,), row in zip(a, g)]
    return [[w - h["learning_rate"] * x / (s.sqrt() + h["epsilon"]) for w, x in zip(*rows)] for *rows, (s,) in zip(v, g, a)], a


def adam(h, t, g, v, m, b):
    m = [[h["beta1"] * x + (1 - h["beta1"]) * y for x, y in zip(*rows)] for rows in zip(m, g)]
    b = [[h["beta2"] * s + (1 - h["beta2"]) * mean(row)] for (s,), row in zip(b, g)]
    rate, share = h["learning_rate"] / (1 - h["beta1"] ** t), 1 - h["beta2"] ** t
    return [[w - rate * x / ((s / share).sqrt() + h["epsilon"]) for w, x in zip(*rows)] for *rows, (s,) in zip(v, m, b)], m, b


# kind, formula, whether each slot has one element a row, first value of the slots, hyperparameters that float32 has exactly
CASES = (
    ("ROWWISE_ADAGRAD", adagrad, (True,), 0.0, {"learning_rate": 0.0625, "epsilon": 2.0**-20}),
    ("ROWWISE_ADAGRAD", adagrad, (True,), 0.125, {"learning_rate": 0.5, "initial_accumulator": 0.125, "epsilon": 0.0}),
    ("ROWWISE_ADAM", adam, (False, True), 0.0, {"learning_rate": 0.0625, "beta1": 0.875, "beta2": 0.984375, "epsilon": 2.0**-20}),
)


def rounded(array, dtype):
    """The dtype's numbers, as D."""
    fmt = FORMATS[dtype][0]
    return [[D(struct.unpack(fmt, struct.pack(fmt, float(x)))[0]) for x in row] for row in array]


def inputs(dtype, rows, columns):
    rng = random.Random(SEED + columns)
    sizes = [[10.0 ** rng.randint(-3, 1) for _ in range(columns)] for _ in range(rows)]
    made = [[[rng.gauss(0, 1) for _ in range(columns)] for _ in range(rows)]]
    for step in range(STEPS):
        made.append([[0.0 if step == 2 and row is sizes[-1] else rng.gauss(0, 1) * size for size in row] for row in sizes])
    return [rounded(array, dtype) for array in made]


def emit(name, arrays, dtype):
    fmt, bits, digits, line = FORMATS[dtype]
    words = ["0x%0*x" % (digits, struct.unpack(bits, struct.pack(fmt, float(x)))[0]) for a in arrays for row in a for x in row]
    print("static const uint%d_t %s[] = {" % (digits * 4, name))
    for i in range(0, len(words), line):
        print("    " + ", ".join(words[i : i + line]) + ",")
    print("};")


def main():
    print("/* SPDX-License-Identifier: Apache-2.0 */")
    print("/*")
    print(" * Made by tests/parity/rowwise_vectors.py; do not edit. Seed %d. Numbers are the bits of IEEE values." % SEED)
    print(" * Inputs: start, then the gradient of each step. Cases: variable and slots after each step, one after the other.")
    print(" */")
    print("/* clang-format off */")
    print("#define ROWWISE_STEPS %d" % STEPS)
    cases = []
    for dtype in FORMATS:
        for rows, columns in SHAPES:
            given = "rowwise_in_%s_%d" % (dtype.lower(), columns)
            start, *grads = inputs(dtype, rows, columns)
            emit(given, [start, *grads], dtype)
            for i, (kind, formula, by_row, first, h) in enumerate(CASES):
                numbers = {k: D(v) for k, v in h.items()}
                arrays = [start] + [[[D(first)] * (1 if each else columns)] * rows for each in by_row]
                recorded = []
                for t, g in enumerate(grads, 1):
                    arrays = [rounded(a, dtype) for a in formula(numbers, t, g, *arrays)]
                    recorded += arrays
                made = "rowwise_out_%s_%d_%d" % (dtype.lower(), columns, i)
                emit(made, recorded, dtype)
                opt = ", ".join([".kind = PS_OPT_" + kind] + [".%s = %r" % item for item in h.items()])
                row = "{PS_%s, %d, %d, {%s}, %s, %s}," % (dtype, rows, columns, opt, given, made)
                cases += textwrap.wrap(row, 120, initial_indent="    ", subsequent_indent="     ")
    print("static const struct rowwise_case {")
    print("    ps_dtype dtype;")
    print("    uint32_t rows, columns;")
    print("    ps_optimizer opt;")
    print("    const void *in, *out;")
    print("} rowwise_cases[] = {")
    print("\n".join(cases))
    print("};")
    print("/* clang-format on */")


if __name__ == "__main__":
    sys.exit(main())
