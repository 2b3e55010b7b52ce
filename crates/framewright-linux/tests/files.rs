//! A cache of files under pressure, and in a process that is killed.

use framewright::frame::ZoneLayout;
use framewright::policy::ReclaimConfig;
use framewright::reclaim::{Clients, Migrate, Reclaim, Shrink};
use framewright::reserve::{PoolConfig, Reserve, ReserveLayout};
use framewright::{Context, Frame, Mobility, Order, Run};
use framewright_linux::file_cache::{FileCache, FileOptions};
use framewright_linux::tenancy::{Guests, Reclaiming};
use framewright_linux::{Host, Linux, Options, Ram, RamPages, Stored};
use framewright_sim::Random;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

const PAGE: usize = 4096;

/// A file's name, free at first; the file goes when it is dropped.
struct TheFile(PathBuf);

impl TheFile {
    fn new(name: &str) -> Self {
        let name = format!("framewright-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for TheFile {
    fn drop(&mut self) {
        let gone = fs::remove_file(&self.0);
        assert!(gone.is_ok() || std::thread::panicking());
    }
}

/// A page that says its number everywhere.
fn page_of(nth: u64) -> Vec<u8> {
    (0..PAGE / 8)
        .flat_map(|word| (nth << 16 | word as u64).to_ne_bytes())
        .collect()
}

#[test]
fn readers_of_more_than_there_is_memory_and_large_blocks_are_all_served() {
    const PAGES: u64 = 5000;
    let path = TheFile::new("pressure");
    let mut file = File::create(&path.0).unwrap();
    (0..PAGES).for_each(|nth| file.write_all(&page_of(nth)).unwrap());
    drop(file);

    let layout = ZoneLayout::new(Frame(0), 3072).with_cpus(3);
    let host = Host::fenced(&Options::new(layout)).unwrap();
    let slots = host.platform().slots().clone();
    let run = Run::new(Frame(1 << 20), 1024).unwrap();
    let ram = Arc::new(Ram::new(run, RamPages::Base).unwrap());
    let layout = ReserveLayout::new(run).with_cpus(3);
    let mut words = vec![0; layout.words_needed().unwrap()];
    let platform = Stored::new(Linux::fenced(slots.clone()), ram);
    let reserve = Reserve::new(&layout, &mut words, platform).unwrap();
    let pool = reserve.open_pool(&PoolConfig::CLEAN).unwrap();
    let guests = Guests::new(&reserve, slots).unwrap();
    let mut words = vec![0; Reclaim::words_needed(host.zone())];
    let reclaim = Reclaim::new(host.zone(), &ReclaimConfig::default(), &mut words).unwrap();
    let own = Arc::clone(host.ram_shared());
    let cache = FileCache::new(own, Some((&guests, pool)), FileOptions::default());
    let file = cache.open(&path.0).unwrap();

    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (host, reclaim, cache, file) = (&host, &reclaim, &cache, &file);
            scope.spawn(move || {
                let mut seat = reclaim.seat(host.seat().unwrap());
                let (shrink, migrate) = ([cache as &dyn Shrink<_>], [cache as &dyn Migrate]);
                let clients = Clients {
                    shrink: &shrink,
                    migrate: &migrate,
                };
                let (mut random, mut bytes, mut blocks) =
                    (Random::new(seed), vec![0; 3 * PAGE], Vec::new());
                for round in 0..2000 {
                    let nth = random.below(PAGES - 3);
                    let mut supply = Reclaiming {
                        seat: &mut seat,
                        clients,
                        context: Context::ANY,
                    };
                    let at = nth * PAGE as u64;
                    let read = cache.read(&mut supply, file, at, &mut bytes).unwrap();
                    assert_eq!(read, bytes.len());
                    for (nth, page) in (nth..).zip(bytes.chunks(PAGE)) {
                        assert!(page == page_of(nth), "page {nth}");
                    }
                    if round % 100 == 99 {
                        let order = Order::new(5).unwrap();
                        let block = seat.alloc(order, Mobility::Unmovable, Context::ANY, &clients);
                        blocks.push(block.unwrap());
                        if blocks.len() > 8 {
                            seat.free(blocks.remove(0), order).unwrap();
                        }
                    }
                }
                for block in blocks {
                    seat.free(block, Order::new(5).unwrap()).unwrap();
                }
            });
        }
    });
    cache.verify().unwrap();
    let stats = cache.stats();
    assert!(
        stats.evicted > 1000 && stats.from_cleancache > 100,
        "{stats:?}"
    );
    assert!(stats.hit_permille() > 400, "{stats:?}");
    let mut seat = host.seat().unwrap();
    assert_eq!(cache.clear(&mut seat), 0);
    drop(seat);
    host.zone().drain();
    host.zone().verify().unwrap();
    assert_eq!(host.zone().stats().nr_free_pages, 3072);
}

const FILE_OF_CHILD: &str = "FRAMEWRIGHT_TEST_FILE";
const PAGES_OF_CHILD: u64 = 64;
const ROUNDS_OF_CHILD: u64 = 1_000_000;

/// The child: writes the round into each page, syncs, says the round.
fn write_and_say(path: &str) {
    let host = Host::fenced(&Options::new(ZoneLayout::new(Frame(0), 1024))).unwrap();
    let mut seat = host.seat().unwrap();
    let options = FileOptions {
        dirty_max: 20,
        pages_max: 40,
        ..FileOptions::default()
    };
    let cache = FileCache::new(Arc::clone(host.ram_shared()), None, options);
    let file = cache.create(path).unwrap();
    let mut out = std::io::stdout();
    for round in 1..ROUNDS_OF_CHILD {
        for page in 0..PAGES_OF_CHILD {
            let bytes = (round << 16 | page).to_ne_bytes();
            let at = page * PAGE as u64;
            assert_eq!(cache.write(&mut seat, &file, at, &bytes), Ok(8));
        }
        cache.sync(&file).unwrap();
        if writeln!(out, "synced {round}").is_err() {
            return;
        }
    }
}

#[test]
fn a_process_that_is_killed_while_it_writes_back_loses_nothing_that_a_sync_had_confirmed() {
    if let Ok(path) = std::env::var(FILE_OF_CHILD) {
        write_and_say(&path);
        return;
    }
    for lines in [1, 5, 20] {
        let path = TheFile::new("killed");
        let name =
            "a_process_that_is_killed_while_it_writes_back_loses_nothing_that_a_sync_had_confirmed";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(FILE_OF_CHILD, &path.0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        let rounds = said.map_while(Result::ok).filter_map(|line| {
            let round = line.split("synced ").nth(1)?;
            round.parse::<u64>().ok()
        });
        let confirmed = rounds.take(lines).last().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(confirmed >= lines as u64);
        let file = File::open(&path.0).unwrap();
        for page in 0..PAGES_OF_CHILD {
            let mut bytes = [0; 8];
            file.read_exact_at(&mut bytes, page * PAGE as u64).unwrap();
            let word = u64::from_ne_bytes(bytes);
            assert_eq!(word & 0xffff, page);
            assert!(word >> 16 >= confirmed, "page {page}: {}", word >> 16);
        }
    }
}
