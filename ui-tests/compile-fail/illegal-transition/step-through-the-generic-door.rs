use hankweave_core::codon::{Codon, Complete, Preparing};

fn main() {}

fn step(codon: Codon<Preparing>, metadata: Complete) {
    let _ = codon.step(metadata);
}
