//! Routes for children and trees of instances.

use crate::access::scoped_queries::PageRequest;
use crate::access::tokens::TokenScope;
use crate::api::Api;
use crate::bodies::instance::{Counts, InstanceBody};
use crate::limits::{TREE_CHILDREN_MAX, TREE_DEPTH_DEFAULT, TREE_DEPTH_MAX, TREE_NODES_MAX};
use crate::problem::{Problem, ProblemBody};
use crate::requests::cursor::ListQuery;
use crate::requests::extract::{Id, MayRead, Query};
use crate::requests::query::{FilterParams, limit, number};
use axum::Json;
use axum::extract::State;
use outlast_core::limits::{COUNT_MAX, PAGE_MAX};
use outlast_core::{Filter, Instance, InstanceId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Selects children.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct ChildrenParams {
    /// Of this round.
    #[param(value_type = Option<i32>)]
    round: Option<String>,
    /// In one of these statuses; repeated or separated by commas.
    status: Vec<String>,
    /// The `next` of the previous page.
    cursor: Option<String>,
    /// The number of children. Default: 50, at most 200.
    #[param(value_type = Option<u32>)]
    limit: Option<String>,
}

/// A page of children.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ChildPage)]
pub(crate) struct ChildrenBody {
    /// Newest first.
    children: Vec<InstanceBody>,
    /// The `cursor` of the next page; null when this was the last.
    next: Option<String>,
}

/// The depth of a tree.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct TreeParams {
    /// The number of levels below the root. Default: 3, at most 5.
    #[param(value_type = Option<u32>)]
    depth: Option<String>,
}

/// An instance and its descendants.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Tree)]
pub(crate) struct TreeBody {
    root: NodeBody,
    /// Whether there are more nodes than are shown.
    truncated: bool,
}

/// An instance of a tree.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = TreeNode)]
pub(crate) struct NodeBody {
    instance: InstanceBody,
    /// Its fan-outs, oldest first.
    rounds: Vec<RoundBody>,
}

/// One fan-out of an instance.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = TreeRound)]
pub(crate) struct RoundBody {
    /// Counts from 1.
    round: i32,
    /// The number of children by status.
    #[schema(inline)]
    counts: Counts,
    /// Whether all of them were counted.
    exact: bool,
    /// The first children, oldest first.
    #[schema(no_recursion)]
    children: Vec<NodeBody>,
}

