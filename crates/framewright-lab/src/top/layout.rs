//! What pageblocks hold and are labelled, looked at now and then.
//!
//! The page flags of 24 GiB take the kernel more than half a second, and for `/proc/pagetypeinfo` it holds a zone's lock
//! while it counts. So a thread reads both seldom, and its share of a CPU has a bound.

use crate::record::{monotonic_ns, open_page_flags};
use crate::trace::state::read_pagetypeinfo;
use crate::trace::{ReadFrameState, Snapshot};
use std::fs;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The least time between two looks.
const EVERY: Duration = Duration::from_secs(30);
/// A look that takes long is followed by as many times its length without one: 2 % of a CPU.
const REST: u32 = 49;
/// The order of a pageblock where `/proc/pagetypeinfo` does not say.
const USUAL_ORDER: u64 = 9;
/// The frames that are read at once. No compound page reaches over such an aligned run.
const WINDOW_FRAMES: u64 = 1 << 18;

/// Pageblocks by what lies in them. A frame in a CPU's list is free, but looks as if it could not move: no flag tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PageblockContents {
    /// Nothing is in use.
    pub(crate) free: u64,
    /// All that is in use can move.
    pub(crate) movable: u64,
    /// Nothing that is in use can move.
    pub(crate) unmovable: u64,
    /// Both.
    pub(crate) mixed: u64,
}

/// What one look has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TopLayout {
    /// When it ended, in nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) at_ns: u64,
    /// The labels of pageblocks and how many have each.
    pub(crate) labels: Vec<(String, u64)>,
    pub(crate) contents: Option<PageblockContents>,
    /// What could not be read, and why.
    pub(crate) missing: Vec<String>,
}

impl PageblockContents {
    /// Adds the pageblocks of consecutive frames, the first of which begins one. Pageblocks without frames do not count.
    fn add(&mut self, frames: &[ReadFrameState], block_frames: usize) {
        for block in frames.chunks(block_frames) {
            let has = |is: fn(&ReadFrameState) -> bool| block.iter().any(is);
            let movable = has(|state| *state == ReadFrameState::Movable);
            let fixed =
                has(|state| matches!(state, ReadFrameState::Unmovable | ReadFrameState::Slab));
            match (movable, fixed) {
                (true, true) => self.mixed += 1,
                (true, false) => self.movable += 1,
                (false, true) => self.unmovable += 1,
                (false, false) => {
                    self.free += u64::from(has(|state| *state == ReadFrameState::Free));
                }
            }
        }
    }

    /// Reads page flags to their end, or until `stop` is set: then nothing is known.
    fn read(
        mut flags: impl Read,
        block_frames: usize,
        stop: &AtomicBool,
    ) -> io::Result<Option<Self>> {
        let mut contents = Self::default();
        loop {
            let window = Snapshot::read(flags.by_ref().take(8 * WINDOW_FRAMES))?;
            contents.add(window.frames(), block_frames);
            if (window.frames().len() as u64) < WINDOW_FRAMES {
                return Ok(Some(contents));
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
        }
    }
}

impl TopLayout {
    fn read(stop: &AtomicBool) -> Self {
        let mut layout = Self::default();
        let mut order = USUAL_ORDER;
        let path = "/proc/pagetypeinfo";
        let types = fs::read_to_string(path)
            .map_err(|e| format!("{path}: {e}"))
            .and_then(|text| read_pagetypeinfo(path, &text).map_err(|e| e.to_string()));
        match types {
            Ok(types) => {
                order = types.pageblock_order;
                for of in types.types {
                    match layout
                        .labels
                        .iter_mut()
                        .find(|(name, _)| *name == of.migratetype)
                    {
                        Some((_, blocks)) => *blocks = blocks.saturating_add(of.pageblocks),
                        None => layout.labels.push((of.migratetype, of.pageblocks)),
                    }
                }
            }
            Err(why) => layout
                .missing
                .push(format!("pageblocks by label ({why}; needs root)")),
        }
        let block_frames = 1 << order.min(u64::from(WINDOW_FRAMES.ilog2()));
        let contents = open_page_flags().map_err(|e| super::what(&e));
        let contents = contents.and_then(|flags| {
            PageblockContents::read(flags, block_frames, stop)
                .map_err(|e| format!("/proc/kpageflags: {e}"))
        });
        match contents {
            Ok(contents) => layout.contents = contents,
            Err(why) => layout
                .missing
                .push(format!("pageblocks by content ({why})")),
        }
        layout.at_ns = monotonic_ns();
        layout
    }
}

/// A thread that looks. It ends with this.
#[derive(Debug)]
pub(crate) struct LayoutWatch {
    layouts: Receiver<TopLayout>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LayoutWatch {
    pub(crate) fn start() -> io::Result<Self> {
        let (sender, layouts) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let look = move || {
            while !stopped.load(Ordering::Relaxed) {
                let begun = Instant::now();
                let layout = TopLayout::read(&stopped);
                let rest = EVERY.max(begun.elapsed().saturating_mul(REST));
                if sender.send(layout).is_err() {
                    return;
                }
                let again = Instant::now() + rest;
                while !stopped.load(Ordering::Relaxed) {
                    match again.saturating_duration_since(Instant::now()) {
                        Duration::ZERO => break,
                        left => thread::park_timeout(left),
                    }
                }
            }
        };
        let thread = thread::Builder::new().name("layout".into()).spawn(look)?;
        Ok(Self {
            layouts,
            stop,
            thread: Some(thread),
        })
    }

    /// The newest look that has ended since this was asked; the first one is waited for where that is said.
    pub(crate) fn newest(&self, waits: bool) -> Option<TopLayout> {
        let first = match waits {
            true => self.layouts.recv().ok(),
            false => None,
        };
        self.layouts.try_iter().last().or(first)
    }
}

impl Drop for LayoutWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It looks after each window whether it is to end.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pageblocks_are_told_apart_by_what_lies_in_them() {
        use ReadFrameState::{Absent, Free, Movable, Slab, Unmovable};
        let blocks = [
            [Free, Free, Absent, Free],
            [Movable, Free, Movable, Absent],
            [Slab, Free, Free, Free],
            [Movable, Slab, Free, Free],
            [Unmovable, Movable, Movable, Movable],
            [Absent, Absent, Absent, Absent],
        ];
        let mut contents = PageblockContents::default();
        contents.add(&blocks.concat(), 4);
        let expected = PageblockContents {
            free: 1,
            movable: 1,
            unmovable: 1,
            mixed: 2,
        };
        assert_eq!(contents, expected);
    }

    #[test]
    fn flags_are_read_window_by_window_to_their_end_or_until_it_is_to_stop() {
        let frames = WINDOW_FRAMES + 1024;
        // Frames of the buddy system, but for the last one, which is a slab's.
        let mut bytes = (1_u64 << 10).to_ne_bytes().repeat(frames as usize);
        let last = bytes.len() - 8;
        bytes[last..].copy_from_slice(&(1_u64 << 7).to_ne_bytes());
        let stop = AtomicBool::new(false);
        let read = PageblockContents::read(&bytes[..], 512, &stop).unwrap();
        let expected = PageblockContents {
            free: frames / 512 - 1,
            unmovable: 1,
            ..PageblockContents::default()
        };
        assert_eq!(read, Some(expected));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(
            PageblockContents::read(&bytes[..], 512, &stop).unwrap(),
            None
        );
    }
}
