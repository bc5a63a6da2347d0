//! Prompts as pure text (HANK-8): splits off front matter, joins several texts, removes comments and fills in variables such as `<%DATA_DIR%>`.

use std::path::Path;

use serde::Serialize;

use super::exclude::DATA;
use super::results::Results;

/// Front matter of a prompt file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PromptMetadata {
    /// Name of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Purpose of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Words to find it by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Version in any scheme.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Who wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
}

/// The values of the template variables.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct PromptVariables<'v> {
    /// Absolute path of the agent's workspace: `<%AGENT_ROOT%>`, `<%PROJECT_DIR%>` and `<%EXECUTION_DIR%>`.
    pub agent_root: &'v str,
    /// Absolute path of the data inside the workspace: `<%DATA_DIR%>`.
    pub data_dir: &'v str,
    /// Results of codons, for `<%results.plan.files%>`; `None` leaves such references unchanged.
    pub results: Option<&'v Results>,
}

/// Values of the template variables of one workspace; the owned form of [`PromptVariables`].
#[derive(Debug, Clone)]
pub struct PromptValues {
    /// Absolute path of the workspace.
    root: String,
    /// Absolute path of the data inside the workspace.
    data: String,
    results: Option<Results>,
}

impl PromptValues {
    /// Takes the absolute path of the workspace, and the results of codons; `None` leaves references to results unchanged.
    #[must_use]
    pub fn new(root: &Path, results: Option<Results>) -> Self {
        Self {
            root: root.to_string_lossy().into_owned(),
            data: root.join(DATA).to_string_lossy().into_owned(),
            results,
        }
    }

    /// Fills in a text; variables without a value stay.
    #[must_use]
    pub fn render(&self, text: &str) -> String {
        let variables = PromptVariables {
            agent_root: &self.root,
            data_dir: &self.data,
            results: self.results.as_ref(),
        };
        render(text, variables)
    }

    /// Fills in a text, and requires that every result it names exists.
    ///
    /// # Errors
    ///
    /// Returns a message that names the missing result.
    pub fn fill(&self, text: &str) -> Result<String, String> {
        match self.results.as_ref().and_then(|results| results.missing_in(text)) {
            Some(why) => Err(why),
            None => Ok(self.render(text)),
        }
    }
}

/// Removes HTML comments, also in code blocks, and fills in the variables. Unknown variables stay.
#[must_use]
pub fn render(text: &str, variables: PromptVariables<'_>) -> String {
    replace_variables(&without_comments(text), variables)
}

/// Joins texts with one blank line between them.
#[must_use]
pub fn join<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let mut texts = texts.into_iter().peekable();
    let mut joined = String::new();
    while let Some(text) = texts.next() {
        match texts.peek() {
            Some(_) => joined.extend([text.trim_end_matches(['\n', '\r']), "\n\n"]),
            None => joined.push_str(text),
        }
    }
    joined
}

/// Splits a prompt into its front matter, a block between two lines `---` at the very beginning, and its
/// text.
///
/// Of YAML only `key: value` and lists are read, in both spellings; other lines and keys are skipped.
/// A block without an end is not front matter.
#[must_use]
pub fn split_front_matter(text: &str) -> (PromptMetadata, &str) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut rest = text;
    if take_line(&mut rest).is_none_or(|line| line.trim_end() != "---") {
        return (PromptMetadata::default(), text);
    }
    let block = rest;
    while let Some(line) = take_line(&mut rest) {
        if line.trim_end() == "---" {
            let block = &block[..block.len() - rest.len() - line.len()];
            return (metadata(block), rest);
        }
    }
    (PromptMetadata::default(), text)
}

/// Takes the next line, with its line break, from the front of `rest`.
fn take_line<'t>(rest: &mut &'t str) -> Option<&'t str> {
    let end = rest.find('\n').map_or(rest.len(), |end| end + 1);
    let (line, after) = rest.split_at(end);
    *rest = after;
    (!line.is_empty()).then_some(line)
}

fn metadata(block: &str) -> PromptMetadata {
    let mut metadata = PromptMetadata::default();
    let mut inside_tags = false;
    for line in block.lines() {
        let item = line.trim_start().strip_prefix("- ");
        if let (Some(item), true) = (item, inside_tags) {
            metadata.tags.push(scalar(item));
            continue;
        }
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        inside_tags = key == "tags" && value.trim().is_empty();
        let value = value.trim();
        match key {
            "tags" => metadata.tags = inline_list(value),
            "name" => metadata.name = Some(scalar(value)),
            "description" => metadata.description = Some(scalar(value)),
            "version" => metadata.version = Some(scalar(value)),
            "author" => metadata.author = Some(scalar(value)),
            _ => {}
        }
    }
    metadata
}

/// Reads a list such as `[a, "b"]`, or `a, b` without brackets.
fn inline_list(value: &str) -> Vec<String> {
    let inner = value.strip_prefix('[').and_then(|value| value.strip_suffix(']'));
    let items = inner.unwrap_or(value).split(',').map(scalar);
    items.filter(|item| !item.is_empty()).collect()
}

fn scalar(value: &str) -> String {
    let value = value.trim();
    let unquoted = ['"', '\'']
        .iter()
        .find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
    unquoted.unwrap_or(value).to_owned()
}

