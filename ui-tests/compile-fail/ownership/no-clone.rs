use hankweave_core::codon::{Codon, Running};

fn main() {}

fn twice(codon: &Codon<Running>) -> Codon<Running> {
    codon.clone()
}
