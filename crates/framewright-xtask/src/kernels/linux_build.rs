//! Builds the Linux that `cargo xtask linux` boots: the kernel from Debian's source package, the module and the first
//! process from `linux/`, all below `target/linux`. Linux's source and what is made of it stay there.
//!
//! [`super::fallback`] builds others of the same source.

use super::boot;
use crate::vmalloc_test::target;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

/// How the message of a machine begins that lacks what Linux is built from.
pub(crate) const NO_LINUX: &str = "Linux cannot be built here";

/// Debian's package with the source.
const SOURCE: &str = "linux-source-6.12";

const CONFIG: &str = include_str!("../../linux/kernel.config");
const MODULE: &str = include_str!("../../linux/pairs.c");
const INIT: &str = include_str!("../../linux/init.c");
/// What first processes have in common.
pub(super) const FIRST: &str = include_str!("../../linux/first.h");

/// What the build runs, and Debian's package with it.
const PROGRAMS: &[(&str, &str)] = &[
    ("bc", "bc"),
    ("bison", "bison"),
    ("cc", "gcc"),
    ("flex", "flex"),
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("make", "make"),
    ("nice", "coreutils"),
    ("perl", "perl"),
    ("sha256sum", "coreutils"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
];

/// What it compiles with, and Debian's package with that.
const HEADERS: &[(&str, &str)] = &[("gelf.h", "libelf-dev"), ("stdio.h", "libc6-dev")];

/// A Linux that can be booted.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct BuiltLinux {
    pub(crate) kernel: PathBuf,
    pub(crate) files: PathBuf,
    /// As `6.12.117`.
    pub(crate) version: String,
    /// The beginning of the configuration's SHA-256.
    pub(crate) config: String,
    /// As `gcc 12.2.0`.
    pub(crate) compiler: String,
}

impl BuiltLinux {
    /// What a result file says of it, in this QEMU.
    pub(super) fn with(&self, qemu: &str) -> String {
        let (version, config, compiler) = (&self.version, &self.config, &self.compiler);
        format!("QEMU {qemu}, Linux {version}, configuration {config}, {compiler}")
    }
}

/// Where all of it lies: the source, and what is built of it.
pub(super) struct LinuxFolder {
    /// The source's, and of all that is built of it.
    place: PathBuf,
    /// Of what this command builds.
    own: PathBuf,
}

impl LinuxFolder {
    /// Of `cargo xtask linux`.
    fn new() -> Self {
        // The kernel's makefiles change folders.
        let place = target().join("linux");
        let place = std::path::absolute(&place).unwrap_or(place);
        let own = place.clone();
        Self { place, own }
    }

    /// Of another command, in a folder of that name.
    pub(super) fn named(name: &str) -> Self {
        let Self { place, .. } = Self::new();
        let own = place.join(name);
        Self { place, own }
    }

    pub(super) fn own(&self, name: &str) -> PathBuf {
        self.own.join(name)
    }

    pub(super) fn tree(&self) -> PathBuf {
        self.place.join(SOURCE)
    }

    pub(super) fn build(&self) -> PathBuf {
        self.own("build")
    }

    /// What the kernel and the files were made of, once they are made.
    pub(super) fn stamp(&self) -> PathBuf {
        self.own("built")
    }

    pub(super) fn files(&self) -> PathBuf {
        self.own("initramfs.cpio")
    }

    /// Whether all is built, of just this. If not, nothing is from now on, until the stamp is written.
    pub(super) fn is_built_of(&self, stamp: &str) -> Result<bool, String> {
        if fs::read_to_string(self.stamp()).is_ok_and(|built| built == stamp) {
            return Ok(true);
        }
        removed(&self.stamp())?;
        Ok(false)
    }

    /// An error if nothing is built here by `command`.
    pub(super) fn expect_built(&self, command: &str) -> Result<(), String> {
        match self.stamp().exists() {
            true => Ok(()),
            false => Err(format!(
                "{NO_LINUX} with --as-built: {} does not exist; `cargo xtask {command}` builds it",
                self.stamp().display()
            )),
        }
    }

