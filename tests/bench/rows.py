# SPDX-License-Identifier: Apache-2.0
"""What `make bench` measures: steps, each of which gives some rows one value per round, and the goals.

A step runs what it compares one right after the other, so that a ratio is of one window. Names: FAMILY.OPERATION.SIZE.VARIANT, then
what of it: nothing (throughput or time), p50_us, p99_us, server_cpu, client_cpu, or vs_PEER, a ratio.
"""
import os

import exporter
from servers import BUILD, Failed, program

KIB, MIB, MB = 1 << 10, 1 << 20, 1000000
SIZES = {"4KiB": 4 * KIB, "64KiB": 64 * KIB, "1MiB": MIB, "16MiB": 16 * MIB, "100MiB": 100 * MIB, "256MiB": 256 * MIB}
SECONDS = {"4KiB": 0.05, "64KiB": 0.05, "1MiB": 0.05, "16MiB": 0.08, "100MiB": 0.15, "256MiB": 0.15}
OPERATIONS = {"pull": "pull", "push_sgd": "sgd", "push_adagrad": "adagrad", "push_adam": "adam", "push_pull": "pushpull"}
BARE = ("pull", "sgd", "adagrad")  # what the bare loop does
BARE_ROWS = tuple(k for k, v in OPERATIONS.items() if v in BARE)
CLIENTS = (1, 2, 4, 8, 16, 32, 64)
VARIABLES = {"1": 1, "100": 100, "1k": 1000, "10k": 10000, "100k": 100000}
WAYS = ("thread", "caller")
OPTIMIZERS = ("sgd", "momentum", "adagrad", "adam", "adagrad_v2", "adagrad_da", "adadelta", "rmsprop", "rmsprop_centered", "adamw", "adamw_tf",
              "amsgrad", "adamax", "nadam", "ftrl", "proximal_gd", "proximal_adagrad", "addsign", "powersign", "lion", "torch_adam", "torch_adagrad",
              "torch_rmsprop", "torch_rmsprop_centered", "lazy_adam")
WHOLE = {"lamb": "adam", "lars": "momentum"}  # those of two passes, and whose time theirs is measured by

