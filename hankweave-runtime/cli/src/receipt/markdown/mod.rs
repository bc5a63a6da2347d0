//! The report as Markdown, which can be used as the text of a pull request. Each submodule writes some sections.

mod codons;
mod files;
mod money;

use std::fmt::{self, Write as _};
use std::time::Duration;

use hankweave_core::cost::over_budget;
use hankweave_core::hank::agent_words;
use hankweave_core::view::{CodonCount, RunState};
use hankweave_core::wire::NextSteps;

use self::files::changed;
use super::codons::{AgentReport, AskingReport, PlannedReport};
use super::gathered::Receipt;
use super::markup::{NAMED, code, plain, with_ids};
use crate::terminal::report::{counted, duration, worked};
use crate::terminal::screen::{offset_date, offset_period, offset_second, offset_time};

/// Returns the whole report.
pub(super) fn markdown(receipt: &Receipt) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = receipt.write(&mut text);
    text
}

impl Receipt {
    fn write(&self, text: &mut String) -> fmt::Result {
        // After a rollback, a mark of success or failure would be about files that were replaced.
        let mark = match self.is_rolled_back {
            true => RunState::Stopped.mark(),
            false => self.state.mark(),
        };
        writeln!(
            text,
            "# {mark} {}: {}\n",
            plain(&self.name),
            with_ids(&self.words)
        )?;
        if let Some(description) = &self.description {
            writeln!(text, "{}\n", plain(description))?;
        }
        writeln!(text, "{}.\n", self.in_short())?;
        self.write_origin(text)?;
        if let Some(id) = self.task.as_ref().and_then(|task| task["id"].as_str()) {
            writeln!(text, "Task {}.\n", code(id))?;
        }
        if let Some(cause) = &self.cause {
            writeln!(text, "**{}**\n", with_ids(cause))?;
        }
        self.write_codons(text)?;
        self.write_checks(text)?;
        self.write_sentinels(text)?;
        self.write_files(text)?;
        self.write_rollbacks(text)?;
        self.write_money(text)?;
        self.write_occasions(text)?;
        if !self.remarks.is_empty() {
            writeln!(text, "## Remarks\n")?;
            self.remarks
                .iter()
                .try_for_each(|remark| writeln!(text, "- {}", with_ids(remark)))?;
            writeln!(text)?;
        }
        self.write_commands(text)
    }

    /// Writes the id, directory and time of the run, for people who read the report elsewhere and later.
    fn write_origin(&self, text: &mut String) -> fmt::Result {
        let directory = code(&self.directory.to_string_lossy());
        let (Some(id), Some(began)) = (&self.run_id, self.run_began) else {
            return writeln!(text, "Directory {directory}.\n");
        };
        let which = match self.runs {
            1 => "Run".to_owned(),
            runs => format!("Run {runs},"),
        };
        let (id, began) = (code(id.as_str()), offset_date(began));
        write!(text, "{which} {id} in {directory}, started {began}")?;
        match self.ended {
            Some(ended) => {
                let ended = offset_date(ended);
                let earliest = if self.ended_is_lower_bound {
                    " at the earliest"
                } else {
                    ""
                };
                writeln!(text, ", ended {ended}{earliest}.\n")
            }
            None => writeln!(text, ", as it was at {}.\n", offset_date(self.at)),
        }
    }

    /// Returns the number of changed files in checkpoints, and of those without; `None` if it is unknown, or if none has changed and the run has not ended.
    fn changed_files(&self) -> Option<String> {
        let count = self.files.count?;
        let left = self.codons.iter().filter_map(|codon| codon.unsaved.as_ref());
        let left: usize = left.map(|left| left.without_checkpoint).sum();
        match (count, left) {
            (0, 0) if !self.state.has_ended() => None,
            (_, 0) => Some(changed(count as u64)),
            (0, left) => Some(format!("{} without a checkpoint", changed(left as u64))),
            (_, left) => Some(format!(
                "{}; {} without a checkpoint",
                changed(count as u64),
                changed(left as u64)
            )),
        }
    }

    /// Returns `3 of 5 codons, 12 files changed, $0.7500 of $2.0000, 3m20s at work, 23:01 to 23:05 +01:00`.
    pub(super) fn in_short(&self) -> String {
        let CodonCount { completed, planned } = self.count;
        let mut parts = vec![format!("{completed} of {}", counted(planned, "codon"))];
        parts.extend(self.changed_files());
        parts.push(self.spent());
        let time = Duration::from_millis(self.worked_ms);
        parts.push(self.worked(time));
        if let Some(began) = self.began {
            let period = self.at_least(offset_period(began, self.ended));
            let period = if self.ended.is_none() {
                format!("since {period}")
            } else {
                period
            };
            // Without this, the length of several runs could be taken for time at work.
            let with_waits = self.own_runs > 1 && period.contains(" for ");
            let waits = if with_waits {
                " with the time between its runs"
            } else {
                ""
            };
            parts.push(format!("{period}{waits}"));
        }
        if self.own_runs > 1 {
            parts.push(counted(self.own_runs, "run"));
        }
        parts.join(", ")
    }

