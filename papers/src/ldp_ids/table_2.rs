//! Table 2: communication on all data sets.

use tidegate_lab::metrics::Metric;
use tidegate_lab::plot::Axis;

use super::{BUDGET, FOURSQUARE, LOG, POPULATION, SIN, TAXI, stream, sweep, title};
use crate::verdict::{Demand, Tally, all_below, digits, near, short, smaller_than_times};
use crate::{At, Claim, Experiment, PaperData, Place, PublishedNumber, Results, bars, repeats, settings};

const TABLE_2_STREAMS: [PaperData; 4] = [SIN, LOG, TAXI, FOURSQUARE];
const SMALL_BUDGET: &str = "ε = 1, w = 20";
const LARGE_BUDGET: &str = "ε = 2, w = 20";
const LONG_WINDOW: &str = "ε = 2, w = 40";

pub(super) const TABLE_2: Experiment = Experiment {
    name: "ldp-ids-table2",
    place: "Table 2",
    title: "communication on all data sets",
    caption: "Reports per user and timestamp (CFPU). The bars are ours; the table below has the paper's numbers \
              beside them.",
    data: &TABLE_2_STREAMS,
    repeats: repeats(16),
    seconds: 3,
    measure: |session| {
        let mut table = Results::new();
        for (panel, epsilon, window) in [(SMALL_BUDGET, 1.0, 20), (LARGE_BUDGET, 2.0, 20), (LONG_WINDOW, 2.0, 40)] {
            for data in &TABLE_2_STREAMS {
                let Some(stream) = stream(session, data)? else { continue };
                let choice = (At::from(data.set), settings(epsilon, window)?);
                sweep(session, &stream, &[choice], (panel, Metric::Cfpu), &mut table)?;
            }
        }
        Ok(table)
    },
    panels: |table| {
        let y = Axis::log("reports per user and timestamp");
        let short_name = |name: &mut String| {
            *name = title(name).replace(" (stand-in)", "").replace("Foursquare", "Foursq.");
        };
        let mut panels = bars(table, "cfpu", &y, |_| true);
        for panel in &mut panels {
            if let tidegate_lab::plot::Scale::Names(names) = &mut panel.x.scale {
                names.iter_mut().for_each(short_name);
            }
            // It asks nobody: there is no bar to draw.
            panel.series.retain(|series| series.name != "constant");
        }
        panels
    },
    published: TABLE_2_PUBLISHED,
    claims: &[
        Claim {
            text: "The numbers themselves (here: within 5 %).",
            place: "table 2",
            check: |table| {
                let mut tally = Tally::new();
                for number in TABLE_2_PUBLISHED {
                    let at = At::from(number.at);
                    if let Some(ours) = table.get(number.panel, number.series, at.clone(), number.metric) {
                        let what = format!(
                            "{}, {} on {at}: {}, printed {}",
                            number.panel,
                            number.series,
                            short(ours),
                            digits(number.value, 4)
                        );
                        tally.add(near(ours, number.value, 0.05), what);
                    }
                }
                tally.judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "Dividing the population takes much less communication than dividing the budget (here: less than a \
                   tenth).",
            place: "section 7.5",
            check: |table| {
                let mut tally = Tally::new();
                for panel in table.panels() {
                    for at in table.places(panel) {
                        let get = |series: &str| table.get(panel, series, at.clone(), "cfpu");
                        for (population, budget) in
                            POPULATION.iter().flat_map(|one| BUDGET.iter().map(move |other| (one, other)))
                        {
                            if let Some((few, many)) = get(population).zip(get(budget)) {
                                let what =
                                    format!("{panel} on {at}: {population} {}, {budget} {}", short(few), short(many));
                                tally.add(smaller_than_times(few, 0.1, many), what);
                            }
                        }
                    }
                }
                tally.judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "LPD and LPA reduce it further.",
            place: "section 7.5",
            check: |table| all_below(table, "cfpu", &["lpd", "lpa"], &["lsp", "lpu"]).judge(Demand::Everywhere),
        },
    ],
    notes: &[
        "Taxi and Foursquare are stand-ins, so that the paper's numbers for them are not what should come out exactly.",
    ],
};

/// A row of table 2: a method on Sin, Log, Taxi and Foursquare.
macro_rules! row {
    ($panel:expr, $series:literal, $sin:literal, $log:literal, $taxi:literal, $foursquare:literal) => {
        [
            PublishedNumber { panel: $panel, series: $series, at: Place::Name("sin"), metric: "cfpu", value: $sin },
            PublishedNumber { panel: $panel, series: $series, at: Place::Name("log"), metric: "cfpu", value: $log },
            PublishedNumber {
                panel: $panel,
                series: $series,
                at: Place::Name("tdrive_counts"),
                metric: "cfpu",
                value: $taxi,
            },
            PublishedNumber {
                panel: $panel,
                series: $series,
                at: Place::Name("foursquare_lbsn2vec"),
                metric: "cfpu",
                value: $foursquare,
            },
        ]
    };
}

static TABLE_2_PUBLISHED: &[PublishedNumber] = [
    row!(SMALL_BUDGET, "lbu", 1.0, 1.0, 1.0, 1.0),
    row!(SMALL_BUDGET, "lbd", 1.2719, 1.2671, 1.2734, 1.2733),
    row!(SMALL_BUDGET, "lba", 1.1709, 1.1687, 1.1685, 1.1775),
    row!(SMALL_BUDGET, "lsp", 0.05, 0.05, 0.05, 0.05),
    row!(SMALL_BUDGET, "lpu", 0.05, 0.05, 0.05, 0.05),
    row!(SMALL_BUDGET, "lpd", 0.0457, 0.0457, 0.0461, 0.0458),
    row!(SMALL_BUDGET, "lpa", 0.0404, 0.0403, 0.0406, 0.0403),
    row!(LARGE_BUDGET, "lbu", 1.0, 1.0, 1.0, 1.0),
    row!(LARGE_BUDGET, "lbd", 1.28, 1.2823, 1.2762, 1.2692),
    row!(LARGE_BUDGET, "lba", 1.1731, 1.1737, 1.1682, 1.1704),
    row!(LARGE_BUDGET, "lsp", 0.05, 0.05, 0.05, 0.05),
    row!(LARGE_BUDGET, "lpu", 0.05, 0.05, 0.05, 0.05),
    row!(LARGE_BUDGET, "lpd", 0.0466, 0.0468, 0.0475, 0.0468),
    row!(LARGE_BUDGET, "lpa", 0.0414, 0.0413, 0.0425, 0.0412),
    row!(LONG_WINDOW, "lbu", 1.0, 1.0, 1.0, 1.0),
    row!(LONG_WINDOW, "lbd", 1.2643, 1.2575, 1.2641, 1.2487),
    row!(LONG_WINDOW, "lba", 1.1729, 1.1676, 1.1755, 1.1670),
    row!(LONG_WINDOW, "lsp", 0.025, 0.025, 0.025, 0.025),
    row!(LONG_WINDOW, "lpu", 0.025, 0.025, 0.025, 0.025),
    row!(LONG_WINDOW, "lpd", 0.0242, 0.0245, 0.0244, 0.0245),
    row!(LONG_WINDOW, "lpa", 0.0206, 0.0207, 0.0210, 0.0204),
]
.as_flattened();
