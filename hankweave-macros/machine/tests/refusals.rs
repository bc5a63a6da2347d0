//! Events come from outside: `apply` answers all of them, and returns value and event when it refuses.

use hankweave_machine::{CheckedAdd, Reason, machine};
use std::collections::BTreeMap;
use std::num::{NonZero, Saturating, Wrapping};
use std::time::Duration;

/// Amounts that may be full.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Cents(u8);

impl CheckedAdd for Cents {
    type Sum = Self;

    fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }
}

impl std::ops::AddAssign for Cents {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

/// Texts have no end: their `+=` is theirs.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Note(String);

impl std::ops::AddAssign for Note {
    fn add_assign(&mut self, other: Self) {
        self.0.push_str(&other.0);
    }
}

/// A machine.
#[machine(Job)]
pub enum JobRecord {
    #[initial]
    #[to(start => Running, drop => Done)]
    Queued,
    #[to(fail => Failed, finish => Done)]
    #[to(renew { turns } => Running)]
    Running {
        #[carry(start = 1, next = |attempt| attempt + 1)]
        attempt: u8,
        #[carry(start = 10, next = |left| { let mut left = left; left -= 1; left * 2 / 2 })]
        left: u8,
        #[carry(start = Duration::ZERO, next = |waited| waited + Duration::from_secs(1))]
        waited: Duration,
        #[carry(start = 0, next = |turns| turns + 100)]
        turns: u8,
        #[live(start = 0, add, record)]
        progress: u8,
        #[live(start = Duration::ZERO, add, record)]
        busy: Duration,
        #[live(start = Cents(0), add, record)]
        spent: Cents,
        #[live(start = Note::default(), add, record)]
        note: Note,
        #[live(start = 0.0, add, record)]
        load: f64,
    },
    #[to(retry => Running, resolve => Done)]
    #[keeps(attempt, left, waited, turns)]
    Failed,
    #[terminal]
    Done,
}

/// A machine.
#[machine(Cell)]
pub enum CellRecord {
    #[shared]
    Base {
        #[extra]
        extra: hankweave_machine::Extra,
    },
    #[initial]
    #[to(fill => Full)]
    Empty {
        #[fixed(3)]
        size: u8,
    },
    #[to(take => Taken)]
    Full { what: String },
    #[terminal]
    Taken {
        #[origin]
        taken_during: CellPhase,
    },
}

/// A machine whose numbers grow in every way that an operator has.
#[machine(Knob)]
pub enum KnobRecord {
    #[initial]
    #[to(turn => Self, stop => Stopped)]
    Turning {
        #[carry(start = 1, next = |sign| -sign)]
        sign: i8,
        #[carry(start = 1, next = |left| left << (left - 1))]
        left: u8,
        #[carry(start = 1, next = |right| { let mut right = right; right >>= right; right + 1 })]
        right: u32,
        #[carry(start = 1, next = |item| { let mut items = (item, 0); items.0 += 1; items.0 })]
        item: u8,
        #[carry(start = 1, next = |folded| [folded, 1].iter().fold(0, |sum: u8, number| sum + number))]
        folded: u8,
        #[carry(start = 1.5, next = |flipped: f64| -flipped)]
        flipped: f64,
        #[carry(start = 1.0, next = |wide: f64| wide * 1.0e10)]
        wide: f64,
        #[carry(start = Duration::from_secs(1), next = |paused: Duration| paused * 2)]
        paused: Duration,
        #[carry(start = BTreeMap::new(), next = |mut counts: BTreeMap<u8, u8>| { *counts.entry(0).or_default() += counts.len() as u8 + 1; counts })]
        counts: BTreeMap<u8, u8>,
        #[carry(start = BTreeMap::new(), next = |mut credit: BTreeMap<u8, u8>| { (*credit.entry(0).or_insert(3)) -= 1; credit })]
        credit: BTreeMap<u8, u8>,
        #[carry(start = None, next = |mut text: Option<String>| { *text.get_or_insert_with(String::new) += "-"; text })]
        text: Option<String>,
        #[carry(start = 2, try_next = |squared: u16| (squared + 1).checked_sub(1)?.checked_pow(2))]
        squared: u16,
    },
    #[terminal]
    Stopped,
}

/// A machine whose numbers are operands by reference, where a panic would be as bad.
#[machine(Dial)]
pub enum DialRecord {
    #[initial]
    #[to(turn => Self, stop => Stopped)]
    Turning {
        #[carry(start = 1, next = |folded: u8| [folded, 1].iter().fold(0, |sum, number| number + sum))]
        folded: u8,
        #[carry(start = 1, next = |added: u8| &added + &added)]
        added: u8,
        #[carry(start = 1, next = |taken: u8| &taken - 1)]
        taken: u8,
        #[carry(start = 1, next = |product: u8| &product * &2)]
        product: u8,
        #[carry(start = 1, next = |share: u8| &8 / share)]
        share: u8,
        #[carry(start = 3, next = |rest: u8| 8 % &rest)]
        rest: u8,
        #[carry(start = 1, next = |left: u8| left << &left)]
        left: u8,
        #[carry(start = 1, next = |right: u8| &right >> right)]
        right: u8,
        #[carry(start = 1, next = |sign: i8| -&sign)]
        sign: i8,
        #[carry(start = 1.0, next = |wide: f64| [wide, 1.0].iter().fold(1.0e10, |product, number| product * number))]
        wide: f64,
        #[carry(start = Duration::from_secs(1), next = |paused: Duration| 2 * paused)]
        paused: Duration,
    },
    #[terminal]
    Stopped,
}

/// A machine whose numbers wrap around, stay at their end or are never zero. Few of their operators can panic.
#[machine(Wheel)]
pub enum WheelRecord {
    #[initial]
    #[to(turn => Self, stop => Stopped)]
    Turning {
        #[carry(start = Wrapping(1), next = |share: Wrapping<u8>| Wrapping(8) / share)]
        share: Wrapping<u8>,
        #[carry(start = Wrapping(3), next = |rest: Wrapping<i8>| { let mut all = Wrapping(i8::MIN); all %= &rest; all })]
        rest: Wrapping<i8>,
        #[carry(start = Wrapping(1), next = |part: Wrapping<u8>| &Wrapping(8) / &part + Wrapping(u8::MAX))]
        part: Wrapping<u8>,
        #[carry(start = Saturating(1), next = |capped: Saturating<i8>| Saturating(i8::MIN) / capped)]
        capped: Saturating<i8>,
        #[carry(start = Saturating(3), next = |over: Saturating<i8>| Saturating(i8::MIN) % over)]
        over: Saturating<i8>,
        #[carry(start = NonZero::<i8>::MAX, next = |sign| -sign)]
        sign: NonZero<i8>,
    },
    #[terminal]
    Stopped,
}

fn running() -> JobRecord {
    Job::new().start().into_record()
}

/// Changes a stored job as any writer of the store may.
fn with(record: JobRecord, change: impl FnOnce(&mut job::Running)) -> JobRecord {
    let JobRecord::Running(mut running) = record else {
        unreachable!("a running job was asked for")
    };
    change(&mut running);
    JobRecord::Running(running)
}

#[track_caller]
fn refused(record: JobRecord, event: JobTransition, field: &'static str) {
    let error = record.clone().apply(event.clone()).expect_err("it does not fit");
    assert_eq!(error.reason, Reason::OutOfRange { field });
    assert!(error.to_string().contains(&format!("`{field}`")), "{error}");
    assert_eq!(error.into_parts(), (record, event));
}

#[test]
fn an_event_that_adds_more_than_the_field_can_hold_is_refused_with_value_and_event() {
    let once = running().apply(JobTransition::AddProgress(200)).unwrap();
    refused(once, JobTransition::AddProgress(200), "progress");
    let once = running().apply(JobTransition::AddSpent(Cents(200))).unwrap();
    refused(once, JobTransition::AddSpent(Cents(200)), "spent");
    let once = running().apply(JobTransition::AddLoad(f64::MAX)).unwrap();
    refused(once, JobTransition::AddLoad(f64::MAX), "load");
    let once = running().apply(JobTransition::AddBusy(Duration::MAX)).unwrap();
    refused(once, JobTransition::AddBusy(Duration::from_secs(1)), "busy");
}

#[test]
fn what_has_no_end_is_added_as_its_type_does() {
    let note = |text: &str| JobTransition::AddNote(Note(text.to_owned()));
    let record = running()
        .apply(note("a"))
        .and_then(|record| record.apply(note("b")));
    let JobRecord::Running(running) = record
        .and_then(|record| record.apply(JobTransition::AddLoad(0.5)))
        .unwrap()
    else {
        unreachable!("a change leaves the state as it is")
    };
    assert_eq!((running.note.0.as_str(), running.load), ("ab", 0.5));
}

#[test]
fn a_step_whose_next_value_does_not_fit_is_refused_with_value_and_event() {
    let failed = |change: fn(&mut job::Running)| with(running(), change).apply(JobTransition::Fail).unwrap();
    refused(
        failed(|job| job.attempt = u8::MAX),
        JobTransition::Retry,
        "attempt",
    );
    refused(failed(|job| job.left = 0), JobTransition::Retry, "left");
    refused(failed(|job| job.left = 200), JobTransition::Retry, "left");
    refused(
        failed(|job| job.waited = Duration::MAX),
        JobTransition::Retry,
        "waited",
    );
    let JobRecord::Running(again) = failed(|_| {}).apply(JobTransition::Retry).unwrap() else {
        unreachable!("a retry runs")
    };
    assert_eq!(
        (again.attempt, again.left, again.waited),
        (2, 9, Duration::from_secs(1))
    );
}

#[test]
fn every_operator_on_a_number_is_refused_where_its_result_does_not_fit() {
    let refused = |field: &str, change: fn(&mut knob::Turning)| {
        let KnobRecord::Turning(mut turning) = Knob::new().into_record() else {
            unreachable!("a new knob turns")
        };
        change(&mut turning);
        let error = KnobRecord::Turning(turning)
            .apply(KnobTransition::Turn)
            .expect_err("it does not fit");
        assert!(
            matches!(error.reason, Reason::OutOfRange { field: found } | Reason::NoNextValue { field: found } if found == field),
            "{error}"
        );
    };
    refused("sign", |knob| knob.sign = i8::MIN);
    refused("left", |knob| knob.left = 9);
    refused("right", |knob| knob.right = 32);
    refused("item", |knob| knob.item = u8::MAX);
    refused("folded", |knob| knob.folded = u8::MAX);
    refused("squared", |knob| knob.squared = u16::MAX);
    refused("wide", |knob| knob.wide = 1.0e300);
    refused("counts", |knob| knob.counts = BTreeMap::from([(0, u8::MAX)]));
    refused("credit", |knob| knob.credit = BTreeMap::from([(0, 0)]));
    refused("paused", |knob| knob.paused = Duration::MAX);
    let turned = Knob::new().turn();
    assert_eq!(
        (
            turned.sign,
            turned.left,
            turned.right,
            turned.item,
            turned.folded,
            turned.flipped,
            turned.squared
        ),
        (-1, 1, 1, 2, 2, -1.5, 4)
    );
    assert_eq!(
        (turned.counts.get(&0), turned.credit.get(&0)),
        (Some(&1), Some(&2))
    );
    assert_eq!(turned.text.as_deref(), Some("-"));
}

#[test]
fn an_operator_on_a_reference_to_a_number_is_refused_where_its_result_does_not_fit() {
    let turned = |change: fn(&mut dial::Turning)| {
        let DialRecord::Turning(mut turning) = Dial::new().into_record() else {
            unreachable!("a new dial turns")
        };
        change(&mut turning);
        DialRecord::Turning(turning).apply(DialTransition::Turn)
    };
    let refused = |field: &str, change: fn(&mut dial::Turning)| {
        let error = turned(change).expect_err("it does not fit");
        assert!(
            matches!(error.reason, Reason::OutOfRange { field: found } if found == field),
            "{error}"
        );
    };
    refused("folded", |dial| dial.folded = u8::MAX);
    refused("added", |dial| dial.added = 128);
    refused("taken", |dial| dial.taken = 0);
    refused("product", |dial| dial.product = 128);
    refused("share", |dial| dial.share = 0);
    refused("rest", |dial| dial.rest = 0);
    refused("left", |dial| dial.left = 8);
    refused("right", |dial| dial.right = 8);
    refused("sign", |dial| dial.sign = i8::MIN);
    refused("wide", |dial| dial.wide = 1.0e300);
    refused("paused", |dial| dial.paused = Duration::MAX);
    let Ok(DialRecord::Turning(dial)) = turned(|_| {}) else {
        unreachable!("everything fits")
    };
    assert_eq!((dial.folded, dial.added, dial.taken, dial.product), (2, 2, 0, 2));
    assert_eq!((dial.share, dial.rest, dial.left, dial.right), (8, 2, 2, 0));
    assert_eq!(
        (dial.sign, dial.wide, dial.paused),
        (-1, 1.0e10, Duration::from_secs(2))
    );
}

#[test]
fn a_division_by_zero_of_numbers_that_never_overflow_is_refused() {
    let turned = |change: fn(&mut wheel::Turning)| {
        let WheelRecord::Turning(mut turning) = Wheel::new().into_record() else {
            unreachable!("a new wheel turns")
        };
        change(&mut turning);
        WheelRecord::Turning(turning).apply(WheelTransition::Turn)
    };
    let refused = |field: &str, change: fn(&mut wheel::Turning)| {
        let error = turned(change).expect_err("it has no result");
        assert!(
            matches!(error.reason, Reason::OutOfRange { field: found } if found == field),
            "{error}"
        );
    };
    refused("share", |wheel| wheel.share = Wrapping(0));
    refused("rest", |wheel| wheel.rest = Wrapping(0));
    refused("part", |wheel| wheel.part = Wrapping(0));
    refused("capped", |wheel| wheel.capped = Saturating(0));
    refused("over", |wheel| wheel.over = Saturating(0));
    refused("sign", |wheel| wheel.sign = NonZero::<i8>::MIN);
    let minus_one = |wheel: &mut wheel::Turning| {
        (wheel.rest, wheel.capped, wheel.over) = (Wrapping(-1), Saturating(-1), Saturating(-1));
    };
    let Ok(WheelRecord::Turning(wheel)) = turned(minus_one) else {
        unreachable!("each has a result")
    };
    assert_eq!(
        (wheel.share, wheel.rest, wheel.part),
        (Wrapping(8), Wrapping(0), Wrapping(7))
    );
    assert_eq!((wheel.capped, wheel.over), (Saturating(i8::MAX), Saturating(0)));
    assert_eq!(wheel.sign.get(), -i8::MAX);
}

#[test]
fn a_step_without_a_next_value_is_refused_with_value_and_event() {
    let KnobRecord::Turning(mut turning) = Knob::new().into_record() else {
        unreachable!("a new knob turns")
    };
    turning.squared = 256;
    let record = KnobRecord::Turning(turning);
    let error = record
        .clone()
        .apply(KnobTransition::Turn)
        .expect_err("65,536 is too large");
    assert_eq!(error.reason, Reason::NoNextValue { field: "squared" });
    assert_eq!(
        error.to_string(),
        "invalid transition from Turning: `turn` has no next value for `squared`"
    );
    assert_eq!(error.into_parts(), (record, KnobTransition::Turn));
}

#[test]
fn a_step_back_to_its_own_state_checks_what_it_changes_and_nothing_else() {
    let record = with(running(), |job| job.attempt = u8::MAX);
    let record = record
        .apply(JobTransition::Renew)
        .and_then(|record| record.apply(JobTransition::Renew))
        .unwrap();
    refused(record, JobTransition::Renew, "turns");
}

#[test]
#[should_panic(expected = "`progress` cannot hold the sum; `apply` refuses such an event")]
fn code_that_adds_too_much_is_stopped_in_every_build() {
    let mut job = Job::new().start();
    drop((job.add_progress(200), job.add_progress(200)));
}

#[test]
#[should_panic(expected = "the next `attempt` does not fit its type; `apply` refuses such a step")]
fn code_that_goes_on_too_often_is_stopped_in_every_build() {
    let record = with(running(), |job| job.attempt = u8::MAX)
        .apply(JobTransition::Fail)
        .unwrap();
    drop(Job::<job::Failed>::try_from(record).unwrap().retry());
}

#[test]
fn a_refusal_names_the_step_and_the_steps_that_are_legal() {
    let record = running().apply(JobTransition::Fail).unwrap();
    let error = record.clone().apply(JobTransition::Finish).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid transition from Failed: no step `finish` (legal: retry -> Running, resolve -> Done)"
    );
    assert_eq!(
        (error.step, error.from, error.to),
        ("finish", JobStatus::Failed, JobStatus::Done)
    );
    assert_eq!(error.legal, JobStatus::Failed.steps());
    assert_eq!(error.reason, Reason::NoSuchStep);
    assert_eq!(error.into_parts(), (record, JobTransition::Finish));

