//! What an owner asks of either kind of area.

use super::*;
use crate::reclaim::Obstacle;
use crate::reserve::ContigError;
use std::string::ToString;

#[test]
fn a_guaranteed_area_is_had_by_the_calls_that_any_area_has() {
    let (reserve, _) = reserve(1024, 1);
    let area: &mut dyn Contiguous = &mut Guaranteed::new(&reserve);
    assert_eq!(area.kind(), ContiguousKind::Guaranteed);
    let camera = area.reserve("camera", 600, 8).unwrap();
    assert_eq!(area.alloc_contig(500, 1), Err(ContigError::NoRoom));
    let run = area.alloc_contig(100, 4).unwrap();
    let taken = area.take(camera).unwrap();
    assert_eq!(taken.frames(), 600);
    assert_eq!(area.take(camera), Err(ContigError::Taken(taken)));
    assert_eq!(area.unreserve(camera), Err(ContigError::Taken(taken)));
    assert_eq!(area.release(run), Ok(()));
    assert_eq!(area.release(run), Err(ContigError::NotOwned(run)));
    assert_eq!(area.release(taken), Ok(()));
    assert_eq!(area.unreserve(camera), Ok(()));
    assert_eq!(area.take(camera), Err(ContigError::Unknown));
    assert_eq!(area.alloc_contig(0, 1), Err(ContigError::Malformed));
    reserve.verify().unwrap();
}

#[test]
fn errors_of_either_kind_say_what_is_in_the_way() {
    let run = Run::new(Frame(0x10), 4).unwrap();
    let said = |error: ContigError| error.to_string();
    assert_eq!(
        said(ContigError::Malformed),
        ContigError::Malformed.to_string()
    );
    assert_eq!(said(ContigError::NoRoom), ContigError::NoRoom.to_string());
    assert_eq!(said(ContigError::Unknown), ContigError::Unknown.to_string());
    assert_eq!(
        said(ContigError::Taken(run)),
        ContigError::Taken(run).to_string()
    );
    let frame = Frame(0x12);
    let why = Obstacle::Pinned;
    assert_eq!(
        said(ContigError::Busy { frame, why }),
        "the block at frame 0x12 is pinned"
    );
    assert_eq!(
        said(ContigError::NoMemory(frame)),
        "the block at frame 0x12 finds no free block of its order elsewhere"
    );
}
