//! Sections of codons: table, attempts, prompts, agents, checks and sentinels.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::time::Duration;

use hankweave_core::cost::Usd;
use hankweave_core::view::excerpt;

use super::super::attempts::AttemptReport;
use super::super::codons::{AgentReport, CodonReport};
use super::super::gathered::Receipt;
use super::super::markup::{code, named, plain, with_ids, without_marks};
use super::super::money::BEFORE;
use super::super::terms::write_terms;
use super::files::{changed, kind_words, lines_changed};
use crate::checkpoints::LineCounts;
use crate::terminal::report::{counted, duration, worked};
use crate::terminal::screen::offset_second;

/// Largest number of codons that have not started with a row of their own.
const PLANNED_ROWS: usize = 12;

/// Largest number of files of one codon that are named.
const NAMED_BY_CODON: usize = 5;

/// Shortest time without work that a report mentions.
const SHORTEST_IDLE: Duration = Duration::from_millis(100);

/// Longest part of a result in a report, in bytes; the JSON report has all of it.
const MOST_OF_RESULT: usize = 600;

impl Receipt {
    /// Writes the table of codons, and what belongs to it: attempts, prompts, agents, terms, changed files and notes.
    pub(super) fn write_codons(&self, text: &mut String) -> fmt::Result {
        writeln!(text, "## Codons\n")?;
        let has_earlier_work = self.undone.is_some() || self.money.before != Usd::ZERO;
        if self.codons.is_empty() && !has_earlier_work {
            return writeln!(text, "None has started.\n");
        }
        if self.more_codons > 0 {
            writeln!(text, "{} before these.\n", counted(self.more_codons, "codon"))?;
        }
        writeln!(
            text,
            "| Codon | State | Time | Cost | Files | What it did |\n| --- | --- | --- | --- | --- | --- |"
        )?;
        for codon in &self.codons {
            let attempts = match codon.attempts {
                1 => String::new(),
                count => format!(", {count} attempts"),
            };
            writeln!(
                text,
                "| {}{} ({}) | {}{attempts} | {} | {} | {} | {} |",
                plain(&codon.name),
                codon.position,
                code(codon.id.as_str()),
                codon.state(),
                codon.outcome.time(),
                codon.outcome.cost.display(codon.outcome.cost_is_lower_bound),
                codon.changed_in_short(),
                codon
                    .did
                    .as_deref()
                    .map_or_else(|| "-".to_owned(), |did| plain(&without_marks(did))),
            )?;
        }
        if let Some(asking) = &self.asking {
            let planned = &asking.planned;
            let (name, id) = (
                plain(&planned.name) + &planned.position,
                code(planned.id.as_str()),
            );
            let state = if asking.denied {
                "denied"
            } else {
                "waits for an approval"
            };
            writeln!(text, "| {name} ({id}) | {state} | - | - | - | - |")?;
        }
        self.write_planned(text)?;
        self.write_rest(text)?;
        writeln!(text)?;
        self.write_attempts(text)?;
        self.write_prompts(text)?;
        self.write_agents(text)?;
        let codons = self.codons.iter();
        let terms = codons.map(|codon| (&codon.id, &codon.terms, codon.attempt));
        write_terms(text, &self.loops, terms)?;
        self.write_changed(text)?;
        self.codons.iter().try_for_each(|codon| codon.write_notes(text))
    }

    /// Writes the rows of codons that have not started: the first ones with their prompts, the others in one row.
    fn write_planned(&self, text: &mut String) -> fmt::Result {
        let (first, rest) = self
            .not_started
            .split_at(self.not_started.len().min(PLANNED_ROWS));
        for codon in first {
            let (name, id) = (plain(&codon.name) + &codon.position, code(codon.id.as_str()));
            let asks = match (codon.asks, codon.approved) {
                (_, true) => ", approved",
                (true, false) => ", asks first",
                (false, false) => "",
            };
            let to_do = codon.to_do();
            let to_do = to_do.map_or_else(|| "-".to_owned(), |to_do| format!("is to do: {to_do}"));
            writeln!(text, "| {name} ({id}) | planned{asks} | - | - | - | {to_do} |")?;
        }
        if !rest.is_empty() {
            let planned = named(rest.iter().map(|codon| codon.id.as_str()));
            writeln!(text, "| {planned} | planned | - | - | - | - |")?;
        }
        Ok(())
    }

