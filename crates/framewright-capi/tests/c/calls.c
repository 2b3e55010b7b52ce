// Each function, as it is meant.
#include "check.h"
#include <errno.h>
#include <unistd.h>

static void options_and_hosts(void)
{
    struct fw_options options;
    memset(&options, 0xff, sizeof options);
    OK(fw_options_init(&options, sizeof options));
    CHECK(options.struct_bytes == sizeof options && options.threads == 63);
    CHECK(options.memory_bytes == 256u << 20 && options.window_bytes == 0 && options.reserve_bytes == 0);

    // A program of a later version: its fields are zero, or refused.
    struct {
        struct fw_options known;
        uint64_t later[2];
    } larger;
    memset(&larger, 0xff, sizeof larger);
    OK(fw_options_init(&larger.known, sizeof larger));
    CHECK(larger.known.struct_bytes == sizeof larger && larger.later[0] == 0 && larger.later[1] == 0);
    struct fw_host *host = NULL;
    OK(fw_host_new(&larger.known, &host));
    OK(fw_host_free(host));
    larger.later[1] = 1;
    struct fw_host *none = NULL;
    RETURNS(FW_E2BIG, fw_host_new(&larger.known, &none));
    CHECK(none == NULL);

    // The defaults, and several at once, which know nothing of each other.
    struct fw_host *hosts[3];
    for (int nth = 0; nth < 3; nth++)
        OK(fw_host_new(NULL, &hosts[nth]));
    CHECK(hosts[0] != hosts[1] && hosts[1] != hosts[2] && hosts[0] != hosts[2]);
    void *area = fw_vmalloc(hosts[0], 1);
    CHECK(area != NULL);
    RETURNS(FW_EFOREIGN, fw_vfree(hosts[1], area));
    OK(fw_vfree(hosts[0], area));
    for (int nth = 0; nth < 3; nth++)
        end_empty(hosts[nth]);
    OK(fw_host_free(NULL));

    CHECK(strcmp(fw_version(), "") != 0);
    CHECK(strcmp(fw_strerror(FW_ENOMEM), fw_strerror(FW_OK)) != 0);
    CHECK(strcmp(fw_strerror(12345), fw_strerror(-54321)) == 0);
}

static int is_filled(const unsigned char *at, size_t bytes, int with)
{
    for (size_t nth = 0; nth < bytes; nth++)
        if (at[nth] != with)
            return 0;
    return 1;
}

static void areas(void)
{
    struct fw_host *host = host_of(64 << 20, 2, 0);
    // Lengths that are no whole pages have all of the last one.
    for (size_t bytes = 1; bytes <= 3 << 20; bytes = bytes * 3 + 1) {
        unsigned char *area = fw_vmalloc(host, bytes);
        CHECK(area != NULL && (uintptr_t)area % FW_PAGE_BYTES == 0);
        memset(area, 0xa5, (bytes + FW_PAGE_BYTES - 1) / FW_PAGE_BYTES * FW_PAGE_BYTES);
        unsigned char *other = fw_vzalloc(host, bytes);
        CHECK(other != NULL && is_filled(other, bytes, 0) && is_filled(area, bytes, 0xa5));
        OK(fw_vfree(host, area));
        memset(other, 0x5a, bytes);
        OK(fw_vfree(host, other));
    }
    for (size_t align = 1; align <= 64 << 20; align *= 2) {
        unsigned char *area = fw_vmalloc_aligned(host, 5000, align);
        CHECK(area != NULL && (uintptr_t)area % align == 0);
        memset(area, 1, 5000);
        OK(fw_vfree(host, area));
    }
    OK(fw_vfree(host, NULL));
    end_empty(host);
}

