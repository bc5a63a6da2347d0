//! When what sentinels do is recorded.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hankweave_core::cost::Usd;

use super::*;
use crate::shutdown::Shutdown;
use crate::world::process::{CommandSpec, SpawnedProcess, Sweep};

/// Starts commands, after checking whether the state directory has recorded the call. Its second start is a panic.
#[derive(Debug)]
struct Watching {
    real: ChildSpawner,
    starts: AtomicU64,
    told: AtomicBool,
}

impl Spawner for Watching {
    fn spawn(&self, spec: CommandSpec) -> io::Result<SpawnedProcess> {
        assert_eq!(self.starts.fetch_add(1, Ordering::SeqCst), 0, "the planned panic");
        self.told.store(
            is_in(&spec.work_dir.join(".hankweave"), r#""llmCallCount":1"#),
            Ordering::SeqCst,
        );
        self.real.spawn(spec)
    }

    fn sweep<'a>(&'a self, marker: &'a str) -> BoxFuture<'a, Sweep> {
        self.real.sweep(marker)
    }
}

/// Whether a file of the folder has `text` in it.
fn is_in(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => is_in(&path, text),
            false => fs::read(&path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text)),
        }
    })
}

// covers: SENT-10
#[tokio::test]
async fn a_call_is_durable_before_it_is_made_and_a_panic_loses_no_cost() {
    let mut stage = Stage::new(&["go"]);
    let script = r#"read -r _; echo '{"text": "dear", "costDollars": 0.125}'"#;
    let sentinel = json!({"id": "s", "name": "S", "command": ["/bin/sh", "-c", script], "answer": "json",
        "trigger": {"type": "event", "on": ["*"]}, "execution": {"strategy": "immediate"}});
    stage.write(&["go"], &json!({"sentinels": [{"sentinelConfig": sentinel}]}));
    let spawner = Arc::new(Watching {
        real: ChildSpawner::new(),
        starts: AtomicU64::new(0),
        told: AtomicBool::new(false),
    });
    stage.spawner = Arc::clone(&spawner) as Arc<dyn Spawner>;
    let run = stage.open().await;
    let state = run.state_reader();
    run.run(Shutdown::new()).await.unwrap();
    assert_eq!(spawner.starts.load(Ordering::SeqCst), 2);
    assert!(
        spawner.told.load(Ordering::SeqCst),
        "the command ran before its record was durable"
    );
    assert_eq!(
        state().runs[0].codons[0].sentinel_cost(),
        Usd::from_micros(125_000)
    );
}
