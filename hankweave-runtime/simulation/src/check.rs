//! Promises that must hold at any moment, whatever has happened: the small model with which the runtime is compared.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use hankweave_core::codon::{CodonExecution, CodonStatus};
use hankweave_core::document::HankweaveState;
use hankweave_core::event::{Recorded, StateEvent};
use hankweave_core::state::LiveState;
use hankweave_core::thread;
use hankweave_core::wire::{Event, JournalEntry};
use hankweave_runtime::state_manager::peek;
use hankweave_runtime::store::{FoundState, StateFiles};

use crate::agents::output_of;
use crate::checkpoints::Vault;
use crate::disk::{Content, SimDisk, Tree};

/// A promise that was not kept, in words.
pub(crate) type Broken = String;

/// All published events, by number.
#[derive(Debug, Default)]
pub(crate) struct Told {
    entries: BTreeMap<u64, JournalEntry>,
}

impl Told {
    /// Adds an event that a subscriber received.
    ///
    /// # Errors
    ///
    /// When a number comes twice or out of order (P2).
    pub(crate) fn hear(&mut self, entry: JournalEntry) -> Result<(), Broken> {
        if let Some((last, _)) = self.entries.last_key_value()
            && *last >= entry.seq
        {
            return Err(format!("P2: number {} was published after {last}", entry.seq));
        }
        self.entries.insert(entry.seq, entry);
        Ok(())
    }
}

/// A line of the journal, decoded.
#[derive(Debug)]
struct Line {
    entry: JournalEntry,
    /// The state event in it.
    recorded: Option<Recorded<StateEvent>>,
}

/// The lines of a journal that were decoded before: most of them are there again at the next check.
#[derive(Debug, Default)]
pub(crate) struct KnownLines(HashMap<Vec<u8>, Arc<Line>>);

impl KnownLines {
    /// Returns the line; `None` if it is torn and cannot be read.
    fn decode(&mut self, bytes: &[u8]) -> Option<Arc<Line>> {
        if let Some(known) = self.0.get(bytes) {
            return Some(Arc::clone(known));
        }
        let entry = JournalEntry::from_json(bytes).ok()?;
        let recorded = recorded(&entry);
        let line = Arc::new(Line { entry, recorded });
        self.0.insert(bytes.to_vec(), Arc::clone(&line));
        Some(line)
    }

    fn decode_all(&mut self, events: &Tree) -> Vec<Arc<Line>> {
        let mut journal = Vec::new();
        for content in events.values() {
            let Content::File(_, bytes) = content else {
                continue;
            };
            let lines = bytes.split(|byte| *byte == b'\n');
            journal.extend(lines.filter_map(|line| self.decode(line)));
        }
        journal
    }
}

/// Contents of the files of one execution directory.
#[derive(Debug)]
pub(crate) struct Records {
    journal: Vec<Arc<Line>>,
    log: Vec<Recorded<StateEvent>>,
    pub(crate) state: HankweaveState,
    reset: bool,
}

impl Records {
    /// Reads the files as a start would, and changes nothing.
    ///
    /// # Errors
    ///
    /// When the disk does not give them.
    pub(crate) fn read(disk: &SimDisk, state_dir: &Path, known: &mut KnownLines) -> Result<Self, Broken> {
        let journal = known.decode_all(&disk.tree(&state_dir.join("events"), ""));
        let found = find(disk, state_dir)?;
        let recovered = peek(&found, !journal.is_empty(), || {
            state_events(&journal).cloned().collect()
        });
        Ok(Self {
            journal,
            log: found.log.records,
            state: recovered.state,
            reset: recovered.history_was_reset,
        })
    }

    /// Checks the files of an open directory against the published events and against each other.
    ///
    /// # Errors
    ///
    /// The first promise that is broken.
    pub(crate) fn check(&self, told: &Told, vault: &Vault) -> Result<(), Broken> {
        if self.reset {
            return Err("P6: recorded history was dropped".to_owned());
        }
        self.check_order()?;
        self.check_told(told)?;
        self.check_fold()?;
        self.check_costs()?;
        self.check_checkpoints(vault)
    }

    fn numbers(&self) -> impl Iterator<Item = u64> {
        self.journal.iter().map(|line| line.entry.seq)
    }

