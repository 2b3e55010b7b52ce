//! The command `framewright`.

fn main() {
    println!("framewright {}", env!("CARGO_PKG_VERSION"));
}
