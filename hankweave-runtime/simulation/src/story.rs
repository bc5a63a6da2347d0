//! A story: a hank, and lives of the runtime that are cut short in all the ways the seed can think of, until the hank is done.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use hankweave_runtime::RunResult;

use crate::check::{Broken, check_leftovers, check_outputs};
use crate::disk::{Crash, Plan, Trouble, TroubleKind};
use crate::life::{LifeEnd, LifePlan, live};
use crate::machine::{Machine, WORK, state_dir};
use crate::models::SENTINEL;
use crate::rng::Rng;

/// Lives that may go wrong.
const WILD_LIVES: u64 = 6;

/// Lives in which nothing goes wrong any more; one of them has to finish.
const CALM_LIVES: u64 = 4;

/// Events of a story, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    /// Lives of the runtime.
    pub lives: u64,
    /// Lives that ended in a crash.
    pub crashes: u64,
    /// Operations of the runtime that changed or synced something.
    pub operations: u64,
    /// Operations that the disk refused.
    pub refusals: u64,
    /// Whole answers of models.
    pub answers: u64,
}

/// A promise that was not kept, with the way that led there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// The seed.
    pub seed: u64,
    /// The broken promise, and how it was broken.
    pub broken: String,
    /// The lives before.
    pub history: String,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            seed,
            broken,
            history,
        } = self;
        write!(
            f,
            "seed {seed}: {broken}\n{history}repeat it with: cargo run -p hankweave-simulation --bin simulate -- --seeds 1 --from {seed}"
        )
    }
}

impl std::error::Error for Failed {}

/// Plays the story of `seed`.
///
/// # Errors
///
/// [`Failed`] with the first promise that was broken.
pub fn play(seed: u64) -> Result<Passed, Failed> {
    let mut story = Story::new(seed);
    story.play().map_err(|broken| Failed {
        seed,
        broken,
        history: std::mem::take(&mut story.history),
    })
}

struct Story {
    rng: Rng,
    passed: Passed,
    history: String,
}

impl Story {
    fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed).fork("story"),
            passed: Passed::default(),
            history: String::new(),
        }
    }

    fn play(&mut self) -> Result<Passed, Broken> {
        let hank = hank(&mut self.rng);
        let wild = self.rng.within(0..8);
        let mut machine =
            Machine::new(&self.rng, &hank, wild).map_err(|error| format!("no hank: {error}"))?;
        for life in 0..WILD_LIVES + CALM_LIVES {
            let calm = life >= WILD_LIVES;
            if calm {
                machine.processes.tame();
            }
            let plan = if calm { LifePlan::default() } else { self.fate() };
            let crash = *self.rng.pick(&[Crash::Kill, Crash::PowerLoss]);
            if self.live(&mut machine, &plan, crash)? {
                self.passed.answers = machine.provider.served();
                return Ok(self.passed);
            }
            if !calm && self.rng.one_in(6) {
                self.damage(&machine);
            }
        }
        Err("the hank is never done, though nothing goes wrong any more".to_owned())
    }

    /// Lives one life, and returns whether the hank is done.
    fn live(&mut self, machine: &mut Machine, plan: &LifePlan, crash: Crash) -> Result<bool, Broken> {
        self.write_history(&format!("  {plan:?}, a crash would be a {crash:?}\n"));
        let end = live(machine, plan)?;
        self.passed.lives += 1;
        self.passed.operations += machine.disk.operations();
        self.passed.refusals += machine.disk.refusals();
        let ending = match &end {
            LifeEnd::Ran(Ok(outcome)) => {
                let failures: Vec<_> = outcome
                    .codons
                    .iter()
                    .filter_map(|codon| codon.failure.as_ref())
                    .collect();
                format!("{:?} {failures:?}", outcome.result)
            }
            LifeEnd::Ran(Err(error)) => format!("ran into {}", chain(error)),
            LifeEnd::NotOpened(error) => format!("was not opened: {}", chain(error)),
            LifeEnd::WentBack(back) => format!("went back: {back:?}"),
            LifeEnd::Crashed => "crashed".to_owned(),
        };
        self.write_history(&format!(
            "    {ending} after {} operations\n",
            machine.disk.operations()
        ));
        let done = judge(machine, &end)?;
        if done {
            machine.provider.check(&machine.records()?.state)?;
        }
        let crashed = matches!(end, LifeEnd::Crashed);
        self.passed.crashes += u64::from(crashed);
        machine.end_life(crashed.then_some(crash));
        Ok(done)
    }

    fn write_history(&mut self, what: &str) {
        // A String takes any text.
        let _ = self.history.write_str(what);
    }

    fn fate(&mut self) -> LifePlan {
        let rng = &mut self.rng;
        let mut plan = LifePlan {
            restless_clock: rng.one_in(2),
            ..LifePlan::default()
        };
        match rng.up_to(10) {
            0..=3 => plan.disk.crash_at = Some(some_operation(rng)),
            4 => plan.killed_after = Some(some_time(rng)),
            5 | 6 => plan.disk = troubled(rng),
            7 => {
                plan.stopped_after = Some(some_time(rng));
                plan.forced_after = rng.one_in(3).then(|| some_time(rng));
            }
            8 => plan.rivalled_after = Some(some_time(rng)),
            9 => plan.disk.unreadable = some_reads(rng),
            _ => {}
        }
        plan
    }

    fn damage(&mut self, machine: &Machine) {
        let both = self.rng.one_in(4);
        let name = *self.rng.pick(&["state.json", "state.json.bak"]);
        let names = if both {
            &["state.json", "state.json.bak"][..]
        } else {
            &[name]
        };
        self.write_history(&format!("  {names:?} damaged\n"));
        for name in names {
            machine.damage(name, &mut self.rng);
        }
    }
}

