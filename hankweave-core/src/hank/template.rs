//! Prompts of sentinels: templates in the language of Jinja, which make text and do nothing else (SENT-14).

use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde::Serialize;
use serde_json::{Value, json};

/// Variables of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptContext<'c> {
    /// The sentinel.
    pub sentinel_id: &'c str,
    /// The run.
    pub run_id: &'c str,
    /// The codon that it watches.
    pub codon_id: &'c str,
    /// How often it was triggered.
    pub trigger: u64,
    /// Events that it acts on, as in the journal.
    pub events: Vec<Value>,
}

const NAMES: [&str; 5] = ["sentinelId", "runId", "codonId", "trigger", "events"];

/// Steps after which a template is taken for one without an end.
const MOST_STEPS: u64 = 10_000_000;

/// Why a text is no prompt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TemplateError {
    /// Problem; fits after its place.
    pub message: String,
    /// Correct spelling.
    pub hint: Option<String>,
}

/// Looks whether the text is a template, of names that there are.
///
/// # Errors
///
/// What is wrong with it. Placeholders of older systems are shown as they are to be written.
pub fn check_prompt(text: &str) -> Result<(), TemplateError> {
    let found = find_fault(text);
    found.map_err(|message| {
        let converted = converted(text).filter(|converted| find_fault(converted).is_ok());
        TemplateError {
            message,
            hint: converted.map(|converted| format!("write {}", Value::from(converted))),
        }
    })
}

fn find_fault(text: &str) -> Result<(), String> {
    if text.contains("<%") {
        return Err("holds `<% … %>`, which no prompt of a sentinel can have; it is a template like `{{ events[0].data }}`".to_owned());
    }
    let environment = environment();
    let template = environment
        .template_from_str(text)
        .map_err(|error| format!("is no template: {error}"))?;
    let mut unknown: Vec<String> = template.undeclared_variables(false).into_iter().collect();
    // Functions of the language are undeclared as well.
    let functions: Vec<String> = environment.globals().map(|(name, _)| name.to_owned()).collect();
    unknown.retain(|name| !NAMES.contains(&name.as_str()) && !functions.contains(name));
    unknown.sort_unstable();
    if let Some(name) = unknown.first() {
        return Err(format!("speaks of `{name}`; there are {}", NAMES.join(", ")));
    }
    // Filters and tests are looked up when they are used; what else goes wrong hangs on the events.
    let sample = json!({"sentinelId": "s", "runId": "r", "codonId": "c", "trigger": 1, "events": [{"type": "t", "data": {}}]});
    match template.render(Serde(&sample)) {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::UnknownFilter | ErrorKind::UnknownTest | ErrorKind::UnknownFunction
            ) =>
        {
            Err(format!("is no template: {error}"))
        }
        _ => Ok(()),
    }
}

/// Fills in the prompt.
///
/// # Errors
///
/// When it is no template, speaks of what is not there, or does not come to an end.
pub fn render_prompt(text: &str, context: &PromptContext<'_>) -> Result<String, TemplateError> {
    environment()
        .render_str(text, Serde(context))
        .map_err(|error| TemplateError {
            message: format!("the prompt cannot be filled in: {error}"),
            hint: None,
        })
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(MOST_STEPS));
    environment
}

/// The text with the placeholders of older systems as they are written here; `None` where that is beyond us.
fn converted(text: &str) -> Option<String> {
    let (mut converted, mut open, mut rest) = (String::new(), Vec::new(), text);
    while let Some((before, after)) = rest.split_once("<%") {
        let (inner, after) = after.split_once("%>")?;
        converted.push_str(before);
        let inner = inner.trim_matches(['-', '_']).trim();
        match inner.strip_prefix(['=', '~']) {
            Some(value) => converted.push_str(&format!("{{{{ {} }}}}", expression(value)?)),
            None => converted.push_str(&format!("{{% {} %}}", statement(inner, &mut open)?)),
        }
        rest = after;
    }
    converted.push_str(rest);
    Some(with_fields_of_the_last_event(&converted))
}

/// `{{field}}` was a field of the last event.
fn with_fields_of_the_last_event(text: &str) -> String {
    let (mut converted, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((inner, after)) = after.split_once("}}") else {
            break;
        };
        converted.push_str(before);
        let name = inner.trim();
        let is_field = !name.is_empty()
            && !NAMES.contains(&name)
            && name.split('.').all(|part| {
                !part.is_empty()
                    && part
                        .chars()
                        .all(|letter| letter.is_alphanumeric() || letter == '_')
            })
            && !text.contains("{%");
        match is_field {
            true => converted.push_str(&format!("{{{{ (events | last).data.{name} }}}}")),
            false => converted.push_str(&format!("{{{{{inner}}}}}")),
        }
        rest = after;
    }
    converted + rest
}

