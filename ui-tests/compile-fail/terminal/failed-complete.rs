use hankweave_core::codon::{Codon, Complete, Failed};

fn main() {}

fn step(codon: Codon<Failed>, metadata: Complete) {
    let _ = codon.complete(metadata);
}
