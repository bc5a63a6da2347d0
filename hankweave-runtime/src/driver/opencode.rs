//! Opencode as an agent.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use hankweave_core::agent::opencode::OWN_MODEL;
use hankweave_core::agent::{Capabilities, CostReporting, Launch, OpencodeDecoder};

use super::StartError;
use super::process::{ProcessHost, ProgramInvocation};
use super::program::{KEYS_OF_PROVIDERS, Program, chosen_model, command_line, prompt_behind_system, session};
use super::program_driver::{Agent, USUAL};

pub(super) const NAME: &str = "opencode";

pub(super) static AGENT: Agent = Agent {
    name: NAME,
    program: Some(Program {
        name: NAME,
        hint: "npm install -g opencode-ai",
        variable: "HANKWEAVE_OPENCODE_PATH",
        tested_with: &["1.18.33"],
        keys: KEYS_OF_PROVIDERS,
    }),
    capabilities: Capabilities {
        cost: CostReporting::Exact,
        ..USUAL
    },
    invocation,
};

fn invocation(
    _: &ProcessHost,
    program: PathBuf,
    launch: &mut Launch,
) -> Result<ProgramInvocation, StartError> {
    launch.prompt = prompt_behind_system(launch);
    let (args, decoder) = (arguments(launch), OpencodeDecoder::of(launch));
    Ok(ProgramInvocation {
        env: environment(launch),
        ..ProgramInvocation::plain(program, args, decoder)
    })
}

/// Opencode shortens its conversation before its context is full, unless it is told not to (HANK-49).
fn environment(launch: &Launch) -> BTreeMap<String, String> {
    let forbidden = (!launch.auto_compact).then_some("OPENCODE_DISABLE_AUTOCOMPACT");
    forbidden
        .map(|name| (name.to_owned(), "1".to_owned()))
        .into_iter()
        .collect()
}

/// The command line. The prompt comes through standard input. With a title nobody asks a model for one, whose cost no line would tell (AGENT-28).
fn arguments(launch: &Launch) -> Vec<OsString> {
    command_line(
        &[
            "run",
            "--format",
            "json",
            "--auto",
            "--thinking",
            "--title",
            "hankweave",
        ],
        [
            ("--model", chosen_model(launch, OWN_MODEL, "")),
            ("--session", session(launch)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use hankweave_core::id::SessionId;

    use super::*;
    use crate::driver::program::tests::launch;

    // covers: AGENT-28
    #[test]
    fn no_prompt_of_opencode_stands_on_the_command_line() {
        let line = |launch: &Launch| {
            let args = arguments(launch).join(std::ffi::OsStr::new(" "));
            args.into_string().unwrap()
        };
        let fixed = "run --format json --auto --thinking --title hankweave";
        let mut launch = launch("anthropic/claude-sonnet-4-5");
        assert_eq!(
            line(&launch),
            format!("{fixed} --model anthropic/claude-sonnet-4-5")
        );
        launch.resume = Some(SessionId::new("ses_1").unwrap());
        launch.model = OWN_MODEL.to_owned();
        assert_eq!(line(&launch), format!("{fixed} --session ses_1"));
    }
    // covers: HANK-49
    #[test]
    fn opencode_is_told_not_to_shorten_its_conversation() {
        let mut launch = launch("scripted/m");
        assert_eq!(environment(&launch)["OPENCODE_DISABLE_AUTOCOMPACT"], "1");
        launch.auto_compact = true;
        assert!(environment(&launch).is_empty());
    }
}