# names, True where more is better, must, goal
GOALS = [
    (("dense.pull.16MiB.tcp.vs_bare", "dense.push_sgd.16MiB.tcp.vs_bare", "dense.push_adagrad.100MiB.tcp.vs_bare"), True, 0.85, 0.97),
    (("dense.push_adagrad.100MiB.bf16.vs_bare",), True, 1.3, 1.7),
    (("dense.pull.16MiB.2ps.vs_bare2",), True, 0.8, 0.95),
    (("small.pull.4KiB.p64.vs_redis_get",), True, 1.0, 1.4),
    (("small.push.4KiB.p64.vs_redis_set",), True, 1.5, 2.2),
    (("small.pull.4KiB.c50p64.vs_redis_get",), True, 0.9, 1.5),
    (("small.push.4KiB.c50p64.vs_redis_set",), True, 1.4, 2.2),
    (("nullstep.scalar.vs_tensorflow", "nullstep.scalar16.vs_tensorflow"), True, 10, 20),
    (("nullstep.dense100MB.tcp.vs_tensorflow", "push_adagrad.100MB.tcp.vs_tensorflow"), True, 2.8, 3.5),
    (("cpu.push_sgd.server.vs_bare",), False, 1.25, 1.08),
    (("scale.clients64.cost_per_op.vs_1", "scale.vars100k.cost_per_op.vs_1"), False, 1.5, 1.2),
    (("start.ready_ms",), False, 10, 2),
    (("idle.rss_mib",), False, 5, 2.5),
    (("exporter.idle.cpu",), False, 0.5, 0.1),
    (("exporter.idle.private_mib",), False, 8, 4),
    (("exporter.idle.tls.private_mib",), False, 14, 8),
    (("exporter.scrape.1k_ms",), False, 20, 10),
    (("exporter.scrape.1k.server_cpu",), False, 2, 1),
    (("fairness.pull.4KiB.p99.vs_idle",), False, 20, 20),
    (("queue.pair.4KiB.vs_push_pull", "queue.pair.4KiB.caller.vs_push_pull"), False, 1.3, 1.2),
    (("queue.wake.p50_us",), False, 1000, 100),
    (("queue.pair.4KiB.others1k.vs_alone",), False, 1.1, 1.05),
    (("queue.element16.bytes",), False, 128, 80),
    (("round.2workers.1MiB.vs_async", "round.2workers.100MiB.vs_async"), False, 2, 1.3),
    (("round.commit.round_trips",), False, 2, 1),
    (("round.wake.p50_us",), False, 1000, 150),
    (("plan.identity.4KiB.vs_push_pull",), False, 3, 1.5),
    (("plan.matmul.512.vs_process",), True, 0.9, 0.97),
    (("plan.mlp.vs_client",), True, 0.85, 0.95),
    (("tls.pull.16MiB.vs_plain", "tls.push_sgd.16MiB.vs_plain"), True, 0.6, 0.75),
    (("tls.pull.4KiB.p64.vs_plain",), True, 0.7, 0.9),
    (("tls.handshakes",), True, 3000, 5000),
    (("tls.handshakes.turn_p99_us",), False, 5000, 2000),
    (tuple("optim.%s.100MiB.vs_bare" % name for name in OPTIMIZERS), True, 0.9, 1.0),
    (tuple("rows.%s.4096x16%s.vs_loop" % (what, awake) for awake in ("", ".awake") for what in ("gather", "adagrad", "push_pull")), True, 0.3, 0.6),
    (("optim.lamb.100MiB.vs_adam",), False, 1.8, 1.5),
    (("optim.adam.clip.100MiB.vs_plain",), False, 1.05, 1.02),
    (("optim.adam.ema.100MiB.vs_plain",), False, 1.35, 1.3),  # an array is read and written beside Adam's three and the gradient
]
GOAL_NAMES = [name for names, *_ in GOALS for name in names]


class Step:
    """rows: {name: unit}, of which run(servers) gives {name: value}; one that it leaves out has a peer that is missing."""

    def __init__(self, family, name, seconds, rows, run):
        self.family, self.name, self.seconds, self.rows, self.run = family, name, seconds, rows, run


class Scale:
    """How long and how large: the smoke test of the harness measures next to nothing; quick: of a curve only its ends."""

    def __init__(self, smoke=False, quick=False):
        self.smoke, self.quick = smoke, quick

    def ends(self, points):
        return {k: v for i, (k, v) in enumerate(points.items()) if not self.quick or i in (0, len(points) - 1)}

    def seconds(self, seconds):
        return 0.003 if self.smoke else seconds

    def size(self, size):
        return min(size, 96 * KIB) if self.smoke else size

    def count(self, count):
        return min(count, 300) if self.smoke else count


def checked(run):
    """Every run says whether its values are right; None: a peer that is missing."""
    if run is not None and run["values"] != "right":
        raise Failed("wrong values: %s" % run)
    return run


# ---- dense

def variant(transport, tasks, wire):
    return ".".join(w for w in ("unix" if transport == "unix" else "", "bf16" if wire == "bfloat16" else "", "2ps" if tasks == 2 else "") if w) or "tcp"


