use hankweave_core::codon::{Codon, Preparing, Run};

fn main() {}

fn step(codon: Codon<Preparing>, metadata: Run) {
    let _ = codon.run(metadata);
}
