// A child has nothing of its parent's hosts, and may have its own; the parent does not notice.
#include "check.h"

#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static struct fw_host *host;
static atomic_int stop;

static void *is_inside(void *argument)
{
    while (!atomic_load(&stop)) {
        void *area = fw_vmalloc(host, 9000), *object = fw_kvmalloc(host, 200);
        CHECK(area != NULL && object != NULL);
        OK(fw_vfree(host, area));
        OK(fw_kvfree(host, object));
    }
    return argument;
}

static void in_child(void *area)
{
    // No lock of a thread that is only in the parent is waited for.
    alarm(20);
    REFUSES(FW_EFORKED, fw_vmalloc(host, 1));
    RETURNS(FW_EFORKED, fw_vfree(host, area));
    RETURNS(FW_EFORKED, fw_drain(host));
    RETURNS(FW_EFORKED, fw_verify(host));
    RETURNS(FW_EFORKED, fw_host_free(host));
    struct fw_host *mine = host_of(8 << 20, 2, 1 << 20);
    CHECK(mine != host);
    char *object = fw_kvzalloc(mine, 100000);
    CHECK(object != NULL);
    memset(object, 1, 100000);
    OK(fw_kvfree(mine, object));
    end_empty(mine);
    _exit(0);
}

int main(void)
{
    host = host_of(32 << 20, 3, 0);
    pthread_t threads[3];
    for (int nth = 0; nth < 3; nth++)
        CHECK(pthread_create(&threads[nth], NULL, is_inside, NULL) == 0);
    char *area = fw_vmalloc(host, 10000);
    CHECK(area != NULL);
    memset(area, 7, 10000);
    for (int turn = 0; turn < 40; turn++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            in_child(area);
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    atomic_store(&stop, 1);
    for (int nth = 0; nth < 3; nth++)
        CHECK(pthread_join(threads[nth], NULL) == 0);
    for (int at = 0; at < 10000; at++)
        CHECK(area[at] == 7);
    OK(fw_vfree(host, area));
    end_empty(host);
    return 0;
}
