//! Reads the options of agents: effort, permissions, isolation, MCP servers and arguments.

use jsonc_parser::ast::Value;

use super::codon::{environment, without_nul};
use crate::agent::{Access, AccessMode, AgentOptions, McpServer};
use crate::hank::keys;
use crate::hank::problem::quoted;
use crate::hank::reader::{HankReader, JsonNode, ObjectFields, checked, choice, list};

/// Reads the options of agents among the keys of a codon or of `overrides`.
pub(super) fn agent_options(reader: &mut HankReader<'_>, fields: &ObjectFields<'_>) -> AgentOptions {
    AgentOptions {
        effort: fields.optional(reader, "effort", word),
        permissions: fields.optional(reader, "permissions", access),
        isolate: fields.optional(reader, "isolate", HankReader::boolean),
        mcp_servers: fields.optional(reader, "mcpServers", |reader, node| reader.map(node, server)),
        args: fields.optional(reader, "args", list(checked(without_nul))),
    }
}

/// Reads a word of small letters and `-`, which is safe on a command line. Whether the codon's agent knows the word is checked later (`runnable`).
fn word(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<String> {
    checked(
        |word: &str| match !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '-') {
            true => Ok(()),
            false => Err("must be a word such as low, medium or high"),
        },
    )(reader, node)
}

/// Reads a mode, or an object with lists of tools.
fn access(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<Access> {
    match node.value {
        Value::StringLit(_) => mode(reader, node).map(Access::of),
        Value::Object(_) => {
            let fields = reader.fields(node, &keys::ACCESS)?;
            let mode = match fields.get("mode") {
                Some(node) => mode(reader, &node)?,
                None => AccessMode::All,
            };
            let access = Access {
                mode,
                allow: fields.or_default(reader, "allow", list(tool)),
                deny: fields.or_default(reader, "deny", list(tool)),
            };
            if access.mode == AccessMode::All && !access.allow.is_empty() {
                let hint = r#"write "mode": "read-only" or "edit" beside it"#;
                return reader.refuse_with_hint(node, "allows tools beyond everything", hint);
            }
            Some(access)
        }
        _ => {
            let hint = r#"write "read-only", "edit", "all" or { "mode": "read-only", "allow": ["Bash(git log *)"] }"#;
            reader.refuse_with_hint(node, "must be a mode or an object with lists of tools", hint)
        }
    }
}

fn mode(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<AccessMode> {
    choice(&AccessMode::NAMES)(reader, node)
}

/// Reads a tool in the agent's own notation; it must not be mistaken for an option or for two tools on the agent's command line.
fn tool(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<String> {
    checked(|tool: &str| match tool {
        "" => Err("must be the name of a tool"),
        tool if !tool.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            Err("must begin with a letter, as names of tools do")
        }
        tool if tool.contains(',') => Err("must be one tool; write each as an entry of its own"),
        tool => without_nul(tool),
    })(reader, node)
}

fn server(reader: &mut HankReader<'_>, name: &str, node: &JsonNode<'_>) -> Option<McpServer> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_name) {
        let message = format!(
            "{} is no name for an MCP server: letters, digits, - and _ only",
            quoted(name)
        );
        return reader.refuse(node, message);
    }
    let fields = reader.fields(node, &keys::MCP_SERVER)?;
    let command = fields.required(reader, "command", |reader, node| {
        checked(|command: &str| match command.trim() {
            "" => Err("must be the name of a program"),
            _ => without_nul(command),
        })(reader, node)
    });
    let args = fields.or_default(reader, "args", list(checked(without_nul)));
    let env = fields.or_default(reader, "env", environment);
    Some(McpServer {
        command: command?,
        args,
        env,
    })
}
