#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make tests/parity/optim_vectors.h: what TensorFlow's own optimizers do to a few small variables.

    python3 -m venv /tmp/tf && /tmp/tf/bin/pip install tensorflow-cpu
    /tmp/tf/bin/python tests/parity/optim_vectors.py > tests/parity/optim_vectors.h

The optimizers are those of TensorFlow 1.x (tf.compat.v1.train), run in a graph on resource variables on the CPU, one push a step.
float64 cases get their hyperparameters as float64 (NumPy scalars): a Python float becomes a float32 tensor in TensorFlow 1.x,
also for a float64 variable, which is an accident of its Python layer and not of its kernels.
Gradients hold zeros, small and large values, but no denormals: TensorFlow's threads flush them to zero, psd does not.
"""
import os
import struct
import sys
import textwrap

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

SEED = 20240607
STEPS = 4
RECORDED = (1, STEPS)  # values are written after these steps
SIZES = (1, 7, 33)
v1 = tf.compat.v1
DTYPES = {"f32": np.float32, "f64": np.float64}
KINDS = {"sgd": "PS_OPT_SGD", "momentum": "PS_OPT_MOMENTUM", "adagrad": "PS_OPT_ADAGRAD", "adam": "PS_OPT_ADAM"}
SLOTS = {"sgd": (), "momentum": ("momentum",), "adagrad": ("accumulator",), "adam": ("m", "v")}
# kind, elements, hyperparameters that differ from TensorFlow's defaults (rate 0.1: it has no default there)
CASES = (
    ("sgd", 33, dict(learning_rate=0.1)),
    ("sgd", 7, dict(learning_rate=0.003)),
    ("momentum", 33, dict(learning_rate=0.01, momentum=0.9)),
    ("momentum", 7, dict(learning_rate=0.5, momentum=0.37)),
    ("momentum", 33, dict(learning_rate=0.01, momentum=0.9, nesterov=1)),
    ("momentum", 1, dict(learning_rate=0.2, momentum=0.99, nesterov=1)),
    ("adagrad", 33, dict(learning_rate=0.1)),
    ("adagrad", 33, dict(learning_rate=0.7, initial_accumulator=1.5)),
    ("adagrad", 7, dict(learning_rate=0.01, initial_accumulator=1e-6)),
    ("adam", 33, dict()),
    ("adam", 33, dict(learning_rate=0.02, beta1=0.8, beta2=0.99, epsilon=1e-3)),
    ("adam", 7, dict(learning_rate=0.5, beta1=0.0, beta2=0.5)),
    ("adam", 1, dict(learning_rate=0.002)),
)
DEFAULTS = dict(learning_rate=0.001, momentum=0.0, nesterov=0, initial_accumulator=0.1, beta1=0.9, beta2=0.999, epsilon=1e-8)


def hyper_of(changed):
    return {**DEFAULTS, **changed}


def make_optimizer(kind, h, dtype):
    def num(x):
        return float(x) if dtype == np.float32 else np.float64(x)

    rate = num(h["learning_rate"])
    if kind == "sgd":
        return v1.train.GradientDescentOptimizer(rate)
    if kind == "momentum":
        return v1.train.MomentumOptimizer(rate, num(h["momentum"]), use_nesterov=bool(h["nesterov"]))
    if kind == "adagrad":
        return v1.train.AdagradOptimizer(rate, initial_accumulator_value=h["initial_accumulator"])
    return v1.train.AdamOptimizer(rate, num(h["beta1"]), num(h["beta2"]), num(h["epsilon"]))


def run_case(kind, h, dtype, start, grads):
    """[(var, slots...)] after each recorded step, as TensorFlow has them."""
    with tf.Graph().as_default():
        var = v1.get_variable("w", initializer=start, use_resource=True)
        fed = v1.placeholder(dtype, start.shape)
        optimizer = make_optimizer(kind, h, dtype)
        step = optimizer.apply_gradients([(fed, var)])
        slots = [optimizer.get_slot(var, name) for name in SLOTS[kind]]
        assert all(s is not None for s in slots)
        recorded = []
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for i, grad in enumerate(grads):
                session.run(step, {fed: grad})
                if i + 1 in RECORDED:
                    recorded.append(session.run([var] + slots))
        return recorded


def inputs(dtype, size):
    rng = np.random.RandomState(SEED + size)
    start = rng.normal(0, 1, size)
    grads = rng.normal(0, 1, (STEPS, size)) * 10.0 ** rng.randint(-4, 3, (STEPS, size))
    grads[1:, size // 2] *= -1
    if size > 1:
        grads[:, 1] = 0  # a slot that never moves
        grads[1, -1] = 0
    return start.astype(dtype), grads.astype(dtype)


def emit(name, values, dtype):
    fmt, bits, width, per_line = ("<f", "<I", 8, 10) if dtype == np.float32 else ("<d", "<Q", 16, 6)
    words = ["0x%0*x" % (width, struct.unpack(bits, struct.pack(fmt, float(x)))[0]) for x in np.concatenate(values)]
    print("static const uint%d_t %s[] = {" % (width * 4, name))
    for i in range(0, len(words), per_line):
        print("    " + ", ".join(words[i : i + per_line]) + ",")
    print("};")


def main():
    print("/* SPDX-License-Identifier: Apache-2.0 */")
    print("/*")
    versions = (tf.__version__, np.__version__, SEED)
    print(" * Made by tests/parity/optim_vectors.py; do not edit. TensorFlow %s, NumPy %s, seed %d." % versions)
    print(" * Numbers are the bits of IEEE values. Inputs: start, then the gradient of each step. Cases: variable and slots after the")
    print(" * recorded steps (%s), one after the other." % ", ".join(map(str, RECORDED)))
    print(" */")
    print("/* clang-format off */")
    print("#define OPTIM_STEPS %d" % STEPS)
    print("#define OPTIM_RECORDED_FIRST %d" % RECORDED[0])
    cases = []
    for dname, dtype in DTYPES.items():
        for size in SIZES:
            start, grads = inputs(dtype, size)
            emit("in_%s_%d" % (dname, size), [start] + list(grads), dtype)
        for i, (kind, size, changed) in enumerate(CASES):
            h = hyper_of(changed)
            start, grads = inputs(dtype, size)
            recorded = run_case(kind, h, dtype, start, grads)
            assert all(np.all(np.isfinite(a)) for values in recorded for a in values)
            emit("out_%s_%d" % (dname, i), [a for values in recorded for a in values], dtype)
            fields = ("learning_rate", "momentum", "initial_accumulator", "beta1", "beta2", "epsilon")
            opt = "{.kind = %s" % KINDS[kind] + (", .nesterov = 1" if h["nesterov"] else "")
            opt += "".join(", .%s = %r" % (k, float(h[k])) for k in fields if h[k] != 0) + "}"
            cases += textwrap.wrap("{PS_%s, %d, %s, in_%s_%d, out_%s_%d}," % (dname.upper(), size, opt, dname, size, dname, i),
                                   120, initial_indent="    ", subsequent_indent="     ")
    print("static const struct optim_case {")
    print("    ps_dtype dtype;")
    print("    uint32_t elements;")
    print("    ps_optimizer opt;")
    print("    const void *in;  /* start[elements], gradient[OPTIM_STEPS][elements] */")
    print("    const void *out; /* (variable, slots...)[elements] after step OPTIM_RECORDED_FIRST and after step OPTIM_STEPS */")
    print("} optim_cases[] = {")
    print("\n".join(cases))
    print("};")
    print("/* clang-format on */")


if __name__ == "__main__":
    sys.exit(main())
