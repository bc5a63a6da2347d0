//! OpenTelemetry (CLI-37): traces and metrics of a run over OTLP, as JSON over HTTP, once an endpoint is set.
//!
//! Written by hand: spans are made from recorded events with their own times, so the usual SDK is of no use here. Its exporter would add fifty crates
//! to write two JSON documents. The exporter only listens: a run neither waits for it nor fails with it.

mod metrics;
mod settings;
mod spans;

use std::time::Duration;

use hankweave_runtime::state_manager::{Delivery, Subscription};
use hankweave_runtime::world::World;
use hankweave_runtime::world::http::HttpRequest;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use self::settings::Settings;
use self::spans::{EndedSpans, Spans};

/// Maximum number of queued events that ended something; more are dropped and counted.
const WAITING: usize = 4_096;

/// The most of these in one request.
const TOGETHER: usize = 512;

/// Time that one request may take, and the last ones together.
const PATIENCE: Duration = Duration::from_secs(5);

/// Exports a run.
#[derive(Debug)]
pub(crate) struct Exporter {
    settings: Settings,
    world: World,
}

impl Exporter {
    /// Creates an exporter; `None` if no export is configured.
    pub(crate) fn new(world: &World) -> Option<Self> {
        Some(Self {
            settings: Settings::of(&world.environment)?,
            world: world.clone(),
        })
    }

    /// Exports what happens until the events end, and then what is left, within a few seconds.
    pub(crate) async fn export(self, mut events: Subscription) {
        let (span_sender, ended_spans) = mpsc::channel(WAITING);
        let read = async {
            let (mut spans, mut dropped) = (Spans::default(), 0_u64);
            while let Ok(Some(delivery)) = events.next().await {
                let Delivery::Events(events) = delivery else {
                    continue;
                };
                for entry in events.values() {
                    let now = spans.take(entry);
                    let is_empty = now.spans.is_empty() && now.tries.is_empty();
                    if !is_empty && span_sender.try_send(now).is_err() {
                        dropped += 1;
                    }
                }
            }
            if dropped > 0 {
                tracing::warn!(dropped, "the collector was too slow, and spans were dropped");
            }
            drop(span_sender);
            tokio::time::sleep(PATIENCE).await;
        };
        tokio::select! {
            () = read => tracing::warn!("the collector did not take the last spans in time"),
            () = self.send_all(ended_spans) => {}
        }
    }

    async fn send_all(&self, mut ended_spans: mpsc::Receiver<EndedSpans>) {
        let (mut together, mut has_failed) = (Vec::with_capacity(TOGETHER), false);
        while ended_spans.recv_many(&mut together, TOGETHER).await > 0 {
            let spans: Vec<Value> = together
                .iter_mut()
                .flat_map(|ended| ended.spans.drain(..))
                .collect();
            let tries = together.iter().flat_map(|ended| &ended.tries);
            let metrics: Vec<Value> = tries.flat_map(metrics::of).collect();
            together.clear();
            let resource = json!({"attributes": self.settings.resource});
            let scope = json!({"name": "hankweave", "version": env!("CARGO_PKG_VERSION")});
            let traces = json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]});
            let figures = json!({"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"scope": scope, "metrics": metrics}]}]});
            let sent = [
                (&self.settings.traces, traces, spans.is_empty()),
                (&self.settings.metrics, figures, metrics.is_empty()),
            ];
            for (address, document, is_empty) in sent {
                let Some(address) = address.as_ref().filter(|_| !is_empty) else {
                    continue;
                };
                if let Err(why) = self.post(address, &document).await
                    && !std::mem::replace(&mut has_failed, true)
                {
                    tracing::warn!(why, "the collector of OpenTelemetry takes nothing");
                }
            }
        }
    }

    /// Posts a document. The address and the headers may hold a secret, so errors do not name them.
    async fn post(&self, address: &str, document: &Value) -> Result<(), String> {
        let mut headers = vec![("content-type".into(), "application/json".to_owned())];
        let own = self.settings.headers.iter();
        headers.extend(own.map(|(name, value)| (name.clone().into(), value.clone())));
        let request = HttpRequest {
            url: address.to_owned(),
            headers,
            body: serde_json::to_vec(document).unwrap_or_default(),
            timeout: PATIENCE,
        };
        match timeout(PATIENCE, self.world.http.post(request)).await {
            Ok(Ok(answer)) if (200..300).contains(&answer.status) => Ok(()),
            Ok(Ok(answer)) => Err(format!("status {}", answer.status)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("no answer in time".to_owned()),
        }
    }
}
