#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make examples` runs passes, and it does not pass what fails.
set -euo pipefail

scripts/examples
mkdir -p "${PSD_BUILD:?}/obj"
broken=$(mktemp -d "$PSD_BUILD/obj/examples-XXXXXX")
trap 'rm -rf "$broken"' EXIT
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
