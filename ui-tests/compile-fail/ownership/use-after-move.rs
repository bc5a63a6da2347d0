use hankweave_core::codon::{Codon, Fail, Initialize, Starting};

fn main() {}

fn step(codon: Codon<Starting>, initialize: Initialize, fail: Fail) {
    let _initializing = codon.initialize(initialize);
    let _failed = codon.fail(fail);
}
