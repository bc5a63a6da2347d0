//! Finish of a codon after its end: its results are copied to the output directory, and files are moved to the
//! archive (HANK-24, HANK-27).
//!
//! A note on disk, `aftermath.json`, names the codon from its start until its finish is done. When a run crashed in between, or
//! could not copy the results, the next run does the finish first (HANK-26, RUN-14).

use std::path::PathBuf;

use hankweave_core::codon::CodonExecution;
use hankweave_core::document::PlanEntry;
use hankweave_core::hank::{CodonConfig, Hank, LoopConfig, OutputItem, RigAction, RigCommand, RigItem};
use hankweave_core::id::{CheckpointSha, CodonId, RunId};
use hankweave_core::plan::{Decision, NextIteration, decide, iteration_end};
use hankweave_core::thread::{self, ThreadCodon};
use hankweave_core::wire::{Event, FailedPath};
use serde::{Deserialize, Serialize};

use crate::codon::{Orders, RunContext, results_variable, variables};
use crate::error::chain;
use crate::options::{OutputDirectory, RunOptions};
use crate::paths::ExecutionDir;
use crate::recovery::OpenedExecution;
use crate::rig::{Archive, ArchiveRequest, Moved, OutputCopier, Rig, RigError, RigEvent};
use crate::shutdown::Shutdown;
use crate::state_manager::StateManager;
use crate::world::World;
use crate::world::disk::{Disk, read_if_present, remove_if_present, replace};
use crate::world::process::{child_environment, marker};

/// Size limit of the note, in bytes; a larger file is not one of ours.
const MAX_NOTE_BYTES: u64 = 64 << 10;

/// The finish of one codon.
pub(super) struct CodonFinish<'a> {
    world: &'a World,
    dir: &'a ExecutionDir,
    manager: &'a StateManager,
    hank: &'a Hank,
    options: &'a RunOptions,
    run_id: &'a RunId,
    entry: &'a PlanEntry,
    config: &'a CodonConfig,
    orders: Orders,
    /// Patterns that keep the hank's own files out of the archive.
    own_files: &'a [String],
    /// Whether an earlier process may have done part of the finish.
    again: bool,
}

/// Why results were not copied, in words.
pub(super) type PublishError = String;

/// Content of the note.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FinishNote {
    run_id: RunId,
    codon_id: CodonId,
}

impl FinishNote {
    fn names(&self, codon: &ThreadCodon) -> bool {
        self.run_id == codon.run_id && self.codon_id == *codon.codon.codon_id()
    }
}

/// Whether the codon completed and its finish is not done. Changes nothing.
#[must_use]
pub fn has_unfinished_results(disk: &dyn Disk, dir: &ExecutionDir, codon: &ThreadCodon) -> bool {
    let read = read_if_present(disk, &dir.aftermath(), MAX_NOTE_BYTES);
    let note = read
        .ok()
        .flatten()
        .and_then(|bytes| serde_json::from_slice::<FinishNote>(&bytes).ok());
    let completed = matches!(*codon.codon, CodonExecution::Completed(_));
    completed && note.is_some_and(|note| note.names(codon))
}

/// Does the finish that an earlier process did not complete, if the note names the newest codon of the thread. Returns the codon
/// and the reason if its results cannot be copied.
pub(super) async fn catch_up(
    opened: &OpenedExecution,
    shutdown: &Shutdown,
) -> Result<(), (CodonId, PublishError)> {
    let possession = &opened.possession;
    let (disk, path) = (possession.world.disk.clone(), possession.dir.aftermath());
    let read = move || read_if_present(&*disk, &path, MAX_NOTE_BYTES);
    let note = match possession.world.blocking.run(read).await {
        Ok(None) => return Ok(()),
        Ok(Some(bytes)) => serde_json::from_slice::<FinishNote>(&bytes).ok(),
        Err(error) => {
            tracing::warn!(%error, "the note about unfinished results cannot be read");
            None
        }
    };
    let state = possession.manager.snapshot();
    let thread = thread::build(&state, None, None);
    let is_noted = |newest: &&ThreadCodon| note.as_ref().is_some_and(|note| note.names(newest));
    let newest = thread.codons.first().filter(is_noted);
    // A run that starts over abandons the finish.
    let fresh = opened.options.fresh;
    let unfinished = newest.filter(|_| !fresh).and_then(|newest| {
        let id = newest.codon.codon_id();
        let entry = state.planned(id)?;
        Some((newest, entry, opened.hank.codon(id.configured())?))
    });
    let Some((newest, entry, config)) = unfinished else {
        forget(&possession.world, &possession.dir).await;
        return Ok(());
    };
    let finish = CodonFinish {
        world: &possession.world,
        dir: &possession.dir,
        manager: &possession.manager,
        hank: &opened.hank,
        options: &opened.options,
        run_id: &newest.run_id,
        entry,
        config,
        orders: Orders::new(shutdown),
        own_files: &opened.own_files,
        again: true,
    };
    let result = finish.run(&newest.codon).await;
    result.map_err(|why| (entry.codon_id.clone(), why))
}

