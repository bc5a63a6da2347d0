//! Promises of every journal.

use hankweave_core::id::EventId;
use hankweave_core::time::Timestamp;
use hankweave_core::wire::Event;

use super::*;

const EVERYTHING: PageLimit = PageLimit {
    entries: usize::MAX,
    bytes: usize::MAX,
};

pub(super) fn entry(seq: u64) -> JournalEntry {
    JournalEntry {
        seq,
        id: EventId::new(format!("event-{seq}")).unwrap(),
        timestamp: Timestamp::UNIX_EPOCH,
        event: Event::Info {
            message: format!("number {seq}"),
        },
    }
}

pub(super) fn entries(seqs: impl IntoIterator<Item = u64>) -> Batch {
    Batch::new(&seqs.into_iter().map(entry).collect::<Vec<_>>())
}

pub(super) fn seqs(page: &JournalPage) -> Vec<u64> {
    page.entries.iter().map(|entry| entry.seq).collect()
}

/// Checks the whole contract; `make` gives an empty journal and what must live as long as it does.
pub(super) fn check<J: EventJournal, K>(make: impl Fn() -> (J, K)) {
    let rules: [fn(&dyn EventJournal); 7] = [
        an_empty_journal_gives_empty_pages,
        entries_come_back_as_they_were,
        pages_cover_everything_once_and_in_order,
        one_entry_over_the_limit_still_makes_a_page,
        restored_entries_stand_at_their_place,
        lines_are_what_the_entries_are_written_as,
        entries_are_counted,
    ];
    for rule in rules {
        let (journal, _keep) = make();
        rule(&journal);
    }
}

fn an_empty_journal_gives_empty_pages(journal: &dyn EventJournal) {
    let page = journal.read_after(0, EVERYTHING).unwrap();
    assert_eq!(
        (
            page.entries.len(),
            page.corrupt_lines,
            page.more,
            journal.last_seq()
        ),
        (0, 0, false, 0)
    );
    journal.append(&Batch::default()).unwrap();
    journal.restore(Vec::new()).unwrap();
    journal.sync().unwrap();
}

fn entries_come_back_as_they_were(journal: &dyn EventJournal) {
    journal.append(&entries([1, 2, 5])).unwrap();
    journal.sync().unwrap();
    assert_eq!(
        journal.read_after(0, EVERYTHING).unwrap().entries,
        [1, 2, 5].map(entry)
    );
    assert_eq!(journal.last_seq(), 5);
}

fn pages_cover_everything_once_and_in_order(journal: &dyn EventJournal) {
    for first in [1, 5, 9] {
        journal
            .append(&entries((first..first + 4).map(|n| n * 10)))
            .unwrap();
    }
    for entries in [1, 3, 100] {
        let (mut after, mut read) = (15, Vec::new());
        loop {
            let page = journal
                .read_after(
                    after,
                    PageLimit {
                        entries,
                        bytes: usize::MAX,
                    },
                )
                .unwrap();
            read.extend(seqs(&page));
            let Some(last) = read.last().filter(|_| page.more) else {
                break;
            };
            after = *last;
        }
        assert_eq!(
            read,
            (2..=12).map(|n| n * 10).collect::<Vec<_>>(),
            "{entries} entries in a page"
        );
    }
}

fn one_entry_over_the_limit_still_makes_a_page(journal: &dyn EventJournal) {
    journal.append(&entries([1, 2])).unwrap();
    let page = journal
        .read_after(
            0,
            PageLimit {
                entries: 10,
                bytes: 1,
            },
        )
        .unwrap();
    assert_eq!((seqs(&page), page.more), (vec![1], true));
}

fn restored_entries_stand_at_their_place(journal: &dyn EventJournal) {
    journal.append(&entries([1, 4, 6])).unwrap();
    journal.restore(vec![entry(7), entry(5)]).unwrap();
    assert_eq!(journal.last_seq(), 7);
    journal.restore(vec![entry(9), entry(8)]).unwrap();
    journal.append(&entries([10])).unwrap();
    assert_eq!(
        seqs(&journal.read_after(0, EVERYTHING).unwrap()),
        [1, 4, 5, 6, 7, 8, 9, 10]
    );
}

fn lines_are_what_the_entries_are_written_as(journal: &dyn EventJournal) {
    journal.append(&entries([1, 2, 5, 6])).unwrap();
    let expected = [2, 5].map(|seq| (seq, serde_json::to_string(&entry(seq)).unwrap()));
    let mut lines = Vec::new();
    let show = &mut |seq, line: &[u8]| {
        let wanted = seq < 6;
        if wanted {
            lines.push((seq, String::from_utf8(line.to_vec()).unwrap()));
        }
        wanted
    };
    journal.lines_after(1, show).unwrap();
    assert_eq!(lines, expected);
    let show = &mut |seq, _: &[u8]| panic!("{seq} is not after the end");
    journal.lines_after(6, show).unwrap();
}

fn entries_are_counted(journal: &dyn EventJournal) {
    assert_eq!(journal.count().unwrap(), 0);
    journal.append(&entries([1, 2, 5])).unwrap();
    assert_eq!(journal.count().unwrap(), 3);
    journal.restore(vec![entry(3), entry(4)]).unwrap();
    assert_eq!(journal.count().unwrap(), 5);
}
