//! Three kernels of one source that differ in one function: what a request takes from other mobilities' lists.
//!
//! `linux/fallback/rule.h` has that function in our words. It goes into a copy of the kernel's `mm/page_alloc.c` in the build
//! folder, where the kernel's makefiles look before they look into the source; the source stays as it is.

use crate::kernels::boot;
use crate::kernels::linux_build::{
    BuiltLinux, FIRST, LinuxFolder, SourceArchive, archive_files, compile_first, configure, done,
    found, made, read, removed, unpack,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const CONFIG: &str = include_str!("../../../linux/fallback/kernel.config");
const RULE: &str = include_str!("../../../linux/fallback/rule.h");
const PHONE: &str = include_str!("../../../linux/fallback/phone.c");

/// The file in which the rule is.
const CHANGED: &str = "mm/page_alloc.c";

/// The rule's function, of which a kernel's list of symbols tells.
const FUNCTION: &str = "fallback_by_rule";

/// The function behind which ours goes, and the one in front of which: it calls ours.
const BEHIND: &str = "__rmqueue_steal(";
const CALLER: &str = "__rmqueue(";

/// What ours calls or stands for, as the text has it.
const NEEDED: &[&str] = &[
    "__rmqueue_claim(",
    "find_suitable_fallback(",
    "get_page_from_free_area(",
    "page_del_and_expand(",
    "trace_mm_page_alloc_extfrag(",
    "try_to_steal_block(",
];

/// The memory disk, in KiB, and the files that fit on it.
pub(super) const DISK_KIB: u32 = 49_152;
const DISK_FILES: u32 = 24_576;

/// What a request takes from other mobilities' lists where its own have nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FallbackRule {
    /// Linux up to 4.11, and the document's device: the largest block.
    Before,
    /// The document's: the smallest block, if none is above order 3.
    Proposed,
    /// Linux 6.12's own, unchanged.
    Released,
}

impl FallbackRule {
    pub(crate) const ALL: [Self; 3] = [Self::Before, Self::Proposed, Self::Released];

    /// The variant in the result file.
    pub(crate) const fn variant(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Proposed => "proposed",
            Self::Released => "released",
        }
    }

    /// The largest order that the rule spares, as the kernel's text has it; none where that is unchanged.
    const fn spared(self) -> Option<&'static str> {
        match self {
            Self::Before => Some("(-1)"),
            Self::Proposed => Some("PAGE_ALLOC_COSTLY_ORDER"),
            Self::Released => None,
        }
    }
}

/// The kernels, and what they are booted with.
pub(super) struct FallbackKernels {
    folder: LinuxFolder,
    built: BuiltLinux,
}

impl FallbackKernels {
    fn found(folder: LinuxFolder) -> Result<Self, String> {
        let built = found(&folder)?;
        Ok(Self { folder, built })
    }

    pub(super) fn of(&self, rule: FallbackRule) -> BuiltLinux {
        BuiltLinux {
            kernel: kernel_of(&self.folder, rule),
            ..self.built.clone()
        }
    }
}

fn kernel_of(folder: &LinuxFolder, rule: FallbackRule) -> PathBuf {
    folder.own(&format!("vmlinux-{}", rule.variant()))
}

/// What was built before.
pub(super) fn as_built() -> Result<FallbackKernels, String> {
    let folder = LinuxFolder::named("fallback");
    folder.expect_built(super::NAME)?;
    FallbackKernels::found(folder)
}

