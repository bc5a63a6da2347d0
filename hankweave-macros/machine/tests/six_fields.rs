//! Six machines of six fields, as a crate elsewhere would write them.

#![allow(unreachable_pub, reason = "an author elsewhere would write it so")]

/// A library lends a book: a loan is extended a few times and comes back, or is lost and paid for.
mod library {
    use hankweave_machine::{Extra, machine};

    /// One copy of one book, lent to one reader.
    #[machine(Loan, tests, schema)]
    #[serde(tag = "state", rename_all = "kebab-case", rename_all_fields = "camelCase")]
    pub enum LoanRecord {
        #[shared]
        Base {
            book: String,
            reader: u32,
            #[extra]
            extra: Extra,
        },
        #[initial("reserve()")]
        #[to(hand_out => OnLoan, withdraw => Withdrawn)]
        Reserved,
        #[again]
        #[to(extend => OnLoan, bring_back => Returned, report_lost => Lost)]
        OnLoan { due_on: String },
        #[to(pay => Settled)]
        #[keeps(due_on)]
        Lost { price_in_cents: u64 },
        #[terminal]
        Returned { damaged: bool },
        #[terminal]
        Settled {
            #[carry(price_in_cents)]
            paid_in_cents: u64,
        },
        #[terminal]
        Withdrawn,
    }

    #[test]
    fn a_book_that_is_lost_is_paid_for() {
        let due = |day: &str| loan::Extend {
            due_on: day.to_owned(),
        };
        let reserved = Loan::new("Emma".to_owned(), 7);
        let lent = reserved.hand_out(loan::HandOut {
            due_on: "May 1".to_owned(),
        });
        let lost = lent
            .extend(due("June 1"))
            .report_lost(loan::ReportLost { price_in_cents: 1500 });
        assert_eq!((lost.due_on.as_str(), lost.book.as_str()), ("June 1", "Emma"));
        assert_eq!(lost.pay().paid_in_cents, 1500);
    }
}

/// A turnstile lets one person through for each coin.
mod turnstile {
    use hankweave_machine::machine;

    #[machine(Turnstile, tests)]
    pub enum TurnstileRecord {
        #[initial]
        #[to(pay => Unlocked, close => OutOfOrder)]
        Locked {
            #[carry]
            passed: u32,
        },
        #[to(push => Locked, close => OutOfOrder)]
        #[keeps(passed)]
        Unlocked,
        #[terminal]
        #[keeps(passed)]
        OutOfOrder {
            #[origin]
            closed_during: TurnstilePhase,
        },
    }

    #[test]
    fn a_turnstile_turns_as_often_as_it_is_paid() {
        let locked = Turnstile::new().pay().push().pay();
        let closed = locked.close();
        assert_eq!(closed.closed_during, TurnstilePhase::Unlocked);
    }
}

/// Espresso: beans, water and pressure in one order.
mod espresso {
    use hankweave_machine::machine;

    #[machine(Shot, tests)]
    #[derive(Eq)]
    pub enum ShotRecord {
        #[initial]
        #[to(grind => Ground)]
        Empty,
        #[to(tamp => Tamped, spill => Wasted)]
        Ground { grams: u8 },
        #[to(brew => Brewed, spill => Wasted)]
        #[keeps(grams)]
        Tamped { bars: u8 },
        #[terminal]
        #[same_as(Tamped)]
        Brewed { seconds: u16 },
        #[terminal]
        Wasted {
            #[carry]
            grams: u8,
        },
    }

    #[test]
    fn a_shot_knows_how_it_was_made() {
        let tamped = Shot::new()
            .grind(shot::Grind { grams: 18 })
            .tamp(shot::Tamp { bars: 9 });
        let brewed = tamped.brew(shot::Brew { seconds: 27 });
        assert_eq!((brewed.grams, brewed.bars, brewed.seconds), (18, 9, 27));
    }
}

/// A handshake, with types alone: its keys are in no record.
mod handshake {
    use hankweave_machine::machine;

    /// Neither copied nor printed.
    pub struct Secret(u64);

