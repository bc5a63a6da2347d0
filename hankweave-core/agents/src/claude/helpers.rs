//! Sub-agents ("helpers") of one claude process, and whether they work or wait for a model, as far as the stream shows it. In every method, `parent` is
//! the tool use that started the sub-agent.

use std::collections::{HashMap, HashSet};

use crate::open_tools::MAX_REMEMBERED_BYTES;

/// Maximum of sub-agents that are followed at once.
const MAX_FOLLOWED: usize = 256;

/// Maximum of open tool calls of one sub-agent that are followed.
const MAX_CALLS: usize = 256;

/// Sub-agents by the tool use that started each.
#[derive(Debug, Default)]
pub(super) struct Helpers {
    known: HashMap<String, Helper>,
    /// Whether the process has had a sub-agent, also one that is forgotten by now.
    any: bool,
    /// The process had more sub-agents than are followed, so nothing is certain any more.
    too_many: bool,
}

#[derive(Debug, Default)]
struct Helper {
    /// Its open tool calls.
    calls: HashSet<String>,
    /// It has sent a request to a model, and the answer has not started. The stream reports neither: a request follows the prompt or the last tool
    /// result, and an answer has started when one of its blocks is printed.
    awaits_model: bool,
}

impl Helpers {
    /// Whether the process has had sub-agents.
    pub(super) fn any(&self) -> bool {
        self.any
    }

    /// Whether a sub-agent may be working, as far as its lines show: one in the background outlives the tool use that started it, and is forgotten by
    /// `ended` until its next line.
    pub(super) fn may_work(&self) -> bool {
        self.too_many || !self.known.is_empty()
    }

    /// Whether a sub-agent may have asked a model and have no answer yet.
    pub(super) fn may_ask(&self) -> bool {
        self.too_many || self.known.values().any(|helper| helper.awaits_model)
    }

    /// Notes the prompt of a sub-agent, or another text for it: it asks its model.
    pub(super) fn prompted(&mut self, parent: &str) {
        if let Some(helper) = self.helper(parent) {
            helper.awaits_model = true;
        }
    }

    /// Notes that a tool of a sub-agent has answered; after the last open call it asks its model again.
    pub(super) fn answered(&mut self, parent: &str, call: &str) {
        if let Some(helper) = self.helper(parent) {
            helper.calls.remove(call);
            helper.awaits_model |= helper.calls.is_empty();
        }
    }

    /// Notes a block of the model's answer to a sub-agent.
    pub(super) fn spoke(&mut self, parent: &str) {
        if let Some(helper) = self.helper(parent) {
            helper.awaits_model = false;
        }
    }

    /// Notes that a sub-agent calls a tool.
    pub(super) fn called(&mut self, parent: &str, call: &str) {
        if let Some(helper) = self.helper(parent)
            && call.len() <= MAX_REMEMBERED_BYTES
            && helper.calls.len() < MAX_CALLS
        {
            helper.calls.insert(call.to_owned());
        }
    }

    /// Forgets a sub-agent, because the tool use that started it has answered. One in the background works on, and is added again with its next line.
    pub(super) fn ended(&mut self, started_by: &str) {
        self.known.remove(started_by);
    }

    /// Returns a sub-agent, added if it is new; `None` if too many are followed.
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
