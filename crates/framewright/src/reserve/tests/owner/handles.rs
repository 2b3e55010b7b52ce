//! Handles that are another area's, or of an earlier one.

use super::*;
use crate::units::RunError;

#[test]
fn c9_another_areas_reservation_is_unknown() {
    let ((a, _), (b, _)) = (reserve(64, 1), reserve(64, 1));
    let of_a = a.reserve("camera", 16, 16).unwrap();
    let of_b = b.reserve("screen", 32, 32).unwrap();
    assert_ne!(of_a, of_b);
    for (area, handle, other) in [(&a, of_a, of_b), (&b, of_b, of_a)] {
        let own = area.run_of(handle).unwrap();
        assert_eq!(area.run_of(other), None);
        assert_eq!(area.take(other), Err(RunError::Unknown));
        assert_eq!(area.unreserve(other), Err(RunError::Unknown));
        assert_eq!(area.take(handle), Ok(own));
        assert_eq!(area.take(other), Err(RunError::Unknown));
        area.release(own).unwrap();
    }
    // A handle is its area's from whichever way it is asked.
    let error = b.owner(None).take(of_a).unwrap_err();
    assert_eq!(error, RunError::Unknown);
}

#[test]
fn c9_a_reservation_that_was_given_up_is_unknown_when_its_place_is_another_ones() {
    let (reserve, _) = reserve(64, 1);
    let mut earlier = Vec::new();
    for _ in 0..100 {
        let now = reserve.reserve("camera", 16, 16).unwrap();
        for &handle in &earlier {
            assert_eq!(reserve.take(handle), Err(RunError::Unknown));
            assert_eq!(reserve.unreserve(handle), Err(RunError::Unknown));
        }
        reserve.unreserve(now).unwrap();
        earlier.push(now);
    }
}

#[test]
fn c9_a_number_names_its_reservation_as_long_as_that_exists() {
    let (reserve, _) = reserve(256, 1);
    let mut earlier = Vec::new();
    for turn in 0..40 {
        let pair = [0, 1].map(|_| reserve.reserve("camera", 16, 16).unwrap());
        let [one, other] = pair.map(|handle| handle.number());
        assert!(one != 0 && other != 0 && one != other, "{turn}");
        assert_eq!(
            [one, other].map(|number| reserve.numbered(number)),
            pair.map(Some)
        );
        for &number in &earlier {
            assert_eq!(reserve.numbered(number), None);
        }
        for handle in pair {
            reserve.unreserve(handle).unwrap();
            assert_eq!(reserve.numbered(handle.number()), None);
        }
        earlier.extend([one, other]);
    }
    for number in [0, 1, 63, 64, 255, u64::MAX] {
        assert_eq!(reserve.numbered(number), None);
    }
}

#[test]
fn c9_a_reservation_of_an_earlier_area_in_the_same_memory_is_unknown() {
    let (_, toy) = reserve(64, 1);
    let layout = ReserveLayout::new(Run::new(Frame(FIRST), 64).unwrap());
    let mut memory = std::vec![u64::MAX; layout.words_needed().unwrap()];
    let mut earlier = Vec::new();
    for _ in 0..10 {
        let area = Reserve::new(&layout, &mut memory, toy.clone()).unwrap();
        let now = area.reserve("camera", 16, 16).unwrap();
        for &handle in &earlier {
            assert_eq!(area.take(handle), Err(RunError::Unknown));
        }
        area.take(now).unwrap();
        earlier.push(now);
    }
}

#[test]
fn a7_a_listing_holds_no_lock() {
    let (reserve, _) = reserve(64, 1);
    let made: Vec<_> = (0..4)
        .map(|_| reserve.reserve("one", 8, 8).unwrap())
        .collect();
    let mut listed = Vec::new();
    reserve.for_each_reservation(|name, run, taken| {
        assert_eq!((name, taken), ("one", false));
        let handle = made
            .iter()
            .find(|handle| reserve.run_of(**handle) == Some(run));
        let handle = *handle.unwrap();
        assert_eq!(reserve.take(handle), Ok(run));
        reserve.release(run).unwrap();
        reserve.unreserve(handle).unwrap();
        listed.push(run);
    });
    assert_eq!(listed.len(), 4);
    reserve.for_each_reservation(|_, _, _| panic!("all were given up"));
}
