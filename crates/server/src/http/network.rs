//! [`Network`]: a range of addresses, such as `10.0.0.0/8`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A network: an address and the length of its prefix. An address alone is a network of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// Error of [`Network::from_str`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an address, or a network such as 10.0.0.0/8 or fd00::/8")]
pub struct NotANetwork;

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| NotANetwork)?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(longest), |prefix| prefix.parse().map_err(|_| NotANetwork))?;
        if prefix > longest {
            return Err(NotANetwork);
        }
        Ok(Self { address, prefix })
    }
}

impl TryFrom<String> for Network {
    type Error = NotANetwork;

    fn try_from(text: String) -> Result<Self, NotANetwork> {
        text.parse()
    }
}

impl From<Network> for String {
    fn from(network: Network) -> Self {
        network.to_string()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.prefix)
    }
}

/// Returns an address with its bits at the left of 128.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl Network {
    /// Whether an address belongs to the network. An IPv4 address that is mapped into IPv6 counts as itself.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let differs = bits(address) ^ bits(self.address);
        address.is_ipv4() == self.address.is_ipv4() && differs.leading_zeros() >= u32::from(self.prefix)
    }
}

/// IPv4 networks that are not of the public Internet (IANA's registry of special addresses).
const SPECIAL: [(u32, u8); 14] = [
    (0x0000_0000, 8),  // this network
    (0x0a00_0000, 8),  // private
    (0x6440_0000, 10), // shared by carriers
    (0x7f00_0000, 8),  // loopback
    (0xa9fe_0000, 16), // link-local, where clouds serve credentials
    (0xac10_0000, 12), // private
    (0xc000_0000, 24), // protocol assignments
    (0xc000_0200, 24), // documentation
    (0xc058_6300, 24), // relays to IPv6
    (0xc0a8_0000, 16), // private
    (0xc612_0000, 15), // benchmarks
    (0xc633_6400, 24), // documentation
    (0xcb00_7100, 24), // documentation
    (0xe000_0000, 3),  // multicast, reserved and broadcast
];

/// Whether an address is of the public Internet.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            SPECIAL.iter().all(|(network, prefix)| (address.to_bits() ^ network).leading_zeros() < u32::from(*prefix))
        }
        IpAddr::V6(address) => is_public_ipv6(address),
    }
}

/// Only 2000::/3 is assigned. In it, 2001::/23 is for protocols, 2001:db8::/32 and 3fff::/20 are for documentation, and
/// 2002::/16 contains IPv4 addresses.
fn is_public_ipv6(address: Ipv6Addr) -> bool {
    let bits = address.to_bits();
    let is_in = |network: u128, prefix: u32| bits >> (128 - prefix) == network >> (128 - prefix);
    is_in(0x2000 << 112, 3)
        && !is_in(0x2001 << 112, 23)
        && !is_in(0x2001_0db8 << 96, 32)
        && !is_in(0x2002 << 112, 16)
        && !is_in(0x3fff << 112, 20)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_their_addresses() {
        let contains = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(address.parse::<IpAddr>().unwrap())
        };
        assert!(contains("10.0.0.0/8", "10.255.0.1") && !contains("10.0.0.0/8", "11.0.0.1"));
        assert!(contains("192.0.2.7", "192.0.2.7") && !contains("192.0.2.7", "192.0.2.6"));
        assert!(contains("192.0.2.7", "::ffff:192.0.2.7") && !contains("0.0.0.0/0", "::1"));
        assert!(contains("fd00::/8", "fdff::1") && !contains("fd00::/8", "fe80::1") && contains("::/0", "::1"));
        for wrong in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "host", "10.0.0.0/-1", "10.0.0.0/"] {
            assert_eq!(wrong.parse::<Network>(), Err(NotANetwork), "{wrong}");
        }
        assert_eq!("fd00::/8".parse::<Network>().unwrap().to_string(), "fd00::/8");
    }

    #[test]
    fn knows_public_addresses() {
        for public in ["1.1.1.1", "9.255.255.255", "100.128.0.1", "172.32.0.1", "223.255.255.255", "2606:4700::1"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for special in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "fd00::1",
            "fe80::1",
            "ff02::1",
        ] {
            assert!(!is_public(special.parse().unwrap()), "{special}");
        }
    }
}
