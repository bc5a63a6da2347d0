//! Where the value of a field comes from, beyond the caller and the state before.

#![allow(unreachable_pub, reason = "an author elsewhere would write it so")]

/// A job that is tried again: attempts are counted, an owner is asked for once, and a lease is renewed without asking for anything else.
mod attempts {
    use hankweave_machine::machine;

    #[machine(Job, tests)]
    pub enum JobRecord {
        #[initial]
        #[to(start => Running)]
        Queued,
        #[to(renew { lease_until } => Running, restart { tries, progress } => Running, fail => Waiting, finish => Done)]
        Running {
            #[carry(start = 1, next = |tries| tries.saturating_add(1))]
            tries: u8,
            #[carry_or_ask]
            owner: String,
            lease_until: u64,
            #[live(start = 0, add)]
            progress: u32,
        },
        #[to(retry => Running)]
        #[keeps(tries, owner)]
        Waiting,
        #[terminal]
        #[keeps(owner)]
        Done {
            #[carry(tries, next = u32::from)]
            tries_in_all: u32,
        },
    }

    use job::{Renew, Retry, Start};

    fn running() -> Job<job::Running> {
        Job::new().start(Start {
            owner: "ann".to_owned(),
            lease_until: 10,
        })
    }

    #[test]
    fn what_the_state_before_has_is_kept_and_what_it_lacks_is_asked_for() {
        let failed = running().fail();
        let again = failed.retry(Retry { lease_until: 20 });
        assert_eq!((again.owner.as_str(), again.lease_until), ("ann", 20));
    }

    #[test]
    fn a_step_computes_a_field_from_the_one_before() {
        let again = running().fail().retry(Retry { lease_until: 20 });
        assert_eq!(again.tries, 2);
        assert_eq!(again.finish().tries_in_all, 3 - 1);
    }

    #[test]
    fn a_step_back_changes_what_it_names_and_nothing_else() {
        let mut running = running();
        running.add_progress(5);
        let renewed = running.renew(Renew { lease_until: 30 });
        assert_eq!((renewed.lease_until, renewed.progress, renewed.tries), (30, 5, 1));
        let restarted = renewed.restart();
        assert_eq!(
            (restarted.lease_until, restarted.progress, restarted.tries),
            (30, 0, 2)
        );
    }
}

/// The changes of a live field are in the log, so that a replay knows them.
mod recorded {
    use hankweave_machine::machine;

    #[machine(Basket, tests, schema)]
    #[serde(rename_all_fields = "camelCase")]
    pub enum BasketRecord {
        #[initial]
        #[to(pay => Paid)]
        Open {
            #[live(start = 0, add, record)]
            total_in_cents: u64,
            #[live(start = None, record)]
            note: Option<String>,
            #[live(start = 0)]
            views: u32,
        },
        #[terminal]
        #[keeps(total_in_cents, note)]
        Paid,
    }

    #[test]
    fn a_replay_of_the_log_gives_the_value() {
        let mut basket = Basket::new();
        let start = Basket::new().into_record();
        let mut log = vec![
            basket.add_total_in_cents(25),
            basket.add_total_in_cents(5),
            basket.set_note(Some("a gift".to_owned())),
        ];
        basket.set_views(3);
        let (paid, event) = basket.step(basket::Pay).into_parts();
        log.push(event);
        let stored = serde_json::to_string(&log).unwrap();
        assert!(
            stored.starts_with(r#"[{"method":"add_total_in_cents","metadata":25},"#),
            "{stored}"
        );
        let log: Vec<BasketTransition> = serde_json::from_str(&stored).unwrap();
        let replayed = log.into_iter().try_fold(start, BasketRecord::apply).unwrap();
        assert_eq!(replayed, paid.into_record());
        assert_eq!(replayed.total_in_cents(), Some(&30));
    }

    #[test]
    fn what_is_paid_changes_no_more() {
        let paid = Basket::new().pay().into_record();
        let change = BasketTransition::AddTotalInCents(1);
        assert_eq!((change.method(), change.target()), ("add_total_in_cents", None));
        let refused = paid.clone().apply(change).unwrap_err();
        assert_eq!(*refused.value, paid);
        assert!(BasketTransition::schema().to_string().contains("set_note"));
    }
}

/// A traffic light never ends.
mod endless {
    use hankweave_machine::machine;

