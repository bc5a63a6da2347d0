use hankweave_core::codon::{Codon, Fail, Failed};

fn main() {}

fn step(codon: Codon<Failed>, metadata: Fail) {
    let _ = codon.fail(metadata);
}
