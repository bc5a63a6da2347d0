use hankweave_core::codon::{Codon, Completed, Run};

fn main() {}

fn step(codon: Codon<Completed>, metadata: Run) {
    let _ = codon.run(metadata);
}
