//! How the kernel that is recorded is set: what a reader of the recording would change.

use crate::trace::state::{HUGE_PAGE_SETTINGS, VM_SETTINGS, boot_words, chosen_word};
use std::fs;
use std::path::Path;

/// The settings that this kernel has, as [`read_settings`](crate::trace::state::read_settings) reads them. What cannot be
/// read, or is empty, is left out, as what there is not. `cmdline` is the file with what it was booted with.
pub(crate) fn settings(cmdline: &Path) -> Vec<u8> {
    let mut text = String::new();
    let mut add = |name: &str, value: &str| match value.trim() {
        "" => {}
        value => text += &format!("{name} {value}\n"),
    };
    for name in VM_SETTINGS {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        if let Ok(value) = fs::read_to_string(path) {
            add(name, &value);
        }
    }
    for name in HUGE_PAGE_SETTINGS {
        let words = fs::read_to_string(format!("/sys/kernel/mm/transparent_hugepage/{name}"));
        if let Some(chosen) = chosen_word(&words.unwrap_or_default()) {
            add(&format!("transparent_hugepage.{name}"), chosen);
        }
    }
    let cmdline = fs::read(cmdline).unwrap_or_default();
    for word in boot_words(&String::from_utf8_lossy(&cmdline)) {
        add("boot", word);
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::state::read_settings;
    use std::process::Command;

    #[test]
    fn this_machine_s_settings_are_read_back() {
        let text = String::from_utf8(settings("/proc/cmdline".as_ref())).unwrap();
        let settings = read_settings("settings", &text).unwrap();
        // Every kernel has this one.
        let own = fs::read_to_string("/proc/sys/vm/min_free_kbytes").unwrap();
        let said = settings.number("vm.min_free_kbytes");
        assert_eq!(said, own.trim().parse().ok(), "{text}");
    }

    /// The shell's own words, with another command line.
    fn of_shell(cmdline: &Path) -> String {
        let script = include_str!("../../../board/record.sh");
        let (_, rest) = script.split_once("\nvm_settings=").unwrap();
        let (words, _) = rest.split_once("\n# machine WHEN").unwrap();
        let output = Command::new("sh")
            .args(["-c", &format!("set -u\nvm_settings={words}\nsettings")])
            .env("FRAMEWRIGHT_CMDLINE", cmdline)
            .output()
            .unwrap();
        assert!(output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn of_a_hostile_command_line_both_recorders_keep_the_words_about_memory() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cmdline");
        for (line, kept) in [
            (
                "BOOT_IMAGE=/vmlinuz root=/dev/sda1 cma=64M * mem=2G ip=10.0.0.7 hugepages=* token=mem=1 movable_node\n",
                &["cma=64M", "mem=2G", "hugepages=*", "movable_node"][..],
            ),
            ("cma=1M dyndbg=\"file x mem=s3cret\" mem=1G\n", &["cma=1M"]),
            ("mem=\"s3cret words\" cma=1M\n", &[]),
            ("mem=1G -- mem=s3cret\n", &["mem=1G"]),
            (
                "mem=$(id) `id` cma=1M;id mem\n",
                &["mem=$(id)", "cma=1M;id", "mem"],
            ),
            ("\n", &[]),
        ] {
            fs::write(&file, line).unwrap();
            let own = String::from_utf8(settings(&file)).unwrap();
            let of_shell = of_shell(&file);
            for text in [&own, &of_shell] {
                let words = text.lines().filter_map(|line| line.strip_prefix("boot "));
                assert_eq!(words.collect::<Vec<_>>(), kept, "{line}");
                read_settings("settings", text).unwrap();
            }
            assert_eq!(of_shell, own);
        }
    }
}
