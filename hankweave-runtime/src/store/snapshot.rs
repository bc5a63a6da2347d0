//! The text of state.json, without writing finished history anew each time.

use std::collections::HashMap;
use std::sync::Arc;

use hankweave_core::codon::CodonExecution;
use hankweave_core::document::{HankweaveState, PlanEntry, RunRecord, RunStatus};
use serde::{Deserialize, Serialize};

/// Names the exact bytes of one snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotMark {
    /// The last event that the snapshot contains; 0 before the first.
    pub seq: u64,
    /// Its length.
    pub bytes: u64,
    /// CRC-32 of its bytes, eight hex digits.
    pub crc: String,
}

impl SnapshotMark {
    /// The mark of a snapshot that contains everything up to `seq`.
    #[must_use]
    pub fn of(seq: u64, snapshot: &[u8]) -> Self {
        Self {
            seq,
            bytes: snapshot.len() as u64,
            crc: checksum(snapshot),
        }
    }

    /// Whether these are the marked bytes.
    #[must_use]
    pub fn fits(&self, snapshot: &[u8]) -> bool {
        self.bytes == snapshot.len() as u64 && self.crc == checksum(snapshot)
    }
}

fn checksum(bytes: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(bytes))
}

/// Turns documents into the text that `hankweave_core::document::render` gives, and keeps the text of what never changes.
///
/// Successive documents share their finished runs and terminal codons, so the pointer tells that the text can be used again.
#[derive(Debug, Default)]
pub struct SnapshotWriter {
    runs: Texts<RunRecord>,
    codons: Texts<CodonExecution>,
    plans: Texts<Vec<PlanEntry>>,
}

/// Where elements of `runs`, elements of a run's `codons`, and values of the document stand: spaces in front of their lines.
const RUN_INDENT: usize = 4;
const CODON_INDENT: usize = 8;
const FIELD_INDENT: usize = 2;

impl SnapshotWriter {
    /// The text of `state`.
    pub fn render(&mut self, state: &HankweaveState) -> String {
        let runs: Vec<Arc<str>> = state.runs.iter().map(|run| self.run(run)).collect();
        let plan = self.plans.get(&state.execution_plan, true, |plan| {
            if plan.is_empty() {
                "[]".into()
            } else {
                indented(plan, FIELD_INDENT)
            }
        });
        self.runs.forget_unused();
        self.codons.forget_unused();
        self.plans.forget_unused();

        let frame = HankweaveState {
            runs: Default::default(),
            execution_plan: Arc::default(),
            ..state.clone()
        };
        let mut text = pretty(&frame);
        // The runs come last, because the text is searched and they are nearly all of it.
        fill(&mut text, "\n  \"executionPlan\": []", &plan);
        fill(&mut text, "\n  \"runs\": []", &list(&runs, FIELD_INDENT));
        text.push('\n');
        text
    }

    fn run(&mut self, run: &Arc<RunRecord>) -> Arc<str> {
        let Self { runs, codons, .. } = self;
        runs.get(run, run.status != RunStatus::Running, |run| {
            let texts: Vec<Arc<str>> = run
                .codons
                .iter()
                .map(|codon| codons.get(codon, codon.is_terminal(), |codon| indented(codon, CODON_INDENT)))
                .collect();
            let mut text = indented(
                &RunRecord {
                    codons: Vec::new(),
                    ..run.clone()
                },
                RUN_INDENT,
            );
            fill(
                &mut text,
                "\n      \"codons\": []",
                &list(&texts, RUN_INDENT + FIELD_INDENT),
            );
            text
        })
    }
}

/// The kept texts of shared values, by address. Each holds its value, so that the address stays taken.
#[derive(Debug)]
struct Texts<T> {
    kept: HashMap<usize, Kept<T>>,
    round: u64,
}

#[derive(Debug)]
struct Kept<T> {
    _value: Arc<T>,
    text: Arc<str>,
    used_in: u64,
}

impl<T> Default for Texts<T> {
    fn default() -> Self {
        Self {
            kept: HashMap::new(),
            round: 0,
        }
    }
}

impl<T> Texts<T> {
    /// The text of `value`, made by `render` unless it is kept; it is kept when the value is `terminal`.
    fn get(&mut self, value: &Arc<T>, terminal: bool, render: impl FnOnce(&T) -> String) -> Arc<str> {
        let address = Arc::as_ptr(value).addr();
        if let Some(kept) = self.kept.get_mut(&address) {
            kept.used_in = self.round;
            return Arc::clone(&kept.text);
        }
        let text: Arc<str> = render(value).into();
        if terminal {
            let kept = Kept {
                _value: Arc::clone(value),
                text: Arc::clone(&text),
                used_in: self.round,
            };
            self.kept.insert(address, kept);
        }
        text
    }

    /// Ends a snapshot: what it did not use, no later one will.
    fn forget_unused(&mut self) {
        self.kept.retain(|_, kept| kept.used_in == self.round);
        self.round += 1;
    }
}

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("a document has text keys and paths that were read from JSON")
}

