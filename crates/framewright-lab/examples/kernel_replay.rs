//! What `cargo xtask kernel --replay` hands to a kernel: writes the stream of a recording to a file, and says what its replay on
//! the engine comes to here, in the lines that the kernel says.
//!
//! `cargo run --release -p framewright-lab --example kernel_replay -- TRACE STREAM [--policy NAME] [--start imposed|fresh]
//! [--squeeze SIZE] [--ops N]`; the policy is one of the engine's, the size as `framewright replay` takes it.

use framewright_lab::cmd::library::LoadedRecording;
use framewright_lab::replay::{FlatSettings, ReplayPolicy, Start};
use framewright_lab::size::read_squeeze;
use framewright_lab::trace::MemoryLimit;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let files = words.next().zip(words.next());
    let (trace, stream) = files.ok_or("expected a recording, and where the stream is written")?;
    let recording = LoadedRecording::open(Path::new(&trace), None, MemoryLimit::default())?;
    let mut settings = FlatSettings {
        fallback: framewright::policy::Fallback::Concentrated,
        start: Start::Imposed,
        squeeze: 0,
    };
    let mut ops = None;
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word}: a value is missing"))?;
        match word.as_str() {
            "--policy" => match value.parse()? {
                ReplayPolicy::Engine(fallback) => settings.fallback = fallback,
                policy => return Err(format!("--policy {policy}: it is not the engine's").into()),
            },
            "--start" => {
                let starts = [Start::Imposed, Start::Fresh];
                let start = starts.into_iter().find(|start| start.name() == value);
                let start = start.ok_or(format!("--start {value}: expected imposed or fresh"));
                settings.start = start?;
            }
            "--squeeze" => settings.squeeze = recording.held_back(read_squeeze(&value)?)?,
            "--ops" => ops = Some(value.parse().map_err(|e| format!("--ops {value}: {e}"))?),
            _ => return Err(format!("there is no option `{word}`").into()),
        }
    }
    let (words, lines) = recording.for_kernel(ops, settings)?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    std::fs::write(&stream, bytes).map_err(|e| format!("{stream}: {e}"))?;
    print!("{lines}");
    Ok(())
}
