use hankweave_core::codon::{Active, Codon, Completed};

fn main() {}

fn watch<S: Active>(_: &Codon<S>) {}

fn step(codon: &Codon<Completed>) {
    watch(codon);
}
