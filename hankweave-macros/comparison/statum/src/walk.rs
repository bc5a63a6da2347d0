//! The walk of this variant.

use data::{Input, sum};

use crate::machine::{
    Codon, Complete, Completed, CompletingSentinels, Failed, Initialize, Initializing, Preparing, Run,
    Running, Skipped, Start, Starting,
};

include!("../../walk.rs");

fn begin(codon_id: String, start_time: i64) -> Codon<Preparing> {
    Codon::<Preparing>::builder()
        .codon_id(codon_id)
        .start_time(start_time)
        .loop_context(None)
        .state_data(crate::machine::PreparingData {
            rig_setup_checkpoint: None,
        })
        .build()
}

#[inline(never)]
fn output(codon: &Codon<Completed>) -> u64 {
    sum(
        &codon.state_data.rig_setup_checkpoint,
        &codon.state_data.claude_session_id,
        &codon.state_data.sentinels,
        &codon.state_data.completion_checkpoint,
        codon.state_data.final_cost,
    )
}
