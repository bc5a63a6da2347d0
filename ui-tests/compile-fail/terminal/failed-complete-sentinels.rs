use hankweave_core::codon::{Codon, Failed};

fn main() {}

fn step(codon: Codon<Failed>) {
    let _ = codon.complete_sentinels();
}
