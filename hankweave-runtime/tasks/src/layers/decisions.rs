//! decisions.md: what agents decided, for people (TASK-11).

use std::ffi::OsStr;

use super::DECISIONS;
use super::error::LayerError;
use super::figures::{Layer, Operation};
use super::files::TaskFiles;
use super::folder::read;
use crate::model::{Decision, Decisions};

impl TaskFiles {
    /// Adds a decision, in one write, and makes it durable.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::model::TaskError::InvalidArgument) when agent or decision have several lines, else [`LayerError::Save`].
    pub fn append_decision(&self, decision: &Decision) -> Result<(), LayerError> {
        self.traced(Layer::Decisions, Operation::Save, || {
            let section = decision.section()?;
            let folder = self.make()?;
            let add = || {
                let mut file = folder.open_shared(OsStr::new(DECISIONS))?;
                let is_torn = !matches!(file.last_byte()?, None | Some(b'\n'));
                let end = if is_torn { "\n\n" } else { "" };
                file.add(format!("{end}{section}").as_bytes())?;
                file.sync_data()?;
                folder.sync()
            };
            add().map_err(self.save(DECISIONS))
        })
    }

    /// All decisions; a section that cannot be read is skipped and counted.
    ///
    /// # Errors
    ///
    /// Returns [`LayerError::Load`].
    pub fn load_decisions(&self) -> Result<Decisions, LayerError> {
        self.traced(Layer::Decisions, Operation::Load, || {
            let Some(folder) = self.open()? else {
                return Ok(Decisions::default());
            };
            let bytes = read(&*folder, DECISIONS).map_err(self.load(DECISIONS))?;
            Ok(Decisions::read(&String::from_utf8_lossy(
                &bytes.unwrap_or_default(),
            )))
        })
    }
}
