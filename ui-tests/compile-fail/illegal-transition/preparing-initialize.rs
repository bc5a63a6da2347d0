use hankweave_core::codon::{Codon, Initialize, Preparing};

fn main() {}

fn step(codon: Codon<Preparing>, metadata: Initialize) {
    let _ = codon.initialize(metadata);
}
