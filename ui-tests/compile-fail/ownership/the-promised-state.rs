use hankweave_core::codon::{Codon, Preparing, Running};

fn main() {}

fn restart(codon: Codon<Running>) -> Codon<Preparing> {
    codon
}
