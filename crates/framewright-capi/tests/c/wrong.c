// Wrong calls are errors, and change nothing: foreign pointers, double frees, stale handles, numbers out of range.
#include "check.h"

static void arguments(void)
{
    struct fw_options options;
    struct fw_host *host = NULL;
    RETURNS(FW_EINVAL, fw_options_init(NULL, sizeof options));
    RETURNS(FW_EINVAL, fw_options_init(&options, 8));
    RETURNS(FW_EINVAL, fw_host_new(NULL, NULL));
    OK(fw_options_init(&options, sizeof options));
    struct fw_options bad = options;
    bad.struct_bytes = 0;
    RETURNS(FW_EINVAL, fw_host_new(&bad, &host));
    bad = options, bad.threads = 0;
    RETURNS(FW_EINVAL, fw_host_new(&bad, &host));
    bad = options, bad.threads = 1023;
    RETURNS(FW_EINVAL, fw_host_new(&bad, &host));
    bad = options, bad.threads = 70000;
    RETURNS(FW_EINVAL, fw_host_new(&bad, &host));
    bad = options, bad.memory_bytes = 0;
    RETURNS(FW_EINVAL, fw_host_new(&bad, &host));
    bad = options, bad.memory_bytes = FW_PAGE_BYTES * 60;
    RETURNS(FW_EINVAL, fw_host_new(&bad, &host));
    bad = options, bad.memory_bytes += 1;
    RETURNS(FW_EINVAL, fw_host_new(&bad, &host));
    bad = options, bad.reserve_bytes = 100;
    RETURNS(FW_EINVAL, fw_host_new(&bad, &host));
    bad = options, bad.window_bytes = (uint64_t)4 << 40;
    RETURNS(FW_EINVAL, fw_host_new(&bad, &host));
    bad = options, bad.memory_bytes = UINT64_MAX / FW_PAGE_BYTES * FW_PAGE_BYTES;
    CHECK(fw_host_new(&bad, &host) < 0);
    bad = options, bad.memory_bytes = (uint64_t)1 << 60;
    CHECK(fw_host_new(&bad, &host) < 0);
    CHECK(host == NULL);
}

static void handles(void)
{
    struct fw_host *host = host_of(16 << 20, 2, 0);
    struct fw_host *not_hosts[] = {NULL, (void *)1, (void *)0xff, (void *)(uintptr_t)-1, (void *)&host,
                                   (void *)((uintptr_t)host + 256), (void *)((uintptr_t)host + 1)};
    for (size_t nth = 0; nth < sizeof not_hosts / sizeof *not_hosts; nth++) {
        struct fw_host *not = not_hosts[nth];
        REFUSES(FW_EHANDLE, fw_vmalloc(not, 1));
        RETURNS(FW_EHANDLE, fw_vfree(not, (void *)FW_PAGE_BYTES));
        RETURNS(FW_EHANDLE, fw_drain(not));
        if (not != NULL)
            RETURNS(FW_EHANDLE, fw_host_free(not));
    }
    void *area = fw_vmalloc(host, 1);
    CHECK(area != NULL);
    OK(fw_host_free(host)); // with an area in it
    REFUSES(FW_EHANDLE, fw_vmalloc(host, 1));
    RETURNS(FW_EHANDLE, fw_vfree(host, area));
    RETURNS(FW_EHANDLE, fw_host_free(host));
    // A later host has another handle, also where its entry is the same.
    for (int turn = 0; turn < 60; turn++) {
        struct fw_host *later = host_of(1 << 20, 1 + turn % 7, 0);
        CHECK(later != host);
        CHECK(fw_kmalloc(later, 10) != NULL);
        REFUSES(FW_EHANDLE, fw_kmalloc(host, 10));
        OK(fw_host_free(later));
    }
    // As many as there can be, and one more.
    static struct fw_host *many[256];
    struct fw_options options;
    OK(fw_options_init(&options, sizeof options));
    options.memory_bytes = 1 << 20, options.window_bytes = 1 << 20, options.threads = 1;
    for (int nth = 0; nth < 255; nth++) {
        OK(fw_host_new(&options, &many[nth]));
        // A thread remembers some of them only.
        void *object = fw_kmalloc(many[nth], 100);
        CHECK(object != NULL);
        OK(fw_kfree(many[nth / 2], nth / 2 == nth ? object : fw_kmalloc(many[nth / 2], 8)));
        if (nth / 2 != nth)
            OK(fw_kfree(many[nth], object));
    }
    RETURNS(FW_ENOSPC, fw_host_new(&options, &many[255]));
    for (int nth = 0; nth < 255; nth++)
        if (nth % 8 == 0)
            end_empty(many[nth]);
        else
            OK(fw_host_free(many[nth]));
}

