use hankweave_core::codon::{Codon, CompletingSentinels, Run};

fn main() {}

fn step(codon: Codon<CompletingSentinels>, metadata: Run) {
    let _ = codon.run(metadata);
}
