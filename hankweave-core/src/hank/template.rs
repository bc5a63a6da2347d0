//! Prompts of sentinels: templates in the language of Jinja, which make text and do nothing else (SENT-14).

use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde::Serialize;
use serde_json::{Value, json};

use super::old_template::convert_prompt;

/// Variables of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptContext<'c> {
    /// The sentinel.
    pub sentinel_id: &'c str,
    /// The run.
    pub run_id: &'c str,
    /// The codon that the sentinel watches.
    pub codon_id: &'c str,
    /// Number of times that the sentinel was triggered.
    pub trigger: u64,
    /// Events that the sentinel acts on, as in the journal.
    pub events: Vec<Value>,
}

/// Names of the variables in [`PromptContext`].
pub(super) const NAMES: [&str; 5] = ["sentinelId", "runId", "codonId", "trigger", "events"];

/// Maximum of steps of a template; one that takes more is taken for endless.
const MOST_STEPS: u64 = 10_000_000;

/// Reason why a text is no valid prompt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct TemplateError {
    /// Problem; fits after its place.
    pub message: String,
    /// Text to write instead.
    pub hint: Option<String>,
}

/// Checks that the text is a template with known variables.
///
/// # Errors
///
/// The mistake. For placeholders of older systems, the hint has the converted text.
pub fn check_prompt(text: &str) -> Result<(), TemplateError> {
    find_fault(text).map_err(|message| TemplateError {
        message,
        hint: convert_prompt(text).map(|converted| format!("write {}", Value::from(converted.text))),
    })
}

/// Returns the first mistake of a template as an error, in words.
pub(super) fn find_fault(text: &str) -> Result<(), String> {
    if text.contains("<%") {
        return Err("holds `<% … %>`, which no prompt of a sentinel can have; it is a template like `{{ events[0].data }}`".to_owned());
    }
    let environment = environment();
    let template = environment
        .template_from_str(text)
        .map_err(|error| format!("is no template: {error}"))?;
    let mut unknown: Vec<String> = template.undeclared_variables(false).into_iter().collect();
    // Functions of the template language count as undeclared, too.
    let functions: Vec<String> = environment.globals().map(|(name, _)| name.to_owned()).collect();
    unknown.retain(|name| !NAMES.contains(&name.as_str()) && !functions.contains(name));
    unknown.sort_unstable();
    if let Some(name) = unknown.first() {
        return Err(format!("speaks of `{name}`; there are {}", NAMES.join(", ")));
    }
    // Unknown filters and tests are only found by rendering. Other errors may come from the sample, not from the template, and are ignored.
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
/// If the text is no template, uses an unknown name, or takes too many steps.
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
