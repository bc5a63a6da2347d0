use hankweave_core::codon::{Codon, Run, Running};

fn main() {}

fn step(codon: Codon<Running>, metadata: Run) {
    let _ = codon.run(metadata);
}
