//! Pages for users without addresses: system calls, devices, copies.

use super::region::PagedRegion;
use super::table::{DIRTY, FAILED, LEAVING, LISTED, SHOWN, WRITABLE};
use super::{Paged, PagedError};
use crate::ram::FRAME_BYTES;
use framewright::Frame;
use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

/// Pages that keep their frames.
#[derive(Debug)]
#[must_use = "dropped, it pins nothing"]
pub struct PagedPin<'p> {
    region: &'p PagedRegion,
    pages: Range<usize>,
}

impl PagedPin<'_> {
    /// The frame behind the `nth` of the pages.
    #[must_use]
    pub fn frame(&self, nth: usize) -> Option<Frame> {
        let page = self.pages.clone().nth(nth)?;
        let table = &self.region.table;
        table.frame(table.state(page))
    }
}

impl Drop for PagedPin<'_> {
    fn drop(&mut self) {
        for nth in self.pages.clone() {
            self.region.release(nth);
        }
    }
}

impl PagedRegion {
    /// Takes one pin back. Pages written under it are dirty: no write-back calls a pinned page
    /// clean.
    fn release(&self, nth: usize) {
        let _shut = self.gate.shut();
        self.table.set(nth, self.table.state(nth).unpinned());
    }

    fn read_bytes(&self, frame: Frame, at: usize, into: &mut [u8]) {
        let words = self.ram().words(frame).expect("the frame is in RAM");
        for piece in pieces(at, into.len()) {
            let bytes = words[piece.word].load(Relaxed).to_ne_bytes();
            into[piece.bytes.clone()].copy_from_slice(&bytes[piece.inside()]);
        }
    }

    fn write_bytes(&self, frame: Frame, at: usize, from: &[u8]) {
        let words = self.ram().words(frame).expect("the frame is in RAM");
        for piece in pieces(at, from.len()) {
            let new = &from[piece.bytes.clone()];
            if let Ok(whole) = <[u8; 8]>::try_from(new) {
                words[piece.word].store(u64::from_ne_bytes(whole), Relaxed);
                continue;
            }
            // The other bytes belong to users that may write them at this moment.
            let _ = words[piece.word].fetch_update(Relaxed, Relaxed, |word| {
                let mut bytes = word.to_ne_bytes();
                bytes[piece.inside()].copy_from_slice(new);
                Some(u64::from_ne_bytes(bytes))
            });
        }
    }
}

/// Bytes within one word.
struct WordBytes {
    word: usize,
    first: usize,
    /// Their range among the bytes to be copied.
    bytes: Range<usize>,
}

impl WordBytes {
    fn inside(&self) -> Range<usize> {
        self.first..self.first + self.bytes.len()
    }
}

/// The words that contain the `len` bytes from byte `at` on.
fn pieces(at: usize, len: usize) -> impl Iterator<Item = WordBytes> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let here = at + done;
        let count = (8 - here % 8).min(len - done);
        let piece = WordBytes {
            word: here / 8,
            first: here % 8,
            bytes: done..done + count,
        };
        done += count;
        (count > 0).then_some(piece)
    })
}

impl Paged<'_> {
    /// Copies bytes out, from byte `offset` of the region on. They are what a touch would find, but
    /// an error is returned.
    ///
    /// Bytes that another thread writes meanwhile are old or new.
    ///
    /// # Errors
    /// A page cannot be brought. The contents of `into` are then undefined.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), PagedError> {
        let mut done = 0;
        for (nth, bytes) in self.pages_of(offset, into.len())? {
            let frame = self.hold(nth, false)?;
            let len = bytes.len();
            self.region
                .read_bytes(frame, bytes.start, &mut into[done..done + len]);
            self.region.release(nth);
            done += len;
        }
        Ok(())
    }

    /// Copies bytes in, from byte `offset` of the region on.
    ///
    /// # Errors
    /// A page cannot be brought: those before it are written.
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<(), PagedError> {
        let mut done = 0;
        for (nth, bytes) in self.pages_of(offset, from.len())? {
            let frame = self.hold(nth, true)?;
            let len = bytes.len();
            self.region
                .write_bytes(frame, bytes.start, &from[done..done + len]);
            self.region.release(nth);
            done += len;
        }
        Ok(())
    }

    /// Brings pages, counted from the region's first, to their addresses and keeps their frames
    /// until the result is dropped: for system calls and devices. With `is_write` these may write
    /// there.
    ///
    /// # Errors
    /// A page cannot be brought, or has too many pins. None is pinned then.
    pub fn pin(&self, pages: Range<u64>, is_write: bool) -> Result<PagedPin<'_>, PagedError> {
        let bytes = FRAME_BYTES as u64;
        let outside = PagedError::Outside(self.len_bytes());
        if pages.start > pages.end || pages.end > self.len_bytes() / bytes {
            return Err(outside);
        }
        let start = pages.start as usize;
        let mut pin = PagedPin {
            region: &self.region,
            pages: start..start,
        };
        for nth in start..pages.end as usize {
            self.hold(nth, is_write)?;
            pin.pages.end = nth + 1;
            let region = &self.region;
            let _shut = region.gate.shut();
            let state = region.table.state(nth);
            let is_open = if is_write { WRITABLE } else { SHOWN };
            if !state.is(is_open) && !region.let_in(nth, state, is_write) {
                let max = region.window.mappings();
                let error = framewright::platform::MapError::Limit { max };
                return Err(PagedError::Map(error));
            }
        }
        Ok(pin)
    }

    /// The pages, each with its bytes, that contain the `len` bytes from `offset` on.
    fn pages_of(
        &self,
        offset: u64,
        len: usize,
    ) -> Result<impl Iterator<Item = (usize, Range<usize>)>, PagedError> {
        let all = self.len_bytes();
        let end = offset.checked_add(len as u64).filter(|end| *end <= all);
        let end = end.ok_or(PagedError::Outside(all))? as usize;
        let mut at = offset as usize;
        Ok(std::iter::from_fn(move || {
            let within = at % FRAME_BYTES;
            let count = (FRAME_BYTES - within).min(end - at);
            let page = at / FRAME_BYTES;
            at += count;
            (count > 0).then_some((page, within..within + count))
        }))
    }

    /// The frame of a page, pinned.
    pub(super) fn hold(&self, nth: usize, is_write: bool) -> Result<Frame, PagedError> {
        let region = &self.region;
        // A failure that this call did not wait for is no answer to it.
        let mut has_waited = false;
        loop {
            let shut = region.gate.shut();
            let state = region.table.state(nth);
            if state.is(LEAVING) {
                region.wait(shut);
                continue;
            }
            if let Some(frame) = region.table.frame(state) {
                let pinned = state.pinned().ok_or(PagedError::Pins(nth as u64))?;
                // It is used: if it is hidden it goes to the end of the list.
                let pinned = region.used(pinned.without(LISTED));
                let dirty = if is_write { pinned.with(DIRTY) } else { pinned };
                region.table.set(nth, dirty);
                return Ok(frame);
            }
            if state.is(FAILED) && has_waited {
                region.table.set(nth, state.without(FAILED));
                drop(shut);
                return Err(self.error_of(nth));
            }
            if !region.want(nth, state.without(FAILED), is_write, shut) {
                return Err(PagedError::NotServed);
            }
            has_waited = true;
        }
    }

    /// Why a page could not be brought.
    fn error_of(&self, nth: usize) -> PagedError {
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors.remove(&nth).unwrap_or(PagedError::NotServed)
    }
}
