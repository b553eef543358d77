# SPDX-License-Identifier: Apache-2.0
"""What `make bench-train` measures: a step of pstrain's network 784-512-512-10 with batches of 128, beside its matrix products alone and
beside PyTorch, and through ps tasks. Names: train.WHAT, then t1 or t2 (threads that compute) or ps1.w1 (tasks, workers).
"""
import json
import os
import subprocess

from rows import Step, checked
from servers import HERE, Failed, environment, program

BATCH = 128
THREADS = (1, 2)
KERNELS = ("dense", "dense_dx", "dense_dw", "relu", "relu_backward", "dropout", "softmax_xent")
PYTORCH = "torch==2.9.*"

# as rows.GOALS
GOALS = [
    (("train.local.t1.of_gemms",), True, 0.85, 0.95),
    (("train.local.t1.vs_pytorch",), True, 1.2, 1.5),
    (("train.local.t2.vs_pytorch",), True, 1.5, 2),
    (("train.ps1.w1.vs_limit",), False, 1.25, 1.1),
]


def plugins():
    return {"PS_PLUGIN_DIR": os.path.abspath(os.path.join(os.environ.get("PSD_BUILD", "build/release"), "lib"))}


def run(servers, *words, **env):
    return checked(servers.run([program("train"), *map(str, words)], **plugins(), **env))


def pytorch(servers, threads, batch, seconds):
    if "pytorch" in servers.missing:
        return None
    return checked(servers.run([os.path.join(servers.PYTORCH_VENV, "bin", "python"), os.path.join(HERE, "torch_load.py"), str(threads), str(batch),
                                str(seconds)]))


def local_step(batch, seconds, threads):
    """The loop without a ps, its products, PyTorch; with one thread also each kernel against its limit."""
    name = "train.local.t%d" % threads
    theirs = "pytorch.train.t%d" % threads
    rows = {name: "us/step", name + ".samples_per_s": "1/s", name + ".gemms_us": "us/step", name + ".of_gemms": "ratio", theirs: "us/step",
            name + ".vs_pytorch": "ratio"}
    if threads == 1:
        for k in KERNELS:
            rows.update({"train.kernel." + k: "us", "train.kernel.%s.of_limit" % k: "ratio"})

    def measure(servers):
        got = run(servers, "local", batch, seconds, threads)
        other = pytorch(servers, threads, batch, seconds)
        out = {name: got["step_us"], name + ".samples_per_s": 1e6 * batch / got["step_us"], name + ".gemms_us": got["gemms_us"],
               name + ".of_gemms": got["gemms_us"] / got["step_us"]}
        if other is not None:
            out.update({theirs: other["step_us"], name + ".vs_pytorch": other["step_us"] / got["step_us"]})
        if threads == 1:
            for k in KERNELS:
                out.update({"train.kernel." + k: got[k], "train.kernel.%s.of_limit" % k: got[k + ".of_limit"]})
        return out

    return Step("train", name, 3 * seconds, rows, measure)


def alone_step(batch, seconds):
    """One worker, one ps on the other CPU: the step, against the longer of compute and wire plus the first layer's wire."""
    name = "train.ps1.w1"
    rows = {name: "us/step", name + ".compute_us": "us", name + ".wire_us": "us", name + ".first_us": "us", name + ".vs_limit": "ratio",
            name + ".prefetch": "us/step"}

    def measure(servers):
        child, target, _ = servers.start_psd(workers=1)
        got = run(servers, "ps", batch, 2 * seconds, 0, servers.container(), "alone", PSD_TARGET=target)
        ahead = run(servers, "ps", batch, seconds, 0, servers.container(), "prefetch", PSD_TARGET=target)
        servers.end(child)
        limit = max(got["compute_us"], got["wire_us"]) + got["first_us"]
        return {name: got["step_us"], name + ".compute_us": got["compute_us"], name + ".wire_us": got["wire_us"], name + ".first_us": got["first_us"],
                name + ".vs_limit": got["step_us"] / limit, name + ".prefetch": ahead["step_us"]}

    return Step("train", name, 4 * seconds, rows, measure)


def workers_step(batch, seconds, tasks, workers):
    """All train one model at the same time; nothing is pinned."""
    name = "train.ps%d.w%d.together" % (tasks, workers)

    def measure(servers):
        psd, target, _ = servers.start_psd("tcp", tasks, None, workers)
        env = environment(PSD_TARGET=target, **plugins())
        container = servers.container()
        children = [servers.popen([program("train"), "ps", str(batch), str(seconds), str(i), container, "beside"], stdout=subprocess.PIPE, env=env)
                    for i in range(workers)]
        rate = 0
        for child in children:
            out = child.communicate(timeout=120)[0]
            servers.end(child)
            if child.returncode != 0:
                raise Failed("%s: status %d" % (name, child.returncode))
            rate += 1e6 * batch / checked(json.loads(out))["step_us"]
        servers.end(psd)
        return {name: rate}

    return Step("train", name, seconds + 0.3, {name: "samples/s"}, measure)


def all_steps(scale):
    batch = 8 if scale.smoke else BATCH
    seconds = scale.seconds(0.5)
    for threads in THREADS:
        yield local_step(batch, seconds, threads)
    yield alone_step(batch, seconds)
    for tasks in (1, 2):
        for workers in (1, 2):
            yield workers_step(batch, seconds, tasks, workers)
