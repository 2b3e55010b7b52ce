//! Which target each block of a batch gets, so that the batch ends in as few mappings as possible.
//!
//! A mapping shows consecutive frames at consecutive pages: it is a *shift*, frame less page. One
//! mapping can show neighbouring blocks of the region, with only unpopulated pages between them, if
//! their targets have one shift. The pages between them then show frames of other users, but no
//! thread sees them, because these pages are not populated.

/// The most moves that are made at once: this bounds how long the users of their pages wait. 64
/// copies are some 20 us.
pub(super) const BATCH: usize = 64;

/// A block that moves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MovingBlock {
    /// Its first page.
    pub(super) page: usize,
    /// Its pages, a power of two.
    pub(super) pages: usize,
    /// Its place, counted from the first frame.
    pub(super) from: u64,
    /// Its new place.
    pub(super) to: u64,
    /// Its move.
    pub(super) nth: usize,
    /// Whether a populated page lies between it and the one before.
    pub(super) is_first: bool,
    /// Whether the one before has another shift, or `is_first`.
    pub(super) is_cut: bool,
}

/// A target that no piece has yet.
#[derive(Clone, Copy, Debug, Default)]
struct Target {
    at: u64,
    pages: usize,
    is_given: bool,
}

/// Exchanges the targets of `pieces`, which are sorted by page, among those of one length, and
/// decides for each whether its mapping ends before it.
///
/// Greedy: of all free targets for a block, it takes the one with the shift that fits most of its
/// successors, the lowest of several. At most `BATCH`² steps for each mapping that results.
pub(super) fn exchange_targets(pieces: &mut [MovingBlock]) {
    assert!(pieces.len() <= BATCH, "a batch has at most {BATCH} pieces");
    let mut targets = [Target::default(); BATCH];
    let targets = &mut targets[..pieces.len()];
    for (target, piece) in targets.iter_mut().zip(&*pieces) {
        (target.at, target.pages) = (piece.to, piece.pages);
    }
    targets.sort_unstable_by_key(|target| target.at);
    let mut at = 0;
    while at < pieces.len() {
        let end = pieces[at + 1..].iter().position(|piece| piece.is_first);
        let end = end.map_or(pieces.len(), |more| at + 1 + more);
        let together = &mut pieces[at..end];
        let (mut best, mut fits) = (0, 0);
        for first in 0..targets.len() {
            let more = fitting(together, targets, first, |_, _| {});
            if more > fits {
                (best, fits) = (first, more);
            }
            if fits == together.len() {
                break;
            }
        }
        let mut given = [0; BATCH];
        fitting(together, targets, best, |nth, target| given[nth] = target);
        for (nth, piece) in together[..fits].iter_mut().enumerate() {
            let target = &mut targets[given[nth]];
            target.is_given = true;
            piece.to = target.at;
            piece.is_cut = nth == 0;
        }
        at += fits;
    }
}

/// How many of `pieces` fit targets with the shift that target `first` gives the first of them.
/// Each comes with its target.
fn fitting(
    pieces: &[MovingBlock],
    targets: &[Target],
    first: usize,
    mut tell: impl FnMut(usize, usize),
) -> usize {
    let start = pieces[0].page;
    let origin = targets[first].at;
    let mut at = first;
    for (nth, piece) in pieces.iter().enumerate() {
        let wanted = origin + (piece.page - start) as u64;
        while at < targets.len() && targets[at].at < wanted {
            at += 1;
        }
        let fits = targets.get(at).is_some_and(|target| {
            target.at == wanted && target.pages == piece.pages && !target.is_given
        });
        if !fits {
            return nth;
        }
        tell(nth, at);
        at += 1;
    }
    pieces.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright_sim::Random;

    fn pieces(of: &[(usize, usize, u64)]) -> Vec<MovingBlock> {
        let piece = |(nth, &(page, pages, to))| MovingBlock {
            page,
            pages,
            to,
            nth,
            is_first: nth == 0,
            ..MovingBlock::default()
        };
        of.iter().enumerate().map(piece).collect()
    }

    fn cuts(pieces: &[MovingBlock]) -> usize {
        pieces.iter().filter(|piece| piece.is_cut).count()
    }

    #[test]
    fn every_second_page_to_every_second_frame_is_one_mapping() {
        let of: Vec<_> = (0..64).map(|n| (2 * n, 1, 1001 + 2 * n as u64)).collect();
        let mut some = pieces(&of);
        // In any order.
        some.iter_mut()
            .for_each(|piece| piece.to = 1127 - (piece.to - 1001));
        exchange_targets(&mut some);
        assert_eq!(cuts(&some), 1);
        assert!(
            some.iter()
                .all(|piece| piece.to == 1001 + piece.page as u64)
        );
    }

    #[test]
    fn what_lies_between_cuts() {
        let of: Vec<_> = (0..8).map(|n| (n, 1, 100 + n as u64)).collect();
        let mut some = pieces(&of);
        some[3].is_first = true;
        exchange_targets(&mut some);
        assert_eq!(cuts(&some), 2);
        assert!(some[0].is_cut && some[3].is_cut);
    }

    #[test]
    fn lengths_are_kept_apart() {
        let mut some = pieces(&[(0, 4, 64), (4, 1, 7), (5, 1, 68), (8, 4, 32)]);
        exchange_targets(&mut some);
        let of = |n: usize| (some[n].pages, some[n].to);
        // 68 follows 64 for one page, and then no other target fits.
        assert_eq!([0, 1].map(of), [(4, 64), (1, 68)]);
        assert_eq!([2, 3].map(of), [(1, 7), (4, 32)]);
        assert_eq!(cuts(&some), 3);
    }

    #[test]
    fn every_target_is_given_once_and_few_mappings_do_in_a_random_half() {
        let mut numbers = Random::new(9);
        let mut random = || numbers.chance(50);
        let mut all = 0;
        for _ in 0..200 {
            let live: Vec<usize> = (0..400).filter(|_| random()).take(BATCH).collect();
            let free: Vec<u64> = (5000..5400).filter(|_| random()).take(BATCH).collect();
            let of: Vec<_> = live.iter().zip(&free).map(|(&p, &t)| (p, 1, t)).collect();
            let mut some = pieces(&of);
            exchange_targets(&mut some);
            let mut given: Vec<_> = some.iter().map(|piece| piece.to).collect();
            given.sort_unstable();
            assert_eq!(given, free);
            let mut shift = 0;
            for piece in &some {
                let here = piece.to.wrapping_sub(piece.page as u64);
                assert!(piece.is_cut || here == shift);
                shift = here;
            }
            all += cuts(&some);
        }
        // In order, it would be three quarters of 64; this way, 25.
        assert!(all < 200 * 28, "{all} mappings in 200 batches");
    }
}
