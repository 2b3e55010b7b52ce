//! Completions and manual pages, made from the command line's own description.

use super::conduct::CommandError;
use super::places::claim_output;
use crate::files::{FileClaims, OutputSet};
use crate::printable;
use crate::report::write_whole;
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use std::fs;
use std::path::PathBuf;

/// Print the completions for a shell, as `framewright completions bash > FILE`
#[derive(Debug, clap::Args)]
pub(super) struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Write the manual pages, framewright.1 and one for each command
#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    /// The folder to write them into; without it the first one is printed
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Prints completions.
///
/// # Errors
/// If standard output cannot be written.
pub(super) fn completions(args: &CompletionArgs, mut command: Command) -> Result<(), CommandError> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "framewright", &mut text);
    write_whole("-".as_ref(), &text).map_err(CommandError::input)
}

/// Writes manual pages.
///
/// # Errors
/// If one cannot be written; none is there then.
pub(super) fn manual(args: &ManArgs, mut command: Command) -> Result<(), CommandError> {
    command.build();
    let mut pages = Vec::new();
    pages_of(&command, "framewright".into(), &mut pages)?;
    let Some(folder) = &args.folder else {
        let first = pages.first().map_or(&[][..], |(_, text)| text);
        return write_whole("-".as_ref(), first).map_err(CommandError::input);
    };
    if !folder.is_dir() {
        return Err(CommandError::Input(format!(
            "{}: there is no such folder, expected one",
            printable::path(folder)
        )));
    }
    let mut claims = FileClaims::new();
    let mut outputs = OutputSet::new();
    for (name, text) in pages {
        let path = folder.join(format!("{name}.1"));
        claim_output(&mut claims, "a manual page", &path)?;
        // Not in the place of what is no file.
        if fs::metadata(&path).is_ok_and(|there| !there.is_file()) {
            let path = printable::path(&path);
            return Err(CommandError::Input(format!(
                "{path}: is no file, expected a file's name"
            )));
        }
        outputs.write(&path, text).map_err(CommandError::input)?;
    }
    outputs.keep().map_err(CommandError::input)
}

/// The page of a command and of each below it, by name.
fn pages_of(
    command: &Command,
    name: String,
    pages: &mut Vec<(String, Vec<u8>)>,
) -> Result<(), CommandError> {
    let mut text = Vec::new();
    let titled = command.clone().name(name.clone());
    Man::new(titled)
        .render(&mut text)
        .map_err(CommandError::input)?;
    pages.push((name.clone(), text));
    for below in command
        .get_subcommands()
        .filter(|c| c.get_name() != "help" && !c.is_hide_set())
    {
        pages_of(below, format!("{name}-{}", below.get_name()), pages)?;
    }
    Ok(())
}
