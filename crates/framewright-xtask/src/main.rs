//! The repository's own commands: `cargo xtask kernel` builds the kernel and boots it in QEMU.

mod boot;
mod document;
mod figures;
mod suite;

use boot::{Accelerator, QemuMachine};
use std::env;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask kernel [options]

Builds kernel/ for x86_64-unknown-none and boots it in QEMU.

  --test NAME      one test, and what it says (default: boot)
  --cpus N         CPUs, 1 to 8 (default: 1)
  --memory SIZE    memory, as QEMU takes it (default: 2G)
  --append WORDS   more for the kernel's command line, such as 'loops=1000 kept=0 lazy=16 seed=3'
  --machine NAME   microvm, q35 or pc (default: microvm)
  --threads        a thread for each CPU, which races; without it instructions are counted
  --suite          every test; figures are compared with docs/results/kernel.jsonl, 15 % either way
  --write          as --suite, and writes the figures there and docs/kernel-machine.md

Exit code: 0 passed, 1 failed, 2 wrong use, or QEMU is missing.";

/// What the command line asks for.
struct Asked {
    machine: QemuMachine,
    test: String,
    is_suite: bool,
    is_written: bool,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Asked, String> {
    let command = words.next().ok_or("a command is missing")?;
    if command != "kernel" {
        return Err(format!("there is no command `{command}`"));
    }
    let mut asked = Asked {
        machine: QemuMachine::default(),
        test: "boot".to_owned(),
        is_suite: false,
        is_written: false,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word}: a value is missing"));
        match word.as_str() {
            "--test" => asked.test = value()?,
            "--cpus" => {
                let cpus = value()?;
                let parsed = cpus.parse().ok().filter(|cpus| (1..=8).contains(cpus));
                asked.machine.cpus = parsed.ok_or(format!("--cpus {cpus}: expected 1 to 8"))?;
            }
            "--memory" => asked.machine.memory = value()?,
            "--append" => asked.machine.append = value()?,
            "--machine" => asked.machine.kind = value()?,
            "--threads" => asked.machine.accelerator = Accelerator::Threads,
            "--suite" => asked.is_suite = true,
            "--write" => (asked.is_suite, asked.is_written) = (true, true),
            _ => return Err(format!("there is no option `{word}`")),
        }
    }
    Ok(asked)
}

fn run(asked: &Asked) -> Result<(), String> {
    let qemu = boot::qemu_version()?;
    let kernel = boot::build()?;
    if asked.is_suite {
        return suite::run(&kernel, &qemu, asked.is_written);
    }
    let end = asked.machine.boot(&kernel, &asked.test)?;
    println!("{}", end.said);
    end.expect_passed(&asked.test)
}

fn main() -> ExitCode {
    let asked = match parse(env::args().skip(1)) {
        Ok(asked) => asked,
        Err(error) => {
            eprintln!("{error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&asked) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            let is_missing = error.starts_with(boot::NO_QEMU);
            ExitCode::from(if is_missing { 2 } else { 1 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Asked, String> {
        parse(words.split(' ').map(str::to_owned))
    }

    #[test]
    fn options_reach_the_machine() {
        let words = "kernel --cpus 4 --memory 512M --test smp --threads";
        let asked = parsed(words).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((asked.machine.cpus, asked.test.as_str()), (4, "smp"));
        assert_eq!(asked.machine.memory, "512M");
        assert_eq!(asked.machine.accelerator, Accelerator::Threads);
        assert!(!asked.is_suite && !asked.is_written);
        assert!(parsed("kernel --write").is_ok_and(|asked| asked.is_suite && asked.is_written));
    }

    #[test]
    fn wrong_words_are_refused_with_the_word() {
        let refused = |words| parsed(words).err().unwrap_or_default();
        assert!(refused("linux").contains("`linux`"));
        assert!(refused("kernel --cpus 9").contains("expected 1 to 8"));
        assert!(refused("kernel --cpus").contains("a value is missing"));
        assert!(refused("kernel --cups 1").contains("`--cups`"));
    }
}
