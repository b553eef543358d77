#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The life of the Debian packages in a copy of the running system: deb_here.sh MODE DEBS FOLDER. Needs root.
#   MODE  files: in a chroot, no process manager; tasks: under systemd in a container, with a task that trains across the upgrade
#   DEBS  folder of the packages that `make deb` has made
# Installs a version before DEBS (the same files with a lower number and another psd.conf), then DEBS over it, removes and purges. Nothing
# outside FOLDER changes. Exit status 77: this machine cannot do it, and why is said.
set -euo pipefail

give_up() {
    echo "deb_here: $*"
    exit 77
}

fail() {
    echo "deb_here: $*" >&2
    exit 1
}

# ---- inside the copy ----------------------------------------------------------------------------------------------------
is_installed() { [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null)" = 'ii ' ]; }
install_debs() { dpkg --force-confold -i "$1"/*.deb </dev/null 2>&1 || fail "dpkg -i $1 failed"; }
exported() { psctl export "$1" >/dev/null && sha256sum "$1" | cut -d ' ' -f 1; }

inside() {
    local mode=$1 said pid values left flags
    export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 OPENBLAS_NUM_THREADS=1
    for name in psd libpsd1 libpsworker1; do ! is_installed "$name" || give_up "$name is installed here already"; done

    install_debs /old >/dev/null
    for name in psd psd-tools psd-doc libpsd1 libpsworker1 libpsworker-kernels libpsd-dev; do is_installed "$name" || fail "$name is not installed"; done
    getent passwd psd >/dev/null || fail "there is no user psd"
    grep -qx '# of the version before' /etc/psd/psd.conf || fail "psd.conf is not that of the version before"
    if [ "$mode" = tasks ]; then
        [ "$(systemctl is-enabled psd-exporter)" = disabled ] || fail "psd-exporter is enabled"
        ! systemctl -q is-active psd-exporter || fail "psd-exporter runs"
        ! systemctl -q is-active 'psd@*' || fail "a task was started by the installation"
    fi
    for program in psd psctl pstrain psd-exporter; do
        "$program" --version >/dev/null || fail "$program --version failed"
        compgen -G "/usr/share/man/man[18]/$program.*" >/dev/null || fail "$program has no manual page"
    done
    # from the plugin's own folder, and the data that come with psd-tools
    (cd /tmp && pstrain --local ps=1,workers=1 --data digits --model softmax --steps 20 >/tmp/local 2>&1) || fail "pstrain: $(tail -n 3 /tmp/local)"
    read -ra flags <<<"$(pkg-config --cflags --libs psworker psd)"
    cc -o /tmp/softmax /usr/share/doc/psd/examples/softmax.c "${flags[@]}" -lz || fail "an example does not compile"
    /tmp/softmax --help >/dev/null || fail "an example does not start"

    echo 'checkpoint_dir = /var/lib/psd' >>/etc/psd/psd.conf
    if [ "$mode" = tasks ]; then
        systemctl start psd@0
        pstrain --ps_hosts 127.0.0.1:2222 --worker_hosts 127.0.0.1:2224 --job_name worker --task_index 0 --data digits --model softmax \
            --steps 50 >/tmp/train 2>&1 || fail "pstrain: $(tail -n 3 /tmp/train)"
        values=$(exported /tmp/before.safetensors)
        pid=$(systemctl show psd@0 -p MainPID --value)
    fi

    said=$(install_debs /new)
    [ "$(dpkg-query -W -f '${Version}' psd)" != "$(cat /old/version)" ] || fail "the version before is still installed"
    grep -qx 'checkpoint_dir = /var/lib/psd' /etc/psd/psd.conf || fail "the upgrade took a setting away"
    [ -f /etc/psd/psd.conf.dpkg-dist ] || fail "the new psd.conf is not beside the edited one"
    if [ "$mode" = tasks ]; then
        [ "$(systemctl show psd@0 -p MainPID --value)" = "$pid" ] || fail "the upgrade ended a task"
        case "$said" in *"still running as version $(cat /old/version): psd@0.service"*) ;; *) fail "the upgrade says nothing about psd@0: $said" ;; esac
        [ "$(exported /tmp/running.safetensors)" = "$values" ] || fail "the running task has other values"
        systemctl restart psd@0
        [ "$(exported /tmp/after.safetensors)" = "$values" ] || fail "the restarted task has other values"
        [ "$(readlink "/proc/$(systemctl show psd@0 -p MainPID --value)/exe")" = /usr/bin/psd ] || fail "the restarted task is another program"
    fi

    # what a removal leaves: settings, and checkpoints
    dpkg -r psd psd-tools psd-doc libpsd-dev libpsd1 libpsworker1 libpsworker-kernels >/dev/null 2>&1 || fail "dpkg -r failed"
    if [ "$mode" = tasks ]; then
        ! systemctl -q is-active 'psd@*' || fail "a task runs on after the removal"
        [ -n "$(ls /var/lib/psd/ps-0)" ] || fail "the removal took checkpoints away"
    fi
    mkdir -p /var/lib/psd/ps-0
    [ -f /etc/psd/psd.conf ] || fail "the removal took psd.conf away"
    [ ! -e /usr/bin/psd ] || fail "the removal leaves psd"
    left=$(find /usr/bin /usr/lib /usr/include /lib/systemd \( -name 'psd*' -o -name 'libps[dw]*' \) | sort)
    [ -z "$left" ] || fail "the removal leaves $left"

    dpkg -P psd psd-tools psd-doc libpsd-dev libpsd1 libpsworker1 libpsworker-kernels >/dev/null 2>&1 || fail "dpkg -P failed"
    [ ! -e /etc/psd ] || fail "the purge leaves $(ls -d /etc/psd/*)"
    [ ! -e /var/lib/psd ] || fail "the purge leaves /var/lib/psd"
    getent passwd psd >/dev/null || fail "the purge took the user away"
    [ ! -e /usr/share/doc/psd ] || fail "the purge leaves /usr/share/doc/psd"
    echo "deb_here: all of $mode"
}

if [ "$1" = --inside ]; then
    inside "$2"
    exit
fi

# ---- outside of it ------------------------------------------------------------------------------------------------------
if [ "$1" != --mounts ]; then
    exec unshare --mount --pid --fork --kill-child --mount-proc "$0" --mounts "$@"
fi
mode=$2
debs=$3
folder=$4

mount --make-rprivate / || give_up "mounts cannot be made here"
root=$folder/root
mkdir -p "$root" "$folder/memory" "$folder/old"
mount -t tmpfs tmpfs "$folder/memory" || give_up "no tmpfs can be mounted here"
mkdir "$folder/memory/upper" "$folder/memory/work"
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/memory/upper,workdir=$folder/memory/work" "$root" 2>/dev/null ||
    give_up "no overlay of / can be mounted here"

mkdir "$root/old" "$root/new"
for deb in "$debs"/*.deb; do
    case "$deb" in *-dbgsym_*) continue ;; esac
    cp "$deb" "$root/new/"
    dpkg-deb -R "$deb" "$folder/old/files"
    version=$(dpkg-deb -f "$deb" Version)
    sed -i "s/^Version: .*/Version: $version~before/; s/(= $version)/(= $version~before)/g" "$folder/old/files/DEBIAN/control"
    [ ! -f "$folder/old/files/etc/psd/psd.conf" ] || echo '# of the version before' >>"$folder/old/files/etc/psd/psd.conf"
    dpkg-deb -Znone --root-owner-group -b "$folder/old/files" "$root/old/${deb##*/}" >/dev/null
    rm -rf "$folder/old/files"
done
echo "$version~before" >"$root/old/version"
cp "$0" "$root/deb_here.sh"
rm -rf "$root/etc/psd" "$root/var/lib/psd" "$root/usr/sbin/policy-rc.d" "$root"/etc/dpkg/dpkg.cfg.d/*

if [ "$mode" = files ]; then
    mount -t proc proc "$root/proc"
    mount -t tmpfs tmpfs "$root/run"
    mount --rbind /dev "$root/dev"
    exec chroot "$root" /deb_here.sh --inside files
fi

mount -t tmpfs tmpfs /run || give_up "no tmpfs can be mounted on /run"
mkdir -p /run/systemd
rm -f "$root"/etc/machine-id "$root"/etc/systemd/system/*.wants/* "$root"/etc/resolv.conf
cat >"$root/etc/systemd/system/deb-test.service" <<'UNIT'
[Unit]
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/bash -c '/deb_here.sh --inside tasks >/deb-result 2>&1; echo $? >/deb-status; systemctl --force --force poweroff'
UNIT
for unit in systemd-networkd-wait-online systemd-networkd systemd-firstboot NetworkManager-wait-online ifupdown-wait-online; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit.service"
done
mkdir -p "$root/etc/systemd/system/basic.target.wants"
ln -s /etc/systemd/system/deb-test.service "$root/etc/systemd/system/basic.target.wants/"
timeout 400 systemd-nspawn -q -D "$root" --register=no --keep-unit --link-journal=no --private-network --machine="psd-deb-$$" \
    -b systemd.unit=basic.target >"$folder/console" 2>&1 </dev/null || true
[ -e "$root/deb-result" ] || give_up "systemd does not boot in a container here: $(tail -n 1 "$folder/console" | tr -dc '[:print:]')"
cat "$root/deb-result"
exit "$(cat "$root/deb-status" 2>/dev/null || echo 1)"
