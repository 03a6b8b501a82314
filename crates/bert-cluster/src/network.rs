//! Checks which addresses may be bound. Executors run any plan that arrives, so by default only this machine may send
//! one.

use std::net::{IpAddr, ToSocketAddrs};

use crate::error::{Error, Result};

/// Warning printed when a scheduler or executor starts on a trusted network.
pub const WARNING: &str =
    "clients that reach this port can run plans, which read and write files on this machine";

/// Rejects an address that other machines can reach, unless the network is trusted.
///
/// # Errors
/// [`Error::OpenToAll`].
pub fn check_bind(host: &str, trusted: bool) -> Result<()> {
    let own = match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => (host, 0)
            .to_socket_addrs()
            .is_ok_and(|mut addresses| addresses.all(|address| address.ip().is_loopback())),
    };
    if own || trusted { Ok(()) } else { Err(Error::OpenToAll { host: host.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_bound_without_a_word() {
        for host in ["127.0.0.1", "::1", "localhost"] {
            check_bind(host, false).unwrap();
        }
        for host in ["0.0.0.0", "::", "192.168.1.7"] {
            assert!(matches!(check_bind(host, false), Err(Error::OpenToAll { .. })), "{host}");
            check_bind(host, true).unwrap();
        }
    }
}
