/*
 * Linux's own mm/vmalloc.c as a subject of its own test. vmalloc.c itself is unchanged.
 *
 * A worker is a CPU. What Linux leaves to the kernel's other parts is here, as cheap as it can be: pages come from a list
 * of the CPU's own, records of one length too. What is put off, work and what waits for readers, runs behind an operation,
 * on the CPU that put it off.
 */
#include "vmalloc.c"
#include "subject.h"
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

const char subject_name[] = "linux";
unsigned int nr_cpu_ids = SUBJECT_CPUS;
const cpumask_t every_cpu = { { ~0UL, ~0UL } };
unsigned long tlb_flushes, lazy_peak;
struct shrinker one_shrinker;
struct kmem_cache *radix_tree_node_cachep;
__thread unsigned int this_cpu;
unsigned long window_start, window_end;

/* The holder may be off its processor, so others give theirs away after a while. */
void spin_wait(spinlock_t *lock)
{
	for (unsigned int turn = 0;; turn++) {
		while (READ_ONCE(lock->held))
			if (turn++ % 1024 == 1023)
				sched_yield();
		if (spin_trylock(lock))
			return;
	}
}

/* Free lists of one length, one for each CPU. */
struct kmem_cache { struct { void *free; size_t bytes; char apart[112]; } of[SUBJECT_CPUS]; };

struct kmem_cache *new_cache(size_t bytes)
{
	struct kmem_cache *cache = calloc(1, sizeof(*cache));

	for (int cpu = 0; cpu < SUBJECT_CPUS; cpu++)
		cache->of[cpu].bytes = ALIGN(bytes, 64);
	return cache;
}

void *from_cache(struct kmem_cache *cache)
{
	void *at = cache->of[this_cpu].free;

	if (likely(at)) {
		cache->of[this_cpu].free = *(void **)at;
		return at;
	}
	at = aligned_alloc(64, cache->of[0].bytes * 64);
	memset(at, 0, cache->of[0].bytes * 64);
	for (int n = 63; n > 0; n--)
		kmem_cache_free(cache, (char *)at + cache->of[0].bytes * n);
	return at;
}

void *zeroed_from_cache(struct kmem_cache *cache)
{
	return memset(from_cache(cache), 0, cache->of[0].bytes);
}

void kmem_cache_free(struct kmem_cache *cache, void *at)
{
	*(void **)at = cache->of[this_cpu].free;
	cache->of[this_cpu].free = at;
}

void *zeroed(size_t bytes)
{
	void *at = malloc(bytes);

	/* The compiler must not make calloc of it, which is slower in libc. */
	__asm__ volatile("" : "+r"(at));
	return memset(at, 0, bytes);
}

/* Pages: numbers that were never used, then those that were given back, last first. */
struct page *all_pages;
unsigned long pages_len = SUBJECT_PAGES;
char *direct_map;
static unsigned long unused_page;
static struct { struct page *free; char apart[120]; } pages_of[SUBJECT_CPUS];

struct page *new_page(gfp_t flags)
{
	struct page *page = pages_of[this_cpu].free;

	if (likely(page)) {
		pages_of[this_cpu].free = page->next_free;
	} else {
		unsigned long number = __atomic_fetch_add(&unused_page, 1, __ATOMIC_RELAXED);

		if (number >= pages_len)
			return NULL;
		page = &all_pages[number];
	}
	if (flags & __GFP_ZERO)
		memset(direct_map + page_to_phys(page), 0, PAGE_SIZE);
	return page;
}

unsigned int new_pages(gfp_t flags, unsigned int count, struct page **into)
{
	unsigned int n = 0;

	while (n < count && (into[n] = new_page(flags)))
		n++;
	return n;
}

void give_page(struct page *page)
{
	page->next_free = pages_of[this_cpu].free;
	pages_of[this_cpu].free = page;
}

void kvfree(const void *at)
{
	if (is_vmalloc_addr(at))
		vfree(at);
	else
		free((void *)at);
}

unsigned long top_table[TABLE_ENTRIES];

