//! Claude as an agent.
//!
//! The necessary arguments and environment variables were found by trying them (AGENT-13).

mod options;
mod transcripts;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hankweave_agents::{ClaudeDecoder, Launch};
use hankweave_core::agent::{Capabilities, CostReporting, ResultSupport};

pub(super) use self::transcripts::TRANSCRIPTS;
use super::StartError;
use super::process::{ProcessHost, ProgramInvocation, RecordSource, SessionFiles};
use super::program::{Program, system_prompt_file};
use super::program_driver::{Agent, USUAL};

pub(super) const NAME: &str = "claude";

pub(super) static AGENT: Agent = Agent {
    name: NAME,
    program: Some(Program {
        name: NAME,
        hint: "npm install -g @anthropic-ai/claude-code",
        variable: "HANKWEAVE_CLAUDE_PATH",
        tested_with: &["2.1.329", "2.1.330"],
        keys: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
        ],
    }),
    capabilities: Capabilities {
        fork: true,
        cost: CostReporting::Cumulative,
        interrupt: true,
        result: ResultSupport::Schema,
        options: options::SUPPORT,
        ..USUAL
    },
    invocation,
};

fn invocation(
    host: &ProcessHost,
    program: PathBuf,
    launch: &mut Launch,
) -> Result<ProgramInvocation, StartError> {
    let system_prompt = system_prompt_file(host, launch)?;
    let since = launch.resume.as_ref().map(|_| host.world().clock.now());
    let (work_dir, env) = (&launch.work_dir, &launch.env);
    let transcripts = SessionFiles::of(&TRANSCRIPTS, host, work_dir, env, since, &launch.prices);
    let servers = options::server_file(host, launch)?;
    let args = arguments(launch, system_prompt.as_deref(), servers.as_deref());
    Ok(ProgramInvocation {
        env: environment(launch, host.user_id()),
        interrupt_first: true,
        records: transcripts.map(|transcripts| Arc::new(transcripts) as Arc<dyn RecordSource>),
        ..ProgramInvocation::plain(program, args, ClaudeDecoder::of(launch))
    })
}

/// Returns the arguments.
///
/// - Partial messages are requested because they report the usage of a message when it ends.
/// - Claude's own money limit is a second safeguard next to the codon's budget: claude knows the cost of its sub-agents at once. In a resumed session it
///   counts only the new process.
/// - A resumed session would send the system prompt that it recorded at its start in the place of this one, so the snapshot of that prompt is turned off.
fn arguments(launch: &Launch, system_prompt: Option<&Path>, servers: Option<&Path>) -> Vec<OsString> {
    let mut args: Vec<OsString> = ["-p", "--output-format", "stream-json", "--verbose"]
        .map(OsString::from)
        .into();
    args.extend(["--include-partial-messages", "--forward-subagent-text", "--model"].map(OsString::from));
    args.push((&launch.model).into());
    // Claude counts at its own prices. With other prices of the user it would stop too early or too late, so it gets no limit then.
    let has_same_prices = launch.prices.given().next().is_none();
    if let Some(dollars) = launch.max_dollars.filter(|_| has_same_prices) {
        args.extend(["--max-budget-usd".into(), dollars.as_dollars().to_string().into()]);
    }
    if let Some(session) = &launch.resume {
        args.extend(["--resume", session.as_str()].map(OsString::from));
        args.extend(launch.fork.then(|| OsString::from("--fork-session")));
    }
    if let Some(path) = system_prompt {
        args.extend([OsStr::new("--append-system-prompt-file"), path.as_os_str()].map(OsString::from));
        if launch.resume.is_some() {
            args.extend(["--system-prompt-snapshot", "off"].map(OsString::from));
        }
    }
    args.extend(options::arguments(launch, servers));
    args
}

/// Returns variables for the program. As root claude refuses to skip permissions unless a variable declares a sandbox. Claude
/// compacts its conversation before and after its context is full, unless two variables turn that off (HANK-49).
fn environment(launch: &Launch, user_id: u32) -> BTreeMap<String, String> {
    let mut names = Vec::new();
    if user_id == 0 {
        names.push("IS_SANDBOX");
    }
    if !launch.auto_compact {
        names.extend(["DISABLE_COMPACT", "DISABLE_AUTO_COMPACT"]);
    }
    names
        .into_iter()
        .map(|name| (name.to_owned(), "1".to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use hankweave_core::cost::Usd;
    use hankweave_core::cost::pricing::Prices;
    use hankweave_core::id::SessionId;

    use super::*;
    use crate::driver::program;

    fn launch() -> Launch {
        program::tests::launch("claude-sonnet-4-5")
    }

    fn line(launch: &Launch, system_prompt: Option<&Path>) -> String {
        let args = arguments(launch, system_prompt, None);
        args.join(OsStr::new(" ")).into_string().unwrap()
    }

    // covers: AGENT-13
    #[test]
    fn a_fresh_session_has_the_plain_command_line() {
        assert_eq!(
            line(&launch(), Some(Path::new("/p"))),
            "-p --output-format stream-json --verbose --include-partial-messages --forward-subagent-text \
             --model claude-sonnet-4-5 --append-system-prompt-file /p --dangerously-skip-permissions"
        );
    }

    // covers: AGENT-13
    #[test]
    fn a_resumed_session_takes_its_new_system_prompt() {
        let mut launch = launch();
        launch.resume = Some(SessionId::new("s-1").unwrap());
        assert_eq!(
            line(&launch, Some(Path::new("/p"))),
            "-p --output-format stream-json --verbose --include-partial-messages --forward-subagent-text \
             --model claude-sonnet-4-5 --resume s-1 --append-system-prompt-file /p --system-prompt-snapshot off --dangerously-skip-permissions"
        );
        assert!(!line(&launch, None).contains("snapshot"));
        launch.fork = true;
        assert!(line(&launch, None).contains(" --resume s-1 --fork-session "));
    }

    #[test]
    fn what_may_be_spent_is_told_in_plain_decimals() {
        let mut launch = launch();
        launch.max_dollars = Some(Usd::from_micros(1));
        assert!(line(&launch, None).contains(" --max-budget-usd 0.000001 "));
        let rate = launch.prices.find("claude-opus-5").unwrap().1.rate;
        let given = Prices::default().with([("claude-opus-5".to_owned(), rate)], "mine.json");
        launch.prices = Arc::new(given);
        assert!(
            !line(&launch, None).contains("--max-budget-usd"),
            "it would count at other prices"
        );
    }

    // covers: HANK-49
    #[test]
    fn compaction_is_switched_off_unless_it_is_asked_for() {
        let mut launch = launch();
        let names = |launch: &Launch| environment(launch, 1000).into_keys().collect::<Vec<_>>();
        assert_eq!(names(&launch), ["DISABLE_AUTO_COMPACT", "DISABLE_COMPACT"]);
        launch.auto_compact = true;
        assert!(names(&launch).is_empty());
    }
}
