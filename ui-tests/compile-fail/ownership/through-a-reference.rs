use hankweave_core::codon::{Codon, Complete, Running};

fn main() {}

fn step(codon: &Codon<Running>, metadata: Complete) {
    let _ = codon.complete(metadata);
}
