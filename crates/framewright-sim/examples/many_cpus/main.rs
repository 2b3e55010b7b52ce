//! A machine of up to 256 CPUs, simulated: what the engine's loads come to there, with stated prices.
//!
//! `cargo xtask many-cpus` runs this and shows what comes of it. By hand, with the prices and the work of loads as lines of
//! standard input, in picoseconds and in instructions:
//!
//! ```sh
//! RUSTFLAGS='--cfg lines' CARGO_TARGET_DIR=target/models \
//!     cargo run --release -p framewright-sim --example many_cpus < INPUT
//! ```
//!
//! It is a simulation. The engine's code runs as it is, on a CPU's turn, and its locks, waits and stops are real ones between
//! the simulated CPUs; the prices of lines and interrupts, and the time of the work between, are given. The same input gives
//! the same output.

#[cfg(lines)]
mod loads;
#[cfg(lines)]
mod machine;
#[cfg(lines)]
mod platform;
#[cfg(lines)]
mod report;
#[cfg(all(test, lines))]
mod tests;

/// What things cost, in picoseconds.
#[cfg(lines)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Prices {
    instruction_ps: u64,
    /// A line that another CPU has.
    line_ps: u64,
    /// An interrupt of all others: to its sender.
    interrupt_ps: u64,
    /// The same: to each other CPU.
    answer_ps: u64,
    /// A look of a CPU that waits, at first and later.
    poll_ps: u64,
    late_poll_ps: u64,
}

#[cfg(lines)]
fn main() -> Result<(), String> {
    report::run()
}

#[cfg(not(lines))]
fn main() {
    println!("it needs RUSTFLAGS='--cfg lines', as its first lines say");
}
