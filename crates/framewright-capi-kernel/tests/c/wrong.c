// Wrong calls are errors, and change nothing: layouts that cannot be, stale handles, calls inside calls, callbacks that
// refuse, and half of all frees wrong.
#include "machine.h"

#include <signal.h>
#include <sys/time.h>

static void layouts(void)
{
    struct machine *machine = machine_of(1024, 0, 0);
    struct fwk_layout layout = {.struct_bytes = sizeof layout,
                                .cpus = 1,
                                .frames = 1024,
                                .window = (uint64_t)1 << 40,
                                .window_bytes = 64 << 20};
    struct fwk_platform platform = {.struct_bytes = sizeof platform, .map = machine_map, .unmap = machine_unmap};
    size_t bytes = 7;
    RETURNS(FW_EINVAL, fwk_metadata_bytes(NULL, &bytes));
    RETURNS(FW_EINVAL, fwk_metadata_bytes(&layout, NULL));
    struct fwk_layout bad = layout;
#define BAD(field, value, code) (bad = layout, bad.field = (value), fwk_metadata_bytes(&bad, &bytes) == (code))
    CHECK(BAD(struct_bytes, 0, FW_EINVAL));
    CHECK(BAD(struct_bytes, sizeof layout - 8, FW_EINVAL));
    CHECK(BAD(cpus, 0, FW_EINVAL));
    CHECK(BAD(cpus, 1024, FW_EINVAL));
    CHECK(BAD(cpus, 70000, FW_EINVAL));
    CHECK(BAD(frames, 0, FW_EINVAL));
    CHECK(BAD(frames, UINT64_MAX, FW_EINVAL));
    CHECK(BAD(first_frame, UINT64_MAX, FW_EINVAL));
    CHECK(BAD(window, layout.window + 1, FW_EINVAL));
    CHECK(BAD(window, layout.window + FW_PAGE_BYTES, FW_EINVAL));
    CHECK(BAD(window_bytes, 0, FW_EINVAL));
    CHECK(BAD(window_bytes, 4097, FW_EINVAL));
    CHECK(BAD(window_bytes, (uint64_t)4 << 40, FW_EINVAL));
    CHECK(BAD(flags, 4, FW_EINVAL));
    CHECK(BAD(reserve_frames, UINT64_MAX, FW_EINVAL));
    struct {
        struct fwk_layout layout;
        uint64_t later;
    } longer = {.layout = layout, .later = 1};
    longer.layout.struct_bytes = sizeof longer;
    RETURNS(FW_E2BIG, fwk_metadata_bytes(&longer.layout, &bytes));
    CHECK(bytes == 7);
    longer.later = 0; // a later version that asks for nothing new
    OK(fwk_metadata_bytes(&longer.layout, &bytes));

    OK(fwk_metadata_bytes(&layout, &bytes));
    unsigned char *metadata = malloc(bytes + 8);
    struct fwk_memory *memory = NULL;
    RETURNS(FW_ENOMEM, fwk_new(&layout, &platform, metadata, bytes - 1, &memory));
    RETURNS(FW_ENOMEM, fwk_new(&layout, &platform, NULL, bytes, &memory));
    RETURNS(FW_EINVAL, fwk_new(&layout, &platform, metadata, bytes, NULL));
    RETURNS(FW_EINVAL, fwk_new(&layout, NULL, metadata, bytes, &memory));
    struct fwk_platform without = platform;
    without.map = NULL;
    RETURNS(FW_EINVAL, fwk_new(&layout, &without, metadata, bytes, &memory));
    without = platform, without.unmap = NULL;
    RETURNS(FW_EINVAL, fwk_new(&layout, &without, metadata, bytes, &memory));
    without = platform, without.direct_map = layout.window - 4096; // the window is in the direct map
    RETURNS(FW_EINVAL, fwk_new(&layout, &without, metadata, bytes, &memory));
    CHECK(memory == NULL);
    // Wherever the metadata begin.
    for (unsigned shift = 0; shift < 8; shift++) {
        OK(fwk_new(&layout, &platform, metadata + shift, bytes, &memory));
        OK(fwk_add(memory, 0, 0, 1024));
        OK(fwk_verify(memory, 0));
        OK(fwk_end(memory));
        RETURNS(FW_EHANDLE, fwk_end(memory));
    }
    free(metadata);
    end_empty(machine);
}

