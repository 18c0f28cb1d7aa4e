from __future__ import annotations

from headstream.spark.replicate.apply.plan import plan_merge, quote_name


def test_quote_name_doubles_the_quote() -> None:
    assert quote_name("order `date`") == "`order ``date```"


def test_plan_merge_guards_every_action_by_the_change_sequence() -> None:
    plan = plan_merge(["id", "name"], ["id", "name"], ["id"], versioned=False)
    assert plan.predicate == "t.`id` = s.`id`"
    assert plan.delete_when == "s._hs_delete AND s._hs_sequence > t._hs_sequence"
    assert plan.update_when == "NOT s._hs_delete AND s._hs_sequence > t._hs_sequence"
    assert plan.update == {"`name`": "s.`name`", "_hs_sequence": "s._hs_sequence"}
    assert plan.insert_when == "NOT s._hs_delete"
    assert set(plan.insert) == {"`id`", "`name`", "_hs_sequence", "_hs_versions"}


def test_plan_merge_leaves_columns_alone_that_the_changes_do_not_have() -> None:
    for versioned in (False, True):
        plan = plan_merge(["id", "gone", "name"], ["id", "name"], ["id"], versioned=versioned)
        assert "`gone`" not in plan.update
        assert "`gone`" not in plan.insert


def test_plan_merge_reads_only_where_keys_of_changes_can_be() -> None:
    plan = plan_merge(["a", "b", "v"], ["a", "b", "v"], ["a", "b"], versioned=False, where=["t.`a` BETWEEN -3 AND 9"])
    assert plan.predicate == "t.`a` = s.`a` AND t.`b` = s.`b` AND t.`a` BETWEEN -3 AND 9"


def test_plan_merge_compares_column_by_column_when_versions_differ() -> None:
    plan = plan_merge(["id", "name"], ["id", "name"], ["id"], versioned=True)
    assert "t._hs_versions IS NOT NULL" in plan.update_when
    assert plan.update["`name`"].startswith("CASE WHEN")
    assert plan.update["_hs_versions"].startswith("concat(")


def test_plan_merge_compares_many_columns_without_a_deep_expression() -> None:
    names = [f"c{number}" for number in range(300)]
    plan = plan_merge(["id", *names], ["id", *names], ["id"], versioned=True)
    depth = deepest = 0
    for character in plan.update_when:
        depth += {"(": 1, ")": -1}.get(character, 0)
        deepest = max(deepest, depth)
    assert depth == 0
    assert deepest < 20
    assert plan.update_when.count(" OR ") == 301
