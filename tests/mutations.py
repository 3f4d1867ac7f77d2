"""Small faults, put into a copy of the code one at a time: do the tests that are named for each find it?

    python -m tests.mutations [--only PACKAGE] [--list NAME] [--trust] [--quick] [--jobs N]

Run by hand. Faults were chosen from the code alone, before its tests were read. By `first` missing tests were found;
the others were drawn afterwards as measures (tests/benchmarks/RESULTS.md tells what their first run found), and guard
since then what they showed. What decides a result, a lock or a verdict gets an entry here when it is changed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

from tests.support.mutants import Copy, Mutation

FIRST = [
    Mutation(
        "tasks/reader/formats.py",
        '    return f"-{match[1].strip(BLANKS)}" if match else text\n',
        "    return match[1].strip(BLANKS) if match else text\n",
        "test_init_reads_cells.py",
        "A loss that an accountant writes in brackets is a gain.",
    ),
    Mutation(
        "tasks/guess/columns.py",
        "    one_to_one = len(pairs) == len(found.classes) <= column.rows // 2\n",
        "    one_to_one = False\n",
        "test_init_reads_cells.py",
        "The number of the class is an input of the model that predicts it.",
    ),
    Mutation(
        "tasks/guess/candidates.py",
        "        p_values.append(max(_not_rising(",
        "        p_values.append(min(_not_rising(",
        "test_init_reads_cells.py",
        "A number with which what is predicted falls is taken for a code.",
    ),
    Mutation(
        "tasks/guess/candidates.py",
        " * len(p_values)) if p_values else 1.0",
        " * len(p_values)) if p_values else 0.0",
        "test_init_reads_cells.py",
        "Whole numbers of few rows, of which nothing can be said, are codes.",
    ),
    Mutation(
        "tasks/guess/candidates.py",
        "        each = 1 if IDS.fullmatch(last_part(name)) else REPEATED\n",
        "        each = REPEATED\n",
        "test_init_reads_cells.py",
        "Patients of whom few have a second row stand in train and in test.",
    ),
    Mutation(
        "tasks/guess/splits.py",
        "            if best == (True, classes * len(names)):\n",
        "            if best[0]:\n",
        "test_init_guesses.py",
        "The test split has none of a rare class, though a later seed would have it there.",
    ),
    Mutation(
        "tasks/guess/columns.py",
        " or min(named) >= OF_CLASS\n",
        " or min(named) > 0\n",
        "test_init_reads_cells.py",
        "Counts of which some occur once are classes.",
    ),
    Mutation(
        "tasks/records/column_types/categories.py",
        "pc.utf8_trim(values, BLANKS)",
        "values",
        "test_transform_casts.py",
        "A category with a blank behind it is another one in train than in predict.",
    ),
    Mutation(
        "tasks/exporting/preprocess.py",
        ', ""), WHOLE, r"\\1")',
        ', ""), WHOLE, r"\\0")',
        "test_export_wide.py",
        "The graph of an export does not know the category 1 where a row says 1.0.",
    ),
    Mutation(
        "tasks/exporting/raw_rows.py",
        "header_names(next(csv.reader([first], **_dialect(sign, form)), []))",
        "next(csv.reader([first], **_dialect(sign, form)), [])",
        "test_init_reads_cells.py",
        "predict does not find the column that has no name.",
    ),
    Mutation(
        "tasks/records/column_types/numbers.py",
        " & np.isfinite(rounded[1:])",
        "",
        "test_init_reads_cells.py",
        "Numbers beyond float32 are said to fall together.",
    ),
    Mutation(
        "tasks/training/engines/tensorflow/objectives.py",
        "    return tf.cast(weight > 0, tf.float32)\n",
        "    return weight\n",
        "test_train_objectives.py",
        "An example of weight 3 is three right answers in the accuracy of a training.",
    ),
    Mutation(
        "tasks/evaluation/tasks/classification.py",
        "        numbers = range(len(self.names)) if len(self.names) > 2 else [predictions.positive]\n",
        "        numbers = range(len(self.names)) if len(self.names) > 2 else [1]\n",
        "test_evaluate_values.py",
        "The curves of two classes are those of the second one, whichever is called positive.",
    ),
    Mutation(
        "tasks/guess/tables.py",
        "max(sizes) <= MAJORITY * sum(sizes) or",
        "max(sizes) <= IMBALANCE * min(sizes) or",
        "test_init_fits_the_data.py",
        "Where 71 % are of one class accuracy decides.",
    ),
    Mutation(
        "tasks/guess/tables.py",
        " * rows < FEW_OF_RARE else ",
        " * rows < FEW_OF_CLASS else ",
        "test_init_guesses.py",
        "A test split has a dozen examples of the rare class, by which no model is better than chance.",
    ),
    Mutation(
        "tasks/evaluation/units.py",
        "    np.add.at(sums, which, contributions)\n",
        "    sums[which] = contributions\n",
        "test_evaluate_estimates.py",
        "Of a group of examples only the last one counts.",
    ),
    Mutation(
        "tasks/evaluation/metrics.py",
        (
            "        if units is not None:\n            return super().estimate(contributions, units)\n"
            "        return Counted(round(float(contributions.sum())), len(contributions))\n"
        ),
        "        return Counted(round(float(contributions.sum())), len(contributions))\n",
        "test_evaluate_estimates.py",
        "The interval of an accuracy takes the rows of a group for independent ones.",
    ),
    Mutation(
        "tasks/evaluation/metrics.py",
        "        return int(having[having > 0].min()) if (having > 0).any() else 0\n",
        "        return worth(self.sizes(contributions, units))\n",
        "test_evaluate_estimates.py",
        "Three positives of a thousand rows decide as surely as a thousand.",
    ),
    Mutation(
        "tasks/evaluation/estimates.py",
        "        return not 0 < self._share < 1 or self.error <= 1e-12 * (self.most - self.least) or self.units < 2\n",
        "        return self.units < 2\n",
        "test_evaluate_estimates.py",
        "A perfect score has an interval of no width, or none at all.",
    ),
    Mutation(
        "tasks/evaluation/metrics.py",
        "        return int(having.any(axis=0).sum()) if alone else 1\n",
        "        return int(having.any(axis=0).sum())\n",
        "test_evaluate_estimates.py",
        "Groups that have all classes count once for each class.",
    ),
    Mutation(
        "tasks/evaluation/paired.py",
        "(stats.rankdata(each[:, 0]) for each in (before, after))",
        "(each[:, 0] for each in (before, after))",
        "test_evaluate_estimates.py",
        "Of two models with scores on other scales the area under the curve is compared with a mixture of both scales.",
    ),
    Mutation(
        "tasks/evaluation/paired.py",
        "np.random.default_rng(seed).integers(0, 2, (1 + draws, count), np.int8)",
        "np.random.default_rng(0).integers(0, 2, (1 + draws, count), np.int8)",
        "test_evaluate_estimates.py",
        "All comparisons of as many units have the same patterns, and are too sure together, or too little.",
    ),
    Mutation(
        "tasks/evaluation/paired.py",
        "0.5 if deciding >= MIN_EXAMPLES else 1.0",
        "0.5",
        "test_evaluate_estimates.py",
        "Five of nineteen queries that became better, where no other changed, are more than noise.",
    ),
    Mutation(
        "tasks/evaluation/differences.py",
        "** (self.units * self.parts))",
        "** self.units)",
        "test_evaluate_estimates.py",
        "A variant that answers as the model did is undecided, as a mean over ten classes were the smallest one.",
    ),
    Mutation(
        "tasks/evaluation/paired.py",
        "        p_value = exchanged(metric, before, after, resamples, units)\n",
        "        p_value = 0.0 if interval.low > 0 or interval.high < 0 else 1.0\n",
        "test_evaluate_estimates.py",
        "Five files of a language model that became a little better by chance are more than noise.",
    ),
    Mutation(
        "tasks/evaluation/estimates.py",
        "        if share < at:  # the same of the trials that failed\n            share, at = 1 - share, 1 - at\n",
        "",
        "test_evaluate_estimates.py",
        "The examples that an undecided gate asks for are those of another limit.",
    ),
    Mutation(
        "tasks/registry/comparison.py",
        '    changed = {"primary": name,',
        '    changed = {"primary": config.evaluate.primary,',
        "test_promote_edges.py test_promote_approval.py test_promote_primary.py",
        "A new version is compared with the champion by its own metric.",
    ),
    Mutation(
        "tasks/evaluation/decisions.py",
        "float(expit((self.temperature or 1.0) * logit(threshold)))",
        "float(threshold)",
        "test_evaluate_primary.py",
        "F1 is of a threshold that no calibrated answer of the export has.",
    ),
    Mutation(
        "flows/maintenance.py",
        "    before = datetime.now(UTC) - timedelta(days=days)\n",
        "    before = datetime.now(UTC) - timedelta(hours=days)\n",
        "test_gc_counts_days.py::test_files_in_mlflow_go_after_so_many_days",
        (
            "`millrace gc --days 90` and the nightly flow delete the history in MLflow and Prefect that is "
            "older than 90 hours."
        ),
    ),
    Mutation(
        "flows/reply.py",
        '    saw = re.sub(r"://\\S+", "://…", error.format_message()) or "no command"\n',
        '    saw = error.format_message() or "no command"\n',
        "test_command_replies.py::test_a_mistyped_command_shows_no_address",
        (
            "A mistyped command line with an address in it prints the address, with its password, in the "
            "error and in the JSON."
        ),
    ),
    Mutation(
        "flows/references.py",
        '    with connected(home, locked(home.root / ".registry.lock", terminal.say)) as client:\n',
        "    with connected(home) as client:\n",
        "test_promote_one_at_a_time.py::test_a_second_decision_waits_for_the_first",
        ("An approval and a rollback at the same time both move the alias champion, each by what it read before."),
    ),
    Mutation(
        "flows/commands/backfill.py",
        "    if not 1 <= count <= MOST or begin + count * length != end:\n",
        "    if not 1 <= count <= MOST:\n",
        "test_backfill_spans.py::test_a_wrong_span_is_refused_by_name",
        ("A backfill whose last span is not whole leaves that part out without a word instead of refusing."),
    ),
    Mutation(
        "flows/commands/stack.py",
        '    reply.exit_code = 1 if late or any(state != "up" for _, state, _ in rows) else 0\n',
        '    reply.exit_code = 1 if any(state != "up" for _, state, _ in rows) else 0\n',
        "test_command_replies.py::test_status_is_0_where_all_is_up_and_nothing_late",
        "`millrace status` ends with 0 although a scheduled run is late, so that a monitor sees nothing.",
    ),
    Mutation(
        "flows/commands/stack.py",
        "    if not loopback(layout.host) and not layout.auth:\n",
        '    if layout.host == "0.0.0.0" and not layout.auth:\n',
        "test_platform_layout.py::test_a_host_that_others_reach_needs_logins",
        "`millrace up --host 192.168.0.7` without --auth opens both servers to the network.",
    ),
    Mutation(
        "infra/backup.py",
        "    of_home = [backup for backup in backups_in(into) if home_of(backup) == str(home)]\n",
        "    of_home = backups_in(into)\n",
        "test_backup_restores.py::test_the_newest_backups_of_this_home_stay_and_all_of_others",
        ("`millrace backup DIR --keep 3` into a folder with backups of several homes deletes those of the others."),
    ),
    Mutation(
        "infra/databases.py",
        "    if not named and (trailing or parts.password):\n",
        "    if not named and parts.password:\n",
        "test_platform_refuses_early.py::test_a_password_written_out_is_refused_and_not_repeated",
        (
            "`up --database-url 'postgresql://host/db?password=secret'` is refused with an error that "
            "prints the password."
        ),
    ),
    Mutation(
        "infra/prefect_service.py",
        (
            "            if host not in self.hosts or (origin is not None and urlsplit(origin).netloc not "
            "in self.hosts):\n"
        ),
        (
            "            if host not in self.hosts and (origin is not None and urlsplit(origin).netloc not "
            "in self.hosts):\n"
        ),
        "test_platform_guard.py::test_only_our_own_hosts_and_pages_are_passed_on",
        (
            "A foreign page can start flows on a developer's machine: a request with a foreign Origin (or a "
            "foreign Host without one) is passed on."
        ),
    ),
    Mutation(
        "infra/stack.py",
        "            if abs(process.create_time() - self.created) < 1 and is_alive(process):\n",
        "            if is_alive(process):\n",
        ("test_platform_layout.py::test_a_process_that_has_a_services_number_and_began_at_another_time_is_foreign"),
        (
            "After a reboot `millrace down` stops a foreign process that has the id of a service, and `up` "
            "takes it for the running service."
        ),
    ),
    Mutation(
        "infra/slurm/train.sbatch",
        '{ [ "$code" -eq 137 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 10 ]; }',
        '[ "$code" -eq 137 ]',
        ("test_platform_guard.py::test_a_job_is_queued_again_after_it_saved_or_was_killed_but_not_for_ever"),
        ("A training that is killed for want of memory is queued again for ever and uses up the account's hours."),
    ),
    Mutation(
        "tasks/compress.py",
        "latency.measure, list(made.values()), examples)",
        "latency.measure, variants, examples)",
        "test_run_verbs.py::test_the_float_file_is_measured_although_it_is_not_exported",
        (
            "Where export.formats does not list litert, latency is not measured at all, so that a latency "
            "gate or compress.want.latency has nothing to decide on."
        ),
    ),
    Mutation(
        "tasks/convert.py",
        "        check=lambda: source.check_age(config.oldest()),\n",
        "",
        "test_run_verbs.py::test_a_run_without_the_commands_preflight_refuses_old_data",
        (
            "A scheduled (deployed) run, which has no preflight, converts data older than records.max_age "
            "instead of refusing it."
        ),
    ),
    Mutation(
        "tasks/train.py",
        "train_one(examples, model, config.alone, seed_of(seed, number), evaluate, name_of(number))",
        "train_one(examples, model, config.alone, seed, evaluate, name_of(number))",
        "test_run_verbs.py::test_each_of_several_trainings_has_a_seed_of_its_own",
        (
            "train.seeds: 5 is one training five times (the same digest): the interval over seeds has no "
            "width and nothing is chosen."
        ),
    ),
    Mutation(
        "tasks/compression/methods/prune.py",
        "            values, count = weights[placed], self.clusters - (not placed.all())\n",
        "            values, count = weights[placed], self.clusters\n",
        "test_compress_verdicts.py::test_a_layer_has_no_more_values_than_are_asked_for_zero_included",
        (
            "A layer that was pruned before has one value more than `clusters` (the zero), so that indices "
            "need another bit."
        ),
    ),
    Mutation(
        "tasks/compression/judgement.py",
        "    return other.accepted and other.dominates(point)\n",
        "    return other.dominates(point)\n",
        "test_compress_front.py::test_what_is_nowhere_better_and_somewhere_worse_is_dominated",
        "A variant that its gate rejected pushes accepted ones off the front.",
    ),
    Mutation(
        "tasks/compression/verdicts.py",
        '(undecided == "keep_if_few" and all(verdict.few for verdict in open_ones))',
        '(undecided == "keep_if_few" and any(verdict.few for verdict in open_ones))',
        "test_compress_verdicts.py::test_one_gate_that_has_enough_examples_and_shows_nothing_is_not_few",
        (
            "With compress.undecided: keep_if_few a variant is kept of which one gate had too few examples "
            "and another, with enough, could not show that it passes."
        ),
    ),
    Mutation(
        "tasks/compression/judgement.py",
        'if row["threads"] == 1 and name in row["variants"]]\n',
        'if name in row["variants"]]\n',
        "test_compress_verdicts.py::test_the_latency_that_decides_is_the_largest_on_one_thread",
        (
            "A latency gate or compress.want.latency decides by the ratio on two threads, where that is "
            "larger, instead of on one."
        ),
    ),
    Mutation(
        "tasks/records/config.py",
        '        if handling == "group" and isinstance(self.splits, str):\n',
        '        if handling == "group" and self.splits == "official":\n',
        "test_config_combinations.py::test_near_duplicates_move_no_example_out_of_a_given_split",
        (
            "near_duplicates.handling: group with splits: time is not refused, and moves examples over the "
            "border of time, from test into train."
        ),
    ),
    Mutation(
        "tasks/training/schedules.py",
        "        return self.after(step - max(self.warmup - 1, 0), steps - 1 - max(self.warmup - 1, 0))\n",
        "        return self.after(step - self.warmup, steps - 1 - max(self.warmup - 1, 0))\n",
        "test_config_combinations.py::test_the_rate_rises_to_1_in_the_warm_up_and_ends_at_the_last_step",
        "With a warm-up the decay begins a step late and the last step does not come to `schedule.end`.",
    ),
    Mutation(
        "tasks/config/base.py",
        '"MB": 10**6,',
        '"MB": 2**20,',
        "test_compress_verdicts.py::test_units_of_ten_and_of_two_are_two",
        "A limit of `2MB` (gate or compress.want) accepts files of up to 2.1 MB.",
    ),
    Mutation(
        "tasks/training/config.py",
        '            return self.select == "best" or self.early_stopping is not None\n',
        '            return self.select == "best"\n',
        ("test_train_decides.py::test_the_interval_of_evaluations_is_in_the_digest_where_they_select_or_end"),
        (
            "With early stopping another train.evaluate_every has the same digest: the model of the earlier "
            "setting comes from the store."
        ),
    ),
    Mutation(
        "tasks/models/architectures/transformer.py",
        "        if self.experts and self.balance_weight and (remat or not strategy.adds_losses):\n",
        "        if self.experts and self.balance_weight and not strategy.adds_losses:\n",
        "test_config_combinations.py::test_experts_are_balanced_or_refused",
        (
            "Experts with train.remat are not refused although that step adds no balance loss: the router "
            "is trained without it."
        ),
    ),
    Mutation(
        "tasks/sources/kinds/tables.py",
        '(=|%3D)", re.IGNORECASE)\n',
        '(=|%3D)")\n',
        "test_source_sql.py::test_what_is_refused",
        (
            "A literal password in an ODBC URL (`...;PWD=secret`, as drivers write it) is accepted and is "
            "then in run.json, MLflow and the page."
        ),
    ),
    Mutation(
        "tasks/records/assignment.py",
        "    if word.decode() in MISSING:\n",
        '    if word.decode() == "":\n',
        "test_convert_split.py test_convert_stays.py",
        (
            "With a numeric source.group, all rows whose group is a text that means a missing number count as one"
            " group and land in one split together."
        ),
    ),
    Mutation(
        "tasks/feed/snapshot_reader.py",
        "            weights = weights * features[WEIGHT]\n",
        "            weights = features[WEIGHT]\n",
        "test_snapshot_reading.py::test_rows_past_the_last_epoch_have_no_weight_whatever_their_own",
        (
            "With a weight column and train.epochs, the rows past the last epoch in the final batch count "
            "with their weight instead of 0, so some examples are trained on once too often."
        ),
    ),
    Mutation(
        "tasks/draws.py",
        "for key in reversed(round_keys(seed, epoch, split))]",
        "for key in round_keys(seed, epoch, split)]",
        "test_order_permutation.py test_order_blocks.py",
        "In blocks an epoch has, for some seeds, a row that does not exist, and lacks another.",
    ),
    Mutation(
        "tasks/records/conversion.py",
        "    copies = duplicates.find(spills, features, config.duplicates, near.dropped if near else {})\n",
        "    copies = duplicates.find(spills, features, config.duplicates, {})\n",
        "test_convert_near_duplicates.py::test_dropped_near_duplicates_leave_the_first_by_key",
        (
            "With duplicates drop and near_duplicates drop together, rows that both drop are counted twice: "
            "`filtered` is too high and `examples` in the manifest lower than what was written."
        ),
    ),
    Mutation(
        "tasks/records/rules.py",
        "        return rows[holds.fill_null(False).to_numpy()]\n",
        "        return rows[holds.fill_null(True).to_numpy()]\n",
        "test_convert_columns.py::test_a_filter_keeps_rows_and_counts_the_others",
        (
            "Rows whose value in the condition of records.filter is missing (null, neither true nor false) "
            "are kept instead of left out."
        ),
    ),
    Mutation(
        "tasks/records/sorting.py",
        "            values = np.where(missing, 0, np.maximum(digests(values_of(payload))[:, 0], 1))\n",
        "            values = np.maximum(digests(values_of(payload))[:, 0], 1)\n",
        "test_convert_near_duplicates.py::test_texts_of_several_examples_are_grouped",
        (
            "With several inputs, rows whose text or image is missing count as having the same one: they "
            "are reported as shared by train and test, and near_duplicates groups or drops all of them."
        ),
    ),
    Mutation(
        "tasks/sources/record_files.py",
        "        if len(payload) < size or masked(google_crc32c.value(payload)) != footer:\n",
        "        if len(payload) < size and masked(google_crc32c.value(payload)) != footer:\n",
        "test_convert_tfrecord.py::test_any_changed_byte_of_a_stream_is_found",
        (
            "A record of a source TFRecord file (compressed, or read by range) whose payload was damaged "
            "without a change of length is read as if it were whole: wrong values instead of an error."
        ),
    ),
    Mutation(
        "tasks/feed/augmenter.py",
        "        others = self._changed(others, partners, epochs)\n",
        "        others = self._changed(others, rows, epochs)\n",
        "test_augment.py::test_mixup_is_the_weighted_mean_of_two_changed_examples",
        (
            "With mixup or cutmix after other augmentations, the partner is changed by the random numbers "
            "of the example itself: both get the same flip and crop."
        ),
    ),
    Mutation(
        "tasks/feed/augmentations.py",
        "        return mixed, (heights * widths / (height * width)).astype(np.float32)\n",
        "        return mixed, (side * side).astype(np.float32)\n",
        "test_augment.py::test_targets_are_mixed_as_numbers",
        (
            "The share of the other label in cutmix is the drawn one and not the area that was really "
            "pasted, which on small images differs (a share above 0 with no pixel of the other)."
        ),
    ),
    Mutation(
        "tasks/feed/augmentations.py",
        ("        return np.where((words < limit) & (values != PADDING), values.dtype.type(lost), values)\n"),
        "        return np.where(words < limit, values.dtype.type(lost), values)\n",
        "test_augment.py::test_token_dropout_of_words_leaves_what_is_after_the_last_one",
        (
            "token_dropout on a column of words turns padding into unknown words, so that a short row gets "
            "words after its end."
        ),
    ),
    Mutation(
        "tasks/guess/candidates.py",
        (
            '        if SPLITS.fullmatch(last_part(name)) and not column.missing and "train" in '
            "{USUAL_NAMES.get(v) for v in values}:\n"
        ),
        '        if SPLITS.fullmatch(last_part(name)) and "train" in {USUAL_NAMES.get(v) for v in values}:\n',
        "test_init_reads_heads.py::test_a_column_is_the_splits_where_every_row_has_one",
        (
            "init takes a column `split` that is empty in some rows as the splits, and convert then "
            "quarantines all these rows or fails."
        ),
    ),
    Mutation(
        "tasks/guess/forms.py",
        "    if numbers and not counting and all(",
        "    if numbers and all(",
        "test_init_reads_heads.py::test_a_line_of_numbers_alone_is_no_line_of_names",
        (
            "init takes a CSV file with a header in which one column is called by a number (2020) for one "
            "without header: columns lose their names and the header becomes a row."
        ),
    ),
    Mutation(
        "tasks/guess/samples.py",
        "        complete &= whole\n",
        "",
        "test_init_reads_heads.py::test_the_first_rows_of_a_small_file_are_not_taken_for_all_of_it",
        (
            "Of a small file of more than about 10,000 rows, init takes the sample for all of it: the "
            "number of rows is wrong, and source.classes lists only the classes seen, so that rows of "
            "others are quarantined."
        ),
    ),
    Mutation(
        "tasks/records/column_types/categories.py",
        "        return Typed(values, {**unknown, **missing, **cast.bad})\n",
        "        return Typed(values, {**unknown, **cast.bad})\n",
        ("test_convert_columns.py::test_named_classes_keep_their_numbers_and_others_are_bad_or_in_a_bucket"),
        (
            "With source.unknown_class bucket, rows without a label become examples of the class (other) "
            "instead of being quarantined as missing."
        ),
    ),
    Mutation(
        "tasks/records/column_types/numbers.py",
        "            low = np.flatnonzero((rows <= 0).any(axis=1))\n",
        "            low = np.flatnonzero((rows < 0).any(axis=1))\n",
        "test_convert_columns.py::test_weights_and_targets_must_be_there",
        (
            "A row with the weight 0 is accepted, while only weights above 0 are allowed and the row should "
            "be quarantined."
        ),
    ),
    Mutation(
        "tasks/records/column_types/numbers.py",
        "    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND\n",
        "    return (time.replace(tzinfo=UTC) - EPOCH) // MICROSECOND\n",
        "test_transform_casts.py::test_times_in_text",
        (
            "The offset of a time text such as 2024-05-31T18:30:00+02:00 (in a column or in "
            "records.split_times) is ignored, so it is hours off, and differs from what predict makes of it."
        ),
    ),
    Mutation(
        "tasks/records/near/__init__.py",
        "    if similarity is not None and similarity < lowest:\n",
        "    if similarity is not None and similarity <= lowest:\n",
        "test_convert_near_duplicates.py::test_the_lowest_similarity_that_can_be_looked_for_is_allowed",
        (
            "near_duplicates.similarity 0.5 for texts (0.8 for images) is refused with the rule that at "
            "least this value can be looked for."
        ),
    ),
    Mutation(
        "tasks/records/near/__init__.py",
        (
            "    return hashes.view(np.uint8).reshape(-1, BITS // 8), np.where(given[:, None], "
            "np.maximum(of_bands, 1), 0)\n"
        ),
        "    return hashes.view(np.uint8).reshape(-1, BITS // 8), np.maximum(of_bands, 1)\n",
        "test_convert_near_duplicates.py::test_missing_and_flat_images_are_in_no_band",
        (
            "All missing images and those almost without contrast count as near-duplicates of one another, "
            "and are dropped or moved to one split."
        ),
    ),
    Mutation(
        "tasks/records/near/search.py",
        "        near = np.flatnonzero(estimates >= compared.similarity - measure.SLACK)\n",
        "        near = np.flatnonzero(estimates >= compared.similarity)\n",
        (
            "test_convert_near_duplicates.py::test_texts_just_at_the_limit_are_found_although_half_of_the_es"
            "timates_are_below"
        ),
        (
            "About half of the pairs of texts whose true similarity is just at or above the limit are "
            "missed, as the signature's estimate is a bit below: near-duplicates stay across train and test."
        ),
    ),
    Mutation(
        "tasks/reader/numbers.py",
        '        ids = 1 + np.searchsorted(boundaries, values.astype(np.float64), side="right")\n',
        '        ids = 1 + np.searchsorted(boundaries, values.astype(np.float64), side="left")\n',
        "test_transform_fitting.py::test_intervals_hold_about_equally_many",
        (
            "A number that equals a boundary gets the bucket below it, in contradiction to the "
            "documentation and to the exported graph."
        ),
    ),
    Mutation(
        "tasks/reader/own_modules.py",
        'if f"{name}.".startswith(f"{here}.")]:',
        "if name == here]:",
        "test_own_modules.py test_transform_edges.py",
        (
            "A process that opens two exports whose function is of the same package.module uses the first "
            "one's module for both."
        ),
    ),
    Mutation(
        "tasks/reader/image.py",
        (
            "    inner = image.resize((max(1, round(image.width * scale)), max(1, round(image.height * "
            "scale))), bilinear)\n"
        ),
        "    inner = image.resize((round(image.width * scale), round(image.height * scale)), bilinear)\n",
        "test_transform_images.py::test_any_proportions_fit",
        (
            "With fit pad, one very long or very flat image, which would become less than half a pixel "
            "high, ends the snapshot or the request with an error."
        ),
    ),
    Mutation(
        "tasks/snapshots/config.py",
        '        size = {field: getattr(self, field) for field in ("height", "width", "channels", "fit", "range")}\n',
        '        size = {field: getattr(self, field) for field in ("height", "width", "channels", "range")}\n',
        ("test_snapshot_repeats.py::test_images_are_fitted_as_the_settings_say"),
        "snapshot.fit crop or pad of an image snapshot is ignored: images are stretched.",
    ),
    Mutation(
        "tasks/snapshots/packing.py",
        "    count = np.ones_like(lengths) if cut else np.maximum(-(-(lengths - 1) // block), 1)\n",
        "    count = np.ones_like(lengths) if cut else np.maximum(-(-lengths // block), 1)\n",
        "test_transform_edges.py::test_best_fit_has_every_token_once_and_no_empty_piece",
        (
            "With packing best_fit, a document that exactly fills its rows gets one more piece of no "
            "tokens: pieces of length 0 and rows that are padding alone."
        ),
    ),
    Mutation(
        "tasks/snapshots/table.py",
        "    files = [_counts_of(part), *(part.file(name) for name in _stored(layout))]\n",
        "    files = [part.file(name) for name in _stored(layout)]\n",
        "test_snapshot_table.py",
        (
            "A snapshot killed between the last array of a shard and its counts can never be resumed: the "
            "shard counts as finished and its file of counts is missing in every later attempt."
        ),
    ),
    Mutation(
        "tasks/sources/csv.py",
        "            yield Opened(stream, self._names(path, head), begin + len(head), 1 + lines)\n",
        "            yield Opened(stream, self._names(path, head), len(head), 1 + lines)\n",
        "test_source_edges.py::test_a_byte_order_mark_moves_no_row",
        (
            "Of a CSV file with a byte order mark and a header (Excel), the ranges begin three bytes too "
            "early: the header's end is read as a row, and the last row loses its last bytes."
        ),
    ),
    Mutation(
        "tasks/sources/files.py",
        "            if row is not None and row[:4] == stat_key:\n",
        "            if row is not None and row[:2] == stat_key[:2]:\n",
        "test_source_hashes.py::test_a_file_that_was_changed_is_read_again_whatever_its_time_says",
        (
            "A source file that was replaced by another of the same size and modification time (cp -p, "
            "rsync -t, touch -r) keeps its old hash: the run takes the old records from the store."
        ),
    ),
    Mutation(
        "tasks/sources/jsonl.py",
        "        bad |= {present[row]: reason for row, reason in misread.items()}\n",
        "        bad |= misread\n",
        "test_source_edges.py::test_the_line_that_is_named_is_the_bad_one",
        (
            "In a JSON lines file with a line that is no JSON before one with a bad field, another line "
            "than the bad one is left out and named, and the bad one is kept."
        ),
    ),
    Mutation(
        "tasks/sources/payloads.py",
        '        if not real.startswith(self._real.rstrip("/") + "/"):\n',
        "        if not real.startswith(self._real):\n",
        "test_source_edges.py::test_a_link_to_a_folder_whose_name_begins_alike_leads_out",
        (
            "A link below the source `data` that leads to `data-private/x.png` beside it is followed: files "
            "outside of the source enter the records."
        ),
    ),
    Mutation(
        "tasks/sources/python.py",
        "        array = np.array(value)\n",
        "        array = np.asarray(value)\n",
        "test_source_edges.py::test_an_array_that_the_user_fills_again_is_copied",
        (
            "A source function that fills and yields the same array again gives records that all have the "
            "values of the batch's last example."
        ),
    ),
    Mutation(
        "tasks/sources/tfds.py",
        (
            "            return pa.array([classes[int(value)] if 0 <= int(value) < len(classes) else None "
            "for value in values])\n"
        ),
        (
            "            return pa.array([classes[int(value)] if int(value) < len(classes) else None for "
            "value in values])\n"
        ),
        "test_convert_tfds.py::test_a_label_of_none_of_the_classes_is_missing",
        (
            "Examples of a tensorflow-datasets data set with the label -1 (unlabelled test splits) become "
            "examples of the last class instead of having no label."
        ),
    ),
    Mutation(
        "tasks/snapshots/transforms/graphs.py",
        "        hashed = compress(state, words[:, block], tf.minimum(lengths, end), lengths <= end)\n",
        "        hashed = compress(state, words[:, block], tf.minimum(lengths, end), lengths < end)\n",
        "test_transform_edges.py::test_the_hash_of_the_graph_is_that_of_python_at_every_length",
        (
            "An exported model with a hash column gives categories of exactly 128 (256, ...) bytes another "
            "bucket than the one that the model was trained with."
        ),
    ),
    Mutation(
        "tasks/snapshots/transforms/texts.py",
        'dtype = "uint16" if self.buckets < 2**16 else "uint32"\n',
        'dtype = "uint16" if self.buckets <= 2**16 else "uint32"\n',
        "test_transform_fitting.py::test_the_last_bucket_of_words_has_an_id_of_its_own",
        (
            "With hash_words, output ids and exactly 65,536 buckets, the words of the last bucket overflow "
            "uint16 and become padding."
        ),
    ),
    Mutation(
        "tasks/snapshots/transforms/numbers.py",
        "            moments = self._after.filled(self._change(fill), missing)\n",
        "            moments = self._after.filled(fill, missing)\n",
        "test_transform_edges.py::test_the_moments_of_logarithms_have_the_logarithm_of_the_fill",
        (
            "With transform log on a column with missing values, mean and variance are computed with the "
            "raw fill among logarithms, so the model standardises the column wrongly."
        ),
    ),
    Mutation(
        "tasks/snapshots/transforms/categories.py",
        '        del self._counts[""]\n',
        "",
        "test_transform_edges.py::test_a_missing_category_has_no_place_in_the_vocabulary",
        (
            "In a category column with missing values the missing value takes a place in the vocabulary and "
            "an id of its own, which the exported graph does not give it (id 0)."
        ),
    ),
    Mutation(
        "tasks/view/examples.py",
        '            return " ".join(["?", *state["values"]][number] for number in ids)\n',
        '            return " ".join(state["values"][number] for number in ids)\n',
        "test_display_words.py::test_words_are_shown_as_they_are_and_unknown_ones_as_such",
        (
            "Words of a tagger's snapshot are shown as their neighbours in the vocabulary (`show --rows`, "
            "samples on the page), unknown ones as a known word."
        ),
    ),
    Mutation(
        "tasks/view/__init__.py",
        "'gains' if loss < 0 else 'loses'",
        "'gains' if loss > 0 else 'loses'",
        "test_display_words.py::test_numbers",
        "The summary says that a variant gains where it loses quality, and the other way round.",
    ),
    Mutation(
        "tasks/view/words.py",
        "    return None if low is None or high is None or low == high else (low, high)\n",
        "    return None if low is None or high is None else (low, high)\n",
        "test_display_words.py::test_an_interval_of_one_example_is_none",
        (
            "With one test example an interval without width is shown, and `millrace diff` calls any "
            "difference of two such runs more than noise."
        ),
    ),
    Mutation(
        "tasks/environment/database_templates.py",
        "        fcntl.flock(file, fcntl.LOCK_EX)\n",
        "        fcntl.flock(file, fcntl.LOCK_SH)\n",
        "test_environment.py::test_one_process_at_a_time_creates_a_database",
        (
            "Two first commands in a new home create Prefect's database at once, and one replaces the file "
            "to which the other has written."
        ),
    ),
    Mutation(
        "tasks/environment/hardware.py",
        "    for level in [folder, *folder.parents]:\n",
        "    for level in [folder]:\n",
        "test_environment.py::test_memory_is_what_the_tightest_group_above_has_left",
        (
            "In a container whose memory limit is at a group above that of the process the limit is not "
            "seen, and a step that is too large is killed."
        ),
    ),
    Mutation(
        "tasks/environment/secrets.py",
        "            secret = Path(name).expanduser().read_text().strip()\n",
        "            secret = Path(name).expanduser().read_text()\n",
        "test_environment.py::test_a_secret_in_a_file_is_without_the_line_end",
        (
            "A secret in a file that ends with a newline (`file:PATH`) is used with it: the login fails, "
            "and a file with only a newline is not missing."
        ),
    ),
    Mutation(
        "tasks/evaluation/tasks/tagging.py",
        "        starts = (kinds >= 0) & ((self.begins[tags] & (tags >= 0)) | (kinds != before))\n",
        "        starts = (kinds >= 0) & (kinds != before)\n",
        "test_evaluate_edges.py::test_entities_are_those_of_conlleval",
        (
            "Two entities of one type side by side (B-PER B-PER) count as one, so that entity F1, precision "
            "and recall of a tagger are wrong."
        ),
    ),
    Mutation(
        "tasks/evaluation/judging.py",
        ("    if given is not None:\n        return given\n"),
        ("    if given:\n        return given\n"),
        "test_compress_verdicts.py::test_a_limit_of_0_is_a_limit",
        "A quality gate with max_loss: 0 accepts the default loss (2 points) instead of none.",
    ),
    Mutation(
        "tasks/evaluation/multiple_testing.py",
        "    if not _exact(metric, units) and change.units < MIN_EXAMPLES:\n",
        "    if not _exact(metric, units) and change.units < 2:\n",
        "test_compress_verdicts.py::test_a_metric_that_counts_no_examples_is_not_shown_by_few",
        (
            "A gate on a metric that counts no examples (RMSE, F1) passes with fewer than 20 test examples, "
            "where it must be undecided."
        ),
    ),
    Mutation(
        "tasks/evaluation/tasks/ranking.py",
        "        judged = (counts > 1) & (np.bincount(of_row, self.truth[:, 0]) > 0)\n",
        "        judged = np.bincount(of_row, self.truth[:, 0]) > 0\n",
        "test_evaluate_edges.py::test_a_query_is_judged_where_there_is_an_order",
        (
            "Queries with a single (relevant) document count as perfectly ranked, which raises ndcg and mrr "
            "of a ranking."
        ),
    ),
    Mutation(
        "tasks/evaluation/robustness.py",
        "            draws = draws_of(self._place, number, np.arange(len(self))[rows])\n",
        "            draws = draws_of(self._place, number, np.arange(len(batch[name])))\n",
        "test_evaluate_probes.py::test_an_example_is_changed_alike_in_any_batch",
        (
            "With more test examples than one batch the same draws repeat in each batch, so that the "
            "measured drop depends on the batch size."
        ),
    ),
    Mutation(
        "tasks/evaluation/gating.py",
        "        better = higher if name == primary else name not in task.lower_is_better\n",
        "        better = higher\n",
        "test_compress_verdicts.py::test_a_slice_of_as_many_examples_as_are_asked_for_is_judged",
        (
            "A gate on `loss` of a classifier takes a higher loss for a gain: a worse variant passes and a "
            "better one is rejected."
        ),
    ),
    Mutation(
        "tasks/evaluation/gating.py",
        "            if mask.sum() >= self.least\n",
        "            if mask.sum() > self.least\n",
        "test_compress_verdicts.py::test_a_slice_of_as_many_examples_as_are_asked_for_is_judged",
        ("A slice of exactly `least` examples is not judged, so that a variant that breaks on it passes the gate."),
    ),
    Mutation(
        "tasks/evaluation/multiple_testing.py",
        "    if p_value <= ERROR:\n",
        "    if test.p_value <= ERROR:\n",
        "test_compress_verdicts.py::test_holms_method_decides_and_not_each_test_by_itself",
        (
            "With several variants or gates Holm's correction decides nothing: a variant passes by chance "
            "more often than in 5 % of the runs."
        ),
    ),
    Mutation(
        "tasks/evaluation/probes.py",
        "        means = values.mean(axis=(1, 2, 3), keepdims=True, dtype=np.float64)\n",
        "        means = values.mean(axis=(1, 2), keepdims=True, dtype=np.float64)\n",
        "test_evaluate_edges.py::test_contrast_is_towards_the_mean_of_the_image_and_not_of_a_channel",
        (
            "The contrast probe of colour images moves each channel towards its own mean, so that the drop "
            "that the report names is that of another change."
        ),
    ),
    Mutation(
        "tasks/exporting/latency.py",
        ("        used = ((b - a) % (largest + 1) for a, b, largest in zip(before, after, ranges, strict=True))\n"),
        "        used = (b - a for a, b, largest in zip(before, after, ranges, strict=True))\n",
        "test_environment.py::test_energy_is_of_all_packages_also_where_a_counter_begins_again",
        (
            "When a processor's energy counter begins again at 0 during a measurement the energy of a call "
            "is negative or far too small."
        ),
    ),
    Mutation(
        "tasks/exporting/predict.py",
        "            self._cache = padded(self._cache, capacity_for(position + 1))\n",
        "            self._cache = padded(self._cache, capacity_for(position))\n",
        "test_export_answers.py::test_the_cache_grows_before_it_is_full",
        (
            "At a text of exactly 64 (128, ...) tokens the cache has no room for the next one, and the "
            "continuation goes on from wrong logits."
        ),
    ),
    Mutation(
        "tasks/exporting/checks.py",
        "        if file.is_symlink() or (file.is_file() and name not in FILES):\n",
        "        if file.is_file() and name not in FILES:\n",
        "test_export_hostile.py::test_assets_other_files_and_links_are_refused",
        (
            "`millrace predict` accepts a SavedModel from anywhere whose graph or variables are links to "
            "other files of the machine."
        ),
    ),
    Mutation(
        "tasks/exporting/prediction.py",
        'np.exp(-np.logaddexp(0.0, -outputs / transform.get("temperature", 1.0)))',
        "np.exp(-np.logaddexp(0.0, -outputs))",
        "test_export_answers.py::test_labels_are_probabilities_at_the_fitted_temperature",
        (
            "Predictions of a multilabel or anomaly model ignore the fitted temperature, while the "
            "thresholds were chosen for calibrated probabilities."
        ),
    ),
    Mutation(
        "tasks/models/architectures/user_models.py",
        (
            "        if self.weights_file is not None:\n"
            '            with open(self.weights_file, "rb") as file:\n'
            '                files["weights"] = file_digest(file, "sha256").hexdigest()\n'
        ),
        "",
        "test_export_answers.py::test_the_weights_that_a_model_begins_with_decide_its_digest",
        (
            "With model.kind: keras_file and weights: true other weights of the same architecture give the "
            "same digest: the old model comes from the store."
        ),
    ),
    Mutation(
        "tasks/models/keras_archive.py",
        "                if item.external or item.is_virtual:\n",
        "                if item.external:\n",
        "test_model_keras_file.py::test_hostile_weights_are_refused",
        (
            "A weights file from anywhere with a virtual data set, whose values are in another file of the "
            "machine, is read."
        ),
    ),
    Mutation(
        "tasks/models/layers/__init__.py",
        "        if layer.name.endswith(LOGITS) or isinstance(layer.kernel_initializer, keras.initializers.Zeros):\n",
        "        if layer.name.endswith(LOGITS):\n",
        "test_export_answers.py::test_an_initializer_leaves_what_begins_at_0_and_the_output",
        (
            "model.initializer also begins the kernels anew that must be 0 (the ends of attention and "
            "feed-forward blocks): a transformer trains otherwise."
        ),
    ),
    Mutation(
        "tasks/view/charts.py",
        "        shown = [*points[:: math.ceil(len(points) / MOST)], points[-1]]\n",
        "        shown = points[:: math.ceil(len(points) / MOST)]\n",
        "test_page_shows_all.py",
        "The curve of a long training (over 400 points) ends before its last value.",
    ),
    Mutation(
        "tasks/view/facts.py",
        'startswith(("rejected", "not judged"))',
        'startswith("rejected")',
        "test_page_shows_all.py test_run_page.py",
        (
            "With compress.search the page and the registry name a variant that the search only tried, "
            "which no gate judged, as the smallest accepted form."
        ),
    ),
    Mutation(
        "tasks/view/results.py",
        "    both = paired.aligned(first, second)\n",
        "    both = first, second\n",
        "test_page_shows_all.py test_page_unequal_parts.py test_convert_stays.py",
        "`millrace diff` compares two runs pair by pair although their test examples are others.",
    ),
    Mutation(
        "tasks/processes/fork_server.py",
        ("    passed_on = {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}\n"),
        "    passed_on = {name: value for name, value in os.environ.items() if PASSED_ON.match(name)}\n",
        "test_run_processes.py::test_a_compute_process_gets_the_variables_that_are_named_whole",
        (
            "Secrets in variables whose names begin like a permitted one (LANGCHAIN_API_KEY, USER_TOKEN) "
            "reach compute processes and the user's code in them."
        ),
    ),
    Mutation(
        "tasks/processes/gang.py",
        "                process.send_signal(signal.SIGTERM if number == signal.SIGHUP else number)\n",
        "                process.send_signal(number)\n",
        "test_run_processes.py::test_a_closed_terminal_is_a_sigterm_to_those_that_work",
        (
            "When the terminal is closed (SIGHUP), the training process, which ignores that signal, does "
            "not save: it is killed after resources.grace and the steps since the last checkpoint are lost."
        ),
    ),
    Mutation(
        "tasks/processes/gang.py",
        ("self._signal(self._reason.signal_number)  # the first is lost while TensorFlow has a handler of its own"),
        "self._request_stop(self._reason.signal_number, self._reason, on_report)",
        "test_run_tries_again.py",
        "A process that ignores SIGTERM is never killed: each reminder moves the deadline.",
    ),
    Mutation(
        "tasks/processes/rendezvous.py",
        '            if (value := values["expects"].get(name)) != expected:\n',
        '            if (value := values["expects"].get(name, expected)) != expected:\n',
        "test_run_processes.py",
        (
            "A host with an older Millrace that does not know a setting or a library of the chief's is "
            "taken into a training on several hosts instead of being refused."
        ),
    ),
    Mutation(
        "tasks/processes/threads.py",
        "    return max(1, int(min(limits))) if limits else None\n",
        "    return max(1, int(limits[0])) if limits else None\n",
        "test_run_processes.py",
        (
            "Where a group above the process's own has the smaller CPU quota (a pod around a container), "
            "more threads are used than are allowed."
        ),
    ),
    Mutation(
        "tasks/registry/approval.py",
        "        if champion.scored_on != registered.scored_on:\n",
        "        if champion.records != registered.records:\n",
        "test_promote_approval.py",
        (
            "An approval after the champion of a ranking model was replaced compares scores up to different "
            "ranks (evaluate.at 5 and 10) instead of refusing."
        ),
    ),
    Mutation(
        "tasks/registry/registry.py",
        (
            "        return Registered.of(client.get_model_version_by_alias(name, alias))\n"
            "    except MlflowException as error:\n"
            "        if error.error_code in ABSENT:\n"
            "            return None\n"
            "        raise\n"
        ),
        (
            "        return Registered.of(client.get_model_version_by_alias(name, alias))\n"
            "    except MlflowException:\n"
            "        return None\n"
        ),
        "test_promote_asks_the_registry.py",
        (
            "An error of the MLflow server while the champion is looked up counts as no champion: the new "
            "version is promoted without a comparison."
        ),
    ),
    Mutation(
        "tasks/registry/registry.py",
        ('    if not unchanged or (now.version if now else None) not in (entry["before"], entry["after"]):\n'),
        '    if not unchanged or (now.version if now else None) != entry["before"]:\n',
        "test_promote_killed.py",
        (
            "A promotion killed after the alias was moved and before its line was written is dropped by the "
            "next process: the champion has changed and the audit log lacks it."
        ),
    ),
    Mutation(
        "tasks/registry/rollback.py",
        "        earlier = int(each.version) < int(present.version)\n",
        "        earlier = each.version < present.version\n",
        "test_tracking_sends_again.py",
        (
            "Without an audit log, rollback from version 10 does not find version 9 (or, from 9, goes to "
            "10), as versions are compared as texts."
        ),
    ),
    Mutation(
        "tasks/runs/audit.py",
        '            if row["model"] != model or row["alias"] != "champion" or before == after:\n',
        '            if row["model"] != model or before == after:\n',
        "test_run_bookkeeping.py",
        (
            "Versions that only ever were candidates (held back, awaiting approval) count as champions: "
            "rollback can make such a version champion."
        ),
    ),
    Mutation(
        "tasks/runs/collection.py",
        '    return run.exit_code not in FINISHED or run.record["status"] == "awaiting_approval"\n',
        "    return run.exit_code not in FINISHED\n",
        "test_gc_beside_runs.py",
        "gc removes the artifacts of an older run that still awaits a person's approval.",
    ),
    Mutation(
        "tasks/runs/collection.py",
        "            if not locked or needs.by_now(name):\n",
        "            if not locked:\n",
        "test_gc_beside_runs.py",
        "gc beside a run that has just recorded what it uses removes it.",
    ),
    Mutation(
        "tasks/runs/home.py",
        "        for folder in (self.root, *folders):\n",
        "        for folder in folders:\n",
        "test_run_refuses_early.py test_command_line.py",
        (
            "A home whose own folder cannot be written (its subfolders can) is not refused at once: the run "
            "fails later, at mlflow.db, audit log or registry lock."
        ),
    ),
    Mutation(
        "tasks/runs/runs.py",
        "    last = _last_of(runs, identity)\n    return None if last",
        (
            "    left = (row for row in runs if row.identity == identity and row.exit_code not in FINISHED)\n"
            "    last = next(left, None)\n    return None if last"
        ),
        "test_run_bookkeeping.py",
        (
            "After a failed run was followed by a finished one (--new) of the same config, the next run "
            "continues the old failed one instead of beginning a new one."
        ),
    ),
    Mutation(
        "tasks/runner/identities.py",
        (
            '    parents = {"prepared": prepared, "snapshot": examples, **({} if teacher is None else '
            '{"teacher": teacher})}\n'
        ),
        '    parents = {"prepared": prepared, "snapshot": examples}\n',
        "test_compress_trains.py test_golden_digests.py test_compress_settings.py",
        (
            "After another teacher was named for distillation, the model that the former teacher trained "
            "comes from the store."
        ),
    ),
    Mutation(
        "tasks/runner/signals.py",
        "        self.number = 1 if saved > self._furthest else self.number + 1\n",
        "        self.number = 1 if saved else self.number + 1\n",
        "test_run_bookkeeping.py",
        (
            "A training whose process is killed at the same step again and again is restarted for ever, as "
            "train.restarts never counts beyond 1."
        ),
    ),
    Mutation(
        "tasks/runner/compressing.py",
        "        if type(unfit) is not Failed or of_the_machine(unfit) is not None:\n",
        "        if type(unfit) is not Failed:\n",
        "test_run_bookkeeping.py",
        (
            "A full disk during compress.search becomes a trial without a result, which is stored and never "
            "tried again, and the search goes on as if the method did not fit."
        ),
    ),
    Mutation(
        "tasks/runner/tuning.py",
        "        return self.before + time.monotonic() - self.started\n",
        "        return time.monotonic() - self.started\n",
        "test_run_bookkeeping.py",
        (
            "tune.minutes begins anew with every attempt: a tuning that was stopped and resumed runs longer "
            "than its budget."
        ),
    ),
    Mutation(
        "tasks/store/files.py",
        "    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]\n",
        "    return [status.st_size, status.st_mtime_ns, status.st_ino]\n",
        "test_store_commits.py test_store_damage.py",
        (
            "A published file that was changed in place with its modification time restored (touch -r) is "
            "used without being hashed again."
        ),
    ),
    Mutation(
        "tasks/store/files.py",
        "        sync(partial)\n",
        "",
        "test_store_commits.py",
        (
            "After a power cut a file that was renamed into place (manifest, run.json, a piece) may be "
            "empty, as its content was never synced."
        ),
    ),
    Mutation(
        "tasks/store/lock.py",
        ("        self._silent = self._silent + min(now - self._looked, MOST) if state == self._seen else 0.0\n"),
        "        self._silent = self._silent + (now - self._looked) if state == self._seen else 0.0\n",
        "test_store_lock.py",
        (
            "A waiting run that was itself suspended (Ctrl-Z, laptop lid) for a minute kills the healthy "
            "run that holds the lock as soon as it wakes up."
        ),
    ),
    Mutation(
        "tasks/store/lock.py",
        '        if abs(holder.create_time() - owner["started"]) < 1 and watch.look() > 0:\n',
        "        if watch.look() > 0:\n",
        "test_store_lock.py",
        (
            "Where the name in the lock file is that of a process that is gone (a new holder stopped before "
            "it signed) or of another container with the same host name, the waiter kills an unrelated "
            "process that has this pid here."
        ),
    ),
    Mutation(
        "tasks/store/staging.py",
        "            self.check()\n",
        "",
        "test_store_commits.py",
        (
            "A superseded attempt that continues late commits its pieces (shards, checkpoints) over those "
            "of the newer attempt that has the lock."
        ),
    ),
    Mutation(
        "tasks/store/staging.py",
        '            return sidecar["note"] if made == {key: sidecar[key] for key in made} else None\n',
        '            return sidecar["note"] if made["bytes"] == sidecar["bytes"] else None\n',
        "test_store_commits.py",
        (
            "A finished shard or checkpoint that was damaged in the staging without a change of size is "
            "adopted by the next attempt and becomes part of the artifact."
        ),
    ),
    Mutation(
        "tasks/store/store.py",
        "        return self.fault(path.parent.name, path.name, path, rehash=True)\n",
        "        return self.fault(path.parent.name, path.name, path)\n",
        "test_store_damage.py test_store_fine_print.py",
        (
            "`millrace verify` calls an artifact intact whose bytes rotted on the disk without a change of "
            "stat, as it trusts the kept verdict instead of hashing again."
        ),
    ),
    Mutation(
        "tasks/tracking/notifications.py",
        '        if not secure and (connection.has_extn("starttls") or server.password):\n',
        '        if not secure and connection.has_extn("starttls"):\n',
        "test_tracking_sends_again.py",
        (
            "The mail password is sent unencrypted to a server that does not offer TLS, or from whose "
            "answer somebody removed the offer."
        ),
    ),
    Mutation(
        "tasks/tracking/runs.py",
        (
            "    query = f\"attributes.status != 'RUNNING' and attributes.end_time < {int(before.timestamp() "
            '* 1000)}"\n'
        ),
        '    query = f"attributes.end_time < {int(before.timestamp() * 1000)}"\n',
        "test_gc_drops_old_history.py",
        "gc --days deletes the MLflow files of an old run that was continued and is running now.",
    ),
    Mutation(
        "tasks/tracking/shipping.py",
        ("            self._unsent(self.client, self.mlflow_id)\n            self._unsent = None\n"),
        ("            send, self._unsent = self._unsent, None\n            send(self.client, self.mlflow_id)\n"),
        "test_tracking_sends_again.py",
        (
            "What was being sent when the MLflow server failed (a stage's lineage, tags, the run's end and "
            "page) is lost instead of sent again."
        ),
    ),
    Mutation(
        "tasks/training/primary.py",
        "[values[0] + delta, *values[1:]] < best)",
        "[values[0] + delta, *values[1:]] <= best)",
        "test_train_decides.py",
        (
            "With delta 0 a score that stays the same counts as better: early stopping waits for ever on a "
            "plateau, and of equal losses the last weights are chosen."
        ),
    ),
    Mutation(
        "tasks/training/checkpoints.py",
        "            last.result()\n",
        "            last.exception()\n",
        "test_train_decides.py",
        (
            "A checkpoint that could not be written (full disk) is not noticed: the training goes on, says "
            "that its state is saved, and loses the work."
        ),
    ),
    Mutation(
        "tasks/training/starting.py",
        '    for section in ("model", "seed", "train"):\n',
        '    for section in ("model", "train"):\n',
        "test_train_decides.py",
        (
            "train.continue_from with another seed is accepted: the model is not that of one longer "
            "training, and its order repeats and leaves out examples."
        ),
    ),
    Mutation(
        "tasks/training/feeding.py",
        ("        self.close()\n        self._rest = None\n"),
        "        self.close()\n",
        "test_train_decides.py test_train_feed.py",
        (
            "After a rollback (train.on_spike) that comes in the middle of a prefetched part, the examples "
            "of skipped steps are fed as those of the next ones."
        ),
    ),
    Mutation(
        "tasks/training/ledger.py",
        '        if f"{total:016x}" != line["hash"] or number != line["count"]:\n',
        '        if f"{total:016x}" != line["hash"] and number != line["count"]:\n',
        "test_order_blocks.py",
        (
            "`millrace show RUN` calls a training proven that was fed other rows than the order says, as "
            "long as their number is right."
        ),
    ),
    Mutation(
        "tasks/training/meter.py",
        '"ended": self.ended,',
        '"ended": False,',
        "test_train_ends_and_continues.py test_train_resumes_exactly.py",
        "A training ended by early stopping and killed before publication trains on to its last step.",
    ),
    Mutation(
        "tasks/environment/user_code.py",
        '    return hashes + [(f"package/{name}", number) for name, number in packages_of(files, folder)]\n',
        "    return hashes\n",
        "test_train_decides.py test_model_import.py",
        (
            "Another version of a package that an own loss imports does not change the digest: the model of "
            "the old version comes from the store."
        ),
    ),
    Mutation(
        "tasks/training/engines/parameter_server.py",
        "        count_atomically(step.optimizer)\n",
        "",
        "test_train_parameter_server.py",
        (
            "Two workers that update at once lose a count of the optimizer's iterations, so that Adam's "
            "bias correction is that of fewer steps."
        ),
    ),
    Mutation(
        "tasks/training/engines/parameter_server.py",
        '        fed = arrays["row"][arrays["weight"] > 0]\n',
        '        fed = arrays["row"].ravel()\n',
        "test_train_parameter_server.py",
        (
            "With train.epochs the rows of weight 0 that fill the last batch are in the ledger as fed, and "
            "`millrace show` reports examples that repeat."
        ),
    ),
    Mutation(
        "tasks/training/engines/shards.py",
        (
            "        self.constants = [variable.numpy() for variable in self.model.non_trainable_variables]\n"
            "\n"
            "    def split"
        ),
        ("\n    def split"),
        "test_train_parameter_server.py",
        (
            "After a resume, or with train.init, workers compute with the frozen layers and statistics of "
            "the new model instead of the loaded ones."
        ),
    ),
    Mutation(
        "tasks/training/engines/tensorflow/scoring.py",
        "            return plain(batch, outputs).sums(), main if whole else first(main)\n",
        "            return objective(batch, outputs).sums(), main if whole else first(main)\n",
        "test_train_options.py test_train_losses.py",
        (
            "With label smoothing or class weights the validation loss has them too, so that select: best "
            "and early stopping choose by another loss."
        ),
    ),
    Mutation(
        "tasks/training/engines/tensorflow/step.py",
        "            for number, copy in enumerate(replica_copies, first_replica):\n",
        "            for number, copy in enumerate(replica_copies):\n",
        "test_train_workers.py",
        (
            "On several processes every process draws the same dropout masks, so that its slice of the "
            "batch is dropped as that of the others."
        ),
    ),
    Mutation(
        "tasks/training/engines/tensorflow/step.py",
        "        norm = tf.sqrt(2.0 * tf.reduce_sum(half_squares)) / scale\n",
        "        norm = tf.sqrt(2.0 * tf.reduce_sum(half_squares))\n",
        "test_train_losses.py test_train_options.py",
        (
            "float16 with clip_norm clips by the norm of the scaled gradient, thousands of times too much, "
            "and the curve of the norm shows the scaled one."
        ),
    ),
    Mutation(
        "tasks/training/engines/tensorflow/weights.py",
        "        a, b = (values(self._average_of.get(id(each), each)) for each in factors)\n",
        "        a, b = (values(each) for each in factors)\n",
        "test_train_init.py",
        ("With train.lora and train.ema the model has the last matrices and not the averages that were evaluated."),
    ),
    Mutation(
        "tasks/training/engines/tensorflow/objectives.py",
        "(1 - share) * weights, share * of_example * self._of_class(other)\n",
        "(1 - share) * weights, share * of_example * self._of_class(label)\n",
        "test_augment.py test_train_losses.py test_train_options.py",
        ("With mixup or cutmix and class weights the other label counts with the weight of the first label's class."),
    ),
    Mutation(
        "tasks/training/engines/tensorflow/objectives.py",
        "batch[SCORED][:, 1:] > 0",
        "batch[SCORED][:, :-1] > 0",
        "test_snapshot_packing.py test_train_objectives.py",
        (
            "With snapshot.prompt the loss counts shifted by one token: the first token of an answer is not "
            "learned, and what follows its end is."
        ),
    ),
    Mutation(
        "tasks/training/engines/tensorflow/strategies/horovod_rendezvous.py",
        "    deadline = time.monotonic() + patience\n",
        "    deadline = time.time() + patience\n",
        "test_deadlines_fire.py",
        "A Horovod worker whose first host never starts waits for ever instead of failing after 60 s.",
    ),
    Mutation(
        "tasks/training/strategies.py",
        (
            "        if threading.current_thread() is threading.main_thread():\n"
            "            signal.signal(signal.SIGTERM, handler)  # TensorFlow has installed a handler of its "
            "own, for preemptions\n"
        ),
        "",
        "test_train_workers.py",
        (
            "SIGTERM to a multi_worker training goes to TensorFlow's handler: the training is not saved and "
            "stopped with exit code 75."
        ),
    ),
    Mutation(
        "tasks/training/engines/tensorflow/strategies/__init__.py",
        "                step.optimizer.learning_rate.assign(rates[k])\n",
        "                step.optimizer.learning_rate.assign(rates[0])\n",
        "test_train_options.py test_train_optimizers.py",
        (
            "All steps of a call have the learning rate of the first, so that weights depend on how fast "
            "the machine is (on the length of calls)."
        ),
    ),
    Mutation(
        "tasks/search/monitor.py",
        '        if self.config.select == "last" or self.score is None or loss < self.loss:\n',
        "        if self.score is None or loss < self.loss:\n",
        "test_tune_choices.py",
        (
            "With select: last a trial gets the score of its best evaluation and not of the weights that it "
            "keeps, so that the wrong trial wins."
        ),
    ),
    Mutation(
        "tasks/search/table.py",
        "(sign * pair[0], pair[1].number))",
        "(sign * pair[0], -pair[1].number))",
        "test_tune_choices.py",
        "Of trials with equal scores the last one wins instead of the first.",
    ),
    Mutation(
        "tasks/search/choosing.py",
        "        return MedianPruner(n_startup_trials=self.startup, n_warmup_steps=self.warmup)\n",
        "        return MedianPruner(n_warmup_steps=self.warmup)\n",
        "test_tune_choices.py",
        (
            "tune.pruner.startup other than 5 (the library's default) is ignored: trials are ended earlier "
            "or later than set."
        ),
    ),
    Mutation(
        "tasks/search/choosing.py",
        "                constant_liar=True,\n",
        "                constant_liar=False,\n",
        "test_tune_choices.py",
        ("With tune.parallel above 1 trials that run at the same time do not keep away from each other's values."),
    ),
    Mutation(
        "tasks/training/checkpoints.py",
        "            meter.ended = False\n",
        "            pass\n",
        "test_train_checkpoints.py::test_a_training_from_a_base_goes_on_although_the_base_ended_early",
        (
            "A training that continues a model which early stopping had ended ends at once, with the old"
            " weights, although it has no early stopping."
        ),
    ),
    Mutation(
        "tasks/training/checkpoints.py",
        "loss = meter.validation_losses.get(step, math.nan)",
        "loss = [math.nan, *meter.validation_losses.values()][-1]",
        "test_train_checkpoints.py::test_a_checkpoint_has_the_loss_of_an_evaluation_at_its_own_step",
        (
            "checkpoint.keep_best keeps a checkpoint some steps after the best evaluation instead of the"
            " state that was evaluated."
        ),
    ),
    Mutation(
        "tasks/training/checkpoints.py",
        "                best, weights = self.best.copy()\n            entries",
        "            entries",
        "test_train_checkpoints.py::test_a_checkpoint_waits_for_the_scores_of_another_process_and_has_them",
        (
            "With a sidecar a checkpoint lacks the best weights of the evaluation at its step, so that a"
            " resumed training publishes others."
        ),
    ),
    Mutation(
        "tasks/training/checkpoints.py",
        "            if (content := self._whole(anchors.pop(step))) is not None:\n",
        "            if (content := (self.staging.root / anchors.pop(step)).read_bytes()) is not None:\n",
        "test_train_checkpoints.py::test_a_rollback_passes_over_what_it_has_gone_back_to_and_what_is_damaged",
        (
            "A rollback to a damaged checkpoint ends the training with an error of numpy instead of going to"
            " the one before it."
        ),
    ),
    Mutation(
        "tasks/training/checkpoints.py",
        "        state, layouts = engine.state(), [dict(layout) for layout in self.layouts]",
        "        state, layouts = engine.state(), self.layouts",
        "test_train_checkpoints.py::test_a_copy_of_the_state_is_written_and_not_what_comes_later",
        "A checkpoint that is written while the training goes on has the layouts of later steps.",
    ),
    Mutation(
        "tasks/training/ledger.py",
        "        if start % SPAN == 0:\n",
        "        if not self.lines:\n",
        "test_train_ledger.py::test_a_line_ends_at_a_multiple_of_the_span_and_counts_add_up",
        (
            "The ledger of a training of more than 1,000 steps is one line: a wrong batch is placed nowhere,"
            " and a stopped training has other bytes."
        ),
    ),
    Mutation(
        "tasks/training/ledger.py",
        "until = min(stop, start - start % SPAN + SPAN)",
        "until = stop",
        "test_train_ledger.py::test_skipped_steps_are_cut_at_the_ends_of_spans",
        (
            "A rollback over a multiple of 1,000 steps makes a line of the ledger too long, so that the proof"
            " counts examples twice."
        ),
    ),
    Mutation(
        "tasks/training/ledger.py",
        "        return [dict(line) for line in self.lines]",
        "        return self.lines",
        "test_train_ledger.py::test_the_state_of_a_ledger_is_a_copy_both_ways",
        (
            "A checkpoint written while the training goes on has rows of later steps in its ledger: resumed,"
            " they are counted twice."
        ),
    ),
    Mutation(
        "tasks/training/ledger.py",
        ' or number != line["count"]',
        "",
        "test_train_ledger.py::test_a_line_with_another_number_or_hash_is_wrong",
        "A ledger whose number of examples is wrong is called proven.",
    ),
    Mutation(
        "tasks/training/meter.py",
        "step <= spike.step and",
        "step < spike.step and",
        "test_train_checkpoints.py::test_a_checkpoint_of_the_step_that_spikes_is_before_it",
        "A spike at the step right after a checkpoint goes back past it, and skips more examples than it must.",
    ),
    Mutation(
        "tasks/training/meter.py",
        "                self.seconds += call.seconds\n",
        "",
        "test_train_curves.py::test_spikes_remember_a_window_across_calls_and_a_stop",
        "The time of the call that spiked is in no part of the goodput but `other`.",
    ),
    Mutation(
        "tasks/training/meter.py",
        '        self.skipped, self.skipped_last = state["skipped"], state["skipped_last"]\n',
        '        self.skipped = state["skipped"]\n',
        "test_train_curves.py::test_skipped_updates_in_a_row_end_where_one_is_not_skipped",
        (
            "float16: after a stop the skipped updates in a row are counted anew, so that a training that is"
            " stopped often never ends with the error."
        ),
    ),
    Mutation(
        "tasks/training/feeding.py",
        "Augmenter(augment, snapshot.features, arrays, seed) if",
        "Augmenter(augment, snapshot.features, arrays, 0) if",
        "test_train_feed.py::test_examples_are_augmented_by_seed_epoch_and_row",
        "Trainings with different seeds get the same random augmentations.",
    ),
    Mutation(
        "tasks/training/feeding.py",
        "self._augment(batch, self._reader.epochs_of(start, stop))",
        "self._augment(batch, self._reader.epochs_of(0, stop - start))",
        "test_train_feed.py::test_examples_are_augmented_by_seed_epoch_and_row",
        (
            "Every call draws the augmentations of the first epoch: all epochs show the same crops, and a"
            " resumed training others."
        ),
    ),
    Mutation(
        "tasks/training/feeding.py",
        "        if isinstance(gathered, BaseException):\n            raise gathered\n",
        "",
        "test_train_feed.py::test_an_error_of_reading_comes_to_the_one_who_takes_and_not_before",
        "An error of reading examples (a broken disk) becomes a strange TypeError instead of the error itself.",
    ),
    Mutation(
        "tasks/training/feeding.py",
        "        self.waited += time.perf_counter() - started\n",
        "",
        "test_train_feed.py::test_the_time_of_waiting_for_input_is_counted",
        "The share of time that a training waits for its input is always 0.",
    ),
    Mutation(
        "tasks/training/actions.py",
        "first = step - last.steps + int(np.argmin(last.finite))",
        "first = step - last.steps",
        "test_train_curves.py::test_the_first_step_that_is_not_finite_is_named_with_its_examples",
        "The error of a loss that is not finite names another step and its examples.",
    ),
    Mutation(
        "tasks/training/actions.py",
        "float(max(meter.staleness))",
        "float(np.mean(meter.staleness))",
        "test_train_curves.py::test_a_point_of_asynchronous_steps_has_their_staleness",
        "The curve of the largest staleness shows the mean.",
    ),
    Mutation(
        "tasks/training/actions.py",
        "        if meter.skipped_last > MOST_SKIPPED:",
        "        if meter.skipped > MOST_SKIPPED:",
        "test_train_curves.py::test_skipped_updates_in_a_row_end_where_one_is_not_skipped",
        "A long float16 training ends with an error after 50 skipped updates in all, which are normal.",
    ),
    Mutation(
        "tasks/records/conversion.py",
        "int(budget * read)",
        "round(budget * read)",
        "test_convert_parts.py::test_a_budget_is_a_number_or_a_share_of_what_was_read_rounded_down",
        "A share as bad budget lets one bad example more pass than it says.",
    ),
    Mutation(
        "tasks/records/conversion.py",
        "            found = in_order(set().union(*(note.classes.get(name, {}) for note in notes)))\n",
        "            found = list(dict.fromkeys(each for note in notes for each in note.classes.get(name, {})))\n",
        "test_convert_parts.py::test_classes_of_the_data_are_sorted_whatever_the_order_of_pieces_and_bounded",
        "The numbers of classes depend on which piece of the source has a class first.",
    ),
    Mutation(
        "tasks/records/conversion.py",
        "(count := len(named[name].classes or ())) > MAX_CLASSES:",
        "(count := len(named[name].classes or ())) > 10 * MAX_CLASSES:",
        "test_convert_parts.py::test_classes_of_the_data_are_sorted_whatever_the_order_of_pieces_and_bounded",
        "A label with too many classes (a name of each row) is not refused.",
    ),
    Mutation(
        "tasks/records/merging.py",
        "canonical([sums, copies, schema])",
        "canonical([sums, copies])",
        "test_convert_parts.py::test_a_shard_is_written_anew_where_rows_drops_or_features_are_others",
        "After a kill shards are used that were written with other classes.",
    ),
    Mutation(
        "tasks/records/merging.py",
        "        if high == SPACE:\n            return start, int(ends[split + 1])\n",
        "        if high == SPACE:\n            high -= 1\n",
        "test_convert_parts.py::test_rows_of_a_run_are_found_by_split_and_place_at_both_ends",
        "An example whose place is the highest number is in no shard.",
    ),
    Mutation(
        "tasks/records/duplicates.py",
        "for index in equal(table, CONTENT)]",
        "for index in equal(table, CONTENT[:1])]",
        "test_convert_parts.py::test_copies_are_those_whose_whole_content_is_the_same_wherever_they_are",
        "Two examples of which half of the content hash is equal count as copies.",
    ),
    Mutation(
        "tasks/records/duplicates.py",
        "if len(set(keys)) < len(keys):",
        "if len(set(keys)) == 1:",
        "test_convert_parts.py::test_a_key_is_twice_where_two_rows_of_a_place_have_it",
        "A key that occurs twice beside another of the same hash is not refused.",
    ),
    Mutation(
        "tasks/records/duplicates.py",
        "(part + 1) * SPACE // number - 1)",
        "(part + 1) * SPACE // number - 2)",
        "test_convert_parts.py::test_every_row_is_in_one_part_of_the_hash_space",
        "With more than a million rows a content at the border of two parts of the hash space is compared with none.",
    ),
    Mutation(
        "tasks/records/merging.py",
        "np.lexsort((np.asarray(table[PLACE]), splits))",
        'np.argsort(splits, kind="stable")',
        "test_convert_parts.py::test_rows_that_move_keep_their_order_in_their_new_split",
        (
            "Examples that near_duplicates.handling: group moves stand in no order in their new split, so"
            " that shards miss some."
        ),
    ),
    Mutation(
        "tasks/records/merging.py",
        'done.pop("plan") == plan',
        'done.pop("plan")',
        "test_convert_parts.py::test_rows_that_move_keep_their_order_in_their_new_split",
        "After a kill moved examples of another plan are used.",
    ),
    Mutation(
        "tasks/training/group.py",
        "    return Agreed(count, sum_of_hashes % 2**64, ranks)",
        "    return Agreed(count, sum_of_hashes, ranks)",
        "test_train_group.py::test_processes_agree_on_all_rows_and_on_the_times_of_each",
        "Half of the lines of a distributed training's ledger have a negative hash.",
    ),
    Mutation(
        "tasks/training/fit.py",
        "    meter.clear()  # sums since",
        "    # sums since",
        "test_train_ends_and_continues.py::test_the_curves_decide_no_byte_of_a_model_that_ended_early",
        "log_every, which is in no digest, decides bytes of a model that ended early.",
    ),
    Mutation(
        "tasks/training/fit.py",
        "config.checkpoint.every, SPAN)",
        "config.checkpoint.every)",
        "test_train_ends_and_continues.py::test_a_training_pauses_at_the_ends_of_the_ledgers_spans",
        (
            "Where no other interval divides 1,000, a call of several steps crosses the end of a line of the"
            " ledger, whose bytes then depend on the speed of the machine."
        ),
    ),
    Mutation(
        "tasks/training/seeds.py",
        '"steps": max(steps)}',
        '"steps": min(steps)}',
        "test_train_seeds.py::test_the_average_is_taken_where_it_is_better",
        "An average of seeds says the steps of the shortest training.",
    ),
    Mutation(
        "tasks/training/starting.py",
        '    if base.manifest["parents"]["snapshot"] != examples.digest:',
        "    if False:",
        "test_train_ends_and_continues.py::test_a_training_goes_on_with_the_snapshot_that_it_began_with",
        "train.continue_from goes on with another snapshot, so that the model is that of no one training.",
    ),
    Mutation(
        "tasks/sources/files.py",
        "                if max(stat_key[1], stat_key[2]) < time",
        "                if stat_key[1] < time",
        "test_source_parts.py::test_the_hash_of_a_settled_file_alone_is_kept",
        "A file copied with its old time and written again within a tenth of a second keeps its old hash.",
    ),
    Mutation(
        "tasks/records/sorting.py",
        "places(keys, self._config.split_seed)",
        "places(keys, 0)",
        "test_convert_parts.py::test_a_run_has_the_rows_and_classes_of_all_its_batches_by_place",
        "records.split_seed does not change the order within a split.",
    ),
    Mutation(
        "tasks/records/sorting.py",
        "dict(sorted((Counter(spill.classes.get(name, {})) + counts).items()))",
        "dict(sorted(counts.items()))",
        "test_convert_parts.py::test_a_run_has_the_rows_and_classes_of_all_its_batches_by_place",
        "Classes that occur in the first batches of a piece alone are unknown, and their rows get no number.",
    ),
    Mutation(
        "tasks/training/loop.py",
        "if self.calls > 1:",
        "if self.calls > 0:",
        "test_train_feed.py::test_two_calls_have_one_step_as_the_first_compiles_and_the_second_is_measured",
        "The length of the second call is that of the first one's time, so that a signal may wait for long.",
    ),
    Mutation(
        "tasks/snapshots/transforms/numbers.py",
        "np.broadcast_to(np.float32(self._fill()), self.feature.shape)",
        "np.broadcast_to(self._fill(), self.feature.shape)",
        "test_transform_parts.py::test_a_fill_is_a_number_of_float32_as_the_columns_are",
        (
            "A missing number is filled with another one in the snapshot than in the moments by which the"
            " model standardises it."
        ),
    ),
    Mutation(
        "tasks/training/starting.py",
        "if own.get(name) is not None and own[name] != base_config.get(name):",
        "if own.get(name) is not None and base_config.get(name) is None:",
        "test_train_ends_and_continues.py::test_what_would_not_be_a_longer_training_is_refused_with_the_reason",
        (
            "train.continue_from with another early stopping is accepted, though the evaluations before count"
            " by the old one."
        ),
    ),
    Mutation(
        "tasks/evaluation/tasks/classification.py",
        "    total: Floats = f1.sum(axis=-1) / np.maximum((both > 0).sum(axis=-1), 1)\n",
        "    total: Floats = f1.mean(axis=-1)\n",
        "test_evaluate_fine_print.py::test_macro_f1_is_of_the_classes_that_occur_or_are_predicted",
        "Macro F1 of a test split without some class counts that class as 0.",
    ),
    Mutation(
        "tasks/evaluation/columns.py",
        "key=lambda row: (-row[1], str(row[0])))[:most]",
        "key=lambda row: str(row[0]))[:most]",
        (
            "test_evaluate_fine_print.py::test_slices_of_a_column_are_its_most_frequent_values_and_one_missing_value_is_a_slice"
        ),
        "Of a column with many values the slices are the first by name, and the most frequent ones are left out.",
    ),
    Mutation(
        "tasks/evaluation/columns.py",
        "    if column.null_count():\n",
        "    if column.null_count() > 1:\n",
        (
            "test_evaluate_fine_print.py::test_slices_of_a_column_are_its_most_frequent_values_and_one_missing_value_is_a_slice"
        ),
        "An example whose value is missing is in no slice of its column.",
    ),
    Mutation(
        "tasks/evaluation/columns.py",
        'LEFT_OUT = (*PREDICTED, "weight", "key", "split")',
        'LEFT_OUT = ("label", "weight", "key", "split")',
        "test_evaluate_fine_print.py::test_the_truth_makes_no_condition_of_the_worst_slices",
        "The worst slices of a regression are conditions on its own target.",
    ),
    Mutation(
        "tasks/evaluation/decisions.py",
        "decisions = judge.binary(Decision(scaling).apply(predictions))",
        "decisions = judge.binary(predictions)",
        "test_evaluate_fine_print.py::test_a_threshold_is_chosen_on_and_applied_to_calibrated_probabilities",
        "With calibrate and threshold the threshold is chosen on other probabilities than the export has.",
    ),
    Mutation(
        "tasks/evaluation/decisions.py",
        "decisions = judge.binary(decision.apply(predictions))\n        fields",
        "decisions = judge.binary(predictions)\n        fields",
        "test_evaluate_fine_print.py::test_a_threshold_is_chosen_on_and_applied_to_calibrated_probabilities",
        "The report's figures at a threshold are those of other decisions than the export's.",
    ),
    Mutation(
        "tasks/evaluation/tasks/tagging.py",
        "np.asarray((stops[place] == predicted.stop) & (types[place] == predicted.type))",
        "np.asarray(stops[place] == predicted.stop)",
        "test_evaluate_fine_print.py::test_an_entity_of_another_type_or_end_is_not_found",
        "A person that is tagged as a place counts as found: entity F1 is too high.",
    ),
    Mutation(
        "tasks/evaluation/fairness.py",
        "group.sum() >= MIN_EXAMPLES and not group.all()",
        "group.sum() > MIN_EXAMPLES and not group.all()",
        (
            "test_evaluate_fine_print.py::test_groups_are_compared_among_those_of_a_rate_alone_and_corrected_for_each_other"
        ),
        "A group of exactly 20 examples is not compared.",
    ),
    Mutation(
        "tasks/evaluation/fairness.py",
        '"false_positive_rate": Rate(yes, ~truth)',
        '"false_positive_rate": Rate(yes, everyone)',
        "test_evaluate_fine_print.py::test_rates_are_among_those_that_they_are_rates_of",
        "The false positive rate of a group is its selection rate.",
    ),
    Mutation(
        "tasks/evaluation/fairness.py",
        "holm(np.array(list(found.values()))).tolist()",
        "list(found.values())",
        (
            "test_evaluate_fine_print.py::test_groups_are_compared_among_those_of_a_rate_alone_and_corrected_for_each_other"
        ),
        "Of many groups some are called unfair by chance.",
    ),
    Mutation(
        "tasks/evaluation/fairness.py",
        "return max(values) - min(values) if values else None",
        "return max(values) - values[0] if values else None",
        (
            "test_evaluate_fine_print.py::test_groups_are_compared_among_those_of_a_rate_alone_and_corrected_for_each_other"
        ),
        "The largest difference between groups is too small.",
    ),
    Mutation(
        "tasks/evaluation/fairness.py",
        "if np.ptp(values) == 0:",
        "if np.ptp(values) < 0:",
        "test_evaluate_fine_print.py::test_a_group_whose_values_are_all_equal_has_no_test",
        "A group whose values are all equal has a test of no difference, which counts among the comparisons.",
    ),
    Mutation(
        "tasks/evaluation/multiple_testing.py",
        "ahead = np.maximum.accumulate(sides[::-1], axis=0)[::-1]",
        "ahead = sides",
        "test_evaluate_worst_slices.py",
        "Each slice is tested as if it were the only one: of hundreds some are called worse beyond chance.",
    ),
    Mutation(
        "tasks/evaluation/multiple_testing.py",
        "(random.permutation(sums) / sizes)[unit]",
        "(sums / sizes)[unit]",
        "test_evaluate_worst_slices.py",
        "Units that differ from each other are evidence against whatever slice has the worse ones.",
    ),
    Mutation(
        "tasks/evaluation/multiple_testing.py",
        "within[np.argsort(unit + random.random(len(unit)))]",
        "within",
        "test_evaluate_worst_slices.py",
        "A slice that divides units has no test of what differs within them.",
    ),
    Mutation(
        "tasks/evaluation/worst_slices.py",
        "    if units is None:\n",
        "    if units is not None or units is None:\n",
        "test_evaluate_worst_slices.py",
        "Rows of the same unit count as evidence of their own: a slice of a few bad units is called beyond chance.",
    ),
    Mutation(
        "tasks/evaluation/tasks/ranking.py",
        "relevant, before + irrelevant + 1, in_time",
        "relevant, before + 1, in_time",
        "test_evaluate_ranking.py",
        "Equal scores count as the best order: a model that scores all documents alike has an mrr of 1.",
    ),
    Mutation(
        "tasks/evaluation/baselines/comparing.py",
        "return self.more_than_noise and (self.difference.value > 0) == higher_is_better",
        "return (self.difference.value > 0) == higher_is_better",
        "test_promote_edges.py::test_a_model_must_be_better_than_each_baseline_and_not_as_good",
        "A model with an accuracy of 0.801 counts as better than the most frequent class with 0.800.",
    ),
    Mutation(
        "tasks/evaluation/baselines/comparing.py",
        'if which == LEARNED and (row := test["learned_baseline"]) is not None:',
        'if which == CONSTANT and (row := test["learned_baseline"]) is not None:',
        "test_evaluate_baselines.py::test_what_is_asked_of_a_version_is_what_the_setting_says",
        "With promote.baseline: learned a model that is worse than a simple one becomes champion.",
    ),
    Mutation(
        "tasks/evaluation/baselines/simple_model.py",
        "return estimator.fit(values, truth, sample_weight=weights)",
        "return estimator.fit(values, truth)",
        "test_evaluate_baselines.py::test_train_examples_count_with_their_weights",
        "The learned baseline ignores the weights of the examples that the model was trained with, and seems too weak.",
    ),
    Mutation(
        "tasks/evaluation/gates.py",
        "if unbeaten := [each for each in baselines if not each.better(higher_is_better)]:",
        "if unbeaten := [each for each in baselines if each.value == score]:",
        "test_promote_edges.py::test_a_model_must_be_better_than_each_baseline_and_not_as_good",
        "A model that always answers the most frequent class becomes champion.",
    ),
    Mutation(
        "tasks/evaluation/gates.py",
        "passed = promotion.passed and all(verdict.passed for verdict in verdicts)",
        "passed = promotion.passed and all(verdict.verdict != FAIL for verdict in verdicts)",
        "test_promote_edges.py::test_an_open_gate_lets_no_version_pass",
        "A version becomes champion of which promote.gates could not show that it passes.",
    ),
    Mutation(
        "tasks/evaluation/gating.py",
        "self.max_ratio is None and subject.limits.get(GZIP, 1.0) < 1:",
        "subject.limits.get(GZIP, 1.0) < 1:",
        "test_promote_edges.py::test_the_size_after_gzip_is_judged_beside_the_default_size_alone",
        "A size gate with max_ratio rejects a pruned variant by a limit after gzip that nobody set.",
    ),
    Mutation(
        "tasks/evaluation/gating.py",
        "key=lambda test: (test.lower > test.limit, test.p_value)",
        "key=lambda test: test.p_value",
        "test_promote_edges.py::test_a_slice_that_is_shown_to_fail_is_named_before_one_that_shows_less",
        "A variant that breaks on a large slice is undecided, and kept, because of a small one.",
    ),
    Mutation(
        "tasks/store/store.py",
        '        if stat_keys[name][0] != row["bytes"]:\n',
        '        if stat_keys[name][0] < row["bytes"]:\n',
        "test_store_fine_print.py::test_a_file_that_has_grown_is_damaged_by_its_size_alone",
        "A file that something was appended to is named by its hash alone, after all of it was read.",
    ),
    Mutation(
        "tasks/store/store.py",
        'digest_of(manifest["inputs"]) != digest or ',
        "",
        "test_store_fine_print.py::test_a_manifest_of_other_inputs_or_of_another_kind_is_not_this_artifact",
        "A fetched copy whose manifest has other inputs is published under this digest.",
    ),
    Mutation(
        "tasks/store/store.py",
        'if manifest["digest"] != digest or manifest["kind"] != kind:',
        'if manifest["digest"] != digest:',
        "test_store_fine_print.py::test_a_manifest_of_other_inputs_or_of_another_kind_is_not_this_artifact",
        "A folder of another kind is taken for this artifact.",
    ),
    Mutation(
        "tasks/store/files.py",
        "        os.replace(partial, path)\n        sync(path.parent)\n",
        "        os.replace(partial, path)\n",
        "test_store_fine_print.py::test_a_rename_is_on_the_disk_when_a_write_returns",
        "After a power cut a piece, run.json or the begun change of the registry is the old one again.",
    ),
    Mutation(
        "tasks/store/files.py",
        'f"{path.name}.{uuid4().hex[:12]}{PARTIAL}"',
        'f"{path.name}{PARTIAL}"',
        "test_store_fine_print.py::test_two_processes_that_write_a_file_write_two_drafts",
        "Two processes that write one file at a time publish a mixture.",
    ),
    Mutation(
        "tasks/store/files.py",
        "        crc = google_crc32c.extend(crc, chunk)",
        "        crc = google_crc32c.value(chunk)",
        "test_store_fine_print.py::test_checksums_are_of_the_whole_file_and_not_of_its_last_part",
        "The CRC of a file of more than 4 MiB in a manifest is that of its last part.",
    ),
    Mutation(
        "tasks/store/lock.py",
        " and watch.look() > 0:",
        ":",
        "test_store_fine_print.py::test_a_holder_that_has_gone_on_is_not_killed",
        "A run that continued just now is killed by one that had found it silent.",
    ),
    Mutation(
        "tasks/exporting/raw_rows.py",
        'named = 1 if form["header"] is None else 0',
        "named = 0",
        "test_export_parts.py::test_a_csv_row_of_another_length_is_named_and_the_delimiter_is_that_with_all_columns",
        "`millrace predict` names the line above the one that has too few cells (found by the test in the product).",
    ),
    Mutation(
        "tasks/feed/snapshot_reader.py",
        "lengths=lambda: self.lengths(split)",
        'lengths=lambda: self.lengths("train")',
        "test_snapshot_parts.py",
        "Batches of validation by length are made of the lengths of train: padding, or an index that is not there.",
    ),
    Mutation(
        "tasks/records/profile.py",
        "association(of_splits[TRAIN], values[predicted[0]][TRAIN])",
        "association(of_splits[TRAIN][::-1], values[predicted[0]][TRAIN])",
        "test_convert_profile.py",
        "The association of a column with what is predicted is that of other rows.",
    ),
    Mutation(
        "tasks/records/profile.py",
        "smaller = min(k - (k - 1) ** 2 / (n - 1), r - (r - 1) ** 2 / (n - 1)) - 1",
        "smaller = max(k - (k - 1) ** 2 / (n - 1), r - (r - 1) ** 2 / (n - 1)) - 1",
        "test_convert_profile.py",
        "A column of many values that tells a class exactly is not suspicious.",
    ),
    Mutation(
        "tasks/records/profile.py",
        'kinds = ("number", "category", "label", "text", "time")',
        'kinds = ("number", "category", "label", "text")',
        "test_convert_profile.py",
        "Times are not in the profile.",
    ),
    Mutation(
        "tasks/records/profile.py",
        "for name in of_role(shown, role)]",
        'for name in of_role(shown, "label")]',
        "test_convert_profile.py",
        "Of a regression no association is shown, and no leak is suspected.",
    ),
    Mutation(
        "tasks/records/profile.py",
        'result.pvalue < SURE / comparisons:\n            return f"Kol',
        'result.pvalue < SURE:\n            return f"Kol',
        "test_convert_profile.py",
        "Of many columns some differ between train and test by chance, and are named.",
    ),
    Mutation(
        "tasks/records/near/search.py",
        "near.dropped.setdefault(row.spill, np.zeros(spills.rows(row.spill), bool))[row.number]",
        "near.dropped.setdefault(others[0].spill, np.zeros(spills.rows(others[0].spill), bool))[row.number]",
        "test_convert_parts.py",
        "Of several runs other rows than the near-duplicates are dropped.",
    ),
    Mutation(
        "tasks/records/near/search.py",
        "signatures, spill, row, values = signatures[order], spill[order], row[order], values[order]",
        "signatures, row, values = signatures[order], row[order], values[order]",
        "test_convert_near_duplicates.py::test_texts_of_a_bucket_in_order_of_signature_are_read_in_their_own_runs",
        "Texts of a large bucket are compared with those of another run, and near-duplicates stay.",
    ),
    Mutation(
        "tasks/sources/archives.py",
        '".tbz2", ".tar.xz"',
        '".tar.xz"',
        "test_source_names.py",
        "A .tbz2 file is said to be no folder, not how to read it.",
    ),
    Mutation(
        "tasks/sources/archives.py",
        '".txz", ".7z", ".rar")',
        '".txz", ".7z")',
        "test_source_names.py",
        "A .rar file is said to be no folder, not how to read it.",
    ),
    Mutation(
        "tasks/sources/archives.py",
        ' and cached.get("folder") == self._folder',
        "",
        "test_source_archives.py::test_what_is_remembered_of_one_folder_of_an_archive_is_not_that_of_another",
        "Of another folder of an archive the hashes of the first are taken: records are not made anew.",
    ),
    Mutation(
        "tasks/sources/webdataset.py",
        'lambda row: f"{path} {shown[good[row]]}"',
        'lambda row: f"{path} {shown[row]}"',
        "test_source_webdataset.py",
        "After a bad sample the places of rows are those of others.",
    ),
    Mutation(
        "tasks/sources/tfrecord.py",
        "read = frames(partial(whole, file), path, begin)",
        "read = frames(partial(whole, file), path)",
        "test_source_tfrecord.py",
        "Damage in a later range of a file is named by a wrong byte.",
    ),
    Mutation(
        "tasks/sources/csv.py",
        "escapechar=escape or None, **quoting",
        "**quoting",
        "test_source_csv.py",
        "A header with an escaped delimiter is refused.",
    ),
    Mutation(
        "tasks/sources/__init__.py",
        "sorted(bad, key=lambda row: row.key)[:MAX_NAMED]",
        "bad[:MAX_NAMED]",
        "test_source_parts.py",
        "Which bad rows are named depends on the order of pieces.",
    ),
    Mutation(
        "tasks/sources/files.py",
        "stop - start == most_files",
        "stop == most_files",
        "test_source_parts.py",
        "Only the first piece of a folder has at most so many files.",
    ),
    Mutation(
        "tasks/sources/folders.py",
        "zip(self._paths[start:stop], self._listed[start:stop], strict=True)",
        "zip(self._paths[start:stop], self._listed[: stop - start], strict=True)",
        "test_source_parts.py",
        "A folder of more files than a piece has cannot be read.",
    ),
    Mutation(
        "tasks/sources/folders.py",
        "paths.__getitem__, splits, hashes_of(read))",
        "self._paths.__getitem__, splits, hashes_of(read))",
        "test_source_parts.py",
        "A bad image of a later piece is named as another file.",
    ),
    Mutation(
        "tasks/sources/kinds/columns.py",
        "SHAPES.get(kind, ())",
        "()",
        "test_source_parts.py",
        "Images and lists have the shape of a scalar in the manifest.",
    ),
    Mutation(
        "tasks/sources/values.py",
        'bad[row], lists[-1] = "half of a surrogate pair", None',
        'bad[row] = "half of a surrogate pair"',
        "test_source_parts.py",
        "A list with half a character ends the run instead of being a bad row.",
    ),
    Mutation(
        "tasks/records/merging.py",
        "filled = [note.splits for note in self.notes if note.rows]",
        "filled = [note.splits for note in self.notes[:1] if note.rows]",
        "test_convert_parts.py",
        "Counts of splits are those of the first run: a sample too large, a split said to be empty.",
    ),
    Mutation(
        "tasks/snapshots/fitting.py",
        "        row += table.num_rows\n",
        "",
        "test_transform_fitting.py",
        "Samples of which medians, quantiles and tokenizers are made depend on the size of batches, and hold few rows.",
    ),
    Mutation(
        "tasks/snapshots/transforms/numbers.py",
        "self.sample.add(values, rows)",
        "self.sample.add(values, np.arange(len(values)))",
        "test_transform_fitting.py",
        "Medians and quantiles are those of the first rows of each batch.",
    ),
    Mutation(
        "tasks/snapshots/transforms/texts.py",
        "self.chosen(config.min_count, config.vocabulary)",
        "self.chosen(1, config.vocabulary)",
        "test_transform_fitting.py",
        "min_count of words has no effect.",
    ),
    Mutation(
        "tasks/snapshots/transforms/texts.py",
        '"vocabulary": size, "padding": PADDING, "unknown"',
        '"vocabulary": len(kept), "padding": PADDING, "unknown"',
        "test_transform_fitting.py",
        "The embedding of words lacks two rows.",
    ),
    Mutation(
        "tasks/snapshots/transforms/numbers.py",
        "self._sample.add(values, rows)",
        "self._sample.add(values, rows * 0)",
        "test_transform_fitting.py",
        "Buckets are at quantiles of an arbitrary part of the rows.",
    ),
    Mutation(
        "tasks/snapshots/transforms/times.py",
        "value if name in self._parts else as_it_is",
        "value if name in self._parts[:1] else as_it_is",
        "test_transform_fitting.py",
        "All parts of a time but the first are not standardised.",
    ),
    Mutation(
        "tasks/snapshots/transforms/statistics.py",
        "text[: self._size]))",
        "text))",
        "test_transform_fitting.py",
        "One long text is taken whole into the sample of a tokenizer.",
    ),
    Mutation(
        "tasks/feed/augmentations.py",
        "tops = draws.integers(3,",
        "tops = draws.integers(2,",
        "test_augment.py",
        "Crops are along a diagonal: far left is far up.",
    ),
    Mutation(
        "tasks/feed/augmentations.py",
        "widths = np.clip(np.rint(width * np.sqrt(areas * ratios)), 1, width)",
        "widths = np.clip(np.rint(height * np.sqrt(areas * ratios)), 1, width)",
        "test_augment.py",
        "Crops of images that are not square have another area and ratio.",
    ),
    Mutation(
        "tasks/feed/augmentations.py",
        "factors(2, self.saturation)",
        "factors(1, self.saturation)",
        "test_augment.py",
        "Contrast and saturation rise and fall together.",
    ),
    Mutation(
        "tasks/feed/augmentations.py",
        "pixels = values.shape[1] * values.shape[2]",
        "pixels = values.shape[1] * values.shape[1]",
        "test_augment.py",
        "Contrast makes images that are not square darker or lighter.",
    ),
    Mutation(
        "tasks/feed/augmenter.py",
        "return Draws(self._seed, step.place, epochs, rows)",
        "return Draws(self._seed, 0, epochs, rows)",
        "test_augment.py",
        "Augmentations of a kind, and all of a list, draw the same numbers.",
    ),
    Mutation(
        "tasks/training/seeds.py",
        "(sums[path] / len(trained)).astype",
        "(sums[path] / 2).astype",
        "test_train_seeds.py::test_an_average_has_statistics_of_batches_averaged_and_counters_of_the_first",
        "The average of three seeds is one and a half times the mean.",
    ),
    Mutation(
        "tasks/training/speed.py",
        "            self.since, self.since_steps = [], 0\n",
        "            self.since_steps = 0\n",
        "test_train_group.py",
        "Times of a window of steps are those since the beginning: every process becomes slow.",
    ),
    Mutation(
        "tasks/training/ledger.py",
        'for line in lines for start, stop in line.get("skipped", ())]',
        'for line in lines[:1] for start, stop in line.get("skipped", ())]',
        "test_train_ledger.py",
        "Of a long training only the first thousand steps' rollbacks are named in the proof.",
    ),
    Mutation(
        "tasks/training/loop.py",
        "any(engine.group.totals([stopping()]))",
        "stopping()",
        "test_train_loop.py",
        "A signal to one process of several leaves the others waiting for ever.",
    ),
    Mutation(
        "tasks/training/engines/parameter_server.py",
        '"worker": addresses[1:first_server]',
        '"worker": addresses[1 : first_server - 1]',
        "test_train_group.py",
        "A worker of a training by servers has no place.",
    ),
    Mutation(
        "tasks/models/layers/attention.py",
        "normal(width**-0.5, name, seed)",
        "normal(width**-0.5, name, 0)",
        "test_model_parts.py",
        "Kernels of transformers begin alike whatever the seed.",
    ),
    Mutation(
        "tasks/models/layers/attention.py",
        "k, v = (ops.repeat(each, config.heads // shared, axis=1) for each in (k, v))",
        "k, v = (ops.tile(each, (1, config.heads // shared, 1, 1)) for each in (k, v))",
        "test_model_parts.py",
        "Groups of heads share other keys than the weights of known models mean.",
    ),
    Mutation(
        "tasks/models/architectures/encoder.py",
        "rows, columns = feature.shape[0] // side, feature.shape[1] // side",
        "columns, rows = feature.shape[0] // side, feature.shape[1] // side",
        "test_model_parts.py",
        "Patches of an image that is not square have positions of others.",
    ),
    Mutation(
        "tasks/models/layers/__init__.py",
        "HeNormal(layer_seed(seed, name))\n    return keras.layers.Conv1D(",
        "HeNormal(layer_seed(0, name))\n    return keras.layers.Conv1D(",
        "test_model_parts.py",
        "Convolutions over time begin alike whatever the seed.",
    ),
    Mutation(
        "tasks/models/architectures/mlp.py",
        "np.triu(np.ones((count, count)), 1)",
        "np.triu(np.ones((count, count)), 0)",
        "test_model_parts.py",
        "Products of a vector with itself are among the pairs.",
    ),
    Mutation(
        "tasks/models/architectures/convnet.py",
        "filters = self.filters << stage",
        "filters = self.filters * (stage + 1)",
        "test_model_parts.py",
        "The third stage of a residual network has three times the filters, not four.",
    ),
    Mutation(
        "tasks/records/sorting.py",
        "spill.filtered += len(good) - len(kept)",
        "spill.filtered = len(good) - len(kept)",
        "test_convert_parts.py::test_what_is_left_out_of_a_piece_is_that_of_all_its_batches",
        "Counts of filtered rows are those of the last batch of each piece.",
    ),
    Mutation(
        "tasks/records/sorting.py",
        "spill.skipped += len(rows.skipped)",
        "spill.skipped = len(rows.skipped)",
        "test_convert_parts.py::test_what_is_left_out_of_a_piece_is_that_of_all_its_batches",
        "Counts of skipped texts are those of the last batch.",
    ),
    Mutation(
        "tasks/records/sorting.py",
        "quarantine += bad",
        "quarantine = bad",
        "test_convert_parts.py::test_what_is_left_out_of_a_piece_is_that_of_all_its_batches",
        "Bad rows of all batches but the last are lost, and not counted in the budget.",
    ),
    Mutation(
        "tasks/records/sorting.py",
        'HASHED = ("text", "words", "image", "audio")',
        'HASHED = ("text", "image", "audio")',
        "test_convert_parts.py",
        "Lists of words that are in train and in test are not found.",
    ),
    Mutation(
        "tasks/records/sorting.py",
        'HASHED = ("text", "words", "image", "audio")',
        'HASHED = ("text", "words", "image")',
        "test_convert_parts.py",
        "Sounds that are in train and in test, with other values beside, are not found.",
    ),
    Mutation(
        "tasks/records/column_types/media.py",
        "int(frames[rates == rate].sum())",
        "int(frames.sum())",
        "test_convert_parts.py",
        "Seconds of sounds of one rate are those of all.",
    ),
    Mutation(
        "tasks/reader/cast.py",
        "number = int(value.astype(np.int64)) * step",
        "number = int(value.astype(np.int64))",
        "test_transform_casts.py",
        "Times of NumPy in steps of several units are read as earlier ones.",
    ),
    Mutation(
        "tasks/processes/fork_server.py",
        "        os.chdir(folder)\n",
        "        pass\n",
        "test_run_tries_again.py::test_a_process_of_a_shared_fork_server_works_in_the_folder_of_its_command",
        "`millrace predict rows.csv` does not find the file where a shared fork server runs in another folder.",
    ),
    Mutation(
        "tasks/models/architectures/user_models.py",
        "seed_generator.python_random, random.Random(number)",
        "seed_generator.python_random, random",
        "test_model_import.py",
        "Weights of a user's model depend on what other threads draw, so that its training is refused now and then.",
    ),
    Mutation(
        "tasks/sources/sql.py",
        "if not isinstance(value, bytes | None) if name in self._files else isinstance(value, bytes):",
        "if isinstance(value, bytes if name not in self._files else str):",
        "test_source_sql.py test_source_parts.py",
        "One number in a database's column of images makes its whole batch bad.",
    ),
    Mutation(
        "tasks/processes/gang.py",
        '        return process.rank == 0 or (kind == "interrupted" and not self.roles[process.rank].serves)\n',
        "        return True\n",
        "test_run_gang.py test_train_workers.py",
        "SIGTERM to a training by several processes loses the steps since the last checkpoint: a worker ends it first.",
    ),
    Mutation(
        "tasks/processes/gang.py",
        "            return Stopped(reason.signal_number, self._saved)\n",
        "            return Stopped(reason.signal_number)\n",
        "test_run_gang.py test_run_stops.py",
        "A run that was stopped does not say which step is saved.",
    ),
    Mutation(
        "tasks/runner/attempt.py",
        '            if kind == "saved":\n                saved = values[0]\n',
        '            if kind == "progress":\n                saved = values[0]\n',
        "test_run_bookkeeping.py test_tracking_unequal_parts.py test_train_engine_door.py",
        "A training whose process dies at each checkpoint is restarted for ever, as it gets a step further each time.",
    ),
    Mutation(
        "tasks/store/staging.py",
        '            link(self.root / row["path"], target)\n',
        '            os.replace(self.root / row["path"], target)\n',
        "test_store_commits.py test_store_fine_print.py",
        "A publication that breaks off has taken the pieces from the staging: the next attempt makes them again.",
    ),
    Mutation(
        "tasks/store/files.py",
        "        except ABSENT:\n            raise\n        except OSError as error:\n",
        "        except OSError as error:\n",
        "test_store_reads_again.py",
        "Each look for a file that is not there takes seconds: a store with many pieces, minutes.",
    ),
    Mutation(
        "tasks/store/store.py",
        "            except ABSENT:\n                return name",
        "            except OSError:\n                return name",
        "test_store_reads_again.py",
        "A momentary error of a stat moves an intact artifact to .damaged and makes it again.",
    ),
    Mutation(
        "tasks/training/sidecar.py",
        "any(unscored <= step for unscored in [*self._unscored])",
        "any(self._unscored)",
        "test_train_group.py",
        "A checkpoint waits for evaluations of later steps: a kill until then costs the steps between.",
    ),
    Mutation(
        "tasks/training/sidecar.py",
        "            deliver_challenge(connection, key)\n",
        "",
        "test_train_group.py",
        "Whoever reaches the port of the process that evaluates takes the place of the training.",
    ),
    Mutation(
        "tasks/runs/collection.py",
        "        if _opened(self.home) != self._last_opened:\n",
        "        if False:\n",
        "test_gc_beside_runs.py",
        "gc removes what a run uses that began after gc had read the others.",
    ),
    Mutation(
        "tasks/runs/runs.py",
        "                with locked(home.runs / LOCK):  # whose",
        "                if True:  # whose",
        "test_gc_beside_runs.py",
        "gc removes what a finished run uses that a retried flow run of Prefect has opened again.",
    ),
    Mutation(
        "tasks/runs/runs.py",
        "            key = stat_of(path)\n",
        "            key = stat_of(path)[:1]\n",
        "test_run_index.py",
        "A run that has finished counts as unfinished, and is continued by the next one of its config.",
    ),
    Mutation(
        "infra/deployments.py",
        '        if before.get(name, is_on) != is_on == record["installed"].get(name, is_on):\n',
        "        if before.get(name, is_on) != is_on:\n",
        "test_platform_fine_print.py",
        "A schedule that prefect.yaml turns on stays off.",
    ),
    Mutation(
        "infra/deployments.py",
        '    before = record.get("before") or {',
        "    before = {",
        "test_platform_fine_print.py",
        "Where `up` is killed while it installs, the schedules that somebody has turned on are off afterwards.",
    ),
    Mutation(
        "flows/drill/drill.py",
        "            if not verdict.holds:  # its home is the evidence\n                break\n",
        "",
        "test_drill.py",
        "The home of a pipeline that does not hold is removed, and with it what went wrong.",
    ),
    Mutation(
        "flows/drill/drill.py",
        "        if code not in fault.ends:\n",
        "        if False:\n",
        "test_drill.py",
        "A drill holds although a command ended with an exit code that it must not have.",
    ),
    Mutation(
        "tasks/processes/gang.py",
        "                network = _network(waiting) if len(roles) > 1 else None\n",
        "                network = None\n",
        "test_train_workers.py test_tracking_unequal_parts.py",
        "TensorFlow's servers of a training on one host answer whoever reaches the machine.",
    ),
    Mutation(
        "tasks/store/lock.py",
        '    if owner["host"] != place():\n',
        '    if owner["host"].split(" ")[0] != place().split(" ")[0]:\n',
        "test_store_lock.py",
        "A waiter kills a process of its own container that has the number of a holder in another one.",
    ),
    Mutation(
        "tasks/feed/augmenter.py",
        "            others[WEIGHT] = others[WEIGHT] * (examples[WEIGHT] > 0)\n",
        "            pass\n",
        "test_augment.py",
        "With mixup the examples after the last epoch are trained on by the weight of their partners.",
    ),
    Mutation(
        "tasks/snapshots/transforms/texts.py",
        "        special_tokens=[UNKNOWN_TOKEN, *within],\n",
        "        special_tokens=[UNKNOWN_TOKEN],\n",
        "test_transform_fitting.py",
        "A wordpiece tokenizer is another one in each process, under one digest.",
    ),
    Mutation(
        "tasks/sources/hashes.py",
        "        parts += [binary_of(marks.view(np.uint8).reshape(rows, 8)), cells]\n",
        "        parts += [cells]\n",
        "test_convert_stays.py",
        "Rows that differ only in where a cell ends, or in a missing cell, have one hash.",
    ),
    Mutation(
        "tasks/records/duplicates.py",
        "for name in (ROW, CONTENT[1], CONTENT[0])])]",
        "for name in (SPLIT, CONTENT[1], CONTENT[0])])]",
        "test_convert_stays.py test_convert_duplicates.py",
        "Copies have the first split by name, not that of the smallest hash.",
    ),
    Mutation(
        "tasks/records/column_types/__init__.py",
        "cast.measured, cast.exact)",
        "cast.measured)",
        "test_init_reads_cells.py",
        "Distinct values that fall together in float32 count as copies, and `duplicates: drop` removes them.",
    ),
    Mutation(
        "tasks/reader/formats.py",
        '    commas = [("", ","), (",", "")] if grouped and not long else [(",", ""), ("", ",")]\n',
        '    commas = [(",", ""), ("", ",")]\n',
        "test_init_reads_cells.py",
        "1,870 reviews are read as 1.87.",
    ),
    Mutation(
        "tasks/records/column_types/categories.py",
        '    short = pc.replace_substring_regex(plain(names.cast(pa.string())), FRACTION, r"\\1")\n',
        "    short = plain(names.cast(pa.string()))\n",
        "test_init_reads_cells.py",
        "`1.5` and `1.50` are two classes.",
    ),
    Mutation(
        "tasks/sources/sql.py",
        '            self._key = collate(self._key, "BINARY")\n',
        "            pass\n",
        "test_source_reads_meaning.py",
        "Rows whose keys differ in case are read twice, or not at all, where two pieces meet.",
    ),
    Mutation(
        "tasks/guess/columns.py",
        "    counts |= kept\n",
        "",
        "test_init_reads_cells.py",
        "Half of the rows are of a class called None, and are bad.",
    ),
    Mutation(
        "tasks/exporting/preprocess.py",
        "                raw = raw - _of_each(",
        "                raw = raw + _of_each(",
        "test_export_wide.py",
        "The signature of raw columns answers to numbers with an offset as to others.",
    ),
    Mutation(
        "tasks/records/assignment.py",
        '    if not value or abs(value.adjusted()) > LONGEST:\n        return word if value else b"0"\n',
        "    return word\n",
        "test_convert_stays.py test_convert_split.py",
        "Groups 7 and 7.0 are two, and may be in two splits.",
    ),
    Mutation(
        "tasks/models/usage.py",
        "        rows = {use: np.union1d(self.rows[use], other.rows[use]) for use in USES}\n",
        "        rows = dict(self.rows)\n",
        "test_model_usage.py",
        "A model that continues another one does not say what that one was trained on.",
    ),
    Mutation(
        "tasks/training/starting.py",
        "    folders = [model.path for model in (base, start) if model is not None]\n",
        "    folders = [model.path for model in (start,) if model is not None]\n",
        "test_model_usage.py",
        "A continued model does not say what its base was trained on.",
    ),
    Mutation(
        "tasks/registry/comparison.py",
        "    unused = ~np.logical_or.reduce(list(masks.values()))\n",
        "    unused = np.ones(len(own), bool)\n",
        "test_promote_approval.py test_convert_stays.py",
        "A model is judged on rows that it was trained on.",
    ),
    Mutation(
        "tasks/registry/comparison.py",
        "    if beside.left_out and left < MIN_EXAMPLES:\n",
        "    if beside.left_out and len(before) < 1:\n",
        "test_promote_approval.py",
        "One test example that neither model has used decides which is the champion.",
    ),
    Mutation(
        "tasks/evaluation/gates.py",
        "        return not self.comparable and not any(verdict.refuses for verdict in self.gates)\n",
        "        return not self.comparable\n",
        "test_promote_approval.py",
        "A person may release a version that a gate refused, where it cannot be compared with the champion.",
    ),
    Mutation(
        "tasks/registry/approval.py",
        "(gate.approvable and shown)",
        "gate.approvable",
        "test_promote_approval.py",
        "An approval releases a version against a champion that nobody has seen it beside.",
    ),
    Mutation(
        "tasks/runner/releasing.py",
        '    alike = np.flatnonzero(own.extents == np.asarray(scores["extents"]))\n',
        "    alike = np.arange(len(own.extents))\n",
        "test_promote_edges.py test_export_unequal_parts.py test_settings_reach_their_use.py",
        "A champion that reads other parts of the texts is compared by the ratio of different bytes.",
    ),
    Mutation(
        "tasks/evaluation/tasks/tagging.py",
        "        answers = np.where(self.labels != UNTAGGED, CUT, UNTAGGED).astype(np.int32)\n",
        "        answers = self.labels.copy()\n",
        "test_evaluate_tagging.py",
        "Tokens that a tagger does not read count as right.",
    ),
]

SECOND = [
    Mutation(
        "tasks/evaluation/tasks/ranking.py",
        "    return (gained / ideal[np.minimum(relevant, predictions.at) - 1])[:, None]\n",
        "    return (gained / ideal[relevant - 1])[:, None]\n",
        "test_evaluate_ranking.py test_evaluate_edges.py test_evaluate_metrics.py test_evaluate_coverage.py",
        "The ndcg of queries is too low: even a perfect order does not reach 1.",
    ),
    Mutation(
        "tasks/feed/snapshot_reader.py",
        (
            '        if WEIGHT in features and self.order != "stored":  # metrics, of stored order, are of'
            " examples without weights\n"
        ),
        "        if WEIGHT in features:\n",
        (
            "test_snapshot_reading.py test_snapshot_parts.py test_train_feed.py test_train_objectives.py"
            " test_train_decides.py test_train_options.py"
        ),
        "Validation scores, and what they select or stop, are weighted by the examples' weights.",
    ),
    Mutation(
        "tasks/sources/sql.py",
        '        for secret in filter(None, [str(self._url.password or ""), *given]):\n',
        '        for secret in filter(None, [str(self._url.password or "")]):\n',
        "test_source_sql.py test_source_parts.py",
        "A password that is an option of the database's URL is printed in the error message and stored with the run.",
    ),
    Mutation(
        "tasks/models/architectures/encoder.py",
        "        if height % self.patch or width % self.patch:\n",
        "        if height % self.patch:\n",
        "test_config_refusals.py test_config_values.py test_config_combinations.py test_model_kinds.py",
        "The right edge of the images is cut off silently.",
    ),
    Mutation(
        "tasks/snapshots/packing.py",
        "    pieces = np.stack([record, begin, length, column + lead], axis=1)[order]\n",
        "    pieces = np.stack([record, begin, length, column], axis=1)[order]\n",
        "test_snapshot_packing.py test_snapshot_parts.py test_snapshot_tokens.py",
        (
            "The later parts of a long document have no BOS before them, and their first token is not a"
            " target of its own any more."
        ),
    ),
    Mutation(
        "tasks/environment/process.py",
        (
            "        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:"
            "\n            previous[int(number)] = signal.signal(number, handler)\n"
        ),
        "        previous[int(number)] = signal.signal(number, handler)\n",
        "test_environment.py test_run_gang.py test_run_processes.py test_run_stops.py",
        "A run that was started with nohup is stopped when the terminal is closed.",
    ),
    Mutation(
        "tasks/models/keras_archive.py",
        "        model = keras.saving.deserialize_keras_object(under_policy(description), safe_mode=True)\n",
        "        model = keras.saving.deserialize_keras_object(under_policy(description), safe_mode=False)\n",
        (
            "test_model_keras_file.py test_model_import.py test_train_init.py test_train_model_files.py"
            " test_export_hostile.py"
        ),
        "Code from a foreign `.keras` file is executed instead of refused.",
    ),
    Mutation(
        "tasks/sources/kinds/columns.py",
        (
            '        if len(set(self.classes)) < len(self.classes):\n            raise Conflict("classes",'
            ' list(self.classes), "must differ", "name each class once")\n'
        ),
        "",
        "test_config_rules.py test_source_parts.py",
        (
            "A class that is listed twice is accepted: the model has an output that no example has, and"
            " numbers of classes are wrong."
        ),
    ),
    Mutation(
        "tasks/compression/judgement.py",
        "            if limit is not None and (value is None or value > limit):\n",
        "            if limit is not None and value is not None and value > limit:\n",
        "test_compress_front.py test_compress_parts.py",
        "A variant whose latency was not measured is chosen as one that meets the limit of latency.",
    ),
    Mutation(
        "tasks/training/engines/tensorflow/step.py",
        '        gradients = [tf.math.divide_no_nan(gradient, totals["weight"]) for gradient in gradients]\n',
        '        gradients = [gradient / tf.maximum(totals["seen"], 1e-9) for gradient in gradients]\n',
        "test_train_step.py test_train_objectives.py test_train_self_test.py test_train_options.py",
        "The gradient is not that of the weighted mean loss: its size depends on the class weights of the batch.",
    ),
    Mutation(
        "tasks/training/engines/tensorflow/engine.py",
        "            variable.assign(state[name])\n        split_seeds(self.model, self._first_replica)\n",
        "            variable.assign(state[name])\n",
        (
            "test_train_step.py test_train_decides.py test_train_resumes_exactly.py test_train_options.py"
            " test_train_workers.py"
        ),
        (
            "After a resume all replicas draw the same dropout masks, and the weights differ from those of an"
            " uninterrupted training."
        ),
    ),
    Mutation(
        "tasks/exporting/preprocess.py",
        '                raw = tf.where(bare == missing, "", raw)\n',
        "                pass\n",
        "test_export_parts.py test_export_raw.py",
        (
            "The signature of an export that takes raw columns treats texts that mean a missing value as"
            " categories of their own."
        ),
    ),
    Mutation(
        "tasks/runner/identities.py",
        (
            '    if any(method.reads_limit for method in spec.methods):\n        limits["max_quality_loss"] ='
            " config.max_quality_loss(evaluate.primary_of(task)[0])\n"
        ),
        "",
        "test_compress_search.py test_compress_parts.py test_compress_verdicts.py test_run_stages.py",
        (
            "A variant of a method that reads the limit of quality is taken from the store although the limit"
            " is another one now."
        ),
    ),
    Mutation(
        "infra/databases.py",
        '    trailing = "password=" in unquote(parts.query).lower()\n',
        '    trailing = "password=" in parts.query.lower()\n',
        "test_platform_fine_print.py test_platform_refuses_early.py test_platform_layout.py",
        "A database address with a literal password is accepted, stored and shown.",
    ),
    Mutation(
        "tasks/processes/gang.py",
        "self._asked + self._limits.grace + ",
        "self._asked + self._limits.seconds + ",
        "test_run_gang.py test_run_processes.py test_run_tries_again.py test_train_engine_door.py",
        (
            "A process that does not react to a stop signal or to the time-out is not killed after"
            " resources.grace but after a day."
        ),
    ),
    Mutation(
        "tasks/sources/archives.py",
        (
            '        if member.crc not in (None, crc):\n            raise self._damaged(path, f"CRC-32'
            ' {crc:08x}, and the archive says {member.crc:08x}")\n'
        ),
        "",
        "test_source_archives.py test_source_parts.py",
        "Files of a damaged zip archive are read as good data.",
    ),
    Mutation(
        "tasks/training/seeds.py",
        '    value = scores[f"validation/{metric}"]\n',
        '    value = scores[f"test/{metric}"]\n',
        "test_train_seeds.py",
        "The best of several seeds (and the average) is chosen on the test split, so that its test score is flattered.",
    ),
    Mutation(
        "tasks/runner/stages.py",
        "                    asked.identity.check_sources(inputs)\n",
        "",
        "test_convert_source_changes.py test_run_stages.py test_run_verbs.py",
        "An artifact is published under the digest of files that it was not made from.",
    ),
    Mutation(
        "tasks/records/column_types/numbers.py",
        '        "squares": left["squares"] + right["squares"] + difference * difference * left["count"] * share,\n',
        '        "squares": left["squares"] + right["squares"] + difference * difference * share,\n',
        "test_convert_statistics.py test_convert_profile.py test_convert_parts.py test_source_parts.py",
        "The standard deviation of numbers in the statistics is too small.",
    ),
    Mutation(
        "tasks/training/primary.py",
        '(state["awaited"], state["waited"]) if ends',
        '(state["awaited"], 0) if ends',
        "test_train_curves.py test_train_decides.py test_train_checkpoints.py test_train_ends_and_continues.py",
        (
            "A training with early stopping that was killed and resumed ends later than an uninterrupted one"
            " and has other weights."
        ),
    ),
    Mutation(
        "tasks/records/assignment.py",
        "        return np.where(alone, rows, digests(words)[:, 0][numbers]), alone\n",
        "        return digests(words)[:, 0][numbers], alone\n",
        "test_convert_split.py test_convert_parts.py test_convert_duplicates.py",
        "All rows without a group go to one and the same split.",
    ),
    Mutation(
        "infra/backup.py",
        '        if Path(row["path"]).is_absolute() or ".." in Path(row["path"]).parts:\n',
        '        if Path(row["path"]).is_absolute():\n',
        "test_backup_restores.py test_platform_fine_print.py",
        "A restore writes files outside of the home.",
    ),
    Mutation(
        "tasks/training/engines/tensorflow/strategies/horovod_rendezvous.py",
        "    while time.monotonic() < deadline:\n",
        "    while True:\n",
        "test_train_group.py test_train_horovod.py test_train_hosts.py",
        "A worker waits forever for rank 0 instead of reporting that it is lost.",
    ),
    Mutation(
        "tasks/guess/splits.py",
        (
            '    found = choose(examples_of(source, train), [{"train": 1 - share, "validation": share}]) if'
            " few else (None, 0)\n"
        ),
        (
            '    found = choose(examples_of(source), [{"train": 1 - share, "validation": share}]) if'
            " few else (None, 0)\n"
        ),
        "test_init_guesses.py test_init_sources.py test_init_tables.py test_init_presets.py",
        (
            "The split seed in the preset is chosen by examples of all splits, so that validation, a part of"
            " train, may be empty or too small."
        ),
    ),
    Mutation(
        "flows/commands/decisions.py",
        '    with locked(folder / "lock", terminal.say), registry_of(home) as client:\n',
        "    with registry_of(home) as client:\n",
        "test_store_audit.py test_platform_fine_print.py test_promote_one_at_a_time.py test_promote_awaits.py",
        (
            "A decision is applied to a run while another process works on it, and one of them overwrites the"
            " other's record."
        ),
    ),
    Mutation(
        "tasks/reader/log_mel.py",
        '            sound = file.read(length, dtype="float64", always_2d=True).mean(axis=1)\n',
        '            sound = file.read(length, dtype="float64", always_2d=True)[:, 0]\n',
        "test_transform_parts.py test_source_audio_folder.py test_transform_reader.py",
        "Of a stereo sound only the first channel is used instead of the mean of both.",
    ),
    Mutation(
        "tasks/evaluation/gates.py",
        "        if unbeaten := [each for each in baselines if not each.better(higher_is_better)]:\n",
        "        if unbeaten := [each for each in baselines[:1] if not each.better(higher_is_better)]:\n",
        "test_promote_edges.py test_promote_gates.py test_promote_approval.py",
        "A version that is worse than a baseline becomes champion.",
    ),
    Mutation(
        "tasks/evaluation/decisions.py",
        "    decisions = judge.binary(Decision(scaling).apply(predictions))\n",
        "    decisions = judge.binary(predictions)\n",
        "test_evaluate_decisions.py test_evaluate_fine_print.py test_evaluate_everything.py",
        (
            "The threshold is fitted on probabilities before calibration and then applied to calibrated ones,"
            " so that decisions are wrong."
        ),
    ),
    Mutation(
        "tasks/records/near/__init__.py",
        "    return list(combinations(range(_differing(similarity) + 2), 2))\n",
        "    return list(combinations(range(_differing(similarity) + 1), 2))\n",
        "test_convert_near_duplicates.py",
        "Near-duplicate images just within the similarity are not found.",
    ),
    Mutation(
        "tasks/evaluation/estimates.py",
        "        return ((1 + bend * away / 3) ** 3 - 1) / bend + bend / 6\n",
        "        return ((1 - bend * away / 3) ** 3 - 1) / -bend - bend / 6\n",
        "test_evaluate_estimates.py test_evaluate_coverage.py",
        "The ends of confidence intervals are shifted to the wrong side (wrong sign of the skewness).",
    ),
    Mutation(
        "tasks/snapshots/transforms/statistics.py",
        "        order = np.argsort(self._priorities)[:ROWS]\n",
        "        order = np.argsort(self._priorities)\n",
        "test_transform_fitting.py test_transform_parts.py",
        (
            "Fitted quantiles, medians and boundaries depend on the batches in which rows came, and the"
            " sample is larger than stated: snapshots with one digest differ in their bytes."
        ),
    ),
    Mutation(
        "tasks/training/engines/tensorflow/optimizers.py",
        "                variable.assign(variable - variable * own.weight_decay * factor * own.learning_rate)\n",
        "                variable.assign(variable - variable * own.weight_decay * own.learning_rate)\n",
        "test_train_optimizers.py",
        (
            "train.layer_rates does not scale the weight decay: layers with a small factor decay as fast as"
            " the others, and pretrained weights shrink."
        ),
    ),
    Mutation(
        "tasks/training/config.py",
        "            return self.on_spike is not None\n",
        "            return False\n",
        (
            "test_config_values.py test_config_combinations.py test_train_spikes.py test_run_stages.py"
            " test_tune_search.py test_golden_digests.py"
        ),
        (
            "With train.on_spike the checkpoint settings decide the model, but a run with other ones gets the"
            " old model from the store as if it were its own."
        ),
    ),
    Mutation(
        "tasks/sources/streams.py",
        "        self._read += len(chunk)\n",
        "        self._read = len(chunk)\n",
        "test_source_csv.py test_source_parquet.py test_source_parts.py",
        (
            "A decompression bomb is no longer refused: the limit is compared with single chunks, not with"
            " all that was read, and the run fills disk and time."
        ),
    ),
    Mutation(
        "tasks/store/store.py",
        "            sync(path)\n            sync(path.parent)\n",
        "            sync(path.parent)\n",
        "test_store_commits.py test_store_fine_print.py",
        (
            "An export that was fetched from the registry is published although its content is not on the"
            " disk: after a power cut its files are empty or cut."
        ),
    ),
    Mutation(
        "tasks/runs/collection.py",
        "used(self.home, [*with_trials(whole), *filter(released, older)], self._parents)",
        "used(self.home, [*whole, *filter(released, older)], self._parents)",
        "test_gc_beside_runs.py test_store_fine_print.py test_tune_flow.py",
        (
            "Garbage collection deletes the models and checkpoints of the trials of a recent or unfinished"
            " tuning: when it is continued, trials begin anew, and a finished one has lost the models that"
            " its table names."
        ),
    ),
    Mutation(
        "tasks/registry/approval.py",
        "promote.margin, primary[1], require=promote.require)\n",
        "promote.margin, primary[1])\n",
        "test_promote_approval.py test_promote_edges.py",
        (
            "An approval that is given after the champion was replaced ignores promote.require: better: a"
            " version within noise of the new champion takes its place."
        ),
    ),
    Mutation(
        "tasks/runner/tuning.py",
        "        self.before: float = attempt.run.measurements().get(SPENT, 0.0)\n",
        "        self.before = 0.0\n",
        "test_tune_parts.py test_tune_search.py test_tune_flow.py test_run_bookkeeping.py",
        (
            "tune.minutes counts anew in each attempt: a tuning that is interrupted and continued runs far"
            " longer than its budget, and the recorded seconds are those of the last attempt."
        ),
    ),
    Mutation(
        "tasks/compression/methods/low_rank.py",
        "            rank = int(np.searchsorted(kept, config.energy * kept[-1])) + 1\n",
        "            rank = max(1, int(np.searchsorted(kept, config.energy * kept[-1])))\n",
        "test_compress_parts.py test_compress_trains.py",
        (
            "Factors keep less energy than the setting asks for, one singular value too few in each layer:"
            " the compressed model is worse than it should be."
        ),
    ),
    Mutation(
        "tasks/exporting/checks.py",
        "            for side in (operator.inputs, operator.outputs, operator.intermediates):\n",
        "            for side in (operator.inputs, operator.intermediates):\n",
        "test_export_hostile.py test_export_parts.py",
        (
            "A damaged or crafted .tflite file whose operator writes to a tensor that is not there is"
            " accepted and given to the interpreter."
        ),
    ),
]

THIRD = [
    Mutation(
        "tasks/exporting/verify.py",
        '        "argmax_agreement": min(\n',
        '        "argmax_agreement": max(\n',
        "test_export_parts.py test_export_works.py test_export_generation.py",
        (
            "The verification reports the best agreement with Keras over the ways of calling instead of the"
            " worst, so that a variant passes that is wrong in batches of one or on raw columns."
        ),
    ),
    Mutation(
        "flows/commands/home.py",
        (
            '            if broken is not None:\n                damaged.append({"artifact": name, "file":'
            ' f"line {broken[0]}", "what": broken[1]})\n'
        ),
        "",
        "test_command_line.py test_promote_awaits.py test_store_audit.py test_platform_fine_print.py",
        "`millrace verify --all` exits with 0 and lists no damage in its JSON although the audit log was changed.",
    ),
    Mutation(
        "tasks/runner/hosts.py",
        '    values = {**dict(_flat("", sections)), "code of training": MODEL_VERSION, **versions, **dict(own)}\n',
        '    values = {**dict(_flat("", sections)), "code of training": MODEL_VERSION, **dict(own)}\n',
        "test_train_hosts.py test_run_stages.py",
        (
            "A host with other versions of TensorFlow or Keras may join a training on several hosts, whose"
            " result is then not that of its digest."
        ),
    ),
    Mutation(
        "tasks/processes/config.py",
        (
            '            members = [f"{n:0{len(first)}d}" for n in range(int(first), int(last or first) + 1)]'
            ' if first else [""]\n'
        ),
        '            members = [str(n) for n in range(int(first), int(last or first) + 1)] if first else [""]\n',
        "test_train_hosts.py test_run_gang.py test_platform_slurm.py",
        (
            "On Slurm the hosts `gpu[01-03]` are taken for gpu1, gpu2, gpu3, which do not exist, so that the"
            " workers never meet."
        ),
    ),
    Mutation(
        "tasks/models/architectures/encoder.py",
        "        x = x * present\n",
        "",
        "test_model_padding.py test_model_kinds.py",
        (
            "The answer of an encoder to a text depends on how much padding follows it, that is on the other"
            " texts of its batch."
        ),
    ),
    Mutation(
        "tasks/search/space.py",
        "        return [float(low + number * step) for number in range((high - low) // step + 1)]\n",
        "        return [float(low + number * step) for number in range((high - low) // step)]\n",
        "test_tune_search.py test_tune_parts.py test_config_values.py test_config_rules.py",
        (
            "A grid search never tries the largest value of a float range, and has fewer combinations than"
            " the config says."
        ),
    ),
    Mutation(
        "tasks/compression/methods/qat.py",
        "    levels = float(2 ** (each.bits - 1) - 1)\n",
        "    levels = float(2 ** (each.bits - 1))\n",
        "test_compress_parts.py test_compress_trains.py",
        (
            "Quantisation-aware training rounds to another grid than the quantised file has, so that it gains"
            " less or nothing, at 4 bits above all."
        ),
    ),
    Mutation(
        "infra/orchestration.py",
        (
            '        query = {"flow_runs": old, "sort": "END_TIME_DESC", "limit": 200, "offset": len(names)'
            " if dry_run else 0}\n"
        ),
        '        query = {"flow_runs": old, "sort": "END_TIME_DESC", "limit": 200, "offset": len(names)}\n',
        "test_gc_drops_old_history.py test_platform_fine_print.py",
        "`millrace gc --days` leaves a part of the old flow runs in Prefect's database: every second page is skipped.",
    ),
    Mutation(
        "tasks/snapshots/transforms/numbers.py",
        (
            "    values, place = np.unique(np.quantile(sample, levels), return_inverse=True)\n    return"
            " values, np.bincount(place, levels) / np.bincount(place)\n"
        ),
        (
            "    values, first = np.unique(np.quantile(sample, levels), return_index=True)\n    return"
            " values, levels[first]\n"
        ),
        "test_transform_parts.py test_transform_fitting.py test_transform_edges.py",
        (
            "A value that is frequent in train gets its lowest rank instead of the mean of its ranks: a"
            " column with many zeros is mapped to 0 (or -5.2) there."
        ),
    ),
    Mutation(
        "tasks/registry/approval.py",
        "    if now == asked or not decision.accepted:  # a rejection needs no comparison\n",
        "    if now == asked:\n",
        "test_promote_approval.py test_promote_killed.py test_settings_reach_their_use.py",
        "`millrace reject` is refused: the version cannot be rejected and goes on awaiting approval.",
    ),
    Mutation(
        "tasks/records/profile.py",
        "    return float(np.sqrt(min(1.0, (counts * (means - numbers.mean()) ** 2).sum() / total)))\n",
        "    return float(np.sqrt(min(1.0, (counts * (means - means.mean()) ** 2).sum() / total)))\n",
        "test_convert_profile.py test_convert_columns.py",
        (
            "The association of a category with a number is too large, and columns are suspected of telling"
            " the target exactly."
        ),
    ),
    Mutation(
        "tasks/sources/kinds/folders.py",
        '    example: Literal["file", "line", "paragraph"] = "file"\n',
        '    example: Annotated[Literal["file", "line", "paragraph"], NOT_IDENTITY] = "file"\n',
        "test_golden_digests.py test_config_values.py test_convert_text_files.py test_config_reaches.py",
        (
            "After a change of source.example from file to line the old records come from the store: examples"
            " are still whole files."
        ),
    ),
    Mutation(
        "tasks/evaluation/binary.py",
        "    return float(candidates[best_ones[np.abs(candidates[best_ones] - USUAL).argmin()]])\n",
        "    return float(candidates[best_ones[0]])\n",
        "test_evaluate_decisions.py test_evaluate_fine_print.py",
        "Of equally good thresholds the lowest is chosen and exported, and not the one nearest to 0.5.",
    ),
    Mutation(
        "tasks/training/strategies.py",
        "    exact: ClassVar[bool] = False\n",
        "",
        (
            "test_config_values.py test_config_rules.py test_config_combinations.py test_golden_digests.py"
            " test_train_parameter_server.py"
        ),
        (
            "A training with parameter servers has the digest of an exact one, so that a config with another"
            " strategy gets its model from the store, and settings that it does not support are not refused."
        ),
    ),
    Mutation(
        "infra/health.py",
        "    if abs(difference) > 5:\n",
        "    if difference > 5:\n",
        "test_platform_fine_print.py test_command_line.py test_deadlines_fire.py",
        (
            "`millrace doctor` finds the clocks in order though this machine's clock is minutes behind that"
            " of the file system."
        ),
    ),
    Mutation(
        "tasks/runner/trials.py",
        '        if isinstance(error, Lost) or error.field.partition(".")[0] not in OF_A_TRIAL:\n',
        '        if error.field.partition(".")[0] not in OF_A_TRIAL:\n',
        "test_tune_parts.py test_tune_search.py test_attempts_go_on.py",
        (
            "A trial whose process was lost (killed, connection closed) counts as failed for ever, and the"
            " study goes on without it instead of retrying it."
        ),
    ),
    Mutation(
        "flows/commands/run.py",
        "    if end.exit_code in (1, 2) and end.error is not None:\n",
        "    if end.exit_code == 1 and end.error is not None:\n",
        "test_train_hosts.py test_command_replies.py test_platform_kubernetes.py",
        "The workers of a run that was refused on the first host report success (exit code 0, completed).",
    ),
    Mutation(
        "flows/references.py",
        'WITHOUT_TRAINING = ("dataset", "release")\n',
        'WITHOUT_TRAINING = ("dataset",)\n',
        "test_platform_fine_print.py test_run_refuses_early.py test_train_init.py",
        (
            "`millrace run release` with a preset whose train.init is the champion is refused where there is"
            " no champion yet (its remedy is to release one first), though nothing is trained."
        ),
    ),
    Mutation(
        "tasks/store/lock.py",
        "        token = _last_token(path) + 1\n",
        "        token = max(_last_token(path), 1)\n",
        "test_store_lock.py test_store_fine_print.py",
        (
            "A superseded attempt is not recognised, as all attempts have the token 1: it may write into the"
            " staging folder of the attempt that took over."
        ),
    ),
    Mutation(
        "tasks/sources/archives.py",
        '    return "not a path below it" if {"", ".", ".."} & set(name.split("/")) else None\n',
        '    return "not a path below it" if {"", "."} & set(name.split("/")) else None\n',
        "test_source_archives.py test_source_webdataset.py",
        (
            "An archive with names that lead out of it (`../x.png`) is accepted instead of refused, and `..`"
            " becomes a class or a part of a key."
        ),
    ),
    Mutation(
        "tasks/sources/folders.py",
        "                    begin = begin if lines else offset\n",
        "                    begin = offset\n",
        "test_convert_text_files.py test_source_parts.py",
        (
            "The key of a paragraph is the offset of its last line instead of its first byte, so that keys"
            " point elsewhere and the order of examples is another."
        ),
    ),
    Mutation(
        "tasks/compression/methods/distill.py",
        "    return temperature**2 * of_example(positive + negative)\n",
        "    return of_example(positive + negative)\n",
        "test_compress_parts.py test_compress_trains.py",
        (
            "The teacher of a multilabel model has too little weight in the student's loss: by the square of"
            " the temperature."
        ),
    ),
    Mutation(
        "infra/automations.py",
        '        "for_each": ["prefect.resource.id"],\n',
        '        "for_each": [],\n',
        "test_platform_fine_print.py test_platform_alerts.py test_platform_runs.py",
        (
            "A dead run is not marked Crashed (and no message is sent) while any other run sends heartbeats,"
            " as they are counted together."
        ),
    ),
    Mutation(
        "tasks/training/engines/tensorflow/segmented_steps.py",
        "        with keras.StatelessScope(state_mapping=state), tf.GradientTape() as tape:\n",
        "        with keras.StatelessScope(), tf.GradientTape() as tape:\n",
        "test_train_memory.py",
        (
            "With train.remat gradients are those of other dropout masks than the forward pass had: the"
            " trained weights differ from those without it."
        ),
    ),
    Mutation(
        "tasks/environment/process.py",
        '    return {name: value for name, value in variables.items() if name != "PYTHONPATH"} | SAFE\n',
        "    return {**variables, **SAFE}\n",
        "test_environment.py test_import_path.py",
        (
            "Modules of a folder in the user's PYTHONPATH are imported by processes of the product, in place"
            " of the installed ones."
        ),
    ),
    Mutation(
        "tasks/processes/local_process.py",
        "                for process in psutil.Process(pid).children(recursive=True):\n",
        "                for process in psutil.Process(pid).children():\n",
        "test_run_gang.py test_deadlines_fire.py test_run_processes.py test_run_tries_again.py",
        (
            "Processes that the children of a compute process have started live on after it is killed, and"
            " keep memory, files and ports."
        ),
    ),
    Mutation(
        "flows/running.py",
        '            if run.record["status"] == "running":\n',
        '            if run.record["status"] != "completed":\n',
        "test_platform_fine_print.py test_run_bookkeeping.py test_run_stops.py",
        (
            "A run that was stopped by a signal (exit code 75, `stopped`) is recorded afterwards as failed by"
            " a killed process, with exit code 1 and a second notification."
        ),
    ),
    Mutation(
        "tasks/training/speed.py",
        "        again = min(max(self.reached - (step - last.steps), 0), last.steps) / last.steps\n",
        "        again = min(max(self.reached - step, 0), last.steps) / last.steps\n",
        "test_train_goodput.py test_train_curves.py",
        (
            "The goodput of a resumed training is too high: the last repeated call (or all, where it is one)"
            " counts as new steps."
        ),
    ),
    Mutation(
        "tasks/store/files.py",
        "        os.ftruncate(descriptor, end)\n        try:\n",
        "        try:\n",
        "test_tracking_journal.py test_store_fine_print.py test_store_lines.py",
        (
            "After a kill in the middle of a write the next metrics are appended to half a line: the journal"
            " cannot be read any more, and the resumed run fails or loses its curves."
        ),
    ),
    Mutation(
        "tasks/exporting/fresh_process.py",
        "            output, errors = process.communicate(timeout=(seconds := timeout_of(variant)))\n",
        "            output, errors = process.communicate()\n",
        "test_export_parts.py test_export_works.py test_deadlines_fire.py",
        "An export hangs for ever where a variant hangs in its fresh process, instead of failing after 600 s.",
    ),
    Mutation(
        "tasks/training/seeds.py",
        (
            '    return int.from_bytes(hashlib.blake2b(f"{seed}/{name_of(number)}".encode(),'
            ' digest_size=8).digest(), "little") >> 1\n'
        ),
        '    return int.from_bytes(hashlib.blake2b(name_of(number).encode(), digest_size=8).digest(), "little") >> 1\n',
        "test_train_seeds.py",
        (
            "Runs with different `seed` and train.seeds train the same further models, which are not"
            " independent repetitions."
        ),
    ),
    Mutation(
        "tasks/guess/schema.py",
        "    if len(counts) <= FEW_CLASSES and min(counts.values()) > 1:\n",
        "    if len(counts) <= FEW_CLASSES and min(counts.values()) >= 1:\n",
        "test_init_schema.py",
        (
            "`millrace init --schema` writes a closed list of values for a column in which some were seen"
            " only once, so that ordinary new rows go to quarantine."
        ),
    ),
    Mutation(
        "flows/asking.py",
        "PATIENCE = 30 * 24 * 3600\n",
        "PATIENCE = 30 * 24 * 60\n",
        "test_deadlines_fire.py test_platform_approval.py test_store_audit.py",
        "A deployed run that awaits approval is failed by Prefect after 12 hours instead of 30 days.",
    ),
    Mutation(
        "tasks/training/engines/tensorflow/segmented_steps.py",
        (
            "            before = total.get(id(variable))\n            total[id(variable)] = gradient if"
            " before is None else before + gradient  # where the variable is\n"
        ),
        "            total[id(variable)] = gradient\n",
        "test_train_self_test.py test_train_memory.py test_train_pipeline.py",
        (
            "With a pipeline or train.remat the gradient of weights that several parts of a model share is"
            " that of the last part alone, so that the result differs from that on one device."
        ),
    ),
    Mutation(
        "tasks/reader/time_parts.py",
        "    angle = 2 * np.pi * (numbers - first) / period\n",
        "    angle = 2 * np.pi * (numbers - first) / (period - 1)\n",
        "test_transform_parts.py test_transform_edges.py",
        "Monday and Sunday, the hours 0 and 23, January and December are the same for a model.",
    ),
    Mutation(
        "tasks/records/duplicates.py",
        "        both = both[both != 0]\n",
        "",
        "test_convert_parts.py test_convert_duplicates.py",
        (
            "The report of the data says that a missing text is a content that train and test share, and"
            " warns that test scores may be too high."
        ),
    ),
    Mutation(
        "tasks/tracking/shipping.py",
        '        if row["conclusive"] and name != LITERT  # that file itself\n',
        "        if name != LITERT  # that file itself\n",
        "test_page_tracks_what_compares.py",
        "MLflow gets latency ratios of settings whose A/A comparison failed, and runs are compared by noise.",
    ),
    Mutation(
        "tasks/search/study.py",
        "            sampler = self.config.sampler.sampler(self.config.space, self.seed, number)\n",
        "            sampler = self.config.sampler.sampler(self.config.space, 0, number)\n",
        "test_tune_search.py test_tune_parts.py test_settings_reach_their_use.py",
        "Tunings with different seeds try the same values.",
    ),
    Mutation(
        "tasks/models/prunable.py",
        (
            "            if self.between is not None:\n                values = values *"
            ' weights[f"{self.between}/gamma"]\n'
        ),
        "",
        "test_compress_parts.py test_compress_trains.py",
        (
            "Structured pruning of a residual network leaves out other channels: the scale of the"
            " normalisation between the convolutions is not part of a channel's norm."
        ),
    ),
    Mutation(
        "tasks/feed/augmentations.py",
        "        signs = np.stack([1 - 2 * draws.integers(2 * number + 1, 2) for number in words], axis=1).tolist()\n",
        "        signs = np.stack([1 - 2 * draws.integers(2 * number, 2) for number in words], axis=1).tolist()\n",
        "test_augment.py",
        (
            "Each operation of rand_augment goes in one direction only (images are rotated and moved to one"
            " side, always brighter or always darker), as direction and operation are made of the same random"
            " number."
        ),
    ),
]

FOURTH = [
    Mutation(
        "tasks/training/engines/tensorflow/objectives.py",
        'targets", rule, "use multilabel")\n        return cls(loss, smoothing)\n',
        'targets", rule, "use multilabel")\n        return cls(loss, 0.0 if cls.task == "ranking" else smoothing)\n',
        "test_train_losses.py test_train_objectives.py test_train_own_loss.py test_evaluate_ranking.py",
        "`train.label_smoothing` has no effect on the task ranking, although it is accepted and part of the digest.",
    ),
    Mutation(
        "tasks/evaluation/gating.py",
        "        most = limit(subject.task, metric, self.max_loss, metric.of(before))\n",
        "        most = limit(subject.task, metric, self.max_loss, metric.of(after))\n",
        (
            "test_compress_verdicts.py::test_what_a_regression_may_lose_is_a_share_of_the_float_models_error_and_not_of_its_own"
        ),
        (
            "Of a regression the accepted loss is a fraction of the compressed model's own error: the worse a"
            " variant is, the more it may lose, and one with `max_loss: 1` always passes."
        ),
    ),
    Mutation(
        "tasks/reader/log_mel.py",
        "    return np.fft.irfft(kept, samples) * (samples / len(sound))\n",
        "    return np.fft.irfft(kept, samples)\n",
        "test_source_audio_folder.py test_transform_reader.py test_transform_parts.py",
        (
            "Sounds whose rate differs from `rate` become louder or softer by the ratio of the rates (44.1"
            " kHz to 16 kHz: factor 2.8), so that the same sound in two rates has different features."
        ),
    ),
    Mutation(
        "tasks/compression/methods/method.py",
        (
            '        own = ("init", "freeze", "lora", "layer_rates", "seeds", "select", "early_stopping",'
            ' "continue_from")\n'
        ),
        '        own = ("init", "freeze", "lora", "seeds", "select", "early_stopping", "continue_from")\n',
        "test_compress_settings.py::test_a_training_of_a_method_leaves_what_is_of_the_training_before",
        (
            "With `train.layer_rates` the training of a method such as distill or qat also uses those rates,"
            " so that layers with rate 0.1 or less hardly learn, although the documentation says all are"
            " trained alike."
        ),
    ),
    Mutation(
        "tasks/processes/rendezvous.py",
        "            if self._joined.get(joined.rank) is joined:\n",
        "            if joined.rank in self._joined:\n",
        "test_train_hosts.py test_run_gang.py",
        (
            "A host that lost its connection and joined again is forgotten when the beat to its old"
            " connection fails, so that a training on several hosts stops with `has left` although it is"
            " there."
        ),
    ),
    Mutation(
        "tasks/export.py",
        "        identities.export(model, examples, variants, config, fitted),\n",
        "        identities.export(model, examples, variants, config),\n",
        "test_run_stages.py test_export_parts.py test_settings_reach_their_use.py test_golden_digests.py",
        (
            "After a change of `evaluate.threshold` or `evaluate.calibrate` the export comes from the store"
            " with the old temperature and thresholds, and predicts by these."
        ),
    ),
    Mutation(
        "tasks/store/store.py",
        "        self.staging.check()\n",
        "",
        (
            "test_store_commits.py test_store_fine_print.py test_store_lock.py test_locks_are_taken.py"
            " test_attempts_go_on.py"
        ),
        (
            "An attempt whose lock was taken over by another one (after a pause of the machine) still renames"
            " the shared staging into the store, while the other one writes to it."
        ),
    ),
    Mutation(
        "flows/session.py",
        "        if name in living and variable not in os.environ:\n",
        "        if name in living:\n",
        "test_session_keeps_named_servers.py",
        (
            "A user who exports MLFLOW_TRACKING_URI or PREFECT_API_URL while `millrace up` runs has it"
            " silently overwritten: runs and releases go to the local stack instead of the named server."
        ),
    ),
    Mutation(
        "flows/commands/predict.py",
        (
            '    artifact = store.find(Export, store.resolve(export, "export").digest, "export")\n    assert'
            " artifact is not None\n    return artifact.path\n"
        ),
        '    return store.resolve(export, "export").path\n',
        "test_store_doors_verify.py::test_an_artifact_is_used_once_its_files_are_found_as_they_were",
        (
            "`millrace predict DIGEST` runs an export in the store whose files have been damaged or changed,"
            " instead of refusing it and setting it aside."
        ),
    ),
    Mutation(
        "tasks/tracking/notifications.py",
        '    moved = [row for row in run.record["stages"].get("promote", []) if not row["cached"]]\n',
        '    moved = run.record["stages"].get("promote", [])\n',
        "test_run_notifies.py test_tracking_parts.py",
        (
            "Every nightly run that changes nothing sends the message `champion` again, also those that only"
            " asked for `champion` events."
        ),
    ),
    Mutation(
        "tasks/feed/augmentations.py",
        "        lefts = draws.integers(1, width) - self.size // 2\n",
        "        lefts = draws.integers(0, width) - self.size // 2\n",
        "test_augment.py test_page_augment.py",
        (
            "The augmentation cutout covers squares along the images' diagonal only, as row and column come"
            " from one random number."
        ),
    ),
    Mutation(
        "tasks/training/engines/tensorflow/watching.py",
        "        squares = 2.0 * np.bincount(self.numbers, half_squares, len(self.names))\n",
        "        squares = np.bincount(self.numbers, half_squares, len(self.names))\n",
        "test_train_curves.py test_train_figures.py test_train_step.py test_train_loop.py",
        (
            "The curves gradient_norm/<group> are too small by a factor of 1.41, and do not add up to the"
            " norm of all gradients."
        ),
    ),
    Mutation(
        "tasks/training/starting.py",
        '    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]\n',
        '    files = sorted(each for each in path.glob("*") if each.is_file()) if path.is_dir() else [path]\n',
        "test_train_decides.py::test_another_file_at_any_depth_of_a_folder_of_first_weights_is_another_model",
        (
            "If initial weights are a folder with sub-folders (a SavedModel's variables/), other weights"
            " there do not change the digest, and the old model comes from the store."
        ),
    ),
    Mutation(
        "tasks/exporting/checks.py",
        "    called |= set(meta.object_graph_def.concrete_functions)\n",
        "",
        "test_export_hostile.py::test_a_function_of_the_saver_is_refused_wherever_it_could_be_called",
        (
            "A SavedModel from elsewhere that exposes the saver's functions, which read and write files, as"
            " functions of its object graph is loaded instead of being refused."
        ),
    ),
    Mutation(
        "tasks/training/sidecar.py",
        (
            "                    self.on_scores(step, scores, lambda weights=weights: weights)  # type:"
            " ignore[misc]\n                    self._unscored.remove(step)\n"
        ),
        (
            "                    self._unscored.remove(step)\n                    self.on_scores(step, scores,"
            " lambda weights=weights: weights)  # type: ignore[misc]\n"
        ),
        "test_train_group.py::test_scores_are_taken_before_a_checkpoint_that_waits_for_them_is_committed",
        (
            "A checkpoint can be committed before the scores of its step are recorded, so that a training"
            " that is killed then and resumed lacks that evaluation, and may choose other best weights."
        ),
    ),
    Mutation(
        "tasks/models/architectures/convnet.py",
        "        most = min(height, width).bit_length()\n",
        "        most = max(height, width).bit_length()\n",
        "test_model_kinds.py test_config_rules.py test_config_values.py test_config_refusals.py",
        (
            "A resnet with six stages is accepted for images of 4 x 64 pixels, whose height is halved to"
            " nothing after three stages, instead of being refused with a remedy."
        ),
    ),
    Mutation(
        "tasks/runner/signals.py",
        "                self._working -= 1\n",
        "                self._working = 0\n",
        "test_run_gang.py::test_a_signal_interrupts_at_once_only_while_nothing_computes",
        (
            "With several trials or variants at a time, a SIGTERM after the first of them has ended"
            " interrupts the others at once instead of letting their processes save a checkpoint."
        ),
    ),
    Mutation(
        "tasks/models/architectures/encoder.py",
        "    row, column = np.divmod(np.arange(rows * columns), columns)\n",
        "    row, column = np.divmod(np.arange(rows * columns), rows)\n",
        "test_model_kinds.py test_model_parts.py",
        (
            "A vision transformer on images that are not square gets wrong positions for its patches:"
            " neighbours in a row have the positions of other rows, and it learns worse."
        ),
    ),
    Mutation(
        "flows/presets/scripts/photo_patches.py",
        "            for left in range(0, photo.width - SIDE + 1, SIDE):\n",
        "            for left in range(0, photo.width - SIDE, SIDE):\n",
        "test_presets_have_all_their_data.py",
        (
            "The data of the preset `patches` lacks the last column of squares of each photograph (640 is a"
            " multiple of 32): 13 images fewer per class."
        ),
    ),
    Mutation(
        "tasks/sources/kinds/folders.py",
        '    path: Annotated[Text, NOT_IDENTITY, IsPath()]\n    """The folder that holds the class folders',
        '    path: Annotated[Text, NOT_IDENTITY]\n    """The folder that holds the class folders',
        "test_config_reaches.py::test_a_path_is_relative_to_the_folder_of_the_preset_in_every_section",
        (
            "A preset with an image_folder or audio_folder source and a relative path finds no files (or a folder of"
            " that name) when it is run from a folder other than the preset's."
        ),
    ),
    Mutation(
        "tasks/view/report.py",
        "    return sorted(rows, key=lambda row: -size(row))[:CLASSES] if len(rows) > CLASSES else rows\n",
        "    return sorted(rows, key=lambda row: size(row))[:CLASSES] if len(rows) > CLASSES else rows\n",
        "test_page_leaves_out_the_least.py::test_of_many_classes_those_with_the_most_examples_are_shown",
        "With more than 40 classes the page of a run shows the 40 rarest instead of the 40 with the most examples.",
    ),
    Mutation(
        "infra/backup.py",
        "    for old in set(of_home[:-keep]) - set(with_registry[-1:]):\n",
        "    for old in of_home[:-keep]:\n",
        "test_backup_restores.py test_platform_fine_print.py",
        (
            "With `backup --keep 7`, after seven backups without a registry (for instance while the stack"
            " used another server) the last backup that still has mlflow.db is deleted and the registry can"
            " no longer be restored."
        ),
    ),
    Mutation(
        "tasks/compression/search.py",
        "    sampler = optuna.samplers.TPESampler(seed=seed + len(trials), n_startup_trials=STARTUP)\n",
        "    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP)\n",
        "test_compress_search.py test_compress_parts.py",
        (
            "`compress.search` draws the same method again in each of its first eight trials, so that a"
            " search with few trials tries one variant only."
        ),
    ),
    Mutation(
        "tasks/snapshots/packing.py",
        "    rows = -(-(int(lengths.sum()) - 1) // block)\n",
        "    rows = (int(lengths.sum()) - 1) // block\n",
        "test_snapshot_packing.py test_snapshot_parts.py test_snapshot_tokens.py",
        (
            "The last, incomplete row of a language model's stream is left out: the last up to block - 1"
            " tokens of a split are neither trained on nor evaluated, and short texts have no row at all."
        ),
    ),
    Mutation(
        "tasks/training/engines/tensorflow/strategies/replicated.py",
        '    if len(tf.config.list_physical_devices("GPU")) < devices:\n',
        '    if len(tf.config.list_physical_devices("GPU")) <= devices:\n',
        "test_train_uses_all_accelerators.py",
        (
            "On a machine with 4 GPUs, `mirrored` or `pipeline` with `devices: 4` silently trains on 4"
            " logical CPU devices."
        ),
    ),
    Mutation(
        "tasks/evaluation/robustness.py",
        "            parts.append(self._made(table, np.arange(at, at + table.num_rows)))\n",
        "            parts.append(self._made(table, np.arange(table.num_rows)))\n",
        "test_evaluate_probes.py test_evaluate_fine_print.py test_evaluate_unequal_parts.py",
        (
            "Probes of raw columns draw the same changes again for every batch of test examples, so that the"
            " drop depends on the batch size and its interval is too narrow."
        ),
    ),
    Mutation(
        "tasks/environment/hardware.py",
        '            left.append(int(limit) - int((level / "memory.current").read_text()) + caches)\n',
        '            left.append(int(limit) - int((level / "memory.current").read_text()) - caches)\n',
        "test_train_memory.py test_environment.py",
        (
            "In a container whose page cache is filled by the conversion, hardly any memory counts as"
            " available, so that `train.fit_memory` divides steps into far too many micro-batches or refuses."
        ),
    ),
    Mutation(
        "tasks/records/reading.py",
        "        return int(np.isnan(values).reshape(len(values), -1).any(axis=1).sum())\n",
        "        return int(np.isnan(values).reshape(len(values), -1).all(axis=1).sum())\n",
        "test_convert_parts.py::test_a_row_that_lacks_any_value_of_a_column_counts_as_missing",
        (
            "Rows of an array column such as number[8] that lack some of their values are not counted as"
            " missing, so that the snapshot reports 0 missing."
        ),
    ),
    Mutation(
        "tasks/records/column_types/categories.py",
        '    return {"count": len(values), "missing": counts.pop("", 0), "values": limited(counts)}\n',
        '    return {"count": len(values), "missing": counts.get("", 0), "values": limited(counts)}\n',
        "test_convert_statistics.py test_convert_profile.py test_convert_parts.py",
        (
            "The statistics of a category with missing values count the empty string as a value: one distinct"
            " value too many, and an empty one among the most frequent."
        ),
    ),
    Mutation(
        "tasks/evaluation/probes.py",
        '        deviation = np.sqrt(np.asarray(feature.get("variance", 1.0), np.float64))\n',
        '        deviation = np.asarray(feature.get("variance", 1.0), np.float64)\n',
        "test_evaluate_probes.py test_evaluate_fine_print.py test_evaluate_unequal_parts.py",
        (
            "The noise probe on standardised numbers is scaled by the variance instead of the deviation: for"
            " a column with deviation 100 it is a hundred times too strong, for one of 0.01 a hundred times"
            " too weak."
        ),
    ),
    Mutation(
        "tasks/registry/rollback.py",
        "    logged = audit.ever_champion(name) if audit.fault() is None else set()\n",
        "    logged = audit.ever_champion(name)\n",
        "test_promote_approval.py::test_a_damaged_log_makes_no_version_one_that_was_champion",
        (
            "`millrace rollback --to VERSION` accepts a version that was never champion where somebody has"
            " added a line to the audit log, as its damage is no longer looked at."
        ),
    ),
    Mutation(
        "tasks/records/near/__init__.py",
        "    given = np.array([found_hash is not None for found_hash in found], bool)\n",
        "    given = np.array([bool(found_hash) for found_hash in found], bool)\n",
        "test_convert_near_duplicates.py test_convert_duplicates.py",
        (
            "Images whose brightness falls from left to right in all rows (hash 0) are treated as missing"
            " ones: their near-duplicates are neither found nor kept in one split."
        ),
    ),
    Mutation(
        "tasks/exporting/latency.py",
        '    return {"again": again, "conclusive": low <= again <= high, "variants": rows}\n',
        '    return {"again": again, "conclusive": low <= again, "variants": rows}\n',
        (
            "test_compress_gates.py test_compress_parts.py test_export_parts.py test_export_works.py"
            " test_export_unequal_parts.py"
        ),
        (
            "A latency measurement in which the float file against itself took 1.5 times as long is called"
            " conclusive, and the latency gate judges by it without a margin."
        ),
    ),
    Mutation(
        "tasks/training/engines/parameter_server.py",
        "                        tf.constant(self.position + k, tf.int64),\n",
        "                        tf.constant(k, tf.int64),\n",
        "test_train_parameter_server.py::test_a_step_drops_out_by_its_own_number_however_many_are_computed_in_a_call",
        (
            "With the parameter server, dropout uses the same masks again in each call of the loop (every"
            " log_every steps) instead of other ones at each global step."
        ),
    ),
    Mutation(
        "tasks/search/choosing.py",
        "(min_resource=self.first, max_resource=self.last, reduction_factor=self.factor)\n",
        "(min_resource=self.first, max_resource=self.last)\n",
        "test_tune_parts.py::test_each_pruner_and_each_sampler_gets_all_of_its_settings",
        "`tune.pruner.factor` of hyperband is ignored: Optuna's 3 is used where the user has set 2 or 4.",
    ),
    Mutation(
        "tasks/search/choosing.py",
        '        return GridSampler(grid, derived(seed, "grid"))\n',
        '        return GridSampler(grid, derived(seed, f"grid/{number}"))\n',
        "test_tune_search.py test_tune_parts.py test_tune_choices.py",
        (
            "A grid search shuffles its combinations anew for each trial, so that some are tried several"
            " times and others never."
        ),
    ),
    Mutation(
        "tasks/search/space.py",
        "        return FloatDistribution(self.low, self.high, log=self.log, step=self.step)\n",
        "        return FloatDistribution(self.low, self.high, log=self.log)\n",
        "test_tune_search.py test_tune_parts.py test_tune_choices.py test_settings_reach_their_use.py",
        "The `step` of a range of floats in `tune.space` is ignored: 0.1 to 0.5 by 0.1 gives trials such as 0.2371.",
    ),
    Mutation(
        "tasks/sources/python.py",
        "        return value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value\n",
        "        return value.replace(tzinfo=None) if value.tzinfo else value\n",
        "test_source_python.py test_source_edges.py test_source_parts.py",
        (
            "Times with an offset that a user's function yields (12:00+02:00) are stored as 12:00 UTC instead"
            " of 10:00, so that splits by time and time_parts are shifted by hours."
        ),
    ),
    Mutation(
        "tasks/view/words.py",
        (
            "    padded = f\", {padding / sum(split['rows'] * (block + 1) for split in splits):.1%} padding\""
            ' if padding else ""\n'
        ),
        (
            "    padded = f\", {padding / sum(split['rows'] * block for split in splits):.1%} padding\" if"
            ' padding else ""\n'
        ),
        "test_display_words.py test_snapshot_packing.py",
        (
            "The share of padding of a best_fit snapshot is shown too high, as rows are taken to be one token"
            " shorter (with small blocks above 100 %)."
        ),
    ),
    Mutation(
        "tasks/guess/examples.py",
        "    if len(shapes) > 1 or not min(shapes):\n",
        "    if not min(shapes):\n",
        "test_init_sources.py::test_arrays_in_a_tar_are_a_column_where_all_are_of_one_shape",
        (
            "`millrace init` on a WebDataset whose .npy files have different shapes writes a column"
            " `number[...]` of the smallest shape, and the run then quarantines all others instead of the"
            " column being ignored with a reason."
        ),
    ),
]

