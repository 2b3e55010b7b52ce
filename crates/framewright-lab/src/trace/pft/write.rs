//! The writer of `PFT1` to `PFT5`. It checks all before the first byte, so that a file that it began is one that
//! the reader takes.

use super::{
    ABSENT, COLUMNS, COMM, CPU, FREE, GFP, GFPTAB, INIT, MOVES, NO_GFP, OPS, PART, PID, PftVersion,
    STACK, STACKS, TICK, TICK_ORDER, UNLISTED, WORK, askers, check_free, has_frame, len_bytes_of,
    moves, padded, varint, work,
};
use crate::trace::in_memory::MoveCheck;
use crate::trace::{InitClass, Liveness, OpKind, Trace, TraceOp};
use framewright::Run;
use std::io::{self, Write};

/// Writes `trace` in the form PFT1, uncompressed: without the askers and the kernel's work.
///
/// Memory and errors are those of [`write_pft5`].
///
/// # Errors
/// As [`write_pft5`], but for what is said of the askers and the kernel's work.
pub fn write_pft1(trace: &Trace, out: impl Write) -> io::Result<()> {
    write(PftVersion::One, trace, out)
}

/// Writes `trace` in the form PFT2, uncompressed: without the kernel's work.
///
/// Memory and errors are those of [`write_pft5`].
///
/// # Errors
/// As [`write_pft5`], but for what is said of the kernel's work.
pub fn write_pft2(trace: &Trace, out: impl Write) -> io::Result<()> {
    write(PftVersion::Two, trace, out)
}

/// Writes `trace` in the form PFT3, uncompressed: without what compaction moved.
///
/// Memory and errors are those of [`write_pft5`].
///
/// # Errors
/// As [`write_pft5`], but for what is said of the moves.
pub fn write_pft3(trace: &Trace, out: impl Write) -> io::Result<()> {
    write(PftVersion::Three, trace, out)
}

/// Writes `trace` in the form PFT4, uncompressed: without what lay on CPUs' lists.
///
/// Memory and errors are those of [`write_pft5`].
///
/// # Errors
/// As [`write_pft5`], but for what is said of those lists.
pub fn write_pft4(trace: &Trace, out: impl Write) -> io::Result<()> {
    write(PftVersion::Four, trace, out)
}

/// Writes `trace` in the form PFT5, uncompressed.
///
/// Memory: the columns, some 5 bytes an operation. Everything is checked before the first byte is
/// written.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if PFT5 cannot hold the trace (more than 2^32 - 1 frames,
/// objects or operations, more than 255 flag words or 65,536 names, an order above 14, far more of the kernel's work than
/// operations), or if it is none (a free or a move
/// of what is not allocated, initial objects that share a frame or lie in none, a chain that is not there, work of a kind that
/// was not traced, a frame on a CPU's list that is in use); nothing was written then. Otherwise what `out` reports.
pub fn write_pft5(trace: &Trace, out: impl Write) -> io::Result<()> {
    write(PftVersion::Five, trace, out)
}

