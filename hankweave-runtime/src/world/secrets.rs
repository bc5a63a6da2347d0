//! Keeping secrets out of what is shown and recorded.

use std::borrow::Cow;
use std::ffi::OsStr;

/// Names of variables with one of these words in them belong to secrets (X9).
const WORDS: [&str; 6] = ["key", "token", "secret", "passw", "credential", "auth"];

/// Shorter values would be found everywhere and protect nothing.
const SHORTEST: usize = 4;

const REDACTED: &str = "[redacted]";

/// The values of variables that are secrets, to be taken out of error texts.
#[derive(Clone, Default)]
pub struct Secrets {
    /// Longest first, so that a value inside of another one does not spoil it.
    values: Vec<String>,
}

impl Secrets {
    /// The secrets among these variables, told by their names.
    pub fn of<N: AsRef<OsStr>, V: AsRef<OsStr>>(variables: impl IntoIterator<Item = (N, V)>) -> Self {
        let secret = |(name, value): (N, V)| {
            let value = value.as_ref().to_str()?;
            (is_secret(name.as_ref()) && value.len() >= SHORTEST).then(|| value.to_owned())
        };
        let mut values: Vec<String> = variables.into_iter().filter_map(secret).collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self { values }
    }

    /// `text` with every secret value replaced.
    #[must_use]
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut redacted = Cow::Borrowed(text);
        for value in &self.values {
            if redacted.contains(value.as_str()) {
                redacted = Cow::Owned(redacted.replace(value.as_str(), REDACTED));
            }
        }
        redacted
    }
}

/// Tells how many there are and nothing of them.
impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.values.len())
    }
}

fn is_secret(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The six words, in any case.
    // covers: X9
    #[test]
    fn values_are_secret_by_the_names_of_their_variables() {
        let secrets = Secrets::of([
            ("ANTHROPIC_API_KEY", "sk-1234"),
            ("Github_Token", "ghp-1234"),
            ("CLIENT_SECRET", "cs-1234"),
            ("PGPASSWORD", "pg-1234"),
            ("AWS_CREDENTIALS", "aws-1234"),
            ("BASIC_AUTH", "ba-1234"),
            ("GREETING", "hello"),
            ("EMPTY_KEY", ""),
            ("KEY_COUNT", "12"),
        ]);
        let text = "sk-1234 ghp-1234 cs-1234 pg-1234 aws-1234 ba-1234 hello 12";
        let expected = "[redacted] [redacted] [redacted] [redacted] [redacted] [redacted] hello 12";
        assert_eq!(secrets.redact(text), expected);
        assert_eq!(format!("{secrets:?}"), "Secrets(6)");
    }

    #[test]
    fn a_secret_that_begins_like_another_is_replaced_as_a_whole() {
        let secrets = Secrets::of([("A_KEY", "secret"), ("B_KEY", "secret-and-more")]);
        assert_eq!(
            secrets.redact("secret-and-more, secret"),
            "[redacted], [redacted]"
        );
    }

    #[test]
    fn a_text_without_secrets_is_not_copied() {
        let secrets = Secrets::of([("A_KEY", "secret")]);
        assert!(matches!(secrets.redact("nothing here"), Cow::Borrowed(_)));
    }
}
