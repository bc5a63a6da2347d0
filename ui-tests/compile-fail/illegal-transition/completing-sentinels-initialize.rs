use hankweave_core::codon::{Codon, CompletingSentinels, Initialize};

fn main() {}

fn step(codon: Codon<CompletingSentinels>, metadata: Initialize) {
    let _ = codon.initialize(metadata);
}
