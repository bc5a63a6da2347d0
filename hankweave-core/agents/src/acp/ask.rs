//! Requests to the agent, in order: greet it, sign in if the hank says how, open a session (new, copied or loaded), choose the model, prompt. Each
//! request is sent when the one before it is answered.

use hankweave_core::agent::Permissions;

use super::{AcpDecoder, AcpStage, AgentEvent, Launch, OWN_MODEL, RpcResponse, SessionId, Value, json};
use crate::actions::{AcpAction, notification_line, request_line};

/// The version of the protocol that is spoken.
const VERSION: u64 = 1;

/// Largest number of models, or of ways to sign in, that a message lists.
const MOST_NAMES: usize = 12;

/// Task of the agent from the launch, and the agent's abilities from its answer to the greeting.
#[derive(Debug, Default)]
pub(super) struct Task {
    prompt: String,
    /// Model to choose; `None` uses the agent's own settings.
    pub(super) model: Option<String>,
    /// Session to continue.
    pub(super) resume: Option<SessionId>,
    work_dir: String,
    /// MCP servers of the hank, as the protocol wants them.
    servers: Value,
    pub(super) permissions: Permissions,
    /// Id of the method to sign in with, from the hank; `None` opens the session without signing in.
    auth: Option<String>,
    /// Ids of the sign-in methods that the agent knows, for messages and to check `auth`.
    offered: Vec<String>,
    /// The agent can continue a session.
    loads_sessions: bool,
    /// The session in `resume` is copied, and the copy is continued.
    pub(super) is_fork: bool,
    /// The agent can copy a session.
    forks_sessions: bool,
    /// No agent is running: the lines come from a log, which several processes may have written.
    pub(super) is_log: bool,
}

impl Task {
    pub(super) fn of(launch: &Launch) -> Self {
        Self {
            // The protocol has no place for text for the system prompt.
            prompt: match &launch.appended_system_prompt {
                Some(system) => format!("{system}\n\n{}", launch.prompt),
                None => launch.prompt.clone(),
            },
            model: Some(launch.model.clone()).filter(|model| model != OWN_MODEL),
            resume: launch.resume.clone(),
            work_dir: launch.work_dir.to_string_lossy().into_owned(),
            servers: servers(launch),
            permissions: launch.permissions,
            auth: launch.auth.clone(),
            offered: Vec::new(),
            loads_sessions: false,
            is_fork: launch.fork && launch.resume.is_some(),
            forks_sessions: false,
            is_log: false,
        }
    }

    /// Returns the task of an agent that has ended; only its log is read.
    pub(super) fn of_log(resume: Option<SessionId>) -> Self {
        Self {
            resume,
            is_log: true,
            ..Self::default()
        }
    }

    pub(super) fn set_model_and_auth(&mut self, model: Option<&str>, auth: Option<&str>) {
        self.model = model.filter(|model| *model != OWN_MODEL).map(str::to_owned);
        self.auth = auth.map(str::to_owned);
    }

    pub(super) fn sign_in_hint(&self) -> String {
        match self.offered.as_slice() {
            [] => String::new(),
            offered => format!(
                "; sign in with the program itself, or name one of its ways in the hank, such as \"auth\": \"{}\" (it knows {})",
                offered[0],
                first_names(offered)
            ),
        }
    }
}

/// Returns the first names of a list for a message.
fn first_names(names: &[String]) -> String {
    let more = if names.len() > MOST_NAMES { ", …" } else { "" };
    let first = &names[..names.len().min(MOST_NAMES)];
    format!("{}{more}", first.join(", "))
}

/// Returns the MCP servers of a launch in the protocol's form. They talk over standard input and output, which every agent supports.
fn servers(launch: &Launch) -> Value {
    let servers = launch.options.servers().map(|(name, server)| {
        let variables = server.env.iter();
        let env: Vec<Value> = variables
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        json!({"name": name, "command": server.command, "args": server.args, "env": env})
    });
    servers.collect()
}

impl AcpDecoder {
    /// Sends the greeting. It offers neither files nor terminals, so agents use their own tools (AGENT-26). No agent that we know asks for terminals. If
    /// gemini 0.61 is offered files, it cannot create any: it takes our error for a missing file as a failure.
    pub(super) fn greet(&mut self) {
        let params = json!({
            "protocolVersion": VERSION,
            "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false},
            "clientInfo": {"name": "hankweave", "title": "hankweave", "version": env!("CARGO_PKG_VERSION")},
        });
        self.orders
            .push_back(AcpAction::Say(request_line(self.awaited, "initialize", &params)));
    }

    fn send_request(&mut self, stage: AcpStage, method: &str, params: &Value) {
        self.stage = stage;
        self.awaited += 1;
        self.orders
            .push_back(AcpAction::Say(request_line(self.awaited, method, params)));
    }

    /// Handles the answer to our last request: sends the next request, or ends the turn.
    pub(super) fn handle_answer(&mut self, answer: RpcResponse<'_>, events: &mut Vec<AgentEvent>) {
        match self.stage {
            AcpStage::Greeting => self.after_greeting(answer),
            AcpStage::SigningIn => self.open(),
            AcpStage::Opening => self.after_opening(answer, events),
            AcpStage::ChoosingModel => self.prompt(),
            AcpStage::Working => self.end_turn(&answer, events),
            AcpStage::Over => {}
        }
    }

