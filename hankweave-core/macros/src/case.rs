//! Names as serde spells them, in the cases that records use.

use proc_macro2::Ident;
use syn::LitStr;
use syn::ext::IdentExt;

/// A way of spelling names, as `rename_all` of serde knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Case {
    Lower,
    Camel,
    Snake,
    ScreamingSnake,
    Kebab,
}

impl Case {
    pub(crate) fn parse(name: &LitStr) -> syn::Result<Case> {
        Ok(match name.value().as_str() {
            "lowercase" => Case::Lower,
            "camelCase" => Case::Camel,
            "snake_case" => Case::Snake,
            "SCREAMING_SNAKE_CASE" => Case::ScreamingSnake,
            "kebab-case" => Case::Kebab,
            other => {
                return Err(syn::Error::new(
                    name.span(),
                    format!("no record is spelled in `{other}` yet: add it to `Case`"),
                ));
            }
        })
    }

    /// Spells the name of a variant, which is in Pascal case.
    pub(crate) fn variant(self, name: &str) -> String {
        let mut words = String::new();
        for (index, letter) in name.char_indices() {
            if index > 0 && letter.is_uppercase() {
                words.push('_');
            }
            words.push(letter.to_ascii_lowercase());
        }
        match self {
            Case::Lower => name.to_ascii_lowercase(),
            _ => self.field(&words),
        }
    }

    /// Spells the name of a field, which is in snake case.
    pub(crate) fn field(self, name: &str) -> String {
        match self {
            Case::Lower | Case::Snake => name.to_string(),
            Case::ScreamingSnake => name.to_ascii_uppercase(),
            Case::Kebab => name.replace('_', "-"),
            Case::Camel => {
                let mut words = name.split('_');
                let first = words.next().unwrap_or_default().to_string();
                words.fold(first, |spelled, word| {
                    let (letter, rest) = word.split_at_checked(1).unwrap_or((word, ""));
                    spelled + &letter.to_ascii_uppercase() + rest
                })
            }
        }
    }
}

/// The text of a name, without the `r#` that lets a keyword be one.
pub(crate) fn text(ident: &Ident) -> String {
    ident.unraw().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_and_fields_are_spelled_as_serde_spells_them() {
        assert_eq!(Case::Kebab.variant("CompletingSentinels"), "completing-sentinels");
        assert_eq!(Case::Camel.variant("CompletingSentinels"), "completingSentinels");
        assert_eq!(Case::Lower.variant("RunStarted"), "runstarted");
        assert_eq!(Case::ScreamingSnake.variant("RunStarted"), "RUN_STARTED");
        assert_eq!(Case::Camel.field("claude_log_path"), "claudeLogPath");
        assert_eq!(Case::Kebab.field("claude_log_path"), "claude-log-path");
        assert_eq!(Case::Snake.field("claude_log_path"), "claude_log_path");
    }
}
