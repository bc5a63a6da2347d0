//! HTTP in front of the script: paths, bodies, and the steps of a stream played in time.

use std::convert::Infallible;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use super::ids::Ids;
use super::log::{Asked, AskedKind, Served};
use super::reply::{Reply, Variables};
use super::request::{Dialect, ModelRequest, estimated_tokens};
use super::scenario::{Cut, Failure, Scenario};
use super::script::{Picked, Script};
use super::steps::{Step, stream_steps};

/// Everything that the connections of one server share.
pub(super) struct Shared {
    pub(super) script: Mutex<Script>,
    pub(super) asked: Mutex<Vec<Asked>>,
    pub(super) served: Arc<Ledger>,
    pub(super) variables: Variables,
    pub(super) on_request: Box<dyn Fn(&Asked) + Send + Sync>,
    pub(super) ids: Ids,
    pub(super) started: Instant,
}

/// Ends a connection in the middle, as a script demands.
#[derive(Debug, thiserror::Error)]
#[error("the script cuts the connection here")]
pub(super) struct Dropped;

type Body = UnsyncBoxBody<Bytes, Dropped>;

/// Answers one request.
pub(super) async fn answer(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Dropped> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().trim_end_matches('/').to_owned();
    // A body that breaks off has no reader left for any answer.
    let bytes = body.collect().await.map_err(|_| Dropped)?.to_bytes();
    let asked = |kind| Asked {
        at_ms: u64::try_from(shared.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        method: parts.method.to_string(),
        path: path.clone(),
        kind,
    };
    let posted = parts.method == Method::POST;
    if let Some(dialect) = Dialect::of_path(&path).filter(|_| posted) {
        return model_turn(&shared, (dialect, &path), &parts.headers, &bytes, asked).await;
    }
    let (kind, response) = if posted {
        control(&shared, &path, &bytes)
    } else {
        probe(&shared, &path, &parts.method)
    };
    shared.note(asked(kind));
    Ok(response)
}

impl Shared {
    pub(super) fn note(&self, asked: Asked) {
        (self.on_request)(&asked);
        lock(&self.asked).push(asked);
    }
}

/// A test that failed while it held the lock must not hide the log from others.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn control(shared: &Shared, path: &str, bytes: &Bytes) -> (AskedKind, Response<Body>) {
    if path.ends_with("/count_tokens") || path.ends_with(":countTokens") {
        let tokens = estimated_tokens(bytes.len());
        let told = json!({"input_tokens": tokens, "totalTokens": tokens});
        return (AskedKind::CountTokens, document(StatusCode::OK, &told));
    }
    if !path.ends_with("/__scenario") {
        return (AskedKind::Unknown, not_found());
    }
    let text = String::from_utf8_lossy(bytes);
    let response = match text.parse::<Scenario>() {
        Ok(scenario) => {
            *lock(&shared.script) = Script::new(scenario);
            document(StatusCode::OK, &json!({"ok": true}))
        }
        Err(error) => document(
            StatusCode::BAD_REQUEST,
            &json!({"ok": false, "message": error.to_string()}),
        ),
    };
    (AskedKind::Scenario, response)
}

fn probe(shared: &Shared, path: &str, method: &Method) -> (AskedKind, Response<Body>) {
    let answer = |value: &Value| (AskedKind::Probe, document(StatusCode::OK, value));
    if method == Method::HEAD || path.is_empty() || path.ends_with("/health") {
        return answer(&json!({"ok": true}));
    }
    let script = lock(&shared.script);
    if path.ends_with("/__state") {
        let lanes = script
            .served()
            .map(|(name, served)| json!({"name": name, "served": served}));
        return answer(&json!({"scenario": script.scenario.name, "lanes": lanes.collect::<Vec<_>>()}));
    }
    if path.ends_with("/models") {
        return answer(&model_list(&script.scenario.models));
    }
    (AskedKind::Unknown, not_found())
}

fn model_list(models: &[String]) -> Value {
    let entry = |id: &String| json!({"id": id, "type": "model", "object": "model", "display_name": id});
    let (first, last) = (models.first(), models.last());
    let data: Vec<Value> = models.iter().map(entry).collect();
    json!({"object": "list", "data": data, "has_more": false, "first_id": first, "last_id": last})
}

async fn model_turn(
    shared: &Shared,
    (dialect, path): (Dialect, &str),
    headers: &HeaderMap,
    bytes: &Bytes,
    asked: impl Fn(AskedKind) -> Asked,
) -> Result<Response<Body>, Dropped> {
    let Ok(body) = serde_json::from_slice::<Value>(bytes) else {
        let failure = invalid_request("the body is not JSON");
        shared.note(asked(AskedKind::Unknown));
        return Ok(refusal(dialect, &failure, &shared.ids));
    };
    let request = ModelRequest::new(dialect, body, bytes.len()).at(path);
    let (picked, failure) = {
        let mut script = lock(&shared.script);
        let picked = script.pick(&request);
        let failure = refused(&script.scenario, headers, &request).or_else(|| picked.turn.error.clone());
        (picked, failure)
    };
    let response = prepare(shared, &picked, &request, failure.as_ref());
    let status = response.as_ref().ok().map(|response| response.status().as_u16());
    shared.note(asked(model_call(&picked, request, status)));
    tokio::time::sleep(Duration::from_millis(picked.turn.delay_ms)).await;
    response
}

