//! Broken sequence mechanisms: one user's symbols.

use std::sync::Arc;

use tidegate::sequence::crr;
use tidegate::sequence::model::Model;
use tidegate_kernel::Epsilon;
use tidegate_lab::audit::targets::sequence::{Method, Promise, SequenceTarget};
use tidegate_lab::audit::{Input, Pair, Target};
use tidegate_lab::sequence::paper_crr_not_private;

use super::{Form, Variant, caught, drawn};

/// A symbol through a channel, given as a row for each symbol; where none is given, one that is drawn.
fn channel(claimed: f64, pair: Pair, truth: Vec<f64>, rows: Vec<Vec<f64>>) -> Variant {
    Variant::new(claimed, vec![pair], move |input, random| {
        let symbol = match input {
            Input::Symbols(symbols) => symbols[0] as usize,
            _ => drawn(&truth, random),
        };
        vec![drawn(&rows[symbol], random) as f64]
    })
}

/// A symbol against one that is drawn, or against another.
fn pair(symbol: u32, other: Option<u32>) -> Pair {
    let other = other.map_or(Input::Drawn(1), |other| Input::Symbols(vec![other]));
    Pair { name: format!("symbol {symbol}"), one: Input::Symbols(vec![symbol]), other }
}

/// The library's mechanism, for symbols that are independent of each other.
fn built(prior: &[f64], promise: Promise, claimed: &str, pair: Pair) -> Variant {
    let model = Model::dense(prior.to_vec(), prior.repeat(prior.len())).unwrap();
    let epsilon: Epsilon = "1".parse().unwrap();
    let method = Method::Crr(crr::CrrSettings::new(epsilon));
    let target =
        SequenceTarget { method, promise, claimed: claimed.parse().unwrap(), model: Arc::new(model), length: 1 };
    Variant::new(target.claimed(), vec![pair], move |input, random| target.observe(input, random).unwrap())
}

#[test]
fn conditional_randomised_response_as_published_is_caught() {
    let prior = [0.5, 0.4, 0.1];
    caught("`crr` as published", 20_000, |form| match form {
        Form::Broken => channel(1.0, pair(2, None), prior.to_vec(), paper_crr_not_private(&prior, 1.0)),
        Form::Healthy => built(&prior, Promise::Sequence, "1", pair(0, None)),
    });
}

#[test]
fn a_symbol_that_was_believed_impossible_and_is_revealed_is_caught() {
    let prior = [0.6, 0.4, 0.0];
    caught("`crr` as published, an impossible symbol", 10_000, |form| match form {
        Form::Broken => channel(2.0, pair(2, Some(0)), prior.to_vec(), paper_crr_not_private(&prior, 1.0)),
        Form::Healthy => built(&prior, Promise::Local, "2", pair(2, Some(0))),
    });
}

/// A channel for symbols that are equally likely. Where they are not, it may tell more, not less, as its paper has it.
#[test]
fn a_model_that_is_wrong_is_caught() {
    caught("`crr` claims ε-SIP with a wrong model", 20_000, |form| {
        let epsilon = 3_f64.ln();
        let truth = form.choose([0.05, 0.95], [0.5, 0.5]).to_vec();
        channel(epsilon, pair(0, None), truth, paper_crr_not_private(&[0.5, 0.5], epsilon))
    });
}
