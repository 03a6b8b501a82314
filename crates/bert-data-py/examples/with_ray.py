"""Builds pre-training data on Ray Data: python with_ray.py INPUT VOCAB OUTPUT [PARTS]"""

import sys
import time

import bert_data
import pyarrow as pa
import ray


def run(tasks: pa.Table) -> pa.Table:
    for wait in 1, 5, 25, None:
        try:
            return pa.Table.from_batches([bert_data.run_batch(batch) for batch in tasks.to_batches()])
        except OSError:  # It may pass. What Ray itself tries again are workers that died.
            if wait is None:
                raise
            time.sleep(wait)


def build(parts: int, output: str, **options) -> dict:
    for stage in "tokenize", "shards":
        tasks = bert_data.plan(stage, parts, output=output, **options)
        # One task a block, so that a lost worker costs one part.
        blocks = ray.data.from_items(tasks, override_num_blocks=parts)
        receipts = blocks.map_batches(run, batch_format="pyarrow", batch_size=1).take_all()
        assert sorted(receipt["part"] for receipt in receipts) == list(range(1, parts + 1)), receipts
    return bert_data.commit(output)


if __name__ == "__main__":
    source, vocab, output, *rest = sys.argv[1:]
    manifest = build(int(rest[0]) if rest else 16, output, input=[source], vocab=vocab)
    print(f"{manifest['instances']} instances in {len(manifest['shards'])} shards")
