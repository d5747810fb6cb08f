"""The server process: gunicorn's configuration, worker and arbiter, and the start of the gRPC server.

What is overridden of gunicorn, each with a test that fails without it:

Unreader.__init__, Unreader.chunk,
TConn.__init__,
ThreadWorker.__init__,
ThreadWorker.enqueue_req          test_two_hundred_slow_clients_do_not_delay_the_others
ThreadWorker.accept               test_with_its_files_exhausted_it_answers_or_refuses_and_is_as_before_afterwards
ThreadWorker.finish_request       test_requests_sent_one_behind_the_other_are_answered_in_turn
                                  test_the_memory_of_answered_requests_can_be_used_again
ThreadWorker.murder_pending       test_a_client_that_drips_its_head_or_its_body_is_told_the_limit
                                  test_more_connections_than_there_is_room_for_make_the_oldest_leave
ThreadWorker.run                  test_sighup_takes_the_settings_as_they_are_now_without_failing_a_request
ThreadWorker.set_accept_enabled   test_a_client_that_connects_before_a_server_stops_is_answered_also_behind_one_that_left
ThreadWorker.handle_exit          test_a_stopped_server_finishes_its_calls_refuses_new_ones_and_does_not_wait_for_watchers
TConn: the send buffer            test_clients_that_do_not_read_their_answers_hold_no_thread
TConn: the TLS handshake          test_a_client_that_begins_no_handshake_delays_no_other
TConn.close                       test_a_client_that_leaves_its_answered_connection_open_delays_no_other
                                  test_answered_clients_that_do_not_close_take_a_bounded_number_of_files
util.write_error                  test_a_request_with_an_unclear_end_is_refused_and_what_follows_it_is_not_read
Logger.setup, Logger.exception    test_a_client_that_stopped_reading_is_a_line_in_the_log_and_no_traceback
Arbiter.handle_hup                test_sighup_takes_the_settings_as_they_are_now_without_failing_a_request
Arbiter.__init__, Arbiter.reload,
Arbiter.manage_workers,
Arbiter.reap_workers              test_new_settings_with_which_no_worker_can_start_are_given_up_and_the_old_ones_hold
                                  test_a_reload_whose_models_never_load_is_given_up_and_the_old_worker_goes_on
Arbiter.stop                      test_when_the_clock_jumps_by_hours_no_request_is_lost_or_delayed
"""

import gunicorn

GUNICORN = "27.0.1"  # of whose private parts worker and arbiter are made

if gunicorn.__version__ != GUNICORN:
    raise ImportError(
        f"the server needs gunicorn {GUNICORN}, found {gunicorn.__version__}; install the locked dependencies with `make setup`"
    )
