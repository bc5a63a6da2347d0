//! Plan.md: page about a task for people (TASK-108).

use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::{LogQuery, plan};

use super::PLAN;
use super::error::LayerError;
use super::files::TaskFiles;
use super::folder::{open, replace};

impl TaskFiles {
    /// Writes the page about the task again, from its registry and its log.
    ///
    /// # Errors
    ///
    /// Returns [`LayerError`] when the log cannot be read or the page cannot be written; the old page stays then. Returns
    /// [`ResourceLocked`](crate::model::TaskError::ResourceLocked) while another process writes.
    pub fn save_plan(&self, row: &TaskRow) -> Result<(), LayerError> {
        let folder = self.lock()?;
        let log = self.load_log(&LogQuery::default())?;
        let page = plan(row, &log.entries);
        replace(&*folder, PLAN, &self.nonce(), page.as_bytes()).map_err(self.save_error(PLAN))
    }

    /// Writes the page about the task again, if it has one.
    ///
    /// # Errors
    ///
    /// Fails like [`save_plan`](Self::save_plan).
    pub fn renew_plan(&self, row: &TaskRow) -> Result<(), LayerError> {
        let Some(folder) = self.open()? else { return Ok(()) };
        match open(&*folder, PLAN).map_err(self.load_error(PLAN))? {
            Some(_) => self.save_plan(row),
            None => Ok(()),
        }
    }
}
