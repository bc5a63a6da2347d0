//! Answers requests from the files of the directory, one after the other: differences between checkpoints (WIRE-45), the report (WIRE-47) and codons before
//! they start (WIRE-52). The server of a record, where no run is at work, gets its list of checkpoints and its state here as well.

use std::sync::Arc;

use hankweave_core::document::HankweaveState;
use hankweave_core::id::CheckpointSha;
use hankweave_core::thread;
use hankweave_core::wire::{
    CheckpointList, Code, Command, DirectPayload, FileDifferences, LineDifferences, MAX_DIFF_FILES,
    MAX_DIFF_LINES, Refused, RunSnapshot, ShaPrefix, file_tree,
};
use tokio::sync::mpsc;

use super::commands::QueuedCommand;
use super::replies::{ParsedRequest, Replies};
use super::{RunReport, RunTexts};
use crate::checkpoint::{Comparison, GitHistory, HistoryError, ShownLines};
use crate::error::chain;
use crate::paths::ExecutionDir;
use crate::recovery::last_hank;
use crate::state_manager::peek;
use crate::store::{StateFileError, StateFiles};
use crate::world::World;

/// Requests that may wait; further ones are refused as busy.
pub(super) const QUEUE: usize = 64;

/// Default number of lines in an answer.
const LINES: u64 = 500;

/// Longest text of the lines in one answer, in bytes.
const LINES_BYTES: usize = 512 << 10;

/// Longest report, in bytes.
const REPORT_BYTES: usize = 512 << 10;

/// Longest answer with files, and approximate length of a file in it without its paths, both in bytes.
const FILES_BYTES: usize = 768 << 10;
const FILE_BYTES: usize = 240;

/// Reads the record of a directory. It keeps the last comparison, because a client asks for a long one in parts.
#[derive(Debug)]
pub(super) struct RecordReader {
    world: World,
    dir: ExecutionDir,
    replies: Replies,
    /// Source of texts about the run; without it, requests for them are refused.
    texts: Option<Arc<dyn RunTexts>>,
    /// The last comparison, with the `from` of its request.
    comparison: Option<(Option<CheckpointSha>, Arc<Comparison>)>,
    /// Lines of one file of the comparison, with its path.
    lines: Option<(String, Arc<ShownLines>)>,
}

/// Answers requests until every sender is dropped.
pub(super) async fn run(mut reader: RecordReader, mut requests: mpsc::Receiver<QueuedCommand>) {
    let (blocking, replies) = (reader.world.blocking, reader.replies.clone());
    while let Some(job) = requests.recv().await {
        let command = job.request.command.clone();
        let seq = job.seq;
        let answering = move || {
            let answer = reader.answer(&command, seq);
            (reader, answer)
        };
        // The reader moves into the blocking work and comes back with the answer.
        let answer;
        (reader, answer) = blocking.run(answering).await;
        let id = job.request.id.as_str();
        let attempted = ParsedRequest {
            id: Some(id),
            command: Some(job.request.command.name()),
        };
        job.from.push(match answer {
            Ok(answer) => replies.answer(Some(id), answer),
            Err(refused) => replies.refusal(&attempted, refused),
        });
    }
}

impl RecordReader {
    pub(super) fn new(
        world: &World,
        dir: &ExecutionDir,
        replies: Replies,
        texts: Option<Arc<dyn RunTexts>>,
    ) -> Self {
        Self {
            texts,
            world: world.clone(),
            dir: dir.clone(),
            replies,
            comparison: None,
            lines: None,
        }
    }

    /// Answers a command. `seq` is the last event before it.
    fn answer(&mut self, command: &Command, seq: u64) -> Result<DirectPayload, Refused> {
        match command {
            Command::DiffFiles { to, from } => {
                let comparison = self.compare(to, from.as_ref())?;
                Ok(shortened(&comparison.differences).into())
            }
            Command::DiffLines {
                to,
                from,
                path,
                offset,
                limit,
            } => {
                let comparison = self.compare(to, from.as_ref())?;
                let lines = self.lines(&comparison, path)?;
                let part = (offset.unwrap_or(0), limit.unwrap_or(LINES));
                Ok(part_of(&comparison, path, &lines, part).into())
            }
            Command::ReportGet => report(self.texts()?),
            Command::PlanCodon { codon_id } => {
                let described = self.texts()?.describe(codon_id).map_err(internal)?;
                let none = || {
                    let message = format!("the hank has no codon `{codon_id}`");
                    Refused::new(Code::UnknownCodon, message)
                };
                Ok(described.ok_or_else(none)?.into())
            }
            Command::CheckpointList { run_id } => {
                let state = self.state()?;
                let hank = last_hank(&*self.world.disk, &self.dir).ok().flatten();
                let hank = hank.as_ref().and_then(|loaded| loaded.hank.as_ref());
                Ok(CheckpointList::of(&state, hank, run_id.as_ref())?.into())
            }
            Command::StateSnapshot => {
                let state = self.state()?;
                let thread = thread::build(&state, None, None);
                let tree = self.tree(&state);
                Ok(RunSnapshot::of(&state, &thread, tree, seq).into())
            }
            other => Err(Refused::new(
                Code::InsufficientPermissions,
                format!("{} is for a live run", other.name()),
            )),
        }
    }

    fn texts(&self) -> Result<&dyn RunTexts, Refused> {
        let none = || Refused::new(Code::UnknownCommand, "this server has no texts about the run");
        self.texts.as_deref().ok_or_else(none)
    }

