//! The process is killed at any moment: what a sync confirmed is there.

use crate::machine::{MachineFolder, host, load, served, store, with_reserve};
use framewright_linux::paged::Paged;
use framewright_linux::swap::{Faulty, SwapOp, SwapPolicy};
use framewright_linux::{Frontswap, SwapFile};
use framewright_sim::Random;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

const PAGES: u64 = 96;
const BUDGET: u64 = 24;
/// Few more than a checkpoint names: what it does not name is soon written again.
const SLOTS: u64 = 170;
/// How often a child is killed.
const KILLS: u64 = 16;
/// Name the file in a child's environment, and what it is to do.
const FILE: &str = "FRAMEWRIGHT_CRASH_FILE";
const TOUCH: &str = "FRAMEWRIGHT_TOUCH_FILE";
/// Which life of the device it is; and whether the child begins it.
const LIFE: &str = "FRAMEWRIGHT_CRASH_LIFE";
const ANEW: &str = "FRAMEWRIGHT_CRASH_ANEW";

/// The pages that round `number` of a device's life writes, and what: it is the same in each process.
fn writes_of(life: u64, number: u64) -> Vec<(u64, u64)> {
    let mut random = Random::new(life << 32 | number);
    let count = 1 + random.below(30);
    (0..count)
        .map(|_| (random.below(PAGES), number << 20 | random.below(1 << 20)))
        .collect()
}

/// What the pages hold after this many rounds.
fn contents_after(life: u64, number: u64) -> Vec<u64> {
    let mut pages = vec![0; PAGES as usize];
    for (page, value) in (1..=number).flat_map(|number| writes_of(life, number)) {
        pages[page as usize] = value;
    }
    pages
}

fn contents(paged: &Paged<'_>) -> Vec<u64> {
    let word = |page, at: u64| {
        let mut bytes = [0; 8];
        paged.read(page * 4096 + at, &mut bytes).unwrap();
        u64::from_ne_bytes(bytes)
    };
    let page = |page| {
        let value = word(page, 0);
        assert_eq!(word(page, 4088), value, "page {page} is torn");
        value
    };
    (0..PAGES).map(page).collect()
}

/// Rounds of writes, each with a sync that is told, until it is killed.
fn write_for_ever(path: &Path) {
    let device = SwapFile::open(path).unwrap();
    let life = std::env::var(LIFE).unwrap().parse().unwrap();
    let (swap, number) = match std::env::var_os(ANEW) {
        // Whatever the device had.
        Some(_) => (Frontswap::durable(&device, PAGES).unwrap(), 0),
        None => Frontswap::restore(&device).unwrap(),
    };
    let host = host();
    with_reserve(512, |_, guests, pool| {
        let policy = SwapPolicy::WriteBack { dirty_max: 20 };
        let swap = swap.with_store(guests, pool, 0, policy);
        let paged = Paged::new(Arc::clone(host.ram_shared()), swap, BUDGET).unwrap();
        served(&host, &paged, || {
            for number in number + 1.. {
                for (page, value) in writes_of(life, number) {
                    let bytes = value.to_ne_bytes();
                    paged.write(page * 4096, &bytes).unwrap();
                    paged.write(page * 4096 + 4088, &bytes).unwrap();
                }
                assert_eq!(paged.sync(), Ok(number));
                println!("synced {number}");
                std::io::stdout().flush().unwrap();
            }
        });
    });
}

/// Touches a page that the device does not give back, until the process ends of it.
fn touch_what_cannot_be_read(path: &Path) {
    let device = Faulty::new(SwapFile::open(path).unwrap());
    let swap = Frontswap::new(&device, PAGES);
    let host = host();
    let paged = Paged::new(Arc::clone(host.ram_shared()), swap, BUDGET).unwrap();
    served(&host, &paged, || {
        (0..PAGES).for_each(|page| store(&paged, page, 0, page));
        let gone = (0..PAGES).find(|page| paged.frame_of(*page).is_none());
        device.fail(SwapOp::Read, 0, u64::MAX);
        println!("before");
        println!("read {}", load(&paged, gone.unwrap(), 0));
    });
}

#[test]
fn a_thread_that_touches_what_cannot_be_read_ends_by_sigsegv() {
    let folder = MachineFolder::new("touch");
    let path = folder.path().join("swap");
    drop(SwapFile::create(&path, SLOTS).unwrap());
    let output = child(TOUCH, &path).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("before") && !text.contains("read "), "{text}");
    // Of a sanitizer's handler, which is called then, the end has another status.
    let is_segv = output.status.signal() == Some(libc::SIGSEGV);
    let is_sanitizers = String::from_utf8_lossy(&output.stderr).contains("Sanitizer");
    assert!(is_segv || is_sanitizers, "{output:?}");
}

/// This program again, as what a variable of the environment makes it.
fn child(name: &str, path: &Path) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "crash::the_child_that_is_killed", "--nocapture"])
        .env(name, path);
    child
}

/// Not a test of its own: what the others start, by its name.
#[test]
fn the_child_that_is_killed() {
    if let Some(path) = std::env::var_os(FILE) {
        write_for_ever(Path::new(&path));
    }
    if let Some(path) = std::env::var_os(TOUCH) {
        touch_what_cannot_be_read(Path::new(&path));
    }
}

#[test]
fn what_a_sync_confirmed_outlives_the_process_that_is_killed() {
    let folder = MachineFolder::new("crash");
    let path = folder.path().join("swap");
    drop(SwapFile::create(&path, SLOTS).unwrap());
    let mut random = Random::new(1);
    let (mut life, mut all) = (0, 0);
    for kill in 0..KILLS {
        let mut child = child(FILE, &path);
        if kill % 5 == 0 {
            life += 1;
            child.env(ANEW, "");
        }
        let child = child.env(LIFE, life.to_string());
        let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let synced = lines.map_while(Result::ok).filter_map(|line| {
            let (_, number) = line.split_once("synced ")?;
            number.parse::<u64>().ok()
        });
        // This many syncs later, somewhere in the next round.
        let wanted = 1 + random.below(4) as usize;
        let mut synced = synced;
        let first = synced.by_ref().take(wanted).last();
        let first: u64 = first.expect("the child syncs");
        let spin = random.below(3_000_000);
        (0..spin).for_each(|nth| {
            std::hint::black_box(nth);
        });
        child.kill().unwrap();
        // What it said before it died counts, too.
        let confirmed = synced.last().unwrap_or(first);
        all += 1;
        child.wait().unwrap();
        let device = SwapFile::open(&path).unwrap();
        let (swap, number) = Frontswap::restore(&device).unwrap();
        assert!(
            number == confirmed || number == confirmed + 1,
            "kill {kill}: checkpoint {number}, and {confirmed} was confirmed"
        );
        let host = host();
        let paged = Paged::new(Arc::clone(host.ram_shared()), swap, BUDGET).unwrap();
        served(&host, &paged, || {
            assert_eq!(
                contents(&paged),
                contents_after(life, number),
                "kill {kill}"
            );
        });
    }
    assert_eq!((all, life), (KILLS, KILLS.div_ceil(5)));
}
