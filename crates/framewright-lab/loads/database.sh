#!/bin/sh
# A server on local sockets with a database behind it. Needs from Debian: python3 with sqlite3 (apt-get install python3).
# database.sh SEED SECONDS FOLDER MIB: works for SECONDS in FOLDER and prints `work N`, requests that were answered.
# database.sh check: says what is missing, and exits with 77 if something is.
set -u
command -v python3 > /dev/null 2>&1 || { echo "needs python3: apt-get install python3"; exit 77; }
python3 -c 'import sqlite3, socket, threading' 2> /dev/null || { echo "needs python3 with sqlite3: apt-get install python3"; exit 77; }
[ "${1:-}" = check ] && exit 0
exec python3 - "$@" <<'PYTHON'
import os, random, socket, sqlite3, struct, sys, threading, time

seed, seconds, folder, mib = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], int(sys.argv[4])
end = time.monotonic() + seconds
os.makedirs(folder, exist_ok=True)
path = os.path.join(folder, "rows.db")
first = sqlite3.connect(path)
first.execute("pragma journal_mode=wal")
first.execute("create table rows (key integer primary key, value blob)")
first.commit()
writing = threading.Lock()
done = [0] * 16


def take(sock, size):
    parts = []
    while size > 0:
        part = sock.recv(min(size, 1 << 16))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def serve(sock):
    base = sqlite3.connect(path, timeout=30, isolation_level=None)
    base.execute("pragma synchronous=off")
    try:
        while True:
            key, size = struct.unpack("!II", take(sock, 8))
            value = take(sock, size)
            if size:
                with writing:
                    base.execute("insert or replace into rows values (?, ?)", (key, value))
            row = base.execute("select value from rows where key = ?", (key,)).fetchone()
            answer = row[0] if row else b""
            sock.sendall(struct.pack("!I", len(answer)) + answer)
    except (EOFError, OSError, sqlite3.Error):
        sock.close()


def ask(number, address):
    rng = random.Random(seed * 1000 + number)
    noise = rng.randbytes(1 << 17)
    while time.monotonic() < end:
        # A connection lives for some requests: sockets come and go.
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        try:
            with socket.socket(family) as sock:
                sock.settimeout(5)
                sock.connect(address)
                for _ in range(rng.randrange(4, 40)):
                    if time.monotonic() >= end:
                        break
                    size = 0 if rng.random() < 0.4 else int(64 * 2 ** rng.uniform(0, 11))
                    sock.sendall(struct.pack("!II", rng.randrange(1 << 16), size) + noise[:size])
                    take(sock, struct.unpack("!I", take(sock, 4))[0])
                    done[number] += 1
        except (EOFError, OSError):
            pass


def listen(family, address):
    server = socket.socket(family)
    server.bind(address)
    server.listen(64)

    def loop():
        while True:
            sock, _ = server.accept()
            threading.Thread(target=serve, args=(sock,), daemon=True).start()

    threading.Thread(target=loop, daemon=True).start()
    return server.getsockname()


local = listen(socket.AF_UNIX, os.path.join(os.path.relpath(folder), "socket"))
net = listen(socket.AF_INET, ("127.0.0.1", 0))
clients = [threading.Thread(target=ask, args=(n, local if n % 2 else net), daemon=True) for n in range(16)]
for client in clients:
    client.start()
for client in clients:
    client.join(max(0.0, end + 2 - time.monotonic()))
print("work", sum(done), flush=True)
os._exit(0)
PYTHON
