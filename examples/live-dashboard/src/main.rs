//! Follows the run in an execution directory and prints a table of costs whenever a codon starts or ends.
//!
//! `cargo run -p live-dashboard -- DIR`, before or after `hankweave run -e DIR` in another terminal.

mod costs;

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use hankweave_client::{Client, ConnectError, Disconnected, FindError, Options, RunAddress, ServerMessage};

use crate::costs::Costs;

/// How often one looks for it until then; a short run lasts a tenth of a second.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Largest time until a run starts.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from("."), PathBuf::from);
    let mut client = tokio::time::timeout(PATIENCE, connect(directory)).await??;
    let mut costs = Costs::default();
    loop {
        match client.next().await {
            Ok(ServerMessage::Event(entry)) => {
                if costs.take(&entry.event) {
                    println!("{costs}");
                }
            }
            // Other messages, also those of a newer server, are of no use here.
            Ok(_) => {}
            Err(Disconnected::RunEnded) => return Ok(()),
            Err(ended) => return Err(ended.into()),
        }
    }
}

/// Connects from the first event on, as soon as a run is live.
async fn connect(directory: PathBuf) -> Result<Client, ConnectError> {
    loop {
        let target = RunAddress::Execution(directory.clone());
        match Client::connect(target, Options::watching().after(0)).await {
            Err(ConnectError::Find(
                FindError::NoExecution { .. } | FindError::NotLive { .. } | FindError::NoPort { .. },
            )) => tokio::time::sleep(LOOK_AGAIN).await,
            connected => return connected,
        }
    }
}
