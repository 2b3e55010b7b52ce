//! A seat of another zone, which numbers its frames as the right one does, is refused by everything that holds frames
//! of a RAM (RS1): its frames are in use here, and those from here may be in use there.
#![cfg(not(any(loom, shuttle)))]

use framewright::frame::ZoneLayout;
use framewright::{Frame, Order, PageRange};
use framewright_linux::anon::PageError;
use framewright_linux::file_cache::{FileCache, FileError, FileOptions};
use framewright_linux::paged::{Paged, PagedError};
use framewright_linux::{Anon, Frontswap, Host, Options, Zram};
use std::sync::Arc;

const FRAMES: u64 = 1024;

/// Two hosts with frames of the same numbers.
fn hosts() -> [Host<()>; 2] {
    let host = || {
        Host::fenced(&Options::new(
            ZoneLayout::new(Frame(0), FRAMES).with_cpus(2),
        ))
    };
    [host().unwrap(), host().unwrap()]
}

fn is_whole(host: &Host<()>) {
    host.zone().drain();
    host.zone().verify().unwrap();
    assert_eq!(host.zone().stats().nr_free_pages, FRAMES);
}

#[test]
fn rs1_a_cache_of_files_takes_and_gives_no_frames_of_another_zone() {
    let [host, other] = hosts();
    let (mut seat, mut wrong) = (host.seat().unwrap(), other.seat().unwrap());
    let dir = std::env::temp_dir().join(format!("framewright-supplies-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let cache = FileCache::new(Arc::clone(host.ram_shared()), None, FileOptions::default());
    // Refused before any right one has come.
    let [first, second] = ["first", "second"].map(|name| cache.create(dir.join(name)).unwrap());
    let refused = cache.write(&mut wrong, &first, 0, b"lost");
    assert_eq!(refused, Err(FileError::OtherFrames));
    cache.write(&mut seat, &first, 0, b"of the first").unwrap();
    cache
        .write(&mut seat, &second, 0, b"of the second")
        .unwrap();
    let mut bytes = [0; 12];
    let refused = cache.read(&mut wrong, &second, 0, &mut bytes);
    assert_eq!(refused, Err(FileError::OtherFrames));
    assert_eq!(
        cache.pin(&mut wrong, &first, 0).map(drop),
        Err(FileError::OtherFrames)
    );
    assert_eq!(cache.clear(&mut wrong), 2, "no page went");
    cache.read(&mut seat, &first, 0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"of the first");
    cache.verify().unwrap();
    assert_eq!(cache.clear(&mut seat), 0);
    drop((first, second, seat, wrong));
    std::fs::remove_dir_all(&dir).unwrap();
    is_whole(&host);
    is_whole(&other);
}

#[test]
fn rs1_anonymous_memory_shows_no_frames_of_another_zone() {
    let [host, other] = hosts();
    let (mut seat, mut wrong) = (host.seat().unwrap(), other.seat().unwrap());
    let anon = Anon::new(Arc::clone(host.ram_shared()), 64).unwrap();
    let pages = PageRange::new(anon.range().start(), 64).unwrap();
    // Another user's contents, in a frame that the wrong zone gives next.
    let theirs = seat
        .alloc(Order::ZERO, framewright::Mobility::Movable)
        .unwrap();
    host.ram().write(theirs, &[7; 4096]).unwrap();
    let refused = anon.populate(&mut wrong, pages, Order::ZERO);
    assert_eq!(refused, Err(PageError::OtherFrames));
    let mut bytes = [0; 4096];
    host.ram().read(theirs, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 4096]);
    anon.populate(&mut seat, pages, Order::ZERO).unwrap();
    assert_eq!(anon.discard(&mut wrong, pages), Err(PageError::OtherFrames));
    anon.discard(&mut seat, pages).unwrap();
    seat.free(theirs, Order::ZERO).unwrap();
    drop((seat, wrong));
    is_whole(&host);
    is_whole(&other);
}

#[test]
fn rs1_paged_memory_is_served_with_no_frames_of_another_zone() {
    let [host, other] = hosts();
    let device = Zram::new(64, 1 << 20);
    let ram = Arc::clone(host.ram_shared());
    let paged = Paged::new(ram, Frontswap::new(&device, 64), 16).unwrap();
    let refused = std::thread::scope(|scope| {
        let pager = scope.spawn(|| paged.serve(&mut other.seat().unwrap()));
        // A thread that waits for the pager learns that it does not serve.
        assert_eq!(paged.await_pager(), Err(PagedError::NotServed));
        pager.join().unwrap()
    });
    assert_eq!(refused, Err(PagedError::OtherFrames));
    let refused = paged.discard(0..64, &mut other.seat().unwrap());
    assert_eq!(refused, Err(PagedError::OtherFrames));
    // The next one serves.
    std::thread::scope(|scope| {
        scope.spawn(|| paged.serve(&mut host.seat().unwrap()));
        while paged.await_pager().is_err() {
            std::thread::yield_now();
        }
        paged.stop();
    });
    assert_eq!(paged.await_pager(), Err(PagedError::NotServed));
    paged.discard(0..64, &mut host.seat().unwrap()).unwrap();
    is_whole(&host);
    is_whole(&other);
}
