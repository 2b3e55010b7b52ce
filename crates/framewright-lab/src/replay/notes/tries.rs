//! A count of tries, as a figure of probes, of retries and of huge pages alike.

use crate::measure::Metric;

/// Tries and how many of them were served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tries {
    /// Requests made.
    pub tried: u64,
    /// Requests served.
    pub served: u64,
}

impl Tries {
    /// As metrics, where anything was tried.
    pub(crate) fn values(
        self,
        tried: Metric,
        served: Metric,
    ) -> impl Iterator<Item = (Metric, f64)> {
        let values = [(tried, self.tried as f64), (served, self.served as f64)];
        values.into_iter().filter(move |_| self.tried > 0)
    }
}
