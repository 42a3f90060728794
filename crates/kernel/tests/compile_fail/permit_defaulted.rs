use tidegate_kernel::Permit;

fn main() {
    let _: Permit = Default::default();
}
