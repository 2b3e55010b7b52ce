// Mistakes that the thread sanitizer must report: CPU 0 hands an object to CPU 1 with nothing that orders its write before the
// other's read. Both allocate or free other memory meanwhile, which must not stand in for that order. An argument names one
// of them; without it all run.
#include "machine.h"

static _Atomic(unsigned char *) handed;

struct race {
    const char *name;
    size_t bytes;   // of the object
    int is_in_page; // whether the other memory lies in the object's page, too
    struct machine *machine;
};

static unsigned char *alloc_object(struct race *race)
{
    unsigned char *object = fwk_kmalloc(race->machine->memory, cpu, race->bytes, 1, 0);
    CHECK(object != NULL);
    allocated(object, race->bytes);
    return object;
}

static void free_object(struct race *race, unsigned char *object)
{
    frees(object, race->bytes);
    OK(fwk_kfree(race->machine->memory, cpu, object));
}

// Some memory of each kind, zeroed and mapped, allocated and freed in slabs and areas of this CPU.
static void work_elsewhere(struct machine *machine)
{
    struct fwk_memory *memory = machine->memory;
    unsigned char *object = fwk_kmalloc(memory, cpu, 600, 1, FW_ZERO);
    unsigned char *area = fwk_vmalloc(memory, cpu, 3 * FW_PAGE_BYTES, 1, 0);
    CHECK(object != NULL && area != NULL);
    allocated(object, 600);
    allocated(area, 3 * FW_PAGE_BYTES);
    object[0] = area[0] = 1;
    frees(object, 600);
    OK(fwk_kfree(memory, cpu, object));
    frees(area, 3 * FW_PAGE_BYTES);
    OK(fwk_vfree(memory, cpu, area));
}

static void *reader(void *argument)
{
    struct race *race = argument;
    unsigned char *object = NULL, *next = NULL;
    cpu = 1;
    while (object == NULL) {
        object = atomic_load_explicit(&handed, memory_order_relaxed);
        sched_yield();
    }
    if (race->is_in_page) {
        next = alloc_object(race);
        CHECK(next == object + race->bytes);
    } else {
        work_elsewhere(race->machine);
    }
    CHECK(object[0] == 1); // the race
    if (next != NULL)
        free_object(race, next);
    return NULL;
}

static void run(struct race *race)
{
    pthread_t thread;
    race->machine = machine_of(4096, 0, 1);
    cpu = 1; // whose slab it is: CPU 1 goes on with it as the reader
    unsigned char *first = alloc_object(race), *object = alloc_object(race);
    CHECK((uintptr_t)first % FW_PAGE_BYTES == 0 && object == first + race->bytes);
    cpu = 0;
    atomic_store_explicit(&handed, NULL, memory_order_relaxed);
    CHECK(pthread_create(&thread, NULL, reader, race) == 0);
    object[0] = 1;
    if (race->is_in_page)
        free_object(race, first);
    else
        work_elsewhere(race->machine);
    atomic_store_explicit(&handed, object, memory_order_relaxed);
    CHECK(pthread_join(thread, NULL) == 0);
    if (!race->is_in_page)
        free_object(race, first);
    free_object(race, object);
    end_empty(race->machine);
}

int main(int count, char **words)
{
    struct race races[] = {
        {.name = "elsewhere", .bytes = 64},
        {.name = "in-its-page", .bytes = 128, .is_in_page = 1},
        {.name = "in-its-line", .bytes = 16, .is_in_page = 1},
    };
    for (size_t nth = 0; nth < sizeof races / sizeof *races; nth++)
        if (count < 2 || strcmp(words[1], races[nth].name) == 0)
            run(&races[nth]);
    return 0;
}
