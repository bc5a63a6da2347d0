//! References to results in prompts, such as `<%results.plan.files%>`: their values in a run, and mistakes in them before it (HANK-92, HANK-93).

use std::borrow::Cow;
use std::iter::Skip;
use std::str::Split;

use serde_json::{Map, Value};

use super::document::{CodonConfig, Hank};
use super::keys::{did_you_mean, nearest};
use super::problem::quoted;
use super::prompt::without_comments;
use super::results::Results;
use crate::agent::AskedResult;

impl Results {
    /// Returns the value that a reference such as `plan.files.0` names, or why there is none.
    fn value(&self, reference: &str) -> Result<&Value, String> {
        let ids = self.0.keys().map(String::as_str);
        let Some((id, keys)) = split(reference, ids) else {
            return Err("no codon that has run has this result".to_owned());
        };
        let mut value = &self.0[id];
        for key in keys {
            let inner = match value {
                Value::Object(object) => object.get(key),
                Value::Array(list) => key.parse::<usize>().ok().and_then(|index| list.get(index)),
                _ => None,
            };
            value = inner.ok_or_else(|| format!("the result of `{id}` has no {} there", quoted(key)))?;
        }
        Ok(value)
    }

    /// Takes a text after a `<%`. If it begins with a reference that has a value, returns that value and the text after the reference. A string is
    /// inserted as it is, any other value as JSON.
    pub(super) fn replaced<'t>(&self, text: &'t str) -> Option<(Cow<'_, str>, &'t str)> {
        let (reference, after) = reference_at(text)?;
        let value = match self.value(reference).ok()? {
            Value::String(value) => value.into(),
            value => value.to_string().into(),
        };
        Some((value, after))
    }

    /// Returns a message if a reference in the text has no value. References in comments do not count.
    #[must_use]
    pub fn missing_in(&self, text: &str) -> Option<String> {
        let text = without_comments(text);
        let mut references = references(&text);
        references.find_map(|reference| {
            let why = self.value(reference).err()?;
            Some(format!("the prompt names `results.{reference}`, and {why}"))
        })
    }
}

/// Returns the references in a text, such as `plan.files`.
fn references(text: &str) -> impl Iterator<Item = &str> {
    let openings = text.split("<%").skip(1);
    openings.filter_map(|after| Some(reference_at(after)?.0))
}

/// Takes a text after a `<%`, and returns the reference at its start and the text after the closing `%>`.
fn reference_at(text: &str) -> Option<(&str, &str)> {
    let (reference, after) = text.strip_prefix("results.")?.split_once("%>")?;
    (!reference.contains(['<', '\n'])).then_some((reference, after))
}

/// Splits a reference into the id of a codon and keys. Ids can contain dots, so the longest of `ids` that fits is meant.
fn split<'r, 'i>(
    reference: &'r str,
    ids: impl Iterator<Item = &'i str>,
) -> Option<(&'i str, Skip<Split<'r, char>>)> {
    let fits = |id: &&str| {
        let rest = reference.strip_prefix(*id);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let id = ids.filter(fits).max_by_key(|id| id.len())?;
    let keys = reference[id.len()..].split('.').skip(1);
    Some((id, keys))
}

/// Mistake in a reference to a result, in a text of the hank.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReferenceMistake {
    /// Problem; fits after its place.
    pub message: String,
    /// Text to write instead.
    pub hint: String,
    /// Whether the reference may still be right, because the schema allows the key without requiring it.
    pub is_doubt: bool,
}

/// Returns the mistakes in the references of a text. Each reference must name an earlier codon with a result. The text belongs to `codon`; with `None`, it
/// belongs to all codons, so no codon is earlier.
#[must_use]
pub fn reference_mistakes(hank: &Hank, codon: Option<&CodonConfig>, text: &str) -> Vec<ReferenceMistake> {
    let text = without_comments(text);
    let mut mistakes = Vec::new();
    for reference in references(&text) {
        if let Some(mistake) = mistake(hank, codon, reference)
            && !mistakes.contains(&mistake)
        {
            mistakes.push(mistake);
        }
    }
    mistakes
}

