#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make tests/parity/schedule_vectors.h: what TensorFlow's schedules say at a few steps.

    tests/parity/schedule_vectors.py > tests/parity/schedule_vectors.h

The functions below are those of TensorFlow 1.15, python/keras/optimizer_v2/legacy_learning_rate_decay.py and
learning_rate_schedule.py, line by line, with Python's float64 in place of tensors; the warm-up is that of TensorFlow 2.13's
CosineDecay. TensorFlow computes them in float32, a task in float64.
"""
import math

STEPS = (0, 1, 2, 5, 9, 10, 11, 19, 20, 25, 29, 30, 31, 64, 69, 70, 71, 100, 149, 150, 999, 12345678)


def exponential_decay(rate, step, decay_steps, decay_rate, staircase=0):
    p = step / decay_steps
    if staircase:
        p = math.floor(p)
    return rate * math.pow(decay_rate, p)


def inverse_time_decay(rate, step, decay_steps, decay_rate, staircase=0):
    p = step / decay_steps
    if staircase:
        p = math.floor(p)
    return rate / (1 + decay_rate * p)


def polynomial_decay(rate, step, decay_steps, end_learning_rate=0.0001, power=1.0, cycle=0):
    global_step_recomp, decay_steps_recomp = step, decay_steps
    if cycle:
        multiplier = 1.0 if global_step_recomp == 0 else math.ceil(global_step_recomp / decay_steps)
        decay_steps_recomp = decay_steps_recomp * multiplier
    else:
        global_step_recomp = min(global_step_recomp, decay_steps_recomp)
    p = global_step_recomp / decay_steps_recomp
    return (rate - end_learning_rate) * math.pow(1 - p, power) + end_learning_rate


def piecewise_constant(rate, step, boundaries, values):
    if step <= boundaries[0]:
        return values[0]
    if step > boundaries[-1]:
        return values[-1]
    for low, high, value in zip(boundaries[:-1], boundaries[1:], values[1:-1]):
        if low < step <= high:
            return value
    raise AssertionError


def cosine_decay(rate, step, decay_steps, alpha=0.0):
    completed_fraction = min(step, decay_steps) / decay_steps
    cosine_decayed = 0.5 * (1.0 + math.cos(math.pi * completed_fraction))
    return rate * ((1 - alpha) * cosine_decayed + alpha)


def cosine_decay_restarts(rate, step, first_decay_steps, t_mul=2.0, m_mul=1.0, alpha=0.0):
    completed_fraction = step / first_decay_steps
    if t_mul == 1.0:
        i_restart = math.floor(completed_fraction)
        completed_fraction -= i_restart
    else:
        i_restart = math.floor(round(math.log(1.0 - completed_fraction * (1.0 - t_mul)) / math.log(t_mul), 9))  # a restart is one, whatever log() rounds
        sum_r = (1.0 - t_mul ** i_restart) / (1.0 - t_mul)
        completed_fraction = (completed_fraction - sum_r) / t_mul ** i_restart
    m_fac = m_mul ** i_restart
    cosine_decayed = 0.5 * m_fac * (1.0 + math.cos(math.pi * completed_fraction))
    return rate * ((1 - alpha) * cosine_decayed + alpha)


def constant(rate, step):
    return rate


CASES = (
    (constant, {}),
    (exponential_decay, dict(decay_steps=10, decay_rate=0.5)),
    (exponential_decay, dict(decay_steps=7, decay_rate=0.96, staircase=1)),
    (inverse_time_decay, dict(decay_steps=10, decay_rate=0.5)),
    (inverse_time_decay, dict(decay_steps=3, decay_rate=2, staircase=1)),
    (polynomial_decay, dict(decay_steps=30)),
    (polynomial_decay, dict(decay_steps=30, end_learning_rate=0.01, power=0.5)),
    (polynomial_decay, dict(decay_steps=10, end_learning_rate=0, power=2, cycle=1)),
    (piecewise_constant, dict(boundaries=(10, 20, 100), values=(0.5, 0.25, 0.125, 0.0625))),
    (piecewise_constant, dict(boundaries=(1,), values=(0.1, 0.3))),
    (cosine_decay, dict(decay_steps=100)),
    (cosine_decay, dict(decay_steps=30, alpha=0.1)),
    (cosine_decay_restarts, dict(first_decay_steps=10)),
    (cosine_decay_restarts, dict(first_decay_steps=10, t_mul=1, m_mul=0.5, alpha=0.01)),
    (cosine_decay_restarts, dict(first_decay_steps=10, t_mul=1.5, m_mul=0.9)),
)
WARM = ({}, dict(warmup_steps=20), dict(warmup_steps=5, warmup_rate=0.125))


def text_of(value):
    return "/".join(map(repr, value)) if isinstance(value, tuple) else repr(value)


def main():
    print("/* SPDX-License-Identifier: Apache-2.0 */\n/* Made by tests/parity/schedule_vectors.py; do not edit. */")
    print("static const uint64_t schedule_steps[] = {%s,\n                                          %s};\n" % (
        ", ".join(map(str, STEPS[:11])), ", ".join(map(str, STEPS[11:]))))
    print("/* clang-format off */\nstatic const struct {\n    const char *text;\n    double rate, expected[%d];\n} schedule_vectors[] = {" % len(STEPS))
    for function, parameters in CASES:
        for warm in WARM:
            rate = parameters["values"][0] if "values" in parameters else 0.1
            steps, begin = warm.get("warmup_steps", 0), warm.get("warmup_rate", 0)
            expected = [begin + (rate - begin) * (s / steps) if s < steps else function(rate, s - steps, **parameters) for s in STEPS]
            said = ",".join("%s=%s" % (k, text_of(v)) for k, v in {**parameters, **warm}.items())
            print('    {"%s:%s", %r,\n     {%s}},' % (function.__name__, said, rate, ",\n      ".join(
                ", ".join(map(repr, expected[i:i + 5])) for i in range(0, len(expected), 5))))
    print("};\n/* clang-format on */")


main()
