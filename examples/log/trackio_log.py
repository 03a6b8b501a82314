"""Sends the log of a run to trackio: pretrain ... --log-command 'python examples/log/trackio_log.py PROJECT'"""

import json
import sys

import trackio

started = False
for line in sys.stdin:
    record = json.loads(line)
    if "settings" in record:
        trackio.init(project=sys.argv[1], name=record["name"], config=record["settings"])
        started = True
    elif "values" in record:
        trackio.log(record["values"], step=record["step"])
if started:
    trackio.finish()
