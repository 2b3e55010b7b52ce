//! Contiguous objects: slots of slabs, and blocks of frames.

use super::super::lengths::bytes_of;
use super::super::slab::{SizeClass, SlabState};
use super::super::table::{KvEntry, KvTable, RunEntry};
use super::super::{KvError, KvFreeError, KvSeat};
use super::KvRequest;
use crate::frame::FrameSource;
use crate::platform::parts::zero_object;
use crate::platform::{ObjectPlatform, OrElse, Relief};
use crate::units::{Addr, Frame, Mobility, Order, Run};

impl<P, F, R> KvSeat<'_, '_, '_, P, F, R>
where
    P: ObjectPlatform,
    R: Relief<F>,
    F: FrameSource,
{
    /// Allocates an object that is contiguous in memory, in the direct map \[`kmalloc`\].
    ///
    /// Up to 2048 bytes it is a slot of a slab, mostly some nanoseconds; above, a block of frames.
    /// It waits, collects what other CPUs keep, and has memory compacted and reclaimed as effort
    /// and context allow. With the default effort it does none of that, and fails if no memory is
    /// there at once: a caller that needs more asks for more effort.
    ///
    /// # Errors
    /// What is wrong with the request, or that no contiguous memory was free. Nothing has changed
    /// then.
    #[inline(always)]
    pub fn kmalloc(&mut self, request: &KvRequest) -> Result<Addr, KvError> {
        let addr = match self.at_hand(request) {
            Some(addr) => addr,
            None => self.kmalloc_slow(*request)?,
        };
        Ok(addr)
    }

    /// The fast path of a request: the common case, without a call. The slow paths have the request by value, so a
    /// caller that knows its length keeps none in memory, and the compiler works out here what it can.
    #[inline(always)]
    pub(super) fn at_hand(&mut self, request: &KvRequest) -> Option<Addr> {
        if !request.effort.is_allowed(request.context) {
            return None;
        }
        match SizeClass::plain(request.bytes, request.align_bytes) {
            Some(class) => self.slot_at_hand(class, request.zero),
            None => self.block_at_hand(request),
        }
    }

    /// A slot from the class's magazine, or from another slab that has one.
    #[inline(always)]
    fn slot_at_hand(&mut self, class: SizeClass, zero: bool) -> Option<Addr> {
        // A copy: behind an access of an atomic the compiler reads each field of the seat anew.
        let words = self.held.words;
        let turn = words.turn();
        let found = match turn.try_enter::<P>() {
            true => self.held.take_in(words, class),
            false => None,
        };
        let addr = match found {
            Some(addr) => {
                turn.exit();
                addr
            }
            None => self.slot_near(class)?,
        };
        if zero {
            self.calling_out_for(addr, |platform| platform.zero_bytes(addr, class.bytes()));
        }
        Some(addr)
    }

    /// A slot where the magazine is empty, or another CPU may claim the seat. The seat is busy before, and idle after.
    #[inline(never)]
    fn slot_near(&mut self, class: SizeClass) -> Option<Addr> {
        self.wait_if_claimed();
        let found = self.held.take(class);
        let found = found.or_else(|| self.held.take_near(class));
        self.exit();
        found
    }

    /// A block that lies in the cache of the CPU's seat in the zones.
    #[inline(always)]
    fn block_at_hand(&mut self, request: &KvRequest) -> Option<Addr> {
        if self.held.words.has_loose() {
            return None;
        }
        let order = self.order_of_block(request)?;
        let blocks = self.ranges.frames();
        let frame = blocks.cached_block(order, Mobility::Unmovable)?;
        let addr = self.run_of(order, frame)?;
        if request.zero {
            self.zero_block(addr, order);
        }
        Some(addr)
    }

    #[inline(never)]
    fn zero_block(&mut self, addr: Addr, order: Order) {
        let bytes = bytes_of(order);
        self.calling_out_for(addr, |platform| zero_object(platform, addr, bytes));
    }

    #[inline(never)]
    fn kmalloc_slow(&mut self, request: KvRequest) -> Result<Addr, KvError> {
        self.obtain_for(&request, false)
    }

    /// Frees an object that is contiguous in memory \[`kfree`\]. Returns how many bytes it could
    /// have had.
    ///
    /// Freeing a slot of another CPU's slab costs an atomic operation; the owner collects it.
    ///
    /// # Errors
    /// What is wrong with the address. Nothing has changed then.
    #[inline(always)]
    pub fn kfree(&mut self, addr: Addr) -> Result<u64, KvFreeError> {
        let bytes = match self.held.table.place_at(addr) {
            Some(place) => self.free_slot(addr, place)?,
            None => self.not_contiguous(addr)?,
        };
        Ok(bytes)
    }

    /// Calls the platform for an object that has not been handed out yet: if the call unwinds, the object
    /// is free again (K6).
    #[inline(always)]
    pub(super) fn calling_out_for(&mut self, addr: Addr, call: impl FnOnce(&P)) {
        let kv = self.kv;
        let unwound = OrElse::new(self, |seat| seat.free_unwound(addr));
        call(&kv.platform);
        unwound.end();
    }

    /// Frees an object that the caller will never know, because a call has unwound. The pages of a mapped one
    /// become lazy: another call of the platform that unwound would end the program.
    #[cold]
    pub(super) fn free_unwound(&mut self, addr: Addr) {
        if self.kv.place(addr).is_none() {
            self.held.words.counters.mapped_frees.add(1);
            return self.ranges.free_unwound(addr.page());
        }
        let freed = self.kvfree(addr);
        debug_assert!(freed.is_ok(), "{freed:?}: it was just made");
    }

    #[cold]
    #[inline(never)]
    fn not_contiguous(&self, addr: Addr) -> Result<u64, KvFreeError> {
        self.refuse(match self.mapped_bytes(addr) {
            Ok(_) => KvFreeError::Mapped(addr),
            Err(error) => error,
        })
    }
}

