//! Asks the model of a sentinel (SENT-15 to SENT-18), and adds up the known part of its cost (SENT-21). [`SentinelModel::question`] makes a question,
//! [`PendingQuestion::ask`] asks it with all retries, and [`PendingQuestion::repaired`] makes the next question if the answer has the wrong form.

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

/// Tokens of every kind. If they cost nothing, the model is free.
const A_MILLION_OF_EACH: TokenUsage = TokenUsage {
    input_tokens: 1_000_000,
    output_tokens: 1_000_000,
    cache_creation_tokens: 1_000_000,
    cache_read_tokens: 1_000_000,
};

/// Longest wait before another attempt. If a provider asks for a longer one, the question fails.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Model of a sentinel, with everything that each request to it contains.
#[derive(Debug)]
pub(super) struct SentinelModel {
    config: SentinelConfig,
    params: LlmParams,
    /// System prompt.
    system: Option<String>,
    /// Template of the prompt.
    prompt: String,
    /// Form that answers must have.
    form: Option<CheckedForm>,
    prices: Arc<Prices>,
}

/// A question without a valid answer yet, and its cost so far.
#[derive(Debug)]
pub(super) struct PendingQuestion {
    pub(super) model: Arc<SentinelModel>,
    /// Prompt of the question, for the conversation that the sentinel remembers; without the request to repair an answer.
    pub(super) prompt: String,
    question: Question,
    /// Known cost of all its requests.
    pub(super) cost: Usd,
    pub(super) tokens: TokenUsage,
    /// Number of its requests whose cost is unknown.
    pub(super) uncounted: u64,
    /// Whether it asks to repair an answer of the wrong form.
    pub(super) is_repaired: bool,
}

/// Cost of one request and of the failed ones before it.
#[derive(Debug)]
pub(super) struct Bill {
    pub(super) cost: Usd,
    /// Number of requests with unknown cost.
    pub(super) uncounted: u64,
    /// Place of the request in the allowance. It is held until the bill is dropped, after its cost was recorded: otherwise another question could be asked with
    /// money that is spent already.
    _place: Option<OwnedSemaphorePermit>,
}

/// Result of checking the reply of a model, which costs money in any case.
#[derive(Debug)]
pub(super) enum AnswerCheck {
    Answer(SentinelAnswer),
    /// The model refuses to answer, for this reason.
    Refused(String),
    /// An answer in the wrong form: its text, and the reason.
    Flawed(String, String),
}

impl SentinelModel {
    /// Loads the model of a sentinel with its prompts and its schema. Waits for the disk. The error states why the model
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

    /// Returns the template of the prompt.
    pub(super) fn prompt(&self) -> &str {
        &self.prompt
    }

    /// Makes the question about the events of `firing`, which follows the exchanges `before`. Takes a while where the template is large.
    pub(super) fn question(
        self: Arc<Self>,
        context: &Context,
        firing: &Firing,
        before: Vec<Exchange>,
    ) -> Result<PendingQuestion, CallError> {
        let events = firing.events.iter();
        let values = PromptContext {
            sentinel_id: self.config.id.as_str(),
            run_id: context.run.as_str(),
            codon_id: context.codon.as_str(),
            trigger: firing.number,
            events: events
                .filter_map(|event| serde_json::from_str(&event.line).ok())
                .collect(),
        };
        let prompt = render_prompt(&self.prompt, &values)?;
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

    /// Returns the cost of a reply: the one that the provider reports, else the price of its tokens; `None` where the cost is unknown.
    fn cost(&self, endpoint: &ModelEndpoint, reply: &ModelReply) -> Option<Usd> {
        if let Some(cost) = reply.cost.filter(|_| endpoint.reports_cost) {
            return Some(cost);
        }
        let price = |tokens: TokenUsage| Billed::from(tokens).price(self.config.model_name(), &self.prices);
        let has_tokens = reply.tokens != TokenUsage::ZERO;
        match price(reply.tokens) {
            // Without reported tokens the cost is known only of a free model.
            Some(cost) => Some(cost).filter(|_| has_tokens || price(A_MILLION_OF_EACH) == Some(Usd::ZERO)),
            // A model on this machine sends no bill.
            None => endpoint.is_local().then_some(Usd::ZERO),
        }
    }

    /// Checks whether the model's reply is an answer, in the form that is asked for.
    fn check_answer(&self, reply: ReplyBody) -> AnswerCheck {
        let (text, object) = match (reply, &self.form) {
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

    /// Asks until there is a reply, with a place in the allowance for each request. Failed requests are repeated where that may help.
    async fn ask(&self, context: &Context, question: &Question) -> Result<(ModelReply, Bill), CallError> {
        let endpoint = endpoint(&self.config, context)?;
        let mut body = request_body(endpoint.api, question);
        if endpoint.reports_cost {
            body["usage"] = json!({"include": true});
        }
        let body = body.to_string().into_bytes();
        let max_retries = self.params.max_retries.unwrap_or(MOST_RETRIES);
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
            // Other sentinels may use the place during the wait.
            drop(place.take());
            uncounted += u64::from(refusal.billable);
            let this_wait = refusal.retry_after.unwrap_or(wait);
            if !refusal.retriable || retries == max_retries || this_wait > LONGEST_WAIT {
                return Err(CallError::Model(refusal, uncounted));
            }
            tokio::select! {
                biased;
                () = context.allowance.closed() => {}
                () = tokio::time::sleep(this_wait) => place = context.allowance.admit().await,
            }
            // The allowance has closed, so the question is not asked again.
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
        let header = |(name, value): (&'static str, String)| (Cow::Borrowed(name), value);
        let fixed = endpoint.api.headers().iter();
        let mut headers: Vec<_> = fixed
            .map(|(name, value)| header((name, (*value).to_owned())))
            .collect();
        let key = endpoint
            .key_variable
            .as_ref()
            .and_then(|name| variables.get(&OsString::from(name))?.to_str());
        headers.extend(key.map(|key| header(endpoint.api.key_header(key))));
        let request = HttpRequest {
            url: endpoint.url.clone(),
            headers,
            body,
            timeout: self.config.timeout(),
        };
        let answer = context.world.http.post(request).await.map_err(http_refusal);
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
    /// Asks, and checks the reply. Returns the question, the bill of its newest requests, and the result of the check.
    pub(super) async fn ask(mut self, context: &Context) -> Result<(Self, Bill, AnswerCheck), CallError> {
        let (ModelReply { said, tokens, .. }, bill) = self.model.ask(context, &self.question).await?;
        self.cost += bill.cost;
        self.uncounted += bill.uncounted;
        self.tokens += tokens;
        let model = Arc::clone(&self.model);
        let check = context.world.blocking.run(move || model.check_answer(said)).await;
        Ok((self, bill, check))
    }

    /// Returns the question that asks the model to repair its answer `said`, whose problem is `why`.
    pub(super) fn repaired(self, said: String, why: &str) -> Self {
        Self {
            question: self.question.repaired(said, why),
            is_repaired: true,
            ..self
        }
    }
}

/// Returns the model's endpoint, which may depend on environment variables of the codon.
fn endpoint(config: &SentinelConfig, context: &Context) -> Result<ModelEndpoint, EndpointError> {
    let variables = child_environment(&context.world.environment, &context.env);
    ModelEndpoint::of(config, |name| {
        let value = variables.get(&OsString::from(name))?.to_str()?;
        (!value.is_empty()).then(|| value.to_owned())
    })
}

/// Returns the refusal for a request without an answer.
fn http_refusal(error: HttpError) -> CallRefusal {
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
