//! The places of a kernel's CPUs in its engine: each CPU has seats of two kinds.
//!
//! # Invariants
//! - **KS1** A CPU works with seats of one kind once at a time: the cells refuse another call.
//! - **KS2** What is called from inside another call works with other seats: a handler comes where a call lets it in, so it has
//!   a second kind. The platform calls none while it maps: the engine hands it the page tables' frames.
//! - **KS3** Handlers let no interrupt in: a long call of theirs would let in the next one, without end.

use crate::cells::{CpuCells, InterruptFlags, NestedEntry, ThisCpu};
use framewright::engine::{Cpu, Engine};
use framewright::frame::Seat;
use framewright::platform::{FramePlatform, ObjectPlatform};
use framewright::reclaim::Clients;
use framewright::{CpuId, SetupError};

/// A CPU's seats in an engine that lives as long as the kernel.
type CpuPlace<P> = Cpu<'static, 'static, P>;

/// The place of the handlers' kind: an engine need not have it.
const HANDLERS: u16 = 1;

/// The seats of all CPUs: a kernel's static.
#[derive(Debug)]
pub struct CpuPlaces<P: FramePlatform + ObjectPlatform + Clone + 'static, C, const CPUS: usize> {
    this: C,
    /// For requests.
    own: CpuCells<CpuPlace<P>, C, CPUS>,
    /// For handlers, if they allocate.
    handlers: CpuCells<CpuPlace<P>, C, CPUS>,
    interrupts: InterruptFlags<CPUS>,
}

