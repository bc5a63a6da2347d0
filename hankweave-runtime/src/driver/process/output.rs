//! Output of an agent: copied into its log, and decoded into events. Where the agent also keeps session files of its own (records), the decoder gets these too.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use hankweave_agents::{AcpAction, AgentDecoder, AgentRecords, ProcessEnd, RecordsScope};
use hankweave_core::agent::AgentEvent;
use hankweave_core::id::SessionId;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::lines::LineFramer;
use super::log::Log;
use super::passed::PieceFilter;
use crate::driver::EventSender;
use crate::world::blocking::Blocking;

/// Reads the records of an agent: the files in which the agent itself describes its sessions.
pub(in crate::driver) trait RecordSource: Send + Sync + Debug {
    /// Returns the records of a session, with those of `sub_agents`, which are sessions as well; `None` when there are none. Blocks.
    fn read(
        &self,
        session: &SessionId,
        sub_agents: &[SessionId],
        records: RecordsScope,
    ) -> Option<AgentRecords>;
}

/// Number of events after which a list of them is sent, so that no list gets long.
const MOST_EVENTS: usize = 1_024;

/// Time between two readings of the records while the agent works without printing anything.
const PACE: Duration = Duration::from_secs(1);

/// Copies the output of one process into its log and sends its events. Its task may wait for the disk and for the
/// receiver of the events.
#[derive(Debug)]
pub(super) struct OutputLogger {
    pub(super) log: Log,
    /// Removes the pieces of messages before anything else, for an agent that prints them.
    pub(super) piece_filter: Option<PieceFilter>,
    pub(super) framer: LineFramer,
    pub(super) decoder: Box<dyn AgentDecoder>,
    /// Records of the agent, and the thread pool in which they are read.
    pub(super) records: Option<(Arc<dyn RecordSource>, Blocking)>,
    pub(super) events: EventSender,
    /// Channel to the task that carries out the decoder's actions, for an agent that talks both ways.
    pub(super) action_sender: Option<mpsc::Sender<Vec<AcpAction>>>,
}

impl OutputLogger {
    /// Works until the output has ended. Returns itself, so that the caller can send the end of the process with `finish`.
    pub(super) async fn run(mut self, mut chunks: mpsc::Receiver<Vec<u8>>) -> Self {
        self.send_actions().await;
        while let Some(mut chunk) = self.next(&mut chunks).await {
            if let Some(filter) = &mut self.piece_filter {
                filter.filter(&mut chunk);
            }
            self.write(&chunk).await;
        }
        if let Some(filter) = &mut self.piece_filter {
            let last = filter.finish();
            self.write(last).await;
        }
        let mut events = Vec::new();
        if let Some(line) = self.framer.finish() {
            self.decoder.decode(line.as_agent_line(), &mut events);
        }
        self.send(events).await;
        // The attendant ends, because no further action can come.
        self.action_sender = None;
        self
    }

    /// Sends the end of the process, after everything that it printed.
    pub(super) async fn finish(mut self, end: ProcessEnd) {
        let mut events = Vec::new();
        self.recall(RecordsScope::Whole, &mut events).await;
        events.push(AgentEvent::Finished(self.decoder.finish(end)));
        self.send(events).await;
    }

    /// Returns the next output. Until it arrives, reads the records, which report work for which the agent prints nothing.
    async fn next(&mut self, chunks: &mut mpsc::Receiver<Vec<u8>>) -> Option<Vec<u8>> {
        while self.records.is_some() && self.decoder.records_needed(RecordsScope::Meanwhile).is_some() {
            if let Ok(chunk) = timeout(PACE, chunks.recv()).await {
                return chunk;
            }
            let mut events = Vec::new();
            self.recall(RecordsScope::Meanwhile, &mut events).await;
            self.send(events).await;
        }
        chunks.recv().await
    }

    /// Writes a chunk into the log and decodes its lines.
    async fn write(&mut self, mut chunk: &[u8]) {
        self.log.append(chunk);
        let mut events = Vec::new();
        while let Some(line) = self.framer.next(&mut chunk) {
            self.decoder.decode(line.as_agent_line(), &mut events);
            if events.len() >= MOST_EVENTS {
                self.send(std::mem::take(&mut events)).await;
            }
        }
        self.recall(RecordsScope::SoFar, &mut events).await;
        self.send(events).await;
        self.send_actions().await;
    }

