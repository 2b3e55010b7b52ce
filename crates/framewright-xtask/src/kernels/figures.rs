//! Figures: instructions a loop, as a boot says them, as the result file keeps them, and as they are compared.

use super::boot::KernelArch;
use crate::machine;
use crate::results::{ResultRow, RowSource, RunRecord};

/// How freed areas are treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum VfreeMode {
    /// Freed areas keep frames and mapping for the next request, and others stay mapped until a purge.
    Kept,
    /// The engine's default, as Linux: each area is mapped anew, and unmapped before its free returns.
    Strict,
}

impl VfreeMode {
    pub(crate) const ALL: [Self; 2] = [Self::Kept, Self::Strict];

    /// The variant in the result file.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Strict => "strict",
        }
    }
}

/// What a test costs; two lines of the result file.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct KernelFigure {
    pub(crate) test: String,
    pub(crate) mode: VfreeMode,
    /// Instructions a loop, net of the words that the platform zeroed.
    pub(crate) instructions: f64,
    /// Those words, a loop; an emulated `rep stosq` counts each.
    pub(crate) zeroed_words: f64,
    pub(crate) loops: u64,
}

/// How the result file calls them.
const INSTRUCTIONS: &str = "instructions";
const ZEROED: &str = "zeroed_words";

/// The part of a result that changes neither way by more, or the suite fails: unrelated code moves
/// figures by a tenth through inlining.
pub(super) const MARGIN: f64 = 0.15;

impl KernelFigure {
    /// The figure that a boot said.
    pub(crate) fn read(said: &str, mode: VfreeMode) -> Result<Self, String> {
        let line = said.lines().find_map(|line| line.strip_prefix("figure "));
        let line = line.ok_or_else(|| format!("no figure in:\n{said}"))?;
        let words: Vec<&str> = line.split(' ').collect();
        let [test, all, net, "loops", loops, ..] = words[..] else {
            return Err(format!("no figure: {line}"));
        };
        let number = |word: &str| {
            let parsed = word.parse::<u64>();
            parsed.map_err(|error| format!("{word} in `figure {line}`: {error}"))
        };
        let (all, net) = (number(all)?, number(net)?);
        Ok(Self {
            test: test.to_owned(),
            mode,
            instructions: net as f64 / 100.0,
            zeroed_words: (all - net) as f64 / 100.0,
            loops: number(loops)?,
        })
    }

    /// What is wrong with this figure beside an earlier one, if anything. One that became better asks for a
    /// new result file, so that it cannot be lost again unnoticed.
    pub(crate) fn compare(&self, earlier: &[Self]) -> Option<String> {
        let is_same = |other: &&Self| other.test == self.test && other.mode == self.mode;
        let name = format!("{} ({:?})", self.test, self.mode);
        let Some(before) = earlier.iter().find(is_same) else {
            return Some(format!(
                "{name}: no earlier figure; `cargo xtask kernel --write` makes one"
            ));
        };
        let (now, before) = (self.instructions, before.instructions);
        let change = now / before - 1.0;
        (change.abs() > MARGIN).then(|| {
            let percent = change * 100.0;
            format!("{name}: {now:.0} instructions a loop, {before:.0} before: {percent:+.0} %")
        })
    }
}

/// The lines of the result file.
pub(crate) fn rows(figures: &[KernelFigure]) -> Vec<ResultRow> {
    let row = |figure: &KernelFigure, metric: &str, value: f64| {
        let names = [&figure.test, figure.mode.name(), metric];
        ResultRow {
            n: figure.loops,
            ..ResultRow::one(names, metric, RowSource::Simulated, value)
        }
    };
    let both = |figure: &KernelFigure| {
        [
            row(figure, INSTRUCTIONS, figure.instructions),
            row(figure, ZEROED, figure.zeroed_words),
        ]
    };
    figures.iter().flat_map(both).collect()
}

/// The figures in these lines.
pub(crate) fn of_rows(rows: &[ResultRow]) -> Vec<KernelFigure> {
    let figure = |row: &ResultRow| {
        let mode = VfreeMode::ALL
            .into_iter()
            .find(|mode| mode.name() == row.variant)?;
        let is_zeroed = |other: &&ResultRow| {
            (&other.case, &other.variant) == (&row.case, &row.variant) && other.metric == ZEROED
        };
        Some(KernelFigure {
            test: row.case.clone(),
            mode,
            instructions: row.median,
            zeroed_words: rows.iter().find(is_zeroed)?.median,
            loops: row.n,
        })
    };
    let counted = rows.iter().filter(|row| row.metric == INSTRUCTIONS);
    counted.filter_map(figure).collect()
}

/// What ran.
pub(crate) fn run_record(arch: KernelArch, qemu: &str) -> RunRecord {
    let command = match arch {
        KernelArch::X86_64 => "cargo xtask kernel --write",
        KernelArch::Riscv64 => "cargo xtask kernel --arch riscv64 --write",
    };
    RunRecord {
        commands: vec![command.to_owned()],
        commit: machine::commit(),
        date: machine::date(),
        with: format!("QEMU {qemu}"),
        runs: 1,
        is_trial: false,
        linux: None,
        beside: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(instructions: f64) -> KernelFigure {
        let said = "ready\nfigure fix_size 52000 1000 loops 20000 maps 3\npassed\n";
        let figure = KernelFigure::read(said, VfreeMode::Kept).unwrap();
        assert_eq!((figure.instructions, figure.zeroed_words), (10.0, 510.0));
        KernelFigure {
            instructions,
            ..figure
        }
    }

    #[test]
    fn figures_survive_the_file() {
        let strict = KernelFigure {
            mode: VfreeMode::Strict,
            ..figure(305.27)
        };
        let all = [figure(10.5), strict];
        assert_eq!(of_rows(&rows(&all)), all);
    }

    #[test]
    fn a_change_of_more_than_the_margin_is_told_in_both_directions() {
        let before = [figure(100.0)];
        assert_eq!(figure(114.0).compare(&before), None);
        assert_eq!(figure(86.0).compare(&before), None);
        assert!(figure(116.0).compare(&before).unwrap().contains("+16 %"));
        assert!(figure(84.0).compare(&before).unwrap().contains("-16 %"));
        let strict = KernelFigure {
            mode: VfreeMode::Strict,
            ..figure(100.0)
        };
        assert!(strict.compare(&before).unwrap().contains("no earlier"));
    }

    #[test]
    fn what_is_no_figure_is_refused() {
        let read = |said| KernelFigure::read(said, VfreeMode::Kept).unwrap_err();
        assert!(read("passed\n").contains("no figure in"));
        assert!(read("figure fix_size 1\n").contains("no figure"));
        assert!(read("figure a 1 x loops 3\n").contains("x in"));
    }
}
