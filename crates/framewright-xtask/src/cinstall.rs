//! The library for C as a program's author gets it: installed by cargo-c, found by pkg-config and by nothing else. What the
//! machine lacks is skipped aloud.

use crate::kernels::boot;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of the library's crate.
const CRATE: &str = "crates/framewright-capi";
const EXAMPLES: [&str; 2] = ["hypervisor", "storage"];

/// What the README leaves to the reader, before its lines for that build system.
const BEFORE_MESON: &str = "project('vmm', 'c')\n";
const BEFORE_CMAKE: &str =
    "cmake_minimum_required(VERSION 3.16)\nproject(vmm C)\nadd_executable(vmm vmm.c)\n";

/// `cargo xtask cinstall`.
pub(crate) fn run() -> Result<(), String> {
    let missing = [
        ("cargo-cinstall", "cargo install --locked cargo-c"),
        ("pkg-config", "Debian: apt-get install pkg-config"),
        ("cc", "there is no C compiler"),
    ];
    for (program, remedy) in missing {
        if !answers(program) {
            println!("skipped: {program} is not installed ({remedy})");
            return Ok(());
        }
    }
    let installed = Installed::make()?;
    installed.is_whole()?;
    for example in EXAMPLES {
        for link in [Link::Shared, Link::Archive, Link::WholeStatic] {
            installed.runs(example, link)?;
        }
    }
    installed.python()?;
    installed.meson()?;
    installed.cmake()
}

/// Whether a program is there. All of these know `--version`.
fn answers(program: &str) -> bool {
    let said = Command::new(program).arg("--version").output();
    said.is_ok_and(|said| said.status.success())
}

/// How a program is linked.
#[derive(Clone, Copy, Debug)]
enum Link {
    Shared,
    /// This library from its archive, the C library shared.
    Archive,
    /// No shared library at all.
    WholeStatic,
}

struct Installed {
    folder: PathBuf,
    prefix: PathBuf,
}

