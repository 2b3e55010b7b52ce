//! The settings of a machine's page allocator as a recorder keeps them, written and read in one place: a name, a blank and
//! a value in each line, of what that kernel has.
//!
//! ```text
//!   vm.min_free_kbytes 67584
//!   transparent_hugepage.enabled madvise
//!   boot cma=64M
//! ```
//!
//! A line `boot` is one word of `/proc/cmdline`. That text may hold passwords, addresses and names of hosts (`ip=`,
//! `nfsroot=`, `cryptdevice=`, what a firmware or an init reads there), and recordings are handed on: so no word is kept but
//! those about memory by their names, in [`BOOT_WORDS`], and none from a quotation mark or a `--` on, behind which words
//! are parts of others' values and an init's own.

use super::words::{ProcLine, shown};
use crate::printable;
use crate::trace::TraceError;
use std::collections::BTreeMap;

/// The settings of `/proc/sys`, by their names.
pub const VM_SETTINGS: [&str; 6] = [
    "vm.min_free_kbytes",
    "vm.watermark_scale_factor",
    "vm.watermark_boost_factor",
    "vm.compaction_proactiveness",
    "vm.extfrag_threshold",
    "vm.defrag_mode",
];

/// The files of `/sys/kernel/mm/transparent_hugepage` of which the chosen word is kept.
pub const HUGE_PAGE_SETTINGS: [&str; 2] = ["enabled", "defrag"];

/// The words of `/proc/cmdline` that are kept, by what stands in front of `=`: how much memory there is, what is set aside
/// of it, and how pages, blocks and objects are made of it. Their values are sizes, numbers and plain words.
pub const BOOT_WORDS: [&str; 31] = [
    "cma",
    "cma_pernuma",
    "crashkernel",
    "debug_guardpage_minorder",
    "debug_pagealloc",
    "default_hugepagesz",
    "highmem",
    "hugepages",
    "hugepagesz",
    "hugetlb_cma",
    "hugetlb_free_vmemmap",
    "init_on_alloc",
    "init_on_free",
    "kernelcore",
    "mem",
    "memmap",
    "movable_node",
    "movablecore",
    "numa",
    "numa_cma",
    "page_owner",
    "page_poison",
    "percpu_alloc",
    "slab_max_order",
    "slab_nomerge",
    "slub_max_order",
    "slub_min_order",
    "swiotlb",
    "thp_anon",
    "transparent_hugepage",
    "vmalloc",
];

/// The words of a kernel's command line that a recording keeps.
pub fn boot_words(cmdline: &str) -> impl Iterator<Item = &str> {
    let words = cmdline.split_whitespace();
    let own = words.take_while(|word| *word != "--" && !word.contains('"'));
    own.filter(|word| {
        let name = word.split_once('=').map_or(*word, |(name, _)| name);
        BOOT_WORDS.contains(&name)
    })
}

/// The word that a kernel has chosen, as it shows it: `always [madvise] never`.
#[must_use]
pub fn chosen_word(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(chosen, _)| chosen)
}

/// The first three numbers of a kernel's release, as `uname -r` has it, the third 0 where there is none; `None` of what is no
/// release.
#[must_use]
pub fn kernel_version(release: &str) -> Option<(u32, u32, u32)> {
    let (major, rest) = release.trim().split_once('.')?;
    let end = rest.find(|c: char| !c.is_ascii_digit());
    let (minor, rest) = rest.split_at(end.unwrap_or(rest.len()));
    let patch = rest.strip_prefix('.').unwrap_or_default();
    let patch = patch.split(|c: char| !c.is_ascii_digit()).next();
    let patch = patch.and_then(|patch| patch.parse().ok()).unwrap_or(0);
    Some((major.parse().ok()?, minor.parse().ok()?, patch))
}

/// The most that `vm.min_free_kbytes` is worth trying at, on a machine of this many KiB: a twentieth of it.
#[must_use]
pub const fn min_free_kib_max(machine_kib: u64) -> u64 {
    machine_kib / 20
}

/// How a recorded machine was set, as far as its kernel has settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineSettings {
    values: BTreeMap<String, String>,
    boot: Vec<String>,
}

impl MachineSettings {
    /// The value of a setting that is a number; `None` where the kernel lacks it.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.word(name)?.parse().ok()
    }

    /// The value of a setting; `None` where the kernel lacks it.
    #[must_use]
    pub fn word(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The last value of a word that the kernel was booted with.
    #[must_use]
    pub fn boot(&self, name: &str) -> Option<&str> {
        let words = self.boot.iter().rev();
        words
            .filter_map(|word| word.split_once('='))
            .find_map(|(of, value)| (of == name).then_some(value))
    }
}