/// Builds what is not built yet.
pub(super) fn build(source: Option<&Path>) -> Result<FallbackKernels, String> {
    let folder = LinuxFolder::named("fallback");
    let archive = SourceArchive::find(source, &[("mke2fs", "e2fsprogs")])?;
    let of_kernels = format!("{}{CONFIG}{RULE}", archive.state);
    let stamp = format!("{of_kernels}{FIRST}{PHONE}");
    if folder.is_built_of(&stamp)? {
        return FallbackKernels::found(folder);
    }
    let start = Instant::now();
    unpack(&folder, &archive)?;
    // Another load needs no other kernels.
    let kernels = folder.own("kernels");
    if !read(&kernels).is_ok_and(|built| built == of_kernels) {
        removed(&kernels)?;
        configure(&folder, CONFIG, "linux/fallback/kernel.config")?;
        println!("linux: building three kernels, which takes minutes");
        for rule in FallbackRule::ALL {
            build_kernel(&folder, rule)?;
        }
        boot::write(&kernels, &of_kernels)?;
    }
    build_files(&folder)?;
    let built = FallbackKernels::found(folder)?;
    boot::write(&built.folder.stamp(), &stamp)?;
    println!(
        "linux: three of {} built in {} s",
        built.built.version,
        start.elapsed().as_secs()
    );
    Ok(built)
}

fn build_kernel(folder: &LinuxFolder, rule: FallbackRule) -> Result<(), String> {
    let text = with_rule(&read(&folder.tree().join(CHANGED))?, rule)?;
    let changed = folder.build().join(CHANGED);
    made(changed.parent().unwrap_or(&changed))?;
    // The same text is not written again: nothing would be built of it but the same.
    if !read(&changed).is_ok_and(|before| before == text) {
        boot::write(&changed, &text)?;
    }
    done(folder.make().arg("vmlinux"))?;
    let kernel = folder.build().join("vmlinux");
    let bytes = fs::read(&kernel).map_err(|error| format!("{}: {error}", kernel.display()))?;
    if holds(&bytes, FUNCTION) != rule.spared().is_some() {
        return Err(format!(
            "{}: it is not built by the rule `{}`: the makefiles took another {CHANGED}",
            kernel.display(),
            rule.variant()
        ));
    }
    let to = kernel_of(folder, rule);
    fs::write(&to, bytes).map_err(|error| format!("{}: {error}", to.display()))
}

fn holds(bytes: &[u8], word: &str) -> bool {
    bytes
        .windows(word.len())
        .any(|window| window == word.as_bytes())
}

/// The kernel's text with our function in it, or as it is.
fn with_rule(text: &str, rule: FallbackRule) -> Result<String, String> {
    let Some(spared) = rule.spared() else {
        return Ok(text.to_owned());
    };
    let lacks = |what: &str| {
        format!(
            "{CHANGED} of this Linux has no {what}: the rule `{}` does not fit",
            rule.variant()
        )
    };
    if let Some(missing) = NEEDED.iter().find(|name| !text.contains(**name)) {
        return Err(lacks(missing));
    }
    // A function's name begins a line, and its end is a brace that does.
    let begin = text.find(&format!("\n{BEHIND}"));
    let begin = begin.ok_or_else(|| lacks(BEHIND))?;
    let end = text[begin..].find("\n}\n");
    let end = begin + end.ok_or_else(|| lacks(BEHIND))? + "\n}\n".len();
    if !text[end..].contains(&format!("\n{CALLER}")) {
        return Err(lacks(&format!("{CALLER} behind {BEHIND}")));
    }
    let (before, after) = text.split_at(end);
    Ok(format!(
        "{before}\n#define FALLBACK_SPARED {spared}\n{RULE}{after}"
    ))
}

