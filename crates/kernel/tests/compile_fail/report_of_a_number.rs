use tidegate_kernel::oracle::Report;

fn answer_without_noise(value: u32) -> Option<Report> {
    Report::of_answer(value, 4)
}

fn main() {}
