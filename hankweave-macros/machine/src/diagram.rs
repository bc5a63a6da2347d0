//! The graph of a machine in three drawing languages.

use core::fmt::{self, Write};

use alloc::string::String;

use crate::{Edge, Machine, State};

impl Machine {
    /// Draws the machine as a Mermaid state diagram, without fence.
    pub fn to_mermaid(&self) -> String {
        text(|out| {
            writeln!(out, "stateDiagram-v2")?;
            self.arrows(out, "    ")
        })
    }

    /// Draws the machine as a PlantUML state diagram.
    pub fn to_plantuml(&self) -> String {
        text(|out| {
            writeln!(out, "@startuml")?;
            self.arrows(out, "")?;
            writeln!(out, "@enduml")
        })
    }

    /// Draws the machine in Graphviz's language.
    pub fn to_dot(&self) -> String {
        text(|out| {
            writeln!(out, "digraph {} {{", self.name)?;
            for State { name, terminal, .. } in self.states {
                let shape = if *terminal { "doublecircle" } else { "box" };
                writeln!(out, "    {name} [shape={shape}];")?;
            }
            for Edge { from, to, label, .. } in self.edges {
                writeln!(out, "    {from} -> {to} [label={label:?}];")?;
            }
            writeln!(out, "}}")
        })
    }

    /// Mermaid and PlantUML agree on the lines between their head and foot.
    fn arrows(&self, out: &mut String, indent: &str) -> fmt::Result {
        for state in self.states.iter().filter(|state| state.initial) {
            let colon = if self.start_label.is_empty() { "" } else { " : " };
            writeln!(out, "{indent}[*] --> {}{colon}{}", state.name, self.start_label)?;
        }
        for Edge { from, to, label, .. } in self.edges {
            writeln!(out, "{indent}{from} --> {to} : {label}")?;
        }
        for state in self.states.iter().filter(|state| state.terminal) {
            writeln!(out, "{indent}{} --> [*]", state.name)?;
        }
        Ok(())
    }
}

fn text(write: impl FnOnce(&mut String) -> fmt::Result) -> String {
    let mut out = String::new();
    write(&mut out).expect("writing to a string does not fail");
    out
}
