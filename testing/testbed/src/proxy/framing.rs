//! Splits the PostgreSQL protocol into messages, however reads split the bytes.

use std::io;

/// Longer messages are refused. The server accepts a gigabyte; nothing here sends a tenth of it.
const MESSAGE_MAX: usize = 256 << 20;

/// Received bytes that are not a complete message yet.
pub(super) struct Framing {
    bytes: Vec<u8>,
    read: usize,
    /// Messages that open a connection have no kind before their length.
    opening: bool,
}

/// A complete message.
pub(super) struct Message<'a> {
    /// 0 for a message that opens a connection.
    pub(super) kind: u8,
    /// Without kind and length.
    pub(super) body: &'a [u8],
    /// The whole message.
    pub(super) bytes: &'a [u8],
}

impl Framing {
    /// The first messages of a client have no kind.
    pub(super) fn of_client() -> Framing {
        Framing {
            bytes: Vec::new(),
            read: 0,
            opening: true,
        }
    }

    pub(super) fn of_server() -> Framing {
        Framing {
            opening: false,
            ..Framing::of_client()
        }
    }

    /// From here on, messages have a kind.
    pub(super) fn opened(&mut self) {
        self.opening = false;
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.read);
        self.read = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete message; `None` until more bytes arrive.
    pub(super) fn next(&mut self) -> io::Result<Option<Message<'_>>> {
        let head = if self.opening { 0 } else { 1 };
        let rest = &self.bytes[self.read..];
        let Some(length) = rest.get(head..).and_then(<[u8]>::first_chunk) else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if !(4..=MESSAGE_MAX).contains(&length) {
            return Err(io::Error::other("no message of the protocol"));
        }
        let Some(bytes) = rest.get(..head + length) else {
            return Ok(None);
        };
        self.read += bytes.len();
        Ok(Some(Message {
            kind: if self.opening { 0 } else { bytes[0] },
            body: &bytes[head + 4..],
            bytes,
        }))
    }
}

/// Returns the text up to the next zero byte, and the rest.
pub(super) fn split_text(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = body.iter().position(|byte| *byte == 0)?;
    Some((&body[..end], &body[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_however_they_are_split() {
        let stream = b"\0\0\0\x08\x04\xd2\x16\x2fQ\0\0\0\x0bcommit\0S\0\0\0\x04";
        for size in 1..stream.len() {
            let mut framing = Framing::of_client();
            let mut found = Vec::new();
            for chunk in stream.chunks(size) {
                framing.add(chunk);
                while let Some(message) = framing.next().unwrap() {
                    found.push((message.kind, message.body.to_vec()));
                    framing.opened();
                }
            }
            let expected = [
                (0, b"\x04\xd2\x16\x2f".to_vec()),
                (b'Q', b"commit\0".to_vec()),
                (b'S', Vec::new()),
            ];
            assert_eq!(found, expected, "in chunks of {size}");
        }
    }

    #[test]
    fn bytes_that_are_no_message_are_refused() {
        let mut framing = Framing::of_server();
        framing.add(b"HTTP/1.1 400");
        assert!(framing.next().is_err());
        let mut framing = Framing::of_server();
        framing.add(b"Z\0\0\0\x03");
        assert!(framing.next().is_err());
    }
}
