//! An agent that speaks the Agent Client Protocol and follows a script, as badly as the script wants.
//!
//! A test binary is its own agent: an ignored test of it calls [`play_if_asked`], and [`command`] starts the binary with that test alone. What the test
//! harness prints first is no JSON, as with agents that greet people.
//!
//! The script is the JSON in the variable [`SCRIPT`]. Its `turn` is a list of steps for the prompt; `agentCapabilities`, `greeting`, `opening`, `session`
//! and `end` replace what is answered otherwise. Answers to what the agent asks are appended to `answers.jsonl` where it works.

use std::fs;
use std::io::{self, BufRead, Write};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// The variable with the script.
pub const SCRIPT: &str = "SCRIPT_OF_ACP_AGENT";

/// Returns the command that starts this test binary as an agent, where `test` is the name of the ignored test that plays.
///
/// # Panics
///
/// Panics if the system does not name this program.
#[must_use]
pub fn command(test: &str) -> Vec<String> {
    let program = std::env::current_exe().expect("the system knows this program");
    let program = program.to_str().expect("the build folder is text").to_owned();
    let mut command = vec![program, test.to_owned()];
    command.extend(["--exact", "--ignored", "--nocapture"].map(str::to_owned));
    command
}

/// Plays the script and ends the process; does nothing if there is no script.
///
/// # Panics
///
/// Panics when the script is no JSON, or the client closes the connection in the middle.
pub fn play_if_asked() {
    let Ok(script) = std::env::var(SCRIPT) else { return };
    let script: Value = serde_json::from_str(&script).expect("the script is JSON");
    Agent {
        script,
        session: "s-1".to_owned(),
        asked: 0,
    }
    .play();
    std::process::exit(0);
}

struct Agent {
    script: Value,
    session: String,
    asked: u64,
}

fn print(line: &str) {
    let mut stdout = io::stdout().lock();
    // A client that has disconnected kills us soon.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

fn send(mut message: Value) {
    message["jsonrpc"] = json!("2.0");
    print(&message.to_string());
}

fn hear() -> Option<Value> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line).ok()?;
    (read > 0).then(|| serde_json::from_str(&line).expect("the client speaks JSON"))
}

impl Agent {
    fn play(mut self) {
        while let Some(message) = hear() {
            let (id, params) = (message["id"].clone(), &message["params"]);
            match message["method"].as_str() {
                Some("initialize") => self.greet(&id),
                Some("session/new") => self.open(&id),
                Some("session/load") => {
                    self.session = params["sessionId"].as_str().unwrap_or_default().to_owned();
                    self.say("an old message");
                    self.open(&id);
                }
                Some("session/fork") => {
                    self.session = format!(
                        "copy-{}-of-{}",
                        std::process::id(),
                        params["sessionId"].as_str().unwrap_or_default()
                    );
                    self.open(&id);
                }
                Some("session/prompt") => self.turn(&id, &params["prompt"][0]["text"]),
                Some("session/cancel") | None => {}
                Some(_) => send(json!({"id": id, "result": {}})),
            }
        }
    }

    fn greet(&self, id: &Value) {
        if self.script["greeting"] == "never" {
            return;
        }
        let offers = self.or("agentCapabilities", json!({"loadSession": true}));
        let greeting = self.or(
            "greeting",
            json!({"protocolVersion": 1, "agentCapabilities": offers}),
        );
        send(json!({"id": id, "result": greeting}));
    }

    fn open(&self, id: &Value) {
        if let Value::Object(error) = &self.script["opening"] {
            return send(json!({"id": id, "error": error}));
        }
        let mut session = self.or("session", json!({}));
        session["sessionId"] = json!(self.session);
        send(json!({"id": id, "result": session}));
    }

    fn or(&self, key: &str, usual: Value) -> Value {
        match &self.script[key] {
            Value::Null => usual,
            value => value.clone(),
        }
    }

    fn say(&self, text: &str) {
        self.update(
            &json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}),
        );
    }

    fn update(&self, update: &Value) {
        send(json!({"method": "session/update", "params": {"sessionId": self.session, "update": update}}));
    }

    fn turn(&mut self, id: &Value, prompt: &Value) {
        let steps = self.script["turn"].as_array().cloned().unwrap_or_default();
        for step in &steps {
            if !self.step(step, prompt) {
                return send(json!({"id": id, "result": {"stopReason": "cancelled"}}));
            }
        }
        let end = self.or("end", json!({"result": {"stopReason": "end_turn"}}));
        let mut answer = end;
        answer["id"] = id.clone();
        send(answer);
    }

    /// Takes one step, and returns whether the turn continues.
    #[expect(
        clippy::zombie_processes,
        reason = "to leave a process behind is what the script asks for"
    )]
    fn step(&mut self, step: &Value, prompt: &Value) -> bool {
        let (what, with) = step
            .as_object()
            .and_then(|step| step.iter().next())
            .expect("a step has a name");
        match what.as_str() {
            "say" => self.say(
                &with
                    .as_str()
                    .unwrap_or_default()
                    .replace("${PROMPT}", prompt.as_str().unwrap_or_default()),
            ),
            "raw" => print(with.as_str().unwrap_or_default()),
            "long" => print(&"x".repeat(usize::try_from(with.as_u64().unwrap_or(0)).unwrap_or(0))),
            "update" => self.update(with),
            "write" => fs::write(
                with["path"].as_str().unwrap_or_default(),
                with["content"].as_str().unwrap_or_default(),
            )
            .expect("the workspace is writable"),
            "unless" if fs::exists(with["path"].as_str().unwrap_or_default()).unwrap_or(false) => {}
            "unless" => return self.step(&with["step"], prompt),
            "ask" => self.ask(with, 1),
            "storm" => self.ask(&with["ask"], with["count"].as_u64().unwrap_or(1)),
            "detach" => {
                let mut child = Command::new("setsid");
                child.args(["sh", "-c", with.as_str().unwrap_or_default()]);
                child.stdin(Stdio::null()).spawn().expect("there is a shell");
            }
            "exit" => std::process::exit(i32::try_from(with.as_i64().unwrap_or(0)).unwrap_or(1)),
            // It listens and obeys.
            "wait" => return hear().is_some_and(|message| message["method"] != "session/cancel"),
            // It neither listens nor ends.
            "deaf" => loop {
                std::thread::park();
            },
            other => panic!("there is no step `{other}`"),
        }
        true
    }

    /// Sends a request this number of times at once, and then reads all answers.
    fn ask(&mut self, request: &Value, times: u64) {
        let mut params = here(&request["params"]);
        params["sessionId"] = json!(self.session);
        for _ in 0..times {
            self.asked += 1;
            send(json!({"id": format!("a-{}", self.asked), "method": request["method"], "params": params}));
        }
        let mut answers = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open("answers.jsonl")
            .expect("the workspace is writable");
        let mut left = times;
        while left > 0 {
            let answer = hear().expect("the client answers");
            if answer["method"].is_null() {
                writeln!(answers, "{answer}").expect("the workspace is writable");
                left -= 1;
            }
        }
    }
}

/// `${CWD}` in texts is where the agent works.
fn here(value: &Value) -> Value {
    let folder = std::env::current_dir().expect("the agent works somewhere");
    let text = value.to_string().replace("${CWD}", &folder.to_string_lossy());
    let value: Value = serde_json::from_str(&text).expect("a path needs no escapes");
    if value.is_null() { json!({}) } else { value }
}
