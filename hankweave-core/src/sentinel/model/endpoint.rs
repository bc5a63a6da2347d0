//! Finds the endpoint of a sentinel's model: address, protocol and the variable of the key (SENT-15).

use serde::{Deserialize, Serialize};

use crate::sentinel::{EndpointConfig, SentinelConfig};

/// The languages in which models are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI chat completions, which most servers of local models speak.
    OpenaiChat,
    /// OpenAI responses.
    OpenaiResponses,
}

impl Api {
    /// Returns the path after the base address.
    const fn path(self) -> &'static str {
        match self {
            Self::Anthropic => "/v1/messages",
            Self::OpenaiChat => "/chat/completions",
            Self::OpenaiResponses => "/responses",
        }
    }

    /// Returns the header that has the key, and its value.
    #[must_use]
    pub fn key_header(self, key: &str) -> (&'static str, String) {
        match self {
            Self::Anthropic => ("x-api-key", key.to_owned()),
            Self::OpenaiChat | Self::OpenaiResponses => ("authorization", format!("Bearer {key}")),
        }
    }

    /// Returns the headers of every request, without that of the key.
    #[must_use]
    pub const fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Anthropic => &[
                ("content-type", "application/json"),
                ("anthropic-version", "2023-06-01"),
            ],
            Self::OpenaiChat | Self::OpenaiResponses => &[("content-type", "application/json")],
        }
    }
}

/// A known provider of models.
struct Provider {
    name: &'static str,
    api: Api,
    base_url: &'static str,
    /// Environment variable with which the user sets another address.
    base_variable: Option<&'static str>,
    /// Environment variable of the key. The key is only sent to `base_url` or to the address in `base_variable`.
    key_variable: Option<&'static str>,
    /// Whether answers report their cost, in US dollars.
    reports_cost: bool,
}

const PROVIDERS: [Provider; 5] = [
    Provider {
        name: "anthropic",
        api: Api::Anthropic,
        base_url: "https://api.anthropic.com",
        base_variable: Some("ANTHROPIC_BASE_URL"),
        key_variable: Some("ANTHROPIC_API_KEY"),
        reports_cost: false,
    },
    Provider {
        name: "openai",
        api: Api::OpenaiResponses,
        base_url: "https://api.openai.com/v1",
        base_variable: Some("OPENAI_BASE_URL"),
        key_variable: Some("OPENAI_API_KEY"),
        reports_cost: false,
    },
    Provider {
        name: "google",
        api: Api::OpenaiChat,
        base_url: "https://generativelanguage.googleapis.com/v1beta/openai",
        base_variable: None,
        key_variable: Some("GEMINI_API_KEY"),
        reports_cost: false,
    },
    Provider {
        name: "openrouter",
        api: Api::OpenaiChat,
        base_url: "https://openrouter.ai/api/v1",
        base_variable: None,
        key_variable: Some("OPENROUTER_API_KEY"),
        reports_cost: true,
    },
    Provider {
        name: "ollama",
        api: Api::OpenaiChat,
        base_url: "http://127.0.0.1:11434/v1",
        base_variable: None,
        key_variable: None,
        reports_cost: false,
    },
];

/// Returns the names of the providers that need no `endpoint`.
pub fn providers() -> impl Iterator<Item = &'static str> {
    PROVIDERS.iter().map(|provider| provider.name)
}

/// Endpoint of one model. Its `Debug` shows the name of the key's variable, not the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEndpoint {
    /// Protocol of the requests.
    pub api: Api,
    /// The whole address.
    pub url: String,
    /// Environment variable with the key; `None` if no key is sent.
    pub key_variable: Option<String>,
    /// The model, as the provider calls it.
    pub model: String,
    /// Whether answers report their cost, in US dollars.
    pub reports_cost: bool,
}

/// Reason why a model cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The sentinel has no model.
    #[error("it has no model")]
    NoModel,
    /// The provider is unknown, and there is no `endpoint`.
    #[error("nothing is known of the provider `{0}`; there are {known}, and others with an `endpoint`", known = providers().collect::<Vec<_>>().join(", "))]
    UnknownProvider(String),
    /// The model is written without a provider.
    #[error("the model `{0}` is written without its provider, such as `anthropic/claude-haiku-4-5`")]
    NoProvider(String),
    /// The address has another scheme than http or https.
    #[error("`{0}` is no address that begins with http:// or https://")]
    Address(String),
    /// The variable with the key is not set.
    #[error("the variable `{0}` is not set, which holds the key of its model")]
    NoKey(String),
}

