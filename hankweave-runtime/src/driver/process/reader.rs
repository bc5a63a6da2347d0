//! From the lines that an agent printed to what it said, on the thread of whoever listens: what a line says is used up there, and its parts
//! need not go from one thread to another.

use hankweave_core::agent::{AgentEvent, AgentLines, ClaudeDecoder, EndedBy, ProcessExit};
use tokio::sync::mpsc;

use super::transcripts::{Part, Transcripts};

/// What the task of a process hands on.
#[derive(Debug)]
pub(super) enum Output {
    /// What it printed.
    Lines(AgentLines),
    /// Its end, behind everything that it printed.
    End {
        exit: ProcessExit,
        ended_by: EndedBy,
        stderr_tail: String,
        /// How many descendants had to be killed.
        leftovers: usize,
    },
}

/// The other end of an [`OutputReader`].
#[derive(Debug)]
pub(super) struct Listener {
    /// Where output goes; it waits while as many pieces wait as there is room for.
    pub(super) output: mpsc::Sender<Output>,
    /// Lines that were heard, whose memory can be used again.
    pub(super) used: mpsc::Receiver<AgentLines>,
}

/// Says what the lines of one process mean.
#[derive(Debug)]
pub(in crate::driver) struct OutputReader {
    output: mpsc::Receiver<Output>,
    used: mpsc::Sender<AgentLines>,
    /// What arrived last, and how many of these lines were heard.
    lines: AgentLines,
    heard: usize,
    decoder: ClaudeDecoder,
    /// Where a process that was killed has written what it used.
    transcripts: Option<Transcripts>,
    /// The end, once it has arrived and until it is told.
    end: Option<Output>,
}

impl OutputReader {
    /// A reader for which so many pieces of output may wait, and its other end.
    pub(super) fn new(
        decoder: ClaudeDecoder,
        transcripts: Option<Transcripts>,
        waiting: usize,
    ) -> (Listener, Self) {
        let (sender, output) = mpsc::channel(waiting);
        let (used, use_again) = mpsc::channel(waiting);
        let listener = Listener {
            output: sender,
            used: use_again,
        };
        let reader = Self {
            output,
            used,
            lines: AgentLines::default(),
            heard: 0,
            decoder,
            transcripts,
            end: None,
        };
        (listener, reader)
    }

    /// Waits for more output; what its end says is added to `events`. `None` when nothing more can come.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is taken before it has arrived.
    pub(in crate::driver) async fn arrival(&mut self, events: &mut Vec<AgentEvent>) -> Option<()> {
        if self.end.is_none() {
            let before = events.len();
            self.overhear(events).await;
            if events.len() > before {
                return Some(());
            }
            match self.output.recv().await? {
                Output::Lines(lines) => {
                    let mut heard = std::mem::replace(&mut self.lines, lines);
                    self.heard = 0;
                    heard.clear();
                    // What nobody can take is let go.
                    let _ = self.used.try_send(heard);
                    return Some(());
                }
                end @ Output::End { .. } => self.end = Some(end),
            }
        }
        self.recall().await;
        if let Some(Output::End {
            exit,
            ended_by,
            stderr_tail,
            leftovers,
        }) = self.end.take()
        {
            let outcome = self.decoder.finish(exit, ended_by, stderr_tail, leftovers);
            events.push(AgentEvent::Finished(outcome));
        }
        Some(())
    }

    /// Reads what sub-agents have written down: their lines do not tell what they used.
    async fn overhear(&mut self, events: &mut Vec<AgentEvent>) {
        if let (Some(transcripts), Some(session)) = (&self.transcripts, self.decoder.helped_session()) {
            let transcript = transcripts.read(session, Part::SubAgents).await;
            self.decoder.overhear(transcript, events);
        }
    }

    /// Reads what a process has written down that did not live to say what it had used.
    async fn recall(&mut self) {
        if let (Some(transcripts), Some(session)) = (&self.transcripts, self.decoder.unsettled_session())
            && let Some(transcript) = transcripts.read(session, Part::Whole).await
        {
            self.decoder.recall(transcript);
        }
    }

    /// Adds what the next line says that has arrived; `false` when there is none.
    pub(in crate::driver) fn line(&mut self, events: &mut Vec<AgentEvent>) -> bool {
        let found = self.heard < self.lines.len();
        if found {
            self.decoder.hear(&self.lines, self.heard, events);
            self.heard += 1;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_heard_one_by_one_and_then_the_end() {
        let (listener, mut reader) = OutputReader::new(ClaudeDecoder::new(false), None, 4);
        let end = Output::End {
            exit: ProcessExit::Exited(0),
            ended_by: EndedBy::Itself,
            stderr_tail: String::new(),
            leftovers: 0,
        };
        let pieces = [&["one", "{}", "two"][..], &["three"]].map(|words| {
            let mut lines = AgentLines::default();
            words.iter().for_each(|line| lines.push(line));
            Output::Lines(lines)
        });
        for output in pieces.into_iter().chain([end]) {
            listener.output.send(output).await.unwrap();
        }
        drop(listener);
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
