// The same walk on the stored enum, by events: included by the variants that have one.

/// Goes from the first state to the last by events.
#[inline(never)]
pub fn walk_by_events(input: Input) -> u64 {
    let mut codon = begin(input.codon_id, input.start_time);
    codon.set_rig_setup_checkpoint(input.rig_setup_checkpoint);
    let codon = stored(codon);
    let codon = apply(
        codon,
        CodonTransition::Start(Start {
            sentinels: input.sentinels,
        }),
    );
    let codon = apply(
        codon,
        CodonTransition::Initialize(Initialize {
            claude_pid: input.claude_pid,
            claude_log_path: input.claude_log_path,
            previous_session_id: input.previous_session_id,
        }),
    );
    let mut codon = apply(
        codon,
        CodonTransition::Run(Run {
            claude_session_id: input.claude_session_id,
        }),
    );
    if let CodonExecution::Running(running) = &mut codon {
        running.current_cost += input.cost;
        running.current_tokens += input.tokens;
        running.assistant_message_count += input.messages;
    }
    let codon = apply(codon, CodonTransition::CompleteSentinels);
    let codon = apply(
        codon,
        CodonTransition::Complete(Complete {
            end_time: input.end_time,
            completion_checkpoint: input.completion_checkpoint,
            result_message_received: true,
        }),
    );
    match codon {
        CodonExecution::Completed(completed) => sum(
            &completed.rig_setup_checkpoint,
            &completed.claude_session_id,
            &completed.sentinels,
            &completed.completion_checkpoint,
            completed.final_cost,
        ),
        _ => unreachable!("the walk ends in `Completed`"),
    }
}

fn apply(codon: CodonExecution, event: CodonTransition) -> CodonExecution {
    match codon.apply(event) {
        Ok(codon) => codon,
        Err(refused) => unreachable!("{refused:?}"),
    }
}
