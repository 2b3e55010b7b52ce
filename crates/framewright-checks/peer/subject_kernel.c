/*
 * The library for kernels as a subject of Linux's test, over the page tables that Linux's own code has there (tables.h).
 */
#define _GNU_SOURCE
#include "subject.h"
#include "tables.h"
#include <framewright_kernel.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

const char subject_name[] = "framewright";
unsigned long top_table[TABLE_ENTRIES];
static struct fwk_memory *memory;
static __thread uint32_t this_cpu;
static unsigned long flushes;

/* Frame 0 is no page's name: a page is its frame's number. */
#define FIRST 1
/* Two workers have 35,000 objects of up to 1 KiB each. */
#define UNIT_BYTES (256UL << 20)

unsigned long *new_table(unsigned long *entry)
{
	unsigned long *table = aligned_alloc(TABLE_BYTES, TABLE_BYTES), none = 0;

	memset(table, 0, TABLE_BYTES);
	if (__atomic_compare_exchange_n(entry, &none, (unsigned long)table, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return table;
	free(table);
	return (unsigned long *)none;
}

static int map(void *context, void *at, uint64_t first, uint64_t frames, uint32_t flags, struct fwk_tables *tables)
{
	(void)context, (void)flags, (void)tables;
	map_pages((unsigned long)at, first, frames);
	return 0;
}

static int unmap(void *context, void *at, size_t bytes)
{
	(void)context;
	unmap_pages((unsigned long)at, bytes / FW_PAGE_BYTES);
	return 0;
}

/* As on Linux's side, a flush is counted. */
static void flush(void *context)
{
	(void)context;
	flushes++;
}

static void relax(void *context, uint32_t attempt)
{
	(void)context;
	if (attempt % 64 == 63)
		sched_yield();
}

static void barrier_on_all(void *context)
{
	(void)context;
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0))
		abort();
}

static void panicked(void *context, const char *message)
{
	(void)context;
	fprintf(stderr, "subject: %s\n", message);
	abort();
}

/* Ends the program where a call fails that must not. */
static void expect(int code, const char *what)
{
	if (code == FW_OK)
		return;
	fprintf(stderr, "subject: %s: %s\n", what, fwk_strerror(code));
	exit(1);
}

void subject_begin(bool keeps)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	struct fwk_layout layout = {
		.struct_bytes = sizeof(layout), .cpus = SUBJECT_CPUS, .first_frame = FIRST, .frames = SUBJECT_PAGES,
		.window = (uint64_t)test_window(), .window_bytes = WINDOW_BYTES, .units = SUBJECT_CPUS, .unit_bytes = UNIT_BYTES,
		.flags = FWK_ZEROED | (keeps ? FWK_KEEPS_MAPPED : 0),
	};
	char *ram = mmap(NULL, SUBJECT_PAGES * FW_PAGE_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
	struct fwk_platform platform = {
		.struct_bytes = sizeof(platform), .direct_map = (uint64_t)ram - FIRST * FW_PAGE_BYTES,
		.map = map, .unmap = unmap, .flush = flush, .relax = relax, .panic = panicked,
	};
	size_t metadata_bytes = 0;

	madvise(ram, SUBJECT_PAGES * FW_PAGE_BYTES, MADV_HUGEPAGE);
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0)
		platform.barrier = barrier_on_all;
	expect(fwk_metadata_bytes(&layout, &metadata_bytes), "metadata");
	void *metadata = mmap(NULL, metadata_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
	madvise(metadata, metadata_bytes, MADV_HUGEPAGE);
	expect(fwk_new(&layout, &platform, metadata, metadata_bytes, &memory), "begin");
	expect(fwk_add(memory, 0, FIRST, SUBJECT_PAGES), "add");
}

static int count(void *argument, void *area, size_t bytes, int kind)
{
	(void)area, (void)bytes, (void)kind;
	++*(unsigned long *)argument;
	return 0;
}

unsigned long subject_end(void)
{
	struct fwk_stats stats = { .struct_bytes = sizeof(stats) };
	unsigned long areas = 0;

	this_cpu = 0;
	expect(fwk_drain(memory, 0), "drain");
	expect(fwk_verify(memory, 0), "verify");
	expect(fwk_for_each_area(memory, 0, count, &areas), "areas");
	expect(fwk_stats(memory, 0, &stats), "stats");
	return areas + (stats.frames - stats.free_frames);
}

void subject_enter(unsigned int cpu)
{
	this_cpu = cpu;
}

void subject_leave(void)
{
}

void *subject_vmalloc(size_t bytes, size_t align, bool is_zeroed)
{
	return fwk_vmalloc(memory, this_cpu, bytes, align, is_zeroed ? FW_ZERO : 0);
}

void subject_vfree(const void *at)
{
	expect(fwk_vfree(memory, this_cpu, (void *)at), "vfree");
}

unsigned long subject_pages(unsigned int count, struct page **into)
{
	unsigned long n = 0;
	uint64_t frame;

	while (n < count && fwk_frame_alloc(memory, this_cpu, 0, FW_UNMOVABLE, 0, &frame) == FW_OK)
		into[n++] = (struct page *)frame;
	return n;
}

void subject_give_page(struct page *page)
{
	expect(fwk_frame_free(memory, this_cpu, (uint64_t)page, 0), "free");
}

void *subject_map_ram(struct page **pages, unsigned int count)
{
	return fwk_map_ram(memory, this_cpu, (const uint64_t *)pages, count, 0);
}

void subject_unmap_ram(const void *at, unsigned int count)
{
	expect(fwk_unmap_ram(memory, this_cpu, (void *)at, count), "unmap");
}

void *subject_alloc_percpu(size_t bytes, size_t align)
{
	return fwk_alloc_percpu(memory, this_cpu, bytes, align, 0);
}

void subject_free_percpu(const void *at)
{
	expect(fwk_free_percpu(memory, this_cpu, (void *)at), "free of memory of each CPU");
}
