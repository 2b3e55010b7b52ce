//! The command `framewright`.

fn main() -> std::process::ExitCode {
    framewright_lab::cmd::main()
}
