/*
 * Framewright for kernels: page frames, address space, objects and contiguous reservations over memory that the kernel hands
 * in. For 64 bits, with pages of 4096 bytes.
 *
 * Functions that allocate return NULL where they fail, and fwk_last_error() says why. Other functions return FW_OK, or a
 * negative code; fwk_strerror() has a text for each. On every error nothing has changed, unless it says otherwise.
 *
 * Each call names a CPU, in whose seats it works, and at any moment at most one caller names it: so a kernel calls with
 * preemption off, and with interrupts off where its handlers call, too. A handler or callback that calls for a CPU that is
 * inside a call gets FW_EREENTRY. While a CPU is inside, others may wait for it. All CPUs may call at the same time, and
 * one may free what another allocated. fwk_vfree_atomic() names no CPU, so it may come inside any call.
 *
 * Made by cbindgen: changes belong into the sources.
 */

#ifndef FRAMEWRIGHT_KERNEL_H
#define FRAMEWRIGHT_KERNEL_H

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

// The pages may not be written.
#define FWK_READ_ONLY 64

// What is in the pages may be executed.
#define FWK_EXECUTABLE 128

// Caches keep nothing of the pages, but stores may be collected before they go out: the memory of a display. For
// `fwk_map_ram` and `fwk_map_run` alone. A caller that asks for it
// for memory has written back what caches have of it, and reaches it elsewhere no longer.
#define FWK_WRITE_COMBINING 256

// Caches keep nothing of the pages: registers of a device. With it `FWK_WRITE_COMBINING` means nothing; for the rest it is as
// that.
#define FWK_UNCACHED 512

// The metadata hold zeroes, so that `fwk_new` need not write those of pages and objects that are never used.
#define FWK_ZEROED 1

// Freed areas stay mapped for a while, and one of up to 128 pages keeps its frames for the next request of its length,
// which costs nanoseconds. Without it each free of an area unmaps it before it returns.
#define FWK_KEEPS_MAPPED 2

// An area of `fwk_vmalloc`, or a mapped object of `fwk_kvmalloc`.
#define FW_AREA_VMALLOC 1

// An area of `fwk_map_ram`.
#define FW_AREA_MAP_RAM 2

// A get leaves its page in the pool. Without it a get takes its page away: the caller has it then.
#define FW_POOL_KEEPS 1

// Pages may be put that are on no device yet (`fwk_guest_put_dirty`).
#define FW_POOL_DIRTY 2

// A memory: frames, address space and objects of one kernel. C has its handle, which is an address in the metadata.
//
// Functions that take one also return `FW_EHANDLE` for NULL or a memory that has ended, `FW_EINVAL` for a CPU that the
// layout has not, and `FW_EREENTRY`.
struct fwk_memory;

// The frames that a `map` may take for page tables, during its call.
struct fwk_tables;

// What a memory is to be. The caller zeroes it, sets `struct_bytes`, and what it means.
struct fwk_layout {
  // `sizeof (struct fwk_layout)`.
  uint32_t struct_bytes;
  // How many CPUs there are, 1 to 1023: calls name one of 0 to `cpus` - 1.
  //
  // A number stands for seats, and at any moment at most one caller uses it: interrupts off, or one level of them, and
  // no preemption. A kernel whose handlers call lays out twice as many, and handlers on CPU c call as CPU n + c.
  uint32_t cpus;
  // The first frame that may ever be added, by number: its physical address divided by 4096.
  uint64_t first_frame;
  // How many frames there are from it on, holes included. The metadata have about 43 bytes for each, and
  // 17 for each page of the window.
  uint64_t frames;
  // The address of the window in which areas appear: a multiple of 4 MiB, outside of the direct map.
  uint64_t window;
  // The window's length: whole pages, less than 4 TiB.
  uint64_t window_bytes;
  // The first frame of the reserve: 0 frames is none. They may lie among the others, and are not added.
  uint64_t reserve_first;
  // How many frames it has.
  uint64_t reserve_frames;
  // `FWK_ZEROED`, `FWK_KEEPS_MAPPED`, both added, or 0.
  uint64_t flags;
  // How many CPUs, the first ones, have a unit for per-CPU objects: see `fwk_alloc_percpu`. 0 is none.
  uint64_t units;
  // The length of each unit: whole pages, up to 4 GiB. The units are the last bytes of the window. The metadata have
  // 88 bytes for each page of a unit, and 8 for each CPU that has one.
  uint64_t unit_bytes;
};

