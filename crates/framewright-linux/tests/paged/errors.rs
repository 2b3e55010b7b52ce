//! Devices that fail, and devices that are full.

use crate::machine::{MachineFolder, host, load, served, store, with_reserve};
use framewright::platform::MapError;
use framewright::reclaim::{Ask, Shrink};
use framewright::{Context, Order};
use framewright_linux::paged::{Paged, PagedError};
use framewright_linux::swap::{Faulty, SwapDevice, SwapError, SwapOp, SwapPolicy};
use framewright_linux::{Frontswap, SwapFile, Zram};
use std::sync::Arc;

#[test]
fn a_page_that_cannot_be_written_stays_and_the_error_is_told() {
    let host = host();
    let device = Faulty::new(Zram::new(300, 4 << 20));
    for nth in [0, 1, 5, 31, 40] {
        let calls = device.calls(SwapOp::Write);
        device.fail(SwapOp::Write, calls + nth, u64::MAX);
        let swap = Frontswap::new(&device, 200);
        let paged = Paged::new(Arc::clone(host.ram_shared()), swap, 40).unwrap();
        served(&host, &paged, || {
            for page in 0..200 {
                store(&paged, page, 7, page + 1);
            }
            for page in 0..200 {
                assert_eq!(load(&paged, page, 7), page + 1);
            }
            let stats = paged.stats();
            assert!(stats.evict_failed > 0 && stats.failed == 0, "{stats:?}");
            let error = paged.take_error().unwrap().to_string();
            assert!(error.contains("fails, as was asked"), "{error}");
            // The device works again, so the region can give frames back.
            device.fail(SwapOp::Write, 0, 0);
            let ask = Ask {
                wanted: 150,
                scan: 1000,
                order: Order::ZERO,
                context: Context::ANY,
            };
            let shrunk = paged.shrink(&mut host.seat().unwrap(), &ask);
            assert_eq!((shrunk.freed, paged.take_error()), (150, None));
            for page in 0..200 {
                assert_eq!(load(&paged, page, 7), page + 1);
            }
            assert!(paged.stats().resident <= 50, "{:?}", paged.stats());
        });
    }
}