    fn check_order(&self) -> Result<(), Broken> {
        let numbers: Vec<u64> = self.numbers().collect();
        match numbers.windows(2).find(|pair| pair[0] >= pair[1]) {
            Some(pair) => Err(format!(
                "P2: number {} stands before {} in the journal",
                pair[0], pair[1]
            )),
            None => Ok(()),
        }
    }

    /// Checks the journal against the published events: it has no other event under a number, and lacks no state event.
    fn check_told(&self, told: &Told) -> Result<(), Broken> {
        let journal: BTreeMap<u64, &JournalEntry> = self
            .journal
            .iter()
            .map(|line| (line.entry.seq, &line.entry))
            .collect();
        for (seq, told) in &told.entries {
            match journal.get(seq) {
                // Clients remember events by their ids.
                Some(kept)
                    if kept.event == told.event && kept.timestamp == told.timestamp && kept.id == told.id => {
                }
                Some(kept) => {
                    return Err(format!(
                        "P2: number {seq} was {} {:?} and is {} {:?}",
                        told.id, told.event, kept.id, kept.event
                    ));
                }
                None if matches!(told.event, Event::StateTransition { .. }) => {
                    return Err(format!("P1, P7: the journal lost number {seq}: {:?}", told.event));
                }
                None => {}
            }
        }
        Ok(())
    }

    /// A client that has seen a number has seen everything before it (P2): what it lacks was never in the journal, or is not any more.
    pub(crate) fn check_seen(&self, seen: &BTreeSet<u64>) -> Result<(), Broken> {
        let last = seen.last().copied().unwrap_or(0);
        match self
            .numbers()
            .filter(|seq| *seq <= last)
            .find(|seq| !seen.contains(seq))
        {
            Some(missed) => Err(format!(
                "P2: a client that has seen number {last} has not seen {missed}"
            )),
            None => Ok(()),
        }
    }

    /// The document is what the state events of the journal make, no more and no less; the newest may only be in the log yet.
    fn check_fold(&self) -> Result<(), Broken> {
        let mut events: Vec<_> = state_events(&self.journal).collect();
        let last = events.last().map_or(0, |event| event.seq);
        for logged in &self.log {
            if logged.seq > last {
                events.push(logged);
            } else if events
                .binary_search_by_key(&logged.seq, |event| event.seq)
                .is_err()
            {
                return Err(format!(
                    "P7: number {} of the log is not in the journal",
                    logged.seq
                ));
            }
        }
        let mut live = LiveState::default();
        for event in events {
            live.apply(event).map_err(|error| {
                format!(
                    "P7: the journal holds number {} that did not happen: {error}",
                    event.seq
                )
            })?;
        }
        if *live.document() == self.state {
            return Ok(());
        }
        Err(difference(live.document(), &self.state))
    }

    /// The total cost in the newest published event must equal the recorded total, unless newer events are only in the log yet.
    fn check_costs(&self) -> Result<(), Broken> {
        let newest = self
            .journal
            .iter()
            .rev()
            .find_map(|line| match &line.entry.event {
                Event::StateTransition { resulting_state, .. } => {
                    Some((line.entry.seq, resulting_state.total_spend?))
                }
                _ => None,
            });
        let behind = |seq: u64| self.log.iter().any(|logged| logged.seq > seq);
        match newest {
            Some((seq, told)) if told != self.state.total_spend() && !behind(seq) => Err(format!(
                "P7: number {seq} told of {told}, and {} are recorded",
                self.state.total_spend()
            )),
            _ => Ok(()),
        }
    }

    fn check_checkpoints(&self, vault: &Vault) -> Result<(), Broken> {
        match self
            .state
            .checkpoints()
            .find(|sha| !sha.is_blank() && !vault.contains(sha))
        {
            Some(sha) => Err(format!("P8: checkpoint {sha} is in the state and nowhere else")),
            None => self.check_completion_checkpoints(vault),
        }
    }

    /// Checks that the output of each completed codon is in its checkpoint (G5).
    fn check_completion_checkpoints(&self, vault: &Vault) -> Result<(), Broken> {
        for codon in self.state.runs.iter().flat_map(|run| &run.codons) {
            let CodonExecution::Completed(completed) = &**codon else {
                continue;
            };
            let (id, sha) = (codon.codon_id(), &completed.completion_checkpoint);
            let (path, bytes) = output_of(Path::new(""), id.as_str());
            if !vault.holds(sha, &path, &bytes) {
                return Err(format!(
                    "G5: checkpoint {sha} of the completed codon {id} lacks what it made"
                ));
            }
        }
        Ok(())
    }
}

