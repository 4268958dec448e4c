use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::str::FromStr;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Picodollars per dollar.
const DOLLAR: u64 = 1_000_000_000_000;
/// The number of decimal places of a picodollar.
const PLACES: usize = 12;

/// An exact amount of US dollars, in picodollars (10⁻¹² dollars). The price of a single token is a whole number of
/// picodollars, so costs are sums of integers.
///
/// The largest amount is about 18 million dollars. If a sum is larger, the result is the largest amount. In JSON, an
/// amount is a string with a decimal number of dollars: `"0.00125"`. Deserialization also accepts a JSON number.
///
/// ```
/// use hier_checkpoint::message::Usd;
///
/// let cost = Usd::from_dollars(0.1) + Usd::from_dollars(0.2);
/// assert_eq!(cost, Usd::from_dollars(0.3));
/// assert_eq!(cost.to_string(), "$0.30");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Usd(u64);

impl Usd {
    /// Zero dollars.
    pub const ZERO: Self = Self(0);
    /// The largest amount, about 18 million dollars.
    pub const MAX: Self = Self(u64::MAX);

    /// Creates the nearest amount to a number of dollars. A negative number or NaN becomes 0, and a number that is too
    /// large becomes [`Usd::MAX`].
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // the cast saturates
    pub const fn from_dollars(dollars: f64) -> Self {
        Self((dollars * DOLLAR as f64).round() as u64)
    }

    /// Creates an amount from picodollars.
    pub const fn from_picodollars(picodollars: u64) -> Self {
        Self(picodollars)
    }

    /// Returns the amount in picodollars.
    pub const fn picodollars(self) -> u64 {
        self.0
    }

    /// Returns the nearest number of dollars, for display and metrics. To add amounts, add `Usd` values instead.
    #[allow(clippy::cast_precision_loss)]
    pub fn dollars(self) -> f64 {
        self.0 as f64 / DOLLAR as f64
    }

    /// Returns the exact decimal number, with at least two places.
    fn decimal(self) -> String {
        let places = format!("{:0PLACES$}", self.0 % DOLLAR);
        let (cents, rest) = places.split_at(2);
        format!("{}.{cents}{}", self.0 / DOLLAR, rest.trim_end_matches('0'))
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${}", self.decimal())
    }
}

impl Add for Usd {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

/// The error for a string that is not an amount of US dollars.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an amount of US dollars: write a decimal number from 0 to 18446744 with at most 12 places, such as `0.00125`"
)]
pub struct InvalidUsd(String);

impl FromStr for Usd {
    type Err = InvalidUsd;

    fn from_str(text: &str) -> Result<Self, InvalidUsd> {
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let read = || {
            let (whole, places) = text.split_once('.').unwrap_or((text, "0"));
            let is_number = !whole.is_empty() && digits(whole) && !places.is_empty() && digits(places);
            if !is_number || places.len() > PLACES {
                return None;
            }
            let whole: u64 = whole.parse().ok()?;
            let places: u64 = format!("{places:0<PLACES$}").parse().ok()?;
            whole.checked_mul(DOLLAR)?.checked_add(places)
        };
        read().map(Self).ok_or_else(|| InvalidUsd(text.chars().take(40).collect()))
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.decimal())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UsdVisitor)
    }
}

struct UsdVisitor;

impl Visitor<'_> for UsdVisitor {
    type Value = Usd;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an amount of US dollars, such as `\"0.00125\"`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Usd, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, dollars: u64) -> Result<Usd, E> {
        dollars.checked_mul(DOLLAR).map(Usd).ok_or_else(|| E::custom(InvalidUsd(dollars.to_string())))
    }

    fn visit_i64<E: Error>(self, dollars: i64) -> Result<Usd, E> {
        u64::try_from(dollars).map_err(|_| E::custom(InvalidUsd(dollars.to_string()))).and_then(|it| self.visit_u64(it))
    }

    fn visit_f64<E: Error>(self, dollars: f64) -> Result<Usd, E> {
        if (0.0..=Usd::MAX.dollars()).contains(&dollars) {
            return Ok(Usd::from_dollars(dollars));
        }
        Err(E::custom(InvalidUsd(dollars.to_string())))
    }
}

#[cfg(test)]
#[path = "../../tests/unit/usd.rs"]
mod tests;