static void sizes(void)
{
    struct fw_host *host = host_of(16 << 20, 2, 8 << 20);
    size_t huge[] = {(size_t)1 << 40, SIZE_MAX / 2, SIZE_MAX / 2 + 2, SIZE_MAX - 4095, SIZE_MAX};
    for (size_t nth = 0; nth < sizeof huge / sizeof *huge; nth++) {
        REFUSES(FW_EFBIG, fw_vmalloc(host, huge[nth]));
        REFUSES(FW_EFBIG, fw_vzalloc(host, huge[nth]));
        REFUSES(FW_EFBIG, fw_kmalloc(host, huge[nth]));
        REFUSES(FW_EFBIG, fw_kvmalloc(host, huge[nth]));
        CHECK(fw_reserve_alloc(host, huge[nth], 1, NULL) == NULL);
    }
    // More than there is, but not more than can be numbered.
    REFUSES(FW_EFBIG, fw_vmalloc(host, 17 << 20));
    REFUSES(FW_EFBIG, fw_kmalloc(host, 5 << 20));
    REFUSES(FW_EINVAL, fw_vmalloc(host, 0));
    REFUSES(FW_EINVAL, fw_vzalloc(host, 0));
    REFUSES(FW_EINVAL, fw_kmalloc(host, 0));
    REFUSES(FW_EINVAL, fw_kzalloc(host, 0));
    REFUSES(FW_EINVAL, fw_kvmalloc(host, 0));
    REFUSES(FW_EINVAL, fw_kvzalloc(host, 0));
    REFUSES(FW_EINVAL, fw_reserve_alloc(host, 0, 1, NULL));
    size_t aligns[] = {0, 3, 4097, SIZE_MAX};
    for (size_t nth = 0; nth < sizeof aligns / sizeof *aligns; nth++) {
        REFUSES(FW_EINVAL, fw_vmalloc_aligned(host, 1, aligns[nth]));
        REFUSES(FW_EINVAL, fw_reserve_alloc(host, 1, aligns[nth], NULL));
    }
    CHECK(fw_vmalloc_aligned(host, 1, (size_t)1 << 63) == NULL);
    uint64_t frame = 7;
    RETURNS(FW_EFBIG, fw_frame_alloc(host, 11, FW_MOVABLE, &frame));
    RETURNS(FW_EFBIG, fw_frame_alloc(host, 300, FW_MOVABLE, &frame));
    RETURNS(FW_EINVAL, fw_frame_alloc(host, 0, 3, &frame));
    RETURNS(FW_EINVAL, fw_frame_alloc(host, 0, -1, &frame));
    RETURNS(FW_EINVAL, fw_frame_alloc(host, 0, FW_MOVABLE, NULL));
    RETURNS(FW_EINVAL, fw_frame_alloc(host, 0, FW_MOVABLE, (uint64_t *)((char *)&frame + 1)));
    RETURNS(FW_EINVAL, fw_run_alloc(host, 0, 1, FW_MOVABLE, &frame));
    RETURNS(FW_EINVAL, fw_run_alloc(host, 1, 3, FW_MOVABLE, &frame));
    RETURNS(FW_EFBIG, fw_run_alloc(host, (uint64_t)1 << 50, 1, FW_MOVABLE, &frame));
    RETURNS(FW_EINVAL, fw_run_free(host, 5, 0));
    RETURNS(FW_EINVAL, fw_run_free(host, UINT64_MAX, 2));
    CHECK(frame == 7);
    REFUSES(FW_EINVAL, fw_map_ram(host, NULL, 1));
    REFUSES(FW_EINVAL, fw_map_ram(host, &frame, 0));
    REFUSES(FW_EINVAL, fw_map_ram(host, &frame, SIZE_MAX));
    uint64_t outside[2] = {0, 1 << 20};
    REFUSES(FW_EFOREIGN, fw_map_ram(host, outside, 2));
    REFUSES(FW_EFOREIGN, fw_frame_address(host, 1 << 20));
    uint64_t id = 7;
    RETURNS(FW_EINVAL, fw_reserve_set_aside(host, NULL, 1, 1, &id));
    RETURNS(FW_EINVAL, fw_reserve_set_aside(host, "\xff", 1, 1, &id));
    RETURNS(FW_EINVAL, fw_reserve_set_aside(host, "name", 1, 1, NULL));
    RETURNS(FW_ENOSPC, fw_reserve_set_aside(host, "name", 9 << 20, 1, &id));
    CHECK(id == 7);
    end_empty(host);
}

