// Threads: each has a seat, however it ends; more threads than seats; memory that changes hands; a host that ends meanwhile.
#include "check.h"

#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

enum { SEATS = 3 };

static struct fw_host *host;
static pthread_key_t key;
static atomic_int from_destructors;

// Allocates and frees in each of its ways.
static void work(int turns)
{
    for (int turn = 0; turn < turns; turn++) {
        unsigned char *area = fw_vmalloc(host, 5000), *object = fw_kmalloc(host, 100);
        ALLOCATED();
        CHECK(area != NULL && object != NULL);
        memset(area, turn, 5000);
        memset(object, turn, 100);
        FREES();
        OK(fw_vfree(host, area));
        OK(fw_kfree(host, object));
    }
}

static void at_the_end(void *rounds)
{
    work(1);
    atomic_fetch_add(&from_destructors, 1);
    // Again in the next round; four are sure to come. The sanitizer ends its own account of a thread in the last one.
    if ((intptr_t)rounds < 3)
        pthread_setspecific(key, (void *)((intptr_t)rounds + 1));
}

static void *returns(void *argument)
{
    work(3);
    return argument;
}

static void *exits(void *argument)
{
    work(3);
    pthread_exit(argument);
}

static void *is_cancelled(void *argument)
{
    (void)argument;
    work(3);
    for (;;) {
        pthread_testcancel(); // where it is cancelled
        sched_yield();
    }
    return NULL;
}

// Its first call, and its last, come from a key's destructor.
static void *calls_at_the_end(void *argument)
{
    pthread_setspecific(key, (void *)1);
    return argument;
}

static void *calls_before_and_at_the_end(void *argument)
{
    pthread_setspecific(key, (void *)1);
    work(3);
    return argument;
}

static void *does_not_call(void *argument)
{
    return argument;
}

static void ends(void)
{
    void *(*ways[])(void *) = {returns, exits, is_cancelled, calls_at_the_end, calls_before_and_at_the_end, does_not_call};
    enum { WAYS = sizeof ways / sizeof *ways };
    host = host_of(32 << 20, SEATS, 0);
    CHECK(pthread_key_create(&key, at_the_end) == 0);
    // Two at a time, with the main thread as many as there are seats.
    for (int turn = 0; turn < 600; turn++) {
        pthread_t threads[2];
        for (int nth = 0; nth < 2; nth++)
            CHECK(pthread_create(&threads[nth], NULL, ways[(turn + nth) % WAYS], NULL) == 0);
        for (int nth = 0; nth < 2; nth++) {
            if (ways[(turn + nth) % WAYS] == is_cancelled)
                CHECK(pthread_cancel(threads[nth]) == 0);
            CHECK(pthread_join(threads[nth], NULL) == 0);
        }
    }
    CHECK(atomic_load(&from_destructors) == 600 * 2 / WAYS * 2 * 3);
    work(1);
    struct fw_stats stats = stats_of(host);
    // All seats have come back; this thread's is its own.
    CHECK(stats.threads == 1);
    // A pthread_join waits for all destructors, so only calls that came after the key's own were in the shared seat.
    CHECK(stats.shared_calls <= (uint64_t)atomic_load(&from_destructors) * 4);
    CHECK(pthread_key_delete(key) == 0);
    end_empty(host);
}

static pthread_barrier_t all_there;

static void *comes_with_many(void *argument)
{
    pthread_barrier_wait(&all_there);
    work(200);
    return argument;
}

static void more_threads_than_seats(void)
{
    enum { MANY = 12 };
    host = host_of(32 << 20, SEATS, 0);
    CHECK(pthread_barrier_init(&all_there, NULL, MANY) == 0);
    pthread_t threads[MANY];
    for (int nth = 0; nth < MANY; nth++)
        CHECK(pthread_create(&threads[nth], NULL, comes_with_many, NULL) == 0);
    for (int nth = 0; nth < MANY; nth++)
        CHECK(pthread_join(threads[nth], NULL) == 0);
    struct fw_stats stats = stats_of(host);
    CHECK(stats.area_allocs == MANY * 200 && stats.area_frees == MANY * 200);
    end_empty(host);
}

// Memory that one thread writes, and the next one reads and frees.
enum { SLOTS = 64, HANDED = 20000 };
static _Atomic(unsigned char *) slots[SLOTS];

static void *hands_over(void *argument)
{
    uint64_t state = (uintptr_t)argument;
    for (int turn = 0; turn < HANDED; turn++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        size_t bytes = 1 + state % (state % 16 ? 500 : 20000);
        unsigned char *mine = fw_kvmalloc(host, bytes + sizeof bytes);
        ALLOCATED();
        CHECK(mine != NULL);
        memcpy(mine, &bytes, sizeof bytes);
        memset(mine + sizeof bytes, (int)bytes, bytes);
        unsigned char *other = atomic_exchange(&slots[state / 65536 % SLOTS], mine);
        if (other != NULL) {
            memcpy(&bytes, other, sizeof bytes);
            for (size_t at = 0; at < bytes; at++)
                CHECK(other[sizeof bytes + at] == (unsigned char)bytes);
            FREES();
            OK(fw_kvfree(host, other));
        }
    }
    return NULL;
}

