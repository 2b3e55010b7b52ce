//! What an event says behind its name: the same words in ftrace text and in `perf script` text.
//!
//! # Sources
//! The fields are those that the events' own `format` files list, Linux 2.6.33 to 6.18.

use super::TextCounts;
use super::fields::{BadNumber, Fields, number, shown};
use super::gfp;
use crate::trace::EventKind;
use crate::trace::state::PAGEBLOCK_ORDER_MAX;
use framewright::{Frame, Mobility, Order};

/// The first frame number that no machine has: 2^64 bytes are 2^52 frames of 4 KiB.
const FRAME_LIMIT: u64 = 1 << 52;

/// The numbers of Linux's migratetypes go to 6 or 7 at most, whatever is configured.
const MIGRATETYPE_MAX: u64 = 7;

/// What is wrong with a line; made only where the line is refused.
pub(super) type BodyFault = String;

/// Which numbers the recording kernel gives its migratetypes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Numbering {
    /// Linux 4.4 and later: 1 is movable, 2 reclaimable.
    MovableFirst,
    /// Before Linux 4.4: 1 is reclaimable, 2 movable.
    ReclaimableFirst,
}

/// Reads events' bodies; keeps what one line teaches about the next.
#[derive(Debug)]
pub(super) struct Bodies {
    memo: gfp::Memo,
    numbering: Option<Numbering>,
}

impl Bodies {
    pub(super) fn new() -> Self {
        Self {
            memo: gfp::Memo::new(),
            numbering: None,
        }
    }

    /// The event `name` with the words `body`; counts it.
    ///
    /// On an error nothing is counted.
    pub(super) fn parse(
        &mut self,
        name: &[u8],
        body: &[u8],
        counts: &mut TextCounts,
    ) -> Result<EventKind, BodyFault> {
        match name {
            b"mm_page_alloc" => self.alloc(body, counts),
            b"mm_page_free" => {
                let kind = free(body)?;
                counts.frees += 1;
                Ok(kind)
            }
            b"mm_page_free_batched" => {
                counts.frees_batched += 1;
                Ok(EventKind::FreeBatched)
            }
            b"mm_page_alloc_extfrag" => self.extfrag(body, counts),
            b"mm_migrate_pages_start" => {
                counts.migrate_starts += 1;
                Ok(EventKind::MigrateStart)
            }
            b"mm_migrate_pages" => {
                let kind = migrate_end(body)?;
                counts.migrate_ends += 1;
                Ok(kind)
            }
            b"mm_compaction_try_to_compact_pages" => {
                let order = order_in(body, "mm_compaction_try_to_compact_pages with order=")?;
                counts.direct_compactions += 1;
                Ok(EventKind::DirectCompaction { order })
            }
            b"mm_compaction_begin" => {
                counts.compaction_begins += 1;
                Ok(EventKind::CompactionBegin)
            }
            b"mm_compaction_end" => {
                counts.compaction_ends += 1;
                Ok(EventKind::CompactionEnd)
            }
            b"mm_vmscan_direct_reclaim_begin" => {
                let order = order_in(body, "mm_vmscan_direct_reclaim_begin with order=")?;
                counts.direct_reclaims += 1;
                Ok(EventKind::DirectReclaim { order })
            }
            b"mm_vmscan_direct_reclaim_end" => {
                const EXPECTED: &str = "mm_vmscan_direct_reclaim_end with nr_reclaimed=";
                let reclaimed = one_of(body, "nr_reclaimed", EXPECTED)?;
                counts.direct_reclaim_ends += 1;
                Ok(EventKind::DirectReclaimEnd { reclaimed })
            }
            b"mm_vmscan_kswapd_wake" => {
                const EXPECTED: &str = "mm_vmscan_kswapd_wake with nid= order=";
                let (node, order) = (node_in(body, EXPECTED)?, order_in(body, EXPECTED)?);
                counts.background_wakes += 1;
                Ok(EventKind::BackgroundWakes { node, order })
            }
            b"mm_vmscan_kswapd_sleep" => {
                let node = node_in(body, "mm_vmscan_kswapd_sleep with nid=")?;
                counts.background_sleeps += 1;
                Ok(EventKind::BackgroundSleeps { node })
            }
            _ => {
                counts.other(name);
                Ok(EventKind::Other)
            }
        }
    }

