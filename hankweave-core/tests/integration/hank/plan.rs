//! Laws of the execution plan.

use std::collections::HashSet;

use hankweave_core::document::{PlanEntry, SharedList};
use hankweave_core::hank::{Hank, parse};
use hankweave_core::plan::{LoopSignal, LoopStep, advance_loop, initial_plan};
use proptest::prelude::*;

/// Hanks of codons and loops; a loop is given by its number of codons and its limit, 0 meaning until the context is full.
fn hanks() -> impl Strategy<Value = Hank> {
    let item = prop_oneof![Just(None), (1..4usize, 0..4u32).prop_map(Some)];
    prop::collection::vec(item, 1..6).prop_map(|items| {
        let codon = |id: &str, mode: &str| super::codon(id, &format!(r#""continuationMode": "{mode}""#));
        let items: Vec<_> = items
            .into_iter()
            .enumerate()
            .map(|(index, item)| match item {
                None => codon(&format!("c{index}"), "fresh"),
                Some((codons, limit)) => {
                    let terminate_on = match limit {
                        0 => super::UNTIL_FULL.to_owned(),
                        limit => format!(r#"{{"type": "iterationLimit", "limit": {limit}}}"#),
                    };
                    let first = if index == 0 || limit > 0 {
                        "fresh"
                    } else {
                        "continue-previous"
                    };
                    let mode = |inner: usize| {
                        if limit == 0 {
                            "continue-previous"
                        } else if inner == 0 {
                            first
                        } else {
                            "fresh"
                        }
                    };
                    let codons: Vec<_> = (0..codons)
                        .map(|inner| codon(&format!("l{index}-{inner}"), mode(inner)))
                        .collect();
                    super::loop_of(&terminate_on, &codons)
                        .replace("\"l\"", &format!("\"l{index}\""))
                        .replace("\"L\"", &format!("\"L{index}\""))
                }
            })
            .collect();
        let text = super::hank(&items);
        let parsed = parse(&text);
        // A loop that fills the context cannot be followed by a codon that continues.
        parsed.hank.or(parsed.draft).expect("all items are well formed")
    })
}

fn ids(plan: &SharedList<PlanEntry>) -> Vec<String> {
    plan.iter().map(|entry| entry.codon_id.to_string()).collect()
}

/// Position of an entry in a hank whose loops were all written out.
fn rank(hank: &Hank, entry: &PlanEntry) -> (usize, u32, u32) {
    let id = entry.codon_id.configured();
    let item = hank
        .items
        .iter()
        .position(|item| item.codons().iter().any(|codon| codon.id.as_str() == id))
        .expect("the plan was made from this hank");
    entry.loop_context.as_ref().map_or((item, 0, 0), |context| {
        (item, context.iteration, context.codon_index_in_loop)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ids_stay_unique_and_order_is_kept_however_a_run_goes(hank in hanks(), full in prop::collection::vec(prop::bool::weighted(0.2), 60)) {
        let mut plan = initial_plan(&hank);
        for (next, full) in full.into_iter().enumerate() {
            let Some(entry) = plan.get(next) else { break };
            let overrun = if full { LoopSignal::Context } else { LoopSignal::Nothing };
            let step = advance_loop(&hank, &plan, &entry.codon_id.clone(), overrun).unwrap();
            let finished = ids(&plan)[..=next].to_vec();
            let may_grow = matches!(step, LoopStep::Expand(..));
            let before = plan.len();
            step.apply_to(&mut plan);
            prop_assert_eq!(&ids(&plan)[..=next], &finished[..], "what has run stays");
            prop_assert!(may_grow == (plan.len() > before));
            let unique: HashSet<_> = ids(&plan).into_iter().collect();
            prop_assert_eq!(unique.len(), plan.len());
            let ranks: Vec<_> = plan.iter().map(|entry| rank(&hank, entry)).collect();
            prop_assert!(ranks.is_sorted(), "{:?}", ids(&plan));
        }
    }
}
