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
    /// Facts that its decoder needs.
    pub(crate) past: LogContext<'a>,
    /// When its codon began.
    pub(crate) since: Timestamp,
    /// Working directory.
    pub(crate) work_dir: &'a Path,
    /// The variables that its codon gave it.
    pub(crate) env: &'a BTreeMap<String, String>,
}

/// Facts that a decoder needs about a process whose output is only in a log.
#[derive(Debug, Clone)]
pub(crate) struct LogContext<'a> {
    /// The session that it resumed; `None` for a new one.
    pub(crate) resumed: Option<&'a SessionId>,
    /// The requested model, where it is known.
    pub(crate) model: Option<&'a str>,
    /// Method by which it had to sign in, if one was configured.
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
    pub(in crate::driver) fn final_usage(
        &self,
        agent: &CutOffAgent<'_>,
        decoder: &mut dyn AgentDecoder,
        records: Option<&dyn RecordSource>,
    ) -> io::Result<UsageTotals> {
        self.decode_log(agent.log, decoder)?;
        // A decoder may also need no records, or those of another session.
        if decoder.records_needed(RecordsScope::Whole) == Some(agent.session) {
            let sub_agents = decoder.sub_agents();
            let recorded =
                records.and_then(|records| records.read(agent.session, sub_agents, RecordsScope::Whole));
            decoder.recall(RecordsScope::Whole, recorded, &mut Vec::new());
        }
        let mut used = decoder.usage();
        // A decoder that still needs records may not know the usage of the last work.
        used.lower_bound |= decoder.records_needed(RecordsScope::Whole).is_some();
        Ok(used)
    }

    fn decode_log(&self, log: &Path, decoder: &mut dyn AgentDecoder) -> io::Result<()> {
        let mut framer = LineFramer::new(self.limits().line_bytes);
        let mut events = Vec::new();
        let mut decode = |line: OutputLine<'_>| {
            if let OutputLine::Text(text) = line {
                decoder.decode(AgentLine::Text(&text), &mut events);
                // Only the usage matters, which the decoder keeps.
                events.clear();
            }
        };
        let mut offset = 0;
        // A little more than the limit of a log, as the notice of the limit follows it.
        let read_limit = self.limits().log_bytes.saturating_add(CHUNK_BYTES as u64);
        while offset < read_limit {
            let chunk = self.world().disk.read_at(log, offset, CHUNK_BYTES)?;
            offset += chunk.len() as u64;
            let mut rest = &chunk[..];
            while let Some(line) = framer.next(&mut rest) {
                decode(line);
            }
            if chunk.len() < CHUNK_BYTES {
                framer.finish().into_iter().for_each(decode);
                break;
            }
        }
        Ok(())
    }
}