impl<P: ObjectPlatform + Clone + 'static, C: ThisCpu, const CPUS: usize> CpuPlaces<P, C, CPUS> {
    /// No CPU has seats yet.
    #[must_use]
    pub const fn new(this: C) -> Self {
        Self {
            this,
            own: CpuCells::new(this),
            handlers: CpuCells::new(this),
            interrupts: InterruptFlags::new(),
        }
    }

    /// The calling CPU takes its seats in an engine that is laid out for the `cpus` CPUs, or for twice as many if handlers
    /// allocate. It is in the kernel's flush and barrier already.
    ///
    /// # Panics
    /// If the CPU has seats already, or is none of the `cpus`; or if the engine does not have its seats for requests: then it
    /// is laid out for fewer CPUs, or they are taken. A CPU for whose handlers the engine has no seats has none: so it is laid
    /// out for `cpus` CPUs or for twice as many, not for a number in between.
    pub fn come(&self, engine: &'static Engine<'static, P>, cpus: u16) {
        let cpu = self.this.current().0;
        assert!(cpu < cpus, "CPU {cpu} is none of {cpus}");
        self.replace_each(|nth, had| {
            assert!(had.is_none(), "CPU {cpu} comes twice");
            let number = nth.checked_mul(cpus).and_then(|at| at.checked_add(cpu));
            let number = CpuId(number.unwrap_or(u16::MAX));
            match engine.cpu(number) {
                Ok(place) => Some(place),
                // The engine has none for this CPU's handlers.
                Err(SetupError::Unknown(_)) if nth == HANDLERS => None,
                Err(error) => panic!("an engine for the {cpus} CPUs: {error}"),
            }
        });
    }

    /// The calling CPU gives its seats back, and what it keeps with them. Only then may the kernel leave it out of flush
    /// and barrier. If it comes again, its long calls let no interrupt in until they [may](Self::allow_interrupts) again: it
    /// may start anew, and have no handlers at first.
    ///
    /// # Panics
    /// If the CPU has no seats, or is inside one of them.
    pub fn go(&self) {
        self.with(Cpu::drain);
        self.interrupts.forbid(self.this.current());
        self.replace_each(|_, _| None);
    }

    /// Gives the calling CPU's requests clients that they may ask for memory, those of handlers too.
    ///
    /// # Panics
    /// If the CPU is inside one of its seats.
    pub fn set_clients(&self, clients: Clients<'static, Seat<'static, 'static, P>>) {
        self.replace_each(|_, place| place.map(|cpu| cpu.with_clients([clients])));
    }

    fn replace_each(&self, change: impl Fn(u16, Option<CpuPlace<P>>) -> Option<CpuPlace<P>>) {
        for (nth, kind) in (0..).zip([&self.own, &self.handlers]) {
            let replaced = kind.replace(|place| change(nth, place));
            replaced.expect("the CPU is in none of its seats");
        }
    }

    /// Works with the calling CPU's seats, with interrupts off.
    ///
    /// # Errors
    /// [`NestedEntry`] if the CPU is inside, or has no seats: a handler that interrupted a call with interrupts on.
    #[inline(always)]
    pub fn try_with<R>(&self, work: impl FnOnce(&mut CpuPlace<P>) -> R) -> Result<R, NestedEntry> {
        self.own.enter(work)
    }

    /// The same for a caller that knows the CPU is not inside.
    ///
    /// # Panics
    /// If the CPU is, or has no seats.
    #[inline(always)]
    pub fn with<R>(&self, work: impl FnOnce(&mut CpuPlace<P>) -> R) -> R {
        self.own.must_enter(work)
    }

    /// The same for a handler, which may have interrupted any of these.
    ///
    /// # Panics
    /// As [`with`](Self::with), and if the engine has no seats for handlers.
    #[inline]
    pub fn with_handler<R>(&self, work: impl FnOnce(&mut CpuPlace<P>) -> R) -> R {
        let own = || self.handlers.must_enter(work);
        self.interrupts.without(self.this.current(), own)
    }

    /// From now on long calls of the calling CPU may let interrupts in.
    pub fn allow_interrupts(&self) {
        self.interrupts.allow(self.this.current());
    }

    /// Whether a long call of the calling CPU may: `RangePlatform::interrupt_window` asks.
    #[inline(always)]
    pub fn may_let_interrupts_in(&self) -> bool {
        self.interrupts.are_allowed(self.this.current())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::cells::tests::CellCpu;
    use framewright::engine::EngineLayout;
    use framewright::platform::{MapError, RangePlatform, TableSource};
    use framewright::vrange::AreaRequest;
    use framewright::{Addr, Context, Frame, Mobility, Order, Page, PageAccess, PageRange, Run};
    use std::boxed::Box;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::string::String;
    use std::vec;

    const CPUS: u16 = 2;

    /// A platform whose `map` takes a page table each time, and may not enter the CPU's seats.
    #[derive(Clone, Copy)]
    struct TablesBoard(&'static CpuPlaces<Self, CellCpu, 2>);

    impl FramePlatform for TablesBoard {}

    impl RangePlatform for TablesBoard {
        fn map(
            &self,
            _at: Page,
            _frames: Run,
            _access: PageAccess,
            tables: &mut impl TableSource,
        ) -> Result<(), MapError> {
            assert_eq!(self.0.try_with(|_| ()), Err(NestedEntry), "KS2");
            let table = tables.take_table();
            table.map(|_| ()).ok_or(MapError::NoMemory)
        }

        fn unmap(&self, _range: PageRange) -> Result<(), MapError> {
            Ok(())
        }

        fn flush_all(&self) {}

        fn zero(&self, _frames: Run) {}
    }

    impl ObjectPlatform for TablesBoard {
        fn direct_base(&self) -> Addr {
            Addr(1 << 40)
        }

        fn zero_bytes(&self, _at: Addr, _bytes: u64) {}

        fn copy_bytes(&self, _from: Addr, _to: Addr, _bytes: u64) {}
    }

    type TestSeats = CpuPlaces<TablesBoard, CellCpu, 2>;

    /// An engine with seats of `kinds` kinds, and no CPU in it.
    fn machine(kinds: u16) -> (&'static TestSeats, &'static Engine<'static, TablesBoard>) {
        let seats: &'static TestSeats = Box::leak(Box::new(CpuPlaces::new(CellCpu)));
        let layout = EngineLayout::new(Frame(0), 4096)
            .with_cpus(kinds * CPUS)
            .with_window(Page(1 << 20), 8192)
            .with_objects();
        let metadata = vec![0; layout.words_needed().unwrap()].leak();
        let engine = Engine::new(&layout, metadata, TablesBoard(seats)).unwrap();
        engine.add(Run::new(Frame(0), 4096).unwrap()).unwrap();
        (seats, Box::leak(Box::new(engine)))
    }

    #[test]
    fn ks1_ks2_a_call_inside_a_call_works_with_other_seats_or_is_refused() {
        let (seats, engine) = machine(2);
        for cpu in 0..CPUS {
            CellCpu.becomes(cpu);
            assert_eq!(seats.try_with(|_| ()), Err(NestedEntry));
            seats.come(engine, CPUS);
            assert_eq!(seats.with(|own| own.id()), CpuId(cpu));
            assert_eq!(seats.with_handler(|own| own.id()), CpuId(CPUS + cpu));
        }
        let nested = seats.with(|cpu| {
            cpu.vmalloc(&AreaRequest::new(2)).unwrap();
            let area = seats.with_handler(|cpu| cpu.vmalloc(&AreaRequest::new(3)));
            area.unwrap();
            seats.try_with(|_| ())
        });
        assert_eq!(nested, Err(NestedEntry));
        engine.verify().unwrap();
    }

    #[test]
    fn ks3_only_a_cpu_that_may_lets_interrupts_in_and_no_handler_does() {
        let (seats, engine) = machine(2);
        CellCpu.becomes(1);
        seats.come(engine, CPUS);
        assert!(!seats.may_let_interrupts_in());
        seats.allow_interrupts();
        assert!(seats.with(|_| seats.may_let_interrupts_in()));
        assert!(!seats.with_handler(|_| seats.may_let_interrupts_in()));
        assert!(seats.may_let_interrupts_in());
        CellCpu.becomes(0);
        assert!(!seats.may_let_interrupts_in());
    }

    #[test]
    fn a_cpu_that_goes_gives_all_back_and_comes_again() {
        let (seats, engine) = machine(1);
        CellCpu.becomes(1);
        for _ in 0..3 {
            seats.come(engine, CPUS);
            seats.set_clients(Clients::NONE);
            let frame = seats.with(|cpu| cpu.alloc(Order::ZERO, Mobility::Movable, Context::ANY));
            seats
                .with(|cpu| cpu.free(frame.unwrap(), Order::ZERO))
                .unwrap();
            let no_handlers = catch_unwind(AssertUnwindSafe(|| seats.with_handler(|_| ())));
            assert!(no_handlers.is_err());
            seats.go();
            assert_eq!(seats.try_with(|_| ()), Err(NestedEntry));
            assert_eq!(engine.frame_stats().nr_free_pages, 4096);
        }
        engine.verify().unwrap();
    }

    /// What a call that must be refused says.
    fn refused(call: impl FnOnce()) -> String {
        let why = catch_unwind(AssertUnwindSafe(call)).expect_err("it is refused");
        why.downcast_ref::<String>().cloned().unwrap_or_default()
    }

    #[test]
    fn a_cpu_that_would_come_without_its_seats_is_refused_at_once() {
        let (seats, engine) = machine(1);
        CellCpu.becomes(1);
        let said = refused(|| seats.come(engine, 1));
        assert!(said.contains("CPU 1 is none of 1"), "{said}");
        seats.come(engine, CPUS);
        let said = refused(|| seats.come(engine, CPUS));
        assert!(said.contains("twice"), "{said}");
        // Another CPU has its own seats; another one has those for handlers; and there are fewer CPUs.
        let (seats, engine) = machine(1);
        CellCpu.becomes(0);
        let _own = engine.cpu(CpuId(0)).unwrap();
        let said = refused(|| seats.come(engine, CPUS));
        assert!(said.contains("taken"), "{said}");
        let (seats, engine) = machine(2);
        let _handlers = engine.cpu(CpuId(CPUS)).unwrap();
        let said = refused(|| seats.come(engine, CPUS));
        assert!(said.contains("taken"), "{said}");
        let (seats, engine) = machine(1);
        CellCpu.becomes(0);
        for others in 0..CPUS {
            drop(engine.cpu(CpuId(others)).unwrap());
        }
        seats.come(engine, u16::MAX);
        assert_eq!(seats.with(|own| own.id()), CpuId(0));
    }

    #[test]
    fn ks3_a_cpu_that_comes_again_takes_no_interrupt_before_it_may() {
        let (seats, engine) = machine(2);
        CellCpu.becomes(1);
        seats.come(engine, CPUS);
        seats.allow_interrupts();
        seats.go();
        assert!(!seats.may_let_interrupts_in());
        seats.come(engine, CPUS);
        assert!(!seats.may_let_interrupts_in());
        seats.allow_interrupts();
        assert!(seats.may_let_interrupts_in());
    }
}
