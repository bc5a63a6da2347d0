use hankweave_core::codon::{Codon, Initialize, Running};

fn main() {}

fn step(codon: Codon<Running>, metadata: Initialize) {
    let _ = codon.initialize(metadata);
}
