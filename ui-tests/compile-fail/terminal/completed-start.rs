use hankweave_core::codon::{Codon, Completed, Start};

fn main() {}

fn step(codon: Codon<Completed>, metadata: Start) {
    let _ = codon.start(metadata);
}