/// Reads the document as a start would.
///
/// # Errors
///
/// When the disk does not give it.
pub(crate) fn document(disk: &SimDisk, state_dir: &Path) -> Result<HankweaveState, Broken> {
    let events = || journal_events(disk, state_dir);
    Ok(peek(&find(disk, state_dir)?, true, events).state)
}

fn journal_events(disk: &SimDisk, state_dir: &Path) -> Vec<Recorded<StateEvent>> {
    let journal = KnownLines::default().decode_all(&disk.tree(&state_dir.join("events"), ""));
    state_events(&journal).cloned().collect()
}

fn find(disk: &SimDisk, state_dir: &Path) -> Result<FoundState, Broken> {
    let files = StateFiles::new(Arc::new(disk.outside()), None, state_dir.to_owned());
    files
        .find()
        .map_err(|error| format!("the state cannot be read: {error}"))
}

/// Whether the codon is on record as open.
///
/// # Errors
///
/// When it is not.
pub(crate) fn check_open(state: &HankweaveState, run: &str, codon: &str) -> Result<(), Broken> {
    let found = state.runs.iter().find(|found| found.run_id.as_str() == run);
    let open = found.and_then(|run| run.open_codon());
    match open.map(CodonExecution::codon_id) {
        Some(open) if open.as_str() == codon => Ok(()),
        _ => Err(format!(
            "P1: a process of {run}/{codon} was started before that codon was durable"
        )),
    }
}

/// Whether what completed codons made is in the workspace.
///
/// # Errors
///
/// The first output that is missing or spoiled.
pub(crate) fn check_outputs(state: &HankweaveState, workspace: &Path, files: &Tree) -> Result<(), Broken> {
    let thread = thread::build(state, None, None);
    let completed = thread
        .codons
        .iter()
        .filter(|entry| entry.codon.status() == CodonStatus::Completed);
    for entry in completed {
        let codon = entry.codon.codon_id().as_str();
        let (path, bytes) = output_of(workspace, codon);
        let path = path.strip_prefix(workspace).unwrap_or(&path);
        match files.get(path) {
            Some(Content::File(_, found)) if *found == bytes => {}
            found => {
                let found = found.map(|_| "spoiled").unwrap_or("missing");
                return Err(format!("G7: what the completed codon {codon} made is {found}"));
            }
        }
    }
    Ok(())
}

/// Checks that no temporary file or lock is left (P9).
pub(crate) fn check_leftovers(files: &Tree, running: bool) -> Result<(), Broken> {
    let left = files.keys().find(|path| {
        let name = path.to_string_lossy();
        name.ends_with(".tmp") || (!running && name.ends_with(".lock"))
    });
    match left {
        Some(left) => Err(format!("P9: {} was left behind", left.display())),
        None => Ok(()),
    }
}

fn state_events(journal: &[Arc<Line>]) -> impl Iterator<Item = &Recorded<StateEvent>> {
    journal.iter().filter_map(|line| line.recorded.as_ref())
}

fn recorded(entry: &JournalEntry) -> Option<Recorded<StateEvent>> {
    match &entry.event {
        Event::StateTransition { transition, .. } => Some(Recorded {
            seq: entry.seq,
            at: entry.timestamp,
            event: StateEvent::clone(transition),
        }),
        _ => None,
    }
}

fn difference(journaled: &HankweaveState, state: &HankweaveState) -> Broken {
    let mut text =
        "P1, P7: the state is not what the journal tells; journal and state differ in\n".to_owned();
    let lines = |state: &HankweaveState| serde_json::to_string_pretty(state).unwrap_or_default();
    let (journaled, state) = (lines(journaled), lines(state));
    let pairs = journaled.lines().zip(state.lines());
    for (one, other) in pairs.filter(|(one, other)| one != other).take(6) {
        // A String takes any text.
        let _ = writeln!(text, "  {}  |  {}", one.trim(), other.trim());
    }
    let (one, other) = (journaled.lines().count(), state.lines().count());
    let _ = write!(text, "  ({one} lines and {other} lines)");
    text
}
