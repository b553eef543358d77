#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test-sanitizers: none (a reader in Python reads files)
# The golden frames, read by a reader that shares nothing with ours: docs/PROTOCOL.md is enough to write a second client.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec python3 -B tests/golden/read_frames.py tests/golden/frames