static void arguments(void)
{
    struct machine *machine = machine_of(4096, 512, 0);
    struct fwk_memory *memory = machine->memory;
    uint64_t frame = 7;
    RETURNS(FW_EHANDLE, fwk_verify(NULL, 0));
    RETURNS(FW_EHANDLE, fwk_verify((struct fwk_memory *)((char *)memory + 8), 0));
    RETURNS(FW_EHANDLE, fwk_last_error(NULL, 0));
    CHECK(fwk_vmalloc(NULL, 0, 1, 1, 0) == NULL);
    RETURNS(FW_EINVAL, fwk_verify(memory, CPUS));
    RETURNS(FW_EINVAL, fwk_verify(memory, UINT32_MAX));
    RETURNS(FW_EINVAL, fwk_last_error(memory, CPUS));
    CHECK(fwk_last_error(memory, 0) == FW_OK);
    size_t huge[] = {(size_t)1 << 40, SIZE_MAX / 2 + 2, SIZE_MAX};
    for (size_t nth = 0; nth < sizeof huge / sizeof *huge; nth++) {
        REFUSES(FW_EFBIG, memory, fwk_vmalloc(memory, 0, huge[nth], 1, 0));
        REFUSES(FW_EFBIG, memory, fwk_kmalloc(memory, 0, huge[nth], 1, 0));
        REFUSES(FW_EFBIG, memory, fwk_kvmalloc(memory, 0, huge[nth], 1, 0));
    }
    CHECK(fwk_last_error(memory, 1) == FW_OK); // each CPU has its own
    REFUSES(FW_EINVAL, memory, fwk_vmalloc(memory, 0, 0, 1, 0));
    REFUSES(FW_EINVAL, memory, fwk_vmalloc(memory, 0, 1, 3, 0));
    REFUSES(FW_EINVAL, memory, fwk_vmalloc(memory, 0, 1, 1, 1 << 20));
    REFUSES(FW_EINVAL, memory, fwk_kmalloc(memory, 0, 0, 1, 0));
    REFUSES(FW_EINVAL, memory, fwk_kmalloc(memory, 0, 1, 0, 0));
    REFUSES(FW_EINVAL, memory, fwk_kvmalloc(memory, 0, 1, 1, 1 << 20));
    REFUSES(FW_EINVAL, memory, fwk_map_ram(memory, 0, NULL, 1, 0));
    REFUSES(FW_EINVAL, memory, fwk_map_ram(memory, 0, &frame, 0, 0));
    REFUSES(FW_EINVAL, memory, fwk_map_ram(memory, 0, &frame, SIZE_MAX, 0));
    REFUSES(FW_EINVAL, memory, fwk_map_ram(memory, 0, &frame, 1, FW_ZERO));
    RETURNS(FW_EFBIG, fwk_frame_alloc(memory, 0, 11, FW_MOVABLE, 0, &frame));
    RETURNS(FW_EFBIG, fwk_frame_alloc(memory, 0, 300, FW_MOVABLE, 0, &frame));
    RETURNS(FW_EINVAL, fwk_frame_alloc(memory, 0, 0, 3, 0, &frame));
    RETURNS(FW_EINVAL, fwk_frame_alloc(memory, 0, 0, FW_MOVABLE, FW_ZERO, &frame));
    RETURNS(FW_EINVAL, fwk_frame_alloc(memory, 0, 0, FW_MOVABLE, 0, NULL));
    RETURNS(FW_EINVAL, fwk_frame_alloc(memory, 0, 0, FW_MOVABLE, 0, (uint64_t *)((char *)&frame + 1)));
    RETURNS(FW_EINVAL, fwk_run_alloc(memory, 0, 0, 1, FW_MOVABLE, 0, &frame));
    RETURNS(FW_EINVAL, fwk_run_alloc(memory, 0, 1, 3, FW_MOVABLE, 0, &frame));
    RETURNS(FW_EFBIG, fwk_run_alloc(memory, 0, (uint64_t)1 << 50, 1, FW_MOVABLE, 0, &frame));
    RETURNS(FW_EINVAL, fwk_run_free(memory, 0, 5, 0));
    RETURNS(FW_EINVAL, fwk_reserve_set_aside(memory, 0, NULL, 1, 1, &frame));
    RETURNS(FW_EINVAL, fwk_reserve_set_aside(memory, 0, "\xff", 1, 1, &frame));
    RETURNS(FW_EINVAL, fwk_reserve_set_aside(memory, 0, "name", 0, 1, &frame));
    RETURNS(FW_ENOSPC, fwk_reserve_set_aside(memory, 0, "name", 513, 1, &frame));
    RETURNS(FW_ENOENT, fwk_reserve_take(memory, 0, 0, &frame));
    RETURNS(FW_ENOENT, fwk_reserve_take(memory, 0, UINT64_MAX, &frame));
    CHECK(frame == 7);
    // Frames that are there already, are the reserve's, or lie outside.
    RETURNS(FW_EINVAL, fwk_add(memory, 0, FIRST_FRAME, 8));
    RETURNS(FW_EINVAL, fwk_add(memory, 0, FIRST_FRAME + 4096, 8));
    RETURNS(FW_EFOREIGN, fwk_add(memory, 0, 0, 8));
    RETURNS(FW_EINVAL, fwk_add(memory, 0, FIRST_FRAME, 0));
    RETURNS(FW_EINVAL, fwk_for_each_area(memory, 0, NULL, NULL));
    struct fwk_stats stats = {.struct_bytes = 8};
    RETURNS(FW_EINVAL, fwk_stats(memory, 0, &stats));
    RETURNS(FW_EINVAL, fwk_stats(memory, 0, NULL));

    // Frees.
    char on_stack[2 * FW_PAGE_BYTES];
    char *page_on_stack = on_stack + (FW_PAGE_BYTES - (uintptr_t)on_stack % FW_PAGE_BYTES);
    RETURNS(FW_EFOREIGN, fwk_vfree(memory, 0, page_on_stack));
    RETURNS(FW_EFOREIGN, fwk_kfree(memory, 0, on_stack));
    RETURNS(FW_EFOREIGN, fwk_kvfree(memory, 0, on_stack));
    RETURNS(FW_EFOREIGN, fwk_frame_free(memory, 0, 1 << 20, 0));
    REFUSES(FW_EFOREIGN, memory, fwk_kvrealloc(memory, 0, on_stack, 10, 0));
    char *area = fwk_vmalloc(memory, 0, 3 * FW_PAGE_BYTES, 1, 0);
    RETURNS(FW_EINVAL, fwk_vfree(memory, 0, area + 1));
    RETURNS(FW_EINSIDE, fwk_vfree(memory, 0, area + FW_PAGE_BYTES));
    RETURNS(FW_EKIND, fwk_unmap_ram(memory, 0, area, 3));
    // A refused deferral changes nothing, no CPU's last error either; one that is not refused refuses the next free.
    int last = fwk_last_error(memory, 0);
    CHECK(last == FW_EKIND);
    RETURNS(FW_EHANDLE, fwk_vfree_atomic(NULL, area));
    RETURNS(FW_EHANDLE, fwk_vfree_atomic((struct fwk_memory *)((char *)memory + 8), area));
    RETURNS(FW_EFOREIGN, fwk_vfree_atomic(memory, page_on_stack));
    RETURNS(FW_EINVAL, fwk_vfree_atomic(memory, area + 1));
    RETURNS(FW_EINSIDE, fwk_vfree_atomic(memory, area + FW_PAGE_BYTES));
    RETURNS(FW_ENOENT, fwk_vfree_atomic(memory, machine->window + WINDOW_BYTES - CPUS * UNIT_BYTES - FW_PAGE_BYTES));
    OK(fwk_frame_alloc(memory, 0, 0, FW_MOVABLE, 0, &frame));
    char *mapped = fwk_map_ram(memory, 0, &frame, 1, 0);
    CHECK(mapped != NULL);
    RETURNS(FW_EKIND, fwk_vfree_atomic(memory, mapped));
    OK(fwk_unmap_ram(memory, 0, mapped, 1));
    OK(fwk_frame_free(memory, 0, frame, 0));
    CHECK(fwk_last_error(memory, 0) == last);
    char *atomic = fwk_vmalloc(memory, 0, 3 * FW_PAGE_BYTES, 1, 0);
    OK(fwk_vfree_atomic(memory, atomic));
    RETURNS(FW_EALREADY, fwk_vfree_atomic(memory, atomic));
    RETURNS(FW_EALREADY, fwk_vfree(memory, 1, atomic));
    RETURNS(FW_EINSIDE, fwk_vfree(memory, 1, atomic + FW_PAGE_BYTES));
    CHECK(fwk_unmap_ram(memory, 0, atomic, 3) < 0);
    CHECK(fwk_kvfree(memory, 0, atomic) < 0);
    uint64_t freed[2] = {7, 7};
    RETURNS(FW_EINVAL, fwk_free_deferred(memory, 0, (uint64_t *)((char *)freed + 1)));
    RETURNS(FW_EINVAL, fwk_free_deferred(memory, CPUS, freed));
    RETURNS(FW_EHANDLE, fwk_free_deferred(NULL, 0, freed));
    CHECK(freed[0] == 7 && freed[1] == 7);
    OK(fwk_free_deferred(memory, 0, freed));
    CHECK(freed[0] == 1 && freed[1] == 7);
    OK(fwk_vfree(memory, 0, area));
    RETURNS(FW_EALREADY, fwk_vfree(memory, 1, area));
    char *object = fwk_kmalloc(memory, 0, 64, 1, 0), *other = fwk_kmalloc(memory, 0, 64, 1, 0);
    RETURNS(FW_EINSIDE, fwk_kfree(memory, 0, object + 8));
    OK(fwk_kfree(memory, 0, object));
    RETURNS(FW_EALREADY, fwk_kfree(memory, 0, object));
    size_t room = 7;
    CHECK(fwk_kvsize(memory, 0, object, &room) < 0 && room == 7);
    OK(fwk_kfree(memory, 0, other));
    OK(fwk_frame_alloc(memory, 0, 3, FW_MOVABLE, 0, &frame));
    RETURNS(FW_ELENGTH, fwk_frame_free(memory, 0, frame, 2));
    OK(fwk_frame_free(memory, 0, frame, 3));
    RETURNS(FW_EALREADY, fwk_frame_free(memory, 0, frame, 3));
    end_empty(machine);
}

