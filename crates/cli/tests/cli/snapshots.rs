//! What the command says, word by word: `TRYCMD=overwrite` writes it down anew.

#[test]
fn help_and_errors_are_as_they_were_written_down() {
    trycmd::TestCases::new().case("tests/snapshots/*.trycmd");
}
