//! Reads the messages of a client: [`Inbound::read`] parses one, and for a command [`RawCommand::check`] then checks its parts.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::command::Reason;
use super::{ClientRequest, Code, Command, Refused};
use crate::shape::depth::is_deeper_than;
use crate::shape::{Checker, FieldRule, Shape, ShapeProblem, Variants, leaf, optional, required};

/// How deep the JSON of a message may be nested (WIRE-31).
pub const MAX_DEPTH: usize = 32;

/// A message of a client.
#[derive(Debug, Clone, PartialEq)]
pub enum Inbound {
    /// The handshake, or why it is not valid.
    Handshake(Result<Handshake, Refused>),
    /// Any other message, not checked yet.
    Command(RawCommand),
}

/// First message of a client: `{type: "handshake", data: {mode, …}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Handshake {
    /// Requested mode.
    pub mode: Mode,
    /// Send the newest events with the answer.
    #[serde(default)]
    pub send_previous_events: bool,
    /// Send everything after this event, each event as if it happened now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_seq: Option<u64>,
    /// Send the view of the run, and its patches from then on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub view: bool,
    /// `false`: send no events, for clients that only want the view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<bool>,
    /// Name of the user whose commands these are, for the record; at most 1,000 bytes. The client is named when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[shape(with = leaf::<Reason>)]
    pub user: Option<String>,
}

/// Rights of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Watch.
    Readonly,
    /// Watch and command.
    ReadAndWrite,
}

/// A JSON object that should be a command; not checked yet.
#[derive(Debug, Clone, PartialEq)]
pub struct RawCommand(Map<String, Value>);

impl Inbound {
    /// Reads the text of one message.
    ///
    /// # Errors
    ///
    /// [`Refused`] when it is no JSON object, or nested too deep.
    pub fn read(text: &str) -> Result<Self, Refused> {
        if is_deeper_than(text.as_bytes(), MAX_DEPTH) {
            let message = format!("Command execution failed: brackets are nested deeper than {MAX_DEPTH}");
            return Err(Refused::new(Code::TooDeep, message));
        }
        let value = serde_json::from_str(text).map_err(|error| {
            let message = format!("Command execution failed: the message is no JSON: {error}");
            Refused::new(Code::NotJson, message)
        })?;
        let Value::Object(mut object) = value else {
            return Err(invalid("the message must be an object {id, type, data}"));
        };
        if object.get("type").and_then(Value::as_str) != Some("handshake") {
            return Ok(Self::Command(RawCommand(object)));
        }
        let data = object.remove("data").unwrap_or_default();
        Ok(Self::Handshake(Handshake::read(data)))
    }
}

impl Handshake {
    fn read(mut data: Value) -> Result<Self, Refused> {
        let refused = |what: &str| Refused::new(Code::InvalidHandshake, format!("Invalid handshake: {what}"));
        let mut checker = Checker::default();
        Self::check(&mut checker, &mut data);
        let findings = checker.into_findings();
        if !findings.is_empty() {
            return Err(refused(&words(&findings)));
        }
        // The rules know what the type accepts, so this is not expected to fail.
        Self::deserialize(data).map_err(|error| refused(&error.to_string()))
    }
}

impl RawCommand {
    /// Returns the id that the client gave the command, if it is a text.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.0.get("id").and_then(Value::as_str)
    }

    /// Returns the type of the command, if it is a text.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.get("type").and_then(Value::as_str)
    }

    /// Reads the command.
    ///
    /// # Errors
    ///
    /// [`Refused`] for an unknown command and for data that do not fit it, with everything that is wrong.
    pub fn check(self) -> Result<ClientRequest, Refused> {
        let mut value = Value::Object(self.0);
        let mut checker = Checker::default();
        let envelope = [
            required("id", leaf::<CommandId>),
            required("type", String::check),
            optional("data", Map::check),
        ];
        checker.object(&mut value, &envelope);
        let findings = checker.into_findings();
        let (Some(name), true) = (value["type"].as_str(), findings.is_empty()) else {
            return Err(invalid(&words(&findings)));
        };
        let Some(rules) = Command::rules(name) else {
            let known: Vec<&str> = Command::names().collect();
            let message = format!(
                "Invalid command format: there is no command `{}`; the commands are {}",
                shortened(name),
                known.join(", ")
            );
            return Err(Refused::new(Code::UnknownCommand, message));
        };
        let command = read_command(name, value.get("data").cloned().unwrap_or(json!({})), rules)?;
        // `CommandId` has checked that the id is a text.
        let id = value["id"].as_str().unwrap_or_default().to_owned();
        Ok(ClientRequest { id, command })
    }
}

fn read_command(name: &str, mut data: Value, rules: &'static [FieldRule]) -> Result<Command, Refused> {
    let mut checker = Checker::default();
    checker.within("data", |checker| checker.object(&mut data, rules));
    let findings = checker.into_findings();
    if !findings.is_empty() {
        return Err(invalid(&words(&findings)));
    }
    let command = match rules {
        [] => json!({"type": name}),
        _ => json!({"type": name, "data": data}),
    };
    // The rules know what the types accept, so this is not expected to fail.
    Command::deserialize(command).map_err(|error| invalid(&error.to_string()))
}

fn invalid(what: &str) -> Refused {
    Refused::new(Code::InvalidCommand, format!("Invalid command format: {what}"))
}

fn words(findings: &[ShapeProblem]) -> String {
    let parts = findings.iter().map(|finding| match finding.path.as_str() {
        "" => finding.message.clone(),
        path => format!("{path}: {}", finding.message),
    });
    parts.collect::<Vec<_>>().join("; ")
}

fn shortened(name: &str) -> &str {
    name.char_indices().nth(60).map_or(name, |(end, _)| &name[..end])
}

/// Rule for the id that a client gives to a command; reading one checks its length and keeps nothing.
struct CommandId;

impl<'de> Deserialize<'de> for CommandId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match String::deserialize(deserializer)?.len() {
            1..=256 => Ok(Self),
            _ => Err(serde::de::Error::custom("must have 1 to 256 bytes")),
        }
    }
}
