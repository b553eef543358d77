#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Steps of 100 MB over a link of RATE (of tc) each way, the median of so many runs of 2 s: tests/bench/duplex.sh [RATE [ROUNDS]]
# Two network namespaces, a veth between them, tbf at both ends; psd in one, tests/bench/load in the other. Needs root, ip and tc.
# A row is what a step moves, both ways counted, of what the link can move both ways: 1 is the limit, 0.5 one way at a time.
#   each  each parameter's push follows its pull, beside the pull of the next one
#   last  all gradients are pushed, then all parameters pulled
# Then how long a pull or push of 4 KiB takes beside so many large transfers of the same session, 2 s each.
set -euo pipefail

rate=${1:-2gbit}
rounds=${2:-5}
build=${PSD_BUILD:-build/release}
here=psd-duplex-$$
if [ "$(id -u)" != 0 ] || ! command -v ip >/dev/null || ! command -v tc >/dev/null; then
    echo "skipped: network namespaces need root, ip and tc (iproute2)"
    exit 0
fi
psd=
finish() {
    [ -z "$psd" ] || kill "$psd" 2>/dev/null || true
    wait
    ip netns delete "$here-a" 2>/dev/null || true
    ip netns delete "$here-b" 2>/dev/null || true
}
trap finish EXIT
ip netns add "$here-a"
ip netns add "$here-b"
ip link add psd-a netns "$here-a" type veth peer name psd-b netns "$here-b"
for end in a b; do
    address=10.9.0.1
    [ $end = a ] || address=10.9.0.2
    ip -n "$here-$end" address add "$address/24" dev "psd-$end"
    ip -n "$here-$end" link set "psd-$end" up
    ip netns exec "$here-$end" tc qdisc add dev "psd-$end" root tbf rate "$rate" burst 512kb latency 5ms
done
limit=$(ip netns exec "$here-a" tc -j qdisc show dev psd-a | grep -oE '"rate":[0-9]+' | grep -oE '[0-9]+') # bytes a second, whatever `rate` was said in
ip netns exec "$here-a" "$build/bin/psd" --ps_hosts 10.9.0.1:17333 --insecure_any_peer --log_level error >/dev/null &
psd=$!
export PSD_TARGET=10.9.0.1:17333 PSD_PID=$psd
for row in "100 each" "100 last" "25 each" "25 last" "400 last"; do
    read -r variables pulls <<<"$row"
    last=()
    [ "$pulls" != last ] || last=(last)
    for _ in $(seq "$rounds"); do
        ip netns exec "$here-b" "$build/tests/bench/load" null "$variables" 100000000 2 thread "${last[@]}"
    done | grep -oE '"gb_per_s":[0-9.]+' | cut -d: -f2 | sort -n |
        awk -v row="$variables variables, $pulls" -v limit="$limit" '
            { v[NR] = $1 * 1e9 / (2 * limit) }
            END { if (NR > 0) printf "%-20s %.2f (%.2f to %.2f) of %s B/s each way\n", row, v[int((NR + 1) / 2)], v[1], v[NR], limit }'
done
for row in "pull 0 pull" "pull 1 pull" "pull 8 pull" "push 8 pull" "pull 1 push" "push 1 push"; do
    read -r small large kind <<<"$row"
    ip netns exec "$here-b" "$build/tests/bench/load" beside "$small" "$large" "$kind" 2 |
        sed -E 's/.*"p50_us":([0-9.]+),"p99_us":([0-9.]+).*/\1 \2/;t;d' |
        awk -v row="4 KiB $small beside $large x $kind of 25 MB" '{ printf "%-35s p50 %.2f ms, p99 %.2f ms\n", row, $1 / 1000, $2 / 1000 }'
done
