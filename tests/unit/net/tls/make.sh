#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make.sh FOLDER makes the certificates of test_tls_cert.c and test_tls_traps.c. They are good for 100 years; the tests have a clock
# of their own, which stands in 2030. One private key serves all of them. openssl.cnf sets what psd must not take over from a machine.
set -euo pipefail
mkdir -p "$1"
cd "$1"
work=$(mktemp -d)
umask 077
trap 'rm -rf "$work"' EXIT

authority() { # NAME
    openssl ecparam -name prime256v1 -genkey -noout -out "$work/$1.key"
    openssl req -x509 -new -key "$work/$1.key" -subj "/CN=$1" -days 36500 -sha256 -out "$1.pem" \
        -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign 2>/dev/null
}
serial=4096
leaf() { # FILE AUTHORITY SAN [EKU]
    serial=$((serial + 1))
    cat >"$work/ext" <<TXT
basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature
extendedKeyUsage=${4-serverAuth,clientAuth}
subjectAltName=$3
TXT
    openssl req -new -key leaf.key -subj "/CN=$1" -out "$work/req"
    openssl x509 -req -in "$work/req" -CA "$2.pem" -CAkey "$work/$2.key" -set_serial "$serial" -days 36000 -sha256 \
        -extfile "$work/ext" -out "$1.pem" 2>/dev/null
}

cat >openssl.cnf <<TXT
openssl_conf = a
[a]
ssl_conf = b
[b]
system_default = c
[c]
MinProtocol = TLSv1
MaxProtocol = TLSv1.2
Ciphersuites = TLS_AES_256_GCM_SHA384
Groups = P-521
Options = AllowNoDHEKEX,MiddleboxCompat,KTLS
TXT

authority authority
authority other_authority
openssl ecparam -name prime256v1 -genkey -noout -out leaf.key
leaf ps0 authority URI:psd://psd/ps/0
leaf ps1 authority URI:psd://psd/ps/1
leaf worker0 authority URI:psd://psd/worker/0
leaf ann authority URI:psd://psd/user/ann
leaf foreign other_authority URI:psd://psd/ps/0
leaf elsewhere authority URI:psd://elsewhere/ps/0
leaf two_uris authority URI:psd://psd/ps/0,URI:psd://psd/worker/0
leaf no_uri authority DNS:ps0.example,URI:https://example/ps/0
leaf bad_form authority URI:psd://psd/ps/00
leaf server_only authority URI:psd://psd/worker/0 serverAuth
# psd://psd/ps/0 NUL /evil: SEQUENCE { [6] "..." }
leaf nul authority "DER:30:16:86:14:$(printf 'psd://psd/ps/0\0/evil' | od -An -tx1 | tr -s ' \n' ':' | sed 's/^://;s/:$//')"
