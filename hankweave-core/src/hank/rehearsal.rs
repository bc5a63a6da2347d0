//! Turns a hank into its rehearsal, a run without real agents, checks and questions, and names the steps that a rehearsal leaves out (CLI-74).

use serde::{Deserialize, Serialize};

use crate::agent::AgentOptions;

use super::document::{Hank, HankItem, LoopConfig, TerminateOn};

/// Environment variable that agents and rigs get in a rehearsal.
pub const REHEARSAL_VARIABLE: &str = "HANKWEAVE_REHEARSAL";

/// Kind of a step that a rehearsal leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum RehearsedKind {
    /// Question to the user, which counts as approved.
    Ask,
    /// Command that decides, which counts as passed.
    Run,
    /// Agents that take a codon over, which are not needed.
    #[serde(rename = "fallback")]
    FallBack,
    /// Wait for the end of a usage limit or before another attempt, which is skipped.
    Wait,
    /// Files that must have changed, which are not looked for.
    Require,
    /// Iterations of a loop after the first one.
    Repeat,
    /// Extensions of a codon.
    Extend,
    /// Sentinel, which is not started.
    Watch,
    /// Result files, which are not copied.
    Copy,
    /// Options of the agent, which the scripted one does without.
    Set,
}

impl RehearsedKind {
    /// Returns the step in words: `would run: cargo test`, `one pass of at most 5`.
    #[must_use]
    pub fn words(self, text: &str) -> String {
        match self {
            Self::Ask => format!("would ask: {text}"),
            Self::Run => format!("would run: {text}"),
            Self::FallBack => format!("would fall back to: {text}"),
            Self::Wait => format!("would wait {text}"),
            Self::Require => format!("would require: {text}"),
            Self::Repeat => format!("one pass of {text}"),
            Self::Extend => format!("would continue {text}"),
            Self::Watch => format!("would watch: {text}"),
            Self::Copy => format!("would copy: {text}"),
            Self::Set => format!("would set: {text}"),
        }
    }
}

impl Hank {
    /// Removes the steps that a rehearsal leaves out: approvals, required changes, results, fallbacks, sentinels, extensions, and all iterations but one.
    /// Checks stay, because the rehearsal reports them at their place after the agent.
    pub fn rehearse(&mut self) {
        self.leave_out_fallbacks();
        self.leave_out_agent_options();
        if let Some(overrides) = &mut self.overrides {
            overrides.requires = None;
        }
        for codon in self.codons_mut() {
            codon.approval = None;
            codon.requires = None;
            codon.result = None;
            codon.sentinels.clear();
            codon.exhaust_with_prompt = None;
            codon.max_extensions = None;
            codon.env.insert(REHEARSAL_VARIABLE.to_owned(), "1".to_owned());
        }
        for item in &mut self.items {
            if let HankItem::Loop(found) = item {
                found.terminate_on = match &found.terminate_on {
                    TerminateOn::UntilCheckPasses { run, .. } => TerminateOn::UntilCheckPasses {
                        run: run.clone(),
                        limit: Some(1),
                    },
                    TerminateOn::IterationLimit { .. } | TerminateOn::ContextExceeded => {
                        TerminateOn::IterationLimit { limit: 1 }
                    }
                };
            }
        }
    }

    /// Removes the options of agents (AGENT-60), for the scripted agent, which plays all agents.
    pub fn leave_out_agent_options(&mut self) {
        if let Some(overrides) = &mut self.overrides {
            overrides.agent_options = AgentOptions::default();
        }
        for codon in self.codons_mut() {
            codon.agent_options = AgentOptions::default();
        }
    }
}

impl LoopConfig {
    /// Returns the number of all iterations in words, such as `at most 5`, if a rehearsal leaves out some of them; `None` for a loop of one iteration.
    #[must_use]
    pub fn iterations_left_out(&self) -> Option<String> {
        match (&self.terminate_on, self.most_iterations()) {
            (_, Some(1)) => None,
            (TerminateOn::IterationLimit { limit }, _) => Some(limit.to_string()),
            (_, Some(most)) => Some(format!("at most {most}")),
            (_, None) => Some("as many as the context allows".to_owned()),
        }
    }
}