static void frees(void)
{
    struct fw_host *host = host_of(16 << 20, 2, 8 << 20);
    char on_stack[2 * FW_PAGE_BYTES];
    char *page_on_stack = on_stack + (FW_PAGE_BYTES - (uintptr_t)on_stack % FW_PAGE_BYTES);
    RETURNS(FW_EFOREIGN, fw_vfree(host, page_on_stack));
    RETURNS(FW_EFOREIGN, fw_kfree(host, on_stack));
    RETURNS(FW_EFOREIGN, fw_kvfree(host, on_stack));
    RETURNS(FW_EFOREIGN, fw_unmap_ram(host, page_on_stack, 1));
    RETURNS(FW_EFOREIGN, fw_reserve_free(host, page_on_stack, 1));
    RETURNS(FW_EFOREIGN, fw_frame_free(host, 1 << 20, 0));
    REFUSES(FW_EFOREIGN, fw_kvrealloc(host, on_stack, 10));

    char *area = fw_vmalloc(host, 3 * FW_PAGE_BYTES);
    RETURNS(FW_EINVAL, fw_vfree(host, area + 1));
    RETURNS(FW_EINSIDE, fw_vfree(host, area + FW_PAGE_BYTES));
    RETURNS(FW_EKIND, fw_unmap_ram(host, area, 3));
    OK(fw_vfree(host, area));
    RETURNS(FW_EALREADY, fw_vfree(host, area));
    OK(fw_drain(host));
    CHECK(fw_vfree(host, area) < 0);

    char *object = fw_kmalloc(host, 64), *other = fw_kmalloc(host, 64);
    CHECK(object != NULL && other != NULL);
    RETURNS(FW_EINSIDE, fw_kfree(host, object + 8));
    OK(fw_kfree(host, object));
    RETURNS(FW_EALREADY, fw_kfree(host, object));
    RETURNS(FW_EALREADY, fw_kvfree(host, object));
    REFUSES(FW_EALREADY, fw_kvrealloc(host, object, 10));
    size_t room = 7;
    CHECK(fw_kvsize(host, object, &room) < 0 && room == 7);
    OK(fw_kfree(host, other));

    uint64_t frame = 0;
    OK(fw_frame_alloc(host, 3, FW_MOVABLE, &frame));
    RETURNS(FW_ELENGTH, fw_frame_free(host, frame, 2));
    CHECK(fw_frame_free(host, frame + 1, 0) < 0);
    OK(fw_frame_free(host, frame, 3));
    RETURNS(FW_EALREADY, fw_frame_free(host, frame, 3));
    end_empty(host);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

// Half of all calls are wrong, and what is right keeps its bytes.
static void half_are_wrong(uint64_t seed)
{
    struct fw_host *host = host_of(32 << 20, 2, 0);
    enum { LIVE = 200 };
    static struct {
        unsigned char *at;
        size_t bytes;
        int is_area;
    } live[LIVE];
    memset(live, 0, sizeof live);
    unsigned long refused = 0;
    for (int turn = 0; turn < 40000; turn++) {
        size_t nth = next_random(&seed) % LIVE;
        if (next_random(&seed) % 2 == 0) {
            // Any address near what the host has, or anywhere; never one at which something live begins.
            unsigned char *base = live[next_random(&seed) % LIVE].at;
            unsigned char *wrong = (unsigned char *)((uintptr_t)base + next_random(&seed) % (64 << 20) - (32 << 20));
            if (next_random(&seed) % 4 == 0)
                wrong = (unsigned char *)(uintptr_t)next_random(&seed);
            int begins = wrong == NULL;
            for (size_t at = 0; at < LIVE; at++)
                begins |= live[at].at == wrong;
            if (!begins) {
                CHECK(fw_vfree(host, wrong) < 0);
                CHECK(fw_kvfree(host, wrong) < 0);
                CHECK(fw_kfree(host, wrong) < 0);
                CHECK(fw_unmap_ram(host, wrong, 1 + next_random(&seed) % 4) < 0);
                CHECK(fw_kvrealloc(host, wrong, 100) == NULL);
                refused += 5;
            }
        }
        if (live[nth].at == NULL) {
            live[nth].bytes = 1 + next_random(&seed) % (next_random(&seed) % 8 ? 3000 : 200000);
            live[nth].is_area = next_random(&seed) % 2;
            live[nth].at = live[nth].is_area ? fw_vmalloc(host, live[nth].bytes) : fw_kvmalloc(host, live[nth].bytes);
            if (live[nth].at != NULL)
                memset(live[nth].at, (int)nth, live[nth].bytes);
        } else {
            for (size_t at = 0; at < live[nth].bytes; at++)
                CHECK(live[nth].at[at] == (unsigned char)nth);
            OK(live[nth].is_area ? fw_vfree(host, live[nth].at) : fw_kvfree(host, live[nth].at));
            live[nth].at = NULL;
        }
    }
    CHECK(refused > 50000);
    for (size_t nth = 0; nth < LIVE; nth++)
        if (live[nth].at != NULL)
            OK(live[nth].is_area ? fw_vfree(host, live[nth].at) : fw_kvfree(host, live[nth].at));
    end_empty(host);
}

static void messages(void)
{
    struct fw_host *host = host_of(16 << 20, 1, 0);
    REFUSES(FW_EINVAL, fw_vmalloc_aligned(host, 1, 24));
    char message[256];
    size_t len = fw_last_message(message, sizeof message);
    CHECK(len == strlen(message) && strstr(message, "alignment 24 is not a power of two") != NULL);
    CHECK(fw_last_message(NULL, 0) == len && fw_last_message(message, 0) == len);
    char brief[10];
    CHECK(fw_last_message(brief, sizeof brief) == len && strcmp(brief, "alignment") == 0);
    // A call that succeeds changes neither, in whichever host.
    OK(fw_vfree(host, fw_vmalloc(host, 1)));
    end_empty(host_of(16 << 20, 1, 0));
    CHECK(fw_last_error() == FW_EINVAL && fw_last_message(NULL, 0) == len);
    end_empty(host);
}

int main(void)
{
    arguments();
    handles();
    sizes();
    frees();
    messages();
    for (uint64_t seed = 1; seed <= 2; seed++)
        half_are_wrong(seed * 0x9e3779b97f4a7c15);
    return 0;
}