    #[machine(Light, tests, cyclic)]
    pub enum LightRecord {
        #[initial]
        #[to(go => Green)]
        Red,
        #[to(slow => Yellow)]
        Green,
        #[to(stop => Red)]
        Yellow,
    }

    #[test]
    fn a_light_is_red_again() {
        let light: Light<light::Red> = Light::new().go().slow().stop();
        assert!(!light.status().is_terminal());
        assert_eq!(LightPhase::ALL.len(), LightStatus::ALL.len());
    }
}

/// One step with two outcomes.
mod branches {
    use hankweave_machine::machine;

    #[machine(Claim, tests)]
    pub enum ClaimRecord {
        #[initial]
        #[to(decide => Granted | Denied | Postponed)]
        Filed { amount: u32 },
        #[again]
        #[to(decide => Granted | Denied | Postponed)]
        #[keeps(amount)]
        Postponed {
            #[carry(next = |times| times + 1)]
            times: u32,
        },
        #[terminal]
        #[keeps(amount)]
        Granted,
        #[terminal]
        Denied { reason: String },
    }

    fn judge(amount: u32) -> claim::Decide {
        use claim::{Decide, DecideDenied};
        match amount {
            0..100 => Decide::Granted,
            100..1000 => Decide::Postponed,
            _ => Decide::Denied(DecideDenied {
                reason: "too much".to_owned(),
            }),
        }
    }

    #[test]
    fn one_method_returns_whichever_state_it_came_to() {
        let claim::DecideTo::Postponed(postponed) = Claim::new(500).decide(judge(500)) else {
            panic!("it is postponed");
        };
        let claim::DecideTo::Denied(denied) = postponed.decide(judge(5000)) else {
            panic!("it is refused");
        };
        assert_eq!(denied.reason, "too much");
    }

    #[test]
    fn an_outcome_is_the_event_that_records_it() {
        let event = ClaimTransition::from(judge(5));
        assert_eq!(event.method(), "decide_granted");
        let granted = Claim::new(5).into_record().apply(event).unwrap();
        assert_eq!(granted.status(), ClaimStatus::Granted);
        let edge = &CLAIM.edges[0];
        assert_eq!((edge.method, edge.label), ("decide_granted", "decide"));
    }
}

/// What several states can do and have, written once.
mod groups {
    use hankweave_machine::machine;

    #[machine(Call, tests)]
    pub enum CallRecord {
        #[group]
        #[to(hang_up => Ended)]
        Alive,
        #[group]
        #[within(Alive)]
        #[to(hold => OnHold)]
        Talking {
            #[carry_or_ask]
            partner: String,
        },
        #[initial]
        #[within(Alive)]
        #[to(answer => Speaking)]
        Ringing,
        #[within(Talking)]
        #[to(listen => Listening)]
        Speaking,
        #[within(Talking)]
        #[to(speak => Speaking)]
        Listening,
        #[within(Alive)]
        #[to(speak => Speaking)]
        #[keeps(partner)]
        OnHold,
        #[terminal]
        Ended {
            #[origin]
            ended_during: CallPhase,
        },
    }

    #[test]
    fn states_of_a_group_have_its_steps_and_fields() {
        let speaking = Call::new().answer(call::Answer {
            partner: "Bo".to_owned(),
        });
        let held = speaking.listen().hold();
        assert_eq!(held.partner, "Bo");
        let ended = held.speak().hang_up();
        assert_eq!(ended.ended_during, CallPhase::Speaking);
        assert_eq!(CALL.edges_from("Speaking").count(), 3);
    }
}
