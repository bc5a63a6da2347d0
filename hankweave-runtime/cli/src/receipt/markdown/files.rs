//! Sections of files and rollbacks.

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
use crate::report::counted;
use crate::screen::offset_time;

/// Files that are listed by name.
const NAMED_FILES: usize = 40;

impl Receipt {
    pub(super) fn write_files(&self, text: &mut String) -> fmt::Result {
        let Some(count) = self.files.count else {
            return Ok(());
        };
        writeln!(text, "## Files\n")?;
        let unsaved = self
            .codons
            .iter()
            .filter_map(|codon| Some((codon, codon.unsaved.as_ref()?)));
        let unsaved = unsaved.filter(|(_, left)| left.without_checkpoint > 0);
        let unsaved = unsaved.map(|(codon, left)| {
            let count = counted(left.without_checkpoint, "file");
            let id = code(codon.id.as_str());
            let did = if left.is_at_work {
                "has changed so far"
            } else {
                "left"
            };
            format!(" Without {count} that {id} {did} and no checkpoint has.")
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
            "{} since the start{lines}: {}.{nobody}{unsaved}\n",
            changed(count as u64),
            code(&self.files.shown_by)
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
            (!self.sentinels.is_empty()).then_some("by a sentinel"),
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

    pub(super) fn write_rollbacks(&self, text: &mut String) -> fmt::Result {
        if self.rollbacks.is_empty() {
            return Ok(());
        }
        writeln!(text, "## Rollbacks\n")?;
        self.rollbacks.iter().try_for_each(|back| back.write(text))?;
        if !self.state.has_ended() {
            writeln!(text, "\nNothing goes back while the run lives.")?;
        }
        writeln!(text)
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
        if let Some(prints) = &self.prints {
            write!(text, "; {} prints a file of it", code(prints))?;
        }
        match &self.brings_back {
            Some(command) if self.takes_back.is_empty() => {
                writeln!(text, "; {} brings all of it back", code(command))?;
            }
            Some(command) => {
                let later = named(self.takes_back.iter().map(CodonId::as_str));
                let command = code(command);
                writeln!(
                    text,
                    "; {command} brings all of it back, but undoes what came after it, with the files that are in checkpoints since, yours too: {later}"
                )?;
            }
            None => writeln!(text)?,
        }
        let mut named = self.changes.iter();
        named.try_for_each(|file| {
            let kind = match file.kind {
                ChangeKind::Added => "back again",
                kind => kind_words(kind),
            };
            writeln!(text, "  - {} {kind}", code(&file.path))
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
