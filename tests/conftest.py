"""Strict numerics for the whole session: what JAX would promote or reuse in silence is an error here.

The tests compile hundreds of small programs and run each for moments, so the compiler is told not to optimise and to
leave out the fusion emitters, which take half of its time.
"""

import os
import re

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
)

import jax
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_debug_key_reuse", True)


# Cases of large matrices whose neighbours stay in the default run, and long statistical ones. ``-m slow`` runs them.
SLOW = re.compile(
    r"test_graph_metrics.py::test_published_rows\[(sbm|planar|tree)\]"
    r"|test_graph.py::test_a_class_that_is_not_bridge_addable"
    r"|test_graph.py::test_approximate_tiers_deviate_little\[(regular|girth)\]"
    r"|test_graph.py::test_trees_follow_their_weights"
    r"|test_model_specs.py::test_shipped_specs\[(trastuzumab|coiled_coil_homodimer)"
    r"|test_model_specs.py::test_goals_about_a_models_own_labels"
    r"|test_planner_law.py::test_many_reverse_steps_approach_the_law\[(?!Ancestral-absorbing)"
    r"|test_loop.py::test_designs_depend_on_seed_and_row_only\[(?!EntropyBound\])"
    r"|test_planners.py::test_only_open_positions_whatever_the_padding\[(?!entropy_bound|random|remdm\]|p2)"
    r"|test_training.py::test_loss_falls\[(?!muon-\{'objective': 'masked')"
    r"|test_scorer.py::test_a_fitted_scorer"
    r"|test_speculative.py::test_the_law_is_that_of_one_position_at_a_time\[(own drafts-4|drafter-4)"
    r"|test_templates.py::test_automaton_check_and_words_agree"
    r"|test_sums_and_links.py::test_designs_obey\[items1-30"
    r"|test_goals.py::test_particles_against_enumeration\[(joint-16|independent-8)"
    r"|test_guidance.py::test_a_(regressor|classifier)_learns"
    r"|test_target.py::test_options_reach_the_network"
    r"|test_mpnn.py::test_padding_does_not_matter\[ligand\]"
    r"|test_dna.py::test_windows_go_to_the_solver"
    r"|test_quality.py::test_speculation_counts"
    r"|(test_pages.py::test_tutorial|test_site.py::test_the_site_builds)"  # .ci/run names them
    r"|test_pages.py::test_python_of_pages_runs\[howto"
    r"|test_scale.py::test_(a_run_that_was_killed|devices)"  # .ci/run names them
    r"|test_training.py::test_(a_run_that_was_cut|fine_tuning)"
    r"|test_satisfaction.py::test_every_planner_process_and_tier\[.*hybrid"
    r"|test_other_tiers.py::test_every_design_obeys\[.*(gibbs|maskgit)"
    r"|test_loop.py::test_two_devices"  # .ci/run names it
    r"|test_objectives.py::test_sampled_bounds_are_unbiased"
    r"|test_distinct.py::test_rows_that_run_out_of_branches_go_to_the_host\[True"
    r"|test_program.py::test_infeasible_sets_name_a_minimal_clash\[items1"
    r"|test_sums_and_links.py::test_weights_of_tied"
    r"|test_graph.py::test_everything_drawn_obeys\[(outerplanar\+k_connected|planar\+degree)"
    r"|test_gumbel.py::test_rare_letters"  # .ci/run names it
    r"|test_satisfaction.py::test_small_worlds"
    r"|test_goals.py::test_(host_and_compiled|particles_against_enumeration\[joint)"
    r"|test_graph_metrics.py::test_true_law_scores_the_floor\[tree"
    r"|test_speculative.py::test_the_law_is_that_of_one_position_at_a_time\[own drafts-2"
    r"|test_graph.py::test_vetted_letters_are_those_with_a_completion\[\[.*(C4|hosts)"
    r"|test_planners.py::test_ties_break_at_random"
    r"|test_sampling_spec.py::test_designs_with_particles_goals_and_drafts"
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]):
    """Mark the slow cases."""
    for item in items:
        if SLOW.search(item.nodeid):
            item.add_marker(pytest.mark.slow)
