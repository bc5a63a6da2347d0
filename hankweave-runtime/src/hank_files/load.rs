//! Loads a hank and checks the files that it names; later reads its prompts for a run.
//!
//! [`load`] parses hank.json, checks each referenced file, then the prompts of sentinels and the results. All mistakes
//! become [`LoadedHank::problems`]; an error means that there is no hank to read, or that the system failed to read.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use hankweave_core::hank::prompt::{PromptMetadata, join, split_front_matter};
use hankweave_core::hank::{
    CodonConfig, FILE_NAMES, Hank, Parsed, Problem, Problems, PromptSource, Reference, ReferenceKind,
    SentinelEntry, SentinelSource, check_prompt, check_result_schema, check_script, check_sentinel,
    convert_sentinel, parse_bytes, paths, references, repeated_sentinels,
};
use hankweave_core::sentinel::SentinelConfig;
use hankweave_core::sentinel::model::AnswerSchema;
use serde_json::{Map, Value};

use super::beneath::{HankEntry, RefError, find, read_named, read_text};
use super::tree;
use crate::structured::CheckedForm;
use crate::world::disk::{CopyRules, Disk, FileKind, PathError, RealDisk, parent};

/// Longer prompts are probably a mistake (HANK-9).
const LONG_PROMPT_BYTES: usize = 1 << 20;

/// A hank.json that was read, with everything that is wrong with it and with the files it names.
#[derive(Debug, Clone)]
pub struct LoadedHank {
    /// The hank; `None` when its text has errors.
    pub hank: Option<Hank>,
    /// Readable part of a hank whose text has errors, so that its other mistakes are found as well; not fit to run.
    pub draft: Option<Hank>,
    /// The folder of hank.json, absolute; paths in the hank begin here.
    pub root: PathBuf,
    /// hank.json itself, as it was found.
    pub file: PathBuf,
    /// Problems of the text and of the files.
    pub problems: Problems,
    /// The correct sentinels in files of their own, by the paths of the files.
    pub sentinels: BTreeMap<String, Map<String, Value>>,
    /// Paths of sentinel files in the format of the older system, by the places in the hank that name them. A sentinel file counts
    /// too if it names a prompt file in that format. Empty for a hank without errors, in which they are not searched for.
    pub old_sentinels: BTreeMap<String, String>,
}

/// Why no hank could be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadHankError {
    /// Nothing is at the path.
    #[error("there is no `{path}`")]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// The path is a folder without a hank.json.
    #[error("there is no hank.json in `{folder}`")]
    NoHankInFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// The path is a folder with two hanks.
    #[error("`{folder}` holds both hank.json and hank.jsonc")]
    TwoHanksInFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// hank.json cannot be read as a file of a reasonable size, or the system failed to read it or a file that it names.
    #[error("failed to read `{path}`")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Problem of the reference.
        #[source]
        source: RefError,
    },
}

/// A sentinel's configuration as its file has it.
type SentinelObject = Map<String, Value>;

/// A prompt that is ready for its variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The text, without front matter; variables are still in it.
    pub text: String,
    /// The front matter of the first file; empty for a text in hank.json.
    pub metadata: PromptMetadata,
}

