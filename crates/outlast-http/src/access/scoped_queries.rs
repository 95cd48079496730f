//! Queries within a token's scope. Instances outside it are treated as if they did not exist.

use crate::access::tokens::TokenScope;
use crate::api::Api;
use crate::limits::LOOKS_MAX;
use crate::problem::{Code, Problem};
use crate::requests::query::FilterParams;
use outlast_core::limits::PAGE_MAX;
use outlast_core::{Count, Filter, Instance, InstanceId, ListRequest, Target, Timestamp, key};

/// A page of matching instances within the scope.
#[derive(Debug, Default)]
pub(crate) struct InstancePage {
    pub(crate) instances: Vec<Instance>,
    /// Where the next page starts, if there may be one.
    pub(crate) next: Option<InstanceId>,
    /// Whether the page is full or the list is exhausted; false when the scan reached its bound.
    pub(crate) scanned_all: bool,
}

/// The parameters of a page.
#[derive(Clone, Debug)]
pub(crate) struct PageRequest {
    pub(crate) filter: Filter,
    pub(crate) before: Option<InstanceId>,
    pub(crate) limit: usize,
    /// Whether to read states and results.
    pub(crate) values: bool,
}

impl Api {
    /// Returns the instance if it is within the scope.
    pub(crate) async fn instance(
        &self,
        scope: &TokenScope,
        id: InstanceId,
    ) -> Result<Instance, Problem> {
        let found = self.client.find(id).await?;
        let found = found.filter(|instance| scope.has(instance));
        found.ok_or_else(|| Problem::no_instance(id))
    }

    /// Returns the same instance as [`holder`](Api::holder), or the problem that there is none.
    pub(crate) async fn by_key(
        &self,
        scope: &TokenScope,
        machine: &str,
        key: &str,
    ) -> Result<Instance, Problem> {
        let found = self.holder(scope, machine, key).await?;
        let nobody = || {
            Problem::new(
                Code::NotFound,
                format!(
                    "no instance of machine {machine:?} has the key {}",
                    key::quoted(key)
                ),
            )
        };
        found.ok_or_else(nobody)
    }

    /// Returns the holder of a correlation key, or else its latest holder; `None` if that instance
    /// is outside the scope.
    pub(crate) async fn holder(
        &self,
        scope: &TokenScope,
        machine: &str,
        key: &str,
    ) -> Result<Option<Instance>, Problem> {
        Filter::check_holder(machine, key)?;
        let target = Target::Key {
            machine: machine.to_owned(),
            key: key.to_owned(),
        };
        let found = self.client.find(target).await?;
        Ok(found.filter(|instance| scope.has(instance)))
    }

    /// Converts the filter of a request. It reads the database's time only if the filter needs it.
    pub(crate) async fn filter(&self, params: &FilterParams) -> Result<Filter, Problem> {
        let now = if params.needs_now() {
            self.admin().now().await?
        } else {
            Timestamp(0)
        };
        params.filter(now)
    }

    /// Returns a page of the instances that `fits` accepts, newest first.
    pub(crate) async fn page(
        &self,
        scope: &TokenScope,
        wanted: PageRequest,
        fits: impl Fn(&Instance) -> bool,
    ) -> Result<InstancePage, Problem> {
        let Some(filter) = narrowed(&wanted.filter, scope) else {
            return Ok(InstancePage {
                scanned_all: true,
                ..InstancePage::default()
            });
        };
        let mut found = InstancePage {
            next: wanted.before,
            ..InstancePage::default()
        };
        for _ in 0..LOOKS_MAX {
            let request = ListRequest {
                filter: filter.clone(),
                before: found.next,
                limit: wanted.limit.min(PAGE_MAX),
                values: wanted.values,
            };
            let page = self.client.admin().list(request).await?;
            found.next = page.next;
            let missing = wanted.limit - found.instances.len();
            let mut fitting = page
                .instances
                .into_iter()
                .filter(|it| scope.has(it) && fits(it));
            found.instances.extend(fitting.by_ref().take(missing));
            if fitting.next().is_some() {
                found.next = found.instances.last().map(|last| last.id);
            }
            found.scanned_all = found.next.is_none() || found.instances.len() == wanted.limit;
            // A page with values may be full by its bytes. Several such pages would exceed the
            // memory budget.
            let has_enough = wanted.values && !found.instances.is_empty();
            if found.scanned_all || has_enough {
                break;
            }
        }
        Ok(found)
    }

    /// Counts the matching instances within the scope.
    pub(crate) async fn count(
        &self,
        scope: &TokenScope,
        filter: &Filter,
    ) -> Result<Count, Problem> {
        let mut total = Count::Exactly(0);
        for part in parts(filter, scope) {
            total = sum(total, self.client.count(part).await?);
        }
        Ok(total)
    }
}

/// Adds the scope to the filter where it is a single name; `None` if they have nothing in common.
fn narrowed(filter: &Filter, scope: &TokenScope) -> Option<Filter> {
    let mut parts = parts(filter, scope);
    match parts.len() {
        0 => None,
        1 => parts.pop(),
        _ => Some(filter.clone()),
    }
}

/// Returns disjoint filters that together match exactly the instances within the scope.
fn parts(filter: &Filter, scope: &TokenScope) -> Vec<Filter> {
    let names =
        |given: &Option<String>, allowed: &Option<std::collections::BTreeSet<String>>| match (
            given, allowed,
        ) {
            (Some(name), Some(allowed)) if !allowed.contains(name) => Vec::new(),
            (None, Some(allowed)) => allowed.iter().cloned().map(Some).collect(),
            (given, _) => vec![given.clone()],
        };
    let queues = names(&filter.queue, &scope.queues);
    let mut parts = Vec::new();
    for machine in names(&filter.machine, &scope.machines) {
        for queue in &queues {
            parts.push(Filter {
                machine: machine.clone(),
                queue: queue.clone(),
                ..filter.clone()
            });
        }
    }
    parts
}

/// Adds two counts.
pub(crate) fn sum(one: Count, other: Count) -> Count {
    match (one, other) {
        (Count::Exactly(one), Count::Exactly(other)) => Count::Exactly(one + other),
        (
            Count::Exactly(one) | Count::AtLeast(one),
            Count::Exactly(other) | Count::AtLeast(other),
        ) => Count::AtLeast(one + other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(machines: &[&str], queues: &[&str]) -> TokenScope {
        let names = |names: &[&str]| {
            (!names.is_empty()).then(|| names.iter().map(|name| (*name).to_owned()).collect())
        };
        TokenScope {
            machines: names(machines),
            queues: names(queues),
        }
    }

    #[test]
    fn a_filter_is_narrowed_to_the_scope_of_the_token() {
        let of = |machine: Option<&str>| Filter {
            machine: machine.map(str::to_owned),
            ..Filter::default()
        };
        assert_eq!(parts(&of(None), &scope(&[], &[])), vec![of(None)]);
        assert_eq!(
            parts(&of(Some("a")), &scope(&["a", "b"], &[])),
            vec![of(Some("a"))]
        );
        assert_eq!(parts(&of(Some("c")), &scope(&["a", "b"], &[])), vec![]);
        assert_eq!(parts(&of(None), &scope(&["a", "b"], &["x", "y"])).len(), 4);
        assert_eq!(
            narrowed(&of(None), &scope(&["a"], &[])),
            Some(of(Some("a")))
        );
        assert_eq!(
            narrowed(&of(None), &scope(&["a", "b"], &[])),
            Some(of(None))
        );
    }
}