/// Decides on the whole answer, without waiting for anything.
fn prepare(
    shared: &Shared,
    picked: &Picked,
    request: &ModelRequest,
    failure: Option<&Failure>,
) -> Result<Response<Body>, Dropped> {
    if picked.turn.drop == Some(Cut::BeforeHeaders) {
        return Err(Dropped);
    }
    if let Some(failure) = failure {
        return Ok(refusal(request.dialect, failure, &shared.ids));
    }
    let reply = Reply::new(picked, request, &shared.variables, &shared.ids);
    let meter = Meter::new(shared, &picked.lane, &reply);
    if !request.stream {
        meter.sent(usize::MAX);
        return Ok(document(StatusCode::OK, &request.dialect.whole(&reply)));
    }
    let frames = request.dialect.stream(&reply);
    let stream_error = picked.turn.stream_error.as_ref();
    let error = stream_error.map(|failure| request.dialect.error_frame(failure, &shared.ids));
    let steps = stream_steps(&picked.turn, &frames, error.as_ref());
    let meter = Meter {
        whole_after: frames.len().saturating_sub(request.dialect.frames_behind_usage()),
        ..meter
    };
    Ok(event_stream(steps, meter))
}

/// Served requests, and the signal for threads that wait for more of them.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) served: Mutex<Vec<Served>>,
    pub(super) changed: Condvar,
}

/// Notes how much of one answer was sent.
struct Meter {
    served: Arc<Ledger>,
    index: usize,
    whole_after: usize,
}

impl Meter {
    fn new(shared: &Shared, lane: &str, reply: &Reply<'_>) -> Self {
        let usage = reply.usage;
        let mut served = lock(&shared.served.served);
        served.push(Served {
            lane: lane.to_owned(),
            input: usage.input,
            output: usage.output,
            cache_creation: usage.cache_creation,
            cache_creation_1h: usage.cache_creation_1h,
            cache_read: usage.cache_read,
            web_searches: usage.web_searches,
            begun: false,
            whole: false,
        });
        Self {
            served: Arc::clone(&shared.served),
            index: served.len() - 1,
            whole_after: 0,
        }
    }

    fn sent(&self, frames: usize) {
        let mut served = lock(&self.served.served);
        served[self.index].begun = true;
        served[self.index].whole |= frames >= self.whole_after;
        self.served.changed.notify_all();
    }
}

/// The rules that hold for a whole scenario: the key and the size of the context.
fn refused(scenario: &Scenario, headers: &HeaderMap, request: &ModelRequest) -> Option<Failure> {
    if scenario
        .require_key
        .as_deref()
        .is_some_and(|wanted| key(headers) != Some(wanted))
    {
        return Some(Failure {
            status: 401,
            kind: "authentication_error".to_owned(),
            code: Some("invalid_api_key".to_owned()),
            message: "invalid x-api-key".to_owned(),
            ..Failure::default()
        });
    }
    let limit = scenario.context_limit.filter(|limit| request.tokens > *limit)?;
    Some(Failure {
        code: Some("context_length_exceeded".to_owned()),
        ..invalid_request(&format!(
            "prompt is too long: {} tokens > {limit} maximum",
            request.tokens
        ))
    })
}

fn invalid_request(message: &str) -> Failure {
    Failure {
        status: 400,
        kind: "invalid_request_error".to_owned(),
        message: message.to_owned(),
        ..Failure::default()
    }
}

fn key(headers: &HeaderMap) -> Option<&str> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let named = text("x-api-key").or_else(|| text("x-goog-api-key"));
    named.or_else(|| text("authorization")?.strip_prefix("Bearer "))
}

fn model_call(picked: &Picked, request: ModelRequest, status: Option<u16>) -> AskedKind {
    AskedKind::Model {
        dialect: request.dialect,
        lane: picked.lane.clone(),
        turn: picked.index,
        model: request.model,
        stream: request.stream,
        messages: request.messages.len(),
        tools: request.tools.into_iter().map(|tool| tool.name).collect(),
        status,
        body: request.body,
    }
}

fn refusal(dialect: Dialect, failure: &Failure, ids: &Ids) -> Response<Body> {
    let status = StatusCode::from_u16(failure.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = document(status, &dialect.error(failure, ids));
    for (name, value) in &failure.headers {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(&text)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn not_found() -> Response<Body> {
    let error = json!({"type": "not_found_error", "message": "no such endpoint"});
    document(StatusCode::NOT_FOUND, &json!({"type": "error", "error": error}))
}

fn document(status: StatusCode, value: &Value) -> Response<Body> {
    let body = Full::from(value.to_string()).map_err(|never: Infallible| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn event_stream(steps: Vec<Step>, meter: Meter) -> Response<Body> {
    let begin = (steps.into_iter(), 0, meter);
    let frames = stream::unfold(begin, async |(mut steps, sent, meter)| {
        let frame = play(&mut steps).await?;
        let sent = sent + 1;
        if frame.is_ok() {
            meter.sent(sent);
        }
        Some((frame, (steps, sent, meter)))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Continues to the next bytes, or to the break of the connection; `None` is the orderly end.
async fn play(steps: &mut impl Iterator<Item = Step>) -> Option<Result<Frame<Bytes>, Dropped>> {
    loop {
        match steps.next()? {
            Step::Send(bytes) => return Some(Ok(Frame::data(bytes.into()))),
            Step::Wait(time) => tokio::time::sleep(time).await,
            Step::Stall => std::future::pending().await,
            Step::Break => {
                // The pause lets the connection send earlier output before it is cut.
                tokio::task::yield_now().await;
                return Some(Err(Dropped));
            }
        }
    }
}
