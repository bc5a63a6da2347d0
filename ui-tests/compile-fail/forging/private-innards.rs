use hankweave_core::codon::{Codon, Completed};

fn main() {}

fn forge(data: Completed) -> Codon<Completed> {
    Codon(data)
}
