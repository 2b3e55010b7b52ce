// What the tests in C share: a check that says where, and the program's ends.
#ifndef CHECK_H
#define CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "framewright.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The library is not built with the thread sanitizer, so that does not see how a free orders what comes before it before the
// next allocation. These say so, as the sanitizer's own malloc does.
#if defined(__SANITIZE_THREAD__)
void __tsan_acquire(void *at);
void __tsan_release(void *at);
static char order;
#define ALLOCATED() __tsan_acquire(&order)
#define FREES() __tsan_release(&order)
#else
#define ALLOCATED() ((void)0)
#define FREES() ((void)0)
#endif

#define FAIL(...)                                                                                                      \
    do {                                                                                                               \
        char message[256];                                                                                             \
        fw_last_message(message, sizeof message);                                                                      \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                                                \
        fprintf(stderr, __VA_ARGS__);                                                                                  \
        fprintf(stderr, "; the last error: %d, %s\n", fw_last_error(), message);                                       \
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
            FAIL("%s returned %d, expected %s", #call, returned, #code);                                               \
        if ((code) != FW_OK && fw_last_error() != (code))                                                              \
            FAIL("%s: another last error", #call);                                                                     \
    } while (0)

#define OK(call) RETURNS(FW_OK, call)

// The call returns NULL, with that code as the last error.
#define REFUSES(code, call)                                                                                            \
    do {                                                                                                               \
        void *returned = (call);                                                                                       \
        if (returned != NULL || fw_last_error() != (code))                                                             \
            FAIL("%s returned %p, expected NULL and %s", #call, returned, #code);                                      \
    } while (0)

// A host with this much memory and this many threads; no more to it.
static inline struct fw_host *host_of(size_t memory_bytes, unsigned threads, size_t reserve_bytes)
{
    struct fw_options options;
    struct fw_host *host = NULL;
    OK(fw_options_init(&options, sizeof options));
    options.memory_bytes = memory_bytes;
    options.threads = threads;
    options.reserve_bytes = reserve_bytes;
    OK(fw_host_new(&options, &host));
    CHECK(host != NULL);
    return host;
}

static inline struct fw_stats stats_of(struct fw_host *host)
{
    struct fw_stats stats = {.struct_bytes = sizeof stats};
    OK(fw_stats(host, &stats));
    return stats;
}

// Nothing is allocated: all that the host has is free once it is drained. Then ends it.
static inline void end_empty(struct fw_host *host)
{
    OK(fw_drain(host));
    OK(fw_verify(host));
    struct fw_stats stats = stats_of(host);
    if (stats.free_frames != stats.frames || stats.live_pages != 0)
        FAIL("%llu of %llu frames are free, %llu pages live", (unsigned long long)stats.free_frames,
             (unsigned long long)stats.frames, (unsigned long long)stats.live_pages);
    OK(fw_host_free(host));
}

#endif
