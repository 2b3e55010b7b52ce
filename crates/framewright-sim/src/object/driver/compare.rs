//! The comparison of bytes, counters and lists. Large objects are used at some of their bytes only, always the same
//! ones.

use super::{Difference, ModelObject, ObjectPair, differ};
use crate::drive::InStep as _;
use framewright::{Addr, CpuId, Page};

/// This many bytes at each end of an object are always used.
const ENDS: u64 = 16;

/// The places of an object's bytes that are used.
fn places(bytes: u64, stride: u64) -> impl Iterator<Item = u64> {
    let ends = (0..bytes.min(ENDS)).chain(bytes.saturating_sub(ENDS).max(ENDS.min(bytes))..bytes);
    (0..bytes).step_by(stride as usize).chain(ends)
}

impl ObjectPair<'_, '_> {
    /// Checks that the first `bytes` bytes of the object are what its user wrote, as that CPU sees
    /// them.
    pub(super) fn read(
        &self,
        cpu: u16,
        object: &ModelObject,
        bytes: u64,
    ) -> Result<(), Difference> {
        self.read_at(cpu, object, object.addr, bytes)
    }

    /// The same at the place that they were copied to.
    pub(super) fn read_at(
        &self,
        cpu: u16,
        object: &ModelObject,
        addr: Addr,
        bytes: u64,
    ) -> Result<(), Difference> {
        for offset in places(bytes, self.case.stride).filter(|offset| *offset < object.bytes) {
            let found = self.ram.read(CpuId(cpu), Addr(addr.0 + offset));
            // Bytes at the end of a longer length are used, too.
            if !is_used(offset, object.bytes, self.case.stride) {
                continue;
            }
            let expected = object.byte(offset);
            if found != Some(expected) {
                return differ!(
                    "K5: byte {offset} at {addr} of {object:?} is {found:?}, not {expected}"
                );
            }
        }
        self.check_platform()
    }

    /// Checks that all bytes of the object from `from` on are zero.
    pub(super) fn is_zero(
        &self,
        cpu: u16,
        object: &ModelObject,
        from: u64,
    ) -> Result<(), Difference> {
        for offset in places(object.bytes, self.case.stride).filter(|offset| *offset >= from) {
            let found = self.ram.read(CpuId(cpu), Addr(object.addr.0 + offset));
            if found != Some(0) {
                return differ!("byte {offset} of {object:?} is {found:?}, not zero");
            }
        }
        Ok(())
    }

    /// Writes the object, as its user does.
    pub(super) fn write(&self, cpu: u16, object: &ModelObject) -> Result<(), Difference> {
        for offset in places(object.bytes, self.case.stride) {
            let addr = Addr(object.addr.0 + offset);
            if !self.ram.write(CpuId(cpu), addr, object.byte(offset)) {
                return differ!("byte {offset} of {object:?} is not mapped");
            }
        }
        self.check_platform()
    }

    pub(super) fn compare_stats(&mut self) -> Result<(), Difference> {
        let (found, expected) = (self.kv.stats(), &self.expected);
        let pairs = [
            (
                "run_allocs and slab_allocs",
                found.run_allocs + found.slab_allocs,
                expected.run_allocs,
            ),
            (
                "run_frees and slab_frees",
                found.run_frees + found.slab_frees,
                expected.run_frees,
            ),
            ("mapped_allocs", found.mapped_allocs, expected.mapped_allocs),
            ("spills", found.spills, expected.spills),
            ("mapped_frees", found.mapped_frees, expected.mapped_frees),
            ("failures", found.failures, expected.failures),
            ("bad_frees", found.bad_frees, expected.bad_frees),
            ("compact_stall", found.compact_stall, expected.compact_stall),
            ("allocstall", found.allocstall, expected.allocstall),
            ("double_frees", found.double_frees, 0),
        ];
        for (name, found, expected) in pairs {
            if found != expected {
                return differ!("{name} is {found}, the model says {expected}");
            }
        }
        Ok(())
    }

    pub(super) fn verify_all(&mut self) -> Result<(), Difference> {
        if let Err(broken) = self.zone.verify() {
            return differ!("the zone: {broken}");
        }
        if let Err(broken) = self.space.verify() {
            return differ!("the space: {broken}");
        }
        if let Err(broken) = self.kv.verify() {
            return differ!("the objects: {broken}");
        }
        let (mut runs, mut slots) = (0, 0);
        for object in self.model.objects() {
            match object.covers >= Page::BYTES {
                true => runs += u64::from(!self.model.is_mapped(object.addr)),
                false => slots += 1,
            }
            let found = self.size_of(0, object.addr);
            if found != Ok(object.covers) {
                return differ!("kvsize of {object:?} is {found:?}");
            }
        }
        let found = self.kv.recount();
        if (found.runs, found.live_slots) != (runs, slots) {
            return differ!("K2: {found:?}, and there are {runs} runs and {slots} slots");
        }
        self.check_platform()
    }

    /// Drains, and checks that no memory is kept unused.
    pub(super) fn drained(&mut self, cpu: u16) -> Result<(), Difference> {
        self.drain(cpu);
        self.compare_drained()
    }

    /// Checks that all frames in use are the live objects', the slabs' or the cache's.
    pub(super) fn compare_drained(&mut self) -> Result<(), Difference> {
        self.ranges.forget_freed();
        let lazy = self.space.stats().vmap_lazy_nr;
        if lazy > 0 {
            return differ!("{lazy} pages are lazy after a drain");
        }
        let objects = self.model.objects();
        let whole = objects.filter(|object| object.covers >= Page::BYTES);
        let live: u64 = whole.map(|object| object.covers / Page::BYTES).sum();
        let slabs = self.kv.stats().slab_frames;
        let (taken, cached) = (self.ram.taken_frames(), self.cache.frames());
        if taken != live + slabs + cached {
            return differ!(
                "K6: {taken} frames are taken: {live} of live objects, {slabs} in slabs, {cached} cached"
            );
        }
        let free = self.zone.stats().nr_free_pages;
        if free + taken != self.case.zone.frames {
            return differ!("K1: {free} frames are free, and {taken} taken");
        }
        Ok(())
    }
}

fn is_used(offset: u64, bytes: u64, stride: u64) -> bool {
    offset.is_multiple_of(stride) || offset < ENDS || offset + ENDS >= bytes
}
