//! Embeds the hankweave runtime with an agent driver of its own.
//!
//! `cargo run -p custom-driver -- DIR` runs `hank/hank.json` of this example in DIR.

mod shouter;

use std::error::Error;
use std::path::Path;

use hankweave_runtime::state_manager::Delivery;
use hankweave_runtime::{Hankweave, Shutdown, hank_files};

use self::shouter::Shouter;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).ok_or("usage: custom-driver DIR")?;
    let hank = hank_files::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("hank"))?;
    let hankweave = Hankweave::builder(hank)
        .execution_dir(&dir)
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
    println!(
        "{:?}, {} codons",
        outcome.as_ref().map(|outcome| &outcome.result),
        outcome.as_ref().map_or(0, |outcome| outcome.codons.len())
    );
    outcome.map(drop).map_err(Into::into)
}