static void frames_and_map_ram(void)
{
    struct fw_host *host = host_of(64 << 20, 2, 0);
    uint64_t frames[100];
    for (int nth = 0; nth < 100; nth++) {
        OK(fw_frame_alloc(host, 0, nth % 3, &frames[nth]));
        unsigned char *at = fw_frame_address(host, frames[nth]);
        CHECK(at != NULL);
        memset(at, nth, FW_PAGE_BYTES);
        uint64_t same = 0;
        OK(fw_frame_of(host, at + 77, &same));
        CHECK(same == frames[nth]);
    }
    // The same frames at other addresses, in the other order.
    uint64_t backwards[100];
    for (int nth = 0; nth < 100; nth++)
        backwards[nth] = frames[99 - nth];
    unsigned char *area = fw_map_ram(host, backwards, 100);
    CHECK(area != NULL);
    for (int nth = 0; nth < 100; nth++) {
        CHECK(is_filled(area + (size_t)nth * FW_PAGE_BYTES, FW_PAGE_BYTES, 99 - nth));
        uint64_t same = 0;
        OK(fw_frame_of(host, area + (size_t)nth * FW_PAGE_BYTES, &same));
        CHECK(same == backwards[nth]);
    }
    area[0] = 200;
    CHECK(*(unsigned char *)fw_frame_address(host, backwards[0]) == 200);
    RETURNS(FW_ELENGTH, fw_unmap_ram(host, area, 99));
    RETURNS(FW_EKIND, fw_vfree(host, area));
    OK(fw_unmap_ram(host, area, 100));
    RETURNS(FW_EALREADY, fw_unmap_ram(host, area, 100));
    OK(fw_unmap_ram(host, NULL, 1));
    for (int nth = 0; nth < 100; nth++)
        OK(fw_frame_free(host, frames[nth], 0));

    // Blocks, and runs of any length.
    for (unsigned order = 0; order <= 10; order++) {
        uint64_t block = 0;
        OK(fw_frame_alloc(host, order, FW_UNMOVABLE, &block));
        CHECK(block % (1u << order) == 0);
        memset(fw_frame_address(host, block), 1, (size_t)FW_PAGE_BYTES << order);
        OK(fw_frame_free(host, block, order));
        RETURNS(FW_EALREADY, fw_frame_free(host, block, order));
    }
    uint64_t run = 0;
    OK(fw_run_alloc(host, 1537, 512, FW_UNMOVABLE, &run));
    CHECK(run % 512 == 0);
    memset(fw_frame_address(host, run), 1, (size_t)1537 * FW_PAGE_BYTES);
    OK(fw_run_free(host, run + 1000, 537));
    OK(fw_run_free(host, run, 1000));
    end_empty(host);
}

static void objects(void)
{
    struct fw_host *host = host_of(64 << 20, 2, 0);
    for (size_t bytes = 1; bytes <= 4 << 20; bytes = bytes * 2 + 3) {
        unsigned char *one = fw_kmalloc(host, bytes), *other = fw_kzalloc(host, bytes);
        CHECK(one != NULL && other != NULL && is_filled(other, bytes, 0));
        CHECK((uintptr_t)one % 16 == 0 && (uintptr_t)other % 16 == 0);
        memset(one, 1, bytes);
        CHECK(is_filled(other, bytes, 0));
        size_t room = 0;
        OK(fw_kvsize(host, one, &room));
        CHECK(room >= bytes);
        OK(fw_kfree(host, one));
        OK(fw_kvfree(host, other));
    }
    // Larger than any block: mapped pages.
    unsigned char *large = fw_kvzalloc(host, 9 << 20);
    CHECK(large != NULL && is_filled(large, 9 << 20, 0));
    memset(large, 3, 9 << 20);
    RETURNS(FW_EKIND, fw_kfree(host, large));
    // It changes its length, and its kind, and keeps its bytes.
    large = fw_kvrealloc(host, large, 12 << 20);
    CHECK(large != NULL && is_filled(large, 9 << 20, 3));
    large = fw_kvrealloc(host, large, 100);
    CHECK(large != NULL && is_filled(large, 100, 3));
    unsigned char *made = fw_kvrealloc(host, NULL, 64);
    CHECK(made != NULL);
    REFUSES(FW_EINVAL, fw_kvrealloc(host, made, 0));
    OK(fw_kvfree(host, made));
    OK(fw_kvfree(host, large));
    OK(fw_kfree(host, NULL));
    OK(fw_kvfree(host, NULL));
    end_empty(host);
}

