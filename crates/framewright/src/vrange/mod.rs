//! Virtual ranges: an arena of gaps, spans that CPUs own, areas, vmap blocks, and a purge by
//! generation.
//!
//! ```text
//!  a range of pages
//!                  alloc                free                    purge                flush
//!        Gap ───────────────▶ Live ───────────────▶ Lazy ──────────────────▶ Waiting ───────▶ Gap
//!     (arena or span)          ▲  │                    ▲  still mapped    unmapped, stamped   its
//!                              │  │ vfree              │                                     generation
//!                              │  ▼                    │ evict                               has passed
//!                              Kept ───────────────────┘
//!                              (constructed: frames and mapping stay, for the next vmalloc)
//!
//!  vfree_atomic: Live ──▶ Deferred, and a later free_deferred: Deferred ──▶ Lazy
//!
//!  in a strict space a free unmaps, too: a Lazy page is mapped no longer, and an area comes to Kept only
//!  from Waiting, with its frames and without a mapping
//!
//!  a span (span_pages pages, aligned to them)
//!        Arena ──── take, under the arena's lock ────▶ Areas(cpu) or Block(cpu)
//!          ▲                                                 │
//!          └────── entirely free, or dissolved ──────────────┘
//! ```
//!
//! A space is one window of address space. A table has two words for each of its pages; the window
//! is also divided into spans, each with a record (kind, owner, bitmaps). Both lie in metadata that
//! is handed in; zeroed words are a valid beginning, so a host need not touch what is not used.
//!
//! - The **arena** keeps the free pages that no CPU has, as gaps: a balanced tree by address, each
//!   node augmented with the longest gap below it, in the table's words of the gap's own first
//!   page. So there is a descriptor for each gap that can exist, and neither a split nor a free
//!   ever needs memory. First fit by lowest address, exact for alignment.
//! - **Spans** are lent by the arena to a CPU, for small areas (`Areas`) or for `map_ram` (`Block`:
//!   a vmap block). The owner serves requests by moving a cursor through untouched pages (the
//!   *bump*), then from a bitmap of free pages, with plain loads and stores. An area that is longer
//!   than half a span, or aligned to more than a span, comes directly from the arena.
//! - A **vmap block** is a span from which slots of a power of two of pages are cut, for frames of
//!   the caller's. Blocks with room are in a list of their CPU's, oldest first; the first that has
//!   a slot serves. A freed slot is used again as soon as its generation has passed, or with the
//!   policy of Linux only when all of the block is free.
//! - A **free** only marks: first the area's header, which is the truth about it; then on the
//!   owner's CPU the span's lazy bitmap, and on another CPU one bit, at the area's start, in a
//!   second, atomic bitmap, with the span put into the owner's inbox if it is not there already.
//!   The header tells the owner how many pages that bit stands for. An arena's area goes into a
//!   list of the freeing CPU, linked through its table words.
//! - A **strict** space unmaps each area in its free (V12). The rest of the area's way is the same, but it is kept after
//!   its flush, not before.
//! - A **purge** is done by the CPUs that make pages lazy, in passes over a few spans or areas,
//!   from half of the bound on. A pass unmaps whole areas in as few pieces as possible, and stamps
//!   them with the generation that will make them reusable. A CPU that meets the bound flushes
//!   once, for all CPUs. The owner makes waiting pages free when it next looks and their generation has passed. It
//!   does not walk over them. Frames behind purged areas go back to their source after the flush.
//! - **Kept areas**: a freed `vmalloc` area of up to 128 pages stays as it is, frames, mapping and
//!   all, in a list of the freeing CPU's by its length, for the next request of that length.
//!   Surplus areas of a CPU move to a depot that all share. Both are bounded. A CPU alone has no depot: by default it
//!   keeps as many pages more itself. Once it is full, a freed area whose length has more than its share is not kept; the kept ones stay. In a strict space the CPU that has the
//!   span keeps the area, without a mapping, and there is no depot.
//! - **Before a request fails** everything is drained: deferred and kept areas, lazy ones, inboxes, all CPUs'
//!   spans. Partly used spans are *dissolved*: their free pages become gaps of the arena, where
//!   they join with those beside them, and their areas become the arena's. So the exact search of
//!   the arena has the last word.
//!
//! # Where what is
//! Each folder uses those before it:
//!
//! - `areas`: what an area is to its user; the table with its header, and lists of kept areas
//! - `arena`: the tree of gaps, and its lock
//! - `span`: a span's record, and runs in its bitmaps
//! - `space`: the layout, the space's record and the seats', and what they add up to; poison
//! - `seat`: what a CPU has of its own: spans, vmap blocks, kept areas; the depot behind these
//! - `purge`: how many pages are lazy; inbox, passes and release
//! - `request`: an allocation and a free of each kind, the slow path, and the undoing of what fails
//!
//! # A guard page before an area
//! An area of the arena may have the page before its first one as a guard, too, as a stack wants it. That page has no header
//! and no state of its own: a mark at the area's start says that it is there, in a bitmap that spans of the arena do not use
//! else. It comes with the area's cut and goes back to the arena with it; in between no free, purge or kept list knows of it,
//! so areas that have none pay nothing. Only lookups, listings and a request that takes a kept or waiting area see the mark.
//!
//! # Words of the table (page p: words 2p and 2p + 1)
//! - first page of an area: word 0 is its header: state (live, deferred, kept, lazy), kind, length, caller tag
//!   (or, in a list, the next one); it differs from a gap's node, and from zero
//! - each page of a `vmalloc` area: word 1 is the frame behind it, plus one
//! - first page of a gap in the tree: both words are its node
//! - any other: no meaning, and never read
//!
//! # Invariants
//! - **V1** Every page is in exactly one of: a gap of the arena, a span's free pages or bump, an
//!   area (live, deferred, kept, lazy or waiting), a guard page, which is its area's last, or the one before its area's
//!   first where a request asked for that.
//! - **V2** Gaps of the arena are disjoint, do not touch one another, and their tree is ordered,
//!   balanced, and right about the longest gap below each node.
//! - **V3** A span is the arena's, or exactly one CPU's. A CPU changes only its own spans' records,
//!   except the bitmap of remote frees and the inbox link; or it has claimed the owner's seat.
//! - **V4** An area is found from each of its pages: by the nearest start at or before it in its
//!   span, or by the area that covers the span's first page.
//! - **V5** A page is mapped only if it belongs to a live, deferred, kept or lazy area; it is handed out
//!   again only if a flush has begun after it was unmapped, and ended.
//! - **V6** Lazy pages, including those that wait for a flush, are at most the bound plus one batch
//!   for each CPU, and the pages that the platform failed to unmap when all were tried. The bound
//!   is the configured one, or an eighth of the window if that is less. (An area that is longer than the bound is
//!   above it until its free returns, and counts in no peak. If another CPU has the area and is in its seat, the
//!   area stays above the bound until a later free of that CPU's or of this one's has purged it. An area whose
//!   allocation the platform unwound out of may be above it, too, because its clean-up neither unmaps nor flushes.)
//!   A CPU that frees gives back frames behind pages that a flush has made free, where many of these wait. So at most
//!   this many frames are behind freed areas, kept and deferred ones aside: on one CPU three times the bound; on several the bound,
//!   and as much again for each. (In a strict space these figures are of `lazy_frames_max`. A CPU
//!   that meets that bound purges its own pages, and no other CPU's; so others may still have some above it.)
//!   At each moment at which no seat is busy, two kinds of counts are right: those of pages, and those of the pages
//!   that calls outside their seats have reported.
//! - **V7** A frame taken for an area is in its table words until it is given back, once. So an area
//!   that was never handed out, because the platform's `map` or `zero` unwound, gives back what it has
//!   when it is released, as any other.
//! - **V8** A request fails for want of space only if at one moment during the call no gap of its
//!   length and alignment existed, while no page was lazy, kept, in a span, or in a list of deferred areas. (Without recycling,
//!   vmap blocks with a live slot stay what they are.) So does one that must not wait, where it can know that: all these pages
//!   together are too few, or all of them were in the arena when it looked there. Else it fails with `WouldWait`, and only
//!   after it has looked at all that its CPU has and at the arena, with all free that needs neither an unmap nor a flush.
//!
//! - **V9** An area is lazy or waiting as a whole: at rest all of its pages are in one state, and
//!   its header says whether it is live, kept or freed. Only the CPU that has a span moves pages of
//!   its areas from state to state, and it moves all pages of an area in one hold of its seat;
//!   another CPU's free is one atomic operation on the header, then one on the bit at the area's
//!   start. So where the first page waits, all of the area is unmapped, and its frames go back
//!   together.
//! - **V10** A free changes the header from live, once, by compare-and-exchange: of several frees
//!   of one area one succeeds. From live the header goes to lazy, to kept, or by way of deferred to lazy; in a strict space
//!   to lazy, and from there to kept. From kept it goes to live, for the next user, or in one step to lazy. It never
//!   goes from kept to lazy by way of live. So a second free is refused at every moment until the area is handed out
//!   again. A free that comes later, however long ago it began, frees the new area. So a CPU looks up whose the span is
//!   only after it has changed the header.
//!
//! - **V11** If the platform's `unmap` or `flush_all`, or a source's `free_run`, unwinds out of a
//!   purge or a strict free, or `relax` out of the wait for a lock of rank 2 or for a turn to flush, the space is
//!   *poisoned*: it refuses every later request with the error `Poisoned`, and never changes again. All its seats
//!   are claimed for good, and no CPU waits for one of them.
//!
//! - **V12** In a strict space no page of an area is mapped when its free returns, nor while the area is kept. There are
//!   three exceptions: the platform failed to unmap it; or no caller ever had it, because its own allocation
//!   failed half way in a call that may not wait, or unwound; or the free is deferred (V13).
//!
//! - **V13** A deferred area is a live one in all but its header, which has no tag: it has its pages, frames and mapping, and each
//!   count has it as live. Its header goes from live to deferred by compare-and-exchange, as in a free (V10), and from there to lazy. Each
//!   deferred area is once in the space's list or a seat's, or on its way to the space's, or it is the one that a seat evicts.
//!
//! - **V14** The pages that a request maps are mapped for the access that it asked for. So in a space that keeps areas mapped, an
//!   area with another access than the default is never kept, and a request for such an access takes no kept area. A strict
//!   space keeps an area without a mapping, and only after the flush of its pages: no CPU has a translation left that says
//!   what they were mapped for.
//!
//! # Locks
//! - Rank 1: the space's stop lock: its holder may claim seats, one after another or all. A busy
//!   seat never takes it. Its holder purges for others: so the platform's `unmap` and `flush_all`,
//!   and a source's `free_run`, are called under it, and must not call the space.
//! - Rank 2: the arena's lock, for one search or one cut, or at most 32 merges; the depot's lock,
//!   for at most 16 kept areas that move. Neither is taken inside the other, and nothing is called
//!   under them. A CPU for which the depot is only a gain waits a moment for its lock, and then does without.
//!
//! The generation needs no lock: two counters, flushes begun and the highest completed.
//!
//! # Context
//! A seat is for one context at a time, like the frames' seat. With [`Context::may_block`] false, a
//! request claims no seat, and unmaps and flushes nothing; of the platform it calls only `map`, `zero` and
//! `interrupt_window`, of the source of frames `alloc_run` and `free_run`. Even such a request waits, spinning,
//! for the locks of rank 2, and, while another CPU has claimed its seat, for the end of that CPU's
//! purge or drain.
//!
//! A caller with a bound on its waiting makes such a request. If it fails, the caller calls
//! [`drain_within`](RangeSeat::drain_within), whose stop of all CPUs has that bound, and makes the request again.
//! One wait has no bound: another CPU has claimed this seat, and this CPU waits until that CPU's purge or drain has
//! ended.
//!
//! Only the source of frames reads `may_reclaim` and the fields behind it. The kept and lazy areas
//! of a space are its own, and those of all CPUs go before a request that may block fails.
//!
//! Frees have no context: each may unmap, purge, flush and claim seats. A caller that may not wait
//! [defers](Space::vfree_atomic) its free, which enters no seat.
//!
//! # What is not here
//! A change of a page's access while it is mapped, huge mappings by the engine's choice (a platform
//! may use them for long runs; [`AreaRequest::huge`] aligns an area for them), NUMA.
//!
//! # Sources
//! Gaps in an augmented tree instead of a walk between busy areas: U. Rezki, "improve vmalloc
//! allocation", LKML, October 2018. Vmap blocks and their list: R. Pen, "fix possible exhaustion of
//! vmalloc space caused by vm_map_ram allocator", 2015. Spans and frees that travel back: mimalloc
//! (Leijen et al., 2019), snmalloc (Lietar et al., 2019). Constructed objects: Bonwick, "The slab
//! allocator", USENIX Summer 1994.
//!
//! [`Context::may_block`]: crate::Context::may_block

mod areas;
mod arena;
mod error;
mod lookup;
mod purge;
mod request;
mod seat;
mod space;
mod span;
mod verify;

#[cfg(all(test, loom))]
#[path = "tests/models.rs"]
mod models;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub(crate) use areas::AreaHeader;
pub use areas::{AreaInfo, AreaKind, AreaState};
pub(crate) use arena::Fit;
pub use error::{RangeError, RangeFreeError};
pub use request::AreaRequest;
pub use seat::RangeSeat;
pub use space::{Space, SpaceLayout};
