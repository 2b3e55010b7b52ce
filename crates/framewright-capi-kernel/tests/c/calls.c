// Each function does what the header says, with every callback and with those alone that must be there.
#include "machine.h"

static void frames(struct machine *machine)
{
    struct fwk_memory *memory = machine->memory;
    uint64_t frame = 0, first = 0;
    for (uint32_t order = 0; order <= 10; order++) {
        OK(fwk_frame_alloc(memory, 0, order, FW_MOVABLE, 0, &frame));
        CHECK(frame % (1u << order) == 0 && frame >= FIRST_FRAME);
        memset(direct_of(machine, frame), (int)order, (size_t)FW_PAGE_BYTES << order);
        OK(fwk_frame_free(memory, 1, frame, order)); // another CPU frees
    }
    OK(fwk_run_alloc(memory, 0, 700, 64, FW_UNMOVABLE, 0, &first));
    CHECK(first % 64 == 0);
    OK(fwk_run_free(memory, 0, first, 300));
    OK(fwk_run_free(memory, 0, first + 300, 400));
    OK(fwk_frame_alloc(memory, 0, 3, FW_RECLAIMABLE, FW_NOWAIT, &frame));
    OK(fwk_run_free(memory, 0, frame, 8));
    OK(fwk_frame_alloc(memory, 0, 4, FW_MOVABLE, 0, &frame));
    OK(fwk_frame_split(memory, 1, frame, 4, 1));
    RETURNS(FW_ELENGTH, fwk_frame_free(memory, 0, frame, 4));
    for (uint64_t nth = 0; nth < 16; nth += 2)
        OK(fwk_frame_free(memory, nth % 4, frame + nth, 1));
    CHECK(fwk_frame_split(memory, 0, frame, 4, 1) < 0);
    OK(fwk_frame_alloc(memory, 0, 4, FW_MOVABLE, 0, &frame));
    CHECK(fwk_frame_split(memory, 0, frame, 4, 5) < 0);
    for (uint64_t nth = 0; nth < 16; nth++) // frame by frame, without its order
        OK(fwk_frame_free_part(memory, 0, frame + nth, 0));
    CHECK(fwk_frame_free_part(memory, 0, frame, 0) < 0);
    // A run that no block has is found by a search, which must not be made.
    uint64_t unchanged = 7;
    RETURNS(FW_EAGAIN, fwk_run_alloc(memory, 0, 1025, 1, FW_MOVABLE, FW_NOWAIT, &unchanged));
    CHECK(unchanged == 7);
    OK(fwk_run_alloc(memory, 0, 1025, 1, FW_MOVABLE, 0, &first));
    OK(fwk_run_free(memory, 0, first, 1025));
    // Memory that goes and comes back.
    struct fwk_stats before = stats_of(memory);
    OK(fwk_drain(memory, 0));
    OK(fwk_remove(memory, 0, FIRST_FRAME + 2048, 512));
    CHECK(stats_of(memory).frames == before.frames - 512);
    RETURNS(FW_EFOREIGN, fwk_frame_free(memory, 0, FIRST_FRAME + 2048, 0));
    OK(fwk_add(memory, 0, FIRST_FRAME + 2048, 512));
    CHECK(stats_of(memory).frames == before.frames);
}

static int count_areas(void *argument, void *area, size_t bytes, int kind)
{
    size_t *sums = argument;
    CHECK(area != NULL && (kind == FW_AREA_VMALLOC || kind == FW_AREA_MAP_RAM));
    sums[kind] += bytes;
    return 0;
}

