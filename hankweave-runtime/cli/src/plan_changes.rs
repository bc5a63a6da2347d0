//! How hank.json has changed since the plan of a run was made, as commands tell it that only look (STATE-45).

use std::fmt::{self, Write as _};

use hankweave_core::plan::HankChanges;
use serde::Serialize;

use crate::screen::Text;

#[derive(Debug, Default, Serialize)]
pub(crate) struct PlanChanges {
    /// Why the plan cannot be done any more.
    pub(crate) misfits: Vec<String>,
    /// What does not count, or what does in a plan made anew.
    pub(crate) notices: Vec<String>,
}

impl PlanChanges {
    pub(crate) fn of(changes: &HankChanges, replanned: bool) -> Self {
        Self {
            misfits: changes.misfits.iter().map(ToString::to_string).collect(),
            notices: match replanned {
                _ if !changes.misfits.is_empty() => Vec::new(),
                true => changes.of_new_plan(),
                false => changes.notices(),
            },
        }
    }

    pub(crate) fn write(&self, text: &mut Text) -> fmt::Result {
        for misfit in &self.misfits {
            writeln!(text, "error: {misfit}")?;
        }
        self.notices
            .iter()
            .try_for_each(|notice| writeln!(text, "note: {notice}"))
    }
}
