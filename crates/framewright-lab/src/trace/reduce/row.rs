//! One row of a reference, and the text of all: what is written here is what `replay::reference` reads.

use std::io::{self, Write};

/// What the recording kernel had made of the universe's memory at one moment of the trace.
///
/// Computed from the frames it chose and the migrations that were matched. So frames in per-CPU
/// lists count as free, and the target of a move is known only if the trace frees it later.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReferenceRow {
    /// Operations of the trace up to here; the next one is the tick to this time.
    pub event: u64,
    /// Milliseconds since its first event.
    pub ms: u64,
    /// Free frames.
    pub free_frames: u64,
    /// Free aligned blocks of 512 frames.
    pub free_2m: u64,
    /// Free aligned blocks of 1,024 frames.
    pub free_4m: u64,
    /// Unusable free space index of order 3: the part of the free frames that is of no use to a
    /// request of 8 frames; 0 where nothing is free.
    pub unusable_o3: f64,
    /// The same of order 9.
    pub unusable_o9: f64,
    /// Blocks of 512 frames with a movable and another frame.
    pub blocks_mixed: u64,
    /// Blocks of 512 frames with a frame that is not movable.
    pub blocks_unmov_any: u64,
    /// Movable frames in mixed blocks.
    pub movable_frames_in_mixed: u64,
    /// `mm_page_alloc_extfrag` events so far.
    pub extfrag_so_far: u64,
}

impl ReferenceRow {
    /// The names of the columns, as a `*.linux_ref.csv` has them.
    pub const HEADER: &'static str = "event,ms,free_frames,free_2m,free_4m,unusable_o3,unusable_o9,blocks_mixed,blocks_unmov_any,movable_frames_in_mixed,extfrag_so_far";

    /// Writes a `*.linux_ref.csv`.
    ///
    /// # Errors
    /// What the writer reports.
    pub fn write_csv(rows: &[Self], mut to: impl Write) -> io::Result<()> {
        writeln!(to, "{}", Self::HEADER)?;
        for row in rows {
            writeln!(
                to,
                "{},{},{},{},{},{:.4},{:.4},{},{},{},{}",
                row.event,
                row.ms,
                row.free_frames,
                row.free_2m,
                row.free_4m,
                row.unusable_o3,
                row.unusable_o9,
                row.blocks_mixed,
                row.blocks_unmov_any,
                row.movable_frames_in_mixed,
                row.extfrag_so_far
            )?;
        }
        Ok(())
    }
}