/// Reads settings as a recorder writes them; `name` stands in errors.
///
/// # Errors
/// `NAME:LINE`, with what is wrong and what was expected.
pub fn read_settings(name: &str, text: &str) -> Result<MachineSettings, TraceError> {
    let mut settings = MachineSettings::default();
    for line in ProcLine::all(name, text) {
        let Some((setting, value)) = line.text.trim().split_once(' ') else {
            let text = shown(line.text);
            return Err(line.error(format!("'{text}', expected a setting's name and its value")));
        };
        if VM_SETTINGS.contains(&setting) {
            line.number(value)?;
        }
        // A recording may come from anywhere, and an answer shows them.
        let value = printable::text(value);
        if setting == "boot" {
            settings.boot.push(value);
            continue;
        }
        let before = settings.values.insert(setting.into(), value);
        if before.is_some() {
            return Err(line.error(format!("{} is there twice", shown(setting))));
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_command_line_the_words_about_memory_are_kept_and_no_other() {
        let kept = |line: &str| boot_words(line).map(str::to_owned).collect::<Vec<_>>();
        let line = "BOOT_IMAGE=/vmlinuz root=UUID=1234 ip=10.0.0.7::10.0.0.1:255.0.0.0:board7:eth0 cma=64M token=s3cret \
                    nfsroot=server:/x transparent_hugepage=never movable_node quiet mem=2G memory_password=x\n";
        assert_eq!(
            kept(line),
            [
                "cma=64M",
                "transparent_hugepage=never",
                "movable_node",
                "mem=2G"
            ]
        );
        // What follows may be a part of another word's value, or an init's.
        assert_eq!(
            kept("cma=1M dyndbg=\"file x mem=s3cret\" mem=1G"),
            ["cma=1M"]
        );
        assert_eq!(kept("cma=1M -- mem=s3cret"), ["cma=1M"]);
        assert!(kept("").is_empty());
    }

    /// The shell cannot read the lists here, and has copies.
    #[test]
    fn the_shell_that_records_keeps_the_same_settings_and_words() {
        let script = include_str!("../../../board/record.sh");
        let list = |name: &str| -> Vec<&str> {
            let (_, rest) = script.split_once(&format!("\n{name}='")).unwrap();
            let (list, _) = rest.split_once('\'').unwrap();
            list.split_whitespace().collect()
        };
        assert_eq!(list("boot_words"), BOOT_WORDS);
        let settings = VM_SETTINGS.map(|name| name.strip_prefix("vm.").unwrap());
        assert_eq!(list("vm_settings"), settings);
        assert_eq!(list("huge_page_settings"), HUGE_PAGE_SETTINGS);
    }

    #[test]
    fn the_chosen_word_stands_in_brackets() {
        assert_eq!(chosen_word("always [madvise] never\n"), Some("madvise"));
        assert_eq!(chosen_word("always"), None);
        assert_eq!(chosen_word("[x"), None);
    }

    #[test]
    fn settings_are_read_by_name_behind_what_says_whose_they_are() {
        let text = "# trace sha256 00\nvm.extfrag_threshold 500\nvm.defrag_mode 1\ntransparent_hugepage.enabled madvise\n\
                    boot cma=1M\nboot movable_node\nboot cma=64M\n";
        let settings = read_settings("s", text).unwrap();
        assert_eq!(settings.number("vm.defrag_mode"), Some(1));
        assert_eq!(settings.number("vm.min_free_kbytes"), None);
        assert_eq!(
            settings.word("transparent_hugepage.enabled"),
            Some("madvise")
        );
        assert_eq!(settings.boot("cma"), Some("64M"), "the last one counts");
        assert_eq!(settings.boot("movable_node"), None, "it has no value");
        assert_eq!(read_settings("s", "").unwrap(), MachineSettings::default());
    }

    #[test]
    fn values_are_kept_so_that_a_terminal_obeys_none_of_them() {
        let text = "boot cma=\u{1b}[2J1M\ntransparent_hugepage.enabled \u{7}always\n";
        let settings = read_settings("s", text).unwrap();
        for value in [
            settings.boot("cma"),
            settings.word("transparent_hugepage.enabled"),
        ] {
            let value = value.unwrap();
            assert!(!value.contains(char::is_control), "{value}");
        }
    }

    #[test]
    fn what_are_no_settings_is_named_by_line() {
        let error = |text| read_settings("s", text).unwrap_err().to_string();
        assert_eq!(
            error("boot x\nalone"),
            "s:2: 'alone', expected a setting's name and its value"
        );
        assert_eq!(
            error("vm.defrag_mode on"),
            "s:1: 'on' is not a whole number"
        );
        assert_eq!(error("a 1\na 2"), "s:2: a is there twice");
    }
}
