//! The model knows where an object lies and what its bytes are. All else about it, whether a slab, a run or an area,
//! is the engine's choice.

use framewright::kv::{KvError, KvFreeError, KvRequest};
use framewright::policy::Effort;
use framewright::{Addr, Order, Page};
use std::collections::BTreeMap;

/// The call that made an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Made {
    /// It must be contiguous.
    Kmalloc,
    /// Contiguous or mapped.
    Kvmalloc,
    /// It must be mapped.
    Vmalloc,
    /// It existed, and has another length now.
    Kept,
}

/// A live object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelObject {
    /// Its first byte.
    pub addr: Addr,
    /// Its length, as it was asked for.
    pub bytes: u64,
    /// The bytes that it has room for.
    pub covers: u64,
    /// Whether its request, and all that changed its length, asked for zeroes.
    pub is_zeroed: bool,
    /// Its number among all objects ever made, which determines its bytes.
    pub id: u64,
    place: usize,
}

impl ModelObject {
    /// What the byte at `offset` must be: a value that unused memory never holds.
    #[must_use]
    pub const fn byte(&self, offset: u64) -> u8 {
        byte(self.id, offset)
    }
}

/// What a user writes.
pub(super) const fn byte(id: u64, offset: u64) -> u8 {
    (id.wrapping_mul(31).wrapping_add(offset.wrapping_mul(7)) % 199 + 1) as u8
}

/// The objects' obviously right, slow twin: the live objects, sorted by address.
///
/// It knows no classes, slabs and magazines, and of lengths only that an object has at least as
/// many bytes as asked for.
///
/// # Invariants
/// - No two objects overlap, with all the bytes that they have room for.
/// - An object is aligned as asked for, to 16 bytes, and if its length is a power of two, to that
///   or to a page; except if it got that length by `kvrealloc` and did not move.
/// - `kmalloc`'s lie in the direct map, `vmalloc`'s in the window, `kvmalloc`'s in either.
/// - A free succeeds if and only if an object starts there.
#[derive(Clone, Debug)]
pub struct ObjectModel {
    /// The addresses of the frames in which objects can lie.
    memory: (u64, u64),
    window: (u64, u64),
    /// Where frame 0 lies.
    direct: u64,
    max_order: Order,
    objects: BTreeMap<u64, ModelObject>,
    /// Addresses of the objects, in an arbitrary order.
    live: Vec<u64>,
    next_id: u64,
}

impl ObjectModel {
    /// No objects. Memory and window are given as first byte and the byte behind the last; a zone
    /// serves blocks up to `max_order`.
    #[must_use]
    pub const fn new(
        memory: (u64, u64),
        window: (u64, u64),
        direct: u64,
        max_order: Order,
    ) -> Self {
        Self {
            memory,
            window,
            direct,
            max_order,
            objects: BTreeMap::new(),
            live: Vec::new(),
            next_id: 1,
        }
    }

