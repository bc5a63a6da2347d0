//! Usage of an agent whose output was not read to the end, from its log and from its own records.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use hankweave_agents::{AgentDecoder, AgentLine, RecordsScope};
use hankweave_core::cost::UsageTotals;
use hankweave_core::cost::pricing::Prices;
use hankweave_core::id::SessionId;
use hankweave_core::time::Timestamp;

use super::host::ProcessHost;
use super::lines::{LineFramer, OutputLine};
use super::output::RecordSource;

const CHUNK_BYTES: usize = 1 << 20;

/// An agent whose output was not read to its end.
#[derive(Debug)]
pub(crate) struct CutOffAgent<'a> {
    /// Log of its output.
    pub(crate) log: &'a Path,
    /// The session in which it worked.
    pub(crate) session: &'a SessionId,
    /// Input of its decoder.
    pub(crate) past: LogContext<'a>,
    /// When its codon began.
    pub(crate) since: Timestamp,
    /// Working directory.
    pub(crate) work_dir: &'a Path,
    /// The variables that its codon gave it.
    pub(crate) env: &'a BTreeMap<String, String>,
}

/// Input of a decoder for a process that has its output only in a log.
#[derive(Debug, Clone)]
pub(crate) struct LogContext<'a> {
    /// The session with which it continued.
    pub(crate) resumed: Option<&'a SessionId>,
    /// The model that was asked for, where that is known.
    pub(crate) model: Option<&'a str>,
    /// How it was to sign in.
    pub(crate) auth: Option<&'a str>,
    /// Usage of the session before the process.
    pub(crate) before: UsageTotals,
    /// Prices of models.
    pub(crate) prices: &'a Arc<Prices>,
}

impl ProcessHost {
    /// Returns the usage of an agent, as its decoder understands its log and records. Blocks.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system if the log cannot be read.
    pub(in crate::driver) fn reckon(
        &self,
        agent: &CutOffAgent<'_>,
        decoder: &mut dyn AgentDecoder,
        records: Option<&dyn RecordSource>,
    ) -> io::Result<UsageTotals> {
        self.hear_log(agent.log, decoder)?;
        if decoder.records_needed(RecordsScope::Whole) == Some(agent.session) {
            let sub_agents = decoder.sub_agents();
            let recorded =
                records.and_then(|records| records.read(agent.session, sub_agents, RecordsScope::Whole));
            decoder.recall(RecordsScope::Whole, recorded, &mut Vec::new());
        }
        let mut used = decoder.usage();
        // Work after the last line that was read is unknown.
        used.lower_bound |= decoder.records_needed(RecordsScope::Whole).is_some();
        Ok(used)
    }

    fn hear_log(&self, log: &Path, decoder: &mut dyn AgentDecoder) -> io::Result<()> {
        let mut framer = LineFramer::new(self.limits().line_bytes);
        let (mut events, mut offset) = (Vec::new(), 0);
        let most = self.limits().log_bytes.saturating_add(CHUNK_BYTES as u64);
        while offset < most {
            let chunk = self.world().disk.read_at(log, offset, CHUNK_BYTES)?;
            offset += chunk.len() as u64;
            let mut rest = &chunk[..];
            while let Some(line) = framer.next(&mut rest) {
                if let OutputLine::Text(text) = line {
                    decoder.decode(AgentLine::Text(&text), &mut events);
                    // Only what follows for the usage counts.
                    events.clear();
                }
            }
            if chunk.len() < CHUNK_BYTES {
                break;
            }
        }
        Ok(())
    }
}
