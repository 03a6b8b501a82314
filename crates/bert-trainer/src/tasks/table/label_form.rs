//! Gives labels one written form, so that CSV, JSON Lines and Parquet mean the same classes by `1` and `1.0`, or by
//! `True` and `true`.

/// More digits than these do not fit an `f64` exactly; such a label stays as it is.
const MOST_DIGITS: usize = 15;

/// The one written form of a label: without blanks around it, truth values in small letters, plain decimal numbers
/// without a plus sign and without zeros that say nothing. Numbers that begin with a zero (`007`) are codes and stay.
pub(super) fn canonical(label: &str) -> String {
    let label = label.trim();
    for truth in ["true", "false"] {
        if label.eq_ignore_ascii_case(truth) {
            return truth.to_string();
        }
    }
    decimal(label).map_or_else(|| label.to_string(), |number| number.to_string())
}

/// The value of a plain decimal number.
fn decimal(label: &str) -> Option<f64> {
    let digits = label.strip_prefix(['+', '-']).unwrap_or(label);
    let (whole, fraction) = match digits.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (digits, ""),
    };
    let is_code = whole.is_empty() || (whole.len() > 1 && whole.starts_with('0'));
    let are_digits = whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    if is_code || !are_digits || whole.len() + fraction.len() > MOST_DIGITS {
        return None;
    }
    // The sum makes zero of minus zero.
    label.parse().ok().map(|value: f64| value + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_meaning_has_one_form() {
        for (form, written) in [
            ("true", &["True", "TRUE", " true "][..]),
            ("1", &["1.0", "+1", "1.000", "1\u{a0}"]),
            ("0", &["-0", "0.0", "-0.00"]),
            ("-2.5", &["-2.50", " -2.5"]),
            ("0.1", &["0.10"]),
        ] {
            for label in written {
                assert_eq!(canonical(label), form, "{label:?}");
            }
        }
        // Codes and words are no numbers.
        for label in ["007", "1e3", "1.", ".5", "nan", "inf", "12345678901234567890", "1,5", "Yes", "größer"]
        {
            assert_eq!(canonical(label), label);
        }
    }
}
