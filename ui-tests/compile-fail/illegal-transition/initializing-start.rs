use hankweave_core::codon::{Codon, Initializing, Start};

fn main() {}

fn step(codon: Codon<Initializing>, metadata: Start) {
    let _ = codon.start(metadata);
}
