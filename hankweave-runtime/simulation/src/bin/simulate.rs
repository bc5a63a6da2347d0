//! Plays stories, one for each seed: `simulate --seeds 100000 --from 7`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Parser;
use hankweave_simulation::{Passed, play_all};

/// Runs hankweave in a simulated world, once for each seed, and checks what it promises.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many seeds.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Number of stories to play at the same time.
    #[arg(long, default_value_t = 2)]
    threads: u64,
}

fn main() -> ExitCode {
    let Arguments { seeds, from, threads } = Arguments::parse();
    let (begin, done) = (Instant::now(), AtomicU64::new(0));
    let played = play_all(from..from.saturating_add(seeds), threads, &|_| {
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(10_000) {
            eprintln!("{done} seeds after {:.0} s", begin.elapsed().as_secs_f64());
        }
    });
    match played {
        Ok(Passed {
            lives,
            crashes,
            operations,
            refusals,
            answers,
        }) => {
            println!(
                "{seeds} seeds in {:.1} s: {lives} lives, {crashes} crashes, {operations} disk operations, {refusals} refused, {answers} answers of models",
                begin.elapsed().as_secs_f64()
            );
            ExitCode::SUCCESS
        }
        Err(failed) => {
            println!("{failed}");
            ExitCode::FAILURE
        }
    }
}
