//! Figures: instructions a loop, as a boot says them, as the result file keeps them, and as they are compared.

use serde::{Deserialize, Serialize};

/// How freed areas are treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum VfreeMode {
    /// The engine's default: freed areas keep frames and mapping for the next request.
    Kept,
    /// Nothing is kept: each area is mapped anew, and a free unmaps, or leaves it to the next purge.
    Strict,
}

/// One line of the result file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct KernelFigure {
    pub(crate) test: String,
    pub(crate) mode: VfreeMode,
    /// Instructions a loop, net of the words that the platform zeroed.
    pub(crate) instructions: f64,
    /// Those words, a loop; an emulated `rep stosq` counts each.
    pub(crate) zeroed_words: f64,
    pub(crate) loops: u64,
    /// The revision that was measured, and the emulator.
    pub(crate) commit: String,
    pub(crate) qemu: String,
}

/// The part of a result that changes neither way by more, or the suite fails: unrelated code moves
/// figures by a tenth through inlining.
const MARGIN: f64 = 0.15;

impl KernelFigure {
    /// The figure that a boot said.
    pub(crate) fn read(
        said: &str,
        mode: VfreeMode,
        commit: &str,
        qemu: &str,
    ) -> Result<Self, String> {
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
            commit: commit.to_owned(),
            qemu: qemu.to_owned(),
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

/// The figures of a result file, one a line.
pub(crate) fn parse(text: &str) -> Result<Vec<KernelFigure>, String> {
    let lines = text.lines().enumerate();
    lines
        .map(|(nth, line)| {
            serde_json::from_str(line).map_err(|error| format!("line {}: {error}", nth + 1))
        })
        .collect()
}

pub(crate) fn print(figures: &[KernelFigure]) -> String {
    let line = |figure| serde_json::to_string(figure).expect("numbers and text") + "\n";
    figures.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(instructions: f64) -> KernelFigure {
        let said = "ready\nfigure fix_size 52000 1000 loops 20000 maps 3\npassed\n";
        let figure = KernelFigure::read(said, VfreeMode::Kept, "abc", "7.2.22").unwrap();
        assert_eq!((figure.instructions, figure.zeroed_words), (10.0, 510.0));
        KernelFigure {
            instructions,
            ..figure
        }
    }

    #[test]
    fn figures_survive_the_file() {
        let all = [figure(10.5), figure(305.27)];
        assert_eq!(parse(&print(&all)).unwrap(), all);
        assert!(parse("{}").unwrap_err().starts_with("line 1"));
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
        let read = |said| KernelFigure::read(said, VfreeMode::Kept, "", "").unwrap_err();
        assert!(read("passed\n").contains("no figure in"));
        assert!(read("figure fix_size 1\n").contains("no figure"));
        assert!(read("figure a 1 x loops 3\n").contains("x in"));
    }
}
