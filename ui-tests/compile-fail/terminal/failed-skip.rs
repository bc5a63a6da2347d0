use hankweave_core::codon::{Codon, Failed, Skip};

fn main() {}

fn step(codon: Codon<Failed>, metadata: Skip) {
    let _ = codon.skip(metadata);
}