    /// Notes what the agent can do, then signs in or opens the session.
    fn after_greeting(&mut self, answer: RpcResponse<'_>) {
        let version = answer.protocol_version.0;
        if version != Some(VERSION) {
            let spoken = version.map_or("no version".to_owned(), |version| format!("version {version}"));
            return self.give_up(format!(
                "the agent speaks {spoken} of the Agent Client Protocol; version {VERSION} is needed"
            ));
        }
        let offers = answer.agent_capabilities.0.unwrap_or_default();
        self.task.loads_sessions = offers.load_session.0;
        let sessions = offers.session_capabilities.0.unwrap_or_default();
        self.task.forks_sessions = sessions.fork.0.is_some();
        let methods = answer.auth_methods.objects();
        let methods = methods.filter_map(|method| method.id.into_owned());
        self.task.offered = methods.collect();
        match self.task.auth.clone() {
            Some(auth) if self.task.offered.contains(&auth) => {
                self.send_request(AcpStage::SigningIn, "authenticate", &json!({"methodId": auth}));
            }
            Some(auth) => {
                let offered = first_names(&self.task.offered);
                self.give_up(format!(
                    "the agent does not know the way to sign in `{auth}`; it knows {offered}"
                ));
            }
            None => self.open(),
        }
    }

    /// Asks for a session: a new one, a copy of the one to continue, or that one itself.
    fn open(&mut self) {
        let mut params = json!({"cwd": self.task.work_dir, "mcpServers": self.task.servers});
        let Some(session) = &self.task.resume else {
            return self.send_request(AcpStage::Opening, "session/new", &params);
        };
        if self.task.is_fork {
            if !self.task.forks_sessions {
                return self.give_up(
                    "the agent cannot continue with a copy of a session (it offers no session/fork); write \"continuationMode\": \"fresh\" or \"continue-previous\"".to_owned(),
                );
            }
            params["sessionId"] = session.as_str().into();
            return self.send_request(AcpStage::Opening, "session/fork", &params);
        }
        if !self.task.loads_sessions {
            return self.give_up(
                "the agent cannot continue with a session (it offers no session/load); write \"continuationMode\": \"fresh\"".to_owned(),
            );
        }
        params["sessionId"] = session.as_str().into();
        self.send_request(AcpStage::Opening, "session/load", &params);
    }

    /// Notes and reports the session, then chooses the model or prompts.
    fn after_opening(&mut self, answer: RpcResponse<'_>, events: &mut Vec<AgentEvent>) {
        let named = answer.session_id.as_deref().map(SessionId::new);
        let named = named.and_then(Result::ok);
        // An answer to `session/load` need not name the session. In a log, only a name in the answer shows that the session is a copy, so it comes first.
        let loaded = self.task.resume.clone().filter(|_| !self.task.is_fork);
        let session = match self.task.is_log {
            true => named.or(loaded),
            false => loaded.or(named),
        };
        let Some(session_id) = session else {
            return self.give_up("the agent began a session without a name".to_owned());
        };
        self.session = Some(session_id.clone());
        let cancel = notification_line("session/cancel", &json!({"sessionId": session_id.as_str()}));
        self.orders.push_back(AcpAction::StopWith(cancel));
        let offer = ModelOptions::of(answer);
        if self.task.model.is_none()
            && let Some(current) = &offer.current
        {
            self.model.clone_from(current);
        }
        events.push(AgentEvent::SessionStarted {
            session_id,
            model: offer.current.clone(),
        });
        match self.task.model.clone() {
            Some(model) => self.choose_model(&model, &offer),
            None => self.prompt(),
        }
    }

    /// Asks for the model, unless the session has it already.
    fn choose_model(&mut self, model: &str, offer: &ModelOptions) {
        if offer.current.as_deref() == Some(model) {
            return self.prompt();
        }
        if offer.names.is_empty() {
            return self.give_up(format!(
                "the agent offers no choice of models, so it cannot work with `{model}`; leave out `model`"
            ));
        }
        if !offer.names.iter().any(|name| name == model) {
            return self.give_up(format!(
                "the agent does not offer the model `{model}`; it offers {}",
                first_names(&offer.names)
            ));
        }
        let session = self.session_name();
        match &offer.setting {
            Some(setting) => self.send_request(
                AcpStage::ChoosingModel,
                "session/set_config_option",
                &json!({"sessionId": session, "configId": setting, "value": model}),
            ),
            None => self.send_request(
                AcpStage::ChoosingModel,
                "session/set_model",
                &json!({"sessionId": session, "modelId": model}),
            ),
        }
    }

    fn prompt(&mut self) {
        let text = std::mem::take(&mut self.task.prompt);
        let params = json!({"sessionId": self.session_name(), "prompt": [{"type": "text", "text": text}]});
        self.send_request(AcpStage::Working, "session/prompt", &params);
    }

    fn session_name(&self) -> &str {
        self.session.as_ref().map_or("", SessionId::as_str)
    }
}

/// The models that the agent offers.
struct ModelOptions {
    names: Vec<String>,
    /// Model of the opened session; `None` if the agent does not report it.
    current: Option<String>,
    /// Id of the session setting that chooses the model; `None` if the request `session/set_model` does.
    setting: Option<String>,
}

impl ModelOptions {
    fn of(answer: RpcResponse<'_>) -> Self {
        let setting = answer
            .config_options
            .objects()
            .find(|option| option.category.as_deref() == Some("model"));
        if let Some(setting) = setting {
            let choices = setting.options.objects().flat_map(|choice| {
                let inner = choice.options.objects().map(|inner| inner.value);
                std::iter::once(choice.value).chain(inner)
            });
            return Self {
                names: choices.filter_map(|value| value.into_owned()).collect(),
                current: setting.current_value.into_owned(),
                setting: setting.id.into_owned(),
            };
        }
        let models = answer.models.0.unwrap_or_default();
        let names = models.available_models.objects();
        Self {
            names: names.filter_map(|model| model.model_id.into_owned()).collect(),
            current: models.current_model_id.into_owned(),
            setting: None,
        }
    }
}
