//! Requests to several zones while another CPU moves from zone to zone.

use framewright::engine::{Engine, EngineLayout};
use framewright::frame::{AllocError, FrameSource, Seats, Zone, ZoneLayout};
use framewright::platform::FramePlatform;
use framewright::policy::Config;
use framewright::{Context, CpuId, Frame, Mobility::Movable, Order, Run};
use std::cell::RefCell;
use std::rc::Rc;

/// What another CPU does when a stop ends.
type AtTheEnd = Rc<RefCell<Option<Box<dyn FnOnce()>>>>;

#[derive(Clone, Default)]
struct StopHook(AtTheEnd);

impl FramePlatform for StopHook {
    const ASYMMETRIC: bool = true;

    fn relax(&self, _attempt: u32) {
        panic!("no CPU is in a seat");
    }

    fn wake(&self) {
        let work = self.0.borrow_mut().take();
        if let Some(work) = work {
            work();
        }
    }

    fn barrier_all(&self) {}
}

const FRAMES: u64 = 512;

fn full_of_free(start: u64, hook: &StopHook) -> Zone<'static, StopHook> {
    let layout = ZoneLayout::new(Frame(start), FRAMES).with_cpus(2);
    let config = Config {
        cache_permille: 100,
        ..Config::default()
    };
    let memory = vec![0; layout.words_needed().unwrap()].leak();
    let zone = Zone::new(&layout, &config, memory, hook.clone()).unwrap();
    zone.add(Run::new(layout.start, FRAMES).unwrap()).unwrap();
    zone
}

/// F8 over zones: another CPU frees a frame in one and then takes one in the other, so one is free at
/// each moment, and never where the request looks.
#[test]
fn f8_a_request_to_several_zones_fails_only_if_none_had_a_block_at_one_moment() {
    type Request = fn(&mut Seats<'static, 'static, StopHook, 2>) -> Option<Frame>;
    let requests: [Request; 3] = [
        |cpu| cpu.alloc(0, Order::ZERO, Movable).ok(),
        |cpu| cpu.alloc_hard(0, Order::ZERO, Movable).ok(),
        |cpu| {
            let run = FrameSource::alloc_run(cpu, 4, Context::ANY);
            run.ok().map(Run::start)
        },
    ];
    let cases = requests.map(|request| [(request, true), (request, false)]);
    for (request, is_there) in cases.into_iter().flatten() {
        let hook = StopHook::default();
        let zones = Box::leak(Box::new([0, 1024].map(|start| full_of_free(start, &hook))));
        let mut other = Seats::<_, 2>::take(zones, CpuId(1)).unwrap();
        let [near, far] = [0, 1].map(|nth| other.seat(nth).alloc(Order::ZERO, Movable).unwrap());
        let mut cpu = Seats::<_, 2>::take(zones, CpuId(0)).unwrap();
        while cpu.alloc(0, Order::ZERO, Movable).is_ok() {}
        // In the first zone something happened, so a request stops its CPUs. In the second one a frame is free,
        // which only the other CPU's cache has.
        other.free(near, Order::ZERO).unwrap();
        assert_eq!(other.seat(0).try_alloc(Order::ZERO, Movable), Some(near));
        other.free(far, Order::ZERO).unwrap();
        if is_there {
            let work = move || {
                other.free(near, Order::ZERO).unwrap();
                let next = other.seat(1).try_alloc(Order::ZERO, Movable);
                assert_eq!(next, Some(far));
            };
            *hook.0.borrow_mut() = Some(Box::new(work));
        } else {
            assert_eq!(other.seat(1).try_alloc(Order::ZERO, Movable), Some(far));
        }
        let expected = is_there.then_some(near);
        assert_eq!(request(&mut cpu), expected);
        assert!(
            hook.0.borrow().is_none(),
            "the first zone's CPUs were stopped"
        );
        zones.iter().for_each(|zone| zone.verify().unwrap());
    }
}

/// The same for a run of frames, through the engine's front door: another CPU frees its run in the first zone
/// and then takes the one in the second, after the request has looked at the first.
#[test]
fn f8_a_run_in_several_zones_fails_only_if_none_had_one_at_one_moment() {
    const RUN: u64 = 300;
    for is_there in [true, false] {
        let hook = StopHook::default();
        let zones = [0, 1024].map(|start| ZoneLayout::new(Frame(start), FRAMES));
        let layout = EngineLayout::of_zones(zones).with_cpus(2);
        let memory = vec![0; layout.words_needed().unwrap()].leak();
        let engine: Engine<StopHook, (), 2> = Engine::new(&layout, memory, hook.clone()).unwrap();
        let engine = Box::leak(Box::new(engine));
        for zone in &zones {
            engine.add(Run::new(zone.start, FRAMES).unwrap()).unwrap();
        }
        let zones = engine.zones();
        let mut other = engine.cpu(CpuId(1)).unwrap();
        let run_in = |nth: usize| zones[nth].alloc_contiguous(RUN, 1, Movable);
        let near = run_in(0).unwrap();
        // Behind this a run is left, and no block as long.
        zones[1].alloc_contiguous(200, 1, Movable).unwrap();
        let mut cpu = engine.cpu(CpuId(0)).unwrap();
        if is_there {
            // The first zone has too few free frames, so no CPU is stopped for it: the first stop is the second zone's.
            let work = move || {
                other.free_run(near).unwrap();
                run_in(1).unwrap();
            };
            *hook.0.borrow_mut() = Some(Box::new(work));
        } else {
            run_in(1).unwrap();
        }
        let found = cpu.alloc_run(RUN, 1, Movable, Context::ANY);
        let expected = if is_there {
            Ok(near)
        } else {
            Err(AllocError::Exhausted)
        };
        assert_eq!(found, expected);
        assert!(hook.0.borrow().is_none(), "the zones' CPUs were stopped");
        engine.verify().unwrap();
    }
}
