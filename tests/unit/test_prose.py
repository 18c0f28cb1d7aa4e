"""The rules of tools/prose.toml find what they should, and nothing else."""

from __future__ import annotations

import pytest
from tools.check_prose import RULES, Rule, find_breaches


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule_finds_its_bad_example_and_passes_its_good_one(rule: Rule) -> None:
    where = next(iter(rule.where))
    assert rule in {finding.rule for finding in find_breaches(where, "here", rule.bad)}
    assert [finding for finding in find_breaches(where, "here", rule.good) if finding.rule == rule] == []


def test_find_breaches_applies_a_rule_only_where_it_holds() -> None:
    assert [finding.rule.name for finding in find_breaches("options", "here", "Why.")] == ["bare word"]
    assert list(find_breaches("docs", "here", "Why.")) == []
    assert list(find_breaches("docs", "here", "For those who write jobs.")) == []
