#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make tests/parity/place_vectors.h: what TensorFlow makes of device strings, device scopes and replica_device_setter.

    python3 -m venv /tmp/tf && /tmp/tf/bin/pip install tensorflow-cpu
    /tmp/tf/bin/python tests/parity/place_vectors.py > tests/parity/place_vectors.h

Strings go through tf.compat.v1.DeviceSpec, scopes through graphs (tf.compat.v1.device, tf.compat.v1.train.replica_device_setter)
whose operations tell their .device. Left out is what psd reads otherwise on purpose: a field given twice (there the last wins, here
an error), `*` for a job, replica or task (Python keeps or refuses it, the C++ runtime leaves the field open, as psd does), a device
without index after /device: (the C++ runtime's grammar only), names that the runtime refuses, and setters without tasks.
"""
import contextlib
import os
import random
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf  # noqa: E402
from tensorflow.python.training import device_setter  # noqa: E402

SEED = 20240611
v1 = tf.compat.v1
rng = random.Random(SEED)
JOBS = ("ps", "worker", "local", "a_1")
DEVICES = ("cpu", "CPU", "Cpu", "gpu", "GPU", "cpu:0", "CPU:1", "gpu:0", "Gpu:3", "cpu:*", "GPU:*", "device:CPU:0", "device:cpu:1",
           "device:GPU:2", "device:gpu:*", "device:TPU:0", "device:XLA_CPU:0", "device:Cpu:0", "device:CPU:*")
ODD = ("", "/", "//", "job:ps", "job:ps/task:1", "/job:ps/", "//job:ps//task:2/", "cpu:0", "gpu", "/task:007")
REFUSED = ("ps", "/job", "/job:a:b", "/Job:ps", "/task", "/task:", "/task:x", "/replica:x", "/device", "/device:CPU:x", "/device:CPU:",
           "/device:CPU:0:1", "/cpu:", "/cpu:x", "/cpu:0:1", "/bus:1", "/cpu:0/gpu:0", "/device:CPU:0/cpu:0", "/cpu/cpu",
           "/job:ps/x", "/job:ps task:1/y")
OTHER_TYPES = ("NoOp", "FIFOQueueV2", "Placeholder")
ATTRS = {"VariableV2": True, "Variable": True, "VarHandleOp": True, "Placeholder": True}


def device(fields=("job", "replica", "task", "device")):
    parts = []
    for field in rng.sample(fields, rng.randint(1, len(fields))):
        parts.append({"job": lambda: "job:" + rng.choice(JOBS), "replica": lambda: "replica:%d" % rng.randrange(3),
                      "task": lambda: "task:%d" % rng.choice((0, 1, 2, 31)), "device": lambda: rng.choice(DEVICES)}[field]())
    return "/" + "/".join(parts)


def canonical(text):
    try:
        return v1.DeviceSpec.from_string(text).to_string()
    except ValueError:
        return None


def c(text):
    return "NULL" if text is None else '"%s"' % text


def make(graph, kind):
    """An operation of this type; its device."""
    attrs = {}
    if kind in ATTRS:
        attrs = {"dtype": v1.AttrValue(type=tf.float32.as_datatype_enum),
                 "shape": v1.AttrValue(shape=tf.TensorShape([2]).as_proto())}
    out = {"NoOp": [], "FIFOQueueV2": [tf.resource], "VarHandleOp": [tf.resource]}.get(kind, [tf.float32])
    if kind in ("VariableV2", "Variable"):
        out = [tf.dtypes.as_dtype(tf.float32)._as_ref]  # pylint: disable=protected-access
    if kind == "FIFOQueueV2":
        attrs = {"component_types": v1.AttrValue(list=v1.AttrValue.ListValue(type=[tf.float32.as_datatype_enum]))}
    return graph.create_op(kind, [], out, attrs=attrs, name="x").device


def script(rows):
    graph = tf.Graph()
    stack = []
    with graph.as_default(), contextlib.ExitStack() as outer:
        del outer
        for _ in range(30):
            what = rng.choice("DDSSNOOPPPPPPP")
            if what == "O" and stack:
                stack.pop().close()
                rows.append("{'O', NULL, NULL, 0, false}")
            elif what == "P":
                kind = rng.choice(("VariableV2", "VariableV2", "Variable", "VarHandleOp") + OTHER_TYPES)
                rows.append("{'P', %s, %s, 0, false}" % (c(kind), c(make(graph, kind))))
            elif what in "DNS" and len(stack) < 6:
                if what == "N" and rng.random() < 0.5:
                    continue
                scope = contextlib.ExitStack()
                if what == "D":
                    text = device()
                    scope.enter_context(v1.device(text))
                    rows.append("{'D', %s, NULL, 0, false}" % c(text))
                elif what == "N":
                    scope.enter_context(v1.device(None))
                    rows.append("{'N', NULL, NULL, 0, false}")
                else:
                    ps = rng.choice(("/job:ps", "/job:ps", "/job:ps", "/job:local/cpu:0", "/cpu:0", "/job:ps/task:7", ""))
                    worker = rng.choice(("/job:worker", "/job:worker/task:1", "", "/job:worker/gpu:0"))
                    tasks = rng.randint(1, 4)
                    merge = rng.random() < 0.75
                    scope.enter_context(v1.device(v1.train.replica_device_setter(
                        ps_tasks=tasks, ps_device=ps, worker_device=worker, merge_devices=merge)))
                    rows.append("{'S', %s, %s, %d, %s}" % (c(ps), c(worker), tasks, "true" if merge else "false"))
                stack.append(scope)
        while stack:
            stack.pop().close()
    rows.append("{'E', NULL, NULL, 0, false}")


def main():
    out = sys.stdout
    out.write("/* SPDX-License-Identifier: Apache-2.0 */\n/*\n * Made by tests/parity/place_vectors.py; do not edit. TensorFlow %s, seed "
              "%d.\n */\n/* clang-format off */\n" % (tf.__version__, SEED))
    out.write("static const struct {\n    const char *text, *canonical; /* NULL: refused */\n} place_devices[] = {\n")
    for text in list(ODD) + sorted({device() for _ in range(80)} | {"/" + d for d in DEVICES}):
        out.write("    {%s, %s},\n" % (c(text), c(canonical(text))))
    for text in REFUSED:
        if canonical(text) is not None:
            raise SystemExit("TensorFlow takes " + text)
        out.write("    {%s, NULL},\n" % c(text))
    out.write("};\nstatic const struct {\n    const char *outer, *inner, *merged;\n} place_merges[] = {\n")
    for _ in range(80):
        a, b = device(), device()
        graph = tf.Graph()
        with graph.as_default(), v1.device(a), v1.device(b):
            out.write("    {%s, %s,\n     %s},\n" % (c(a), c(b), c(make(graph, "NoOp"))))
    out.write("};\nstatic const char *const place_ps_ops[] = {\n")
    for kind in device_setter.STANDARD_PS_OPS:
        if kind != "DecisionTreeResource":  # came after TensorFlow 1.15
            out.write("    %s,\n" % c(kind))
    out.write("};\n/* D: a device scope; N: tf.device(None); S: a setter (ps_device, worker_device, ps_tasks, merge_devices); O: out;\n"
              " * P: an operation of this type and its device; E: the end of a script */\n"
              "static const struct {\n    char what;\n    const char *a, *b;\n    unsigned tasks;\n    bool merge;\n} place_steps[] = {\n")
    rows = []
    for _ in range(40):
        script(rows)
    out.write("".join("    %s,\n" % row for row in rows) + "};\n")


main()