/// The first process, an empty file system, and an archive with both.
fn build_files(folder: &LinuxFolder) -> Result<(), String> {
    compile_first(folder, "phone", PHONE)?;
    let disk = folder.own("disk.img");
    if disk.exists() {
        fs::remove_file(&disk).map_err(|error| format!("{}: {error}", disk.display()))?;
    }
    let mut maker = Command::new("mke2fs");
    maker
        .args(["-q", "-t", "ext2", "-b", "4096", "-I", "128", "-m", "0"])
        .args(["-U", "00000000-0000-0000-0000-000000000001"])
        .args(["-E", "hash_seed=00000000-0000-0000-0000-000000000002"])
        .args(["-N", &DISK_FILES.to_string()])
        // The day of the file system is no day of the host's.
        .env("E2FSPROGS_FAKE_TIME", "1")
        .arg(&disk)
        .arg(format!("{DISK_KIB}k"));
    done(&mut maker)?;
    let list = format!(
        "dir /proc 755 0 0\ndir /trace 755 0 0\ndir /disk 755 0 0\ndir /dev 755 0 0\n\
         nod /dev/console 600 0 0 c 5 1\nnod /dev/ram0 600 0 0 b 1 0\n\
         file /init {} 755 0 0\nfile /disk.img {} 644 0 0\n",
        folder.own("phone").display(),
        disk.display()
    );
    archive_files(folder, &list)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shape of the kernel's text, in which each thing that ours needs stands.
    const SHAPE: &str = "\
int find_suitable_fallback(int area);
void get_page_from_free_area(void);
void page_del_and_expand(void);
void trace_mm_page_alloc_extfrag(void);
void try_to_steal_block(void);
static struct page *
__rmqueue_claim(int order)
{
}

static struct page *
__rmqueue_steal(int order)
{
\tif (order) {
\t}
}

static struct page *
__rmqueue(int order)
{
\treturn __rmqueue_claim(order);
}
";

    #[test]
    fn the_rule_goes_between_what_it_calls_and_its_caller() {
        for rule in [FallbackRule::Before, FallbackRule::Proposed] {
            let text = with_rule(SHAPE, rule).unwrap();
            let place = |what: &str| text.find(what).unwrap();
            let ours = place("#define FALLBACK_SPARED");
            assert!(place("\n__rmqueue_steal(") < ours && ours < place("\n__rmqueue("));
            assert!(ours < place("static noinline struct page *fallback_by_rule("));
            // The definition is above the name's change, the call below it.
            let renamed = place("#define __rmqueue_claim fallback_by_rule");
            assert!(
                place("\n__rmqueue_claim(") < renamed && renamed < place("return __rmqueue_claim(")
            );
            // Nothing else is changed.
            let rest = text.replace(
                &format!(
                    "\n#define FALLBACK_SPARED {}\n{RULE}",
                    rule.spared().unwrap()
                ),
                "",
            );
            assert_eq!(rest, SHAPE);
        }
        assert_ne!(
            with_rule(SHAPE, FallbackRule::Before),
            with_rule(SHAPE, FallbackRule::Proposed)
        );
        assert_eq!(
            with_rule(SHAPE, FallbackRule::Released).as_deref(),
            Ok(SHAPE)
        );
    }

    #[test]
    fn a_linux_into_which_the_rule_does_not_fit_is_refused() {
        let refused = |text: &str| with_rule(text, FallbackRule::Proposed).unwrap_err();
        for name in NEEDED {
            let said = refused(&SHAPE.replace(name, "other("));
            assert!(
                said.contains(name) && said.contains("`proposed` does not fit"),
                "{said}"
            );
        }
        let none = refused(&SHAPE.replace("__rmqueue_steal", "__rmqueue_other"));
        assert!(none.contains("no __rmqueue_steal("), "{none}");
        let none = refused(&SHAPE.replace("__rmqueue(", "__rmqueue_bulk("));
        assert!(
            none.contains("no __rmqueue( behind __rmqueue_steal("),
            "{none}"
        );
        assert!(with_rule("", FallbackRule::Released).is_ok());
    }

    #[test]
    fn a_kernel_tells_by_which_rule_it_is_built() {
        assert!(holds(b"\0\x7f fallback_by_rule\0", FUNCTION));
        assert!(!holds(b"\0\x7f fallback_by_", FUNCTION));
        assert!(RULE.contains(&format!("{FUNCTION}(struct zone *zone")));
        assert!(RULE.starts_with("/* SPDX-License-Identifier: GPL-2.0"));
    }
}
