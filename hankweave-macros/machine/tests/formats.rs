//! What is stored in one format of serde or another is read as it was written.

#![allow(unreachable_pub, reason = "an author elsewhere would write it so")]

use std::fmt::Debug;
use std::time::Duration;

use hankweave_machine::stored::KnownFields;
use hankweave_machine::{Extra, machine};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An order as it is stored.
#[machine(Order, tests)]
#[serde(tag = "is", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum OrderRecord {
    #[shared]
    Base { order_id: u32, customer: Option<String> },
    #[initial]
    #[to(pay => Paid, cancel => Cancelled)]
    Open {
        #[live(start = 0, add, record)]
        total: u64,
        #[live(start = None, record)]
        note: Option<String>,
    },
    #[to(send => Sent, cancel => Cancelled)]
    #[keeps(total, note)]
    Paid {
        #[live(start = None)]
        voucher: Option<u8>,
        /// The first is often absent: a format without names would read the second for it.
        receipt: Option<String>,
        payment_id: String,
    },
    #[terminal]
    #[keeps(payment_id)]
    Sent { parcels: Vec<(u8, f64)> },
    #[terminal]
    Cancelled {
        #[origin]
        cancelled_during: OrderPhase,
        #[carry]
        payment_id: Option<String>,
    },
}

/// One value of each state and one of each event, some with and some without what may be absent.
fn everything() -> (Vec<OrderRecord>, Vec<OrderTransition>) {
    let mut events = Vec::new();
    let mut open = Order::new(7, None);
    events.push(open.add_total(25));
    events.push(open.set_note(Some("a gift".to_owned())));
    events.push(open.set_note(None));
    let opened = OrderRecord::from(open.clone_data());
    let pay = order::Pay {
        receipt: None,
        payment_id: "pay-1".to_owned(),
    };
    let (paid, event) = open.step(pay).into_parts();
    events.push(event);
    let bought = OrderRecord::from(paid.clone_data());
    let send = order::Send {
        parcels: vec![(1, 0.5), (2, 2.0)],
    };
    let (sent, event) = paid.step(send).into_parts();
    events.push(event);
    let (cancelled, event) = Order::new(8, Some("ann".to_owned()))
        .step(order::Cancel)
        .into_parts();
    events.push(event);
    let values = vec![opened, bought, sent.into_record(), cancelled.into_record()];
    (values, events)
}

/// The data of a state is no second value.
trait CloneData<S> {
    fn clone_data(&self) -> S;
}

impl<S: OrderState + Clone> CloneData<S> for Order<S> {
    fn clone_data(&self) -> S {
        S::clone(self)
    }
}

/// One format: to bytes and back.
trait Format {
    fn there_and_back<T: Serialize + DeserializeOwned>(&self, value: &T) -> Result<T, String>;
}

macro_rules! formats {
    ($($name:ident: |$value:ident| $write:expr, |$bytes:ident| $read:expr;)*) => {
        $(
            struct $name;

            impl Format for $name {
                fn there_and_back<T: Serialize + DeserializeOwned>(&self, $value: &T) -> Result<T, String> {
                    let $bytes = $write.map_err(|error| error.to_string())?;
                    $read.map_err(|error| error.to_string())
                }
            }
        )*
    };
}

formats! {
    Json: |value| serde_json::to_vec(value), |bytes| serde_json::from_slice(&bytes);
    JsonTree: |value| serde_json::to_value(value), |tree| serde_json::from_value(tree);
    Toml: |value| toml::to_string(value), |text| toml::from_str(&text);
    Cbor: |value| { let mut out = Vec::new(); ciborium::into_writer(value, &mut out).map(|()| out) }, |bytes| ciborium::from_reader(&bytes[..]);
    MessagePackNamed: |value| rmp_serde::to_vec_named(value), |bytes| rmp_serde::from_slice(&bytes);
    MessagePackCompact: |value| rmp_serde::to_vec(value), |bytes| rmp_serde::from_slice(&bytes);
    Postcard: |value| postcard::to_allocvec(value), |bytes| postcard::from_bytes(&bytes);
}

