//! Bindings of [`Core`] to JavaScript. Errors are text: a code, a colon and a message.

use wasm_bindgen::prelude::wasm_bindgen;

use crate::core::{Clocks, Core, CoreError, Opening, Reply, Step, offer};

/// State that the page must store before it gets the reply.
#[wasm_bindgen]
#[derive(Debug)]
pub struct PageSave {
    contents: Vec<u8>,
    version: String,
    replaces: Option<String>,
}

#[wasm_bindgen]
impl PageSave {
    /// The bytes to store under the source's name.
    #[wasm_bindgen(getter)]
    pub fn contents(&self) -> Vec<u8> {
        self.contents.clone()
    }

    /// Version of these bytes.
    #[wasm_bindgen(getter)]
    pub fn version(&self) -> String {
        self.version.clone()
    }

    /// Version that must be stored now; none if nothing must be.
    #[wasm_bindgen(getter)]
    pub fn replaces(&self) -> Option<String> {
        self.replaces.clone()
    }
}

/// The device of a page.
#[wasm_bindgen]
#[derive(Debug)]
pub struct PageDevice {
    core: Core,
    reply: Reply,
}

fn told(error: CoreError) -> String {
    error.to_string()
}

/// Terms that the owner is asked to consent to, as JSON.
///
/// # Errors
/// If the operator has not signed the policy.
#[wasm_bindgen(js_name = offerOf)]
pub fn offer_of(policy: &str, operator: &str, terms: &str, wall: f64) -> Result<String, String> {
    offer(policy, operator, terms, wall).map_err(told)
}

#[wasm_bindgen]
impl PageDevice {
    /// Creates a device that is not opened yet.
    ///
    /// # Errors
    /// If the browser provides no randomness.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Result<PageDevice, String> {
        Ok(Self { core: Core::new().map_err(told)?, reply: Reply::default() })
    }

    /// Opens the device from what is stored.
    ///
    /// # Errors
    /// Arguments that cannot be read, and a policy that the device does not take.
    #[allow(clippy::too_many_arguments)] // JavaScript has no type for them
    pub fn open(
        &mut self,
        stored: Option<Vec<u8>>,
        source: &str,
        policy: &str,
        operator: &str,
        terms: &str,
        consents: bool,
        wall: f64,
        steady: f64,
    ) -> Result<Option<PageSave>, String> {
        let opening = Opening { stored: stored.as_deref(), source, policy, operator, terms, consents };
        kept(&mut self.reply, self.core.open(opening, Clocks { wall, steady }))
    }

    /// Sets the credential with which the device draws tokens.
    ///
    /// # Errors
    /// If it is no credential, or another stream's.
    #[wasm_bindgen(js_name = useCredential)]
    pub fn use_credential(&mut self, credential: &str) -> Result<(), String> {
        self.core.use_credential(credential).map_err(told)
    }

    /// Answers a question, given as JSON.
    ///
    /// # Errors
    /// See [`Core::answer`].
    pub fn answer(&mut self, question: &str, value: u32, wall: f64, steady: f64) -> Result<Option<PageSave>, String> {
        kept(&mut self.reply, self.core.answer(question, value, Clocks { wall, steady }))
    }

    /// The question to the service for its signed time, as JSON; empty if no time counts.
    ///
    /// # Errors
    /// If the device is not ready.
    #[wasm_bindgen(js_name = askTime)]
    pub fn ask_time(&mut self, wall: f64, steady: f64) -> Result<String, String> {
        self.core.ask_time(Clocks { wall, steady }).map_err(told)
    }

    /// Takes the service's signed time, given as JSON.
    ///
    /// # Errors
    /// If it is not the answer that was asked for.
    pub fn attest(&mut self, time: &str, wall: f64, steady: f64) -> Result<(), String> {
        self.core.attest(time, Clocks { wall, steady }).map_err(told)
    }

    /// Prepares the draw of tokens of the present block, or of the next.
    ///
    /// # Errors
    /// If the device is not ready.
    pub fn draw(&mut self, ahead: bool, wall: f64, steady: f64) -> Result<Option<PageSave>, String> {
        kept(&mut self.reply, self.core.draw(ahead, Clocks { wall, steady }))
    }

    /// Takes the service's answer to a draw.
    ///
    /// # Errors
    /// Tokens of another key than the policy's.
    pub fn drawn(&mut self, block: u64, answer: &str) -> Result<Option<PageSave>, String> {
        kept(&mut self.reply, self.core.drawn(block, answer))
    }

    /// Notes the value of a timestamp, for streams whose releases take several.
    ///
    /// # Errors
    /// If the device is not ready.
    pub fn gather(&mut self, timestamp: u64, value: u32, wall: f64, steady: f64) -> Result<(), String> {
        self.core.gather(timestamp, value, Clocks { wall, steady }).map_err(told)
    }

    /// Takes the bytes that the store gives back after a save.
    ///
    /// # Errors
    /// If these are other bytes, or the reply is an error.
    pub fn confirm(&mut self, stored: &[u8]) -> Result<(), String> {
        self.reply = self.core.confirm(stored).map_err(told)?;
        Ok(())
    }

    /// Takes the text of the last reply, a JSON object.
    #[wasm_bindgen(js_name = takeText)]
    pub fn take_text(&mut self) -> String {
        std::mem::take(&mut self.reply.text)
    }

    /// Takes the batch of the last reply.
    #[wasm_bindgen(js_name = takeBatch)]
    pub fn take_batch(&mut self) -> Option<Vec<u8>> {
        self.reply.batch.take()
    }

    /// What was spent in the window that ends now, as JSON.
    ///
    /// # Errors
    /// If the device is not ready.
    pub fn spent(&self, wall: f64, steady: f64) -> Result<String, String> {
        self.core.spent(Clocks { wall, steady }).map_err(told)
    }

    /// Gives the device up until it is opened again.
    pub fn close(&mut self) {
        self.core.close();
        self.reply = Reply::default();
    }
}

/// Checks lines of test vectors, and returns how many there are.
///
/// # Errors
/// The first line that is computed otherwise.
#[cfg(feature = "vectors")]
#[wasm_bindgen(js_name = checkVectors)]
pub fn check_vectors(lines: &str) -> Result<u32, String> {
    crate::vectors::check(lines)
}

/// Perturbs so many values, and returns a sum of all bytes.
///
/// # Errors
/// An unknown oracle, or no randomness.
#[cfg(feature = "vectors")]
#[wasm_bindgen]
pub fn perturb(oracle: &str, domain: u32, epsilon: &str, count: u32) -> Result<u32, String> {
    crate::vectors::perturb(oracle, domain, epsilon, count)
}

/// Keeps the reply of a step that changes nothing; returns what to save otherwise.
fn kept(reply: &mut Reply, step: Result<Step<'_>, CoreError>) -> Result<Option<PageSave>, String> {
    *reply = Reply::default();
    match step.map_err(told)? {
        Step::Done(done) => {
            *reply = done;
            Ok(None)
        }
        Step::Save(save) => Ok(Some(PageSave {
            contents: save.contents.clone(),
            version: save.version.to_string(),
            replaces: save.replaces.as_ref().map(ToString::to_string),
        })),
    }
}
