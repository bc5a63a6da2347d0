//! Demands of a step: the fields that its caller supplies. A step has one struct for them and one event, so they must be equal for all its targets.

use proc_macro2::Ident;
use quote::ToTokens;

use crate::error::Errors;
use crate::expand::list;
use crate::model::{FieldDef, MachineDef, Method};

/// Reports each step whose caller would supply other fields for one target than for the first. Edges to such targets are left out.
pub(super) fn check(machine: &mut MachineDef, errors: &mut Errors) {
    for index in 0..machine.methods.len() {
        let method = &machine.methods[index];
        let targets = method.targets();
        let Some((&first, others)) = targets.split_first() else {
            continue;
        };
        let supplied = |target| supplied_fields(machine.supplied_fields_for(method, target));
        let of_first = supplied(first);
        let odd_targets: Vec<usize> = others
            .iter()
            .copied()
            .filter(|target| supplied(*target) != of_first)
            .collect();
        let Some(&odd) = odd_targets.first() else {
            continue;
        };
        let compared = [(first, of_first), (odd, supplied(odd))];
        let mut exits = machine.states.iter().flat_map(|state| &state.exits);
        let odd_exit = exits.find(|exit| exit.method == index && exit.target == odd);
        let word = odd_exit.map_or(&method.ident, |exit| &exit.word);
        errors.at(word, message(method, compared, machine));
        machine.methods[index]
            .edges
            .retain(|(_, target)| !odd_targets.contains(target));
        for state in &mut machine.states {
            state
                .exits
                .retain(|exit| exit.method != index || !odd_targets.contains(&exit.target));
        }
    }
}

/// The parts of a field that concern a caller and an event.
#[derive(PartialEq, PartialOrd, Eq, Ord)]
struct SuppliedField {
    name: Ident,
    /// The type of the field, then its serde attributes, as written.
    form: Vec<String>,
}

/// Returns the fields sorted by name, so that two lists can be compared.
fn supplied_fields<'a>(fields: impl Iterator<Item = &'a FieldDef>) -> Vec<SuppliedField> {
    let mut supplied: Vec<SuppliedField> = fields.map(supplied_field).collect();
    supplied.sort();
    supplied
}

fn supplied_field(field: &FieldDef) -> SuppliedField {
    let serde = field.serde.iter().map(ToString::to_string);
    let form = std::iter::once(field.ty.to_token_stream().to_string()).chain(serde);
    SuppliedField {
        name: field.ident.clone(),
        form: form.collect(),
    }
}

/// Returns the message for two targets, each with its supplied fields, which differ.
fn message(method: &Method, compared: [(usize, Vec<SuppliedField>); 2], machine: &MachineDef) -> String {
    let [(first, left), (second, right)] = compared;
    let (name, [first, second]) = (
        &method.ident,
        [first, second].map(|state| &machine.states[state].ident),
    );
    let names = |fields: &[SuppliedField]| match fields {
        [] => "nothing".to_owned(),
        _ => list(fields.iter().map(|field| format!("`{}`", field.name))),
    };
    let pairs = left.iter().zip(&right);
    let same_names = left.len() == right.len() && pairs.clone().all(|(left, right)| left.name == right.name);
    if let (true, Some((odd, _))) = (same_names, pairs.clone().find(|(left, right)| left != right)) {
        return format!(
            "`{name}` leads to `{first}` and to `{second}` and asks for `{}`, which has not one type and one stored form in both: declare it alike, or \
             give one of the two steps another name",
            odd.name
        );
    }
    let all_lead_back = method.edges.iter().all(|(source, target)| source == target);
    let advice = match all_lead_back {
        true => format!("name what it changes, `{name} {{ .. }} => Self`, so that all else stays"),
        false => "give one of the two another name".to_owned(),
    };
    format!(
        "`{name}` asks for {} on the way to `{first}`, and for {} on the way to `{second}`; a step asks for the same wherever it leads: {advice}",
        names(&left),
        names(&right)
    )
}
