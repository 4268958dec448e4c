//! Amounts of money, in whole cents.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub};

use serde::{Deserialize, Serialize};

/// An amount of money. Positive: to the taxpayer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Money(i64);

impl Money {
    pub(crate) const ZERO: Self = Self(0);

    pub(crate) const fn dollars(dollars: i64) -> Self {
        Self(dollars * 100)
    }

    /// Reads `1,234.50` or `-1234.50`: always two digits of cents. Nothing above ten digits of dollars, so that sums fit.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
        let (dollars, cents) = digits.split_once('.')?;
        let groups: Vec<&str> = dollars.split(',').collect();
        let grouped =
            groups.len() == 1 || (1..=3).contains(&groups[0].len()) && groups[1..].iter().all(|group| group.len() == 3);
        let whole = groups.concat();
        let plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !grouped || !plain(&whole) || whole.len() > 10 || !plain(cents) || cents.len() != 2 {
            return None;
        }
        Some(Self(sign * (whole.parse::<i64>().ok()? * 100 + cents.parse::<i64>().ok()?)))
    }

    /// The amount times a fraction, rounded to the nearest cent, halves away from zero.
    pub(crate) fn times(self, numerator: i64, denominator: i64) -> Self {
        let (product, denominator) = (i128::from(self.0) * i128::from(numerator), i128::from(denominator));
        let rounded = (product.abs() + denominator / 2) / denominator * product.signum();
        Self(i64::try_from(rounded).unwrap_or(i64::MAX))
    }

    /// Without separators: `1234.50`.
    pub(crate) fn plain(self) -> String {
        self.to_string().replace(',', "")
    }

    pub(crate) fn is_credit(self) -> bool {
        self.0 > 0
    }
}

impl Add for Money {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Neg for Money {
    type Output = Self;

    fn neg(self) -> Self {
        Self(-self.0)
    }
}

impl Sub for Money {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Sum for Money {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dollars, cents) = (self.0.unsigned_abs() / 100, self.0.unsigned_abs() % 100);
        let digits = dollars.to_string();
        let mut text = String::with_capacity(digits.len() + 8);
        for (place, digit) in digits.chars().enumerate() {
            if place > 0 && (digits.len() - place).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&format!("{}{text}.{cents:02}", if self.0 < 0 { "-" } else { "" }))
    }
}