    /// Compares two checkpoints. Returns the last comparison if it was of these two.
    fn compare(&mut self, to: &ShaPrefix, from: Option<&ShaPrefix>) -> Result<Arc<Comparison>, Refused> {
        let history = self.history()?;
        let named = |prefix: &ShaPrefix| match history.named(prefix.as_str()) {
            Ok(Some(sha)) => Ok(sha),
            Ok(None) => Err(unknown(format!("there is no checkpoint `{prefix}`"))),
            Err(error) => Err(refused(&error)),
        };
        let to = named(to)?;
        let from = from.map(named).transpose()?;
        if let Some((last_from, last)) = &self.comparison
            && *last_from == from
            && last.differences.to == to
        {
            return Ok(Arc::clone(last));
        }
        let comparison = match &from {
            Some(from) => history.compare(from, &to),
            None => {
                let state = self.state().ok();
                let work = history.work_until(state.as_ref(), &to);
                work.and_then(|work| history.compare_work(&work, &to))
            }
        };
        let comparison = Arc::new(comparison.map_err(|error| refused(&error))?);
        self.lines = None;
        self.comparison = Some((from, Arc::clone(&comparison)));
        Ok(comparison)
    }

    /// Returns the lines of a file; those of the last request are kept, as the next one is mostly for the same file.
    fn lines(&mut self, comparison: &Comparison, path: &str) -> Result<Arc<ShownLines>, Refused> {
        if let Some((known, lines)) = &self.lines
            && known == path
        {
            return Ok(Arc::clone(lines));
        }
        let lines = self.history()?.lines(comparison, path);
        let lines = Arc::new(lines.map_err(|error| refused(&error))?);
        self.lines = Some((path.to_owned(), Arc::clone(&lines)));
        Ok(lines)
    }

    fn history(&self) -> Result<GitHistory, Refused> {
        match GitHistory::open(&self.dir.checkpoints()) {
            Ok(Some(history)) => Ok(history),
            Ok(None) => Err(unknown("there are no checkpoints in this directory".to_owned())),
            Err(error) => Err(refused(&error)),
        }
    }

    /// Reads the state document of the directory as the start of a run would find it.
    fn state(&self) -> Result<HankweaveState, Refused> {
        let files = StateFiles::new(Arc::clone(&self.world.disk), None, self.dir.state_dir());
        let failed = |error: StateFileError| Refused::new(Code::InternalError, chain(&error));
        // Without the journal: if neither state.json nor its backup can be used, the document is rebuilt from the state log alone.
        Ok(peek(&files.find().map_err(failed)?, true, Vec::new).state)
    }

    /// Returns the files of the newest checkpoint; an empty list where it cannot be read. All of them have the time of the checkpoint.
    fn tree(&self, state: &HankweaveState) -> Vec<hankweave_core::wire::FileNode> {
        let Some(head) = thread::head(state) else {
            return Vec::new();
        };
        let read = || {
            let history = self.history().ok()?;
            let facts = history
                .existing(std::slice::from_ref(&head.checkpoint_sha))
                .ok()?;
            let at = facts.get(&head.checkpoint_sha)?.timestamp;
            let files = history.files(&head.checkpoint_sha).ok()?;
            let files: Vec<String> = files.iter().map(ToString::to_string).collect();
            Some(file_tree(files.iter().map(|path| (path.as_str(), at))))
        };
        read().unwrap_or_default()
    }
}

/// Makes a report, cut where it is long.
pub(super) fn report(texts: &dyn RunTexts) -> Result<DirectPayload, Refused> {
    let RunReport { mut markdown, next } = texts.report().map_err(internal)?;
    if markdown.len() > REPORT_BYTES {
        let is_boundary = |end: &usize| markdown.is_char_boundary(*end);
        let end = (0..=REPORT_BYTES).rev().find(is_boundary).unwrap_or(0);
        markdown.truncate(end);
        markdown.push_str("…\n");
    }
    Ok(DirectPayload::Report {
        markdown,
        next: Some(next),
    })
}

/// Returns as many files as fit into one answer.
fn shortened(differences: &FileDifferences) -> FileDifferences {
    let mut bytes = 0;
    let files = differences.files.iter().take(MAX_DIFF_FILES).take_while(|file| {
        bytes += FILE_BYTES + 2 * (file.path.len() + file.old_path.as_ref().map_or(0, String::len));
        bytes <= FILES_BYTES
    });
    FileDifferences {
        files: files.cloned().collect(),
        from: differences.from.clone(),
        to: differences.to.clone(),
        ..*differences
    }
}

/// Returns at most `limit` lines of a file, after the first `offset` ones.
fn part_of(
    comparison: &Comparison,
    path: &str,
    lines: &ShownLines,
    (offset, limit): (u64, u64),
) -> LineDifferences {
    let index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    LineDifferences {
        from: comparison.differences.from.clone(),
        to: comparison.differences.to.clone(),
        path: path.to_owned(),
        offset,
        lines: lines.part(index(offset), index(limit).min(MAX_DIFF_LINES), LINES_BYTES),
        count: lines.count() as u64,
    }
}

fn internal(why: String) -> Refused {
    Refused::new(Code::InternalError, why)
}

fn unknown(message: String) -> Refused {
    Refused::new(Code::UnknownCheckpoint, message)
}

fn refused(error: &HistoryError) -> Refused {
    unknown(chain(error))
}
