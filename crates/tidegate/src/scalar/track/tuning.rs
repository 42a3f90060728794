//! [`Tuning`]: every constant of `track` that the estimator does not have.

/// Constants. *Chosen* values were chosen on generated streams (`make accuracy` lists them); *derived* ones follow from
/// what they stand for.
#[derive(Debug)]
pub(super) struct Tuning {
    /// Largest noise scale of readings with noise of their own, as a share of the domain. Chosen: wider noise says less
    /// than a question.
    pub(super) small_noise: f64,
    /// Least noise scale that is filtered, in grid steps. Derived: below, three noisy readings in four are exact.
    pub(super) exact: f64,
    /// Largest distance of a release from its noisy reading, in noise scales. Derived: noise exceeds it with
    /// probability e^-7.
    pub(super) envelope: f64,
    /// Least variance, in squared noise scales, at which a noisy reading is released as it is. Derived: it alone says
    /// as much then as everything else.
    pub(super) unsure: f64,
    /// Unit of the models' variances where readings are asked, in squared widths of the domain. Chosen: scatter is then
    /// between 7 and 50 per cent of the domain, and steps are 0.04 per cent or more.
    pub(super) unit: f64,
    /// Prior weight of the models with scatter, where readings are asked. Chosen: half.
    pub(super) scattered: f64,
    /// Variance of readings around a season, in squared widths of the domain, where bits do not tell. Chosen.
    pub(super) season_scatter: f64,
    /// Epsilon below which readings are asked in means. Derived: there, a reading in a mean of `m` of them lowers the
    /// logarithm of the variance by more, `ln(1 + a m²)/m` at best, than by a bit.
    pub(super) means_below: f64,
    /// Range of a mean on either side of its forecast, in deviations. Standard: 95 per cent of a normal number.
    pub(super) reach: f64,
    /// Readings of a mean, in ratios of sensitivity to epsilon and deviation: `m` maximises `ln(1 + a m²)/m`, the
    /// information for each reading. Derived.
    pub(super) readings: f64,
    /// Most readings of a mean. Derived: they fit into some pages of memory.
    pub(super) most_readings: u32,
    /// Questions at the beginning, every second of which asks for noise, where its scale is below `learn_noise` widths
    /// of the domain. Chosen: readings at two ends of the domain are told from a walk before bits alone would do it.
    pub(super) learn: u64,
    pub(super) learn_noise: f64,
    /// Distance from the forecast of a question about scatter, a look, in widths of the domain. Chosen.
    pub(super) look: f64,
    /// Questions from one look to the next. Chosen: they cost a third, and tell scatter from none.
    pub(super) look_every: u64,
    /// Most releases that wait. Derived: later readings hardly matter.
    pub(super) most_waiting: u32,
}

/// The constants in use.
pub(super) const TUNING: Tuning = Tuning {
    small_noise: 1.0 / 8.0,
    exact: 0.5,
    envelope: 7.0,
    unsure: 1.0,
    unit: 1.0 / 64.0,
    scattered: 0.5,
    season_scatter: 1e-3,
    means_below: 1.0,
    reach: 2.0,
    readings: 2.8,
    most_readings: 1024,
    learn: 40,
    learn_noise: 0.5,
    look: 0.25,
    look_every: 3,
    most_waiting: 128,
};
