use hankweave_core::codon::{Codon, Running};
use hankweave_core::id::CodonId;
use hankweave_core::time::Timestamp;

fn main() {}

fn forge(id: CodonId) -> Codon<Running> {
    Codon::<Running>::new(id, Timestamp::UNIX_EPOCH, None)
}