/// Whether an end is one that may be, and whether it is the last.
pub(crate) fn judge(machine: &Machine, end: &LifeEnd) -> Result<bool, Broken> {
    let refused = machine.disk.refusals() > 0;
    match end {
        LifeEnd::Crashed => return Ok(false),
        LifeEnd::NotOpened(_) if refused => return Ok(false),
        LifeEnd::NotOpened(error) => {
            return Err(format!("P6: a start fails without a reason: {}", chain(error)));
        }
        LifeEnd::WentBack(Err(error)) if !refused => {
            return Err(format!("going back fails without a reason: {}", chain(error)));
        }
        LifeEnd::Ran(Err(error)) if !refused => {
            return Err(format!("a run fails without a reason: {}", chain(error)));
        }
        LifeEnd::Ran(Ok(_)) if machine.disk.refused_watched() => {
            return Err("P5: the disk refused the log and the run says nothing".to_owned());
        }
        LifeEnd::Ran(_) | LifeEnd::WentBack(_) => {}
    }
    if let Some(alive) = machine.processes.alive().first() {
        return Err(format!("P9: a process of {alive} is left behind"));
    }
    if !refused {
        check_leftovers(&machine.disk.tree(&state_dir(), ""), false)?;
    }
    let LifeEnd::Ran(Ok(outcome)) = end else {
        return Ok(false);
    };
    let records = machine.records()?;
    records.check(&machine.witness.notes().told, &machine.vault)?;
    let done = matches!(outcome.result, RunResult::Completed | RunResult::NothingToDo);
    if done {
        let files = machine.disk.tree(Path::new(WORK), ".hankweave");
        check_outputs(&records.state, Path::new(WORK), &files)?;
    }
    Ok(done)
}

fn some_operation(rng: &mut Rng) -> u64 {
    let end = *rng.pick(&[40, 150, 400]);
    rng.within(0..end)
}

fn some_reads(rng: &mut Rng) -> Range<u64> {
    let end = *rng.pick(&[12, 60]);
    let first = rng.within(0..end);
    first..first + *rng.pick(&[1, 1, 3, 1_000_000])
}

fn some_time(rng: &mut Rng) -> Duration {
    Duration::from_millis(rng.within(0..4_000))
}

fn troubled(rng: &mut Rng) -> Plan {
    let first = some_operation(rng);
    let length = *rng.pick(&[1, 1, 1, 4, 1_000_000]);
    let trouble = Trouble {
        first,
        last: first + length - 1,
        kind: *rng.pick(&[TroubleKind::Full, TroubleKind::Broken]),
    };
    Plan {
        crash_at: rng.one_in(4).then(|| first + rng.within(0..40)),
        troubles: vec![trouble],
        ..Plan::default()
    }
}

/// A hank of one to four codons.
fn hank(rng: &mut Rng) -> String {
    let mut items = Vec::new();
    for number in 0..rng.within(1..4) {
        let mode = if number > 0 && rng.one_in(3) {
            "continue-previous"
        } else {
            "fresh"
        };
        let codon = codon(&format!("codon-{number}"), mode, rng);
        if number > 0 && mode == "fresh" && rng.one_in(3) {
            items.push(format!(
                r#"{{"type":"loop","id":"loop-{number}","name":"L","terminateOn":{{"type":"iterationLimit","limit":2}},"codons":[{codon}]}}"#
            ));
        } else {
            items.push(codon);
        }
    }
    format!(r#"{{"hank":[{}]}}"#, items.join(","))
}

fn codon(id: &str, mode: &str, rng: &mut Rng) -> String {
    let copy = rng.one_in(3).then_some(COPY);
    let command = rng.one_in(3).then_some(COMMAND);
    let rig: Vec<&str> = copy.into_iter().chain(command).collect();
    let sentinels = if rng.one_in(3) { SENTINEL } else { "" };
    codon_with(id, mode, &rig, sentinels)
}

/// The items that a rig may have.
pub(crate) const COPY: &str = r#"{"type":"copy","copy":{"from":"template","to":"copied"}}"#;
const COMMAND: &str = r#"{"type":"command","command":{"run":"prepare"}}"#;

/// A codon with these items in its rig, and these sentinels.
pub(crate) fn codon_with(id: &str, mode: &str, rig: &[&str], sentinels: &str) -> String {
    let rig = rig.join(",");
    format!(
        r#"{{"id":"{id}","name":"N","continuationMode":"{mode}","promptText":"work","agent":{{"command":["agent"],"stream":"claude"}},"rigSetup":[{rig}],"sentinels":[{sentinels}]}}"#
    )
}

pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // A String takes any text.
        let _ = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}
