//! The model server over real connections: every dialect, every fault, and equality with another implementation.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers as well"
)]

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;

use bytes::Bytes;
use hankweave_testing::model_server::{Asked, AskedKind, Options};
use hankweave_testing::{ModelServer, Scenario};
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

const MESSAGES: &str = "/v1/messages";

fn server(scenario: Value) -> ModelServer {
    ModelServer::start(Scenario::try_from(scenario).unwrap()).unwrap()
}

/// An answer. `whole` is false if the connection broke before its end.
struct Got {
    status: u16,
    headers: hyper::HeaderMap,
    text: String,
    whole: bool,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    /// The data of a stream, event names left out; `[DONE]` stays a text.
    fn events(&self) -> Vec<Value> {
        let data = self.text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap_or_else(|_| json!(data)))
            .collect()
    }
}

/// Sends one request; `None` when the connection broke before an answer began.
fn send(url: &str, method: Method, path: &str, headers: &[(&str, &str)], body: &Value) -> Option<Got> {
    let stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "127.0.0.1");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::<Bytes>::from(body.to_string())).unwrap();
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async {
            let stream = TokioIo::new(tokio::net::TcpStream::from_std(stream).unwrap());
            let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
            let connection = tokio::spawn(connection);
            let response = sender.send_request(request).await.ok()?;
            let (parts, mut body) = response.into_parts();
            let (mut bytes, mut whole) = (Vec::new(), true);
            while let Some(frame) = body.frame().await {
                match frame {
                    Ok(frame) => bytes.extend_from_slice(&frame.into_data().unwrap()),
                    Err(_) => {
                        whole = false;
                        break;
                    }
                }
            }
            connection.abort();
            let text = String::from_utf8(bytes).unwrap();
            Some(Got {
                status: parts.status.as_u16(),
                headers: parts.headers,
                text,
                whole,
            })
        })
}

fn ask(server: &ModelServer, path: &str, body: &Value) -> Got {
    send(&server.url(), Method::POST, path, &[], body).expect("the server answers")
}

fn question(stream: bool) -> Value {
    json!({
        "model": "m", "stream": stream, "max_tokens": 10, "system": "Working directory: /w",
        "messages": [{"role": "user", "content": "hello"}],
        "tools": [{"name": "Write", "input_schema": {"properties": {"file_path": {}, "content": {}}}}],
    })
}

fn rich_turn() -> Value {
    json!({
        "thinking": "Let me see.", "text": "Größe — 日本語 — \u{2028} — \"quoted\"", "chunks": 4,
        "tools": [{"op": "write", "path": "${CWD}/a.txt", "content": "a\n"}, {"name": "Other", "input": {"x": 1}}],
        "usage": {"input": 1000, "output": 50, "cache_creation": 200, "cache_read": 30},
    })
}

