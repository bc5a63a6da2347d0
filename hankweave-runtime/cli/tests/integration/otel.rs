//! Traces and metrics of a run, as a collector of OpenTelemetry gets them (CLI-37).

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::project;

/// What was posted to which path, with the header that we ask for.
type Posted = (String, Option<String>, Value);

/// A collector that takes everything; its address, and what it got.
fn collector() -> (String, Receiver<Posted>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (got, posted) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            if let Some(request) = stream.ok().and_then(|stream| take(stream).ok())
                && got.send(request).is_err()
            {
                return;
            }
        }
    });
    (address, posted)
}

fn take(mut stream: TcpStream) -> std::io::Result<Posted> {
    let mut request = Vec::new();
    loop {
        let mut part = [0; 4096];
        let read = stream.read(&mut part)?;
        request.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let whole = text.split_once("\r\n\r\n").and_then(|(head, body)| {
            let body = serde_json::from_str(body).ok()?;
            let path = head.split(' ').nth(1)?.to_owned();
            let team = head.lines().find_map(|line| line.strip_prefix("x-team: "));
            Some((path, team.map(str::to_owned), body))
        });
        if let Some(whole) = whole {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")?;
            return Ok(whole);
        }
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// A codon with two attempts: the first one fails while a chain of sub-agents works, the second one uses a tool and mentions a secret.
fn story() -> TestProject {
    let project = project();
    let script = r#"cat > /dev/null
line() { printf '%s\n' "$1"; }
line '{"type":"system","subtype":"init","session_id":"s-1","model":"claude-sonnet-4-5","cwd":"/","tools":[]}'
if [ ! -e tried ]; then : > tried
above=null
for call in s-0 s-1 s-2 s-3 s-4 s-5; do
line '{"type":"assistant","session_id":"s-1","parent_tool_use_id":'$above',"message":{"id":"m-'$call'","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"tool_use","id":"'$call'","name":"Task","input":{}}],"usage":{}}}'
above=\"$call\"
done
line '{"type":"result","is_error":true,"session_id":"s-1","result":"overloaded","api_error_status":529,"usage":{}}'; exit 1; fi
line '{"type":"assistant","session_id":"s-1","message":{"id":"m-1","role":"assistant","model":"claude-sonnet-4-5","stop_reason":"tool_use","content":[{"type":"text","text":"the secret word"},{"type":"tool_use","id":"t-1","name":"Bash","input":{"command":"echo secret"}}],"usage":{"input_tokens":1000,"output_tokens":50,"cache_read_input_tokens":200}}}'
line '{"type":"user","session_id":"s-1","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t-1","content":"secret"}]}}'
line '{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"done","total_cost_usd":0.25,"usage":{"input_tokens":1000,"output_tokens":50,"cache_read_input_tokens":200}}'
"#;
    let agent = json!({"command": ["sh", project.write("agent.sh", script)], "stream": "claude"});
    project.write_hank(&json!({"hank": [{"id": "one", "name": "One", "agent": agent, "model": "claude-sonnet-4-5", "continuationMode": "fresh",
        "promptText": "say the secret word", "onFailure": "retry", "retryConfig": {"maxAttempts": 1, "delayMs": 1}}]}));
    project
}

/// The attributes of something, by their names.
fn attributes(of: &Value) -> BTreeMap<String, Value> {
    let attributes = of["attributes"].as_array().unwrap().iter();
    let pair = |attribute: &Value| {
        let value = attribute["value"].as_object().unwrap().values().next().unwrap();
        (attribute["key"].as_str().unwrap().to_owned(), value.clone())
    };
    attributes.map(pair).collect()
}

// covers: CLI-37
#[test]
fn a_run_is_a_trace_with_its_codons_tries_and_tools_and_nothing_of_what_was_said() {
    let mut project = story();
    let (address, posted) = collector();
    project.set("OTEL_EXPORTER_OTLP_ENDPOINT", &address);
    project.set("OTEL_EXPORTER_OTLP_HEADERS", "x-team=ours%21");
    project.set("OTEL_SERVICE_NAME", "my-hank");
    project.run(["run", "--headless"]).expect_code(0);
    let posted: Vec<Posted> = posted.try_iter().collect();
    let all = format!("{posted:?}");
    assert!(!all.contains("secret"), "{all}");
    assert!(
        posted.iter().all(|(_, team, _)| team.as_deref() == Some("ours!")),
        "{all}"
    );
    let of = |path: &str, resources: &str, scopes: &str, items: &str| -> Vec<Value> {
        let documents = posted.iter().filter(|(found, ..)| found == path);
        let items = documents.flat_map(|(.., document)| {
            let resource = &document[resources][0];
            assert_eq!(attributes(&resource["resource"])["service.name"], "my-hank");
            resource[scopes][0][items].as_array().unwrap().clone()
        });
        items.collect()
    };
    let spans = of("/v1/traces", "resourceSpans", "scopeSpans", "spans");
    let named = |name: &str| -> Vec<&Value> { spans.iter().filter(|span| span["name"] == name).collect() };
    let (run, codon) = (named("run"), named("codon one"));
    let (tries, tools) = (named("invoke_agent one"), named("execute_tool Bash"));
    assert_eq!(
        (run.len(), codon.len(), tries.len(), tools.len()),
        (1, 1, 2, 1),
        "{spans:#?}"
    );
    assert!(run[0].get("parentSpanId").is_none());
    assert_eq!(codon[0]["parentSpanId"], run[0]["spanId"]);
    assert!(
        tries
            .iter()
            .all(|span| span["parentSpanId"] == codon[0]["spanId"])
    );
    assert_eq!(tools[0]["parentSpanId"], tries[1]["spanId"]);
    // Each of the calls that were open at the failure is below the call that has started its sub-agent.
    let calls = named("execute_tool Task");
    let call = |id: &str| {
        let is_call = |span: &&&Value| attributes(span)["gen_ai.tool.call.id"] == id;
        *calls.iter().find(is_call).unwrap()
    };
    assert_eq!(call("s-0")["parentSpanId"], tries[0]["spanId"]);
    for depth in 1..6 {
        let above = call(&format!("s-{}", depth - 1));
        assert_eq!(call(&format!("s-{depth}"))["parentSpanId"], above["spanId"]);
    }
    assert!(spans.iter().all(|span| span["traceId"] == run[0]["traceId"]));
    assert_eq!(run[0]["traceId"].as_str().unwrap().len(), 32);
    let failed = attributes(tries[0]);
    assert!(
        failed.contains_key("error.type") && tries[0]["status"]["code"] == 2,
        "{failed:?}"
    );
    let used = attributes(tries[1]);
    for (name, value) in [
        ("gen_ai.operation.name", json!("invoke_agent")),
        ("gen_ai.request.model", json!("claude-sonnet-4-5")),
        ("gen_ai.provider.name", json!("anthropic")),
        ("gen_ai.conversation.id", json!("s-1")),
        ("gen_ai.usage.input_tokens", json!("1200")),
        ("gen_ai.usage.output_tokens", json!("50")),
        ("hankweave.cost.usd", json!(0.25)),
    ] {
        assert_eq!(used[name], value, "{name}");
    }
    assert_eq!(attributes(tools[0])["gen_ai.tool.name"], "Bash");
    let metrics = of("/v1/metrics", "resourceMetrics", "scopeMetrics", "metrics");
    let sum = |name: &str| -> f64 {
        let found = metrics.iter().filter(|metric| metric["name"] == name);
        let points = found.flat_map(|metric| metric["histogram"]["dataPoints"].as_array().unwrap());
        points.map(|point| point["sum"].as_f64().unwrap()).sum()
    };
    assert!(
        (sum("gen_ai.client.token.usage") - 1250.0).abs() < 1e-9,
        "{metrics:#?}"
    );
    assert!((sum("hankweave.codon.cost") - 0.25).abs() < 1e-9);
    assert!(sum("gen_ai.client.operation.duration") > 0.0);
}

// covers: CLI-37
#[test]
fn a_collector_that_is_silent_or_gone_neither_delays_the_run_for_long_nor_fails_it() {
    let mut project = story();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    let addresses = [&silent, &gone].map(|listener| format!("http://{}", listener.local_addr().unwrap()));
    drop(gone);
    for address in addresses {
        project.set("OTEL_EXPORTER_OTLP_ENDPOINT", &address);
        let begun = Instant::now();
        project.run(["run", "--headless", "--new"]).expect_code(0);
        assert!(
            begun.elapsed() < Duration::from_secs(45),
            "{address}: {:?}",
            begun.elapsed()
        );
    }
}

// covers: CLI-37
#[test]
fn a_collector_that_is_gone_is_reported_once_by_a_run_that_completes() {
    let mut project = story();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", gone.local_addr().unwrap());
    drop(gone);
    project.set("OTEL_EXPORTER_OTLP_ENDPOINT", &address);
    let finished = project.run(["run", "--headless"]);
    let reports = finished
        .expect_code(0)
        .stderr
        .matches("the collector of OpenTelemetry takes nothing");
    assert_eq!(reports.count(), 1, "{finished}");
}
