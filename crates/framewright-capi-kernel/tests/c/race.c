// A mistake that the thread sanitizer must report: CPU 0 hands an object to CPU 1 with nothing that orders its write before the
// other's read. Both allocate and free other memory meanwhile, zeroed and mapped, which must not stand in for that order.
#include "machine.h"

static _Atomic(unsigned char *) handed;

// Some memory of each kind, allocated and freed.
static void work_beside(struct machine *machine)
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
    struct machine *machine = argument;
    unsigned char *object = NULL;
    cpu = 1;
    while (object == NULL) {
        object = atomic_load_explicit(&handed, memory_order_relaxed);
        sched_yield();
    }
    work_beside(machine);
    CHECK(object[0] == 1); // the race
    return NULL;
}

int main(void)
{
    struct machine *machine = machine_of(4096, 0, 1);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, reader, machine) == 0);
    unsigned char *object = fwk_kmalloc(machine->memory, cpu, 64, 1, 0);
    CHECK(object != NULL);
    allocated(object, 64);
    object[0] = 1;
    work_beside(machine);
    atomic_store_explicit(&handed, object, memory_order_relaxed);
    CHECK(pthread_join(thread, NULL) == 0);
    frees(object, 64);
    OK(fwk_kfree(machine->memory, cpu, object));
    end_empty(machine);
    return 0;
}