static void reservations(void)
{
    struct fw_host *host = host_of(16 << 20, 2, 64 << 20);
    uint64_t one = 0, other = 0, frame = 0;
    OK(fw_reserve_set_aside(host, "guest", 16 << 20, 2 << 20, &one));
    OK(fw_reserve_set_aside(host, "camera", 5 << 20, 1, &other));
    CHECK(one != other);
    struct fw_stats stats = stats_of(host);
    CHECK(stats.reserve_frames == (64 << 20) / FW_PAGE_BYTES && stats.reserve_owned == 0);
    CHECK(stats.reserve_set_aside == (21 << 20) / FW_PAGE_BYTES);

    for (int turn = 0; turn < 3; turn++) {
        unsigned char *memory = fw_reserve_take(host, one, &frame);
        CHECK(memory != NULL && frame % 512 == 0 && memory == fw_frame_address(host, frame));
        memset(memory, turn, 16 << 20);
        // Behind other addresses, too.
        uint64_t two[2] = {frame + 4095, frame};
        unsigned char *area = fw_map_ram(host, two, 2);
        CHECK(area != NULL && is_filled(area, 2 * FW_PAGE_BYTES, turn));
        OK(fw_unmap_ram(host, area, 2));
        REFUSES(FW_EBUSY, fw_reserve_take(host, one, NULL));
        RETURNS(FW_EBUSY, fw_reserve_give_up(host, one));
        OK(fw_reserve_release(host, one));
        RETURNS(FW_EALREADY, fw_reserve_release(host, one));
    }
    unsigned char *plain = fw_reserve_alloc(host, 3 << 20, 1 << 20, &frame);
    CHECK(plain != NULL && frame % 256 == 0);
    memset(plain, 1, 3 << 20);
    REFUSES(FW_ENOSPC, fw_reserve_alloc(host, 60 << 20, 1, NULL));
    RETURNS(FW_EALREADY, fw_reserve_free(host, plain, 4 << 20));
    OK(fw_reserve_free(host, plain + (1 << 20), 2 << 20));
    OK(fw_reserve_free(host, plain, 1 << 20));
    RETURNS(FW_EALREADY, fw_reserve_free(host, plain, 1 << 20));
    OK(fw_reserve_give_up(host, one));
    RETURNS(FW_ENOENT, fw_reserve_give_up(host, one));
    REFUSES(FW_ENOENT, fw_reserve_take(host, one, NULL));
    RETURNS(FW_ENOENT, fw_reserve_release(host, one));
    OK(fw_reserve_give_up(host, other));

    // As many as can be remembered.
    uint64_t many[64];
    for (int nth = 0; nth < 64; nth++)
        OK(fw_reserve_set_aside(host, "many", 1, 1, &many[nth]));
    RETURNS(FW_ENOSPC, fw_reserve_set_aside(host, "more", 1, 1, &one));
    for (int nth = 0; nth < 64; nth++)
        OK(fw_reserve_give_up(host, many[nth]));
    end_empty(host);

    host = host_of(16 << 20, 2, 0);
    RETURNS(FW_ENODEV, fw_reserve_set_aside(host, "none", 1, 1, &one));
    REFUSES(FW_ENODEV, fw_reserve_alloc(host, 1, 1, NULL));
    end_empty(host);
}

struct listing {
    struct fw_host *host;
    int count, most, reentries;
    size_t bytes[2];
};

static int each(void *argument, void *area, size_t bytes, int kind)
{
    struct listing *listing = argument;
    CHECK(area != NULL && (kind == FW_AREA_VMALLOC || kind == FW_AREA_MAP_RAM));
    listing->bytes[kind == FW_AREA_MAP_RAM] += bytes;
    // The library is busy: each call is refused, and changes nothing.
    REFUSES(FW_EREENTRY, fw_vmalloc(listing->host, 1));
    RETURNS(FW_EREENTRY, fw_vfree(listing->host, area));
    RETURNS(FW_EREENTRY, fw_drain(listing->host));
    RETURNS(FW_EREENTRY, fw_host_free(listing->host));
    listing->reentries += 4;
    return ++listing->count == listing->most;
}

