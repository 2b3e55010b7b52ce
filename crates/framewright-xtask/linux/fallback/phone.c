/*
 * The first process of the Linux that `cargo xtask linux-fallback` boots: what a phone asks of its memory, in small and by a
 * seed. The demand does not look at the kernel's state, so that each kernel is asked for the same.
 *
 * Users ask one after the other, beside each other: each starts and kills applications (memory that moves, threads, page
 * tables), reads files and walks through small ones (memory that moves, and inodes), fills and empties pipes (a stand-in for
 * buffers of graphics: single frames that cannot move, in storms), starts threads (kernel stacks, order 2), sends datagrams
 * (up to order 2), opens rings of a packet socket (order 3), and holds descriptors. After each round all users wait while
 * this process prints what Linux counted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Said in front of what fails. */
#define NAME "phone"
#include "first.h"

enum {
	PAGE = 4096,
	/* Those that ask. */
	USERS = 3,
	/* Each user's applications, and the pages of one. */
	APPS = 7, APP_PAGES_MIN = 768, APP_PAGES_MAX = 3328,
	/* Threads that an application has, page tables of it with little in each. */
	APP_THREADS_MAX = 10, APP_TABLES_MAX = 24, TABLE_BYTES = 2 << 20,
	/* Each user's files: large ones of this many pages, and folders of small ones. */
	FILES = 400, FILE_PAGES_MIN = 16, FILE_PAGES_MAX = 512, READ_PAGES_MAX = 96,
	FOLDERS = 60, SMALL_FILES = 100,
	/* Each user's pipes, and the pages in one. */
	PIPES = 64, PIPE_PAGES_MIN = 64, PIPE_PAGES_MAX = 256,
	THREADS_MIN = 8, THREADS_MAX = 48,
	/* Pairs of sockets; datagrams that wait in one. */
	PAIRS = 32, DATAGRAMS = 8,
	/* Rings; blocks of 32 KiB in one. */
	RINGS = 24, RINGS_AT_ONCE = 4, RING_BLOCKS_MAX = 4,
	DESCRIPTORS = 400, DESCRIPTORS_AT_ONCE = 40,
};

/* What all users asked for, and what they were refused. */
struct counts {
	unsigned long apps, apps_lost, threads, threads_refused, datagrams, datagrams_refused, rings, rings_refused,
		buffers, buffers_refused;
};
static struct counts *counts;
#define COUNT(what) __atomic_fetch_add(&counts->what, 1, __ATOMIC_RELAXED)

static int checked(int code, const char *what)
{
	if (code < 0)
		fail(what);
	return code;
}

/* --- chance: xorshift64* --- */

static uint64_t next(uint64_t *chance)
{
	*chance ^= *chance >> 12;
	*chance ^= *chance << 25;
	*chance ^= *chance >> 27;
	return *chance * 0x2545f4914f6cdd1dULL;
}

static unsigned below(uint64_t *chance, unsigned bound)
{
	return (next(chance) >> 32) % bound;
}

static unsigned between(uint64_t *chance, unsigned least, unsigned most)
{
	return least + below(chance, most - least + 1);
}

/* --- files of the kernel --- */

static void put(const char *path, const char *text)
{
	int file = checked(open(path, O_WRONLY), path);

	if (write(file, text, strlen(text)) < 0)
		fail(path);
	close(file);
}

static void show(const char *path)
{
	static char text[1 << 16];
	int file = checked(open(path, O_RDONLY), path);
	ssize_t bytes;

	printf("== file %s\n", path);
	while ((bytes = read(file, text, sizeof text)) > 0)
		fwrite(text, 1, bytes, stdout);
	close(file);
}

#define EVENTS "/trace/events/"
static const char *const HISTOGRAMS[][2] = {
	{ EVENTS "vmscan/mm_vmscan_direct_reclaim_begin/", "hist:keys=order" },
	{ EVENTS "compaction/mm_compaction_try_to_compact_pages/", "hist:keys=order" },
	{ EVENTS "kmem/mm_page_alloc_extfrag/", "hist:keys=alloc_order,fallback_order,alloc_migratetype" },
};

static void point(unsigned nth)
{
	char path[128];

	printf("== point %u\n", nth);
	show("/proc/vmstat");
	show("/proc/meminfo");
	show("/proc/pagetypeinfo");
	for (unsigned of = 0; of < sizeof HISTOGRAMS / sizeof *HISTOGRAMS; of++) {
		snprintf(path, sizeof path, "%shist", HISTOGRAMS[of][0]);
		show(path);
	}
	printf("== file counts\n");
#define SHOW(what) printf(#what " %lu\n", counts->what)
	SHOW(apps), SHOW(apps_lost), SHOW(threads), SHOW(threads_refused), SHOW(datagrams), SHOW(datagrams_refused);
	SHOW(rings), SHOW(rings_refused), SHOW(buffers), SHOW(buffers_refused);
	printf("== end %u\n", nth);
	fflush(stdout);
}

