use hankweave_core::codon::{Codon, Completed, Fail};

fn main() {}

fn step(codon: Codon<Completed>, metadata: Fail) {
    let _ = codon.fail(metadata);
}
