//! Settings of the runtime: their names, values and defaults, and the file hankweave.json (HANK-56 to HANK-58).
//!
//! A setting may come from several layers, such as the command line, a variable, a hank or a file; the runtime decides which layer wins.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::agent::AgentChoice;
use super::document::{MAX_BACKGROUND_SECONDS, Overrides};
use super::keys::KeyTable;
use super::parse::read_with;
use super::paths::check_any;
use super::prices::{self, PriceSource};
use super::problem::{Position, Problems};
use super::read::dollars;
use super::read::{agent_of_all, at_least_one, file_limit, model, seconds_of_silence, seconds_to_settle};
use super::reader::{HankReader, JsonNode, checked, integer};
use crate::cost::Usd;
use crate::id::is_model_name;
use crate::shape::Named;

/// How long an agent may be silent by default (S6): long enough for any answer of a model.
pub const LONGEST_SILENCE_SECONDS: u64 = 30 * 60;

/// How long work that an agent left running after its answer may take by default.
pub const SETTLE_SECONDS: u64 = 10;

/// How long a run waits for the end of a usage limit by default: longer than the five hours of most
/// subscriptions.
pub const MAX_WAIT_SECONDS: u64 = 6 * 60 * 60;

/// MiB up to which a file belongs to checkpoints unless the hank sets another limit.
pub const CHECKPOINTED_FILE_LIMIT_MB: u64 = 100;

/// One setting of the runtime; its name is its JSON path in hankweave.json.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Named)]
#[serde(rename_all = "camelCase")]
pub enum Setting {
    /// The port on which clients connect; 0 means that of the directory, or the next free one.
    Port,
    /// Whether codons start by themselves.
    Autostart,
    /// Who runs every codon.
    Agent,
    /// The model of every codon.
    Model,
    /// Address of the Anthropic API for agents.
    AnthropicBaseUrl,
    /// Directory for result files.
    OutputDirectory,
    /// Milliseconds that the fingerprint of the data may take.
    DataHashTimeLimit,
    /// MiB up to which a file belongs to checkpoints.
    CheckpointedFileLimitMb,
    /// Seconds an agent may be silent.
    ShimIdleTimeout,
    /// Seconds after which work is ended that an agent left running after its answer.
    SettleSeconds,
    /// Seconds that an agent is waited for that waits for background work.
    MaxBackgroundSeconds,
    /// Seconds that a run waits at most for the end of a usage limit.
    MaxWaitSeconds,
    /// Room that the record of an execution directory may take, in GiB.
    MaxDiskGb,
    /// Whether a run continues when an item of a rig fails.
    IgnoreRigFailures,
    /// Notification that a run waits or has ended: `bell`, `desktop`, an address that gets JSON, or a command.
    Notify,
    /// Registry of shared tasks: `sqlite:PATH` or `postgres://…`. A run does not use it.
    Registry,
    /// The git remote through which runs move between machines: any URL that git can push to. A run has no use for it.
    Remote,
    /// Prices of single models, which win over the list.
    Prices,
    /// Spending limit of a run and the runs that it continues.
    #[serde(rename = "budget.maxDollars")]
    MaxDollars,
    /// How long a run and the runs that it continues may take.
    #[serde(rename = "budget.maxTimeSeconds")]
    MaxTimeSeconds,
}

/// The value of a setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum SettingValue {
    /// Yes or no.
    Flag(bool),
    /// A whole number.
    Number(u64),
    /// A name, a path or an address.
    Text(String),
    /// Money, above 0.
    Dollars(Usd),
    /// A time, above 0.
    Seconds(f64),
    /// Room on a disk in GiB, above 0.
    Gigabytes(f64),
    /// Prices of models.
    Prices(PriceSource),
    /// An agent, by its name or by its program.
    Agent(AgentChoice),
}

/// Contents of hankweave.json.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuntimeFile {
    /// The settings that it has, with the positions of their values.
    pub settings: BTreeMap<Setting, (SettingValue, Option<Position>)>,
    /// All errors and warnings.
    pub problems: Problems,
}

