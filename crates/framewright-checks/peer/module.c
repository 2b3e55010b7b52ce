/*
 * Starts Linux's lib/test_vmalloc.c over a subject, and says what it said. A first run, which is not counted, makes what
 * is made once: pages of this process, page tables, caches. The second one is.
 *
 * Arguments: NAME=VALUE, a parameter of the test, or `keeps=1` or `seed=N`.
 */
#include "module.h"
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

int start_module(void);

#define WINDOW ((char *)(32UL << 40))
#define WINDOW_TOUCHED (512UL << 20)

static struct parameter { const char *name; void *at; size_t bytes; } parameters[16];
static int parameters_len;
static unsigned long refused;
static u64 seed = 1;

void new_parameter(const char *name, void *at, size_t bytes)
{
	parameters[parameters_len++] = (struct parameter){ name, at, bytes };
}

void complete(struct completion *completion)
{
	pthread_mutex_lock(&completion->lock);
	completion->done++;
	pthread_cond_signal(&completion->changed);
	pthread_mutex_unlock(&completion->lock);
}

/* All workers end, so it waits until they have. */
int wait_for_completion_timeout(struct completion *completion, long ticks)
{
	(void)ticks;
	pthread_mutex_lock(&completion->lock);
	while (!completion->done)
		pthread_cond_wait(&completion->changed, &completion->lock);
	completion->done--;
	pthread_mutex_unlock(&completion->lock);
	return 1;
}

ktime_t ktime_get(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static __thread u64 random_state;

u64 next_random(void)
{
	/* A step of Weyl's sequence, mixed. */
	u64 x = random_state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 32) * 0xd6e8feb86659fd93;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93;
	return x ^ x >> 32;
}

void *counted_vmalloc(size_t bytes, size_t align, bool is_zeroed)
{
	void *at = subject_vmalloc(bytes, align, is_zeroed);

	if (__builtin_expect(!at, 0))
		__atomic_add_fetch(&refused, 1, __ATOMIC_RELAXED);
	return at;
}

/* What waits for a grace period: Linux collects as many pointers as a page holds, and frees them one such page later. */
#define LATER 508
static __thread struct { void *at[2][LATER]; int len[2], filled; } later;

static void free_collected(int which)
{
	for (int n = 0; n < later.len[which]; n++)
		subject_vfree(later.at[which][n]);
	later.len[which] = 0;
}

void vfree_later(void *at)
{
	later.at[later.filled][later.len[later.filled]++] = at;
	if (later.len[later.filled] == LATER) {
		later.filled = !later.filled;
		free_collected(later.filled);
	}
}

struct task_struct { pthread_t thread; int (*function)(void *); void *argument; unsigned int number; bool is_stopped; };
static __thread struct task_struct *this_task;
static unsigned int tasks;

/* A CPU for each worker, of those that this process may use. */
static void pin(unsigned int number)
{
	cpu_set_t allowed, one;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	number %= CPU_COUNT(&allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed) && number-- == 0) {
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
			return;
		}
}

static void *work(void *task)
{
	this_task = task;
	pin(this_task->number);
	random_state = seed * 1000003 + this_task->number;
	subject_enter(this_task->number);
	this_task->function(this_task->argument);
	return NULL;
}

/* The worker's last call: it sleeps until it is stopped. */
bool kthread_should_stop(void)
{
	free_collected(!later.filled);
	free_collected(later.filled);
	subject_leave();
	return true;
}

struct task_struct *run_thread(int (*function)(void *), void *argument)
{
	struct task_struct *task = calloc(1, sizeof(*task));

	*task = (struct task_struct){ .function = function, .argument = argument, .number = tasks++ };
	if (task->number >= SUBJECT_CPUS || pthread_create(&task->thread, NULL, work, task)) {
		fprintf(stderr, "module: no worker %u\n", task->number);
		exit(1);
	}
	return task;
}

int kthread_stop(struct task_struct *task)
{
	pthread_join(task->thread, NULL);
	free(task);
	return 0;
}

static bool is_set(const char *name, long value)
{
	for (int n = 0; n < parameters_len; n++)
		if (strcmp(parameters[n].name, name) == 0) {
			if (parameters[n].bytes == sizeof(int))
				*(int *)parameters[n].at = (int)value;
			else
				*(bool *)parameters[n].at = value;
			return true;
		}
	return false;
}

/* The first part of it is there from the beginning, in huge pages where the machine has them: no fault falls into a test. */
char *test_window(void)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;

	if (mmap(WINDOW, WINDOW_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0) != WINDOW) {
		perror("module: no window");
		exit(1);
	}
	madvise(WINDOW, WINDOW_BYTES, MADV_HUGEPAGE);
	for (size_t at = 0; at < WINDOW_TOUCHED; at += PAGE_SIZE)
		WINDOW[at] = 0;
	return WINDOW;
}

__attribute__((weak)) void *subject_alloc_percpu(size_t bytes, size_t align)
{
	fprintf(stderr, "module: %s has no memory of each CPU: %zu bytes, aligned to %zu\n", subject_name, bytes, align);
	exit(1);
}

__attribute__((weak)) void subject_free_percpu(const void *at)
{
	(void)at;
}

int main(int argc, char **argv)
{
	bool keeps = false;

	for (int n = 1; n < argc; n++) {
		char *value = strchr(argv[n], '=');

		if (!value) {
			fprintf(stderr, "module: %s: expected NAME=VALUE\n", argv[n]);
			return 2;
		}
		*value++ = 0;
		if (strcmp(argv[n], "keeps") == 0)
			keeps = atol(value);
		else if (strcmp(argv[n], "seed") == 0)
			seed = atol(value);
		else if (!is_set(argv[n], atol(value))) {
			fprintf(stderr, "module: there is no parameter %s\n", argv[n]);
			return 2;
		}
	}
	subject_begin(keeps);
	for (int run = 0; run < 2; run++) {
		tasks = 0;
		refused = 0;
		printf("run %d\n", run);
		start_module();
		printf("refused %lu\n", refused);
		fflush(stdout);
	}
	unsigned long left = subject_end();
	if (left)
		fprintf(stderr, "module: %s: %lu left behind\n", subject_name, left);
	return left != 0;
}