/* --- a user --- */

struct user {
	uint64_t chance;
	unsigned number;
	pid_t apps[APPS];
	int pipes[PIPES][2];
	int pairs[PAIRS][2];
	int rings[RINGS];
	int descriptors[DESCRIPTORS];
	int has_storm;
	unsigned file_pages[FILES];
};
static char bytes[PIPE_PAGES_MAX * PAGE];
static pthread_attr_t small_stack;

static void *wait_for_end(void *of)
{
	char byte;

	/* Until its other end is closed. */
	while (read(*(int *)of, &byte, 1) < 0)
		;
	return NULL;
}

static void *wait_for_ever(void *none)
{
	for (;;)
		pause();
	return none;
}

static void use_one_of_many(char *memory, unsigned count, size_t apart)
{
	for (unsigned nth = 0; nth < count; nth++)
		memory[nth * apart] = 1;
}

static char *mapped(size_t length)
{
	char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap");
	return memory;
}

/* An application's process. It shares nothing with its user but the pipe in which it says that it has begun. */
static void live_as_app(uint64_t chance, int begun)
{
	unsigned pages = between(&chance, APP_PAGES_MIN, APP_PAGES_MAX);
	unsigned threads = below(&chance, APP_THREADS_MAX + 1), tables = below(&chance, APP_TABLES_MAX + 1);
	pthread_t thread;

	put("/proc/self/oom_score_adj", "500");
	checked(dup2(begun, 0), "dup2");
	checked(close_range(3, ~0U, 0), "close_range");
	use_one_of_many(mapped((size_t)pages * PAGE), pages, PAGE);
	use_one_of_many(mapped((size_t)tables * TABLE_BYTES + 1), tables, TABLE_BYTES);
	while (threads--) {
		COUNT(threads);
		if (pthread_create(&thread, &small_stack, wait_for_ever, NULL))
			COUNT(threads_refused);
	}
	if (write(0, "", 1) != 1)
		_exit(1);
	close(0);
	wait_for_ever(NULL);
}

static void start_app(struct user *user)
{
	pid_t *app = &user->apps[below(&user->chance, APPS)];
	uint64_t chance = next(&user->chance);
	int begun[2];
	char byte;

	if (*app > 0) {
		kill(*app, SIGKILL);
		waitpid(*app, NULL, 0);
	}
	COUNT(apps);
	checked(pipe(begun), "pipe");
	fflush(stdout);
	*app = fork();
	if (*app == 0) {
		live_as_app(chance, begun[1]);
		_exit(1);
	}
	close(begun[1]);
	/* A process that the kernel refused or killed. */
	if (*app < 0 || read(begun[0], &byte, 1) != 1)
		COUNT(apps_lost);
	close(begun[0]);
}

static void file_path(char path[64], const struct user *user, unsigned folder, unsigned nth)
{
	snprintf(path, 64, "/disk/%u/%u/%u", user->number, folder, nth);
}

/* Most files have no contents on the disk: to read them takes frames, and no time of a device. */
static void make_file(const char *path, off_t length)
{
	int file = checked(open(path, O_WRONLY | O_CREAT, 0600), path);

	checked(ftruncate(file, length), path);
	close(file);
}

static void make_files(struct user *user)
{
	char path[64];

	snprintf(path, sizeof path, "/disk/%u", user->number);
	checked(mkdir(path, 0700), path);
	for (unsigned folder = 0; folder <= FOLDERS; folder++) {
		snprintf(path, sizeof path, "/disk/%u/%u", user->number, folder);
		checked(mkdir(path, 0700), path);
		for (unsigned nth = 0; nth < (folder == FOLDERS ? FILES : SMALL_FILES); nth++) {
			unsigned pages = 1;

			if (folder == FOLDERS)
				pages = user->file_pages[nth] = between(&user->chance, FILE_PAGES_MIN, FILE_PAGES_MAX);
			file_path(path, user, folder, nth);
			make_file(path, (off_t)pages * PAGE);
		}
	}
}

static void read_file(struct user *user)
{
	/* An eighth of the files has three quarters of the reads. */
	unsigned nth = below(&user->chance, below(&user->chance, 4) ? FILES / 8 : FILES);
	unsigned pages = between(&user->chance, 8, READ_PAGES_MAX), first = below(&user->chance, user->file_pages[nth]);
	char path[64];
	int file;

	file_path(path, user, FOLDERS, nth);
	file = checked(open(path, O_RDONLY), path);
	if (pread(file, bytes, (size_t)pages * PAGE, (off_t)first * PAGE) < 0)
		fail(path);
	close(file);
}

