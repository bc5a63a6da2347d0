//! Mistakes in the user's declaration, collected so that all are reported at once, and the search for the name that was probably meant.

use std::fmt::Display;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::Error;

/// All mistakes found so far.
#[derive(Debug, Default)]
pub(crate) struct Errors(Vec<Error>);

impl Errors {
    /// Reports a mistake at the tokens that make it.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.0.push(Error::new_spanned(tokens, message));
    }

    /// Reports a mistake that several states make at one position, once.
    pub(crate) fn once_at(&mut self, tokens: impl ToTokens, message: impl Display) {
        let error = Error::new_spanned(tokens, message);
        let position = format!("{:?}", error.span());
        if self
            .0
            .iter()
            .all(|known| format!("{:?}", known.span()) != position)
        {
            self.0.push(error);
        }
    }

    /// Returns the value of a result, or collects its mistake.
    pub(crate) fn ok<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.0.push(error)).ok()
    }

    /// Returns the mistakes as `compile_error!` invocations, each at its tokens.
    pub(crate) fn into_tokens(self) -> TokenStream {
        // A mistake in a group is found again at each state of the group; it is reported once.
        let mut reported = Vec::new();
        let is_new = |error: &&Error| {
            let key = (error.to_string(), format!("{:?}", error.span()));
            let is_new = !reported.contains(&key);
            reported.push(key);
            is_new
        };
        self.0
            .iter()
            .filter(is_new)
            .flat_map(|error| error.clone())
            .map(|error| compile_error(&error))
            .collect()
    }
}

/// Generates `compile_error!` under its bare name. syn writes `::core::compile_error!`, but a dependency of the user may be called `core`.
fn compile_error(error: &Error) -> TokenStream {
    let leading_core = |token: &TokenTree| match token {
        TokenTree::Punct(sign) => sign.as_char() == ':',
        TokenTree::Ident(name) => name == "core",
        _ => false,
    };
    error
        .to_compile_error()
        .into_iter()
        .skip_while(leading_core)
        .collect()
}

/// Ends a message with the nearest of the known names, if one is near.
pub(crate) fn did_you_mean(found: &str, known: &[String]) -> String {
    match nearest(found, known) {
        Some(index) => format!("; did you mean `{}`?", known[index]),
        None => String::new(),
    }
}

/// Finds the known name that was probably meant.
pub(crate) fn nearest(found: &str, known: &[String]) -> Option<usize> {
    let distance = |name: &String| strsim::damerau_levenshtein(found, name);
    let (index, name) = known.iter().enumerate().min_by_key(|(_, name)| distance(name))?;
    (distance(name) <= found.len().max(name.len()) / 3).then_some(index)
}
