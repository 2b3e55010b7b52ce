"""The shared library as Python's ctypes sees it: python3 smoke.py LIBRARY."""

import ctypes
import sys
import threading

fw = ctypes.CDLL(sys.argv[1])


class Options(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", ctypes.c_uint32),
        ("threads", ctypes.c_uint32),
        ("memory_bytes", ctypes.c_uint64),
        ("window_bytes", ctypes.c_uint64),
        ("reserve_bytes", ctypes.c_uint64),
        ("mappings_max", ctypes.c_uint64),
        ("keeps_mapped", ctypes.c_uint64),
    ]


fw.fw_version.restype = ctypes.c_char_p
fw.fw_strerror.restype = ctypes.c_char_p
fw.fw_options_init.argtypes = [ctypes.POINTER(Options), ctypes.c_size_t]
fw.fw_host_new.argtypes = [ctypes.POINTER(Options), ctypes.POINTER(ctypes.c_void_p)]
for name in ("fw_host_free", "fw_drain", "fw_verify"):
    getattr(fw, name).argtypes = [ctypes.c_void_p]
for name in ("fw_vmalloc", "fw_kmalloc", "fw_kvzalloc"):
    getattr(fw, name).argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    getattr(fw, name).restype = ctypes.c_void_p
for name in ("fw_kmalloc_with", "fw_vmalloc_with"):
    getattr(fw, name).argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_uint32]
    getattr(fw, name).restype = ctypes.c_void_p
for name in ("fw_vfree", "fw_kfree", "fw_kvfree"):
    getattr(fw, name).argtypes = [ctypes.c_void_p, ctypes.c_void_p]

EALREADY, EINVAL = -114, -22
ZERO, NOWAIT = 1, 2

options = Options()
assert fw.fw_options_init(options, ctypes.sizeof(options)) == 0
options.memory_bytes = 32 << 20
host = ctypes.c_void_p()
assert fw.fw_host_new(options, host) == 0 and host.value

area = fw.fw_vmalloc(host, 100_000)
assert area
ctypes.memset(area, 65, 100_000)
assert ctypes.string_at(area, 100_000) == b"A" * 100_000
assert fw.fw_vfree(host, area) == 0
assert fw.fw_vfree(host, area) == EALREADY
assert b"free already" in fw.fw_strerror(fw.fw_last_error())
for function in (fw.fw_kmalloc_with, fw.fw_vmalloc_with):
    memory = function(host, 5000, 4096, ZERO | NOWAIT)
    assert memory % 4096 == 0 and ctypes.string_at(memory, 5000) == bytes(5000)
    assert function(host, 1, 1, 1 << 20) is None and fw.fw_last_error() == EINVAL
    assert fw.fw_kvfree(host, memory) == 0
assert fw.fw_kmalloc(host, 0) is None and fw.fw_last_error() == EINVAL


def work():
    for turn in range(1, 500):
        small, large = fw.fw_kmalloc(host, turn), fw.fw_kvzalloc(host, turn * 97)
        assert small and large
        assert ctypes.string_at(large, turn * 97) == bytes(turn * 97)
        ctypes.memset(small, turn % 256, turn)
        assert fw.fw_kfree(host, small) == 0 and fw.fw_kvfree(host, large) == 0
    done.append(True)


done = []
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(done) == 4
assert fw.fw_drain(host) == 0 and fw.fw_verify(host) == 0
assert fw.fw_host_free(host) == 0
print("framewright", fw.fw_version().decode())
