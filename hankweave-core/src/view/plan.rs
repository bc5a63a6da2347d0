//! Plan of a view: the entries near the current one, and their newest attempts (WIRE-38).

use std::collections::BTreeMap;

use serde_json::Value;

use super::attempt::{AttemptKey, AttemptView};
use super::item::{ItemKind, ItemView};
use super::run_view::RunView;
use super::text::{GOAL, NAME, TITLE, excerpt};
use crate::document::{PlanEntry, PlanExtension, PlannedCodon, SharedList};
use crate::id::{CodonId, LoopId};
use crate::wire::{Event, HankTitle};

/// Maximum number of entries that a view shows.
const ITEMS: usize = 500;
/// Maximum length of these entries in JSON without attempts, in bytes.
const ITEM_BYTES: usize = 64 * 1024;
/// Maximum number of attempts that a view shows one by one; older ones are summed in their item.
const ATTEMPTS: usize = 200;
/// Number of entries before the current one that are shown of a plan longer than `ITEMS`.
const BEFORE: usize = 50;

/// A codon of the plan that is to be added to the view.
struct Layout<'p> {
    /// Id in hank.json.
    id: &'p str,
    /// Loop that holds it.
    within: Option<&'p LoopId>,
    /// Configuration; `None` where the plan does not have it.
    codon: Option<&'p PlannedCodon>,
}

impl RunView {
    /// Makes the items of a new plan; items of the plan before it keep their attempts and checks.
    pub(super) fn replace_plan(&mut self, plan: &SharedList<PlanEntry>) {
        let mut seen = std::collections::HashSet::new();
        let entries = plan.iter().map(|entry| Layout {
            id: entry.codon_id.configured(),
            within: entry.loop_context.as_ref().map(|place| &place.loop_id),
            codon: Some(&entry.codon),
        });
        let entries: Vec<Layout<'_>> = entries.filter(|entry| seen.insert(entry.id)).collect();
        let current = self.now.as_ref().map(|now| now.item.as_str());
        let current = entries.iter().position(|entry| Some(entry.id) == current);
        let first = match entries.len() > ITEMS {
            true => current.unwrap_or_default().saturating_sub(BEFORE),
            false => 0,
        };
        let mut previous = std::mem::take(&mut self.items);
        self.order.clear();
        let (mut weight, mut shown) = (0, 0);
        for entry in &entries[first..] {
            weight += self.lay_out(entry, previous.remove(entry.id), &mut previous);
            shown += 1;
            if weight > ITEM_BYTES || shown == ITEMS {
                break;
            }
        }
        self.omitted.before = first;
        self.omitted.after = entries.len() - first - shown;
    }

    /// Applies the description of a run; other events change nothing.
    pub(super) fn describe(&mut self, event: &Event) {
        let Event::RunDescribed {
            hank,
            goal,
            max_dollars,
            max_time_ms,
            loops,
            rehearsal,
        } = event
        else {
            return;
        };
        self.hank = hank.as_ref().map(|hank| HankTitle {
            name: excerpt(&hank.name, NAME),
            version: excerpt(&hank.version, NAME),
        });
        if let Some(goal) = goal {
            self.goal = Some(excerpt(goal, GOAL));
        }
        self.rehearsal |= rehearsal;
        (self.money.limit, self.time_limit_ms) = (*max_dollars, *max_time_ms);
        for described in loops {
            if let Some(item) = self.items.get_mut(described.id.as_str()) {
                item.name = excerpt(&described.name, NAME);
                item.most = described.most;
                item.until = described.until.as_deref().map(|run| excerpt(run, TITLE));
            }
        }
    }

    /// Adds the entries by which a loop extends the plan.
    pub(super) fn extend_plan(&mut self, extension: &PlanExtension) {
        for added in &extension.entries {
            let entry = Layout {
                id: added.codon_id.configured(),
                within: added.loop_context.as_ref().map(|place| &place.loop_id),
                codon: added.codon.as_ref(),
            };
            if !self.items.contains_key(entry.id) {
                self.lay_out(&entry, None, &mut BTreeMap::new());
                self.make_room();
            }
        }
    }

