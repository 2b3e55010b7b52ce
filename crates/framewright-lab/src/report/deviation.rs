//! The error of the model for one metric: an answer weighs its differences by it, a case keeps it by metric.

/// How far the model of the recording kernel is from what that kernel did, for one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deviation {
    /// What Linux itself had.
    pub linux: f64,
    /// What its model has, from the same start.
    pub model: f64,
    /// The calibration error: a difference between policies that is not larger means nothing.
    ///
    /// For a mean over samples the mean of the absolute differences at each sample, so that
    /// errors of opposite sign do not cancel; for a count the absolute difference.
    pub error: f64,
}

impl Deviation {
    /// Whether there is nothing that it could have been off by: the figure was 0 on the machine and in the model.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.linux == 0.0 && self.model == 0.0 && self.error == 0.0
    }
}
