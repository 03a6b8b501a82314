//! Proves to both ends of a connection that the other one knows the token of the job, without sending the token.
//!
//! 1. The accepting end sends the protocol's name and a random challenge.
//! 2. The connecting end sends its challenge and its proof, a keyed digest of both challenges.
//! 3. The accepting end answers with its own proof, or with one byte if it rejects the connection.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Name of the protocol.
const PROTOCOL: [u8; 16] = *b"bert-collectives";
const VERSION: u8 = 1;
const ACCEPTED: u8 = 1;
const REFUSED: u8 = 0;
/// Maximum length of a message in bytes, which is enough for the addresses of more than 5,000 ranks.
const MAX_MESSAGE: usize = 1 << 20;

/// The secret that the ranks of a job share.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; 32]);

impl Token {
    /// Returns the token that is derived from a text. The caller checks that the text cannot be guessed.
    pub fn new(text: &str) -> Self {
        Self(blake3::derive_key("bert-collectives 2026 token of a job", text.as_bytes()))
    }

    fn proof(&self, role: &str, challenges: [&[u8; 32]; 2]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(role.as_bytes()).update(challenges[0]).update(challenges[1]);
        hasher.finalize()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The reason for the failure of a handshake.
#[derive(Debug)]
pub(super) enum HandshakeError {
    Io(io::Error),
    /// The other end does not speak this protocol.
    Foreign,
    /// The tokens differ.
    OtherToken,
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Foreign => f.write_str("it is not a rank of this program version"),
            Self::OtherToken => f.write_str("it has another BERT_GROUP_TOKEN"),
        }
    }
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A blocking stream whose operations fail after a given time.
pub(super) struct TimedStream<'a> {
    stream: &'a TcpStream,
    end: Instant,
}

impl<'a> TimedStream<'a> {
    pub(super) fn new(stream: &'a TcpStream, limit: Duration) -> Self {
        Self { stream, end: Instant::now() + limit }
    }

    fn rest(&self) -> io::Result<Option<Duration>> {
        let rest = self.end.saturating_duration_since(Instant::now());
        if rest.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(rest)) }
    }

    fn read(&mut self, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.set_read_timeout(self.rest()?)?;
            match (&mut &*self.stream).read(bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => bytes = &mut bytes[count..],
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.set_write_timeout(self.rest()?)?;
        (&mut &*self.stream).write_all(bytes)
    }

    /// Sends a message as JSON, preceded by its length.
    pub(super) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let json = serde_json::to_vec(message)?;
        self.write(&[&(json.len() as u32).to_le_bytes()[..], &json].concat())
    }

    /// Receives a message.
    pub(super) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let mut length = [0; 4];
        self.read(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_MESSAGE {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                format!("a message of {length} bytes is too long"),
            ));
        }
        let mut json = vec![0; length];
        self.read(&mut json)?;
        Ok(serde_json::from_slice(&json)?)
    }

    /// Proves the token to the accepting end of a connection, and checks its proof.
    pub(super) fn prove(&mut self, token: &Token) -> Result<(), HandshakeError> {
        let mut greeting = [0; 17];
        self.read(&mut greeting)?;
        if greeting[..16] != PROTOCOL || greeting[16] != VERSION {
            return Err(HandshakeError::Foreign);
        }
        let mut theirs = [0; 32];
        self.read(&mut theirs)?;
        let own = challenge()?;
        let proof = token.proof("connects", [&theirs, &own]);
        self.write(&[&own[..], proof.as_bytes()].concat())?;
        let mut answer = [0; 33];
        self.read(&mut answer[..1])?;
        if answer[0] != ACCEPTED {
            return Err(HandshakeError::OtherToken);
        }
        self.read(&mut answer[1..])?;
        check(&answer[1..], token.proof("accepts", [&theirs, &own]))
    }

    /// Checks the proof of the connecting end of a connection, and sends the proof of this end.
    pub(super) fn demand(&mut self, token: &Token) -> Result<(), HandshakeError> {
        let own = challenge()?;
        self.write(&[&PROTOCOL[..], &[VERSION], &own].concat())?;
        let mut answer = [0; 64];
        self.read(&mut answer)?;
        let theirs: [u8; 32] = answer[..32].try_into().expect("32 bytes");
        let result = check(&answer[32..], token.proof("connects", [&own, &theirs]));
        match &result {
            Ok(()) => {
                let proof = token.proof("accepts", [&own, &theirs]);
                self.write(&[&[ACCEPTED], &proof.as_bytes()[..]].concat())?;
            }
            Err(_) => self.write(&[REFUSED])?,
        }
        result
    }
}

/// Compares a proof in constant time.
fn check(proof: &[u8], expected: blake3::Hash) -> Result<(), HandshakeError> {
    let proof: [u8; 32] = proof.try_into().map_err(|_| HandshakeError::OtherToken)?;
    if blake3::Hash::from_bytes(proof) == expected { Ok(()) } else { Err(HandshakeError::OtherToken) }
}

fn challenge() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}