    /// Adds an item for a codon that starts, unless the view has one.
    pub(super) fn find_or_lay_out(&mut self, codon: &CodonId, within: Option<&LoopId>) {
        let id = codon.configured();
        if self.items.contains_key(id) {
            return;
        }
        let entry = Layout {
            id,
            within,
            codon: None,
        };
        self.lay_out(&entry, None, &mut BTreeMap::new());
        // A long plan is shown in part; this is the entry after that part.
        self.omitted.after = self.omitted.after.saturating_sub(1);
        self.make_room();
    }

    /// Adds a codon at the end, with its loop if that is new; returns an upper bound for the length that both add to the JSON, in bytes. `known` is its item
    /// from the previous plan, and `loops` has the items of that plan's loops.
    fn lay_out(
        &mut self,
        entry: &Layout<'_>,
        known: Option<ItemView>,
        loops: &mut BTreeMap<String, ItemView>,
    ) -> usize {
        let mut item = known.unwrap_or_default();
        item.kind = ItemKind::Codon;
        item.describe(entry);
        let mut weight = item.weight(entry.id);
        match entry.within.map(LoopId::as_str) {
            // Items are found by their ids, so a codon with the id of its loop cannot be listed inside it.
            Some(loop_id) if loop_id != entry.id => {
                if !self.items.contains_key(loop_id) {
                    let mut loop_item = loops.remove(loop_id).unwrap_or_default();
                    loop_item.kind = ItemKind::Loop;
                    loop_item.order.clear();
                    if loop_item.name.is_empty() {
                        loop_item.name = excerpt(loop_id, NAME);
                    }
                    weight += loop_item.weight(loop_id);
                    self.items.insert(loop_id.to_owned(), loop_item);
                    self.order.push(loop_id.to_owned());
                }
                if let Some(loop_item) = self.items.get_mut(loop_id) {
                    loop_item.order.push(entry.id.to_owned());
                    weight += entry.id.len() + 3;
                }
            }
            _ => self.order.push(entry.id.to_owned()),
        }
        self.items.insert(entry.id.to_owned(), item);
        weight
    }

    /// Removes the first entries, a loop with its codons, while the plan has too many or they are too long.
    fn make_room(&mut self) {
        let weight = |view: &Self| view.items.iter().map(|(id, item)| item.weight(id)).sum::<usize>();
        while self.order.len() > 1 && (self.items.len() > ITEMS || weight(self) > ITEM_BYTES) {
            let first = self.order.remove(0);
            let codons_of_loop = self.items.remove(&first).map_or(Vec::new(), |item| item.order);
            for id in &codons_of_loop {
                self.items.remove(id);
            }
            self.omitted.before += codons_of_loop.len().max(1);
        }
    }

    /// Adds an attempt; the oldest one is summed when there are too many.
    pub(super) fn add_attempt(&mut self, item: &str, key: AttemptKey, attempt: AttemptView) {
        if let Some(item) = self.items.get_mut(item) {
            item.attempts.insert(key, attempt);
        }
        let count: usize = self.items.values().map(|item| item.attempts.len()).sum();
        if count <= ATTEMPTS {
            return;
        }
        let all = self.items.iter().flat_map(|(id, item)| {
            let attempts = item.attempts.iter();
            attempts.map(move |(key, attempt)| ((attempt.seq, attempt.began, *key), id.clone()))
        });
        let Some(((_, _, key), id)) = all.min() else {
            return;
        };
        let item = self.items.entry(id).or_default();
        if let Some(oldest) = item.attempts.remove(&key) {
            item.earlier.get_or_insert_default().add(key, &oldest);
        }
    }
}

impl ItemView {
    /// Takes over the configuration of a codon from the plan.
    fn describe(&mut self, entry: &Layout<'_>) {
        self.within = entry.within.map(|of| of.as_str().to_owned());
        if let Some(codon) = entry.codon {
            let text = |key: &str| codon.as_json().get(key).and_then(Value::as_str);
            self.name = excerpt(codon.name().unwrap_or(entry.id), NAME);
            self.model = text("model").map(|model| excerpt(model, NAME));
            self.asks = match codon.as_json().get("approval") {
                Some(Value::String(question)) => Some(excerpt(question, TITLE)),
                Some(Value::Bool(true)) => Some(format!("may {} begin?", excerpt(entry.id, NAME))),
                _ => None,
            };
        }
        if self.name.is_empty() {
            self.name = excerpt(entry.id, NAME);
        }
    }
}
