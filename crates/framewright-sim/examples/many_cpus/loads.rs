//! What each CPU does, again and again.

use crate::machine::{CpuWork, ended, wait_in_load};
use crate::platform::ManyCpusPlatform;
use framewright::engine::{Cpu, Engine, EngineLayout};
use framewright::kv::{KvLayout, KvRequest};
use framewright::policy::RangeConfig;
use framewright::vrange::AreaRequest;
use framewright::{Addr, Context, CpuId, Frame, Mobility, Order, Page};
use framewright_sim::Random;
use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};

/// Frames for each CPU: 128 MiB. And pages of address space: 1 GiB.
pub(crate) const FRAMES: u64 = 32_768;
const PAGES: u64 = 1 << 18;

/// Frames that a bulk load holds at its highest.
const BULK: usize = 512;

/// Objects that another CPU has not freed yet, at most.
const POSTED: usize = 64;

type LoadCpu<'e, 'm> = Cpu<'e, 'm, ManyCpusPlatform, KvLayout>;
type LoadEngine<'m> = Engine<'m, ManyCpusPlatform>;

/// A step of a load; the result is how many operations it ended.
type Step<'e> = Box<dyn FnMut() -> u64 + 'e>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LoadKind {
    /// A block of that order comes and goes.
    Pair(u8),
    /// All blocks come, then all go as they came.
    Bulk(u8),
    /// A block is freed by the next CPU.
    Handed(u8),
    /// An object of so many bytes; so many are live, and go in an order that is drawn.
    Object(u64, usize),
    /// An object is freed by the next CPU.
    ObjectHanded(u64),
    /// An area of one page.
    Area,
    /// An area of 1 to 100 pages.
    AreaOfAny,
    /// Four of the caller's frames are mapped.
    MapRam,
    /// 250 areas of one page, then all that the CPU keeps goes back.
    Drain,
    /// Half of all frames are free, no two side by side: 64 come and go, then a block of order 3 is refused.
    Refused,
}

/// A load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CpuLoad {
    pub(crate) name: &'static str,
    kind: LoadKind,
    is_strict: bool,
    /// All CPUs make their first requests at once.
    pub(crate) is_cold: bool,
    /// Operations of a cycle, after which all is as before.
    pub(crate) cycle: u64,
    /// Operations that count, on each CPU, at one CPU's pace.
    pub(crate) counted: u64,
}

const fn load(name: &'static str, kind: LoadKind) -> CpuLoad {
    CpuLoad {
        name,
        kind,
        is_strict: false,
        is_cold: false,
        cycle: 256,
        counted: 512,
    }
}

/// All of them, in the order of the report.
pub(crate) const LOADS: [CpuLoad; 19] = [
    load("pair, order 0, warm", LoadKind::Pair(0)),
    load("pair, order 3, warm", LoadKind::Pair(3)),
    load("pair, order 4, warm", LoadKind::Pair(4)),
    load("pair, order 9", LoadKind::Pair(9)),
    load("kmalloc 64, pair", LoadKind::Object(64, 1)),
    load("kmalloc 4096, pair", LoadKind::Object(4096, 1)),
    load("vmalloc 1 page, kept", LoadKind::Area),
    load("vm_map_ram 4 pages", LoadKind::MapRam),
    bulk("bulk, order 0", 0),
    bulk("bulk, order 3", 3),
    CpuLoad {
        cycle: 1000,
        counted: 1000,
        ..load("kmalloc 64, 1000 live", LoadKind::Object(64, 1000))
    },
    CpuLoad {
        cycle: 1000,
        counted: 1000,
        ..load("kmalloc 4096, 1000 live", LoadKind::Object(4096, 1000))
    },
    load("handed over, order 0", LoadKind::Handed(0)),
    load("kmalloc 64, handed over", LoadKind::ObjectHanded(64)),
    CpuLoad {
        cycle: 24,
        counted: 32,
        ..load("vmalloc 1 to 100 pages, kept", LoadKind::AreaOfAny)
    },
    CpuLoad {
        is_strict: true,
        cycle: 64,
        ..load("vmalloc 1 page, strict", LoadKind::Area)
    },
    CpuLoad {
        cycle: 250,
        counted: 250,
        ..load("vmalloc 1 page, drained each 250", LoadKind::Drain)
    },
    CpuLoad {
        is_cold: true,
        ..load("pair, order 0, from cold", LoadKind::Pair(0))
    },
    CpuLoad {
        cycle: 1,
        counted: 4,
        ..load("refused, order 3", LoadKind::Refused)
    },
];