    fn alloc(&mut self, body: &[u8], counts: &mut TextCounts) -> Result<EventKind, BodyFault> {
        const EXPECTED: &str = "mm_page_alloc with page= pfn= order= migratetype= gfp_flags=";
        let mut page_is_null = false;
        let (mut pfn, mut order, mut migratetype, mut flags) = (None, None, None, None);
        for (key, value) in Fields(body) {
            match key {
                b"pfn" => once(&mut pfn, "pfn", value)?,
                b"order" => once(&mut order, "order", value)?,
                b"migratetype" => once(&mut migratetype, "migratetype", value)?,
                b"page" => page_is_null = is_null(value),
                b"gfp_flags" => {
                    let parsed = self.memo.parse(value).ok_or_else(|| {
                        format!(
                            "gfp_flags={} is no list of flags, expected NAME|NAME",
                            shown(value)
                        )
                    })?;
                    if flags.replace(parsed).is_some() {
                        return Err(twice("gfp_flags"));
                    }
                }
                _ => {}
            }
        }
        let pfn = pfn.ok_or_else(|| missing("pfn", EXPECTED))?;
        let order = order.ok_or_else(|| missing("order", EXPECTED))?;
        let migratetype = migratetype.ok_or_else(|| missing("migratetype", EXPECTED))?;
        let flags = flags.ok_or_else(|| missing("gfp_flags", EXPECTED))?;
        // A failed allocation has no page; its frame is printed as 0, or as all ones by readers
        // that print the field itself.
        let pfn = if page_is_null && pfn == 0 {
            u64::MAX
        } else {
            pfn
        };
        self.request([pfn, order, migratetype], flags, counts)
    }

    /// A request by the frame it was given, all ones where it failed, its order and its migratetype.
    pub(super) fn request(
        &mut self,
        [pfn, order, migratetype]: [u64; 3],
        flags: gfp::GfpFlags,
        counts: &mut TextCounts,
    ) -> Result<EventKind, BodyFault> {
        let order = order_of(order)?;
        let frame = match pfn {
            u64::MAX => None,
            pfn => Some(frame_of(pfn, order)?),
        };
        let mobility = self.requested(migratetype, flags, counts)?;
        counts.unknown_flag_names += u64::from(flags.unknown_names);
        if frame.is_some() {
            counts.allocs += 1;
        } else {
            counts.allocs_failed += 1;
        }
        Ok(EventKind::Alloc {
            frame,
            order,
            mobility,
            gfp: flags.bits,
        })
    }

    fn extfrag(&mut self, body: &[u8], counts: &mut TextCounts) -> Result<EventKind, BodyFault> {
        const EXPECTED: &str =
            "mm_page_alloc_extfrag with alloc_migratetype= and fallback_migratetype=";
        let (mut wanted, mut taken) = (None, None);
        for (key, value) in Fields(body) {
            match key {
                b"alloc_migratetype" => once(&mut wanted, "alloc_migratetype", value)?,
                b"fallback_migratetype" => once(&mut taken, "fallback_migratetype", value)?,
                b"pageblock_order" => {
                    let order = number(value).ok();
                    counts.pageblock_order = order.filter(|&order| order <= PAGEBLOCK_ORDER_MAX);
                }
                _ => {}
            }
        }
        let wanted = wanted.ok_or_else(|| missing("alloc_migratetype", EXPECTED))?;
        let taken = taken.ok_or_else(|| missing("fallback_migratetype", EXPECTED))?;
        self.fallback(wanted, taken, counts)
    }