    /// Returns `32s at work`, or with a limit `32s of 1h0m at work`.
    fn worked(&self, time: Duration) -> String {
        let limit = self.time_limit_ms.map(Duration::from_millis);
        let limit = limit.map_or_else(String::new, |limit| format!(" of {}", duration(limit)));
        format!("{}{limit} at work", worked(time, self.worked_is_lower_bound))
    }

    /// Adds to a period that ended with a crash that it may have been longer.
    fn at_least(&self, period: String) -> String {
        match (self.ended_is_lower_bound, period.contains(" for ")) {
            (false, _) => period,
            (true, true) => period.replace(" for ", " for at least "),
            (true, false) => format!("{period} at the earliest"),
        }
    }

    fn spent(&self) -> String {
        let money = &self.money;
        match money.limit {
            Some(limit) => match over_budget(money.counted, limit, money.counted_at_least) {
                Some(over) => format!("cost {over}"),
                None => format!("{} of {limit}", money.counted.display(money.counted_at_least)),
            },
            None => money.counted.display(money.counted_at_least),
        }
    }

    fn write_occasions(&self, text: &mut String) -> fmt::Result {
        if self.occasions.is_empty() {
            return Ok(());
        }
        writeln!(text, "## What happened\n")?;
        let mut occasions = self.occasions.iter();
        occasions
            .try_for_each(|one| writeln!(text, "- {}: {}", offset_second(one.at), with_ids(&one.what)))?;
        writeln!(text)
    }

    /// Returns a clause with a capital letter, unless it begins with the id of a codon.
    fn as_sentence(&self, clause: &str) -> String {
        let first = clause.split([' ', ':', '#']).next().unwrap_or_default();
        let text = with_ids(clause);
        let asked = self
            .next
            .question
            .iter()
            .filter_map(|asked| asked.codon_id.as_ref());
        let mut ids = self.codons.iter().map(|codon| &codon.id).chain(asked);
        let is_id = ids.any(|id| id.configured() == first);
        match text.chars().next().filter(|_| !is_id) {
            Some(letter) => format!("{}{}", letter.to_ascii_uppercase(), &text[letter.len_utf8()..]),
            None => text,
        }
    }

    fn write_commands(&self, text: &mut String) -> fmt::Result {
        let NextSteps {
            outlook,
            question,
            commands,
        } = &self.next;
        if outlook.is_none() && commands.is_empty() {
            return Ok(());
        }
        writeln!(text, "## What is next\n")?;
        if let Some(outlook) = outlook {
            let after = match self.after_next.as_slice() {
                [] => String::new(),
                planned => format!(" After that: {}.", PlannedReport::words(planned)),
            };
            writeln!(text, "{}.{after}\n", self.as_sentence(outlook))?;
        }
        if let Some(asked) = question {
            let since = offset_time(asked.since);
            writeln!(text, "> {} (asked {since})\n", plain(&asked.question))?;
        }
        if let Some(asking) = &self.asking {
            asking.write(text)?;
        }
        let mut commands = commands.iter();
        commands.try_for_each(|next| writeln!(text, "- {}: {}", code(&next.command), with_ids(&next.effect)))
    }
}

impl AgentReport {
    /// Returns `claude with claude-sonnet-4-5, permissions edit`.
    fn words(&self) -> String {
        let agent = agent_words(&self.name, None, self.model.as_deref());
        match &self.permissions {
            Some(permissions) => format!("{agent}, {permissions}"),
            None => agent,
        }
    }
}

impl AskingReport {
    /// Writes the codon's task and agent: `ship` is to do: Ship it; requires changes of out.md; on claude with opus.
    fn write(&self, text: &mut String) -> fmt::Result {
        let agent = self
            .agent
            .as_ref()
            .map(|agent| format!("on {}", plain(&agent.words())));
        let parts: Vec<String> = self.planned.to_do().into_iter().chain(agent).collect();
        writeln!(
            text,
            "{} is to do: {}.\n",
            code(self.planned.id.as_str()),
            parts.join("; ")
        )
    }
}

impl PlannedReport {
    /// Returns the codon's task: `Write the notes; requires changes of NOTES.md`.
    fn to_do(&self) -> Option<String> {
        let asked = self.asked.as_deref().map(plain);
        let requires = self.requires.as_deref();
        let requires = requires.map(|words| format!("requires {}", plain(words)));
        let parts: Vec<String> = asked.into_iter().chain(requires).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// Returns a list of codons: `build`, `ship` (asks first).
    fn words(planned: &[Self]) -> String {
        let named = planned.iter().take(NAMED).map(|codon| {
            let asks = if codon.asks && !codon.approved {
                " (asks first)"
            } else {
                ""
            };
            format!("{}{asks}", code(codon.id.as_str()))
        });
        let named = named.collect::<Vec<_>>().join(", ");
        match planned.len().saturating_sub(NAMED) {
            0 => named,
            more => format!("{named} and {more} more"),
        }
    }
}
