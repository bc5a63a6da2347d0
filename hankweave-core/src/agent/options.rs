//! Options of a hank for its agents: effort, permissions, isolation, MCP servers and arguments; and which of them an agent supports (AGENT-60).

use std::collections::BTreeMap;

use serde::Serialize;

/// Wishes of a hank about an agent. What a codon leaves out is that of the whole hank.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentOptions {
    /// How much the agent thinks, in the agent's own word: `low`, `medium`, `high` and others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Rights of the agent: `read-only`, `edit`, `all`, or an object with lists of tools; `all` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "access"))]
    pub permissions: Option<Access>,
    /// Whether the agent works without settings, memory, hooks, skills and MCP servers of the user; false when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolate: Option<bool>,
    /// MCP servers that the agent starts, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_servers: Option<BTreeMap<String, McpServer>>,
    /// Further arguments on the command line of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
}

impl AgentOptions {
    /// Returns these options; each absent one is taken from `others`.
    #[must_use]
    pub fn or(&self, others: &Self) -> Self {
        let mine = self.clone();
        let others = others.clone();
        Self {
            effort: mine.effort.or(others.effort),
            permissions: mine.permissions.or(others.permissions),
            isolate: mine.isolate.or(others.isolate),
            mcp_servers: mine.mcp_servers.or(others.mcp_servers),
            args: mine.args.or(others.args),
        }
    }

    /// Returns the mode of the permissions, with the default filled in.
    #[must_use]
    pub fn mode(&self) -> AccessMode {
        self.permissions
            .as_ref()
            .map_or(AccessMode::All, |access| access.mode)
    }

    /// Returns these options in one line, such as `permissions read-only, effort high, isolate`; `None` without any.
    #[must_use]
    pub fn in_short(&self) -> Option<String> {
        let permissions = self.permissions.as_ref();
        let permissions = permissions.map(|access| format!("permissions {}", access.in_short()));
        let effort = self.effort.as_ref().map(|effort| format!("effort {effort}"));
        let isolated = self.is_isolated().then(|| "isolate".to_owned());
        let servers: Vec<&str> = self.servers().map(|(name, _)| name).collect();
        let servers = (!servers.is_empty()).then(|| format!("mcpServers {}", servers.join(" ")));
        let args = self.arguments().join(" ");
        let args = (!args.is_empty()).then(|| format!("args {args}"));
        let all = [permissions, effort, isolated, servers, args];
        let all: Vec<String> = all.into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// Whether the agent works without the user's own settings.
    #[must_use]
    pub fn is_isolated(&self) -> bool {
        self.isolate == Some(true)
    }

    /// The MCP servers with their names.
    pub fn servers(&self) -> impl Iterator<Item = (&str, &McpServer)> {
        let servers = self.mcp_servers.iter().flatten();
        servers.map(|(name, server)| (name.as_str(), server))
    }

    /// The further arguments.
    #[must_use]
    pub fn arguments(&self) -> &[String] {
        self.args.as_deref().unwrap_or_default()
    }
}

/// Permissions of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Rights of the agent.
    pub mode: AccessMode,
    /// Tools that the agent may use in addition to those of the mode, in the agent's own notation.
    pub allow: Vec<String>,
    /// Tools that the agent may not use in any mode.
    pub deny: Vec<String>,
}

impl Access {
    /// Returns the permissions of a mode, without lists of tools.
    #[must_use]
    pub fn of(mode: AccessMode) -> Self {
        let (allow, deny) = (Vec::new(), Vec::new());
        Self { mode, allow, deny }
    }

    fn in_short(&self) -> String {
        let tools = |what: &str, tools: &[String]| match tools {
            [] => String::new(),
            tools => format!(" {what} {}", tools.join(" ")),
        };
        let (allow, deny) = (tools("with", &self.allow), tools("without", &self.deny));
        format!("{}{allow}{deny}", self.mode.name())
    }

    /// Returns a hint for an agent that takes no lists: what to write instead, and which rules are lost by that.
    fn hint_without_tools(&self) -> String {
        let mode = self.mode.name();
        let loses = |tools: &[String], why: &str| match tools {
            [] => None,
            tools => Some(format!("{} {why}", tools.join(", "))),
        };
        let lost = [
            loses(&self.deny, "would not be denied then"),
            loses(&self.allow, "would not be allowed beyond the mode then"),
        ];
        let lost: Vec<String> = lost.into_iter().flatten().collect();
        let lost = lost.join(", ");
        format!("choose an agent that takes lists, such as claude, or write {mode:?} alone: {lost}")
    }

