//! Memory that a sentinel repeats with each question (SENT-18).

use std::collections::VecDeque;

use super::Exchange;
use crate::sentinel::{ConversationConfig, TrimmingStrategy};

/// Estimated number of bytes in a token.
const BYTES_OF_A_TOKEN: usize = 4;

/// Earlier questions and answers; the oldest are dropped when there are too many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    strategy: TrimmingStrategy,
    exchanges: VecDeque<Exchange>,
}

impl Conversation {
    /// Returns an empty conversation.
    #[must_use]
    pub fn new(config: &ConversationConfig) -> Self {
        Self {
            strategy: config.trimming_strategy,
            exchanges: VecDeque::new(),
        }
    }

    /// Adds an exchange, and drops the oldest ones until the rest is within the limit; a single exchange above it is dropped, too.
    pub fn add(&mut self, exchange: Exchange) {
        self.exchanges.push_back(exchange);
        while self.is_too_long() {
            self.exchanges.pop_front();
        }
    }

    /// Returns the remembered exchanges, oldest first.
    #[must_use]
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.exchanges.iter().cloned().collect()
    }

    fn is_too_long(&self) -> bool {
        let (length, most) = match self.strategy {
            TrimmingStrategy::MaxTurns { max_turns } => (self.exchanges.len(), max_turns),
            TrimmingStrategy::MaxTokens { max_tokens } => {
                (self.exchanges.iter().map(tokens).sum(), max_tokens)
            }
        };
        usize::try_from(most).is_ok_and(|most| length > most)
    }
}

/// Returns the estimated number of tokens of an exchange.
fn tokens(exchange: &Exchange) -> usize {
    (exchange.question.len() + exchange.answer.len()).div_ceil(BYTES_OF_A_TOKEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remembered(trimming_strategy: TrimmingStrategy) -> Vec<String> {
        let mut conversation = Conversation::new(&ConversationConfig {
            trimming_strategy,
            continue_on_error: None,
        });
        for number in 1..=4 {
            conversation.add(Exchange {
                question: format!("q{number}"),
                answer: "four".to_owned(),
            });
        }
        let kept = conversation.exchanges().into_iter();
        kept.map(|exchange| exchange.question).collect()
    }

    // covers: SENT-18
    #[test]
    fn the_oldest_is_forgotten_by_turns_or_by_tokens() {
        assert_eq!(
            remembered(TrimmingStrategy::MaxTurns { max_turns: 3 }),
            ["q2", "q3", "q4"]
        );
        assert_eq!(
            remembered(TrimmingStrategy::MaxTokens { max_tokens: 4 }),
            ["q3", "q4"]
        );
        let nothing: [&str; 0] = [];
        assert_eq!(
            remembered(TrimmingStrategy::MaxTokens { max_tokens: 1 }),
            nothing,
            "an exchange that is too long for itself is forgotten as well"
        );
    }
}
