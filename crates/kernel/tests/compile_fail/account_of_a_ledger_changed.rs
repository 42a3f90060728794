use tidegate_kernel::{Account, Ledger};

fn change(ledger: Ledger, account: Account) -> Ledger {
    ledger.of_account(account)
}

fn main() {}
