use hankweave_core::codon::{Codon, CompletingSentinels, Start};

fn main() {}

fn step(codon: Codon<CompletingSentinels>, metadata: Start) {
    let _ = codon.start(metadata);
}
