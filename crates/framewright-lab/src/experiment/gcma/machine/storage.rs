//! What a machine's files and its swap lie on: the host's own device, or a card that is emulated; or, for swap,
//! compressed memory of the machine.

use super::area::FrameSeat;
use super::card::{Card, CardTimes, OnCard};
use crate::experiment::gcma::Device;
use framewright::{Frame, Mobility, Order};
use framewright_linux::file_cache::{DirectFile, Medium};
use framewright_linux::swap::{DeviceUse, SwapDevice, SwapFile, Zram};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One machine's storage.
#[derive(Debug)]
pub(in crate::experiment::gcma) struct Storage {
    card: Option<Arc<Card>>,
}

impl Storage {
    pub(in crate::experiment::gcma) fn new(device: Device) -> Self {
        let card = || Arc::new(Card::new(CardTimes::CLASS_10));
        Self {
            card: (device == Device::Card).then(card),
        }
    }

    /// Whether transfers take as long as they would: not while a machine is prepared.
    pub(in crate::experiment::gcma) fn set_slow(&self, is_slow: bool) {
        if let Some(card) = &self.card {
            card.set_slow(is_slow);
        }
    }

    /// A file past the host's own cache, so that what this process has evicted comes from the device again;
    /// where the file system cannot do that, as usual.
    pub(in crate::experiment::gcma) fn file(
        &self,
        path: &Path,
        is_writable: bool,
    ) -> io::Result<Arc<dyn Medium>> {
        match DirectFile::open(path, is_writable) {
            Ok(file) => Ok(self.medium(file)),
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => {
                let mut options = File::options();
                options.read(true).write(is_writable).create(is_writable);
                Ok(self.medium(options.open(path)?))
            }
            Err(e) => Err(e),
        }
    }

    fn medium<M: Medium + 'static>(&self, file: M) -> Arc<dyn Medium> {
        match &self.card {
            Some(card) => Arc::new(OnCard::new(file, Arc::clone(card))),
            None => Arc::new(file),
        }
    }

    /// A swap file of `slots` slots.
    pub(super) fn swap_file(&self, path: &Path, slots: u64) -> io::Result<Box<dyn SwapDevice>> {
        let file = SwapFile::create(path, slots)?;
        Ok(match &self.card {
            Some(card) => Box::new(OnCard::new(file, Arc::clone(card))),
            None => Box::new(file),
        })
    }
}

/// Compressed memory as swap, which lies on no card: in frames of the machine's own memory, that no variant can move.
pub(super) struct ZramInFrames<'z> {
    zram: Zram,
    taken: Mutex<TakenFrames<'z>>,
}

/// What compressed pages lie in.
struct TakenFrames<'z> {
    seat: FrameSeat<'z>,
    frames: Vec<Frame>,
    /// Pages that are being compressed: each may take a frame.
    pending: u64,
}

impl<'z> ZramInFrames<'z> {
    /// With frames of `seat`, which no thread has besides.
    pub(super) fn new(slots: u64, seat: FrameSeat<'z>) -> Self {
        Self {
            zram: Zram::new(slots, slots * Frame::BYTES),
            taken: Mutex::new(TakenFrames {
                seat,
                frames: Vec::new(),
                pending: 0,
            }),
        }
    }

    fn taken(&self) -> MutexGuard<'_, TakenFrames<'z>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has as many frames as compressed pages take, with those that are being compressed.
    fn settle(&self, taken: &mut TakenFrames<'z>) -> io::Result<()> {
        let bytes = self.zram.stats().mem_used_total + taken.pending * Frame::BYTES;
        let wanted = bytes.div_ceil(Frame::BYTES) as usize;
        while taken.frames.len() > wanted
            && let Some(frame) = taken.frames.pop()
        {
            let freed = taken.seat.free(frame, Order::ZERO);
            freed.map_err(io::Error::other)?;
        }
        while taken.frames.len() < wanted {
            let frame = taken.seat.alloc(Order::ZERO, Mobility::Unmovable);
            taken.frames.push(frame.map_err(io::Error::other)?);
        }
        Ok(())
    }

    /// Keeps a frame for a page that is about to be compressed; or, if there is none, nothing.
    fn begin(&self) -> io::Result<()> {
        let mut taken = self.taken();
        taken.pending += 1;
        let kept = self.settle(&mut taken);
        if kept.is_err() {
            taken.pending -= 1;
            // Those that came go back.
            self.settle(&mut taken)?;
        }
        kept
    }

