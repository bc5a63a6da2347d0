//! Reads one field of a state with its mark: the attribute that names the source of the field's value.

use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Expr, Ident, Meta, Token, Visibility};

use crate::ast::{Again, Carry, FieldSyntax, Live, Mark, Next, Serde};
use crate::error::{Errors, did_you_mean};

use super::attribute::AttributeTarget;
use super::{attribute, paths, serde};

/// Reads one named field; returns `None` for a field without a name, which is reported elsewhere.
pub(super) fn parse(field: syn::Field, errors: &mut Errors) -> Option<FieldSyntax> {
    if !matches!(field.vis, Visibility::Inherited) {
        errors.at(&field.vis, "fields of a state are always public: leave out `pub`");
    }
    let mut parsed = FieldSyntax {
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

/// Rewrites the paths in types and expressions so that they mean in the generated module what they mean next to the enum.
fn move_paths(field: &mut FieldSyntax) {
    paths::of_type(&mut field.ty);
    field.schema.as_mut().into_iter().for_each(paths::of_type);
    field.sample.as_mut().into_iter().for_each(paths::of_expr);
    match &mut field.mark {
        Mark::Live(Live { start, carry, .. }) => {
            start.iter_mut().for_each(paths::of_expr);
            carry
                .iter_mut()
                .flat_map(Carry::expressions)
                .for_each(paths::of_expr);
        }
        Mark::Carry(carry) => carry.expressions().for_each(paths::of_expr),
        Mark::Fixed(value) => paths::of_expr(value),
        Mark::None | Mark::Extra | Mark::Origin => {}
    }
}

fn field_attribute(field: &mut FieldSyntax, attr: Attribute, errors: &mut Errors) -> syn::Result<()> {
    let name = attr.path().get_ident().map(Ident::to_string).unwrap_or_default();
    match name.as_str() {
        "serde" => serde::field(&attr, &mut field.serde)?,
        "sample" | "schema" if attribute::is_of_a_derive(&attr) => field.attrs.push(attr),
        "sample" => field.sample = Some(attr.parse_args()?),
        "schema" => field.schema = Some(attr.parse_args()?),
        "cfg" | "cfg_attr" => attribute::refuse_cfg(&attr, errors),
        "extra" | "carry" | "carry_or_ask" | "origin" | "live" | "fixed" => {
            let mark = mark(&name, &attr)?;
            field.mark = match (std::mem::replace(&mut field.mark, Mark::None), mark) {
                (Mark::None, mark) => mark,
                (Mark::Live(live), Mark::Carry(carry)) | (Mark::Carry(carry), Mark::Live(live)) => {
                    Mark::Live(join_marks(live, carry, &attr)?)
                }
                (_, mark) => {
                    errors.at(&attr, "a field has one mark: its value comes from one place");
                    mark
                }
            };
        }
        _ => {
            if attribute::refuse_misspelt(&attr, AttributeTarget::Field, errors)?.is_none() {
                field.attrs.push(attr);
            }
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
            carry.or_ask = name == "carry_or_ask";
            if let (true, Some(start)) = (carry.or_ask, &carry.start) {
                let message = "what is asked for has no first value: write `#[carry(start = ..)]`, or leave `start` out";
                return Err(syn::Error::new_spanned(start, message));
            }
            Mark::Carry(carry)
        }
        "live" => Mark::Live(match &attr.meta {
            Meta::Path(_) => Live::default(),
            _ => attr.parse_args()?,
        }),
        // `fixed`
        _ => match &attr.meta {
            Meta::List(list) if !list.tokens.is_empty() => Mark::Fixed(attr.parse_args()?),
            _ => {
                let message = "a fixed field takes the value that it always has: `#[fixed(3)]`";
                return Err(syn::Error::new_spanned(attr, message));
            }
        },
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
            let key = word.to_string();
            if !matches!(key.as_str(), "start" | "next" | "try_next") {
                let known = ["start", "next", "try_next"].map(str::to_owned);
                let message = format!(
                    "a carried field takes the name of the field before, a first value and what becomes of it: \
                     `#[carry(attempt, start = 1, next = |attempt| attempt + 1)]`{}",
                    did_you_mean(&key, &known)
                );
                return Err(syn::Error::new(word.span(), message));
            }
            input.parse::<Token![=]>()?;
            let value: Expr = input.parse()?;
            match key.as_str() {
                "start" => carry.start = Some(value),
                _ => carry.next = Some(next_function(value, key == "try_next")?),
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(carry)
    }
}

impl Carry {
    fn expressions(&mut self) -> impl Iterator<Item = &mut Expr> {
        let next = self.next.iter_mut().map(|next| &mut next.function);
        self.start.iter_mut().chain(next)
    }
}

/// Returns the function of `next` or `try_next`; an expression that is plainly a value is refused.
fn next_function(function: Expr, may_fail: bool) -> syn::Result<Next> {
    if !matches!(function, Expr::Lit(_) | Expr::Binary(_) | Expr::Unary(_)) {
        return Ok(Next { function, may_fail });
    }
    let message =
        "the next value is computed from the one before, by a function: `next = |attempt| attempt + 1`";
    Err(syn::Error::new_spanned(function, message))
}

/// Joins the two marks of a field whose value comes from the state that is left (`carry`) and changes in place later (`live`).
fn join_marks(mut live: Live, mut carry: Carry, attr: &Attribute) -> syn::Result<Live> {
    if live.carry.is_some() || live.again != Again::Unsaid {
        let message = "`#[carry]` says already where the value comes from";
        return Err(syn::Error::new_spanned(attr, message));
    }
    match (live.start.take(), &carry.start) {
        (Some(start), None) if !carry.or_ask => carry.start = Some(start),
        (Some(start), _) => {
            let message =
                "the first value is given once: in `#[carry(start = ..)]` or in `#[live(start = ..)]`";
            return Err(syn::Error::new_spanned(start, message));
        }
        (None, _) => {}
    }
    live.carry = Some(carry);
    Ok(live)
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
            } else if word == "keeps" {
                live.again = Again::Keeps;
            } else if word == "restarts" {
                live.again = Again::Restarts;
            } else {
                let known = ["start", "add", "record", "keeps", "restarts"].map(str::to_owned);
                let message = format!(
                    "a live field takes a first value, an adder, events of its changes, and what happens where the state before has it: \
                     `#[live(start = value, add, record, keeps)]`{}",
                    did_you_mean(&word.to_string(), &known)
                );
                return Err(syn::Error::new(word.span(), message));
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(live)
    }
}
