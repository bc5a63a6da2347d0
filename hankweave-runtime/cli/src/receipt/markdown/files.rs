//! Sections "Files" and "Rollbacks" of a report.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use hankweave_core::document::Operation;
use hankweave_core::id::CodonId;
use hankweave_runtime::checkpoint::ChangeKind;

use super::super::codons::CodonReport;
use super::super::files::FileReport;
use super::super::gathered::Receipt;
use super::super::markup::{code, named};
use super::super::rollbacks::RollbackReport;
use crate::checkpoints::LineCounts;
use crate::terminal::report::counted;
use crate::terminal::screen::offset_time;

/// Largest number of files that the section lists.
const NAMED_FILES: usize = 40;

impl Receipt {
    pub(super) fn write_files(&self, text: &mut String) -> fmt::Result {
        let Some(count) = self.files.count else {
            return Ok(());
        };
        writeln!(text, "## Files\n")?;
        let not_counted = self.not_counted();
        if count == 0 {
            return writeln!(text, "None has changed since the start.{not_counted}\n");
        }
        let lines = self
            .files
            .lines
            .map(|lines| format!(", {}", lines_changed(lines)));
        writeln!(
            text,
            "{} since the start{}: {}.{}{not_counted}\n",
            changed(count as u64),
            lines.unwrap_or_default(),
            code(&self.files.shown_by),
            self.by_no_codon()
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

    /// Returns a sentence for each codon with changed files that no checkpoint has: the report counts files in checkpoints only.
    fn not_counted(&self) -> String {
        let mut sentences = String::new();
        for codon in &self.codons {
            let Some(unsaved) = &codon.unsaved else { continue };
            if unsaved.without_checkpoint == 0 {
                continue;
            }
            let count = counted(unsaved.without_checkpoint, "file");
            let id = code(codon.id.as_str());
            let did = if unsaved.is_at_work {
                "has changed so far"
            } else {
                "left"
            };
            sentences.push_str(&format!(
                " Not counted: {count} that {id} {did}, which no checkpoint has."
            ));
        }
        sentences
    }

    /// Returns a sentence with the number of changed files that no listed codon has changed; empty if there are none, or if not every file and codon
    /// is listed.
    fn by_no_codon(&self) -> String {
        let is_complete = |codon: &CodonReport| {
            u64::try_from(codon.changes.len()) == Ok(codon.files_changed.unwrap_or_default())
        };
        let all = self.files.changes.iter().map(|file| file.path.as_str());
        let is_whole = self.files.count == Some(all.len()) && self.more_codons == 0;
        if !is_whole || !self.codons.iter().all(is_complete) {
            return String::new();
        }
        let by_codons = self.codons.iter().flat_map(|codon| &codon.changes);
        let by_codons: BTreeSet<&str> = by_codons.map(|file| file.path.as_str()).collect();
        match all.filter(|path| !by_codons.contains(path)).count() {
            0 => String::new(),
            others => format!(
                " No codon above changed {others} of them; {} did.",
                self.other_authors().join(" or ")
            ),
        }
    }

    /// Returns who else may have changed files, besides the listed codons.
    fn other_authors(&self) -> Vec<&'static str> {
        let has_set_up = self.codons.iter().any(|codon| codon.terms.has_set_up());
        [
            has_set_up.then_some("a setup"),
            (!self.sentinels.is_empty()).then_some("a sentinel"),
            self.undone
                .is_some()
                .then_some("an attempt that no longer counts"),
            (self.own_runs < self.runs).then_some("an earlier run"),
            Some("a user"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    pub(super) fn write_rollbacks(&self, text: &mut String) -> fmt::Result {
        if self.rollbacks.is_empty() {
            return Ok(());
        }
        writeln!(text, "## Rollbacks\n")?;
        self.rollbacks
            .iter()
            .try_for_each(|rollback| rollback.write(text))?;
        if !self.state.has_ended() {
            writeln!(text, "\nThese commands work once the run has ended.")?;
        }
        writeln!(text)
    }
}

impl RollbackReport {
    /// Writes the rollback in a line, with the commands that show and restore what it replaced, and a line for each of its files.
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
        if let Some(prints) = &self.prints {
            write!(text, "; {} prints a file of it", code(prints))?;
        }
        match &self.brings_back {
            Some(command) if self.also_undoes.is_empty() => {
                writeln!(text, "; {} brings all of it back", code(command))?;
            }
            Some(command) => writeln!(
                text,
                "; {} brings all of it back, but also undoes {}, which came after it, with every file that a checkpoint has saved since, yours too",
                code(command),
                named(self.also_undoes.iter().map(CodonId::as_str))
            )?,
            None => writeln!(text)?,
        }
        for file in &self.changes {
            let kind = match file.kind {
                ChangeKind::Added => "back again",
                kind => kind_words(kind),
            };
            writeln!(text, "  - {} {kind}", code(&file.path))?;
        }
        let listed = u64::try_from(self.changes.len()).unwrap_or(u64::MAX);
        match self.count.saturating_sub(listed) {
            // Without any listed file, the first line says the number.
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

pub(super) const fn kind_words(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Added => "new",
        ChangeKind::Modified => "changed",
        ChangeKind::Deleted => "deleted",
    }
}

pub(super) fn lines_changed(lines: LineCounts) -> String {
    format!("+{} −{}", lines.added, lines.removed)
}

pub(super) fn changed(count: u64) -> String {
    match count {
        0 => "changed nothing".to_owned(),
        1 => "1 file changed".to_owned(),
        count => format!("{count} files changed"),
    }
}