def dense_step(scale, operation, label, transport, tasks, wires):
    """The bare loop, then psd with float32, and with bfloat16."""
    mode, size = OPERATIONS[operation], scale.size(SIZES[label])
    goal = [n for n in GOAL_NAMES if n.startswith("dense.%s.%s." % (operation, label))] and transport == "tcp"
    seconds = scale.seconds(SECONDS[label] * (3 if goal else 1))
    names = {wire: "dense.%s.%s.%s" % (operation, label, variant(transport, tasks, wire)) for wire in wires}
    cpu = operation == "push_sgd" and label == "16MiB" and (transport, tasks) == ("tcp", 1)
    peer = "vs_bare2" if tasks == 2 else "vs_bare"
    rows = {}
    for wire in wires:
        rows.update({names[wire]: "GB/s", names[wire] + ".server_cpu": "CPU s/GB", names[wire] + ".client_cpu": "CPU s/GB"})
        if size <= 64 * KIB:
            rows.update({names[wire] + ".p50_us": "us", names[wire] + ".p99_us": "us"})
        if mode in BARE:
            rows[names[wire] + "." + peer] = "ratio"
    if mode in BARE:
        bare_name = "bare.%s.%s.%s" % (operation, label, variant(transport, tasks, "float32"))
        rows.update({bare_name: "GB/s", bare_name + ".server_cpu": "CPU s/GB"})
    if cpu:
        rows["cpu.push_sgd.server.vs_bare"] = "ratio"

    def run(servers):
        out = {}
        limit = None
        if mode in BARE:
            reps = max(3, min(5000, int(seconds / (size / 5e9 + 30e-6))))
            limit = checked(servers.run([program("bare"), mode, str(size), str(reps), str(tasks), transport]))
            out[bare_name], out[bare_name + ".server_cpu"] = limit["gb_per_s"], limit["server_cpu_s_per_gb"]
        for wire, name in names.items():
            got = checked(servers.load(servers.psd(transport, tasks), "dense", mode, size, seconds, wire, tasks, cpu=1 if tasks == 1 else None))
            out.update({name: got["gb_per_s"], name + ".server_cpu": got["server_s_per_gb"], name + ".client_cpu": got["client_s_per_gb"]})
            if size <= 64 * KIB:
                out.update({name + ".p50_us": got["p50_us"], name + ".p99_us": got["p99_us"]})
            if limit is not None:
                out[name + "." + peer] = got["gb_per_s"] / limit["gb_per_s"]
            if cpu and wire == "float32":
                out["cpu.push_sgd.server.vs_bare"] = got["server_s_per_gb"] / max(limit["server_cpu_s_per_gb"], 1e-9)
        return {n: v for n, v in out.items() if n in rows}

    cost = 0.1 + len(wires) * (0.06 + seconds + 9 * size / 3e9) + 6 * size / 3e9
    return Step("dense", names["float32"], cost, rows, run)


def dense_wires(label, operation, transport, tasks):
    """How float32 travels in the rows of a combination: all up to 16 MiB; at 100 MiB and 256 MiB one difference at a time from TCP,
    float32 and one task, and the fewer the larger, since most of their time is the making of the variables."""
    if label not in ("100MiB", "256MiB"):
        return ["float32", "bfloat16"]
    if (transport, tasks) == ("tcp", 1):
        return ["float32", "bfloat16"] if label == "100MiB" or operation in ("pull", "push_adagrad") else ["float32"]
    return ["float32"] if (transport, tasks) != ("unix", 2) and operation in (BARE_ROWS if label == "100MiB" else ("pull",)) else []


def dense_steps(scale):
    for label in SIZES if not scale.smoke else ("16MiB", "100MiB"):
        for operation in OPERATIONS:
            for transport, tasks in (("tcp", 1), ("unix", 1), ("tcp", 2), ("unix", 2)):
                wires = dense_wires(label, operation, transport, tasks)
                if wires:
                    yield dense_step(scale, operation, label, transport, tasks, wires)


# ---- small

