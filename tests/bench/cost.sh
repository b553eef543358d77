#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Instructions per push of 4 KiB inside some functions, by callgrind: tests/bench/cost.sh PROGRAM WHERE FUNCTION ...
# None of the functions may call another of them. Two runs of different length: what comes before the pushes cancels out.
set -euo pipefail

program=${1:?usage: tests/bench/cost.sh PROGRAM WHERE FUNCTION ...}
where=${2:?}
shift 2
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

of() {
    local pushes=$1
    shift
    valgrind --tool=callgrind "${@/#/--toggle-collect=}" --callgrind-out-file="$out/$pushes" "$program" "$pushes" 2>"$out/log" >&2
    awk '/^summary:|^totals:/ { print $2; exit }' "$out/$pushes"
}

few=$(of 1000 "$@")
many=$(of 2000 "$@")
echo "$(((many - few) / 1000)) instructions per push of 4 KiB in the $where"
