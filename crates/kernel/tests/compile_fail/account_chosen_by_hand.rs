use tidegate_kernel::Account;

fn main() {
    let _ = Account([7; 16]);
    let _ = Account::new();
}
