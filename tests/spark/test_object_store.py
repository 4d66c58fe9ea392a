"""Tasks reach the object store that the driver reaches."""

from __future__ import annotations

from gamlp.io import Place
from gamlp.spark.tasks import run_tasks


def test_a_task_writes_what_the_driver_reads(spark, s3_bucket):
    place = Place.of(s3_bucket) / "answers"

    def work(number):
        (place / f"{number}").put(b"x" * number)
        return {"read": len((place / f"{number}").read())}

    assert [result["read"] for result in run_tasks(spark, work, [3, 5])] == [3, 5]
    assert place.names() == ["3", "5"]
    assert (place / "5").size() == 5
