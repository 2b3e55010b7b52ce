//! What callgrind wrote: costs by instruction, in parts.
//!
//! A part ends where the program calls the function that callgrind was told of, or with the program. Names and positions are
//! not compressed (`--compress-strings=no --compress-pos=no`), and each cost has the address of its instruction
//! (`--dump-instr=yes`).

use std::collections::BTreeMap;
use std::ops::AddAssign;

/// How often what happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct EventCount {
    pub(crate) instructions: u64,
    /// Instructions that lock the bus.
    pub(crate) locked: u64,
    /// Calls of the operating system.
    pub(crate) system_calls: u64,
}

impl EventCount {
    /// What is counted, with its unit.
    pub(crate) const fn kinds(&self) -> [(&'static str, &'static str, u64); 3] {
        [
            ("instructions", "instructions", self.instructions),
            ("locked", "instructions", self.locked),
            ("system_calls", "calls", self.system_calls),
        ]
    }
}

impl AddAssign for EventCount {
    fn add_assign(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.locked += other.locked;
        self.system_calls += other.system_calls;
    }
}

/// Where an instruction lies.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct CodePlace {
    /// The file of the program or the library.
    pub(crate) object: String,
    pub(crate) address: u64,
}

/// The engine's ways from a seat's caches to the pageblocks, by how their names end. They are never inlined.
const TRIPS: [&str; 2] = ["::alloc_slow", "::free_slow"];

/// What a part has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct CallgrindPart {
    /// Costs by instruction, without those of what it calls.
    pub(crate) costs: BTreeMap<CodePlace, EventCount>,
    /// How often the engine's seats of frames went to the pageblocks.
    pub(crate) trips: u64,
}

impl CallgrindPart {
    /// Of the text of one part.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut events: Vec<&str> = Vec::new();
        let (mut object, mut callee) = ("", "");
        let mut trips = 0;
        let mut costs: BTreeMap<CodePlace, EventCount> = BTreeMap::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(positions) = line.strip_prefix("positions: ") {
                if positions != "instr line" {
                    return Err(format!("it has no addresses: positions: {positions}"));
                }
            } else if let Some(names) = line.strip_prefix("events: ") {
                events = names.split(' ').collect();
            } else if let Some(name) = line.strip_prefix("ob=") {
                object = name;
            } else if let Some(name) = line.strip_prefix("cfn=") {
                callee = name;
            } else if let Some(calls) = line.strip_prefix("calls=") {
                let is_trip = callee.contains("::frame::seat::")
                    && TRIPS.iter().any(|end| callee.ends_with(end));
                let calls = calls.split(' ').next().and_then(|word| word.parse().ok());
                trips += calls.filter(|_| is_trip).unwrap_or(0);
                // What the callee cost, which has lines of its own.
                lines.next();
            } else if line.starts_with("0x") {
                let (address, count) = cost(line, &events).ok_or(format!("not a cost: {line}"))?;
                let place = CodePlace {
                    object: object.to_owned(),
                    address,
                };
                *costs.entry(place).or_default() += count;
            } else if line.starts_with(['+', '-', '*', '(']) {
                return Err(format!("it is compressed: {line}"));
            }
        }
        match events.is_empty() {
            true => Err("it names no events".to_owned()),
            false => Ok(Self { costs, trips }),
        }
    }

    /// All of it.
    pub(crate) fn sum(&self) -> EventCount {
        let mut sum = EventCount::default();
        self.costs.values().for_each(|count| sum += *count);
        sum
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (place, count) in &other.costs {
            *self.costs.entry(place.clone()).or_default() += *count;
        }
        self.trips += other.trips;
    }
}

/// The address and the costs of a line; those at its end that are 0 are left out.
fn cost(line: &str, events: &[&str]) -> Option<(u64, EventCount)> {
    let mut words = line.split(' ');
    let address = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    words.next()?;
    let mut count = EventCount::default();
    for (event, word) in events.iter().zip(words) {
        let value = word.parse().ok()?;
        match *event {
            "Ir" => count.instructions = value,
            "Ge" => count.locked = value,
            "sysCount" => count.system_calls = value,
            _ => {}
        }
    }
    Some((address, count))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A part with two instructions in a program and one in a library.
    pub(crate) const PART: &str = "\
version: 1
creator: callgrind-3.19.0
positions: instr line
events: Ir Ge sysCount sysTime
summary: 30 2 1 9

ob=/x/bench
fl=/src/a.rs
fn=a
0x1000 7 10 2
fi=/src/b.rs
0x1004 8 4
fe=/src/a.rs
cob=/lib/c.so
cfi=/src/c.c
cfn=c
calls=2 0x20 5
0x1004 8 999 9
cfn=framewright::frame::seat::Seat<P>::free_slow
calls=3 0x1000 7
0x1004 8 30

ob=/lib/c.so
fl=/src/c.c
fn=c
0x20 5 16 0 1 9
totals: 30 2 1 9
";

    fn place(object: &str, address: u64) -> CodePlace {
        CodePlace {
            object: object.to_owned(),
            address,
        }
    }

    #[test]
    fn costs_are_an_instruction_s_own() {
        let part = CallgrindPart::parse(PART).unwrap();
        let count = |instructions, locked, system_calls| EventCount {
            instructions,
            locked,
            system_calls,
        };
        let expected = BTreeMap::from([
            (place("/x/bench", 0x1000), count(10, 2, 0)),
            (place("/x/bench", 0x1004), count(4, 0, 0)),
            (place("/lib/c.so", 0x20), count(16, 0, 1)),
        ]);
        assert_eq!(part.costs, expected);
        assert_eq!(part.trips, 3);
        assert_eq!(part.sum(), count(30, 2, 1));
        let mut both = part.clone();
        both.add(&part);
        assert_eq!((both.sum(), both.trips), (count(60, 4, 2), 6));
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let refused = |text: &str| CallgrindPart::parse(text).unwrap_err();
        assert!(refused("positions: line\nevents: Ir\n").contains("no addresses"));
        assert!(refused("positions: instr line\n").contains("no events"));
        let compressed = PART.replace("0x1004 8 4", "+4 8 4");
        assert!(refused(&compressed).contains("compressed: +4"));
        let broken = PART.replace("7 10 2", "7 ten 2");
        assert!(refused(&broken).contains("not a cost: 0x1000 7 ten"));
    }
}
