//! Allocation flags by their names.
//!
//! Names keep their meaning from one kernel to the next, values do not. The bits given here are
//! those of Linux 6.18 with every option that adds a flag; names that older kernels used for the
//! same thing get the same bits, and names of flags that are gone are known and get none.

/// What a `gfp_flags=` text says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct GfpFlags {
    /// The flags, as Linux 6.18 numbers them.
    pub(super) bits: u32,
    /// Whether any of it was given as a name; the numbers of other kernels tell nothing about
    /// mobility.
    pub(super) is_named: bool,
    /// Names that stand in no list here.
    pub(super) unknown_names: u16,
}

pub(super) const MOVABLE: u32 = 1 << 3;
pub(super) const RECLAIMABLE: u32 = 1 << 4;

const DMA: u32 = 1 << 0;
const HIGHMEM: u32 = 1 << 1;
const DMA32: u32 = 1 << 2;
const HIGH: u32 = 1 << 5;
const IO: u32 = 1 << 6;
const FS: u32 = 1 << 7;
const ZERO: u32 = 1 << 8;
const DIRECT_RECLAIM: u32 = 1 << 10;
const KSWAPD_RECLAIM: u32 = 1 << 11;
const WRITE: u32 = 1 << 12;
const NOWARN: u32 = 1 << 13;
const RETRY_MAYFAIL: u32 = 1 << 14;
const NOFAIL: u32 = 1 << 15;
const NORETRY: u32 = 1 << 16;
const MEMALLOC: u32 = 1 << 17;
const COMP: u32 = 1 << 18;
const NOMEMALLOC: u32 = 1 << 19;
const HARDWALL: u32 = 1 << 20;
const THISNODE: u32 = 1 << 21;
const ACCOUNT: u32 = 1 << 22;
const ZEROTAGS: u32 = 1 << 23;
// These four share bits with each other in kernels built without some of them; a name decides.
const SKIP_ZERO: u32 = 1 << 24;
const SKIP_KASAN: u32 = 1 << 25;
const NOLOCKDEP: u32 = 1 << 26;
const NO_OBJ_EXT: u32 = 1 << 27;

const RECLAIM: u32 = DIRECT_RECLAIM | KSWAPD_RECLAIM;
const KERNEL: u32 = RECLAIM | IO | FS;
const USER: u32 = KERNEL | HARDWALL;
const HIGHUSER: u32 = USER | HIGHMEM;
const HIGHUSER_MOVABLE: u32 = HIGHUSER | MOVABLE;
const TRANSHUGE_LIGHT: u32 = (HIGHUSER_MOVABLE | COMP | NOMEMALLOC | NOWARN) & !RECLAIM;

/// The bits of one name, or `None` if it is unknown.
fn bits_of(name: &[u8]) -> Option<u32> {
    if let Some(bits) = combination(name) {
        return Some(bits);
    }
    // Kernels before 4.5 print single flags without the underscores.
    let single = name
        .strip_prefix(b"__GFP_")
        .or_else(|| name.strip_prefix(b"GFP_"))?;
    Some(match single {
        b"DMA" => DMA,
        b"HIGHMEM" => HIGHMEM,
        b"DMA32" => DMA32,
        b"MOVABLE" => MOVABLE,
        b"RECLAIMABLE" => RECLAIMABLE,
        b"HIGH" | b"ATOMIC" => HIGH,
        b"IO" => IO,
        b"FS" => FS,
        b"ZERO" => ZERO,
        b"DIRECT_RECLAIM" | b"WAIT" => DIRECT_RECLAIM,
        b"KSWAPD_RECLAIM" => KSWAPD_RECLAIM,
        b"RECLAIM" => RECLAIM,
        b"WRITE" => WRITE,
        b"NOWARN" => NOWARN,
        b"RETRY_MAYFAIL" | b"REPEAT" => RETRY_MAYFAIL,
        b"NOFAIL" => NOFAIL,
        b"NORETRY" => NORETRY,
        b"MEMALLOC" => MEMALLOC,
        b"COMP" => COMP,
        b"NOMEMALLOC" => NOMEMALLOC,
        b"HARDWALL" => HARDWALL,
        b"THISNODE" => THISNODE,
        b"ACCOUNT" => ACCOUNT,
        b"ZEROTAGS" => ZEROTAGS,
        b"SKIP_ZERO" => SKIP_ZERO,
        b"SKIP_KASAN" | b"SKIP_KASAN_POISON" | b"SKIP_KASAN_UNPOISON" => SKIP_KASAN,
        b"NOLOCKDEP" => NOLOCKDEP,
        b"NO_OBJ_EXT" => NO_OBJ_EXT,
        // Flags that are gone and have no heir.
        b"COLD" | b"NOTRACK" | b"OTHER_NODE" | b"NOACCOUNT" | b"NO_KSWAPD" => 0,
        _ => return None,
    })
}

