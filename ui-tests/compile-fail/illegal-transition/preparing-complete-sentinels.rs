use hankweave_core::codon::{Codon, Preparing};

fn main() {}

fn step(codon: Codon<Preparing>) {
    let _ = codon.complete_sentinels();
}
