//! Machines with type parameters, lifetimes and constants: types alone.

#![allow(unreachable_pub, reason = "an author elsewhere would write it so")]

use std::fmt::Debug;
use std::io::{Cursor, Read};

use hankweave_machine::machine;

/// Reads a message from anything that can be read.
#[machine(Reader, types)]
pub enum AnyReader<'a, R: Read, const N: usize>
where
    R: Debug,
{
    #[shared]
    Base { name: &'a str },
    #[initial]
    #[to(open => Opened, give_up => Closed)]
    Fresh,
    #[to(fetch => Filled | Closed, give_up => Closed)]
    Opened {
        #[live]
        source: R,
    },
    #[to(give_up => Closed)]
    #[keeps(source)]
    Filled { buffer: [u8; N] },
    #[terminal]
    Closed {
        #[origin]
        closed_during: ReaderPhase,
    },
}

use reader::{Fetch, FetchFilled, FetchTo, Filled, Fresh, Open, Opened};

/// Code over a machine's parameters and over one of its states.
fn fill<'a, R: Read + Debug, const N: usize>(mut opened: Reader<Opened<'a, R, N>>) -> FetchTo<'a, R, N> {
    let mut buffer = [0; N];
    let whole = opened.source_mut().read_exact(&mut buffer).is_ok();
    opened.fetch(match whole {
        true => Fetch::Filled(FetchFilled { buffer }),
        false => Fetch::Closed,
    })
}

fn go_on<'a, R: Read + Debug, const N: usize>(filled: Reader<Filled<'a, R, N>>) -> Reader<Opened<'a, R, N>> {
    let Filled { name, source, .. } = filled.into_data();
    Reader::new(name).open(Open { source })
}

#[test]
fn a_machine_reads_from_any_source() {
    let name = String::from("greeting");
    let fresh: Reader<Fresh<'_, Cursor<&[u8]>, 2>> = Reader::new(&name);
    let source = Cursor::new(&b"hello"[..]);
    let FetchTo::Filled(filled) = fill(fresh.open(Open { source })) else {
        panic!("there are two letters");
    };
    assert_eq!((&filled.buffer, filled.name), (b"he", "greeting"));
    let FetchTo::Filled(filled) = fill(go_on(filled)) else {
        panic!("there are two more");
    };
    let any = AnyReader::from(match fill(go_on(filled)) {
        FetchTo::Closed(closed) => closed,
        FetchTo::Filled(_) => panic!("one letter is not enough"),
    });
    assert_eq!(any.status(), ReaderStatus::Closed);
    let AnyReader::Closed(closed) = any else {
        panic!("it was closed");
    };
    let reader::Closed { closed_during, .. } = closed.into_data();
    assert_eq!(closed_during, ReaderPhase::Opened);
}

/// Parameters with defaults and bounds of all kinds, under names that the generated code uses as well.
#[machine(Pipe, types)]
#[derive(Debug, Clone)]
pub enum AnyPipe<
    'a,
    'de,
    S: ?Sized + 'a = str,
    E = Vec<u8>,
    To: Iterator = std::vec::IntoIter<u8>,
    const N: usize = 3,
> where
    'de: 'a,
    E: Default,
    To: Clone,
    To::Item: Clone + Debug,
{
    #[initial]
    #[to(fill => Full | Broken)]
    Empty {
        #[carry_or_ask]
        label: &'a S,
        other: Option<&'de u8>,
        items: To,
    },
    #[terminal]
    #[keeps(items)]
    Full {
        #[carry]
        label: &'a S,
        first: To::Item,
        rest: [E; N],
    },
    #[terminal]
    Broken,
}

#[test]
fn parameters_may_have_defaults_and_any_names() {
    let empty: Pipe<pipe::Empty<'_, '_, str, u8, _, 2>> = Pipe::new("label", None, vec![7_u8].into_iter());
    let filled = empty.fill(pipe::Fill::Full(pipe::FillFull {
        first: 7,
        rest: [0, 1],
    }));
    let pipe::FillTo::Full(full) = filled else {
        panic!("it is full")
    };
    assert_eq!((full.label, full.first, full.rest), ("label", 7, [0, 1]));
    let whole: Option<Pipe<pipe::Full<'_, '_>>> = None;
    assert!(whole.is_none());
}

/// A default that names another parameter.
#[machine(Slot, types)]
#[derive(Debug)]
pub enum AnySlot<U, T = Vec<U>> {
    #[initial]
    #[to(fill => Filled)]
    Free { unit: U },
    #[terminal]
    Filled { value: T },
}

#[test]
fn a_default_may_name_a_parameter_that_the_step_does_not_ask_for() {
    let free: Slot<slot::Free<u8>> = Slot::new(7);
    assert_eq!(free.unit, 7);
    let filled = free.fill(slot::Fill { value: vec![7] });
    assert_eq!(filled.value, [7]);
}
