//! Declarations that are right.

/// The codon, as core declares it.
pub(super) const CODON: &str = include_str!("../../../hankweave-core/src/codon/machine.rs");

/// The task, as the crate of tasks declares it.
pub(super) const TASK: &str = include_str!("../../../hankweave-runtime/tasks/model/src/task/machine.rs");

/// The lock, as the crate of tasks declares it.
pub(super) const LOCK: &str = include_str!("../../../hankweave-runtime/tasks/model/src/lock/machine.rs");

/// As much of it as compiles with nothing but numbers and texts around it.
pub(super) const WHOLE: &str = r#"
#[machine(Thing, schema)]
#[derive(Eq)]
#[cfg(all())]
#[serde(tag = "is", rename_all = "camelCase", rename_all_fields = "kebab-case")]
pub(in crate::things) enum StoredThing {
    #[shared]
    Base { id: u8, #[extra] extra: Extra },
    #[initial("make it")]
    #[again]
    #[to(turn("around") => New, r#use => Used, lose => Lost)]
    New { #[carry] turns: u32, #[sample(7)] #[schema(u8)] r#type: u16 },
    /// It works.
    #[serde(rename = "worn", alias = "old")]
    #[to(lose => Lost, rest => Resting)]
    #[keeps(turns)]
    Used {
        #[live(start = 0, add)] uses: u64,
        #[live(add)] r#as: super::Amount,
        #[serde(with = "self::text", default)] label: String,
    },
    #[to(lose => Lost)]
    #[same_as(Used)]
    Resting,
    #[terminal]
    #[tolerates(r#as)]
    Lost { #[origin] last_seen: ThingPhase, #[fixed(true)] gone: bool, #[carry(uses)] total: u64 },
}
"#;

/// Everything that can be written, on little space.
pub(super) const EVERYTHING: &str = r#"
#[machine(Thing, tests, schema)]
#[derive(Eq)]
#[cfg(all())]
#[serde(tag = "is", rename_all = "camelCase", rename_all_fields = "kebab-case")]
pub(in crate::things) enum StoredThing {
    #[shared]
    Base { id: u8, #[extra] extra: Extra },
    #[initial("make it")]
    #[again]
    #[to(turn("around") => New, r#use => Used, lose => Lost)]
    New { #[carry] turns: u32, #[sample(7)] #[schema(u8)] r#type: Kind },
    /// It works.
    #[serde(rename = "worn", alias = "old")]
    #[to(lose => Lost, rest => Resting)]
    #[keeps(turns)]
    Used {
        #[live(start = 0, add)] uses: u64,
        #[live] r#as: Option<super::Owner>,
        #[serde(with = "self::text", default)] label: String,
    },
    #[to(lose => Lost)]
    #[same_as(Used)]
    Resting,
    #[terminal]
    #[tolerates(r#as)]
    Lost { #[origin] last_seen: ThingPhase, #[fixed(true)] gone: bool, #[carry(uses)] total: u64 },
}
"#;
