//! Long work on contents, in parts: between two of them the platform may let interrupts in.

use super::{ObjectPlatform, RangePlatform};
use crate::units::{Addr, Frame, Run};

/// This many frames are zeroed, or copied, at a time.
pub(crate) const PART_FRAMES: u64 = 16;

/// Calls `work` with the beginning and the length of each part of `all`, and the platform between two of them.
#[inline(never)]
fn in_parts(platform: &impl RangePlatform, all: u64, part: u64, mut work: impl FnMut(u64, u64)) {
    let mut done = 0;
    loop {
        let now = part.min(all - done);
        work(done, now);
        done += now;
        if done == all {
            return;
        }
        platform.interrupt_window();
    }
}

/// Zeroes the frames of a run.
#[inline]
pub(crate) fn zero_run(platform: &impl RangePlatform, run: Run) {
    if run.frames() <= PART_FRAMES {
        return platform.zero(run);
    }
    in_parts(platform, run.frames(), PART_FRAMES, |from, frames| {
        platform.zero(run.part(from, frames));
    });
}

/// Zeroes bytes of an object.
#[inline]
pub(crate) fn zero_object(platform: &impl ObjectPlatform, at: Addr, bytes: u64) {
    if bytes <= PART_FRAMES * Frame::BYTES {
        return platform.zero_bytes(at, bytes);
    }
    in_parts(
        platform,
        bytes,
        PART_FRAMES * Frame::BYTES,
        |from, bytes| {
            platform.zero_bytes(Addr(at.0 + from), bytes);
        },
    );
}

/// Copies bytes of one object to another.
pub(crate) fn copy_object(platform: &impl ObjectPlatform, from: Addr, to: Addr, bytes: u64) {
    in_parts(
        platform,
        bytes,
        PART_FRAMES * Frame::BYTES,
        |part, bytes| {
            platform.copy_bytes(Addr(from.0 + part), Addr(to.0 + part), bytes);
        },
    );
}