/// Finds the file of the hank in `folder`: hank.json or hank.jsonc (HANK-70).
///
/// # Errors
///
/// [`LoadHankError::NoHankInFolder`] if there is neither, [`LoadHankError::TwoHanksInFolder`] if there are both: it is
/// unknown which one is meant.
pub fn find_in(disk: &dyn Disk, folder: &Path) -> Result<PathBuf, LoadHankError> {
    // A file that cannot be inspected counts as existing, so that reading it gives the error.
    let exists = |file: &PathBuf| {
        let metadata = disk.metadata_followed(file);
        !metadata.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    let mut found = FILE_NAMES.iter().map(|name| folder.join(name)).filter(exists);
    let folder = folder.to_owned();
    match (found.next(), found.next()) {
        (None, _) => Err(LoadHankError::NoHankInFolder { folder }),
        (Some(file), None) => Ok(file),
        (Some(_), Some(_)) => Err(LoadHankError::TwoHanksInFolder { folder }),
    }
}

/// Loads the hank at `path`, which is a hank.json (under any name) or the folder that holds a hank.json or hank.jsonc.
///
/// Every file that the hank names is checked. The result can hold errors: see [`LoadedHank::problems`].
///
/// # Errors
///
/// Returns a [`LoadHankError`] when there is no file to read.
pub fn load(path: &Path) -> Result<LoadedHank, LoadHankError> {
    load_from(&RealDisk, path)
}

/// Loads from another disk.
///
/// # Errors
///
/// Returns a [`LoadHankError`] when there is no file to read.
pub fn load_from(disk: &dyn Disk, path: &Path) -> Result<LoadedHank, LoadHankError> {
    let metadata = disk.metadata_followed(path);
    let in_folder = metadata.is_ok_and(|metadata| metadata.kind == FileKind::Directory);
    let file = if in_folder {
        find_in(disk, path)?
    } else {
        path.to_owned()
    };
    let bytes = read_named(disk, &file).map_err(|error| match error {
        RefError::Path(PathError::Missing) => LoadHankError::Missing { path: file.clone() },
        source => LoadHankError::Unreadable {
            path: file.clone(),
            source,
        },
    })?;
    let unreadable = |error| LoadHankError::Unreadable {
        path: file.clone(),
        source: PathError::Io(error).into(),
    };
    let root = disk.real_path(parent(&file)).map_err(unreadable)?;
    let Parsed {
        mut hank,
        mut draft,
        has_stand_ins,
        mut problems,
    } = parse_bytes(&bytes);
    let (mut found, mut old_sentinels) = (FoundFiles::default(), BTreeMap::new());
    if let Some(hank) = hank.as_mut().or(draft.as_mut()) {
        for reference in references(hank) {
            let checked = check(disk, &root, hank, &reference, &mut found);
            problems.extend(checked.map_err(|source| LoadHankError::Unreadable {
                path: root.join(reference.path),
                source,
            })?);
        }
        hank.set_result_schemas(&found.result_schemas);
        let hank = &*hank;
        problems.extend(repeated_sentinels(hank, &found.sentinel_ids));
        problems.extend(prompts_of_sentinels(disk, &root, hank, &found.sentinels).map_err(
            |(path, source)| LoadHankError::Unreadable {
                path: root.join(path),
                source,
            },
        )?);
        problems.extend(super::results::wrong_schemas(hank));
        // Stand-ins replace ids and items that could not be read. References to those would be reported as wrong.
        if !has_stand_ins {
            problems.extend(super::results::wrong_references(disk, &root, hank));
        }
        if problems.has_errors() {
            old_sentinels = find_old_sentinels(disk, &root, hank);
        }
    }
    Ok(LoadedHank {
        hank,
        draft,
        root,
        file,
        problems,
        sentinels: found.sentinels,
        old_sentinels,
    })
}

/// Contents of the files that a hank names, without the incorrect ones.
#[derive(Default)]
struct FoundFiles {
    /// Ids of sentinels, by their places in the hank.
    sentinel_ids: BTreeMap<String, String>,
    /// Sentinels, by the paths of their files.
    sentinels: BTreeMap<String, SentinelObject>,
    /// Schemas of results, by the paths of their files.
    result_schemas: BTreeMap<String, Map<String, Value>>,
}

/// Returns the paths of the sentinel files that `sentinel convert` would change, by the places in the hank that name them.
fn find_old_sentinels(disk: &dyn Disk, root: &Path, hank: &Hank) -> BTreeMap<String, String> {
    let mut old = BTreeMap::new();
    for (at, codon) in hank.located_codons() {
        for (place, entry) in codon.located_sentinels(&at) {
            let SentinelSource::File(path) = &entry.sentinel_config else {
                continue;
            };
            let Ok(converted) = read_text(disk, root, path)
                .map_err(drop)
                .and_then(|text| convert_sentinel(&text, path).map_err(drop))
            else {
                continue;
            };
            let is_old = !converted.changed.is_empty() || !converted.lost.is_empty();
            if is_old || names_old_prompt(disk, root, entry, &converted.text, path) {
                old.insert(place, path.clone());
            }
        }
    }
    old
}

/// Whether the sentinel `entry` names a prompt file in the format of the older system. `text` is its converted file at `path`.
fn names_old_prompt(disk: &dyn Disk, root: &Path, entry: &SentinelEntry, text: &str, path: &str) -> bool {
    let files = check_sentinel(text, path)
        .config
        .map(|config| (path.to_owned(), config));
    let Ok(config) = SentinelConfig::of(entry, &files.into_iter().collect()) else {
        return false;
    };
    let texts = config.user_prompt_files(entry);
    let mut texts = texts.iter().filter_map(|file| read_text(disk, root, file).ok());
    // A mistake has a hint only where the text can be converted from the older format.
    texts.any(|text| check_prompt(&text).is_err_and(|wrong| wrong.hint.is_some()))
}

impl LoadedHank {
    /// Returns the hank, or the readable part of a hank with errors.
    #[must_use]
    pub fn readable(&self) -> Option<&Hank> {
        self.hank.as_ref().or(self.draft.as_ref())
    }

    /// Like [`readable`](Self::readable), for changes.
    pub fn readable_mut(&mut self) -> Option<&mut Hank> {
        self.hank.as_mut().or(self.draft.as_mut())
    }

    /// Whether a prompt of the hank names the data of the run, `<%DATA_DIR%>`.
    #[must_use]
    pub fn names_data(&self, disk: &dyn Disk) -> bool {
        let hank = self.readable();
        hank.is_some_and(|hank| super::results::names_data(disk, &self.root, hank))
    }

    /// Reads a file of the hank as text, with the checks of loading the hank.
    ///
    /// # Errors
    ///
    /// Returns a [`RefError`] that fits after the path.
    pub fn read_ref(&self, disk: &dyn Disk, reference: &str) -> Result<String, RefError> {
        read_text(disk, &self.root, reference)
    }

    /// The prompt of a codon: its files, without their front matter, with a blank line between them, or its text.
    ///
    /// # Errors
    ///
    /// Returns a [`PromptFileError`] with the file that cannot be read.
    pub fn prompt_text(&self, disk: &dyn Disk, codon: &CodonConfig) -> Result<Prompt, PromptFileError> {
        let files = match &codon.prompt {
            PromptSource::Text(text) => {
                return Ok(Prompt {
                    text: text.clone(),
                    metadata: PromptMetadata::default(),
                });
            }
            PromptSource::Files(files) => self.read_all(disk, files)?,
        };
        let parts: Vec<_> = files.iter().map(|file| split_front_matter(file)).collect();
        let text = join(parts.iter().map(|(_, text)| *text));
        let metadata = parts
            .into_iter()
            .next()
            .map(|(metadata, _)| metadata)
            .unwrap_or_default();
        Ok(Prompt { text, metadata })
    }

    /// Returns the text to add to the agent's system prompt: the hank's part, then the codon's, with a blank line between.
    ///
    /// # Errors
    ///
    /// Returns a [`PromptFileError`] with the file that cannot be read.
    pub fn system_prompt(
        &self,
        disk: &dyn Disk,
        codon: &CodonConfig,
    ) -> Result<Option<String>, PromptFileError> {
        let global = self
            .hank
            .as_ref()
            .and_then(|hank| hank.global_system_prompt.as_ref());
        let mut parts = Vec::new();
        for source in global.into_iter().chain(&codon.append_system_prompt) {
            match source {
                PromptSource::Text(text) => parts.push(text.clone()),
                PromptSource::Files(files) => parts.extend(self.read_all(disk, files)?),
            }
        }
        Ok((!parts.is_empty()).then(|| join(parts.iter().map(String::as_str))))
    }

    fn read_all(&self, disk: &dyn Disk, files: &[String]) -> Result<Vec<String>, PromptFileError> {
        let read = |path: &String| {
            self.read_ref(disk, path).map_err(|source| PromptFileError {
                path: path.clone(),
                source,
            })
        };
        files.iter().map(read).collect()
    }
}

/// A prompt file that cannot be read when its text is needed.
#[derive(Debug, thiserror::Error)]
#[error("failed to read prompt file `{path}`")]
#[non_exhaustive]
pub struct PromptFileError {
    /// As it is written in the hank.
    pub path: String,
    /// Problem of the reference.
    #[source]
    pub source: RefError,
}

/// Checks the file or folder of a reference, and adds the contents that the hank needs to `found`. Returns the problems of
/// the hank; an error is one of the system's.
fn check(
    disk: &dyn Disk,
    root: &Path,
    hank: &Hank,
    reference: &Reference<'_>,
    found: &mut FoundFiles,
) -> Result<Vec<Problem>, RefError> {
    if reference.kind == ReferenceKind::CopySource {
        return check_copy_source(disk, root, hank, reference);
    }
    let text = match read_text(disk, root, reference.path) {
        Ok(text) => text,
        Err(source) => return refused(hank, reference, source),
    };
    let warning = |message: &str| Problem::warning(&hank.places, &*reference.place, message);
    Ok(match reference.kind {
        ReferenceKind::Sentinel => {
            let checked = check_sentinel(&text, reference.path);
            let id = checked.id.map(|id| (reference.place.clone(), id));
            found.sentinel_ids.extend(id);
            let config = checked.config.map(|config| (reference.path.to_owned(), config));
            found.sentinels.extend(config);
            all_at_reference(&checked.problems, hank, reference)
        }
        ReferenceKind::AgentScript => all_at_reference(&check_script(&text), hank, reference),
        ReferenceKind::ResultSchema => {
            let (schema, problems) = check_result_schema(&text);
            let schema = schema.map(|schema| (reference.path.to_owned(), schema));
            found.result_schemas.extend(schema);
            all_at_reference(&problems, hank, reference)
        }
        _ if text.trim().is_empty() => vec![warning("the file is empty")],
        _ if text.len() > LONG_PROMPT_BYTES => vec![warning("the file is larger than 1 MiB")],
        _ => Vec::new(),
    })
}

/// Checks a file or folder that a rig copies.
fn check_copy_source(
    disk: &dyn Disk,
    root: &Path,
    hank: &Hank,
    reference: &Reference<'_>,
) -> Result<Vec<Problem>, RefError> {
    let folder = match find(disk, root, reference.path) {
        Ok(HankEntry::File(_)) => return Ok(Vec::new()),
        Ok(HankEntry::Folder(folder)) => folder,
        Err(source) => return refused(hank, reference, source),
    };
    let rules = match disk.open_folder(root).and_then(|root| CopyRules::of(&*root)) {
        Ok(rules) => rules,
        Err(source) => return refused(hank, reference, PathError::Io(source).into()),
    };
    let base: PathBuf = reference_names(reference.path).collect();
    let survey = tree::survey(&*folder, &base, &rules)?;
    let path = shown(reference.path);
    let obstacles = survey.obstacles.iter().map(|found| {
        let message = format!("cannot copy `{path}`: `{}` {}", shown(&found.path), found.reason);
        Problem::error(&hank.places, &*reference.place, message)
    });
    let left_out = survey.left_out.iter().map(|inner| {
        let message = format!("a copy of `{path}` leaves `{}` out", shown(inner));
        Problem::warning(&hank.places, &*reference.place, message)
    });
    Ok(obstacles.chain(left_out).collect())
}

/// Returns the problem of a reference that cannot be used, or the error itself if the system failed to read.
fn refused(hank: &Hank, reference: &Reference<'_>, source: RefError) -> Result<Vec<Problem>, RefError> {
    if source.is_of_the_system() {
        return Err(source);
    }
    let message = described(&shown(reference.path), &source);
    Ok(vec![Problem::error(&hank.places, &*reference.place, message)])
}

/// Returns the problems of the prompt files and schemas of all sentinels. An error is one of the system's, with the file.
fn prompts_of_sentinels(
    disk: &dyn Disk,
    root: &Path,
    hank: &Hank,
    files: &BTreeMap<String, SentinelObject>,
) -> Result<Vec<Problem>, (String, RefError)> {
    let mut problems = Vec::new();
    for (at, codon) in hank.located_codons() {
        for (place, entry) in codon.located_sentinels(&at) {
            let Ok(config) = SentinelConfig::of(entry, files) else {
                continue;
            };
            let error = |message| Problem::error(&hank.places, place.clone(), message);
            for file in config.user_prompt_files(entry) {
                match text_or_fault(disk, root, &file)? {
                    Ok(text) => problems.extend(check_prompt(&text).err().map(|wrong| Problem {
                        hint: wrong.hint,
                        ..error(format!("`{}` {}", shown(&file), wrong.message))
                    })),
                    Err(fault) => problems.push(error(fault)),
                }
            }
            problems.extend(schema_of(disk, root, &config, entry)?.map(error));
            for file in config.system_prompt_files(entry) {
                problems.extend(text_or_fault(disk, root, &file)?.err().map(error));
            }
        }
    }
    Ok(problems)
}

/// Returns the text of a file, or as inner error the problem of the file. The outer error is one of the system's, with the file.
fn text_or_fault(
    disk: &dyn Disk,
    root: &Path,
    file: &str,
) -> Result<Result<String, String>, (String, RefError)> {
    match read_text(disk, root, file) {
        Ok(text) => Ok(Ok(text)),
        Err(source) if source.is_of_the_system() => Err((file.to_owned(), source)),
        Err(source) => Ok(Err(described(&shown(file), &source))),
    }
}

/// Returns the problem of a sentinel's schema, in a file or in place.
fn schema_of(
    disk: &dyn Disk,
    root: &Path,
    config: &SentinelConfig,
    entry: &SentinelEntry,
) -> Result<Option<String>, (String, RefError)> {
    let Some(structured) = &config.structured_output else {
        return Ok(None);
    };
    let mut schema = structured.schema_str.clone();
    if let Some(file) = config.schema_file(entry) {
        schema = match text_or_fault(disk, root, &file)? {
            Ok(text) => Some(text),
            Err(fault) => return Ok(Some(fault)),
        };
    }
    let checked = AnswerSchema::of(structured, schema.as_deref()).and_then(CheckedForm::of);
    Ok(checked.err().map(|why| format!("structuredOutput: {why}")))
}

/// Returns the names along a reference, which exists and so is spelled correctly.
fn reference_names(reference: &str) -> impl Iterator<Item = &str> {
    paths::reference(reference).unwrap_or_default().into_iter()
}

/// Returns the problems of a file that the hank names, at the position where the hank names the file.
fn all_at_reference(problems: &Problems, hank: &Hank, reference: &Reference<'_>) -> Vec<Problem> {
    let problems = problems.iter();
    problems
        .map(|found| at_reference(found, hank, reference))
        .collect()
}

fn at_reference(found: &Problem, hank: &Hank, reference: &Reference<'_>) -> Problem {
    let without_hint = Problem {
        hint: None,
        ..found.clone()
    };
    let message = without_hint.display_in(reference.path);
    Problem {
        level: found.level,
        hint: found.hint.clone(),
        ..Problem::error(&hank.places, &*reference.place, message).in_file(reference.path, found)
    }
}

/// Describes an error of the file at `path`; each kind of message fits after the path in its own way.
fn described(path: &str, error: &RefError) -> String {
    match error {
        RefError::Path(PathError::Io(source)) => format!("`{path}` {error}: {source}"),
        RefError::Link { .. } | RefError::Path(PathError::NotAFolder { .. }) => format!("`{path}`: {error}"),
        _ => format!("`{path}` {error}"),
    }
}

/// Returns a path for a message, at most 200 characters and without control characters, which could harm a terminal.
fn shown(path: &str) -> String {
    path.chars()
        .take(200)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
