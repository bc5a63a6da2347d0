//! Draws the diagram of a machine as text for its documentation: a row for each state, a column for each step.

use crate::case::text;
use crate::model::{MachineDef, Method, StateDef};

/// Width in characters that needs no scrolling; columns beyond it are drawn in another block below.
const WIDTH: usize = 110;

/// Returns the diagram as a fenced code block, after a line that explains it.
pub(super) fn drawing(machine: &MachineDef) -> String {
    let labels: Vec<String> = machine
        .states
        .iter()
        .enumerate()
        .map(|(index, state)| label(index, state, machine))
        .collect();
    let label_width = labels.iter().map(|label| width(label)).max().unwrap_or_default();
    let columns: Vec<Column> = machine
        .methods
        .iter()
        .flat_map(|method| Column::of(method, machine.states.len()))
        .collect();
    let blocks: Vec<String> = blocks(&columns, WIDTH.saturating_sub(label_width))
        .into_iter()
        .map(|columns| block(columns, &labels, label_width))
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

/// Returns the label of a row: the name of the state, with an arrow into the initial and out of each terminal state.
fn label(index: usize, state: &StateDef, machine: &MachineDef) -> String {
    let way_in = if index == machine.initial { "[*] ->" } else { "" };
    let way_out = if state.terminal { " -> [*]" } else { "" };
    format!("{way_in:6} {}{way_out}", state.ident)
}

/// One step to one target.
struct Column {
    name: String,
    /// One character for the row of each state.
    cells: Vec<char>,
}

impl Column {
    /// Returns a column for each target of a step; if all its edges lead back to their own states, one column for all.
    fn of(method: &Method, states: usize) -> Vec<Self> {
        let targets = method.targets();
        if method.edges.iter().all(|(source, target)| source == target) {
            return vec![Self::new(method, &targets, &[], states)];
        }
        let sources = |target: usize| method.sources_of(target).collect::<Vec<_>>();
        let columns = targets.into_iter();
        columns
            .map(|target| Self::new(method, &[target], &sources(target), states))
            .collect()
    }

    /// Makes one column; `sources` is empty if each target is its own source.
    fn new(method: &Method, targets: &[usize], sources: &[usize], states: usize) -> Self {
        let ends = || targets.iter().chain(sources);
        let (first, last) = (ends().min(), ends().max());
        let cell = |state: usize| match state {
            _ if targets.contains(&state) => arrow(state, sources),
            _ if sources.contains(&state) => 'o',
            // A row between the ends of the column.
            _ if !sources.is_empty() && first <= Some(&state) && Some(&state) <= last => '|',
            _ => ' ',
        };
        Self {
            name: text(&method.ident),
            cells: (0..states).map(cell).collect(),
        }
    }

    /// The width of the column, with the two spaces in front of it.
    fn width(&self) -> usize {
        width(&self.name) + 2
    }
}

/// Returns the arrow of a step into a state; without `sources` the step comes from the state itself.
fn arrow(target: usize, sources: &[usize]) -> char {
    let from_itself = sources.is_empty() || sources.contains(&target);
    let from_above = sources.iter().any(|source| *source < target);
    let from_below = sources.iter().any(|source| *source > target);
    match (from_itself, from_above, from_below) {
        (true, _, _) => '@',
        (false, true, true) => '>',
        (false, false, true) => '^',
        (false, _, false) => 'v',
    }
}

/// Cuts the columns into blocks of at most `widest` characters, but at least one column each.
fn blocks(columns: &[Column], widest: usize) -> Vec<&[Column]> {
    let (mut blocks, mut rest) = (Vec::new(), columns);
    while !rest.is_empty() {
        let mut used = 0;
        let fits = |column: &&Column| {
            used += column.width();
            used <= widest
        };
        let (block, after) = rest.split_at(rest.iter().take_while(fits).count().max(1));
        blocks.push(block);
        rest = after;
    }
    blocks
}

fn block(columns: &[Column], labels: &[String], label_width: usize) -> String {
    let head = row(
        "",
        label_width,
        columns
            .iter()
            .map(|column| format!("{:>1$}", column.name, column.width())),
    );
    let rows = labels.iter().enumerate().map(|(index, label)| {
        // `format!` pads by characters, as `width` counts them.
        row(
            label,
            label_width,
            columns
                .iter()
                .map(move |column| format!("  {:^1$}", column.cells[index], column.width() - 2)),
        )
    });
    [head].into_iter().chain(rows).collect()
}

fn row(label: &str, label_width: usize, cells: impl Iterator<Item = String>) -> String {
    let line = format!("{label:label_width$}{}", cells.collect::<String>());
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