impl Setting {
    /// Returns the environment variable of the setting, such as `HANKWEAVE_RUNTIME_OUTPUT_DIRECTORY`; budgets have none.
    #[must_use]
    pub fn variable(self) -> Option<String> {
        if self.name().contains('.') {
            return None;
        }
        let mut variable = VARIABLES.to_owned();
        for character in self.name().chars() {
            if character.is_ascii_uppercase() {
                variable.push('_');
            }
            variable.push(character.to_ascii_uppercase());
        }
        Some(variable)
    }

    /// Returns whether only the user may set it: on the command line, in a variable or in their own hankweave.json. The hankweave.json of a folder must
    /// not: the folder may have come from elsewhere, and would decide with whom this machine exchanges tasks and runs (CLI-62).
    #[must_use]
    pub const fn is_of_the_user(self) -> bool {
        match self {
            Self::Registry | Self::Remote => true,
            Self::Port
            | Self::Autostart
            | Self::Agent
            | Self::Model
            | Self::AnthropicBaseUrl
            | Self::OutputDirectory
            | Self::DataHashTimeLimit
            | Self::CheckpointedFileLimitMb
            | Self::ShimIdleTimeout
            | Self::SettleSeconds
            | Self::MaxBackgroundSeconds
            | Self::MaxWaitSeconds
            | Self::MaxDiskGb
            | Self::IgnoreRigFailures
            | Self::Notify
            | Self::Prices
            | Self::MaxDollars
            | Self::MaxTimeSeconds => false,
        }
    }

    /// The default; `None` for a setting without one.
    #[must_use]
    pub const fn default(self) -> Option<SettingValue> {
        match self {
            Self::Port => Some(SettingValue::Number(0)),
            Self::Autostart => Some(SettingValue::Flag(true)),
            Self::DataHashTimeLimit => Some(SettingValue::Number(5_000)),
            Self::CheckpointedFileLimitMb => Some(SettingValue::Number(CHECKPOINTED_FILE_LIMIT_MB)),
            Self::ShimIdleTimeout => Some(SettingValue::Number(LONGEST_SILENCE_SECONDS)),
            Self::SettleSeconds => Some(SettingValue::Number(SETTLE_SECONDS)),
            Self::MaxBackgroundSeconds => Some(SettingValue::Number(MAX_BACKGROUND_SECONDS)),
            Self::MaxWaitSeconds => Some(SettingValue::Number(MAX_WAIT_SECONDS)),
            Self::IgnoreRigFailures => Some(SettingValue::Flag(false)),
            _ => None,
        }
    }

    /// Returns the value of the setting in the `overrides` of the hank. Budgets are left out: of several budgets the lowest wins (HANK-30).
    #[must_use]
    pub fn of_hank(self, overrides: &Overrides) -> Option<SettingValue> {
        match self {
            Self::Agent => overrides.agent.clone().map(SettingValue::Agent),
            Self::Model => overrides.model.clone().map(SettingValue::Text),
            Self::DataHashTimeLimit => overrides.data_hash_time_limit.map(SettingValue::Number),
            Self::CheckpointedFileLimitMb => overrides.checkpointed_file_limit_mb.map(SettingValue::Number),
            Self::ShimIdleTimeout => overrides.shim_idle_timeout.map(SettingValue::Number),
            Self::SettleSeconds => overrides.settle_seconds.map(SettingValue::Number),
            Self::MaxBackgroundSeconds => overrides.max_background_seconds.map(SettingValue::Number),
            _ => None,
        }
    }

    /// Reads the value of the setting's environment variable. An agent may be an object as in a hank. For a flag, `true` and `1` mean yes, and everything
    /// else means no.
    ///
    /// # Errors
    ///
    /// The broken rule, as a phrase that follows the name of the variable.
    pub fn from_variable(self, text: &str) -> Result<SettingValue, String> {
        // The text becomes JSON, so that it is read as in hankweave.json.
        let json = match self.default() {
            Some(SettingValue::Flag(_)) => return Ok(SettingValue::Flag(matches!(text, "true" | "1"))),
            _ if self == Self::Agent && text.trim_start().starts_with('{') => text.to_owned(),
            _ if self.is_number() && text.trim().parse::<f64>().is_ok() => text.trim().to_owned(),
            _ => serde_json::Value::from(text).to_string(),
        };
        let (reader, value) = read_with(&json, "", |reader, node| self.read(reader, node));
        let problem = || {
            reader
                .problems
                .iter()
                .next()
                .map(|problem| problem.message.clone())
        };
        value
            .filter(|_| !reader.problems.has_errors())
            .ok_or_else(|| problem().unwrap_or_default())
    }

