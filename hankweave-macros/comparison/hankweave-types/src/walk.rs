//! The walk of this variant.

use data::{Input, sum};

use crate::machine::Codon;
use crate::machine::codon::{
    Complete, Completed, CompletingSentinels, Failed, Initialize, Initializing, Preparing, Run, Running,
    Skipped, Start, Starting,
};

include!("../../walk.rs");

fn begin(codon_id: String, start_time: i64) -> Codon<Preparing> {
    Codon::new(codon_id, start_time, None)
}

#[inline(never)]
fn output(codon: &Codon<Completed>) -> u64 {
    sum(
        &codon.rig_setup_checkpoint,
        &codon.claude_session_id,
        &codon.sentinels,
        &codon.completion_checkpoint,
        codon.final_cost,
    )
}