static void areas(struct machine *machine)
{
    struct fwk_memory *memory = machine->memory;
    for (size_t bytes = 1; bytes < 1 << 20; bytes = bytes * 3 + 1) {
        unsigned char *area = fwk_vmalloc(memory, 0, bytes, 1 << 14, FW_ZERO);
        CHECK(area != NULL && (uintptr_t)area % (1 << 14) == 0);
        for (size_t at = 0; at < bytes; at += 97)
            CHECK(area[at] == 0);
        memset(area, 0x5a, bytes);
        OK(fwk_vfree(memory, 1, area));
    }
    char *shaped[8];
    for (int nth = 0; nth < 8; nth++)
        CHECK((shaped[nth] = fwk_vmalloc(memory, 0, FW_PAGE_BYTES, 1, nth % 2 ? FW_GUARD_BEFORE : 0)) != NULL);
    for (int nth = 1; nth < 8; nth += 2) // the page, the guard behind its neighbour, and its own
        for (int other = 0; other < 8; other++)
            CHECK(shaped[nth] <= shaped[other] || shaped[nth] - shaped[other] >= 3 * FW_PAGE_BYTES);
    char *large = fwk_vmalloc(memory, 0, 2 << 20, 1, FW_HUGE);
    CHECK(large != NULL && (uintptr_t)large % (2 << 20) == 0);
    OK(fwk_vfree(memory, 0, large));
    for (int nth = 0; nth < 8; nth++)
        OK(fwk_vfree(memory, 0, shaped[nth]));
    REFUSES(FW_EINVAL, memory, fwk_kvmalloc(memory, 0, 1, 1, FW_GUARD_BEFORE));
    machine->last_flags = -1;
    void *area = fwk_vmalloc(memory, 0, 100 * FW_PAGE_BYTES, 1, FW_NOFS);
    CHECK(area != NULL && machine->last_flags == FW_NOFS); // the callback hears what it may do
    uint64_t mine[3] = {0};
    for (int nth = 0; nth < 3; nth++)
        OK(fwk_frame_alloc(memory, 0, 0, FW_MOVABLE, 0, &mine[nth]));
    uint64_t list[5] = {mine[2], mine[0], mine[1], mine[0], mine[2]};
    unsigned char *mapped = fwk_map_ram(memory, 0, list, 5, 0);
    CHECK(mapped != NULL);
    for (int nth = 0; nth < 5; nth++)
        mapped[(size_t)nth * FW_PAGE_BYTES] = (unsigned char)nth;
    CHECK(direct_of(machine, mine[0])[0] == 3 && direct_of(machine, mine[1])[0] == 2 && direct_of(machine, mine[2])[0] == 4);
    size_t sums[3] = {0};
    OK(fwk_for_each_area(memory, 0, count_areas, sums));
    CHECK(sums[FW_AREA_VMALLOC] == 100 * FW_PAGE_BYTES && sums[FW_AREA_MAP_RAM] == 5 * FW_PAGE_BYTES);
    OK(fwk_unmap_ram(memory, 1, mapped, 5));
    for (int nth = 0; nth < 3; nth++)
        OK(fwk_frame_free(memory, 0, mine[nth], 0));
    OK(fwk_vfree(memory, 0, area));
    OK(fwk_vfree(memory, 0, NULL));
    OK(fwk_unmap_ram(memory, 0, NULL, 1));
}

static void objects(struct machine *machine)
{
    struct fwk_memory *memory = machine->memory;
    for (size_t bytes = 1; bytes < 6 << 20; bytes = bytes * 3 + 1) {
        unsigned char *object = fwk_kvmalloc(memory, 0, bytes, 1, FW_ZERO);
        size_t room = 0;
        CHECK(object != NULL);
        OK(fwk_kvsize(memory, 0, object, &room));
        CHECK(room >= bytes);
        for (size_t at = 0; at < bytes; at += 97)
            CHECK(object[at] == 0);
        object[bytes - 1] = 0x5a;
        unsigned char *moved = fwk_kvrealloc(memory, 0, object, bytes * 5, 0);
        CHECK(moved != NULL && moved[bytes - 1] == 0x5a);
        OK(fwk_kvfree(memory, 1, moved));
    }
    unsigned char *object = fwk_kmalloc(memory, 0, 100, 1024, FW_NOWAIT);
    CHECK(object != NULL && (uintptr_t)object % 1024 == 0);
    CHECK(object >= machine->direct);
    OK(fwk_kfree(memory, 1, object));
    CHECK((object = fwk_kvrealloc(memory, 0, NULL, 10, FW_ZERO)) != NULL);
    OK(fwk_kvfree(memory, 0, object));
    OK(fwk_kfree(memory, 0, NULL));
    OK(fwk_kvfree(memory, 0, NULL));
}

