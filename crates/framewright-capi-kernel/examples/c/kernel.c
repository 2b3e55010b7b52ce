// A kernel in small: RAM and metadata in static arrays, a page table of one level, one CPU. It needs no C library: a console
// and a place to start are all that is left to the machine.
//
//     cc -ffreestanding -nostdlib -c kernel.c
#include <framewright_kernel.h>

// The machine's: writes a text.
void console(const char *text);
int kernel_main(void);

enum { RAM_FRAMES = 4096, RESERVE_FRAMES = 512, WINDOW_PAGES = 4096 };

#define FIRST_FRAME ((uint64_t)0x100) // RAM begins at 1 MiB, as on a PC
#define WINDOW ((uint64_t)0xffffc90000000000)

static _Alignas(FW_PAGE_BYTES) unsigned char ram[(RAM_FRAMES + RESERVE_FRAMES) * (size_t)FW_PAGE_BYTES];
static _Alignas(128) unsigned char metadata[2 << 20]; // zeroes, as the loader leaves them

// The page table: each page's frame, or 0. What an MMU does at each access, `behind` does here.
static uint64_t page_table[WINDOW_PAGES];
static unsigned long tables_written;

static unsigned char *direct(uint64_t frame)
{
    return ram + (frame - FIRST_FRAME) * FW_PAGE_BYTES;
}

static unsigned char *behind(void *address)
{
    uint64_t at = (uint64_t)(uintptr_t)address - WINDOW;
    uint64_t frame = page_table[at / FW_PAGE_BYTES];
    return frame == 0 ? NULL : direct(frame) + at % FW_PAGE_BYTES;
}

static int map(void *context, void *at, uint64_t first, uint64_t frames, uint32_t flags, struct fwk_tables *tables)
{
    uint64_t page = ((uint64_t)(uintptr_t)at - WINDOW) / FW_PAGE_BYTES;
    (void)context, (void)flags, (void)tables;
    for (uint64_t nth = 0; nth < frames; nth++)
        page_table[page + nth] = first + nth;
    tables_written++;
    return 0;
}

static int unmap(void *context, void *at, size_t bytes)
{
    uint64_t page = ((uint64_t)(uintptr_t)at - WINDOW) / FW_PAGE_BYTES;
    (void)context;
    for (uint64_t nth = 0; nth < bytes / FW_PAGE_BYTES; nth++)
        page_table[page + nth] = 0;
    return 0; // no CPU keeps translations, so there is no `flush`
}

static void panicked(void *context, const char *message)
{
    (void)context;
    console(message);
}

struct task {
    void *stack;
    unsigned number;
};

static int failed(const char *what, int code)
{
    console(what);
    console(": ");
    console(fwk_strerror(code));
    console("\n");
    return 1;
}

