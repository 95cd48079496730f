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
                    of_one_priority_the_earlier_eligible_goes_first,
                    of_one_moment_the_lower_id_goes_first,
                    priority_goes_before_time,
                    a_claim_takes_from_its_queue_only,
                    a_claim_takes_no_more_than_asked_for,
                    asking_for_none_takes_none,
                    only_registered_machines_and_versions_are_taken,
                    foreign_machines_at_the_head_do_not_hide_what_is_behind_them,
                    nothing_is_claimed_before_its_time,
                    a_claim_says_when_the_next_row_comes_due,
                    the_next_due_time_is_found_among_all_priorities_of_the_queue_alone,
                    many_delayed_rows_of_an_urgent_priority_do_not_hide_what_is_due,
                    a_start_in_the_past_goes_ahead_of_what_became_eligible_later,
                    a_paused_queue_gives_nothing_and_says_so,
                    a_worker_that_never_registered_cannot_claim,
                    ten_thousand_claims_go_out_at_once_and_in_order,
                    a_worker_is_told_what_executes_for_it_at_its_revision_now,
                    a_worker_is_told_of_claims_that_came_with_an_insert_or_a_signal,
                    a_dead_worker_is_told_of_its_claims_until_they_are_reaped,
                    another_claim_of_an_instance_is_at_least_two_revisions_further,
                }
                leases on One {
                    a_registered_worker_is_listed,
                    workers_of_one_name_are_told_apart,
                    a_lease_ends_at_its_last_moment,
                    a_heartbeat_lets_the_lease_run_anew,
                    a_late_worker_that_was_not_removed_is_renewed,
                    a_removed_worker_is_told_so,
                    a_heartbeat_can_change_the_length_of_the_lease,
                    deregistering_without_claims_leaves_nothing,
                    deregistering_with_claims_expires_the_lease_now,
                    deregistering_does_not_lengthen_a_lease,
                    an_expired_worker_may_still_commit_what_was_not_reaped,
                    inserting_with_a_claim_needs_a_lease,
                    a_worker_that_gave_everything_back_leaves_at_once,
                    machines_that_cannot_be_told_of_are_refused,
                }
                partitions on One {
                    of_one_key_only_the_first_is_taken,
                    the_next_of_a_key_follows_when_the_first_has_ended,
                    rows_of_a_key_run_in_the_order_of_the_queue,
                    a_busy_key_at_the_head_does_not_block_the_others,
                    hundreds_behind_one_key_all_run_in_order,
                    a_key_counts_in_every_queue,
                    a_key_is_free_while_its_instance_is_parked,
                    every_way_to_give_up_a_claim_lets_the_next_one_through,
                    a_kept_claim_keeps_its_key,
                    release_terminate_and_reap_let_the_next_one_through,
                    keys_are_compared_whole,
                    a_terminated_row_behind_a_key_does_not_hold_up_the_rest,
                    a_row_that_no_worker_here_can_run_does_not_hold_up_its_key,
                    a_delayed_row_does_not_hold_up_its_key,
                }
                races on Several {
                    claims_at_once_never_get_the_same_row,
                    claims_at_once_take_one_of_a_partition_key,
                    siblings_that_end_at_once_join_once,
                    joins_in_opposite_order_do_not_get_in_each_others_way,
                    inserts_of_the_same_keys_in_opposite_order_have_one_holder_each,
                    a_signal_that_races_a_park_is_never_lost,
                    a_signal_that_races_an_end_is_dropped_with_it_or_refused,
                    one_of_many_sends_under_one_key_arrives,
                    signals_at_once_to_an_unheld_key_start_one_and_all_arrive,
                    a_signal_sent_again_beside_an_end_and_the_next_holder_is_a_duplicate,
                    a_signal_or_insert_that_races_an_end_meets_the_old_or_starts_the_new,
                    a_signal_or_insert_that_races_an_insert_meets_one_holder,
                    a_signal_or_insert_that_races_a_park_is_never_lost,
                    an_outcome_that_races_a_terminate_wins_or_is_lost,
                    of_the_same_outcome_sent_at_once_one_is_committed,
                    maintenance_at_once_returns_everything_once,
                    an_end_that_races_a_park_for_it_is_never_lost,
                    a_signal_that_races_a_park_for_children_is_never_lost,
                    a_cancel_that_races_a_park_is_never_slept_through,
                    siblings_of_several_rounds_that_end_at_once_wake_a_workflow_once,
                    what_races_to_wake_a_workflow_wakes_it_once,
                }
                reaping on One {
                    the_claim_of_a_dead_worker_comes_back,
                    the_living_keep_their_claims,
                    a_late_commit_after_reap_changes_nothing,
                    a_late_commit_after_the_same_worker_claimed_again_changes_nothing,
                    a_late_commit_after_reap_consumes_nothing,
                    a_late_commit_after_reap_joins_nobody,
                    a_step_that_keeps_killing_its_worker_fails_past_the_bound,
                    healthy_instances_outlive_every_kill_of_a_busy_worker,
                    the_only_suspect_of_its_worker_is_blamed_for_the_crash,
                    giving_up_joins_the_parent_and_empties_the_inbox,
                    an_operator_can_retry_what_was_given_up,
                    a_commit_forgives_earlier_crashes,
                    a_release_does_not_forgive_crashes,
                    what_was_awaited_is_kept_through_a_crash,
                    a_reap_returns_no_more_than_asked_for,
                    several_dead_workers_are_reaped_at_once,
                    reaping_again_finds_nothing,
                    nothing_executes_for_ever_under_an_expired_lease,
                }
            }
            families {
                cascades on One {
                    children_are_treated_by_their_policies,
                    a_terminated_parent_has_ended_like_any,
                    a_parent_that_crashed_too_often_has_ended_like_any,
                    an_end_that_concerns_nobody_leaves_nothing_to_tell,
                    what_goes_on_tells_nobody,
                    children_of_all_rounds_are_told,
                    what_has_ended_or_was_asked_before_is_left_alone,
                    a_cascade_says_which_queues_to_look_at,
                    a_cascade_goes_on_where_it_was,
                    a_full_batch_may_have_been_the_last,
                    cascades_are_told_in_the_order_they_were_left,
                    what_happened_to_each_child_is_recorded_with_the_parent,
                    records_of_many_children_come_in_pages,
                    what_a_cascade_ends_lets_everybody_go,
                    a_parent_is_kept_until_its_children_are_told,
                    a_living_parent_spares_a_child_that_has_children_to_tell,
                    cascades_beyond_their_bound_are_refused,
                }
                children on One {
                    the_join_sees_the_error_values_of_failed_children,
                    spawn_and_park_are_one,
                    a_child_is_what_was_asked_for,
                    the_parent_runs_on_when_the_last_child_has_ended,
                    the_join_sees_failed_and_cancelled_children_too,
                    no_children_is_a_barrier_already_passed,
                    children_with_an_occupied_key_are_dropped_and_reported,
                    a_key_released_by_the_same_batch_is_still_occupied_for_children,
                    when_all_children_are_dropped_the_parent_runs_on,
                    a_second_round_sees_only_its_own_children,
                    a_second_round_does_not_report_what_the_first_dropped,
                    the_late_end_of_an_older_rounds_child_does_not_count,
                    a_child_retried_in_time_is_waited_for_again,
                    a_child_retried_too_late_joins_nobody,
                    siblings_that_end_in_one_batch_all_count,
                    children_of_several_parents_end_in_one_batch,
                    nesting_goes_three_deep,
                    several_levels_move_in_one_commit,
                    ten_thousand_children_are_spawned_and_joined,
                    ending_a_parent_does_not_touch_its_children,
                    a_child_ends_once,
                    a_lost_fan_out_starts_nobody,
                    a_joined_step_that_is_tried_again_sees_the_same_children,
                }
                join_deadlines on One {
                    a_deadline_wakes_with_what_there_is,
                    a_join_that_was_decided_has_no_deadline_left,
                    waits_and_joins_fire_by_their_deadlines,
                    a_join_is_no_wait_for_a_signal,
                }
                join_policies on One {
                    the_rest_of_a_decided_join_is_treated_as_it_says,
                    the_rest_of_a_join_is_of_its_round_alone,
                    a_join_decided_from_the_start_treats_everybody_as_the_rest,
                }
                joins on One {
                    everybody_is_waited_for_unless_said_otherwise,
                    a_step_sees_its_children_in_the_order_it_asked_for,
                    the_first_failure_wakes_at_once,
                    without_a_failure_everybody_is_waited_for,
                    enough_successes_wake_at_once,
                    any_success_wakes_one_that_waits_for_any,
                    a_quorum_that_can_no_longer_be_reached_wakes_at_once,
                    a_quorum_of_more_than_were_started_is_not_waited_for,
                    a_join_of_nobody_is_decided_at_once,
                    what_ends_after_the_parent_was_woken_changes_nothing,
                    what_ends_in_one_batch_is_counted_in_one_go,
                    a_batch_decides_when_all_of_it_is_counted,
                    the_failure_that_was_committed_first_is_the_first,
                    why_it_was_woken_stays_until_the_next_fan_out,
                    a_child_that_crashed_too_often_is_a_failure,
                    a_failed_child_that_is_retried_is_waited_for_again,
                    a_retry_of_the_first_failure_makes_the_next_one_the_first,
                    joins_that_nothing_could_decide_are_rejected,
                }
                trees on One {
                    a_terminated_tree_ends,
                    a_cancelled_tree_is_asked_from_the_root_down,
                    one_instance_is_not_its_tree,
                    a_tree_is_told_also_when_its_root_has_ended_or_was_asked,
                    a_tree_of_one_leaves_nothing_to_tell,
                    a_tree_named_twice_is_told_once,
                    those_below_one_that_has_ended_are_told_too,
                    policies_go_down_the_tree,
                    a_policy_and_a_tree_end_nobody_twice,
                    children_of_an_answer_are_not_in_the_cascade,
                    a_child_spawned_while_the_cascade_runs_does_not_escape,
                    those_that_wait_for_a_place_end_with_their_tree,
                    a_joining_parent_below_is_woken_by_the_cancel_and_not_by_its_children,
                    a_retried_child_is_not_told_again,
                    a_family_is_counted_by_status,
                    a_family_of_nobody_is_not_counted,
                    a_family_has_members_of_every_round,
                }
                windows on One {
                    no_more_run_at_a_time_than_there_are_places,
                    without_a_window_everybody_starts,
                    a_window_wider_than_the_children_holds_nobody,
                    every_end_passes_the_place_on_in_order,
                    a_step_that_goes_on_keeps_its_place,
                    as_many_get_a_place_as_have_left_one,
                    a_cancel_of_one_that_waits_for_a_place_ends_it,
                    a_terminate_of_one_that_waits_for_a_place_leaves_none,
                    the_last_of_them_may_end_without_a_place,
                    a_child_that_was_not_started_takes_no_place,
                    a_window_goes_on_when_the_parent_does,
                    rounds_have_windows_of_their_own,
                    who_waits_for_a_place_stands_in_nobodys_way,
                    siblings_of_one_key_take_places_and_turns,
                    a_place_does_not_make_anybody_early,
                    a_signal_waits_for_one_that_waits_for_a_place,
                    a_decided_join_ends_those_that_wait_for_a_place,
                    a_retried_child_runs_beside_the_window,
                    a_retried_child_that_never_started_has_a_place,
                }
            }
            operations {
                cancel_answers on One {
                    a_step_that_would_wait_comes_to_its_answer_at_once,
                    a_step_that_would_fan_out_starts_nobody,
                    a_step_that_would_try_again_later_comes_to_its_answer_at_once,
                    a_step_that_goes_on_comes_to_its_answer_next,
                    a_step_that_ends_has_ended_as_it_said,
                    every_outcome_but_a_retry_answers,
                    an_answer_that_is_tried_again_answers_nothing_yet,
                    what_was_decided_runs_like_anything,
                    an_answer_of_a_stale_claim_answers_nothing,
                    an_answer_that_cannot_be_stored_answers_nothing,
                    an_answer_to_nothing_is_an_outcome_like_any,
                    a_batch_may_mix_answers_and_interrupted_steps,
                }
                cancelling on One {
                    a_cancel_wakes_who_waits_for_a_signal,
                    a_cancel_wakes_who_waits_for_children,
                    a_cancel_wakes_who_waits_for_time,
                    a_cancel_of_one_that_is_due_leaves_it_its_place,
                    a_cancel_passes_nobody_in_the_line_of_a_partition_key,
                    a_cancel_does_not_lose_the_claim_of_a_running_step,
                    a_kept_claim_is_told_of_the_cancel,
                    a_claim_that_is_given_up_is_told_nothing,
                    a_worker_is_told_of_cancels_with_its_claims,
                    a_cancel_of_what_has_ended_changes_nothing,
                    a_cancel_asked_again_changes_nothing,
                    a_cancel_is_recorded,
                    a_batch_of_cancels_answers_in_the_callers_order,
                    a_terminate_ends_what_was_asked_to_end,
                    a_signal_to_one_asked_to_end_waits_in_its_inbox,
                    a_cancel_outlives_the_worker_that_was_told,
                    a_retried_instance_is_no_longer_asked_to_end,
                    a_correlation_key_is_held_until_the_answer_ends_it,
                    what_was_asked_to_end_does_not_fire,
                    the_reason_of_a_cancel_is_cleaned,
                    wishes_that_cannot_be_stored_are_refused,
                    a_policy_means_nothing_without_a_parent,
                }
                operators on One {
                    retry_clears_the_error_value,
                    terminate_ends_whatever_lives,
                    the_outcome_of_a_terminated_step_is_lost,
                    terminating_empties_the_inbox_and_joins_the_parent,
                    terminating_is_recorded_and_harmless_when_repeated,
                    a_batch_of_terminates_answers_in_the_callers_order,
                    parent_and_children_are_terminated_in_one_verb,
                    siblings_terminated_in_one_verb_all_count,
                    retry_starts_again_what_failed_or_was_cancelled,
                    retry_forgets_the_attempts,
                    retrying_again_changes_nothing,
                    a_claim_from_before_the_end_is_lost_after_a_retry,
                    delete_removes_what_has_ended,
                    a_delete_takes_signals_and_records_with_it_but_stays_recorded,
                    a_child_of_a_living_parent_is_not_deleted,
                    a_deleted_id_is_not_given_again,
                    pause_and_resume_say_whether_they_changed_anything,
                    what_runs_goes_on_in_a_paused_queue,
                    pausing_one_queue_does_not_pause_another,
                    a_note_without_a_reason_is_enough,
                }
            }
            outcomes {
                bad_input on One {
                    an_error_value_is_bounded_as_a_result,
                    a_row_that_cannot_be_stored_is_refused,
                    one_bad_row_refuses_an_insert_whole,
                    one_bad_signal_refuses_a_delivery_whole,
                    an_outcome_that_cannot_be_stored_is_rejected,
                    an_endless_sleep_is_rejected_with_a_reason,
                    a_stale_outcome_that_cannot_be_stored_changes_nothing,
                    error_texts_are_cleaned,
                    an_operator_without_a_proper_name_is_refused,
                    a_worker_that_cannot_be_registered_is_refused,
                    batches_have_an_end,
                    requests_beyond_their_bounds_are_refused,
                    what_is_just_allowed_is_stored,
                    names_are_data_whatever_they_look_like,
                    names_that_cannot_be_stored_are_not_looked_for,
                }
                batches on One {
                    ids_are_given_in_the_callers_order,
                    an_insert_hints_at_queues_with_something_to_claim,
                    rows_can_be_claimed_as_they_are_inserted,
                    a_claim_at_the_insert_is_what_a_later_one_would_be,
                    only_rows_that_could_be_claimed_at_once_are_handed_over,
                    what_was_claimed_at_insert_is_reaped_like_any_claim,
                    fifty_thousand_rows_go_in_one_batch,
                    verbs_with_nothing_to_do_do_nothing,
                    a_mixed_workload_comes_to_rest_without_anything_to_mend,
                    a_reconcile_goes_page_by_page,
                    a_closed_store_answers_that_it_is_closed,
                }
                commits on One {
                    stop_ends_with_the_error_value,
                    next_with_the_claim_kept_goes_on_executing,
                    a_kept_claim_commits_again_at_the_revision_it_was_told,
                    next_with_requeue_is_runnable_now,
                    retry_runs_the_same_step_later_with_one_more_attempt,
                    a_retry_with_an_error_records_it,
                    wait_parks_and_keeps_the_inbox,
                    fan_out_parks_on_its_children,
                    done_ends_with_the_result,
                    stop_ends_with_the_reason,
                    cancel_ends_with_the_reason,
                    an_outcome_sent_again_is_lost,
                    an_outcome_for_a_row_that_does_not_execute_is_lost,
                    an_outcome_for_another_revision_is_lost,
                    an_outcome_for_a_missing_instance_is_lost,
                    a_claim_named_twice_in_a_batch_commits_once,
                    a_batch_may_mix_every_outcome,
                    one_bad_row_does_not_fail_its_neighbours,
                    a_rejected_outcome_leaves_the_claim_held,
                    more_than_ten_thousand_outcomes_go_in_one_batch,
                    an_end_stays_an_end,
                    committed_queues_are_hinted_at,
                    release_puts_a_claim_back_untouched,
                    release_with_a_pause_comes_back_after_it,
                    a_release_of_a_lost_claim_changes_nothing,
                    states_come_back_to_the_letter,
                }
                retention on One {
                    what_ended_before_the_retention_goes,
                    every_end_is_collected_and_nothing_else,
                    children_are_spared_while_their_parent_lives,
                    children_of_older_rounds_are_spared_too,
                    children_without_a_stored_parent_go,
                    signals_and_tombstones_go_with_their_instance,
                    operations_go_with_their_instance,
                    records_of_queues_and_deleted_instances_go_by_age,
                    no_more_is_collected_than_asked_for,
                    a_retried_instance_is_not_collected,
                    collecting_an_empty_store_finds_nothing,
                }
                uniqueness on One {
                    an_occupied_key_makes_a_duplicate,
                    without_a_key_nothing_is_a_duplicate,
                    the_first_row_of_a_batch_gets_the_key,
                    keys_are_per_machine,
                    keys_are_kept_verbatim,
                    the_default_scope_is_the_whole_life,
                    every_end_frees_a_key_of_the_default_scope,
                    a_scope_of_runnable_ends_with_the_claim,
                    a_key_once_released_never_comes_back,
                    no_verb_takes_a_released_key_back,
                    a_row_that_lost_its_key_does_not_stop_the_reaper,
                    an_operators_retry_does_not_take_the_key_back,
                    a_scope_that_keeps_failures_holds_the_key_through_them,
                    a_scope_for_ever_holds_the_key_until_collected,
                    the_scope_is_the_holders,
                    a_claim_at_insert_keeps_the_key_when_its_scope_allows,
                    a_duplicate_writes_nothing,
                }
                visits on One {
                    a_trace_comes_back_with_every_claim_and_every_look,
                    a_row_without_a_trace_has_none,
                    each_row_of_a_batch_has_its_own_trace,
                    a_child_has_the_trace_it_was_given_and_inherits_none,
                    the_first_visit_began_at_the_insert,
                    going_on_waiting_and_fanning_out_begin_a_visit,
                    a_step_that_leads_to_itself_is_another_visit,
                    trying_again_and_giving_back_stay_in_the_visit,
                    the_death_of_a_worker_stays_in_the_visit,
                    waking_stays_in_the_visit,
                    an_end_and_an_operators_retry_stay_in_the_visit,
                    a_lost_outcome_begins_no_visit,
                }
            }
            queries {
                lists on One {
                    a_fresh_row_is_as_it_was_asked_for,
                    what_is_not_there_is_not_found,
                    a_key_finds_its_holder_or_the_latest_that_held_it,
                    a_key_that_was_given_up_alive_finds_who_held_it,
                    a_page_has_states_only_where_they_are_asked_for,
                    a_page_ends_with_its_bytes_and_has_one_row_at_least,
                    lists_go_newest_first_page_by_page,
                    a_page_that_is_just_full_is_the_last,
                    listed_rows_are_whole,
                    every_filter_filters,
                    statuses_and_parents_filter,
                    a_released_key_is_still_to_be_searched_for,
                    signals_are_listed_oldest_first_with_their_tombstones,
                    children_are_listed_by_round,
                    queues_show_what_waits_and_runs,
                    a_queue_with_nothing_to_do_is_not_shown,
                    the_store_tells_its_own_time,
                }
                run_stats on Several {
                    counts_come_back_as_they_were_recorded,
                    counts_of_one_key_are_added_up,
                    every_part_of_a_key_tells_counts_apart,
                    traffic_is_asked_for_from_a_minute_on,
                    counts_older_than_a_day_go_with_the_next_record,
                    of_too_many_counts_the_newest_are_answered,
                    engines_that_record_at_once_lose_nothing,
                    names_in_counts_are_data_whatever_they_look_like,
                    counts_that_cannot_be_stored_are_refused_whole,
                    a_check_of_writes_leaves_nothing,
                }
                searches on One {
                    an_error_is_searched_for_by_any_part_of_it,
                    attempts_filter_from_a_number_on,
                    waits_are_searched_for_by_their_deadline,
                    the_ended_are_searched_for_by_when_they_ended,
                    what_is_retried_is_not_among_the_ended_any_more,
                    a_page_that_few_fit_ends_at_its_bound_and_says_where_to_go_on,
                    children_deadlines_and_ends_far_back_are_found_at_once_or_page_by_page,
                    more_children_than_a_page_may_read_are_listed_to_the_end,
                }
                step_counts on One {
                    an_empty_store_has_nothing_to_survey,
                    a_survey_counts_by_machine_version_step_and_status,
                    a_survey_knows_since_when_the_longest_standing_has_not_moved,
                    waits_without_a_deadline_and_overdue_ones_are_counted,
                    steps_that_are_retried_again_and_again_are_counted,
                    workflows_whose_code_does_not_fit_their_history_are_counted,
                    a_survey_goes_slice_by_slice_and_counts_everything_once,
                    children_are_counted_by_round_and_status,
                }
            }
            waiting {
                claims_at_delivery on One {
                    what_a_signal_wakes_comes_back_claimed,
                    a_claim_at_delivery_is_what_a_later_claim_would_be,
                    only_what_the_worker_could_claim_at_once_is_handed_over,
                    what_has_fanned_out_is_only_woken,
                    what_was_runnable_or_running_before_is_not_handed_over,
                    a_delivery_for_a_worker_whose_lease_has_run_out_delivers_nothing,
                    what_a_batch_wakes_is_taken_once_all_of_it_has_arrived,
                    what_was_claimed_at_delivery_is_reaped_like_any_claim,
                    deliveries_for_a_worker_have_their_bounds,
                }
                signal_or_insert on One {
                    when_nobody_holds_the_key_it_starts_with_the_signal_in_its_inbox,
                    the_first_step_finds_the_signal_it_was_started_by,
                    a_living_holder_is_signalled_and_nothing_is_started,
                    a_parked_holder_is_woken,
                    one_sent_again_under_its_dedup_key_is_a_duplicate,
                    a_holder_whose_inbox_is_full_takes_no_more,
                    when_the_holder_has_ended_and_let_go_another_is_started,
                    when_the_holder_has_let_go_alive_another_is_started,
                    an_ended_holder_that_keeps_its_key_is_no_target_and_not_replaced,
                    one_sent_again_after_the_end_starts_nothing,
                    the_key_of_another_machine_is_somebody_elses,
                    what_starts_later_is_started_and_not_hinted_at,
                    without_a_key_there_is_nobody_to_look_for,
                    what_cannot_be_stored_is_refused_whole,
                }
                signals on One {
                    a_signal_of_the_awaited_name_wakes,
                    any_name_of_the_set_wakes,
                    a_signal_of_another_name_waits_in_the_inbox,
                    a_delivery_that_does_not_wake_changes_no_row,
                    a_signal_that_came_early_is_found_by_the_wait,
                    a_signal_that_comes_while_the_step_runs_is_found_by_the_wait,
                    a_pack_gathers_over_several_waits_and_is_consumed_at_once,
                    waiting_again_does_not_spin_on_what_was_already_handed_over,
                    an_older_signal_the_step_was_not_handed_wakes_it_too,
                    progress_spares_latecomers_and_what_was_never_awaited,
                    a_wait_consumes_nothing,
                    a_retry_sees_the_same_signals_again,
                    an_end_empties_the_inbox,
                    a_signal_sent_again_under_its_key_is_a_duplicate,
                    a_consumed_signal_is_still_a_duplicate_when_sent_again,
                    a_tombstone_outlasts_an_operators_retry,
                    dedup_keys_are_per_instance,
                    signals_without_a_key_are_never_duplicates,
                    a_signal_sent_again_after_the_end_is_a_duplicate,
                    a_dedup_key_counts_for_all_that_held_the_key,
                    a_dedup_key_of_a_batch_counts_for_all_that_held_the_key,
                    a_dedup_key_counts_for_the_latest_that_held_the_key,
                    a_missing_instance_is_no_target,
                    an_ended_instance_is_no_target,
                    a_released_key_is_no_address,
                    a_key_is_the_address_of_its_holder,
                    the_same_key_of_another_machine_is_another_address,
                    a_batch_arrives_as_if_sent_one_by_one,
                    a_second_match_does_not_wake_again,
                    a_parent_that_joins_is_not_woken_by_a_signal,
                    signals_of_somebody_else_are_not_consumed,
                    an_inbox_takes_no_more_than_it_may,
                    tombstones_do_not_fill_an_inbox,
                }
                sleeping on One {
                    only_a_wait_for_the_time_alone_is_a_sleep,
                    who_has_slept_is_runnable_when_its_time_has_come,
                    a_signal_wakes_nobody_who_sleeps,
                    lists_and_counts_tell_sleeping_and_awaiting_a_signal_apart,
                    a_sleep_is_found_by_its_deadline_and_by_its_parent,
                    a_survey_counts_the_sleeping_and_the_overdue_among_them,
                    a_parent_sees_that_its_child_sleeps,
                    who_ends_a_sleep_is_told_of_it_and_so_is_the_record,
                    a_sleep_that_is_cancelled_twice_in_a_batch_was_woken_by_the_first,
                    a_cascade_records_that_a_child_slept,
                    a_key_held_while_awaiting_a_signal_is_held_asleep,
                }
                timers on One {
                    a_deadline_never_fires_early,
                    a_timeout_is_a_wake_and_not_a_failure,
                    a_timeout_hands_over_the_partial_pack,
                    earlier_deadlines_fire_first,
                    no_more_fire_than_asked_for,
                    a_fire_says_when_the_next_deadline_comes,
                    a_deadline_loses_against_an_earlier_signal,
                    a_signal_after_the_deadline_is_still_handed_over,
                    a_deadline_that_has_come_but_not_fired_does_not_keep_a_signal_out,
                    a_wait_without_names_is_a_sleep,
                    a_wait_of_no_time_is_due_at_once,
                    a_wait_without_a_timeout_never_fires,
                    what_was_terminated_does_not_fire,
                    the_longest_delays_can_be_stored,
                }
            }
            workflows {
                continue_as_new on One {
                    a_renewal_begins_a_run_with_an_empty_history,
                    a_renewal_forgives_what_was_before,
                    the_last_runs_are_kept,
                    a_renewal_consumes_what_was_received_and_keeps_the_rest,
                    children_and_rounds_outlive_a_renewal,
                    a_child_that_begins_anew_has_not_ended_for_its_parent,
                    a_key_is_held_over_a_renewal,
                    a_lost_renewal_changes_nothing,
                    a_renewal_answers_a_cancel_or_meets_it_next,
                    a_renewal_lets_the_next_of_its_key_through,
                }
                finished_children on One {
                    a_park_for_ends_says_what_it_waits_for,
                    as_many_ends_as_it_waits_for_wake_it,
                    one_bad_end_wakes_it,
                    every_way_to_end_is_counted,
                    ends_of_several_rounds_are_counted_together,
                    rounds_it_does_not_wait_for_are_not_counted,
                    a_sibling_it_does_not_wait_for_may_wake_it_early,
                    what_ended_before_the_park_is_not_waited_for,
                    what_ended_badly_before_the_park_wakes_at_once,
                    a_bad_end_goes_before_enough_good_ones,
                    a_child_that_is_gone_wakes_at_once,
                    a_child_that_was_not_started_wakes_at_once,
                    siblings_that_end_in_one_batch_are_counted_together,
                    a_batch_counts_the_awaited_rounds_alone,
                    a_park_and_an_end_in_one_batch_meet_once,
                    a_park_and_all_ends_in_one_batch_wake_it,
                    a_signal_that_is_there_goes_with_what_has_ended,
                    a_workflow_that_waits_again_counts_anew,
                    a_retried_child_is_not_counted_again,
                    a_child_that_is_retried_before_the_look_lives,
                    children_in_a_window_are_all_waited_for,
                    the_reconciler_wakes_one_that_waits_for_nobody,
                    the_reconciler_leaves_the_counts_of_workflows_alone,
                    children_are_spared_while_their_workflow_lives,
                    an_end_sent_again_is_counted_once,
                }
                groups on One {
                    a_park_that_needs_all_says_what_is_missing,
                    nothing_wakes_before_all_of_it_is_there,
                    a_moment_beside_a_signal_wakes_once,
                    ends_are_counted_one_by_one,
                    a_moment_that_passes_is_not_told,
                    a_moment_that_nobody_told_is_over_all_the_same,
                    the_signal_that_completes_it_is_the_one_that_wakes,
                    a_second_signal_of_a_name_completes_nothing,
                    a_delivery_hands_over_only_what_is_complete,
                    a_signal_or_insert_takes_its_name_off,
                    a_bad_end_wakes_whatever_is_missing,
                    what_is_there_before_the_park_is_not_waited_for,
                    a_bad_end_before_the_park_keeps_it_from_parking,
                    a_park_and_the_last_end_in_one_batch_meet,
                    a_cancel_wakes_whatever_is_missing,
                    one_that_needs_all_can_be_terminated_and_retried,
                    the_next_wait_is_for_whatever_comes_first,
                    the_last_end_releases_a_key_whose_scope_it_leaves,
                    only_what_can_be_counted_can_be_needed,
                    the_reconciler_wakes_one_whose_children_have_ended_unseen,
                }
                histories on One {
                    a_workflow_ends_with_its_error_value,
                    where_a_history_stands_is_looked_for_when_it_is_said_wrongly,
                    events_are_numbered_from_one_over_all_commits_of_a_run,
                    every_outcome_can_have_events,
                    an_event_comes_back_as_it_was,
                    an_event_has_its_own_moment_or_that_of_the_commit,
                    a_lost_outcome_writes_no_event,
                    a_bad_event_rejects_its_outcome_alone,
                    an_outcome_with_too_many_events_is_rejected,
                    a_history_is_read_page_by_page,
                    a_history_of_nobody_is_empty,
                    runs_are_summed_up_by_their_first_and_last_events,
                    every_claim_tells_how_long_its_history_is,
                    claims_that_are_given_up_leave_the_history_alone,
                    an_operators_retry_goes_on_with_the_history,
                    a_history_goes_with_its_instance_and_not_before,
                    histories_of_one_batch_are_told_apart,
                    a_machine_has_one_history_however_it_goes_on,
                    an_outcome_that_meets_a_cancel_is_told_once,
                    who_has_no_history_is_written_beside_who_has_one,
                }
                join_sets on One {
                    a_park_says_every_part_that_it_waits_for,
                    ends_of_one_part_do_not_wake_for_another,
                    the_part_that_is_complete_wakes,
                    siblings_of_several_parts_that_end_in_one_batch_are_counted_each,
                    a_bad_end_of_any_part_wakes,
                    a_child_of_several_parts_is_counted_in_each,
                    ends_outside_of_the_spans_are_not_counted,
                    what_ended_before_the_park_is_counted_in_its_part,
                    a_bad_end_before_the_park_is_one_for_all_parts,
                    a_part_may_stand_on_both_sides_of_another,
                    a_child_that_was_not_started_wakes_whichever_part_waits_for_it,
                    a_park_and_ends_of_its_parts_in_one_batch_meet_once,
                    as_many_parts_as_can_be_are_counted,
                    the_reconciler_wakes_one_of_whose_parts_nobody_lives,
                }
                outcomes on One {
                    a_flow_that_goes_on_changes_neither_step_nor_state,
                    a_flow_through_the_queue_gives_up_its_claim,
                    a_flow_forgives_what_was_before,
                    a_flow_consumes_what_it_received_and_nothing_else,
                    a_flow_starts_children_as_a_round_of_their_own,
                    rounds_follow_each_other_and_empty_ones_are_none,
                    one_that_has_started_nobody_has_no_rounds_to_wait_for,
                    ends_of_children_nobody_waits_for_wake_nobody,
                    a_flow_that_goes_on_waits_for_no_round_any_more,
                    children_that_were_not_started_are_told,
                    a_workflow_is_claimed_without_its_children,
                    a_window_of_a_flow_lets_the_next_one_in,
                    children_of_all_rounds_are_told_of_the_end,
                    a_lost_flow_starts_nobody,
                    a_flow_that_cannot_be_stored_is_rejected,
                    a_fan_out_after_a_flow_joins_its_own_round,
                    keys_follow_a_workflow_as_they_do_a_machine,
                }
                parks on One {
                    a_park_for_a_signal_waits_where_it_is,
                    a_signal_that_is_there_keeps_it_from_parking,
                    what_was_received_does_not_wake_it_again,
                    a_park_for_a_moment_wakes_then,
                    a_moment_that_has_passed_wakes_at_once,
                    a_park_for_everything_says_all_of_it,
                    a_signal_wakes_one_that_waits_for_children,
                    a_moment_wakes_one_that_waits_for_children,
                    an_end_wakes_one_that_waits_for_a_signal_too,
                    a_machine_that_waits_for_children_is_not_woken_by_signals,
                    a_signal_or_insert_wakes_one_that_waits_for_children,
                    a_delivery_hands_over_a_workflow_that_has_started_nobody,
                    a_cancel_wakes_a_parked_workflow,
                    a_flow_that_would_wait_or_start_children_is_told_of_the_cancel,
                    a_flow_that_goes_on_is_written_in_spite_of_a_cancel,
                    a_flow_that_answers_the_cancel_does_what_it_says,
                    a_flow_that_answers_the_cancel_is_not_told_of_it_again,
                    after_its_answer_a_workflow_parks_like_any,
                    a_cancel_in_a_batch_concerns_its_own_alone,
                    a_lost_flow_is_lost_also_when_a_cancel_waits,
                    a_parked_workflow_can_be_terminated,
                }
            }
        }
    };
}