// Each CPU's copy is its own, and zeroed when it is handed out.
static void percpu(struct machine *machine)
{
    struct fwk_memory *memory = machine->memory;
    unsigned char *objects[64];
    for (int round = 0; round < 2; round++) {
        for (size_t nth = 0; nth < 64; nth++) {
            size_t bytes = 1 + nth * 97, align = (size_t)1 << nth % 12;
            unsigned char *object = objects[nth] = fwk_alloc_percpu(memory, 0, bytes, align, nth % 2 ? FW_ZERO : 0);
            CHECK(object != NULL && (uintptr_t)object % align == 0);
            CHECK(object >= machine->window + WINDOW_BYTES - CPUS * UNIT_BYTES);
            for (size_t of = 0; of < CPUS; of++)
                for (size_t at = 0; at < bytes; at++) {
                    CHECK(object[of * UNIT_BYTES + at] == 0);
                    object[of * UNIT_BYTES + at] = (unsigned char)(nth + of);
                }
        }
        struct fwk_stats stats = stats_of(memory);
        CHECK(stats.percpu_objects == 64 && stats.percpu_pages > 64 * 97 * 32 / FW_PAGE_BYTES);
        for (size_t nth = 0; nth < 64; nth++) {
            size_t last = nth * 97;
            for (size_t of = 0; of < CPUS; of++)
                CHECK(objects[nth][of * UNIT_BYTES + last] == (unsigned char)(nth + of));
            OK(fwk_free_percpu(memory, 1, objects[nth]));
        }
        CHECK(stats_of(memory).percpu_objects == 0);
    }
    RETURNS(FW_ENOENT, fwk_free_percpu(memory, 0, objects[63]));
    RETURNS(FW_EFOREIGN, fwk_free_percpu(memory, 0, objects[63] + UNIT_BYTES));
    OK(fwk_free_percpu(memory, 0, NULL));
    REFUSES(FW_EINVAL, memory, fwk_alloc_percpu(memory, 0, 8, 3, 0));
    REFUSES(FW_EFBIG, memory, fwk_alloc_percpu(memory, 0, 8, 2 * FW_PAGE_BYTES, 0));
    REFUSES(FW_EFBIG, memory, fwk_alloc_percpu(memory, 0, UNIT_BYTES + 1, 1, 0));
    void *unit = fwk_alloc_percpu(memory, 0, UNIT_BYTES, 1, 0);
    CHECK(unit != NULL);
    REFUSES(FW_ENOSPC, memory, fwk_alloc_percpu(memory, 0, 8, 8, 0));
    OK(fwk_free_percpu(memory, 0, unit));
}

static int write_page(void *argument, uint32_t pool, uint64_t object, uint64_t index, const void *page)
{
    uint64_t *written = argument;
    (void)pool;
    CHECK(object == 9 && *(const unsigned char *)page == (unsigned char)index);
    return ++*written, 0;
}