/// The names that stand for several flags at once.
fn combination(name: &[u8]) -> Option<u32> {
    Some(match name {
        b"GFP_TRANSHUGE" => TRANSHUGE_LIGHT | DIRECT_RECLAIM,
        b"GFP_TRANSHUGE_LIGHT" => TRANSHUGE_LIGHT,
        b"GFP_HIGHUSER_MOVABLE" => HIGHUSER_MOVABLE,
        b"GFP_HIGHUSER" => HIGHUSER,
        b"GFP_USER" => USER,
        b"GFP_TEMPORARY" => KERNEL | RECLAIMABLE,
        b"GFP_KERNEL_ACCOUNT" => KERNEL | ACCOUNT,
        b"GFP_KERNEL" => KERNEL,
        b"GFP_NOFS" => RECLAIM | IO,
        b"GFP_NOIO" => RECLAIM,
        b"GFP_ATOMIC" => HIGH | KSWAPD_RECLAIM,
        b"GFP_NOWAIT" => KSWAPD_RECLAIM | NOWARN,
        _ => return None,
    })
}

/// Reads `NAME|NAME|0x..`, `none`, or one number; `None` if a number is not one.
pub(super) fn parse(text: &[u8]) -> Option<GfpFlags> {
    let mut flags = GfpFlags::default();
    if text == b"none" {
        flags.is_named = true;
        return Some(flags);
    }
    for part in text.split(|&b| b == b'|') {
        if part.first().is_some_and(u8::is_ascii_digit) {
            flags.bits |= u32::try_from(super::fields::number(part).ok()?).ok()?;
        } else if let Some(bits) = bits_of(part) {
            flags.bits |= bits;
            flags.is_named = true;
        } else {
            let well_formed =
                !part.is_empty() && part.iter().all(|&b| b.is_ascii_alphanumeric() || b == b'_');
            if !well_formed {
                return None;
            }
            flags.unknown_names += 1;
        }
    }
    Some(flags)
}

/// Names of several flags, those of the most flags first, and then of single ones: what [`names`] looks for in turn.
const SHOWN: [(&str, u32); 36] = [
    ("GFP_TRANSHUGE", TRANSHUGE_LIGHT | DIRECT_RECLAIM),
    ("GFP_TRANSHUGE_LIGHT", TRANSHUGE_LIGHT),
    ("GFP_HIGHUSER_MOVABLE", HIGHUSER_MOVABLE),
    ("GFP_HIGHUSER", HIGHUSER),
    ("GFP_USER", USER),
    ("GFP_KERNEL_ACCOUNT", KERNEL | ACCOUNT),
    ("GFP_KERNEL", KERNEL),
    ("GFP_NOFS", RECLAIM | IO),
    ("GFP_ATOMIC", HIGH | KSWAPD_RECLAIM),
    ("GFP_NOIO", RECLAIM),
    ("GFP_NOWAIT", KSWAPD_RECLAIM | NOWARN),
    ("__GFP_DMA", DMA),
    ("__GFP_HIGHMEM", HIGHMEM),
    ("__GFP_DMA32", DMA32),
    ("__GFP_MOVABLE", MOVABLE),
    ("__GFP_RECLAIMABLE", RECLAIMABLE),
    ("__GFP_HIGH", HIGH),
    ("__GFP_IO", IO),
    ("__GFP_FS", FS),
    ("__GFP_ZERO", ZERO),
    ("__GFP_DIRECT_RECLAIM", DIRECT_RECLAIM),
    ("__GFP_KSWAPD_RECLAIM", KSWAPD_RECLAIM),
    ("__GFP_WRITE", WRITE),
    ("__GFP_NOWARN", NOWARN),
    ("__GFP_RETRY_MAYFAIL", RETRY_MAYFAIL),
    ("__GFP_NOFAIL", NOFAIL),
    ("__GFP_NORETRY", NORETRY),
    ("__GFP_MEMALLOC", MEMALLOC),
    ("__GFP_COMP", COMP),
    ("__GFP_NOMEMALLOC", NOMEMALLOC),
    ("__GFP_HARDWALL", HARDWALL),
    ("__GFP_THISNODE", THISNODE),
    ("__GFP_ACCOUNT", ACCOUNT),
    ("__GFP_ZEROTAGS", ZEROTAGS),
    ("__GFP_SKIP_ZERO", SKIP_ZERO),
    ("__GFP_SKIP_KASAN", SKIP_KASAN),
];

/// The flags by the names that Linux 6.18 prints, between bars; what has no name here stands as a number, and no flag at
/// all as `none`.
pub(crate) fn names(bits: u32) -> String {
    if bits == 0 {
        return "none".to_owned();
    }
    let mut left = bits;
    let mut shown: Vec<String> = Vec::new();
    for (name, of) in SHOWN {
        if left & of == of {
            left &= !of;
            shown.push(name.to_owned());
        }
    }
    if left != 0 {
        shown.push(format!("{left:#x}"));
    }
    shown.join("|")
}

