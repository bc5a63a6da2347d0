use hankweave_core::codon::{Codon, Fail, Skipped};

fn main() {}

fn step(codon: Codon<Skipped>, metadata: Fail) {
    let _ = codon.fail(metadata);
}
