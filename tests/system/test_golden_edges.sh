#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test-sanitizers: none (a reader in Python reads files)
# The frames of tests/golden/edges, read by the reader that is written from the documents alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec python3 -B tests/golden/read_edges.py tests/golden/edges
