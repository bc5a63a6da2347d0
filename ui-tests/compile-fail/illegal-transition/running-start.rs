use hankweave_core::codon::{Codon, Running, Start};

fn main() {}

fn step(codon: Codon<Running>, metadata: Start) {
    let _ = codon.start(metadata);
}
