//! What the engine asks of the machine: to wait, and the contents of frames.

use framewright::Frame;
use framewright::platform::{FramePlatform, ReservePlatform};
use ostd::mm::{PAGE_SIZE, VmIo, frame};

/// The machine under OSTD.
///
/// Each operation of the engine has a fence: an interrupt of OSTD's (`inter_processor_call`) allocates, and its sender does not
/// learn when the other CPU has answered, so no barrier for all CPUs can be built on it.
#[derive(Clone, Copy, Debug)]
pub struct Ostd;

impl FramePlatform for Ostd {}

/// Guests' pages. The engine says that no other call has the frame: the guest is inside its gate, or the page is on its way
/// to the guest, and an owner waits for both. So this is the frame's one owner for OSTD too, for the time of a copy.
impl ReservePlatform for Ostd {
    fn store(&self, at: Frame, page: &[u64; 512]) {
        if let Some(frame) = claim(at) {
            let written = frame.write_val(0, page);
            debug_assert!(written.is_ok(), "a frame is as long as a page");
        }
    }

    fn load(&self, at: Frame, page: &mut [u64; 512]) {
        if let Some(read) = claim(at).and_then(|frame| frame.read_val(0).ok()) {
            *page = read;
        }
    }
}

fn claim(at: Frame) -> Option<frame::Frame<()>> {
    let claimed = frame::Frame::from_unused(at.0 as usize * PAGE_SIZE, ());
    debug_assert!(claimed.is_ok(), "a guest's frame belongs to no other owner");
    claimed.ok()
}
