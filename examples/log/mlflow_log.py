"""Sends the log of a run to MLflow: pretrain ... --log-command 'python examples/log/mlflow_log.py EXPERIMENT'"""

import json
import sys

import mlflow

mlflow.set_experiment(sys.argv[1])
with mlflow.start_run() as run:
    for line in sys.stdin:
        record = json.loads(line)
        if "settings" in record:
            mlflow.set_tag("mlflow.runName", record["name"])
            mlflow.log_dict(record["settings"], "settings.json")
        elif "values" in record:
            mlflow.log_metrics(record["values"], step=record["step"])
