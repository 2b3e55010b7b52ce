//! A reserve: a guest's pages lie in it until the owner takes its frames.
//!
//! `cargo run -p framewright-examples --bin reserve`

use framewright::reserve::{Key, PoolConfig, Reserve, ReserveLayout};
use framewright::{CpuId, Frame, Run};
use framewright_linux::platform::Slots;
use framewright_linux::{Linux, Ram, RamPages, Stored};
use std::error::Error;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    // 8 MiB, of which a camera will need 4 MiB in one piece.
    let run = Run::new(Frame(0), 2048).ok_or("a run ends inside the numbers")?;
    let platform = Stored::new(
        Linux::fenced(Slots::new(1)),
        Arc::new(Ram::new(run, RamPages::Base)?),
    );
    let layout = ReserveLayout::new(run);
    let mut metadata = vec![0; layout.words_needed()?];
    let reserve = Reserve::new(&layout, &mut metadata, platform)?;
    let camera = reserve.reserve("camera", 1024, 1024)?;

    // Until then the reserve keeps pages there that the guest can do without.
    let pool = reserve.open_pool(&PoolConfig::SWAP).ok_or("no pool")?;
    let mut guest = reserve.guest(CpuId(0)).ok_or("no seat")?;
    let key = |index| Key {
        pool,
        object: 1,
        index,
    };
    for index in 0..2048 {
        let page = std::array::from_fn(|word| index << 32 | word as u64);
        guest
            .put(key(index), &page)
            .map_err(|why| format!("{why:?}"))?;
    }
    let mut page = [0; 512];
    let found = |guest: &mut framewright::reserve::Guest<'_, '_, _>, page: &mut _| {
        (0..2048)
            .filter(|&index| guest.get(key(index), page))
            .count()
    };
    println!("pages: {}", found(&mut guest, &mut page));

    // This asks no guest, and cannot fail.
    let frames = reserve.take(camera)?;
    println!("the camera has {} frames", frames.frames());
    println!("pages: {}", found(&mut guest, &mut page));
    match reserve.take(camera) {
        Ok(_) => return Err("taken twice".into()),
        Err(error) => println!("refused: {error}"),
    }
    reserve.release(frames)?;
    reserve.verify()?;
    Ok(())
}
