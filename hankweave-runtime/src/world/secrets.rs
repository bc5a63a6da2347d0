//! Redaction of secret values in text that is shown or recorded, such as errors and logs (X9).

use std::borrow::Cow;
use std::ffi::OsStr;

/// Parts of the names of variables with secret values, in lower case.
const SECRET_NAME_PARTS: [&str; 6] = ["key", "token", "secret", "passw", "credential", "auth"];

/// Minimum length of a secret value, in bytes. A shorter one, such as `1`, would be replaced all over a text and make it unreadable.
const MIN_BYTES: usize = 4;

const REDACTED: &str = "[redacted]";

/// Secret values of variables.
#[derive(Clone, Default)]
pub struct Secrets {
    /// Longest first: if `secret` was replaced first, the rest of `secret-and-more` would stay readable.
    values: Vec<String>,
}

impl Secrets {
    /// Collects the values of all variables whose names mark them as secret.
    pub fn of<N: AsRef<OsStr>, V: AsRef<OsStr>>(variables: impl IntoIterator<Item = (N, V)>) -> Self {
        let mut values = Vec::new();
        for (name, value) in variables {
            let Some(value) = value.as_ref().to_str() else {
                continue;
            };
            if is_secret(name.as_ref()) && value.len() >= MIN_BYTES {
                values.push(value.to_owned());
            }
        }
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self { values }
    }

    /// Returns `text` with every secret value replaced by `[redacted]`.
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

/// Writes the number of values alone.
impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.values.len())
    }
}

/// Whether the name of a variable marks its value as secret.
fn is_secret(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_lowercase();
    SECRET_NAME_PARTS.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

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
