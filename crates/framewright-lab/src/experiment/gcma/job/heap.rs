//! A compiler's heap: pages of paged memory that it fills, comes back to, and gives up as its process ends.

use crate::experiment::Failure;
use framewright::Frame;
use framewright::frame::FrameSource;
use framewright_linux::paged::Paged;
use framewright_sim::Random;

/// Bytes in a page.
const PAGE: usize = Frame::BYTES as usize;

/// Bytes at the beginning of a page that a pass reads and writes.
const LINE: usize = 64;

/// Files that one compiler compiles before its process ends.
pub(in crate::experiment::gcma) const FILES_MAX: u64 = 16;

/// A heap in a part of paged memory that no other worker has.
#[derive(Debug)]
pub(super) struct CompilerHeap {
    /// The first page of the part, and how many it has.
    first: u64,
    pages_max: u64,
    /// Of each page in use, how often it was written.
    versions: Vec<u64>,
    /// Files compiled since the heap was empty.
    files: u64,
}

/// What stands at the beginning of a page.
fn line(page: u64, version: u64) -> [u8; LINE] {
    let mut line = [0; LINE];
    let (words, _) = line.as_chunks_mut::<8>();
    for (nth, word) in (0..).zip(words) {
        *word = (page << 32 ^ version.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ nth).to_le_bytes();
    }
    line
}

impl CompilerHeap {
    pub(super) const fn new(first: u64, pages_max: u64) -> Self {
        Self {
            first,
            pages_max,
            versions: Vec::new(),
            files: 0,
        }
    }

    /// Grows by what one file needs, and keeps `text` there, as often as it fits.
    pub(super) fn grow(&mut self, paged: &Paged<'_>, text: &[u8]) -> Result<(), Failure> {
        self.files += 1;
        let pages = self.pages_max * self.files.min(FILES_MAX) / FILES_MAX;
        let mut text = text.iter().copied().cycle();
        let mut page = [0; PAGE];
        for nth in self.versions.len() as u64..pages {
            page[..LINE].copy_from_slice(&line(nth, 0));
            for (byte, of_text) in page[LINE..].iter_mut().zip(&mut text) {
                *byte = of_text;
            }
            let written = paged.write((self.first + nth) * PAGE as u64, &page);
            written.map_err(Failure::new)?;
            self.versions.push(0);
        }
        Ok(())
    }

    /// Comes back to a quarter of the pages, drawn: reads each, and writes to it.
    pub(super) fn pass(&mut self, paged: &Paged<'_>, draw: &mut Random) -> Result<(), Failure> {
        for _ in 0..self.versions.len().div_ceil(4) {
            let nth = draw.remainder(self.versions.len() as u64);
            let version = self.checked(paged, nth)?;
            let at = (self.first + nth) * PAGE as u64;
            let written = paged.write(at, &line(nth, version + 1));
            written.map_err(Failure::new)?;
            self.versions[nth as usize] = version + 1;
        }
        Ok(())
    }

    /// The version of a page, which holds what it should.
    fn checked(&self, paged: &Paged<'_>, nth: u64) -> Result<u64, Failure> {
        let version = self.versions[nth as usize];
        let mut found = [0; LINE];
        let at = (self.first + nth) * PAGE as u64;
        paged.read(at, &mut found).map_err(Failure::new)?;
        if found == line(nth, version) {
            Ok(version)
        } else {
            Err(Failure::new(format!(
                "page {nth} of a compiler's heap: other bytes than were written"
            )))
        }
    }

    /// Ends the process, if it has compiled its files or `is_last`: all pages are compared and given up.
    pub(super) fn end(
        &mut self,
        paged: &Paged<'_>,
        supply: &mut dyn FrameSource,
        is_last: bool,
    ) -> Result<(), Failure> {
        if self.files < FILES_MAX && !is_last {
            return Ok(());
        }
        for nth in 0..self.versions.len() as u64 {
            self.checked(paged, nth)?;
        }
        let pages = self.first..self.first + self.versions.len() as u64;
        paged.discard(pages, supply).map_err(Failure::new)?;
        self.versions.clear();
        self.files = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright::frame::ZoneLayout;
    use framewright_linux::swap::{Frontswap, Zram};
    use framewright_linux::{Host, Options};
    use std::sync::Arc;

    #[test]
    fn a_heap_grows_with_each_file_is_compared_and_is_gone_after_the_last() {
        let layout = ZoneLayout::new(Frame(0), 1024).with_cpus(2);
        let host = Host::new(&Options::new(layout)).unwrap();
        let device = Zram::new(64, 1 << 20);
        let swap = Frontswap::new(&device, 64);
        // Fewer frames than pages.
        let paged = Paged::new(Arc::clone(host.ram_shared()), swap, 16).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| paged.serve(&mut host.seat().unwrap()));
            paged.await_pager().unwrap();
            let mut seat = host.seat().unwrap();
            let (mut heap, mut draw) = (CompilerHeap::new(32, 32), Random::new(1));
            for file in 1..=FILES_MAX {
                heap.grow(&paged, b"int x;\n").unwrap();
                assert_eq!(heap.versions.len() as u64, 2 * file);
                let writes = |heap: &CompilerHeap| heap.versions.iter().sum::<u64>();
                let earlier = writes(&heap);
                heap.pass(&paged, &mut draw).unwrap();
                let quarter = heap.versions.len().div_ceil(4) as u64;
                assert_eq!(writes(&heap) - earlier, quarter);
                heap.end(&paged, &mut seat, false).unwrap();
            }
            assert_eq!((heap.versions.len(), paged.stats().resident), (0, 0));
            heap.grow(&paged, b"int x;\n").unwrap();
            paged.write(32 * PAGE as u64 + 9, &[0xff]).unwrap();
            let error = heap.end(&paged, &mut seat, true).unwrap_err().to_string();
            assert!(error.contains("page 0 of a compiler's heap"), "{error}");
            // A pass reads what it comes back to, and there is little.
            let passes = (0..16).map(|_| heap.pass(&paged, &mut draw));
            let error = passes.last().unwrap().unwrap_err().to_string();
            assert!(error.contains("page 0 of a compiler's heap"), "{error}");
            paged.stop();
        });
    }
}
