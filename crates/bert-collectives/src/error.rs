//! The errors of the operations.

use std::time::Duration;

pub use bert_storage::{Class, Error};

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
    /// Some ranks have neither sent nor received a byte during the timeout.
    #[error("no answer from {} for {} s (`.group_timeout`)", list(members), after.as_secs_f64().round())]
    Silent {
        /// The ranks, ascending.
        members: Vec<Member>,
        /// Time since the last byte.
        after: Duration,
    },
}

impl From<Lost> for Error {
    fn from(lost: Lost) -> Self {
        Self::new(Class::Later, format!("the group is not complete: {lost}")).because(lost)
    }
}

/// Returns the error of a connection that failed while the ranks joined.
pub(crate) fn not_joined(cause: std::io::Error) -> Error {
    Error::new(Class::Later, "cannot join the group").because(cause)
}

/// Returns a text that lists at most eight ranks, followed by the number of further ranks, if any.
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
            "no answer from rank 1 on node7, rank 2 on node7 for 600 s (`.group_timeout`)"
        );
        assert!(list(&(0..10).map(member).collect::<Vec<_>>()).ends_with("rank 7 on node7 and 2 more"));
    }
}
