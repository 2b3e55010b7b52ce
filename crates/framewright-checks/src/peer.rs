//! Linux's own `mm/vmalloc.c` as a program beside the experiment `va-fit`.
//!
//! The package `linux-source-6.12` of Debian brings the source. The command unpacks the few files that are needed below
//! `target/peer-linux`, puts an empty file in the place of every other header, and compiles them, unchanged, with the
//! shim in `peer/`. The program contains code under the kernel's licence: it stays in `target`, and nothing of this
//! workspace is linked with it. `subjects.rs` does the same with Linux's test of its allocator.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's package.
const PACKAGE: &str = "linux-source-6.12";

/// The allocator and what it stands on, compiled as they are.
const SOURCES: [&str; 5] = [
    "mm/vmalloc.c",
    "lib/rbtree.c",
    "lib/xarray.c",
    "lib/llist.c",
    "lib/radix-tree.h",
];

/// Its headers that ask for nothing but each other.
const HEADERS: [&str; 10] = [
    "rbtree",
    "rbtree_types",
    "rbtree_augmented",
    "list",
    "rculist",
    "llist",
    "xarray",
    "vmalloc",
    "poison",
    "kconfig",
];

/// Headers of `mm` that `vmalloc.c` has beside it.
const BESIDE: [&str; 2] = ["internal.h", "pgalloc-track.h"];

/// As the kernel is compiled, where it matters; the rest stays away from what the kernel's code does not allow.
pub(crate) const FLAGS: [&str; 10] = [
    "-O2",
    "-std=gnu11",
    "-w",
    "-fno-strict-aliasing",
    "-fno-strict-overflow",
    "-fno-delete-null-pointer-checks",
    "-ffunction-sections",
    "-fdata-sections",
    "-Wl,--gc-sections",
    "-fno-pie",
];

/// `peer-linux [--source TARBALL]`.
pub(crate) fn command(arguments: impl Iterator<Item = String>) -> Result<bool, String> {
    let Some(tree) = PeerTree::unpacked("peer-linux", arguments, &[])? else {
        return Ok(true);
    };
    compiled(&tree)?;
    println!(
        "{}: Linux {}, mm/vmalloc.c unchanged",
        tree.place.join("linux-vmalloc").display(),
        tree.version
    );
    Ok(true)
}

/// What was unpacked of the kernel, and where.
pub(crate) struct PeerTree {
    /// A folder below `target`, with two in it: `source`, and `include`, where headers that are not needed are empty.
    pub(crate) place: PathBuf,
    /// As `6.12.117`.
    pub(crate) version: String,
}

impl PeerTree {
    /// Unpacks for a command, which takes nothing, or `--source TARBALL`; `more` are sources beside the allocator's.
    /// None, and it is said, where the package is not there.
    pub(crate) fn unpacked(
        command: &str,
        mut arguments: impl Iterator<Item = String>,
        more: &[&str],
    ) -> Result<Option<Self>, String> {
        let tarball = match (arguments.next().as_deref(), arguments.next()) {
            (None, _) => PathBuf::from(format!("/usr/src/{PACKAGE}.tar.xz")),
            (Some("--source"), Some(path)) => PathBuf::from(path),
            _ => return Err(format!("{command} takes nothing, or --source TARBALL")),
        };
        if !tarball.exists() {
            println!(
                "skipped: {} is not there; `apt-get install {PACKAGE}` brings it",
                tarball.display()
            );
            return Ok(None);
        }
        let place = crate::target().join(command);
        let (source, include) = (place.join("source"), place.join("include"));
        made(&source)?;
        made(&include.join("linux"))?;
        let sources = SOURCES.iter().chain(more).map(ToString::to_string);
        let headers = HEADERS.iter().map(|name| format!("include/linux/{name}.h"));
        let paths: Vec<String> = sources.chain(headers).collect();
        let tree = place.join(PACKAGE);
        // The archive takes long to read through: what was unpacked from this one stays.
        let unpacked = place.join("unpacked");
        let from = stamp(&tarball, &paths)?;
        if fs::read_to_string(&unpacked).ok().as_ref() != Some(&from) {
            let mut tar = Command::new("tar");
            tar.arg("-xf").arg(&tarball).arg("-C").arg(&place);
            tar.arg(format!("{PACKAGE}/Makefile"));
            tar.args(paths.iter().map(|name| format!("{PACKAGE}/{name}")));
            done(&mut tar)?;
            written(&unpacked, &from)?;
        }
        let mut asked = Vec::new();
        for path in &paths {
            let name = Path::new(path).file_name().unwrap_or_default();
            let into = match path.strip_prefix("include/") {
                Some(inside) => include.join(inside),
                None => source.join(name),
            };
            let text = read(&tree.join(path))?;
            written(&into, &text)?;
            asked.extend(included(&text).map(str::to_owned));
        }
        emptied(&include, &asked)?;
        for name in BESIDE {
            written(&source.join(name), "")?;
        }
        let version = version(&read(&tree.join("Makefile"))?)?;
        Ok(Some(Self { place, version }))
    }

