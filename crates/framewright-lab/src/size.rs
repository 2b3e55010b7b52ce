//! Sizes of memory on a command line: one reader for all options.
//!
//! A number with a unit is bytes (`5GiB`, `12.7GiB`, `64K`). A plain number is what the option says: bytes, frames or
//! MiB.

use framewright::Frame;

/// Units, in the order in which a message names them. A letter alone is the binary unit, as in Linux's own options.
const UNITS: [(&str, &str, u64); 5] = [
    ("B", "B", 1),
    ("KiB", "K", 1 << 10),
    ("MiB", "M", 1 << 20),
    ("GiB", "G", 1 << 30),
    ("TiB", "T", 1 << 40),
];

/// Digits that a fraction has at most: more would tell less than a byte of the largest unit.
const DECIMALS_MAX: usize = 12;

/// A size in pieces of `plain_bytes`, which is what a plain number counts. What a whole number of units has beyond whole
/// pieces makes one more; a decimal fraction, which is mostly a rounded figure itself, is rounded to the nearest piece.
fn read_pieces(text: &str, plain_bytes: u64, example: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let bad = || format!("expected a size as {example}");
    if matches!(unit, "KB" | "MB" | "GB" | "TB" | "kB" | "kb" | "mb" | "gb") {
        let binary = format!("{}iB", unit[..1].to_ascii_uppercase());
        return Err(format!("{}: units are binary, {digits}{binary}", bad()));
    }
    let too_much = || format!("{}: this is more than there can be", bad());
    if unit.is_empty() {
        let number: u64 = digits.parse().map_err(|_| bad())?;
        let fits = number.checked_mul(plain_bytes).map(|_| number);
        return fits.ok_or_else(too_much);
    }
    let found = UNITS
        .iter()
        .find(|(name, short, _)| unit == *name || unit == *short);
    let &(_, _, unit_bytes) = found.ok_or_else(bad)?;
    let Some((whole, fraction)) = digits.split_once('.') else {
        let number: u64 = digits.parse().map_err(|_| bad())?;
        let bytes = number.checked_mul(unit_bytes).ok_or_else(too_much)?;
        return Ok(bytes.div_ceil(plain_bytes));
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.len() > DECIMALS_MAX {
        return Err(bad());
    }
    // In whole numbers, so that a fraction is exact until the one rounding at the end.
    let scale = 10_u128.pow(fraction.len() as u32);
    let number: u128 = format!("{whole}{fraction}")
        .parse()
        .map_err(|_| too_much())?;
    let bytes = number
        .checked_mul(u128::from(unit_bytes))
        .ok_or_else(too_much)?;
    if bytes.div_ceil(scale) > u128::from(u64::MAX) {
        return Err(too_much());
    }
    let piece = u128::from(plain_bytes) * scale;
    u64::try_from((bytes + piece / 2) / piece).map_err(|_| too_much())
}

/// Bytes: `64KiB`, or `70000`.
///
/// # Errors
/// What was expected.
pub fn read_bytes(text: &str) -> Result<u64, String> {
    match read_pieces(text, 1, "64KiB, 1MiB or 70000")? {
        0 => Err("a size of 0 bytes is none, expected 1 byte or more".into()),
        bytes => Ok(bytes),
    }
}

/// Frames: `5GiB`, or `40000` frames; 0 too.
///
/// # Errors
/// What was expected.
pub fn read_frames_len(text: &str) -> Result<u64, String> {
    read_pieces(
        text,
        Frame::BYTES,
        "5GiB, 12.7GiB, 512MiB or a number of frames, 40000",
    )
}

/// Memory to hold back from a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqueezeSize {
    /// So many frames.
    Frames(u64),
    /// So many thousandths of the frames that are free at every moment, up to 1000: the same share of recordings with
    /// unequal memory.
    OfFree(u64),
}

impl SqueezeSize {
    /// Frames, where `least_free` frames are free at every moment.
    #[must_use]
    pub fn frames(self, least_free: u64) -> u64 {
        match self {
            Self::Frames(frames) => frames,
            Self::OfFree(thousandths) => {
                let frames = u128::from(least_free) * u128::from(thousandths) / 1000;
                u64::try_from(frames).unwrap_or(u64::MAX)
            }
        }
    }
}

