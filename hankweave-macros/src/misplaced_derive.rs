//! Detection of a derive above the attribute. Such a derive runs before the macro and gets the declaration instead of the generated enum, and the compiler
//! complains about each variant that does not fit. A macro does not see the lines above it, so the source file is read. If that fails, nothing but
//! a clearer message is lost.

use std::fs;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Fields, ItemEnum};

/// Returns whether there is a derive above the attribute that is being expanded.
pub(crate) fn has_derive_above() -> bool {
    let here = proc_macro::Span::call_site();
    let text = here.local_file().and_then(|file| fs::read_to_string(file).ok());
    text.is_some_and(|text| derive_before(&text, here.line()))
}

/// Whether a derive is among the attributes directly above line `line`, counted from one, which has the attribute of the machine.
fn derive_before(text: &str, line: usize) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let Some(before) = lines.get(..line.saturating_sub(1)) else {
        return false;
    };
    // The present text of the file may not be the compiled one.
    if !lines.get(line - 1).is_some_and(|line| line.contains("machine")) {
        return false;
    }
    // Line by line upwards. `open` means that the end of an attribute of several lines was seen, but not yet its `#[`.
    let mut open = false;
    for line in before.iter().rev() {
        if line.starts_with("#[") {
            if line.starts_with("#[derive") {
                return true;
            }
            open = false;
        } else if line.ends_with(")]") {
            open = true;
        } else if !(open || line.is_empty() || line.starts_with("//")) {
            return false;
        }
    }
    false
}

/// The enum without the attributes of the machine: the derived code is for this enum, and compiles with it.
pub(crate) fn as_written(item: &TokenStream) -> TokenStream {
    let Ok(mut item) = syn::parse2::<ItemEnum>(item.clone()) else {
        return TokenStream::new();
    };
    let keep = |attrs: &mut Vec<Attribute>| attrs.retain(|attr| attr.path().is_ident("doc"));
    keep(&mut item.attrs);
    for variant in &mut item.variants {
        keep(&mut variant.attrs);
        if let Fields::Named(fields) = &mut variant.fields {
            fields.named.iter_mut().for_each(|field| keep(&mut field.attrs));
        }
    }
    quote! {
        #[allow(dead_code, missing_docs, reason = "the mistake is reported")]
        #item
    }
}

#[cfg(test)]
mod tests {
    use super::derive_before;

    #[test]
    fn a_derive_among_the_attributes_above_is_found_and_nothing_else() {
        let found = [
            "#[derive(Debug)]\n#[machine(Door)]",
            "#[derive(\n    Debug,\n    Clone,\n)]\n/// A door.\n\n#[serde(tag = \"t\")]\n#[machine(Door)]",
        ];
        for text in found {
            assert!(derive_before(text, text.lines().count()), "{text}");
        }
        let others = [
            "#[machine(Door)]",
            "#[derive(Debug)]\nstruct Key;\n#[machine(Door)]",
            "#[derive(Debug)]\nstruct Key(\n    u8,\n);\n\n/// A door.\n#[machine(Door)]",
            "#[derive(Debug)]\n#[other]",
        ];
        for text in others {
            assert!(!derive_before(text, text.lines().count()), "{text}");
        }
        assert!(!derive_before("", 3));
    }
}
