/// Bytes on a command line, with a binary unit or without.
///
/// # Errors
/// What was expected.
pub(crate) fn read_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "B" => Some(1),
        "K" | "KiB" => Some(1 << 10),
        "M" | "MiB" => Some(1 << 20),
        "G" | "GiB" => Some(1 << 30),
        _ => None,
    };
    let bytes = digits.parse::<u64>().ok().zip(unit);
    match bytes.and_then(|(number, unit)| number.checked_mul(unit)) {
        None => Err("expected a size as 64KiB, 1MiB or 70000".into()),
        Some(0) => Err("a size of 0 bytes is none, expected 1 byte or more".into()),
        Some(bytes) => Ok(bytes),
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
        for bad in ["", "KiB", "64KB", "6 4", "-1", "1.5MiB", "99999999999GiB"] {
            let error = read_bytes(bad).unwrap_err();
            assert!(error.contains("expected a size as 64KiB"), "{bad}: {error}");
        }
        assert!(read_bytes("0").unwrap_err().contains("0 bytes"));
        assert!(read_bytes("0KiB").is_err());
    }
}
