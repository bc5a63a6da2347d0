//! A machine is right with any names that its author gives.

#![allow(unreachable_pub, reason = "an author elsewhere would write it so")]

/// A step called like its target.
mod step_and_state {
    use hankweave_machine::machine;

    #[machine(Chore, tests)]
    pub enum ChoreRecord {
        #[initial]
        #[to(done => Done)]
        Todo,
        #[terminal]
        Done { by: String },
    }

    #[test]
    fn a_step_may_be_called_like_its_target() {
        let done = Chore::new().done(chore::steps::Done { by: "ann".into() });
        assert_eq!(done.by, "ann");
        let data: chore::Done = chore::Done { by: "ann".into() };
        assert_eq!(ChoreRecord::from(data), done.into_record());
        let event = ChoreTransition::Done(chore::steps::Done { by: "ann".into() });
        assert_eq!(event.method(), "done");
    }
}

/// Fields of types that are called like parts of the machine.
mod field_types {
    use hankweave_machine::{Sample, machine};
    use serde::{Deserialize, Serialize};

    macro_rules! types {
        ($($name:ident),*) => {
            $(
                #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
                pub struct $name(u8);

                impl Sample for $name {
                    fn sample(n: u32) -> Self {
                        Self(u8::sample(n))
                    }
                }
            )*
        };
    }

    types!(Edge, Step, Transition, Active, Refused, Moving, Go);

    pub mod steps {
        pub type Count = u32;
    }

    #[machine(Walk, tests)]
    pub enum WalkRecord {
        #[shared]
        Base { edge: Edge, active: Option<Active> },
        #[initial]
        #[to(go => Moving, stop => Over)]
        Standing {
            #[live(start = Step::default())]
            step: Step,
        },
        #[to(stop => Over)]
        Moving {
            transition: Transition,
            moving: Moving,
            go: Vec<Go>,
            count: steps::Count,
        },
        #[terminal]
        Over {
            refused: Refused,
            pair: (Edge, Box<dyn_free::Edge>),
        },
    }

    mod dyn_free {
        pub type Edge = u16;
    }

    #[test]
    fn a_field_has_the_type_that_stands_beside_the_machine() {
        let walk = Walk::new(Edge(1), None).go(walk::steps::Go {
            transition: Transition(1),
            moving: Moving(2),
            go: vec![Go(3)],
            count: 4,
        });
        assert_eq!(walk.go, [Go(3)]);
        assert_eq!(walk.moving, Moving(2));
    }
}

/// States and steps that the prelude and the generated tests have names for.
mod known_names {
    use hankweave_machine::machine;

    #[machine(Answer, tests)]
    #[serde(rename_all = "lowercase")]
    pub enum AnswerRecord {
        #[initial]
        #[to(none => None, ok => Ok, err => Err, moves => Moves)]
        Asked {
            #[live(start = None)]
            hint: Option<u8>,
        },
        #[to(leads => Leads, some => Some)]
        Moves,
        #[to(error => Error)]
        Leads { send: Box<u8> },
        #[to(send => Otherwise)]
        Error,
        #[terminal]
        Otherwise,
        #[terminal]
        Some,
        #[terminal]
        None,
        #[terminal]
        Ok { text: String },
        #[terminal]
        Err,
    }

    #[test]
    fn states_and_steps_may_be_called_like_what_everybody_knows() {
        assert_eq!(Answer::new().err().status().to_string(), "err");
        assert_eq!("none".parse(), Ok(AnswerStatus::None));
        assert_eq!(Answer::new().hint, None);
        let step: answer::steps::None = answer::steps::None;
        assert_eq!(Answer::new().step(step).event().method(), "none");
    }
}

/// Acronyms and letters that are not ASCII.
mod letters {
    use hankweave_machine::machine;

    #[machine(HTTPConn, tests)]
    pub enum HTTPConnRecord {
        #[initial]
        #[to(close => Closed)]
        Open,
        #[terminal]
        Closed,
    }

    #[machine(Tür, tests)]
    #[serde(rename_all = "snake_case", rename_all_fields = "camelCase")]
    pub enum TürRecord {
        #[initial]
        #[to(öffne => Geöffnet)]
        Geschlossen,
        #[terminal]
        Geöffnet { größe_in_metern: u8 },
    }

    #[test]
    fn acronyms_stay_together_and_letters_may_be_any() {
        let closed: HTTPConn<http_conn::Closed> = HTTPConn::new().close();
        assert_eq!(HTTP_CONN.name, "HTTPConn");
        assert!(closed.status().is_terminal());
        let open = Tür::new().öffne(tür::Öffne { größe_in_metern: 2 });
        let stored = serde_json::to_string(&open.into_record()).unwrap();
        assert_eq!(stored, r#"{"status":"geöffnet","größeInMetern":2}"#);
        assert_eq!(TÜR.states[1].fields[0].stored_name, "größeInMetern");
    }
}

/// A state that should not be used any more.
mod deprecated {
    #![deny(deprecated, reason = "generated code must not use what it marks")]