int kernel_main(void)
{
    static struct fwk_layout layout; // static, so it is zero
    layout.struct_bytes = sizeof layout;
    layout.cpus = 1;
    layout.first_frame = FIRST_FRAME;
    layout.frames = RAM_FRAMES;
    layout.window = WINDOW;
    layout.window_bytes = (uint64_t)WINDOW_PAGES * FW_PAGE_BYTES;
    layout.reserve_first = FIRST_FRAME + RAM_FRAMES;
    layout.reserve_frames = RESERVE_FRAMES;
    layout.flags = FWK_ZEROED;
    static struct fwk_platform platform;
    platform.struct_bytes = sizeof platform;
    platform.direct_map = (uint64_t)(uintptr_t)ram - FIRST_FRAME * FW_PAGE_BYTES;
    platform.map = map;
    platform.unmap = unmap;
    platform.panic = panicked;

    struct fwk_memory *memory = NULL;
    size_t needed = 0;
    int code = fwk_metadata_bytes(&layout, &needed);
    if (code == FW_OK && needed > sizeof metadata)
        code = FW_ENOMEM;
    if (code == FW_OK)
        code = fwk_new(&layout, &platform, metadata, sizeof metadata, &memory);
    if (code == FW_OK) // two banks: the kernel's image lies between them
        code = fwk_add(memory, 0, FIRST_FRAME, 1024);
    if (code == FW_OK)
        code = fwk_add(memory, 0, FIRST_FRAME + 1280, RAM_FRAMES - 1280);
    if (code != FW_OK)
        return failed("no memory", code);

    // Set aside at boot, taken when the device comes: that cannot fail.
    uint64_t frame_buffer = 0, first = 0;
    code = fwk_reserve_set_aside(memory, 0, "frame buffer", 300, 256, &frame_buffer);
    if (code != FW_OK)
        return failed("no frame buffer", code);

    // Tasks: an object each, and a stack with a guard page behind it.
    enum { TASKS = 20, STACK = 4 * FW_PAGE_BYTES };
    struct task *tasks[TASKS];
    for (unsigned nth = 0; nth < TASKS; nth++) {
        tasks[nth] = fwk_kmalloc(memory, 0, sizeof *tasks[nth], 1, FW_ZERO);
        if (tasks[nth] == NULL)
            return failed("no task", fwk_last_error(memory, 0));
        tasks[nth]->number = nth;
        tasks[nth]->stack = fwk_vmalloc(memory, 0, STACK, 1, FW_ZERO);
        if (tasks[nth]->stack == NULL)
            return failed("no stack", fwk_last_error(memory, 0));
        unsigned char *stack = tasks[nth]->stack;
        if (behind(stack + STACK) != NULL)
            return failed("the guard page is mapped", FW_EBROKEN);
        for (size_t at = 0; at < STACK; at += 512)
            if (*behind(stack + at) != 0)
                return failed("the stack is not zero", FW_EBROKEN);
        *behind(stack + STACK - 1) = (unsigned char)(nth + 1);
    }

    // A handler must not wait: it asks for what is there at once.
    uint64_t packet = 0;
    code = fwk_frame_alloc(memory, 0, 0, FW_UNMOVABLE, FW_NOWAIT, &packet);
    if (code != FW_OK)
        return failed("no packet", code);

    code = fwk_reserve_take(memory, 0, frame_buffer, &first);
    if (code != FW_OK || first % 256 != 0)
        return failed("the frame buffer is not there", code);
    direct(first + 299)[FW_PAGE_BYTES - 1] = 0xff;
    code = fwk_reserve_release(memory, 0, frame_buffer);

    for (unsigned nth = 0; nth < TASKS; nth++) {
        unsigned char *stack = tasks[nth]->stack;
        if (tasks[nth]->number != nth || *behind(stack + STACK - 1) != nth + 1)
            return failed("a task was overwritten", FW_EBROKEN);
        if (fwk_vfree(memory, 0, stack) != FW_OK || fwk_kfree(memory, 0, tasks[nth]) != FW_OK)
            return failed("a task stays", fwk_last_error(memory, 0));
        if (fwk_vfree(memory, 0, stack) != FW_EALREADY)
            return failed("a stack was freed twice", FW_EBROKEN);
    }
    if (fwk_frame_free(memory, 0, packet, 0) != FW_OK || fwk_reserve_give_up(memory, 0, frame_buffer) != FW_OK)
        return failed("something stays", fwk_last_error(memory, 0));

    struct fwk_stats stats;
    stats.struct_bytes = sizeof stats;
    if (fwk_drain(memory, 0) != FW_OK || fwk_verify(memory, 0) != FW_OK || fwk_stats(memory, 0, &stats) != FW_OK)
        return failed("the memory is broken", fwk_last_error(memory, 0));
    if (stats.free_frames != stats.frames || stats.frames != RAM_FRAMES - 256 || tables_written == 0)
        return failed("frames are lost", FW_EBROKEN);
    console("all frames are free again\n");
    return fwk_end(memory);
}
