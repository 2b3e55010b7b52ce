//! Which of several choices no other one beats in everything.

/// Whether each choice is on the Pareto front of costs: no other has less of one cost and no more of the rest. One that
/// lacks a cost is not, and beats none.
#[must_use]
pub fn pareto_front<const N: usize>(costs: &[Option<[f64; N]>]) -> Vec<bool> {
    let beats = |a: &[f64; N], b: &[f64; N]| {
        let both = || a.iter().zip(b);
        both().all(|(a, b)| a <= b) && both().any(|(a, b)| a < b)
    };
    let is_on = |one: &Option<[f64; N]>| {
        one.as_ref()
            .is_some_and(|one| !costs.iter().flatten().any(|other| beats(other, one)))
    };
    costs.iter().map(is_on).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beaten_in_nothing_is_on_the_front() {
        let costs = [
            Some([1.0, 9.0]),
            Some([5.0, 5.0]),
            Some([5.0, 6.0]),
            Some([9.0, 1.0]),
            Some([9.0, 9.0]),
            Some([1.0, 9.0]),
            None,
        ];
        assert_eq!(
            pareto_front(&costs),
            [true, true, false, true, false, true, false]
        );
        assert_eq!(pareto_front::<3>(&[]), [false; 0]);
    }
}
