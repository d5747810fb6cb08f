#!/bin/sh
# A tar file of Debian with its Python: the base of the image where no registry is reachable. Root, debootstrap, about a minute.
#   debian_base.sh FOLDER FILE    (FOLDER: new, holds the system meanwhile)
# Package indexes and certificates are those of this machine.
set -eu
debootstrap --variant=minbase --include=ca-certificates,python3-venv,python-is-python3 bookworm "$1"
cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/ca-certificates.crt"
index=$(python3 -m pip config get global.index-url 2>/dev/null || true)
printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n%s\n' "${index:+index-url = $index}" > "$1/etc/pip.conf"
echo cafile=/etc/ssl/certs/ca-certificates.crt > "$1/root/.npmrc"
tar -C "$1" --exclude ./var/cache/apt --exclude ./var/lib/apt/lists --exclude ./usr/share/doc --exclude ./usr/share/man \
  --exclude ./usr/share/locale --exclude ./debootstrap --exclude './proc/*' --exclude './sys/*' --exclude './dev/*' -cf "$2" .
