//! Spells names in other cases: [`snake`] and [`pascal`] for generated modules, methods and types, [`Case`] for stored names, as serde would spell them.

use proc_macro2::Ident;
use syn::LitStr;
use syn::ext::IdentExt;

/// A way of spelling names, as `rename_all` of serde knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    Lower,
    Upper,
    Pascal,
    Camel,
    Snake,
    ScreamingSnake,
    Kebab,
    ScreamingKebab,
}

impl Case {
    const ALL: [(&'static str, Case); 8] = [
        ("lowercase", Case::Lower),
        ("UPPERCASE", Case::Upper),
        ("PascalCase", Case::Pascal),
        ("camelCase", Case::Camel),
        ("snake_case", Case::Snake),
        ("SCREAMING_SNAKE_CASE", Case::ScreamingSnake),
        ("kebab-case", Case::Kebab),
        ("SCREAMING-KEBAB-CASE", Case::ScreamingKebab),
    ];

    pub(crate) fn parse(name: &LitStr) -> syn::Result<Case> {
        let found = name.value();
        let known = Self::ALL.iter().find(|(text, _)| *text == found);
        known.map(|(_, case)| *case).ok_or_else(|| {
            let expected = Self::ALL.map(|(text, _)| text).join("`, `");
            syn::Error::new(
                name.span(),
                format!("unknown case `{found}`, expected one of `{expected}`"),
            )
        })
    }

    /// The name that serde's attributes use for this case.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, case)| *case == self)
            .map(|(text, _)| *text)
            .expect("every case is listed")
    }

    /// Spells the name of a variant, which is in Pascal case.
    pub(crate) fn variant(self, name: &str) -> String {
        match self {
            Case::Lower => name.to_ascii_lowercase(),
            Case::Upper => name.to_ascii_uppercase(),
            Case::Pascal => name.to_string(),
            Case::Camel => lower_first(name),
            Case::Snake => serde_snake(name),
            Case::ScreamingSnake => serde_snake(name).to_ascii_uppercase(),
            Case::Kebab => serde_snake(name).replace('_', "-"),
            Case::ScreamingKebab => serde_snake(name).to_ascii_uppercase().replace('_', "-"),
        }
    }

    /// Spells the name of a field, which is in snake case.
    pub(crate) fn field(self, name: &str) -> String {
        match self {
            Case::Lower | Case::Snake => name.to_string(),
            Case::Upper | Case::ScreamingSnake => name.to_ascii_uppercase(),
            Case::Pascal => serde_pascal(name),
            Case::Camel => lower_first(&serde_pascal(name)),
            Case::Kebab => name.replace('_', "-"),
            Case::ScreamingKebab => name.to_ascii_uppercase().replace('_', "-"),
        }
    }
}

/// The text of a name, without the `r#` that lets a keyword be one.
pub(crate) fn text(ident: &Ident) -> String {
    ident.unraw().to_string()
}

/// Whether the text can be the name of something: neither a keyword nor empty nor begun with a digit.
pub(crate) fn is_name(text: &str) -> bool {
    syn::parse_str::<Ident>(text).is_ok()
}

/// `CompletingSentinels` becomes `completing_sentinels`, and `HTTPConn` `http_conn`.
pub(crate) fn snake(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (index, letter) in letters.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| letters[before]);
        let starts_word = before.is_some_and(|before| {
            let next_is_small = letters.get(index + 1).is_some_and(|next| next.is_lowercase());
            before != '_' && (!before.is_uppercase() || next_is_small)
        });
        if letter.is_uppercase() && starts_word {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}

/// Converts like serde: each capital letter begins a word, and only ASCII letters change.
fn serde_snake(name: &str) -> String {
    let mut out = String::new();
    for (index, letter) in name.char_indices() {
        if index > 0 && letter.is_uppercase() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// `complete_sentinels` becomes `CompleteSentinels`.
pub(crate) fn pascal(name: &str) -> String {
    let upper_first = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().into_iter().flat_map(char::to_uppercase);
        first.collect::<String>() + letters.as_str()
    };
    name.split('_').map(upper_first).collect()
}

/// Converts like serde: only ASCII letters change.
fn serde_pascal(name: &str) -> String {
    let upper_first = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    name.split('_').map(upper_first).collect()
}

fn lower_first(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_ascii_lowercase().to_string() + letters.as_str()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rust_keep_acronyms_and_foreign_letters_together() {
        assert_eq!(snake("CompletingSentinels"), "completing_sentinels");
        assert_eq!(snake("HTTPConn"), "http_conn");
        assert_eq!(snake("Xy_Z"), "xy_z");
        assert_eq!(snake("TürÖffner"), "tür_öffner");
        assert_eq!(pascal("öffne_tür"), "ÖffneTür");
        assert_eq!(
            Case::Kebab.variant("HTTPConn"),
            "h-t-t-p-conn",
            "as serde does it"
        );
    }

    #[test]
    fn variants_and_fields_are_spelled_as_serde_spells_them() {
        assert_eq!(Case::Kebab.variant("CompletingSentinels"), "completing-sentinels");
        assert_eq!(Case::Camel.variant("CompletingSentinels"), "completingSentinels");
        assert_eq!(
            Case::ScreamingSnake.variant("CompletingSentinels"),
            "COMPLETING_SENTINELS"
        );
        assert_eq!(Case::Camel.field("claude_log_path"), "claudeLogPath");
        assert_eq!(Case::Kebab.field("claude_log_path"), "claude-log-path");
        assert_eq!(Case::Lower.field("claude_log_path"), "claude_log_path");
    }
}
