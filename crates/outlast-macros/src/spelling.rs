//! How names and types are written: in the database, and in messages.

use proc_macro2::Ident;
use quote::ToTokens;
use syn::ext::IdentExt;

/// Returns a type's name in snake case, by the rule of serde's `rename_all = "snake_case"`: an
/// underscore before every uppercase letter but the first.
pub(crate) fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (i, letter) in name.char_indices() {
        if i > 0 && letter.is_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// Returns a name without the `r#` of a keyword.
pub(crate) fn plain(name: &Ident) -> String {
    name.unraw().to_string()
}

/// Writes code for a message, without the spaces that tokens have between them.
pub(crate) fn written(code: impl ToTokens) -> String {
    let mut text = code.to_token_stream().to_string();
    let tight = [
        (" :: ", "::"),
        (":: ", "::"),
        (" < ", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" ,", ","),
        ("& ", "&"),
    ];
    for (spaced, dense) in tight {
        text = text.replace(spaced, dense);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    #[test]
    fn names_follow_the_rule_of_serde() {
        assert_eq!(snake_case("Paid"), "paid");
        assert_eq!(snake_case("PaymentConfirmed"), "payment_confirmed");
        assert_eq!(snake_case("HTTPDone"), "h_t_t_p_done");
        assert_eq!(snake_case("Retry2Times"), "retry2_times");
    }

    #[test]
    fn a_type_in_a_message_has_no_spaces_between_its_tokens() {
        let code = quote!(Result<Vec<&a::Mail>, (u8, u8)>);
        assert_eq!(written(code), "Result<Vec<&a::Mail>, (u8, u8)>");
    }
}
