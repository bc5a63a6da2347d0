use hankweave_core::codon::{CodonState, CodonStatus};

fn main() {}

#[derive(Debug)]
struct Mine;

impl CodonState for Mine {
    const STATUS: CodonStatus = CodonStatus::Running;
    const TERMINAL: bool = false;
    const TARGETS: &'static [CodonStatus] = &[];
}
