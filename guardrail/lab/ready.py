"""Has Prometheus seen enough of the lab for a 5-second rate to mean something, and is all well?"""

import http.client
import json
from typing import Any
from urllib.parse import urlencode

from guardrail.lab.health import fetch
from guardrail.lab.layout import SERVICE, Layout

DEMAND = "max(rate(lab_scatter_total[5s]) / lab_db_capacity)"
SUCCESS = "sum(rate(lab_boots_ok_total[5s])) / sum(rate(lab_boots_total[5s]))"

# The hosts' exporters say nothing of the load: a lab is steady without them.
TARGETS = 'count(up{job!="exporter"} == 1)'
OWN_TARGETS = 3
# Between the healthy 0.05 to 0.21 and the tipping point at 1; a gate holds from 0.7.
STEADY_DEMAND = 0.5
STEADY_SUCCESS = 0.9
CALM_DEMAND = 0.25


def instant(layout: Layout, query: str) -> list[dict[str, Any]]:
    """The result of one instant query; raises OSError or ValueError."""
    address, _, port = layout.prometheus_url.removeprefix("http://").partition(":")
    body = json.loads(fetch(address, int(port), f"/api/v1/query?{urlencode({'query': query})}"))
    result = body["data"]["result"]
    if not isinstance(result, list):
        raise ValueError(f"{query} gives no vector")
    return result


def value(layout: Layout, query: str) -> float | None:
    """The query's one value; None when it has none or several."""
    result = instant(layout, query)
    return float(result[0]["value"][1]) if len(result) == 1 else None


def all_pass(layout: Layout) -> bool:
    """The Consul servers list every host's service with all its checks passing.

    An agent that was killed and started again is "failed" to the servers for a few seconds more.
    """
    path = f"/v1/health/service/{SERVICE}?passing"
    try:
        nodes = json.loads(fetch(layout.consul_address, 8500, path))
        return len({node["Node"]["Node"] for node in nodes}) == layout.count
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return False


def is_steady(layout: Layout, rate: float, most: float = STEADY_DEMAND) -> bool:
    """All targets are up, the last 5 s and more were scraped at this load, and it is served.

    most: of what the database can do, the share that is wanted of it is below that.
    """
    unbroken = f"count_over_time(lab_lambda[6s]) and min_over_time(lab_lambda[6s]) == {rate}"
    try:
        targets, scrapes = value(layout, TARGETS), value(layout, unbroken)
        demand, success = value(layout, DEMAND), value(layout, SUCCESS)
    except (OSError, http.client.HTTPException, ValueError, KeyError):
        return False
    if scrapes is None or demand is None or success is None:
        return False
    full = targets == layout.count + OWN_TARGETS and scrapes >= 5
    return full and demand < most and success > STEADY_SUCCESS
