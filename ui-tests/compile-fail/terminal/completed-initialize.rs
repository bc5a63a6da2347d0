use hankweave_core::codon::{Codon, Completed, Initialize};

fn main() {}

fn step(codon: Codon<Completed>, metadata: Initialize) {
    let _ = codon.initialize(metadata);
}