    fn is_number(self) -> bool {
        let has_numeric_default = matches!(self.default(), Some(SettingValue::Number(_)));
        has_numeric_default || matches!(self, Self::MaxDollars | Self::MaxTimeSeconds | Self::MaxDiskGb)
    }

    fn read(self, reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<SettingValue> {
        match self {
            Self::Port => integer(0..=65_535)(reader, node).map(SettingValue::Number),
            Self::Autostart | Self::IgnoreRigFailures => reader.boolean(node).map(SettingValue::Flag),
            Self::Agent => agent_of_all(reader, node).map(SettingValue::Agent),
            Self::Model => model(reader, node).map(SettingValue::Text),
            Self::AnthropicBaseUrl => checked(check_url)(reader, node).map(SettingValue::Text),
            Self::OutputDirectory => checked(check_any)(reader, node).map(SettingValue::Text),
            Self::Notify | Self::Registry | Self::Remote => reader.non_empty(node).map(SettingValue::Text),
            Self::DataHashTimeLimit => at_least_one(reader, node).map(SettingValue::Number),
            Self::CheckpointedFileLimitMb => file_limit(reader, node).map(SettingValue::Number),
            Self::ShimIdleTimeout => seconds_of_silence(reader, node).map(SettingValue::Number),
            Self::SettleSeconds | Self::MaxBackgroundSeconds => {
                seconds_to_settle(reader, node).map(SettingValue::Number)
            }
            Self::MaxWaitSeconds => integer(0..=u64::MAX)(reader, node).map(SettingValue::Number),
            Self::MaxDiskGb => reader.positive(node).map(SettingValue::Gigabytes),
            Self::MaxDollars => dollars(reader, node).map(SettingValue::Dollars),
            Self::MaxTimeSeconds => reader.positive(node).map(SettingValue::Seconds),
            Self::Prices => prices::source(reader, node).map(SettingValue::Prices),
        }
    }
}

/// Prefix of the environment variables.
const VARIABLES: &str = "HANKWEAVE_RUNTIME_";

static RUNTIME_FILE: KeyTable = KeyTable {
    kind: "hankweave.json",
    valid: "$schema port autostart showCosts withoutProxy agent model anthropicBaseUrl outputDirectory \
            executionBaseDir logParsingInterval dataHashTimeLimit checkpointedFileLimitMb idleTimeout shimIdleTimeout \
            settleSeconds maxBackgroundSeconds maxWaitSeconds maxDiskGb ignoreRigFailures notify registry remote prices sentinel telemetry budget \
            dietOnFinalize journalDietThresholdBytes",
    known_mistakes: &[
        ("outputDirectory", "output outputDir"),
        ("budget.maxDollars", "maxCost"),
        ("budget.maxTimeSeconds", "maxTime"),
        ("hank.json", "hank"),
    ],
};
static BUDGET: KeyTable = KeyTable::new("this budget", "maxDollars maxTimeSeconds");

/// Keys of other programs that read this file, and why they change nothing here.
pub(crate) const WITHOUT_EFFECT: [(&str, &str); 9] = [
    ("showCosts", "costs are always shown"),
    (
        "withoutProxy",
        "there is no proxy; anthropicBaseUrl names one of yours",
    ),
    ("executionBaseDir", "name the execution directory with -e DIR"),
    ("logParsingInterval", "what agents print is read as it comes"),
    ("idleTimeout", "clients are not closed for their silence"),
    ("sentinel", "answers are always kept, and no health is checked"),
    ("telemetry", "nothing is sent anywhere"),
    ("dietOnFinalize", "the journal has a limit of its own"),
    ("journalDietThresholdBytes", "the journal has a limit of its own"),
];

impl RuntimeFile {
    /// Reads the text of a hankweave.json: JSON with comments and trailing commas. Every problem is found at
    /// once.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (reader, settings) = read_with(text, "the smallest hankweave.json is {}", settings);
        let with_position = |(setting, value): (Setting, SettingValue)| {
            let position = reader.places.position(setting.name());
            (setting, (value, position))
        };
        let settings = settings.into_iter().flatten().map(with_position).collect();
        let problems = reader.problems;
        Self { settings, problems }
    }
}

