#!/bin/sh
# Makes the recordings that no constant of the policy was found on, for `cargo xtask held-out`: held-out.sh FOLDER.
# Needs root, tracefs, `framewright` in the path, 24 GiB of memory, and what the loads say (crates/framewright-lab/loads). It
# takes some 25 minutes. A recording that is there is not made again.
#
# Those whose names begin with `later` have a size and seed that no recording had in view when the policy changed last.
set -u
folder=${1:?held-out.sh FOLDER}
mkdir -p "$folder/state" || exit 1
record() { # record NAME LOAD FREE SEED
    [ -e "$folder/$1.pft.zst" ] && return
    framewright ab plan "$folder/plan-$1" --load "$2" --b vm.defrag_mode=1 --free "$3" --seconds 60 --record 1 --repeat 4 \
        --seed "$4" --buffer 768MiB && framewright ab record "$folder/plan-$1" || exit 1
    made="$folder/plan-$1/recordings"
    mv "$made/state/a-0" "$folder/state/$1"
    for form in linux_ref.csv pfn.zst summary.txt pft.zst; do
        mv "$made/a-0.$form" "$folder/$1.$form"
    done
    rm -rf "$folder/plan-$1"
}
record files-3g files 3GiB 7
record files-6g files 6GiB 8
record database-3g database 3GiB 9
record database-6g database 6GiB 10
record compile-3g compile 3GiB 11
record compile-6g compile 6GiB 12
record huge-3g huge 3GiB 13
record huge-6g huge 6GiB 14
record files-sockets-3g files-sockets 3GiB 15
record files-sockets-6g files-sockets 6GiB 16
record files-sockets-3g-b files-sockets 3GiB 24
record files-sockets-6g-b files-sockets 6GiB 25
record later-files files 4GiB 101
record later-database database 4GiB 102
record later-compile compile 4GiB 103
record later-huge huge 4GiB 104
record later-files-sockets files-sockets 4GiB 105