def small_step(scale, operation, sessions, depth):
    """psd and redis, 4 KiB values; one session: with the I/O thread, and driven by the caller as a row of its own."""
    command = {"pull": "get", "push": "set"}[operation]
    shape = "p%d" % depth if sessions == 1 else "c%dp%d" % (sessions, depth)
    seconds = scale.seconds(0.3 if depth == 64 else 0.2)
    ways = {"small.%s.4KiB.%s" % (operation, shape): "thread" if sessions == 1 else "caller"}
    if sessions == 1:
        ways["small.%s.4KiB.%s.caller" % (operation, shape)] = "caller"
    redis_name = "redis.%s.4KiB.%s" % (command, shape)
    rows = {}
    for name in [*ways, redis_name]:
        rows.update({name: "op/s", name + ".p50_us": "us", name + ".p99_us": "us", name + ".server_cpu": "us/op", name + ".client_cpu": "us/op"})
    rows.update({name + ".vs_redis_" + command: "ratio" for name in ways})

    def run(servers):
        got = {redis_name: checked(servers.redis(command, 4096, depth, sessions, seconds))}
        for name, way in ways.items():
            got[name] = checked(servers.load(servers.psd(cpu=None), "small", operation, 4096, depth, sessions, seconds, way, cpu=None))
        out = {}
        for name, g in got.items():
            if g is not None:
                out.update({name: g["ops_per_s"], name + ".p50_us": g["p50_us"], name + ".p99_us": g["p99_us"],
                            name + ".server_cpu": g["server_us"], name + ".client_cpu": g["client_us"]})
        for name in ways:
            if got[redis_name] is not None:
                out[name + ".vs_redis_" + command] = got[name]["ops_per_s"] / got[redis_name]["ops_per_s"]
        return out

    return Step("small", next(iter(ways)), (0.45 + sessions * 0.004) * (len(ways) + 1), rows, run)


def small_steps(scale):
    for sessions in (1, 50):
        for depth in (1, 32, 64):
            for operation in ("pull", "push"):
                yield small_step(scale, operation, sessions, depth)


# ---- null steps

def null_step(scale, names, shapes, label, seconds):
    """names: of each (variables, bytes) of shapes; psd both ways and TensorFlow. label: the ratio at TensorFlow's best shape."""
    seconds = scale.seconds(seconds)
    rows = {}
    for name in names:
        for full in [name] + [name + ".caller", "tensorflow." + name]:
            rows.update({full: "ms", full + ".p99_ms": "ms"})
    for suffix in ("", ".caller"):
        rows["%s%s.vs_tensorflow" % (label, suffix)] = "ratio"

    def run(servers):
        out = {}
        theirs = {}
        ours = {way: {} for way in WAYS}
        for name, (variables, size) in zip(names, shapes):
            for way in WAYS:
                ours[way][name] = checked(servers.load(servers.psd(cpu=None), "null", variables, scale.size(size), seconds, way, cpu=None))
            theirs[name] = checked(servers.tensorflow("null", variables, scale.size(size), seconds))
            for full, got in ((name, ours["thread"][name]), (name + ".caller", ours["caller"][name]), ("tensorflow." + name, theirs[name])):
                if got is not None:
                    out[full], out[full + ".p99_ms"] = got["p50_us"] / 1e3, got["p99_us"] / 1e3
        if None not in theirs.values():
            best = min(names, key=lambda n: theirs[n]["p50_us"])
            out[label + ".vs_tensorflow"] = theirs[best]["p50_us"] / ours["thread"][best]["p50_us"]
            out[label + ".caller.vs_tensorflow"] = theirs[best]["p50_us"] / ours["caller"][best]["p50_us"]
        return out

    return Step("nullstep", label, sum(3 * (seconds + 0.1 + 12 * size / 2e9) for _, size in shapes), rows, run)


def null_steps(scale):
    yield null_step(scale, ["nullstep.scalar"], [(1, 4)], "nullstep.scalar", 0.4)
    yield null_step(scale, ["nullstep.scalar16"], [(16, 64)], "nullstep.scalar16", 0.4)
    yield null_step(scale, ["nullstep.4KiB"], [(1, 4096)], "nullstep.4KiB", 0.3)
    yield null_step(scale, ["nullstep.dense100MB.1var.tcp", "nullstep.dense100MB.25var.tcp"], [(1, 100 * MB), (25, 100 * MB)],
                    "nullstep.dense100MB.tcp", 0.5)
    name = "push_adagrad.100MB.tcp"
    size, seconds = scale.size(100 * MB), scale.seconds(0.5)

    def run(servers):
        ours = checked(servers.load(servers.psd(cpu=None), "dense", "adagrad", size, seconds, cpu=None))
        theirs = checked(servers.tensorflow("adagrad", size, seconds))
        out = {name: ours["p50_us"] / 1e3}
        if theirs is not None:
            out["tensorflow." + name] = theirs["p50_us"] / 1e3
            out[name + ".vs_tensorflow"] = theirs["p50_us"] / ours["p50_us"]
        return out

    yield Step("nullstep", name, 2.0, {name: "ms", "tensorflow." + name: "ms", name + ".vs_tensorflow": "ratio"}, run)


