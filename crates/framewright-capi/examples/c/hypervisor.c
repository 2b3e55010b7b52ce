// A virtual machine monitor: a guest's memory is contiguous and guaranteed, and a device's scattered buffers appear side by
// side for as long as one request takes.
//
//     cc hypervisor.c $(pkg-config --cflags --libs framewright) -o hypervisor
#include <framewright.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *or_die(void *memory, const char *what)
{
    if (memory == NULL) {
        char message[200];
        fw_last_message(message, sizeof message);
        fprintf(stderr, "%s: %s: %s\n", what, fw_strerror(fw_last_error()), message);
        exit(1);
    }
    return memory;
}

int main(void)
{
    struct fw_options options;
    struct fw_host *host = NULL;
    fw_options_init(&options, sizeof options);
    options.memory_bytes = 64 << 20;
    options.reserve_bytes = 192 << 20;
    if (fw_host_new(&options, &host) != FW_OK)
        or_die(NULL, "a host");

    // At the start, while all is free: the memory of a guest that may come at any time. Taking it later cannot fail.
    uint64_t guest = 0, first = 0;
    const size_t guest_bytes = 128 << 20;
    if (fw_reserve_set_aside(host, "guest", guest_bytes, 2 << 20, &guest) != FW_OK)
        or_die(NULL, "the guest's memory");
    unsigned char *memory = or_die(fw_reserve_take(host, guest, &first), "the guest's memory");
    memset(memory, 0, guest_bytes);
    printf("guest: %zu MiB, contiguous from frame %llu on\n", guest_bytes >> 20, (unsigned long long)first);

    // The guest's driver puts a packet into pages that lie anywhere in its memory. The device sees them as one buffer.
    enum { PAGES = 16 };
    uint64_t frames[PAGES];
    for (unsigned nth = 0; nth < PAGES; nth++) {
        unsigned page = nth * 1237 % (unsigned)(guest_bytes / FW_PAGE_BYTES);
        memory[(size_t)page * FW_PAGE_BYTES] = (unsigned char)('a' + nth);
        frames[nth] = first + page;
    }
    unsigned char *packet = or_die(fw_map_ram(host, frames, PAGES), "the packet");
    printf("packet: ");
    for (unsigned nth = 0; nth < PAGES; nth++)
        putchar(packet[(size_t)nth * FW_PAGE_BYTES]);
    putchar('\n');
    packet[0] = 'A'; // the device answers
    printf("the guest reads: %c\n", memory[(size_t)(frames[0] - first) * FW_PAGE_BYTES]);
    fw_unmap_ram(host, packet, PAGES);

    fw_reserve_release(host, guest); // the guest has ended; its memory stays set aside for the next one
    fw_reserve_give_up(host, guest);
    return fw_host_free(host) == FW_OK ? 0 : 1;
}
