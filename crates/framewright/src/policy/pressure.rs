use super::ConfigError;

/// How reclaim and compaction of one zone go about it, as a plain value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReclaimConfig {
    /// After that many attempts of compaction in vain, each leaving off for twice as many requests as
    /// the one before, the number of requests does not grow any more: 2 to the power of this.
    pub defer_shift_max: u8,
}

impl Default for ReclaimConfig {
    /// As Linux has it: up to 64 requests.
    fn default() -> Self {
        Self { defer_shift_max: 6 }
    }
}

impl ReclaimConfig {
    /// Checks every limit.
    ///
    /// # Errors
    /// The first limit that is not kept.
    pub const fn check(&self) -> Result<(), ConfigError> {
        if self.defer_shift_max > 16 {
            return Err(ConfigError::DeferShift(self.defer_shift_max));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn each_limit_is_named_with_the_number_that_broke_it() {
        assert_eq!(ReclaimConfig::default().check(), Ok(()));
        let config = ReclaimConfig {
            defer_shift_max: 17,
        };
        let message = config.check().unwrap_err().to_string();
        assert_eq!(message, "defer_shift_max 17 is above the maximum 16");
    }
}
