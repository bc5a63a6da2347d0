//! Asking the model of a sentinel (SENT-15 to SENT-18), and the known part of its bill (SENT-21).

use std::borrow::Cow;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::agent::classify::classify;
use hankweave_core::cost::pricing::Prices;
use hankweave_core::cost::{Billed, TokenUsage, Usd};
use hankweave_core::hank::{PromptContext, SentinelEntry, prompt::join, render_prompt};
use hankweave_core::sentinel::model::{
    AnswerSchema, CallRefusal, EndpointError, Exchange, ModelEndpoint, ModelReply, Question, ReplyBody,
    read_reply, request_body,
};
use hankweave_core::sentinel::{Firing, LlmParams, SentinelAnswer, SentinelConfig};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use super::Context;
use super::call::CallError;
use crate::hank_files::LoadedHank;
use crate::structured::CheckedForm;
use crate::world::http::{HttpError, HttpRequest};
use crate::world::process::child_environment;
use crate::world::secrets::Secrets;

/// Default limit of a model's output, in tokens.
const MOST_OUTPUT_TOKENS: u64 = 8_192;

/// Default for the number of times that a request is repeated.
const MOST_RETRIES: u64 = 2;

/// The wait before the second attempt; each further wait takes twice as long.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// Tokens that cost nothing only where all tokens do.
const A_MILLION_OF_EACH: TokenUsage = TokenUsage {
    input_tokens: 1_000_000,
    output_tokens: 1_000_000,
    cache_creation_tokens: 1_000_000,
    cache_read_tokens: 1_000_000,
};

/// A provider that asks for a longer wait is not waited for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Model of a sentinel, with everything that each request to it contains.
#[derive(Debug)]
pub(super) struct SentinelModel {
    config: SentinelConfig,
    params: LlmParams,
    system: Option<String>,
    prompt: String,
    form: Option<CheckedForm>,
    prices: Arc<Prices>,
}

/// A question on its way, with what it has cost so far.
#[derive(Debug)]
pub(super) struct PendingQuestion {
    pub(super) model: Arc<SentinelModel>,
    /// Remembered question, without the texts that repaired its answer.
    pub(super) prompt: String,
    question: Question,
    pub(super) cost: Usd,
    pub(super) tokens: TokenUsage,
    /// Requests that may have cost more than `cost` has of them.
    pub(super) uncounted: u64,
    pub(super) is_repaired: bool,
}

/// Cost of the requests of one question.
#[derive(Debug)]
pub(super) struct Bill {
    pub(super) cost: Usd,
    /// Number of requests with unknown cost.
    pub(super) uncounted: u64,
    /// Place of the request. It is free once the cost is noted: sooner, another question would be asked with money that is spent.
    _place: Option<OwnedSemaphorePermit>,
}

/// Result of a question that was answered and has to be paid.
#[derive(Debug)]
pub(super) enum AnswerCheck {
    Answer(SentinelAnswer),
    Refused(String),
    /// An answer in the wrong form: its text, and the reason.
    Flawed(String, String),
}

impl SentinelModel {
    /// Loads the model of a sentinel with its prompts and its schema, and waits for the disk. The error states why it
    /// cannot be asked.
    pub(super) fn of(
        entry: &SentinelEntry,
        config: &SentinelConfig,
        context: &Context,
        loaded: &LoadedHank,
    ) -> Result<Self, String> {
        endpoint(config, context).map_err(|error| error.to_string())?;
        let read = |file: &String| {
            let text = loaded.read_ref(&*context.world.disk, file);
            text.map_err(|error| format!("`{file}` {}", crate::error::chain(&error)))
        };
        let texts = |files: Vec<String>, text: &Option<String>| -> Result<Vec<String>, String> {
            let mut texts = files.iter().map(read).collect::<Result<Vec<_>, _>>()?;
            texts.extend(text.clone());
            Ok(texts)
        };
        let joined = |texts: Vec<String>| join(texts.iter().map(String::as_str));
        let system = texts(config.system_prompt_files(entry), &config.system_prompt_text)?;
        let form = config.structured_output.as_ref().map(|structured| {
            let file = config.schema_file(entry).as_ref().map(read).transpose()?;
            let schema = structured.schema_str.clone().or(file);
            CheckedForm::of(AnswerSchema::of(structured, schema.as_deref())?)
        });
        Ok(Self {
            params: config.llm_params.unwrap_or_default(),
            system: (!system.is_empty()).then(|| joined(system)),
            prompt: joined(texts(config.user_prompt_files(entry), &config.user_prompt_text)?),
            form: form.transpose()?,
            prices: Arc::clone(&context.prices),
            config: config.clone(),
        })
    }

