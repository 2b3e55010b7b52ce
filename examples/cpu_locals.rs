//! Seats that stay: each CPU of a kernel takes its seats once, and keeps them in a CPU-local, where all code of the kernel
//! finds them without a lock and without a number.
//!
//! A CPU is a thread here, and a CPU-local a `thread_local!`. A kernel has its own macro for these, or takes
//! `framewright_paging::seats`, which has seats for page tables and for handlers, too. A kernel turns interrupts off
//! around each use. If a call comes from inside another one even so, it finds the seats in use.
//!
//! `cargo run -p framewright-examples --bin cpu_locals`

use framewright::engine::{Cpu, Engine, EngineLayout};
use framewright::platform::FramePlatform;
use framewright::{Context, CpuId, Frame, Mobility, Order, Run, SetupError};
use std::cell::RefCell;
use std::error::Error;
use std::sync::OnceLock;
use std::thread;

/// The machine: a CPU that waits spins, and a barrier is a fence.
#[derive(Clone, Copy)]
struct TwoCpus;

impl FramePlatform for TwoCpus {}

type WholeMemory = Engine<'static, TwoCpus, ()>;
type KeptSeats = Cpu<'static, 'static, TwoCpus, ()>;

static MEMORY: OnceLock<WholeMemory> = OnceLock::new();

thread_local! {
    static SEATS: RefCell<Option<KeptSeats>> = const { RefCell::new(None) };
}

/// Makes the memory, before any CPU comes.
fn boot() -> Result<&'static WholeMemory, Box<dyn Error>> {
    let layout = EngineLayout::new(Frame(0x1000), 16384).with_cpus(2);
    let metadata = vec![0; layout.words_needed()?].leak();
    let engine = Engine::new(&layout, metadata, TwoCpus)?;
    engine.add(Run::new(Frame(0x1000), 16384).ok_or("a run ends inside the numbers")?)?;
    Ok(MEMORY.get_or_init(|| engine))
}

/// The calling CPU takes its seats, and keeps them.
fn come(memory: &'static WholeMemory, id: CpuId) -> Result<(), SetupError> {
    SEATS.set(Some(memory.cpu(id)?));
    Ok(())
}

/// It gives them back, and what it keeps with them.
fn go() {
    with(Cpu::drain);
    SEATS.set(None);
}

/// Works with the calling CPU's seats; `None` if it has none, or is inside.
fn with<R>(work: impl FnOnce(&mut KeptSeats) -> R) -> Option<R> {
    SEATS.with(|seats| seats.try_borrow_mut().ok()?.as_mut().map(work))
}

/// What the rest of the kernel calls.
fn alloc_frame() -> Option<Frame> {
    with(|cpu| {
        cpu.alloc(Order::ZERO, Mobility::Unmovable, Context::ANY)
            .ok()
    })?
}

/// The same for a frame that any CPU allocated.
fn free_frame(frame: Frame) -> bool {
    with(|cpu| cpu.free(frame, Order::ZERO).is_ok()) == Some(true)
}

fn main() -> Result<(), Box<dyn Error>> {
    let memory = boot()?;
    println!("without seats: {:?}", alloc_frame());
    come(memory, CpuId(0))?;
    let frames: Vec<Frame> = (0..1000).filter_map(|_| alloc_frame()).collect();
    println!("CPU 0 has {} frames", frames.len());
    println!("a call inside a call: {:?}", with(|_| alloc_frame()));

    let second = thread::spawn(move || {
        if let Err(error) = come(memory, CpuId(0)) {
            println!("refused: {error}");
        }
        come(memory, CpuId(1))?;
        let freed = frames.into_iter().filter(|&frame| free_frame(frame));
        println!("CPU 1 freed {} of them", freed.count());
        go();
        Ok::<(), SetupError>(())
    });
    second.join().map_err(|_| "CPU 1 panicked")??;

    go();
    memory.verify()?;
    println!("free again: {} frames", memory.frame_stats().nr_free_pages);
    Ok(())
}
