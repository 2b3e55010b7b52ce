/*
 * Framewright: page frames, address space, objects and contiguous reservations in the memory of one process.
 *
 * Functions that allocate return NULL where they fail, and fw_last_error() says why. Other functions return FW_OK, or a
 * negative code. fw_strerror() has a text for each code, fw_last_message() the numbers. Each function that takes a host can
 * also return FW_EHANDLE, FW_EFORKED, FW_EPANIC and FW_EREENTRY; on every error nothing has changed, unless it says
 * otherwise.
 *
 * All functions may be called by all threads, and one thread may free what another allocated. They are not for signal
 * handlers: one that interrupts a call gets FW_EREENTRY. No thread may leave a call by longjmp or asynchronous cancellation.
 *
 * Made by cbindgen: changes belong into the sources.
 */

#ifndef FRAMEWRIGHT_H
#define FRAMEWRIGHT_H

#include <stddef.h>
#include <stdint.h>

// The call did what it says.
#define FW_OK 0

// No such object, area or reservation (ENOENT).
#define FW_ENOENT -2

// The operating system refused memory, address space or a file (EIO).
#define FW_EHOST -5

// The structure has fields that this library does not know, and they are not zero (E2BIG).
#define FW_E2BIG -7

// The handle names no host: it was freed, or never was one (EBADF).
#define FW_EHANDLE -9

// The host is the parent's: this process was forked off from it (ECHILD).
#define FW_EFORKED -10

// It is not there at once, or others are in the way: asking again may help (EAGAIN).
#define FW_EAGAIN -11

// Fewer frames are free than asked for (ENOMEM).
#define FW_ENOMEM -12

// The address or the frame is none of this host's (EFAULT).
#define FW_EFOREIGN -14

// The reservation is taken (EBUSY).
#define FW_EBUSY -16

// The host has no reserve (ENODEV).
#define FW_ENODEV -19

// An argument is wrong, whatever the state of the host: a null pointer, no bytes, an alignment that is no power of two
// (EINVAL).
#define FW_EINVAL -22

// More than the host can ever give (EFBIG).
#define FW_EFBIG -27

// No gap of address space, no room in the reserve, or no room for one more host or reservation (ENOSPC).
#define FW_ENOSPC -28

// The thread is inside a call already: a signal handler or a callback called (EDEADLK).
#define FW_EREENTRY -35

// The machine lacks something that a host needs, as membarrier(2) (ENOSYS).
#define FW_ENOSYS -38

// The invariants of the host do not hold: memory was overwritten, or the library is wrong (EUCLEAN).
#define FW_EBROKEN -117

// What starts there is free already: a double free (EALREADY).
#define FW_EALREADY -114

// The library is wrong: it panicked, and the host cannot be used any longer (ENOTRECOVERABLE).
#define FW_EPANIC -131

// Enough frames are free, but not that many side by side.
#define FW_EFRAGMENTED -1001

// The operating system allows no more mappings (vm.max_map_count).
#define FW_EMAPPINGS -1002

// The address is inside an object or an area that starts elsewhere.
#define FW_EINSIDE -1003

// Another function made it, and that one's counterpart frees it.
#define FW_EKIND -1004

// It has another length, or another order, than the caller says.
#define FW_ELENGTH -1005

// Bytes in a page, and in a frame.
#define FW_PAGE_BYTES 4096

// The contents stay where they are until their owner frees them.
#define FW_UNMOVABLE 0

// The contents can be copied elsewhere. It groups such frames together; nothing moves them by itself.
#define FW_MOVABLE 1

// The contents stay where they are, but the owner could give them up.
#define FW_RECLAIMABLE 2

// All bytes of what is allocated are zero.
#define FW_ZERO 1

// The caller must not wait: the call stops no CPU and no thread, unmaps and flushes nothing, and so does not get what
// others have cached. It fails with `FW_EAGAIN` if waiting might have helped. For handlers, and under locks that spin.
#define FW_NOWAIT 2

// The call must start no input or output. Says so to those that it asks for memory.
#define FW_NOIO 4

// The call must enter no file system. Says so to those that it asks for memory.
#define FW_NOFS 8

// Of an area: a page before it, too, is never mapped. For a stack, which grows down.
#define FW_GUARD_BEFORE 16

