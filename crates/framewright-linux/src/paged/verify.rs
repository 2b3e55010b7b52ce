//! The rules of a region that can be seen from its table and its window alone, each under its letter.

use super::Paged;
use super::table::{AHEAD, BUSY, DIRTY, LEAVING, PagedState, SHOWN, WRITABLE};
use std::fmt;

/// A rule that a page breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PagedBroken {
    /// The page, as counted from the first.
    pub page: u64,
    /// The rule.
    pub rule: &'static str,
}

impl fmt::Display for PagedBroken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {} of the region: {}", self.page, self.rule)
    }
}

impl std::error::Error for PagedBroken {}

impl Paged<'_> {
    /// Looks at every page. Returns how many have a frame. For tests: O(pages), and every thread
    /// with a fault waits.
    ///
    /// # Errors
    /// The first page that breaks a rule.
    pub fn verify(&self) -> Result<u64, PagedBroken> {
        let region = &self.region;
        let _shut = region.gate.shut();
        let mut frames = 0;
        for nth in 0..region.page_count() {
            let state = region.table.state(nth);
            frames += u64::from(state.has_frame());
            let broken = self.broken(nth, state);
            if let Some(rule) = broken {
                return Err(PagedBroken {
                    page: nth as u64,
                    rule,
                });
            }
        }
        Ok(frames)
    }

    /// What is wrong with a page. With the gate shut.
    fn broken(&self, nth: usize, state: PagedState) -> Option<&'static str> {
        let region = &self.region;
        let shown = region.window.frame_of(region.page(nth));
        let frame = region.table.frame(state);
        let rules = [
            (
                frame.is_some() || state.pins() == 0,
                "a pinned page has a frame (PG3)",
            ),
            (
                frame.is_none_or(|frame| region.table.page_of(frame) == Some(nth)),
                "a frame behind a page names it",
            ),
            (
                !state.is(WRITABLE) || state.is(SHOWN) && state.is(DIRTY),
                "a writable page is shown and dirty (PG2)",
            ),
            (
                !state.is(SHOWN) || frame.is_some() && !state.is(LEAVING),
                "a shown page has a frame, and is not leaving (PG1)",
            ),
            (
                !state.is(AHEAD) || frame.is_some() && !state.is(SHOWN) && state.pins() == 0,
                "a page that was read ahead has a frame, and is hidden and not pinned (PG8)",
            ),
            (
                !state.is(LEAVING) || state.is(BUSY),
                "a leaving page is busy",
            ),
            (
                if state.is(SHOWN) {
                    shown == frame
                } else {
                    shown.is_none()
                },
                "users see a page's frame, or nothing (PG1)",
            ),
        ];
        let broken = rules.into_iter().find(|(holds, _)| !holds);
        broken.map(|(_, rule)| rule)
    }
}
