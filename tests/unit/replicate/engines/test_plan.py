from __future__ import annotations

from headstream.replicate.engines.plan import plan_merge, quote_name


def test_quote_name_doubles_the_quote() -> None:
    assert quote_name("order `date`") == "`order ``date```"


def test_plan_merge_guards_every_action_by_the_change_sequence() -> None:
    plan = plan_merge(["id", "name"], ["id"])
    assert plan.predicate == "t.`id` = s.`id`"
    assert plan.delete_when == "s._hs_delete AND s._hs_sequence > t._hs_sequence"
    assert plan.update_when == "NOT s._hs_delete AND s._hs_sequence > t._hs_sequence"
    assert plan.update == {"`name`": "s.`name`", "_hs_sequence": "s._hs_sequence"}
    assert plan.insert_when == "NOT s._hs_delete"
    assert set(plan.insert) == {"`id`", "`name`", "_hs_sequence", "_hs_versions"}


def test_plan_merge_writes_versions_when_a_row_of_the_table_may_have_some() -> None:
    assert plan_merge(["id", "name"], ["id"], versioned=True).update["_hs_versions"] == "s._hs_versions"


def test_plan_merge_lets_resolved_rows_take_effect_in_any_case() -> None:
    plan = plan_merge(["id", "name"], ["id"], resolved=True)
    assert plan.delete_when == "s._hs_delete AND (s._hs_resolved OR s._hs_sequence > t._hs_sequence)"
    assert plan.update_when == "NOT s._hs_delete AND (s._hs_resolved OR (s._hs_sequence > t._hs_sequence))"


def test_plan_merge_reads_only_where_keys_of_changes_can_be() -> None:
    plan = plan_merge(["a", "b", "v"], ["a", "b"], where=["t.`a` BETWEEN -3 AND 9"])
    assert plan.predicate == "t.`a` = s.`a` AND t.`b` = s.`b` AND t.`a` BETWEEN -3 AND 9"
