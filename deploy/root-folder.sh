#!/bin/sh
# Makes the root folder of the image. It has the program, its shared libraries, the certificate
# authorities for TLS to the database, and the settings for name lookups.
#
#   deploy/root-folder.sh PROGRAM FOLDER
set -eu

program=$1
folder=$2

mkdir -p "$folder/etc/ssl/certs" "$folder/tmp"
chmod 1777 "$folder/tmp"
cp "$program" "$folder/"

# ldd prints a line with a path for each library, and one for the loader, which is a path itself.
ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$folder$(dirname "$library")"
    cp --dereference "$library" "$folder$library"
done

cp /etc/ssl/certs/ca-certificates.crt "$folder/etc/ssl/certs/"
# glibc uses DNS only if this file says so.
echo 'hosts: files dns' >"$folder/etc/nsswitch.conf"
