//! What a machine's files and its swap lie on: the host's own device, or a card that is emulated; or, for swap,
//! compressed memory of the machine.

use super::Device;
use super::card::{Card, CardTimes, OnCard};
use framewright::frame::Zone;
use framewright::{CpuId, Frame, Mobility, Order};
use framewright_linux::Linux;
use framewright_linux::file_cache::{DirectFile, Medium};
use framewright_linux::swap::{SwapDevice, SwapFile, Zram};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// One machine's storage.
#[derive(Debug)]
pub(super) struct Storage {
    card: Option<Arc<Card>>,
}

impl Storage {
    pub(super) fn new(device: Device) -> Self {
        let card = || Arc::new(Card::new(CardTimes::CLASS_10));
        Self {
            card: (device == Device::Card).then(card),
        }
    }

    /// Whether transfers take as long as they would: not while a machine is prepared.
    pub(super) fn set_slow(&self, is_slow: bool) {
        if let Some(card) = &self.card {
            card.set_slow(is_slow);
        }
    }

    /// A file past the host's own cache, so that what this process has evicted comes from the device again;
    /// where the file system cannot do that, as usual.
    pub(super) fn file(&self, path: &Path, is_writable: bool) -> io::Result<Arc<dyn Medium>> {
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
    zone: &'z Zone<'z, Linux>,
    /// A CPU of the zone that no thread has.
    cpu: CpuId,
    frames: Mutex<Vec<Frame>>,
}

impl<'z> ZramInFrames<'z> {
    pub(super) fn new(slots: u64, zone: &'z Zone<'z, Linux>, cpu: CpuId) -> Self {
        Self {
            zram: Zram::new(slots, slots * Frame::BYTES),
            zone,
            cpu,
            frames: Mutex::default(),
        }
    }

    /// Has as many frames as the compressed pages take; with `more` bytes besides, if that is possible.
    fn settle(&self, more: u64) -> io::Result<()> {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = self.zram.stats().mem_used_total + more;
        let wanted = bytes.div_ceil(Frame::BYTES) as usize;
        if frames.len() == wanted {
            return Ok(());
        }
        let mut seat = self.zone.seat(self.cpu).map_err(io::Error::other)?;
        while frames.len() > wanted
            && let Some(frame) = frames.pop()
        {
            seat.free(frame, Order::ZERO).map_err(io::Error::other)?;
        }
        while frames.len() < wanted {
            let frame = seat.alloc(Order::ZERO, Mobility::Unmovable);
            frames.push(frame.map_err(io::Error::other)?);
        }
        Ok(())
    }
}

impl SwapDevice for ZramInFrames<'_> {
    fn slots(&self) -> u64 {
        self.zram.slots()
    }

    /// Refused if the machine has no frame left for it.
    fn write(&self, slot: u64, page: &[u64; 512]) -> io::Result<()> {
        // A page that does not become smaller takes a frame.
        self.settle(Frame::BYTES)?;
        let written = self.zram.write(slot, page);
        self.settle(0)?;
        written
    }

    fn read(&self, slot: u64, page: &mut [u64; 512]) -> io::Result<()> {
        self.zram.read(slot, page)
    }

    fn discard(&self, slot: u64) {
        self.zram.discard(slot);
        // Frames that cannot be given back now are given back with the next page.
        let _ = self.settle(0);
    }

    fn sync(&self) -> io::Result<()> {
        self.zram.sync()
    }

    fn bytes_written(&self) -> u64 {
        self.zram.bytes_written()
    }

    fn in_use(&self) -> &AtomicBool {
        self.zram.in_use()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright::frame::ZoneLayout;
    use framewright_linux::{Host, Options};

    #[test]
    fn compressed_memory_is_the_machines_own() {
        let layout = ZoneLayout::new(Frame(0), 2048).with_cpus(2);
        let host = Host::new(&Options::new(layout)).unwrap();
        let zram = ZramInFrames::new(64, host.zone(), CpuId(1));
        let taken = || zram.frames.lock().unwrap().len();
        // Pages that do not become smaller.
        let mut word = 1u64;
        let mut page = || -> [u64; 512] {
            std::array::from_fn(|_| {
                word ^= word << 13;
                word ^= word >> 7;
                word ^= word << 17;
                word
            })
        };
        for slot in 0..32 {
            zram.write(slot, &page()).unwrap();
        }
        assert!((32..=33).contains(&taken()), "{}", taken());
        let mut all = Vec::new();
        let mut seat = host.zone().seat(CpuId(1)).unwrap();
        while let Ok(frame) = seat.alloc(Order::ZERO, Mobility::Unmovable) {
            all.push(frame);
        }
        drop(seat);
        assert!(zram.write(40, &page()).is_err(), "no frame is left");
        let mut seat = host.zone().seat(CpuId(1)).unwrap();
        for frame in all {
            seat.free(frame, Order::ZERO).unwrap();
        }
        drop(seat);
        zram.write(40, &page()).unwrap();
        (0..64).for_each(|slot| zram.discard(slot));
        assert_eq!(taken(), 0);
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
