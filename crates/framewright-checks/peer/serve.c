/*
 * Linux's own mm/vmalloc.c behind a pipe: reads lists of operations from its input, does them, and writes what they
 * took. vmalloc.c itself is unchanged and comes from the distribution's package.
 *
 * Input: a header (kind, count) of two 32-bit numbers, then so many operations of 8 bytes. Output of 'R': CPU time of
 * all of them in nanoseconds, requests that failed. Of 'T': nanoseconds of each, without what was put off. Of 'C', with
 * no operations: the bound on lazy pages, the most that were lazy, flushes of the TLB, and behind operations of 'T' the
 * longest time of what was put off.
 */
#include "vmalloc.c"
#include <time.h>
#include <unistd.h>

unsigned int nr_cpu_ids = 2;
const cpumask_t every_cpu = { { ~0UL, ~0UL } };
pgd_t empty_table;
unsigned long tlb_flushes, lazy_peak;
struct shrinker one_shrinker;
struct kmem_cache *radix_tree_node_cachep;

/* One thread alone: a lock that is held would be for ever. */
void spin_wait(spinlock_t *lock)
{
	COMPLAIN();
}

/* Free lists of one length. */
struct kmem_cache { size_t bytes; void *free; };

struct kmem_cache *new_cache(size_t bytes)
{
	struct kmem_cache *cache = calloc(1, sizeof(*cache));

	cache->bytes = ALIGN(bytes, 8);
	return cache;
}

void *from_cache(struct kmem_cache *cache)
{
	void *at = cache->free;

	if (likely(at)) {
		cache->free = *(void **)at;
		return at;
	}
	at = malloc(cache->bytes * 64);
	for (int n = 63; n > 0; n--)
		kmem_cache_free(cache, (char *)at + cache->bytes * n);
	return at;
}

void *zeroed_from_cache(struct kmem_cache *cache)
{
	return memset(from_cache(cache), 0, cache->bytes);
}

void kmem_cache_free(struct kmem_cache *cache, void *at)
{
	*(void **)at = cache->free;
	cache->free = at;
}

/* The compiler must not make calloc of it, which is slower in libc than a lock-free free list in a kernel. */
void *zeroed(size_t bytes)
{
	void *at = malloc(bytes);

	__asm__ volatile("" : "+r"(at));
	return memset(at, 0, bytes);
}

static struct rcu_head *later;
static struct work_struct *works, **last_work = &works;

void call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *))
{
	head->func = func;
	head->next = later;
	later = head;
}

static void free_whole(struct rcu_head *head) { free(head->whole); }

void free_later(void *whole, struct rcu_head *head)
{
	head->whole = whole;
	call_rcu(head, free_whole);
}

void radix_tree_node_rcu_free(struct rcu_head *head)
{
	struct xa_node *node = container_of(head, struct xa_node, rcu_head);

	memset(node->slots, 0, sizeof(node->slots));
	memset(node->tags, 0, sizeof(node->tags));
	INIT_LIST_HEAD(&node->private_list);
	kmem_cache_free(radix_tree_node_cachep, node);
}

bool schedule_work(struct work_struct *work)
{
	if (work->queued)
		return false;
	work->queued = true;
	work->next = NULL;
	*last_work = work;
	last_work = &work->next;
	return true;
}

/* Runs what was put off, in order, until nothing is left. */
static void settle(void)
{
	while (unlikely(works)) {
		struct work_struct *work = works;

		works = work->next;
		if (!works)
			last_work = &works;
		work->queued = false;
		work->func(work);
	}
	while (unlikely(later)) {
		struct rcu_head *head = later;

		later = head->next;
		head->func(head);
	}
}

/* Others may lie in front of it: they are done too. */
bool flush_work(struct work_struct *work)
{
	while (work->queued) {
		struct work_struct *first = works;

		works = first->next;
		if (!works)
			last_work = &works;
		first->queued = false;
		first->func(first);
	}
	return true;
}

struct operation { u32 slot; u16 pages; u8 align_shift; u8 kind; };
enum { ALLOC, FREE, MAP_RAM, UNMAP_RAM, PURGE };

static void **slots;
static unsigned long slots_len;
static struct page *shown[64];
static u64 failed, longest_ns;

static void one(struct operation operation)
{
	void **slot = &slots[operation.slot];
	struct vm_struct *area;

	switch (operation.kind) {
	case ALLOC:
		area = __get_vm_area_node(operation.pages * PAGE_SIZE, 1UL << operation.align_shift, PAGE_SHIFT, VM_ALLOC,
					  VMALLOC_START, VMALLOC_END, NUMA_NO_NODE, GFP_KERNEL | __GFP_NOWARN, NULL);
		*slot = area ? area->addr : NULL;
		failed += !area;
		break;
	case FREE:
		if (*slot)
			kfree(remove_vm_area(*slot));
		break;
	case MAP_RAM:
		*slot = vm_map_ram(shown, operation.pages, NUMA_NO_NODE);
		failed += !*slot;
		break;
	case UNMAP_RAM:
		if (*slot)
			vm_unmap_ram(*slot, operation.pages);
		break;
	case PURGE:
		reclaim_and_purge_vmap_areas();
		break;
	}
}

static u64 clock_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void wanted(void *at, size_t bytes)
{
	if (fread(at, 1, bytes, stdin) != bytes)
		exit(feof(stdin) ? 0 : 1);
}

static void told(const void *at, size_t bytes)
{
	if (fwrite(at, 1, bytes, stdout) != bytes)
		exit(1);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--version") == 0) {
		puts(PEER_VERSION);
		return 0;
	}
	if (argc > 1)
		nr_cpu_ids = clamp(atoi(argv[1]), 1, NR_CPUS);
	radix_tree_node_cachep = new_cache(sizeof(struct xa_node));
	vmalloc_init();
	for (;;) {
		u32 header[2];

		wanted(header, sizeof(header));
		unsigned long count = header[1];
		struct operation *all = malloc(count * sizeof(*all) + 1);
		u64 *each = header[0] == 'T' ? calloc(count + 1, sizeof(u64)) : NULL;

		wanted(all, count * sizeof(*all));
		for (unsigned long n = 0; n < count; n++)
			if (all[n].slot >= slots_len) {
				unsigned long longer = max(2 * slots_len, all[n].slot + 1024ul);

				slots = realloc(slots, longer * sizeof(void *));
				memset(slots + slots_len, 0, (longer - slots_len) * sizeof(void *));
				slots_len = longer;
			}
		if (header[0] == 'R') {
			u64 answer[2] = { 0, failed };
			u64 begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);

			for (unsigned long n = 0; n < count; n++) {
				one(all[n]);
				settle();
			}
			answer[0] = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
			answer[1] = failed - answer[1];
			told(answer, sizeof(answer));
		} else if (header[0] == 'T') {
			for (unsigned long n = 0; n < count; n++) {
				u64 begin = clock_ns(CLOCK_MONOTONIC);

				one(all[n]);
				each[n] = clock_ns(CLOCK_MONOTONIC) - begin;
				begin = clock_ns(CLOCK_MONOTONIC);
				settle();
				longest_ns = max(longest_ns, clock_ns(CLOCK_MONOTONIC) - begin);
			}
			told(each, count * sizeof(u64));
		} else if (header[0] == 'C') {
			u64 answer[4] = { lazy_max_pages(), lazy_peak, tlb_flushes, longest_ns };

			told(answer, sizeof(answer));
		}
		fflush(stdout);
		free(each);
		free(all);
	}
}