// Of an area of 2 MiB or more: it begins at a multiple of 2 MiB where a gap allows that at once, so that large entries of
// page tables are possible. In a crowded window that costs address space. A shorter area is as without it.
#define FW_HUGE 32

// An area of `fw_vmalloc` and its kin, or a mapped object of `fw_kvmalloc`.
#define FW_AREA_VMALLOC 1

// An area of `fw_map_ram`.
#define FW_AREA_MAP_RAM 2

// A get leaves its page in the pool. Without it a get takes its page away: the caller has it then.
#define FW_POOL_KEEPS 1

// Pages may be put that are on no device yet (`fw_guest_put_dirty`).
#define FW_POOL_DIRTY 2

// A host: memory, and the address space in which it appears. C has only its handle, which is a number and no address.
struct fw_host;

// What a host is to be. `fw_options_init` sets all fields; a caller changes those that it means.
struct fw_options {
  // The length of this structure in the caller's header, in bytes.
  uint32_t struct_bytes;
  // How many threads have a seat of their own at a time, 1 to 1022. Further threads share one, behind a lock.
  // Default: 63.
  uint32_t threads;
  // Memory for frames, areas and objects, in bytes: whole pages, and more of them than threads. It costs nothing until
  // it is touched. Default: 256 MiB.
  uint64_t memory_bytes;
  // Address space for areas, in bytes: whole pages, less than 4 TiB. 0, the default, is four times the memory, and at
  // least 256 MiB.
  uint64_t window_bytes;
  // The reserve behind that memory, in bytes: whole pages. 0, the default, is no reserve.
  uint64_t reserve_bytes;
  // The most mappings of the operating system's for the window. 0, the default, is as many as vm.max_map_count leaves.
  uint64_t mappings_max;
  // 0, the default: each free of an area unmaps it before it returns, as Linux's `vfree`. 1: freed areas stay mapped for
  // a while, and one of up to 128 pages keeps its frames for the next request of its length, which costs nanoseconds.
  uint64_t keeps_mapped;
};

// The counters of a host. Frames and pages have 4096 bytes. The caller sets `struct_bytes`.
struct fw_stats {
  // The length of this structure in the caller's header, in bytes.
  uint32_t struct_bytes;
  // Zero.
  uint32_t zero;
  // The frames of the memory, without the reserve.
  uint64_t frames;
  // Free frames, with those that threads have cached. Frames of kept areas and of slabs are not free.
  uint64_t free_frames;
  // Frames handed out so far.
  uint64_t frame_allocs;
  // Frames given back so far.
  uint64_t frame_frees;
  // Requests for frames that failed: too few free, or not side by side.
  uint64_t frame_failures;
  // Areas handed out so far.
  uint64_t area_allocs;
  // Areas given back so far.
  uint64_t area_frees;
  // Requests for areas that failed for want of address space.
  uint64_t area_failures;
  // Pages of areas that are in use, guard pages included.
  uint64_t live_pages;
  // Pages of freed areas that are kept with their frames for the next request.
  uint64_t kept_pages;
  // Freed pages that wait for a flush, or for a purge to unmap them.
  uint64_t lazy_pages;
  // Mappings of the operating system's that the window has, at most.
  uint64_t mappings;
  // Objects handed out so far, of all kinds.
  uint64_t object_allocs;
  // Objects given back so far.
  uint64_t object_frees;
  // Objects that became mapped pages because no contiguous block was free.
  uint64_t spills;
  // Frames in slabs.
  uint64_t slab_frames;
  // Frees of frames and objects that were refused.
  uint64_t bad_frees;
  // The frames of the reserve.
  uint64_t reserve_frames;
  // Those of them that owners have.
  uint64_t reserve_owned;
  // Those of them that reservations have set aside, owned or not.
  uint64_t reserve_set_aside;
  // How many threads can have a seat of their own.
  uint64_t threads_max;
  // How many threads have one.
  uint64_t threads;
  // Calls that worked in the shared seat.
  uint64_t shared_calls;
};

// What `fw_for_each_area` calls: with its `argument`, an area's address, its length in bytes without the guard page, and
// its kind. It returns 0 to go on.
typedef int (*fw_each_area)(void *argument, void *area, size_t bytes, int kind);

