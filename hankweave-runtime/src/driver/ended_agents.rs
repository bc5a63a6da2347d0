//! Agents that have ended: the decoder for the lines in the log of one, and the usage of one whose output was not read to the end.

use std::io;

use hankweave_agents::{
    AcpDecoder, AgentDecoder, ClaudeDecoder, CodexDecoder, GeminiDecoder, OpencodeDecoder, PiDecoder,
};
use hankweave_core::cost::UsageTotals;

use super::claude::TRANSCRIPTS;
use super::codex::ROLLOUTS;
use super::gemini::CHATS;
use super::process::{CutOffAgent, LogContext, ProcessHost, RecordSource, SessionFiles, SessionFormat};
use super::{acp, claude, codex, gemini, opencode, pi, scripted};

/// Returns the decoder for a process of the named agent. Unlike those of a start, the decoders of codex and gemini get no session files.
pub(crate) fn decoder(name: &str, past: &LogContext<'_>) -> Box<dyn AgentDecoder> {
    let prices = past.prices.clone();
    match name {
        acp::NAME => {
            let decoder = AcpDecoder::of_log(prices, past.resumed.cloned(), past.before.cost);
            Box::new(decoder.with_model(past.model, past.auth))
        }
        codex::NAME => Box::new(codex_decoder(past)),
        gemini::NAME => Box::new(GeminiDecoder::default().priced_by(prices)),
        opencode::NAME => {
            let model = past.model.unwrap_or(hankweave_agents::opencode::OWN_MODEL);
            Box::new(OpencodeDecoder::new(model).priced_by(prices))
        }
        pi::NAME => Box::new(PiDecoder::default().priced_by(prices)),
        claude::NAME | scripted::NAME => Box::new(claude_decoder(past)),
        // Any other name is that of a custom program, which prints the claude stream.
        _ => Box::new(claude_decoder(past).of_another_program()),
    }
}

fn claude_decoder(past: &LogContext<'_>) -> ClaudeDecoder {
    let decoder = ClaudeDecoder::new(past.resumed.is_some()).priced_by(past.prices.clone());
    match past.model {
        Some(model) => decoder.with_model(model),
        None => decoder,
    }
}

fn codex_decoder(past: &LogContext<'_>) -> CodexDecoder {
    let decoder = CodexDecoder::new(past.resumed.is_some())
        .with_model(past.model.unwrap_or(hankweave_agents::codex::OWN_MODEL))
        .priced_by(past.prices.clone());
    match past.before.lower_bound {
        true => decoder,
        false => decoder.with_earlier_usage(past.before.tokens),
    }
}

/// Returns the usage of an agent whose output was not read to the end; `name` is its name. Blocks.
///
/// # Errors
///
/// Returns the error of the operating system if its log cannot be read.
pub(crate) fn final_usage(
    host: &ProcessHost,
    name: &str,
    agent: &CutOffAgent<'_>,
) -> io::Result<UsageTotals> {
    let since = agent.past.resumed.map(|_| agent.since);
    let files_of = |format: &'static SessionFormat| -> Option<Box<dyn RecordSource>> {
        let prices = agent.past.prices;
        let files = SessionFiles::of(format, host, agent.work_dir, agent.env, since, prices)?;
        Some(Box::new(files))
    };
    let records: Option<Box<dyn RecordSource>> = match name {
        acp::NAME | opencode::NAME | pi::NAME => None,
        gemini::NAME => files_of(&CHATS),
        codex::NAME => files_of(&ROLLOUTS),
        _ => files_of(&TRANSCRIPTS),
    };
    host.final_usage(agent, &mut *decoder(name, &agent.past), records.as_deref())
}
