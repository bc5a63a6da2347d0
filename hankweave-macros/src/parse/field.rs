//! One field with its mark.

use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Expr, Ident, Meta, Token, Visibility};

use crate::ast::{Carry, Field, Mark, Serde, Setters};
use crate::error::Errors;

use super::attribute::Place;
use super::{attribute, paths, serde};

/// Reads one named field; returns nothing for a field without name, which is reported elsewhere.
pub(super) fn parse(field: syn::Field, errors: &mut Errors) -> Option<Field> {
    if !matches!(field.vis, Visibility::Inherited) {
        errors.at(&field.vis, "fields of a state are always public");
    }
    let mut parsed = Field {
        ident: attribute::plain(field.ident?),
        ty: field.ty,
        attrs: Vec::new(),
        serde: Serde::default(),
        mark: Mark::None,
        schema: None,
        sample: None,
    };
    for attr in field.attrs {
        let result = field_attribute(&mut parsed, attr, errors);
        errors.ok(result);
    }
    move_paths(&mut parsed);
    Some(parsed)
}

/// Lets types and expressions mean in the generated module what they mean here.
fn move_paths(field: &mut Field) {
    paths::of_type(&mut field.ty);
    field.schema.as_mut().into_iter().for_each(paths::of_type);
    field.sample.as_mut().into_iter().for_each(paths::of_expr);
    match &mut field.mark {
        Mark::Live { start, .. } => start.as_mut().into_iter().for_each(paths::of_expr),
        Mark::Carry(Carry { start, next, .. }) => start.iter_mut().chain(next).for_each(paths::of_expr),
        Mark::Fixed(value) => paths::of_expr(value),
        Mark::None | Mark::Extra | Mark::Origin => {}
    }
}

fn field_attribute(field: &mut Field, attr: Attribute, errors: &mut Errors) -> syn::Result<()> {
    let name = attr.path().get_ident().map(Ident::to_string).unwrap_or_default();
    match name.as_str() {
        "serde" => serde::field(&attr, &mut field.serde)?,
        "sample" => field.sample = Some(attr.parse_args()?),
        "schema" => field.schema = Some(attr.parse_args()?),
        "cfg" | "cfg_attr" => attribute::refuse_cfg(&attr, errors),
        "extra" | "carry" | "carry_or_ask" | "origin" | "live" | "fixed" => {
            if !matches!(field.mark, Mark::None) {
                errors.at(&attr, "a field has one mark: its value comes from one place");
            }
            field.mark = mark(&name, &attr)?;
        }
        _ => {
            attribute::refuse_misspelt(&attr, Place::Field)?;
            field.attrs.push(attr);
        }
    }
    Ok(())
}

fn mark(name: &str, attr: &Attribute) -> syn::Result<Mark> {
    Ok(match name {
        "extra" => {
            attr.meta.require_path_only()?;
            Mark::Extra
        }
        "origin" => {
            attr.meta.require_path_only()?;
            Mark::Origin
        }
        "carry" | "carry_or_ask" => {
            let mut carry = match &attr.meta {
                Meta::Path(_) => Carry::default(),
                _ => attr.parse_args()?,
            };
            carry.ask = name == "carry_or_ask";
            if let (true, Some(start)) = (carry.ask, &carry.start) {
                let message = "what is asked for has no first value: write `#[carry(start = ..)]`, or leave `start` out";
                return Err(syn::Error::new_spanned(start, message));
            }
            Mark::Carry(carry)
        }
        "live" => {
            let Live { start, setters } = match &attr.meta {
                Meta::Path(_) => Live::default(),
                _ => attr.parse_args()?,
            };
            Mark::Live { start, setters }
        }
        _ => Mark::Fixed(attr.parse_args()?),
    })
}

impl Parse for Carry {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut carry = Self::default();
        if input.peek(Ident::peek_any) && !input.peek2(Token![=]) {
            carry.from = Some(attribute::plain(Ident::parse_any(input)?));
            input.parse::<Option<Token![,]>>()?;
        }
        while !input.is_empty() {
            let word: Ident = input.parse()?;
            let value = match word.to_string().as_str() {
                "start" => &mut carry.start,
                "next" => &mut carry.next,
                _ => {
                    let message = "a carried field takes the name of the field before, a first value and what becomes of it: \
                                   `#[carry(attempt, start = 1, next = |attempt| attempt + 1)]`";
                    return Err(syn::Error::new(word.span(), message));
                }
            };
            input.parse::<Token![=]>()?;
            *value = Some(input.parse()?);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(carry)
    }
}

/// `start = expression`, `add` and `record`, each of them optional.
#[derive(Default)]
struct Live {
    start: Option<Expr>,
    setters: Setters,
}

impl Parse for Live {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut live = Self::default();
        while !input.is_empty() {
            let word: Ident = input.parse()?;
            if word == "start" {
                input.parse::<Token![=]>()?;
                live.start = Some(input.parse()?);
            } else if word == "add" {
                live.setters.add = true;
            } else if word == "record" {
                live.setters.record = true;
            } else {
                let message = "a live field takes a first value, an adder and events of its changes: `#[live(start = value, add, record)]`";
                return Err(syn::Error::new(word.span(), message));
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(live)
    }
}
