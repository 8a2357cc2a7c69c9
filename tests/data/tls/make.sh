#!/bin/sh
# Makes the certificates here anew. They are for tests on this machine only: the keys are no secret.
set -e
cd "$(dirname "$0")"
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }
authority() {
    key "$1"
    openssl req -x509 -new -key "$1.key" -subj "/CN=endcap test $1" -days 36500 -out "$1.pem"
}
signed() { # NAME EXTENSIONS
    key "$1"
    openssl req -new -key "$1.key" -subj "/CN=endcap test $1" |
        openssl x509 -req -CA ca.pem -CAkey ca.key -days 36500 -extfile extensions.cnf \
            -extensions "$1" -out "$1.pem"
}
printf '%s\n' '[server]' 'subjectAltName = DNS:localhost, IP:127.0.0.1' \
    'authorityKeyIdentifier = keyid' '[client]' 'extendedKeyUsage = clientAuth' \
    'authorityKeyIdentifier = keyid' > extensions.cnf
authority ca
authority stranger
signed server
signed client
rm -f extensions.cnf ca.srl ca.key stranger.key # nothing else is to be signed
