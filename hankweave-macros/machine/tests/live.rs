//! Fields that change in place, along all paths of their values: into groups, through every state, and back to where values start.

use hankweave_machine::machine;

/// A player whose position is that of both states in which something is loaded.
#[machine(Player, tests)]
pub enum PlayerRecord {
    /// The volume outlives the track that is played.
    #[shared]
    Base {
        #[live(start = 50, add, record)]
        volume: u8,
        #[live]
        title: String,
    },
    #[group]
    #[to(eject => Empty, break_down => Broken)]
    Loaded {
        #[live(start = 0, add, keeps)]
        position: u32,
        #[live(start = 0, add, restarts)]
        skips: u32,
    },
    #[initial]
    #[to(play => Playing)]
    Empty,
    #[within(Loaded)]
    #[to(pause => Paused)]
    Playing,
    #[within(Loaded)]
    #[to(play => Playing)]
    Paused,
    #[terminal]
    Broken,
}

/// A server of Raft: its log is there from the start, grows while it follows or leads, and comes along into every role and back.
#[machine(Server, cyclic, tests)]
pub enum ServerRecord {
    #[initial]
    #[to(stand => Candidate)]
    Follower {
        #[live]
        #[carry(start = Vec::new())]
        log: Vec<String>,
        #[live(start = 0, keeps, record)]
        term: u64,
    },
    #[to(win => Leader, lose => Follower)]
    Candidate {
        #[carry(next = |term| term + 1)]
        term: u64,
        #[carry]
        log: Vec<String>,
    },
    #[to(step_down => Follower)]
    Leader {
        #[carry]
        #[live(record)]
        log: Vec<String>,
        #[carry]
        term: u64,
    },
}

/// A connection that is opened before the machine starts, and stays in it.
#[machine(Session, types)]
pub enum AnySession<W: std::io::Write> {
    #[shared]
    Base {
        #[live]
        connection: W,
    },
    #[initial]
    #[to(log_in => Known)]
    Unknown,
    #[to(leave => Left)]
    Known { user: String },
    #[terminal]
    Left,
}

#[test]
fn a_live_field_of_a_group_keeps_its_value_between_the_states_of_the_group() {
    let mut playing = Player::new("song".into()).play();
    assert_eq!((playing.position, playing.skips), (0, 0));
    playing.add_position(42);
    playing.add_skips(1);
    let mut paused = playing.pause();
    assert_eq!((paused.position, paused.skips), (42, 0));
    paused.set_position(43);
    assert_eq!(paused.play().position, 43);
}

#[test]
fn a_shared_field_changes_in_every_state_and_stays_at_every_step() {
    let mut empty = Player::new("song".into());
    let event = empty.add_volume(5);
    empty.set_title("song 2".into());
    let mut playing = empty.play();
    assert_eq!((playing.volume, playing.title.as_str()), (55, "song 2"));
    assert_eq!(playing.set_volume(9), PlayerTransition::SetVolume(9));
    let broken = playing.pause().break_down();
    assert_eq!((broken.volume, broken.title.as_str()), (9, "song 2"));
    let refused = broken.into_record().apply(event).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "invalid transition from Broken: no step `add_volume` (Broken is terminal)"
    );
}

#[test]
fn what_changes_in_place_is_carried_into_the_state_that_declares_it_and_back_to_the_first_one() {
    let mut follower = Server::new();
    follower.set_log(vec!["a".into()]);
    let mut leader = follower.stand().win();
    assert_eq!((leader.term, leader.log.len()), (1, 1));
    let mut log = leader.log.clone();
    log.push("b".into());
    assert_eq!(leader.set_log(log.clone()), ServerTransition::SetLog(log));
    let follower = leader.step_down();
    assert_eq!((follower.term, follower.log.len()), (1, 2));
}

#[test]
fn a_connection_is_shared_and_written_to_in_place() {
    use std::io::Write;

    let mut session = Session::new(Vec::new()).log_in(session::LogIn { user: "ann".into() });
    session.connection_mut().write_all(b"hello").unwrap();
    assert_eq!(session.leave().into_data().connection, b"hello");
}
