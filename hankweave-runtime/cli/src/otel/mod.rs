//! OpenTelemetry (CLI-37): sends traces and metrics of a run to a collector, as JSON over HTTP (OTLP), if an endpoint is set.
//!
//! Written by hand: spans are made from recorded events with their own times, so the usual SDK is of no use here. Its exporter would add fifty crates
//! to write two JSON documents. The exporter only listens: a run neither waits for it nor fails with it.

mod metrics;
mod settings;
mod spans;

use std::time::Duration;

use hankweave_runtime::error::chain;
use hankweave_runtime::state_manager::{Delivery, Subscription};
use hankweave_runtime::world::World;
use hankweave_runtime::world::http::HttpRequest;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use self::settings::Settings;
use self::spans::{EndedSpans, Spans};

/// Maximum number of queued [`EndedSpans`]; more are dropped and counted.
const QUEUE_LENGTH: usize = 4_096;

/// Largest number of [`EndedSpans`] in one request.
const BATCH: usize = 512;

/// Time limit of one request, and of all requests after the end of the run together.
const TIME_LIMIT: Duration = Duration::from_secs(5);

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

    /// Exports spans until the events end, and then the queued ones within [`TIME_LIMIT`].
    pub(crate) async fn export(self, mut events: Subscription) {
        let (span_sender, ended_spans) = mpsc::channel(QUEUE_LENGTH);
        let read_then_limit = async {
            let (mut spans, mut dropped) = (Spans::default(), 0_u64);
            loop {
                let events = match events.next().await {
                    Ok(Some(Delivery::Events(events))) => events,
                    Ok(Some(_)) => continue,
                    Ok(None) => break,
                    Err(error) => {
                        tracing::warn!(error = %chain(&error), "events cannot be read, so no more spans are exported");
                        break;
                    }
                };
                for entry in events.values() {
                    let ended = spans.add(entry);
                    let is_empty = ended.spans.is_empty() && ended.attempts.is_empty();
                    if !is_empty && span_sender.try_send(ended).is_err() {
                        dropped += 1;
                    }
                }
            }
            if dropped > 0 {
                tracing::warn!(dropped, "the collector was too slow, and spans were dropped");
            }
            // Closes the queue, so that `send_all` ends once it is empty. From here on this future is its time limit.
            drop(span_sender);
            tokio::time::sleep(TIME_LIMIT).await;
        };
        tokio::select! {
            () = read_then_limit => tracing::warn!("the collector did not take the last spans in time"),
            () = self.send_all(ended_spans) => {}
        }
    }

    /// Sends queued spans, and the metrics of their attempts, until the queue is closed and empty. Only the first failure is logged.
    async fn send_all(&self, mut ended_spans: mpsc::Receiver<EndedSpans>) {
        let (mut batch, mut has_failed) = (Vec::with_capacity(BATCH), false);
        while ended_spans.recv_many(&mut batch, BATCH).await > 0 {
            let spans: Vec<Value> = batch.iter_mut().flat_map(|ended| ended.spans.drain(..)).collect();
            let attempts = batch.iter().flat_map(|ended| &ended.attempts);
            let metrics: Vec<Value> = attempts.flat_map(metrics::of).collect();
            batch.clear();
            let resource = json!({"attributes": self.settings.resource});
            let scope = json!({"name": "hankweave", "version": env!("CARGO_PKG_VERSION")});
            let traces = json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]});
            let measurements = json!({"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"scope": scope, "metrics": metrics}]}]});
            let documents = [
                (&self.settings.traces, traces, spans.is_empty()),
                (&self.settings.metrics, measurements, metrics.is_empty()),
            ];
            for (address, document, is_empty) in documents {
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
            timeout: TIME_LIMIT,
        };
        match timeout(TIME_LIMIT, self.world.http.post(request)).await {
            Ok(Ok(answer)) if (200..300).contains(&answer.status) => Ok(()),
            Ok(Ok(answer)) => Err(format!("status {}", answer.status)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("no answer in time".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::path::Path;
    use std::sync::{Arc, Mutex};

    use hankweave_core::wire::Event;
    use hankweave_runtime::journal::{FileJournal, JournalLimits};
    use hankweave_runtime::state_manager::{StateManager, StateManagerParts, Strictness, load};
    use hankweave_runtime::store::StateFiles;
    use hankweave_runtime::world::blocking::Blocking;
    use hankweave_runtime::world::disk::RealDisk;
    use hankweave_runtime::world::environment::Environment;
    use tokio::task::JoinHandle;

    use super::*;

    /// Log in memory.
    #[derive(Clone, Default)]
    struct MemoryLog(Arc<Mutex<Vec<u8>>>);

    impl Write for MemoryLog {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Starts the state manager of a directory.
    fn manage(world: &World, dir: &Path) -> (StateManager, JoinHandle<()>) {
        let journal = FileJournal::open(Arc::new(RealDisk), &dir.join("events"), JournalLimits::default());
        let parts = StateManagerParts {
            files: StateFiles::new(Arc::new(RealDisk), None, dir.to_owned()),
            journal: Arc::new(journal.unwrap()),
            clock: Arc::clone(&world.clock),
            ids: Arc::clone(&world.ids),
            blocking: Blocking::Inline,
        };
        let loaded = load(&parts, Strictness::StartOver).unwrap();
        let (manager, task) = StateManager::start(parts, loaded);
        (manager, task.spawn())
    }

    // covers: CLI-37
    #[tokio::test]
    async fn an_export_that_cannot_read_events_says_so_and_ends() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::default().with("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
        let world = World::with_environment(environment);
        let (manager, task) = manage(&world, folder.path());
        let message = "before".to_owned();
        manager.record(Event::Info { message }).await.await.unwrap();
        manager.shutdown().await.unwrap();
        task.await.unwrap();

        let (manager, task) = manage(&world, folder.path());
        let journal = folder.path().join("events/000001.jsonl");
        std::fs::remove_file(&journal).unwrap();
        std::fs::create_dir(&journal).unwrap();
        let log = MemoryLog::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .finish();
        let logging = tracing::subscriber::set_default(subscriber);
        let exporter = Exporter::new(&world).unwrap();
        exporter.export(manager.subscribe_after(0)).await;
        drop(logging);
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert!(log.contains("no more spans are exported"), "{log}");
        drop(manager);
        task.abort();
    }
}