    /// Whether tools are named.
    #[must_use]
    pub fn has_tools(&self) -> bool {
        !(self.allow.is_empty() && self.deny.is_empty())
    }
}

impl Serialize for Access {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        if !self.has_tools() {
            return self.mode.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("mode", &self.mode)?;
        for (key, tools) in [("allow", &self.allow), ("deny", &self.deny)] {
            if !tools.is_empty() {
                map.serialize_entry(key, tools)?;
            }
        }
        map.end()
    }
}

/// Schema of the permissions of an agent.
#[cfg(feature = "schema")]
fn access(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    use serde_json::json;
    let mode = json!({"enum": ["read-only", "edit", "all"]});
    let tools = json!({"type": "array", "items": {"type": "string", "minLength": 1}});
    schemars::json_schema!({
        "description": "What the agent may do with its tools and its shell: \"read-only\" changes no file, \"edit\" changes files of the workspace only, \"all\" everything; or an object with lists of tools, where the agent has them.",
        "anyOf": [
            mode,
            {
                "type": "object",
                "properties": {"mode": mode, "allow": tools, "deny": tools},
                "additionalProperties": false,
            },
        ],
        "default": "all",
    })
}

/// Rights of an agent to its tools and its shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessMode {
    /// Read; neither a tool nor a command changes a file.
    ReadOnly,
    /// Change files of the workspace, and no others.
    Edit,
    /// Everything.
    All,
}

impl AccessMode {
    /// All modes with their names.
    pub const NAMES: [(&'static str, Self); 3] = [
        ("read-only", Self::ReadOnly),
        ("edit", Self::Edit),
        ("all", Self::All),
    ];

    /// Returns the name of the mode in a hank.
    #[must_use]
    pub fn name(self) -> &'static str {
        // `NAMES` has the order of the variants.
        let (name, _) = Self::NAMES[self as usize];
        name
    }
}

/// An MCP server that an agent starts and talks to over its standard input and output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct McpServer {
    /// The program; no shell is involved.
    pub command: String,
    /// Its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub args: Vec<String>,
    /// Its own variables, passed without changes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub env: BTreeMap<String, String>,
}

impl McpServer {
    /// Returns program and arguments in one line, for people.
    #[must_use]
    pub fn line(&self) -> String {
        let words = std::iter::once(&self.command).chain(&self.args);
        words.map(String::as_str).collect::<Vec<_>>().join(" ")
    }
}

/// Options that an agent supports. A hank that sets any other option is refused before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OptionSupport {
    /// Values of `effort`.
    pub effort: &'static [&'static str],
    /// Modes of `permissions` that the agent can be kept to. Every agent has `all`, also if it is not listed.
    pub permissions: &'static [AccessMode],
    /// Whether `permissions` may have lists of tools.
    pub tool_lists: bool,
    /// Whether the agent can work without the user's own settings.
    pub isolate: bool,
    /// Whether the agent starts MCP servers of the hank.
    pub mcp_servers: bool,
    /// Whether the agent takes further arguments.
    pub args: bool,
    /// Arguments that a hank may not use, because hankweave passes them itself or they would break its guarantees. One with a dash is matched as an
    /// option, any other anywhere in an argument.
    #[serde(skip)]
    pub own_args: &'static [&'static str],
    /// Whether all MCP servers get their variables out of one environment, so that a name can have only one value.
    #[serde(skip)]
    pub shared_server_env: bool,
}

impl OptionSupport {
    /// Support of an agent that takes no options.
    pub const NONE: Self = Self {
        effort: &[],
        permissions: &[],
        tool_lists: false,
        isolate: false,
        mcp_servers: false,
        args: false,
        own_args: &[],
        shared_server_env: false,
    };

    /// Returns a refusal for each of the asked options that the agent of this name does not support (AGENT-60).
    #[must_use]
    pub fn refusals(&self, agent: &str, asked: &AgentOptions) -> Vec<OptionRefusal> {
        let refusals = [
            self.refused_effort(agent, asked),
            self.refused_permissions(agent, asked),
            self.refused_isolation(agent, asked),
            self.refused_servers(agent, asked),
        ];
        let mut refusals: Vec<_> = refusals.into_iter().flatten().collect();
        refusals.extend(self.refused_arguments(agent, asked));
        if agent == "scripted" {
            refusals.iter_mut().for_each(OptionRefusal::advise_stand_in);
        }
        refusals
    }