static void listings(void)
{
    struct fw_host *host = host_of(16 << 20, 2, 0);
    void *areas[5];
    for (int nth = 0; nth < 5; nth++)
        CHECK((areas[nth] = fw_vmalloc(host, (size_t)(nth + 1) * FW_PAGE_BYTES)) != NULL);
    uint64_t frame = 0;
    OK(fw_frame_alloc(host, 0, FW_MOVABLE, &frame));
    void *mapped = fw_map_ram(host, &frame, 1);
    CHECK(mapped != NULL);
    struct listing all = {.host = host, .most = 100};
    OK(fw_for_each_area(host, each, &all));
    CHECK(all.count == 6 && all.reentries == 24);
    CHECK(all.bytes[0] == 15 * FW_PAGE_BYTES && all.bytes[1] == FW_PAGE_BYTES);
    struct listing some = {.host = host, .most = 2};
    OK(fw_for_each_area(host, each, &some));
    CHECK(some.count == 2);
    RETURNS(FW_EINVAL, fw_for_each_area(host, NULL, NULL));
    for (int nth = 0; nth < 5; nth++)
        OK(fw_vfree(host, areas[nth]));
    OK(fw_unmap_ram(host, mapped, 1));
    OK(fw_frame_free(host, frame, 0));
    struct listing none = {.host = host, .most = 100};
    OK(fw_for_each_area(host, each, &none));
    CHECK(none.count == 0);
    end_empty(host);
}

// Whether a byte can be read: the kernel looks, so that no signal comes.
static int is_readable(const void *byte)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    ssize_t written = write(ends[1], byte, 1);
    CHECK(written == 1 || errno == EFAULT);
    close(ends[0]);
    close(ends[1]);
    return written == 1;
}

// A freed area is unmapped when its free returns, unless the host keeps areas.
static void modes(void)
{
    for (uint64_t keeps = 0; keeps < 2; keeps++) {
        struct fw_options options;
        OK(fw_options_init(&options, sizeof options));
        options.memory_bytes = 16 << 20;
        options.keeps_mapped = keeps;
        struct fw_host *host = NULL;
        OK(fw_host_new(&options, &host));
        for (size_t pages = 1; pages < 200; pages *= 3) {
            char *area = fw_vmalloc(host, pages * FW_PAGE_BYTES);
            CHECK(area != NULL && is_readable(area));
            OK(fw_vfree(host, area));
            CHECK(is_readable(area) == (int)keeps);
            CHECK(is_readable(area + (pages - 1) * FW_PAGE_BYTES) == (int)keeps);
        }
        CHECK((stats_of(host).kept_pages != 0) == (int)keeps);
        OK(fw_drain(host));
        OK(fw_host_free(host));
        options.keeps_mapped = 2;
        RETURNS(FW_EINVAL, fw_host_new(&options, &host));
    }
}

static void statistics(void)
{
    struct fw_host *host = host_of(16 << 20, 2, 0);
    void *area = fw_vmalloc(host, 3 * FW_PAGE_BYTES), *object = fw_kmalloc(host, 100);
    struct fw_stats stats = stats_of(host);
    CHECK(stats.struct_bytes == sizeof stats && stats.frames == (16 << 20) / FW_PAGE_BYTES);
    CHECK(stats.area_allocs == 1 && stats.area_frees == 0 && stats.live_pages == 4);
    CHECK(stats.object_allocs == 1 && stats.object_frees == 0 && stats.slab_frames > 0);
    CHECK(stats.threads_max == 2 && stats.threads == 1 && stats.shared_calls == 0);
    OK(fw_vfree(host, area));
    OK(fw_kfree(host, object));
    RETURNS(FW_EALREADY, fw_kfree(host, object));
    stats = stats_of(host);
    CHECK(stats.area_frees == 1 && stats.kept_pages == 0 && stats.object_frees == 1 && stats.bad_frees == 1);
    // A shorter structure of some other version is written as far as it goes.
    struct {
        struct fw_stats stats;
        uint64_t behind;
    } larger;
    memset(&larger, 0xff, sizeof larger);
    larger.stats.struct_bytes = sizeof larger;
    OK(fw_stats(host, &larger.stats));
    CHECK(larger.behind == 0 && larger.stats.struct_bytes == sizeof larger);
    larger.stats.struct_bytes = 8;
    RETURNS(FW_EINVAL, fw_stats(host, &larger.stats));
    RETURNS(FW_EINVAL, fw_stats(host, NULL));
    end_empty(host);
}

