use hankweave_core::codon::{Codon, Skipped};

fn main() {}

fn step(codon: Codon<Skipped>) {
    let _ = codon.complete_sentinels();
}