    fn refused_effort(&self, agent: &str, asked: &AgentOptions) -> Option<OptionRefusal> {
        let effort = asked.effort.as_deref()?;
        if self.effort.contains(&effort) {
            return None;
        }
        if self.effort.is_empty() {
            let hint = "leave it out, or choose another agent";
            return Some(refusal(
                "effort",
                format!("agent `{agent}` has no effort that a hank can set"),
                hint,
            ));
        }
        let message = format!("agent `{agent}` knows no effort {effort:?}");
        Some(refusal(
            "effort",
            message,
            format!("write one of {}", self.effort.join(", ")),
        ))
    }

    fn refused_permissions(&self, agent: &str, asked: &AgentOptions) -> Option<OptionRefusal> {
        let access = asked.permissions.as_ref()?;
        let mode = access.mode;
        if mode != AccessMode::All && !self.permissions.contains(&mode) {
            let kept = self.permissions.iter().map(|mode| format!("\"{}\"", mode.name()));
            let mut kept: Vec<String> = kept.collect();
            kept.push("\"all\"".to_owned());
            let hint = match agent {
                "acp" => r#"write "agent": { "acp": […], "permissions": { "edit": "deny", "execute": "deny" } }, which answers an agent that asks"#.to_owned(),
                _ => format!("write {}, or choose another agent", kept.join(" or ")),
            };
            let message = format!("agent `{agent}` cannot be kept to {:?}", mode.name());
            return Some(refusal("permissions", message, hint));
        }
        let cannot = access.has_tools() && !self.tool_lists;
        cannot.then(|| {
            let message = format!("agent `{agent}` takes no lists of tools");
            refusal("permissions", message, access.hint_without_tools())
        })
    }

    fn refused_isolation(&self, agent: &str, asked: &AgentOptions) -> Option<OptionRefusal> {
        (asked.is_isolated() && !self.isolate).then(|| {
            let hint = match agent {
                "codex" => r#"give it a folder of its own: "env": { "CODEX_HOME": "/srv/agents/codex" }"#,
                "gemini" => {
                    r#"give it a folder of its own: "env": { "GEMINI_CLI_HOME": "/srv/agents/gemini" }"#
                }
                _ => "leave it out, or choose another agent",
            };
            let message = format!("agent `{agent}` cannot be kept from reading what is the user's own");
            refusal("isolate", message, hint)
        })
    }

    fn refused_servers(&self, agent: &str, asked: &AgentOptions) -> Option<OptionRefusal> {
        asked.servers().next()?;
        if !self.mcp_servers {
            let message = format!("agent `{agent}` takes no MCP servers of a hank");
            return Some(refusal(
                "mcpServers",
                message,
                "leave it out, or choose another agent",
            ));
        }
        if !self.shared_server_env {
            return None;
        }
        let mut values = BTreeMap::new();
        let mut variables = asked.servers().flat_map(|(_, server)| &server.env);
        let (name, _) = variables.find(|(name, value)| {
            let earlier = values.insert(*name, *value);
            earlier.is_some_and(|earlier| earlier != *value)
        })?;
        let message =
            format!("agent `{agent}` gives all MCP servers one `{name}`, and it has two values here");
        Some(refusal(
            "mcpServers",
            message,
            "give the variables different names",
        ))
    }

    fn refused_arguments(&self, agent: &str, asked: &AgentOptions) -> Vec<OptionRefusal> {
        let args = asked.arguments();
        if !args.is_empty() && !self.args {
            let hint = match agent {
                "acp" => r#"write them behind the program: "agent": { "acp": ["program", "argument"] }"#,
                _ => "leave it out",
            };
            return vec![refusal(
                "args",
                format!("agent `{agent}` takes no further arguments"),
                hint,
            )];
        }
        let own = args.iter().enumerate().filter_map(|(index, arg)| {
            let own = self.own_args.iter().find(|own| is_meant(own, arg))?;
            let message = format!("`{own}` of agent `{agent}` is hankweave's own");
            let hint = "leave it out; `model`, `effort`, `permissions`, `isolate`, `mcpServers`, `result` and `continuationMode` say what a hank can say of it";
            Some(OptionRefusal { key: format!("args[{index}]"), ..refusal("args", message, hint) })
        });
        own.collect()
    }
}