    use hankweave_machine::machine;

    #[machine(Ticket, tests)]
    pub enum TicketRecord {
        #[initial]
        #[to(park => Parked, close => Closed)]
        Open,
        #[deprecated = "close it"]
        #[to(close => Closed)]
        Parked,
        #[terminal]
        Closed,
    }
}

/// The companion crate under another name, and exported by another crate.
mod companion {
    mod prelude {
        pub use hankweave_machine as states;
    }

    mod near {
        use super::prelude;

        #[prelude::states::machine(Lamp, tests, crate = self::prelude::states)]
        pub enum LampRecord {
            #[initial]
            #[to(light => Lit)]
            Dark,
            #[terminal]
            Lit,
        }
    }

    #[test]
    fn generated_code_finds_its_companion_where_it_is_told() {
        assert!(near::Lamp::new().light().status().is_terminal());
    }
}

/// Sixteen pages that lead to and fro: more walks than a test can cover.
mod many_loops {
    use hankweave_machine::machine;

    macro_rules! wizard {
        ($($page:ident $next:ident $to:ident $back:ident $before:ident),*; $first:ident, $last:ident) => {
            #[machine(Wizard, tests)]
            pub enum WizardRecord {
                #[initial]
                #[to(to2 => Place2, cancel => Cancelled)]
                Place1,
                $(
                    #[to($next => $to, $back => $before, restart => Place1, cancel => Cancelled)]
                    $page,
                )*
                #[terminal]
                Finished,
                #[terminal]
                Cancelled,
            }
        };
    }

    wizard!(
        Place2 to3 Place3 restart2 Place1,
        Place3 to4 Place4 back2 Place2,
        Place4 to5 Place5 back3 Place3,
        Place5 to6 Place6 back4 Place4,
        Place6 to7 Place7 back5 Place5,
        Place7 to8 Place8 back6 Place6,
        Place8 to9 Place9 back7 Place7,
        Place9 to10 Place10 back8 Place8,
        Place10 to11 Place11 back9 Place9,
        Place11 to12 Place12 back10 Place10,
        Place12 to13 Place13 back11 Place11,
        Place13 to14 Place14 back12 Place12,
        Place14 to15 Place15 back13 Place13,
        Place15 to16 Place16 back14 Place14,
        Place16 finish Finished back15 Place15;
        Place1, Place16
    );
}

/// An attribute `test` of another crate, as `use tokio::test` imports it.
mod attributes {
    #[allow(unused_imports, reason = "it must not be taken for the one of Rust")]
    use core::prelude::v1::derive as test;

    use hankweave_machine::machine;

    #[machine(Bell, tests)]
    pub enum BellRecord {
        #[initial]
        #[to(ring => Rung)]
        Silent,
        #[terminal]
        Rung,
    }
}

/// Names of the prelude that mean something else next to the machine, and a trait that every type has.
mod shadowed {
    #![allow(dead_code, reason = "what hides others is not used")]

    use hankweave_machine::machine;

    pub struct Some;
    pub struct None;
    pub struct Ok;
    pub struct Err;
    pub struct Option;
    pub struct Result;
    pub struct String;
    pub struct Vec;
    pub struct Box;

    /// Has methods with the names of well-known other methods.
    pub trait Everywhere: Sized {
        fn into(self) {}
        fn clone(&self) {}
        fn status(&self) {}
        fn validate(&self) {}
        fn advance(self) {}
        fn serialize(&self) {}
    }

    impl<T> Everywhere for T {}

    #[machine(Lock, tests)]
    pub enum LockRecord {
        #[shared]
        Base { id: u32 },
        #[initial]
        #[to(try_code => Self, open => Open)]
        Shut {
            #[carry(start = 1, next = |tries| tries + 1)]
            tries: u32,
            #[fixed(3)]
            most: u8,
        },
        #[terminal]
        Open {
            #[origin]
            from: LockPhase,
            by: ::std::option::Option<u32>,
        },
    }
}

/// `Self` in a field is the enum that contains the field.
mod itself {
    use hankweave_machine::machine;

    #[machine(Draft)]
    pub enum DraftRecord {
        #[initial]
        #[to(revise => Revised)]
        First,
        #[terminal]
        Revised { before: Option<Box<Self>>, pages: u8 },
    }

