//! The names of allocation flags, as a kernel's own `format` file gives them: which number has which name differs between
//! kernels, and only names keep their meaning.

/// Flags with their names, in the order in which the kernel looks for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::trace) struct FlagTable(Vec<(u64, String)>);

/// The numbers that Linux 6.10 to 6.13 leave out of the text, by the names that stand in their place. Those of the last ones
/// depend on how the kernel was built: they follow each other in this order, as far as they are there.
const NAMED_BITS: [&str; 28] = [
    "___GFP_DMA_BIT",
    "___GFP_HIGHMEM_BIT",
    "___GFP_DMA32_BIT",
    "___GFP_MOVABLE_BIT",
    "___GFP_RECLAIMABLE_BIT",
    "___GFP_HIGH_BIT",
    "___GFP_IO_BIT",
    "___GFP_FS_BIT",
    "___GFP_ZERO_BIT",
    "___GFP_UNUSED_BIT",
    "___GFP_DIRECT_RECLAIM_BIT",
    "___GFP_KSWAPD_RECLAIM_BIT",
    "___GFP_WRITE_BIT",
    "___GFP_NOWARN_BIT",
    "___GFP_RETRY_MAYFAIL_BIT",
    "___GFP_NOFAIL_BIT",
    "___GFP_NORETRY_BIT",
    "___GFP_MEMALLOC_BIT",
    "___GFP_COMP_BIT",
    "___GFP_NOMEMALLOC_BIT",
    "___GFP_HARDWALL_BIT",
    "___GFP_THISNODE_BIT",
    "___GFP_ACCOUNT_BIT",
    "___GFP_ZEROTAGS_BIT",
    "___GFP_SKIP_ZERO_BIT",
    "___GFP_SKIP_KASAN_BIT",
    "___GFP_NOLOCKDEP_BIT",
    "___GFP_NO_OBJ_EXT_BIT",
];

/// From here on a bit's number depends on how the kernel was built.
const FIRST_CHOSEN: usize = 24;

/// Linux has 35 names, none longer than 24 bytes.
const NAMES_MAX: usize = 256;
const NAME_BYTES_MAX: usize = 64;

/// So deep may brackets and signs in front of a number stand.
const DEPTH_MAX: u32 = 64;

impl FlagTable {
    /// Reads the table in the last line of the event's format: `{EXPRESSION, "NAME"}` again and again.
    ///
    /// # Errors
    /// If a number cannot be worked out, or there is no name at all, or more or longer ones than any kernel has.
    pub(super) fn read(format: &str) -> Result<Self, String> {
        let printed = format.find("print fmt:").map_or("", |at| &format[at..]);
        let table = printed
            .find("__print_flags(")
            .map_or("", |at| &printed[at..]);
        let chosen: Vec<&str> = NAMED_BITS[FIRST_CHOSEN..]
            .iter()
            .copied()
            .filter(|name| table.contains(name))
            .collect();
        let mut flags = Vec::new();
        let mut rest = table;
        while let Some(start) = rest.find('{') {
            let entry = &rest[start + 1..];
            let Some(end) = entry.find('}') else { break };
            rest = &entry[end..];
            let entry = &entry[..end];
            // The table's end is `{ 0, NULL }`, in whatever words.
            let Some((expression, name)) = entry.split_once('"') else {
                continue;
            };
            let name = name.split('"').next().unwrap_or_default();
            if name.len() > NAME_BYTES_MAX {
                return Err(format!(
                    "a name of {} bytes among gfp_flags, expected at most {NAME_BYTES_MAX}",
                    name.len()
                ));
            }
            if flags.len() == NAMES_MAX {
                return Err(format!(
                    "gfp_flags have more than {NAMES_MAX} names, expected no more"
                ));
            }
            let expression = expression.trim().trim_end_matches(',');
            let mut reader = Expression {
                rest: expression,
                chosen: &chosen,
                depth: 0,
            };
            let bits = reader.whole().ok_or_else(|| {
                let shown: String = expression.chars().take(60).collect();
                let shown = crate::printable::text(&shown);
                format!("`{shown}` is no number of {}", crate::printable::text(name))
            })?;
            flags.push((bits, name.to_owned()));
        }
        match flags.is_empty() {
            true => Err("there are no names of gfp_flags, expected __print_flags".into()),
            false => Ok(Self(flags)),
        }
    }

    /// The flags as the kernel prints them.
    pub(in crate::trace) fn text(&self, bits: u64) -> String {
        if bits == 0 {
            return "none".to_owned();
        }
        let mut left = bits;
        let mut words: Vec<&str> = Vec::new();
        for (of, name) in &self.0 {
            if left == 0 {
                break;
            }
            if left & of == *of {
                left &= !of;
                words.push(name);
            }
        }
        let rest = format!("{left:#x}");
        if left != 0 {
            words.push(&rest);
        }
        words.join("|")
    }
}

/// What a C compiler works out of such an expression: `|`, `&`, `+`, `-`, `<<`, `~`, brackets, and casts, which change
/// nothing here.
struct Expression<'a> {
    rest: &'a str,
    chosen: &'a [&'a str],
    depth: u32,
}

