//! The list of rules, and the macro that makes a test of each.

/// Makes one test of every rule of the [`suite`](crate::suite), in modules of the same names.
///
/// Takes the path of an `async fn() -> Subject` that opens an empty store. See the
/// [crate's page](crate) for an example.
#[macro_export]
macro_rules! conformance_suite {
    ($open:path) => {
        $crate::every_rule! { tests_of_rules $open }
    };
}

/// The tests that [`conformance_suite!`] makes from a list of rules.
#[doc(hidden)]
#[macro_export]
macro_rules! tests_of_rules {
    ($open:path; $($group:ident { $($module:ident on $threads:ident { $($rule:ident,)* })* })*) => {
        fn open_subject() -> impl ::std::future::Future<Output = $crate::Subject> {
            $open()
        }
        $(
            mod $group {
                $(
                    mod $module {
                        $(
                            #[test]
                            fn $rule() {
                                $crate::try_rule(
                                    $crate::Threads::$threads,
                                    super::super::open_subject,
                                    $crate::compiled::$group::$module::$rule
                                        as $crate::compiled::Rule,
                                );
                            }
                        )*
                    }
                )*
            }
        )*
    };
}

/// Every rule behind a pointer.
///
/// The crate that awaits an `async fn` compiles it. Without this module, each store's crate would
/// compile the whole suite again.
#[doc(hidden)]
#[allow(missing_docs, reason = "they are the rules, and say so themselves")]
pub mod compiled {
    use crate::Subject;
    use std::future::Future;
    use std::pin::Pin;

    pub type Rule = for<'a> fn(&'a Subject) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

    macro_rules! rules_behind_pointers {
        (; $($group:ident { $($module:ident on $threads:ident { $($rule:ident,)* })* })*) => {
            $(
                pub mod $group {
                    $(
                        pub mod $module {
                            $(
                                pub fn $rule(
                                    subject: &crate::Subject,
                                ) -> std::pin::Pin<Box<dyn Future<Output = ()> + '_>> {
                                    Box::pin(crate::suite::$group::$module::$rule(subject))
                                }
                            )*
                        }
                    )*
                }
            )*
        };
    }

    crate::every_rule! { rules_behind_pointers }
}

