//! Finds the JSON object that a codon's `result` asks for in the text of an agent's answer (AGENT-70).

use serde_json::{Map, Value};

/// Returns the JSON object of an answer: the whole text, else the last code block that holds one, else the text from the first to the last brace.
#[must_use]
pub fn object_in(answer: &str) -> Option<Map<String, Value>> {
    let between_braces = || answer.get(answer.find('{')?..=answer.rfind('}')?);
    let parsed = |text: &str| serde_json::from_str(text).ok();
    parsed(answer)
        .or_else(|| blocks(answer).rev().find_map(parsed))
        .or_else(|| parsed(between_braces()?))
}

/// Returns the code blocks between fences, each from its first brace on, which leaves out the name of the language.
fn blocks(answer: &str) -> impl DoubleEndedIterator<Item = &str> {
    let parts: Vec<&str> = answer.split("```").collect();
    let inside = parts.into_iter().skip(1).step_by(2);
    inside.map(|block| block.find('{').map_or(block, |start| &block[start..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: AGENT-70
    #[test]
    fn the_object_of_an_answer_is_found_with_words_around_it() {
        for answer in [
            r#" {"a": 1} "#,
            "```json\n{\"a\": 1}\n```",
            "First:\n```json\n{\"b\": 2}\n```\nNo, this:\n```\n{\"a\": 1}\n```\nDone {really}.",
            "Here it is: {\"a\": 1}. Done.",
        ] {
            let found = object_in(answer).map(Value::from);
            assert_eq!(found, Some(serde_json::json!({"a": 1})), "{answer}");
        }
        for answer in ["", "done", "[1]", "{a: 1}", "} {"] {
            assert_eq!(object_in(answer), None, "{answer}");
        }
    }
}
