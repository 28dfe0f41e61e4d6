//! Small statistics.

/// Returns the mean; none of nothing.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the least value that `part` (0 to 1) of all values do not exceed; none of nothing.
pub(crate) fn percentile(values: &[f64], part: f64) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let place = (values.len() as f64 * part).ceil() as usize;
    values.get(place.clamp(1, values.len().max(1)) - 1).copied()
}

/// Returns amounts as parts of their sum; all 0 where that is 0.
pub(crate) fn shares(amounts: &[u64]) -> Vec<f64> {
    let total: u64 = amounts.iter().sum();
    let share = |amount: &u64| if total == 0 { 0.0 } else { *amount as f64 / total as f64 };
    amounts.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_by_hand() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 0.99), Some(198.0));
        assert_eq!(percentile(&values, 1.0), Some(200.0));
        assert_eq!(percentile(&[7.0], 0.5), Some(7.0));
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(mean(&[1.0, 3.0]), Some(2.0));
        assert_eq!(mean(&[]), None);
    }

    #[test]
    fn shares_of_nothing() {
        assert_eq!(shares(&[0, 0]), [0.0, 0.0]);
        assert_eq!(shares(&[1, 3]), [0.25, 0.75]);
    }
}
