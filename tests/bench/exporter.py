# SPDX-License-Identifier: Apache-2.0
"""What psd-exporter costs: at rest, and for a scrape of a psd with 1,000 variables."""
import contextlib
import json
import os
import re
import statistics
import struct
import subprocess
import time
import urllib.request

from servers import Failed, environment, program

VARIABLES, SCRAPES = 1000, 20
ROWS = {"exporter.idle.cpu": "% of a core", "exporter.idle.private_mib": "MiB", "exporter.idle.tls.private_mib": "MiB",
        "exporter.scrape.1k_ms": "ms", "exporter.scrape.1k.cpu": "ms/scrape", "exporter.scrape.1k.server_cpu": "ms/scrape"}


def cpu_s(pid):
    """CPU seconds of all threads of a process."""
    total = 0
    for thread in os.listdir("/proc/%d/task" % pid):
        with contextlib.suppress(FileNotFoundError), open("/proc/%d/task/%s/schedstat" % (pid, thread), encoding="ascii") as text:
            total += int(text.read().split()[0])
    return total / 1e9


def private_mib(pid):
    with open("/proc/%d/smaps_rollup" % pid, encoding="ascii") as text:
        return sum(int(kib) for kib in re.findall(r"(?m)^Private_\w+: +(\d+) kB", text.read())) / 1024


def model(file):
    """A safetensors file of VARIABLES variables of 64 bytes."""
    header = {"v%04d" % i: {"dtype": "F32", "shape": [16], "data_offsets": [64 * i, 64 * (i + 1)]} for i in range(VARIABLES)}
    text = json.dumps(header).encode()
    with open(file, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + bytes(64 * VARIABLES))


class Exporter:
    def __init__(self, servers, transport):
        self.servers, self.folder = servers, servers.folder
        self.psd, self.target, _ = servers.start_psd(transport)
        self.env = environment(**({"PSD_KEY_FILE": servers.key_file()} if transport == "tls" else {}))
        self.child = servers.popen([program("psd-exporter"), "-t", self.target, "--listen", "127.0.0.1:0", "--every", "0"], stdout=subprocess.PIPE,
                                   env=self.env)
        self.url = re.search(r"http://\S+", servers.line(self.child, "psd-exporter")).group().rstrip("/") + "/metrics"

    def scrape(self):
        with urllib.request.urlopen(self.url, timeout=30) as answer:
            return answer.read()

    def end(self):
        self.servers.end(self.child)
        self.servers.end(self.psd)


def idle(servers, seconds, transport):
    """(% of a core, MiB) after it has answered once."""
    e = Exporter(servers, transport)
    try:
        e.scrape()
        begun, before = time.monotonic(), cpu_s(e.child.pid)
        time.sleep(seconds)  # sleep: the time of the measure
        return 100 * (cpu_s(e.child.pid) - before) / (time.monotonic() - begun), private_mib(e.child.pid)
    finally:
        e.end()


def scrapes(servers):
    """Median of the time of a scrape, the exporter's CPU and psd's, in ms."""
    e = Exporter(servers, "tcp")
    try:
        file = os.path.join(e.folder, "model.safetensors")
        model(file)
        child = servers.popen([program("psctl"), "-t", e.target, "--timeout", "60", "import", file], stdout=subprocess.DEVNULL, env=e.env)
        if child.wait(90) != 0:
            raise Failed("psctl import: %d" % child.returncode)
        servers.end(child)
        if re.search(r"(?m)^psd_variables\{.*\} %d$" % VARIABLES, e.scrape().decode()) is None:
            raise Failed("the exporter does not say %d variables" % VARIABLES)
        took, before = [], (cpu_s(e.child.pid), cpu_s(e.psd.pid))
        for _ in range(SCRAPES):
            begun = time.monotonic()
            e.scrape()
            took.append(time.monotonic() - begun)
        after = (cpu_s(e.child.pid), cpu_s(e.psd.pid))
        return 1e3 * statistics.median(took), *(1e3 * (b - a) / SCRAPES for a, b in zip(before, after))
    finally:
        e.end()


def figures(servers, seconds):
    try:
        program("psd-exporter")
    except Failed:
        return {}
    values = dict(zip(ROWS, idle(servers, seconds, "tcp")))
    if servers.has_tls():
        values["exporter.idle.tls.private_mib"] = idle(servers, 0.1, "tls")[1]
    values.update(zip(list(ROWS)[3:], scrapes(servers)))
    return values
