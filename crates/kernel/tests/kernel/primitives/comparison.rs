use tidegate_kernel::primitives::{PrimitiveError, noisy_comparison};
use tidegate_kernel::{Epsilon, ResponseError, Sealed, SeededRandom};

use super::DRAWS;
use crate::support::{assert_fits, assert_rejects, epsilon, permit, tally};

#[test]
fn the_answer_is_right_with_the_same_probability_for_every_gap() {
    let amount = epsilon("1");
    let right = |epsilon: f64| 1.0 / (1.0 + (-epsilon).exp());
    for (index, (left, other, truth)) in
        [(0, 1, true), (1, 0, false), (5, 5, false), (i64::MIN, i64::MAX, true)].into_iter().enumerate()
    {
        let (left, other) = (Sealed::at(0, left), Sealed::at(0, other));
        let mut random = SeededRandom::new(130 + index as u64);
        let drawn = tally(DRAWS / 2, 2, || {
            let answer = noisy_comparison((permit(amount), &left), (permit(amount), &other), &mut random).unwrap();
            usize::from(answer.into_value() == truth)
        });
        assert_fits(&drawn, &[1.0 - right(1.0), right(1.0)]);
        assert_rejects(&drawn, &[1.0 - right(1.1), right(1.1)]);
        assert_rejects(&drawn, &[1.0 - right(0.9), right(0.9)]);
    }
}

#[test]
fn both_readings_pay_the_same() {
    let random = &mut SeededRandom::new(1);
    let reading = Sealed::at(0, 1);
    let result = noisy_comparison((permit(epsilon("1")), &reading), (permit(epsilon("2")), &reading), random);
    assert_eq!(result, Err(PrimitiveError::UnequalPermits { first: epsilon("1"), other: epsilon("2") }));
    let result = noisy_comparison((permit(Epsilon::MAX), &reading), (permit(Epsilon::MAX), &reading), random);
    assert_eq!(result, Err(PrimitiveError::Response(ResponseError::Epsilon { given: Epsilon::MAX })));
}
