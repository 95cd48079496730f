//! Statistics of a few numbers.

/// Returns the median.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => f64::NAN,
        (count, middle) if count % 2 == 1 => sorted[middle],
        (_, middle) => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

/// Returns a quantile.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = share * (sorted.len().saturating_sub(1)) as f64;
    sorted
        .get(place.round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_and_the_quantiles_of_a_few_numbers_are_correct() {
        let values = [3.0, 1.0, 2.0, 5.0, 4.0];
        assert_eq!(median(&values), 3.0);
        assert_eq!(quantile(&values, 0.0), 1.0);
        assert_eq!(quantile(&values, 0.99), 5.0);
        assert_eq!(quantile(&values, 1.0), 5.0);
        assert_eq!(median(&[7.0]), 7.0);
        assert_eq!(median(&[1.0, 4.0, 2.0, 100.0]), 3.0);
        assert!(median(&[]).is_nan());
    }
}
