#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Values in files: psctl export and import, pstrain --export and --eval, read by a reader that knows nothing of psd."""
import array
import ast
import importlib.util
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import Cluster, die_with_parent, free_port, halt, main, path, run

PSCTL = path("bin/psctl")
PSTRAIN = path("bin/pstrain")
SANITIZED = path("").rstrip("/").endswith(("asan", "tsan"))  # these reserve address space of their own
SIZES = {"F32": 4, "F64": 8, "I32": 4, "I64": 8, "BOOL": 1, "I8": 1, "U8": 1}


def links_of(pid):
    """What a process has open; descriptors come and go meanwhile."""
    where = "/proc/%d/fd" % pid
    for fd in os.listdir(where):
        try:
            yield os.readlink(os.path.join(where, fd))
        except FileNotFoundError:
            pass


def read_safetensors(name, aligned=True):
    """(metadata, {tensor: (dtype, shape, bytes)}) with nothing but struct and json; checks what the format promises."""
    with open(name, "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    values = data[8 + length:]
    at = 0
    for tensor in sorted(header.values(), key=lambda t: t["data_offsets"]):
        begin, end = tensor["data_offsets"]
        count = 1
        for dim in tensor["shape"]:
            count *= dim
        assert begin == at and end - begin == count * SIZES[tensor["dtype"]], tensor
        assert not aligned or (8 + length + begin) % SIZES[tensor["dtype"]] == 0, "not aligned"
        at = end
    assert at == len(values)
    return metadata, {n: (t["dtype"], t["shape"], values[slice(*t["data_offsets"])]) for n, t in header.items()}


def write_safetensors(name, tensors, metadata=None):
    """tensors: {name: (dtype, shape, bytes)}"""
    header, blob = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for tensor, (dtype, shape, values) in tensors.items():
        header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [len(blob), len(blob) + len(values)]}
        blob += values
    write_raw(name, json.dumps(header).encode(), blob)


def write_raw(name, header, blob):
    with open(name, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + blob)


def psctl(cluster, *args, code=0, **kwargs):
    got, out, err = run(PSCTL, "-t", cluster.addresses[0], *args, **kwargs)
    if got != code:
        raise AssertionError("psctl %s: status %d\n%s%s" % (" ".join(args), got, out, err))
    return out if code == 0 else err


def variables(cluster):
    return {v["name"]: v for v in json.loads(psctl(cluster, "vars", "--json"))["variables"] if v["container"] == "localhost"}


def train(cluster, *flags):
    worker = "127.0.0.1:%d" % free_port()
    code, out, err = run(PSTRAIN, "--ps_hosts", cluster.hosts, "--worker_hosts", worker, "--job_name", "worker", "--task_index", "0",
                         "--epochs", "3", "--seed", "5", *flags)
    if code != 0:
        raise AssertionError(out + err)
    return out


def evaluate(cluster, *flags, code=0):
    got, out, err = run(PSTRAIN, "--eval", "--ps_hosts", cluster.hosts, *flags)
    if got != code:
        raise AssertionError("status %d\n%s%s" % (got, out, err))
    return out if code == 0 else err


