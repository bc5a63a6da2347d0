//! Embeds the hankweave runtime with an agent driver of its own.
//!
//! `cargo run -p custom-driver -- DIR` runs `hank/hank.json` of this example in DIR.

mod shouter;

use std::error::Error;
use std::path::Path;

use hankweave_runtime::state_manager::Delivery;
use hankweave_runtime::{Hankweave, RunOutcome, Shutdown, hank_files};

use self::shouter::Shouter;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).ok_or("usage: custom-driver DIR")?;
    let outcome = run(Path::new(&dir)).await?;
    println!("{:?}, {} codons", outcome.result, outcome.codons.len());
    Ok(())
}

/// Runs the hank in `dir`, and prints the events of the run.
async fn run(dir: &Path) -> Result<RunOutcome, Box<dyn Error>> {
    let hank = hank_files::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("hank"))?;
    let hankweave = Hankweave::builder(hank)
        .execution_dir(dir)
        .driver(Shouter)
        .open()
        .await?;
    let mut events = hankweave.subscribe();
    let watch = async {
        while let Ok(Some(delivery)) = events.next().await {
            if let Delivery::Events(events) = delivery {
                for entry in events.entries() {
                    println!("{:>4}  {}", entry.seq, entry.event.name());
                }
            }
        }
    };
    let (outcome, ()) = tokio::join!(hankweave.run(Shutdown::new()), watch);
    Ok(outcome?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_hank_completes_and_its_sentinel_counts() {
        let dir = tempfile::tempdir().expect("the system has room for a temporary folder");
        let outcome = run(dir.path()).await.expect("the hank runs");
        assert_eq!(outcome.codons.len(), 1);
        let state = std::fs::read_to_string(dir.path().join(".hankweave/state.json"));
        let state = state.expect("the run is recorded");
        assert!(state.contains("capitals"), "{state}");
    }
}
