// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * What one loop of a test costs in Linux: the counterpart of `kernel/src/suite/objects.rs`, for what Linux's own
 * test_vmalloc does not have. One test a load; under `-icount shift=0` the time stamp counts instructions.
 */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timex.h>
#include <linux/vmalloc.h>

static char *test = "";
module_param(test, charp, 0444);
static int loops = 20000;
module_param(loops, int, 0444);

static void say(const char *name, u64 ticks)
{
	pr_info("figure %s %llu loops %d\n", name, ticks, loops);
}

#define MEASURE(name, work)                                 \
	do {                                                \
		u64 since = get_cycles();                   \
		int nth;                                    \
		for (nth = 0; nth < loops; nth++) {         \
			work;                               \
		}                                           \
		say(name, get_cycles() - since);            \
	} while (0)

/* Two instructions a loop, if the time stamp counts them; what is more is the timer's interrupts. */
static void two_instructions(void)
{
	unsigned long left = 1000UL * loops;
	u64 since = get_cycles();

	asm volatile("1: dec %0\n\tjnz 1b" : "+r"(left) : : "cc");
	say("two_instructions", (get_cycles() - since) / 1000);
}

static int alloc_free_pages(const char *name, unsigned int order)
{
	MEASURE(name, {
		struct page *page = alloc_pages(GFP_KERNEL, order);

		if (!page)
			return -ENOMEM;
		__free_pages(page, order);
	});
	return 0;
}

static int kmalloc_kfree(const char *name, size_t bytes)
{
	MEASURE(name, {
		void *object = kmalloc(bytes, GFP_KERNEL);

		if (!object)
			return -ENOMEM;
		kfree(object);
	});
	return 0;
}

static int kvmalloc_kvfree(const char *name, size_t bytes)
{
	MEASURE(name, {
		void *object = kvmalloc(bytes, GFP_KERNEL);

		if (!object)
			return -ENOMEM;
		kvfree(object);
	});
	return 0;
}

enum { FRAMES_MAX = 64, TAKEN_MAX = 16 * FRAMES_MAX };

/* Frames of which none is beside another: of those taken, the next that is not beside one chosen before. */
static int map_ram_apart(const char *name, unsigned int wanted)
{
	static struct page *taken[TAKEN_MAX], *chosen[FRAMES_MAX];
	unsigned int count, found = 0, nth, other;
	int code = -ENOMEM;

	for (count = 0; count < TAKEN_MAX; count++) {
		taken[count] = alloc_page(GFP_KERNEL);
		if (!taken[count])
			goto give_back;
	}
	for (nth = 0; nth < count && found < wanted; nth++) {
		unsigned long frame = page_to_pfn(taken[nth]);

		for (other = 0; other < found; other++)
			if (page_to_pfn(chosen[other]) + 1 == frame || frame + 1 == page_to_pfn(chosen[other]))
				break;
		if (other == found)
			chosen[found++] = taken[nth];
	}
	if (found < wanted)
		goto give_back;
	MEASURE(name, {
		u8 *area = vm_map_ram(chosen, wanted, NUMA_NO_NODE);

		if (!area)
			goto give_back;
		*(volatile u8 *)area = 1;
		vm_unmap_ram(area, wanted);
	});
	code = 0;
give_back:
	while (count--)
		__free_page(taken[count]);
	return code;
}

static int zero_page(void)
{
	void *page = (void *)__get_free_page(GFP_KERNEL);

	if (!page)
		return -ENOMEM;
	MEASURE("zero_page", clear_page(page));
	free_page((unsigned long)page);
	return 0;
}

/* Objects of the lengths that pcpu's have, one after the other. */
static int zero_object(void)
{
	void *page = (void *)__get_free_page(GFP_KERNEL);

	if (!page)
		return -ENOMEM;
	MEASURE("zero_object", {
		memset(page, 0, 1 + nth % 1024);
		barrier_data(page);
	});
	free_page((unsigned long)page);
	return 0;
}

static int run(void)
{
	if (!strcmp(test, "two_instructions"))
		return two_instructions(), 0;
	if (!strcmp(test, "alloc_pages_0"))
		return alloc_free_pages(test, 0);
	if (!strcmp(test, "alloc_pages_3"))
		return alloc_free_pages(test, 3);
	if (!strcmp(test, "alloc_pages_9"))
		return alloc_free_pages(test, 9);
	if (!strcmp(test, "kmalloc_64"))
		return kmalloc_kfree(test, 64);
	if (!strcmp(test, "kvmalloc_4k"))
		return kvmalloc_kvfree(test, 4 << 10);
	if (!strcmp(test, "kvmalloc_64k"))
		return kvmalloc_kvfree(test, 64 << 10);
	if (!strcmp(test, "kvmalloc_1m"))
		return kvmalloc_kvfree(test, 1 << 20);
	if (!strcmp(test, "vm_map_ram_16_apart"))
		return map_ram_apart(test, 16);
	if (!strcmp(test, "vm_map_ram_64_apart"))
		return map_ram_apart(test, 64);
	if (!strcmp(test, "zero_page"))
		return zero_page();
	if (!strcmp(test, "zero_object"))
		return zero_object();
	pr_err("there is no test `%s`\n", test);
	return -EINVAL;
}

static int __init start(void)
{
	int code = run();

	/* It does not stay. */
	return code ? code : -EAGAIN;
}

module_init(start);
MODULE_DESCRIPTION("Instructions that pairs of an allocation and its free cost");
MODULE_LICENSE("Dual MIT/GPL");
