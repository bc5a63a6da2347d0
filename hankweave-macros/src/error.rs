//! Mistakes of the user, collected so that all are reported at once.

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
        let place = format!("{:?}", error.span());
        if self.0.iter().all(|known| format!("{:?}", known.span()) != place) {
            self.0.push(error);
        }
    }

    /// Takes the value, or the mistake.
    pub(crate) fn ok<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.0.push(error)).ok()
    }

    /// The mistakes as `compile_error!` invocations, each at its place.
    pub(crate) fn into_tokens(self) -> TokenStream {
        // A mistake of a group is found at each of its states.
        let mut told = Vec::new();
        let new = |error: &&Error| {
            let key = (error.to_string(), format!("{:?}", error.span()));
            let new = !told.contains(&key);
            told.push(key);
            new
        };
        self.0
            .iter()
            .filter(new)
            .flat_map(|error| error.clone())
            .map(|error| by_name(&error))
            .collect()
    }
}

/// `compile_error!` by its name: a dependency may be called `core`, through which syn would go.
fn by_name(error: &Error) -> TokenStream {
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