FIFTH = [
    Mutation(
        "tasks/runs/differences.py",
        (
            "    same = [\n        artifact\n        for artifact in store.artifacts(planned.kind)"
            '\n        if artifact.manifest["inputs"]["config"].get("variant") =='
            ' planned.inputs["config"].get("variant")\n    ]\n'
        ),
        "    same = store.artifacts(planned.kind)\n",
        "test_diff_compares_runs.py test_store_fine_print.py test_store_unequal_parts.py test_store_questions.py",
        (
            "`millrace why` explains why int8_static would be made again by its differences from another"
            " variant (float16) of the same run, and not by the changed setting."
        ),
    ),
    Mutation(
        "tasks/compression/methods/distill.py",
        "        return ops.sum(values * real, axis=1) / ops.maximum(ops.sum(real, axis=1), 1.0)\n",
        "        return ops.mean(values * real, axis=1)\n",
        "test_compress_trains.py test_compress_parts.py test_compress_unequal_parts.py test_evaluate_tagging.py",
        (
            "In the distillation of a tagger a sentence of 10 words padded to 100 learns from the teacher"
            " with a tenth of the weight of a full one: the student follows the teacher less where texts are"
            " short."
        ),
    ),
    Mutation(
        "tasks/models/architectures/user_models.py",
        '        return self.path if self.weights and self.path.endswith(".keras") else None\n',
        '        return self.path if self.path.endswith(".keras") else None\n',
        "test_model_keras_file.py test_config_values.py test_train_init.py",
        (
            "A model of a file `*.keras` with the default `weights: false` begins its training with the"
            " weights in the file, and not with new ones by the seed: several seeds give nearly the same"
            ' model, and "trained from scratch" is not true.'
        ),
    ),
    Mutation(
        "tasks/store/files.py",
        (
            '    if not line.endswith(b"\\n"):\n        return None\n    try:\n        row = json.loads(line)\n'
            "    except ValueError:\n        return None\n"
        ),
        "    row = json.loads(line)\n",
        "test_store_lines.py test_page_samples.py test_train_curves.py test_train_decides.py",
        (
            "A training that was killed while it wrote its samples (the last line is incomplete) cannot be"
            " resumed: it fails with a JSON error, and so does its page."
        ),
    ),
    Mutation(
        "infra/deployments.py",
        'CODE = ("flows", "tasks")',
        'CODE = ("flows", "tasks.config")',
        "test_platform_fine_print.py",
        "After a new version the form of a deployment lacks the settings of a section that stands with its noun.",
    ),
    Mutation(
        "infra/deployments.py",
        '        yield from deployment.get("build", written.get("build")) or []\n',
        '        yield from deployment.get("build") or []\n',
        "test_platform_fine_print.py",
        (
            "With a prefect.yaml whose `build` is at the top for all deployments, a changed preset (or a"
            " build step of the user's) is not seen: `millrace up` says that all is deployed and Prefect"
            " keeps the old parameters."
        ),
    ),
    Mutation(
        "tasks/snapshots/transforms/texts.py",
        (
            '            return "the package tokenizers divides its texts"\n        if state["lowercase"]:'
            '\n            return "Python makes its letters small"\n'
        ),
        '            return "the package tokenizers divides its texts"\n',
        "test_transform_values.py",
        (
            "With the transform `tokens` of bytes and `lowercase: true`, the SavedModel's signature for raw"
            ' text keeps capital letters: "Hello" gets other ids, and another prediction, than in training.'
        ),
    ),
    Mutation(
        "tasks/guess/folders.py",
        (
            "    except UnicodeDecodeError as error:\n        if error.start < len(head) - 3:  # otherwise"
            " the sample ends within a character\n            return False\n"
        ),
        "    except UnicodeDecodeError:\n        return False\n",
        "test_source_names.py",
        (
            "`millrace init` on a folder of large Chinese or Japanese texts (longer than 64 KiB each) finds"
            " no texts in it, as two of three samples end within a character of three bytes."
        ),
    ),
    Mutation(
        "tasks/training/engines/tensorflow/strategies/replicated.py",
        "                step.optimizer.learning_rate.assign(rates[k])\n",
        "                step.optimizer.learning_rate.assign(rates[0])\n",
        "test_train_step.py test_train_options.py test_train_workers.py test_train_seeds.py test_train_group.py",
        (
            "On several devices (mirrored, multi_worker, tpu) all steps of a call use the learning rate of"
            " its first step: a warm-up or a cosine goes in stairs, and the result depends on how many steps"
            " a call has and differs from one device."
        ),
    ),
    Mutation(
        "infra/access.py",
        '    return bool(re.fullmatch(r"localhost|127(\\.\\d+){3}", host))\n',
        '    return bool(re.match(r"localhost|127(\\.\\d+){3}", host))\n',
        "test_platform_layout.py test_platform_refuses_early.py test_platform_fine_print.py test_platform_guard.py",
        (
            "`millrace up --host localhost.lab.example.org` (a name that resolves to a network address)"
            " counts as loopback: the servers are reachable from the network without a login."
        ),
    ),
    Mutation(
        "tasks/runner/starting_models.py",
        '        "precision": config.precision,\n',
        "",
        "test_run_stages.py test_train_self_test.py test_golden_digests.py test_settings_reach_their_use.py",
        (
            "After a float32 training with a strategy, a float16 or bfloat16 training with it is not tested"
            " any more: the verdict of float32 is taken for it, and wrong arithmetic, such as an overflow"
            " that is not skipped, goes unnoticed."
        ),
    ),
    Mutation(
        "tasks/records/near/__init__.py",
        "    return common / (len(ours) + len(theirs) - common)\n",
        "    return common / max(len(ours), len(theirs))\n",
        "test_convert_near_duplicates.py test_golden_draws.py",
        (
            "Pairs of texts below the chosen similarity are taken for near-duplicates: two texts of equal"
            " length with 84 % of their pieces in common (Jaccard index 0.72) count as 0.84, above the limit"
            " of 0.8, and with `drop` one of them is lost."
        ),
    ),
    Mutation(
        "tasks/evaluation/probes.py",
        "            down, right = draw.integers(-self.pixels, self.pixels, 2, endpoint=True)\n",
        "            down, right = draw.integers(-self.pixels, self.pixels, 2)\n",
        "test_evaluate_probes.py test_evaluate_edges.py test_golden_draws.py test_evaluate_unequal_parts.py",
        (
            "The probe `shift` never moves an image down or right by the full number of pixels; with `pixels:"
            " 1` images move up and left alone, so that robustness is reported too high."
        ),
    ),
    Mutation(
        "tasks/snapshots/tokens.py",
        "    before = np.cumsum(sizes[sample]) - sizes[sample]\n",
        "    before = np.cumsum(sizes[sample])\n",
        "test_snapshot_tokens.py test_snapshot_parts.py",
        (
            "The document in which `snapshot.tokenizer_bytes` ends is left out of the tokenizer's sample;"
            " where the first document is larger than that, the tokenizer is fitted to no text at all."
        ),
    ),
    Mutation(
        "tasks/tracking/runs.py",
        '    client.set_terminated(mlflow_id, STATUS.get(run.record["status"], "FAILED"), int(time.time() * 1000))\n',
        '    client.set_terminated(mlflow_id, STATUS.get(run.record["status"], "FAILED"), int(time.time()))\n',
        "test_tracking_parts.py test_tracking_journal.py test_tracking_unequal_parts.py test_tracking_of_attempts.py",
        "MLflow shows runs that ended in January 1970, with negative durations; sorting by end or duration is useless.",
    ),
    Mutation(
        "tasks/training/engines/tensorflow/objectives.py",
        'targets", rule, "use multilabel")\n        return cls(loss, smoothing)\n',
        'targets", rule, "use multilabel")\n        return cls(loss, 0.0 if cls.task == "anomaly" else smoothing)\n',
        "test_evaluate_anomaly.py test_train_losses.py test_train_objectives.py",
        (
            "`train.label_smoothing: 0.1` of an anomaly detector changes nothing but the digest: the loss is"
            " that without smoothing."
        ),
    ),
    Mutation(
        "flows/asking.py",
        "        response = Approval(**orjson.loads(max(responses, key=lambda each: str(each.created)).value))\n",
        "        response = Approval(**orjson.loads(min(responses, key=lambda each: str(each.created)).value))\n",
        "test_platform_fine_print.py",
        (
            "Where the same export was suspended twice (rejected in a first attempt, accepted in a later"
            " one), the oldest answer counts: the rejection of last time is applied again, although the user"
            " has accepted now."
        ),
    ),
    Mutation(
        "tasks/errors.py",
        "    errno.ENOSPC,\n    errno.EDQUOT,\n",
        "    errno.ENOSPC,\n",
        "test_environment.py",
        (
            "With an exceeded disk quota the command prints a traceback and calls it a bug of Millrace, and a"
            " tuning counts such a trial as failed by its own values instead of stopping."
        ),
    ),
    Mutation(
        "tasks/records/column_types/categories.py",
        (
            "        gone = np.flatnonzero(np.asarray(category.missing(cast.values)))\n        values,"
            " unknown = _among(_named(cast.values, self.feature.classes), self.feature.classes)\n"
            '        return Typed(values, {**unknown, **dict.fromkeys(gone.tolist(), "missing"), **cast.bad})\n'
        ),
        (
            "        values, unknown = _among(_named(cast.values, self.feature.classes), self.feature.classes)\n"
            "        return Typed(values, {**unknown, **cast.bad})\n"
        ),
        (
            "test_evaluate_tagging.py test_convert_kinds.py test_convert_columns.py test_init_tags.py"
            " test_convert_parts.py"
        ),
        (
            "A row whose list of tags has a null or an empty tag is not quarantined: the data gets a class"
            " with an empty name, which the tagger learns."
        ),
    ),
    Mutation(
        "tasks/view/report.py",
        "        rows = ((name, self.before[name], self.after[name]) for name in names)\n",
        "        rows = ((name, self.after[name], self.before[name]) for name in names)\n",
        "test_page_fine_print.py test_display_lines.py",
        (
            "`millrace show` gives the loss and the calibration error before and after the temperature in"
            " exchanged places: a calibration that helped seems to have made the model worse."
        ),
    ),
    Mutation(
        "tasks/reader/image.py",
        'IN_TEXT = (b"eXIf", b"Raw profile type exif", b"XML:com.adobe.xmp")\n',
        'IN_TEXT = (b"eXIf", b"XML:com.adobe.xmp")\n',
        "test_transform_images.py",
        (
            'A PNG that ImageMagick made of a rotated photo (EXIF in the text chunk "Raw profile type exif")'
            " is read lying on its side."
        ),
    ),
    Mutation(
        "tasks/exporting/fresh_process.py",
        "OF_THE_HOST = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)\n",
        "OF_THE_HOST = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)\n",
        (
            "test_export_works.py test_export_parts.py test_export_unequal_parts.py test_deadlines_fire.py"
            " test_run_gang.py"
        ),
        (
            "Where the kernel kills the verifying process for lack of memory, the variant is said not to load"
            " or run and is judged by that, instead of an error of the host after which one may run again."
        ),
    ),
    Mutation(
        "flows/commands/stack.py",
        "        None if alert == automations.OFF else alert or default.alert,\n",
        "        None if alert == automations.OFF else alert,\n",
        "test_platform_layout.py",
        (
            "A second `millrace up` without --alert silently drops the webhook of the first one: nobody is"
            " told any more of dead and late runs."
        ),
    ),
    Mutation(
        "tasks/records/rules.py",
        "    return time if time.tzinfo else time.replace(tzinfo=UTC)\n",
        "    return time.replace(tzinfo=UTC)\n",
        "test_convert_parts.py",
        (
            "A bound such as `min: 2024-06-01T00:00+02:00` of a column of times is read as midnight UTC, two"
            " hours later than written: rows of these two hours are quarantined."
        ),
    ),
    Mutation(
        "tasks/search/choosing.py",
        "        return SuccessiveHalvingPruner(min_resource=self.first, reduction_factor=self.factor)\n",
        "        return SuccessiveHalvingPruner(min_resource=self.first)\n",
        "test_tune_search.py test_tune_parts.py test_tune_choices.py",
        (
            "`tune.pruner: {kind: halving, first: 10, factor: 2}` prunes with a factor of 4: three of four"
            " trials end at a rung instead of one of two."
        ),
    ),
    Mutation(
        "tasks/search/choosing.py",
        '    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=4).digest()\n',
        "    digest = hashlib.blake2b(name.encode(), digest_size=4).digest()\n",
        "test_tune_search.py test_tune_parts.py test_tune_choices.py test_settings_reach_their_use.py",
        (
            "Tunings with other seeds try the same random values (and a grid the same order): repeating a"
            " search with `seed: 2` gives no new trials."
        ),
    ),
    Mutation(
        "tasks/training/engines/tensorflow/engine.py",
        "        if (parts := config.accumulate * config.strategy.micro_batches_of_each) > 1:\n",
        "        if (parts := config.accumulate) > 1:\n",
        "test_train_step.py",
        (
            "A model with BatchNormalization is trained in a pipeline with several micro-batches without an"
            " error, with statistics of a part of the batch, so that the result differs from that of one"
            " device."
        ),
    ),
    Mutation(
        "tasks/feed/augmentations.py",
        "        tops, lefts = (draws.integers(number, 2 * border + 1) for number in (0, 1))\n",
        "        tops, lefts = (draws.integers(0, 2 * border + 1) for _ in range(2))\n",
        "test_augment.py test_golden_draws.py",
        (
            "The augmentation `crop` moves images along the diagonal alone, down as far as right, instead of"
            " in both directions independently."
        ),
    ),
    Mutation(
        "tasks/store/staging.py",
        '        for inner in folder.glob("**/"):\n            sync(inner)\n        return folder\n',
        "        return folder\n",
        "test_store_commits.py test_store_fine_print.py",
        (
            "After a power failure just after publishing, the nested folders of an artifact (such as"
            " saved_model/variables) may be empty or gone although its manifest is there: the artifact is"
            " damaged and must be made again."
        ),
    ),
    Mutation(
        "tasks/evaluation/gating.py",
        "        return [loss(self.label, metric, *pair, sign, self.max_loss, subject.units, subject.counted)]\n",
        "        return [loss(self.label, metric, *pair, 1, self.max_loss, subject.units, subject.counted)]\n",
        "test_compress_gates.py test_compress_verdicts.py test_promote_gates.py test_promote_edges.py",
        (
            "For metrics of which lower is better (rmse, bits per byte, loss) the gate is upside down: a"
            " version that is clearly worse than the champion passes, and a better one fails."
        ),
    ),
    Mutation(
        "tasks/search/study.py",
        "        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)\n",
        "        evaluator = optuna.importance.FanovaImportanceEvaluator()\n",
        "test_tune_parts.py",
        (
            "The importances of a tuning's keys are other ones at each run over the same study: trials.json"
            " and the page change although nothing was tried."
        ),
    ),
    Mutation(
        "flows/running.py",
        (
            '        if run.record["attempts"] and run.record["attempts"][-1]["prefect_flow_run_id"] =='
            " str(flow_run.id):\n"
        ),
        '        if run.record["attempts"] and run.record["attempts"][0]["prefect_flow_run_id"] == str(flow_run.id):\n',
        "test_platform_fine_print.py",
        (
            "A run that was resumed and whose second attempt is killed (out of memory, kill -9) keeps the"
            ' status "running" for ever, and no message about its crash is sent.'
        ),
    ),
    Mutation(
        "tasks/sources/table_files.py",
        (
            "                yield from self._payloads.filled(rows, self._content) if self._payloads.names else (rows,)"
            "\n            self._check_unchanged(path)\n"
        ),
        "                yield from self._payloads.filled(rows, self._content) if self._payloads.names else (rows,)\n",
        "test_source_csv.py",
        (
            "A table that another program rewrites while it is being read gives records that are a mixture of"
            " both versions, published under the digest of the first one, without an error."
        ),
    ),
    Mutation(
        "tasks/feed/orders.py",
        (
            "        first = begin - (epoch * n + begin) % self._batch_size  # where the batch begins that"
            " has position `begin`\n"
        ),
        "        first = begin - begin % self._batch_size  # where the batch begins that has position `begin`\n",
        "test_order_lengths.py",
        (
            "With `train.order: lengths` and a number of rows that the batch size does not divide, from the"
            " second epoch on each batch straddles two groups of lengths: much padding, and an order other"
            " than that documented."
        ),
    ),
    Mutation(
        "tasks/sources/kinds/tables.py",
        "        if self.header is not True and sorted(self.header) != sorted(self.columns):\n",
        "        if self.header is not True and set(self.header) != set(self.columns):\n",
        "test_config_rules.py test_config_values.py test_source_csv.py test_config_refusals.py",
        (
            "A preset with `header: [id, text, text]` for the columns id and text is accepted, where it was"
            " refused before anything was written; a column is then read from the wrong cells or the run"
            " fails in the middle of the conversion."
        ),
    ),
    Mutation(
        "tasks/view/columns.py",
        '    rows = number + statistics["count"] if "mean" in statistics else statistics.get("count", 0)\n',
        '    rows = statistics.get("count", 0)\n',
        "test_page_parts.py test_page_fine_print.py test_page_unequal_parts.py test_page_shows_all.py",
        (
            "The page says of a column of numbers that is missing in half of the rows that 100 % are missing,"
            " as its count is that of the values that are there."
        ),
    ),
    Mutation(
        "tasks/registry/comparison.py",
        "    return None if pair is None else (pair[1], pair[0].values)\n",
        "    return None if pair is None else (pair[1], pair[1].values)\n",
        "test_settings_reach_their_use.py",
        (
            "A new version is compared with itself instead of the champion: the change is always 0, and every"
            " gate against the champion passes."
        ),
    ),
    Mutation(
        "tasks/processes/messages.py",
        "            return not readable or bool(self._socket.recv(1, socket.MSG_PEEK))\n",
        "            return not readable or bool(self._socket.recv(1))\n",
        "test_run_gang.py test_train_hosts.py test_run_processes.py",
        (
            "Where a message of a host is waiting while its connection is looked at, its first byte is lost,"
            " the next message cannot be read, and a healthy host is dropped from the training."
        ),
    ),
    Mutation(
        "tasks/search/config.py",
        (
            "        limits = [self.trials or MOST, *([self.combinations] if self.sampler.exhausts else [])]"
            "\n        return min(limits)\n"
        ),
        "        return self.trials or (self.combinations if self.sampler.exhausts else MOST)\n",
        "test_tune_search.py test_tune_parts.py test_config_values.py test_config_rules.py",
        (
            "A grid of 6 combinations with `tune.trials: 20` goes on after the sixth trial and repeats"
            " combinations, fourteen trials for nothing."
        ),
    ),
    Mutation(
        "tasks/environment/process.py",
        (
            "        closed = isinstance(error, BrokenPipeError) or (\n            error.errno == errno.EIO"
            " and stat.S_ISCHR(os.fstat(self._stream.fileno()).st_mode)\n        )\n"
        ),
        "        closed = isinstance(error, BrokenPipeError)\n",
        "test_run_stops.py test_environment.py test_command_line.py test_tracking_unequal_parts.py",
        (
            'A run that ignores SIGHUP (`trap "" HUP`) and whose terminal is closed fails with "standard'
            ' output: Input/output error" in the middle of its work, instead of going on.'
        ),
    ),
    Mutation(
        "tasks/models/layers/attention.py",
        "    if config.experts_per_token > 1:\n        gates = gates / ops.sum(gates, axis=-1, keepdims=True)\n",
        "    gates = gates / ops.sum(gates, axis=-1, keepdims=True)\n",
        "test_train_experts.py test_model_architectures.py test_model_parts.py",
        (
            "With `experts_per_token: 1` the gate of the chosen expert is always 1, so that the router gets"
            " no gradient from the predictions and never learns which expert to choose."
        ),
    ),
]