/// Frames as [`read_frames_len`], or a share as `97%` and `97.5%`.
///
/// # Errors
/// What was expected.
pub fn read_squeeze(text: &str) -> Result<SqueezeSize, String> {
    let Some(percent) = text.strip_suffix('%') else {
        return read_frames_len(text).map(SqueezeSize::Frames);
    };
    let (whole, tenths) = percent.split_once('.').unwrap_or((percent, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let thousandths = (digits(whole) && digits(tenths) && tenths.len() == 1)
        .then(|| format!("{whole}{tenths}").parse().ok())
        .flatten();
    match thousandths {
        Some(share @ 0..=1000) => Ok(SqueezeSize::OfFree(share)),
        _ => Err("expected a share from 0% to 100%, with one decimal at most, as 97.5%".into()),
    }
}

/// MiB: `4GiB`, or `512` MiB.
///
/// # Errors
/// What was expected.
pub fn read_mib(text: &str) -> Result<u64, String> {
    match read_pieces(text, 1 << 20, "4GiB, 512MiB or a number of MiB, 512")? {
        mib @ 1..=0x4000_0000 => Ok(mib),
        mib => Err(format!("{mib} MiB is not in 1..=1073741824")),
    }
}

/// Frames as a person reads them: `40000 (156.2 MiB)`.
#[must_use]
pub fn shown_frames(frames: u64) -> String {
    let mib = frames as f64 * Frame::BYTES as f64 / f64::from(1 << 20);
    match mib >= 10_240.0 {
        true => format!("{frames} ({:.1} GiB)", mib / 1024.0),
        false => format!("{frames} ({mib:.1} MiB)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_with_a_binary_unit_or_without() {
        assert_eq!(read_bytes("64KiB"), Ok(65_536));
        assert_eq!(read_bytes("1M"), Ok(1 << 20));
        assert_eq!(read_bytes("70000"), Ok(70_000));
        for bad in [
            "",
            "KiB",
            "64KB",
            "6 4",
            "-1",
            "1.5",
            "1.MiB",
            ".5MiB",
            "1.5.5MiB",
            "1.+5MiB",
            "99999999999GiB",
        ] {
            let error = read_bytes(bad).unwrap_err();
            assert!(error.contains("expected a size as 64KiB"), "{bad}: {error}");
        }
        assert!(read_bytes("0").unwrap_err().contains("0 bytes"));
        assert!(read_bytes("0KiB").is_err());
        let binary = read_bytes("5GB").unwrap_err();
        assert!(binary.ends_with(": units are binary, 5GiB"), "{binary}");
    }

    #[test]
    fn a_squeeze_is_frames_or_a_share_of_what_is_always_free() {
        let frames = |text, free| read_squeeze(text).map(|squeeze| squeeze.frames(free));
        assert_eq!(frames("40000", 7), Ok(40_000));
        assert_eq!(frames("1GiB", 7), Ok(1 << 18));
        assert_eq!(frames("97.5%", 200), Ok(195));
        assert_eq!(frames("97%", 99), Ok(96));
        assert_eq!(frames("0%", 99), Ok(0));
        assert_eq!(frames("100%", u64::MAX), Ok(u64::MAX));
        for bad in [
            "%",
            "-1%",
            "+1%",
            "100.1%",
            "97.55%",
            "97.%",
            ".5.5%",
            "1e2%",
            "99999999999999999999%",
        ] {
            let error = read_squeeze(bad).unwrap_err();
            assert!(error.contains("from 0% to 100%"), "{bad}: {error}");
        }
        assert!(read_squeeze("many").unwrap_err().contains("5GiB"));
    }

    #[test]
    fn a_plain_number_is_what_the_option_counts() {
        assert_eq!(read_frames_len("40000"), Ok(40_000));
        assert_eq!(read_frames_len("5GiB"), Ok(5 << 18));
        assert_eq!(read_frames_len("1"), Ok(1));
        assert_eq!(read_frames_len("1B"), Ok(1), "a part of a frame is one");
        assert_eq!(read_frames_len("0"), Ok(0));
        assert_eq!(read_mib("512"), Ok(512));
        assert_eq!(read_mib("4GiB"), Ok(4096));
        assert_eq!(read_mib("1KiB"), Ok(1));
        for bad in ["0", "2000000000", "1PiB", "many"] {
            assert!(read_mib(bad).is_err(), "{bad}");
        }
        for bad in ["many", "5 GiB", "18446744073709551615", "-5GiB"] {
            let error = read_frames_len(bad).unwrap_err();
            assert!(error.contains("expected a size as 5GiB"), "{bad}: {error}");
        }
        // What the tool prints can be given back.
        assert_eq!(read_frames_len("12.7GiB"), Ok(3_329_229));
        assert_eq!(read_frames_len("0.6MiB"), Ok(154));
        assert_eq!(read_frames_len("2.5K"), Ok(1));
        assert_eq!(read_frames_len("0.5B"), Ok(0));
        assert_eq!(read_bytes("1.5MiB"), Ok(3 << 19));
        assert_eq!(read_mib("1.5GiB"), Ok(1536));
        for bad in [
            "17179869184.5TiB",
            "1.0000000000000GiB",
            "999999999999999999999999999999999999999.5B",
        ] {
            assert!(read_frames_len(bad).is_err(), "{bad}");
        }
        assert_eq!(shown_frames(40_000), "40000 (156.2 MiB)");
        assert_eq!(shown_frames(5 << 20), "5242880 (20.0 GiB)");
    }
}