static void parts(void)
{
    struct fw_host *host = host_of(16 << 20, 2, 0);
    uint64_t frame = 0;
    OK(fw_frame_alloc(host, 4, FW_MOVABLE, &frame));
    OK(fw_frame_split(host, frame, 4, 1));
    RETURNS(FW_ELENGTH, fw_frame_free(host, frame, 4));
    for (uint64_t nth = 0; nth < 16; nth += 2)
        OK(fw_frame_free(host, frame + nth, 1));
    CHECK(fw_frame_split(host, frame, 4, 1) < 0);
    OK(fw_frame_alloc(host, 4, FW_MOVABLE, &frame));
    CHECK(fw_frame_split(host, frame, 4, 5) < 0);
    RETURNS(FW_EFBIG, fw_frame_split(host, frame, 4, 300));
    for (uint64_t nth = 0; nth < 16; nth++) // frame by frame, without its order
        OK(fw_frame_free_part(host, frame + nth, 0));
    CHECK(fw_frame_free_part(host, frame, 0) < 0);
    end_empty(host);
}

// What only an area can be asked for: a guard page before it, and a beginning that allows large entries.
static void areas_of_a_shape(void)
{
    struct fw_host *host = host_of(16 << 20, 2, 0);
    char *areas[16];
    for (int nth = 0; nth < 16; nth++)
        CHECK((areas[nth] = fw_vmalloc_with(host, FW_PAGE_BYTES, 1, nth % 2 ? FW_GUARD_BEFORE : 0)) != NULL);
    for (int nth = 1; nth < 16; nth += 2) // the page, the guard behind its neighbour, and its own
        for (int other = 0; other < 16; other++)
            CHECK(areas[nth] <= areas[other] || areas[nth] - areas[other] >= 3 * FW_PAGE_BYTES);
    void *plain = fw_vmalloc(host, 2 << 20), *large = fw_vmalloc_with(host, 2 << 20, 1, FW_HUGE | FW_ZERO);
    CHECK(plain != NULL && large != NULL);
    CHECK((uintptr_t)plain % (2 << 20) != 0 && (uintptr_t)large % (2 << 20) == 0);
    for (int nth = 0; nth < 16; nth++)
        OK(fw_vfree(host, areas[nth]));
    OK(fw_vfree(host, plain));
    OK(fw_vfree(host, large));
    REFUSES(FW_EINVAL, fw_kmalloc_with(host, 1, 1, FW_GUARD_BEFORE));
    REFUSES(FW_EINVAL, fw_kvmalloc_with(host, 3 << 20, 1, FW_HUGE));
    end_empty(host);
}

static void flags(void)
{
    struct fw_host *host = host_of(16 << 20, 2, 0);
    unsigned char *area = fw_vmalloc_with(host, 3 * FW_PAGE_BYTES, 1 << 16, FW_ZERO | FW_NOWAIT);
    CHECK(area != NULL && (uintptr_t)area % (1 << 16) == 0);
    unsigned char *object = fw_kmalloc_with(host, 100, 1024, FW_ZERO | FW_NOIO);
    CHECK(object != NULL && (uintptr_t)object % 1024 == 0);
    unsigned char *either = fw_kvmalloc_with(host, 10000, 1, FW_ZERO | FW_NOWAIT);
    CHECK(either != NULL);
    for (size_t nth = 0; nth < 10000; nth++)
        CHECK(either[nth] == 0 && area[nth] == 0 && object[nth % 100] == 0);
    uint64_t frame = 0, first = 0;
    OK(fw_frame_alloc_with(host, 2, FW_UNMOVABLE, FW_NOWAIT, &frame));
    OK(fw_run_alloc_with(host, 3, 1, FW_MOVABLE, FW_NOWAIT | FW_NOFS, &first));
    void *mapped = fw_map_ram_with(host, &frame, 1, FW_NOWAIT);
    CHECK(mapped != NULL);
    // Flags that do not exist, and zeroes where there are no contents.
    REFUSES(FW_EINVAL, fw_vmalloc_with(host, 1, 1, 1 << 20));
    REFUSES(FW_EINVAL, fw_kmalloc_with(host, 1, 1, 1 << 20));
    REFUSES(FW_EINVAL, fw_kmalloc_with(host, 1, 3, 0));
    REFUSES(FW_EINVAL, fw_kvmalloc_with(host, 1, 1, 1 << 20));
    REFUSES(FW_EINVAL, fw_map_ram_with(host, &frame, 1, FW_ZERO));
    uint64_t unchanged = 7;
    RETURNS(FW_EINVAL, fw_frame_alloc_with(host, 0, FW_MOVABLE, FW_ZERO, &unchanged));
    RETURNS(FW_EINVAL, fw_run_alloc_with(host, 1, 1, FW_MOVABLE, 1 << 20, &unchanged));
    // A run that no block has is found by a search, which must not be made.
    RETURNS(FW_EAGAIN, fw_run_alloc_with(host, 1025, 1, FW_MOVABLE, FW_NOWAIT, &unchanged));
    CHECK(unchanged == 7);
    OK(fw_run_alloc(host, 1025, 1, FW_MOVABLE, &unchanged));
    OK(fw_run_free(host, unchanged, 1025));
    OK(fw_unmap_ram(host, mapped, 1));
    OK(fw_frame_free(host, frame, 2));
    OK(fw_run_free(host, first, 3));
    OK(fw_kvfree(host, either));
    OK(fw_kfree(host, object));
    OK(fw_vfree(host, area));
    end_empty(host);
}