// What `fw_guest_clean` calls: with its `argument`, a page's name and its contents, `FW_PAGE_BYTES` bytes, which it only
// reads. It returns 0 if the page is on its device now.
typedef int (*fw_write_page)(void *argument, uint32_t pool, uint64_t object, uint64_t index, const void *page);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The library's version, as "0.2.0". The text is there for ever.
const char *fw_version(void);

// The code of the calling thread's last call that failed, whatever it returned; `FW_OK` if none has. A call that
// succeeds does not change it.
int fw_last_error(void);

// Copies the message of the calling thread's last call that failed: a line with the numbers that the code does not have.
//
// It writes at most `bytes` bytes to `into`, a zero byte at the end included, and cuts what is longer; `into` may be
// NULL. Returns the length of the whole message, without the zero byte: at most 200.
//
// # Safety
// Unless it is NULL, `into` has room for `bytes` bytes.
size_t fw_last_message(char *into,
                       size_t bytes);

// The text of a code: one line, in English, there for ever. Never NULL.
const char *fw_strerror(int code);

// Sets all fields of `options` to their defaults, and its first one to `struct_bytes`, which is
// `sizeof (struct fw_options)`: so a program and a library of different versions understand each other.
//
// Cost: nanoseconds.
//
// Errors: `FW_EINVAL` for NULL, or a length that no version has.
//
// # Safety
// Unless it is NULL, `options` has room for `struct_bytes` bytes.
int fw_options_init(struct fw_options *options, size_t struct_bytes);

// Makes a host, all of whose memory is free, and writes its handle to `host`. There may be 255 at a time; they know
// nothing of each other. `options` may be NULL, for the defaults.
//
// It belongs to this process: in a child after fork(2) its calls return `FW_EFORKED`, and a child that touches its memory
// ends by SIGSEGV.
//
// Cost: milliseconds: system calls, and O(pages) of memory, most of which is not touched.
//
// Errors: `FW_EINVAL` for options that no host can have, `FW_E2BIG` for options of a later version, `FW_ENOMEM` or
// `FW_EHOST` for what the operating system refuses, `FW_ENOSYS` where there is no membarrier(2), `FW_ENOSPC` for one host
// too many. Nothing is left behind then.
//
// # Safety
// Unless it is NULL, `options` has as many bytes as its first field says. `host` can be written.
int fw_host_new(const struct fw_options *options,
                struct fw_host **host);

// Ends a host, and gives all its memory back, whatever is still allocated in it: the caller must not touch that any
// longer. NULL is no host, and no error.
//
// It waits for calls of other threads that are inside the host; those that come later get `FW_EHANDLE`.
//
// Cost: O(threads), and system calls that give back what was touched.
//
// Errors: `FW_EHANDLE`, `FW_EFORKED`, `FW_EPANIC`, `FW_EREENTRY`. Nothing has changed then.
int fw_host_free(struct fw_host *host);

// Gives back what all threads keep for their next requests: lazy and kept areas are unmapped, empty slabs and cached
// frames become free.
//
// For a program that runs idle, or looks for leaks. Cost: it stops the calls of all threads for O(areas that are kept, and
// slabs that are empty), with system calls for what is unmapped.
//
// Errors: `FW_EHANDLE`, `FW_EFORKED`, `FW_EPANIC`, `FW_EREENTRY`.
int fw_drain(struct fw_host *host);

// Checks all invariants of the host, for tests.
//
// Cost: it stops the calls of all threads for O(memory).
//
// Errors: `FW_EBROKEN`, and the message says which invariant does not hold, and where.
int fw_verify(struct fw_host *host);

// Writes the counters of a host to `stats`, as many of them as its first field, `struct_bytes`, has room for.
//
// Counters that change meanwhile may be some operations apart. Cost: O(threads).
//
// Errors: `FW_EINVAL` for NULL, or if `struct_bytes` was not set to `sizeof (struct fw_stats)`.
//
// # Safety
// Unless it is NULL, `stats` has as many bytes as its first field says.
int fw_stats(struct fw_host *host, struct fw_stats *stats);

// Allocates a block of 2^`order` frames, at a multiple of its length, and writes the number of the first one to `frame`.
// The contents are undefined. `mobility` is one of `FW_UNMOVABLE`, `FW_MOVABLE`, `FW_RECLAIMABLE`.
//
// Cost: tens of nanoseconds for order 0. Before it fails it stops the calls of all threads, to collect what they have
// cached.
//
// Errors: `FW_ENOMEM`, `FW_EFRAGMENTED`, `FW_EFBIG` above the maximum order (10), `FW_EINVAL`. `frame` is unchanged then.
//
// # Safety
// `frame` can be written.
int fw_frame_alloc(struct fw_host *host,
                   uint32_t order,
                   int mobility,
                   uint64_t *frame);