fn write(version: PftVersion, trace: &Trace, mut out: impl Write) -> io::Result<()> {
    let (mut columns, nalloc) = columns(trace).map_err(invalid)?;
    if version != PftVersion::One {
        let said = askers::columns(trace).map_err(invalid)?;
        [columns[COMM], columns[STACKS], columns[STACK]] = said;
    }
    if version >= PftVersion::Three {
        columns[WORK] = work::column(trace).map_err(invalid)?;
        let (_, most) = len_bytes_of(WORK, 0, 0, trace.ops.len() as u64);
        if columns[WORK].len() as u64 > most {
            return Err(invalid(format!(
                "{} pieces of the kernel's work beside {} operations, PFT holds at most {most} bytes of them",
                trace.work.events.len(),
                trace.ops.len()
            )));
        }
    }
    if version >= PftVersion::Four {
        columns[MOVES] = moves::column(&trace.moves);
    }
    if version >= PftVersion::Five {
        check_free(trace, &trace.unlisted).map_err(invalid)?;
        put_runs(
            "unlisted",
            &trace.unlisted,
            trace.nframes,
            &mut columns[UNLISTED],
        )
        .map_err(invalid)?;
    }
    let names = version.columns();
    let mut head = Vec::with_capacity(24 + 16 * names.len());
    head.extend_from_slice(&version.magic());
    for number in [
        fits("frames", trace.nframes).map_err(invalid)?,
        fits("initial objects", trace.init.len() as u64).map_err(invalid)?,
        nalloc,
        fits("operations", trace.ops.len() as u64).map_err(invalid)?,
        names.len() as u32,
    ] {
        head.extend_from_slice(&number.to_le_bytes());
    }
    for (name, column) in names.iter().zip(&columns) {
        head.extend_from_slice(&padded(name));
        head.extend_from_slice(&(column.len() as u64).to_le_bytes());
    }
    out.write_all(&head)?;
    for column in &columns {
        out.write_all(column)?;
    }
    out.flush()
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

fn fits(what: &str, n: u64) -> Result<u32, String> {
    u32::try_from(n).map_err(|_| format!("{n} {what}, PFT holds at most 2^32 - 1"))
}

/// The columns, and the number of allocations.
fn columns(trace: &Trace) -> Result<([Vec<u8>; COLUMNS.len()], u32), String> {
    let mut columns: [Vec<u8>; COLUMNS.len()] = Default::default();
    let nframes = fits("frames", trace.nframes)?;
    put_runs("absent", &trace.absent, trace.nframes, &mut columns[ABSENT])?;
    put_init(trace, nframes, &mut columns[INIT])?;
    if trace.gfp.len() > usize::from(NO_GFP) {
        let n = trace.gfp.len();
        return Err(format!("{n} flag words, PFT holds at most {NO_GFP}"));
    }
    for word in &trace.gfp {
        columns[GFPTAB].extend_from_slice(&word.to_le_bytes());
    }
    let ninit = fits("initial objects", trace.init.len() as u64)?;
    let mut live = Liveness::new(ninit);
    let mut moves = MoveCheck::new(&trace.moves, trace.nframes);
    for (i, op) in trace.ops.iter().enumerate() {
        moves.before(i, &live)?;
        put_op(*op, trace.gfp.len(), &mut live, &mut columns)
            .map_err(|fault| format!("operation {i}: {fault}"))?;
    }
    moves.finish(trace.ops.len(), &live)?;
    let objects = fits("objects", live.objects() as u64)?;
    Ok((columns, objects - ninit))
}

fn put_init(trace: &Trace, nframes: u32, out: &mut Vec<u8>) -> Result<(), String> {
    let mut last = 0i64;
    let mut frames = Vec::with_capacity(trace.init.len());
    for (i, object) in trace.init.iter().enumerate() {
        let frame = object.frame;
        if frame.0 >= u64::from(nframes) || has_frame(&trace.absent, frame) {
            return Err(format!(
                "initial object {i} is at frame {frame}, where there is none"
            ));
        }
        let class = match object.class {
            InitClass::Unmovable => 0,
            InitClass::Movable => 1,
            InitClass::Slab => 2,
        };
        let number = frame.0 as i64;
        varint::put_signed(out, (number - last) * 4 + class);
        last = number;
        frames.push(frame);
    }
    frames.sort_unstable();
    match frames.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("two initial objects are at frame {}", pair[0])),
        None => Ok(()),
    }
}

/// A column of runs that ascend; `what` they are stands in errors.
fn put_runs(what: &str, runs: &[Run], nframes: u64, out: &mut Vec<u8>) -> Result<(), String> {
    let mut at = 0;
    for (i, run) in runs.iter().enumerate() {
        let skip = run.start().0.checked_sub(at);
        let inside = run.end().0 <= nframes && !run.is_empty();
        let (Some(skip), true) = (skip, inside) else {
            return Err(format!(
                "{what} run {i} ({run:?}) is empty, out of order or outside the machine"
            ));
        };
        varint::put(out, skip);
        varint::put(out, run.frames());
        at = run.end().0;
    }
    Ok(())
}

fn put_op(
    op: TraceOp,
    gfptab_len: usize,
    live: &mut Liveness,
    columns: &mut [Vec<u8>; COLUMNS.len()],
) -> Result<(), String> {
    let order = op.order();
    let back = |live: &Liveness| (live.objects() as u64).wrapping_sub(1 + u64::from(op.value));
    let (kind, mobility) = match op.kind() {
        OpKind::Tick => {
            varint::put(&mut columns[TICK], u64::from(op.value));
            columns[OPS].push(3 | TICK_ORDER << 2 | 3 << 6);
            return Ok(());
        }
        OpKind::Alloc | OpKind::Failed => {
            if op.gfp != NO_GFP && usize::from(op.gfp) >= gfptab_len {
                let index = op.gfp;
                return Err(format!("gfp index {index} of a table of {gfptab_len}"));
            }
            columns[GFP].push(op.gfp);
            columns[PID].extend_from_slice(&op.pid.to_le_bytes());
            if op.kind() == OpKind::Alloc {
                live.alloc(order);
                (0, op.mobility() as u8)
            } else {
                (3, op.mobility() as u8)
            }
        }
        OpKind::Free => {
            let back = back(live);
            live.free(op.value, order).map_err(|e| e.to_string())?;
            varint::put(&mut columns[FREE], back);
            (1, 0)
        }
        OpKind::FreePart => {
            let (back, offset) = (back(live), u64::from(op.offset));
            live.free_part(op.value, offset, order)
                .map_err(|e| e.to_string())?;
            varint::put(&mut columns[PART], back);
            varint::put(&mut columns[PART], offset);
            (2, 0)
        }
    };
    if order.get() >= TICK_ORDER {
        return Err(format!("{order} is above the maximum 14"));
    }
    columns[CPU].push(op.recorded_cpu());
    columns[OPS].push(kind | order.get() << 2 | mobility << 6);
    Ok(())
}