/// The text of `value` as it stands inside another one, `indent` spaces deep; its first line is not indented.
fn indented(value: &impl Serialize, indent: usize) -> String {
    // Only line ends of the layout are found: those inside a JSON text are escaped.
    pretty(value).replace('\n', &format!("\n{:indent$}", ""))
}

/// The text of a list whose brackets stand `indent` spaces deep.
fn list(items: &[Arc<str>], indent: usize) -> String {
    if items.is_empty() {
        return "[]".to_owned();
    }
    let mut text = String::with_capacity(items.iter().map(|item| item.len() + indent + 4).sum::<usize>() + 8);
    for (index, item) in items.iter().enumerate() {
        text.push_str(if index == 0 { "[\n" } else { ",\n" });
        text.extend(std::iter::repeat_n(' ', indent + 2));
        text.push_str(item);
    }
    text.push('\n');
    text.extend(std::iter::repeat_n(' ', indent));
    text.push(']');
    text
}

/// Puts `content` in the place of the empty list at the end of `hole`, a field at a depth where no other has its name.
fn fill(text: &mut String, hole: &str, content: &str) {
    let end = text.find(hole).expect("the frame was written with an empty list") + hole.len();
    // `replace_range` would go byte by byte.
    text.drain(end - 2..end);
    text.insert_str(end - 2, content);
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use hankweave_core::codon::CodonStatus;
    use hankweave_core::document::{PlannedCodon, StartingConditions, render};
    use hankweave_core::event::{Recorded, StateEvent};
    use hankweave_core::id::{CheckpointSha, CodonId, Pid, RunId};
    use hankweave_core::state::LiveState;
    use hankweave_core::time::Timestamp;

    use super::*;

    struct Story {
        live: LiveState,
        seq: u64,
    }

    impl Story {
        fn tell(&mut self, event: StateEvent) {
            self.seq += 1;
            let recorded = Recorded {
                seq: self.seq,
                at: Timestamp::UNIX_EPOCH,
                event,
            };
            self.live.apply(&recorded).unwrap();
        }

        fn run(&mut self, name: &str, codons: usize) {
            let run_id = RunId::new(name).unwrap();
            self.tell(StateEvent::RunStarted {
                run_id: run_id.clone(),
                run_folder: PathBuf::from("/x/\n  \"codons\": []/y").join(name),
                git_branch: format!("run-{name}"),
                starting_conditions: StartingConditions::fresh(None),
                server_pid: Pid(1),
            });
            for number in 0..codons {
                self.tell(StateEvent::CodonStarted {
                    run_id: run_id.clone(),
                    codon_id: CodonId::new(format!("c{number}")).unwrap(),
                    loop_context: None,
                });
                self.tell(StateEvent::CodonTransitioned {
                    run_id: run_id.clone(),
                    codon_id: CodonId::new(format!("c{number}")).unwrap(),
                    from: CodonStatus::Preparing,
                    to: CodonStatus::Skipped,
                    metadata: serde_json::from_str(r#"{"skippedDuring":"preparing"}"#).unwrap(),
                });
            }
        }
    }

    #[test]
    fn the_text_is_the_one_that_core_renders() {
        let mut story = Story {
            live: LiveState::default(),
            seq: 0,
        };
        let mut writer = SnapshotWriter::default();
        let mut check = |story: &Story| {
            assert_eq!(
                writer.render(story.live.document()),
                render(story.live.document())
            );
        };
        check(&story);
        story.run("first", 3);
        check(&story);
        story.tell(StateEvent::RunCompleted {
            run_id: RunId::new("first").unwrap(),
        });
        story.tell(StateEvent::InitialCheckpointSet {
            sha: CheckpointSha::new("abc"),
        });
        check(&story);
        story.tell(StateEvent::PlanReplaced {
            execution_plan: vec![PlanEntry {
                codon: PlannedCodon::default(),
                codon_id: CodonId::new("c0").unwrap(),
                loop_context: None,
                extra: Default::default(),
            }],
        });
        story.run("second", 0);
        check(&story);
        check(&story);
    }

    #[test]
    fn finished_parts_are_written_once() {
        let mut story = Story {
            live: LiveState::default(),
            seq: 0,
        };
        let mut writer = SnapshotWriter::default();
        story.run("first", 3);
        writer.render(story.live.document());
        assert_eq!((writer.codons.kept.len(), writer.runs.kept.len()), (3, 0));
        story.tell(StateEvent::RunCompleted {
            run_id: RunId::new("first").unwrap(),
        });
        writer.render(story.live.document());
        writer.render(story.live.document());
        assert_eq!(
            (writer.codons.kept.len(), writer.runs.kept.len()),
            (0, 1),
            "the run's text holds its codons"
        );
    }

    #[test]
    fn a_mark_fits_its_own_bytes_only() {
        let mark = SnapshotMark::of(3, b"{}");
        assert!(mark.fits(b"{}"));
        assert!(!mark.fits(b"{ }") && !mark.fits(b"[]"));
    }
}