#[test]
fn an_anthropic_document_holds_every_block_and_the_usage() {
    let server = server(json!({"turns": [rich_turn()]}));
    let message = ask(&server, MESSAGES, &question(false)).json();
    let kinds: Vec<_> = message["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| &block["type"])
        .collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use", "tool_use"]);
    assert_eq!(
        message["content"][2]["input"],
        json!({"file_path": "/w/a.txt", "content": "a\n"})
    );
    assert_eq!(message["stop_reason"], "tool_use");
    assert_eq!(message["usage"]["output_tokens"], 50);
    assert_eq!(
        message["usage"]["cache_creation"]["ephemeral_5m_input_tokens"],
        200
    );
}

#[test]
fn an_anthropic_stream_adds_up_to_the_document() {
    let whole = ask(
        &server(json!({"turns": [rich_turn()]})),
        MESSAGES,
        &question(false),
    )
    .json();
    let got = ask(
        &server(json!({"turns": [rich_turn()]})),
        MESSAGES,
        &question(true),
    );
    assert_eq!(got.headers["content-type"], "text/event-stream");
    assert!(got.whole);
    assert_eq!(without_ids(folded(&got.events())), without_ids(whole));
}

#[test]
fn gemini_is_answered_in_its_own_words() {
    let server =
        server(json!({"after": rich_turn(), "turns": [{"error": {"status": 429, "message": "slow down"}}]}));
    let question = json!({
        "systemInstruction": {"parts": [{"text": "Working directory: /w"}]},
        "contents": [{"role": "user", "parts": [{"text": "hello"}]}, {"role": "model", "parts": [{"text": "hi"}]}],
        "tools": [{"functionDeclarations": [{"name": "write_file", "parametersJsonSchema": {"properties": {"file_path": {}, "content": {}}}}]}],
    });
    let path = |method: &str| format!("/v1beta/models/gemini-2.5-pro:{method}");
    let refused = ask(&server, &path("generateContent"), &question);
    assert_eq!(refused.status, 429);
    assert_eq!(refused.json()["error"]["status"], "RESOURCE_EXHAUSTED");
    let whole = ask(&server, &path("generateContent"), &question).json();
    let content = &whole["candidates"][0]["content"];
    assert_eq!(content["parts"][0]["thought"], true);
    assert_eq!(
        content["parts"][2]["functionCall"]["args"]["file_path"],
        "/w/a.txt"
    );
    assert_eq!(whole["usageMetadata"]["promptTokenCount"], 1230);
    assert_eq!(whole["modelVersion"], "gemini-2.5-pro");
    let pieces = ask(&server, &path("streamGenerateContent?alt=sse"), &question).events();
    let parts = pieces
        .iter()
        .flat_map(|piece| piece["candidates"][0]["content"]["parts"].as_array());
    let said = parts.flatten().filter(|part| part["thought"].is_null());
    let said: String = said.filter_map(|part| part["text"].as_str()).collect();
    assert_eq!(said, rich_turn()["text"]);
    assert_eq!(pieces.last().unwrap()["candidates"][0]["finishReason"], "STOP");
    let counted = ask(&server, &path("countTokens"), &question).json();
    assert!(counted["totalTokens"].as_u64().is_some_and(|tokens| tokens > 10));
    assert!(server.served().last().is_some_and(|served| served.whole));
}

#[test]
fn the_other_dialects_answer_in_their_own_words() {
    let server = server(json!({"after": rich_turn(), "turns": []}));
    let chat = ask(&server, "/v1/chat/completions", &question(false)).json();
    assert_eq!(chat["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(chat["usage"]["prompt_tokens"], 1230);
    let chunks = ask(&server, "/v1/chat/completions", &question(true)).events();
    assert_eq!(chunks.last().unwrap(), "[DONE]");
    let said: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(said, rich_turn()["text"]);

    let response = ask(&server, "/v1/responses", &question(false)).json();
    let kinds: Vec<_> = response["output"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["type"])
        .collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call", "function_call"]);
    let events = ask(&server, "/v1/responses", &question(true)).events();
    let numbers: Vec<_> = events
        .iter()
        .map(|event| event["sequence_number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    assert_eq!(
        events.last().unwrap()["response"]["output"][1]["content"][0]["text"],
        rich_turn()["text"]
    );
}

#[test]
fn a_wrong_key_is_refused_and_a_right_one_is_not() {
    let server = server(json!({"require_key": "sk-good", "turns": [{"text": "in"}, {"text": "in"}]}));
    let with = |headers: &[(&str, &str)]| {
        send(&server.url(), Method::POST, MESSAGES, headers, &question(false)).unwrap()
    };
    let refused = with(&[("x-api-key", "sk-bad")]);
    assert_eq!(
        (refused.status, &refused.json()["error"]["type"]),
        (401, &json!("authentication_error"))
    );
    assert_eq!(with(&[("x-api-key", "sk-good")]).status, 200);
    assert_eq!(with(&[("authorization", "Bearer sk-good")]).status, 200);
}

#[test]
fn a_prompt_above_the_limit_is_refused() {
    let server = server(json!({"context_limit": 10, "turns": []}));
    let refused = ask(&server, MESSAGES, &question(true));
    assert_eq!(refused.status, 400);
    assert!(
        refused.json()["error"]["message"]
            .as_str()
            .unwrap()
            .starts_with("prompt is too long: ")
    );
}

#[test]
fn a_scripted_error_keeps_its_status_and_headers() {
    let error =
        json!({"status": 529, "type": "overloaded_error", "message": "busy", "headers": {"retry-after": 1}});
    let got = ask(
        &server(json!({"turns": [{"error": error}]})),
        MESSAGES,
        &question(true),
    );
    assert_eq!(
        (got.status, &got.headers["retry-after"]),
        (529, &"1".parse().unwrap())
    );
    assert_eq!(
        got.json()["error"],
        json!({"type": "overloaded_error", "message": "busy"})
    );
}

#[test]
fn a_connection_breaks_where_the_script_says() {
    let turn = |place: &str| json!({"text": "one two three", "drop": place});
    let places = ["before_headers", "after_headers", "mid_stream", "before_stop"];
    let server = server(json!({"turns": places.map(turn)}));
    let ask = || send(&server.url(), Method::POST, MESSAGES, &[], &question(true));
    assert!(ask().is_none(), "no answer at all");
    let seen: Vec<_> = (0..3)
        .map(|_| ask().unwrap())
        .map(|got| (got.whole, got.events().len()))
        .collect();
    assert_eq!(seen, [(false, 0), (false, 4), (false, 6)]);
}

#[test]
fn an_error_in_the_middle_of_a_stream_ends_it_in_order() {
    let error = json!({"type": "overloaded_error", "message": "enough"});
    let got = ask(
        &server(json!({"turns": [{"text": "abc", "stream_error": error}]})),
        MESSAGES,
        &question(true),
    );
    assert!(got.whole);
    assert_eq!(got.events().last().unwrap()["error"]["message"], "enough");
}

#[test]
fn a_hanging_server_still_ends_when_it_is_dropped() {
    let scenario = Scenario::try_from(json!({"turns": [{"text": "abc", "hang": true}]})).unwrap();
    let (heard, asked) = channel();
    let on_request = Box::new(move |asked: &Asked| heard.send(asked.is_model_call()).unwrap());
    let server = ModelServer::start_with(
        scenario,
        Options {
            on_request,
            ..Options::default()
        },
    )
    .unwrap();
    let url = server.url();
    let client = std::thread::spawn(move || send(&url, Method::POST, MESSAGES, &[], &question(true)));
    assert!(asked.recv().unwrap());
    drop(server);
    assert!(!client.join().unwrap().is_some_and(|got| got.whole));
}

#[test]
fn the_control_paths_answer() {
    let server = server(json!({"name": "first", "turns": [{"text": "a"}], "models": ["x", "y"]}));
    let get = |path: &str| send(&server.url(), Method::GET, path, &[], &json!(null)).unwrap();
    assert_eq!(get("/health").json(), json!({"ok": true}));
    assert_eq!(get("/v1/models").json()["data"][1]["id"], "y");
    assert_eq!(get("/nothing/here").status, 404);
    assert_eq!(
        send(&server.url(), Method::HEAD, "/v1", &[], &json!(null))
            .unwrap()
            .status,
        200
    );
    assert!(
        ask(&server, "/v1/messages/count_tokens", &question(false)).json()["input_tokens"].as_u64()
            > Some(10)
    );
    ask(&server, MESSAGES, &question(false));
    let lanes = json!([{"name": "main", "served": 1}]);
    assert_eq!(
        get("/__state").json(),
        json!({"scenario": "first", "lanes": lanes})
    );

    assert_eq!(ask(&server, "/__scenario", &json!({"turns": 5})).status, 400);
    assert_eq!(
        ask(&server, "/__scenario", &json!({"turns": [{"text": "swapped"}]})).status,
        200
    );
    assert_eq!(
        ask(&server, MESSAGES, &question(false)).json()["content"][0]["text"],
        "swapped"
    );
}

#[test]
fn what_was_asked_is_kept() {
    let server = server(json!({"turns": [{"text": "a"}]}));
    ask(&server, MESSAGES, &question(true));
    let [asked] = &server.requests()[..] else {
        panic!("one request")
    };
    let AskedKind::Model {
        lane,
        turn,
        model,
        stream,
        messages,
        tools,
        status,
        body,
        ..
    } = &asked.kind
    else {
        panic!("a model call")
    };
    assert_eq!(
        (lane.as_str(), *turn, model.as_str(), *stream, *messages),
        ("main", 0, "m", true, 1)
    );
    assert_eq!(
        (tools.as_slice(), *status),
        (&["Write".to_owned()][..], Some(200))
    );
    assert_eq!(body["messages"][0]["content"], "hello");
}

/// Compares with another implementation of the same scenario format, a Python program that takes `--scenario`,
/// `--port` and prints `listening URL`. Its path is given in the environment.
#[test]
fn streams_equal_those_of_the_reference_server() {
    let Some(program) = std::env::var_os("HANKWEAVE_TEST_REFERENCE_MODEL_SERVER") else {
        println!("skipped: HANKWEAVE_TEST_REFERENCE_MODEL_SERVER does not name a reference server");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.json");
    let scenario = json!({"turns": [
        rich_turn(), {"text": "x", "stop_reason": "max_tokens"}, {"text": "abc", "stream_error": {"type": "t", "message": "m"}},
        {"error": {"status": 429, "type": "rate_limit_error", "message": "slow down"}}]});
    std::fs::write(&file, scenario.to_string()).unwrap();
    let mut python = Command::new("python3");
    python
        .arg(program)
        .arg("--scenario")
        .arg(&file)
        .stdout(Stdio::piped());
    let mut reference = Reference(python.spawn().expect("python3 starts"));
    let mut line = String::new();
    BufReader::new(reference.0.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let theirs_at = line
        .trim()
        .strip_prefix("listening ")
        .expect("the server says where it listens")
        .to_owned();

    let ours = server(scenario);
    for _ in 0..5 {
        let theirs = send(&theirs_at, Method::POST, MESSAGES, &[], &question(true)).unwrap();
        let ours = ask(&ours, MESSAGES, &question(true));
        assert_eq!(ours.status, theirs.status);
        let joined = |got: &Got| without_ids(json!(joined_deltas(&got.events())));
        assert_eq!(joined(&ours), joined(&theirs));
    }
}

struct Reference(Child);

impl Drop for Reference {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Neighbouring deltas of one block as one. Where a text is cut is not part of the interface, and neither is the
/// white space in a JSON argument.
fn joined_deltas(events: &[Value]) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::new();
    for event in events {
        match joined.last_mut() {
            Some(last)
                if last["type"] == "content_block_delta"
                    && event["type"] == "content_block_delta"
                    && last["delta"]["type"] == event["delta"]["type"] =>
            {
                append(&mut last["delta"], &event["delta"]);
            }
            _ => joined.push(event.clone()),
        }
    }
    for event in &mut joined {
        if let Some(arguments) = event["delta"]["partial_json"].as_str() {
            event["delta"]["partial_json"] = serde_json::from_str(arguments).unwrap();
        }
    }
    joined
}

fn append(to: &mut Value, delta: &Value) {
    for key in ["text", "thinking", "partial_json"] {
        if let Some(more) = delta[key].as_str() {
            to[key] = json!(to[key].as_str().unwrap_or_default().to_owned() + more);
        }
    }
}

/// Puts a streamed message together, as an agent does.
fn folded(events: &[Value]) -> Value {
    let mut message = events[0]["message"].clone();
    for event in joined_deltas(events) {
        let blocks = message["content"].as_array_mut().unwrap();
        match event["type"].as_str().unwrap() {
            "content_block_start" => blocks.push(event["content_block"].clone()),
            "content_block_delta" => fold(blocks.last_mut().unwrap(), &event["delta"]),
            "message_delta" => {
                message["stop_reason"] = event["delta"]["stop_reason"].clone();
                message["usage"] = event["usage"].clone();
            }
            _ => {}
        }
    }
    message
}

fn fold(block: &mut Value, delta: &Value) {
    append(block, delta);
    match delta["type"].as_str().unwrap() {
        "input_json_delta" => {
            block["input"] = delta["partial_json"].clone();
            block.as_object_mut().unwrap().shift_remove("partial_json");
        }
        "signature_delta" => block["signature"] = delta["signature"].clone(),
        _ => {}
    }
}

fn without_ids(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|key, _| !matches!(key.as_str(), "id" | "request_id"));
            fields
                .values_mut()
                .for_each(|field| *field = without_ids(field.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_ids(item.take())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    value
}