// What the library asks of the kernel. The caller zeroes it, sets `struct_bytes` and what it means, and may reuse the
// structure after `fwk_new`, which copies it. `map` and `unmap` must be there, others may be NULL.
//
// Each gets `context` as its first argument. A callback runs on the CPU of a call that is inside the library; it may call
// the library for another CPU's number alone (see `fwk_layout`), and must return. Sizes are in bytes, all addresses are of
// pages, and frames go by number.
struct fwk_platform {
  // `sizeof (struct fwk_platform)`.
  uint32_t struct_bytes;
  // Zero.
  uint32_t zero_word;
  // The caller's own, handed to each callback.
  void *context;
  // Where the first byte of frame 0 lies, or would lie: frame n is 4096 n bytes further on, wrapping. All frames that
  // are added can be reached there at any time.
  uint64_t direct_map;
  // Maps `frames` frames from `first` on at `at`, in order, readable. None of the pages is mapped before. `flags` are of
  // `FW_NOWAIT`, `FW_NOIO`, `FW_NOFS`: what it may do meanwhile; and of `FWK_READ_ONLY`, `FWK_EXECUTABLE`,
  // `FWK_WRITE_COMBINING`, `FWK_UNCACHED`: how the pages are mapped. `fwk_take_table` takes frames for page tables from
  // `tables`, during the call alone. Returns 0; or `FW_ENOMEM`, or another negative code, and none of the pages is mapped
  // then.
  int (*map)(void *context, void *at, uint64_t first, uint64_t frames, uint32_t flags, struct fwk_tables *tables);
  // Unmaps all pages of `bytes` bytes from `at` on; some may not be mapped. Returns 0; or a negative code, and each page
  // is as it was. CPUs may still reach the frames until `flush`.
  int (*unmap)(void *context, void *at, size_t bytes);
  // Returns when no CPU has a translation left of what was unmapped before the call. NULL: `unmap` itself sees to that.
  void (*flush)(void *context);
  // Zeroes memory. NULL: the library does.
  void (*zero)(void *context, void *at, size_t bytes);
  // Copies memory that does not overlap. NULL: the library does.
  void (*copy)(void *context, void *to, const void *from, size_t bytes);
  // Called while the library waits for another CPU, with the number of the attempt, from 0. It must answer the
  // interrupts that `flush` and `barrier` send from elsewhere. NULL: a spin hint.
  void (*relax)(void *context, uint32_t attempt);
  // What others wait for in `relax` may be over. NULL: nothing.
  void (*wake)(void *context);
  // Called in long calls, between parts of at most some hundred frames, where the CPU's number is in use but waits for
  // nothing and holds nothing: lets interrupts in, if the caller had them on. Their handlers call as a CPU of another
  // number, which each CPU has for them. NULL: nothing.
  void (*interrupt_window)(void *context);
  // Returns when every CPU that calls the library has executed a full memory barrier since the call. With it, calls do
  // without a barrier of their own, and a stop of all CPUs calls it once. NULL: each call has a barrier.
  void (*barrier)(void *context);
  // Nanoseconds by a clock that never goes back. With it the locks are accounted (`fwk_stats`), which costs two calls of it
  // each time that one is taken. NULL: no accounts.
  uint64_t (*now)(void *context);
  // The library is wrong: it panicked, with `message`, a line that ends with a zero byte. Its seats stay in use, and CPUs
  // may wait for them for ever, so the kernel ends here; if this returns, the CPU spins. NULL: it spins. Of several
  // memories, that made last hears it, whichever panicked.
  void (*panic)(void *context, const char *message);
};

// The counters of a memory. Frames and pages have 4096 bytes. The caller sets `struct_bytes`.
struct fwk_stats {
  // `sizeof (struct fwk_stats)`.
  uint32_t struct_bytes;
  // Zero.
  uint32_t zero;
  // The frames that exist, without the reserve.
  uint64_t frames;
  // Free frames, with those that CPUs have cached. Frames of kept areas and of slabs are not free.
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
  // Pages of areas that are in use, or whose free is deferred, guard pages included.
  uint64_t live_pages;
  // Pages of freed areas that are kept with their frames for the next request.
  uint64_t kept_pages;
  // Freed pages that wait for a flush, or for a purge to unmap them.
  uint64_t lazy_pages;
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
  // Times a lock was taken. Accounted only if the platform has `now`.
  uint64_t lock_acquisitions;
  // Times another CPU held it.
  uint64_t lock_contended;
  // The longest time that one was held, in nanoseconds.
  uint64_t lock_hold_ns_max;
  // Per-CPU objects that there are.
  uint64_t percpu_objects;
  // Pages of a unit with frames behind them: each has a frame for every CPU that has a unit.
  uint64_t percpu_pages;
};

// What `fwk_for_each_area` calls: with its `argument`, an area's address, its length in bytes without the guard page, and
// its kind. It returns 0 to go on.
typedef int (*fwk_each_area)(void *argument, void *area, size_t bytes, int kind);

