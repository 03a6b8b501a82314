//! Encodes the fractions of a JSON value without loss.
//!
//! `serde_json` can be off by one in the last place when it reads a fraction, so fractions are stored as strings, which
//! the standard library parses exactly.

use serde_json::{Number, Value};

/// Returns the value with every fraction as a string prefixed with `=`, and every string prefixed with `'`.
pub(crate) fn encode(value: Value) -> Value {
    map_leaves(value, &|value| match value {
        Value::Number(number) if number.is_f64() => {
            Value::String(format!("={}", number.as_f64().expect("checked above")))
        }
        Value::String(text) => Value::String(format!("'{text}")),
        other => other,
    })
}

/// Inverse of [`encode`].
pub(crate) fn decode(value: Value) -> Value {
    map_leaves(value, &|value| match value {
        Value::String(text) => match text.strip_prefix('=') {
            Some(number) => number.parse().ok().and_then(Number::from_f64).map_or(Value::Null, Value::Number),
            None => Value::String(text.strip_prefix('\'').unwrap_or(&text).to_string()),
        },
        other => other,
    })
}

/// Returns the value with every number, string, Boolean and null replaced by `leaf`.
fn map_leaves(value: Value, leaf: &dyn Fn(Value) -> Value) -> Value {
    match value {
        Value::Array(values) => values.into_iter().map(|value| map_leaves(value, leaf)).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, map_leaves(value, leaf))).collect(),
        value => leaf(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn encoded_numbers_are_decoded_bit_for_bit() {
        let mut bits = 0x3fb9_9999_9999_9999u64;
        let numbers: Vec<f64> = (0..2000)
            .map(|_| {
                bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                f64::from_bits(0x3000_0000_0000_0000 + (bits >> 3))
            })
            .collect();
        let value = json!({ "numbers": numbers, "texts": ["", "=1.5", "'", "a"], "whole": 7, "one": 1.0, "none": null });
        let text = encode(value.clone()).to_string();
        assert_eq!(decode(serde_json::from_str(&text).unwrap()), value);
    }
}
