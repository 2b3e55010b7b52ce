// Signal handlers that call: whether they interrupt a call or not, nothing breaks.
#include "check.h"

#include <signal.h>
#include <sys/time.h>

static struct fw_host *host;
static volatile sig_atomic_t refused, served;

static void handler(int signal)
{
    (void)signal;
    void *object = fw_kmalloc(host, 50);
    if (object == NULL) {
        if (fw_last_error() != FW_EREENTRY)
            abort();
        refused++;
        return;
    }
    if (fw_kfree(host, object) != FW_OK)
        abort();
    served++;
}

int main(void)
{
    host = host_of(32 << 20, 2, 0);
    // The thread has its seat, so no handler is its first call.
    OK(fw_kfree(host, fw_kmalloc(host, 1)));
    struct sigaction action = {.sa_handler = handler};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = {{0, 50}, {0, 50}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    unsigned long turns = 0;
    for (; refused < 300 || served < 10; turns++) {
        size_t bytes = 1 + turns % 9000;
        // A handler may have noted its own refusal since a call failed, so a success is all that is looked at.
        unsigned char *object = fw_kvmalloc(host, bytes), *area = fw_vmalloc(host, bytes);
        CHECK(object != NULL && area != NULL);
        object[0] = 1, object[bytes - 1] = 2, area[0] = 3, area[bytes - 1] = 4;
        if (fw_kvfree(host, object) != FW_OK || fw_vfree(host, area) != FW_OK)
            FAIL("a right free was refused");
        if (turns % 50 == 0 && fw_drain(host) != FW_OK)
            FAIL("a drain was refused");
        // Time outside of calls, for the handlers that are served.
        for (volatile int wait = 0; wait < 100; wait++)
            ;
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    end_empty(host);
    printf("%lu turns, %d handlers refused, %d served\n", turns, (int)refused, (int)served);
    return 0;
}
