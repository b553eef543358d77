#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 300
# What `make examples` runs passes, and it does not pass what fails. With TRANSPORT=tls the clients are a worker: the rows of rights
# that psctl key new prints, which are in force, suffice for every example.
set -euo pipefail

mkdir -p "${PSD_BUILD:?}/obj"
broken=$(mktemp -d "$PSD_BUILD/obj/examples-XXXXXX")
trap 'rm -rf "$broken"' EXIT
if [ -n "${PSD_KEY_FILE:-}" ]; then
    export PSD_KEY_FILE=$PSD_KEY_FILE.worker # of scripts/test-runner
fi
scripts/examples
mkdir "$broken/examples"
printf '#!/bin/sh\necho Hello, world!\n' >"$broken/examples/hello_local"
chmod +x "$broken/examples/hello_local"
if PSD_BUILD=$broken scripts/examples hello_local; then
    echo "failed: a wrong output passed"
    exit 1
fi
if scripts/examples no_such_example; then
    echo "failed: an unknown example passed"
    exit 1
fi
