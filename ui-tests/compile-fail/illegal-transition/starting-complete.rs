use hankweave_core::codon::{Codon, Complete, Starting};

fn main() {}

fn step(codon: Codon<Starting>, metadata: Complete) {
    let _ = codon.complete(metadata);
}