struct shared_seat {
    struct fw_host *host;
    pthread_barrier_t is_inside, may_leave;
};

static int stay(void *argument, void *area, size_t bytes, int kind)
{
    struct shared_seat *seat = argument;
    (void)area, (void)bytes, (void)kind;
    pthread_barrier_wait(&seat->is_inside);
    pthread_barrier_wait(&seat->may_leave);
    return 1;
}

static void *stays(void *argument)
{
    struct shared_seat *seat = argument;
    OK(fw_for_each_area(seat->host, stay, seat));
    return NULL;
}

static void *does_not_wait(void *argument)
{
    struct shared_seat *seat = argument;
    REFUSES(FW_EAGAIN, fw_vmalloc_with(seat->host, 1, 1, FW_NOWAIT));
    uint64_t frame = 0;
    RETURNS(FW_EAGAIN, fw_frame_alloc_with(seat->host, 0, FW_MOVABLE, FW_NOWAIT, &frame));
    return NULL;
}

// A call that must not wait does not wait for a thread in the shared seat either.
static void nowait_in_the_shared_seat(void)
{
    struct shared_seat seat = {.host = host_of(16 << 20, 1, 0)};
    void *area = fw_vmalloc(seat.host, 1); // the one seat of a thread's own is this thread's now
    CHECK(area != NULL);
    pthread_barrier_init(&seat.is_inside, NULL, 2);
    pthread_barrier_init(&seat.may_leave, NULL, 2);
    pthread_t stayer, other;
    CHECK(pthread_create(&stayer, NULL, stays, &seat) == 0);
    pthread_barrier_wait(&seat.is_inside);
    CHECK(pthread_create(&other, NULL, does_not_wait, &seat) == 0);
    CHECK(pthread_join(other, NULL) == 0);
    pthread_barrier_wait(&seat.may_leave);
    CHECK(pthread_join(stayer, NULL) == 0);
    OK(fw_vfree(seat.host, area));
    end_empty(seat.host);
}

struct device {
    struct fw_host *host;
    unsigned written, reentries;
    int refuses;
};

static int write_page(void *argument, uint32_t pool, uint64_t object, uint64_t index, const void *page)
{
    struct device *device = argument;
    CHECK(object == 9 && *(const unsigned char *)page == (unsigned char)index);
    device->reentries += fw_guest_drop(device->host, pool, object, index) == FW_EREENTRY;
    device->written += !device->refuses;
    return device->refuses;
}