/// The few dozen flag texts that a trace repeats, each read once.
#[derive(Debug)]
pub(super) struct Memo {
    places: Vec<(Vec<u8>, GfpFlags)>,
}

impl Memo {
    /// A power of two well above the 30 to 40 texts of a trace, so that few share a place.
    const PLACES: usize = 256;

    pub(super) fn new() -> Self {
        Self {
            places: vec![(Vec::new(), GfpFlags::default()); Self::PLACES],
        }
    }

    /// As [`parse`]; costs one comparison where the text was last seen in its place.
    pub(super) fn parse(&mut self, text: &[u8]) -> Option<GfpFlags> {
        if text.is_empty() {
            return None;
        }
        let place = &mut self.places[Self::place(text)];
        if place.0 != text {
            let flags = parse(text)?;
            // One flag text has at most some 30 names: longer ones are not worth keeping.
            if text.len() > 1024 {
                return Some(flags);
            }
            place.0.clear();
            place.0.extend_from_slice(text);
            place.1 = flags;
        }
        Some(place.1)
    }

    fn place(text: &[u8]) -> usize {
        // The length and three bytes that tell the usual texts apart; a collision costs a parse.
        let n = text.len();
        let at = |i: usize| text.get(i).map_or(0, |&b| usize::from(b));
        (n.wrapping_mul(31) ^ at(n / 2).wrapping_mul(7) ^ at(n.wrapping_sub(3)) ^ at(7) << 2)
            % Self::PLACES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_give_the_values_that_linux_6_18_printed_beside_them() {
        // Each pair was printed by one kernel: the names by the event, the number by its fields.
        for (text, bits) in [
            (
                "__GFP_RECLAIMABLE|__GFP_IO|__GFP_FS|__GFP_NOWARN|__GFP_NORETRY|__GFP_COMP|__GFP_NOMEMALLOC",
                0xd_20d0,
            ),
            ("GFP_KERNEL_ACCOUNT|__GFP_ZERO|__GFP_COMP", 0x44_0dc0),
            ("GFP_HIGHUSER_MOVABLE|__GFP_COMP", 0x14_0cca),
            ("GFP_NOWAIT", 0x2800),
            ("none", 0),
            ("0x440dc0", 0x44_0dc0),
            ("GFP_NOWAIT|0x1000000", 0x100_2800),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap().bits, bits, "{text}");
        }
    }

    #[test]
    fn flags_are_shown_by_names_that_are_read_back() {
        for (bits, text) in [
            (0, "none"),
            (0xcc0, "GFP_KERNEL"),
            (0x820, "GFP_ATOMIC"),
            (0x2800, "GFP_NOWAIT"),
            (0x5_2820, "GFP_ATOMIC|__GFP_NOWARN|__GFP_NORETRY|__GFP_COMP"),
            (0x14_0cca, "GFP_HIGHUSER_MOVABLE|__GFP_COMP"),
            (1 << 9, "0x200"),
            (0xcc0 | 1 << 31, "GFP_KERNEL|0x80000000"),
        ] {
            assert_eq!(names(bits), text);
        }
        for bit in 0..32 {
            for bits in [1_u32 << bit, 0xcc0 | 1 << bit, !(1 << bit)] {
                let text = names(bits);
                assert_eq!(parse(text.as_bytes()).unwrap().bits, bits, "{text}");
            }
        }
    }

    #[test]
    fn old_names_mean_what_they_meant() {
        let old = parse(b"GFP_TEMPORARY|GFP_NOWARN|__GFP_REPEAT|__GFP_COLD").unwrap();
        assert_eq!(old.bits & RECLAIMABLE, RECLAIMABLE);
        assert_eq!(old.bits & (NOWARN | RETRY_MAYFAIL), NOWARN | RETRY_MAYFAIL);
        assert_eq!(old.unknown_names, 0);
    }

    #[test]
    fn unknown_names_are_counted_and_broken_ones_refused() {
        let flags = parse(b"GFP_KERNEL|__GFP_BRAND_NEW").unwrap();
        assert_eq!((flags.bits, flags.unknown_names), (KERNEL, 1));
        for text in [
            "",
            "GFP_KERNEL|",
            "|",
            "GFP_\u{fffd}",
            "0x",
            "0x1ffffffff",
            "12ab",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_memo_says_what_parse_says() {
        let texts = [
            "GFP_KERNEL",
            "GFP_NOWAIT",
            "GFP_KERNEL|__GFP_ZERO",
            "none",
            "GFP_KERNEL",
            "x",
        ];
        let mut memo = Memo::new();
        for text in texts.iter().chain(&texts) {
            assert_eq!(memo.parse(text.as_bytes()), parse(text.as_bytes()));
        }
        assert_eq!(memo.parse(b"|"), None);
        assert_eq!(memo.parse(b""), None);
    }
}
