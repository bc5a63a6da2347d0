//! Steps of one name with another target in each state, and steps of a group back to the state in which they were made.

use hankweave_machine::machine;

/// A light: one step name in all states, which always leads to another state.
#[machine(Light, cyclic, tests)]
pub enum LightRecord {
    #[initial]
    #[to(next => Green)]
    Red,
    #[to(next => Yellow)]
    Green,
    #[to(next => Red, fail => Broken)]
    Yellow,
    #[to(repair => Red)]
    Broken,
}

/// A job that is kept alive in all its open states.
#[machine(Job, tests, schema)]
pub enum JobRecord {
    #[group]
    #[to(renew { lease_until } => Self, ask {} => Self, cancel => Cancelled)]
    Open {
        #[carry(start = 10)]
        lease_until: u64,
    },
    #[initial]
    #[within(Open)]
    #[to(assign => Running)]
    Queued,
    #[within(Open)]
    #[to(assign => Reviewed, restart => Self)]
    Running {
        owner: String,
        #[carry(start = 1, next = |attempt| attempt + 1)]
        attempt: u8,
    },
    #[within(Open)]
    #[to(finish => Done)]
    Reviewed { owner: String },
    #[terminal]
    Done,
    #[terminal]
    Cancelled {
        #[origin]
        during: JobPhase,
    },
}

/// A door of types alone, with a step there and back.
#[machine(Flap, types)]
pub enum AnyFlap<F: FnOnce()> {
    #[shared]
    Base { on_end: F },
    #[initial]
    #[to(push { force } => Self, turn => Open)]
    Shut { force: u8 },
    #[to(turn => Shut, remove => Gone)]
    Open { force: u8 },
    #[terminal]
    Gone,
}

use job::{Assign, Renew};
use light::{Green, Red, Yellow};

#[test]
fn the_type_knows_where_a_step_leads_from_each_state() {
    let green: Light<Green> = Light::new().next();
    let yellow: Light<Yellow> = green.next();
    let _: Light<Red> = yellow.next();
}

#[test]
fn one_event_is_replayed_from_each_state() {
    let mut record = Light::new().into_record();
    for expected in [LightStatus::Green, LightStatus::Yellow, LightStatus::Red] {
        assert_eq!(LightTransition::Next.target_from(record.status()), Some(expected));
        record = record.apply(LightTransition::Next).unwrap();
        assert_eq!(record.status(), expected);
    }
    assert_eq!(LightTransition::Next.target(), None, "it depends on the state");
    assert_eq!(LightTransition::Repair.target(), Some(LightStatus::Red));
    assert_eq!(LightTransition::Repair.target_from(LightStatus::Red), None);
    assert_eq!(
        serde_json::to_string(&LightTransition::Next).unwrap(),
        r#"{"method":"next"}"#
    );
}

#[test]
fn a_refusal_names_the_step_and_hands_both_back() {
    let record = LightRecord::Broken(light::Broken {});
    let refused = record.clone().apply(LightTransition::Next).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "invalid transition from Broken: no step `next` (legal: repair -> Red)"
    );
    assert_eq!(
        refused.to,
        LightStatus::Broken,
        "a step that it does not have leads nowhere"
    );
    assert_eq!(refused.into_parts(), (record, LightTransition::Next));
}

/// Renews a job in any state that allows it; the type shows that the job stays there.
fn renewed<S: JobState>(job: Job<S>, lease_until: u64) -> Job<S>
where
    Renew: job::Edge<S, To = S>,
{
    let (job, event) = job.step(Renew { lease_until }).into_parts();
    assert_eq!(event.method(), "renew");
    job
}

#[test]
fn a_step_of_a_group_leads_back_to_wherever_it_is_made_and_leaves_all_else() {
    let queued = renewed(Job::new(), 20);
    let running = queued.assign(Assign { owner: "ann".into() });
    let running = renewed(running, 30).ask();
    assert_eq!(
        (running.owner.as_str(), running.attempt, running.lease_until),
        ("ann", 1, 30)
    );
    let again = running.restart(job::Restart { owner: "bob".into() });
    assert_eq!(
        (again.owner.as_str(), again.attempt, again.lease_until),
        ("bob", 2, 30)
    );
    let reviewed = renewed(again.assign(Assign { owner: "cyd".into() }), 40);
    assert_eq!(reviewed.lease_until, 40);
    assert_eq!(reviewed.cancel().during, JobPhase::Reviewed);
}

#[test]
fn the_stored_form_takes_such_events_in_every_state_and_refuses_what_does_not_fit() {
    let event: JobTransition =
        serde_json::from_str(r#"{"method":"renew","metadata":{"lease_until":7}}"#).unwrap();
    let queued = Job::new().into_record().apply(event.clone()).unwrap();
    assert_eq!(
        (queued.status(), queued.lease_until()),
        (JobStatus::Queued, Some(&7))
    );
    let text = r#"{"status":"Running","lease_until":1,"owner":"ann","attempt":255}"#;
    let running: JobRecord = serde_json::from_str(text).unwrap();
    let restart: JobTransition = job::Restart { owner: "bob".into() }.into();
    let full = running.clone().apply(restart).unwrap_err();
    assert_eq!(
        full.to_string(),
        "invalid transition from Running: `restart` would make `attempt` larger or smaller than its type can hold"
    );
    let renewed = full.into_parts().0.apply(event.clone()).unwrap();
    assert_eq!(
        (renewed.status(), renewed.lease_until()),
        (JobStatus::Running, Some(&7))
    );
    let done = JobRecord::Done(job::Done {}).apply(event).unwrap_err();
    assert_eq!((done.from, done.to), (JobStatus::Done, JobStatus::Done));
}

#[test]
fn graph_diagram_and_schema_have_every_edge() {
    let ways: Vec<_> = JOB
        .edges
        .iter()
        .filter(|edge| edge.method == "renew")
        .map(|edge| (edge.from, edge.to))
        .collect();
    assert_eq!(
        ways,
        [
            ("Queued", "Queued"),
            ("Running", "Running"),
            ("Reviewed", "Reviewed")
        ]
    );
    assert!(JOB.to_mermaid().contains("Reviewed --> Reviewed : renew"));
    let schema = JobTransition::schema().to_string();
    assert!(
        schema.contains("Leads a Job to `Running` or `Reviewed`."),
        "{schema}"
    );
    assert_eq!(
        JobStatus::Queued.targets(),
        [JobStatus::Running, JobStatus::Queued, JobStatus::Cancelled]
    );
}

#[test]
fn types_alone_have_them_as_well() {
    let shut = Flap::new(|| {}, 1).push(flap::Push { force: 2 });
    let open = shut.turn(flap::Turn { force: 3 });
    let gone = open
        .turn(flap::Turn { force: 4 })
        .turn(flap::Turn { force: 5 })
        .remove();
    (gone.into_data().on_end)();
}
