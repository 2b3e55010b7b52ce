//! Records of the kernel's pages: what [`body`](super::body) makes of an event's words, made of its fields. Flags get the
//! names that the kernel would print and are read by these, so that the same event means the same in both forms.

use super::body::{Bodies, BodyFault, freed, node_of, order_of};
use super::counts::TextCounts;
use super::gfp::{self, GfpFlags};
use super::names::NamedTask;
use crate::trace::EventKind;
use crate::trace::pages::{EventFormat, FieldPlace, FlagTable, RecordKind};
use std::collections::HashMap;

/// A trace has some dozen sets of flags; more than these are forgotten.
const FLAGS_MAX: usize = 4096;

/// Reads records; keeps the flags that it has seen.
#[derive(Debug, Default)]
pub(super) struct PageRecords {
    flags: HashMap<u64, GfpFlags>,
}

impl PageRecords {
    /// The event of a record that has all of its format's fields; counts it.
    ///
    /// On an error nothing is counted.
    pub(super) fn parse(
        &mut self,
        format: &EventFormat,
        record: &[u8],
        bodies: &mut Bodies,
        counts: &mut TextCounts,
    ) -> Result<EventKind, BodyFault> {
        // All fields are there (`PageFormats::of`).
        let of = |field: &FieldPlace| field.get(record).unwrap_or(0);
        let frame_of = |field: &FieldPlace| field.frame(record).unwrap_or(0);
        Ok(match &format.kind {
            RecordKind::Alloc {
                frame,
                order,
                migratetype,
                flags,
                table,
            } => {
                let flags = self.flags(of(flags), table)?;
                let numbers = [frame_of(frame), of(order), of(migratetype)];
                return bodies.request(numbers, flags, counts);
            }
            RecordKind::Free { frame, order } => {
                let kind = freed(of(frame), of(order))?;
                counts.frees += 1;
                kind
            }
            RecordKind::FreeBatched => {
                counts.frees_batched += 1;
                EventKind::FreeBatched
            }
            RecordKind::Extfrag { wanted, taken } => {
                return bodies.fallback(of(wanted), of(taken), counts);
            }
            RecordKind::MigrateStart => {
                counts.migrate_starts += 1;
                EventKind::MigrateStart
            }
            RecordKind::MigrateEnd { succeeded, failed } => {
                counts.migrate_ends += 1;
                EventKind::MigrateEnd {
                    succeeded: of(succeeded),
                    failed: of(failed),
                }
            }
            RecordKind::DirectCompaction { order } => {
                let order = order_of(of(order))?;
                counts.direct_compactions += 1;
                EventKind::DirectCompaction { order }
            }
            RecordKind::CompactionBegin => {
                counts.compaction_begins += 1;
                EventKind::CompactionBegin
            }
            RecordKind::CompactionEnd => {
                counts.compaction_ends += 1;
                EventKind::CompactionEnd
            }
            RecordKind::DirectReclaim { order } => {
                let order = order_of(of(order))?;
                counts.direct_reclaims += 1;
                EventKind::DirectReclaim { order }
            }
            RecordKind::DirectReclaimEnd { reclaimed } => {
                counts.direct_reclaim_ends += 1;
                EventKind::DirectReclaimEnd {
                    reclaimed: of(reclaimed),
                }
            }
            RecordKind::BackgroundWakes { node, order } => {
                let (node, order) = (node_of(of(node))?, order_of(of(order))?);
                counts.background_wakes += 1;
                EventKind::BackgroundWakes { node, order }
            }
            RecordKind::BackgroundSleeps { node } => {
                let node = node_of(of(node))?;
                counts.background_sleeps += 1;
                EventKind::BackgroundSleeps { node }
            }
            RecordKind::NewTask { .. } | RecordKind::Rename { .. } | RecordKind::Other => {
                counts.other(format.name.as_bytes());
                EventKind::Other
            }
        })
    }

    fn flags(&mut self, bits: u64, table: &FlagTable) -> Result<GfpFlags, BodyFault> {
        if let Some(&flags) = self.flags.get(&bits) {
            return Ok(flags);
        }
        let flags = gfp::parse(table.text(bits).as_bytes())
            .ok_or_else(|| format!("gfp_flags {bits:#x} is no set of flags, expected one"))?;
        if self.flags.len() == FLAGS_MAX {
            self.flags.clear();
        }
        self.flags.insert(bits, flags);
        Ok(flags)
    }
}

/// The task that a record names, if it names one; `current` is the one whose event it is.
pub(super) fn named_task<'a>(
    format: &EventFormat,
    record: &'a [u8],
    current: u32,
) -> Option<NamedTask<'a>> {
    let number = |field: &FieldPlace| field.get(record).map(|task| task as u32);
    match &format.kind {
        RecordKind::NewTask { task, name } => Some(NamedTask {
            task: number(task)?,
            name: name.text(record),
            before: None,
        }),
        RecordKind::Rename { task, before, name } => Some(NamedTask {
            task: task.as_ref().and_then(number).unwrap_or(current),
            name: name.text(record),
            before: before.map(|field| field.text(record)),
        }),
        _ => None,
    }
}