unsigned long *new_table(unsigned long *entry)
{
	unsigned long *table = aligned_alloc(TABLE_BYTES, TABLE_BYTES), none = 0;

	memset(table, 0, TABLE_BYTES);
	if (__atomic_compare_exchange_n(entry, &none, (unsigned long)table, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return table;
	free(table);
	return (unsigned long *)none;
}

/*
 * Readers have no record of their own: a CPU says behind each operation, where it reads nothing, how many periods have
 * begun. What was put off before a period began is done when every CPU that is inside has said so.
 */
#define OUTSIDE ULONG_MAX
static unsigned long period = 1;
static struct { unsigned long seen; char apart[120]; } readers[SUBJECT_CPUS] = { { OUTSIDE }, { OUTSIDE } };
static __thread struct { struct rcu_head *first, *waiting; unsigned int len; unsigned long until; } later;
static __thread struct work_struct *works, **last_work;

void call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *))
{
	head->func = func;
	head->next = later.first;
	later.first = head;
	later.len++;
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

static void do_all(struct rcu_head *head)
{
	while (head) {
		struct rcu_head *next = head->next;

		head->func(head);
		head = next;
	}
}

static bool is_over(unsigned long until)
{
	for (int cpu = 0; cpu < SUBJECT_CPUS; cpu++)
		if (__atomic_load_n(&readers[cpu].seen, __ATOMIC_SEQ_CST) < until)
			return false;
	return true;
}

bool schedule_work(struct work_struct *work)
{
	if (__atomic_exchange_n(&work->queued, true, __ATOMIC_SEQ_CST))
		return false;
	work->next = NULL;
	*last_work = work;
	last_work = &work->next;
	return true;
}

static void next_work(void)
{
	struct work_struct *work = works;

	works = work->next;
	if (!works)
		last_work = &works;
	__atomic_store_n(&work->queued, false, __ATOMIC_SEQ_CST);
	work->func(work);
}

/* The purge alone waits for work, that which it has put off itself. */
bool flush_work(struct work_struct *work)
{
	while (READ_ONCE(work->queued))
		next_work();
	return true;
}

/* Behind an operation. */
static void settle(void)
{
	while (unlikely(works))
		next_work();
	__atomic_store_n(&readers[this_cpu].seen, __atomic_load_n(&period, __ATOMIC_SEQ_CST), __ATOMIC_RELEASE);
	if (likely(later.len < 64))
		return;
	if (later.waiting) {
		if (!is_over(later.until))
			return;
		do_all(later.waiting);
	}
	later.waiting = later.first;
	later.first = NULL;
	later.len = 0;
	later.until = __atomic_add_fetch(&period, 1, __ATOMIC_SEQ_CST);
}

void subject_begin(bool keeps)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

	window_start = (unsigned long)test_window();
	window_end = window_start + WINDOW_BYTES;
	direct_map = mmap(NULL, pages_len * PAGE_SIZE, PROT_READ | PROT_WRITE, flags, -1, 0);
	madvise(direct_map, pages_len * PAGE_SIZE, MADV_HUGEPAGE);
	all_pages = calloc(pages_len, sizeof(*all_pages));
	last_work = &works;
	radix_tree_node_cachep = new_cache(sizeof(struct xa_node));
	vmalloc_init();
}

void subject_enter(unsigned int cpu)
{
	this_cpu = cpu;
	last_work = &works;
	__atomic_store_n(&readers[cpu].seen, __atomic_load_n(&period, __ATOMIC_SEQ_CST), __ATOMIC_SEQ_CST);
}

/* Waits for its last period, so that nothing it put off is left. */
void subject_leave(void)
{
	while (works)
		next_work();
	__atomic_store_n(&readers[this_cpu].seen, OUTSIDE, __ATOMIC_SEQ_CST);
	unsigned long until = __atomic_add_fetch(&period, 1, __ATOMIC_SEQ_CST);

	while (!is_over(until))
		sched_yield();
	do_all(later.waiting);
	do_all(later.first);
	memset(&later, 0, sizeof(later));
}

/* Areas that are in use. */
unsigned long subject_end(void)
{
	unsigned long busy = 0;
	struct vmap_area *area;

	subject_enter(0);
	reclaim_and_purge_vmap_areas();
	subject_leave();
	for (int n = 0; n < nr_vmap_nodes; n++)
		list_for_each_entry(area, &vmap_nodes[n].busy.head, list)
			/* Blocks of vm_map_ram stay for the next one. */
			busy += !(area->flags & VMAP_BLOCK);
	return busy;
}

void *subject_vmalloc(size_t bytes, size_t align, bool is_zeroed)
{
	void *at = __vmalloc_node_noprof(bytes, align, GFP_KERNEL | (is_zeroed ? __GFP_ZERO : 0), NUMA_NO_NODE,
					 __builtin_return_address(0));

	settle();
	return at;
}

void subject_vfree(const void *at)
{
	vfree(at);
	settle();
}

unsigned long subject_pages(unsigned int count, struct page **into)
{
	return new_pages(GFP_KERNEL, count, into);
}

void subject_give_page(struct page *page)
{
	give_page(page);
}

void *subject_map_ram(struct page **pages, unsigned int count)
{
	return vm_map_ram(pages, count, NUMA_NO_NODE);
}

void subject_unmap_ram(const void *at, unsigned int count)
{
	vm_unmap_ram(at, count);
	settle();
}