// What `fwk_guest_clean` calls: with its `argument`, a page's name and its contents, `FW_PAGE_BYTES` bytes, which it only
// reads. It returns 0 if the page is on its device now.
typedef int (*fwk_write_page)(void *argument, uint32_t pool, uint64_t object, uint64_t index, const void *page);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Takes a frame for a page table from the `tables` that a `map` callback was handed, and puts its number into `frame`. Its
// contents are undefined. It is the kernel's from then on, and counts as in use; a `map` that fails after all gives it back.
//
// Cost: that of `fwk_alloc` of one frame.
//
// Errors: `FW_ENOMEM` if there is none within what the caller of the library allows, `FW_EINVAL` for a pointer that is NULL
// or not aligned. Nothing has changed then. `fwk_last_error` stays as it was.
//
// # Safety
// `tables` is what the calling `map` was handed, and it has not returned. `frame` can be written.
int fwk_take_table(struct fwk_tables *tables,
                   uint64_t *frame);

// Gives a frame back that `fwk_take_table` took and that is no page table, from the same `map` or a later one.
//
// Cost: that of `fwk_free` of one frame.
//
// Errors: `FW_EINVAL` if `tables` is NULL, or if the frame is free or none of the memory's. Nothing has changed then.
// `fwk_last_error` stays as it was.
//
// # Safety
// `tables` is what the calling `map` was handed, and it has not returned. Nothing uses the frame.
int fwk_give_table(struct fwk_tables *tables, uint64_t frame);

// The library's version, as "0.2.0". The text is there for ever.
const char *fwk_version(void);

// The text of a code: one line, in English, there for ever. Never NULL.
const char *fwk_strerror(int code);

// The code of the last call for that CPU that failed, whatever it returned; `FW_OK` if none has. A call that succeeds does
// not change it; one of a handler that comes between may.
int fwk_last_error(struct fwk_memory *memory,
                   uint32_t cpu);

// Writes how many bytes of metadata a memory of that layout needs to `bytes`.
//
// Cost: below a microsecond.
//
// Errors: `FW_EINVAL` for a layout that no memory can have, `FW_E2BIG` for one of a later version. `bytes` is unchanged
// then.
//
// # Safety
// Unless they are NULL, `layout` has as many bytes as its first field says, and `bytes` can be written.
int fwk_metadata_bytes(const struct fwk_layout *layout, size_t *bytes);

// Makes a memory in `bytes` bytes of `metadata`, and writes its handle to `memory`. No frame exists in it yet: see
// `fwk_add`. Any number of memories may exist; they know nothing of each other.
//
// Cost: O(metadata), which it writes; with `FWK_ZEROED` most of it is not touched.
//
// Errors: `FW_ENOMEM` if `metadata` is NULL or has too few bytes, `FW_EINVAL` for a layout that no memory can have, such
// as a window in the direct map, and for a platform without `map` or `unmap`, `FW_E2BIG` for structures of a later
// version. `memory` is unchanged then; the metadata may hold anything.
//
// # Safety
// Unless they are NULL, `layout` and `platform` have as many bytes as their first field says, `memory` can be written,
// the metadata hold zeroes if `layout` says so, and the library alone uses them until `fwk_end`. As long, the callbacks
// do what the platform says, and what is added lies in the direct map and is touched only by its owner.
int fwk_new(const struct fwk_layout *layout,
            const struct fwk_platform *platform,
            void *metadata,
            size_t bytes,
            struct fwk_memory **memory);

// Ends a memory: the metadata are the caller's again. It unmaps nothing, and what was allocated stays as it is.
//
// Cost: O(CPUs).
//
// Errors: `FW_EHANDLE`; `FW_EBUSY` if a CPU is inside a call. Nothing has changed then.
//
// # Safety
// No call for this memory is under way on another CPU, and the handle is that of a memory, or was, in metadata that can
// still be read.
int fwk_end(struct fwk_memory *memory);

// Says that `frames` frames from `first` on exist, all of them free: memory found at boot, or plugged in later.
//
// Cost: it stops all CPUs. O(frames).
//
// Errors: `FW_EFOREIGN` outside of the layout, `FW_EINVAL` if some exist already or are the reserve's. Nothing has changed
// then.
int fwk_add(struct fwk_memory *memory,
            uint32_t cpu,
            uint64_t first,
            uint64_t frames);

// Says that `frames` frames from `first` on, all of them free, exist no longer.
//
// Cost: it stops all CPUs. O(frames).
//
// Errors: `FW_EFOREIGN` outside of the layout, `FW_EINVAL` if one is not free. Nothing has changed then.
int fwk_remove(struct fwk_memory *memory, uint32_t cpu, uint64_t first, uint64_t frames);