impl ModelEndpoint {
    /// Returns the endpoint of a sentinel's model. `variable` gives the value of a variable, if it is set and not empty.
    ///
    /// # Errors
    ///
    /// The reason why the model cannot be asked.
    pub fn of(
        config: &SentinelConfig,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, EndpointError> {
        let named = config.model.as_deref().ok_or(EndpointError::NoModel)?;
        let (provider, model) = named
            .split_once('/')
            .filter(|(provider, model)| !provider.is_empty() && !model.is_empty())
            .ok_or_else(|| EndpointError::NoProvider(named.to_owned()))?;
        let own = config.endpoint.clone().unwrap_or_default();
        let known = PROVIDERS.iter().find(|known| known.name == provider);
        let endpoint = match known {
            Some(known) => known.endpoint(own, model, &variable),
            None => unknown_provider_endpoint(own, model)
                .ok_or_else(|| EndpointError::UnknownProvider(provider.to_owned()))?,
        };
        if !["http://", "https://"]
            .iter()
            .any(|scheme| endpoint.url.starts_with(scheme))
        {
            return Err(EndpointError::Address(endpoint.url));
        }
        match &endpoint.key_variable {
            Some(name) if variable(name).is_none() => Err(EndpointError::NoKey(name.clone())),
            _ => Ok(endpoint),
        }
    }

    /// Whether the model answers on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        let rest = self.url.split_once("://").map_or("", |(_, rest)| rest);
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        // A name and a password may be before the host.
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        ["127.0.0.1", "localhost", "[::1]"].iter().any(|name| {
            let rest = host.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        })
    }
}

