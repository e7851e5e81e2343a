#!/bin/sh
# Issues the certificate of one machine, as server and client. The first call creates an internal CA. Needs OpenSSL 3.
#   deploy/certificates.sh FOLDER MACHINE [NAME|ADDRESS]...
# FOLDER/MACHINE gets ca.pem and machine.pem, for /etc/ssl/gatehouse of that machine. FOLDER/ca.key can impersonate all of them:
# keep it off the machines. A second call for a machine renews its certificate, which expires after 397 days.
set -eu
case "${2-}" in
  '' | *[!A-Za-z0-9.-]*)
    echo "Usage: $0 FOLDER MACHINE [NAME|ADDRESS]..." >&2
    exit 64
    ;;
esac
folder=$1 machine=$2
shift 2

names=DNS:$machine
for each; do
  case $each in
    *:*) names=$names,IP:$each ;;
    *[!0-9.]*) names=$names,DNS:$each ;;
    *) names=$names,IP:$each ;;
  esac
done

# The system's openssl.cnf would add extensions.
issue() {
  openssl req -x509 -config /dev/null -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "$@"
}

umask 077
mkdir -p "$folder/$machine"
cd "$folder"
if [ ! -e ca.key ]; then
  issue -keyout ca.key.new -out ca.pem -days 3650 -subj '/CN=gatehouse internal CA' \
    -addext basicConstraints=critical,CA:true,pathlen:0 -addext keyUsage=critical,keyCertSign
  chmod 644 ca.pem
  mv ca.key.new ca.key
fi
# HAProxy, Postgres, Patroni, and etcd read the key and the certificate from one file.
new=$machine/machine.pem.new
issue -CA ca.pem -CAkey ca.key -keyout "$new" -out "$machine/certificate" -days 397 -subj "/CN=$machine" \
  -addext basicConstraints=critical,CA:false -addext keyUsage=critical,digitalSignature \
  -addext extendedKeyUsage=serverAuth,clientAuth -addext "subjectAltName=$names"
cat "$machine/certificate" >>"$new"
rm "$machine/certificate"
mv "$new" "$machine/machine.pem"
cp -p ca.pem "$machine/ca.pem"
chmod 640 "$machine/machine.pem"