impl Installed {
    fn make() -> Result<Self, String> {
        let target = env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| boot::root().join("target"), PathBuf::from);
        let folder = target.join("cinstall");
        let prefix = folder.join("prefix");
        if prefix.exists() {
            fs::remove_dir_all(&prefix)
                .map_err(|error| format!("{}: {error}", prefix.display()))?;
        }
        let mut cargo = boot::cargo();
        cargo.args([
            "cinstall",
            "--release",
            "--locked",
            "-p",
            "framewright-capi",
        ]);
        cargo.arg("--prefix").arg(&prefix);
        cargo.arg("--libdir").arg(prefix.join("lib"));
        cargo.arg("--target-dir").arg(folder.join("build"));
        output(&mut cargo)?;
        println!("installed: {}", prefix.display());
        Ok(Self { folder, prefix })
    }

    /// A command that finds this library alone by pkg-config, and shared libraries where the system has them.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("PKG_CONFIG_LIBDIR", self.prefix.join("lib/pkgconfig"));
        command.env_remove("PKG_CONFIG_PATH");
        command.env_remove("LD_LIBRARY_PATH");
        command.current_dir(&self.folder);
        command
    }

    fn pkg_config(&self, asked: &[&str]) -> Result<Vec<String>, String> {
        let said = output(self.command("pkg-config").args(asked).arg("framewright"))?;
        let words = String::from_utf8_lossy(&said.stdout).into_owned();
        Ok(words.split_whitespace().map(str::to_owned).collect())
    }

    fn is_whole(&self) -> Result<(), String> {
        let version = self.pkg_config(&["--modversion"])?;
        if version != [env!("CARGO_PKG_VERSION")] {
            return Err(format!("pkg-config says version {version:?}"));
        }
        let read = |path: PathBuf| {
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let header = read(self.prefix.join("include/framewright.h"))?;
        if header != read(boot::root().join(CRATE).join("include/framewright.h"))? {
            return Err("the installed header is not the repository's".to_owned());
        }
        for file in [
            "libframewright.a",
            "libframewright.so",
            "pkgconfig/framewright.pc",
        ] {
            let path = self.prefix.join("lib").join(file);
            if !path.exists() {
                return Err(format!("{} was not installed", path.display()));
            }
        }
        Ok(())
    }

    /// Compiles an example as a reader would, and runs it.
    fn runs(&self, example: &str, link: Link) -> Result<(), String> {
        let asked: &[&str] = match link {
            Link::Shared => &["--cflags", "--libs"],
            Link::Archive | Link::WholeStatic => &["--cflags", "--static", "--libs"],
        };
        let mut words = self.pkg_config(asked)?;
        for word in &mut words {
            match (&word[..], link) {
                ("-lframewright", Link::Archive) => "-l:libframewright.a".clone_into(word),
                // Of the compiler's own library there is no archive by that name.
                ("-lgcc_s", Link::WholeStatic) => "-lgcc_eh".clone_into(word),
                _ => {}
            }
        }
        let program = self.folder.join(format!("{example}-{link:?}"));
        let mut compiler = self.command("cc");
        compiler.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror"]);
        if matches!(link, Link::WholeStatic) {
            compiler.arg("-static");
        }
        compiler
            .arg(source(example))
            .args(words)
            .arg("-o")
            .arg(&program);
        output(&mut compiler)?;
        let mut ran = self.command(&program);
        if matches!(link, Link::Shared) {
            ran.env("LD_LIBRARY_PATH", self.prefix.join("lib"));
        }
        output(&mut ran)?;
        println!("{example}, {link:?}: runs");
        Ok(())
    }

    fn python(&self) -> Result<(), String> {
        if !answers("python3") {
            println!("skipped: Python: python3 is not installed");
            return Ok(());
        }
        let mut python = self.command("python3");
        python.arg(boot::root().join(CRATE).join("tests/c/smoke.py"));
        output(python.arg(self.prefix.join("lib/libframewright.so")))?;
        println!("Python: runs");
        Ok(())
    }

    fn meson(&self) -> Result<(), String> {
        if !answers("meson") || !answers("ninja") {
            println!("skipped: meson: it is not installed, or ninja is not");
            return Ok(());
        }
        let project = self.project("meson", "meson.build", BEFORE_MESON)?;
        let built = project.join("build");
        output(self.command("meson").arg("setup").arg(&built).arg(&project))?;
        output(self.command("meson").args(["compile", "-C"]).arg(&built))?;
        self.built("meson", &built.join("vmm"))
    }

    fn cmake(&self) -> Result<(), String> {
        if !answers("cmake") {
            println!("skipped: cmake: it is not installed");
            return Ok(());
        }
        let project = self.project("cmake", "CMakeLists.txt", BEFORE_CMAKE)?;
        let built = project.join("build");
        output(
            self.command("cmake")
                .arg("-S")
                .arg(&project)
                .arg("-B")
                .arg(&built),
        )?;
        output(self.command("cmake").arg("--build").arg(&built))?;
        self.built("cmake", &built.join("vmm"))
    }

    /// A project of that build system with the README's own lines, over one of the examples.
    fn project(&self, language: &str, name: &str, before: &str) -> Result<PathBuf, String> {
        let place = |path: &Path, error| format!("{}: {error}", path.display());
        let folder = self.folder.join(language);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|error| place(&folder, error))?;
        }
        fs::create_dir_all(&folder).map_err(|error| place(&folder, error))?;
        let readme = boot::root().join(CRATE).join("README.md");
        let text = fs::read_to_string(&readme).map_err(|error| place(&readme, error))?;
        let lines =
            block(&text, language).ok_or(format!("the README has no lines for {language}"))?;
        boot::write(&folder.join(name), &format!("{before}{lines}"))?;
        let vmm = folder.join("vmm.c");
        fs::copy(source(EXAMPLES[0]), &vmm).map_err(|error| place(&vmm, error))?;
        Ok(folder)
    }

    fn built(&self, what: &str, program: &Path) -> Result<(), String> {
        // Neither build system has an installed program here, so the library is found as in one's own build folder.
        output(
            self.command(program)
                .env("LD_LIBRARY_PATH", self.prefix.join("lib")),
        )?;
        println!("{what}: runs");
        Ok(())
    }
}

fn source(example: &str) -> PathBuf {
    boot::root()
        .join(CRATE)
        .join(format!("examples/c/{example}.c"))
}

/// The first block of a language in a page.
fn block<'a>(page: &'a str, language: &str) -> Option<&'a str> {
    let (_, behind) = page.split_once(&format!("```{language}\n"))?;
    Some(behind.split_once("```")?.0)
}

/// Runs a command that must succeed. What it said, else.
fn output(command: &mut Command) -> Result<Output, String> {
    let program = Path::new(command.get_program()).display().to_string();
    let said = command
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if said.status.success() {
        return Ok(said);
    }
    let (out, errors) = (
        String::from_utf8_lossy(&said.stdout),
        String::from_utf8_lossy(&said.stderr),
    );
    Err(format!("{program}: {}\n{out}{errors}", said.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_has_lines_for_each_build_system() {
        let readme = fs::read_to_string(boot::root().join(CRATE).join("README.md")).unwrap();
        assert!(
            block(&readme, "meson")
                .unwrap()
                .contains("dependency('framewright'")
        );
        assert!(
            block(&readme, "cmake")
                .unwrap()
                .contains("target_link_libraries(vmm")
        );
        assert_eq!(block(&readme, "bazel"), None);
    }

    #[test]
    fn a_command_that_fails_says_what_it_said() {
        let failed = output(Command::new("sh").args(["-c", "echo aloud; exit 3"]));
        let error = failed.map(|_| ()).unwrap_err();
        assert!(
            error.contains("sh: ") && error.contains('3') && error.contains("aloud"),
            "{error}"
        );
        assert!(!answers("no-such-program"));
    }
}
