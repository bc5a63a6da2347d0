//! Title of a codon.

use std::collections::HashMap;

use hankweave_core::document::PlanEntry;
use hankweave_core::id::LoopId;

/// How often each loop goes round at most, as far as that is known.
pub(crate) type Loops = HashMap<LoopId, u32>;

/// The name of a codon; in a loop also which turn of it this is, as in `Review, 3 of at most 10`.
pub(crate) fn title(entry: &PlanEntry, loops: &Loops) -> String {
    let name = entry.codon.name().unwrap_or(entry.codon_id.as_str());
    let Some(place) = &entry.loop_context else {
        return name.to_owned();
    };
    let turn = place.iteration + 1;
    match loops.get(&place.loop_id) {
        Some(most) => format!("{name}, {turn} of at most {most}"),
        None => format!("{name}, iteration {turn}"),
    }
}
