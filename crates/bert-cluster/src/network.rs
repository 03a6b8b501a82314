//! Checks which addresses may be bound. Executors run any plan that arrives, so by default only this machine may send a
//! plan.

use std::net::{IpAddr, ToSocketAddrs};

use crate::error::{Error, Result};

/// Warning printed when a scheduler or executor starts on a trusted network.
pub const WARNING: &str =
    "clients that reach this port can run plans, which read and write files on this machine";

/// Rejects an address that other machines can reach, unless the network is trusted.
///
/// # Errors
/// Fails when the address can be reached from other machines, and the network is not trusted.
pub fn check_bind(host: &str, trusted: bool) -> Result<()> {
    let own = match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => (host, 0)
            .to_socket_addrs()
            .is_ok_and(|mut addresses| addresses.all(|address| address.ip().is_loopback())),
    };
    if own || trusted {
        return Ok(());
    }
    Err(Error::usage(format!(
        "{host} can be reached from other machines, and clients that reach it can run plans on this machine; bind to 127.0.0.1, \
         or use --trust-network if the network has only trusted machines"
    )))
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
            assert_eq!(check_bind(host, false).unwrap_err().exit_code(), 2, "{host}");
            check_bind(host, true).unwrap();
        }
    }
}
