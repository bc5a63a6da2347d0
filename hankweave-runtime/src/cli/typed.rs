//! What a person can type, for hints that can be copied.

use std::path::Path;

use crate::world::disk::{Disk, FileKind, RealDisk};

/// Commands about one execution directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Typed<'a> {
    execution: &'a Path,
}

impl<'a> Typed<'a> {
    pub(super) fn about(execution: &'a Path) -> Self {
        Self { execution }
    }

    /// `hankweave ARGUMENTS`, with `-e DIR` where the directory is not the one that is meant without.
    pub(super) fn command(self, arguments: &str) -> String {
        match self.is_here() {
            true => format!("hankweave {arguments}"),
            false => format!("hankweave {arguments} -e {}", word(self.execution)),
        }
    }

    /// `hankweave run`, with what it needs to find the hank and the directory. Where the hank is elsewhere, nobody has noted where.
    pub(super) fn run(self, options: &str) -> String {
        let hank = RealDisk.metadata_followed(&self.execution.join("hank.json"));
        let has_hank = hank.is_ok_and(|found| found.kind == FileKind::File);
        let run = match (has_hank, self.is_here()) {
            (true, true) => "hankweave run".to_owned(),
            (true, false) => format!("hankweave run {}", word(self.execution)),
            (false, _) => format!("hankweave run HANK -e {}", word(self.execution)),
        };
        match options {
            "" => run,
            options => format!("{run} {options}"),
        }
    }

    fn is_here(self) -> bool {
        matches!(self.execution.to_str(), Some("." | "./" | ""))
    }
}

/// A path as one word of a shell.
pub(super) fn word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-+@%,:=".contains(character);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.into_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_can_be_copied_into_a_shell() {
        let folder = tempfile::tempdir().unwrap();
        let named = folder.path().join("it's mine");
        std::fs::create_dir(&named).unwrap();
        let quoted = format!(r"'{}/it'\''s mine'", folder.path().display());
        let typed = Typed::about(&named);
        assert_eq!(typed.command("thread"), format!("hankweave thread -e {quoted}"));
        assert_eq!(
            typed.run("--new"),
            format!("hankweave run HANK -e {quoted} --new")
        );
        std::fs::write(named.join("hank.json"), "{}").unwrap();
        assert_eq!(typed.run(""), format!("hankweave run {quoted}"));
        assert_eq!(Typed::about(Path::new(".")).command("thread"), "hankweave thread");
    }
}