static void walk(struct user *user)
{
	unsigned folder = below(&user->chance, FOLDERS);
	struct stat about;
	char path[64];

	for (unsigned nth = 0; nth < SMALL_FILES; nth++) {
		int file;

		file_path(path, user, folder, nth);
		if (below(&user->chance, 2)) {
			checked(stat(path, &about), path);
			continue;
		}
		file = checked(open(path, O_RDONLY), path);
		if (read(file, bytes, PAGE) < 0)
			fail(path);
		close(file);
	}
}

static void fill_pipe(struct user *user, int ends[2])
{
	size_t length = (size_t)between(&user->chance, PIPE_PAGES_MIN, PIPE_PAGES_MAX) * PAGE;

	COUNT(buffers);
	checked(pipe2(ends, O_NONBLOCK), "pipe2");
	if (fcntl(ends[1], F_SETPIPE_SZ, PIPE_PAGES_MAX * PAGE) < 0 || write(ends[1], bytes, length) != (ssize_t)length)
		COUNT(buffers_refused);
}

static void empty_pipe(int ends[2])
{
	close(ends[0]);
	close(ends[1]);
	ends[0] = ends[1] = -1;
}

/* One storm fills all pipes, the next empties three quarters of them; each time a few change hands. */
static void storm(struct user *user)
{
	user->has_storm = !user->has_storm;
	for (unsigned nth = 0; nth < PIPES; nth++) {
		int *ends = user->pipes[nth];
		unsigned quarter = below(&user->chance, 4);

		if (user->has_storm && ends[0] < 0)
			fill_pipe(user, ends);
		else if (!user->has_storm && ends[0] >= 0 && quarter)
			empty_pipe(ends);
	}
}

static void start_threads(struct user *user)
{
	unsigned wanted = between(&user->chance, THREADS_MIN, THREADS_MAX), started = 0;
	pthread_t threads[THREADS_MAX];
	int ends[2];

	checked(pipe(ends), "pipe");
	while (wanted--) {
		COUNT(threads);
		if (pthread_create(&threads[started], &small_stack, wait_for_end, &ends[0]))
			COUNT(threads_refused);
		else
			started++;
	}
	close(ends[1]);
	while (started)
		pthread_join(threads[--started], NULL);
	close(ends[0]);
}

