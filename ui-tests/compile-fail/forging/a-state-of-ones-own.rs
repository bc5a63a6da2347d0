use hankweave_core::codon::{CodonState, CodonStatus};

fn main() {}

struct Mine;

impl CodonState for Mine {
    const STATUS: CodonStatus = CodonStatus::Completed;
}