// Gives back what all CPUs keep for their next requests: lazy and kept areas are unmapped; empty slabs, per-CPU pages
// without objects and cached frames become free. A CPU that is taken down calls it before it calls no more: nothing is held back from the others then.
//
// Cost: it stops all CPUs for O(areas that are kept, and slabs that are empty), with `unmap` and `flush` for what is
// unmapped.
//
// Errors: `FW_EHANDLE`, `FW_EINVAL`, `FW_EREENTRY`.
int fwk_drain(struct fwk_memory *memory,
              uint32_t cpu);

// Checks all invariants of the memory, for tests.
//
// Cost: it stops all CPUs for O(memory).
//
// Errors: `FW_EBROKEN` if one does not hold: metadata were overwritten, or the library is wrong.
int fwk_verify(struct fwk_memory *memory, uint32_t cpu);

// Writes the counters of a memory to `stats`, as many of them as its first field, `struct_bytes`, has room for.
//
// Counters that change meanwhile may be some operations apart. Cost: O(CPUs).
//
// Errors: `FW_EINVAL` for NULL, or if `struct_bytes` was not set to `sizeof (struct fwk_stats)`.
//
// # Safety
// Unless it is NULL, `stats` has as many bytes as its first field says.
int fwk_stats(struct fwk_memory *memory, uint32_t cpu, struct fwk_stats *stats);

// Allocates a block of 2^`order` frames, at a multiple of its length, and writes the number of the first one to `frame`.
// The contents are undefined. `mobility` is one of `FW_UNMOVABLE`, `FW_MOVABLE`, `FW_RECLAIMABLE`, `flags` are of
// `FW_NOWAIT`, `FW_NOIO`, `FW_NOFS`.
//
// Cost: tens of nanoseconds for order 0. Before it fails it stops all CPUs, to collect what they have cached; not with
// `FW_NOWAIT`.
//
// Errors: `FW_ENOMEM`, `FW_EFRAGMENTED`, `FW_EFBIG` above the maximum order (10), `FW_EAGAIN` with `FW_NOWAIT` if other CPUs
// may have a block, `FW_EINVAL`. `frame` is unchanged then.
//
// # Safety
// `frame` can be written.
int fwk_frame_alloc(struct fwk_memory *memory,
                    uint32_t cpu,
                    uint32_t order,
                    int mobility,
                    uint32_t flags,
                    uint64_t *frame);

// Frees the block of 2^`order` frames that begins with `frame`, whichever CPU allocated it.
//
// Cost: tens of nanoseconds.
//
// Errors: `FW_EALREADY`, `FW_ELENGTH` for another order, `FW_EINSIDE`, `FW_EFOREIGN`, `FW_EFBIG`. Nothing has changed then.
// If the block has been allocated again since, with the same order, a second free is that owner's.
int fwk_frame_free(struct fwk_memory *memory,
                   uint32_t cpu,
                   uint64_t frame,
                   uint32_t order);

// Frees the block of 2^`order` frames that begins with `frame`: a whole allocation, or an aligned part of one. With order
// 0 it frees one frame, of whatever allocation; the rest stays allocated.
//
// Cost: as `fwk_frame_free` for a whole allocation; microseconds for a part.
//
// Errors: as `fwk_frame_free`.
int fwk_frame_free_part(struct fwk_memory *memory,
                        uint32_t cpu,
                        uint64_t frame,
                        uint32_t order);

// Makes the block of 2^`order` frames that begins with `frame` into blocks of 2^`into` frames, each of which is freed by
// itself. `into` is at most `order`.
//
// Cost: nanoseconds for each frame.
//
// Errors: as `fwk_frame_free`. Nothing has changed then.
int fwk_frame_split(struct fwk_memory *memory,
                    uint32_t cpu,
                    uint64_t frame,
                    uint32_t order,
                    uint32_t into);

// Allocates `frames` frames side by side, the first at a multiple of `align_frames`, and writes its number to `first`.
// Unlike `fwk_frame_alloc` it serves any length. The contents are undefined. `flags` as there; with `FW_NOWAIT` it looks
// for nothing but a block in which the run fits.
//
// Cost: microseconds, and for what no block can serve a search that stops all CPUs.
//
// Errors: `FW_ENOMEM`, `FW_EFRAGMENTED`, `FW_EFBIG` if no such run exists, `FW_EAGAIN` with `FW_NOWAIT`, `FW_EINVAL`.
// `first` is unchanged then.
//
// # Safety
// `first` can be written.
int fwk_run_alloc(struct fwk_memory *memory,
                  uint32_t cpu,
                  uint64_t frames,
                  uint64_t align_frames,
                  int mobility,
                  uint32_t flags,
                  uint64_t *first);

// Frees `frames` frames from `first` on: what `fwk_run_alloc` gave, or a part of it, or of a block.
//
// Cost: microseconds.
//
// Errors: as `fwk_frame_free`; frames before the one that is refused may be free then.
int fwk_run_free(struct fwk_memory *memory, uint32_t cpu, uint64_t first, uint64_t frames);