// As `fw_frame_alloc`, by a caller that may do less while it waits: `flags` are of `FW_NOWAIT`, `FW_NOIO`, `FW_NOFS`.
//
// Errors: as `fw_frame_alloc`; `FW_EAGAIN` with `FW_NOWAIT` if others may have a block cached, or another thread is in
// the shared seat.
//
// # Safety
// `frame` can be written.
int fw_frame_alloc_with(struct fw_host *host, uint32_t order, int mobility, uint32_t flags, uint64_t *frame);

// Frees the block of 2^`order` frames that begins with `frame`, from whichever thread.
//
// Cost: tens of nanoseconds.
//
// Errors: `FW_EALREADY`, `FW_ELENGTH` for another order, `FW_EINSIDE`, `FW_EFOREIGN`. Nothing has changed then. If the
// block has been allocated again since, with the same order, a second free is that owner's.
int fw_frame_free(struct fw_host *host, uint64_t frame, uint32_t order);

// Frees the block of 2^`order` frames that begins with `frame`: a whole allocation, or an aligned part of one. With order
// 0 it frees one frame, of whatever allocation; the rest stays allocated.
//
// Cost: as `fw_frame_free` for a whole allocation; microseconds for a part.
//
// Errors: as `fw_frame_free`.
int fw_frame_free_part(struct fw_host *host,
                       uint64_t frame,
                       uint32_t order);

// Makes the block of 2^`order` frames that begins with `frame` into blocks of 2^`into` frames, each of which is freed by
// itself. `into` is at most `order`.
//
// Cost: nanoseconds for each frame.
//
// Errors: as `fw_frame_free`. Nothing has changed then.
int fw_frame_split(struct fw_host *host,
                   uint64_t frame,
                   uint32_t order,
                   uint32_t into);

// Allocates `frames` frames side by side, the first at a multiple of `align_frames`, and writes its number to `first`.
// Unlike `fw_frame_alloc` it serves any length. The contents are undefined.
//
// Cost: microseconds, and for what no block can serve a search that stops the calls of all threads.
//
// Errors: `FW_ENOMEM`, `FW_EFRAGMENTED`, `FW_EFBIG` if no such run exists, `FW_EINVAL`. `first` is unchanged then.
//
// # Safety
// `first` can be written.
int fw_run_alloc(struct fw_host *host, uint64_t frames, uint64_t align_frames, int mobility, uint64_t *first);

// As `fw_run_alloc`, by a caller that may do less while it waits: `flags` as for `fw_frame_alloc_with`. With `FW_NOWAIT`
// it looks for nothing but a block in which the run fits.
//
// Errors: as `fw_run_alloc`, and `FW_EAGAIN` as for `fw_frame_alloc_with`.
//
// # Safety
// `first` can be written.
int fw_run_alloc_with(struct fw_host *host,
                      uint64_t frames,
                      uint64_t align_frames,
                      int mobility,
                      uint32_t flags,
                      uint64_t *first);

// Frees `frames` frames from `first` on: what `fw_run_alloc` gave, or a part of it.
//
// Cost: microseconds.
//
// Errors: as `fw_frame_free`; frames before the one that is refused may be free then, and the message says which one it
// was.
int fw_run_free(struct fw_host *host, uint64_t first, uint64_t frames);

// The address at which the contents of a frame, allocated or not, always are: frames side by side are side by side there.
// Only the owner of a frame may touch them.
//
// Cost: nanoseconds.
//
// Errors: NULL with `FW_EFOREIGN` if the host has no such frame.
void *fw_frame_address(struct fw_host *host,
                       uint64_t frame);

// Writes the number of the frame behind an address to `frame`: of `fw_frame_address`, or of an area that is mapped.
//
// Cost: nanoseconds.
//
// Errors: `FW_EFOREIGN` if no frame of the host's is there now. `frame` is unchanged then.
//
// # Safety
// `frame` can be written.
int fw_frame_of(struct fw_host *host, const void *at, uint64_t *frame);