    /// The kernel's own make, beside other work.
    pub(super) fn make(&self) -> Command {
        let mut make = Command::new("nice");
        make.args(["make", "-s", "-j2", "ARCH=x86_64", "-C"])
            .arg(self.tree())
            .arg(format!("O={}", self.build().display()))
            // The kernel is the same, whichever user builds it on whichever day.
            .env("KBUILD_BUILD_TIMESTAMP", "1970-01-01")
            .env("KBUILD_BUILD_USER", "framewright")
            .env("KBUILD_BUILD_HOST", "xtask")
            // The caller's flags are not the kernel's.
            .env_remove("MAKEFLAGS")
            .env_remove("CFLAGS")
            .env_remove("LDFLAGS");
        make
    }
}

/// What was built before.
pub(crate) fn as_built() -> Result<BuiltLinux, String> {
    let folder = LinuxFolder::new();
    folder.expect_built("linux")?;
    found(&folder)
}

/// Builds what is not built yet.
pub(crate) fn build(source: Option<&Path>) -> Result<BuiltLinux, String> {
    let folder = LinuxFolder::new();
    let archive = SourceArchive::find(source, &[])?;
    let stamp = format!("{}{CONFIG}{MODULE}{FIRST}{INIT}", archive.state);
    if folder.is_built_of(&stamp)? {
        return found(&folder);
    }
    let start = Instant::now();
    unpack(&folder, &archive)?;
    configure(&folder, CONFIG, "linux/kernel.config")?;
    println!("linux: building the kernel, which takes minutes");
    done(folder.make().args(["vmlinux", "modules"]))?;
    build_module(&folder)?;
    build_files(&folder)?;
    let built = found(&folder)?;
    boot::write(&folder.stamp(), &stamp)?;
    println!(
        "linux: {} built in {} s",
        built.version,
        start.elapsed().as_secs()
    );
    Ok(built)
}

/// The archive with Linux's source.
pub(super) struct SourceArchive {
    tarball: PathBuf,
    /// Tells one state of it from another.
    pub(super) state: String,
}

impl SourceArchive {
    /// The archive, if it and all that a build runs are there; `more` is what this build runs besides.
    pub(super) fn find(
        source: Option<&Path>,
        more: &[(&str, &'static str)],
    ) -> Result<Self, String> {
        let usual = PathBuf::from(format!("/usr/src/{SOURCE}.tar.xz"));
        let tarball = source.map_or(usual, Path::to_path_buf);
        let missing = missing(&tarball, more);
        if !missing.is_empty() {
            return Err(missing_message(&missing));
        }
        let state = state_of(&tarball)?;
        Ok(Self { tarball, state })
    }
}

/// What is not there: its name, and Debian's package with it.
fn missing(tarball: &Path, more: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
    let mut missing = Vec::new();
    if !tarball.exists() {
        missing.push((tarball.display().to_string(), SOURCE));
    }
    for &(program, package) in PROGRAMS.iter().chain(more) {
        // Any answer will do: not every one of them knows this word.
        if Command::new(program).arg("--version").output().is_err() {
            missing.push((program.to_owned(), package));
        }
    }
    for &(header, package) in HEADERS {
        let text = format!("#include <{header}>");
        let mut compiler = Command::new("sh");
        compiler.args(["-c", "printf '%s\\n' \"$1\" | cc -E -x c -", "sh", &text]);
        if !compiler.output().is_ok_and(|said| said.status.success()) {
            missing.push((header.to_owned(), package));
        }
    }
    missing
}

fn missing_message(missing: &[(String, &str)]) -> String {
    let names: Vec<&str> = missing.iter().map(|(name, _)| name.as_str()).collect();
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.sort_unstable();
    packages.dedup();
    format!(
        "{NO_LINUX}: there is no {}\non Debian: apt-get install {}",
        names.join(", no "),
        packages.join(" ")
    )
}

/// Tells one state of an archive from another.
fn state_of(tarball: &Path) -> Result<String, String> {
    let place = |error| format!("{}: {error}", tarball.display());
    let about = fs::metadata(tarball).map_err(place)?;
    let changed = about.modified().map_err(place)?;
    let (file, bytes) = (tarball.display(), about.len());
    Ok(format!("{file}, {bytes} bytes, {changed:?}\n"))
}

/// Unpacks the source, unless it is there from the same archive.
pub(super) fn unpack(folder: &LinuxFolder, archive: &SourceArchive) -> Result<(), String> {
    let SourceArchive { tarball, state } = archive;
    let unpacked = folder.place.join("unpacked");
    if fs::read_to_string(&unpacked).is_ok_and(|before| before == *state) {
        return Ok(());
    }
    // Of an archive that was unpacked by half, or of an older one, nothing stays, and nothing that was built of it.
    if folder.place.exists() {
        fs::remove_dir_all(&folder.place)
            .map_err(|error| format!("{}: {error}", folder.place.display()))?;
    }
    made(&folder.place)?;
    println!("linux: unpacking {}", tarball.display());
    let mut tar = Command::new("nice");
    tar.args(["tar", "-xf"])
        .arg(tarball)
        .arg("-C")
        .arg(&folder.place);
    done(&mut tar)?;
    if !folder.tree().join("lib/test_vmalloc.c").exists() {
        return Err(format!(
            "{}: it has no {SOURCE}/lib/test_vmalloc.c",
            tarball.display()
        ));
    }
    boot::write(&unpacked, state)
}

/// Configures a build as asked; `name` is where that is asked for.
pub(super) fn configure(folder: &LinuxFolder, config: &str, name: &str) -> Result<(), String> {
    made(&folder.build())?;
    let asked = folder.own("asked.config");
    boot::write(&asked, config)?;
    let mut make = folder.make();
    make.arg(format!("KCONFIG_ALLCONFIG={}", asked.display()));
    done(make.arg("allnoconfig"))?;
    let text = read(&folder.build().join(".config"))?;
    let refused = refused(config, &text);
    if refused.is_empty() {
        return Ok(());
    }
    Err(format!(
        "Linux's configuration does not come to what {name} asks for:\n{}",
        refused.join("\n")
    ))
}

/// The lines asked for that a configuration does not hold. An option that it does not name is not set.
fn refused<'a>(asked: &'a str, made: &str) -> Vec<&'a str> {
    let is_refused = |line: &&str| match line.strip_prefix("# CONFIG_") {
        Some(rest) => rest.split_once(' ').is_some_and(|(name, _)| {
            let set = format!("CONFIG_{name}=");
            made.lines().any(|line| line.starts_with(&set))
        }),
        None => line.starts_with("CONFIG_") && !made.lines().any(|made| made == *line),
    };
    asked.lines().filter(is_refused).collect()
}

