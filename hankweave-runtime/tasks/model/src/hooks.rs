//! Hooks before and after the steps of a task, and their order (TASK-17).

use std::fmt;
use std::time::Duration;

/// Time limit of a hook.
pub const LONGEST_HOOK: Duration = Duration::from_secs(30);

/// Default priority of hooks; lower numbers run first.
pub const DEFAULT_PRIORITY: i64 = 10;

/// Moments at which hooks run: before the task's lock is taken, and after it is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookPoint {
    /// An agent is about to start.
    BeforeStart,
    /// An agent has started.
    AfterStart,
    /// The task is about to be completed.
    BeforeComplete,
    /// The task is completed.
    AfterComplete,
    /// The task is about to fail.
    BeforeFail,
    /// The task has failed.
    AfterFail,
    /// The task is about to be cancelled.
    BeforeCancel,
    /// The task is cancelled.
    AfterCancel,
    /// The task is about to be deleted.
    BeforeDelete,
    /// The task was deleted.
    AfterDelete,
}

impl HookPoint {
    /// All moments.
    pub const ALL: [Self; 10] = [
        Self::BeforeStart,
        Self::AfterStart,
        Self::BeforeComplete,
        Self::AfterComplete,
        Self::BeforeFail,
        Self::AfterFail,
        Self::BeforeCancel,
        Self::AfterCancel,
        Self::BeforeDelete,
        Self::AfterDelete,
    ];

    /// Returns the name used in logs and registrations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BeforeStart => "beforeTaskStart",
            Self::AfterStart => "afterTaskStart",
            Self::BeforeComplete => "beforeTaskComplete",
            Self::AfterComplete => "afterTaskComplete",
            Self::BeforeFail => "beforeTaskFail",
            Self::AfterFail => "afterTaskFail",
            Self::BeforeCancel => "beforeTaskCancel",
            Self::AfterCancel => "afterTaskCancel",
            Self::BeforeDelete => "beforeTaskDelete",
            Self::AfterDelete => "afterTaskDelete",
        }
    }

    /// Whether a hook at this moment can still prevent the step.
    #[must_use]
    pub const fn is_before(self) -> bool {
        matches!(
            self,
            Self::BeforeStart
                | Self::BeforeComplete
                | Self::BeforeFail
                | Self::BeforeCancel
                | Self::BeforeDelete
        )
    }
}

/// Action after the failure of a hook. The failure is logged in any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HookPolicy {
    /// Run the other hooks and take the step.
    #[default]
    Continue,
    /// Before a step: skip the later hooks and the step. After a step: like `Continue`.
    Veto,
}

/// Name of a registration. Numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HookId(u64);

impl fmt::Display for HookId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hook_{}", self.0)
    }
}

/// Registration of a hook; `H` is the hook itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook<H> {
    /// Name of the registration.
    pub id: HookId,
    /// Moment at which the hook runs.
    pub point: HookPoint,
    /// Priority; lower numbers run first.
    pub priority: i64,
    /// Action after a failure of the hook.
    pub policy: HookPolicy,
    /// Hook to run.
    pub run: H,
}

impl<H> Hook<H> {
    /// Whether a failure of the hook prevents the step.
    #[must_use]
    pub const fn prevents(&self) -> bool {
        matches!(self.policy, HookPolicy::Veto) && self.point.is_before()
    }
}

/// All registrations, in running order: by priority, then by age.
#[derive(Debug, Clone)]
pub struct Hooks<H> {
    hooks: Vec<Hook<H>>,
    next: u64,
}

impl<H> Default for Hooks<H> {
    fn default() -> Self {
        Self {
            hooks: Vec::new(),
            next: 0,
        }
    }
}

impl<H> Hooks<H> {
    /// Registers a hook. A step that already runs its hooks has got their list from [`at`](Self::at), so the new hook first runs at the next step.
    pub fn register(&mut self, point: HookPoint, priority: i64, policy: HookPolicy, run: H) -> HookId {
        let id = HookId(self.next);
        self.next += 1;
        let place = self.hooks.partition_point(|hook| hook.priority <= priority);
        let hook = Hook {
            id,
            point,
            priority,
            policy,
            run,
        };
        self.hooks.insert(place, hook);
        id
    }

    /// Removes a registration and returns whether it existed.
    pub fn unregister(&mut self, id: HookId) -> bool {
        let before = self.hooks.len();
        self.hooks.retain(|hook| hook.id != id);
        self.hooks.len() < before
    }

    /// Returns all registrations.
    pub fn all(&self) -> impl Iterator<Item = &Hook<H>> {
        self.hooks.iter()
    }

    /// Returns the current hooks of one moment.
    #[must_use]
    pub fn at(&self, point: HookPoint) -> Vec<Hook<H>>
    where
        H: Clone,
    {
        self.hooks
            .iter()
            .filter(|hook| hook.point == point)
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register(hooks: &mut Hooks<&'static str>, priority: i64, run: &'static str) -> HookId {
        hooks.register(HookPoint::BeforeStart, priority, HookPolicy::Continue, run)
    }

    fn order(hooks: &Hooks<&'static str>) -> Vec<&'static str> {
        hooks
            .at(HookPoint::BeforeStart)
            .iter()
            .map(|hook| hook.run)
            .collect()
    }

    // covers: TASK-17
    #[test]
    fn hooks_run_by_priority_and_then_by_age_and_no_name_comes_twice() {
        let mut hooks = Hooks::default();
        let second = register(&mut hooks, DEFAULT_PRIORITY, "second");
        register(&mut hooks, DEFAULT_PRIORITY, "third");
        register(&mut hooks, -1, "first");
        register(&mut hooks, 11, "last");
        hooks.register(HookPoint::AfterStart, 0, HookPolicy::Continue, "later");
        assert_eq!(order(&hooks), ["first", "second", "third", "last"]);
        let running = hooks.at(HookPoint::BeforeStart);
        assert!(hooks.unregister(second) && !hooks.unregister(second));
        let newest = register(&mut hooks, DEFAULT_PRIORITY, "newest");
        assert_eq!(
            (second.to_string(), newest.to_string()),
            ("hook_0".to_owned(), "hook_5".to_owned())
        );
        assert_eq!(order(&hooks), ["first", "third", "newest", "last"]);
        assert_eq!(running.len(), 4, "what runs already stays as it was");
        assert_eq!(hooks.all().count(), 5);
    }

    // covers: TASK-17
    #[test]
    fn only_before_a_step_a_failure_can_prevent_it() {
        let mut hooks = Hooks::default();
        for point in [HookPoint::BeforeFail, HookPoint::AfterFail] {
            hooks.register(point, 0, HookPolicy::Veto, ());
            hooks.register(point, 0, HookPolicy::Continue, ());
        }
        let prevents: Vec<(&str, bool)> = hooks
            .all()
            .map(|hook| (hook.point.name(), hook.prevents()))
            .collect();
        let expected = [
            ("beforeTaskFail", true),
            ("beforeTaskFail", false),
            ("afterTaskFail", false),
            ("afterTaskFail", false),
        ];
        assert_eq!(prevents, expected);
    }
}
