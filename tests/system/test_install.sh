#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make install` puts down is enough: outside the tree, through pkg-config, a stranger builds one program that is ps or worker
# by its flag (shared and static, C and C++) and the installed examples, and the programs run. Uninstall leaves nothing.
set -euo pipefail

top=$PWD
stage=$top/${PSD_BUILD:?}/stage
variant=${PSD_BUILD##*/}
work=$(mktemp -d "${TMPDIR:-/tmp}/psd-install-XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
    echo "failed: $*" >&2
    exit 1
}

# the only place that knows where things are
lib=$(dirname "$(find "$stage" -name libpsd.a)")
[ -f "$lib/pkgconfig/psd.pc" ] || fail "no psd.pc beside libpsd.a in $stage"
export PKG_CONFIG_PATH=$lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$stage LD_LIBRARY_PATH=$lib
case "$variant" in
    asan) instrument=('-fsanitize=address,undefined') ;;
    tsan) instrument=(-fsanitize=thread "$top/$PSD_BUILD/obj/tests/lib/tsan/close.o") ;;
    *) instrument=() ;;
esac

cd "$work"
cp "$top/tests/system/outside/role.c" .
cp role.c role.cc
read -ra cflags <<<"$(pkg-config --cflags psd psworker)"
read -ra shared <<<"$(pkg-config --libs psd psworker)"
read -ra private <<<"$(pkg-config --static --libs psd psworker)"
strict=(-O2 -Wall -Wextra -Werror -pedantic "${instrument[@]}")
gcc -std=c11 "${strict[@]}" "${cflags[@]}" role.c -o role-shared "${shared[@]}"
g++ -std=c++17 "${strict[@]}" "${cflags[@]}" role.cc -o role-c++ "${shared[@]}"
static=()
for word in "${private[@]}"; do
    case "$word" in
        -lpsd | -lpsworker) static+=("-l:lib${word#-l}.a") ;;
        *) static+=("$word") ;;
    esac
done
gcc -std=c11 "${strict[@]}" "${cflags[@]}" role.c -o role-static "${static[@]}"
case "$(ldd role-static)" in
    *libps*) fail "role-static needs a shared library of ours" ;;
esac
needed=$(ldd role-shared)
case "$needed" in *libpsd.so.1*) ;; *) fail "role-shared does not use libpsd.so.1" ;; esac
case "$needed" in *libpsworker.so.1*) ;; *) fail "role-shared does not use libpsworker.so.1" ;; esac
examples=$(find "$stage" -path '*/doc/psd/examples')
for source in "$top"/worker/examples/*.c; do
    cmp "$source" "$examples/${source##*/}"
    gcc -std=c11 "${strict[@]}" "${cflags[@]}" "$examples/${source##*/}" -o example "${shared[@]}" -lz -lm
    ./example --help >/dev/null || fail "${source##*/} --help ended with $?"
done

# one program as ps, each build as its worker
for program in role-shared role-static role-c++; do
    coproc PS { ./"$program" --job_name ps; }
    pid=$PS_PID
    read -r -t 20 address <&"${PS[0]}" || fail "$program as ps printed no address"
    got=$(timeout 60 ./"$program" --target "$address")
    [ "$got" = "3.0 after 10 steps" ] || fail "$program as worker printed '$got'"
    eval "exec ${PS[1]}>&-"
    wait "$pid" || fail "$program as ps ended with $?"
done

# the installed programs know their version and data, and nothing in them names the build tree
for program in psd psctl pstrain $([ ! -x "$top/build/$variant/bin/psd-exporter" ] || echo psd-exporter); do
    binary=$(find "$stage" -path "*/bin/$program")
    [ -x "$binary" ] || fail "$program is not installed"
    "$binary" --help >help.txt || fail "$program --help ended with $?"
    [ -s help.txt ] || fail "$program --help says nothing"
done
if grep -l "$top" "$lib"/pkgconfig/*.pc; then
    fail "a .pc file names the source tree"
fi

# uninstall leaves nothing of ours
cp -R "$stage" copy
make --no-print-directory -C "$top" uninstall DESTDIR="$work/copy" VARIANT="$variant" >/dev/null
left=$(find copy -mindepth 1)
[ -z "$left" ] || fail "uninstall leaves: $left"

# without DESTDIR, below a PREFIX of its own: the directories above it are somebody else's, and so is another file
mkdir -p above/share/man
cp -R "$stage/usr/local" above/own
touch above/own/share/of-another
make --no-print-directory -C "$top" uninstall PREFIX="$work/above/own" VARIANT="$variant" >/dev/null
left=$(find above | sort | tr '\n' ' ')
[ "$left" = "above above/own above/own/share above/own/share/of-another above/share above/share/man " ] || fail "uninstall leaves: $left"
rm above/own/share/of-another
make --no-print-directory -C "$top" uninstall PREFIX="$work/above/own" VARIANT="$variant" >/dev/null
left=$(find above | sort | tr '\n' ' ')
[ "$left" = "above above/share above/share/man " ] || fail "uninstall leaves: $left"
echo "1 passed, 0 failed, 0 skipped"
