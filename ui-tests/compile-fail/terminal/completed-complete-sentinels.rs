use hankweave_core::codon::{Codon, Completed};

fn main() {}

fn step(codon: Codon<Completed>) {
    let _ = codon.complete_sentinels();
}
