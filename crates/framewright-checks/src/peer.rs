//! Linux's own `mm/vmalloc.c` as a program beside the experiment `va-fit`.
//!
//! The package `linux-source-6.12` of Debian brings the source. The command unpacks the few files that are needed below
//! `target/peer-linux`, puts an empty file in the place of every other header, and compiles them, unchanged, with the
//! shim in `peer/`. The program contains code under the kernel's licence: it stays in `target`, and nothing of this
//! workspace is linked with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's package.
const PACKAGE: &str = "linux-source-6.12";

/// Its source, compiled as it is.
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
const FLAGS: [&str; 10] = [
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
pub(crate) fn command(mut arguments: impl Iterator<Item = String>) -> Result<bool, String> {
    let tarball = match (arguments.next().as_deref(), arguments.next()) {
        (None, _) => PathBuf::from(format!("/usr/src/{PACKAGE}.tar.xz")),
        (Some("--source"), Some(path)) => PathBuf::from(path),
        _ => return Err("peer-linux takes nothing, or --source TARBALL".into()),
    };
    if !tarball.exists() {
        println!(
            "skipped: {} is not there; `apt-get install {PACKAGE}` brings it",
            tarball.display()
        );
        return Ok(true);
    }
    let root = crate::root();
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let place = target.join("peer-linux");
    let (source, include) = (place.join("source"), place.join("include"));
    made(&source)?;
    made(&include.join("linux"))?;
    unpacked(&tarball, &place)?;
    let tree = place.join(PACKAGE);
    let mut asked = Vec::new();
    let headers = HEADERS.map(|name| format!("include/linux/{name}.h"));
    for path in SOURCES.iter().map(ToString::to_string).chain(headers) {
        let name = Path::new(&path).file_name().unwrap_or_default();
        let into = match path.strip_prefix("include/") {
            Some(inside) => include.join(inside),
            None => source.join(name),
        };
        let text = read(&tree.join(&path))?;
        written(&into, &text)?;
        asked.extend(included(&text).map(str::to_owned));
    }
    for name in asked {
        let path = include.join(&name);
        if !path.exists() {
            made(path.parent().unwrap_or(&include))?;
            written(&path, "")?;
        }
    }
    for name in BESIDE {
        written(&source.join(name), "")?;
    }
    let version = version(&read(&tree.join("Makefile"))?)?;
    compiled(&root, &place, &version)?;
    println!(
        "{}: Linux {version}, mm/vmalloc.c unchanged",
        place.join("linux-vmalloc").display()
    );
    Ok(true)
}

/// The headers that a source asks for by name between angles.
fn included(text: &str) -> impl Iterator<Item = &str> {
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

fn unpacked(tarball: &Path, place: &Path) -> Result<(), String> {
    let names = SOURCES.iter().map(ToString::to_string);
    let headers = HEADERS.iter().map(|name| format!("include/linux/{name}.h"));
    let all = names.chain(headers).chain(["Makefile".to_owned()]);
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(tarball).arg("-C").arg(place);
    tar.args(all.map(|name| format!("{PACKAGE}/{name}")));
    done(&mut tar)
}

fn compiled(root: &Path, place: &Path, version: &str) -> Result<(), String> {
    let shim = root.join("crates/framewright-checks/peer");
    let source = place.join("source");
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or("cc".into()));
    compiler
        .args(FLAGS)
        .arg(format!("-DPEER_VERSION=\"{version}\""))
        .arg("-I")
        .arg(place.join("include"))
        .arg("-I")
        .arg(&shim)
        .arg("-I")
        .arg(&source)
        .args(["-no-pie", "-include", "kernel.h", "-o"])
        .arg(place.join("linux-vmalloc"))
        .arg(shim.join("serve.c"))
        .args(["rbtree.c", "xarray.c", "llist.c"].map(|name| source.join(name)));
    done(&mut compiler)
}

fn done(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().display().to_string();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

fn made(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn written(path: &Path, text: &str) -> Result<(), String> {
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