    #[machine(Handshake, types)]
    pub enum AnyHandshake {
        #[initial]
        #[to(hello => Greeted, abort => Aborted)]
        Fresh { secret: Secret },
        #[to(agree => Established, abort => Aborted)]
        #[keeps(secret)]
        Greeted { peer: u64 },
        #[terminal]
        Established { key: Secret },
        #[terminal]
        Aborted {
            #[origin]
            aborted_during: HandshakePhase,
        },
    }

    fn establish(greeted: Handshake<handshake::Greeted>) -> Handshake<handshake::Established> {
        let key = Secret(greeted.secret.0 ^ greeted.peer);
        greeted.agree(handshake::Agree { key })
    }

    #[test]
    fn a_handshake_ends_with_a_key_or_without() {
        let fresh = || Handshake::new(Secret(6));
        let greeted = fresh().hello(handshake::Hello { peer: 3 });
        assert_eq!(establish(greeted).into_data().key.0, 5);
        let any: AnyHandshake = fresh().abort().into();
        let AnyHandshake::Aborted(aborted) = any else {
            panic!("it was aborted");
        };
        assert_eq!(aborted.aborted_during, HandshakePhase::Fresh);
    }
}

/// A patient in an emergency room.
mod hospital {
    use hankweave_machine::machine;

    #[machine(Visit, tests)]
    #[serde(rename_all = "snake_case")]
    pub enum VisitRecord {
        #[shared]
        Base { patient: String },
        #[initial]
        #[to(triage => Waiting, leave => Left)]
        Arrived,
        #[to(call => Treated, leave => Left)]
        Waiting {
            #[live]
            urgency: u8,
            #[live(start = 0, add)]
            minutes: u32,
        },
        #[to(admit => Admitted, discharge => Discharged)]
        Treated {
            #[carry(minutes)]
            waited: u32,
            doctor: String,
        },
        #[terminal]
        #[keeps(doctor)]
        Admitted { ward: String },
        #[terminal]
        #[keeps(doctor, waited)]
        Discharged,
        #[terminal]
        Left,
    }

    #[test]
    fn whoever_waited_is_treated_and_the_wait_is_known() {
        let mut waiting = Visit::new("Kim".to_owned()).triage(visit::Triage { urgency: 2 });
        waiting.add_minutes(40);
        waiting.set_urgency(1);
        let treated = waiting.call(visit::Call {
            doctor: "Lee".to_owned(),
        });
        assert_eq!(treated.discharge().waited, 40);
    }
}

/// A satellite is switched by radio: events come from outside and may not fit.
mod satellite {
    use hankweave_machine::machine;

    #[machine(Probe, tests)]
    #[serde(tag = "mode", rename_all = "SCREAMING_SNAKE_CASE")]
    pub enum ProbeRecord {
        #[initial]
        #[to(deploy => Nominal, lose => Lost)]
        Stowed,
        #[to(observe => Observing, fail => Safe, lose => Lost)]
        Nominal,
        #[to(rest => Nominal, fail => Safe, lose => Lost)]
        Observing { target: String },
        #[to(recover => Nominal, lose => Lost)]
        Safe { fault: Option<String> },
        #[terminal]
        Lost {
            #[carry]
            fault: Option<String>,
        },
    }

    #[test]
    fn a_command_that_does_not_fit_leaves_the_probe_as_it_was() {
        let stored: ProbeRecord = serde_json::from_str(r#"{"mode":"SAFE","fault":"sun sensor"}"#).unwrap();
        let command: ProbeTransition =
            serde_json::from_str(r#"{"method":"observe","metadata":{"target":"Io"}}"#).unwrap();
        let refused = stored.clone().apply(command).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "invalid transition from SAFE: no step `observe` (legal: recover -> NOMINAL, lose -> LOST)"
        );
        assert_eq!(*refused.value, stored);
        let lost = stored.apply(ProbeTransition::Lose).unwrap();
        assert_eq!(lost.fault().map(String::as_str), Some("sun sensor"));
    }
}
