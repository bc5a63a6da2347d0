//! Requests to the agent, from the greeting to the prompt.

use hankweave_core::agent::Permissions;

use super::{AcpDecoder, AcpStage, AgentEvent, Launch, OWN_MODEL, RpcResponse, SessionId, Value, json};
use crate::actions::{AcpAction, notification_line, request_line};

/// The version of the protocol that is spoken.
const VERSION: u64 = 1;

/// Largest number of models, or of ways to sign in, that a message lists.
const MOST_NAMES: usize = 12;

/// Task of the agent.
#[derive(Debug, Default)]
pub(super) struct Task {
    prompt: String,
    pub(super) model: Option<String>,
    pub(super) resume: Option<SessionId>,
    work_dir: String,
    /// MCP servers of the hank, as the protocol wants them.
    servers: Value,
    pub(super) permissions: Permissions,
    /// How to sign in, as the agent names it.
    auth: Option<String>,
    /// The ways to sign in that the agent knows.
    offered: Vec<String>,
    loads_sessions: bool,
    /// The session is copied, and the copy is continued.
    pub(super) is_fork: bool,
    forks_sessions: bool,
    /// There is only a log, which several processes may have written.
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

    /// Returns the facts that a log alone gives.
    pub(super) fn of_log(resume: Option<SessionId>) -> Self {
        Self {
            resume,
            is_log: true,
            ..Self::default()
        }
    }

    pub(super) fn ask(&mut self, model: Option<&str>, auth: Option<&str>) {
        self.model = model.filter(|model| *model != OWN_MODEL).map(str::to_owned);
        self.auth = auth.map(str::to_owned);
    }

    pub(super) fn sign_in_hint(&self) -> String {
        match self.offered.as_slice() {
            [] => String::new(),
            offered => format!(
                "; sign in with the program itself, or name one of its ways in the hank, such as \"auth\": \"{}\" (it knows {})",
                offered[0],
                offered.join(", ")
            ),
        }
    }
}

/// The MCP servers of a launch; every agent takes those that talk over standard input and output.
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
    /// Neither files nor terminals are offered: agents use their own tools (AGENT-26). No agent that we know asks for terminals, and gemini 0.61, where it is
    /// offered files, creates none: it takes our error for a missing file as a failure.
    pub(super) fn greet(&mut self) {
        let params = json!({
            "protocolVersion": VERSION,
            "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false},
            "clientInfo": {"name": "hankweave", "title": "hankweave", "version": env!("CARGO_PKG_VERSION")},
        });
        self.orders
            .push_back(AcpAction::Say(request_line(self.awaited, "initialize", &params)));
    }

    fn ask(&mut self, stage: AcpStage, method: &str, params: &Value) {
        self.stage = stage;
        self.awaited += 1;
        self.orders
            .push_back(AcpAction::Say(request_line(self.awaited, method, params)));
    }

    /// Continues with what follows the answer.
    pub(super) fn answered(&mut self, answer: RpcResponse<'_>, events: &mut Vec<AgentEvent>) {
        match self.stage {
            AcpStage::Greeting => self.greeted(answer),
            AcpStage::SigningIn => self.open(),
            AcpStage::Opening => self.opened(answer, events),
            AcpStage::ChoosingModel => self.prompt(),
            AcpStage::Working => self.turned(&answer, events),
            AcpStage::Over => {}
        }
    }

    fn greeted(&mut self, answer: RpcResponse<'_>) {
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
        self.task.offered = methods.take(MOST_NAMES).collect();
        match self.task.auth.clone() {
            Some(auth) if self.task.offered.contains(&auth) => {
                self.ask(AcpStage::SigningIn, "authenticate", &json!({"methodId": auth}));
            }
            Some(auth) => {
                let offered = self.task.offered.join(", ");
                self.give_up(format!(
                    "the agent does not know the way to sign in `{auth}`; it knows {offered}"
                ));
            }
            None => self.open(),
        }
    }

    fn open(&mut self) {
        let mut params = json!({"cwd": self.task.work_dir, "mcpServers": self.task.servers});
        let Some(session) = &self.task.resume else {
            return self.ask(AcpStage::Opening, "session/new", &params);
        };
        if self.task.is_fork {
            if !self.task.forks_sessions {
                return self.give_up(
                    "the agent cannot continue with a copy of a session (it offers no session/fork); write \"continuationMode\": \"fresh\" or \"continue-previous\"".to_owned(),
                );
            }
            params["sessionId"] = session.as_str().into();
            return self.ask(AcpStage::Opening, "session/fork", &params);
        }
        if !self.task.loads_sessions {
            return self.give_up(
                "the agent cannot continue with a session (it offers no session/load); write \"continuationMode\": \"fresh\"".to_owned(),
            );
        }
        params["sessionId"] = session.as_str().into();
        self.ask(AcpStage::Opening, "session/load", &params);
    }

    fn opened(&mut self, answer: RpcResponse<'_>, events: &mut Vec<AgentEvent>) {
        let named = answer.session_id.as_deref().map(SessionId::new);
        let named = named.and_then(Result::ok);
        // In a log, only the name in the answer shows that the session is a copy.
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
            Some(model) => self.choose(&model, &offer),
            None => self.prompt(),
        }
    }

    fn choose(&mut self, model: &str, offer: &ModelOptions) {
        if offer.current.as_deref() == Some(model) {
            return self.prompt();
        }
        let names: Vec<&str> = offer.names.iter().map(String::as_str).take(MOST_NAMES).collect();
        if names.is_empty() {
            return self.give_up(format!(
                "the agent offers no choice of models, so it cannot work with `{model}`; leave out `model`"
            ));
        }
        if !offer.names.iter().any(|name| name == model) {
            let more = if offer.names.len() > names.len() {
                ", …"
            } else {
                ""
            };
            return self.give_up(format!(
                "the agent does not offer the model `{model}`; it offers {}{more}",
                names.join(", ")
            ));
        }
        let session = self.session_name();
        match &offer.setting {
            Some(setting) => self.ask(
                AcpStage::ChoosingModel,
                "session/set_config_option",
                &json!({"sessionId": session, "configId": setting, "value": model}),
            ),
            None => self.ask(
                AcpStage::ChoosingModel,
                "session/set_model",
                &json!({"sessionId": session, "modelId": model}),
            ),
        }
    }

    fn prompt(&mut self) {
        let text = std::mem::take(&mut self.task.prompt);
        let params = json!({"sessionId": self.session_name(), "prompt": [{"type": "text", "text": text}]});
        self.ask(AcpStage::Working, "session/prompt", &params);
    }

    fn session_name(&self) -> &str {
        self.session.as_ref().map_or("", SessionId::as_str)
    }
}

/// The models from which one can be chosen.
struct ModelOptions {
    names: Vec<String>,
    current: Option<String>,
    /// The setting of the session that chooses; `None` where a request of its own does.
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
