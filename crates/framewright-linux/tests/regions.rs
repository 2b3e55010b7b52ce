//! All the regions that a process can have: alone in its process, because a test beside it would
//! find none left.

use framewright::Frame;
use framewright::frame::ZoneLayout;
use framewright_linux::anon::{Anon, AnonError};
use framewright_linux::{Host, Options};
use std::sync::Arc;

#[test]
fn more_regions_than_the_handler_knows_are_an_error_and_one_that_goes_makes_room() {
    let host = Host::fenced(&Options::new(ZoneLayout::new(Frame(0), 1024).with_cpus(2))).unwrap();
    let mut regions = Vec::new();
    let new = || Anon::new(Arc::clone(host.ram_shared()), 1);
    let error = loop {
        match new() {
            Ok(anon) => regions.push(anon),
            Err(error) => break error,
        }
    };
    assert_eq!(error, AnonError::Regions { max: 64 });
    assert_eq!(
        error.to_string(),
        "the process has 64 regions, and no more can be"
    );
    assert_eq!(regions.len(), 64);
    drop(regions.swap_remove(13));
    assert!(new().is_ok());
}