/// Returns whether `arg` is the option `own`: alone, with `=` and a value, or, for a short option, with the value directly after it. A word without a
/// dash is meant wherever it occurs.
fn is_meant(own: &str, arg: &str) -> bool {
    if !own.starts_with('-') {
        return arg.contains(own);
    }
    let is_short = !own.starts_with("--");
    let Some(rest) = arg.strip_prefix(own) else {
        return false;
    };
    rest.is_empty() || rest.starts_with('=') || (is_short && own.len() == 2)
}

/// An option that an agent does not support.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OptionRefusal {
    /// Key of the option, such as `effort` or `args[1]`.
    pub key: String,
    /// Message: what the agent cannot do.
    pub message: String,
    /// Hint: what to write instead.
    pub hint: String,
}

impl OptionRefusal {
    /// Sets the hint for the agent `scripted`, which can play a real agent without that agent's options.
    fn advise_stand_in(&mut self) {
        self.hint = format!(
            "leave {:?} out: a script does only what it says. A real agent, such as \"agent\": \"claude\", keeps it; `--agent scripted` of `validate`, `run` and `run --rehearse` plays the script here without it",
            self.key
        );
    }
}

fn refusal(key: &str, message: String, hint: impl Into<String>) -> OptionRefusal {
    OptionRefusal {
        key: key.to_owned(),
        message,
        hint: hint.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: OptionSupport = OptionSupport {
        effort: &["low", "high"],
        permissions: &[AccessMode::ReadOnly],
        mcp_servers: true,
        args: true,
        own_args: &["--model", "-m", "sandbox_mode"],
        shared_server_env: true,
        ..OptionSupport::NONE
    };

    fn keys(can: OptionSupport, asked: &AgentOptions) -> Vec<String> {
        let refusals = can.refusals("a", asked);
        refusals.into_iter().map(|refusal| refusal.key).collect()
    }

    fn everything() -> AgentOptions {
        let server = |value: &str| McpServer {
            command: "s".to_owned(),
            args: Vec::new(),
            env: BTreeMap::from([("TOKEN".to_owned(), value.to_owned())]),
        };
        AgentOptions {
            effort: Some("high".to_owned()),
            permissions: Some(Access::of(AccessMode::ReadOnly)),
            isolate: Some(true),
            mcp_servers: Some(BTreeMap::from([
                ("one".to_owned(), server("1")),
                ("two".to_owned(), server("2")),
            ])),
            args: Some(
                [
                    "--verbose",
                    "--model=x",
                    "-mx",
                    "-c",
                    "sandbox_mode=\"x\"",
                    "--models",
                ]
                .map(str::to_owned)
                .into(),
            ),
        }
    }

    // covers: AGENT-60
    #[test]
    fn what_an_agent_cannot_do_is_refused_key_by_key() {
        assert_eq!(
            keys(OptionSupport::NONE, &everything()),
            ["effort", "permissions", "isolate", "mcpServers", "args"]
        );
        assert_eq!(
            keys(SOME, &everything()),
            ["isolate", "mcpServers", "args[1]", "args[2]", "args[4]"]
        );
        assert_eq!(keys(OptionSupport::NONE, &AgentOptions::default()), [""; 0]);
        let all = AgentOptions {
            permissions: Some(Access::of(AccessMode::All)),
            isolate: Some(false),
            ..AgentOptions::default()
        };
        assert_eq!(
            keys(OptionSupport::NONE, &all),
            [""; 0],
            "it is as every agent is"
        );
        let tools = AgentOptions {
            permissions: Some(Access {
                deny: vec!["X".to_owned()],
                ..Access::of(AccessMode::All)
            }),
            ..AgentOptions::default()
        };
        assert_eq!(keys(SOME, &tools), ["permissions"]);
    }

    // covers: AGENT-60
    #[test]
    fn what_a_codon_leaves_out_is_that_of_the_hank() {
        let own = AgentOptions {
            effort: Some("low".to_owned()),
            isolate: Some(false),
            ..AgentOptions::default()
        };
        let both = own.or(&everything());
        assert_eq!((both.effort.as_deref(), both.isolate), (Some("low"), Some(false)));
        assert_eq!(both.mode(), AccessMode::ReadOnly);
        assert_eq!(both.servers().count(), 2);
    }
}
