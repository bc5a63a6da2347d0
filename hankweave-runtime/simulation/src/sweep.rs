//! One story, and a crash at every single operation of it.

use crate::agents::Fate;
use crate::check::Broken;
use crate::disk::{Crash, Plan};
use crate::life::{LifeEnd, LifePlan, live};
use crate::machine::Machine;
use crate::models::SENTINEL;
use crate::rng::Rng;
use crate::story::{COPY, codon_with, judge};

/// Runs a hank whose second codon fails, then again with a crash at operation `n`, for every `n`: that run rolls back and
/// finishes. After the crash the runtime starts once more, and must finish. Returns the number of operations.
///
/// # Errors
///
/// The first promise that was broken, and at which operation.
pub fn sweep(crash: Crash) -> Result<u64, String> {
    for n in 0.. {
        match crash_at(n, crash) {
            Ok(true) => {}
            Ok(false) => return Ok(n),
            Err(broken) => return Err(format!("{crash:?} at operation {n}: {broken}")),
        }
    }
    unreachable!("a story has an end")
}

/// Plays the story with one crash, and returns whether the crash happened.
fn crash_at(n: u64, crash: Crash) -> Result<bool, Broken> {
    let codons = [
        codon_with("codon-0", "fresh", &[COPY], SENTINEL),
        codon_with("codon-1", "continue-previous", &[], SENTINEL),
    ];
    let hank = format!(r#"{{"hank":[{}]}}"#, codons.join(","));
    let mut machine = Machine::new(&Rng::new(n), &hank, 0).map_err(|error| error.to_string())?;
    machine.processes.doom("codon-1", Fate::Fails);
    finish(&mut machine, false)?;
    machine.processes.pardon("codon-1");
    let disk = Plan {
        crash_at: Some(n),
        ..Plan::default()
    };
    let plan = LifePlan {
        disk,
        ..LifePlan::default()
    };
    let end = live(&mut machine, &plan)?;
    let done = judge(&machine, &end)?;
    let crashed = matches!(end, LifeEnd::Crashed);
    machine.end_life(crashed.then_some(crash));
    if crashed {
        finish(&mut machine, true)?;
    } else if !done {
        return Err("nothing was in the way and the hank is not done".to_owned());
    }
    Ok(crashed)
}

/// A life in which nothing happens from outside.
fn finish(machine: &mut Machine, expected: bool) -> Result<(), Broken> {
    let end = live(machine, &LifePlan::default())?;
    let done = judge(machine, &end)?;
    machine.end_life(None);
    if done == expected {
        Ok(())
    } else {
        Err(format!("a life without a crash ended with {end:?}"))
    }
}
