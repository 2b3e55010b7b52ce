//! Calls with a bound on their waiting, while another CPU stops all.

mod common;

use common::maps_nothing;
use framewright::engine::{Cpu, Engine, EngineLayout};
use framewright::kv::{KvLayout, KvRequest};
use framewright::platform::FramePlatform;
use framewright::vrange::AreaRequest;
use framewright::{Context, CpuId, Frame, Mobility, Order, Page, Run};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What another CPU does while all CPUs are stopped.
type StoppedWork = Option<Box<dyn FnOnce()>>;

/// A board that counts its waits.
#[derive(Clone, Default)]
struct CountedWaits {
    work: Rc<RefCell<StoppedWork>>,
    waits: Rc<Cell<u32>>,
}

impl FramePlatform for CountedWaits {
    const ASYMMETRIC: bool = true;

    fn relax(&self, _attempt: u32) {
        self.waits.set(self.waits.get() + 1);
        assert!(self.waits.get() < 1000, "it waits for ever");
    }

    fn barrier_all(&self) {
        let work = self.work.borrow_mut().take();
        if let Some(work) = work {
            work();
        }
    }
}

maps_nothing!(CountedWaits);

const FRAMES: u64 = 4096;

type BoardEngine = Engine<'static, CountedWaits, KvLayout>;
type BoardCpu = Cpu<'static, 'static, CountedWaits, KvLayout>;
/// A call with this many rounds at most; whether it did its work.
type Bounded = fn(&mut BoardCpu, Frame, u32) -> bool;
/// Stops all CPUs of one part.
type StopOne = fn(&'static BoardEngine, &mut BoardCpu);

fn engine(board: &CountedWaits) -> &'static BoardEngine {
    let layout = EngineLayout::new(Frame(0), FRAMES)
        .with_cpus(2)
        .with_window(Page(1 << 20), 8192)
        .with_objects();
    let memory = vec![0; layout.words_needed().unwrap()].leak();
    let engine = Engine::new(&layout, memory, board.clone()).unwrap();
    let engine: &'static BoardEngine = Box::leak(Box::new(engine));
    engine.add(Run::new(Frame(0), FRAMES).unwrap()).unwrap();
    engine
}

#[test]
fn a_call_with_a_bound_waits_no_longer_and_has_changed_nothing_then() {
    let cases: [(StopOne, Bounded); 3] = [
        (
            |engine, _| engine.zones()[0].drain(),
            |cpu, frame, rounds| {
                let freed = cpu.frames().seat(0).free_within(frame, Order::ZERO, rounds);
                freed.unwrap()
            },
        ),
        (
            |_, other| other.ranges().drain(),
            |cpu, _, rounds| cpu.ranges().drain_within(rounds),
        ),
        (
            |_, other| _ = other.objects().drain(),
            |cpu, _, rounds| cpu.objects().drain_within(rounds).is_some(),
        ),
    ];
    for (nth, (stop, bounded)) in cases.into_iter().enumerate() {
        for rounds in [0, 1, 9] {
            let board = CountedWaits::default();
            let engine = engine(&board);
            let [mut cpu, mut other] = [0, 1].map(|nth| engine.cpu(CpuId(nth)).unwrap());
            let frame = cpu
                .alloc(Order::ZERO, Mobility::Movable, Context::ANY)
                .unwrap();
            let area = cpu.vmalloc(&AreaRequest::new(3)).unwrap();
            cpu.vfree(area).unwrap();
            let object = cpu.kmalloc(&KvRequest::new(64)).unwrap();
            cpu.kvfree(object).unwrap();
            let after = Rc::new(RefCell::new(None));
            let (result, waits) = (after.clone(), board.waits.clone());
            *board.work.borrow_mut() = Some(Box::new(move || {
                let before = waits.get();
                let is_done = bounded(&mut cpu, frame, rounds);
                *result.borrow_mut() = Some((cpu, is_done, waits.get() - before));
            }));
            stop(engine, &mut other);
            let (mut cpu, is_done, waited) = after.take().expect("a stop has a barrier");
            assert_eq!((is_done, waited), (false, rounds), "{nth}");
            engine.verify().unwrap();
            // With no other CPU in the way it needs no round.
            assert!(bounded(&mut cpu, frame, 0), "{nth}");
            if nth == 0 {
                assert!(cpu.free(frame, Order::ZERO).is_err(), "it is free");
            } else {
                cpu.free(frame, Order::ZERO).unwrap();
            }
            cpu.ranges().drain();
            cpu.objects().drain();
            drop((cpu, other));
            engine.verify().unwrap();
            assert_eq!(engine.frame_stats().nr_free_pages, FRAMES, "{nth}");
        }
    }
}
