//! Captured log events of a test.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::rc::Rc;

use tracing::field::{Field, Visit};
use tracing::{Level, span};

/// Log event.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) level: Level,
    pub(crate) fields: BTreeMap<&'static str, String>,
}

impl Event {
    /// Returns the value of a field; empty if the event lacks it.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// Returns the names of the fields other than the message.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let names = self.fields.keys().copied();
        names.filter(|name| *name != "message").collect()
    }
}

/// Callback for events.
type EventCallback = Rc<dyn Fn(&Event)>;

thread_local! {
    /// Callback for the events of this thread.
    static CALLBACK: RefCell<Option<EventCallback>> = const { RefCell::new(None) };
}

/// Calls `callback` with every event of this thread from now on.
pub(crate) fn on_event(callback: impl Fn(&Event) + 'static) {
    // One subscriber for the whole process, set by the first call: events get lost if subscribers change while other tests log.
    let _ = tracing::subscriber::set_global_default(CallbackSubscriber);
    CALLBACK.set(Some(Rc::new(callback)));
}

/// Events of a thread since [`Events::capture`].
#[derive(Clone, Default)]
pub(crate) struct Events(Rc<RefCell<Vec<Event>>>);

impl Events {
    pub(crate) fn capture() -> Self {
        let events = Self::default();
        let kept = events.clone();
        on_event(move |event| kept.0.borrow_mut().push(event.clone()));
        events
    }

    /// Returns all events so far.
    pub(crate) fn all(&self) -> Vec<Event> {
        self.0.borrow().clone()
    }

    /// Returns the events with this message, and removes all events so far.
    pub(crate) fn take(&self, message: &str) -> Vec<Event> {
        let mut events = self.0.take();
        events.retain(|event| event.field("message") == message);
        events
    }
}

/// Subscriber that passes each event to the callback of its thread.
struct CallbackSubscriber;

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let value = format!("{value:?}");
        self.0.insert(field.name(), value.trim_matches('"').to_owned());
    }
}

impl tracing::Subscriber for CallbackSubscriber {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let event = Event {
            level: *event.metadata().level(),
            fields: fields.0,
        };
        if let Some(callback) = CALLBACK.with_borrow(Clone::clone) {
            callback(&event);
        }
    }
}
