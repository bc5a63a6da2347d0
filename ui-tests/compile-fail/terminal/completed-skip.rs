use hankweave_core::codon::{Codon, Completed, Skip};

fn main() {}

fn step(codon: Codon<Completed>, metadata: Skip) {
    let _ = codon.skip(metadata);
}