    /// Writes the rows of earlier and undone work, and the row of sums to which the table adds up.
    fn write_rest(&self, text: &mut String) -> fmt::Result {
        if let Some(undone) = &self.undone {
            let attempts = counted(usize::try_from(undone.count).unwrap_or(usize::MAX), "attempt");
            let time = worked(Duration::from_millis(undone.duration_ms), undone.lost_time);
            let cost = undone.cost.display(undone.at_least);
            let which = self.undone_codons();
            writeln!(
                text,
                "| Undone or run again{which} | {attempts} | {time} | {cost} | - | - |"
            )?;
        }
        if let Some(before) = self.money.by_model.get(BEFORE) {
            let before = before.cost.display(before.at_least);
            let (time, is_lost) = self.worked_before;
            let time = worked(Duration::from_millis(time), is_lost);
            writeln!(
                text,
                "| Before the run that started over | - | {time} | {before} | - | - |"
            )?;
        }
        if self.more_codons > 0 {
            return Ok(());
        }
        let (before, is_lost) = self.worked_before;
        let time = Duration::from_millis(self.worked_ms.saturating_add(before));
        let time = worked(time, self.worked_is_lower_bound || is_lost);
        let all = self.money.spent.display(self.money.at_least);
        writeln!(text, "| All | | {time} | {all} | | |")?;
        self.write_period(text)
    }

    /// Writes the row of the time without work, and the row of the period to which the times then add up.
    fn write_period(&self, text: &mut String) -> fmt::Result {
        let period = self
            .began
            .zip(self.ended)
            .map(|(began, ended)| ended.since(began));
        // The row of sums also has the runs before the one that started over, which lie outside of the period.
        let Some(period) = period.filter(|_| self.money.before == Usd::ZERO) else {
            return Ok(());
        };
        let idle = period.saturating_sub(Duration::from_millis(self.worked_ms));
        if self.ended_is_lower_bound {
            return writeln!(
                text,
                "| From start to end | | at least {} | | | |",
                duration(period)
            );
        }
        if idle < SHORTEST_IDLE {
            return Ok(());
        }
        let most = if self.worked_is_lower_bound {
            "at most "
        } else {
            ""
        };
        let answers = self.occasions.iter().filter(|occasion| occasion.is_answer);
        let answers: u64 = answers.filter_map(|occasion| occasion.waited_ms).sum();
        let answers = match Duration::from_millis(answers) {
            // Some answers came after the end of the run, so not within the period.
            waited if waited > idle => String::new(),
            waited if waited < SHORTEST_IDLE => String::new(),
            waited => format!(", {} of it for answers", duration(waited)),
        };
        writeln!(
            text,
            "| Waits, pauses and time between codons | | {most}{}{answers} | | | |",
            duration(idle)
        )?;
        writeln!(text, "| From start to end | | {} | | | |", duration(period))
    }

    /// Returns the codons with attempts that no longer count, as Markdown after a colon, ``: `plan`, `mend#1` ``; empty if there are none.
    fn undone_codons(&self) -> String {
        let undone = self.attempts.iter().filter(|attempt| attempt.undone);
        let codons: BTreeSet<&str> = undone.map(|attempt| attempt.codon.as_str()).collect();
        match codons.is_empty() {
            true => String::new(),
            false => format!(": {}", named(codons.into_iter())),
        }
    }

    /// Writes each attempt of the codons that have more than one.
    fn write_attempts(&self, text: &mut String) -> fmt::Result {
        let is_repeated = |attempt: &&AttemptReport| attempt.number > Some(1) || attempt.undone;
        let repeated = self.attempts.iter().filter(is_repeated);
        let repeated: BTreeSet<&str> = repeated.map(|attempt| attempt.codon.as_str()).collect();
        if repeated.is_empty() {
            return Ok(());
        }
        writeln!(
            text,
            "Attempts of codons that started more than once, or count no longer:\n"
        )?;
        let attempts = self.attempts.iter();
        for attempt in attempts.filter(|attempt| repeated.contains(attempt.codon.as_str())) {
            attempt.write(text)?;
        }
        writeln!(text)
    }

