/*
 * How a first process ends: it says what failed, and ends the emulator.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/io.h>
#include <sys/reboot.h>
#include <unistd.h>

/* QEMU's isa-debug-exit: its exit code is twice this number, plus one, as for the kernel in `kernel/`. */
enum { EXIT_PORT = 0xf4, PASSED = 0x10, FAILED = 0x11 };

static void end(int number)
{
	fflush(stdout);
	sleep(1); /* of the guest: the console is written to its end */
	if (ioperm(EXIT_PORT, 1, 1) == 0)
		outb(number, EXIT_PORT);
	reboot(RB_AUTOBOOT);
}

static void fail(const char *what)
{
	printf(NAME ": %s: %s\n", what, strerror(errno));
	end(FAILED);
}