impl<P, F, R> KvSeat<'_, '_, '_, P, F, R>
where
    P: ObjectPlatform,
    F: FrameSource,
{
    /// A contiguous object that is there at once, in this CPU's slabs or by one look at the zones.
    #[inline]
    pub(in super::super) fn at_once(
        &mut self,
        class: Option<SizeClass>,
        order: Order,
    ) -> Option<Addr> {
        match class {
            Some(class) => self.slot(class),
            None => self.run(order),
        }
    }

    /// A block of frames from any CPU's cache: as a run, or as a slab of one frame.
    pub(super) fn block(
        &mut self,
        class: Option<SizeClass>,
        order: Order,
    ) -> Result<Addr, KvError> {
        let frame = self.fetch_block(class, order)?;
        let addr = match class {
            Some(class) => self.slab_or_run(class, frame),
            None => self.run_of(order, frame),
        };
        addr.ok_or(KvError::Outside(frame))
    }

    /// A slot of that class, if one is there at once. If no slab can be made, a slot of a larger
    /// class, and in the end a frame.
    fn slot(&mut self, class: SizeClass) -> Option<Addr> {
        self.enter();
        let mut found = self.held.take_any(class);
        let has_record = found.is_none() && self.held.has_record();
        self.exit();
        self.return_surplus_beside(found);
        if has_record {
            found = self.new_slab(class);
            if found.is_none() && self.return_empties() {
                found = self.new_slab(class);
            }
        }
        found
            .or_else(|| self.larger_slot(class))
            .or_else(|| self.run(Order::ZERO))
    }

    #[cold]
    fn larger_slot(&mut self, class: SizeClass) -> Option<Addr> {
        self.enter();
        let mut larger = class.and_larger();
        let found = larger.find_map(|class| self.held.take_any(class));
        self.exit();
        self.return_surplus_beside(found);
        found
    }

    /// A slot of a new slab, of the class's order or a smaller one, if a record and frames are
    /// there at once.
    fn new_slab(&mut self, class: SizeClass) -> Option<Addr> {
        self.enter();
        // All of it happens in the seat: so no other CPU can stop all CPUs before the block that
        // the zones gave is a slab's, and the record is not taken away meanwhile.
        let addr = match self.held.has_record() {
            true => self.new_slab_held(class),
            false => None,
        };
        self.exit();
        addr
    }

    fn new_slab_held(&mut self, class: SizeClass) -> Option<Addr> {
        // Until the block is a slab, the seat is unchanged.
        let asking = self.held.words.turn().calling_out();
        let place = self.place_of_block(class);
        asking.end();
        let (order, place) = place?;
        self.slab_of(class, order, place)
    }

    /// Makes a slab of a frame that was just taken, and takes a slot. Without a record, the frame
    /// becomes a run.
    fn slab_or_run(&mut self, class: SizeClass, frame: Frame) -> Option<Addr> {
        let place = self.place_of(frame, Order::ZERO)?;
        // If the wait unwinds, the block is no object's yet.
        self.held.words.set_loose(frame, Order::ZERO);
        self.enter();
        self.held.words.end_loose();
        let addr = self.slab_of(class, Order::ZERO, place);
        self.exit();
        addr.or_else(|| self.run_of(Order::ZERO, frame))
    }

    /// Makes a slab of a block that was just taken, and takes a slot. `None` if there is no record.
    /// The caller is in the busy seat.
    pub(in super::super) fn slab_of(
        &self,
        class: SizeClass,
        order: Order,
        place: usize,
    ) -> Option<Addr> {
        let made = self.held.make(class, order, place);
        made.then(|| self.held.take(class)).flatten()
    }

    /// A block of frames, if it is there at once.
    #[inline]
    pub(super) fn run(&mut self, order: Order) -> Option<Addr> {
        if let Some(frame) = self.try_block(order) {
            return self.run_of(order, frame);
        }
        // Only blocks of these orders are kept for speed.
        if order > SizeClass::ORDER_MAX || !self.return_empties() {
            return None;
        }
        let frame = self.try_block(order)?;
        self.run_of(order, frame)
    }

    /// Cuts a block to a shorter one, whose frames stay in place; the others are free then. Returns
    /// whether the block was there. Until they are free the block has no entry, neither as what it was nor as what it
    /// becomes: a free by another CPU would find another block in the zone than the entry says, and is refused.
    pub(super) fn cut_run(&mut self, place: usize, order: Order, shorter: Order) -> bool {
        let table = self.held.table;
        if !table.replace(place, KvEntry::Run(order), KvEntry::None, P::ALONE) {
            return false;
        }
        let start = Frame(table.frame(place).0 + shorter.frames());
        let rest = Run::new(start, order.frames() - shorter.frames());
        let rest = rest.expect("a part of a block of a zone");
        // If a wait unwinds, the rest has gone back all the same.
        let entry = KvEntry::Run(shorter);
        let unwound = OrElse::new(self, |seat: &mut Self| seat.held.table.set(place, entry));
        unwound.seat.ranges.frames().free_run(rest);
        unwound.end();
        table.set(place, entry);
        true
    }

    /// Makes a run of a block that was just taken.
    #[inline(always)]
    pub(in super::super) fn run_of(&mut self, order: Order, frame: Frame) -> Option<Addr> {
        let place = self.place_of(frame, order)?;
        let table = self.held.table;
        table.set(place, KvEntry::Run(order));
        self.held.words.counters.run_allocs.add(1);
        Some(table.addr(place))
    }

    /// Frees a contiguous object that was not handed out, because a wait unwound: waits for no zone.
    #[cold]
    pub(in super::super) fn take_back(&mut self, found: Option<Addr>) {
        let Some((addr, place)) = found.and_then(|addr| Some((addr, self.kv.place(addr)?))) else {
            return;
        };
        self.enter();
        match self.kv.table.get(place) {
            KvEntry::Run(order) => {
                self.kv.table.change(place, KvEntry::None);
                self.held.words.counters.run_frees.add(1);
                self.held.words.set_loose(self.kv.table.frame(place), order);
            }
            KvEntry::Slab(part) => {
                let freed = self.held.free(addr, part, P::ALONE);
                debug_assert!(freed.is_ok(), "{freed:?}: it was just made");
            }
            KvEntry::None => debug_assert!(false, "it was just made"),
        }
        self.exit();
    }

    /// Frees the object at an address of the direct map, whose frame's place in the table is `place`. The fast path
    /// is a slot's.
    #[inline(always)]
    pub(super) fn free_slot(&mut self, addr: Addr, place: usize) -> Result<u64, KvFreeError> {
        // Copies, as where a slot is taken.
        let (table, words) = (self.held.table, self.held.words);
        let turn = words.turn();
        if turn.try_enter::<P>()
            && let Some(freed) = self.held.free_fast(table, addr, place)
        {
            words.counters.slab_frees.add(1);
            match freed.was_full {
                true => self.end_full(addr),
                false => turn.exit(),
            }
            return Ok(freed.class.bytes());
        }
        let bytes = self.free_any(addr)?;
        Ok(bytes)
    }

    /// Ends the free of a slot whose slab was full, and leaves the seat.
    #[inline(never)]
    fn end_full(&mut self, addr: Addr) {
        let table = self.held.table;
        let place = table.place_at(addr);
        if let Some(part) = place.and_then(|place| table.slab_of(place, self.held.owner)) {
            self.held.move_to(part.record(), SlabState::Partial);
        }
        self.exit();
    }

    /// Frees what the fast path does not. The caller has entered the seat; another CPU may claim it.
    #[inline(never)]
    fn free_any(&mut self, addr: Addr) -> Result<u64, KvFreeError> {
        let table = self.held.table;
        let place = table.place_at(addr);
        let place = place.expect("the caller has looked");
        match table.run_at(place) {
            Some(run) => {
                self.exit();
                if addr.in_page() != 0 {
                    return self.refuse(KvFreeError::NotAllocated(addr));
                }
                self.free_run(table, addr, place, run)
            }
            None => self.free_slow(addr, place),
        }
    }

    /// Frees the run with that entry, which starts at the address. The seat is idle.
    #[inline(always)]
    pub(super) fn free_run(
        &mut self,
        table: KvTable<'_>,
        addr: Addr,
        place: usize,
        run: RunEntry,
    ) -> Result<u64, KvFreeError> {
        if !table.clear_run(place, run, P::ALONE) {
            self.refuse(KvFreeError::AlreadyFree(addr))?;
        }
        let order = run.order();
        match self.ranges.frames().free_cached(table.frame(place), order) {
            true => self.held.words.counters.run_frees.add(1),
            false => self.free_uncached(place, order),
        }
        Ok(bytes_of(order))
    }

    /// Ends the free of a run, whose entry is gone, where the CPU's cache does not take the block.
    #[inline(never)]
    fn free_uncached(&mut self, place: usize, order: Order) {
        let frame = self.held.table.frame(place);
        let entry = KvEntry::Run(order);
        // If the wait for another CPU unwinds, the block has not gone back: the object is live as before.
        let unwound = OrElse::new(self, |seat: &mut Self| seat.held.table.set(place, entry));
        unwound.seat.free_block(frame, order);
        unwound.end();
        self.held.words.counters.run_frees.add(1);
    }

    /// The slow path of a slot's free, which does more than set a bit. The caller has entered the seat;
    /// another CPU may claim it.
    #[inline(never)]
    fn free_slow(&mut self, addr: Addr, place: usize) -> Result<u64, KvFreeError> {
        self.wait_if_claimed();
        // Looks only now, because the slab's owner may have changed until here.
        let freed = match self.kv.table.get(place) {
            KvEntry::Slab(part) => self.held.free(addr, part, P::ALONE),
            KvEntry::Run(_) | KvEntry::None => Err(KvFreeError::NotAllocated(addr)),
        };
        self.exit();
        self.return_surplus();
        match freed {
            Ok(bytes) => Ok(bytes),
            Err(error) => self.refuse(error),
        }
    }

    /// Counts a free that is refused.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse(&self, error: KvFreeError) -> Result<u64, KvFreeError> {
        self.held.words.counters.bad_frees.add(1);
        Err(error)
    }

    /// How many bytes the object at an address of the direct map can have.
    pub(super) fn length(&self, addr: Addr, place: usize) -> Result<u64, KvFreeError> {
        match self.kv.table.get(place) {
            KvEntry::Slab(part) => self.held.length(addr, part),
            KvEntry::Run(order) if addr.in_page() == 0 => Ok(bytes_of(order)),
            KvEntry::Run(_) | KvEntry::None => Err(KvFreeError::NotAllocated(addr)),
        }
    }
}