static unsigned reentries;

static void call_again(struct machine *machine)
{
    struct fwk_memory *memory = machine->memory;
    uint64_t frame = 7;
    REFUSES(FW_EREENTRY, memory, fwk_kmalloc(memory, cpu, 64, 1, 0));
    RETURNS(FW_EREENTRY, fwk_frame_alloc(memory, cpu, 0, FW_MOVABLE, 0, &frame));
    RETURNS(FW_EREENTRY, fwk_drain(memory, cpu));
    RETURNS(FW_EREENTRY, fwk_free_deferred(memory, cpu, &frame));
    RETURNS(FW_EREENTRY, fwk_add(memory, cpu, FIRST_FRAME, 1));
    RETURNS(FW_EBUSY, fwk_end(memory));
    CHECK(frame == 7);
    reentries++;
}

static void callbacks(void)
{
    struct machine *machine = machine_of(4096, 0, 1);
    struct fwk_memory *memory = machine->memory;
    machine->in_map = call_again;
    void *area = fwk_vmalloc(memory, 0, 3 * FW_PAGE_BYTES, 1, 0);
    CHECK(area != NULL && reentries > 0);
    machine->in_map = NULL;
    OK(fwk_vfree(memory, 0, area));

    // What `map` refuses is refused, and no frame is lost.
    OK(fwk_drain(memory, 0));
    uint64_t free_before = stats_of(memory).free_frames;
    uint64_t frame = FIRST_FRAME + 9;
    int answers[] = {FW_ENOMEM, -1, -77, 5};
    for (size_t nth = 0; nth < sizeof answers / sizeof *answers; nth++) {
        int code = answers[nth] == FW_ENOMEM ? FW_ENOMEM : FW_EHOST;
        machine->map_answer = answers[nth];
        REFUSES(code, memory, fwk_vmalloc(memory, 0, 5 * FW_PAGE_BYTES, 1, 0));
        REFUSES(code, memory, fwk_map_ram(memory, 0, &frame, 1, 0));
        machine->map_answer = 0;
        OK(fwk_drain(memory, 0));
        OK(fwk_verify(memory, 0));
        CHECK(stats_of(memory).free_frames == free_before);
    }
    // What `unmap` refuses stays out of use until it does not.
    CHECK((area = fwk_vmalloc(memory, 0, 5 * FW_PAGE_BYTES, 1, 0)) != NULL);
    memset(area, 1, 5 * FW_PAGE_BYTES);
    machine->unmap_answer = -1;
    OK(fwk_vfree(memory, 0, area));
    OK(fwk_drain(memory, 0));
    CHECK(stats_of(memory).free_frames == free_before - 5);
    OK(fwk_verify(memory, 0));
    machine->unmap_answer = 0;
    OK(fwk_drain(memory, 0));
    CHECK(stats_of(memory).free_frames == free_before);
    end_empty(machine);
}

