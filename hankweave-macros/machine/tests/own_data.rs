//! With types alone nothing is demanded of the data, and a `match` finds the state of a value.

#![allow(unreachable_pub, reason = "an author elsewhere would write it so")]

use std::net::{TcpListener, TcpStream};

use hankweave_machine::machine;

/// Neither a socket nor a closure can be cloned, compared or stored.
#[machine(Connection, types)]
pub enum AnyConnection {
    #[shared]
    Base { name: String },
    #[initial]
    #[to(connect => Connected, give_up => Closed)]
    Idle {
        on_end: Box<dyn FnOnce(&str) -> usize + Send>,
    },
    #[to(hang_up => Closed)]
    #[keeps(on_end)]
    Connected { stream: TcpStream },
    #[terminal]
    #[keeps(on_end)]
    Closed {
        #[origin]
        closed_during: ConnectionPhase,
    },
}

#[test]
fn a_state_holds_a_socket_and_a_closure_and_gives_them_back() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let idle = Connection::new("first".to_owned(), Box::new(|text| text.len()));
    let connected = idle.step(connection::Connect { stream });
    assert!(connected.stream.peer_addr().is_ok());
    let any = AnyConnection::from(connected.hang_up());
    assert_eq!(any.status(), ConnectionStatus::Closed);
    let AnyConnection::Closed(closed) = any else {
        panic!("it was closed");
    };
    let connection::Closed {
        on_end,
        name,
        closed_during,
    } = closed.into_data();
    assert_eq!((on_end(&name), closed_during), (5, ConnectionPhase::Connected));
    assert_eq!(CONNECTION.edges.len(), 3);
}

/// The derived traits are those of the declaration.
#[machine(Level, types)]
#[derive(Debug, Clone, PartialEq)]
pub enum AnyLevel {
    #[initial]
    #[to(rise => High)]
    Low,
    #[terminal]
    High { by: f32 },
}

#[test]
fn derives_are_those_of_the_declaration() {
    let low = Level::new();
    assert_eq!(AnyLevel::from(low), AnyLevel::Low(Level::new()));
    let key = level::Rise { by: 0.5 };
    let high = Level::new().rise(key.clone());
    assert_eq!(format!("{:?}", *high), "High { by: 0.5 }");
    assert_eq!(high.into_data(), level::High { by: key.by });
}

/// A parcel as it is stored.
#[machine(Parcel)]
#[serde(tag = "is", rename_all = "lowercase")]
pub enum ParcelRecord {
    #[initial]
    #[to(ship => Shipped)]
    Packed,
    #[to(hand_over => Delivered)]
    Shipped { by: String },
    #[terminal]
    Delivered {
        #[fixed(true)]
        signed: bool,
    },
}

#[test]
fn a_stored_value_becomes_a_typed_one_of_its_state() {
    let record: ParcelRecord = serde_json::from_str(r#"{"is":"shipped","by":"ann"}"#).unwrap();
    let delivered = match record.typed().unwrap() {
        parcel::Typed::Packed(packed) => packed.ship(parcel::Ship { by: "bob".into() }).hand_over(),
        parcel::Typed::Shipped(shipped) => shipped.hand_over(),
        parcel::Typed::Delivered(delivered) => delivered,
    };
    assert!(delivered.signed);
    let forged = ParcelRecord::Delivered(parcel::Delivered { signed: false });
    let refused = forged.clone().typed().unwrap_err();
    assert_eq!(refused.into_value(), forged);
}

/// Words of other macros.
mod words_of_others {
    use hankweave_machine::machine;
    use schemars::JsonSchema;

    /// A text that has no schema of its own.
    #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
    pub struct Tag(String);

    #[machine(Parcel)]
    #[derive(JsonSchema)]
    pub enum ParcelRecord {
        #[machine(initial)]
        #[machine(to(send => Sent))]
        Packed {
            #[schemars(length(min = 1))]
            #[machine(live(start = String::new()))]
            note: String,
            #[machine(schema(String))]
            #[schemars(with = "String")]
            tag: Tag,
        },
        #[terminal]
        Sent,
    }

    #[test]
    fn a_word_of_another_macro_stays_its_own_and_ours_can_be_said() {
        let schema = schemars::schema_for!(parcel::Packed);
        assert_eq!(schema.as_value()["properties"]["note"]["minLength"], 1);
        let mut packed = Parcel::new(Tag("a".into()));
        packed.set_note("b".into());
        assert_eq!(packed.note, "b");
    }
}