static void reserve(struct machine *machine)
{
    struct fwk_memory *memory = machine->memory;
    uint64_t id = 0, other = 0, first = 0, taken = 7;
    OK(fwk_reserve_set_aside(memory, 0, "camera", 300, 256, &id));
    OK(fwk_reserve_set_aside(memory, 0, "codec", 100, 1, &other));
    CHECK(id != 0 && other != 0 && id != other);
    OK(fwk_reserve_take(memory, 0, id, &first));
    CHECK(first % 256 == 0);
    memset(direct_of(machine, first), 1, 300 * FW_PAGE_BYTES);
    RETURNS(FW_EBUSY, fwk_reserve_take(memory, 1, id, &taken));
    RETURNS(FW_EBUSY, fwk_reserve_give_up(memory, 1, id));
    CHECK(taken == 7);
    struct fwk_stats stats = stats_of(memory);
    CHECK(stats.reserve_frames == 1024 && stats.reserve_owned == 300 && stats.reserve_set_aside == 400);
    OK(fwk_reserve_release(memory, 0, id));
    RETURNS(FW_EALREADY, fwk_reserve_release(memory, 0, id));
    OK(fwk_reserve_give_up(memory, 0, id));
    RETURNS(FW_ENOENT, fwk_reserve_give_up(memory, 0, id));
    RETURNS(FW_ENOENT, fwk_reserve_take(memory, 0, id, &taken));
    OK(fwk_reserve_alloc(memory, 0, 900, 1, &first));
    RETURNS(FW_ENOSPC, fwk_reserve_alloc(memory, 0, 900, 1, &taken));
    OK(fwk_reserve_free(memory, 0, first, 400));
    OK(fwk_reserve_free(memory, 0, first + 400, 500));
    RETURNS(FW_EALREADY, fwk_reserve_free(memory, 0, first, 1));

    // Guests have the frames until then.
    static _Alignas(8) unsigned char page[FW_PAGE_BYTES], back[FW_PAGE_BYTES];
    uint32_t clean = 0, dirty = 0;
    OK(fwk_pool_open(memory, 0, FW_POOL_KEEPS, 0, &clean));
    OK(fwk_pool_open(memory, 0, FW_POOL_DIRTY, 100, &dirty));
    for (uint64_t nth = 0; nth < 50; nth++) {
        memset(page, (int)nth, sizeof page);
        page[1] = 0x77; // no page of one word, which needs no frame
        OK(fwk_guest_put(memory, 0, clean, 9, nth, page));
        OK(fwk_guest_put_dirty(memory, 1, dirty, 9, nth, page));
    }
    for (uint64_t nth = 0; nth < 50; nth++) {
        OK(fwk_guest_get(memory, 1, clean, 9, nth, back));
        CHECK(back[0] == nth && back[1] == 0x77 && back[FW_PAGE_BYTES - 1] == nth);
    }
    OK(fwk_guest_drop(memory, 0, clean, 9, 3));
    RETURNS(FW_ENOENT, fwk_guest_get(memory, 0, clean, 9, 3, back));
    OK(fwk_guest_drop_object(memory, 0, clean, 9));
    RETURNS(FW_ENOENT, fwk_guest_get(memory, 0, clean, 9, 4, back));
    uint64_t written = 0, told = 0;
    OK(fwk_guest_clean(memory, 0, 100, write_page, &written, &told));
    CHECK(written == 50 && told == 50);
    OK(fwk_guest_get(memory, 0, dirty, 9, 7, back)); // clean now, and the get takes it away
    CHECK(back[0] == 7);
    RETURNS(FW_ENOENT, fwk_guest_get(memory, 0, dirty, 9, 7, back));
    OK(fwk_reserve_take(memory, 0, other, &first));
    OK(fwk_reserve_release(memory, 0, other));
    OK(fwk_reserve_give_up(memory, 0, other));
    OK(fwk_pool_close(memory, 0, clean));
    RETURNS(FW_ENOENT, fwk_guest_put(memory, 0, clean, 9, 1, page));
}

static unsigned long handled;

// A handler of an interrupt that came in a long call of CPU 0: it calls as CPU 2, and so does what it calls.
static void handler(struct machine *machine)
{
    machine->in_window = NULL;
    void *area = fwk_vmalloc(machine->memory, 2, 100 * FW_PAGE_BYTES, 1, FW_ZERO);
    CHECK(area != NULL);
    OK(fwk_vfree(machine->memory, 2, area));
    OK(fwk_drain(machine->memory, 2));
    OK(fwk_verify(machine->memory, 2));
    handled++;
    machine->in_window = handler;
}

static unsigned char *to_defer[3];
static unsigned long deferred;

