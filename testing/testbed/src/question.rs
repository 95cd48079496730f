//! A minimal PostgreSQL client for a server on this machine that trusts everyone. It blocks, for
//! callers that cannot await, such as `Drop`.

use std::io::{self, Error, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long the server may take for each part of its response.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs a query and returns its rows as text; null is the empty text. Blocks. The error contains
/// the server's message.
pub fn ask(port: u16, database: &str, sql: &str) -> io::Result<Vec<Vec<String>>> {
    let mut connection = Connection::open(port, database)?;
    let rows = connection.query(sql)?;
    // After a terminate message the server does not log a lost connection.
    connection.0.write_all(&message(Some(b'X'), b""))?;
    Ok(rows)
}

/// Returns whether the server accepts connections. Blocks.
pub fn accepts(port: u16) -> bool {
    Connection::open(port, "postgres").is_ok()
}

struct Connection(TcpStream);

impl Connection {
    fn open(port: u16, database: &str) -> io::Result<Connection> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut connection = Connection(stream);
        let version = [0, 3, 0, 0];
        let words = format!("user\0outlast\0database\0{database}\0\0");
        let opening = message(None, &[&version, words.as_bytes()].concat());
        connection.0.write_all(&opening)?;
        connection.answers()?;
        Ok(connection)
    }

    fn query(&mut self, sql: &str) -> io::Result<Vec<Vec<String>>> {
        let text = [sql.as_bytes(), b"\0"].concat();
        self.0.write_all(&message(Some(b'Q'), &text))?;
        self.answers()
    }

    /// Reads until the server is ready again.
    fn answers(&mut self) -> io::Result<Vec<Vec<String>>> {
        let (mut rows, mut refused) = (Vec::new(), None);
        loop {
            let (kind, body) = self.read()?;
            match kind {
                b'D' => rows.push(values_of(&body).ok_or(io::ErrorKind::InvalidData)?),
                b'E' => {
                    refused = Some(String::from_utf8_lossy(&body).replace('\0', " "));
                    if rows.is_empty() && body.starts_with(b"SFATAL") {
                        break;
                    }
                }
                b'Z' => break,
                _ => {}
            }
        }
        match refused {
            None => Ok(rows),
            Some(error) => Err(Error::other(error)),
        }
    }

    fn read(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.0.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        let length = (u32::from_be_bytes(length) as usize).saturating_sub(4);
        // No caller expects a response this long.
        if length > 1 << 24 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok((kind, body))
    }
}

fn message(kind: Option<u8>, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    kind.into_iter()
        .chain(length)
        .chain(body.iter().copied())
        .collect()
}

fn values_of(mut body: &[u8]) -> Option<Vec<String>> {
    let count = u16::from_be_bytes(*body.split_off(..2)?.first_chunk()?);
    let mut values = Vec::new();
    for _ in 0..count {
        let length = i32::from_be_bytes(*body.split_off(..4)?.first_chunk()?);
        let value = match usize::try_from(length) {
            Ok(length) => body.split_off(..length)?,
            Err(_) => b"",
        };
        values.push(String::from_utf8_lossy(value).into_owned());
    }
    Some(values)
}
