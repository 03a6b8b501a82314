//! Parses and formats the time budget of a run, as on the command line.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Longest budget: ten years.
const MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A time budget, as `90s`, `45m`, `2h` or `1h 30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget(pub Duration);

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = |error| format!("{text:?} is not a time such as 45m or 2h: {error}");
        let budget = humantime::parse_duration(text).map_err(invalid)?;
        if budget > MAX { Err(format!("{text:?} is longer than ten years")) } else { Ok(Self(budget)) }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

bert_storage::json_as_text!(Budget);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_round_trips() {
        for (text, seconds) in [("90s", 90), ("45m", 2700), ("2h", 7200), ("1h 30m", 5400), ("1h30m", 5400)] {
            let budget: Budget = text.parse().unwrap();
            assert_eq!(budget.0, Duration::from_secs(seconds));
            assert_eq!(budget.to_string().parse(), Ok(budget));
        }
        for text in ["", "2", "h", "-1h", "2 fortnights", "11y", "18446744073709551615s"] {
            assert!(text.parse::<Budget>().is_err(), "{text}");
        }
    }
}