static struct machine *interrupted;
static volatile unsigned long inside, outside, deferred_inside;
static _Atomic(unsigned char *) to_defer;

static void handler(int signal)
{
    (void)signal;
    struct fwk_memory *memory = interrupted->memory;
    void *object = fwk_kmalloc(memory, 0, 64, 1, FW_NOWAIT);
    if (object != NULL) {
        outside++;
        OK(fwk_kfree(memory, 0, object));
    } else {
        int last = fwk_last_error(memory, 0);
        CHECK(last == FW_EREENTRY || last == FW_EAGAIN || last == FW_ENOMEM);
        inside += last == FW_EREENTRY;
        // Where all that names the CPU is refused, the free of an area may be deferred.
        unsigned char *area = last == FW_EREENTRY ? atomic_exchange(&to_defer, NULL) : NULL;
        if (area != NULL) {
            CHECK(area[0] == 0x3c);
            OK(fwk_vfree_atomic(memory, area));
            RETURNS(FW_EALREADY, fwk_vfree_atomic(memory, area));
            deferred_inside++;
        }
    }
}

// A timer interrupts the CPU anywhere, and its handler allocates: it is served, or refused where it came inside a call.
static void interrupts(void)
{
    interrupted = machine_of(4096, 0, 1);
    struct fwk_memory *memory = interrupted->memory;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    uint64_t all = 0, freed = 0;
    for (unsigned turn = 0; (inside < 200 || outside < 200) && turn < 3000000; turn++) {
        unsigned char *object = fwk_kvmalloc(memory, 0, 1 + turn % 3000, 1, FW_ZERO);
        CHECK(object != NULL && object[0] == 0);
        object[0] = 1;
        void *area = turn % 16 == 0 ? fwk_vmalloc(memory, 0, 1 + turn % 30000, 1, 0) : NULL;
        OK(fwk_kvfree(memory, 0, object));
        if (area != NULL) {
            *(unsigned char *)area = 0x3c;
            area = atomic_exchange(&to_defer, area);
        }
        OK(fwk_vfree(memory, 0, area));
        if (turn % 64 == 0)
            OK(fwk_free_deferred(memory, 0, &freed));
        all += freed, freed = 0;
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    OK(fwk_vfree(memory, 0, to_defer));
    OK(fwk_free_deferred(memory, 0, &freed));
    CHECK(inside > 0 && outside > 0 && deferred_inside > 0 && all + freed > 0 && all + freed <= deferred_inside);
    end_empty(interrupted);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

// Half of all calls are wrong, and what is right keeps its bytes.
static void half_are_wrong(uint64_t seed)
{
    struct machine *machine = machine_of(8192, 0, 0);
    struct fwk_memory *memory = machine->memory;
    enum { LIVE = 200 };
    static struct {
        unsigned char *at;
        size_t bytes;
        int is_area;
    } live[LIVE];
    memset(live, 0, sizeof live);
    unsigned long refused = 0, deferred = 0;
    for (int turn = 0; turn < 30000; turn++) {
        size_t nth = next_random(&seed) % LIVE;
        uint32_t some_cpu = next_random(&seed) % CPUS;
        if (next_random(&seed) % 2 == 0) {
            // Any address near what there is, or anywhere; never one at which something live begins.
            uintptr_t base = (uintptr_t)live[next_random(&seed) % LIVE].at;
            unsigned char *wrong = (unsigned char *)(base + next_random(&seed) % (64 << 20) - (32 << 20));
            if (next_random(&seed) % 4 == 0)
                wrong = (unsigned char *)(uintptr_t)next_random(&seed);
            int begins = wrong == NULL;
            for (size_t at = 0; at < LIVE; at++)
                begins |= live[at].at == wrong;
            if (!begins) {
                CHECK(fwk_vfree(memory, some_cpu, wrong) < 0);
                CHECK(fwk_vfree_atomic(memory, wrong) < 0);
                CHECK(fwk_kvfree(memory, some_cpu, wrong) < 0);
                CHECK(fwk_kfree(memory, some_cpu, wrong) < 0);
                CHECK(fwk_unmap_ram(memory, some_cpu, wrong, 1 + next_random(&seed) % 4) < 0);
                CHECK(fwk_kvrealloc(memory, some_cpu, wrong, 100, 0) == NULL);
                refused += 6;
            }
        }
        if (live[nth].at == NULL) {
            live[nth].bytes = 1 + next_random(&seed) % (next_random(&seed) % 8 ? 3000 : 100000);
            live[nth].is_area = next_random(&seed) % 2;
            size_t bytes = live[nth].bytes;
            live[nth].at = live[nth].is_area ? fwk_vmalloc(memory, some_cpu, bytes, 1, 0)
                                             : fwk_kvmalloc(memory, some_cpu, bytes, 1, 0);
            if (live[nth].at != NULL)
                memset(live[nth].at, (int)nth, bytes);
        } else {
            for (size_t at = 0; at < live[nth].bytes; at++)
                CHECK(live[nth].at[at] == (unsigned char)nth);
            if (live[nth].is_area && turn % 3 == 0)
                OK(fwk_vfree_atomic(memory, live[nth].at));
            else
                OK(live[nth].is_area ? fwk_vfree(memory, some_cpu, live[nth].at)
                                     : fwk_kvfree(memory, some_cpu, live[nth].at));
            live[nth].at = NULL;
            uint64_t freed = 0;
            if (turn % 50 == 0)
                OK(fwk_free_deferred(memory, some_cpu, &freed));
            deferred += freed;
        }
    }
    CHECK(refused > 60000 && deferred > 0);
    for (size_t nth = 0; nth < LIVE; nth++)
        if (live[nth].at != NULL)
            OK(live[nth].is_area ? fwk_vfree(memory, 0, live[nth].at) : fwk_kvfree(memory, 0, live[nth].at));
    end_empty(machine);
}

int main(void)
{
    layouts();
    arguments();
    callbacks();
    interrupts();
    half_are_wrong(0x9e3779b97f4a7c15);
    return 0;
}