impl Provider {
    /// Returns the endpoint of a model; `own` is the sentinel's configuration of it. A hank cannot send a provider's key to another address: such an address
    /// only gets the key whose variable the hank names.
    fn endpoint(
        &self,
        own: EndpointConfig,
        model: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> ModelEndpoint {
        let key_variable = match (own.key_variable, &own.base_url) {
            (Some(named), _) => Some(named),
            (None, None) => self.key_variable.map(str::to_owned),
            (None, Some(_)) => None,
        };
        let of_user = || self.base_variable.and_then(&variable);
        let base = own
            .base_url
            .or_else(of_user)
            .unwrap_or_else(|| self.base_url.to_owned());
        ModelEndpoint {
            reports_cost: self.reports_cost,
            ..endpoint_at(own.api.unwrap_or(self.api), &base, key_variable, model)
        }
    }
}

/// Returns the endpoint of an unknown provider; `None` if the hank gives no address for it.
fn unknown_provider_endpoint(own: EndpointConfig, model: &str) -> Option<ModelEndpoint> {
    Some(endpoint_at(
        own.api.unwrap_or(Api::OpenaiChat),
        &own.base_url?,
        own.key_variable,
        model,
    ))
}

fn endpoint_at(api: Api, base: &str, key_variable: Option<String>, model: &str) -> ModelEndpoint {
    ModelEndpoint {
        api,
        url: format!("{}{}", base.trim_end_matches('/'), api.path()),
        key_variable,
        model: model.to_owned(),
        reports_cost: false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn endpoint(model: &str, own: Value, set: &[(&str, &str)]) -> Result<ModelEndpoint, EndpointError> {
        let config = json!({"id": "s", "name": "S", "model": model, "userPromptText": "x", "endpoint": own,
            "trigger": {"type": "event", "on": ["*"]}, "execution": {"strategy": "immediate"}});
        let config: SentinelConfig = serde_json::from_value(config).unwrap();
        let variable = |name: &str| set.iter().find(|(known, _)| *known == name);
        ModelEndpoint::of(&config, |name| Some(variable(name)?.1.to_owned()))
    }

    const KEYS: [(&str, &str); 3] = [
        ("ANTHROPIC_API_KEY", "a"),
        ("OPENAI_API_KEY", "o"),
        ("MY_KEY", "m"),
    ];

    // covers: SENT-15
    #[test]
    fn a_provider_has_an_address_a_language_and_a_key() {
        let found = |model, own, set: &[_]| {
            let found = endpoint(model, own, set).unwrap();
            (found.api, found.url, found.key_variable, found.model)
        };
        let text = str::to_owned;
        assert_eq!(
            found("anthropic/claude-haiku-4-5", Value::Null, &KEYS),
            (
                Api::Anthropic,
                text("https://api.anthropic.com/v1/messages"),
                Some(text("ANTHROPIC_API_KEY")),
                text("claude-haiku-4-5")
            )
        );
        let moved = [KEYS[1], ("OPENAI_BASE_URL", "http://127.0.0.1:1/v1/")];
        assert_eq!(
            found("openai/gpt-5", json!({"api": "openai-chat"}), &moved),
            (
                Api::OpenaiChat,
                text("http://127.0.0.1:1/v1/chat/completions"),
                Some(text("OPENAI_API_KEY")),
                text("gpt-5")
            )
        );
        assert_eq!(
            found("openai/gpt-5", Value::Null, &KEYS).1,
            "https://api.openai.com/v1/responses"
        );
        assert_eq!(
            found(
                "openrouter/meta/llama",
                Value::Null,
                &[("OPENROUTER_API_KEY", "r")]
            )
            .3,
            "meta/llama"
        );
        assert_eq!(
            found("here/llama", json!({"baseUrl": "http://127.0.0.1:2/v1"}), &[]),
            (
                Api::OpenaiChat,
                text("http://127.0.0.1:2/v1/chat/completions"),
                None,
                text("llama")
            )
        );
        for provider in providers() {
            assert!(
                !matches!(
                    endpoint(&format!("{provider}/m"), Value::Null, &[]),
                    Err(EndpointError::UnknownProvider(_))
                ),
                "{provider}"
            );
        }
    }

    // covers: SENT-15
    #[test]
    fn a_hank_cannot_send_the_key_of_a_provider_elsewhere_without_naming_it() {
        let elsewhere = json!({"baseUrl": "https://elsewhere.example"});
        let found = endpoint("anthropic/m", elsewhere, &KEYS).unwrap();
        assert_eq!(
            (found.url.as_str(), found.key_variable),
            ("https://elsewhere.example/v1/messages", None)
        );
        let named = json!({"baseUrl": "https://elsewhere.example", "keyVariable": "MY_KEY"});
        assert_eq!(
            endpoint("anthropic/m", named, &KEYS)
                .unwrap()
                .key_variable
                .as_deref(),
            Some("MY_KEY")
        );
        assert_eq!(Api::Anthropic.key_header("k"), ("x-api-key", "k".to_owned()));
        assert_eq!(
            Api::OpenaiChat.key_header("k"),
            ("authorization", "Bearer k".to_owned())
        );
    }

    #[test]
    fn this_machine_is_told_from_others_that_are_called_alike() {
        for (url, local) in [
            ("http://127.0.0.1:8080/v1", true),
            ("http://localhost/v1", true),
            ("http://[::1]:9", true),
            ("http://localhost.example/v1", false),
            ("http://localhost:x@example.com/v1", false),
            ("http://me:x@localhost:8080/v1", true),
            ("http://example.com#@localhost/v1", false),
            ("https://api.example/127.0.0.1/v1", false),
        ] {
            let endpoint = endpoint("here/m", json!({"baseUrl": url}), &[]).unwrap();
            assert_eq!(endpoint.is_local(), local, "{url}");
        }
        assert!(endpoint("ollama/m", Value::Null, &[]).unwrap().is_local());
    }

    #[test]
    fn what_cannot_be_asked_says_why() {
        let refused = |model: &str, own| endpoint(model, own, &[]).unwrap_err().to_string();
        assert_eq!(
            refused("anthropic/m", Value::Null),
            "the variable `ANTHROPIC_API_KEY` is not set, which holds the key of its model"
        );
        assert!(refused("haiku", Value::Null).contains("without its provider"));
        assert!(refused("/haiku", Value::Null).contains("without its provider"));
        assert!(
            refused("acme/m", Value::Null)
                .contains("there are anthropic, openai, google, openrouter, ollama")
        );
        assert!(refused("acme/m", json!({"baseUrl": "file:///etc/passwd"})).contains("is no address"));
    }
}
