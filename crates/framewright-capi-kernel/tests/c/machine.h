// A machine in a process: RAM as a memory file with a direct map, a window in which its frames are mapped, CPUs by number.
// Its page tables take frames from the library, as CPU n + c.
#ifndef MACHINE_H
#define MACHINE_H

#define _GNU_SOURCE
#include "framewright_kernel.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// GCC has a macro for the thread sanitizer, clang a feature.
#if defined(__SANITIZE_THREAD__)
#define HAS_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_THREAD_SANITIZER
#endif
#endif

#ifdef HAS_THREAD_SANITIZER
void __tsan_acquire(void *at);
void __tsan_release(void *at);
#else
#define __tsan_acquire(at) ((void)(at))
#define __tsan_release(at) ((void)(at))
#endif

enum { GRAIN = 16 }; // each object begins at a multiple of it, and none shares one

// The library is not built with the thread sanitizer, so that does not see how the free of some memory orders what comes
// before it before the next allocation of that memory, and an unmap before the next map. These two say so, of that memory
// alone. What was freed as one object comes back inside others, so each grain has a key, its address; for all grains of a
// page at a time the page has one, which is no grain's.
static inline void *page_key(uintptr_t page)
{
    return (void *)(page + 1);
}

static inline void frees(const void *at, size_t bytes)
{
    uintptr_t part = (uintptr_t)at, end = part + bytes;
    while (part < end) {
        size_t step = part % FW_PAGE_BYTES == 0 && end - part >= FW_PAGE_BYTES ? FW_PAGE_BYTES : GRAIN;
        __tsan_release(step == GRAIN ? (void *)part : page_key(part));
        part += step;
    }
}

static inline void allocated(const void *at, size_t bytes)
{
    uintptr_t part = (uintptr_t)at, end = part + bytes;
    for (uintptr_t page = part & ~(uintptr_t)(FW_PAGE_BYTES - 1); page < end; page += FW_PAGE_BYTES)
        __tsan_acquire(page_key(page));
    for (; part < end; part += GRAIN)
        __tsan_acquire((void *)part);
}

// Counts, and orders nothing: the sanitizer must not take two counted calls for ordered ones.
#define COUNT(counter) ((void)atomic_fetch_add_explicit(&(counter), 1, memory_order_relaxed))

#define FIRST_FRAME ((uint64_t)0x100)
enum { CPUS = 4, TABLE_PAGES = 64, WINDOW_BYTES = 64 << 20, UNIT_BYTES = 1 << 20, SPAN = 4 << 20 };

struct machine {
    struct fwk_layout layout;
    struct fwk_platform platform;
    struct fwk_memory *memory;
    void *metadata;
    size_t metadata_bytes;
    int file;
    unsigned char *direct, *window;
    _Atomic(uint64_t) tables[WINDOW_BYTES / FW_PAGE_BYTES / TABLE_PAGES]; // each with the frame that it was made of
    atomic_ulong maps, unmaps, flushes, barriers, relaxes, wakes, zeroes, copies, table_frames;
    atomic_int map_answer, unmap_answer, last_flags;
    void (*in_map)(struct machine *);
    void (*in_window)(struct machine *);
};

// The CPU as which the calling thread runs.
static _Thread_local uint32_t cpu;

#define FAIL(...)                                                                                                      \
    do {                                                                                                               \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                                                \
        fprintf(stderr, __VA_ARGS__);                                                                                  \
        fputc('\n', stderr);                                                                                           \
        abort();                                                                                                       \
    } while (0)

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what))                                                                                                   \
            FAIL("not so: %s", #what);                                                                                 \
    } while (0)

