use hankweave_core::codon::{Codon, Complete, Completed};

fn main() {}

fn step(codon: Codon<Completed>, metadata: Complete) {
    let _ = codon.complete(metadata);
}