#[track_caller]
fn keeps<T: Serialize + DeserializeOwned + PartialEq + Debug>(format: &impl Format, values: &[T]) {
    for value in values {
        assert_eq!(format.there_and_back(value).as_ref(), Ok(value));
    }
}

#[test]
fn every_format_keeps_every_value_and_event() {
    keeps_everything(&Json);
    keeps_everything(&JsonTree);
    keeps_everything(&Toml);
    keeps_everything(&Cbor);
    keeps_everything(&MessagePackNamed);
    // Their structs have no names, but a machine is written as a map.
    keeps_everything(&MessagePackCompact);
    keeps_everything(&Postcard);
}

/// The bound of a function that writes a format without names of types; `ui-tests` shows that it refuses a machine with `#[extra]`.
#[test]
fn what_every_format_keeps_can_be_asked_for() {
    fn written<T: Serialize + KnownFields + ?Sized>(value: &T) -> Vec<u8> {
        postcard::to_allocvec(value).unwrap()
    }

    let (values, events) = everything();
    assert_eq!(written(&values), postcard::to_allocvec(&values).unwrap());
    assert_eq!(written(&events[..]), postcard::to_allocvec(&events).unwrap());
}

#[track_caller]
fn keeps_everything(format: &impl Format) {
    let (values, events) = everything();
    keeps(format, &values);
    keeps(format, &events);
}