    #[machine(Node, types)]
    pub enum AnyNode<T> {
        #[initial]
        #[to(close => Closed)]
        Open { value: T },
        #[terminal]
        Closed { below: Vec<Self> },
    }

    #[test]
    fn a_field_may_hold_the_enum() {
        let first = Draft::new();
        let revised = first.revise(draft::Revise {
            before: Some(Box::new(Draft::new().into_record())),
            pages: 2,
        });
        let stored = serde_json::to_string(&revised.into_record()).unwrap();
        assert_eq!(
            stored,
            r#"{"status":"Revised","before":{"status":"First"},"pages":2}"#
        );
        let leaf = AnyNode::from(Node::new("leaf"));
        let closed = Node::new("root").close(node::Close { below: vec![leaf] });
        assert_eq!(closed.below[0].status(), NodeStatus::Open);
    }
}

/// Visibility, raw names, documentation, attributes, a macro that writes the declaration, and a function that holds it.
mod places {
    use hankweave_machine::machine;

    #[cfg(test)]
    #[machine(Raw, tests)]
    #[cfg_attr(test, derive(Eq, Hash))]
    #[doc(alias = "uncooked")]
    #[must_use]
    #[non_exhaustive]
    pub(in crate::places) enum RawRecord {
        #[initial]
        #[to(r#type => End)]
        r#Start {
            r#match: u8,
            #[doc(hidden)]
            r#fn: Option<u8>,
        },
        #[terminal]
        End {
            #[carry]
            r#match: u8,
        },
    }

    macro_rules! switch {
        ($(#[$meta:meta])* $vis:vis $name:ident $record:ident { $off:ident, $step:ident, $on:ident } $field:ident: $ty:ty = $start:expr) => {
            $(#[$meta])*
            #[machine($name, tests)]
            $vis enum $record {
                #[initial]
                #[to($step => $on)]
                $off {
                    #[live(start = $start)]
                    $field: $ty,
                },
                #[terminal]
                #[keeps($field)]
                $on,
            }
        };
    }

    switch!(/** Written by a macro. */ pub(super) Lever LeverRecord { Up, pull, Down } force: Option<u32> = Some(1 + 2));

    #[test]
    fn a_machine_stands_wherever_an_enum_may() {
        #[machine(Inner)]
        enum InnerRecord {
            #[initial]
            #[to(go => There)]
            Here,
            #[terminal]
            There { how: u8 },
        }
        assert_eq!(Inner::new().go(inner::Go { how: 1 }).how, 1);
        assert_eq!(Lever::new().pull().force, Some(3));
        assert_eq!(Raw::new(1, None).r#type().r#match, 1);
    }
}

/// A keyword is a step, and not from every state.
mod keyword {
    use hankweave_machine::machine;

    #[machine(Escaped, tests)]
    pub enum EscapedRecord {
        #[initial]
        #[to(r#type => Half)]
        Start,
        #[to(r#move => End)]
        Half,
        #[terminal]
        End,
    }

    /// A method of the user with the name of a step is the user's, whatever names the messages of the machine have.
    impl EscapedRecord {
        fn r#move(self) -> u8 {
            1
        }
    }

    impl escaped::Start {
        fn r#type(&self) -> u8 {
            2
        }
    }

    #[test]
    fn methods_of_the_user_are_found_first() {
        let start = Escaped::new();
        assert_eq!((start.record().r#move(), start.into_data().r#type()), (1, 2));
    }
}

/// Modules that are called like the compiler's own words, and like parts of the machine.
#[allow(unused_qualifications, reason = "the names are what is tested")]
mod words_of_the_language {
    use hankweave_machine::machine;

    pub mod diagnostic {
        pub type Level = u8;
    }

    macro_rules! modules {
        ($($name:ident),*) => {
            $(
                pub mod $name {
                    pub type Courage = u8;
                }
            )*
        };
    }

    modules!(guarded, illegal, never, sealed, steps, tests, traits);

    #[machine(Knight, tests)]
    pub enum KnightRecord {
        #[initial]
        #[to(fight => Fallen)]
        Riding {
            #[live(add, record)]
            courage: traits::Courage,
            #[live]
            past: [(guarded::Courage, illegal::Courage); 2],
            more: Vec<(sealed::Courage, steps::Courage)>,
            last: Vec<(tests::Courage, never::Courage)>,
        },
        #[terminal]
        Fallen { level: diagnostic::Level },
    }

    #[test]
    fn they_mean_what_they_mean_beside_the_machine() {
        let mut riding = Knight::new(1, [(0, 0); 2], Vec::new(), Vec::new());
        assert_eq!(riding.add_courage(2), KnightTransition::AddCourage(2));
        assert_eq!(riding.fight(knight::Fight { level: 7 }).level, 7);
    }
}
