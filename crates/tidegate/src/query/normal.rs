//! Quantiles of the normal distribution: algorithm AS 241 (Wichura 1988), with a relative error of about 1e-16.

/// Number that a standard normal variable exceeds with probability `tail`, from zero to one half.
pub(super) fn upper_quantile(tail: f64) -> f64 {
    let from_middle = 0.5 - tail;
    if from_middle <= 0.425 {
        let r = 0.180625 - from_middle * from_middle;
        return from_middle * polynomial(&MIDDLE.0, r) / polynomial(&MIDDLE.1, r);
    }
    let r = (-tail.ln()).sqrt();
    let (terms, r) = if r <= 5.0 { (&NEAR_TAIL, r - 1.6) } else { (&FAR_TAIL, r - 5.0) };
    polynomial(&terms.0, r) / polynomial(&terms.1, r)
}

/// Evaluates a polynomial; the lowest power comes first.
fn polynomial(coefficients: &[f64; 8], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

/// Numerator and denominator of a rational approximation.
type Ratio = ([f64; 8], [f64; 8]);

const MIDDLE: Ratio = (
    [
        3.3871328727963665,
        133.14166789178438,
        1971.5909503065513,
        13731.69376550946,
        45921.95393154987,
        67265.7709270087,
        33430.57558358813,
        2509.0809287301227,
    ],
    [
        1.0,
        42.31333070160091,
        687.1870074920579,
        5394.196021424751,
        21213.794301586597,
        39307.89580009271,
        28729.085735721943,
        5226.495278852854,
    ],
);

const NEAR_TAIL: Ratio = (
    [
        1.4234371107496835,
        4.630337846156546,
        5.769497221460691,
        3.6478483247632045,
        1.2704582524523684,
        0.2417807251774506,
        0.022723844989269184,
        0.0007745450142783414,
    ],
    [
        1.0,
        2.053191626637759,
        1.6763848301838038,
        0.6897673349851,
        0.14810397642748008,
        0.015198666563616457,
        0.0005475938084995345,
        1.0507500716444169e-09,
    ],
);

const FAR_TAIL: Ratio = (
    [
        6.657904643501103,
        5.463784911164114,
        1.7848265399172913,
        0.29656057182850487,
        0.026532189526576124,
        0.0012426609473880784,
        2.7115555687434876e-05,
        2.0103343992922881e-07,
    ],
    [
        1.0,
        0.599832206555888,
        0.1369298809227358,
        0.014875361290850615,
        0.0007868691311456133,
        1.8463183175100548e-05,
        1.421511758316446e-07,
        2.0442631033899397e-15,
    ],
);

#[cfg(test)]
mod tests {
    use super::upper_quantile;

    #[test]
    fn quantiles_agree_with_published_values() {
        let known = [
            (0.5, 0.0),
            (0.4, 0.2533471031358),
            (0.25, 0.674489750196082),
            (0.1, 1.2815515655446),
            (0.05, 1.644853626951473),
            (0.025, 1.959963984540054),
            (0.01, 2.326347874040841),
            (0.005, 2.575829303548901),
            (0.0005, 3.290526731491895),
            (1e-6, 4.753424308822899),
            (1e-10, 6.361340902404056),
            (1e-20, 9.262340089798409),
            (1e-300, 37.0470962993612),
        ];
        for (tail, quantile) in known {
            assert!((upper_quantile(tail) - quantile).abs() < 1e-9, "{tail}");
        }
    }
}