SIXTH = [
    Mutation(
        "flows/maintenance.py",
        "    backups.verify(made)\n",
        "",
        "test_backup_restores.py test_gc_counts_days.py test_platform_fine_print.py",
        (
            "A backup that was damaged while it was copied is reported as verified, and good older backups"
            " are rotated out in its favour."
        ),
    ),
    Mutation(
        "flows/commands/backfill.py",
        "template.format(begin=span[0], end=span[1])",
        "template.format(begin=span[0], end=span[0])",
        "test_backfill_spans.py test_command_replies.py",
        "A backfill that filters by {begin} and {end} queues runs over empty spans, as the end is the beginning.",
    ),
    Mutation(
        "infra/stack.py",
        "fcntl.flock(file, fcntl.LOCK_EX)",
        "fcntl.flock(file, fcntl.LOCK_SH)",
        "test_locks_are_taken.py test_platform_layout.py test_platform_fine_print.py",
        (
            "Two `millrace up` or `down` of one home run at the same time, and start services twice or leave"
            " some that stack.json does not know."
        ),
    ),
    Mutation(
        "infra/services.py",
        "    deadline = time.monotonic() + BUSY\n    while True:\n",
        "    while True:\n        deadline = time.monotonic() + BUSY\n",
        "test_deadlines_fire.py test_platform_work_pools.py test_platform_fine_print.py",
        "A command whose server keeps answering 503 hangs for ever instead of failing after 30 seconds.",
    ),
    Mutation(
        "tasks/store/store.py",
        "            sync(target.parent)\n",
        "",
        "test_store_commits.py test_store_fine_print.py",
        "After a power cut an artifact that was reported as published, and whose staging was deleted, may be gone.",
    ),
    Mutation(
        "tasks/runs/collection.py",
        (
            "            if locked and chosen(name) and not needs.by_now(name):"
            '\n                yield Dropped(f"staging of {name[:40]}", path, size(path))\n'
        ),
        (
            '            if locked and chosen(name):\n                yield Dropped(f"staging of {name[:40]}", path,'
            " size(path))\n"
        ),
        "test_gc_beside_runs.py test_store_unequal_parts.py",
        (
            "`millrace gc` deletes checkpoints and pieces of a stopped run, which then starts its training"
            " from the beginning."
        ),
    ),
    Mutation(
        "tasks/registry/approval.py",
        (
            '    if by := registered.tags.get("millrace.rolled_back"):\n        return hold(f"candidate only:'
            ' rolled back by {by}")\n'
        ),
        "",
        "test_promote_approval.py test_promote_killed.py test_promote_edges.py",
        "A version that a person has rolled back becomes champion again when its pipeline is run again.",
    ),
    Mutation(
        "tasks/runner/identities.py",
        "[*config.source_files(), *init_files(train.init), *loss_files(train), *own_metrics]",
        "[*config.source_files(), *init_files(train.init)]",
        (
            "test_config_reaches.py test_golden_digests.py test_store_questions.py test_model_import.py"
            " test_train_own_loss.py"
        ),
        "After an edit of their own loss function users get the old model from the store, as if nothing had changed.",
    ),
    Mutation(
        "tasks/runner/releasing.py",
        "higher_is_better, baselines, config.require)",
        "higher_is_better, baselines)",
        "test_promote_approval.py test_promote_edges.py test_settings_reach_their_use.py test_promote_gates.py",
        "With promote.require: better a version whose improvement is within noise becomes champion all the same.",
    ),
    Mutation(
        "tasks/processes/member.py",
        "        finally:\n            if process is not None:\n                process.kill()\n        return None\n",
        "        return None\n",
        "test_deadlines_fire.py test_train_hosts.py test_run_gang.py",
        (
            "When the chief's host is lost, the compute process on another host goes on, and holds its"
            " memory, accelerator and port."
        ),
    ),
    Mutation(
        "tasks/processes/gang.py",
        '        if kind == "progress":\n            self._replaced = 0\n',
        "",
        (
            "test_run_gang.py test_deadlines_fire.py test_train_engine_door.py test_train_workers.py"
            " test_train_parameter_server.py"
        ),
        "A long training whose workers are replaced now and then, with progress in between, fails at the fourth loss.",
    ),
    Mutation(
        "tasks/tracking/runs.py",
        "if run.info.run_id in registered or DELETED_TAG in run.data.tags",
        "if DELETED_TAG in run.data.tags",
        "test_gc_counts_days.py test_tracking_parts.py test_gc_drops_old_history.py",
        "`millrace gc --days` deletes the files of registered model versions, the champion's included.",
    ),
    Mutation(
        "tasks/search/choosing.py",
        'RandomSampler(derived(seed, f"trial/{number}"))',
        'RandomSampler(derived(seed, "trial"))',
        "test_tune_parts.py test_tune_search.py test_tune_choices.py test_settings_reach_their_use.py",
        "All trials of a random search have the same values, so that the search tries one point.",
    ),
    Mutation(
        "tasks/environment/secrets.py",
        '    if not secret:\n        raise _missing(reference, "empty or not set")\n',
        "",
        (
            "test_platform_refuses_early.py test_environment.py test_run_notifies.py test_source_sql.py"
            " test_platform_fine_print.py"
        ),
        (
            "A reference to a variable that is not set counts as an empty secret: no early warning or"
            " refusal, and messages or logins fail later."
        ),
    ),
    Mutation(
        "tasks/compression/methods/quantise.py",
        "key=lambda layer: -errors[layer]",
        "key=lambda layer: errors[layer]",
        "test_compress_unequal_parts.py test_compress_methods.py test_compress_parts.py",
        (
            "The least sensitive layers stay float and the most sensitive ones are quantised, so that the"
            " file is larger than needed for its quality."
        ),
    ),
    Mutation(
        "tasks/compression/verdicts.py",
        'product(spec.methods, "gzip_limit")',
        'product(spec.methods, "size_ratio")',
        (
            "test_compress_variants.py test_compress_methods.py test_compress_parts.py"
            " test_compress_unequal_parts.py test_compress_gates.py"
        ),
        "A pruned variant that is not smaller after gzip is accepted, as its gzip size is not judged any more.",
    ),
    Mutation(
        "tasks/training/schedules.py",
        "bisect_right(self.boundaries, step)]",
        "bisect_right(self.boundaries, step - 1)]",
        "test_train_spikes.py test_config_values.py test_train_optimizers.py test_config_rules.py",
        "With a piecewise schedule the learning rate changes one step later than the boundaries say.",
    ),
    Mutation(
        "tasks/sources/kinds/tables.py",
        (
            "        if unreferenced(self.url) and PASSWORD.search(self.url):\n            raise"
            ' Conflict("url", "a URL with a password in it", RULE, REMEDY)\n'
        ),
        "",
        "test_config_rules.py test_source_sql.py test_config_refusals.py",
        "A database URL with a literal password is accepted, and stored in run records, pages and MLflow.",
    ),
    Mutation(
        "tasks/models/prunable.py",
        "elif width % (2 * heads):",
        "elif width % heads:",
        (
            "test_config_rules.py test_config_reaches.py test_config_combinations.py test_config_refusals.py"
            " test_model_architectures.py"
        ),
        (
            "A width that heads cut into odd parts is accepted by the preset, and the run fails later when"
            " rotary positions are built."
        ),
    ),
    Mutation(
        "tasks/feed/orders.py",
        "(passes < epochs - epoch)",
        "(passes <= epochs - epoch)",
        (
            "test_order_permutation.py test_train_ledger.py test_snapshot_reading.py test_order_lengths.py"
            " test_train_resumes_exactly.py"
        ),
        (
            "The examples that fill up the last batch count: of an evaluation the first rows twice, of a"
            " training some of an epoch too many."
        ),
    ),
    Mutation(
        "tasks/sources/hashes.py",
        'keyed(hashes, seed, "split")',
        'keyed(hashes, 0, "split")',
        (
            "test_convert_split.py test_convert_faults.py test_convert_parts.py test_convert_duplicates.py"
            " test_settings_reach_their_use.py"
        ),
        "records.split_seed has no effect: every seed gives the same train, validation and test.",
    ),
    Mutation(
        "tasks/draws.py",
        'scramble(scramble(seed ^ split_number("augment")) ^ place)',
        'scramble(seed ^ split_number("augment"))',
        "test_augment.py test_golden_draws.py",
        (
            "All augmentations of a list draw the same random numbers, so that for example flips and crops"
            " always come together."
        ),
    ),
    Mutation(
        "tasks/records/column_types/texts.py",
        'sorted({**dict.fromkeys(gone.tolist(), "missing"), **cast.bad}.items())',
        "sorted(cast.bad.items())",
        "test_convert_parts.py test_evaluate_tagging.py test_init_tags.py test_convert_kinds.py",
        "Rows with a missing word are not reported as bad, but are converted with an empty word in its place.",
    ),
    Mutation(
        "tasks/records/near/search.py",
        "    members |= _repeated(spills, hash_of(compared.column))\n",
        "",
        "test_convert_near_duplicates.py test_convert_parts.py",
        (
            "Examples with the very same text or image but other columns are no near-duplicates, and leak"
            " from train into test."
        ),
    ),
    Mutation(
        "tasks/reader/texts.py",
        'plain(value[: (length + 1) * CHARACTERS], state["lowercase"]) for value in values',
        "value[: (length + 1) * CHARACTERS] for value in values",
        (
            "test_transform_reader.py test_transform_parts.py test_transform_fitting.py test_export_raw.py"
            " test_snapshot_tokens.py"
        ),
        (
            "With lowercase: true capital letters become unknown or rare tokens, in training and in serving,"
            " though the tokenizer knows small ones alone."
        ),
    ),
    Mutation(
        "tasks/snapshots/tokens.py",
        '    if rows.packing == "best_fit":\n        tokens["packing"] = rows.packing\n',
        "",
        "test_snapshot_tokens.py test_snapshot_packing.py test_snapshot_parts.py",
        (
            "With packing: best_fit the model's automatic document mask stays off, and attention crosses the"
            " documents of a row."
        ),
    ),
    Mutation(
        "tasks/sources/sql.py",
        (
            '        if sha.hexdigest() != sha256:\n            rule = "a source must not change while it is'
            ' read"\n            raise Failed("source.query", "other rows than a moment ago", rule, "run'
            ' again, or select from a snapshot")\n'
        ),
        "",
        "test_source_sql.py test_source_parts.py",
        (
            "A table that changes while it is read is converted without an error, to records whose digest is"
            " that of other rows."
        ),
    ),
    Mutation(
        "tasks/snapshots/transforms/statistics.py",
        "self.squares + squares + delta**2 * (self.count * count / total)",
        "self.squares + squares",
        (
            "test_transform_fitting.py test_snapshot_table.py test_transform_edges.py test_transform_parts.py"
            " test_transform_values.py"
        ),
        (
            "Variances of data of several batches with other means are too small, so that standardised inputs"
            " and targets are scaled wrongly."
        ),
    ),
    Mutation(
        "tasks/guess/candidates.py",
        "            and np.array_equal(lengths_of(lists[name]), lengths_of(lists[words]))\n",
        "",
        "test_init_tags.py test_init_guesses.py",
        (
            "`millrace init` takes a column of lists of other lengths for the tags of words, and writes a"
            " preset that cannot be converted."
        ),
    ),
    Mutation(
        "tasks/evaluation/multiple_testing.py",
        "np.minimum(np.maximum.accumulate(p_values[order] * factors), 1.0)",
        "np.minimum(p_values[order] * factors, 1.0)",
        "test_compress_gates.py test_evaluate_slices.py test_evaluate_fine_print.py test_evaluate_unequal_parts.py",
        (
            "Adjusted p-values fall where they must not, so that gates pass and slices or groups count as"
            " beyond chance too often."
        ),
    ),
    Mutation(
        "tasks/evaluation/gating.py",
        "subject.measures.get(self.metric)",
        "subject.measures.get(self.metric, 0.0)",
        "test_compress_gates.py test_promote_edges.py test_compress_verdicts.py test_promote_gates.py",
        "A gate on memory passes with 0 bytes where memory was not measured, instead of being undecided.",
    ),
    Mutation(
        "tasks/evaluation/probes.py",
        "(0, self.sigma, self.sigma, 0)",
        "(0, self.sigma, self.sigma, self.sigma)",
        "test_evaluate_probes.py test_golden_draws.py",
        "The robustness probe blur mixes the colours of an image too, so that its drop is not that of a blur.",
    ),
    Mutation(
        "tasks/exporting/score.py",
        "np.array([known[name] for name in of_records])",
        "np.arange(len(of_records))",
        "test_export_works.py test_export_unequal_parts.py test_evaluate_tagging.py",
        (
            "A champion with its classes in another order is scored with wrong labels on new records, so that"
            " a worse version replaces it."
        ),
    ),
    Mutation(
        "tasks/exporting/export.py",
        (
            '    if found.figures["raw_differs"]:\n        return f"its graph makes another {\','
            " '.join(found.figures['raw_differs'])} of raw columns than the snapshot has\"\n"
        ),
        "",
        "test_export_parts.py test_export_works.py test_export_unequal_parts.py",
        "A SavedModel whose graph preprocesses raw columns otherwise than the training did is exported without a word.",
    ),
    Mutation(
        "tasks/models/layers/__init__.py",
        'ops.sum(ops.cast(vectors(inputs), "float32") * present, axis=1, keepdims=True)',
        'ops.sum(ops.cast(vectors(inputs), "float32"), axis=1, keepdims=True)',
        "test_model_parts.py test_train_step.py test_model_padding.py",
        (
            "The vector of a text depends on how much padding follows it, so that predictions differ with the"
            " length of the row."
        ),
    ),
    Mutation(
        "tasks/compression/keras_layers.py",
        '{"kernel_size": 1, "strides": 1, "dilation_rate": 1, "padding": "valid"}',
        '{"kernel_size": 1, "dilation_rate": 1, "padding": "valid"}',
        "test_compress_trains.py test_compress_parts.py test_compress_unequal_parts.py",
        (
            "low_rank of a convolution with strides applies them twice: the model fails to build, or has"
            " other feature maps and is worse."
        ),
    ),
    Mutation(
        "tasks/training/fit.py",
        "{**engine.weights(), **best.best()}",
        "{**best.best(), **engine.weights()}",
        "test_train_ends_and_continues.py test_train_seeds.py test_train_checkpoints.py test_train_decides.py",
        "With train.select: best the model has the last weights and not the best ones.",
    ),
    Mutation(
        "tasks/training/memory.py",
        "hardware.available() // bench.hosts.count(bench.hosts[bench.rank])",
        "hardware.available()",
        "test_train_memory.py test_train_group.py test_train_decides.py",
        (
            "Several processes of a host each count on all of its memory, and fit_memory chooses steps for"
            " which the system kills one."
        ),
    ),
    Mutation(
        "tasks/training/checkpoints.py",
        "names.add(min(losses, key=lambda name: losses[name]))",
        "names.add(max(losses, key=lambda name: losses[name]))",
        "test_train_ends_and_continues.py test_train_engine_door.py test_train_checkpoints.py test_train_decides.py",
        "train.checkpoint.keep_best keeps the checkpoint with the highest validation loss and deletes the best.",
    ),
    Mutation(
        "tasks/training/engines/tensorflow/step.py",
        "tf.maximum(norm, self.clip_norm)",
        "tf.maximum(norm, 1e-9)",
        "test_train_step.py test_train_options.py test_train_optimizers.py test_train_init.py",
        (
            "With train.clip_norm small gradients are enlarged to that norm at every step, so that the"
            " training does not settle."
        ),
    ),
    Mutation(
        "tasks/models/architectures/user_models.py",
        "        if getattr(type(model), name) is not getattr(keras.Model, name):\n",
        "        if name in vars(model):\n",
        "test_model_import.py",
        "A class with a train_step of its own is trained by another loss, and nobody says so.",
    ),
    Mutation(
        "tasks/sources/kinds/columns.py",
        'for field in ("targets", "outputs") for name',
        'for field in ("targets",) for name',
        "test_train_several_outputs.py",
        "A column that a further output predicts is an input of the model.",
    ),
    Mutation(
        "tasks/training/engines/tensorflow/several_outputs.py",
        '            total += weight * others[f"{name}/loss"]\n',
        '            total += others[f"{name}/loss"]\n',
        "test_train_several_outputs.py",
        "The weights of further losses change nothing.",
    ),
    Mutation(
        "tasks/training/engines/tensorflow/several_outputs.py",
        "weighted_sum([scored.losses], self.weights)",
        "weighted_sum([scored.losses], scored.weights)",
        "test_train_several_outputs.py",
        "Class weights count for the main output alone, and the gradient is divided by other weights.",
    ),
    Mutation(
        "tasks/training/meter.py",
        'name == TOTAL or name.endswith("/loss")',
        "name == TOTAL",
        "test_train_several_outputs.py",
        "Curves of a further loss are divided by a count where examples have weights.",
    ),
    Mutation(
        "tasks/evaluation/further.py",
        "initial=output_size(examples.features))",
        "initial=0)",
        "test_train_several_outputs.py",
        "A further output is judged by the numbers of the main one.",
    ),
    Mutation(
        "tasks/models/outputs.py",
        "keras.Model(model.input, parts[0], name=model.name)",
        "keras.Model(model.input, parts[-1], name=model.name)",
        "test_train_several_outputs.py",
        "Exports answer with a further output in place of the main one.",
    ),
    Mutation(
        "tasks/exporting/verify.py",
        "answers += [(results[name] * scales[name]",
        "answers = answers or [(results[name] * scales[name]",
        "test_train_several_outputs.py",
        "A further output of an export that differs from Keras' is not noticed.",
    ),
    Mutation(
        "tasks/records/column_types/numbers.py",
        'in ("target", "output", "weight")',
        'in ("target", "weight")',
        "test_train_several_outputs.py",
        "A missing number of a further output becomes a target that is not a number.",
    ),
    Mutation(
        "tasks/reader/own_modules.py",
        'module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _import_in(self._folder)}',
        'module.__dict__["__builtins__"] = vars(builtins)',
        "test_own_modules.py",
        "Code of a project with a package called tasks gets Millrace's instead of its own.",
    ),
    Mutation(
        "tasks/reader/own_modules.py",
        "if _others_have(fullname, self._folder) if path is None else LOADED",
        "if False if path is None else LOADED",
        "test_own_modules.py",
        "While code of a project is imported, installed packages get its modules instead of their own.",
    ),
    Mutation(
        "tasks/reader/own_modules.py",
        "if LOADED.get(here, folder) != folder:",
        "if False:",
        "test_own_modules.py test_transform_edges.py",
        "The model is built by the module of that name in another folder, that of an earlier model.",
    ),
    Mutation(
        "infra/deployments.py",
        '        if (TAG in row["tags"]) != (file.name == SCHEDULES):\n            continue\n',
        "",
        "test_platform_fine_print.py",
        "A schedule that somebody switched off in Prefect is on again after a schedule of the home was installed.",
    ),
    Mutation(
        "infra/deployments.py",
        'removed = [row for name, row in named(layout) if TAG in row["tags"] and name not in kept]',
        "removed = [row for name, row in named(layout) if name not in kept]",
        "test_platform_fine_print.py",
        "`millrace up` deletes the deployments of prefect.yaml.",
    ),
    Mutation(
        "flows/commands/schedule.py",
        "if (first := first + STEP) < end:",
        "if (first := first + STEP) > end:",
        "test_schedule_times.py",
        "A time that the clocks of the zone skip is accepted without a word, and is run an hour earlier.",
    ),
    Mutation(
        "flows/commands/forget.py",
        "if version.version in champions:",
        "if False:",
        "test_forget.py",
        "`millrace forget` deletes a version that was champion, and a rollback to it fails.",
    ),
    Mutation(
        "tasks/runs/collection.py",
        "runs = [run for run in find_runs(self.home) if run.run_id not in self._without]",
        "runs = [] if self._without else find_runs(self.home)",
        "test_forget.py",
        "`millrace forget` deletes the artifacts that other runs, a release among them, use as well.",
    ),
    Mutation(
        "flows/commands/forget.py",
        'if not held.enter_context(try_lock(run.folder / "lock")):',
        "if False:",
        "test_forget.py",
        "`millrace forget` deletes a run while a process works on it.",
    ),
    Mutation(
        "infra/deployments.py",
        'if ask(layout, "POST", "/flow_runs/count", at_work):',
        "if False:",
        "test_platform_fine_print.py",
        "A run that is at work when its schedule is removed cannot end: Prefect counts it as crashed.",
    ),
    Mutation(
        "tasks/training/meter.py",
        'weights, minimised = call.sums["weight"], call.sums.get(TOTAL, call.sums["loss"])',
        'weights, minimised = call.sums["weight"], call.sums["loss"]',
        "test_train_spikes.py::test_of_several_outputs_the_sum_that_is_minimised_is_judged",
        "With train.on_spike a further output may diverge, and no training goes back.",
    ),
    Mutation(
        "tasks/exporting/prediction.py",
        'answer.setdefault("further", {})[about["column"]] = ROWS[about["task"]](row, about)',
        'answer.setdefault("further", {})[about["column"]] = ROWS[transform["task"]](row, about)',
        "test_train_several_outputs.py",
        "`millrace predict` answers for a further class as for the number of the main output.",
    ),
    Mutation(
        "tasks/view/worst.py",
        'reader.example("test", int(rows.pieces("test", row)[0, 0]))',
        'reader.example("test", row)',
        "test_page_reads_well.py",
        "The page shows the columns of other rows than those that were predicted wrong.",
    ),
    Mutation(
        "tasks/view/attempts.py",
        'number + 1 < len(listed) else float("inf")',
        'False else float("inf")',
        "test_page_reads_well.py",
        "The time of a killed attempt has that of all later ones in it.",
    ),
    Mutation(
        "tasks/view/columns.py",
        "> 100 * ROUGH * max(abs(low), abs(high))",
        "> 0",
        "test_page_reads_well.py",
        "Times of a day are shown as dates that no row has, as the profile rounds them.",
    ),
    Mutation(
        "tasks/view/settings.py",
        "if (inner := chosen(own, usual)) or type(own) is not type(usual):",
        "if inner := chosen(own, usual):",
        "test_page_reads_well.py",
        "A section that was set with its defaults, such as early stopping, is not among what was set.",
    ),
    Mutation(
        "tasks/view/try_it.py",
        "Path(found).samefile(own)",
        "True",
        "test_next_commands_work.py",
        "The command that a run names is that of another environment, which happens to be on the path.",
    ),
    Mutation(
        "tasks/view/try_it.py",
        'or any("file" in column or _shifted(column) for column in columns)',
        "",
        "test_next_commands_work.py",
        "The example that a run names has numbers from which the offset is subtracted twice.",
    ),
    Mutation(
        "tasks/view/headline.py",
        "before is None or path.parent.name < before",
        "True",
        "test_headlines.py",
        "A run is compared with itself or a later one, and all are called alike.",
    ),
    Mutation(
        "flows/running.py",
        "Cancelled(name=STOPPED, message=message, data=stop)",
        "Crashed(message=message, data=stop)",
        "test_headlines.py",
        "A run that was stopped with Ctrl-C, and saved, is called Crashed in Prefect.",
    ),
    Mutation(
        "infra/automations.py",
        "for state in (*STATES, *OWN_STATES)",
        "for state in STATES",
        "test_page_unequal_parts.py",
        "A flow run that was stopped counts as dead after some minutes, and somebody is told so.",
    ),
    Mutation(
        "tasks/training/event_file.py",
        "if (value.tag, event.step) not in self._written",
        "if True",
        "test_train_board.py",
        "TensorBoard shows points of a resumed training twice.",
    ),
    Mutation(
        "tasks/training/event_file.py",
        "for file in () if anew else old:",
        "for file in ():",
        "test_train_board.py",
        "A training that is resumed loses its curves in TensorBoard.",
    ),
    Mutation(
        "tasks/training/board.py",
        'if each.dtype.kind not in "iub"',
        "if True",
        "test_train_board.py",
        "TensorBoard has histograms of the state of random numbers among those of the weights.",
    ),
    Mutation(
        "tasks/training/engines/tensorflow/segmented_steps.py",
        "else min(to_the_end - 1, micro_batches)",
        "else min(to_the_end, micro_batches)",
        "test_train_pipeline.py",
        "A stage of a pipeline keeps the activations of one micro-batch more than it needs.",
    ),
    Mutation(
        "tasks/training/engines/tensorflow/segmented_steps.py",
        "                graph.experimental_acd_manager.run_independently(operation)\n",
        "",
        "test_train_pipeline.py",
        "With a function of Python's in its stages, a pipeline runs them one after the other.",
    ),
    Mutation(
        "tasks/training/engines/tensorflow/segmented_steps.py",
        "                operation._add_control_inputs(self._stateful)\n",
        "",
        "test_train_pipeline.py",
        "Functions with side effects are called in another order in each run, and no training repeats.",
    ),
    Mutation(
        "tasks/training/engines/tensorflow/strategies/pipeline.py",
        "values = summed(values, processes, STAGES_KEY + number, instance=1)",
        "values = values if number else summed(values, processes, STAGES_KEY + number, instance=1)",
        "test_train_pipeline.py",
        "Of several pipelines each trains the later stages by its own examples alone.",
    ),
    Mutation(
        "tasks/compression/config.py",
        "if method.adds_loss and not train.strategy.adds_losses:",
        "if False:",
        "test_compress_trains.py",
        "A student of a pipeline learns nothing from its teacher.",
    ),
]

