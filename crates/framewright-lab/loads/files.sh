#!/bin/sh
# Copies, greps and archives. Needs from Debian: python3, tar, gzip, grep (apt-get install python3 tar gzip grep).
# files.sh SEED SECONDS FOLDER MIB: works for SECONDS in FOLDER and prints `work N`, rounds that it has done.
# files.sh check: says what is missing, and exits with 77 if something is.
set -u
for program in python3 tar gzip grep cp; do
    command -v "$program" > /dev/null 2>&1 || { echo "needs $program: apt-get install python3 tar gzip grep coreutils"; exit 77; }
done
[ "${1:-}" = check ] && exit 0
seed=$1 seconds=$2 folder=$3 mib=$4
end=$(($(date +%s) + seconds))
mkdir -p "$folder/tree" || exit 1
# A tree of files between 1 KiB and 2 MiB, an eighth of the memory that is free.
python3 - "$seed" "$folder/tree" "$((mib / 8))" <<'PYTHON' || exit 1
import os, random, sys
seed, folder, mib = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
random.seed(seed)
noise = random.randbytes(1 << 20) + b"needle in the hay\n" * 1024
left, number = mib << 20, 0
while left > 0:
    size = min(left, int(1024 * 2 ** random.uniform(0, 11)))
    at = random.randrange(1 << 16)
    with open(os.path.join(folder, f"{number:06}"), "wb") as file:
        while size > 0:
            file.write(noise[at:at + size])
            left -= min(size, len(noise) - at)
            size -= len(noise) - at
            at = 0
    number += 1
PYTHON
rounds=0
while [ "$(date +%s)" -lt "$end" ]; do
    copy="$folder/copy$((rounds % 6))"
    rm -rf "$copy" "$folder/archive$((rounds % 3)).tar"
    left=$((end - $(date +%s)))
    [ "$left" -gt 0 ] || break
    timeout "$left" cp -r "$folder/tree" "$copy"
    timeout "$left" grep -rc needle "$copy" > "$folder/found"
    timeout "$left" tar -cf "$folder/archive$((rounds % 3)).tar" -C "$folder" tree
    timeout 2 gzip -1 < "$folder/archive$((rounds % 3)).tar" > "$folder/packed.gz"
    rounds=$((rounds + 1))
done
echo "work $rounds"