/// Names of the variables of a prompt, without the references to results.
const VARIABLES: [&str; 4] = ["AGENT_ROOT", "PROJECT_DIR", "EXECUTION_DIR", "DATA_DIR"];

/// Returns the names in `<%NAME%>` that are no variables, each once; they stay in the prompt unchanged.
#[must_use]
pub fn unknown_variables(text: &str) -> Vec<String> {
    let text = without_comments(text);
    let is_name = |name: &str| {
        let mut letters = name.chars();
        letters.next().is_some_and(|first| first.is_ascii_alphabetic())
            && letters.all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    };
    let mut unknown = Vec::new();
    for name in between_marks(&text) {
        if is_name(name.trim()) && !is_variable(name) && !unknown.iter().any(|known| known == name) {
            unknown.push(name.to_owned());
        }
    }
    unknown
}

/// Returns the variables that a text names, such as `DATA_DIR` or `results.plan.files`. The text may also be a command: nothing fills in variables there, so
/// the caller warns of them.
pub fn variables_in(text: &str) -> impl Iterator<Item = &str> {
    between_marks(text).filter(|name| is_variable(name))
}

/// Returns the texts between `<%` and `%>`.
fn between_marks(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split("<%").skip(1);
    parts.filter_map(|part| Some(part.split_once("%>")?.0))
}

fn is_variable(name: &str) -> bool {
    VARIABLES.contains(&name) || name.starts_with("results.")
}

fn replace_variables(text: &str, values: PromptVariables<'_>) -> String {
    let PromptVariables {
        agent_root, data_dir, ..
    } = values;
    let variables = VARIABLES.map(|name| match name {
        "DATA_DIR" => (name, data_dir),
        name => (name, agent_root),
    });
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<%") {
        replaced.push_str(before);
        let mut known = variables.iter();
        let known = known
            .find_map(|(name, value)| Some(((*value).into(), after.strip_prefix(name)?.strip_prefix("%>")?)));
        let result = || values.results?.replaced(after);
        // An unknown variable stays: only its `<%` is passed over.
        let (value, after) = known.or_else(result).unwrap_or(("<%".into(), after));
        replaced.push_str(&value);
        rest = after;
    }
    replaced.push_str(rest);
    replaced
}

/// Removes `<!-- … -->` and one line break after each; a comment without an end stays.
pub(super) fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("<!--") {
        let Some((_, after)) = comment.split_once("-->") else {
            break;
        };
        kept.push_str(before);
        let without_break = after.strip_prefix("\r\n").or_else(|| after.strip_prefix('\n'));
        rest = without_break.unwrap_or(after);
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const VARIABLES: PromptVariables<'static> = PromptVariables {
        agent_root: "/work",
        data_dir: "/work/read_only_data_source",
        results: None,
    };

    // covers: HANK-8
    #[test]
    fn known_variables_are_replaced_and_unknown_ones_stay() {
        let text = "<%PROJECT_DIR%> <%AGENT_ROOT%>/x <%EXECUTION_DIR%> <%DATA_DIR%> <%TIMESTAMP%> <% a <%DATA_DIR%> <%";
        let expected = "/work /work/x /work /work/read_only_data_source <%TIMESTAMP%> <% a /work/read_only_data_source <%";
        assert_eq!(render(text, VARIABLES), expected);
    }

    #[test]
    fn comments_are_removed_everywhere_with_one_line_break() {
        let text = "a\n<!-- x\ny -->\n\nb ```<!-- c -->``` <!-- open";
        assert_eq!(render(text, VARIABLES), "a\n\nb `````` <!-- open");
    }

    #[test]
    fn a_value_that_looks_like_a_variable_is_not_replaced_again() {
        let variables = PromptVariables {
            agent_root: "<%DATA_DIR%>",
            data_dir: "/d",
            results: None,
        };
        assert_eq!(render("<%AGENT_ROOT%>", variables), "<%DATA_DIR%>");
    }

    #[test]
    fn front_matter_is_cut_and_read() {
        let text = "---\r\nname: \"Review: all\"\r\ntags:\r\n  - a\r\n  - 'b'\r\nversion: 1.0\r\nx: [\r\n---\r\nbody\r\n";
        let (metadata, body) = split_front_matter(text);
        assert_eq!(body, "body\r\n");
        assert_eq!(metadata.name.as_deref(), Some("Review: all"));
        assert_eq!(metadata.version.as_deref(), Some("1.0"));
        assert_eq!(metadata.tags, ["a", "b"]);
    }

    #[test]
    fn tags_can_stand_in_one_line() {
        assert_eq!(
            split_front_matter("---\ntags: [x, \"y z\"]\n---\n").0.tags,
            ["x", "y z"]
        );
    }

    #[test]
    fn a_block_without_an_end_or_not_at_the_beginning_is_text() {
        for text in ["---\nname: x\n", "a\n---\nname: x\n---\n", "----\n---\n", ""] {
            assert_eq!(split_front_matter(text), (PromptMetadata::default(), text));
        }
    }

    // covers: HANK-8
    #[test]
    fn texts_are_joined_with_exactly_one_blank_line() {
        assert_eq!(join(["a\n\n\n", "b", "c\n"]), "a\n\nb\n\nc\n");
        assert_eq!(join([]), "");
    }
}