const fn bulk(name: &'static str, order: u8) -> CpuLoad {
    let cycle = (BULK >> order) as u64;
    CpuLoad {
        cycle,
        counted: if cycle < 512 { 512 } else { cycle },
        ..load(name, LoadKind::Bulk(order))
    }
}

/// How the machine of a load is laid out.
pub(crate) fn layout(load: CpuLoad, cpus: u16) -> EngineLayout<KvLayout> {
    let ranges = RangeConfig::for_cpus(cpus);
    let ranges = if load.is_strict {
        ranges
    } else {
        ranges.kept()
    };
    EngineLayout::new(Frame(0), u64::from(cpus) * FRAMES)
        .with_cpus(cpus)
        .with_window(Page(1 << 30), u64::from(cpus) * PAGES)
        .with_range_config(ranges)
        .with_objects()
}

/// What a CPU has handed over to the next one, which frees it.
type Posted = Arc<[Mutex<VecDeque<u64>>]>;

/// What each CPU does: step after step, until the window ends.
pub(crate) fn works<'e>(load: CpuLoad, engine: &'e LoadEngine<'e>, cpus: u16) -> Vec<CpuWork<'e>> {
    if load.kind == LoadKind::Refused {
        take_every_second(engine);
    }
    let posted: Posted = (0..cpus).map(|_| Mutex::default()).collect();
    let work = |nth: u16| {
        let posted = Arc::clone(&posted);
        let work = move || {
            let cpu = engine.cpu(CpuId(nth));
            let mut step = step_of(
                load.kind,
                cpu.expect("a CPU of the layout"),
                nth.into(),
                &posted,
            );
            while ended(step()) {}
        };
        Box::new(work) as CpuWork<'e>
    };
    (0..cpus).map(work).collect()
}

/// Takes all frames, and frees those with even numbers.
fn take_every_second(engine: &LoadEngine<'_>) {
    let mut cpu = engine.cpu(CpuId(0)).expect("a CPU of the layout");
    let mut taken = Vec::new();
    while let Ok(frame) = alloc(&mut cpu, Order::ZERO) {
        taken.push(frame);
    }
    for frame in taken.into_iter().filter(|frame| frame.0 % 2 == 0) {
        free(&mut cpu, frame, Order::ZERO);
    }
    drop(cpu);
    engine.zones()[0].drain();
}

fn alloc(cpu: &mut LoadCpu<'_, '_>, order: Order) -> Result<Frame, framewright::frame::AllocError> {
    cpu.alloc(order, Mobility::Unmovable, Context::ANY)
}

fn block(cpu: &mut LoadCpu<'_, '_>, order: Order) -> Frame {
    alloc(cpu, order).expect("there is memory")
}

fn free(cpu: &mut LoadCpu<'_, '_>, frame: Frame, order: Order) {
    cpu.free(frame, order).expect("it was allocated");
}

fn area(cpu: &mut LoadCpu<'_, '_>, pages: u64) {
    let page = cpu
        .vmalloc(&AreaRequest::new(pages))
        .expect("there is room");
    cpu.vfree(page).expect("it was allocated");
}

fn order_of(order: u8) -> Order {
    Order::new(order).expect("an order of a load")
}

