use tidegate_kernel::Sealed;

fn main() {
    let _ = Sealed::new(7_u64);
}
