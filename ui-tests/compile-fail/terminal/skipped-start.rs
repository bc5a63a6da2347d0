use hankweave_core::codon::{Codon, Skipped, Start};

fn main() {}

fn step(codon: Codon<Skipped>, metadata: Start) {
    let _ = codon.start(metadata);
}
