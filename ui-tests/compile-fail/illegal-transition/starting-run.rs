use hankweave_core::codon::{Codon, Run, Starting};

fn main() {}

fn step(codon: Codon<Starting>, metadata: Run) {
    let _ = codon.run(metadata);
}
