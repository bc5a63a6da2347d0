use hankweave_core::codon::{Codon, Skip, Skipped};

fn main() {}

fn step(codon: Codon<Skipped>, metadata: Skip) {
    let _ = codon.skip(metadata);
}