fn step_of<'e>(kind: LoadKind, mut cpu: LoadCpu<'e, 'e>, nth: usize, posted: &Posted) -> Step<'e> {
    match kind {
        LoadKind::Pair(order) => {
            let order = order_of(order);
            Box::new(move || {
                let frame = block(&mut cpu, order);
                free(&mut cpu, frame, order);
                1
            })
        }
        LoadKind::Bulk(order) => {
            let (order, count) = (order_of(order), BULK >> order);
            let mut blocks = VecDeque::with_capacity(count);
            let mut is_filling = true;
            Box::new(move || {
                if is_filling {
                    blocks.push_back(block(&mut cpu, order));
                    is_filling = blocks.len() < count;
                    return 0;
                }
                free(&mut cpu, blocks.pop_front().expect("one of them"), order);
                is_filling = blocks.is_empty();
                1
            })
        }
        LoadKind::Handed(order) => {
            let order = order_of(order);
            let give = move |cpu: &mut LoadCpu<'e, 'e>, at| free(cpu, Frame(at), order);
            let take = move |cpu: &mut LoadCpu<'e, 'e>| block(cpu, order).0;
            handed(cpu, nth, posted, take, give)
        }
        LoadKind::ObjectHanded(bytes) => {
            let take = move |cpu: &mut LoadCpu<'e, 'e>| object(cpu, bytes).0;
            let give = move |cpu: &mut LoadCpu<'e, 'e>, at| kvfree(cpu, Addr(at));
            handed(cpu, nth, posted, take, give)
        }
        LoadKind::Object(bytes, live) => {
            let mut order: Vec<usize> = (0..live).collect();
            Random::new(nth as u64).shuffle(&mut order);
            let mut objects = Vec::with_capacity(live);
            let mut freed = 0;
            Box::new(move || {
                if objects.len() < live {
                    objects.push(object(&mut cpu, bytes));
                    if objects.len() < live || live > 1 {
                        return 0;
                    }
                }
                kvfree(&mut cpu, objects[order[freed]]);
                freed = (freed + 1) % live;
                if freed == 0 {
                    objects.clear();
                }
                1
            })
        }
        LoadKind::Area => Box::new(move || {
            area(&mut cpu, 1);
            1
        }),
        LoadKind::AreaOfAny => {
            let mut random = Random::new(nth as u64);
            Box::new(move || {
                area(&mut cpu, 1 + random.below(100));
                1
            })
        }
        LoadKind::MapRam => {
            let mut frames: Vec<Frame> = (0..4).map(|_| block(&mut cpu, Order::ZERO)).collect();
            frames.sort_unstable();
            Box::new(move || {
                let page = cpu.map_ram(&frames, Context::ANY).expect("there is room");
                cpu.unmap_ram(page, 4).expect("it was mapped");
                1
            })
        }
        LoadKind::Drain => {
            let mut areas = 0;
            Box::new(move || {
                area(&mut cpu, 1);
                areas += 1;
                if areas == 250 {
                    areas = 0;
                    cpu.ranges().drain();
                }
                1
            })
        }
        LoadKind::Refused => {
            let mut frames = Vec::with_capacity(64);
            Box::new(move || {
                frames.extend((0..64).map(|_| block(&mut cpu, Order::ZERO)));
                for frame in mem::take(&mut frames) {
                    free(&mut cpu, frame, Order::ZERO);
                }
                let refused = alloc(&mut cpu, order_of(3));
                assert!(refused.is_err(), "no two frames are free side by side");
                1
            })
        }
    }
}

fn object(cpu: &mut LoadCpu<'_, '_>, bytes: u64) -> Addr {
    cpu.kmalloc(&KvRequest::new(bytes))
        .expect("there is memory")
}

fn kvfree(cpu: &mut LoadCpu<'_, '_>, addr: Addr) {
    cpu.kvfree(addr).expect("it was allocated");
}

/// One thread runs all CPUs, and none has this while another one runs.
fn of(posted: &Mutex<VecDeque<u64>>) -> MutexGuard<'_, VecDeque<u64>> {
    posted.try_lock().expect("no CPU has it")
}

/// Each CPU takes one and hands it to the next, and frees what it was handed. One alone hands it to itself.
fn handed<'e>(
    mut cpu: LoadCpu<'e, 'e>,
    nth: usize,
    posted: &Posted,
    take: impl Fn(&mut LoadCpu<'e, 'e>) -> u64 + 'e,
    give: impl Fn(&mut LoadCpu<'e, 'e>, u64) + 'e,
) -> Step<'e> {
    let posted = Arc::clone(posted);
    let mut looks = 0;
    Box::new(move || {
        let next = &posted[(nth + 1) % posted.len()];
        // The next one is behind: it has enough.
        if of(next).len() < POSTED {
            let at = take(&mut cpu);
            of(next).push_back(at);
        }
        let mine = of(&posted[nth]).pop_front();
        match mine {
            Some(at) => {
                give(&mut cpu, at);
                looks = 0;
                1
            }
            None => {
                // The one before it is behind.
                wait_in_load(looks);
                looks += 1;
                0
            }
        }
    })
}
