//! A small kernel's memory in one value: frames, mapped areas and objects behind one front door.
//!
//! The platform here only takes notes; a kernel's writes page tables.
//!
//! `cargo run -p framewright-examples --bin engine`

use framewright::engine::{Engine, EngineLayout};
use framewright::kv::KvRequest;
use framewright::platform::{FramePlatform, MapError, ObjectPlatform, RangePlatform, TableSource};
use framewright::{Addr, Context, CpuId, Frame, Mobility, Order, Page, PageAccess, PageRange, Run};
use std::error::Error;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The board: page tables that are only counted. Of its two CPUs only one runs here.
#[derive(Clone, Copy)]
struct Board;

static MAPPED: AtomicU64 = AtomicU64::new(0);

// Defaults: a CPU that waits spins, and a barrier is a fence.
impl FramePlatform for Board {}

impl RangePlatform for Board {
    fn map(
        &self,
        _at: Page,
        frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        MAPPED.fetch_add(frames.frames(), Ordering::Relaxed);
        Ok(())
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        MAPPED.fetch_sub(range.pages(), Ordering::Relaxed);
        Ok(())
    }

    fn flush_all(&self) {}

    fn zero(&self, _frames: Run) {}
}

impl ObjectPlatform for Board {
    fn direct_base(&self) -> Addr {
        Addr(0xffff_8000_0000_0000)
    }

    fn zero_bytes(&self, _at: Addr, _bytes: u64) {}

    fn copy_bytes(&self, _from: Addr, _to: Addr, _bytes: u64) {}
}

/// The whole of it: a kernel's memory is one static.
static MEMORY: OnceLock<Engine<'static, Board>> = OnceLock::new();

fn boot() -> Result<&'static Engine<'static, Board>, Box<dyn Error>> {
    // 64 MiB of RAM with a hole, and a window of 1 GiB for areas.
    let layout = EngineLayout::new(Frame(0x1000), 16384)
        .with_cpus(2)
        .with_window(Page(0xf_fe00_0000_0000 >> 12), 1 << 18)
        .with_objects();
    let words = layout.words_needed()?;
    println!("metadata: {} KiB", words * 8 / 1024);
    // A kernel takes them from its early memory.
    let metadata = vec![0; words].leak();
    let engine = Engine::new(&layout, metadata, Board)?;
    for (start, frames) in [(0x1000, 8192), (0x1000 + 12288, 4096)] {
        engine.add(Run::new(Frame(start), frames).ok_or("a run ends inside the numbers")?)?;
    }
    Ok(MEMORY.get_or_init(|| engine))
}

fn main() -> Result<(), Box<dyn Error>> {
    let memory = boot()?;
    let mut cpu = memory.cpu(CpuId(0))?;

    let table = cpu.alloc(Order::ZERO, Mobility::Unmovable, Context::ANY)?;
    let dma = cpu.alloc_run(300, 16, Mobility::Unmovable, Context::ANY)?;
    println!(
        "300 frames side by side, aligned: {}",
        dma.start().0 % 16 == 0
    );
    let inode = cpu.kmalloc(&KvRequest::new(600))?;
    // No block is so large: its pages are mapped.
    let journal = cpu.kvmalloc(&KvRequest::new(8 << 20))?;
    println!("mapped pages: {}", MAPPED.load(Ordering::Relaxed));

    cpu.kvfree(journal)?;
    println!("kmalloc's size: {} bytes", cpu.kvfree(inode)?);
    cpu.free_run(dma)?;
    cpu.free(table, Order::ZERO)?;
    if let Err(error) = cpu.free(table, Order::ZERO) {
        println!("refused: {}", error.to_string().contains("free"));
    }
    cpu.objects().drain();
    cpu.ranges().drain();
    memory.verify()?;
    println!("free again: {} frames", memory.frame_stats().nr_free_pages);
    Ok(())
}
