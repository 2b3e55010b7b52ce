//! Virtual ranges on a host: areas of scattered frames that are memory like any other.
//!
//! `cargo run -p framewright-examples --bin ranges`

use framewright::Page;
use framewright::platform::FramePlatform;
use framewright::vrange::AreaRequest;
use framewright_linux::{HostError, HostSpace, Options};
use std::error::Error;

const READER: u32 = 1;
const WRITER: u32 = 2;

fn main() -> Result<(), Box<dyn Error>> {
    // 64 MiB of frames, and a window of 4 GiB in which they appear.
    let options = Options::of_frames(16384).with_threads(2);
    let options = options.with_window(1 << 20);
    match HostSpace::new(&options) {
        Ok(host) => run(&host),
        Err(HostError::NoMembarrier) => run(&HostSpace::fenced(&options)?),
        Err(error) => Err(error.into()),
    }
}

fn run<B: FramePlatform + Clone>(host: &HostSpace<B>) -> Result<(), Box<dyn Error>> {
    let mut cpu = host.cpu()?;

    // Bytes written through the area are those of the frames behind it.
    let area = cpu.vmalloc(&AreaRequest::new(5).zeroed().tagged(READER))?;
    host.window().write(area, 4090, b"over two pages")?;
    let second = Page(area.0 + 1);
    let frame = host.space().frame_behind(second).ok_or("no frame")?;
    let mut bytes = [0; 4096];
    host.ram().read(frame, &mut bytes)?;
    println!("in the second frame: {}", str::from_utf8(&bytes[..8])?);

    // A freed area is unmapped when its free returns; one mapping of the kernel's is the window itself. Its addresses
    // come back after a flush, which serves many areas.
    cpu.vfree(area)?;
    println!("mappings after the free: {}", host.window().mappings());
    let again = cpu.vmalloc(&AreaRequest::new(5).zeroed().tagged(WRITER))?;
    host.window().read(again, 0, &mut bytes)?;
    let is_zero = bytes.iter().all(|&byte| byte == 0);
    println!("the next one is zeroed: {is_zero}");

    // Every area, in the layout of /proc/vmallocinfo; the addresses differ from run to run.
    let other = cpu
        .ranges()
        .alloc_area(&AreaRequest::new(2).tagged(READER))?;
    host.space().for_each_area(|area| {
        let line = area.listed(|tag, f| {
            f.write_str(match tag {
                READER => "reader",
                WRITER => "writer",
                _ => "?",
            })
        });
        let line = line.to_string();
        println!("0x...-0x...{}", line.get(37..).unwrap_or_default());
    });

    // A wrong free is an error, and changes nothing.
    if let Err(error) = cpu.vfree(other) {
        println!(
            "refused: {}",
            error.to_string().replace(&other.to_string(), "...")
        );
    }
    cpu.ranges().free_area(other)?;
    cpu.vfree(again)?;

    // Everything back: one gap, one mapping of the kernel's.
    cpu.ranges().drain();
    host.space().verify()?;
    println!("mappings in the window: {}", host.window().mappings());
    Ok(())
}
