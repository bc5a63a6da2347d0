//! Shows the events of the journal to the sentinels that wait for them, except events about files that sentinels of this codon wrote.

use std::sync::Arc;
use std::time::Duration;

use hankweave_core::sentinel::{CODON_COMPLETED, ObservedEvent};
use serde_json::Value;

use super::super::SentinelShutdown;
use super::{ActiveSentinel, SentinelLoop};
use crate::state_manager::Events;

/// Event about one file that has changed.
const FILE_UPDATED: &str = "file.updated";

/// Event about all files, sent once after each survey that found a change.
const TREE_UPDATED: &str = "filetree.updated";

/// Which files have changed.
#[derive(Clone, Copy, Default)]
pub(super) struct ChangedFiles {
    /// Files that sentinels write.
    pub(super) own: bool,
    /// Other files.
    pub(super) others: bool,
}

impl SentinelLoop {
    /// Shows each event to the sentinels that wait for its kind.
    pub(super) fn see(&mut self, events: &Events) {
        let now = self.started.elapsed();
        for line in events.lines() {
            if line.seq() <= self.seen {
                continue;
            }
            self.seen = line.seq();
            if self.after_end {
                self.see_end(line.kind(), line.text(), now);
                continue;
            }
            let is_interested =
                |one: &ActiveSentinel| one.tracked.is_active() && one.engine.is_interested(line.kind());
            // `is_own_change` must see every change of a file, even if no sentinel waits for it.
            let is_of_file = !self.own_files.is_empty() && line.kind() == FILE_UPDATED;
            if !is_of_file && !self.sentinels.iter().any(is_interested) {
                continue;
            }
            let Some(event) =
                ObservedEvent::from_line(line.text()).filter(|event| !self.is_own_change(event))
            else {
                continue;
            };
            let event = Arc::new(event);
            for one in self.sentinels.iter_mut().filter(|one| is_interested(one)) {
                one.engine.see(&event, now);
            }
        }
        self.stop_after_last_event();
    }

    /// Shows the end of the codon to the sentinels that wait for it. Other events after the end are no work of the agent, so
    /// they are not shown.
    fn see_end(&mut self, kind: &str, text: &str, now: Duration) {
        if kind != CODON_COMPLETED {
            return;
        }
        let event = ObservedEvent::from_line(text);
        let codon = Some(self.context.codon.as_str());
        let is_own = |event: &ObservedEvent| event.data.get("codonId").and_then(Value::as_str) == codon;
        let Some(event) = event.filter(is_own).map(Arc::new) else {
            return;
        };
        for one in self.sentinels.iter_mut().filter(|one| one.tracked.is_active()) {
            one.engine.see(&event, now);
        }
        self.stop_listening();
    }

    /// Whether the event reports only changes of files that sentinels wrote. No sentinel may act on their output.
    fn is_own_change(&mut self, event: &ObservedEvent) -> bool {
        if event.kind == FILE_UPDATED {
            let path = event.data.get("path").and_then(|path| path.as_str());
            let is_own = path.is_some_and(|path| self.own_files.contains(path));
            // The tree of files has only files that checkpoints hold.
            if event.data.get("checkpointed") != Some(&Value::Bool(false)) {
                self.changed.own |= is_own;
                self.changed.others |= !is_own;
            }
            return is_own;
        }
        if event.kind != TREE_UPDATED {
            return false;
        }
        // The event of the tree comes after those of its files.
        let ChangedFiles { own, others } = std::mem::take(&mut self.changed);
        own && !others
    }

    /// Stops listening once the last event that the codon wants seen was seen.
    pub(super) fn stop_after_last_event(&mut self) {
        if matches!(self.shutdown, SentinelShutdown::Drain { until, .. } if self.seen >= until) {
            self.stop_listening();
        }
    }

    /// Reads no further events, and lets the sentinels act on the events that they have collected.
    pub(super) fn stop_listening(&mut self) {
        if self.is_listening {
            self.is_listening = false;
            self.sentinels.iter_mut().for_each(|one| one.engine.flush());
        }
    }
}
