//! Puts the lines of the journal together from their parts, which takes half the time of their serialisation and gives the same.

use hankweave_core::event::{Encoded, StateEvent};
use hankweave_core::id::EventId;
use hankweave_core::json::push_text;
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{CurrentFigures, Event, JournalEntry};
use serde::Serialize;

use super::batch::{Batch, Line};
use super::texts::EventTexts;
use crate::json::TimeWriter;

/// What most lines need beside the text of their event.
const LINE_BYTES: usize = 384;

/// Makes a [`Batch`].
pub(crate) struct BatchWriter {
    text: Vec<u8>,
    lines: Vec<Line>,
    times: TimeWriter,
}

impl BatchWriter {
    /// With room for `events` events whose texts have so many bytes together.
    pub(crate) fn with_room_for(bytes: usize, events: usize) -> Self {
        Self {
            text: Vec::with_capacity(bytes + events * LINE_BYTES),
            lines: Vec::with_capacity(events),
            times: TimeWriter::default(),
        }
    }

    /// Adds a whole entry, which is seldom done.
    pub(super) fn entry(&mut self, entry: &JournalEntry) {
        self.value(entry);
        self.end_line(entry.seq, entry.event.name());
    }

    /// Adds what tells clients of an accepted state event; `figures` are those after it.
    pub(crate) fn transition(
        &mut self,
        seq: u64,
        id: &EventId,
        at: Timestamp,
        event: &Encoded<StateEvent>,
        figures: &CurrentFigures,
    ) {
        self.begin_line(seq, id, at);
        self.put(b",\"type\":");
        self.string(Event::STATE_TRANSITION);
        self.put(b",\"data\":{\"transitionType\":");
        self.string(event.name());
        if let Some(run) = event.run_id() {
            self.put(b",\"runId\":");
            self.string(run.as_str());
        }
        if let Some(codon) = event.codon_id() {
            self.put(b",\"codonId\":");
            self.string(codon.as_str());
        }
        self.put(b",\"transition\":");
        self.put(event.json().as_bytes());
        self.put(b",\"resultingState\":");
        self.value(figures);
        self.put(b"}}");
        self.end_line(seq, Event::STATE_TRANSITION);
    }

    /// Adds other events, whose numbers begin with `seq`.
    pub(crate) fn others(
        &mut self,
        seq: u64,
        mut id: impl FnMut() -> EventId,
        at: Timestamp,
        texts: &EventTexts,
    ) {
        for (seq, (kind, text)) in (seq..).zip(texts.iter()) {
            self.begin_line(seq, &id(), at);
            let begin = self.text.len();
            self.put(text);
            // The members of the event go on where those of the entry ended.
            self.text[begin] = b',';
            self.end_line(seq, kind);
        }
    }

    /// The lines that were added.
    pub(crate) fn finish(self) -> Batch {
        let text = String::from_utf8(self.text).expect("JSON is text");
        Batch::of(text, self.lines)
    }

    fn begin_line(&mut self, seq: u64, id: &EventId, at: Timestamp) {
        self.put(b"{\"seq\":");
        self.value(&seq);
        self.put(b",\"id\":");
        self.string(id.as_str());
        self.put(b",\"timestamp\":");
        self.times.push(&mut self.text, at);
    }

    fn end_line(&mut self, seq: u64, kind: &'static str) {
        self.text.push(b'\n');
        let end = self.text.len();
        self.lines.push(Line { seq, kind, end });
    }

    fn put(&mut self, json: &[u8]) {
        self.text.extend_from_slice(json);
    }

    fn string(&mut self, text: &str) {
        push_text(&mut self.text, text);
    }

    fn value(&mut self, value: &(impl Serialize + ?Sized)) {
        serde_json::to_writer(&mut self.text, value)
            .expect("an entry has text keys, and memory takes everything");
    }
}

#[cfg(test)]
mod tests {
    use hankweave_core::cost::Usd;
    use hankweave_core::id::{CheckpointSha, CodonId, RunId};

    use super::*;

    #[test]
    fn the_line_of_a_state_event_is_its_serialisation() {
        let run_id = RunId::new("a").unwrap();
        let codon_id = CodonId::new("write#1").unwrap();
        let about_nothing = StateEvent::InitialCheckpointSet {
            sha: CheckpointSha::new("0"),
        };
        let about_a_run = StateEvent::RunCompleted {
            run_id: run_id.clone(),
        };
        let about_a_codon = StateEvent::CodonStarted {
            run_id: run_id.clone(),
            codon_id,
            loop_context: None,
        };
        for (event, current) in [
            (about_nothing, None),
            (about_a_run, Some(run_id)),
            (about_a_codon, None),
        ] {
            let figures = CurrentFigures {
                current_run_id: current,
                run_count: 2,
                total_cost: Usd::from_micros(1_500),
                current_run_cost: Usd::ZERO,
            };
            let (event, id) = (Encoded::new(event).unwrap(), EventId::new("a \"name\"").unwrap());
            let mut writer = BatchWriter::with_room_for(0, 1);
            writer.transition(12, &id, Timestamp::UNIX_EPOCH, &event, &figures);
            let entry = JournalEntry {
                seq: 12,
                id,
                timestamp: Timestamp::UNIX_EPOCH,
                event: Event::state_transition(Box::new(event), figures),
            };
            assert_eq!(writer.finish(), Batch::new(&[entry]));
        }
    }

    #[test]
    fn texts_get_numbers_names_and_a_time() {
        let events = ["one", "two"].map(|message| Event::Info {
            message: message.to_owned(),
        });
        let mut texts = EventTexts::default();
        for event in &events {
            texts.push(event).unwrap();
        }
        let id = || EventId::new("e").unwrap();
        let mut writer = BatchWriter::with_room_for(texts.bytes(), texts.len());
        writer.others(7, id, Timestamp::UNIX_EPOCH, &texts);
        let entries = [7, 8].into_iter().zip(events).map(|(seq, event)| JournalEntry {
            seq,
            id: id(),
            timestamp: Timestamp::UNIX_EPOCH,
            event,
        });
        assert_eq!(writer.finish(), Batch::new(&entries.collect::<Vec<_>>()));
    }
}
