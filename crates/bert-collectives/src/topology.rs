//! The ranks of a group and their hosts.

use std::fmt;

/// The rank of this process in its group, and the hosts of all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Rank of this process, from 0.
    pub rank: usize,
    /// Number of ranks in the group.
    pub world_size: usize,
    /// Rank among the processes on the same host, from 0.
    pub local_rank: usize,
    /// Number of ranks on the same host.
    pub local_world_size: usize,
    /// Host name of each rank.
    pub hosts: Vec<String>,
}

impl Topology {
    /// Returns the topology of a rank. Ranks with the same host name share a host.
    ///
    /// # Panics
    /// Panics if `hosts` has no entry for the rank.
    pub fn new(rank: usize, hosts: Vec<String>) -> Self {
        let same_host = |host: &&String| **host == hosts[rank];
        Self {
            rank,
            world_size: hosts.len(),
            local_rank: hosts[..rank].iter().filter(same_host).count(),
            local_world_size: hosts.iter().filter(same_host).count(),
            hosts,
        }
    }

    /// Returns whether the group has one rank.
    pub fn is_alone(&self) -> bool {
        self.world_size == 1
    }

    /// Returns the index of this rank's GPU among the visible GPUs: `first` plus the local rank, or the only
    /// visible GPU, because a scheduler may show each process only its own GPU. Returns `None` if several
    /// ranks share this host and need more GPUs than are visible.
    pub fn card(&self, first: usize, visible: usize) -> Option<usize> {
        if visible == 1 {
            return Some(0);
        }
        let card = first + self.local_rank;
        (self.local_world_size == 1 || first + self.local_world_size <= visible).then_some(card)
    }

    /// Returns a rank with its host, for messages.
    ///
    /// # Panics
    /// Panics if the rank is not below the world size.
    pub fn member(&self, rank: usize) -> Member {
        Member { rank, host: self.hosts[rank].clone() }
    }

    /// Returns the ranks other than this one, ascending.
    pub fn peers(&self) -> impl Iterator<Item = usize> + use<> {
        let rank = self.rank;
        (0..self.world_size).filter(move |&other| other != rank)
    }
}

/// A rank and its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The rank.
    pub rank: usize,
    /// The host name of the rank; empty before the rank has joined.
    pub host: String,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.host.as_str() {
            "" => write!(f, "rank {}", self.rank),
            host => write!(f, "rank {} on {host}", self.rank),
        }
    }
}

/// Returns the name of this host.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_ranks_count_ranks_of_the_host() {
        let hosts: Vec<String> = ["a", "b", "a", "b", "b"].map(String::from).into();
        let local = |rank| {
            let topology = Topology::new(rank, hosts.clone());
            (topology.local_rank, topology.local_world_size)
        };
        assert_eq!([0, 1, 2, 3, 4].map(local), [(0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]);
    }

    #[test]
    fn each_local_rank_has_its_own_card() {
        let hosts: Vec<String> = ["a", "b", "a", "b"].map(String::from).into();
        let cards = |first, visible| {
            let ranks = 0..hosts.len();
            ranks.map(|rank| Topology::new(rank, hosts.clone()).card(first, visible)).collect::<Vec<_>>()
        };
        assert_eq!(cards(0, 2), [Some(0), Some(0), Some(1), Some(1)]);
        assert_eq!(cards(1, 8), [Some(1), Some(1), Some(2), Some(2)]);
        assert_eq!(cards(0, 1), [Some(0); 4]);
        assert_eq!(cards(1, 2), [None; 4]);
        assert_eq!(Topology::new(0, vec!["a".into()]).card(2, 4), Some(2));
    }

    #[test]
    fn peers_are_all_other_ranks() {
        let topology = Topology::new(1, vec!["a".into(); 3]);
        assert_eq!(topology.peers().collect::<Vec<_>>(), [0, 2]);
        assert_eq!(topology.member(2).to_string(), "rank 2 on a");
    }
}
