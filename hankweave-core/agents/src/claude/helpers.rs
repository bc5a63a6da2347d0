//! Sub-agents of one claude process, and their activity where the stream reports it.

use std::collections::{HashMap, HashSet};

use crate::open_tools::MAX_REMEMBERED_BYTES;

/// Maximum of sub-agents that are followed at once.
const MAX_FOLLOWED: usize = 256;

/// Tool calls of one sub-agent that are waited for.
const MAX_CALLS: usize = 256;

/// Sub-agents by the tool use that started each.
#[derive(Debug, Default)]
pub(super) struct Helpers {
    known: HashMap<String, Helper>,
    /// Whether there has been one.
    any: bool,
    /// There were more than are followed.
    too_many: bool,
}

#[derive(Debug, Default)]
struct Helper {
    calls: HashSet<String>,
    /// A request was sent, and its answer has not started. The stream reports neither; both follow from the lines that precede a request.
    asks: bool,
}

impl Helpers {
    /// Whether the process has had sub-agents.
    pub(super) fn any(&self) -> bool {
        self.any
    }

    /// Whether one of them may work. One in the background outlives the tool use that started it, and speaks again.
    pub(super) fn may_work(&self) -> bool {
        self.too_many || !self.known.is_empty()
    }

    /// Whether one of them may have asked a model and has no answer yet.
    pub(super) fn may_ask(&self) -> bool {
        self.too_many || self.known.values().any(|helper| helper.asks)
    }

    /// Notes its prompt, or another text for it.
    pub(super) fn prompted(&mut self, parent: &str) {
        if let Some(helper) = self.helper(parent) {
            helper.asks = true;
        }
    }

    /// Notes that one of its tools has answered; it asks again after the last one.
    pub(super) fn answered(&mut self, parent: &str, call: &str) {
        if let Some(helper) = self.helper(parent) {
            helper.calls.remove(call);
            helper.asks |= helper.calls.is_empty();
        }
    }

    /// Notes a block of its answer.
    pub(super) fn spoke(&mut self, parent: &str) {
        if let Some(helper) = self.helper(parent) {
            helper.asks = false;
        }
    }

    /// Notes a call of a tool.
    pub(super) fn called(&mut self, parent: &str, call: &str) {
        if let Some(helper) = self.helper(parent)
            && call.len() <= MAX_REMEMBERED_BYTES
            && helper.calls.len() < MAX_CALLS
        {
            helper.calls.insert(call.to_owned());
        }
    }

    /// Notes that the tool use which started it has answered.
    pub(super) fn ended(&mut self, started_by: &str) {
        self.known.remove(started_by);
    }

    fn helper(&mut self, parent: &str) -> Option<&mut Helper> {
        self.any = true;
        if self.known.contains_key(parent) {
            return self.known.get_mut(parent);
        }
        if parent.len() > MAX_REMEMBERED_BYTES || self.known.len() >= MAX_FOLLOWED {
            self.too_many = true;
            return None;
        }
        Some(self.known.entry(parent.to_owned()).or_default())
    }
}
