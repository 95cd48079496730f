#!/bin/sh
# Makes the folder that a program sees as the whole file system: itself, the shared libraries it is linked with, the
# certificate authorities to know a database by, and how names are looked up.
#
#   deploy/root-folder.sh PROGRAM FOLDER
set -eu

program=$1
folder=$2

mkdir -p "$folder/etc/ssl/certs" "$folder/tmp"
chmod 1777 "$folder/tmp"
cp "$program" "$folder/"

# ldd has a line for each library with where it was found, and one for the loader, which is its own path.
ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$folder$(dirname "$library")"
    cp --dereference "$library" "$folder$library"
done

cp /etc/ssl/certs/ca-certificates.crt "$folder/etc/ssl/certs/"
# glibc asks the network for names only where it is told to.
echo 'hosts: files dns' >"$folder/etc/nsswitch.conf"
