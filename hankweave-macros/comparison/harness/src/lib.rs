//! All variants side by side.

use data::Input;

/// A walk from the first state to the last.
pub type Walk = fn(Input) -> u64;

/// Every walk with its name, the empty one included.
pub fn walks() -> [(&'static str, Walk); 17] {
    [
        ("nothing", nothing),
        ("by-hand", comparison_by_hand::walk::walk),
        ("by-hand-stored", comparison_by_hand_stored::walk::walk),
        ("hankweave", comparison_hankweave::walk::walk),
        ("hankweave-types", comparison_hankweave_types::walk::walk),
        ("state-shift", comparison_state_shift::walk::walk),
        ("statum", comparison_statum::walk::walk),
        ("typestate", comparison_typestate::walk::walk),
        ("by-hand/apart", comparison_by_hand::walk::walk_apart),
        (
            "by-hand-stored/apart",
            comparison_by_hand_stored::walk::walk_apart,
        ),
        ("hankweave/apart", comparison_hankweave::walk::walk_apart),
        (
            "hankweave-types/apart",
            comparison_hankweave_types::walk::walk_apart,
        ),
        ("state-shift/apart", comparison_state_shift::walk::walk_apart),
        ("statum/apart", comparison_statum::walk::walk_apart),
        ("typestate/apart", comparison_typestate::walk::walk_apart),
        (
            "by-hand-stored/events",
            comparison_by_hand_stored::walk::walk_by_events,
        ),
        ("hankweave/events", comparison_hankweave::walk::walk_by_events),
    ]
}

/// Takes the values of a walk and drops them: what every walk costs besides its steps.
#[inline(never)]
fn nothing(input: Input) -> u64 {
    let sentinels = data::Executed::from(input.sentinels);
    let (rig, checkpoint) = (input.rig_setup_checkpoint, input.completion_checkpoint);
    data::sum(
        &rig,
        &input.claude_session_id,
        &sentinels,
        &checkpoint,
        input.cost,
    )
}
