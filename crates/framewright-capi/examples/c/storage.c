// A storage engine: small records from kmalloc, buffers of a transaction from kvmalloc, which needs no contiguous memory, and
// a table that grows by kvrealloc.
//
//     cc storage.c $(pkg-config --cflags --libs framewright) -o storage
#include <framewright.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct record {
    uint64_t key;
    size_t bytes;
    unsigned char *value;
};

static struct fw_host *host;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct record **table;
static size_t records, room;

static void *or_die(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "%s\n", fw_strerror(fw_last_error()));
        exit(1);
    }
    return memory;
}

// Stores a value of some length, from whichever thread: the library needs no set-up for a thread.
static void *stores(void *argument)
{
    uint64_t first = (uint64_t)(uintptr_t)argument;
    for (uint64_t key = first; key < first + 2000; key++) {
        struct record *record = or_die(fw_kmalloc(host, sizeof *record));
        record->key = key;
        record->bytes = 100 + key * 7919 % 20000;
        record->value = or_die(fw_kvmalloc(host, record->bytes));
        memset(record->value, (int)key, record->bytes);
        pthread_mutex_lock(&lock);
        if (records == room) {
            room = room == 0 ? 64 : 2 * room;
            table = or_die(fw_kvrealloc(host, table, room * sizeof *table));
        }
        table[records++] = record;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(void)
{
    struct fw_options options;
    fw_options_init(&options, sizeof options);
    options.memory_bytes = 256 << 20;
    options.threads = 4;
    if (fw_host_new(&options, &host) != FW_OK)
        or_die(NULL);

    pthread_t threads[2];
    for (uintptr_t nth = 0; nth < 2; nth++)
        pthread_create(&threads[nth], NULL, stores, (void *)(nth * 1000000));
    for (int nth = 0; nth < 2; nth++)
        pthread_join(threads[nth], NULL);

    struct fw_stats stats = {.struct_bytes = sizeof stats};
    fw_stats(host, &stats);
    printf("%zu records, %llu objects live, %llu MiB of %llu free\n", records,
           (unsigned long long)(stats.object_allocs - stats.object_frees),
           (unsigned long long)(stats.free_frames * FW_PAGE_BYTES >> 20),
           (unsigned long long)(stats.frames * FW_PAGE_BYTES >> 20));

    for (size_t nth = 0; nth < records; nth++) {
        for (size_t at = 0; at < table[nth]->bytes; at++)
            if (table[nth]->value[at] != (unsigned char)table[nth]->key)
                return 1;
        fw_kvfree(host, table[nth]->value);
        fw_kfree(host, table[nth]);
    }
    fw_kvfree(host, table);
    fw_drain(host);
    fw_stats(host, &stats);
    printf("all free: %s\n", stats.free_frames == stats.frames ? "yes" : "no");
    return fw_host_free(host) == FW_OK && stats.free_frames == stats.frames ? 0 : 1;
}
