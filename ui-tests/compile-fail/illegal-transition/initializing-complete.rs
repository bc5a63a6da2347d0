use hankweave_core::codon::{Codon, Complete, Initializing};

fn main() {}

fn step(codon: Codon<Initializing>, metadata: Complete) {
    let _ = codon.complete(metadata);
}
