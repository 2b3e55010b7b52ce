//! How the kernel that is recorded is set: what a reader of the recording would change.

use crate::trace::state::{HUGE_PAGE_SETTINGS, VM_SETTINGS, boot_words, chosen_word};
use std::fs;

/// The settings that this kernel has, as [`read_settings`](crate::trace::state::read_settings) reads them. What cannot be
/// read is left out, as what there is not.
pub(crate) fn settings() -> Vec<u8> {
    let mut text = String::new();
    let mut add = |name: &str, value: &str| text += &format!("{name} {}\n", value.trim());
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
    let cmdline = fs::read("/proc/cmdline").unwrap_or_default();
    for word in boot_words(&String::from_utf8_lossy(&cmdline)) {
        add("boot", word);
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::state::read_settings;

    #[test]
    fn this_machine_s_settings_are_read_back() {
        let text = String::from_utf8(settings()).unwrap();
        let settings = read_settings("settings", &text).unwrap();
        // Every kernel has this one.
        let own = fs::read_to_string("/proc/sys/vm/min_free_kbytes").unwrap();
        let said = settings.number("vm.min_free_kbytes");
        assert_eq!(said, own.trim().parse().ok(), "{text}");
    }
}
