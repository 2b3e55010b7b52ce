#!/bin/sh
# The loads files.sh and database.sh at once. Needs what they need.
# files-sockets.sh SEED SECONDS FOLDER MIB: prints `work N`, rounds of files.sh.
# files-sockets.sh check: says what is missing, and exits with 77 if something is.
set -u
here=$(dirname "$0")
if [ "${1:-}" = check ]; then
    sh "$here/files.sh" check && sh "$here/database.sh" check
    exit
fi
sh "$here/database.sh" "$1" "$2" "$3/database" "$4" > /dev/null &
sh "$here/files.sh" "$1" "$2" "$3/files" "$4"
wait
