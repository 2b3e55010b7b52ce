//! A reserve: a guest's pages lie in it until the owner takes its frames.
//!
//! `cargo run -p framewright-examples --bin reserve`

use framewright::reserve::{Key, PoolConfig};
use framewright_linux::{HostKv, Options};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    // 16 MiB of memory, and 8 MiB beside it, of which a camera will need 4 MiB in one piece.
    let host = HostKv::fenced(&Options::of_frames(4096).with_reserve(2048))?;
    let reserve = host.reserve().ok_or("no reserve")?;
    let camera = reserve.reserve("camera", 1024, 1024)?;

    // Until then the reserve keeps pages there that the guest can do without.
    let pool = reserve.open_pool(&PoolConfig::SWAP).ok_or("no pool")?;
    let key = |index| Key {
        pool,
        object: 1,
        index,
    };
    let mut cpu = host.cpu()?;
    for index in 0..2048 {
        let page = std::array::from_fn(|word| index << 32 | word as u64);
        cpu.put(key(index), &page)
            .map_err(|why| format!("{why:?}"))?;
    }
    let mut page = [0; 512];
    let mut found = || (0..2048).filter(|&n| cpu.get(key(n), &mut page)).count();
    println!("pages: {}", found());

    // This asks no guest, and cannot fail.
    let frames = reserve.take(camera)?;
    println!("the camera has {} frames", frames.frames());
    println!("pages: {}", found());
    match reserve.take(camera) {
        Ok(_) => return Err("taken twice".into()),
        Err(error) => println!("refused: {error}"),
    }
    reserve.release(frames)?;
    host.engine().verify()?;
    Ok(())
}