static void memory_changes_hands(void)
{
    host = host_of(64 << 20, SEATS, 0);
    pthread_t threads[4];
    for (uintptr_t nth = 0; nth < 4; nth++)
        CHECK(pthread_create(&threads[nth], NULL, hands_over, (void *)(nth * 77 + 1)) == 0);
    for (int nth = 0; nth < 4; nth++)
        CHECK(pthread_join(threads[nth], NULL) == 0);
    for (int nth = 0; nth < SLOTS; nth++)
        OK(fw_kvfree(host, atomic_exchange(&slots[nth], NULL)));
    end_empty(host);
}

// Each object is freed by all threads at the same moment: one of them is right.
enum { ROUNDS = 200, OBJECTS = 64, FREERS = 3 };
static void *objects[OBJECTS];
static void *areas[OBJECTS];
static atomic_int right;

static void *frees_too(void *argument)
{
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&all_there);
        for (int nth = 0; nth < OBJECTS; nth++) {
            FREES();
            int code = fw_vfree(host, areas[nth]);
            CHECK(code == FW_OK || code == FW_EALREADY || code == FW_ENOENT);
            atomic_fetch_add(&right, code == FW_OK);
            code = fw_kfree(host, objects[nth]);
            CHECK(code == FW_OK || code == FW_EALREADY || code == FW_ENOENT);
        }
        pthread_barrier_wait(&all_there);
    }
    return argument;
}

static void double_frees_at_the_same_moment(void)
{
    host = host_of(32 << 20, FREERS + 1, 0);
    CHECK(pthread_barrier_init(&all_there, NULL, FREERS + 1) == 0);
    pthread_t threads[FREERS];
    for (int nth = 0; nth < FREERS; nth++)
        CHECK(pthread_create(&threads[nth], NULL, frees_too, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int nth = 0; nth < OBJECTS; nth++) {
            areas[nth] = fw_vmalloc(host, 100), objects[nth] = fw_kmalloc(host, 100);
            ALLOCATED();
            CHECK(areas[nth] != NULL && objects[nth] != NULL);
            memset(areas[nth], round, 100);
            memset(objects[nth], round, 100);
        }
        pthread_barrier_wait(&all_there);
        pthread_barrier_wait(&all_there);
        CHECK(atomic_exchange(&right, 0) == OBJECTS);
    }
    for (int nth = 0; nth < FREERS; nth++)
        CHECK(pthread_join(threads[nth], NULL) == 0);
    end_empty(host);
}

static void *calls_until_the_host_is_gone(void *argument)
{
    struct fw_host *mine = argument;
    pthread_barrier_wait(&all_there);
    for (;;) {
        // Not touched: the host may end at any moment.
        void *area = fw_vmalloc(mine, 5000);
        if (area == NULL && fw_last_error() == FW_EHANDLE)
            return NULL;
        CHECK(area != NULL);
        int code = fw_vfree(mine, area);
        CHECK(code == FW_OK || code == FW_EHANDLE);
    }
}

static void a_host_ends_while_others_call(void)
{
    CHECK(pthread_barrier_init(&all_there, NULL, 5) == 0);
    for (int turn = 0; turn < 50; turn++) {
        struct fw_host *mine = host_of(8 << 20, 2, 0);
        pthread_t threads[4];
        for (int nth = 0; nth < 4; nth++)
            CHECK(pthread_create(&threads[nth], NULL, calls_until_the_host_is_gone, mine) == 0);
        pthread_barrier_wait(&all_there);
        usleep(200);
        OK(fw_host_free(mine));
        for (int nth = 0; nth < 4; nth++)
            CHECK(pthread_join(threads[nth], NULL) == 0);
    }
}

static void *uses_the_host(void *argument)
{
    work(100);
    return argument;
}

static void *joins(void *thread)
{
    CHECK(pthread_join(*(pthread_t *)thread, NULL) == 0);
    work(1);
    end_empty(host);
    exit(0);
}

int main(void)
{
    ends();
    more_threads_than_seats();
    memory_changes_hands();
    double_frees_at_the_same_moment();
    a_host_ends_while_others_call();

    // The main thread ends before the others.
    static pthread_t first, last;
    host = host_of(16 << 20, SEATS, 0);
    work(1);
    CHECK(pthread_create(&first, NULL, uses_the_host, NULL) == 0);
    CHECK(pthread_create(&last, NULL, joins, &first) == 0);
    pthread_exit(NULL);
}