    /// The template of its prompt.
    pub(super) fn prompt(&self) -> &str {
        &self.prompt
    }

    /// The question about what the sentinel acts on. Takes a while where the template is large.
    pub(super) fn question(
        self: Arc<Self>,
        context: &Context,
        firing: &Firing,
        before: Vec<Exchange>,
    ) -> Result<PendingQuestion, CallError> {
        let events = firing.events.iter();
        let given = PromptContext {
            sentinel_id: self.config.id.as_str(),
            run_id: context.run.as_str(),
            codon_id: context.codon.as_str(),
            trigger: firing.number,
            events: events
                .filter_map(|event| serde_json::from_str(&event.line).ok())
                .collect(),
        };
        let prompt = render_prompt(&self.prompt, &given)?;
        Ok(PendingQuestion {
            question: Question {
                model: endpoint(&self.config, context)?.model,
                system: self.system.clone(),
                before,
                prompt: prompt.clone(),
                temperature: self.params.temperature,
                max_output_tokens: self.params.max_output_tokens.unwrap_or(MOST_OUTPUT_TOKENS),
                form: self.form.as_ref().map(|form| form.form().clone()),
            },
            model: self,
            prompt,
            cost: Usd::ZERO,
            tokens: TokenUsage::ZERO,
            uncounted: 0,
            is_repaired: false,
        })
    }

    /// Returns the cost of a reply: that of its provider, else of its tokens at their price; `None` where it is unknown.
    fn cost(&self, endpoint: &ModelEndpoint, reply: &ModelReply) -> Option<Usd> {
        if let Some(cost) = reply.cost.filter(|_| endpoint.reports_cost) {
            return Some(cost);
        }
        let price = |tokens: TokenUsage| Billed::from(tokens).price(self.config.model_name(), &self.prices);
        let is_reported = reply.tokens != TokenUsage::ZERO;
        match price(reply.tokens) {
            Some(cost) => Some(cost).filter(|_| is_reported || price(A_MILLION_OF_EACH) == Some(Usd::ZERO)),
            // A model on this machine sends no bill.
            None => endpoint.is_local().then_some(Usd::ZERO),
        }
    }

    /// Checks the model's reply, and returns an answer if it is one.
    fn check_answer(&self, said: ReplyBody) -> AnswerCheck {
        let (text, object) = match (said, &self.form) {
            (ReplyBody::Refused(why), _) => return AnswerCheck::Refused(why),
            (ReplyBody::Text(text), None) => return AnswerCheck::Answer(SentinelAnswer::of_text(text)),
            (ReplyBody::Object(object), None) => {
                return AnswerCheck::Answer(SentinelAnswer::of_text(object.to_string()));
            }
            (ReplyBody::Text(text), Some(_)) => {
                let object = AnswerSchema::parse(&text);
                (text, object)
            }
            (ReplyBody::Object(object), Some(_)) => (object.to_string(), Ok(object)),
        };
        let checked = |object| match &self.form {
            Some(form) => form.answer(object),
            None => Ok(object),
        };
        match object.and_then(checked) {
            Ok(value) => AnswerCheck::Answer(SentinelAnswer::of_value(value)),
            Err(why) => AnswerCheck::Flawed(text, why),
        }
    }