    /// A fallback from the migratetype that was asked for to another one.
    pub(super) fn fallback(
        &self,
        wanted: u64,
        taken: u64,
        counts: &mut TextCounts,
    ) -> Result<EventKind, BodyFault> {
        check_migratetype(wanted)?;
        check_migratetype(taken)?;
        if self.numbering.is_none() && (wanted.max(taken) > 0) {
            counts.migratetypes_assumed += 1;
        }
        match (self.numbered(wanted), self.numbered(taken)) {
            (Some(wanted), Some(taken)) => {
                counts.extfrags += 1;
                Ok(EventKind::Extfrag { wanted, taken })
            }
            // A contiguous area, a reserve, or isolation: none of the three mobilities.
            _ => {
                counts.extfrags_elsewhere += 1;
                Ok(EventKind::Other)
            }
        }
    }

    /// The mobility of a request: by its migratetype, once a line has shown which numbers the
    /// kernel uses, and until then by the names of its flags.
    fn requested(
        &mut self,
        migratetype: u64,
        flags: gfp::GfpFlags,
        counts: &mut TextCounts,
    ) -> Result<Mobility, BodyFault> {
        check_migratetype(migratetype)?;
        let by_name = if !flags.is_named {
            None
        } else if flags.bits & gfp::MOVABLE != 0 {
            Some(Mobility::Movable)
        } else if flags.bits & gfp::RECLAIMABLE != 0 {
            Some(Mobility::Reclaimable)
        } else {
            Some(Mobility::Unmovable)
        };
        if self.numbering.is_none() {
            self.numbering = match (migratetype, by_name) {
                (1, Some(Mobility::Movable)) | (2, Some(Mobility::Reclaimable)) => {
                    Some(Numbering::MovableFirst)
                }
                (2, Some(Mobility::Movable)) | (1, Some(Mobility::Reclaimable)) => {
                    Some(Numbering::ReclaimableFirst)
                }
                _ => None,
            };
        }
        if self.numbering.is_none() && (1..=2).contains(&migratetype) {
            counts.migratetypes_assumed += 1;
        }
        match self.numbered(migratetype) {
            Some(mobility) => {
                if by_name.is_some_and(|by_name| by_name != mobility) {
                    counts.migratetypes_unlike_flags += 1;
                }
                Ok(mobility)
            }
            None => {
                counts.migratetypes_elsewhere += 1;
                Ok(by_name.unwrap_or(Mobility::Unmovable))
            }
        }
    }

    fn numbered(&self, migratetype: u64) -> Option<Mobility> {
        let numbering = self.numbering.unwrap_or(Numbering::MovableFirst);
        match (migratetype, numbering) {
            (0, _) => Some(Mobility::Unmovable),
            (1, Numbering::MovableFirst) | (2, Numbering::ReclaimableFirst) => {
                Some(Mobility::Movable)
            }
            (2, Numbering::MovableFirst) | (1, Numbering::ReclaimableFirst) => {
                Some(Mobility::Reclaimable)
            }
            _ => None,
        }
    }
}

fn free(body: &[u8]) -> Result<EventKind, BodyFault> {
    const EXPECTED: &str = "mm_page_free with page= pfn= order=";
    let (mut pfn, mut order) = (None, None);
    for (key, value) in Fields(body) {
        match key {
            b"pfn" => once(&mut pfn, "pfn", value)?,
            b"order" => once(&mut order, "order", value)?,
            _ => {}
        }
    }
    let pfn = pfn.ok_or_else(|| missing("pfn", EXPECTED))?;
    freed(pfn, order.ok_or_else(|| missing("order", EXPECTED))?)
}

/// A free of the block at this frame.
pub(super) fn freed(pfn: u64, order: u64) -> Result<EventKind, BodyFault> {
    let order = order_of(order)?;
    Ok(EventKind::Free {
        frame: frame_of(pfn, order)?,
        order,
    })
}

