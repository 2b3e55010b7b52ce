#!/bin/sh
# A memory hog that asks for huge pages, and files beside it. Needs from Debian: python3 (apt-get install python3).
# huge.sh SEED SECONDS FOLDER MIB: works for SECONDS in FOLDER and prints `work N`, regions that it has filled.
# huge.sh check: says what is missing, and exits with 77 if something is.
set -u
command -v python3 > /dev/null 2>&1 || { echo "needs python3: apt-get install python3"; exit 77; }
python3 -c 'import mmap; mmap.MADV_HUGEPAGE' 2> /dev/null || { echo "needs python3 of 3.8 or later with MADV_HUGEPAGE"; exit 77; }
[ "${1:-}" = check ] && exit 0
exec python3 - "$@" <<'PYTHON'
import mmap, os, random, sys, time

seed, seconds, folder, mib = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], int(sys.argv[4])
end = time.monotonic() + seconds
os.makedirs(folder, exist_ok=True)
rng = random.Random(seed)
regions, held, most, filled, number = [], 0, mib * 5 // 8, 0, 0
noise = rng.randbytes(1 << 16)
while time.monotonic() < end:
    size = rng.choice([4, 8, 16, 32, 64])
    region = mmap.mmap(-1, size << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    region.madvise(mmap.MADV_HUGEPAGE)
    for at in range(0, size << 20, 4096):
        region[at] = 1
    regions.append((region, size))
    held += size
    filled += 1
    # A child copies some of it when it writes, and the files are small ones among the huge pages.
    if filled % 4 == 0:
        child = os.fork()
        if child == 0:
            for at in range(0, size << 20, 64 << 10):
                region[at] = 2
            os._exit(0)
        os.waitpid(child, 0)
    for _ in range(32):
        with open(os.path.join(folder, f"f{number % 6000}"), "wb") as file:
            file.write(noise[: rng.randrange(1, 1 << 16)] * rng.randrange(1, 8))
        number += 1
    while held > most:
        region, size = regions.pop(rng.randrange(len(regions)))
        region.close()
        held -= size
print("work", filled, flush=True)
os._exit(0)
PYTHON
