//! Order in which the tasks of a file are created: each after the tasks that it names in `after`, wherever they are in the file (TASK-124).

use std::collections::{BTreeMap, BTreeSet};

use hankweave_core::id::TaskId;
use hankweave_task_model::registry::NewTask;

/// Returns the positions of the tasks in an order in which each comes after its earlier tasks, otherwise as given.
///
/// # Errors
///
/// Returns the position of a task that comes after itself, and the ids between: `["a", "b", "a"]`.
pub(super) fn creation_order(tasks: &[NewTask]) -> Result<Vec<usize>, (usize, Vec<TaskId>)> {
    let positions: BTreeMap<&TaskId, usize> = tasks.iter().map(|task| &task.id).zip(0..).collect();
    // Tasks that only the registry has exist already, so they do not matter here.
    let earlier = |at: usize| -> BTreeSet<usize> {
        let named = tasks[at].after.iter();
        named.filter_map(|id| positions.get(id).copied()).collect()
    };
    // For each task: the number of its earlier tasks that are not in the order yet, and the tasks that come after it.
    let mut open: Vec<usize> = (0..tasks.len()).map(|at| earlier(at).len()).collect();
    let mut later: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    for at in 0..tasks.len() {
        for named in earlier(at) {
            later[named].push(at);
        }
    }
    let is_free = |at: &usize| open[*at] == 0;
    let mut free: BTreeSet<usize> = (0..tasks.len()).filter(is_free).collect();
    let mut order = Vec::new();
    while let Some(at) = free.pop_first() {
        order.push(at);
        for next in &later[at] {
            open[*next] -= 1;
            if open[*next] == 0 {
                free.insert(*next);
            }
        }
    }
    match (0..tasks.len()).find(|at| open[*at] > 0) {
        None => Ok(order),
        Some(first) => Err(circle(tasks, first, |at| {
            earlier(at).into_iter().find(|named| open[*named] > 0)
        })),
    }
}

/// Walks from a task to earlier tasks that could not be ordered until one comes again; returns the circle.
fn circle(tasks: &[NewTask], first: usize, earlier: impl Fn(usize) -> Option<usize>) -> (usize, Vec<TaskId>) {
    let mut walked = vec![first];
    while let Some(next) = walked.last().and_then(|at| earlier(*at)) {
        let start = walked.iter().position(|at| *at == next);
        walked.push(next);
        if let Some(start) = start {
            walked.drain(..start);
            break;
        }
    }
    let ids = walked.iter().map(|at| tasks[*at].id.clone()).collect();
    (walked[0], ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(given: &[(&str, &[&str])]) -> Vec<NewTask> {
        let id = |text: &str| TaskId::new(text).unwrap();
        let task = |(name, after): &(&str, &[&str])| NewTask {
            after: after.iter().map(|name| id(name)).collect(),
            ..NewTask::new(id(name))
        };
        given.iter().map(task).collect()
    }

    // covers: TASK-124
    #[test]
    fn earlier_tasks_come_first_wherever_they_are_and_a_circle_is_named() {
        let order = |given| creation_order(&tasks(given));
        assert_eq!(
            order(&[("a", &[]), ("b", &["x"]), ("c", &["a"])]),
            Ok(vec![0, 1, 2])
        );
        assert_eq!(
            order(&[("d", &["c", "c"]), ("c", &["b"]), ("a", &[]), ("b", &[])]),
            Ok(vec![2, 3, 1, 0])
        );
        let named = |given: &[(&str, &[&str])]| {
            let (at, ids) = creation_order(&tasks(given)).unwrap_err();
            (
                at,
                ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            )
        };
        assert_eq!(named(&[("a", &["a"])]), (0, "a a".to_owned()));
        let later = [("d", &["b"][..]), ("a", &["b"]), ("b", &["a"]), ("c", &[])];
        assert_eq!(named(&later), (2, "b a b".to_owned()));
    }
}