/* Fills a pair's queue with datagrams, or reads what waits in it. */
static void send_or_receive(struct user *user)
{
	static const unsigned lengths[] = { 300, 1800, 7000, 15900 };
	int *pair = user->pairs[below(&user->chance, PAIRS)];

	if (recv(pair[1], bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
		while (recv(pair[1], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
			;
		return;
	}
	for (unsigned nth = 0; nth < DATAGRAMS; nth++) {
		COUNT(datagrams);
		if (send(pair[0], bytes, lengths[below(&user->chance, 4)], MSG_DONTWAIT) < 0)
			COUNT(datagrams_refused);
	}
}

static void change_ring(struct user *user)
{
	int *ring = &user->rings[below(&user->chance, RINGS)];
	unsigned blocks = between(&user->chance, 1, RING_BLOCKS_MAX);
	struct tpacket_req asked = {
		.tp_block_size = 8 * PAGE, .tp_block_nr = blocks, .tp_frame_size = PAGE, .tp_frame_nr = 8 * blocks,
	};

	if (*ring >= 0) {
		close(*ring);
		*ring = -1;
		return;
	}
	COUNT(rings);
	*ring = checked(socket(AF_PACKET, SOCK_RAW, 0), "a packet socket");
	if (setsockopt(*ring, SOL_PACKET, PACKET_RX_RING, &asked, sizeof asked) < 0)
		COUNT(rings_refused);
}

static void change_descriptors(struct user *user)
{
	for (unsigned count = 0; count < DESCRIPTORS_AT_ONCE; count++) {
		int *one = &user->descriptors[below(&user->chance, DESCRIPTORS)];
		unsigned kind = below(&user->chance, 3);

		if (*one >= 0) {
			close(*one);
			*one = -1;
		} else {
			*one = kind == 0 ? eventfd(0, 0) : kind == 1 ? epoll_create1(0) : socket(AF_UNIX, SOCK_STREAM, 0);
			checked(*one, "a descriptor");
		}
	}
}

static void step(struct user *user)
{
	switch (below(&user->chance, 16)) {
	case 0: case 1: start_app(user); break;
	case 2: case 3: case 4: case 5: case 6:
		for (unsigned files = between(&user->chance, 1, 4); files--;)
			read_file(user);
		break;
	case 7: case 8: walk(user); break;
	case 9: storm(user); break;
	case 10: case 11: start_threads(user); break;
	case 12: case 13: send_or_receive(user); break;
	case 14:
		for (unsigned count = 0; count < RINGS_AT_ONCE; count++)
			change_ring(user);
		break;
	default: change_descriptors(user);
	}
}

static void begin(struct user *user, unsigned number, uint64_t seed)
{
	const int room = 1 << 20;

	user->number = number;
	user->chance = seed * 0x9e3779b97f4a7c15ULL + number + 1;
	for (unsigned nth = 0; nth < 16; nth++)
		next(&user->chance);
	memset(user->pipes, -1, sizeof user->pipes);
	memset(user->rings, -1, sizeof user->rings);
	memset(user->descriptors, -1, sizeof user->descriptors);
	for (unsigned nth = 0; nth < PAIRS; nth++) {
		checked(socketpair(AF_UNIX, SOCK_DGRAM, 0, user->pairs[nth]), "socketpair");
		checked(setsockopt(user->pairs[nth][0], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room), "SO_SNDBUFFORCE");
	}
	/* Its own pages are there from now on. */
	memset(bytes, 1, sizeof bytes);
	make_files(user);
}

static void live_as_user(unsigned number, uint64_t seed, unsigned rounds, unsigned steps, int done, int go)
{
	static struct user user;
	char byte;

	begin(&user, number, seed);
	for (unsigned round = 0; round <= rounds; round++) {
		if (write(done, "", 1) != 1 || read(go, &byte, 1) != 1)
			fail("a user waits");
		for (unsigned nth = 0; nth < steps; nth++)
			step(&user);
	}
	fail("a user was told to go on after the last round");
}

/* --- the beginning --- */

/* An image of an empty file system, onto the memory disk; blocks of zeros are none. */
static void copy_disk(void)
{
	static const char zeros[PAGE];
	int from = checked(open("/disk.img", O_RDONLY), "/disk.img");
	int to = checked(open("/dev/ram0", O_WRONLY), "/dev/ram0");
	ssize_t length;

	for (off_t at = 0; (length = read(from, bytes, PAGE)) > 0; at += length)
		if (memcmp(bytes, zeros, length) && pwrite(to, bytes, length, at) != length)
			fail("/dev/ram0");
	checked(fsync(to), "/dev/ram0");
	close(from);
	close(to);
	checked(unlink("/disk.img"), "/disk.img");
	checked(mount("/dev/ram0", "/disk", "ext2", MS_NOATIME, NULL), "mount /disk");
}

static unsigned long number_of(const char *name)
{
	/* What the kernel does not know of its command line it hands to the first process. */
	const char *text = getenv(name);

	errno = EINVAL;
	if (!text || !strtoul(text, NULL, 10))
		fail(name);
	return strtoul(text, NULL, 10);
}

int main(void)
{
	unsigned long seed = number_of("seed"), rounds = number_of("rounds"), steps = number_of("steps");
	const struct rlimit many = { 4096, 4096 };
	int done[USERS][2], go[USERS][2];
	char byte;

	checked(mount("proc", "/proc", "proc", 0, NULL), "mount /proc");
	checked(mount("trace", "/trace", "tracefs", 0, NULL), "mount /trace");
	checked(setrlimit(RLIMIT_NOFILE, &many), "setrlimit");
	checked(pthread_attr_init(&small_stack) || pthread_attr_setstacksize(&small_stack, 16384) ? -1 : 0, "a stack");
	copy_disk();
	put("/proc/sys/vm/drop_caches", "3");
	counts = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		fail("mmap");
	for (unsigned of = 0; of < sizeof HISTOGRAMS / sizeof *HISTOGRAMS; of++) {
		char path[128];

		snprintf(path, sizeof path, "%strigger", HISTOGRAMS[of][0]);
		put(path, HISTOGRAMS[of][1]);
	}
	put("/proc/self/oom_score_adj", "-1000");
	fflush(stdout);
	for (unsigned nth = 0; nth < USERS; nth++) {
		checked(pipe(done[nth]), "pipe");
		checked(pipe(go[nth]), "pipe");
		if (checked(fork(), "fork") == 0)
			live_as_user(nth, seed, rounds, steps, done[nth][1], go[nth][0]);
	}
	for (unsigned round = 0;; round++) {
		for (unsigned nth = 0; nth < USERS; nth++)
			if (read(done[nth][0], &byte, 1) != 1)
				fail("a user does not say that it is through");
		usleep(200000); /* of the guest: what the kernel does in the background comes to rest */
		point(round);
		if (round == rounds)
			break;
		for (unsigned nth = 0; nth < USERS; nth++)
			if (write(go[nth][1], "", 1) != 1)
				fail("a user does not go on");
	}
	printf("phone: passed\n");
	end(PASSED);
}