    /// Passes the actions of the decoder to the attendant. While the agent does not read its input, this waits, and so its output waits, too.
    async fn send_actions(&mut self) {
        let Some(action_sender) = &self.action_sender else {
            return;
        };
        let actions = self.decoder.take_orders();
        if !actions.is_empty() {
            // Sending fails if the attendant has ended, with the process.
            let _ = action_sender.send(actions).await;
        }
    }

    /// Passes the agent's own records to the decoder, if it needs them now.
    async fn recall(&mut self, records: RecordsScope, events: &mut Vec<AgentEvent>) {
        if let (Some((source, blocking)), Some(session)) =
            (&self.records, self.decoder.records_needed(records))
        {
            let (source, session) = (Arc::clone(source), session.clone());
            let sub_agents = self.decoder.sub_agents().to_vec();
            let read = move || source.read(&session, &sub_agents, records);
            let recorded = blocking.run(read).await;
            self.decoder.recall(records, recorded, events);
        }
    }

    async fn send(&mut self, events: Vec<AgentEvent>) {
        if !events.is_empty() {
            // Without a receiver the process is stopped; until then its output still goes into the log.
            let _ = self.events.send(events).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hankweave_agents::{ClaudeDecoder, GeminiDecoder};
    use hankweave_core::agent::{EndedBy, ProcessExit};

    use super::*;
    use crate::driver::event_channel;
    use crate::world::disk::RealDisk;

    #[tokio::test]
    async fn lines_become_events_in_order_and_then_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.log");
        let (sender, mut events) = event_channel(8);
        let logger = OutputLogger {
            log: Log::create(&RealDisk, &path, 100).unwrap(),
            piece_filter: None,
            framer: LineFramer::new(100),
            decoder: Box::new(ClaudeDecoder::new(false)),
            records: None,
            action_sender: None,
            events: sender,
        };
        let (chunks, output) = mpsc::channel(8);
        for chunk in ["one\n{}\ntw", "o\nthree"] {
            chunks.send(chunk.as_bytes().to_vec()).await.unwrap();
        }
        drop(chunks);
        let end = ProcessEnd::of(ProcessExit::Exited(0), EndedBy::Itself);
        logger.run(output).await.finish(end).await;
        for start in ["one", "two", "three"] {
            let start = start.to_owned();
            assert_eq!(events.recv().await, Some(AgentEvent::Unparsed { start }));
        }
        let last = events.recv().await;
        assert!(
            matches!(&last, Some(AgentEvent::Finished(outcome)) if outcome.exit == ProcessExit::Exited(0)),
            "{last:?}"
        );
        assert_eq!(events.recv().await, None);
        assert_eq!(std::fs::read_to_string(path).unwrap(), "one\n{}\ntwo\nthree");
    }

    /// Records that are never there.
    #[derive(Debug, Default)]
    struct Reads(AtomicUsize);

    impl RecordSource for Reads {
        fn read(&self, _: &SessionId, _: &[SessionId], _: RecordsScope) -> Option<AgentRecords> {
            self.0.fetch_add(1, Ordering::Relaxed);
            None
        }
    }

    // covers: AGENT-29
    #[tokio::test(start_paused = true)]
    async fn records_are_read_at_a_pace_while_a_tool_works_and_nothing_is_printed() {
        let folder = tempfile::tempdir().unwrap();
        let (sender, mut events) = event_channel(8);
        let reads = Arc::new(Reads::default());
        let logger = OutputLogger {
            log: Log::create(&RealDisk, &folder.path().join("agent.log"), 10_000).unwrap(),
            piece_filter: None,
            framer: LineFramer::new(1_000),
            decoder: Box::new(GeminiDecoder::default().recorded()),
            records: Some((reads.clone(), Blocking::Inline)),
            action_sender: None,
            events: sender,
        };
        let (chunks, output) = mpsc::channel(8);
        let work = async {
            let lines = [
                r#"{"type":"init","session_id":"s-1","model":"m"}"#,
                r#"{"type":"tool_use","tool_name":"helper","tool_id":"t-1","parameters":{}}"#,
                r#"{"type":"tool_result","tool_id":"t-1","status":"success"}"#,
            ];
            let mut counts = Vec::new();
            for line in lines {
                chunks.send(format!("{line}\n").into_bytes()).await.unwrap();
                events.recv().await.unwrap();
                tokio::time::sleep(PACE * 10 + PACE / 2).await;
                counts.push(reads.0.load(Ordering::Relaxed));
            }
            drop(chunks);
            counts
        };
        let (counts, _) = tokio::join!(work, logger.run(output));
        // Once after each line, and ten times while the tool worked.
        assert_eq!(counts, [1, 12, 13]);
    }
}
