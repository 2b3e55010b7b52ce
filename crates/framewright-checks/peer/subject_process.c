/*
 * The library for processes as a subject of Linux's test: memory is real, and each mapping is the operating system's.
 */
#include "subject.h"
#include <framewright.h>
#include <stdio.h>
#include <stdlib.h>

const char subject_name[] = "framewright in a process";
static struct fw_host *host;

/* Ends the program where a call fails that must not. */
static void expect(int code, const char *what)
{
	if (code == FW_OK)
		return;
	fprintf(stderr, "subject: %s: %s\n", what, fw_strerror(code));
	exit(1);
}

void subject_begin(bool keeps)
{
	struct fw_options options;

	expect(fw_options_init(&options, sizeof(options)), "options");
	options.memory_bytes = SUBJECT_PAGES * FW_PAGE_BYTES;
	options.window_bytes = WINDOW_BYTES;
	options.keeps_mapped = keeps;
	expect(fw_host_new(&options, &host), "begin");
}

static int count(void *argument, void *area, size_t bytes, int kind)
{
	(void)area, (void)bytes, (void)kind;
	++*(unsigned long *)argument;
	return 0;
}

unsigned long subject_end(void)
{
	struct fw_stats stats = { .struct_bytes = sizeof(stats) };
	unsigned long areas = 0;

	expect(fw_drain(host), "drain");
	expect(fw_verify(host), "verify");
	expect(fw_for_each_area(host, count, &areas), "areas");
	expect(fw_stats(host, &stats), "stats");
	expect(fw_host_free(host), "end");
	return areas + (stats.frames - stats.free_frames);
}

void subject_enter(unsigned int cpu)
{
	(void)cpu;
}

void subject_leave(void)
{
}

void *subject_vmalloc(size_t bytes, size_t align, bool is_zeroed)
{
	return fw_vmalloc_with(host, bytes, align, is_zeroed ? FW_ZERO : 0);
}

void subject_vfree(const void *at)
{
	expect(fw_vfree(host, (void *)at), "vfree");
}

/* A page is named by its frame, and by nothing that the test reads. */
unsigned long subject_pages(unsigned int count, struct page **into)
{
	unsigned long n = 0;
	uint64_t frame;

	while (n < count && fw_frame_alloc(host, 0, FW_UNMOVABLE, &frame) == FW_OK)
		into[n++] = (struct page *)frame;
	return n;
}

void subject_give_page(struct page *page)
{
	expect(fw_frame_free(host, (uint64_t)page, 0), "free");
}

void *subject_map_ram(struct page **pages, unsigned int count)
{
	return fw_map_ram(host, (const uint64_t *)pages, count);
}

void subject_unmap_ram(const void *at, unsigned int count)
{
	expect(fw_unmap_ram(host, (void *)at, count), "unmap");
}
