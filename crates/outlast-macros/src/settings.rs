//! The settings of `#[job(..)]` and `#[workflow(..)]`.

use crate::errors::Errors;
use crate::function::Kind;
use crate::spelling::written;
use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, ExprLit, ExprUnary, Lit, LitStr, Token, Type, UnOp};

const JOB_KEYS: [&str; 6] = ["name", "version", "queue", "attempts", "timeout", "history"];
const WORKFLOW_KEYS: [&str; 5] = ["name", "version", "queue", "step_timeout", "error"];

/// What an attribute sets. `None` leaves the default of the trait.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) name: Option<LitStr>,
    pub(crate) version: Option<Expr>,
    pub(crate) queue: Option<LitStr>,
    pub(crate) attempts: Option<Expr>,
    pub(crate) timeout: Option<Expr>,
    pub(crate) history: Option<Expr>,
    pub(crate) step_timeout: Option<Expr>,
    pub(crate) error: Option<Type>,
}

impl Settings {
    /// Reads the arguments of an attribute. A wrong setting is reported and left out.
    pub(crate) fn read(kind: Kind, arguments: TokenStream, errors: &mut Errors) -> Settings {
        let mut settings = Settings::default();
        let mut given = Vec::new();
        let read = |input: ParseStream<'_>| {
            while !input.is_empty() {
                settings.read_one(kind, input, &mut given, errors)?;
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(())
        };
        if let Err(error) = read.parse2(arguments) {
            errors.push(error);
        }
        settings
    }

    /// Reads `key = value`.
    fn read_one(
        &mut self,
        kind: Kind,
        input: ParseStream<'_>,
        given: &mut Vec<Ident>,
        errors: &mut Errors,
    ) -> syn::Result<()> {
        if input.peek(Lit) {
            let message = "write the name of the setting before it, such as `name = \"..\"`";
            return Err(input.error(message));
        }
        let key = Ident::parse_any(input)?;
        if !is_known(kind, &key, errors) {
            return skip_to_comma(input);
        }
        if given.contains(&key) {
            errors.at(&key, format!("`{key}` is given twice: remove this one"));
        }
        if !input.peek(Token![=]) {
            errors.at(&key, format!("write `{key} = ..`"));
            return skip_to_comma(input);
        }
        input.parse::<Token![=]>()?;
        if key == "error" && !input.peek(Lit) {
            self.error = Some(input.parse()?);
        } else if let Err(error) = self.set(&key, input.parse()?) {
            errors.push(error);
        }
        given.push(key);
        Ok(())
    }

    fn set(&mut self, key: &Ident, value: Expr) -> syn::Result<()> {
        match key.to_string().as_str() {
            "name" => self.name = Some(text(key, &value)?),
            "version" => self.version = Some(count(key, value)?),
            "queue" => self.queue = Some(text(key, &value)?),
            "attempts" => self.attempts = Some(count(key, value)?),
            "timeout" => self.timeout = Some(duration(key, value)?),
            "history" => self.history = Some(history(key, value)?),
            "step_timeout" => self.step_timeout = Some(duration(key, value)?),
            "error" => return Err(no_type(key, &value)),
            // `read_one` knows the keys.
            _ => {}
        }
        Ok(())
    }

    /// Returns the constants that jobs and workflows have in common.
    pub(crate) fn constants(&self, name: LitStr) -> TokenStream {
        let name = self.name.clone().unwrap_or(name);
        let version = self.version.iter();
        let queue = self.queue.iter();
        quote! {
            const NAME: &'static str = #name;
            #(const VERSION: i32 = #version;)*
            #(const QUEUE: &'static str = #queue;)*
        }
    }
}

/// Returns whether a key is one of the attribute's, or reports it.
fn is_known(kind: Kind, key: &Ident, errors: &mut Errors) -> bool {
    let known: &[&str] = match kind {
        Kind::Job => &JOB_KEYS,
        Kind::Workflow => &WORKFLOW_KEYS,
    };
    let is_known = known.iter().any(|name| key == name);
    if !is_known {
        let (attribute, known) = (kind.attribute(), known.join("`, `"));
        errors.at(
            key,
            format!("`{key}` is unknown: `{attribute}` takes `{known}`"),
        );
    }
    is_known
}

/// Skips the rest of a setting, up to the comma after it.
pub(crate) fn skip_to_comma(input: ParseStream<'_>) -> syn::Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?;
    }
    Ok(())
}

/// Returns the text in quotes that is the value of `key`.
pub(crate) fn text(key: &Ident, value: &Expr) -> syn::Result<LitStr> {
    let message = match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => match text.value().is_empty() {
            true => format!("`{key}` is empty: write a text between the quotes"),
            false => return Ok(text.clone()),
        },
        Expr::Path(path) => {
            let path = written(path);
            format!("`{key}` is a text in quotes: write `{key} = \"{path}\"`")
        }
        _ => format!("`{key}` is a text in quotes: write `{key} = \"..\"`"),
    };
    Err(syn::Error::new_spanned(value, message))
}

/// Returns the error of a value that stands where a type should.
fn no_type(key: &Ident, value: &Expr) -> syn::Error {
    let ty = text(key, value).map_or_else(|_| "..".to_owned(), |text| text.value());
    let message = format!("`{key}` is a type: write `{key} = {ty}`");
    syn::Error::new_spanned(value, message)
}