    /// Writes the first files that each codon changed.
    fn write_changed(&self, text: &mut String) -> fmt::Result {
        let has_changed = |codon: &&CodonReport| !codon.changes.is_empty();
        let mut changed = self.codons.iter().filter(has_changed).peekable();
        if changed.peek().is_none() {
            return Ok(());
        }
        writeln!(text, "Files that each changed:\n")?;
        changed.try_for_each(|codon| codon.write_changed(text))?;
        writeln!(text)
    }

    /// Writes the prompts, one for all iterations of a codon.
    pub(super) fn write_prompts(&self, text: &mut String) -> fmt::Result {
        let mut known = BTreeSet::new();
        let asked = self
            .codons
            .iter()
            .filter(|codon| known.insert(codon.id.configured()));
        let asked: Vec<_> = asked
            .filter_map(|codon| Some((codon, codon.asked.as_deref()?)))
            .collect();
        if asked.is_empty() {
            return Ok(());
        }
        writeln!(text, "What was asked:\n")?;
        let mut asked = asked.iter();
        asked.try_for_each(|(codon, asked)| writeln!(text, "- {}: {}", plain(&codon.name), plain(asked)))?;
        writeln!(text)
    }

    /// Writes agents, models and permissions in a line; if there are several, each with the codons that had it.
    pub(super) fn write_agents(&self, text: &mut String) -> fmt::Result {
        let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
        let agents = self.codons.iter().flat_map(|codon| {
            let words = self.agents_of(codon).into_iter();
            words.map(move |words| (codon.id.configured(), words))
        });
        for (id, words) in agents {
            match groups.iter_mut().find(|(known, _)| *known == words) {
                Some((_, ids)) if ids.contains(&id) => {}
                Some((_, ids)) => ids.push(id),
                None => groups.push((words, vec![id])),
            }
        }
        let line = match groups.as_slice() {
            [] => return Ok(()),
            [(words, _)] => plain(words),
            groups => {
                let group = |(words, ids): &(String, Vec<&str>)| {
                    format!("{} ({})", plain(words), named(ids.iter().copied()))
                };
                groups.iter().map(group).collect::<Vec<_>>().join("; ")
            }
        };
        writeln!(text, "Worked on by: {line}.\n")
    }

    /// Returns the agents of a codon in words: those of all attempts that count, where they differ.
    fn agents_of(&self, codon: &CodonReport) -> Vec<String> {
        let counts = |attempt: &&AttemptReport| attempt.codon == codon.id && !attempt.undone;
        let attempts = self.attempts.iter().filter(counts);
        let of_attempts: Vec<String> = attempts.filter_map(AttemptReport::agent_words).collect();
        match of_attempts.is_empty() {
            true => codon.agent.as_ref().map(AgentReport::words).into_iter().collect(),
            false => of_attempts,
        }
    }

    pub(super) fn write_checks(&self, text: &mut String) -> fmt::Result {
        let of_codon = |codon: &CodonReport| {
            let ran = codon.checks.iter().map(|check| check.as_markdown(codon.attempt));
            let missing = codon.check_not_run.as_deref();
            let missing = missing.map(|run| format!("{} has not run", code(run)));
            let lines = ran.chain(missing);
            let id = code(codon.id.as_str());
            lines.map(|line| format!("- {id}: {line}\n")).collect::<String>()
        };
        let checks: String = self.codons.iter().map(of_codon).collect();
        match checks.is_empty() {
            true => Ok(()),
            false => writeln!(text, "## Checks\n\n{checks}"),
        }
    }

    pub(super) fn write_sentinels(&self, text: &mut String) -> fmt::Result {
        if self.sentinels.is_empty() {
            return Ok(());
        }
        writeln!(text, "## Sentinels\n")?;
        for (id, sentinel) in &self.sentinels {
            let answers = counted(usize::try_from(sentinel.answers).unwrap_or(usize::MAX), "answer");
            let cost = sentinel.cost.display(sentinel.at_least);
            let says = sentinel.says.as_deref().map(|says| format!(": {}", plain(says)));
            writeln!(
                text,
                "- {} ({answers}, {cost}){}",
                code(id),
                says.unwrap_or_default()
            )?;
        }
        writeln!(text)
    }
}

