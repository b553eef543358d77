#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make tests/parity/rule_vectors.h: what each optimizer does to a few small variables, step by step.

    python3 -m venv /tmp/tf && /tmp/tf/bin/pip install tensorflow-cpu
    /tmp/tf/bin/python tests/parity/rule_vectors.py > tests/parity/rule_vectors.h

Where TensorFlow has a kernel (tf.raw_ops.ResourceApply...), the numbers are its own, on the CPU. PyTorch's forms, Lion,
LAMB and LARS are computed by the documented formula in a wider type: float64 for float32, the 80-bit long double for float64. Each
step begins with the state that the reference has after the step before.
"""
import os
import struct
import sys
import textwrap

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

SEED = 20261129
STEPS = 10
SIZES = (1, 3, 7)
DTYPES = {"f32": np.float32, "f64": np.float64}
RAW = tf.raw_ops


def apply(op, *states, **numbers):
    """Run a kernel on variables that have these states; what they have afterwards. The names are those of the kernel."""
    dtype = states[0][1].dtype
    variables = {name: tf.Variable(value) for name, value in states}
    given = {k: (tf.constant(v, dtype) if not isinstance(v, (bool, np.int64, tf.Tensor)) else v) for k, v in numbers.items()}
    op(**{name: v.handle for name, v in variables.items()}, **given)
    return [v.numpy() for v in variables.values()]


def torch_form(rule):
    """A formula over the variable, slots and gradient in a wider type, rounded once to the dtype."""
    def step(h, t, g, *arrays):
        wide = np.float64 if g.dtype == np.float32 else np.longdouble
        made = rule(h, t, g.astype(wide), *(a.astype(wide) for a in arrays))
        return [m.astype(g.dtype) for m in made]
    return step



def powers(h, t, dtype):
    """beta1^t and beta2^t as TensorFlow has them: products in the dtype."""
    made = []
    for name in ("beta1", "beta2"):
        p = dtype(h[name])
        for _ in range(t - 1):
            p = dtype(p * dtype(h[name]))
        made.append(p)
    return made


def adagrad_v2(h, t, g, v, a):
    return apply(RAW.ResourceApplyAdagradV2, ("var", v), ("accum", a), lr=h["learning_rate"], epsilon=h["epsilon"], grad=g)


def adagrad_da(h, t, g, v, a, b):
    return apply(RAW.ResourceApplyAdagradDA, ("var", v), ("gradient_accumulator", a), ("gradient_squared_accumulator", b), grad=g,
                 lr=h["learning_rate"], l1=h["l1_strength"], l2=h["l2_strength"], global_step=np.int64(t))


def adadelta(h, t, g, v, a, b):
    return apply(RAW.ResourceApplyAdadelta, ("var", v), ("accum", a), ("accum_update", b), lr=h["learning_rate"], rho=h["beta2"],
                 epsilon=h["epsilon"], grad=g)


def rmsprop(h, t, g, v, a, b):
    return apply(RAW.ResourceApplyRMSProp, ("var", v), ("ms", a), ("mom", b), lr=h["learning_rate"], rho=h["beta2"],
                 momentum=h["momentum"], epsilon=h["epsilon"], grad=g)


def rmsprop_centered(h, t, g, v, a, b, c):
    made = apply(RAW.ResourceApplyCenteredRMSProp, ("var", v), ("mg", b), ("ms", a), ("mom", c), lr=h["learning_rate"],
                 rho=h["beta2"], momentum=h["momentum"], epsilon=h["epsilon"], grad=g)
    return [made[0], made[2], made[1], made[3]]


def adam_of(h, t, g, v, a, b, nesterov=False):
    p1, p2 = powers(h, t, g.dtype.type)
    return apply(RAW.ResourceApplyAdam, ("var", v), ("m", a), ("v", b), beta1_power=p1, beta2_power=p2, lr=h["learning_rate"],
                 beta1=h["beta1"], beta2=h["beta2"], epsilon=h["epsilon"], grad=g, use_nesterov=nesterov)


def adamw_tf(h, t, g, v, a, b):
    return adam_of(h, t, g, v - v * g.dtype.type(h["weight_decay"]), a, b)


def nadam(h, t, g, v, a, b):
    return adam_of(h, t, g, v, a, b, True)


def amsgrad(h, t, g, v, a, b, c):
    p1, p2 = powers(h, t, g.dtype.type)
    return apply(RAW.ResourceApplyAdamWithAmsgrad, ("var", v), ("m", a), ("v", b), ("vhat", c), beta1_power=p1, beta2_power=p2,
                 lr=h["learning_rate"], beta1=h["beta1"], beta2=h["beta2"], epsilon=h["epsilon"], grad=g)


def adamax(h, t, g, v, a, b):
    return apply(RAW.ResourceApplyAdaMax, ("var", v), ("m", a), ("v", b), beta1_power=powers(h, t, g.dtype.type)[0],
                 lr=h["learning_rate"], beta1=h["beta1"], beta2=h["beta2"], epsilon=h["epsilon"], grad=g)


def ftrl(h, t, g, v, a, b):
    return apply(RAW.ResourceApplyFtrlV2, ("var", v), ("accum", a), ("linear", b), grad=g, lr=h["learning_rate"],
                 l1=h["l1_strength"], l2=h["l2_strength"], l2_shrinkage=h["l2_shrinkage"], lr_power=h["power"])


def proximal_gd(h, t, g, v):
    return apply(RAW.ResourceApplyProximalGradientDescent, ("var", v), alpha=h["learning_rate"], l1=h["l1_strength"],
                 l2=h["l2_strength"], delta=g)


def proximal_adagrad(h, t, g, v, a):
    return apply(RAW.ResourceApplyProximalAdagrad, ("var", v), ("accum", a), lr=h["learning_rate"], l1=h["l1_strength"],
                 l2=h["l2_strength"], grad=g)


def addsign(h, t, g, v, a):
    return apply(RAW.ResourceApplyAddSign, ("var", v), ("m", a), lr=h["learning_rate"], alpha=h["power"], sign_decay=1.0,
                 beta=h["beta1"], grad=g)


def powersign(h, t, g, v, a):
    return apply(RAW.ResourceApplyPowerSign, ("var", v), ("m", a), lr=h["learning_rate"], logbase=np.log(h["power"]), sign_decay=1.0,
                 beta=h["beta1"], grad=g)


@torch_form
def lion(h, t, g, v, a):
    ahead = a * h["beta1"] + g * (1 - h["beta1"])
    return [v - h["learning_rate"] * (np.sign(ahead) + h["weight_decay"] * v), a * h["beta2"] + g * (1 - h["beta2"])]


@torch_form
def torch_adam(h, t, g, v, a, b):
    a = a + (g - a) * (1 - h["beta1"])
    b = b * h["beta2"] + (1 - h["beta2"]) * g * g
    root = np.sqrt(b) / np.sqrt(1 - h["beta2"] ** t) + h["epsilon"]
    v = v * (1 - h["learning_rate"] * h["weight_decay"])
    return [v - h["learning_rate"] / (1 - h["beta1"] ** t) * a / root, a, b]


@torch_form
def torch_adagrad(h, t, g, v, a):
    a = a + g * g
    return [v - h["learning_rate"] * g / (np.sqrt(a) + h["epsilon"]), a]


@torch_form
def torch_rmsprop(h, t, g, v, a, b):
    a = a * h["beta2"] + (1 - h["beta2"]) * g * g
    b = b * h["momentum"] + g / (np.sqrt(a) + h["epsilon"])
    return [v - h["learning_rate"] * b, a, b]


@torch_form
def torch_rmsprop_centered(h, t, g, v, a, b, c):
    a = a * h["beta2"] + (1 - h["beta2"]) * g * g
    b = b + (g - b) * (1 - h["beta2"])
    c = c * h["momentum"] + g / (np.sqrt(a - b * b) + h["epsilon"])
    return [v - h["learning_rate"] * c, a, b, c]


@torch_form
def lamb(h, t, g, v, a, b):
    a = a * h["beta1"] + g * (1 - h["beta1"])
    b = b * h["beta2"] + g * g * (1 - h["beta2"])
    u = a / (1 - h["beta1"] ** t) / (np.sqrt(b / (1 - h["beta2"] ** t)) + h["epsilon"]) + h["weight_decay"] * v
    norms = np.sqrt(np.sum(v * v)), np.sqrt(np.sum(u * u))
    return [v - h["learning_rate"] * (norms[0] / norms[1] if min(norms) > 0 else 1) * u, a, b]


@torch_form
def lars(h, t, g, v, a):
    value, step = np.sqrt(np.sum(v * v)), np.sqrt(np.sum(g * g))
    ratio = h["power"] * value / (step + h["weight_decay"] * value + h["epsilon"]) if min(value, step) > 0 else 1
    a = a * h["momentum"] + (g + h["weight_decay"] * v) * h["learning_rate"] * ratio
    return [v - a, a]


# kind, its step, first values of its slots (a number or a hyperparameter), hyperparameters
CASES = (
    ("adagrad_v2", adagrad_v2, ("initial_accumulator",), dict(learning_rate=0.1, initial_accumulator=0.1, epsilon=1e-7)),
    ("adagrad_da", adagrad_da, (0, "initial_accumulator"),
     dict(learning_rate=0.1, initial_accumulator=0.1, l1_strength=0.02, l2_strength=0.03)),
    ("adagrad_da", adagrad_da, (0, "initial_accumulator"), dict(learning_rate=0.5, initial_accumulator=0.1)),
    ("adadelta", adadelta, (0, 0), dict(learning_rate=1.0, beta2=0.95, epsilon=1e-6)),
    ("rmsprop", rmsprop, (1, 0), dict(learning_rate=0.01, beta2=0.9, epsilon=1e-10)),
    ("rmsprop", rmsprop, (1, 0), dict(learning_rate=0.05, beta2=0.5, momentum=0.37, epsilon=1e-3)),
    ("rmsprop_centered", rmsprop_centered, (1, 0, 0), dict(learning_rate=0.01, beta2=0.9, momentum=0.5, epsilon=1e-3)),
    ("adamw", torch_adam, (0, 0), dict(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.01)),
    ("adamw_tf", adamw_tf, (0, 0), dict(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.02)),
    ("amsgrad", amsgrad, (0, 0, 0), dict(learning_rate=0.01, beta1=0.9, beta2=0.99, epsilon=1e-7)),
    ("adamax", adamax, (0, 0), dict(learning_rate=0.002, beta1=0.9, beta2=0.999, epsilon=1e-8)),
    ("nadam", nadam, (0, 0), dict(learning_rate=0.002, beta1=0.9, beta2=0.999, epsilon=1e-8)),
    ("ftrl", ftrl, ("initial_accumulator", 0),
     dict(learning_rate=0.1, power=-0.5, initial_accumulator=0.1, l1_strength=0.01, l2_strength=0.02, l2_shrinkage=0.003)),
    ("ftrl", ftrl, ("initial_accumulator", 0), dict(learning_rate=0.1, power=-0.4, initial_accumulator=0.1, l1_strength=0.5)),
    ("proximal_gd", proximal_gd, (), dict(learning_rate=0.1, l1_strength=0.3, l2_strength=0.02)),
    ("proximal_gd", proximal_gd, (), dict(learning_rate=0.1)),
    ("proximal_adagrad", proximal_adagrad, ("initial_accumulator",),
     dict(learning_rate=0.1, initial_accumulator=0.1, l1_strength=0.3, l2_strength=0.02)),
    ("addsign", addsign, (0,), dict(learning_rate=0.01, power=1.0, beta1=0.9)),
    ("powersign", powersign, (0,), dict(learning_rate=0.01, power=2.718281828459045, beta1=0.9)),
    ("lion", lion, (0,), dict(learning_rate=0.0003, beta1=0.9, beta2=0.99, weight_decay=0.1)),
    ("torch_adam", torch_adam, (0, 0), dict(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8)),
    ("torch_adagrad", torch_adagrad, (0,), dict(learning_rate=0.01, epsilon=1e-10)),
    ("torch_rmsprop", torch_rmsprop, (0, 0), dict(learning_rate=0.01, beta2=0.99, momentum=0.9, epsilon=1e-8)),
    ("torch_rmsprop_centered", torch_rmsprop_centered, (0, 0, 0), dict(learning_rate=0.01, beta2=0.9, momentum=0.5, epsilon=1e-3)),
    ("lamb", lamb, (0, 0), dict(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-6)),
    ("lamb", lamb, (0, 0), dict(learning_rate=0.05, beta1=0.8, beta2=0.9, epsilon=1e-3, weight_decay=0.25)),
    ("lars", lars, (0,), dict(learning_rate=0.1, momentum=0.9, weight_decay=0.0001, power=0.001)),
    ("lars", lars, (0,), dict(learning_rate=0.5, momentum=0.5, weight_decay=0.25, power=0.5, epsilon=0.125)),
)
FIELDS = ("learning_rate", "momentum", "initial_accumulator", "beta1", "beta2", "epsilon", "weight_decay", "power", "l1_strength",
          "l2_strength", "l2_shrinkage")


def inputs(dtype, size):
    rng = np.random.RandomState(SEED + size)
    start = rng.normal(0, 1, size)
    sign = np.where(rng.uniform(size=size) < 0.5, -1, 1)
    grads = np.abs(rng.normal(0, 1, (STEPS, size))) * 10.0 ** rng.randint(-3, 2, size) * sign
    grads[6] *= -1
    if size > 1:
        grads[:, 1] = 0  # a slot that never moves
        grads[3, 2] = 0
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
    print(" * Made by tests/parity/rule_vectors.py; do not edit. TensorFlow %s, NumPy %s, seed %d." % (tf.__version__, np.__version__, SEED))
    print(" * Numbers are the bits of IEEE values. Inputs: start, then the gradient of each step. Cases: variable and slots after each")
    print(" * step, one after the other.")
    print(" */")
    print("/* clang-format off */")
    print("#define RULE_STEPS %d" % STEPS)
    cases = []
    for dname, dtype in DTYPES.items():
        for size in SIZES:
            start, grads = inputs(dtype, size)
            emit("rule_in_%s_%d" % (dname, size), [start] + list(grads), dtype)
        for i, (kind, step, first, given) in enumerate(CASES):
            h = {**{k: 0.0 for k in FIELDS}, **given}
            for size in SIZES:
                start, grads = inputs(dtype, size)
                arrays = [start] + [np.full(size, h[f] if isinstance(f, str) else f, dtype) for f in first]
                recorded = []
                for t, g in enumerate(grads, 1):
                    arrays = step(h, t, g, *arrays)
                    recorded += arrays
                assert all(np.all(np.isfinite(a)) for a in recorded), (kind, dname, size)
                emit("rule_out_%s_%d_%d" % (dname, i, size), recorded, dtype)
                opt = "{.kind = PS_OPT_%s" % kind.upper() + "".join(", .%s = %r" % (k, float(h[k])) for k in FIELDS if h[k] != 0) + "}"
                row = "{PS_%s, %d, %s, rule_in_%s_%d, rule_out_%s_%d_%d}," % (dname.upper(), size, opt, dname, size, dname, i, size)
                cases += textwrap.wrap(row, 120, initial_indent="    ", subsequent_indent="     ")
    print("static const struct rule_case {")
    print("    ps_dtype dtype;")
    print("    uint32_t elements;")
    print("    ps_optimizer opt;")
    print("    const void *in;  /* start[elements], gradient[RULE_STEPS][elements] */")
    print("    const void *out; /* (variable, slots...)[elements] after each step */")
    print("} rule_cases[] = {")
    print("\n".join(cases))
    print("};")
    print("/* clang-format on */")


if __name__ == "__main__":
    sys.exit(main())
