//! The walk of this variant.

use data::{Input, sum};

use crate::machine::*;

include!("../../walk.rs");

fn begin(codon_id: String, start_time: i64) -> Codon<Preparing> {
    Codon::new(codon_id, start_time, None)
}

#[inline(never)]
fn output(codon: &Codon<Completed>) -> u64 {
    sum(
        &codon.state.rig_setup_checkpoint,
        &codon.state.claude_session_id,
        &codon.state.sentinels,
        &codon.state.completion_checkpoint,
        codon.state.final_cost,
    )
}