class Trained(unittest.TestCase):
    """A model of the demo's kind on two ps, exported by its chief."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="psd-files-")
        cls.cluster = Cluster(2).__enter__()
        cls.file = cls.at("model.safetensors")
        cls.out = train(cls.cluster, "--export", cls.file, "--report", cls.at("report.json"))

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__()
        cls.folder.cleanup()

    @classmethod
    def at(cls, name):
        return os.path.join(cls.folder.name, name)

    def test_equals_get(self):
        self.assertIn("exported 5 variables to " + self.file, self.out)  # the chief's sign of life is none of the model's
        metadata, tensors = read_safetensors(self.file)
        there = variables(self.cluster)
        self.assertEqual(sorted(tensors), sorted(there))
        for name, (dtype, shape, values) in tensors.items():
            npy = self.at("one.npy")
            psctl(self.cluster, "get", name, "--npy", npy)
            with open(npy, "rb") as file:
                data = file.read()
            start = 10 + struct.unpack("<H", data[8:10])[0]
            header = ast.literal_eval(data[10:start].decode())
            self.assertEqual(list(header["shape"]), shape)
            self.assertEqual({"<f4": "F32", "<i8": "I64"}[header["descr"]], dtype)
            self.assertEqual(data[start:], values, name)
        self.assertEqual(metadata["format"], "psd")
        self.assertEqual(metadata["psd_container"], "localhost")
        said = json.loads(metadata["psd_variables"])
        self.assertEqual(said["softmax/weights"]["optimizer"], {"kind": "adagrad", "learning_rate": 0.05, "initial_accumulator": 0.1})
        self.assertEqual(said["softmax/weights"]["version"], there["softmax/weights"]["version"])
        # in the order of creation
        self.assertEqual(list(tensors), ["layer1/weights", "layer1/biases", "softmax/weights", "softmax/biases", "global_step"])

    def test_safetensors_package(self):
        if importlib.util.find_spec("safetensors") is None or importlib.util.find_spec("numpy") is None:
            self.skipTest("the safetensors package is not installed")
        from safetensors import safe_open  # pylint: disable=import-error,import-outside-toplevel
        _, tensors = read_safetensors(self.file)
        with safe_open(self.file, framework="np") as file:
            self.assertEqual(sorted(file.keys()), sorted(tensors))
            self.assertEqual(file.metadata()["format"], "psd")
            for name, (_, shape, values) in tensors.items():
                array_of = file.get_tensor(name)
                self.assertEqual(list(array_of.shape), shape)
                self.assertEqual(array_of.tobytes(), values)

    def test_import_on_another_cluster(self):
        """Three ps instead of two, empty: the same model, the same accuracy, and training goes on."""
        before = json.load(open(self.at("report.json"), encoding="utf-8"))
        line = next(text for text in self.out.splitlines() if text.startswith("test accuracy"))
        self.assertIn(line, evaluate(self.cluster))
        with Cluster(3) as other:
            self.assertIn("there is no such model on the ps tasks", evaluate(other, code=1))
            done = json.loads(psctl(other, "import", self.file, "--yes", "--json"))
            self.assertEqual(done["variables"], 5)
            self.assertGreater(done["bytes"], 4 * (64 * 128 + 128 + 1280 + 10))
            there = variables(other)
            names = ["layer1/weights", "layer1/biases", "softmax/weights", "softmax/biases", "global_step"]
            self.assertEqual([there[n]["task"] for n in names], ["/job:ps/task:%d" % (i % 3) for i in range(5)])
            self.assertEqual(there["layer1/weights"]["optimizer"]["kind"], "adagrad")
            out = evaluate(other, "--report", self.at("eval.json"), "--export", self.at("again.safetensors"))
            self.assertIn(line, out)
            report = json.load(open(self.at("eval.json"), encoding="utf-8"))
            for key in ("test_accuracy", "test_loss", "global_step", "variables", "values"):
                self.assertEqual(report[key], before[key], key)
            self.assertEqual((report["ps"], report["train_loss"], report["pushes_applied_total"]), (3, None, 0))
            # out again: the same bytes, whatever the number of tasks
            first, second = read_safetensors(self.file)[1], read_safetensors(self.at("again.safetensors"))[1]
            self.assertEqual(first, second)
            self.assertIn("continuing", train(other))

    def test_eval_that_does_not_fit(self):
        for flags, says in ((("--model", "softmax"), "softmax/weights is float32 (128, 10), --model and --data need float32 (64, 10)"),
                            (("--model", "mlp:64,32"), "layer1/weights is float32 (64, 128)"),
                            (("--model", "mlp:128,10"), "there is no variable or queue 'layer2/weights' in container")):
            self.assertIn(says, evaluate(self.cluster, *flags, code=1))
        self.assertIn("--eval and --local", run(PSTRAIN, "--eval", "--local", "ps=1,workers=1")[2])
        code, _, err = run(PSTRAIN, "--eval", "--timeout", "1", env={"PSD_TARGET": "127.0.0.1:%d" % free_port()})
        self.assertEqual(code, 1)
        self.assertIn("cannot be reached", err)

    def test_eval_by_tf_config(self):
        config = {"cluster": {"ps": self.cluster.addresses}, "task": {"type": "evaluator", "index": 0}}
        code, out, err = run(PSTRAIN, "--eval", env={"TF_CONFIG": json.dumps(config)})
        self.assertEqual(code, 0, err)
        self.assertIn("test accuracy 0.9", out)


class Refused(unittest.TestCase):
    """Imports that change nothing, exports that leave nothing."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(2).__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__()

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="psd-files-")
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name
        self.file = os.path.join(self.folder, "x.safetensors")
        write_safetensors(self.file, {"w": ("F32", [2, 2], array.array("f", [1, 2, 3, 4]).tobytes()),
                                      "step": ("I64", [], struct.pack("<q", 7)),
                                      "on": ("BOOL", [3], b"\x01\x00\x01")})
        psctl(self.cluster, "import", self.file, "--yes")

    def state(self):
        return {n: (v["version"], v["initialised"], psctl(self.cluster, "get", n)) for n, v in variables(self.cluster).items()}

    def test_import(self):
        good = {"step": ("I64", [], struct.pack("<q", 8))}
        one = array.array("f", [9, 9, 9, 9]).tobytes()
        before = self.state()
        files = {
            "shape": (dict(good, w=("F32", [4], one)), "tensor 'w' is float32 (4,)"),
            "dtype": (dict(good, w=("I32", [2, 2], one)), "tensor 'w' is int32 (2, 2)"),
            "no dtype of ours": (dict(good, more=("U16", [8], one)), "tensor 'more' is U16"),
            "no bool": (dict(good, on=("BOOL", [3], b"\x01\x02\x01")), "tensor 'on' is BOOL, but element 1 is 2"),
            "name": (dict(good, **{"a b": ("F32", [4], one)}), "'a b'"),
            "unknown": (dict(good, none=("F32", [-1], b"")), "tensor 'none'"),
            "0 x huge": (dict(good, none=("F32", [0, 1 << 62, 1 << 62], b"")), "tensor 'none'"),
        }
        for what, (tensors, says) in files.items():
            with self.subTest(what):
                write_safetensors(self.file, tensors)
                err = psctl(self.cluster, "import", self.file, "--yes", code=1)
                self.assertIn(says, err)
                self.assertIn(self.file, err)
                self.assertEqual(self.state(), before)

    def test_import_of_hostile_headers(self):
        before = self.state()
        entry = b'"w":{"dtype":"F32","shape":[2,2],"data_offsets":[%s]}'
        files = {
            "length": (None, struct.pack("<Q", 1 << 63) + b"{}"),
            "longer than the limit": (None, struct.pack("<Q", 100000001) + b"{}"),
            "cut": (None, b"\x10\0\0"),
            "overlap": (b"{" + entry % b"0,16" + b',"v":{"dtype":"F32","shape":[4],"data_offsets":[8,24]}}', bytes(24)),
            "hole": (b"{" + entry % b"8,24" + b"}", bytes(24)),
            "twice": (b"{" + entry % b"0,16" + b"," + entry % b"16,32" + b"}", bytes(32)),
            "overflow": (b'{"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}', b""),
            "deep": (b'{"w":' + b"[" * 100000, b""),
            "more than the file": (b"{" + entry % b"0,16" + b"}", bytes(15)),
            "less than the file": (b"{" + entry % b"0,16" + b"}", bytes(17)),
            "trailing": (b"{" + entry % b"0,16" + b"}}", bytes(16)),
            "python": (b"{'w': 1}", b""),
        }
        for what, (header, blob) in files.items():
            with self.subTest(what):
                if header is None:
                    with open(self.file, "wb") as file:
                        file.write(blob)
                else:
                    write_raw(self.file, header, blob)
                psctl(self.cluster, "import", self.file, "--yes", code=1)
                self.assertEqual(self.state(), before)

    def test_memory_of_a_hostile_header(self):
        """The longest header that the format allows, all of it numbers: refused at the price of its text. A
        tenth of it under a sanitizer, where memory has no limit."""
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        slow = 10 if SANITIZED else 1
        long, many = (100000000 - 20) // 2 // slow, 4000000 // slow
        for header, says in ((b'{"a":{"shape":[0' + b",0" * long + b"]}}", "tensor 'a': more than 524288 commas, colons and brackets"),
                             (b'{"a":0' + b',"b":0' * many + b"}", "'a': its entry is not an object; %d others are refused: 'b'" % many)):
            write_raw(self.file, header, b"")
            done = subprocess.run([PSCTL, "-t", self.cluster.addresses[0], "import", self.file, "--yes"], stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, check=False,
                                  preexec_fn=None if SANITIZED else limit, restore_signals=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(says, done.stderr)

    def test_json_errors(self):
        code, out, _ = run(PSCTL, "-t", self.cluster.addresses[0], "--json", "import", self.file + ".none", "--yes")
        self.assertEqual((code, json.loads(out)["error"]["status"]), (1, "NOT_FOUND"))
        code, out, _ = run(PSCTL, "-t", self.cluster.addresses[0], "--json", "export", os.path.join(self.folder, "no", "x"))
        self.assertEqual((code, json.loads(out)["error"]["status"]), (1, "NOT_FOUND"))
        self.assertIn("nothing to export", psctl(self.cluster, "export", self.file, "--container", "absent", code=1))

    def test_what_has_no_value_is_named(self):
        file = os.path.join(self.folder, "part")
        with Cluster(2) as cluster:
            write_safetensors(file, {"a": ("F32", [1], bytes(4)), "b": ("F32", [1], bytes(4))})
            psctl(cluster, "import", file, "--yes")
            for i in range(2):
                psctl(cluster, "config", "set", "memory_budget", "1M", "--task", f"ps:{i}")
            tensors = {"c": ("F32", [1], bytes(4)), "d": ("F32", [1 << 19], bytes(1 << 21))}
            write_safetensors(file, tensors)
            self.assertIn("1 variable that it created, 'c', has no value", psctl(cluster, "import", file, "--yes", code=1))
            code, out, err = run(PSCTL, "-t", cluster.addresses[0], "--json", "export", file)
            self.assertEqual(code, 0, err)
            self.assertEqual((json.loads(out)["variables"], json.loads(out)["left_out"]), (2, 1))
            self.assertIn("1 variable of container 'localhost' has no value and is not in the file: c\n", err)

    def test_a_part_of_a_model_is_no_model(self):
        """A task came back empty: what it had is missed, whatever the others still have."""
        file = os.path.join(self.folder, "part")
        write_safetensors(file, {name: ("F32", [1], bytes(4)) for name in ("a", "b", "c")})
        with Cluster(2) as cluster:
            psctl(cluster, "import", file, "--yes")
            cluster.kill(1)
            cluster.start(1)
            end = time.monotonic() + 600
            while time.monotonic() < end:  # until it has listed
                code, out, err = run(PSCTL, "-t", cluster.addresses[0], "--json", "export", file)
                if code != 0 and json.loads(out)["error"]["status"] != "UNAVAILABLE":
                    break
            self.assertEqual((code, json.loads(out)["error"]["status"]), (1, "DATA_LOSS"), err)
            self.assertIn("container 'localhost' should have 3 variables and its tasks have 2", err)
            code, out, err = run(PSCTL, "-t", cluster.addresses[0], "containers")
            self.assertEqual(code, 1, err)
            self.assertIn("container 'localhost' should have 3 variables and its tasks have 2", err)
            psctl(cluster, "import", file, "--yes")  # makes the one that is missing again
            psctl(cluster, "export", file)
            _, tensors = read_safetensors(file)
            self.assertEqual(sorted(tensors), ["a", "b", "c"])

    def test_containers_do_not_meet(self):
        before = self.state()
        psctl(self.cluster, "import", self.file, "--yes", "--container", "copy")
        psctl(self.cluster, "export", os.path.join(self.folder, "copy"), "--container", "copy")
        metadata, tensors = read_safetensors(os.path.join(self.folder, "copy"))
        self.assertEqual(metadata["psd_container"], "copy")
        self.assertEqual(tensors, read_safetensors(self.file, aligned=False)[1])
        psctl(self.cluster, "reset", "copy", "--yes")
        self.assertEqual(self.state(), before)

    def test_full_disk(self):
        """A limit on the size of files, which a write meets as it meets the end of a disk."""
        values = bytes(3 << 20)
        big = os.path.join(self.folder, "big")
        write_safetensors(big, {"big": ("F32", [3 << 18], values)})
        psctl(self.cluster, "import", big, "--yes", "--container", "full")
        with open(self.file, "wb") as file:
            file.write(b"older")
        files = sorted(os.listdir(self.folder))

        def limit():
            die_with_parent()
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        done = subprocess.run([PSCTL, "-t", self.cluster.addresses[0], "--json", "export", self.file, "--container", "full"],
                              capture_output=True, text=True, timeout=600, check=False, preexec_fn=limit, restore_signals=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(json.loads(done.stdout)["error"]["status"], "RESOURCE_EXHAUSTED")
        self.assertIn(self.file, done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), files)
        with open(self.file, "rb") as file:
            self.assertEqual(file.read(), b"older")
        psctl(self.cluster, "reset", "full", "--yes")

    def test_killed(self):
        """An export that is killed in the middle leaves nothing behind."""
        try:
            os.close(os.open(self.folder, os.O_TMPFILE | os.O_WRONLY))
        except OSError as error:
            self.skipTest("no files without a name in %s: %s" % (self.folder, error))
        target = os.path.join(self.folder, "killed")
        halt(self.cluster.tasks[1].pid)
        try:
            export = subprocess.Popen([PSCTL, "-t", self.cluster.addresses[0], "--timeout", "60", "export", target],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)
            deadline = time.monotonic() + 600
            opened = False
            while not opened and time.monotonic() < deadline:  # until it has its new file
                opened = any(self.folder in link for link in links_of(export.pid))
                try:
                    self.fail("the export ended with %d" % export.wait(0.01))
                except subprocess.TimeoutExpired:
                    pass
            self.assertTrue(opened)
            export.kill()
            export.wait()
        finally:
            self.cluster.tasks[1].send_signal(signal.SIGCONT)
        self.assertEqual(os.listdir(self.folder), [os.path.basename(self.file)])


if __name__ == "__main__":
    sys.exit(main(unittest))
