//! What an agent had used that nobody heard to its end: its log tells, and what claude has written down itself.

use std::io;
use std::path::Path;

use hankweave_core::agent::{AgentLines, ClaudeDecoder};
use hankweave_core::cost::UsageTotals;
use hankweave_core::id::SessionId;
use hankweave_core::time::Timestamp;

use super::host::ProcessHost;
use super::lines::{Line, LineFramer};
use super::transcripts::{Part, Transcripts};

const CHUNK_BYTES: usize = 1 << 20;

impl ProcessHost {
    /// What an agent had used whose output is in `log`: in the session `session`, which it `resumed` or began, after `since`. Blocks.
    ///
    /// # Errors
    ///
    /// What the system says when the log cannot be read.
    pub(crate) fn reckon(
        &self,
        log: &Path,
        session: &SessionId,
        resumed: bool,
        since: Timestamp,
    ) -> io::Result<UsageTotals> {
        let mut decoder = ClaudeDecoder::new(resumed);
        self.hear_log(log, &mut decoder)?;
        let transcripts = Transcripts::of(
            self.world().disk.clone(),
            self.world().blocking,
            |name| self.variable(name),
            resumed.then_some(since),
            self.limits().line_bytes,
        );
        if decoder.unsettled_session() == Some(session)
            && let Some(transcript) = transcripts.and_then(|all| all.read_now(session, Part::Whole))
        {
            decoder.recall(transcript);
        }
        let mut used = decoder.usage();
        // What it did after the last line that somebody read, nobody knows.
        used.lower_bound |= decoder.unsettled_session().is_some();
        Ok(used)
    }

    fn hear_log(&self, log: &Path, decoder: &mut ClaudeDecoder) -> io::Result<()> {
        let mut framer = LineFramer::new(self.limits().line_bytes);
        let (mut lines, mut events, mut offset) = (AgentLines::default(), Vec::new(), 0);
        let most = self.limits().log_bytes.saturating_add(CHUNK_BYTES as u64);
        while offset < most {
            let chunk = self.world().disk.read_at(log, offset, CHUNK_BYTES)?;
            offset += chunk.len() as u64;
            let mut rest = &chunk[..];
            while let Some(line) = framer.next(&mut rest) {
                if let Line::Text(text) = line {
                    lines.push(&text);
                }
                if lines.is_full() {
                    hear(decoder, &mut lines, &mut events);
                }
            }
            hear(decoder, &mut lines, &mut events);
            if chunk.len() < CHUNK_BYTES {
                break;
            }
        }
        Ok(())
    }
}

/// Only what follows for the usage counts.
fn hear(
    decoder: &mut ClaudeDecoder,
    lines: &mut AgentLines,
    events: &mut Vec<hankweave_core::agent::AgentEvent>,
) {
    for index in 0..lines.len() {
        decoder.hear(lines, index, events);
        events.clear();
    }
    lines.clear();
}