fn settings(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<BTreeMap<Setting, SettingValue>> {
    let fields = reader.fields(node, &RUNTIME_FILE)?;
    for (key, why) in WITHOUT_EFFECT {
        if let Some(node) = fields.get(key) {
            reader.warning(&node, format!("has no effect: {why}"));
        }
    }
    let budget = fields.optional(reader, "budget", |reader, node| reader.fields(node, &BUDGET));
    let mut settings = BTreeMap::new();
    for setting in Setting::ALL {
        let node = match setting.name().split_once('.') {
            Some((_, key)) => budget.as_ref().and_then(|budget| budget.get(key)),
            None => fields.get(setting.name()),
        };
        let value = node.and_then(|node| setting.read(reader, &node));
        settings.extend(value.map(|value| (setting, value)));
    }
    Some(settings)
}

/// Checks an address; it must have no password in it, because agents get it and screens show it.
fn check_url(url: &str) -> Result<(), &'static str> {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))
        .ok_or("must begin with http:// or https://")?;
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match host {
        "" => Err("names no host"),
        host if host.contains('@') => Err("must not hold a password"),
        _ if url.chars().any(|c| c.is_whitespace() || c.is_control()) => Err("is no address"),
        _ => Ok(()),
    }
}

impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) | Self::Prices(PriceSource::File(text)) if is_model_name(text) => {
                f.write_str(text)
            }
            Self::Text(text) | Self::Prices(PriceSource::File(text)) => write!(f, "{text:?}"),
            Self::Prices(PriceSource::Models { models }) => {
                let names: Vec<&str> = models.keys().map(String::as_str).collect();
                write!(f, "of {}", names.join(", "))
            }
            Self::Agent(AgentChoice::Named(name)) => f.write_str(name),
            Self::Agent(choice) => write!(f, "{} {:?}", choice.name(), choice.command().join(" ")),
            Self::Dollars(dollars) => dollars.fmt(f),
            Self::Seconds(seconds) => write!(f, "{seconds} s"),
            Self::Gigabytes(gigabytes) => write!(f, "{gigabytes} GiB"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let file = RuntimeFile::parse(text);
        file.problems.iter().map(|problem| problem.to_string()).collect()
    }

    // covers: HANK-56
    #[test]
    fn a_file_says_what_it_says_and_where() {
        let file = RuntimeFile::parse(
            "{ // mine\n \"port\": 8080, \"autostart\": false,\n \"outputDirectory\": \"../results\",\n \"budget\": {\"maxDollars\": 2.5}, }",
        );
        assert!(file.problems.is_empty(), "{:?}", file.problems);
        let found: Vec<String> = file
            .settings
            .iter()
            .map(|(setting, (value, place))| {
                let place = place.expect("read from text");
                format!("{} = {value} ({}:{})", setting.name(), place.line, place.column)
            })
            .collect();
        assert_eq!(
            found,
            [
                "port = 8080 (2:10)",
                "autostart = false (2:29)",
                "outputDirectory = \"../results\" (3:21)",
                "budget.maxDollars = $2.5000 (4:27)",
            ]
        );
        assert_eq!(RuntimeFile::parse("{}"), RuntimeFile::default());
    }

    // covers: HANK-56
    #[test]
    fn every_problem_of_a_file_is_told_at_its_place() {
        assert_eq!(
            problems(
                r#"{"port": 70000, "autostart": "no", "model": "--x", "anthropicBaseUrl": "ftp://a", "outputDirectory": "",
 "dataHashTimeLimit": 0, "shimIdleTimeout": 1801, "budget": {"maxDollars": -1, "allocation": "shared"}, "outputDir": "x"}"#
            ),
            [
                "1:10: error: port: must be a whole number from 0 to 65535, not `70000`",
                "1:30: error: autostart: must be true or false, not a string",
                "1:45: error: model: is no model name: only letters, digits and . _ : / - are allowed, beginning with a letter or a digit, and a note such as [1m] after them",
                "1:72: error: anthropicBaseUrl: must begin with http:// or https://",
                "1:102: error: outputDirectory: must not be empty",
                "2:23: error: dataHashTimeLimit: must be a whole number, at least 1, not `0`",
                "2:45: error: shimIdleTimeout: must be a whole number from 1 to 1800, not `1801`",
                "2:76: error: budget.maxDollars: must be a number above 0, not `-1`",
                "2:80: error: budget.allocation: `allocation` is not a key of this budget\n  hint: valid keys are maxDollars, maxTimeSeconds",
                "2:105: error: outputDir: `outputDir` is not a key of hankweave.json\n  hint: write `outputDirectory`",
            ]
        );
        assert_eq!(
            problems(""),
            ["1:1: error: the file is empty\n  hint: the smallest hankweave.json is {}"]
        );
    }

    // covers: HANK-56
    #[test]
    fn a_key_that_changes_nothing_here_is_a_warning_with_the_reason() {
        for (key, why) in WITHOUT_EFFECT {
            assert!(RUNTIME_FILE.contains(key));
            let file = RuntimeFile::parse(&format!("{{\"{key}\": 1}}"));
            let told = file.problems.iter().next().unwrap().to_string();
            assert!(
                !file.problems.has_errors() && told.contains(key) && told.ends_with(why),
                "{told}"
            );
        }
    }

    /// True and 1 are true; a non-number for a number is an error.
    // covers: HANK-58
    #[test]
    fn a_variable_is_read_by_the_rules_of_its_setting() {
        let names: Vec<_> = Setting::ALL
            .iter()
            .filter_map(|setting| setting.variable())
            .collect();
        assert_eq!(names.len(), 18);
        assert!(names.contains(&"HANKWEAVE_RUNTIME_ANTHROPIC_BASE_URL".to_owned()));
        let flag = |text| Setting::Autostart.from_variable(text);
        assert_eq!(flag("1"), Ok(SettingValue::Flag(true)));
        assert_eq!(flag("true"), Ok(SettingValue::Flag(true)));
        assert_eq!(flag("yes"), Ok(SettingValue::Flag(false)));
        let port = |text| Setting::Port.from_variable(text);
        assert_eq!(port(" 81"), Ok(SettingValue::Number(81)));
        for bad in ["", "eighty", "-1", "1.5", "65536", "NaN", "81 // mine", "1e400"] {
            assert!(port(bad).is_err(), "{bad:?}");
        }
        let agent = |text| Setting::Agent.from_variable(text).map(|value| value.to_string());
        assert_eq!(agent("codex").as_deref(), Ok("codex"));
        assert_eq!(
            agent(r#"{"acp": ["opencode", "acp"]}"#).as_deref(),
            Ok(r#"acp "opencode acp""#)
        );
        for (text, rule) in [
            (r#"{"acp": []}"#, "must not be empty"),
            (r#"{"acp": ["a"], "model": "m"}"#, "is not a key of"),
            (r#"{"script": "s.json"}"#, "only a codon has a script"),
            ("../x", "must"),
        ] {
            let told = agent(text).unwrap_err();
            assert!(told.contains(rule), "{text}: {told}");
        }
        let model = |text| Setting::Model.from_variable(text);
        assert_eq!(model("5"), Ok(SettingValue::Text("5".to_owned())));
        assert_eq!(
            model("a\"b").unwrap_err().split(':').next(),
            Some("is no model name")
        );
        assert!(
            Setting::AnthropicBaseUrl
                .from_variable("https://me:pw@host/")
                .is_err()
        );
        assert!(
            Setting::AnthropicBaseUrl
                .from_variable("http://127.0.0.1:1/v1")
                .is_ok()
        );
    }
}
