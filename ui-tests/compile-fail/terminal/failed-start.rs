use hankweave_core::codon::{Codon, Failed, Start};

fn main() {}

fn step(codon: Codon<Failed>, metadata: Start) {
    let _ = codon.start(metadata);
}