    /// That page is compressed, or failed.
    fn end(&self) -> io::Result<()> {
        let mut taken = self.taken();
        taken.pending -= 1;
        self.settle(&mut taken)
    }
}

impl SwapDevice for ZramInFrames<'_> {
    fn slots(&self) -> u64 {
        self.zram.slots()
    }

    /// Refused if the machine has no frame left for it.
    fn write(&self, slot: u64, page: &[u64; 512]) -> io::Result<()> {
        self.begin()?;
        let written = self.zram.write(slot, page);
        self.end()?;
        written
    }

    fn read(&self, slot: u64, page: &mut [u64; 512]) -> io::Result<()> {
        self.zram.read(slot, page)
    }

    fn discard(&self, slot: u64) {
        self.zram.discard(slot);
        // Frames that cannot be given back now are given back with the next page.
        let _ = self.settle(&mut self.taken());
    }

    fn sync(&self) -> io::Result<()> {
        self.zram.sync()
    }

    fn bytes_written(&self) -> u64 {
        self.zram.bytes_written()
    }

    fn in_use(&self) -> &DeviceUse {
        self.zram.in_use()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright::CpuId;
    use framewright::frame::ZoneLayout;
    use framewright_linux::{Host, Options};
    use framewright_sim::Random;

    #[test]
    fn compressed_memory_is_the_machines_own() {
        let layout = ZoneLayout::new(Frame(0), 2048).with_cpus(2);
        let host = Host::new(&Options::new(layout)).unwrap();
        let free = || host.zone().stats().nr_free_pages;
        let before = free();
        let zram = ZramInFrames::new(64, host.zone().seat(CpuId(1)).unwrap());
        let taken = || before - free();
        // Pages that do not become smaller.
        let draw = Mutex::new(Random::new(1));
        let page = || -> [u64; 512] {
            let mut draw = draw.lock().unwrap();
            std::array::from_fn(|_| draw.bits())
        };
        std::thread::scope(|scope| {
            for first in [0, 8, 16, 24] {
                let (zram, page) = (&zram, &page);
                let write = move |slot| zram.write(slot, &page()).unwrap();
                scope.spawn(move || (first..first + 8).for_each(write));
            }
        });
        assert!((32..=33).contains(&taken()), "{}", taken());
        // A frame that is kept for one page is not given away by another thread.
        zram.begin().unwrap();
        let kept = taken();
        zram.discard(0);
        assert!(taken() >= kept - 1, "{} of {kept}", taken());
        zram.end().unwrap();
        assert_eq!(taken(), kept - 2);
        let mut all = Vec::new();
        let mut seat = host.zone().seat(CpuId(0)).unwrap();
        while let Ok(frame) = seat.alloc(Order::ZERO, Mobility::Unmovable) {
            all.push(frame);
        }
        assert!(zram.write(40, &page()).is_err(), "no frame is left");
        for frame in all {
            seat.free(frame, Order::ZERO).unwrap();
        }
        drop(seat);
        zram.write(40, &page()).unwrap();
        (0..64).for_each(|slot| zram.discard(slot));
        assert_eq!(free(), before);
    }

    #[test]
    fn files_and_swap_of_one_machine_share_its_card() {
        let folder = tempfile::tempdir().unwrap();
        for (device, is_card) in [(Device::Host, false), (Device::Card, true)] {
            let storage = Storage::new(device);
            let busy = || storage.card.as_ref().map(|card| card.busy().as_nanos());
            let path = folder.path().join(device.name());
            let swap = storage.swap_file(&path.with_extension("swap"), 4).unwrap();
            swap.write(1, &[1; 512]).unwrap();
            assert_eq!(busy(), is_card.then_some(1_909_600));
            let page = vec![7; 4096 * 2];
            let (_, aligned) = page.split_at(page.as_ptr().align_offset(4096));
            let file = storage.file(&path, true).unwrap();
            assert_eq!(file.write_at(&aligned[..4096], 0).unwrap(), 4096);
            assert_eq!(busy(), is_card.then_some(2 * 1_909_600));
            storage.set_slow(false);
            swap.write(2, &[2; 512]).unwrap();
            assert_eq!(busy(), is_card.then_some(2 * 1_909_600));
        }
    }
}
