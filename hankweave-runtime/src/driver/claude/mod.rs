//! Claude as an agent.
//!
//! Which arguments and which environment it needs was measured (AGENT-13).

mod transcripts;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt, ready};
use hankweave_core::agent::{ClaudeDecoder, Launch};
use hankweave_core::cost::UsageTotals;
use hankweave_core::id::{is_model_name, is_safe_argument};

use self::transcripts::Transcripts;
use super::process::{CutOff, Invocation, ProcessHost, RecordSource};
use super::{AgentDriver, RunningAgent, StartError};

const NAME: &str = "claude";

/// Overrides the search for the program.
const PATH_VARIABLE: &str = "HANKWEAVE_CLAUDE_PATH";

/// Runs claude.
#[derive(Debug, Clone)]
pub struct ClaudeDriver {
    host: ProcessHost,
}

impl ClaudeDriver {
    /// A driver whose agents run on `host`.
    #[must_use]
    pub fn new(host: ProcessHost) -> Self {
        Self { host }
    }

    fn start_now(&self, launch: Launch) -> Result<RunningAgent, StartError> {
        check_model(&launch.model)?;
        if let Some(session) = &launch.resume {
            check_argument("session id", session.as_str())?;
        }
        let program = self.program(launch.program.as_deref(), launch.env.get("PATH").map(OsStr::new))?;
        let system_prompt = self.system_prompt_file(&launch)?;
        let since = launch.resume.as_ref().map(|_| self.host.world().clock.now());
        let transcripts = Transcripts::of(&self.host, &launch.work_dir, &launch.env, since, &launch.prices);
        let invocation = Invocation {
            program,
            args: arguments(&launch, system_prompt.as_deref()),
            env: environment(&launch, self.host.user_id()),
            decoder: Box::new(ClaudeDecoder::of(&launch)),
            interrupt_first: true,
            records: transcripts.map(|transcripts| Arc::new(transcripts) as Arc<dyn RecordSource>),
        };
        self.host.run(launch, invocation)
    }

    /// What an agent had used that nobody heard to its end. Blocks.
    ///
    /// # Errors
    ///
    /// What the system says when its log cannot be read.
    pub(crate) fn reckon(&self, agent: &CutOff<'_>) -> io::Result<UsageTotals> {
        let mut decoder = ClaudeDecoder::new(agent.resumed).priced_by(agent.prices.clone());
        let since = agent.resumed.then_some(agent.since);
        let transcripts = Transcripts::of(&self.host, agent.work_dir, agent.env, since, agent.prices);
        let records = transcripts
            .as_ref()
            .map(|transcripts| transcripts as &dyn RecordSource);
        self.host.reckon(agent, &mut decoder, records)
    }

    /// The launch names it, else the variable, else it is on the codon's or our own `PATH`.
    fn program(&self, named: Option<&Path>, path: Option<&OsStr>) -> Result<PathBuf, StartError> {
        if let Some(path) = named
            .map(Path::as_os_str)
            .or_else(|| self.host.variable(PATH_VARIABLE))
        {
            let path = PathBuf::from(path);
            return if self.host.is_file(&path) {
                Ok(path)
            } else {
                Err(not_found(&path.to_string_lossy()))
            };
        }
        let search_path = path.or_else(|| self.host.variable("PATH")).unwrap_or_default();
        self.host
            .find_program(NAME, search_path)
            .ok_or_else(|| not_found(&format!("PATH ({})", search_path.to_string_lossy())))
    }

    /// A prompt never stands on a command line, which every user of the machine can read: it goes into a file beside the log.
    fn system_prompt_file(&self, launch: &Launch) -> Result<Option<PathBuf>, StartError> {
        let Some(text) = &launch.appended_system_prompt else {
            return Ok(None);
        };
        let path = launch.log_path.with_extension("system-prompt.txt");
        match self.host.write_private(&path, text) {
            Ok(()) => Ok(Some(path)),
            Err(source) => Err(StartError::Prepare { path, source }),
        }
    }
}

impl AgentDriver for ClaudeDriver {
    fn name(&self) -> &str {
        NAME
    }

    fn check(&self, _: &[String]) -> Result<(), StartError> {
        self.program(None, None).map(drop)
    }

    fn start<'a>(&'a self, launch: Launch) -> BoxFuture<'a, Result<RunningAgent, StartError>> {
        ready(self.start_now(launch)).boxed()
    }
}

