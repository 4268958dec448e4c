//! States with parameters, without channels, with awkward names.

use super::*;

/// A state with parameters: a type that is persisted, a constant, a type that is not.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Page<T: Ord, const N: usize, H = ()>
where
    T: std::fmt::Display,
{
    #[state(flatten)]
    root: Root,
    #[reducer(append)]
    items: Vec<T>,
    #[reducer(max)]
    best: Option<T>,
    #[channel(untracked)]
    #[serde(skip)]
    cache: Option<H>,
}

/// Flattens a state with parameters.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Book {
    #[state(flatten)]
    page: Page<String, 3, Vec<u8>>,
    title: String,
}

#[test]
fn states_may_have_parameters() {
    let update = Page::<u32, 1>::update().items([2, 1]).best(Some(2)).log(["x".to_owned()]).cache(());
    let page = applied(Page::<u32, 1>::default(), [update, Page::update().best(Some(1))]);
    assert_eq!((&*page.items, page.best, page.root.log.len()), (&[2, 1][..], Some(2), 1));
    let book = applied(Book::default(), [Book::update().title("t").items(["i".to_owned()]).owner("o".to_owned())]);
    assert_eq!(
        (&*book.page.items, book.page.root.owner.as_deref(), &*book.title),
        (&["i".to_owned()][..], Some("o"), "t")
    );
    assert_eq!(Book::channels().items.get(&book), &["i"]);
    let names: Vec<_> = Book::CHANNELS.iter().map(|channel| &*channel.name).collect();
    assert_eq!(names, ["title", "items", "best", "cache", "log", "owner"]);
}

#[test]
fn state_may_be_empty_or_hold_only_another() {
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct Nothing {}
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct Wrapper {
        #[state(flatten)]
        root: Root,
        last: IsLastStep,
    }
    assert!(Nothing::CHANNELS.is_empty() && Nothing::update().writes().is_empty());
    let state = applied(Wrapper::default(), [Wrapper::update().owner("o".to_owned())]);
    assert_eq!(state.root.owner.as_deref(), Some("o"));
    assert!(!state.last.get());
}

/// Names of channels that are also names of methods and types that the generated code uses.
#[test]
fn any_field_name_is_a_channel_name() {
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct Odd {
        channel: Option<u8>,
        name: String,
        clone: String,
        write: Option<String>,
        writes: u8,
        default: bool,
        value: char,
        state: f32,
        #[reducer(append)]
        into_any: Vec<u8>,
        #[reducer(sum)]
        u8: u8,
        set: Option<Vec<u8>>,
        r#match: u64,
    }
    let update = Odd::update().channel(1).name("n").clone("c").write("w".to_owned()).writes(1).default(true).value('v');
    let update = update.state(0.5).into_any([1]).u8(2).set(vec![1]).r#match(3);
    let state = applied(Odd::default(), [update]);
    assert_eq!((state.channel, &*state.name, &*state.clone, state.write.as_deref()), (Some(1), "n", "c", Some("w")));
    assert_eq!((state.writes, state.default, state.value, state.state), (1, true, 'v', 0.5));
    assert_eq!((&*state.into_any, state.u8, state.set, state.r#match), (&[1][..], 2, Some(vec![1]), 3));
    assert_eq!(Odd::channels().r#match.name(), "match");
}
