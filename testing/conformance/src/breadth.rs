//! A choice of rules that together use a store in all its ways.
//!
//! Each store's crate tries them and records which of its statements they execute. A statement
//! that none executes is named, so the choice stays complete.

use crate::{Subject, suite};

/// Tries each rule of the choice on a subject of its own.
///
/// The rules run one after the other, so a record of the statements belongs to them alone.
pub async fn try_broad_rules<Opening: Future<Output = Subject>>(open: impl Fn() -> Opening) {
    macro_rules! try_all {
        ($($group:ident::$module:ident::$rule:ident,)*) => {
            $({
                let subject = open().await;
                suite::$group::$module::$rule(&subject).await;
                subject.finish().await;
            })*
        };
    }
    try_all! {
        claiming::claims::a_worker_lists_its_claims_from_inserts_and_deliveries,
        claiming::leases::a_heartbeat_renews_the_lease,
        claiming::leases::deregistering_does_not_lengthen_a_lease,
        claiming::partitions::a_returned_row_runs_before_a_later_row_of_its_key_in_a_long_queue,
        claiming::reaping::a_step_that_keeps_killing_its_worker_fails_past_the_bound,
        families::cascades::each_close_action_is_recorded_with_the_parent,
        families::trees::a_family_is_counted_by_status,
        families::trees::a_terminated_tree_ends,
        families::windows::a_decided_join_ends_its_held_children,
        families::windows::a_dropped_child_takes_no_place,
        families::windows::a_retried_child_runs_beside_the_window,
        families::windows::no_more_children_run_at_a_time_than_the_window_allows,
        operations::cancelling::a_cancel_is_recorded,
        operations::operators::a_delete_removes_signals_and_records_but_is_itself_recorded,
        operations::operators::pause_and_resume_say_whether_they_changed_anything,
        outcomes::bad_input::names_are_data_whatever_they_look_like,
        outcomes::batches::a_mixed_workload_ends_with_nothing_to_repair,
        outcomes::visits::a_crash_stays_in_the_visit,
        queries::lists::a_page_ends_at_its_bound_of_bytes,
        queries::lists::queues_show_eligible_delayed_and_executing_instances,
        queries::run_stats::a_write_check_leaves_no_counts,
        queries::run_stats::counts_of_one_key_are_added_up,
        queries::step_counts::an_empty_store_has_no_step_counts,
        queries::step_counts::children_are_counted_by_round_and_status,
        waiting::fresh_inboxes::reading_an_inbox_changes_nothing,
        waiting::signals::a_signal_sent_again_after_the_end_is_a_duplicate,
        waiting::sleeping::a_parent_sees_that_its_child_sleeps,
        waiting::timeouts::a_child_that_waits_for_a_place_times_out_too,
        waiting::timeouts::a_retry_counts_both_timeouts_anew,
        waiting::updates::an_update_can_be_answered_commits_after_it_was_consumed,
        waiting::updates::a_retry_leaves_unanswered_updates_ended,
        workflows::continue_as_new::the_histories_of_the_last_runs_are_kept,
        workflows::groups::a_cancel_wakes_an_incomplete_group,
        workflows::groups::a_group_does_not_wait_for_members_that_came_before_the_park,
        workflows::groups::a_park_that_needs_all_says_what_is_missing,
        workflows::histories::an_operators_retry_goes_on_with_the_history,
        workflows::histories::every_outcome_can_have_events,
        workflows::views::a_lost_outcome_publishes_nothing,
    }
}
