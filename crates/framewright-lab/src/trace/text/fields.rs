//! Numbers, times and `key=value` words of one line, as the kernel prints them. Everything works on bytes: a
//! trace's text need not be UTF-8.

use crate::printable;
use std::fmt;

/// Why a number is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadNumber {
    /// No digit, or something beside digits.
    NotANumber,
    /// Above 2^64 - 1.
    TooLarge,
}

impl fmt::Display for BadNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotANumber => "is not a decimal or 0x number",
            Self::TooLarge => "is above 2^64 - 1",
        })
    }
}

/// A decimal number, or a hexadecimal one after `0x`.
pub(super) fn number(text: &[u8]) -> Result<u64, BadNumber> {
    match text {
        [b'0', b'x' | b'X', digits @ ..] => hexadecimal(digits),
        _ => decimal(text),
    }
}

/// Digits alone.
pub(super) fn decimal(text: &[u8]) -> Result<u64, BadNumber> {
    if text.is_empty() {
        return Err(BadNumber::NotANumber);
    }
    let mut value = 0u64;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(BadNumber::NotANumber);
        }
        value = value
            .checked_mul(10)
            .and_then(|v| v.checked_add(u64::from(digit)))
            .ok_or(BadNumber::TooLarge)?;
    }
    Ok(value)
}

fn hexadecimal(digits: &[u8]) -> Result<u64, BadNumber> {
    if digits.is_empty() {
        return Err(BadNumber::NotANumber);
    }
    let mut value = 0u64;
    for &byte in digits {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return Err(BadNumber::NotANumber),
        };
        if value >> 60 != 0 {
            return Err(BadNumber::TooLarge);
        }
        value = value << 4 | u64::from(digit);
    }
    Ok(value)
}

/// The `key=value` words of an event, in order; other words are passed over.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.0.is_empty() {
            let end = self
                .0
                .iter()
                .position(|&b| b == b' ')
                .unwrap_or(self.0.len());
            let (word, rest) = self.0.split_at(end);
            self.0 = rest.get(1..).unwrap_or_default();
            if let Some(at) = word.iter().position(|&b| b == b'=') {
                let value = &word[at + 1..];
                return Some((&word[..at], value.strip_suffix(b",").unwrap_or(value)));
            }
        }
        None
    }
}

/// The words of a line with where each starts, cut at blanks and tabs.
pub(super) struct FieldWords<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> FieldWords<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0 }
    }

    /// Where the word last given ends.
    pub(super) fn at(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for FieldWords<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let is_blank = |b: u8| b == b' ' || b == b'\t';
        while self.at < self.line.len() && is_blank(self.line[self.at]) {
            self.at += 1;
        }
        let start = self.at;
        while self.at < self.line.len() && !is_blank(self.line[self.at]) {
            self.at += 1;
        }
        (start < self.at).then(|| (start, &self.line[start..self.at]))
    }
}

/// A time as events carry it, in nanoseconds: `seconds.fraction` with up to nine digits behind
/// the point, or the bare number of a clock without a unit.
///
/// The text is without the colon. `None` if it is no time, or one above 2^64 ns (584 years).
pub(super) fn time_ns(text: &[u8]) -> Option<u64> {
    let Some(point) = text.iter().position(|&b| b == b'.') else {
        return decimal(text).ok();
    };
    let fraction = &text[point + 1..];
    let missing = 9usize.checked_sub(fraction.len())?;
    let seconds = decimal(&text[..point]).ok()?;
    let fraction = decimal(fraction).ok()? * 10u64.pow(missing as u32);
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// A piece of input as error messages show it: printable, and not longer than a line.
pub(super) fn shown(text: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 100;
    let cut = text.len() > SHOWN_BYTES_MAX;
    let head = &text[..text.len().min(SHOWN_BYTES_MAX)];
    let mut shown = format!("`{}", printable::bytes(head));
    if cut {
        shown.push_str("...");
    }
    shown.push('`');
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_or_hexadecimal_and_never_wrap() {
        assert_eq!(number(b"1534487"), Ok(1_534_487));
        assert_eq!(number(b"0x5A2fd6"), Ok(0x5a_2fd6));
        assert_eq!(number(b"18446744073709551615"), Ok(u64::MAX));
        assert_eq!(number(b"0xffffffffffffffff"), Ok(u64::MAX));
        assert_eq!(number(b"18446744073709551616"), Err(BadNumber::TooLarge));
        assert_eq!(number(b"0x10000000000000000"), Err(BadNumber::TooLarge));
        for text in [
            &b""[..],
            b"0x",
            b"-1",
            b"12a",
            b"0xg",
            b"1 2",
            b"\xff",
            b"x10",
        ] {
            assert_eq!(number(text), Err(BadNumber::NotANumber));
        }
    }

    #[test]
    fn fields_are_the_words_with_an_equals_sign() {
        let text = b"page=          (null) pfn=0 zone_end=0x10, mode=sync pfn=0x1 (1) =x";
        let all: Vec<_> = Fields(text).collect();
        let expected: [(&[u8], &[u8]); 6] = [
            (b"page", b""),
            (b"pfn", b"0"),
            (b"zone_end", b"0x10"),
            (b"mode", b"sync"),
            (b"pfn", b"0x1"),
            (b"", b"x"),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn times_have_up_to_nine_digits_behind_the_point() {
        assert_eq!(time_ns(b"1781.547355"), Some(1_781_547_355_000));
        assert_eq!(time_ns(b"1477.870693971"), Some(1_477_870_693_971));
        assert_eq!(time_ns(b"3532202176001"), Some(3_532_202_176_001));
        for text in [
            &b""[..],
            b".",
            b"1.",
            b".5",
            b"1.1234567890",
            b"18446744074.0",
            b"1:5",
        ] {
            assert_eq!(time_ns(text), None);
        }
    }

    #[test]
    fn what_is_shown_is_printable() {
        assert_eq!(shown(b"a\xffb\tc"), "`a\\xffb\\tc`");
        assert_eq!(shown("a\u{202e}b".as_bytes()), "`a\\u{202e}b`");
        assert_eq!(shown(&[b'x'; 101]), format!("`{}...`", "x".repeat(100)));
    }
}
