//! Normalizes labels, so that `1` and `1.0`, or `True` and `true`, are the same class in CSV, JSON Lines and Parquet.

/// Maximum number of digits; more do not fit an `f64` exactly, and such a label is left unchanged.
const MAX_DIGITS: usize = 15;

/// Returns the normalized label: without surrounding blanks, booleans in lower case, plain decimal numbers without a
/// plus sign and redundant zeros. Numbers with a leading zero (`007`) are codes and left unchanged.
pub(super) fn normalize_label(label: &str) -> String {
    let label = label.trim();
    for truth in ["true", "false"] {
        if label.eq_ignore_ascii_case(truth) {
            return truth.to_string();
        }
    }
    decimal(label).map_or_else(|| label.to_string(), |number| number.to_string())
}

/// Returns the value of a plain decimal number.
fn decimal(label: &str) -> Option<f64> {
    let digits = label.strip_prefix(['+', '-']).unwrap_or(label);
    let (whole, fraction) = match digits.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (digits, ""),
    };
    let is_code = whole.is_empty() || (whole.len() > 1 && whole.starts_with('0'));
    let are_digits = whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    if is_code || !are_digits || whole.len() + fraction.len() > MAX_DIGITS {
        return None;
    }
    // Adding zero turns -0 into 0.
    label.parse().ok().map(|value: f64| value + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_one_spelling() {
        for (form, written) in [
            ("true", &["True", "TRUE", " true "][..]),
            ("1", &["1.0", "+1", "1.000", "1\u{a0}"]),
            ("0", &["-0", "0.0", "-0.00"]),
            ("-2.5", &["-2.50", " -2.5"]),
            ("0.1", &["0.10"]),
        ] {
            for label in written {
                assert_eq!(normalize_label(label), form, "{label:?}");
            }
        }
        // Codes and words are not numbers.
        for label in ["007", "1e3", "1.", ".5", "nan", "inf", "12345678901234567890", "1,5", "Yes", "größer"]
        {
            assert_eq!(normalize_label(label), label);
        }
    }
}
