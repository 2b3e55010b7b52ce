//! All loads on all numbers of CPUs, as rows for a result file.

use crate::Prices;
use crate::loads::{CpuLoad, LOADS, layout, works};
use crate::machine::{Loss, Lost, ManyCpus, Plan, SpentTime, run as run_machine};
use crate::platform::ManyCpusPlatform;
use framewright::engine::Engine;
use framewright::{Frame, Run};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;

/// How many CPUs.
const CPUS: [u16; 5] = [1, 2, 16, 64, 256];

/// What an access takes while it is not known what a load's takes.
const ANY_PS: u64 = 1000;

/// What is given: prices, and the instructions of an operation of some loads.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) prices: Prices,
    pub(crate) instructions: BTreeMap<String, f64>,
    /// How the loads begin that are run.
    only: String,
}

impl Given {
    /// Lines of a word, a number and perhaps a name.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut values = BTreeMap::new();
        let mut instructions = BTreeMap::new();
        let mut only = String::new();
        for line in text.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            if word == "only" {
                rest.clone_into(&mut only);
                continue;
            }
            let (number, name) = rest.split_once(' ').unwrap_or((rest, ""));
            let number: f64 = number.parse().map_err(|_| format!("{line}: no number"))?;
            match word {
                "work" => drop(instructions.insert(name.to_owned(), number)),
                _ => drop(values.insert(word.to_owned(), number as u64)),
            }
        }
        let price = |name: &str| {
            let price = values.get(name).copied().filter(|ps| *ps > 0);
            price.ok_or_else(|| format!("the price of `{name}` is missing"))
        };
        let prices = Prices {
            instruction_ps: price("instruction")?,
            line_ps: price("line")?,
            interrupt_ps: price("interrupt")?,
            answer_ps: price("answer")?,
            poll_ps: price("poll")?,
            late_poll_ps: price("later-poll")?,
        };
        Ok(Self {
            prices,
            instructions,
            only,
        })
    }
}

/// One load on that many CPUs.
pub(crate) fn simulate(
    load: CpuLoad,
    cpus: u16,
    prices: Prices,
    work_ps: u64,
    plan: Plan,
) -> SpentTime {
    let layout = layout(load, cpus);
    let words = layout.words_needed().expect("an engine can have it");
    let mut metadata = vec![0; words];
    let extent = (metadata.as_ptr().addr(), words * 8);
    let engine = Engine::in_zeroed(&layout, &mut metadata, ManyCpusPlatform).expect("as above");
    let all = Run::new(Frame(0), layout_frames(cpus)).expect("frames from 0 on");
    engine.add(all).expect("memory that is new");
    let machine = ManyCpus::new(cpus.into(), prices, work_ps, extent, plan);
    let works = works(load, &engine, cpus);
    let spent = run_machine(machine, works);
    engine.verify().expect("all is at rest");
    spent
}

fn layout_frames(cpus: u16) -> u64 {
    u64::from(cpus) * crate::loads::FRAMES
}

/// Few CPUs do as much in all as so many: what is rare, such as a flush, is then as often in their figures.
const EVEN: u64 = 64;

fn plan(load: CpuLoad, cpus: u16, spread: u64) -> Plan {
    // A cold start is over after the first operations: more of them would be of warm CPUs.
    let times = match load.is_cold {
        true => 1,
        false => (EVEN / u64::from(cpus)).max(1),
    };
    Plan {
        // A step is half an operation where it only allocates.
        warm: if load.is_cold { 0 } else { 3 * load.cycle },
        spread,
        counted: times * load.counted,
    }
}

/// What one CPU does: accesses for an operation.
fn accesses(load: CpuLoad, prices: Prices) -> f64 {
    let spent = simulate(load, 1, prices, ANY_PS, plan(load, 1, 0));
    spent.accesses as f64 / spent.operations as f64
}

fn row(out: &mut String, load: CpuLoad, cpus: u16, metric: &str, unit: &str, value: f64) {
    let value = (value * 1000.0).round() / 1000.0;
    let name = load.name;
    let _ = writeln!(
        out,
        "{{\"case\":\"{name}\",\"variant\":\"{cpus}\",\"metric\":\"{metric}\",\"unit\":\"{unit}\",\
         \"source\":\"simulated\",\"value\":{value}}}"
    );
}

/// The rows of one load.
fn rows(load: CpuLoad, prices: Prices, instructions: f64, work_ps: u64) -> String {
    let mut out = String::new();
    let pace = (instructions * prices.instruction_ps as f64) as u64;
    let mut alone = 0.0;
    for cpus in CPUS {
        let spent = simulate(
            load,
            cpus,
            prices,
            work_ps,
            plan(load, cpus, load.cycle * pace),
        );
        let operations = spent.operations as f64;
        // Of one CPU, in nanoseconds.
        let time = spent.window as f64 * f64::from(cpus) / operations / 1000.0;
        if cpus == 1 {
            alone = time;
        }
        let mut add =
            |metric: &str, unit: &str, value| row(&mut out, load, cpus, metric, unit, value);
        add("operation", "ns", time);
        add("operations", "times", operations);
        add("throughput", "%", 100.0 * alone / time);
        let slowest = spent.slowest as f64 * f64::from(cpus) / operations;
        add("slowest", "%", 100.0 * alone / time * slowest);
        add("work", "ns", spent.work as f64 / operations / 1000.0);
        for loss in Loss::ALL {
            let Lost { times, ps } = spent.of(loss);
            if ps > 0 {
                add(loss.name(), "ns", ps as f64 / operations / 1000.0);
                add(
                    &format!("{} count", loss.name()),
                    "times",
                    times as f64 / operations,
                );
                add(&format!("{} events", loss.name()), "times", times as f64);
            }
        }
        for ((loss, file), Lost { ps, .. }) in &spent.lost {
            let ns = *ps as f64 / operations / 1000.0;
            // What is below a hundredth of an operation explains nothing.
            if ns > time / 100.0 {
                add(&format!("{} in {file}", loss.name()), "ns", ns);
            }
        }
    }
    out
}

/// The command: reads what is given, writes rows.
pub(crate) fn run() -> Result<(), String> {
    let text = io::read_to_string(io::stdin()).map_err(|error| error.to_string())?;
    let given = Given::parse(&text)?;
    // All are counted in any case: those without a given work have the mean of the others'.
    let counted = LOADS.map(|load| (load, accesses(load, given.prices)));
    let known = counted.iter().filter_map(|(load, accesses)| {
        let instructions = given.instructions.get(load.name)?;
        Some(instructions / accesses)
    });
    let known: Vec<f64> = known.collect();
    if known.is_empty() {
        return Err("the work of no load is given".to_owned());
    }
    // A load without counts works for an access as the others do in the mean.
    let mean = known.iter().sum::<f64>() / known.len() as f64;
    for (load, accesses) in counted {
        if !load.name.starts_with(&given.only) {
            continue;
        }
        let given_work = given.instructions.get(load.name).copied();
        let instructions = given_work.unwrap_or(mean * accesses);
        let per_access = instructions / accesses;
        let work_ps = (per_access * given.prices.instruction_ps as f64).round() as u64;
        let mut head = String::new();
        row(&mut head, load, 1, "accesses", "times", accesses);
        row(
            &mut head,
            load,
            1,
            "instructions",
            "instructions",
            instructions,
        );
        print!("{head}{}", rows(load, given.prices, instructions, work_ps));
    }
    Ok(())
}
