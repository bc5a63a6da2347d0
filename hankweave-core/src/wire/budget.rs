//! Parts of the event `budget.summary`: budgets of a run and of its codons, and the usage of each.

use serde::{Deserialize, Serialize};

use crate::budget::{BudgetStatus, BudgetSummaryRow, Ceiling, CodonLimits};
use crate::codon::LoopContext;
use crate::cost::Usd;
use crate::id::CodonId;

/// Total budget; an absent limit means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BudgetCeiling {
    /// In US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_dollars: Option<Usd>,
    /// In seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_time_seconds: Option<f64>,
}

/// One entry of the plan with what it might use and what it used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BudgetRow {
    /// The codon.
    pub codon_id: CodonId,
    /// Position in a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_context: Option<LoopContext>,
    /// Outcome.
    pub status: BudgetStatus,
    /// Limits.
    pub budget: BudgetLimits,
    /// Usage.
    pub actual: ActualUse,
}

/// The limits of a codon; absent means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BudgetLimits {
    /// In US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_dollars: Option<Usd>,
    /// In seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_time_seconds: Option<f64>,
    /// Tokens that models write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Tokens of the largest turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_context_tokens: Option<u64>,
}

/// Usage of a codon.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ActualUse {
    /// In US dollars, also when it was skipped.
    pub dollars: Usd,
    /// In seconds.
    pub time_seconds: f64,
    /// Tokens that models wrote.
    pub output_tokens: u64,
}

/// Everything together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BudgetTotals {
    /// The ceiling in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_dollars: Option<Usd>,
    /// Spending in US dollars.
    pub actual_dollars: Usd,
    /// Set when more was spent, by an unknown amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual_is_lower_bound: Option<bool>,
    /// Time in which codons were at work, in seconds.
    pub actual_time_seconds: f64,
    /// Set when they were at work for longer, by an unknown time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual_time_is_lower_bound: Option<bool>,
}

impl From<Ceiling> for BudgetCeiling {
    fn from(ceiling: Ceiling) -> Self {
        Self {
            max_dollars: ceiling.max_dollars,
            max_time_seconds: ceiling.max_time.map(|time| time.as_secs_f64()),
        }
    }
}

impl From<BudgetSummaryRow> for BudgetRow {
    fn from(row: BudgetSummaryRow) -> Self {
        Self {
            codon_id: row.codon_id,
            loop_context: row.loop_context,
            status: row.status,
            budget: row.limits.into(),
            actual: ActualUse {
                dollars: row.spent,
                time_seconds: row.took.as_secs_f64(),
                output_tokens: row.output_tokens,
            },
        }
    }
}

impl From<CodonLimits> for BudgetLimits {
    fn from(limits: CodonLimits) -> Self {
        Self {
            max_dollars: limits.dollars,
            max_time_seconds: limits.time.map(|time| time.as_secs_f64()),
            max_output_tokens: limits.output_tokens,
            max_context_tokens: limits.context_tokens,
        }
    }
}
