/*
 * Page tables of four levels in plain memory, with the shape of those of x86-64. Linux's own code walks them by the names
 * below; for the library, which leaves its tables to the kernel, `map_pages` and `unmap_pages` do. Nothing ever reads
 * memory through them.
 *
 * An entry is a frame's number and a bit, written and cleared by plain stores, for all alike.
 */
#ifndef TABLES_H
#define TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define TABLE_ENTRIES 512
#define TABLE_BYTES 4096
#define PRESENT 1UL

extern unsigned long top_table[TABLE_ENTRIES];

/* The table below an entry, made if there is none: of two threads that make one, the second gives up its own. */
unsigned long *new_table(unsigned long *entry);

static inline unsigned long *table_below(const unsigned long *entry)
{
	return (unsigned long *)__atomic_load_n(entry, __ATOMIC_ACQUIRE);
}

static inline unsigned long *entry_at(unsigned long *table, unsigned long at, int shift)
{
	return &table[at >> shift & (TABLE_ENTRIES - 1)];
}

#ifndef KERNEL_H

/* The entry of the page at `at`, with the tables above it; NULL if there are none and none are to be made. */
static inline unsigned long *leaf_entry(unsigned long at, bool is_made)
{
	unsigned long *table = top_table;

	for (int shift = 39; shift > 12; shift -= 9) {
		unsigned long *entry = entry_at(table, at, shift);

		table = table_below(entry);
		if (__builtin_expect(!table, 0)) {
			if (!is_made)
				return NULL;
			table = new_table(entry);
		}
	}
	return entry_at(table, at, 12);
}

/* Maps `count` frames from `first` on. A page that is mapped already ends the program. */
static inline void map_pages(unsigned long at, unsigned long first, unsigned long count)
{
	while (count) {
		unsigned long *entry = leaf_entry(at, true);
		unsigned long here = TABLE_ENTRIES - (at >> 12 & (TABLE_ENTRIES - 1));

		if (here > count)
			here = count;
		for (unsigned long n = 0; n < here; n++) {
			if (__builtin_expect(entry[n] != 0, 0))
				abort();
			*(volatile unsigned long *)&entry[n] = (first + n) << 12 | PRESENT;
		}
		at += here << 12;
		first += here;
		count -= here;
	}
}

static inline void unmap_pages(unsigned long at, unsigned long count)
{
	while (count) {
		unsigned long *entry = leaf_entry(at, false);
		unsigned long here = TABLE_ENTRIES - (at >> 12 & (TABLE_ENTRIES - 1));

		if (here > count)
			here = count;
		for (unsigned long n = 0; entry && n < here; n++)
			*(volatile unsigned long *)&entry[n] = 0;
		at += here << 12;
		count -= here;
	}
}

#else /* the names by which Linux's code walks them */

struct page { struct page *next_free; };
extern struct page *all_pages;
extern unsigned long pages_len;
extern char *direct_map;
struct page *new_page(gfp_t flags);
unsigned int new_pages(gfp_t flags, unsigned int count, struct page **into);
void give_page(struct page *page);
void kvfree(const void *at);
#define alloc_pages_noprof(flags, order) new_page(flags)
#define alloc_pages_node_noprof(node, flags, order) new_page(flags)
#define alloc_pages_bulk_array_mempolicy_noprof(flags, count, into) new_pages(flags, count, into)
#define alloc_pages_bulk_array_node_noprof(flags, node, count, into) new_pages(flags, count, into)
#define split_page(page, order) ((void)0)
#define __free_page(page) give_page(page)
#define mod_memcg_page_state(...) ((void)0)
#define totalram_pages() pages_len
#define memalloc_nofs_save() 0
#define memalloc_noio_save() 0
#define memalloc_nofs_restore(flags) ((void)(flags))
#define memalloc_noio_restore(flags) ((void)(flags))
#define fatal_signal_pending(task) 0
#define schedule_timeout_uninterruptible(ticks) ((void)0)
#define kmalloc_node_noprof(bytes, flags, node) malloc(bytes)
#define page_to_pfn(page) ((unsigned long)((page) - all_pages))
#define pfn_to_page(frame) (all_pages + (frame))
#define pfn_valid(frame) ((unsigned long)(frame) < pages_len)
#define page_to_phys(page) (page_to_pfn(page) << PAGE_SHIFT)
#define page_address(page) NULL

#define pgd_offset_k(at) ((pgd_t *)entry_at(top_table, at, P4D_SHIFT))
#define step_end(at, end, step) ({ unsigned long behind = ((at) + (step)) & ~((step) - 1); behind - 1 < (end) - 1 ? behind : (end); })
#define pgd_addr_end(at, end) step_end(at, end, P4D_SIZE)
#define p4d_addr_end(at, end) (end)
#define pud_addr_end(at, end) step_end(at, end, PUD_SIZE)
#define pmd_addr_end(at, end) step_end(at, end, PMD_SIZE)
#define is_empty(entry) ((entry).value == 0)
#define pgd_none(entry) is_empty(entry)
#define p4d_none(entry) is_empty(entry)
#define pud_none(entry) is_empty(entry)
#define pmd_none(entry) is_empty(entry)
#define pte_none(entry) is_empty(entry)
#define pgd_none_or_clear_bad(entry) is_empty(*(entry))
#define p4d_none_or_clear_bad(entry) is_empty(*(entry))
#define pud_none_or_clear_bad(entry) is_empty(*(entry))
#define pmd_none_or_clear_bad(entry) is_empty(*(entry))
#define pmd_present(entry) ((entry).value != 0)
#define pud_present(entry) ((entry).value != 0)
#define p4d_present(entry) ((entry).value != 0)
#define pte_present(entry) ((entry).value & PRESENT)
#define p4d_offset(above, at) ((p4d_t *)(above))
#define pud_offset(above, at) ((pud_t *)entry_at(table_below(&(above)->value), at, PUD_SHIFT))
#define pmd_offset(above, at) ((pmd_t *)entry_at(table_below(&(above)->value), at, PMD_SHIFT))
#define pte_offset_kernel(above, at) ((pte_t *)entry_at(table_below(&(above)->value), at, PAGE_SHIFT))
#define made(above) ((void)(table_below(&(above)->value) ? NULL : new_table(&(above)->value)))
#define p4d_alloc_track(mm, above, at, mask) ((void)(mask), (p4d_t *)(above))
#define pud_alloc_track(mm, above, at, mask) (made(above), (void)(mask), pud_offset(above, at))
#define pmd_alloc_track(mm, above, at, mask) (made(above), (void)(mask), pmd_offset(above, at))
#define pte_alloc_kernel_track(above, at, mask) (made(above), (void)(mask), pte_offset_kernel(above, at))
#define ptep_get(entry) (*(entry))
#define ptep_get_and_clear(mm, at, entry) ({ pte_t was = *(entry); WRITE_ONCE((entry)->value, 0); was; })
#define pfn_pte(frame, protection) ((pte_t){ (unsigned long)(frame) << PAGE_SHIFT | PRESENT })
#define mk_pte(page, protection) pfn_pte(page_to_pfn(page), protection)
#define set_pte_at(mm, at, entry, new) WRITE_ONCE((entry)->value, (new).value)
#define pte_page(entry) pfn_to_page((entry).value >> PAGE_SHIFT)
#define kmsan_vmap_pages_range_noflush(...) 0
#define kmsan_vunmap_range_noflush(...) ((void)0)

#endif
#endif
