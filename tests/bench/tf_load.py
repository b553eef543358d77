# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of `make bench`: its own parameter server (tf.distribute.Server over gRPC) and a worker with a session.

usage: tf_load.py ps|worker PS_PORT WORKER_PORT      says "ready"; the worker then takes commands on standard input:
  null VARIABLES BYTES SECONDS    a step fetches all variables to the worker, which sends each back as the gradient that the ps applies
  adagrad BYTES SECONDS           a step sends a gradient that the worker holds; the ps applies Adagrad
Each answer is one line of JSON. The step is a callable of the session (make_callable): less Python than sess.run.
"""
import json
import statistics
import sys
import time

import numpy
import tensorflow as tf

tf1 = tf.compat.v1
PS, WORKER = "/job:ps/task:0/device:CPU:0", "/job:worker/task:0/device:CPU:0"
RATE = 0.001
WARM_UP = 3
graphs = {}


def config():
    # off, so that nobody takes out a step's way to the worker and back
    options = tf1.ConfigProto()
    options.graph_options.rewrite_options.disable_meta_optimizer = True
    return options


def build(target, verb, variables, elements):
    """(session, step, initializer, variables) of a graph with names of its own: resources of a ps are shared by name."""
    graph = tf.Graph()
    with graph.as_default():
        values = []
        updates = []
        for i in range(variables):
            with tf.device(PS):
                v = tf1.get_variable("%s_%d_%d_%d" % (verb, variables, elements, i), shape=[elements], initializer=tf1.ones_initializer(),
                                     use_resource=True)
            values.append(v)
            with tf.device(WORKER):
                if verb == "null":
                    gradient = tf.identity(v.read_value())
                else:
                    held = tf1.get_variable("gradient_%d" % elements, shape=[elements], initializer=tf1.ones_initializer(), use_resource=True)
                    gradient = tf.identity(held.read_value())
            with tf.device(PS):
                optimizer = tf1.train.GradientDescentOptimizer(RATE) if verb == "null" else tf1.train.AdagradOptimizer(RATE)
                updates.append(optimizer.apply_gradients([(gradient, v)]))
        step, init = tf.group(*updates), tf1.global_variables_initializer()
        session = tf1.Session(target, graph=graph, config=config())
        return session, session.make_callable(step), init, values


def expected(verb, steps):
    v, a = numpy.float32(1), numpy.float32(0.1)
    for _ in range(steps):
        if verb == "null":
            v = v - numpy.float32(RATE) * v
        else:
            a = a + numpy.float32(1)
            v = v - numpy.float32(RATE) / numpy.sqrt(a)
    return v


def measure(target, verb, variables, size, seconds):
    key = (verb, variables, size)
    if key not in graphs:
        graphs[key] = build(target, verb, variables, size // variables // 4)
    session, step, init, values = graphs[key]
    session.run(init)
    for _ in range(WARM_UP):
        step()
    times = []
    start = time.monotonic()
    while len(times) < 3 or time.monotonic() - start < seconds:
        begin = time.monotonic()
        step()
        times.append(time.monotonic() - begin)
    want = expected(verb, WARM_UP + len(times))
    right = all(numpy.allclose(session.run(v), want, rtol=1e-3) for v in values)
    times.sort()
    return {"ops": len(times), "p50_us": statistics.median(times) * 1e6, "p99_us": times[len(times) * 99 // 100] * 1e6,
            "values": "right" if right else "WRONG"}


def main():
    job, ports = sys.argv[1], sys.argv[2:4]
    cluster = tf.train.ClusterSpec({"ps": ["127.0.0.1:" + ports[0]], "worker": ["127.0.0.1:" + ports[1]]})
    server = tf1.train.Server(cluster, job_name=job, task_index=0)
    print("ready", flush=True)
    if job == "ps":
        server.join()
    for line in sys.stdin:
        verb, *numbers = line.split()
        variables = int(numbers.pop(0)) if verb == "null" else 1
        print(json.dumps(measure(server.target, verb, variables, int(numbers[0]), float(numbers[1]))), flush=True)


if __name__ == "__main__":
    main()
