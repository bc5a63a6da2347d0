//! Position of a codon in a loop.

use serde::{Deserialize, Serialize};

use crate::id::LoopId;
use crate::machine::Extra;
use crate::shape::Shape;

/// Position of a codon in a loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LoopContext {
    /// The loop, as it is named in hank.json.
    pub loop_id: LoopId,
    /// Counted from 0.
    pub iteration: u32,
    /// Position in the loop's list of codons, counted from 0.
    pub codon_index_in_loop: u32,
    /// Names that other versions wrote; kept as they are.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}
