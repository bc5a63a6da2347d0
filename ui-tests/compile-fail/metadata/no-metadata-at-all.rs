use hankweave_core::codon::{Codon, Running};

fn main() {}

fn step(codon: Codon<Running>) {
    let _ = codon.complete();
}
