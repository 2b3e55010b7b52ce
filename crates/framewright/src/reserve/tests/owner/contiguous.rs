//! What an owner asks of either kind of area.

use super::*;
use crate::units::RunError;
use std::string::ToString;

#[test]
fn a_guaranteed_area_is_had_by_the_calls_that_any_area_has() {
    let (reserve, _) = reserve(1024, 1);
    let area: &mut dyn Contiguous = &mut reserve.owner(None);
    assert!(area.is_guaranteed());
    let camera = area.reserve("camera", 600, 8).unwrap();
    assert_eq!(area.alloc_contig(500, 1), Err(RunError::NoRoom));
    let run = area.alloc_contig(100, 4).unwrap();
    let taken = area.take(camera).unwrap();
    assert_eq!(taken.frames(), 600);
    assert_eq!(area.take(camera), Err(RunError::Taken(taken)));
    assert_eq!(area.unreserve(camera), Err(RunError::Taken(taken)));
    assert_eq!(area.release(run), Ok(()));
    assert_eq!(area.release(run), Err(RunError::NotOwned(run)));
    assert_eq!(area.release(taken), Ok(()));
    assert_eq!(area.unreserve(camera), Ok(()));
    assert_eq!(area.take(camera), Err(RunError::Unknown));
    assert_eq!(area.alloc_contig(0, 1), Err(RunError::Malformed));
    reserve.verify().unwrap();
}

#[test]
fn errors_of_either_kind_say_what_is_in_the_way() {
    let run = Run::new(Frame(0x10), 4).unwrap();
    let said = |error: RunError| error.to_string();
    assert_eq!(
        said(RunError::Malformed),
        "a run has at least one frame and a power of two as alignment"
    );
    assert_eq!(
        said(RunError::NoRoom),
        "no run of that length and alignment is left beside reservations and owned frames"
    );
    assert_eq!(said(RunError::Unknown), "there is no such reservation");
    assert!(said(RunError::Taken(run)).ends_with("is taken already"));
    let frame = Frame(0x12);
    assert_eq!(
        said(RunError::Pinned(frame)),
        "the block at frame 0x12 is pinned"
    );
    assert_eq!(
        said(RunError::NoMemory(frame)),
        "the block at frame 0x12 finds no free block of its order elsewhere"
    );
}
