//! What a machine's files and its swap lie on: the host's own device, or a card that is emulated.

use super::Device;
use super::card::{Card, CardTimes, OnCard};
use framewright_linux::file_cache::{DirectFile, Medium};
use framewright_linux::swap::{SwapDevice, SwapFile, Zram};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

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

    /// Compressed memory as swap, which lies on no card.
    pub(super) fn zram(slots: u64) -> Box<dyn SwapDevice> {
        Box::new(Zram::new(slots, slots * framewright::Frame::BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
