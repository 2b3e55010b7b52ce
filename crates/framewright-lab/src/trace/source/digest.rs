//! What ties the files of a recording together. The digest is of the unpacked bytes, so that packing a trace anew
//! makes no other trace of it.

use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// What tells a trace from every other: the SHA-256 of its unpacked bytes, as `zstd -dc FILE | sha256sum` prints it.
/// A file that belongs to a trace carries it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceDigest([u8; Self::BYTES]);

impl TraceDigest {
    /// Its length.
    pub const BYTES: usize = 32;

    /// What the first line of a text that belongs to a trace begins with; the digest follows.
    pub const MARK: &'static str = "# trace sha256 ";

    /// Of a whole trace.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// From its bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0
    }

    /// The line with which a text says which trace it belongs to.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{}{self}\n", Self::MARK)
    }

    /// The digest in the first line of a text; `None` where the line is another.
    ///
    /// # Errors
    /// If the line begins as one with a digest does and holds none.
    pub fn of_text(text: &str) -> Result<Option<Self>, String> {
        let first = text.lines().next().unwrap_or_default();
        let Some(digits) = first.strip_prefix(Self::MARK) else {
            return Ok(None);
        };
        let digits = digits.trim_end().as_bytes();
        let bad = || "the digest is damaged, expected 64 hexadecimal digits".to_owned();
        if digits.len() != 2 * Self::BYTES {
            return Err(bad());
        }
        let mut bytes = [0; Self::BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |c: u8| char::from(c).to_digit(16);
            let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else {
                return Err(bad());
            };
            *byte = (high << 4 | low) as u8;
        }
        Ok(Some(Self(bytes)))
    }
}

impl fmt::Display for TraceDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TraceDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The digest of what is read, while it is read: one half goes with the input, the other waits for its end.
#[derive(Clone, Default)]
pub(crate) struct RunningDigest(Arc<Mutex<Sha256>>);

impl RunningDigest {
    pub(super) fn add(&self, bytes: &[u8]) {
        let mut sum = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sum.update(bytes);
    }

    /// Of what was read so far.
    pub(crate) fn so_far(&self) -> TraceDigest {
        let sum = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        TraceDigest(sum.clone().finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_written_and_read_back() {
        let digest = TraceDigest::of(b"abc");
        assert_eq!(
            digest.to_string(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(TraceDigest::of_text(&digest.line()), Ok(Some(digest)));
        assert_eq!(TraceDigest::of_text("Page block order: 9\n"), Ok(None));
        let cut = &digest.line()[..40];
        assert!(TraceDigest::of_text(cut).unwrap_err().contains("damaged"));
        let other = digest.line().replace("ba78", "xx78");
        assert!(TraceDigest::of_text(&other).is_err());
        let running = RunningDigest::default();
        running.add(b"a");
        running.clone().add(b"bc");
        assert_eq!(running.so_far(), digest);
    }
}
