//! How many frames freed areas keep from others.

use framewright::Frame;
use framewright::frame::ZoneLayout;
use framewright::vrange::AreaRequest;
use framewright_linux::{HostSpace, Options};
use std::collections::VecDeque;

const FRAMES: u64 = 1 << 16;
/// Longer than any span.
const PAGES: u64 = 2048;

#[test]
fn long_areas_that_are_freed_hold_few_frames_beyond_the_bound_on_lazy_pages() {
    let layout = ZoneLayout::new(Frame(0), FRAMES);
    let host = HostSpace::fenced(&Options::new(layout).with_window(1 << 20)).unwrap();
    let mut seat = host.cpu().unwrap();
    let mut live = VecDeque::new();
    let mut least_free = FRAMES;
    for round in 0..200 {
        // Many are live for a while, so that many are freed one after another.
        let live_max = if round % 50 < 25 { 2 } else { 12 };
        while live.len() >= live_max {
            seat.vfree(live.pop_front().unwrap()).unwrap();
        }
        live.push_back(seat.vmalloc(&AreaRequest::new(PAGES)).unwrap());
        if round % 50 > 5 && round % 50 < 25 {
            least_free = least_free.min(host.zone().stats().nr_free_pages);
        }
    }
    let lazy = host.space().lazy_bound_pages();
    let held = FRAMES - least_free - 2 * PAGES;
    // What is lazy, and as much again that has been flushed and is about to go.
    assert!(
        held <= 2 * lazy,
        "{held} frames are held, {lazy} pages may be lazy"
    );
}
