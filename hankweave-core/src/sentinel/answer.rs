//! Answers of a sentinel, from the text of a model, from a value in a form, or from the output of a command (SENT-8).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::AnswerFormat;
use crate::cost::{TokenUsage, Usd};
use crate::shape::plain_with_place;

/// Request of a sentinel to the runner, if the hank allows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Ask {
    /// The codon ends as skipped.
    Skip,
    /// The codon ends as failed.
    Stop,
    /// The run stops and can continue.
    Pause,
}

impl Ask {
    /// Returns the word for the request, as in an answer.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Stop => "stop",
            Self::Pause => "pause",
        }
    }
}

/// One answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SentinelAnswer {
    /// Text of the answer; may be empty.
    pub text: String,
    /// Answer as a value, if the sentinel asks for a form.
    pub value: Option<Value>,
    /// Cost of the answer.
    pub cost: Usd,
    /// Whether the answer cost more than `cost`, by an unknown amount.
    pub cost_is_lower_bound: bool,
    /// Tokens used for the answer.
    pub tokens: TokenUsage,
    /// Request to the runner, with its reason.
    pub ask: Option<(Ask, String)>,
}

/// Reason why the output of a command is no answer.
#[derive(Debug, thiserror::Error)]
#[error("the command printed no object as it should, {}", plain_with_place(.0))]
pub struct AnswerError(#[from] serde_json::Error);

/// Object that a command prints with `"answer": "json"`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CommandAnswer {
    #[serde(default)]
    text: String,
    ask: Option<Ask>,
    #[serde(default)]
    reason: String,
    cost_dollars: Option<Usd>,
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
}

impl SentinelAnswer {
    /// Returns an answer that is a text.
    #[must_use]
    pub fn of_text(text: String) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }

    /// Returns an answer that is a value of the requested form. An object may contain a request to the runner in `ask`, and its reason in `reason`.
    #[must_use]
    pub fn of_value(value: Value) -> Self {
        let ask = value.get("ask").and_then(|ask| Ask::deserialize(ask).ok());
        let reason = value.get("reason").and_then(Value::as_str).unwrap_or_default();
        Self {
            text: value.to_string(),
            ask: ask.map(|ask| (ask, reason.to_owned())),
            value: Some(value),
            ..Self::default()
        }
    }

    /// Reads the output of a command. No output is an empty text in either format.
    ///
    /// # Errors
    ///
    /// Fails if the format is JSON and the output is no valid object.
    pub fn read(printed: &str, format: AnswerFormat) -> Result<Self, AnswerError> {
        let printed = printed.trim();
        if format == AnswerFormat::Text || printed.is_empty() {
            return Ok(Self::of_text(printed.to_owned()));
        }
        let object: CommandAnswer = serde_json::from_str(printed)?;
        // The reason of a request is also the answer, if there is no other text.
        let text = match object.ask {
            Some(_) if object.text.trim().is_empty() => object.reason.clone(),
            _ => object.text,
        };
        Ok(Self {
            text,
            cost: object.cost_dollars.unwrap_or(Usd::ZERO),
            tokens: TokenUsage {
                input_tokens: object.input_tokens,
                output_tokens: object.output_tokens,
                ..TokenUsage::ZERO
            },
            ask: object.ask.map(|ask| (ask, object.reason)),
            ..Self::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: SENT-17
    #[test]
    fn a_value_is_kept_as_it_is_and_may_ask_for_something() {
        let answer =
            SentinelAnswer::of_value(serde_json::json!({"ask": "stop", "reason": "secrets", "score": 3}));
        assert_eq!(answer.text, r#"{"ask":"stop","reason":"secrets","score":3}"#);
        assert_eq!(answer.ask, Some((Ask::Stop, "secrets".to_owned())));
        for harmless in [
            serde_json::json!({"ask": "none"}),
            serde_json::json!(["stop"]),
            serde_json::json!("stop"),
        ] {
            assert_eq!(SentinelAnswer::of_value(harmless).ask, None);
        }
    }

    // covers: SENT-8
    #[test]
    fn an_answer_is_text_or_one_object() {
        let text = SentinelAnswer::read(" hello\n", AnswerFormat::Text).unwrap();
        assert_eq!(
            text,
            SentinelAnswer {
                text: "hello".to_owned(),
                ..SentinelAnswer::default()
            }
        );
        assert_eq!(
            SentinelAnswer::read("\n", AnswerFormat::Json).unwrap(),
            SentinelAnswer::default()
        );
        let object =
            r#"{"text": "no", "ask": "stop", "reason": "secrets", "costDollars": 0.25, "inputTokens": 3}"#;
        let answer = SentinelAnswer::read(object, AnswerFormat::Json).unwrap();
        assert_eq!(answer.ask, Some((Ask::Stop, "secrets".to_owned())));
        assert_eq!(
            (answer.cost, answer.tokens.input_tokens),
            (Usd::from_micros(250_000), 3)
        );
        let asking = SentinelAnswer::read(r#"{"ask": "stop", "reason": "secrets"}"#, AnswerFormat::Json);
        assert_eq!(asking.unwrap().text, "secrets");
        for garbage in [
            "hello",
            "[]",
            r#"{"ask": "explode"}"#,
            r#"{"cost": 1}"#,
            r#"{"costDollars": -1}"#,
            "{} {}",
        ] {
            assert!(
                SentinelAnswer::read(garbage, AnswerFormat::Json).is_err(),
                "{garbage}"
            );
        }
    }
}
