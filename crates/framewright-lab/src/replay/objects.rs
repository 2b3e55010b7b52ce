//! Where each object of a plain replay lies. Frees look it up at random, so its size is the speed of a replay.

use framewright::{Frame, Mobility};

/// Where the trace's objects are: four bytes each, so that a free costs one cache miss.
///
/// # Invariants
/// - **RO1** An entry is a frame with its object's mobility in the top two bits, or [`ABSENT`]
///   for an object not yet allocated, whose allocation failed, or that is gone.
#[derive(Debug)]
pub(super) struct TraceObjects(Vec<u32>);

/// The top two bits name no mobility.
const ABSENT: u32 = u32::MAX;
const FRAME_BITS: u32 = 30;

impl TraceObjects {
    /// Frames that an entry can name: 2^30 frames of 4 KiB are 4 TiB.
    pub(super) const MAX_FRAMES: u64 = 1 << FRAME_BITS;

    /// Room for `n` objects, all of them absent.
    pub(super) fn new(n: usize) -> Self {
        Self(vec![ABSENT; n])
    }

    /// Notes that object `id` is at `frame`; nothing happens past the end.
    #[inline]
    pub(super) fn place(&mut self, id: usize, frame: Frame, mobility: Mobility) {
        if let Some(entry) = self.0.get_mut(id) {
            *entry = frame.0 as u32 | (mobility as u32) << FRAME_BITS;
        }
    }

    /// Where object `id` is.
    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<(Frame, Mobility)> {
        let entry = *self.0.get(id as usize)?;
        let mobility = Mobility::from_index((entry >> FRAME_BITS) as usize)?;
        Some((Frame(u64::from(entry & ((1 << FRAME_BITS) - 1))), mobility))
    }

    /// Object `id` is gone.
    #[inline]
    pub(super) fn forget(&mut self, id: u32) {
        if let Some(entry) = self.0.get_mut(id as usize) {
            *entry = ABSENT;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_where_it_was_put_until_it_is_forgotten() {
        let mut objects = TraceObjects::new(2);
        assert_eq!(objects.get(0), None);
        let last = Frame(TraceObjects::MAX_FRAMES - 1);
        for mobility in Mobility::ALL {
            objects.place(1, last, mobility);
            assert_eq!(objects.get(1), Some((last, mobility)));
        }
        objects.forget(1);
        assert_eq!((objects.get(1), objects.get(9)), (None, None));
    }
}
