// All CPUs at a time, each a thread: frames, areas and objects, freed by whichever CPU, with every byte checked; page tables
// taken while an area is mapped.
#include "machine.h"

#ifdef HAS_THREAD_SANITIZER
enum { TURNS = 10000 }; // each takes longer
#else
enum { TURNS = 30000 };
#endif
enum { SHELVES = 64 };

// What lies there to be freed by the CPU that comes first.
struct thing {
    enum { FRAMES, AREA, OBJECT } kind;
    uint32_t order;
    uint64_t frame;
    unsigned char *bytes;
    size_t len;
    unsigned char mark;
};

static _Atomic(struct thing *) shelves[SHELVES];

struct worker {
    struct machine *machine;
    uint32_t cpu;
    uint64_t seed;
    unsigned long made;
};

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

static void end_thing(struct machine *machine, struct thing *thing)
{
    if (thing == NULL)
        return;
    for (size_t at = 0; at < thing->len; at += 61)
        CHECK(thing->bytes[at] == thing->mark);
    CHECK(thing->bytes[thing->len - 1] == thing->mark);
    struct fwk_memory *memory = machine->memory;
    frees(thing->bytes, thing->len);
    switch (thing->kind) {
    case FRAMES:
        OK(fwk_frame_free(memory, cpu, thing->frame, thing->order));
        break;
    case AREA:
        OK(fwk_vfree(memory, cpu, thing->bytes));
        break;
    case OBJECT:
        OK(fwk_kvfree(memory, cpu, thing->bytes));
        break;
    }
    // The thing itself is an object, too.
    frees(thing, sizeof *thing);
    OK(fwk_kfree(memory, cpu, thing));
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct machine *machine = worker->machine;
    struct fwk_memory *memory = machine->memory;
    uint64_t *seed = &worker->seed;
    cpu = worker->cpu;
    for (int turn = 0; turn < TURNS; turn++) {
        uint32_t flags = next_random(seed) % 4 == 0 ? FW_NOWAIT : 0;
        struct thing *thing = fwk_kmalloc(memory, cpu, sizeof *thing, 1, flags | FW_ZERO);
        if (thing == NULL)
            continue;
        allocated(thing, sizeof *thing);
        thing->mark = (unsigned char)next_random(seed);
        switch (next_random(seed) % 4) {
        case 0:
            thing->kind = FRAMES;
            thing->order = next_random(seed) % 4;
            if (fwk_frame_alloc(memory, cpu, thing->order, (int)(next_random(seed) % 3), flags, &thing->frame) == FW_OK)
                thing->bytes = direct_of(machine, thing->frame);
            thing->len = (size_t)FW_PAGE_BYTES << thing->order;
            break;
        case 1:
            thing->kind = AREA;
            thing->len = 1 + next_random(seed) % (12 * FW_PAGE_BYTES);
            thing->bytes = fwk_vmalloc(memory, cpu, thing->len, 1, flags);
            break;
        default:
            thing->kind = OBJECT;
            thing->len = 1 + next_random(seed) % (next_random(seed) % 8 == 0 ? 40000 : 600);
            thing->bytes = fwk_kvmalloc(memory, cpu, thing->len, 1, flags);
            break;
        }
        if (thing->bytes == NULL) {
            frees(thing, sizeof *thing);
            OK(fwk_kfree(memory, cpu, thing));
            continue;
        }
        allocated(thing->bytes, thing->len);
        worker->made++;
        memset(thing->bytes, thing->mark, thing->len);
        end_thing(machine, atomic_exchange(&shelves[next_random(seed) % SHELVES], thing));
        if (turn % 5000 == 4999)
            OK(turn % 10000 == 9999 ? fwk_drain(memory, cpu) : fwk_verify(memory, cpu));
    }
    return NULL;
}

static void all_cpus(int is_full)
{
    struct machine *machine = machine_of(4096, 0, is_full);
    struct worker workers[CPUS];
    pthread_t threads[CPUS];
    unsigned long made = 0;
    for (uint32_t nth = 0; nth < CPUS; nth++) {
        workers[nth] = (struct worker){.machine = machine, .cpu = nth, .seed = 0x9e3779b97f4a7c15 * (nth + 1)};
        CHECK(pthread_create(&threads[nth], NULL, work, &workers[nth]) == 0);
    }
    for (uint32_t nth = 0; nth < CPUS; nth++) {
        CHECK(pthread_join(threads[nth], NULL) == 0);
        made += workers[nth].made;
    }
    CHECK(made > CPUS * TURNS / 2);
    for (int nth = 0; nth < SHELVES; nth++)
        end_thing(machine, atomic_exchange(&shelves[nth], NULL));
    CHECK(machine->table_frames > 0);
    end_empty(machine);
}

int main(void)
{
    all_cpus(0);
    all_cpus(1);
    return 0;
}
