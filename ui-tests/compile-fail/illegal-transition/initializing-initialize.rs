use hankweave_core::codon::{Codon, Initialize, Initializing};

fn main() {}

fn step(codon: Codon<Initializing>, metadata: Initialize) {
    let _ = codon.initialize(metadata);
}