/// Removes the note.
async fn forget(world: &World, dir: &ExecutionDir) {
    let (disk, path) = (world.disk.clone(), dir.aftermath());
    let removed = world.blocking.run(move || remove_if_present(&*disk, &path)).await;
    if let Err(error) = removed {
        // The next run repeats the finish, which is harmless.
        tracing::warn!(%error, "the note about finished results stays");
    }
}

impl<'a> CodonFinish<'a> {
    pub(super) fn new(
        context: &'a RunContext,
        entry: &'a PlanEntry,
        config: &'a CodonConfig,
        orders: Orders,
    ) -> Self {
        Self {
            world: &context.world,
            dir: &context.dir,
            manager: &context.manager,
            hank: &context.hank,
            options: &context.options,
            run_id: &context.run_id,
            entry,
            config,
            orders,
            own_files: &context.own_files,
            again: false,
        }
    }

    /// Whether the finish copies or archives anything.
    fn has_work(&self) -> bool {
        let copies_results = self.output().is_some() && !self.config.output_files.is_empty();
        let loop_archives = |found: &LoopConfig| !found.archive_on_success.is_empty();
        copies_results
            || !self.config.archive_on_success.is_empty()
            || self.own_loop().is_some_and(loop_archives)
    }

    /// Writes the note at the start of the codon, if the finish has work.
    pub(super) async fn announce(&self) {
        if !self.has_work() {
            return;
        }
        let note = FinishNote {
            run_id: self.run_id.clone(),
            codon_id: self.entry.codon_id.clone(),
        };
        let note = serde_json::to_vec(&note).expect("a note is text");
        let (disk, path) = (self.world.disk.clone(), self.dir.aftermath());
        let written = self
            .world
            .blocking
            .run(move || replace(&*disk, &path, &note))
            .await;
        if let Err(error) = written {
            tracing::warn!(%error, "results that a crash cuts off would not be handed out later");
        }
    }

    /// Does the finish of the ended codon. Only a completed codon has results; but a failed one can end an iteration or a loop as well.
    pub(super) async fn run(&self, ended: &CodonExecution) -> Result<(), PublishError> {
        if let CodonExecution::Completed(completed) = ended {
            if let Err(why) = self.publish_results().await {
                let error = Event::Error {
                    message: format!(
                        "the results of {} were not handed out: {why}",
                        self.entry.codon_id
                    ),
                    fatal: true,
                    codon: Some(self.entry.codon_id.clone()),
                    severity: Some("fatal".to_owned()),
                    context: Some("outputFiles".to_owned()),
                    code: Some("OUTPUT_FAILED".to_owned()),
                };
                self.publish(error).await;
                return Err(why);
            }
            self.archive_of_codon(&completed.completion_checkpoint).await;
        }
        self.end_iteration(ended).await;
        if self.again || self.has_work() {
            forget(self.world, self.dir).await;
        }
        Ok(())
    }

    /// Directory of results; `None` in a rehearsal, which copies nothing.
    fn output(&self) -> Option<&OutputDirectory> {
        self.options.output.as_ref().filter(|_| !self.options.rehearsal)
    }

    /// Copies the results. Every group in order: its commands run, then its files are copied (HANK-24).
    async fn publish_results(&self) -> Result<(), PublishError> {
        let Some(output) = self.output() else {
            return Ok(());
        };
        let mut copied = Vec::new();
        for group in &self.config.output_files {
            self.before_copy(group).await?;
            copied.extend(self.copy(group, output).await?);
        }
        if !self.config.output_files.is_empty() {
            let files = if copied.len() == 1 { "file" } else { "files" };
            let message = format!(
                "{}: {} {files} {COPIED}{}{}",
                self.entry.codon_id,
                copied.len(),
                output.path.display(),
                named(&copied)
            );
            self.publish(Event::Info { message }).await;
        }
        Ok(())
    }

    /// Runs the commands of a group.
    async fn before_copy(&self, group: &OutputItem) -> Result<(), PublishError> {
        let mut own = variables(self.config, self.entry);
        own.extend(results_variable(self.world, self.dir, self.manager, self.hank).await);
        let rig = Rig {
            world: self.world.clone(),
            // Only copies read the hank's folder, and these items are all commands.
            hank: self.dir.root().to_owned(),
            workspace: self.dir.root().to_owned(),
            env: child_environment(&self.world.environment, &own),
            marker: marker(
                &*self.world.disk,
                self.dir.root(),
                self.run_id,
                &self.entry.codon_id,
            ),
            deadline: Rig::DEFAULT_DEADLINE,
            grace: self.options.grace,
            ignore_failures: false,
            cancel: self.orders.token().clone(),
            force: self.orders.force_token().clone(),
        };
        let item = |command: &RigCommand| RigItem {
            action: RigAction::Command {
                command: command.clone(),
            },
            allow_failure: false,
        };
        let items: Vec<RigItem> = group.before_copy.iter().map(item).collect();
        let report = |event| async move {
            if let RigEvent::Output { index, stream, line } = event {
                self.publish(Event::RigOutput {
                    codon_id: self.entry.codon_id.clone(),
                    stream,
                    line,
                    command_index: index,
                })
                .await;
            }
        };
        let result = rig.run(&items, report).await;
        result.map_err(|error| match error {
            RigError::Step { index, failure } => {
                format!("command {} of beforeCopy failed: {}", index + 1, chain(&failure))
            }
            RigError::Cancelled { .. } => "it was stopped".to_owned(),
        })
    }

