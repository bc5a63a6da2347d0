use hankweave_core::codon::{Codon, Initialize, Skipped};

fn main() {}

fn step(codon: Codon<Skipped>, metadata: Initialize) {
    let _ = codon.initialize(metadata);
}