fn statement(written: &str, open: &mut Vec<&'static str>) -> Option<String> {
    if let Some(head) = written
        .strip_prefix("for")
        .and_then(|rest| rest.trim().strip_prefix('(')?.trim_end().strip_suffix('{'))
    {
        let (name, list) = head.trim_end().strip_suffix(')')?.split_once(" of ")?;
        let name = name.trim().rsplit(' ').next()?;
        open.push("endfor");
        return Some(format!("for {name} in {}", expression(list)?));
    }
    if let Some((list, function)) = written.split_once(".forEach(") {
        let name = function
            .split("=>")
            .next()?
            .trim()
            .trim_matches(['(', ')'])
            .trim();
        open.push("endfor");
        return Some(format!("for {name} in {}", expression(list)?));
    }
    if let Some(head) = written.strip_prefix("if") {
        let condition = head.trim().strip_prefix('(')?.strip_suffix('{')?;
        open.push("endif");
        return Some(format!(
            "if {}",
            expression(condition.trim_end().strip_suffix(')')?)?
        ));
    }
    match written.split_whitespace().collect::<String>().as_str() {
        "}else{" => Some("else".to_owned()),
        "}" | "})" | "});" => open.pop().map(str::to_owned),
        _ => None,
    }
}

/// An expression of JavaScript, as far as prompts have such.
fn expression(written: &str) -> Option<String> {
    let written = written.trim().trim_end_matches(';');
    if let Some(inner) = written.strip_prefix("JSON.stringify(") {
        let inner = inner.strip_suffix(')')?.split(',').next()?;
        return Some(format!("{} | tojson", expression(inner)?));
    }
    let words = [
        ("===", "=="),
        ("!==", "!="),
        ("&&", "and"),
        ("||", "or"),
        (".length", " | length"),
    ];
    let plain = words
        .iter()
        .fold(written.to_owned(), |text, (from, to)| text.replace(from, to));
    let mut text = String::new();
    for (index, part) in plain.split("it.").enumerate() {
        // `it.` at the end of another word is that word's.
        if index > 0 && text.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_') {
            text.push_str("it.");
        }
        text.push_str(part);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> PromptContext<'static> {
        PromptContext {
            sentinel_id: "s",
            run_id: "r",
            codon_id: "c",
            trigger: 2,
            events: vec![
                json!({"type": "file.updated", "data": {"path": "a.ts", "content": "one"}}),
                json!({"type": "file.updated", "data": {"path": "b.ts", "content": "<two> & 'three'"}}),
            ],
        }
    }

    // covers: SENT-14
    #[test]
    fn a_prompt_speaks_of_what_there_is_and_of_nothing_else() {
        let value = serde_json::to_value(context()).unwrap();
        let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, NAMES);
        let text = "{{ codonId }} {{ trigger }}{% for event in events %} {{ event.data.path }}{% endfor %}: {{ (events | last).data.content }}";
        assert_eq!(check_prompt(text), Ok(()));
        assert_eq!(
            render_prompt(text, &context()).unwrap(),
            "c 2 a.ts b.ts: <two> & 'three'"
        );
        assert_eq!(check_prompt("{% for n in range(3) %}{{ n }}{% endfor %}"), Ok(()));
        for wrong in [
            "{{ event.path }}",
            "{{ events",
            "{% for x in events %}",
            "{{ events | explode }}",
            "{{ now() }}",
        ] {
            assert!(check_prompt(wrong).is_err(), "{wrong}");
        }
        for wrong in [
            "{{ events[0].data.nothing }}",
            "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
        ] {
            assert_eq!(check_prompt("{{ events[0].data.nothing }}"), Ok(()));
            assert!(render_prompt(wrong, &context()).is_err(), "{wrong}");
        }
    }

    // covers: SENT-14
    #[test]
    fn the_placeholders_of_older_systems_are_refused_with_the_converted_text() {
        for (old, new, filled) in [
            (
                "<% for (const event of it.events) { %>- <%= event.data.path %>\n<% } %>",
                "{% for event in events %}- {{ event.data.path }}\n{% endfor %}",
                "- a.ts\n- b.ts\n",
            ),
            (
                "<%= it.events[it.events.length - 1].data.content %>",
                "{{ events[events | length - 1].data.content }}",
                "<two> & 'three'",
            ),
            (
                "<% it.events.forEach((e) => { %><% if (e.type === \"info\") { %>i<% } else { %>f<% } %><% }) %>",
                "{% for e in events %}{% if e.type == \"info\" %}i{% else %}f{% endif %}{% endfor %}",
                "ff",
            ),
            (
                "<%= JSON.stringify(it.trigger, null, 2) %>",
                "{{ trigger | tojson }}",
                "2",
            ),
            ("In {{path}}", "In {{ (events | last).data.path }}", "In b.ts"),
        ] {
            let hint = check_prompt(old).unwrap_err().hint;
            assert_eq!(hint, Some(format!("write {}", Value::from(new))), "{old}");
            assert_eq!(render_prompt(new, &context()).unwrap(), filled);
        }
        assert_eq!(
            check_prompt("<% let x = 1 %>").unwrap_err().hint,
            None,
            "what is beyond us is not guessed"
        );
    }
}
