//! The diagram of a machine as text, which every reader of the documentation sees drawn: a row for each state, a column for each step.

use crate::case::text;
use crate::model::{MachineDef, Method, StateDef};

/// The widest text that needs no scrolling; what is wider continues below.
const WIDTH: usize = 110;

/// Returns the diagram, fenced, with a line that explains it.
pub(super) fn drawing(machine: &MachineDef) -> String {
    let states: Vec<String> = machine
        .states
        .iter()
        .enumerate()
        .map(|(index, state)| name(index, state, machine))
        .collect();
    let widest = states.iter().map(|state| width(state)).max().unwrap_or_default();
    let lanes: Vec<Lane> = machine
        .methods
        .iter()
        .flat_map(|method| Lane::of(method, states.len()))
        .collect();
    let blocks: Vec<String> = blocks(&lanes, WIDTH.saturating_sub(widest))
        .into_iter()
        .map(|lanes| block(lanes, &states, widest))
        .collect();
    let blocks = blocks.join("\n");
    let back = if blocks.contains('@') {
        ", or back to itself at an `@`"
    } else {
        ""
    };
    format!(
        "A column is a step: it leaves the states with an `o` and leads to the one with the arrow{back}.\n\n```text\n{blocks}```"
    )
}

/// A state, with the ways in and out of the machine.
fn name(index: usize, state: &StateDef, machine: &MachineDef) -> String {
    let way_in = if index == machine.initial { "[*] ->" } else { "" };
    let way_out = if state.terminal { " -> [*]" } else { "" };
    format!("{way_in:6} {}{way_out}", state.ident)
}

/// One step: its name, and its character in the row of each state.
struct Lane {
    name: String,
    cells: Vec<char>,
}

impl Lane {
    /// One for each target; ways from a state back to itself, one or many, are one column.
    fn of(method: &Method, states: usize) -> Vec<Self> {
        let targets = method.targets();
        if method.edges.iter().all(|(source, target)| source == target) {
            return vec![Self::new(method, &targets, &[], states)];
        }
        let sources = |target: usize| method.sources_of(target).collect::<Vec<_>>();
        let lanes = targets.into_iter();
        lanes
            .map(|target| Self::new(method, &[target], &sources(target), states))
            .collect()
    }

    fn new(method: &Method, targets: &[usize], sources: &[usize], states: usize) -> Self {
        let ends = || targets.iter().chain(sources);
        let (first, last) = (ends().min(), ends().max());
        let cell = |state: usize| match state {
            _ if targets.contains(&state) => arrow(state, sources),
            _ if sources.contains(&state) => 'o',
            _ if !sources.is_empty() && first <= Some(&state) && Some(&state) <= last => '|',
            _ => ' ',
        };
        Self {
            name: text(&method.ident),
            cells: (0..states).map(cell).collect(),
        }
    }

    /// How wide the column is, with the space before it.
    fn width(&self) -> usize {
        width(&self.name) + 2
    }
}

/// Returns the arrow of a step into a state; one without sources comes from there.
fn arrow(target: usize, sources: &[usize]) -> char {
    let comes_from =
        |is_there: fn(&usize, &usize) -> bool| sources.iter().any(|source| is_there(source, &target));
    match (comes_from(usize::lt), comes_from(usize::gt)) {
        _ if sources.is_empty() || comes_from(usize::eq) => '@',
        (true, true) => '>',
        (false, true) => '^',
        _ => 'v',
    }
}

/// Cuts the columns into blocks that are not too wide.
fn blocks(lanes: &[Lane], widest: usize) -> Vec<&[Lane]> {
    let (mut blocks, mut rest) = (Vec::new(), lanes);
    while !rest.is_empty() {
        let mut used = 0;
        let fits = |lane: &&Lane| {
            used += lane.width();
            used <= widest
        };
        let (block, after) = rest.split_at(rest.iter().take_while(fits).count().max(1));
        blocks.push(block);
        rest = after;
    }
    blocks
}

fn block(lanes: &[Lane], states: &[String], widest: usize) -> String {
    let head = row(
        "",
        widest,
        lanes
            .iter()
            .map(|lane| format!("{:>1$}", lane.name, lane.width())),
    );
    let rows = states.iter().enumerate().map(|(index, state)| {
        // Padding counts letters, as the reader sees them.
        row(
            state,
            widest,
            lanes
                .iter()
                .map(move |lane| format!("  {:^1$}", lane.cells[index], lane.width() - 2)),
        )
    });
    [head].into_iter().chain(rows).collect()
}

fn row(state: &str, widest: usize, cells: impl Iterator<Item = String>) -> String {
    let line = format!("{state:widest$}{}", cells.collect::<String>());
    format!("{}\n", line.trim_end())
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use crate::error::Errors;
    use crate::{check, parse};

    use super::*;

    fn drawn(item: proc_macro2::TokenStream) -> String {
        let mut errors = Errors::default();
        let ast = parse::parse(quote!(Door), item, &mut errors).expect("it is a declaration");
        let machine = check::check(ast, &mut errors).expect("it is a machine");
        let drawing = drawing(&machine);
        let (_, text) = drawing.split_once("```text\n").expect("it is fenced");
        text.trim_end_matches("```").to_owned()
    }

    #[test]
    fn each_step_leads_from_its_states_to_its_target() {
        let door = quote! {
            enum DoorRecord {
                #[initial] #[to(open => Opened, lock => Locked)] Closed,
                #[again] #[to(close => Closed, push => Opened, remove => Removed)] Opened,
                #[to(unlock => Closed, remove => Removed)] Locked,
                #[terminal] Removed,
            }
        };
        let expected = "
                       open  lock  close  push  remove  unlock
[*] -> Closed           o     o      ^                    ^
       Opened           v     |      o     @      o       |
       Locked                 v                   o       o
       Removed -> [*]                             v
";
        assert_eq!(drawn(door), expected.trim_start_matches('\n'));
    }

    #[test]
    fn each_target_of_a_step_has_a_column_and_all_ways_back_have_one() {
        let light = quote! {
            enum LightRecord {
                #[group] #[to(check => Self)] On,
                #[initial] #[within(On)] #[to(next => Green)] Red,
                #[within(On)] #[to(next => Red, remove => Removed)] Green,
                #[terminal] Removed,
            }
        };
        let expected = "
                       next  next  check  remove
[*] -> Red              o     ^      @
       Green            v     o      @      o
       Removed -> [*]                       v
";
        assert_eq!(drawn(light), expected.trim_start_matches('\n'));
    }

    #[test]
    fn what_is_wide_goes_on_below_and_what_comes_from_both_sides_has_an_arrow_of_its_own() {
        let far = ["step"; 3].map(|word| quote::format_ident!("{}", word.repeat(9)));
        let [first, second, third] =
            std::array::from_fn(|index| quote::format_ident!("{}{index}", far[index]));
        let wide = quote! {
            enum WideRecord {
                #[initial] #[to(#first => B)] A,
                #[to(#second => C)] B,
                #[to(#third => D)] C,
                #[terminal] D,
            }
        };
        assert_eq!(drawn(wide).matches("[*] -> A").count(), 2);
        let middle = quote! {
            enum MiddleRecord {
                #[initial] #[to(settle => Middle, skip => Other)] First,
                #[terminal] Middle,
                #[to(settle => Middle)] Other,
            }
        };
        assert!(
            drawn(middle).contains("Middle -> [*]    >      |"),
            "the way is drawn"
        );
    }
}
