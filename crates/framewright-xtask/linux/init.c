/*
 * The first and only process of the Linux that `cargo xtask linux` boots: it loads one module with the parameters of the
 * kernel's command line, says how many pages Linux gave out meanwhile, and ends the emulator.
 *
 * A module that measures refuses to stay (EAGAIN), as Linux's test_vmalloc does.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Said in front of what fails. */
#define NAME "init"
#include "first.h"

/* Pages of all zones that were given out since the boot. */
static unsigned long long pages_given(void)
{
	static char text[1 << 16];
	unsigned long long sum = 0;
	int file = open("/proc/vmstat", O_RDONLY);
	size_t bytes = 0;
	ssize_t more;

	if (file < 0)
		fail("/proc/vmstat");
	while ((more = read(file, text + bytes, sizeof text - 1 - bytes)) > 0)
		bytes += more;
	close(file);
	text[bytes] = 0;
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		char *space = strchr(line, ' ');

		if (space && strncmp(line, "pgalloc_", 8) == 0)
			sum += strtoull(space + 1, NULL, 10);
	}
	return sum;
}

int main(void)
{
	/* What the kernel does not know of its command line it hands to the first process. */
	const char *module = getenv("module"), *words = getenv("parameters");
	char path[64], parameters[256];
	unsigned long long before, given;
	int file, code;

	errno = EINVAL;
	if (!module || !words)
		fail("the command line has no module=, or no parameters=");
	if (mount("proc", "/proc", "proc", 0, NULL) < 0)
		fail("mount /proc");
	snprintf(path, sizeof path, "/%s.ko", module);
	snprintf(parameters, sizeof parameters, "%s", words);
	for (char *comma = parameters; (comma = strchr(comma, ',')) != NULL;)
		*comma = ' ';
	file = open(path, O_RDONLY);
	if (file < 0)
		fail(path);
	before = pages_given();
	code = syscall(SYS_finit_module, file, parameters, 0);
	given = pages_given() - before;
	if (code == 0 || errno != EAGAIN)
		fail(path);
	printf("init: pages %llu\ninit: passed\n", given);
	end(PASSED);
}