// The call returns that code.
#define RETURNS(code, call)                                                                                            \
    do {                                                                                                               \
        int returned = (call);                                                                                         \
        if (returned != (code))                                                                                        \
            FAIL("%s returned %d (%s), expected %s", #call, returned, fwk_strerror(returned), #code);                  \
    } while (0)

#define OK(call) RETURNS(FW_OK, call)

// The call returns NULL, with that code as the CPU's last error.
#define REFUSES(code, memory, call)                                                                                    \
    do {                                                                                                               \
        void *returned = (call);                                                                                       \
        int last = fwk_last_error(memory, cpu);                                                                        \
        if (returned != NULL || last != (code))                                                                        \
            FAIL("%s returned %p and %d, expected NULL and %s", #call, returned, last, #code);                         \
    } while (0)

static int machine_map(void *context, void *at, uint64_t first, uint64_t frames, uint32_t flags,
                       struct fwk_tables *tables)
{
    struct machine *machine = context;
    allocated(at, frames * FW_PAGE_BYTES);
    COUNT(machine->maps);
    atomic_store_explicit(&machine->last_flags, (int)flags, memory_order_relaxed);
    if (machine->in_map != NULL)
        machine->in_map(machine);
    if (machine->map_answer != 0)
        return machine->map_answer;
    // A page table for each group of this many pages, made when one of them is mapped first, and kept.
    size_t page = (size_t)((unsigned char *)at - machine->window) / FW_PAGE_BYTES;
    for (size_t nth = page / TABLE_PAGES; nth <= (page + frames - 1) / TABLE_PAGES; nth++) {
        uint64_t table = 0, none = 0;
        if (atomic_load_explicit(&machine->tables[nth], memory_order_relaxed) != 0)
            continue;
        if (fwk_take_table(tables, &table) != FW_OK)
            return FW_ENOMEM;
        if (atomic_compare_exchange_strong_explicit(&machine->tables[nth], &none, table, memory_order_relaxed,
                                                    memory_order_relaxed))
            COUNT(machine->table_frames);
        else
            OK(fwk_give_table(tables, table));
    }
    void *mapped = mmap(at, frames * FW_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, machine->file,
                        (off_t)((first - FIRST_FRAME) * FW_PAGE_BYTES));
    frees(at, frames * FW_PAGE_BYTES); // the sanitizer takes a map for a write of all of it
    return mapped == at ? 0 : -1;
}

static int machine_unmap(void *context, void *at, size_t bytes)
{
    struct machine *machine = context;
    allocated(at, bytes);
    COUNT(machine->unmaps);
    if (machine->unmap_answer != 0)
        return machine->unmap_answer;
    void *unmapped = mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    frees(at, bytes);
    return unmapped == at ? 0 : -1;
}

static void machine_flush(void *context)
{
    COUNT(((struct machine *)context)->flushes);
}

static void machine_zero(void *context, void *at, size_t bytes)
{
    COUNT(((struct machine *)context)->zeroes);
    allocated(at, bytes);
    memset(at, 0, bytes);
}

static void machine_copy(void *context, void *to, const void *from, size_t bytes)
{
    COUNT(((struct machine *)context)->copies);
    allocated(to, bytes);
    memcpy(to, from, bytes);
}

static void machine_relax(void *context, uint32_t attempt)
{
    COUNT(((struct machine *)context)->relaxes);
    (void)attempt;
    sched_yield();
}

static void machine_wake(void *context)
{
    COUNT(((struct machine *)context)->wakes);
}

static void machine_window(void *context)
{
    struct machine *machine = context;
    if (machine->in_window != NULL)
        machine->in_window(machine);
}

static void machine_barrier(void *context)
{
    COUNT(((struct machine *)context)->barriers);
    CHECK(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0);
}

static uint64_t machine_now(void *context)
{
    struct timespec now;
    (void)context;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void machine_panic(void *context, const char *message)
{
    (void)context;
    FAIL("panic: %s", message);
}

// Whether the operating system has the barrier that a table may offer.
static inline int has_barrier(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

// A machine with this many frames, all of them added, and a reserve behind them; and an entry of the table for everything, or
// for what must be there alone.
static inline struct machine *machine_with(uint64_t flags, uint64_t frames, uint64_t reserve_frames, int is_full)
{
    struct machine *machine = calloc(1, sizeof *machine);
    CHECK(machine != NULL);
    size_t ram = (frames + reserve_frames) * FW_PAGE_BYTES;
    machine->file = memfd_create("ram", MFD_CLOEXEC);
    CHECK(machine->file >= 0 && ftruncate(machine->file, (off_t)ram) == 0);
    machine->direct = mmap(NULL, ram, PROT_READ | PROT_WRITE, MAP_SHARED, machine->file, 0);
    unsigned char *window = mmap(NULL, WINDOW_BYTES + SPAN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(machine->direct != MAP_FAILED && window != MAP_FAILED);
    machine->window = window + (SPAN - (uintptr_t)window % SPAN);

    struct fwk_layout *layout = &machine->layout;
    layout->struct_bytes = sizeof *layout;
    layout->cpus = CPUS;
    layout->flags = flags;
    layout->first_frame = FIRST_FRAME;
    layout->frames = frames;
    layout->window = (uintptr_t)machine->window;
    layout->window_bytes = WINDOW_BYTES;
    layout->units = CPUS;
    layout->unit_bytes = UNIT_BYTES;
    layout->reserve_first = FIRST_FRAME + frames;
    layout->reserve_frames = reserve_frames;
    struct fwk_platform *platform = &machine->platform;
    platform->struct_bytes = sizeof *platform;
    platform->context = machine;
    platform->direct_map = (uintptr_t)machine->direct - FIRST_FRAME * FW_PAGE_BYTES;
    platform->map = machine_map;
    platform->unmap = machine_unmap;
    platform->panic = machine_panic;
    if (is_full) {
        platform->flush = machine_flush;
        platform->zero = machine_zero;
        platform->copy = machine_copy;
        platform->relax = machine_relax;
        platform->wake = machine_wake;
        platform->interrupt_window = machine_window;
        platform->now = machine_now;
        platform->barrier = has_barrier() ? machine_barrier : NULL;
    }

    OK(fwk_metadata_bytes(layout, &machine->metadata_bytes));
    machine->metadata = malloc(machine->metadata_bytes);
    memset(machine->metadata, 0xa5, machine->metadata_bytes); // it may hold anything
    OK(fwk_new(layout, platform, machine->metadata, machine->metadata_bytes, &machine->memory));
    // The library has copies of both.
    memset(layout, 0xff, sizeof *layout);
    memset(platform, 0xff, sizeof *platform);
    OK(fwk_add(machine->memory, 0, FIRST_FRAME, frames));
    return machine;
}

// The same by default.
static inline struct machine *machine_of(uint64_t frames, uint64_t reserve_frames, int is_full)
{
    return machine_with(0, frames, reserve_frames, is_full);
}

static inline unsigned char *direct_of(struct machine *machine, uint64_t frame)
{
    return machine->direct + (frame - FIRST_FRAME) * FW_PAGE_BYTES;
}

static inline struct fwk_stats stats_of(struct fwk_memory *memory)
{
    struct fwk_stats stats = {.struct_bytes = sizeof stats};
    OK(fwk_stats(memory, cpu, &stats));
    return stats;
}

// Nothing is allocated but page tables: all else is free once the memory is drained. Then ends it.
static inline void end_empty(struct machine *machine)
{
    OK(fwk_drain(machine->memory, cpu));
    OK(fwk_verify(machine->memory, cpu));
    struct fwk_stats stats = stats_of(machine->memory);
    unsigned long tables = machine->table_frames;
    if (stats.free_frames + tables != stats.frames || stats.live_pages != 0)
        FAIL("%llu of %llu frames are free, %lu are tables, %llu pages live", (unsigned long long)stats.free_frames,
             (unsigned long long)stats.frames, tables, (unsigned long long)stats.live_pages);
    OK(fwk_end(machine->memory));
    RETURNS(FW_EHANDLE, fwk_verify(machine->memory, cpu));
    munmap(machine->direct, (stats.frames + stats.reserve_frames) * FW_PAGE_BYTES);
    munmap(machine->window, WINDOW_BYTES);
    close(machine->file);
    free(machine->metadata);
    free(machine);
}

#endif
