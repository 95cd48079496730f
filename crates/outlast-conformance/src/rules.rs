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
                forgetting_gives_back_every_claim_but_the_held_ones,
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
        }
    };
}