/// The list of all rules. A test of this crate compares the list with the sources.
#[doc(hidden)]
#[macro_export]
macro_rules! every_rule {
    (tests_of_rules $open:path) => {
        $crate::every_rule! { @list $crate::tests_of_rules, $open }
    };
    (rules_behind_pointers) => {
        $crate::every_rule! { @list rules_behind_pointers, }
    };
    (@list $made_of_them:path, $($open:path)?) => {
        $made_of_them! {
            $($open)?;
            claiming {
                claims on One {
                    an_empty_queue_gives_nothing,
                    a_claim_makes_the_row_executing_at_the_next_revision,
                    a_claim_carries_everything_the_step_may_look_at,
                    a_lower_priority_number_goes_first,
                    at_equal_priority_the_earlier_eligible_instance_goes_first,
                    at_equal_priority_and_time_the_lower_id_goes_first,
                    priority_goes_before_time,
                    a_claim_takes_from_its_queue_only,
                    a_claim_takes_no_more_instances_than_requested,
                    a_claim_of_zero_instances_takes_none,
                    a_claim_takes_only_the_machines_and_versions_it_names,
                    foreign_instances_at_the_head_do_not_hide_the_instances_behind_them,
                    an_instance_is_not_claimed_before_it_is_eligible,
                    a_claim_says_when_the_next_row_comes_due,
                    the_next_due_time_covers_all_priorities_of_its_queue_only,
                    many_delayed_urgent_rows_do_not_hide_a_due_row,
                    a_row_with_a_start_in_the_past_goes_before_a_row_eligible_later,
                    a_paused_queue_gives_nothing_and_says_so,
                    a_worker_that_never_registered_cannot_claim,
                    one_call_returns_ten_thousand_claims_in_order,
                    a_worker_lists_its_claims_at_their_current_revisions,
                    a_worker_lists_its_claims_from_inserts_and_deliveries,
                    the_claims_of_a_dead_worker_are_listed_until_they_are_reaped,
                    the_next_claim_of_an_instance_is_at_least_two_revisions_later,
                }
                leases on One {
                    a_registered_worker_is_listed,
                    workers_with_the_same_name_have_different_ids,
                    a_worker_cannot_claim_from_the_moment_its_lease_expires,
                    a_heartbeat_renews_the_lease,
                    a_late_heartbeat_renews_a_worker_that_was_not_removed,
                    a_heartbeat_tells_a_removed_worker_that_it_is_gone,
                    a_heartbeat_can_change_the_length_of_the_lease,
                    deregistering_a_worker_without_claims_removes_its_row,
                    deregistering_a_worker_with_claims_expires_its_lease,
                    deregistering_does_not_lengthen_a_lease,
                    an_expired_worker_may_commit_a_claim_that_was_not_reaped,
                    inserting_with_a_claim_needs_a_lease,
                    a_worker_that_released_all_its_claims_deregisters_at_once,
                    a_worker_with_invalid_machines_is_refused,
                }
                partitions on One {
                    a_claim_takes_only_the_first_row_of_a_partition_key,
                    the_next_row_of_a_partition_key_runs_when_the_first_has_ended,
                    rows_of_a_partition_key_run_in_the_order_of_the_queue,
                    a_returned_row_runs_before_a_later_row_of_its_key_in_a_long_queue,
                    a_busy_partition_key_at_the_head_does_not_block_the_other_rows,
                    hundreds_of_rows_of_one_partition_key_run_in_order,
                    a_partition_key_counts_in_every_queue,
                    a_partition_key_is_free_while_its_instance_is_parked,
                    every_outcome_that_gives_up_the_claim_lets_the_next_row_run,
                    a_kept_claim_keeps_its_partition_key,
                    release_terminate_and_reap_let_the_next_row_run,
                    partition_keys_are_compared_whole,
                    a_terminated_row_of_a_partition_key_does_not_block_the_next_row,
                    a_row_that_no_worker_can_run_does_not_block_its_partition_key,
                    a_delayed_row_does_not_block_its_partition_key,
                }
                races on Several {
                    concurrent_claims_never_take_the_same_row,
                    concurrent_claims_take_one_row_of_a_partition_key,
                    siblings_that_end_concurrently_wake_their_parent_once,
                    concurrent_batches_of_siblings_in_opposite_order_all_commit,
                    concurrent_inserts_of_keys_in_opposite_order_leave_one_holder_per_key,
                    a_signal_that_races_a_park_is_never_lost,
                    a_signal_that_races_an_end_is_dropped_with_it_or_refused,
                    concurrent_sends_with_one_dedup_key_deliver_one_signal,
                    concurrent_signals_to_a_free_key_start_one_instance_and_all_arrive,
                    a_signal_sent_again_while_its_key_changes_holder_is_a_duplicate,
                    a_signal_or_insert_that_races_an_end_reaches_the_old_or_a_new_holder,
                    a_signal_or_insert_that_races_an_insert_reaches_the_one_holder,
                    a_signal_or_insert_that_races_a_park_is_never_lost,
                    an_outcome_that_races_a_terminate_wins_or_is_lost,
                    an_outcome_sent_several_times_concurrently_is_committed_once,
                    concurrent_reapers_return_each_claim_once,
                    the_end_of_a_child_that_races_its_parents_park_is_never_lost,
                    a_signal_that_races_a_park_for_children_is_never_lost,
                    a_cancel_that_races_a_park_is_never_lost,
                    siblings_of_several_rounds_that_end_concurrently_wake_a_workflow_once,
                    a_signal_a_child_and_a_deadline_at_once_wake_a_workflow_once,
                }
                reaping on One {
                    the_claim_of_a_dead_worker_returns_to_its_queue,
                    a_live_worker_keeps_its_claims,
                    a_late_commit_after_reap_changes_nothing,
                    a_late_commit_after_the_same_worker_claimed_again_changes_nothing,
                    a_late_commit_after_reap_consumes_no_signal,
                    a_late_commit_after_reap_does_not_count_in_the_join,
                    a_step_that_keeps_killing_its_worker_fails_past_the_bound,
                    crashes_of_a_worker_with_several_claims_fail_none_of_its_instances,
                    the_only_quarantined_instance_of_a_worker_is_blamed_for_the_crash,
                    a_child_failed_by_the_reaper_wakes_its_parent_and_loses_its_inbox,
                    an_operator_can_retry_an_instance_that_crashed_too_often,
                    a_commit_resets_the_crash_count,
                    a_release_does_not_reset_the_crash_count,
                    awaited_signals_are_kept_through_a_crash,
                    a_reap_returns_no_more_claims_than_requested,
                    several_dead_workers_are_reaped_at_once,
                    a_second_reap_finds_nothing,
                    no_instance_executes_for_ever_under_an_expired_lease,
                }
            }
            families {
                cascades on One {
                    a_cascade_follows_the_close_policy_of_each_child,
                    a_terminated_parent_cascades_to_its_children,
                    a_parent_that_crashed_too_often_cascades_to_its_children,
                    an_end_without_live_children_under_a_policy_leaves_no_cascade,
                    a_parent_that_goes_on_leaves_no_cascade,
                    a_cascade_reaches_the_children_of_all_rounds,
                    a_cascade_skips_children_that_ended_or_were_cancelled_before,
                    a_cascade_hints_at_the_queues_of_woken_children,
                    a_cascade_continues_where_it_stopped,
                    a_full_batch_may_be_the_last_of_a_cascade,
                    cascades_run_in_the_order_in_which_they_were_stored,
                    each_close_action_is_recorded_with_the_parent,
                    close_actions_on_many_children_come_in_pages,
                    a_child_terminated_by_a_cascade_releases_its_keys_and_inbox,
                    a_parent_is_kept_until_its_cascade_is_done,
                    a_child_with_a_cascade_is_kept_while_its_parent_lives,
                    cascade_requests_beyond_their_bound_are_refused,
                }
                children on One {
                    the_join_sees_the_error_values_of_failed_children,
                    a_fan_out_starts_its_children_and_parks_in_one_commit,
                    a_child_is_stored_as_the_fan_out_describes_it,
                    the_parent_runs_on_when_the_last_child_has_ended,
                    the_join_sees_failed_and_cancelled_children_too,
                    a_fan_out_without_children_does_not_park,
                    children_with_an_occupied_key_are_dropped_and_reported,
                    a_key_released_by_the_same_batch_is_still_occupied_for_children,
                    when_all_children_are_dropped_the_parent_runs_on,
                    a_second_round_sees_only_its_own_children,
                    a_second_round_does_not_report_the_dropped_children_of_the_first,
                    the_late_end_of_a_child_of_an_older_round_does_not_count,
                    a_parent_waits_again_for_a_child_that_is_retried_in_time,
                    a_child_retried_after_the_join_does_not_count,
                    siblings_that_end_in_one_batch_all_count,
                    children_of_several_parents_end_in_one_batch,
                    joins_nest_three_levels_deep,
                    one_commit_handles_several_levels_of_a_family,
                    ten_thousand_children_are_spawned_and_joined,
                    ending_a_parent_does_not_touch_its_children,
                    an_ended_child_is_counted_once,
                    a_lost_fan_out_starts_no_children,
                    a_joined_step_that_is_retried_sees_the_same_children,
                }
                join_deadlines on One {
                    a_join_deadline_wakes_the_parent_with_unfinished_children,
                    a_decided_join_has_no_deadline,
                    waits_and_joins_fire_in_the_order_of_their_deadlines,
                    a_filter_by_deadline_does_not_find_joins,
                }
                join_policies on One {
                    a_decided_join_applies_its_policy_to_the_remaining_children,
                    the_policy_of_a_join_applies_to_its_own_round_only,
                    a_join_decided_at_its_start_applies_its_policy_to_all_children,
                }
                joins on One {
                    a_join_waits_for_all_children_by_default,
                    a_step_sees_its_children_in_the_order_of_its_fan_out,
                    the_first_failure_wakes_a_fail_fast_parent_at_once,
                    a_fail_fast_join_without_a_failure_waits_for_all_children,
                    a_reached_quorum_wakes_the_parent_at_once,
                    the_first_success_reaches_a_quorum_of_one,
                    a_quorum_that_can_no_longer_be_reached_wakes_the_parent_at_once,
                    a_parent_does_not_wait_for_a_quorum_above_the_started_children,
                    a_join_without_children_is_decided_at_once,
                    a_child_that_ends_after_the_parent_was_woken_changes_nothing,
                    children_that_end_in_one_batch_are_counted_together,
                    a_join_is_decided_after_the_whole_batch_is_counted,
                    the_failure_committed_first_is_the_first_failure,
                    the_reason_of_a_join_stays_until_the_next_fan_out,
                    a_child_that_crashed_too_often_counts_as_a_failure,
                    a_join_waits_again_for_a_failed_child_that_is_retried,
                    a_retry_of_the_first_failure_makes_the_next_failure_the_first,
                    joins_with_invalid_bounds_are_rejected,
                }
                trees on One {
                    a_terminated_tree_ends,
                    a_tree_is_cancelled_from_the_root_down,
                    a_cancel_or_terminate_of_one_instance_does_not_reach_its_children,
                    a_cancel_or_terminate_of_a_tree_goes_past_an_ended_or_cancelled_root,
                    a_tree_of_one_instance_leaves_no_cascade,
                    a_tree_listed_twice_is_cancelled_once,
                    descendants_of_an_ended_child_are_terminated_with_the_tree,
                    close_policies_propagate_down_the_tree,
                    a_close_policy_and_a_tree_terminate_end_each_instance_once,
                    children_started_by_the_answer_to_a_cancel_are_not_in_the_cascade,
                    a_child_started_while_a_cascade_runs_is_cancelled_too,
                    held_children_end_when_their_tree_is_cancelled,
                    children_of_a_terminated_parent_do_not_count_in_its_join,
                    a_cascade_does_not_terminate_a_retried_child_again,
                    a_family_is_counted_by_status,
                    an_unknown_instance_has_no_family,
                    a_family_has_members_of_every_round,
                }
                windows on One {
                    no_more_children_run_at_a_time_than_the_window_allows,
                    without_a_window_all_children_start,
                    a_window_larger_than_the_round_holds_no_child,
                    every_end_of_a_child_passes_its_place_to_the_next_child,
                    a_child_that_has_not_ended_keeps_its_place,
                    as_many_held_children_start_as_others_have_ended,
                    a_cancel_of_a_held_child_ends_it,
                    a_terminated_held_child_passes_no_place_on,
                    a_join_counts_a_child_that_ended_while_it_was_held,
                    a_dropped_child_takes_no_place,
                    a_window_goes_on_after_the_parent_was_woken,
                    each_round_has_its_own_window,
                    a_held_child_does_not_block_its_partition_key,
                    siblings_with_one_partition_key_need_a_place_and_their_turn,
                    a_delayed_child_with_a_place_still_waits_for_its_start,
                    a_signal_to_a_held_child_waits_in_its_inbox,
                    a_decided_join_ends_its_held_children,
                    a_retried_child_runs_beside_the_window,
                    a_held_child_that_was_cancelled_gets_a_place_when_it_is_retried,
                }
            }
            operations {
                cancel_answers on One {
                    a_wait_with_a_pending_cancel_does_not_park,
                    a_fan_out_with_a_pending_cancel_starts_no_children,
                    a_retry_with_a_pending_cancel_runs_without_its_delay,
                    a_next_with_a_pending_cancel_is_followed_by_the_answer,
                    an_end_with_a_pending_cancel_is_written_as_decided,
                    every_outcome_but_a_retry_answers_a_cancel,
                    a_retry_does_not_answer_a_cancel,
                    an_instance_runs_as_usual_after_it_answered_a_cancel,
                    an_answer_of_a_stale_claim_changes_nothing,
                    an_answer_that_cannot_be_stored_changes_nothing,
                    an_answer_without_a_cancel_is_an_ordinary_outcome,
                    a_batch_may_mix_answers_and_outcomes_with_a_pending_cancel,
                }
                cancelling on One {
                    a_cancel_wakes_an_instance_that_waits_for_a_signal,
                    a_cancel_wakes_a_parent_that_waits_for_children,
                    a_cancel_makes_a_delayed_instance_eligible_at_once,
                    a_cancel_of_an_eligible_instance_keeps_its_place_in_the_queue,
                    a_cancelled_instance_keeps_its_turn_in_its_partition_key,
                    a_cancel_does_not_lose_the_claim_of_a_running_step,
                    a_commit_that_keeps_its_claim_returns_the_cancel,
                    a_commit_that_gives_up_its_claim_returns_no_cancel,
                    the_claims_of_a_worker_carry_their_unanswered_cancels,
                    a_cancel_of_an_ended_instance_changes_nothing,
                    a_cancel_that_is_requested_again_changes_nothing,
                    a_cancel_is_recorded,
                    a_batch_of_cancels_answers_in_the_callers_order,
                    a_terminate_ends_an_instance_with_a_pending_cancel,
                    a_signal_to_an_instance_with_a_pending_cancel_waits_in_its_inbox,
                    a_pending_cancel_survives_a_crash_and_a_release,
                    a_retried_instance_has_no_cancel,
                    a_correlation_key_is_held_until_the_cancelled_instance_ends,
                    the_deadline_of_a_cancelled_wait_does_not_fire,
                    the_reason_of_a_cancel_is_cleaned,
                    cancels_and_terminates_that_cannot_be_stored_are_refused,
                    an_instance_without_a_parent_has_no_close_policy,
                }
                operators on One {
                    retry_clears_the_error_value,
                    terminate_ends_live_instances_only,
                    the_outcome_of_a_terminated_step_is_lost,
                    terminating_a_child_empties_its_inbox_and_wakes_its_parent,
                    a_repeated_terminate_is_recorded_once,
                    a_batch_of_terminates_answers_in_the_callers_order,
                    parent_and_children_are_terminated_in_one_verb,
                    siblings_terminated_in_one_verb_all_count,
                    retry_restarts_failed_and_cancelled_instances_only,
                    retry_resets_the_attempts,
                    a_second_retry_changes_nothing,
                    a_claim_from_before_the_end_is_lost_after_a_retry,
                    delete_removes_ended_instances_only,
                    a_delete_removes_signals_and_records_but_is_itself_recorded,
                    a_child_of_a_living_parent_is_not_deleted,
                    a_deleted_id_is_not_given_again,
                    pause_and_resume_say_whether_they_changed_anything,
                    a_running_step_goes_on_in_a_paused_queue,
                    pausing_one_queue_does_not_pause_another,
                    a_note_without_a_reason_is_accepted,
                }
            }
            outcomes {
                bad_input on One {
                    an_error_value_has_the_limits_of_a_result,
                    a_row_that_cannot_be_stored_is_refused,
                    an_insert_with_one_bad_row_is_refused_whole,
                    a_delivery_with_one_bad_signal_is_refused_whole,
                    an_outcome_that_cannot_be_stored_is_rejected,
                    an_endless_sleep_is_rejected_with_a_reason,
                    a_stale_outcome_that_cannot_be_stored_changes_nothing,
                    error_texts_are_cleaned,
                    an_operator_without_a_proper_name_is_refused,
                    an_invalid_worker_is_refused,
                    batches_beyond_their_bound_are_refused,
                    requests_beyond_their_bounds_are_refused,
                    the_largest_allowed_values_are_stored,
                    names_are_data_whatever_they_look_like,
                    requests_for_names_that_cannot_be_stored_are_refused,
                }
                batches on One {
                    ids_are_given_in_the_callers_order,
                    an_insert_hints_at_queues_with_claimable_rows,
                    an_insert_can_claim_its_rows,
                    a_claim_at_the_insert_equals_a_later_claim,
                    an_insert_claims_only_rows_that_are_claimable_at_once,
                    a_claim_at_the_insert_is_reaped_like_any_other,
                    fifty_thousand_rows_go_in_one_batch,
                    verbs_with_empty_batches_do_nothing,
                    a_mixed_workload_ends_with_nothing_to_repair,
                    a_search_for_repairs_goes_page_by_page,
                    a_closed_store_answers_that_it_is_closed,
                }
                commits on One {
                    fail_ends_the_instance_with_the_error_value,
                    a_next_that_keeps_its_claim_stays_executing,
                    a_kept_claim_commits_again_at_the_answered_revision,
                    a_next_through_the_queue_is_runnable_at_once,
                    retry_runs_the_same_step_later_with_one_more_attempt,
                    a_retry_records_its_error,
                    wait_parks_and_keeps_the_inbox,
                    fan_out_parks_on_its_children,
                    done_ends_the_instance_with_the_result,
                    fail_ends_the_instance_with_the_reason,
                    cancel_ends_the_instance_with_the_reason,
                    an_outcome_sent_again_is_lost,
                    an_outcome_for_a_row_that_does_not_execute_is_lost,
                    an_outcome_for_another_revision_is_lost,
                    an_outcome_for_a_missing_instance_is_lost,
                    a_claim_named_twice_in_a_batch_commits_once,
                    a_batch_may_mix_every_outcome,
                    one_bad_outcome_does_not_fail_the_rest_of_its_batch,
                    a_rejected_outcome_leaves_the_claim_held,
                    more_than_ten_thousand_outcomes_go_in_one_batch,
                    an_ended_instance_takes_no_further_outcome,
                    a_commit_hints_at_queues_with_claimable_rows,
                    release_puts_a_claim_back_untouched,
                    a_released_instance_is_claimable_after_its_pause,
                    a_release_of_a_lost_claim_changes_nothing,
                    states_and_results_are_stored_verbatim,
                }
                retention on One {
                    an_instance_is_collected_when_its_retention_is_over,
                    only_ended_instances_are_collected,
                    children_are_spared_while_their_parent_lives,
                    children_of_older_rounds_are_spared_too,
                    children_without_a_stored_parent_are_collected,
                    signals_and_tombstones_are_removed_with_their_instance,
                    operations_are_removed_with_their_instance,
                    records_of_queues_and_deleted_instances_are_removed_by_age,
                    a_collect_removes_no_more_instances_than_requested,
                    a_retried_instance_is_not_collected,
                    collecting_an_empty_store_finds_nothing,
                }
                uniqueness on One {
                    an_occupied_key_makes_a_duplicate,
                    rows_without_a_key_are_never_duplicates,
                    the_first_row_of_a_batch_gets_the_key,
                    keys_are_per_machine,
                    keys_are_kept_verbatim,
                    a_key_of_any_bytes_is_unique_and_found,
                    a_key_of_any_bytes_orders_a_line_and_marks_a_signal,
                    a_dropped_child_is_reported_with_a_key_of_any_bytes,
                    the_default_scope_holds_the_key_until_the_end,
                    every_end_frees_a_key_of_the_default_scope,
                    a_scope_of_runnable_ends_with_the_claim,
                    a_released_key_never_returns_to_its_former_holder,
                    no_verb_takes_a_released_key_back,
                    a_row_that_lost_its_key_does_not_stop_the_reaper,
                    an_operators_retry_does_not_take_the_key_back,
                    a_scope_with_the_status_failed_holds_the_key_through_a_failure,
                    an_endless_scope_holds_the_key_until_the_instance_is_collected,
                    a_time_window_in_a_key_lets_work_start_once_in_each_window,
                    the_scope_of_the_holder_decides,
                    a_claim_at_insert_keeps_the_key_when_its_scope_allows,
                    a_duplicate_writes_nothing,
                }
                visits on One {
                    every_claim_and_query_returns_the_trace,
                    a_row_without_a_trace_has_none,
                    each_row_of_a_batch_has_its_own_trace,
                    a_child_has_the_trace_it_was_given_and_inherits_none,
                    the_first_visit_began_at_the_insert,
                    next_wait_and_fan_out_begin_a_visit,
                    a_step_that_leads_to_itself_begins_another_visit,
                    a_retry_and_a_release_stay_in_the_visit,
                    a_crash_stays_in_the_visit,
                    a_wake_stays_in_the_visit,
                    an_end_and_an_operators_retry_stay_in_the_visit,
                    a_lost_outcome_begins_no_visit,
                }
            }
            queries {
                lists on One {
                    a_new_row_is_stored_as_it_was_inserted,
                    queries_for_missing_rows_find_nothing,
                    a_key_finds_its_holder_or_its_latest_former_holder,
                    a_key_released_by_a_live_instance_finds_that_instance,
                    a_page_has_states_only_on_request,
                    a_page_ends_at_its_bound_of_bytes,
                    lists_go_newest_first_page_by_page,
                    a_last_page_that_is_exactly_full_has_no_next_page,
                    a_listed_row_equals_the_stored_row,
                    every_filter_filters,
                    lists_filter_by_status_and_parent,
                    a_list_finds_an_instance_by_its_released_key,
                    signals_are_listed_oldest_first_with_their_tombstones,
                    children_are_listed_by_round,
                    queues_show_eligible_delayed_and_executing_instances,
                    a_queue_with_nothing_to_do_is_not_shown,
                    a_store_returns_the_time_of_its_clock,
                }
                run_stats on Several {
                    counts_come_back_as_they_were_recorded,
                    counts_of_one_key_are_added_up,
                    counts_that_differ_in_any_part_of_their_key_stay_separate,
                    run_stats_are_read_from_a_minute_on,
                    counts_older_than_a_day_are_removed_by_the_next_write,
                    a_read_of_too_many_counts_returns_the_newest,
                    engines_that_record_concurrently_lose_no_counts,
                    names_in_counts_are_data_whatever_they_look_like,
                    counts_that_cannot_be_stored_are_refused_whole,
                    a_write_check_leaves_no_counts,
                }
                searches on One {
                    a_search_finds_an_error_by_any_part_of_its_text,
                    a_search_by_attempts_finds_that_number_and_more,
                    a_search_finds_waits_by_their_deadline,
                    a_search_finds_ended_instances_by_the_time_of_their_end,
                    a_search_for_ended_instances_does_not_find_a_retried_one,
                    a_page_with_few_matches_ends_at_its_bound_and_says_where_to_go_on,
                    searches_find_children_deadlines_and_ends_behind_many_other_rows,
                    more_children_than_a_page_may_read_are_listed_to_the_end,
                }
                step_counts on One {
                    an_empty_store_has_no_step_counts,
                    instances_are_counted_by_machine_version_step_and_status,
                    a_step_count_has_the_time_of_its_oldest_update,
                    waits_without_a_deadline_and_overdue_waits_are_counted,
                    steps_that_are_retried_again_and_again_are_counted,
                    blocked_workflows_and_machines_without_progress_are_counted,
                    step_counts_in_slices_count_every_instance_once,
                    children_are_counted_by_round_and_status,
                }
            }
            waiting {
                claims_at_delivery on One {
                    a_delivery_for_a_worker_claims_the_woken_instance,
                    a_claim_at_delivery_equals_a_later_claim,
                    a_delivery_claims_only_instances_the_worker_could_claim_at_once,
                    an_instance_that_has_fanned_out_is_woken_but_not_claimed,
                    a_delivery_does_not_claim_runnable_or_executing_instances,
                    a_delivery_for_an_expired_worker_delivers_nothing,
                    a_delivery_claims_after_all_signals_of_its_batch_have_arrived,
                    a_claim_at_delivery_is_reaped_like_any_other,
                    deliveries_for_a_worker_are_bounded,
                }
                fresh_inboxes on One {
                    a_commit_that_keeps_its_claim_names_the_latest_signal_since_the_claim,
                    the_inbox_of_a_kept_claim_has_the_signals_that_its_commit_names,
                    a_claim_is_told_only_of_signals_that_come_after_it,
                    a_claim_at_delivery_is_not_told_of_signals_of_its_batch,
                    every_way_to_signal_a_running_step_is_noted,
                    a_signal_to_a_running_step_does_not_change_its_instance,
                    a_workflow_that_keeps_its_claim_is_told_of_signals,
                    a_commit_with_a_cancel_names_the_latest_signal_too,
                    an_outcome_that_gives_up_its_claim_names_no_signal,
                    the_inbox_of_a_lost_claim_is_not_read,
                    reading_an_inbox_changes_nothing,
                }
                signal_or_insert on One {
                    a_free_key_starts_an_instance_with_the_signal_in_its_inbox,
                    the_first_step_receives_the_signal_that_started_its_instance,
                    a_live_holder_receives_the_signal_and_no_instance_is_started,
                    a_parked_holder_is_woken,
                    a_signal_or_insert_sent_again_under_its_dedup_key_is_a_duplicate,
                    a_holder_with_a_full_inbox_takes_no_more_signals,
                    a_key_released_by_an_ended_holder_starts_another_instance,
                    a_key_released_by_a_live_holder_starts_another_instance,
                    an_ended_holder_that_keeps_its_key_is_no_target_and_not_replaced,
                    a_signal_or_insert_sent_again_after_the_end_starts_nothing,
                    a_holder_of_the_same_key_on_another_machine_gets_no_signal,
                    a_delayed_instance_is_started_without_a_hint,
                    a_signal_or_insert_without_a_key_is_refused,
                    a_signal_or_insert_that_cannot_be_stored_is_refused_whole,
                }
                signals on One {
                    a_signal_of_the_awaited_name_wakes_the_instance,
                    a_signal_of_any_awaited_name_wakes_the_instance,
                    a_signal_of_another_name_waits_in_the_inbox,
                    a_delivery_without_a_wake_does_not_change_the_instance,
                    a_signal_that_came_early_is_found_by_the_wait,
                    a_signal_that_comes_while_the_step_runs_is_found_by_the_wait,
                    signals_gather_over_several_waits_and_are_consumed_together,
                    a_received_signal_does_not_wake_the_next_wait_for_its_name,
                    an_older_signal_that_the_step_did_not_receive_wakes_the_instance,
                    progress_consumes_only_the_signals_that_the_step_received,
                    a_wait_consumes_no_signals,
                    a_retry_sees_the_same_signals_again,
                    an_end_empties_the_inbox,
                    a_signal_sent_again_under_its_dedup_key_is_a_duplicate,
                    a_consumed_signal_is_still_a_duplicate_when_sent_again,
                    a_tombstone_outlasts_an_operators_retry,
                    dedup_keys_are_per_instance,
                    signals_without_a_dedup_key_are_never_duplicates,
                    a_signal_sent_again_after_the_end_is_a_duplicate,
                    a_dedup_key_counts_for_all_holders_of_the_correlation_key,
                    a_dedup_key_counts_for_all_holders_within_a_batch_too,
                    a_batch_that_alternates_between_an_id_and_its_key_is_delivered_in_order,
                    a_dedup_key_counts_for_a_bounded_number_of_latest_holders,
                    a_missing_instance_is_no_target,
                    an_ended_instance_is_no_target,
                    a_signal_to_a_released_key_has_no_target,
                    a_signal_to_a_key_reaches_its_holder,
                    a_signal_to_a_key_reaches_the_holder_of_the_named_machine,
                    a_batch_of_signals_arrives_as_if_sent_one_by_one,
                    a_second_awaited_signal_does_not_wake_the_instance_again,
                    a_parent_that_waits_for_children_is_not_woken_by_a_signal,
                    an_outcome_does_not_consume_signals_of_another_instance,
                    a_full_inbox_takes_no_more_signals,
                    tombstones_do_not_fill_an_inbox,
                }
                sleeping on One {
                    only_a_wait_without_signals_and_children_is_a_sleep,
                    a_sleeping_instance_is_runnable_when_its_deadline_has_come,
                    a_signal_does_not_wake_a_sleeping_instance,
                    lists_and_counts_distinguish_sleeping_from_awaiting_a_signal,
                    a_sleep_is_found_by_its_deadline_and_by_its_parent,
                    step_counts_include_sleeping_and_overdue_instances,
                    a_parent_sees_that_its_child_sleeps,
                    answers_and_records_of_operators_show_that_an_instance_slept,
                    the_first_of_two_cancels_in_a_batch_wakes_a_sleeping_instance,
                    a_cascade_records_that_a_child_slept,
                    a_scope_with_awaiting_signal_holds_the_key_during_a_sleep,
                }
                timeouts on One {
                    an_instance_never_times_out_early,
                    a_runnable_instance_fails_when_it_times_out,
                    a_waiting_instance_fails_when_it_times_out,
                    the_outcome_of_a_timed_out_step_is_lost,
                    an_outcome_before_the_time_out_counts,
                    a_timeout_asks_no_machine_with_a_pending_cancel,
                    a_timeout_is_counted_from_the_first_moment_an_instance_may_run,
                    each_instance_of_a_batch_has_its_own_timeouts,
                    an_instance_claimed_at_its_insert_times_out_too,
                    no_more_instances_time_out_than_requested,
                    the_earlier_timeout_is_the_reason,
                    continue_as_new_restarts_the_timeout_of_the_run_only,
                    a_later_run_times_out_by_its_own_timeout,
                    other_outcomes_leave_the_timeouts_alone,
                    a_retry_counts_both_timeouts_anew,
                    a_timeout_empties_the_inbox_and_refuses_later_signals,
                    a_timeout_releases_the_correlation_key,
                    a_timeout_lets_the_next_of_a_partition_key_through,
                    a_timed_out_child_is_counted_once,
                    the_last_timed_out_child_wakes_its_parent,
                    children_count_their_timeouts_from_their_start,
                    a_child_that_waits_for_a_place_times_out_too,
                    a_timed_out_child_passes_its_place_on,
                    a_timed_out_parent_closes_its_children,
                    a_parent_that_times_out_with_its_child_is_not_woken,
                    a_timeout_is_the_last_event_of_a_history_that_has_begun,
                    an_ended_instance_does_not_time_out,
                    a_timed_out_instance_is_collected_like_any_other,
                    a_bad_timeout_is_refused,
                }
                timers on One {
                    a_deadline_never_fires_early,
                    a_timeout_is_a_wake_and_not_a_failure,
                    a_timeout_hands_over_the_signals_that_have_arrived,
                    earlier_deadlines_fire_first,
                    a_fire_wakes_no_more_instances_than_requested,
                    a_fire_says_when_the_next_deadline_comes,
                    a_deadline_loses_against_an_earlier_signal,
                    a_signal_after_the_deadline_is_still_handed_over,
                    a_signal_wakes_an_instance_whose_passed_deadline_has_not_fired,
                    a_wait_without_names_is_a_sleep,
                    a_wait_with_a_timeout_of_zero_is_due_at_once,
                    a_wait_without_a_timeout_never_fires,
                    a_terminated_instance_does_not_fire_its_deadline,
                    the_longest_delays_can_be_stored,
                }
                updates on One {
                    an_update_wakes_its_target_like_any_signal,
                    every_way_to_read_an_inbox_shows_which_signals_want_a_reply,
                    an_update_without_an_id_is_refused,
                    an_update_is_pending_until_it_is_answered,
                    a_reply_is_read_back_with_its_kind_and_time,
                    an_id_of_any_bytes_finds_its_update,
                    the_largest_reply_is_stored,
                    every_outcome_can_reply_and_consumes_the_update,
                    an_answered_update_does_not_prevent_a_park,
                    a_park_sees_every_signal_that_it_does_not_answer,
                    an_update_can_be_answered_commits_after_it_was_consumed,
                    one_commit_can_receive_an_update_and_answer_it,
                    the_first_reply_stands,
                    a_reply_to_what_is_no_update_of_the_instance_is_left_out,
                    a_plain_signal_is_no_update,
                    an_update_that_is_sent_again_keeps_its_one_reply,
                    a_lost_outcome_replies_to_nothing,
                    an_outcome_that_yields_to_a_cancel_replies_to_nothing,
                    replies_that_cannot_be_stored_reject_only_their_own_outcome,
                    an_unanswered_update_ends_with_its_instance,
                    a_retry_leaves_unanswered_updates_ended,
                    continue_as_new_carries_pending_updates_on,
                    a_crash_keeps_updates_and_replies,
                    replies_are_removed_with_their_instance_and_not_before,
                    replies_of_one_batch_are_kept_apart,
                    a_cancel_of_a_whole_tree_ends_the_updates_of_what_never_started,
                }
            }
            workflows {
                continue_as_new on One {
                    continue_as_new_begins_a_run_with_an_empty_history,
                    continue_as_new_resets_attempts_crashes_and_the_last_error,
                    the_histories_of_the_last_runs_are_kept,
                    continue_as_new_consumes_received_signals_and_keeps_the_others,
                    continue_as_new_keeps_children_and_rounds,
                    a_child_that_continues_as_new_has_not_ended_for_its_parent,
                    continue_as_new_keeps_the_correlation_key,
                    a_lost_continue_as_new_changes_nothing,
                    continue_as_new_answers_a_cancel_or_is_followed_by_its_answer,
                    continue_as_new_lets_the_next_row_of_its_partition_key_run,
                }
                finished_children on One {
                    a_park_for_children_stores_the_awaited_rounds_and_count,
                    the_awaited_number_of_finished_children_wakes_the_workflow,
                    one_failed_child_wakes_the_workflow,
                    terminated_and_crashed_children_are_counted,
                    finished_children_of_several_rounds_are_counted_together,
                    children_of_rounds_that_are_not_awaited_are_not_counted,
                    a_sibling_that_is_not_awaited_may_wake_the_workflow_early,
                    a_park_does_not_wait_for_children_that_finished_before_it,
                    a_child_that_failed_before_the_park_wakes_the_workflow_at_once,
                    a_failed_child_is_reported_even_if_enough_children_are_done,
                    a_collected_child_wakes_the_workflow_at_once,
                    a_dropped_child_wakes_the_workflow_at_once,
                    siblings_that_end_in_one_batch_are_counted_together,
                    a_batch_counts_children_of_the_awaited_rounds_only,
                    a_park_counts_a_child_that_finishes_in_its_batch_once,
                    a_park_whose_children_all_finish_in_its_batch_is_woken,
                    a_park_that_finds_a_signal_still_counts_finished_children,
                    a_workflow_that_waits_again_counts_anew,
                    a_retried_child_does_not_change_the_count_of_its_workflow,
                    a_child_that_is_retried_before_the_park_is_awaited,
                    a_workflow_waits_for_all_children_in_a_window,
                    a_repair_wakes_a_workflow_without_live_awaited_children,
                    a_search_for_repairs_leaves_the_counts_of_workflows_alone,
                    children_are_not_collected_or_deleted_while_their_workflow_lives,
                    a_child_outcome_that_is_sent_again_counts_once,
                }
                groups on One {
                    a_park_that_needs_all_says_what_is_missing,
                    a_group_does_not_wake_its_workflow_before_it_is_complete,
                    a_group_of_a_signal_and_a_deadline_wakes_once,
                    finished_children_of_a_group_are_counted_one_by_one,
                    a_deadline_that_passes_before_its_group_is_complete_is_cleared,
                    a_passed_deadline_counts_even_if_it_was_not_fired,
                    only_the_signal_that_completes_its_group_wakes,
                    a_second_signal_of_the_same_name_does_not_complete_a_group,
                    a_delivery_claims_only_workflows_whose_group_is_complete,
                    a_signal_or_insert_removes_its_name_from_the_awaited_signals,
                    a_failed_child_wakes_an_incomplete_group,
                    a_group_does_not_wait_for_members_that_came_before_the_park,
                    a_group_with_a_failed_child_does_not_park,
                    a_group_counts_the_last_child_that_finishes_in_its_batch,
                    a_cancel_wakes_an_incomplete_group,
                    a_workflow_that_needs_all_can_be_terminated_and_retried,
                    the_wait_after_a_group_is_woken_by_the_first_signal,
                    the_end_of_the_last_child_releases_a_key_whose_scope_is_left,
                    groups_that_cannot_be_counted_are_rejected,
                    a_repair_wakes_a_group_whose_finished_child_was_not_counted,
                }
                histories on One {
                    a_workflow_ends_with_its_error_value,
                    a_commit_with_a_wrong_history_position_still_appends_its_events,
                    events_are_numbered_from_one_over_all_commits_of_a_run,
                    every_outcome_can_have_events,
                    an_event_is_read_back_as_it_was_written,
                    an_event_has_its_own_time_or_that_of_the_commit,
                    a_lost_outcome_writes_no_event,
                    a_bad_event_rejects_only_its_own_outcome,
                    an_outcome_with_too_many_events_is_rejected,
                    a_history_is_read_page_by_page,
                    the_history_of_an_unknown_instance_or_run_is_empty,
                    runs_are_summed_up_by_their_first_and_last_events,
                    every_claim_has_the_run_and_length_of_its_history,
                    releases_and_crashes_leave_the_history_unchanged,
                    an_operators_retry_goes_on_with_the_history,
                    a_history_is_removed_with_its_instance_and_not_before,
                    histories_of_one_batch_are_kept_apart,
                    a_machine_has_one_history_through_waits_joins_and_crashes,
                    an_outcome_with_a_pending_cancel_is_recorded_once,
                    one_commit_may_mix_instances_with_and_without_a_history,
                }
                join_sets on One {
                    a_park_stores_every_join_set_that_it_waits_for,
                    children_of_one_join_set_do_not_count_in_another,
                    a_complete_join_set_wakes_the_workflow,
                    siblings_that_end_in_one_batch_count_in_their_own_join_sets,
                    a_failed_child_of_any_join_set_wakes_the_workflow,
                    a_child_of_several_join_sets_is_counted_in_each,
                    children_outside_the_ranges_of_a_join_set_are_not_counted,
                    a_child_that_finished_before_the_park_counts_in_its_join_sets,
                    a_child_that_failed_before_the_park_is_one_failure_for_all_join_sets,
                    a_join_set_may_lie_on_both_sides_of_another,
                    a_dropped_child_of_any_join_set_wakes_the_workflow,
                    a_park_counts_children_that_finish_in_its_batch_once_per_join_set,
                    the_largest_allowed_number_of_join_sets_is_counted,
                    a_repair_wakes_a_workflow_whose_join_set_has_no_live_child,
                }
                outcomes on One {
                    a_workflow_that_goes_on_keeps_its_step_and_state,
                    a_workflow_that_goes_through_the_queue_gives_up_its_claim,
                    a_workflow_outcome_resets_attempts_crashes_and_the_last_error,
                    a_workflow_outcome_consumes_only_the_received_signals,
                    a_workflow_outcome_starts_its_children_as_a_round_of_their_own,
                    a_workflow_outcome_without_children_begins_no_round,
                    a_workflow_without_children_has_no_rounds_to_wait_for,
                    finished_children_that_are_not_awaited_do_not_wake_the_workflow,
                    a_workflow_that_goes_on_no_longer_waits_for_its_rounds,
                    dropped_children_are_reported_to_their_workflow,
                    a_workflow_is_claimed_without_its_children,
                    a_window_of_a_workflow_lets_the_next_child_start,
                    the_end_of_a_workflow_cascades_to_children_of_all_rounds,
                    a_lost_workflow_outcome_starts_no_children,
                    a_workflow_outcome_that_cannot_be_stored_is_rejected,
                    a_fan_out_after_a_workflow_outcome_joins_its_own_round,
                    a_workflow_holds_its_keys_as_a_machine_does,
                }
                parks on One {
                    a_workflow_that_parks_for_a_signal_stays_at_its_step,
                    a_signal_in_the_inbox_keeps_the_workflow_from_parking,
                    a_consumed_signal_does_not_wake_the_workflow_again,
                    a_park_with_a_deadline_wakes_when_it_comes,
                    a_park_with_a_passed_deadline_wakes_at_once,
                    a_park_stores_its_signals_its_deadline_and_its_join_set,
                    a_signal_wakes_a_workflow_that_waits_for_children,
                    a_deadline_wakes_a_workflow_that_waits_for_children,
                    a_finished_child_wakes_a_workflow_that_also_waits_for_a_signal,
                    a_machine_that_waits_for_children_is_not_woken_by_signals,
                    a_signal_or_insert_wakes_a_workflow_that_waits_for_children,
                    a_delivery_claims_a_workflow_that_has_started_no_children,
                    a_cancel_wakes_a_parked_workflow,
                    a_workflow_that_would_park_or_start_children_gets_the_cancel_instead,
                    a_workflow_that_goes_on_is_committed_despite_a_cancel,
                    a_workflow_outcome_that_answers_a_cancel_is_applied_in_full,
                    a_workflow_that_answers_a_cancel_does_not_get_it_again,
                    a_workflow_parks_as_usual_after_it_answered_a_cancel,
                    a_cancel_concerns_only_its_own_outcome_of_a_batch,
                    a_lost_workflow_outcome_gets_no_pending_cancel,
                    a_parked_workflow_can_be_terminated,
                }
                views on One {
                    a_view_is_read_back_with_the_revision_and_time_of_its_outcome,
                    an_unchanged_view_keeps_its_revision_and_time,
                    every_outcome_of_a_workflow_can_publish,
                    a_lost_outcome_publishes_nothing,
                    an_outcome_that_yields_to_a_cancel_publishes_nothing,
                    a_view_that_cannot_be_stored_rejects_only_its_own_outcome,
                    views_stay_through_new_runs_crashes_and_the_end,
                    views_are_removed_with_their_instance_and_not_before,
                    views_of_one_batch_are_kept_apart,
                }
            }
        }
    };
}
