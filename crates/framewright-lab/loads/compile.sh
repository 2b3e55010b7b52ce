#!/bin/sh
# Compiles with forks. Needs from Debian: gcc, make, python3 (apt-get install gcc libc6-dev make python3).
# compile.sh SEED SECONDS FOLDER MIB: works for SECONDS in FOLDER and prints `work N`, files that it has compiled.
# compile.sh check: says what is missing, and exits with 77 if something is.
set -u
for program in gcc make python3; do
    command -v "$program" > /dev/null 2>&1 || { echo "needs $program: apt-get install gcc libc6-dev make python3"; exit 77; }
done
[ "${1:-}" = check ] && exit 0
seed=$1 seconds=$2 folder=$3 mib=$4
end=$(($(date +%s) + seconds))
mkdir -p "$folder" || exit 1
python3 - "$seed" "$folder" <<'PYTHON' || exit 1
import os, random, sys
random.seed(int(sys.argv[1]))
folder = sys.argv[2]
names = [f"part{n:02}" for n in range(48)]
for name in names:
    lines = ["#include <stdio.h>", "#include <stdlib.h>", "#include <string.h>"]
    for n in range(random.randrange(4, 24)):
        a, b, c = (random.randrange(1, 1 << 16) for _ in range(3))
        lines.append(
            f"int {name}_{n}(int x, char *t) {{ int s = {a}; for (int i = 0; i < x; i++) {{ s = s * {b} + t[i % {c % 61 + 1}]; "
            f"if (s % {c} == 7) printf(\"%d\\n\", s); }} return s; }}"
        )
    with open(os.path.join(folder, name + ".c"), "w") as file:
        file.write("\n".join(lines) + "\n")
with open(os.path.join(folder, "Makefile"), "w") as file:
    objects = " ".join(name + ".o" for name in names)
    # A shell, a compiler, an assembler and a copy for each file.
    file.write(f"all: {objects}\n%.o: %.c\n\tgcc -O1 -g -c $< -o $@\n\t@cp $@ $@.kept\n\t@echo x >> done\n")
PYTHON
# Old objects of several rounds fill memory with files.
rounds=0
while [ "$(date +%s)" -lt "$end" ]; do
    left=$((end - $(date +%s)))
    [ "$left" -gt 0 ] || break
    timeout "$left" make -s -j 6 -C "$folder" all > /dev/null 2>&1
    mkdir -p "$folder/old$((rounds % 20))" && mv "$folder"/*.o "$folder"/*.kept "$folder/old$((rounds % 20))/" 2> /dev/null
    dd if=/dev/zero of="$folder/old$((rounds % 20))/fill" bs=1M count=$((mib / 16)) 2> /dev/null
    rounds=$((rounds + 1))
done
echo "work $(wc -l < "$folder/done")"
