//! The script of a scripted agent, in the format of its JSON file.

use serde::Deserialize;

/// Actions of the agent, turn by turn. `docs/scripted-agent.md` explains every key.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Script {
    /// Id of a new session; random without it.
    pub(super) session_id: Option<String>,
    /// Prints no opening line.
    pub(super) no_init: bool,
    pub(super) ignore_term: bool,
    pub(super) turns: Vec<ScriptedTurn>,
    /// Prints no closing line.
    pub(super) no_result: bool,
    /// Error in the closing line; without it the line reports success.
    pub(super) result: Option<ScriptedError>,
    pub(super) exit_code: Option<u8>,
}

impl Script {
    /// Returns the script as a rehearsal plays it: without usage, so without cost, and without waits.
    pub(super) fn rehearsed(mut self) -> Self {
        for turn in &mut self.turns {
            (turn.usage, turn.delay_ms, turn.hang) = (None, 0, false);
        }
        self
    }
}

/// One message of the model with its tools, and the faults that follow it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct ScriptedTurn {
    /// Answers and waits for the commands in the background before the turn.
    pub(super) after_background: bool,
    pub(super) delay_ms: u64,
    pub(super) thinking: Option<String>,
    pub(super) text: Option<String>,
    pub(super) tools: Vec<ScriptedTool>,
    pub(super) usage: Option<ScriptedUsage>,
    /// Line to print as it is.
    pub(super) raw: Option<String>,
    pub(super) huge_line: Option<u64>,
    pub(super) invalid_utf8: bool,
    pub(super) stderr: Option<String>,
    /// Command to leave running.
    pub(super) spawn_detached: Option<String>,
    /// Leaves a process running that keeps standard output open.
    pub(super) hold_stdout: bool,
    pub(super) hang: bool,
    /// Number of a signal that the agent sends to itself.
    pub(super) signal: Option<u8>,
}

impl ScriptedTurn {
    /// Whether the turn has thinking, text or tools.
    pub(super) fn has_message(&self) -> bool {
        self.thinking.is_some() || self.text.is_some() || !self.tools.is_empty()
    }
}

/// A tool call that is really carried out.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum ScriptedTool {
    Write { path: String, content: String },
    Append { path: String, content: String },
    Read { path: String },
    Bash { command: String },
    Background { command: String },
}

/// Tokens of one message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct ScriptedUsage {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cache_creation: u64,
    pub(super) cache_read: u64,
}

/// A result that is an error.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct ScriptedError {
    pub(super) message: String,
    /// HTTP status.
    pub(super) status: Option<u16>,
    pub(super) context_exceeded: bool,
}

/// Values for `${…}` in the strings of a script.
#[derive(Debug)]
pub(super) struct ScriptVariables {
    pub(super) prompt: String,
    pub(super) work_dir: String,
    /// Iteration of the loop, counted from 0; `0` outside of loops.
    pub(super) iteration: String,
    /// Number of prompts in the session, this one included.
    pub(super) session_turn: u64,
}

impl ScriptVariables {
    /// Replaces the known variables in one pass, so that a `${…}` inside a prompt stays as it is. `turn`
    /// counts from 1.
    pub(super) fn fill(&self, template: &str, turn: usize) -> String {
        let mut filled = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once("${") {
            filled.push_str(before);
            let value = after
                .split_once('}')
                .and_then(|(name, after_name)| Some((self.value(name, turn)?, after_name)));
            match value {
                Some((value, after_name)) => {
                    filled.push_str(&value);
                    rest = after_name;
                }
                // An unknown variable, or no variable at all, stays as it is.
                None => {
                    filled.push_str("${");
                    rest = after;
                }
            }
        }
        filled + rest
    }

    fn value(&self, name: &str, turn: usize) -> Option<String> {
        match name {
            "N" => Some(turn.to_string()),
            "PROMPT" => Some(self.prompt.clone()),
            "CWD" => Some(self.work_dir.clone()),
            "ITERATION" => Some(self.iteration.clone()),
            "SESSION_TURN" => Some(self.session_turn.to_string()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hankweave_core::hank::check_script;
    use serde_json::{Value, json};

    #[test]
    fn variables_are_filled_once_and_unknown_ones_stay() {
        let variables = ScriptVariables {
            prompt: "say ${N}".to_owned(),
            work_dir: "/w".to_owned(),
            iteration: "2".to_owned(),
            session_turn: 3,
        };
        assert_eq!(
            variables.fill("${N} ${PROMPT} ${CWD} ${ITERATION} ${SESSION_TURN} ${HOME} ${", 7),
            "7 say ${N} /w 2 3 ${HOME} ${"
        );
    }

    /// A script with every key.
    fn whole() -> Value {
        let usage = json!({"input": 1, "output": 2, "cacheCreation": 3, "cacheRead": 4});
        let tools = json!([
            {"write": {"path": "a", "content": "b"}}, {"append": {"path": "a", "content": "b"}},
            {"read": {"path": "a"}}, {"bash": {"command": "true"}}, {"background": {"command": "true"}}
        ]);
        let turn = json!({"afterBackground": true, "delayMs": 1, "thinking": "a", "text": "b", "tools": tools, "usage": usage, "raw": "c", "hugeLine": 5, "invalidUtf8": true,
            "stderr": "d", "spawnDetached": "e", "holdStdout": true, "signal": 15, "hang": true});
        json!({"sessionId": "s", "turns": [turn], "noInit": true, "noResult": true, "exitCode": 255, "ignoreTerm": true,
            "result": {"message": "m", "status": 529, "contextExceeded": true}})
    }

    /// Every script that differs from `script` in one place: a key that is missing, misspelt or empty, a value of another type.
    fn changed(script: &Value) -> Vec<Value> {
        let mut all: Vec<Value> = [
            json!(null),
            json!(true),
            json!(-1),
            json!(1.5),
            json!(70_000),
            json!("x"),
            json!({}),
        ]
        .into();
        match script {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let mut without = fields.clone();
                    without.remove(key);
                    all.push(without.clone().into());
                    without.insert(format!("{key}s"), value.clone());
                    all.push(without.into());
                    all.extend(changed(value).into_iter().map(|other| {
                        let mut fields = fields.clone();
                        fields.insert(key.clone(), other);
                        fields.into()
                    }));
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    all.extend(changed(item).into_iter().map(|other| {
                        let mut items = items.clone();
                        items[index] = other;
                        items.into()
                    }));
                }
            }
            _ => {}
        }
        all
    }

    // covers: HANK-74
    #[test]
    fn what_validate_accepts_is_what_the_agent_takes() {
        let whole = whole();
        assert!(check_script(&whole.to_string()).is_empty());
        let (mut taken, mut refused) = (0, 0);
        for script in changed(&whole) {
            let text = script.to_string();
            let takes = serde_json::from_str::<Script>(&text);
            let problems = check_script(&text);
            assert_eq!(
                takes.is_ok(),
                !problems.has_errors(),
                "{text}\n{takes:?}\n{}",
                problems.display_in("script")
            );
            *(if takes.is_ok() { &mut taken } else { &mut refused }) += 1;
        }
        assert!(taken > 20 && refused > 200, "{taken} {refused}");
    }

    #[test]
    fn a_misspelt_key_is_an_error() {
        assert!(serde_json::from_str::<Script>(r#"{"turns":[{"txt":"hello"}]}"#).is_err());
    }
}
