use hankweave_core::codon::{Codon, Failed, Initialize};

fn main() {}

fn step(codon: Codon<Failed>, metadata: Initialize) {
    let _ = codon.initialize(metadata);
}
