//! Puts the lines of the journal together from their parts, which takes half the time of their serialisation and gives the same.

use hankweave_core::event::StateEvent;
use hankweave_core::json::{push_member, push_text_member};
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{CurrentFigures, Event, JournalEntry};

use super::batch::{Batch, Line};
use super::event_id::write_id;
use super::texts::EventTexts;
use crate::json::TimeWriter;

/// What most lines need beside the text of their event.
const LINE_BYTES: usize = 384;

/// Why nothing of a line can fail to be written.
const TEXT: &str = "an entry has text keys, and memory takes everything";

/// Makes a [`Batch`].
pub(crate) struct BatchWriter {
    text: Vec<u8>,
    lines: Vec<Line>,
    times: TimeWriter,
    /// The id that was written last.
    id: String,
}

impl BatchWriter {
    /// With room for `events` events whose texts have so many bytes together.
    pub(crate) fn with_room_for(bytes: usize, events: usize) -> Self {
        Self {
            text: Vec::with_capacity(bytes + events * LINE_BYTES),
            lines: Vec::with_capacity(events),
            times: TimeWriter::default(),
            id: String::new(),
        }
    }

    /// Adds a whole entry, which is seldom done.
    pub(super) fn entry(&mut self, entry: &JournalEntry) {
        serde_json::to_writer(&mut self.text, entry).expect(TEXT);
        self.end_line(entry.seq, entry.event.name());
    }

    /// Adds what tells clients of an accepted state event; `json` is its text, and `figures` are those after it.
    pub(crate) fn transition(
        &mut self,
        seq: u64,
        at: Timestamp,
        event: &StateEvent,
        json: &[u8],
        figures: &CurrentFigures,
    ) {
        push_member(&mut self.text, "{\"seq\":", &seq).expect(TEXT);
        write_id(&mut self.id, seq, at, event, figures);
        push_text_member(&mut self.text, ",\"id\":", &self.id);
        self.time(at);
        self.text(",\"type\":", Event::STATE_TRANSITION);
        self.text(",\"data\":{\"transitionType\":", event.name());
        if let Some(run) = event.run_id() {
            self.text(",\"runId\":", run.as_str());
        }
        if let Some(codon) = event.codon_id() {
            self.text(",\"codonId\":", codon.as_str());
        }
        self.put(b",\"transition\":");
        self.put(json);
        self.put(b",\"resultingState\":");
        figures.write_json(&mut self.text).expect(TEXT);
        self.put(b"}}");
        self.end_line(seq, Event::STATE_TRANSITION);
    }

    /// Adds other events, whose numbers begin with `seq`.
    pub(crate) fn others(
        &mut self,
        seq: u64,
        push_id: impl Fn(&mut Vec<u8>),
        at: Timestamp,
        texts: &EventTexts,
    ) {
        for (seq, (kind, text)) in (seq..).zip(texts.iter()) {
            self.begin_line(seq, &push_id, at);
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

    fn begin_line(&mut self, seq: u64, push_id: impl Fn(&mut Vec<u8>), at: Timestamp) {
        push_member(&mut self.text, "{\"seq\":", &seq).expect(TEXT);
        self.put(b",\"id\":\"");
        push_id(&mut self.text);
        self.put(b"\"");
        self.time(at);
    }

    fn time(&mut self, at: Timestamp) {
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

    fn text(&mut self, before: &str, text: &str) {
        push_text_member(&mut self.text, before, text);
    }
}

#[cfg(test)]
mod tests {
    use hankweave_core::cost::Usd;
    use hankweave_core::id::{CheckpointSha, CodonId, EventId, RunId};

    use super::*;

    fn push_id(text: &mut Vec<u8>) {
        text.push(b'e');
    }

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
        for (event, current, id) in [
            (about_nothing, None, "0-0:12"),
            (about_a_run, Some(run_id), "a:12"),
            (about_a_codon, None, "a:12"),
        ] {
            let figures = CurrentFigures {
                current_run_id: current,
                run_count: 2,
                total_cost: Usd::from_micros(1_500),
                current_run_cost: Usd::ZERO,
            };
            let json = serde_json::to_vec(&event).unwrap();
            let mut writer = BatchWriter::with_room_for(0, 1);
            writer.transition(12, Timestamp::UNIX_EPOCH, &event, &json, &figures);
            let entry = JournalEntry {
                seq: 12,
                id: EventId::new(id).unwrap(),
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
        let mut writer = BatchWriter::with_room_for(texts.bytes(), texts.len());
        writer.others(7, push_id, Timestamp::UNIX_EPOCH, &texts);
        let entries = [7, 8].into_iter().zip(events).map(|(seq, event)| JournalEntry {
            seq,
            id: EventId::new("e").unwrap(),
            timestamp: Timestamp::UNIX_EPOCH,
            event,
        });
        assert_eq!(writer.finish(), Batch::new(&entries.collect::<Vec<_>>()));
    }
}
