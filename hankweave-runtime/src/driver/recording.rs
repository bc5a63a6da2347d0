//! Recorded output of an agent: its log, decoded into events again.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use hankweave_agents::{AgentDecoder, ProcessEnd, RecordsScope};
use hankweave_core::agent::{AgentEvent, ExitOutcome};

use super::process::{LineFramer, ProcessLimits};
use crate::world::disk::Disk;

const CHUNK_BYTES: usize = 1 << 20;

/// The log of an agent, read bit by bit and passed to a decoder. Reading blocks, and the log is not changed.
#[derive(Debug)]
pub(crate) struct Recording {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    offset: u64,
    /// Whether the log was read to its end.
    is_read: bool,
    framer: LineFramer,
    decoder: Box<dyn AgentDecoder>,
    /// Decoded events that were not returned yet.
    events: VecDeque<AgentEvent>,
}

impl Recording {
    pub(crate) fn new(disk: Arc<dyn Disk>, path: PathBuf, decoder: Box<dyn AgentDecoder>) -> Self {
        Self {
            disk,
            path,
            offset: 0,
            is_read: false,
            framer: LineFramer::new(ProcessLimits::default().line_bytes),
            decoder,
            events: VecDeque::new(),
        }
    }

    /// The next event; `None` at the end of the log.
    pub(crate) fn next(&mut self) -> io::Result<Option<AgentEvent>> {
        while self.events.is_empty() && !self.is_read {
            self.read()?;
        }
        Ok(self.events.pop_front())
    }

    /// The end of the agent, as its decoder judges it.
    pub(crate) fn finish(&mut self, end: ProcessEnd) -> ExitOutcome {
        self.decoder.finish(end)
    }

    /// Whether the agent's own records would report more than its log.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.decoder.records_needed(RecordsScope::Whole).is_some()
    }

    fn read(&mut self) -> io::Result<()> {
        let chunk = self.disk.read_at(&self.path, self.offset, CHUNK_BYTES)?;
        self.offset += chunk.len() as u64;
        let (mut rest, mut events) = (&chunk[..], Vec::new());
        while let Some(line) = self.framer.next(&mut rest) {
            self.decoder.decode(line.as_agent_line(), &mut events);
        }
        if chunk.len() < CHUNK_BYTES {
            self.is_read = true;
            if let Some(line) = self.framer.finish() {
                self.decoder.decode(line.as_agent_line(), &mut events);
            }
        }
        self.events.extend(events);
        Ok(())
    }
}
