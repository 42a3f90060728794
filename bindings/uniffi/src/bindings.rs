//! Generates the code in Kotlin, Swift or Python that calls the library.

fn main() {
    uniffi::uniffi_bindgen_main();
}
