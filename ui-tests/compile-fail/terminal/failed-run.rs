use hankweave_core::codon::{Codon, Failed, Run};

fn main() {}

fn step(codon: Codon<Failed>, metadata: Run) {
    let _ = codon.run(metadata);
}
