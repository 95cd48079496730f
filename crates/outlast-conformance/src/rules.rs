//! The list of rules, and the macro that makes a test of each.

/// Makes one test of every rule of the [`suite`](crate::suite), in modules of the same names.
///
/// Takes the path of an `async fn() -> Subject` that opens an empty store. See the
/// [crate's page](crate) for an example.
#[macro_export]
macro_rules! conformance_suite {
    ($open:path) => {
        $crate::every_rule! { $open }
    };
}

/// What [`conformance_suite!`] expands a list of rules to.
#[doc(hidden)]
#[macro_export]
macro_rules! tests_of_rules {
    ($open:path; $($module:ident on $threads:ident { $($rule:ident,)* })*) => {
        fn open_subject() -> impl ::std::future::Future<Output = $crate::Subject> {
            $open()
        }
        $(
            mod $module {
                $(
                    #[test]
                    fn $rule() {
                        $crate::try_rule(
                            $crate::Threads::$threads,
                            super::open_subject,
                            $crate::suite::$module::$rule,
                        );
                    }
                )*
            }
        )*
    };
}

/// Every rule there is; a test of this crate holds the list to the sources.
#[doc(hidden)]
#[macro_export]
macro_rules! every_rule {
    ($open:path) => {
        $crate::tests_of_rules! {
            $open;
            bad_input on One {
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
            children on One {
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
            commits on One {
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
            inspecting on One {
                a_fresh_row_is_as_it_was_asked_for,
                what_is_not_there_is_not_found,
                a_key_finds_its_present_holder,
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
            operators on One {
                cancel_ends_whatever_lives,
                the_outcome_of_a_cancelled_step_is_lost,
                cancelling_empties_the_inbox_and_joins_the_parent,
                cancelling_is_recorded_and_harmless_when_repeated,
                a_batch_of_cancels_answers_in_the_callers_order,
                parent_and_children_are_cancelled_in_one_verb,
                siblings_cancelled_in_one_verb_all_count,
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
                release_cancel_and_reap_let_the_next_one_through,
                keys_are_compared_whole,
                a_cancelled_row_behind_a_key_does_not_hold_up_the_rest,
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
                a_signal_or_insert_that_races_an_end_meets_the_old_or_starts_the_new,
                a_signal_or_insert_that_races_an_insert_meets_one_holder,
                a_signal_or_insert_that_races_a_park_is_never_lost,
                an_outcome_that_races_a_cancel_wins_or_is_lost,
                of_the_same_outcome_sent_at_once_one_is_committed,
                maintenance_at_once_returns_everything_once,
            }
            reaping on One {
                the_claim_of_a_dead_worker_comes_back,
                the_living_keep_their_claims,
                a_late_commit_after_reap_changes_nothing,
                a_late_commit_after_the_same_worker_claimed_again_changes_nothing,
                a_late_commit_after_reap_consumes_nothing,
                a_late_commit_after_reap_joins_nobody,
                a_step_that_keeps_killing_its_worker_fails_past_the_bound,
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
            searching on One {
                an_error_is_searched_for_by_any_part_of_it,
                attempts_filter_from_a_number_on,
                waits_are_searched_for_by_their_deadline,
                a_page_that_few_fit_ends_at_its_bound_and_says_where_to_go_on,
                children_and_deadlines_far_back_are_found_at_once_or_page_by_page,
                more_children_than_a_page_may_read_are_listed_to_the_end,
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
            signals_and_claims on One {
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
            surveying on One {
                an_empty_store_has_nothing_to_survey,
                a_survey_counts_by_machine_version_step_and_status,
                a_survey_knows_since_when_the_longest_standing_has_not_moved,
                waits_without_a_deadline_and_overdue_ones_are_counted,
                steps_that_are_retried_again_and_again_are_counted,
                a_survey_goes_slice_by_slice_and_counts_everything_once,
                children_are_counted_by_round_and_status,
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
                what_was_cancelled_does_not_fire,
                the_longest_delays_can_be_stored,
            }
            traffic on Several {
                counts_come_back_as_they_were_recorded,
                counts_of_one_key_are_added_up,
                every_part_of_a_key_tells_counts_apart,
                traffic_is_asked_for_from_a_minute_on,
                counts_older_than_a_day_go_with_the_next_record,
                of_too_many_counts_the_newest_are_answered,
                engines_that_record_at_once_lose_nothing,
                names_in_counts_are_data_whatever_they_look_like,
                counts_that_cannot_be_stored_are_refused_whole,
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
    };
}
