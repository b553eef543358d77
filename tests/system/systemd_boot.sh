#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# systemd_boot.sh STAGE FOLDER: boot systemd in a container over an overlay of the running system, with what `make install` made,
# and start psd@0. Run by test_systemd.py in a mount namespace of its own; 77: this machine cannot do it.
set -euo pipefail

stage=$1
folder=$2
skip() {
    echo "$*"
    exit 77
}

mount --make-rprivate / || skip "mounts cannot be made here"
root=$folder/root
mkdir -p "$root" "$folder/memory"
mount -t tmpfs tmpfs "$folder/memory" || skip "no tmpfs can be mounted here"
mkdir "$folder/memory/upper" "$folder/memory/work"
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/memory/upper,workdir=$folder/memory/work" "$root" 2>/dev/null ||
    skip "no overlay of / can be mounted here"
mount -t tmpfs tmpfs /run || skip "no tmpfs can be mounted on /run"
mkdir -p /run/systemd

cp -R "$stage/usr/local/." "$root/usr/local/"
rm -f "$root"/etc/machine-id "$root"/etc/systemd/system/*.wants/* "$root"/etc/resolv.conf
cat >"$root/usr/local/bin/psd-test" <<'TEST'
#!/bin/bash
# in the container: start, look, kill, look, stop; a wrong setting; keys that systemd hands over
set -u
{
    mkdir -p /usr/local/etc/default
    echo PSD_FLAGS=--checkpoint_dir=/var/lib/psd >/usr/local/etc/default/psd
    systemctl start psd@0; echo "start $?"
    systemctl show psd@0 -p ActiveState -p StatusText -p User
    ls -ld /run/psd /var/lib/psd/ps-0 | cut -d' ' -f1,3
    before=$(systemctl show psd@0 -p MainPID --value)
    kill -9 "$before"
    while [ "$(systemctl show psd@0 -p NRestarts --value)" != 1 ] || ! systemctl -q is-active psd@0; do
        sleep 0.1
    done
    echo "restarted"
    journalctl -q -u psd@0 -p info -o cat | grep -c ev=listening
    systemctl stop psd@0; echo "stop $?"
    systemctl show psd@0 -p Result
    echo PSD_FLAGS=--lease=never >/usr/local/etc/default/psd
    systemctl start psd@1 2>/dev/null; echo "wrong setting: start $?"
    systemctl show psd@1 -p NRestarts -p ExecMainStatus
    keys=/usr/local/etc/psd/psd.keys # root's alone, handed over as docs/SECURITY.md says
    psctl key new operator --role admin --file "$keys" >/dev/null
    psctl key new ps0 --role ps --file "$keys" >/dev/null
    stat -c '%A %U' "$keys"
    mkdir /etc/systemd/system/psd@.service.d
    printf '[Service]\nLoadCredential=psd.keys:%s\nEnvironment=PSD_KEY_FILE=%%d/psd.keys\n' "$keys" >/etc/systemd/system/psd@.service.d/keys.conf
    rm /usr/local/etc/default/psd
    systemctl daemon-reload
    systemctl start psd@0; echo "with keys: start $?"
    psctl --key_file "$keys" whoami | awk 'END { print $1, $2, $3 }' # the key's id is random
    psctl --key_file '' whoami 2>/dev/null; echo "without a key: $?"
    journalctl -q -u psd@0 -o cat | grep -o 'ev=tls_refused' | head -1
    systemctl restart psd@0; echo "restart $?"
    psctl --key_file "$keys" whoami >/dev/null; echo "whoami $?"
    systemctl stop psd@0
} >/psd-result 2>&1
systemctl --force --force poweroff
TEST
chmod 755 "$root/usr/local/bin/psd-test"
cat >"$root/etc/systemd/system/psd-test.service" <<'UNIT'
[Unit]
After=basic.target systemd-sysusers.service systemd-tmpfiles-setup.service
[Service]
Type=oneshot
ExecStartPre=systemd-sysusers
ExecStartPre=systemd-tmpfiles --create psd.conf
ExecStart=/usr/local/bin/psd-test
UNIT
# there is no network to wait for
for unit in systemd-networkd-wait-online systemd-networkd systemd-firstboot NetworkManager-wait-online ifupdown-wait-online; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit.service"
done
mkdir -p "$root/etc/systemd/system/basic.target.wants"
ln -s /etc/systemd/system/psd-test.service "$root/etc/systemd/system/basic.target.wants/"

timeout 60 systemd-nspawn -q -D "$root" --register=no --keep-unit --link-journal=no --private-network --machine="psd-test-$$" \
    -b systemd.unit=basic.target >"$folder/console" 2>&1 </dev/null || true
if [ ! -e "$root/psd-result" ]; then
    skip "systemd does not boot in a container here: $(tail -n 1 "$folder/console" | tr -dc '[:print:]')"
fi
cat "$root/psd-result"
expected='start 0
ActiveState=active
StatusText=serving /job:ps/task:0 at 127.0.0.1:2222, 0 variables, 0 sessions
User=psd
drwxr-xr-x psd
drwx------ psd
restarted
2
stop 0
Result=success
wrong setting: start 1
NRestarts=0
ExecMainStatus=2
-rw------- root
with keys: start 0
/job:ps/task:0 key:operator admin
without a key: 1
ev=tls_refused
restart 0
whoami 0'
[ "$(sort "$root/psd-result")" = "$(sort <<<"$expected")" ]  # systemctl show has an order of its own
