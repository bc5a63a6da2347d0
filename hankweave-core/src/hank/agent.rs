//! The agent that runs a codon: the value of the key `agent`, or by default the agent for the codon's model.

use serde::Serialize;

use crate::agent::Permissions;
use crate::cost::pricing::is_alias;

/// The value of a codon's field `agent`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum AgentChoice {
    /// An agent by name: `claude`, `codex`, `gemini`, `opencode`, `pi`, `scripted`, or one that an embedding program registered.
    Named(String),
    /// A program of the author's own.
    Command(AgentCommand),
    /// A program that speaks the Agent Client Protocol.
    Acp(AcpAgent),
    /// The built-in scripted agent with this script.
    Script {
        /// Path of the script relative to the folder of hank.json.
        script: String,
    },
}

/// A program of the author's own. It reads the prompt from standard input and prints the stream of a known
/// agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AgentCommand {
    /// The program and its arguments, at least the program; no shell is involved.
    pub command: Vec<String>,
    /// The agent whose output format the program prints: `claude`.
    pub stream: String,
}

/// A program that speaks the Agent Client Protocol, version 1, over its standard input and output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AcpAgent {
    /// The program and its arguments, at least the program; no shell is involved.
    pub acp: Vec<String>,
    /// Answer when the agent asks before it acts: `allow`, `deny`, or one of them for each of `read`, `edit` and `execute`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::acp_permissions"))]
    pub permissions: Option<Permissions>,
    /// How it signs in, by its own name for that way; without it, it has to be signed in already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<String>,
}

impl AgentChoice {
    /// Returns the name of the agent's driver and log files: the name itself, `command` or `acp` for a program, and `scripted`
    /// for a script.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::Command(_) => "command",
            Self::Acp(_) => "acp",
            Self::Script { .. } => "scripted",
        }
    }

    /// Returns the script of a scripted agent.
    #[must_use]
    pub fn script(&self) -> Option<&str> {
        match self {
            Self::Script { script } => Some(script),
            Self::Named(_) | Self::Command(_) | Self::Acp(_) => None,
        }
    }

    /// Returns the details that [`name`](Self::name) lacks: the script, or the program with its arguments; `None` for a named agent.
    #[must_use]
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::Named(_) => None,
            Self::Script { script } => Some(script.clone()),
            Self::Command(_) | Self::Acp(_) => Some(self.command().join(" ")),
        }
    }

    /// Whether a codon with this agent may leave out its model.
    #[must_use]
    pub fn works_without_model(&self) -> bool {
        match self {
            Self::Named(name) => name == "scripted",
            Self::Command(_) | Self::Acp(_) | Self::Script { .. } => true,
        }
    }

    /// Returns program and arguments of an agent that is a program; empty for the others.
    #[must_use]
    pub fn command(&self) -> &[String] {
        match self {
            Self::Command(agent) => &agent.command,
            Self::Acp(agent) => &agent.acp,
            Self::Named(_) | Self::Script { .. } => &[],
        }
    }
}

/// Returns the agent that runs `model` when a codon names no agent (HANK-7).
#[must_use]
pub fn agent_for_model(model: &str) -> &'static str {
    let model = model.to_ascii_lowercase();
    match model.as_str() {
        "scripted" => "scripted",
        model if is_alias(model) || is_anthropic(model) => "claude",
        model if is_openai(model) => "codex",
        model if is_google(model) => "gemini",
        model if model == "opencode" || model.starts_with("opencode/") => "opencode",
        _ => "pi",
    }
}

fn is_anthropic(model: &str) -> bool {
    let family = model.split('-').next().unwrap_or(model);
    model.starts_with("anthropic/") || matches!(family, "sonnet" | "opus" | "haiku" | "claude")
}

fn is_openai(model: &str) -> bool {
    let model = model.strip_prefix("openai/").unwrap_or(model);
    let family = model.split('-').next().unwrap_or(model);
    let o_series = matches!(family.as_bytes(), [b'o', b'0'..=b'9', ..]);
    matches!(family, "gpt" | "codex") || o_series
}

fn is_google(model: &str) -> bool {
    model.split('-').next() == Some("gemini")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(agent: &str, models: &[&str]) {
        for model in models {
            assert_eq!(agent_for_model(model), agent, "{model}");
        }
    }

    // covers: HANK-7
    #[test]
    fn the_model_name_decides_which_agent_runs() {
        check(
            "claude",
            &[
                "sonnet",
                "opus",
                "haiku",
                "sonnet-high",
                "claude-sonnet-4-5",
                "anthropic/claude-haiku-4-5",
                "claude-opus-5[1m]",
                "opus[1m]",
                "default",
            ],
        );
        check(
            "codex",
            &[
                "gpt-5.2",
                "openai/gpt-5.2",
                "codex",
                "codex-mini",
                "o3",
                "o4-mini",
            ],
        );
        check("gemini", &["gemini", "gemini-2.5-pro"]);
        check("opencode", &["opencode", "opencode/big-pickle"]);
        check("scripted", &["scripted"]);
        check(
            "pi",
            &[
                "flash",
                "pi/anthropic/claude-x",
                "google/gemini-3",
                "olmo",
                "amazon-bedrock/x",
                "opusculum",
            ],
        );
    }
}