LISTS = {"first": FIRST, "second": SECOND, "third": THIRD, "fourth": FOURTH, "fifth": FIFTH, "sixth": SIXTH}


def main() -> int:
    """Print each verdict as it is known, then a table by package; 1 where a fault survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="PACKAGE", help="a folder, or the beginning of a path")
    parser.add_argument("--list", choices=LISTS, help="one list; all by default")
    parser.add_argument("--trust", action="store_true", help="do not first see the tests pass without a fault")
    parser.add_argument("--quick", action="store_true", help="without the tests that are marked slow")
    parser.add_argument("--jobs", type=int, default=2, help="copies that run tests at the same time (2)")
    options = parser.parse_args()
    chosen = [
        mutation
        for name, mutations in LISTS.items()
        if options.list in (None, name)
        for mutation in mutations
        if mutation.path.startswith(options.only)
    ]
    caught: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="millrace-mutations-") as folder:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(options.jobs):
            copies.put(Copy(Path(folder, str(number))))
        if not options.trust and not see_them_pass(copies, chosen, options.quick):
            return 1

        def run(mutation: Mutation) -> tuple[Mutation, str | None, float]:
            copy, started = copies.get(), time.monotonic()
            try:
                return mutation, copy.first_failure_with(mutation, options.quick), time.monotonic() - started
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(options.jobs) as pool:
            for done in as_completed([pool.submit(run, mutation) for mutation in chosen]):
                mutation, failure, seconds = done.result()
                caught[mutation.package] += failure is not None
                verdict = f"caught by {failure}" if failure else "SURVIVED"
                print(f"{seconds:4.0f} s  {mutation.path}: {mutation.user}\n        {verdict}", flush=True)
        for _ in range(options.jobs):
            copies.get().close()
    packages = Counter(mutation.package for mutation in chosen)
    print(f"\n{'package':<48} {'faults':>6} {'caught':>6} {'survived':>8}")
    for package in sorted(packages):
        print(f"{package:<48} {packages[package]:>6} {caught[package]:>6} {packages[package] - caught[package]:>8}")
    total, found = len(chosen), caught.total()
    print(f"{'all':<48} {total:>6} {found:>6} {total - found:>8}   {found / max(total, 1):.0%} caught")
    return int(found < total)


def see_them_pass(copies: SimpleQueue[Copy], chosen: list[Mutation], quick: bool) -> bool:
    """Whether the tests that are named pass without a fault: those that do not would find anything."""
    copy = copies.get()
    failure = copy.first_failure(sorted({name for mutation in chosen for name in mutation.tests.split()}), quick)
    if failure:
        print(copy.log.read_text(errors="replace")[-4000:], f"\n{failure} fails without a fault", sep="")
    copies.put(copy)
    return failure is None


if __name__ == "__main__":
    sys.exit(main())