static void guests(void)
{
    struct fw_host *host = host_of(16 << 20, 2, 4 << 20);
    static _Alignas(8) unsigned char page[FW_PAGE_BYTES], back[FW_PAGE_BYTES];
    uint32_t clean = 0, kept = 0, dirty = 0, unchanged = 7;
    OK(fw_pool_open(host, 0, 0, &clean));
    OK(fw_pool_open(host, FW_POOL_KEEPS, 0, &kept));
    OK(fw_pool_open(host, FW_POOL_KEEPS | FW_POOL_DIRTY, 4, &dirty));
    CHECK(clean != kept && kept != dirty && clean != dirty);
    RETURNS(FW_EINVAL, fw_pool_open(host, 4, 0, &unchanged));
    RETURNS(FW_EINVAL, fw_pool_open(host, 0, 0, NULL));
    CHECK(unchanged == 7);

    memset(page, 0xa5, sizeof page);
    OK(fw_guest_put(host, clean, 1, 2, page));
    OK(fw_guest_put(host, kept, 1, 2, page));
    memset(page, 0, sizeof page); // a copy was put
    OK(fw_guest_get(host, clean, 1, 2, back));
    CHECK(back[0] == 0xa5 && back[FW_PAGE_BYTES - 1] == 0xa5);
    RETURNS(FW_ENOENT, fw_guest_get(host, clean, 1, 2, back)); // the get took it away
    OK(fw_guest_get(host, kept, 1, 2, back));
    OK(fw_guest_get(host, kept, 1, 2, back));
    OK(fw_guest_drop(host, kept, 1, 2));
    RETURNS(FW_ENOENT, fw_guest_get(host, kept, 1, 2, back));
    for (uint64_t nth = 0; nth < 8; nth++)
        OK(fw_guest_put(host, kept, 3, nth, page));
    OK(fw_guest_drop_object(host, kept, 3));
    for (uint64_t nth = 0; nth < 8; nth++)
        RETURNS(FW_ENOENT, fw_guest_get(host, kept, 3, nth, back));

    // Pages that are on no device yet: a budget, write-back, and no owner gets their frames before.
    RETURNS(FW_ENOENT, fw_guest_put_dirty(host, clean, 9, 0, page));
    for (uint64_t nth = 0; nth < 4; nth++) {
        memset(page, (int)nth, sizeof page);
        page[1] = 0x77; // no page of one word, which needs no frame
        OK(fw_guest_put_dirty(host, dirty, 9, nth, page));
    }
    RETURNS(FW_ENOSPC, fw_guest_put_dirty(host, dirty, 9, 4, page));
    REFUSES(FW_ENOSPC, fw_reserve_alloc(host, 4 << 20, 1, NULL));
    struct device device = {.host = host, .refuses = 1};
    uint64_t written = 7;
    OK(fw_guest_clean(host, 100, write_page, &device, &written));
    CHECK(written == 0 && device.reentries == 4);
    device.refuses = 0;
    OK(fw_guest_clean(host, 3, write_page, &device, &written));
    CHECK(written == 3 && device.written == 3);
    OK(fw_guest_clean(host, 100, write_page, &device, NULL));
    CHECK(device.written == 4);
    RETURNS(FW_EINVAL, fw_guest_clean(host, 1, NULL, NULL, NULL));
    // Now the owner gets all of it, and the guests' pages are gone.
    void *all = fw_reserve_alloc(host, 4 << 20, 1, NULL);
    CHECK(all != NULL);
    RETURNS(FW_ENOENT, fw_guest_get(host, dirty, 9, 0, back));
    RETURNS(FW_ENOSPC, fw_guest_put(host, clean, 1, 1, (memset(page, 1, 9), page)));
    OK(fw_reserve_free(host, all, 4 << 20));

    RETURNS(FW_EINVAL, fw_guest_put(host, clean, 1, 1, NULL));
    RETURNS(FW_EINVAL, fw_guest_put(host, clean, 1, 1, page + 4));
    RETURNS(FW_EINVAL, fw_guest_get(host, clean, 1, 1, page + 4));
    RETURNS(FW_ENOENT, fw_guest_put(host, 70000, 1, 1, page));
    RETURNS(FW_ENOENT, fw_guest_put(host, 500, 1, 1, page));
    OK(fw_pool_close(host, kept));
    RETURNS(FW_ENOENT, fw_pool_close(host, kept));
    RETURNS(FW_ENOENT, fw_guest_put(host, kept, 1, 1, page));
    end_empty(host);

    host = host_of(16 << 20, 2, 0);
    RETURNS(FW_ENODEV, fw_pool_open(host, 0, 0, &unchanged));
    RETURNS(FW_ENODEV, fw_guest_put(host, 0, 1, 1, page));
    RETURNS(FW_ENODEV, fw_guest_get(host, 0, 1, 1, back));
    RETURNS(FW_ENODEV, fw_guest_drop(host, 0, 1, 1));
    end_empty(host);
}

int main(void)
{
    parts();
    areas_of_a_shape();
    flags();
    nowait_in_the_shared_seat();
    guests();
    options_and_hosts();
    areas();
    frames_and_map_ram();
    objects();
    reservations();
    listings();
    modes();
    statistics();
    return 0;
}
