#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Instructions per push of 4 KiB inside psd_task_bytes(), by callgrind: tests/bench/cost.sh PROGRAM
# Two runs of different length: what comes before the pushes cancels out.
set -euo pipefail

program=${1:?usage: tests/bench/cost.sh PROGRAM}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

instructions() {
    valgrind --tool=callgrind --toggle-collect=psd_task_bytes --callgrind-out-file="$out/$1" "$program" "$1" 2>"$out/log" >&2
    awk '/^summary:|^totals:/ { print $2; exit }' "$out/$1"
}

few=$(instructions 1000)
many=$(instructions 2000)
echo "$(((many - few) / 1000)) instructions per push of 4 KiB"
