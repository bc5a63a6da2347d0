//! Usage of attempts as OpenTelemetry metrics: tokens, time and cost.

use serde_json::{Value, json};

use super::spans::{AttemptUsage, nanos, prompt, provider, text};

/// Returns the metrics of one attempt, in the JSON of OTLP.
pub(super) fn of(used: &AttemptUsage) -> Vec<Value> {
    let tokens = [
        ("input", prompt(&used.tokens)),
        ("output", used.tokens.output_tokens),
    ];
    let tokens: Vec<Value> = tokens
        .into_iter()
        .map(|(kind, count)| {
            #[expect(clippy::cast_precision_loss, reason = "a metric is no bill")]
            let count = count as f64;
            point(used, count, vec![text("gen_ai.token.type", kind)])
        })
        .collect();
    let time = used.ended.since(used.began).as_secs_f64();
    let cost = vec![point(used, used.cost.as_dollars(), Vec::new())];
    vec![
        histogram("gen_ai.client.token.usage", "{token}", tokens),
        histogram(
            "gen_ai.client.operation.duration",
            "s",
            vec![point(used, time, Vec::new())],
        ),
        histogram("hankweave.codon.cost", "{USD}", cost),
    ]
}

fn histogram(name: &str, unit: &str, points: Vec<Value>) -> Value {
    // Temporality 1 is "delta": each point counts one attempt, not the sum so far.
    json!({"name": name, "unit": unit, "histogram": {"aggregationTemporality": 1, "dataPoints": points}})
}

/// Returns a data point with the single value of an attempt.
fn point(used: &AttemptUsage, value: f64, mut attributes: Vec<Value>) -> Value {
    attributes.push(text("gen_ai.operation.name", "invoke_agent"));
    if let Some(model) = &used.model {
        attributes.push(text("gen_ai.request.model", model));
        attributes.push(text("gen_ai.provider.name", provider(model)));
    }
    if used.failed {
        attributes.push(text("error.type", "failed"));
    }
    json!({
        "startTimeUnixNano": nanos(used.began),
        "timeUnixNano": nanos(used.ended),
        "count": "1",
        "sum": value,
        "min": value,
        "max": value,
        "bucketCounts": ["1"],
        "explicitBounds": [],
        "attributes": attributes,
    })
}
