//! The execution plan: the concrete steps of a run, made from a hank, and the decision which step is next.
//!
//! The plan is a flat list of [`PlanEntry`](crate::document::PlanEntry). Loops are expanded one iteration at a time: [`initial_plan`] holds the
//! first iteration of every loop, and [`advance_loop`] returns the changes after a codon has ended. [`decide`] returns the next action of the
//! runner.

mod changes;
mod continuation;
mod decide;
mod entry;
mod expand;
mod fallback;
mod iteration;
mod onward;
mod patterns;
mod policy;
mod replan;

pub use changes::HankChanges;
pub use continuation::ContinuedRun;
pub use decide::{BlockedBy, Decision, decide, decide_with_replans, obstacle, stuck_words};
use expand::advance_loop_at;
pub use expand::{
    ExpandError, LoopEnd, LoopSignal, LoopStep, MAX_OPEN_ITERATIONS, advance_loop, initial_plan,
};
pub use fallback::{
    AgentHealth, AgentList, ListEntry, ListedAgent, NextAgent, agent_of, next_in_list, waited_for_limits,
};
pub use iteration::{IterationEnd, NextIteration, iteration_end};
pub use onward::{RunIntent, resume};
pub use patterns::DeclaredPatterns;
pub use policy::{Retry, UsageLimit};
