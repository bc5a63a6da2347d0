//! From byte offsets to lines and columns.

use super::problem::Position;

/// Characters are counted from the nearest anchor, so a lookup costs at most this many bytes, however long a
/// line is.
const ANCHOR_DISTANCE: usize = 1024;

/// Finds the line and column of a byte offset.
pub(super) struct LineIndex<'t> {
    text: &'t str,
    /// Byte offsets with their positions: every start of a line, and further ones in long lines.
    anchors: Vec<(usize, Position)>,
}

impl<'t> LineIndex<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let mut anchors: Vec<(usize, Position)> = Vec::new();
        let (mut line, mut column) = (1, 1);
        // The end of the text gets an anchor too, if it is the start of a line.
        for (offset, character) in text.char_indices().chain([(text.len(), '\n')]) {
            let last = anchors.last().map_or(0, |(offset, _)| *offset);
            if column == 1 || offset - last >= ANCHOR_DISTANCE {
                anchors.push((offset, Position { line, column }));
            }
            (line, column) = match character {
                '\n' => (line + 1, 1),
                _ => (line, column + 1),
            };
        }
        Self { text, anchors }
    }

    /// Returns the position of the character that begins at byte `offset`; an offset after the end means the end.
    pub(super) fn position(&self, offset: usize) -> Position {
        let offset = offset.min(self.text.len());
        let after = self.anchors.partition_point(|(start, _)| *start <= offset);
        let (start, anchor) = self.anchors[after - 1];
        let between = self.text.get(start..offset).unwrap_or_default();
        let characters = between.chars().count();
        Position {
            column: anchor.column + u32::try_from(characters).unwrap_or(u32::MAX),
            ..anchor
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_from_one() {
        let lines = LineIndex::new("ab\näöx\n");
        let at = |offset| {
            let Position { line, column } = lines.position(offset);
            (line, column)
        };
        assert_eq!(
            [at(0), at(1), at(3), at(5), at(7), at(9), at(99)],
            [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 1), (3, 1)]
        );
    }

    #[test]
    fn a_very_long_line_has_right_columns_everywhere() {
        let text = "é".repeat(5000);
        let lines = LineIndex::new(&text);
        for column in [1u32, 511, 512, 513, 4999] {
            assert_eq!(
                lines.position((column as usize - 1) * 2),
                Position { line: 1, column }
            );
        }
    }
}
