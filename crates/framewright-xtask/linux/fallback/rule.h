/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * A request whose own lists are empty, by one rule for what it takes from the others. `cargo xtask linux-fallback` puts this
 * into a copy of mm/page_alloc.c, behind what it calls and in front of its caller, with FALLBACK_SPARED in front: the largest
 * order that the rule spares, or -1.
 *
 * - Up to Linux 4.11 (FALLBACK_SPARED -1): the largest block there is.
 * - The document's (FALLBACK_SPARED 3): the largest block above order 3; if there is none, the smallest that will do.
 *
 * In both a block of which the request may claim the whole pageblock brings the pageblock with it, if Linux 6.12's own test
 * of the pageblock agrees; else the request takes what it needs. The rest stays on the list where it was: since 6.10 a free
 * block lies on no list but its pageblock's.
 */

/* Takes from a block of order `have` on another list, if there is one. */
static struct page *fallback_from(struct zone *zone, int order, int have, int mobility, unsigned int alloc_flags)
{
	struct free_area *area = &zone->free_area[have];
	struct page *block, *page = NULL;
	bool may_claim;
	int from = find_suitable_fallback(area, have, mobility, false, &may_claim);

	if (from < 0)
		return NULL;
	block = get_page_from_free_area(area, from);
	if (may_claim)
		page = try_to_steal_block(zone, block, have, order, mobility, alloc_flags);
	if (!page) {
		page_del_and_expand(zone, block, order, have, from);
		page = block;
	}
	trace_mm_page_alloc_extfrag(page, order, have, mobility, from);
	return page;
}

/* Not inlined, so that the kernel's list of symbols says by which rule it was built. */
static noinline struct page *fallback_by_rule(struct zone *zone, int order, int mobility, unsigned int alloc_flags)
{
	int least = order, have;
	struct page *page = NULL;

	if (alloc_flags & ALLOC_NOFRAGMENT)
		least = max_t(int, order, pageblock_order);
	for (have = MAX_PAGE_ORDER; !page && have >= least && have > FALLBACK_SPARED; have--)
		page = fallback_from(zone, order, have, mobility, alloc_flags);
	for (have = least; !page && have <= FALLBACK_SPARED; have++)
		page = fallback_from(zone, order, have, mobility, alloc_flags);
	return page;
}

/* The caller comes after this. What it tries next finds nothing that this has not found. */
#define __rmqueue_claim fallback_by_rule