/// The module of ours, which is built beside the kernel's tree.
fn build_module(folder: &LinuxFolder) -> Result<(), String> {
    let module = folder.own("module");
    made(&module)?;
    boot::write(&module.join("pairs.c"), MODULE)?;
    boot::write(&module.join("Makefile"), "obj-m := pairs.o\n")?;
    let mut make = folder.make();
    done(make.arg(format!("M={}", module.display())).arg("modules"))
}

/// The first process, and an archive with it and the modules.
fn build_files(folder: &LinuxFolder) -> Result<(), String> {
    compile_first(folder, "init", INIT)?;
    let list = format!(
        "dir /proc 755 0 0\ndir /dev 755 0 0\nnod /dev/console 600 0 0 c 5 1\n\
         file /init {} 755 0 0\nfile /test_vmalloc.ko {} 644 0 0\nfile /pairs.ko {} 644 0 0\n",
        folder.own("init").display(),
        folder.build().join("lib/test_vmalloc.ko").display(),
        folder.own("module/pairs.ko").display()
    );
    archive_files(folder, &list)
}

/// A program that needs nothing from the machine it runs on.
pub(super) fn compile_first(folder: &LinuxFolder, name: &str, text: &str) -> Result<(), String> {
    let source = folder.own(&format!("{name}.c"));
    boot::write(&folder.own("first.h"), FIRST)?;
    boot::write(&source, text)?;
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o"]);
    done(compiler.arg(folder.own(name)).arg(source))
}

/// The files that a boot begins with, by a list as Linux's own program takes it.
pub(super) fn archive_files(folder: &LinuxFolder, list: &str) -> Result<(), String> {
    boot::write(&folder.own("files"), list)?;
    let mut maker = Command::new(folder.build().join("usr/gen_init_cpio"));
    let said = output(maker.arg(folder.own("files")))?;
    let files = folder.files();
    fs::write(&files, said.stdout).map_err(|error| format!("{}: {error}", files.display()))
}

