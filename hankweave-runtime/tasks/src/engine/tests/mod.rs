//! Test suite for every backend: each test is written once and run for all of them.

mod claims;
mod history;
mod linearizable;
mod locks;
mod place;
mod registry;
mod workers;

use crate::engine::Fencing;
use place::Place;

/// Runs every test of the suite in places that `$open` makes. If it makes none, the test prints the reason and is skipped.
macro_rules! suite {
    ($backend:ident, $open:path) => {
        mod $backend {
            suite!(@ $open, Checked,
                registry::a_task_is_created_once_and_its_id_stays_taken,
                registry::a_task_is_created_and_begun_under_a_lock_that_its_creator_has_already,
                registry::several_are_created_or_none,
                registry::lists_are_filtered_newest_first_and_cut_behind_that,
                registry::an_update_leaves_what_is_absent_and_clears_what_is_null,
                registry::a_step_needs_a_living_token_and_the_version_that_was_read,
                registry::each_step_has_its_log_line_and_lines_stay_until_the_task_is_gone,
                registry::what_a_task_has_cost_stays_with_it_whatever_its_steps,
                claims::the_oldest_pending_task_is_claimed_and_nobody_else_gets_it,
                claims::who_is_left_behind_is_found_only_without_a_living_lease,
                claims::a_clock_that_jumps_loses_no_task_and_gives_none_to_two,
                claims::the_highest_priority_comes_first_and_a_task_waits_for_the_ones_before_it,
                claims::a_lock_that_is_taken_over_counts_as_expired,
                locks::examples_of_locks_hold,
                locks::a_lock_ends_and_its_holder_writes_no_more,
                locks::holders_share_or_exclude_each_other_and_take_locks_in_order,
                locks::locks_are_removed_when_they_are_over_or_their_owner_is_gone,
                locks::no_version_of_a_forgotten_resource_comes_twice,
                locks::who_waits_for_work_is_woken,
                workers::a_worker_is_there_until_it_ends_or_its_lease_does,
                linearizable::what_clients_see_has_an_order,
            );
            suite!(@ $open, Skipped, linearizable::a_missing_fence_is_found,);
        }
    };
    (@ $open:path, $fencing:ident, $($module:ident::$name:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                match $open(super::Fencing::$fencing).await {
                    Ok(place) => super::$module::$name(place).await,
                    Err(why) => println!("skipped: {why}"),
                }
            }
        )*
    };
}

suite!(memory, super::Place::memory);
suite!(sqlite, super::Place::sqlite);
suite!(postgres, super::Place::postgres);