#[test]
fn a_page_that_cannot_be_read_is_an_error_and_is_there_when_the_device_is() {
    let host = host();
    let device = Faulty::new(Zram::new(300, 4 << 20));
    let swap = Frontswap::new(&device, 200);
    let paged = Paged::new(Arc::clone(host.ram_shared()), swap, 40).unwrap();
    served(&host, &paged, || {
        for page in 0..200 {
            store(&paged, page, 7, page + 1);
        }
        let mut bytes = [0; 8];
        let mut errors = 0;
        for nth in 0..20 {
            // Two requests that follow one another: for a page and those around it, and for the first of them by itself; or
            // for two single pages.
            device.fail(SwapOp::Read, device.calls(SwapOp::Read) + nth, 2);
            for page in 0..200 {
                match paged.read(page * 4096 + 56, &mut bytes) {
                    Ok(()) => assert_eq!(u64::from_ne_bytes(bytes), page + 1),
                    Err(PagedError::Swap(SwapError::Device { page: of, .. })) => {
                        assert_eq!(of, Some(page));
                        errors += 1;
                        let value = (page + 1).to_ne_bytes();
                        while let Err(error) = paged.write(page * 4096 + 56, &value) {
                            let PagedError::Swap(SwapError::Device { .. }) = error else {
                                panic!("{error}");
                            };
                            errors += 1;
                        }
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        }
        // If the failed page was read ahead, no thread was told.
        assert!(errors > 0 && errors <= 40, "{errors}");
        assert_eq!(paged.stats().failed, errors);
        for page in 0..200 {
            assert_eq!(load(&paged, page, 7), page + 1);
        }
    });
}

#[test]
fn a_full_device_costs_frames_and_nothing_else() {
    let host = host();
    let small = Zram::new(50, 4 << 20);
    let limited = Zram::new(300, 20_000);
    let devices: [&dyn SwapDevice; 2] = [&small, &limited];
    for device in devices {
        let swap = Frontswap::new(device, 200);
        let paged = Paged::new(Arc::clone(host.ram_shared()), swap, 40).unwrap();
        served(&host, &paged, || {
            for round in 0..3 {
                for page in 0..200 {
                    // Hardly compressible.
                    for nth in 0..64 {
                        let noise = (page + nth as u64 + round).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                        store(&paged, page, nth * 8, noise);
                    }
                }
            }
            for page in 0..200 {
                let noise = (page + 2u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                assert_eq!(load(&paged, page, 0), noise);
            }
            assert!(paged.stats().resident > 100);
            assert!(paged.take_error().is_some());
        });
    }
}

#[test]
fn a_store_whose_device_fails_keeps_dirty_pages_until_it_works() {
    let host = host();
    with_reserve(512, |_, guests, pool| {
        let device = Faulty::new(Zram::new(300, 4 << 20));
        let policy = SwapPolicy::WriteBack { dirty_max: 100 };
        let swap = Frontswap::new(&device, 200).with_store(guests, pool, 0, policy);
        let paged = Paged::new(Arc::clone(host.ram_shared()), swap, 40).unwrap();
        device.fail(SwapOp::Write, 0, u64::MAX);
        served(&host, &paged, || {
            for page in 0..200 {
                store(&paged, page, 7, page + 1);
            }
            // Some lie in the store, and all that it does not take have their frames.
            assert!(paged.sync().is_err());
            assert!(paged.swap().dirty_pages() > 50);
            for page in 0..200 {
                assert_eq!(load(&paged, page, 7), page + 1);
            }
            device.fail(SwapOp::Write, 0, 0);
            paged.sync().unwrap();
            assert_eq!(paged.swap().dirty_pages(), 0);
            for page in 0..200 {
                assert_eq!(load(&paged, page, 7), page + 1);
            }
        });
    });
}

#[test]
fn without_a_pager_the_copying_calls_say_so() {
    let host = host();
    let device = Zram::new(300, 4 << 20);
    let paged = Paged::new(
        Arc::clone(host.ram_shared()),
        Frontswap::new(&device, 200),
        40,
    )
    .unwrap();
    let mut bytes = [0; 8];
    let error = paged.read(4096, &mut bytes).unwrap_err();
    assert_eq!(error.to_string(), "no thread serves the region");
    let error = paged.write(200 * 4096 - 4, &bytes).unwrap_err().to_string();
    assert_eq!(error, "not inside of the region's 819200 bytes");
    let error = paged.pin(3..201, false).unwrap_err().to_string();
    assert_eq!(error, "not inside of the region's 819200 bytes");
    assert_eq!(paged.address(200), None);
}

#[test]
fn what_is_pinned_keeps_its_frame_and_a_system_call_gets_at_it() {
    let host = host();
    let device = Zram::new(300, 4 << 20);
    let swap = Frontswap::new(&device, 200);
    let paged = Paged::new(Arc::clone(host.ram_shared()), swap, 40).unwrap();
    served(&host, &paged, || {
        let pin = paged.pin(10..14, true).unwrap();
        let frames: Vec<_> = (0..4).map(|nth| pin.frame(nth)).collect();
        for page in 0..200 {
            store(&paged, page, 7, page + 1);
        }
        paged.sync().unwrap();
        assert_eq!(
            (0..4)
                .map(|nth| paged.frame_of(10 + nth))
                .collect::<Vec<_>>(),
            frames
        );
        let folder = MachineFolder::new("pinned");
        let path = folder.path().join("bytes");
        let bytes: Vec<u8> = (0..16_384).map(|at| at as u8 ^ (at >> 8) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let mut file = std::fs::File::open(&path).unwrap();
        let address = paged.address(10).unwrap();
        // SAFETY: pinned for writing, and no other thread uses it at the moment.
        let target = unsafe { std::slice::from_raw_parts_mut(address, 16_384) };
        std::io::Read::read_exact(&mut file, target).unwrap();
        let discarded = paged.discard(9..12, &mut host.seat().unwrap());
        assert_eq!(discarded, Err(PagedError::Pinned(10)));
        assert_eq!(
            PagedError::Pinned(10).to_string(),
            "page 10 of the region is pinned"
        );
        drop(pin);
        for page in 0..200 {
            store(&paged, page, 511, page);
        }
        let mut got = vec![0; 16_000];
        paged.read(10 * 4096, &mut got[..4000]).unwrap();
        assert_eq!(got[..4000], bytes[..4000]);
        assert_eq!(load(&paged, 9, 7), 0);
    });
}

#[test]
fn a_page_that_is_only_read_is_written_once() {
    let host = host();
    let folder = MachineFolder::new("once");
    let device = SwapFile::create(&folder.path().join("swap"), 300).unwrap();
    let swap = Frontswap::new(&device, 200);
    let paged = Paged::new(Arc::clone(host.ram_shared()), swap, 40).unwrap();
    served(&host, &paged, || {
        for page in 0..200 {
            store(&paged, page, 7, page + 1);
        }
        paged.sync().unwrap();
        let written = device.bytes_written();
        assert_eq!(written, 200 * 4096);
        for _ in 0..4 {
            for page in 0..200 {
                assert_eq!(load(&paged, page, 7), page + 1);
            }
        }
        assert!(paged.stats().evicted > 600);
        assert_eq!(device.bytes_written(), written);
    });
}

/// Takes all mappings that the kernel allows the process, so that it refuses even those that would give some back.
fn take_all_mappings() {
    for nth in 0u64.. {
        // Neighbours are of two kinds, so that the kernel joins none.
        let access = [libc::PROT_NONE, libc::PROT_READ][nth as usize % 2];
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: no address is asked for, so no mapping is replaced.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, access, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return;
        }
    }
}

#[test]
fn a_page_that_the_kernel_does_not_let_be_hidden_is_an_error_of_a_discard() {
    const CHILD: &str = "FRAMEWRIGHT_TEST_NO_MAPPINGS";
    let name = "errors::a_page_that_the_kernel_does_not_let_be_hidden_is_an_error_of_a_discard";
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    let limit: u64 = limit.trim().parse().unwrap();
    if limit > 1 << 18 || cfg!(any(tsan, miri)) {
        println!("skipped: vm.max_map_count of {limit} would take long to reach");
        return;
    }
    if std::env::var_os(CHILD).is_none() {
        // A process of its own: others could map nothing meanwhile.
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert!(child.status.success(), "{child:?}");
        return;
    }
    // A discard that tried for ever would end so.
    // SAFETY: ends this process alone.
    unsafe { libc::alarm(30) };
    let host = host();
    let device = Zram::new(64, 1 << 20);
    let swap = Frontswap::new(&device, 16);
    let paged = Paged::new(Arc::clone(host.ram_shared()), swap, 8).unwrap();
    served(&host, &paged, || {
        store(&paged, 3, 0, 42);
        let mut seat = host.seat().unwrap();
        take_all_mappings();
        let refused = paged.discard(3..4, &mut seat);
        let is_kept = load(&paged, 3, 0) == 42;
        let is_right = matches!(refused, Err(PagedError::Map(MapError::Limit { .. }))) && is_kept;
        // SAFETY: ends this process, which can map nothing, and so not unwind either.
        unsafe { libc::_exit(i32::from(!is_right)) };
    });
}
