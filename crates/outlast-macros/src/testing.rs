//! What the unit tests share: comparing expansions, and reading the errors in them.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{File, LitStr, Macro};

/// Reads code, for tables in which it stands as a text.
pub(crate) fn code(text: &str) -> TokenStream {
    text.parse().unwrap()
}

/// Fails when the two are different code. Both must be whole items.
#[track_caller]
pub(crate) fn assert_expands(actual: TokenStream, expected: TokenStream) {
    let (actual, expected) = (lines(actual), lines(expected));
    assert!(
        actual == expected,
        "expanded to\n{actual}\ninstead of\n{expected}"
    );
}

/// Returns the messages of the `compile_error!`s in an expansion.
pub(crate) fn errors(expanded: TokenStream) -> Vec<String> {
    let mut messages = Messages::default();
    messages.visit_file(&parsed(expanded));
    messages.0
}

/// Returns how often `code` occurs in an expansion.
pub(crate) fn count(expanded: &TokenStream, code: TokenStream) -> usize {
    let dense = |code: &TokenStream| {
        code.to_string()
            .replace("doc = r", "doc = ")
            .replace(' ', "")
    };
    dense(expanded).matches(&dense(&code)).count()
}

/// Writes code with about a statement in a line.
fn lines(code: TokenStream) -> String {
    let code = parsed(code).to_token_stream().to_string();
    // `quote!` writes a documentation comment as a raw text.
    let code = code.replace("doc = r\"", "doc = \"");
    code.replace(" ; ", " ;\n")
        .replace(" { ", " {\n")
        .replace(" } ", " }\n")
}

#[track_caller]
fn parsed(code: TokenStream) -> File {
    let text = code.to_string();
    syn::parse2(code).unwrap_or_else(|error| panic!("{error} in {text}"))
}

#[derive(Default)]
struct Messages(Vec<String>);

impl Visit<'_> for Messages {
    fn visit_macro(&mut self, mac: &Macro) {
        if mac
            .path
            .segments
            .last()
            .is_some_and(|last| last.ident == "compile_error")
        {
            self.0.push(mac.parse_body::<LitStr>().unwrap().value());
        }
        visit::visit_macro(self, mac);
    }
}
