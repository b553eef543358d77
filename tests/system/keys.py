# SPDX-License-Identifier: Apache-2.0
"""Key files for the system tests: lines as `psctl key new` writes them, and which bytes of them may be nowhere else."""
import hmac
import os
import secrets


class Key:
    """One line. Two keys of one name are a rotation."""

    def __init__(self, name, role, use="use", until=None, cluster=None):
        self.name, self.role, self.use, self.until, self.cluster = name, role, use, until, cluster
        self.key_id, self.secret = secrets.token_hex(4), secrets.token_hex(32)

    def early(self):
        """The early secret of handshakes by this key (RFC 8446, 7.1)."""
        return hmac.digest(bytes(32), bytes.fromhex(self.secret), "sha256")

    def line(self, **change):
        v = {**vars(self), **change}
        return " ".join([v["name"], v["key_id"], v["role"], v["secret"], v["use"]] + (["until=" + v["until"]] if v["until"] else []) +
                        (["cluster=" + v["cluster"]] if v["cluster"] else [])) + "\n"


def write(path, *lines):
    """A key file, whole or not at all: keys and lines of them."""
    text = "".join(line.line() if isinstance(line, Key) else line for line in lines)
    with open(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as f:
        f.write(text)
    os.replace(path + ".new", path)
    return path


def found(key, data):
    """Is the key's secret in these bytes: raw, in hex of either case, in base64?"""
    raw = bytes.fromhex(key.secret)
    import base64  # pylint: disable=import-outside-toplevel
    return any(form in data for form in (raw, raw.hex().encode(), raw.hex().upper().encode(), base64.b64encode(raw).rstrip(b"=")))