// Allocates an area of whole pages with at least `bytes` bytes, at a multiple of `align_bytes`, a power of two, and a page
// behind it that is never mapped. The frames are anywhere, so no contiguous memory is needed. `flags` are of `FW_ZERO`,
// `FW_GUARD_BEFORE` and `FW_HUGE` for the area, and of `FW_NOWAIT`, `FW_NOIO`, `FW_NOFS` for the caller; without `FW_ZERO` the
// contents are undefined. They are also of `FWK_READ_ONLY` and `FWK_EXECUTABLE`, with which `map` is called; without them the area
// is to read and write. `FWK_WRITE_COMBINING` and `FWK_UNCACHED` are refused: its frames lie in the direct map too.
//
// Cost: one `map` for each run of frames; with `FWK_KEEPS_MAPPED` nanoseconds for an area as long as one freed lately. Before
// it fails it stops all CPUs and has all freed areas flushed; not with `FW_NOWAIT`.
//
// Errors: NULL, and `fwk_last_error` is `FW_ENOMEM` (too few frames, or `map` says so), `FW_ENOSPC`, `FW_EFBIG` for more
// than there is, `FW_EHOST` if `map` refuses, `FW_EAGAIN` with `FW_NOWAIT` if waiting might have helped, or `FW_EINVAL`.
void *fwk_vmalloc(struct fwk_memory *memory,
                  uint32_t cpu,
                  size_t bytes,
                  size_t align_bytes,
                  uint32_t flags);

// Frees an area of `fwk_vmalloc`, whichever CPU allocated it. NULL is no area, and no error. Not for handlers: it may unmap,
// flush, and wait for other CPUs. They have `fwk_vfree_atomic`.
//
// Its pages are unmapped when this returns; a CPU may reach their frames by a translation until the next `flush`. With
// `FWK_KEEPS_MAPPED` they may stay mapped for a while.
//
// Cost: `unmap`, and `flush` where too many freed pages wait for one; with `FWK_KEEPS_MAPPED` nanoseconds up to 128 pages,
// unless kept areas become too many.
//
// Errors: `FW_EALREADY`, `FW_EINSIDE`, `FW_EKIND`, `FW_ENOENT`, `FW_EFOREIGN`, `FW_EINVAL` for an address inside a page.
// Nothing has changed then.
int fwk_vfree(struct fwk_memory *memory,
              uint32_t cpu,
              void *area);

// Defers the free of an area of `fwk_vmalloc`, whichever CPU allocated it: for a handler, and for a caller that holds a lock.
// It names no CPU, so it may come inside any call, of this CPU too: from a handler that interrupted it, or from a callback.
// NULL is no area, and no error.
//
// The area keeps its pages, frames and mapping until `fwk_free_deferred` frees it. A drain begins with that, and so does a
// request for an area or an object that may wait, before it fails. A request for frames does not, and fails while deferred
// areas have them: so `fwk_free_deferred` should come soon. Meanwhile the area is no longer the caller's, and each other free
// of it is refused. `fwk_for_each_area` leaves it out.
//
// Cost: nanoseconds. It takes no lock, waits for no CPU and calls no callback.
//
// Errors: as `fwk_vfree`, and `FW_EHANDLE`. Nothing has changed then. The code is all there is: `fwk_last_error` of each CPU
// stays as it was, whatever this returns.
int fwk_vfree_atomic(struct fwk_memory *memory,
                     void *area);

// Frees the areas whose free any CPU has deferred (`fwk_vfree_atomic`), each as `fwk_vfree` does. `freed`, unless it is
// NULL, gets how many there were. A kernel has a thread of its own call it, now and then. Not for handlers, as `fwk_vfree`.
//
// Cost: one read if there are none; else that of `fwk_vfree` for each.
//
// Errors: `FW_EINVAL` for a `freed` that is not aligned. Nothing has changed then.
//
// # Safety
// Unless it is NULL, `freed` can be written.
int fwk_free_deferred(struct fwk_memory *memory,
                      uint32_t cpu,
                      uint64_t *freed);

