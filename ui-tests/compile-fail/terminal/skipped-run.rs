use hankweave_core::codon::{Codon, Run, Skipped};

fn main() {}

fn step(codon: Codon<Skipped>, metadata: Run) {
    let _ = codon.run(metadata);
}
