//! Demands of a step. A step has one event and one struct, so its demands are equal for all targets.

use proc_macro2::Ident;
use quote::ToTokens;

use crate::error::Errors;
use crate::expand::list;
use crate::model::{FieldDef, MachineDef, Method};

/// Reports steps that demand one thing on the way to one state and another on the way to another; edges to the second are left out.
pub(super) fn check(machine: &mut MachineDef, errors: &mut Errors) {
    for index in 0..machine.methods.len() {
        let method = &machine.methods[index];
        let targets = method.targets();
        let Some((first, others)) = targets.split_first() else {
            continue;
        };
        let demands = |target| fields(machine.demanded(method, target));
        let (expected, differs) = (demands(*first), |target: &usize| {
            demands(*target) != demands(*first)
        });
        let odd: Vec<usize> = others.iter().copied().filter(differs).collect();
        let Some(other) = odd.first() else {
            continue;
        };
        let ways = [(*first, expected), (*other, demands(*other))];
        let mut exits = machine.states.iter().flat_map(|state| &state.exits);
        let odd_exit = exits.find(|exit| exit.method == index && exit.target == *other);
        let word = odd_exit.map_or(&method.ident, |exit| &exit.word);
        errors.at(word, message(method, ways, machine));
        machine.methods[index]
            .edges
            .retain(|(_, target)| !odd.contains(target));
        for state in &mut machine.states {
            state
                .exits
                .retain(|exit| exit.method != index || !odd.contains(&exit.target));
        }
    }
}

/// The parts of a field that concern a caller and an event.
#[derive(PartialEq, PartialOrd, Eq, Ord)]
struct Demand {
    name: Ident,
    /// Its type and its stored form, as written.
    form: Vec<String>,
}

fn fields<'a>(fields: impl Iterator<Item = &'a FieldDef>) -> Vec<Demand> {
    let mut demands: Vec<Demand> = fields.map(demand).collect();
    demands.sort();
    demands
}

fn demand(field: &FieldDef) -> Demand {
    let serde = field.serde.iter().map(ToString::to_string);
    let form = std::iter::once(field.ty.to_token_stream().to_string()).chain(serde);
    Demand {
        name: field.ident.clone(),
        form: form.collect(),
    }
}

fn message(method: &Method, ways: [(usize, Vec<Demand>); 2], machine: &MachineDef) -> String {
    let [(first, left), (second, right)] = ways;
    let (name, [first, second]) = (
        &method.ident,
        [first, second].map(|state| &machine.states[state].ident),
    );
    let names = |demands: &[Demand]| match demands {
        [] => "nothing".to_owned(),
        _ => list(demands.iter().map(|demand| format!("`{}`", demand.name))),
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
    let loops = method.edges.iter().all(|(source, target)| source == target);
    let or = match loops {
        true => format!("name what it changes, `{name} {{ .. }} => Self`, so that all else stays"),
        false => "give one of the two another name".to_owned(),
    };
    format!(
        "`{name}` asks for {} on the way to `{first}`, and for {} on the way to `{second}`; a step asks for the same wherever it leads: {or}",
        names(&left),
        names(&right)
    )
}