/// Returns the mistake in one reference of a text that belongs to `user`, if any.
fn mistake(hank: &Hank, user: Option<&CodonConfig>, reference: &str) -> Option<ReferenceMistake> {
    let refuse = |message: String, hint: String| {
        Some(ReferenceMistake {
            message: format!("names `results.{reference}`, {message}"),
            hint,
            is_doubt: false,
        })
    };
    let ids = hank.codons().map(|codon| codon.id.as_str());
    let Some((id, keys)) = split(reference, ids) else {
        let hint = nearest_reference(hank, reference).map_or_else(
            || "write <%results.ID.KEY%> with the id of a codon that has a `result`".to_owned(),
            |near| format!("did you mean `results.{near}`?"),
        );
        return refuse("and no codon is called so".to_owned(), hint);
    };
    let source = hank.codons().find(|codon| codon.id.as_str() == id)?;
    let Some(asked) = &source.result else {
        let hint = format!(r#"give `{id}` a result: "result": {{ "schema": {{ "type": "object" }} }}"#);
        return refuse(format!("and `{id}` has no `result`"), hint);
    };
    let mut before = hank
        .codons()
        .take_while(|codon| user.is_some_and(|user| codon.id != user.id));
    if !before.any(|codon| codon.id == source.id) {
        let hint = "write it into a prompt of a codon that comes later".to_owned();
        return refuse(format!("and `{id}` does not come before"), hint);
    }
    let (key, allowed) = unknown_key(asked, keys)?;
    let key = quoted(key);
    let Some(allowed) = allowed else {
        return Some(ReferenceMistake {
            message: format!("names `results.{reference}`, and the schema of `{id}` does not require {key}"),
            hint: format!("add it to `required` in the schema of `{id}`"),
            is_doubt: true,
        });
    };
    let near = did_you_mean(key.trim_matches('`'), &allowed);
    let hint = near.unwrap_or_else(|| format!("it allows {}", allowed.join(", ")));
    refuse(format!("and the schema of `{id}` allows no {key} there"), hint)
}

/// Returns the existing reference of which `reference` is most probably a misspelling, among the codons with a result.
fn nearest_reference(hank: &Hank, reference: &str) -> Option<String> {
    let with_result = hank.codons().filter(|codon| codon.result.is_some());
    let ids: Vec<&str> = with_result.map(|codon| codon.id.as_str()).collect();
    let ends = reference.match_indices('.').map(|(end, _)| end);
    // Ids can contain dots, so the longest beginning that is similar to an id is meant.
    let mut ends: Vec<usize> = ends.chain([reference.len()]).collect();
    ends.reverse();
    ends.into_iter().find_map(|end| {
        let (id, keys) = reference.split_at(end);
        Some(format!("{}{keys}", nearest(id, &ids, 1).pop()?))
    })
}

/// Follows `keys` into the schema of a result. Returns the first key that the schema forbids, with the keys that it allows there; else the first key that
/// it does not require, with `None`. Only `properties` and `items` of the schema are considered.
fn unknown_key<'a, 'r>(
    asked: &'a AskedResult,
    keys: impl Iterator<Item = &'r str>,
) -> Option<(&'r str, Option<Vec<&'a str>>)> {
    let mut schema = &asked.schema;
    let mut doubt = None;
    for key in keys {
        let properties = schema.get("properties").and_then(Value::as_object);
        let inner = match (properties, schema.get("items")) {
            (Some(properties), _) => match properties.get(key) {
                None if is_closed(schema) => {
                    return Some((key, Some(properties.keys().map(String::as_str).collect())));
                }
                None => return doubt,
                Some(inner) => {
                    let required = schema.get("required").and_then(Value::as_array);
                    let is_required = required.is_some_and(|required| required.contains(&key.into()));
                    doubt = doubt.or((!is_required).then_some((key, None)));
                    inner
                }
            },
            (None, Some(items)) if key.parse::<usize>().is_ok() => items,
            (None, _) => return doubt,
        };
        let Some(inner) = inner.as_object() else {
            return doubt;
        };
        schema = inner;
    }
    doubt
}

/// Whether no keys are allowed beyond `properties`.
fn is_closed(schema: &Map<String, Value>) -> bool {
    schema.get("additionalProperties") == Some(&Value::Bool(false))
        && !schema.contains_key("patternProperties")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::hank::parse;
    use crate::hank::prompt::{PromptVariables, render};
    use crate::id::CodonId;

    fn results() -> Results {
        let mut results = Results::default();
        let codon = |id: &str| id.parse::<CodonId>().unwrap();
        results.set(
            &codon("plan"),
            json!({"title": "<%results.plan%> <!-- x -->", "files": ["a", "b"]}),
        );
        results.set(&codon("plan.b"), json!({"ok": true}));
        results
    }

    // covers: HANK-92
    #[test]
    fn texts_stand_as_they_are_and_other_values_as_json() {
        let results = results();
        let fill = |text: &str| {
            let variables = PromptVariables {
                agent_root: "/w",
                data_dir: "/d",
                results: Some(&results),
            };
            render(text, variables)
        };
        assert_eq!(
            fill("<%results.plan.files%> <%results.plan.files.1%>"),
            r#"["a","b"] b"#
        );
        assert_eq!(
            fill("<%results.plan.title%>"),
            "<%results.plan%> <!-- x -->",
            "a value is not filled in again, and keeps its comments"
        );
        assert_eq!(fill("<%results.plan.b.ok%>"), "true", "the longest id is meant");
        assert_eq!(
            fill("<%results.x%> <%results. <%results.plan.files.0%> <%DATA_DIR%>"),
            "<%results.x%> <%results. a /d"
        );
    }

    // covers: HANK-92
    #[test]
    fn a_reference_without_a_value_is_told_with_its_name() {
        let missing = |text: &str| results().missing_in(text);
        assert_eq!(missing("<%results.plan.files%> <!-- <%results.x%> -->"), None);
        for (text, expected) in [
            ("<%results.x.y%>", "`results.x.y`, and no codon that has run"),
            ("<%results.plan.file%>", "the result of `plan` has no `file`"),
            ("<%results.plan.files.2%>", "has no `2`"),
        ] {
            assert!(missing(text).unwrap().contains(expected), "{text}");
        }
    }

    // covers: HANK-93
    #[test]
    fn references_must_name_a_result_that_comes_before() {
        let codon = |id: &str, more: &str| {
            format!(
                r#"{{"id": "{id}", "name": "{id}", "model": "m", "continuationMode": "fresh", "promptText": "x"{more}}}"#
            )
        };
        let result = r#", "result": {"schema": {"type": "object", "additionalProperties": false, "required": ["files"],
            "properties": {"files": {"type": "array", "items": {"type": "string"}}, "note": {"type": "string"}}}}"#;
        let text = format!(
            r#"{{"hank": [{}, {}, {}]}}"#,
            codon("plan", result),
            codon("build", ""),
            codon("late", result)
        );
        let parsed = parse(&text);
        let hank = parsed.hank.unwrap();
        let build = hank.codons().nth(1);
        let found = |text: &str| {
            let mistakes = reference_mistakes(&hank, build, text).into_iter();
            let shown = mistakes.map(|mistake| (mistake.message, mistake.is_doubt));
            shown.collect::<Vec<_>>()
        };
        assert_eq!(found("<%results.plan%> <%results.plan.files.0%>"), []);
        for (text, expected, doubt) in [
            ("<%results.nobody.files%>", "no codon is called so", false),
            ("<%results.build.files%>", "`build` has no `result`", false),
            ("<%results.late.files%>", "`late` does not come before", false),
            ("<%results.plan.file%>", "allows no `file` there", false),
            ("<%results.plan.note%>", "does not require `note`", true),
        ] {
            let found = found(text);
            let [(message, is_doubt)] = &found[..] else {
                panic!("{text}: {found:?}");
            };
            assert!(
                message.contains(expected) && *is_doubt == doubt,
                "{text}: {message}"
            );
        }
        assert_eq!(
            reference_mistakes(&hank, None, "<%results.plan%>").len(),
            1,
            "the first codon has it as well"
        );
    }
}
