//! Limits of codons, loops and the hank, in words and as JSON.

use std::time::Duration;

use hankweave_core::cost::Usd;
use hankweave_core::hank::{
    Allocation, CodonBudget, ContainerBudget, Hank, HankItem, OnExceeded, TerminateOn,
};
use hankweave_core::id::LoopId;
use hankweave_core::time::short_duration;
use serde::Serialize;

/// A loop, as `validate --json` shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LoopView<'a> {
    loop_id: &'a LoopId,
    name: &'a str,
    terminate_on: &'a TerminateOn,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<&'a ContainerBudget>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stalled_after: Option<u32>,
}

pub(super) fn loops(hank: &Hank) -> impl Iterator<Item = LoopView<'_>> {
    hank.items.iter().filter_map(|item| match item {
        HankItem::Codon(_) => None,
        HankItem::Loop(found) => Some(LoopView {
            loop_id: &found.id,
            name: &found.name,
            terminate_on: &found.terminate_on,
            budget: found.budget.as_ref(),
            stalled_after: found.stall_limit(),
        }),
    })
}

pub(super) fn of_hank(hank: &Hank) -> Option<&ContainerBudget> {
    hank.overrides.as_ref()?.budget.as_ref()
}

/// Returns the limits of the whole hank in words. Unless the hank says otherwise, the run pauses at them.
pub(super) fn of_whole(hank: &Hank) -> Option<String> {
    let budget = of_hank(hank)?;
    let on_exceeded = budget.on_exceeded.or(Some(OnExceeded::Pause));
    of_container(&ContainerBudget {
        on_exceeded,
        ..budget.clone()
    })
}

/// Returns a budget in words, as `may use $2.0000 and 60 s, shared proportionally (a 50 %, b 25 %), or fails`; `None` without limits.
pub(crate) fn of_container(budget: &ContainerBudget) -> Option<String> {
    let limits = [dollars(budget.max_dollars), seconds(budget.max_time_seconds)];
    let sharing = match budget.allocation {
        None | Some(Allocation::Shared) => String::new(),
        Some(Allocation::Proportional) => ", shared proportionally".to_owned(),
        Some(Allocation::ProportionalStrict) => ", shared proportionally and strictly".to_owned(),
    };
    let shares: Vec<String> = budget
        .shares
        .iter()
        .map(|(child, share)| format!("{child} {} %", percent(*share)))
        .collect();
    let shares = match shares.is_empty() {
        true => String::new(),
        false => format!(" ({})", shares.join(", ")),
    };
    sentence(limits, &format!("{sharing}{shares}"), budget.on_exceeded)
}

pub(crate) fn of_codon(budget: &CodonBudget) -> Option<String> {
    let limits = [
        dollars(budget.max_dollars),
        seconds(budget.max_time_seconds),
        budget
            .max_output_tokens
            .map(|tokens| format!("{tokens} output tokens")),
        budget
            .max_context_tokens
            .map(|tokens| format!("{tokens} context tokens")),
    ];
    sentence(limits, "", budget.on_exceeded)
}

fn sentence(
    limits: impl IntoIterator<Item = Option<String>>,
    sharing: &str,
    on_exceeded: Option<OnExceeded>,
) -> Option<String> {
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    let end = match on_exceeded {
        Some(OnExceeded::Fail) => ", or fails",
        Some(OnExceeded::Pause) => ", then pauses",
        Some(OnExceeded::Complete) | None => "",
    };
    let (last, before) = limits.split_last()?;
    let limits = match before {
        [] => last.clone(),
        before => format!("{} and {last}", before.join(", ")),
    };
    Some(format!("may use {limits}{sharing}{end}"))
}

fn dollars(dollars: Option<Usd>) -> Option<String> {
    dollars.map(|dollars| dollars.to_string())
}

fn seconds(seconds: Option<f64>) -> Option<String> {
    seconds.map(|seconds| short_duration(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)))
}

/// Returns a share in percent, to a tenth.
fn percent(share: f64) -> f64 {
    (share * 1000.0).round() / 10.0
}