// Allocates an area of whole pages with at least `bytes` bytes, and a page behind it that is never mapped. The frames are
// anywhere, so no contiguous memory is needed. The contents are undefined.
//
// Cost: system calls, one for each run of frames; where freed areas are kept (`keeps_mapped`), nanoseconds for one of
// the same length. Before it fails, it has all kept areas of all threads unmapped.
//
// Errors: NULL, and `fw_last_error` is `FW_ENOMEM`, `FW_ENOSPC`, `FW_EMAPPINGS`, `FW_EFBIG` for more than there is, or
// `FW_EINVAL` for 0 bytes.
void *fw_vmalloc(struct fw_host *host,
                 size_t bytes);

// As `fw_vmalloc`, at a multiple of `align_bytes`: a power of two.
//
// Errors: as `fw_vmalloc`; `FW_EINVAL` for an alignment that is no power of two.
void *fw_vmalloc_aligned(struct fw_host *host, size_t bytes, size_t align_bytes);

// As `fw_vmalloc`, and all bytes of the pages are zero.
//
// Cost: that of `fw_vmalloc`, and a pass over the bytes.
//
// Errors: as `fw_vmalloc`.
void *fw_vzalloc(struct fw_host *host, size_t bytes);

// As `fw_vmalloc_aligned`, with `flags` of `FW_ZERO`, `FW_GUARD_BEFORE` and `FW_HUGE` for the area, and of `FW_NOWAIT`,
// `FW_NOIO`, `FW_NOFS` for a caller that may do less while it waits. With `FW_NOWAIT` it may still make the system calls that
// map.
//
// Errors: as `fw_vmalloc_aligned`; `FW_EAGAIN` with `FW_NOWAIT` if others may have what it needs, or another thread is in
// the shared seat.
void *fw_vmalloc_with(struct fw_host *host,
                      size_t bytes,
                      size_t align_bytes,
                      uint32_t flags);

// Frees an area of `fw_vmalloc`, `fw_vmalloc_aligned` or `fw_vzalloc`, from whichever thread. NULL is no area, and no
// error.
//
// Its pages are unmapped when this returns: what is touched there later faults. With `keeps_mapped` they may stay mapped
// for a while: then no fault tells.
//
// Cost: system calls; with `keeps_mapped` nanoseconds up to 128 pages, unless kept areas become too many.
//
// Errors: `FW_EALREADY`, `FW_EINSIDE`, `FW_EKIND`, `FW_ENOENT`, `FW_EFOREIGN`, `FW_EINVAL` for an address inside a page.
// Nothing has changed then.
int fw_vfree(struct fw_host *host,
             void *area);

// Maps `count` frames of the caller's, in that order, at addresses that follow one another. Frames may come twice, and may
// be of the reserve. No contiguous memory is needed, and nothing is copied.
//
// The host does not know whose frames they are: the caller frees them only after `fw_unmap_ram`.
//
// Cost: up to 64 frames nanoseconds, and one system call for each run of frames that follow one another.
//
// Errors: NULL, and `fw_last_error` is `FW_ENOSPC`, `FW_EMAPPINGS`, `FW_EFOREIGN` for a frame that the host does not have,
// or `FW_EINVAL`. Nothing is mapped then.
//
// # Safety
// `frames` has `count` numbers, which do not change during the call.
void *fw_map_ram(struct fw_host *host,
                 const uint64_t *frames,
                 size_t count);

// As `fw_map_ram`, by a caller that may do less while it waits: `flags` are of `FW_NOWAIT`, `FW_NOIO`, `FW_NOFS`. With
// `FW_NOWAIT` it may still make the system calls that map, and frames that do not follow one another may be refused.
//
// Errors: as `fw_map_ram`; `FW_EAGAIN` with `FW_NOWAIT` if waiting might have helped, or another thread is in the shared seat.
//
// # Safety
// As there.
void *fw_map_ram_with(struct fw_host *host,
                      const uint64_t *frames,
                      size_t count,
                      uint32_t flags);

// Unmaps all that one call of `fw_map_ram` mapped: `count` frames. The frames stay the caller's. NULL is no area, and no
// error.
//
// Cost: a system call; with `keeps_mapped` nanoseconds, and the pages are unmapped later, many at a time.
//
// Errors: `FW_EALREADY`, `FW_ELENGTH`, `FW_EKIND`, `FW_EINSIDE`, `FW_ENOENT`, `FW_EFOREIGN`, `FW_EINVAL` for an address
// inside a page. Nothing has changed then.
int fw_unmap_ram(struct fw_host *host,
                 void *area,
                 size_t count);