/// What is built, and what it says of itself.
pub(super) fn found(folder: &LinuxFolder) -> Result<BuiltLinux, String> {
    let build = folder.build();
    let config = build.join(".config");
    let version = read(&build.join("include/config/kernel.release"))?;
    let sum = output(Command::new("sha256sum").arg(&config))?;
    let sum = String::from_utf8_lossy(&sum.stdout).into_owned();
    let sum = sum
        .get(..12)
        .ok_or_else(|| format!("sha256sum says {sum:?}"))?;
    Ok(BuiltLinux {
        kernel: build.join("vmlinux"),
        files: folder.files(),
        version: version.trim().to_owned(),
        config: sum.to_owned(),
        compiler: compiler_of(&read(&config)?)?,
    })
}

/// `gcc 12.2.0`, from a configuration.
fn compiler_of(config: &str) -> Result<String, String> {
    let line = config
        .lines()
        .find_map(|line| line.strip_prefix("CONFIG_CC_VERSION_TEXT=\""));
    let line = line.ok_or("Linux's configuration does not say what compiles it")?;
    let words: Vec<&str> = line.trim_end_matches('"').split(' ').collect();
    let name = words.first().unwrap_or(&"");
    let version = words.last().unwrap_or(&"");
    Ok(format!("{name} {version}"))
}

pub(super) fn done(command: &mut Command) -> Result<(), String> {
    output(command).map(drop)
}

/// What a command says, which is shown if it fails.
fn output(command: &mut Command) -> Result<Output, String> {
    let words: Vec<String> = command
        .get_args()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let name = format!(
        "{} {}",
        command.get_program().to_string_lossy(),
        words.join(" ")
    );
    let said = command
        .output()
        .map_err(|error| format!("{name}: {error}"))?;
    if said.status.success() {
        return Ok(said);
    }
    let text =
        String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
    Err(format!("{name}: {}\n{}", said.status, last_lines(&text)))
}

/// The end of a long text.
pub(crate) fn last_lines(text: &str) -> String {
    const LINES: usize = 40;
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

pub(super) fn made(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

pub(super) fn removed(file: &Path) -> Result<(), String> {
    match fs::remove_file(file) {
        Err(error) if file.exists() => Err(format!("{}: {error}", file.display())),
        _ => Ok(()),
    }
}

pub(super) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_its_package() {
        let missing = missing(Path::new("/nowhere/linux.tar.xz"), &[]);
        assert_eq!(
            missing.first(),
            Some(&("/nowhere/linux.tar.xz".to_owned(), SOURCE))
        );
        let both = [("flex".to_owned(), "flex"), ("gcc".to_owned(), "gcc")];
        let message = missing_message(&[both.clone(), both].concat());
        assert_eq!(
            message,
            "Linux cannot be built here: there is no flex, no gcc, no flex, no gcc\n\
             on Debian: apt-get install flex gcc"
        );
    }

    #[test]
    fn an_option_that_the_kernel_refuses_is_found() {
        let asked = "# why\n\nCONFIG_SMP=y\nCONFIG_TEST_VMALLOC=m\n# CONFIG_MEMCG is not set\n# CONFIG_NUMA is not set\n";
        let made = "CONFIG_SMP=y\nCONFIG_TEST_VMALLOC=m\n# CONFIG_NUMA is not set\n";
        assert!(refused(asked, made).is_empty());
        let other = "CONFIG_SMP=y\nCONFIG_TEST_VMALLOC=y\nCONFIG_MEMCG=y\n";
        assert_eq!(
            refused(asked, other),
            ["CONFIG_TEST_VMALLOC=m", "# CONFIG_MEMCG is not set"]
        );
    }

    #[test]
    fn the_configuration_says_what_compiled_it() {
        let config =
            "CONFIG_X=y\nCONFIG_CC_VERSION_TEXT=\"gcc (Debian 12.2.0-14+deb12u1) 12.2.0\"\n";
        assert_eq!(compiler_of(config).as_deref(), Ok("gcc 12.2.0"));
        assert!(compiler_of("").is_err());
    }

    #[test]
    fn a_long_text_is_shown_from_its_end() {
        let text: String = (0..100).map(|nth| format!("{nth}\n")).collect();
        let shown = last_lines(&text);
        assert!(shown.starts_with("60\n") && shown.ends_with("\n99"));
        assert_eq!(last_lines("a\nb\n"), "a\nb");
    }
}