    /// A compiler that finds the kernel's headers, and the shim first of all.
    pub(crate) fn compiler(&self) -> Command {
        let mut compiler = crate::compiler();
        compiler
            .args(FLAGS)
            .arg("-I")
            .arg(self.place.join("include"))
            .arg("-I")
            .arg(shim())
            .arg("-I")
            .arg(self.place.join("source"))
            .args(["-no-pie", "-include", "kernel.h"]);
        compiler
    }

    /// What the allocator stands on.
    pub(crate) fn foundation(&self) -> [PathBuf; 3] {
        ["rbtree.c", "xarray.c", "llist.c"].map(|name| self.place.join("source").join(name))
    }
}

/// Tells one state of an archive, and one choice of its files, from another.
fn stamp(tarball: &Path, paths: &[String]) -> Result<String, String> {
    let place = |error| format!("{}: {error}", tarball.display());
    let about = fs::metadata(tarball).map_err(place)?;
    let changed = about.modified().map_err(place)?;
    let (file, bytes) = (tarball.display(), about.len());
    Ok(format!(
        "{file}, {bytes}, {changed:?}\n{}\n",
        paths.join("\n")
    ))
}

/// Puts an empty file in the place of each header that is not in `include`.
pub(crate) fn emptied(include: &Path, names: &[String]) -> Result<(), String> {
    for name in names {
        let path = include.join(name);
        if !path.exists() {
            made(path.parent().unwrap_or(include))?;
            written(&path, "")?;
        }
    }
    Ok(())
}

/// Where the shim lies.
pub(crate) fn shim() -> PathBuf {
    crate::root().join("crates/framewright-checks/peer")
}

/// The headers that a source asks for by name between angles.
pub(crate) fn included(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.strip_prefix('#')?.trim_start();
        let rest = rest.strip_prefix("include")?.trim_start();
        Some(rest.strip_prefix('<')?.split_once('>')?.0)
    })
}

/// `6.12.117`, from the first lines of the kernel's Makefile.
fn version(makefile: &str) -> Result<String, String> {
    let of = |name: &str| {
        let value = makefile.lines().find_map(|line| {
            let (left, right) = line.split_once('=')?;
            (left.trim() == name).then(|| right.trim().to_owned())
        });
        value.ok_or(format!("the kernel's Makefile has no {name}"))
    };
    Ok(format!(
        "{}.{}.{}",
        of("VERSION")?,
        of("PATCHLEVEL")?,
        of("SUBLEVEL")?
    ))
}

fn compiled(tree: &PeerTree) -> Result<(), String> {
    let mut compiler = tree.compiler();
    compiler
        .arg(format!("-DPEER_VERSION=\"{}\"", tree.version))
        .arg("-o")
        .arg(tree.place.join("linux-vmalloc"))
        .arg(shim().join("serve.c"))
        .args(tree.foundation());
    done(&mut compiler)
}

pub(crate) fn done(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().display().to_string();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

pub(crate) fn made(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

pub(crate) fn written(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_between_angles_are_found() {
        let text = "#include <linux/mm.h>\n# include <asm/page.h> /* why */\n#include \"internal.h\"\n#define X <a>\n";
        let found: Vec<&str> = included(text).collect();
        assert_eq!(found, ["linux/mm.h", "asm/page.h"]);
    }

    #[test]
    fn the_version_has_its_patch_level() {
        let text = "# comment\nVERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\nEXTRAVERSION =\n";
        assert_eq!(version(text).as_deref(), Ok("6.12.117"));
        assert!(version("VERSION = 6\n").unwrap_err().contains("PATCHLEVEL"));
    }

    #[test]
    fn without_the_package_the_command_says_so_and_is_no_failure() {
        let arguments = ["--source", "/nowhere/linux.tar.xz"].map(str::to_owned);
        assert_eq!(command(arguments.into_iter()), Ok(true));
        let wrong = ["--sauce".to_owned()];
        assert!(command(wrong.into_iter()).is_err());
    }
}
