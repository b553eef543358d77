# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium for tests, driven over its pipe (the DevTools protocol), with the standard library only."""
import base64
import ctypes
import json
import os
import shutil
import signal
import subprocess
import tempfile

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Browser:
    """`with Browser() as b: b.open(url)`; b.value(expression) is what JavaScript says, after its promise is fulfilled."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # its children may still write
        theirs, self.to = os.pipe()
        self.back, theirs_back = os.pipe()

        def hand_over():
            die_with_parent()
            a, b = os.dup(theirs), os.dup(theirs_back)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
             "--disable-extensions", "--disable-component-update", "--js-flags=--expose-gc", "--remote-debugging-pipe",
             "--user-data-dir=" + self.folder.name],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=hand_over,
            env={**os.environ, "HOME": self.folder.name})
        os.close(theirs)
        os.close(theirs_back)
        self.bytes = b""
        self.count = 0
        self.session = None
        self.requests = []
        self.session = self.call("Target.attachToTarget", targetId=self.call("Target.createTarget", url="about:blank")["targetId"],
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime"):
            self.call(domain + ".enable")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.back)
        self.folder.cleanup()

    def call(self, method, **params):
        self.count += 1
        number = self.count
        message = {"id": number, "method": method, "params": params, **({"sessionId": self.session} if self.session else {})}
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.bytes:
                some = os.read(self.back, 1 << 16)
                if not some:
                    raise RuntimeError("the browser has ended")
                self.bytes += some
            one, self.bytes = self.bytes.split(b"\0", 1)
            said = json.loads(one)
            if said.get("method") == "Network.requestWillBeSent":
                self.requests.append(said["params"]["request"]["url"])
            if said.get("id") == number:
                if "error" in said:
                    raise RuntimeError("%s: %s" % (method, said["error"]))
                return said["result"]

    def value(self, expression):
        got = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in got:
            raise RuntimeError(str(got["exceptionDetails"]))
        return got["result"].get("value")

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.value("new Promise(r => document.readyState === 'complete' ? r() : addEventListener('load', r))")

    def size(self, width, height, mobile=False, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=mobile)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def heap(self):
        """Bytes of JavaScript's heap, after its garbage is collected."""
        for _ in range(3):
            self.call("HeapProfiler.collectGarbage")
        return self.call("Runtime.getHeapUsage")["usedSize"]

    def screenshot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
