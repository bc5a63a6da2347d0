//! The provider of models: it lives on when the machine dies, and what it has served is the truth about money.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, pending};
use hankweave_core::cost::Usd;
use hankweave_core::document::HankweaveState;
use hankweave_runtime::world::http::{Http, HttpAnswer, HttpError, HttpRequest};

use crate::check::{Broken, document};
use crate::disk::SimDisk;
use crate::machine::{Witness, state_dir};
use crate::rng::Rng;

/// A sentinel that asks a model at each message of the agent; no request is repeated.
pub(crate) const SENTINEL: &str = r#"{"sentinelConfig":{"id":"s","name":"S","model":"anthropic/claude-haiku-4-5","userPromptText":"x",
    "trigger":{"type":"event","on":["assistant.action"]},"execution":{"strategy":"immediate"},
    "llmParams":{"maxRetries":0},"timeoutSeconds":30,"errorHandling":{"maxConsecutiveFailures":100}}}"#;

/// Price of one whole answer: a thousand tokens in, none out.
const PRICE: Usd = Usd::from_micros(1_000);

const ANSWER: &str =
    r#"{"content":[{"type":"text","text":"said"}],"usage":{"input_tokens":1000,"output_tokens":0}}"#;

/// Requests and answers of all lives.
#[derive(Debug, Clone)]
pub(crate) struct Provider(Arc<Mutex<Books>>);

#[derive(Debug)]
struct Books {
    rng: Rng,
    asked: u64,
    /// Whole answers that came through, in all lives and in the present one.
    served: u64,
    served_now: u64,
    lives: u64,
}

impl Provider {
    pub(crate) fn new(rng: Rng) -> Self {
        Self(Arc::new(Mutex::new(Books {
            rng,
            asked: 0,
            served: 0,
            served_now: 0,
            lives: 0,
        })))
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whole answers that came through, in all lives.
    pub(crate) fn served(&self) -> u64 {
        self.books().served
    }

    /// The way of a new life to it.
    pub(crate) fn line(&self, disk: &SimDisk, witness: &Witness) -> Line {
        let mut books = self.books();
        books.lives += 1;
        books.served_now = 0;
        drop(books);
        Line {
            provider: self.clone(),
            disk: disk.clone(),
            witness: witness.clone(),
        }
    }

    /// Whether the record has every answer but those that came when a life ended, and none twice.
    pub(crate) fn check(&self, state: &HankweaveState) -> Result<(), Broken> {
        let books = self.books();
        let recorded = recorded(state).1;
        let (least, most) = (
            PRICE.times(books.served.saturating_sub(books.lives)),
            PRICE.times(books.served),
        );
        match (least..=most).contains(&recorded) {
            true if recorded < most && !state.cost_is_lower_bound() => Err(format!(
                "SENT-21: {recorded:?} is recorded of {books:?} as all of it"
            )),
            true => Ok(()),
            false => Err(format!("SENT-10: {recorded:?} is recorded of {books:?}")),
        }
    }
}

/// The calls of all sentinels and their costs.
fn recorded(state: &HankweaveState) -> (u64, Usd) {
    let codons = || state.runs.iter().flat_map(|run| &run.codons);
    let calls = codons()
        .flat_map(|codon| codon.sentinels())
        .map(|sentinel| sentinel.llm_call_count);
    (calls.sum(), codons().map(|codon| codon.sentinel_cost()).sum())
}

/// The provider as one life of the runtime sees it.
pub(crate) struct Line {
    provider: Provider,
    disk: SimDisk,
    witness: Witness,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").finish_non_exhaustive()
    }
}

impl Line {
    /// Checks a promise at a request to a model, even if the power went at this moment: the call is on record, and so is
    /// the cost of every answer in this life.
    fn check(&self) -> Result<(), Broken> {
        let books = self.provider.books();
        let (calls, cost) = recorded(&document(&self.disk.durable(), &state_dir())?);
        if calls < books.asked || cost < PRICE.times(books.served_now) {
            return Err(format!(
                "SENT-10: {calls} calls and {cost:?} are durable of {books:?}"
            ));
        }
        Ok(())
    }
}

impl Http for Line {
    fn post(&self, _: HttpRequest) -> BoxFuture<'_, Result<HttpAnswer, HttpError>> {
        self.provider.books().asked += 1;
        self.witness.check(self.check());
        let (fate, wait) = {
            let rng = &mut self.provider.books().rng;
            (rng.within(0..8), Duration::from_millis(rng.within(0..20_000)))
        };
        let answer = |status, body: &str| {
            Ok(HttpAnswer {
                status,
                retry_after: None,
                body: body.into(),
            })
        };
        async move {
            tokio::time::sleep(wait).await;
            match fate {
                0 => answer(500, "{}"),
                1 => answer(200, "<html>"),
                2 => Err(HttpError::Network("it is down".to_owned())),
                3 => pending().await,
                _ => {
                    let mut books = self.provider.books();
                    books.served += 1;
                    books.served_now += 1;
                    answer(200, ANSWER)
                }
            }
        }
        .boxed()
    }
}