// Maps `count` frames of the caller's, in that order, at addresses that follow one another. Frames may come twice, and may
// be of the reserve, or of no memory at all if `map` can map them. `flags` are of `FW_NOWAIT`, `FW_NOIO`, `FW_NOFS`, and
// of `FWK_READ_ONLY`, `FWK_EXECUTABLE`, `FWK_WRITE_COMBINING`, `FWK_UNCACHED`, with which `map` is called. Before a caller maps
// memory with one of the last two, it writes back what caches have of it, and it reaches it elsewhere no longer.
//
// The library does not know whose frames they are: the caller frees them only after `fwk_unmap_ram`.
//
// Cost: up to 64 frames nanoseconds, and one `map` for each run of frames that follow one another.
//
// Errors: NULL, and `fwk_last_error` is `FW_ENOSPC`, `FW_ENOMEM` or `FW_EHOST` if `map` refuses, `FW_EAGAIN` with
// `FW_NOWAIT`, or `FW_EINVAL`. Nothing is mapped then.
//
// # Safety
// `frames` has `count` numbers, which do not change during the call.
void *fwk_map_ram(struct fwk_memory *memory,
                  uint32_t cpu,
                  const uint64_t *frames,
                  size_t count,
                  uint32_t flags);

// Maps `count` frames from `first` on, which the library need not manage: a device's, with `FWK_UNCACHED`. `flags` are as of
// `fwk_map_ram`, and `fwk_unmap_ram` unmaps them.
//
// Cost: one `map`.
//
// Errors: as `fwk_map_ram`, and `FW_EINVAL` for frames past the highest number. Nothing is mapped then.
void *fwk_map_run(struct fwk_memory *memory,
                  uint32_t cpu,
                  uint64_t first,
                  uint64_t count,
                  uint32_t flags);

// Unmaps all that one call of `fwk_map_ram` or `fwk_map_run` mapped: `count` frames. The frames stay the caller's. NULL is no area, and no
// error. Not for handlers, as `fwk_vfree`.
//
// Cost: as `fwk_vfree` of a long area; with `FWK_KEEPS_MAPPED` nanoseconds, and the pages are unmapped later, many at a
// time.
//
// Errors: `FW_EALREADY`, `FW_ELENGTH`, `FW_EKIND`, `FW_EINSIDE`, `FW_ENOENT`, `FW_EFOREIGN`, `FW_EINVAL` for an address
// inside a page. Nothing has changed then.
int fwk_unmap_ram(struct fwk_memory *memory,
                  uint32_t cpu,
                  void *area,
                  size_t count);

// Calls `each` for every area that is in use, by address, until it returns something else than 0.
//
// `each` must return. A call for the same CPU from there gets `FW_EREENTRY`. Areas that other CPUs make or free meanwhile
// come, or do not.
//
// Cost: O(areas).
//
// Errors: `FW_EINVAL` if `each` is NULL. What `each` returned last is no error, and is not passed on.
//
// # Safety
// `each` can be called with `argument`.
int fwk_for_each_area(struct fwk_memory *memory,
                      uint32_t cpu,
                      fwk_each_area each,
                      void *argument);

// Allocates an object of `bytes` bytes, contiguous in the direct map, at a multiple of `align_bytes`, a power of two; in
// any case aligned to 16 bytes, and where `bytes` is a power of two, to that length or a page. `flags` are of `FW_ZERO`,
// `FW_NOWAIT`, `FW_NOIO`, `FW_NOFS`; without `FW_ZERO` the contents are undefined.
//
// Cost: up to 2048 bytes mostly nanoseconds; above, a block of frames. Before it fails it stops all CPUs, to collect what
// they have cached; not with `FW_NOWAIT`.
//
// Errors: NULL, and `fwk_last_error` is `FW_ENOMEM`, `FW_EFRAGMENTED`, `FW_EFBIG` for more than a block of frames has
// (4 MiB), `FW_EAGAIN` with `FW_NOWAIT` if waiting might have helped, or `FW_EINVAL`.
void *fwk_kmalloc(struct fwk_memory *memory,
                  uint32_t cpu,
                  size_t bytes,
                  size_t align_bytes,
                  uint32_t flags);

// Frees an object that is contiguous: of `fwk_kmalloc`, whichever CPU allocated it. NULL is no object, and no error.
//
// Cost: nanoseconds. It waits only for a CPU that has stopped this one, so handlers may call it.
//
// Errors: `FW_EALREADY`, `FW_EINSIDE`, `FW_ENOENT`, `FW_EFOREIGN`, `FW_EKIND` for mapped pages (`fwk_kvfree` frees those).
// Nothing has changed then. If the memory has been handed out again since, a second free is that owner's.
int fwk_kfree(struct fwk_memory *memory,
              uint32_t cpu,
              void *object);

// Allocates an object of `bytes` bytes: contiguous if such memory is free at once, else of mapped pages. Alignment and
// `flags` as for `fwk_kmalloc`.
//
// Cost: as `fwk_kmalloc` where it is contiguous, else as `fwk_vmalloc`.
//
// Errors: NULL, and `fwk_last_error` is as for `fwk_kmalloc` or `fwk_vmalloc`.
void *fwk_kvmalloc(struct fwk_memory *memory, uint32_t cpu, size_t bytes, size_t align_bytes, uint32_t flags);

