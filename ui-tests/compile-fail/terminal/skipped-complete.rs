use hankweave_core::codon::{Codon, Complete, Skipped};

fn main() {}

fn step(codon: Codon<Skipped>, metadata: Complete) {
    let _ = codon.complete(metadata);
}