fn not_found(searched: &str) -> StartError {
    StartError::ProgramNotFound {
        program: NAME.to_owned(),
        searched: searched.to_owned(),
        hint: "npm install -g @anthropic-ai/claude-code",
        variable: PATH_VARIABLE,
    }
}

/// Refuses a name of a model that the program could take for an option.
pub(super) fn check_model(name: &str) -> Result<(), StartError> {
    if is_model_name(name) {
        return Ok(());
    }
    check_argument("model name", name)
}

/// Refuses a value that the program could take for an option (S7).
fn check_argument(what: &'static str, value: &str) -> Result<(), StartError> {
    if is_safe_argument(value) {
        return Ok(());
    }
    Err(StartError::UnsafeArgument {
        what,
        value: value.to_owned(),
    })
}

/// The command line. The pieces of a message tell what it has used when it has ended. The limit of money is claude's own, a second belt: it knows
/// the cost of its sub-agents at once, and in a session that is resumed it counts its own process only. A resumed session sends the system prompt it recorded at first, unless the snapshot is off.
fn arguments(launch: &Launch, system_prompt: Option<&Path>) -> Vec<OsString> {
    let mut args: Vec<OsString> = ["-p", "--output-format", "stream-json", "--verbose"]
        .map(OsString::from)
        .into();
    args.extend(["--include-partial-messages", "--forward-subagent-text", "--model"].map(OsString::from));
    args.push((&launch.model).into());
    if let Some(dollars) = launch.max_dollars {
        args.extend(["--max-budget-usd".into(), dollars.as_dollars().to_string().into()]);
    }
    if let Some(session) = &launch.resume {
        args.extend(["--resume", session.as_str()].map(OsString::from));
    }
    if let Some(path) = system_prompt {
        args.extend([OsStr::new("--append-system-prompt-file"), path.as_os_str()].map(OsString::from));
        if launch.resume.is_some() {
            args.extend(["--system-prompt-snapshot", "off"].map(OsString::from));
        }
    }
    args.push("--dangerously-skip-permissions".into());
    args
}

/// As root the program refuses to skip permissions unless it is told that it runs in a sandbox. It shortens its conversation by itself, before its
/// context is full and after, unless it is told not to (HANK-49).
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
    use hankweave_core::id::SessionId;

    use super::*;
    use crate::world::World;
    use crate::world::environment::Environment;

    fn launch() -> Launch {
        Launch {
            model: "claude-sonnet-4-5".to_owned(),
            prompt: "a secret prompt".to_owned(),
            appended_system_prompt: None,
            resume: None,
            env: BTreeMap::new(),
            iteration: None,
            max_dollars: None,
            carried: None,
            prices: hankweave_core::cost::pricing::Prices::listed(),
            work_dir: "/".into(),
            log_path: "/nowhere/a.log".into(),
            log_goes_on: false,
            auto_compact: false,
            temp_dir: "/nowhere/tmp".into(),
            script: None,
            program: None,
            command: Vec::new(),
            marker: "test".to_owned(),
            grace: Launch::DEFAULT_GRACE,
        }
    }

    fn line(launch: &Launch, system_prompt: Option<&Path>) -> String {
        let args = arguments(launch, system_prompt);
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
    }

    #[test]
    fn what_may_be_spent_is_told_in_plain_decimals() {
        let mut launch = launch();
        launch.max_dollars = Some(Usd::from_micros(1));
        assert!(line(&launch, None).contains(" --max-budget-usd 0.000001 "));
    }

    // covers: S7
    #[tokio::test]
    async fn a_model_that_looks_like_an_option_is_refused() {
        let driver = ClaudeDriver::new(ProcessHost::new(&World::with_environment(Environment::default())));
        let mut launch = launch();
        launch.model = "--help".to_owned();
        let error = driver.start(launch).await.unwrap_err();
        assert!(matches!(
            error,
            StartError::UnsafeArgument {
                what: "model name",
                ..
            }
        ));
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

    #[tokio::test]
    async fn a_missing_program_is_explained() {
        let environment = Environment::from_iter([("PATH", "/nowhere/bin")]);
        let host = ProcessHost::new(&World::with_environment(environment));
        let error = ClaudeDriver::new(host).start(launch()).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "agent program `claude` was not found in PATH (/nowhere/bin); install it \
             (npm install -g @anthropic-ai/claude-code) or set HANKWEAVE_CLAUDE_PATH to its path"
        );
    }
}
