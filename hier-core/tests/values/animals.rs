//! The types: each with a value that some format cannot hold as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Number, Value, json};
use uuid::Uuid;

pub(crate) const IP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7));
pub(crate) const ID: Uuid = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);

/// A text in JSON and four bytes elsewhere, as many types of libraries are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hex(u32);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(&format_args!("{:08x}", self.0))
        } else {
            serializer.serialize_bytes(&self.0.to_be_bytes())
        }
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            return u32::from_str_radix(&text, 16).map(Self).map_err(D::Error::custom);
        }
        let bytes = serde_bytes::ByteBuf::deserialize(deserializer)?;
        let bytes = (**bytes).try_into().map_err(|_| D::Error::custom("four bytes"))?;
        Ok(Self(u32::from_be_bytes(bytes)))
    }
}

/// A date as chrono and jiff serialize one: with `collect_str`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Day(u16, u8, u8);

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.0, self.1, self.2)
    }
}

impl Serialize for Day {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Day {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let text = String::deserialize(deserializer)?;
        let parts: Vec<u16> = text.split('-').filter_map(|part| part.parse().ok()).collect();
        let [year, month, day] = parts[..] else { return Err(D::Error::custom("a day has three numbers")) };
        let small = |number: u16| u8::try_from(number).map_err(D::Error::custom);
        Ok(Self(year, small(month)?, small(day)?))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Unit;

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Pair(pub(crate) u8, pub(crate) String);

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Wrapped(pub(crate) Uuid);

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) x: i32,
    pub(crate) y: i32,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum External {
    Unit,
    New(IpAddr),
    Tuple(u8, IpAddr),
    Struct { ip: IpAddr },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub(crate) enum Internal {
    Unit,
    At { ip: IpAddr, maybe: Option<Option<u8>> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "content")]
pub(crate) enum Adjacent {
    Unit,
    New(IpAddr),
    Tuple(u8, Uuid),
    Struct { hex: Hex },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Untagged {
    Ip(IpAddr),
    Hex(Hex),
    Number(u64),
    Struct { id: Uuid },
    Name(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Flat {
    name: String,
    #[serde(flatten)]
    inner: Inner,
    #[serde(flatten)]
    others: BTreeMap<String, IpAddr>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Inner {
    ip: SocketAddr,
    id: Uuid,
    hex: Hex,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Skipped {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    absent: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    present: Option<Option<u8>>,
}

/// Declares the zoo: a state with a channel for each animal, the state of a later version with other names, and the values.
macro_rules! zoo {
    ($($name:ident $renamed:ident: $type:ty = $value:expr $(, json $json:expr)?;)*) => {
        #[derive(hier_core::prelude::State, Clone, Debug, Default, Serialize, Deserialize)]
        pub(crate) struct Zoo {
            $(pub(crate) $name: $type,)*
        }

        /// The animals under other names. The migration takes every value out of the map.
        #[derive(hier_core::prelude::State, Clone, Debug, Default, Serialize, Deserialize)]
        #[state(version = 2, migrate = rename)]
        pub(crate) struct Renamed {
            $(pub(crate) $renamed: $type,)*
        }

        fn rename(stored: &mut serde_json::Map<String, Value>) -> hier_core::Result<()> {
            $(if let Some(value) = stored.remove(stringify!($name)) {
                stored.insert(stringify!($renamed).to_owned(), value);
            })*
            Ok(())
        }

        /// The animals, and a channel that the migration adds.
        #[derive(hier_core::prelude::State, Clone, Debug, Default, Serialize, Deserialize)]
        #[state(version = 2, migrate = add_keeper)]
        pub(crate) struct Larger {
            pub(crate) keeper: String,
            $(pub(crate) $name: $type,)*
        }

        fn add_keeper(stored: &mut serde_json::Map<String, Value>) -> hier_core::Result<()> {
            stored.insert("keeper".to_owned(), "ann".into());
            Ok(())
        }

        /// All animals.
        pub(crate) fn full() -> Zoo {
            Zoo { $($name: $value,)* }
        }

        /// Each animal as text: equal for what `==` finds different, as NaN, and different for what it finds equal, as `-0.0`.
        pub(crate) fn exact() -> Vec<(&'static str, String)> {
            full().texts()
        }

        /// The animals after a path that is JSON: it has one null.
        pub(crate) fn through_json() -> Vec<(&'static str, String)> {
            #[allow(unused_mut)]
            let mut expected = exact();
            $($(expected.iter_mut().filter(|(name, _)| *name == stringify!($name)).for_each(|(_, text)| *text = $json.to_owned());)?)*
            expected
        }

        impl Zoo {
            pub(crate) fn texts(&self) -> Vec<(&'static str, String)> {
                vec![$((stringify!($name), format!("{:?}", self.$name)),)*]
            }
        }

        impl Renamed {
            pub(crate) fn texts(&self) -> Vec<(&'static str, String)> {
                vec![$((stringify!($name), format!("{:?}", self.$renamed)),)*]
            }
        }

        impl Larger {
            pub(crate) fn texts(&self) -> Vec<(&'static str, String)> {
                vec![$((stringify!($name), format!("{:?}", self.$name)),)*]
            }
        }
    };
}

zoo! {
    id id_2: Uuid = ID;
    ip ip_2: Option<IpAddr> = Some(IP);
    socket socket_2: Option<SocketAddr> = Some(SocketAddr::new(IP, 80));
    duration duration_2: Duration = Duration::new(7, 999_999_999);
    time time_2: Option<SystemTime> = Some(SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789));
    day day_2: Day = Day(2025, 11, 5);
    bytes bytes_2: serde_bytes::ByteBuf = serde_bytes::ByteBuf::from(vec![0, 255, 128]);
    letter letter_2: char = 'ü';
    most most_2: u64 = u64::MAX;
    least least_2: i64 = i64::MIN;
    huge huge_2: u128 = u128::MAX;
    low low_2: i128 = i128::MIN;
    high high_2: i128 = i128::MAX;
    wide wide_2: u128 = 7;
    single single_2: f32 = 0.1;
    double double_2: f64 = 5e-324;
    nan nan_2: f64 = f64::NAN;
    infinite infinite_2: Vec<f32> = vec![f32::INFINITY, f32::NEG_INFINITY];
    zero zero_2: f64 = -0.0;
    nested nested_2: Option<Option<u8>> = Some(None), json "None";
    deeper deeper_2: Vec<Option<Option<Option<u8>>>> = vec![None, Some(None), Some(Some(None)), Some(Some(Some(1)))],
        json "[None, None, None, Some(Some(Some(1)))]";
    null null_2: Option<Value> = Some(Value::Null), json "None";
    unit_option unit_option_2: Option<()> = Some(()), json "None";
    by_number by_number_2: BTreeMap<u32, String> = [(7, "a".to_owned())].into();
    by_signed by_signed_2: BTreeMap<i64, u8> = [(-7, 1), (7, 2)].into();
    by_bool by_bool_2: BTreeMap<bool, u8> = [(true, 1), (false, 2)].into();
    by_pair by_pair_2: BTreeMap<(i32, i32), String> = [((1, -2), "b".to_owned())].into();
    by_point by_point_2: BTreeMap<Point, u8> = [(Point { x: 1, y: 2 }, 3)].into();
    by_tuple by_tuple_2: BTreeMap<Pair, u8> = [(Pair(1, "x\"y".to_owned()), 3)].into();
    by_letter by_letter_2: BTreeMap<char, u8> = [('x', 1)].into();
    by_id by_id_2: BTreeMap<Uuid, u8> = [(ID, 1)].into();
    by_variant by_variant_2: BTreeMap<External, u8> =
        [(External::Unit, 1), (External::New(IP), 2), (External::Struct { ip: IP }, 3)].into();
    by_option by_option_2: BTreeMap<Option<u32>, u8> = [(Some(1), 1)].into();
    unit unit_2: Unit = Unit;
    nothing nothing_2: () = ();
    pair pair_2: Pair = Pair(1, "one".to_owned());
    wrapped wrapped_2: Wrapped = Wrapped(ID);
    external external_2: Vec<External> =
        vec![External::Unit, External::New(IP), External::Tuple(1, IP), External::Struct { ip: IP }];
    internal internal_2: Vec<Internal> = vec![Internal::Unit, Internal::At { ip: IP, maybe: Some(None) }],
        json "[Unit, At { ip: 10.0.0.7, maybe: None }]";
    adjacent adjacent_2: Vec<Adjacent> =
        vec![Adjacent::Unit, Adjacent::New(IP), Adjacent::Tuple(1, ID), Adjacent::Struct { hex: Hex(15) }];
    untagged untagged_2: Vec<Untagged> = vec![
        Untagged::Ip(IP),
        Untagged::Hex(Hex(0xffff_ffff)),
        Untagged::Number(u64::MAX),
        Untagged::Struct { id: ID },
        Untagged::Name("ann".to_owned()),
    ];
    flat flat_2: Option<Flat> = Some(Flat {
        name: "ann".to_owned(),
        inner: Inner { ip: SocketAddr::new(IP, 80), id: ID, hex: Hex(7) },
        others: [("home".to_owned(), IP)].into(),
    });
    value value_2: Value = json!({ "b": [1, -1, 1.5, null, true, u64::MAX, "x"], "a": {} });
    number number_2: Option<Number> = Some(Number::from(7));
    boxed boxed_2: Box<Uuid> = Box::new(ID);
    shared shared_2: Arc<Uuid> = Arc::new(ID);
    set set_2: BTreeSet<Uuid> = [ID].into();
    array array_2: Option<[IpAddr; 2]> = Some([IP, IP]);
    tuple tuple_2: (u8, Option<IpAddr>, f32) = (1, Some(IP), 0.1);
    skipped skipped_2: Skipped = Skipped { absent: None, present: Some(None) }, json "Skipped { absent: None, present: None }";
    hex hex_2: Hex = Hex(0xdead_beef);
    range range_2: std::ops::Range<u32> = 1..7;
    path path_2: PathBuf = PathBuf::from("a/b");
    result result_2: Option<Result<u8, String>> = Some(Err("no".to_owned()));
}
