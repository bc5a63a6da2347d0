//! The report as Markdown, readable as the text of a pull request.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::time::Duration;

use hankweave_core::cost::{TokenUsage, Usd, over_budget};
use hankweave_core::document::Operation;
use hankweave_core::hank::agent_words;
use hankweave_core::id::CodonId;
use hankweave_core::view::{CodonCount, RunState, excerpt};
use hankweave_core::wire::NextSteps;
use hankweave_runtime::checkpoint::ChangeKind;

use super::attempts::AttemptReport;
use super::gathered::{
    AgentReport, AskingReport, BEFORE, CodonReport, FileReport, OTHERS, PlannedReport, Receipt, SENTINELS,
};
use super::markup::{NAMED, code, named, plain, with_ids, without_marks};
use super::rollbacks::RollbackReport;
use super::terms::write_terms;
use crate::checkpoints::LineCounts;
use crate::report::{counted, duration, tokens, worked};
use crate::screen::{offset_date, offset_period, offset_time};

/// Files of one codon that are named.
const NAMED_BY_CODON: usize = 5;

/// Shortest time without work that a report says.
const SHORTEST_IDLE: Duration = Duration::from_millis(100);

/// Files that are listed by name.
const NAMED_FILES: usize = 40;

/// Returns the report.
pub(super) fn markdown(receipt: &Receipt) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = receipt.write(&mut text);
    text
}

/// Longest part of a result in a report, in bytes; the JSON report has all of it.
const MOST_OF_RESULT: usize = 600;

