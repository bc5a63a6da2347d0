use hankweave_core::codon::{Codon, CompletingSentinels};

fn main() {}

fn step(codon: Codon<CompletingSentinels>) {
    let _ = codon.complete_sentinels();
}
