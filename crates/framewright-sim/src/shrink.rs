//! A failing sequence is made short before it is shown. It works on any items, because a sequence is data.

/// Shortens a failing sequence: removes pieces, then single items, as long as `fails` says that the
/// rest still fails, and returns the rest.
///
/// The rest fails, but no longer if any one item is taken out. Delta debugging (Zeller and
/// Hildebrandt, IEEE TSE 28, 2002), complements only; mostly O(n log n) runs.
pub fn shrink<T: Clone>(items: &[T], mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut left = items.to_vec();
    let mut piece = left.len().div_ceil(2);
    while piece > 0 && !left.is_empty() {
        let mut at = 0;
        let mut has_shrunk = false;
        while at < left.len() {
            let end = (at + piece).min(left.len());
            let rest = [&left[..at], &left[end..]].concat();
            if fails(&rest) {
                left = rest;
                has_shrunk = true;
            } else {
                at = end;
            }
        }
        // Goes over single items again: the loss of one can free another.
        if piece > 1 || !has_shrunk {
            piece /= 2;
        }
    }
    left
}

/// Simplifies the items of a failing sequence: each becomes the first of the alternatives in
/// `simpler` with which all still fails, until no alternative does.
///
/// It ends if the alternatives in `simpler` are simpler in some order that ends.
pub fn simplify<T: Clone>(
    items: &[T],
    simpler: impl Fn(&T) -> Vec<T>,
    mut fails: impl FnMut(&[T]) -> bool,
) -> Vec<T> {
    let mut left = items.to_vec();
    for at in 0..left.len() {
        let mut candidates = simpler(&left[at]).into_iter();
        while let Some(candidate) = candidates.next() {
            let before = std::mem::replace(&mut left[at], candidate);
            if fails(&left) {
                candidates = simpler(&left[at]).into_iter();
            } else {
                left[at] = before;
            }
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_matters_is_left() {
        let items: Vec<u32> = (0..1000).collect();
        let mut runs = 0;
        let fails = |rest: &[u32]| {
            rest.contains(&13) && rest.contains(&700) && rest.iter().sum::<u32>() > 1500
        };
        let left = shrink(&items, |rest| {
            runs += 1;
            fails(rest)
        });
        assert!(fails(&left) && left.len() <= 4, "{left:?}");
        for without in 0..left.len() {
            assert!(!fails(&[&left[..without], &left[without + 1..]].concat()));
        }
        assert!(runs < 300, "{runs}");
        assert!(shrink(&items, |_| true).is_empty());
    }

    #[test]
    fn what_is_left_is_as_simple_as_it_can_be() {
        let halves = |&n: &u32| if n == 0 { vec![] } else { vec![n / 2, n - 1] };
        let left = simplify(&[9, 40, 7], halves, |rest| rest.iter().sum::<u32>() > 30);
        assert_eq!(left, [0, 24, 7]);
        assert_eq!(simplify(&[9, 40], |_| vec![], |_| true), [9, 40]);
        assert_eq!(simplify(&[9, 40], halves, |_| true), [0, 0]);
    }
}
