"""Sends the log of a run to Weights & Biases: pretrain ... --log-command 'python examples/log/wandb_log.py PROJECT'"""

import json
import sys

import wandb

run = None
for line in sys.stdin:
    record = json.loads(line)
    if "settings" in record:
        run = wandb.init(project=sys.argv[1], name=record["name"], config=record["settings"])
        run.define_metric("*", step_metric="step")
    elif "values" in record:
        run.log({**record["values"], "step": record["step"]})
if run is not None:
    run.finish()