// Calls `each` for every area that is in use, by address, until it returns something else than 0.
//
// `each` must return: no exception and no longjmp may leave it. The library is busy meanwhile, so it must not call it: it
// would get `FW_EREENTRY`. Areas that other threads make or free meanwhile come, or do not.
//
// Cost: O(areas).
//
// Errors: `FW_EINVAL` if `each` is NULL. What `each` returned last is no error, and is not passed on.
//
// # Safety
// `each` can be called with `argument`.
int fw_for_each_area(struct fw_host *host,
                     fw_each_area each,
                     void *argument);

// Allocates an object of `bytes` bytes, contiguous in memory, aligned to 16 bytes; where `bytes` is a power of two, to
// that length or a page. The contents are undefined.
//
// Cost: up to 2048 bytes mostly nanoseconds; above, a block of frames. Before it fails it stops the calls of all threads,
// to collect what they have cached.
//
// Errors: NULL, and `fw_last_error` is `FW_ENOMEM`, `FW_EFRAGMENTED`, `FW_EFBIG` for more than a block of frames has
// (4 MiB), or `FW_EINVAL` for 0 bytes.
void *fw_kmalloc(struct fw_host *host,
                 size_t bytes);

// As `fw_kmalloc`, and all bytes are zero.
//
// Errors: as `fw_kmalloc`.
void *fw_kzalloc(struct fw_host *host, size_t bytes);

// As `fw_kmalloc`, at a multiple of `align_bytes`, a power of two, and by a caller that may do less while it waits:
// `flags` are of `FW_ZERO`, `FW_NOWAIT`, `FW_NOIO`, `FW_NOFS`. With `FW_NOWAIT` it stops no thread before it fails.
//
// Errors: as `fw_kmalloc`; `FW_EFBIG` for an alignment that no block has; `FW_EAGAIN` with `FW_NOWAIT` if others may have
// what it needs, or another thread is in the shared seat.
void *fw_kmalloc_with(struct fw_host *host,
                      size_t bytes,
                      size_t align_bytes,
                      uint32_t flags);

// Frees an object that is contiguous: of `fw_kmalloc` or `fw_kzalloc`, from whichever thread. NULL is no object, and no
// error.
//
// Cost: nanoseconds.
//
// Errors: `FW_EALREADY`, `FW_EINSIDE`, `FW_ENOENT`, `FW_EFOREIGN`, `FW_EKIND` for mapped pages (`fw_kvfree` frees those).
// Nothing has changed then. If the memory has been handed out again since, a second free is that owner's.
int fw_kfree(struct fw_host *host,
             void *object);

// Allocates an object of `bytes` bytes: contiguous if such memory is free at once, else of mapped pages. The contents are
// undefined.
//
// Cost: as `fw_kmalloc` where it is contiguous, else as `fw_vmalloc`.
//
// Errors: NULL, and `fw_last_error` is `FW_ENOMEM`, `FW_ENOSPC`, `FW_EMAPPINGS`, `FW_EFBIG`, or `FW_EINVAL` for 0 bytes.
void *fw_kvmalloc(struct fw_host *host,
                  size_t bytes);

// As `fw_kvmalloc`, and all bytes are zero.
//
// Errors: as `fw_kvmalloc`.
void *fw_kvzalloc(struct fw_host *host, size_t bytes);

// As `fw_kvmalloc`, at a multiple of `align_bytes`, a power of two, and by a caller that may do less while it waits:
// `flags` as for `fw_kmalloc_with`.
//
// Errors: as `fw_kvmalloc`; `FW_EAGAIN` with `FW_NOWAIT` if others may have what it needs, or another thread is in the
// shared seat.
void *fw_kvmalloc_with(struct fw_host *host, size_t bytes, size_t align_bytes, uint32_t flags);

// Changes the length of an object to `bytes`, and returns where it is now; the bytes that both lengths have are kept, and
// what is behind is undefined. NULL as `object` makes a new one.
//
// It stays where it is if it fits there, unless it has four times what it needs.
//
// Cost: nanoseconds in place; else that of `fw_kvmalloc`, and a copy.
//
// Errors: NULL, and the object is as it was: as `fw_kvmalloc`, and as `fw_kvfree` for the address. 0 bytes are
// `FW_EINVAL`, and free nothing.
void *fw_kvrealloc(struct fw_host *host,
                   void *object,
                   size_t bytes);