/// Checks a number that is 1 or more, as far as it is written here.
fn count(key: &Ident, value: Expr) -> syn::Result<Expr> {
    let message = match &value {
        Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        }) => match number.base10_digits() == "0" {
            true => format!("`{key}` is 1 or more"),
            false => return Ok(value),
        },
        Expr::Unary(ExprUnary {
            op: UnOp::Neg(_), ..
        }) => format!("`{key}` is 1 or more"),
        Expr::Lit(_) => format!("`{key}` is a number: write `{key} = 2`"),
        _ => return Ok(value),
    };
    Err(syn::Error::new_spanned(&value, message))
}

/// Checks that a duration is not a bare number or text.
fn duration(key: &Ident, value: Expr) -> syn::Result<Expr> {
    let Expr::Lit(literal) = &value else {
        return Ok(value);
    };
    let seconds = match &literal.lit {
        Lit::Int(number) => number.base10_digits(),
        _ => "30",
    };
    let message =
        format!("`{key}` is a `Duration`: write `{key} = Duration::from_secs({seconds})`");
    Err(syn::Error::new_spanned(&value, message))
}

/// Checks that a history is not a text.
fn history(key: &Ident, value: Expr) -> syn::Result<Expr> {
    match &value {
        Expr::Lit(_) => {
            let message = format!("`{key}` is a `History`: write `{key} = History::Transitions`");
            Err(syn::Error::new_spanned(&value, message))
        }
        _ => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Settings};
    use crate::errors::Errors;
    use crate::testing;
    use proc_macro2::TokenStream;
    use quote::quote;

    fn errors(kind: Kind, arguments: TokenStream) -> Vec<String> {
        let mut errors = Errors::default();
        Settings::read(kind, arguments, &mut errors);
        testing::errors(errors.into_compile_errors().collect())
    }

    #[test]
    fn settings_may_be_constant_expressions() {
        let job = quote!(
            attempts = 2 * TRIES,
            version = NEXT,
            timeout = MINUTE.saturating_mul(2),
            history = if DEBUG { History::States } else { History::Off },
        );
        assert!(errors(Kind::Job, job).is_empty());
        let workflow = quote!(error = Either<A, B>, step_timeout = Duration::from_secs(5));
        assert!(errors(Kind::Workflow, workflow).is_empty());
    }

    #[test]
    fn a_wrong_setting_does_not_hide_the_next_one() {
        assert_eq!(
            errors(
                Kind::Job,
                quote!(
                    retries = 5,
                    attempts = 0,
                    timeout = 5,
                    queue = "mail",
                    version
                )
            ),
            [
                "`retries` is unknown: `#[job]` takes `name`, `version`, `queue`, `attempts`, \
                 `timeout`, `history`",
                "`attempts` is 1 or more",
                "`timeout` is a `Duration`: write `timeout = Duration::from_secs(5)`",
                "write `version = ..`",
            ]
        );
    }

    #[test]
    fn mistakes_are_answered_with_the_line_to_write() {
        let known = "`name`, `version`, `queue`, `attempts`, `timeout`, `history`";
        let cases = [
            (
                quote!(retries = 5),
                format!("`retries` is unknown: `#[job]` takes {known}"),
            ),
            (
                quote!(error = E),
                format!("`error` is unknown: `#[job]` takes {known}"),
            ),
            (
                quote!("mail"),
                "write the name of the setting before it, such as `name = \"..\"`".into(),
            ),
            (quote!(attempts), "write `attempts = ..`".into()),
            (quote!(attempts(5)), "write `attempts = ..`".into()),
            (
                quote!(attempts = 5, attempts = 6),
                "`attempts` is given twice: remove this one".into(),
            ),
            (
                quote!(attempts = "5"),
                "`attempts` is a number: write `attempts = 2`".into(),
            ),
            (quote!(attempts = 0u32), "`attempts` is 1 or more".into()),
            (quote!(version = -1), "`version` is 1 or more".into()),
            (
                quote!(queue = mail),
                "`queue` is a text in quotes: write `queue = \"mail\"`".into(),
            ),
            (
                quote!(name = 5),
                "`name` is a text in quotes: write `name = \"..\"`".into(),
            ),
            (
                quote!(name = ""),
                "`name` is empty: write a text between the quotes".into(),
            ),
            (
                quote!(timeout = "1m"),
                "`timeout` is a `Duration`: write `timeout = Duration::from_secs(30)`".into(),
            ),
            (
                quote!(history = true),
                "`history` is a `History`: write `history = History::Transitions`".into(),
            ),
            (quote!(attempts = 5 queue = "mail"), "expected `,`".into()),
        ];
        for (arguments, message) in cases {
            assert_eq!(
                errors(Kind::Job, arguments.clone()),
                [message],
                "{arguments}"
            );
        }
    }

    #[test]
    fn a_workflow_has_settings_of_its_own() {
        assert_eq!(
            errors(Kind::Workflow, quote!(attempts = 5)),
            ["`attempts` is unknown: `#[workflow]` takes \
              `name`, `version`, `queue`, `step_timeout`, `error`"]
        );
        assert_eq!(
            errors(Kind::Workflow, quote!(error = "BankError", name = "pay")),
            ["`error` is a type: write `error = BankError`"]
        );
        assert_eq!(
            errors(Kind::Workflow, quote!(error = 5)),
            ["`error` is a type: write `error = ..`"]
        );
        assert_eq!(
            errors(Kind::Workflow, quote!(step_timeout = 5)),
            ["`step_timeout` is a `Duration`: write `step_timeout = Duration::from_secs(5)`"]
        );
    }
}