impl<'a> Expression<'a> {
    fn whole(&mut self) -> Option<u64> {
        let value = self.or()?;
        self.skip();
        self.rest.is_empty().then_some(value)
    }

    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn takes(&mut self, sign: &str) -> bool {
        self.skip();
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn or(&mut self) -> Option<u64> {
        let mut value = self.and()?;
        while self.takes("|") {
            value |= self.and()?;
        }
        Some(value)
    }

    fn and(&mut self) -> Option<u64> {
        let mut value = self.shift()?;
        while self.takes("&") {
            value &= self.shift()?;
        }
        Some(value)
    }

    fn shift(&mut self) -> Option<u64> {
        let mut value = self.sum()?;
        while self.takes("<<") {
            value = value.checked_shl(u32::try_from(self.sum()?).ok()?)?;
        }
        Some(value)
    }

    fn sum(&mut self) -> Option<u64> {
        let mut value = self.single()?;
        loop {
            if self.takes("+") {
                value = value.wrapping_add(self.single()?);
            } else if self.takes("-") {
                value = value.wrapping_sub(self.single()?);
            } else {
                return Some(value);
            }
        }
    }

    fn single(&mut self) -> Option<u64> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let value = self.within();
        self.depth -= 1;
        value
    }

    fn within(&mut self) -> Option<u64> {
        if self.takes("~") {
            return Some(!self.single()?);
        }
        if self.takes("(") {
            if self.is_type() {
                return self.single();
            }
            let value = self.or()?;
            return self.takes(")").then_some(value);
        }
        self.skip();
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        self.number(word)
    }

    /// Passes a type and its bracket, behind the bracket in front of it.
    fn is_type(&mut self) -> bool {
        let Some((inside, rest)) = self.rest.split_once(')') else {
            return false;
        };
        let mut words = inside.split_whitespace();
        let is_word = |word: &str| {
            word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && !word.ends_with("_BIT")
                && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let is_type = !inside.trim().is_empty() && words.all(is_word);
        if is_type {
            self.rest = rest;
        }
        is_type
    }

    fn number(&self, word: &str) -> Option<u64> {
        if let Some(bit) = NAMED_BITS.iter().position(|name| *name == word) {
            let chosen = self.chosen.iter().position(|name| *name == word);
            return Some(match chosen {
                Some(nth) => (FIRST_CHOSEN + nth) as u64,
                None => bit as u64,
            });
        }
        let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
        match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
            Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok(),
            None => digits.parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &str) -> Result<FlagTable, String> {
        FlagTable::read(&format!(
            "print fmt: \"x\", (REC->gfp_flags) ? __print_flags(REC->gfp_flags, \"|\", {entries}, {{ 0, ((void *)0) }} ) : \"none\""
        ))
    }

    #[test]
    fn flags_have_the_names_of_the_kernel_whatever_it_writes_them_as() {
        let of_618 = "{( unsigned long)(((( gfp_t)(((((1UL))) << (10))|((((1UL))) << (11)))) | (( gfp_t)((((1UL))) << (6)))) & ~(( gfp_t)((((1UL))) << (10)))), \"GFP_X\"}, {( unsigned long)(( gfp_t)((((1UL))) << (13))), \"__GFP_NOWARN\"}";
        let of_310 = "{(unsigned long)(((( gfp_t)0x800u) | (( gfp_t)0x40u))), \"GFP_X\"}, {(unsigned long)(( gfp_t)0x2000u), \"__GFP_NOWARN\"}";
        let of_611 = "{( unsigned long)((( gfp_t)((((1UL))) << (___GFP_KSWAPD_RECLAIM_BIT))) | (( gfp_t)((((1UL))) << (___GFP_IO_BIT)))), \"GFP_X\"}, {( unsigned long)(( gfp_t)((((1UL))) << (___GFP_NOWARN_BIT))), \"__GFP_NOWARN\"}";
        for entries in [of_618, of_310, of_611] {
            let table = table(entries).unwrap();
            assert_eq!(table.text(0x2840), "GFP_X|__GFP_NOWARN", "{entries}");
            assert_eq!(table.text(0x40), "0x40");
            assert_eq!(table.text(0x2000), "__GFP_NOWARN");
            assert_eq!(table.text(0), "none");
        }
        // Of a kernel without KASAN the last ones move down.
        let table = table("{(1UL << (___GFP_NO_OBJ_EXT_BIT)), \"__GFP_NO_OBJ_EXT\"}").unwrap();
        assert_eq!(table.text(1 << 24), "__GFP_NO_OBJ_EXT");
    }

    #[test]
    fn what_is_no_number_is_refused_and_brackets_without_end_do_not_go_deep() {
        for bad in [
            "1 << 64",
            "x",
            "",
            "(1",
            "1)",
            "((gfp_t))",
            "1 << ~0",
            "1 2",
        ] {
            let error = table(&format!("{{{bad}, \"A\"}}")).unwrap_err();
            assert!(error.ends_with("is no number of A"), "{bad}: {error}");
        }
        let deep = "(".repeat(100_000) + "1" + &")".repeat(100_000);
        assert!(table(&format!("{{{deep}, \"A\"}}")).is_err());
        assert!(table("{ 1, A }").unwrap_err().contains("no names"));
    }

    #[test]
    fn a_table_has_no_more_entries_and_no_longer_names_than_a_kernel_s() {
        let most = vec!["{1, \"A\"}"; 256].join(", ");
        assert!(table(&most).is_ok());
        let more = table(&format!("{most}, {{1, \"A\"}}")).unwrap_err();
        assert_eq!(more, "gfp_flags have more than 256 names, expected no more");
        let name = "N".repeat(64);
        assert_eq!(table(&format!("{{1, \"{name}\"}}")).unwrap().text(1), name);
        let long = table(&format!("{{1, \"{name}N\"}}")).unwrap_err();
        assert_eq!(
            long,
            "a name of 65 bytes among gfp_flags, expected at most 64"
        );
    }

    /// As `trace_print_flags_seq` does, which no name of no flags follows.
    #[test]
    fn no_name_is_looked_for_once_no_flag_is_left() {
        let table = table("{1, \"A\"}, {0, \"NONE\"}, {2, \"B\"}").unwrap();
        assert_eq!(table.text(1), "A");
        assert_eq!(table.text(3), "A|NONE|B");
    }
}