// Changes the length of an object to `bytes`, and returns where it is now; the bytes that both lengths have are kept. What is
// behind is zero if the object's first request and all its changes had `FW_ZERO`, else undefined. NULL as `object` makes a
// new one.
//
// It stays where it is if it fits there, unless it has four times what it needs. `flags` as for `fwk_kmalloc`.
//
// Cost: nanoseconds in place; else that of `fwk_kvmalloc`, and a copy.
//
// Errors: NULL, and the object is as it was: as `fwk_kvmalloc`, and as `fwk_kvfree` for the address; `FW_EKIND` for an area of
// `fwk_vmalloc` with flags of an access. 0 bytes are `FW_EINVAL`, and free nothing.
void *fwk_kvrealloc(struct fwk_memory *memory,
                    uint32_t cpu,
                    void *object,
                    size_t bytes,
                    uint32_t flags);

// Frees an object of either kind, whichever CPU allocated it. NULL is no object, and no error. Not for handlers where the
// object may be of mapped pages, as `fwk_vfree`.
//
// Cost: as `fwk_kfree` or `fwk_vfree`.
//
// Errors: `FW_EALREADY`, `FW_EINSIDE`, `FW_ENOENT`, `FW_EFOREIGN`, `FW_EKIND` for an area of `fwk_map_ram`. Nothing has
// changed then.
int fwk_kvfree(struct fwk_memory *memory,
               uint32_t cpu,
               void *object);

// Writes how many bytes an object of either kind has room for to `bytes`: at least as many as were asked for.
//
// Cost: nanoseconds.
//
// Errors: as `fwk_kvfree`. `bytes` is unchanged then.
//
// # Safety
// `bytes` can be written.
int fwk_kvsize(struct fwk_memory *memory, uint32_t cpu, void *object, size_t *bytes);

// Allocates an object of `bytes` bytes for each CPU that has a unit, each copy at a multiple of `align_bytes`, a power of
// two up to a page, and full of zeroes. Returns the address of CPU 0's copy: CPU c's lies c times the layout's
// `unit_bytes` behind it. `flags` are of `FW_ZERO`, which changes nothing, `FW_NOWAIT`, `FW_NOIO`, `FW_NOFS`.
//
// An object of at most 2048 bytes shares a page with others, so mostly this takes no frame; a longer one has whole pages.
// Cost: O(bytes of all copies), and a lock that each CPU holds for a bounded number of steps; for a page a frame and a
// `map` for each CPU.
//
// Errors: NULL, and `fwk_last_error` is `FW_ENOMEM`, what `map` refused with, `FW_ENOSPC` if the units are full,
// `FW_EFBIG` for more than a unit or an alignment above a page, `FW_EAGAIN` with `FW_NOWAIT` if waiting might have helped, or `FW_EINVAL`.
void *fwk_alloc_percpu(struct fwk_memory *memory,
                       uint32_t cpu,
                       size_t bytes,
                       size_t align_bytes,
                       uint32_t flags);

// Frees such an object, all its copies, whichever CPU allocated it. NULL is no object, and no error.
//
// Cost: nanoseconds mostly; a page without an object is unmapped for each CPU, and the CPUs flush once, but for four that
// stay for the next object.
//
// Errors: `FW_EALREADY`, `FW_EINSIDE`, `FW_ENOENT`, `FW_EFOREIGN`. Nothing has changed then.
int fwk_free_percpu(struct fwk_memory *memory,
                    uint32_t cpu,
                    void *object);

// Sets `frames` contiguous frames of the reserve aside, the first at a multiple of `align_frames`, a power of two. Writes
// the reservation's number to `id`: not 0.
//
// From now on `fwk_reserve_take` gets it without fail. `name` is for messages; its first sixteen bytes are kept.
//
// Cost: O(frames of the reserve) at worst, microseconds mostly.
//
// Errors: `FW_ENOSPC` if no such run is left, or 64 reservations exist; `FW_ENODEV` without a reserve; `FW_EINVAL`. `id` is
// unchanged then.
//
// # Safety
// `name` ends with a zero byte, and `id` can be written.
int fwk_reserve_set_aside(struct fwk_memory *memory,
                          uint32_t cpu,
                          const char *name,
                          uint64_t frames,
                          uint64_t align_frames,
                          uint64_t *id);

// Takes a reservation, and writes the number of its first frame to `first`: from there on all of it is contiguous. The
// contents are undefined.
//
// Cost: about 1 ns a page. It waits for no input or output, but for other owners, and for each CPU's copy of one page.
//
// Errors: `FW_EBUSY` if it is taken already, `FW_ENOENT` if there is no such reservation, `FW_ENODEV`. `first` is unchanged
// then.
//
// # Safety
// `first` can be written.
int fwk_reserve_take(struct fwk_memory *memory,
                     uint32_t cpu,
                     uint64_t id,
                     uint64_t *first);