/// Events of other writers: in another order, and with unknown names.
#[test]
fn an_event_is_read_in_any_order_and_refused_with_the_reason() {
    let read = serde_json::from_str::<OrderTransition>;
    let pay = order::Pay {
        receipt: None,
        payment_id: "pay-1".to_owned(),
    };
    let late = r#"{"metadata":{"paymentId":"pay-1"},"by":"ann","method":"pay"}"#;
    assert_eq!(read(late).unwrap(), OrderTransition::Pay(pay));
    assert_eq!(read(r#"{"method":"cancel"}"#).unwrap(), OrderTransition::Cancel);
    for (text, reason) in [
        ("7", "an object with `method`"),
        ("{}", "missing field `method`"),
        (
            r#"{"method":"pya"}"#,
            "unknown variant `pya`, expected one of `pay`, `cancel`, `send`, `set_total`",
        ),
        (r#"{"method":"pay"}"#, "missing field `metadata`"),
        (r#"{"method":"add_total"}"#, "missing field `metadata`"),
        (r#"{"method":"pay","metadata":{}}"#, "missing field `paymentId`"),
        (r#"{"method":"pay","metadata":["pay-1"]}"#, "expected an object"),
        (
            r#"{"method":"pay","method":"cancel"}"#,
            "duplicate field `method`",
        ),
        (
            r#"{"metadata":1,"method":"add_total","metadata":2}"#,
            "duplicate field `metadata`",
        ),
        (r#"{"method":"cancel","metadata":1}"#, "expected unit"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }
}

/// A machine whose field is written in a way of its own, in its states and in its events.
#[machine(Timer, tests)]
pub enum TimerRecord {
    #[initial]
    #[to(stop => Stopped)]
    Going {
        #[live(start = Duration::ZERO, add, record)]
        #[serde(with = "self::millis")]
        passed: Duration,
    },
    #[terminal]
    #[keeps(passed)]
    Stopped,
}

mod millis {
    use super::{Deserialize, Deserializer, Duration, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(value.as_millis().try_into().map_err(serde::ser::Error::custom)?)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

#[test]
fn an_event_is_written_as_its_field_is() {
    let mut timer = Timer::new();
    let events = [timer.add_passed(Duration::from_millis(1500))];
    let stored = serde_json::to_string(&events).unwrap();
    assert_eq!(stored, r#"[{"method":"add_passed","metadata":1500}]"#);
    keeps(&Postcard, &events);
    keeps(&Toml, &[timer.stop().into_record()]);
}

/// A machine that keeps names of other programs.
#[machine(Lamp)]
pub enum LampRecord {
    #[shared]
    Base {
        #[extra]
        extra: Extra,
    },
    #[initial]
    #[to(remove => Removed)]
    Dark { bulb: Option<u8> },
    #[terminal]
    Removed,
}

#[test]
fn names_of_other_programs_are_kept_by_formats_that_describe_themselves_and_refused_by_others() {
    let read: LampRecord =
        serde_json::from_str(r#"{"status":"Dark","bulb":1,"colour":[255,"red"]}"#).unwrap();
    let values = [read, Lamp::new(None).into_record()];
    keeps(&Json, &values);
    keeps(&Toml, &values);
    keeps(&Cbor, &values);
    keeps(&MessagePackNamed, &values);
    keeps(&MessagePackCompact, &values);
    for value in &values {
        // Nothing is written that could not be read again.
        assert!(postcard::to_allocvec(value).is_err());
    }
}

/// Data whose types must read it from the format itself, before the state is known.
mod tag_last {
    use std::collections::BTreeMap;
    use std::net::IpAddr;

    use hankweave_machine::machine;

    #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
    pub enum Shape {
        Point,
        Circle(f64),
        Box { width: u8, height: Option<u8> },
    }

    #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
    pub struct Meters(u32);

    /// Wide numbers in every position that a type can have.
    #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
    pub enum Wide {
        None,
        One(u128),
        Both(u128, i128),
        Named {
            high: Option<u128>,
            of: BTreeMap<u128, (i128, Meters)>,
        },
    }

    #[machine(Parcel)]
    pub enum ParcelRecord {
        #[initial]
        #[to(send => Sent)]
        Packed {
            worth: u128,
            #[serde(rename = "debt")]
            owed: Option<i128>,
            places: BTreeMap<u32, String>,
            from: IpAddr,
            shapes: Vec<Shape>,
            far: Meters,
            mark: char,
            nothing: (),
            weight: (f32, i64),
            lots: Vec<u128>,
            wide: Vec<Wide>,
            #[carry_or_ask]
            depth: Option<Wide>,
        },
        #[terminal]
        Sent {
            #[carry(next = |depth| depth.unwrap_or(Wide::None))]
            depth: Wide,
        },
    }

    fn parcel() -> ParcelRecord {
        let shapes = vec![
            Shape::Point,
            Shape::Circle(1.5),
            Shape::Box {
                width: 1,
                height: None,
            },
        ];
        let places = BTreeMap::from([(7, "a".to_owned()), (8, "b".to_owned())]);
        let from = IpAddr::from([127, 0, 0, 1]);
        let parcel = Parcel::new(
            u128::MAX,
            Some(i128::MIN),
            places,
            from,
            shapes,
            Meters(3),
            'x',
            (),
            (0.5, -1),
            vec![0, u128::MAX],
            vec![
                Wide::None,
                Wide::One(u128::MAX),
                Wide::Both(1, i128::MIN),
                Wide::Named {
                    high: Some(u128::MAX),
                    of: BTreeMap::from([(u128::MAX, (i128::MAX, Meters(1)))]),
                },
            ],
            Some(Wide::One(u128::MAX)),
        );
        parcel.into_record()
    }

    #[test]
    fn json_is_read_with_the_tag_at_the_end() {
        let text = serde_json::to_string(&parcel()).unwrap();
        let rest = text
            .strip_prefix(r#"{"status":"Packed","#)
            .and_then(|rest| rest.strip_suffix('}'))
            .unwrap();
        let late = format!(r#"{{{rest},"status":"Packed"}}"#);
        assert_eq!(
            serde_json::from_str::<ParcelRecord>(&late).unwrap(),
            parcel(),
            "{late}"
        );
    }

    #[test]
    fn cbor_is_read_with_the_tag_at_the_end() {
        let mut bytes = Vec::new();
        ciborium::into_writer(&parcel(), &mut bytes).unwrap();
        let mut document: ciborium::Value = ciborium::from_reader(&bytes[..]).unwrap();
        document.as_map_mut().unwrap().rotate_left(1);
        let mut late = Vec::new();
        ciborium::into_writer(&document, &mut late).unwrap();
        assert_ne!(late, bytes);
        assert_eq!(
            ciborium::from_reader::<ParcelRecord, _>(&late[..]).unwrap(),
            parcel()
        );
    }
}
