use hankweave_core::codon::{Codon, Initializing};

fn main() {}

fn step(codon: Codon<Initializing>) {
    let _ = codon.complete_sentinels();
}
