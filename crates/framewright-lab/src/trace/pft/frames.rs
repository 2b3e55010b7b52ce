//! The file of the frames that the recording kernel chose, beside its trace: a digest that says which trace that
//! is, then a frame an allocation.

use super::varint;
use crate::trace::{Input, OpKind, Trace, TraceDigest, TraceError};
use std::io::{self, Write};

/// What stands before a digest. A file without a digest cannot begin like this: its first number would be -64, and
/// a frame is not below 0.
pub(crate) const MAGIC: [u8; 5] = *b"\x7fPFN1";

/// Reads which trace the frames belong to, if they say so: files of earlier versions do not.
///
/// # Errors
/// If the input cannot be read or ends in the digest.
pub fn read_frames_digest(input: &mut Input) -> Result<Option<TraceDigest>, TraceError> {
    if input.peek(MAGIC.len())? != MAGIC {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    input.read_up_to((MAGIC.len() + TraceDigest::BYTES) as u64, &mut bytes)?;
    match bytes[MAGIC.len()..].try_into() {
        Ok(digest) => Ok(Some(TraceDigest::from_bytes(digest))),
        Err(_) => Err(input.error("the input ends in its trace's digest (the file is cut off)")),
    }
}

/// Writes what [`read_frames_digest`] reads; the frames follow.
///
/// # Errors
/// What `out` reports.
pub fn write_frames_digest(digest: TraceDigest, mut out: impl Write) -> io::Result<()> {
    out.write_all(&MAGIC)?;
    out.write_all(&digest.to_bytes())
}

/// Reads the frames that the recording kernel chose (`*.pfn`), one for each allocation of
/// `trace`, in the order of the allocations. Which trace they belong to is not asked ([`read_frames_digest`]).
///
/// # Errors
/// If the input cannot be read, has more or fewer frames than the trace has allocations, or puts
/// one outside the machine or on a frame that its order cannot start at.
pub fn read_frames(mut input: Input, trace: &Trace) -> Result<Vec<u32>, TraceError> {
    read_frames_digest(&mut input)?;
    let allocs = trace.ops.iter().filter(|op| op.kind() == OpKind::Alloc);
    // A number takes at most ten bytes; one byte more tells that there are too many.
    let len_bytes_max = 10 * allocs.count() as u64 + 1;
    let mut bytes = Vec::new();
    input.read_up_to(len_bytes_max, &mut bytes)?;
    parse(&bytes, trace).map_err(|message| input.error(message))
}

fn parse(mut bytes: &[u8], trace: &Trace) -> Result<Vec<u32>, String> {
    // Each takes at least a byte, so that memory follows what was read.
    let mut frames = Vec::with_capacity(bytes.len().min(trace.ops.len()));
    let mut frame = 0i64;
    for op in trace.ops.iter().filter(|op| op.kind() == OpKind::Alloc) {
        let i = frames.len();
        if bytes.is_empty() {
            return Err(format!(
                "the input ends after {i} frames, expected one for each allocation of the trace"
            ));
        }
        let order = op.order();
        let delta = varint::take_signed(&mut bytes)
            .ok_or_else(|| format!("frame {i} is cut off or damaged"))?;
        frame = frame
            .checked_add(delta)
            .filter(|&f| f >= 0 && f as u64 + order.frames() <= trace.nframes)
            .filter(|&f| (f as u64).is_multiple_of(order.frames()))
            .ok_or_else(|| {
                format!(
                    "the frame of allocation {i} is outside the machine or not aligned, expected \
                     a block of {order} below frame {}",
                    trace.nframes
                )
            })?;
        let number = u32::try_from(frame)
            .map_err(|_| format!("the frame of allocation {i} is above 2^32 - 1"))?;
        frames.push(number);
    }
    if bytes.is_empty() {
        Ok(frames)
    } else {
        Err(format!(
            "there are bytes after frame {}, expected as many frames as the trace has allocations",
            frames.len()
        ))
    }
}

/// Writes frames as [`read_frames`] reads them.
///
/// # Errors
/// What `out` reports.
pub fn write_frames(frames: &[u32], mut out: impl Write) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(2 * frames.len());
    let mut last = 0i64;
    for &frame in frames {
        varint::put_signed(&mut bytes, i64::from(frame) - last);
        last = i64::from(frame);
    }
    out.write_all(&bytes)?;
    out.flush()
}
