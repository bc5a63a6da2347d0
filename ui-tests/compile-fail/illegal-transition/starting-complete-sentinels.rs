use hankweave_core::codon::{Codon, Starting};

fn main() {}

fn step(codon: Codon<Starting>) {
    let _ = codon.complete_sentinels();
}
