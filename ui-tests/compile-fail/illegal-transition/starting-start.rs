use hankweave_core::codon::{Codon, Start, Starting};

fn main() {}

fn step(codon: Codon<Starting>, metadata: Start) {
    let _ = codon.start(metadata);
}