    async fn ask(&self, context: &Context, question: &Question) -> Result<(ModelReply, Bill), CallError> {
        let endpoint = endpoint(&self.config, context)?;
        let mut body = request_body(endpoint.api, question);
        if endpoint.reports_cost {
            body["usage"] = json!({"include": true});
        }
        let body = body.to_string().into_bytes();
        let most = self.params.max_retries.unwrap_or(MOST_RETRIES);
        let (mut retries, mut wait, mut uncounted) = (0, FIRST_WAIT, 0);
        let mut place = context.allowance.admit().await;
        loop {
            if place.is_none() {
                return Err(CallError::Withheld(context.allowance.why_closed()));
            }
            let refusal = match self.ask_once(context, &endpoint, body.clone()).await {
                Ok(reply) => {
                    let cost = self.cost(&endpoint, &reply);
                    let bill = Bill {
                        uncounted: uncounted + u64::from(cost.is_none()),
                        cost: cost.unwrap_or(Usd::ZERO),
                        _place: place.take(),
                    };
                    return Ok((reply, bill));
                }
                Err(refusal) => refusal,
            };
            // Others may ask while this one waits.
            drop(place.take());
            uncounted += u64::from(refusal.billable);
            let asked_for = refusal.retry_after.unwrap_or(wait);
            if !refusal.retriable || retries == most || asked_for > LONGEST_WAIT {
                return Err(CallError::Model(refusal, uncounted));
            }
            tokio::select! {
                biased;
                () = context.allowance.closed() => {}
                () = tokio::time::sleep(asked_for) => place = context.allowance.admit().await,
            }
            // A question that is not asked again stays without an answer.
            if place.is_none() {
                return Err(CallError::Model(refusal, uncounted));
            }
            retries += 1;
            wait *= 2;
        }
    }

    async fn ask_once(
        &self,
        context: &Context,
        endpoint: &ModelEndpoint,
        body: Vec<u8>,
    ) -> Result<ModelReply, CallRefusal> {
        let variables = child_environment(&context.world.environment, &context.env);
        let fixed = endpoint.api.headers().iter();
        let own = |(name, value): (&'static str, String)| (Cow::Borrowed(name), value);
        let mut headers: Vec<_> = fixed
            .map(|(name, value)| own((name, (*value).to_owned())))
            .collect();
        let key = endpoint
            .key_variable
            .as_ref()
            .and_then(|name| variables.get(&OsString::from(name)));
        headers.extend(key.and_then(|key| Some(own(endpoint.api.key_header(key.to_str()?)))));
        let request = HttpRequest {
            url: endpoint.url.clone(),
            headers,
            body,
            timeout: self.config.timeout(),
        };
        let answer = context.world.http.post(request).await.map_err(unanswered);
        let reply = answer.and_then(|answer| {
            read_reply(
                endpoint.api,
                answer.status,
                answer.retry_after.as_deref(),
                &answer.body,
            )
        });
        // Some providers quote the key that they refuse.
        reply.map_err(|refusal| CallRefusal {
            message: Secrets::of(&variables).redact(&refusal.message).into_owned(),
            ..refusal
        })
    }
}

impl PendingQuestion {
    /// Asks, and checks the answer. Returns the question with its bill.
    pub(super) async fn ask(mut self, context: &Context) -> Result<(Self, Bill, AnswerCheck), CallError> {
        let (ModelReply { said, tokens, .. }, bill) = self.model.ask(context, &self.question).await?;
        self.cost += bill.cost;
        self.uncounted += bill.uncounted;
        self.tokens += tokens;
        let model = Arc::clone(&self.model);
        let judged = context.world.blocking.run(move || model.check_answer(said)).await;
        Ok((self, bill, judged))
    }

    /// Asks again, with the problem of the answer.
    pub(super) fn repaired(self, said: String, why: &str) -> Self {
        Self {
            question: self.question.repaired(said, why),
            is_repaired: true,
            ..self
        }
    }
}

/// Returns the model's endpoint, by the variables of its codon.
fn endpoint(config: &SentinelConfig, context: &Context) -> Result<ModelEndpoint, EndpointError> {
    let variables = child_environment(&context.world.environment, &context.env);
    ModelEndpoint::of(config, |name| {
        let value = variables.get(&OsString::from(name))?.to_str()?;
        (!value.is_empty()).then(|| value.to_owned())
    })
}

fn unanswered(error: HttpError) -> CallRefusal {
    let message = error.to_string();
    CallRefusal {
        retriable: classify(&message, false).retriable,
        fatal: matches!(error, HttpError::Unavailable(_)),
        billable: match error {
            HttpError::Timeout(_) | HttpError::Network(_) | HttpError::TooLong => true,
            HttpError::Unreached(_) | HttpError::Unavailable(_) => false,
        },
        retry_after: None,
        message,
    }
}
