//! Streams of the tests.

/// A declared stream.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub(crate) name: &'static str,
    /// Length of a tick, in seconds.
    pub(crate) tick: u64,
    /// Timestamps that a question is about.
    pub(crate) length: u64,
    /// Counts of a question.
    pub(crate) cells: u32,
    /// Its spec, as TOML.
    spec: String,
}

impl Declared {
    fn new(name: &'static str, tick: u64, cells: u32, spec: String) -> Self {
        Self { name, tick, length: 1, cells, spec }
    }

    /// A stream of devices by a mechanism, whose reports name a value.
    fn local(name: &'static str, mechanism: &str, tick: u64, domain: u32, oracle: &str) -> Self {
        // With so large an epsilon, a count is practically the number of devices.
        let spec = format!(
            "family = \"local\"\nmechanism = \"{mechanism}\"\nepsilon = 20\nwindow = 2\noracle = \"{oracle}\"\n\
             domain = {domain}\npopulation = 100000\n"
        );
        Self::new(name, tick, domain, spec)
    }

    /// A stream for as many reports as can be sent.
    pub(crate) fn crowded(name: &'static str, tick: u64) -> Self {
        let stream = Self::local(name, "lbu", tick, 1_024, "grr");
        let spec = stream.spec.replace("population = 100000\n", "population = 1000000000\n");
        Self { spec, ..stream }
    }

    /// All streams of a test.
    pub(crate) fn all() -> Vec<Self> {
        let values = 16;
        let row = vec![(1.0 / f64::from(values)).to_string(); 16].join(", ");
        let rows = vec![format!("[{row}]"); 16].join(", ");
        let names: Vec<String> = (0..values).map(|value| format!("\"v{value}\"")).collect();
        let moves = format!(
            "family = \"sequence\"\nmechanism = \"batched\"\nlength = 2\nepsilon = 2\ndomain = [{}]\n\
             population = 100000\n[model]\nprior = [{row}]\ntransitions = [{rows}]\n",
            names.join(", ")
        );
        let moves = Self { length: 2, ..Self::new("moves", 1, 256, moves) };
        vec![
            Self::local("uniform", "lbu", 1, 8_192, "grr"),
            Self::local("population", "lpu", 1, 8_192, "grr"),
            Self::local("adaptive", "lpa", 2, 4_096, "grr"),
            Self::local("bits", "lbu", 2, 16, "oue"),
            moves,
        ]
    }

    /// Its lines in a configuration.
    pub(crate) fn toml(&self) -> String {
        let Self { name, tick, spec, .. } = self;
        let spec = spec.replace("[model]", "[streams.spec.model]");
        format!("\n[[streams]]\nname = \"{name}\"\ntick = {tick}\n[streams.spec]\n{spec}")
    }
}