    let done = running().apply(JobTransition::Finish).unwrap();
    let error = done.clone().apply(JobTransition::AddProgress(1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid transition from Done: no step `add_progress` (Done is terminal)"
    );
    assert_eq!(error.into_parts(), (done, JobTransition::AddProgress(1)));
}

#[test]
fn a_value_that_breaks_rules_of_its_state_takes_no_step() {
    let fill = CellTransition::Fill(cell::Fill { what: "ink".into() });
    let broken = CellRecord::Empty(cell::Empty {
        extra: Default::default(),
        size: 9,
    });
    let error = broken.clone().apply(fill.clone()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid transition from Empty: `fill` needs a value that keeps the rules of its state; field `size` must be 3, not 9"
    );
    assert!(matches!(&error.reason, Reason::BrokenRules { violations } if violations == &broken.validate()));
    assert_eq!(error.into_parts(), (broken, fill));
}

#[test]
fn what_could_not_be_read_again_is_not_written() {
    let mut record = Cell::new().into_record();
    record.extra_mut().insert("status", "Full".into());
    assert!(
        record
            .clone()
            .apply(CellTransition::Fill(cell::Fill { what: "ink".into() }))
            .is_err()
    );
    let error = serde_json::to_string(&record).unwrap_err();
    assert_eq!(
        error.to_string(),
        "field `status` must be the name of the state, not \"Full\""
    );
    let broken = CellRecord::Empty(cell::Empty {
        extra: Default::default(),
        size: 9,
    });
    assert!(serde_json::to_string(&broken).is_err());
}

#[test]
fn a_value_is_written_with_its_tag_whatever_is_written_of_it() {
    let full = Cell::new().fill(cell::Fill { what: "ink".into() });
    let tagged = r#"{"status":"Full","what":"ink"}"#;
    assert_eq!(serde_json::to_string(&full).unwrap(), tagged);
    assert_eq!(serde_json::to_string(&*full).unwrap(), tagged);
    assert_eq!(serde_json::to_string(&full.record()).unwrap(), tagged);
    assert_eq!(full.record(), full.into_record());
}