# ---- cost over clients and variables, fairness, start

def cost_step(scale, name, points, words, seconds):
    """CPU of the server for one operation, at each point against the first, on a psd of its own; words(n): of the load."""
    rows = {}
    for label in points:
        rows.update({"%s%s" % (name, label): "op/s", "%s%s.cost_per_op" % (name, label): "us/op"})
    first = next(iter(points))
    rows.update({"%s%s.cost_per_op.vs_%s" % (name, label, first): "ratio" for label in points if label != first})

    def run(servers):
        out = {}
        for label, n in points.items():
            child, target, _ = servers.start_psd()
            got = checked(servers.load(target, *words(scale.count(n))))
            servers.end(child)
            full = "%s%s" % (name, label)
            out[full], out[full + ".cost_per_op"] = got["ops_per_s"], got["server_us"]
            if label != first:
                out["%s.cost_per_op.vs_%s" % (full, first)] = got["server_us"] / max(out["%s%s.cost_per_op" % (name, first)], 1e-9)
        return out

    return Step("scale", name, seconds, rows, run)


def fairness_step(scale):
    """p99 of a 4 KiB pull, one at a time, alone and beside four sessions that move 100 MiB each, again and again."""
    name = "fairness.pull.4KiB"
    seconds = scale.seconds(0.8)
    streams = {"": ("pull", "push"), ".4pulls": ("pull",), ".4pushes": ("push",)}
    if scale.quick:
        streams = {"": streams[""]}
    rows = {name + ".idle.p99_us": "us"}
    for key in streams:
        rows.update({name + key + ".p99_us": "us", name + key + ".p99.vs_idle": "ratio"})

    def run(servers):
        target = servers.psd()

        def probe():
            return checked(servers.load(target, "small", "pull", 4096, 1, 1, seconds, "caller", fifo=True))["p99_us"]

        idle = probe()
        out = {name + ".idle.p99_us": idle}
        for key, operations in streams.items():
            moving = [servers.stream(target, "small", o, scale.size(100 * MIB), 1, 4 // len(operations), 600, "caller") for o in operations]
            p99 = probe()
            for child in moving:
                checked(servers.end_stream(child))
            out[name + key + ".p99_us"], out[name + key + ".p99.vs_idle"] = p99, p99 / idle
        return out

    return Step("fairness", name, 8.0, rows, run)


# ---- queues

def queue_steps(scale):
    """An element of 4 KiB in and out beside a push and a read of as many bytes, in turns of 50; the same while 1,000 dequeues wait at
    as many other queues; how soon a program that waits has what another one puts in; what an element of 16 bytes takes."""
    seconds = scale.seconds(0.6)
    pair, others = "queue.pair.4KiB", scale.count(1000)
    rows = {}
    for name in (pair, pair + ".caller"):
        rows.update({name: "us", name + ".server_cpu": "us/op", name + ".push_pull_us": "us", name + ".vs_push_pull": "ratio"})
    rows.update({pair + ".others1k.vs_alone": "ratio", pair + ".others1k.server_cpu.vs_alone": "ratio"})

    def run_pair(servers):
        out = {}
        for name, way in ((pair, "thread"), (pair + ".caller", "caller")):
            got = checked(servers.queues(servers.psd(cpu=None), "pair", 4096, seconds, way, others if way == "caller" else 0))
            out.update({name: got["queue_us"], name + ".server_cpu": got["queue_server_us"], name + ".push_pull_us": got["push_pull_us"],
                        name + ".vs_push_pull": got["ratio"]})
        out[pair + ".others1k.vs_alone"], out[pair + ".others1k.server_cpu.vs_alone"] = got["with_others"], got["with_others_server"]
        return out

    def run_wake(servers):
        got = checked(servers.queues(servers.psd(cpu=None), "wake", seconds))
        return {"queue.wake.p50_us": got["p50_us"], "queue.wake.p99_us": got["p99_us"]}

    def run_fill(servers):
        child, target, _ = servers.start_psd()
        got = checked(servers.queues(target, "fill", 10000 if scale.smoke else 1000000))
        servers.end(child)
        return {"queue.element16.bytes": got["bytes_each"], "queue.element16.in_many": got["elements_per_s"]}

    yield Step("queue", pair, 3 * seconds + 0.6, rows, run_pair)
    yield Step("queue", "queue.wake", seconds + 0.1, {"queue.wake.p50_us": "us", "queue.wake.p99_us": "us"}, run_wake)
    yield Step("queue", "queue.element16", 1.0, {"queue.element16.bytes": "bytes", "queue.element16.in_many": "elements/s"}, run_fill)


# ---- rounds

def round_steps(scale):
    """A step of two workers at once, in rounds against asynchronously, in turns; what a round of one worker takes more than its
    asynchronous step, in round trips, with the variable at another task than the directory; how soon who waits goes on."""
    def step(label):
        name, seconds = "round.2workers." + label, scale.seconds(0.6 if label == "1MiB" else 2.5)

        def run(servers):
            got = checked(servers.rounds(servers.psd(cpu=None), "step", scale.size(SIZES[label]), seconds))
            return {name: got["round_us"] / 1e3, name + ".async": got["async_us"] / 1e3, name + ".vs_async": got["ratio"]}

        return Step("round", name, seconds + 1, {name: "ms", name + ".async": "ms", name + ".vs_async": "ratio"}, run)

    def run_commit(servers):
        got = checked(servers.rounds(servers.psd(tasks=2, cpu=None), "commit", scale.seconds(0.6)))
        return {"round.commit": got["round_us"], "round.commit.async": got["async_us"], "round.commit.trip": got["trip_us"],
                "round.commit.round_trips": got["round_trips"]}

    def run_wake(servers):
        got = checked(servers.rounds(servers.psd(cpu=None), "wake", scale.seconds(0.6)))
        return {"round.wake.p50_us": got["p50_us"], "round.wake.p99_us": got["p99_us"]}

    yield step("1MiB")
    yield step("100MiB")
    yield Step("round", "round.commit", 1.0, {"round.commit": "us", "round.commit.async": "us", "round.commit.trip": "us",
                                              "round.commit.round_trips": "trips"}, run_commit)
    yield Step("round", "round.wake", 0.8, {"round.wake.p50_us": "us", "round.wake.p99_us": "us"}, run_wake)


# ---- calls of training

def call_steps(scale):
    """What the calls of training cost the program: a ps_push(), and how soon its first byte leaves; a step of one parameter and of 1,000,
    and the wake-ups in it."""
    seconds = scale.seconds(0.6)

    def run_push(servers):
        got = checked(servers.steps(servers.psd(cpu=None), "push", seconds))
        return {"api.push.ns": got["push_ns"], "api.push.first_byte_us": got["first_byte_us"]}

    def step(label, count):
        name = "step." + label

        def run(servers):
            got = checked(servers.steps(servers.psd(cpu=None), "many", scale.count(count), seconds))
            return {name + ".us": got["step_us"], name + ".p99_us": got["p99_us"], name + ".wakeups": got["wakeups"]}

        return Step("calls", name, seconds + 0.4, {name + ".us": "us", name + ".p99_us": "us", name + ".wakeups": "wake-ups"}, run)

    yield Step("calls", "api.push", seconds + 0.2, {"api.push.ns": "ns", "api.push.first_byte_us": "us"}, run_push)
    yield step("1param", 1)
    yield step("1000params", 1000)


def plan_step(scale):
    """Rows on a worker task: 4 KiB there and back by one row, and by three of one run, beside a push-pull of 4 KiB; a product of two
    variables of the worker into a third beside the same product in the process; a step of two layers, whose weights are on the ps, beside the
    same step in the process."""
    seconds = scale.seconds(0.6)
    rows = {"plan.identity.4KiB": "us", "plan.identity.4KiB.vs_push_pull": "ratio", "plan.three.4KiB": "us", "plan.three.4KiB.vs_push_pull": "ratio",
            "plan.matmul.512": "us", "plan.matmul.512.vs_process": "ratio", "plan.mlp": "us", "plan.mlp.vs_client": "ratio"}

    def run(servers):
        got = checked(servers.run([program("runs"), str(seconds)], PS_PLUGIN_DIR=os.path.join(BUILD, "lib")))
        return {"plan.identity.4KiB": got["identity_us"], "plan.identity.4KiB.vs_push_pull": got["identity_vs_push_pull"],
                "plan.three.4KiB": got["three_us"], "plan.three.4KiB.vs_push_pull": got["three_vs_push_pull"],
                "plan.matmul.512": got["matmul_us"], "plan.matmul.512.vs_process": got["matmul_vs_here"],
                "plan.mlp": got["mlp_us"], "plan.mlp.vs_client": got["mlp_vs_here"]}

    return Step("plan", "plan", 4 * seconds + 1, rows, run)


# ---- tls

def tls_step(scale, name, unit, seconds, words, cpus, figures, size=0):
    """A load against a task without and with a key, one right after the other; plain text carries CRCs. size, of values in bulk: also
    the same records and a socket alone (tests/bench/tls_bare.c). The bound is what vs_plain would be if these were all that its busier
    side does, by CPU seconds, which other programs of the machine change less than rates."""
    rows = {name: unit, name + ".vs_plain": "ratio", name + ".server_cpu": "us/op", name + ".client_cpu": "us/op"}
    rows.update({name + ".bare_cpu": "us/op", name + ".bound": "ratio"} if size else {})

    def run(servers):
        if not servers.has_tls():
            return {}
        got = [checked(servers.load(servers.psd(transport, cpu=cpus[0]), *words, cpu=cpus[1])) for transport in ("tcp", "tls")]
        bound = {}
        if size:
            bare = checked(servers.run([program("tls_bare"), str(size), str(max(seconds, 0.05))]))
            bare_us = 1e-3 * size * max(bare["tls_send_s_per_gb"], bare["tls_receive_s_per_gb"])
            bound = {name + ".bare_cpu": bare_us, name + ".bound": max(got[0]["server_us"], got[0]["client_us"]) / bare_us}
        return {name: got[1][figures], name + ".vs_plain": got[1][figures] / got[0][figures],
                name + ".server_cpu": got[1]["server_us"], name + ".client_cpu": got[1]["client_us"],
                **bound}

    return Step("tls", name, 0.3 + (3 if size else 2) * seconds, rows, run)


def tls_steps(scale):
    """Bulk and small values over TLS with a key; how many strangers' handshakes a loop bears, with a request each."""
    for operation in ("pull", "push_sgd"):
        size, seconds = scale.size(SIZES["16MiB"]), scale.seconds(0.5)
        yield tls_step(scale, "tls.%s.16MiB" % operation, "GB/s", seconds, ("dense", OPERATIONS[operation], size, seconds, "float32", 1), (0, 1), "gb_per_s", size)
    seconds = scale.seconds(0.3)
    yield tls_step(scale, "tls.pull.4KiB.p64", "op/s", seconds, ("small", "pull", 4096, 64, 1, seconds, "thread"), (None, None), "ops_per_s")

    def run(servers):
        if not servers.has_tls():
            return {}
        got = checked(servers.run([program("tls"), "handshakes", "16", str(scale.seconds(1.0))]))
        return {"tls.cipher": servers.run([program("tls"), "has"])["aes_gb_per_s"], "tls.handshakes": got["tls"], "tls.handshakes.server_cpu": 1e6 * got["tls_cpu_s"], "tls.handshakes.turn_p99_us": got["turn_p99_us"]}

    yield Step("tls", "tls.handshakes", 1.2, {"tls.cipher": "GB/s", "tls.handshakes": "1/s", "tls.handshakes.server_cpu": "us/op", "tls.handshakes.turn_p99_us": "us"}, run)


def optim_steps(scale):
    """Each optimizer over 100 MiB of memory, without a task: beside a plain loop with its arithmetic, or beside another optimizer; Adam
    with limited elements or with a moving average beside Adam without."""
    mib = "0" if scale.smoke else "100"
    for name in (*OPTIMIZERS, *WHOLE, "adam+clip", "adam+ema"):
        row = "optim.%s.100MiB" % name.replace("+", ".")
        beside = "vs_plain" if "+" in name else "vs_" + WHOLE.get(name, "bare")

        def run(servers, name=name, row=row, beside=beside):
            got = checked(servers.run([program("optim"), mib, "5", name]))
            return {row: got["gb_s"], row + "." + beside: got[beside]}

        yield Step("optim", row, 1.5, {row: "GB/s", row + "." + beside: "ratio"}, run)


def embedding_steps(scale):
    """4,096 rows of 16 of an embedding of a million: gathered, trained with Adagrad, and both in one operation, beside the same loops in
    the process. Once more with a task that looks for 1 ms before it sleeps: what waking it costs is the difference."""
    for awake, spin_us in (("", "50"), (".awake", "1000")):
        names = {"rows.%s.4096x16%s" % (what, awake): what for what in ("gather", "adagrad", "push_pull")}
        rows = {row: unit for name in names for row, unit in ((name, "us"), (name + ".vs_loop", "ratio"))}

        def run(servers, names=names, spin_us=spin_us):
            size, batch = ("100000", "64") if scale.smoke else ("1048576", "4096")
            got = checked(servers.run([program("embedding"), size, "16", batch, str(int(scale.seconds(2.0))), "1", "0", spin_us],
                                      PSD_BUILD=BUILD))
            return {row: value for name, what in names.items() for row, value in ((name, got[what + "_us"]), (name + ".vs_loop", got[what]))}

        yield Step("rows", "rows.4096x16" + awake, 3.0, rows, run)


def start_step():
    rows = {"start.ready_ms": "ms", "idle.rss_mib": "MiB", "psctl.status_ms": "ms"}

    def run(servers):
        child, target, seconds = servers.start_psd()
        with open("/proc/%d/status" % child.pid, encoding="utf-8") as f:
            rss = next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
        status = servers.psctl_status(target)
        servers.end(child)
        return {"start.ready_ms": 1e3 * seconds, "idle.rss_mib": rss / 1024, "psctl.status_ms": 1e3 * status}

    return Step("start", "start", 0.1, rows, run)


def all_steps(scale):
    yield start_step()
    yield Step("start", "exporter", 4.0, exporter.ROWS, lambda servers: exporter.figures(servers, scale.seconds(2.0)))
    yield from dense_steps(scale)
    yield from small_steps(scale)
    yield from null_steps(scale)
    yield cost_step(scale, "scale.clients", scale.ends({str(n): n for n in CLIENTS}),
                    lambda n: ("small", "push", 4096, 16, n, scale.seconds(0.2), "caller"), 3.5)
    yield cost_step(scale, "scale.vars", scale.ends(VARIABLES),
                    lambda n: ("small", "push", 256, 64, 1, scale.seconds(0.2), "thread", n), 6.0)
    yield fairness_step(scale)
    yield from queue_steps(scale)
    yield from round_steps(scale)
    yield from call_steps(scale)
    yield plan_step(scale)
    yield from tls_steps(scale)
    yield from optim_steps(scale)
    yield from embedding_steps(scale)
