"""Builds pre-training data on Spark: spark-submit with_spark.py INPUT VOCAB OUTPUT [PARTS]"""

import sys

import bert_data
from pyspark.sql import SparkSession


def run(batches):
    for batch in batches:
        yield bert_data.run_batch(batch)


def build(spark: SparkSession, parts: int, output: str, **options) -> dict:
    for stage in "tokenize", "shards":
        tasks = bert_data.plan(stage, parts, output=output, **options)
        rows = [(task["part"], task["work"]) for task in tasks]
        # One task a partition, so that a lost executor costs one part.
        tasks = spark.createDataFrame(spark.sparkContext.parallelize(rows, parts), "part long, work string")
        receipts = tasks.mapInArrow(run, "part long, count long, seconds double").collect()
        assert sorted(receipt.part for receipt in receipts) == list(range(1, parts + 1)), receipts
    return bert_data.commit(output)


if __name__ == "__main__":
    source, vocab, output, *rest = sys.argv[1:]
    spark = SparkSession.builder.appName("make-pretrain-data").getOrCreate()
    manifest = build(spark, int(rest[0]) if rest else 16, output, input=[source], vocab=vocab)
    print(f"{manifest['instances']} instances in {len(manifest['shards'])} shards")
