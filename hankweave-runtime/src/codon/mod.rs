//! One codon, from its first record to its last, with one file for each state of the typed machine.
//!
//! ```text
//! open ─► budget ─► prepare ─► load ─► start ─► initialize ─► run ─► extend ─► check ─► drain ─► finish
//! ```
//!
//! `runner` calls [`execute`]. Each stage takes the typed codon of its state and returns the codon in the next state, or an
//! [`EarlyEnd`]. The codon moves only through [`CodonRun::step`], which sends the event that the step implies.

mod background;
mod budget;
mod check;
mod context;
mod effects;
mod end;
mod extend;
mod finish;
mod handover;
mod initialize;
mod interruption;
mod limit;
mod listen;
mod loop_check;
mod open;
mod orders;
mod prepare;
mod progress;
mod proof;
pub(crate) mod rehearsal;
mod rehearsed;
mod result;
mod run;
mod set_up;
mod silence;
mod start;
mod start_of_work;
mod surveyed;
mod watch;
mod watchers;

pub(crate) use budget::{NoBudget, no_budget_left};
pub(crate) use context::{CodonEnd, CodonRun, CurrentResult, RigNeed, RunContext};
pub(crate) use handover::{EarlierWork, summary};
pub(crate) use orders::{CodonCommand, Orders, Remarks};
pub(crate) use progress::await_with_progress;
pub use rehearsed::RehearsedStep;
pub(crate) use rehearsed::RehearsedSteps;
pub(crate) use result::results_variable;
pub(crate) use set_up::variables;
pub(crate) use start::{prompt_of, values as prompt_values};
pub(crate) use surveyed::FileWatcher;
pub(crate) use watch::tree_now;

use self::context::{EarlyEnd, StageResult};
use self::proof::FileBaseline;
use self::run::EarlierUsage;
pub(crate) use crate::sentinel::Allowance;
use crate::state_manager::TransitionError;

/// Runs one codon to its end.
///
/// # Errors
///
/// Returns [`TransitionError`] when the state could not be recorded; everything that the codon started has
/// ended then.
pub(crate) async fn execute(codon: &CodonRun<'_>) -> Result<CodonEnd, TransitionError> {
    codon.run.keep_record().await;
    let ended = run_stages(codon).await;
    codon.run.tend_record().await;
    match ended {
        Ok(end) | Err(EarlyEnd::Codon(end)) => Ok(end),
        Err(EarlyEnd::Unrecorded(error)) => Err(error),
    }
}

async fn run_stages(codon: &CodonRun<'_>) -> StageResult<CodonEnd> {
    let preparing = budget::start(codon, open::open(codon).await?).await?;
    codon.run.watch.start(codon).await;
    let starting = prepare::prepare(codon, preparing).await?;
    codon.run.watch.begin_work(codon).await;
    let starting = watchers::load(codon, starting).await?;
    let proof = FileBaseline::take(codon).await;
    let (initializing, agent) = start::start(codon, starting).await?;
    let (running, agent) = initialize::initialize(codon, initializing, agent).await?;
    let (running, work) = run::run(codon, running, agent, EarlierUsage::nothing(codon, proof)).await?;
    let (running, work) = extend::extend(codon, running, work).await?;
    // A notice that the record was put back has to precede the line that reports how the codon ended.
    codon.run.tend_record().await;
    let (running, mut work) = check::check(codon, running, work).await?;
    loop_check::check(codon, &mut work).await;
    finish::finish(codon, running, work).await
}