// Frees an object of either kind: of `fw_kvmalloc`, `fw_kvzalloc`, `fw_kvrealloc`, `fw_kmalloc`, from whichever thread.
// NULL is no object, and no error.
//
// Cost: as `fw_kfree` or `fw_vfree`.
//
// Errors: `FW_EALREADY`, `FW_EINSIDE`, `FW_ENOENT`, `FW_EFOREIGN`, `FW_EKIND` for an area of `fw_map_ram`. Nothing has
// changed then.
int fw_kvfree(struct fw_host *host, void *object);

// Writes how many bytes an object of either kind has room for to `bytes`: at least as many as were asked for.
//
// Cost: nanoseconds.
//
// Errors: as `fw_kvfree`. `bytes` is unchanged then.
//
// # Safety
// `bytes` can be written.
int fw_kvsize(struct fw_host *host, void *object, size_t *bytes);

// Sets contiguous memory of the reserve aside: at least `bytes` bytes of whole pages, at a multiple of `align_bytes` both
// as frames and as an address of the direct map up to a page. Writes the reservation's number to `id`.
//
// From now on `fw_reserve_take` gets it without fail. `name` is for messages; its first sixteen bytes are kept.
//
// Cost: O(frames of the reserve) at worst, microseconds mostly.
//
// Errors: `FW_ENOSPC` if no such run is left, or 64 reservations exist; `FW_ENODEV` without a reserve; `FW_EINVAL`. `id` is
// unchanged then.
//
// # Safety
// `name` ends with a zero byte, and `id` can be written.
int fw_reserve_set_aside(struct fw_host *host,
                         const char *name,
                         size_t bytes,
                         size_t align_bytes,
                         uint64_t *id);

// Takes a reservation: returns its first byte, from which on all of it is contiguous. `frame`, unless it is NULL, gets the
// number of its first frame, as for `fw_map_ram`. The contents are undefined.
//
// Cost: about 1 ns a page. It waits for no input or output.
//
// Errors: NULL, and `fw_last_error` is `FW_EBUSY` if it is taken already, or `FW_ENOENT` if there is no such reservation.
//
// # Safety
// Unless it is NULL, `frame` can be written.
void *fw_reserve_take(struct fw_host *host,
                      uint64_t id,
                      uint64_t *frame);

// Gives the memory of a reservation back, which stays set aside: it can be taken again.
//
// Cost: O(frames), about 1 ns each.
//
// Errors: `FW_EALREADY` if it is not taken, `FW_ENOENT` if there is no such reservation. Nothing has changed then.
int fw_reserve_release(struct fw_host *host, uint64_t id);

// Gives a reservation up: its memory is for others again.
//
// Cost: O(frames), below 1 ns each.
//
// Errors: `FW_EBUSY` if it is taken, `FW_ENOENT` if there is no such reservation. Nothing has changed then.
int fw_reserve_give_up(struct fw_host *host, uint64_t id);

// Takes contiguous memory of the reserve that no reservation has: at least `bytes` bytes of whole pages, the first frame
// at a multiple of `align_bytes`. Returns its first byte; `frame`, unless it is NULL, gets the number of its first frame.
// The contents are undefined.
//
// Cost: a search of nanoseconds for each 64 frames, and about 1 ns a page.
//
// Errors: NULL, and `fw_last_error` is `FW_ENOSPC`, `FW_ENODEV` without a reserve, or `FW_EINVAL`.
//
// # Safety
// Unless it is NULL, `frame` can be written.
void *fw_reserve_alloc(struct fw_host *host,
                       size_t bytes,
                       size_t align_bytes,
                       uint64_t *frame);

// Gives memory of `fw_reserve_alloc` back, all of it or a part: the pages of `bytes` bytes from `memory` on. NULL is no
// memory, and no error.
//
// Cost: O(frames), about 1 ns each.
//
// Errors: `FW_EALREADY` if not all of it is owned, or it is part of a reservation; `FW_EFOREIGN` if it is not in the
// reserve; `FW_EINVAL` for an address inside a page. Nothing has changed then.
int fw_reserve_free(struct fw_host *host, void *memory, size_t bytes);