    /// How many objects live.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live.len()
    }

    /// The live objects, by address.
    pub fn objects(&self) -> impl Iterator<Item = &ModelObject> {
        self.objects.values()
    }

    /// The object that `pick` names. `None` if there are no objects.
    #[must_use]
    pub fn pick(&self, pick: u32) -> Option<ModelObject> {
        let nth = (pick as usize).checked_rem(self.live.len())?;
        Some(self.objects[&self.live[nth]])
    }

    /// Whether the address belongs to mapped pages and not to memory.
    #[must_use]
    pub const fn is_mapped(&self, addr: Addr) -> bool {
        !(self.memory.0 <= addr.0 && addr.0 < self.memory.1)
    }

    /// The address of byte `at` of the memory, then of the window, then of neither.
    #[must_use]
    pub const fn address(&self, at: u64) -> Addr {
        let memory = self.memory.1 - self.memory.0;
        if at < memory {
            Addr(self.memory.0 + at)
        } else {
            Addr(self.window.0 + (at - memory))
        }
    }

    /// The order of the block that holds the request, if there can be one.
    #[must_use]
    pub fn order(&self, bytes: u64, align_bytes: u64) -> Option<Order> {
        let order = self.order_of(bytes, align_bytes);
        order.filter(|&order| self.could_have(order))
    }

    /// Whether a block of the order has a place in memory.
    fn could_have(&self, order: Order) -> bool {
        let frame = |addr: u64| (addr - self.direct) / Page::BYTES;
        let first = frame(self.memory.0).next_multiple_of(order.frames());
        first + order.frames() <= frame(self.memory.1)
    }

    /// The order of the block that holds the request, if zones serve it.
    fn order_of(&self, bytes: u64, align_bytes: u64) -> Option<Order> {
        let mut order = 0;
        while order <= self.max_order.get() && Page::BYTES << order < bytes.max(align_bytes) {
            order += 1;
        }
        let is_aligned = self.direct.is_multiple_of(align_bytes);
        (is_aligned && order <= self.max_order.get())
            .then(|| Order::new(order))
            .flatten()
    }

    /// What the result of a request must be if there is enough memory.
    ///
    /// # Errors
    /// Why it must fail.
    pub fn must_alloc(&self, request: &KvRequest, made: Made) -> Result<(), KvError> {
        let &KvRequest {
            bytes, align_bytes, ..
        } = request;
        let may_wait = request.context.may_block && request.context.may_reclaim;
        if bytes == 0 {
            return Err(KvError::Empty);
        }
        if !align_bytes.is_power_of_two() {
            return Err(KvError::Align { bytes: align_bytes });
        }
        if request.effort == Effort::MustSucceed && !may_wait {
            return Err(KvError::MustNotWait);
        }
        let (memory, window) = (
            (self.memory.1 - self.memory.0) / Page::BYTES,
            (self.window.1 - self.window.0) / Page::BYTES,
        );
        let pages = bytes.div_ceil(Page::BYTES);
        let can_map = made != Made::Kmalloc && pages < window;
        let can_be_block = made != Made::Vmalloc && self.order(bytes, align_bytes).is_some();
        // What zones serve is looked at before what these frames can be.
        let is_by_alignment = match self.order_of(bytes, align_bytes) {
            Some(_) => self.order(bytes, 1).is_some(),
            None => self.order_of(bytes, 1).is_some(),
        };
        if pages <= memory && (can_map || can_be_block) {
            Ok(())
        } else if pages <= memory && made == Made::Kmalloc && is_by_alignment {
            Err(KvError::AlignContiguous { bytes: align_bytes })
        } else {
            Err(KvError::TooLong { bytes })
        }
    }

    /// Why exactly this object cannot be what was asked for.
    #[must_use]
    pub fn objection(
        &self,
        addr: Addr,
        covers: u64,
        request: &KvRequest,
        made: Made,
    ) -> Option<String> {
        let (start, bytes) = (addr.0, request.bytes);
        let is_mapped = self.is_mapped(addr);
        let right_kind = match made {
            Made::Kmalloc => !is_mapped,
            Made::Kvmalloc | Made::Kept => true,
            Made::Vmalloc => is_mapped,
        };
        if !right_kind {
            return Some(format!("{addr} is not an address for {made:?}"));
        }
        let (from, to) = if is_mapped { self.window } else { self.memory };
        let end = start.checked_add(covers);
        if start < from || end.is_none_or(|end| end > to) {
            return Some(format!(
                "{covers} bytes at {addr} are not where objects are"
            ));
        }
        if covers < bytes {
            return Some(format!("{covers} bytes at {addr} are fewer than asked for"));
        }
        let promised = if bytes.is_power_of_two() && made != Made::Kept {
            bytes.clamp(16, Page::BYTES)
        } else {
            16
        };
        let align = promised.max(request.align_bytes);
        if !start.is_multiple_of(align) {
            return Some(format!("{addr} is not aligned to {align} bytes"));
        }
        let last = start + covers - 1;
        self.objects
            .range(..=last)
            .next_back()
            .filter(|(_, object)| object.addr.0 + object.covers > start)
            .map(|(_, object)| format!("K5: {covers} bytes at {addr} overlap {object:?}"))
    }

    /// Records a new object.
    pub fn insert(&mut self, addr: Addr, bytes: u64, covers: u64, is_zeroed: bool) -> ModelObject {
        let object = ModelObject {
            addr,
            bytes,
            covers,
            is_zeroed,
            id: self.next_id,
            place: self.live.len(),
        };
        self.next_id += 1;
        self.live.push(addr.0);
        self.objects.insert(addr.0, object);
        object
    }

    /// Records that a block that now needs only this many bytes may be cut.
    ///
    /// # Panics
    /// If no object starts there.
    pub fn cut(&mut self, addr: Addr, bytes: u64) {
        let is_mapped = self.is_mapped(addr);
        let object = self.objects.get_mut(&addr.0).expect("a live object");
        while !is_mapped && object.covers > Page::BYTES && object.covers / 2 >= bytes {
            object.covers /= 2;
        }
    }

    /// Removes an object.
    ///
    /// # Panics
    /// If no object starts there.
    pub fn remove(&mut self, addr: Addr) -> ModelObject {
        let object = self.objects.remove(&addr.0).expect("a live object");
        self.live.swap_remove(object.place);
        if let Some(moved) = self.live.get(object.place) {
            let moved = self.objects.get_mut(moved).expect("a live object");
            moved.place = object.place;
        }
        object
    }

    /// The object that starts there.
    #[must_use]
    pub fn get(&self, addr: Addr) -> Option<ModelObject> {
        self.objects.get(&addr.0).copied()
    }

    /// Whether the engine may refuse to free what is at `addr` for that reason.
    #[must_use]
    pub fn may_refuse(&self, addr: Addr, kfree: bool, error: KvFreeError) -> bool {
        use KvFreeError::{AlreadyFree, Mapped, NotAllocated, NotTheFirst, Outside};
        let is_mapped = self.is_mapped(addr);
        let is_outside = is_mapped && !(self.window.0 <= addr.0 && addr.0 < self.window.1);
        if is_outside {
            return error == Outside(addr);
        }
        // The guard page of mapped pages belongs to the object too.
        let guard = if is_mapped { Page::BYTES } else { 0 };
        let before = self.objects.range(..=addr.0).next_back();
        let covering = before.filter(|(_, object)| addr.0 < object.addr.0 + object.covers + guard);
        match (covering, error) {
            (Some((_, object)), Mapped(at)) => {
                kfree && is_mapped && at == addr && object.addr == addr
            }
            (Some((_, object)), _) if object.addr == addr => false,
            (Some((_, object)), NotTheFirst { addr: at, start }) => {
                at == addr && start == object.addr
            }
            // The entries of a block's frames, except for the first, are empty.
            (Some((_, object)), NotAllocated(at)) => {
                at == addr && !is_mapped && object.covers >= Page::BYTES
            }
            (Some(_), _) => false,
            (None, NotAllocated(at) | AlreadyFree(at)) => at == addr,
            (None, NotTheFirst { addr: at, start }) => at == addr && start < addr,
            (None, _) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright::Context;

    fn model() -> ObjectModel {
        let order = Order::new(4).unwrap();
        ObjectModel::new(
            (0x10_0000, 0x14_0000),
            (0x40_0000, 0x42_0000),
            0x10_0000,
            order,
        )
    }

    #[test]
    fn what_cannot_be_handed_out_is_said() {
        let mut model = model();
        model.insert(Addr(0x10_1000), 100, 112, false);
        let objection = |addr, covers, request: KvRequest, made| {
            model.objection(Addr(addr), covers, &request, made)
        };
        let request = KvRequest::new(100);
        assert_eq!(objection(0x10_1070, 112, request, Made::Kmalloc), None);
        assert_eq!(objection(0x40_0000, 4096, request, Made::Kvmalloc), None);
        let said = |addr, covers, request, made, words: &str| {
            let said = objection(addr, covers, request, made).unwrap();
            assert!(said.contains(words), "{said}");
        };
        said(0x10_1060, 112, request, Made::Kmalloc, "overlap");
        said(0x10_0fa0, 112, request, Made::Kmalloc, "overlap");
        said(0x10_1078, 112, request, Made::Kmalloc, "aligned to 16");
        said(0x10_1080, 96, request, Made::Kmalloc, "fewer");
        said(0x40_0000, 4096, request, Made::Kmalloc, "Kmalloc");
        said(0x10_2000, 4096, request, Made::Vmalloc, "Vmalloc");
        said(0x13_fff0, 112, request, Made::Kmalloc, "where objects are");
        let power = KvRequest::new(128);
        said(0x10_1140, 128, power, Made::Kmalloc, "aligned to 128");
        let aligned = power.aligned_to(8192);
        said(0x10_3000, 4096, aligned, Made::Kmalloc, "aligned to 8192");
    }

    #[test]
    fn what_must_be_refused_is() {
        let model = model();
        let must = |request: KvRequest, made| model.must_alloc(&request, made);
        let longest = 0x4_0000;
        let too_long = |bytes| Err(KvError::TooLong { bytes });
        assert_eq!(must(KvRequest::new(0), Made::Kmalloc), Err(KvError::Empty));
        assert_eq!(must(KvRequest::new(65_536), Made::Kmalloc), Ok(()));
        assert_eq!(
            must(KvRequest::new(65_537), Made::Kmalloc),
            too_long(65_537)
        );
        assert_eq!(must(KvRequest::new(65_537), Made::Kvmalloc), Ok(()));
        assert_eq!(
            must(KvRequest::new(longest), Made::Kvmalloc),
            too_long(longest)
        );
        let skewed = KvRequest::new(9).aligned_to(1 << 30);
        let error = KvError::AlignContiguous { bytes: 1 << 30 };
        assert_eq!(must(skewed, Made::Kmalloc), Err(error));
        assert_eq!(must(skewed, Made::Kvmalloc), Ok(()));
        let must_now = KvRequest::new(9).with(Effort::MustSucceed);
        let must_now = must_now.within(Context::NOWAIT);
        assert_eq!(must(must_now, Made::Kmalloc), Err(KvError::MustNotWait));
    }

    #[test]
    fn each_wrong_free_has_its_reason() {
        use KvFreeError::{AlreadyFree, Mapped, NotAllocated, NotTheFirst, Outside};
        let mut model = model();
        let (run, area) = (Addr(0x10_2000), Addr(0x40_1000));
        model.insert(run, 5000, 8192, false);
        model.insert(area, 5000, 8192, false);
        let may = |addr, kfree, error| model.may_refuse(addr, kfree, error);
        assert!(!may(run, false, AlreadyFree(run)) && !may(area, false, AlreadyFree(area)));
        assert!(may(area, true, Mapped(area)) && !may(area, false, Mapped(area)));
        let inside = Addr(0x10_3000);
        assert!(may(inside, false, NotAllocated(inside)));
        assert!(!may(inside, false, AlreadyFree(inside)));
        let guard = Addr(0x40_3800);
        let first = NotTheFirst {
            addr: guard,
            start: area,
        };
        assert!(may(guard, false, first) && !may(guard, false, NotAllocated(guard)));
        let free = Addr(0x10_8000);
        assert!(may(free, true, AlreadyFree(free)) && !may(free, true, Outside(free)));
        let outside = Addr(0x50_0000);
        assert!(may(outside, true, Outside(outside)));
        assert!(!may(outside, true, NotAllocated(outside)));
    }
}
