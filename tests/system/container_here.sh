#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The image of scripts/container, built on a fresh Debian, and two containers of it, a ps task and a worker that trains with a key:
# tests/system/container_here.sh FOLDER. Needs root. Exit status 77: it could not be built here, and why is said.
set -euo pipefail

give_up() {
    echo "container_here: $*"
    exit 77
}

fail() {
    echo "container_here: $*" >&2
    exit 1
}

# contained NAME=VALUE... -- ARGUMENT...: a container whose user, processes and files are its own; it shares the network and /job
contained() {
    local of_env=()
    while [ "$1" != -- ]; do
        of_env+=(--setenv "${1%%=*}" "${1#*=}")
        shift
    done
    shift
    bwrap --bind "$image" / --dev /dev --proc /proc --tmpfs /tmp --bind "$folder/job" /job --ro-bind /etc/hosts /etc/hosts --unshare-user --unshare-pid \
        --uid 65532 --gid 65532 --die-with-parent --clearenv --setenv PATH /usr/bin:/bin "${of_env[@]}" --chdir /tmp psd-entrypoint "$@"
}

tf_config() { echo "TF_CONFIG={\"cluster\":{\"ps\":[\"10.9.9.1:2222\"],\"worker\":[\"10.9.9.2:2222\"]},\"task\":{\"type\":\"$1\",\"index\":0}}"; }

if [ "$1" = --inside ]; then # a network namespace, so that nothing is loopback to psd
    folder=$2
    image=$3
    ip link set lo up
    for i in 1 2; do ip addr add "10.9.9.$i/32" dev lo; done
    mkdir -m 700 "$folder/job"
    contained -- psctl key new ps0 --role ps --file /job/psd.keys >"$folder/said" || fail "no key is made: $(cat "$folder/said")"
    contained -- psctl key new w0 --role worker --file /job/psd.keys >"$folder/said" || fail "no key is made: $(cat "$folder/said")"
    contained -- psctl key export w0 --file /job/psd.keys --out /job/w0.key >"$folder/said" || fail "no key is given out: $(cat "$folder/said")"

    ! contained "$(tf_config ps)" -- >"$folder/refused" 2>&1 || fail "a ps task serves others without a key"
    coproc PS { contained "$(tf_config ps)" PSD_KEY_FILE=/job/psd.keys "PSD_FLAGS=--exit_when_done --checkpoint_dir /job" -- 2>"$folder/ps"; }
    ps=$PS_PID
    read -r -t 120 ready <&"${PS[0]}" || fail "the ps task does not serve: $(tail -n 3 "$folder/ps")"
    [ "$ready" = "ready: psd://10.9.9.1:2222" ] || fail "the ps task said '$ready'"
    ! contained -- psctl -t 10.9.9.1:2222 status >"$folder/stranger" 2>&1 || fail "psctl without a key is answered"
    contained "$(tf_config worker)" PSD_KEY_FILE=/job/w0.key -- --data digits --model softmax --steps 100 >"$folder/worker" 2>&1 ||
        fail "the worker ended with $?: $(tail -n 5 "$folder/worker")"
    grep -q 'test accuracy' "$folder/worker" || fail "the worker says no accuracy: $(tail -n 5 "$folder/worker")"
    wait "$ps" || fail "the ps task ended with $?: $(tail -n 5 "$folder/ps")"
    ls "$folder"/job/ps-0/*/manifest >/dev/null || fail "the ps task has saved no checkpoint"
    echo "container_here: the chief has trained"
    exit
fi

folder=$1
cd "$(dirname "$0")/../.."
for tool in mmdebstrap buildah bwrap unshare; do command -v "$tool" >/dev/null || give_up "$tool is not installed"; done
scripts/deb >"$folder/deb" 2>&1 || fail "the packages are not made: $(tail -n 5 "$folder/deb")"
base=build/debian.tar # kept, because it takes a minute
if [ ! -e "$base" ]; then
    sources=$(ls /etc/apt/sources.list.d/debian.sources 2>/dev/null || echo /etc/apt/sources.list)
    mmdebstrap --quiet --variant=apt bookworm "$base.new" "$sources" >"$folder/base" 2>&1 || give_up "no Debian is to be had: $(tail -n 1 "$folder/base")"
    mv "$base.new" "$base"
fi
export TMPDIR=$folder BUILDAH_ISOLATION=chroot
store=(--root "$folder/store" --runroot "$folder/run" --storage-driver vfs)
work=$(buildah "${store[@]}" from scratch) || give_up "buildah makes no container here"
buildah "${store[@]}" add -q "$work" "$base" / >/dev/null || give_up "buildah adds no files here"
buildah "${store[@]}" commit -q --rm "$work" localhost/debian >/dev/null || give_up "buildah commits nothing here"
buildah "${store[@]}" build --build-arg BASE=localhost/debian -t localhost/psd -f scripts/container/Containerfile . >"$folder/built" 2>&1 ||
    fail "the image is not built: $(tail -n 20 "$folder/built")"
# the containers below are bwrap's, in a network without another way out
work=$(buildah "${store[@]}" from localhost/psd)
image=$(buildah "${store[@]}" mount "$work")
status=0
unshare --net --mount "$0" --inside "$folder" "$image" || status=$?
buildah "${store[@]}" rm --all >/dev/null
exit "$status"
