"""The alert on a split fires for whatever a version fails with, and not for a handful of requests."""

import shutil
import subprocess
from pathlib import Path

import pytest

ALERTS = Path(__file__).parents[2] / "backend" / "deploy" / "alerts.yml"
FAILING = 'dogsnap_requests_total{model="m",version="2",outcome="FAILED_PRECONDITION"}'
TEST = """
rule_files: [%s]
tests:
  - interval: 1m
    input_series:
      - {series: '%s', values: '0+%dx30'}
      - {series: 'dogsnap_requests_total{model="m",version="1",outcome="OK"}', values: '0+2280x30'}
      - {series: 'dogsnap_split_share{model="m",label="",version="2"}', values: '0.05x30'}
    promql_expr_test:
      - expr: count(ALERTS{alertname="DogsnapSplitFails",alertstate="firing"})
        eval_time: 20m
        exp_samples: [%s]
"""


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool of Prometheus is missing")
@pytest.mark.parametrize(("per_minute", "fires"), [(18, True), (1, False)])
def test_a_split_that_fails_fires_with_enough_requests(tmp_path, per_minute, fires):
    samples = "{labels: '{}', value: 1}" if fires else ""
    file = tmp_path / "test.yml"
    file.write_text(TEST % (ALERTS, FAILING, per_minute, samples))
    done = subprocess.run(
        ["promtool", "test", "rules", file], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