    /// Copies the files of a group; returns their paths in the output directory.
    async fn copy(&self, group: &OutputItem, output: &OutputDirectory) -> Result<Vec<PathBuf>, PublishError> {
        let outputs = OutputCopier {
            workspace: self.dir.root().to_owned(),
            directory: output.path.clone(),
            overwrite: output.overwrite,
            again: self.again,
            at: self.world.clock.now(),
        };
        let (disk, patterns) = (self.world.disk.clone(), group.copy.clone());
        let copied = self
            .world
            .blocking
            .run(move || outputs.copy(&*disk, &patterns))
            .await;
        copied.map_err(|error| chain(&error))
    }

    async fn archive_of_codon(&self, checkpoint: &CheckpointSha) {
        let id = &self.entry.codon_id;
        self.archive(ArchiveRequest {
            patterns: self.config.archive_on_success.clone(),
            folder: id.file_stem(),
            codon_id: id.to_string(),
            loop_context: self.entry.loop_context.clone(),
            checkpoint: Some(checkpoint.clone()),
            at: self.world.clock.now(),
        })
        .await;
    }

    /// Publishes the end of an iteration and, when it was the last one, archives for the loop.
    async fn end_iteration(&self, ended: &CodonExecution) {
        if ended.loop_context().is_none() {
            return;
        }
        let state = self.manager.snapshot();
        let Some(end) = iteration_end(&state, self.hank, &self.entry.codon_id) else {
            return;
        };
        let is_final = end.next != NextIteration::Follows;
        // The earlier process may have published it.
        if !self.again {
            self.publish(end.into()).await;
        }
        // A codon that is retried, or that stops the run, has not ended its loop.
        let plan_continues = !matches!(
            decide(&state, self.hank),
            Decision::Retry(_) | Decision::Blocked(_)
        );
        if is_final
            && plan_continues
            && let Some(found) = self.own_loop()
            && let Some(context) = &self.entry.loop_context
        {
            self.archive(ArchiveRequest {
                patterns: found.archive_on_success.clone(),
                folder: format!("{}-{}", found.id, context.iteration),
                codon_id: found.id.to_string(),
                loop_context: None,
                checkpoint: ended.end_checkpoint().map(|(_, sha)| sha.clone()),
                at: self.world.clock.now(),
            })
            .await;
        }
    }

    /// Moves files to the archive. Files that cannot be moved stay, and are reported.
    async fn archive(&self, mut request: ArchiveRequest) {
        if request.patterns.is_empty() {
            return;
        }
        // A hank that lies in the workspace must not archive itself.
        request.patterns.extend_from_slice(self.own_files);
        // Events about the archive of a loop have the id of the loop here.
        let Ok(codon_id) = CodonId::new(&*request.codon_id) else {
            return;
        };
        let (disk, archive) = (self.world.disk.clone(), archive(self.dir));
        let put = self
            .world
            .blocking
            .run(move || archive.put(&*disk, &request))
            .await;
        let event = match put {
            Ok(moved) if moved == Moved::default() => return,
            Ok(moved) if moved.failed.is_empty() => Event::ArchiveCompleted {
                codon_id,
                archived_paths: moved.paths,
            },
            Ok(moved) => Event::ArchivePartial {
                codon_id,
                archived_paths: moved.paths,
                failed_paths: moved.failed.into_iter().map(FailedPath::from).collect(),
            },
            Err(error) => Event::ArchivePartial {
                codon_id,
                archived_paths: Vec::new(),
                failed_paths: vec![FailedPath::from((".".to_owned(), chain(&error)))],
            },
        };
        self.publish(event).await;
    }

    fn own_loop(&self) -> Option<&'a LoopConfig> {
        let context = self.entry.loop_context.as_ref()?;
        self.hank.find_loop(&context.loop_id)
    }

    async fn publish(&self, event: Event) {
        // Losing the receipt is harmless: a journal that cannot be written shows up in the next transition.
        drop(self.manager.record(event).await);
    }
}

/// The archive of an execution directory.
pub(super) fn archive(dir: &ExecutionDir) -> Archive {
    Archive {
        workspace: dir.root().to_owned(),
        manifest: dir.archive_manifest(),
    }
}

/// Number of copied files that a message names.
const NAMED: usize = 5;

/// Words of the message about copied results, before the folder of the results; `inspect` exports them to find that message.
pub const COPIED: &str = "copied to ";

/// Returns the first copied files with the names that they got: `: out/records.jsonl, out/count.txt and 4 more`.
fn named(copied: &[PathBuf]) -> String {
    let first: Vec<_> = copied
        .iter()
        .take(NAMED)
        .map(|path| path.to_string_lossy())
        .collect();
    let more = match copied.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match first.is_empty() {
        true => String::new(),
        false => format!(": {}{more}", first.join(", ")),
    }
}
