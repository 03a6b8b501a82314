//! The errors of the operations.

use std::net::SocketAddr;
use std::time::Duration;

use crate::topology::Member;

/// The reason why an operation cannot finish. The transport returns it again for all later operations.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// The connection to a rank is closed or unusable.
    #[error("lost {member}: {reason}")]
    Peer {
        /// The rank.
        member: Member,
        /// The reason.
        reason: String,
    },
    /// Ranks that have not sent or taken a byte for the length of the timeout.
    #[error("no answer from {} for {} s (--group-timeout)", list(members), after.as_secs_f64().round())]
    Silent {
        /// The ranks, ascending.
        members: Vec<Member>,
        /// Time since the last byte.
        after: Duration,
    },
}

/// The reason why a process cannot join its group.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// An environment variable of the launcher is invalid.
    #[error("the environment variable {name} is {value:?}: {reason}")]
    Variable {
        /// The variable.
        name: String,
        /// Its value.
        value: String,
        /// The problem with the value.
        reason: String,
    },
    /// The launcher has started several ranks, and this process cannot connect to the others.
    #[error("{reason}")]
    NoEngine {
        /// The cause and the remedies.
        reason: String,
    },
    /// A rank did not join or was lost.
    #[error("the group is not complete: {0}")]
    Lost(#[from] Lost),
    /// Rank 0 refused this process.
    #[error("cannot join the group: {reason}")]
    Refused {
        /// The reason.
        reason: String,
    },
    /// This process cannot listen.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// Rank 0 or another rank cannot be reached.
    #[error("cannot reach {address}: {reason}")]
    Unreachable {
        /// The address.
        address: String,
        /// The reason.
        reason: String,
    },
    /// A connection failed while the ranks joined.
    #[error("cannot join the group: {0}")]
    Io(#[from] std::io::Error),
}

impl JoinError {
    /// Returns the documented exit code of a program that ends with this error: 2 for a wrong configuration, 75 if a
    /// new start may succeed.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Variable { .. } | Self::NoEngine { .. } | Self::Refused { .. } => 2,
            // Another program has the port for a moment, as after a start of all ranks.
            Self::Listen { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => 75,
            Self::Listen { .. } => 1,
            Self::Lost(_) | Self::Unreachable { .. } | Self::Io(_) => 75,
        }
    }
}

/// Returns ranks as a list in words: at most eight, then a count.
pub(crate) fn list(members: &[Member]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = members.iter().take(SHOWN).map(Member::to_string).collect();
    match members.len() {
        0..=SHOWN => shown.join(", "),
        more => format!("{} and {} more", shown.join(", "), more - SHOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_rank_and_host() {
        let member = |rank| Member { rank, host: "node7".into() };
        let lost = Lost::Peer { member: member(3), reason: "connection closed".into() };
        assert_eq!(lost.to_string(), "lost rank 3 on node7: connection closed");
        let silent = Lost::Silent { members: vec![member(1), member(2)], after: Duration::from_secs(600) };
        assert_eq!(
            silent.to_string(),
            "no answer from rank 1 on node7, rank 2 on node7 for 600 s (--group-timeout)"
        );
        assert!(list(&(0..10).map(member).collect::<Vec<_>>()).ends_with("rank 7 on node7 and 2 more"));
    }
}