impl CodonReport {
    /// Returns `2 files changed, +12 −3`.
    fn changed_in_short(&self) -> String {
        let files = self.files_changed.map(changed);
        let lines = self.lines.filter(|lines| *lines != LineCounts::default());
        let lines = lines.filter(|_| self.files_changed != Some(0)).map(lines_changed);
        let parts: Vec<String> = files.into_iter().chain(lines).collect();
        match parts.is_empty() {
            true => "-".to_owned(),
            false => parts.join(", "),
        }
    }

    /// Writes a line such as: `build`: `a.rs` new, `b.rs` changed and 7 more: `hankweave diff build -e /work`.
    fn write_changed(&self, text: &mut String) -> fmt::Result {
        let files = self.changes.iter().take(NAMED_BY_CODON).map(|file| {
            let kind = kind_words(file.kind);
            format!("{} {kind}", code(&file.path))
        });
        let files: Vec<String> = files.collect();
        let count = usize::try_from(self.files_changed.unwrap_or_default()).unwrap_or(usize::MAX);
        let more = count.max(self.changes.len()).saturating_sub(files.len());
        let files = files.join(", ");
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more: {}", code(&self.shown_by)),
        };
        writeln!(text, "- {}: {files}{more}", code(self.id.as_str()))
    }

    /// Returns the state in words, with a failed check after an iteration.
    fn state(&self) -> String {
        let words = self.outcome.words();
        let loop_check = self.checks.iter().rfind(|check| check.ends_loop);
        match loop_check.is_some_and(|check| !check.passed) && self.outcome.state == "completed" {
            true => format!("{words}, and the check after it failed"),
            false => words.into(),
        }
    }

    /// Writes the codon's result, its files without a checkpoint, why it did not succeed, and remarks.
    fn write_notes(&self, text: &mut String) -> fmt::Result {
        if let Some(result) = &self.result {
            let result = code(&excerpt(&result.to_string(), MOST_OF_RESULT));
            writeln!(
                text,
                "{} answered with the result {result}\n",
                code(self.id.as_str())
            )?;
        }
        if let Some(left) = &self.unsaved {
            let (files, command) = (changed(left.count as u64), code(&left.command));
            let paths = named(left.changes.iter().map(|file| file.path.as_str()));
            let id = code(self.id.as_str());
            match (left.is_at_work, left.count) {
                (true, 0) => {}
                (true, _) => writeln!(
                    text,
                    "> {id}: {files} so far, {paths}, what you have changed included, which {command} shows\n"
                )?,
                (false, 0) => writeln!(text, "> {id}: left no file changed\n")?,
                (false, _) => writeln!(
                    text,
                    "> {id}: left {files}, {paths}, what you have changed since included, which {command} shows\n"
                )?,
            }
        }
        for trouble in self.outcome.why.iter().chain(&self.remarks) {
            writeln!(text, "> {}: {}\n", code(self.id.as_str()), with_ids(trouble))?;
        }
        Ok(())
    }
}

impl AttemptReport {
    /// Writes a line of a list: ``- `plan`, attempt 1: 23:01:07 +01:00 for 12s, $0.2500, failed, on codex with gpt-5.6: the answer was cut off``.
    fn write(&self, text: &mut String) -> fmt::Result {
        let outcome = &self.outcome;
        // `name()` would repeat the time, which follows.
        let name = match self.number {
            Some(_) => self.name(),
            None => "an earlier attempt".to_owned(),
        };
        let (id, began) = (code(self.codon.as_str()), offset_second(self.began));
        let cost = outcome.cost.display(outcome.cost_is_lower_bound);
        let (time, state) = (outcome.time(), outcome.words());
        write!(text, "- {id}, {name}: {began} for {time}, {cost}, {state}")?;
        if self.undone {
            write!(text, ", undone or run again")?;
        }
        if let Some(agent) = &self.agent {
            write!(text, ", on {}", plain(agent))?;
        }
        match &outcome.why {
            Some(why) => writeln!(text, ": {}", with_ids(why)),
            None => writeln!(text),
        }
    }
}
