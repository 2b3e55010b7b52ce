//! LEB128 numbers, and signed ones in zigzag: 0, -1, 1, -2, ... as 0, 1, 2, 3, ...

/// Takes one number off the front of `bytes`; `None` if it does not end, or is above 2^64 - 1.
/// `bytes` is unchanged then.
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().enumerate().take(10) {
        let group = u64::from(byte & 0x7f);
        // The tenth byte has room for bit 63 alone.
        if i == 9 && group > 1 {
            return None;
        }
        value |= group << (7 * i);
        if byte & 0x80 == 0 {
            *bytes = &bytes[i + 1..];
            return Some(value);
        }
    }
    None
}

/// As [`take`], signed.
pub(super) fn take_signed(bytes: &mut &[u8]) -> Option<i64> {
    take(bytes).map(|v| (v >> 1) as i64 ^ -((v & 1) as i64))
}

/// Appends `value` in as few bytes as it needs.
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// As [`put`], signed.
pub(super) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, (value << 1 ^ value >> 63) as u64);
}

pub(super) fn used_up(column: &str, rest: &[u8]) -> Result<(), String> {
    if rest.is_empty() {
        return Ok(());
    }
    let n = rest.len();
    Err(format!(
        "the column `{column}` has {n} bytes more than are used, expected none"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_take_as_few_bytes_as_they_need() {
        for (value, len_bytes) in [
            (0, 1),
            (127, 1),
            (128, 2),
            (16_383, 2),
            (16_384, 3),
            (u64::MAX >> 1, 9),
            (u64::MAX, 10),
        ] {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            assert_eq!(bytes.len(), len_bytes);
            bytes.push(0x55);
            let mut rest = &bytes[..];
            assert_eq!(take(&mut rest), Some(value));
            assert_eq!(rest, [0x55]);
        }
        for value in [0, -1, 1, 63, -64, 64, i64::MAX, i64::MIN] {
            let mut bytes = Vec::new();
            put_signed(&mut bytes, value);
            assert_eq!(take_signed(&mut &bytes[..]), Some(value));
        }
    }

    #[test]
    fn numbers_that_do_not_end_or_do_not_fit_are_refused() {
        let too_large = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        for bytes in [&[][..], &[0x80], &[0x80; 11], &too_large] {
            let mut rest = bytes;
            assert_eq!(take(&mut rest), None);
            assert_eq!(rest, bytes);
        }
    }
}
