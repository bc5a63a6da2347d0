//! Requirements that nothing could show (HANK-66, STATE-69).

use crate::hank::document::Hank;
use crate::hank::problem::Problem;

/// Checks that files are watched where they must change.
pub(super) fn check(hank: &Hank) -> Vec<Problem> {
    let mut problems = Vec::new();
    // The patterns of earlier codons stay.
    let mut watches_files = false;
    for (index, item) in hank.items.iter().enumerate() {
        for (path, codon) in item.located_codons(index) {
            watches_files |= !codon.checkpointed_files.is_empty();
            let needs_files = hank
                .required_of(codon)
                .is_some_and(|required| required.needs_files());
            if needs_files && !watches_files {
                let path = match codon.requires {
                    Some(_) => format!("{path}.requires"),
                    None => "overrides.requires".to_owned(),
                };
                let message = format!(
                    "codon `{}` watches no files, so no change of one would be seen",
                    codon.id
                );
                let hint = r#"add "checkpointedFiles": ["**"], or the files that its work changes"#;
                problems.push(Problem::error(&hank.places, path, message).with_hint(hint));
            }
        }
        let is_set = item
            .as_loop()
            .is_some_and(|found| found.stalled_after.is_some_and(|most| most > 0));
        if is_set && !watches_files {
            let message = "has no effect: no files are watched, so whether one changed is not known";
            let problem = Problem::warning(&hank.places, format!("hank[{index}].stalledAfter"), message);
            problems.push(problem.with_hint(r#"add "checkpointedFiles": ["**"] to its codons"#));
        }
    }
    problems
}
