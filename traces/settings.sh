#!/bin/sh
# Makes the recording `settings`: settings.sh FOLDER. Half a second in which a program fills sockets, so that the machine's kernel
# is asked for blocks of the orders 0 to 3 by requests that may not wait; with how that kernel was set beside it.
# Needs root, tracefs, python3, and `framewright` in the path. What of a recording no example needs it leaves out: which frames the
# kernel chose, and what /proc says of the end. It tells the size, which must stay below 1 MB.
set -u
folder=${1:?settings.sh FOLDER}
mkdir -p "$folder" || exit 1
cd "$folder" || exit 1

# fill PAIRS: fills that many pairs of sockets, gives every other one back, and does it once more.
fill() {
    nice -n -15 python3 -c '
import socket, sys

held = []
for _ in range(2):
    for _ in range(int(sys.argv[1])):
        pair = socket.socketpair()
        pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 400 << 10)
        pair[0].setblocking(False)
        try:
            while True:
                pair[0].send(b"x" * 65536)
        except BlockingIOError:
            pass
        held.append(pair)
    for pair in held[::2]:
        for end in pair:
            end.close()
    held = held[1::2]
' "$1"
}

if [ "${2:-}" = fill ]; then
    fill 160
    exit
fi
case $0 in /*) me=$0 ;; *) me=$OLDPWD/$0 ;; esac
framewright record -o settings.pft.zst --buffer 128MiB --force -- sh "$me" . fill || exit 1
rm -f settings.pfn.zst state/settings/after.pagetypeinfo state/settings/after.buddyinfo state/settings/after.zoneinfo \
    state/settings/after.meminfo state/settings/after.settings state/settings/before.buddyinfo
# The release alone: what a builder adds to it says nothing of its rules.
sed -i 's/^\(kernel [0-9]*\.[0-9]*\.[0-9]*\).*/\1/; s/^command .*/command settings.sh/' settings.summary.txt
size=$(cat settings.* state/settings/* | wc -c)
echo "settings: $size bytes"
[ "$size" -lt 1000000 ]