/// Lists the children of an instance, newest first.
#[utoipa::path(
    get, path = "/v1/instances/{id}/children", tag = "instances", operation_id = "list_children",
    params(("id" = String, Path), ChildrenParams),
    responses((status = 200, description = "A page of children, newest first.", body = ChildrenBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn children(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Id(id): Id,
    Query(params, _): Query<ChildrenParams>,
) -> Result<Json<ChildrenBody>, Problem> {
    let list_query = ListQuery::new("children", &(id.0, &params.round, &params.status));
    let before = params
        .cursor
        .as_deref()
        .map(|cursor| list_query.position(cursor))
        .transpose()?;
    let round: Option<i32> = number("round", params.round.as_deref())?;
    let limit = limit(params.limit.as_deref())?;
    let filter = FilterParams {
        parent: Some(id.to_string()),
        status: params.status,
        ..FilterParams::default()
    };
    api.instance(&caller.scope, id).await?;
    let wanted = PageRequest {
        filter: api.filter(&filter).await?,
        before: before.map(InstanceId),
        limit,
        values: false,
    };
    let found = api
        .page(&caller.scope, wanted, |child| {
            round.is_none() || round_of(child) == round
        })
        .await?;
    Ok(Json(ChildrenBody {
        next: found.next.map(|next| list_query.cursor(next.0)),
        children: found
            .instances
            .into_iter()
            .map(InstanceBody::summary)
            .collect(),
    }))
}

fn round_of(child: &Instance) -> Option<i32> {
    child.parent.as_ref().map(|parent| parent.round)
}

/// Returns an instance and its descendants, as far as one page can show them.
#[utoipa::path(
    get, path = "/v1/instances/{id}/tree", tag = "instances", operation_id = "get_tree",
    params(("id" = String, Path), TreeParams),
    responses((status = 200, description = "The tree below the instance.", body = TreeBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn tree(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Id(id): Id,
    Query(params, _): Query<TreeParams>,
) -> Result<Json<TreeBody>, Problem> {
    let depth = number("depth", params.depth.as_deref())?.unwrap_or(TREE_DEPTH_DEFAULT);
    if depth > TREE_DEPTH_MAX {
        return Err(Problem::invalid(format!(
            "depth must be at most {TREE_DEPTH_MAX}, not {depth}"
        )));
    }
    let root = api.instance(&caller.scope, id).await?;
    let mut walk = TreeWalk::new(&api, &caller.scope, depth);
    walk.take(root, 0);
    while let Some((id, level)) = walk.waiting.pop_front() {
        walk.read_children(id, level).await?;
    }
    let truncated = walk.truncated;
    let root = walk.assemble(id).ok_or_else(|| Problem::no_instance(id))?;
    Ok(Json(TreeBody { root, truncated }))
}

/// Walks a family level by level, so that a full page leaves out the most distant nodes.
struct TreeWalk<'a> {
    api: &'a Api,
    scope: &'a TokenScope,
    depth: usize,
    taken: BTreeMap<InstanceId, TreeMember>,
    waiting: VecDeque<(InstanceId, usize)>,
    truncated: bool,
}

struct TreeMember {
    instance: InstanceBody,
    rounds: BTreeMap<i32, Round>,
}

#[derive(Default)]
struct Round {
    counts: Counts,
    is_exact: bool,
    children: Vec<InstanceId>,
}

impl<'a> TreeWalk<'a> {
    fn new(api: &'a Api, scope: &'a TokenScope, depth: usize) -> TreeWalk<'a> {
        TreeWalk {
            api,
            scope,
            depth,
            taken: BTreeMap::new(),
            waiting: VecDeque::new(),
            truncated: false,
        }
    }

    fn take(&mut self, instance: Instance, level: usize) {
        let (id, has_children) = (instance.id, instance.round > 0);
        let instance = InstanceBody::summary(instance);
        let rounds = BTreeMap::new();
        self.taken.insert(id, TreeMember { instance, rounds });
        if has_children && level < self.depth {
            self.waiting.push_back((id, level));
        } else if has_children {
            self.truncated = true;
        }
    }

    /// Counts the children of an instance, and takes as many as fit.
    async fn read_children(&mut self, id: InstanceId, level: usize) -> Result<(), Problem> {
        let wanted = PageRequest {
            filter: Filter {
                parent: Some(id),
                ..Filter::default()
            },
            before: None,
            limit: PAGE_MAX,
            values: false,
        };
        let found = self.api.page(self.scope, wanted, |_| true).await?;
        self.truncated |= found.next.is_some();
        let mut rounds = self
            .rounds(id, &found.instances, found.next.is_none())
            .await?;
        // Pages are newest first, and a tree is shown oldest first.
        for child in found.instances.into_iter().rev() {
            let Some(round) = round_of(&child).and_then(|round| rounds.get_mut(&round)) else {
                continue;
            };
            if round.children.len() == TREE_CHILDREN_MAX || self.taken.len() == TREE_NODES_MAX {
                self.truncated = true;
                continue;
            }
            round.children.push(child.id);
            self.take(child, level + 1);
        }
        if let Some(taken) = self.taken.get_mut(&id) {
            taken.rounds = rounds;
        }
        Ok(())
    }

    /// Returns the rounds of an instance with their counts. For a token with a scope, it counts
    /// only the children that were seen.
    async fn rounds(
        &self,
        id: InstanceId,
        seen: &[Instance],
        is_all: bool,
    ) -> Result<BTreeMap<i32, Round>, Problem> {
        let mut rounds = BTreeMap::<i32, Round>::new();
        if self.scope.is_everything() {
            let stored = self.api.admin().rounds(id).await?;
            let counted: u64 = stored
                .iter()
                .flat_map(|it| &it.children)
                .map(|(_, n)| n)
                .sum();
            for summary in stored {
                let counts = summary.children.into_iter();
                let counts = counts
                    .map(|(status, count)| (status.as_str(), count))
                    .collect();
                let round = rounds.entry(summary.round).or_default();
                round.counts = counts;
                round.is_exact = counted < COUNT_MAX;
            }
        } else {
            for child in seen {
                let Some(round) = round_of(child) else {
                    continue;
                };
                let round = rounds.entry(round).or_default();
                *round.counts.entry(child.status.as_str()).or_default() += 1;
                round.is_exact = is_all;
            }
        }
        Ok(rounds)
    }

    fn assemble(&mut self, id: InstanceId) -> Option<NodeBody> {
        let taken = self.taken.remove(&id)?;
        let rounds = taken.rounds.into_iter().map(|(number, round)| RoundBody {
            round: number,
            counts: round.counts,
            exact: round.is_exact,
            children: round
                .children
                .into_iter()
                .filter_map(|child| self.assemble(child))
                .collect(),
        });
        Some(NodeBody {
            instance: taken.instance,
            rounds: rounds.collect(),
        })
    }
}