// A handler of an interrupt that came anywhere in a call, as CPU `cpu`: it names no CPU, and changes none's last error.
static void defers(struct machine *machine)
{
    struct fwk_memory *memory = machine->memory;
    for (size_t nth = 0; nth < 3; nth++) {
        unsigned char *area = to_defer[nth];
        if (area == NULL)
            continue;
        to_defer[nth] = NULL;
        int last = fwk_last_error(memory, cpu);
        unsigned long calls = machine->maps + machine->unmaps + machine->flushes + machine->relaxes + machine->barriers;
        RETURNS(FW_EINSIDE, fwk_vfree_atomic(memory, area + FW_PAGE_BYTES));
        OK(fwk_vfree_atomic(memory, area));
        RETURNS(FW_EALREADY, fwk_vfree_atomic(memory, area));
        OK(fwk_vfree_atomic(memory, NULL));
        CHECK(calls == machine->maps + machine->unmaps + machine->flushes + machine->relaxes + machine->barriers);
        CHECK(fwk_last_error(memory, cpu) == last);
        CHECK(area[0] == 0x5a && area[3 * FW_PAGE_BYTES - 1] == 0x5a); // it stays mapped
        deferred++;
        return;
    }
}

// Areas to defer, each full of 0x5a.
static void wants_deferred(struct machine *machine)
{
    for (size_t nth = 0; nth < 3; nth++) {
        CHECK((to_defer[nth] = fwk_vmalloc(machine->memory, 0, 3 * FW_PAGE_BYTES, 1, 0)) != NULL);
        memset(to_defer[nth], 0x5a, 3 * FW_PAGE_BYTES);
    }
    deferred = 0;
}

// A handler defers frees from inside calls of its own CPU, and a thread frees the areas later.
static void deferring(int is_full)
{
    struct machine *machine = machine_of(8192, 0, is_full);
    struct fwk_memory *memory = machine->memory;
    uint64_t freed = 7;
    OK(fwk_free_deferred(memory, 0, &freed));
    CHECK(freed == 0);

    wants_deferred(machine);
    unsigned char *mine[3] = {to_defer[0], to_defer[1], to_defer[2]};
    struct fwk_stats before = stats_of(memory);
    machine->in_map = defers;
    void *areas[3];
    for (size_t nth = 0; nth < 3; nth++)
        CHECK((areas[nth] = fwk_vmalloc(memory, 0, 2 * FW_PAGE_BYTES, 1, 0)) != NULL);
    machine->in_map = NULL;
    CHECK(deferred == 3);
    for (size_t nth = 0; nth < 3; nth++)
        OK(fwk_vfree(memory, 0, areas[nth]));
    OK(fwk_verify(memory, 0));
    CHECK(stats_of(memory).live_pages == before.live_pages);
    size_t sums[3] = {0};
    OK(fwk_for_each_area(memory, 0, count_areas, sums));
    CHECK(sums[FW_AREA_VMALLOC] == 0); // none is a caller's
    for (size_t nth = 0; nth < 3; nth++) {
        RETURNS(FW_EALREADY, fwk_vfree(memory, 1, mine[nth]));
        CHECK(mine[nth][FW_PAGE_BYTES] == 0x5a);
    }
    unsigned long unmaps = machine->unmaps;
    uint64_t frees = stats_of(memory).area_frees;
    OK(fwk_free_deferred(memory, 1, &freed)); // another CPU
    CHECK(freed == 3 && stats_of(memory).area_frees == frees + 3 && machine->unmaps > unmaps);
    CHECK(stats_of(memory).live_pages == 0);
    OK(fwk_free_deferred(memory, 0, &freed));
    CHECK(freed == 0);
    for (size_t nth = 0; nth < 3; nth++) {
        CHECK(fwk_vfree_atomic(memory, mine[nth]) < 0);
        CHECK(fwk_vfree(memory, 0, mine[nth]) < 0);
    }

    // A drain frees them, too; and it is not necessary to count them.
    wants_deferred(machine);
    OK(fwk_vfree_atomic(memory, to_defer[0]));
    OK(fwk_drain(memory, 0));
    CHECK(stats_of(memory).live_pages == 2 * 4);
    OK(fwk_vfree_atomic(memory, to_defer[1]));
    OK(fwk_vfree_atomic(memory, to_defer[2]));
    OK(fwk_free_deferred(memory, 0, NULL));
    CHECK(stats_of(memory).live_pages == 0);
    end_empty(machine);
}

