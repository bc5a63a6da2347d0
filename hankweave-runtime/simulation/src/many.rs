//! Many stories, several of them at the same time.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::story::{Failed, Passed, play};

/// Plays the stories of all seeds on this number of threads, and reports the outcome of each to `each`.
///
/// # Errors
///
/// The [`Failed`] story with the lowest seed among those that were played until the first failure was seen.
pub fn play_all(seeds: Range<u64>, threads: u64, each: &(dyn Fn(&Passed) + Sync)) -> Result<Passed, Failed> {
    let next = AtomicU64::new(seeds.start);
    let total = Mutex::new(Ok(Passed::default()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let played = play(seed);
            if let Ok(passed) = &played {
                each(passed);
            }
            let mut total = total.lock().expect("nobody panics while adding");
            if played.is_err() {
                // The others stop after the story that they are in.
                next.store(seeds.end, Ordering::Relaxed);
            }
            *total = add(total.clone(), played);
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    total.into_inner().expect("nobody panics while adding")
}

fn add(total: Result<Passed, Failed>, played: Result<Passed, Failed>) -> Result<Passed, Failed> {
    match (total, played) {
        (Ok(total), Ok(played)) => Ok(Passed {
            lives: total.lives + played.lives,
            crashes: total.crashes + played.crashes,
            operations: total.operations + played.operations,
            refusals: total.refusals + played.refusals,
            answers: total.answers + played.answers,
        }),
        (Err(one), Err(other)) => Err(if one.seed < other.seed { one } else { other }),
        (Err(failed), Ok(_)) | (Ok(_), Err(failed)) => Err(failed),
    }
}