impl Receipt {
    fn write(&self, text: &mut String) -> fmt::Result {
        let mark = match self.is_taken_back {
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

    /// Writes which run this is, where and when it ran, for those who read it elsewhere and later.
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

    /// `3 of 5 codons, 12 files changed, $0.7500 of $2.00, 3m20s at work, Nov 26 23:01 to 23:05`.
    pub(super) fn in_short(&self) -> String {
        let CodonCount { completed, planned } = self.count;
        let mut parts = vec![format!("{completed} of {}", counted(planned, "codon"))];
        if let Some(count) = self.files.count {
            parts.push(changed(count as u64));
        }
        parts.push(self.spent());
        let time = Duration::from_millis(self.worked_ms);
        parts.push(format!("{} at work", worked(time, self.worked_is_lower_bound)));
        if let Some(began) = self.began {
            let period = self.at_least(offset_period(began, self.ended));
            // Between two runs a task waits, and a length alone would be taken for time at work.
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

    /// Says of a period that ended with a crash that it may have been longer.
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
            None => money.spent.display(money.at_least),
        }
    }

    fn write_codons(&self, text: &mut String) -> fmt::Result {
        writeln!(text, "## Codons\n")?;
        let is_new = self.undone.is_none() && self.money.before == Usd::ZERO;
        if self.codons.is_empty() && is_new {
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
                "| {} ({}) | {}{attempts} | {} | {} | {} | {} |",
                plain(&codon.name),
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
            let (name, id) = (plain(&asking.name), code(asking.id.as_str()));
            let state = if asking.denied {
                "denied"
            } else {
                "waits for an approval"
            };
            writeln!(text, "| {name} ({id}) | {state} | - | - | - | - |")?;
        }
        if !self.not_started.is_empty() {
            let planned = named(self.not_started.iter().map(CodonId::as_str));
            writeln!(text, "| {planned} | planned | - | - | - | - |")?;
        }
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

    /// Writes the rows that make the table add up to what was spent.
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

    /// Writes the rows that make the times add up to the period of the runs.
    fn write_period(&self, text: &mut String) -> fmt::Result {
        let period = self
            .began
            .zip(self.ended)
            .map(|(began, ended)| ended.since(began));
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
        let (idle, period) = (duration(idle), duration(period));
        let answers = self.occasions.iter().filter(|occasion| occasion.is_answer);
        let answers: u64 = answers.filter_map(|occasion| occasion.waited_ms).sum();
        let answers = match Duration::from_millis(answers) {
            short if short < SHORTEST_IDLE => String::new(),
            waited => format!(", {} of it for answers", duration(waited)),
        };
        writeln!(
            text,
            "| Waits, pauses and time between codons | | {most}{idle}{answers} | | | |"
        )?;
        writeln!(text, "| From start to end | | {period} | | | |")
    }

    /// Returns the codons whose attempts count no longer: `: plan, mend#1`.
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
        let is_again = |attempt: &&AttemptReport| attempt.number > 1 || attempt.undone;
        let again = self.attempts.iter().filter(is_again);
        let again: BTreeSet<&str> = again.map(|attempt| attempt.codon.as_str()).collect();
        if again.is_empty() {
            return Ok(());
        }
        writeln!(
            text,
            "Attempts of codons that started more than once, or count no longer:\n"
        )?;
        let attempts = self.attempts.iter();
        for attempt in attempts.filter(|attempt| again.contains(attempt.codon.as_str())) {
            attempt.write(text)?;
        }
        writeln!(text)
    }

    /// Writes which files each codon changed, the first of them.
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

    fn write_prompts(&self, text: &mut String) -> fmt::Result {
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

    /// Writes agents, models and permissions in a line, each with the codons that had them.
    fn write_agents(&self, text: &mut String) -> fmt::Result {
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

    /// Returns the agents of a codon in words: those that others replaced, then the newest.
    fn agents_of(&self, codon: &CodonReport) -> Vec<String> {
        let is_replaced = |attempt: &&AttemptReport| {
            attempt.codon == codon.id && !attempt.undone && attempt.outcome.state == "replaced"
        };
        let replaced = self.attempts.iter().filter(is_replaced);
        let newest = codon.agent.as_ref().map(AgentReport::words);
        replaced
            .filter_map(AttemptReport::agent_words)
            .chain(newest)
            .collect()
    }

    fn write_checks(&self, text: &mut String) -> fmt::Result {
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

    fn write_sentinels(&self, text: &mut String) -> fmt::Result {
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

    fn write_files(&self, text: &mut String) -> fmt::Result {
        let Some(count) = self.files.count else {
            return Ok(());
        };
        writeln!(text, "## Files\n")?;
        let unsaved = self
            .codons
            .iter()
            .filter_map(|codon| Some((codon, codon.unsaved.as_ref()?)));
        let unsaved = unsaved.filter(|(_, left)| left.count > 0).map(|(codon, left)| {
            let (id, count) = (code(codon.id.as_str()), counted(left.count, "file"));
            format!(" Without {count} that {id} left and no checkpoint has.")
        });
        let unsaved: String = unsaved.collect();
        if count == 0 {
            return writeln!(text, "None has changed since the start.{unsaved}\n");
        }
        let lines = self
            .files
            .lines
            .map(|lines| format!(", {}", lines_changed(lines)));
        let lines = lines.unwrap_or_default();
        let nobody = self.of_no_codon();
        writeln!(
            text,
            "{} since the start{lines}.{nobody}{unsaved}\n",
            changed(count as u64)
        )?;
        if self.keeps_a_part {
            writeln!(
                text,
                "Files that no `checkpointedFiles` names are not among them.\n"
            )?;
        }
        let named = self.files.changes.iter().take(NAMED_FILES);
        named.clone().try_for_each(|file| file.write(text))?;
        let more = count.saturating_sub(named.count());
        if more > 0 {
            writeln!(text, "- and {} more", counted(more, "file"))?;
        }
        writeln!(text)
    }

    /// Returns how many of the files no codon of the table has changed, in a sentence; nothing where not all are listed.
    fn of_no_codon(&self) -> String {
        let is_listed = |codon: &CodonReport| {
            u64::try_from(codon.changes.len()) == Ok(codon.files_changed.unwrap_or_default())
        };
        let all = self.files.changes.iter().map(|file| file.path.as_str());
        let is_whole = self.files.count == Some(all.len()) && self.more_codons == 0;
        if !is_whole || !self.codons.iter().all(is_listed) {
            return String::new();
        }
        let own = self.codons.iter().flat_map(|codon| &codon.changes);
        let own: BTreeSet<&str> = own.map(|file| file.path.as_str()).collect();
        match all.filter(|path| !own.contains(path)).count() {
            0 => String::new(),
            others => format!(
                " {others} of them by no codon above, but {}.",
                self.others().join(" or ")
            ),
        }
    }

    /// Returns who else than the codons of the table may have changed files.
    fn others(&self) -> Vec<&'static str> {
        let has_set_up = self.codons.iter().any(|codon| codon.terms.has_set_up());
        [
            has_set_up.then_some("by a set-up"),
            self.undone
                .is_some()
                .then_some("by an attempt that counts no longer"),
            (self.own_runs < self.runs).then_some("by an earlier run"),
            Some("by a user"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn write_rollbacks(&self, text: &mut String) -> fmt::Result {
        if self.rollbacks.is_empty() {
            return Ok(());
        }
        writeln!(text, "## Rollbacks\n")?;
        self.rollbacks.iter().try_for_each(|back| back.write(text))?;
        if !self.state.has_ended() {
            writeln!(text, "\nNothing goes back while the run lives: stop it before.")?;
        }
        writeln!(text)
    }

    /// Returns the attempts because of which the sum is a lower bound, in a sentence.
    fn why_at_least(&self) -> String {
        let cut_off = self
            .attempts
            .iter()
            .filter(|attempt| attempt.outcome.cost_is_lower_bound);
        let cut_off: Vec<String> = cut_off
            .map(|attempt| format!("{}, attempt {}", code(attempt.codon.as_str()), attempt.number))
            .collect();
        match cut_off.as_slice() {
            [] => String::new(),
            listed => format!(
                " What was used last in these is not known: {}.",
                listed.join("; ")
            ),
        }
    }

    fn write_money(&self, text: &mut String) -> fmt::Result {
        let all = self.money.spent.display(self.money.at_least);
        writeln!(text, "## Money\n\n{all} in all.{}\n", self.why_at_least())?;
        if let Some(limit) = self.money.limit {
            let money = &self.money;
            let whose = money.limited_by.as_deref();
            let whose = whose.map_or_else(
                || " of the hank".to_owned(),
                |option| format!(", {}", code(option)),
            );
            let used = money.counted.display(money.counted_at_least);
            let over = money.counted.saturating_sub(limit);
            let over = match over == Usd::ZERO {
                true => String::new(),
                false => format!(": {} too much", over.display(money.counted_at_least)),
            };
            writeln!(
                text,
                "Of the total budget ({limit}{whose}), {used} is used{over}.\n"
            )?;
        }
        if self.money.by_model.is_empty() {
            return Ok(());
        }
        writeln!(
            text,
            "| Model | Cost | Tokens in | from cache | out |\n| --- | --- | --- | --- | --- |"
        )?;
        for (model, sum) in &self.money.by_model {
            let used = sum.tokens;
            let is_model = ![SENTINELS, BEFORE, OTHERS].contains(&model.as_str());
            let [read, cached, written] = match !is_model && used == TokenUsage::ZERO {
                true => ["-", "-", "-"].map(str::to_owned),
                false => [
                    used.input_tokens + used.cache_creation_tokens,
                    used.cache_read_tokens,
                    used.output_tokens,
                ]
                .map(|count| match (sum.at_least, count) {
                    (true, 0) => "-".to_owned(),
                    (true, count) => format!("at least {}", tokens(count)),
                    (false, count) => tokens(count),
                }),
            };
            writeln!(
                text,
                "| {} | {} | {read} | {cached} | {written} |",
                plain(model),
                sum.cost.display(sum.at_least),
            )?;
        }
        writeln!(text)
    }

    fn write_occasions(&self, text: &mut String) -> fmt::Result {
        if self.occasions.is_empty() {
            return Ok(());
        }
        writeln!(text, "## What happened\n")?;
        let mut occasions = self.occasions.iter();
        occasions.try_for_each(|one| writeln!(text, "- {}: {}", offset_time(one.at), with_ids(&one.what)))?;
        writeln!(text)
    }

    /// Returns a clause with a capital letter; the id of a codon in front stays as it is.
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

/// Returns at which try of which attempt work passed: `at once`, `at try 2`, `in attempt 3`.
impl AgentReport {
    /// `claude with claude-sonnet-4-5, permissions edit`
    fn words(&self) -> String {
        let agent = agent_words(&self.name, None, self.model.as_deref());
        match &self.permissions {
            Some(permissions) => format!("{agent}, {permissions}"),
            None => agent,
        }
    }
}

impl AskingReport {
    /// Writes what it is to do, and with which agent: `ship` is to do: Ship it; requires changes of out.md; on claude with opus.
    fn write(&self, text: &mut String) -> fmt::Result {
        let asked = self.asked.as_deref().map(plain);
        let requires = self
            .requires
            .as_deref()
            .map(|words| format!("requires {}", plain(words)));
        let agent = self
            .agent
            .as_ref()
            .map(|agent| format!("on {}", plain(&agent.words())));
        let parts: Vec<String> = asked.into_iter().chain(requires).chain(agent).collect();
        writeln!(
            text,
            "{} is to do: {}.\n",
            code(self.id.as_str()),
            parts.join("; ")
        )
    }
}

impl PlannedReport {
    /// `build`, `ship` (asks first)
    fn words(planned: &[Self]) -> String {
        let named = planned.iter().take(NAMED).map(|codon| {
            let asks = if codon.asks { " (asks first)" } else { "" };
            format!("{}{asks}", code(codon.id.as_str()))
        });
        let named = named.collect::<Vec<_>>().join(", ");
        match planned.len().saturating_sub(NAMED) {
            0 => named,
            more => format!("{named} and {more} more"),
        }
    }
}

impl CodonReport {
    /// `2 files changed, +12 −3`
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

    /// Writes a line: `build`: `a.rs` new, `b.rs` changed and 7 more: `hankweave diff build -e /work`.
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

    /// Returns its state in the words of the page.
    fn state(&self) -> String {
        let words = self.outcome.words();
        let after = self.checks.iter().rfind(|check| check.ends_loop);
        match after.is_some_and(|check| !check.passed) && self.outcome.state == "completed" {
            true => format!("{words}, and the check after it failed"),
            false => words.into(),
        }
    }

    /// Its result, why it did not succeed, and what else is odd about it.
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
            match left.count {
                0 => writeln!(text, "> {}: left no file changed\n", code(self.id.as_str()))?,
                _ => writeln!(
                    text,
                    "> {}: left {files}, {paths}, which {command} shows\n",
                    code(self.id.as_str())
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
    /// Writes a line: `plan, attempt 1: Nov 26 23:01 +01:00 for 12s, $0.2500, failed (undone), on codex with gpt-5.6: the answer was cut off`.
    fn write(&self, text: &mut String) -> fmt::Result {
        let (number, outcome) = (self.number, &self.outcome);
        let (id, began) = (code(self.codon.as_str()), offset_time(self.began));
        let cost = outcome.cost.display(outcome.cost_is_lower_bound);
        let (time, state) = (outcome.time(), outcome.words());
        write!(
            text,
            "- {id}, attempt {number}: {began} for {time}, {cost}, {state}"
        )?;
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

impl RollbackReport {
    fn write(&self, text: &mut String) -> fmt::Result {
        let target = match &self.after_codon {
            Some(codon) => format!(" of {}", code(codon.as_str())),
            None => " before the first codon".to_owned(),
        };
        let who = match self.command.as_str() {
            Operation::BY_A_RUN => "the run that started next".to_owned(),
            command => code(command),
        };
        let (at, to) = (offset_time(self.at), self.to.short());
        let files = changed(self.count);
        write!(
            text,
            "- {at}: {who} went back to checkpoint {to}{target}, {files}"
        )?;
        match &self.safety {
            Some(safety) => write!(text, ". Checkpoint {} holds what it replaced", safety.short())?,
            None if self.count > 0 => write!(text, ". A cleanup has removed what it replaced")?,
            None => {}
        }
        match &self.brings_back {
            Some(command) if self.takes_back.is_empty() => {
                writeln!(text, "; {} brings it back", code(command))?;
            }
            Some(command) => {
                let later = named(self.takes_back.iter().map(CodonId::as_str));
                let command = code(command);
                writeln!(
                    text,
                    "; {command} brings it back, but undoes what came after it: {later}"
                )?;
            }
            None => writeln!(text)?,
        }
        let mut named = self.changes.iter();
        named.try_for_each(|file| {
            write!(text, "  ")?;
            file.write(text)
        })?;
        let listed = u64::try_from(self.changes.len()).unwrap_or(u64::MAX);
        match self.count.saturating_sub(listed) {
            more if more > 0 && listed > 0 => {
                let more = usize::try_from(more).unwrap_or(usize::MAX);
                writeln!(text, "  - and {} more", counted(more, "file"))
            }
            _ => Ok(()),
        }
    }
}

impl FileReport {
    fn write(&self, text: &mut String) -> fmt::Result {
        let kind = kind_words(self.kind);
        let lines = self.lines.map(|lines| format!(", {}", lines_changed(lines)));
        writeln!(text, "- {} {kind}{}", code(&self.path), lines.unwrap_or_default())
    }
}

const fn kind_words(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Added => "new",
        ChangeKind::Modified => "changed",
        ChangeKind::Deleted => "deleted",
    }
}

fn lines_changed(lines: LineCounts) -> String {
    format!("+{} −{}", lines.added, lines.removed)
}

fn changed(count: u64) -> String {
    match count {
        0 => "changed nothing".to_owned(),
        1 => "1 file changed".to_owned(),
        count => format!("{count} files changed"),
    }
}
