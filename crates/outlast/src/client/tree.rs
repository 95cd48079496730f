//! An instance with its descendants.

use super::Admin;
use outlast_core::limits::PAGE_MAX;
use outlast_core::{Filter, Instance, InstanceId, ListRequest, Result, RoundSummary};
use std::pin::Pin;

/// An instance, the counts of its children, and the children within the limits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tree {
    /// The instance, with its join ([`Instance::barrier`]) and its policy.
    pub instance: Instance,
    /// Its children by round, counted by status.
    pub rounds: Vec<RoundSummary>,
    /// The newest of its children, by id.
    pub children: Vec<Tree>,
    /// How many more children are stored.
    pub more: u64,
}

impl Tree {
    /// Returns how many instances it shows.
    pub fn members(&self) -> usize {
        1 + self.children.iter().map(Tree::members).sum::<usize>()
    }
}

/// The limits of a tree: a family may be larger than the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeLimits {
    /// Generations below the root.
    pub depth: u8,
    /// Children of one instance, the newest.
    pub children: usize,
    /// Instances in all.
    pub members: usize,
}

impl Default for TreeLimits {
    /// Default: three generations, a hundred children each, a thousand instances in all.
    fn default() -> TreeLimits {
        TreeLimits {
            depth: 3,
            children: 100,
            members: 1_000,
        }
    }
}

impl Admin<'_> {
    /// Reads an instance and its descendants, within `limits`.
    ///
    /// `None` when there is no such instance.
    ///
    /// Each member is read at a different moment.
    pub async fn tree(self, id: impl Into<InstanceId>, limits: TreeLimits) -> Result<Option<Tree>> {
        let Some(root) = self.client.find(id.into()).await? else {
            return Ok(None);
        };
        let mut left = limits.members.saturating_sub(1);
        let tree = self.grow(root, limits.depth, limits.children, &mut left);
        tree.await.map(Some)
    }

    /// Adds children and their descendants, within the limits.
    fn grow<'a>(
        &'a self,
        instance: Instance,
        depth: u8,
        most: usize,
        left: &'a mut usize,
    ) -> Pin<Box<dyn Future<Output = Result<Tree>> + Send + 'a>> {
        Box::pin(async move {
            let mut tree = Tree {
                rounds: Vec::new(),
                children: Vec::new(),
                more: 0,
                instance,
            };
            // An instance that never fanned out has no children, so it needs no query.
            if tree.instance.round == 0 {
                return Ok(tree);
            }
            tree.rounds = self.rounds(tree.instance.id).await?;
            let stored = tree.rounds.iter().flat_map(|round| &round.children);
            let stored: u64 = stored.map(|(_, children)| children).sum();
            let limit = most.min(*left).min(PAGE_MAX);
            if depth > 0 && limit > 0 {
                let children = self.newest_children(tree.instance.id, limit).await?;
                *left -= children.len();
                for child in children {
                    let child = self.grow(child, depth - 1, most, left).await?;
                    tree.children.push(child);
                }
            }
            tree.more = stored.saturating_sub(tree.children.len() as u64);
            Ok(tree)
        })
    }

    async fn newest_children(self, parent: InstanceId, limit: usize) -> Result<Vec<Instance>> {
        let filter = Filter {
            parent: Some(parent),
            ..Filter::default()
        };
        let request = ListRequest {
            filter,
            before: None,
            limit,
            values: false,
        };
        let mut children = self.client.admin().list(request).await?.instances;
        children.reverse();
        Ok(children)
    }
}
