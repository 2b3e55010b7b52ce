//! A program whose whole heap is the engine's: threads, vectors, maps and strings.
//!
//! `cargo run -p framewright-examples --bin global_alloc`

use framewright_linux::{Heap, HeapOptions};
use std::collections::HashMap;
use std::error::Error;
use std::sync::mpsc;
use std::thread;

#[global_allocator]
static HEAP: Heap = Heap::new(HeapOptions::new(256 << 20).with_threads(8));

const THREADS: usize = 4;
const LINES: usize = 2000;

fn main() -> Result<(), Box<dyn Error>> {
    // Where it cannot be made, the program runs on the system's heap all the same.
    let is_made = HEAP.set_up();

    // Each thread writes lines, another one counts their words: what one allocates, the other frees.
    let (send, lines) = mpsc::channel::<String>();
    let counter = thread::spawn(move || count(lines));
    let writers: Vec<_> = (0..THREADS)
        .map(|number| {
            let send = send.clone();
            thread::spawn(move || write(number, &send))
        })
        .collect();
    drop(send);
    let longest = writers
        .into_iter()
        .map(|writer| writer.join().unwrap_or_default())
        .max();
    let counts = counter.join().map_err(|_| "the counter panicked")?;
    let mut words: Vec<_> = counts.iter().collect();
    words.sort();
    println!(
        "{} different words, the longest line {longest:?} bytes",
        words.len()
    );
    for (word, count) in words.iter().take(3) {
        println!("{count:>6} {word}");
    }

    if let Err(error) = is_made {
        println!("on the system's heap: {error}");
    } else if let Some(stats) = HEAP.stats() {
        let objects = stats.objects;
        println!("small objects: {}", objects.slab_allocs);
        println!(
            "blocks of frames: {}, mapped: {}",
            objects.run_allocs, objects.spills
        );
        println!("passed on to the system: {}", stats.system_allocs);
        println!("lost: {}, refused: {}", stats.lost_frees, objects.bad_frees);
    }
    Ok(())
}

/// Sends lines, and returns the longest one's length.
fn write(number: usize, send: &mpsc::Sender<String>) -> usize {
    let mut longest = 0;
    for line in 0..LINES {
        let words = (0..line % 17).map(|word| format!("word{}", (word * line + number) % 100));
        let text = words.collect::<Vec<_>>().join(" ");
        longest = longest.max(text.len());
        if send.send(text).is_err() {
            break;
        }
    }
    longest
}

fn count(lines: mpsc::Receiver<String>) -> HashMap<String, u64> {
    let mut counts = HashMap::new();
    for line in lines {
        for word in line.split_whitespace() {
            *counts.entry(word.to_owned()).or_insert(0) += 1;
        }
    }
    counts
}
