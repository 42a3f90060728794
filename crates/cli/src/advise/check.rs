//! `tidegate advise --check`: advice against measurement.

use std::num::NonZeroU64;

use tidegate_lab::advise::check::{CASES, CheckOptions, CheckResults, Checked, check, shares};

use super::{Advise, refused};
use crate::arguments::threads_or_all;
use crate::failure::{Failure, complain};
use crate::output::Output;
use crate::table::short;

/// Largest factors between prediction and measurement, and between the recommended and the best.
const AIMS: (f64, f64) = (1.5, 1.2);

impl Advise {
    pub(super) fn run_check(&self) -> Result<(), Failure> {
        let options = CheckOptions {
            data_dir: self.data_dir.clone(),
            repeats: self.repeats.unwrap_or(NonZeroU64::MIN.saturating_add(9)),
            seed: self.seed,
            threads: threads_or_all(self.threads),
        };
        let mut output = Output::create(&self.output)?;
        let results = check(&CASES, &options, &|line| complain("note", line)).map_err(refused)?;
        output.write(&if self.json {
            serde_json::to_string_pretty(&results).map_err(Failure::run)? + "\n"
        } else {
            page(&results, &options)
        })?;
        output.finish()
    }
}

fn page(results: &CheckResults, options: &CheckOptions) -> String {
    let mut text = format!(
        "# Results of `tidegate advise`\n\nWritten by `make advice`: `tidegate advise --check --repeats {} --seed {}`, \
         version {}.\n[`advise.md`](advise.md#accuracy-of-the-prediction) says what is measured.\n",
        options.repeats,
        options.seed,
        env!("CARGO_PKG_VERSION")
    );
    if !results.left_out.is_empty() {
        text += &format!("\nLeft out, because the data directory lacks them: {}.\n", results.left_out.join(", "));
    }
    text += "\n| advice from | cases | predictions | within 1.5 of measured | recommended within 1.2 of best |\n\
             | --- | --: | --: | --: | --: |\n";
    for (name, checked) in [("past releases, or a model", &results.from_past), ("typical streams", &results.typical)] {
        let (close, good) = shares(checked, AIMS.0, AIMS.1);
        let pairs: usize = checked.iter().map(|checked| checked.pairs.len()).sum();
        text += &format!("| {name} | {} | {pairs} | {:.0} % | {:.0} % |\n", checked.len(), 100.0 * close, 100.0 * good);
    }
    text += &format!("\n## From past releases, or a model\n\n{}", table(&results.from_past));
    text + &format!("\n## From typical streams\n\n{}", table(&results.typical))
}

fn table(checked: &[Checked]) -> String {
    let mut text = "| stream | family | epsilon | window or delay | recommended | predicted | measured | best | \
                    measured over best | predictions within 1.5 |\n\
                    | --- | --- | --: | --: | --- | --: | --: | --- | --: | --: |\n"
        .to_owned();
    for Checked { case, pairs, best, regret } in checked {
        let Some(first) = pairs.first() else { continue };
        let close = pairs.iter().filter(|pair| pair.factor() <= AIMS.0).count();
        let span = if case.window > 1 { case.window } else { case.delay };
        text += &format!(
            "| {} | {} | {} | {span} | {} | {} | {} | {best} | {regret:.2} | {close} of {} |\n",
            case.stream,
            case.family,
            case.epsilon,
            first.mechanism,
            short(first.predicted),
            short(first.measured),
            pairs.len()
        );
    }
    text
}
