"""Make docs/monitoring/headstream-dashboard.json, for Grafana, from dashboard.toml: tools/make_dashboard.py [--check]"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

PLOTS: Final = Path(__file__).with_name("dashboard.toml")
DASHBOARD: Final = Path(__file__).parents[1] / "docs/monitoring/headstream-dashboard.json"
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_HEIGHT, _WIDTH, _COLUMNS = 8, 8, 24
_SELECTORS: Final = {"{server": '{instance=~"$instance"', "{pipeline": '{job=~"$job"', "[rate]": "[$__rate_interval]"}


def make() -> str:
    """Return the dashboard as JSON."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row, plots in tomllib.loads(PLOTS.read_text("utf-8")).items():
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": row,
                "collapsed": False,
                "panels": [],
                "gridPos": _place(top, 0, _COLUMNS, 1),
            }
        )
        top += 1
        for number, plot in enumerate(plots):
            line, column = divmod(number, _COLUMNS // _WIDTH)
            panels.append(_panel(plot, len(panels) + 1, _place(top + line * _HEIGHT, column * _WIDTH, _WIDTH, _HEIGHT)))
        top += -(-len(plots) // (_COLUMNS // _WIDTH)) * _HEIGHT
    variables = [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
        _variable("instance", "Server", "label_values(headstream_start_time_seconds, instance)"),
        _variable("job", "Pipeline's job", "label_values(headstream_replicate_running, job)"),
    ]
    document = {
        "title": "Headstream",
        "uid": "headstream",
        "description": "A Headstream server and Replicate pipelines.",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables},
        "panels": panels,
    }
    return json.dumps(document, indent=1) + "\n"


def _place(top: int, left: int, width: int, height: int) -> dict[str, int]:
    return {"x": left, "y": top, "w": width, "h": height}


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    shared = {"type": "query", "datasource": _SOURCE, "includeAll": True, "allValue": ".*", "multi": True, "refresh": 2}
    return {"name": name, "label": label, "query": query, "current": {"text": "All", "value": "$__all"}, **shared}


def _panel(plot: dict[str, Any], number: int, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + at), "datasource": _SOURCE, "expr": _select(query), "legendFormat": legend}
        for at, (legend, query) in enumerate(plot["queries"].items())
    ]
    return {
        "id": number,
        "type": "timeseries",
        "title": plot["title"],
        "description": plot["text"],
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": plot["unit"], "min": 0}, "overrides": []},
        "targets": targets,
    }


def _select(query: str) -> str:
    for short, selector in _SELECTORS.items():
        query = query.replace(short, selector)
    return query


def main(arguments: list[str]) -> int:
    """Write the dashboard, or return 1 if the written one is another."""
    made = make()
    if "--check" in arguments:
        if DASHBOARD.read_text("utf-8") == made:
            return 0
        sys.stderr.write(f"{DASHBOARD.name} is out of date: run python tools/make_dashboard.py\n")
        return 1
    DASHBOARD.parent.mkdir(exist_ok=True)
    DASHBOARD.write_text(made, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