// Gives the frames of a reservation back, which stays set aside: it can be taken again.
//
// Cost: O(frames), about 1 ns each.
//
// Errors: `FW_EALREADY` if it is not taken, `FW_ENOENT` if there is no such reservation, `FW_ENODEV`. Nothing has changed
// then.
int fwk_reserve_release(struct fwk_memory *memory,
                        uint32_t cpu,
                        uint64_t id);

// Gives a reservation up: its frames are for others again.
//
// Cost: O(frames), below 1 ns each.
//
// Errors: `FW_EBUSY` if it is taken, `FW_ENOENT` if there is no such reservation, `FW_ENODEV`. Nothing has changed then.
int fwk_reserve_give_up(struct fwk_memory *memory,
                        uint32_t cpu,
                        uint64_t id);

// Takes `frames` contiguous frames of the reserve that no reservation has, the first at a multiple of `align_frames`, and
// writes its number to `first`. The contents are undefined.
//
// Cost: a search of nanoseconds for each 64 frames, and about 1 ns a page.
//
// Errors: `FW_ENOSPC`, `FW_EAGAIN` while another owner clears what would do, `FW_ENODEV` without a reserve, `FW_EINVAL`.
// `first` is unchanged then.
//
// # Safety
// `first` can be written.
int fwk_reserve_alloc(struct fwk_memory *memory,
                      uint32_t cpu,
                      uint64_t frames,
                      uint64_t align_frames,
                      uint64_t *first);

// Gives frames of `fwk_reserve_alloc` back, all of them or a part: `frames` from `first` on.
//
// Cost: O(frames), about 1 ns each.
//
// Errors: `FW_EALREADY` if not all of them are owned, or they are part of a reservation; `FW_ENODEV` without a reserve,
// `FW_EINVAL`. Nothing has changed then.
int fwk_reserve_free(struct fwk_memory *memory, uint32_t cpu, uint64_t first, uint64_t frames);

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
int fwk_pool_open(struct fwk_memory *memory,
                  uint32_t cpu,
                  uint32_t flags,
                  uint64_t dirty_pages_max,
                  uint32_t *pool);

// Closes a pool: all of its pages are gone, those that are on no device too.
//
// Cost: nanoseconds.
//
// Errors: `FW_ENOENT` if there is no such pool, `FW_ENODEV` without a reserve.
int fwk_pool_close(struct fwk_memory *memory, uint32_t cpu, uint32_t pool);

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
int fwk_guest_put(struct fwk_memory *memory,
                  uint32_t cpu,
                  uint32_t pool,
                  uint64_t object,
                  uint64_t index,
                  const void *page);

// As `fwk_guest_put`, for a page that is on no device yet: it stays until the caller drops it, or has written it
// (`fwk_guest_clean`). No owner gets its frame before.
//
// Errors: as `fwk_guest_put`; `FW_ENOSPC` also where the pool has as many such pages as it may, `FW_ENOENT` also where it
// was opened for none.
//
// # Safety
// As there.
int fwk_guest_put_dirty(struct fwk_memory *memory,
                        uint32_t cpu,
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
int fwk_guest_get(struct fwk_memory *memory, uint32_t cpu, uint32_t pool, uint64_t object, uint64_t index, void *page);

// Drops a page: no later get finds what was put before. A page that is not there is no error.
//
// Cost: below a microsecond.
//
// Errors: `FW_ENODEV` without a reserve, `FW_ENOENT` for a number that no pool can have.
int fwk_guest_drop(struct fwk_memory *memory, uint32_t cpu, uint32_t pool, uint64_t object, uint64_t index);

// Drops all pages of an object.
//
// Cost: nanoseconds; O(frames of the reserve) where the pool was opened with `FW_POOL_DIRTY`.
//
// Errors: as `fwk_guest_drop`.
int fwk_guest_drop_object(struct fwk_memory *memory, uint32_t cpu, uint32_t pool, uint64_t object);

// Has up to `pages` pages written that are on no device yet: calls `write` for each. Afterwards they may vanish as any
// other page. `written`, unless it is NULL, gets how many were.
//
// `write` must return. A call for the same CPU from there gets `FW_EREENTRY`.
//
// Cost: O(frames of the reserve / 64), and that of `write`.
//
// Errors: `FW_EINVAL` if `write` is NULL, `FW_ENODEV` without a reserve. What `write` returned is no error.
//
// # Safety
// `write` can be called with `argument`. Unless it is NULL, `written` can be written.
int fwk_guest_clean(struct fwk_memory *memory,
                    uint32_t cpu,
                    uint64_t pages,
                    fwk_write_page write,
                    void *argument,
                    uint64_t *written);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FRAMEWRIGHT_KERNEL_H */