fn migrate_end(body: &[u8]) -> Result<EventKind, BodyFault> {
    const EXPECTED: &str = "mm_migrate_pages with nr_succeeded= and nr_failed=";
    let (mut succeeded, mut failed) = (None, None);
    for (key, value) in Fields(body) {
        match key {
            // The option `fields` prints the record's own names.
            b"nr_succeeded" | b"succeeded" => once(&mut succeeded, "nr_succeeded", value)?,
            b"nr_failed" | b"failed" => once(&mut failed, "nr_failed", value)?,
            _ => {}
        }
    }
    Ok(EventKind::MigrateEnd {
        succeeded: succeeded.ok_or_else(|| missing("nr_succeeded", EXPECTED))?,
        failed: failed.ok_or_else(|| missing("nr_failed", EXPECTED))?,
    })
}

/// The number behind `key=`.
fn one_of(body: &[u8], wanted: &'static str, expected: &str) -> Result<u64, BodyFault> {
    let mut found = None;
    for (key, value) in Fields(body) {
        if key == wanted.as_bytes() {
            once(&mut found, wanted, value)?;
        }
    }
    found.ok_or_else(|| missing(wanted, expected))
}

fn order_in(body: &[u8], expected: &str) -> Result<Order, BodyFault> {
    order_of(one_of(body, "order", expected)?)
}

fn node_in(body: &[u8], expected: &str) -> Result<u16, BodyFault> {
    node_of(one_of(body, "nid", expected)?)
}

pub(super) fn node_of(node: u64) -> Result<u16, BodyFault> {
    u16::try_from(node).map_err(|_| above("nid", node, u64::from(u16::MAX)))
}

fn once(slot: &mut Option<u64>, key: &str, value: &[u8]) -> Result<(), BodyFault> {
    let value = number(value).map_err(|e| not_a_number(key, value, e))?;
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(twice(key)),
    }
}

fn is_null(page: &[u8]) -> bool {
    // `(null)` is padded to a pointer's width by kernels 4.15 to 5.1, and stands apart then.
    matches!(page, b"" | b"(null)" | b"(nil)" | b"0x")
        || page
            .strip_prefix(b"0x")
            .unwrap_or(page)
            .iter()
            .all(|&b| b == b'0')
}

pub(super) fn order_of(order: u64) -> Result<Order, BodyFault> {
    u8::try_from(order)
        .ok()
        .and_then(Order::new)
        .ok_or_else(|| above("order", order, u64::from(Order::MAX.get())))
}

fn frame_of(pfn: u64, order: Order) -> Result<Frame, BodyFault> {
    if pfn >= FRAME_LIMIT {
        return Err(above("pfn", pfn, FRAME_LIMIT - 1));
    }
    if FRAME_LIMIT - pfn < order.frames() {
        return Err(past_the_end(pfn, order));
    }
    // A frame that no block of its order can start at makes a strange event, not a broken line. The
    // reader passes the event on, and the reduction counts it.
    Ok(Frame(pfn))
}

fn check_migratetype(migratetype: u64) -> Result<(), BodyFault> {
    if migratetype <= MIGRATETYPE_MAX {
        Ok(())
    } else {
        Err(above("migratetype", migratetype, MIGRATETYPE_MAX))
    }
}

#[cold]
fn missing(key: &str, expected: &str) -> BodyFault {
    format!("no {key}=, expected {expected}")
}

#[cold]
fn twice(key: &str) -> BodyFault {
    format!("{key}= stands twice, expected it once in a line")
}

#[cold]
fn not_a_number(key: &str, value: &[u8], error: BadNumber) -> BodyFault {
    format!("{key}={} {error}", shown(value))
}

#[cold]
fn above(key: &str, value: u64, max: u64) -> BodyFault {
    format!("{key} {value} is above the maximum {max}")
}

#[cold]
fn past_the_end(pfn: u64, order: Order) -> BodyFault {
    format!("pfn {pfn} with {order} reaches past the last frame, expected an end of at most 2^52")
}
