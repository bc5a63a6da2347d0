// The same walk for every variant: each includes this text beside its own `begin` and `output`.

/// What a value takes in memory in each state.
pub const SIZES: [usize; 8] = [
    size_of::<Codon<Preparing>>(),
    size_of::<Codon<Starting>>(),
    size_of::<Codon<Initializing>>(),
    size_of::<Codon<Running>>(),
    size_of::<Codon<CompletingSentinels>>(),
    size_of::<Codon<Completed>>(),
    size_of::<Codon<Failed>>(),
    size_of::<Codon<Skipped>>(),
];

/// Goes from the first state to the last, all in one place.
#[inline(never)]
pub fn walk(input: Input) -> u64 {
    let mut codon = begin(input.codon_id, input.start_time);
    codon.set_rig_setup_checkpoint(input.rig_setup_checkpoint);
    let codon = codon.start(Start {
        sentinels: input.sentinels,
    });
    let codon = codon.initialize(Initialize {
        claude_pid: input.claude_pid,
        claude_log_path: input.claude_log_path,
        previous_session_id: input.previous_session_id,
    });
    let mut codon = codon.run(Run {
        claude_session_id: input.claude_session_id,
    });
    codon.add_current_cost(input.cost);
    codon.add_current_tokens(input.tokens);
    codon.add_assistant_message_count(input.messages);
    let codon = codon.complete_sentinels().complete(Complete {
        end_time: input.end_time,
        completion_checkpoint: input.completion_checkpoint,
        result_message_received: true,
    });
    output(&codon)
}

/// Goes the same way with each step in a function of its own, as in a program whose steps lie far apart.
#[inline(never)]
pub fn walk_apart(input: Input) -> u64 {
    let mut codon = begin(input.codon_id, input.start_time);
    codon.set_rig_setup_checkpoint(input.rig_setup_checkpoint);
    let metadata = Start {
        sentinels: input.sentinels,
    };
    let codon = start(codon, metadata);
    let metadata = Initialize {
        claude_pid: input.claude_pid,
        claude_log_path: input.claude_log_path,
        previous_session_id: input.previous_session_id,
    };
    let codon = initialize(codon, metadata);
    let metadata = Run {
        claude_session_id: input.claude_session_id,
    };
    let mut codon = run(codon, metadata);
    codon.add_current_cost(input.cost);
    codon.add_current_tokens(input.tokens);
    codon.add_assistant_message_count(input.messages);
    let metadata = Complete {
        end_time: input.end_time,
        completion_checkpoint: input.completion_checkpoint,
        result_message_received: true,
    };
    output(&complete(complete_sentinels(codon), metadata))
}

#[inline(never)]
fn start(codon: Codon<Preparing>, metadata: Start) -> Codon<Starting> {
    codon.start(metadata)
}

#[inline(never)]
fn initialize(codon: Codon<Starting>, metadata: Initialize) -> Codon<Initializing> {
    codon.initialize(metadata)
}

#[inline(never)]
fn run(codon: Codon<Initializing>, metadata: Run) -> Codon<Running> {
    codon.run(metadata)
}

#[inline(never)]
fn complete_sentinels(codon: Codon<Running>) -> Codon<CompletingSentinels> {
    codon.complete_sentinels()
}

#[inline(never)]
fn complete(codon: Codon<CompletingSentinels>, metadata: Complete) -> Codon<Completed> {
    codon.complete(metadata)
}