// Opens a pool of pages in the reserve, and writes its number to `pool`. A page of it is named by an object and an index,
// such as a file and a place in it; guests lose clean pages when an owner takes their frames.
//
// `flags` are of `FW_POOL_KEEPS` and `FW_POOL_DIRTY`. At most `dirty_pages_max` pages are on no device yet.
//
// Cost: microseconds; it takes the lock of the reserve's owners.
//
// Errors: `FW_ENODEV` without a reserve, `FW_ENOSPC` if there are 256 pools of the kind already, `FW_EINVAL`. `pool` is
// unchanged then.
//
// # Safety
// `pool` can be written.
int fw_pool_open(struct fw_host *host,
                 uint32_t flags,
                 uint64_t dirty_pages_max,
                 uint32_t *pool);

// Closes a pool: all of its pages are gone, those that are on no device too.
//
// Cost: nanoseconds.
//
// Errors: `FW_ENOENT` if there is no such pool, `FW_ENODEV` without a reserve.
int fw_pool_close(struct fw_host *host, uint32_t pool);

// Puts a copy of a page, `FW_PAGE_BYTES` bytes, into a pool. It may vanish at any time later, so it is a copy of what the
// caller can get again. If it is refused, the pool has no version of the page, an earlier one neither.
//
// Calls for the same page do not overlap: the caller sees to it.
//
// Cost: below a microsecond, most of it the copy. It never waits for memory.
//
// Errors: `FW_ENOSPC` if owners have the frames, `FW_EAGAIN` if the page, its object or its pool was put or dropped
// meanwhile, `FW_ENOENT` if there is no such pool, `FW_ENODEV` without a reserve, `FW_EINVAL` for a page that is not
// aligned to 8 bytes.
//
// # Safety
// `page` can be read, and does not change during the call.
int fw_guest_put(struct fw_host *host,
                 uint32_t pool,
                 uint64_t object,
                 uint64_t index,
                 const void *page);

// As `fw_guest_put`, for a page that is on no device yet: it stays until the caller drops it, or has written it
// (`fw_guest_clean`). No owner gets its frame before.
//
// Errors: as `fw_guest_put`; `FW_ENOSPC` also where the pool has as many such pages as it may, `FW_ENOENT` also where it
// was opened for none.
//
// # Safety
// As there.
int fw_guest_put_dirty(struct fw_host *host,
                       uint32_t pool,
                       uint64_t object,
                       uint64_t index,
                       const void *page);

// Copies a page of a pool to `page`, `FW_PAGE_BYTES` bytes. What it writes is whole, and of one put: the last one.
//
// Cost: below a microsecond, most of it the copy.
//
// Errors: `FW_ENOENT` if the page is not there, any longer or at all; what `page` holds is undefined then. `FW_ENODEV`
// without a reserve, `FW_EINVAL` for a page that is not aligned to 8 bytes.
//
// # Safety
// `page` can be written.
int fw_guest_get(struct fw_host *host, uint32_t pool, uint64_t object, uint64_t index, void *page);

// Drops a page: no later get finds what was put before. A page that is not there is no error.
//
// Cost: below a microsecond.
//
// Errors: `FW_ENODEV` without a reserve, `FW_ENOENT` for a number that no pool can have.
int fw_guest_drop(struct fw_host *host, uint32_t pool, uint64_t object, uint64_t index);

// Drops all pages of an object.
//
// Cost: nanoseconds; O(frames of the reserve) where the pool was opened with `FW_POOL_DIRTY`.
//
// Errors: as `fw_guest_drop`.
int fw_guest_drop_object(struct fw_host *host, uint32_t pool, uint64_t object);

// Has up to `pages` pages written that are on no device yet: calls `write` for each. Afterwards they may vanish as any
// other page. `written`, unless it is NULL, gets how many were.
//
// `write` must return, and must not call the library: it would get `FW_EREENTRY`.
//
// Cost: O(frames of the reserve / 64), and that of `write`.
//
// Errors: `FW_EINVAL` if `write` is NULL, `FW_ENODEV` without a reserve. What `write` returned is no error.
//
// # Safety
// `write` can be called with `argument`. Unless it is NULL, `written` can be written.
int fw_guest_clean(struct fw_host *host, uint64_t pages, fw_write_page write, void *argument, uint64_t *written);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FRAMEWRIGHT_H */