int main(void)
{
    for (int is_full = 0; is_full < 2; is_full++) {
        struct machine *machine = machine_of(8192, 1024, is_full);
        CHECK(strcmp(fwk_version(), "0.2.0") == 0);
        frames(machine);
        areas(machine);
        objects(machine);
        percpu(machine);
        reserve(machine);
        CHECK(machine->maps > 0 && machine->unmaps > 0);
        CHECK((machine->flushes > 0) == is_full && (machine->zeroes > 0) == is_full && (machine->copies > 0) == is_full);
        struct fwk_stats stats = stats_of(machine->memory);
        CHECK((stats.lock_acquisitions > 0) == is_full && (stats.lock_hold_ns_max > 0) == is_full);
        CHECK((machine->barriers > 0) == (is_full && has_barrier()));
        end_empty(machine);
    }
    // A freed area is unmapped when its free returns, unless the memory keeps areas.
    for (int keeps = 0; keeps < 2; keeps++) {
        struct machine *machine = machine_with(keeps ? FWK_KEEPS_MAPPED : 0, 8192, 0, 1);
        for (size_t pages = 1; pages < 100; pages *= 3) {
            void *area = fwk_vmalloc(machine->memory, 0, pages * FW_PAGE_BYTES, 1, 0);
            unsigned long unmaps = machine->unmaps;
            CHECK(area != NULL);
            OK(fwk_vfree(machine->memory, 1, area));
            CHECK((machine->unmaps > unmaps) == !keeps);
        }
        CHECK((stats_of(machine->memory).kept_pages > 0) == keeps);
        end_empty(machine);
    }
    // A long call lets interrupts in, and their handlers may do anything as another CPU.
    struct machine *long_calls = machine_of(8192, 0, 1);
    long_calls->in_window = handler;
    void *zeroed = fwk_vmalloc(long_calls->memory, 0, 1024 * FW_PAGE_BYTES, 1, FW_ZERO);
    CHECK(zeroed != NULL && handled > 10);
    OK(fwk_vfree(long_calls->memory, 0, zeroed));
    end_empty(long_calls);
    // Where interrupts come in, a handler without a CPU of its own may still defer; a call that frees what was deferred lets
    // them in between two areas.
    struct machine *windows = machine_of(8192, 0, 1);
    wants_deferred(windows);
    OK(fwk_vfree_atomic(windows->memory, to_defer[0]));
    to_defer[0] = NULL;
    windows->in_window = defers;
    uint64_t freed = 0, all = 0;
    OK(fwk_free_deferred(windows->memory, 0, &all));
    CHECK(all > 0 && deferred > 0);
    for (int turn = 0; turn < 3; turn++, all += freed)
        OK(fwk_free_deferred(windows->memory, 0, &freed));
    CHECK(all == 3 && deferred == 2);
    end_empty(windows);
    deferring(0);
    deferring(1);
    // Several memories at a time know nothing of each other; and a layout without a reserve.
    struct machine *one = machine_of(4096, 0, 1), *two = machine_of(4096, 0, 0);
    void *object = fwk_kmalloc(one->memory, 0, 64, 1, 0);
    RETURNS(FW_EFOREIGN, fwk_kfree(two->memory, 0, object));
    OK(fwk_kfree(one->memory, 0, object));
    uint64_t id = 7;
    RETURNS(FW_ENODEV, fwk_reserve_set_aside(one->memory, 0, "none", 1, 1, &id));
    RETURNS(FW_ENODEV, fwk_reserve_take(one->memory, 0, 1, &id));
    RETURNS(FW_ENODEV, fwk_reserve_alloc(one->memory, 0, 1, 1, &id));
    RETURNS(FW_ENODEV, fwk_guest_drop(one->memory, 0, 0, 1, 1));
    CHECK(id == 7);
    end_empty(one);
    end_empty(two);
    return 0;
}
