//! From the lines that an agent printed to what it said, on the thread of whoever listens.

use hankweave_core::agent::{AgentDecoder, AgentEvent, ProcessEnd, Records};
use tokio::sync::mpsc;

use super::lines::Lines;
use super::transcripts::Transcripts;

/// What the task of a process hands on.
#[derive(Debug)]
pub(super) enum Output {
    /// What it printed.
    Lines(Lines),
    /// Its end, behind everything that it printed.
    End(ProcessEnd),
}

/// Says what the lines of one process mean.
#[derive(Debug)]
pub(in crate::driver) struct OutputReader {
    output: mpsc::Receiver<Output>,
    /// What arrived last, and how many of these lines were heard.
    lines: Lines,
    heard: usize,
    decoder: Box<dyn AgentDecoder>,
    /// What the agent writes down itself.
    transcripts: Option<Transcripts>,
    /// The end, once it has arrived and until it is told.
    end: Option<ProcessEnd>,
}

impl OutputReader {
    /// A reader for which so many pieces of output may wait, and where they go.
    pub(super) fn new(
        decoder: Box<dyn AgentDecoder>,
        transcripts: Option<Transcripts>,
        waiting: usize,
    ) -> (mpsc::Sender<Output>, Self) {
        let (sender, output) = mpsc::channel(waiting);
        let reader = Self {
            output,
            lines: Lines::default(),
            heard: 0,
            decoder,
            transcripts,
            end: None,
        };
        (sender, reader)
    }

    /// Waits for more output; what its end says is added to `events`. `None` when nothing more can come.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is taken before it has arrived.
    pub(in crate::driver) async fn arrival(&mut self, events: &mut Vec<AgentEvent>) -> Option<()> {
        if self.end.is_none() {
            let before = events.len();
            self.recall(Records::SubAgents, events).await;
            if events.len() > before {
                return Some(());
            }
            match self.output.recv().await? {
                Output::Lines(lines) => {
                    self.lines = lines;
                    self.heard = 0;
                    return Some(());
                }
                Output::End(end) => self.end = Some(end),
            }
        }
        self.recall(Records::Whole, events).await;
        if let Some(end) = self.end.take() {
            events.push(AgentEvent::Finished(self.decoder.finish(end)));
        }
        Some(())
    }

    /// Reads what the agent has written down itself, where that tells more than its lines.
    async fn recall(&mut self, records: Records, events: &mut Vec<AgentEvent>) {
        if let (Some(transcripts), Some(session)) = (&self.transcripts, self.decoder.wants(records)) {
            let transcript = transcripts.read(session, records).await;
            self.decoder.recall(records, transcript, events);
        }
    }

    /// Adds what the next line says that has arrived; `false` when there is none.
    pub(in crate::driver) fn line(&mut self, events: &mut Vec<AgentEvent>) -> bool {
        let line = self.lines.get(self.heard);
        if let Some(line) = line {
            self.decoder.hear(line, events);
            self.heard += 1;
        }
        line.is_some()
    }
}

#[cfg(test)]
mod tests {
    use hankweave_core::agent::{ClaudeDecoder, EndedBy, ProcessExit};

    use super::super::lines::Line;
    use super::*;

    #[tokio::test]
    async fn lines_are_heard_one_by_one_and_then_the_end() {
        let decoder = Box::new(ClaudeDecoder::new(false));
        let (output, mut reader) = OutputReader::new(decoder, None, 4);
        let pieces = [&["one", "{}", "two"][..], &["three"]].map(|words| {
            let mut lines = Lines::default();
            words
                .iter()
                .for_each(|line| lines.push(Line::Text((*line).into())));
            Output::Lines(lines)
        });
        let end = ProcessEnd::of(ProcessExit::Exited(0), EndedBy::Itself);
        for piece in pieces.into_iter().chain([Output::End(end)]) {
            output.send(piece).await.unwrap();
        }
        drop(output);
        let (mut told, mut events) = (Vec::new(), Vec::new());
        while reader.arrival(&mut events).await.is_some() {
            while reader.line(&mut events) {
                told.push(events.len());
            }
        }
        assert_eq!(told, [1, 1, 2, 3], "how much is known after each line");
        let unparsed = |start: &str| AgentEvent::Unparsed {
            start: start.to_owned(),
        };
        assert_eq!(events[..3], ["one", "two", "three"].map(unparsed));
        assert!(
            matches!(&events[3..], [AgentEvent::Finished(outcome)] if outcome.exit == ProcessExit::Exited(0))
        );
    }
}
